"""Rules on what keeps the kernel from loading the module: headers, Secure Boot, a full /boot."""

from __future__ import annotations

import contextlib
import re

from ...host import bundle
from ...host.processes import text_of
from ...rules import rules_of
from ...type_checking import TYPE_CHECKING
from .. import nvidia_driver
from . import (
    built_modules,
    driver_method,
    kernel_headers,
    kernel_words,
    running_driver,
    signing,
    signing_words,
)
from .rules import replaces, scope

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Context
    from ...shapes import Changes, Facts, Options, Row

DKMS_INSTEAD = "have it built here: driver_modules: dkms in gpu_stack, then provision lock"
# What NVIDIA's modules add to an initramfs where they are put into it.
MODULES_IN_INITRAMFS = (1 << 30) // 16


def secure_boot(context: Context) -> bool | None:
    """Whether the firmware enforces Secure Boot; None where it does not say."""
    return signing.secure_boot(context)


def module_key(context: Context) -> bool:
    """Whether DKMS signs modules with a key that this machine trusts."""
    return bool(signing.look(context)["enrolled"])


def headers(context: Context, kernel: str) -> str:
    """State of a kernel's headers: "installed", "offered", "absent" or "unknown" (no lists)."""
    if context.exists(f"/lib/modules/{kernel}/build"):
        return "installed"
    package = "linux-headers-" + kernel
    with contextlib.suppress(bundle.UnfitError):  # the rule of the bundle says it
        its = bundle.of_host(context)
        if its is not None:
            return "offered" if bundle.has_package(its, package) else "absent"
    answer = context.run(["apt-cache", "policy", package])
    if package in kernel_headers.installable(answer.out):
        return "offered"
    # An apt that has no lists yet knows nothing of any package.
    return "absent" if context.glob("/var/lib/apt/lists/*_Packages*") else "unknown"


def all_headers(context: Context) -> dict[str, str]:
    """{kernel: state of its headers} of the kernels that the driver is built for."""
    return {kernel: headers(context, kernel) for kernel in nvidia_driver.kernels(context)}


def offered_modules(context: Context) -> dict[str, str]:
    """{kernel without its module: what apt has for it}, where the distribution builds modules."""
    row = context.part(nvidia_driver.NAME)
    if not driver_method.prebuilt(row):
        return {}
    return built_modules.offered(context, row, nvidia_driver.kernels(context))


def module_signers(context: Context) -> dict[str, dict[str, str]]:
    """{kernel: {"signer", "file"}} of modules that the distribution built and no kernel takes."""
    row = context.part(nvidia_driver.NAME)
    # Where the kernel does not say which keys it was built with, nobody can tell.
    if not driver_method.prebuilt(row) or not signing.tells_keys(context):
        return {}
    name = driver_method.loaded_as(row)
    verdicts = signing.verdicts(context, nvidia_driver.kernels(context), name)
    return built_modules.signers(context, signing.refused(verdicts))


def boot(context: Context) -> dict[str, int] | None:
    """{"free", "needed"} in bytes under /boot, where an initramfs is rebuilt; None without one.

    update-initramfs writes each image beside the old one before it takes its place, and the new
    one holds NVIDIA's modules.
    """
    sizes = [info.st_size for info in map(context.stat, context.glob("/boot/initrd.img-*")) if info]
    free = context.disk_free("/boot")
    if not sizes or free is None:
        return None
    return {"free": free, "needed": max(sizes) + MODULES_IN_INITRAMFS}


def compilers(context: Context) -> dict[str, Any]:
    """Major versions of gcc: {"kernel": its compiler's, "installed": [...], "default"}."""
    version = text_of(context, "/proc/version")
    built = re.search(r"\bgcc(?:-(\d+)| version (\d+)| \([^)]*\) (\d+))", version)
    return {
        "kernel": int(next(filter(None, built.groups()))) if built is not None else None,
        "installed": sorted({_major(context, p) for p in context.glob("/usr/bin/gcc*")} - {None}),
        "default": _major(context, "/usr/bin/gcc"),
    }


