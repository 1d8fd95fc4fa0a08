"""The workspaces' checks: whom they name, what they can't show, and what the probe tells them."""

from __future__ import annotations

import contextlib
import functools
import http.server
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program import probe

from tests.served import Quiet, serving

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "mutants"))

import check_states
from states.checks.gpu_workspace import shared

from provision.verify import conftest as session

RUNS, JUPYTER, SSH, BOARD, GPUS, LIMITS = (
    f"gpu_workspace.{name}" for name in ("runs", "jupyter", "ssh", "tensorboard", "gpus", "limits")
)
verdicts = functools.partial(check_states.of_component, "gpu_workspace")


@pytest.mark.parametrize(
    ("status", "result"), [(401, "passed"), (403, "passed"), (402, "failed"), (500, "failed")]
)
def test_jupyter_may_refuse_in_two_ways(status: int, result: str) -> None:
    data = shared()
    data["probe"]["workspaces"]["ada"]["status"] = status
    assert verdicts(data)[JUPYTER].result == result


def test_whole_processors_are_counted_as_the_kernel_does() -> None:
    data = shared()
    data["options"]["gpu_workspaces"][0]["cpus"] = 2
    for there, result in (("200000", "passed"), ("200002", "failed")):
        data["probe"]["workspaces"]["ada"]["limits"]["cpu"] = [there, "100000"]
        assert verdicts(data)[LIMITS].result == result


@pytest.mark.parametrize(("cpus", "there"), [(2.3, "230000"), (1.1, "110000"), (0.123456, "12345")])
def test_a_fraction_of_a_processor_is_counted_as_docker_counts_it(cpus: float, there: str) -> None:
    data = shared()
    data["options"]["gpu_workspaces"][0]["cpus"] = cpus
    data["probe"]["workspaces"]["ada"]["limits"]["cpu"] = [there, "100000"]
    assert verdicts(data)[LIMITS].result == "passed"


def test_without_limits_there_is_nothing_to_show() -> None:
    data = shared()
    data["options"]["gpu_workspaces"] = [{"name": "bob", "gpus": "none", "port": 8802}]
    verdict = verdicts(data)[LIMITS]
    assert (verdict.result, verdict.detail) == ("not_applicable", "nobody's workspace has a limit")


def test_what_nobody_has_is_not_shown() -> None:
    data = shared()
    ada, bob = data["options"]["gpu_workspaces"]
    data["options"]["gpu_workspaces"] = [ada]
    assert verdicts(data)[SSH].detail == "nobody's workspace has SSH"
    data["options"]["gpu_workspaces"] = [bob]
    assert verdicts(data)[JUPYTER].detail == "nobody's workspace has Jupyter"
    data["probe"]["workspaces"]["bob"]["ssh"] = None
    verdict = verdicts(data)[SSH]
    assert (verdict.result, "no ssh to ask with" in verdict.detail) == ("not_applicable", True)
    # Where another one answers, it is the workspace that does not.
    data["options"]["gpu_workspaces"] = [bob, {**bob, "name": "eve"}]
    data["probe"]["workspaces"]["eve"] = {**data["probe"]["workspaces"]["bob"], "ssh": "publickey"}
    assert verdicts(data)[SSH].diagnosis == "bob: sshd does not answer at its port"


@pytest.mark.parametrize(
    ("answer", "ways"),
    [
        (check_states.said(stderr="a@b: Permission denied (publickey).\n", rc=255), "publickey"),
        (
            check_states.said(stderr="Permission denied (publickey,password).", rc=255),
            "publickey,password",
        ),
        (check_states.said(stderr="Connection refused", rc=255), ""),
        (check_states.said(stderr="ssh: command not found", rc=127), None),
    ],
)
def test_the_probe_asks_sshd_for_its_ways(
    monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any], ways: str | None
) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(probe, "run", lambda command: asked.append(command) or answer)
    assert probe.ssh_offers("ada", "0.0.0.0", 2201) == ways  # noqa: S104 as wished
    assert asked[0][-2:] == ["ada@127.0.0.1", "true"]
    assert "PreferredAuthentications=none" in asked[0]
    assert probe.ssh_offers("ada", None, 2201) is None
    assert probe.ssh_offers("ada", "127.0.0.1", None) is None
    assert len(asked) == 1


