"""Takes Slurm, or a node alone, off a host that no job runs on.

Logs, the state of jobs and the database stay.
"""

from __future__ import annotations

import contextlib
import os
import shutil

from ...host.context import Context, run_program
from ...host.refusal import RefusalError
from ...type_checking import TYPE_CHECKING
from . import configuration, jobs, key, node_files, nodes, paths, records, services, wishes

if TYPE_CHECKING:
    from typing import Any

    from ...shapes import Options

UNITS = ("slurmd", "slurmctld", "slurmdbd")
# Of jobs; none is ever ended.
AGAIN = "{0}: run again when they have ended; none is ever ended for you"
SILENT = (
    "whether a job has this host can't be known: {0}. Run again when slurmctld answers; where it "
    "is gone for good, `systemctl disable --now slurmd` here, then run again"
)


def check(context: Context, options: Options) -> None:
    """RefusalError while jobs run here, or nodes still are this controller's."""
    reason = why_not(context, records.noted(context), options)
    if reason:
        raise RefusalError(reason)


def why_not(context: Context, noted: dict[str, Any], options: Options) -> str:
    """Why Slurm can't go from this host now, in words; "" where it can."""
    name = (noted.get("part") or {}).get("name", "")
    staying = wishes.staying(options)
    others = [part["name"] for part in records.parts(context) if part["name"] in staying]
    if others:
        return "{0} {1} still of this controller's cluster: take Slurm off there first".format(
            ", ".join(others), "is" if len(others) == 1 else "are"
        )
    controls, steps = bool(noted.get("settings")), at_work(context)
    if not steps and not (records.parts(context) if controls else name):
        return ""
    at_work_here, unknown = _jobs_at_work(context, "" if controls else name, steps)
    if at_work_here:
        return at_work_here
    # One that is in the inventory is asked itself before it forgets this host.
    if unknown and not controls and not wishes.has_controller(options):
        return SILENT.format(unknown.rstrip(".")) if _gets_jobs(context, name) else ""
    return ""


def why_no_node_goes(context: Context, names: set[str]) -> str:
    """Why a controller that is these nodes can't stop being one now; "" where it can.

    What slurmctld does not say here, it is asked before its configuration changes.
    """
    return _jobs_at_work(context, ",".join(sorted(names)), at_work(context))[0] if names else ""


def _jobs_at_work(context: Context, name: str, steps: int) -> tuple[str, str]:
    """(the jobs on a node, or in the cluster, in words; why slurmctld does not say any)."""
    active_jobs, unknown = jobs.at_work(context.run, name)
    if active_jobs:
        return AGAIN.format(jobs.words(active_jobs)), unknown
    if steps:
        return AGAIN.format(f"{steps} job steps ({unknown or 'see scontrol listpids'})"), unknown
    return "", unknown


def _gets_jobs(context: Context, name: str) -> bool:
    """Whether a slurmctld that does not list jobs may have some on this node."""
    if not _daemons(context, "slurmd"):
        return False
    return "not found" not in nodes.ask(context.run, name).get("error", "")


def at_work(context: Context) -> int:
    """How many daemons of jobs' steps run on this host, as root."""
    return _daemons(context, "slurmstepd")


def _daemons(context: Context, name: str) -> int:
    """How many processes of this name run on this host, as root."""
    count = 0
    for number in context.listdir("/proc"):
        if number.isdigit() and (context.read(f"/proc/{number}/comm") or "").strip() == name:
            count += context.is_roots(number)
    return count


def remove(options: Options) -> dict[str, Any]:
    """{packages}: those that came with Slurm, for apt. The records stay until these are gone."""
    context = Context()
    check(context, options)
    noted = records.noted(context)
    for unit in UNITS:
        if context.exists(f"/usr/sbin/{unit}"):
            run_program(["systemctl", "disable", "--now", unit], 120)
    if noted.get("settings"):
        _unlink(context, noted, [*paths.HANDED_OUT, paths.DBD_CONF])
    _unlink_node(context, noted)
    if key.restore():
        services.start("munge", True)
    installed = [name for name in noted.get("brought") or [] if name in _installed()]
    return {"packages": installed}


def remove_node(context: Context, noted: dict[str, Any]) -> None:
    """Stops slurmd, and takes what made this host a node; the controller has forgotten it."""
    if context.exists(paths.PROGRAMS["slurmd"]):
        services.systemctl("disable", "--now", "slurmd")
    _unlink_node(context, noted)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(paths.SLURMD_ENVIRONMENT)
    records.have_read("slurmd")
    records.note(part=None)


def _unlink_node(context: Context, noted: dict[str, Any]) -> None:
    _unlink(context, noted, [paths.SLURMD_DROP_IN])
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(paths.SLURMD_DROP_IN))
    node_files.remove(context)
    services.systemctl("daemon-reload")


def _unlink(context: Context, noted: dict[str, Any], ours: list[str]) -> None:
    """Removes these files; what somebody has written into one is kept beside it."""
    written = {**_unnoted_digests(noted), **records.written(context)}
    for path in ours:
        records.save_edit(context, path, written.get(path))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _unnoted_digests(noted: dict[str, Any]) -> dict[str, str | None]:
    """{path: digest} of what runs have written here without a note of it."""
    texts = {}
    if noted.get("host"):
        texts[paths.DBD_CONF] = configuration.dbd_conf(noted["host"])
    if noted.get("part"):
        texts[paths.SLURMD_DROP_IN] = configuration.slurmd_drop_in(noted["part"])
    return {path: records.digest(texts[path].encode()) for path in texts}


def _installed() -> set[str]:
    answer = run_program(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Abbrev}\n"])
    return {line.split()[0] for line in answer.out.splitlines() if line.split()[1:] == ["ii"]}


def forget() -> None:
    """The last of it: by the records a run that was cut off is known."""
    key.forget()
    shutil.rmtree(paths.PLACE, ignore_errors=True)
