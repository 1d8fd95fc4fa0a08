"""The expressions of site.yml, evaluated by Ansible itself.

A mistake in one would only show on the day a host fails. Every refusal is seen to refuse, and to
let the right answer pass.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from provision.render import spec
from provision.roles import ROLES
from provision.verify.conftest import OPTIONS
from tests.collection import ACTIONS, IMPORTABLE, ROOT, tasks_of, writes_json

STACK = yaml.safe_load((ROOT / "playbooks" / "site.yml").read_text("utf-8"))[1]

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
VERIFY = yaml.safe_load((ROOT / "roles/verify/tasks/main.yml").read_text("utf-8"))
NO_TESTINFRA = "Verify | Refuse to go on without testinfra where a proof is needed"
MISSING = {"__verify_tools": {"rc": 1}}
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
    # The checks are wanted and can't be had.
    (NO_TESTINFRA, {**MISSING, "__gpu_rolling": False}, ""),
    (NO_TESTINFRA, MISSING, ""),
    (NO_TESTINFRA, {**MISSING, "gpu_verify": "always"}, "No proof without testinfra"),
    (
        NO_TESTINFRA,
        {**MISSING, "__gpu_rolling": True},
        "this batch is not proven, so none begins after it. Run again",
    ),
    (NO_TESTINFRA, {"__verify_tools": {"rc": 0}, "__gpu_rolling": True}, ""),
]


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What each case's task said, "" where it let pass; all in one run of Ansible."""
    tasks = {task["name"]: task for task in [*tasks_of(STACK), *VERIFY]}
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
            **writes_json(root / "out.json", "{{ wanted | to_json }}"),
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
        env={**os.environ, **ACTIONS, "ANSIBLE_NOCOLOR": "1"},
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


def played(folder: Path, play: dict[str, Any], **environment: str) -> None:
    """Runs a play on this machine."""
    (folder / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False), encoding="utf-8")
    interpreter = f"ansible_python_interpreter={sys.executable}"
    options = ["-i", "localhost,", "-c", "local", "-e", interpreter]
    done = subprocess.run(
        [str(Path(sys.executable).parent / "ansible-playbook"), *options, "play.yml"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **ACTIONS, **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_run_hands_the_checks_what_the_inventory_says(tmp_path: Path) -> None:
    """A state that the checks did not know would be a failed check of what was set to absent."""
    prove = yaml.safe_load((ROOT / "roles/verify/tasks/main.yml").read_text("utf-8"))
    (options,) = {
        task["vars"]["__verify_options"]
        for task in prove
        if "__verify_options" in task.get("vars", {})
    }
    played(
        tmp_path,
        {
            "hosts": "localhost",
            "gather_facts": False,
            "vars": {
                "cuda_state": "{{ 'ab' ~ 'sent' }}",
                "gpu_front_door_port": 8443,
                "tensorflow_root": "{{ nothing_of_that_name }}",
                "nvidia_driver_mirror": "https://someone:secret@mirror.example/debian",
            },
            "tasks": [
                {
                    **writes_json(tmp_path / "options.json", "{{ __verify_options | to_json }}"),
                    "vars": {"__verify_options": options},
                }
            ],
        },
        ANSIBLE_COLLECTIONS_PATH=str(IMPORTABLE),
    )
    handed = json.loads((tmp_path / "options.json").read_text("utf-8"))
    assert handed == {
        **OPTIONS,
        "ansible_connection": "local",
        "cuda_state": "absent",
        "gpu_front_door_port": 8443,
        "nvidia_driver_mirror": "https://@mirror.example/debian",
    }
    # Who has a workspace is said by the list of people alone, a door by its name, models by their
    # list.
    by_their_words = ("gpu_workspace", "gpu_front_door", "gpu_serving")
    states = {name for name in OPTIONS if name.endswith("_state")}
    assert states == {f"{role.name}_state" for role in ROLES if role.name not in by_their_words}


def test_the_environments_beside_reach_their_role_and_their_checks(tmp_path: Path) -> None:
    """The variables of the loop, the row for the checks, and which environments may be removed."""
    tensorflow = {"version": "2.14.1", "python": "3.9", "requirements_sha256": "e" * 64}
    other = {"stack": "o", "directory": "2.14.1-eeeeeeee"}
    (loop,) = yaml.safe_load((ROOT / "roles/gpu_state/tasks/beside.yml").read_text("utf-8"))
    defaults = yaml.safe_load((ROOT / "roles/tensorflow/defaults/main.yml").read_text("utf-8"))
    prove = yaml.safe_load((ROOT / "roles/verify/tasks/main.yml").read_text("utf-8"))
    (row,) = {task["vars"]["__verify_row"] for task in prove if "__verify_row" in str(task)}
    present = yaml.safe_load((ROOT / "roles/tensorflow/tasks/present.yml").read_text("utf-8"))
    (staying,) = [
        task["provision.gpu.gpu_venv"]["beside"]
        for task in present
        if "provision.gpu.gpu_venv" in task
    ]
    repairs = {"tensorflow": {"tensorflow_reinstall_beside": ["2.14.1-eeeeeeee"]}}
    cases = [([other], repairs), ([other], {}), ([], {})]
    tasks: list[dict[str, Any]] = []
    for number, (beside, repaired) in enumerate(cases):
        content = {name: value for name, value in loop["vars"].items() if beside}
        content |= {"row": row, "staying": staying}
        tasks.append(
            {
                **writes_json(tmp_path / f"{number}.json", "{{ content | to_json }}"),
                "vars": {
                    "content": content,
                    "__gpu_state_beside": other,
                    "gpu_plan": {"stack": "s", "beside": beside, "repairs": repaired},
                    "gpu_lock": {"stacks": {"s": {"a": 1}, "o": {"tensorflow": tensorflow}}},
                    "tensorflow_root": "/opt/tensorflow",
                    "tensorflow_beside": defaults["tensorflow_beside"],
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
    # All that the module removes are the environments that are not named to it.
    assert first["staying"] == ["2.14.1-eeeeeeee"]
    assert third["staying"] == []


@pytest.mark.parametrize("planned", [True, False])
def test_a_role_takes_its_repairs_from_the_plan_where_there_is_one(
    tmp_path: Path, planned: bool
) -> None:
    """And works without any, in somebody's playbook."""
    repairs = {
        role.name: {o.name: [o.name] for o in role.options if o.repair}
        for role in ROLES
        if any(o.repair for o in role.options)
    }
    defaults = {
        name: value
        for role in ROLES
        for name, value in yaml.safe_load(
            spec.render(role)[f"roles/{role.name}/defaults/main.yml"]
        ).items()
        if name in repairs.get(role.name, {}) or name == "gpu_front_door_people"
    }
    variables: dict[str, Any] = {"content": defaults}
    if planned:
        variables |= {"gpu_plan": {"repairs": repairs}, "gpu_workspaces": [{"name": "ada"}]}
    written = writes_json(tmp_path / "out.json", "{{ content | to_json }}")
    task = {**written, "vars": variables}
    played(tmp_path, {"hosts": "localhost", "gather_facts": False, "tasks": [task]})
    found = json.loads((tmp_path / "out.json").read_text("utf-8"))
    options = {o.name: o for role in ROLES for o in role.options}
    people = [{"name": "ada"}] if planned else []
    assert found == {"gpu_front_door_people": people} | {
        name: [name] if planned else options[name].default
        for name in defaults
        if name != "gpu_front_door_people"
    }
