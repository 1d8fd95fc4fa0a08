"""A rendered project with this machine as its host, whose module's answer is a file."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from provision import collection
from provision.render import playbooks
from tests import called
from tests.collection import PLUGINS, ROOT

ANSWER = "answer.json"
# What Slurm was told of the host, by a stand-in for the module that tells it.
TOLD = "told.json"
TELLS = """\
import json
from ansible.module_utils.basic import AnsibleModule
NAMES = ("state", "verdict", "level", "reason")
module = AnsibleModule({{name: {{}} for name in NAMES}}, supports_check_mode=True)
with open({path!r}, "w") as file:
    json.dump([module.params[name] for name in NAMES], file)
module.exit_json(changed=True, node="gpu01", jobs=[], said="drained")
"""
LOCAL = {
    "ansible_connection": "local",
    "ansible_python_interpreter": sys.executable,
    "ansible_become": False,
}
UNREACHABLE = {
    "gpu_stack": {"tensorflow": "2.9"},
    "ansible_connection": "ssh",
    "ansible_host": "127.0.0.1",
    "ansible_port": 9,
}


def project(path: Path, module: str, text: str) -> Path:
    """The project in `path`, with a second host that is not asked; `text` is the module's."""
    inside = path / collection.IN_TREE
    for name in ("lab", "stacks"):
        (path / name).mkdir(parents=True)
    for name in ("roles/gpu_state/tasks", "plugins/modules"):
        (inside / name).mkdir(parents=True)
    for file in (ROOT / "roles" / "gpu_state" / "tasks").glob("doctor*.yml"):
        shutil.copy(file, inside / "roles" / "gpu_state" / "tasks")
    shutil.copytree(
        ROOT / "roles" / "gpu_state" / "defaults", inside / "roles" / "gpu_state" / "defaults"
    )
    for name in (
        "callback",
        "doc_fragments",
        "plugin_utils",
        "module_utils/gpu_stack/components",
        "module_utils/gpu_stack/acceptance",
        "module_utils/gpu_stack/doctor",
        "module_utils/gpu_stack/host",
    ):
        shutil.copytree(PLUGINS / name, inside / "plugins" / name)
    (inside / "plugins" / "action").mkdir()
    for folder in ("action", "modules"):
        shutil.copy(PLUGINS / folder / "gpu_acceptance_judge.py", inside / "plugins" / folder)
    for name in ("__init__.py", "type_checking.py", "tables.py"):
        shutil.copy(
            PLUGINS / "module_utils/gpu_stack" / name, inside / "plugins/module_utils/gpu_stack"
        )
    shutil.copytree(ROOT / "playbooks", inside / "playbooks")
    for name, data in playbooks.render().items():
        (path / name).write_bytes(data)
    (inside / "plugins" / "modules" / f"{module}.py").write_text(text)
    tells = TELLS.format(path=str(path / TOLD))
    (inside / "plugins" / "modules" / "slurm_node.py").write_text(tells)
    (path / "lock.yml").write_text("---\ngpu_lock: {format: 1, digest: x}\n")
    (path / "stacks" / "gpu_lock.yml").write_text("---\ngpu_lock: {digest: x}\n")
    (path / "ansible.cfg").write_text("[defaults]\ninterpreter_python = auto_silent\n")
    hosts: dict[str, Any] = {"gpu01": {"gpu_stack": {"tensorflow": "2.9"}}, "web01": {}}
    inventory = {"all": {"hosts": hosts, "vars": LOCAL}}
    (path / "lab" / "hosts.yml").write_text(json.dumps(inventory))
    return path


def add_host(path: Path, name: str, variables: dict[str, Any]) -> None:
    """One more host in the project's inventory."""
    file = path / "lab" / "hosts.yml"
    inventory = json.loads(file.read_text())
    inventory["all"]["hosts"][name] = variables
    file.write_text(json.dumps(inventory))


def ask(path: Path, *arguments: str, says: dict[str, Any]) -> tuple[int, str]:
    """(exit code, standard output) of a command, to which the host's module says this."""
    (path / ANSWER).write_text(json.dumps(says))
    command, *rest = arguments
    return called.provision(command, "--project", path, *rest)


def by_ansible(path: Path, book: str, says: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """What `ansible-playbook` alone does with a playbook, to which the host's module says this."""
    (path / ANSWER).write_text(json.dumps(says))
    program = Path(sys.executable).parent / "ansible-playbook"
    return subprocess.run(
        [program, book, "-i", "lab"], cwd=path, capture_output=True, text=True, check=False
    )
