"""The driver's .run file is fetched within a bound, over a slow line and from a dead server."""

from __future__ import annotations

from pathlib import Path

import yaml
from gpu_stack.host import download

from provision.run import find_program
from tests.module_play import drivers_tasks

ROLE = Path(__file__).parents[2] / "roles" / "nvidia_driver"


def test_a_server_that_drips_does_not_hold_a_run_for_ever() -> None:
    """A connection that says nothing was ended; one that says little had no end."""
    tasks = yaml.safe_load((ROLE / "tasks/runfile/fetch.yml").read_text("utf-8"))
    (fetch,) = [task for task in tasks if "ansible.builtin.get_url" in task]
    assert fetch["timeout"] == "{{ __nvidia_driver_longest }}"
    variables = yaml.safe_load((ROLE / "vars/main.yml").read_text("utf-8"))
    longest = f"{{{{ __gpu_state_seconds | default({download.LONGEST:.0f}) }}}}"
    assert variables["__nvidia_driver_longest"] == longest


def test_a_dry_run_of_a_driver_that_is_not_there_fetches_nothing(tmp_path: Path) -> None:
    """In check mode there is no private directory to fetch it into."""
    done = drivers_tasks(
        tmp_path, find_program(), "runfile/reach.yml", {},
        {
            "ansible_facts": {"architecture": "x86_64"},
            "nvidia_driver_version": "470.256.02",
            "nvidia_driver_runfile": {"url": "http://127.0.0.1:9/x.run", "sha256": "0" * 64},
            "__nvidia_driver_other": {"packages": []},
            "__nvidia_driver_scope": "userspace",
        },
        "--check",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Would fetch http://127.0.0.1:9/x.run" in done.stdout
