"""A host that says Ubuntu 20.04, from bare to proven by NVIDIA's own ways and by Canonical's.

The servers are the proving ground's: NVIDIA's and Canonical's names and layout over TLS, made of
Debian's packages. The roles see addresses, as a lab with mirrors of its own would give them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ground import Site
from tests.hosts.ubuntu import Ubuntu, bare_ubuntu

pytestmark = [pytest.mark.slow, pytest.mark.network]


@pytest.fixture
def ubuntu(tmp_path: Path, site: Site) -> Iterator[Ubuntu]:
    with bare_ubuntu(tmp_path, "ubuntu", "focal1", site, kind=Ubuntu) as project:
        yield project


# Where another tree is the host's own, an environment that is activated has its CUDA all the same.
ACTIVATED = """\
before=$(env | grep -E '^(PATH|LD_|XLA_)' | sort)
PATH=/usr/local/cuda-12.9/bin:$PATH
. /opt/tensorflow/current/bin/activate
command -v nvcc
python -c 'import tensorflow as tf; print(len(tf.config.list_physical_devices("GPU")), "GPUs")'
env | grep '^XLA_FLAGS='
deactivate
PATH=${PATH#*:}
[ "$before" = "$(env | grep -E '^(PATH|LD_|XLA_)' | sort)" ] && echo as before
"""


def test_nvidias_network_repository(ubuntu: Ubuntu) -> None:
    ubuntu.wish(driver_source="network", driver_branch="470", cuda_source="network", cuda="11.2")
    ubuntu.proven()
    assert "release 11.2" in ubuntu.ssh("focal1", "/usr/local/cuda/bin/nvcc --version")
    ubuntu.root("mkdir -p /usr/local/cuda-12.9/bin && cp /bin/false /usr/local/cuda-12.9/bin/nvcc")
    output = ubuntu.ssh("focal1", f"bash -lc {shlex.quote(ACTIVATED)}").splitlines()
    assert output == [
        "/usr/local/cuda-11.2/bin/nvcc",
        "2 GPUs",
        "XLA_FLAGS=--xla_gpu_cuda_data_dir=/usr/local/cuda-11.2",
        "as before",
    ], output
    ubuntu.root("rm -r /usr/local/cuda-12.9")
    activate = "/opt/tensorflow/current/bin/activate"
    ubuntu.root(f"sed -i '/^_PROVISION_CUDA=/s/11.2/10.1/' {activate}")
    planned = ubuntu.provision("plan", "-i", "lab")
    assert planned.returncode == 5, planned.stdout
    assert "bin/activate: another CUDA" in planned.stdout
    assert list(ubuntu.proven()["components"]) == ["tensorflow"]
    assert "11.2" in ubuntu.root(f"grep ^_PROVISION_CUDA= {activate}")


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
