"""The doctor's cases of container runtimes and NVIDIA's toolkit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import converged_host as made
import pytest
from doctor_cases import cdi_specification, container_runtime, cri_runtime
from doctor_patient import LOCK, TOOLKIT, Patient, patient
from gpu_stack.host.context import Result


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Patient:
    return patient(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("toolkit", "daemon"),
    [("1.18.1-1", "{}"), ("1.14.6-1", '{"exec-opts": ["native.cgroupdriver=cgroupfs"]}')],
)
def test_containers_that_keep_their_gpus(
    toolkit: str, daemon: str, host: Patient, device: None
) -> None:
    host.installed("nvidia-container-toolkit", toolkit)
    host.write("/etc/docker/daemon.json", daemon)
    assert host.found() == {}


NVIDIAS = '{"runtimes": {"nvidia": {"path": "nvidia-container-runtime", "args": []}}}'


@pytest.mark.parametrize(
    ("toolkit", "daemon", "options", "evidence"),
    [
        (None, None, {}, "the lock's container toolkit is not"),
        ("1.20.1-1", None, {}, "names no runtime nvidia"),
        ("1.20.1-1", "{broken", {}, "daemon.json is not JSON"),
        ("1.20.1-1", NVIDIAS, {}, ""),
        ("1.20.1-1", '{"runtimes": {"nvidia": {"path": "/opt/old"}}}', {}, ""),
        (None, None, {"nvidia_container_toolkit_docker": "none"}, ""),
        (None, None, {"nvidia_container_toolkit_state": "absent"}, ""),
    ],
)
def test_a_docker_without_the_locks_runtime_is_reported(
    toolkit: str | None, daemon: str | None, options: dict[str, Any], evidence: str, host: Patient
) -> None:
    host.write("/usr/bin/dockerd", made.ELF)
    if toolkit:
        host.installed("nvidia-container-toolkit", toolkit)
    if daemon:
        host.write("/etc/docker/daemon.json", daemon)
    result = host.ask(lock=TOOLKIT, options=options)
    findings = {finding["id"]: finding for finding in result["findings"]}
    assert set(findings) == ({"container-runtime"} if evidence else set())
    if evidence:
        assert evidence in "\n".join(findings["container-runtime"]["evidence"])
        assert result["fixes"]["components"] == ["nvidia_container_toolkit"]


CRIO = '[crio.runtime]\ndefault_runtime = "runc"\n[crio.runtime.runtimes.runc]\n'
CRIO_KNOWS = CRIO + '[crio.runtime.runtimes.nvidia]\nruntime_path = "{}"\n'


@pytest.mark.parametrize(
    ("says", "lock", "options", "evidence"),
    [
        (CRIO, TOOLKIT, {}, "crio names no runtime nvidia"),
        (CRIO, LOCK, {}, ""),
        (CRIO, TOOLKIT, {"nvidia_container_toolkit_crio": "none"}, ""),
        (CRIO, TOOLKIT, {"nvidia_container_toolkit_state": "absent"}, ""),
        (CRIO_KNOWS.format("/usr/bin/nvidia-container-runtime"), TOOLKIT, {}, ""),
        (CRIO_KNOWS.format("/opt/x"), LOCK, {}, "crio: a runtime nvidia of somebody else's"),
    ],
)
def test_pods_that_find_no_runtime_are_reported(
    says: str, lock: Any, options: dict[str, Any], evidence: str, host: Patient
) -> None:
    cri_runtime(host)
    host.answers["config"] = Result(0, says, "")
    result = host.ask(lock=lock, options=options)
    findings = {finding["id"]: finding for finding in result["findings"]}
    assert set(findings) == ({"cri-runtime"} if evidence else set())
    if evidence:
        assert evidence in "\n".join(findings["cri-runtime"]["evidence"])
        assert findings["cri-runtime"]["commands"] == [
            "sudo nvidia-ctk runtime configure --runtime=crio",
            "sudo systemctl restart crio",
        ]
    wished = ["nvidia_container_toolkit"] if evidence and lock is TOOLKIT else []
    assert (result["fixes"].get("components") or []) == wished


def test_a_containerd_that_was_not_restarted_is_reported(host: Patient) -> None:
    host.installed("nvidia-container-toolkit", "1.20.1-1")
    host.write("/usr/bin/containerd", made.ELF)
    head = '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]\n'
    path = "/usr/bin/nvidia-container-runtime"
    host.answers["config"] = Result(0, head + f'  BinaryName = "{path}"\n', "")
    host.write("/etc/containerd/config.toml", "version = 2\n")
    host.write("/proc/812/stat", "812 (containerd) S" + " 1" * 18 + " 5000 1 2\n")
    host.write("/run/provision/containerd-restart", "812 5000\n")
    host.answers["systemctl"] = Result(0, "812\n", "")
    assert host.found() == {}
    host.write("/usr/bin/kubelet", made.ELF)
    assert "not since then" in "\n".join(host.found()["cri-runtime"]["evidence"])
    host.write("/run/provision/containerd-restart", "812 6000\n")
    assert host.found() == {}


def test_a_toolkit_that_no_lock_wishes_for_needs_no_entry(host: Patient) -> None:
    container_runtime(host)
    host.write("/etc/docker/daemon.json", '{"log-driver": "journald"}')
    assert host.found() == {}


def test_a_docker_that_was_started_before_the_hook_is_reported(host: Patient) -> None:
    container_runtime(host)
    host.write("/etc/docker/daemon.json", NVIDIAS)
    host.write("/run/docker.pid", "812")
    host.write("/proc/812/stat", "812 (dockerd) S" + " 1" * 18 + " 5000 1 2\n")
    assert host.found() == {}
    host.write("/run/provision/docker-restart", "812 5000\n")
    assert "not since then" in "\n".join(host.found()["container-runtime"]["evidence"])


def test_a_specification_is_missed_where_a_lock_has_the_toolkit(host: Patient) -> None:
    cdi_specification(host)
    host.write("/usr/lib/libcuda.so.460.73.01", made.ELF)
    found = host.found()["cdi-specification"]["evidence"]
    assert found == ["/var/run/cdi/nvidia.yaml: made for driver 460.73.01"]
    host.path("/var/run/cdi/nvidia.yaml").unlink()
    assert host.found() == {}
    result = host.ask(lock=TOOLKIT, options={})
    evidence = {finding["id"]: finding["evidence"] for finding in result["findings"]}
    assert evidence == {"cdi-specification": ["/var/run/cdi/nvidia.yaml: absent"]}
    assert result["fixes"]["components"] == ["nvidia_container_toolkit"]
    for options in (
        {"nvidia_container_toolkit_cdi": "none"},
        {"nvidia_container_toolkit_state": "absent"},
    ):
        assert host.ask(lock=TOOLKIT, options=options)["findings"] == []
