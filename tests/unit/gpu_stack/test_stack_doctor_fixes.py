"""What --fix does: which finding is whose to repair, and how."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import converged_host as made
import pytest
from doctor_cases import (
    BROKEN,
    cudnn_older,
    driver_mismatch,
    fabric_manager,
    hand_made_link,
    headers_missing,
    key_missing,
    key_rotated,
    policy,
    signed_by_conflict,
)
from doctor_patient import (
    CUDA_LIST,
    CUDA_REPO,
    DRIVER,
    GOOD_FILE,
    KERNEL,
    KEYRING,
    LOCK,
    Patient,
    patient,
)
from gpu_stack.host.context import Context


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Patient:
    return patient(tmp_path, monkeypatch)


def fixed(host: Patient) -> dict[str, Any]:
    return {name: value for name, value in host.ask()["fixes"].items() if value}


def test_the_fix_of_a_signed_by_conflict_keeps_the_entry_with_its_key(host: Patient) -> None:
    signed_by_conflict(host)
    other = "/etc/apt/sources.list.d/zz-cuda.list"
    host.write(other, f"# mine\ndeb {CUDA_REPO} /\ndeb https://other.example/ x main\n")
    host.path(other).chmod(0o640)
    (file,) = fixed(host)["files"]
    assert (file["path"], file["mode"]) == (other, "0640")
    host.write(other, file["content"])
    assert host.found() == {}
    assert "# mine\n" in file["content"]
    assert "\ndeb https://other.example/ x main\n" in file["content"]
    assert f"\n# deb {CUDA_REPO} /\n" in file["content"]


def test_the_fix_works_on_deb822_entries_too(host: Patient) -> None:
    other = "/etc/apt/sources.list.d/zz-cuda.sources"
    stanza = f"Types: deb\nURIs: {CUDA_REPO}\nSuites: /\nEnabled: yes\n"
    host.write(other, f"{stanza}\nTypes: deb\nURIs: https://other.example/\nSuites: x\n")
    (file,) = fixed(host)["files"]
    host.write(other, file["content"])
    assert host.found() == {}
    context = Context(root=str(host.root))
    assert [entry["uris"] for entry in context.apt_entries if entry["file"] == other] == [
        ["https://other.example/"]
    ]


def test_of_two_good_entries_a_packages_stays(host: Patient) -> None:
    second = "/etc/apt/sources.list.d/cuda-by-hand.list"
    host.write("/etc/apt/keyrings/cuda.asc", GOOD_FILE.read_bytes())
    host.write(second, f"deb [signed-by=/etc/apt/keyrings/cuda.asc] {CUDA_REPO} /\n")
    host.package("cuda-keyring", "1.1-1", [CUDA_LIST], "install ok installed")
    assert [file["path"] for file in fixed(host)["files"]] == [second]


@pytest.mark.parametrize(
    "text",
    [
        # two repositories in one entry; and no entry whose key is there
        f"Types: deb\nURIs: {CUDA_REPO} https://other.example/\nSuites: /\n",
        None,
    ],
)
def test_a_conflict_that_is_not_plain_is_left_to_a_person(text: str | None, host: Patient) -> None:
    signed_by_conflict(host)
    if text is None:
        host.remove(KEYRING)
    else:
        host.remove("/etc/apt/sources.list.d/zz-cuda.list")
        host.write("/etc/apt/sources.list.d/zz-cuda.sources", text)
    result = host.ask()
    assert "signed-by-conflict" in [finding["id"] for finding in result["findings"]]
    assert result["fixes"]["files"] == []


@pytest.mark.parametrize(
    ("case", "step", "value"),
    [
        ("nouveau-initramfs", "initramfs", [KERNEL]),
        ("dpkg-interrupted", "dpkg", True),
        ("hand-made-link", "aside", ["/usr/local/lib/libcudart.so.11.0"]),
        ("containers-lose-gpus", "links", [{"path": "/dev/nvidia0", "link": "/dev/char/195:0"}]),
        ("numpy-2", "components", ["tensorflow"]),
        ("protobuf", "components", ["tensorflow"]),
        ("headers-missing", "components", ["nvidia_driver"]),
        ("unattended-upgrades", "components", ["nvidia_driver"]),
        ("driver-gone-after-kernel", "components", ["nvidia_driver"]),
        ("cuda-repo-pin", "components", ["nvidia_driver"]),
        ("cuda-libraries", "components", ["cuda", "cudnn", "gpu_env", "tensorflow"]),
        ("munge-key", "components", ["slurm"]),
        ("slurm-memory", "components", ["slurm"]),
        ("slurm-away", None, None),
        ("slurmctld-silent", None, None),
        ("serving-door", "components", ["gpu_serving"]),
        ("serving-port", None, None),
        ("driver-mismatch", None, None),
        ("key-missing", None, None),
    ],
)
def test_a_fix_is_a_step_or_a_run(
    case: str, step: str | None, value: Any, host: Patient, device: None
) -> None:
    BROKEN[case][0](host)
    assert fixed(host) == ({step: value} if step else {})


def test_a_half_installed_package_of_the_stack_is_a_runs_to_finish(host: Patient) -> None:
    """`dpkg --configure -a` can't: libcuda1 460 lacks what it depends on, and --fix failed."""
    host.installed("libcuda1", "460.91.03-1", "install ok unpacked")
    assert fixed(host) == {"dpkg": True, "components": ["nvidia_driver"]}


