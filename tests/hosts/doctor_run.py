"""Runs the doctor on one host, and the commands of its findings."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.hosts.conftest import Project

Found = dict[str, dict[str, Any]]


def doctor(project: Project, host: str, *arguments: str) -> tuple[int, Found, str]:
    """Exit code, the findings by their case, and all that was printed."""
    done = project.provision("doctor", "-i", "lab", "--limit", host, *arguments)
    output = done.stdout + done.stderr
    assert "Traceback" not in output, output
    report = json.loads((project.path / "report" / "doctor.json").read_text("utf-8"))
    found = report["hosts"][host]["findings"]
    return done.returncode, {entry["id"]: entry for entry in found}, output


def package(name: str, version: str, *fields: str, files: str = "true") -> str:
    """A script that installs a package of this name and version.

    `files`: what is run in the package's root to fill it; without it the package holds nothing.
    """
    control = "\n".join(
        (f"Package: {name}", f"Version: {version}", "Architecture: amd64",
         "Maintainer: nobody <n@localhost>", *fields, "Description: made for a test")
    )  # fmt: skip
    return (
        "set -e; rm -rf /root/made && mkdir -p /root/made/DEBIAN && cd /root/made\n"
        f"cat > DEBIAN/control <<'END'\n{control}\nEND\n{files}\n"
        "dpkg-deb --build /root/made /root/made.deb >/dev/null\n"
        "dpkg --force-downgrade --force-hold --force-depends --install /root/made.deb "
        ">/dev/null 2>&1\n"
    )


def cure(root: Callable[[str], str], found: dict[str, Any], begins: str) -> None:
    """Runs the finding's command that begins with `begins`, as a person would on the host."""
    (command,) = [command for command in found["commands"] if command.startswith(begins)]
    plain = command.removeprefix("sudo ").replace("apt-get install", "apt-get install -y")
    root(f"DEBIAN_FRONTEND=noninteractive {plain} </dev/null >/dev/null 2>&1")
