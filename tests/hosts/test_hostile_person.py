"""A person of a workspace, and a login of its host, who try what they should not get.

The person is uid N in a container of their own; the login is the lab's, uid 1000 on the host, as
the account with sudo is on most. dockerd, Jupyter, nginx and systemd are real; the setuid program
is the host's own dash, brought into the home through the container.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from docked import HOST, docked
from test_front_door import Doored
from test_workspaces import TOKEN

pytestmark = [pytest.mark.slow]

HOMES = "/srv/gpu-workspaces"
PEOPLE: list[dict[str, Any]] = [
    {"name": "ada", "gpus": [0], "port": 8801, "memory": "512m"},
    {"name": "bob", "gpus": "none", "port": 8802, "memory": "512m"},
]
# What somebody brings into their home: a shell that keeps the uid of its file.
PLANT = (
    "cat /bin/dash | docker exec -i gpu-workspace-ada sh -c"
    " 'cat > ~/shell; chmod 4755 ~/shell; chmod 777 ~; echo hers > ~/notes'"
)
BIND = """\
import socket, sys
found = []
for family, place in ((socket.AF_INET, ("127.0.0.1", 8801)),
                      (socket.AF_UNIX, "/run/gpu-workspace-ports/ada.jupyter")):
    for act in ("bind", "connect"):
        one = socket.socket(family)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, family == socket.AF_INET)
        try:
            getattr(one, act)(place)
            found.append("ok")
        except OSError as error:
            found.append(error.strerror)
print("; ".join(found))
"""
# Somebody who opens connections until systemd gives up a socket, if it does.
FLOOD = """\
import socket, time
for number in range(400):
    try:
        one = socket.create_connection(("127.0.0.1", 8801), timeout=2)
        one.close()
    except OSError:
        pass
print("done")
"""


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doored]:
    with docked(tmp_path_factory.mktemp("hostile"), "hostile", Doored) as made:
        made.say(PEOPLE)
        made.say_door()
        made.proven()
        yield made


def as_login(door: Doored, command: str) -> str:
    """What a login of the host sees, uid 1000."""
    return door.ssh(HOST, command, check=False).strip()


def as_uid(door: Doored, uid: int, program: str) -> str:
    """What a program of the host prints that runs as a uid, and in no group of docker's."""
    words = (f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "python3", "-c", program)
    return door.root("setpriv", *words)


def back(door: Doored, name: str) -> None:
    """Waits until somebody's Jupyter lets them in through the door."""
    until = time.time() + 120
    while door.get(f"/{name}/api/status", door.token(name))[0] != 200:
        assert time.time() < until
        time.sleep(2)


def test_a_setuid_program_of_a_container_is_out_of_reach(door: Doored) -> None:
    """It ran as the host's account with the container's uid, 1000 for everybody (H3)."""
    door.root("sh", "-c", PLANT)
    assert door.root("stat", "-c", "%a", f"{HOMES}/ada/shell") == "4755"
    assert as_login(door, "id -u") == "1000"
    for command in (f"{HOMES}/ada/shell -p -c id", f"cat {HOMES}/ada/notes", f"ls {HOMES}"):
        assert "Permission denied" in as_login(door, command), command
    # It could do no more than the person: no account of the host has that uid.
    owners = door.root("stat", "-c", "%u", f"{HOMES}/ada", f"{HOMES}/bob").split()
    assert len({*owners, "0", "1000"}) == 4
    assert door.root("sh", "-c", f"getent passwd {' '.join(owners)} || true") == ""


def test_nobody_takes_the_place_of_a_jupyter_that_is_away(door: Doored) -> None:
    """Whoever bound its port while it started anew was sent cookies and tokens (M6)."""
    door.root("systemctl", "stop", "gpu-workspace@ada")
    try:
        for _time in range(2):
            answers = as_uid(door, 1000, BIND).split("; ")
            assert answers[0] == "Address already in use"
            assert answers[2:] == ["Address already in use", "Permission denied"]
            assert door.get("/ada/api/status", TOKEN)[0] == 502
            # However often it is asked, systemd does not let go of it.
            assert as_uid(door, 1000, FLOOD) == "done"
    finally:
        door.root("systemctl", "start", "gpu-workspace@ada")
    back(door, "ada")
    assert as_uid(door, 1000, BIND).split("; ")[3] == "Permission denied"


def test_a_container_that_starts_anew_is_found_again(door: Doored) -> None:
    door.root("docker", "kill", "gpu-workspace-ada")
    back(door, "ada")
    assert door.ask(8801, "/ada/api/status", TOKEN)[0] == 200


def test_homes_of_the_former_default_are_brought_over_in_one_run(door: Doored) -> None:
    """As hosts have them whose workspaces were made when everybody was 1000:1000; simulated."""
    door.root("sh", "-c", "systemctl stop 'gpu-workspace@*'; rm /var/lib/gpu-workspace/users.json")
    for name in ("ada", "bob"):
        path = f"/etc/gpu-workspace/{name}/workspace.json"
        found = json.loads(door.root("cat", path))
        door.root("sh", "-c", f"cat > {path}", stdin=json.dumps(
            {key: value for key, value in found.items() if key not in ("user", "ports")}
        ))  # fmt: skip
        door.root("chown", "-Rh", "1000:1000", f"{HOMES}/{name}")
    door.root("ln", "-sfn", "/etc/shadow", f"{HOMES}/bob/link")
    door.root("chown", "-h", "1000:1000", f"{HOMES}/bob/link")
    door.root("chmod", "755", HOMES)
    assert as_login(door, f"cat {HOMES}/ada/notes") == "hers"
    shadow = door.root("stat", "-c", "%u:%g", "/etc/shadow")
    planned = " ".join(door.run_with("plan").stdout.split())
    assert f"{HOMES}: mode 0755 of uid 0 -> mode 0700 of root" in planned
    assert f"home {HOMES}/ada: 1000:1000 -> a uid of its own" in planned
    door.proven()
    assert door.root("cat", f"{HOMES}/ada/notes") == "hers"
    assert as_login(door, f"cat {HOMES}/ada/notes").endswith("Permission denied")
    for name in ("ada", "bob"):
        owner = door.root("stat", "-c", "%u", f"{HOMES}/{name}")
        assert door.root("find", f"{HOMES}/{name}", "!", "-uid", owner) == ""
        assert 70000 <= int(owner) <= 99999
    assert door.root("stat", "-c", "%u:%g", "/etc/shadow") == shadow