def test_a_finding_says_which_fix_is_its_own(host: Patient) -> None:
    cudnn_older(host)
    hand_made_link(host)
    findings = host.found()
    assert findings["cudnn-older"]["fix"] == {"components": ["cudnn", "gpu_env"], "steps": []}
    assert findings["hand-made-link"]["fix"] == {"components": [], "steps": ["aside"]}


@pytest.mark.parametrize("breaks", [key_missing, key_rotated])
def test_keys_are_fixed_by_a_run_where_the_lock_has_them(
    breaks: Callable[[Patient], None], host: Patient
) -> None:
    breaks(host)
    lock = copy.deepcopy(LOCK)
    stack = lock["stacks"]["debian11-small"]
    stack["cuda"]["source"] = "network"
    assert host.ask(lock=lock)["fixes"]["components"] == ["cuda"]
    stack["nvidia_driver"]["source"] = "network"
    assert host.ask(lock=lock)["fixes"]["components"] == ["nvidia_driver", "cuda"]


def test_fabric_manager_is_compared_with_the_packages_where_no_library_tells(host: Patient) -> None:
    fabric_manager(host)
    host.remove("/sys/module/nvidia/version")
    del host.loader["libcuda.so.1"]
    finding = host.found()["fabric-manager"]
    assert finding["evidence"] == [
        "nvidia-fabricmanager-470 is 470.239.06, the driver is " + DRIVER
    ]


def test_fabric_manager_that_came_with_an_upgrade_waits_for_the_reboot_too(host: Patient) -> None:
    """The module of before is loaded still; libraries and fabric manager are the lock's."""
    driver_mismatch(host)
    host.installed("nvidia-fabricmanager-470", DRIVER + "-1")
    assert list(host.found()) == ["driver-mismatch"]
    assert list(host.found(lock={"rows": [], "stacks": {}})) == ["driver-mismatch"]


def test_fabric_manager_that_went_ahead_of_the_locked_module_goes_back(host: Patient) -> None:
    ahead = "470.300.01"
    host.write(made.LIB + "/libcuda.so." + ahead, made.ELF)
    host.link(made.LIB + "/libcuda.so.1", "libcuda.so." + ahead)
    host.installed("nvidia-fabricmanager-470", ahead + "-1")
    commands = host.found()["fabric-manager"]["commands"]
    assert commands[0] == f"sudo apt-get install 'nvidia-fabricmanager-470={DRIVER}-*'"


def test_libraries_that_ran_ahead_of_the_locked_module_go_back(host: Patient) -> None:
    host.write(made.LIB + "/libcuda.so.470.300.01", made.ELF)
    host.link(made.LIB + "/libcuda.so.1", "libcuda.so.470.300.01")
    assert list(host.found()) == ["driver-mismatch"]
    assert fixed(host) == {"components": ["nvidia_driver"]}


def test_headers_that_nobody_has_are_no_work_for_a_run(host: Patient) -> None:
    headers_missing(host)
    host.answers["apt-cache"] = policy("(none)")
    host.write("/var/lib/apt/lists/x_Packages", "")
    assert fixed(host) == {}
    assert "no linux-headers" in host.found()["headers-missing"]["evidence"][0]
