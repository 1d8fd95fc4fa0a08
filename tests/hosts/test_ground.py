"""The proving ground on a host: Ubuntu's identity, NVIDIA's network repository over TLS."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator

import pytest

from provision import locallab
from tests.ground import Site
from tests.hosts.conftest import as_root

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
        done = as_root(self.lab, command, stdin, timeout=900)
        output = done.stdout + done.stderr
        assert done.returncode == rc, f"{command}: {done.returncode}\n{output}"
        return output

    def write(self, path: str, text: str) -> None:
        self.run(f"cat > {shlex.quote(path)}", stdin=text)

    def fetch(self, url: object, path: str) -> None:
        program = (
            "import shutil, ssl, sys, urllib.request as u; "
            "c = ssl.create_default_context(cafile='/etc/ssl/ground.pem'); "
            "shutil.copyfileobj(u.urlopen(sys.argv[1], context=c), open(sys.argv[2], 'wb'))"
        )
        self.run(f"python3 -c {shlex.quote(program)} {url} {path}")

    def install(self, *names: str, rc: int = 0) -> str:
        return self.run(
            "DEBIAN_FRONTEND=noninteractive apt-get -q install --yes --no-install-recommends "
            + " ".join(names),
            rc=rc,
        )


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, site: Site) -> Iterator[Host]:
    """A bare host with Ubuntu's identity that knows the site's repository, by hand."""
    lab = locallab.up(
        f"ground-{os.getpid()}",
        locallab.Shape(platform="ubuntu2004", driver_version="470.256.02"),
        state_dir=tmp_path_factory.mktemp("ground") / ".lab",
        hosts=["ground1"],
    )
    try:
        machine = Host(lab)
        machine.write("/etc/ssl/ground.pem", site.ca.read_text())
        machine.write(
            "/etc/apt/apt.conf.d/50ground", 'Acquire::https::CAInfo "/etc/ssl/ground.pem";\n'
        )
        machine.write("/usr/share/keyrings/ground.asc", site.key.armored)
        machine.write(
            "/etc/apt/sources.list.d/ground.list",
            f"deb [signed-by=/usr/share/keyrings/ground.asc] {site.cuda_url} /\n",
        )
        yield machine
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
    assert site.cuda_url in host.run("apt-cache policy cuda-nvcc-11-2")
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
    assert site.web.sent[site.path(site.cuda_url) + "/libcublas-11-2_11.4.1.1043-1_amd64.deb"]


def test_nvcc_compiles(host: Host) -> None:
    """nvcc.profile, cicc, libdevice, headers and cudart's static library are where nvcc looks."""
    host.install("cuda-cudart-dev-11-2")
    host.write(
        "/root/one.cu",
        "#include <cstdio>\n__global__ void k(float *x) { x[0] = sinf(x[0]); }\n"
        'int main() { int n = 0; cudaGetDeviceCount(&n); printf("%d\\n", n); return 0; }\n',
    )
    host.run(f"cd /root && {TREE}/bin/nvcc -arch=sm_75 one.cu -o one && ./one")


def test_only_the_metapackages_bring_a_driver(host: Host) -> None:
    def planned(name: str) -> str:
        return host.run(f"apt-get -q -s install {name} | grep '^Inst' || true")

    assert "nvidia" not in planned("cuda-toolkit-11-2 cuda-libraries-11-2").replace(
        "nvidia.com", ""
    )
    for trap in ("cuda-11-2", "cuda", "cuda-runtime-11-2"):
        assert "nvidia-driver-535" in planned(trap)


