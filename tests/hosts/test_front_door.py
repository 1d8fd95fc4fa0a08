"""The front door of a host's workspaces, from a bare host to a kernel that is run through it.

nginx is the distribution's, dockerd and Jupyter run for real (tests/hosts/test_workspaces.py says
what of that host is made for the test); who asks sits at another machine, knows the host's own
authority and nothing else of it. What stands for TensorBoard is a tiny server of files.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import socket
import ssl
import struct
import subprocess
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pebble
import pytest
from conftest import BIN
from docked import docked
from test_workspaces import TOKEN, Shared

from tests.collection import one_role

pytestmark = [pytest.mark.slow]
# Rules of the preflight that something here trips: docs/mutants.md.
TRIPS = ("front-door-port", "front-door-site")

NAME = "gpu07.example.org"
SITE = "/etc/nginx/sites-enabled/zz-gpu-front-door"
THEIRS = "/etc/nginx/sites-enabled/a-site-of-theirs"
VHOST = """\
server {
    listen 8080;
    server_name other.example.org;
    location / { return 200 "theirs\\n"; }
}
"""
PEOPLE: list[dict[str, Any]] = [
    {"name": "ada", "gpus": [0], "port": 8801, "memory": "512m"},
    {"name": "bob", "gpus": "none", "port": 8802},
    {"name": "eve", "kind": "ssh", "gpus": "none", "ssh_port": 2203},
]


class Doored(Shared):
    """The host of the workspaces, with a door."""

    def say_door(self, **options: Any) -> None:
        words = {"gpu_front_door_name": NAME, "gpu_front_door_patience": 120, **options}
        path = self.path / "lab" / "group_vars" / "gpu_hosts" / "door.yml"
        path.write_text(json.dumps(words), "utf-8")

    def connected(self, tls: bool = True) -> socket.socket:
        """A connection to the door from this machine; its certificate is looked at."""
        address = self.lab.hosts[0].address
        plain = socket.create_connection((address, 443), timeout=60)
        if not tls:
            return plain
        authority = self.root("cat", "/etc/gpu-front-door/ca.crt")
        context = ssl.create_default_context(cadata=authority)
        return context.wrap_socket(plain, server_hostname=NAME)

    def get(
        self, path: str, token: str = "", tls: bool = True, host: str = NAME, **headers: str
    ) -> tuple[int, str, str]:
        """(status, text, where it leads) of one answer of the door."""
        client = http.client.HTTPConnection(host, timeout=60)
        client.sock = self.connected(tls)
        if token:
            headers["Authorization"] = "token " + token
        client.request(headers.pop("method", "GET"), path, headers=headers)
        answer = client.getresponse()
        text = answer.read().decode("utf-8", "replace")
        client.close()
        return answer.status, text, answer.headers.get("Location", "")

    def cookies(self, name: str) -> list[str]:
        """What a browser is given that follows a link with a token."""
        client = http.client.HTTPConnection(NAME, timeout=60)
        client.sock = self.connected()
        client.request("GET", f"/{name}/tree?token={self.token(name)}")
        found = client.getresponse().headers.get_all("Set-Cookie") or []
        client.close()
        return found

    def page(self) -> str:
        status, text, _ = self.get("/")
        assert status == 200
        return text


class WebSocket:
    """As much of RFC 6455 as a kernel's channels need."""

    def __init__(self, connection: socket.socket, path: str, cookies: list[str]) -> None:
        self.connection = connection
        key = base64.b64encode(os.urandom(16)).decode()
        request = (
            f"GET {path} HTTP/1.1\r\nHost: {NAME}\r\nOrigin: https://{NAME}\r\n"
            f"Cookie: {'; '.join(cookie.partition(';')[0] for cookie in cookies)}\r\n"
            f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
            "Sec-WebSocket-Version: 13\r\n\r\n"
        )
        connection.sendall(request.encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            byte = connection.recv(1)
            assert byte, head
            head += byte
        assert head.startswith(b"HTTP/1.1 101 "), head

    def send(self, text: str) -> None:
        data, mask = text.encode(), os.urandom(4)
        size = (
            struct.pack("!BB", 0x81, 0x80 | len(data))
            if len(data) < 126
            else struct.pack("!BBH", 0x81, 0x80 | 126, len(data))
        )
        covered = bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))
        self.connection.sendall(size + mask + covered)

    def _exactly(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            part = self.connection.recv(count - len(found))
            assert part, "the connection was cut"
            found += part
        return found

    def receive(self) -> str:
        """The next text; what is no text is passed over."""
        while True:
            first, size = self._exactly(2)
            if size == 126:
                (size,) = struct.unpack("!H", self._exactly(2))
            elif size == 127:
                (size,) = struct.unpack("!Q", self._exactly(8))
            data = self._exactly(size)
            assert first & 15 != 8, f"the connection was closed: {data!r}"
            if first & 15 == 1:
                return data.decode()


class Kernel:
    """A kernel that is run through the door."""

    def __init__(self, doored: Doored, name: str) -> None:
        self.doored, self.name = doored, name
        self.token, session = doored.token(name), uuid.uuid4().hex
        # The token stands in the addresses, as in a link that somebody pastes.
        status, text, _ = doored.get(
            f"/{name}/api/kernels?token={self.token}", method="POST", Origin=f"https://{NAME}"
        )
        assert status == 201, (status, text)
        self.id, self.session = json.loads(text)["id"], session
        path = f"/{name}/api/kernels/{self.id}/channels?session_id={session}"
        # As a browser does it: by the cookie, with which Jupyter looks at Origin.
        self.cookies = doored.cookies(name)
        self.web = WebSocket(doored.connected(), path, self.cookies)

    def end(self) -> None:
        path = f"/{self.name}/api/kernels/{self.id}"
        assert self.doored.get(path, self.token, method="DELETE")[0] == 204

    def run(self, code: str) -> str:
        """What a cell prints."""
        mine = uuid.uuid4().hex
        header = {
            "msg_id": mine, "msg_type": "execute_request", "username": "", "version": "5.3",
            "session": self.session, "date": "2026-01-01T00:00:00Z",
        }  # fmt: skip
        content = {"code": code, "silent": False, "store_history": False, "allow_stdin": False}
        message = {
            "header": header, "parent_header": {}, "metadata": {}, "content": content,
            "channel": "shell", "buffers": [],
        }  # fmt: skip
        self.web.send(json.dumps(message))
        printed, until = "", time.time() + 120
        while time.time() < until:
            found = json.loads(self.web.receive())
            if found["parent_header"].get("msg_id") != mine:
                continue
            if found["msg_type"] == "stream":
                printed += found["content"]["text"]
            if found["msg_type"] == "status" and found["content"]["execution_state"] == "idle":
                return printed.strip()
        raise AssertionError(f"the kernel did not end: {printed}")


@pytest.fixture(scope="module")
def doored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doored]:
    with docked(tmp_path_factory.mktemp("door"), "door", Doored) as made:
        made.say(PEOPLE)
        made.say_door()
        yield made


