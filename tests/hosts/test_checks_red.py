"""Every check turned red on a real host, by a damage that a person would recognise, and undone.

The recorded states of tests/mutants judge what the probe could say; here the probe itself must see
the damage. check_damages.py has them, and names the checks that can't be red on these hosts.
"""

from __future__ import annotations

import base64
import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from check_damages import DAMAGES, OLD_CUDNN, Damage
from conftest import Project

from provision.verify import conftest as verify
from provision.verify.checks import CHECKS, Verdict
from tests import collection

pytestmark = pytest.mark.slow


def older_cudnn(folder: Path) -> str:
    """A library that calls itself cuDNN 8.0.5, as base64."""
    source = folder / "cudnn.c"
    source.write_text("unsigned long cudnnGetVersion(void) { return 8005; }\n")
    library = folder / "libcudnn.so.8"
    command = ["cc", "-shared", "-fPIC", "-Wl,-soname,libcudnn.so.8", "-o", library, source]
    subprocess.run(command, check=True)
    return base64.b64encode(library.read_bytes()).decode()


def judged(project: Project, host: str, components: tuple[str, ...]) -> dict[str, Verdict]:
    """What the checks say of these components of a host, by its own probe over ssh."""
    lock = yaml.safe_load((project.path / "lock.yml").read_text("utf-8"))["gpu_lock"]
    (stack,) = lock["stacks"].values()
    row = {name: part for name, part in stack.items() if name in components}
    options = verify.OPTIONS
    parameters = shlex.quote(json.dumps({"row": row, "options": options}))
    program = shlex.quote(collection.probe())
    output = project.ssh(host, f"python3 -c {program} {parameters}", check=False)
    entry: dict[str, Any] = {"row": row, "options": options, "stdout": output, "stderr": output}
    seen = verify.seen_of(entry, lock["digest"])
    return {check.id: check(seen) for check in CHECKS if check.only(seen)}


@pytest.mark.parametrize("damage", DAMAGES, ids=[damage.title for damage in DAMAGES])
def test_the_probe_sees_the_damage(spine: Project, damage: Damage, tmp_path: Path) -> None:
    do, undo = damage.commands
    given = f"echo {older_cudnn(tmp_path)} | " if do == OLD_CUDNN else ""
    spine.ssh("spine2", f"{given}sudo sh -ec {shlex.quote(do)}")
    try:
        verdicts = judged(spine, "spine2", damage.components)
    finally:
        spine.ssh("spine2", f"sudo sh -ec {shlex.quote(undo)}")
    red = {name: verdict for name, verdict in verdicts.items() if verdict.result == "failed"}
    assert set(red) == set(damage.red), red
    assert damage.words in " ".join(verdict.diagnosis for verdict in red.values())


def test_an_sshd_without_pam_leaves_commands_over_ssh_out(spine: Project) -> None:
    """`UsePAM no`: sshd reads no /etc/environment, and no run could ever prove the host."""
    path = "/etc/ssh/sshd_config.d/05-pam.conf"
    # Not a reload: that refuses connections for a moment after systemctl has returned.
    spine.ssh("spine2", f"echo UsePAM no | sudo tee {path}; sudo systemctl restart ssh")
    try:
        assert "XLA_FLAGS" not in spine.ssh("spine2", "env")
        verdicts = judged(spine, "spine2", ("cuda", "gpu_env"))
    finally:
        spine.ssh("spine2", f"sudo rm {path}; sudo systemctl restart ssh")
    assert [name for name, verdict in verdicts.items() if verdict.result == "failed"] == []
    assert "not in a command over ssh: sshd has UsePAM no" in verdicts["gpu_env.variables"].detail
    assert "XLA_FLAGS" in spine.ssh("spine2", "env")


def test_nothing_is_red_once_all_is_undone(spine: Project) -> None:
    components = ("nvidia_driver", "cuda", "cudnn", "gpu_env", "tensorflow")
    verdicts = judged(spine, "spine2", components)
    assert {name for name, verdict in verdicts.items() if verdict.result == "failed"} == set()
