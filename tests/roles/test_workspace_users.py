"""Workspaces: whose uid is whose, who can enter homes, how they are given over.

A program that a container leaves in a home runs outside it as the account that has its uid.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.components.gpu_workspace import bring, current, homes, obstacles, running_host, uids
from gpu_stack.components.gpu_workspace.program import command, people_list, places, settings
from workspace_machine import ADA, BOB, Machine, person, stand_in, wish

USERS = "/var/lib/gpu-workspace/users.json"
HOMES = "/srv/homes"
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    host = Machine(tmp_path)
    real = host.call

    def call(words: list[str], **options: Any) -> tuple[int, str, str]:
        if "getent" not in words:
            return real(words, **options)
        rows = [account for account in host.accounts if account.split(":")[2] in words]
        return (0, "".join(row + "\n" for row in rows), "") if rows else (2, "", "")

    host.accounts = ["alice:x:1000:1000::/home/alice:/bin/bash"]  # type: ignore[attr-defined]
    stand_in(monkeypatch, tmp_path, call)
    monkeypatch.setattr(obstacles, "opened", lambda *_told: 0)
    return host


def users(machine: Machine) -> Any:
    return json.loads(machine.text(USERS))


def mode(machine: Machine, path: str) -> int:
    return stat.S_IMODE((machine.root / path.lstrip("/")).stat().st_mode)


# uids


def test_everybody_gets_a_uid_of_their_own_and_nobody_is_1000(machine: Machine) -> None:
    """All were 1000:1000, on most hosts the account with sudo."""
    bring.apply(wish(ADA, person("eve", port=8803)))
    assert users(machine) == {"ada": 70000, "eve": 70001}
    for name, uid in users(machine).items():
        words = command.command(name)
        assert words[words.index("--user") + 1] == f"{uid}:{uid}"
        assert {f"USER={name}", f"LOGNAME={name}"} <= set(words)


def test_a_uid_stays_and_is_never_another_persons(machine: Machine) -> None:
    bring.apply(wish(ADA, person("eve", port=8803)))
    bring.apply(wish(person("eve", port=8803)))
    bring.apply(wish(person("zoe", port=8804), person("eve", port=8803)))
    assert users(machine) == {"ada": 70000, "eve": 70001, "zoe": 70002}
    bring.apply(wish(ADA))
    assert uids.own_users(running_host.context(wish(ADA)), people_list.checked([ADA])) == {
        "ada": "70000:70000"
    }


def test_a_number_of_the_hosts_is_not_given(machine: Machine) -> None:
    machine.put("/etc/passwd", "local:x:70000:100::/:/bin/sh\n")
    machine.accounts.append("ldap:*:70001:100::/:/bin/sh")  # type: ignore[attr-defined]
    machine.put("/etc/group", "lab:x:70002:\n")
    machine.put("/etc/subuid", "alice:70003:2\nodd line\n")
    machine.put("/etc/subgid", "bob:70005:1\n")
    machine.put(f"{HOMES}/old/file", "of somebody who is gone")
    if os.geteuid() == 0:
        os.chown(machine.root / "srv/homes/old", 70006, 70006)
    bring.apply(wish(ADA))
    assert users(machine) == {"ada": 70007 if os.geteuid() == 0 else 70006}


def test_where_the_record_is_lost_a_home_tells_whose_it_is(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring.apply(wish(ADA, person("eve", port=8803)))
    (machine.root / USERS.lstrip("/")).unlink()
    there = {f"{HOMES}/ada": "70000:70000", f"{HOMES}/eve": "70001:70001"}
    monkeypatch.setattr(homes, "owner_of", there.get)
    eve = person("eve")
    assert uids.assign(running_host.context(wish(eve)), people_list.checked([eve])) == {
        "eve": "70001:70001"
    }


def test_an_account_that_got_a_persons_uid_ends_it(machine: Machine) -> None:
    bring.apply(wish(ADA))
    machine.accounts.append("new:x:70000:70000::/home/new:/bin/sh")  # type: ignore[attr-defined]
    assert current.look(wish(ADA))["changes"] == {"ada": "other settings"}
    bring.apply(wish(ADA))
    assert users(machine) == {"ada": 70001}
    assert current.look(wish(ADA))["changes"] == {}


@pytest.mark.parametrize(
    ("user", "why"),
    [
        ("1000:1000", "user 1000:1000 of ada is alice, an account of this host"),
        ("5000:1001", "has the group of carol"),
        ("5000:27", "has a group of the system"),
        ("165000", "is among the numbers that alice (/etc/subuid) has for containers"),
        ("5000:100", None),
        ("0:0", None),
    ],
)
def test_an_account_of_the_host_is_refused(machine: Machine, user: str, why: str | None) -> None:
    machine.put("/etc/passwd", "carol:x:1001:1001::/home/carol:/bin/sh\n")
    machine.put("/etc/subuid", "alice:100000:65536\n")
    wished = wish({**ADA, "user": user})
    if why is None:
        current.look(wished)
    else:
        with pytest.raises(places.RefusedError) as error:
            current.look(wished)
        assert why in str(error.value)
        assert "leave `user` out" in str(error.value)


def test_a_range_that_is_full_is_said(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uids, "LAST_USER", 70000)
    bring.apply(wish(ADA))
    with pytest.raises(places.RefusedError, match="no uid from 70000 to 70000 is left"):
        bring.apply(wish(ADA, person("eve", port=8803)))


# the homes' root


def test_the_homes_root_is_for_root_alone(machine: Machine) -> None:
    """It was 0755: whoever had a person's uid on the host read and ran what was in there."""
    bring.apply(wish(ADA))
    assert mode(machine, HOMES) == 0o700
    assert mode(machine, f"{HOMES}/ada") == 0o700
    (machine.root / "srv/homes").chmod(0o755)
    seen = current.look(wish(ADA))
    assert (seen["open"], seen["changes"]) == (True, {})
    bring.apply(wish(ADA))
    assert current.look(wish(ADA))["open"] is False
    assert machine.calls_of("systemctl", "stop") == [
        ["systemctl", "stop", "gpu-workspace@ada.service"]
    ]


