"""Served models: the list, what the look and the plan see, the units, the door's files."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.components import gpu_serving
from gpu_stack.components.gpu_serving import (
    asking,
    door_files,
    entries,
    network,
    obstacles,
    places,
    prediction,
    saved_model,
    units,
    wished,
)
from gpu_stack.components.gpu_serving import current as of_module
from gpu_stack.components.gpu_workspace import allocation
from gpu_stack.components.gpu_workspace import obstacles as of_workspaces
from gpu_stack.components.gpu_workspace.program.places import RefusedError
from gpu_stack.host import digests
from gpu_stack.host.context import Context, Result

from tests.served import Quiet, serving

MNIST: dict[str, Any] = {
    "name": "mnist",
    "models": "/srv/models/mnist",
    "gpus": [0],
    "gpu_memory": 0.4,
    "port": 8501,
    "memory": "8g",
}
IMAGE = "docker.io/tensorflow/serving@sha256:" + "a" * 64
OPTIONS: dict[str, Any] = {"gpu_servings": [MNIST], "gpu_serving_image": IMAGE}


def refused(*models: dict[str, Any]) -> str:
    with pytest.raises(ValueError, match=r".") as error:
        entries.checked(list(models))
    return str(error.value)


def test_an_entry_gets_its_defaults() -> None:
    (entry,) = entries.checked([MNIST])
    assert entry == {**entries.DEFAULTS, **MNIST}
    assert entries.ports({**entry, "grpc_port": 8500}) == [8501, 8500]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "a_b"}, '"a_b" is no name of a model'),
        ({"name": "Mnist"}, "no name of a model"),
        ({"name": "door"}, "door names what leads to the models"),
        ({"token": "geheim-geheim-geheim"}, "expected it in gpu_serving_tokens"),
        ({"batch": "geheim"}, 'the unknown word "batch"'),
        ({"models": "srv/models"}, "models is the model's directory"),
        ({"models": "/srv/../etc"}, "models is the model's directory"),
        ({"gpus": 1}, "gpus is all, none, or a list"),
        ({"gpu_memory": 1.5}, "gpu_memory is the share"),
        ({"gpus": "none"}, "gpu_memory has no meaning with gpus: none"),
        ({"port": 70000}, "port is a port of the host"),
        ({"user": "0:0"}, "user is numbers of a user and group, not of root"),
        ({"user": "1000:0"}, "not of root"),
        ({"poll": 0}, "poll is seconds"),
        ({"memory": "much"}, "memory is a size"),
    ],
)
def test_a_wrong_entry_is_refused_without_its_value(change: dict[str, Any], words: str) -> None:
    message = refused({**MNIST, **change})
    assert words in message
    assert "geheim" not in message


def test_what_is_missing_is_said_with_its_form() -> None:
    less = {key: MNIST[key] for key in MNIST if key != "models"}
    assert refused(less).startswith("mnist needs models: the model's directory on the host")


def test_nothing_is_promised_twice() -> None:
    other = {**MNIST, "name": "bert"}
    assert refused(MNIST, other) == "port 8501 is said twice (mnist and bert)"
    other["port"] = 8502
    assert "GPU 0 is promised twice, to model mnist and model bert" in refused(MNIST, other)
    assert entries.checked([{**MNIST, "shared": True}, {**other, "shared": True}])
    assert refused(MNIST, {**MNIST, "port": 8503}) == "name mnist is said twice (mnist and mnist)"


def test_a_gpu_of_a_workspace_is_not_a_models_as_well() -> None:
    models = entries.checked([MNIST])
    ada = {"name": "ada", "gpus": [0], "port": 8801, "shared": False}
    with pytest.raises(ValueError, match="GPU 0 is promised twice, to ada and model mnist"):
        entries.refuse_clashes(models, [ada])
    with pytest.raises(ValueError, match=r"port 8501 is said twice \(workspace ada"):
        entries.refuse_clashes(models, [{**ada, "gpus": [1], "port": 8501}])
    entries.refuse_clashes(models, [{**ada, "gpus": [1]}])


def test_a_port_and_the_path_of_the_front_door_are_not_a_models_as_well() -> None:
    models = entries.checked([{**MNIST, "port": 80, "grpc_port": 8443}])
    serving = {"name": "serving", "gpus": "none", "port": 8801}
    door = {"gpu_front_door_name": "gpu07.example.org", "gpu_front_door_port": 443}
    entries.refuse_clashes(models, [], door)
    entries.refuse_clashes(models, [serving], {"gpu_front_door_redirect": True})
    for more, words in (
        (
            {"gpu_front_door_port": 8443},
            r"port 8443 is said twice \(the front door and model mnist",
        ),
        ({"gpu_front_door_redirect": True}, r"port 80 is said twice \(the front door"),
        ({"gpu_front_door_tls": "acme"}, r"port 80 is said twice \(the front door"),
    ):
        with pytest.raises(ValueError, match=words):
            entries.refuse_clashes(models, [], {**door, **more})
    with pytest.raises(ValueError, match="the front door has /serving/ for models"):
        entries.refuse_clashes(models, [serving], door)


def test_an_image_is_named_by_its_digest_or_its_id() -> None:
    for good in ("", IMAGE, "sha256:" + "0" * 64):
        assert entries.image_fault(good) is None
    for bad in ("tensorflow/serving:2.9.3-gpu", "tensorflow/serving", "sha256:12"):
        assert "names no one image" in str(entries.image_fault(bad))


# the container


def command(**change: Any) -> str:
    (entry,) = entries.checked([{**MNIST, **change}])
    settings = wished.settings(entry, OPTIONS)
    gpus = ["--gpus", '"device=0"']
    return units.container(settings, gpus, "a", "172.30.0.2", "rev1")


def test_the_container_has_no_rights_and_its_limits() -> None:
    text = command(cpus=2)
    for words in (
        "--cap-drop ALL",
        "--security-opt no-new-privileges",
        "--read-only",
        "--user 65534:65534",
        "--pids-limit 4096",
        "--memory 8g --memory-swap 8g",
        "--cpus 2",
        "--network gpu-servings --ip 172.30.0.2",
        "--mount type=bind,src=/srv/models/mnist,dst=/models/mnist,readonly",
        """--gpus '"device=0"'""",
        f"--entrypoint tensorflow_model_server {IMAGE}",
        "--per_process_gpu_memory_fraction=0.4",
        "--file_system_poll_wait_seconds=10",
    ):
        assert words in text, words
    assert "--publish" not in text


def test_systemd_gets_each_word_as_it_is() -> None:
    assert units.quoted(["a", "b c", '"x"', "50%", "$HOME"]) == "a 'b c' '\"x\"' 50%% $$HOME"


def test_the_ports_are_open_at_the_host_alone() -> None:
    (entry,) = entries.checked([{**MNIST, "grpc_port": 8500}])
    ways = units.ways(entry, "172.30.0.2", "/lib/systemd/systemd-socket-proxyd")
    assert sorted(ways) == [
        f"gpu-serving-mnist.{what}.{kind}"
        for what in ("grpc", "rest")
        for kind in ("service", "socket")
    ]
    assert "ListenStream=127.0.0.1:8500" in ways["gpu-serving-mnist.grpc.socket"]
    assert "systemd-socket-proxyd 172.30.0.2:8500" in ways["gpu-serving-mnist.grpc.service"]
    assert "ListenStream=127.0.0.1:8501" in ways["gpu-serving-mnist.rest.socket"]


# the door


def test_the_door_asks_for_each_models_own_token() -> None:
    text = door_files.tokens({"mnist": "abc.def+0123456789", "bert-base": "f" * 48})
    assert '"~^[Bb]earer abc\\.def\\+0123456789$" 1;' in text
    assert "map $http_authorization $gpu_serving_bert_base {" in text
    ways = door_files.paths(
        {
            "mnist": {"address": "172.30.0.2", "files": ""},
            "bert-base": {"address": "172.30.0.4", "files": "/srv/tflite"},
        }
    )
    assert "0123456789" not in ways
    assert ways.count("proxy_set_header Authorization") == 2
    # Each way asks, the one to files as well.
    for name, count in (("mnist", 2), ("bert_base", 3)):
        assert ways.count(f"if ($gpu_serving_{name} = 0) {{") == count
    assert "disable_symlinks on from=/srv/tflite;" in ways


def test_no_model_is_named_like_the_file_that_is_asked_for() -> None:
    """What a request matched would stand where nginx looks whether its token is right."""
    ways = door_files.paths({"file": {"address": "172.30.0.2", "files": "/srv/tflite"}})
    captured = re.findall(r"\?<(\w+)>", ways)
    assert captured == ["gpu_served_file"]
    assert not any(name.startswith(door_files.variable("")) for name in captured)


# a model's directory


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def saved(release: str, graph: int = 0) -> bytes:
    """A SavedModel as TensorFlow writes one: schema version, then a meta graph."""
    info = field(2, b"ops" * 1000) + field(4, b"serve") + field(5, release.encode())
    meta = field(1, info) + field(2, b"g" * graph)
    return b"\x08\x01" + field(2, meta)


def test_the_tensorflow_that_saved_a_model_is_read() -> None:
    assert saved_model.release_of(saved("2.9.3")) == "2.9.3"
    whole = saved("2.12.0", graph=5_000_000)
    assert saved_model.release_of(whole[: 1 << 20]) == "2.12.0"
    for other in (b"", b"\xff" * 40, b"no model", saved("geheim\n"), whole[:20]):
        assert saved_model.release_of(other) is None


def test_a_release_of_a_million_digits_is_none() -> None:
    """int() of it would keep the run busy for hours."""
    assert saved_model.release_of(saved("9" * 1_000_000 + ".1.0")) is None
    assert saved_model.release_of(saved("2." + "9" * 5000 + ".0")) is None


def test_a_model_of_a_newer_tensorflow_is_newer() -> None:
    assert saved_model.is_newer("2.12.0", "2.9.3")
    assert not saved_model.is_newer("2.9.0", "2.9.3")
    assert not saved_model.is_newer("2.9.4", "2.9.3")
    assert not saved_model.is_newer(None, "2.9.3")


def versions(root: Path, *numbers: str) -> Context:
    for number in numbers:
        place = root / "srv/models/mnist" / number
        place.mkdir(parents=True)
        (place / "saved_model.pb").write_bytes(saved("2.9.3"))
        (place / "saved_model.pb").chmod(0o644)
        for folder in (place, place.parent):
            folder.chmod(0o755)
    return Context(root=str(root))


def test_the_newest_version_is_the_one_that_is_judged(tmp_path: Path) -> None:
    host = versions(tmp_path, "1", "10", "9", "copying", "08")
    seen = saved_model.look(host, "/srv/models/mnist")
    whole = {"there": True, "crowded": False, "newest": 10, "file": True, "tensorflow": "2.9.3"}
    assert seen == whole
    (tmp_path / "srv/models/mnist/10/saved_model.pb").unlink()
    os.mkfifo(tmp_path / "srv/models/mnist/10/saved_model.pb")
    assert saved_model.look(host, "/srv/models/mnist")["file"] is False
    assert saved_model.look(host, "/srv/nothing") == {
        "there": False, "crowded": False, "newest": None, "file": False, "tensorflow": None,
    }  # fmt: skip


def test_odd_names_are_no_versions_and_no_error(tmp_path: Path) -> None:
    odd = ("\u00b2", "\u0665", " 7", "-1", "1.5", "9" * 19, "9" * 200, "a\nb", "1\n")
    host = versions(tmp_path, "0003", *odd)
    (tmp_path / "srv/models/mnist/8").write_text("no directory")
    (tmp_path / "srv/models/mnist/9").symlink_to("9")
    os.mkfifo(tmp_path / "srv/models/mnist/10")
    assert saved_model.versions(host, "/srv/models/mnist") == {3: "0003"}
    seen = saved_model.look(host, "/srv/models/mnist")
    assert (seen["newest"], seen["tensorflow"]) == (3, "2.9.3")
    # Nanoseconds since 1970 are a version too.
    versions(tmp_path, "1700000000000000000")
    assert saved_model.newest(host, "/srv/models/mnist") == 1700000000000000000


def test_a_directory_of_millions_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_model, "MOST", 3)
    host = versions(tmp_path, "1", "2", "3")
    assert saved_model.look(host, "/srv/models/mnist")["crowded"] is False
    versions(tmp_path, "4")
    assert saved_model.look(host, "/srv/models/mnist")["crowded"] is True
    assert len(host.listdir("/srv/models/mnist", 2)) == 2


def test_what_its_user_can_not_read_is_named(tmp_path: Path) -> None:
    host = versions(tmp_path, "1")
    (entry,) = entries.checked([MNIST])
    assert obstacles.directory(host, entry)["closed"] is None
    (tmp_path / "srv/models/mnist/1").chmod(0o750)
    assert obstacles.directory(host, entry)["closed"] == "/srv/models/mnist/1"
    (tmp_path / "srv/models/mnist/1").rename(tmp_path / "srv/models/mnist/001")
    assert obstacles.directory(host, entry)["closed"] == "/srv/models/mnist/001"
    (tmp_path / "srv/models/mnist/001").rename(tmp_path / "srv/models/mnist/1")
    own = {**entry, "user": f"{os.geteuid() or 65534}:{os.getegid() or 65534}"}
    if os.geteuid():
        assert obstacles.directory(host, own)["closed"] is None


def test_a_directory_that_others_can_replace_is_named(tmp_path: Path) -> None:
    host = versions(tmp_path, "1")
    (entry,) = entries.checked([MNIST])
    models = {"mnist": entry}
    assert obstacles.swapped(host, models) == {}
    (tmp_path / "srv/models").chmod(0o777)
    assert "can replace what is in it" in obstacles.swapped(host, models)["mnist"]


# what TensorFlow Serving says


def status(**states: tuple[str, str]) -> dict[int, tuple[str, str]]:
    rows = [
        {
            "version": number[1:],
            "state": state,
            "status": {"error_code": "NOT_FOUND" if error else "OK", "error_message": error},
        }
        for number, (state, error) in states.items()
    ]
    return asking.versions({"model_version_status": rows})


def test_a_version_that_does_not_load_is_named_with_the_one_that_serves() -> None:
    states = status(v3=("END", "no such op\nX"), v2=("AVAILABLE", ""))
    wait, wrong = asking.judged(states, 3)
    assert (wait, wrong) == (
        False,
        "version 3 does not load: no such op X; version 2 still serves",
    )
    assert asking.judged(status(v3=("END", "bad")), 3)[1] == (
        "version 3 does not load: bad; no version serves"
    )
    assert asking.judged(status(v3=("AVAILABLE", ""), v2=("END", "")), 3) == (False, None)


def test_what_failed_before_is_no_fault_of_what_serves() -> None:
    states = status(v3=("END", "bad"), v4=("AVAILABLE", ""))
    assert asking.judged(states, 4) == (False, None)
    # It came after the directory was read.
    assert asking.judged(states, 3) == (False, None)
    assert asking.judged(status(v3=("END", "bad"), v4=("LOADING", "")), 4)[0] is True
    # No directory, so not the newest version on the disk; TensorFlow Serving tries it all the same.
    wrong = asking.judged(status(v9=("END", "bad"), v4=("LOADING", "")), 4)[1]
    assert wrong == "version 9 does not load: bad; no version serves"


def test_a_version_that_loads_is_waited_for() -> None:
    states = status(v3=("LOADING", ""), v2=("AVAILABLE", ""))
    wait, wrong = asking.judged(states, 3)
    assert wait
    assert wrong == "version 3 is not loaded yet; version 2 still serves"
    assert asking.judged({}, 1)[0]


def test_an_answer_of_something_else_has_no_versions() -> None:
    for answer in (None, [], {"model_version_status": 7}, {"model_version_status": [3, {}]}):
        assert asking.versions(answer) == {}
    for version in ("\u00b2", "\u0665", "9" * 5000, 1.5, True, None, [], "1\n", -3):
        rows = [{"version": version, "state": "AVAILABLE"}]
        assert asking.versions({"model_version_status": rows}) == {}, version


class Dripping(Quiet, http.server.BaseHTTPRequestHandler):
    """Answers a byte at a time, for as long as somebody listens; its connection ends the answer."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        with contextlib.suppress(OSError):
            while True:
                self.wfile.write(b" ")
                time.sleep(0.1)


