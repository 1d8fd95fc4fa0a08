"""A driver from another source: what goes before the new one comes, and when a run refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gpu_stack.components import nvidia_driver
from gpu_stack.components.nvidia_driver import driver_method, driver_packages, other_driver
from gpu_stack.host.context import Context
from gpu_stack.host.refusal import RefusalError

from .test_driver_method import NETWORK, RUN, SIGNED
from .trees import status, tree

NOTHING: dict[str, Any] = {
    "came": "", "packages": [], "branch": [], "runfile": False, "source": False, "here": False
}  # fmt: skip
SERVER_535 = "libnvidia-compute-535-server"


def host(root: Path, *names: str, pins: dict[str, Any] | None = None, want: str = "") -> Context:
    """A host with these packages and the pins of this row."""
    packages = [(name, "1", want or "install") for name in names]
    tree(root, {"/var/lib/dpkg/status": status(*packages)})
    if pins is not None:
        tree(root, {nvidia_driver.PINS: driver_packages.pins_text(pins)})
    return Context(str(root))


def parts(row: dict[str, Any]) -> list[str]:
    return list(driver_packages.all_packages(row))


def look(context: Context, row: dict[str, Any]) -> dict[str, Any]:
    return other_driver.look(context, driver_method.source(row), parts(row))


def refused(context: Context, row: dict[str, Any]) -> str:
    with pytest.raises(RefusalError) as raised:
        other_driver.check(context, driver_method.source(row), parts(row), "refuse")
    return str(raised.value)


@pytest.mark.parametrize("row", [SIGNED, NETWORK, RUN], ids=driver_method.source)
def test_on_a_bare_host_nothing_goes(tmp_path: Path, row: dict[str, Any]) -> None:
    context = host(tmp_path, "libc6", "nvidia-container-toolkit")
    assert look(context, row) == NOTHING
    assert other_driver.check(context, driver_method.source(row), parts(row), "refuse") == NOTHING


@pytest.mark.parametrize("row", [SIGNED, NETWORK], ids=driver_method.source)
def test_the_wishs_own_packages_stay(tmp_path: Path, row: dict[str, Any]) -> None:
    context = host(tmp_path, *parts(row), pins=row)
    assert look(context, row) == {**NOTHING, "came": driver_method.source(row)}


def test_another_branch_from_the_same_source_goes_with_the_transaction(tmp_path: Path) -> None:
    """What has the branch of the wish and its -server stays; no switch is asked for."""
    names = ["libc6", SERVER_535, "nvidia-utils-470", "libnvidia-gl-470-server"]
    context = host(tmp_path, *names, pins=SIGNED)
    assert look(context, SIGNED) == {
        **NOTHING, "came": "distribution", "branch": [SERVER_535, "nvidia-utils-470"]
    }  # fmt: skip
    assert other_driver.check(context, "distribution", parts(SIGNED), "refuse")["branch"]


def test_somebody_elses_branch_is_refused_until_the_wish_says_switch(tmp_path: Path) -> None:
    context = host(tmp_path, SERVER_535, "nvidia-utils-470", "libnvidia-gl-470-server")
    names = [SERVER_535, "nvidia-utils-470"]
    assert look(context, SIGNED) == {**NOTHING, "packages": names, "here": True}
    assert refused(context, SIGNED) == (
        "The driver is to come from the platform's packages, and another one is here: packages"
        f' {", ".join(names)}. Set nvidia_driver_switch to "switch", and the run removes it first.'
        " Nothing was touched."
    )
    let = other_driver.check(context, "distribution", parts(SIGNED), "switch")
    assert let["packages"] == names


def test_every_package_of_a_driver_goes_before_the_run_file(tmp_path: Path) -> None:
    names = ["libcuda1", "nvidia-kernel-dkms"]
    for pins in (None, RUN, SIGNED):
        folder = tmp_path / driver_method.source(pins or {}) / str(pins is None)
        context = host(folder, *names, "nvidia-settings", pins=pins)
        assert look(context, RUN)["packages"] == names
        assert "to come from NVIDIA's .run file" in refused(context, RUN)
        assert not look(context, RUN)["source"]


def test_the_same_names_from_another_repository_are_another_driver(tmp_path: Path) -> None:
    context = host(tmp_path, *parts(NETWORK), pins=SIGNED)
    assert look(context, NETWORK) == {
        **NOTHING, "came": "distribution", "source": True, "here": True
    }  # fmt: skip
    assert "one of the platform's packages." in refused(context, NETWORK)
    bare = host(tmp_path / "bare", "libc6", pins=SIGNED)
    assert not look(bare, NETWORK)["here"]


def test_what_has_only_its_configuration_left_is_not_installed(tmp_path: Path) -> None:
    text = status((SERVER_535, "1", "deinstall")).replace("ok installed", "ok config-files")
    tree(tmp_path, {"/var/lib/dpkg/status": text})
    assert look(Context(str(tmp_path)), SIGNED) == NOTHING


def test_the_run_files_driver_goes_before_packages(tmp_path: Path) -> None:
    context = host(tmp_path, SERVER_535, pins=RUN)
    uninstaller = tmp_path / driver_method.UNINSTALLER.lstrip("/")
    uninstaller.parent.mkdir(parents=True)
    uninstaller.symlink_to("nvidia-installer")  # as NVIDIA's is, here without its target
    seen = look(context, SIGNED)
    assert (seen["came"], seen["runfile"], seen["packages"]) == ("runfile", True, [SERVER_535])
    assert (
        "another one is here: the .run file's (nvidia-uninstall removes it); packages " + SERVER_535
        in refused(context, SIGNED)
    )
    assert not look(context, RUN)["runfile"]


@pytest.mark.parametrize("check_mode", [True, False])
def test_the_module_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check_mode: bool
) -> None:
    params = {"source": "distribution", "parts": parts(SIGNED), "switch": "switch"}
    context = host(tmp_path, SERVER_535)
    monkeypatch.setattr(other_driver, "Context", lambda: context)
    expected = {**NOTHING, "packages": [SERVER_535], "here": True, "changed": False}
    assert other_driver.settle(params, check_mode) == expected
    with pytest.raises(RefusalError, match="nvidia_driver_switch"):
        other_driver.settle({**params, "switch": "refuse"}, check_mode)
