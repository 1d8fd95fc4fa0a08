"""Part (f): a bare host with Ubuntu's identity to a proven one, against the tutorials' commands.

NVIDIA's and Canonical's servers are those of tests/ground, on this machine, over TLS.
"""

from __future__ import annotations

import base64
import functools
import io
import os
import shlex
import subprocess
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench import cold, rerun, spending
from provision import locallab
from provision.locallab.machine import Podman
from tests.ground import Site, clients, drivers, serve

Say = Callable[[str], None]

RECEIVED = "/sys/class/net/eth0/statistics/rx_bytes"
DRIVER = "470.256.02"
BRANCH = "470"

# {way: its wish, besides TensorFlow's release}; "ours" names no sources.
WISHES: dict[str, dict[str, str]] = {
    "ours": {"driver_branch": BRANCH, "cuda": "11.2"},
    "network": {"driver_source": "network", "driver_branch": BRANCH, "cuda": "11.2"},
    "sources": {
        "driver_source": "runfile",
        "driver_branch": DRIVER,
        "cuda_source": "local",
        "cuda": "11.2.2",
    },
}
WAYS = ("ours", "tutorial", "network", "sources")

# Installs what a fresh Ubuntu server has and the lab's image lacks: a kernel, wget, and gpg for
# apt-key. Then fills the lab's cache for all ways, and removes apt's lists.
PREPARE = """\
set -eu
export DEBIAN_FRONTEND=noninteractive
apt-get -q update
apt-get -q -y install linux-image-generic initramfs-tools gnupg wget
apt-get -q -y --download-only install build-essential dkms linux-headers-generic python3.9-venv
apt-get clean
rm -rf /var/lib/apt/lists/*
"""

# Builds the modules for the hosts' kernel, as Canonical has built them already.
BUILD = """\
set -eu
export DEBIAN_FRONTEND=noninteractive
{{
    apt-get -q update
    apt-get -q -y install build-essential linux-headers-generic nvidia-dkms-{branch}-server
    modinfo -k {kernel} nvidia || dkms install -m nvidia -v {driver} -k {kernel}
}} >&2
tar -C /lib/modules/{kernel}/updates/dkms -c . | base64
"""


@dataclass
class Ground:
    """The servers, and the folder of the projects, each locked and rendered once."""

    site: Site
    folder: Path
    podman: Podman

    @functools.cached_property
    def archive(self) -> dict[str, object]:
        """Canonical's archive; created once, because the lock has its indices."""
        lab = self._host("modules", self.site.ubuntu())
        try:
            kernel = self.kernel(lab)
            script = BUILD.format(branch=BRANCH, driver=DRIVER, kernel=kernel)
            built = base64.b64decode(self._exec(lab, "sh", "-s", stdin=script))
        finally:
            lab.down()
        with tarfile.open(fileobj=io.BytesIO(built)) as packed:
            files = {
                Path(member.name).name: file.read()
                for member in packed
                if (file := packed.extractfile(member)) is not None
            }
        return self.site.ubuntu(modules=[drivers.modules(self.folder, BRANCH, kernel, files)])

    def host(self, name: str, say: Say) -> locallab.Lab:
        """A fresh bare host that trusts the servers, knows Canonical's archive and has a kernel."""
        archive = self.archive  # first: it is built on another host
        say(f"a bare host: {name}")
        return self._host(name, archive)

    def _host(self, name: str, archive: Mapping[str, object]) -> locallab.Lab:
        lab = locallab.up(
            f"bench-{name}-{os.getpid()}",
            locallab.Shape(platform="ubuntu2004"),
            state_dir=self.folder / f"lab-{name}",
            hosts=["focal1"],
        )
        try:
            for path, text in clients.host(self.site, archive).items():
                self._write(lab, path, text)
            self._exec(lab, "sh", "-s", stdin=PREPARE)
        except BaseException:
            lab.down()
            raise
        return lab

    def _write(self, lab: locallab.Lab, path: str, text: str) -> None:
        self._exec(lab, "sh", "-c", f"cat >{shlex.quote(path)}", stdin=text)

    def _exec(self, lab: locallab.Lab, *command: str, stdin: str = "") -> str:
        container = lab.hosts[0].container
        return self.podman.call("exec", "-i", container, *command, stdin=stdin.encode())

    def received(self, lab: locallab.Lab) -> int:
        """Bytes that the host's interface has received so far."""
        return int(self._exec(lab, "cat", RECEIVED))

    def cpu(self, lab: locallab.Lab) -> float:
        """Processor seconds that the host has used so far."""
        return rerun.host_cpu(self.podman, lab.hosts[0].container)

    def kernel(self, lab: locallab.Lab) -> str:
        """The kernel that the host would boot next."""
        return self._exec(lab, "sh", "-c", "ls /boot | sed -n s/^vmlinuz-//p").split()[-1]

    def project(self, way: str, lab: locallab.Lab) -> Path:
        """The project of a way, with this host in its inventory; locked and rendered once."""
        project = self.folder / way
        (project / "lab").mkdir(parents=True, exist_ok=True)
        text = yaml.safe_dump(self.inventory(way, lab), sort_keys=False)
        (project / "lab" / "hosts.yml").write_text(text, "utf-8")
        if not (project / "site.yml").exists():
            self._lock_and_render(way, project)
        return project

    def inventory(self, way: str, lab: locallab.Lab) -> dict[str, Any]:
        """The inventory, as a lab with its own mirrors would have it."""
        cudnn = self.site.cudnn()
        wish: dict[str, Any] = {"tensorflow": "2.9", "python": "3.9", **WISHES[way]}
        wish["cudnn"] = {name: cudnn[name] for name in ("version", "cuda", "sha256")}
        if wish.get("driver_source") == "runfile":
            wish["driver_sha256"] = str(self.site.runfile(BRANCH)["sha256"])
        inventory = lab.inventory("gpu_hosts")
        inventory["gpu_hosts"].setdefault("vars", {}).update(
            {
                "gpu_platform": "ubuntu2004",
                "gpu_stack": wish,
                "cudnn_urls": [cudnn["url"]],
                "cudnn_ca_bundle": clients.CA,
                "cuda_ca_bundle": clients.CA,
                "nvidia_driver_ca_bundle": clients.CA,
                # With the module, which a container leaves out by default, and without the
                # persistence daemon, as the tutorials have it.
                "nvidia_driver_scope": "full",
                "nvidia_driver_persistence": False,
                "tensorflow_cache_dir": cold.PIP_CACHE,
            }
        )
        return inventory

    def _lock_and_render(self, way: str, project: Path) -> None:
        self.site.local_installer()
        local = WISHES[way].get("cuda_source") == "local"
        lock = clients.lock(self.site, self.archive, project, local=local)
        environment = clients.environment(self.site, self.folder)
        for arguments in (lock, ["render", "."]):
            done = subprocess.run(
                [str(cold.BIN / "provision"), *arguments],
                cwd=project,
                env=environment,
                check=False,
            )
            if done.returncode:
                raise SystemExit(f"the project {project} could not be made")