def _major(context: Context, path: str) -> int | None:
    """Major version of the gcc that `path` links to; None where it links to none."""
    target = context.resolve(path)
    match = target and re.search(r"gcc-(\d+)$", target)
    return int(match.group(1)) if match else None


def _rebuilds_image(change: dict[str, Any]) -> bool:
    """Whether an initramfs is rebuilt for the change: it is old, or the blacklist is written."""
    item = str(change["item"])
    return item == nvidia_driver.BLACKLIST or item.startswith("/boot/initrd.img-")


def boot_full(host: Facts, changes: Changes, options: Options, row: Row) -> list[tuple[str, str]]:
    space = host["preflight"].get("boot")
    if scope(host, options) != "full" or not space or space["free"] >= space["needed"]:
        return []
    if not (replaces(changes, row) or any(_rebuilds_image(change) for change in changes)):
        return []
    return [
        (
            "/boot is too full: {0:.0f} MB are free where {1:.0f} MB are needed to rebuild an "
            "initramfs".format(space["free"] / 1e6, space["needed"] / 1e6),
            "remove kernels that are not booted any more (apt-get autoremove --purge; dpkg -l "
            "'linux-image-*' lists them), then run again",
        )
    ]


def secure_boot_unsigned(
    host: Facts,
    _changes: Changes,
    options: Options,
    row: Row,
) -> list[tuple[str, str]]:
    if scope(host, options) != "full" or host["preflight"].get("secure_boot") is not True:
        return []
    state = host["state"]["nvidia_driver"]
    signatures = state["signatures"]
    if driver_method.prebuilt(row["nvidia_driver"]):
        signers = host["preflight"]["module_signers"]
        return [
            signing_words.refused(kernel, signatures[kernel], signer)
            for kernel, signer in sorted(signers.items())
            if kernel in signing.refused(signatures)
            and state["modules"].get(kernel) == row["nvidia_driver"]["version"]
        ]
    if host["preflight"].get("module_key"):
        return []
    built = {state["modules"].get(kernel) for kernel in signatures}
    # Somebody signs them another way, and the kernels take them.
    taken = built == {row["nvidia_driver"]["version"]}
    if taken and set(signatures.values()) == {signing.TRUSTED}:
        return []
    return [signing_words.unsigned(host["preflight"]["signing"])]


def _nouveau(host: Facts, options: Options) -> bool:
    loaded = host["state"].get("nvidia_driver", {}).get("nouveau_loaded")
    return bool(loaded) and scope(host, options) == "full" and not host["container"]


def nouveau_loaded(
    host: Facts,
    _changes: Changes,
    options: Options,
    _row: Row,
) -> list[tuple[str, str]]:
    local = options.get("ansible_connection") == "local"
    if not _nouveau(host, options) or (options.get("nvidia_driver_reboot") and not local):
        return []
    return [
        (
            "nouveau is loaded and drives the GPU; it goes only with a reboot, and this run may "
            "not do one",
            "set nvidia_driver_reboot: true, or reboot the host after this run and run again",
        )
    ]


def boot_words(context: Context) -> str:
    """The kernel's last lines about drivers, where a reboot for them is noted; else ""."""
    if not context.exists(running_driver.RECORD):
        return ""
    return kernel_words.last(kernel_words.lines(context.run))


def rebooted_in_vain(
    host: Facts,
    changes: Changes,
    _options: Options,
    _row: Row,
) -> list[tuple[str, str]]:
    why = host["state"]["nvidia_driver"].get("reboot_in_vain")
    # A run that changes what a boot brings up may reboot again.
    if not why or any(entry["reboot"] for entry in changes):
        return []
    quote = kernel_words.quoted(host["preflight"].get("boot_words"))
    message = f"this host was rebooted for it, and still {why}. {quote}"
    return [(message.rstrip("."), running_driver.hint(why))]


