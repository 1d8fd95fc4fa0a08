"""A project's host from one release, branch and way to another and back, and bare again.

One host with Ubuntu's identity over Debian's userland, and NVIDIA's servers of the proving ground:
the files of CUDA 11.2 are of Debian 11's packages, those of 11.8 of Debian 12's (NVIDIA's own
programs, which need no newer userland than Debian 11's). cuDNN and TensorFlow are set to absent, so
that the whole project's plan is looked at without the hours of their installation. Each step is one
`provision apply`, after which `provision plan` has nothing to change; they build upon each other.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.ground import Site, cuda, serve
from tests.hosts.ubuntu import CA, Ubuntu, bare_ubuntu

pytestmark = [pytest.mark.slow, pytest.mark.network]

HOST = "focal1"
NETWORK = {"driver_source": "network", "cuda_source": "network", "driver_branch": "470"}
# For 11.8 no archive of cuDNN is packed here; nothing of it is fetched for one set to absent.
NEWER = {**NETWORK, "driver_branch": "535", "cuda": "11.8", "cudnn": "8.6.0.163"}
AWAY = {"cuda_profile": "runtime", "cudnn_state": "absent", "tensorflow_state": "absent"}
BARE = {**AWAY, "cuda_state": "absent", "gpu_env_state": "absent", "nvidia_driver_state": "absent"}
SWITCH = ("-e", "nvidia_driver_switch=switch")
TREE = "find /usr/local/cuda-11.2 -type f -printf '%p %s %T@\\n' -o -type l -printf '%p %l\\n'"
# A library of NVIDIA's that somebody has installed by hand, and what it needs.
THEIRS = (
    "libcurand-11-2",
    "cuda-toolkit-11-2-config-common",
    "cuda-toolkit-11-config-common",
    "cuda-toolkit-config-common",
)
MINE = ("/usr/local/cuda-11.2/mine.txt", "/usr/local/cuda-10.1/version.txt")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ubuntu]:
    """A host on which somebody has a library of NVIDIA's and a tree of an older CUDA."""
    directory = tmp_path_factory.mktemp("upgrades")
    with (
        serve(directory, releases=("11.2", "11.8")) as site,
        bare_ubuntu(directory / "project", "upgrades", HOST, site, kind=Ubuntu) as project,
    ):
        by_hand(project, site)
        yield project


def by_hand(host: Ubuntu, site: Site) -> None:
    fetch = (
        "import shutil, ssl, sys, urllib.request as u; "
        f"c = ssl.create_default_context(cafile='{CA}'); "
        "shutil.copyfileobj(u.urlopen(sys.argv[1], context=c), open(sys.argv[2], 'wb'))"
    )
    for name in THEIRS:
        (package,) = cuda.build("11.2").glob(f"{name}_*.deb")
        url = f"{site.cuda_url}/{package.name}"
        host.root(f"python3 -c {shlex.quote(fetch)} {url} /root/{name}.deb")
    host.root("cd /root && dpkg --install *.deb && rm *.deb")
    for path in MINE:
        host.root(f"mkdir -p {Path(path).parent} && echo mine > {path}")


def installed(host: Ubuntu) -> dict[str, str]:
    """{package: version} of what dpkg calls installed."""
    lines = host.root("dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\\n'")
    words = [line.split() for line in lines.splitlines()]
    return {word[1]: word[2] for word in words if word[0] == "installed"}


def nvcc(host: Ubuntu, tree: str) -> str:
    return host.ssh(HOST, f"{tree}/bin/nvcc --version")


def receipt(host: Ubuntu) -> Any:
    return json.loads(host.ssh(HOST, "cat /var/lib/provision/receipt.json"))


def back(host: Ubuntu, inventory: str) -> None:
    """One rollback. With what was wished then and its lock the plan has nothing to change."""
    done = host.provision("rollback", HOST, "-i", "lab")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
    assert host.entry["status"] == "proven"
    digest = host.report["lock_digest"].removeprefix("sha256:")
    shutil.copy(host.path / "locks" / digest[:12] / "lock.yml", host.path / "lock.yml")
    (host.path / "lab/hosts.yml").write_text(inventory, "utf-8")
    done = host.provision("render", ".")
    assert done.returncode == 0, done.stdout + done.stderr
    done = host.provision("plan", "-i", "lab")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


def libcuda(host: Ubuntu) -> str:
    return host.root("readlink -f /usr/lib/x86_64-linux-gnu/libcuda.so.1").strip().split(".so.")[1]


def answers(host: Ubuntu, version: str) -> None:
    """The simulated GPU is told its driver's version, as a loaded module would have it."""
    edit = f"sed 's/^driver_version=.*/driver_version={version}/' /etc/gpu-simulated"
    host.root(f'text=$({edit}) && echo "$text" > /etc/gpu-simulated')
    assert f"driver_version={version}\n" in host.root("cat /etc/gpu-simulated")