def test_an_answer_that_never_ends_is_cut() -> None:
    begun = time.monotonic()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Dripping)
    with serving(server):
        found = asking.ask("127.0.0.1", server.server_port, "/v1/models/mnist", patience=1)
    assert found == (None, None)
    assert time.monotonic() - begun < 10


def test_what_tensorflow_itself_says_is_the_models_word(monkeypatch: pytest.MonkeyPatch) -> None:
    (entry,) = entries.checked([MNIST])
    calls: list[list[str]] = []

    def answered(text: str) -> dict[str, Any]:
        def limited(words: list[str], **_bounds: object) -> tuple[int, str, str]:
            calls.append(words)
            return 0, text, ""

        monkeypatch.setattr(prediction.programs, "limited", limited)
        return prediction.expected(entry, "/srv/models/mnist/1", "python", "program")

    whole = {"signature": "serving_default", "inputs": {"x": [1]}, "outputs": {"y": [2]}}
    assert answered("a warning\n" + json.dumps(whole)) == whole
    for text in ("{}", "[]", "7", json.dumps({**whole, "outputs": []}), "[" * 100000, ""):
        assert list(answered(text)) == ["none"]
    # More memory than the model may have, TensorFlow beside it, ends it and not the host.
    assert f"MemoryMax={12 << 30}" in calls[0]
    deep: Any = 1.0
    for _depth in range(2000):
        deep = [deep]
    answer = {**whole, "outputs": {"y": deep}}
    monkeypatch.setattr(asking, "ask", lambda *_words: (200, {"outputs": deep}))
    wrong = prediction.compared(entry, "172.30.0.2", answer)
    assert wrong == "its prediction is nested too deeply"


