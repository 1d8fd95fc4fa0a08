"""Whether this machine's hardware acceleration carries a kernel.

That /dev/kvm is there and creates machines proves nothing: where it is itself made in software, a
stock kernel hangs in it. So one kernel is booted with a limit, once for each boot of this machine,
version of qemu and kernel, and what it said is kept.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from provision.locallab.machine import Progress, ended, locked, sha256_of, write_atomically
from provision.locallab.owner import boot

DEVICE = Path("/dev/kvm")
# A kernel without a root file system says this within three seconds on real hardware.
LIMIT = 25.0
SAID = b"Unable to mount root fs"


@dataclass(frozen=True)
class Acceleration:
    """`name` of qemu's accelerator: kvm, or tcg (emulation) with the reason."""

    name: str
    reason: str = ""

    @property
    def emulated(self) -> bool:
        return self.name == "tcg"

    def arguments(self) -> list[str]:
        """qemu's options. The emulated processor has AVX, which TensorFlow needs.

        It keeps its SVM: with "max,-svm" qemu 7.2 did not boot a Debian 12 machine (two tries).
        """
        if self.emulated:
            return ["-accel", "tcg,thread=multi,tb-size=1024", "-cpu", "max"]
        return ["-accel", self.name, "-cpu", "host"]


def find(kernel: Path, cache: Path, progress: Progress, device: Path = DEVICE) -> Acceleration:
    """The accelerator to use. A lie of the machine's costs one try of `LIMIT` seconds a boot."""
    if not device.exists():
        return Acceleration("tcg", f"{device} is missing")
    if not os.access(device, os.R_OK | os.W_OK):
        return Acceleration("tcg", f"this user may not open {device} (group kvm)")
    key = f"{boot()} {_version()} {sha256_of(kernel)}"
    kept = cache / "acceleration.json"
    with locked(cache / "acceleration.lock"):
        try:
            record = json.loads(kept.read_text("utf-8"))
            if record["key"] == key:
                return Acceleration(record["name"], record["reason"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        progress("Booting a kernel to see whether hardware acceleration carries one")
        acceleration = _tried(kernel)
        record = {"key": key, "name": acceleration.name, "reason": acceleration.reason}
        write_atomically(kept, json.dumps(record).encode())
    return acceleration


def _version() -> str:
    done = ended(["qemu-system-x86_64", "--version"], timeout=60)
    return done.stdout.decode("utf-8", "replace").splitlines()[0] if done.stdout else ""


def _tried(kernel: Path) -> Acceleration:
    """Boots `kernel` without a root file system under KVM."""
    argv = [
        "qemu-system-x86_64", *Acceleration("kvm").arguments(),
        "-machine", "q35", "-m", "512", "-nodefaults", "-display", "none", "-no-reboot",
        "-serial", "stdio", "-kernel", str(kernel), "-append", "console=ttyS0 panic=-1",
    ]  # fmt: skip
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        return Acceleration("tcg", f"a kernel did not boot under KVM within {LIMIT:.0f} s")
    if SAID in done.stdout:
        return Acceleration("kvm")
    words = done.stderr.decode("utf-8", "replace").strip().splitlines()
    reason = f": {words[-1].removeprefix('qemu-system-x86_64: ')[:80]}" if words else ""
    return Acceleration("tcg", "a kernel did not boot under KVM" + reason)
