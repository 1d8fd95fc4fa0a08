"""Checks at their edges: locks that name less, answers that are cut short, words of a passed check.

A check must not end in an exception on a host that is worse, or on a lock that is older, than the
one it was written for: it would say nothing of that host.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest
from recorded import LIBRARY, PROBE, ROW, SMI, SMI_LIST, absent, host, library, said

from provision.verify.checks import CHECKS, Check, Seen, Verdict, facts, failed
from provision.verify.checks.host import host_answers
from provision.verify.diagnose import Diagnosis

BY_ID = {check.id: check for check in CHECKS}
ONE_LINE = SMI.splitlines()[0] + "\n"


def row(**components: Any) -> dict[str, Any]:
    """The lock's stack with these components' values changed; None takes a value away."""
    made = copy.deepcopy(ROW)
    for name, values in components.items():
        for key, value in values.items():
            if value is None:
                del made[name][key]
            else:
                made[name][key] = value
    return made


def detail(identifier: str, seen: Seen) -> str:
    """What a check says that does not fail: `passed: ...` or `not_applicable: ...`."""
    verdict = BY_ID[identifier](seen)
    assert verdict.result != "failed", verdict
    assert (verdict.diagnosis, verdict.hint) == ("", "")
    return f"{verdict.result}: {verdict.detail}"


def diagnosis(identifier: str, seen: Seen) -> str:
    verdict = BY_ID[identifier](seen)
    assert verdict.result == "failed", verdict
    return verdict.diagnosis


@pytest.mark.parametrize(
    ("identifier", "words"),
    [
        ("host.answers", "as lab"),
        ("nvidia_driver.answers", "2 x Tesla T4"),
        ("nvidia_driver.version", "470.256.02"),
        ("nvidia_driver.module", "470.256.02"),
        ("nvidia_driver.library", LIBRARY + "nvidia/current/libcuda.so.470.256.02"),
        ("nvidia_driver.packages", "2 packages"),
        ("nvidia_driver.gpus", "2 GPUs"),
        ("cuda.packages", "2 packages"),
        ("cuda.nvcc_login", "release 11.2"),
        ("cuda.libraries", "3 libraries"),
        ("cuda.files", "ptxas"),
        ("cudnn.library", "/opt/nvidia/cudnn/8.5.0.96-cuda11.2/lib64/libcudnn.so.8.5.0"),
        ("cudnn.version", "8.5.0"),
        ("cudnn.headers", "8.5.0"),
        (
            "gpu_env.variables",
            "XLA_FLAGS in a command over ssh, a login shell, a cron job, a systemd unit",
        ),
        ("tensorflow.imports", "/opt/tensorflow/current/bin/python, 24.0 s"),
        ("tensorflow.version", "2.9.3, Python 3.9.2"),
        ("tensorflow.wheels", "2 wheels"),
        ("tensorflow.built_with_cuda", "CUDA 11.2, cuDNN 8"),
        ("tensorflow.gpus", "2 GPUs"),
        ("tensorflow.trains", "loss 3.87 -> 0.0015"),
        ("tensorflow.computes", "2 GPUs: a matrix product and a convolution"),
        ("receipt.lock", "written 2026-11-21T14:20:05Z"),
    ],
)
def test_a_passed_check_says_what_it_saw(identifier: str, words: str) -> None:
    assert detail(identifier, host()) == f"passed: {words}"


def test_without_an_answer_every_other_check_says_why() -> None:
    seen = host(error="no route to host")
    for check in CHECKS[1:]:
        assert detail(check.id, seen) == "not_applicable: the host did not answer"


def test_what_has_no_component_in_the_lock_is_not_judged() -> None:
    """A stack without TensorFlow, say: its checks say so, and the others go on."""
    for component in ("nvidia_driver", "cuda", "cudnn", "gpu_env", "tensorflow"):
        stack = {name: part for name, part in ROW.items() if name != component}
        verdicts = {check.id: check(host(row=stack)) for check in CHECKS if check.only(host())}
        for name, verdict in verdicts.items():
            if name.startswith(component + "."):
                assert (verdict.result, verdict.detail) == (
                    "not_applicable",
                    f"the stack has no {component}",
                )
            else:
                assert verdict.result == "passed", (name, verdict)


@pytest.mark.parametrize(
    ("identifier", "component", "key", "words"),
    [
        ("nvidia_driver.packages", "nvidia_driver", "packages", "the lock names no packages"),
        ("cuda.packages", "cuda", "packages", "the lock names no packages"),
        ("cuda.libraries", "cuda", "sonames", "the lock names no libraries"),
        ("cuda.files", "cuda", "files", "the lock names no such files"),
        ("tensorflow.wheels", "tensorflow", "wheels", "the lock names no wheels"),
    ],
)
def test_a_lock_that_names_nothing_is_not_applicable(
    identifier: str, component: str, key: str, words: str
) -> None:
    """Nothing to compare with is never a pass."""
    expected = f"not_applicable: {words}"
    assert detail(identifier, host(row=row(**{component: {key: None}}))) == expected
    assert detail(identifier, host(row=row(**{component: {key: {}}}))) == expected


def test_a_profile_and_sets_of_packages_that_the_lock_lacks() -> None:
    options = {"cuda_profile": "nothing"}
    words = "not_applicable: the lock names no packages"
    assert detail("cuda.packages", host(options=options)) == words
    packages = {"userspace": {"libcuda1": "470.256.02-2"}}
    stack = row(nvidia_driver={"packages": packages})
    desktop = {"nvidia_driver_profile": "desktop"}
    assert (
        detail("nvidia_driver.packages", host(row=stack, options=desktop)) == "passed: 1 packages"
    )
    packages = {"kernel": {"nvidia-kernel-dkms": "470.256.02-2"}}
    stack = row(nvidia_driver={"packages": packages})
    assert detail("nvidia_driver.packages", host(row=stack)) == "passed: 1 packages"


def test_userspace_alone_needs_no_kernel_packages_on_a_machine_either() -> None:
    changes = {"packages": {"libcuda1": PROBE["packages"]["libcuda1"]}}
    seen = host(changes, options={"nvidia_driver_scope": "userspace"})
    assert detail("nvidia_driver.packages", seen) == "passed: 1 packages"
    desktop = {"nvidia_driver_scope": "userspace", "nvidia_driver_profile": "desktop"}
    packages = {
        "userspace": {"libcuda1": "470.256.02-2"},
        "desktop": {"nvidia-driver": "470.256.02-2"},
    }
    stack = row(nvidia_driver={"packages": packages})
    assert detail("nvidia_driver.packages", host(changes, row=stack, options=desktop)) == (
        "passed: 1 packages"
    )


def test_a_package_that_dpkg_wants_installed_again_is_no_installed_one() -> None:
    changes = {"packages/libcuda1": {"version": "470.256.02-2", "status": "iiR"}}
    assert diagnosis("nvidia_driver.packages", host(changes)) == "libcuda1 is half installed (iiR)"


def test_packages_are_reported_in_their_order_and_five_of_them_without_a_count() -> None:
    names = ["e", "b", "d", "a", "c"]
    stack = row(cuda={"packages": {"toolkit": dict.fromkeys(names, "1")}})
    seen = host(row=stack)
    words = "; ".join(f"{name} is not installed" for name in sorted(names))
    assert diagnosis("cuda.packages", seen) == words
    stack["cuda"]["packages"]["toolkit"]["f"] = "1"
    verdict = BY_ID["cuda.packages"](host(row=stack))
    assert verdict.diagnosis == words + "; and 1 more"
    assert verdict.detail == words + "; f is not installed"
    stack = row(tensorflow={"wheels": dict.fromkeys([*names, "f"], "1")})
    verdict = BY_ID["tensorflow.wheels"](host(row=stack))
    words = "; ".join(f"{name} is missing" for name in sorted(names))
    assert verdict.diagnosis == words + "; and 1 more"
    assert verdict.detail == words + "; f is missing"


# nvidia-smi


def test_a_warning_in_nvidia_smis_answer_is_no_gpu() -> None:
    warned = SMI + "WARNING: infoROM is corrupted at gpu 0000:3b:00.0\n"
    seen = host({"nvidia_smi": said(warned)})
    for name in ("answers", "version", "gpus"):
        assert BY_ID[f"nvidia_driver.{name}"](seen).result == "passed"
    assert len(facts(seen)["gpu_devices"]) == 2


def test_what_a_failing_nvidia_smi_printed_before_counts_for_nothing() -> None:
    """It lists the first GPU, then stumbles over the second."""
    error = "Unable to determine the device handle for GPU 0000:3c:00.0: Unknown Error\n"
    seen = host({"nvidia_smi": said(ONE_LINE + error, rc=15)})
    assert diagnosis("nvidia_driver.answers", seen).startswith("GPU 0000:3c:00.0 does not answer")
    assert detail("nvidia_driver.version", seen) == "not_applicable: nvidia-smi does not answer"
    # `nvidia-smi -L` answers: all GPUs are there.
    assert detail("nvidia_driver.gpus", seen) == "passed: 2 GPUs"
    assert "nvidia_driver" not in facts(seen)
    first = SMI_LIST.splitlines()[0] + "\n"
    seen = host({"nvidia_smi_list": said(first + error, rc=15)})
    words = "the driver shows no GPU, the PCI bus has 2"
    assert diagnosis("nvidia_driver.gpus", seen) == words
    assert facts(seen)["gpus"] == 0


def test_gpus_of_two_kinds_are_counted_by_kind() -> None:
    mixed = SMI.replace("Tesla T4", "Quadro P600", 1)
    seen = host({"nvidia_smi": said(mixed)})
    assert detail("nvidia_driver.answers", seen) == "passed: 1 x Quadro P600, 1 x Tesla T4"
    simulated = host({"simulated_gpu": True})
    assert detail("nvidia_driver.answers", simulated) == "passed: 2 x Tesla T4 (simulated GPU)"


def test_versions_in_use_are_reported_in_order() -> None:
    versions = [f"470.{number}.02" for number in (9, 3, 7, 1, 5, 8, 2, 6)]
    lines = [ONE_LINE.replace("470.256.02", version) for version in versions]
    seen = host({"nvidia_smi": said("".join(lines))})
    words = f"the driver in use is {', '.join(sorted(versions))}, the lock's is 470.256.02"
    assert diagnosis("nvidia_driver.version", seen) == words
    names = [ONE_LINE.replace("Tesla T4", f"GPU {number}") for number in (9, 3, 7, 1, 5, 8, 2, 6)]
    seen = host({"nvidia_smi": said("".join(names))})
    assert facts(seen)["gpu_names"] == [f"GPU {number}" for number in (1, 2, 3, 5, 6, 7, 8, 9)]
    assert BY_ID["nvidia_driver.answers"](seen).detail.startswith("1 x GPU 1, 1 x GPU 2, 1 x GPU 3")


def test_a_container_that_shows_no_bus_is_not_told_that_it_has_no_gpu() -> None:
    failing = said("No devices were found\n", rc=6)
    seen = host({"container": True, "pci": [], "nvidia_smi": failing})
    assert diagnosis("nvidia_driver.answers", seen) == "the driver is loaded but sees no GPU"


def test_a_simulated_gpu_beside_a_real_module_is_judged_by_it() -> None:
    seen = host({"simulated_gpu": True, "module/sys": "535.309.01"})
    assert diagnosis("nvidia_driver.module", seen).startswith("module 535.309.01 is loaded")
    assert detail("nvidia_driver.module", host({"simulated_gpu": True})) == "passed: 470.256.02"


def test_a_driver_version_of_two_numbers_is_read_from_proc_too() -> None:
    """440.100 had no third."""
    text = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  440.100  Fri May 29 08:45:51 UTC 2020\n"
    seen = host({"module": {"proc": text, "sys": None, "nouveau": False}})
    assert diagnosis("nvidia_driver.module", seen).startswith("module 440.100 is loaded")


def test_the_simulations_library_must_be_there_too() -> None:
    seen = host({"simulated_gpu": True, "libcuda": absent("libcuda.so.1")})
    assert diagnosis("nvidia_driver.library", seen).startswith("libcuda.so.1 can't be loaded")


def test_gpus_with_a_display_are_gpus() -> None:
    vga = [{**function, "class": "0x030000"} for function in PROBE["pci"] if
           function["class"] == "0x030200"]  # fmt: skip
    assert detail("nvidia_driver.gpus", host({"pci": vga})) == "passed: 2 GPUs"


def test_a_bus_that_is_not_shown_says_nothing_in_a_container_alone() -> None:
    words = "the driver shows 2 GPUs, the PCI bus only 0"
    assert diagnosis("nvidia_driver.gpus", host({"pci": []})) == words
    none = {"container": True, "pci": [], "nvidia_smi_list": said("", rc=6)}
    words = "the driver shows no GPU, the PCI bus has 0"
    assert diagnosis("nvidia_driver.gpus", host(none)) == words


def test_a_dark_gpu_is_reported_by_its_address() -> None:
    """Addresses of NVML have eight digits of domain, those of the bus four; capitals differ."""
    smi = ONE_LINE.replace("00000000:3B:00.0", "00000000:0A:00.0")
    pci = [{"address": "0000:0a:00.0", "class": "0x030200", "device": "0x1eb8"},
           {"address": "0000:0b:00.0", "class": "0x030200", "device": "0x1b06"}]  # fmt: skip
    seen = host({"pci": pci, "nvidia_smi": said(smi), "nvidia_smi_list":
                 said(SMI_LIST.splitlines()[0])})  # fmt: skip
    words = "1 of 2 GPUs answer; the driver does not show 0000:0b:00.0 (0x1b06)"
    assert diagnosis("nvidia_driver.gpus", seen) == words
    seen = host({"nvidia_smi": said(), "nvidia_smi_list": said(SMI_LIST.splitlines()[0])})
    words = "1 of 2 GPUs answer; the driver does not show 0000:3b:00.0 (0x1eb8), 0000:3c:00.0 "
    assert diagnosis("nvidia_driver.gpus", seen).startswith(words)


# libraries, files, cuDNN


def test_a_loader_that_crashes_says_so() -> None:
    """The probe then tells how its process ended."""
    crashed = absent("libcusolver.so.11") | {"error": "-11"}
    seen = host({"libraries/libcusolver.so.11": crashed})
    words = "libcusolver.so.11 (package libcusolver11) can't be loaded: -11"
    assert diagnosis("cuda.libraries", seen) == words


def test_every_library_that_was_seen_stands_in_the_detail() -> None:
    other = library("/opt/conda/lib/libcudart.so.11.0", "conda")
    seen = host({"libraries/libcudart.so.11.0": other})
    verdict = BY_ID["cuda.libraries"](seen)
    assert verdict.diagnosis == (
        "libcudart.so.11.0 is /opt/conda/lib/libcudart.so.11.0 of conda, not of libcudart11.0"
    )
    assert verdict.detail == (
        "libcudart.so.11.0: /opt/conda/lib/libcudart.so.11.0 (conda); "
        f"libcusolver.so.11: {LIBRARY}libcusolver.so.11.1.0.152 (libcusolver11); "
        f"libcupti.so.11.2: {LIBRARY}libcupti.so.2020.3.1 (libcupti11.2)"
    )


def test_two_wrong_libraries_are_both_named() -> None:
    lost = {name: absent(name) for name in ("libcudart.so.11.0", "libcupti.so.11.2")}
    seen = host({f"libraries/{name}": found for name, found in lost.items()})
    template = (
        "(package {0}) can't be loaded: cannot open shared object file: No such file or directory"
    )
    assert diagnosis("cuda.libraries", seen) == (
        f"libcudart.so.11.0 {template.format('libcudart11.0')}; "
        f"libcupti.so.11.2 {template.format('libcupti11.2')}"
    )


def test_the_environment_is_reported_whole() -> None:
    """Two variables that differ, a process without PATH, and what a passed check saw."""
    options = {"gpu_env_variables": {"A": "1", "B": "2"}, "gpu_env_path": ["/opt/x"]}
    good = {"PATH": "/usr/bin:/opt/x", "XLA_FLAGS": "--xla_gpu_cuda_data_dir=/usr/lib/cuda"}
    places = dict.fromkeys(PROBE["environment"], good | {"A": "1", "B": "2"})
    assert detail("gpu_env.variables", host({"environment": places}, options=options)) == (
        "passed: XLA_FLAGS, A, B, /opt/x in a command over ssh, a login shell, a cron job, "
        "a systemd unit"
    )
    places["cron"] = good | {"A": "2", "B": "1", "PATH": None}
    assert diagnosis("gpu_env.variables", host({"environment": places}, options=options)) == (
        "a cron job lacks /opt/x in PATH; a cron job differs in A, B"
    )


def test_two_missing_files_are_both_named() -> None:
    files = {
        name: {"path": f"/usr/{name}", "package": "nvidia-cuda-toolkit"} for name in ("one", "two")
    }
    seen = host({"files": {}}, row=row(cuda={"files": files}))
    words = "one is missing (/usr/one); two is missing (/usr/two)"
    assert diagnosis("cuda.files", seen) == words
    there = {name: {"exists": True, "owner": "nvidia-cuda-toolkit"} for name in files}
    assert detail("cuda.files", host({"files": there}, row=row(cuda={"files": files}))) == (
        "passed: one, two"
    )


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        ("8100", "8.1.0"),
        ("8005", "8.0.5"),
        ("8907", "8.9.7"),
        ("7605", "7.6.5"),
        ("8000", "8.0.0"),
        ("8999", "8.9.99"),
        ("90000", "9.0.0"),
        ("89999", "89.9.99"),
        ("90100", "9.1.0"),
        ("91301", "9.13.1"),
        ("99999", "9.99.99"),
        ("100000", "10.0.0"),
    ],
)
def test_cudnns_number_is_a_version(answer: str, version: str) -> None:
    """cudnnGetVersion(): thousands and hundreds up to 8, from 9 on ten thousands."""
    assert facts(host({"cudnn/answer": answer}))["cudnn"] == version


# TensorFlow


def test_a_tensorflow_that_does_not_tell_its_build_is_not_passed() -> None:
    answer = {"version": "2.9.3", "built_with_cuda": True, "python": "3.9.2", "rc": 0, "log": ""}
    words = "not_applicable: this TensorFlow does not tell what it was built for"
    for build in ({}, {"build": {}}):
        seen = host({"tensorflow/gpus": answer | build})
        assert detail("tensorflow.built_with_cuda", seen) == words


@pytest.mark.parametrize(
    ("build", "words"),
    [
        ({"cuda_version": "11.2"}, "CUDA 11.2, cuDNN None"),
        ({"cudnn_version": "8"}, "CUDA None, cuDNN 8"),
        ({"cuda_version": "11.2", "cudnn_version": "8.1"}, "CUDA 11.2, cuDNN 8.1"),
    ],
)
def test_half_a_build_is_judged_by_what_it_tells(build: dict[str, str], words: str) -> None:
    seen = host({"tensorflow/gpus/build": build})
    assert detail("tensorflow.built_with_cuda", seen) == f"passed: {words}"


def test_a_stack_without_cuda_or_cudnn_is_judged_by_the_rest() -> None:
    build = {"tensorflow/gpus/build": {"cuda_version": "11.8", "cudnn_version": "9"}}
    without = {name: part for name, part in ROW.items() if name != "cuda"}
    words = diagnosis("tensorflow.built_with_cuda", host(build, row=without))
    assert words == "TensorFlow was built for cuDNN 9, the lock's is 8"
    without = {"tensorflow": ROW["tensorflow"]}
    assert detail("tensorflow.built_with_cuda", host(build, row=without)) == (
        "passed: CUDA 11.8, cuDNN 9"
    )


@pytest.mark.parametrize(
    ("stack", "error", "words"),
    [
        (ROW, None, "it says nothing"),
        ({**ROW, "cuda": {}}, "libcudart.so.11.0: not found", "libcudart.so.11.0: not found"),
        ({"cudnn": ROW["cudnn"]}, "libcudart.so.11.0: no", "libcudart.so.11.0: no"),
    ],
)
def test_a_cudnn_that_tells_no_version_is_reported_by_its_own_words(
    stack: dict[str, Any], error: str | None, words: str
) -> None:
    seen = host({"cudnn/answer": None, "cudnn/error": error}, row=stack)
    assert diagnosis("cudnn.version", seen) == f"cuDNN does not tell its version: {words}"


def test_a_simulated_host_says_so_of_its_gpus() -> None:
    assert detail("tensorflow.gpus", host({"simulated_gpu": True})) == "passed: 2 GPUs (simulated)"


def test_no_gpu_at_all_is_nothing_to_compare_with() -> None:
    seen = host({"nvidia_smi_list": said("", rc=9), "tensorflow/gpus/gpus": []})
    words = "not_applicable: nvidia-smi shows no GPU to compare TensorFlow's 0 with"
    assert detail("tensorflow.gpus", seen) == words


def test_training_that_ends_without_a_word_is_reported_by_its_log() -> None:
    trains = {"rc": -6, "log": "x\nAborted (core dumped)\n"}
    words = "TensorFlow can't be imported: Aborted (core dumped)"
    assert diagnosis("tensorflow.trains", host({"tensorflow/trains": trains})) == words


def test_the_loss_must_fall_below_a_half() -> None:
    for last, result in ((1.0, "failed"), (0.999, "passed"), (1.001, "failed")):
        seen = host({"tensorflow/trains/first": 2.0, "tensorflow/trains/last": last})
        assert BY_ID["tensorflow.trains"](seen).result == result


# what the report gets


def test_found_of_a_host_on_which_nothing_works_has_no_empty_values() -> None:
    broken = host(
        {
            "nvidia_smi": said("", rc=9),
            "nvidia_smi_list": said("", rc=9),
            "nvcc/ssh": said("", "not found", 127),
            "cudnn": absent("libcudnn.so.8"),
            "tensorflow": {"python": "/x", "missing": True},
        }
    )
    assert facts(broken) == {"gpus": 0}


def test_found_of_a_stack_without_cudnn_and_tensorflow() -> None:
    """The probe then has no such parts."""
    probe = {name: part for name, part in PROBE.items() if name not in ("cudnn", "tensorflow")}
    values = facts(Seen({"cuda": ROW["cuda"]}, {}, probe))
    assert set(values) == {"nvidia_driver", "gpus", "gpu_names", "gpu_devices", "nvcc"}


def test_found_names_each_gpu() -> None:
    first = SMI.replace("470.256.02", "470.223.02", 1)
    values = facts(host({"nvidia_smi": said(first)}))
    assert values["nvidia_driver"] == "470.223.02"
    assert values["gpu_devices"][1] == {
        "name": "Tesla T4",
        "uuid": "GPU-273ba4a9-c37a-8338-b84b-00eede1503e3",
        "pci": "0000:3c:00.0",
        "memory": "15360 MiB",
    }


# the checks themselves


def test_what_was_seen_and_said_is_not_changed_afterwards() -> None:
    check = CHECKS[0]
    for thing, name in ((host(), "error"), (Verdict("passed", ""), "result"), (check, "id")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(thing, name, "x")


def test_a_check_is_shown_by_its_name() -> None:
    assert repr(BY_ID["host.answers"]) == (
        "Check(id='host.answers', title='The host answers the probe')"
    )
    assert isinstance(host_answers, Check)


def test_every_title_is_a_sentence() -> None:
    for check in CHECKS:
        assert len(check.title.split()) >= 2, check.title


def test_a_diagnosis_without_a_cure_gets_the_checks() -> None:
    known = Diagnosis("it is so", "do this")
    assert failed(known, "do that").hint == "do this"
    assert failed(Diagnosis("it is so"), "do that", "seen").__dict__ == {
        "result": "failed",
        "detail": "seen",
        "diagnosis": "it is so",
        "hint": "do that",
    }


def without_pam(changes: dict[str, Any], answer: bool | None) -> Seen:
    seen = host(changes)
    return dataclasses.replace(seen, probe={**seen.probe, "sshd_uses_pam": answer})


def test_without_pam_what_ssh_gives_is_not_judged_and_said() -> None:
    """`UsePAM no`: no run could ever prove the host, for sshd reads no /etc/environment then."""
    environment = {**PROBE["environment"]["ssh"], "XLA_FLAGS": None}
    gone = {"environment/ssh": environment, "nvcc/ssh": said("", "nvcc: command not found", 127)}
    for pam in (True, None):
        seen = without_pam(gone, pam)
        assert BY_ID["gpu_env.variables"](seen).result == "failed"
        assert BY_ID["cuda.nvcc_ssh"](seen).result == "failed"
    seen = without_pam(gone, False)
    verdict = BY_ID["gpu_env.variables"](seen)
    assert verdict.result == "passed"
    assert "in a login shell, a cron job, a systemd unit; not in a command over ssh: " in (
        verdict.detail
    )
    assert verdict.detail.endswith(": sshd has UsePAM no, and reads no /etc/environment")
    assert BY_ID["cuda.nvcc_ssh"](seen).result == "not_applicable"
    # A login reads /etc/environment by another way.
    login = without_pam({"nvcc/login": said("", "nvcc: command not found", 127)}, False)
    assert BY_ID["cuda.nvcc_login"](login).result == "failed"
    # Another CUDA that ssh does find is wrong all the same.
    other = without_pam({**gone, "nvcc/ssh": said("release 12.4, V12.4.1\n")}, False)
    assert BY_ID["cuda.nvcc_ssh"](other).result == "failed"


def test_no_gpu_anywhere_is_not_passed_as_having_computed() -> None:
    none = {"nvidia_smi_list": said(""), "tensorflow/gpus/gpus": []}
    seen = host(none | {"tensorflow/computes/devices": {}})
    assert detail("tensorflow.computes", seen) == (
        "not_applicable: TensorFlow does not list the GPUs that the driver shows"
    )


def test_every_gpu_that_computes_wrongly_is_named_in_order() -> None:
    devices = {
        f"/device:GPU:{n}": {"on": f"/job:localhost/device:GPU:{n}", "error": 1.5} for n in (1, 0)
    }
    assert diagnosis("tensorflow.computes", host({"tensorflow/computes/devices": devices})) == (
        "/device:GPU:0 gave a wrong answer (off by 1.5); "
        "/device:GPU:1 gave a wrong answer (off by 1.5)"
    )
