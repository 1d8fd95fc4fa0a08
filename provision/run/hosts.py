"""Questions to hosts that are no run: one task, its answers read."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from provision.errors import MachineError
from provision.run.programs import environment, find_program


def ansible(folder: Path, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Ansible's program for a single task, in a folder; its answer is for us, not for a person.

    MachineError where it can't be started.
    """
    try:
        return subprocess.run(
            [find_program("ansible"), "--playbook-dir", str(folder.absolute()), *arguments],
            cwd=folder,
            env={
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
        raise MachineError("Ansible can't be started", got=str(error)) from None


def answer(path: Path) -> dict[str, Any] | None:
    """A host's result as Ansible's --tree writes it; None where there is none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def ask(
    project: Path,
    sources: Sequence[str],
    hosts: Sequence[str],
    script: str,
    *,
    vault_password_file: Path | None = None,
    forks: int | None = None,
) -> tuple[dict[str, dict[str, Any] | None], str]:
    """What a shell script that only reads prints on hosts: (each host's result, Ansible's errors).

    No rights are taken, and so no password is asked for. MachineError as `ansible`.
    """
    with tempfile.TemporaryDirectory(prefix="provision-") as folder:
        names = Path(folder) / "hosts"
        names.write_text("".join(f"{host}\n" for host in hosts), encoding="utf-8")
        answers = Path(folder) / "answers"
        command = ["all", *sourced(sources, vault_password_file), "--limit", f"@{names}"]
        command += ["--tree", str(answers), "-m", "ansible.builtin.raw", "-a", script]
        command += ["-e", "ansible_become=false"]
        done = ansible(project, command + (["--forks", str(forks)] if forks else []))
        return {host: answer(answers / host) for host in hosts}, done.stderr


def sourced(sources: Sequence[str], vault_password_file: Path | None) -> list[str]:
    """Ansible's arguments for inventories, and for the file that opens them."""
    found = [argument for source in sources for argument in ("-i", source)]
    if vault_password_file is not None:
        found += ["--vault-password-file", str(vault_password_file.resolve())]
    return found
