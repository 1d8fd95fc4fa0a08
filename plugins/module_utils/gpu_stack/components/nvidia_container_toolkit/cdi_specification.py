"""Generates the CDI specification, and removes it.

The output of `nvidia-ctk cdi generate` replaces the file atomically, and only if this host's podman
can read it and the files that it names exist. In /etc/cdi a specification of somebody else is kept
under a name that readers of CDI ignore; NVIDIA's own unit makes those under /run at each boot.

From 1.19.1 on the toolkit writes CDI 0.7.0, which podman reads from 5.1 on
(https://github.com/NVIDIA/nvidia-container-toolkit/issues/1860). For an older one additional groups
are left out, as NVIDIA's page on troubleshooting has it, and the specification is of 0.5.0.
"""

from __future__ import annotations

import functools
import os
import tempfile

from ...host import kept_copies
from ...host.context import Context, run_program
from ...host.kept_names import free_name
from ...host.refusal import RefusalError
from ...type_checking import TYPE_CHECKING
from . import cdi

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from ...shapes import State

# Seconds for nvidia-ctk, which asks the driver.
PATIENCE = 120.0
# By these variables NVIDIA's unit has nvidia-ctk write the file itself, or another form of it.
_HIDDEN = ("NVIDIA_CTK_CDI_OUTPUT_FILE_PATH", cdi.FLAGS_VARIABLE)


_NONE = (
    "There is no CDI specification for this driver: {0}. The former one was not changed. "
    "nvidia-smi says whether the driver works (after a driver update it does so from the next boot "
    "on); "
    "nvidia_container_toolkit_cdi set to none leaves it alone."
)


def environment() -> dict[str, str]:
    """Environment for programs: this process's, without variables that configure nvidia-ctk."""
    variables = {name: value for name, value in os.environ.items() if name not in _HIDDEN}
    variables["LC_ALL"] = "C"
    variables["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return variables


def host() -> Context:
    """The running system."""
    runner = functools.partial(run_program, patience=PATIENCE, environment=environment())
    return Context(runner=runner)


def look(context: Context, version: str, wish: str) -> dict[str, Any]:
    """{podman, driver, fault, left} as of `cdi.look`, and what follows for this toolkit and wish.

    `path`: where the specification is; `wanted`: whether this host is to have one; `unit`: whether
    the toolkit has a unit that makes it at boot; `plain`: whether groups must be left out.
    """
    state = cdi.look(context, version)
    answer = {name: state[name] for name in ("podman", "driver", "fault", "left")}
    answer["path"] = cdi.place(version)
    answer["wanted"] = cdi.concerned(state, {"nvidia_container_toolkit_cdi": wish})
    answer["unit"] = cdi.refreshed(version)
    answer["plain"] = cdi.plain(version, state["podman"])
    return answer


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """The result of the module `cdi`; RefusalError where there is no specification."""
    context = host()
    if params["state"] == "absent":
        removed = absent(context, params["packages"], check_mode)
        return {"changed": bool(removed), "gone": removed}
    state, reason = present(context, params["version"], params["wish"], check_mode)
    if reason is not None:
        raise RefusalError(reason, **state)
    return state


def present(
    context: Context, version: str, wish: str, check: bool
) -> tuple[dict[str, Any], str | None]:
    """(what `look` sees, with `changed`, `saved` and `diff`; why there is none, or None).

    With `check` nothing is changed, and a missing driver is accepted: this run's packages would
    install it. `saved`: the name under which somebody else's specification is kept.
    """
    state = dict(look(context, version, wish), changed=False, saved=None, diff=[])
    if wish == "required" and cdi.reads(state["podman"]) == ():
        return state, (
            "nvidia_container_toolkit_cdi is required, and podman {0} reads no CDI specification; "
            "{1} is the first that does. Install a newer podman, or set it to auto. Nothing was "
            "changed."
        ).format(state["podman"], ".".join(map(str, cdi.PODMAN_SINCE)))
    if not state["wanted"]:
        if wish == "required" and not check:
            return state, (
                f"nvidia_container_toolkit_cdi is required, and the loader finds no {cdi.SONAME}: "
                "a CDI specification names the driver's libraries. Install the driver, then run "
                "again."
            )
        return state, None
    state["changed"] = state["fault"] is not None or state["left"] is not None
    try:
        if not check:
            _make(context, state)
    except (RefusalError, OSError) as error:
        state["changed"] = False
        return state, _NONE.format(error)
    return state, None


def _make(context: Context, state: State) -> None:
    """Generates the specification if it has a fault, and removes one that hides it."""
    path = state["path"]
    if state["fault"] is not None:
        old = context.read(path)
        new = f"{cdi.MARK}.\n{_generated(context, state)}"
        if path == cdi.ETC and old and not old.startswith(cdi.MARK):
            state["saved"] = _keep(context, path)
        replace(_real(context, path), new)
        state["diff"] = [
            {"before_header": path, "after_header": path, "before": old or "", "after": new}
        ]
    if state["left"] is not None:
        os.unlink(_real(context, state["left"]))


def _generated(context: Context, state: State) -> str:
    """The specification that nvidia-ctk generates; raises RefusalError if it has a fault."""
    flags = ["--feature-flag", cdi.FLAG] if state["plain"] else []
    result = context.run(["nvidia-ctk", "cdi", "generate", *flags])
    if result.rc != 0:
        lines = [line for line in result.err.splitlines() if line.strip()]
        raise RefusalError(
            "nvidia-ctk cdi generate says: {0}".format(lines[-1] if lines else "nothing")
        )
    newest, library = cdi.reads(state["podman"]), cdi.library(context)
    wrong = cdi.fault(result.out, newest, library, context.exists)
    if wrong is not None:
        wrong = "is " + wrong if wrong.startswith("made for") else wrong
        raise RefusalError(f"what nvidia-ctk cdi generate made {wrong}")
    return str(result.out)


def absent(context: Context, packages: Collection[str], check: bool) -> list[str]:
    """Paths of the specifications that are (or would be) removed, as `cdi.own` has them."""
    paths = cdi.own(context, packages)
    for path in paths:
        if not check:
            os.unlink(_real(context, path))
    return paths


# files


def _real(context: Context, path: str) -> str:
    """`path` on this machine's disk."""
    return os.path.join(context.root, path.lstrip("/"))


def replace(path: str, text: str) -> None:
    """Replaces a file atomically, readable by all whatever the umask."""
    directory = os.path.dirname(path)
    if not os.path.isdir(directory):
        os.makedirs(directory)
        os.chmod(directory, 0o755)  # noqa: S103 - podman of any user reads it
    handle, new = tempfile.mkstemp(dir=directory, prefix=".provision-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(new, 0o644)
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise


def _keep(context: Context, path: str) -> str:
    """Copies `path` to a name that CDI's readers ignore; returns that name."""
    name = free_name(path, lambda place: os.path.lexists(_real(context, place)))
    kept_copies.keep(_real(context, path), _real(context, name))
    return name
