"""A model served behind the front door, from a bare host to proven by two runs.

dockerd, nginx, systemd and TensorFlow run for real inside the host. No image of TensorFlow Serving
can be had where this is tried: a stand-in of the same interface serves the models, with the real
TensorFlow (tests/ground/serving_stand_in.py). It has no GPU.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from docked import Docked, docked

from tests.ground import serving_image

pytestmark = [pytest.mark.slow]

# Rules of the preflight that something here trips: docs/mutants.md.
TRIPS = ("serving-models",)

NAME = "gpu07.example.org"
MODELS = "/srv/models/line"
LINE: dict[str, Any] = {
    "name": "line",
    "models": MODELS,
    "gpus": "none",
    "port": 8501,
    "grpc_port": 8500,
    "memory": "1500m",
    "poll": 1,
    "files": "/srv/tflite",
}
# As somebody at another machine, but for the address: (status, text) of each path, with a bearer.
ASK = """\
import http.client, json, socket, ssl, sys
name, requests = sys.argv[1], json.loads(sys.stdin.read())
answers = []
for path, bearer, body in requests:
    context = ssl.create_default_context(cafile="/etc/gpu-front-door/ca.crt")
    plain = socket.create_connection(("127.0.0.1", 443), timeout=60)
    connection = http.client.HTTPConnection(name, timeout=60)
    connection.sock = context.wrap_socket(plain, server_hostname=name)
    headers = {"Authorization": "Bearer " + bearer} if bearer else {}
    connection.request("POST" if body else "GET", path, body=body or None, headers=headers)
    answer = connection.getresponse()
    answers.append([answer.status, answer.read().decode("utf-8", "replace")])
print(json.dumps(answers))
"""
# At the host itself, which has no curl: waits until a version of the model is in a state.
AWAIT = """\
import json, sys, time, urllib.request
version, wanted, rows = *sys.argv[1:], "no answer"
for _second in range(120):
    try:
        with urllib.request.urlopen("http://127.0.0.1:8501/v1/models/line", timeout=10) as answer:
            rows = json.load(answer)["model_version_status"]
        if [version, wanted] in [[row["version"], row["state"]] for row in rows]:
            sys.exit(0)
    except OSError:
        pass
    time.sleep(1)
