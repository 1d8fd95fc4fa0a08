"""Every check: green on a good host, red with a diagnosis on a bad one, never by default."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from recorded import LIBRARY, PROBE, ROW, SMI, SMI_LIST, absent, host, library, said

from provision.verify.checks import CHECKS, Seen, facts

BY_ID = {check.id: check for check in CHECKS}
# The others are about another kind of stack: see test_checks_wheels.py.
EVERYWHERE = [check for check in CHECKS if check.only(host())]
SIMULATED = {"container": True, "simulated_gpu": True}
NO_MODULE = {"module": {"proc": None, "sys": None, "nouveau": False}}
LOG = "2026 W tensorflow/stream_executor/platform/default/dso_loader.cc:64] "
NO_CUSOLVER = (
    LOG + "Could not load dynamic library 'libcusolver.so.11'; dlerror: libcusolver.so.11: "
    "cannot open shared object file: No such file or directory\n"
    "2026 W tensorflow/core/common_runtime/gpu/gpu_device.cc:1850] Cannot dlopen some GPU "
    "libraries. Skipping registering GPU devices...\n"
)
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\n"


@pytest.mark.parametrize("check", EVERYWHERE, ids=lambda check: check.id)
def test_a_good_host_passes(check: Any) -> None:
    verdict = check(host())
    assert verdict.result == "passed", verdict


# (check, what is different from the good host, words that the diagnosis and its cure must hold)
RED: list[tuple[str, dict[str, Any], list[str]]] = [
    (
        "nvidia_driver.answers",
        {"nvidia_smi": said(MISMATCH, rc=18)},
        ["Driver/library version mismatch", "reboot", "apt-mark showhold"],
    ),
    (
        "nvidia_driver.answers",
        {"nvidia_smi": said("", "nvidia-smi: command not found", 127)},
        ["not installed"],
    ),
    (
        "nvidia_driver.answers",
        {"nvidia_smi": said("No devices were found\n", rc=6), "module/nouveau": True},
        ["nouveau is loaded", "initramfs"],
    ),
    ("nvidia_driver.answers", {"nvidia_smi": said("", rc=0)}, ["ended with 0"]),
    (
        "nvidia_driver.answers",
        {"nvidia_smi": said("No devices were found\n", rc=6), "pci": []},
        ["no NVIDIA GPU on this host's PCI bus", "firmware"],
    ),
    (
        "nvidia_driver.version",
        {"nvidia_smi": said(SMI.replace("470.256.02", "535.309.01"))},
        ["535.309.01", "470.256.02", "reboot"],
    ),
    ("nvidia_driver.module", {"module/sys": "535.309.01"}, ["535.309.01 is loaded", "reboot"]),
    (
        "nvidia_driver.module",
        {
            "module/sys": None,
            "module/proc": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  "
            "460.32.03  Sun Dec 27 19:00:34 UTC 2020\n",
        },
        ["460.32.03 is loaded"],
    ),
    ("nvidia_driver.module", NO_MODULE, ["no NVIDIA module", "dkms status", "5.10.0-32-amd64"]),
    (
        "nvidia_driver.module",
        {"module": {"proc": None, "sys": None, "nouveau": True}},
        ["nouveau is loaded instead"],
    ),
    (
        "nvidia_driver.library",
        {"libcuda": absent("libcuda.so.1")},
        ["can't be loaded: cannot open"],
    ),
    (
        "nvidia_driver.library",
        {"libcuda": library("/usr/local/cuda/compat/libcuda.so.460.32.03", None)},
        ["compat", "470.256.02"],
    ),
    (
        "nvidia_driver.packages",
        {"packages/libcuda1": {"version": "535.309.01-0+deb11u1", "status": "ii"}},
        ["libcuda1 is 535.309.01-0+deb11u1"],
    ),
    (
        "nvidia_driver.packages",
        {"packages/nvidia-kernel-dkms": {"version": "470.256.02-2", "status": "iF"}},
        ["nvidia-kernel-dkms is half installed"],
    ),
    (
        "nvidia_driver.packages",
        {"packages/libcuda1": {"version": "470.256.02-2", "status": "rc"}},
        ["libcuda1 is not installed"],
    ),
    (
        "nvidia_driver.gpus",
        {
            "nvidia_smi": said(SMI.splitlines()[0] + "\n"),
            "nvidia_smi_list": said(SMI_LIST.splitlines()[0] + "\n"),
        },
        ["1 of 2 GPUs answer", "0000:02:00.0 (0x1eb8)", "lspci"],
    ),
    (
        "nvidia_driver.gpus",
        {"nvidia_smi_list": said("No devices were found\n", rc=6)},
        ["no GPU, the PCI bus has 2"],
    ),
    (
        "nvidia_driver.gpus",
        {"pci": PROBE["pci"][:2]},
        ["2 GPUs, the PCI bus only 1"],
    ),
    ("cuda.packages", {"packages": {}}, ["libcusolver11 is not installed", "nvidia-cuda-toolkit"]),
    (
        "cuda.nvcc_login",
        {"nvcc/login": said("", "bash: line 1: nvcc: command not found\n", 127)},
        ["a login shell does not find nvcc", "PATH"],
    ),
    (
        "cuda.nvcc_ssh",
        {"nvcc/ssh": said("Cuda compilation tools, release 12.4, V12.4.131\n")},
        ["release 12.4", "11.2", "conda"],
    ),
    ("cuda.nvcc_cron", {"nvcc/cron": said("", "/bin/sh: 1: nvcc: not found\n", 127)}, ["cron job"]),
    (
        "cuda.nvcc_systemd",
        {"nvcc/systemd": said("", "nvcc: Permission denied\n", 126)},
        ["fails in a systemd unit", "Permission denied"],
    ),
    ("cuda.nvcc_ssh", {"nvcc/ssh": said("gibberish")}, ["release unknown"]),
    (
        "cuda.libraries",
        {"libraries/libcusolver.so.11": absent("libcusolver.so.11")},
        ["libcusolver.so.11 (package libcusolver11) can't be loaded", "No such file"],
    ),
    (
        "cuda.libraries",
        {"libraries/libcudart.so.11.0": library("/opt/conda/lib/libcudart.so.11.0", None)},
        ["libcudart.so.11.0 is /opt/conda/lib/libcudart.so.11.0 of no package"],
    ),
    (
        "cuda.libraries",
        {
            "libraries/libcupti.so.11.2": library(
                LIBRARY + "libcupti.so.2020.3.1", "libcupti11.2", cached=None, cached_real=None
            )
        },
        ["libcupti.so.11.2 is not in the loader's cache"],
    ),
    ("cuda.libraries", {"libraries": {}}, ["libcudart.so.11.0", "libcusolver.so.11"]),
    (
        "cuda.files",
        {"files/ptxas": {"path": "/usr/bin/ptxas", "exists": False, "owner": None}},
        ["ptxas is missing (/usr/bin/ptxas)"],
    ),
    (
        "cuda.files",
        {"files/ptxas": {"path": "/usr/bin/ptxas", "exists": True, "owner": None}},
        ["belongs to no package, not to nvidia-cuda-toolkit"],
    ),
    (
        "cudnn.library",
        {"cudnn": absent("libcudnn.so.8") | {"root": "/opt/nvidia/cudnn", "headers": "8.1.0"}},
        ["libcudnn.so.8 can't be loaded"],
    ),
    (
        "cudnn.library",
        {"cudnn/real": "/usr/lib/x86_64-linux-gnu/libcudnn.so.8.9.7"},
        ["taken from /usr/lib/x86_64-linux-gnu/libcudnn.so.8.9.7", "LD_LIBRARY_PATH"],
    ),
    # A neighbour whose name begins the same is another directory.
    (
        "cudnn.library",
        {"cudnn/real": "/opt/nvidia/cudnn/8.1.0.77-cuda11.20/lib64/libcudnn.so.8.1.0"},
        ["not from /opt/nvidia/cudnn/8.1.0.77-cuda11.2/"],
    ),
    ("cudnn.library", {"cudnn/cached_real": "/usr/lib/old"}, ["not in the loader's cache"]),
    (
        "cudnn.version",
        {
            "cudnn/answer": None,
            "cudnn/error": "Could not load library libcudnn_ops_infer.so.8. Error: "
            "libcudnn_ops_infer.so.8: file too short",
        },
        ["does not tell its version", "file too short"],
    ),
    ("cudnn.version", {"cudnn/answer": "8005"}, ["cuDNN 8.0.5 is loaded", "built with 8.1.0"]),
    ("cudnn.version", {"cudnn/answer": "90100"}, ["cuDNN 9.1.0 is loaded", "same major"]),
    ("cudnn.version", {"cudnn/answer": "8500"}, ["8.5.0 is loaded, the lock's is 8.1.0.77"]),
    ("cudnn.headers", {"cudnn/headers": None}, ["can't be read"]),
    ("cudnn.headers", {"cudnn/headers": "8.5.0"}, ["of cuDNN 8.5.0"]),
    ("tensorflow.imports", {"tensorflow/missing": True}, ["does not exist"]),
    (
        "tensorflow.imports",
        {
            "tensorflow/gpus": {
                "rc": 1,
                "log": "A module that was compiled using NumPy 1.x cannot be run in NumPy 2.0.2",
                "error": "TypeError: Unable to convert function return value to a Python type! "
                "The signature was () -> handle",
            }
        },
        ["NumPy 2", "numpy<2"],
    ),
    ("tensorflow.imports", {"tensorflow/gpus": {"rc": -4, "log": ""}}, ["AVX"]),
    ("tensorflow.version", {"tensorflow/gpus/version": "2.9.1"}, ["2.9.1 answers", "2.9.3"]),
    ("tensorflow.version", {"tensorflow/gpus/python": "3.10.1"}, ["Python is 3.10.1"]),
    (
        "tensorflow.wheels",
        {"tensorflow/wheels": {"numpy": ["1.26.4", "2.0.2"]}},
        ["numpy is 1.26.4 and 2.0.2, the lock's is 1.26.4; tensorflow is missing", "again"],
    ),
    ("tensorflow.built_with_cuda", {"tensorflow/gpus/built_with_cuda": False}, ["tensorflow-cpu"]),
    (
        "tensorflow.built_with_cuda",
        {"tensorflow/gpus/build": {"cuda_version": "11.8", "cudnn_version": "8"}},
        ["built for CUDA 11.8"],
    ),
    (
        "tensorflow.built_with_cuda",
        {"tensorflow/gpus/build": {"cuda_version": "11.2", "cudnn_version": "9"}},
        ["built for cuDNN 9"],
    ),
    (
        "tensorflow.gpus",
        {"tensorflow/gpus/gpus": [], "tensorflow/gpus/log": NO_CUSOLVER},
        ["0 of 2 GPUs", "libcusolver.so.11"],
    ),
    ("tensorflow.gpus", {"tensorflow/gpus/gpus": ["one"]}, ["1 of 2 GPUs"]),
    (
        "tensorflow.trains",
        {"tensorflow/trains": {"rc": 1, "log": "", "error": "ValueError: no"}},
        ["a Keras model can't be trained on the CPU: ValueError: no"],
    ),
    ("tensorflow.trains", {"tensorflow/trains/last": float("nan")}, ["does not learn"]),
    (
        # An RTX 5090 with a stock wheel: it is listed, and the first operation ends so.
        "tensorflow.computes",
        {
            "tensorflow/computes": {
                "rc": 0,
                "log": "'cuModuleLoadData(&module, data)' failed with 'CUDA_ERROR_INVALID_PTX'",
                "devices": {},
                "error": "InternalError: 'cuLaunchKernel' failed with 'CUDA_ERROR_INVALID_HANDLE'",
            }
        },
        ["has no code for it", "was not built for that GPU's generation"],
    ),
    (
        "tensorflow.computes",
        {"tensorflow/computes": {"rc": -9, "log": "no answer within 600 s"}},
        ["did not finish", "verify again"],
    ),
    (
        "tensorflow.computes",
        {"tensorflow/computes": {"rc": -6, "log": "x\nAborted (core dumped)\n"}},
        ["can't compute on the GPU: Aborted"],
    ),
    ("tensorflow.computes", {"tensorflow/computes/devices": {}}, ["computed on 0 of 2 GPUs"]),
    ("tensorflow.trains", {"tensorflow/trains/last": 2.9}, ["does not learn"]),
    (
        "gpu_env.variables",
        {"environment/cron": {"PATH": "/usr/bin:/bin", "XLA_FLAGS": None}},
        ["a cron job lacks XLA_FLAGS", "already runs"],
    ),
    (
        "gpu_env.variables",
        {"environment/systemd/XLA_FLAGS": "--xla_gpu_cuda_data_dir=/usr/local/cuda"},
        ["a systemd unit differs in XLA_FLAGS"],
    ),
    ("receipt.lock", {"receipt/lock_digest": "sha256:old"}, ["another lock (sha256:old)"]),
    ("receipt.lock", {"receipt/error": "it can't be read"}, ["can't be read", "finished run"]),
]


@pytest.mark.parametrize(
    ("identifier", "changes", "words"), RED, ids=[f"{n}-{case[0]}" for n, case in enumerate(RED)]
)
def test_a_bad_host_fails_with_a_diagnosis_and_a_cure(
    identifier: str, changes: dict[str, Any], words: list[str]
) -> None:
    verdict = BY_ID[identifier](host(changes))
    assert verdict.result == "failed", verdict
    text = verdict.diagnosis + " " + verdict.hint
    for word in words:
        assert word in text
    if identifier != "nvidia_driver.answers" or words != ["ended with 0"]:
        assert verdict.hint


def test_a_host_that_does_not_answer_fails_once() -> None:
    seen = host(error="ssh: connect to host gpu01 port 22: Connection refused")
    verdicts = {check.id: check(seen) for check in CHECKS}
    failed = [name for name, verdict in verdicts.items() if verdict.result == "failed"]
    assert failed == ["host.answers"]
    assert "Connection refused" in verdicts["host.answers"].diagnosis
    assert {v.result for n, v in verdicts.items() if n != "host.answers"} == {"not_applicable"}
    assert facts(seen) == {}


def test_every_check_has_been_seen_red() -> None:
    """A check without a case above may be one that cannot fail."""
    assert {check.id for check in EVERYWHERE} == {case[0] for case in RED} | {"host.answers"}


NOT_APPLICABLE: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("nvidia_driver.module", SIMULATED | NO_MODULE, {}, "simulated GPU"),
    ("nvidia_driver.module", {"container": True} | NO_MODULE, {}, "container"),
    ("nvidia_driver.version", SIMULATED, {}, "simulation"),
    ("nvidia_driver.library", SIMULATED, {}, "simulation"),
    ("nvidia_driver.gpus", {"pci": [], "container": True}, {}, "PCI bus"),
    ("cuda.nvcc_systemd", {"nvcc/systemd": None}, {}, "ordinary user"),
    ("cuda.nvcc_ssh", {}, {"options": {"cuda_profile": "runtime"}}, "runtime installs no nvcc"),
    ("receipt.lock", {}, {"lock_digest": None}, "no lock"),
    ("tensorflow.gpus", {}, {"row": {"cuda": ROW["cuda"]}}, "the stack has no tensorflow"),
    # One cause, one failure: what depends on it says so.
    ("nvidia_driver.version", {"nvidia_smi": said(MISMATCH, rc=18)}, {}, "does not answer"),
    (
        "nvidia_driver.gpus",
        {"nvidia_smi": said(MISMATCH, rc=18), "nvidia_smi_list": said(MISMATCH, rc=18)},
        {},
        "does not answer",
    ),
    ("cudnn.version", {"cudnn/loaded": None}, {}, "no cuDNN"),
    (
        "cudnn.version",
        {
            "cudnn/answer": None,
            "cudnn/error": "Could not load library libcudnn_ops_infer.so.8. Error: "
            "libcusolver.so.11: cannot open shared object file: No such file or directory",
        },
        {},
        "it can't be asked without libcusolver.so.11",
    ),
    ("tensorflow.version", {"tensorflow/gpus": {"rc": 1, "log": ""}}, {}, "can't be imported"),
    ("tensorflow.built_with_cuda", {"tensorflow/gpus": {"rc": 1, "log": ""}}, {}, "imported"),
    ("tensorflow.gpus", {"tensorflow/gpus": {"rc": 1, "log": ""}}, {}, "can't be imported"),
    ("tensorflow.gpus", {"nvidia_smi_list": said(MISMATCH, rc=18)}, {}, "no GPU to compare"),
    ("tensorflow.trains", {"tensorflow/missing": True}, {}, "no TensorFlow"),
    ("tensorflow.computes", {"simulated_gpu": True}, {}, "a simulated GPU computes nothing"),
    ("tensorflow.computes", {"tensorflow/gpus/gpus": []}, {}, "does not list the GPUs"),
    ("tensorflow.computes", {"tensorflow/gpus": {"rc": 1, "log": ""}}, {}, "can't be imported"),
    (
        "tensorflow.computes",
        {
            "tensorflow/computes": {
                "rc": 0,
                "log": "",
                "devices": {},
                "error": "ResourceExhausted: x",
            }
        },
        {},
        "memory is taken",
    ),
    (
        "tensorflow.trains",
        {"tensorflow/trains": {"rc": 1, "log": ""}, "tensorflow/gpus": {"rc": 1, "log": ""}},
        {},
        "can't be imported",
    ),
    ("tensorflow.wheels", {"tensorflow/missing": True}, {}, "no TensorFlow"),
    ("tensorflow.wheels", {}, {"row": ROW | {"tensorflow": {"version": "2.9.3"}}}, "no wheels"),
]


@pytest.mark.parametrize(
    ("identifier", "changes", "more", "word"),
    NOT_APPLICABLE,
    ids=[f"{n}-{case[0]}" for n, case in enumerate(NOT_APPLICABLE)],
)
def test_what_a_host_cannot_show_is_not_applicable(
    identifier: str, changes: dict[str, Any], more: dict[str, Any], word: str
) -> None:
    verdict = BY_ID[identifier](host(changes, **more))
    assert verdict.result == "not_applicable"
    assert word in verdict.detail


def test_a_simulated_host_passes_what_it_can_show_and_nothing_else() -> None:
    seen = host(SIMULATED | NO_MODULE)
    results = {check.id: check(seen).result for check in EVERYWHERE}
    assert {name for name, result in results.items() if result != "passed"} == {
        "nvidia_driver.version",
        "nvidia_driver.module",
        "nvidia_driver.library",
        "tensorflow.computes",
    }
    assert "(simulated)" in BY_ID["tensorflow.gpus"](seen).detail


def test_the_environment_is_judged_by_the_users_own_options() -> None:
    """Further variables, directories in PATH and another place of libdevice."""
    check = BY_ID["gpu_env.variables"]
    options = {
        "gpu_env_variables": {"TF_CPP_MIN_LOG_LEVEL": "1"},
        "gpu_env_path": ["/opt/tools/bin"],
        "gpu_env_xla_cuda_data_dir": "/opt/cuda",
    }
    assert check(host(options=options)).diagnosis.startswith(
        "a command over ssh lacks TF_CPP_MIN_LOG_LEVEL, /opt/tools/bin in PATH; "
        "a command over ssh differs in XLA_FLAGS; a login shell lacks "
    )
    everywhere = {
        "PATH": "/usr/bin:/opt/tools/bin",
        "TF_CPP_MIN_LOG_LEVEL": "1",
        "XLA_FLAGS": "--xla_gpu_cuda_data_dir=/opt/cuda",
    }
    places = dict.fromkeys(PROBE["environment"], everywhere) | {"systemd": None}
    verdict = check(host({"environment": places}, options=options))
    assert verdict.result == "passed", verdict
    assert "systemd" not in verdict.detail  # an ordinary user can't see it there


def test_a_desktop_needs_its_packages_too() -> None:
    packages = {name: dict(sets) for name, sets in ROW["nvidia_driver"]["packages"].items()}
    packages["desktop"] = {"nvidia-driver": "470.256.02-2"}
    row = {**ROW, "nvidia_driver": {**ROW["nvidia_driver"], "packages": packages}}
    check = BY_ID["nvidia_driver.packages"]
    assert check(host(row=row)).result == "passed"
    desktop = host(row=row, options={"nvidia_driver_profile": "desktop"})
    assert check(desktop).diagnosis == "nvidia-driver is not installed"


def test_a_container_needs_no_kernel_packages_but_full_scope_does() -> None:
    changes = {"container": True, "packages": {"libcuda1": PROBE["packages"]["libcuda1"]}}
    check = BY_ID["nvidia_driver.packages"]
    assert check(host(changes)).result == "passed"
    full = host(changes, options={"nvidia_driver_scope": "full"})
    assert "nvidia-kernel-dkms is not installed" in check(full).diagnosis
    assert check(host(changes | {"container": False})).result == "failed"


def test_a_driver_that_is_no_package_has_none_to_judge_and_signed_modules_follow_the_kernel() -> (
    None
):
    check = BY_ID["nvidia_driver.packages"]
    run = {**ROW["nvidia_driver"], "source": "runfile"}
    verdict = check(host(row={**ROW, "nvidia_driver": run}))
    assert (verdict.result, verdict.detail) == (
        "not_applicable",
        "the driver came by NVIDIA's .run file, not as packages",
    )
    packages = {name: dict(sets) for name, sets in ROW["nvidia_driver"]["packages"].items()}
    name = "linux-modules-nvidia-470-server-generic"
    packages["kernel"][name] = "5.4.0-216.236"
    row = {**ROW, "nvidia_driver": {**ROW["nvidia_driver"], "packages": packages}}
    assert check(host(row=row)).result == "passed"


def test_a_container_that_shows_the_module_is_judged_by_it() -> None:
    seen = host({"container": True, "module/sys": "535.309.01"})
    assert BY_ID["nvidia_driver.module"](seen).result == "failed"


def test_profile_runtime_needs_its_own_packages_and_files_without_owner() -> None:
    options = {"cuda_profile": "runtime"}
    changes: dict[str, Any] = {
        "packages": {"libcusolver11": PROBE["packages"]["libcusolver11"]},
        "files/ptxas": {"path": "/usr/bin/ptxas", "exists": True, "owner": None},
    }
    for name in ("cuda.packages", "cuda.files"):
        assert BY_ID[name](host(changes, options=options)).result == "passed"
        assert BY_ID[name](host(changes)).result == "failed"


def test_many_missing_packages_are_counted_not_listed() -> None:
    wanted = {f"package{number}": "1" for number in range(9)}
    row = ROW | {"cuda": ROW["cuda"] | {"packages": {"toolkit": wanted}}}
    verdict = BY_ID["cuda.packages"](host(row=row))
    assert verdict.diagnosis.endswith("; and 4 more")
    assert "package8" in verdict.detail


def test_found_versions_are_what_answered() -> None:
    assert facts(host()) == {
        "nvidia_driver": "470.256.02",
        "gpus": 2,
        "gpu_names": ["Tesla T4"],
        "gpu_devices": [
            {
                "name": "Tesla T4",
                "uuid": f"GPU-1ad0b6b1-0000-0000-0000-00000000000{number}",
                "pci": f"0000:0{number}:00.0",
                "memory": "15109 MiB",
            }
            for number in (1, 2)
        ],
        "nvcc": "11.2",
        "cudnn": "8.1.0",
        "tensorflow": "2.9.3",
        "tensorflow_gpus": 2,
        "python": "3.9.2",
    }


def test_mig_instances_are_not_counted_as_gpus() -> None:
    listing = SMI_LIST.replace("\n", "\n  MIG 1g.5gb      Device  0: (UUID: MIG-4f1cd2a6)\n", 1)
    smi = SMI.replace("[N/A]", "Enabled", 1)
    seen = host({"nvidia_smi_list": said(listing), "nvidia_smi": said(smi)})
    verdict = BY_ID["nvidia_driver.gpus"](seen)
    assert verdict.result == "passed"
    assert verdict.detail == "2 GPUs, 1 in MIG mode"


def test_ids_and_titles_are_unique_and_documented_once() -> None:
    assert len({check.id for check in CHECKS}) == len(CHECKS)
    assert len({check.title for check in CHECKS}) == len(CHECKS)


def test_the_shipped_checks_import_nothing_of_provision() -> None:
    folder = Path(__file__).parents[3] / "provision" / "verify"
    for path in folder.rglob("*.py"):
        assert "provision import" not in path.read_text(encoding="utf-8").replace("from . ", "")
        assert "import provision" not in path.read_text(encoding="utf-8")


def test_the_good_host_is_not_changed_by_a_case() -> None:
    before = copy.deepcopy(PROBE)
    host({"module/sys": "x"})
    assert before == PROBE
    with pytest.raises(KeyError):
        host({"module/syss": "x"})
    assert isinstance(host(), Seen)