def test_from_bare_to_a_door_in_one_run(doored: Doored) -> None:
    entry = doored.proven()
    assert {"gpu_workspace", "gpu_front_door"} <= set(entry["components"])
    results = doored.results("gpu_front_door")
    assert set(results.values()) == {"passed"}, results
    assert len(results) == 3
    assert doored.root("stat", "-c", "%a", "/etc/gpu-front-door/key.pem") == "600"
    assert doored.root("stat", "-c", "%a", "/etc/gpu-front-door/ca.key") == "600"


def test_the_page_lists_who_has_what_and_no_secret(doored: Doored) -> None:
    page = doored.page()
    for words in ('href="/ada/"', "GPU 0", "512M memory", f"ssh -p 2203 eve@{NAME}"):
        assert words in page
    assert "http" not in page.replace("https://" + NAME, "")
    for name in ("ada", "bob"):
        assert doored.token(name) not in page


def test_everybody_has_a_path_and_a_token_of_their_own(doored: Doored) -> None:
    assert doored.token("ada") == TOKEN
    for name, other in (("ada", "bob"), ("bob", "ada")):
        assert doored.get(f"/{name}/api/status")[0] == 403
        assert doored.get(f"/{name}/api/status", doored.token(other))[0] == 403
        assert doored.get(f"/{name}/api/status", doored.token(name))[0] == 200
        assert doored.get(f"/{name}/")[2].startswith(f"/{name}/tree")
        assert doored.get(f"/{name}/tree")[2].startswith(f"/{name}/login?next=")
    status, text, _ = doored.get("/ada/tree", doored.token("ada"))
    assert (status, '"/ada/' in text) == (200, True)
    # One lets somebody in by the cookie, which no page in plain HTTP gets.
    cookies = doored.cookies("ada")
    assert any("Secure" in cookie and "Path=/ada/" in cookie for cookie in cookies), cookies


