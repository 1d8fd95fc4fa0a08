"""The proving ground on a host: Ubuntu's identity, NVIDIA's network repository over TLS."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator

import pytest

from provision import locallab
from tests.ground import Site, serve

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.network]

RUNTIME = (
    *("cuda-cudart-11-2", "libcublas-11-2", "libcufft-11-2", "libcurand-11-2"),
    *("libcusolver-11-2", "libcusparse-11-2", "cuda-cupti-11-2"),
)
TREE = "/usr/local/cuda-11.2"


class Host:
    """The one host of the lab, as root."""

    def __init__(self, lab: locallab.Lab) -> None:
        self.lab = lab

    def run(self, command: str, *, stdin: str = "", rc: int = 0) -> str:
        (one,) = self.lab.hosts
        done = subprocess.run(
            [
                "ssh", *self.lab.ssh_arguments(), "-i", str(one.key_file),
                f"{one.user}@{one.address}", "sudo sh -c " + shlex.quote(command),
            ],
            input=stdin, capture_output=True, text=True, check=False, timeout=900,
        )  # fmt: skip
        said = done.stdout + done.stderr
        assert done.returncode == rc, f"{command}: {done.returncode}\n{said}"
        return said

    def write(self, path: str, text: str) -> None:
        self.run(f"cat > {shlex.quote(path)}", stdin=text)

    def install(self, *names: str, rc: int = 0) -> str:
        return self.run(
            "DEBIAN_FRONTEND=noninteractive apt-get -q install --yes --no-install-recommends "
            + " ".join(names),
            rc=rc,
        )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serve(tmp_path_factory.mktemp("site")) as one:
        yield one


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, site: Site) -> Iterator[Host]:
    """A bare host with Ubuntu's identity that knows the site's repository, by hand."""
    lab = locallab.up(
        f"ground-{os.getpid()}", platform="ubuntu2004", driver_version="470.256.02",
        state_dir=tmp_path_factory.mktemp("ground") / ".lab", hosts=["ground1"],
    )  # fmt: skip
    try:
        one = Host(lab)
        one.write("/etc/ssl/ground.pem", site.ca.read_text())
        one.write("/etc/apt/apt.conf.d/50ground", 'Acquire::https::CAInfo "/etc/ssl/ground.pem";\n')
        one.write("/usr/share/keyrings/ground.asc", site.key.armored)
        one.write(
            "/etc/apt/sources.list.d/ground.list",
            f"deb [signed-by=/usr/share/keyrings/ground.asc] {site.cuda_url} /\n",
        )
        yield one
    finally:
        lab.down()


def test_the_host_says_that_it_is_ubuntu_and_that_it_is_not(host: Host) -> None:
    assert host.run("lsb_release -rs").strip() == "20.04"
    assert "VERSION_CODENAME=focal" in host.run("cat /etc/os-release")
    assert "userland=Debian (bullseye)" in host.run("cat /etc/os-simulated")


def test_nvcc_of_the_network_repository_is_the_real_one(host: Host, site: Site) -> None:
    host.run("apt-get -q update")
    # Debian's own archive still answers below.
    assert "Candidate: 3.9" in host.run("apt-cache policy python3-venv")
    assert "NVIDIA CUDA" in host.run(
        "apt-cache policy cuda-nvcc-11-2"
    ) or site.cuda_url in host.run("apt-cache policy cuda-nvcc-11-2")
    host.install("cuda-nvcc-11-2", *RUNTIME)
    assert "release 11.2, V11.2.152" in host.run(f"{TREE}/bin/nvcc --version")
    assert host.run("readlink -f /usr/local/cuda").strip() == TREE
    assert host.run("readlink -f /usr/local/cuda-11").strip() == TREE
    cache = host.run("ldconfig -p")
    for soname in ("libcudart.so.11.0", "libcublas.so.11", "libcublasLt.so.11", "libcufft.so.10",
                   "libcurand.so.10", "libcusolver.so.11", "libcusparse.so.11",
                   "libcupti.so.11.2"):  # fmt: skip
        assert f"{soname} (libc6,x86-64) => /usr/local/cuda" in cache
        host.run(f"python3 -c 'import ctypes; ctypes.CDLL(\"{soname}\")'")
    assert not host.run("dpkg -l | grep -E 'nvidia-driver|cuda-drivers' || true").strip()
    assert site.web.sent[
        "/compute/cuda/repos/ubuntu2004/x86_64/libcublas-11-2_11.4.1.1043-1_amd64.deb"
    ]


def test_nvcc_compiles(host: Host) -> None:
    """nvcc.profile, cicc, libdevice, headers and cudart's static library are where nvcc looks."""
    host.install("cuda-cudart-dev-11-2")
    host.write(
        "/root/one.cu",
        "#include <cstdio>\n__global__ void k(float *x) { x[0] = sinf(x[0]); }\n"
        'int main() { int n = 0; cudaGetDeviceCount(&n); printf("%d\\n", n); return 0; }\n',
    )
    host.run(f"cd /root && {TREE}/bin/nvcc -arch=sm_75 one.cu -o one && ./one")
