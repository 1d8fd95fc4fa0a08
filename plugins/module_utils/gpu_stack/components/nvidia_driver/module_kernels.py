"""The kernels that get the driver's module, and the headers it is built with."""

from __future__ import annotations

import re

from ...host import platform
from ...host.context import Context
from ...host.refusal import RefusalError
from .. import nvidia_driver
from . import driver_method

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any

# "5.10.0-32-", "6.1.0-0.deb11.21-" and "6.12.107+deb13-" in front of a kernel's flavour, which can
# have hyphens of its own ("cloud-amd64").
RELEASE = re.compile(r"^[^-]+-([0-9][^-]*-)?")
HEADERS = "linux-headers-"


def flavour_headers(kernel: str) -> str:
    """The headers metapackage of a kernel's flavour: "linux-headers-amd64"."""
    return HEADERS + RELEASE.sub("", kernel)


def settle(params: dict[str, Any], _check_mode: bool) -> dict[str, Any]:
    """What the module of these parameters returns; raises RefusalError."""
    context = Context()
    context.platform = platform.look(context)
    context.container = params["container"]
    return dict(look(context, params["platform"]), changed=False)


def look(context: Context, headers: str) -> dict[str, Any]:
    """{"kernels", "headers"}: what to build for, and the options of kernel_headers.Headers.

    headers: the metapackage for the platform's kernel. A container runs on a kernel that is not its
    own and cannot be built for from there. RefusalError where there is no kernel.
    """
    kernels = nvidia_driver.kernels(context)
    if not kernels:
        raise RefusalError(
            "No kernel image is installed under /boot, and the running kernel belongs to the"
            " machine that carries this container: there is nothing to build the module for."
            f" Install {headers.replace('headers', 'image')}, or set nvidia_driver_scope to"
            ' "userspace".'
        )
    running = kernels[0] if context.container else context.platform["kernel"]
    return {
        "kernels": kernels,
        "headers": {
            "kernels": [HEADERS + kernel for kernel in kernels],
            "images": driver_method.following_headers(context),
            "flavour": flavour_headers(running),
            "platform": headers,
        },
    }
