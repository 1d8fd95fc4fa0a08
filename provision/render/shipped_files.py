"""What roles install on hosts as it is: a mode and a SHA-256 for each file.

The look compares hosts with these tables. Typed by hand they would be wrong after each change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

COMPONENTS = "plugins/module_utils/gpu_stack/components"

_HEADER = '''\
"""What the role {role} installs as it is. Rendered by `provision roles sync`; edit the
files themselves.
"""

'''


@dataclass(frozen=True)
class Program:
    """A program that systemd, slurmd or people call on hosts: a launcher, modules and units."""

    role: str
    # The package beside the component's other modules that hosts get a copy of.
    package: str
    launcher: str
    units: tuple[str, ...]
    recipe: str | None = None
    # What starts it, where that is not one program of the launcher's name.
    programs: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """The package's path in the collection."""
        return f"{COMPONENTS}/{self.role}/{self.package}"

    @property
    def table(self) -> str:
        """The path of the rendered module in the collection."""
        return f"{COMPONENTS}/{self.role}/shipped.py"

    @property
    def role_files(self) -> str:
        return f"roles/{self.role}/files"

    @property
    def library(self) -> str:
        """The folder on hosts from which the launcher takes the package."""
        return f"/usr/local/lib/{self.launcher}"

    def files(self, base: Path) -> Iterator[tuple[str, int, str]]:
        """(path on a host, mode, path in the collection); the launcher after what it starts."""
        for file in sorted((base / self.folder).glob("*.py")):
            place = f"{self.library}/{self.package}/{file.name}"
            yield place, 0o644, f"{self.folder}/{file.name}"
        for name in self.programs or (self.launcher,):
            yield f"/usr/local/sbin/{name}", 0o755, f"{self.role_files}/{name}"
        for unit in self.units:
            yield f"/etc/systemd/system/{unit}", 0o644, f"{self.role_files}/{unit}"


WORKSPACE = Program(
    "gpu_workspace",
    "program",
    "gpu-workspace",
    ("gpu-workspace-port@.service", "gpu-workspace-port@.socket", "gpu-workspace@.service"),
    recipe="Containerfile",
)
FRONT_DOOR = Program(
    "gpu_front_door",
    "renewal",
    "gpu-front-door",
    ("gpu-front-door.service", "gpu-front-door.timer"),
)
SLURM = Program(
    "slurm",
    "program",
    "gpu-slurm",
    (),
    programs=("gpu-slurm-epilog", "gpu-slurm-health", "gpu-slurm-prolog"),
)
PROGRAMS = (WORKSPACE, FRONT_DOOR, SLURM)


def render(base: Path) -> dict[str, bytes]:
    """The modules with the tables, by their paths in the collection, whose root is `base`."""
    return {program.table: _table(base, program).encode() for program in PROGRAMS}


def _table(base: Path, program: Program) -> str:
    text = (
        _HEADER.format(role=program.role)
        + f"# The folder from which the program takes the package `{program.package}`.\n"
        + f'LIBRARY = "{program.library}"\n'
        + "# {path: (mode, SHA-256)}; each is root's.\nFILES = {\n"
        + "".join(
            f'    "{path}": (\n        0o{mode:03o},\n        "{_sha256(base / file)}",\n    ),\n'
            for path, mode, file in program.files(base)
        )
        + "}\n"
    )
    if program.recipe is not None:
        sha256 = _sha256(base / program.role_files / program.recipe)
        text += f'# SHA-256 of the {program.recipe}.\nRECIPE = "{sha256}"\n'
    return text


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
