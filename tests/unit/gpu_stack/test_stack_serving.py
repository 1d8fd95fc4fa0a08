"""Served models: the list, what the look and the plan see, the units, the door's files."""

from __future__ import annotations

import json
import os
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
from gpu_stack.components.gpu_workspace import allocation
from gpu_stack.host import digests
from gpu_stack.host.context import Context, Result

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
    said = refused({**MNIST, **change})
    assert words in said
    assert "geheim" not in said


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
    assert seen == {"there": True, "newest": 10, "file": True, "tensorflow": "2.9.3"}
    (tmp_path / "srv/models/mnist/10/saved_model.pb").unlink()
    os.mkfifo(tmp_path / "srv/models/mnist/10/saved_model.pb")
    assert saved_model.look(host, "/srv/models/mnist")["file"] is False
    assert saved_model.look(host, "/srv/nothing") == {
        "there": False, "newest": None, "file": False, "tensorflow": None,
    }  # fmt: skip


def test_what_its_user_can_not_read_is_named(tmp_path: Path) -> None:
    host = versions(tmp_path, "1")
    (entry,) = entries.checked([MNIST])
    assert obstacles.directory(host, entry)["closed"] is None
    (tmp_path / "srv/models/mnist/1").chmod(0o750)
    assert obstacles.directory(host, entry)["closed"] == "/srv/models/mnist/1"
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


def test_a_version_that_loads_is_waited_for() -> None:
    states = status(v3=("LOADING", ""), v2=("AVAILABLE", ""))
    wait, wrong = asking.judged(states, 3)
    assert wait
    assert wrong == "version 3 is not loaded yet; version 2 still serves"
    assert asking.judged({}, 1)[0]


def test_an_answer_of_something_else_has_no_versions() -> None:
    for answer in (None, [], {"model_version_status": 7}, {"model_version_status": [3, {}]}):
        assert asking.versions(answer) == {}


def test_predictions_are_compared_by_shape_and_within_tolerance() -> None:
    assert prediction.close([[1.0, 2]], [[1.0005, 2]])
    assert prediction.close(float("nan"), float("nan"))
    for wanted, said in (
        ([[1.0]], [1.0]),
        ([1.0, 2.0], [1.0]),
        ([1.0], [1.2]),
        (["a"], ["b"]),
        ([1.0], None),
    ):
        assert not prediction.close(wanted, said), (wanted, said)


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
    for path, content in (
        (unit, text),
        (places.WANTS + places.unit("mnist", "a"), ""),
        (places.folder("mnist") + "/serving.json", json.dumps(record)),
        (places.folder("mnist") + "/token", "0123456789abcdef"),
    ):
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)
        place.chmod(0o644)


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
    (tmp_path / "etc/gpu-serving/mnist/token").unlink()
    assert plan(tmp_path)[0][1] == "no token"


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
