"""The options of the report, for the plugin and for the one beside the collection's playbooks."""

from __future__ import annotations


class ModuleDocFragment:
    """Read by Ansible, for the defaults too."""

    DOCUMENTATION = """
options:
  keep:
    description:
      - How many runs are kept in C(report/); the oldest are removed. C(0) keeps all.
    type: int
    default: 50
    env:
      - name: PROVISION_REPORT_KEEP
    ini:
      - section: provision
        key: report_keep
"""
