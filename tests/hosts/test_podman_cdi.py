"""podman's containers on a Debian 12 host: their GPUs come by the CDI specification, read for real.

podman 4.3.1 is Debian's own. It is handed the host's simulated GPUs by the toolkit's stand-ins
(tests/ground/toolkit.py), whose specification is of the CDI version that NVIDIA's would be. The
tests build upon each other: an older toolkit, another driver, a newer toolkit, and none.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from toolkit_host import FOREIGN, NAMES, Host, started

from tests.ground import toolkit, toolkit_simulated

pytestmark = [pytest.mark.slow]

OLD, NEW = "1.17.8", "1.20.1"
ETC, RUN = "/etc/cdi/nvidia.yaml", "/var/run/cdi/nvidia.yaml"
DROPIN = "/etc/systemd/system/nvidia-cdi-refresh.service.d/50-provision.conf"
PREPARE = "; ".join(
    f"tar -C /root/tiny -c . | {name} import - tiny" for name in ("docker", "podman")
)
ALL = "podman run --rm --device nvidia.com/gpu=all tiny nvidia-smi -L"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A bare Debian 12 with docker and podman, a driver's libraries, and a tiny image for both."""
    directory = tmp_path_factory.mktemp("cdi")
    packages = ("podman", "crun", "netavark", "libcuda1")
    with started(
        directory, *packages, platform="debian12", prepare=PREPARE, files=toolkit.NESTED
    ) as made:
        yield made


def test_podman_and_docker_list_the_hosts_simulated_gpus(host: Host) -> None:
    refused = host.root(f"{ALL} 2>&1 || true")
    assert "unresolvable CDI devices" in refused, refused
    assert ETC in host.plan(OLD)
    for version in (OLD, NEW):
        dry = host.play(version, "--check")
        assert dry.returncode == 0, dry.stdout[-4000:]
        assert host.root(f"ls {ETC} {RUN} 2>/dev/null || true") == ""
    host.becomes(OLD)
    gpus = host.root("nvidia-smi -L")
    assert gpus.count("GPU-") == 2
    assert host.root(ALL) == gpus
    listed = host.root("podman run --rm --device nvidia.com/gpu=1 tiny nvidia-smi -L")
    assert listed == gpus.splitlines()[1].replace("GPU 1:", "GPU 0:")
    assert host.root("docker run --rm --gpus all tiny nvidia-smi -L") == gpus
    assert "SIMULATED" in host.root(
        "podman run --rm --device nvidia.com/gpu=0 tiny cat /etc/gpu-simulated"
    )
    runtime = {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}
    assert host.config() == {**FOREIGN, "runtimes": runtime}


def test_a_new_driver_makes_it_stale_and_the_next_run_makes_it_anew(host: Host) -> None:
    """Its libraries have other names; what somebody else had written is kept.

    Somebody else's is in /run too, where podman looks first.
    """
    folder = "/usr/lib/x86_64-linux-gnu/nvidia/current"
    before = host.root(f"sed 1d {ETC}")
    host.root(
        f"cd {folder}; for one in *.so.535.*; do new=${{one%.so.535.*}}.so.535.999.01;"
        " mv $one $new; ln -sf $new ${one%.so.535.*}.so.1; done; ldconfig;"
        " sed -i s/^driver_version=.*/driver_version=535.999.01/ /etc/gpu-simulated;"
        f" sed -i 1d {ETC}; mkdir -p /run/cdi; cp {ETC} {RUN}"
    )
    assert "no such file" in host.root(f"{ALL} 2>&1 || true").lower()
    assert host.plan(OLD) == [RUN, ETC]
    dry = host.play(OLD, "--check")
    assert f"Would make {ETC}: names {folder}/" in dry.stdout, dry.stdout[-3000:]
    assert host.plan(OLD) == [RUN, ETC]
    host.becomes(OLD)
    assert host.root(f"ls {RUN} 2>/dev/null || true") == "", "podman would take that one"
    assert host.root(ALL) == host.root("nvidia-smi -L")
    assert "535.999.01" in host.root(f"cat {ETC}")
    assert host.root(f"cat {ETC}.provision-saved") == before.strip()


def test_a_newer_toolkit_writes_what_this_podman_reads(host: Host) -> None:
    """By itself it would write CDI 0.7.0, which podman 4.3.1 does not read; also at a boot."""
    host.becomes(NEW)
    gpus = host.root("nvidia-smi -L")
    assert host.root(ALL) == gpus
    assert host.root(f"ls {ETC} 2>/dev/null || true") == ""
    for unit in ("nvidia-cdi-refresh.path", "nvidia-cdi-refresh.service"):
        assert host.root(f"systemctl is-enabled {unit}") == "enabled"
    host.root(f"rm {RUN}; systemctl restart nvidia-cdi-refresh.service")
    assert "cdiVersion: 0.5.0" in host.root(f"cat {RUN}")
    assert host.root(ALL) == gpus
    assert host.plan(NEW) == []
    # What the unit would write without the role's setting.
    host.root(f"mv {DROPIN} /root/; systemctl daemon-reload")
    host.root("systemctl restart nvidia-cdi-refresh.service")
    assert "unresolvable CDI devices" in host.root(f"{ALL} 2>&1 || true")
    assert host.plan(NEW) == [DROPIN, RUN]
    host.becomes(NEW)
    assert host.root(ALL) == gpus


def test_a_specification_that_cannot_be_made_is_reported_and_the_old_one_stays(host: Host) -> None:
    """nvidia-ctk finds no driver at work: the run says so, and changes nothing of it."""
    before = host.root(f'sed -i s/all$/every/ {RUN}; sed -i \'s/"all"/"every"/\' {RUN}; cat {RUN}')
    host.root(f"mv {toolkit_simulated.SIMULATED} /root/")
    done = host.play(NEW)
    assert done.returncode != 0
    output = " ".join(done.stdout.replace("\\n", " ").split())
    assert "There is no CDI specification for this driver: nvidia-ctk cdi generate says:" in output
    assert host.root(f"cat {RUN}") == before
    host.root(f"mv /root/gpu-simulated {toolkit_simulated.SIMULATED}")
    host.becomes(NEW)


def test_it_goes_with_the_toolkit(host: Host) -> None:
    remains = host.plan_without(NEW)
    assert {DROPIN, RUN, *NAMES} <= set(remains)
    done = host.play(NEW, nvidia_container_toolkit_state="absent")
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr
    assert host.plan_without(NEW) == []
    assert host.root(f"ls {RUN} {ETC} {DROPIN} 2>/dev/null || true") == ""
    assert host.root(f"ls {ETC}.provision-saved")
    again = host.play(NEW, nvidia_container_toolkit_state="absent")
    assert again.returncode == 0, again.stdout[-6000:]
    assert "changed=0" in again.stdout, again.stdout[-6000:]
