"""When a run needs cuDNN's archive: a missing one is said before the driver is installed."""

from __future__ import annotations

import pytest
from gpu_stack.change import change
from gpu_stack.components import cudnn


@pytest.mark.parametrize(
    ("item", "before", "after"),
    [
        ("cudnn", None, "8.1.0.77 for CUDA 11.2"),
        ("libcudnn.so.8.1.0", "missing", "10 bytes"),
        ("libcudnn.so.8", "missing", "link to libcudnn.so.8.1.0"),
        ("cudnn.h", "mode 0600", "mode 0644"),
        ("cudnn_version.h", None, "8.1.0.77"),
    ],
)
def test_what_is_unpacked_needs_it(item: str, before: str | None, after: str) -> None:
    assert cudnn.needs_archive([change("cudnn", item, before, after, "")])


@pytest.mark.parametrize(
    ("item", "before", "after"),
    [
        ("current", "8.0", "8.1.0.77-cuda11.2"),
        ("/etc/ld.so.conf.d/00-provision-cudnn.conf", None, "/opt/nvidia/cudnn/current/lib64"),
        ("/opt/nvidia/cudnn", "closed", "readable by all"),
        ("libcudnn.so.8", "/usr/lib/libcudnn.so.8", "/opt/nvidia/cudnn/current/lib64"),
        ("8.1.0.77-cuda11.2", "unpacked", "absent"),
    ],
)
def test_links_loader_files_and_removals_do_not(item: str, before: str | None, after: str) -> None:
    assert not cudnn.needs_archive([change("cudnn", item, before, after, "")])


def test_other_components_do_not() -> None:
    assert not cudnn.needs_archive([change("cuda", "libcudart11.0", None, "11.2.152", "")])
