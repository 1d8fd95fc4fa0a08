"""The disk that virtual machines start from: a bootable Debian as a fresh install leaves it.

Built with mmdebstrap, mkfs and sfdisk into a file, without a loop device or a mount: an EFI system
partition with Debian's signed shim and GRUB, and an ext4 root. It is kept, verified by its SHA-256
before each use, and every host writes into an overlay of its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from provision.errors import InputError, MachineError
from provision.locallab import image
from provision.locallab.machine import (
    Podman,
    Progress,
    ended,
    locked,
    sha256_of,
    write_atomically,
)
from provision.locallab.vm.needs import program

SECTOR = 512
MIB = 2**20
EFI_START, EFI_SIZE = 1 * MIB, 64 * MIB
ROOT_START = EFI_START + EFI_SIZE
# Sparse: what a host can fill, CUDA, the driver's build and TensorFlow among it.
DISK_SIZE = 24 * 2**30
TIMEOUT = 900
# A build's own folder: the prefix, the process that builds.
WORK = "build-"

PACKAGES = (
    *image.PACKAGES,
    "linux-image-amd64",
    "grub-efi-amd64",
    "grub-efi-amd64-signed",
    "shim-signed",
    "mokutil",
    "initramfs-tools",
    "udev",
    "pciutils",
    "zstd",
)

# Runs on this machine at build; "$1" is the new root. What a container lacks a machine has, so the
# image's own CUSTOMIZE is followed by the network, the boot loader's settings, what an initramfs
# needs here (with all of Debian's drivers one takes eight minutes to make under emulation) and the
# unit that takes a host's own files (keys, name) from qemu at its first boot.
CUSTOMIZE = r"""
for unit in getty@tty1 systemd-udevd systemd-timesyncd; do
  chroot "$root" systemctl unmask "$unit" >/dev/null 2>&1 || true
done
printf '[Match]\nName=en* eth*\n[Network]\nDHCP=yes\n' > "$root/etc/systemd/network/lab.network"
printf 'nameserver 10.0.2.3\n' > "$root/etc/resolv.conf"
chroot "$root" systemctl enable systemd-networkd lab-host.service >/dev/null 2>&1
install -d "$root/etc/default/grub.d" "$root/boot/grub" "$root/boot/efi"
cat > "$root/etc/default/grub.d/lab.cfg" <<'END'
GRUB_TIMEOUT=1
GRUB_CMDLINE_LINUX="console=ttyS0,115200n8"
GRUB_TERMINAL=console
GRUB_DISABLE_OS_PROBER=true
END
echo MODULES=list > "$root/etc/initramfs-tools/conf.d/lab"
printf '%s\n' virtio_pci virtio_blk ext4 >> "$root/etc/initramfs-tools/modules"
"""
# qemu hands over a tar (fw_cfg); once it is unpacked, the mark keeps later boots from repeating it.
HOST_UNIT = """\
[Unit]
Description=Takes this host's own files from the virtual machine
ConditionPathExists=!/var/lib/lab-host
DefaultDependencies=no
After=systemd-remount-fs.service local-fs.target
Before=sysinit.target ssh.service systemd-networkd.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/sbin/modprobe qemu_fw_cfg
ExecStart=/bin/tar --no-overwrite-dir -C / -xf \\
  /sys/firmware/qemu_fw_cfg/by_name/opt/provision/host/raw
