"""Three bare hosts to proven from a bundle on a disk, in a network that leads nowhere.

Each host's way out ends in a cable of its own that leads nowhere and counts what it is given; of
the network only the controller is left, for SSH. So a packet to anybody else, a question for a name
among them, is counted.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from conftest import Project

from provision import locallab

pytestmark = [pytest.mark.slow]
# Rules of the preflight that something here trips: docs/mutants.md.
TRIPS = ("bundle",)

HOSTS = ("bundle1", "bundle2", "bundle3")
# The driver and Python of the platform's own, CUDA and cuDNN as wheels.
WISH = """\
gpu_stack: {tensorflow: "2.21"}
gpu_platform: debian13
"""
# The bundle's disk, in the hosts.
DISK = "/media/lab"
# In the host's network alone. Without IPv6, which speaks up by itself.
NOWHERE = """
set -eu
ip link add nowhere type veth peer name end
for end in nowhere end; do
    sysctl -qw "net.ipv6.conf.$end.disable_ipv6=1" || true
    ip link set "$end" arp off up
done
controller=$(ip -4 route show default | awk '{print $3; exit}')
ip route add "$controller" dev eth0
ip -4 route show dev eth0 scope link | awk -v c="$controller" '$1 != c {print $1}' |
    while read -r net; do ip route del "$net" dev eth0; done
ip route del default
ip route add default dev nowhere
"""
COUNT = "cat /sys/class/net/nowhere/statistics/tx_packets"
# What a run may not change: somebody's own sources, and where they come from.
OWN = (
    "cat /etc/apt/sources.list; ls /etc/apt/sources.list.d /var/lib/apt/lists | grep -v ^provision-"
)


@dataclass
class Cut:
    """A project whose hosts have a bundle and no network."""

    project: Project
    bundle: Path

    def count(self) -> dict[str, int]:
        """Packets that each host would have sent to others."""
        return {name: int(self.project.ssh(name, COUNT)) for name in HOSTS}


def cut_off(lab: locallab.Lab) -> None:
    """Takes the way out from each host of the lab; resolv.conf names a server behind it."""
    for host in lab.hosts:
        pid = lab.podman.call("inspect", "--format", "{{.State.Pid}}", host.container).strip()
        lab.podman.as_root("nsenter", "-t", pid, "-n", "sh", "-c", NOWHERE)
        words = "echo nameserver 192.0.2.53 > /etc/resolv.conf"
        lab.podman.call("exec", host.container, "sh", "-c", words)


def prepared(path: Path, name: str, hosts: tuple[str, ...], disk: Path) -> Project:
    """Bare hosts with an empty disk, and an inventory of them."""
    disk.mkdir(parents=True)
    locallab.sweep()
    (path / "lab/group_vars").mkdir(parents=True)
    shape = locallab.Shape(platform="debian13", volumes=[f"{disk}:{DISK}:ro"])
    lab = locallab.up(name, shape, state_dir=path / ".lab", hosts=list(hosts), with_cache=False)
    (path / "lab/hosts.yml").write_text(yaml.safe_dump(lab.inventory("gpu_hosts")), "utf-8")
    (path / "lab/group_vars/gpu_hosts.yml").write_text(WISH, "utf-8")
    return Project(path, lab)


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cut]:
    folder = tmp_path_factory.mktemp("bundle")
    project = prepared(folder / "project", "test-bundle", HOSTS, folder / "disk")
    try:
        for command in (["lock"], ["render", "."]):
            done = project.provision(*command)
            assert done.returncode == 0, done.stdout + done.stderr
        done = project.provision("bundle", str(folder / "disk"), "--unsigned")
        assert done.returncode == 0, done.stdout + done.stderr
        cut_off(project.lab)
        yield Cut(project, folder / "disk")
    finally:
        project.lab.down()
        shutil.rmtree(folder, ignore_errors=True)


def refused(cut: Cut, wish: str) -> str:
    """What a run says that touches nothing."""
    done = cut.project.playbook("-e", f"gpu_bundle={wish}")
    assert done.returncode == 2, done.stdout + done.stderr
    for name in HOSTS:
        entry = cut.project.entry(name)
        assert [blocker["id"] for blocker in entry["blockers"]] == ["bundle"]
        assert cut.project.ssh(name, "ls -d /var/lib/provision || true").strip() == ""
    return done.stdout


def test_a_bundle_that_is_none_for_them_stops_before_anything_is_touched(cut: Cut) -> None:
    assert "there is no folder /media/other on this host" in refused(cut, "/media/other")
    mark = cut.bundle / ".unfinished"
    mark.touch()
    try:
        assert f"the bundle {DISK} is unfinished" in refused(cut, DISK)
    finally:
        mark.unlink()


def test_three_bare_hosts_come_to_proven_and_ask_nobody(cut: Cut) -> None:
    before = {name: cut.project.ssh(name, OWN) for name in HOSTS}
    assert cut.count() == dict.fromkeys(HOSTS, 0)
    done = cut.project.playbook("-e", f"gpu_bundle={DISK}")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr
    assert {name: cut.project.entry(name)["status"] for name in HOSTS} == dict.fromkeys(
        HOSTS, "proven"
    )
    assert cut.count() == dict.fromkeys(HOSTS, 0)
    assert {name: cut.project.ssh(name, OWN) for name in HOSTS} == before
    for name in HOSTS:
        assert cut.project.ssh(name, "ls -d /var/lib/provision/origin || true").strip() == ""


def test_without_the_bundle_they_are_as_locked(cut: Cut) -> None:
    """A run leaves a host as one without a bundle would, and has nothing more to do."""
    done = cut.project.playbook()
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr
    statuses = {name: cut.project.entry(name)["status"] for name in HOSTS}
    assert statuses == dict.fromkeys(HOSTS, "converged"), done.stdout[-6000:]
    assert cut.count() == dict.fromkeys(HOSTS, 0)


def test_a_packet_out_would_have_been_counted(cut: Cut) -> None:
    for name in HOSTS:
        cut.project.ssh(name, "timeout 20 getent hosts deb.debian.org", check=False)
    assert all(count > 0 for count in cut.count().values())
