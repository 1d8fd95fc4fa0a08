"""The environment of GPU programs, wherever they are started from.

Shells, PAM and systemd each read a file of their own; a stale one gives a program another CUDA than
the others. The role writes the files from its templates; `files` returns the same texts, and a test
renders both and compares them byte for byte.
"""

from __future__ import annotations

import os
import stat

from ...change import change
from ...host import file_state, loader, manager_environment, modes
from ...type_checking import TYPE_CHECKING
from . import shell_startup
from .shell_startup import between_markers

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Context
    from ...shapes import Changes, Options, Row, Stack, State

NAME = "gpu_env"
NO_USER = shell_startup.NO_USER
PROFILE = shell_startup.PROFILE
UNITS = "/etc/provision/gpu.env"
LOADER = "/etc/ld.so.conf.d/01-provision-cuda.conf"
MANAGER = "/etc/systemd/system.conf.d/50-provision-gpu.conf"
PAM = "/etc/environment"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
HEADER = "# Written by the Ansible role gpu_env; changes made here are lost.\n"


def _unique(items: list[str]) -> list[str]:
    return [item for index, item in enumerate(items) if item not in items[:index]]


def paths(options: Options, row: Row) -> list[str]:
    """Directories in front of PATH: the stack's, then the user's."""
    return _unique(list(row.get("path") or []) + list(options.get("gpu_env_path") or []))


def libraries(options: Options, row: Row) -> list[str]:
    """Directories for the loader: the stack's, then the user's."""
    return _unique(list(row.get("library") or []) + list(options.get("gpu_env_library") or []))


def ld_library(options: Options, row: Row) -> list[str]:
    """Directories for LD_LIBRARY_PATH, where it is set: the loader's, or lib64 beside each bin."""
    if not options.get("gpu_env_ld_library_path"):
        return []
    if "LD_LIBRARY_PATH" in (options.get("gpu_env_variables") or {}):
        return []
    beside = [
        path[: -len("bin")] + "lib64" for path in paths(options, row) if path.endswith("/bin")
    ]
    return libraries(options, row) or beside


def _sorted(values: dict[str, str]) -> list[tuple[str, str]]:
    return sorted(values.items(), key=lambda pair: pair[0].lower())


def variables(options: Options, row: Row) -> list[tuple[str, str]]:
    """[(name, value)] that a shell exports.

    Without a directory of CUDA (it came as TensorFlow's wheels) XLA finds them by itself.
    """
    xla = options.get("gpu_env_xla_cuda_data_dir") or row.get("xla_cuda_data_dir")
    values = {"XLA_FLAGS": f"--xla_gpu_cuda_data_dir={xla}"} if xla else {}
    values.update(options.get("gpu_env_variables") or {})
    return _sorted(values)


def assignments(options: Options, row: Row) -> list[tuple[str, str]]:
    """[(name, value)] for files that set PATH as a whole."""
    values = dict(variables(options, row))
    front = paths(options, row)
    if front:
        values["PATH"] = ":".join([*front, SYSTEM_PATH])
    directories = ld_library(options, row)
    if directories:
        values["LD_LIBRARY_PATH"] = ":".join(directories)
    return _sorted(values)


def block(options: Options, row: Row) -> str:
    """The lines between our markers in /etc/environment."""
    return "".join(f'{name}="{value}"\n' for name, value in assignments(options, row))


def _profile(options: Options, row: Row) -> str:
    text = HEADER
    for name, value in variables(options, row):
        text += f'export {name}="{value}"\n'
    for directory in reversed(paths(options, row)):
        text += (
            'case ":$PATH:" in\n    *":{0}:"*) ;;\n    *) export PATH="{0}:$PATH" ;;\nesac\n'
        ).format(directory)
    for directory in reversed(ld_library(options, row)):
        text += (
            'case ":$LD_LIBRARY_PATH:" in\n    *":{0}:"*) ;;\n'
            '    *) export LD_LIBRARY_PATH="{0}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}" ;;\nesac\n'
        ).format(directory)
    return text


def _units(options: Options, row: Row) -> str:
    note = (
        "# For EnvironmentFile= in a systemd unit, and for "
        "`set -a; . /etc/provision/gpu.env` in a script.\n"
    )
    return HEADER + note + block(options, row)


