#!/usr/bin/python
"""What `gpu_hold` takes and returns; its action plugin does all of it."""

DOCUMENTATION = r"""
module: gpu_hold
short_description: Hold the host for this run
description:
  - Takes the lock /var/lib/provision/run.lock on the host for as long as ansible-playbook runs.
  - Fails with the holder's name where another run has it. Does nothing in check mode.
  - While it is held, tells how far the long steps are, as events of the callback
    C(provision.gpu.report).
options:
  watch:
    description: Where to look for progress, C(cudnn_root) and C(tensorflow_root); and
      C(cudnn_file), the file on this machine that will be copied.
    type: dict
    default: {}
author:
  - The provision authors
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
    and over a connection that takes no standard input.
  type: bool
  returned: always
reason:
  description: Why it could not be held, where the run goes on without.
  type: str
  returned: when that is so
"""
