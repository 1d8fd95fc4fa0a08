"""The CDI specification: what the look says of it, what the plan makes of that, and what goes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import converged_host as made
import pytest
import yaml
from converged_host import ELF, LIB, Host
from converged_toolkit import NAMES, install, lock
from gpu_stack import receipt
from gpu_stack.components import nvidia_container_toolkit as toolkit
from gpu_stack.components.nvidia_container_toolkit import cdi

TEMPLATES = Path(__file__).parents[3] / "roles" / "nvidia_container_toolkit" / "templates"
BASE = NAMES[-1]
OLD = "1.17.8"
DRIVER = "470.256.02"
CUDA = f"{LIB}/nvidia/current/libcuda.so.{DRIVER}"
JIT = f"{LIB}/nvidia/current/libnvidia-ptxjitcompiler.so.{DRIVER}"
SMI = "/usr/lib/nvidia/current/nvidia-smi"
GONE = {"nvidia_container_toolkit_state": "absent"}


def specification(*paths: str, version: str = "0.5.0", kind: str = cdi.DEVICE) -> str:
    """As nvidia-ctk writes it."""
    mounts = "".join(
        f"    - containerPath: {path}\n      hostPath: {path}\n      options:\n      - ro\n"
        for path in paths
    )
    return (
        f"---\ncdiVersion: {version}\ncontainerEdits:\n  mounts:\n{mounts}"
        f'devices:\n- containerEdits: {{}}\n  name: "0"\n- containerEdits: {{}}\n  name: all\n'
        f"kind: {kind}\n"
    )


GOOD = specification(CUDA, SMI, JIT)
MADE = f"{cdi.MARK}.\n{GOOD}"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """As the role leaves it, with a driver and podman 4.3.1, and no specification yet."""
    host = made.make(tmp_path)
    install(host, OLD)
    host.write("/usr/bin/podman", ELF)
    host.package("podman", "4.3.1+ds1-8+deb12u1+b1", ["/usr/bin/podman"], "install ok installed")
    for path in (CUDA, JIT, SMI):
        host.write(path, ELF)
    host.link(f"{LIB}/libcuda.so.1", CUDA)
    host.loader["libcuda.so.1"] = f"{LIB}/libcuda.so.1"
    return host


def enable(host: Host) -> None:
    """The units that the packages bring from 1.18 on, as their scripts leave them."""
    for suffix in ("path", "service"):
        unit = f"/etc/systemd/system/{cdi.UNIT}.{suffix}"
        host.write(unit, "[Unit]\n")
        host.link(cdi.WANTED_BY.format(f"{cdi.UNIT}.{suffix}"), unit)


def items(host: Host, version: str = "1.17.8", **options: Any) -> list[tuple[str, Any, Any]]:
    changes = host.plan(lock=lock(version), options=options)["changes"]
    assert {change["component"] for change in changes} <= {toolkit.NAME, receipt.NAME}
    mine = [change for change in changes if change["component"] == toolkit.NAME]
    return [(change["item"], change["from"], change["to"]) for change in mine]


def test_a_specification_of_this_driver_is_current(host: Host) -> None:
    host.write(cdi.ETC, GOOD)
    assert items(host) == []


FAULTS: list[tuple[str | None, str]] = [
    (None, "absent"),
    (specification(CUDA, kind="example.com/gpu"), "names no nvidia.com/gpu=all"),
    (GOOD.replace("name: all", "name: every"), "names no nvidia.com/gpu=all"),
    (specification(CUDA, version="0.6.0"), "CDI 0.6.0, and podman reads 0.5.0"),
    (specification(CUDA, version='"0.7.0"'), "CDI 0.7.0, and podman reads 0.5.0"),
    (GOOD.replace("cdiVersion: 0.5.0\n", ""), "CDI without a version, and podman reads 0.5.0"),
    (specification(CUDA, "/lib/x.so.1"), "names /lib/x.so.1, which is not there"),
    (specification("/a", CUDA, "/b"), "names /a and 1 more, which is not there"),
    (specification(JIT, SMI), f"made for driver {DRIVER}"),
    (specification(SMI), f"without {CUDA}"),
]


@pytest.mark.parametrize(("text", "fault"), FAULTS)
def test_what_is_wrong_with_it_is_named(host: Host, text: str | None, fault: str) -> None:
    if text is not None:
        host.write(cdi.ETC, text)
    assert items(host) == [(cdi.ETC, fault, "current")]


@pytest.mark.parametrize("version", ["0.3.0", "0.4.0", "0.5.0", "'0.5.0'"])
def test_what_podman_reads_is_not_too_new(host: Host, version: str) -> None:
    host.write(cdi.ETC, specification(CUDA, version=version))
    assert items(host) == []


@pytest.mark.parametrize(
    ("podman", "reads"),
    [("4.1.0+ds1-1", "0.5.0"), ("5.0.3-1", "0.5.0"), ("5.1.0-1", None), ("5.4.2+ds1-2+b2", None)],
)
def test_a_newer_podman_reads_more(host: Host, podman: str, reads: str | None) -> None:
    host.package("podman", podman, ["/usr/bin/podman"])
    host.write(cdi.ETC, specification(CUDA, version="0.7.0"))
    fault = f"CDI 0.7.0, and podman reads {reads}"
    assert items(host) == ([(cdi.ETC, fault, "current")] if reads else [])
    host.write(cdi.ETC, specification(CUDA, version="1.0.0"))
    assert len(items(host)) == 1


def test_of_a_podman_that_no_package_tells_the_version_nothing_is_expected(host: Host) -> None:
    del host.packages["podman"]
    host.write_status()
    host.write(cdi.ETC, specification(CUDA, version="9.0.0"))
    assert items(host) == []


WITHOUT: list[tuple[str, dict[str, Any], bool]] = [
    ("podman", {}, False),
    ("podman", {"nvidia_container_toolkit_cdi": "required"}, True),
    ("old", {}, False),
    ("nothing", {"nvidia_container_toolkit_cdi": "none"}, False),
    ("nothing", {"nvidia_container_toolkit_cdi": "auto"}, True),
    ("driver", {}, False),
]


@pytest.mark.parametrize(("lacking", "options", "made_for_it"), WITHOUT)
def test_where_it_is_made(
    host: Host, lacking: str, options: dict[str, Any], made_for_it: bool
) -> None:
    if lacking == "podman":
        host.remove("/usr/bin/podman")
    elif lacking == "old":
        host.package("podman", "3.0.1+dfsg1-3+deb11u5", ["/usr/bin/podman"])
    elif lacking == "driver":
        del host.loader["libcuda.so.1"]
    assert [item for item, _, _ in items(host, **options)] == ([cdi.ETC] if made_for_it else [])


def test_a_podman_that_is_too_old_is_refused_where_it_is_required(host: Host) -> None:
    # A change that is not podman's, for rules are asked of a component that changes.
    host.remove(toolkit.PREFERENCES)
    required = {"nvidia_container_toolkit_cdi": "required"}
    assert host.plan(lock=lock(OLD), options=required)["blockers"] == []
    host.package("podman", "3.0.1+dfsg1-3+deb11u5", ["/usr/bin/podman"])
    (blocker,) = host.plan(lock=lock(OLD), options=required)["blockers"]
    assert blocker["id"] == "podman-too-old"
    assert "podman 3.0.1 reads no CDI specification" in blocker["message"]
    assert host.plan(lock=lock(OLD))["blockers"] == []


# from 1.18 on


@pytest.fixture
def refreshed(host: Host) -> Host:
    install(host, "1.20.1")
    enable(host)
    host.write(cdi.RUN, MADE)
    host.write(cdi.DROPIN, cdi.DROPIN_TEXT)
    return host


def test_a_newer_toolkit_has_it_where_its_unit_writes_it(refreshed: Host) -> None:
    assert items(refreshed, "1.20.1") == []
    refreshed.remove(cdi.RUN)
    assert items(refreshed, "1.20.1") == [(cdi.RUN, "absent", "current")]


@pytest.mark.parametrize(
    ("version", "podman", "wanted"),
    [
        ("1.20.1", "4.3.1", True),
        ("1.19.1", "4.3.1", True),
        ("1.19.0", "4.3.1", False),
        ("1.20.1", "5.1.0", False),
        ("1.20.1", "", False),
    ],
)
def test_the_unit_is_told_to_leave_groups_out_where_podman_needs_that(
    refreshed: Host, version: str, podman: str, wanted: bool
) -> None:
    install(refreshed, version)
    if podman:
        refreshed.package("podman", podman, ["/usr/bin/podman"])
    else:
        del refreshed.packages["podman"]
        refreshed.write_status()
    too_much = [] if wanted else [(cdi.DROPIN, "present", "absent")]
    assert items(refreshed, version) == too_much
    refreshed.remove(cdi.DROPIN)
    assert items(refreshed, version) == ([(cdi.DROPIN, None, "as wished")] if wanted else [])
    refreshed.write(cdi.DROPIN, "[Service]\n")
    changed = (cdi.DROPIN, "other content", "as wished")
    assert items(refreshed, version) == ([changed] if wanted else too_much)


def test_a_unit_that_somebody_disabled_is_named(refreshed: Host) -> None:
    refreshed.remove(cdi.WANTED_BY.format(f"{cdi.UNIT}.service"))
    assert items(refreshed, "1.20.1") == [(f"{cdi.UNIT}.service", "disabled", "enabled")]
    # Before the packages are there their script does it.
    refreshed.remove(f"/etc/systemd/system/{cdi.UNIT}.service")
    assert items(refreshed, "1.20.1") == []


def test_what_the_role_made_for_an_older_toolkit_goes(refreshed: Host) -> None:
    refreshed.write(cdi.ETC, MADE)
    assert items(refreshed, "1.20.1") == [(cdi.ETC, "present", "absent")]
    refreshed.write(cdi.ETC, GOOD)  # somebody else's, which the other one hides
    assert items(refreshed, "1.20.1") == []


def test_one_of_no_use_in_the_way_of_an_older_toolkits_goes(host: Host) -> None:
    host.write(cdi.ETC, MADE)
    host.write(cdi.RUN, GOOD)
    assert items(host) == []
    host.write(cdi.RUN, specification("/gone"))
    assert items(host) == [(cdi.RUN, "present", "absent")]


# a driver that comes in the same run


def coming(host: Host, driver: str, only: list[str] | None = None) -> list[tuple[str, Any]]:
    text = lock(OLD)
    text["stacks"]["debian11-small"]["nvidia_driver"] = {
        "branch": driver.split(".")[0],
        "version": driver,
        "packages": {"userspace": {"libcuda1": f"{driver}-1"}, "kernel": {}, "desktop": {}},
    }
    options = {"nvidia_driver_scope": "userspace"}
    changes = host.plan(lock=text, options=options, only=only)["changes"]
    return [
        (change["item"], change["from"])
        for change in changes
        if change["component"] == toolkit.NAME and change["selected"]
    ]


def test_a_driver_that_comes_makes_it_stale_in_the_same_plan(host: Host) -> None:
    host.write(cdi.ETC, GOOD)
    assert coming(host, "535.309.01") == [(cdi.ETC, f"made for driver {DRIVER}")]
    assert coming(host, DRIVER) == []
    # The driver stays as it is: making it anew would change nothing.
    assert coming(host, "535.309.01", only=[toolkit.NAME]) == []


def test_on_a_bare_host_it_is_in_the_plan_before_the_driver_is_there(host: Host) -> None:
    del host.loader["libcuda.so.1"]
    assert coming(host, "535.309.01") == [(cdi.ETC, "absent")]


# its removal


def gone(host: Host, version: str) -> list[str]:
    receipt = {"lock_digest": made.LOCK["digest"], "after": {toolkit.NAME: version}}
    host.write("/var/lib/provision/receipt.json", json.dumps(receipt))
    paths = (cdi.DROPIN, cdi.ETC, cdi.RUN)
    return [item for item, _, new in items(host, version, **GONE) if item in paths and new]


def test_what_is_the_roles_goes_and_what_is_not_stays(host: Host) -> None:
    host.write(cdi.ETC, MADE)
    assert gone(host, "1.17.8") == [cdi.ETC]
    host.write(cdi.ETC, GOOD)
    assert gone(host, "1.17.8") == []


def test_what_the_unit_of_its_package_made_goes_with_it(refreshed: Host) -> None:
    refreshed.write(cdi.RUN, GOOD)
    assert gone(refreshed, "1.20.1") == [cdi.DROPIN, cdi.RUN]
    theirs = {toolkit.NAME: {"theirs": dict.fromkeys(NAMES, "1.20.1-1")}}
    receipt = {"lock_digest": made.LOCK["digest"], "packages": theirs}
    refreshed.write("/var/lib/provision/receipt.json", json.dumps(receipt))
    left = [item for item, _, _ in items(refreshed, "1.20.1", **GONE)]
    assert cdi.RUN not in left
    assert cdi.DROPIN in left


def test_the_drop_in_is_the_template() -> None:
    assert (TEMPLATES / (cdi.DROPIN.lstrip("/") + ".j2")).read_text("utf-8") == cdi.DROPIN_TEXT


# recorded/cdi-*.txt: what `nvidia-ctk cdi generate` wrote on 2026-11-28 on a virtual machine with
# one H100 and driver 580.159.04; nvidia-ctk was built from NVIDIA's sources of that version
# (https://github.com/NVIDIA/nvidia-container-toolkit). Only the UUID is changed.
REAL = "/usr/local/nvidia/lib64/libcuda.so.580.159.04"


@pytest.mark.parametrize("version", ["1.17.8", "1.20.0"])
def test_a_specification_of_a_real_host_is_read(version: str) -> None:
    text = (Path(__file__).parent / f"recorded/cdi-{version}.txt").read_text(encoding="utf-8")
    written = yaml.safe_load(text)
    edits = [written["containerEdits"], *(one["containerEdits"] for one in written["devices"])]
    mounts = {mount["hostPath"] for edit in edits for mount in edit.get("mounts", [])}
    assert set(cdi.paths(text)) == mounts
    assert REAL in mounts
    assert cdi.driver_of(text) == "580.159.04"
    assert cdi.fault(text, (0, 5, 0), REAL, mounts.__contains__) is None
    newer = REAL.replace("580.159", "590.1")
    assert cdi.fault(text, (0, 5, 0), newer, mounts.__contains__) == "made for driver 580.159.04"
    gone = (mounts - {REAL}).__contains__
    assert cdi.fault(text, (0, 5, 0), REAL, gone) == f"names {REAL}, which is not there"
