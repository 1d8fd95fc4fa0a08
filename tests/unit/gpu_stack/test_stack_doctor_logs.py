"""The doctor's cases in the words of programs: in logs, and on a host."""

from __future__ import annotations

import re
from pathlib import Path

import doctor_logs
import pytest
from doctor_cases import HISTORY, build_log, nouveau_loaded
from doctor_patient import DRIVER, Patient, patient
from gpu_stack.doctor import findings
from gpu_stack.doctor.case import Case
from gpu_stack.host.context import Result


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Patient:
    return patient(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("case", "text"), [(case, text) for case, texts in doctor_logs.LOGS.items() for text in texts]
)
def test_a_log_names_its_case(case: str, text: str) -> None:
    assert [entry["id"] for entry in findings.read_log("before\n" + text + "after\n")] == [case]


@pytest.mark.parametrize("case", [case for case in findings.CASES if case.says])
def test_every_sentence_is_one_that_was_seen(case: Case) -> None:
    texts = doctor_logs.LOGS[case.id]
    for pattern in case.says:
        assert any(re.search(pattern, text, re.I) for text in texts), pattern


@pytest.mark.parametrize("text", doctor_logs.HARMLESS)
def test_what_programs_say_on_a_good_day_is_no_finding(text: str) -> None:
    assert findings.read_log(text) == []


def test_a_line_of_a_megabyte_is_read_too() -> None:
    """A pattern that can begin anywhere would take hours over it."""
    line = "x" * 500_000 + ' "AttributeError: _ARRAY_API not found" ' + "/y.c.h:" * 70_000
    (finding,) = findings.read_log(line)
    assert finding["id"] == "numpy-2"
    assert "_ARRAY_API not found" in finding["evidence"][0]
    assert len(finding["evidence"][0]) < 400


def test_of_a_list_of_packages_the_transitional_one_is_reported() -> None:
    """What `apt-cache search nvidia-driver` prints; the one before it is as its name says."""
    (finding,) = findings.read_log(
        "nvidia-driver-390 - NVIDIA driver metapackage\n"
        "nvidia-driver-418 - Transitional package for nvidia-driver-430\n"
    )
    assert finding["commands"][0] == "apt-cache policy nvidia-driver-418"


def test_the_compilers_line_and_the_kernel_are_reported() -> None:
    (finding,) = findings.read_log(doctor_logs.COMPILER)
    assert "unrecognized command-line option" in finding["evidence"][0]
    assert finding["commands"][0] == "sudo apt-get install gcc-12"


def test_an_unattended_upgrade_is_named_as_the_mismatchs_reason(host: Patient) -> None:
    host.write("/sys/module/nvidia/version", "460.73.01\n")
    host.write("/var/log/apt/history.log", HISTORY.replace("460.80-0", DRIVER + "-0"))
    evidence = host.found()["driver-mismatch"]["evidence"]
    assert "unattended-upgrades moved libnvidia-common-460 from 460.73.01" in evidence[1]
    assert "2021-06-10" in evidence[1]


def test_what_programs_on_the_host_say_is_evidence(host: Patient) -> None:
    answer = Result(255, "Failed to initialize NVML: Driver/library version mismatch\n", "")
    host.answers["nvidia-smi"] = answer
    log = "W dso_loader.cc:64] Could not load dynamic library 'libcufft.so.10'; dlerror: no\n"
    host.answers["python"] = Result(0, "", log)
    host.answers["apt-get"] = Result(100, "", "E: Unmet dependencies. Try ...\n")
    findings = host.found()
    assert list(findings) == ["driver-mismatch", "unmet-dependencies", "cuda-libraries"]
    assert findings["driver-mismatch"]["evidence"][0].startswith("nvidia-smi: Failed to initialize")
    assert findings["unmet-dependencies"]["evidence"][0].startswith("apt-get check: E: Unmet")
    assert findings["cuda-libraries"]["evidence"][0].startswith("TensorFlow: W dso_loader")


def test_a_package_without_its_dependencies_is_no_hold(host: Patient) -> None:
    """What `dpkg -i x.deb` leaves where x needs a package that is not there."""
    host.installed("x", "1.0", "install ok unpacked")
    host.answers["apt-get"] = Result(100, "", doctor_logs.LOGS["unmet-dependencies"][0])
    findings = host.found()
    assert list(findings) == ["unmet-dependencies", "dpkg-interrupted"]
    assert findings["unmet-dependencies"]["commands"] == ["sudo apt-get --fix-broken install"]


