"""Every change of a plan says what is wrong, why it matters and what it will be."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

UNIT = Path(__file__).resolve().parents[1] / "unit"
sys.path[:0] = [str(UNIT / "gpu_stack"), str(UNIT)]

import converged_host  # noqa: E402
from driver.test_nvidia_driver import ALL, converged  # noqa: E402
from driver.trees import DRIVER, KERNEL, age, context, status, tree  # noqa: E402
from gpu_stack.components import nvidia_driver  # noqa: E402
from gpu_stack.components.nvidia_driver import persistence  # noqa: E402
from test_stack_damage import DAMAGES  # noqa: E402

OPTIONS: list[dict[str, Any]] = [
    {},
    {"cuda_hold": False},
    {"cuda_profile": "runtime"},
    {"gpu_env_bashrc_users": ["root"], "gpu_env_path": ["/opt/x"], "gpu_env_library": ["/opt/l"]},
]


def wrong(change: dict[str, Any]) -> list[str]:
    """What a change leaves a person to guess."""
    found = []
    if not isinstance(change["item"], str) or len(change["item"]) < 3:
        found.append(f"its item is {change['item']!r}")
    if len((change["reason"] or "").split()) < 3 or "{" in change["reason"]:
        found.append(f"its reason is {change['reason']!r}")
    for key in ("from", "to"):
        if change[key] is not None and (not change[key] or "{" in change[key]):
            found.append(f"its {key} is {change[key]!r}")
    if change["from"] == change["to"]:
        found.append("nothing changes")
    return found


def plans(root: Path) -> Iterator[list[dict[str, Any]]]:
    for number, (_name, damage, _expected) in enumerate(DAMAGES):
        host = converged_host.make(root / f"d{number}")
        damage(host)
        yield host.plan()["changes"]
    for number, options in enumerate(OPTIONS):
        yield converged_host.make(root / f"o{number}").plan(options=options)["changes"]
    yield converged_host.Host(root / "bare").plan()["changes"]


def test_every_change_says_what_why_and_what_it_will_be(tmp_path: Path) -> None:
    for changes in plans(tmp_path):
        for change in changes:
            assert wrong(change) == [], change


DRIFTS: list[tuple[str, str]] = [
    ("/var/lib/dpkg/status", status(("libcuda1", "535.309.01-0+deb11u1"), *ALL[1:])),
    ("/var/lib/dpkg/status", status(("libcuda1", "470.256.02-2", "install"), *ALL[1:])),
    ("/var/lib/dpkg/status", status(*ALL[:5])),
    ("/var/lib/dpkg/status", status(*ALL[1:])),
    (nvidia_driver.PINS, "Package: *\n"),
    (nvidia_driver.UPGRADES, ""),
    (nvidia_driver.BLACKLIST, "blacklist nouveau\n"),
    (persistence.CONDITION, "[Service]\n"),
    (persistence.OWN, "# Written by provision: of another day\n"),
    ("/boot/vmlinuz-5.10.0-47-amd64", ""),
    ("/sys/module/nvidia/version", "535.309.01\n"),
    ("/sys/module/nouveau/initstate", "live\n"),
]


@pytest.mark.parametrize(("path", "content"), DRIFTS)
def test_so_does_every_change_of_the_driver(tmp_path: Path, path: str, content: str) -> None:
    tree(converged(tmp_path), {path: content})
    age(tmp_path, nvidia_driver.BLACKLIST, 3000)
    here = context(tmp_path)
    changes = nvidia_driver.differ({"nvidia_driver": DRIVER}, nvidia_driver.look(here), {})
    assert f"/boot/initrd.img-{KERNEL}" in [change["item"] for change in changes]
    for change in changes:
        assert wrong(change) == [], change
