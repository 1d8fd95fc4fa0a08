"""Workspaces: who is refused, who gets which GPU, and what docker is told."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_stack.components.gpu_workspace import (
    allocation,
    bring,
    current,
    images,
    jupyter,
    obstacles,
    parameters,
    port_sockets,
    proof,
    running_host,
    wished,
)
from gpu_stack.components.gpu_workspace.program import (
    command,
    command_line,
    compose,
    containers,
    docker,
    docker_words,
    files,
    handed_gpus,
    people_list,
    places,
    programs,
    relay,
    settings,
)

from tests import host_tree

SECRET = "0123456789abcdef-of-the-vault"  # noqa: S105
HOME = "/home/ada"
IMAGE = "registry.example.org/jupyter@sha256:" + "a" * 64
KEY = "ssh-ed25519 " + "A" * 68 + " ada@laptop"
UUIDS = ["GPU-aaaaaaaa", "GPU-bbbbbbbb", "GPU-cccccccc"]


def person(name: str = "ada", **more: Any) -> dict[str, Any]:
    return {"name": name, "gpus": "none", "port": 8801, **more}


# who is refused


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("ada", "it is a list of people"),
        (["ada"], "entry 1 is no mapping"),
        ([{"gpus": 1}], "entry 1: nothing is no user name"),
        ([person("Ada Lovelace")], 'entry 1: "Ada Lovelace" is no user name'),
        ([person("-ada")], "is no user name"),
        ([person("a" * 33)], "is no user name"),
        ([person(gpuz=1)], 'ada has the unknown word "gpuz"; expected name, kind'),
        ([{"name": "ada", "port": 1}], "ada needs gpus"),
        ([{"name": "ada", "gpus": 1}], "ada needs port"),
        ([person(kind="shell")], "ada: kind is jupyter, ssh or both"),
        ([person(kind="ssh", ssh_port=1, ssh_keys=[KEY])], "ada: port has no meaning for kind ssh"),
        ([person(tensorboard_port=0)], "ada: tensorboard_port is a number from 1"),
        ([person(tensorboard_port=8801)], "port 8801 is said twice (ada and ada)"),
        ([person(ssh_port=1)], "ada: ssh_port has no meaning for kind jupyter"),
        ([person(kind="both", ssh_port=1)], "ada needs ssh_keys: a list of public keys"),
        (
            [person("root", kind="both", ssh_port=1, ssh_keys=[KEY])],
            "entry 1: root is an account that sshd itself needs",
        ),
        (
            [person("sshd", kind="both", ssh_port=1, ssh_keys=[KEY])],
            "entry 1: sshd is an account that sshd itself needs",
        ),
        ([person(kind="both", ssh_keys=[KEY])], "ada needs ssh_port: a number"),
        ([person(kind="both", ssh_port=0, ssh_keys=[KEY])], "ada: ssh_port is a number"),
        ([person(kind="both", ssh_port=1, ssh_keys=[])], "ada: ssh_keys is a list of public"),
        ([person(kind="both", ssh_port=1, ssh_keys=KEY)], "ada: ssh_keys is a list of public"),
        ([person(kind="both", ssh_port=1, ssh_keys=["ssh-dss " + 60 * "A"])], "ada: ssh_keys is"),
        (
            [person(kind="both", ssh_port=1, ssh_keys=[KEY + "\ncommand ssh-rsa"])],
            "ada: ssh_keys is",
        ),
        (
            [person(kind="both", ssh_port=8801, ssh_keys=[KEY])],
            "port 8801 is said twice (ada and ada)",
        ),
        (
            [person(), person("bob", port=2, kind="both", ssh_port=8801, ssh_keys=[KEY])],
            "port 8801 is said twice (ada and bob)",
        ),
        ([person(gpus=0)], "ada: gpus is all, none"),
        ([person(gpus=True)], "ada: gpus is all, none"),
        ([person(gpus="some")], "ada: gpus is all, none"),
        ([person(gpus=[])], "ada: gpus is all, none"),
        ([person(gpus=[0, 0])], "ada: gpus is all, none"),
        ([person(gpus=[-1])], "ada: gpus is all, none"),
        ([person(gpus=["first"])], "ada: gpus is all, none"),
        ([person(shared="yes")], "ada: shared is true or false"),
        ([person(cpus=-1)], "ada: cpus is a number"),
        ([person(cpus="2")], "ada: cpus is a number"),
        ([person(memory="16")], 'ada: memory is a size like "16g"'),
        ([person(memory=16)], "ada: memory is a size"),
        ([person(memory="0g")], "ada: memory is a size"),
        ([person(shm_size="")], 'ada: shm_size is a size like "1g"'),
        ([person(port=0)], "ada: port is a number from 1 to 65535"),
        ([person(port=65536)], "ada: port is a number"),
        ([person(port="8801")], "ada: port is a number"),
        ([person(user="ada")], "ada: user is numbers"),
        ([person(volumes=["/data"])], "ada: volumes is a list of {path"),
        ([person(volumes=[{"at": "/data"}])], "ada: volumes is"),
        ([person(volumes=[{"path": "data"}])], "ada: volumes is"),
        ([person(volumes=[{"path": "/a,readonly=false"}])], "ada: volumes is"),
        ([person(volumes=[{"path": "/a", "writeable": True}])], "ada: volumes is"),
        ([person(volumes=[{"path": "/a", "writable": "no"}])], "ada: volumes is"),
        ([person(), person(port=2)], "name ada is said twice"),
        (
            [person(user="5001:5000"), person("bob", port=2, user="5001")],
            "user 5001 is said twice (ada and bob)",
        ),
        ([person(), person("bob")], "port 8801 is said twice (ada and bob)"),
    ],
)
def test_what_is_refused_and_why(value: Any, words: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 the words are compared below
        people_list.checked(value)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("word", "there"), [("token", "gpu_workspace_tokens"), ("password", "gpu_workspace_passwords")]
)
def test_a_secret_among_the_people_is_refused_and_not_shown(word: str, there: str) -> None:
    with pytest.raises(ValueError, match=there) as error:
        people_list.checked([person(**{word: SECRET})])
    assert SECRET not in str(error.value)


def test_what_is_not_said_has_its_default() -> None:
    found = people_list.checked([person(memory="2g")])[0]
    assert found == {
        "name": "ada",
        "kind": "jupyter",
        "gpus": "none",
        "port": 8801,
        "shared": False,
        "cpus": 0,
        "memory": "2g",
        "shm_size": "1g",
        "user": "",
        "volumes": [],
    }


@pytest.mark.parametrize(
    ("ada", "bob", "clash"),
    [
        ("all", "none", False),
        ("all", 1, True),
        ("all", "all", True),
        ([0], [1], False),
        ([0, 1], [1], True),
        (["GPU-aaaaaaaa"], ["GPU-aaaaaaaa"], True),
        (1, 1, False),
    ],
)
def test_a_gpu_is_promised_once_unless_both_say_shared(ada: Any, bob: Any, clash: bool) -> None:
    def both(**more: Any) -> Any:
        return [person(gpus=ada, **more), person("bob", port=2, gpus=bob, **more)]

    if clash:
        with pytest.raises(ValueError, match="shared: true of both"):
            people_list.checked(both())
        one = both()
        one[0]["shared"] = True
        with pytest.raises(ValueError, match="shared: true of both"):
            people_list.checked(one)
    else:
        people_list.checked(both())
    people_list.checked(both(shared=True))


# who gets which GPU


def given(kept: dict[str, Any] | None = None, **gpus: Any) -> Any:
    people = [
        person(name, port=number, gpus=one["gpus"] if isinstance(one, dict) else one,
               shared=isinstance(one, dict))
        for number, (name, one) in enumerate(gpus.items(), 1)
    ]  # fmt: skip
    return allocation.allocated(people_list.checked(people), UUIDS, kept or {})


def test_numbers_get_the_gpus_that_nobody_named() -> None:
    assert given(ada=1, bob=[0], eve="none") == {"ada": [1], "bob": [0], "eve": []}
    assert given(ada=2, bob=["GPU-bbbbbbbb"]) == {"ada": [0, 2], "bob": [1]}
    assert given(ada="all") == {"ada": "all"}


def test_who_has_gpus_keeps_them_whoever_comes() -> None:
    assert given(ada=1, bob=1, eve=1, kept={"eve": [0], "bob": [2]}) == {
        "eve": [0],
        "bob": [2],
        "ada": [1],
    }
    # One who now asks for more, or whose GPU somebody was promised by its number, gets others.
    assert given(ada=2, kept={"ada": [2]}) == {"ada": [0, 1]}
    assert given(ada=1, bob=[2], kept={"ada": [2]}) == {"ada": [0], "bob": [2]}


def test_those_who_share_take_free_ones_first() -> None:
    assert given(ada={"gpus": 2}, bob={"gpus": 2}) == {"ada": [0, 1], "bob": [0, 2]}


@pytest.mark.parametrize(
    ("gpus", "words"),
    [
        ({"ada": 4}, "ada asks for 4 GPUs, and 3 of the host's 3 are left"),
        ({"ada": 2, "bob": 2}, "bob asks for 2 GPUs, and 1 of the host's 3 are left"),
        ({"ada": [3]}, "ada asks for GPU 3, and nvidia-smi lists 0 to 2"),
        ({"ada": ["GPU-dddddddd"]}, "ada asks for GPU GPU-dddddddd"),
        ({"ada": [1], "bob": ["GPU-bbbbbbbb"]}, "GPU 1 is promised twice, to ada and bob"),
    ],
)
def test_gpus_that_are_not_there_are_refused(gpus: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 the words are compared below
        given(**gpus)
    assert words in str(error.value)


def test_all_of_no_gpus_are_none() -> None:
    with pytest.raises(ValueError, match="nvidia-smi lists none"):
        allocation.allocated(people_list.checked([person(gpus="all")]), [], {})


# a host


class Machine:
    """A host's files, and what its docker and systemd were told."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.calls: list[list[str]] = []
        self.runs: dict[str, str] = {}
        self.images = {IMAGE}
        self.networks: dict[str, dict[str, Any]] = {}

    def text(self, path: str) -> str:
        return (self.root / path.lstrip("/")).read_text("utf-8")

    def put(self, path: str, text: str) -> None:
        host_tree.put(self.root, path, text)

    def call(self, command: list[str], **_options: Any) -> tuple[int, str, str]:
        self.calls.append(command)
        words = command[3:] if command[0] == "docker" else command
        if words[:2] == ["ps", "--all"]:
            name = words[3].removeprefix("name=gpu-workspace-")
            mine = f"gpu-workspace-{name} {name}\n" if name in self.runs else ""
            return 0, "gpu-workspace-" + name + "-and-more other\n" + mine, ""
        if words[:1] == ["ps"]:
            return 0, "".join(f"{name} {one}\n" for name, one in self.runs.items()), ""
        if words[:2] == ["image", "inspect"]:
            return (0 if words[2] in self.images else 1), "", ""
        if words[:2] == ["network", "inspect"]:
            found = self.networks.get(words[-1])
            return (1, "", "no such network") if found is None else (0, json.dumps(found), "")
        if words[:2] == ["network", "create"]:
            self.networks[words[-1]] = {
                "Labels": {words[words.index("--label") + 1]: ""},
                "Options": dict([words[words.index("--opt") + 1].split("=")]),
            }
        if words[:2] == ["network", "rm"]:
            self.networks.pop(words[-1])
        if words[:1] == ["rm"]:
            self.runs.pop(words[-1].removeprefix("gpu-workspace-"), None)
        if words[0] == "systemctl" and "gpu-workspace-port@" in words[-1]:
            return self.ports(words)
        if words[:2] == ["systemctl", "enable"]:
            for unit in words[2:]:
                self.put("/etc/systemd/system/multi-user.target.wants/" + unit, "")
        if words[:2] == ["systemctl", "start"]:
            for unit in words[2:]:
                name = unit.partition("@")[2].removesuffix(".service")
                self.runs[name] = self.text(f"/etc/gpu-workspace/{name}/revision").strip()
        if words[0] == "nvidia-smi":
            return 0, "".join(f"GPU {n}: T4 (UUID: {u})\n" for n, u in enumerate(UUIDS)), ""
        return 0, "", ""

    def ports(self, words: list[str]) -> tuple[int, str, str]:
        """systemd, which holds ports of people or lets go of them."""
        for unit in words[2:]:
            if not unit.endswith(".socket"):
                continue
            port = unit.partition("@")[2].removesuffix(".socket")
            places = {
                "enable": f"/etc/systemd/system/sockets.target.wants/{unit}",
                "start": f"/run/gpu-workspace-ports/{port}",
            }
            if words[1] in places:
                self.put(places[words[1]], "")
            else:
                for path in places.values():
                    (self.root / path.lstrip("/")).unlink(missing_ok=True)
        return 0, "", ""

    def told(self, *words: str) -> list[list[str]]:
        return [call for call in self.calls if call[: len(words)] == list(words)]


