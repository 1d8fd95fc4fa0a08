"""Everything the stack consists of is damaged once: seen, planned, repaired, nothing else touched.

`make damage` runs all of it, on one host, and Slurm's part on one that is controller and node of
its own cluster; batch "first" also runs on the hosts of test_spine.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import damage
import pytest
from conftest import Project, make_proven
from damage_steps import damage_and_repair
from slurm_cluster import cluster

HOST = "damage1"
# They are done to hosts with something more; each has a test of its own below.
ELSEWHERE = {"kernel", "slurm"}


@pytest.fixture(scope="module")
def proven(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """One host, brought from bare to proven."""
    directory = tmp_path_factory.mktemp("damage") / "project"
    yield from make_proven(directory, "test-damage", [HOST])


@pytest.mark.slow
@pytest.mark.parametrize("batch", [name for name in damage.batches() if name not in ELSEWHERE])
def test_each_damage_is_named_and_repaired_by_one_run(proven: Project, batch: str) -> None:
    damage_and_repair(proven, HOST, damage.batches()[batch])


@pytest.mark.slow
def test_each_damage_of_the_kernels_part_is_named_and_repaired_by_one_run(proven: Project) -> None:
    """Scope full: the kernel image that a machine would boot next, and the module DKMS builds."""
    full = ("-e", "nvidia_driver_scope=full")
    proven.ssh(HOST, "sudo apt-get -q update && sudo apt-get -qy install linux-image-amd64")
    applied = proven.provision("apply", "-i", "lab", *full)
    assert applied.returncode == 0, applied.stdout + applied.stderr
    damage_and_repair(proven, HOST, damage.batches()["kernel"], full)


@pytest.mark.slow
def test_each_damage_of_slurm_is_named_and_repaired_by_one_run(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """On a Debian 12 with Slurm for real; its GPUs are simulated."""
    path = tmp_path_factory.mktemp("damage-slurm") / "project"
    with cluster(path, "test-damage-slurm", "debian12", [HOST], {"slurm_patience": 180}) as node:
        applied = node.provision("apply", "-i", "lab")
        assert applied.returncode == 0, applied.stdout + applied.stderr
        damage_and_repair(node, HOST, damage.batches()["slurm"])
