"""A host with docker or podman at work, to which the role nvidia_container_toolkit comes alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from provision import locallab
from tests.collection import GPU_STACK, own_project
from tests.ground import clients, deb, toolkit

ROLES = Path(__file__).parents[2] / "roles"
NAMES = toolkit.NAMES
CONFIG = "/etc/docker/daemon.json"
FOREIGN = {"storage-driver": "vfs", "log-driver": "json-file", "labels": ["rack=7"]}
# What a run must not change where it refuses; directories without their times.
PICTURE = (
    "dpkg-query -W -f '${db:Status-Abbrev}${Package}=${Version}\\n'; apt-mark showhold;"
    " find /etc /usr /run/provision -xdev -name __pycache__ -prune -o"
    " -type f -printf '%p %m %s %T@\\n' 2>/dev/null | sort;"
    " docker ps --quiet 2>/dev/null || true"
)
PLAN = """\
import json, sys
sys.path.insert(0, "/root/look")
from gpu_stack.components import nvidia_container_toolkit
from gpu_stack.host.context import Context
row, options = json.loads(sys.argv[1])
here = Context(options=options, row={"nvidia_container_toolkit": row})
here.platform = {"architecture": "x86_64"}
seen = nvidia_container_toolkit.look(here)
found = nvidia_container_toolkit.differ({"nvidia_container_toolkit": row}, seen, options)
print(json.dumps([[one["item"] for one in found], seen]))
"""
REMAINS = """\
import json, sys
sys.path.insert(0, "/root/look")
from gpu_stack import removal
from gpu_stack.host.context import Context
row = json.loads(sys.argv[1])
here = Context(row={"nvidia_container_toolkit": row})
ours = {"ours": sorted(row["packages"]["toolkit"])}
print(json.dumps([item for item, _ in removal.look(here, "nvidia_container_toolkit", ours)]))
"""


@dataclass
class Host:
    """A host with docker, the playbook that gives it the role, and the repository."""

    directory: Path
    lab: locallab.Lab
    site: toolkit.ToolkitSite

    def root(self, command: str) -> str:
        """What a command prints as root; it must succeed."""
        container = self.lab.hosts[0].container
        return self.lab.podman.call("exec", container, "bash", "-ec", command).strip()

    def put(self, path: str, text: str) -> None:
        container = self.lab.hosts[0].container
        arguments = ("exec", "--interactive", container, "sh", "-c", f"cat > {path}")
        self.lab.podman.call(*arguments, stdin=text.encode())

    def row(self, version: str) -> dict[str, Any]:
        """The part of a lock."""
        return {
            "version": version,
            "packages": {"toolkit": dict.fromkeys(NAMES, f"{version}-1")},
            "repository": self.site.repository(),
        }

    def play(
        self, version: str, *arguments: str, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        row = self.row(version)
        checksums = {
            name: toolkit_sha256(self.site, name, version) for name in row["packages"]["toolkit"]
        }
        given = {
            "nvidia_container_toolkit_version": version,
            "nvidia_container_toolkit_packages": row["packages"]["toolkit"],
            "nvidia_container_toolkit_repository": row["repository"],
            "nvidia_container_toolkit_checksums": checksums,
            "nvidia_container_toolkit_ca_bundle": clients.CA,
            **options,
        }
        return subprocess.run(
            [
                str(Path(sys.executable).parent / "ansible-playbook"), "-i", "hosts.yml",
                "toolkit.yml", "-e", json.dumps(given), *arguments,
            ],
            cwd=self.directory, capture_output=True, text=True, check=False,
            env={**os.environ, "ANSIBLE_CONFIG": str(self.directory / "ansible.cfg")},
        )  # fmt: skip

    def refused(self, *words: str, version: str = "1.17.8", **options: Any) -> None:
        """The run fails with these words, and the host is as it was."""
        before = self.root(PICTURE)
        done = self.play(version, **options)
        assert done.returncode != 0, done.stdout[-6000:]
        output = " ".join(done.stdout.replace("\\n", " ").split())
        assert [word for word in words if word not in output] == [], output[-3000:]
        assert self.root(PICTURE) == before

    def plan_without(self, version: str) -> Any:
        """What is left of it, as the plan of an absence names it; the ledger says all is ours."""
        container = self.lab.hosts[0].container
        asked = json.dumps(self.row(version))
        return json.loads(
            self.lab.podman.call(
                "exec", "--interactive", container, "python3", "-", asked, stdin=REMAINS.encode()
            )
        )

    def becomes(self, version: str) -> None:
        """One run, one that changes nothing, and an empty plan."""
        first = self.play(version)
        assert first.returncode == 0, first.stdout[-8000:] + first.stderr
        again = self.play(version)
        assert again.returncode == 0, again.stdout[-6000:]
        assert "changed=0" in again.stdout, again.stdout[-6000:]
        assert self.plan(version) == []

    def plan(self, version: str) -> Any:
        """Items of what a run would change."""
        return self.looked(version)[0]

    def seen(self, version: str) -> Any:
        """What the look finds of the toolkit."""
        return self.looked(version)[1]

    def looked(self, version: str) -> Any:
        container = self.lab.hosts[0].container
        options = {"nvidia_container_toolkit_ca_bundle": clients.CA}
        asked = json.dumps([self.row(version), options])
        return json.loads(
            self.lab.podman.call(
                "exec", "--interactive", container, "python3", "-", asked, stdin=PLAN.encode()
            )
        )

    def gives_gpus(self, version: str, package: str, **options: Any) -> None:
        """Docker comes as `package`, is configured and gives GPUs; a second run changes nothing."""
        state = f"dpkg-query -W -f '${{db:Status-Status}}' {package} 2>/dev/null || true"
        first = self.play(version, **options)
        assert first.returncode == 0, first.stdout[-6000:] + first.stderr
        assert self.root(state) == "installed"
        # What was in daemon.json before there was a docker is somebody's.
        runtime = {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}
        assert self.config() == {**FOREIGN, "runtimes": runtime}
        self.root("tar -C /root/tiny -c . | docker import - tiny")
        listed = "docker run --rm --gpus all tiny nvidia-smi -L"
        assert self.root(listed) == self.root("nvidia-smi -L")
        again = self.play(version, **options)
        assert again.returncode == 0, again.stdout[-6000:]
        assert "changed=0" in again.stdout, again.stdout[-6000:]

    def config(self) -> Any:
        return json.loads(self.root(f"cat {CONFIG}"))


def toolkit_sha256(site: toolkit.ToolkitSite, name: str, version: str) -> str:
    """What a lock would say of a package file."""
    file = site.web.root / toolkit.PLACE / f"{name}_{version}-1_amd64.deb"
    return deb.digests(file)["SHA256"]


@contextmanager
def started(
    directory: Path,
    *packages: str,
    platform: str = "debian11",
    prepare: str = "true",
    files: Mapping[str, str] = MappingProxyType({}),
    engine: str = "docker.io",
) -> Iterator[Host]:
    """A bare host with docker, these packages of its platform's and a foreign configuration.

    `files` are there before the packages; `prepare` is a command that makes of /root/tiny what is
    to be there. Without an `engine` docker does not come.
    """
    lab = locallab.up(
        f"toolkit-{platform}-{os.getpid()}",
        locallab.Shape(
            platform=platform,
            privileged=True,
            arguments=["--cgroupns=host"],
            volumes=["/sys/fs/cgroup:/sys/fs/cgroup:rw"],
        ),
        state_dir=directory / ".lab",
        hosts=["toolkit01"],
    )
    try:
        with toolkit.serve(directory) as site:
            inventory = lab.inventory(group="gpu")
            own_project(directory, inventory, toolkit="nvidia_container_toolkit")
            made = Host(directory, lab, site)
            made.put(clients.CA, site.ca.read_text("utf-8"))
            name = site.web.url.split("//")[1].split(":")[0]
            made.put("/etc/apt/apt.conf.d/99lab", f'Acquire::https::Proxy::{name} "DIRECT";\n')
            made.root("mkdir -p /root/look /etc/docker")
            for path, text in files.items():
                made.root(f"mkdir -p {os.path.dirname(path)}")
                made.put(path, text)
            lab.podman.call("cp", str(GPU_STACK), f"{lab.hosts[0].container}:/root/look/gpu_stack")
            made.put(CONFIG, json.dumps(FOREIGN, indent=2))
            made.root(
                f"chmod 640 {CONFIG};"
                # The driver that the lab's GPUs are simulated with: of Debian 11 not that of its
                # security archive.
                " sed -Ei 's/ (bullseye|(bookworm|trixie)(-security)?) main$/& contrib non-free/'"
                " /etc/apt/sources.list; apt-get -qq update; DEBIAN_FRONTEND=noninteractive"
                f" apt-get -qq install -y --no-install-recommends {engine} busybox-static"
                f" nvidia-smi {' '.join(packages)} > /dev/null;"
                f" {'docker info > /dev/null;' if engine else ''}"
                f" {toolkit.TINY} {prepare}"
            )
            yield made
    finally:
        lab.down()
