"""Entries of others, in apt's sources, for a repository that a role names itself.

Years of tutorials have left lists without a key, with the key of before 2022, with another key
file or one path per distribution; two entries for one address with different keys make apt refuse
all work (https://github.com/NVIDIA/nvidia-docker/issues/1631). They are put aside, and
nothing is deleted: a file that holds nothing else is renamed to NAME.provision-saved, of any other
a copy is kept under that name before the entries leave it.
"""

from __future__ import annotations

import collections
import contextlib
import fnmatch
import io
import os
import re

from .. import registered_repositories
from ..type_checking import TYPE_CHECKING
from . import apt
from .context import Context
from .kept_names import free_name
from .refusal import RefusalError

if TYPE_CHECKING:
    from typing import Any, Iterator

OURS = "provision-"

# address: what its address looks like wherever it is the vendor's own. names: files that are about
# nothing else, by their names. files: other files of apt's that come with such an entry.
# own: the file in which the role names the repository.
Repository = collections.namedtuple("Repository", "address names files own")

REPOSITORIES = {
    name: Repository(
        re.compile("|".join(entry["addresses"])), entry["names"], entry["files"], entry["own"]
    )
    for name, entry in registered_repositories.REPOSITORIES.items()
}
# What a change says becomes of such a file.
ASIDE = "put aside"


def host_of(address: str) -> str:
    """The host of a URL, without a port or a password."""
    return address.split("://", 1)[-1].split("/", 1)[0].rsplit("@", 1)[-1].split(":", 1)[0]


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """What the module of these parameters returns; raises RefusalError."""
    context, name, url = Context(), params["repository"], params["url"]
    if name not in REPOSITORIES:
        names = ", ".join(REPOSITORIES)
        raise RefusalError(f"no component has a repository {name}; there are {names}")
    try:
        stale = (stale_files if check_mode else put_aside)(context, name, url)
    except OSError as error:
        raise RefusalError(f"apt's sources could not be put aside: {error}") from error
    return {"changed": bool(stale), "stale": stale, "signed_by": signed_by(context, name, url)}


def stale_files(context: Context, name: str, url: str) -> list[str]:
    """Paths of the files that name a repository beside ours, or come with such an entry.

    name: of REPOSITORIES. url: where this run takes the repository from, "" without one.
    """
    return [path for path, _rest in _stale(context, REPOSITORIES[name], url)]


def signed_by(context: Context, name: str, url: str) -> str | None:
    """The key that another source of this project's names for the address; None without one."""
    for entry in context.apt_entries:
        options = {key.lower(): value for key, value in entry["options"].items()}
        elsewhere = _is_ours(entry["file"]) and entry["file"] != REPOSITORIES[name].own
        if elsewhere and options.get("signed-by") and any(_same(uri, url) for uri in entry["uris"]):
            return str(options["signed-by"])
    return None


def put_aside(context: Context, name: str, url: str) -> list[str]:
    """Puts the stale files, or the entries in them, aside; their paths.

    Raises OSError where one cannot be replaced.
    """
    stale = _stale(context, REPOSITORIES[name], url)
    for path, rest in stale:
        _save(os.path.join(context.root, path.lstrip("/")), rest)
    return [path for path, _rest in stale]


def _stale(context: Context, repository: Repository, url: str) -> list[tuple[str, str | None]]:
    """[(path, text of what stays, or None where the whole file goes)], in apt's order."""
    stale = []
    for path, text in _sources(context):
        parts = _parts(text, path)
        entries = [part for part in parts if part[1]]
        named = any(fnmatch.fnmatch(os.path.basename(path), name) for name in repository.names)
        going = [
            part for part in entries
            if named or any(repository.address.match(uri) or _same(uri, url) for uri in part[1])
        ]  # fmt: skip
        if going:
            rest = "".join(part[0] for part in parts if part not in going)
            stale.append((path, None if len(going) == len(entries) else rest))
    stale += [(path, None) for path in repository.files if context.lstat(path) is not None]
    return stale


def _sources(context: Context) -> Iterator[tuple[str, str]]:
    """[(path, text)] of apt's source files that are not this project's."""
    for path in apt.source_files(context):
        stream = None if _is_ours(path) else context.open(path)
        if stream is not None:
            # What is written back is to be what was there, whatever its encoding.
            with io.TextIOWrapper(stream, encoding="utf-8", errors="surrogateescape") as file:
                yield path, file.read()


def _parts(text: str, path: str) -> list[tuple[str, list[str]]]:
    """[(lines, URIs)] that make up the text; no URIs where a part names no source."""
    if not path.endswith(".sources"):
        lines = text.splitlines(True)
        return [(line, _uris(apt.entries_of(line, path))) for line in lines]
    return [
        (part, [uri for stanza in apt.stanzas(part) for uri in apt.enabled_uris(stanza)])
        for part in re.split(r"(\n[ \t]*\n+)", text)
    ]


def _uris(entries: list[dict[str, Any]]) -> list[str]:
    return [uri for entry in entries for uri in entry["uris"]]


def _is_ours(path: str) -> bool:
    """True of a file that one of this project's roles writes."""
    return os.path.basename(path).startswith(OURS)


def _same(uri: str, url: str) -> bool:
    return bool(url) and uri.rstrip("/") == apt.bare(url).rstrip("/")


def _save(path: str, rest: str | None) -> None:
    kept = free_name(path)
    if rest is None:
        os.rename(path, kept)
        return
    # The look, that imports this file on every host, has no use for them.
    import shutil

    from . import kept_copies

    real = os.path.realpath(path)
    kept_copies.keep(real, kept)
    new = real + ".provision-new"
    with contextlib.suppress(FileNotFoundError):
        os.remove(new)  # of a run that was cut off
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(rest)
        file.flush()
        os.fsync(file.fileno())
    shutil.copystat(real, new)
    os.replace(new, real)
