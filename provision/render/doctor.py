"""doctor.yml: what is wrong with the hosts, and the fixes that are safe.

A play of its own: it looks where a plan has no reason to, and must be able to run where a run is
refused. It changes nothing unless it is told to.
"""

from __future__ import annotations

from typing import Any

from provision.render.site import COLLECTION, HOSTS
from provision.render.stacks import SLIM
from provision.render.yaml_text import dump

HEADER = """\
Says what is wrong with every host that has a gpu_stack, and what cures it. Made by `provision
render`; run it with: ansible-playbook doctor.yml -i lab
With -e gpu_doctor_fix=true it does what is safe, with -e '{"gpu_doctor_logs": ["/path"]}' it reads
these files on the hosts too."""

PLAYBOOK_HEADER = """\
Says what is wrong with every host that has a gpu_stack, and what cures it; with gpu_doctor_fix it
does what is safe. A project's doctor.yml imports it, as provision.gpu.doctor. Rendered from
provision/render/doctor.py by `provision roles sync`; edit that."""

# What tasks/doctor_fix.yml of the role gpu_state does, by the lists that it works on.
STEPS = ", ".join(f"gpu_doctor.fixes.{step}" for step in ("files", "initramfs", "aside", "links"))


def _gpu_state(name: str, tasks_from: str, how: str = "import_role") -> dict[str, Any]:
    role: dict[str, Any] = {
        "name": f"{COLLECTION}.gpu_state",
        "tasks_from": tasks_from,
        "rolespec_validate": False,
    }
    if how == "include_role":
        role["apply"] = {"tags": ["always"]}
    return {"name": name, f"ansible.builtin.{how}": role, "tags": ["always"]}


def doctor() -> list[dict[str, Any]]:
    """The play as data."""
    fix = [
        "gpu_doctor_fix | default(false) | bool",
        "not ansible_check_mode",
        f"gpu_doctor.fixes.dpkg or ([{STEPS}] | flatten | length > 0)",
    ]
    tasks: list[dict[str, Any]] = [
        {
            "name": "End | Leave a host without a wish alone",
            "ansible.builtin.meta": "end_host",
            "when": "gpu_stack is not defined",
            "tags": ["always"],
        },
        {
            "name": "Look | Load the lock",
            "ansible.builtin.include_vars": {"file": "{{ playbook_dir }}/" + SLIM},
            "run_once": True,
            "tags": ["always"],
        },
        _gpu_state("Doctor | Ask what is wrong", "doctor"),
        {
            "name": "Fix | Do what is safe, and ask again",
            "when": fix,
            "tags": ["always"],
            # Included: an imported task that is skipped would register that over the answer.
            "block": [
                _gpu_state("Fix | Do what is safe", "doctor_fix", "include_role"),
                _gpu_state("Doctor | Ask what is wrong now", "doctor", "include_role"),
            ],
        },
        {
            "name": "Doctor | Refuse to call a host healthy that is not",
            "ansible.builtin.fail": {
                "msg": "{{ gpu_doctor.findings | map(attribute='title') | join('; ') }}"
            },
            "when": "gpu_doctor.findings | length > 0",
            "tags": ["always"],
        },
    ]
    return [
        {
            "name": "Doctor",
            "hosts": HOSTS,
            "strategy": "ansible.builtin.linear",
            "gather_facts": False,
            "become": True,
            "tasks": tasks,
        }
    ]


def render() -> dict[str, bytes]:
    """doctor.yml of a project, which imports the collection's."""
    play = {"name": "Doctor", "ansible.builtin.import_playbook": f"{COLLECTION}.doctor"}
    return {"doctor.yml": dump([play], header=HEADER)}


def playbook() -> dict[str, bytes]:
    """playbooks/doctor.yml of the collection, by its path there."""
    return {"playbooks/doctor.yml": dump(doctor(), header=PLAYBOOK_HEADER)}