@pytest.mark.parametrize("path", ["/eve/", "/nobody/", "/index.html", "/ada.", "/api/status"])
def test_everything_else_is_not_there(doored: Doored, path: str) -> None:
    assert doored.get(path)[0] == 404


def test_another_name_and_plain_http_get_nothing(doored: Doored) -> None:
    assert doored.get("/ada/", host="other.example.org")[0] == 404
    assert doored.get("/", tls=False)[0] == 400
    listening = doored.root("sh", "-c", "ss -Hltn | awk '{print $4}'").split()
    assert "0.0.0.0:443" in listening
    assert not [address for address in listening if address.endswith(":80")]
    assert {address for address in listening if address.endswith((":8801", ":8802"))} == {
        *("127.0.0.1:8801", "127.0.0.1:8802"),
    }


def test_only_what_is_safe_today_is_spoken(doored: Doored) -> None:
    assert doored.connected().version() == "TLSv1.3"  # type: ignore[attr-defined]
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.set_ciphers("DEFAULT:@SECLEVEL=0")
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    address = doored.lab.hosts[0].address
    with (
        socket.create_connection((address, 443), timeout=60) as plain,
        pytest.raises(ssl.SSLError),
    ):
        old.wrap_socket(plain, server_hostname=NAME)


def test_the_authority_is_good_for_this_name_alone(doored: Doored) -> None:
    certificate = doored.root(
        "openssl", "x509", "-in", "/etc/gpu-front-door/ca.crt", "-noout", "-text"
    )
    assert f"DNS:{NAME}" in certificate
    assert "X509v3 Name Constraints: critical" in certificate
    assert doored.get("/ca.crt")[1] == doored.root("cat", "/etc/gpu-front-door/ca.crt") + "\n"


def test_a_kernel_runs_through_the_door(doored: Doored) -> None:
    kernel = Kernel(doored, "ada")
    assert kernel.run("import os; print(os.environ['HOME'], 6 * 7)") == "/home/ada 42"
    kernel.end()


def test_a_page_from_elsewhere_gets_no_kernel(doored: Doored) -> None:
    """Jupyter compares Origin with Host, which it has from the door."""
    kernel = Kernel(doored, "bob")
    client = http.client.HTTPConnection(NAME, timeout=60)
    client.sock = doored.connected()
    client.request(
        "GET", f"/bob/api/kernels/{kernel.id}/channels?session_id=x",
        headers={
            "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
            "Cookie": "; ".join(cookie.partition(";")[0] for cookie in kernel.cookies),
            "Origin": "https://elsewhere.example.org",
        },
    )  # fmt: skip
    assert client.getresponse().status == 403
    kernel.end()


