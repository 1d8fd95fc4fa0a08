"""Disks of virtual machines on which something is installed already.

Under emulation a driver's build takes most of an hour. So the root tree of a disk is started as a
container first, a playbook runs in it over SSH at the machine's own speed, and then the tree is
packed into a disk and booted. In the container the roles see the kernel in /boot, and no GPU.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import demo

from provision import locallab
from provision.locallab import cache, cudnn_archive, image
from provision.locallab.host import USER, LabHost, address_of, archive, host_files, keygen
from provision.locallab.host import wait_for_ssh as answers
from provision.locallab.lab import Lab, _write_known_hosts
from provision.locallab.machine import Podman, cache_directory, connect, locked, silent
from provision.locallab.vm import disk
from tests.collection import ROOT, own_project

# What a container's systemd leaves alone; a machine's boot starts them.
MASKED = ("systemd-networkd.service", "systemd-udevd.service", "lab-host.service")


def installed(
    platform: str, playbook: str, variables: Mapping[str, Any], kind: str = "installed"
) -> Path:
    """A kept disk of `platform` on which a playbook (YAML) has run.

    One disk of each kind is kept.

    It is made anew when the checkout's roles or plugins, the playbook or the base changed.
    """

    def play(lab: Lab, folder: Path) -> list[str]:
        inventory = lab.inventory(group="gpu")
        inventory["gpu"]["vars"].update(variables)
        own_project(folder, inventory)
        (folder / "play.yml").write_text(playbook)
        return ["-i", "hosts.yml", "play.yml"]

    return _kept(kind, platform, (playbook, sorted(variables.items())), play)


def provisioned(platform: str, wish: str) -> Path:
    """A kept disk on which a run of a rendered project's site.yml has been, without its proof.

    `wish` is the group's variables (YAML), added to the demo's.
    """

    def play(lab: Lab, folder: Path) -> list[str]:
        demo.write_inventory(folder, lab, cudnn_archive.pack(cache_directory()))
        with (folder / "lab/group_vars/gpu_hosts.yml").open("a", encoding="utf-8") as stream:
            stream.write(f"gpu_platform: {platform}\n{wish}")
        for command in (["lock", "--project", str(folder)], ["render", str(folder)]):
            assert demo.provision(*command) == 0
        return ["-i", "lab", "site.yml", "-e", "gpu_verify=never"]

    return _kept("provisioned", platform, wish, play)


# Prepares a project in a folder for a lab; returns ansible-playbook's arguments.
Play = Callable[[Lab, Path], list[str]]


def _kept(kind: str, platform: str, about: object, play: Play) -> Path:
    """The kept disk of this kind, platform and checkout, built where it is missing."""
    digest = hashlib.sha256(repr((about, _checkout(), disk.PACKAGES)).encode()).hexdigest()[:12]
    folder = cache_directory() / "disks"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{kind}-{platform}-{digest}.qcow2"
    with locked(folder / f"{kind}-{platform}.lock"):
        if disk.read(path) is None:
            for old in folder.glob(f"{kind}-{platform}-*"):
                old.unlink()
            podman = connect()
            disk.build(podman, platform, path, lambda root: _play(podman, platform, root, play))
    return path


def _checkout() -> str:
    """A digest of everything that a run brings to a host."""
    digest = hashlib.sha256()
    for folder in ("plugins", "roles", "playbooks", "provision/catalog"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return digest.hexdigest()


def _play(podman: Podman, platform: str, root: Path, play: Play) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="native.") as temporary,
        _started(podman, platform, root, Path(temporary)) as lab,
    ):
        folder = Path(temporary, "project")
        folder.mkdir()
        arguments = play(lab, folder)
        done = subprocess.run(
            [str(Path(sys.executable).parent / "ansible-playbook"), *arguments],
            cwd=folder,
            env={**os.environ, "ANSIBLE_CONFIG": str(folder / "ansible.cfg"), "LC_ALL": "C.UTF-8"},
            capture_output=True, text=True, check=False, timeout=3000,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


@contextlib.contextmanager
def _started(podman: Podman, platform: str, root: Path, state: Path) -> Iterator[Lab]:
    """The tree as a running container with SSH; stopped and cleaned of the lab's files after."""
    key = state / "id_ed25519"
    keygen(key, "native")
    cached, run = cache_directory(), uuid.uuid4().hex[:10]
    name = f"native-{platform}-{run}"
    with locked(cached / "labs.lock"):
        base = image.ensure(podman, platform, cached, silent)
        proxy = cache.ensure(podman, cached, base, platform, silent)
        files = host_files(
            state / "hosts" / "native", key.with_suffix(".pub").read_text(), None, {}, proxy
        )
        files.pop("etc/machine-id")
        (state / "files.tar").write_bytes(archive(files))
        podman.as_root("tar", "-xf", str(state / "files.tar"), "-C", str(root))
        labels = {"lab": "native", "run": run, "host": "native", "state": str(state),
                  "keep": "false", "owner": locallab.owner.owner(),
                  "cache-user": cache.identity(cached)}  # fmt: skip
        podman.call(
            "run", "--detach", f"--name={name}", "--hostname=native", "--systemd=always",
            "--env=container=podman",
            *(f"--label=provision.{label}={value}" for label, value in labels.items()),
            "--rootfs", str(root), *image.platform(platform).init,
            *(f"systemd.mask={unit}" for unit in MASKED),
        )  # fmt: skip
    try:
        host = LabHost("native", address_of(podman, name), 22, USER, key, name)
        lab = Lab("native", run, state, [host], podman)
        _write_known_hosts(lab)
        answers(host)
        yield lab
        podman.call("exec", name, "sync")
        podman.call("stop", "--time=30", name)
    finally:
        podman.run("rm", "--force", "--time=0", name)
    # The next boot is the first of a machine of its own.
    for path in files:
        podman.as_root("rm", "-f", str(root / path))
    podman.as_root("sh", "-c", f": > {shlex.quote(str(root / 'etc/machine-id'))}")
    podman.as_root(
        "sh",
        "-c",
        f"printf 'nameserver 10.0.2.3\\n' > {shlex.quote(str(root / 'etc/resolv.conf'))}",
    )
