"""Which of the driver's cases a host has, and what would be safe to do about it."""

from __future__ import annotations

from ...doctor import look
from ...doctor.case import Case, clue, heard, run_of
from ...type_checking import TYPE_CHECKING
from . import signing
from .doctor_cases import CASES

if TYPE_CHECKING:
    from typing import Any

    from ...shapes import Clues, Facts

BY_ID = {case.id: case for case in CASES}


def driver_mismatch(facts: Facts) -> Clues:
    if facts["loaded"] is None or facts["library"] in (None, facts["loaded"]):
        return []
    loaded, library = facts["loaded"], facts["library"]
    clues = [clue(f"the loaded module is {loaded}, the installed libraries are {library}")]
    for upgrade in facts["moved"]:
        if look.upstream(upgrade["new"]) == facts["library"]:
            clues.append(clue(_moved(upgrade)))
    return clues


def _moved(upgrade: dict[str, Any]) -> str:
    return "unattended-upgrades moved {package} from {old} to {new} on {when}".format(**upgrade)


def unattended_upgrades(facts: Facts) -> Clues:
    return [] if facts["spared"] else [clue(_moved(upgrade)) for upgrade in facts["moved"]]


def nouveau_loaded(facts: Facts) -> Clues:
    state = facts["found"]["state"].get("nvidia_driver") or {}
    on_host = facts["found"]["gpus"] and not facts["found"]["container"]
    if not state.get("nouveau_loaded") or not on_host:
        return []
    lists = facts["blacklists"]
    why = f"though {lists[0]} says not to" if lists else "and nothing blacklists it"
    return [clue("/sys/module/nouveau is there, " + why)]


def nouveau_initramfs(facts: Facts) -> Clues:
    return [clue(f"{path} is older than {facts['blacklists'][0]}") for path in facts["initramfs"]]


def headers_missing(facts: Facts) -> Clues:
    if not facts["dkms"] and not _builds(facts):
        return []
    seen = (facts["found"].get("preflight") or {}).get("headers") or {}
    words = {
        "absent": "/lib/modules/{0}/build is missing, and the archive has no linux-headers-{0}",
        "offered": "/lib/modules/{0}/build is missing; the archive has linux-headers-{0}",
        "unknown": "/lib/modules/{0}/build is missing",
    }
    return [
        clue(words[state].format(kernel), kernel=kernel)
        for kernel, state in sorted(seen.items())
        if state in words
    ]


def _builds(facts: Facts) -> bool:
    """Whether the locked module is built on this host."""
    state = facts["found"]["state"].get("nvidia_driver") or {}
    full = facts["row"] is not None and state.get("scope") == "full"
    return full and bool(state.get("packages"))


def headers_metapackage(facts: Facts) -> Clues:
    if not facts["dkms"]:
        return []
    return [
        clue(
            f"linux-image-{n} brings new kernels, and linux-headers-{n} is not installed",
            headers="linux-headers-" + n,
        )
        for n in facts["metapackages"]
    ]


def driver_gone_after_kernel(facts: Facts) -> Clues:
    kernel = facts["found"]["platform"].get("kernel")
    if facts["found"]["container"] or not facts["found"]["gpus"] or facts["loaded"]:
        return []
    others = sorted(name for name, built in facts["modules"].items() if built and name != kernel)
    if facts["modules"].get(kernel) is not False or not others:
        return []
    evidence = "/lib/modules/{0} has no NVIDIA module, /lib/modules/{1} has one"
    return [clue(evidence.format(kernel, others[-1]), kernel=kernel)]


def _failed_builds(facts: Facts, case: Case) -> Clues:
    """Clues of a case from the logs of failed builds."""
    clues = []
    for build in facts["builds"]:
        if facts["modules"].get(build["kernel"]) is not False:
            continue  # it was built later, or that kernel was removed
        for match in heard(case, build["text"], build["path"]):
            match["words"].setdefault("kernel", build["kernel"])
            clues.append(match)
    return clues


def dkms_gpl_symbol(facts: Facts) -> Clues:
    return _failed_builds(facts, BY_ID["dkms-gpl-symbol"])