def test_a_second_run_changes_nothing(doored: Doored) -> None:
    again = doored.run_with("apply")
    assert again.returncode == 0, again.stdout + again.stderr
    assert list(doored.tasks_run().values()) == [
        ["gpu_state : Look | Compare the host with the lock"]
    ]


def test_another_site_stays_as_it_is(doored: Doored) -> None:
    doored.root("sh", "-c", f"cat > {THEIRS}; systemctl reload nginx", stdin=VHOST)
    doored.root("sh", "-c", f"echo '# somebody was here' >> {SITE}")
    planned = doored.run_with("plan")
    assert planned.returncode == 5
    assert f"{SITE}: other content -> as written" in " ".join(planned.stdout.split())
    assert doored.proven()["components"].keys() == {"gpu_front_door"}
    assert "somebody was here" not in doored.root("cat", SITE)
    assert doored.root("cat", THEIRS) + "\n" == VHOST
    ask = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8080/').read().decode())"
    assert doored.root("python3", "-c", ask) == "theirs"


def test_a_site_that_nginx_would_not_take_is_repaired(doored: Doored) -> None:
    doored.root("sh", "-c", f"echo 'server {{ listen' > {SITE}")
    assert doored.proven()["components"].keys() == {"gpu_front_door"}
    assert doored.get("/")[0] == 200


def test_who_stays_keeps_the_connection_when_another_goes(doored: Doored) -> None:
    kernel = Kernel(doored, "ada")
    assert kernel.run("value = 'kept'; print(value)") == "kept"
    doored.say([PEOPLE[0], PEOPLE[2]])
    planned = doored.run_with("plan")
    assert "changed: people (bob)" in " ".join(planned.stdout.split()), planned.stdout
    assert doored.proven()["components"].keys() == {"gpu_workspace", "gpu_front_door"}
    assert doored.get("/bob/")[0] == 404
    assert ">bob<" not in doored.page()
    assert kernel.run("print(value)") == "kept"
    kernel.end()


BOARD = """\
mkdir -p /srv/board/ada/tensorboard
echo the board > /srv/board/ada/tensorboard/index.html
cd /srv/board
# What the role has systemd hold for a TensorBoard, with a server of the host behind it.
systemd-run --unit way --socket-property ListenStream=/run/gpu-workspace-ports/ada.tensorboard \
    --socket-property SocketGroup=www-data --socket-property SocketMode=0660 \
    /lib/systemd/systemd-socket-proxyd 127.0.0.1:6801
systemd-run --unit board --working-directory /srv/board \
    python3 -m http.server --bind 127.0.0.1 6801
"""


def test_a_board_is_seen_by_who_is_logged_in_and_by_nobody_else(doored: Doored) -> None:
    """The site that the role makes, with a server of files in TensorBoard's place."""
    doored.root("sh", "-c", BOARD)
    noted = json.loads(doored.root("cat", "/etc/gpu-front-door/door.json"))["settings"]
    noted["people"][0]["tensorboard_port"] = 6801
    play = one_role("gpu_front_door", "gpu_hosts", gpu_front_door_people=noted["people"])
    (doored.path / "door.yml").write_text(play, "utf-8")
    done = doored.playbook(book="door.yml")
    assert done.returncode == 0, done.stdout[-4000:]
    status, text, where = doored.get("/ada/tensorboard/")
    assert (status, where) == (302, "/ada/login?next=/ada/tensorboard/")
    assert "the board" not in text
    assert doored.get("/ada/tensorboard/", "a-token-that-nobody-has")[0] == 302
    assert doored.get("/ada/tensorboard-asks", TOKEN)[0] == 404
    assert doored.get("/ada/tensorboard/", TOKEN)[:2] == (200, "the board\n")
    doored.root("systemctl", "stop", "gpu-workspace@ada")
    try:
        # Nobody is there who could be asked.
        assert doored.get("/ada/tensorboard/", TOKEN)[0] == 500
        assert doored.get(f"/ada/?token={TOKEN}")[0] == 502
    finally:
        doored.root("systemctl", "start", "gpu-workspace@ada")
        doored.root("systemctl", "stop", "board")
    assert doored.proven()["components"].keys() == {"gpu_front_door"}
    assert "the board" not in doored.get("/ada/tensorboard/")[1]


