"""The host of a fault: its disk, how it is damaged before the run, and what may be left behind."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import fault_schedule as drawn
from fault_schedule import Fault

from provision import locallab
from provision.locallab import gpu, image
from provision.locallab.machine import Podman, cache_directory
from provision.locallab.owner import is_alive

PLATFORM = "debian11"


# Sparse: it holds what is written to it, about 10 GB with everything installed.
DISK_SIZE = 20 << 30


# Top folders on the host's own disk: those that apt, dpkg, pip and cuDNN write to.
ON_DISK = ("usr", "var", "opt")


# Packages whose removal does not remove nvidia-cuda-dev (1.5 GB unpacked) too.
LEAVES = {"libnvvm4", "nvidia-cuda-toolkit", "nvidia-opencl-dev", "nvidia-profiler"}


# Wheels that are slow to reinstall, and never picked.
BIG_WHEELS = {"tensorflow", "libclang", "tensorflow-io-gcs-filesystem", "setuptools"}


_print_lock = threading.Lock()


def say(text: str) -> None:
    with _print_lock:
        print(text, flush=True)


class Disk:
    """A file system in a sparse file, so that filling it fills nothing else."""

    def __init__(self, podman: Podman, directory: Path) -> None:
        self.podman = podman
        self.mount = directory / "disk"
        self._file = directory / "disk.img"

    def make(self) -> None:
        """An empty disk with the image's own /usr, /var and /opt; raises MachineError."""
        self.mount.mkdir(parents=True)
        with self._file.open("wb") as stream:
            stream.truncate(DISK_SIZE)
        as_root = self.podman.as_root
        as_root("mkfs.ext4", "-q", "-m", "0", str(self._file))
        as_root("mount", "-o", "loop,discard,noatime", str(self._file), str(self.mount))
        # The mount keeps the file's content until it is unmounted, even by another process.
        self._file.unlink()
        base = image.ensure(self.podman, PLATFORM, cache_directory(), say)
        where = self.podman.call("image", "mount", base).split()[-1]
        try:
            paths = [str(Path(where, name)) for name in ON_DISK]
            as_root("cp", "--archive", *paths, str(self.mount))
        finally:
            self.podman.run("image", "unmount", base)
        # The lab installs these under the image's /usr, which this disk hides.
        libraries = self.mount / gpu.DIRECTORY.lstrip("/")
        with tempfile.TemporaryDirectory() as place:
            for soname, data in gpu.compile_libraries(cache_directory()).items():
                Path(place, soname).write_bytes(data)
                as_root("install", "-D", str(Path(place, soname)), str(libraries / soname))

    @property
    def volumes(self) -> list[str]:
        return [f"{self.mount / name}:/{name}" for name in ON_DISK]

    def remove(self) -> None:
        unmount(self.podman, self.mount)
        self._file.unlink(missing_ok=True)


def unmount(podman: Podman, mount: Path) -> None:
    if os.path.ismount(mount):
        podman.as_root("umount", "--lazy", str(mount))
    with contextlib.suppress(OSError):
        mount.rmdir()


def place() -> Path:
    """The folder of this user's harnesses, each with a directory of its own for its projects."""
    return cache_directory().parent / "faults"


def sweep(podman: Podman) -> None:
    """Removes the hosts, mounts and files of killed harnesses."""
    locallab.sweep()
    for directory in place().glob("*/"):
        try:
            who = (directory / "owner").read_text("ascii")
        except OSError:
            continue
        if not is_alive(who):
            for mount in directory.glob("*/disk"):
                unmount(podman, mount)
            shutil.rmtree(directory, ignore_errors=True)


