"""The front door's certificates by ACME: what certbot is told, and what its refusal leaves."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from front_door_host import NAME, SERVER, Host, acme, location, made, wish
from gpu_stack.components.gpu_front_door import acme as by_acme
from gpu_stack.components.gpu_front_door.renewal import noted, paths


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path, monkeypatch)


def test_a_certificate_is_asked_for_once(host: Host) -> None:
    door = host.program
    door.apply(wish(**acme()))
    command = next(call for call in host.calls if call.startswith(door.CERTBOT))
    assert command.split()[1:] == [
        "certonly", "--non-interactive", "--server", SERVER, "--register-unsafely-without-email",
        "--webroot", "--webroot-path", str(host.path(door.CHALLENGES)),
        "--cert-name", "gpu-front-door-" + NAME, "--domain", NAME,
        "--agree-tos", "--keep-until-expiring",
    ]  # fmt: skip
    # The world is let in, asked for its certificate, and then to the door.
    order = [call for call in host.calls if "reload nginx" in call or call.startswith(door.CERTBOT)]
    assert order == ["systemctl reload nginx", command, "systemctl reload nginx"]
    assert host.asked_with == {"LC_ALL": "C"}
    for changed in ({}, {"hsts": True}, {"redirect": True}):
        door.apply(wish(**acme(**changed)))
    assert host.asked() == ["certonly"]
    assert door.look(wish(**acme(redirect=True)))["changes"] == []


def test_at_port_80_only_a_challenge_is_answered(host: Host) -> None:
    host.program.apply(wish(**acme()))
    site = host.text(host.program.SITE) or ""
    plain = site[site.index("listen 0.0.0.0:80;") :]
    assert location(plain, "/") == "        return 404;\n"
    asked = location(plain, "^~ /.well-known/acme-challenge/")
    assert f"root {host.program.CHALLENGES};" in asked
    host.program.apply(wish(**acme(redirect=True)))
    site = host.text(host.program.SITE) or ""
    assert site.count(":80;") == 1
    assert f"        return 301 https://{NAME}$request_uri;\n" in location(
        site[site.index(":80;") :], "/"
    )


def test_meanwhile_the_door_that_was_there_is_open(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def certbot(*_words: Any) -> None:
        seen.append(host.text(host.program.SITE) or "")
        host.issue(NAME)

    former = wish(redirect=True, port=8443)
    host.program.apply(former)
    monkeypatch.setattr(by_acme, "certbot", certbot)
    host.program.apply(wish(**acme()))
    (site,) = seen
    assert "ssl_certificate /etc/gpu-front-door/chain.pem;" in site
    assert "listen 0.0.0.0:8443 ssl;" in site
    assert site.count(":80;") == 1
    assert f"return 301 https://{NAME}:8443$request_uri;" in site
    assert "acme-challenge" in site
    # Where the name is another one both are answered.
    host.program.apply(former)
    host.program.waiting(wish(**acme()), {"settings": former})
    both = host.program.waiting(wish(**acme(name="gpu08.example.org")), {"settings": former})
    assert both.count(":80;") == 2
    assert both.count("acme-challenge") == 1


@pytest.mark.parametrize("former", [None, {}, {"name": "gpu08.example.org", "redirect": True}])
@pytest.mark.parametrize("runs", [True, False])
def test_after_a_refusal_everything_is_as_before(
    host: Host, former: dict[str, Any] | None, runs: bool
) -> None:
    door = host.program
    if former is None:
        host.write(door.BROUGHT, "x")
    else:
        door.apply(wish(**former))
    if not runs:
        host.path("/run/nginx.pid").unlink()
    ours = ("/etc/gpu-front-door", "/var/lib/gpu-front-door", "/etc/nginx", "/etc/letsencrypt")

    def files() -> dict[str, str]:
        found = [path for folder in ours for path in host.path(folder).rglob("*") if path.is_file()]
        return {str(path): path.read_text("utf-8") for path in found}

    before = files()
    host.refusal, host.calls = "There were too many requests of a given type", []
    host.write(door.GIVEN_ACME_CA, "ca\n")
    with pytest.raises(door.RefusedError, match=r"too many requests.*Hint: that is the server's"):
        door.apply(wish(**acme(given={"acme_ca": "1"})))
    assert files() == before
    assert host.asked_with["REQUESTS_CA_BUNDLE"] == str(host.path(door.ACME_TRUST))
    end = {(None, False): "disable --now", ("", False): "stop"}
    word = "reload" if runs else end[None if former is None else "", False]
    assert host.calls[-1] == f"systemctl {word} nginx"
    assert host.asked() == ["certonly"]


DNS = """\
Saving debug log to /var/log/letsencrypt/letsencrypt.log
Certbot failed to authenticate some domains (authenticator: webroot). The Certificate Authority
reported these problems:
  Domain: {0}
  Type:   dns
  Detail: DNS problem: NXDOMAIN looking up A for {0} - check that a DNS record exists
 for this domain

