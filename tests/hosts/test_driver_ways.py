"""Each way to a driver, from one to the other, and from one branch to the next and back.

A host with Ubuntu's identity (over Debian's userland) and no kernel of its own: what is shown here
is the userspace part, from real web servers over TLS; the module's is in test_dkms.py. Each step is
one run, after which a second one changes nothing and the look finds nothing to do.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from provision import locallab
from tests.collection import GPU_STACK, own_project
from tests.ground import Site, clients, serve

pytestmark = [pytest.mark.slow]
# Rules of the preflight that something here trips: docs/mutants.md.
TRIPS = ("driver-method", "packaged-driver")

CA = clients.CA
LIBCUDA = "basename $(readlink -f /usr/lib/x86_64-linux-gnu/libcuda.so.1)"
VERSIONS = {"470": "470.256.02", "535": "535.261.03"}

PLAN = """\
import json, sys
sys.path.insert(0, "/root/look")
from gpu_stack.components import nvidia_driver
from gpu_stack.host.context import Context
row, options = json.loads(sys.argv[1])
here = Context(options=options, row={"nvidia_driver": row})
here.platform, here.container = {"architecture": "x86_64"}, True
found = nvidia_driver.differ({"nvidia_driver": row}, nvidia_driver.look(here), options)
print(json.dumps([one["item"] for one in found]))
"""


@dataclass
class Host:
    """A host, the playbook that gives it the role, and what the proving ground serves."""

    directory: Path
    lab: locallab.Lab
    site: Site
    ubuntu: dict[str, Any] = field(default_factory=dict)

    def ask(self, command: str) -> str:
        entry = self.lab.hosts[0]
        done = subprocess.run(
            ["podman", "exec", entry.container, "bash", "-c", command],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def play(self, row: dict[str, Any], **options: Any) -> subprocess.CompletedProcess[str]:
        """One run of the role for a row of a lock."""
        given = {f"nvidia_driver_{name}": value for name, value in row.items()}
        given |= {"nvidia_driver_ca_bundle": CA} | options
        return subprocess.run(
            [
                str(Path(sys.executable).parent / "ansible-playbook"), "-i", "hosts.yml",
                "driver.yml", "-e", json.dumps(given),
            ],
            cwd=self.directory, capture_output=True, text=True, check=False,
            env={**os.environ, "ANSIBLE_CONFIG": str(self.directory / "ansible.cfg")},
        )  # fmt: skip

    def refused(self, row: dict[str, Any], **options: Any) -> str:
        done = self.play(row, **options)
        assert done.returncode != 0, done.stdout[-6000:]
        return " ".join(done.stdout.replace("\\n", " ").split())

    def becomes(self, row: dict[str, Any], **options: Any) -> None:
        """One run, then one that changes nothing, and an empty plan."""
        first = self.play(row, **options)
        assert first.returncode == 0, first.stdout[-8000:] + first.stderr
        again = self.play(row)
        assert again.returncode == 0, again.stdout[-6000:]
        assert "changed=0" in again.stdout, again.stdout[-6000:]
        found = self.plan(row)
        assert found == [], found
        assert self.ask(LIBCUDA) == f"libcuda.so.{row['version']}"

    def plan(self, row: dict[str, Any]) -> Any:
        entry = self.lab.hosts[0]
        done = subprocess.run(
            ["podman", "exec", "-i", entry.container, "python3", "-", json.dumps([row, {}])],
            input=PLAN, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return json.loads(done.stdout)

    def run_file(self, branch: str) -> dict[str, Any]:
        return {
            "branch": branch,
            "version": VERSIONS[branch],
            "source": "runfile",
            "packages": {},
            "runfile": self.site.runfile(branch),
        }

    def packages(self, branch: str, flavour: str, revision: str) -> dict[str, str]:
        names = ("libnvidia-compute", "libnvidia-cfg1", "nvidia-utils", "nvidia-compute-utils")
        return {f"{name}-{branch}{flavour}": f"{VERSIONS[branch]}-{revision}" for name in names}

    def server(self, branch: str) -> dict[str, Any]:
        """Canonical's -server packages."""
        userspace = self.packages(branch, "-server", "0ubuntu0.20.04.1")
        return {
            "branch": branch,
            "version": VERSIONS[branch],
            "packages": {"userspace": userspace, "kernel": {}},
        }

    def network(self, branch: str) -> dict[str, Any]:
        userspace = self.packages(branch, "", "0ubuntu1")
        return {
            "branch": branch,
            "version": VERSIONS[branch],
            "source": "network",
            "packages": {"userspace": userspace, "kernel": {}},
            "repository": self.site.cuda_repository(),
        }


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A bare host that trusts the proving ground's certificate, and has Canonical's archive."""
    directory = tmp_path_factory.mktemp("ways")
    lab = locallab.up(
        f"ways-{os.getpid()}",
        locallab.Shape(platform="ubuntu2004", with_gpu=False),
        state_dir=directory / ".lab",
        hosts=["ways01"],
    )
    try:
        with serve(directory, releases=()) as site:
            own_project(directory, lab.inventory(group="gpu"), driver="nvidia_driver")
            made = Host(directory, lab, site, site.ubuntu())
            container = lab.hosts[0].container
            subprocess.run(["podman", "cp", str(site.ca), f"{container}:{CA}"], check=True)
            made.ask("mkdir -p /root/look")
            subprocess.run(
                ["podman", "cp", str(GPU_STACK), f"{container}:/root/look/gpu_stack"],
                check=True,
            )
            key = directory / "ubuntu.asc"
            key.write_text(made.ubuntu["key"])
            subprocess.run(["podman", "cp", str(key), f"{container}:/etc/ubuntu.asc"], check=True)
            name = site.url.split("//")[1].split(":")[0]
            made.ask(
                "echo 'deb [signed-by=/etc/ubuntu.asc] "
                f"{made.ubuntu['url']} focal main restricted' > /etc/apt/sources.list.d/u.list; "
                f"sed 's/ focal / focal-updates /' -i.was /etc/apt/sources.list.d/u.list; "
                "cat /etc/apt/sources.list.d/u.list.was >> /etc/apt/sources.list.d/u.list; "
                "rm /etc/apt/sources.list.d/u.list.was; chmod a+r /etc/ubuntu.asc "
                f'{CA}; echo \'Acquire::https::{name}::CaInfo "{CA}"; '
                f"Acquire::https::Proxy::{name} DIRECT;' > /etc/apt/apt.conf.d/99lab"
            )
            yield made
    finally:
        lab.down()


def test_another_file_is_reported_before_anything_is_touched(host: Host) -> None:
    row = host.run_file("470")
    wrong = {**row, "runfile": {**row["runfile"], "sha256": "0" * 64}}
    assert "another SHA-256" in host.refused(wrong)
    host.site.web.login_wall(host.site.path(row["runfile"]["url"]))
    try:
        assert "an HTML page came instead" in host.refused(row)
    finally:
        host.site.web.instead.clear()
    message = host.refused(row, nvidia_driver_runfile_url=host.site.url + "/absent.run")
    assert "could not be fetched" in message
    assert host.ask("ls /usr/bin/nvidia-* /var/tmp/provision-* 2>/dev/null | wc -l") == "0"


def test_the_run_file_and_the_next_branch_and_back(host: Host) -> None:
    for branch in ("470", "535", "470"):
        host.becomes(host.run_file(branch))
    assert "NVIDIA System Management Interface -- v470." in host.ask("nvidia-smi --help")
    # A file that went missing comes back.
    host.ask("rm /usr/bin/nvidia-smi")
    assert host.plan(host.run_file("470")) == ["/usr/bin/nvidia-smi"]
    host.becomes(host.run_file("470"), nvidia_driver_reinstall=["driver (.run)"])
    host.ask("test -x /usr/bin/nvidia-smi")
    # Packages of a driver are kept away.
    policy = host.ask("apt-get update >/dev/null; apt-cache policy libnvidia-compute-470-server")
    assert "Candidate: (none)" in policy


def test_canonicals_packages_take_the_run_files_place_only_when_told(host: Host) -> None:
    row = host.server("470")
    message = host.refused(row)
    assert "nvidia-uninstall removes it" in message
    assert 'nvidia_driver_switch to "switch"' in message
    host.becomes(row, nvidia_driver_switch="switch")
    host.ask("test ! -e /usr/bin/nvidia-uninstall && test ! -e /var/lib/nvidia")


def test_the_next_branch_and_back_are_one_run_each(host: Host) -> None:
    for branch, other in (("535", "470"), ("470", "535")):
        host.becomes(host.server(branch))
        installed = host.ask("dpkg-query -W -f '${db:Status-Abbrev} ${Package}\\n' | grep ^hi")
        assert f"-{branch}-server" in installed
        assert f"-{other}" not in installed


def test_nvidias_repository_takes_canonicals_place_only_when_told(host: Host) -> None:
    row = host.network("535")
    assert "the platform's packages" in host.refused(row)
    host.becomes(row, nvidia_driver_switch="switch")
    host.ask("test ! -e /usr/share/keyrings/provision-cuda.asc")
    # CUDA's metapackage, and with it whatever driver is the newest, stays where it is.
    policy = host.ask("apt-cache policy cuda-drivers | grep Candidate:")
    assert policy.split() == ["Candidate:", "(none)"]
    host.becomes(host.network("470"))


def test_a_repository_that_is_signed_wrong_is_reported_and_taken_away(host: Host) -> None:
    host.site.spoil("wrong-key")
    try:
        host.ask("rm /etc/apt/sources.list.d/provision-nvidia-driver-repository.sources")
        message = host.refused(host.network("470"))
        assert "apt cannot use NVIDIA's repository" in message
        assert "NO_PUBKEY" in message
        host.ask("! ls /etc/apt/sources.list.d/ | grep repository; apt-get update")
    finally:
        host.site.spoil("none")
    host.becomes(host.network("470"))


def test_back_to_the_run_file(host: Host) -> None:
    row = host.run_file("535")
    assert "libnvidia-compute-470" in host.refused(row)
    host.becomes(row, nvidia_driver_switch="switch")
    left = host.ask(
        "dpkg-query -W -f '${db:Status-Abbrev} ${Package}\\n' '*nvidia*' | grep ^.i || true"
    )
    assert left == ""
    host.ask("! ls /etc/apt/sources.list.d/ | grep nvidia-driver")
