"""The workspaces of a host: what the look sees of people, and whom the plan names."""

from __future__ import annotations

import hashlib
import json
import re
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import converged_host as made
import pytest
import yaml
from converged_host import Host
from gpu_stack.components import gpu_workspace as workspaces
from gpu_stack.components.gpu_workspace import (
    obstacles,
    parameters,
    program,
    shipped,
    wished,
    workspace_users,
)
from gpu_stack.components.gpu_workspace.program import places, traits
from gpu_stack.components.gpu_workspace.program.places import USERS
from gpu_stack.host.context import Context, Result

from provision.roles.gpu_workspace import variables as generated

GOLDEN = Path(__file__).parents[2] / "labs" / "golden" / "lock.yml"
ROLE = Path(__file__).parents[3] / "roles" / "gpu_workspace" / "files"
LIBRARY = "/usr/local/lib/gpu-workspace"
PROGRAM = Path(str(program.__file__)).parent
SHIPPED = {
    path: (PROGRAM if path.startswith(LIBRARY) else ROLE) / Path(path).name
    for path in shipped.FILES
}
IMAGE = "registry.example.org/jupyter@sha256:" + "a" * 64
TOKEN = "0123456789abcdef-of-the-vault"  # noqa: S105
ADA = {"name": "ada", "gpus": [0], "port": 8801, "memory": "2g"}
BOB = {"name": "bob", "gpus": "none", "port": 8802}
OPTIONS: dict[str, Any] = {"gpu_workspaces": [ADA, BOB], "gpu_workspace_image": IMAGE}
LINE = "   0: 0100007F:{0:04X} 00000000:0000 {1} 00000000:00000000 00:00000000 0 0 0 71 1\n"


class Docked(Host):
    """A host whose docker answers with these containers; None: it does not answer."""

    runs: dict[str, str] | None
    # Lines as getent prints them.
    accounts: tuple[str, ...] = ()

    def run(self, argv: Sequence[str]) -> Result:
        if "getent" in argv:
            asked = {int(uid) for uid in argv[4:]}
            rows = [account for account in self.accounts if int(account.split(":")[2]) in asked]
            return Result(0 if rows else 2, "".join(row + "\n" for row in rows), "")
        if list(argv[:3]) != ["timeout", workspaces.PATIENCE, "docker"]:
            return super().run(argv)
        assert "ps" in argv
        assert "label=gpu-workspace" in argv
        if self.runs is None:
            return Result(1, "", "Cannot connect to the Docker daemon")
        return Result(
            0, "".join(f"{name} {revision}\n" for name, revision in self.runs.items()), ""
        )

    def give(self, person: dict[str, Any]) -> None:
        """What the role leaves of a person."""
        name = person["name"]
        place = f"/etc/gpu-workspace/{name}/"
        users = {"ada": 70000, "bob": 70001}
        self.write(USERS, json.dumps(users))
        self.path("/srv/gpu-workspaces").mkdir(parents=True, exist_ok=True)
        self.path("/srv/gpu-workspaces").chmod(0o700)
        given = {user: "{0}:{0}".format(users[user]) for user in users}
        if person.get("user"):
            given[name] = person["user"]
        wanted = wished.settings(person, OPTIONS, given)
        self.write(place + "workspace.json", json.dumps(wanted))
        self.write(place + "token", TOKEN + name)
        self.write(place + "revision", f"r-{name}\n")
        self.write(places.WANTS + places.UNIT.format(name), "")
        for port, text in wished.listens(wanted).items():
            unit = places.PORT.format(port)
            self.write(f"/etc/systemd/system/{unit}.d/address.conf", text)
            self.write(places.PORT_WANTS + unit, "")
            self.write(f"{places.PORTS}/{port}", "")
        assert self.runs is not None
        self.runs[name] = f"r-{name}"


@pytest.fixture
def host(tmp_path: Path) -> Docked:
    host = made.make(tmp_path)
    host.__class__ = Docked
    assert isinstance(host, Docked)
    host.runs = {}
    for path, file in SHIPPED.items():
        host.write(path, file.read_bytes())
        host.path(path).chmod(shipped.FILES[path][0])
    for folder in (LIBRARY, LIBRARY + "/program"):
        host.path(folder).chmod(0o755)
    for person in (ADA, BOB):
        host.give(person)
    return host


def changes(host: Host, **options: Any) -> list[tuple[str, str | None, str | None, str]]:
    planned = host.plan(options={**OPTIONS, **options})["changes"]
    assert {change["component"] for change in planned} <= {workspaces.NAME}
    return [(change["item"], change["from"], change["to"], change["reason"]) for change in planned]