def _image(host: Facts) -> str:
    """The metapackage of the platform's kernel."""
    ubuntu = host["platform"].get("distribution") == "ubuntu"
    return "linux-image-generic" if ubuntu else "linux-image-amd64"


def headers_absent(
    host: Facts,
    _changes: Changes,
    options: Options,
    row: Row,
) -> list[tuple[str, str]]:
    if scope(host, options) != "full" or driver_method.prebuilt(row["nvidia_driver"]):
        return []
    return [
        (
            f"the headers of kernel {kernel} are neither installed nor in the archive any more, so "
            "no module can be built for it",
            f"install the current kernel (apt install {_image(host)}), reboot, then run again",
        )
        for kernel, state in sorted((host["preflight"].get("headers") or {}).items())
        if state == "absent"
    ]


def signed_module_absent(
    host: Facts,
    _changes: Changes,
    options: Options,
    row: Row,
) -> list[tuple[str, str]]:
    driver = row["nvidia_driver"]
    if scope(host, options) != "full" or not driver_method.prebuilt(driver):
        return []
    first = built_modules.stem(driver["packages"]["kernel"])
    reasons = []
    for kernel, state in sorted((host["preflight"].get("offered_modules") or {}).items()):
        if state in (built_modules.OFFERED, built_modules.UNKNOWN):
            continue
        message = f"the archive has no {first}-{kernel}, the signed module for kernel {kernel}"
        hint = (
            f"boot a kernel that it has one for (apt-cache search {first}-; apt install "
            f"{_image(host)} brings the platform's own), then run again"
        )
        if state != built_modules.ABSENT:
            message = (
                f"the archive's signed module for kernel {kernel} is of driver {state}, and the "
                "lock has {0}".format(driver["version"])
            )
            hint = "lock the driver that the archive has modules of (provision lock --upgrade)"
        if kernel != host["platform"].get("kernel"):
            hint += f"; or remove linux-image-{kernel}, which is not running"
        reasons.append((message, f"{hint}; or {DKMS_INSTEAD}"))
    return reasons


def no_kernel(host: Facts, _changes: Changes, options: Options, _row: Row) -> list[tuple[str, str]]:
    if scope(host, options) != "full" or host["state"]["nvidia_driver"]["kernels"]:
        return []
    return [
        (
            "nvidia_driver_scope is full, but no kernel image is installed under /boot and the "
            "running kernel is not this system's",
            f"install {_image(host)}, or set nvidia_driver_scope: userspace",
        )
    ]


def kernel_compiler(
    host: Facts,
    _changes: Changes,
    options: Options,
    row: Row,
) -> list[tuple[str, str]]:
    gcc = host["preflight"].get("compilers") or {}
    if driver_method.prebuilt(row["nvidia_driver"]):
        return []
    kernel, installed = gcc.get("kernel"), gcc.get("installed")
    if scope(host, options) != "full" or host["container"]:
        return []
    if kernel is None or not installed or kernel in installed:
        return []
    return [
        (
            "the running kernel was built by gcc {0}, and only gcc {1} is installed: modules built "
            "by another compiler often fail".format(kernel, ", ".join(map(str, installed))),
            f"apt install gcc-{kernel}",
        )
    ]


FACTS = {
    "boot": boot,
    "secure_boot": secure_boot,
    "module_key": module_key,
    "module_signers": module_signers,
    "offered_modules": offered_modules,
    "signing": signing.look,
    "headers": all_headers,
    "compilers": compilers,
    "boot_words": boot_words,
}
RULES = rules_of(
    nvidia_driver.NAME,
    stops={
        "boot-full": boot_full,
        "secure-boot": secure_boot_unsigned,
        "headers": headers_absent,
        "signed-module": signed_module_absent,
        "no-kernel": no_kernel,
        "rebooted-in-vain": rebooted_in_vain,
    },
    warns={
        "nouveau": nouveau_loaded,
        "kernel-compiler": kernel_compiler,
    },
)