ExecStart=/bin/sh -c 'hostname -F /etc/hostname; sync; touch /var/lib/lab-host; sync'
[Install]
WantedBy=sysinit.target
"""
# `grub-editenv - set saved_entry=1` chooses the kernel before the newest.
GRUB_ENTRY = """\
if [ -s $prefix/grubenv ]; then load_env; fi
set timeout=1
set default="${{saved_entry}}"
menuentry 'Debian' {{
  search --no-floppy --fs-uuid --set=root {root}
  linux /vmlinuz root=UUID={root} ro console=ttyS0,115200n8
  initrd /initrd.img
}}
menuentry 'Debian, the kernel before' {{
  search --no-floppy --fs-uuid --set=root {root}
  linux /vmlinuz.old root=UUID={root} ro console=ttyS0,115200n8
  initrd /initrd.img.old
}}
"""
GRUB_EFI = """\
search --no-floppy --fs-uuid --set=root {root}
set prefix=($root)/boot/grub
configfile $prefix/grub.cfg
"""
# signed programs of Debian's packages -> their places in the EFI system partition
EFI_FILES = {
    "usr/lib/shim/shimx64.efi.signed": "EFI/BOOT/BOOTX64.EFI",
    "usr/lib/shim/mmx64.efi.signed": "EFI/BOOT/mmx64.efi",
    "usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed": "EFI/BOOT/grubx64.efi",
}


@dataclass(frozen=True)
class Base:
    """A kept disk: its qcow2 file, the SHA-256 of it, and a kernel to try acceleration with."""

    path: Path
    sha256: str
    kernel: Path


def ensure(podman: Podman, platform: str, cache: Path, progress: Progress) -> Base:
    """The platform's base disk, built where it is missing, of another recipe or a week old.

    One that machines stand on is never replaced: their overlays hold what differs from it. So it is
    used however old it is. Raises MachineError where it was changed or cut short under machines, or
    can't be built again; InputError for a platform whose identity is a layer of an image.
    """
    parts = [image.recipe(platform, image.trusted()), PACKAGES, CUSTOMIZE, HOST_UNIT, DISK_SIZE]
    text = json.dumps([*parts, GRUB_ENTRY, GRUB_EFI, EFI_FILES], sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    if image.platform(platform).identity:
        raise InputError(
            "a virtual machine can't have another distribution's name",
            got=platform,
            expected=", ".join(name for name, row in image.PLATFORMS.items() if not row.identity),
        )
    folder = cache / "disks"
    folder.mkdir(exist_ok=True)
    path = folder / f"{platform}-{digest}.qcow2"
    with locked(folder / f"{platform}.lock"):
        kept = read(path)
        if kept and time.time() - path.stat().st_mtime < image.MAXIMUM_AGE:
            return kept
        if _in_use(path, cache):
            if kept:
                return kept
            raise MachineError(
                "the disk that virtual machines stand on is not what was built",
                where=str(path),
                hint="take their labs down (provision lab status, provision lab down): "
                "then it is built again",
            )
        if path.exists() and kept is None:
            progress(f"The kept disk of {platform} is not what was built: building it again")
        else:
            progress(f"Building a {platform} disk (two minutes, then kept for a week)")
        for old in folder.glob(f"{platform}-*"):
            if old.suffix != ".lock" and not _in_use(old, cache):
                old.unlink()
        return build(podman, platform, path)


def read(path: Path) -> Base | None:
    """A kept disk if it and its kernel are there and unchanged, else None."""
    try:
        record = json.loads(path.with_suffix(".json").read_text("utf-8"))
        kernel = path.with_suffix(".vmlinuz")
        if path.stat().st_size != record["size"] or sha256_of(path) != record["sha256"]:
            return None
        if sha256_of(kernel) != record["kernel"]:
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Base(path, record["sha256"], kernel)


def overlay(base: Path, path: Path) -> None:
    """Creates an empty overlay over `base` at `path`."""
    _run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", str(base), str(path)])


def _in_use(path: Path, cache: Path) -> bool:
    """Is this disk the base of a host that exists?"""
    for record in (cache / "machines").glob("*/machine.json"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            if Path(json.loads(record.read_text("utf-8"))["base"]).stem == path.stem:
                return True
    return False


def build(
    podman: Podman,
    platform: str,
    path: Path,
    settle: Callable[[Path], None] | None = None,
) -> Base:
    """Builds a disk at `path`; an old one stays until the new one is whole.

    `settle` may change the root tree before it is packed: to start from a host that has something
    installed, which takes an hour under emulation. Raises MachineError.
    """
    work = path.parent / f"{WORK}{os.getpid()}-{uuid.uuid4().hex[:6]}"
    work.mkdir(mode=0o755)
    root, kernel = work / "root", work / "vmlinuz"
    identifiers = {"root": str(uuid.uuid4()), "efi": f"{uuid.uuid4().hex[:8].upper()}"}
    try:
        _tree(podman, platform, work, identifiers)
        if settle:
            settle(root)
        shutil.copyfile(_followed(root, "vmlinuz"), kernel)
        pack(podman, root, work, identifiers)
        record = {
            "sha256": sha256_of(work / "disk.qcow2"),
            "size": (work / "disk.qcow2").stat().st_size,
            "kernel": sha256_of(kernel),
            "suite": image.platform(platform).suite,
        }
        os.replace(kernel, path.with_suffix(".vmlinuz"))
        os.replace(work / "disk.qcow2", path)
        write_atomically(path.with_suffix(".json"), json.dumps(record).encode())
    finally:
        _remove_work(podman, work)
    return Base(path, str(record["sha256"]), path.with_suffix(".vmlinuz"))


def sweep(podman: Podman, cache: Path) -> None:
    """Removes what builds of killed runs left in the cache."""
    for work in (cache / "disks").glob(f"{WORK}*"):
        pid = work.name.removeprefix(WORK).partition("-")[0]
        if not Path("/proc", pid).exists():
            _remove_work(podman, work)


def _remove_work(podman: Podman, work: Path) -> None:
    """Removes a build's folder; its tree belongs to root, whoever the user is."""
    podman.as_root("rm", "-rf", "--one-file-system", str(work), timeout=TIMEOUT)


