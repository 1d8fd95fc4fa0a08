"""CRI-O on a Debian 12 host: a container of the runtime nvidia lists the GPUs.

No suite of Debian's has CRI-O: `crio` is a stand-in, built when the test runs, which merges, checks
and prints the configuration as CRI-O does and has containers started
(tests/ground/crio_simulated.py). systemd, conmon and runc are Debian's own. The toolkit is a
stand-in too, and the GPUs are simulated.
The tests build upon each other.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from toolkit_host import Host, started

from provision.errors import MachineError
from tests.ground import crio

pytestmark = [pytest.mark.slow]

VERSION = "1.20.1"
FILE = "/etc/crio/crio.conf.d/99-nvidia.toml"
ITEMS = [FILE, "crio daemon"]
LIST = "sh -c 'nvidia-smi -L'"
# One whose conmon stays in the cgroup of CRI-O's unit, and a line of somebody's to be kept.
THEIRS = """\
# ours, since the rack was moved
[crio.image]
pause_image = "mirror.example.org/pause:3.9"
[crio.runtime.runtimes.plain]
runtime_path = "/usr/sbin/runc"
monitor_path = "/usr/libexec/crio/conmon"
"""
STOPS = "/etc/systemd/system/crio.service.d/stops.conf"
UNLIKED = f'[Service]\nExecStartPre=/bin/sh -c "! test -e {FILE}"\n'


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    directory = tmp_path_factory.mktemp("crio")
    with started(directory, "libcuda1", platform="debian12", engine="") as made:
        crio.package(directory)
        container = made.lab.hosts[0].container
        made.lab.podman.call("cp", str(directory / "cri-o.deb"), f"{container}:/root/cri-o.deb")
        yield made


def pid(host: Host, name: str) -> str:
    return host.root(
        f"cat /run/crio/pods/{name}/pid; test -d /proc/$(cat /run/crio/pods/{name}/pid)"
    )


def files(host: Host) -> str:
    """Everything of CRI-O's, with its contents."""
    return host.root("cd /etc/crio; find . -type f | sort | xargs sha256sum")


def test_a_host_without_it_is_left_alone_or_refused(host: Host) -> None:
    required = {"nvidia_container_toolkit_crio": "required"}
    host.refused("required, and CRI-O is not installed", version=VERSION, **required)
    assert FILE not in host.plan(VERSION)


def test_what_it_can_not_read_is_refused_and_stays(host: Host) -> None:
    host.root("DEBIAN_FRONTEND=noninteractive apt-get -qq install -y /root/cri-o.deb >/dev/null")
    host.put("/etc/crio/crio.conf.d/20-theirs.conf", THEIRS)
    host.root("systemctl restart crio; crio stand-in run keeper - void sleep 100000")
    host.put("/etc/crio/crio.conf", "[crio")
    host.refused("crio can't read /etc/crio/crio.conf", "toml:", "left as it is", version=VERSION)
    table = "[crio.runtime.runtimes.nvidia]\nruntime_path = "
    host.put("/etc/crio/crio.conf", table + '"/opt/other"\n')
    host.refused("a runtime nvidia of somebody else's, by /opt/other", version=VERSION)
    host.root("rm /etc/crio/crio.conf")
    host.put(FILE, "[crio.runtime]\n")
    host.refused("is somebody else's and names no runtime nvidia", version=VERSION)
    host.root(f"rm {FILE}")


def test_a_restart_that_would_lose_containers_is_refused(host: Host) -> None:
    host.root("crio stand-in run plain plain void sleep 100000")
    host.refused("conmon runs in its own cgroup (1)", "Drain the node", version=VERSION)
    host.root("crio stand-in rm plain")


def test_one_that_does_not_start_with_it_gets_its_files_back(host: Host) -> None:
    before, keeper = files(host), pid(host, "keeper")
    host.root(f"mkdir -p {STOPS.rpartition('/')[0]}")
    host.put(STOPS, UNLIKED)
    host.root("systemctl daemon-reload")
    done = host.play(VERSION)
    assert done.returncode != 0
    output = " ".join(done.stdout.split())
    assert "the configuration from before is back, and crio runs with it" in output, output[-3000:]
    assert files(host) == before
    assert host.root("systemctl is-active crio") == "active"
    assert pid(host, "keeper") == keeper
    host.root(f"rm {STOPS}; systemctl daemon-reload")


def test_a_container_of_the_runtime_nvidia_lists_the_gpus(host: Host) -> None:
    with pytest.raises(MachineError, match="failed to find runtime handler nvidia"):
        host.root("crio stand-in run early nvidia all sleep 100000")
    before, keeper = files(host), pid(host, "keeper")
    assert host.plan(VERSION) == ITEMS
    dry = host.play(VERSION, "--check")
    assert dry.returncode == 0, dry.stdout[-6000:]
    assert "Would make the runtime nvidia known to CRI-O" in dry.stdout
    assert files(host) == before
    host.becomes(VERSION)
    assert "runtimes.nvidia" in host.root("crio status config")
    # Its monitor is in no PATH of CRI-O's: without the default's options it would not have started.
    assert 'monitor_path = "/usr/libexec/crio/conmon"' in host.root(f"cat {FILE}")
    host.root(f"mv {FILE} /root/mine")
    assert files(host) == before
    host.root(f"mv /root/mine {FILE}")
    assert pid(host, "keeper") == keeper
    host.root("crio stand-in run gpu nvidia all sleep 100000")
    listed = host.root(f"crio stand-in exec gpu {LIST}")
    assert listed == host.root("nvidia-smi -L")
    assert "GPU 0" in listed
    with pytest.raises(MachineError):
        host.root(f"crio stand-in exec keeper {LIST}")


def test_what_is_harmed_is_seen_and_cured(host: Host) -> None:
    whole, gpu = host.root(f"cat {FILE}"), pid(host, "gpu")
    host.root(f"sed -i /monitor_path/d {FILE}")
    assert host.plan(VERSION) == ITEMS
    host.becomes(VERSION)
    assert host.root(f"cat {FILE}") == whole
    assert pid(host, "gpu") == gpu
    assert "monitor_path" not in host.root("cat /etc/crio/99-nvidia.toml.provision-saved")
    host.root("rm /etc/crio/99-nvidia.toml.provision-saved")


def test_it_goes_with_the_toolkit_and_not_while_a_container_needs_it(host: Host) -> None:
    gone = {"nvidia_container_toolkit_state": "absent"}
    host.refused("were started by the toolkit's program", "k8s_gpu", version=VERSION, **gone)
    host.root("crio stand-in rm gpu")
    default = "/etc/crio/crio.conf.d/50-default.conf"
    host.put(default, '[crio.runtime]\ndefault_runtime = "nvidia"\n')
    host.refused("has nvidia as its default_runtime", version=VERSION, **gone)
    host.root(f"rm {default}")
    keeper = pid(host, "keeper")
    assert FILE in host.plan_without(VERSION)
    done = host.play(VERSION, **gone)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr
    assert host.root("cd /etc/crio/crio.conf.d; echo *") == "10-crio.conf 20-theirs.conf"
    assert host.plan_without(VERSION) == []
    assert "runtimes.nvidia" not in host.root("crio status config")
    assert pid(host, "keeper") == keeper
