"""The front door on a host: the site and the page that are made, and what is put back."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import stat
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jinja2
import pytest
from gpu_stack.components.gpu_front_door import (
    absent,
    answer,
    differences,
    present,
    shipped,
    wishes,
)
from gpu_stack.components.gpu_front_door import (
    acme as by_acme,
)
from gpu_stack.components.gpu_front_door import (
    site as words_of,
)
from gpu_stack.components.gpu_front_door.renewal import (
    authority,
    certificates,
    files,
    nginx,
    noted,
    paths,
    programs,
)
from gpu_stack.components.gpu_front_door.renewal import (
    program as renewal,
)
from gpu_stack.host.refusal import RefusalError

from tests import host_tree

TEMPLATES = Path(__file__).parents[2] / "roles" / "gpu_front_door" / "templates"
# As Ansible's lookup renders them.
RENDERER = jinja2.Environment(
    trim_blocks=True,
    keep_trailing_newline=True,
    undefined=jinja2.StrictUndefined,
    loader=jinja2.FileSystemLoader(TEMPLATES),
    autoescape=False,  # noqa: S701  the page's template escapes what it is filled with
)
SITE = RENDERER.get_template("etc/nginx/sites-enabled/zz-gpu-front-door.j2")
PAGE = RENDERER.get_template("var/lib/gpu-front-door/index.html.j2")


def site(wish: dict[str, Any]) -> str:
    return SITE.render(words_of.words(wish, {})["site"])


def waiting(wish: dict[str, Any], door: dict[str, Any]) -> str:
    return SITE.render(words_of.words(wish, door)["waiting"])


def page(wish: dict[str, Any]) -> str:
    return PAGE.render(page=words_of.page(wish))


def apply(wish: dict[str, Any]) -> dict[str, Any]:
    """As the role does it: words of a look, the templates, and one call."""
    door = files.data(paths.DOOR) or {}
    texts: dict[str, str] = {}
    with contextlib.suppress(programs.RefusedError):  # apply says it itself
        wishes.check(wish)
        words = words_of.words(wish, door)
        texts = {"site": SITE.render(words["site"]), "page": PAGE.render(page=words["page"])}
        texts["waiting"] = SITE.render(words["waiting"]) if words["waiting"] else ""
    return present.apply(wish, texts)  # type: ignore[no-any-return]


NAME = "gpu07.example.org"
PORTS = "/run/gpu-workspace-ports"
ADA = {"name": "ada", "gpus": [0, 1], "port": 8801, "cpus": 2, "memory": "4g"}
BOB = {"name": "bob", "gpus": 1, "port": 8802, "tensorboard_port": 6802}
EVE = {"name": "eve", "kind": "ssh", "gpus": "none", "ssh_port": 2203, "ssh_keys": ["secret"]}
ENABLED = (
    "/etc/systemd/system/multi-user.target.wants/nginx.service",
    "/etc/systemd/system/timers.target.wants/gpu-front-door.timer",
)
CERTBOT_TIMER = "/etc/systemd/system/timers.target.wants/certbot.timer"
TAKEN = "nginx: the configuration file /etc/nginx/nginx.conf syntax is ok"
# As Debian's nginx.conf reads others, in nginx -T's own form.
CONFIGURATION = """\
# configuration file /etc/nginx/nginx.conf:
http {
    include /etc/nginx/conf.d/*.conf;
    include /etc/nginx/sites-enabled/*;
}
# configuration file /etc/nginx/sites-enabled/theirs:
"""


SERVER = "https://ca.example.org/directory"


def wish(**changed: Any) -> dict[str, Any]:
    return {
        "name": NAME, "port": 443, "address": "0.0.0.0", "tls": "local_ca", "certificate": "",  # noqa: S104
        "key": "", "redirect": False, "hsts": False, "people": [EVE, BOB, ADA],
        "given": {},
        "acme": {"agree": False, "email": "", "directory": SERVER}, **changed,
    }  # fmt: skip


def acme(**changed: Any) -> dict[str, Any]:
    """What is wished with ACME; email and directory are words of its own."""
    own = {"agree": True, "email": "", "directory": SERVER}
    own.update((key, changed.pop(key)) for key in list(changed) if key in own)
    return {"tls": "acme", "acme": own, **changed}


# Every part of the program, by name.
PROGRAM = SimpleNamespace(
    **{name: value for name, value in vars(paths).items() if name.isupper()},
    acme_files=paths.acme_files,
    RefusedError=programs.RefusedError,
    settings=wishes.settings,
    site=site,
    page=page,
    waiting=waiting,
    look=differences.looked,
    apply=apply,
    renew=renewal.renew,
    remove=absent.remove,
    serve=nginx.serve,
    certificate=authority.certificate,
    ends=certificates.ends,
    late_from=certificates.late_from,
    refusal=by_acme.refusal,
)


class Host:
    """A host with an nginx that takes what it is shown, or does not; openssl is this machine's."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.program = PROGRAM
        self.root, self.calls = root, list[str]()
        self.takes, self.theirs = "", ""
        self.reads: list[str] = []
        # What certbot answers, {name: value} of its environment, and the days of what it gets.
        self.refusal, self.asked_with, self.days = "", dict[str, str](), "90"
        self.modules = "--with-http_ssl_module --with-http_auth_request_module"
        monkeypatch.setattr(files, "ROOT", str(root))
        monkeypatch.setattr(programs, "call", self.call)
        self.write("/usr/sbin/nginx", "")
        self.write("/run/nginx.pid", "77\n")
        self.write("/proc/77/comm", "nginx\n")

    def call(
        self, command: list[str], timeout: int = 60, **environment: str
    ) -> tuple[int, str, str]:
        assert timeout > 0
        if command[0].endswith("certbot"):
            self.calls.append(" ".join(command))
            self.asked_with = environment
            if self.refusal or command[1] != "certonly":
                return int(bool(self.refusal)), "", self.refusal
            self.issue(command[command.index("--domain") + 1])
            return 0, "", ""
        if command[0] == "openssl":
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            return done.returncode, done.stdout, done.stderr
        self.calls.append(" ".join(command))
        if command[:2] == ["systemctl", "enable"]:
            for path in (*ENABLED, CERTBOT_TIMER):
                if path.rpartition("/")[2].replace(".service", "") in command:
                    self.write(path, "")
        if command[-1] == "-V":
            return 0, "", self.modules
        if command[0].endswith("nginx"):
            bad = self.takes and self.takes in (self.text(self.program.SITE) or "")
            bad = bad or not all(self.path(read).stat().st_size for read in self.reads)
            return int(bool(bad)), CONFIGURATION + self.theirs, "emerg" if bad else TAKEN
        return 0, "", ""

    def issue(self, name: str) -> None:
        """As certbot leaves it, but for its links."""
        known = f"{self.program.LETSENCRYPT}/renewal/gpu-front-door-{name}.conf"
        self.write(known, f"[renewalparams]\nserver = {SERVER}\n")
        made(self, *self.program.acme_files(name), name, self.days)

    def asked(self) -> list[str]:
        """Its commands."""
        return [call.split()[1] for call in self.calls if call.startswith(self.program.CERTBOT)]

    def path(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def write(self, path: str, text: str) -> None:
        host_tree.put(self.root, path, text)

    def text(self, path: str) -> str | None:
        return self.path(path).read_text("utf-8") if self.path(path).is_file() else None

    def listens(self, port: int) -> None:
        line = f"0: 00000000:{port:04X} 0:0 0A 0:0 00:0 0 0 0 11 1\n"
        self.write("/proc/net/tcp", "  sl local_address\n" + line)
        self.write("/proc/71/comm", "apache2\n")
        self.path("/proc/71/fd").mkdir(parents=True, exist_ok=True)
        self.path("/proc/71/fd/3").symlink_to("socket:[11]")


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path, monkeypatch)


def location(site: str, path: str) -> str:
    """The lines of one location."""
    found = re.search(rf"^    location {re.escape(path)} \{{\n(.*?)^    \}}", site, re.M | re.S)
    assert found, path
    return found.group(1)


# the site


def test_everybody_who_has_jupyter_has_a_path(host: Host) -> None:
    site = host.program.site(wish())
    assert f"proxy_pass http://unix:{PORTS}/ada.jupyter;" in location(site, "/ada/")
    assert f"proxy_pass http://unix:{PORTS}/bob.jupyter;" in location(site, "/bob/")
    assert "/eve" not in site
    assert "return 404;" in location(site, "/")
    assert f"if ($host != {NAME}) {{\n        return 404;" in site
    assert "@" not in re.sub(r"@login_bob", "", site)


def test_a_kernel_can_stay_silent_for_a_day_and_be_reached_by_a_websocket(host: Host) -> None:
    site = host.program.site(wish())
    for line in (
        "proxy_http_version 1.1;", "proxy_set_header Host $http_host;",
        "proxy_set_header Upgrade $http_upgrade;",
        "proxy_set_header Connection $gpu_front_door_connection;",
        "proxy_set_header X-Forwarded-Proto https;", "proxy_read_timeout 1d;",
        "proxy_buffering off;", "client_max_body_size 512m;",
        "ssl_protocols TLSv1.2 TLSv1.3;",
    ):  # fmt: skip
        assert f"    {line}\n" in site


def test_no_log_has_a_query(host: Host) -> None:
    site = host.program.site(wish(redirect=True))
    shape = site.partition("log_format")[2].partition(";")[0]
    for word in (
        "$request ",
        "$request_uri",
        "$args",
        "$query_string",
        "$http_referer",
        "$is_args",
    ):
        assert word not in shape + " "
    assert site.count("access_log /var/log/nginx/gpu-front-door.log gpu_front_door;") == 2
    assert site.count("error_log /var/log/nginx/gpu-front-door.error.log emerg;") == 2


def test_a_board_is_asked_for_at_jupyters_own_door(host: Host) -> None:
    site = host.program.site(wish())
    board = location(site, "/bob/tensorboard/")
    assert "auth_request /bob/tensorboard-asks;" in board
    assert f"proxy_pass http://unix:{PORTS}/bob.tensorboard;" in board
    asks = location(site, "= /bob/tensorboard-asks")
    assert "internal;" in asks
    assert f"proxy_pass http://unix:{PORTS}/bob.jupyter:/bob/api/status;" in asks
    assert "tensorboard" not in host.program.site(wish(people=[ADA]))


def test_nothing_behind_the_door_is_a_port_that_a_login_could_open(host: Host) -> None:
    """Whoever bound it while a container started anew was sent cookies and tokens (M6)."""
    passed = re.findall(r"proxy_pass (\S+);", host.program.site(wish()))
    assert len(passed) == 4
    assert [one for one in passed if not one.startswith(f"http://unix:{PORTS}/")] == []


@pytest.mark.parametrize(
    ("user", "wrong"), [("www-data", False), ("nginx", True), ("nginx www-data", False)]
)
def test_an_nginx_that_cannot_open_the_ways_is_refused(host: Host, user: str, wrong: bool) -> None:
    host.theirs = f"user {user};\n"
    if wrong:
        with pytest.raises(host.program.RefusedError, match=f"nginx works as {user} here"):
            host.program.look(wish())
    else:
        host.program.look(wish())


@pytest.mark.parametrize(
    ("changed", "there", "not_there"),
    [
        ({}, "location = /ca.crt", "Strict-Transport-Security"),
        ({"hsts": True}, "Strict-Transport-Security", ":80;"),
        ({"address": "192.0.2.7", "port": 8443}, "listen 192.0.2.7:8443 ssl;", "0.0.0.0"),  # noqa: S104
        (
            {"address": "::"},
            "    listen 0.0.0.0:443 ssl;\n    listen [::]:443 ssl;\n",
            ":80",
        ),
        (
            {"address": "::", "redirect": True},
            "    listen 0.0.0.0:80;\n    listen [::]:80;\n",
            "[::]:80 ",
        ),
        ({"address": "2001:db8::7"}, "    listen [2001:db8::7]:443 ssl;\n", "0.0.0.0"),  # noqa: S104
        ({"redirect": True}, f"return 301 https://{NAME}$request_uri;", "xyz"),
        (
            {"redirect": True, "port": 8443},
            f"return 301 https://{NAME}:8443$request_uri;",
            ":443 ssl",
        ),
        (
            {"tls": "host", "certificate": "/c.pem", "key": "/k.pem"},
            "ssl_certificate /c.pem;\n    ssl_certificate_key /k.pem;",
            "/ca.crt",
        ),
        ({"tls": "given"}, "ssl_certificate /etc/gpu-front-door/chain.pem;", "/ca.crt"),
    ],
)
def test_what_else_is_wished_is_in_the_site(
    host: Host, changed: dict[str, Any], there: str, not_there: str
) -> None:
    site = host.program.site(wish(**changed))
    assert there in site
    assert not_there not in site


def test_strict_transport_is_said_on_the_page_too(host: Host) -> None:
    """Where a location has headers of its own nginx forgets those of its server."""
    assert "Strict-Transport-Security" in location(host.program.site(wish(hsts=True)), "= /")


# the page


def test_the_page_tells_who_has_what(host: Host) -> None:
    page = host.program.page(host.program.settings(wish()))
    rows = re.findall(r'<tr><th scope="row">(\w+)</th>(.*?)</tr>', page)
    assert [name for name, _ in rows] == ["ada", "bob", "eve"]
    told = dict(rows)
    assert '<a href="/ada/">Jupyter</a>' in told["ada"]
    assert "GPU 0, GPU 1" in told["ada"]
    assert "2 CPUs, 4G memory" in told["ada"]
    assert '<a href="/bob/tensorboard/">TensorBoard</a>' in told["bob"]
    assert "<td>1 GPU</td>" in told["bob"]
    assert f"<code>ssh -p 2203 eve@{NAME}</code>" in told["eve"]
    assert "secret" not in page
    assert "<script" not in page


def test_nothing_that_is_written_becomes_markup(host: Host) -> None:
    people = [{"name": "a<b>", "gpus": ["<i>"], "ssh_port": "<u>", "memory": "<s>"}]
    page = host.program.page(wish(people=people, name="<n>"))
    assert not re.search(r"<(b|i|u|s|n)>", page.lower())


# certificates


def certified(host: Host, path: str) -> str:
    return subprocess.run(
        ["openssl", "x509", "-in", str(host.path(path)), "-noout", "-text"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip


def test_an_authority_of_one_name_and_a_certificate_of_it(host: Host) -> None:
    said = host.program.apply(wish())
    authority, own = certified(host, host.program.CA), certified(host, host.program.CHAIN)
    assert "X509v3 Name Constraints: critical\n                Permitted:\n" in authority
    assert f"DNS:{NAME}\n" in authority
    assert "TLS Web Server Authentication" in authority
    assert "CA:TRUE, pathlen:0" in authority
    assert f"X509v3 Subject Alternative Name: \n                DNS:{NAME}\n" in own
    assert "CA:FALSE" in own
    assert said["fingerprint"].count(":") == 31
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
    ca = [str(host.path(one)) for one in (host.program.CA, host.program.CA_KEY)]
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
        one: host.text(one) for one in (host.program.CA, host.program.CHAIN, host.program.KEY)
    }
    host.program.apply(wish(hsts=True))
    assert {one: host.text(one) for one in before} == before
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
    one, changed = host.program, {}
    if tls == "given":
        made(host, one.GIVEN, one.GIVEN_KEY, days="300")
        changed = {"tls": "given", "certificate": "/x", "key": "/y", "given": {"key": "1"}}
    one.apply(wish(**changed))
    made(host, one.CHAIN, one.KEY, days="300")
    before = host.text(one.DOOR)
    host.calls.clear()
    assert one.renew() == {"renewed": False}
    assert host.calls == []
    assert host.text(one.DOOR) == before
    assert one.look(wish(**changed))["changes"] == [one.CHAIN, one.KEY]


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


def made(host: Host, chain: str, key: str, name: str = NAME, days: str = "3") -> None:
    for path in (chain, key):
        host.path(path).parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
            "-nodes", "-days", days, "-subj", f"/CN={name}",
            "-addext", f"subjectAltName=DNS:{name}",
            "-keyout", str(host.path(key)), "-out", str(host.path(chain)),
        ],
        check=True, capture_output=True,
    )  # fmt: skip


def test_a_key_that_nobody_reads_any_more_is_not_kept(host: Host) -> None:
    host.program.apply(wish())
    made(host, "/c.pem", "/k.pem")
    host.program.apply(wish(tls="host", certificate="/c.pem", key="/k.pem"))
    assert host.text(host.program.KEY) is None
    assert host.text(host.program.CHAIN) is None
    assert host.program.look(wish(tls="host", certificate="/c.pem", key="/k.pem"))["changes"] == []


@pytest.mark.parametrize("tls", ["given", "host"])
def test_an_authority_that_nobody_asks_any_more_is_not_kept(host: Host, tls: str) -> None:
    one = host.program
    one.apply(wish())
    one.apply(wish(name="gpu08.example.org"))
    files = {"tls": tls, "certificate": "/c.pem", "key": "/k.pem"}
    made(host, *(("/c.pem", "/k.pem") if tls == "host" else (one.GIVEN, one.GIVEN_KEY)))
    assert host.text(one.CA_KEY + ".save")
    one.apply(wish(**files))
    mine = {"brought", "door.json"} | ({"chain.pem", "key.pem"} if tls == "given" else set())
    assert {path.name for path in host.path(one.PLACE).iterdir()} <= mine
    one.apply(wish())
    assert f"DNS:{NAME}" in certified(host, one.CA)


@pytest.mark.parametrize("name", ["CA", "CA_KEY"])
@pytest.mark.parametrize("content", ["", "no PEM", "another"])
def test_a_damaged_authority_is_made_anew(host: Host, name: str, content: str) -> None:
    one = host.program
    one.apply(wish())
    path = getattr(one, name)
    if content == "another":
        made(host, "/c.pem", "/k.pem")
        content = host.text("/c.pem" if name == "CA" else "/k.pem") or ""
    host.write(path, content)
    one.certificate(NAME)
    one.apply(wish())
    assert one.look(wish())["changes"] == []
    assert host.text(path + ".save") == content
    subprocess.run(
        ["openssl", "verify", "-CAfile", str(host.path(one.CA)), str(host.path(one.CHAIN))],
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
    one = host.program
    files = {"tls": "given", "certificate": "/x", "key": "/y", "given": {"key": "1"}}
    made(host, one.GIVEN, one.GIVEN_KEY)
    one.apply(wish(**files))
    assert host.text(one.GIVEN_KEY) is None
    before = {path: host.text(path) for path in (one.CHAIN, one.KEY, one.SITE, one.DOOR)}
    made(host, one.GIVEN, one.GIVEN_KEY, "other.example.org" if harm == "name" else NAME)
    if harm == "key":
        made(host, "/somewhere", one.GIVEN_KEY)
    if harm == "gone":
        host.path(one.GIVEN_KEY).unlink()
    if harm == "text":
        host.write(one.GIVEN, "no certificate\n")
    with pytest.raises(one.RefusedError, match=words):
        one.apply(wish(**{**files, "given": {"key": "2"}}))
    assert {path: host.text(path) for path in before} == before


# ACME


def test_a_certificate_is_asked_for_once(host: Host) -> None:
    one = host.program
    one.apply(wish(**acme()))
    command = next(said for said in host.calls if said.startswith(one.CERTBOT))
    assert command.split()[1:] == [
        "certonly", "--non-interactive", "--server", SERVER, "--register-unsafely-without-email",
        "--webroot", "--webroot-path", str(host.path(one.CHALLENGES)),
        "--cert-name", "gpu-front-door-" + NAME, "--domain", NAME,
        "--agree-tos", "--keep-until-expiring",
    ]  # fmt: skip
    # The world is let in, asked for its certificate, and then to the door.
    order = [said for said in host.calls if "reload nginx" in said or said.startswith(one.CERTBOT)]
    assert order == ["systemctl reload nginx", command, "systemctl reload nginx"]
    assert host.asked_with == {"LC_ALL": "C"}
    for changed in ({}, {"hsts": True}, {"redirect": True}):
        one.apply(wish(**acme(**changed)))
    assert host.asked() == ["certonly"]
    assert one.look(wish(**acme(redirect=True)))["changes"] == []


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
    one = host.program
    if former is None:
        host.write(one.BROUGHT, "x")
    else:
        one.apply(wish(**former))
    if not runs:
        host.path("/run/nginx.pid").unlink()
    ours = ("/etc/gpu-front-door", "/var/lib/gpu-front-door", "/etc/nginx", "/etc/letsencrypt")

    def files() -> dict[str, str]:
        found = [path for one in ours for path in host.path(one).rglob("*") if path.is_file()]
        return {str(path): path.read_text("utf-8") for path in found}

    before = files()
    host.refusal, host.calls = "There were too many requests of a given type", []
    host.write(one.GIVEN_ACME_CA, "ca\n")
    with pytest.raises(one.RefusedError, match=r"too many requests.*Hint: that is the server's"):
        one.apply(wish(**acme(given={"acme_ca": "1"})))
    assert files() == before
    assert host.asked_with["REQUESTS_CA_BUNDLE"] == str(host.path(one.ACME_TRUST))
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
    ("said", "words"),
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
def test_certbots_reason_is_said_in_a_line(host: Host, said: str, words: str) -> None:
    found = host.program.refusal(wish(**acme()), said)
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
    one = host.program
    if harm == "late":
        host.days = "19"
    one.apply(wish(**acme()))
    if harm == "late":
        # A certificate of 90 days, 19 before its end; one of 19 days would be young.
        for module in (by_acme, noted):
            monkeypatch.setattr(module, "late_from", lambda chain: one.ends(chain) - 20 * 86400)
        host.days = "90"
    told = acme()
    if harm == "name":
        told = acme(name="gpu08.example.org")
    if harm == "directory":
        known = f"/etc/letsencrypt/renewal/gpu-front-door-{NAME}.conf"
        host.write(known, "server = https://elsewhere.example.org\n")
    if harm == "gone":
        host.path(one.acme_files(NAME)[0]).unlink()
    assert bool(one.look(wish(**told))["changes"]) == (how is not None)
    host.calls.clear()
    one.apply(wish(**told))
    assert [said.split()[-1] for said in host.calls if said.startswith(one.CERTBOT)] == [how] * (
        how is not None
    )
    aside = list(host.path("/etc/letsencrypt").glob("*/*.save-*"))
    assert bool(aside) == (harm == "gone")
    assert one.look(wish(**told))["changes"] == []


@pytest.mark.parametrize(("days", "late"), [("90", 20), ("9", 2)])
def test_from_when_on_a_certificate_is_late(host: Host, days: str, late: int) -> None:
    made(host, "/c.pem", "/k.pem", days=days)
    assert host.program.ends("/c.pem") - host.program.late_from("/c.pem") == late * 86400


def test_the_hook_has_nginx_read_what_was_renewed(host: Host) -> None:
    one, told = host.program, wish(**acme(given={"acme_ca": "1"}))
    host.write(one.GIVEN_ACME_CA, "the CA\n")
    host.write(one.SYSTEM_TRUST, "everybody\n")
    one.apply(told)
    assert stat.S_IMODE(host.path(one.HOOK).stat().st_mode) == 0o755
    assert f'= "/etc/letsencrypt/live/gpu-front-door-{NAME}"' in (host.text(one.HOOK) or "")
    assert host.text(one.ACME_TRUST) == "everybody\nthe CA\n"
    assert f"REQUESTS_CA_BUNDLE={one.ACME_TRUST}\n" in (host.text(one.CERTBOT_ENVIRONMENT) or "")
    assert one.renew() == {"renewed": False}
    host.issue(NAME)
    assert one.look(told)["changes"] == ["certificate"]
    host.calls.clear()
    assert one.renew() == {"renewed": True}
    assert host.calls[-1] == "systemctl reload nginx"
    assert host.text(one.CHAIN) == host.text(one.acme_files(NAME)[0])
    assert one.look(told)["changes"] == []
    # The host trusts others by now.
    host.write(one.SYSTEM_TRUST, "all\n")
    assert one.renew() == {"renewed": False}
    assert host.text(one.ACME_TRUST) == "all\nthe CA\n"
    assert one.look(told)["changes"] == []


def test_another_address_is_told_to_the_server(host: Host) -> None:
    one = host.program
    one.apply(wish(**acme(email="a@example.org")))
    assert "--email a@example.org --no-eff-email" in next(
        said for said in host.calls if "certonly" in said
    )
    host.calls.clear()
    one.apply(wish(**acme(email="b@example.org")))
    assert host.asked() == ["update_account"]
    host.calls.clear()
    one.apply(wish(**acme(email="b@example.org", hsts=True)))
    assert host.asked() == []


@pytest.mark.parametrize("way", ["local_ca", "gone"])
def test_certbots_files_stay_and_ours_go(host: Host, way: str) -> None:
    one = host.program
    host.write(one.GIVEN_ACME_CA, "the CA\n")
    one.apply(wish(**acme(given={"acme_ca": "1"})))
    if way == "gone":
        one.remove()
    else:
        one.apply(wish())
        assert ":80" not in (host.text(one.SITE) or "")
    there = [host.text(path) for path in (one.HOOK, one.CERTBOT_ENVIRONMENT)]
    assert there == [None, None]
    assert not host.path(one.CERTBOT_ENVIRONMENT).parent.exists()
    assert not host.path(one.CHALLENGES).exists()
    assert host.text(one.acme_files(NAME)[0])
    host.calls.clear()
    one.apply(wish(**acme()))
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


# nginx


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
    one, name = host.program, "gpu08.example.org"
    one.apply(wish())
    paths = (one.SITE, one.PAGE, one.CHAIN, one.KEY, one.CA, one.CA_KEY, one.DOOR)
    before = {path: host.text(path) for path in paths}
    changed = {"name": name}
    if tls == "given":
        made(host, one.GIVEN, one.GIVEN_KEY, name)
        changed |= {"tls": tls, "certificate": "/x", "key": "/y"}
    host.takes = name
    with pytest.raises(one.RefusedError, match="has the former one again"):
        one.apply(wish(**changed))
    assert {path: host.text(path) for path in paths} == before
    for path in (one.KEY, one.CA_KEY):
        assert stat.S_IMODE(host.path(path).stat().st_mode) == 0o600
    assert one.look(wish())["changes"] == []


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


# the end


def test_what_we_brought_goes_where_nobody_else_uses_it(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def call(command: list[str], timeout: int = 60) -> tuple[int, str, str]:
        if command[0] == "dpkg-query":
            return 0, "nginx ii \nnginx-common ii \nnginx-extras un \nlibnginx-mod-x rc \n", ""
        return host.call(command, timeout)

    host.write(host.program.BROUGHT, "x")
    host.program.apply(wish())
    monkeypatch.setattr(programs, "call", call)
    assert host.program.look({**wish(), "name": ""})["gone"] is True
    found = host.program.remove()
    assert found == {"packages": ["nginx", "nginx-common"], "alone": True}
    assert host.text(host.program.SITE) is None
    assert not host.path("/var/lib/gpu-front-door").exists()


def test_the_nginx_of_the_fleets_cache_stays(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads no site of the host's, so that it is not seen among these."""
    host.write(host.program.BROUGHT, "x")
    host.write("/etc/gpu-artifact-cache/nginx.conf", "x")
    host.program.apply(wish())
    asked = "nginx's packages are asked for"
    monkeypatch.setattr(absent, "_going", lambda: pytest.fail(asked))
    assert host.program.remove()["packages"] == []


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (0, "Remv python3-certbot-nginx [2.1.0-1]\nRemv nginx [1.22.1-9] []\n"),
        (100, "E: dpkg was interrupted\n"),
    ],
)
def test_an_nginx_that_others_need_stays(
    host: Host, monkeypatch: pytest.MonkeyPatch, code: int, said: str
) -> None:
    def call(command: list[str], timeout: int = 60) -> tuple[int, str, str]:
        if command[0] == "dpkg-query":
            return 0, "nginx ii \nnginx-common ii \n", ""
        if command[0] == "apt-get":
            assert command == ["apt-get", "--simulate", "remove", "nginx", "nginx-common"]
            return code, said, ""
        return host.call(command, timeout)

    host.write(host.program.BROUGHT, "x")
    host.program.apply(wish())
    host.calls.clear()
    monkeypatch.setattr(programs, "call", call)
    assert host.program.remove() == {"packages": [], "alone": False}
    assert "systemctl reload nginx" in host.calls
    assert not [call for call in host.calls if "--now nginx" in call]


@pytest.mark.parametrize(
    "theirs", ["/etc/nginx/conf.d/theirs.conf", "", "/etc/nginx/sites-enabled/x"]
)
def test_an_nginx_of_others_stays_and_is_reloaded(host: Host, theirs: str) -> None:
    if theirs:
        host.write(host.program.BROUGHT, "x")
        host.write(theirs, "server {}")
    host.program.apply(wish())
    host.calls.clear()
    assert host.program.remove() == {"packages": [], "alone": False}
    assert "systemctl reload nginx" in host.calls
    assert not [call for call in host.calls if "--now nginx" in call or "enable nginx" in call]


@pytest.mark.parametrize("library", [True, False])
def test_what_renews_goes_with_the_door(host: Host, library: bool) -> None:
    """Of an earlier version there is one file and no library."""
    host.program.apply(wish())
    for path in shipped.FILES:
        if library or not path.startswith(paths.LIBRARY):
            host.write(path, "x")
    if library:
        host.write(paths.LIBRARY + "/renewal/of-a-former-version.py", "x")
        host.path("/usr/local/sbin/gpu-front-door").unlink()
        host.path("/usr/local/sbin/gpu-front-door").mkdir()
    host.calls.clear()
    host.program.remove()
    assert [path for path in (*shipped.FILES, paths.LIBRARY) if host.path(path).exists()] == []
    assert host.path("/usr/local/sbin").is_dir()
    assert host.calls[-1] == "systemctl daemon-reload"
    # What it knew goes last, after nginx's packages.
    assert host.path(paths.PLACE).is_dir()


def test_a_door_that_nginx_goes_on_to_serve_is_not_called_gone(host: Host) -> None:
    host.program.apply(wish())
    host.write("/theirs.pem", "")
    host.reads = ["/theirs.pem"]
    with pytest.raises(host.program.RefusedError, match="still has the door in memory"):
        host.program.remove()
    assert host.program.look({**wish(), "name": ""})["gone"] is True
    host.reads = []
    host.calls.clear()
    assert host.program.remove() == {"packages": [], "alone": False}
    assert "systemctl reload nginx" in host.calls


def test_without_a_door_there_is_nothing_to_look_at(host: Host) -> None:
    found = host.program.look({**wish(), "name": ""})
    assert found == {"here": False, "nginx": True, "changes": [], "gone": False}
    assert host.calls == []


# the module


def answered(state: str, dry: bool = False, **changed: Any) -> dict[str, Any]:
    """What the module returns; `failed` where it does."""
    door = wish(**changed)
    words = words_of.words(door, files.data(paths.DOOR) or {})
    texts = {"site": SITE.render(words["site"]), "page": page(door), "waiting": ""}
    try:
        result = answer.settle({"state": state, "door": door, "patience": 0, **texts}, dry)
    except RefusalError as error:
        return {"failed": True, "msg": str(error)}
    return {"failed": False, **result}


def test_in_check_mode_nothing_is_written_and_a_second_time_nothing_is_done(host: Host) -> None:
    found = answered("present", dry=True)
    assert found["would"] == "Would change the front door: absent"
    assert (found["changed"], host.text(paths.SITE), host.text(paths.DOOR)) == (True, None, None)
    found = answered("present")
    assert (found["failed"], found["changed"]) == (False, True)
    assert found["fingerprint"].count(":") == 31
    host.calls.clear()
    found = answered("present")
    assert (found["changed"], found["changes"], found.get("diff")) == (False, [], None)
    assert host.calls == []
    found = answered("present", dry=True, hsts=True)
    assert found["changes"] == ["other settings"]
    page_of, site_of = found["diff"]
    assert page_of["before"] == page_of["after"] == host.text(paths.PAGE)
    assert site_of["before"] == host.text(paths.SITE)
    assert "Strict-Transport-Security" in site_of["after"]


def test_a_site_that_is_not_taken_is_a_failure_of_one_sentence(host: Host) -> None:
    host.takes = "ada.jupyter;"
    found = answered("present")
    assert found == {
        "failed": True,
        "msg": "nginx rejects the door's site, and has the former one again: emerg.",
    }


def test_a_door_is_taken_away_once(host: Host) -> None:
    host.program.apply(wish())
    found = answered("absent", dry=True)
    assert (found["changed"], found["would"]) == (True, "Would remove the front door")
    assert host.text(paths.SITE)
    assert answered("absent")["changed"] is True
    assert host.text(paths.SITE) is None
    host.path(paths.BROUGHT).unlink(missing_ok=True)
    shutil.rmtree(host.path(paths.PLACE))
    host.calls.clear()
    assert answered("absent") == {"failed": False, "changed": False, "packages": []}
    assert host.calls == []


def test_a_door_that_can_not_be_taken_away_says_what_to_do(host: Host) -> None:
    host.program.apply(wish())
    host.write("/theirs.pem", "")
    host.reads = ["/theirs.pem"]
    found = answered("absent")
    assert found["failed"]
    assert found["msg"].startswith("nginx still has the door in memory, and reads no more: emerg")
    assert found["msg"].endswith(". Repair that, then run again.")
