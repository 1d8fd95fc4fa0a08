"""`provision train` and train.yml over this machine, whose module answers what a test says.

No worker is started here: that is in tests/unit/training and tests/hosts/test_train.py.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from provision import cli, collection, run
from provision.cli.commands import train
from provision.errors import InputError
from provision.render import playbooks
from provision.run import training
from tests import called
from tests.collection import PLUGINS, ROOT
from tests.unit.run.examined import LOCAL

MODULE = """\
import json, os
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule({name: {} for name in (
    "step", "job", "worker", "host", "ports", "token", "places", "user", "folder", "python",
    "tensorflow_root", "files", "offset", "since", "wait",
)} | {"given": {"type": "dict"}, "secret": {"no_log": True}})
with open(os.environ["TRAIN_ANSWER"]) as stream:
    answers = json.load(stream)
step, host = module.params["step"], module.params["host"]
with open(os.environ["TRAIN_ANSWER"] + ".asked", "a") as stream:
    stream.write(json.dumps({"step": step, "host": host, "given": module.params["given"],
                             "secret": module.params["secret"] is not None}) + "\\n")
module.exit_json(changed=False, training=answers[step].get(host, answers[step].get("all")))
"""
LOOK = {
    "fault": None, "user": "ada", "folder": "/x", "taken": False, "tensorflow": "2.9.3",
    "python": "/python", "gpus": {"uuids": [], "in_use": {}, "error": None},
    "running": None, "free": 1 << 40, "clock": 0.0,
}  # fmt: skip


def status_of(worker: int, verdict: str, **more: Any) -> dict[str, Any]:
    return {
        "found": True, "active": False, "log": "", "offset": 4,
        "status": {
            "worker": worker, "verdict": verdict, "reason": "", "progress": None, "mark": None,
            "board": {"history": [], "restarts": 0}, "work": f"/w/{worker}", "generation": 0,
            "written": 1.0, **more,
        },
    }  # fmt: skip


def answers(verdict: str = "complete", **looks: Any) -> dict[str, Any]:
    mark = {"model": "/w/0/final"} if verdict == "complete" else None
    return {
        "look": {"all": LOOK, **looks},
        "listen": {"all": {"ports": {}, "any_port": None}},
        "reach": {"all": []},
        "start": {"all": {"work": "/w", "unit": "u"}},
        "read": {"gpu01": status_of(0, verdict, mark=mark), "gpu02": status_of(1, verdict)},
        "stop": {"gpu01": status_of(0, "stopped"), "gpu02": status_of(1, "stopped")},
        "list": {"all": []},
    }


class Project:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.script = path / "train.py"

    def train(self, says: dict[str, Any], *arguments: str) -> tuple[int, str]:
        (self.path / "answer.json").write_text(json.dumps(says))
        return called.provision("train", "--project", self.path, *arguments)

    def start(self, says: dict[str, Any], *arguments: str) -> tuple[int, str]:
        return self.train(says, "gpu", "--script", str(self.script), "--job", "j", *arguments)

    @property
    def asked(self) -> list[dict[str, Any]]:
        path = self.path / "answer.json.asked"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("TRAIN_ANSWER", str(tmp_path / "answer.json"))
    inside = tmp_path / collection.IN_TREE
    shutil.copytree(PLUGINS, inside / "plugins", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "playbooks", inside / "playbooks")
    (inside / "plugins/modules/gpu_training.py").write_text(MODULE)
    for name in ("lab", "stacks"):
        (tmp_path / name).mkdir()
    for name, data in playbooks.render().items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "ansible.cfg").write_text(
        "[defaults]\ninterpreter_python = auto_silent\n"
        "callbacks_enabled = provision.gpu.report, provision.gpu.training\n"
        "collections_path = collections\n"
    )
    for name in ("lock.yml", "stacks/gpu_lock.yml"):
        (tmp_path / name).write_text("---\ngpu_lock:\n  digest: x\n")
    hosts = {
        name: {"gpu_stack": {"tensorflow": "2.9"}, "gpu_train_address": address}
        for name, address in (("gpu01", "192.0.2.11"), ("gpu02", "192.0.2.12"))
    }
    groups = {"gpu": {"hosts": hosts, "vars": LOCAL}, "web": {"hosts": {"web01": LOCAL}}}
    (tmp_path / "lab/hosts.yml").write_text(json.dumps({"all": {"children": groups}}))
    made = Project(tmp_path)
    made.script.write_text("print(1)\n")
    return made


def test_a_job_is_started_followed_and_judged(project: Project) -> None:
    code, output = project.start(answers(), "--", "--epochs", "3")
    assert code == 0, output
    assert "j: complete: /w/0/final" in output
    assert "tensorboard --logdir /w/0/logs" in output
    steps = [(step["step"], step["host"]) for step in project.asked]
    assert sorted(steps[:2]) == [("look", "gpu01"), ("look", "gpu02")]
    # Only then: a host that is looked at for long must not find its peers' listeners gone.
    assert sorted(steps[2:4]) == [("listen", "gpu01"), ("listen", "gpu02")]
    started = [step for step in project.asked if step["step"] == "start"]
    assert {worker["given"]["worker"]: worker["given"]["arguments"] for worker in started} == {
        0: ["--epochs", "3"], 1: ["--epochs", "3"]
    }  # fmt: skip
    assert all(worker["secret"] and "secret" not in worker["given"] for worker in started)
    secret = project.path / "report/training/j/secret"
    assert secret.stat().st_mode & 0o777 == 0o600
    left = [path for path in (project.path / "report").rglob("*") if path.is_file()]
    assert not [p for p in left if p != secret and secret.read_text() in p.read_text()]


def test_a_person_with_a_configuration_of_their_own_gets_the_report_too(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = project.path / "own.cfg"
    own.write_text("[defaults]\ninterpreter_python = auto_silent\ncollections_path = collections\n")
    monkeypatch.setenv("ANSIBLE_CONFIG", str(own))
    code, output = project.start(answers())
    assert code == 0, output
    assert "j: complete: /w/0/final" in output


def test_how_to_come_back_to_a_job_names_its_user(project: Project) -> None:
    _code, output = project.start(answers(), "--detach", "--user", "bob")
    for option in ("--follow", "--stop"):
        assert f"provision train {option} j --project {project.path} --user bob" in " ".join(
            output.split()
        )


def test_hosts_of_different_tensorflow_are_refused_and_nothing_is_started(
    project: Project,
) -> None:
    code, output = project.start(answers(gpu02={**LOOK, "tensorflow": "2.14.1"}))
    assert code == 4
    assert "2.9.3 on gpu01; 2.14.1 on gpu02" in output
    assert {step["step"] for step in project.asked} == {"look", "listen", "reach"}
    assert "Stop it" not in output


def test_a_port_that_somebody_holds_is_refused_and_nothing_is_started(project: Project) -> None:
    held = {"ports": {"2222": "nginx of root (pid 7)"}, "any_port": None}
    free = {"ports": {}, "any_port": None}
    code, output = project.start({**answers(), "listen": {"gpu01": free, "gpu02": held}})
    assert code == 4
    assert "gpu02: port 2222 is held by nginx of root (pid 7)" in output
    assert "start" not in {step["step"] for step in project.asked}


def test_a_script_that_is_no_python_is_refused_before_a_host_is_asked(project: Project) -> None:
    project.script.write_text("def x(:\n")
    code, output = project.start(answers())
    assert code == 2
    assert "the script is no Python: line 1" in output
    assert project.asked == []


def test_a_diagnosis_is_started_like_a_training(project: Project) -> None:
    code, output = project.train(answers(), "gpu", "--diagnose")
    assert code == 0, output
    (script, other) = [step["given"] for step in project.asked if step["step"] == "start"]
    assert script["script"] == other["script"] == "diagnose.py"
    assert "TensorBoard" not in output


def test_clocks_that_are_apart_are_said_and_the_job_is_started(project: Project) -> None:
    late = {**LOOK, "clock": 4e9}
    says = {**answers(), "look": {"gpu01": LOOK, "gpu02": late}}
    (project.path / "answer.json").write_text(json.dumps(says))
    arguments = ["--project", str(project.path), "--script", str(project.script), "--job", "j"]
    done = CliRunner().invoke(cli.app, ["train", "gpu", *arguments])
    assert done.exit_code == 0, done.output
    assert "the clock of gpu02 is" in done.stderr
    assert "ahead of that of gpu01" in done.stderr


def test_nothing_of_script_and_environment_is_in_a_hosts_log(project: Project) -> None:
    """Ansible's modules write their arguments to syslog, but those with no_log."""
    from ansible_collections.provision.gpu.plugins.modules import gpu_training

    for name in ("given", "files", "secret"):
        # As text: of a dictionary every value would be hidden in all that the module returns.
        assert gpu_training.ARGUMENTS[name] == {"type": "str", "default": "", "no_log": True}
    assert project.start(answers())[0] == 0


