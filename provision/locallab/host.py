"""One host of a lab: its container, its own files, and waiting until it answers."""

from __future__ import annotations

import io
import re
import socket
import subprocess
import tarfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from provision.errors import InputError, MachineError
from provision.locallab import gpu, image
from provision.locallab.machine import Podman, Progress
from provision.locallab.vm.guest import Guest, Virtual

USER = "lab"
SSH_PORT = 22
BOOT_TIMEOUT = 60.0
DRIVER_VERSION = re.compile(r"\d{1,9}(\.\d{1,9}){0,3}", re.ASCII)


@dataclass(frozen=True)
class Shape:
    """Properties that all hosts of a lab share.

    `driver_version` of the simulated driver; the platform's by default. `volumes` are further
    `podman --volume` values, `arguments` further arguments of `podman create`. With `virtual` the
    hosts are virtual machines: their GPUs are PCI functions without anything behind them.
    Raises InputError for a driver's version that is none.
    """

    platform: str = "debian11"
    gpus: int = 2
    gpu_name: str = "Tesla T4"
    gpu_memory_mib: int | None = None
    driver_version: str | None = None
    with_gpu: bool = True
    with_python: bool = True
    privileged: bool = False
    volumes: Sequence[str] = ()
    arguments: Sequence[str] = ()
    virtual: Virtual | None = None

    def __post_init__(self) -> None:
        version = self.driver_version
        if version and not DRIVER_VERSION.fullmatch(version):
            raise InputError(
                "this is no version of a driver",
                where="--driver-version",
                got=version,
                expected="numbers with dots, as 470.256.02",
            )

    def simulated(self, seed: str) -> gpu.Simulated | None:
        """The GPUs of one host, with UUIDs derived from `seed`; None for a lab without GPUs."""
        if not self.with_gpu:
            return None
        row = gpu.model(self.gpu_name)
        return gpu.Simulated(
            count=self.gpus,
            name=gpu.product(self.gpu_name),
            memory_mib=self.gpu_memory_mib or row.memory_mib,
            driver_version=self.driver_version or image.platform(self.platform).driver_version,
            compute_capability=row.compute_capability,
            seed=seed,
        )


@dataclass(frozen=True)
class Recipe:
    """Everything needed to create the hosts of one lab."""

    lab: str
    run: str
    state: Path
    cached: Path
    base: str
    public: str
    libraries: Mapping[str, bytes]
    labels: Mapping[str, str]
    shape: Shape
    proxy: str | None = None


@dataclass(frozen=True)
class LabHost:
    """A host, with what SSH needs to reach it; its container, or its virtual machine."""

    name: str
    address: str
    port: int
    user: str
    key_file: Path
    container: str = ""
    guest: Guest | None = None

    @property
    def place(self) -> str:
        """Its address, with the port where it is not SSH's own."""
        return self.address if self.port == SSH_PORT else f"{self.address}:{self.port}"


