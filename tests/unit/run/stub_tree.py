"""A tree small enough for a unit test: the real callback and verify play, a look that is a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.collection import ROOT, collections, verify

SITE = """\
- name: Provision
  hosts: gpu
  gather_facts: false
  tasks:
    - name: look | See what is there
      gpu_state:
        answers: "{{ playbook_dir }}/answers"
        host: "{{ inventory_hostname }}"
      register: gpu_plan
      check_mode: false
      tags: [always]
    - name: end | Nothing to change
      ansible.builtin.meta: end_host
      when: ansible_check_mode or (gpu_plan.components == [] and gpu_plan.blockers == [])
      tags: [always]
    - name: preflight | Refuse what can't work
      ansible.builtin.fail:
        msg: "{{ gpu_plan.blockers | map(attribute='message') | join('; ') }}"
      when: gpu_plan.blockers | length > 0
    - name: cuda
      ansible.builtin.include_role:
        name: cuda
        apply: {tags: [cuda]}
      when: "'cuda' in gpu_plan.components"
      tags: [cuda]
    - name: proof | Look again
      gpu_state:
        answers: "{{ playbook_dir }}/answers"
        host: "{{ inventory_hostname }}"
        second: true
      register: gpu_left
    - name: proof | Nothing is left
      ansible.builtin.assert:
        that: gpu_left.components == []
        fail_msg: "left: {{ gpu_left.components | join(', ') }}"
- name: Verify
  hosts: gpu
  gather_facts: false
  vars_files: [lock.yml]
  tags: [verify]
  tasks:
"""


def plays() -> list[dict[str, Any]]:
    """The stub's plays; the second has the tasks of the real one, and the real role."""
    real = yaml.safe_load((ROOT / "playbooks" / "site.yml").read_text("utf-8"))
    made: list[dict[str, Any]] = yaml.safe_load(SITE)
    made[1]["tasks"] = next(play["tasks"] for play in real if play["name"] == "Verify")
    return made


LOOK = """\
import json
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule(
    {"answers": {}, "host": {}, "second": {"type": "bool"}}, supports_check_mode=True
)
name = module.params["host"] + (".second" if module.params["second"] else "")
with open(module.params["answers"] + "/" + name + ".json") as stream:
    module.exit_json(**json.load(stream))
"""

CUDA = """\
- name: install | Install the packages
  ansible.builtin.command: "{{ cuda_command | default('true') }}"
  register: __cuda_install
- name: install | Fetch with a password
  ansible.builtin.command: echo {{ cuda_hidden | default('s3cr3t') }}
  no_log: true
- name: install | Tidy up
  ansible.builtin.include_role:
    name: shared
"""

# What several roles have in common, in a role that is of no component.
SHARED = """\
- name: cache | Remove what was downloaded
  ansible.builtin.command: "{{ shared_command | default('true') }}"
"""

CONFIGURATION = """\
[defaults]
interpreter_python = auto_silent
collections_path = collections
callbacks_enabled = provision.gpu.report
"""

LOCK = {
    "gpu_lock": {
        "format": 1,
        "digest": "sha256:abc",
        "rows": [],
        "stacks": {
            "s1": {
                "nvidia_driver": {"version": "470.256.02"},
                "cuda": {"release": "11.2", "version": "11.2.2"},
                "tensorflow": {"version": "2.9.3", "python": "3.9"},
            }
        },
    }
}


def change(component: str, item: str = "package", **more: Any) -> dict[str, Any]:
    """A planned change as `gpu_state` returns it."""
    return {
        "component": component,
        "item": item,
        "from": None,
        "to": "1",
        "reason": "missing",
        "reboot": False,
        "selected": True,
        "repair": None,
    } | more


def plan(*changes: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A result of `gpu_state`."""
    selected = [change for change in changes if change["selected"]]
    return {
        "stack": "s1",
        "platform": {"distribution": "debian", "release": "11", "architecture": "x86_64"},
        "simulated_gpu": True,
        "container": True,
        "state": {"cuda": {"version": None if changes else "11.2.2"}},
        "gpus": [{"index": 0, "name": "Simulated GPU", "pci": "0000:01:00.0", "usable": True}],
        "changes": list(changes),
        "components": list(dict.fromkeys(change["component"] for change in selected)),
        "not_selected": [change["component"] for change in changes if not change["selected"]],
        "repairs": {},
        "blockers": [],
        "reboot": {"needed": False, "reason": ""},
        "receipt": None,
    } | more


class Tree:
    """A rendered project's folder with stand-ins for the look and one role."""

    def __init__(self, folder: Path) -> None:
        self.path = folder
        self.report_path = folder / "report" / "latest" / "report.json"

    def answers(
        self, host: str, first: dict[str, Any], second: dict[str, Any] | None = None
    ) -> None:
        folder = self.path / "answers"
        (folder / f"{host}.json").write_text(json.dumps(first))
        (folder / f"{host}.second.json").write_text(json.dumps(second or plan()))

    def hosts(self, *names: str, **variables: Any) -> None:
        """An inventory of these hosts, all of them this machine."""
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        inventory = {"gpu": {"hosts": dict.fromkeys(names), "vars": local | variables}}
        (self.path / "lab" / "hosts.yml").write_text(json.dumps(inventory))

    def report(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self.report_path.read_text(encoding="utf-8"))
        return data

    def events(self) -> list[dict[str, Any]]:
        text = (self.path / "report" / "latest" / "events.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]


def make_tree(folder: Path) -> Tree:
    """Everything that `ansible-playbook site.yml -i lab` needs."""
    for name in ("lab", "library", "roles/cuda/tasks", "answers"):
        (folder / name).mkdir(parents=True)
    collections(folder / "collections")
    verify(folder)
    (folder / "site.yml").write_text(yaml.safe_dump(plays(), sort_keys=False))
    (folder / "library" / "gpu_state.py").write_text(LOOK)
    (folder / "roles/cuda/tasks/main.yml").write_text(CUDA)
    (folder / "roles/shared/tasks").mkdir(parents=True)
    (folder / "roles/shared/tasks/main.yml").write_text(SHARED)
    (folder / "lock.yml").write_text(json.dumps(LOCK))
    (folder / "ansible.cfg").write_text(CONFIGURATION)
    made = Tree(folder)
    made.hosts("gpu01")
    return made