Hint: The Certificate Authority failed to download the temporary challenge files.

Some challenges have failed.
Ask for help or search for solutions at https://community.letsencrypt.org.
"""


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (
            DNS.format(NAME),
            f"dns: DNS problem: NXDOMAIN looking up A for {NAME} - check that a DNS record exists "
            "for this domain. Hint: the name has to lead to this host",
        ),
        (
            "Saving debug log to x\nError creating new order :: too many certificates already "
            "issued: see https://letsencrypt.org/docs/rate-limits/\n",
            "Error creating new order :: too many certificates already issued: see "
            "https://letsencrypt.org/docs/rate-limits/. Hint: that is the server's limit",
        ),
        ("x CERTIFICATE_VERIFY_FAILED y", "does not know: gpu_front_door_acme_ca"),
        ("Max retries exceeded with url", "Hint: does this host reach the ACME server?"),
        ("Another instance of Certbot is already running.", "is already running"),
        ("", "no reason"),
    ],
)
def test_certbots_reason_is_said_in_a_line(host: Host, output: str, words: str) -> None:
    found = host.program.refusal(wish(**acme()), output)
    assert found.startswith(f"certbot gets no certificate for {NAME} from {SERVER}: ")
    assert words in found
    assert "\n" not in found
    assert "debug log" not in found


@pytest.mark.parametrize(
    ("harm", "how"),
    [
        ("name", "--keep-until-expiring"), ("directory", "--force-renewal"),
        ("late", "--keep-until-expiring"), ("gone", "--keep-until-expiring"), (None, None),
    ],
)  # fmt: skip
def test_what_is_no_good_any_more_is_asked_for(
    host: Host, monkeypatch: pytest.MonkeyPatch, harm: str | None, how: str | None
) -> None:
    door = host.program
    if harm == "late":
        host.days = "19"
    door.apply(wish(**acme()))
    if harm == "late":
        # A certificate of 90 days, 19 before its end; one of 19 days would be young.
        for module in (by_acme, noted):
            monkeypatch.setattr(module, "late_from", lambda chain: door.ends(chain) - 20 * 86400)
        host.days = "90"
    options = acme()
    if harm == "name":
        options = acme(name="gpu08.example.org")
    if harm == "directory":
        known = f"/etc/letsencrypt/renewal/gpu-front-door-{NAME}.conf"
        host.write(known, "server = https://elsewhere.example.org\n")
    if harm == "gone":
        host.path(door.acme_files(NAME)[0]).unlink()
    assert bool(door.look(wish(**options))["changes"]) == (how is not None)
    host.calls.clear()
    door.apply(wish(**options))
    assert [call.split()[-1] for call in host.calls if call.startswith(door.CERTBOT)] == [how] * (
        how is not None
    )
    aside = list(host.path("/etc/letsencrypt").glob("*/*.save-*"))
    assert bool(aside) == (harm == "gone")
    assert door.look(wish(**options))["changes"] == []


@pytest.mark.parametrize(("days", "late"), [("90", 20), ("9", 2)])
def test_from_when_on_a_certificate_is_late(host: Host, days: str, late: int) -> None:
    made(host, "/c.pem", "/k.pem", days=days)
    assert host.program.ends("/c.pem") - host.program.late_from("/c.pem") == late * 86400


def test_the_hook_has_nginx_read_what_was_renewed(host: Host) -> None:
    door, wished = host.program, wish(**acme(given={"acme_ca": "1"}))
    host.write(door.GIVEN_ACME_CA, "the CA\n")
    host.write(door.SYSTEM_TRUST, "everybody\n")
    door.apply(wished)
    assert stat.S_IMODE(host.path(door.HOOK).stat().st_mode) == 0o755
    assert f'= "/etc/letsencrypt/live/gpu-front-door-{NAME}"' in (host.text(door.HOOK) or "")
    assert host.text(door.ACME_TRUST) == "everybody\nthe CA\n"
    assert f"REQUESTS_CA_BUNDLE={door.ACME_TRUST}\n" in (host.text(door.CERTBOT_ENVIRONMENT) or "")
    assert door.renew() == {"renewed": False}
    host.issue(NAME)
    assert door.look(wished)["changes"] == ["certificate"]
    host.calls.clear()
    assert door.renew() == {"renewed": True}
    assert host.calls[-1] == "systemctl reload nginx"
    assert host.text(door.CHAIN) == host.text(door.acme_files(NAME)[0])
    assert door.look(wished)["changes"] == []
    # The host trusts others by now.
    host.write(door.SYSTEM_TRUST, "all\n")
    assert door.renew() == {"renewed": False}
    assert host.text(door.ACME_TRUST) == "all\nthe CA\n"
    assert door.look(wished)["changes"] == []


def test_another_address_is_told_to_the_server(host: Host) -> None:
    door = host.program
    door.apply(wish(**acme(email="a@example.org")))
    assert "--email a@example.org --no-eff-email" in next(
        call for call in host.calls if "certonly" in call
    )
    host.calls.clear()
    door.apply(wish(**acme(email="b@example.org")))
    assert host.asked() == ["update_account"]
    host.calls.clear()
    door.apply(wish(**acme(email="b@example.org", hsts=True)))
    assert host.asked() == []


@pytest.mark.parametrize("way", ["local_ca", "gone"])
def test_certbots_files_stay_and_ours_go(host: Host, way: str) -> None:
    door = host.program
    host.write(door.GIVEN_ACME_CA, "the CA\n")
    door.apply(wish(**acme(given={"acme_ca": "1"})))
    if way == "gone":
        door.remove()
    else:
        door.apply(wish())
        assert ":80" not in (host.text(door.SITE) or "")
    there = [host.text(path) for path in (door.HOOK, door.CERTBOT_ENVIRONMENT)]
    assert there == [None, None]
    assert not host.path(door.CERTBOT_ENVIRONMENT).parent.exists()
    assert not host.path(door.CHALLENGES).exists()
    assert host.text(door.acme_files(NAME)[0])
    host.calls.clear()
    door.apply(wish(**acme()))
    assert host.asked() == []


def test_what_everybody_knows_is_not_copied(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "LETS_ENCRYPT", SERVER)
    host.program.apply(wish(**acme()))
    assert host.text(host.program.CHAIN) is None
    assert host.program.look(wish(**acme()))["changes"] == []


def test_certbot_of_snap_is_refused(host: Host) -> None:
    assert host.program.look(wish(**acme()))["certbot"] is False
    host.path("/usr/bin").mkdir()
    host.path("/usr/bin/certbot").symlink_to(host.path("/snap/bin/certbot"))
    with pytest.raises(host.program.RefusedError, match="certbot is here from snap"):
        host.program.look(wish(**acme()))
    assert host.program.look(wish())["changes"] == ["absent"]
