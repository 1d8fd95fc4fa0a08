"""A component that nobody needs, added to a copy of the repository as docs/architecture.md says.

It keeps one file, /etc/provision-note, on the host: no package, no download, no part in the lock.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
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


# Another one, of which a lock has a part: what its wish, its facts and its choice are made of.
LOCKED = "gpu_motto"
LOCKED_LINE = f'    Component("{LOCKED}", "Motto", "motto", state=False),\n'
LOCKED_FILES = {
    f"provision/catalog/own/{LOCKED}.yml": f"""
{LOCKED}:
  - {{platform: debian11, version: "1.0", text: Slowly, source: "https://example.org/1.0"}}
  - {{platform: debian11, version: "2.0", text: Quickly, source: "https://example.org/2.0"}}
""",
    f"provision/catalog/own/{LOCKED}.py": f'''"""Mottos."""

{HEAD}from provision.catalog.rows import Row


class MottoRow(Row):
    """A motto of a platform."""

    platform: str
    version: str
    text: str


ROWS = {{"{LOCKED}": list[MottoRow]}}
IDENTITY = {{"{LOCKED}": ("platform", "version")}}
NAMED = {{"platforms": ("{LOCKED}.platform",)}}
''',
    f"provision/inventory/own/{LOCKED}.py": f'''"""The wish for a motto."""

{HEAD}from provision.inventory.literals import version_text

WORD = "motto"
EXAMPLE = \'"2.0"\'
MEANING = "The motto."
COMMENT = "What everybody is to read:"


def wished(value, where):
    return version_text(value, WORD, where)
''',
    f"provision/resolve/own/{LOCKED}.py": f'''"""Which motto is chosen."""

{HEAD}from dataclasses import dataclass
from typing import Any

from provision.resolve.rules.clash import Fact
from provision.resolve.search import Demand

WORD = "motto"
TITLE = "motto"


@dataclass(frozen=True)
class Motto:
    version: str
    row: Any

    @property
    def mark(self):
        return f"-motto{{self.version}}"


def candidates(catalog):
    rows = reversed(catalog.own["{LOCKED}"])
    return [*(Motto(row.version, row) for row in rows), None]


def demands(wish):
    version = wish.own.get(WORD)
    if version:
        yield Demand(WORD, WORD, lambda m: m and m.version == version, f"motto: {{version}}")


def reason(motto, _wish):
    return f"{{motto.version}} was wished"


RULES = (
    Fact(
        "motto-platform",
        ("platform", WORD),
        lambda platform, motto: motto is None or motto.row.platform == platform.id,
        lambda _problem, _clash: "mottos are known for debian11",
    ),
)
''',
    f"provision/lock/own/{LOCKED}.py": f'''"""The lock's part of a motto."""

{HEAD}from provision.resolve.own.{LOCKED} import WORD


def version(stack):
    return stack.own[WORD].version if WORD in stack.own else ""


def urls(_stack):
    return []


def repositories(_stacks, _reader):
    return {{}}


def narrowed(facts, part):
    rows = [row for row in facts.own["{LOCKED}"] if row.version == part["version"]]
    return facts.model_copy(update={{"own": {{**facts.own, "{LOCKED}": rows}}}}) if rows else None


def part(stack, _indices, _prefer):
    if WORD not in stack.own:
        return {{}}, {{}}
    motto = stack.own[WORD]
    return {{"version": motto.version, "text": motto.row.text}}, {{}}
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
    register(place, LINE, FILES)
    done = provision(place, place, "roles", "sync")
    assert done.returncode == 0, done.stdout + done.stderr


def register(place: Path, line: str, files: Mapping[str, str]) -> None:
    """Writes the files of a component, and its line at the end of the registry."""
    for path, text in files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text, "utf-8")
    registry = place / REGISTRY
    before, end, after = registry.read_text("utf-8").partition("\n)\n\nNAMES = ")
    assert end
    registry.write_text(f"{before}\n{line}{end[1:]}{after}", "utf-8")


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
