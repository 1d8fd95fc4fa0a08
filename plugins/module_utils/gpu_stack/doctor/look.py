"""What the doctor reads of a host beside the ordinary look and the preflight's.

Read only when somebody asks what is wrong: it runs programs (nvidia-smi, apt-get check, TensorFlow
itself), reads logs and lists directories, which would cost every converged host seconds.
"""

from __future__ import annotations

import os
import re
import stat

from .. import host_rules
from ..components import nvidia_driver
from ..components.nvidia_driver import driver_method, signing
from ..host import apt, platform
from ..host.context import SILENT
from ..type_checking import TYPE_CHECKING
from . import keys, libraries

if TYPE_CHECKING:
    from typing import Any, Sequence

    from ..host.context import Context
    from ..shapes import Facts

# Programs that hang on a sick driver are ended by timeout(1): after so many seconds.
PATIENCE = "90"
# What timeout(1) returns then; the second where it had to kill the program.
CUT_OFF = (SILENT, 137)
DMESG = "dmesg"
ASK_TENSORFLOW = (
    "import tensorflow as tf; print('GPUs:', len(tf.config.list_physical_devices('GPU')))"
)
# The end of a log is what counts, and a log may be gigabytes.
TAIL = 256 * 1024

DRIVER = re.compile(r"^(lib)?nvidia-|^libcuda1$|^cuda-drivers")
# The branch that a driver package of Ubuntu's or NVIDIA's is named after.
BRANCH = re.compile(r"^(?:(?:lib)?nvidia-[a-z-]+|cuda-drivers)-(\d{3})(?:-server|-open|-no-dkms)*$")


def upstream(version: str) -> str:
    """ "470.256.02" of the package version "1:470.256.02-2~deb11u1"."""
    return version.rpartition(":")[2].partition("-")[0]


def _tail(context: Context, path: str) -> str:
    file = context.open(path)
    if file is None:
        return ""
    with file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - TAIL))
        return file.read().decode("utf-8", "replace")


# the driver


def library(context: Context) -> str | None:
    """The version of the driver's libraries, by the file that the loader opens; None if unknown."""
    for soname in ("libcuda.so.1", "libnvidia-ml.so.1"):
        path = context.loader.get(soname)
        real = path and context.resolve(path)
        match = real and re.search(r"\.so\.(\d{3}\.[\d.]+)$", real)
        if match:
            return match.group(1)
    return None


def moved(context: Context) -> list[dict[str, Any]]:
    """[{when, package, old, new}] of driver packages that unattended-upgrades has moved."""
    packages = []
    for stanza in _tail(context, "/var/log/apt/history.log").split("\n\n"):
        if not re.search(r"^Commandline: \S*unattended-upgrade", stanza, re.M):
            continue
        when = re.search(r"^Start-Date: (\S+)", stanza, re.M)
        upgraded = re.search(r"^Upgrade: (.*)$", stanza, re.M)
        for match in re.finditer(
            r"(\S+?)(?::\w+)? \((\S+), (\S+?)\)", upgraded.group(1) if upgraded else ""
        ):
            if DRIVER.match(match.group(1)):
                packages.append(
                    {
                        "when": when.group(1) if when else "",
                        "package": match.group(1),
                        "old": match.group(2),
                        "new": match.group(3),
                    }
                )
    return packages


def spared(context: Context) -> bool:
    """True where unattended-upgrades is told to leave the driver alone."""
    for path in context.glob("/etc/apt/apt.conf.d/*"):
        text = re.sub(r"^\s*(//|#).*$", "", context.read(path) or "", flags=re.M)
        block = re.search(r"Package-Blacklist\s*\{([^}]*)\}", text)
        if block is not None and "nvidia" in block.group(1):
            return True
    return False


def blacklists(context: Context) -> list[str]:
    """The files that keep nouveau from being loaded."""
    paths = []
    for directory in ("/etc/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d"):
        for path in context.glob(directory + "/*.conf"):
            if re.search(r"^\s*blacklist\s+nouveau\b", context.read(path) or "", re.M):
                paths.append(path)
    return paths


def modules(context: Context) -> dict[str, bool]:
    """{kernel: True where it has an NVIDIA module} of every kernel with a directory of modules."""
    kernels = {}
    for directory in context.glob("/lib/modules/*"):
        paths = []
        for place in ("updates", "updates/dkms", "extra", "kernel/drivers/video", "kernel/nvidia*"):
            paths += context.glob("{0}/{1}/nvidia*.ko*".format(directory, place))
        kernels[directory.rpartition("/")[2]] = bool(paths)
    return kernels


def builds(context: Context) -> list[dict[str, Any]]:
    """[{path, kernel, text}] of the logs of builds of NVIDIA's module."""
    logs = []
    paths = context.glob("/var/lib/dkms/nvidia*/*/build/make.log")
    for path in paths + context.glob("/var/lib/dkms/nvidia*/*/*/*/log/make.log"):
        text = context.read(path) or ""
        logs.append({"path": path, "kernel": driver_method.kernel_of_log(text), "text": text})
    return logs


def metapackages(context: Context) -> list[str]:
    """The kernel's metapackages whose headers' counterpart is not installed."""
    names = [re.sub(r"^linux-image-", "", n) for n in context.packages if _is_meta(n)]
    return [name for name in sorted(names) if "linux-headers-" + name not in context.packages]


def _is_meta(name: str) -> bool:
    return re.match(r"linux-image-(?!\d)(?!.*(unsigned|dbg))", name) is not None


