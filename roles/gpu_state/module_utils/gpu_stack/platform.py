"""What kind of machine this is: the part of the look that picks the lock's row.

No facts are gathered anywhere else in a run, so this reads what `setup` would, and only the few
files that matter.
"""

import os

SIMULATED = "/etc/gpu-simulated"
PCI = "/sys/bus/pci/devices"

NVIDIA = "0x10de"
# PCI classes: VGA controller (a GPU with display) and 3D controller (a compute GPU).
GPU_CLASSES = ("0x0300", "0x0302")


def os_release(text):
    """os-release(5) as a dict."""
    found = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if not equals or name.startswith("#"):
            continue
        value = value.strip()
        if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        found[name] = value
    return found


def look(context):
    """{distribution, release, architecture, kernel, pretty}, as the lock's rows name them."""
    release = os_release(
        context.read("/etc/os-release") or context.read("/usr/lib/os-release") or ""
    )
    machine = os.uname()
    if context.root == "/":
        kernel, architecture = machine[2], machine[4]
    else:
        kernel = (context.read("/proc/sys/kernel/osrelease") or machine[2]).strip()
        architecture = (context.read("/proc/sys/kernel/arch") or machine[4]).strip()
    return {
        "distribution": release.get("ID", "unknown"),
        "release": release.get("VERSION_ID", ""),
        "architecture": architecture,
        "kernel": kernel,
        "pretty": release.get("PRETTY_NAME", "unknown"),
    }


def container(context):
    """True in a container, where no kernel module can be loaded.

    systemd writes /run/systemd/container in containers it runs in; podman and docker leave a file
    of their own; a virtual machine has none of them.
    """
    if context.read("/run/systemd/container"):
        return True
    if context.exists("/run/.containerenv") or context.exists("/.dockerenv"):
        return True
    environment = context.read_bytes("/proc/1/environ") or b""
    return any(part.startswith(b"container=") for part in environment.split(b"\0"))


def simulated_gpu(context):
    """True on a host whose GPU is simulated: a label for reports, never a reason to do less."""
    return context.exists(SIMULATED)


def gpus(context):
    """NVIDIA's GPUs on the PCI bus: [{index, name, pci, device, class, usable}].

    The bus knows no names, and cannot say that a GPU is lost: `name` is None and `usable` True
    until NVML is asked, which the proof does.
    """
    found = []
    for address in context.listdir(PCI):
        base = "{0}/{1}/".format(PCI, address)
        if (context.read(base + "vendor") or "").strip().lower() != NVIDIA:
            continue
        kind = (context.read(base + "class") or "").strip().lower()
        if kind[:6] not in GPU_CLASSES:
            continue
        found.append(
            {
                "index": len(found),
                "name": None,
                "pci": address,
                "device": (context.read(base + "device") or "").strip().lower(),
                "class": kind,
                "usable": True,
            }
        )
    return found
