"""The front door's checks, and what the probe sees of a door from outside."""

from __future__ import annotations

import functools
import http.server
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program import probe

from provision.locallab.vm.guest import free_port
from tests.served import Quiet, serving

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "mutants"))

import check_states
from states.checks.gpu_front_door import doored

STRANGERS = "gpu_front_door.strangers"
NAME = "gpu01.example.org"
verdicts = functools.partial(check_states.of_component, "gpu_front_door")


@pytest.mark.parametrize(
    ("path", "status", "result"),
    [
        ("/ada/api/status", 401, "passed"),
        ("/ada/api/status", 402, "failed"),
        ("/ada/api/status", 302, "failed"),
        ("/ada/tensorboard/", 403, "failed"),
        ("/bob/", 403, "failed"),
    ],
)
def test_each_path_refuses_in_its_own_way(path: str, status: int, result: str) -> None:
    data = doored()
    data["probe"]["front_door"]["paths"] = {path: status}
    assert verdicts(data)[STRANGERS].result == result


def test_tls_before_the_last_will_do_and_the_order_of_people_is_nobodys() -> None:
    data = doored()
    data["probe"]["front_door"]["page"].update(tls="TLSv1.2", names=["bob", "ada"])
    data["options"]["gpu_workspaces"].reverse()
    data["probe"]["front_door"]["paths"] = {"/bob/": 404, "/ada/api/status": 403}
    by_check = verdicts(data)
    assert {verdict.result for verdict in by_check.values()} == {"passed"}
    assert by_check[STRANGERS].detail == "refused: /ada/api/status, /bob/"


def test_all_paths_that_answer_are_named() -> None:
    data = doored()
    paths = {"/eve/api/status": 200, "/ada/api/status": 502}
    data["probe"]["front_door"]["paths"] = paths
    verdict = verdicts(data)[STRANGERS]
    assert (
        verdict.diagnosis
        == verdict.detail
        == ("/ada/api/status answers with status 502; /eve/api/status answers with status 200")
    )


class Door(Quiet, http.server.BaseHTTPRequestHandler):
    """A page, and nobody let in."""

    def do_GET(self) -> None:
        host = self.headers["Host"]
        page = b'<th scope="col">x</th><th scope="row">ada</th><th scope="row">bob</th>'
        status = 200 if (self.path, host) == ("/", NAME) else 403
        self.send_response(status)
        self.end_headers()
        self.wfile.write(page if status == 200 else b"")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("authority")
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
            "-nodes", "-days", "2", "-subj", f"/CN={NAME}",
            "-addext", f"subjectAltName=DNS:{NAME}",
            "-keyout", str(folder / "key"), "-out", str(folder / "crt"),
        ],
        check=True, capture_output=True,
    )  # fmt: skip
    return folder


@pytest.fixture
def door(authority: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Door)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "crt", authority / "key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    monkeypatch.setattr(probe, "DOOR_TRUST", (str(authority / "crt"),))
    with serving(server):
        yield server.server_port


def options(port: int, name: str = NAME, address: str = "127.0.0.1") -> dict[str, Any]:
    return {
        "gpu_front_door_name": name,
        "gpu_front_door_port": port,
        "gpu_front_door_address": address,
        "gpu_workspaces": [
            {"name": "ada", "port": 8801, "tensorboard_port": 6801},
            {"name": "bob", "kind": "ssh", "ssh_port": 2202},
        ],
    }


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])  # noqa: S104 compared, not bound
def test_the_probe_asks_by_the_name_and_without_a_token(door: int, address: str) -> None:
    seen = probe.front_door(options(door, address=address))
    assert seen == {
        "page": {"status": 200, "tls": "TLSv1.3", "error": None, "names": ["ada", "bob"]},
        "paths": {"/ada/api/status": 403, "/ada/tensorboard/": 403, "/bob/": 403},
        "plain": None,
    }


def test_a_certificate_for_another_name_is_none(door: int) -> None:
    seen = probe.front_door(options(door, name="gpu02.example.org"))
    assert "Hostname mismatch" in seen["page"]["error"]
    assert seen["page"]["names"] == []


def test_a_certificate_that_nobody_knows_is_none(
    door: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "DOOR_TRUST", ("/nonexistent",))
    assert "certificate verify failed" in probe.front_door(options(door))["page"]["error"]


def test_where_nobody_listens_the_error_says_so() -> None:
    seen = probe.front_door(options(free_port()))
    assert "refused" in seen["page"]["error"]
    assert seen["plain"] is None
