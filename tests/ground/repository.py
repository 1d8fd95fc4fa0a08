"""Signed apt repositories of directories full of packages: flat as NVIDIA's, or with suites.

The keys are made here, once per user, and never leave the cache; they are not NVIDIA's, so whoever
uses such a repository names the key's own fingerprint.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

from provision.locallab.machine import locked
from tests.ground import deb, debian

DAY = 24 * 3600


@dataclass(frozen=True)
class Key:
    """A signing key: its GNUPGHOME, its fingerprint (40 hex) and its armored public part.

    One with a `day` was valid on that day alone, and signs as of then.
    """

    home: Path
    fingerprint: str
    armored: str
    day: str = ""

    def dearmored(self) -> bytes:
        return _gpg(self.home, "--export", self.fingerprint)

    def clearsign(self, text: str) -> bytes:
        """An InRelease."""
        return self._sign("--clearsign", text)

    def detached(self, text: str) -> bytes:
        """A Release.gpg."""
        return self._sign("--detach-sign", text)

    def _sign(self, how: str, text: str) -> bytes:
        past = ["--faked-system-time", self.day] if self.day else []
        return _gpg(
            self.home, *past, "--local-user", self.fingerprint, "--digest-algo", "SHA256",
            "--armor", how,
            stdin=text.encode(),
        )  # fmt: skip


def key(name: str, user: str = "cudatools <cudatools@nvidia.test>") -> Key:
    """The key of that name, made on first use.

    One called "expired..." expired in 2020; the self-signature of one called "sha1..." is SHA-1, as
    that of NVIDIA's 3bf863cc, which Debian 13's apt refuses since 2026-02-01.
    """
    home = debian.directory() / "keys" / name
    day = "20200101T000000" if name.startswith("expired") else ""
    with locked(debian.directory() / "keys.lock"):
        if not (home / "ready").exists():
            home.mkdir(parents=True, exist_ok=True)
            home.chmod(0o700)
            how = ["--faked-system-time", day] if day else []
            if name.startswith("sha1"):
                how += ["--cert-digest-algo", "SHA1"]
            _gpg(
                home, *how, "--passphrase", "", "--quick-generate-key", user, "rsa3072", "sign",
                "1d" if day else "never",
            )  # fmt: skip
            (home / "ready").touch()
    listed = _gpg(home, "--with-colons", "--list-keys").decode()
    fingerprint = re.findall(r"^fpr:+([0-9A-F]{40}):", listed, flags=re.MULTILINE)[0]
    armored = _gpg(home, "--armor", "--export", fingerprint).decode()
    return Key(home, fingerprint, armored, day)


def _gpg(home: Path, *arguments: str, stdin: bytes | None = None) -> bytes:
    argv = ["gpg", "--homedir", str(home), "--batch", "--yes", "--quiet", "--pinentry-mode",
            "loopback", *arguments]  # fmt: skip
    # No agent may outlive the tests, nor be ended while another process signs with it.
    with locked(home / "agent.lock"):
        done = subprocess.run(argv, input=stdin, capture_output=True, check=False)
        _end_agent(home)
    if done.returncode:
        raise RuntimeError(f"gpg {arguments[0]}: {done.stderr.decode()}")
    return done.stdout


def _end_agent(home: Path) -> None:
    """Ends gpg's agent, and returns when its socket is gone.

    `gpgconf --kill` returns before that, and a gpg that connects in between fails: "Broken pipe",
    "Connection reset by peer" or "End of file".
    """
    gpgconf = ["gpgconf", "--homedir", str(home)]
    subprocess.run([*gpgconf, "--kill", "all"], check=False)
    listed = subprocess.run(
        [*gpgconf, "--list-dirs", "agent-socket"], capture_output=True, text=True, check=True
    )
    socket = Path(listed.stdout.strip())
    end = time.monotonic() + 10
    # The socket of an agent that was killed stays; the next gpg starts another in its place.
    while socket.exists() and time.monotonic() < end:
        time.sleep(0.005)


def stanza(package: Path) -> str:
    """A package's paragraph of an index but for its Filename; kept, since hashing takes long."""
    beside = package.with_suffix(".stanza")
    if beside.exists():
        return beside.read_text("utf-8")
    text = deb.control(package).strip() + "\n"
    text += f"Size: {package.stat().st_size}\n"
    text += "".join(f"{name}: {value}\n" for name, value in deb.digests(package).items())
    with tempfile.NamedTemporaryFile("w", dir=package.parent, delete=False) as handle:
        handle.write(text)
    os.replace(handle.name, beside)
    return text


