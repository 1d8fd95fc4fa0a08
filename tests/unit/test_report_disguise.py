"""A host that only says that it is Ubuntu: the look sees it, and every form of report says it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import gpu_stack.look
import pytest
from gpu_stack.host import platform
from report_samples import host, report
from rich.console import Console

from provision.locallab import identity
from provision.report import html, junit, terminal
from tests.host_tree import tree

SAID = "Ubuntu 20.04.6 LTS by name only: the userland is Debian (bullseye)"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = identity.FOCAL.files("Debian (bullseye)")
    return tree(tmp_path, {path: text for path, (text, _) in files.items()})


def look(root: Path) -> dict[str, Any]:
    context = gpu_stack.host.context.Context(str(root), gpu_stack.host.context.run_nothing)
    found: dict[str, Any] = platform.look(context)
    return found


def test_the_look_sees_both(root: Path) -> None:
    seen = look(root)
    assert seen["userland"] == "Debian (bullseye)"
    assert platform.words(seen | {"architecture": "x86_64"}) == "ubuntu 20.04 x86_64"
    (root / "etc/os-simulated").unlink()
    assert "userland" not in look(root)


def made(root: Path) -> dict[str, Any]:
    entry = host("proven")
    entry["platform"] = look(root)
    return report(gpu1=entry)


def shown(document: dict[str, Any], form: Any) -> str:
    out = io.StringIO()
    form(document, Console(file=out, width=200))
    return out.getvalue()


def test_every_form_says_so(root: Path) -> None:
    document = made(root)
    assert f"gpu1: {SAID}" in shown(document, terminal.outcome)
    assert f"gpu1: {SAID}" in shown(document, terminal.plan)
    assert SAID in html.render(document).decode()
    assert SAID in junit.render(document).decode()


def test_no_other_host_is_called_so() -> None:
    document = report(gpu1=host("proven"))
    for text in (shown(document, terminal.outcome), html.render(document).decode()):
        assert "by name only" not in text
