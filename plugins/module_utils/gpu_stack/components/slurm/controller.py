"""The controller: the cluster's key, its configuration from the parts of its hosts, slurmctld.

Everything that changes the cluster goes through here, on the controller, one at a time. Jobs live
on in their own daemons while slurmctld is restarted; what would end one is refused.
"""

from __future__ import annotations

import os
import re
import time

from ...host.context import Context, run_program
from ...host.refusal import RefusalError
from ...type_checking import TYPE_CHECKING
from . import (
    absent,
    accounting,
    configuration,
    hardware,
    jobs,
    key,
    node,
    obstacles,
    paths,
    records,
    services,
    wishes,
    words,
)

if TYPE_CHECKING:
    from typing import Any, Sequence

    from ...shapes import Options

    Parts = Sequence[dict[str, Any]]

PATIENCE = 30


def present(options: Options) -> bool:
    """Brings the controller to what is wished, with the parts that its hosts have given.

    Returns whether anything was not as wished.
    """
    wished = wishes.settings(options)
    context = Context()
    host = {
        "hostname": hardware.hostname(context),
        "address": wishes.host(options)["address"],
    }
    with records.alone():
        noted = records.noted(context)
        former_parts = records.parts(context)
        leaving = node.leaving(context, noted, options)
        parts = [part for part in former_parts if part["name"] not in leaving]
        _refuse_to_rename(noted, wished, former_parts)
        _refuse_to_end_jobs(noted, {"settings": wished, "host": host}, former_parts, parts)
        at_work_here = absent.why_no_node_goes(context, leaving)
        if at_work_here:
            raise RefusalError(at_work_here)
        data = key.kept()
        if not key.is_right(context, records.digest(data)):
            key.install(data)
        changed = "munge" in records.unread(context)
        services.start("munge", changed)
        former, wish = noted, {"settings": wished, "host": host}
        # Until slurmctld has taken them its jobs are of the former ones. The first are noted at
        # once, so that a removal knows what a run that was cut off has written.
        first = {} if former.get("settings") else wish
        noted = records.note(key=records.digest(data), **first)
        written = _configure_of({**noted, **wish}, former_parts, parts, wished["accounting"])
        noted = records.note(**wish)
        if leaving:
            absent.remove_node(context, noted)
        return changed or written or bool(leaving) or noted != former


def admitted(name: str, given: Parts, certificate: str) -> dict[str, Any]:
    """{changed, part, sealed, digest, now}: a node's part as kept, the key for its certificate.

    given: the parts of the hosts that are brought together with it, each with the release of its
    Slurm; the configuration has them all after the first of them.

    RefusalError where this one can't be a node; another host's fault is reported in its own turn.
    """
    with records.alone():
        context = Context()
        noted = records.noted(context)
        if not noted.get("settings"):
            raise RefusalError(
                "{0} is no controller of Slurm's yet: bring it first, or together with its "
                "nodes".format(hardware.hostname(context))
            )
        former = records.parts(context)
        named = {part["name"]: part for part in former}
        taken = _taken(name, given, former)
        fresh = {part["name"] for part in taken}
        parts = [part for part in former if part["name"] not in fresh]
        parts += [_kept(named.get(part["name"]), part) for part in taken]
        parts.sort(key=lambda part: str(part["name"]))
        started = _refuse_to_end_jobs(noted, noted, former, parts)
        written = _configure_of(noted, former, parts)
        return {
            "changed": started or written,
            "part": next(part for part in parts if part["name"] == name),
            "sealed": key.sealed(certificate),
            "digest": noted["key"],
            "now": time.time(),
        }


