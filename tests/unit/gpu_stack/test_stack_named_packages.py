"""Packages that are installed by name: which are missing, what apt may do, what it says."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.host import apt_commands, named_packages, package_lists, service_starts
from gpu_stack.host.context import Context
from gpu_stack.host.refusal import RefusalError

from plugins.modules import named_packages as module
from tests.collection import IMPORTABLE
from tests.collection import module as run_module
from tests.unit.gpu_stack import apt_host
from tests.unit.gpu_stack.apt_host import AptHost

ANSIBLE = str(Path(sys.executable).parent / "ansible")
FABRIC = "nvidia-fabricmanager-470"


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AptHost:
    """gcc-10 is installed, g++-10 only configured, the fabric manager held at a version."""
    packages = {
        "gcc-10": {"version": "10.2.1-6", "want": "install", "status": "installed"},
        "g++-10": {"version": "10.2.1-6", "want": "deinstall", "status": "config-files"},
        "dkms": {"version": "2.8.4", "want": "install", "status": "half-configured"},
        "leaving": {"version": "1", "want": "deinstall", "status": "installed"},
        FABRIC: {"version": "470.256.02-1", "want": "hold", "status": "installed"},
    }
    monkeypatch.setattr(Context, "packages", packages)
    monkeypatch.setattr(package_lists, "FETCHED", str(tmp_path / "run/lists"))
    monkeypatch.setenv("PROVISION_RUN", "this run")
    for name in ("POLICY", "KEPT", "NEW"):
        monkeypatch.setattr(service_starts, name, str(tmp_path / name))
    return apt_host.install(monkeypatch)


def settle(*names: str, check_mode: bool = False, **options: Any) -> dict[str, Any]:
    params = apt_host.parameters(module, names=list(names), **options)
    return named_packages.settle(params, check_mode)


def test_only_what_is_missing_is_installed(host: AptHost) -> None:
    answer = settle("gcc-10", "g++-10", "dkms", "leaving", "make")
    lacking = ["g++-10", "dkms", "leaving", "make"]
    assert answer == {"changed": True, "packages": lacking}
    (call,) = host.calls
    assert call.startswith("apt-get --yes --no-remove -oAPT::Install-Recommends=no ")
    assert call.endswith(f" -oDPkg::Lock::Timeout=600 install {' '.join(lacking)}")
    assert "--allow" not in call


def test_where_nothing_is_missing_apt_is_not_called(host: AptHost) -> None:
    assert settle("gcc-10") == {"changed": False, "packages": []}
    assert host.calls == []


@pytest.mark.parametrize(
    ("version", "is_missing"),
    [("470.256.02-*", False), ("470.256.02-1", False), ("470.239.06-*", True), ("470.256", True)],
)
def test_a_version_may_be_asked_for_by_its_beginning(
    host: AptHost, version: str, is_missing: bool
) -> None:
    spec = f"{FABRIC}={version}"
    assert settle(spec)["packages"] == [spec] * is_missing


def test_force_lets_a_held_package_be_changed(host: AptHost) -> None:
    settle(f"{FABRIC}=470.239.06-*", force=True)
    assert host.ran("--allow-downgrades --allow-change-held-packages --no-remove")


def test_check_mode_simulates(host: AptHost) -> None:
    assert settle("make", check_mode=True)["changed"] is True
    assert host.ran("--simulate make")
    host.says("--simulate", (100, "", "E: Unable to locate package make\n"))
    with pytest.raises(RefusalError, match="could not install make: E: Unable to locate"):
        settle("make", check_mode=True)


@pytest.mark.parametrize(
    ("start", "check_mode", "is_kept"),
    [(True, False, False), (False, False, True), (False, True, False)],
)
def test_services_are_started_where_asked(
    host: AptHost,
    monkeypatch: pytest.MonkeyPatch,
    start: bool,
    check_mode: bool,
    is_kept: bool,
) -> None:
    policies: list[bool] = []
    monkeypatch.setattr(
        named_packages.apt_commands,
        "install",
        lambda *_words: policies.append(os.path.exists(service_starts.POLICY)),
    )
    settle("make", start=start, check_mode=check_mode)
    assert policies == [is_kept]
    assert not os.path.exists(service_starts.POLICY)


UPDATE, SIMULATION = "apt-get update", "apt-get --simulate install make"
UNREACHED = (100, "", "E: Failed to fetch http://mirror.example/dists/x/InRelease  timed out\n")


def test_lists_are_fetched_first_once_a_run(host: AptHost, monkeypatch: pytest.MonkeyPatch) -> None:
    settle("make", lists=True)
    assert [call.split()[-1] for call in host.calls] == ["update", "make"]
    settle("make", lists=True)
    assert len(host.ran(UPDATE)) == 1
    monkeypatch.setenv("PROVISION_RUN", "another run")
    settle("make", lists=True)
    assert len(host.ran(UPDATE)) == 2
    # The role by itself, outside of a run.
    monkeypatch.delenv("PROVISION_RUN")
    settle("make", lists=True)
    settle("make", lists=True)
    assert len(host.ran(UPDATE)) == 4


@pytest.mark.parametrize("options", [{"lists": True}, {}])
def test_lists_are_not_fetched_for_nothing(host: AptHost, options: dict[str, bool]) -> None:
    settle("gcc-10", **options)
    settle("make", check_mode=True, **options)
    assert not host.ran(UPDATE)


def test_what_fails_by_the_lists_of_the_run_is_tried_by_new_ones(host: AptHost) -> None:
    gone = (100, "", "E: Failed to fetch http://mirror.example/make_4.3_amd64.deb  404\n")
    settle("tar", lists=True)
    host.says("install make", gone, (0, "", ""))
    assert settle("make", lists=True)["changed"] is True
    assert len(host.ran(UPDATE)) == 2
    host.says("install make", gone)
    with pytest.raises(RefusalError, match="could not install make: E: Failed to fetch"):
        settle("make", lists=True)


def test_a_list_that_fails_does_not_matter_where_apt_has_the_packages(host: AptHost) -> None:
    host.says(UPDATE, UNREACHED)
    assert settle("make", lists=True)["changed"] is True
    assert host.ran(SIMULATION)
    # It is asked for again: nobody knows what its next answer would be.
    settle("make", lists=True)
    assert len(host.ran(UPDATE)) == 2


def test_lists_that_are_needed_and_fail_are_said(host: AptHost) -> None:
    host.says(UPDATE, UNREACHED)
    host.says(SIMULATION, (100, "", "E: Unable to locate package make\n"))
    with pytest.raises(
        RefusalError,
        match=r"^make must be installed, and apt cannot fetch its package lists: E: Failed to fetch"
        r" http://mirror.example/dists/x/InRelease  timed out Check this host's network",
    ):
        settle("make", lists=True)
    assert not [call for call in host.ran("install make") if "--simulate" not in call]


def test_another_apt_at_work_is_said(host: AptHost) -> None:
    host.says(UPDATE, (100, "", "E: Could not get lock /var/lib/apt/lists/lock\n"))
    with pytest.raises(RefusalError, match="Another apt is at work"):
        settle("make", lists=True, wait=0)


def test_absent_takes_away_what_is_there_and_nothing_else(host: AptHost) -> None:
    answer = settle("gcc-10", "make", state="absent", wait=60)
    assert answer == {"changed": True, "packages": ["gcc-10"]}
    settings = " ".join(apt_commands.SETTINGS)
    assert [call.partition(" gcc-10")[0] for call in host.calls] == [
        f"apt-get remove {settings} --simulate",
        f"apt-get remove {settings} --yes -oDPkg::Lock::Timeout=60",
    ]


def test_absent_where_nothing_is_there_does_not_ask_apt(host: AptHost) -> None:
    assert settle("make", state="absent") == {"changed": False, "packages": []}
    assert host.calls == []


def test_absent_is_refused_where_another_package_would_go(host: AptHost) -> None:
    host.says("--simulate gcc-10", (0, "Remv theirs [1]\nRemv gcc-10 [10.2.1-6]\n", ""))
    with pytest.raises(
        RefusalError, match=r"apt would change theirs as well.* nobody needs them\.$"
    ):
        settle("gcc-10", state="absent")
    assert not host.ran("--yes")


def test_absent_leaves_a_held_package_unless_forced(host: AptHost) -> None:
    host.says(f"--simulate {FABRIC}", (100, "", "E: Held packages were changed\n"))
    with pytest.raises(RefusalError, match=r"apt cannot remove .*: E: Held packages"):
        settle(FABRIC, state="absent")
    settle("gcc-10", state="absent", force=True)
    assert host.ran("remove -oAPT::Get::AutomaticRemove=false --allow-change-held-packages --yes")


def test_absent_in_check_mode_only_asks(host: AptHost) -> None:
    assert settle("gcc-10", state="absent", check_mode=True)["changed"] is True
    assert host.ran("--simulate")
    assert not host.ran("--yes")


def test_what_apt_refuses_is_an_error_in_its_words(host: AptHost) -> None:
    error = "E: Packages need to be removed but remove is disabled.\n"
    host.says("install make", (100, "", error))
    with pytest.raises(RefusalError, match="apt could not install make: E: Packages need to be"):
        settle("make")


def test_the_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that no dpkg has, and an apt-get that knows only one."""
    program = tmp_path / "apt-get"
    program.write_text(
        f'#!/bin/sh\necho "$*" >> {tmp_path}/calls\ncase "$*" in *made-up*) exit 0; esac\n'
        'echo "E: Unable to locate package" >&2; exit 100\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def run(*names: str, more: tuple[str, ...] = ()) -> Any:
        more = (*more, "-e", f"ansible_python_interpreter={sys.executable}")
        options = {"names": list(names)}
        return run_module(ANSIBLE, "named_packages", options, *more, path=IMPORTABLE)[0]

    answer = run("dpkg", "made-up", more=("--check",))
    assert (answer["changed"], answer["packages"]) == (True, ["made-up"])
    assert run("dpkg")["changed"] is False
    assert "E: Unable to locate package" in run("absent")["msg"]
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [call.split(" install ")[1] for call in calls] == ["made-up --simulate", "absent"]
