"""How a driver came to a host: the three ways, their leftovers, branches, modules and NVSwitch."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.components import nvidia_driver
from gpu_stack.components.nvidia_driver import driver_method, driver_packages
from gpu_stack.host.context import Result

from .test_nvidia_driver import VARS, items, rendered
from .trees import DRIVER, KERNEL, age, context, settled, status, tree

PINS = "etc/apt/preferences.d/provision-nvidia-driver.j2"
SERVER = "470.239.06-0ubuntu0.20.04.1"
LIBRARIES = "/usr/lib/x86_64-linux-gnu"

# Canonical's -server packages, with the modules that Canonical signs.
SIGNED: dict[str, Any] = {
    "branch": "470",
    "version": "470.239.06",
    "packages": {
        "userspace": {
            "libnvidia-compute-470-server": SERVER,
            "nvidia-utils-470-server": SERVER,
            "libnvidia-cfg1-470-server": SERVER,
        },
        "kernel": {
            "nvidia-headless-no-dkms-470-server": SERVER,
            "linux-modules-nvidia-470-server-generic": "5.4.0-216.236",
        },
    },
}
# NVIDIA's own repository.
NETWORK: dict[str, Any] = {
    "branch": "470",
    "version": "470.256.02",
    "source": "network",
    "packages": {
        "userspace": {
            "libnvidia-compute-470": "470.256.02-0ubuntu1",
            "nvidia-utils-470": "470.256.02-0ubuntu1",
            "nvidia-modprobe": "560.35.05-0ubuntu1",
        },
        "kernel": {"nvidia-dkms-470": "470.256.02-0ubuntu1"},
    },
    "repository": {
        "url": "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2004/x86_64/",
        "suite": "/",
        "key": "-----BEGIN PGP PUBLIC KEY BLOCK-----",
        "fingerprints": ["EB693B3035CD5710E231E123A4B469963BF863CC"],
    },
}
RUN: dict[str, Any] = {
    "branch": "470",
    "version": "470.256.02",
    "source": "runfile",
    "packages": {},
    "runfile": {"url": "https://nvidia.example/x.run", "sha256": "0" * 64},
}
FABRIC = "nvidia-fabricmanager-470"


def seen(
    root: Path,
    row: dict[str, Any],
    *,
    container: bool = False,
    modules: Mapping[str, str] | None = None,
    **options: Any,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(what was found, the changes) of the host under `root`; `modules`: what modinfo answers."""

    def run(argv: list[str]) -> Result:
        if argv[0] == "modinfo" and argv[4] in (modules or {}):
            return Result(0, (modules or {})[argv[4]] + "\n", "")
        return Result(127 if argv[0] != "modinfo" else 1, "", "")

    here = context(root, container=container, options=options, driver=row, distribution="ubuntu")
    here.run = run
    found = nvidia_driver.look(here)
    return found, nvidia_driver.differ({"nvidia_driver": row}, found, options)


def host(root: Path, row: dict[str, Any], *packages: tuple[str, ...]) -> Path:
    """A machine with these packages, on which the rest is as the row says."""
    tree(root, settled(row, *packages))
    age(root, nvidia_driver.BLACKLIST, 1000)
    return root


def of(row: dict[str, Any]) -> list[tuple[str, ...]]:
    return list(driver_packages.all_packages(row).items())


def with_dkms(root: Path, version: str, name: str = "nvidia") -> Path:
    return tree(
        root,
        {f"/lib/modules/{KERNEL}/updates/dkms/nvidia.ko": ""},
        {f"/var/lib/dkms/{name}/kernel-{KERNEL}-x86_64": f"{version}/{KERNEL}/x86_64"},
    )


def with_run_file(root: Path, version: str = "470.256.02") -> Path:
    """What NVIDIA's installer leaves."""
    return tree(
        root,
        {
            "/usr/bin/nvidia-uninstall": "",
            "/usr/bin/nvidia-smi": "",
            "/var/lib/nvidia/log": f"{version}\nNVIDIA Accelerated Graphics Driver\n",
            f"{LIBRARIES}/libcuda.so.{version}": "",
            f"{LIBRARIES}/libnvidia-ml.so.{version}": "",
        },
        {
            f"{LIBRARIES}/libcuda.so.1": f"libcuda.so.{version}",
            f"{LIBRARIES}/libnvidia-ml.so.1": f"libnvidia-ml.so.{version}",
        },
    )


def run_file_host(root: Path) -> Path:
    host(root, RUN, ("dkms", "2.8.4-3", "install"))
    return with_dkms(with_run_file(root), "470.256.02")


