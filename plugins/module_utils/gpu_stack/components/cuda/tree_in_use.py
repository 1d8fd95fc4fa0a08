"""Makes a tree of NVIDIA's packages the one in use, and reads the compiler in nvcc's profile."""

from __future__ import annotations

import os
import re

from ...host import apt_commands, managed_files
from ...host.context import Context
from ...host.refusal import RefusalError
from ...type_checking import TYPE_CHECKING
from .nvidia_cuda import MARK

if TYPE_CHECKING:
    from typing import Any

LINK, ALTERNATIVE = "/usr/local/cuda", "/etc/alternatives/cuda"
COMPILERS = ("gcc", "g++")


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """What the module of these parameters returns; raises RefusalError or OSError.

    In check mode there may be no tree yet, in which the packages would be recorded.
    """
    prefix = params["keep"].rstrip("/")
    changed = False
    if not check_mode:
        record = "".join(f"{name}\n" for name in sorted(params["packages"]))
        entry = managed_files.Entry(f"{prefix}/{MARK}", record)
        changed = bool(managed_files.bring(Context(), [entry]))
    if not _is_known(prefix):
        changed = True
        _alternatives(["--install", LINK, "cuda", prefix, str(params["priority"])], check_mode)
    if [_target(LINK), _target(ALTERNATIVE)] != [ALTERNATIVE, prefix]:
        changed = True
        # --force: what is in the link's place may be a file of somebody's.
        _alternatives(["--force", "--set", "cuda", prefix], check_mode)
    return {"changed": changed, "gcc": _platforms_gcc(), "host_compiler": profile_compiler(prefix)}


def _is_known(prefix: str) -> bool:
    """Whether this tree is one of the group; there may be no such group yet."""
    answer = apt_commands.run(["update-alternatives", "--query", "cuda"])
    return "Alternative: " + prefix in answer.out.splitlines()


def _alternatives(words: list[str], check_mode: bool) -> None:
    if check_mode:
        return
    answer = apt_commands.run(["update-alternatives", *words])
    if answer.rc != 0:
        message = answer.err.strip() or answer.out.strip()
        raise RefusalError(f"update-alternatives could not lead {LINK} to this tree: {message}")


def _target(path: str) -> str | None:
    """Where a link leads; None of what is no link."""
    try:
        return os.readlink(path)
    except OSError:
        return None


def _platforms_gcc() -> str:
    """The version of the platform's gcc; "" where there is none."""
    answer = apt_commands.run(["gcc", "-dumpversion"])
    return answer.out.strip() if answer.rc == 0 else ""


def profile_compiler(prefix: str) -> int:
    """The major version of the gcc and g++ that nvcc's profile names; 0 if missing or unequal."""
    place = f"{prefix}/host-compiler"
    line = f"compiler-bindir = {place}"
    text = Context().read(f"{prefix}/bin/nvcc.profile") or ""
    if line not in text.splitlines():
        return 0
    versions = {_version(f"{place}/{name}") for name in COMPILERS}
    return versions.pop() if len(versions) == 1 else 0


def _version(link: str) -> int:
    """The version at the end of the file's name that a link leads to; 0 where there is none."""
    real = os.path.realpath(link)
    match = re.search("[0-9]+$", real)
    return int(match.group()) if match and os.path.exists(real) else 0
