"""Workspaces: what docker is told, of containers, images, limits and the network."""

from __future__ import annotations

import fcntl
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.components.gpu_workspace import bring, current, images, parameters, proof
from gpu_stack.components.gpu_workspace.program import (
    command,
    command_line,
    containers,
    docker,
    docker_words,
    files,
    places,
    programs,
)
from workspace_machine import ADA, BOB, IMAGE, SECRET, Machine, person, wish


def test_docker_is_told_all_of_it_and_no_secret(machine: Machine) -> None:
    bring.apply(wish(ADA, tokens={"ada": SECRET}))
    arguments = command.command("ada")
    words = " ".join(arguments)
    for part in (
        "--name gpu-workspace-ada --hostname ada",
        "--security-opt no-new-privileges --pids-limit 16384 --log-driver local",
        "--log-opt max-size=10m --log-opt max-file=3",
        "--network gpu-workspaces --user 70000:70000",
        "--workdir /home/ada --shm-size 1g",
        "--env JUPYTER_TOKEN_FILE=/run/gpu-workspace/token",
        "--mount type=bind,src=/srv/homes/ada,dst=/home/ada --mount",
        "src=/etc/gpu-workspace/ada/token,dst=/run/gpu-workspace/token,readonly",
        "--mount type=bind,src=/data,dst=/data,readonly",
        "--cpus 0.5 --memory 2g --memory-swap 2g",
        '--gpus "device=0"',
        f"--entrypoint /bin/sh {IMAGE} -c",
    ):
        assert part in words, part
    assert "--publish" not in words
    assert SECRET not in words
    assert "-- none" not in words


def test_what_nobody_wished_for_docker_is_not_told(machine: Machine) -> None:
    writable = person(volumes=[{"path": "/a", "at": "/b", "writable": True}])
    bring.apply(wish(writable))
    words = " ".join(command.command("ada"))
    assert not any(f"--{name} " in words for name in ("gpus", "cpus", "memory"))
    assert "src=/a,dst=/b --runtime" in words