def test_the_run_file_installs_and_goes(host: Host, site: Site) -> None:
    older, newer = site.runfile("470"), site.runfile("535")
    host.fetch(older["url"], "/root/470.run")
    host.fetch(newer["url"], "/root/535.run")
    assert str(older["sha256"]) in host.run("sha256sum /root/470.run")
    assert "integrity... OK" in host.run("sh /root/470.run --check")
    # Everything for the module, and no kernel to build it for: refused, and nothing is left.
    output = host.run("sh /root/470.run --silent --dkms --no-questions", rc=1)
    assert "kernel source tree" in output or "development tool" in output
    host.run("test ! -e /usr/bin/nvidia-smi && test ! -e /var/lib/nvidia")
    quiet = "--silent --no-questions --ui=none --no-kernel-module"
    assert "(version: 470.256.02) is now complete" in host.run(f"sh /root/470.run {quiet}")
    assert "Tesla T4" in host.run("nvidia-smi")
    host.run(
        "test -x /usr/bin/nvidia-uninstall -a -e /usr/lib/x86_64-linux-gnu/libcuda.so.470.256.02"
    )
    assert "--no-kernel-module" in host.run("cat /var/log/nvidia-installer.log")
    # Another version takes its place.
    host.run(f"sh /root/535.run {quiet}")
    host.run("test ! -e /usr/lib/x86_64-linux-gnu/libcuda.so.470.256.02")
    assert "(535.261.03) is complete" in host.run("nvidia-uninstall --silent")
    host.run("test ! -e /usr/bin/nvidia-smi && test ! -e /usr/bin/nvidia-uninstall")
    assert "no NVIDIA driver" in host.run("sh /root/470.run --uninstall --silent", rc=1)


def test_the_run_file_refuses_beside_packages(host: Host) -> None:
    """Also both branches of NVIDIA's packages: one takes the other's place."""
    host.install("nvidia-utils-470", "libnvidia-compute-470", "nvidia-compute-utils-470")
    assert "Tesla T4" in host.run("nvidia-smi")
    output = host.run("sh /root/470.run --silent --no-kernel-module", rc=1)
    assert "alternate driver installation" in output
    host.install("nvidia-utils-535", "libnvidia-compute-535", "nvidia-compute-utils-535")
    assert "libcuda.so.470" not in host.run("ls /usr/lib/x86_64-linux-gnu")
    assert "NVIDIA-SMI 535.261.03" in host.run("nvidia-smi")
    host.install("nvidia-utils-470", "libnvidia-compute-470", "nvidia-compute-utils-470")
    host.run("apt-get -q purge --yes '*nvidia*470*'")
    host.run("test ! -e /usr/lib/nvidia/alternate-install-present")


def test_canonicals_names(host: Host, site: Site) -> None:
    archive = site.ubuntu()
    host.write("/usr/share/keyrings/ubuntu.asc", str(archive["key"]))
    host.write(
        "/etc/apt/sources.list.d/focal.list",
        f"deb [signed-by=/usr/share/keyrings/ubuntu.asc] {archive['url']} focal-updates "
        "main restricted universe multiverse\n",
    )
    host.run("apt-get -q update")
    host.install("nvidia-utils-470-server", "libnvidia-compute-470-server")
    assert "Tesla T4" in host.run("nvidia-smi")
    planned = host.run("apt-get -q -s install nvidia-headless-470-server linux-headers-generic")
    assert "nvidia-dkms-470-server" in planned
    host.run("apt-get -q -s install linux-modules-nvidia-470-server-generic")
    host.run("apt-get -q purge --yes '*nvidia*470*'")


def test_the_local_installer_is_as_nvidias(host: Host, site: Site) -> None:
    """No key is added: that is for whoever uses it."""
    local = site.local_installer()
    host.fetch(local["url"], "/root/local.deb")
    assert "key does not appear to be installed" in host.run("dpkg -i /root/local.deb")
    place = str(local["directory"])
    names = host.run(f"ls {place}").split()
    assert {"Packages", "Release", "Release.gpg", "7fa2af80.pub"} <= set(names)
    assert "InRelease" not in names
    host.run("mv /etc/apt/sources.list.d/ground.list /root")
    assert "NO_PUBKEY" in host.run("apt-get -q update", rc=100)
    host.run(f"cp {place}/7fa2af80.pub /usr/share/keyrings/local.asc")
    sources = "/etc/apt/sources.list.d/cuda-ubuntu2004-11-2-local.list"
    host.run(f"sed -i 's#deb file#deb [signed-by=/usr/share/keyrings/local.asc] file#' {sources}")
    host.run("apt-get -q update")
    before = site.web.bytes_sent
    host.install("cuda-nvprune-11-2", "cuda-nvrtc-11-2")
    assert site.web.bytes_sent == before
    host.run(f"{TREE}/bin/nvprune --version")


def test_an_expired_repository_is_refused(host: Host, site: Site) -> None:
    host.run("mv /root/ground.list /etc/apt/sources.list.d/")
    site.spoil("expired")
    try:
        assert "is expired" in host.run("apt-get -q update", rc=100)
    finally:
        site.spoil("none")
    host.run("apt-get -q update")
