"""JUnit XML of a report: what CI systems count, in the shape that they read."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_samples import host, lab, report

from provision.report import exit_code, junit, validate
from tests.unit.xunit_schema import faults


def rendered(made: dict[str, Any]) -> ElementTree.Element:
    data = junit.render(validate(made))
    assert data == junit.render(made)
    root = ElementTree.fromstring(data)  # noqa: S314 (our own)
    assert faults(root) == []
    return root


def outcome(root: ElementTree.Element, suite: str, case: str) -> ElementTree.Element | None:
    """What stands in the case whose name begins so; None where it passed."""
    cases = [
        found
        for found in root.findall(f"testsuite[@name='{suite}']/testcase")
        if found.get("name", "").startswith(f"{case}:")
    ]
    assert len(cases) == 1
    return cases[0][0] if len(cases[0]) else None


def test_a_proven_host_is_green_and_what_does_not_apply_is_skipped_with_its_reason() -> None:
    root = rendered(report(gpu01=host("proven")))
    assert (root.get("failures"), root.get("errors")) == ("0", "0")
    assert outcome(root, "gpu01", "run") is None
    assert outcome(root, "gpu01", "cuda.packages") is None
    skipped = outcome(root, "gpu01", "nvidia_driver.module")
    assert skipped is not None
    assert skipped.tag == "skipped"
    assert skipped.text == skipped.get("message") == "a simulated GPU has no kernel module"


def test_a_failed_check_is_a_failure_with_diagnosis_and_cure() -> None:
    """GitLab shows an element's text only, Jenkins `message` first: both have it."""
    root = rendered(report("verify", gpu01=host("failed_check")))
    failure = outcome(root, "gpu01", "cuda.libraries")
    assert failure is not None
    assert failure.tag == "failure"
    assert "libcusolver.so.11 (package libcusolver11) can't be loaded" in failure.get("message", "")
    assert "libcusolver.so.11 (package libcusolver11) can't be loaded" in (failure.text or "")
    assert "\ncure: run the playbook again" in (failure.text or "")


def test_one_cause_is_one_failure() -> None:
    """The host's own case does not repeat what its checks say, and is not green either."""
    root = rendered(report("verify", gpu01=host("failed_check")))
    case = outcome(root, "gpu01", "run")
    assert case is not None
    assert case.tag == "skipped"
    assert root.get("errors") == "0"


@pytest.mark.parametrize("kind", ["blocked", "unreachable", "failed_task"])
def test_a_host_that_no_check_ran_on_is_an_error(kind: str) -> None:
    root = rendered(report(gpu01=host(kind)))
    error = outcome(root, "gpu01", "run")
    assert error is not None
    assert error.tag == "error"
    assert error.get("type") == host(kind)["status"]
    assert error.text
    assert root.get("errors") == "1"


def test_an_unreachable_host_has_sshs_words_and_a_cure() -> None:
    error = outcome(rendered(report(a=host("unreachable"))), "a", "run")
    assert error is not None
    assert "No route to host" in (error.text or "")
    assert "Task failed" not in (error.text or "")
    assert "cure: nothing answers at that address" in (error.text or "")


def test_every_blocker_is_named() -> None:
    blocked = host("blocked")
    error = outcome(rendered(report(a=blocked)), "a", "run")
    assert error is not None
    for blocker in blocked["blockers"]:
        assert blocker["message"] in (error.text or "")
        assert blocker["hint"] in (error.text or "")


def test_drift_is_a_failure_unless_the_run_was_told_to_leave_it() -> None:
    """As the exit code has it: 5 for plan and verify, 0 for tags."""
    for mode, tag in (("check", "failure"), ("verify", "failure"), ("run", "skipped")):
        case = outcome(rendered(report(mode, a=host("drift"))), "a", "run")
        assert case is not None
        assert case.tag == tag
        assert "cuda" in (case.text or "")


def red(root: ElementTree.Element) -> bool:
    return bool(root.findall(".//failure") or root.findall(".//error"))


@pytest.mark.parametrize("mode", ["run", "check", "verify"])
@pytest.mark.parametrize(
    "kind",
    ["proven", "converged", "drift", "failed_check", "failed_task", "blocked", "unreachable"],
)
def test_it_is_red_exactly_where_the_exit_code_is_not_zero(mode: str, kind: str) -> None:
    made = report(mode, a=host(kind), b=host("proven"))
    assert red(rendered(made)) == (exit_code(made) != 0)


def test_no_host_and_an_interruption_are_red() -> None:
    assert "no host was looked at" in ElementTree.tostring(rendered(report()), "unicode")
    assert red(rendered(report()))
    assert red(rendered(report(a=host("proven")) | {"interrupted": True}))


def test_a_case_is_known_by_host_component_and_id() -> None:
    """GitLab merges cases of the same classname and name; hosts must not melt together."""
    root = rendered(lab(5))
    keys = [(case.get("classname"), case.get("name")) for case in root.iter("testcase")]
    assert len(set(keys)) == len(keys)
    assert any(key[0] == "gpu001.cuda" and key[1].startswith("cuda.libraries: ") for key in keys)


def test_a_simulated_gpu_is_called_one() -> None:
    properties = rendered(report(a=host("proven"))).findall(".//property[@name='simulated_gpu']")
    assert [found.get("value") for found in properties] == ["true"]
    output = rendered(report(a=host("proven"))).findtext("testsuite/system-out")
    assert output == junit.SIMULATED
    real = rendered(report(a=host("proven") | {"simulated_gpu": False}))
    assert real.findtext("testsuite/system-out") is None


def test_changes_stand_in_the_suites_output() -> None:
    text = rendered(report(a=host("drift"))).findtext("testsuite/system-out")
    assert text
    for change in host("drift")["changes"]:
        assert f"{change['component']} {change['item']}: " in text


def test_what_xml_cannot_hold_is_written_out() -> None:
    failed = host("failed_task")
    failed["failure"]["message"] = "\x1b[31mred\x1b[0m \x00 \ud800 ]]> <script> & \u202e"
    root = rendered(report(**{"<a&b>": failed}))
    error = outcome(root, "<a&b>", "run")
    assert error is not None
    assert "red \\u0000 \\ud800 ]]> <script> & \\u202e" in (error.text or "")


@given(text=st.text(st.characters(), max_size=40), name=st.text(st.characters(), min_size=1))
def test_any_text_gives_xml(text: str, name: str) -> None:
    failed = host("failed_check")
    failed["checks"][0].update(title=text, detail=text, diagnosis=text, hint=text)
    failed["stack"] = text
    rendered(report(**{name: failed, "b": host("unreachable") | {"failure": {"message": text}}}))


def test_the_checker_of_the_shape_sees_a_wrong_one() -> None:
    made = ElementTree.fromstring(  # noqa: S314
        '<testsuites skipped="1"><testsuite name="a" tests="2" failures="0" errors="0">'
        '<testcase time="fast"><skip/></testcase></testsuite></testsuites>'
    )
    assert sorted(faults(made)) == [
        "None: skipped is 1, there are 0",
        "a: tests is 2, there are 1",
        "skip in testcase",
        "testcase lacks name",
        "testcase: time fast",
        "testsuites has skipped",
    ]
