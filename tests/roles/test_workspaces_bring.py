"""Workspaces: what is written, what is seen of it, and what is refused on a host."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from typing import Any

import pytest
from gpu_stack.components.gpu_workspace import bring, current, obstacles, wished
from gpu_stack.components.gpu_workspace.program import docker, files, places, programs, settings
from workspace_machine import ADA, BOB, SECRET, Machine, wish


def test_each_gets_files_that_only_root_can_read_and_a_token(machine: Machine) -> None:
    done = bring.apply(wish(ADA, BOB, tokens={"ada": SECRET}))
    assert done["changed"] == ["ada", "bob"]
    assert machine.text("/etc/gpu-workspace/ada/token") == SECRET
    made = machine.text("/etc/gpu-workspace/bob/token")
    assert len(made) == 48
    for path, mode in (("", 0o700), ("/ada", 0o700), ("/ada/token", 0o400)):
        bits = (machine.root / ("etc/gpu-workspace" + path)).stat().st_mode
        assert stat.S_IMODE(bits) == mode, path
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
    assert machine.calls_of("systemctl") == []


def test_a_change_of_one_touches_one(machine: Machine) -> None:
    bring.apply(wish(ADA, BOB))
    token, revision = (machine.text(f"/etc/gpu-workspace/bob/{x}") for x in ("token", "revision"))
    machine.calls.clear()
    assert bring.apply(wish(ADA, {**BOB, "memory": "3g"}))["changed"] == ["bob"]
    assert machine.calls_of("systemctl", "stop") == [
        ["systemctl", "stop", "gpu-workspace@bob.service"]
    ]
    assert machine.text("/etc/gpu-workspace/bob/token") == token
    assert machine.text("/etc/gpu-workspace/bob/revision") != revision


def test_all_who_change_are_stopped_before_one_is_started(machine: Machine) -> None:
    bring.apply(wish(ADA, BOB))
    machine.calls.clear()
    bring.apply(wish({**ADA, "port": 8802}, {**BOB, "port": 8801}))
    both = ["gpu-workspace@ada.service", "gpu-workspace@bob.service"]
    words = [call[1] for call in machine.calls_of("systemctl")]
    # Then systemd lets go of their ports and takes the others, before one of them is started.
    ports = ["disable", "stop"] * 2 + ["daemon-reload", "enable", "start"]
    assert words == ["stop", *ports, "enable", "start"]
    assert machine.calls_of("systemctl", "stop")[0][2:] == both
    assert machine.calls_of("systemctl", "start")[-1][2:] == both


def test_who_is_gone_is_stopped_and_the_home_stays(machine: Machine) -> None:
    bring.apply(wish(ADA, BOB))
    machine.put("/srv/homes/bob/notes", "his")
    done = bring.apply(wish(ADA))
    assert done["removed"] == ["bob"]
    assert ["systemctl", "disable", "--now", "gpu-workspace@bob.service"] in machine.calls
    assert not (machine.root / "etc/gpu-workspace/bob").exists()
    assert machine.text("/srv/homes/bob/notes") == "his"


def test_of_who_is_gone_nothing_is_removed_while_the_container_may_run(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring.apply(wish(ADA, BOB))
    real = machine.call

    def kept(command: list[str], **options: Any) -> tuple[int, str, str]:
        if command[0] == "docker" and command[3] in ("stop", "rm"):
            return 1, "", "it can't be killed"
        return real(command, **options)

    monkeypatch.setattr(docker, "STARTS", 0)
    monkeypatch.setattr(programs, "call", kept)
    with pytest.raises(places.RefusedError, match="it can't be killed"):
        bring.apply(wish(ADA))
    assert settings.recorded_people() == ["ada", "bob"]
    monkeypatch.setattr(programs, "call", real)
    assert bring.apply(wish(ADA))["removed"] == ["bob"]


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

    def cut_off(path: str, *arguments: Any) -> None:
        if path.endswith("/revision"):
            raise KeyboardInterrupt
        put(path, *arguments)

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
    assert machine.calls_of("systemctl") == []


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


@pytest.mark.parametrize(("host_memory", "fits"), [("", True), ("3g", False), ("4g", True)])
def test_more_memory_than_there_is_is_refused(
    machine: Machine, host_memory: str, fits: bool
) -> None:
    machine.put("/proc/meminfo", f"MemTotal:       {4 << 20} kB\nMemFree: 1 kB\n")
    people = (ADA, {**BOB, "memory": "2g"})
    if fits:
        current.look(wish(*people, host_memory=host_memory))
    else:
        with pytest.raises(places.RefusedError, match="4096 MiB together; the host has 3072 MiB"):
            current.look(wish(*people, host_memory=host_memory))
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


def test_an_image_that_is_gone_is_missed_only_where_somebody_changes(machine: Machine) -> None:
    """A container runs on without the image's name, as after a `docker rmi --force`."""
    bring.apply(wish(ADA, BOB))
    machine.images.clear()
    assert bring.apply(wish(ADA, BOB))["changed"] == []
    done = bring.apply(wish(ADA))
    assert (done["changed"], done["removed"]) == ([], ["bob"])
    with pytest.raises(places.RefusedError, match="docker has no image"):
        bring.apply(wish({**ADA, "memory": "3g"}))
