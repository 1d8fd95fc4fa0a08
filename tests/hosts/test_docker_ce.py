"""Docker's own packages from Docker's repository, on a Debian 12 host that has no docker.

download.docker.com is not reached: its repository is a stand-in whose packages are Debian's docker
under Docker's names (tests/ground/docker_ce.py), signed with a key of the test's. The toolkit is
the stand-in, too, so what a container lists is simulated. The tests build upon each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from toolkit_host import Host, started

from tests.ground import clients, docker_ce, repository

pytestmark = [pytest.mark.slow]
# Rules of the preflight that something here trips: docs/mutants.md.
TRIPS = ("docker-other",)

VERSION = "1.20.1"
KEY = "/etc/apt/keyrings/provision-docker.asc"
SOURCES = "/etc/apt/sources.list.d/provision-docker.sources"
# By Docker's tutorial, and of a docker that is gone: apt takes no second key for one address.
TUTORIAL = "/etc/apt/sources.list.d/docker.list"
INSTALLED = "dpkg-query -W -f '${db:Status-Status}' docker-ce 2>/dev/null || true"
FETCH = "mkdir -p /root/debs; cd /root/debs; apt-get -qq download docker.io containerd runc"
DEBIAN = ("docker.io", "containerd", "runc")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    directory = tmp_path_factory.mktemp("docker-ce")
    with started(directory, "libcuda1", "gpg", platform="debian12", engine="") as made:
        made.root(FETCH)
        container = made.lab.hosts[0].container
        made.lab.podman.call("cp", f"{container}:/root/debs", str(directory / "debs"))
        debian = {name: next((directory / "debs").glob(f"{name}_*.deb")) for name in DEBIAN}
        docker_ce.lay_out(made.site.web.root, debian, signer())
        yield made


def signer() -> repository.Key:
    return repository.key("docker", docker_ce.USER)


def wish(host: Host, **changed: Any) -> dict[str, Any]:
    """Docker's packages, from the stand-in; its key comes from where Docker's would."""
    given = {
        "url": f"{host.site.web.url}/{docker_ce.PLACE}",
        "fingerprints": [signer().fingerprint],
        "ca_bundle": clients.CA,
        **changed,
    }
    return {
        "nvidia_container_toolkit_docker_engine": "docker-ce",
        "nvidia_container_toolkit_docker_repository": given,
    }


def test_another_key_is_refused_and_nothing_is_touched(host: Host) -> None:
    """Docker's real fingerprint is not the one of the stand-in."""
    words = ("expected 9DC858229FC7DD38854AE2D88D81803C0EBFCD88", signer().fingerprint)
    host.refused(*words, version=VERSION, **wish(host, fingerprints=[]))
    other = repository.key("toolkit")
    words = ("apt cannot use Docker's repository", "Nothing was changed")
    given = wish(host, key=other.armored, fingerprints=[other.fingerprint])
    host.refused(*words, version=VERSION, **given)


def test_a_repository_out_of_reach_is_reported_and_nothing_is_touched(host: Host) -> None:
    nowhere = wish(host, url=f"{host.site.web.url}/nowhere", key=signer().armored)
    words = ("apt cannot use Docker's repository", "/nowhere", "ca_bundle in nvidia_container")
    host.refused(*words, version=VERSION, **nowhere)


def test_docker_of_the_distribution_is_refused_and_stays(host: Host) -> None:
    host.root("apt-get -qq install -y --no-install-recommends docker.io >/dev/null 2>&1")
    words = ("containerd, docker.io, runc is installed", "Nothing was changed")
    host.refused(*words, version=VERSION, **wish(host))
    host.root("apt-get -qq purge -y docker.io containerd runc >/dev/null 2>&1")


def test_it_comes_with_the_toolkit_and_gives_gpus(host: Host) -> None:
    url = f"{host.site.web.url}/{docker_ce.PLACE}"
    tutorial = f"deb [signed-by=/etc/apt/keyrings/docker.gpg] {url} bookworm stable\n"
    host.root(f"printf %s '{tutorial}' > {TUTORIAL}")
    dry = host.play(VERSION, "--check", **wish(host))
    assert dry.returncode == 0, dry.stdout[-6000:]
    assert "Would install docker-ce docker-ce-cli containerd.io" in dry.stdout
    assert host.root(INSTALLED) != "installed"
    host.root(f"test ! -e {SOURCES}")
    host.gives_gpus(VERSION, "docker-ce", **wish(host))


def test_apt_goes_there_by_that_key_alone(host: Host) -> None:
    shown = host.root(f"gpg --show-keys --with-colons {KEY} 2>/dev/null")
    found = [line.split(":")[9] for line in shown.splitlines() if line.startswith("fpr:")]
    assert found == [signer().fingerprint]
    assert host.root(f"stat -c '%U %a' {KEY} {SOURCES}").split("\n") == ["root 644"] * 2
    assert f"Signed-By: {KEY}" in host.root(f"cat {SOURCES}")
    host.root(f"test ! -e {TUTORIAL}; test -e {TUTORIAL}.provision-saved")
    assert "Conflicting" not in host.root("apt-get update 2>&1")
    assert docker_ce.PLACE in host.root("apt-cache policy docker-ce")


def test_it_and_its_repository_stay_when_the_toolkit_goes(host: Host) -> None:
    done = host.play(VERSION, nvidia_container_toolkit_state="absent", **wish(host))
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr
    assert host.root(INSTALLED) == "installed"
    host.root("docker run --rm tiny sh -c true")
    host.root(f"test -e {SOURCES}; test -e {KEY}")
