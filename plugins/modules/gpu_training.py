#!/usr/bin/python
"""A host's part in a training across hosts; a thin shim over `gpu_stack.training`."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_training
short_description: Inspect, start, read and stop a host's worker of a training across hosts
description:
  - The step of C(train.yml) on each host. Normally its options come from the action plugin of the
    same name, which knows the inventory and reads the script.
  - A worker runs as an ordinary user in a transient unit of systemd, which outlives the connection.
    Its folder belongs to that user; root reads and writes there only as that user.
options:
  step:
    description:
      - C(look) says what the host is like.
      - C(listen) listens on I(ports) for some seconds, and says who holds those that are taken.
      - C(reach) connects to the listeners of I(places).
      - C(start) writes the worker's folder and starts its unit.
      - C(read) returns what is new of the worker, and waits I(wait) seconds for it.
      - C(stop) asks the job to end and waits until this host's part has.
      - C(list) returns the jobs that have a worker on this host.
    type: str
    choices: [look, listen, reach, start, read, stop, list]
    required: true
  job:
    description: The job's name.
    type: str
    default: ""
  worker:
    description: The number of this host's worker; 0 is the chief.
    type: int
    default: 0
  host:
    description: This host's name in the inventory.
    type: str
    default: ""
  ports:
    description: The ports that the worker needs here.
    type: list
    elements: int
    default: []
  token:
    description: What tells the listeners of this start from others.
    type: str
    default: ""
  places:
    description: Whom this host must reach, each with C(host), C(address) and C(port).
    type: list
    elements: dict
    default: []
  user:
    description: As whom the job runs. Empty for who has logged in.
    type: str
    default: ""
  folder:
    description: The folder of all jobs; C(~) is the user's home. Empty for C(~/provision-train).
    type: str
    default: ""
  tensorflow_root:
    description: The directory of TensorFlow's environments.
    type: path
    default: /opt/tensorflow
  python:
    description: The interpreter of TensorFlow's environment.
    type: str
    default: ""
  given:
    description:
      - What the supervisor must know, as JSON. Text, and not a dictionary, so that the host's log
        has none of it - the script's arguments and environment may hold a secret - and no part of
        it is hidden in what the module returns.
    type: str
    default: ""
  secret:
    description: By which the supervisors of this job know each other.
    type: str
    default: ""
  files:
    description: The files of the worker's folder, by their paths below it, as JSON like I(given).
    type: str
    default: ""
  offset:
    description: From where the worker's output is wanted; below 0 as many bytes before its end.
    type: int
    default: 0
  since:
    description: When what is known of the worker was written.
    type: float
  wait:
    description: Seconds to wait for news.
    type: float
    default: 0
extends_documentation_fragment: [provision.gpu.common]
"""

EXAMPLES = r"""
- name: Say which trainings were started here
  provision.gpu.gpu_training:
    step: list
  register: trainings
"""

RETURN = r"""
training:
  description: What the step says.
  type: raw
  returned: always
"""

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import (
    HIDDEN_TEXT,
    TEXT,
    one_of,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.training import steps

ARGUMENTS = {
    "step": one_of(*steps.STEPS),
    "job": TEXT,
    "worker": {"type": "int", "default": 0},
    "host": TEXT,
    "ports": {"type": "list", "elements": "int", "default": []},
    "token": dict(TEXT, no_log=False),
    "places": {"type": "list", "elements": "dict", "default": []},
    "user": TEXT,
    "folder": TEXT,
    "tensorflow_root": {"type": "path", "default": "/opt/tensorflow"},
    "python": TEXT,
    "given": HIDDEN_TEXT,
    "secret": HIDDEN_TEXT,
    "files": HIDDEN_TEXT,
    "offset": {"type": "int", "default": 0},
    "since": {"type": "float"},
    "wait": {"type": "float", "default": 0},
}


def main() -> None:
    run(ARGUMENTS, steps.settle)


if __name__ == "__main__":
    main()
