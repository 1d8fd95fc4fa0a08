"""What the probe sees of served models, and what is judged of it."""

from __future__ import annotations

import functools
import http.server
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from program import probe

from tests.served import Quiet, serving

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "mutants"))

import check_states
from states.checks.gpu_serving import served

AVAILABLE = "gpu_serving.available"
verdicts = functools.partial(check_states.of_component, "gpu_serving")


def version(number: str, state: str, error: str = "") -> dict[str, str]:
    return {"version": number, "state": state, "error": error}


@pytest.mark.parametrize(
    ("versions", "there", "result"),
    [
        ([version("3", "END", "bad"), version("4", "AVAILABLE")], ["3", "4"], "passed"),
        ([version("5", "END", "bad"), version("4", "AVAILABLE")], ["4", "5"], "failed"),
        ([version("5", "END", "bad"), version("4", "AVAILABLE")], None, "failed"),
        # Its directory was removed, as the cure says; TensorFlow Serving lists it on.
        ([version("5", "END", "bad"), version("4", "AVAILABLE")], ["4"], "passed"),
        ([version("10", "AVAILABLE"), version("9", "END", "bad")], None, "passed"),
        ([version("5", "END", "bad")], [], "failed"),
        (
            [version("3", "AVAILABLE"), version("4", "END", "bad"), version("5", "AVAILABLE")],
            ["3", "4", "5"],
            "passed",
        ),
        # It was unloaded by request, and fails no more.
        ([version("5", "END"), version("4", "AVAILABLE")], ["4", "5"], "passed"),
        ([version("5", "LOADING", "bad"), version("4", "AVAILABLE")], ["4", "5"], "passed"),
        ([version("4", "END", "bad"), version("4", "AVAILABLE")], ["4"], "passed"),
    ],
)
def test_what_failed_counts_while_it_is_the_newest(
    versions: list[dict[str, str]], there: list[str] | None, result: str
) -> None:
    data = served()
    data["probe"]["served_models"]["mnist"].update(versions=versions, there=there)
    assert verdicts(data)[AVAILABLE].result == result


def test_the_newest_that_serves_is_named() -> None:
    data = served()
    versions = [version("5", "END", "bad"), version("3", "AVAILABLE"), version("4", "AVAILABLE")]
    data["probe"]["served_models"]["mnist"].update(versions=versions, there=["3", "4", "5"])
    assert verdicts(data)[AVAILABLE].diagnosis == (
        "mnist: version 5 does not load: bad; version 4 still serves"
    )


def test_models_are_named_in_order() -> None:
    data = served()
    mnist = data["probe"]["served_models"]["mnist"]
    data["probe"]["served_models"]["bert"] = dict(mnist)
    assert verdicts(data)["gpu_serving.runs"].detail == "bert, mnist: active"
    for model in data["probe"]["served_models"].values():
        model["unit"] = "failed"
    verdict = verdicts(data)["gpu_serving.runs"]
    assert verdict.detail == "bert: its unit is failed; mnist: its unit is failed"


def test_a_host_without_a_front_door_has_none_to_ask() -> None:
    data = served()
    data["options"]["gpu_front_door_name"] = ""
    verdict = verdicts(data)["gpu_serving.strangers"]
    assert (verdict.result, verdict.detail) == ("not_applicable", "there is no front door here")


def answered(body: bytes) -> Any:
    """What the probe makes of an answer at a model's port."""

    class Handler(Quiet, http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    with serving(server):
        return probe.model_versions(server.server_port, "mnist")


def test_who_answers_at_a_port_is_not_trusted() -> None:
    row = {"state": "END", "status": {"error_message": "\x1b[2Jno\nsuch \u202eop"}}
    rows = [{**row, "version": number} for number in ("3", "\u00b2", "9" * 5000, "-1")]
    versions = answered(json.dumps({"model_version_status": rows}).encode())
    assert versions == [{"version": "3", "state": "END", "error": "[2Jno such  op"}]
    for body in (b"", b"[" * 100000, b'{"model_version_status": 7}', b"[]", b"\xff"):
        assert answered(body) is None


def test_only_numbers_are_versions_on_the_disk(tmp_path: Path) -> None:
    for name in ("3", "0010", "copying", "\u00b2"):
        (tmp_path / name).mkdir()
    assert probe.version_directories(str(tmp_path)) == ["10", "3"]
    assert probe.version_directories(str(tmp_path / "none")) is None
