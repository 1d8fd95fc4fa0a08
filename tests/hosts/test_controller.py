"""The rendered tree on a controller of its own: Debian 13 with the newest ansible-core.

ansible-core 2.20 and newer need Python 3.12, which the machine that runs these tests need not have.
So the controller is a host of a lab too. It gets ansible-core and testinfra and nothing of
`provision`; the project is a directory that it shares with this machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Project, bare_hosts

from provision import locallab
from provision.locallab.machine import cache_directory

# docs/run.md names the versions that a controller may have.
CORE = "2.21.5"
PROGRAMS = "/opt/controller/bin"

pytestmark = pytest.mark.slow


# One bare host, and a project that nobody has run yet.
project = bare_hosts("managed", "managed1")


@pytest.fixture(scope="module")
def controller(
    project: Project, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[locallab.Lab]:
    # The project's cuDNN archive is a link into the cache.
    volumes = (f"{project.path}:{project.path}", f"{cache_directory()}:{cache_directory()}:ro")
    shape = locallab.Shape(platform="debian13", with_gpu=False, volumes=volumes)
    state = tmp_path_factory.mktemp("controller") / "lab"
    lab = locallab.up("test-controller", shape, state_dir=state, hosts=["controller"])
    try:
        machine = Project(project.path, lab)
        machine.ssh(
            "controller",
            "sudo apt-get -q update && sudo DEBIAN_FRONTEND=noninteractive apt-get -q install --yes"
            " --no-install-recommends python3-venv openssh-client"
            " && sudo python3 -m venv /opt/controller"
            f" && sudo {PROGRAMS}/pip --quiet install ansible-core=={CORE} pytest-testinfra",
        )
        yield lab
    finally:
        lab.down()


def run(project: Project, controller: locallab.Lab, *arguments: str) -> str:
    """What ansible-playbook prints on the controller."""
    words = " ".join(["site.yml", "-i", "lab", *arguments])
    return Project(project.path, controller).ssh(
        "controller",
        f"cd {project.path} && sudo {PROGRAMS}/ansible-playbook {words}",
        timeout=1800,
    )


def outcome(project: Project) -> dict[str, object]:
    report = json.loads(Path(project.path, "report/latest/report.json").read_text("utf-8"))
    host: dict[str, object] = report["hosts"]["managed1"]
    return host


def test_the_controller_has_the_newest_core_and_no_provision(controller: locallab.Lab) -> None:
    machine = Project(Path("/"), controller)
    assert f"[core {CORE}]" in machine.ssh("controller", f"{PROGRAMS}/ansible-playbook --version")
    packages = machine.ssh("controller", f"{PROGRAMS}/pip list --format=freeze")
    assert "provision" not in packages


def test_it_brings_a_bare_host_to_proven(project: Project, controller: locallab.Lab) -> None:
    printed = run(project, controller)
    host = outcome(project)
    assert host["status"] == "proven", printed[-4000:]


def test_its_second_run_changes_nothing(project: Project, controller: locallab.Lab) -> None:
    printed = run(project, controller)
    assert "changed=0" in printed
    assert outcome(project)["changes"] == []


def test_its_check_mode_names_damage_and_its_next_run_repairs_it(
    project: Project, controller: locallab.Lab
) -> None:
    project.ssh("managed1", "sudo rm /usr/bin/nvcc")
    run(project, controller, "--check")
    assert outcome(project)["status"] == "drift"
    run(project, controller)
    assert outcome(project)["status"] == "proven"
