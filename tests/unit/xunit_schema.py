"""What JUnit XML may have, for the tests of all that is written as such."""

from __future__ import annotations

import re
from xml.etree import ElementTree

# What Jenkins' xUnit plugin allows (its junit-10.xsd), which is stricter than GitLab:
# element -> (required attributes, other attributes, children).
OUTCOME: tuple[set[str], set[str], set[str]] = (set(), {"type", "message"}, set())
SCHEMA: dict[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors"},
        {"time", "skipped", "timestamp", "hostname"},
        {"properties", "testcase", "system-out"},
    ),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, set(), set()),
    "testcase": ({"name"}, {"time", "classname"}, {"skipped", "error", "failure", "system-out"}),
    "skipped": OUTCOME,
    "error": OUTCOME,
    "failure": OUTCOME,
    "system-out": (set(), set(), set()),
}
TIME = re.compile(r"\d+\.\d{3}")


def faults(element: ElementTree.Element) -> list[str]:
    """Where the XML is not as SCHEMA says, and where a count is not the number of its elements."""
    required, others, children = SCHEMA[element.tag]
    found = [f"{element.tag} lacks {name}" for name in required - set(element.keys())]
    found += [f"{element.tag} has {name}" for name in set(element.keys()) - required - others]
    if "time" in element.keys() and not TIME.fullmatch(element.get("time", "")):  # noqa: SIM118
        found.append(f"{element.tag}: time {element.get('time')}")
    for child in element:
        if child.tag in children:
            found += faults(child)
        else:
            found.append(f"{child.tag} in {element.tag}")
    if element.tag in ("testsuite", "testsuites"):
        counted = {
            "tests": len(list(element.iter("testcase"))),
            "failures": len(list(element.iter("failure"))),
            "errors": len(list(element.iter("error"))),
            "skipped": len(list(element.iter("skipped"))),
        }
        found += [
            f"{element.get('name')}: {key} is {element.get(key)}, there are {number}"
            for key, number in counted.items()
            if element.get(key) not in (str(number), None)
        ]
    return found
