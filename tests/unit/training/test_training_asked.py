"""What is asked of a training is judged before any host is, and what its workers get follows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.provision.gpu.plugins.plugin_utils import training
from gpu_stack.training import jobs, judge

from provision.roles.site import SiteOptions

NOW = 1_795_000_000.0
HOSTS = [
    {"gpu_stack": {"tensorflow": "2.9"}, "ansible_host": "192.0.2.11"},
    {"gpu_stack": {"tensorflow": "2.9"}, "ansible_host": "x", "gpu_train_address": "192.0.2.12"},
]
NAMES = ["gpu01", "gpu02"]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "My train.py"
    path.write_text("print('ü')\n", "utf-8")
    return path


def asked(script: Path | str, **more: Any) -> dict[str, Any]:
    known = {"gpu_train_hosts": "gpu", "gpu_train_script": str(script), **more}
    return training.asked(known, HOSTS, NAMES, NOW)


def refused(script: Path | str, **more: Any) -> str:
    with pytest.raises(training.AskedError) as caught:
        asked(script, **more)
    return str(caught.value)


def test_a_job_has_a_name_the_hosts_and_their_addresses(script: Path) -> None:
    plan = asked(script, gpu_train_arguments="--epochs 10 --name 'a b'")
    assert plan["job"] == "my-train-20261118-110640"
    assert jobs.NAME.fullmatch(plan["job"])
    assert plan["addresses"] == ["192.0.2.11", "192.0.2.12"]
    assert plan["arguments"] == ["--epochs", "10", "--name", "a b"]
    assert (plan["port"], plan["communication"], plan["restarts"]) == (2222, "AUTO", 10)


def test_the_defaults_are_those_of_the_documented_options() -> None:
    defaults = {name: field.default for name, field in SiteOptions.model_fields.items()}
    assert defaults["gpu_train_port"] == judge.PORT
    assert defaults["gpu_train_restarts"] == training.RESTARTS
    assert defaults["gpu_train_communication"] == judge.COMMUNICATION[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"def x(:\n", "the script is no Python: line 1: "),
        (b"\xff\xfe\n", "the script is no Python:"),
        (b"a\0b", "the script is no Python:"),
        (b"# coding: latin-1\nprint('\xfc')\n", "the script is not in UTF-8"),
        (b"#" * (training.LARGEST + 1), "more than"),
    ],
)
def test_a_script_that_is_none_is_refused(tmp_path: Path, text: bytes, expected: str) -> None:
    (tmp_path / "train.py").write_bytes(text)
    assert expected in refused(tmp_path / "train.py")


def test_a_script_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path / "x.py") == f"the script is not there: {tmp_path / 'x.py'}"
    assert refused(tmp_path) == f"the script is no file: {tmp_path}"
    assert refused("").startswith("gpu_train_script names no script")


@pytest.mark.parametrize("name", ["provision_train.py", "backup", "output.log"])
def test_a_script_that_has_a_name_of_the_jobs_own_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("pass")
    assert "of what a job has of its own" in refused(tmp_path / name)


@pytest.mark.parametrize("change", ["edit", "remove"])
def test_a_script_that_changes_after_the_look_starts_on_no_host(script: Path, change: str) -> None:
    """Each host's task reads it; workers of two versions would train together."""
    plan = asked(script)
    if change == "edit":
        script.write_text("print('another')\n", "utf-8")
    else:
        script.unlink()
    with pytest.raises(training.AskedError, match="has changed since it was looked at"):
        training.files(plan)