def stand_in(monkeypatch: pytest.MonkeyPatch, root: Path, call: Any) -> None:
    """Has the program find its files below `root`, and `call` answer for what it starts."""
    monkeypatch.setattr(files, "ROOT", str(root))
    monkeypatch.setattr(programs, "call", call)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    host = Machine(tmp_path)
    stand_in(monkeypatch, tmp_path, host.call)
    monkeypatch.setattr(obstacles, "opened", lambda *_told: 0)
    return host


def wish(*people: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "workspaces": list(people),
        "image": IMAGE,
        "root": "/srv/homes",
        "address": "127.0.0.1",
        "ssh_address": "0.0.0.0",  # noqa: S104 as wished
        **more,
    }


ADA = person(gpus=[0], cpus=0.5, memory="2g", volumes=[{"path": "/data"}])
BOB = person("bob", port=8802, gpus=1, user="1000:1001")


def test_each_gets_files_that_only_root_can_read_and_a_token(machine: Machine) -> None:
    done = bring.apply(wish(ADA, BOB, tokens={"ada": SECRET}))
    assert done["changed"] == ["ada", "bob"]
    assert machine.text("/etc/gpu-workspace/ada/token") == SECRET
    made = machine.text("/etc/gpu-workspace/bob/token")
    assert len(made) == 48
    for path, mode in (("", 0o700), ("/ada", 0o700), ("/ada/token", 0o400)):
        found = (machine.root / ("etc/gpu-workspace" + path)).stat().st_mode
        assert stat.S_IMODE(found) == mode, path
    assert stat.S_IMODE((machine.root / "srv/homes/ada").stat().st_mode) == 0o700
    assert json.loads(machine.text("/etc/gpu-workspace/bob/gpus.json")) == [1]
    assert SECRET not in json.dumps(machine.calls)
    assert made not in json.dumps(machine.calls)


