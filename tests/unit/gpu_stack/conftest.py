"""What several files share: places of cuDNN for what brings, unpacks and removes it, a device."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_stack.doctor import look as doctor_look
from gpu_stack.host.context import Context


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "opt" / "nvidia" / "cudnn"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return tmp_path / "cudnn.tgz"


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> None:
    """/dev/nvidia0, which nobody but root can make."""

    def unlinked(context: Context) -> list[dict[str, str]]:
        return [{"path": "/dev/nvidia0", "link": "/dev/char/195:0"}]

    monkeypatch.setattr(doctor_look, "unlinked", unlinked)