def test_cuda_11_8_comes_beside_11_2_with_the_next_branch_and_back(host: Ubuntu) -> None:
    host.wish(AWAY, **NETWORK, cuda="11.2")
    host.proven()
    assert receipt(host)["packages"]["cuda"]["theirs"].keys() == set(THEIRS)
    before, tree = installed(host), host.root(TREE)
    assert "release 11.2" in nvcc(host, "/usr/local/cuda")
    inventory = (host.path / "lab/hosts.yml").read_text("utf-8")

    host.wish(AWAY, **NEWER)
    answers(host, "535.261.03")
    assert set(host.proven()["components"]) == {"nvidia_driver", "cuda", "gpu_env"}
    assert host.root("readlink -f /usr/local/cuda").strip() == "/usr/local/cuda-11.8"
    assert "release 11.8" in nvcc(host, "/usr/local/cuda")
    assert "/usr/local/cuda-11.8/" in host.ssh(HOST, "bash -lc 'command -v nvcc'")
    loader = host.root("ldconfig -p | grep libcudart.so.11.0 | head -n 1")
    assert "/usr/local/cuda-11.8/" in host.root(f"readlink -f {loader.split('=> ')[1].strip()}")
    assert libcuda(host) == "535.261.03"
    # 11.2 is whole, held and of use.
    newer = installed(host)
    mine = {name: before[name] for name in before if not name.endswith("-470")}
    assert {name: newer.get(name) for name in mine} == mine
    assert not [name for name in newer if name.endswith("-470")]
    assert host.root(TREE) == tree
    held = host.root("apt-mark showhold").split()
    assert {"cuda-nvcc-11-2", "cuda-nvcc-11-8"} <= set(held)
    assert "release 11.2" in nvcc(host, "/usr/local/cuda-11.2")

    answers(host, "470.256.02")
    back(host, inventory)
    after = receipt(host)["after"]
    assert (after["cuda"], after["nvidia_driver"]) == ("11.2.2", "470.256.02")
    assert libcuda(host) == "470.256.02"
    assert "release 11.2" in nvcc(host, "/usr/local/cuda")
    assert host.root(TREE) == tree
    assert not [name for name in installed(host) if name.endswith("-535")]
    assert "release 11.8" in nvcc(host, "/usr/local/cuda-11.8")


def test_both_trees_go_and_what_somebody_else_installed_stays(host: Ubuntu) -> None:
    ours = {name for name in installed(host) if name.endswith(("-11-2", "-11-8"))} - set(THEIRS)
    assert {"cuda-nvcc-11-2", "cuda-nvcc-11-8"} <= ours
    host.wish({**AWAY, "cuda_state": "absent", "gpu_env_state": "absent"}, **NETWORK, cuda="11.2")
    assert set(host.proven()["components"]) == {"cuda", "gpu_env"}
    left = installed(host)
    assert not ours & set(left)
    assert set(THEIRS) <= set(left)
    assert "libnvidia-compute-470" in left
    for path in MINE:
        assert host.root(f"cat {path}") == "mine\n"
    # Their library is found as it was before the first run, by the link of its own package.
    assert host.root("readlink -f /usr/local/cuda").strip() == "/usr/local/cuda-11.2"
    assert "libcurand.so.10" in host.root("ldconfig -p")
    assert host.root("ls /etc/apt/preferences.d /etc/ld.so.conf.d").count("provision-cuda") == 0
    assert not set(host.root("apt-mark showhold").split()) & set(THEIRS)
    # The driver takes its packages from the repository that CUDA's source named.
    host.root("apt-get -qq update")
    assert host.site.cuda_url in host.root("apt-cache policy libnvidia-compute-470")


def tutorial(host: Ubuntu) -> dict[str, str]:
    """The .run driver and the local installer, served."""
    host.site.local_installer()
    return {
        "driver_source": "runfile", "driver_branch": "470.256.02",
        "driver_sha256": str(host.site.runfile("470")["sha256"]),
        "cuda_source": "local", "cuda": "11.2.2",
    }  # fmt: skip


def test_from_nvidias_repository_to_canonicals_packages_and_the_tutorials_way(host: Ubuntu) -> None:
    host.wish(AWAY, driver_branch="470", cuda_source="network", cuda="11.2")
    refused = host.provision("apply", "-i", "lab")
    assert refused.returncode == 4, refused.stdout[-4000:] + refused.stderr[-4000:]
    assert "nvidia_driver_switch: switch" in refused.stdout
    assert "libnvidia-compute-470" in installed(host)
    host.proven(*SWITCH)
    left = installed(host)
    assert "nvidia-utils-470-server" in left
    assert not [name for name in left if name.endswith("-470")]

    host.wish(AWAY, **tutorial(host))
    host.proven(*SWITCH)
    assert not [name for name in installed(host) if "-470" in name]
    assert "release 11.2" in nvcc(host, "/usr/local/cuda")
    host.root("test -x /usr/bin/nvidia-uninstall && ! ls /var | grep cuda-repo")
    assert host.root("ls /etc/apt/sources.list.d").split() == ["lab-ubuntu.list"]


def test_the_run_files_driver_and_the_local_installers_cuda_go(host: Ubuntu) -> None:
    host.wish(BARE, **tutorial(host))
    assert set(host.proven()["components"]) == {"nvidia_driver", "cuda", "gpu_env"}
    host.root("test ! -e /usr/bin/nvidia-smi && test ! -e /usr/bin/nvidia-uninstall")
    host.root("! ls /usr/lib/x86_64-linux-gnu | grep -E 'lib(cuda|nvidia-ml)[.]so'")
    assert not [name for name in installed(host) if "cuda-nvcc" in name or "nvidia" in name]
    assert set(THEIRS) <= set(installed(host))
    for path in MINE:
        assert host.root(f"cat {path}") == "mine\n"
    found = host.root("find /etc /usr/local /usr/share/keyrings -name '*provision*'")
    assert [path for path in found.split() if "/gpu-simulated" not in path] == [], found
