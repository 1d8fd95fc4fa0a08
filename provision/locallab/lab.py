"""Labs: groups of hosts in containers, reached over real SSH with keys of their own.

Every container carries labels (lab, run, state directory, owner), so that `down` takes only
its own, two runs on one machine never collide, and what a killed run left behind is found by
`sweep` without a record that could be lost with it.
"""

from __future__ import annotations

import io
import os
import shlex
import shutil
import socket
import subprocess
import tarfile
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from provision.errors import InputError, MachineError
from provision.locallab import cache, gpu, image
from provision.locallab.machine import (
    Podman,
    Progress,
    cache_directory,
    connect,
    locked,
    measure,
    require,
    silent,
)

USER = "lab"
BOOT_TIMEOUT = 60.0


@dataclass(frozen=True)
class LabHost:
    """A host as SSH reaches it."""

    name: str
    address: str
    port: int
    user: str
    key_file: Path
    container: str


@dataclass
class Lab:
    """A running lab; `down()` removes it."""

    name: str
    run: str
    state_dir: Path
    hosts: list[LabHost]
    podman: Podman = field(repr=False, default_factory=Podman)

    @property
    def known_hosts(self) -> Path:
        """The hosts' real public keys."""
        return self.state_dir / "known_hosts"

    def ssh_arguments(self) -> list[str]:
        """Options for ssh(1) that make it trust this lab's hosts and nothing else."""
        return [
            "-o", f'UserKnownHostsFile="{self.known_hosts}"',
            "-o", "GlobalKnownHostsFile=/dev/null",
            "-o", "StrictHostKeyChecking=yes",
            "-o", "IdentitiesOnly=yes",
        ]  # fmt: skip

    def inventory(self, group: str = "gpu") -> dict[str, Any]:
        """Ordinary inventory data (as in a YAML inventory file), one group with every host."""
        return {
            group: {
                "hosts": {
                    host.name: {
                        "ansible_host": host.address,
                        "ansible_user": host.user,
                        "ansible_ssh_private_key_file": str(host.key_file),
                    }
                    for host in self.hosts
                },
                "vars": {"ansible_ssh_common_args": shlex.join(self.ssh_arguments())},
            }
        }

    def down(self) -> None:
        """Remove this lab's containers and its state."""
        _remove(self.podman, self.podman.containers(run=self.run), cache_directory())


@dataclass(frozen=True)
class LabStatus:
    """A lab as its containers tell it. `hosts` is {name: address or '' when not running}."""

    name: str
    run: str
    state_dir: Path
    keep: bool
    owner_alive: bool
    hosts: dict[str, str]


