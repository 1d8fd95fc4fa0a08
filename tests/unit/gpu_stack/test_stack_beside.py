"""Environments of TensorFlow beside the current one: each is looked at and planned by itself."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import Any

import converged_host as made
import gpu_stack.look


def lock() -> dict[str, Any]:
    """The small lock with another TensorFlow beside the first."""
    changed: dict[str, Any] = copy.deepcopy(made.LOCK)
    part = changed["stacks"]["debian11-small"]["tensorflow"]
    changed["stacks"]["other"] = {"tensorflow": {**part, "version": "2.14.1"}}
    changed["stacks"]["other"]["tensorflow"]["cuda_source"] = "wheels"
    changed["rows"][0]["beside"] = ["other"]
    return changed


def both(root: Path) -> made.Host:
    """A host that has both. The other is a copy, with its own version in its mark alone."""
    host = made.make(root)
    other = f"/opt/tensorflow/2.14.1-{made.REQUIREMENTS[:8]}"
    shutil.copytree(host.path(made.VENV), host.path(other), symlinks=True)
    mark = host.path(other + "/.provision.json")
    mark.write_text(mark.read_text().replace("2.9.3", "2.14.1"))
    return host


DIRECTORY = f"2.14.1-{made.REQUIREMENTS[:8]}"


def test_a_host_with_both_has_nothing_to_do(tmp_path: Path) -> None:
    result = both(tmp_path).plan(lock=lock())
    assert result["changes"] == []
    assert result["beside"] == [{"stack": "other", "directory": DIRECTORY}]


def test_one_that_is_not_there_is_named_by_its_version(tmp_path: Path) -> None:
    (change,) = made.make(tmp_path).plan(lock=lock())["changes"]
    assert (change["component"], change["item"], change["from"]) == (
        "tensorflow",
        "2.14.1 tensorflow",
        None,
    )
    assert change["to"] == "2.14.1 on Python 3.9"
    assert f"/opt/tensorflow/{DIRECTORY} is missing" in change["reason"]


def test_damage_to_one_is_repaired_in_that_one(tmp_path: Path) -> None:
    host = both(tmp_path)
    host.remove(f"/opt/tensorflow/{DIRECTORY}/lib/python3.9/site-packages/{made.LIBRARY}")
    result = host.plan(lock=lock())
    assert [change["item"] for change in result["changes"]] == [f"2.14.1 {made.LIBRARY}"]
    assert result["repairs"] == {"tensorflow": {"tensorflow_reinstall_beside": [DIRECTORY]}}
    host = both(tmp_path / "2")
    host.remove(f"{made.SITE}/{made.LIBRARY}")
    result = host.plan(lock=lock())
    assert [change["item"] for change in result["changes"]] == [made.LIBRARY]
    assert result["repairs"] == {"tensorflow": {"tensorflow_reinstall": True}}


def test_only_the_first_is_current(tmp_path: Path) -> None:
    host = both(tmp_path)
    host.link("/opt/tensorflow/current", DIRECTORY)
    ((component, item, old),) = host.items(lock=lock())
    assert (component, item, old) == ("tensorflow", "current", DIRECTORY)


def test_a_lock_without_them_looks_at_one(tmp_path: Path) -> None:
    host = both(tmp_path)
    seen = gpu_stack.look.look(made.LOCK, made.WISH, root=str(tmp_path), runner=host.run)
    assert "beside" not in seen["state"]["tensorflow"]
    assert host.plan()["beside"] == []


def test_a_wheel_of_another_version_is_no_reason_to_forget_the_link(tmp_path: Path) -> None:
    """The wheel is called as the item of a venv that is not there at all."""
    host = made.make(tmp_path)
    host.link("/opt/tensorflow/current", "2.8.0-00000000")
    old = host.path(made.SITE + "/tensorflow-2.9.3.dist-info")
    old.rename(old.with_name("tensorflow-2.9.1.dist-info"))
    assert {item for _component, item, _old in host.items()} == {"tensorflow", "current"}
