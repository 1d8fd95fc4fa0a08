"""Where the persistence daemon is skipped: on machines without a GPU, by systemd itself."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from gpu_stack.components import nvidia_driver
from gpu_stack.components.nvidia_driver import persistence
from gpu_stack.host import platform

from .test_nvidia_driver import PERSISTENCED, changes, converged, items, rendered
from .trees import DRIVER, context, tree

BUS = "/sys/bus/pci/devices/0000:{0:02x}:00.0"


def put(root: Path, *cards: tuple[str, str]) -> Path:
    """A bus with these vendors and classes in place of the one that is there."""
    for number, (vendor, kind) in enumerate(cards):
        place = BUS.format(number)
        tree(root, {f"{place}/vendor": vendor + "\n", f"{place}/class": kind + "\n"})
    return root


def asked(root: Path) -> int:
    """The exit code of the drop-in's line, as systemd hands it to the shell."""
    (line,) = re.findall(r"^ExecCondition=/bin/sh -c '(.*)'$", persistence.CONDITION_TEXT, re.M)
    assert "%" not in line
    assert "$" not in line.replace("$$", "")
    program = line.replace("$$", "$").replace("/sys/bus", f"{root}/sys/bus")
    return subprocess.run(["/bin/sh", "-c", program], check=False, timeout=20).returncode


@pytest.mark.parametrize(
    ("cards", "gpus"),
    [
        ([], 0),
        ([("0x10de", "0x030200")], 1),
        ([("0x10de", "0x030000")], 1),
        ([("0x10de", "0x030100")], 0),
        ([("0x10de", "0x040300")], 0),
        ([("0x8086", "0x030000")], 0),
        # Each device alone: not one's vendor with the class of another.
        ([("0x10de", "0x040300"), ("0x1002", "0x030000")], 0),
        ([("0x1002", "0x030000"), ("0x10de", "0x040300")], 0),
        ([("0x8086", "0x060000"), ("0x10de", "0x030200"), ("0x10de", "0x040300")], 1),
    ],
)
def test_systemd_starts_the_daemon_where_the_look_sees_a_gpu(
    tmp_path: Path, cards: list[tuple[str, str]], gpus: int
) -> None:
    put(tmp_path, *cards)
    assert len(platform.gpus(context(tmp_path))) == gpus
    assert asked(tmp_path) == (0 if gpus else 1)


def test_a_device_without_a_class_is_not_taken_for_the_one_before(tmp_path: Path) -> None:
    put(tmp_path, ("0x8086", "0x030000"))
    tree(tmp_path, {BUS.format(1) + "/vendor": "0x10de\n"})
    assert asked(tmp_path) == 1


def test_a_converged_machine_gets_the_drop_in_whatever_its_cards(tmp_path: Path) -> None:
    (converged(tmp_path) / persistence.CONDITION.lstrip("/")).unlink()
    (change,) = changes(tmp_path)
    assert (change["item"], change["from"], change["to"]) == (
        persistence.CONDITION, "absent", "as written",
    )  # fmt: skip
    assert not change["reboot"]
    for part in ("vendor", "class", "device"):
        (tmp_path / f"sys/bus/pci/devices/0000:00:05.0/{part}").unlink()
    assert persistence.CONDITION in items(changes(tmp_path))
    assert items(changes(tmp_path, nvidia_driver_scope="userspace")) == [persistence.CONDITION]


def test_a_drop_in_that_others_may_write_is_written_anew(tmp_path: Path) -> None:
    (converged(tmp_path) / persistence.CONDITION.lstrip("/")).chmod(0o666)
    (change,) = changes(tmp_path)
    assert (change["item"], change["from"]) == (persistence.CONDITION, "mode 0666")


def test_a_container_with_the_libraries_alone_has_no_bus_to_look_at(tmp_path: Path) -> None:
    (converged(tmp_path) / persistence.CONDITION.lstrip("/")).unlink()
    assert changes(tmp_path, container=True) == []
    full = changes(tmp_path, container=True, nvidia_driver_scope="full")
    assert items(full) == [persistence.CONDITION]
    tree(tmp_path, {persistence.CONDITION: "of another day\n"})
    assert changes(tmp_path, container=True) == []


def test_without_the_daemon_its_drop_in_goes(tmp_path: Path) -> None:
    converged(tmp_path)
    _unit, change = changes(tmp_path, nvidia_driver_persistence=False)
    assert (change["item"], change["from"], change["to"]) == (
        persistence.CONDITION,
        "present",
        None,
    )
    (tmp_path / persistence.CONDITION.lstrip("/")).unlink()
    left = changes(tmp_path, nvidia_driver_persistence=False)
    assert items(left) == [persistence.UNIT]


def test_the_look_reads_the_drop_in(tmp_path: Path) -> None:
    seen = nvidia_driver.look(context(converged(tmp_path)))
    assert seen["persistence_condition"] == persistence.CONDITION_TEXT


TEMPLATE = persistence.OWN.lstrip("/") + ".j2"
# What a release before this one wrote.
BEFORE = persistence.unit_text(DRIVER).replace(
    "ConditionVirtualization=|!container\nConditionPathExists=|", "ConditionPathExists="
)


@pytest.mark.parametrize("source", ["distribution", "network", "runfile"])
def test_the_roles_own_unit_is_its_template(source: str) -> None:
    row = {**DRIVER, "source": source}
    assert rendered(TEMPLATE, row) == persistence.unit_text(row)
    assert ("--user" in persistence.unit_text(row)) == (source != "runfile")


def test_a_card_that_does_not_answer_is_not_skipped_by_the_roles_own_unit() -> None:
    """Without its device; a container's devices alone are those that it was given."""
    lines = persistence.unit_text(DRIVER).splitlines()
    conditions = [line for line in lines if line.startswith("Condition")]
    assert conditions == [
        "ConditionVirtualization=|!container", "ConditionPathExists=|/dev/nvidiactl",
    ]  # fmt: skip


def test_the_roles_unit_of_before_is_written_anew(tmp_path: Path) -> None:
    tree(converged(tmp_path), {persistence.OWN: BEFORE})
    (change,) = changes(tmp_path)
    assert (change["item"], change["from"], change["to"]) == (
        persistence.UNIT, "other content", "as written",
    )  # fmt: skip
    assert not change["reboot"]
    assert persistence.UNIT in items(changes(tmp_path, nvidia_driver_persistence=False))
    (tmp_path / "dev/nvidiactl").unlink()
    assert changes(tmp_path, container=True) == []


def test_the_roles_unit_as_it_is_now_is_no_change(tmp_path: Path) -> None:
    tree(converged(tmp_path), {persistence.OWN: persistence.unit_text(DRIVER)})
    assert changes(tmp_path) == []
    (tmp_path / persistence.OWN.lstrip("/")).chmod(0o666)
    (change,) = changes(tmp_path)
    assert (change["item"], change["from"]) == (persistence.UNIT, "mode 0666")


def test_a_unit_of_an_administrators_stays_as_it_is(tmp_path: Path) -> None:
    theirs = "[Unit]\nConditionPathExists=/dev/nvidiactl\n" + PERSISTENCED
    tree(converged(tmp_path), {persistence.OWN: theirs})
    (tmp_path / persistence.OWN.lstrip("/")).chmod(0o600)
    assert changes(tmp_path) == []
    assert persistence.own_unit(context(tmp_path)) is None
