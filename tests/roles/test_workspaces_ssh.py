"""Workspaces: sshd in a container, its keys and passwords."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.components.gpu_workspace import bring, current, obstacles, proof, running_host
from gpu_stack.components.gpu_workspace.program import command, people_list, places, programs
from workspace_machine import ADA, BOTH, HASHED, KEY, SSH, Machine, person, wish


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


def test_sshd_alone_is_told_who_may_come_and_by_what(keyed: Machine) -> None:
    bring.apply(wish({**SSH, "user": "1000:1001"}))
    arguments = command.command("ada")
    words, script = " ".join(arguments[:-1]), arguments[-1]
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
    for somebody in (SSH, BOTH, ADA):
        bring.apply(wish(somebody))
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
    seen = current.look(wish(ADA, {**SSH, "name": "bob"}))
    assert (seen["tried"], seen["parts"]) == (False, ["jupyter", "ssh"])
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


def test_a_password_lies_for_root_and_is_handed_over_as_a_file(keyed: Machine) -> None:
    bring.apply(wish(SSH, passwords={"ada": HASHED}))
    path = keyed.root / "etc/gpu-workspace/ada/password"
    assert (path.read_text("utf-8"), path.stat().st_mode & 0o777) == (HASHED, 0o400)
    arguments = command.command("ada")
    mount = "src=/etc/gpu-workspace/ada/password,dst=/run/gpu-workspace/password,readonly"
    assert mount in " ".join(arguments)
    assert HASHED not in " ".join(arguments)
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
