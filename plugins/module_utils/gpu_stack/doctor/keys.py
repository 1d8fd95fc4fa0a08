"""The keys by which apt trusts a repository, read from the keyrings themselves.

gpg is not on every host and creates a home directory; only the keys' fingerprints and the hashes
of their own signatures are needed, which are a few bytes of a keyring (RFC 4880).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import stat

from ..host import apt, dpkg
from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Iterable, Iterator

    from ..host.context import Context

CUDA = "EB693B3035CD5710E231E123A4B469963BF863CC"
CUDA_OLD = "AE09FE4BBD223A84B2CCFCE3F60F4B3D7FA2AF80"
CUDA_DEBIAN13 = "02182E60104FCDC26EAE1B8597A5D4CB8793F200"
TOOLKIT = "C95B321B61E88C1809C4F759DDCAE044F796ECB0"

# The signers of NVIDIA's repositories; other addresses are mirrors, whose signers are unknown.
SIGNERS = (
    (r"developer\.download\.nvidia\.com/compute/cuda/repos/debian13", CUDA_DEBIAN13),
    (r"developer\.download\.nvidia\.com/compute/cuda/repos/", CUDA),
    (r"developer\.download\.nvidia\.com/compute/machine-learning/repos/", CUDA_OLD),
    (r"nvidia\.github\.io/(libnvidia-container|nvidia-container-runtime|nvidia-docker)", TOOLKIT),
)
NVIDIA = re.compile(r"developer\.download\.nvidia\.com|nvidia\.github\.io|/var/cuda-repo-")

PUBLIC_KEY, SIGNATURE = 6, 2
# Certifications of a user id by its own key.
CERTIFICATIONS = (0x10, 0x11, 0x12, 0x13)
SHA1 = 2


def signer(uri: str) -> str | None:
    """The fingerprint that signs the repository at `uri`; None where it is not known."""
    return next((key for pattern, key in SIGNERS if re.search(pattern, uri)), None)


def binary(data: bytes) -> bytes:
    """The packets of a keyring, whether it is armored or not; b"" of what is neither."""
    if not data.lstrip().startswith(b"-----BEGIN"):
        return data
    decoded = b""
    for block in re.findall(rb"-----BEGIN[^\n]*\n(.*?)-----END", data, re.S):
        head, blank, body = block.replace(b"\r", b"").partition(b"\n\n")
        lines = (body if blank else head).split(b"\n")
        try:
            decoded += base64.b64decode(b"".join(line for line in lines if line[:1] != b"="))
        except binascii.Error:
            continue
    return decoded


def packets(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(tag, body) of each OpenPGP packet; ends at the first malformed one."""
    at = 0
    while at + 1 < len(data) and data[at] & 0x80:
        head = data[at]
        if head & 0x40:
            tag, size, start = head & 0x3F, data[at + 1], at + 2
            if size == 255:
                size, start = int.from_bytes(data[start : start + 4], "big"), start + 4
            elif size >= 224:
                return  # a partial length: no keyring has one
            elif size >= 192:
                size, start = ((size - 192) << 8) + data[start] + 192, start + 1
        else:
            width = 1 << (head & 3)
            if width == 8:
                return
            tag, start = (head >> 2) & 0xF, at + 1 + width
            size = int.from_bytes(data[at + 1 : start], "big")
        yield tag, data[start : start + size]
        at = start + size


def keys(data: bytes) -> dict[str, bool]:
    """{fingerprint: True where all its own certifications are made with SHA-1} of a keyring."""
    certifications: dict[str, list[int]] = {}
    current = None
    for tag, body in packets(binary(data)):
        if tag == PUBLIC_KEY and body[:1] == b"\x04":
            framed = b"\x99" + len(body).to_bytes(2, "big") + body
            current = hashlib.sha1(framed).hexdigest().upper()  # noqa: S324  RFC 4880, 12.2
            certifications[current] = []
        elif tag == SIGNATURE and current is not None and _certifies(body):
            certifications[current].append(body[3])
    return {key: bool(hashes) and set(hashes) == {SHA1} for key, hashes in certifications.items()}


def _certifies(body: bytes) -> bool:
    """True for a signature, of version 4, that binds a key to its user; not one of subkeys."""
    return len(body) > 3 and body[0] == 4 and body[1] in CERTIFICATIONS


def _option(entry: dict[str, Any], name: str) -> str | None:
    """An option of an apt entry, whose names apt takes in any case."""
    return next((v for key, v in entry["options"].items() if key.lower() == name), None)


def _inline(text: str) -> bytes:
    """A key inside a deb822 entry, in which an empty line is written as a dot."""
    lines = [line.strip() for line in text.splitlines()]
    return "\n".join("" if line == "." else line for line in lines).strip().encode()


