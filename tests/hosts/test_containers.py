"""A host whose stack has the container toolkit, from bare to proven, with a docker of its own.

dockerd runs for real inside the host. The toolkit's packages are stand-ins from a repository that
is signed as NVIDIA's is (tests/ground/toolkit.py); they hand over the host's simulated GPUs, so
what a container lists is simulated too. All else is the ordinary stack.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from conftest import BIN, Project

from provision import locallab
from provision.locallab import cudnn_archive
from provision.locallab.machine import cache_directory
from tests.ground import told, toolkit

pytestmark = [pytest.mark.slow]

HOST = "containers1"
CONFIG = "/etc/docker/daemon.json"
FOREIGN = {"storage-driver": "vfs", "log-driver": "json-file", "labels": ["rack=7"]}
GONE = ("-e", "nvidia_container_toolkit_state=absent")
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

    site: toolkit.ToolkitSite
    proof: Any  # what the report of the last run that proved the host says of it

    def root(self, *command: str, stdin: str = "") -> str:
        """What a command prints as root; it must succeed."""
        one = self.lab.hosts[0].container
        arguments = ("exec", "--interactive", one, *command)
        return self.lab.podman.call(*arguments, stdin=stdin.encode()).strip()

    def lock(self) -> None:
        """The inventory is written, locked from the site and rendered."""
        archive = cudnn_archive.pack(cache_directory())
        cudnn = {"version": archive.version, "cuda": archive.cuda, "sha256": archive.sha256}
        inventory = self.lab.inventory("gpu_hosts")
        inventory["gpu_hosts"].setdefault("vars", {}).update(
            {
                "gpu_stack": {"tensorflow": "2.9", "cudnn": cudnn, "container_toolkit": True},
                "cudnn_controller_file": str(archive.path),
                "nvidia_container_toolkit_ca_bundle": told.CA,
                "tensorflow_cache_dir": "/var/cache/lab/pip",
            }
        )
        (self.path / "lab").mkdir(parents=True)
        (self.path / "lab" / "hosts.yml").write_text(yaml.safe_dump(inventory), "utf-8")
        key = self.path / "toolkit.asc"
        key.write_text(self.site.key.armored, "ascii")
        trusted = self.path / "trusted.pem"
        both = told.SYSTEM_CA.read_text("utf-8") + self.site.ca.read_text("utf-8")
        trusted.write_text(both, "utf-8")
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

    def results(self) -> dict[str, str]:
        """{check: its result} of the toolkit's checks in the last run that proved the host."""
        checks = {one["id"]: one["result"] for one in self.proof["checks"]}
        return {one: checks[one] for one in checks if one.startswith("nvidia_container_toolkit.")}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Docked]:
    directory = tmp_path_factory.mktemp("containers")
    lab = locallab.up(
        f"containers-{os.getpid()}", state_dir=directory / ".lab", hosts=[HOST],
        privileged=True, arguments=["--cgroupns=host"],
        volumes=["/sys/fs/cgroup:/sys/fs/cgroup:rw"],
    )  # fmt: skip
    try:
        with toolkit.serve(directory) as site:
            made = Docked(directory / "project", lab)
            made.site = site
            made.lock()
            made.root("sh", "-c", f"cat > {told.CA}", stdin=site.ca.read_text("utf-8"))
            name = site.web.url.split("//")[1].split(":")[0]
            direct = f'Acquire::https::Proxy::{name} "DIRECT";\n'
            made.root("sh", "-c", "cat > /etc/apt/apt.conf.d/99lab", stdin=direct)
            text = json.dumps(FOREIGN, indent=2)
            made.root("sh", "-c", DOCKER, "sh", lab.hosts[0].user, stdin=text)
            yield made
    finally:
        lab.down()


def test_the_stack_with_the_toolkit_is_proven_in_one_run(host: Docked) -> None:
    found = host.proven()
    assert "nvidia_container_toolkit" in found["components"]
    assert found["found"]["nvidia_container_toolkit"] == "1.20.1"
    # There is no podman, so nobody reads a CDI specification.
    assert host.results() == {
        "nvidia_container_toolkit.packages": "passed",
        "nvidia_container_toolkit.docker": "passed",
        "nvidia_container_toolkit.cdi": "not_applicable",
    }
    runtime = {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}
    assert host.config() == {**FOREIGN, "runtimes": runtime}
    assert "nvidia" in host.runtimes()
    said = host.root("docker", "run", "--rm", "--gpus", "all", "tiny", "nvidia-smi", "-L")
    assert said == host.root("nvidia-smi", "-L")
    assert said.count("GPU-") == 2
    assert "nvidia-container-runtime-hook prestart" in host.root("cat", toolkit.LOG)


def test_the_doctor_names_a_configuration_that_was_overwritten_and_cures_it(host: Docked) -> None:
    host.root("sh", "-c", f"cat > {CONFIG}; systemctl restart docker", stdin=json.dumps(FOREIGN))
    asked = host.provision("doctor", "-i", "lab")
    assert asked.returncode == 5, asked.stdout + asked.stderr
    assert "names no runtime nvidia" in asked.stdout
    cured = host.provision("doctor", "-i", "lab", "--fix")
    assert cured.returncode == 0, cured.stdout + cured.stderr
    assert "nvidia" in host.runtimes()
    again = host.provision("doctor", "-i", "lab")
    assert again.returncode == 0, again.stdout + again.stderr


def test_it_can_be_wished_away_and_back(host: Docked) -> None:
    asked = ["docker", "run", "--detach", "--gpus", "all", "--name", "training"]
    host.root(*asked, "tiny", "/bin/busybox", "sleep", "100000")
    refused = host.provision("apply", "-i", "lab", *GONE)
    assert refused.returncode == 4, refused.stdout + refused.stderr
    assert "wished away: training" in " ".join(refused.stdout.split())
    assert "nvidia" in host.runtimes()
    host.root("docker", "rm", "--force", "training")
    daemon = host.root("cat", "/run/docker.pid")
    gone = host.proven(*GONE)
    assert list(gone["components"]) == ["nvidia_container_toolkit"]
    assert set(host.results().values()) == {"not_applicable"}, host.results()
    assert host.config() == FOREIGN
    assert "nvidia" not in host.runtimes()
    assert host.root("cat", "/run/docker.pid") == daemon
    host.proven()
    assert "nvidia" in host.runtimes()
