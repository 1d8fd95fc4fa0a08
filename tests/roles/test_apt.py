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
REMOVED = "Remv somebodys-solver [1.0]\nInst libcuda1 [460.1] (470.1 lab)\n"
CHANGED = "Inst held-by-ada [1] (2 lab)\nInst libcuda1 [460.1] (470.1 lab)\n"


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
    ("simulated", "said"),
    [
        (REMOVED, "For CUDA 11.2.2 apt would remove somebodys-solver. somebodys-solver (needs: x;"),
        (CHANGED, "apt would change held-by-ada, which somebody holds (apt-mark unhold releases"),
        ("Inst libcuda1 [460.1] (470.1 lab)\n", ""),
    ],
    ids=["removed", "held", "nothing of others"],
)
def test_what_would_go_for_an_installation_is_refused(
    tmp_path: Path, simulated: str, said: str
) -> None:
    answers = {
        "apt-get": simulated,
        "apt-mark": "held-by-ada\nlibcuda1\n",
        "dpkg-query": "somebodys-solver (needs: x; conflicts: y)\n",
    }
    output, calls = include(
        tmp_path, "removals", answers,
        apt_title="CUDA 11.2.2", apt_specs=["libcuda1=470.1"], apt_names=["libcuda1"],
    )  # fmt: skip
    assert calls.startswith("apt-get install --simulate --no-install-recommends")
    assert calls.splitlines()[0].endswith("-oAPT::Get::AutomaticRemove=false libcuda1=470.1")
    assert ("No package was touched." in output) is bool(said)
    assert said in output


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
    variables = (ROOT / "roles/apt/vars/main.yml").read_text("utf-8")
    for name, spec in specs.items():
        assert f"| `{name}` |" in readme
        text = (ROOT / f"roles/apt/tasks/{name}.yml").read_text("utf-8") + variables
        assert [option for option in spec["options"] if option not in text] == []
        assert [option for option in spec["options"] if f"`{option}`" not in readme] == []
