"""docker compose hands the simulated GPUs over in both of its ways, and starts a printed workspace.

docker 20.10 and compose 1.29 are Debian 12's. The toolkit is the stand-in (tests/ground/toolkit.py)
and the GPUs are simulated; dockerd, compose and Jupyter are real.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from toolkit_host import Host, started

from provision.errors import MachineError
from tests.collection import one_role
from tests.ground import workspace_image

pytestmark = [pytest.mark.slow]

COMPOSE = "docker-compose --project-directory /root/compose --file /root/compose/{0}.yml"
REQUEST = "deploy: {{resources: {{reservations: {{devices: [{0}]}}}}}}"
WAYS = {
    "all": REQUEST.format("{driver: nvidia, count: all, capabilities: [gpu]}"),
    "second": REQUEST.format('{driver: nvidia, device_ids: ["1"], capabilities: [gpu]}'),
    "runtime": "runtime: nvidia, environment: [NVIDIA_VISIBLE_DEVICES=all]",
    "runtime_second": 'runtime: nvidia, environment: ["NVIDIA_VISIBLE_DEVICES=1"]',
    "none": "init: false",
}
ADA = {"name": "ada", "gpus": [1], "port": 8801, "cpus": 0.5, "memory": "512m"}
NAME = "gpu-workspace-ada"
ANSWERS = "curl -s -o /dev/null -w '%{{http_code}}' {0} http://127.0.0.1:8801{1}"


@pytest.fixture(scope="module", params=["debian12"])
def host(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Host]:
    """A bare host with docker and compose that got the toolkit, and a tiny image."""
    directory = tmp_path_factory.mktemp("compose")
    packages = ("docker-compose", "libcuda1", "curl", "iptables")
    prepare = "tar -C /root/tiny -c . | docker import - tiny; mkdir /root/compose"
    with started(directory, *packages, platform=request.param, prepare=prepare) as made:
        made.becomes("1.20.1")
        yield made


def ran(host: Host, way: str) -> str:
    """What a service prints that lists the GPUs it was handed in this way."""
    text = f'services: {{gpu: {{image: tiny, command: ["nvidia-smi", "-L"], {WAYS[way]}}}}}\n'
    if way.startswith("runtime"):
        text = 'version: "2.4"\n' + text
    host.put(f"/root/compose/{way}.yml", text)
    compose = COMPOSE.format(way)
    try:
        return host.root(f"{compose} run --rm gpu 2>/root/compose/errors")
    finally:
        host.root(f"{compose} down 2>/dev/null || true")


@pytest.mark.parametrize("way", ["all", "runtime"])
def test_compose_hands_over_all_gpus(host: Host, way: str) -> None:
    gpus = host.root("nvidia-smi -L")
    assert gpus.count("GPU-") == 2
    assert ran(host, way) == gpus


@pytest.mark.parametrize("way", ["second", "runtime_second"])
def test_compose_hands_over_the_gpu_that_is_named(host: Host, way: str) -> None:
    second = host.root("nvidia-smi -L").splitlines()[1]
    assert ran(host, way) == second.replace("GPU 1:", "GPU 0:")


def test_who_asks_for_no_gpu_gets_none(host: Host) -> None:
    with pytest.raises(MachineError, match="podman exec failed"):
        ran(host, "none")


def workspace(host: Host) -> subprocess.CompletedProcess[str]:
    """The role gpu_workspace gives ada hers."""
    image = workspace_image.pack()
    given = {
        "gpu_workspaces": [ADA],
        "gpu_workspace_image_file": str(image),
        "gpu_workspace_image_sha256": workspace_image.sha256(image),
    }
    play = Path(host.directory / "workspaces.yml")
    play.write_text(one_role("gpu_workspace", "gpu"), "utf-8")
    return subprocess.run(
        [
            str(Path(sys.executable).parent / "ansible-playbook"), "-i", "hosts.yml",
            play.name, "-e", json.dumps(given),
        ],
        cwd=host.directory, capture_output=True, text=True, check=False,
        env={**os.environ, "ANSIBLE_CONFIG": str(host.directory / "ansible.cfg")},
    )  # fmt: skip


def answers(host: Host, path: str, token: str = "") -> str:
    """The status of Jupyter's answer, once there is one."""
    header = f"-H 'Authorization: token {token}'" if token else ""
    until = time.time() + 180
    while True:
        status = host.root(ANSWERS.format(header, path) + " || true")
        if status != "000" or time.time() > until:
            return status
        time.sleep(1)


@pytest.mark.parametrize("option", ["", "--runtime"])
def test_a_printed_workspace_is_the_unit_s_container(host: Host, option: str) -> None:
    """With its GPU, its limits and its token; the unit finds it and keeps it."""
    done = workspace(host)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr
    token = host.root("cat /etc/gpu-workspace/ada/token")
    listed = f"docker exec {NAME} nvidia-smi -L"
    gpus = host.root(listed)
    shape = (
        "'{{.HostConfig.Memory}} {{.HostConfig.MemorySwap}} {{.HostConfig.NanoCpus}}"
        " {{.HostConfig.ShmSize}} {{.HostConfig.Init}} {{.HostConfig.SecurityOpt}}"
        " {{.HostConfig.NetworkMode}} {{json .HostConfig.PortBindings}} {{.Config.User}}"
        " {{.Config.WorkingDir}} {{.Config.Hostname}} {{json .Config.Entrypoint}}"
        " {{json .Config.Cmd}} {{json .Config.Image}}'"
    )
    limits = f"docker inspect --format {shape} {NAME}"
    # docker's default network is the one of the name bridge.
    by_unit = host.root(limits).replace(" default ", " bridge ").replace(" null ", " {} ")
    mounts = f"docker inspect --format '{{{{json .Mounts}}}}' {NAME}"
    mounted = sorted(map(str, json.loads(host.root(mounts))))
    host.root(f"gpu-workspace compose ada {option} > /root/compose/ada.yml")
    assert token not in host.root("cat /root/compose/ada.yml")
    host.root("systemctl stop gpu-workspace@ada")
    assert host.root("docker ps --quiet") == ""
    compose = COMPOSE.format("ada")
    host.root(f"{compose} up --detach 2>&1")
    try:
        text = host.root("cat /root/compose/ada.yml")
        path = ("/ada" if "base_url=/ada/" in text else "") + "/api/status"
        assert answers(host, path, token) == "200"
        assert answers(host, path) == "403"
        assert host.root(listed) == gpus
        assert gpus.count("GPU-") == 1, gpus
        assert host.root(limits).replace(" null ", " {} ") == by_unit
        assert sorted(map(str, json.loads(host.root(mounts)))) == mounted
        assert token not in host.root(f"docker inspect {NAME}")
        # What compose started is hers: the unit finds it and makes no other.
        before = host.root(f"docker inspect --format '{{{{.Id}}}}' {NAME}")
        host.root("systemctl start gpu-workspace@ada")
        assert host.root(f"docker inspect --format '{{{{.Id}}}}' {NAME}") == before
        host.root("systemctl stop gpu-workspace@ada")
    finally:
        host.root(f"{compose} down 2>/dev/null || true")
    assert host.root("docker ps --all --quiet") == ""
