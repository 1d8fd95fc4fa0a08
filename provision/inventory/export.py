"""Reads an inventory through this environment's own ansible-inventory.

For a file that it can't read Ansible lists the complaints of all its inventory plugins; where the
file is broken YAML, the message names its line instead.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from provision import inputs, locales
from provision.errors import InputError, MachineError
from provision.inventory.literals import untemplated
from provision.inventory.sources import Sources

# Seconds: a dynamic inventory queries a cloud, and a person types a password.
_TIMEOUT = 300


def read_export(
    sources: Sequence[str],
    *,
    cwd: Path,
    extra: Sequence[str] = (),
    texts: Sources | None = None,
) -> dict[str, Any]:
    """The export by this environment's ansible-inventory: what each group and host sets itself.

    `sources` are -i arguments, relative to `cwd`. InputError when it refuses the inventory: with
    the place in `texts` that is no YAML, else with Ansible's message; MachineError without Ansible
    or after a timeout.
    """
    return _listed(sources, cwd, ["--export", *extra], texts)


def read_effective(
    sources: Sequence[str], *, cwd: Path, extra: Sequence[str] = ()
) -> dict[str, dict[str, Any]]:
    """Host -> all its variables, as a run has them; raises what `read_export` does.

    For many hosts Ansible takes three times as long for it as for the export.
    """
    hostvars: dict[str, dict[str, Any]] = _listed(sources, cwd, extra)["_meta"]["hostvars"]
    return hostvars


def _listed(
    sources: Sequence[str], cwd: Path, extra: Sequence[str], texts: Sources | None = None
) -> dict[str, Any]:
    program = Path(sys.executable).parent / "ansible-inventory"
    command = [str(program) if program.exists() else "ansible-inventory"]
    command += _options(sources)
    # As in a run of the project's own playbook: group_vars and host_vars beside it count.
    command += ["--list", "--playbook-dir", str(cwd.absolute()), *extra]
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_DEPRECATION_WARNINGS": "0"}
    environment.setdefault("ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED", "1")
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=locales.with_utf8(environment),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=_TIMEOUT,
        )
    except FileNotFoundError:
        raise MachineError(
            "ansible-inventory is not installed", hint="pip install 'ansible-core>=2.17'"
        ) from None
    except subprocess.TimeoutExpired:
        raise MachineError(
            "ansible-inventory did not end",
            where=", ".join(sources),
            got=f"nothing after {_TIMEOUT} s",
            expected=f"the inventory within {_TIMEOUT} s",
            hint="a dynamic inventory or what it asks may hang; by hand: "
            + shlex.join(["ansible-inventory", *_options(sources), "--list"]),
        ) from None
    if done.returncode:
        _check_yaml(texts or Sources())
        raise InputError(
            "Ansible cannot read this inventory",
            where=", ".join(sources),
            got=_ansible_words(done.stderr),
            hint="--vault-password-file FILE opens what Ansible Vault keeps"
            if "vault" in done.stderr.lower()
            else "",
        )
    return _mapping(done.stdout, sources)


def _mapping(text: str, sources: Sequence[str]) -> dict[str, Any]:
    try:
        data = json.loads(text, object_hook=untemplated if '"__ansible_unsafe"' in text else None)
    except json.JSONDecodeError:
        raise InputError(
            "Ansible's export of the inventory is not JSON", where=", ".join(sources)
        ) from None
    if not isinstance(data, dict):
        raise InputError("Ansible's export of the inventory is no mapping")
    return data


def _options(sources: Sequence[str]) -> list[str]:
    return [word for source in sources for word in ("-i", source)]


def _ansible_words(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "ERROR" in line or "WARNING" in line]
    return " ".join(errors or lines)[:600]


def _check_yaml(sources: Sources) -> None:
    """InputError with file and line for YAML that cannot be read.

    Ansible would try every inventory plugin on such a file and list the complaints of each.
    """
    for name, text in sources.texts.items():
        if not name.endswith((".yml", ".yaml")):
            continue
        inputs.check_readable(text, where=name)
