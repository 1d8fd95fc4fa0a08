"""Finds what people installed by hand beside the stack: no run removes it, and it can hide ours.

A host where a tutorial was typed has a TensorFlow in the system's Python, keys that apt trusts for
every repository, and a conda in front of somebody's PATH. That is no damage, but `python` may be
another one there, so preflight and the doctor report it.
"""

from __future__ import annotations

import re

from ..rules import Rule
from ..type_checking import TYPE_CHECKING
from . import regular

if TYPE_CHECKING:
    from typing import Callable, Iterable

    from ..shapes import Changes, Facts, Options, Reasons, Row
    from .context import Context

    Owner = tuple[str, int, int]  # name, uid, gid

SSHD = "/etc/ssh/sshd_config"
TRUSTED = "/etc/apt/trusted.gpg"
SYSTEM_PYTHON = (
    "/usr/local/lib/python3*/dist-packages/tensorflow*.dist-info",
    "/usr/lib/python3/dist-packages/tensorflow*.dist-info",
)
TENSORFLOW = re.compile(r"^tensorflow(_(gpu|cpu|intel))?-(?P<version>[0-9][^-]*)\.dist-info$")
INCLUDES = 16
LOGIN_FILES = (".bashrc", ".bash_profile", ".profile", ".zshrc")
# The homes of so many people are read: the look has to end.
PEOPLE = 100
# Of a login file no more bytes are read.
LOGIN_LIMIT = 64 * 1024
# Seconds for one home; one whose server is down never answers.
PATIENCE = 5.0
# After so many homes without an answer no other is read.
SILENT_HOMES = 3


def homes(users: Iterable[list[str]]) -> dict[str, Owner]:
    """{home: its user} of people with a login; `users` are passwd(5)'s seven fields."""
    found: dict[str, Owner] = {}
    for fields in users:
        if (
            fields[2].isdigit()
            and fields[3].isdigit()
            and (int(fields[2]) >= 1000 or fields[2] == "0")
            and not fields[6].strip().endswith(("nologin", "false"))
            and fields[5].startswith("/")
            and fields[5] != "/"
        ):
            found.setdefault(fields[5], (fields[0], int(fields[2]), int(fields[3])))
    return {home: found[home] for home in sorted(found)[:PEOPLE]}


def login_files(
    context: Context, people: dict[str, Owner], matches: Callable[[str], bool]
) -> list[str]:
    """The files that the shells of these people, {home: user}, read and whose text `matches`.

    Each home is read as its user, in a process that is abandoned where it does not answer.
    """
    paths, silent = [], 0
    for home, owner in people.items():
        names = _matching(context, owner, home, matches)
        if names is None:
            silent += 1
            if silent == SILENT_HOMES:
                break
            continue
        paths += ["{0}/{1}".format(home, name) for name in LOGIN_FILES if name in names]
    return paths


def _matching(
    context: Context, owner: Owner, home: str, matches: Callable[[str], bool]
) -> list[str] | None:
    """Names of the login files in a home whose text `matches`; None where it does not answer."""

    def read() -> bytes:
        # In a recorded tree the files belong to whoever looks.
        if context.root == "/":
            regular.become(*owner)
        names = ["read"]
        for name in LOGIN_FILES:
            data = context.read_bytes("{0}/{1}".format(home, name), LOGIN_LIMIT) or b""
            names += [name] * matches(data.decode("utf-8", "replace"))
        return " ".join(names).encode("ascii")

    answer = regular.apart(read, 1024, PATIENCE)
    return answer.decode("ascii", "replace").split() if answer else None


def trusted_gpg(context: Context) -> bool:
    """Whether apt has keys that it trusts for every repository."""
    info = context.stat(TRUSTED)
    return info is not None and info.st_size > 0


def sshd_without_pam(context: Context) -> str | None:
    """The file that says `UsePAM no`; SSHD where none says yes, for that is sshd's default.

    None where PAM is used, or there is no sshd. sshd_config(5): the first value counts, UsePAM is
    not for Match blocks, and relative names of Include are of /etc/ssh.
    """
    if not context.exists(SSHD):
        return None
    setting = _first(context, SSHD, [])
    if setting is None:
        return SSHD
    return None if setting[0] == "yes" else setting[1]


def _first(context: Context, path: str, included: list[str]) -> tuple[str, str] | None:
    """(value, file) of the first UsePAM; None where there is none before the first Match block."""
    included.append(path)
    text = context.read(path) if len(included) <= INCLUDES else None
    if text is None:
        return None
    for line in text.splitlines():
        words = line.replace("=", " ", 1).split()
        if not words:
            continue
        word = words[0].lower()
        if word == "match":
            return None
        if word == "usepam" and len(words) > 1:
            return words[1].strip('"').lower(), path
        if word == "include":
            for pattern in words[1:]:
                pattern = pattern.strip('"')
                whole = pattern if pattern.startswith("/") else "/etc/ssh/" + pattern
                for file in context.glob(whole):
                    setting = _first(context, file, included)
                    if setting is not None:
                        return setting
    return None


def system_tensorflow(context: Context) -> list[str]:
    """["2.9.1 in /usr/local/lib/python3.9/dist-packages"] of what pip put there as root."""
    installed = []
    for pattern in SYSTEM_PYTHON:
        for path in context.glob(pattern):
            directory, _slash, name = path.rpartition("/")
            match = TENSORFLOW.match(name)
            if match is not None:
                installed.append("{0} in {1}".format(match.group("version"), directory))
    return installed


# the rules: (facts, changes, options, row) -> [(message, hint)]


def no_pam(facts: Facts, _changes: Changes, _options: Options, _row: Row | None) -> Reasons:
    path = facts["preflight"].get("sshd_without_pam")
    if not path:
        return []
    return [
        (
            "sshd does not use PAM ({0}), so `ssh host command` gets nothing of /etc/environment: "
            "no XLA_FLAGS, and no CUDA in PATH that is not there by itself; logins, cron and "
            "services have them, and verify leaves commands over ssh out".format(path),
            "`UsePAM yes`, as Debian and Ubuntu have it; or, for instance, `SetEnv "
            "XLA_FLAGS=...` in a file of your own in /etc/ssh/sshd_config.d, with the values of "
            "/etc/provision/gpu.env",
        )
    ]


def trusted_for_all(
    facts: Facts,
    _changes: Changes,
    _options: Options,
    _row: Row | None,
) -> Reasons:
    if not facts["preflight"].get("trusted_gpg"):
        return []
    return [
        (
            "apt trusts the keys in {0} for every repository, also for those that have a key of "
            "their own".format(TRUSTED),
            "`gpg --show-keys {0}` lists them; give each repository its key by signed-by, then "
            "move the file away".format(TRUSTED),
        )
    ]


def hidden_tensorflow(
    facts: Facts,
    _changes: Changes,
    _options: Options,
    _row: Row | None,
) -> Reasons:
    places = facts["preflight"].get("system_tensorflow")
    if not places:
        return []
    return [
        (
            "the system's Python has a TensorFlow of its own ({0}): who types `python3` gets that "
            "one, not this stack's".format(", ".join(places)),
            "`sudo python3 -m pip uninstall tensorflow` when nobody needs it; this stack's is "
            "called by its path",
        )
    ]


FACTS = {
    "sshd_without_pam": sshd_without_pam,
    "trusted_gpg": trusted_gpg,
    "system_tensorflow": system_tensorflow,
}
RULES = (
    Rule("sshd-pam", "gpu_env", False, no_pam),
    Rule("trusted-gpg", None, False, trusted_for_all),
    Rule("system-tensorflow", "tensorflow", False, hidden_tensorflow),
)
