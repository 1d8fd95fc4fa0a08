"""Values of gpu_env_variables that a shell, PAM and systemd would read differently are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.run import find_program
from tests.module_play import role_tasks


@pytest.mark.parametrize("value", ["[%F %T]", "100%%", "a # b", 'a "b"', "$HOME"])
def test_it_is_refused_by_its_variables_name(tmp_path: Path, value: str) -> None:
    code, output = preflight(tmp_path, value)
    assert code != 0
    assert "gpu_env_variables: NCCL_DEBUG_TIMESTAMP_FORMAT must not have a double quote" in output


@pytest.mark.parametrize("value", ["50%", "100% plain", "--flag=a,b:c 'd'"])
def test_others_are_taken(tmp_path: Path, value: str) -> None:
    assert preflight(tmp_path, value)[0] == 0


def preflight(folder: Path, value: str) -> tuple[int, str]:
    variables = {
        "gpu_env_variables": {"NCCL_DEBUG_TIMESTAMP_FORMAT": value},
        "ansible_facts": {"distribution": "Debian", "distribution_major_version": "12"},
    }
    done = role_tasks(folder, find_program(), "gpu_env", "preflight.yml", {}, variables)
    return done.returncode, " ".join((done.stdout + done.stderr).split())
