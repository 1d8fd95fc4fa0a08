"""The role nvidia_container_toolkit on a host whose docker is at work.

dockerd runs for real inside the host, which is a privileged container for that. The toolkit's
packages are stand-ins (tests/ground/toolkit.py) that hand over the host's simulated GPUs: what
containers list is simulated, all ways to it are docker's own. The tests build upon each other: the
first ones are refused, then there is the toolkit, then a newer version of it, and at the end none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from toolkit_host import CONFIG, FOREIGN, NAMES, Host, started

from tests.ground import toolkit

pytestmark = [pytest.mark.slow]
# Rules of the preflight that something here trips: docs/mutants.md.
TRIPS = ("podman-too-old",)

LIST = "/etc/apt/sources.list.d/nvidia-container-toolkit.list"
CONTAINER = "docker run --detach --name job tiny /bin/busybox sleep 100000"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A bare Debian 11 with its own docker, a foreign configuration and a tiny image."""
    directory = tmp_path_factory.mktemp("toolkit")
    with started(directory, prepare="tar -C /root/tiny -c . | docker import - tiny") as made:
        yield made


def test_a_configuration_that_is_no_json_is_refused_and_kept(host: Host) -> None:
    host.put(CONFIG, "{broken")
    host.refused("daemon.json is not JSON", "python3 -m json.tool")
    assert host.root(f"cat {CONFIG}") == "{broken"
    host.put(CONFIG, json.dumps(FOREIGN, indent=2))


def test_a_podman_that_reads_no_cdi_is_refused_where_that_is_required(host: Host) -> None:
    host.root("DEBIAN_FRONTEND=noninteractive apt-get -qq install -y podman > /dev/null")
    words = ("podman 3.0.1 reads no CDI specification", "4.1 is the first that does")
    host.refused(*words, nvidia_container_toolkit_cdi="required")


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
    assert host.root("ls /etc/cdi /run/cdi 2>/dev/null || true") == "", "no podman here reads it"


def test_containers_list_the_hosts_simulated_gpus(host: Host) -> None:
    """`--gpus` needs a dockerd that was started with the hook in place."""
    host.root(f"rm -f {toolkit.LOG}")
    gpus = host.root("nvidia-smi -L")
    assert gpus.count("GPU-") == 2
    run, asked = "docker run --rm", "tiny /bin/sh -c 'nvidia-smi -L; cat /etc/gpu-simulated'"
    output = host.root(f"{run} --gpus all {asked}")
    assert output.startswith(gpus), output
    assert "SIMULATED" in output
    assert "nvidia-container-runtime-hook prestart" in host.root(f"cat {toolkit.LOG}")
    output = host.root(f"{run} --gpus device=1 tiny nvidia-smi -L")
    assert output == gpus.splitlines()[1].replace("GPU 1:", "GPU 0:")
    host.root(f"rm -f {toolkit.LOG}")
    output = host.root(f"{run} --runtime nvidia -e NVIDIA_VISIBLE_DEVICES=all {asked}")
    assert output.startswith(gpus), output
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
    host.refused("have GPUs from the toolkit", "training", version=LAST, **GONE)
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
