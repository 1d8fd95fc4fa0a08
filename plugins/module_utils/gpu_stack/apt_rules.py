"""Refuses a host whose apt reads its sources elsewhere than where the roles write them.

`Dir::Etc::SourceParts` of somebody's in apt.conf.d would leave a run's repositories unread: apt
would know no package of the lock, or take another's, and nothing would say why.
"""

from __future__ import annotations

import re
import shlex

from .host.processes import text_of
from .rules import Rule
from .type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from .host.context import Context
    from .shapes import Changes, Facts, Options, Reasons, Row

SOURCES = {
    "Dir::Etc::SourceList": "/etc/apt/sources.list",
    "Dir::Etc::SourceParts": "/etc/apt/sources.list.d",
}
_NAMES = ("SourceList", "Dir::Etc::SourceList/f", "SourceParts", "Dir::Etc::SourceParts/d")
_FILES = ("/etc/apt/apt.conf", "/etc/apt/apt.conf.d/*")
_SETS = re.compile(r"\bdir\b", re.I)
# What PAM gives to who logs in, and to sudo.
ENVIRONMENT = "/etc/environment"
_VARIABLE = re.compile(r"^\s*(?:export\s+)?APT_CONFIG\s*=\s*[\"']?([^\"'\s#]+)", re.M)


def elsewhere(context: Context) -> list[list[str]]:
    """[[setting, its path, files that may set it]] of those that differ from apt's default."""
    answer = context.run(["apt-config", "shell", *_NAMES])
    if answer.rc != 0:
        return []
    settings = dict(word.split("=", 1) for word in shlex.split(answer.out) if "=" in word)
    seen = {name: settings.get(name.rpartition("::")[2], "").rstrip("/") for name in SOURCES}
    strange = [name for name in SOURCES if seen[name] != SOURCES[name]]
    if not strange:
        return []
    files = [path for pattern in _FILES for path in context.glob(pattern)]
    telling = [path for path in files if _SETS.search(text_of(context, path))]
    return [[name, seen[name], ", ".join(telling)] for name in strange]


def of_environment(context: Context) -> str | None:
    """The APT_CONFIG of /etc/environment, which logins get; None without one."""
    match = _VARIABLE.search(text_of(context, ENVIRONMENT))
    return match and match.group(1)


def unread(facts: Facts, _changes: Changes, _options: Options, _row: Row | None) -> Reasons:
    return [
        (
            f"apt's own settings ({files or 'apt-config dump'}) have it read {place or 'nothing'}"
            f" for {SOURCES[name]} ({name}): it would not see the sources that a run writes, and a"
            " run does not see its",
            f"take {name} out of there, and move its sources to {SOURCES[name]}; for one command"
            f" -o {name}=... does the same",
        )
        for name, place, files in facts["preflight"].get("apt_sources") or []
    ]


def not_heard(facts: Facts, _changes: Changes, _options: Options, _row: Row | None) -> Reasons:
    named = facts["preflight"].get("apt_config")
    if not named:
        return []
    return [
        (
            f"{ENVIRONMENT} sets APT_CONFIG to {named}, and a run does not read that file: it takes"
            " apt's settings from /etc/apt alone, as apt's own timers do",
            f"what is to count for runs too (a proxy, say) belongs in /etc/apt/apt.conf.d: cp"
            f" {named} /etc/apt/apt.conf.d/",
        )
    ]


FACTS = {"apt_sources": elsewhere, "apt_config": of_environment}
RULES = (
    Rule("apt-sources", None, True, unread),
    Rule("apt-config", None, False, not_heard),
)