def up(
    name: str,
    *,
    state_dir: Path,
    count: int = 2,
    hosts: Sequence[str] | None = None,
    gpus: int = 2,
    gpu_name: str = "Tesla T4",
    gpu_memory_mib: int | None = None,
    driver_version: str | None = None,
    platform: str = "debian11",
    with_gpu: bool = True,
    with_python: bool = True,
    with_cache: bool = True,
    privileged: bool = False,
    keep: bool = False,
    owner_pid: int | None = None,
    volumes: Sequence[str] = (),
    arguments: Sequence[str] = (),
    progress: Progress = silent,
) -> Lab:
    """Start a lab and return it when every host answers on SSH.

    `hosts` names the hosts; without it they are gpu01 to gpu<count>. `driver_version` is what the
    simulated driver says; without it, the platform's own. `volumes` are further
    `podman --volume` values, `arguments` further arguments of `podman create`. With `keep` the lab
    outlives its owner (`provision lab up`); without, `sweep` removes it once its owner, this
    process or `owner_pid`, is gone. On any failure nothing is left.

    Raises InputError for a name in use, an unknown platform or GPU; MachineError otherwise.
    """
    names = list(hosts) if hosts is not None else [f"gpu{n:02}" for n in range(1, count + 1)]
    system = image.platform(platform)
    row = gpu.model(gpu_name)
    if not names or len(set(names)) != len(names):
        raise InputError("a lab needs hosts with different names", got=", ".join(names))
    limits = measure()
    require(limits)
    podman = connect(limits)
    state = state_dir.resolve()
    for found in podman.containers(lab=name, state=str(state), host=""):
        raise InputError(
            f"the lab {name} is up already",
            where=str(state),
            got=found["Names"][0],
            hint=f"take it down first: provision lab down {name}",
        )
    run = uuid.uuid4().hex[:10]
    cached = cache_directory()
    base = image.ensure(podman, platform, cached, progress)
    # The download cache is a program, not a host: it has no use for an identity.
    plain = system.over or platform
    cache_base = image.ensure(podman, plain, cached, progress) if system.over else base
    libraries = gpu.compile_libraries(cached) if with_gpu else {}
    key, public = _make_state(state, name)
    started: list[str] = []
    try:
        with locked(cached / "labs.lock"):
            proxy = (
                cache.ensure(podman, cached, cache_base, plain, progress) if with_cache else None
            )
            for host in names:
                progress(f"Starting {host}")
                simulated = None
                if with_gpu:
                    simulated = gpu.Simulated(
                        count=gpus,
                        name=gpu.product(gpu_name),
                        memory_mib=gpu_memory_mib or row.memory_mib,
                        driver_version=driver_version or system.driver_version,
                        compute_capability=row.compute_capability,
                        seed=f"{run}-{host}",
                    )
                place = state / "hosts" / host
                gpu.write_tree(place / "pci", gpu.pci_tree(simulated))
                files = _host_files(place, public, simulated, libraries, proxy)
                container = f"{name}-{host}-{run}"
                labels = {
                    "lab": name,
                    "run": run,
                    "host": host,
                    "state": str(state),
                    "keep": "true" if keep else "false",
                    "owner": owner(owner_pid),
                    "cache-user": cache.identity(cached),
                }
                pip = cached / "pip"
                podman.as_root("install", "-d", "-m", "0755", "-o", "0", "-g", "0", str(pip))
                podman.call(
                    "create",
                    f"--name={container}",
                    f"--hostname={host}",
                    "--systemd=always",
                    *(["--privileged"] if privileged else []),
                    *(f"--label=provision.{key}={value}" for key, value in labels.items()),
                    f"--volume={place / 'pci'}:/sys/bus/pci/devices:ro",
                    f"--volume={pip}:/var/cache/lab/pip",
                    *(f"--volume={volume}" for volume in volumes),
                    *arguments,
                    base,
                    *system.init,
                )
                started.append(container)
                # Without --archive=false podman gives every file to root.
                podman.call("cp", "--archive=false", "-", f"{container}:/", stdin=archive(files))
                podman.call("start", container)
        lab_hosts = []
        for host, container in zip(names, started, strict=True):
            _finish(podman, container, with_gpu=with_gpu, with_python=with_python)
            where = _address(podman, container)
            lab_hosts.append(LabHost(host, where, 22, USER, key, container))
        lab = Lab(name, run, state, lab_hosts, podman)
        _write_known_hosts(lab)
        for lab_host in lab_hosts:
            _wait_for_ssh(lab_host)
            progress(f"{lab_host.name} answers at {lab_host.address}")
    except BaseException:
        _remove(podman, podman.containers(run=run), cached)
        shutil.rmtree(state, ignore_errors=True)
        raise
    return lab


def down(name: str, *, state_dir: Path | None = None, progress: Progress = silent) -> bool:
    """Remove the lab's containers and its state; False if there was none.

    Labs of one name can be up from several places; then `state_dir` must say which.
    """
    podman = connect()
    labels = {"lab": name} | ({"state": str(state_dir.resolve())} if state_dir else {})
    found = podman.containers(**labels)
    places = sorted({entry["Labels"]["provision.state"] for entry in found})
    if len(places) > 1:
        raise InputError(
            f"there are {len(places)} labs named {name}",
            got=", ".join(places),
            hint="say which by its state directory",
        )
    _remove(podman, found, cache_directory(), progress)
    return bool(found)


def status(name: str | None = None) -> list[LabStatus]:
    """Every lab of this machine (or those of one name), by name."""
    podman = connect()
    found = podman.containers(lab=name or "")
    runs: dict[str, list[dict[str, Any]]] = {}
    for entry in found:
        runs.setdefault(entry["Labels"]["provision.run"], []).append(entry)
    labs = []
    for run, entries in runs.items():
        labels = entries[0]["Labels"]
        hosts = {
            entry["Labels"]["provision.host"]: _address(podman, entry["Names"][0])
            if entry["State"] == "running"
            else ""
            for entry in entries
        }
        labs.append(
            LabStatus(
                labels["provision.lab"],
                run,
                Path(labels["provision.state"]),
                labels["provision.keep"] == "true",
                is_alive(labels["provision.owner"]),
                dict(sorted(hosts.items())),
            )
        )
    return sorted(labs, key=lambda lab: (lab.name, lab.run))


def sweep(*, podman: Podman | None = None, progress: Progress = silent) -> list[str]:
    """Remove what killed runs left; the names of the labs removed.

    A lab is left over when the process that made it is gone and it wasn't made to be kept.
    """
    podman = podman or connect()
    dead = leftovers(podman.containers(lab=""))
    _remove(podman, dead, cache_directory(), progress)
    return sorted({entry["Labels"]["provision.lab"] for entry in dead})


