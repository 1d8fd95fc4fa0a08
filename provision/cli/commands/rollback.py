"""`provision rollback`: brings hosts back to a former lock."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from provision import inventory, rollback, run, tree
from provision import lock as locks
from provision.cli import projects, running
from provision.cli.console import err, print_json, say, shell_word
from provision.cli.run_options import RunRequest, takes_run_options
from provision.errors import HostError, InputError
from provision.models import plain

# Hidden for the same reason as lock's NAME.
HOSTS = typer.Argument(metavar="HOST", hidden=True)
TO = typer.Option(
    "--to", metavar="N|DIGEST", help="The N-th state before, or a lock's digest.  [default: 1]"
)
LIST = typer.Option("--list", help="Say what there is to go back to; change nothing.")


@takes_run_options(without={"limit", "deep"})
def go_back(
    hosts: Annotated[list[str] | None, HOSTS] = None,
    *,
    to: Annotated[str | None, TO] = None,
    only_list: Annotated[bool, LIST] = False,
    request: RunRequest,
) -> None:
    """Bring hosts back to what they had before.

    Those named, or all, by their receipts and the locks in locks/; then they are proven. Exit codes
    as of apply; 2 where there is nothing to go back to, and no host is touched.
    """
    project, options = request.project, request.options
    chosen = _chosen(hosts or (), request)
    with err.status(f"asking {len(chosen)} hosts"):
        receipts, failed = rollback.ask(
            project,
            run.inventory_sources(project.resolve(), options.inventory),
            chosen,
            vault_password_file=options.vault_password_file,
            forks=options.forks,
        )
    if only_list:
        _tell_receipts(project, receipts, failed, as_json=request.as_json)
        return
    if failed:
        host, why = next(iter(failed.items()))
        raise HostError(
            f"{len(failed)} of {len(chosen)} hosts could not be asked, and none was touched",
            where=host,
            got=why,
            hint="name the hosts that can be reached",
        )
    target = _one_target({host: rollback.choose(host, receipts[host], to) for host in chosen})
    former, folder = _former_lock(project, target)
    if not request.as_json:
        say(f"{', '.join(chosen)}: back to {target.short} of {target.written}: {target.words}")
    variables = json.dumps(rollback.variables(former, target, folder))
    of_chosen = dataclasses.replace(
        options, hosts=chosen, extra_vars=[*options.extra_vars, variables]
    )
    code = 0
    try:
        running.run_and_show("apply", dataclasses.replace(request, options=of_chosen), former=True)
    except typer.Exit as ended:
        code = ended.exit_code
    if not request.as_json:
        _tell_way_forward(project, former, target, folder, code)
    raise typer.Exit(code)


def _chosen(hosts: Sequence[str], request: RunRequest) -> list[str]:
    """The named hosts, or all hosts with a wish. InputError for a host without."""
    fleet = projects.read_fleet(
        request.project,
        request.options.inventory,
        vault_password_file=request.options.vault_password_file,
        quiet=True,
    )
    for host in hosts:
        if host not in fleet.hosts:
            raise InputError(
                "no such host with a gpu_stack",
                where=host,
                hint=inventory.did_you_mean(host, list(fleet.hosts)),
            )
    return list(dict.fromkeys(hosts)) if hosts else list(fleet.hosts)


def _former_lock(project: Path, target: rollback.Receipt) -> tuple[locks.Lock, Path]:
    """(the lock of a receipt, the folder with it and its rendered stacks)."""
    former = rollback.find(project, target.digest)
    if former is None:
        raise InputError(
            "the former lock is not on this controller, and no host was touched",
            where=str(rollback.place(project, target.digest) / "lock.yml"),
            got=f"locks here: {', '.join(rollback.known(project)) or 'none'}",
            expected=f"the lock.yml with the digest {target.digest}",
            hint="put it there, from your version control (`git log lock.yml`) or from the machine "
            "that made the host",
        )
    with tree.writing(project):
        return former, projects.keep_lock(project, former)


def _one_target(targets: Mapping[str, rollback.Receipt]) -> rollback.Receipt:
    """The receipt that all hosts go back to. InputError where their states differ."""
    groups: dict[Any, list[str]] = {}
    for host, receipt in targets.items():
        groups.setdefault(receipt.state, []).append(host)
    if len(groups) > 1:
        parts = [f"{targets[names[0]].short}: {', '.join(names)}" for names in groups.values()]
        commands = [f"`provision rollback {' '.join(names)}`" for names in groups.values()]
        raise InputError(
            "these hosts go back to different states, and none was touched",
            got="; ".join(parts),
            hint=f"one after the other: {', '.join(commands)}",
        )
    return next(iter(targets.values()))


def _tell_receipts(
    project: Path,
    receipts: Mapping[str, list[rollback.Receipt]],
    failed: Mapping[str, str],
    *,
    as_json: bool,
) -> None:
    """Prints each host's present and former states. Exits with 4 where a host gave no answer."""

    def kept(receipt: rollback.Receipt) -> bool:
        return rollback.find(project, receipt.digest) is not None

    if as_json:
        rows = {
            host: [
                {**dataclasses.asdict(receipt), "to": number, "lock_here": kept(receipt)}
                for number, receipt in enumerate(of_host)
            ]
            for host, of_host in receipts.items()
        }
        print_json({"hosts": rows, "failed": dict(failed)})
    else:
        for host, of_host in receipts.items():
            say(f"{host}:" if of_host else f"{host}: no receipt")
            for number, receipt in enumerate(of_host):
                absent = f"; without {', '.join(receipt.absent)}" if receipt.absent else ""
                lock = "" if kept(receipt) else "; its lock is not on this controller"
                word = f"--to {number}" if number else "now"
                versions = f"{receipt.short}  {receipt.written}  {receipt.words}"
                say(f"  {word}  {versions}{absent}{lock}")
        for host, why in failed.items():
            say(f"{host}: not asked: {why}", err)
    if failed:
        raise typer.Exit(4)


def _tell_way_forward(
    project: Path, former: locks.Lock, target: rollback.Receipt, folder: Path, code: int
) -> None:
    """Prints how to keep the hosts at the former lock, or what to do after a failed rollback."""
    if code:
        say(
            "The rollback is not whole: run it again when the cause is gone. Where the packages "
            f"of {target.short} have left the archive, name one that keeps them (cuda_mirror, "
            "nvidia_driver_mirror; -e works here too)."
        )
        return
    present = project / "lock.yml"
    now = projects.read_lock(project) if present.exists() else None
    if now is not None and now.digest == former.digest:
        if target.absent:
            names = ", ".join(f"{name}_state: absent" for name in target.absent)
            say(f"A plain run takes them forward again, unless lab/ says: {names}")
        return
    say("A plain run takes these hosts forward again, to lock.yml. To keep them here, either")
    say(f"  cp {folder}/lock.yml {present} && provision render {shell_word(project)}   (all hosts)")
    wish = plain(rollback.wish_of(former, target))
    if now is not None and wish not in [plain(row["wish"]) for row in now.slim["rows"]]:
        say(f"  and before that in lab/, as it was then: gpu_stack: {json.dumps(wish)}")
    say(f"or say it in their gpu_stack, then lock and render: {_pin(former, target)}")


def _pin(former: locks.Lock, target: rollback.Receipt) -> str:
    """A wish that names the versions of a former stack."""
    row = former.stacks[target.stack]
    wish: dict[str, Any] = dict(plain(rollback.wish_of(former, target)))
    wish["tensorflow"] = row["tensorflow"]["version"]
    return f"gpu_stack: {json.dumps(wish)}"
