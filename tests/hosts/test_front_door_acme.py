"""A certificate by ACME: from a bare Debian 12 to a door with a certificate that a CA has issued.

The CA is pebble, Let's Encrypt's own test server, from Debian's archive, on the host itself; what
asks it is Debian's certbot, and what it asks in turn is port 80 of the host's nginx. The role is
alone here, so what stands for a Jupyter, where systemd would lead to one, is a tiny server
that lets nobody in.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pebble
import pytest
from pebble import DIRECTORY

from provision import locallab
from tests.collection import GPU_STACK, own_project

pytestmark = [pytest.mark.slow]

NAME = "gpu07.example.org"
LINEAGE = f"/etc/letsencrypt/live/gpu-front-door-{NAME}"
SITE = "/etc/nginx/sites-enabled/zz-gpu-front-door"
JUPYTER = """\
import http.server, os, shutil, socketserver
class Nobody(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(403)
        self.end_headers()
    def log_message(self, *words):
        pass
path = "/run/gpu-workspace-ports/ada.jupyter"
os.makedirs(os.path.dirname(path), exist_ok=True)
server = socketserver.UnixStreamServer(path, Nobody)
shutil.chown(path, group="www-data")
os.chmod(path, 0o660)
server.serve_forever()
"""
# What a door consists of, and what a run that is refused must not change.
PICTURE = (
    "find /etc/nginx /etc/gpu-front-door /var/lib/gpu-front-door /etc/systemd/system"
    " /etc/letsencrypt/live /etc/letsencrypt/renewal /etc/letsencrypt/renewal-hooks -type f -print0"
    " | sort -z | xargs -0 sha256sum"
)
PLAN = """\
import json, sys
sys.path.insert(0, "/root/look")
from gpu_stack.components import gpu_front_door
from gpu_stack.host.context import Context
options = json.loads(sys.argv[1])
here = Context(options=options)
found = gpu_front_door.differ({}, gpu_front_door.look(here), options)
print(json.dumps([one["item"] for one in found]))
"""


@dataclass
class Host:
    """A host, the playbook that gives it the door alone, and an ACME server."""

    directory: Path
    lab: locallab.Lab

    def root(self, *command: str, stdin: str = "") -> str:
        """What a command prints as root; it must succeed. A single word is bash's."""
        container = self.lab.hosts[0].container
        words = command if len(command) > 1 else ("bash", "-ec", *command)
        arguments = ("exec", "--interactive", container, *words)
        return self.lab.podman.call(*arguments, stdin=stdin.encode()).strip()

    def words(self, **options: Any) -> dict[str, Any]:
        return {
            "gpu_front_door_name": NAME,
            "gpu_front_door_tls": "acme",
            "gpu_front_door_acme_agree": True,
            "gpu_front_door_acme_directory": DIRECTORY,
            "gpu_front_door_acme_ca": str(self.directory / "ca.crt"),
            "gpu_front_door_people": [{"name": "ada", "gpus": "none", "port": 8801}],
            "gpu_front_door_patience": 10,
            **options,
        }

    def play(self, **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                str(Path(sys.executable).parent / "ansible-playbook"), "-i", "hosts.yml",
                "door.yml", "-e", json.dumps(self.words(**options)),
            ],
            cwd=self.directory, capture_output=True, text=True, check=False,
            env={**os.environ, "ANSIBLE_CONFIG": str(self.directory / "ansible.cfg")},
        )  # fmt: skip

    def becomes(self, **options: Any) -> None:
        """One run, one that changes nothing, and an empty plan."""
        first = self.play(**options)
        assert first.returncode == 0, first.stdout[-6000:] + first.stderr
        again = self.play(**options)
        assert again.returncode == 0, again.stdout[-6000:]
        assert "changed=0" in again.stdout, again.stdout[-6000:]
        assert self.plan(**options) == []

    def refused(self, **options: Any) -> str:
        done = self.play(**options)
        assert done.returncode != 0, done.stdout[-6000:]
        (message,) = re.findall(r'"msg": "(.*?)"\s*\}', done.stdout, re.S)
        return str(json.loads(f'"{message}"'))

    def plan(self, **options: Any) -> Any:
        wished = self.words(**options)
        wished["gpu_workspaces"] = wished.pop("gpu_front_door_people")
        file = wished["gpu_front_door_acme_ca"]
        if file:
            ca = self.root("sha256sum /srv/pebble/ca.crt").split()[0]
            wished["gpu_front_door_given"] = {"acme_ca": ca}
        return json.loads(self.root(f"python3 - '{json.dumps(wished)}'", stdin=PLAN))

    def shown(self, authority: str | None = None) -> str:
        """The serial of the certificate that somebody at another machine is shown."""
        context = ssl.create_default_context(cadata=authority or pebble.authority(self.root))
        address = self.lab.hosts[0].address
        with (
            socket.create_connection((address, 443), timeout=30) as plain,
            context.wrap_socket(plain, server_hostname=NAME) as shown,
        ):
            found = shown.getpeercert()
        assert found is not None
        return str(found["serialNumber"])

    def serial(self) -> str:
        """That of the certificate that certbot has."""
        output = self.root(f"openssl x509 -in {LINEAGE}/cert.pem -noout -serial")
        return output.partition("=")[2]

    def issued(self) -> int:
        """How many certificates pebble has issued."""
        return int(self.root("journalctl -u pebble -o cat | grep -c 'Issued certificate' || true"))

    def open_ports(self) -> set[int]:
        """Those on which the world is listened to."""
        lines = self.root("ss -Hltn | awk '{print $4}'").split()
        return {int(line.rpartition(":")[2]) for line in lines if not line.startswith("127.")}

    def plain(self, path: str) -> tuple[int, str | None]:
        """(status, where it leads) of port 80."""
        client = http.client.HTTPConnection(self.lab.hosts[0].address, 80, timeout=30)
        client.request("GET", path, headers={"Host": NAME})
        answer = client.getresponse()
        return answer.status, answer.headers.get("Location")

    def nginx(self) -> str:
        return self.root("cat /run/nginx.pid")