def leftovers(containers: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Those containers whose owner is gone and that were not made to be kept."""
    return [
        dict(entry)
        for entry in containers
        if entry["Labels"].get("provision.keep") != "true"
        and not is_alive(entry["Labels"].get("provision.owner", ""))
    ]


def owner(pid: int | None = None) -> str:
    """`pid:start time:boot` of a process: a pid alone is soon another's."""
    number = pid or os.getpid()
    return f"{number}:{_start_time(number)}:{_boot()}"


def is_alive(who: str) -> bool:
    """Is the process of an `owner()` label still the one that runs under its pid?"""
    parts = who.split(":")
    if len(parts) != 3 or not parts[0].isdigit() or parts[2] != _boot():
        return False
    return _start_time(int(parts[0])) == parts[1] != ""


def _start_time(pid: int) -> str:
    """Field 22 of /proc/<pid>/stat (proc(5)), '' for no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()[:8]
    except OSError:
        return ""


def _make_state(state: Path, name: str) -> tuple[Path, str]:
    """A fresh state directory with the lab's key pair; the key file and the public key."""
    if state.exists():
        marker = state / "lab"
        if not marker.exists() and any(state.iterdir()):
            raise InputError(
                "this directory holds something other than a lab's state", where=str(state)
            )
        shutil.rmtree(state)
    state.mkdir(parents=True, mode=0o700)
    (state / "lab").write_text(name + "\n", "utf-8")
    key = state / "id_ed25519"
    _keygen(key, f"lab {name}")
    return key, key.with_suffix(".pub").read_text("ascii")


def _keygen(path: Path, comment: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise MachineError("ssh-keygen failed", got=done.stderr.decode("utf-8", "replace"))


def _host_files(
    place: Path,
    public: str,
    simulated: gpu.Simulated | None,
    libraries: Mapping[str, bytes],
    proxy: str | None,
) -> dict[str, tuple[bytes, int, int]]:
    """{path: (content, mode, uid)} of what makes a container of the image this very host."""
    host_key = place / "ssh_host_ed25519_key"
    _keygen(host_key, place.name)
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


def archive(files: Mapping[str, tuple[bytes, int, int]]) -> bytes:
    """A tar of {path: (content, mode, uid)}, with the directories those of uid need."""
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


def _finish(podman: Podman, container: str, *, with_gpu: bool, with_python: bool) -> None:
    """Wait for systemd, then do what only a running host can."""
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
    if with_gpu:
        podman.call("exec", container, "ldconfig")
    if not with_python:
        podman.call(
            "exec", "--env=DEBIAN_FRONTEND=noninteractive", container,
            "apt-get", "purge", "--yes", "--quiet", "--autoremove",
            "python3", "python3-minimal", "libpython3-stdlib",
        )  # fmt: skip


def _address(podman: Podman, container: str) -> str:
    """The container's own address on podman's bridge."""
    text = podman.call(
        "inspect", "--format",
        "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}", container,
    )  # fmt: skip
    found = text.split()
    if not found:
        raise MachineError(f"{container} has no address on podman's bridge network")
    return found[0]


def _write_known_hosts(lab: Lab) -> None:
    lines = []
    for host in lab.hosts:
        public = lab.state_dir / "hosts" / host.name / "ssh_host_ed25519_key.pub"
        kind, key = public.read_text("ascii").split()[:2]
        lines.append(f"{host.address} {kind} {key}\n")
    lab.known_hosts.write_text("".join(lines), "ascii")


def _wait_for_ssh(host: LabHost) -> None:
    deadline = time.monotonic() + BOOT_TIMEOUT
    reason = ""
    while time.monotonic() < deadline:
        try:
            with socket.create_connection((host.address, host.port), timeout=5) as link:
                if link.recv(4) == b"SSH-":
                    return
                reason = "no SSH banner"
        except OSError as error:
            reason = str(error)
        time.sleep(0.1)
    raise MachineError(f"{host.name} does not answer on SSH", where=host.address, got=reason)


def _remove(
    podman: Podman,
    containers: Sequence[Mapping[str, Any]],
    cached: Path,
    progress: Progress = silent,
) -> None:
    """Remove containers, the state that no other container uses, and an idle cache."""
    if containers:
        names = [entry["Names"][0] for entry in containers]
        progress("Removing " + ", ".join(names))
        podman.call("rm", "--force", "--volumes", "--time=0", *names)
    for state in {entry["Labels"].get("provision.state", "") for entry in containers}:
        # Only a directory that is a lab's, and no other container's.
        if state and (Path(state) / "lab").exists() and not podman.containers(state=state):
            shutil.rmtree(state, ignore_errors=True)
    with locked(cached / "labs.lock"):
        cache.release(podman, cached)
