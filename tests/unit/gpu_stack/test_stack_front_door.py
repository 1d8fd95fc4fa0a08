"""The front door: what the look sees of it, what the plan names, and what is in its way."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import converged_host as made
import pytest
import yaml
from converged_host import Host
from gpu_stack.components import gpu_front_door as door
from gpu_stack.components.gpu_front_door import wishes
from gpu_stack.components.gpu_front_door.renewal import paths
from gpu_stack.components.gpu_front_door.renewal import program as renewal
from gpu_stack.host.context import Context

from provision.render import shipped_files
from tests.collection import ROOT

ROLE = ROOT / "roles" / "gpu_front_door"

SHIPPED = {
    place: (mode, (ROOT / path).read_bytes())
    for place, mode, path in shipped_files.FRONT_DOOR.files(ROOT)
}
MODULES = sorted(path.stem for path in Path(door.__file__).parent.glob("renewal/*.py"))
NAME = "gpu07.example.org"
ADA = {"name": "ada", "gpus": [0], "port": 8801, "volumes": [], "user": "0:0"}
BOB = {"name": "bob", "gpus": [1], "port": 8802}
OPTIONS: dict[str, Any] = {"gpu_front_door_name": NAME, "gpu_workspaces": [ADA]}
FILES = {paths.SITE: "server {}\n", "/var/lib/gpu-front-door/index.html": "<p>\n"}
DAY = 86400
ADDRESS = "0.0.0.0"  # noqa: S104 compared, not bound


def plan(host: Host, **options: Any) -> list[tuple[str, str | None, str | None, str]]:
    """The door's changes; the workspaces have a test of their own."""
    context = Context(root=str(host.root), options={**OPTIONS, **options}, runner=host.run)
    changes = door.differ({}, door.look(context), context.options)
    return [(change["item"], change["from"], change["to"], change["reason"]) for change in changes]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A host with the door of OPTIONS."""
    monkeypatch.setattr(door.time, "time", lambda: 1000 * DAY)
    host = made.make(tmp_path)
    for path, (mode, data) in SHIPPED.items():
        host.write(path, data)
        host.path(path).chmod(mode)
    for path, text in FILES.items():
        host.write(path, text)
    noted = {
        "settings": door.settings(OPTIONS),
        "files": {path: hashlib.sha256(FILES[path].encode()).hexdigest() for path in FILES},
        "until": 1000 * DAY + 30 * DAY,
    }
    host.write(paths.DOOR, json.dumps(noted))
    host.write(paths.NGINX, "")
    host.write(paths.NGINX_PID, "77\n")
    host.write("/proc/77/comm", "nginx\n")
    for path in paths.ENABLED:
        host.write(path, "")
    return host


def test_the_role_installs_what_the_look_compares() -> None:
    words = yaml.safe_load((ROLE / "vars" / "main.yml").read_text("utf-8"))
    package = words["__gpu_front_door_package"].replace("{{ role_path }}", str(ROLE))
    library = words["__gpu_front_door_library"] + "/renewal/"
    named = words["__gpu_front_door_files"]
    installed = {library + path.name: (0o644, path) for path in Path(package).glob("*.py")}
    installed |= {
        file["dest"]: (int(file["mode"], 8), ROLE / "files" / file["src"]) for file in named
    }
    assert {
        path: (mode, hashlib.sha256(file.read_bytes()).hexdigest())
        for path, (mode, file) in installed.items()
    } == door.FILES


def test_the_program_starts_where_it_is_installed(tmp_path: Path) -> None:
    library = tmp_path / "gpu-front-door"
    shutil.copytree(Path(door.__file__).parent / "renewal", library / "renewal")
    text = (ROLE / "files" / "gpu-front-door").read_text("utf-8")
    assert text.startswith("#!/usr/bin/python3 -IB\n")
    assert f'"{paths.LIBRARY}"' in text
    (tmp_path / "program").write_text(text.replace(paths.LIBRARY, str(library)), "utf-8")
    command = [sys.executable, "-IB", str(tmp_path / "program")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, renewal.USAGE + "\n")


def test_the_look_and_the_module_have_the_same_settings() -> None:
    """One makes its wish of the host's options, the other of the role's."""
    wish = {
        "name": NAME, "port": 443, "address": ADDRESS, "tls": "local_ca", "certificate": "",
        "key": "", "redirect": False, "hsts": False, "people": [ADA],
        "given": {},
    }  # fmt: skip
    settings = wishes.settings(wish)
    assert settings == door.settings(OPTIONS)
    assert settings["upstream"] == "/run/gpu-workspace-ports"
    for way in ("given", "host"):
        files = {"certificate": "/a", "key": "/b", "tls": way}
        options = {f"gpu_front_door_{key}": files[key] for key in files}
        if way == "given":
            wish["given"] = options["gpu_front_door_given"] = {"certificate": "1", "key": "2"}
        else:
            wish["given"] = {}
            options["gpu_front_door_given"] = {"certificate": "1"}  # of a run with -e before
        mine = door.settings({**OPTIONS, **options})
        assert wishes.settings({**wish, **files}) == mine
        assert (mine["certificate"], mine["key"]) == (("/a", "/b") if way == "host" else ("", ""))
    wish.update(tls="acme", given={"acme_ca": "1"})
    wish["acme"] = {"agree": True, "email": "", "directory": paths.LETS_ENCRYPT}
    options = {"gpu_front_door_tls": "acme", "gpu_front_door_acme_agree": True}
    options["gpu_front_door_given"] = {"acme_ca": "1", "key": "of another run"}
    mine = door.settings({**OPTIONS, **options})
    assert wishes.settings(wish) == mine
    assert mine["acme"] == {"email": "", "directory": paths.LETS_ENCRYPT}
    wish["acme"].update(email="a@example.org", directory="https://ca")
    options["gpu_front_door_acme_email"], options["gpu_front_door_acme_directory"] = (
        "a@example.org", "https://ca",
    )  # fmt: skip
    assert wishes.settings(wish) == door.settings({**OPTIONS, **options})


def test_a_host_without_a_door_is_asked_for_one_name(tmp_path: Path) -> None:
    context = Context(root=str(tmp_path), options={}, runner=None)
    seen = door.look(context)
    assert seen == {"version": None, "noted": None, "here": False}
    assert door.differ({}, seen, {}) == []


def test_as_wished_there_is_nothing_to_do(host: Host) -> None:
    assert plan(host) == []
    assert door.look(Context(root=str(host.root), options=OPTIONS))["version"] == NAME


def test_a_wish_is_named_with_what_it_brings(tmp_path: Path) -> None:
    assert [change[:3] for change in plan(made.make(tmp_path))] == [
        ("nginx", None, "installed"),
        ("/etc/systemd/system/gpu-front-door.service", "absent", "as shipped"),
        ("/etc/systemd/system/gpu-front-door.timer", "absent", "as shipped"),
        *((f"{paths.LIBRARY}/renewal/{name}.py", "absent", "as shipped") for name in MODULES),
        ("/usr/local/sbin/gpu-front-door", "absent", "as shipped"),
        (f"front door {NAME}", None, "as wished"),
    ]


def test_what_is_no_longer_wished_goes(host: Host) -> None:
    reason = "no longer wished; its site goes"
    assert plan(host, gpu_front_door_name="") == [(f"front door {NAME}", "here", None, reason)]
    # A removal that was cut off has its directory left.
    host.path(paths.DOOR).write_text("{cut", "utf-8")
    assert plan(host, gpu_front_door_name="") == [("front door", "here", None, reason)]


def remove(path: str) -> Callable[[Host], None]:
    return lambda host: host.path(path).unlink()


def until(days: int) -> Callable[[Host], None]:
    def change(host: Host) -> None:
        noted = json.loads(host.path(paths.DOOR).read_text("utf-8"))
        noted["until"] = (1000 + days) * DAY - 1
        host.write(paths.DOOR, json.dumps(noted))

    return change


# (what is done to the host, options, the item that differs, before, after, words of the reason)
Case = tuple[Callable[[Host], None], dict[str, Any], str, "str | None", str, str]


def differs(host: Host, case: Case, **wished: Any) -> None:
    harm, options, item, old, new, why = case
    harm(host)
    ((seen, before, after, reason),) = plan(host, **wished, **options)
    assert (seen, before, after) == (item, old, new)
    assert why in reason


@pytest.mark.parametrize(
    "case",
    [
        (remove(paths.DOOR), {}, f"front door {NAME}", None, "as wished", "and missing"),
        (
            lambda host: host.write(paths.DOOR, "{cut"),
            {}, f"front door {NAME}", None, "as wished", "wished for, and missing",
        ),
        (
            lambda _host: None, {"gpu_front_door_port": 8443, "gpu_front_door_hsts": True},
            f"front door {NAME}", "other settings", "as wished", "changed: hsts, port",
        ),
        (
            lambda _host: None, {"gpu_workspaces": [{**ADA, "port": 1}, BOB]},
            f"front door {NAME}", "other settings", "as wished",
            "changed: people (ada), people (bob)",
        ),
        (
            lambda host: host.write(paths.SITE, "server { listen 80; }\n"),
            {}, paths.SITE, "other content", "as written", "the door needs it",
        ),
        (remove(paths.SITE), {}, paths.SITE, "absent", "as written", "the door needs it"),
        (until(30), {}, "certificate", "29 days left", "renewed", "it ends soon"),
        (until(-1), {}, "certificate", "-2 days left", "renewed", "it ends soon"),
        (remove(paths.NGINX_PID), {}, "nginx.service", "not running", "running", "nobody gets in"),
        (remove(paths.NGINX), {}, "nginx", None, "installed", "a site of it"),
        (
            remove(paths.ENABLED[0]), {}, "nginx.service", "not enabled", "enabled",
            "it would end with a reboot",
        ),
        (remove(paths.ENABLED[1]), {}, "gpu-front-door.timer", "not enabled", "enabled", "reboot"),
        (
            lambda host: host.path("/usr/local/sbin/gpu-front-door").chmod(0o777),
            {}, "/usr/local/sbin/gpu-front-door", "mode 0777", "as shipped", "it keeps the door",
        ),
        (
            lambda host: host.path("/usr/local/sbin/gpu-front-door").write_text("#!/bin/sh\n"),
            {}, "/usr/local/sbin/gpu-front-door", "other content", "as shipped", "keeps",
        ),
    ],
)  # fmt: skip
def test_what_differs_is_named_with_its_reason(host: Host, case: Case) -> None:
    differs(host, case)


def test_what_the_page_does_not_show_is_no_change(host: Host) -> None:
    assert plan(host, gpu_workspaces=[{**ADA, "volumes": [{"path": "/x"}], "user": "1:1"}]) == []


def test_a_certificate_of_others_is_theirs_to_renew(host: Host) -> None:
    files = {"gpu_front_door_certificate": "/c", "gpu_front_door_key": "/k"}
    options = {**OPTIONS, **files, "gpu_front_door_tls": "host"}
    noted = json.loads(host.path(paths.DOOR).read_text("utf-8"))
    noted.update(settings=door.settings(options), until=0)
    host.write(paths.DOOR, json.dumps(noted))
    assert plan(host, **options) == []


CHAIN = f"/live/gpu-front-door-{NAME}/fullchain.pem"
ACME = {**OPTIONS, "gpu_front_door_tls": "acme", "gpu_front_door_acme_agree": True}
KNOWN = f"{paths.LETSENCRYPT}/renewal/gpu-front-door-{NAME}.conf"


@pytest.fixture
def by_acme(host: Host) -> Host:
    """A host with the door of ACME."""
    noted = json.loads(host.path(paths.DOOR).read_text("utf-8"))
    noted.update(settings=door.settings(ACME), late=1000 * DAY, until=1020 * DAY)
    noted["loaded"] = hashlib.sha256(b"chain\n").hexdigest()
    host.write(paths.DOOR, json.dumps(noted))
    host.write(paths.LETSENCRYPT + CHAIN, "chain\n")
    host.write(KNOWN, f"[renewalparams]\naccount = 1\nserver = {paths.LETS_ENCRYPT}\n")
    host.write(paths.RENEWS, "")
    host.write(paths.CERTBOT, "")
    return host


def test_what_certbot_keeps_is_as_it_should_be(by_acme: Host) -> None:
    assert plan(by_acme, **ACME) == []


@pytest.mark.parametrize(
    "case",
    [
        (
            remove(paths.LETSENCRYPT + CHAIN), {}, "certificate", None, "obtained", "no longer",
        ),
        (remove(KNOWN), {}, "certificate", None, "obtained", "no longer"),
        (
            lambda host: host.write(KNOWN, "server = https://ca\n"),
            {}, "certificate", "https://ca", paths.LETS_ENCRYPT, "it is of another ACME server",
        ),
        (
            lambda host: host.write(paths.LETSENCRYPT + CHAIN, "newer\n"),
            {}, "certificate", "renewed", "read by nginx", "hook",
        ),
        (
            lambda host: host.write(
                paths.DOOR,
                host.path(paths.DOOR).read_text("utf-8").replace(str(1000 * DAY), str(999 * DAY)),
            ),
            {}, "certificate", "20 days left", "renewed", "timer should have",
        ),
        (remove(paths.CERTBOT), {}, "certbot", None, "installed", "it gets the certificate"),
        (remove(paths.RENEWS), {}, "certbot.timer", "not enabled", "enabled", "reboot"),
        (
            lambda _host: None, {"gpu_front_door_acme_email": "a@example.org"},
            f"front door {NAME}", "other settings", "as wished", "changed: acme",
        ),
    ],
)  # fmt: skip
def test_what_differs_of_a_certificate_by_acme_is_named(by_acme: Host, case: Case) -> None:
    differs(by_acme, case, **ACME)


def test_of_a_door_that_was_another_way_the_certificate_is_no_change_of_its_own(
    host: Host,
) -> None:
    host.write(paths.CERTBOT, "")
    host.write(paths.RENEWS, "")
    assert [change[0] for change in plan(host, **ACME)] == [f"front door {NAME}"]


def test_an_acme_server_asks_at_port_80(tmp_path: Path) -> None:
    host = made.make(tmp_path)
    listens(host, 80, 13)
    program(host, 73, "caddy", 13)
    assert in_the_way(host, **ACME)["ports"] == {"80": ["caddy"]}
    assert in_the_way(host)["ports"] == {}


# what is in the way

LINE = "   0: 00000000:{0:04X} 00000000:0000 {1} 00000000:00000000 00:00000000 0 0 0 {2} 1\n"
HEAD = "  sl local_address rem_address st tx_queue tr tm->when retrnsmt uid timeout inode\n"


def listens(host: Host, port: int, inode: int, state: str = "0A", table: str = "tcp") -> None:
    path = f"/proc/net/{table}"
    text = host.path(path).read_text("utf-8") if host.path(path).exists() else HEAD
    host.write(path, text + LINE.format(port, state, inode))


def program(host: Host, pid: int, name: str, *inodes: int) -> None:
    host.write(f"/proc/{pid}/comm", name + "\n")
    for number, inode in enumerate(inodes):
        link = host.path(f"/proc/{pid}/fd/{number}")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(f"socket:[{inode}]")


def in_the_way(host: Host, **options: Any) -> dict[str, Any]:
    context = Context(root=str(host.root), options={**OPTIONS, **options}, runner=host.run)
    return door.stands_in_the_way(context)  # type: ignore[no-any-return]


def test_who_has_the_port_is_named(tmp_path: Path) -> None:
    host = made.make(tmp_path)
    listens(host, 443, 11)
    listens(host, 443, 12, table="tcp6")
    listens(host, 80, 13)
    listens(host, 8443, 14, state="01")
    program(host, 71, "apache2", 5, 11)
    program(host, 72, "haproxy", 12)
    program(host, 73, "caddy", 13, 14)
    assert in_the_way(host) == {"ports": {"443": ["apache2", "haproxy"]}, "sites": []}
    assert in_the_way(host, gpu_front_door_port=8443)["ports"] == {}
    both = in_the_way(host, gpu_front_door_redirect=True)["ports"]
    assert both == {"443": ["apache2", "haproxy"], "80": ["caddy"]}


def test_nginx_itself_has_it_for_many_sites(tmp_path: Path) -> None:
    host = made.make(tmp_path)
    listens(host, 443, 11)
    program(host, 71, "nginx", 11)
    assert in_the_way(host)["ports"] == {}


def test_somebody_who_is_not_to_be_seen_is_somebody(tmp_path: Path) -> None:
    host = made.make(tmp_path)
    listens(host, 443, 11)
    assert in_the_way(host)["ports"] == {"443": ["an unknown program"]}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"server {{ listen 443 ssl; server_name a.example.org {NAME}; }}", "has the name"),
        ("server { listen 443; server_name a; }", "speaks plain HTTP at port 443"),
        ("server { listen [::]:443 default_server; }", "speaks plain HTTP at port 443"),
        ("server { listen 192.0.2.1:443; }", "speaks plain HTTP at port 443"),
        ("server { listen [::]:443 ssl ipv6only=off; }", "port 443 of IPv4 and IPv6 in one"),
        ("server { listen [::]:80 ipv6only=off; }", None),
        ("server { listen [::]:443 ssl ipv6only=on; }", None),
        ("server { listen 443 ssl http2; server_name a.example.org; }", None),
        (f"server {{ listen 80; server_name www.{NAME}; }}", None),
        (f"# server_name {NAME};\n#listen 443;\n", None),
    ],
)
def test_a_site_of_others_is_in_the_way_or_not(
    tmp_path: Path, text: str, words: str | None
) -> None:
    host = made.make(tmp_path)
    host.write(paths.SITE, f"server {{ listen 443; server_name {NAME}; }}")
    host.write("/etc/nginx/conf.d/theirs.conf", text)
    sites = in_the_way(host)["sites"]
    assert [reason.startswith("/etc/nginx/conf.d/theirs.conf ") for reason in sites] == [
        True
    ] * bool(words)
    assert words is None or words in sites[0]
