"""What goes wrong with a driver: versions apart, no module for the kernel, nouveau, Secure Boot."""

from __future__ import annotations

from ...doctor import look
from ...doctor.case import RUN, Case, clue, heard, run_of
from ...type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from ...shapes import Clues, Facts

CASES = (
    Case(
        "driver-mismatch",
        "the loaded kernel module and the driver's libraries are of different versions",
        ("lyulyul/shine-cluster#30", "pando85/homelab#4110", "NVIDIA/deepops#1186"),
        "reboot when no GPU job runs, so that the module of the installed version is loaded; where "
        "the loaded one is the lock's, a run of nvidia_driver brings the libraries back to it",
        ("sudo systemctl reboot",),
        (
            r"Failed to initialize NVML: Driver/library version mismatch",
            r"NVRM: API mismatch:",
            r"kernel version \S+ does not match DSO version \S+",
            r"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        ),
        RUN + " where the loaded module is the lock's",
    ),
    Case(
        "unattended-upgrades",
        "unattended-upgrades moves the driver's packages, and nothing keeps it from that",
        ("lyulyul/shine-cluster#30", "lyulyul/shine-cluster#50", "pando85/homelab#4110"),
        "keep the GPU stack out of unattended-upgrades: a run of nvidia_driver writes the "
        "exclusion, the pins and the holds; leave unattended-upgrades installed for the rest",
        ("provision apply --limit {host} --tags nvidia_driver",),
        (),
        RUN,
    ),
    Case(
        "nouveau-loaded",
        "nouveau, the kernel's own driver, has taken the GPU",
        ("NVIDIA/ansible-role-nvidia-driver#44", "NVIDIA/ansible-role-nvidia-driver#51"),
        "a run of nvidia_driver writes the blacklist and builds the initramfs anew; then reboot "
        "when no job runs",
        ("provision apply --limit {host} --tags nvidia_driver", "sudo systemctl reboot"),
        (
            r"The Nouveau kernel driver is currently in use",
            r"NVRM: .*nouveau",
        ),
        "",
    ),
    Case(
        "nouveau-initramfs",
        "nouveau is blacklisted, but the initramfs is from before that and brings it up at boot",
        ("NVIDIA/ansible-role-nvidia-driver#44", "Azure/azhpc-images#523"),
        "build the initramfs anew; nouveau that is loaded already goes with a reboot",
        ("sudo update-initramfs -u -k all",),
        (),
        "builds these initramfs anew, each kept in /var/backups/provision-doctor before",
    ),
    Case(
        "headers-missing",
        "the headers of a kernel are missing, so that no module can be built for it",
        (
            "NVIDIA/ansible-role-nvidia-driver#20",
            "GoogleCloudPlatform/compute-gpu-installation#10",
            "GoogleCloudPlatform/compute-gpu-installation#25",
        ),
        "install them; where the archive no longer has them, install the current kernel with its "
        "headers and reboot into it",
        ("sudo apt-get install linux-headers-{kernel}",),
        (
            r"Your kernel headers for kernel (?P<kernel>\S+?) cannot be found",
            r"Module build for kernel (?P<kernel>\S+) was skipped since the.*headers",
            r"Unable to find the kernel source tree for the currently running kernel",
            r"Unable to locate package linux-headers-(?P<kernel>\S+)",
        ),
        RUN + " where the archive has the headers",
    ),
    Case(
        "headers-metapackage",
        "the next kernel will come without headers, and so without the driver",
        (
            "GoogleCloudPlatform/compute-gpu-installation#10",
            "GoogleCloudPlatform/compute-gpu-installation#25",
        ),
        "install the headers' metapackage beside the kernel's: it brings the headers of each "
        "kernel that an upgrade brings",
        ("sudo apt-get install {headers}",),
        (),
        "",
    ),
    Case(
        "driver-gone-after-kernel",
        "the running kernel has no NVIDIA module; the one for another kernel is there",
        (
            "GoogleCloudPlatform/compute-gpu-installation#10",
            "GoogleCloudPlatform/compute-gpu-installation#25",
        ),
        "build the module for this kernel; with the headers there, a run of nvidia_driver does it",
        ("sudo dkms autoinstall -k {kernel}",),
        (
            r"modprobe: FATAL: Module nvidia\S* not found in directory "
            r"/lib/modules/(?P<kernel>\S+)",
        ),
        RUN,
    ),
    Case(
        "dkms-gpl-symbol",
        "this kernel reserves a symbol for GPL modules that this driver uses",
        ("GoogleCloudPlatform/compute-gpu-installation#33",),
        "this driver can't be built for this kernel: take a newer release of the driver's branch "
        "(provision lock --upgrade nvidia_driver), or boot the kernel before",
        ("provision lock --upgrade nvidia_driver",),
        (
            r"(?:FATAL|ERROR): modpost: GPL-incompatible module (?P<module>\S+) uses GPL-only "
            r"symbol .(?P<symbol>\w+).",
        ),
        "",
    ),
    Case(
        "dkms-compiler",
        "the kernel was built by another gcc than the one that builds the module",
        ("GoogleCloudPlatform/compute-gpu-installation#34", "pop-os/pop#3117"),
        "install the gcc that the kernel was built by, then build again",
        ("sudo apt-get install gcc-{gcc}", "sudo dkms autoinstall -k {kernel}"),
        (
            r"The kernel was built by: +\S*gcc(?:-| \([^)]*\) )(?P<gcc>\d+)"
            r"[\s\S]*?unrecognized command.line option",
            r"gcc\S*: error: unrecognized command.line option .-(?:ftrivial-auto-var-init"
            r"|fmin-function-alignment|mharden-sls)",
        ),
        "",
    ),
    Case(
        "dkms-failed",
        "DKMS could not build the driver's module",
        (
            "NVIDIA/ansible-role-nvidia-driver#20",
            "GoogleCloudPlatform/compute-gpu-installation#33",
        ),
        "the compiler's line says why; a driver that is older than the kernel needs a newer "
        "release of its branch",
        ("sudo dkms autoinstall -k {kernel}", "provision lock --upgrade nvidia_driver"),
        (
            r"Bad return status for module build on kernel: (?P<kernel>\S+)",
            r"Building module:.*\(bad exit status: \d+\)",
            r"[\w./+-]{1,200}\.[ch]:\d+:\d+: (?:fatal )?error: ",
            r"ERROR: Unable to load the kernel module 'nvidia\.ko'",
        ),
        "",
    ),
    Case(
        "secure-boot",
        "Secure Boot is on, and the kernel refuses the driver's module: no trusted key signs it",
        (
            "GoogleCloudDataproc/initialization-actions#933",
            "NVIDIA/gpu-operator#1726",
            "MicrosoftDocs/azure-docs#111536",
        ),
        "on Ubuntu take the modules that Canonical signs (linux-modules-nvidia-<branch>-server-"
        "<flavour>); elsewhere enrol DKMS's key, which asks at the console on the next boot and "
        "can't be done over ssh, or switch Secure Boot off in the firmware",
        ("sudo mokutil --import {certificate}",),
        (
            r"Loading of (?:unsigned )?module (?:with unavailable key )?is rejected",
            r"could not insert 'nvidia\S*': (?:Required key not available|Key was rejected by "
            r"service|Operation not permitted)",
            r"Lockdown: \S+: unsigned module loading is restricted",
            r"PKCS#7 signature not signed with a trusted key",
        ),
        "",
    ),
    Case(
        "driver-silent",
        "the driver does not answer, and none of the reasons known here is seen",
        ("NVIDIA/ansible-role-nvidia-driver#20",),
        "these tell why: whether the module is built for the running kernel, and what the kernel "
        "said when it was loaded",
        ("dkms status", "sudo modprobe nvidia", "sudo dmesg | grep -iE 'nvrm|nvidia'"),
        (
            r"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver",
            r"Could not load dynamic library 'libcuda\.so\.1'",
            r"failed call to cuInit: CUDA_ERROR_(?!NO_DEVICE|SYSTEM_DRIVER)\w+",
        ),
        "",
    ),
    Case(
        "transitional-branch",
        "a package named after one driver branch contains another",
        ("xnvme/aisio#67", "dstackai/dstack#3967"),
        "Ubuntu turns the packages of a branch that has ended into empty ones that bring the "
        "next: take the branch that is there into the lock, or one that is still served",
        ("apt-cache policy {package}", "provision lock --upgrade nvidia_driver"),
        (
            r"(?:Setting up|Unpacking) (?P<package>nvidia-driver-(?P<branch>\d{3})\S*) "
            r"(?:\S+ )?\((?:\d+:)?(?!(?P=branch)\.)\d{3}\.[^)]*\)",
            # in a line of dpkg -l or apt-cache search, or in the one below, as apt search has it
            r"(?P<package>nvidia-driver-\d{3}(?:-server|-open)*)[/ ][^\n]{0,300}(?:\n +)?"
            r"Transitional package for nvidia-driver-\d{3}",
        ),
        "",
    ),
    Case(
        "fabric-manager",
        "fabric manager and the driver are of different versions: NVSwitch machines have no GPUs",
        ("NVIDIA/gpu-operator#544", "Azure/azhpc-images#86"),
        "install the very version of the driver, and hold the two together",
        (
            "sudo apt-get install '{package}={driver}-*'",
            "sudo apt-mark hold {package}",
        ),
        (
            r"fabric manager NVIDIA GPU driver interface version (?P<fabric>\S+) do(?:es)?n't "
            r"match with driver version (?P<driver>[\d.]*\d)",
        ),
        "",
    ),
)
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


def _driver(facts: Facts) -> str | None:
    """The driver's version: the module's, else the libraries', else the packages'; or None."""
    packages, names = sorted(facts["driver_packages"].items()), ("libcuda1", "libnvidia-compute")
    packaged = [look.upstream(version) for name, version in packages if name.startswith(names)]
    version: str | None = facts["loaded"] or facts["library"] or next(iter(packaged), None)
    return version


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
    row = (facts["row"] or {}).get("nvidia_driver") or {}
    back = facts["loaded"] is not None and facts["loaded"] == row.get("version")
    return run_of("nvidia_driver")(facts, clues) if back else {}


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
