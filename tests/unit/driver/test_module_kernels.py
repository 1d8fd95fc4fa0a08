"""The kernels that get the driver's module, and the packages of headers for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gpu_stack.components.nvidia_driver import driver_method, module_kernels
from gpu_stack.host import platform
from gpu_stack.host.context import Context
from gpu_stack.host.refusal import RefusalError

from .trees import status, tree

OLD, NEW, RUNNING = "5.10.0-9-amd64", "5.10.0-46-amd64", "5.10.0-31-cloud-amd64"
PLATFORM = "linux-headers-amd64"


def host(root: Path, *images: str, container: bool = False, packages: tuple[str, ...] = ()) -> Any:
    tree(root, {f"/boot/vmlinuz-{kernel}": "" for kernel in images})
    installed = [(name, "1", "install") for name in packages]
    tree(root, {"/var/lib/dpkg/status": status(*installed)})
    context = Context(str(root))
    context.platform = {"kernel": RUNNING}
    context.container = container
    return context


def test_the_next_kernel_and_the_running_one_get_the_module(tmp_path: Path) -> None:
    assert module_kernels.look(host(tmp_path, OLD, NEW), PLATFORM) == {
        "kernels": [NEW, RUNNING],
        "headers": {
            "kernels": [f"linux-headers-{NEW}", f"linux-headers-{RUNNING}"],
            "images": [],
            "flavour": "linux-headers-cloud-amd64",
            "platform": PLATFORM,
        },
    }


def test_a_containers_running_kernel_is_another_machines(tmp_path: Path) -> None:
    built_for = module_kernels.look(host(tmp_path, OLD, NEW, container=True), PLATFORM)
    assert built_for["kernels"] == [NEW]
    assert built_for["headers"]["flavour"] == PLATFORM


def test_a_container_without_a_kernel_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusalError) as raised:
        module_kernels.look(host(tmp_path, container=True), PLATFORM)
    assert str(raised.value) == (
        "No kernel image is installed under /boot, and the running kernel belongs to the machine"
        " that carries this container: there is nothing to build the module for. Install"
        ' linux-image-amd64, or set nvidia_driver_scope to "userspace".'
    )


def test_headers_follow_the_metapackages_of_images(tmp_path: Path) -> None:
    packages = (
        *("linux-image-generic-hwe-20.04", "linux-image-amd64", "linux-headers-amd64"),
        *("linux-image-amd64-dbg", "linux-image-unsigned-x", "linux-image-extra-virtual"),
        f"linux-image-{NEW}",
    )
    context = host(tmp_path, NEW, packages=packages)
    names = ["linux-headers-amd64", "linux-headers-generic-hwe-20.04"]
    assert module_kernels.look(context, PLATFORM)["headers"]["images"] == names
    assert driver_method.headers_lacking(context) == names[1:]


def test_the_module_names_kernels_or_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "look", lambda _context: {"kernel": RUNNING})
    params = {"container": True, "platform": PLATFORM}

    def settled(*images: str) -> dict[str, Any]:
        context = host(tmp_path, *images)
        monkeypatch.setattr(module_kernels, "Context", lambda: context)
        return module_kernels.settle(params, False)

    with pytest.raises(RefusalError, match=r"^No kernel image is installed under /boot"):
        settled()
    answer = settled(NEW)
    assert (answer["changed"], answer["kernels"]) == (False, [NEW])
