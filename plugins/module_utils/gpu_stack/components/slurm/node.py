"""A node: its part for the controller, the cluster's key, slurmd. Jobs outlive its restart."""

from __future__ import annotations

import time

from ...host import gpu_shares as share
from ...host.context import Context, run_program
from ...host.refusal import RefusalError
from ...type_checking import TYPE_CHECKING
from . import configuration, hardware, key, paths, records, services, wishes
from .program import jobs_devices
from .program import node as program_node

if TYPE_CHECKING:
    from typing import Any

    from ...shapes import Options

# munge refuses beyond 300 seconds.
APART = 120


def asked(options: Options) -> dict[str, Any]:
    """{part, release, certificate, now}: what the controller is to know of this host."""
    return {
        "part": part(Context(), options),
        "release": run_program(["slurmd", "-V"], 30).out.strip(),
        "certificate": key.asked(),
        "now": time.time(),
    }


def part(context: Context, options: Options) -> dict[str, Any]:
    """This host's part, as it is now: hardware.part's, and where some of the GPUs are not Slurm's
    `closed`, the device files that no job may open.
    """
    host_part = hardware.part(context, wishes.host(options), options["slurm_memory_reserve"])
    chosen = share.chosen(host_part["gpus"], options["slurm_gpus"])
    closed = [gpu["file"] for gpu in host_part["gpus"] if gpu not in chosen]
    host_part["gpus"] = [gpu for gpu in chosen if context.exists(gpu["file"])]
    if closed:
        host_part["closed"] = closed
    return host_part


def leaving(context: Context, noted: dict[str, Any], options: Options) -> set[str]:
    """The names by which a controller is a node still, on which no jobs are to run any more."""
    if wishes.computes(options):
        return set()
    own = wishes.host(options)["name"]
    mine = {own, (noted.get("part") or {}).get("name")}
    known = {part["name"] for part in records.parts(context) if part["name"] in mine}
    here = noted.get("part") or context.lstat(program_node.SETTINGS) is not None
    return known or ({own} if here else set())


def files(context: Context, options: Options, own_part: dict[str, Any]) -> dict[str, str]:
    """{path: text} of what slurmd is started with on a host of this part."""
    host = wishes.host(options)
    name, own = host["name"], hardware.hostname(context)
    environment = configuration.slurmd_environment(name, own, host["controller_address"])
    return {
        paths.SLURMD_ENVIRONMENT: environment,
        paths.SLURMD_DROP_IN: configuration.slurmd_drop_in(own_part),
    }


def joined(options: Options, given: dict[str, Any]) -> bool:
    """Makes this host a node; returns whether anything had to be changed or started.

    given: {sealed, digest, now, asked, part} of its controller.
    """
    clocks_agree(given["asked"], given["now"], time.time())
    context = Context()
    data = key.opened(given["sealed"])
    if records.digest(data) != given["digest"]:
        raise RefusalError("the key that came from the controller is not the cluster's")
    if not key.is_right(context, given["digest"]):
        key.install(data)
    renewed = "munge" in records.unread(context)
    services.start("munge", renewed)
    wished = files(context, options, part(context, options))
    changed = [path for path in wished if context.read(path) != wished[path]]
    records.make_place()
    if changed or renewed:
        records.begin("slurmd")
    for path in changed:
        records.put(path, wished[path].encode())
    if "slurmd" in records.unread(context):
        services.systemctl("daemon-reload")
    # As the controller keeps it, which may differ a little from what this host has just said.
    part_differs = records.noted(context).get("part") != given["part"]
    open_ones = jobs_devices.opened(hardware.closed(given["part"]))
    done = bool("slurmd" in records.unread(context) or part_differs or open_ones)
    stopped = not services.is_active("slurmd")
    services.start("slurmd", done)
    records.note(
        key=given["digest"],
        part=given["part"],
        cluster=options["slurm_cluster"],
        controller=options["slurm_controller"],
    )
    return done or stopped


def clocks_agree(asked: float, at_controller: float, now: float) -> None:
    """RefusalError where the clocks are apart; each of these was later than the one before."""
    ahead, behind = asked - at_controller, at_controller - now
    if max(ahead, behind) > APART:
        raise RefusalError(
            "this host's clock is {0} s {1} its controller's, and munge refuses what is 300 s old: "
            "set the clocks by one source (timedatectl, chrony) and run again".format(
                int(max(ahead, behind)), "ahead of" if ahead > behind else "behind"
            )
        )
