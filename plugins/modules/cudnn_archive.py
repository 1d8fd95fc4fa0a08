#!/usr/bin/python
"""Unpacks cuDNN from a checked archive and switches to it, or removes it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cudnn_archive
short_description: Install cuDNN from an archive whose SHA-256 is checked, or remove it
description:
  - Takes the archive from a file on the host, a file on the controller, or the first URL that has
    it; checks its SHA-256, unpacks it beside its place and switches to it. Nothing is visible below
    O(root) until it is complete, and a rejected archive leaves the host unchanged.
  - A version with missing or altered files is replaced as a whole. Files from elsewhere are kept
    under another name.
  - All users can enter the directories down to the files; only root can write in those from O(root)
    on.
extends_documentation_fragment: [provision.gpu.common, provision.gpu.ca_bundle]
options:
  state:
    description: With V(absent) the versions that this module unpacked are removed, file by file as
      their manifests name them; what was changed since is kept as C(NAME.save).
    type: str
    choices: [present, absent]
    default: present
  root:
    description: Directory of all versions; C(current) in it leads to the one in use.
    type: path
    required: true
  version:
    description: The version, as V(8.1.0.77).
    type: str
    required: true
  cuda:
    description: The CUDA release that the archive was built for, as V(11.2).
    type: str
    required: true
  sha256:
    description: SHA-256 of the archive; needed with O(state=present).
    type: str
  host_file:
    description: The archive as a file of the host. It may lie where users write.
    type: str
    default: ""
  controller_file:
    description: The archive as a file of the machine that runs Ansible. It is checked there, and
      copied where it is needed.
    type: str
    default: ""
  archive:
    description: Where the action plugin copied O(controller_file) to. It is removed with its
      directory once it is unpacked.
    type: str
    default: ""
  urls:
    description: Where to fetch the archive, tried in this order. NVIDIA's address of 8.1.0.77 for
      CUDA 11.2 stands for that of O(version).
    type: list
    elements: str
    default: []
  proxy:
    description: Proxy for the download.
    type: str
    default: ""
  reinstall:
    description: Unpack the archive again though it is there.
    type: bool
    default: false
  keep_old:
    description: Keep the versions that are no longer in use.
    type: bool
    default: true
  layout:
    description: With V(cuda) the files are also links in O(tree), under the names that tutorials
      copy there. With V(versioned) there are none in any of CUDA's trees.
    type: str
    choices: [versioned, cuda]
    default: versioned
  tree:
    description: CUDA's tree for O(layout=cuda); by default C(/usr/local/cuda-CUDA).
    type: str
    default: ""
  begin:
    description: Begin to fetch and to unpack in a process of its own, and return at once. The next
      call without it waits for that and uses its result, or does again what failed. Nothing becomes
      current before.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Bring cuDNN
  provision.gpu.cudnn_archive:
    root: /opt/nvidia/cudnn
    version: 8.1.0.77
    cuda: "11.2"
    sha256: dbe82faf071d91ba9bcf00480146ad33f462482dfee56caf4479c1b8dabe3ecb
    controller_file: /srv/nvidia/cudnn-11.2-linux-x64-v8.1.0.77.tgz
"""

RETURN = r"""
library:
  description: Where the libraries of the version in use are, or will be.
  type: str
  returned: unless it was only begun
libraries:
  description: The same, and CUDA's tree where the files are linked into it. From any of them the
    loader may take the libraries.
  type: list
  elements: str
  returned: with state present, unless it was only begun
renewed:
  description: Whether C(current) holds other files than before.
  type: bool
  returned: with state present
backup:
  description: Names under which was kept what stood in the way, and what somebody changed.
  type: list
  elements: str
  returned: with state present
removed:
  description: Versions that were removed.
  type: list
  elements: str
  returned: unless it was only begun
kept:
  description: Files that somebody had changed, by the names under which they were kept.
  type: list
  elements: str
  returned: with state absent
begun:
  description: Whether the archive is fetched or unpacked now.
  type: bool
  returned: with begin
"""

from ansible_collections.provision.gpu.plugins.module_utils.answers import run
from ansible_collections.provision.gpu.plugins.module_utils.arguments import (
    FLAG,
    HIDDEN_TEXT,
    PRESENT_OR_ABSENT,
    REQUIRED_TEXT,
    TEXT,
    one_of,
)
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.components.cudnn import bring

ARGUMENTS = {
    "state": PRESENT_OR_ABSENT,
    "root": {"type": "path", "required": True},
    "version": REQUIRED_TEXT,
    "cuda": REQUIRED_TEXT,
    "sha256": {"type": "str"},
    "host_file": TEXT,
    "controller_file": TEXT,
    "archive": TEXT,
    "urls": {"type": "list", "elements": "str", "default": [], "no_log": True},
    "proxy": HIDDEN_TEXT,
    "ca_bundle": TEXT,
    "reinstall": FLAG,
    "keep_old": {"type": "bool", "default": True},
    "layout": one_of("versioned", "cuda", default="versioned"),
    "tree": TEXT,
    "begin": FLAG,
}


def main() -> None:
    run(
        ARGUMENTS,
        bring.settle,
        addresses=True,
        required_if=[("state", "present", ["sha256"])],
    )


if __name__ == "__main__":
    main()
