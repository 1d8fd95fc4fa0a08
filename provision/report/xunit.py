"""The elements of JUnit XML that all reports share: a case's outcome, and the sums over cases."""

from __future__ import annotations

from xml.etree import ElementTree

from provision.report.reading import Problem


def add(case: ElementTree.Element, tag: str, kind: str, problems: list[Problem]) -> None:
    """Adds the outcome of a case: messages as its attribute, messages with cures as its text."""
    messages = [
        f"{problem.title}: {problem.message}" if problem.title else problem.message
        for problem in problems
    ]
    element = ElementTree.SubElement(case, tag, type=kind, message="; ".join(messages))
    texts = [
        f"{message}\ncure: {problem.cure}" if problem.cure else message
        for message, problem in zip(messages, problems, strict=True)
    ]
    element.text = "\n\n".join(texts)


def alone(root: ElementTree.Element, kind: str, message: str) -> None:
    """Adds a suite of one error that belongs to no host."""
    suite = ElementTree.SubElement(root, "testsuite", name="provision")
    case = ElementTree.SubElement(suite, "testcase", classname="provision.run", name=kind)
    add(case, "error", kind, [Problem("", message)])
    count(suite)


def count(suite: ElementTree.Element) -> None:
    suite.set("tests", str(len(suite.findall("testcase"))))
    for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(key, str(len(suite.findall(f"testcase/{tag}"))))


def written(root: ElementTree.Element) -> bytes:
    """The XML of all suites, with the sums over them."""
    for key in ("tests", "failures", "errors"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    ElementTree.indent(root)
    return b'<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root) + b"\n"
