#!/usr/bin/python
"""Writes the files that a role has whole, sets modes, or takes such files away."""

from __future__ import annotations

DOCUMENTATION = r"""
module: managed_files
short_description: Write the files that a role owns, or remove them
description:
  - Writes the files that differ in content, type, owner (root) or mode. All are checked before the
    first is written; each is replaced atomically, and synced to the disk when the task ends.
    Anything else than a regular file in a file's place is removed, a directory only if it is empty.
  - With V(absent) the files are removed. An edited one is kept as C(NAME.save), and an existing
    C(NAME.save) as C(NAME.save.~1~) and so on.
  - Templates are rendered by the action plugin of the same name.
extends_documentation_fragment: [provision.gpu.common]
options:
  state:
    description: Whether the files are to be there.
    type: str
    choices: [present, absent]
    default: present
  files:
    description: The files that are written whole.
    type: list
    elements: dict
    default: []
    suboptions:
      dest:
        description: The file's path on the host.
        type: str
        required: true
      src:
        description: The template in the role's C(templates).
        type: str
      content:
        description: The text, where there is no template.
        type: str
      mode:
        description: Its mode, in octal digits.
        type: str
        default: "0644"
      directory:
        description: Make the file's directory too, as root's with mode 0755.
        type: bool
        default: false
      backup:
        description: Keep a file with another text as C(NAME.PID.TIME~).
        type: bool
        default: false
      wanted:
        description: With V(false) a file that is there is removed, and the template not rendered.
        type: bool
        default: true
      unrendered:
        description: Why the template could not be rendered; set by the action plugin.
        type: str
  cleared:
    description: Paths of files that a later task writes. What is no regular file there goes now, a
      directory only where it is empty.
    type: list
    elements: str
    default: []
  modes:
    description: Paths that are to be root's and have a mode, as V(/etc/profile.d 0755).
    type: list
    elements: str
    default: []
  follow:
    description: Set the modes of what links in O(modes) lead to; without it links are left alone.
    type: bool
    default: false
  component:
    description: With V(absent) also what the plan of a removal names of this component's files,
      as keys and package sources; they go as they are.
    type: str
    default: ""
  part:
    description: Of O(component)'s files only those of this part, as V(nvidia) of C(cuda).
    type: str
    default: ""
  owned:
    description: The files of O(component); set by the action plugin, so that the module need not
      carry what is known of all components.
    type: list
    elements: dict
    default: []
    suboptions:
      pattern:
        description: Pattern of paths.
        type: str
        required: true
      needed_by:
        description: A file with which they stay.
        type: str
        default: ""
      saying:
        description: They stay only where that file's text has this in it.
        type: str
        default: ""
  others:
    description: With V(absent), further paths that go as they are.
    type: list
    elements: str
    default: []
  emptied:
    description: With V(absent), directories that go where nothing is left in them.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Name the directory to the loader
  provision.gpu.managed_files:
    files:
      - src: etc/ld.so.conf.d/00-provision-cudnn.conf.j2
        dest: /etc/ld.so.conf.d/00-provision-cudnn.conf

- name: Remove the files
  provision.gpu.managed_files:
    state: absent
    component: cudnn
    files:
      - src: etc/ld.so.conf.d/00-provision-cudnn.conf.j2
        dest: /etc/ld.so.conf.d/00-provision-cudnn.conf
"""

RETURN = r"""
written:
  description: Paths that were not as wished, files and directories.
  type: list
  elements: str
  returned: always
removed:
  description: Paths that were there with V(absent).
  type: list
  elements: str
  returned: always
kept:
  description: The names under which edited files were kept.
  type: list
  elements: str
  returned: always
"""

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import (
    FLAG,
    NAMES,
    PRESENT_OR_ABSENT,
    REQUIRED_TEXT,
    TEXT,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host import managed_files

FILE = {
    "dest": REQUIRED_TEXT,
    "src": {"type": "str"},
    "content": {"type": "str"},
    "mode": {"type": "str", "default": "0644"},
    "directory": FLAG,
    "backup": FLAG,
    "wanted": {"type": "bool", "default": True},
    "unrendered": {"type": "str"},
}
OWNED = {
    "pattern": REQUIRED_TEXT,
    "needed_by": TEXT,
    "saying": TEXT,
}

ARGUMENTS = {
    "state": PRESENT_OR_ABSENT,
    "files": {"type": "list", "elements": "dict", "default": [], "options": FILE},
    "cleared": NAMES,
    "modes": NAMES,
    "follow": FLAG,
    "component": TEXT,
    "part": TEXT,
    "owned": {"type": "list", "elements": "dict", "default": [], "options": OWNED},
    "others": NAMES,
    "emptied": NAMES,
}


def main() -> None:
    run(ARGUMENTS, managed_files.settle, OSError)


if __name__ == "__main__":
    main()
