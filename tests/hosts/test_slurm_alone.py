"""The role slurm in a playbook of someone else's: a cluster of two hosts by the role alone.

Slurm and munge are Debian's and run for real; the GPUs are device files (slurm_cluster.py).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from slurm_cluster import Cluster, cluster

pytestmark = [pytest.mark.slow]

HOSTS = ["slurma1", "slurma2"]
OPTIONS = {"slurm_state": "present", "slurm_controller": HOSTS[0], "slurm_patience": 180}


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Bare hosts. Of the project around them, only the collection is used."""
    path = tmp_path_factory.mktemp("slurm-alone") / "project"
    with cluster(path, "test-slurm-alone", "debian12", HOSTS, {}) as made:
        yield made


def test_a_play_brings_a_cluster_and_the_next_changes_nothing(hosts: Cluster) -> None:
    output = hosts.role_alone("slurm", **OPTIONS)
    for host in HOSTS:
        assert f"{host} in the cluster gpu: idle, gpu:tesla_t4:2; a job could open only" in output
    ran = hosts.as_person(HOSTS[1], "ada", "srun -N 2 --gres=gpu:1 hostname")
    assert sorted(ran.split()) == HOSTS
    again = hosts.role_alone("slurm", **OPTIONS)
    assert again.count("changed=0") == len(HOSTS), again[-9000:]


def test_a_play_takes_it_away(hosts: Cluster) -> None:
    for unchanged in (0, len(HOSTS)):
        output = hosts.role_alone("slurm", **{**OPTIONS, "slurm_state": "absent"})
        assert output.count("changed=0") == unchanged, output[-9000:]
    for host in HOSTS:
        assert "No such file" in hosts.root(host, "ls /usr/sbin/slurmd", check=False)
