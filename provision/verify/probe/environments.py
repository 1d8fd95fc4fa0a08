"""The environment of four kinds of process, and the nvcc in their PATH."""

from __future__ import annotations

import glob
import os
import re
from typing import Any

from .system import read, run


def environment_file(path: str = "/etc/environment") -> dict[str, str] | None:
    """The variables of pam_env's file, which cron and ssh sessions get: KEY=value, maybe quoted.

    None where there is one that this user can't read.
    """
    text = read(path)
    if text is None and os.path.exists(path):
        return None
    variables = {}
    for line in (text or "").splitlines():
        match = re.match(r"\s*(?:export\s+)?([A-Za-z_]\w*)=(.*)$", line)
        if match:
            variables[match.group(1)] = match.group(2).strip().strip("\"'")
    return variables


def sshd_uses_pam(path: str = "/etc/ssh/sshd_config", depth: int = 0) -> bool | None:
    """Does sshd use PAM, and so /etc/environment? None where its configuration can't be read.

    sshd_config(5): the first value counts, no is the default, Match blocks have no UsePAM.
    """
    content = read(path)
    if content is None:
        return None
    for line in content.splitlines():
        words = [word.strip('"') for word in line.replace("=", " ", 1).split()]
        name = words[0].lower() if words else ""
        if name == "match":
            break
        if name == "usepam" and len(words) > 1:
            return words[1].lower() == "yes"
        if name == "include" and depth == 0:
            for pattern in words[1:]:
                for included in sorted(glob.glob(os.path.join("/etc/ssh", pattern))):
                    uses_pam = sshd_uses_pam(included, 1)
                    # None for a file that can't be read: it may say either.
                    if uses_pam is not None or read(included) is None:
                        return uses_pam
    return None if depth else False


def environments() -> dict[str, dict[str, str] | None]:
    """{kind of process: its environment}; None for one that can't be read."""
    cron = {"HOME": os.path.expanduser("~"), "PATH": "/usr/bin:/bin", "SHELL": "/bin/sh"}
    of_pam = environment_file()
    variables: dict[str, dict[str, str] | None] = {
        "ssh": dict(os.environ),
        "login": assigned(run(["bash", "-lc", "env"], limit=0)["stdout"]),
        "cron": None if of_pam is None else {**cron, **of_pam},
        "systemd": None,
    }
    manager = run(["systemctl", "show-environment"], limit=0)
    if manager["rc"] == 0:
        variables["systemd"] = assigned(manager["stdout"])
    return variables


def assigned(lines: str) -> dict[str, str]:
    """Variables from NAME=value lines; systemctl writes a value with blanks as $'...'."""
    variables = {}
    for line in lines.splitlines():
        name, _, value = line.partition("=")
        if value.startswith("$'") and value.endswith("'"):
            value = value[2:-1]
        if name:
            variables[name] = value
    return variables


def nvcc(places: dict[str, dict[str, str] | None]) -> dict[str, Any]:
    """{kind of process: its `nvcc --version`}; None where its environment can't be read."""
    answers = {
        "ssh": run(["nvcc", "--version"]),
        "login": run(["bash", "-lc", "nvcc --version"]),
        "cron": None,
        "systemd": None,
    }
    for place in ("cron", "systemd"):
        if places[place] is not None:
            answers[place] = run(["/bin/sh", "-c", "nvcc --version"], places[place])
    return answers
