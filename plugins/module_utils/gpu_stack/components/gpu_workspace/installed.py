"""Installs and removes the program and its units on a host."""

from __future__ import annotations

import os

from ...host import directory_entries, file_state, packaged
from ...host.context import Context
from . import shipped
from .program import command_line, files, places, programs

FOLDER = shipped.LIBRARY + "/program"
# Ansible ships what a module imports: with the command line, the whole program.
PROGRAM = command_line.__package__
FOLDER_MODE = 0o755


def texts(role_files: dict[str, str]) -> dict[str, str]:
    """{path: text} of all that is shipped; `role_files`: {name: text} of the role's files."""
    return {path: _text(path, role_files) for path in shipped.FILES}


def _text(path: str, role_files: dict[str, str]) -> str:
    name = os.path.basename(path)
    if os.path.dirname(path) == FOLDER:
        return packaged.text(PROGRAM, name)
    return role_files[name]


def install(texts_of: dict[str, str], dry: bool = False) -> list[str]:
    """Writes the files of `texts_of`, {path: text}, unless `dry`; paths that differed.

    A link in the place of a file is replaced, and so is an empty directory.
    """
    context = Context(root=files.ROOT)
    changed = [folder for folder in (shipped.LIBRARY, FOLDER) if _folder(folder, dry)]
    for path, text in texts_of.items():
        mode = shipped.FILES[path][0]
        if file_state.fault(context, path, mode) is None and context.read(path) == text:
            continue
        changed.append(path)
        if not dry:
            os.makedirs(os.path.dirname(files.inside(path)), mode=0o755, exist_ok=True)
            _make_way(path)
            files.put(path, text, mode)
    changed += _strangers(texts_of, dry)
    _let_systemd_read(changed, dry)
    return changed


def remove(dry: bool = False) -> list[str]:
    """Removes the program and its units, unless `dry`; paths that existed."""
    paths = [path for path in shipped.FILES if not path.startswith(shipped.LIBRARY)]
    existing = [path for path in [*paths, shipped.LIBRARY] if os.path.lexists(files.inside(path))]
    for path in [] if dry else existing:
        directory_entries.remove(files.inside(path))
    _let_systemd_read(existing, dry)
    return existing


def _folder(path: str, dry: bool) -> bool:
    """Makes a directory root's alone, unless `dry`; whether it was not."""
    real, context = files.inside(path), Context(root=files.ROOT)
    fault = file_state.folder_fault(context, path)
    if fault is None and os.path.isdir(real):
        return False
    if not dry:
        if os.path.lexists(real) and (os.path.islink(real) or not os.path.isdir(real)):
            os.unlink(real)
        os.makedirs(real, exist_ok=True)
        # On Debian /usr/local/lib belongs to the group staff, and new directories inherit that.
        if os.geteuid() == 0:
            os.chown(real, 0, 0)
        os.chmod(real, FOLDER_MODE)
    return True


def _make_way(path: str) -> None:
    """Removes an empty directory in a file's place; RefusedError if it is not empty."""
    real = files.inside(path)
    if os.path.isdir(real) and not os.path.islink(real):
        try:
            os.rmdir(real)
        except OSError as error:
            raise places.RefusedError(f"cannot remove '{path}': {error.strerror}") from None


def _strangers(texts_of: dict[str, str], dry: bool) -> list[str]:
    """Files beside the program's modules that are not shipped, as of an earlier version."""
    real = files.inside(FOLDER)
    names = sorted(os.listdir(real)) if os.path.isdir(real) else []
    strange = [f"{FOLDER}/{name}" for name in names]
    strange = [path for path in strange if path not in texts_of]
    for path in [] if dry else strange:
        directory_entries.remove(files.inside(path))
    return strange


def _let_systemd_read(changed: list[str], dry: bool) -> None:
    if not dry and any(path.startswith(places.UNITS_PLACE) for path in changed):
        programs.must(programs.call(["systemctl", "daemon-reload"]), "systemctl daemon-reload")
