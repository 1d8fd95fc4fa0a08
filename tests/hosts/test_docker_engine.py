"""docker itself from the platform's archive, on a Debian 12 host that has none.

The archive is Debian's own; the toolkit is the stand-in (tests/ground/toolkit.py), so what a
container lists is simulated. The tests build upon each other.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from toolkit_host import CONFIG, Host, started

from provision.errors import MachineError

pytestmark = [pytest.mark.slow]

VERSION = "1.20.1"
ENGINE = {"nvidia_container_toolkit_docker_engine": "distribution"}
INSTALLED = "dpkg-query -W -f '${db:Status-Status}' docker.io 2>/dev/null || true"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    directory = tmp_path_factory.mktemp("engine")
    with started(directory, "libcuda1", platform="debian12", engine="") as made:
        yield made


def test_docker_from_snap_is_refused_and_nothing_is_touched(host: Host) -> None:
    host.root("mkdir -p /snap/bin; ln -s /usr/bin/snap /snap/bin/docker")
    words = ("Docker is here from snap; the one of snap reads another file", "snap remove docker")
    host.refused(*words)
    host.refused(*words, **ENGINE)
    required = {"nvidia_container_toolkit_docker": "required"}
    host.refused("docker is not installed, but from snap", **required, **ENGINE)
    host.root("rm -r /snap")


def test_what_apt_would_remove_for_it_stays(host: Host) -> None:
    """podman's program of docker's name is somebody's choice."""
    host.root("apt-get -qq install -y --no-install-recommends podman-docker >/dev/null 2>&1")
    done = host.play(VERSION, **ENGINE)
    assert done.returncode != 0
    output = " ".join(done.stdout.replace("\\n", " ").split())
    assert "apt would remove podman-docker. Docker was not touched" in output, output[-3000:]
    assert host.root("dpkg-query -W -f '${db:Status-Status}' podman-docker") == "installed"
    assert host.root(INSTALLED) != "installed"
    host.root("apt-get -qq purge -y podman-docker podman >/dev/null")


def test_it_comes_where_it_is_wished_and_nowhere_else(host: Host) -> None:
    plain = host.play(VERSION)
    assert plain.returncode == 0, plain.stdout[-6000:]
    assert host.root(INSTALLED) != "installed"
    required = {"nvidia_container_toolkit_docker": "required"}
    host.refused("docker is not installed", version=VERSION, **required)
    dry = host.play(VERSION, "--check", **ENGINE, **required)
    assert dry.returncode == 0, dry.stdout[-6000:]
    assert "Would install docker.io" in dry.stdout
    assert host.root(INSTALLED) != "installed"
    host.gives_gpus(VERSION, "docker.io", **ENGINE, **required)


def test_it_stays_when_the_toolkit_goes(host: Host) -> None:
    done = host.play(VERSION, nvidia_container_toolkit_state="absent", **ENGINE)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr
    assert host.root(INSTALLED) == "installed"
    host.root("docker run --rm tiny true || docker run --rm tiny sh -c true")
    with pytest.raises(MachineError):
        host.root("docker run --rm --gpus all tiny sh -c true")
    assert host.root(f"test -e {CONFIG} && echo there") == "there"