def test_the_root_is_closed_over_the_homes_of_who_is_gone(machine: Machine) -> None:
    bring.apply(wish(ADA))
    (machine.root / "srv/homes").chmod(0o755)
    bring.apply(wish())
    assert mode(machine, HOMES) == 0o700


@pytest.mark.parametrize(
    ("root", "parent", "why"),
    [
        ("/home", 0o755, "/home holds more than homes"),
        ("/data/ws", 0o777, "/data has mode 0777: others can replace what is in it"),
        ("/data/ws", 0o1777, None),
        ("/data", 0o755, "/data/alice is in it, the home of alice"),
    ],
)
def test_a_root_that_is_not_for_homes_alone_is_refused(
    machine: Machine, root: str, parent: int, why: str | None
) -> None:
    machine.put("/etc/passwd", "alice:x:1000:1000::/data/alice:/bin/sh\n")
    (machine.root / "data").mkdir()
    (machine.root / "data").chmod(parent)
    if why is None:
        current.look(wish(ADA, root=root))
    else:
        with pytest.raises(places.RefusedError) as error:
            bring.apply(wish(ADA, root=root))
        assert why in str(error.value)
        assert machine.calls_of("systemctl") == []
        assert mode(machine, "/data") == parent


@AS_ROOT
def test_a_root_below_somebodys_directory_is_refused(machine: Machine) -> None:
    (machine.root / "data").mkdir()
    os.chown(machine.root / "data", 1000, 1000)
    with pytest.raises(places.RefusedError, match="/data belongs to uid 1000"):
        current.look(wish(ADA, root="/data/ws"))


def test_a_link_in_the_place_of_a_home_is_refused(machine: Machine) -> None:
    (machine.root / "srv/homes").mkdir(parents=True)
    (machine.root / "srv/homes/ada").symlink_to(machine.root)
    with pytest.raises(places.RefusedError, match="/srv/homes/ada is no directory"):
        bring.apply(wish(ADA))


# homes that are given over


@pytest.fixture
def former(machine: Machine) -> Machine:
    """Ada and bob as they were before each had a uid: homes of 1000, a root that all can enter."""
    bring.apply(wish(ADA, {**BOB, "user": ""}))
    (machine.root / USERS.lstrip("/")).unlink()
    (machine.root / "srv/homes").chmod(0o755)
    for name in ("ada", "bob"):
        path = f"/etc/gpu-workspace/{name}/workspace.json"
        settings = {
            k: v for k, v in json.loads(machine.text(path)).items() if k not in ("ports", "user")
        }
        machine.put(path, json.dumps(settings))
        home = machine.root / f"srv/homes/{name}"
        (home / "deep").mkdir()
        (home / "deep/notes").write_text(name, "utf-8")
        os.utime(home / "deep/notes", (1, 1))
        (home / "shadow").symlink_to("/etc/shadow")
        (home / "elsewhere").symlink_to(machine.root / "srv")
        for path_ in (home, *home.rglob("*")):
            os.chown(path_, 1000, 1000, follow_symlinks=False)
        (home / "roots").write_text("an admin's", "utf-8")
        (home / "deep/run").write_text("#!/bin/sh\n", "utf-8")
        os.chown(home / "deep/run", 1000, 1000)
        (home / "deep/run").chmod(0o4755)
    machine.calls.clear()
    return machine


