"""A component that nobody needs, added to a copy of the repository as docs/architecture.md says.

It keeps one file, /etc/provision-note, on the host: no package, no download, no part in the lock.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.collection import ROOT

NAME = "gpu_note"
PATH = "/etc/provision-note"
REGISTRY = "plugins/module_utils/gpu_stack/components/__init__.py"
LINE = f'    Component("{NAME}", "Note", "note", locked=False),\n'
COMPONENT = f"plugins/module_utils/gpu_stack/components/{NAME}"
HEAD = "from __future__ import annotations\n\n"

FILES = {
    f"{COMPONENT}/__init__.py": f'''"""A note on the host."""

{HEAD}from ...change import change

NAME = "{NAME}"
PATH = "{PATH}"


def look(context):
    """{{version, text}} of the note on the host."""
    text = context.read(PATH)
    return {{"version": None if text is None else text.strip(), "text": text}}


def differ(_stack, state, options):
    """The change of a note that is not as wished."""
    text = options["{NAME}_text"] + "\\n"
    if state["text"] == text:
        return []
    return [change(NAME, PATH, state["version"], text.strip(), "somebody reads it")]
''',
    f"{COMPONENT}/rules.py": f'"""Nothing forbids a note."""\n\n{HEAD}RULES = ()\n',
    f"{COMPONENT}/removal.py": f'''"""Removal of the note."""

{HEAD}from ...host.owned_files import owned
from . import PATH

# The files that the role writes whole.
FILES = owned(PATH)


def remains(_context, _packages):
    """Nothing but that file."""
    return []
''',
    f"roles/{NAME}/meta/main.yml": f"""---
galaxy_info:
  role_name: {NAME}
  author: the provision project
  description: A note on the host
  license: Apache-2.0
  min_ansible_version: "2.17"
  platforms:
    - name: Debian
      versions: [bullseye]
dependencies: []
""",
    f"roles/{NAME}/tasks/main.yml": f"""---
# A note on the host; or its removal.
- name: Bring it to what is wished, or take it away
  ansible.builtin.include_tasks: "{{{{ {NAME}_state }}}}.yml"
""",
    f"roles/{NAME}/tasks/present.yml": f"""---
- name: present | Write the note
  ansible.builtin.copy:
    dest: {PATH}
    content: "{{{{ {NAME}_text }}}}\\n"
    mode: "0644"
""",
    f"roles/{NAME}/tasks/absent.yml": f"""---
- name: absent | Remove the note
  ansible.builtin.file:
    path: {PATH}
    state: absent
""",
    f"provision/roles/{NAME}.py": f'''"""{NAME}: a note on the host."""

{HEAD}from typing import Any

from provision.roles.base import Options, Role, Row, State, option, state


class GpuNoteOptions(Options):
    """Public variables of the role."""

    {NAME}_state: State = state()
    """absent: remove the note."""
    {NAME}_text: str = option("nothing to say", looked_at=True)
    """What the note says."""


def variables(_stack: str, _row: Row) -> dict[str, Any]:
    """A stack decides nothing of it."""
    return {{}}


ROLE = Role("{NAME}", GpuNoteOptions, variables)
''',
    f"provision/verify/probe/{NAME}.py": f'''"""The note."""

{HEAD}from typing import Any

from .parts import part
from .system import read


@part
def of_note(_row: dict[str, Any], _options: dict[str, Any]) -> dict[str, Any]:
    """What the note says; None without one."""
    return {{"note": read("{PATH}")}}
''',
    f"provision/verify/checks/{NAME}.py": f'''"""The note says what is wished."""

{HEAD}from ..cures import CURES, Cure
from .check import Seen, Verdict, check, failed, passed

CURES["{NAME}.text"] = Cure(("{NAME}",), "somebody writes it anew; ask who")


@check("{NAME}.text", "The note says what is wished")
def note(seen: Seen) -> Verdict:
    text = (seen.probe["note"] or "").strip()
    if text != seen.options["{NAME}_text"]:
        return failed(f"the note says {{text!r}}")
    return passed(text)
''',
}


def copy_with_it(place: Path) -> Path:
    """A copy of the repository in the folder `place`, with the component; returns its path."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    needed = (
        "provision/",
        "plugins/",
        "roles/",
        "playbooks/",
        "meta/",
        "inventories/",
        "galaxy.yml",
    )
    for name in done.stdout.split("\0"):
        if name.startswith(needed) and (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, place / name)
    add(place)
    return place


def add(place: Path) -> None:
    """Adds the component to a repository: its files, its line in the registry, `roles sync`."""
    for path, text in FILES.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text, "utf-8")
    registry = place / REGISTRY
    before, end, after = registry.read_text("utf-8").partition("\n)\n\nNAMES = ")
    assert end
    registry.write_text(f"{before}\n{LINE}{end[1:]}{after}", "utf-8")
    done = provision(place, place, "roles", "sync")
    assert done.returncode == 0, done.stdout + done.stderr


def provision(copy: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The copy's `provision`, run in a folder."""
    return subprocess.run(
        [sys.executable, "-m", "provision", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