def test_a_second_time_nothing_is_told_to_systemd(machine: Machine) -> None:
    bring.apply(wish(ADA, BOB))
    machine.calls.clear()
    assert bring.apply(wish(ADA, BOB)) == {
        "changed": [],
        "removed": [],
        "tokens": "/etc/gpu-workspace/NAME/token",
    }
    assert machine.told("systemctl") == []


def test_a_change_of_one_touches_one(machine: Machine) -> None:
    bring.apply(wish(ADA, BOB))
    token, revision = (machine.text(f"/etc/gpu-workspace/bob/{x}") for x in ("token", "revision"))
    machine.calls.clear()
    assert bring.apply(wish(ADA, {**BOB, "memory": "3g"}))["changed"] == ["bob"]
    assert machine.told("systemctl", "stop") == [["systemctl", "stop", "gpu-workspace@bob.service"]]
    assert machine.text("/etc/gpu-workspace/bob/token") == token
    assert machine.text("/etc/gpu-workspace/bob/revision") != revision


def test_all_who_change_are_stopped_before_one_is_started(machine: Machine) -> None:
    bring.apply(wish(ADA, BOB))
    machine.calls.clear()
    bring.apply(wish({**ADA, "port": 8802}, {**BOB, "port": 8801}))
    both = ["gpu-workspace@ada.service", "gpu-workspace@bob.service"]
    words = [one[1] for one in machine.told("systemctl")]
    # Then systemd lets go of their ports and takes the others, before one of them is started.
    ports = ["disable", "stop"] * 2 + ["daemon-reload", "enable", "start"]
    assert words == ["stop", *ports, "enable", "start"]
    assert machine.told("systemctl", "stop")[0][2:] == both
    assert machine.told("systemctl", "start")[-1][2:] == both


def test_who_is_gone_is_stopped_and_the_home_stays(machine: Machine) -> None:
    bring.apply(wish(ADA, BOB))
    machine.put("/srv/homes/bob/notes", "his")
    done = bring.apply(wish(ADA))
    assert done["removed"] == ["bob"]
    assert ["systemctl", "disable", "--now", "gpu-workspace@bob.service"] in machine.calls
    assert not (machine.root / "etc/gpu-workspace/bob").exists()
    assert machine.text("/srv/homes/bob/notes") == "his"


def without(path: str) -> Callable[[Machine], None]:
    return lambda machine: (machine.root / path.lstrip("/")).unlink()


LISTEN = "/etc/systemd/system/gpu-workspace-port@ada.jupyter.socket.d/address.conf"
PORT_WANTS = "/etc/systemd/system/sockets.target.wants/gpu-workspace-port@ada.jupyter.socket"
WANTS = "/etc/systemd/system/multi-user.target.wants/gpu-workspace@ada.service"


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (without("/etc/gpu-workspace/ada/workspace.json"), "absent"),
        (without("/etc/gpu-workspace/ada/token"), "no token"),
        (without("/etc/gpu-workspace/ada/revision"), "unfinished"),
        (without(WANTS), "not enabled"),
        (without("/run/gpu-workspace-ports/ada.jupyter"), "port not held"),
        (without(PORT_WANTS), "port not held"),
        (without(LISTEN), "port not held"),
        (lambda machine: machine.runs.pop("ada"), "not running"),
        (lambda machine: machine.runs.update(ada="other"), "runs as before"),
    ],
)
def test_what_is_harmed_is_seen_and_cured(
    machine: Machine, harm: Callable[[Machine], None], why: str
) -> None:
    bring.apply(wish(ADA))
    harm(machine)
    assert current.look(wish(ADA))["changes"] == {"ada": why}
    bring.apply(wish(ADA))
    assert current.look(wish(ADA))["changes"] == {}