def test_no_token_is_in_a_log_of_nginx(doored: Doored) -> None:
    """After links with tokens, good and bad ones, and a Jupyter that was away."""
    log = doored.root("cat", "/var/log/nginx/gpu-front-door.log")
    assert "/ada/api/kernels" in log
    for secret in (TOKEN, "token="):
        look = "grep -raFl -f - /var/log /run/log /etc/gpu-front-door /var/lib/gpu-front-door; true"
        if secret == TOKEN:
            assert doored.root("sh", "-c", look, stdin=secret + "\n") == ""
        assert secret not in doored.root("sh", "-c", "cat /var/log/nginx/*")


def test_a_certificate_that_ends_soon_is_renewed(doored: Doored) -> None:
    change = (
        "import json; p='/etc/gpu-front-door/door.json'; d=json.load(open(p));"
        " d['until'] = __import__('time').time() + 86400; json.dump(d, open(p, 'w'))"
    )
    authority = doored.root("cat", "/etc/gpu-front-door/ca.crt")
    before = doored.root("cat", "/etc/gpu-front-door/chain.pem")
    doored.root("python3", "-c", change)
    planned = doored.run_with("plan")
    assert "certificate: 0 days left -> renewed" in " ".join(planned.stdout.split())
    doored.root("systemctl", "start", "gpu-front-door.service")
    assert doored.root("cat", "/etc/gpu-front-door/chain.pem") != before
    assert doored.root("cat", "/etc/gpu-front-door/ca.crt") == authority
    assert doored.get("/")[0] == 200
    assert doored.run_with("plan").returncode == 0


def test_a_port_that_somebody_has_is_refused(doored: Doored) -> None:
    doored.root("systemd-run", "--unit", "theirs", "python3", "-m", "http.server", "8443")
    try:
        doored.say_door(gpu_front_door_port=8443)
        refused = doored.run_with("apply")
        assert refused.returncode == 4, refused.stdout + refused.stderr
        assert "port 8443 of the front door is in use by python3" in " ".join(
            refused.stdout.split()
        )
        doored.say_door(gpu_front_door_name="other.example.org")
        refused = doored.run_with("apply")
        assert refused.returncode == 4
        assert f"{THEIRS} has the name other.example.org already" in " ".join(
            refused.stdout.split()
        )
        assert doored.get("/")[0] == 200
    finally:
        doored.root("systemctl", "stop", "theirs")
        doored.say_door()