def test_each_model_has_two_addresses_that_stay() -> None:
    first = network.addresses("172.30.0.0/24", None, set())
    assert first == {"a": "172.30.0.2", "b": "172.30.0.3"}
    taken = set(first.values())
    assert network.addresses("172.30.0.0/24", None, taken) == {"a": "172.30.0.4", "b": "172.30.0.5"}
    assert network.addresses("172.30.0.0/24", first, set()) == first
    # docker has made the network anew.
    assert network.addresses("10.1.0.0/24", first, set())["a"] == "10.1.0.2"


# the look and the plan


def recorded(root: Path, **change: Any) -> None:
    """A host that serves MNIST."""
    (entry,) = entries.checked([MNIST])
    unit = f"{places.UNITS_PLACE}/{places.unit('mnist', 'a')}"
    text = "[Unit]\n"
    record = {
        "settings": wished.settings(entry, OPTIONS),
        "gpus": [0],
        "slot": "a",
        "addresses": {"a": "172.30.0.2", "b": "172.30.0.3"},
        "revision": "rev1",
        "files": {unit: digests.of_text(text)},
        **change,
    }
    token = "0123456789abcdef"  # noqa: S105
    ways = door_files.texts({"mnist": record}, {"mnist": token})
    for path, content in (
        (unit, text),
        (places.WANTS + places.unit("mnist", "a"), ""),
        (places.PORT_WANTS + places.port_unit("mnist", "rest"), ""),
        (places.folder("mnist") + "/serving.json", json.dumps(record)),
        (places.folder("mnist") + "/token", token),
        *ways.items(),
        ("/proc/net/tcp", listens(8501)),
    ):
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)
        place.chmod(0o600 if path in (places.DOOR_TOKENS, PATH_OF_TOKEN) else 0o644)


