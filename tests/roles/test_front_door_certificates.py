"""The front door's certificates: of an authority of its own, of the host's, and given ones."""

from __future__ import annotations

import json
import stat
import subprocess
import threading
import time
from pathlib import Path

import pytest
from front_door_host import NAME, Host, certified, made, wish
from gpu_stack.components.gpu_front_door.renewal import certificates, lock


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path, monkeypatch)


def test_an_authority_of_one_name_and_a_certificate_of_it(host: Host) -> None:
    answer = host.program.apply(wish())
    authority, own = certified(host, host.program.CA), certified(host, host.program.CHAIN)
    assert "X509v3 Name Constraints: critical\n                Permitted:\n" in authority
    assert f"DNS:{NAME}\n" in authority
    assert "TLS Web Server Authentication" in authority
    assert "CA:TRUE, pathlen:0" in authority
    assert f"X509v3 Subject Alternative Name: \n                DNS:{NAME}\n" in own
    assert "CA:FALSE" in own
    assert answer["fingerprint"].count(":") == 31
    for path, mode in ((host.program.KEY, 0o600), (host.program.CA_KEY, 0o600)):
        assert stat.S_IMODE(host.path(path).stat().st_mode) == mode
    for path in (host.program.CA, host.program.CHAIN, host.program.PAGE, host.program.SITE):
        assert stat.S_IMODE(host.path(path).stat().st_mode) == 0o644
    subprocess.run(
        [
            "openssl", "verify", "-x509_strict", "-verify_hostname", NAME, "-CAfile",
            str(host.path(host.program.CA)), str(host.path(host.program.CHAIN)),
        ],
        check=True, capture_output=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "usage", "fits"),
    [
        (f"DNS:{NAME}", "serverAuth", True),
        ("DNS:other.example.org", "serverAuth", False),
        ("IP:192.0.2.1", "serverAuth", False),
        ("IP:2001:db8::1", "serverAuth", False),
        ("email:ada@example.org", "serverAuth", False),
        (f"DNS:{NAME}", "emailProtection", False),
    ],
)
def test_whoever_has_the_authoritys_key_can_be_this_name_and_nobody_else(
    host: Host, tmp_path: Path, name: str, usage: str, fits: bool
) -> None:
    """Addresses and e-mail names were of nobody's kind, and so all permitted (L1)."""
    host.program.apply(wish())
    (tmp_path / "ext").write_text(f"[v3]\nsubjectAltName={name}\nextendedKeyUsage={usage}\n")
    ca = [str(host.path(path)) for path in (host.program.CA, host.program.CA_KEY)]
    leaf = {name: str(tmp_path / name) for name in ("key", "csr", "crt", "ext")}
    for command in (
        ["req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-subj", "/", "-keyout", leaf["key"], "-out", leaf["csr"]],
        ["x509", "-req", "-in", leaf["csr"], "-CA", ca[0], "-CAkey", ca[1], "-set_serial", "1",
         "-days", "9", "-extfile", leaf["ext"], "-extensions", "v3", "-out", leaf["crt"]],
    ):  # fmt: skip
        subprocess.run(["openssl", *command], check=True, capture_output=True)
    purpose = "smimesign" if usage == "emailProtection" else "sslserver"
    done = subprocess.run(
        ["openssl", "verify", "-purpose", purpose, "-CAfile", ca[0], leaf["crt"]],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode == 0) is fits, done.stdout + done.stderr


def test_a_second_time_nothing_is_made_anew(host: Host) -> None:
    host.program.apply(wish())
    before = {
        path: host.text(path) for path in (host.program.CA, host.program.CHAIN, host.program.KEY)
    }
    host.program.apply(wish(hsts=True))
    assert {path: host.text(path) for path in before} == before
    assert host.program.look(wish(hsts=True))["changes"] == []


