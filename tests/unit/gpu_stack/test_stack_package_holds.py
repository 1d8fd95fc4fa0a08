"""Which packages `apt-mark` is asked to hold or to release."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.host import apt_commands
from gpu_stack.host.refusal import RefusalError

from plugins.modules import package_holds
from tests.collection import IMPORTABLE, module
from tests.unit.gpu_stack import apt_host
from tests.unit.gpu_stack.apt_host import AptHost

NAMES = ["libcuda1", "libcublas11"]
ANSIBLE = str(Path(sys.executable).parent / "ansible")


def set_holds(names: list[str], hold: bool, check_mode: bool = False) -> list[str]:
    """The packages that the module answers with its defaults."""
    params = apt_host.parameters(package_holds, names=names, hold=hold)
    result = apt_commands.settle_holds(params, check_mode)
    assert result["changed"] == bool(result["packages"])
    packages: list[str] = result["packages"]
    return packages


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> AptHost:
    """libcuda1 is held already, and so is a package of somebody's."""
    host = apt_host.install(monkeypatch)
    host.says("apt-mark showhold", (0, "libcuda1\nsomebodys\n", ""))
    return host


@pytest.mark.parametrize(
    ("hold", "package", "call"),
    [(True, "libcublas11", "apt-mark hold"), (False, "libcuda1", "apt-mark unhold")],
)
def test_only_what_differs_is_held_or_released(
    host: AptHost, hold: bool, package: str, call: str
) -> None:
    assert set_holds(NAMES, hold, check_mode=True) == [package]
    assert host.calls == ["apt-mark showhold"]
    assert set_holds(NAMES, hold) == [package]
    assert host.calls[2:] == [f"{call} {package}"]
    assert set_holds([name for name in NAMES if name != package], hold) == []
    assert host.calls[3:] == ["apt-mark showhold"]


def test_another_apt_is_waited_for(host: AptHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apt_commands.time, "sleep", lambda _seconds: None)
    locked = (100, "", "E: Could not get lock /var/lib/dpkg/lock")
    host.says("apt-mark hold", locked, (0, "", ""))
    assert set_holds(NAMES, True) == ["libcublas11"]
    assert host.ran("apt-mark hold") == ["apt-mark hold libcublas11"] * 2


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("E: Unable to locate package libcublas11", "E: Unable to locate package libcublas11"),
        ("", "apt-mark ended with 100"),
    ],
)
def test_what_apt_refuses_is_an_error(host: AptHost, error: str, message: str) -> None:
    host.says("apt-mark hold", (100, "", error))
    with pytest.raises(RefusalError, match=f"^{message}$"):
        set_holds(NAMES, True)


def test_the_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "apt-mark"
    program.write_text(
        f'#!/bin/sh\necho "$*" >> {tmp_path}/calls\n[ $1 = showhold ] || [ $2 = libcuda1 ]\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def run(names: list[str], *more: str) -> Any:
        more = (*more, "-e", f"ansible_python_interpreter={sys.executable}")
        options = {"names": names, "hold": True}
        return module(ANSIBLE, "package_holds", options, *more, path=IMPORTABLE)[0]

    answer = run(["libcuda1"], "--check")
    assert (answer["changed"], answer["packages"]) == (True, ["libcuda1"])
    answer = run(["libcuda1"])
    assert (answer["changed"], answer["packages"]) == (True, ["libcuda1"])
    assert run([])["changed"] is False
    assert run(["unknown"])["msg"] == "apt-mark ended with 1"
    asked = (tmp_path / "calls").read_text().splitlines()
    assert asked == ["showhold", "showhold", "hold libcuda1", *["showhold"] * 2, "hold unknown"]