PATH_OF_TOKEN = places.folder("mnist") + "/token"


def listens(port: int, uid: int = 0) -> str:
    """/proc/net/tcp of a host where somebody listens on a port of 127.0.0.1."""
    row = f"0: 0100007F:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000"
    return f"  sl  local_address ...\n   {row} {uid:5} 0 {10000 + uid} 1 0000000000000000 100\n"


def plan(root: Path, listing: str | None = "mnist rev1\n", **options: Any) -> list[Any]:
    def run(_argv: list[str]) -> Result:
        return Result(1, "", "no docker") if listing is None else Result(0, listing, "")

    context = Context(root=str(root), options={**OPTIONS, **options}, runner=run)
    state = gpu_serving.look(context)
    return [
        (row["item"], row["from"], row["to"], row["reason"])
        for row in gpu_serving.differ({}, state, context.options)
    ]


def test_a_host_without_the_wish_is_not_asked(tmp_path: Path) -> None:
    def run(argv: list[str]) -> Result:
        raise AssertionError(argv)

    context = Context(root=str(tmp_path), options={}, runner=run)
    state = gpu_serving.look(context)
    assert state == {"version": None, "models": {}, "running": {}}
    assert gpu_serving.differ({}, state, {}) == []


def test_the_plan_names_what_differs_and_nothing_else(tmp_path: Path) -> None:
    missing = ("model mnist", None, "as wished", "wished for, and missing")
    assert plan(tmp_path) == [missing]
    recorded(tmp_path)
    assert plan(tmp_path) == []
    more = [{**MNIST, "memory": "9g"}]
    assert plan(tmp_path, gpu_servings=more)[0][3] == "changed: memory"
    assert plan(tmp_path, gpu_serving_image="sha256:" + "1" * 64)[0][3] == "changed: image"
    assert plan(tmp_path, "")[0][1] == "not running"
    assert plan(tmp_path, "mnist old\n")[0][1] == "runs as before"
    assert plan(tmp_path, None)[0][1] == "unknown"
    assert plan(tmp_path, gpu_serving_digests={"mnist": "0" * 64})[0][1] == "another token"
    good = digests.of_text("0123456789abcdef")
    assert plan(tmp_path, gpu_serving_digests={"mnist": good}) == []


