"""Names what is wrong with a GPU host, why that is believed, and what cures it.

A plan says what differs from the lock; people ask why nothing works. The cases are data, and beside
them stands one small pure function for each that can be seen on a host. A log alone, from wherever,
is judged by the same rows. What a component's look or the preflight knows already is asked there
and not decided a second time.
"""

from __future__ import annotations

import re
import shlex

from ..components import COMPONENTS
from ..components.tensorflow import rules as tensorflow_rules
from ..host import running, surroundings
from ..registered_doctors import MODULES
from ..type_checking import TYPE_CHECKING
from . import apt, look
from .case import LINES, Case, heard

if TYPE_CHECKING:
    from typing import Any

    from ..host.context import Context
    from ..shapes import Changes, Facts

# In the order in which they are reported; apt's cases are of no component.
_PLACES = [(20, apt)] + [
    (component.doctor, MODULES[component.name]) for component in COMPONENTS if component.doctor
]
_MODULES = [module for _place, module in sorted(_PLACES, key=lambda placed: placed[0])]
CASES = tuple(case for module in _MODULES for case in module.CASES)
# What a host can be seen to have, by the case's id. Any other case shows in a log alone.
CHECKS = {name: check for module in _MODULES for name, check in module.CHECKS.items()}
# The safe fixes: (facts, clues) -> {"components": [...]} for a run, or a step of the tasks.
FIXES = {name: fix for module in _MODULES for name, fix in module.FIXES.items()}

CREDENTIALS = re.compile(r"(?<=://)[^/\s@]+@")

# Why the driver or a GPU may not answer; silence is a finding of its own without any of these.
REASONS = {
    *("driver-mismatch", "nouveau-loaded", "nouveau-initramfs", "headers-missing"),
    *("driver-gone-after-kernel", "dkms-gpl-symbol", "dkms-compiler", "dkms-failed"),
    *("secure-boot", "fabric-manager"),
}


class Words(dict):  # type: ignore[type-arg]  # Python 3.7 has no dict[str, str] here
    """What fills in a cure; what was not found stays as <word>."""

    def __missing__(self, key: str) -> str:
        return "<{0}>".format(key)


def printable(text: str) -> str:
    """One line of a text that somebody else worded: "?" for what a terminal would obey."""
    return "".join(c if c.isprintable() else "?" for c in text.expandtabs(1))


def shell_command(template: str, words: dict[str, list[str]]) -> str:
    """A case's command with every value as one word, in the template's single quotes or out."""
    bare = Words({key: " ".join(map(shlex.quote, values)) for key, values in words.items()})
    # A value may end these quotes; shlex.quote would begin others within.
    inside = Words({key: " ".join(words[key]).replace("'", "'\"'\"'") for key in words})
    parts = template.split("'")
    return "'".join(
        part.format_map(inside if number % 2 else bare) for number, part in enumerate(parts)
    )


