"""The role slurm in a playbook of someone else's: a cluster of two hosts by the role alone.

Its options are variables of the play, and the inventory has nothing but the hosts' names and how
they are reached. Slurm and munge are Debian's; the GPUs are device files (slurm_cluster.py).
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

import pytest
import yaml
from conftest import BIN
from slurm_cluster import Cluster, cluster

pytestmark = [pytest.mark.slow]

HOSTS = ["slurma1", "slurma2"]
OPTIONS = {"slurm_state": "present", "slurm_controller": HOSTS[0], "slurm_patience": 180}
INVENTORY = "mine"


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Bare hosts, and an inventory in which no host has an option."""
    path = tmp_path_factory.mktemp("slurm-alone") / "project"
    with cluster(path, "test-slurm-alone", "debian12", HOSTS, {}) as made:
        (path / INVENTORY).mkdir()
        shutil.copy(path / "lab/hosts.yml", path / INVENTORY)
        yield made


def play(hosts: Cluster, **options: str) -> subprocess.CompletedProcess[str]:
    book = {"hosts": "all", "become": True, "gather_facts": False, "roles": ["provision.gpu.slurm"]}
    (hosts.path / "alone.yml").write_text(
        yaml.safe_dump([{**book, "vars": {**OPTIONS, **options}}]), "utf-8"
    )
    return subprocess.run(
        [str(BIN / "ansible-playbook"), "alone.yml", "-i", INVENTORY],
        cwd=hosts.path, capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip


def test_a_play_brings_a_cluster_and_the_next_changes_nothing(hosts: Cluster) -> None:
    done = play(hosts)
    assert done.returncode == 0, done.stdout[-9000:] + done.stderr
    for host in HOSTS:
        assert f"{host} in the cluster gpu: idle, gpu:tesla_t4:2; a job saw" in done.stdout
    ran = hosts.as_person(HOSTS[1], "ada", "srun -N 2 --gres=gpu:1 hostname")
    assert sorted(ran.split()) == HOSTS
    again = play(hosts)
    assert again.returncode == 0, again.stdout[-9000:] + again.stderr
    assert again.stdout.count("changed=0") == len(HOSTS), again.stdout[-9000:]


def test_a_play_takes_it_away(hosts: Cluster) -> None:
    for expected in (0, len(HOSTS)):
        done = play(hosts, slurm_state="absent")
        assert done.returncode == 0, done.stdout[-9000:] + done.stderr
        assert done.stdout.count("changed=0") == expected, done.stdout[-9000:]
    for host in HOSTS:
        assert "No such file" in hosts.root(host, "ls /usr/sbin/slurmd", check=False)