def test_damage_is_named(tmp_path: Path) -> None:
    recorded(tmp_path)
    unit = tmp_path / places.UNITS_PLACE.lstrip("/") / places.unit("mnist", "a")
    unit.write_text("[Service]\n")
    assert plan(tmp_path)[0][1] == f"other content of /{unit.relative_to(tmp_path)}"
    recorded(tmp_path)
    (tmp_path / (places.WANTS + places.unit("mnist", "a")).lstrip("/")).unlink()
    assert plan(tmp_path)[0][1] == "not enabled"
    recorded(tmp_path)
    (tmp_path / (places.PORT_WANTS + places.port_unit("mnist", "rest")).lstrip("/")).unlink()
    assert plan(tmp_path)[0][1] == "not enabled"
    recorded(tmp_path)
    (tmp_path / PATH_OF_TOKEN.lstrip("/")).chmod(0o644)
    assert plan(tmp_path)[0][1] == f"mode 0644 of {PATH_OF_TOKEN}"
    (tmp_path / PATH_OF_TOKEN.lstrip("/")).unlink()
    assert plan(tmp_path)[0][1] == "no token"


def test_a_port_that_systemd_does_not_hold_is_damage(tmp_path: Path) -> None:
    for text in ("", listens(8501, uid=1000)):
        recorded(tmp_path)
        (tmp_path / "proc/net/tcp").write_text(text)
        assert plan(tmp_path)[0][1] == "port 8501 not held"