def trusted(context: Context, entry: dict[str, Any]) -> dict[str, Any]:
    """{"files", "named", "keys"} by which apt believes an entry.

    `files`: the keyrings, those that are missing too. `named`: whether the entry says which.
    """
    value = _option(entry, "signed-by")
    if value is None:
        files = ["/etc/apt/trusted.gpg", *context.glob("/etc/apt/trusted.gpg.d/*")]
        files = [path for path in files if path.endswith((".gpg", ".asc"))]
        return {"files": files, "named": False, "keys": _all(context, files)}
    if "BEGIN PGP" in value:
        return {"files": [entry["file"]], "named": True, "keys": keys(_inline(value))}
    files = [word for word in re.split(r"[,\s]+", value) if word.startswith("/")]
    return {"files": files, "named": True, "keys": _all(context, files) if files else None}


def _all(context: Context, files: list[str]) -> dict[str, bool]:
    fingerprints = {}
    for path in files:
        fingerprints.update(keys(context.read_bytes(path) or b""))
    return fingerprints


def look(context: Context) -> list[dict[str, Any]]:
    """[{uri, suite, file, signer, files, named, missing, keys}] of NVIDIA's entries."""
    repositories = []
    for entry in context.apt_entries:
        for uri in entry["uris"]:
            if NVIDIA.search(uri) is None:
                continue
            trust = trusted(context, entry)
            repositories.append(
                dict(
                    trust,
                    uri=uri,
                    suite=" ".join(entry["suites"]),
                    file=entry["file"],
                    signer=signer(uri),
                    missing=[path for path in trust["files"] if not context.exists(path)],
                )
            )
    return repositories


# the fix of a repository named twice


def _without(text: str, file: str, uri: str, suites: Iterable[str]) -> str:
    """The text of a file of apt's sources with the entries of this repository switched off."""
    reason = "# switched off by provision doctor: the same repository is named elsewhere"
    if not file.endswith(".sources"):
        lines = []
        for line in text.splitlines():
            ours = any(_same(entry, uri, suites) for entry in apt.entries_of(line, file))
            lines.append("{0}\n# {1}".format(reason, line) if ours else line)
        return "\n".join(lines) + "\n"
    stanzas = []
    for stanza in re.split(r"\n[ \t]*\n", text.strip("\n")):
        ours = any(_same(entry, uri, suites) for entry in apt.entries_of(stanza, file))
        if ours:
            rest = re.sub(r"^enabled:.*\n?", "", stanza, flags=re.M | re.I)
            stanza = "{0}\nEnabled: no\n{1}".format(reason, rest)
        stanzas.append(stanza)
    return "\n\n".join(stanzas) + "\n"


def _same(entry: dict[str, Any], uri: str, suites: Iterable[str]) -> bool:
    uris = [address.rstrip("/") for address in entry["uris"]]
    return uri in uris and bool(set(suites) & set(entry["suites"]))


def _rank(context: Context, entry: dict[str, Any], uri: str) -> tuple[bool, bool]:
    """(whether it names the right key, whether a package installed it): the best entry stays."""
    trust = trusted(context, entry)
    expected = signer(uri)
    good = (
        trust["named"] and bool(trust["keys"]) and (expected is None or expected in trust["keys"])
    )
    names = [name for name in context.packages if re.search(r"keyring|cuda-repo", name)]
    owned = any(entry["file"] in dpkg.file_list(context, name) for name in names)
    return (good, owned)


def settled(context: Context, conflicts: list[list[Any]]) -> list[dict[str, Any]]:
    """[{path, content, mode}] that end these conflicts; [] where no entry can stay.

    Only an entry whose key exists and is the right one can stay; an entry that names other
    repositories too is not changed, nor any file with the entry that stays.
    """
    texts: dict[str, str] = {}
    for uri, suite, _files in conflicts:
        entries = [entry for entry in context.apt_entries if _same(entry, uri, [suite])]
        ranks = [_rank(context, entry, uri) for entry in entries]
        if not any(good for good, _owned in ranks):
            return []
        best = entries[ranks.index(max(ranks))]
        for entry in entries:
            if entry["file"] == best["file"]:
                if entry is not best and _option(entry, "signed-by") != _option(best, "signed-by"):
                    return []
                continue
            if len(entry["uris"]) > 1 or len(entry["suites"]) > 1:
                return []
            file = entry["file"]
            before = texts.get(file, context.read(file) or "")
            texts[file] = _without(before, file, uri, [suite])
    return [
        {
            "path": path,
            "content": texts[path],
            "mode": "{0:04o}".format(stat.S_IMODE(info.st_mode)),
        }
        for path, info in ((path, context.stat(path)) for path in sorted(texts))
        if info is not None
    ]