def test_all_who_have_trouble_are_named_in_one_order() -> None:
    data = shared()
    data["options"]["gpu_workspaces"].reverse()
    assert verdicts(data)[RUNS].detail == "active: ada, bob"
    for name in ("ada", "bob"):
        data["probe"]["workspaces"][name] = {
            **data["probe"]["workspaces"][name],
            "unit": "failed",
            "error": None,
        }
    verdict = verdicts(data)[RUNS]
    assert verdict.diagnosis == verdict.detail == "ada: its unit is failed; bob: its unit is failed"


@pytest.mark.parametrize(
    ("memory", "there"),
    [("3k", 3 << 10), ("5m", 5 << 20), ("7g", 7 << 30), ("7G", 7 << 30), ("7gb", 7 << 30)],
)
def test_a_size_is_read_as_docker_reads_it(memory: str, there: int) -> None:
    data = shared()
    data["options"]["gpu_workspaces"] = [{**data["options"]["gpu_workspaces"][0], "cpus": 0}]
    data["options"]["gpu_workspaces"][0]["memory"] = memory
    data["probe"]["workspaces"]["ada"]["limits"]["memory"] = [str(there)]
    assert verdicts(data)[LIMITS].result == "passed"
    data["probe"]["workspaces"]["ada"]["limits"]["memory"] = [str(there + 1)]
    assert verdicts(data)[LIMITS].result == "failed"


def test_processors_alone_are_a_limit_too() -> None:
    data = shared()
    person = data["options"]["gpu_workspaces"][0]
    data["options"]["gpu_workspaces"] = [{**person, "memory": ""}]
    assert verdicts(data)[LIMITS].result == "passed"


class Refusing(Quiet, http.server.BaseHTTPRequestHandler):
    """A Jupyter that lets nobody in."""

    def do_GET(self) -> None:
        known = {"/api/status": 403, "/ada/tensorboard/": 200}
        self.send_response(known.get(self.path, 404))
        self.end_headers()


@pytest.fixture
def jupyter() -> Iterator[int]:
    server = http.server.HTTPServer(("127.0.0.1", 0), Refusing)
    with serving(server):
        yield server.server_port


def test_the_probe_asks_without_a_token(jupyter: int) -> None:
    assert probe.http_status("127.0.0.1", jupyter, "/api/status") == 403
    assert probe.http_status("0.0.0.0", jupyter, "/api/status") == 403  # noqa: S104 compared, not bound
    assert probe.http_status("127.0.0.1", None, "/api/status") is None
    assert probe.http_status(None, jupyter, "/api/status") is None


class Endless(Quiet, http.server.BaseHTTPRequestHandler):
    """A person's own server, which never comes to an end: at its head, or in what follows it."""

    def do_GET(self) -> None:
        begin, piece = ENDLESS[self.path.rpartition("/")[2]]
        with contextlib.suppress(OSError):
            self.wfile.write(begin)
            while True:
                self.wfile.write(piece)
                time.sleep(0.05 if len(piece) == 1 else 0)


ENDLESS = {
    "head": (b"HTTP/1.0 200 OK\r\n", b"X"),
    "body": (b"HTTP/1.0 200 OK\r\n\r\n", b"X"),
    "large": (b"HTTP/1.0 200 OK\r\n\r\n", b"X" * 65536),
}


@pytest.fixture
def endless() -> Iterator[int]:
    with serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endless)) as address:
        yield int(address.rpartition(":")[2])


@pytest.mark.parametrize("path", ENDLESS)
def test_an_answer_without_end_through_the_door_is_cut_off(
    endless: int, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(probe, "PATIENCE", 0.5)
    door = {"name": "gpu01", "port": endless, "address": "127.0.0.1"}
    answer = probe.through(door, "/ada/" + path, tls=False)
    assert answer["status"] == 200
    assert len(answer["body"]) <= 1 << 20


def test_a_head_without_end_is_cut_off(endless: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "PATIENCE", 0.5)
    assert probe.http_status("127.0.0.1", endless, "/head") == 200


def test_where_nothing_listens_there_is_no_answer(jupyter: int) -> None:
    assert probe.http_status("127.0.0.1", 1, "/api/status") is None


def test_the_probe_reads_what_the_program_left_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jupyter: int
) -> None:
    files = {
        "/run/gpu-workspace/ada.json": json.dumps(
            {
                "address": "127.0.0.1",
                "port": jupyter,
                "tensorboard_port": jupyter,
                "groups": {"cpu": "/c", "memory": "/m"},
            }
        ),
        "/run/gpu-workspace/bob.json": json.dumps({"error": "no such image"}),
        "/run/gpu-workspace/eve.json": "{cut off",
        "/m": "536870912\n",
        "/c": "50000 100000\n",
    }
    monkeypatch.setattr(probe, "read", files.get)
    units = {"ada": "active\n", "bob": "activating\n", "eve": "\n"}

    def run(command: list[str]) -> dict[str, Any]:
        name = command[-1].removeprefix("gpu-workspace@").removesuffix(".service")
        assert command[:2] == ["systemctl", "is-active"]
        return check_states.said(units[name])

    monkeypatch.setattr(probe, "run", run)
    seen = probe.workspaces([{"name": name} for name in ("eve", "bob", "ada")])
    assert seen == {
        "ada": {
            "unit": "active",
            "error": None,
            "status": 403,
            "tensorboard": 200,
            "ssh": None,
            "ssh_ways": None,
            "limits": {"cpu": ["50000", "100000"], "memory": ["536870912"]},
        },
        "bob": {
            "unit": "activating",
            "error": "no such image",
            "status": None,
            "tensorboard": None,
            "ssh": None,
            "ssh_ways": None,
            "limits": {},
        },
        "eve": {
            "unit": "",
            "error": None,
            "status": None,
            "tensorboard": None,
            "ssh": None,
            "ssh_ways": None,
            "limits": {},
        },
    }