@pytest.mark.parametrize(("days", "renewed"), [(31, False), (29, True), (-1, True)])
def test_what_ends_soon_is_renewed_and_the_authority_stays(
    host: Host, days: int, renewed: bool
) -> None:
    host.program.apply(wish())
    noted = json.loads(host.text(host.program.DOOR) or "")
    noted["until"] = time.time() + days * 86400
    host.write(host.program.DOOR, json.dumps(noted))
    authority, before = host.text(host.program.CA), host.text(host.program.CHAIN)
    assert host.program.look(wish())["changes"] == ["certificate"] * renewed
    host.calls.clear()
    assert host.program.renew() == {"renewed": renewed}
    assert (host.text(host.program.CHAIN) != before) == renewed
    assert host.text(host.program.CA) == authority
    assert ("systemctl reload nginx" in host.calls) == renewed
    assert host.program.look(wish())["changes"] == []


def test_a_renewal_leaves_the_door_to_a_run_that_changes_it(host: Host) -> None:
    """Both wrote chain and key: one could have put its chain beside the other's key."""
    host.program.apply(wish())
    recorded = json.loads(host.text(host.program.DOOR) or "")
    recorded["until"] = 0
    host.write(host.program.DOOR, json.dumps(recorded))
    before = {path: host.text(path) for path in (host.program.CHAIN, host.program.KEY)}
    with lock.held():
        assert host.program.renew() == {"renewed": False}
        assert {path: host.text(path) for path in before} == before
    assert stat.S_IMODE(host.path(host.program.LOCK).stat().st_mode) == 0o600
    assert host.program.renew() == {"renewed": True}