def test_a_job_is_followed_for_as_long_as_it_lasts() -> None:
    """A project's task_timeout, of four hours, is for tasks that hang."""
    import yaml

    (play,) = yaml.safe_load((ROOT / "playbooks/train.yml").read_text())
    (follow,) = (task for task in play["tasks"] if task["name"].startswith("Follow"))
    assert follow["timeout"] == 0


def test_a_job_is_come_back_to_and_stopped(project: Project) -> None:
    code, output = project.train(answers(), "gpu", "--stop", "j")
    assert (code, "j: stopped" in output) == (0, True), output
    assert [step["step"] for step in project.asked] == ["stop", "stop"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "name one thing to do"),
        (["--jobs", "--stop", "j"], "these do not go together"),
        (["--script", "x.py", "--follow", "j"], "these do not go together"),
        (["gpu", "--script", "/nowhere/x.py"], "there is no such script"),
        (["--script", "x.py"], "on which hosts?"),
        (["--diagnose"], "on which hosts?"),
        (["gpu", "--diagnose", "--script", "x.py"], "these do not go together"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments: list[str], expected: str) -> None:
    with pytest.raises(InputError, match=expected.replace("?", r"\?")):
        called.provision("train", *arguments)


@pytest.mark.parametrize(
    ("report", "code"),
    [
        (None, 2),
        ({"hosts": {"a": 1}, "refused": "x", "asked": {}, "outcome": {}}, 2),
        ({"hosts": {"a": 1}, "refused": "x", "asked": {"job": "j"}, "outcome": {}}, 4),
        ({"hosts": {"a": 1}, "refused": "", "asked": {}, "outcome": {"state": "complete"}}, 0),
        ({"hosts": {"a": 1}, "refused": "", "asked": {}, "outcome": {"state": "ended"}}, 6),
        ({"hosts": {"a": 1}, "refused": "", "asked": {}, "outcome": {"state": "failed"}}, 4),
        ({"hosts": {"a": 1}, "refused": "", "asked": {}, "outcome": {}}, 4),
    ],
)
def test_exit_codes(report: dict[str, Any] | None, code: int) -> None:
    assert training.exit_code(report, 2) == code


