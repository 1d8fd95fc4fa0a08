"""Loads the run's report wherever this collection's site.yml is run.

Ansible loads the callbacks that lie beside a playbook without being told to. `callbacks_enabled` in
an ansible.cfg is lost with that file: where the playbook is started from another folder, with
another configuration, or in a folder whose ansible.cfg Ansible doesn't trust.
"""

from __future__ import annotations

from ansible import constants as C  # noqa: N812  as everywhere in Ansible
from ansible_collections.provision.gpu.plugins.callback import report

# Ansible reads it without running this file.
DOCUMENTATION = """
name: provision_report
type: aggregate
short_description: Keeps the report of every run in report/
description:
  - As provision.gpu.report.
author: provision
extends_documentation_fragment: provision.gpu.report
"""


class CallbackModule(report.CallbackModule):  # type: ignore[misc]  # ansible has no types
    """The plugin, unless it is enabled by its name as well: one report is enough."""

    def __init__(self) -> None:
        super().__init__()
        self.disabled = "provision.gpu.report" in C.CALLBACKS_ENABLED