@AS_ROOT
def test_homes_are_given_over_in_one_run_and_nothing_is_lost(former: Machine) -> None:
    wished = wish(ADA, {**BOB, "user": "5000:5001"})
    assert current.look(wished)["changes"] == dict.fromkeys(("ada", "bob"), "other settings")
    bring.apply(wished)
    assert current.look(wished)["changes"] == {}
    assert mode(former, HOMES) == 0o700
    outside = {path: os.lstat(path) for path in (former.root / "srv", former.root)}
    for name, uid, gid in (("ada", 70000, 70000), ("bob", 5000, 5001)):
        home = former.root / f"srv/homes/{name}"
        for path in (".", "deep", "deep/notes", "deep/run", "shadow", "elsewhere"):
            found = os.lstat(home / path)
            assert (found.st_uid, found.st_gid) == (uid, gid), path
        # What was not the person's own stays, and no link was followed.
        assert (home / "roots").stat().st_uid == 0
        assert (home / "deep/notes").read_text("utf-8") == name
        assert (home / "deep/notes").stat().st_mtime == 1
        assert not (home / "deep/run").stat().st_mode & stat.S_ISUID
    assert all(status.st_uid == 0 for status in outside.values())
    stops = [call for call in former.calls if call[:2] == ["systemctl", "stop"]]
    assert stops == [
        ["systemctl", "stop", "gpu-workspace@ada.service", "gpu-workspace@bob.service"]
    ]


@AS_ROOT
def test_who_was_cut_off_while_homes_were_given_over_begins_again(
    former: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.chown

    def cut_off(path: Any, *arguments: Any, **more: Any) -> None:
        if path == "notes":
            raise KeyboardInterrupt
        real(path, *arguments, **more)

    monkeypatch.setattr(os, "chown", cut_off)
    with pytest.raises(KeyboardInterrupt):
        bring.apply(wish(ADA))
    monkeypatch.setattr(os, "chown", real)
    assert "ada" in current.look(wish(ADA))["changes"]
    bring.apply(wish(ADA))
    assert current.look(wish(ADA))["changes"] == {}
    assert (former.root / "srv/homes/ada/deep/notes").stat().st_uid == 70000


@AS_ROOT
def test_a_home_of_many_levels_is_given_over(former: Machine) -> None:
    """Who makes directories in directories can't end a run with them."""
    here = os.open(former.root / "srv/homes/ada", os.O_RDONLY)
    for _level in range(1500):
        os.mkdir("d", dir_fd=here)
        os.chown("d", 1000, 1000, dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    bring.apply(wish(ADA))
    assert os.fstat(here).st_uid == 70000
    os.close(here)
    # Too deep for what clears away after tests.
    subprocess.run(["rm", "-r", str(former.root / "srv/homes/ada")], check=True)


@AS_ROOT
def test_what_is_mounted_in_a_home_is_nobodys_to_give(former: Machine) -> None:
    """An admin who mounted a directory of the host there would lose it to the person."""
    line = "40 25 8:1 /home/alice /srv/homes/ada/my\\040data rw - ext4 /dev/sda1 rw\n"
    former.put("/proc/self/mountinfo", line)
    with pytest.raises(places.RefusedError, match="/srv/homes/ada/my data is mounted in the home"):
        bring.apply(wish(ADA))
    assert former.calls_of("systemctl") == []
    assert (former.root / "srv/homes/ada").stat().st_uid == 1000


def test_a_volume_that_others_could_swap_is_refused_before_anything_is_changed(
    machine: Machine,
) -> None:
    shared = machine.root / "data"
    shared.mkdir()
    shared.chmod(0o777)
    bob = {**BOB, "user": "", "volumes": [{"path": "/data/bob"}]}
    with pytest.raises(places.RefusedError, match=r"volume of bob .* link: /data/bob: /data has"):
        bring.apply(wish(ADA, bob))
    assert settings.recorded_people() == []
    # Nobody's container is started for a run that changes nothing.
    shared.chmod(0o755)
    bring.apply(wish(ADA, bob))
    shared.chmod(0o777)
    assert bring.apply(wish(ADA, bob))["changed"] == []
