"""The files by which slurmd asks for a node's health, and begins and ends a job: the programs, and
what they know of the node.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os

from ...acceptance.tables import XID_SAYS, XIDS
from ...host import file_state, managed_files, packaged
from ...type_checking import TYPE_CHECKING
from . import hardware, shipped
from .program import command_line, node

if TYPE_CHECKING:
    from typing import Any, Sequence

    from ...host.context import Context

FOLDER = shipped.LIBRARY + "/program"
# Ansible ships what a module imports: with the command line, the whole program.
PROGRAM = command_line.__package__
# What slurm.conf of the controller says of all nodes.
LINES = (
    ("Prolog", "/usr/local/sbin/gpu-slurm-prolog"),
    ("Epilog", "/usr/local/sbin/gpu-slurm-epilog"),
    # Before the job's own processes, not with the first step of srun.
    ("PrologFlags", "Alloc"),
    ("PrologEpilogTimeout", "90"),
    ("HealthCheckProgram", "/usr/local/sbin/gpu-slurm-health"),
    ("HealthCheckNodeState", "ANY"),
)
SCHEDULER = "SchedulerParameters"
# A job whose prolog refuses is tried on another node, and not held until somebody frees it.
REQUEUED = "nohold_on_prolog_fail"


def fatal_xids() -> list[int]:
    """The Xids for which an acceptance fails a card, whatever else their message says."""
    return sorted(
        number for number in XIDS if XIDS[number][1] == "failed" and number not in XID_SAYS
    )


def with_scheduler(extra: Sequence[str]) -> list[str]:
    """The further lines of slurm.conf, with what the prolog needs of the scheduler."""
    lines = [line for line in extra if not line.lower().startswith(SCHEDULER.lower() + "=")]
    words = [line.partition("=")[2] for line in extra if line not in lines]
    return [f"{SCHEDULER}=" + ",".join([*words, REQUEUED]), *lines]


def settings(part: dict[str, Any]) -> str:
    """The text of node.SETTINGS for a node's part: Slurm's GPUs in the order of gres.conf."""
    numbers = [int(gpu["file"].rpartition("nvidia")[2]) for gpu in part["gpus"]]
    content = {
        "node": part["name"],
        "gpus": numbers,
        "closed": hardware.closed(part),
        "fatal_xids": fatal_xids(),
    }
    return json.dumps(content, indent=2, sort_keys=True) + "\n"


def look(context: Context) -> dict[str, Any]:
    """{path: {sha256, fault}} of the programs, and of the settings."""
    seen = {}
    for path, mode in _modes().items():
        data = context.read_bytes(path)
        seen[path] = {
            "sha256": None if data is None else hashlib.sha256(data).hexdigest(),
            "fault": file_state.fault(context, path, mode),
        }
    return seen


def _modes() -> dict[str, int]:
    return {node.SETTINGS: 0o644, **{path: shipped.FILES[path][0] for path in shipped.FILES}}


def differences(seen: dict[str, Any], part: dict[str, Any]) -> list[tuple[str, Any, Any, str]]:
    """[(item, from, to, why)] of the files of a node with this part. Pure."""
    wished = settings(part)
    hashes = {path: shipped.FILES[path][1] for path in shipped.FILES}
    hashes[node.SETTINGS] = hashlib.sha256(wished.encode("utf-8")).hexdigest()
    faults = {path: seen[path]["fault"] or _content(seen[path], hashes[path]) for path in hashes}
    if all(faults[path] == "absent" for path in shipped.FILES):
        faults = {shipped.LIBRARY: "absent"}
    why = "slurmd asks it before and after each job, and how the GPUs are"
    return [
        (path, faults[path], "as shipped", why)
        for path in sorted(faults)
        if faults[path] is not None
    ]


def _content(seen: dict[str, Any], wished: str) -> str | None:
    if seen["sha256"] is None:
        return "absent"
    return None if seen["sha256"] == wished else "other content"


def install(
    context: Context, launchers: dict[str, str], text: str, dry: bool
) -> list[dict[str, Any]]:
    """Writes what differs, `launchers` by their names, unless `dry`; the differences."""
    texts = {path: _text(path, launchers) for path in shipped.FILES}
    entries = [
        managed_files.Entry(
            path, texts[path], shipped.FILES[path][0], directory=path.startswith(shipped.LIBRARY)
        )
        for path in texts
    ]
    entries += [managed_files.Entry(path, None) for path in _strangers(context)]
    entries.append(managed_files.Entry(node.SETTINGS, text))
    return managed_files.bring(context, entries, dry)


def remove(context: Context) -> None:
    """Takes the files away; slurmd must not run any more."""
    paths = [*_modes(), *_strangers(context)]
    managed_files.bring(context, [managed_files.Entry(path, None) for path in paths])
    for folder in (FOLDER, shipped.LIBRARY):
        with contextlib.suppress(OSError):  # it is not there, or somebody has put more into it
            os.rmdir(os.path.join(context.root, folder.lstrip("/")))


def _strangers(context: Context) -> list[str]:
    """Modules of an earlier version."""
    paths = [f"{FOLDER}/{name}" for name in context.listdir(FOLDER)]
    return [path for path in paths if path not in shipped.FILES]


def _text(path: str, launchers: dict[str, str]) -> str:
    name = os.path.basename(path)
    if os.path.dirname(path) == FOLDER:
        return packaged.text(PROGRAM, name)
    return launchers[name]