def test_who_was_cut_off_is_not_taken_for_whole(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of now beside a container of then would look as wished."""
    bring.apply(wish(ADA))
    changed = wish({**ADA, "memory": "3g"})
    put = files.put

    def cut_off(path: str, *told: Any) -> None:
        if path.endswith("/revision"):
            raise KeyboardInterrupt
        put(path, *told)

    monkeypatch.setattr(files, "put", cut_off)
    with pytest.raises(KeyboardInterrupt):
        bring.apply(changed)
    assert current.look(changed)["changes"] == {"ada": "unfinished"}


def test_another_token_is_seen_by_its_hash_alone(machine: Machine) -> None:
    bring.apply(wish(ADA, tokens={"ada": SECRET}))
    assert current.look(wish(ADA, tokens={"ada": SECRET}))["changes"] == {}
    other = wish(ADA, tokens={"ada": "0" * 64})
    assert current.look(other)["changes"] == {"ada": "another token"}
    assert SECRET not in json.dumps(wished.options(other | {"tokens": {"ada": SECRET}}))


@pytest.mark.parametrize("token", ["short", "with a blank in it, and long", 12345678901234567890])
def test_a_token_that_is_none_is_refused_and_not_shown(machine: Machine, token: Any) -> None:
    with pytest.raises(places.RefusedError) as error:
        bring.apply(wish(ADA, tokens={"ada": token}))
    assert "at least 16 characters" in str(error.value)
    assert str(token) not in str(error.value)
    assert machine.told("systemctl") == []


def test_a_port_of_somebody_else_is_refused(machine: Machine) -> None:
    line = "   0: 0100007F:{0:04X} 00000000:0000 0A 00000000:00000000 00:00000000 0 0 0 71 1\n"
    machine.put("/proc/net/tcp", "  sl local rem st\n" + line.format(8801))
    with pytest.raises(places.RefusedError, match="port 8801 of ada is in use by something else"):
        current.look(wish(ADA))
    machine.put("/proc/net/tcp", "  sl local rem st\n" + line.format(8801).replace(" 0A ", " 01 "))
    current.look(wish(ADA))
    # Our own container's is no other's.
    bring.apply(wish(ADA))
    machine.put("/proc/net/tcp", "  sl local rem st\n" + line.format(8801))
    assert current.look(wish({**ADA, "memory": "3g"}))["changes"] == {"ada": "other settings"}
    # systemd holds it while there is no container.
    machine.runs.clear()
    assert current.look(wish(ADA))["changes"] == {"ada": "not running"}


@pytest.mark.parametrize(("told", "fits"), [("", True), ("3g", False), ("4g", True)])
def test_more_memory_than_there_is_is_refused(machine: Machine, told: str, fits: bool) -> None:
    machine.put("/proc/meminfo", f"MemTotal:       {4 << 20} kB\nMemFree: 1 kB\n")
    people = (ADA, {**BOB, "memory": "2g"})
    if fits:
        current.look(wish(*people, host_memory=told))
    else:
        with pytest.raises(places.RefusedError, match="4096 MiB together; the host has 3072 MiB"):
            current.look(wish(*people, host_memory=told))
    with pytest.raises(places.RefusedError, match="4097 MiB together; the host has 4096 MiB"):
        current.look(wish(ADA, {**BOB, "memory": "2049m"}))


def test_who_works_in_it_keeps_a_container(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring.apply(wish(ADA, BOB))
    monkeypatch.setattr(
        obstacles, "opened", lambda place, *_told: 2 if place.endswith("/bob.jupyter") else 0
    )
    current.look(wish({**ADA, "memory": "3g"}, BOB))
    for people in ((ADA, {**BOB, "memory": "3g"}), (ADA,)):
        with pytest.raises(places.RefusedError, match=r"SSH open.*: bob \(2\);"):
            current.look(wish(*people))
        current.look(wish(*people, in_use="stop"))


def test_an_image_is_looked_at_before_anything_is_written_of_it(machine: Machine) -> None:
    assert current.look(wish(ADA))["tried"] is False
    bring.apply(wish(ADA))
    assert current.look(wish(ADA, BOB))["tried"] is True
    other = wish(ADA, image="gpu-workspace:other")
    assert current.look(other)["image"] is False
    with pytest.raises(places.RefusedError, match="docker has no image gpu-workspace:other"):
        bring.apply(other)


def test_docker_is_told_all_of_it_and_no_secret(machine: Machine) -> None:
    bring.apply(wish(ADA, tokens={"ada": SECRET}))
    told = command.command("ada")
    words = " ".join(told)
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


# as a compose file


def as_compose(*options: str) -> tuple[str, Any]:
    """(the text, ada's service with its single `$` back)."""
    text = compose.compose("ada", *options)
    service = yaml.safe_load(text)["services"]["ada"]
    return text, json.loads(json.dumps(service).replace("$$", "$"))


def test_a_compose_file_says_what_docker_is_told(machine: Machine) -> None:
    bring.apply(wish({**ADA, "gpus": [0, 2]}, tokens={"ada": SECRET}))
    text, service = as_compose()
    words_of_docker = command.command("ada")
    assert service == {
        "container_name": "gpu-workspace-ada",
        "hostname": "ada",
        "init": True,
        "networks": ["gpu-workspaces"],
        "image": IMAGE,
        "user": "70000:70000",
        "working_dir": "/home/ada",
        "shm_size": "1g",
        "cpus": 0.5,
        "mem_limit": "2g",
        "memswap_limit": "2g",
        "security_opt": ["no-new-privileges"],
        "pids_limit": 16384,
        "logging": {"driver": "local", "options": {"max-size": "10m", "max-file": "3"}},
        "labels": [
            words_of_docker[n + 1] for n, word in enumerate(words_of_docker) if word == "--label"
        ],
        "environment": [
            words_of_docker[n + 1] for n, word in enumerate(words_of_docker) if word == "--env"
        ],
        "volumes": [
            {"type": "bind", "source": "/srv/homes/ada", "target": "/home/ada"},
            {
                "type": "bind",
                "source": "/etc/gpu-workspace/ada/token",
                "target": "/run/gpu-workspace/token",
                "read_only": True,
            },
            {"type": "bind", "source": "/data", "target": "/data", "read_only": True},
        ],
        "deploy": {
            "resources": {
                "reservations": {
                    "devices": [
                        {"driver": "nvidia", "capabilities": ["gpu"], "device_ids": ["0", "2"]}
                    ]
                }
            }
        },
        "entrypoint": ["/bin/sh"],
        "command": words_of_docker[-2:],
    }
    assert SECRET not in text
    assert "version" not in yaml.safe_load(text)


@pytest.mark.parametrize(
    ("gpus", "visible"),
    [("all", "all"), ([0, 2], "0,2"), ("none", None)],
)
def test_an_older_compose_gets_gpus_by_the_runtime(
    machine: Machine, gpus: Any, visible: str | None
) -> None:
    bring.apply(wish({**ADA, "gpus": gpus}))
    text, service = as_compose("--runtime")
    assert "deploy" not in service
    assert service["runtime"] == ("nvidia" if visible else "runc")
    found = [one for one in service["environment"] if one.startswith("NVIDIA")]
    assert found == [f"NVIDIA_VISIBLE_DEVICES={visible or 'void'}"]
    assert yaml.safe_load(text)["version"] == "2.4"
    newer = as_compose()[1]
    if gpus == "all":
        assert newer["deploy"]["resources"]["reservations"]["devices"] == [
            {"driver": "nvidia", "capabilities": ["gpu"], "count": "all"}
        ]
    else:
        assert ("deploy" in newer) == (visible is not None)


def test_a_person_of_any_kind_has_a_compose_file(keyed: Machine) -> None:
    """An argument of docker's without its word would be refused."""
    for one in (SSH, BOTH, ADA, person(gpus="all", user="0:0")):
        bring.apply(wish(one))
        text, service = as_compose()
        words_of_docker = command.command("ada")
        assert service["command"] == words_of_docker[-2:]
        assert service["image"] in words_of_docker
        # Every value that docker is told, but those whose words compose has in parts.
        values = {
            words_of_docker[n + 1]
            for n, word in enumerate(words_of_docker[:-4])
            if word.startswith("--")
        }
        values = {v for v in values if not v.startswith(("--", "type=", '"device=', "all"))}
        said = json.dumps(service).replace('": "', "=")  # options of a log are a mapping
        assert [v for v in values if v not in said] == []
        assert "$" in text
        assert "$" not in text.replace("$$", "")


def test_an_argument_without_a_word_in_a_compose_file_is_refused() -> None:
    with pytest.raises(places.RefusedError, match="--privileged has no word in a compose file"):
        compose.composed(["run", "--privileged", "image"], False)


def test_a_network_of_dockers_is_one_of_composes(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = ["run", "--network", "people", "image", "true"]
    monkeypatch.setattr(command, "command", lambda _name: told)
    found = yaml.safe_load(compose.compose("ada"))
    assert found == {
        "services": {"ada": {"networks": ["people"], "image": "image", "command": ["true"]}},
        "networks": {"people": {"name": "people", "external": True}},
    }


@pytest.mark.parametrize("text", ["", "a b", '"#: $', "\na\n  b\n\nc", " a\nb", "a\n", "ä\\n"])
def test_a_text_is_the_same_in_yaml(text: str) -> None:
    lines = compose._yaml({"a": text, "b": [text, {"c": text, "d": [text]}]}, "")
    double = text.replace("$", "$$")
    found = yaml.safe_load("\n".join(lines))
    assert found == {"a": double, "b": [double, {"c": double, "d": [double]}]}


def test_compose_says_what_it_does_not_know(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.main(["compose", "ada"]) == 1
    assert "ada has no workspace here" in capsys.readouterr().err
    assert command_line.main(["compose", "ada", "--gpus"]) == 1
    assert "--gpus is no option; expected --runtime" in capsys.readouterr().err
    bring.apply(wish(ADA))
    assert command_line.main(["compose", "ada"]) == 0
    assert capsys.readouterr().out == compose.compose("ada")


def test_a_container_of_that_name_that_is_not_ours_is_left_alone(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = (0, "gpu-workspace-ada \n", "")
    told: list[tuple[str, ...]] = []
    monkeypatch.setattr(docker, "answer", lambda *words, **_more: told.append(words) or said)
    with pytest.raises(places.RefusedError, match="is not of gpu_workspaces"):
        containers.stop("ada")
    assert [words[0] for words in told] == ["ps"]


def test_a_name_is_waited_for_until_it_is_free(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docker removes a container in its own time, and knows it no more before the name is free."""
    left = ["gpu-workspace-ada ada\n"] * 3
    told: list[str] = []

    def answer(*words: str, **_more: Any) -> tuple[int, str, str]:
        told.append(words[0])
        return 0, left.pop() if left and words[0] == "ps" else "", ""

    monkeypatch.setattr(docker, "answer", answer)
    monkeypatch.setattr(containers.time, "sleep", lambda _seconds: None)
    containers.stop("ada")
    assert told == ["ps", "stop", "rm", "ps", "ps", "ps"]


def test_a_file_with_another_hash_is_not_loaded(machine: Machine, tmp_path: Path) -> None:
    archive = tmp_path / "image.tar"
    archive.write_bytes(b"something else")
    with pytest.raises(places.RefusedError, match="It was not loaded"):
        images.load(str(archive), "0" * 64, "gpu-workspace:0")
    assert machine.told("docker") == []


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
    archive, told = tmp_path / "image.tar", []

    def answer(*words: str, **_more: Any) -> tuple[int, str, str]:
        told.append(words)
        return 0, output if words[0] == "load" else "", ""

    archive.write_bytes(b"x")
    monkeypatch.setattr(docker, "answer", answer)
    digest = hashlib.sha256(b"x").hexdigest()
    if loaded is None:
        with pytest.raises(places.RefusedError, match=r"holds \d images; expected one"):
            images.load(str(archive), digest, "gpu-workspace:x")
        assert len(told) == 1
    else:
        images.load(str(archive), digest, "gpu-workspace:x")
        assert told[1] == ("tag", loaded, "gpu-workspace:x")


# the ways that lead into containers


def test_a_way_leads_by_the_containers_own_network(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By no address or port of the host's, which somebody else could have by then (M6)."""
    monkeypatch.setattr(relay, "_process", lambda _name: (os.getpid(), "c1"))
    # This process is in the network of the host: no container's.
    assert relay._entered("ada") is None


def test_another_process_of_the_same_number_is_not_entered(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([(os.getpid(), "c1"), (os.getpid(), "c2")])
    real = os.fstat
    monkeypatch.setattr(relay, "_process", lambda _name: next(answers))
    monkeypatch.setattr(relay.os, "fstat", lambda handle: real(0) if handle > 2 else real(handle))
    assert relay._entered("ada") is None


@pytest.mark.parametrize(
    ("code", "out", "found"),
    [
        (0, "4711 abc ada\n", (4711, "abc")),
        (0, "0 abc ada\n", None),
        (0, "4711 abc bob\n", None),
        (0, "4711 abc <no value>\n", None),
        (1, "", None),
    ],
)
def test_only_a_container_that_runs_and_is_hers_is_entered(
    monkeypatch: pytest.MonkeyPatch, code: int, out: str, found: Any
) -> None:
    monkeypatch.setattr(docker, "answer", lambda *_words, **_more: (code, out, ""))
    assert relay._process("ada") == found


def test_who_connects_while_there_is_no_container_is_turned_away(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The relay ends, and systemd holds the port on: nobody else can open it."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with socket.create_connection(listener.getsockname(), timeout=5) as caller:
            relay._turn_away(os.dup(listener.fileno()))
            assert caller.recv(1) == b""
        with socket.create_connection(listener.getsockname(), timeout=5):
            pass


def test_a_process_that_ended_is_seen(machine: Machine) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        handle = os.open(f"/proc/{process.pid}", os.O_RDONLY)
        assert relay._lives(handle)
        process.kill()
        process.wait()
        assert not relay._lives(handle)
        os.close(handle)


def test_a_token_is_told_only_at_the_socket_that_root_opened(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody of the host could have opened the port while the container started anew (M6)."""
    bring.apply(wish(ADA))
    places_asked: list[tuple[Any, ...]] = []

    def ask(*told: Any) -> tuple[int, str]:
        places_asked.append(told)
        return 200, "[]"

    monkeypatch.undo()
    monkeypatch.setattr(files, "ROOT", str(machine.root))
    monkeypatch.setattr(jupyter, "ask", ask)
    context = running_host.context(wish(ADA))
    # Also where systemd has lost the socket.
    (machine.root / f"{places.PORTS}/ada.jupyter".lstrip("/")).unlink()
    obstacles.in_use(context, ["ada"], {"ada": settings.of_person("ada")})
    proof._jupyter("ada", {"port": 8801, "address": "127.0.0.1", "base": "/ada/"})
    told = {one[0] for one in places_asked if len(one) > 2 and one[2]}
    assert told == {places.PORTS + "/ada.jupyter"}
    assert len(places_asked) == 3


class Endless:
    """A Jupyter of the person's own: it answers for ever, a byte at a time or as fast as it can."""

    def __init__(self, slow: bool) -> None:
        self.slow, self.listener = slow, socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                caller = self.listener.accept()[0]
                threading.Thread(target=self.answer, args=[caller], daemon=True).start()

    def answer(self, caller: socket.socket) -> None:
        with contextlib.suppress(OSError), caller:
            caller.recv(4096)
            caller.sendall(
                b"HTTP/1.1 200 OK\r\n" + b"" if self.slow else b"HTTP/1.1 200 OK\r\n\r\n"
            )
            while True:
                caller.sendall(b"X" if self.slow else b"[" * 65536)
                if self.slow:
                    time.sleep(0.05)


@pytest.mark.parametrize("slow", [True, False])
def test_an_answer_that_never_ends_is_cut_off(monkeypatch: pytest.MonkeyPatch, slow: bool) -> None:
    """Whoever answered a byte now and then held a run of root's for ever."""
    endless = Endless(slow)
    port = endless.listener.getsockname()[1]
    status, text = jupyter.ask(("127.0.0.1", port), "/", patience=0.5)
    assert (status, len(text)) == (200, 0 if slow else jupyter.SAID)
    monkeypatch.setattr(obstacles, "ANSWER", 0.5)
    assert obstacles.opened(("127.0.0.1", port), "token") == 0
    endless.listener.close()


def test_behind_its_socket_jupyter_is_asked_by_a_hosts_name(
    tmp_path: Path,
) -> None:
    """Tornado since 6.5 answers 400 to a header Host that is a path."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "ada.jupyter"))
    listener.listen()
    requests = []

    def answer() -> None:
        caller = listener.accept()[0]
        with caller:
            requests.append(caller.recv(4096).decode("ascii"))
            caller.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    server = threading.Thread(target=answer, daemon=True)
    server.start()
    assert jupyter.ask(str(tmp_path / "ada.jupyter"), "/ada/api/status", "secret") == (200, "{}")
    server.join(timeout=10)
    listener.close()
    assert "\r\nHost: localhost\r\n" in requests[0]
    assert "\r\nAuthorization: token secret\r\n" in requests[0]


def test_ports_of_who_is_gone_are_free(machine: Machine) -> None:
    bring.apply(wish({**ADA, "tensorboard_port": 8901}, BOB))
    assert port_sockets.opened_for("ada") == ["ada.jupyter", "ada.tensorboard"]
    bring.apply(wish(ADA, BOB))
    assert port_sockets.opened_for("ada") == ["ada.jupyter"]
    bring.apply(wish(BOB))
    assert port_sockets.opened_for("ada") == []
    assert port_sockets.opened_for("bob") == ["bob.jupyter"]


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
    found = proof.limits(state)
    assert found == wrong if wrong is None else wrong in found


def test_errors_are_one_sentence_and_exit_1(
    machine: Machine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command_line.main(["command", "ada"]) == 1
    assert capsys.readouterr().err == "ada has no workspace here\n"
    assert command_line.main(["compose"]) == 2
    assert "gpu-workspace list" in capsys.readouterr().err


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


# ssh


BOTH = person(kind="both", ssh_port=2201, ssh_keys=[KEY + "\n"], user="1000:1001")
SSH = {key: value for key, value in BOTH.items() if key not in ("port", "user")} | {"kind": "ssh"}


def test_keys_and_a_host_key_are_brought_once(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[list[str]] = []
    call = machine.call

    def keygen(command: list[str], **options: Any) -> tuple[int, str, str]:
        if command[0] != "ssh-keygen":
            return call(command, **options)
        made.append(command)
        for name in (command[-1], command[-1] + ".pub"):
            Path(name).write_text("key", "utf-8")
        return 0, "", ""

    monkeypatch.setattr(programs, "call", keygen)
    bring.apply(wish(SSH))
    assert machine.text("/etc/gpu-workspace/ada/authorized_keys") == KEY + "\n"
    assert machine.text("/etc/gpu-workspace/ada/host_key") == "key"
    other = KEY.replace("A", "B")
    assert bring.apply(wish({**SSH, "ssh_keys": [other]}))["changed"] == ["ada"]
    assert machine.text("/etc/gpu-workspace/ada/authorized_keys") == other + "\n"
    assert len(made) == 1
    assert sorted(p.name for p in (machine.root / "etc/gpu-workspace/ada").iterdir()) == [
        *("authorized_keys", "gpus.json", "host_key", "host_key.pub", "revision", "token"),
        "workspace.json",
    ]


@pytest.fixture
def keyed(monkeypatch: pytest.MonkeyPatch, machine: Machine) -> Machine:
    monkeypatch.setattr(bring, "_host_key", lambda _place: None)
    return machine


def test_sshd_alone_is_told_who_may_come_and_by_what(keyed: Machine) -> None:
    bring.apply(wish({**SSH, "user": "1000:1001"}))
    told = command.command("ada")
    words, script = " ".join(told[:-1]), told[-1]
    for part in (
        "--user 0:0",
        "--publish 0.0.0.0:2201:22",
        "src=/etc/gpu-workspace/ada/authorized_keys,dst=/run/gpu-workspace/authorized_keys,readonly",
        "src=/etc/gpu-workspace/ada/host_key,dst=/run/gpu-workspace/host_key,readonly",
    ):
        assert part in words, part
    assert "token" not in words.lower()
    assert "8888" not in words
    for part in (
        "ada:x:1000:1001::/home/ada:/bin/bash",
        "-f /dev/null",
        "-o AllowUsers=ada",
        '-o "PasswordAuthentication=$ways" -o KbdInteractiveAuthentication=no',
        "-o ChallengeResponseAuthentication=no",
        "-o UsePAM=no -o PermitRootLogin=prohibit-password",
        "AuthorizedKeysFile=/run/gpu-workspace/authorized_keys",
        'exec "$(command -v sshd',
    ):
        assert part in script, part
    assert "jupyter" not in script
    assert "@" not in script.replace('"$@"', "")


def test_jupyter_beside_sshd_runs_as_its_user(keyed: Machine) -> None:
    bring.apply(wish(BOTH))
    script = command.command("ada")[-1]
    as_user = "exec setpriv --reuid=1000 --regid=1001 --clear-groups $one"
    assert as_user in script
    assert script.index("sshd") < script.index(as_user)
    bring.apply(wish({**BOTH, "user": "0:0"}))
    assert "setpriv" not in command.command("ada")[-1]
    bring.apply(wish(person(user="1000:1001")))
    assert "setpriv" not in command.command("ada")[-1]
    assert "--user 1000:1001" in " ".join(command.command("ada"))


def test_the_script_is_one_that_a_shell_reads(keyed: Machine) -> None:
    for one in (SSH, BOTH, ADA):
        bring.apply(wish(one))
        done = subprocess.run(
            ["sh", "-n"], input=command.command("ada")[-1], text=True, check=False,
            capture_output=True,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")


def test_a_name_that_the_image_has_is_the_persons_uid(keyed: Machine, tmp_path: Path) -> None:
    """`root` logged in as uid 0 though `user` said another, and `games` as the image's (L5)."""
    bring.apply(wish({**SSH, "name": "games", "user": "5001:5002"}))
    lines = command.command("games")[-1].splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith("sed -i"))
    passwd = tmp_path / "passwd"
    passwd.write_text("root:x:0:0::/root:/bin/sh\ngames:x:5:60::/usr/games:/bin/sh\n", "utf-8")
    script = "\n".join(lines[begin : begin + 2]).replace("/etc/passwd", str(passwd))
    subprocess.run(["sh", "-ec", script], check=True)
    assert passwd.read_text("utf-8").splitlines() == [
        "root:x:0:0::/root:/bin/sh", "games:x:5001:5002::/home/games:/bin/bash",
    ]  # fmt: skip


def test_an_image_with_jupyter_is_looked_at_again_for_sshd(keyed: Machine) -> None:
    bring.apply(wish(ADA))
    found = current.look(wish(ADA, {**SSH, "name": "bob"}))
    assert (found["tried"], found["parts"]) == (False, ["jupyter", "ssh"])
    assert current.look(wish(ADA))["tried"] is True


def test_connections_are_counted_in_the_containers_own_network(machine: Machine) -> None:
    line = "   0: 020011AC:{0:04X} 010011AC:E000 {1} 0:0 0:0 0 0 0\n"
    table = "  sl\n" + line.format(22, "01") + line.format(22, "0A") + line.format(8888, "01")
    machine.put("/run/gpu-workspace/ada.json", json.dumps({"pid": 4711}))
    assert obstacles.sessions(running_host.context(wish()), "ada") == 0
    machine.put("/proc/4711/net/tcp", table)
    machine.put("/proc/4711/net/tcp6", table)
    assert obstacles.sessions(running_host.context(wish()), "ada") == 2
    assert obstacles.sessions(running_host.context(wish()), "bob") == 0


HASHED = "$6$rounds=5000$salt$" + "a" * 86


def test_what_is_told_of_a_container_ends_with_it(machine: Machine) -> None:
    machine.put("/run/gpu-workspace/ada.json", json.dumps({"container": "c", "pid": 1}))
    machine.put("/run/gpu-workspace/bob.json", json.dumps({"container": "c", "pid": 2}))
    containers.stop("ada")
    containers.stop("ada")
    assert files.data("/run/gpu-workspace/ada.json") is None
    assert files.data("/run/gpu-workspace/bob.json") == {"container": "c", "pid": 2}


def test_why_one_could_not_start_stays_told_while_systemd_tries_again(machine: Machine) -> None:
    machine.put("/run/gpu-workspace/ada.json", json.dumps({"error": "no such device"}))
    containers.stop("ada")
    assert files.data("/run/gpu-workspace/ada.json") == {"error": "no such device"}


def test_a_password_lies_for_root_and_is_handed_over_as_a_file(keyed: Machine) -> None:
    bring.apply(wish(SSH, passwords={"ada": HASHED}))
    path = keyed.root / "etc/gpu-workspace/ada/password"
    assert (path.read_text("utf-8"), path.stat().st_mode & 0o777) == (HASHED, 0o400)
    told = command.command("ada")
    mount = "src=/etc/gpu-workspace/ada/password,dst=/run/gpu-workspace/password,readonly"
    assert mount in " ".join(told)
    assert HASHED not in " ".join(told)
    assert HASHED not in keyed.text("/etc/gpu-workspace/ada/workspace.json")


def test_a_password_comes_and_goes_and_is_seen_by_its_hash_alone(keyed: Machine) -> None:
    bring.apply(wish(SSH))
    assert "password,dst" not in " ".join(command.command("ada"))
    another = {"ada": "another password"}
    hers = wish(SSH, passwords={"ada": HASHED})
    assert current.look(hers)["changes"] == another
    bring.apply(hers)
    assert current.look(hers)["changes"] == {}
    assert current.look(wish(SSH, passwords={"ada": "0" * 64}))["changes"] == another
    assert current.look(wish(SSH))["changes"] == another
    assert bring.apply(wish(SSH))["changed"] == ["ada"]
    assert not (keyed.root / "etc/gpu-workspace/ada/password").exists()


@pytest.mark.parametrize(
    ("person", "hashed", "words"),
    [
        ({}, "correct horse battery staple", "is no hash of crypt"),
        ({}, "$1$salt$" + "a" * 22, "is no hash of crypt"),
        ({}, "$6$salt$short", "is no hash of crypt"),
        ({}, HASHED + "\nroot::0:0:99999:7:::", "is no hash of crypt"),
        ({}, 5012, "is no hash of crypt"),
        ({"user": "0:0"}, HASHED, "is root in the container"),
    ],
)
def test_a_password_that_is_none_is_refused_and_not_shown(
    keyed: Machine, person: dict[str, Any], hashed: Any, words: str
) -> None:
    with pytest.raises(places.RefusedError, match=words) as error:
        bring.apply(wish({**SSH, **person}, passwords={"ada": hashed}))
    assert str(hashed) not in str(error.value)
    assert not (keyed.root / "etc/gpu-workspace/ada").exists()


def test_a_password_without_ssh_is_refused(keyed: Machine) -> None:
    with pytest.raises(places.RefusedError, match="names ada, who has no SSH"):
        bring.apply(wish(ADA, passwords={"ada": HASHED}))
    with pytest.raises(places.RefusedError, match="names eve, who has no SSH"):
        bring.apply(wish(SSH, passwords={"eve": HASHED}))


def test_passwords_are_nobodys_where_nobody_is_wished_for(keyed: Machine) -> None:
    bring.apply(wish(SSH))
    assert bring.apply(wish(passwords={"ada": HASHED}))["removed"] == ["ada"]


def test_yescrypt_is_a_hash_too() -> None:
    assert people_list.HASH.fullmatch("$y$j9T$" + "s" * 22 + "$" + "h" * 43)


@pytest.mark.parametrize(
    ("password", "ways", "wrong"),
    [(HASHED, "publickey,password", False), (HASHED, "publickey", True)],
)
def test_sshd_offers_a_password_to_who_has_one(
    keyed: Machine, monkeypatch: pytest.MonkeyPatch, password: str, ways: str, wrong: bool
) -> None:
    bring.apply(wish(SSH, passwords={"ada": password}))
    monkeypatch.setattr(proof, "offered", lambda *_words: ways)
    state = {"ssh_port": 2201, "ssh_address": "0.0.0.0"}  # noqa: S104 as wished
    assert (proof._ssh("ada", state) is not None) == wrong


@pytest.mark.parametrize(
    ("answer", "ways", "wrong"),
    [
        ((255, "", "x\nada@127.0.0.1: Permission denied (publickey).\n"), "publickey", False),
        ((255, "", "Permission denied (publickey,password).\n"), "publickey,password", True),
        ((255, "", "Connection refused\n"), "", True),
        ((0, "", ""), "", True),
        ((127, "", "ssh is not here"), None, False),
    ],
)
def test_sshd_offers_keys_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
    answer: tuple[int, str, str],
    ways: str | None,
    wrong: bool,
) -> None:
    monkeypatch.setattr(programs, "call", lambda _command: answer)
    assert proof.offered("ada", "0.0.0.0", 2201) == ways  # noqa: S104 as wished
    state = {"ssh_port": 2201, "ssh_address": "0.0.0.0"}  # noqa: S104 as wished
    assert (proof._ssh("ada", state) is not None) == wrong
    assert proof._ssh("ada", {"ssh_port": None}) is None


# TensorBoard, the network, and what containers list


def test_tensorboard_is_open_at_this_host_alone(machine: Machine) -> None:
    bring.apply(wish({**ADA, "tensorboard_port": 8901}, address="0.0.0.0"))  # noqa: S104
    listens = wished.listens(files.data("/etc/gpu-workspace/ada/workspace.json"))
    assert {port: text.splitlines()[-1] for port, text in listens.items()} == {
        "ada.jupyter": "ListenStream=0.0.0.0:8801",
        "ada.tensorboard": "ListenStream=127.0.0.1:8901",
    }
    script = command.command("ada")[-1]
    # Neither a neighbour's route nor another container leads to it.
    assert f"--logdir={HOME}/logs --host=127.0.0.1 --port=6006" in script
    assert "--path_prefix=/ada/tensorboard" in script
    # Beside Jupyter, and begun anew where it ends.
    assert script.startswith(f"while :; do\n    mkdir -p {HOME}/logs")
    assert script.index("done &") < script.index("for one in jupyter-lab")
    bring.apply(wish(ADA))
    assert "tensorboard" not in " ".join(command.command("ada"))


def test_tensorboard_of_the_ssh_kind_is_the_persons(keyed: Machine) -> None:
    words = {"kind": "ssh", "ssh_port": 2201, "ssh_keys": [KEY], "tensorboard_port": 8901}
    bring.apply(wish({"name": "ada", "gpus": "none", **words}))
    script = command.command("ada")[-1]
    given_up = "setpriv --reuid=70000 --regid=70000 --clear-groups "
    assert f"    {given_up}tensorboard --logdir={HOME}/logs" in script
    assert script.rstrip().endswith('exec "$(command -v sshd || echo /usr/sbin/sshd)" "$@"')


def test_an_image_is_tried_for_tensorboard_where_somebody_wants_it(machine: Machine) -> None:
    bring.apply(wish(ADA))
    found = current.look(wish({**ADA, "tensorboard_port": 8901}))
    assert (found["tried"], found["parts"]) == (False, ["jupyter", "tensorboard"])


def test_an_image_without_tensorboard_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    said = (0, "lacks tensorboard\n", "")
    monkeypatch.setattr(docker, "answer", lambda *_words, **_more: said)
    with pytest.raises(places.RefusedError, match="has no tensorboard in its PATH"):
        images.try_parts(IMAGE, "jupyter", "tensorboard")


def test_all_are_on_one_network_that_is_made_once(machine: Machine) -> None:
    docker.connect()
    docker.connect()
    (made,) = machine.told("docker", "--host", docker_words.SOCKET, "network", "create")
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
    with (_state(machine) / ".network.lock").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
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
    assert machine.told("systemctl") == []


def test_the_network_goes_with_the_last_of_them(machine: Machine) -> None:
    bring.apply(wish(ADA, BOB))
    docker.connect()
    bring.apply(wish(BOB))
    assert "gpu-workspaces" in machine.networks
    bring.apply(wish())
    assert machine.networks == {}


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


class Handing:
    """docker on a host where containers list some GPUs."""

    def __init__(self, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lists = {"ada": [UUIDS[0]], "bob": UUIDS}
        self.tensorflow = (0, "GPUS 1\n", "")
        self.runs: list[tuple[str, ...]] = []
        # What is asked in containers, and what one without GPUs says.
        self.asked: list[list[str]] = []
        self.without = (0, "", "")
        real = machine.call

        def call(command: list[str], **options: Any) -> tuple[int, str, str]:
            words = command[3:]
            if words[:1] == ["run"]:
                self.runs.append(tuple(words))
                return self.tensorflow
            return real(command, **options)

        def limited(command: list[str], **_options: Any) -> tuple[int, str, str]:
            self.asked.append(command[3:])
            name = command[6].removeprefix("gpu-workspace-")
            if command[7] == "/bin/sh":
                return self.without
            found = self.lists[name]
            if not found:
                return 9, "", "Failed to initialize NVML: Unknown Error\n"
            rows = [f"GPU {n}: T4 (UUID: {one})" for n, one in enumerate(found)]
            return 0, "\n".join(rows), ""

        monkeypatch.setattr(programs, "call", call)
        monkeypatch.setattr(programs, "limited", limited)


@pytest.fixture
def handing(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Handing:
    both = ({**ADA, "shared": True}, person("bob", port=8802, gpus="all", shared=True))
    bring.apply(wish(*both, person("eve", port=8803)))
    return Handing(machine, monkeypatch)


def test_a_gpu_that_is_gone_is_said_and_ends_nothing(
    handing: Handing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handed_gpus, "gpus", list)
    wrong = handed_gpus.handed()["people"]["ada"]["wrong"]
    assert "GPU 0, which is gone" in wrong, wrong


def test_containers_that_list_what_was_promised(handing: Handing) -> None:
    assert handed_gpus.handed() == {
        "people": {
            "ada": {"gpus": UUIDS[:1], "wrong": None},
            "bob": {"gpus": UUIDS, "wrong": None},
            "eve": {"gpus": [], "wrong": None},
        },
        "tensorflow": {"gpus": 1, "wrong": None},
    }
    # Once for all, beside their containers and within nobody's limits.
    (run,) = handing.runs
    assert '--gpus "device=0" --entrypoint /bin/sh' in " ".join(run)
    assert "--memory" not in run


@pytest.mark.parametrize(
    ("listed", "wrong"),
    [
        ([], "nvidia-smi fails in its container: Failed to initialize NVML: Unknown Error"),
        (UUIDS[:2], "its container lists 2 GPUs (GPU-aaaaaaaa, GPU-bbbbbbbb), and 1 were promised"),
        (UUIDS[1:2], "its container lists 1 GPUs (GPU-bbbbbbbb), and 1 were promised (GPU-aaa"),
    ],
)
def test_a_container_that_lists_others_is_named(
    handing: Handing, listed: list[str], wrong: str
) -> None:
    handing.lists["ada"] = listed
    found = handed_gpus.handed()["people"]
    assert found["ada"]["wrong"].startswith(wrong)
    assert found["bob"]["wrong"] is None


@pytest.mark.parametrize(
    ("answer", "gpus", "wrong"),
    [
        ((0, "GPUS none\n", ""), None, None),
        ((0, "GPUS 0\n", "x\nCould not load dynamic library 'libcudnn.so.8'\n"), 0, "libcudnn"),
        ((0, "GPUS 2\n", ""), 2, "lists 2 of the 1 GPUs of ada"),
        ((1, "", "ImportError: no numpy\n"), None, "TensorFlow fails in the image: ImportError"),
        ((0, "", ""), None, "TensorFlow fails in the image: status 0"),
    ],
)
def test_what_tensorflow_of_the_image_lists(
    handing: Handing, answer: tuple[int, str, str], gpus: int | None, wrong: str | None
) -> None:
    handing.tensorflow = answer
    found = handed_gpus.handed()["tensorflow"]
    assert found["gpus"] == gpus
    assert found["wrong"] is None if wrong is None else wrong in found["wrong"]


def test_root_runs_nothing_in_a_container_but_as_its_person(handing: Handing) -> None:
    """As root it was, by whatever PATH the container has: the person may have written it (M5)."""
    handed_gpus.handed()
    assert [one[:4] for one in handing.asked] == [
        ["exec", "--user", f"{uid}:{uid}", f"gpu-workspace-{name}"]
        for uid, name in ((70000, "ada"), (70001, "bob"), (70002, "eve"))
    ]
    assert handing.asked[0][4:] == ["timeout", "-k", "5", "60", "/usr/bin/nvidia-smi", "-L"]


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        ((0, f"GPU 0: T4 (UUID: {UUIDS[0]})\n", ""), f"has GPUs ({UUIDS[0]}), and none were"),
        ((0, "DEVICE /dev/nvidia0\n", ""), "has GPUs (/dev/nvidia0), and none were promised"),
        ((1, "", "Failed to initialize NVML\n"), None),
        ((1, "", "Error: No such container: x\n"), "could not be asked for GPUs: Error: No such"),
        ((124, "", "no answer within 60 s"), "could not be asked for GPUs: no answer"),
    ],
)
def test_who_was_promised_no_gpu_has_none(
    handing: Handing, answer: tuple[int, str, str], wrong: str | None
) -> None:
    """An image that asks for all got all, where NVIDIA's runtime is docker's default (M4)."""
    handing.without = answer
    found = handed_gpus.handed()["people"]["eve"]["wrong"]
    assert found is None if wrong is None else wrong in found
    words = " ".join(command.command("eve"))
    assert "--runtime runc --env NVIDIA_VISIBLE_DEVICES=void" in words
    assert "--gpus" not in words
    assert "--runtime" not in " ".join(command.command("ada"))


@pytest.mark.parametrize(
    ("script", "code", "words"),
    [
        ("echo out; echo err >&2; exit 3", 3, "err"),
        ("yes", 124, "it says more than 1000 bytes"),
        ("sleep 60", 124, "no answer within 1 s"),
        ("printf 'a\\033]0;title\\007b' >&2; exit 1", 1, "a?]0;title?b"),
    ],
)
def test_what_a_container_says_is_bounded(script: str, code: int, words: str) -> None:
    """It is the person's: it may be endless, never come, or be written for a terminal."""
    # One second is enough for what never answers, and may be too few for a busy machine.
    timeout = 1 if script.startswith("sleep") else 60
    found = programs.limited(["/bin/sh", "-c", script], timeout=timeout, size=1000)
    assert (found[0], words in found[2]) == (code, True)
    assert len(found[1]) <= 1000


def test_gpus_that_a_container_does_not_list_fail_the_proof(
    handing: Handing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof, "proven", lambda _name, _until: None)
    assert proof.prove("1")["proven"] == ["ada", "bob", "eve"]
    handing.tensorflow = (0, "GPUS 0\n", "")
    with pytest.raises(places.RefusedError, match="TensorFlow in the image lists 0 of the 1"):
        proof.prove("1")
    handing.lists["ada"] = []
    with pytest.raises(places.RefusedError, match="ada: nvidia-smi fails in its container"):
        proof.prove("1")


def test_a_tensorboard_that_does_not_answer_fails_the_proof(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = {"container": "c", "tensorboard_port": 8901, "ssh_port": None, "gpus": []}
    machine.put("/run/gpu-workspace/ada.json", json.dumps(state))
    places_asked: list[tuple[Any, ...]] = []
    answers = {200: None, 404: "TensorBoard does not answer at port 8901", None: "TensorBoard"}
    monkeypatch.setattr(proof, "limits", lambda _state: None)
    monkeypatch.setattr(programs, "call", lambda _command: (0, "active", ""))
    for status, wrong in answers.items():

        def ask(*told: Any, status: int | None = status) -> tuple[int | None, str]:
            places_asked.append(told)
            return status, ""

        monkeypatch.setattr(jupyter, "ask", ask)
        found = proof.proven("ada", 0)
        assert found is None if wrong is None else wrong in found
    assert set(places_asked) == {(("127.0.0.1", 8901), "/ada/tensorboard/")}


def test_the_script_tells_none_where_there_is_no_tensorflow() -> None:
    """For real: this Python has none, or has one; either way a line that is understood."""
    done = subprocess.run(
        ["/bin/sh", "-c", handed_gpus.LIST.replace('"tensorflow"', '"no_such_module"')],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "GPUS none\n"