def test_a_script_is_looked_for_beside_the_playbook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PWD", "/")
    (tmp_path / "train.py").write_text("")
    plan = asked("train.py", playbook_dir=str(tmp_path))
    assert plan["script"] == str(tmp_path / "train.py")


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"gpu_train_hosts": ""}, "gpu_train_hosts names no hosts"),
        ({"gpu_train_port": 80}, "gpu_train_port is 80; expected a whole number from 1024"),
        ({"gpu_train_port": "x"}, "gpu_train_port is x; expected a whole number"),
        ({"gpu_train_communication": "mpi"}, "expected one of AUTO, NCCL, RING"),
        ({"gpu_train_job": "../x"}, "gpu_train_job is '../x'; expected small letters"),
        ({"gpu_train_job": "A"}, "expected small letters"),
        ({"gpu_train_gpus": "0,x"}, "gpu_train_gpus is x"),
        ({"gpu_train_arguments": "'"}, "gpu_train_arguments: No closing quotation"),
        ({"gpu_train_arguments": {"a": 1}}, "expected a list, or one text"),
        ({"gpu_train_environment": ["A=1"]}, "expected variables by their names"),
        ({"gpu_train_environment": {"A=B": "1"}}, "no program can have the variable 'A=B'"),
        ({"gpu_train_environment": {"A": "\0"}}, "no program can have the variable 'A'"),
        ({"gpu_train_arguments": ["\0"]}, "has a zero byte"),
        ({"gpu_train_action": "dance"}, "expected one of start, follow, status, stop"),
        ({"gpu_train_action": "stop"}, "gpu_train_job names no job to stop"),
    ],
)
def test_what_can_not_be_is_named(script: Path, more: dict[str, Any], expected: str) -> None:
    assert expected in refused(script, **more)


def test_no_result_and_no_message_has_a_value_of_the_environment(script: Path) -> None:
    """Ansible shows results with -v, and a message is in the report."""
    plan = asked(script, gpu_train_environment={"TOKEN": "hush", "A": 1})
    assert plan["environment"] == ["A", "TOKEN"]
    assert "hush" not in json.dumps(plan)
    for wrong in (["TOKEN=hush"], "TOKEN=hush", {"A B": "hush"}):
        assert "hush" not in refused(script, gpu_train_environment=wrong)


def test_a_diagnosis_is_a_job_of_our_own_script() -> None:
    plan = asked("", gpu_train_diagnose=True, gpu_train_restarts=10)
    assert (plan["script"], plan["restarts"]) == (str(training.DIAGNOSE), 0)
    assert plan["job"].startswith("diagnose-")
    assert "diagnose.py" in training.files(plan)


def test_a_host_without_a_wish_is_named(script: Path) -> None:
    known = {"gpu_train_hosts": "all", "gpu_train_script": str(script)}
    with pytest.raises(training.AskedError, match=r"^web01: it has no gpu_stack$"):
        training.asked(known, [*HOSTS, {}], [*NAMES, "web01"], NOW)


def test_a_list_of_jobs_needs_no_name() -> None:
    assert training.asked({"gpu_train_action": "status"}, [], NAMES, NOW)["job"] == ""


def test_worker_0_has_the_board_and_its_peers_must_reach_it(script: Path) -> None:
    plan = asked(script)
    assert (training.ports(plan, 0), training.ports(plan, 1)) == ([2222, 2223], [2222])
    assert [(place["host"], place["port"]) for place in training.places(plan, 1, {})] == [
        ("gpu01", 2222), ("gpu01", 2223)
    ]  # fmt: skip
    looks = {name: {"gpus": {"uuids": ["GPU-a"]}, "any_port": 41000} for name in NAMES}
    (other, nccl) = training.places(plan, 0, looks)
    assert (other["port"], other["any"], nccl["port"], nccl["any"]) == (2222, False, 41000, True)
    assert training.ports({**plan, "hosts": ["gpu01"]}, 0) == [2222]


def test_a_worker_gets_what_its_supervisor_must_know(script: Path) -> None:
    plan = asked(script, gpu_train_gpus="1,0")
    given = training.given(plan, 1, "/python", training.environment({"N": 1}))
    assert given["board"] == ["192.0.2.11", 2223]
    assert json.loads(given["tf_config"])["task"]["index"] == 1
    assert given["environment"] == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "0,1", "N": "1",
    }  # fmt: skip
    assert "secret" not in given
    files = training.files(plan)
    assert files["My train.py"] == "print('ü')\n"
    assert {".job/supervisor/main.py", ".job/supervisor/board.py",
            ".job/helper/provision_train.py"} < set(files)  # fmt: skip