def keygen(path: Path, comment: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise MachineError("ssh-keygen failed", got=done.stderr.decode("utf-8", "replace"))


def host_files(
    place: Path,
    public: str,
    simulated: gpu.Simulated | None,
    libraries: Mapping[str, bytes],
    proxy: str | None,
) -> dict[str, tuple[bytes, int, int]]:
    """{path: (content, mode, uid)} of the files that distinguish a host from its image."""
    host_key = place / "ssh_host_ed25519_key"
    keygen(host_key, place.name)
    files = {
        "etc/machine-id": (uuid.uuid4().hex.encode() + b"\n", 0o444, 0),
        "etc/ssh/ssh_host_ed25519_key": (host_key.read_bytes(), 0o600, 0),
        "etc/ssh/ssh_host_ed25519_key.pub": (host_key.with_suffix(".pub").read_bytes(), 0o644, 0),
        f"home/{USER}/.ssh/authorized_keys": (public.encode(), 0o600, 1000),
    }
    if proxy:
        text = f'Acquire::http::Proxy "{proxy}";\nAcquire::https::Proxy "DIRECT";\n'
        files["etc/apt/apt.conf.d/00lab-cache"] = (text.encode(), 0o644, 0)
    if simulated:
        files[gpu.CONFIG.lstrip("/")] = (simulated.text().encode(), 0o644, 0)
        files[gpu.LOADER_CONFIG.lstrip("/")] = (gpu.DIRECTORY.encode() + b"\n", 0o644, 0)
        for soname, data in libraries.items():
            files[f"{gpu.DIRECTORY.lstrip('/')}/{soname}"] = (data, 0o755, 0)
    return files


def create(podman: Podman, recipe: Recipe, host: str, progress: Progress) -> str:
    """Creates and starts a host's container; returns its name."""
    progress(f"Starting {host}")
    shape = recipe.shape
    simulated = shape.simulated(f"{recipe.run}-{host}")
    place = recipe.state / "hosts" / host
    gpu.write_tree(place / "pci", gpu.pci_tree(simulated))
    files = host_files(place, recipe.public, simulated, recipe.libraries, recipe.proxy)
    container = f"{recipe.lab}-{host}-{recipe.run}"
    labels = {**recipe.labels, "lab": recipe.lab, "run": recipe.run, "host": host}
    pip = recipe.cached / "pip"
    podman.as_root("install", "-d", "-m", "0755", "-o", "0", "-g", "0", str(pip))
    podman.call(
        "create",
        f"--name={container}",
        f"--hostname={host}",
        "--systemd=always",
        # A machine's is half of its memory; with podman's 64 MiB NCCL would fail.
        "--shm-size=256m",
        *(["--privileged"] if shape.privileged else []),
        *(f"--label=provision.{key}={value}" for key, value in labels.items()),
        f"--volume={place / 'pci'}:/sys/bus/pci/devices:ro",
        f"--volume={pip}:/var/cache/lab/pip",
        *(f"--volume={volume}" for volume in shape.volumes),
        *shape.arguments,
        recipe.base,
        *image.platform(shape.platform).init,
    )
    # Without --archive=false podman gives every file to root.
    podman.call("cp", "--archive=false", "-", f"{container}:/", stdin=archive(files))
    podman.call("start", container)
    return container


def archive(files: Mapping[str, tuple[bytes, int, int]]) -> bytes:
    """A tar of {path: (content, mode, uid)}, with the folder of each file that has a uid."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, (data, mode, uid) in files.items():
            if uid:
                folder = tarfile.TarInfo(str(Path(path).parent))
                folder.type, folder.mode, folder.uid, folder.gid = tarfile.DIRTYPE, 0o700, uid, uid
                folder.mtime = int(time.time())
                tar.addfile(folder)
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode, entry.uid, entry.gid = len(data), mode, uid, uid
            entry.mtime = int(time.time())
            tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def finish(podman: Podman, container: str, shape: Shape) -> None:
    """Wait for systemd, then run ldconfig, and purge Python where the shape has none."""
    deadline = time.monotonic() + BOOT_TIMEOUT
    while True:
        done = podman.run("exec", container, "systemctl", "is-system-running", "--wait")
        state = done.stdout.decode().strip()
        # "degraded" is a booted system with a failed unit: SSH decides below.
        if state in ("running", "degraded"):
            break
        if time.monotonic() > deadline:
            log = podman.run("logs", "--tail", "20", container)
            raise MachineError(
                f"{container} did not boot", got=state or log.stderr.decode("utf-8", "replace")
            )
        time.sleep(0.2)
    if shape.with_gpu:
        podman.call("exec", container, "ldconfig")
    if not shape.with_python:
        podman.call(
            "exec", "--env=DEBIAN_FRONTEND=noninteractive", container,
            "apt-get", "purge", "--yes", "--quiet", "--autoremove",
            "python3", "python3-minimal", "libpython3-stdlib",
        )  # fmt: skip


def address_of(podman: Podman, container: str) -> str:
    """The container's own address on podman's bridge."""
    text = podman.call(
        "inspect", "--format",
        "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}", container,
    )  # fmt: skip
    addresses = text.split()
    if not addresses:
        raise MachineError(f"{container} has no address on podman's bridge network")
    return addresses[0]


def wait_for_ssh(
    host: LabHost, timeout: float = BOOT_TIMEOUT, check: Callable[[], None] = lambda: None
) -> None:
    """Returns once the host answers; `check` may raise where it never will.

    Raises MachineError after `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    reason = ""
    while time.monotonic() < deadline:
        check()
        try:
            with socket.create_connection((host.address, host.port), timeout=5) as link:
                if link.recv(4) == b"SSH-":
                    return
                reason = "no SSH banner"
        except OSError as error:
            reason = str(error)
        time.sleep(0.1)
    raise MachineError(f"{host.name} does not answer on SSH", where=host.place, got=reason)
