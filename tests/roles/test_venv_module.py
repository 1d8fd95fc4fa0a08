"""The module `gpu_venv` in a play: check mode, a refusal's sentence, and no password anywhere."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

import pytest

from tests import module_play

TEXT = "tensorflow==2.9.3 \\\n    --hash=sha256:0\n"
SHA = hashlib.sha256(TEXT.encode()).hexdigest()
# As `python -I -m venv PLACE`; its pip says which settings it was given, and fails.
PYTHON = """#!/bin/sh
mkdir -p "$4/bin"
cat >"$4/bin/python" <<'END'
#!/bin/sh
if [ -n "$PIP_CONFIG_FILE" ]; then
    sed -n 's/index-url = /404 Client Error for url: /p' <"$PIP_CONFIG_FILE" >&2
else
    echo "404 Client Error for url: $PIP_INDEX_URL" >&2
fi
tr '\\0' '\\n' </proc/$$/cmdline >>@said@
env >>@said@
exit 1
END
chmod +x "$4/bin/python"
"""
LOGIN = "http://ada:s3cr3t@mirror.example.org/simple"
PLAIN = "http://mirror.example.org/simple"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each task returned, and all that a person with -vvv reads (`said`)."""
    if os.getuid():
        pytest.skip("needs root: what lies above an environment must be root's alone")
    folder = tmp_path_factory.mktemp("venv")
    interpreter = folder / "python3.9"
    interpreter.write_text(PYTHON.replace("@said@", str(folder / "seen")), "utf-8")
    interpreter.chmod(0o755)
    venv = {
        "root": str(folder / "tensorflow"), "version": "2.9.3", "python": "3.9",
        "interpreter": str(interpreter), "requirements": TEXT, "requirements_sha256": SHA,
    }  # fmt: skip
    secret = {"index_url": LOGIN, "proxy": "http://p:s3cr3t@proxy:1"}
    calls: dict[str, dict[str, Any]] = {
        "check": {"arguments": {"venv": venv, "pip": secret}, "check_mode": True},
        "secret": {"arguments": {"venv": venv, "pip": secret}},
        "plain": {"arguments": {"venv": venv, "pip": {"index_url": PLAIN, "proxy": "t"}}},
        "absent": {"arguments": {"venv": venv, "state": "absent"}},
        "refused": {"arguments": {"venv": {**venv, "version": "2.9.4"}}},
    }
    found, output = module_play.results(folder, "gpu_venv", calls)
    found.update(said=output, seen=(folder / "seen").read_text("utf-8"))
    assert not (folder / "tensorflow").exists()
    return found


def test_in_check_mode_it_says_what_it_would_do(results: dict[str, Any]) -> None:
    answer = results["check"]
    assert (answer["changed"], answer["failed"]) == (True, False)
    assert answer["would"].startswith("Would make ")
    assert "diff" not in answer


def test_a_failure_is_one_sentence_without_the_login(results: dict[str, Any]) -> None:
    answer = results["secret"]
    assert answer["failed"]
    assert answer["msg"] == (
        "TensorFlow 2.9.3 was not installed: 404 Client Error for url: "
        "http://mirror.example.org/simple Run again once the cause is gone."
    )


def test_an_address_without_a_login_is_named_as_it_is(results: dict[str, Any]) -> None:
    """A proxy called `t` must not take that letter out of every word."""
    assert results["plain"]["msg"] == results["secret"]["msg"]


def test_a_password_is_nowhere(results: dict[str, Any]) -> None:
    assert "s3cr3t" not in json.dumps(results["secret"]) + json.dumps(results["check"])
    # What the play itself says of its own text is not the module's.
    lines = [line for line in results["said"].splitlines() if "'args': {" not in line]
    assert "s3cr3t" not in "\n".join(lines)
    assert "s3cr3t" not in results["seen"]
    assert "PIP_CONFIG_FILE=/dev/stdin" in results["seen"]
    assert "--require-hashes" in results["seen"]


def test_the_pages_of_hashes_are_in_no_result(results: dict[str, Any]) -> None:
    assert "--hash" not in json.dumps(results["plain"])


def test_what_is_not_there_is_absent_and_a_wrong_wish_is_refused(results: dict[str, Any]) -> None:
    assert (results["absent"]["changed"], results["absent"]["failed"]) == (False, False)
    assert results["refused"]["msg"] == "requirements.txt does not pin tensorflow==2.9.4."
