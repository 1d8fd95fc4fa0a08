"""Enables components of the platform's archive, as non-free, where no source of apt's does.

apt itself says what is enabled, one-line and deb822 alike, and from which file. What is written
names the host's own addresses and keys: apt refuses all work where two entries for one repository
name different keys, and an entry without a key counts as different. A run that takes its packages
from a bundle leaves the host as any other run does, so it's the host's own sources then too.
"""

from __future__ import annotations

import os
import re
import stat

from ..type_checking import TYPE_CHECKING
from . import apt, apt_commands, managed_files
from .context import Context
from .refusal import RefusalError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

# SITE is an address without its password and its last slash.
TARGETS = (
    "apt-get",
    "indextargets",
    "--no-release-info",  # also where no index has been downloaded yet
    "--format",
    "$(SOURCESENTRY)|$(SITE)|$(RELEASE)|$(COMPONENT)",
    "Created-By: Packages",
)
SHARED = (
    "# Written by provision: components of Debian's archive that the GPU stack comes from and that"
    " no\n# other file here enables.\n"
)
LISTS = ("/etc/apt/sources.list.d/*.list", "/etc/apt/sources.list.d/*.sources")
LOGIN = re.compile(r"^[^#\n]*//[^/ \n]*@", re.M)
CONFLICT = re.compile(
    r"Conflicting values set for option Signed-By regarding source (\S+) (\S+): (\S*) != (\S*)"
)
POCKETS = ("", "-updates", "-security")


class Target:
    """A component that apt reads. entry: "file:number" of the source that names it."""

    def __init__(self, entry: str, uri: str, suite: str, component: str) -> None:
        self.file, _colon, self.number = entry.rpartition(":")
        self.uri = uri
        self.suite = suite
        self.component = component


class Stanza:
    """A source to write. keys: {field: value} of what it is to be trusted by."""

    def __init__(self, uri: str, suite: str, components: list[str], keys: dict[str, str]) -> None:
        self.uri = uri
        self.suite = suite
        self.components = components
        self.keys = keys

    def text(self) -> str:
        fields = {
            "Types": "deb", "URIs": self.uri, "Suites": self.suite,
            "Components": " ".join(self.components), **self.keys,
        }  # fmt: skip
        return "".join(f"{name}: {value}\n" for name, value in fields.items() if value)


class Wish:
    """What is to be enabled, and where.

    suites: the release's names, that for new sources first. mirror: an address instead of the
    host's own, with its password or "". always: name the mirror whether it is enabled or not.
    uri, keyring: what is named where the host has no source of the release. title: what is left
    as it was after a refusal. former: files of a mirror that is not wished for, which go first.
    """

    def __init__(self, params: dict[str, Any]) -> None:
        self.component: str = params["component"]
        self.components: list[str] = params["components"]
        self.suites: list[str] = params["suites"]
        self.mirror: str = apt.bare(params["mirror"] or "")
        self.always: bool = params["always"]
        self.path: str = params["path"]
        self.uri: str = params["uri"]
        self.keyring: str = params["keyring"]
        self.title: str = params["title"]
        self.former: list[str] = params["former"]

    @property
    def pockets(self) -> list[str]:
        return [suite + pocket for suite in self.suites for pocket in POCKETS]

    def wanting(self, all_targets: list[Target]) -> list[str]:
        """The components that no source enables; with a mirror only its sources count."""
        if self.always:
            return self.components
        enabled = {
            target.component
            for target in all_targets
            if target.suite in self.suites and (not self.mirror or _same(target.uri, self.mirror))
        }
        return [name for name in self.components if name not in enabled]


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """What the module of these parameters returns; raises RefusalError."""
    try:
        return _settle(Wish(params), check_mode)
    except OSError as error:
        raise RefusalError(f"{params['path']} could not be written: {error}") from error


def _settle(wish: Wish, check_mode: bool) -> dict[str, Any]:
    context = Context()
    # What a mirror's source enabled counts no more.
    removed = managed_files.remove(context, [], wish.former, dry=check_mode)["removed"]
    obstructed = _make_way(context, wish.path, check_mode)
    all_targets = targets()
    uris = list(dict.fromkeys(target.uri for target in all_targets if target.suite in wish.suites))
    wanting = wish.wanting(all_targets)
    changed = False
    if wanting:
        if not wish.mirror:
            refuse_lost_logins(context, wish, all_targets)
        stanzas = list(wished(context, wish, all_targets))
        changed = not _is_written(context, wish.path, text_of(wish, stanzas))
        if changed and not check_mode:
            _write(wish.path, text_of(wish, stanzas))
            _agree_with_others(wish, stanzas)
    return {"changed": changed or obstructed or bool(removed), "wanting": wanting, "uris": uris}


def targets() -> list[Target]:
    """What apt reads, each once."""
    answer = apt_commands.run(list(TARGETS), host=True)
    if answer.rc != 0:
        words = " ".join(apt_commands.errors(answer)) or answer.err.strip()
        raise RefusalError(f"apt cannot read its sources: {words}")
    parts = (tuple(line.split("|")) for line in dict.fromkeys(answer.out.splitlines()))
    return [Target(*words) for words in parts if len(words) == 4]


