"""A module or a role's tasks of the collection, as a play on this machine calls them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.collection import ACTIONS, IMPORTABLE, NAME, altered, writes_json


def results(
    folder: Path,
    module: str,
    tasks: Mapping[str, Mapping[str, Any]],
    variables: Mapping[str, Any] | None = None,
    **environment: str,
) -> tuple[dict[str, Any], str]:
    """({task: its result}, all that a person with -vvv reads); a failure is ignored.

    `tasks`: {name: the task's keywords, with the module's under `arguments`}.
    """
    book: list[dict[str, Any]] = []
    for name, task in tasks.items():
        words = {key: value for key, value in task.items() if key != "arguments"}
        call = {f"{NAME}.{module}": task["arguments"], "register": f"result_{name}"}
        book.append({"name": name, **call, "ignore_errors": True, **words})
    answers = ", ".join(f"'{name}': result_{name}" for name in tasks)
    book.append(writes_json(folder / "out.json", "{{ {" + answers + "} | to_json }}"))
    play = {"hosts": "localhost", "gather_facts": False, "tasks": book}
    (folder / "play.yml").write_text(json.dumps([play]), "utf-8")
    (folder / "vars.json").write_text(json.dumps(dict(variables or {})), "utf-8")
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    interpreter = f"ansible_python_interpreter={sys.executable}"
    done = subprocess.run(
        [
            *(program, "-vvv", "-i", "localhost,", "-c", "local"),
            *("-e", interpreter, "-e", "@vars.json", "play.yml"),
        ],
        cwd=folder, capture_output=True, text=True, check=False,
        env={
            **os.environ, **ACTIONS, "ANSIBLE_COLLECTIONS_PATH": str(IMPORTABLE), **environment,
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((folder / "out.json").read_text("utf-8")), done.stdout + done.stderr


def drivers_tasks(
    folder: Path,
    program: str,
    path: str,
    added: dict[str, str],
    variables: Mapping[str, Any],
    *more: str,
    then: Sequence[Mapping[str, Any]] = (),
) -> subprocess.CompletedProcess[str]:
    """`role_tasks` of the role nvidia_driver."""
    variables = {"nvidia_driver_announce": "", **variables}
    return role_tasks(folder, program, "nvidia_driver", path, added, variables, *more, then=then)


def role_tasks(
    folder: Path,
    program: str,
    name: str,
    path: str,
    added: dict[str, str],
    variables: Mapping[str, Any],
    *more: str,
    then: Sequence[Mapping[str, Any]] = (),
) -> subprocess.CompletedProcess[str]:
    """A play of a role's file of tasks, and of `then`.

    `program`: an ansible-playbook, which gets `more` options. `added`: as `altered` has it.
    """
    role = {"name": f"{NAME}.{name}", "tasks_from": path, "rolespec_validate": False}
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars": dict(variables),
        "tasks": [{"ansible.builtin.include_role": role}, *then],
    }
    (folder / "play.yml").write_text(json.dumps([play]), "utf-8")
    collections = altered(folder / "collections", added)
    return subprocess.run(
        [program, "play.yml", *more],
        cwd=folder, capture_output=True, text=True, check=False,
        env={
            **os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_COLLECTIONS_PATH": str(collections),
        },
    )  # fmt: skip
