"""A host whose stack has the container toolkit, from bare to proven, with a docker of its own.

dockerd runs for real inside the host. The toolkit's packages are stand-ins from a repository that
is signed as NVIDIA's is (tests/ground/toolkit.py); they hand over the host's simulated GPUs, so
what a container lists is simulated too. All else is the ordinary stack.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from docked import FOREIGN, Docked, docked
from toolkit_host import CONFIG

from tests.ground import toolkit

pytestmark = [pytest.mark.slow]

GONE = ("-e", "nvidia_container_toolkit_state=absent")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Docked]:
    with docked(tmp_path_factory.mktemp("containers"), "containers", Docked) as made:
        yield made


def test_the_stack_with_the_toolkit_is_proven_in_one_run(host: Docked) -> None:
    entry = host.proven()
    assert "nvidia_container_toolkit" in entry["components"]
    assert entry["found"]["nvidia_container_toolkit"] == "1.20.1"
    # There is no podman, so nobody reads a CDI specification.
    assert host.results("nvidia_container_toolkit") == {
        "nvidia_container_toolkit.packages": "passed",
        "nvidia_container_toolkit.docker": "passed",
        "nvidia_container_toolkit.cdi": "not_applicable",
    }
    runtime = {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}
    assert host.config() == {**FOREIGN, "runtimes": runtime}
    assert "nvidia" in host.runtimes()
    output = host.root("docker", "run", "--rm", "--gpus", "all", "tiny", "nvidia-smi", "-L")
    assert output == host.root("nvidia-smi", "-L")
    assert output.count("GPU-") == 2
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
    assert "set to absent: training" in " ".join(refused.stdout.split())
    assert "nvidia" in host.runtimes()
    host.root("docker", "rm", "--force", "training")
    daemon = host.root("cat", "/run/docker.pid")
    gone = host.proven(*GONE)
    assert list(gone["components"]) == ["nvidia_container_toolkit"]
    results = host.results("nvidia_container_toolkit")
    assert set(results.values()) == {"not_applicable"}, results
    assert host.config() == FOREIGN
    assert "nvidia" not in host.runtimes()
    assert host.root("cat", "/run/docker.pid") == daemon
    host.proven()
    assert "nvidia" in host.runtimes()