def test_a_container_that_a_cut_off_run_left_is_damage(tmp_path: Path) -> None:
    recorded(tmp_path)
    left = places.unit("mnist", "b")
    (tmp_path / places.UNITS_PLACE.lstrip("/") / left).write_text("[Unit]\n")
    (row,) = plan(tmp_path)
    assert (row[1], row[3]) == ("twice", f"a run was cut off before it ended {left}")


def test_damage_of_the_ways_of_the_front_door_is_named(tmp_path: Path) -> None:
    def ways(change: Callable[[Path], object], path: str) -> list[Any]:
        recorded(tmp_path)
        change(tmp_path / path.lstrip("/"))
        (row,) = plan(tmp_path)
        assert (row[0], row[2]) == (path, "as written")
        return [row[1]]

    assert ways(Path.unlink, places.DOOR_PATHS) == ["absent"]
    assert ways(lambda path: path.write_text("map"), places.DOOR_TOKENS) == ["other content"]
    assert ways(lambda path: path.chmod(0o644), places.DOOR_TOKENS) == ["mode 0644"]
    recorded(tmp_path)
    (tmp_path / places.DOOR_PATHS.lstrip("/")).unlink()
    assert [row[0] for row in plan(tmp_path, gpu_servings=[])] == ["model mnist"]