def test_where_nobody_has_gpus_or_tensorboard_they_are_not_asked_for() -> None:
    data = shared()
    data["options"]["gpu_workspaces"] = data["options"]["gpu_workspaces"][1:]
    by_check = verdicts(data)
    assert (by_check[BOARD].result, by_check[GPUS].result) == ("not_applicable", "passed")
    assert by_check[BOARD].detail == "nobody's workspace has TensorBoard"
    # Who was promised none is looked at as well.
    assert by_check[GPUS].detail.startswith("nvidia-smi: bob 0")
    del data["probe"]["handed"]
    assert verdicts(data)[GPUS].detail == "nobody's workspace has GPUs"


def test_what_docker_was_not_asked_is_not_passed() -> None:
    """testinfra alone asks as the ordinary user, and docker answers root."""
    data = shared()
    del data["probe"]["handed"]
    verdict = verdicts(data)[GPUS]
    assert verdict.result == "not_applicable"
    assert verdict.detail == "docker answers root alone, and the verify play asks it"


def test_gpus_of_workspaces_are_listed_by_name() -> None:
    data = shared()
    data["options"]["gpu_workspaces"].reverse()
    data["probe"]["handed"]["people"] = dict(reversed(data["probe"]["handed"]["people"].items()))
    assert verdicts(data)[GPUS].detail == "nvidia-smi: ada 1, bob 0; TensorFlow 1"


def test_gpus_of_workspaces_on_a_simulated_host_say_so() -> None:
    data = shared()
    data["probe"]["simulated_gpu"] = True
    assert verdicts(data)[GPUS].detail.endswith("TensorFlow 1 (simulated)")


def test_every_workspace_with_wrong_gpus_is_named() -> None:
    data = shared()
    people = data["probe"]["handed"]["people"]
    people["ada"]["wrong"], people["bob"]["wrong"] = "it lists none", "it lists one too many"
    assert verdicts(data)[GPUS].detail == "ada: it lists none; bob: it lists one too many"


def test_an_image_without_tensorflow_is_said() -> None:
    data = shared()
    data["probe"]["handed"]["tensorflow"]["gpus"] = None
    assert "the image has no TensorFlow" in verdicts(data)[GPUS].detail


@pytest.mark.parametrize(("answer", "kept"), [('{"people": {}}', True), ("", False), ("x", False)])
def test_the_answer_of_docker_comes_with_the_probe(answer: str, kept: bool) -> None:
    entry = {"stdout": session.MARK + "{}", "handed": answer}
    assert ("handed" in session.seen_of(entry, None).probe) is kept


def test_a_command_that_fails_is_no_answer_that_is_missing() -> None:
    """As where a GPU is gone, docker hangs, or nothing of the workspaces is there."""
    entry = {"stdout": session.MARK + "{}", "handed": "", "handed_error": "a\nno such file"}
    assert session.seen_of(entry, None).probe["handed"] == {"error": "no such file"}


@pytest.mark.parametrize(
    ("offered", "result"), [("publickey,password", "passed"), ("publickey", "failed")]
)
def test_who_has_a_password_is_to_be_offered_one(offered: str, result: str) -> None:
    data = shared()
    data["probe"]["workspaces"]["bob"] |= {"ssh": offered, "ssh_ways": "publickey,password"}
    assert verdicts(data)[SSH].result == result
