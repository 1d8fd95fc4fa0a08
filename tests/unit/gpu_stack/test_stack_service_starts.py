"""Debian's policy-rc.d: no package starts its services meanwhile, and somebody's own comes back."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml
from gpu_stack import receipt
from gpu_stack.components.nvidia_driver import driver_install
from gpu_stack.host import named_packages, package_install, service_starts
from gpu_stack.host.context import Context

from plugins.modules import driver_packages, exact_packages
from plugins.modules import named_packages as names_module
from tests.collection import ROOT
from tests.unit.gpu_stack import apt_host

OWN = "#!/bin/sh\nexit 0\n"


@pytest.fixture(autouse=True)
def policy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    place = tmp_path / "policy-rc.d"
    monkeypatch.setattr(service_starts, "POLICY", str(place))
    monkeypatch.setattr(service_starts, "KEPT", f"{place}.provision-kept")
    monkeypatch.setattr(service_starts, "NEW", f"{place}.provision-new")
    return place


@pytest.mark.parametrize("killed", ["before", "after", "new"])
def test_somebodys_policy_of_starts_is_back_afterwards(policy: Path, killed: str) -> None:
    """Also where an earlier run was killed while its own was in the place."""
    kept = Path(service_starts.KEPT)
    (kept if killed != "new" else policy).write_text(OWN)
    if killed == "after":
        policy.write_text(service_starts.TEXT)
    if killed == "new":
        Path(service_starts.NEW).write_text("#!")
    with service_starts.none():
        assert policy.read_text() == service_starts.TEXT
    assert policy.read_text() == OWN
    assert not kept.exists()
    assert not Path(service_starts.NEW).exists()


def test_what_a_killed_run_left_of_its_own_policy_goes(policy: Path) -> None:
    policy.write_text(service_starts.TEXT)
    with service_starts.none():
        pass
    assert not os.path.lexists(policy)
    policy.write_text(f"{service_starts.TEXT}# mine\n")
    with service_starts.none():
        pass
    assert policy.read_text().endswith("# mine\n")


# a run that is cut off


def named(check_mode: bool) -> None:
    params = apt_host.parameters(names_module, names=[])
    named_packages.settle(params, check_mode)


def exact(check_mode: bool) -> None:
    params = apt_host.parameters(exact_packages, component="cuda", packages={})
    package_install.settle(params, check_mode)


def driver(check_mode: bool) -> None:
    params = apt_host.parameters(driver_packages, version="1", packages={}, parts=[])
    driver_install.settle(params, check_mode)


@pytest.mark.parametrize("settle", [named, exact, driver])
def test_what_a_killed_run_left_is_put_right_where_no_package_is_missing(
    policy: Path, monkeypatch: pytest.MonkeyPatch, settle: Callable[[bool], None]
) -> None:
    apt_host.install(monkeypatch)
    monkeypatch.setattr(Context, "packages", {})
    for own in (None, OWN):
        policy.write_text(service_starts.TEXT)
        if own is not None:
            Path(service_starts.KEPT).write_text(own)
        settle(True)
        assert policy.read_text() == service_starts.TEXT
        settle(False)
        assert (policy.read_text() if policy.exists() else None) == own
        assert not os.path.lexists(service_starts.KEPT)


def test_the_run_after_one_that_was_cut_off_puts_it_right_at_its_begin() -> None:
    """Whatever it does then; under the host's lock, and a run after a finished one pays nothing."""
    tasks = yaml.safe_load((ROOT / "roles/gpu_state/tasks/begin.yml").read_text("utf-8"))
    assert "provision.gpu.gpu_hold" in tasks[0]
    (left,) = [task for task in tasks if "block" in task]
    (task,) = [task for task in left["block"] if "provision.gpu.named_packages" in task]
    assert task["provision.gpu.named_packages"] == {"names": []}
    asks = jinja2.Environment().compile_expression(left["when"])  # noqa: S701
    for unfinished in (True, False):
        changes = receipt.differ("sha256:1", None, unfinished=unfinished)
        assert asks(gpu_plan={"changes": changes}) == unfinished


def test_sigterm_ends_the_process_once_apt_has_ended_and_the_policy_is_back(policy: Path) -> None:
    """Its default would skip that; and a start that apt asks for meanwhile is still refused."""
    policy.write_text(OWN)
    seen, told = os.pipe()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            with service_starts.none():
                os.kill(os.getpid(), signal.SIGTERM)
                os.write(told, policy.read_bytes())
        except SystemExit as error:
            code = int(str(error.code))
        finally:
            os._exit(code)
    os.close(told)
    with os.fdopen(seen, "rb") as stream:
        assert stream.read().decode() == service_starts.TEXT
    _pid, status = os.waitpid(pid, 0)
    assert (os.WIFEXITED(status), os.WEXITSTATUS(status)) == (True, 128 + signal.SIGTERM)
    assert policy.read_text() == OWN
    assert not os.path.lexists(service_starts.KEPT)


def test_an_answered_sigterm_is_the_callers_own_again() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with service_starts.none():
        pass
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_policy_is_on_the_disk_before_it_is_in_its_place(
    policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that a power cut left empty would count as somebody's own."""
    calls: list[tuple[str, str]] = []
    fsync, replace = os.fsync, os.replace

    def synced(handle: int) -> None:
        calls.append(("sync", os.readlink(f"/proc/self/fd/{handle}")))
        fsync(handle)

    def replaced(source: Any, target: Any) -> None:
        calls.append(("replace", target))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    with service_starts.none():
        assert calls == [
            ("sync", service_starts.NEW), ("replace", str(policy)), ("sync", str(policy.parent))
        ]  # fmt: skip
    # Nor does a cut after the end bring it back.
    assert calls[3:] == [("sync", str(policy.parent))]
    service_starts.restore()
    assert len(calls) == 4