def test_a_port_in_use_is_somebody_elses_where_systemd_does_not_hold_it(tmp_path: Path) -> None:
    recorded(tmp_path)
    (entry,) = entries.checked([MNIST])
    (more,) = entries.checked([{**MNIST, "name": "bert", "port": 8502}])
    host, tcp = Context(root=str(tmp_path)), tmp_path / "proc/net/tcp"
    assert obstacles.used_ports(host, [entry, more]) == []
    tcp.write_text(listens(8502))
    assert obstacles.used_ports(host, [entry, more]) == [8502]
    tcp.write_text(listens(8501, uid=1000))
    assert obstacles.used_ports(host, [entry]) == [8501]
    # Who opens another address of this machine beside it hinders nobody.
    tcp.write_text(listens(8501, uid=1000) + listens(8501).partition("\n")[2])
    assert obstacles.used_ports(host, [entry]) == []


def test_what_people_have_of_the_gpus_is_seen(tmp_path: Path) -> None:
    for name, text in (("ada", "[0, 1]"), ("bob", '"all"'), ("eve", "no json")):
        place = tmp_path / "etc/gpu-workspace" / name / "gpus.json"
        place.parent.mkdir(parents=True)
        place.write_text(text)
    assert of_workspaces.kept_gpus(Context(root=str(tmp_path))) == {"ada": [0, 1]}


def test_a_model_gets_no_gpu_of_slurms_by_its_uuid(monkeypatch: pytest.MonkeyPatch) -> None:
    uuids = ["GPU-aaaaaaaa", "GPU-bbbbbbbb"]
    monkeypatch.setattr(of_module.handed_gpus, "gpus", lambda: uuids)
    monkeypatch.setattr(of_module.settings, "recorded_people", list)
    wish = {"servings": [{**MNIST, "gpus": uuids[1:]}], "slurm": 1}
    with pytest.raises(RefusedError, match="GPU 1 is promised twice, to Slurm and to model mnist"):
        of_module.gpus(wish)
    assert of_module.gpus({**wish, "slurm": [0]}) == {"mnist": [1]}
    everything = [{**MNIST, "gpus": "all"}]
    with pytest.raises(RefusedError, match="GPU 0 is promised twice, to Slurm and to model mnist"):
        of_module.gpus({"servings": everything, "slurm": [0]})
    assert of_module.gpus({"servings": everything, "slurm": 0}) == {"mnist": "all"}


def test_a_model_that_is_no_longer_wished_goes(tmp_path: Path) -> None:
    recorded(tmp_path)
    gone = ("model mnist", "here", None, "no longer wished; its directory stays")
    assert plan(tmp_path, gpu_servings=[]) == [gone]


def test_a_list_that_can_not_be_read_removes_nothing(tmp_path: Path) -> None:
    recorded(tmp_path)
    (row,) = plan(tmp_path, gpu_servings=[{**MNIST, "port": 0}])
    assert row[0] == "gpu_servings"
    assert "port is a port of the host" in row[3]


def test_a_person_who_asks_for_a_number_gets_no_gpu_of_a_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(allocation.handed_gpus, "gpus", lambda: ["GPU-a", "GPU-b"])
    monkeypatch.setattr(allocation, "kept", dict)
    ada = {"name": "ada", "gpus": 1, "shared": False}
    assert allocation.asked_for([ada], [MNIST]) == {"ada": [1]}
    assert allocation.asked_for([ada], []) == {"ada": [0]}
    with pytest.raises(ValueError, match="ada asks for 2 GPUs, and 1 of the host's 2 are left"):
        allocation.asked_for([{**ada, "gpus": 2}], [MNIST])
    with pytest.raises(ValueError, match="model mnist gets all GPUs, and ada some of them"):
        allocation.asked_for([ada], [{**MNIST, "gpus": "all"}])


def test_a_number_that_no_float_has_is_another() -> None:
    """Whoever wrote the model may have its server say anything."""
    huge = 10**400
    assert not prediction.close([1.0], [huge])
    assert not prediction.close([huge], [float("nan")])
    assert prediction.close([[huge]], [[huge]])
