"""A project stays the home of its run, though the playbook comes from the collection inside it.

Ansible takes the folder of an imported playbook for `playbook_dir`, for relative paths and for the
group_vars beside site.yml; inventories are written with the project's in mind. With both ends of
ansible-core, in the project and from elsewhere, where its ansible.cfg is not read.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from provision import collection
from provision.render import render
from tests.collection import programs
from tests.unit.generator import recorded


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A rendered project, and an inventory of this machine that says only how to reach it."""
    root = tmp_path_factory.mktemp("home") / "project"
    for path, data in render(recorded.lock(), collection.read()).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    (root / "python").symlink_to(sys.executable)
    variables = {
        "gpu_stack": {"tensorflow": "2.9"},
        "ansible_python_interpreter": "{{ playbook_dir }}/python",
    }
    (root / "group_vars").mkdir()
    (root / "group_vars/all.yml").write_text(json.dumps(variables), "utf-8")
    host = {"ansible_connection": "local", "ansible_become": False}
    inventory = {"all": {"hosts": {"gpu01": host}}}
    (root.parent / "hosts.yml").write_text(json.dumps(inventory), "utf-8")
    return root


@pytest.mark.parametrize("where", ["project", "elsewhere", "imported"])
@pytest.mark.parametrize("program", programs("ansible-playbook"))
def test_the_project_is_the_home_of_its_run(project: Path, program: str, where: str) -> None:
    report = project / "report" / "latest" / "report.json"
    report.unlink(missing_ok=True)
    env = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
    book = project / "site.yml"
    if where == "imported":  # by a playbook of somebody's own in another folder
        book = project.parent / "all.yml"
        book.write_text(f"- ansible.builtin.import_playbook: {project}/site.yml\n", "utf-8")
        env["ANSIBLE_COLLECTIONS_PATH"] = str(project / "collections")
    done = subprocess.run(
        [program, str(book), "-i", str(project.parent / "hosts.yml"), "--check"],
        cwd=project if where == "project" else "/",
        env={**env, "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    output = done.stdout + done.stderr
    # The wish is of the project's group_vars, the lock of its stacks/, the Python of playbook_dir.
    (host,) = json.loads(report.read_text("utf-8"))["hosts"].values()
    assert host["status"] == "blocked", output
    assert "the lock has no row for" in host["blockers"][0]["message"], output
    events = (project / "report" / "latest" / "events.jsonl").read_text("utf-8")
    assert '"task": "gpu_state : Look | Compare the host with the lock"' in events
    assert "[WARNING]" not in output
    assert done.stdout.count("Report: ") == 1
