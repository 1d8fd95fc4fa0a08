"""Brings the keys of the platform's package archive back, whose files are gone or altered.

dpkg brings a key back only where there is none. apt checked its lists when it fetched them, so the
package comes from there though the key that proves them is gone.
"""

from __future__ import annotations

import os

from ..type_checking import TYPE_CHECKING
from . import apt_commands
from .package_install import REINSTALL
from .refusal import RefusalError

if TYPE_CHECKING:
    from typing import Any

COMMAND = (
    *("apt-get", "install", "--yes", "--no-remove", "--allow-change-held-packages"),
    *apt_commands.SETTINGS,
    *REINSTALL,
)


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """What the module of these parameters returns; raises RefusalError."""
    kept = [] if check_mode else restore(params["files"], params["package"], params["wait"])
    return {"changed": bool(params["files"]), "kept": kept}


def restore(files: list[str], package: str, wait: int = 0) -> list[str]:
    """Installs the package of the keys again; under which names changed ones were kept."""
    if not files:
        return []
    changed = [path for path in files if os.path.lexists(path)]
    for path in changed:
        os.replace(path, f"{path}.dpkg-old")
    answer = apt_commands.run([*COMMAND, apt_commands.lock_timeout(wait), package], wait)
    if answer.rc != 0:
        words = " ".join(apt_commands.errors(answer)) or answer.err.strip()
        raise RefusalError(f"apt could not install {package} again: {words} Run again.")
    return [f"{path}.dpkg-old" for path in changed]
