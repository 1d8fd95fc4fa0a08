"""Installs the modules that the distribution built and signed, for the kernels that lack theirs.

The metapackages bring them for the newest kernels alone. A host that boots an older one, or one
that none of them follows, gets the package of its kernel.
"""

from __future__ import annotations

from ...host import apt_commands, package_lists, platform
from ...host.context import Context
from ...host.package_install import REINSTALL
from ...host.refusal import RefusalError
from ...type_checking import TYPE_CHECKING
from . import built_modules, dkms, signing, signing_words

if TYPE_CHECKING:
    from typing import Any

MODULE = "nvidia"


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """What the module of these parameters returns. RefusalError with apt's words or the cure."""
    context = Context(runner=apt_commands.run)
    context.platform = platform.look(context)
    version, kernels = params["version"], params["kernels"]
    lacking = dkms.lacking(kernels, version, MODULE)
    first = built_modules.stem(params["packages"])
    names = {kernel: f"{first}-{kernel}" for kernel in lacking}
    if check_mode and lacking:
        words = f"Would install {' '.join(names.values())}"
        return {"changed": True, "packages": list(names.values()), "msg": words}
    installed = _install(context, names, version, params["wait"]) if lacking else []
    if not check_mode:
        _refuse_untrusted(context, kernels)
    return {"changed": bool(installed), "packages": installed}


def _install(context: Context, names: dict[str, str], version: str, wait: int) -> list[str]:
    """Installs {kernel: package}; returns what apt was asked for, name=version. RefusalError."""
    specs = built_modules.specs(context, list(names.values()), version)
    if len(specs) < len(names):
        package_lists.fetch((), wait)
        specs = built_modules.specs(context, list(names.values()), version)
    none = [kernel for kernel, name in names.items() if name not in specs]
    words = ""
    if not none:
        # What is installed may be of an older driver, or have lost its files.
        lock = apt_commands.lock_timeout(wait)
        command = [*apt_commands.UNFORCED_INSTALL, lock, *REINSTALL, "install", *specs.values()]
        answer = apt_commands.run(command, wait)
        words = f"{apt_commands.words(answer)} " if answer.rc != 0 else ""
        none = dkms.lacking(list(names), version, MODULE)
    if none:
        packages = ", ".join(names[kernel] for kernel in none)
        signers = built_modules.signers(context, none).values()
        others = [module["file"] for module in signers if "/updates/" in module["file"]]
        if others:
            words += f"{', '.join(others)} is found before it: take it away. "
        raise RefusalError(
            f"There is no signed module of driver {version} for kernel {', '.join(none)}"
            f" ({packages}). {words}Lock the driver that the archive has signed modules of now"
            " (provision lock --upgrade), boot a kernel that it has one for, or have it built here"
            " (driver_modules: dkms in gpu_stack)."
        )
    return list(specs.values())


def _refuse_untrusted(context: Context, kernels: list[str]) -> None:
    """RefusalError where a kernel would not take its module, before one is booted or tried."""
    if not signing.tells_keys(context):
        return
    refused = signing.refused(signing.verdicts(context, kernels, MODULE))
    signers = built_modules.signers(context, refused)
    words = [
        signing_words.refused(kernel, refused[kernel], signers[kernel])
        for kernel in sorted(refused)
    ]
    if words:
        raise RefusalError(" ".join(f"{message}. What to do: {hint}." for message, hint in words))