def test_a_host_without_people_is_asked_nothing(tmp_path: Path) -> None:
    host = made.make(tmp_path)
    asked: list[Sequence[str]] = []

    def run(argv: Sequence[str]) -> Result:
        asked.append(argv)
        return host.run(argv)

    context = Context(root=str(tmp_path), options={}, runner=run)
    assert workspaces.look(context) == {"version": None, "people": {}, "running": {}}
    assert asked == []
    assert host.plan()["changes"] == []


def test_as_wished_there_is_nothing_to_do(host: Docked) -> None:
    result = host.plan(options=OPTIONS)
    assert result["changes"] == []
    assert result["state"]["gpu_workspace"]["version"] == "2"


def test_a_wish_is_named_person_by_person(tmp_path: Path) -> None:
    host = made.make(tmp_path)
    host.write("/proc/meminfo", "MemTotal: 8000000 kB\n")
    planned = changes(host)
    assert [change[:3] for change in planned] == [
        ("/etc/systemd/system/gpu-workspace-port@.service", "absent", "as shipped"),
        ("/etc/systemd/system/gpu-workspace-port@.socket", "absent", "as shipped"),
        ("/etc/systemd/system/gpu-workspace@.service", "absent", "as shipped"),
        (LIBRARY, "absent", "as shipped"),
        ("/usr/local/sbin/gpu-workspace", "absent", "as shipped"),
        ("workspace ada", None, "as wished"),
        ("workspace bob", None, "as wished"),
    ]


@pytest.mark.parametrize("people", [[{"name": "ada"}], [{"gpus": 1}], ["ada"], {"ada": {}}])
def test_nobody_is_removed_for_a_list_that_can_not_be_read(host: Docked, people: Any) -> None:
    """By -e: an inventory is refused when it is rendered."""
    ((item, before, after, why),) = changes(host, gpu_workspaces=people)
    assert (item, before, after) == ("gpu_workspaces", None, "a list of people")
    assert re.match("ada needs gpus: |entry 1: nothing is |entry 1 is no mapping|it is a list", why)


def test_who_is_no_longer_named_goes_and_nobody_else(host: Docked) -> None:
    assert changes(host, gpu_workspaces=[ADA]) == [
        ("workspace bob", "here", None, "no longer wished; the home stays")
    ]
    # With nobody left docker need not answer, and the program is not looked at.
    host.runs = None
    host.path("/usr/local/sbin/gpu-workspace").unlink()
    assert [change[0] for change in changes(host, gpu_workspaces=[])] == [
        "workspace ada",
        "workspace bob",
    ]


LISTEN = "/etc/systemd/system/gpu-workspace-port@ada.jupyter.socket.d/address.conf"


def remove(path: str) -> Callable[[Docked], None]:
    return lambda host: host.path(path).unlink()


def runs(**revisions: str) -> Callable[[Docked], None]:
    return lambda host: setattr(host, "runs", {"bob": "r-bob", **revisions})


@pytest.mark.parametrize(
    ("harm", "options", "old", "why"),
    [
        (remove("/etc/gpu-workspace/ada/workspace.json"), {}, None, "missing"),
        (
            lambda host: host.write("/etc/gpu-workspace/ada/workspace.json", "{broken"),
            {},
            None,
            "missing",
        ),
        (lambda _host: None, {"gpu_workspaces": [{**ADA, "memory": "3g", "cpus": 1}, BOB]},
         "other settings", "changed: cpus, memory"),
        (remove("/etc/gpu-workspace/ada/token"), {}, "no token", "nobody could log in"),
        (lambda _host: None, {"gpu_workspace_digests": {"ada": "0" * 64}}, "another token",
         "gpu_workspace_tokens has changed"),
        (lambda _host: None, {"gpu_workspace_passed": {"ada": "0" * 64}}, "another password",
         "gpu_workspace_passwords has changed"),
        (lambda host: host.write("/etc/gpu-workspace/ada/password", "$6$of-nobody"), {},
         "another password", "gpu_workspace_passwords has changed"),
        (remove("/etc/gpu-workspace/ada/revision"), {}, "unfinished", "cut off"),
        (remove(places.WANTS + places.UNIT.format("ada")), {}, "not enabled", "reboot"),
        (remove(f"{places.PORTS}/ada.jupyter"), {}, "port not held", "another program could"),
        (remove(LISTEN), {}, "port not held", "another program could"),
        (remove(places.PORT_WANTS + places.PORT.format("ada.jupyter")), {},
         "port not held", "another program could"),
        (runs(), {}, "not running", "its container is not there"),
        (runs(ada="r-other"), {}, "runs as before", "with other settings"),
    ],
)  # fmt: skip
def test_what_differs_is_named_with_its_reason(
    host: Docked,
    harm: Callable[[Docked], None],
    options: dict[str, Any],
    old: str | None,
    why: str,
) -> None:
    harm(host)
    ((item, before, after, reason),) = changes(host, **options)
    assert (item, before, after) == ("workspace ada", old, "as wished")
    assert why in reason


