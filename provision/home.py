"""Where the user's own files are: home, and the folders that the XDG specification names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from provision.errors import MachineError


def expanded(path: Path, hint: str = "set HOME, or write the path out") -> Path:
    """The path with `~` and `~user` written out. MachineError where there is no such home."""
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise MachineError.of(error, "there is no home directory", path, hint) from None


def cache_directory(environment: Mapping[str, str] | None = None) -> Path:
    """`$XDG_CACHE_HOME/provision`, by default `~/.cache/provision`; raises as `expanded`."""
    return _directory("XDG_CACHE_HOME", "~/.cache", environment)


def state_directory(environment: Mapping[str, str] | None = None) -> Path:
    """`$XDG_STATE_HOME/provision`, by default `~/.local/state/provision`; raises as `expanded`."""
    return _directory("XDG_STATE_HOME", "~/.local/state", environment)


def _directory(variable: str, default: str, environment: Mapping[str, str] | None) -> Path:
    """A relative path is ignored: https://specifications.freedesktop.org/basedir/latest/"""
    base = (os.environ if environment is None else environment).get(variable, "")
    if not base.startswith("/"):
        base = default
    return expanded(Path(base), f"set HOME, or {variable} to an absolute path") / "provision"