def dkms_compiler(facts: Facts) -> Clues:
    return _failed_builds(facts, BY_ID["dkms-compiler"])


def dkms_failed(facts: Facts) -> Clues:
    return _failed_builds(facts, BY_ID["dkms-failed"])


def secure_boot(facts: Facts) -> Clues:
    seen = facts["found"].get("preflight") or {}
    if seen.get("secure_boot") is not True or seen.get("module_key") or facts["loaded"]:
        return []
    if facts["found"]["container"] or not (facts["dkms"] or any(facts["modules"].values())):
        return []
    state = facts["found"]["state"].get("nvidia_driver") or {}
    kernel = facts["found"]["platform"].get("kernel")
    if (state.get("signatures") or {}).get(kernel) == signing.TRUSTED:
        return []
    evidence = "the firmware says SecureBoot=1, and no key of DKMS's is among those it trusts"
    return [clue(evidence, certificate=facts["certificate"] or "/var/lib/dkms/mok.pub")]


def transitional_branch(facts: Facts) -> Clues:
    clues = []
    for name, version in sorted(facts["driver_packages"].items()):
        branch = look.BRANCH.match(name)
        real = look.upstream(version).split(".")[0]
        if branch is not None and real.isdigit() and len(real) == 3 and real != branch.group(1):
            clues.append(clue(f"{name} is {version}", package=name))
    return clues


def _loaded_is_locked(facts: Facts) -> bool:
    row = (facts["row"] or {}).get("nvidia_driver") or {}
    return facts["loaded"] is not None and facts["loaded"] == row.get("version")


def _driver(facts: Facts) -> str | None:
    """The version that the driver is to have: the loaded module's where it is the lock's, else the
    libraries', else the packages', else the module's; or None.

    A module that is not the lock's may be one that an upgrade has left until the next boot.
    """
    packages, names = sorted(facts["driver_packages"].items()), ("libcuda1", "libnvidia-compute")
    packaged = [look.upstream(version) for name, version in packages if name.startswith(names)]
    loaded: str | None = facts["loaded"]
    if _loaded_is_locked(facts):
        return loaded
    return facts["library"] or next(iter(packaged), None) or loaded


def fabric_manager(facts: Facts) -> Clues:
    driver = _driver(facts)
    return [
        clue(f"{name} is {version}, the driver is {driver}", package=name, driver=driver)
        for name, version in sorted(facts["fabric"].items())
        if driver is not None and version != driver
    ]  # fmt: skip


def _headers(facts: Facts, _clues: Clues) -> dict[str, Any]:
    seen = (facts["found"].get("preflight") or {}).get("headers") or {}
    return {} if "absent" in seen.values() else run_of("nvidia_driver")(facts, [])


def _libraries(facts: Facts, clues: Clues) -> dict[str, Any]:
    """A run downgrades the libraries to a loaded module of the lock; else a reboot is needed."""
    return run_of("nvidia_driver")(facts, clues) if _loaded_is_locked(facts) else {}


CHECKS = {
    "driver-mismatch": driver_mismatch,
    "unattended-upgrades": unattended_upgrades,
    "nouveau-loaded": nouveau_loaded,
    "nouveau-initramfs": nouveau_initramfs,
    "headers-missing": headers_missing,
    "headers-metapackage": headers_metapackage,
    "driver-gone-after-kernel": driver_gone_after_kernel,
    "dkms-gpl-symbol": dkms_gpl_symbol,
    "dkms-compiler": dkms_compiler,
    "dkms-failed": dkms_failed,
    "secure-boot": secure_boot,
    "transitional-branch": transitional_branch,
    "fabric-manager": fabric_manager,
}
FIXES = {
    "driver-mismatch": _libraries,
    "unattended-upgrades": run_of("nvidia_driver"),
    "nouveau-initramfs": lambda facts, _clues: {
        "initramfs": [path.partition("initrd.img-")[2] for path in facts["initramfs"]]
    },
    "headers-missing": _headers,
    "driver-gone-after-kernel": run_of("nvidia_driver"),
}
