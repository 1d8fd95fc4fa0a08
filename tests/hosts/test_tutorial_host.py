"""A host on which somebody has typed a tutorial by hand: one run after the blockers' own cures.

What the tutorial brings is Debian's and a person's: a driver of another branch with parts that the
lock's does not have, some of CUDA, cuDNN in /usr/local/cuda, a repository that does not answer with
a key trusted for everything, exports in .bashrc, and conda first in PATH. TensorFlow in the
system's Python is a stand-in, a package's record without its code, and so is the driver: empty
packages with the names and dependencies of branch 535 in Debian's security archive.
"""

from __future__ import annotations

import base64

import pytest
from conftest import ROOT, Project, bare_hosts

pytestmark = [pytest.mark.slow]

HOST = "tutorial1"
LINE = "deb https://127.0.0.1:9/compute/cuda/repos/debian11/x86_64/ /"
KEY = ROOT / "provision/catalog/keys/debian-archive-bullseye-stable.asc"
TYPED = (
    # a key for everything, and the repository's line into sources.list
    "install -m 644 /tmp/key.asc /etc/apt/trusted.gpg.d/tutorial.asc",
    f"echo '{LINE}' >> /etc/apt/sources.list",
    "sed -i '/debian\\.org/s/ main.*/ main contrib non-free/' /etc/apt/sources.list",
    "apt-get -qq update || true",
    "apt-get -qqy --no-install-recommends install libcudart11.0 >/dev/null",
    # apt install nvidia-driver
    "dpkg --install /tmp/typed/*.deb >/dev/null",
    # cuDNN, copied
    "mkdir -p /usr/local/cuda/include /usr/local/cuda/lib64"
    " && echo old > /usr/local/cuda/lib64/libcudnn.so.8.0.5"
    " && ln -s libcudnn.so.8.0.5 /usr/local/cuda/lib64/libcudnn.so.8"
    " && echo '#define CUDNN_MAJOR 8' > /usr/local/cuda/include/cudnn_version.h",
    # sudo pip install tensorflow
    "mkdir -p /usr/local/lib/python3.9/dist-packages/tensorflow-2.8.0.dist-info"
    " && echo 'Name: tensorflow'"
    " > /usr/local/lib/python3.9/dist-packages/tensorflow-2.8.0.dist-info/METADATA",
    # exports, and conda first
    "mkdir -p /opt/conda/bin && ln -s /usr/bin/python3 /opt/conda/bin/python"
    " && echo 'export PATH=/opt/miniconda/bin:$PATH' >> /root/.bashrc"
    " && echo 'export LD_LIBRARY_PATH=/usr/local/cuda/lib64' >> /etc/bash.bashrc",
)


OTHER = "535.309.01-0+deb11u1"
DRIVER = {
    "libcuda1": "Multi-Arch: same",
    "nvidia-smi": f"Depends: libcuda1 (= {OTHER})",
    "nvidia-driver-libs": f"Depends: libcuda1 (= {OTHER})",
    "nvidia-driver": f"Depends: nvidia-driver-libs (= {OTHER}), nvidia-smi (= {OTHER})",
}


host = bare_hosts("tutorial", HOST)


def state_of(host: Project, name: str) -> str:
    return host.ssh(HOST, f"dpkg-query -W -f '${{db:Status-Abbrev}}${{Version}}' {name} || true")


def test_the_blockers_come_at_once_and_one_run_follows_their_cures(host: Project) -> None:
    key = base64.b64encode(KEY.read_bytes()).decode()
    host.ssh(HOST, f"echo {key} | base64 -d > /tmp/key.asc")
    for name, fields in DRIVER.items():
        control = f"Package: {name}\nVersion: {OTHER}\nArchitecture: amd64\n{fields}\n"
        control += "Maintainer: me <me@localhost>\nDescription: a stand-in\n"
        host.ssh(
            HOST,
            f"mkdir -p /tmp/typed/{name}/DEBIAN && echo {_quoted(control)}"
            f" > /tmp/typed/{name}/DEBIAN/control"
            f" && dpkg-deb --build /tmp/typed/{name} /tmp/typed/{name}.deb >/dev/null",
        )
    for command in TYPED:
        host.ssh(HOST, f"sudo sh -c {_quoted(command)}")
    before = state_of(host, "libcuda1")
    assert before == f"ii {OTHER}"

    done = host.provision("apply", "-i", "lab")
    assert done.returncode == 4, done.stdout + done.stderr
    blockers = {blocker["id"]: blocker for blocker in host.entry(HOST)["blockers"]}
    assert set(blockers) == {"unplanned-removal", "unowned-cuda"}, blockers
    assert "nvidia_driver_switch: switch" in blockers["unplanned-removal"]["hint"]
    assert "nvidia-driver-libs" in blockers["unplanned-removal"]["message"]
    assert "/etc/bash.bashrc" in blockers["unowned-cuda"]["hint"]
    assert state_of(host, "libcuda1") == before

    # What the hints say, and nothing else.
    host.ssh(HOST, "sudo sed -i '/usr.local.cuda/d' /etc/bash.bashrc")
    options = host.path / "lab" / "host_vars" / f"{HOST}.yml"
    options.parent.mkdir(exist_ok=True)
    options.write_text("nvidia_driver_switch: switch\n", "utf-8")
    plan = host.provision("plan", "-i", "lab")
    assert plan.returncode == 5, plan.stdout + plan.stderr
    leaving = [change["item"] for change in host.entry(HOST)["changes"] if change["to"] is None]
    assert leaving == ["nvidia-driver", "nvidia-driver-libs"], leaving

    done = host.provision("apply", "-i", "lab")
    assert done.returncode == 0, done.stdout + done.stderr
    assert host.entry(HOST)["status"] == "proven"
    notes = {warning["id"] for warning in host.entry(HOST)["warnings"]}
    assert {"conda", "system-tensorflow"} <= notes, notes
    again = host.provision("plan", "-i", "lab")
    assert again.returncode == 0, again.stdout + again.stderr

    # Nothing of the person's is lost.
    kept = host.ssh(
        HOST,
        "cat /usr/local/cuda/include/cudnn_version.h; tail -1 /root/.bashrc 2>/dev/null;"
        " grep -c 127.0.0.1:9 /etc/apt/sources.list;"
        " ls -d /usr/local/lib/python3.9/dist-packages/t*",
    )
    assert "CUDNN_MAJOR" in kept
    assert "\n1\n" in kept
    assert "tensorflow-2.8.0.dist-info" in kept


def _quoted(command: str) -> str:
    return "'" + command.replace("'", "'\\''") + "'"
