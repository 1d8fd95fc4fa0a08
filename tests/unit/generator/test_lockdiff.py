"""What `provision lock` prints: what changes, and for whom."""

from __future__ import annotations

import dataclasses
from typing import Any

from provision import lock as locks
from provision.inventory import Fleet, parse_wish
from provision.lock import Lock, diff
from provision.models import plain
from tests.unit.generator import recorded

WISH = {"tensorflow": "2.9"}


def fleet(count: int = 1, wish: Any = None) -> Fleet:
    parsed = parse_wish(wish or WISH, where="lab")
    return Fleet({f"gpu{number:02}": parsed for number in range(1, count + 1)})


def lock(requirements: str = recorded.REQUIREMENTS, date: str = "", **versions: str) -> Lock:
    """The recorded lock with other versions of packages (`_` for `-`)."""
    moved = {name.replace("_", "-"): version for name, version in versions.items()}
    packages = [
        dataclasses.replace(p, version=moved.get(p.name, p.version)) for p in recorded.packages()
    ]
    indices = recorded.indices(packages)
    if date:
        (source,) = indices.sources
        indices = dataclasses.replace(indices, sources=(dataclasses.replace(source, date=date),))
    chosen = recorded.choices()
    return locks.make(chosen, {"debian11": indices}, {c.stack.id: requirements for c in chosen})


def sentences(before: Lock, after: Lock, count: int = 1) -> list[str]:
    return diff.lines(diff.difference(before, after, fleet(count)))


def test_nothing_changes_between_equal_locks() -> None:
    assert sentences(lock(), lock()) == []


def test_packages_wheels_and_sources_have_a_line_each() -> None:
    after = lock(
        recorded.REQUIREMENTS.replace("numpy==1.26.4", "numpy==1.26.5").replace(
            "protobuf==3.19.6", "six==1.17.0"
        ),
        "Sun, 10 Aug 2025 09:16:30 UTC",
        nvidia_persistenced="470.103.01-9",
    )
    assert sentences(lock(), after, 5) == [
        "  package nvidia-persistenced 470.103.01-2~deb11u1 -> 470.103.01-9 "
        "(debian 11: gpu01, gpu02, gpu03 and 2 more)",
        "  wheel numpy 1.26.4 -> 1.26.5 (debian 11: gpu01, gpu02, gpu03 and 2 more)",
        "  wheel - protobuf 3.19.6 (debian 11: gpu01, gpu02, gpu03 and 2 more)",
        "  wheel + six 1.17.0 (debian 11: gpu01, gpu02, gpu03 and 2 more)",
        "  source http://deb.debian.org/debian bullseye Sat, 09 Aug 2025 09:16:30 UTC -> "
        "Sun, 10 Aug 2025 09:16:30 UTC (debian 11: gpu01, gpu02, gpu03 and 2 more)",
    ]


def test_a_component_stands_before_its_packages() -> None:
    before = recorded.lock({"tensorflow": "2.12"})
    slim: Any = plain(before.slim)
    for stack in slim["stacks"].values():
        stack["nvidia_driver"]["version"] = "470.239.06"
    changes = diff.difference(
        Lock(slim, before.details), before, fleet(wish={"tensorflow": "2.12"})
    )
    (now,) = {stack["nvidia_driver"]["version"] for stack in before.stacks.values()}
    assert f"nvidia_driver 470.239.06 -> {now} (debian 12: gpu01)" in diff.lines(changes)


def test_a_new_wish_is_a_new_row_and_an_old_one_is_gone() -> None:
    before, after = recorded.lock(), recorded.lock({"tensorflow": "2.9.3"})
    lines = diff.lines(diff.difference(before, after, fleet(wish={"tensorflow": "2.9.3"})))
    assert lines == [
        'debian 11, gpu_stack {"tensorflow": "2.9.3"}: new (gpu01)',
        'debian 11, gpu_stack {"tensorflow": "2.9"}: gone (no host any more)',
    ]


def test_another_cudnn_python_and_environment_are_reported() -> None:
    before = recorded.lock()
    slim: Any = plain(before.slim)
    (stack,) = slim["stacks"].values()
    stack["cudnn"]["cuda"] = "11.1"
    stack["tensorflow"]["python"] = "3.8"
    stack["gpu_env"]["path"] = ["/opt/cuda/bin"]
    lines = diff.lines(diff.difference(before, Lock(slim, before.details), fleet()))
    assert lines[0] == ("cudnn 8.1.0.77 for CUDA 11.2 -> 8.1.0.77 for CUDA 11.1 (debian 11: gpu01)")
    assert '"path": ["/opt/cuda/bin"]' in lines[1]
    assert lines[2].endswith("on Python 3.9 -> 2.9.3 on Python 3.8 (debian 11: gpu01)")
