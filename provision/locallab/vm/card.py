"""The GPU on a virtual machine's bus: a PCI function with NVIDIA's ids and nothing behind it.

With it nouveau loads by itself, as on a server with a card, and NVIDIA's module finds a device and
refuses it. No device of qemu's has ids that can be set, so card.c adds one to the unmodified
program: it is compiled here and preloaded.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from importlib import resources
from pathlib import Path

from provision.errors import MachineError
from provision.locallab import gpu
from provision.locallab.machine import ended, locked

FLAGS = (
    "-std=c99", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", "-s",
)  # fmt: skip
# PCI class 03.02, "3D controller": what NVIDIA's data centre cards are.
CLASS = 0x0302
CURE = "sudo apt-get install gcc libc6-dev"


def compile_card(cache: Path, model: str) -> Path:
    """The library to preload into qemu for one GPU model, compiled once and kept in `cache`.

    Raises InputError for an unknown model, MachineError where the compiler is missing or fails.
    """
    row = gpu.model(model)
    source = (resources.files(__package__) / "card.c").read_bytes()
    defines = [
        f"-DDEVICE=0x{row.device:04x}",
        f"-DSUBSYSTEM=0x{row.subsystem:04x}",
        f"-DCLASS=0x{CLASS:04x}",
    ]
    digest = hashlib.sha256(repr((source, FLAGS, defines)).encode()).hexdigest()[:12]
    library = cache / f"card-{digest}.so"
    with locked(cache / "card.lock"):
        if library.exists():
            return library
        with tempfile.TemporaryDirectory(dir=cache) as work:
            Path(work, "card.c").write_bytes(source)
            argv = ["gcc", *FLAGS, *defines, "-o", "card.so", "card.c"]
            done = ended(argv, cwd=work, timeout=120, hint=CURE)
            if done.returncode:
                raise MachineError(
                    "gcc could not compile card.c",
                    got=done.stderr.decode("utf-8", "replace").strip()[-2000:],
                    hint=CURE,
                )
            os.rename(Path(work, "card.so"), library)
    return library