@contextmanager
def started(directory: Path) -> Iterator[Host]:
    """A bare host on which pebble is at work, and nothing of the door."""
    lab = locallab.up(
        f"acme-{os.getpid()}",
        locallab.Shape(platform="debian12"),
        state_dir=directory / ".lab",
        hosts=["door01"],
    )
    try:
        own_project(directory, lab.inventory(group="gpu"), door="gpu_front_door")
        made = Host(directory, lab)
        made.root("mkdir -p /root/look")
        lab.podman.call("cp", str(GPU_STACK), f"{lab.hosts[0].container}:/root/look/gpu_stack")
        (directory / "ca.crt").write_text(pebble.start(made.root, NAME), "utf-8")
        made.root("cat > /srv/pebble/jupyter.py", stdin=JUPYTER)
        made.root("systemd-run --unit jupyter python3 /srv/pebble/jupyter.py 2>&1")
        yield made
    finally:
        lab.down()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with started(tmp_path_factory.mktemp("acme")) as made:
        yield made


def test_a_bare_host_is_left_without_half_a_door(host: Host) -> None:
    """Nobody's DNS knows that name."""
    message = host.refused(gpu_front_door_name="nowhere.example.org")
    assert f"certbot gets no certificate for nowhere.example.org from {DIRECTORY}: " in message
    assert "Hint: the name has to lead to this host in the DNS" in message
    assert len(message) < 900
    assert host.root("dpkg-query -W python3-apt 2>/dev/null || true") == ""
    assert not host.open_ports() & {80, 443}
    assert (
        host.root("ls /etc/nginx/sites-enabled; systemctl is-enabled nginx || true") == "disabled"
    )


def test_without_a_word_on_the_terms_nobody_is_asked(host: Host) -> None:
    assert "gpu_front_door_acme_agree: true" in host.refused(gpu_front_door_acme_agree=False)


def test_a_ca_that_the_host_does_not_know_is_said(host: Host) -> None:
    message = host.refused(gpu_front_door_acme_ca="")
    assert message.strip().endswith(
        "is of a CA that this host does not know: gpu_front_door_acme_ca."
    )


