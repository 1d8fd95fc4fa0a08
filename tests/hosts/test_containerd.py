"""containerd for who speaks CRI, on a Debian 12 host: a pod of the runtime nvidia lists the GPUs.

containerd 1.6 is Debian's own and makes the containers; Debian has no crictl, so a client of this
project's speaks CRI to it (tests/ground/cri.py). The toolkit is the stand-in, and the GPUs are
simulated. The tests build upon each other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from toolkit_host import Host, started

from provision.errors import MachineError
from tests.ground import cri

pytestmark = [pytest.mark.slow]

VERSION = "1.20.1"
FILE = "/etc/containerd/config.toml"
CRICTL = "/usr/local/bin/crictl"
SUM = f"sha256sum {FILE}"
# Overlay can't lie on a container's overlay; the rest is there to be kept.
THEIRS = """
# ours, since the rack was moved
[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "native" # a comment
[plugins."io.containerd.grpc.v1.cri".registry.mirrors."registry.example.org"]
  endpoint = ["https://mirror.example.org"]
"""
# Nobody but init's own may say who is killed last where memory ends; a lab's host is a container.
SPARED = "restrict_oom_score_adj = true"
# The image of a pod's first container, by the name that this containerd looks for.
IMAGES = """\
tar -C /root/tiny -c . | docker import --change 'ENV PATH=/bin:/usr/bin' \
  --change 'CMD ["sleep", "100000"]' - tiny
docker tag tiny registry.k8s.io/pause:3.6
docker save tiny:latest registry.k8s.io/pause:3.6 > /root/images.tar
ctr -n k8s.io images import --snapshotter native /root/images.tar
"""
LIST = ("sh", "-c", "nvidia-smi -L")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    directory = tmp_path_factory.mktemp("containerd")
    packages = ("containerd", "libcuda1", "python3-grpcio")
    with started(directory, *packages, platform="debian12") as made:
        yield made


def asked(host: Host, *words: str) -> str:
    """What the client of CRI prints."""
    return host.root(" ".join([CRICTL, *(f"'{word}'" for word in words)]))


def test_a_containerd_that_serves_docker_alone_is_left_alone(host: Host) -> None:
    before = host.root(SUM)
    host.becomes(VERSION)
    assert host.root(SUM) == before
    required = {"nvidia_container_toolkit_containerd": "required"}
    host.root(f"cp {FILE} /root/theirs; echo 'disabled_plugins = [\"cri\"]' > {FILE}")
    host.refused("switches CRI off", version=VERSION, **required)
    host.root(f"cp /root/theirs {FILE}")


def prepared(host: Host) -> None:
    """Somebody speaks CRI here: a client, a configuration, and a pod that runs."""
    host.put(CRICTL, "#!/usr/bin/python3\n" + Path(cri.__file__).read_text("utf-8"))
    host.put("/root/more", THEIRS)
    host.root(f"sed -i '/grpc.v1.cri\"\\]$/a {SPARED}' {FILE}; cat /root/more >> {FILE}")
    host.root(f"chmod 755 {CRICTL}; systemctl restart containerd")
    host.root(IMAGES)
    host.put("/root/keeper", asked(host, "run", "keeper", "-", "void", "sleep", "100000"))


def test_what_containerd_can_not_read_is_refused_and_stays(host: Host) -> None:
    prepared(host)
    host.root(f"cp {FILE} /root/theirs; echo '[broken' >> {FILE}")
    host.refused(f"containerd can't read {FILE}", "was left as it is", version=VERSION)
    other = '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]'
    host.root(f"cp /root/theirs {FILE}")
    host.put("/root/other", f'{other}\nBinaryName = "/opt/other"\n')
    host.root(f"cat /root/other >> {FILE}")
    host.refused("has a runtime nvidia of somebody else's, by /opt/other", version=VERSION)
    host.root(f"cp /root/theirs {FILE}; sed -i 's/^version = 2/version = 1/' {FILE}")
    host.refused("is of version 1; expected 2 or 3", version=VERSION)
    host.root(f"cp /root/theirs {FILE}")


def test_a_restart_that_would_lose_containers_is_refused(host: Host) -> None:
    folder = "/etc/systemd/system/containerd.service.d"
    host.root(f"mkdir -p {folder}")
    host.put(folder + "/kill.conf", "[Service]\nKillMode=control-group\n")
    host.root("systemctl daemon-reload")
    words = "KillMode of containerd.service is not process"
    host.refused(words, "containers would be lost", version=VERSION)
    assert host.seen(VERSION)["containerd"]["loses"] == words
    host.root(f"rm -r {folder}; systemctl daemon-reload")
    assert host.seen(VERSION)["containerd"]["loses"] is None


def test_a_pod_of_the_runtime_nvidia_lists_the_gpus(host: Host) -> None:
    assert "nvidia" not in json.loads(asked(host, "status"))
    before = host.root(SUM)
    assert host.plan(VERSION) == [f"{FILE} runtimes.nvidia", "containerd daemon"]
    dry = host.play(VERSION, "--check")
    assert dry.returncode == 0, dry.stdout[-6000:]
    assert "Would make the runtime nvidia known to containerd" in dry.stdout
    assert host.root(SUM) == before
    theirs, keeper = host.root("cat /root/theirs"), host.root("cat /root/keeper")
    started_at = host.root("pgrep -f '^sleep 100000' | sort | head -1")
    host.becomes(VERSION)
    assert host.root(f"cat {FILE}").startswith(theirs)
    assert host.root(f"cat {FILE}.provision-saved") == theirs
    # Who ran before runs on, and containerd knows him.
    assert host.root("pgrep -f '^sleep 100000' | sort | head -1") == started_at
    assert asked(host, "exec", keeper, "sh", "-c", "echo here") == "here"
    found = json.loads(asked(host, "status"))
    assert found["nvidia"]["options"]["BinaryName"] == "/usr/bin/nvidia-container-runtime"
    assert "runc" in found
    mine = asked(host, "run", "gpu", "nvidia", "all", "sleep", "100000")
    assert asked(host, "exec", mine, *LIST) == host.root("nvidia-smi -L")
    with pytest.raises(MachineError):
        asked(host, "exec", keeper, *LIST)


def test_what_is_harmed_is_seen_and_cured(host: Host) -> None:
    whole = host.root(SUM)
    host.root(f"cp /root/theirs {FILE}")
    assert host.plan(VERSION) == [f"{FILE} runtimes.nvidia", "containerd daemon"]
    host.becomes(VERSION)
    assert host.root(SUM) == whole
    assert "nvidia" in json.loads(asked(host, "status"))


def test_a_table_without_its_end_is_refused_and_nothing_is_touched(host: Host) -> None:
    whole = host.root(f"cat {FILE}")
    host.root(f"cp {FILE} /root/whole; sed -i '/^# End of what/d' {FILE}")
    words = ("the begin of this role's lines", "Put the end back below the table")
    host.refused(*words, version=VERSION)
    host.refused(*words, version=VERSION, nvidia_container_toolkit_state="absent")
    assert "no line ends it" in host.seen(VERSION)["containerd"]["fault"]
    host.root(f"cp /root/whole {FILE}")
    assert host.root(f"cat {FILE}") == whole
    assert host.plan(VERSION) == []


def test_it_goes_with_the_toolkit_and_not_while_a_pod_needs_it(host: Host) -> None:
    gone = {"nvidia_container_toolkit_state": "absent"}
    host.refused("were started by the toolkit's program", "k8s.io/", version=VERSION, **gone)
    asked(host, "rm", "gpu")
    assert f"{FILE} runtimes.nvidia" in host.plan_without(VERSION)
    done = host.play(VERSION, **gone)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr
    assert host.root(f"cat {FILE}") == host.root("cat /root/theirs")
    assert host.plan_without(VERSION) == []
    assert "nvidia" not in json.loads(asked(host, "status"))
    keeper = host.root("cat /root/keeper")
    assert asked(host, "exec", keeper, "sh", "-c", "echo here") == "here"
