"""Renders a report as JUnit XML, for CI systems that show tests: a host is a suite, a check a case.

A CI system counts what is in the file. A host without checks, because it was blocked, failed early
or never answered, would be missing there, and everything green; so every host has one case for the
run itself. GitLab identifies a case by `classname` and `name` and shows only an element's text;
Jenkins shows `message` and takes the part before the last dot of `classname` for a package. So a
case's class is `host.component`, and the message is in both places.

Pure: the same report gives the same bytes.
"""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from provision.report import Report, failed_checks, xunit
from provision.report.reading import Problem, clean, differences, number, problems, userland_note

SIMULATED = "The GPU of this host is simulated: nothing here proves a real one."
RUN = "run: The run did on this host what it was told"


def render(report: Report) -> bytes:
    """The XML of a (validated) report, as the schema of Jenkins' xUnit plugin has it."""
    root = ElementTree.Element("testsuites", name="provision")
    for name, host in report["hosts"].items():
        _suite(root, clean(name), host, report)
    if report.get("interrupted"):
        xunit.alone(root, "interrupted", "the run was interrupted; hosts may be missing here")
    if report.get("not_begun"):
        xunit.alone(root, "not begun", report["not_begun"]["message"])
    if not report["hosts"]:
        xunit.alone(root, "hosts", "no host was looked at: does the pattern or --limit match any?")
    root.set("time", _time(report.get("seconds")))
    return xunit.written(root)


def _suite(root: ElementTree.Element, name: str, host: dict[str, Any], report: Report) -> None:
    suite = ElementTree.SubElement(root, "testsuite", name=name, hostname=name)
    parts = host.get("components") or {}
    suite.set("time", _time(sum(number(part.get("seconds")) for part in parts.values())))
    if report.get("started"):
        # ISO 8601 without a zone is what Ant wrote and all readers parse; it is UTC.
        suite.set("timestamp", clean(report["started"]).partition(".")[0].removesuffix("Z"))
    _properties(suite, host, report)
    _run(suite, name, host, report)
    for row in host.get("checks") or []:
        _check(suite, name, row)
    lines = [SIMULATED] if host.get("simulated_gpu") else []
    lines += [userland_note(host)] if userland_note(host) else []
    lines += [_line(change) for change in host.get("changes") or []]
    lines += [f"note: {clean(row.get('message'))}" for row in host.get("warnings") or []]
    if lines:
        ElementTree.SubElement(suite, "system-out").text = "\n".join(lines)
    xunit.count(suite)


def _properties(suite: ElementTree.Element, host: dict[str, Any], report: Report) -> None:
    values = {
        "status": host["status"],
        "simulated_gpu": "true" if host.get("simulated_gpu") else "false",
        "stack": host.get("stack"),
        "lock_digest": report.get("lock_digest"),
        "mode": report.get("mode"),
        "last_proven": host.get("last_proven"),
    }
    for component, version in (host.get("found") or {}).items():
        if isinstance(version, str | int | float):
            values[f"found.{component}"] = version
    properties = ElementTree.SubElement(suite, "properties")
    for key, value in values.items():
        if value is not None:
            ElementTree.SubElement(properties, "property", name=clean(key), value=clean(value))


def _run(suite: ElementTree.Element, name: str, host: dict[str, Any], report: Report) -> None:
    """The case for the run: an error where the host is bad and no check failed."""
    case = ElementTree.SubElement(suite, "testcase", classname=f"{name}.run", name=RUN)
    status = host["status"]
    differs = ", ".join(
        dict.fromkeys(clean(change.get("component")) for change in differences(host))
    )
    if failed_checks(host):
        xunit.add(
            case, "skipped", "failed_checks", [Problem("", "its failed checks say what is wrong")]
        )
    elif status in ("failed", "blocked", "unreachable"):
        xunit.add(case, "error", status, problems(host))
    elif status == "drift" and report.get("mode") == "run":
        xunit.add(case, "skipped", status, [Problem("", f"left out by tags: {differs}")])
    elif status == "drift":
        xunit.add(case, "failure", status, [Problem("", f"differs from its lock: {differs}")])


def _check(suite: ElementTree.Element, name: str, row: dict[str, Any]) -> None:
    identifier = clean(row.get("id")) or "check"
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=f"{name}.{identifier.partition('.')[0]}",
        name=f"{identifier}: {clean(row.get('title'))}",
    )
    result = row.get("result")
    if result == "not_applicable":
        xunit.add(case, "skipped", "not_applicable", [Problem("", clean(row.get("detail")))])
    elif result == "failed":
        message = clean(row.get("diagnosis") or row.get("detail"))
        xunit.add(case, "failure", identifier, [Problem("", message, clean(row.get("hint")))])


def _line(change: dict[str, Any]) -> str:
    """ "cuda libcublas11: none -> 11.4 (missing)"."""
    old = "none" if change.get("from") is None else clean(change["from"])
    new = "none" if change.get("to") is None else clean(change["to"])
    text = f"{clean(change.get('component'))} {clean(change.get('item'))}: {old} -> {new}"
    return f"{text} ({clean(change['reason'])})" if change.get("reason") else text


def _time(seconds: Any) -> str:
    return f"{number(seconds):.3f}"
