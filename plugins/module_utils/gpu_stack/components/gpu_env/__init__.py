"""The environment of GPU programs, wherever they are started from.

Shells, PAM and systemd each read a file of their own; one that is stale gives a program another
CUDA than the next. The role's templates are the files' home; `files` says the same text, and a
test renders both and compares them byte for byte.
"""

import os

from ...change import change
from ...host import file_state, loader, modes
from . import shell_startup
from .shell_startup import NO_USER, PROFILE, between_markers

NAME = "gpu_env"
UNITS = "/etc/provision/gpu.env"
LOADER = "/etc/ld.so.conf.d/01-provision-cuda.conf"
MANAGER = "/etc/systemd/system.conf.d/50-provision-gpu.conf"
PAM = "/etc/environment"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
HEADER = "# Written by the Ansible role gpu_env; changes made here are lost.\n"


def _unique(items):
    return [item for index, item in enumerate(items) if item not in items[:index]]


def paths(options, row):
    """Directories in front of PATH: the stack's, then the user's."""
    return _unique(list(row.get("path") or []) + list(options.get("gpu_env_path") or []))


def libraries(options, row):
    """Directories for the loader: the stack's, then the user's."""
    return _unique(list(row.get("library") or []) + list(options.get("gpu_env_library") or []))


def ld_library(options, row):
    """Directories for LD_LIBRARY_PATH, where that is asked for: the loader's, or lib64 by bin."""
    if not options.get("gpu_env_ld_library_path"):
        return []
    if "LD_LIBRARY_PATH" in (options.get("gpu_env_variables") or {}):
        return []
    beside = [
        path[: -len("bin")] + "lib64" for path in paths(options, row) if path.endswith("/bin")
    ]
    return libraries(options, row) or beside


def _sorted(variables):
    return sorted(variables.items(), key=lambda pair: pair[0].lower())


def variables(options, row):
    """[(name, value)] that a shell exports.

    A stack whose CUDA came as TensorFlow's wheels names no directory: XLA finds them by itself.
    """
    xla = options.get("gpu_env_xla_cuda_data_dir") or row.get("xla_cuda_data_dir")
    found = {"XLA_FLAGS": "--xla_gpu_cuda_data_dir={0}".format(xla)} if xla else {}
    found.update(options.get("gpu_env_variables") or {})
    return _sorted(found)


def assignments(options, row):
    """[(name, value)] for what does not start from a PATH of its own."""
    found = dict(variables(options, row))
    front = paths(options, row)
    if front:
        found["PATH"] = ":".join([*front, SYSTEM_PATH])
    ahead = ld_library(options, row)
    if ahead:
        found["LD_LIBRARY_PATH"] = ":".join(ahead)
    return _sorted(found)


def block(options, row):
    """The lines between our markers in /etc/environment."""
    return "".join('{0}="{1}"\n'.format(*pair) for pair in assignments(options, row))


def _profile(options, row):
    text = HEADER
    for pair in variables(options, row):
        text += 'export {0}="{1}"\n'.format(*pair)
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


def _units(options, row):
    note = (
        "# For EnvironmentFile= in a systemd unit, and for "
        "`set -a; . /etc/provision/gpu.env` in a script.\n"
    )
    return HEADER + note + block(options, row)


def _manager(options, row):
    text = HEADER + "[Manager]\n"
    for name, value in assignments(options, row):
        # Debian 11's systemd expands nothing here: a percent sign stands for itself.
        text += 'DefaultEnvironment="{0}={1}"\n'.format(name, value)
    return text


def files(options, row):
    """{path: text, or None where the file must not be} of the files that are ours alone."""
    directories = libraries(options, row)
    return {
        PROFILE: _profile(options, row),
        UNITS: _units(options, row),
        MANAGER: _manager(options, row),
        LOADER: "".join(one + "\n" for one in directories) or None,
    }


def look(context):
    """{version, files, written, ways, block, bashrc, left, manager}; no version of its own."""
    row = context.part(NAME)
    users = context.options.get("gpu_env_bashrc_users") or []
    own = {user: shell_startup.bashrc(context, user) for user in users}
    manager = None
    if row and context.exists("/run/systemd/system"):
        result = context.run(["systemctl", "show", "--property=Environment", "--value"])
        manager = result.out.strip() if result.rc == 0 else None
    paths = sorted(files(context.options, row))
    ways = sorted({os.path.dirname(path) for path in paths} | {loader.CACHE})
    faults = file_state.faults(context, [*paths, PAM])
    if faults.get(PAM, "").startswith("a link"):
        del faults[PAM]  # the administrator's own; the block is looked for behind it
    return {
        "version": None,
        "files": {path: context.read(path) for path in paths},
        "written": faults,
        "ways": modes.ways(context, ways) if row else {},
        "block": between_markers(context.read(PAM)),
        "bashrc": {user: text for user, (text, _fault) in own.items()},
        "left": {user: fault for user, (_text, fault) in own.items() if fault},
        "manager": manager,
    }


def differ(row, found, options):
    """Files whose text is not the one that this row and these options give."""
    changes = []
    wanted = files(options, row)
    for path in sorted(wanted):
        seen, wish, faults = found["files"].get(path), wanted[path], found.get("written") or {}
        old = file_state.complaint(seen, wish, faults.get(path))
        if old is None:
            continue
        if wish is None:
            changes.append(change(NAME, path, old, None, "no directory is wished any more"))
        else:
            changes.append(change(NAME, path, old, "as wished", "programs read it"))
    for path, (fault, mode) in sorted((found.get("ways") or {}).items()):
        reason = "every user's programs read it, and only root may write it"
        repair = {"gpu_env_modes": ["{0} {1}".format(path, mode)]}
        changes.append(change(NAME, path, fault, "mode " + mode, reason, repair=repair))
    fault = (found.get("written") or {}).get(PAM)
    lines = block(options, row)
    # Where there is no line to write, no block is as good as an empty one.
    old = file_state.complaint(found["block"] if lines else found["block"] or "", lines, fault)
    if old is not None:
        changes.append(change(NAME, PAM, old, "as wished", "ssh commands and cron read it"))
    for user in sorted(options.get("gpu_env_bashrc_users") or []):
        if (found.get("left") or {}).get(user, NO_USER) != NO_USER:
            continue  # a run leaves it alone and says so
        if found["bashrc"].get(user) != shell_startup.LINE + "\n":
            item = "~{0}/.bashrc".format(user)
            changes.append(change(NAME, item, "absent", "as wished", "it was asked for"))
    manager = found.get("manager")
    if manager is not None and not any(one["item"] == MANAGER for one in changes):
        # systemctl puts a setting with blanks in double quotes, which no value of ours may hold.
        known = " {0} ".format(manager.replace('"', " "))
        lost = [
            name
            for name, value in assignments(options, row)
            if " {0}={1} ".format(name, value) not in known
        ]
        if lost:
            reason = "systemd has not read its settings again"
            changes.append(change(NAME, "systemd manager", None, ", ".join(lost), reason))
    return changes