def index(packages: Mapping[str, Path]) -> str:
    """A Packages file of {Filename: package}."""
    paragraphs = []
    for name, path in packages.items():
        head, _, description = stanza(path).partition("Description: ")
        paragraphs.append(f"{head}Filename: {name}\nDescription: {description}")
    return "\n".join(paragraphs)


def packages_of(*directories: Path) -> list[Path]:
    """The packages in these directories, by name."""
    found = {path.name: path for directory in directories for path in directory.glob("*.deb")}
    return [found[name] for name in sorted(found)]


def flat(target: Path, packages: Iterable[Path], signer: Key, **fields: str) -> None:
    """NVIDIA's layout: packages, index and signatures in one directory, URL ending in a slash."""
    target.mkdir(parents=True, exist_ok=True)
    named = {}
    for path in packages:
        if path.parent != target:
            _symlink(target / path.name, path)
        named[f"./{path.name}"] = path
    write_indices(target, index(named))
    sign(
        target,
        {"Origin": "NVIDIA", "Label": "NVIDIA CUDA", "Architecture": "x86_64", **fields},
        signer,
    )


def suites(
    target: Path, suite: str, components: Mapping[str, Iterable[Path]], signer: Key, **fields: str
) -> None:
    """Ubuntu's layout: dists/SUITE/COMPONENT/binary-amd64 and a pool."""
    top = target / "dists" / suite
    for component, packages in components.items():
        named = {}
        for path in packages:
            name = f"pool/{component}/{path.name}"
            _symlink(target / name, path)
            named[name] = path
        place = top / component / "binary-amd64"
        place.mkdir(parents=True, exist_ok=True)
        write_indices(place, index(named))
    about = {
        "Origin": "Ubuntu", "Label": "Ubuntu", "Suite": suite, "Codename": suite.split("-")[0],
        "Architectures": "amd64", "Components": " ".join(components), **fields,
    }  # fmt: skip
    sign(top, about, signer)


def _symlink(link: Path, to: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(to)


def write_indices(place: Path, text: str) -> None:
    """Packages and Packages.gz."""
    (place / "Packages").write_text(text, "utf-8")
    packed = gzip.compress(text.encode(), 6, mtime=0)
    (place / "Packages.gz").write_bytes(packed)


SUMS = {"MD5Sum": "md5", "SHA1": "sha1", "SHA256": "sha256", "SHA512": "sha512"}
# Those of most repositories.
USUAL = ("MD5Sum", "SHA1", "SHA256")


def release(top: Path, fields: Mapping[str, str], sums: Sequence[str] = USUAL) -> str:
    """A Release file over the indices below `top`; fields with an empty value are left out."""
    fields = {"Date": formatdate(usegmt=True), **fields}
    lines = [f"{name}: {value}" for name, value in fields.items() if value]
    files = sorted(path for path in top.rglob("Packages*") if path.is_file())
    for title in sums:
        lines.append(f"{title}:")
        for path in files:
            data = path.read_bytes()
            digest = hashlib.new(SUMS[title], data).hexdigest()
            lines.append(f" {digest} {len(data):>16} {path.relative_to(top)}")
    return "\n".join(lines) + "\n"


def sign(top: Path, fields: Mapping[str, str], signer: Key, *, sums: Sequence[str] = USUAL) -> None:
    """Release, Release.gpg and InRelease."""
    text = release(top, fields, sums)
    (top / "Release").write_text(text, "ascii")
    (top / "Release.gpg").write_bytes(signer.detached(text))
    (top / "InRelease").write_bytes(signer.clearsign(text))
