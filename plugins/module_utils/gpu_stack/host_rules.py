"""What forbids any run on a host: another run, apt and dpkg in disorder, a driver that hangs."""

from __future__ import annotations

import re

from . import transaction
from .host import other_sources, running
from .host.processes import text_of
from .registered import WITH_PACKAGES
from .rules import WORK, Rule
from .type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from .host.context import Context
    from .shapes import Changes, Facts, Options, Reasons, Row


def signed_by_conflicts(context: Context) -> list[list[Any]]:
    """[[uri, suite, [files]]] of one repository named twice with different keys.

    As apt sees it: an entry must agree with every earlier one that named a key; naming a key after
    an entry without one is fine.
    """
    sources: dict[tuple[str, str], list[tuple[str | None, str]]] = {}
    for entry in context.apt_entries:
        options = {name.lower(): value for name, value in entry["options"].items()}
        for uri in entry["uris"]:
            for suite in entry["suites"]:
                key = (uri.rstrip("/"), suite)
                sources.setdefault(key, []).append((options.get("signed-by"), entry["file"]))
    return [
        [uri, suite, sorted({file for _key, file in named})]
        for (uri, suite), named in sorted(sources.items())
        if _contradicts([key for key, _file in named])
    ]


def _contradicts(keys: list[str | None]) -> bool:
    """True when, in apt's reading order, a key is followed by another one or by none."""
    first = next((index for index, key in enumerate(keys) if key), len(keys))
    return any(key != keys[first] for key in keys[first:])


def unfinished(context: Context) -> list[list[Any]]:
    """[[package, status]] of packages that dpkg has not finished.

    A dpkg that was killed leaves its last steps in a journal, not yet in its status file.
    """
    states = {name: context.packages[name]["status"] for name in context.packages}
    for path in context.glob("/var/lib/dpkg/updates/[0-9]*"):
        text = text_of(context, path)
        name = re.search(r"^Package: (\S+)", text, re.M)
        status = re.search(r"^Status: \S+ \S+ (\S+)", text, re.M)
        if name is not None and status is not None:
            states[name.group(1)] = status.group(1)
    done = ("installed", "triggers-pending", "triggers-awaited", "not-installed", "config-files")
    return [[name, states[name]] for name in sorted(states) if states[name] not in done]


def dpkg_at_work(context: Context) -> bool:
    """True while a dpkg of root's runs: what is half-installed now is whole in a moment.

    Anybody may call a process dpkg.
    """
    for path in context.glob("/proc/[0-9]*/comm"):
        if text_of(context, path).strip() == "dpkg" and context.is_roots(path.split("/")[-2]):
            return True
    return False


def dpkg_broken(facts: Facts, _changes: Changes, _options: Options, row: Row | None) -> Reasons:
    # What an unfinished run of ours left in the middle, a compiler that CUDA needs among it, apt
    # puts right by itself before it installs anything.
    if facts.get("unfinished") or facts["preflight"].get("dpkg_at_work"):
        return []
    ours = transaction.locked(row)
    reasons = []
    for name, status in facts["preflight"].get("unfinished") or []:
        if name not in ours and status == "half-installed":
            reasons.append(
                (
                    "dpkg holds the package {0} in state {1}, and it is none of this "
                    "stack's".format(name, status),
                    "apt-get install --reinstall {0}, or remove it; then run again".format(name),
                )
            )
    return reasons


def dpkg_interrupted(
    facts: Facts,
    changes: Changes,
    _options: Options,
    _row: Row | None,
) -> Reasons:
    names = [name for name, _status in facts["preflight"].get("unfinished") or []]
    # The other roles install nothing, or one package of the platform's.
    finishing = {component.NAME for component in WITH_PACKAGES}
    if not names or not {entry["component"] for entry in changes} & finishing:
        return []
    return [
        (
            "an installation was interrupted ({0}); it will be finished first".format(
                ", ".join(names)
            ),
            "nothing to do",
        )
    ]


def signed_by_conflict(
    facts: Facts,
    changes: Changes,
    _options: Options,
    _row: Row | None,
) -> Reasons:
    # What is put aside first is in nobody's way then.
    aside = [entry["item"] for entry in changes if entry["to"] == other_sources.ASIDE]

    def settled(files: list[str]) -> bool:
        left = [file for file in files if file not in aside]
        return left != files and len(left) < 2  # one file may contradict itself

    return [
        (
            "apt refuses all work: {0} {1} is named with different keys (Signed-By) in {2}".format(
                uri, suite, " and ".join(files)
            ),
            "keep one of the entries, with the key it needs",
        )
        for uri, suite, files in facts["preflight"].get("signed_by") or []
        if not settled(files)
    ]


def driver_hangs(facts: Facts, _changes: Changes, _options: Options, _row: Row | None) -> Reasons:
    why = facts["preflight"].get("driver_hangs")
    if not why:
        return []
    return [
        (
            "the GPU driver hangs: {0}; whoever asks it waits, and so would the proof".format(why),
            "`dmesg | grep -E 'NVRM|Xid'` says why; reboot the host when nobody needs it, then run "
            "again",
        )
    ]


def run_in_progress(
    facts: Facts,
    _changes: Changes,
    _options: Options,
    _row: Row | None,
) -> Reasons:
    other_run = facts["preflight"].get("running")
    if other_run is None or other_run.get("ended") or other_run.get("silent"):
        return []
    holder = other_run.get("holder")
    return [
        (
            "another run is at work on this host: " + running.who(other_run),
            "wait until it has ended, then run again"
            + ("; if it is gone, end process {0} on this host".format(holder) if holder else ""),
        )
    ]


def run_cut_off(facts: Facts, _changes: Changes, _options: Options, _row: Row | None) -> Reasons:
    other_run = facts["preflight"].get("running")
    if other_run is None or not (other_run.get("ended") or other_run.get("silent")):
        return []
    waits_for = other_run.get("finishing")
    return [
        (
            "a run was cut off here: {0}; {1}".format(
                running.who(other_run),
                "it waits for " + waits_for
                if waits_for
                else "nothing has been heard of it for a while",
            ),
            "nothing to do: a run waits until what was left behind has ended",
        )
    ]


FACTS = {
    "unfinished": unfinished,
    "dpkg_at_work": dpkg_at_work,
    "signed_by": signed_by_conflicts,
}
RULES = (
    Rule("run-in-progress", WORK, True, run_in_progress),
    Rule("run-cut-off", WORK, False, run_cut_off),
    Rule("driver-hangs", None, True, driver_hangs),
    Rule("dpkg-broken", None, True, dpkg_broken),
    Rule("dpkg-interrupted", None, False, dpkg_interrupted),
    Rule("signed-by", None, True, signed_by_conflict),
)
