"""Where CUDA's local installer lies is root's alone: it is hashed first and unpacked later."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"
ROLE = Path(__file__).parents[2] / "roles" / "cuda"


def refusal(tmp_path: Path, directory: str) -> str:
    """What the role says of a cuda_installer_directory; "" where it takes it."""
    play = {
        "hosts": "localhost", "gather_facts": False,
        "vars_files": [str(ROLE / "vars/nvidia.yml")],
        "vars": {
            "cuda_installer_directory": directory, "cuda_installer_url": "",
            "cuda_installer": {"url": "https://mirror.example.org/x/cuda.deb"},
            "ansible_python_interpreter": sys.executable,
        },
        "tasks": [
            {"ansible.builtin.include_tasks": str(ROLE / "tasks/installer_trust.yml")},
        ],
    }  # fmt: skip
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    done = subprocess.run(
        [str(PLAYBOOK), "-i", "localhost,", "-c", "local", str(tmp_path / "play.yml")],
        capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_CALLBACK_RESULT_FORMAT": "json"},
    )  # fmt: skip
    said = done.stdout + done.stderr
    if done.returncode == 0:
        return ""
    assert "others than root can change" in said, said
    return " ".join(said.split())


def test_the_default_is_taken(tmp_path: Path) -> None:
    assert refusal(tmp_path, "/var/cache/provision") == ""


@pytest.mark.parametrize("linked", [False, True])
def test_a_place_where_others_write_is_refused(tmp_path: Path, linked: bool) -> None:
    """A user's file was hashed, changed, and unpacked by root: setuid programs and all."""
    place = tmp_path / "place"
    place.mkdir(mode=0o777)
    place.chmod(0o777)
    (tmp_path / "link").symlink_to(place)
    said = refusal(tmp_path, str(tmp_path / "link" if linked else place))
    assert f"{place}:" in said
    # Its parents count as well: who can rename a directory can put another in its place.
    assert " /tmp and " in said or not str(tmp_path).startswith("/tmp/")
