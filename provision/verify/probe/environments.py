"""What kinds of process get in their environment, and the nvcc that they find."""

from __future__ import annotations

import glob
import os
import re
from typing import Any

from .system import read, run


def environment_file(path: str = "/etc/environment") -> dict[str, str]:
    """pam_env's file, which cron and ssh sessions get: KEY=value, optionally quoted."""
    found = {}
    for line in (read(path) or "").splitlines():
        match = re.match(r"\s*(?:export\s+)?([A-Za-z_]\w*)=(.*)$", line)
        if match:
            found[match.group(1)] = match.group(2).strip().strip("\"'")
    return found


def sshd_uses_pam(path: str = "/etc/ssh/sshd_config", depth: int = 0) -> bool | None:
    """Whether sshd gives sessions what PAM gives (/etc/environment); None where it can't be read.

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
                for one in sorted(glob.glob(os.path.join("/etc/ssh", pattern))):
                    told = sshd_uses_pam(one, 1)
                    # A closed file may say either.
                    if told is not None or read(one) is None:
                        return told
    return None if depth else False


def environments() -> dict[str, dict[str, str] | None]:
    """What four kinds of process get in their environment; None where it can't be seen."""
    cron = {"HOME": os.path.expanduser("~"), "PATH": "/usr/bin:/bin", "SHELL": "/bin/sh"}
    cron.update(environment_file())
    found: dict[str, dict[str, str] | None] = {
        "ssh": dict(os.environ),
        "login": assigned(run(["bash", "-lc", "env"], limit=0)["stdout"]),
        "cron": cron,
        "systemd": None,
    }
    manager = run(["systemctl", "show-environment"], limit=0)
    if manager["rc"] == 0:
        found["systemd"] = assigned(manager["stdout"])
    return found


def assigned(lines: str) -> dict[str, str]:
    """NAME=value lines; systemctl writes a value with blanks as $'...'."""
    found = {}
    for line in lines.splitlines():
        name, _, value = line.partition("=")
        if value.startswith("$'") and value.endswith("'"):
            value = value[2:-1]
        if name:
            found[name] = value
    return found


def nvcc(places: dict[str, dict[str, str] | None]) -> dict[str, Any]:
    """nvcc as four kinds of process find it; None where that environment can't be seen."""
    found = {
        "ssh": run(["nvcc", "--version"]),
        "login": run(["bash", "-lc", "nvcc --version"]),
        "cron": None,
        "systemd": None,
    }
    for place in ("cron", "systemd"):
        if places[place] is not None:
            found[place] = run(["/bin/sh", "-c", "nvcc --version"], places[place])
    return found
