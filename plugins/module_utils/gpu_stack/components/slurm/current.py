"""How Slurm is on a host of a cluster, and how that differs from the wish."""

from __future__ import annotations

from ...type_checking import TYPE_CHECKING
from . import (
    accounting,
    configuration,
    hardware,
    key,
    node,
    node_files,
    nodes,
    paths,
    records,
    wishes,
)
from .program import jobs_devices

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Context
    from ...shapes import Options, State

WANTS = "/etc/systemd/system/multi-user.target.wants"


def look(context: Context, wished: bool) -> dict[str, Any]:
    """{version, noted} and, where it is wished, what else is compared."""
    noted = records.noted(context)
    seen = {"version": noted.get("cluster"), "noted": noted}
    options = context.options
    if not wished or wishes.faults(options):
        return seen
    parts = records.parts(context) if wishes.controls(options) else []
    computes = wishes.computes(options)
    units = wishes.units(options, bool(parts))
    part = node.part(context, options) if computes else None
    seen.update(
        missing=[name for name in wishes.packages(options)
                 if not context.exists(paths.PROGRAMS[name])],
        key=key.is_right(context, noted.get("key")),
        files=_other_files(context, noted, parts, part),
        stopped=_stopped(context, units),
        unread=[unit for unit in units if unit in (noted.get("unread") or [])],
        disabled=[unit for unit in units if context.lstat(f"{WANTS}/{unit}.service") is None],
        part=part,
        open=_open_to_jobs(context, part),
        leaves=sorted(node.leaving(context, noted, options)),
        programs=node_files.look(context) if computes else None,
        said=None,
    )  # fmt: skip
    if computes and noted.get("part") and not seen["missing"]:
        seen["said"] = nodes.ask(context.run, wishes.host(options)["name"])
    return seen


def _other_files(
    context: Context,
    noted: dict[str, Any],
    parts: list[dict[str, Any]],
    part: dict[str, Any] | None,
) -> dict[str, str]:
    """{path: what it is} of the files that are not as a run would write them."""
    wished: dict[str, str] = {}
    options = context.options
    if wishes.controls(options) and noted.get("settings"):
        wished.update(configuration.files(noted, parts))
        if noted["settings"]["accounting"]:
            wished[paths.DBD_CONF] = configuration.dbd_conf(noted["host"])
    if part is not None:
        wished.update(node.files(context, options, part))
    differing = {}
    for path in sorted(wished):
        text = context.read(path)
        if text != wished[path]:
            differing[path] = "absent" if text is None else "other content"
    if paths.DBD_CONF in set(wished) - set(differing) and not accounting.is_slurms(context):
        differing[paths.DBD_CONF] = "readable by others"
    return differing


def _open_to_jobs(context: Context, part: dict[str, Any] | None) -> list[str]:
    """The device files that jobs could open now and should not."""
    if part is None or context.root != "/":
        return []
    return jobs_devices.opened(hardware.closed(part))


def _stopped(context: Context, units: list[str]) -> list[str]:
    """Those of the services that do not run."""
    lines = context.run(["systemctl", "is-active", *units]).out.split("\n")
    states = [line.strip() for line in lines if line.strip()]
    if len(states) != len(units):
        return list(units)
    return [unit for at, unit in enumerate(units) if states[at] != "active"]


def differences(state: State, options: Options) -> list[tuple[str, Any, Any, str]]:
    """[(item, from, to, why)] of what is not as wished. Pure."""
    noted = state["noted"]
    if "missing" not in state:
        # The options can't be had; the preflight's rule says why.
        return [("cluster " + str(options["slurm_cluster"]), "other", "as wished", "wished for")]
    changes: list[tuple[str, Any, Any, str]] = [
        (name, None, "installed", "Slurm needs it") for name in state["missing"]
    ]
    controls, item = wishes.controls(options), "cluster " + options["slurm_cluster"]
    new = not noted.get("settings") if controls else not noted.get("part")
    if new or (wishes.computes(options) and not noted.get("part")):
        return [*changes, (item, None, "as wished", "wished for, and missing")]
    if controls:
        changes += _of_settings(item, noted, options)
    changes += [("node " + name, "here", None, "slurm_compute is false")
                for name in state.get("leaves") or []]  # fmt: skip
    changes += [(path, old, "as written", "Slurm needs it") for path, old in state["files"].items()]
    if not state["key"]:
        changes.append(("munge.key", "another", "the cluster's", "nobody trusts this host"))
    changes += [(f"{unit}.service", "not running", "running", "no job gets here")
                for unit in state["stopped"]]  # fmt: skip
    changes += [(f"{unit}.service", "as before", "restarted", "a run was cut off before that")
                for unit in state.get("unread") or [] if unit not in state["stopped"]]  # fmt: skip
    changes += [(f"{unit}.service", "not enabled", "enabled", "it would end with a reboot")
                for unit in state["disabled"] if unit not in state["stopped"]]  # fmt: skip
    changes += [("slurmd.service", f"jobs can open {file}", "closed to them", "it is not Slurm's")
                for file in state.get("open") or []]  # fmt: skip
    if state["part"] is not None:
        if state.get("programs") is not None:
            changes += node_files.differences(state["programs"], noted["part"])
        changes += _of_part(state, changes)
    return changes


def _of_settings(
    item: str, noted: dict[str, Any], options: Options
) -> list[tuple[str, Any, Any, str]]:
    wished, noted_settings = wishes.settings(options), noted["settings"]
    names = [name for name in sorted(wished) if noted_settings.get(name) != wished[name]]
    if wishes.host(options)["address"] != noted["host"]["address"]:
        names.append("address")
    if not names:
        return []
    return [(item, "other settings", "as wished", "changed: " + ", ".join(names))]


def _of_part(state: State, others: list[Any]) -> list[tuple[str, Any, Any, str]]:
    """What of this node is not as slurmctld has it."""
    noted, now, node_record = state["noted"]["part"], state["part"], state["said"]
    item = "node " + now["name"]
    if hardware.differs(noted, now):
        return [(item, hardware.words(noted), hardware.words(now), "the host has changed")]
    if node_record is None:
        return []
    if "error" in node_record:
        # What is wrong on this host itself is another line of the plan.
        reason, _cure = nodes.why(node_record)
        return [] if others else [(item, "unknown", "registered", reason)]
    difference = nodes.unlike(node_record, noted)
    if difference:
        return [(item, difference, hardware.words(noted), "slurmctld has other words of it")]
    return []