@pytest.mark.parametrize("way", ["apply", "remove"])
def test_a_run_waits_for_a_renewal_and_then_says_what_holds_the_door(
    host: Host, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    host.program.apply(wish())
    before = host.text(host.program.CHAIN)
    monkeypatch.setattr(lock, "PATIENCE", 0.3)
    host.calls.clear()
    change = {
        "apply": lambda: host.program.apply(wish(name="b.org")),
        "remove": host.program.remove,
    }
    started = time.monotonic()
    with (
        lock.held(),
        pytest.raises(host.program.RefusedError, match=r"it holds /run/gpu-front-door\.lock"),
    ):
        change[way]()
    assert time.monotonic() - started >= 0.3
    assert host.calls == []
    assert host.text(host.program.CHAIN) == before
    holder = lock.held()
    holder.__enter__()
    threading.Timer(0.1, holder.__exit__, (None, None, None)).start()
    change[way]()
    assert host.calls


@pytest.mark.parametrize("name", ["SITE", "PAGE", "CA"])
def test_what_others_changed_is_seen_after_a_renewal(host: Host, name: str) -> None:
    host.program.apply(wish())
    noted = json.loads(host.text(host.program.DOOR) or "")
    noted["until"] = 0
    host.write(host.program.DOOR, json.dumps(noted))
    path = getattr(host.program, name)
    host.write(path, (host.text(path) or "") + "# theirs\n")
    assert host.program.renew() == {"renewed": True}
    assert host.program.look(wish())["changes"] == [path]


@pytest.mark.parametrize("tls", ["local_ca", "given"])
def test_a_chain_that_others_put_in_our_place_is_not_taken(host: Host, tls: str) -> None:
    door, changed = host.program, {}
    if tls == "given":
        made(host, door.GIVEN, door.GIVEN_KEY, days="300")
        changed = {"tls": "given", "certificate": "/x", "key": "/y", "given": {"key": "1"}}
    door.apply(wish(**changed))
    made(host, door.CHAIN, door.KEY, days="300")
    before = host.text(door.DOOR)
    host.calls.clear()
    assert door.renew() == {"renewed": False}
    assert host.calls == []
    assert host.text(door.DOOR) == before
    assert door.look(wish(**changed))["changes"] == [door.CHAIN, door.KEY]


def test_another_name_is_another_authority_and_the_old_one_is_kept(host: Host) -> None:
    host.program.apply(wish())
    before = host.text(host.program.CA)
    host.program.apply(wish(name="gpu08.example.org"))
    assert "DNS:gpu08.example.org" in certified(host, host.program.CA)
    assert host.text(host.program.CA + ".save") == before


def test_a_key_that_was_damaged_is_made_anew(host: Host) -> None:
    host.program.apply(wish())
    host.write(host.program.KEY, "")
    assert host.program.look(wish())["changes"] == [host.program.KEY]
    host.program.apply(wish())
    certificates.certified(NAME, host.program.CHAIN, host.program.KEY)


def test_a_key_that_nobody_reads_any_more_is_not_kept(host: Host) -> None:
    host.program.apply(wish())
    made(host, "/c.pem", "/k.pem")
    host.program.apply(wish(tls="host", certificate="/c.pem", key="/k.pem"))
    assert host.text(host.program.KEY) is None
    assert host.text(host.program.CHAIN) is None
    assert host.program.look(wish(tls="host", certificate="/c.pem", key="/k.pem"))["changes"] == []


@pytest.mark.parametrize("tls", ["given", "host"])
def test_an_authority_that_nobody_asks_any_more_is_not_kept(host: Host, tls: str) -> None:
    door = host.program
    door.apply(wish())
    door.apply(wish(name="gpu08.example.org"))
    files = {"tls": tls, "certificate": "/c.pem", "key": "/k.pem"}
    made(host, *(("/c.pem", "/k.pem") if tls == "host" else (door.GIVEN, door.GIVEN_KEY)))
    assert host.text(door.CA_KEY + ".save")
    door.apply(wish(**files))
    mine = {"brought", "door.json"} | ({"chain.pem", "key.pem"} if tls == "given" else set())
    assert {path.name for path in host.path(door.PLACE).iterdir()} <= mine
    door.apply(wish())
    assert f"DNS:{NAME}" in certified(host, door.CA)


@pytest.mark.parametrize("name", ["CA", "CA_KEY"])
@pytest.mark.parametrize("content", ["", "no PEM", "another"])
def test_a_damaged_authority_is_made_anew(host: Host, name: str, content: str) -> None:
    door = host.program
    door.apply(wish())
    path = getattr(door, name)
    if content == "another":
        made(host, "/c.pem", "/k.pem")
        content = host.text("/c.pem" if name == "CA" else "/k.pem") or ""
    host.write(path, content)
    door.certificate(NAME)
    door.apply(wish())
    assert door.look(wish())["changes"] == []
    assert host.text(path + ".save") == content
    subprocess.run(
        ["openssl", "verify", "-CAfile", str(host.path(door.CA)), str(host.path(door.CHAIN))],
        check=True, capture_output=True,
    )  # fmt: skip


def test_a_certificate_that_others_renewed_is_read(host: Host) -> None:
    files = {"tls": "host", "certificate": "/c.pem", "key": "/k.pem"}
    made(host, "/c.pem", "/k.pem")
    host.program.apply(wish(**files))
    host.calls.clear()
    assert host.program.renew() == {"renewed": False}
    assert host.calls == []
    made(host, "/c.pem", "/k.pem")
    assert host.program.look(wish(**files))["changes"] == []
    assert host.program.renew() == {"renewed": True}
    assert host.calls[-1] == "systemctl reload nginx"
    assert host.program.renew() == {"renewed": False}


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        ("name", f"is not for {NAME}"),
        ("key", "is not that of the certificate"),
        ("gone", "there is no /etc/gpu-front-door/given-key.pem"),
        ("text", "is not for"),
    ],
)
def test_what_is_given_is_tried_before_anything_is_replaced(
    host: Host, harm: str, words: str
) -> None:
    door = host.program
    files = {"tls": "given", "certificate": "/x", "key": "/y", "given": {"key": "1"}}
    made(host, door.GIVEN, door.GIVEN_KEY)
    door.apply(wish(**files))
    assert host.text(door.GIVEN_KEY) is None
    before = {path: host.text(path) for path in (door.CHAIN, door.KEY, door.SITE, door.DOOR)}
    made(host, door.GIVEN, door.GIVEN_KEY, "other.example.org" if harm == "name" else NAME)
    if harm == "key":
        made(host, "/somewhere", door.GIVEN_KEY)
    if harm == "gone":
        host.path(door.GIVEN_KEY).unlink()
    if harm == "text":
        host.write(door.GIVEN, "no certificate\n")
    with pytest.raises(door.RefusedError, match=words):
        door.apply(wish(**{**files, "given": {"key": "2"}}))
    assert {path: host.text(path) for path in before} == before