def _tree(podman: Podman, platform: str, work: Path, identifiers: dict[str, str]) -> None:
    """Bootstraps the root tree in `work`/root, with the names of its file systems in it."""
    root = work / "root"
    (work / "lab-host.service").write_text(HOST_UNIT, "ascii")
    (work / "fstab").write_text(
        f"UUID={identifiers['root']} / ext4 errors=remount-ro 0 1\n"
        f"UUID={identifiers['efi'][:4]}-{identifiers['efi'][4:]} /boot/efi vfat umask=0077 0 1\n",
        "ascii",
    )
    (work / "grub.cfg").write_text(GRUB_ENTRY.format(root=identifiers["root"]), "ascii")
    unit = "/etc/systemd/system/lab-host.service"
    before = (
        f"--customize-hook=upload {work / 'fstab'} /etc/fstab",
        f"--customize-hook=upload {work / 'lab-host.service'} {unit}",
    )
    after = (f"--customize-hook=upload {work / 'grub.cfg'} /boot/grub/grub.cfg",)
    customize = image.CUSTOMIZE + CUSTOMIZE
    target = image.Target(root, "directory", PACKAGES, customize, before, after)
    image.bootstrap(podman, platform, image.trusted(), work, target)


def pack(podman: Podman, root: Path, work: Path, identifiers: dict[str, str]) -> None:
    """Packs a root tree into `work`/disk.qcow2: GPT, EFI system partition, ext4."""
    efi, raw = work / "efi.img", work / "disk.raw"
    with efi.open("wb") as handle:
        handle.truncate(EFI_SIZE)
    _run(["mkfs.vfat", "-n", "EFI", "-i", identifiers["efi"], str(efi)])
    _run(["mmd", "-i", str(efi), "::/EFI", "::/EFI/BOOT", "::/EFI/debian"])
    for source, place in EFI_FILES.items():
        _run(["mcopy", "-i", str(efi), str(_followed(root, source)), f"::/{place}"])
    (work / "efi-grub.cfg").write_text(GRUB_EFI.format(root=identifiers["root"]), "ascii")
    _run(["mcopy", "-i", str(efi), str(work / "efi-grub.cfg"), "::/EFI/debian/grub.cfg"])
    with raw.open("wb") as handle:
        handle.truncate(DISK_SIZE)
    table = (
        "label: gpt\n"
        f"start={EFI_START // SECTOR}, size={EFI_SIZE // SECTOR}, type=uefi\n"
        f"start={ROOT_START // SECTOR}, type=linux\n"
    )
    _run(["sfdisk", "--quiet", str(raw)], stdin=table)
    with raw.open("r+b") as handle, efi.open("rb") as source_handle:
        handle.seek(EFI_START)
        shutil.copyfileobj(source_handle, handle)
    size = (DISK_SIZE - ROOT_START - MIB) // 1024
    # Only root may read all of the tree.
    podman.as_root(
        program("mkfs.ext4") or "mkfs.ext4", "-q", "-F", "-L", "root", "-U", identifiers["root"],
        "-E", f"offset={ROOT_START},lazy_itable_init=1", "-d", str(root), str(raw), f"{size}k",
        timeout=TIMEOUT,
    )  # fmt: skip
    _run(["qemu-img", "convert", "-q", "-O", "qcow2", str(raw), str(work / "disk.qcow2")])
    raw.unlink()


def _followed(root: Path, name: str) -> Path:
    """A file of a tree, its links followed inside the tree."""
    path = root / name
    for _ in range(8):
        if not path.is_symlink():
            return path
        target = os.readlink(path)
        path = root / target.lstrip("/") if target.startswith("/") else path.parent / target
    raise MachineError("a link in the new disk leads nowhere", where=str(root / name))


def _run(argv: Sequence[str], stdin: str | None = None) -> None:
    """Runs a program that must succeed. Raises MachineError with its last words."""
    path = program(argv[0]) or argv[0]
    done = ended([path, *argv[1:]], timeout=TIMEOUT, input=stdin, text=True)
    if done.returncode:
        raise MachineError(
            f"{argv[0]} failed while a disk was made",
            got=(done.stderr or done.stdout).strip()[-2000:],
        )
