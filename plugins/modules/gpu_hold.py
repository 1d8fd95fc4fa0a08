#!/usr/bin/python
"""Documents the options and results of `gpu_hold`; its action plugin does the work."""

DOCUMENTATION = r"""
module: gpu_hold
short_description: Lock the host for this run
description:
  - Takes the lock /var/lib/provision/run.lock on the host for as long as ansible-playbook runs.
  - Fails with the holder's name if another run has it. Does nothing in check mode.
  - While it is held, reports the progress of long steps as events of the callback
    C(provision.gpu.report).
extends_documentation_fragment: [provision.gpu.common]
options:
  watch:
    description: Paths that show progress, C(cudnn_root) and C(tensorflow_root); and
      C(cudnn_file), the file on this machine that will be copied.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Hold the host for this run
  provision.gpu.gpu_hold:
    watch:
      tensorflow_root: /opt/tensorflow
"""

RETURN = r"""
held:
  description: Whether the host is held; false in check mode, without the collection's callback,
    and over a connection without a standard input.
  type: bool
  returned: always
reason:
  description: Why it could not be held, where the run goes on without.
  type: str
  returned: where it could not be held
"""