def network_host(root: Path) -> Path:
    host(root, NETWORK, *of(NETWORK), ("dkms", "2.8.4-3", "install"))
    source = (
        f"Types: deb\nURIs: {NETWORK['repository']['url'].rstrip('/')}\nSuites: /\n"
        "Signed-By: /usr/share/keyrings/provision-nvidia-driver.asc\n"
    )
    return with_dkms(tree(root, {nvidia_driver.REPOSITORY: source}), "470.256.02")


def signed_host(root: Path) -> Path:
    return host(
        root,
        SIGNED,
        *[(n, v) for n, v in of(SIGNED) if not n.startswith("linux-")],
        # Its version is the newest kernel's, and it is not held: it has to follow the kernel.
        ("linux-modules-nvidia-470-server-generic", "5.4.0-217.237", "install"),
    )


# converged hosts of each way


def test_a_converged_host_of_each_way_has_no_change(tmp_path: Path) -> None:
    assert seen(run_file_host(tmp_path / "run"), RUN)[1] == []
    assert seen(network_host(tmp_path / "network"), NETWORK)[1] == []
    state, changes = seen(signed_host(tmp_path / "signed"), SIGNED, modules={KERNEL: "470.239.06"})
    assert changes == []
    assert state["version"] == "470.239.06"


def test_a_bare_container_gets_the_run_file_and_its_pins(tmp_path: Path) -> None:
    tree(tmp_path, {"/var/lib/dpkg/status": ""})
    _found, changes = seen(tmp_path, RUN, container=True)
    assert set(items(changes)) == {
        nvidia_driver.PINS,
        nvidia_driver.RUNFILE_ITEM,
        nvidia_driver.UPGRADES,
    }
    assert driver_packages.wanted_packages(RUN, "full", {}) == {}


# the .run file


def test_another_version_of_the_run_file_is_one_change(tmp_path: Path) -> None:
    run_file_host(tmp_path)
    older = {**RUN, "version": "470.239.06"}
    changes = [
        change
        for change in seen(tmp_path, older)[1]
        if change["item"] == nvidia_driver.RUNFILE_ITEM
    ]
    assert [(change["from"], change["to"]) for change in changes] == [("470.256.02", "470.239.06")]


def test_the_librarys_name_tells_the_version_where_the_record_is_gone(tmp_path: Path) -> None:
    (run_file_host(tmp_path) / "var/lib/nvidia/log").unlink()
    state, changes = seen(tmp_path, RUN)
    assert state["version"] == "470.256.02"
    assert changes == []


@pytest.mark.parametrize("path", ["/usr/bin/nvidia-smi", f"{LIBRARIES}/libcuda.so.470.256.02"])
def test_a_lost_file_of_the_run_file_is_installed_again(tmp_path: Path, path: str) -> None:
    (run_file_host(tmp_path) / path.lstrip("/")).unlink()
    (change,) = seen(tmp_path, RUN)[1]
    assert change["from"] == "missing"
    assert change["repair"] == {"nvidia_driver_reinstall": [nvidia_driver.RUNFILE_ITEM]}


def test_a_library_of_another_version_is_seen(tmp_path: Path) -> None:
    link = run_file_host(tmp_path) / LIBRARIES.lstrip("/") / "libcuda.so.1"
    tree(tmp_path, {f"{LIBRARIES}/libcuda.so.535.309.01": ""})
    link.unlink()
    link.symlink_to("libcuda.so.535.309.01")
    (change,) = seen(tmp_path, RUN)[1]
    assert (change["item"], change["from"]) == (f"{LIBRARIES}/libcuda.so.1", "535.309.01")


def test_a_module_that_dkms_lost_or_an_older_one_that_it_kept_is_seen(tmp_path: Path) -> None:
    (run_file_host(tmp_path) / f"var/lib/dkms/nvidia/kernel-{KERNEL}-x86_64").unlink()
    kept = {
        f"/var/lib/dkms/nvidia/{version}/source/x": "" for version in ("460.91.03", RUN["version"])
    }
    tree(tmp_path, kept)
    assert items(seen(tmp_path, RUN)[1]) == [
        "module nvidia/460.91.03",
        f"module for kernel {KERNEL}",
    ]


def test_packages_of_a_driver_beside_the_run_file_are_named(tmp_path: Path) -> None:
    run_file_host(tmp_path)
    names = ("libcuda1", "nvidia-kernel-dkms", "linux-modules-nvidia-470-server-generic")
    others = (
        "nvidia-cuda-toolkit",
        "nvidia-container-toolkit",
        "libnvidia-ml-dev",
        "nvidia-settings",
    )
    packages = [(name, "1", "install") for name in (*names, *others)]
    tree(tmp_path, {"/var/lib/dpkg/status": status(("dkms", "1", "install"), *packages)})
    state, changes = seen(tmp_path, RUN)
    assert set(state["leftovers"]) == set(names)
    assert {change["item"] for change in changes if change["to"] is None} == set(names)


