"""Drains a node of Slurm's for a verdict or for a run, and takes it back.

A run notes its drain on the host before it asks Slurm for it, so that the next run takes back what
one that was killed has drained.
"""

from __future__ import annotations

import functools
import json
import time

from ...acceptance.findings import DEGRADED, FAILED, OK
from ...acceptance.levels import LEVELS
from ...host import managed_files, mapping
from ...host.context import Context, run_program
from ...host.refusal import RefusalError
from ...type_checking import TYPE_CHECKING
from . import node_files
from .program import node, words

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Result

NOTE = node.RUNS
JUDGED, DRAINED, LEFT, RESUMED = "judged", "drained", "left", "resumed"
INSTALLED = "installed"
# The verdicts by which an acceptance has looked, and found nothing that a job must be kept from.
FOUND_WELL = (OK, DEGRADED)
SHOWN = 5


def asker(run: Any) -> node.Call:
    """What the program's functions call, of a function that runs a program as Context.run."""

    def call(argv: list[str], _patience: float) -> tuple[int, str, str]:
        answer: Result = run(argv)
        return answer.rc, answer.out, answer.err

    return call


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """The result of the module slurm_node; RefusalError where Slurm does not do it."""
    context = Context(runner=functools.partial(run_program, patience=node.PATIENCE))
    if params["state"] == INSTALLED:
        text = node_files.settings(params["part"])
        diff = node_files.install(context, params["shipped"], text, check_mode)
        return {"changed": bool(diff), "node": "", "jobs": [], "said": "", "diff": diff}
    return bring(context, params, check_mode)


def bring(context: Context, params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """What settle() returns, of this host; {node: ""} where it is no node of ours."""
    name = node_of(context)
    if name is None:
        return {"changed": False, "node": "", "jobs": [], "said": "it is no node of Slurm's"}
    act = {JUDGED: _judge, DRAINED: _drain, LEFT: _left, RESUMED: _resume}[params["state"]]
    try:
        return dict(act(context, name, params, check_mode), node=name)
    except node.SilentError as error:
        message = silence(str(error))
        if params["state"] == JUDGED:
            # A verdict stands whatever Slurm knows of it.
            return {"changed": False, "node": name, "jobs": [], "said": message}
        raise RefusalError("Slurm: " + message) from None


def silence(why: str) -> str:
    return (
        "it does not answer on this host: {0}. `systemctl status slurmd` here, and slurmctld on "
        "its controller, say why".format(why.rstrip("."))
    )


def node_of(context: Context) -> str | None:
    """The node's name in Slurm, as the role has written it; None where it is no node of ours."""
    return (mapping.of(context.read(node.SETTINGS)) or {}).get("node") or None


def noted(context: Context) -> dict[str, Any] | None:
    """What a run has drained here and not taken back; None without."""
    note = mapping.of(context.read(NOTE))
    if note is None:
        # A note that can't be read still counts as one.
        return {} if context.lstat(NOTE) is not None else None
    return note


def _note(context: Context, content: dict[str, Any] | None) -> None:
    text = None if content is None else json.dumps(content, sort_keys=True) + "\n"
    managed_files.bring(context, [managed_files.Entry(NOTE, text, 0o644, directory=True)])


def _judge(context: Context, name: str, params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Drains the node for the verdict `failed`; for any other lifts an acceptance's drain.

    What an acceptance has found is neither lifted nor replaced by one that asks less.
    """
    call = asker(context.run)
    failed = params["verdict"] == FAILED
    seen = node.look(name, call)
    if check_mode:
        return {"changed": seen["drained"] != failed, "jobs": [], "said": ""}
    level, by = params["level"], _level(seen)
    if by is not None and (
        LEVELS.index(level) < LEVELS.index(by) or not (failed or params["verdict"] in FOUND_WELL)
    ):
        wanted = f"stays drained until an acceptance of the level {by} finds it well: "
        message = _already(seen) if failed else wanted + seen["reason"]
        return {"changed": False, "jobs": [], "said": message}
    if failed:
        text = "{0}: {1}".format(level, params["reason"] or "failed")
        done = node.drain(name, words.ACCEPTANCE, text, call)
        message = "drained" if done["done"] else _already(done["seen"])
    else:
        done = node.lift(name, words.ACCEPTANCE, call=call)
        message = "taken back" if done["done"] else ""
        if not message and done["seen"]["drained"]:
            message = _already(done["seen"])
    return {"changed": done["done"], "jobs": [], "said": message}


def _level(seen: dict[str, Any]) -> str | None:
    """The level of the acceptance that has drained the node; None where none has.

    None also for a drain by an earlier version, whose reason has no level.
    """
    if seen["kind"] != words.ACCEPTANCE:
        return None
    level = seen["reason"][len(words.reason(words.ACCEPTANCE, "")) :].partition(":")[0]
    return level if level in LEVELS else None


def _already(seen: dict[str, Any]) -> str:
    return "drained already by {0}: {1}".format(seen["by"] or "somebody", seen["reason"])


def _drain(context: Context, name: str, params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Drains the node for a run; returns also the jobs that are still on it."""
    call = asker(context.run)
    seen = node.look(name, call)
    if check_mode:
        return dict(_jobs(name, call), changed=not seen["drained"], said="")
    before = noted(context)
    # The note of a run that was killed stays: it says how the node was before the drain.
    if seen["kind"] != words.RUN or not before:
        content = {"format": 1, "node": name, "down": seen["down"], "at": int(time.time())}
        _note(context, content)
    done = node.drain(name, words.RUN, params["reason"], call)
    message = "drained" if done["done"] else _already(done["seen"])
    return dict(_jobs(name, call), changed=done["done"], said=message)


def _left(context: Context, name: str, _params: dict[str, Any], _check: bool) -> dict[str, Any]:
    """What jobs are still there."""
    return dict(_jobs(name, asker(context.run)), changed=False, said="")


def _jobs(name: str, call: node.Call) -> dict[str, Any]:
    jobs = node.jobs(name, call)
    shown = [words.job(entry) for entry in jobs[:SHOWN]]
    more = ["and {0} more".format(len(jobs) - SHOWN)] if len(jobs) > SHOWN else []
    return {"jobs": shown + more}


def _resume(context: Context, name: str, _params: Any, check_mode: bool) -> dict[str, Any]:
    """Lifts the drain of a run, this one or one that was killed, and removes its note."""
    call = asker(context.run)
    note = noted(context)
    if check_mode:
        return {"changed": note is not None, "jobs": [], "said": ""}
    was_up = note is not None and not note.get("down", True)
    # A node that was rebooted meanwhile is down, for Slurm did not ask for it.
    done = node.lift(name, words.RUN, also_down=was_up, call=call)
    if note is not None:
        _note(context, None)
    message = "taken back" if done["done"] else ""
    if not done["done"] and done["seen"]["drained"]:
        message = "stays drained: " + str(done["seen"]["reason"])
    return {"changed": done["done"], "jobs": [], "said": message}


def of_jobs(context: Context, pids: list[int], call: node.Call) -> dict[int, str]:
    """{pid: number of its Slurm job} of those of these processes that belong to one."""
    job_of = {pid: words.job_of(context.read("/proc/{0}/cgroup".format(pid)) or "") for pid in pids}
    if None in job_of.values():
        code, out, _error = call(["scontrol", "listpids"], node.PATIENCE)
        listed = words.pids(out) if code == 0 else {}
        job_of = {pid: job or listed.get(pid) for pid, job in job_of.items()}
    return {pid: job for pid, job in job_of.items() if job}
