"""A component is added by adding files and one line in the registry; no other file is touched."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import made_up_component as made_up

LOOK = """
import json, sys
sys.path.insert(0, sys.argv[1] + "/plugins/module_utils")
from gpu_stack import look
lock = {"digest": "d", "stacks": {"s": {}}, "rows": [{"platform": {}, "wish": {}, "stack": "s"}]}
result = look.examine(lock, {}, json.loads(sys.argv[3]), [], [], root=sys.argv[2])
print(json.dumps(result))
"""
PROBE = """
import json, sys
from provision import collection
names = {"__name__": "probe"}
exec(collection.verify()["verify/probe.py"].decode(), names)
from provision.verify.checks import CHECKS, Seen
(check,) = [check for check in CHECKS if check.id.startswith("gpu_note.")]
probe = {}
for part in names["PARTS"]:
    probe.update(part({}, {}))
assert probe["note"] is None, "no note on this machine"
told = []
for note in (None, "hello\\n"):
    verdict = check(Seen({}, {"gpu_note_text": "hello"}, {"note": note}, planned=()))
    told.append([verdict.result, verdict.hint])
print(json.dumps(told))
"""
RESOLVE = """
import json
from provision.catalog import load
from provision.errors import UnsatisfiableError
from provision.inventory import parse_wish
from provision.lock.own import OWN
from provision.resolve import resolve
facts = load()
platforms = {row.id: row for row in facts.platforms}
def stack(platform, **wish):
    return resolve(facts, platforms[platform], parse_wish(wish, where="x"))
wished = stack("debian11", motto="1.0")
told = [reason.text for reason in wished.reasons if reason.component == "gpu_motto"]
part, packages = OWN["gpu_motto"].part(wished, None, {})
refused = []
for platform, version in (("debian11", "3.0"), ("debian12", "1.0")):
    try:
        stack(platform, motto=version)
    except UnsatisfiableError as error:
        refused.append(error.message)
print(json.dumps([wished.id, told, part, refused, dict(stack("debian11", python="3.9").own)]))
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_up.copy_with_it(tmp_path_factory.mktemp("made-up"))


def plan(copy: Path, root: Path, **options: Any) -> dict[str, Any]:
    words = {"gpu_note_text": "hello", **options}
    command = [sys.executable, "-I", "-c", LOOK, str(copy), str(root), json.dumps(words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_the_host_plans_brings_and_removes_it(copy: Path, tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    bring = plan(copy, tmp_path)
    assert "gpu_note" in bring["components"]
    assert "gpu_note:bring" in bring["steps"]
    (tmp_path / made_up.PATH[1:]).write_text("hello\n", "utf-8")
    assert "gpu_note" not in plan(copy, tmp_path)["components"]
    remove = plan(copy, tmp_path, gpu_note_state="absent")
    assert [entry["to"] for entry in remove["changes"] if entry["component"] == "gpu_note"] == [
        "absent"
    ]
    assert "gpu_note:remove" in remove["steps"]
    (tmp_path / made_up.PATH[1:]).unlink()
    assert "gpu_note" not in plan(copy, tmp_path, gpu_note_state="absent")["components"]


def test_its_check_judges_it(copy: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        cwd=copy, env=environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (absent, present) = json.loads(done.stdout)
    assert absent[0] == "failed"
    assert "somebody writes it anew" in absent[1]
    assert present == ["passed", ""]


def test_its_options_are_everybodys(copy: Path) -> None:
    """`provision roles sync` wrote what the role, the look and the checks know of its options."""
    assert made_up.provision(copy, copy, "roles", "sync", "--check").returncode == 0
    for path in ("roles/gpu_note/defaults/main.yml", "roles/gpu_note/meta/argument_specs.yml"):
        assert "gpu_note_text" in (copy / path).read_text("utf-8")
    for path in ("plugins/plugin_utils/options.json", "provision/verify/options.json"):
        assert "gpu_note_text" in (copy / path).read_text("utf-8")


def test_a_locked_one_is_wished_for_chosen_and_locked(copy: Path, tmp_path: Path) -> None:
    """By its files in catalog, inventory, resolve and lock."""
    shutil.copytree(copy, tmp_path / "copy")
    made_up.register(tmp_path / "copy", made_up.LOCKED_LINE, made_up.LOCKED_FILES)
    done = subprocess.run(
        [sys.executable, "-c", RESOLVE],
        cwd=tmp_path / "copy", env={**os.environ, "PYTHONPATH": str(tmp_path / "copy")},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    name, reasons, part, refused, without = json.loads(done.stdout)
    assert "-motto1.0-" in name
    assert reasons == ["1.0 was wished"]
    assert part == {"version": "1.0", "text": "Slowly"}
    assert refused[0] == "no motto 3.0 in the catalog"
    assert refused[1].startswith("motto: 1.0 can't be had on Debian 12")
    assert without == {}
