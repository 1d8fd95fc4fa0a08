#!/usr/bin/python
"""Documents the options and results of `gpu_acceptance_judge`; its action plugin does the work."""

DOCUMENTATION = r"""
module: gpu_acceptance_judge
short_description: Judge the figures of all hosts of an acceptance
description:
  - Compares what C(provision.gpu.gpu_acceptance) measured on the hosts of this play with the
    catalog, with similar cards and with earlier acceptances. Runs on the controller, once per run.
  - Reads the answers from the variables C(gpu_acceptance) and C(gpu_acceptance_again) of the hosts.
  - Adds the judged figures to C(report/acceptance-history/) of the project, in check mode too.
  - A bad GPU does not fail the task. The results are in C(hosts).
extends_documentation_fragment: [provision.gpu.common]
options:
  final:
    description: Whether to judge. Otherwise suspects are named, and nothing is judged or written
      where there are any.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Judge what all hosts have measured
  provision.gpu.gpu_acceptance_judge:
  run_once: true
  register: gpu_judgement
"""

RETURN = r"""
hosts:
  description: The verdict of each host and one line for each fault, by its name.
  type: dict
  returned: where it judges
judged:
  description: By host, the findings that are judged now, each with its place in the verdict; as the
    text of its JSON.
  type: str
  returned: where it judges
well:
  description: Whether no host has a fault.
  type: bool
  returned: where it judges
history_warnings:
  description: What of the history can't be read or written, where there is such.
  type: list
  elements: str
  returned: where there are any
suspects:
  description: The hosts on which a rate is too low, to be asked again; empty with C(final).
  type: list
  elements: str
  returned: always
"""
