"""NVSwitch's fabric manager: started where the driver came without a reboot, and gone with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_stack.components import nvidia_driver
from gpu_stack.components.nvidia_driver import driver_method, driver_packages

from tests.roles.test_platforms import templated

from .test_driver_method import FABRIC, NETWORK, network_host, of, seen, with_switch
from .test_nvidia_driver import items
from .trees import context, status, tree

ROLE = Path(__file__).parents[3] / "roles" / "nvidia_driver"
UNIT = driver_method.FABRIC_UNIT
VERSION = "470.256.02"


def switched(root: Path, version: str = VERSION) -> Path:
    """A host with an NVSwitch and an enabled fabric manager, which does not run."""
    with_switch(network_host(root))
    manager = (FABRIC, f"{version}-1", "hold")
    packages = status(*of(NETWORK), ("dkms", "2.8.4-3", "install"), manager)
    wanted = f"/etc/systemd/system/multi-user.target.wants/{UNIT}"
    return tree(root, {"/var/lib/dpkg/status": packages, wanted: ""})


@pytest.mark.parametrize("hierarchy", ["", "/systemd"])
def test_one_that_does_not_run_is_started(tmp_path: Path, hierarchy: str) -> None:
    switched(tmp_path)
    (change,) = seen(tmp_path, NETWORK)[1]
    assert (change["item"], change["from"], change["to"]) == (UNIT, "not running", "running")
    tree(tmp_path, {f"/sys/fs/cgroup{hierarchy}/system.slice/{UNIT}/cgroup.procs": "7\n"})
    assert seen(tmp_path, NETWORK)[1] == []


def test_it_is_not_expected_to_run_beside_another_module(tmp_path: Path) -> None:
    """A reboot starts it, with the module that is installed."""
    switched(tmp_path)
    tree(tmp_path, {"/sys/module/nvidia/version": "470.239.06\n"})
    assert items(seen(tmp_path, NETWORK)[1]) == ["running driver"]


def test_it_is_not_expected_to_run_in_a_container_or_without_a_switch(tmp_path: Path) -> None:
    switched(tmp_path)
    assert UNIT not in items(seen(tmp_path, NETWORK, container=True)[1])
    (tmp_path / "sys/bus/pci/devices/0000:c1:00.0/class").write_text("0x060400\n", "utf-8")
    assert seen(tmp_path, NETWORK, nvidia_driver_fabric_manager="true")[1] == []


def test_the_role_starts_it_once_the_module_is_in_the_kernel() -> None:
    """What the installation stopped runs again, where no reboot is to come."""
    tasks = yaml.safe_load((ROLE / "tasks/kernel/module.yml").read_text("utf-8"))
    names = [task["name"] for task in tasks]
    started = [
        task for task in tasks
        if task.get("ansible.builtin.systemd_service")
        == {"name": UNIT, "state": "started"}
    ]  # fmt: skip
    assert len(started) == 1
    loads = names.index("kernel | module | Bring the module that is installed into the kernel")
    assert tasks.index(started[0]) > loads
    assert "__nvidia_driver_reboot_reason | length == 0" in started[0]["when"]
    assert "not __nvidia_driver_container" in started[0]["when"]


def test_it_goes_with_the_driver(tmp_path: Path) -> None:
    """What a run has installed is the driver's, where the receipt says whose packages are."""
    switched(tmp_path)
    expected = {**driver_packages.all_packages(NETWORK), FABRIC: f"{VERSION}-1"}
    assert packages(tmp_path) == expected
    # No package that apt would be asked for: nobody knows its whole version before.
    assert FABRIC not in packages(switched(tmp_path, "470.239.06"))
    assert FABRIC not in packages(switched(tmp_path), nvidia_driver_fabric_manager="false")
    assert FABRIC not in packages(switched(tmp_path), nvidia_driver_scope="userspace")
    network_host(tmp_path)
    assert FABRIC not in packages(tmp_path)


def packages(root: Path, **options: Any) -> dict[str, str]:
    here = context(root, options=options, driver=NETWORK, distribution="ubuntu")
    return nvidia_driver.packages(NETWORK, here)


@pytest.mark.parametrize(
    ("wish", "switches", "wanted"),
    [
        ("auto", "0000:c1:00.0", True),
        ("auto", "", False),
        (True, "", True),
        ("false", "0000:c1:00.0", False),
    ],
)
def test_the_role_takes_away_what_it_would_install(wish: Any, switches: str, wanted: bool) -> None:
    tasks = yaml.safe_load((ROLE / "tasks/absent.yml").read_text("utf-8"))
    (removal,) = [task for task in tasks if "provision.gpu.exact_packages" in task]
    variables = {
        **yaml.safe_load((ROLE / "vars/main.yml").read_text("utf-8")),
        "nvidia_driver_branch": "470",
        "nvidia_driver_version": VERSION,
        "nvidia_driver_fabric_manager": wish,
        "__nvidia_driver_scope": "full",
        "__nvidia_driver_switches": {"stdout": switches},
        "__nvidia_driver_wanted": {"nvidia-dkms-470": "x"},
    }
    found = templated(removal["provision.gpu.exact_packages"]["packages"], **variables)
    assert set(found) == {"nvidia-dkms-470", *([FABRIC] if wanted else [])}
    # The package leaves its link, by which systemd would look for it at each boot.
    (disabled,) = [task for task in tasks if UNIT in str(task.get("ansible.builtin.shell"))]
    assert tasks.index(disabled) > tasks.index(removal)
