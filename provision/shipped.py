"""Reads the files that every tree gets as they are: the Ansible roles, the callback, the checks.

In a checkout the roles lie in `roles/` beside the package, in a wheel in `provision/_roles`.
"""

from __future__ import annotations

from pathlib import Path

from provision.errors import MachineError

_PACKAGE = Path(__file__).parent
_SKIP = {"__pycache__", ".pytest_cache", "molecule", "tests"}

ROLE_NAMES = (
    *("gpu_state", "nvidia_driver", "cuda", "cudnn", "gpu_env"),
    *("nvidia_container_toolkit", "tensorflow", "gpu_workspace"),
    "gpu_front_door",
)


def roles_directory() -> Path:
    """Where the Ansible roles are; MachineError when this installation has none."""
    for candidate in (_PACKAGE / "_roles", _PACKAGE.parent / "roles"):
        if (candidate / "gpu_state").is_dir():
            return candidate
    raise MachineError(
        "this installation of provision has no roles",
        where=str(_PACKAGE),
        hint="install it again: pip install --force-reinstall provision",
    )


def read() -> dict[str, bytes]:
    """Path in the tree -> bytes."""
    files: dict[str, bytes] = {}
    roles = roles_directory()
    for role in ROLE_NAMES:
        files |= _folder(roles / role, f"roles/{role}")
    files |= _folder(_PACKAGE / "verify", "verify")
    files |= _folder(_PACKAGE / "render" / "files" / "callback_plugins", "callback_plugins")
    return files


def _folder(folder: Path, prefix: str) -> dict[str, bytes]:
    found = {}
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if path.is_file() and not _SKIP & set(relative.parts) and path.suffix != ".pyc":
            found[f"{prefix}/{relative.as_posix()}"] = path.read_bytes()
    return found
