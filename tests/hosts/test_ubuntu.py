"""A host that says Ubuntu 20.04, from bare to proven by NVIDIA's own ways and by Canonical's.

The servers are the proving ground's: NVIDIA's and Canonical's names and layout over TLS, made of
Debian's packages. The roles see addresses, as a lab with mirrors of its own would give them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ground import Site, serve
from tests.hosts.ubuntu import Ubuntu, bare_ubuntu

pytestmark = [pytest.mark.slow, pytest.mark.network]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serve(tmp_path_factory.mktemp("site")) as one:
        yield one


@pytest.fixture
def ubuntu(tmp_path: Path, site: Site) -> Iterator[Ubuntu]:
    with bare_ubuntu(tmp_path, "ubuntu", "focal1", site, kind=Ubuntu) as project:
        yield project


def test_nvidias_network_repository(ubuntu: Ubuntu) -> None:
    ubuntu.wish(driver_source="network", driver_branch="470", cuda_source="network", cuda="11.2")
    ubuntu.proven()
    assert "release 11.2" in ubuntu.ssh("focal1", "/usr/local/cuda/bin/nvcc --version")


def test_the_tutorials_way(ubuntu: Ubuntu) -> None:
    """The .run driver, the local installer, the tarball."""
    run = ubuntu.site.runfile("470")
    ubuntu.site.local_installer()
    ubuntu.wish(
        driver_source="runfile", driver_branch="470.256.02", driver_sha256=str(run["sha256"]),
        cuda_source="local", cuda="11.2.2",
    )  # fmt: skip
    ubuntu.proven()
    assert "release 11.2" in ubuntu.ssh("focal1", "/usr/local/cuda/bin/nvcc --version")
    assert ubuntu.root("ls /var /etc/apt/sources.list.d").count("cuda-repo") == 0


def test_canonicals_own_driver(ubuntu: Ubuntu) -> None:
    ubuntu.wish(driver_branch="470", cuda_source="network", cuda="11.2")
    ubuntu.proven()
    assert "nvidia-utils-470-server" in ubuntu.root("dpkg-query -W -f '${Package}\\n'")
