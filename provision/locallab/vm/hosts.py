"""Makes a lab's hosts as virtual machines: what they need, their base, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from provision.errors import InputError
from provision.locallab.host import Recipe, Shape, archive, host_files
from provision.locallab.machine import Podman, Progress
from provision.locallab.vm import accel, card, disk, guest, needs
from provision.locallab.vm.guest import BOOT_TIMEOUT, Guest, Virtual


def require(virtual: Virtual, hosts: int, cached: Path) -> None:
    """Raises MachineError with what this machine lacks for so many virtual machines.

    Raises InputError for a certificate that is missing, or one without Secure Boot.
    """
    for path in virtual.enrol:
        if not path.is_file():
            raise InputError("no such certificate to enrol", where=str(path))
    if virtual.enrol and not virtual.secure_boot:
        raise InputError(
            "a key is enrolled for Secure Boot, which is off",
            got=str(virtual.enrol[0]),
            hint="add --secure-boot",
        )
    needs.require(
        hosts=hosts, memory_mib=virtual.memory_mib, secure_boot=virtual.secure_boot,
        cache=cached, enrol=bool(virtual.enrol),
    )  # fmt: skip


def base(podman: Podman, shape: Shape, cached: Path, progress: Progress) -> Path:
    """The path of the verified disk that the hosts start from.

    Raises InputError where the shape names a disk that was changed or cut short.
    """
    chosen = shape.virtual.disk if shape.virtual else None
    if chosen is None:
        return disk.ensure(podman, shape.platform, cached, progress).path
    if disk.read(chosen) is None:
        raise InputError("this disk is not as it was built", where=str(chosen))
    return chosen


def start(recipe: Recipe, name: str, progress: Progress) -> Guest:
    """Makes a host and powers it on; it boots on. Raises MachineError where qemu does not start."""
    shape = recipe.shape
    virtual = shape.virtual or Virtual()
    path = Path(recipe.base)
    acceleration = accel.find(path.with_suffix(".vmlinuz"), recipe.cached, progress)
    progress(
        f"Starting {name}"
        + (f" under emulation: {acceleration.reason}" if acceleration.emulated else "")
    )
    cards = shape.gpus if shape.with_gpu else 0
    machine = Guest(
        folder=recipe.cached / "machines" / f"{recipe.lab}-{name}-{recipe.run}",
        labels={**recipe.labels, "lab": recipe.lab, "run": recipe.run, "host": name},
        base=recipe.base,
        port=guest.free_port(),
        virtual=virtual,
        acceleration=acceleration,
        card=card.compile_card(recipe.cached, shape.gpu_name) if cards else None,
        cards=cards,
    )
    files = host_files(recipe.state / "hosts" / name, recipe.public, None, {}, recipe.proxy)
    # A machine makes its own at its first boot, and holds the file until then.
    files.pop("etc/machine-id")
    files["etc/hostname"] = (f"{name}\n".encode(), 0o644, 0)
    files["etc/hosts"] = (f"127.0.0.1 localhost\n127.0.1.1 {name}\n".encode(), 0o644, 0)
    guest.create(machine, archive(files))
    machine.start()
    return machine


def patience(machine: Guest) -> tuple[float, Callable[[], None]]:
    """How long to wait for SSH, and what notices that it will never answer."""
    return BOOT_TIMEOUT[machine.acceleration.name], machine.check