@contextmanager
def ground(folder: Path, podman: Podman) -> Iterator[Ground]:
    """Runs the servers for the block."""
    folder.mkdir(parents=True, exist_ok=True)
    with serve(folder) as site:
        yield Ground(site, folder, podman)


def tutorial(ground: Ground, lab: locallab.Lab) -> dict[str, float]:
    """The tutorials' commands as one script over plain ssh; seconds to each point."""
    script = ground.folder / "tutorial.sh"
    text = (cold.WAYS / "tutorial.sh").read_text("utf-8")
    script.write_text(variables(ground.site, ground.kernel(lab)) + text, "utf-8")
    return cold.typed(lab, ground.folder / "tutorial.log", ("sudo -H bash -s", script))


def variables(site: Site, kernel: str) -> str:
    """The script's variables: URLs of the files that its reader would find at NVIDIA's."""
    installer = site.local_installer()
    values = {
        "ca": clients.CA,
        "kernel": kernel,
        "driver_url": str(site.runfile(BRANCH)["url"]),
        "pin_url": f"{site.cuda_url}/cuda-ubuntu2004.pin",
        "cuda_url": str(installer["url"]),
        "cuda_directory": str(installer["directory"]),
        "cuda_dashed": "11-2",
        "cuda": "/usr/local/cuda-11.2",
        "cudnn_url": str(site.cudnn()["url"]),
        "python": "python3.9",
        "tensorflow": "2.9.3",
        "devices": cold.proof.DEVICES,
        "fit": cold.proof.FIT,
    }
    return "".join(f"{key}={shlex.quote(value)}\n" for key, value in values.items())


def limits(ground: Ground, lab: locallab.Lab, say: Say) -> dict[str, float]:
    """What the resources take at least on the tutorials' host: downloads, archives, module."""
    installer, kernel = ground.site.local_installer(), ground.kernel(lab)
    urls = [str(ground.site.runfile(BRANCH)["url"]), str(installer["url"])]
    urls.append(str(ground.site.cudnn()["url"]))
    wget = ["wget", "--no-verbose", f"--ca-certificate={clients.CA}", "--directory-prefix=."]
    pip = "/root/tensorflow/bin/pip freeze >frozen; /root/tensorflow/bin/pip download --quiet "
    assignments = spending.variables(
        f"{shlex.join([*wget, *urls])}; {pip}--no-deps --no-input --dest wheels -r frozen",
        f"./*.deb {installer['directory']}/*.deb",
        "./*.tgz",
        "wheels/*.whl",
        f"dkms build --force -m nvidia -v {DRIVER} -k {kernel}",
    )
    return cold.limits(lab, ground.folder, assignments, say=say)


def run_way(
    ground: Ground, way: str, number: int, say: Say, least: dict[str, float] | None = None
) -> dict[str, Any]:
    """One way on a bare host: seconds to each point, the host's processor time, bytes received.

    `least` gets the limits, which are measured on the host afterwards.
    """
    lab = ground.host(f"{way}{number}", say)
    try:
        project = None if way == "tutorial" else ground.project(way, lab)
        received, used = ground.received(lab), ground.cpu(lab)
        figures = cold.playbook(project, ground.folder) if project else tutorial(ground, lab)
        figures["received"] = ground.received(lab) - received
        figures["cpu"] = round(ground.cpu(lab) - used, 1)
        if least is not None:
            least.update(limits(ground, lab, say))
    finally:
        lab.down()
    say(f"{way}: {figures}")
    return figures


def measure(ground: Ground, *, rounds: int, say: Say) -> dict[str, Any]:
    """Measures all ways round by round, every second round in reverse order."""
    results: dict[str, Any] = {way: [] for way in WAYS}
    least: dict[str, float] = {}
    for number in range(rounds):
        for way in WAYS[:: 1 if number % 2 == 0 else -1]:
            last = way == "tutorial" and number + 1 == rounds
            limits_into = least if last else None
            results[way].append(run_way(ground, way, number + 1, say, limits_into))
    return {**results, "limits": least}
