"""Every check: green on a good host, and not applicable where it has nothing to judge.

That each is red on a bad one, with a diagnosis and a cure: tests/mutants/test_mutants_states.py.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from recorded import PROBE, ROW, SMI, SMI_LIST, check_states, host, said

from provision.verify.checks import CHECKS, Seen, facts

BY_ID = {check.id: check for check in CHECKS}
# The others are about another kind of stack: see test_checks_wheels.py.
EVERYWHERE = [check for check in CHECKS if check.only(host())]
SIMULATED = {"container": True, "simulated_gpu": True}
NO_MODULE = {"module": {"proc": None, "sys": None, "nouveau": False}}
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\n"


@pytest.mark.parametrize("check", EVERYWHERE, ids=lambda check: check.id)
def test_a_good_host_passes(check: Any) -> None:
    verdict = check(host())
    assert verdict.result == "passed", verdict


def test_a_host_that_does_not_answer_fails_once() -> None:
    seen = host(error="ssh: connect to host gpu01 port 22: Connection refused")
    verdicts = {check.id: check(seen) for check in CHECKS}
    failed = [name for name, verdict in verdicts.items() if verdict.result == "failed"]
    assert failed == ["host.answers"]
    assert "Connection refused" in verdicts["host.answers"].diagnosis
    assert {v.result for n, v in verdicts.items() if n != "host.answers"} == {"not_applicable"}
    assert facts(seen) == {}


def test_every_check_has_been_seen_red() -> None:
    """A check without a state may be one that cannot fail."""
    assert {check.id for check in CHECKS} == {state.check for state in check_states.states()}


NOT_APPLICABLE: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("nvidia_driver.module", SIMULATED | NO_MODULE, {}, "simulated GPU"),
    ("nvidia_driver.module", {"container": True} | NO_MODULE, {}, "container"),
    ("nvidia_driver.version", SIMULATED, {}, "simulation"),
    ("nvidia_driver.library", SIMULATED, {}, "simulation"),
    ("nvidia_driver.gpus", {"pci": [], "container": True}, {}, "PCI bus"),
    ("cuda.nvcc_systemd", {"nvcc/systemd": None}, {}, "ordinary user"),
    ("cuda.nvcc_cron", {"nvcc/cron": None}, {}, "an ordinary user can't read /etc/environment"),
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
                "uuid": uuid,
                "pci": address,
                "memory": "15360 MiB",
            }
            for address, uuid in (
                ("0000:3b:00.0", "GPU-d1f04e46-a2b4-e661-0329-e1d8211c2159"),
                ("0000:3c:00.0", "GPU-273ba4a9-c37a-8338-b84b-00eede1503e3"),
            )
        ],
        "nvcc": "11.2",
        "cudnn": "8.5.0",
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


@pytest.mark.parametrize("listed", [1, 3])
def test_with_mig_tensorflow_need_not_list_as_many_gpus_as_there_are(listed: int) -> None:
    """Before R570 CUDA shows a process one MIG device alone, since then one of each instance."""
    gpus = [f"/physical_device:GPU:{number}" for number in range(listed)]
    devices = {f"/device:GPU:{number}": {"on": "GPU", "error": 0.0} for number in range(listed)}
    seen = host(
        {
            "nvidia_smi": said(SMI.replace("[N/A]", "Enabled", 1)),
            "tensorflow/gpus/gpus": gpus,
            "tensorflow/computes/devices": devices,
        }
    )
    verdicts = [BY_ID[name](seen) for name in ("tensorflow.gpus", "tensorflow.computes")]
    assert [(verdict.result, verdict.detail) for verdict in verdicts] == [
        ("passed", f"{listed} GPUs (2, 1 in MIG mode)"),
        ("passed", f"{listed} GPUs: a matrix product and a convolution"),
    ]


def test_with_mig_tensorflow_must_list_a_gpu() -> None:
    smi = said(SMI.replace("[N/A]", "Enabled"))
    seen = host({"nvidia_smi": smi, "tensorflow/gpus/gpus": []})
    assert BY_ID["tensorflow.gpus"](seen).result == "failed"
    assert BY_ID["tensorflow.computes"](seen).result == "not_applicable"


def test_without_a_count_of_gpus_mig_says_nothing() -> None:
    smi = said(SMI.replace("[N/A]", "Enabled"))
    seen = host({"nvidia_smi": smi, "nvidia_smi_list": said("")})
    for name in ("tensorflow.gpus", "tensorflow.computes"):
        assert BY_ID[name](seen).result == "not_applicable"


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