sys.exit(f"version {version} is not {wanted}: {rows}")
"""


class Serving(Docked):
    """A host with TensorFlow and docker, which serves models."""

    image = ""

    def say(self, *models: dict[str, Any], door: str = NAME) -> None:
        """The inventory as somebody writes it."""
        folder = self.path / "lab" / "group_vars" / "gpu_hosts"
        folder.mkdir(parents=True, exist_ok=True)
        variables = {"gpu_servings": list(models), "gpu_serving_image": self.image}
        if door:
            variables["gpu_front_door_name"] = door
        (folder / "serving.yml").write_text(json.dumps(variables), "utf-8")

    def version(self, *numbers: str) -> None:
        """Versions of the model, each put into its place when it is whole."""
        made = ("/root/made", *numbers)
        self.root("mkdir", "-p", MODELS, "/root/made")
        python = ("env", "CUDA_VISIBLE_DEVICES=-1", "/opt/tensorflow/current/bin/python", "-I", "-")
        self.root(*python, *made, stdin=serving_image.MODELS)
        self.root("sh", "-c", f"mv /root/made/* {MODELS}/")

    def token(self) -> str:
        return self.root("cat", "/etc/gpu-serving/line/token")

    def asked(self, *requests: tuple[str, str, str]) -> list[tuple[int, str]]:
        """What the door answers to (path, bearer, body)."""
        output = self.root("python3", "-c", ASK, NAME, stdin=json.dumps(requests))
        return [(status, text) for status, text in json.loads(output)]

    def predicted(self, *numbers: float) -> list[float]:
        body = json.dumps({"instances": [numbers]})
        ((status, text),) = self.asked(("/serving/line/v1/models/line:predict", self.token(), body))
        assert status == 200, text
        answer: list[float] = json.loads(text)["predictions"][0]
        return answer

    def await_state(self, version: str, state: str) -> None:
        self.root("python3", "-c", AWAIT, version, state)

    def containers(self) -> list[str]:
        form = "{{.Names}}"
        listed = self.root("docker", "ps", "--filter", "label=gpu-serving", "--format", form)
        return sorted(listed.split())


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with docked(tmp_path_factory.mktemp("serving"), "serving", Serving) as made:
        made.proven()
        output = made.root("sh", "-c", serving_image.IMAGE, stdin=serving_image.SERVER.read_text())
        made.image = output.split()[-1]
        made.version("2")
        made.root("sh", "-c", "mkdir /srv/tflite; printf lite > /srv/tflite/line.tflite")
        made.root("ln", "-s", "/etc/passwd", "/srv/tflite/secret.tflite")
        made.say(LINE)
        yield made


def test_a_model_is_served_and_proven_in_one_run(host: Serving) -> None:
    entry = host.proven()
    assert {"gpu_front_door", "gpu_serving"} <= set(entry["components"])
    assert set(host.results("gpu_serving").values()) == {"passed"}
    assert host.containers() == ["gpu-serving-line.a"]
    assert host.predicted(1, 2, 3) == [3, 5, 7]


def test_the_door_answers_with_the_token_and_not_without(host: Serving) -> None:
    path, token = "/serving/line/v1/models/line", host.token()
    bearers = (token, "", "x" * len(token), token.upper(), token + "x")
    answers = host.asked(*((path, bearer, "") for bearer in bearers))
    assert [status for status, _text in answers] == [200, 401, 401, 401, 401]
    others = ("/serving/line/", "/serving/line", "/serving/other/v1/models/line", "/serving/")
    assert {status for status, _text in host.asked(*((other, token, "") for other in others))} == {
        404
    }
    lite = "/serving/line/files/"
    files = ((f"{lite}line.tflite", token), (f"{lite}line.tflite", ""),
             (f"{lite}secret.tflite", token), (f"{lite}none.tflite", token))  # fmt: skip
    seen = host.asked(*((name, bearer, "") for name, bearer in files))
    assert seen[0] == (200, "lite")
    assert [status for status, _text in seen[1:]] == [401, 403, 404]


def test_no_token_is_found_anywhere_else(host: Serving) -> None:
    token = host.token()
    for words in (
        ("sh", "-c", "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'"),
        ("sh", "-c", "cat /var/log/nginx/*; journalctl --no-pager"),
        ("docker", "inspect", *host.containers()),
        ("cat", "/etc/gpu-serving/door/server.conf"),
    ):
        assert token not in host.root(*words)
    for path in (host.path / "report").rglob("*"):
        assert not path.is_file() or token not in path.read_text("utf-8", "replace")


def test_the_container_may_nothing_but_compute(host: Serving) -> None:
    (name,) = host.containers()
    found = json.loads(host.root("docker", "inspect", name))[0]
    config = found["HostConfig"]
    assert (config["ReadonlyRootfs"], config["CapDrop"]) == (True, ["ALL"])
    assert config["SecurityOpt"] == ["no-new-privileges"]
    assert (config["Memory"], config["PidsLimit"]) == (1500 << 20, 4096)
    assert (found["Config"]["User"], config["PortBindings"] or {}) == ("65534:65534", {})
    assert [mount["RW"] for mount in found["Mounts"]] == [False]
    listens = host.root("ss", "-Hltn")
    assert "127.0.0.1:8501" in listens
    assert "0.0.0.0:8501" not in listens


def test_a_new_version_is_served_without_a_run(host: Serving) -> None:
    host.version("4")
    host.await_state("4", "AVAILABLE")
    assert host.predicted(1, 2, 3) == [5, 9, 13]
    plan = host.provision("plan", "-i", "lab")
    assert plan.returncode == 0, plan.stdout


def test_a_broken_version_is_named_and_the_old_one_serves(host: Serving) -> None:
    host.root("sh", "-c", "mkdir /root/bad; echo no model > /root/bad/saved_model.pb; "
              f"mv /root/bad {MODELS}/5")  # fmt: skip
    host.await_state("5", "END")
    seen = host.provision("verify", "-i", "lab")
    assert seen.returncode == 6
    assert "version 5 does not load:" in seen.stdout
    assert "version 4 still serves" in seen.stdout
    result = host.provision("doctor", "-i", "lab")
    assert result.returncode == 5
    assert "[serving-older]" in result.stdout
    assert host.predicted(1, 2, 3) == [5, 9, 13]


def test_a_changed_model_that_does_not_come_up_leaves_the_former(host: Serving) -> None:
    before = host.root("docker", "inspect", "--format", "{{.Id}}", *host.containers())
    host.say({**LINE, "memory": "1600m"})
    done = host.provision("apply", "-i", "lab")
    assert done.returncode == 4
    assert "line: version 5 does not load:" in done.stdout
    assert "the former one serves on" in done.stdout
    assert host.root("docker", "inspect", "--format", "{{.Id}}", *host.containers()) == before
    assert host.predicted(1, 2, 3) == [5, 9, 13]
    host.root("rm", "-r", f"{MODELS}/5")
    assert host.proven()["components"].keys() == {"gpu_serving"}
    assert host.containers() == ["gpu-serving-line.b"]
    assert host.predicted(1, 2, 3) == [5, 9, 13]


def test_what_can_not_be_served_is_refused_before_anything(host: Serving) -> None:
    host.say({**LINE, "models": "/srv/models/none"})
    for command, code in (("plan", 5), ("apply", 4)):
        done = host.provision(command, "-i", "lab")
        assert done.returncode == code, done.stdout + done.stderr
        assert "there is no such directory" in " ".join(done.stdout.split())
    assert host.predicted(1, 2, 3) == [5, 9, 13]


def test_damage_is_repaired(host: Serving) -> None:
    host.say({**LINE, "memory": "1600m"})
    host.root("rm", "/etc/systemd/system/gpu-serving-line.rest.socket")
    plan = host.provision("plan", "-i", "lab")
    assert plan.returncode == 5
    assert "model line: absent of /etc/systemd/system/gpu-serving-line.rest.socket" in plan.stdout
    assert host.proven()["components"].keys() == {"gpu_serving"}
    assert host.predicted(1, 2, 3) == [5, 9, 13]
    # While its proxy runs that has the port, too.
    units = [f"gpu-serving-line.rest.{kind}" for kind in ("socket", "service")]
    host.root("systemctl", "stop", *units)
    host.root("rm", "/etc/gpu-serving/door/server.conf")
    plan = host.provision("plan", "-i", "lab")
    assert plan.returncode == 5
    assert "model line: port 8501 not held" in plan.stdout
    assert "/etc/gpu-serving/door/server.conf: absent" in plan.stdout
    assert host.proven()["components"].keys() == {"gpu_serving"}
    assert host.predicted(1, 2, 3) == [5, 9, 13]


def test_nothing_of_it_stays_but_the_models(host: Serving) -> None:
    host.say(door="")
    host.proven()
    assert host.containers() == []
    left = "ls -d /etc/gpu-serving /etc/systemd/system/gpu-serving* 2>/dev/null || true"
    assert host.root("sh", "-c", left) == ""
    assert "gpu-servings" not in host.root("docker", "network", "ls")
    assert host.root("ls", MODELS).split() == ["2", "4"]


def test_the_role_serves_in_a_playbook_of_someone_else_s(host: Serving) -> None:
    """The door is of a role that this play has not."""
    given = {"gpu_serving_release": "2.9.3", "gpu_serving_image": host.image}

    def play(*models: dict[str, Any]) -> str:
        return host.role_alone("gpu_serving", **given, gpu_servings=list(models))

    models = host.root("ls", MODELS)
    assert "Not compared" not in play(LINE)
    assert len(host.containers()) == 1
    assert "changed=0" in play(LINE)
    play()
    assert host.containers() == []
    assert "changed=0" in play()
    assert host.root("ls", MODELS) == models