@pytest.mark.parametrize(
    ("option", "value", "word"),
    [
        ("gpu_workspace_root", "/data/homes", "root"),
        ("gpu_workspace_address", "192.0.2.1", "address"),
        ("gpu_workspace_ssh_address", "192.0.2.1", "ssh_address"),
        ("gpu_workspace_image", "other@sha256:" + "b" * 64, "image"),
        ("gpu_workspace_image_sha256", "c" * 64, "image"),
    ],
)
def test_what_all_have_concerns_all(host: Docked, option: str, value: str, word: str) -> None:
    planned = changes(host, **{option: value})
    assert [(change[0], change[3]) for change in planned] == [
        ("workspace ada", f"changed: {word}"),
        ("workspace bob", f"changed: {word}"),
    ]


def test_the_same_token_is_no_change_and_none_is_told(host: Docked) -> None:
    same = hashlib.sha256((TOKEN + "ada").encode()).hexdigest()
    result = host.plan(options={**OPTIONS, "gpu_workspace_digests": {"ada": same}})
    assert result["changes"] == []
    assert TOKEN not in json.dumps(result)
    context = Context(root=str(host.root), options=OPTIONS, runner=host.run)
    assert TOKEN not in json.dumps(workspaces.look(context))


@pytest.mark.parametrize("harm", ["other", "mode"])
def test_a_program_that_was_touched_is_put_back(host: Docked, harm: str) -> None:
    path = host.path("/usr/local/sbin/gpu-workspace")
    if harm == "other":
        path.write_text("#!/bin/sh\n", "utf-8")
    else:
        path.chmod(0o777)
    old = "other content" if harm == "other" else "mode 0777"
    assert [change[:3] for change in changes(host)] == [
        ("/usr/local/sbin/gpu-workspace", old, "as shipped")
    ]


@pytest.mark.parametrize("folder", [LIBRARY, LIBRARY + "/program"])
def test_a_folder_that_others_can_write_to_is_put_back(host: Docked, folder: str) -> None:
    """Whoever puts a module there has root run it."""
    host.path(folder).chmod(0o777)
    assert [change[:3] for change in changes(host)] == [(folder, "mode 0777", "as shipped")]


def test_a_module_that_is_missing_is_named(host: Docked) -> None:
    host.path(LIBRARY + "/program/relay.py").unlink()
    assert [change[:3] for change in changes(host)] == [
        (LIBRARY + "/program/relay.py", "absent", "as shipped")
    ]


def test_the_program_of_before_is_replaced_and_nobody_is_stopped(host: Docked) -> None:
    """It was one file."""
    for path in [path for path in shipped.FILES if path.startswith(LIBRARY)]:
        host.path(path).unlink()
    host.path(LIBRARY + "/program").rmdir()
    host.path(LIBRARY).rmdir()
    host.path("/usr/local/sbin/gpu-workspace").write_text("#!/usr/bin/python3\n", "utf-8")
    assert [change[:3] for change in changes(host)] == [
        (LIBRARY, "absent", "as shipped"),
        ("/usr/local/sbin/gpu-workspace", "other content", "as shipped"),
    ]


def test_a_docker_that_does_not_answer_is_a_blocker(host: Docked) -> None:
    host.runs = None
    result = host.plan(options=OPTIONS)
    assert [change["from"] for change in result["changes"]] == ["unknown", "unknown"]
    assert [blocker["id"] for blocker in result["blockers"]] == [
        "workspace-docker",
        "workspace-gpu",
    ]


def in_the_way(host: Docked, *people: dict[str, Any]) -> dict[str, Any]:
    options = {**OPTIONS, "gpu_workspaces": list(people)}
    context = Context(root=str(host.root), options=options, runner=host.run)
    seen = {**workspaces.look(context), "running": host.runs, "files": {}}
    return obstacles.stands_in_the_way(context, workspaces.differ({}, seen, options))  # type: ignore[no-any-return]


