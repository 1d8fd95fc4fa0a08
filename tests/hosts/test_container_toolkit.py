"""The role nvidia_container_toolkit on a host whose docker is at work.

dockerd runs for real inside the host, which is a privileged container for that. The toolkit's
packages are stand-ins (tests/ground/toolkit.py) that hand over the host's simulated GPUs: what
containers list is simulated, all ways to it are docker's own. The tests build upon each other: the
first ones are refused, then there is the toolkit, then a newer version of it, and at the end none.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from provision import locallab
from tests.ground import told, toolkit

pytestmark = [pytest.mark.slow]

ROLES = Path(__file__).parents[2] / "roles"
NAMES = toolkit.NAMES
CONFIG = "/etc/docker/daemon.json"
FOREIGN = {"storage-driver": "vfs", "log-driver": "json-file", "labels": ["rack=7"]}
LIST = "/etc/apt/sources.list.d/nvidia-container-toolkit.list"
CONTAINER = "docker run --detach --name job tiny /bin/busybox sleep 100000"
# What a run must not change where it refuses; directories without their times.
PICTURE = (
    "dpkg-query -W -f '${db:Status-Abbrev}${Package}=${Version}\\n'; apt-mark showhold;"
    " find /etc /usr /run/provision -xdev -name __pycache__ -prune -o"
    " -type f -printf '%p %m %s %T@\\n' 2>/dev/null | sort; docker ps --quiet"
)
PLAN = """\
import json, sys
sys.path.insert(0, "/root/look")
from gpu_stack import nvidia_container_toolkit
from gpu_stack.context import Context
row, options = json.loads(sys.argv[1])
here = Context(options=options, row={"nvidia_container_toolkit": row})
here.platform = {"architecture": "x86_64"}
found = nvidia_container_toolkit.differ(row, nvidia_container_toolkit.look(here), options)
print(json.dumps([one["item"] for one in found]))
"""
REMAINS = """\
import json, sys
sys.path.insert(0, "/root/look")
from gpu_stack import removal
from gpu_stack.context import Context
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
        one = self.lab.hosts[0].container
        return self.lab.podman.call("exec", one, "bash", "-ec", command).strip()

    def put(self, path: str, text: str) -> None:
        one = self.lab.hosts[0].container
        arguments = ("exec", "--interactive", one, "sh", "-c", f"cat > {path}")
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
            "nvidia_container_toolkit_ca_bundle": told.CA,
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
        said = " ".join(done.stdout.replace("\\n", " ").split())
        assert [word for word in words if word not in said] == [], said[-3000:]
        assert self.root(PICTURE) == before

    def plan_without(self, version: str) -> Any:
        """What is left of it, as the plan of an absence names it; the ledger says all is ours."""
        one = self.lab.hosts[0].container
        asked = json.dumps(self.row(version))
        return json.loads(
            self.lab.podman.call(
                "exec", "--interactive", one, "python3", "-", asked, stdin=REMAINS.encode()
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
        one = self.lab.hosts[0].container
        options = {"nvidia_container_toolkit_ca_bundle": told.CA}
        asked = json.dumps([self.row(version), options])
        return json.loads(
            self.lab.podman.call(
                "exec", "--interactive", one, "python3", "-", asked, stdin=PLAN.encode()
            )
        )

    def config(self) -> Any:
        return json.loads(self.root(f"cat {CONFIG}"))


def toolkit_sha256(site: toolkit.ToolkitSite, name: str, version: str) -> str:
    """What a lock would say of a package file."""
    from tests.ground import deb

    file = site.web.root / toolkit.PLACE / f"{name}_{version}-1_amd64.deb"
    return deb.digests(file)["SHA256"]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A bare Debian 11 with its own docker, a foreign configuration and a tiny image."""
    directory = tmp_path_factory.mktemp("toolkit")
    lab = locallab.up(
        f"toolkit-{os.getpid()}", state_dir=directory / ".lab", hosts=["toolkit01"],
        privileged=True, arguments=["--cgroupns=host"],
        volumes=["/sys/fs/cgroup:/sys/fs/cgroup:rw"],
    )  # fmt: skip
    try:
        with toolkit.serve(directory) as site:
            (directory / "hosts.yml").write_text(yaml.safe_dump(lab.inventory(group="gpu")))
            (directory / "ansible.cfg").write_text(
                f"[defaults]\nroles_path = {ROLES}\n[ssh_connection]\npipelining = True\n"
            )
            (directory / "toolkit.yml").write_text(
                "- hosts: gpu\n  become: true\n  gather_facts: false\n"
                "  roles: [nvidia_container_toolkit]\n"
            )
            made = Host(directory, lab, site)
            made.put(told.CA, site.ca.read_text("utf-8"))
            name = site.web.url.split("//")[1].split(":")[0]
            made.put("/etc/apt/apt.conf.d/99lab", f'Acquire::https::Proxy::{name} "DIRECT";\n')
            made.root("mkdir -p /root/look /etc/docker")
            look = ROLES / "gpu_state" / "module_utils" / "gpu_stack"
            lab.podman.call("cp", str(look), f"{lab.hosts[0].container}:/root/look/gpu_stack")
            made.put(CONFIG, json.dumps(FOREIGN, indent=2))
            made.root(
                f"chmod 640 {CONFIG};"
                " sed -i 's/ bullseye main$/& contrib non-free/' /etc/apt/sources.list;"
                " apt-get -qq update; DEBIAN_FRONTEND=noninteractive"
                " apt-get -qq install -y --no-install-recommends"
                " docker.io busybox-static nvidia-smi > /dev/null; docker info > /dev/null"
            )
            made.root(f"{toolkit.TINY} tar -C /root/tiny -c . | docker import - tiny")
            yield made
    finally:
        lab.down()


def test_a_configuration_that_is_no_json_is_refused_and_kept(host: Host) -> None:
    host.put(CONFIG, "{broken")
    host.refused("daemon.json is not JSON", "python3 -m json.tool")
    assert host.root(f"cat {CONFIG}") == "{broken"
    host.put(CONFIG, json.dumps(FOREIGN, indent=2))


def test_containers_that_would_be_lost_stop_it_before_anything_is_touched(host: Host) -> None:
    host.root(CONTAINER)
    host.refused("running containers would be lost (1)", "systemctl reload docker")


def test_a_package_that_is_not_the_locked_one_is_not_installed(host: Host) -> None:
    wrong = dict.fromkeys(NAMES, "0" * 64)
    options = {"nvidia_container_toolkit_checksums": wrong}
    done = host.play("1.17.8", **options, nvidia_container_toolkit_docker="none")
    assert done.returncode != 0
    assert "the package source offers SHA-256" in " ".join(done.stdout.split())
    assert host.root("dpkg-query -W 'nvidia-container*' 2>&1 || true").count("1.17.8") == 0


def test_with_live_restore_docker_gets_the_runtime_and_the_container_lives(host: Host) -> None:
    host.put(CONFIG, json.dumps({**FOREIGN, "live-restore": True}, indent=2))
    host.root("systemctl reload docker")
    host.put(LIST, f"deb {host.site.repository()['url']} /\n")
    job = host.root("docker inspect --format '{{.State.Pid}}' job")
    before = host.root("cat /run/docker.pid")
    host.becomes("1.17.8")
    assert host.root("docker inspect --format '{{.State.Pid}}' job") == job
    assert host.root("cat /run/docker.pid") != before
    runtimes = {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}
    assert host.config() == {**FOREIGN, "live-restore": True, "runtimes": runtimes}
    assert host.root(f"stat -c %a {CONFIG}") == "640"
    saved = json.loads(host.root(f"cat {CONFIG}.provision-saved"))
    assert saved == {**FOREIGN, "live-restore": True}
    assert "nvidia" in json.loads(host.root("docker info --format '{{json .Runtimes}}'"))
    assert set(NAMES) <= set(host.root("apt-mark showhold").split())
    assert host.root(f"ls {LIST}*") == f"{LIST}.provision-saved"


def test_containers_list_the_hosts_simulated_gpus(host: Host) -> None:
    """`--gpus` needs a dockerd that was started with the hook in place."""
    host.root(f"rm -f {toolkit.LOG}")
    gpus = host.root("nvidia-smi -L")
    assert gpus.count("GPU-") == 2
    run, asked = "docker run --rm", "tiny /bin/sh -c 'nvidia-smi -L; cat /etc/gpu-simulated'"
    said = host.root(f"{run} --gpus all {asked}")
    assert said.startswith(gpus), said
    assert "SIMULATED" in said
    assert "nvidia-container-runtime-hook prestart" in host.root(f"cat {toolkit.LOG}")
    said = host.root(f"{run} --gpus device=1 tiny nvidia-smi -L")
    assert said == gpus.splitlines()[1].replace("GPU 1:", "GPU 0:")
    host.root(f"rm -f {toolkit.LOG}")
    said = host.root(f"{run} --runtime nvidia -e NVIDIA_VISIBLE_DEVICES=all {asked}")
    assert said.startswith(gpus), said
    assert "nvidia-container-runtime " in host.root(f"cat {toolkit.LOG}")
    without = host.root(
        f"{run} tiny /bin/sh -c 'nvidia-smi -L; cat /etc/gpu-simulated' 2>&1 || true"
    )
    assert "GPU-" not in without


def test_a_newer_version_restarts_nobody(host: Host) -> None:
    """The hook is there and the entry is right: docker finds both, and goes on."""
    before = host.root("cat /run/docker.pid")
    host.becomes("1.20.1")
    assert host.root("cat /run/docker.pid") == before
    shown = host.root("dpkg-query -W -f '${Version} ${db:Status-Want}\\n' " + " ".join(NAMES))
    assert set(shown.splitlines()) == {"1.20.1-1 hold"}


GONE = {"nvidia_container_toolkit_state": "absent"}
LAST = "1.20.1"


def test_a_container_with_gpus_keeps_the_toolkit(host: Host) -> None:
    host.root("docker run --detach --gpus all --name training tiny /bin/busybox sleep 100000")
    host.refused("given GPUs by the toolkit", "training", version=LAST, **GONE)
    host.root("docker rm --force training")


def test_dockers_default_runtime_keeps_it_too(host: Host) -> None:
    config = host.config()
    host.put(CONFIG, json.dumps({**config, "default-runtime": "nvidia"}))
    host.refused("names nvidia as its default-runtime", version=LAST, **GONE)
    host.put(CONFIG, json.dumps(config, indent=4))


def test_it_goes_and_no_container_notices(host: Host) -> None:
    """The container that lives since the beginning has no GPUs; dockerd is the same one."""
    remains = host.plan_without(LAST)
    assert set(NAMES) < set(remains)
    assert f"{CONFIG} runtimes.nvidia" in remains
    job = host.root("docker inspect --format '{{.State.Pid}}' job")
    before = host.root("cat /run/docker.pid")
    dry = host.play(LAST, "--check", **GONE)
    assert dry.returncode == 0, dry.stdout[-6000:]
    assert host.plan_without(LAST) == remains
    done = host.play(LAST, **GONE)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr
    assert host.config() == {**FOREIGN, "live-restore": True}
    assert host.plan_without(LAST) == []
    assert "nvidia" not in host.root("docker info --format '{{json .Runtimes}}'")
    assert host.root("docker inspect --format '{{.State.Pid}}' job") == job
    assert host.root("cat /run/docker.pid") == before
    shown = host.root("dpkg-query -W -f '${db:Status-Status}\\n' " + " ".join(NAMES) + " || true")
    assert "installed" not in shown.split()
    assert host.root("apt-mark showhold") == ""
    again = host.play(LAST, **GONE)
    assert again.returncode == 0, again.stdout[-6000:]
    assert "changed=0" in again.stdout, again.stdout[-6000:]


def test_and_it_comes_back(host: Host) -> None:
    host.becomes(LAST)
