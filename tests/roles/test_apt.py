"""The role `apt`, as the other roles include it: what it asks apt, refuses, holds and releases."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.collection import IMPORTABLE, ROOT

PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"


def include(folder: Path, entry: str, answers: dict[str, str], **variables: Any) -> tuple[str, str]:
    """(what Ansible printed, the calls) of an entry, with programs that answer as they are told."""
    for name in ("apt-get", "apt-mark", "dpkg-query"):
        program = folder / name
        program.write_text(
            f'#!/bin/sh\necho "{name} $*" >> {folder}/calls\ncat {folder}/{name}.out\n'
        )
        program.chmod(0o755)
        (folder / f"{name}.out").write_text(answers.get(name, ""))
    task = {
        "ansible.builtin.include_role": {
            "name": "provision.gpu.apt", "tasks_from": entry, "rolespec_validate": False,
        },
        "vars": variables,
    }  # fmt: skip
    book = folder / "play.yml"
    book.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": [task]}]))
    interpreter = f"ansible_python_interpreter={sys.executable}"
    done = subprocess.run(
        [str(PLAYBOOK), "-i", "localhost,", "-c", "local", "-e", interpreter, str(book)],
        env={
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(IMPORTABLE),
            "PATH": f"{folder}:{os.environ['PATH']}",
        },
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    return " ".join(done.stdout.split()), (folder / "calls").read_text()


@pytest.mark.parametrize(
    ("hold", "call"),
    [(True, "apt-mark hold libcublas11"), (False, "apt-mark unhold libcuda1")],
)
def test_only_what_differs_is_held_or_released(tmp_path: Path, hold: bool, call: str) -> None:
    answers = {"apt-mark": "libcuda1\nsomebodys\n"}
    names = ["libcuda1", "libcublas11"]
    _output, calls = include(tmp_path, "hold", answers, apt_names=names, apt_hold=hold)
    assert calls.splitlines() == ["apt-mark showhold", call]


def test_each_entry_is_described_and_its_variables_are_those_it_reads() -> None:
    entries = yaml.safe_load((ROOT / "roles/apt/meta/argument_specs.yml").read_text("utf-8"))
    specs = entries["argument_specs"]
    assert set(specs) == {path.stem for path in (ROOT / "roles/apt/tasks").glob("*.yml")}
    readme = (ROOT / "roles/apt/README.md").read_text("utf-8")
    for name, spec in specs.items():
        assert f"| `{name}` |" in readme
        text = (ROOT / f"roles/apt/tasks/{name}.yml").read_text("utf-8")
        assert [option for option in spec["options"] if option not in text] == []
        assert [option for option in spec["options"] if f"`{option}`" not in readme] == []