class Terminal:
    """A terminal on which somebody presses Ctrl-C and then answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: str, events: list[str]) -> None:
        self.runs: list[dict[str, Any]] = []

        def fake(_project: Path, options: run.Options, on_event: Any, **_more: Any) -> Any:
            self.runs.append(json.loads(options.extra_vars[-1]))
            on_event({"event": "job", "job": "j", "action": "start"})
            for event in events:
                on_event({"event": event, "worker": 0, "host": "gpu01", "text": "x"})
            stopped = {"hosts": {}, "refused": "j: stopped", "outcome": {}}
            first = len(self.runs) == 1
            return run.Training(None if first else stopped, 130, first, Path("log"))

        def asked(prompt: str = "") -> str:
            sys.stdout.write(prompt)
            return answer

        monkeypatch.setattr("provision.run.train", fake)
        monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
        monkeypatch.setattr("builtins.input", asked)
        monkeypatch.setattr(train.sys, "stdin", type("Tty", (), {"isatty": lambda _self: True})())

    @property
    def actions(self) -> list[str]:
        return [run["gpu_train_action"] for run in self.runs]


@pytest.mark.parametrize(
    ("answer", "events", "actions"),
    [
        ("y", ["starting", "line"], ["start", "stop"]),
        ("", ["starting", "line"], ["start"]),
        ("n", ["starting", "line"], ["start"]),
        ("", ["starting"], ["start", "stop"]),
        # Nothing is there but, it may be, somebody's job of the same name.
        ("", [], ["start"]),
        ("", ["note"], ["start"]),
    ],
)
def test_ctrl_c_asks_and_stops_all_or_none(
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    events: list[str],
    actions: list[str],
) -> None:
    terminal = Terminal(monkeypatch, answer, events)
    request = train.RunRequest(project.path, run.Options(), verbose=False, as_json=False)
    with pytest.raises(train.typer.Exit) as caught:
        train.train.__wrapped__(hosts="gpu", script=project.script, request=request)
    assert caught.value.exit_code == 130
    assert terminal.actions == actions


@pytest.mark.parametrize(
    ("answer", "events", "said"),
    [("y", ["starting", "line"], "\nThe job j goes on."), ("", ["starting"], "j: stopped\n")],
)
def test_after_ctrl_c_json_is_all_that_stdout_has(
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: str,
    events: list[str],
    said: str,
) -> None:
    terminal = Terminal(monkeypatch, answer, events)
    request = train.RunRequest(project.path, run.Options(), verbose=False, as_json=True)
    with pytest.raises(train.typer.Exit):
        train.train.__wrapped__(hosts="gpu", script=project.script, request=request)
    assert terminal.actions == ["start", "stop"]
    printed = capsys.readouterr()
    assert printed.out == "null\n"
    assert said in printed.err
    assert printed.err.endswith("j: stopped\n")


def test_the_question_whether_to_stop_is_no_output(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`provision train ... > train.log` waited for an answer to what nobody saw."""
    Terminal(monkeypatch, "n", ["starting", "line"])
    request = train.RunRequest(project.path, run.Options(), verbose=False, as_json=False)
    with pytest.raises(train.typer.Exit):
        train.train.__wrapped__(hosts="gpu", script=project.script, request=request)
    printed = capsys.readouterr()
    assert "Stop all of its workers? [y/N] " in printed.err
    assert "Stop all" not in printed.out


def test_a_run_that_reached_no_host_is_an_error_with_json_too(project: Project) -> None:
    (project.path / "ansible.cfg").write_text("no section\n")
    with pytest.raises(InputError, match="before it reached a host") as caught:
        project.start(answers(), "--json")
    assert "no section" in caught.value.got


@pytest.mark.parametrize("events", [["starting", "line"], ["starting"]])
def test_ctrl_c_stops_the_job_of_the_user_for_whom_it_was_started(
    project: Project, monkeypatch: pytest.MonkeyPatch, events: list[str]
) -> None:
    """Its folder is in that person's home."""
    terminal = Terminal(monkeypatch, "y", events)
    request = train.RunRequest(project.path, run.Options(), verbose=False, as_json=False)
    with pytest.raises(train.typer.Exit):
        train.train.__wrapped__(hosts="gpu", script=project.script, user="bob", request=request)
    assert [run.get("gpu_train_user") for run in terminal.runs] == ["bob", "bob"]