def test_from_bare_to_a_certificate_that_was_issued(host: Host) -> None:
    host.becomes()
    assert host.shown() == host.serial()
    assert host.issued() == 1
    assert host.open_ports() >= {80, 443}
    assert host.root("systemctl is-enabled certbot.timer") == "enabled"
    assert host.root("systemctl is-active certbot.timer") == "active"
    assert host.root("find /etc/letsencrypt/accounts -name regr.json | wc -l") == "1"
    for path in ("/", "/ada/", "/.well-known/acme-challenge/x", "/.well-known/"):
        assert host.plain(path) == (404, None)


def test_it_is_not_asked_for_again(host: Host) -> None:
    host.becomes(gpu_front_door_hsts=True)
    host.becomes(gpu_front_door_redirect=True, gpu_front_door_address="::")
    assert host.issued() == 1
    listening = set(host.root("ss -Hltn | awk '{print $4}'").split())
    assert {"0.0.0.0:443", "[::]:443", "0.0.0.0:80", "[::]:80"} <= listening
    assert host.plain("/ada/?a=b") == (301, f"https://{NAME}/ada/?a=b")
    assert host.plain("/.well-known/acme-challenge/x") == (404, None)
    host.becomes()


def test_what_certbots_timer_renews_nginx_serves(host: Host) -> None:
    """By what certbot.service has in its environment, forced, for it is not due."""
    before, runs = host.serial(), host.nginx()
    renewed = host.root(
        "env $(systemctl show --property Environment --value certbot.service)"
        " certbot renew --force-renewal --no-random-sleep-on-renew 2>&1"
    )
    assert "all renewals succeeded" in renewed
    assert host.serial() != before
    assert host.shown() == host.serial()
    assert host.nginx() == runs
    assert host.plan() == []
    # Of somebody else's certificate the hook does nothing.
    hook = "/etc/letsencrypt/renewal-hooks/deploy/gpu-front-door"
    assert host.root(f"RENEWED_LINEAGE=/etc/letsencrypt/live/other {hook}") == ""
    host.becomes()
    assert host.issued() == 2


def test_a_server_that_says_no_leaves_the_door_that_is_there(host: Host) -> None:
    before, runs = host.root(PICTURE), host.nginx()
    message = host.refused(gpu_front_door_name="nowhere.example.org", gpu_front_door_redirect=True)
    assert "Hint: the name has to lead to this host" in message
    assert host.root(PICTURE) == before
    assert host.shown() == host.serial()
    assert host.nginx() == runs
    assert host.plan() == []


def test_another_directory_is_asked(host: Host) -> None:
    other = pebble.OTHER
    assert host.plan(gpu_front_door_acme_directory=other) == [f"front door {NAME}", "certificate"]
    host.becomes(gpu_front_door_acme_directory=other, gpu_front_door_acme_email="a@example.org")
    assert host.issued() == 3
    assert host.shown() == host.serial()
    host.becomes(gpu_front_door_acme_directory=other, gpu_front_door_acme_email="b@example.org")
    assert host.issued() == 3


def test_an_authority_of_the_hosts_own_and_back(host: Host) -> None:
    other = {"gpu_front_door_acme_directory": pebble.OTHER}
    host.becomes(gpu_front_door_tls="local_ca", **other)
    host.shown(host.root("cat /etc/gpu-front-door/ca.crt") + "\n")
    assert 80 not in host.open_ports()
    gone = "ls -d /etc/letsencrypt/renewal-hooks/deploy/* /etc/systemd/system/certbot.service.d"
    assert host.root(f"{gone} /etc/gpu-front-door/acme* 2>/dev/null || true") == ""
    host.becomes(**other)
    assert host.shown() == host.serial()
    assert host.issued() == 3


def test_the_door_goes_and_certbots_files_stay(host: Host) -> None:
    host.becomes(gpu_front_door_name="")
    assert not host.open_ports() & {80, 443}
    assert (
        host.root("ls -A /etc/letsencrypt/renewal-hooks/deploy; ls -d /etc/gpu-front* || true")
        == ""
    )
    assert host.root(f"ls -d {LINEAGE}; dpkg-query -W -f '${{db:Status-Status}}' certbot") == (
        f"{LINEAGE}\ninstalled"
    )