def finding(
    case: Case,
    clues: list[dict[str, Any]],
    host: str | None = None,
    fix: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The finding of a case, as the doctor returns it."""
    words: dict[str, list[str]] = {}
    for found in [{"host": host}, *(clue["words"] for clue in reversed(clues))]:
        for key, value in found.items():
            if value:
                values = value if isinstance(value, list) else [value]
                words[key] = [printable(text) for text in values]
    said = (printable(CREDENTIALS.sub("***@", clue["evidence"])) for clue in clues)
    evidence = list(dict.fromkeys(said))
    more = len(evidence) - LINES
    return {
        "id": case.id,
        "title": case.title,
        "evidence": evidence[:LINES] + (["and {0} more".format(more)] if more > 0 else []),
        "cure": case.cure.format_map(Words({key: " ".join(words[key]) for key in words})),
        "commands": [shell_command(command, words) for command in case.commands],
        "threads": list(case.threads),
        "fix": fix or {},
    }


def is_reported(case_id: str, named: set[str], gpus: bool = True) -> bool:
    """Whether a case is reported: not where its reason is named already or it needs a GPU."""
    if case_id in ("driver-silent", "gpu-silent"):
        return gpus and not named & REASONS
    return case_id != "dkms-failed" or not named & {"dkms-gpl-symbol", "dkms-compiler"}


def is_disproved(case_id: str, facts: Facts) -> bool:
    """Whether the look has seen that the kernel's own log is no evidence of a case.

    NVRM guesses at nouveau whoever has the card, and with Secure Boot off the kernel takes a module
    whose signature it complains of.
    """
    if case_id == "secure-boot":
        return (facts["found"].get("preflight") or {}).get("secure_boot") is False
    state = facts["found"]["state"].get("nvidia_driver") or {}
    return case_id == "nouveau-loaded" and state.get("nouveau_loaded") is False


def diagnose(facts: Facts, host: str | None = None) -> list[dict[str, Any]]:
    """The findings of a host, in the order of the cases. Pure: `facts` holds all that was read."""
    findings: list[dict[str, Any]] = []
    gpus = bool(facts["found"]["gpus"])
    for case in CASES:
        if not is_reported(case.id, {entry["id"] for entry in findings}, gpus):
            continue
        clues = CHECKS[case.id](facts) if case.id in CHECKS else []
        for who in sorted(facts["said"]):
            if who == look.DMESG and is_disproved(case.id, facts):
                continue
            clues = clues + heard(case, facts["said"][who], who)
        if clues:
            fix = FIXES[case.id](facts, clues) if case.id in FIXES else {}
            findings.append(finding(case, clues, host, fix))
    return findings


def read_log(text: str, who: str = "the log") -> list[dict[str, Any]]:
    """The findings of a log alone. Pure."""
    findings: list[dict[str, Any]] = []
    for case in CASES:
        clues = heard(case, text, who)
        if clues and is_reported(case.id, {entry["id"] for entry in findings}):
            findings.append(finding(case, clues))
    return findings


def fixes(findings: list[dict[str, Any]]) -> dict[str, Any]:
    """What all findings' fixes come to: one value for each step of the tasks."""
    steps: dict[str, Any] = {
        "components": [],
        "files": [],
        "initramfs": [],
        "aside": [],
        "links": [],
        "dpkg": False,
    }
    for entry in findings:
        for step, value in entry["fix"].items():
            if value is True:
                steps[step] = True
            else:
                steps[step] += [item for item in value if item not in steps[step]]
    return steps


def notes(facts: Facts) -> list[str]:
    """What is somebody's, no trouble by itself, and can hide the stack: sentences."""
    rules = (
        *(surroundings.no_pam, surroundings.trusted_for_all, surroundings.hidden_tensorflow),
        tensorflow_rules.conda_first,
    )
    return [
        printable("{0}. To do: {1}".format(message, hint))
        for rule in rules
        for message, hint in rule(facts, [], {}, {})
    ]


def answer(
    parameters: dict[str, Any],
    host_facts: Facts,
    context: Context,
    changes: Changes,
) -> dict[str, Any]:
    """What the task returns: the findings, what would fix them, and how far the plan is off."""
    read = look.look(context, host_facts, parameters.get("logs"))
    for module in MODULES.values():
        if hasattr(module, "ask"):
            read.update(module.ask(context))
    facts = dict(
        read,
        found=host_facts,
        row=context.row,
        changes=changes,
        options=context.options,
    )
    findings = diagnose(facts, parameters.get("host"))
    steps = fixes(findings)
    for entry in findings:
        # What a step writes stands in `fixes` alone: a report may be shown to others.
        components = entry["fix"].pop("components", [])
        entry["fix"] = {"components": components, "steps": sorted(entry["fix"])}
    other_run = host_facts["preflight"].get("running")
    return {
        "findings": findings,
        "fixes": steps,
        # Components are for a run to bring; the rest is what tasks/doctor_fix.yml can do.
        "fixable": any(steps[step] for step in steps if step != "components"),
        "busy": running.who(other_run) if other_run is not None else "",
        "locked": context.row is not None,
        "differences": len(changes),
        "notes": notes(host_facts),
        "platform": host_facts["platform"],
        "simulated_gpu": host_facts["simulated_gpu"],
        "changed": False,
    }
