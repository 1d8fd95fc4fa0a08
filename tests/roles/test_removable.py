"""What the roles would take away where nothing is theirs to take: nothing.

Without a name `dpkg-query --show` lists every package of the host.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.roles.test_platforms import templated

ROLES = Path(__file__).parents[2] / "roles"
EVERYTHING = ["installed libc6", "installed bash", "installed somebodys"]


def tasks(path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load((ROLES / path).read_text("utf-8"))
    return found


def variables(role: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROLES / role / "vars/main.yml").read_text("utf-8"))
    return found


def test_of_a_tree_only_its_own_packages_go() -> None:
    (task,) = (
        one
        for one in tasks("cuda/tasks/nvidia_remove.yml")
        if "__cuda_tree_there" in one.get("vars", {})
    )
    listed = {"stdout_lines": ["libc6 installed", "cuda-nvcc-11-2 installed"]}
    text = task["vars"]["__cuda_tree_there"]
    assert templated(text, __cuda_tree_installed=listed, __cuda_tree_names=[]) == []
    names = ["cuda-nvcc-11-2", "gone"]
    found = templated(text, __cuda_tree_installed=listed, __cuda_tree_names=names)
    assert found == ["cuda-nvcc-11-2"]


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("cuda/tasks/nvidia_remove.yml", "__cuda_tree_names"),
    ],
)
def test_dpkg_is_not_asked_without_a_name(path: str, names: str) -> None:
    asking = [
        one
        for one in tasks(path)
        if f"+ {names}" in str((one.get("ansible.builtin.command") or {}).get("argv"))
    ]
    assert [one.get("when") for one in asking] == [f"{names} | length > 0"]
