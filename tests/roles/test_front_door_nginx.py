"""The front door and the host's nginx: what is put back, repaired and refused."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from front_door_host import ADA, BOB, ENABLED, NAME, SERVER, Host, acme, made, wish
from gpu_stack.components.gpu_front_door.renewal import programs


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path, monkeypatch)


def test_a_site_that_nginx_does_not_take_is_put_back(host: Host) -> None:
    host.takes = "ada.jupyter;"
    with pytest.raises(host.program.RefusedError, match="has the former one again: emerg"):
        host.program.apply(wish())
    assert host.text(host.program.SITE) is None
    assert host.text(host.program.DOOR) is None
    host.takes = ""
    host.program.apply(wish())
    before = host.text(host.program.SITE)
    host.takes = "zoe.jupyter;"
    host.calls.clear()
    with pytest.raises(host.program.RefusedError):
        host.program.apply(wish(people=[{**ADA, "name": "zoe"}]))
    assert host.text(host.program.SITE) == before
    assert not [call for call in host.calls if "reload" in call or "start" in call]


@pytest.mark.parametrize("tls", ["local_ca", "given"])
def test_with_a_site_all_that_belongs_to_it_is_put_back(host: Host, tls: str) -> None:
    door, name = host.program, "gpu08.example.org"
    door.apply(wish())
    paths = (door.SITE, door.PAGE, door.CHAIN, door.KEY, door.CA, door.CA_KEY, door.DOOR)
    before = {path: host.text(path) for path in paths}
    changed = {"name": name}
    if tls == "given":
        made(host, door.GIVEN, door.GIVEN_KEY, name)
        changed |= {"tls": tls, "certificate": "/x", "key": "/y"}
    host.takes = name
    with pytest.raises(door.RefusedError, match="has the former one again"):
        door.apply(wish(**changed))
    assert {path: host.text(path) for path in paths} == before
    for path in (door.KEY, door.CA_KEY):
        assert stat.S_IMODE(host.path(path).stat().st_mode) == 0o600
    assert door.look(wish())["changes"] == []


def test_who_is_connected_stays_so(host: Host) -> None:
    host.program.apply(wish())
    words = [call for call in host.calls if call.startswith("systemctl")]
    assert "systemctl reload nginx" in words
    assert not [word for word in words if "restart" in word or "stop" in word]
    host.path("/run/nginx.pid").unlink()
    host.calls.clear()
    host.program.serve()
    assert host.calls == ["systemctl enable nginx", "systemctl start nginx"]


@pytest.mark.parametrize("path", ENABLED)
def test_a_unit_that_was_disabled_is_enabled_again(host: Host, path: str) -> None:
    host.program.apply(wish())
    host.path(path).unlink()
    unit = path.rpartition("/")[2]
    assert host.program.look(wish())["changes"] == [f"{unit} is not enabled"]
    host.program.apply(wish())
    assert host.path(path).exists()
    assert host.program.look(wish())["changes"] == []


def test_the_default_site_goes_with_an_nginx_that_we_brought_and_with_no_other(host: Host) -> None:
    default = host.path(host.program.DEFAULT)
    default.parent.mkdir(parents=True)
    default.symlink_to("/etc/nginx/sites-available/default")
    host.program.apply(wish())
    assert default.is_symlink()
    host.path(host.program.DOOR).unlink()
    host.write(host.program.BROUGHT, "x")
    host.program.apply(wish())
    assert not default.is_symlink()
    # Somebody wanted it back.
    default.symlink_to("/etc/nginx/sites-available/default")
    host.program.apply(wish(hsts=True))
    assert default.is_symlink()


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        (f"server {{ listen 443 ssl; server_name x {NAME}; }}\n", "has the name"),
        ("server { listen 443; }\n", "speaks plain HTTP at port 443"),
        ("server { listen [::]:443 ssl ipv6only=off; }\n", "has port 443 of IPv4 and IPv6 in one"),
    ],
)
def test_another_site_in_the_way_is_named(host: Host, theirs: str, words: str) -> None:
    host.theirs = theirs
    with pytest.raises(
        host.program.RefusedError, match=f"/etc/nginx/sites-enabled/theirs of nginx {words}"
    ):
        host.program.look(wish())


def test_a_port_that_others_have_is_refused(host: Host) -> None:
    host.listens(443)
    with pytest.raises(host.program.RefusedError, match=r"port 443 .* is in use by apache2"):
        host.program.look(wish())
    assert host.program.look(wish(port=8443))["changes"] == ["absent"]


def test_a_host_without_openssl_says_so(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    assert host.program.look(wish())["openssl"] is True
    real = host.call

    def call(command: list[str], timeout: int = 60) -> tuple[int, str, str]:
        return (127, "", "") if command[0] == "openssl" else real(command, timeout)

    monkeypatch.setattr(programs, "call", call)
    assert host.program.look(wish())["openssl"] is False


def test_an_nginx_that_can_not_ask_is_refused(host: Host) -> None:
    host.modules = "--with-http_ssl_module"
    with pytest.raises(host.program.RefusedError, match="without http_auth_request_module"):
        host.program.look(wish())


def test_our_own_site_that_is_damaged_is_ours_to_repair(host: Host) -> None:
    host.program.apply(wish())
    host.takes = "broken"
    host.write(host.program.SITE, "broken")
    assert host.program.look(wish())["changes"] == [host.program.SITE]
    host.program.apply(wish())
    assert host.program.look(wish())["changes"] == []


@pytest.mark.parametrize("name", ["KEY", "CHAIN"])
def test_our_own_files_that_nginx_reads_are_ours_to_repair(host: Host, name: str) -> None:
    host.program.apply(wish())
    host.reads = [getattr(host.program, name)]
    host.write(host.reads[0], "")
    assert host.program.look(wish())["changes"] == host.reads
    host.program.apply(wish())
    assert host.program.look(wish())["changes"] == []


def test_a_file_that_is_no_text_is_damaged(host: Host) -> None:
    host.program.apply(wish())
    host.path(host.program.KEY).write_bytes(b"\xff\xfe")
    assert host.program.look(wish())["changes"] == [host.program.KEY]


def test_files_of_the_host_that_are_gone_do_not_keep_another_way_out(host: Host) -> None:
    made(host, "/c.pem", "/k.pem", days="300")
    files = {"tls": "host", "certificate": "/c.pem", "key": "/k.pem"}
    host.program.apply(wish(**files))
    host.write("/k.pem", "")
    host.reads = ["/k.pem"]
    with pytest.raises(host.program.RefusedError, match="its own configuration"):
        host.program.look(wish())  # it is not ours
    host.path("/c.pem").unlink()
    assert host.program.look(wish())["changes"] == ["other settings"]
    with pytest.raises(host.program.RefusedError, match=r"there is no /c\.pem"):
        host.program.look(wish(**files))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"name": "192.0.2.1"}, "no DNS name"),
        ({"name": "a_b"}, "no DNS name"),
        ({"people": []}, "needs workspaces"),
        ({"tls": "caddy"}, "one of local_ca, given, host, acme"),
        ({"tls": "given"}, "are needed"),
        ({"certificate": "/c", "key": "/k"}, "with these alone"),
        ({"people": [{**ADA, "port": 443}]}, "port 443 is ada's"),
        ({"people": [{**ADA, "name": "ada/ { } #"}]}, "a person's name is"),
        ({"people": [{**ADA, "name": "ada\n"}]}, "a person's name is"),
        ({"people": [{**ADA, "port": "8801;"}]}, "ada's port is '8801;'"),
        ({"people": [{**ADA, "port": True}]}, "ada's port is True"),
        ({"people": [{**BOB, "tensorboard_port": 65536}]}, "bob's tensorboard_port is 65536"),
        ({"port": 0}, "gpu_front_door_port is 0"),
        ({"tls": "acme"}, f"acme needs gpu_front_door_acme_agree: true, .*of {SERVER}"),
        (acme(port=80), "port 80 is where an ACME server asks"),
        (acme(people=[{**ADA, "port": 80}]), "port 80 is ada's"),
        (acme(certificate="/c", key="/k"), "with these alone"),
        (acme(email="-m"), "gpu_front_door_acme_email is '-m'"),
        (acme(directory="http://ca.example.org"), "gpu_front_door_acme_directory is"),
        ({"redirect": True, "people": [{**ADA, "port": 80}]}, "port 80 is ada's"),
        ({"address": "0.0.0.0:1 ssl;"}, "gpu_front_door_address is"),
        ({"address": "::1;"}, "gpu_front_door_address is"),
        (
            {"tls": "host", "certificate": "/c.pem;", "key": "/k.pem"},
            "gpu_front_door_certificate is",
        ),
        ({"tls": "host", "certificate": "/c.pem", "key": "k.pem"}, "gpu_front_door_key is"),
        ({"people": [{**BOB, "tensorboard_port": 443}]}, "port 443 is bob's"),
    ],
)
def test_a_wish_that_no_host_could_fulfil(host: Host, changed: dict[str, Any], words: str) -> None:
    with pytest.raises(host.program.RefusedError, match=words):
        host.program.look(wish(**changed))
    with pytest.raises(host.program.RefusedError, match=words):
        host.program.apply(wish(**changed))
