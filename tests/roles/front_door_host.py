"""A host for the tests of the front door, whose nginx and certbot are made up, and its wishes."""

from __future__ import annotations

import contextlib
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jinja2
import pytest
from gpu_stack.components.gpu_front_door import absent, differences, present, wishes
from gpu_stack.components.gpu_front_door import acme as by_acme
from gpu_stack.components.gpu_front_door import site as words_of
from gpu_stack.components.gpu_front_door.renewal import (
    authority,
    certificates,
    files,
    nginx,
    paths,
    programs,
)
from gpu_stack.components.gpu_front_door.renewal import program as renewal

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


def location(site: str, path: str) -> str:
    """The lines of one location."""
    match = re.search(rf"^    location {re.escape(path)} \{{\n(.*?)^    \}}", site, re.M | re.S)
    assert match, path
    return match.group(1)


def certified(host: Host, path: str) -> str:
    return subprocess.run(
        ["openssl", "x509", "-in", str(host.path(path)), "-noout", "-text"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip


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
