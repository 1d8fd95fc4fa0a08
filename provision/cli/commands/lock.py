"""`provision lock`: resolves the wishes and pins everything in lock.yml."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from provision import catalog, inputs, inventory, run, tree
from provision import lock as locks
from provision.cli import projects
from provision.cli.console import err, print_json, say, shell_word
from provision.cli.options import (
    InventoryOption,
    JsonOption,
    NoPrefixWarnings,
    ProjectOption,
    VaultOption,
)
from provision.errors import InputError
from provision.lock import diff, keep, update
from provision.lock import from_host as working_host
from provision.lock.pin import Twin
from provision.upstream import mirrors

# Hidden: typer would write "<list[str]>" behind it; --upgrade explains it.
NAMES = typer.Argument(metavar="NAME", hidden=True)
UPGRADE = typer.Option(
    "--upgrade",
    help="Move to what upstream has now: all, or only the components, packages and "
    "wheels that are named behind it.",
)
FROM_HOST = typer.Option("--from-host", metavar="HOST", help="Lock what this host has installed.")
CHECK = typer.Option(
    "--check", help="Write nothing; exit 5 if it would change, or upstream lacks what is locked."
)
NVIDIA_MIRROR = typer.Option(
    "--nvidia-mirror",
    metavar="URL",
    envvar="PROVISION_NVIDIA_MIRROR",
    show_envvar=True,
    help="A mirror in place of developer.download.nvidia.com, us.download.nvidia.com and "
    "nvidia.github.io, with their paths; the lock has hosts install from it.",
)
NVIDIA_KEY = typer.Option(
    "--nvidia-key",
    metavar="FILE",
    envvar="PROVISION_NVIDIA_KEY",
    dir_okay=False,
    help="The public key of a mirror that signs NVIDIA's repositories anew.",
)
ARCHIVE_MIRROR = typer.Option(
    "--archive-mirror",
    metavar="PLATFORM=URL[,SUITE...]",
    envvar="PROVISION_ARCHIVE_MIRROR",
    help="A mirror of a platform's own archive, with these of its suites (all).",
)
ARCHIVE_KEY = typer.Option(
    "--archive-key",
    metavar="FILE",
    envvar="PROVISION_ARCHIVE_KEY",
    dir_okay=False,
    help="The public key of an archive mirror that signs anew.",
)


def lock(
    names: Annotated[list[str] | None, NAMES] = None,
    project: ProjectOption = Path(),
    inventories: InventoryOption = None,
    upgrade: Annotated[bool, UPGRADE] = False,
    from_host: Annotated[str | None, FROM_HOST] = None,
    check: Annotated[bool, CHECK] = False,
    nvidia_mirror: Annotated[str, NVIDIA_MIRROR] = "",
    nvidia_key: Annotated[Path | None, NVIDIA_KEY] = None,
    archive_mirror: Annotated[list[str] | None, ARCHIVE_MIRROR] = None,
    archive_key: Annotated[Path | None, ARCHIVE_KEY] = None,
    vault_password_file: VaultOption = None,
    no_prefix_warnings: NoPrefixWarnings = False,
    as_json: JsonOption = False,
) -> None:
    """Resolve the wishes and pin everything: lock.yml.

    What is locked stays while its wish stays and upstream has it.
    """
    _check_arguments(names, upgrade=upgrade, from_host=from_host)
    places = mirrors.parse(
        catalog.load(),
        nvidia=nvidia_mirror,
        nvidia_key=nvidia_key,
        archives=archive_mirror or (),
        archive_key=archive_key,
    )
    fleet = projects.read_fleet(
        project, inventories, vault_password_file=vault_password_file, quiet=no_prefix_warnings
    )
    before = _lock_before(project, anew=upgrade and not names)
    may = keep.upgrade_of(names or (), upgrade, before)
    host = None
    if from_host is not None:
        host = _read_twin(from_host, fleet, project, inventories, vault_password_file)
    result = _make_lock(fleet, before, may, host=host, check=check, places=places)
    if not as_json:
        _say_findings(result)
    new_lock = result.lock
    if new_lock is None:
        if as_json:
            print_json({"changed": True, "gone": list(result.gone)})
        if result.problem is not None:
            say(f"error: {result.problem}", err)
        raise typer.Exit(5)
    changed = _write(project, before, new_lock, check=check)
    changes = diff.difference(before, new_lock, fleet) if before is not None else []
    if as_json:
        print_json(_as_json(result, new_lock, changes, changed=changed))
    else:
        word = "would change" if check and changed else "written" if changed else "unchanged"
        say(f"{project / 'lock.yml'}: {word}")
        _say_changes(before, new_lock, changes, changed=changed)
        if changed and not check:
            say(f"  provision render {shell_word(project)}")
    if check and (changed or result.gone):
        raise typer.Exit(5)


def _check_arguments(names: list[str] | None, *, upgrade: bool, from_host: str | None) -> None:
    """InputError for arguments that contradict each other or mean something else."""
    if names and not upgrade and Path(names[0]).is_dir():
        raise InputError(
            "a directory is named with --project",
            where=names[0],
            hint=f"`provision lock --project {shlex.quote(names[0])}`",
        )
    if from_host is not None and upgrade:
        raise InputError(
            "--from-host and --upgrade contradict each other",
            expected="one of them",
            hint="--from-host locks what a host has, --upgrade what upstream has",
        )


def _write(project: Path, before: locks.Lock | None, new_lock: locks.Lock, *, check: bool) -> bool:
    """Writes the lock, without `check`; whether it differs from the present file."""
    path = project / "lock.yml"
    data = locks.dump(new_lock)
    changed = data != (inputs.read(path) if path.exists() else b"")
    if changed and not check:
        with tree.writing(path, subject="the lock"):
            if before is not None and before.digest != new_lock.digest:
                projects.keep_lock(project, before)
            tree.write_file(path, data)
    return changed


def _say_findings(result: update.Result) -> None:
    """Prints what upstream has no longer, notes and warnings, on stderr."""
    findings = {"gone": result.gone, "note": result.notes, "warning": result.warnings}
    for word, lines in findings.items():
        for line in lines:
            say(f"{word}: {line}", err)


def _as_json(
    result: update.Result, new_lock: locks.Lock, changes: Sequence[diff.Change], *, changed: bool
) -> dict[str, Any]:
    return {
        "changed": changed,
        "digest": new_lock.digest,
        "stacks": list(new_lock.stacks),
        "changes": [dataclasses.asdict(change) for change in changes],
        "gone": list(result.gone),
        "notes": list(result.notes),
        "warnings": list(result.warnings),
    }


def _say_changes(
    before: locks.Lock | None,
    new_lock: locks.Lock,
    changes: Sequence[diff.Change],
    *,
    changed: bool,
) -> None:
    """Prints what differs from the lock before, and the reasons of new stacks."""
    for line in diff.lines(changes):
        say(f"  {line}")
    if changed and before is not None and not changes:
        say("  only its reasons, its sources or its layout")
    for stack, reasons in new_lock.details["reasons"].items():
        if before is not None and stack in before.stacks:
            continue
        say(f"  {stack}")
        for component, reason in reasons.items():
            say(f"    {component}: {reason}")


def _lock_before(project: Path, *, anew: bool) -> locks.Lock | None:
    """The present lock, or None; an invalid lock is an error, or with `anew` ignored."""
    path = project / "lock.yml"
    try:
        data = inputs.read(path)
    except FileNotFoundError:
        return None
    try:
        return locks.parse(data, where=str(path))
    except InputError as error:
        if not anew:
            raise
        say(f"warning: {error.where}: {error.message}; nothing of it is kept", err)
        return None


def _read_twin(
    host: str,
    fleet: inventory.Fleet,
    project: Path,
    sources: list[str] | None,
    vault_password_file: Path | None,
) -> Twin:
    """What the host has installed. InputError for a host without a wish."""
    if host not in fleet.hosts:
        without_wish = host in fleet.other_hosts
        raise InputError(
            "it has no gpu_stack" if without_wish else "no such host in the inventory",
            where=f"--from-host {host}",
            expected=", ".join(list(fleet.hosts)[:3]),
            hint=inventory.did_you_mean(host, list(fleet.hosts)),
        )
    where = run.inventory_sources(project, sources or ())
    extra = (
        ["--vault-password-file", str(vault_password_file.resolve())] if vault_password_file else []
    )
    with err.status(host):
        return working_host.read(host, where, cwd=project, extra=extra)


def _make_lock(
    fleet: inventory.Fleet,
    before: locks.Lock | None,
    upgrade: keep.Upgrade,
    *,
    host: Twin | None,
    check: bool,
    places: mirrors.Mirrors,
) -> update.Result:
    with err.status("") as status:

        def progress(text: str) -> None:
            status.update(text)

        return update.make(
            catalog.load(),
            catalog.keys(),
            fleet,
            before,
            upgrade,
            twin=host,
            check=check,
            mirrors=places,
            progress=progress,
        )
