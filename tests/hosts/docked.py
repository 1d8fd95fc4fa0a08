"""A host with a docker of its own, and a project whose stack has the container toolkit."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import yaml

from provision import locallab
from provision.locallab import cudnn_archive
from provision.locallab.machine import cache_directory
from tests.ground import clients, toolkit
from tests.hosts import toolkit_host
from tests.hosts.conftest import BIN, Project
from tests.hosts.toolkit_host import CONFIG

HOST = "containers1"
# What somebody has in daemon.json. Its volume is not on podman's own overlay, so docker can lay one
# there, and copies no image for a container.
FOREIGN = {**toolkit_host.FOREIGN, "storage-driver": "overlay2"}
# As somebody who owns the host: docker, a configuration, a user who may ask docker, an image.
DOCKER = f"""\
set -e
export DEBIAN_FRONTEND=noninteractive
mkdir -p /etc/docker
cat > {CONFIG}
apt-get -qq update
apt-get -qq install -y --no-install-recommends docker.io busybox-static >/dev/null
usermod --append --groups docker "$1"
{toolkit.TINY}tar -C /root/tiny -c . | docker import - tiny
"""


class Docked(Project):
    """One host with docker, and the repository that the toolkit comes from."""

    stack: ClassVar[dict[str, Any]] = {}  # what is wished beside that
    site: toolkit.ToolkitSite
    proof: Any  # what the report of the last run that proved the host says of it

    def root(self, *command: str, stdin: str = "") -> str:
        """What a command prints as root; it must succeed."""
        container = self.lab.hosts[0].container
        arguments = ("exec", "--interactive", container, *command)
        return self.lab.podman.call(*arguments, stdin=stdin.encode()).strip()

    def lock(self) -> None:
        """The inventory is written, locked from the site and rendered."""
        archive = cudnn_archive.pack(cache_directory())
        cudnn = {"version": archive.version, "cuda": archive.cuda, "sha256": archive.sha256}
        inventory = self.lab.inventory("gpu_hosts")
        stack = {"tensorflow": "2.9", "cudnn": cudnn, "container_toolkit": True, **self.stack}
        inventory["gpu_hosts"].setdefault("vars", {}).update(
            {
                "gpu_stack": stack,
                "cudnn_controller_file": str(archive.path),
                "nvidia_container_toolkit_ca_bundle": clients.CA,
                "tensorflow_cache_dir": "/var/cache/lab/pip",
            }
        )
        (self.path / "lab").mkdir(parents=True)
        (self.path / "lab" / "hosts.yml").write_text(yaml.safe_dump(inventory), "utf-8")
        key = self.path / "toolkit.asc"
        key.write_text(self.site.key.armored, "ascii")
        trusted = self.path / "trusted.pem"
        both = clients.SYSTEM_CA.read_text("utf-8") + self.site.ca.read_text("utf-8")
        trusted.write_text(both, "utf-8")
        self.relock()

    def relock(self) -> None:
        """The lock anew, and the project of it."""
        key, trusted = self.path / "toolkit.asc", self.path / "trusted.pem"
        mirror = ("--nvidia-mirror", self.site.web.url, "--nvidia-key", key.name)
        for arguments in (("lock", *mirror), ("render", ".")):
            done = subprocess.run(
                [str(BIN / "provision"), *arguments], cwd=self.path, text=True, check=False,
                capture_output=True, env={**os.environ, "SSL_CERT_FILE": str(trusted)},
            )  # fmt: skip
            assert done.returncode == 0, done.stdout + done.stderr

    def proven(self, *arguments: str) -> Any:
        """One run, an empty plan after it, and what the run's report says of the host."""
        done = self.provision("apply", "-i", "lab", *arguments)
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
        self.proof = self.report["hosts"][HOST]
        assert self.proof["status"] == "proven", json.dumps(self.proof, indent=1)[-4000:]
        plan = self.provision("plan", "-i", "lab", *arguments)
        assert plan.returncode == 0, plan.stdout[-4000:] + plan.stderr[-3000:]
        return self.proof

    def config(self) -> Any:
        return json.loads(self.root("cat", CONFIG))

    def runtimes(self) -> Any:
        return json.loads(self.root("docker", "info", "--format", "{{json .Runtimes}}"))

    def results(self, component: str) -> dict[str, str]:
        """{check: its result} of a component's checks in the last run that proved the host."""
        checks = {check["id"]: check["result"] for check in self.proof["checks"]}
        return {check: checks[check] for check in checks if check.startswith(component + ".")}


Made = TypeVar("Made", bound=Docked)


@contextmanager
def docked(directory: Path, name: str, kind: type[Made]) -> Iterator[Made]:
    """A bare host with docker and a foreign configuration, locked and rendered, never run."""
    lab = locallab.up(
        f"{name}-{os.getpid()}",
        locallab.Shape(
            privileged=True,
            arguments=["--cgroupns=host"],
            volumes=["/sys/fs/cgroup:/sys/fs/cgroup:rw", "/var/lib/docker"],
        ),
        state_dir=directory / ".lab",
        hosts=[HOST],
    )
    try:
        with toolkit.serve(directory) as site:
            made = kind(directory / "project", lab)
            made.site = site
            made.lock()
            made.root("sh", "-c", f"cat > {clients.CA}", stdin=site.ca.read_text("utf-8"))
            address = site.web.url.split("//")[1].split(":")[0]
            direct = f'Acquire::https::Proxy::{address} "DIRECT";\n'
            made.root("sh", "-c", "cat > /etc/apt/apt.conf.d/99lab", stdin=direct)
            text = json.dumps(FOREIGN, indent=2)
            made.root("sh", "-c", DOCKER, "sh", lab.hosts[0].user, stdin=text)
            yield made
    finally:
        lab.down()