def _taken(name: str, given: Parts, former: Parts) -> list[dict[str, Any]]:
    """Those of the given parts that can be nodes; RefusalError where that of `name` can't.

    What a host says of itself gets into the configuration of all hosts, so it is validated.
    """
    mine = obstacles.version(run_program(["slurmctld", "-V"], 30).out)
    places = {part.get("name"): part.get("address") for part in [*former, *given]}
    taken: list[dict[str, Any]] = []
    for entry in given:
        part = {word: entry[word] for word in entry if word != "release"}
        others = {places[host]: host for host in places if host != part.get("name")}
        fault = words.part(part)
        if fault is None and part["address"] in others:
            fault = (
                "{0} is the address of {1} too. Correct one of them; of a host that is gone for "
                "good, remove {2}/{1}.json here and run the controller".format(
                    part["address"], others[part["address"]], paths.PARTS
                )
            )
        if fault is None:
            its = obstacles.version(str(entry.get("release") or ""))
            fault = obstacles.unserved(mine, its)
        if fault is None:
            taken.append(part)
        elif part.get("name") == name:
            raise RefusalError(f"{name} can't be a node: {fault}")
    if name not in [part["name"] for part in taken]:
        raise RefusalError(f"{name} can't be a node: it has not said what it has")
    return taken


def _configure_of(
    noted: dict[str, Any], former: Parts, parts: Parts, bring_accounting: bool = False
) -> bool:
    """configure() with these parts in place of the former ones, which are kept where it fails.

    Else the next run would ask slurmctld of nodes that it does not know.
    """
    _keep(former, parts)
    try:
        return configure(noted, parts, bring_accounting)
    except RefusalError:
        _keep(parts, former)
        raise


def _keep(before: Parts, after: Parts) -> None:
    """Keeps these parts in place of those."""
    named = {part["name"]: part for part in before}
    for part in after:
        if part != named.pop(part["name"], None):
            records.keep_part(part)
    for name in named:
        records.forget_part(name)


def _kept(former: dict[str, Any] | None, now: dict[str, Any]) -> dict[str, Any]:
    """The former part of a host where it still fits: a little memory is no reason for a restart."""
    return now if former is None or hardware.differs(former, now) else former


def dismissed(name: str) -> None:
    """Forgets a host that no job runs on."""
    with records.alone():
        context = Context()
        noted, former = records.noted(context), records.parts(context)
        parts = [part for part in former if part["name"] != name]
        if parts == former or not noted.get("settings"):
            return
        _refuse_to_end_jobs(noted, noted, former, parts)
        records.forget_part(name)
        configure(noted, parts)


# what would end a job


def _refuse_to_rename(noted: dict[str, Any], wished: dict[str, Any], parts: Parts) -> None:
    former = (noted.get("settings") or {}).get("cluster")
    if parts and former not in (None, wished["cluster"]):
        raise RefusalError(
            "the cluster is {0} and can't become {1}: its jobs and their history are kept by that "
            "name. Leave slurm_cluster at {0}, or take Slurm away first".format(
                former, wished["cluster"]
            )
        )


def endangered(
    noted: dict[str, Any], wished: dict[str, Any], former: Parts, parts: Parts
) -> tuple[set[str], set[str]]:
    """(nodes, partitions) whose jobs slurmctld would end or lose by the new configuration."""
    after = {part["name"]: part for part in parts}
    nodes = {part["name"] for part in former if after.get(part["name"]) != part}
    gone: set[str] = set()
    if noted.get("settings"):
        gone = {entry["name"] for entry in configuration.partitions(noted["settings"])}
        gone -= {entry["name"] for entry in configuration.partitions(wished["settings"])}
    return nodes, gone


def _refuse_to_end_jobs(
    noted: dict[str, Any], wished: dict[str, Any], former: Parts, parts: Parts
) -> bool:
    """RefusalError for what would end a job. Returns whether slurmctld was started to ask it."""
    noted = _with_partitions_on_disk(noted)
    nodes, gone = endangered(noted, wished, former, parts)
    if not (nodes or gone):
        return False
    started = not services.is_active("slurmctld")
    if started:
        if not (former and parts):
            # It has no job without a node. The last one that goes has been looked at itself, and
            # must go also where slurmctld can't start.
            return False
        _start_as_before(noted, former)
    for kind, names, option in (("node", nodes, ["-t", jobs.AT_WORK, "-w"]),
                                ("partition", gone, ["-p"])):  # fmt: skip
        if not names:
            continue
        active_jobs, unknown = jobs.ask(run_program, *option, ",".join(sorted(names)))
        if unknown:
            raise RefusalError(f"whether jobs would be ended can't be known: {unknown}")
        if active_jobs:
            raise RefusalError(
                "{0} {1} would change under {2}: run again when they have ended, or drain it "
                "first; none is ever ended for you".format(
                    kind, ", ".join(sorted(names)), jobs.words(active_jobs)
                )
            )
    return started