def test_errors_are_one_sentence_and_exit_1(
    machine: Machine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command_line.main(["command", "ada"]) == 1
    assert capsys.readouterr().err == "ada has no workspace here\n"
    assert command_line.main(["compose"]) == 2
    assert "gpu-workspace list" in capsys.readouterr().err


# containers


def test_a_container_of_that_name_that_is_not_ours_is_left_alone(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = (0, "gpu-workspace-ada \n", "")
    calls: list[tuple[str, ...]] = []
    monkeypatch.setattr(docker, "answer", lambda *words, **_more: calls.append(words) or answer)
    with pytest.raises(places.RefusedError, match="is not of gpu_workspaces"):
        containers.stop("ada")
    assert [words[0] for words in calls] == ["ps"]


def test_a_name_is_waited_for_until_it_is_free(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docker removes a container in its own time, and knows it no more before the name is free."""
    left = ["gpu-workspace-ada ada\n"] * 3
    commands: list[str] = []

    def answer(*words: str, **_more: Any) -> tuple[int, str, str]:
        commands.append(words[0])
        return 0, left.pop() if left and words[0] == "ps" else "", ""

    monkeypatch.setattr(docker, "answer", answer)
    monkeypatch.setattr(containers.time, "sleep", lambda _seconds: None)
    containers.stop("ada")
    assert commands == ["ps", "stop", "rm", "ps", "ps", "ps"]


def test_a_container_that_outlives_its_end_is_reported(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(*words: str, **_more: Any) -> tuple[int, str, str]:
        if words[0] == "ps":
            return 0, "gpu-workspace-ada ada\n", ""
        return 1, "", "could not kill: tried to kill container, but did not receive an exit event"

    monkeypatch.setattr(docker, "answer", answer)
    monkeypatch.setattr(docker, "STARTS", 0)
    with pytest.raises(places.RefusedError, match=r"gpu-workspace-ada.*did not receive an exit"):
        containers.stop("ada")


def test_where_docker_is_silent_nobody_says_that_nothing_runs(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With live-restore containers run on while dockerd does not."""
    silent = (1, "", "Cannot connect to the Docker daemon")
    monkeypatch.setattr(docker, "answer", lambda *_words, **_more: silent)
    with pytest.raises(places.RefusedError, match="Cannot connect to the Docker daemon"):
        containers.stop("ada")
    # Without docker no container runs.
    monkeypatch.setattr(docker, "answer", lambda *_words, **_more: (127, "", "docker is not here"))
    containers.stop("ada")


def test_what_is_told_of_a_container_ends_with_it(machine: Machine) -> None:
    machine.put("/run/gpu-workspace/ada.json", json.dumps({"container": "c", "pid": 1}))
    machine.put("/run/gpu-workspace/bob.json", json.dumps({"container": "c", "pid": 2}))
    containers.stop("ada")
    containers.stop("ada")
    assert files.data("/run/gpu-workspace/ada.json") is None
    assert files.data("/run/gpu-workspace/bob.json") == {"container": "c", "pid": 2}


def test_why_one_could_not_start_is_told_where_docker_does_not_remove_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring.apply(wish(ADA))
    machine.runs.clear()

    def answer(*words: str, **_more: Any) -> tuple[int, str, str]:
        if words[0] == "run":
            return 1, "", "no such device"
        return machine.call(["docker", "--host", "socket", *words])

    ends = iter([None, places.RefusedError("it does not end")])

    def stop(_name: str) -> None:
        error = next(ends)
        if error is not None:
            raise error

    monkeypatch.setattr(docker, "answer", answer)
    monkeypatch.setattr(containers, "stop", stop)
    with pytest.raises(places.RefusedError, match="it does not end"):
        containers.run("ada")
    assert files.data("/run/gpu-workspace/ada.json") == {"error": "no such device"}


def test_why_one_could_not_start_stays_told_while_systemd_tries_again(machine: Machine) -> None:
    machine.put("/run/gpu-workspace/ada.json", json.dumps({"error": "no such device"}))
    containers.stop("ada")
    assert files.data("/run/gpu-workspace/ada.json") == {"error": "no such device"}


# limits


def test_limits_are_read_where_either_kernel_keeps_them() -> None:
    first = "12:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n0::/x\n"
    assert containers.groups(first) == {
        "memory": "/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes",
        "cpu": "/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us",
    }
    assert containers.groups("0::/system.slice/docker-abc.scope\n") == {
        "memory": "/sys/fs/cgroup/system.slice/docker-abc.scope/memory.max",
        "cpu": "/sys/fs/cgroup/system.slice/docker-abc.scope/cpu.max",
    }


@pytest.mark.parametrize(
    ("memory", "cpu", "wrong"),
    [
        ("2147483648\n", "50000 100000\n", None),
        ("max\n", "50000 100000\n", "its memory is limited to max, not 2147483648"),
        (None, "50000\n", "its memory is limited to nothing"),
        ("2147483648\n", "max 100000\n", "its processors are limited to max, not 50000"),
    ],
)
def test_a_limit_that_is_not_in_force_is_reported(
    machine: Machine, memory: str | None, cpu: str, wrong: str | None
) -> None:
    if memory is not None:
        machine.put("/m", memory)
    machine.put("/c", cpu)
    state = {"groups": {"memory": "/m", "cpu": "/c"}, "memory": 2 << 30, "cpus": 0.5}
    fault = proof.limits(state)
    assert fault == wrong if wrong is None else wrong in fault


@pytest.mark.parametrize(
    ("cpus", "quota"), [(2.3, "230000"), (1.1, "110000"), (4, "400000"), (0.123456, "12345")]
)
def test_a_fraction_of_a_processor_is_counted_as_docker_counts_it(
    cpus: float, quota: str, tmp_path: Path
) -> None:
    """docker takes the decimal number for billionths, and cuts off at a hundred-thousandth."""
    (tmp_path / "cpu").write_text(quota + " 100000\n")
    state = {"memory": None, "cpus": cpus, "groups": {"cpu": str(tmp_path / "cpu")}}
    assert proof.limits(state) is None
    (tmp_path / "cpu").write_text(str(int(quota) - 1) + " 100000\n")
    assert proof.limits(state) == f"its processors are limited to {int(quota) - 1}, not {quota}"


# images


def test_a_file_with_another_hash_is_not_loaded(machine: Machine, tmp_path: Path) -> None:
    archive = tmp_path / "image.tar"
    archive.write_bytes(b"something else")
    with pytest.raises(places.RefusedError, match="It was not loaded"):
        images.load(str(archive), "0" * 64, "gpu-workspace:0")
    assert machine.calls_of("docker") == []


@pytest.mark.parametrize(
    ("output", "loaded"),
    [
        ("Loaded image: lab/jupyter:1\n", "lab/jupyter:1"),
        ("Loaded image ID: sha256:abc\n", "sha256:abc"),
        ("Loaded image: a:1\nLoaded image: b:1\n", None),
        ("", None),
    ],
)
def test_a_file_holds_one_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, loaded: str | None
) -> None:
    archive, calls = tmp_path / "image.tar", []

    def answer(*words: str, **_more: Any) -> tuple[int, str, str]:
        calls.append(words)
        return 0, output if words[0] == "load" else "", ""

    archive.write_bytes(b"x")
    monkeypatch.setattr(docker, "answer", answer)
    digest = hashlib.sha256(b"x").hexdigest()
    if loaded is None:
        with pytest.raises(places.RefusedError, match=r"holds \d images; expected one"):
            images.load(str(archive), digest, "gpu-workspace:x")
        assert len(calls) == 1
    else:
        images.load(str(archive), digest, "gpu-workspace:x")
        assert calls[1] == ("tag", loaded, "gpu-workspace:x")


@pytest.mark.parametrize(
    ("parts", "answer", "words"),
    [
        (["jupyter"], (0, "", ""), None),
        (["jupyter"], (0, "lacks jupyter\n", ""), "has no Jupyter in its PATH"),
        (["ssh"], (0, "lacks ssh\n", ""), "has no sshd in its PATH"),
        (["jupyter", "ssh"], (0, "lacks jupyter\nlacks ssh\n", ""), "no Jupyter and no sshd"),
        (["ssh"], (127, "", "sh: not found"), "docker could not try the image: sh: not found"),
        (["ssh"], (125, "", "no space left"), "docker could not try the image: no space left"),
        (["ssh"], (124, "", "docker did not answer within 9 s"), "docker did not answer within"),
    ],
)
def test_an_image_is_refused_for_what_it_lacks_and_docker_for_what_it_does(
    monkeypatch: pytest.MonkeyPatch,
    parts: list[str],
    answer: tuple[int, str, str],
    words: str | None,
) -> None:
    monkeypatch.setattr(programs, "call", lambda _command, **_options: answer)
    if words is None:
        assert images.try_parts(IMAGE, *parts) == {"has": parts}
    else:
        with pytest.raises(places.RefusedError, match=words):
            images.try_parts(IMAGE, *parts)


def test_an_image_that_is_built_is_named_by_all_that_goes_in() -> None:
    made_of = {
        **dict.fromkeys(("image", "image_file", "image_sha256", "base", "base_file"), ""),
        "base_sha256": "a",
        "packages": [],
        "places": [],
        "stack": {"tensorflow": {}},
    }
    names = {parameters.reference(made_of)}
    for key, value in (("base_sha256", "b"), ("packages", ["git"]), ("stack", {})):
        names.add(parameters.reference({**made_of, key: value}))
    assert len(names) == 4
    assert all(name.startswith("gpu-workspace-built:") for name in names)
    assert parameters.reference({**made_of, "base_sha256": "", "image": IMAGE}) == IMAGE
    by_file = {**made_of, "base_sha256": "", "image_file": "x.tar", "image_sha256": "c" * 64}
    assert parameters.reference(by_file) == "gpu-workspace:" + "c" * 16


# the network


def test_all_are_on_one_network_that_is_made_once(machine: Machine) -> None:
    docker.connect()
    docker.connect()
    (made,) = machine.calls_of("docker", "--host", docker_words.SOCKET, "network", "create")
    assert made[-3:] == ["--opt", "com.docker.network.bridge.enable_icc=false", "gpu-workspaces"]


def test_nobody_but_root_can_hold_up_who_makes_the_network(machine: Machine) -> None:
    """flock(2) asks for no more than that a file can be read."""
    docker.connect()
    modes = {path.name: path.stat().st_mode & 0o077 for path in _state(machine).iterdir()}
    assert modes == {".network.lock": 0}


def test_a_turn_that_does_not_come_is_not_waited_for(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker.connect()
    monkeypatch.setattr(docker, "STARTS", 0.2)
    with (_state(machine) / ".network.lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(places.RefusedError, match=r"another workspace's start has held .*lock"):
            docker.connect()
    docker.connect()


def _state(machine: Machine) -> Path:
    return machine.root / places.STATE.lstrip("/")


@pytest.mark.parametrize(
    "other",
    [
        {"Labels": {}, "Options": {}},
        {"Labels": None, "Options": None},
        {"Labels": {"gpu-workspace": ""}, "Options": {}},
        {"Labels": {}, "Options": {"com.docker.network.bridge.enable_icc": "false"}},
    ],
)
def test_a_network_of_that_name_that_is_not_ours_is_refused(
    machine: Machine, other: dict[str, Any]
) -> None:
    machine.networks["gpu-workspaces"] = other
    with pytest.raises(places.RefusedError, match="gpu-workspaces that is not of gpu_workspaces"):
        current.look(wish(ADA))
    assert machine.calls_of("systemctl") == []


def test_the_network_goes_with_the_last_of_them(machine: Machine) -> None:
    bring.apply(wish(ADA, BOB))
    docker.connect()
    bring.apply(wish(BOB))
    assert "gpu-workspaces" in machine.networks
    bring.apply(wish())
    assert machine.networks == {}