def refuse_lost_logins(context: Context, wish: Wish, all_targets: list[Target]) -> None:
    """RefusalError where a source that is repeated has a password that apt would lose.

    apt takes the login from the file that names a repository first, and these come after ours.
    """
    files = {
        target.file
        for target in all_targets
        if target.component == "main" and target.suite in wish.pockets
    }
    lost = [
        path
        for path in sorted(path for pattern in LISTS for path in context.glob(pattern))
        if path > wish.path and path in files and LOGIN.search(context.read(path) or "")
    ]
    if lost:
        raise RefusalError(
            f"{', '.join(lost)}: an address with a password in it, which {wish.path} would have to"
            " repeat, and everybody on this host may read that. Write `machine ADDRESS login USER"
            " password PASSWORD` into a file of /etc/apt/auth.conf.d (mode 0600) and take both out"
            f" of the address, or set {wish.component}_mirror. {wish.title} was not touched."
        )


def wished(context: Context, wish: Wish, all_targets: list[Target]) -> Iterator[Stanza]:
    """The sources to write: for the archives that the host takes main from, or for the mirror."""
    others = [target for target in all_targets if target.file != wish.path]
    default = {"Signed-By": wish.keyring}
    if wish.mirror:
        same = (t for t in others if _same(t.uri, wish.mirror) and t.suite in wish.suites[:1])
        entry = next(same, None)
        keys = default if entry is None else keys_of(context, entry)
        yield Stanza(wish.mirror, wish.suites[0], _missing(wish, others, wish.mirror), keys)
        return
    mains = [
        target for target in others if target.component == "main" and target.suite in wish.pockets
    ]
    if wish.uri and not any(target.suite in wish.suites for target in mains):
        yield Stanza(wish.uri, wish.suites[0], wish.components, default)
        return
    first: dict[tuple[str, str], Target] = {}
    for target in mains:
        first.setdefault((target.uri, target.suite), target)
    for (uri, suite), target in first.items():
        missing = _missing(wish, others, uri, suite)
        if missing:
            yield Stanza(uri, suite, missing, keys_of(context, target))


def _missing(wish: Wish, others: list[Target], uri: str, suite: str = "") -> list[str]:
    suites = [suite] if suite else wish.suites
    enabled = {t.component for t in others if _same(t.uri, uri) and t.suite in suites}
    return [name for name in wish.components if wish.always or name not in enabled]


def keys_of(context: Context, target: Target) -> dict[str, str]:
    """What the source that names the target says of its keys: {field of deb822: value}."""
    text = context.read(target.file) or ""
    number = int(target.number) - 1
    if target.file.endswith(".sources"):
        stanzas = [stanza for stanza in apt.stanzas(text) if "types" in stanza]
        fields = stanzas[number] if number < len(stanzas) else {}
    else:
        lines = text.split("\n")[number : number + 1]
        entries = [entry for line in lines for entry in apt.entries_of(line, target.file)]
        fields = {
            name.lower(): value for entry in entries for name, value in entry["options"].items()
        }
    names = {"Signed-By": "signed-by", "Trusted": "trusted"}
    # A key itself has lines of its own.
    return {
        name: fields[field].replace("\n", "\n ") for name, field in names.items() if field in fields
    }


def _same(uri: str, other: str) -> bool:
    return uri.rstrip("/") == other.rstrip("/")


def text_of(wish: Wish, stanzas: list[Stanza]) -> str:
    """The whole file."""
    texts = [stanza.text() for stanza in stanzas]
    if wish.mirror:
        head = f"# Written by provision: the mirror that {wish.component}_mirror names.\n"
        return head + "".join(texts)
    return SHARED + "".join(f"\n{text}" for text in texts)


def _make_way(context: Context, path: str, check_mode: bool) -> bool:
    """Whether something else than a file was in the file's place."""
    info = context.lstat(path)
    if info is None or stat.S_ISREG(info.st_mode):
        return False
    if not check_mode:
        managed_files.make_way(context, path)
    return True


def _is_written(context: Context, path: str, text: str) -> bool:
    info = context.lstat(path)
    if info is None or os.path.islink(path) or context.read(path) != text:
        return False
    return info.st_mode & 0o7777 == 0o644 and info.st_uid in (0, os.geteuid())


def _write(path: str, text: str) -> None:
    new = f"{path}.provision-new"
    if os.path.lexists(new):
        os.remove(new)  # of a run that was cut off
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        os.fchmod(handle, 0o644)
        file.write(text)
        file.flush()
        os.fsync(handle)
    os.replace(new, path)


def _agree_with_others(wish: Wish, stanzas: list[Stanza]) -> None:
    """Names the key that the host's own entry names, where apt finds that ours is another.

    Whether an entry is such a twin is best asked of apt itself.
    """
    for _conflict in stanzas:
        answer = apt_commands.run(["apt-get", "indextargets"], host=True)
        if answer.rc == 0:
            return
        conflict = CONFLICT.search(answer.err)
        ours = [] if conflict is None else [s for s in stanzas if _is_about(conflict, s)]
        if conflict is None or not ours:
            words = " ".join(apt_commands.errors(answer)) or answer.err.strip()
            raise RefusalError(f"apt cannot read its sources: {words}")
        for stanza in ours:
            own = stanza.keys.get("Signed-By", "")
            others = [key for key in conflict.groups()[2:] if key != own]
            stanza.keys["Signed-By"] = others[0] if others else ""
        _write(wish.path, text_of(wish, stanzas))


def _is_about(conflict: re.Match[str], stanza: Stanza) -> bool:
    return _same(conflict[1], stanza.uri) and conflict[2].rstrip("/") == stanza.suite.rstrip("/")
