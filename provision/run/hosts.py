"""Single Ansible tasks on hosts, outside of a run, and their results."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from provision.errors import MachineError
from provision.run.programs import environment, find_program

# Seconds for a host to log in and to answer; ANSIBLE_TASK_TIMEOUT, where it is set, is the limit.
ANSWERS_WITHIN = 120


def ansible(folder: Path, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Runs Ansible's program for a single task in `folder` and captures its output.

    A host that takes longer than ANSWERS_WITHIN has failed: without become, a login that hangs has
    no other limit. Raises MachineError where Ansible can't be started.
    """
    try:
        return subprocess.run(
            [find_program("ansible"), "--playbook-dir", str(folder.absolute()), *arguments],
            cwd=folder,
            env={
                "ANSIBLE_TASK_TIMEOUT": str(ANSWERS_WITHIN),
                **environment(folder.resolve()),
                "ANSIBLE_NOCOLOR": "1",
                "ANSIBLE_DEPRECATION_WARNINGS": "0",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise MachineError.of(error, "Ansible can't be started") from None


def unwrapped(text: str) -> str:
    """Ansible's messages without line breaks: up to 2.18 it breaks them at blanks and hyphens."""
    return " ".join(re.sub(r"(?<=-)\n(?=\w)", "", text).split())


def answer(path: Path) -> dict[str, Any] | None:
    """A host's result as Ansible's --tree writes it; None without one."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


@contextlib.contextmanager
def limited(hosts: Sequence[str]) -> Iterator[str]:
    """Ansible's --limit to these hosts, by a file: one argument has no room for thousands."""
    with tempfile.TemporaryDirectory(prefix="provision-") as folder:
        names = Path(folder) / "hosts"
        names.write_text("".join(f"{host}\n" for host in hosts), encoding="utf-8")
        yield f"@{names}"


def ask(
    project: Path,
    sources: Sequence[str],
    hosts: Sequence[str],
    script: str,
    *,
    vault_password_file: Path | None = None,
    forks: int | None = None,
) -> tuple[dict[str, dict[str, Any] | None], str]:
    """Runs a shell script that only reads on hosts: ({host: its result}, Ansible's stderr).

    Without become, so that no password is needed. Raises as `ansible`.
    """
    with limited(hosts) as limit, tempfile.TemporaryDirectory(prefix="provision-") as folder:
        answers = Path(folder) / "answers"
        command = ["all", *sourced(sources, vault_password_file), "--limit", limit]
        command += ["--tree", str(answers), "-m", "ansible.builtin.raw", "-a", script]
        command += ["-e", "ansible_become=false"]
        done = ansible(project, command + (["--forks", str(forks)] if forks else []))
        return {host: answer(answers / host) for host in hosts}, done.stderr


def sourced(sources: Sequence[str], vault_password_file: Path | None) -> list[str]:
    """Ansible's arguments for inventories and for their vault's password file."""
    arguments = [argument for source in sources for argument in ("-i", source)]
    if vault_password_file is not None:
        arguments += ["--vault-password-file", str(vault_password_file.resolve())]
    return arguments
