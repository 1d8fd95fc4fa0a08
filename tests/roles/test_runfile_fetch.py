"""The driver's .run file is fetched within a bound, over a slow line and from a dead server."""

from __future__ import annotations

from pathlib import Path

import yaml
from gpu_stack.host import download

ROLE = Path(__file__).parents[2] / "roles" / "nvidia_driver"


def test_a_server_that_drips_does_not_hold_a_run_for_ever() -> None:
    """A connection that says nothing was ended; one that says little had no end."""
    tasks = yaml.safe_load((ROLE / "tasks/runfile/fetch.yml").read_text("utf-8"))
    (fetch,) = [task for task in tasks if "ansible.builtin.get_url" in task]
    assert fetch["timeout"] == "{{ __nvidia_driver_longest }}"
    variables = yaml.safe_load((ROLE / "vars/main.yml").read_text("utf-8"))
    longest = f"{{{{ __gpu_state_seconds | default({download.LONGEST:.0f}) }}}}"
    assert variables["__nvidia_driver_longest"] == longest