def _manager(options: Options, row: Row) -> str:
    text = HEADER + "[Manager]\n"
    for name, value in assignments(options, row):
        text += f'DefaultEnvironment="{name}={value}"\n'
    return text


def files(options: Options, row: Row) -> dict[str, str | None]:
    """{path: text, or None where it must be absent} of the files that are ours alone."""
    directories = libraries(options, row)
    return {
        PROFILE: _profile(options, row),
        UNITS: _units(options, row),
        MANAGER: _manager(options, row),
        LOADER: "".join(directory + "\n" for directory in directories) or None,
    }


def look(context: Context) -> dict[str, Any]:
    """{version, files, written, ways, block, bashrc, left, manager}; `version` is always None."""
    row = context.part(NAME)
    users = context.options.get("gpu_env_bashrc_users") or []
    bashrc = {user: shell_startup.bashrc(context, user) for user in users}
    systemd = row and context.exists("/run/systemd/system")
    paths = sorted(files(context.options, row))
    read_by_all = sorted({os.path.dirname(path) for path in paths} | {loader.CACHE})
    faults = file_state.faults(context, paths)
    pam = _pam_fault(context)
    if pam is not None:
        faults[PAM] = pam
    return {
        "version": None,
        "files": {path: context.read(path) for path in paths},
        "written": faults,
        "ways": modes.faults(context, read_by_all) if row else {},
        "block": between_markers(context.read(PAM)),
        "bashrc": {user: text for user, (text, _fault) in bashrc.items()},
        "left": {user: fault for user, (_text, fault) in bashrc.items() if fault},
        "manager": manager_environment.look(context) if systemd else None,
    }


def _pam_fault(context: Context) -> str | None:
    """What is wrong with the file of the administrator's that our block is in; None if nothing is.

    It may be closed for others, for it may have a password: PAM reads it as root.
    """
    info = context.lstat(PAM)
    mode = file_state.MODE if info is None else stat.S_IMODE(info.st_mode) & ~0o022
    fault = file_state.fault(context, PAM, mode)
    # A link is the administrator's own; the block is read through it.
    return None if fault is not None and fault.startswith("a link") else fault


def differ(stack: Stack, state: State, options: Options) -> Changes:
    """Changes of files whose text, mode or owner differs from this row and these options."""
    row = stack[NAME]
    changes = []
    faults = state.get("written") or {}
    for path, text in sorted(files(options, row).items()):
        old = file_state.complaint(state["files"].get(path), text, faults.get(path))
        if old is None:
            continue
        if text is None:
            changes.append(change(NAME, path, old, None, "no directory is set any more"))
        else:
            changes.append(change(NAME, path, old, "as wished", "programs read it"))
    for path, (fault, mode) in sorted((state.get("ways") or {}).items()):
        reason = "every user's programs read it, and only root may write it"
        repair = {"gpu_env_modes": [f"{path} {mode}"]}
        changes.append(change(NAME, path, fault, "mode " + mode, reason, repair=repair))
    lines = block(options, row)
    # Without lines to write, a missing block is as good as an empty one.
    present = state["block"] if lines else state["block"] or ""
    old = file_state.complaint(present, lines, faults.get(PAM))
    if old is not None:
        changes.append(change(NAME, PAM, old, "as wished", "ssh commands and cron read it"))
    changes += _bashrc_changes(state, options)
    if not any(item["item"] == MANAGER for item in changes):
        changes += _manager_changes(row, state, options)
    return changes


def _bashrc_changes(state: State, options: Options) -> Changes:
    changes = []
    for user in sorted(options.get("gpu_env_bashrc_users") or []):
        if (state.get("left") or {}).get(user, NO_USER) != NO_USER:
            continue  # a run leaves it alone and says so
        if state["bashrc"].get(user) != shell_startup.LINE + "\n":
            item = f"~{user}/.bashrc"
            changes.append(change(NAME, item, "absent", "as wished", "it was asked for"))
    return changes


def _manager_changes(row: Row, state: State, options: Options) -> Changes:
    """A change where systemd still runs with other settings than its file's."""
    if state.get("manager") is None:
        return []
    missing = manager_environment.unread(state["manager"], assignments(options, row))
    if not missing:
        return []
    reason = "systemd has not read its settings again"
    return [change(NAME, "systemd manager", None, ", ".join(missing), reason)]
