"""Rules against a CUDA that no package owns and that shadows the lock's, and trees in use."""

from __future__ import annotations

from ...host import code_users, dpkg
from ...host.processes import text_of
from ...rules import rules_of
from ...type_checking import TYPE_CHECKING
from .. import cuda
from . import nvidia_cuda

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Context
    from ...shapes import Changes, Facts, Options, Reasons, Row


def usr_local_cuda(context: Context) -> dict[str, Any] | None:
    """{"path", "named_in"} of a /usr/local/cuda that no package owns; None otherwise."""
    path = "/usr/local/cuda"
    real = context.resolve(path)
    if real is None:
        return None
    for name in context.packages:
        if name.startswith("cuda-"):
            listed = dpkg.file_list(context, name)
            if path in listed or real in listed:
                return None
    files = ["/etc/environment", "/etc/profile", "/etc/bash.bashrc", "/root/.bashrc"]
    files += context.glob("/etc/profile.d/*.sh") + context.glob("/etc/ld.so.conf.d/*.conf")
    return {
        "path": real,
        "named_in": [file for file in files if path in text_of(context, file)],
    }


def unowned_cuda(host: Facts, _changes: Changes, _options: Options, row: Row) -> Reasons:
    tree = host["preflight"].get("usr_local_cuda")
    # NVIDIA's packages take this path; the plan says that its content is kept under another name.
    if not tree or not tree["named_in"] or nvidia_cuda.is_nvidias(row.get("cuda") or {}):
        return []
    return [
        (
            "a CUDA that no package owns ({0}) is put in front by {1}".format(
                tree["path"], ", ".join(tree["named_in"])
            ),
            "take /usr/local/cuda out of {0}, or move the directory away".format(
                ", ".join(tree["named_in"])
            ),
        )
    ]


def in_use(facts: Facts, _changes: Changes, _options: Options, _row: Row) -> Reasons:
    """Stops while a process uses a tree that the run would remove."""
    users = facts["preflight"].get("cuda_users") or {}
    hint = (
        "run again when it has ended, or leave it out with --skip-tags cuda; none is ever ended "
        "for you"
    )
    return [(message, hint) for message in code_users.in_words(users, "")]


FACTS = {"usr_local_cuda": usr_local_cuda}
RULES = rules_of(cuda.NAME, stops={"unowned-cuda": unowned_cuda, "cuda-in-use": in_use})
