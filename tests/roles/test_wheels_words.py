"""What is said where pip fails: the reason in one sentence, and never its traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

WHEELS = Path(__file__).parents[2] / "roles" / "tensorflow" / "tasks" / "wheels.yml"
BROKEN = (
    "WARNING: Retrying (Retry(total=4, connect=None)) after connection broken by "
    "'NewConnectionError('<pip._vendor.urllib3.connection>: Failed to establish a new connection: "
    "[Errno 111] Connection refused')': /simple/absl-py/\n"
    "ERROR: No matching distribution found for absl-py==1.0.0\n"
)
SILENT = (
    "ERROR: Exception:\nTraceback (most recent call last):\n"
    "socket.timeout: The read operation timed out\n"
    "pip._vendor.urllib3.exceptions.ReadTimeoutError: HTTPSConnectionPool(host='x', port=443): "
    "Read timed out.\n"
)
CASES = {
    "space": ("OSError: [Errno 28] No space left on device\n", "No space is left on the"),
    "refused": (BROKEN, "this host does not reach the package index (NewConnectionError("),
    "silent": (SILENT, "the package index stopped sending in the middle of a download"),
    "hash": ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES\n", "DO NOT MATCH THE HASHES"),
}


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The task's message for each case, from one run of Ansible."""
    folder = tmp_path_factory.mktemp("wheels")
    (task,) = [
        task
        for task in yaml.safe_load(WHEELS.read_text("utf-8"))
        if task["name"] == "wheels | Say why the wheels could not be installed"
    ]
    steps: list[dict[str, Any]] = []
    for name, (stderr, _) in CASES.items():
        given = {
            "tensorflow_version": "2.9.3",
            "tensorflow_root": "/opt/tensorflow",
            "__tensorflow_install": {"rc": 2, "stderr": stderr},
            "__tensorflow_look_whole": {"stdout": '{"works": false}'},
        }
        fact = {f"said_{name}": "{{ ansible_failed_result.msg }}"}
        steps.append(
            {"vars": given, "block": [task], "rescue": [{"ansible.builtin.set_fact": fact}]}
        )
    said = {name: f"{{{{ said_{name} | default('') }}}}" for name in CASES}
    copy = {"dest": str(folder / "out.json"), "content": "{{ said | to_json }}", "mode": "0600"}
    steps.append({"ansible.builtin.copy": copy, "vars": {"said": said}})
    play = {"hosts": "localhost", "gather_facts": False, "tasks": steps}
    (folder / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False), "utf-8")
    done = subprocess.run(
        [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "localhost,", "-c", "local",
         "-e", f"ansible_python_interpreter={sys.executable}", "play.yml"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, str] = json.loads((folder / "out.json").read_text("utf-8"))
    return found


@pytest.mark.parametrize("name", CASES)
def test_the_reason_is_told_in_a_sentence(messages: dict[str, str], name: str) -> None:
    assert f"TensorFlow 2.9.3 was not installed: {CASES[name][1]}" in messages[name].replace(
        "ERROR: THESE PACKAGES ", ""
    )
    assert "Traceback" not in messages[name]