def test_a_port_that_something_else_has_is_seen(host: Docked) -> None:
    table = (
        "  sl local_address rem_address st\n" + LINE.format(8801, "0A") + LINE.format(9000, "0A")
    )
    host.write("/proc/net/tcp6", table)
    # Her own container has 8801; what is not to be changed is not asked about.
    assert in_the_way(host, {**ADA, "memory": "3g"}, BOB)["ports"] == []
    assert in_the_way(host, {**ADA, "port": 9000}, BOB)["ports"] == [9000]
    eve = {"name": "eve", "gpus": "none", "port": 9000}
    assert in_the_way(host, ADA, BOB, eve)["ports"] == [9000]
    host.write("/proc/net/tcp6", table.replace(" 0A ", " 01 "))
    assert in_the_way(host, ADA, BOB, eve)["ports"] == []


def test_who_has_something_open_is_asked_of_those_who_are_concerned(
    host: Docked, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened_at: list[tuple[Any, ...]] = []

    def opened(*arguments: Any) -> int:
        opened_at.append(arguments)
        return 2

    monkeypatch.setattr(obstacles, "opened", opened)
    host.write("/proc/meminfo", "MemTotal:       2048 kB\nMemFree: 1 kB\n")
    blockers = in_the_way(host, {**ADA, "memory": "3g"}, BOB)
    assert blockers == {
        "docker": True,
        "ports": [],
        "memory": 2 << 20,
        "in_use": {"ada": 2},
        "users": {},
        "root": None,
        "volumes": {},
    }
    # Where root alone has opened something a token can be told.
    way = places.PORTS + "/ada.jupyter"
    assert opened_at == [(way, TOKEN + "ada", "/ada/")]
    assert in_the_way(host, ADA)["in_use"] == {"bob": 2}
    host.runs = {}
    assert in_the_way(host, ADA)["in_use"] == {}


def test_who_is_there_by_ssh_counts_too(host: Docked) -> None:
    host.write("/run/gpu-workspace/bob.json", json.dumps({"pid": 4711}))
    table = "  sl local_address rem_address st\n" + LINE.format(22, "01") + LINE.format(22, "0A")
    host.write("/proc/4711/net/tcp", table)
    host.write("/proc/4711/net/tcp6", table + LINE.format(22, "01") + LINE.format(80, "01"))
    assert in_the_way(host, ADA)["in_use"] == {"bob": 3}
    host.write("/run/gpu-workspace/bob.json", "{cut off")
    assert in_the_way(host, ADA)["in_use"] == {}


def test_sshds_port_is_a_port_too(host: Docked) -> None:
    host.write("/proc/net/tcp", "  sl\n" + LINE.format(2201, "0A"))
    ada = {**ADA, "kind": "both", "ssh_port": 2201, "ssh_keys": ["ssh-ed25519 " + "A" * 68]}
    assert in_the_way(host, ada, BOB)["ports"] == [2201]
    ssh = {key: value for key, value in ada.items() if key != "port"} | {"kind": "ssh"}
    host.give(ssh)
    assert in_the_way(host, {**ssh, "memory": "3g"}, BOB)["ports"] == []
    assert in_the_way(host, {**ssh, "memory": "3g"}, BOB)["in_use"] == {}


# the image that is built on the host

BASE = "docker.io/library/debian@sha256:" + "b" * 64
BUILT: dict[str, Any] = {"gpu_workspace_image": "", "gpu_workspace_base": BASE}
ROW: dict[str, Any] = yaml.safe_load(GOLDEN.read_text("utf-8"))["gpu_lock"]
(STACK,) = ROW["stacks"].values()


def test_the_generator_and_the_look_take_the_same_of_a_lock() -> None:
    assert generated("", STACK)["gpu_workspace_stack"] == wished.locked(STACK)
    wheels = {"tensorflow": STACK["tensorflow"]}
    assert generated("", wheels)["gpu_workspace_stack"] == wished.locked(wheels)
    assert wished.locked(wheels)["env"] == {"path": [], "xla": ""}
    assert generated("", {}) == {}
    assert set(wished.locked(STACK)) == {"tensorflow", "cuda", "cudnn", "env"}


def test_the_look_and_the_module_name_an_image_alike() -> None:
    """The module is told by the role what the look works out for itself."""
    image = {
        **dict.fromkeys(("image", "image_file", "image_sha256", "base_file", "base_sha256"), ""),
        "base": BASE,
        "packages": ["git"],
        "places": ["/srv/tf", "/opt/nvidia/cudnn"],
        "stack": generated("", STACK)["gpu_workspace_stack"],
    }
    options = {**BUILT, "gpu_workspace_packages": ["git"], "tensorflow_root": "/srv/tf"}
    assert wished.image(wished.with_image(options, STACK)) == parameters.reference(image)
    by_file = {"gpu_workspace_base_sha256": "c" * 64}
    assert wished.built({**options, **by_file}, STACK) != wished.built(options, STACK)


def test_another_lock_changes_all_who_use_the_image(host: Docked) -> None:
    options = {**BUILT, "gpu_workspaces": [ADA, BOB]}
    names = {wished.built(options, row) for row in (STACK, {})}
    for change in (
        {"tensorflow": {**STACK["tensorflow"], "requirements_sha256": "0" * 64}},
        {"cudnn": {**STACK["cudnn"], "sha256": "0" * 64}},
        {"cuda": {**STACK["cuda"], "packages": {"runtime": {}, "toolkit": {}}}},
    ):
        names.add(wished.built(options, {**STACK, **change}))
    assert len(names) == 5
    items = [item for item, _old, _new, why in changes(host, **BUILT) if "image" in why]
    assert items == ["workspace ada", "workspace bob"]


def test_without_a_base_the_image_is_the_one_that_is_said() -> None:
    assert wished.built(OPTIONS, STACK) is None
    assert wished.with_image(OPTIONS, STACK) is OPTIONS


def test_tensorboards_port_is_one_of_the_hosts(host: Docked) -> None:
    assert traits.ports({**ADA, "tensorboard_port": 8901}) == [8801, 8901]


# whose uid is whose

HOMES = "/srv/gpu-workspaces"


def at_home(monkeypatch: pytest.MonkeyPatch, **owners: str | None) -> None:
    """Homes with these owners, as a test that is not root cannot make them."""
    monkeypatch.setattr(workspace_users, "_owner", lambda _context, name: owners.get(name))


def test_homes_of_the_former_default_are_named_with_their_root(
    host: Docked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody was uid 1000, usually the sudo admin, below a root that all could enter (H3)."""
    for name, more in (("ada", {}), ("bob", {"volumes": [{"path": "/data", "writable": True}]})):
        person = {**(ADA if name == "ada" else BOB), **more}
        old = {
            k: v
            for k, v in wished.settings(person, OPTIONS, {}).items()
            if k not in ("ports", "user")
        }
        host.write(f"/etc/gpu-workspace/{name}/workspace.json", json.dumps(old))
    host.path(USERS).unlink()
    host.path(HOMES).chmod(0o755)
    host.accounts = ("alice:x:1000:1000::/home/alice:/bin/bash",)
    at_home(monkeypatch, ada="1000:1000", bob="1000:1000")
    bob = {**BOB, "volumes": [{"path": "/data", "writable": True}]}
    planned = changes(host, gpu_workspaces=[ADA, bob])
    expected = "all in it that is of 1000:1000 gets its person's own; on the host that is alice"
    assert [(change[0], change[1], change[2]) for change in planned] == [
        (HOMES, f"mode 0755 of uid {host.path(HOMES).stat().st_uid}", "mode 0700 of root"),
        ("workspace ada", "other settings", "as wished"),
        (f"home {HOMES}/ada", "1000:1000", "a uid of its own"),
        ("workspace bob", "other settings", "as wished"),
        (f"home {HOMES}/bob", "1000:1000", "a uid of its own"),
    ]
    assert planned[1][3] == "changed: ports, user"
    assert [planned[2][3], planned[4][3]] == [
        expected, expected + "; writable volumes keep their owner: /data",
    ]  # fmt: skip


def test_a_home_of_another_is_given_back(host: Docked, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was cut off while it changed the owner is seen: the home itself comes last."""
    at_home(monkeypatch, ada="1000:1000", bob="70001:70001")
    assert [change[:3] for change in changes(host)] == [
        ("workspace ada", "home of another", "as wished"),
        (f"home {HOMES}/ada", "1000:1000", "70000:70000"),
    ]


def test_an_account_that_got_somebodys_uid_is_seen(host: Docked) -> None:
    host.accounts = ("new:x:70000:70000::/home/new:/bin/bash",)
    assert [(change[0], change[3]) for change in changes(host)] == [
        ("workspace ada", "changed: user")
    ]


@pytest.mark.parametrize(
    ("user", "files", "why"),
    [
        ("1000:1000", {}, "is alice, an account of this host"),
        ("5000:1000", {"/etc/passwd": "alice:x:1000:1000::/:/bin/sh\n"}, "has the group of alice"),
        ("5000:27", {}, "has a group of the system"),
        ("165000", {"/etc/subuid": "alice:100000:65536\n"}, "that alice (/etc/subuid) has"),
        ("5000:165000", {"/etc/subgid": "alice:100000:65536\n"}, "that alice (/etc/subgid) has"),
        ("5000:100", {}, None),
        ("0:0", {}, None),
    ],
)
def test_a_uid_of_the_hosts_is_refused(
    host: Docked, user: str, files: dict[str, str], why: str | None
) -> None:
    host.accounts = ("alice:x:1000:1000::/home/alice:/bin/bash",)
    for path in files:
        host.write(path, files[path])
    ada = {**ADA, "user": user}
    result = host.plan(options={**OPTIONS, "gpu_workspaces": [ada, BOB]})
    reasons = [
        blocker["message"] for blocker in result["blockers"] if blocker["id"] == "workspace-user"
    ]
    assert reasons == [] if why is None else why in reasons[0]
    # It is seen without any other change, too.
    host.give(ada)
    planned = changes(host, gpu_workspaces=[ada, BOB])
    assert [change[0] for change in planned] == ([] if why is None else ["workspace ada"])


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/srv/data/ada", None),
        ("/srv/link", None),
        ("/home/alice/data", "/home/alice belongs to uid 4711, who could replace what is in it"),
        ("/srv/led", "/home/alice belongs to uid 4711, who could replace what is in it"),
        ("/srv/open/data", "/srv/open has mode 0777: others can replace what is in it"),
        ("/var/tmp/data", "others can make or replace it in /var/tmp"),
        ("/var/tmp/none", "others can make or replace it in /var/tmp"),
        ("/var/tmp/roots", None),
        ("/srv/data/none", None),
    ],
)
def test_a_volume_that_can_be_swapped_for_a_link_is_refused(
    host: Docked, monkeypatch: pytest.MonkeyPatch, path: str, why: str | None
) -> None:
    """A login put a link to / in its place; docker follows it as root when a container starts."""
    places = (
        "/srv/data/ada",
        "/home/alice/data",
        "/srv/open/data",
        "/var/tmp/data",
        "/var/tmp/roots",
    )
    for place in places:
        host.path(place).mkdir(parents=True)
    host.link("/srv/link", "/srv/data/ada")
    host.link("/srv/led", "/home/alice/data")
    modes = {"/srv/open": 0o777, "/var/tmp": 0o1777}
    owners = {"/home/alice": 4711, "/home/alice/data": 4711, "/srv/data/ada": 70000}
    owners["/var/tmp/data"] = 4711
    stat_of = Context.lstat

    def lstat(context: Context, path: str) -> Any:
        info = stat_of(context, path)
        if info is None:
            return None
        kind = stat.S_IFMT(info.st_mode)
        mode = kind | modes.get(path, 0o777 if stat.S_ISLNK(info.st_mode) else 0o755)
        return SimpleNamespace(st_mode=mode, st_uid=owners.get(path, 0), st_gid=0)

    monkeypatch.setattr(Context, "lstat", lstat)
    context = Context(root=str(host.root))
    people = {"ada": {"volumes": [{"path": path}]}, "bob": {"volumes": []}}
    expected = {} if why is None else {"ada": f"{path}: {why}"}
    assert workspace_users.swapped(context, people) == expected


@pytest.mark.parametrize(
    ("root", "mode", "why"),
    [
        ("/srv", None, "/srv holds more than homes"),
        ("/data/homes", 0o777, "/data has mode 0777: others can replace what is in it"),
        ("/data/homes", 0o1777, None),
        ("/data", 0o755, "/data/alice is in it, the home of alice"),
        ("/data/homes", 0o755, None),
    ],
)
def test_a_root_that_cant_be_closed_is_refused(
    host: Docked, root: str, mode: int | None, why: str | None
) -> None:
    host.write("/etc/passwd", "alice:x:1001:1001::/data/alice:/bin/bash\n")
    host.path("/data").mkdir()
    if mode is not None:
        host.path("/data").chmod(mode)
    result = host.plan(options={**OPTIONS, "gpu_workspace_root": root})
    reasons = [
        blocker["message"] for blocker in result["blockers"] if blocker["id"] == "workspace-root"
    ]
    assert reasons == [] if why is None else why in reasons[0]
