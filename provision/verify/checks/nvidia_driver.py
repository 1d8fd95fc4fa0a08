"""The driver: nvidia-smi, kernel module, libcuda and packages are the lock's."""

from __future__ import annotations

import collections

from .. import diagnose
from ..cures import CURES, DEEP, KERNEL_LOG, LOADER, PACKAGES, Cure
from .answers import gpu_devices, loaded_module, mig_gpus, reason, smi_rows, usable_gpus
from .check import AGAIN, Seen, Verdict, check, failed, not_applicable, passed
from .packages import judge_packages

CURES.update(
    {
        "nvidia_driver.answers": Cure(
            ("nvidia_driver", "gpu_env"), f"{KERNEL_LOG}; otherwise {DEEP}"
        ),
        "nvidia_driver.version": Cure(
            ("nvidia_driver",), "reboot the host: the old module is still loaded"
        ),
        "nvidia_driver.module": Cure(
            ("nvidia_driver",), "reboot the host; `dkms status` must show the module"
        ),
        "nvidia_driver.library": Cure(("nvidia_driver", "gpu_env"), LOADER),
        "nvidia_driver.packages": Cure(("nvidia_driver",), PACKAGES),
        "nvidia_driver.gpus": Cure(("nvidia_driver",), KERNEL_LOG),
    }
)


@check("nvidia_driver.answers", "nvidia-smi answers")
def nvidia_smi_answers(seen: Seen) -> Verdict:
    answer = seen.probe["nvidia_smi"]
    names = collections.Counter(row[1] for row in smi_rows(seen))
    if names:
        label = " (simulated GPU)" if seen.simulated else ""
        return passed(", ".join(f"{names[name]} x {name}" for name in sorted(names)) + label)
    output = answer["stdout"] + answer["stderr"]
    diagnosis = diagnose.nvidia_smi(answer["rc"], output)
    if seen.probe["module"].get("nouveau"):
        return failed(
            "nouveau is loaded and holds the GPU, so NVIDIA's module can't",
            "the role blacklists nouveau and rebuilds the initramfs; reboot the host",
            diagnosis.message,
        )
    if not seen.probe["pci"] and not seen.container:
        return failed(
            "there is no NVIDIA GPU on this host's PCI bus",
            "the card is not seated or not powered, is switched off in the firmware, or was not "
            "given to this virtual machine",
            diagnosis.message,
        )
    return failed(diagnosis)


@check("nvidia_driver.version", "The running driver is the locked version")
def nvidia_driver_version(seen: Seen) -> Verdict:
    locked = seen.row["nvidia_driver"]["version"]
    if seen.simulated:
        return not_applicable("the version nvidia-smi tells here is the simulation's own")
    rows = smi_rows(seen)
    if not rows:
        return not_applicable("nvidia-smi does not answer")
    versions = sorted({row[0] for row in rows})
    if versions == [locked]:
        return passed(locked)
    return failed(
        f"the driver in use is {', '.join(versions)}, the lock's is {locked}",
        "if the locked packages are installed, the old module is still loaded: reboot the host",
    )


@check("nvidia_driver.module", "The loaded kernel module is the locked version")
def nvidia_kernel_module(seen: Seen) -> Verdict:
    locked = seen.row["nvidia_driver"]["version"]
    loaded = loaded_module(seen)
    if loaded is None and seen.simulated:
        return not_applicable("a simulated GPU has no kernel module")
    if loaded is None and seen.container:
        return not_applicable("a container has no kernel module of its own")
    if loaded == locked:
        return passed(locked)
    if loaded is not None:
        return failed(
            f"module {loaded} is loaded, the lock's driver is {locked} "
            "(this ends in Driver/library version mismatch)",
            "reboot the host, so that the module of the installed version is loaded",
        )
    if seen.probe["module"].get("nouveau"):
        return failed(
            "nouveau is loaded instead of NVIDIA's module",
            "the role blacklists nouveau and rebuilds the initramfs; reboot the host",
        )
    kernel = seen.probe["platform"]["kernel"]
    return failed(
        "no NVIDIA module is loaded",
        f"`dkms status` must show it built for kernel {kernel}; `dmesg | grep -i nvidia` shows a "
        "refusal (Secure Boot, unknown GPU); otherwise reboot the host",
    )


@check("nvidia_driver.library", "libcuda.so.1 is the locked driver's")
def driver_library(seen: Seen) -> Verdict:
    locked, library = seen.row["nvidia_driver"]["version"], seen.probe["libcuda"]
    if library["loaded"] is None:
        return failed(f"libcuda.so.1 can't be loaded: {reason(library)}", AGAIN)
    if seen.simulated:
        return not_applicable(f"the simulation's own library answers ({library['real']})")
    if str(library["real"]).endswith(f".so.{locked}"):
        return passed(str(library["real"]))
    return failed(
        f"libcuda.so.1 is {library['real']}, not of driver {locked}",
        "another driver lies before the locked one: a .run installer's or a CUDA compat library",
    )


@check("nvidia_driver.packages", "The driver's packages are the locked versions")
def driver_packages(seen: Seen) -> Verdict:
    if seen.row["nvidia_driver"].get("source") == "runfile":
        return not_applicable("the driver came by NVIDIA's .run file, not as packages")
    groups = seen.row["nvidia_driver"].get("packages") or {}
    packages = dict(groups.get("userspace") or {})
    scope = seen.options.get("nvidia_driver_scope", "auto")
    if scope == "full" or (scope == "auto" and not seen.container):
        packages.update(groups.get("kernel") or {})
        if seen.options.get("nvidia_driver_profile") == "desktop":
            packages.update(groups.get("desktop") or {})
    # Canonical's signed modules have the kernel's version, and follow it.
    modules = [name for name in packages if name.startswith("linux-modules-nvidia-")]
    return judge_packages(seen, {name: packages[name] for name in packages if name not in modules})


@check("nvidia_driver.gpus", "Every GPU on the PCI bus answers")
def gpus_answer(seen: Seen) -> Verdict:
    # 0x0300: VGA controller; 0x0302: 3D controller. The rest are audio and USB functions.
    on_bus = [f for f in seen.probe["pci"] if f["class"][:6] in ("0x0300", "0x0302")]
    usable = usable_gpus(seen)
    if not smi_rows(seen) and usable == 0:
        return not_applicable("nvidia-smi does not answer")
    if not on_bus and usable and seen.container:
        return not_applicable("this container does not show its PCI bus")
    if usable == 0:
        return failed(
            f"the driver shows no GPU, the PCI bus has {len(on_bus)}",
            "`dmesg | grep -i nvrm` says why",
        )
    if usable < len(on_bus):
        shown = {gpu["pci"] for gpu in gpu_devices(seen)}
        dark = [f"{f['address']} ({f['device']})" for f in on_bus if f["address"] not in shown]
        return failed(
            f"{usable} of {len(on_bus)} GPUs answer; the driver does not show {', '.join(dark)}",
            "a GPU of another generation than this driver branch supports, a display card, one "
            "given to a virtual machine (vfio), or one that fell off the bus: "
            "`lspci -k -d 10de:` and `dmesg | grep -i xid`",
        )
    if usable > len(on_bus):
        return failed(
            f"the driver shows {usable} GPUs, the PCI bus only {len(on_bus)}",
            "the PCI tree this host shows is not the whole one (a container or a virtual machine)",
        )
    mig = mig_gpus(seen)
    return passed(f"{usable} GPUs" + (f", {mig} in MIG mode" if mig else ""))
