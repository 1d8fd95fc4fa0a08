"""Renders an acceptance as JUnit XML: a host is a suite, each check of it and of its GPUs a case.

What was only measured, or can't be asked, is skipped and says why: a CI system that showed it green
would say more than is known. A host without a verdict has one case that is an error. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from provision import collection
from provision.report import xunit
from provision.report.reading import Problem, clean

SIMULATED = "The GPUs of this host are simulated: nothing here says anything of a real one."
SKIPPED = ("measured", "not applicable")
# Returns the findings of a verdict that are degraded or failed, each with its `subject` and `how`.
Blamed = Callable[[Mapping[str, Any]], Sequence[Mapping[str, Any]]]


def render(report: Mapping[str, Any], blamed: Blamed) -> bytes:
    """The XML of report/acceptance.json; `blamed` returns a verdict's faults."""
    root = ElementTree.Element("testsuites", name="provision accept")
    for name, host in report["hosts"].items():
        _suite(root, clean(name), host, blamed)
    return xunit.written(root)


def _suite(root: ElementTree.Element, name: str, host: Mapping[str, Any], blamed: Blamed) -> None:
    suite = ElementTree.SubElement(root, "testsuite", name=name, hostname=name)
    verdict = host["acceptance"]
    case = ElementTree.SubElement(suite, "testcase", classname=f"{name}.host", name="answer")
    if verdict is None or host["message"]:
        xunit.add(case, "error", host["status"], [Problem("", clean(host["message"]))])
    if verdict is not None:
        faults = iter(blamed(verdict))
        for check in verdict["checks"]:
            _check(suite, f"{name}.host", check, faults)
        for gpu in verdict["gpus"]:
            # By its place: a card that is replaced is another test of the same slot.
            for check in gpu["checks"]:
                _check(suite, f"{name}.gpu{gpu['index']}", check, faults)
        if verdict["simulated"]:
            ElementTree.SubElement(suite, "system-out").text = SIMULATED
    xunit.count(suite)


def _check(suite: ElementTree.Element, subject: str, check: Mapping[str, Any], faults: Any) -> None:
    case = ElementTree.SubElement(suite, "testcase", classname=subject, name=clean(check["check"]))
    state = check["state"]
    if state in SKIPPED:
        xunit.add(case, "skipped", state, [Problem("", f"{state}: {clean(check['reason'])}")])
    elif state in collection.stack_module("acceptance.findings").BLAMED:
        # In the order of the checks.
        fault = next(faults)
        title, how = clean(fault["subject"]), clean(fault["how"])
        cure = clean(fault["action"]) + (f" ({how})" if how else "")
        message = "; ".join([clean(fault["reason"]), *(clean(x) for x in fault["evidence"])])
        xunit.add(case, "failure", state, [Problem(title, message, cure)])
