"""Each case that the doctor knows, on a host that has just that; none on a host that is well."""

from __future__ import annotations

from pathlib import Path

import doctor_logs
import doctor_slurm
import pytest
import served_host
import slurm_host
from doctor_cases import BESIDE, BROKEN, numpy_2, secure_boot, signed_by_conflict
from doctor_patient import CUDA_LIST, CUDA_REPO, KEYRING, Patient, patient
from gpu_stack.components.gpu_serving import doctor_look as doctor_look_of_models
from gpu_stack.components.slurm import doctor as slurm_doctor
from gpu_stack.doctor import findings
from gpu_stack.host.context import Result


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Patient:
    return patient(tmp_path, monkeypatch)


def test_a_healthy_host_has_no_finding(host: Patient, device: None) -> None:
    assert host.ask()["findings"] == []


def test_a_node_of_slurms_that_is_well_has_none(host: Patient, device: None) -> None:
    doctor_slurm.node(host)
    # Words of yesterday's trouble, which is over.
    doctor_slurm.services(host, journal="error: Munge decode failed: Expired credential\n")
    assert host.ask()["findings"] == []


def test_a_drain_of_a_run_at_work_is_no_trouble(host: Patient, device: None) -> None:
    doctor_slurm.node(host)
    doctor_slurm.drained(host, "provision: run: the NVIDIA driver is changed [root@2026-11-26]")
    finding = host.found()["slurm-drained"]
    assert "a run that needed the node for itself was cut off" in finding["cure"]
    facts = {"found": {"state": {}, "preflight": {"running": {"pid": 1}}}, "slurm": {}}
    facts["found"]["state"]["slurm"] = {
        "noted": {"part": slurm_host.PART}, "missing": [],
        "said": {"reason": "provision: run: x", "marks": ["DRAIN"]},
    }  # fmt: skip
    assert slurm_doctor.slurm_drained(facts) == []


def test_what_a_killed_run_left_is_reported_with_a_drain(host: Patient, device: None) -> None:
    doctor_slurm.of_a_killed_run(host)
    (finding,) = host.found().values()
    assert "no health check takes it back before the next run" in finding["evidence"][1]


def test_a_host_that_serves_as_it_should_has_none_either(host: Patient, device: None) -> None:
    served_host.serve(host)
    # What failed before, and what the journal of a well model says of that.
    status = served_host.model_status((1, "END", served_host.NO_OP), (2, "AVAILABLE", ""))
    host.models[served_host.ADDRESS] = status
    host.answers["journalctl"] = Result(0, served_host.FULL, "")
    assert host.found() == {}


def test_a_model_that_begins_is_waited_for(host: Patient, device: None) -> None:
    served_host.serve(host)
    host.models[served_host.ADDRESS] = served_host.model_status((2, "LOADING", ""))
    begun = {"ActiveEnterTimestampMonotonic": 900_000_000}
    host.answers["systemctl"] = served_host.unit(**begun)
    assert host.found() == {}
    host.answers["systemctl"] = served_host.unit()
    assert list(host.found()) == ["serving-unavailable"]
    del host.models[served_host.ADDRESS]
    (line,) = host.found()["serving-unavailable"]["evidence"]
    assert line == "mnist: nothing answers at 172.30.0.2:8501"


