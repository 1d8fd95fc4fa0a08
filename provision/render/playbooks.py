"""The project's own playbooks: each imports the collection's, where the work is written."""

from __future__ import annotations

_PLAYBOOK = """\
{comment}
---
- name: {name}
  ansible.builtin.import_playbook: provision.gpu.{playbook}
"""

_SITE = """\
# Brings every host that has a gpu_stack to its row in lock.yml, and proves it. Made by
# `provision render`; run it with: ansible-playbook site.yml -i lab"""

_DOCTOR = """\
# Says what is wrong with every host that has a gpu_stack, and what cures it. Made by `provision
# render`; run it with: ansible-playbook doctor.yml -i lab
# With -e gpu_doctor_fix=true it does what is safe, with -e '{"gpu_doctor_logs": ["/path"]}' it
# reads these files on the hosts too."""


_ACCEPT = """\
# Says of every GPU of every host that has a gpu_stack whether it is well, and what to do about one
# that is not. Made by `provision render`; run it with: ansible-playbook accept.yml -i lab"""


_CACHE = """\
# Brings the fleet's cache, the hosts of the group gpu_cache, to what lock.yml names; site.yml does
# so too. Made by `provision render`; run it with: ansible-playbook cache.yml -i lab"""


_TRAIN = """\
# Trains across hosts: one script on all of them, as the workers of one job. Made by `provision
# render`; run it with: ansible-playbook train.yml -i lab -e gpu_train_hosts=gpu -e
# gpu_train_script=train.py
# With -e gpu_train_action=follow, status or stop and -e gpu_train_job=NAME it comes back to
# a job."""


def render() -> dict[str, bytes]:
    """site.yml, doctor.yml, accept.yml, cache.yml and train.yml of a project."""
    playbooks = {
        "site": ("GPU stack", _SITE),
        "doctor": ("Doctor", _DOCTOR),
        "accept": ("Acceptance", _ACCEPT),
        "cache": ("Artifact cache", _CACHE),
        "train": ("Training", _TRAIN),
    }
    return {
        f"{playbook}.yml": _PLAYBOOK.format(comment=comment, name=name, playbook=playbook).encode()
        for playbook, (name, comment) in playbooks.items()
    }