def test_a_run_file_under_packages_is_named(tmp_path: Path) -> None:
    with_run_file(network_host(tmp_path))
    (change,) = seen(tmp_path, NETWORK)[1]
    assert (change["item"], change["from"], change["to"]) == (
        nvidia_driver.RUNFILE_ITEM,
        "470.256.02",
        None,
    )


# branches and sources


def test_another_branch_by_the_same_way_goes(tmp_path: Path) -> None:
    """470 -> 535 of the -server packages; what is beside them of their own branch stays."""
    text = json.dumps(SIGNED).replace("470.239.06", "535.309.01").replace("470", "535")
    newer = json.loads(text)
    host(
        tmp_path,
        SIGNED,
        *of(SIGNED),
        ("libnvidia-gl-535-server", "535.309.01-1", "install"),
        ("dkms", "1", "install"),
    )
    _found, changes = seen(tmp_path, newer)
    assert {change["item"] for change in changes if change["to"] is None} == set(dict(of(SIGNED)))
    # Back again is the same the other way round.
    back = tree(tmp_path / "back", {})
    host(back, newer, *of(newer))
    assert {change["item"] for change in seen(back, SIGNED)[1] if change["to"] is None} == set(
        dict(of(newer))
    )


def test_the_other_way_with_the_same_branch_is_another_driver(tmp_path: Path) -> None:
    network_host(tmp_path)
    state, changes = seen(tmp_path, SIGNED)
    assert state["method"] == "network"
    assert {change["item"] for change in changes if change["to"] is None} == {
        *NETWORK["packages"]["userspace"],
        *NETWORK["packages"]["kernel"],
    }


def test_somebody_elses_driver_goes_only_where_the_wish_says_switch(tmp_path: Path) -> None:
    packages = [("libnvidia-compute-535-server", "535.309.01-1", "install")]
    tree(tmp_path, {"/var/lib/dpkg/status": status(*packages)})
    assert not [change for change in seen(tmp_path, SIGNED)[1] if change["to"] is None]
    _found, changes = seen(tmp_path, SIGNED, nvidia_driver_switch="switch")
    assert [change["item"] for change in changes if change["to"] is None] == [packages[0][0]]


def test_the_same_branch_in_another_flavour_is_somebody_elses(tmp_path: Path) -> None:
    packages = [(name, "470.256.02-0ubuntu0.20.04.1", "install") for name in (
        "libnvidia-compute-470", "libnvidia-gl-470-server"
    )]  # fmt: skip
    tree(tmp_path, {"/var/lib/dpkg/status": status(*packages)})
    assert set(seen(tmp_path, SIGNED)[0]["leftovers"]) == {"libnvidia-compute-470"}


def test_debians_own_siblings_are_left_alone(tmp_path: Path) -> None:
    """Names without a branch in them say nothing of what somebody put beside them."""
    packages = [*of(DRIVER), ("nvidia-settings", "470.1"), ("libnvidia-encode1", "470.256.02-2")]
    host(tmp_path, DRIVER, *packages, ("nvidia-tesla-470-driver", "470.1", "install"))
    assert seen(tmp_path, DRIVER)[0]["leftovers"] == {}


def test_the_repository_may_be_cudas_own_source(tmp_path: Path) -> None:
    source = network_host(tmp_path) / nvidia_driver.REPOSITORY.lstrip("/")
    text = source.read_text()
    source.unlink()
    (change,) = seen(tmp_path, NETWORK)[1]
    assert (change["item"], change["from"]) == (nvidia_driver.REPOSITORY, "absent")
    tree(tmp_path, {nvidia_driver.SHARED_REPOSITORY: text})
    assert seen(tmp_path, NETWORK)[1] == []
    # A mirror is another address.
    (change,) = seen(tmp_path, NETWORK, nvidia_driver_repository_url="https://mirror.example/")[1]
    assert change["to"] == "https://mirror.example/"


# modules and kernels


@pytest.mark.parametrize("name", ["nvidia", "nvidia-srv"])
def test_dkms_may_call_the_module_by_either_name(tmp_path: Path, name: str) -> None:
    with_dkms(tmp_path, "470.239.06", name)
    row = copy.deepcopy(SIGNED)
    row["packages"]["kernel"] = {"nvidia-dkms-470-server": SERVER}
    assert seen(tmp_path, row)[0]["modules"] == {KERNEL: "470.239.06"}