WOUND_SCRIPTS = {
    "driver-few": "purge $PICKED",
    "driver-all": "purge $PICKED",
    "driver-files": "rm -f /etc/apt/preferences.d/provision-nvidia-driver"
    " /etc/apt/apt.conf.d/51provision-gpu-stack",
    "cuda-few": "purge $PICKED",
    "cuda-many": "purge $PICKED",
    "cuda-all": "purge $PICKED",
    "cuda-holds": "apt-mark unhold $(apt-mark showhold) >/dev/null",
    "cudnn-gone": "rm -rf /opt/nvidia/cudnn/*-cuda*",
    "cudnn-files": 'for library in $(find /opt/nvidia/cudnn/*-cuda* -name "libcudnn_*.so.*" -type f'
    ' | sort | head -2); do : > "$library"; done',
    "cudnn-link": "rm -f /opt/nvidia/cudnn/current",
    "env-gone": "rm -f /etc/profile.d/provision-gpu.sh /etc/provision/gpu.env"
    " /etc/systemd/system.conf.d/50-provision-gpu.conf; : > /etc/environment",
    "wheels": "/opt/tensorflow/current/bin/python -m pip uninstall --yes --quiet $PICKED",
    "venv-gone": "rm -rf /opt/tensorflow/2*",
    "venv-away": "mv /opt/tensorflow/2* /opt/away",
    "driver-leaf": "purge $PICKED",
    "cuda-libraries": "dpkg --purge --force-depends $PICKED >/dev/null",
    "module-uninstalled": "for built in /var/lib/dkms/nvidia-current/[0-9]*/*/x86_64; do"
    ' version=$(basename "$(dirname "$(dirname "$built")")");'
    ' /usr/sbin/dkms uninstall -m nvidia-current -v "$version"'
    ' -k "$(basename "$(dirname "$built")")" >/dev/null; done',
    "blacklist-gone": "rm -f /etc/modprobe.d/provision-nouveau.conf",
    "archives": "apt-get clean",
    "lists": "rm -rf /var/lib/apt/lists/*",
    "sources": "rm -f /etc/apt/sources.list.d/provision-*",
    "pins": "rm -f /etc/apt/preferences.d/provision-*",
}


PROLOGUE = r"""
export DEBIAN_FRONTEND=noninteractive
# With all packages that depend on them; by dpkg, because apt would install a substitute.
purge() {
    local output dependants
    for _ in 1 2 3 4 5 6; do
        output=$(LC_ALL=C dpkg --purge "$@" 2>&1) && return
        dependants=$(sed -n 's/^ *\([^ :]*\)[^ ]* depends on .*/\1/p' <<< "$output" | sort -u)
        set -- "$@" $dependants
    done
    echo "$output"
    return 1
}
rm -rf /opt/away
"""


# Prints processes, temporary files and broken packages that a fault and its cure left behind.
LEFTOVERS = r"""
ps -eo comm=,args= | grep -E '^(apt-get|dpkg|provision-[a-z]+) |-m pip install' \
    | grep -vE '^(bash|grep) ' || true
find /var/tmp /tmp -maxdepth 1 \( -name 'provision-*' -o -name 'pip-*' \)
find /opt/nvidia /opt/tensorflow -maxdepth 2 \( -name '.staging-*' -o -name '*.backup-*' \
    -o -name '*.new' -o -name '.ansible*' \)
find /opt/tensorflow -mindepth 1 -maxdepth 1 -not -name current -not -name '2.9*' -not -name '.*'
find /opt/tensorflow -maxdepth 1 \( -name '.building-*' -o -name '.re[am]*-*' \)
find /opt/tensorflow -mindepth 2 -maxdepth 2 -name 'pip-*'
find /opt/tensorflow/current/lib/python3*/site-packages -maxdepth 1 -name '~*'
find /var/lib/dpkg/updates -type f
dpkg --audit
"""


def wounds(fault: Fault, names: Mapping[str, Sequence[str]]) -> str:
    """The shell script that damages the host before the fault. Pure."""
    lines = [PROLOGUE]
    for name in (*fault.start, *fault.riders):
        picked = ""
        wound = drawn.EVERY_WOUND.get(name)
        if wound is not None and wound.pick:
            picked = shlex.join(item for item in fault.picked if item in names[wound.pick])
        lines.append(WOUND_SCRIPTS[name].replace("$PICKED", picked))
    return "\n".join(lines)


# In the first two ssh keeps working, as if only the mirrors were unreachable.
NETWORK_RULES = {
    "refused": """*filter
-A OUTPUT -o lo -j ACCEPT
-A OUTPUT -p tcp --sport 22 -j ACCEPT
-A OUTPUT -p tcp -j REJECT --reject-with tcp-reset
-A OUTPUT -j REJECT
COMMIT
""",
    "silent": """*filter
-A OUTPUT -o lo -j ACCEPT
-A OUTPUT -p tcp --sport 22 -j ACCEPT
-A OUTPUT -j DROP
COMMIT
""",
    "ssh": """*filter
-A INPUT -i lo -j ACCEPT
-A OUTPUT -o lo -j ACCEPT
-A INPUT -p tcp -j REJECT --reject-with tcp-reset
-A OUTPUT -p tcp --tcp-flags RST RST -j ACCEPT
-A OUTPUT -j DROP
COMMIT
""",
    "whole": """*filter
COMMIT
""",
}