def test_a_model_of_a_newer_tensorflow_is_named_by_its_release(
    host: Patient, device: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    served_host.unavailable(host)
    monkeypatch.setattr(doctor_look_of_models.saved_model, "release_of", lambda _data: "2.12.0")
    findings = host.found()
    assert list(findings) == ["serving-other-tensorflow"]
    assert "it was saved by TensorFlow 2.12.0" in "\n".join(
        findings["serving-other-tensorflow"]["evidence"]
    )


def test_a_damaged_record_and_a_wild_journal_harm_nobody(host: Patient, device: None) -> None:
    served_host.gpu_memory(host)
    host.answers["journalctl"] = Result(0, "\x1b[2J" + served_host.FULL, "")
    (case,) = host.ask()["findings"]
    assert "\x1b" not in str(case["evidence"])
    for record in ("no json", "[]", "{}", '{"slot": "../x", "addresses": {"../x": "1"}}'):
        host.write("/etc/gpu-serving/mnist/serving.json", record)
        assert not [
            case for case in host.found() if case in served_host.BROKEN and case != "serving-door"
        ]


def test_a_bare_host_has_none_either(tmp_path: Path) -> None:
    bare = Patient(tmp_path)
    bare.answers, bare.options = {}, {}
    bare.write("/etc/os-release", 'ID=debian\nVERSION_ID="11"\n')
    assert bare.found() == {}
    assert bare.found(lock={"rows": [], "stacks": {}}) == {}


@pytest.mark.parametrize("case", BROKEN)
def test_a_case_is_named_on_a_host_that_has_it(case: str, host: Patient, device: None) -> None:
    breaks, evidence, command = BROKEN[case]
    breaks(host)
    findings = host.found()
    assert set(findings) == {case} | BESIDE.get(case, set())
    assert evidence in "\n".join(findings[case]["evidence"])
    assert command in "\n".join(findings[case]["commands"])
    assert "<" not in findings[case]["cure"].replace("<branch>", "").replace("<flavour>", "")


@pytest.mark.parametrize(
    ("signer", "cases"),
    [("Canonical Ltd. Kernel Module Signing", []), ("DKMS module signing key", ["secure-boot"])],
)
def test_a_module_that_the_kernel_trusts_is_no_trouble_under_secure_boot(
    signer: str, cases: list[str], host: Patient
) -> None:
    """Canonical's signed modules are there and not loaded yet; nobody needs a key of DKMS's."""
    secure_boot(host)
    host.write(
        "/proc/keys",
        "21a87b6d I------     1 perm 1f030000     0     0 asymmetri Canonical Ltd. Kernel Module "
        "Signing: 88f752e560a1e0737e31163a466ad7b70a850c19: X509.rsa 0a850c19 []\n",
    )
    host.answers["modinfo"] = Result(0, signer + "\n", "")
    assert list(host.found()) == cases


# The threads that people are known to have lost days to, as the project's list numbers them. (13 is
# the wish for Debian itself, and no case.)
FIELD = {
    1: ("NVIDIA/cuda-repo-management#4",),
    2: ("fgci-org/ansible-role-cuda#42",),
    3: ("NVIDIA/nvidia-docker#1631",),
    4: ("NVIDIA/cuda-repo-management#39",),
    5: ("NVIDIA/nvidia-container-toolkit#170", "NVIDIA/libnvidia-container#194"),
    6: ("debops/debops#2615", "geerlingguy/ansible-role-docker#344"),
    7: ("lyulyul/shine-cluster#30", "lyulyul/shine-cluster#50"),
    8: ("pando85/homelab#4110",),
    9: ("NVIDIA/deepops#1186",),
    10: (
        *("NVIDIA/ansible-role-nvidia-driver#44", "NVIDIA/ansible-role-nvidia-driver#51"),
        "Azure/azhpc-images#523",
    ),
    11: ("NVIDIA/ansible-role-nvidia-driver#20",),
    12: tuple(f"NVIDIA/ansible-role-nvidia-driver#{number}" for number in (11, 28, 33)),
    14: tuple(f"GoogleCloudPlatform/compute-gpu-installation#{number}" for number in (10, 25)),
    15: ("GoogleCloudPlatform/compute-gpu-installation#33",),
    16: ("GoogleCloudPlatform/compute-gpu-installation#34", "pop-os/pop#3117"),
    17: (
        *("GoogleCloudDataproc/initialization-actions#933", "NVIDIA/gpu-operator#1726"),
        "MicrosoftDocs/azure-docs#111536",
    ),
    18: ("xnvme/aisio#67", "dstackai/dstack#3967"),
    19: (
        *(f"tensorflow/tensorflow#{number}" for number in (49167, 47874, 45930, 58910)),
        "tensorflow/text#554",
    ),
    20: tuple(f"tensorflow/tensorflow#{number}" for number in (56266, 90245, 60739, 62320)),
    21: ("NVIDIA/nvidia-container-toolkit#48",),
    22: ("NVIDIA/gpu-operator#544", "Azure/azhpc-images#86"),
    23: (
        *("deeplearningparis/dl-machine#12", "spack/spack#9400"),
        "gridhead/nvidia-auto-installer-for-fedora-linux#153",
    ),
    24: ("Azure/azhpc-images#372",),
    25: ("kubernetes-sigs/kubespray#12277",),
    26: ("Jimver/cuda-toolkit#183",),
}


def test_every_thread_of_the_list_is_a_case() -> None:
    known = {thread for case in findings.CASES for thread in case.threads}
    missing = {
        number: [thread for thread in threads if thread not in known]
        for number, threads in FIELD.items()
    }
    assert {number: threads for number, threads in missing.items() if threads} == {}


def test_every_rule_has_its_case_and_every_case_its_rule_or_words() -> None:
    assert set(BROKEN) == set(findings.CHECKS)
    ids = [case.id for case in findings.CASES]
    assert len(ids) == len(set(ids))
    assert set(findings.CHECKS) <= set(ids)
    assert set(doctor_logs.LOGS) == {case.id for case in findings.CASES if case.says}
    assert {case.id for case in findings.CASES if case.fix} == set(findings.FIXES)
    assert all(case.says for case in findings.CASES if case.id not in findings.CHECKS)


def test_without_a_lock_row_the_host_is_judged_all_the_same(host: Patient) -> None:
    numpy_2(host)
    signed_by_conflict(host)
    result = host.ask(lock={"rows": [], "stacks": {}})
    assert [finding["id"] for finding in result["findings"]] == ["signed-by-conflict", "numpy-2"]
    assert result["fixes"]["components"] == []
    assert (result["locked"], host.ask()["locked"]) == (False, True)


def test_what_a_finding_says_holds_no_password(host: Patient) -> None:
    secret = CUDA_REPO.replace("https://", "https://me:secret@")
    host.write(CUDA_LIST, f"deb [signed-by={KEYRING}] {secret} /\n")
    host.remove(KEYRING)
    result = host.ask()
    assert "secret" not in str(result["findings"])
    assert "https://developer" in result["findings"][0]["evidence"][0]