def test_a_kernel_without_a_signed_module_is_named(tmp_path: Path) -> None:
    newer = "5.10.0-47-amd64"
    tree(signed_host(tmp_path), {f"/boot/vmlinuz-{newer}": ""})
    _found, changes = seen(tmp_path, SIGNED, modules={KERNEL: "470.239.06"})
    assert items(changes) == [f"module for kernel {newer}"]
    _found, changes = seen(tmp_path, SIGNED, modules={KERNEL: "470.239.06", newer: "470.256.02"})
    assert [change["from"] for change in changes] == ["470.256.02"]


def test_headers_follow_the_package_that_brings_the_next_kernel(tmp_path: Path) -> None:
    image = ("linux-image-generic-hwe-20.04", "5.15.0.139", "install")
    host(tmp_path, RUN, ("dkms", "1", "install"), image)
    with_dkms(with_run_file(tmp_path), "470.256.02")
    assert items(seen(tmp_path, RUN)[1]) == ["linux-headers-generic-hwe-20.04"]
    more = ("linux-headers-generic-hwe-20.04", "5.15.0.139", "install")
    unlike = ("linux-image-5.15.0-139-generic", "1", "install")
    debug = ("linux-image-amd64-dbg", "1", "install")
    text = status(("dkms", "1", "install"), image, more, unlike, debug)
    tree(tmp_path, {"/var/lib/dpkg/status": text})
    assert seen(tmp_path, RUN)[1] == []


# NVSwitch


def with_switch(root: Path, kind: str = "0x068000", vendor: str = "0x10de") -> Path:
    base = "/sys/bus/pci/devices/0000:c1:00.0/"
    return tree(root, {base + "vendor": vendor + "\n", base + "class": kind + "\n"})


def test_nvswitch_wants_the_fabric_manager_of_the_drivers_version(tmp_path: Path) -> None:
    with_switch(run_file_host(tmp_path))
    (change,) = seen(tmp_path, RUN)[1]
    assert (change["item"], change["to"]) == (FABRIC, "470.256.02")
    assert seen(tmp_path, RUN, nvidia_driver_fabric_manager="false")[1] == []
    assert seen(tmp_path, RUN, nvidia_driver_fabric_manager=False)[1] == []

    def packages(version: str, want: str) -> None:
        text = status(("dkms", "1", "install"), (FABRIC, version, want))
        tree(tmp_path, {"/var/lib/dpkg/status": text})

    packages("470.239.06-1", "hold")
    assert [change["from"] for change in seen(tmp_path, RUN)[1]] == ["470.239.06-1", "470.239.06-1"]
    packages("470.256.02-1", "install")
    unit = driver_method.FABRIC_UNIT
    assert f"{FABRIC} hold" in items(seen(tmp_path, RUN)[1])
    assert unit in items(seen(tmp_path, RUN)[1])


@pytest.mark.parametrize(("kind", "vendor"), [("0x060400", "0x10de"), ("0x068000", "0x8086")])
def test_another_bridge_is_no_nvswitch(tmp_path: Path, kind: str, vendor: str) -> None:
    with_switch(run_file_host(tmp_path), kind, vendor)
    assert seen(tmp_path, RUN)[1] == []
    asked = seen(tmp_path, RUN, nvidia_driver_fabric_manager=True)[1]
    assert items(asked) == [FABRIC]


# texts and patterns have two homes: the role (used alone) and the look


@pytest.mark.parametrize(
    "row", [DRIVER, SIGNED, NETWORK, RUN], ids=["debian", "ubuntu", "net", "run"]
)
def test_the_pins_of_each_way_are_the_roles(row: dict[str, Any]) -> None:
    text = driver_packages.pins_text(row)
    assert rendered(PINS, row) == text
    assert driver_method.of_pins(text) == driver_method.source(row)


def test_pins_let_the_modules_follow_the_kernel() -> None:
    assert "linux-modules" not in driver_packages.pins_text(SIGNED)
    assert f"Pin: version {SERVER}" in driver_packages.pins_text(SIGNED)


def test_what_is_pinned_stands_before_what_is_refused() -> None:
    """apt takes the first pin that fits a version."""
    text = driver_packages.pins_text(NETWORK)
    assert text.index("Package: nvidia-modprobe\n") < text.index("Pin-Priority: -1")


def test_somebody_elses_pins_tell_nothing() -> None:
    assert driver_method.of_pins(None) is None
    assert driver_method.of_pins("Package: *\nPin: release a=x\n") is None


def test_the_roles_patterns_are_the_looks() -> None:
    assert VARS["__nvidia_driver_of_kernel_pattern"] == driver_method.OF_KERNEL.pattern
    assert VARS["__nvidia_driver_runfile_pinned"] == driver_packages.RUNFILE_PINNED