def test_a_log_on_the_host_is_read_when_it_is_named(host: Patient) -> None:
    host.write("/var/log/jupyter.log", "x\n" * 200_000 + "AttributeError: _ARRAY_API not found\n")
    assert host.found() == {}
    assert list(host.found(logs=["/var/log/jupyter.log", "/not/there"])) == ["numpy-2"]


def test_silence_of_the_driver_is_reported_where_no_reason_is(host: Patient) -> None:
    silent = doctor_logs.LOGS["driver-silent"][0]
    host.answers["nvidia-smi"] = Result(9, silent, "")
    assert list(host.found()) == ["driver-silent"]
    nouveau_loaded(host)
    assert list(host.found()) == ["nouveau-loaded"]


def test_a_driver_that_holds_its_callers_is_no_healthy_one(host: Patient) -> None:
    """The preflight's question comes first; nothing else is asked of the driver then."""
    hangs = "nvidia-smi did not answer within 120 s"
    host.answers["nvidia-smi"] = Result(124, "", hangs)
    finding = host.found()["driver-silent"]
    assert finding["evidence"] == ["nvidia-smi: " + hangs]


@pytest.mark.parametrize("rc", [124, 137])
@pytest.mark.parametrize(
    ("who", "program"), [("nvidia-smi", "nvidia-smi"), ("TensorFlow", "python")]
)
def test_a_silence_that_begins_later_is_reported_too(
    who: str, program: str, rc: int, host: Patient
) -> None:
    host.answers[program] = Result(rc, "", "")
    finding = host.found()["driver-silent"]
    assert finding["evidence"] == [f"{who}: {who} did not answer within 90 s"]


def test_the_kernels_guess_of_nouveau_counts_only_where_nouveau_is_loaded(host: Patient) -> None:
    """NVRM names four drivers that may have the card, whichever it was."""
    host.remove("/sys/module/nvidia/version")
    host.answers["nvidia-smi"] = Result(9, doctor_logs.LOGS["driver-silent"][0], "")
    host.answers["dmesg"] = Result(0, doctor_logs.LOGS["nouveau-loaded"][1], "")
    assert list(host.found()) == ["driver-silent"]
    host.write("/sys/module/nouveau/refcnt", "1\n")
    evidence = host.found()["nouveau-loaded"]["evidence"]
    assert any(line.startswith("dmesg: ") for line in evidence)


@pytest.mark.parametrize(("firmware", "cases"), [(0, "driver-silent"), (1, "secure-boot")])
def test_an_unsigned_module_is_no_secure_boot_where_that_is_off(
    firmware: int, cases: str, host: Patient
) -> None:
    """The kernel says so of any module that is not its own, and loads it."""
    host.remove("/sys/module/nvidia/version")
    host.write("/sys/firmware/efi/efivars/SecureBoot-8be4df61", bytes([6, 0, 0, 0, firmware]))
    host.answers["nvidia-smi"] = Result(9, doctor_logs.LOGS["driver-silent"][0], "")
    host.answers["dmesg"] = Result(0, doctor_logs.LOGS["secure-boot"][-1], "")
    assert list(host.found()) == [cases]
    host.write("/var/log/install.log", doctor_logs.LOGS["secure-boot"][0])
    assert list(host.found(logs=["/var/log/install.log"])) == ["secure-boot"]


def test_a_gpu_that_the_driver_does_not_find_is_reported(host: Patient) -> None:
    host.answers["nvidia-smi"] = Result(6, "No devices were found\n", "")
    assert list(host.found()) == ["gpu-silent"]
    nouveau_loaded(host)
    assert list(host.found()) == ["nouveau-loaded"]


def test_a_build_log_of_debian_13s_dkms_is_read(host: Patient) -> None:
    build_log(host, doctor_logs.of_debian_13(doctor_logs.UNDECLARED))
    (finding,) = host.found().values()
    assert finding["id"] == "dkms-failed"
    assert finding["commands"][0] == "sudo dkms autoinstall -k 6.8.0-31-generic"


def test_a_build_log_of_a_module_that_is_there_says_nothing(host: Patient) -> None:
    build_log(host, doctor_logs.GPL)
    host.write("/lib/modules/6.1.0-18-amd64/updates/dkms/nvidia.ko.xz", "")
    assert host.found() == {}
