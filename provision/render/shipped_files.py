"""What the collection installs on hosts as it is: a mode and a SHA-256 for each file.

The look compares hosts with this table. Typed by hand it would be wrong after each change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

WORKSPACE = "plugins/module_utils/gpu_stack/components/gpu_workspace"
PATH = f"{WORKSPACE}/shipped.py"
ROLE = "roles/gpu_workspace/files"
LIBRARY = "/usr/local/lib/gpu-workspace"
UNITS = ("gpu-workspace-port@.service", "gpu-workspace-port@.socket", "gpu-workspace@.service")

_HEADER = '''\
"""What the role gpu_workspace installs as it is. Rendered by `provision roles sync`; edit the
files themselves.
"""

'''


def render(base: Path) -> dict[str, bytes]:
    """The module with the table, by its path in the collection, whose root is `base`."""
    text = (
        _HEADER
        + "# The folder from which /usr/local/sbin/gpu-workspace takes the package `program`.\n"
        + f'LIBRARY = "{LIBRARY}"\n'
        + "# {path: (mode, SHA-256)}; each is root's.\nFILES = {\n"
        + "".join(
            f'    "{path}": (\n        0o{mode:03o},\n        "{_sha256(base / file)}",\n    ),\n'
            for path, mode, file in _files(base)
        )
        + "}\n# SHA-256 of the Containerfile.\n"
        + f'RECIPE = "{_sha256(base / ROLE / "Containerfile")}"\n'
    )
    return {PATH: text.encode()}


def _files(base: Path) -> Iterable[tuple[str, int, str]]:
    """(path on a host, mode, path in the collection), what starts the program after all of it."""
    folder = f"{WORKSPACE}/program"
    for file in sorted((base / folder).glob("*.py")):
        yield f"{LIBRARY}/program/{file.name}", 0o644, f"{folder}/{file.name}"
    yield "/usr/local/sbin/gpu-workspace", 0o755, f"{ROLE}/gpu-workspace"
    for unit in UNITS:
        yield f"/etc/systemd/system/{unit}", 0o644, f"{ROLE}/{unit}"


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