def test_a_certificate_that_is_given_is_taken(doored: Doored) -> None:
    """Its key is kept by Ansible Vault, and is seen in no output."""
    folder = doored.path.parent
    script = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 90"
        f" -subj /CN={NAME} -addext subjectAltName=DNS:{NAME} -keyout /tmp/k -out /tmp/c"
        " 2>/dev/null; cat /tmp/k; echo ----; cat /tmp/c; rm /tmp/k /tmp/c"
    )
    key, _, chain = doored.root("sh", "-c", script).partition("\n----\n")
    (folder / "chain.pem").write_text(chain + "\n", "utf-8")
    (folder / "key.pem").write_text(key + "\n", "utf-8")
    vault = ["--vault-password-file", str(folder / "vault")]
    subprocess.run(
        [str(BIN / "ansible-vault"), "encrypt", *vault, str(folder / "key.pem")],
        check=True, capture_output=True,
    )  # fmt: skip
    doored.say_door(
        gpu_front_door_tls="given",
        gpu_front_door_certificate=str(folder / "chain.pem"),
        gpu_front_door_key=str(folder / "key.pem"),
        gpu_front_door_redirect=True,
    )
    done = doored.playbook("-vvv", *vault)
    assert done.returncode == 0, done.stdout[-4000:]
    assert key.splitlines()[1] not in done.stdout + done.stderr
    assert doored.run_with("plan").returncode == 0
    assert doored.root("cat", "/etc/gpu-front-door/key.pem") == key
    with contextlib.closing(
        ssl.create_default_context(cadata=chain).wrap_socket(
            doored.connected(tls=False), server_hostname=NAME
        )
    ) as shown:
        assert shown.version() == "TLSv1.3"
    client = http.client.HTTPConnection(doored.lab.hosts[0].address, timeout=60)
    client.request("GET", "/ada/?token=" + TOKEN, headers={"Host": NAME})
    answer = client.getresponse()
    assert (answer.status, answer.headers["Location"]) == (
        301, f"https://{NAME}/ada/?token={TOKEN}",
    )  # fmt: skip
    assert TOKEN not in doored.root("sh", "-c", "cat /var/log/nginx/*")
    # One for another name is refused, and the door stays as it is.
    script = script.replace(NAME, "elsewhere.example.org")
    key, _, chain = doored.root("sh", "-c", script).partition("\n----\n")
    (folder / "chain.pem").write_text(chain + "\n", "utf-8")
    (folder / "key.pem").write_text(key + "\n", "utf-8")
    refused = doored.run_with("apply")
    assert refused.returncode != 0
    assert f"is not for {NAME}" in " ".join(refused.stdout.split())
    doored.say_door()
    doored.proven()


def test_a_certificate_by_acme_is_planned_and_proven(doored: Doored) -> None:
    """tests/hosts/test_front_door_acme.py has all the rest of it."""
    ca = doored.path.parent / "acme-ca.pem"
    ca.write_text(pebble.start(doored.root, NAME), "utf-8")
    options = {
        "gpu_front_door_tls": "acme",
        "gpu_front_door_acme_agree": True,
        "gpu_front_door_acme_directory": pebble.DIRECTORY,
        "gpu_front_door_acme_ca": str(ca),
    }
    doored.say_door(**options)
    planned = doored.run_with("plan")
    assert planned.returncode == 5
    output = " ".join(planned.stdout.split())
    assert "certbot: none -> installed" in output
    assert "changed: acme, given, tls" in output
    assert doored.proven()["components"].keys() == {"gpu_front_door"}
    assert set(doored.results("gpu_front_door").values()) == {"passed"}
    context = ssl.create_default_context(cadata=pebble.authority(doored.root))
    with context.wrap_socket(doored.connected(tls=False), server_hostname=NAME) as shown:
        assert shown.version() == "TLSv1.3"
    chain = f"/etc/letsencrypt/live/gpu-front-door-{NAME}/fullchain.pem"
    before = doored.root("cat", chain)
    doored.root("rm", chain)
    planned = doored.run_with("plan")
    assert "certificate: none -> obtained" in " ".join(planned.stdout.split())
    assert doored.proven()["components"].keys() == {"gpu_front_door"}
    assert doored.root("cat", chain) != before
    doored.say_door()
    doored.proven()


def test_the_door_goes_and_their_nginx_stays(doored: Doored) -> None:
    doored.say_door(gpu_front_door_name="")
    planned = doored.run_with("plan")
    assert f"front door {NAME}: here -> None" in " ".join(planned.stdout.split())
    assert doored.proven()["components"].keys() == {"gpu_front_door"}
    assert doored.root("ls", "/etc/nginx/sites-enabled").split() == [THEIRS.rpartition("/")[2]]
    assert doored.root("sh", "-c", "ls -d /etc/gpu-front-door /var/lib/gpu-front-door; true") == ""
    assert doored.root("systemctl", "is-active", "nginx") == "active"
    with pytest.raises(OSError, match="refused"):
        doored.connected(tls=False)
    assert doored.ask(8801, "/ada/api/status", TOKEN)[0] == 200
    assert set(doored.results("gpu_front_door").values()) <= {"not_applicable"}
