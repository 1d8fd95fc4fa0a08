"""What readers of a report say of hosts that were not begun."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from provision.errors import InputError
from provision.report import exit_code, html, junit, terminal, validate

MESSAGE = "Not begun, and untouched: b, c; a batch before them is not proven (a)"
FAILED: dict[str, Any] = {
    "format": 1,
    "mode": "run",
    "seconds": 3.2,
    "started": "2026-11-21T14:03:00.000Z",
    "finished": "2026-11-21T14:03:03.200Z",
    "hosts": {
        "a": {
            "status": "failed",
            "failure": {"task": "proof", "message": "no GPU", "phase": "proof"},
        }
    },
    "not_begun": {"hosts": ["b", "c"], "message": MESSAGE},
}


def test_the_terminal_says_it_before_the_sum() -> None:
    stream = io.StringIO()
    terminal.outcome(FAILED, Console(file=stream, width=200))
    lines = stream.getvalue().split("\n")
    assert MESSAGE in lines
    assert "1 host: 1 failed (3.2 s); 2 not begun" in lines


def test_the_page_and_ci_say_it() -> None:
    assert "2 not begun" in str(html.render(FAILED))
    assert MESSAGE in junit.render(FAILED).decode()


def test_the_exit_code_is_that_of_the_host_that_failed() -> None:
    assert exit_code(validate(FAILED)) == 6


@pytest.mark.parametrize("bad", [[], "b", {"hosts": ["b"]}, {"hosts": "b", "message": MESSAGE}])
def test_another_shape_is_no_report(bad: Any) -> None:
    with pytest.raises(InputError, match="`not_begun`"):
        validate({**FAILED, "not_begun": bad})