# libraries


# apt


def preferences(context: Context) -> list[dict[str, Any]]:
    """[{file, pin, priority}] by which all of NVIDIA's repository is preferred."""
    pins = []
    for path in context.glob("/etc/apt/preferences.d/*"):
        for stanza in apt.stanzas(context.read(path) or ""):
            pin, priority = stanza.get("pin", ""), stanza.get("pin-priority", "0")
            ours = re.search(r"l=NVIDIA CUDA|origin \W?developer\.download\.nvidia", pin)
            if ours and stanza.get("package") == "*" and priority.strip("-").isdigit():
                pins.append({"file": path, "pin": pin, "priority": int(priority)})
    return pins


def gone_repositories(context: Context) -> list[dict[str, Any]]:
    """[{file, path, package}] of entries for a local CUDA repository that is not there."""
    repositories = []
    for entry in context.apt_entries:
        for uri in entry["uris"]:
            path = re.sub(r"^(file|copy):/*", "/", uri)
            local = uri.startswith(("file:", "copy:")) and "/cuda-repo-" in path
            if local and not context.exists(path):
                repositories.append({"file": entry["file"], "path": path, "package": path[5:]})
    return repositories


def held(context: Context) -> list[str]:
    """Packages on hold that belong to no GPU stack."""
    packages = context.packages
    return sorted(
        n for n in packages if packages[n]["want"] == "hold" and not libraries.STACK.search(n)
    )


# containers


def unlinked(context: Context) -> list[dict[str, str]]:
    """[{path, link}] of NVIDIA's devices that /dev/char does not know by their number."""
    devices = []
    paths = context.glob("/dev/nvidia*") + context.glob("/dev/nvidia-caps/*")
    for path in paths:
        info = context.stat(path)
        if info is None or not stat.S_ISCHR(info.st_mode):
            continue
        link = "/dev/char/{0}:{1}".format(os.major(info.st_rdev), os.minor(info.st_rdev))
        if context.lstat(link) is None:
            devices.append({"path": path, "link": link})
    return devices


# what programs say


def said(context: Context, facts: Facts, logs: Sequence[str] | None) -> dict[str, str]:
    """{who said it: text} of the programs that know, and of the logs that the user names."""
    texts = {}
    # Without a GPU it has nothing to say but that.
    answers = [("nvidia-smi", ["nvidia-smi"])] if facts["gpus"] else []
    check = ["apt-get", "check", "-q", "-o", "Debug::NoLocking=1"]
    check += ["-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache="]
    answers.append(("apt-get check", check))
    state = facts["state"].get("tensorflow") or {}
    if state.get("interpreter") and state.get("version"):
        root = context.options.get("tensorflow_root") or "/opt/tensorflow"
        python = root.rstrip("/") + "/current/bin/python"
        answers.append(("TensorFlow", [python, "-I", "-c", ASK_TENSORFLOW]))
    hangs = (facts.get("preflight") or {}).get("driver_hangs")
    if hangs:  # whoever asks it again waits again
        texts["nvidia-smi"], answers = hangs, [("apt-get check", check)]
    for who, argv in answers:
        result = context.run(["timeout", "--kill-after=5", PATIENCE, *argv])
        # 127 of timeout, and of ours: there is no such program.
        if result.rc != 127:
            texts[who] = result.out + result.err
        if result.rc in CUT_OFF:
            texts[who] += "\n{0} did not answer within {1} s\n".format(who, PATIENCE)
    loaded = (facts["state"].get("nvidia_driver") or {}).get("loaded")
    if facts["gpus"] and not facts["container"] and loaded is None:
        texts[DMESG] = context.run([DMESG]).out
    for path in logs or []:
        texts[path] = _tail(context, path)
    return texts


def look(context: Context, facts: Facts, logs: Sequence[str] | None = ()) -> dict[str, Any]:
    """Everything the cases ask for, in one pass; `facts` is the ordinary look."""
    driver = facts["state"].get("nvidia_driver") or {}
    lists = blacklists(context)
    return {
        "library": library(context),
        "loaded": driver.get("loaded"),
        "moved": moved(context),
        "spared": spared(context),
        "blacklists": lists,
        "initramfs": nvidia_driver.older_initramfs(context, lists),
        "modules": modules(context),
        "builds": builds(context),
        "dkms": sorted(n for n in context.packages if re.search(r"nvidia.*dkms", n)),
        "metapackages": metapackages(context),
        "certificate": signing.look(context)["certificate"] or None,
        "driver_packages": {
            name: package["version"]
            for name, package in context.packages.items()
            if DRIVER.match(name)
        },
        "fabric": {
            name: upstream(package["version"])
            for name, package in context.packages.items()
            if re.match(r"nvidia-fabric-?manager(-\d+)?$", name)
        },
        "keys": keys.look(context),
        "settled": keys.settled(context, host_rules.signed_by_conflicts(context)),
        "sqv": context.exists("/usr/bin/sqv"),
        "apt_key": context.exists("/usr/bin/apt-key"),
        "preferences": preferences(context),
        "gone_repositories": gone_repositories(context),
        "held": held(context),
        "disguised": libraries.disguised(context),
        "cudnn": libraries.cudnn(context),
        "pages": libraries.pages(context),
        "unlinked": unlinked(context),
        "cgroupfs": "native.cgroupdriver=cgroupfs"
        in (context.read("/etc/docker/daemon.json") or ""),
        "distribution": platform.identity(facts["platform"]),
        "said": said(context, facts, logs),
    }
