"""A component is named by its own files and by the registry; elsewhere the registry is asked.

Measured by one component, NVIDIA's container toolkit. A file that is listed here names it for the
reason beside it; the list may get shorter.
"""

from __future__ import annotations

import re
import subprocess

from tests.collection import ROOT

NAME = re.compile(r"container.?toolkit|nvidia-ctk", re.I)
PLACES = ("provision", "plugins", "roles", "scripts", "bench", "playbooks")
# The toolkit's own, and what `provision roles sync` writes.
OWN = re.compile(
    r"/nvidia_container_toolkit/|container_toolkit\.(py|yml)$"
    r"|^plugins/modules/(cdi|container_runtime)\.py$"
    r"|/options\.json$|/registered(_[a-z]+)?\.py$"
)
ALLOWED = {
    "plugins/module_utils/gpu_stack/components/__init__.py": "the registry",
    "plugins/module_utils/gpu_stack/components/gpu_workspace/rules.py": "needs docker as it is set",
    "plugins/module_utils/gpu_stack/components/gpu_serving/rules.py": "needs docker as it is set",
    "plugins/module_utils/gpu_stack/doctor/apt.py": "threads of its repository on GitHub",
    "provision/kubernetes/stack.py": "pods need the wish for it",
    "provision/roles/workspaces_rules.py": "workspaces need the wish for it",
    "roles/gpu_workspace/README.md": "what a host of the role alone must have",
    "roles/gpu_serving/README.md": "what a host of the role alone must have",
    "provision/verify/checks/gpu_workspace.py": "workspaces have their GPUs by it",
    "provision/verify/checks/gpu_serving.py": "models have their GPUs by it",
}


def test_who_names_a_component() -> None:
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *PLACES]
    done = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    named = {
        path
        for path in done.stdout.split("\0")
        if path
        and not OWN.search(path)
        and (ROOT / path).is_file()
        and NAME.search((ROOT / path).read_bytes().decode("utf-8", "replace"))
    }
    assert named == set(ALLOWED)
