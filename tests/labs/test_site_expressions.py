"""The expressions of site.yml, evaluated by Ansible itself.

A mistake in one would only show on the day a host fails. Every refusal is seen to refuse, and to
let the right answer pass.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from provision.render import site
from provision.roles import ROLES

PLAN: dict[str, Any] = {
    "stack": "s",
    "not_selected": [],
    "absent": [],
    "components": ["cuda"],
    "repairs": {"cuda": {"cuda_reinstall": ["libcusolver11"]}},
    "blockers": [
        {"id": "avx", "message": "no AVX", "hint": "take another host"},
        {"id": "disk", "message": "no space", "hint": ""},
    ],
}
LEFT: dict[str, Any] = {
    "gpus": [{"usable": True}, {"usable": True}, {"usable": False}],
    "changes": [
        {"component": "cuda", "item": "libcusolver", "reason": "gone", "selected": True},
        {"component": "cudnn", "item": "link", "reason": "other", "selected": False},
    ],
    "reboot": {"needed": True},
}
LOCK: dict[str, Any] = {
    "stacks": {
        "s": {
            "nvidia_driver": {"version": "470.256.02"},
            "cuda": {"release": "11.2"},
            "tensorflow": {"version": "2.9.3"},
            "gpu_env": {"path": [], "xla_cuda_data_dir": "/usr/lib/cuda"},
        }
    }
}
DRIVER = "Proof | Refuse a driver that does not answer as locked"
NVCC = "Proof | Refuse an nvcc of another release"
TENSORFLOW = "Proof | Refuse a TensorFlow that does not see them"
FIT = "Proof | Refuse a TensorFlow that cannot fit"


def answer(out: str = "", rc: int = 0, err: str = "") -> dict[str, Any]:
    """What `command` registers."""
    return {
        "rc": rc,
        "stdout": out,
        "stdout_lines": out.splitlines(),
        "stderr": err,
        "stderr_lines": err.splitlines(),
        "skipped": False,
    }


def seen(**changed: Any) -> str:
    return "noise\n" + json.dumps({"version": "2.9.3", "cuda": True, "gpus": 2} | changed)


# (task, variables, words of its message; none where it must let pass)
CASES: list[tuple[str, dict[str, Any], str]] = [
    (
        "Preflight | Stop before anything is touched",
        {},
        "In the way:\n- no AVX. To do: take another host\n- no space",
    ),
    (
        "Proof | Refuse to leave anything undone",
        {},
        "this is left: cuda, libcusolver, gone. Reboot this host, then run again",
    ),
    (
        "Proof | Refuse to leave anything undone",
        {"gpu_left": {**LEFT, "changes": LEFT["changes"][1:]}},
        "",
    ),
    (DRIVER, {"__gpu_smi": answer("470.256.02, T4\n470.256.02, T4\n")}, ""),
    (DRIVER, {"__gpu_smi": answer("535.309.01, T4\n")}, "470.256.02 for 2 GPUs. It said (exit 0)"),
    (DRIVER, {"__gpu_smi": answer("470.256.02, T4\n535.309.01, T4")}, "should name driver"),
    (DRIVER, {"__gpu_smi": answer(rc=9, err="couldn't communicate")}, "couldn't communicate"),
    (NVCC, {"__gpu_nvcc": answer("release 11.2, V11.2.152")}, ""),
    (NVCC, {"__gpu_nvcc": answer("release 11.20, V1")}, "should say release 11.2"),
    (NVCC, {"__gpu_nvcc": answer(rc=127)}, "exit 127"),
    (TENSORFLOW, {"__gpu_tensorflow": answer(seen())}, ""),
    (TENSORFLOW, {"__gpu_tensorflow": answer(seen(gpus=0), err="no libcublas")}, "no libcublas"),
    (TENSORFLOW, {"__gpu_tensorflow": answer(seen(cuda=False))}, "built with CUDA"),
    (TENSORFLOW, {"__gpu_tensorflow": answer(seen(version="2.9.2"))}, "TensorFlow 2.9.3"),
    (TENSORFLOW, {"__gpu_tensorflow": answer(rc=1, err="ImportError")}, "ImportError"),
    (FIT, {"__gpu_fit": answer()}, ""),
    (FIT, {"__gpu_fit": answer(rc=1, err="the loss did not fall")}, "the loss did not fall"),
]


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What each case's task said, "" where it let pass; all in one run of Ansible."""
    tasks = {task["name"]: task for task in site.site()[0]["tasks"]}
    given = {"gpu_plan": PLAN, "gpu_left": LEFT, "gpu_lock": LOCK}
    steps: list[dict[str, Any]] = []
    for number, (name, variables, _) in enumerate(CASES):
        steps.append(
            {
                "vars": given | variables | tasks[name].get("vars", {}),
                "block": [{k: v for k, v in tasks[name].items() if k not in {"vars", "tags"}}],
                "rescue": [
                    {
                        "ansible.builtin.set_fact": {
                            f"case_{number}": "{{ ansible_failed_result.msg }}"
                        }
                    }
                ],
            }
        )
    wanted = {f"case_{n}": f"{{{{ case_{n} | default('') }}}}" for n in range(len(CASES))}
    root = tmp_path_factory.mktemp("expressions")
    steps.append(
        {
            "ansible.builtin.copy": {
                "dest": str(root / "out.json"),
                "content": "{{ wanted | to_json }}",
                "mode": "0600",
            },
            "vars": {"wanted": wanted},
        }
    )
    play = {"hosts": "localhost", "gather_facts": False, "tasks": steps}
    (root / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False), encoding="utf-8")
    (root / "hosts.yml").write_text(
        yaml.safe_dump(
            {
                "all": {
                    "hosts": {
                        "localhost": {
                            "ansible_connection": "local",
                            "ansible_python_interpreter": sys.executable,
                        }
                    }
                }
            }
        ),
        encoding="utf-8",
    )
    done = subprocess.run(
        [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "hosts.yml", "play.yml"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((root / "out.json").read_text(encoding="utf-8"))
    return [found[f"case_{n}"] for n in range(len(CASES))]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_a_refusal_refuses_what_it_should(messages: list[str], number: int) -> None:
    _, _, words = CASES[number]
    if words:
        assert words in messages[number]
    else:
        assert messages[number] == ""


ASKED = ("Proof | Ask nvcc for its release", "Proof | Ask TensorFlow for its GPUs")


def played(folder: Path, play: dict[str, Any], environment: dict[str, str] | None = None) -> None:
    """Runs a play on this machine; `environment` stands in for this process's own."""
    (folder / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False), encoding="utf-8")
    interpreter = f"ansible_python_interpreter={sys.executable}"
    options = ["-i", "localhost,", "-c", "local", "-e", interpreter]
    done = subprocess.run(
        [str(Path(sys.executable).parent / "ansible-playbook"), *options, "play.yml"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def asked(tmp_path: Path, stack: dict[str, Any], **variables: Any) -> list[Any]:
    """What the two proofs of CUDA do on this stack, with `printenv` in the programs' place."""
    by_name = {task["name"]: task for task in site.site()[0]["tasks"] if "name" in task}
    tasks = []
    for name in ASKED:
        task = dict(by_name[name], **{"ansible.builtin.command": {"argv": ["env"]}})
        tasks.append({k: v for k, v in task.items() if k not in ("tags",)})
    tasks.append(
        {
            "ansible.builtin.copy": {
                "dest": str(tmp_path / "out.json"),
                "content": "{{ [__gpu_nvcc.skipped | default(false),"
                " __gpu_tensorflow.stdout_lines | select('match', 'XLA') | list] | to_json }}",
                "mode": "0600",
            }
        }
    )
    given = {"gpu_plan": PLAN, "gpu_left": LEFT, "gpu_lock": {"stacks": {"s": stack}}, **variables}
    play = {"hosts": "localhost", "gather_facts": False, "vars": given, "tasks": tasks}
    played(tmp_path, play, {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"})
    found: list[Any] = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    return found


def test_a_stack_with_cuda_of_the_platform_is_asked_for_nvcc_and_told_of_libdevice(
    tmp_path: Path,
) -> None:
    flags = "XLA_FLAGS=--xla_gpu_cuda_data_dir=/usr/lib/cuda"
    assert asked(tmp_path, LOCK["stacks"]["s"]) == [False, [flags]]


def test_a_stack_with_cuda_of_wheels_is_not(tmp_path: Path) -> None:
    stack = {k: v for k, v in LOCK["stacks"]["s"].items() if k != "cuda"}
    stack["gpu_env"] = {"path": [], "xla_cuda_data_dir": ""}
    assert asked(tmp_path, stack) == [True, []]
    own = asked(tmp_path, stack, gpu_env_xla_cuda_data_dir="/opt/cuda")
    assert own == [True, ["XLA_FLAGS=--xla_gpu_cuda_data_dir=/opt/cuda"]]


def test_a_run_and_pytest_alone_ask_for_the_same_options() -> None:
    """A state that one of them did not know would be a failed check of what was wished away."""
    root = Path(site.__file__).parents[2]
    prove = (root / "provision/verify/prove.yml").read_text("utf-8")
    (options,) = {
        tuple(task["vars"]["__verify_options"])
        for task in yaml.safe_load(prove)
        if "__verify_options" in task.get("vars", {})
    }
    tree = ast.parse((root / "provision/verify/conftest.py").read_text("utf-8"))
    (known,) = [
        ast.literal_eval(one.value)
        for one in tree.body
        if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "OPTIONS"
    ]
    assert list(options) == list(known)
    states = {name for name in known if name.endswith("_state")}
    # Who has a workspace is said by the list of people alone, and a door by its name.
    by_their_words = ("gpu_workspace", "gpu_front_door")
    assert states == {f"{role.name}_state" for role in ROLES if role.name not in by_their_words}


def test_the_environments_beside_reach_their_role_and_their_checks(tmp_path: Path) -> None:
    """The variables of the loop, the row for the checks, and which environments may be removed."""
    tensorflow = {"version": "2.14.1", "python": "3.9", "requirements_sha256": "e" * 64}
    other = {"stack": "o", "directory": "2.14.1-eeeeeeee"}
    (loop,) = [task for task in site.site()[0]["tasks"] if "__gpu_beside" in str(task)]
    applied = {task["name"]: task for task in site.site()[0]["tasks"]}
    root = Path(site.__file__).parents[2]
    prove = yaml.safe_load((root / "provision/verify/prove.yml").read_text(encoding="utf-8"))
    (row,) = {task["vars"]["__verify_row"] for task in prove if "__verify_row" in str(task)}
    switch = yaml.safe_load((root / "roles/tensorflow/tasks/switch.yml").read_text("utf-8"))
    (staying,) = [
        task["ansible.builtin.command"]["argv"]
        for task in switch
        if task["name"] == "switch | Remove the other venvs"
    ]
    kept = applied["Apply | Bring tensorflow to its lock"]["vars"]["tensorflow_beside"]
    repairs = {"tensorflow": {"tensorflow_reinstall_beside": ["2.14.1-eeeeeeee"]}}
    cases = [([other], repairs), ([other], {}), ([], {})]
    tasks: list[dict[str, Any]] = []
    for number, (beside, repaired) in enumerate(cases):
        content = {name: value for name, value in loop["vars"].items() if beside}
        content |= {"row": row, "staying": staying}
        tasks.append(
            {
                "ansible.builtin.copy": {
                    "dest": str(tmp_path / f"{number}.json"),
                    "content": "{{ content | to_json }}",
                    "mode": "0600",
                },
                "vars": {
                    "content": content,
                    "__gpu_beside": other,
                    "gpu_plan": {"stack": "s", "beside": beside, "repairs": repaired},
                    "gpu_lock": {"stacks": {"s": {"a": 1}, "o": {"tensorflow": tensorflow}}},
                    "tensorflow_root": "/opt/tensorflow",
                    "tensorflow_beside": kept,
                    "__tensorflow_venvs": ["venvs.py"],
                    "__tensorflow_name": "2.9.3-a0c523be",
                },
            }
        )
    play = {"hosts": "localhost", "gather_facts": False, "tasks": tasks}
    played(tmp_path, play)
    first, second, third = (
        json.loads((tmp_path / f"{number}.json").read_text(encoding="utf-8"))
        for number in range(len(cases))
    )
    assert first["tensorflow_version"] == "2.14.1"
    assert first["tensorflow_requirements"].endswith("/stacks/o.requirements.txt")
    assert first["tensorflow_requirements_sha256"] == "e" * 64
    assert (first["tensorflow_reinstall"], second["tensorflow_reinstall"]) == (True, False)
    assert first["row"] == {"a": 1, "beside": [tensorflow]}
    assert third["row"] == {"a": 1}
    # All that the program removes are the environments that are not named to it.
    remove = ["venvs.py", "remove", "/opt/tensorflow", "2.9.3-a0c523be"]
    assert first["staying"] == [*remove, "2.14.1-eeeeeeee"]
    assert third["staying"] == remove
