"""What makes a host a container, for the plan and for the role alike."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_stack.host import platform
from gpu_stack.host.context import Context

from .trees import tree

PREFLIGHT = Path(__file__).parents[3] / "roles/nvidia_driver/tasks/preflight.yml"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"/run/systemd/container": "podman"}, True),
        ({"/run/host/container-manager": "podman\n"}, True),
        ({"/run/.containerenv": ""}, True),
        ({"/.dockerenv": ""}, True),
        ({"/proc/1/environ": b"HOME=/\0container=lxc\0"}, True),
        ({"/proc/1/environ": b"HOME=/\0xcontainer=lxc\0"}, False),
        ({"/run/systemd/container": "", "/proc/1/environ": b""}, False),
    ],
)
def test_what_a_container_is_told_by(
    tmp_path: Path, files: dict[str, str | bytes], expected: bool
) -> None:
    assert platform.container(Context(root=str(tree(tmp_path, files)))) is expected


def test_the_role_asks_the_plans_own_rule() -> None:
    text = PREFLIGHT.read_text("utf-8")
    assert "provision.gpu.driver_surroundings:" in text
    assert "detect-virt" not in text
