"""Builds the driver's module by DKMS for the kernels that lack it."""

from __future__ import annotations

import os
import re

from ...host import apt_commands, platform
from ...host.context import Context
from ...host.refusal import RefusalError
from ...type_checking import TYPE_CHECKING
from . import driver_method, make_log, module_files, signing

if TYPE_CHECKING:
    from typing import Any

SOURCES = "/usr/src"
# A new kernel would get every version that DKMS keeps below these, and load the one built last.
KEPT = driver_method.MODULES[:-1]


def name_of(version: str, platforms_own: str) -> str:
    """What DKMS calls the module of this version.

    platforms_own: the name where the platform's packages have one of their own, as Debian's
    nvidia-current; else NVIDIA's, its .run file's or Ubuntu's, which the sources tell.
    """
    if platforms_own not in ("", "nvidia"):
        return platforms_own
    names = sorted(
        entry
        for entry in _entries(SOURCES)
        if entry.startswith("nvidia") and entry.endswith(f"-{version}")
    )
    return re.sub(r"-[0-9][0-9.]*$", "", names[0]) if names else "nvidia"


def _entries(directory: str) -> list[str]:
    """Names of the directories in it; links are left out."""
    try:
        with os.scandir(directory) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []


def lacking(kernels: list[str], version: str, name: str) -> list[str]:
    """The kernels that would load no module of this version; `name` is what DKMS calls it.

    And those of whose modules a file is not whole: the first one tells the version, the others can
    be empty.
    """
    file = name if name == driver_method.DEBIAN_MODULE else "nvidia"
    command = ["modinfo", "-F", "version", "-k"]
    return [
        kernel
        for kernel in kernels
        if apt_commands.run([*command, kernel, file]).out.strip() != version
        or damaged(kernel, name)
    ]


def damaged(kernel: str, name: str) -> list[str]:
    """The files of a kernel's modules, installed or kept by DKMS, that are not whole."""
    context = Context()
    build = driver_method.kept(context, kernel, name)
    if build is None:
        return []
    return module_files.broken(context, build, driver_method.installed(kernel))


def others(version: str, name: str) -> list[tuple[str, str]]:
    """[(name, version)] of the modules of other drivers that DKMS keeps."""
    if name == driver_method.DEBIAN_MODULE:
        return []
    return [
        (module, entry)
        for module in KEPT
        for entry in _entries(os.path.join(driver_method.DKMS, module))
        if re.match(r"[0-9].*\.[0-9]", entry) and entry != version
    ]


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """What the module of these parameters returns. RefusalError with the compiler's words."""
    version = params["version"]
    name = name_of(version, params["platforms_own"])
    kernels = lacking(params["kernels"], version, name)
    file = name if name == driver_method.DEBIAN_MODULE else "nvidia"
    refused = _refused([kernel for kernel in params["kernels"] if kernel not in kernels], file)
    kernels = [kernel for kernel in params["kernels"] if kernel in [*kernels, *refused]]
    stale = others(version, name)
    result: dict[str, Any] = {
        "changed": bool(kernels or stale),
        "built": kernels,
        "removed": ["/".join(module) for module in stale],
    }
    if check_mode:
        if kernels:
            result["msg"] = f"Would build the kernel module for {', '.join(kernels)}"
        return result
    for kernel in kernels:
        # DKMS installs nothing over what it calls installed, also with --force; and it would
        # install the build that it has, unsigned or cut short as it is.
        files = damaged(kernel, name)
        if kernel in refused or any(path.startswith(driver_method.DKMS) for path in files):
            apt_commands.run(["dkms", "remove", "-m", name, "-v", version, "-k", kernel])
        elif files:
            apt_commands.run(["dkms", "uninstall", "-m", name, "-v", version, "-k", kernel])
    keep = [kernel for kernel in params["kernels"] if kernel not in kernels]
    _build(kernels, version, name, params["module"], keep)
    for module, old in stale:
        answer = apt_commands.run(["dkms", "remove", "-m", module, "-v", old, "--all"])
        if answer.rc != 0:
            raise RefusalError(f"dkms could not remove {module}/{old}: {answer.err.strip()}")
    return result


def _refused(kernels: list[str], file: str) -> list[str]:
    """Those kernels that will not take their module under Secure Boot."""
    context = Context()
    context.platform = platform.look(context)
    return list(signing.refused(signing.verdicts(context, kernels, file)))


def _build(kernels: list[str], version: str, name: str, module: str, keep: list[str]) -> None:
    """Builds for each of `kernels`; `keep` have their module. RefusalError where one got none."""
    command = ["dkms", "install", "-m", name, "-v", version, "-k"]
    words, errors, failed = "", [], False
    for kernel in kernels:
        answer = apt_commands.run([*command, kernel, "--force"])
        if answer.rc == 0:
            continue
        failed = True
        # The next build takes the log's place.
        words = words or make_log.words(version, module, [kernel])
        if answer.err:
            errors.append(answer.err.strip())
    lack = lacking(kernels, version, name)
    if not failed and not lack:
        return
    words = words or make_log.words(version, module, lack) or "The kernel module was not built."
    keep = [*keep, *(kernel for kernel in kernels if lack and kernel not in lack)]
    message = f"{words} Kernel: {', '.join(lack or kernels)}."
    raise RefusalError(f"{message} {_way_out(keep)}{' / '.join(errors)}".strip())


def _way_out(keep: list[str]) -> str:
    """Which kernels the driver works on while another has no module; "" where none is known."""
    if not keep:
        return ""
    which = " and ".join(sorted(keep))
    has = "has its module" if len(keep) == 1 else "have their module"
    return (
        f"Keep {which}, which {has}: boot it (GRUB: Advanced options), and remove the other"
        " kernel's image, or wait for a driver that builds for it. "
    )