def _with_partitions_on_disk(noted: dict[str, Any]) -> dict[str, Any]:
    """What is noted, with the partitions that slurm.conf has besides.

    They may have jobs too: a run that was killed has written them, or somebody.
    """
    if not noted.get("settings"):
        return noted
    partitions = configuration.partitions(noted["settings"])
    known = {"DEFAULT", *(entry["name"] for entry in partitions)}
    text = Context().read(paths.SLURM_CONF) or ""
    on_disk = re.findall(r"^PartitionName=(\S+)", text, flags=re.M)
    more = [{"name": name} for name in on_disk if name not in known]
    return {**noted, "settings": {**noted["settings"], "partitions": [*partitions, *more]}}


def _start_as_before(noted: dict[str, Any], parts: Parts) -> None:
    """Starts slurmctld with its former configuration, under which no job ends. RefusalError.

    The nodes can't be asked instead: slurmstepd runs only where a job has a step, not on all nodes
    that are allocated to it.
    """
    try:
        configure(noted, parts)
    except RefusalError as error:
        raise RefusalError(f"whether jobs would be ended can't be known: {error}") from error


# the configuration


def configure(noted: dict[str, Any], parts: Parts, bring_accounting: bool = False) -> bool:
    """Writes what the controller hands out, and lets slurmctld and the nodes take it.

    Returns whether anything was done.

    RefusalError where slurmctld does not take it; the former configuration is back then.
    """
    context = Context()
    wished = configuration.files(noted, parts)
    before = {path: context.read(path) for path in wished}
    changed = [path for path in wished if before[path] != wished[path]]
    ours = records.written(context)
    for path in changed:
        records.save_edit(context, path, ours.get(path))
    cut_off = "slurmctld" in records.unread(context)
    if changed:
        records.begin("slurmctld")
    for path in changed:
        records.put(path, wished[path].encode())
    if bring_accounting:
        # Its programs read slurm.conf, and slurmctld does not start without it.
        accounting.bring(noted["host"], noted["settings"]["cluster"])
    if not parts:
        records.note_written({path: wished[path] for path in changed})
        records.have_read("slurmctld")
        return bool(changed)  # slurmctld does not start without a node
    running = services.is_active("slurmctld")
    if running and not changed and not cut_off:
        return False
    small = running and not cut_off and _only_partitions(before, wished)
    try:
        if not small:
            services.start("slurmctld", True)
        if not services.answers(PATIENCE):
            raise RefusalError("slurmctld does not answer: " + services.complaint("slurmctld"))
        # The nodes get the new one.
        answer = run_program(["timeout", "60", "scontrol", "reconfigure"])
        if answer.rc and small:
            raise RefusalError("scontrol reconfigure: " + answer.err.strip()[-300:])
    except RefusalError as error:
        again = _put_back({path: before[path] for path in changed})
        raise RefusalError(
            f"slurmctld does not take its new configuration, and {again}: {error}"
        ) from error
    records.note_written({path: wished[path] for path in changed})
    records.have_read("slurmctld")
    return True


def _only_partitions(before: dict[str, str | None], wished: dict[str, str]) -> bool:
    """Whether no more than partitions differ, which slurmctld takes as it runs."""
    if any(before[path] != wished[path] for path in wished if path != paths.SLURM_CONF):
        return False
    rest = [
        re.sub(r"^PartitionName=.*\n", "", text or "", flags=re.M)
        for text in (before[paths.SLURM_CONF], wished[paths.SLURM_CONF])
    ]
    return rest[0] == rest[1]


def _put_back(before: dict[str, str | None]) -> str:
    """Restores these files, and removes those that were not there; in words what slurmctld has."""
    if before.get(paths.SLURM_CONF, "") is None:
        return "had none before"
    records.begin("slurmctld")
    for path, text in before.items():
        if text is None:
            os.unlink(path)
        else:
            records.put(path, text.encode())
    services.start("slurmctld", True)
    return "has the former one again"
