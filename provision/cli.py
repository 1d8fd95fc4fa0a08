"""The command line: the only place that prints, prompts and exits.

Every command catches a ProvisionError once, at the top, prints its one message and exits with its
code; anything else is a bug of ours, told in one line with the place of its traceback.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
import sys
import tempfile
import textwrap
import traceback
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from provision import (
    __version__,
    catalog,
    collection,
    doctor,
    ending,
    inputs,
    inventory,
    kept,
    locallab,
    lockdiff,
    locking,
    matrix,
    resolve,
    rollback,
    run,
    tree,
    twin,
)
from provision import lock as locks
from provision.catalog import gpus as known_gpus
from provision.errors import HostError, InputError, MachineError, ProvisionError, UnsatisfiableError
from provision.inventory import discover
from provision.inventory.sources import VARIABLES
from provision.inventory.sources import read as read_sources
from provision.models import HostFacts, Reason, plain
from provision.render import example, spec, stacks, yaml_text
from provision.render import render as render_tree
from provision.render.collection import playbooks
from provision.report import html, junit, live, terminal
from provision.report import load as load_report
from provision.report.reading import clean
from provision.roles import JUDGES, PREFIXES, ROLES, all_options
from provision.roles.base import Option
from provision.run import Mode
from provision.upstream import mirrors, nvidia

app = typer.Typer(
    name="provision",
    help="An inventory in, a locked Ansible project out, and hosts that are proven.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
# Without emoji: a ":x:" in a message is not to become a picture.
out = Console(highlight=False, soft_wrap=True, emoji=False)
err = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)

ProjectOption = Annotated[
    Path,
    typer.Option(
        "--project", "-p", metavar="DIR", help="The project's directory.", file_okay=False
    ),
]
InventoryOption = Annotated[
    list[str] | None,
    typer.Option("--inventory", "-i", metavar="PATH", help="As with Ansible.  [default: lab]"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
VaultOption = Annotated[
    Path | None,
    typer.Option("--vault-password-file", metavar="FILE", help="As with Ansible.", dir_okay=False),
]
NoPrefixWarnings = Annotated[
    bool,
    typer.Option("--no-prefix-warnings", help="Say nothing of variables that only look like ours."),
]


def _say(text: str, console: Console = out) -> None:
    """Prints text; on a terminal, long lines break between words and keep their indent.

    Names and answers of hosts are among it: what would steer the terminal is shown as
    `\\u001b`.
    """
    lines = clean(text).splitlines()
    if console.is_terminal:
        lines = [part for line in lines for part in _broken(line, console.width)]
    console.print("\n".join(lines), markup=False)


def _word(path: Path) -> str:
    """A path as one word of a shell command that is shown."""
    return shlex.quote(str(path))


def _broken(line: str, width: int) -> list[str]:
    """A line in pieces no wider than `width`, if its words allow it."""
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.wrap(
        line,
        max(width, 40),
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]


def _print_json(data: Any) -> None:
    sys.stdout.write(json.dumps(data, indent=2) + "\n")


def _read_fleet(
    project: Path,
    sources: list[str] | None,
    *,
    vault_password_file: Path | None = None,
    quiet: bool,
    seen: Mapping[str, discover.Seen] | None = None,
) -> inventory.Fleet:
    """The project's hosts, their wishes and what they are; warnings go to stderr.

    What hosts are stands in discovered.yml, or is given as `seen`.

    Ansible runs in the project, so that its ansible.cfg counts; what the user names is relative to
    where the user is.
    """
    if not project.is_dir():
        raise InputError(
            "no such project",
            where=str(project),
            hint=f"`provision init {_word(project)}` starts one",
        )
    paths = []
    where = []
    for source in sources or [str(project / "lab")]:
        # A folder may have a comma in its name; what is no file is a list of hosts.
        if source and Path(source).exists():  # "" would be the current directory
            paths.append(Path(source))
            where.append(_located(source))
        elif "," in source:
            where.append(source)
        else:
            raise InputError(
                "no such inventory",
                where=source or "-i ''",
                hint="`provision init DIRECTORY` writes an example",
            )
    extra = (
        ["--vault-password-file", str(vault_password_file.resolve())] if vault_password_file else []
    )
    # Ansible reads these for a playbook of the project, whichever inventory it is given.
    paths += [path for name in VARIABLES if (path := project / name).is_dir()]
    inputs.check_inventory(paths)
    files = read_sources(paths)
    export = inventory.read_export(where, cwd=project, extra=extra, texts=files)
    words = inventory.Words(all_options(), PREFIXES, JUDGES)
    fleet = inventory.parse(export, words, files)
    fleet = discover.with_facts(fleet, _read_discovered(project) if seen is None else seen)
    if not quiet:
        for warning in fleet.warnings:
            _say(f"warning: {warning}", err)
    if not fleet.hosts:
        raise InputError(
            "no host has a gpu_stack",
            where=", ".join(sources or [str(project / "lab")]),
            expected='gpu_stack: {tensorflow: "2.9"} in a group or host',
        )
    return fleet


def _located(source: str) -> str:
    """An inventory as Ansible gets it from another folder: a path made absolute, or a host list.

    Links stay: Ansible reads group_vars beside the link.
    """
    return os.path.abspath(source) if Path(source).exists() else source


def _read_discovered(project: Path) -> dict[str, discover.Seen]:
    """What `provision discover` wrote; nothing where it never ran."""
    path = project / discover.FILE
    try:
        data = inputs.read(path)
    except FileNotFoundError:
        return {}
    return discover.parse(data, where=str(path))


def _make_lock(
    fleet: inventory.Fleet,
    before: locks.Lock | None,
    upgrade: kept.Upgrade,
    *,
    host: twin.Twin | None,
    check: bool,
    places: mirrors.Mirrors,
) -> locking.Made:
    with err.status("") as status:

        def progress(text: str) -> None:
            status.update(text)

        return locking.make(
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


def _lock_before(project: Path, *, anew: bool) -> locks.Lock | None:
    """The lock that is there; one that makes no sense is nothing to keep, if all may move."""
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
        _say(f"warning: {error.where}: {error.message}; nothing of it is kept", err)
        return None


def _read_twin(
    host: str,
    fleet: inventory.Fleet,
    project: Path,
    sources: list[str] | None,
    vault_password_file: Path | None,
) -> twin.Twin:
    """What the host has; it must be one with a wish."""
    if host not in fleet.hosts:
        known = [*fleet.hosts, *fleet.other_hosts]
        raise InputError(
            "it has no gpu_stack" if host in known else "no such host in the inventory",
            where=f"--from-host {host}",
            expected=", ".join(list(fleet.hosts)[:3]),
            hint=inventory.did_you_mean(host, list(fleet.hosts)),
        )
    where = [_located(source) for source in sources or [str(project / "lab")]]
    extra = (
        ["--vault-password-file", str(vault_password_file.resolve())] if vault_password_file else []
    )
    with err.status(host):
        return twin.read(host, where, cwd=project, extra=extra)


def _read_lock(project: Path) -> locks.Lock:
    path = project / "lock.yml"
    try:
        data = inputs.read(path)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(
            "there is no lock yet",
            where=str(path),
            hint=f"`provision lock --project {_word(project)}`",
        ) from None
    return locks.parse(data, where=str(path))


def _version(wanted: bool) -> None:
    if wanted:
        _say(f"provision {__version__}")
        raise typer.Exit(0)


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    """An inventory in, a locked Ansible project out, and hosts that are proven."""


@app.command()
def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new directory.")],
) -> None:
    """Start a project: an inventory with everything explained."""
    lab = directory / "lab"
    if lab.exists() or (directory / "README.md").exists():
        raise InputError(
            "there is a project already; its lab/ is yours and is not written again",
            where=str(directory),
            hint="choose another directory",
        )
    try:
        for path, data in example.render(directory.resolve().name).items():
            tree.write_file(directory / path, data)
    except OSError as error:
        raise MachineError(
            "the project cannot be written", where=str(directory), got=str(error)
        ) from None
    _say(f"{directory}/lab/hosts.yml: write your hosts there, then")
    _say(f"  provision discover --project {_word(directory)}")
    _say(f"  provision lock --project {_word(directory)}")
    _say(f"  provision render {_word(directory)}")


@app.command("discover")
def discover_hosts(
    project: ProjectOption = Path(),
    inventories: InventoryOption = None,
    limit: Annotated[
        str | None, typer.Option("--limit", "-l", metavar="PATTERN", help="As with Ansible.")
    ] = None,
    forks: Annotated[
        int | None, typer.Option("--forks", "-f", metavar="N", help="As with Ansible.", min=1)
    ] = None,
    vault_password_file: VaultOption = None,
    no_prefix_warnings: NoPrefixWarnings = False,
    as_json: JsonOption = False,
) -> None:
    """Ask the hosts what they are: discovered.yml, for the lock.

    Changes nothing on them. Exit code 4 if a host could not be asked; what was known of it stays.
    """
    fleet = _read_fleet(
        project,
        inventories,
        vault_password_file=vault_password_file,
        quiet=no_prefix_warnings,
        seen={},
    )
    path = project / discover.FILE
    before = inputs.read(path) if path.exists() else b""
    known = discover.parse(before, where=str(path)) if before else {}
    with err.status(f"asking {len(fleet.hosts)} hosts"):
        seen, failed = discover.ask(
            project,
            run.inventory_sources(project.resolve(), inventories or ()),
            list(fleet.hosts),
            catalog=catalog.load(),
            limit=limit,
            forks=forks,
            vault_password_file=vault_password_file,
        )
    data = discover.dump(known | seen)
    changed = data != before
    if changed and seen:
        try:
            tree.write_file(path, data)
        except OSError as error:
            raise MachineError("it cannot be written", where=str(path), got=str(error)) from None
    if as_json:
        hosts = {host: dataclasses.asdict(one) for host, one in seen.items()}
        _print_json({"changed": changed and bool(seen), "hosts": hosts, "failed": failed})
    else:
        _tell_discovered(path, seen, failed, known)
        _say(f"{path}: {'written' if changed and seen else 'unchanged'}")
    # What the inventory declares is held against it now rather than by the next `lock`.
    discover.with_facts(fleet, seen)
    if failed:
        raise typer.Exit(4)


def _tell_discovered(
    path: Path,
    seen: Mapping[str, discover.Seen],
    failed: Mapping[str, str],
    known: Mapping[str, discover.Seen],
) -> None:
    """The hosts by what they are, then what the catalog doesn't know, then those not reached."""
    alike: dict[str, list[str]] = {}
    for host, one in seen.items():
        alike.setdefault(f"{one.platform or one.system}, {discover.shown(one.gpus)}", []).append(
            host
        )
    for what, hosts in alike.items():
        _say(f"{', '.join(hosts)}: {what}")
    for host, one in seen.items():
        if one.platform is None:
            _say(f"warning: {host}: the catalog doesn't know {one.system}", err)
        for gpu in one.gpus:
            if gpu.name is None:
                _say(f"warning: {host}: the catalog doesn't know the GPU {gpu.id}", err)
    for host, why in failed.items():
        stays = f"; {path.name} keeps what it had" if host in known else ""
        _say(f"{host}: not asked{stays}: {why}", err)


@app.command()
def lock(
    names: Annotated[
        list[str] | None,
        # Hidden: typer would write "<list[str]>" behind it; --upgrade says what it is.
        typer.Argument(metavar="NAME", hidden=True),
    ] = None,
    project: ProjectOption = Path(),
    inventories: InventoryOption = None,
    upgrade: Annotated[
        bool,
        typer.Option(
            "--upgrade",
            help="Move to what upstream has now: all, or only the components, packages and "
            "wheels that are named behind it.",
        ),
    ] = False,
    from_host: Annotated[
        str | None,
        typer.Option("--from-host", metavar="HOST", help="Lock what this host has installed."),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Write nothing; exit 5 if it would change."),
    ] = False,
    nvidia_mirror: Annotated[
        str,
        typer.Option(
            "--nvidia-mirror",
            metavar="URL",
            envvar="PROVISION_NVIDIA_MIRROR",
            show_envvar=True,
            help="A mirror in place of developer.download.nvidia.com, us.download.nvidia.com and "
            "nvidia.github.io, with their paths; the lock has hosts install from it.",
        ),
    ] = "",
    nvidia_key: Annotated[
        Path | None,
        typer.Option(
            "--nvidia-key",
            metavar="FILE",
            envvar="PROVISION_NVIDIA_KEY",
            dir_okay=False,
            help="The public key of a mirror that signs NVIDIA's repositories anew.",
        ),
    ] = None,
    archive_mirror: Annotated[
        list[str] | None,
        typer.Option(
            "--archive-mirror",
            metavar="PLATFORM=URL[,SUITE...]",
            envvar="PROVISION_ARCHIVE_MIRROR",
            help="A mirror of a platform's own archive, with these of its suites (all).",
        ),
    ] = None,
    archive_key: Annotated[
        Path | None,
        typer.Option(
            "--archive-key",
            metavar="FILE",
            envvar="PROVISION_ARCHIVE_KEY",
            dir_okay=False,
            help="The public key of an archive mirror that signs anew.",
        ),
    ] = None,
    vault_password_file: VaultOption = None,
    no_prefix_warnings: NoPrefixWarnings = False,
    as_json: JsonOption = False,
) -> None:
    """Resolve the wishes and pin everything: lock.yml.

    What is locked stays while its wish stays and upstream has it.
    """
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
    places = mirrors.parse(
        catalog.load(),
        nvidia=nvidia_mirror,
        nvidia_key=nvidia_key,
        archives=archive_mirror or (),
        archive_key=archive_key,
    )
    fleet = _read_fleet(
        project, inventories, vault_password_file=vault_password_file, quiet=no_prefix_warnings
    )
    before = _lock_before(project, anew=upgrade and not names)
    may = kept.upgrade_of(names or (), upgrade, before)
    host = None
    if from_host is not None:
        host = _read_twin(from_host, fleet, project, inventories, vault_password_file)
    result = _make_lock(fleet, before, may, host=host, check=check, places=places)
    path = project / "lock.yml"
    told = {"gone": result.gone, "note": result.notes, "warning": result.warnings}
    for word, lines in () if as_json else told.items():
        for line in lines:
            _say(f"{word}: {line}", err)
    made = result.lock
    if made is None:
        if as_json:
            _print_json({"changed": True, "gone": list(result.gone)})
        if result.problem is not None:
            _say(f"error: {result.problem}", err)
        raise typer.Exit(5)
    data = locks.dump(made)
    changed = data != (inputs.read(path) if path.exists() else b"")
    if changed and not check:
        try:
            if before is not None and before.digest != made.digest:
                _keep_lock(project, before)
            tree.write_file(path, data)
        except OSError as error:
            raise MachineError(
                "the lock cannot be written", where=str(path), got=str(error)
            ) from None
    changes = lockdiff.difference(before, made, fleet) if before is not None else []
    if as_json:
        _print_json(
            {
                "changed": changed,
                "digest": made.digest,
                "stacks": list(made.stacks),
                "changes": [dataclasses.asdict(change) for change in changes],
                "gone": list(result.gone),
                "notes": list(result.notes),
                "warnings": list(result.warnings),
            }
        )
    else:
        word = "would change" if check and changed else "written" if changed else "unchanged"
        _say(f"{path}: {word}")
        for line in lockdiff.told(changes):
            _say(f"  {line}")
        if changed and before is not None and not changes:
            _say("  only its reasons or its layout")
        for stack, reasons in made.details["reasons"].items():
            if before is not None and stack in before.stacks:
                continue
            _say(f"  {stack}")
            for component, reason in reasons.items():
                _say(f"    {component}: {reason}")
        if changed and not check:
            _say(f"  provision render {_word(project)}")
    if check and (changed or result.gone):
        raise typer.Exit(5)


def _keep_lock(project: Path, former: locks.Lock) -> Path:
    """Keeps a lock, as hosts get it too, for those that may go back to it; where it is kept."""
    folder = rollback.place(project, former.digest)
    files = {"lock.yml": locks.dump(former), **stacks.render(former, folder="")}
    for name, data in files.items():
        if not (folder / name).exists() or inputs.read(folder / name) != data:
            tree.write_file(folder / name, data)
    return folder


@app.command()
def render(
    project: Annotated[
        Path, typer.Argument(metavar="DIR", help="The project's directory.")
    ] = Path(),
    inventories: InventoryOption = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 5 if the tree would change.")
    ] = False,
    vault_password_file: VaultOption = None,
    no_prefix_warnings: NoPrefixWarnings = False,
    as_json: JsonOption = False,
) -> None:
    """Write the Ansible project that the lock describes."""
    made = _read_lock(project)
    fleet = _read_fleet(
        project, inventories, vault_password_file=vault_password_file, quiet=no_prefix_warnings
    )
    locks.check_fits(made, fleet, where=str(project / "lock.yml"))
    nvidia.check_locked_keys(made.stacks, where=str(project / "lock.yml"))
    files = render_tree(made, collection.read())
    if check:
        what = tree.difference(project, files)
    else:
        what = tree.write(project, files, version=__version__)
    if as_json:
        _print_json(
            {
                "new": what.new,
                "changed": what.changed,
                "removed": what.removed,
                "edited": what.edited,
            }
        )
    else:
        for path in what.edited:
            _say(f"warning: {path} was edited; your version is {path}.yours", err)
        verb = "would be " if check else ""
        _say(
            f"{project}: {len(what.new)} files {verb}new, {len(what.changed)} {verb}changed, "
            f"{len(what.removed)} {verb}removed"
        )
        if not check:
            there = "" if project == Path() else f"cd {_word(project)} && "
            _say(f"  {there}ansible-playbook site.yml {_sources_from(project, inventories)}")
    if check and not what.empty:
        raise typer.Exit(5)


def _sources_from(project: Path, sources: list[str] | None) -> str:
    """The -i arguments that name, from inside the project, what the user named from here."""
    if not sources:
        return "-i lab"
    paths = [
        source if "," in source and not Path(source).exists() else os.path.relpath(source, project)
        for source in sources
    ]
    return " ".join(f"-i {shlex.quote(path)}" for path in paths)


def _run(
    mode: Mode,
    project: Path,
    options: run.Options,
    *,
    verbose: bool,
    as_json: bool,
    former: bool = False,
) -> None:
    """Run the tree's playbook in a mode, show it, and exit with the documented code.

    `former`: for a lock that is not the project's present one.
    """
    _check_tags([*options.tags, *options.skip_tags])
    if not former:
        _check_fresh(project)
    told: Collection[str] = ()
    if as_json:
        outcome = run.run_playbook(project, options, mode=mode)
        _print_json(outcome.report)
    elif verbose or options.ask_become_pass:
        # Ansible's own output, and its prompt for the password.
        outcome = run.run_playbook(project, options, mode=mode, quiet=False)
    else:
        with live.view(err) as view:
            outcome = run.run_playbook(project, options, mode=mode, on_event=view.on_event)
        told = view.told if _same_place() else ()
    if outcome.report is None:
        words = outcome.log.read_text(encoding="utf-8", errors="replace") if not verbose else ""
        raise _no_report(outcome, words)
    if not as_json:
        if mode == "plan":
            terminal.plan(outcome.report, out)
        else:
            terminal.outcome(outcome.report, out, told=told)
            if outcome.report["hosts"]:
                there = "" if project == Path() else f" --project {_word(project)}"
                _say(f"As a page to show to others: provision report{there}")
    raise typer.Exit(outcome.exit_code)


def _same_place() -> bool:
    """Does a reader of stdout see what went to stderr?"""
    try:
        return os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())
    except (OSError, ValueError):
        return False


def _no_report(outcome: run.Outcome, words: str) -> ProvisionError:
    """Ansible ended before it saw a host."""
    unmatched = re.search(r"--limit matches no host of the inventory: (.*)\. No host", words)
    if unmatched is not None:
        return discover.unmatched_limit(unmatched[1])
    lines = [line for line in words.splitlines() if line.strip()]
    error = InputError(
        "Ansible ended before it reached a host",
        where=str(outcome.log),
        got="\n       ".join(lines[-6:]),
    )
    error.exit_code = outcome.exit_code or 1
    return error


def _check_tags(tags: list[str]) -> None:
    """Ansible runs nothing for a tag that nothing carries, and calls that success."""
    # Ansible's own words, and what site.yml's tasks carry besides the components.
    known = [*(role.name for role in ROLES), "receipt", "verify", "all", "always", "tagged"]
    for tag in tags:
        if tag not in [*known, "never", "untagged"]:
            near = inventory.did_you_mean(tag, known)
            raise InputError(
                f"no component {tag!r}",
                where="--tags, --skip-tags",
                expected=", ".join(role.name for role in ROLES),
                hint=near,
            )


def _check_fresh(project: Path) -> None:
    """A tree of another lock would bring hosts to that one, under this one's name."""
    digests = []
    for path in (project / "lock.yml", project / "stacks" / "gpu_lock.yml"):
        try:
            text = inputs.read(path).decode("utf-8", "replace")
        except OSError:
            return  # no rendered project: the run says so
        digests.append(next((li for li in text.splitlines() if li.startswith("  digest:")), ""))
    if digests[0] != digests[1]:
        raise InputError(
            "the project was rendered from another lock.yml",
            where=str(project),
            hint=f"`provision render {_word(project)}`",
        )


def _split(values: list[str] | None) -> list[str]:
    return [part for value in values or [] for part in value.split(",") if part]


LimitOption = Annotated[
    str | None,
    typer.Option("--limit", "-l", metavar="HOSTS", help="Only these hosts, as with Ansible."),
]
TagsOption = Annotated[
    list[str] | None, typer.Option("--tags", "-t", metavar="NAMES", help="Only these components.")
]
SkipTagsOption = Annotated[
    list[str] | None, typer.Option("--skip-tags", metavar="NAMES", help="All but these components.")
]
ExtraVarsOption = Annotated[
    list[str] | None, typer.Option("--extra-vars", "-e", metavar="VARS", help="As with Ansible.")
]
AskOption = Annotated[
    bool, typer.Option("--ask-become-pass", "-K", help="Ask for the sudo password.")
]
ForksOption = Annotated[
    int | None,
    typer.Option("--forks", "-f", metavar="N", help="Hosts at once, as with Ansible.", min=1),
]
DeepOption = Annotated[
    bool,
    typer.Option("--deep", help="Read and hash every file of the stack: slow, for suspicion."),
]
VerboseOption = Annotated[
    bool,
    typer.Option("--ansible-output", help="Show Ansible's own output instead of the live view."),
]


@app.command()
def plan(
    project: ProjectOption = Path(),
    inventories: InventoryOption = None,
    limit: LimitOption = None,
    tags: TagsOption = None,
    skip_tags: SkipTagsOption = None,
    extra_vars: ExtraVarsOption = None,
    ask_become_pass: AskOption = False,
    forks: ForksOption = None,
    vault_password_file: VaultOption = None,
    deep: DeepOption = False,
    ansible_output: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Say what differs from the lock; change nothing.

    Exit code 5 if anything does, 4 if a host could not be looked at.
    """
    options = run.Options(
        inventory=inventories or (),
        limit=limit,
        tags=_split(tags),
        skip_tags=_split(skip_tags),
        extra_vars=extra_vars or (),
        ask_become_pass=ask_become_pass,
        forks=forks,
        vault_password_file=vault_password_file,
        deep=deep,
    )
    _run("plan", project, options, verbose=ansible_output, as_json=as_json)


@app.command()
def apply(
    project: ProjectOption = Path(),
    inventories: InventoryOption = None,
    limit: LimitOption = None,
    tags: TagsOption = None,
    skip_tags: SkipTagsOption = None,
    extra_vars: ExtraVarsOption = None,
    ask_become_pass: AskOption = False,
    forks: ForksOption = None,
    vault_password_file: VaultOption = None,
    deep: DeepOption = False,
    ansible_output: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Bring the hosts to their lock and prove it.

    The same run as `ansible-playbook site.yml -i lab`.
    """
    options = run.Options(
        inventory=inventories or (),
        limit=limit,
        tags=_split(tags),
        skip_tags=_split(skip_tags),
        extra_vars=extra_vars or (),
        ask_become_pass=ask_become_pass,
        forks=forks,
        vault_password_file=vault_password_file,
        deep=deep,
    )
    _run("apply", project, options, verbose=ansible_output, as_json=as_json)


@app.command()
def verify(
    project: ProjectOption = Path(),
    inventories: InventoryOption = None,
    limit: LimitOption = None,
    extra_vars: ExtraVarsOption = None,
    ask_become_pass: AskOption = False,
    forks: ForksOption = None,
    vault_password_file: VaultOption = None,
    deep: DeepOption = False,
    ansible_output: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Prove again that everything works.

    Exit code 6 if a check fails, 5 if a host differs from its lock.
    """
    options = run.Options(
        inventory=inventories or (),
        limit=limit,
        extra_vars=extra_vars or (),
        ask_become_pass=ask_become_pass,
        forks=forks,
        vault_password_file=vault_password_file,
        deep=deep,
    )
    _run("verify", project, options, verbose=ansible_output, as_json=as_json)


@app.command("doctor")
def ask_doctor(
    project: ProjectOption = Path(),
    inventories: InventoryOption = None,
    limit: LimitOption = None,
    fix: Annotated[
        bool,
        typer.Option("--fix", help="Do what is safe: no process is ended, nothing rebooted."),
    ] = False,
    log: Annotated[
        str | None,
        typer.Option(
            "--log", metavar="FILE", help="Judge a log instead of hosts; - for what is piped in."
        ),
    ] = None,
    extra_vars: ExtraVarsOption = None,
    ask_become_pass: AskOption = False,
    forks: ForksOption = None,
    vault_password_file: VaultOption = None,
    ansible_output: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Say what is wrong, why that is believed, and what cures it.

    Exit code 5 if something was found, 4 if a host could not be asked.
    """
    if log is not None:
        _doctor_log(log, fix=fix, as_json=as_json)
        return
    _check_fresh(project)
    options = run.Options(
        inventory=inventories or (),
        limit=limit,
        extra_vars=extra_vars or (),
        ask_become_pass=ask_become_pass,
        forks=forks,
        vault_password_file=vault_password_file,
    )
    quiet = not (ansible_output or ask_become_pass) or as_json
    steps = ["gpu_doctor_fix=true"] if fix else []
    told = dataclasses.replace(options, extra_vars=[*options.extra_vars, *steps])
    report = _doctor(project, told, quiet=quiet)
    before = report[0]["hosts"]
    if fix and doctor.components(report[0]):
        _doctor_runs(project, options, report[0], quiet=quiet)
        report = _doctor(project, options, quiet=quiet)
        _note_fixed(before, report[0]["hosts"])
    data, code = report
    if as_json:
        _print_json(data)
    else:
        for line in doctor.tell(data, fix=not fix):
            _say(line)
    raise typer.Exit(code)


def _doctor(project: Path, options: run.Options, *, quiet: bool) -> tuple[dict[str, Any], int]:
    """Asks the hosts: (the report, the exit code)."""
    with err.status("asking the hosts what is wrong"):
        data, code, log = run.ask_doctor(project, options, quiet=quiet)
    if data is None or not data.get("hosts"):
        words = log.read_text(encoding="utf-8", errors="replace")
        raise _no_report(run.Outcome(None, 0, code, log), words)
    return data, code


def _doctor_runs(
    project: Path, options: run.Options, report: Mapping[str, Any], *, quiet: bool
) -> None:
    """The runs that fix what a run can: one per set of components, and never a reboot."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for host, names in doctor.components(report).items():
        alike.setdefault(tuple(names), []).append(host)
    for tags, hosts in alike.items():
        _say(f"{', '.join(hosts)}: runs {', '.join(tags)}", err)
        narrowed = dataclasses.replace(
            options,
            limit=",".join(hosts),
            tags=tags,
            extra_args=("-e", "nvidia_driver_reboot=false"),
        )
        outcome = run.run_playbook(project, narrowed, quiet=quiet)
        if outcome.exit_code and outcome.report is not None:
            terminal.outcome(outcome.report, err)


def _note_fixed(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """What the runs have put right stands in the report beside what the steps have."""
    for name, host in after.items():
        known = {one["id"] for one in host["findings"]}
        old = before.get(name) or {"fixed": [], "findings": []}
        host["fixed"] = old["fixed"] + [
            one["title"] for one in old["findings"] if one["id"] not in known
        ]


def _doctor_log(log: str, *, fix: bool, as_json: bool) -> None:
    """Judges a log: exit code 5 if it says something that is known, 0 if not."""
    if fix:
        raise InputError("a log can't be fixed", expected="--fix without --log")
    if log == "-":
        data, who = sys.stdin.buffer.read(), "the log"
    else:
        try:
            data, who = Path(log).read_bytes(), Path(log).name
        except OSError as error:
            raise InputError(f"can't be read: {error.strerror}", where=log) from None
    found = doctor.read_log(data, who)
    if as_json:
        _print_json({"format": 1, "findings": found})
    else:
        for one in found:
            for line in doctor.lines(one, fix=False):
                _say(line.removeprefix("  "))
        if not found:
            _say("nothing that is known here: `provision doctor` asks the hosts themselves")
    raise typer.Exit(5 if found else 0)


@app.command("rollback")
def go_back(
    hosts: Annotated[
        list[str] | None,
        # Hidden for the same reason as lock's NAME.
        typer.Argument(metavar="HOST", hidden=True),
    ] = None,
    project: ProjectOption = Path(),
    inventories: InventoryOption = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="N|DIGEST", help="The N-th state before, or a lock's digest.  [1]"
        ),
    ] = None,
    only_list: Annotated[
        bool, typer.Option("--list", help="Say what there is to go back to; change nothing.")
    ] = False,
    tags: TagsOption = None,
    skip_tags: SkipTagsOption = None,
    extra_vars: ExtraVarsOption = None,
    ask_become_pass: AskOption = False,
    forks: ForksOption = None,
    vault_password_file: VaultOption = None,
    ansible_output: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Bring hosts back to what they had before.

    Those named, or all, by their receipts and the locks in locks/; then they are proven. Exit codes
    as of apply; 2 where there is nothing to go back to, and no host is touched.
    """
    fleet = _read_fleet(project, inventories, vault_password_file=vault_password_file, quiet=True)
    chosen = list(dict.fromkeys(hosts)) if hosts else list(fleet.hosts)
    for host in chosen:
        if host not in fleet.hosts:
            raise InputError(
                "no such host with a gpu_stack",
                where=host,
                hint=inventory.did_you_mean(host, list(fleet.hosts)),
            )
    with err.status(f"asking {len(chosen)} hosts"):
        receipts, failed = rollback.ask(
            project,
            run.inventory_sources(project.resolve(), inventories or ()),
            chosen,
            vault_password_file=vault_password_file,
            forks=forks,
        )
    if only_list:
        _tell_receipts(project, receipts, failed, as_json=as_json)
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
    try:
        folder = _keep_lock(project, former)
    except OSError as error:
        raise MachineError("it cannot be written", where=str(project), got=str(error)) from None
    told = json.dumps(rollback.variables(former, target, folder))
    if not as_json:
        _say(f"{', '.join(chosen)}: back to {target.short} of {target.written}: {target.words}")
    options = run.Options(
        inventory=inventories or (),
        limit=",".join(chosen),
        tags=_split(tags),
        skip_tags=_split(skip_tags),
        extra_vars=[*(extra_vars or ()), told],
        ask_become_pass=ask_become_pass,
        forks=forks,
        vault_password_file=vault_password_file,
    )
    code = 0
    try:
        _run("apply", project, options, verbose=ansible_output, as_json=as_json, former=True)
    except typer.Exit as ended:
        code = ended.exit_code
    if not as_json:
        _tell_way_forward(project, former, target, folder, code)
    raise typer.Exit(code)


def _one_target(targets: Mapping[str, rollback.Receipt]) -> rollback.Receipt:
    """What all hosts go back to. InputError where that is not one state."""
    groups: dict[Any, list[str]] = {}
    for host, one in targets.items():
        groups.setdefault(one.state, []).append(host)
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
    """What each host has now and had before. Exits with 4 where a host could not be asked."""

    def kept(one: rollback.Receipt) -> bool:
        return rollback.find(project, one.digest) is not None

    if as_json:
        rows = {
            host: [
                {**dataclasses.asdict(one), "to": number, "lock_here": kept(one)}
                for number, one in enumerate(found)
            ]
            for host, found in receipts.items()
        }
        _print_json({"hosts": rows, "failed": dict(failed)})
    else:
        for host, found in receipts.items():
            _say(f"{host}:" if found else f"{host}: no receipt")
            for number, one in enumerate(found):
                gone = f"; without {', '.join(one.absent)}" if one.absent else ""
                here = "" if kept(one) else "; its lock is not on this controller"
                word = f"--to {number}" if number else "now"
                _say(f"  {word}  {one.short}  {one.written}  {one.words}{gone}{here}")
        for host, why in failed.items():
            _say(f"{host}: not asked: {why}", err)
    if failed:
        raise typer.Exit(4)


def _tell_way_forward(
    project: Path, former: locks.Lock, target: rollback.Receipt, folder: Path, code: int
) -> None:
    """What keeps the hosts where they are now, and what to do where they did not get there."""
    if code:
        _say(
            "The rollback is not whole: run it again when the cause is gone. Where the packages "
            f"of {target.short} have left the archive, name one that keeps them (cuda_mirror, "
            "nvidia_driver_mirror; -e works here too)."
        )
        return
    present = project / "lock.yml"
    now = _read_lock(project) if present.exists() else None
    if now is not None and now.digest == former.digest:
        if target.absent:
            names = ", ".join(f"{name}_state: absent" for name in target.absent)
            _say(f"A plain run takes them forward again, unless lab/ says: {names}")
        return
    _say("A plain run takes these hosts forward again, to lock.yml. To keep them here, either")
    _say(f"  cp {folder}/lock.yml {present} && provision render {_word(project)}   (all hosts)")
    wish = plain(rollback.wish_of(former, target))
    if now is not None and wish not in [plain(row["wish"]) for row in now.slim["rows"]]:
        _say(f"  and before that in lab/, as it was then: gpu_stack: {json.dumps(wish)}")
    _say(f"or say it in their gpu_stack, then lock and render: {_pin(former, target)}")


def _pin(former: locks.Lock, target: rollback.Receipt) -> str:
    """A wish that names the versions of a former stack."""
    row = former.stacks[target.stack]
    wish: dict[str, Any] = dict(plain(rollback.wish_of(former, target)))
    if not isinstance(wish.get("tensorflow"), list):
        wish["tensorflow"] = row["tensorflow"]["version"]
    return f"gpu_stack: {json.dumps(wish)}"


@app.command("report")
def write_report(
    project: ProjectOption = Path(),
    source: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="FILE", help="A report.json.  [default: report/report.json]"
        ),
    ] = None,
    html_file: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="The page.  [default: beside the report]"),
    ] = None,
    junit_file: Annotated[
        Path | None,
        typer.Option("--junit", metavar="FILE", help="JUnit XML.  [default: beside the report]"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a web page and JUnit XML of the last run's report.

    The page needs no network and no script. Exit code 0 whatever the report says.
    """
    path = source or project / "report" / "report.json"
    loaded = load_report(path)
    page = html_file or path.with_name("report.html")
    xml = junit_file or path.with_name("junit.xml")
    if len({file.resolve() for file in (path, page, xml)}) < 3:
        raise InputError(
            "one file can't hold two of the report, the page and the XML", where=str(path)
        )
    for target, data in ((page, html.render(loaded)), (xml, junit.render(loaded))):
        try:
            tree.write_file(target, data)
        except OSError as error:
            raise MachineError("it cannot be written", where=str(target), got=str(error)) from None
    if as_json:
        _print_json({"html": str(page), "junit": str(xml)})
        return
    _say(f"page:   {page}")
    _say(f"JUnit:  {xml}")


@app.command()
def explain(
    word: Annotated[
        str,
        typer.Argument(metavar="NAME", help="A variable, gpu_stack, component, host; none: all."),
    ] = "",
    project: ProjectOption = Path(),
    inventories: InventoryOption = None,
    vault_password_file: VaultOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what a word means, or why a host gets what it gets.

    A word is a variable, a component, gpu_stack or one of its words.
    Exit code 3 where a host can't have its wish.
    """
    options = all_options()
    components = {role.name for role in ROLES}
    if word == inventory.WISH or word in inventory.WISH_WORDS.keys() - components:
        _explain_wish(word, as_json=as_json)
        return
    if word in options:
        chosen = {word: options[word]}
    else:
        chosen = {n: o for n, o in options.items() if not word or o.role == word}
    if not chosen:
        _explain_host(
            word,
            project,
            _fleet_if_any(project, inventories, vault_password_file),
            as_json=as_json,
        )
        return
    reasons: dict[str, dict[str, str]] = {}
    if (project / "lock.yml").exists():
        details = _read_lock(project).details["reasons"]
        roles = {option.role for option in chosen.values()}
        reasons = {
            stack: {c: why for c, why in parts.items() if c in roles}
            for stack, parts in details.items()
        }
    if as_json:
        _print_json({"options": [_described(o) for o in chosen.values()], "reasons": reasons})
        return
    if word in inventory.WISH_WORDS:
        _explain_wish(word, as_json=False)
    for option in chosen.values():
        told = _described(option)
        _say(f"{option.name} ({told['type']}, {told['set_by']})")
        _say(f"  {option.description}")
        if option.choices:
            _say(f"  one of: {', '.join(option.choices)}")
        if option.public:
            _say(f"  default: {json.dumps(option.default)}")
        if option.wish:
            _say(f"  to change it: {option.wish}")
    for stack, parts in reasons.items():
        if parts:
            _say(f"in lock.yml, for {stack}:")
        for component, why in parts.items():
            _say(f"  {component}: {why}")


def _explain_wish(word: str, *, as_json: bool) -> None:
    """What `gpu_stack` is made of, or one of its words."""
    words = inventory.WISH_WORDS
    chosen = words if word == inventory.WISH else {word: words[word]}
    if as_json:
        told = {n: {"example": one, "description": text} for n, (one, text) in chosen.items()}
        _print_json({"wish": told})
        return
    if word == inventory.WISH:
        _say(f"{word}: what the hosts of a group shall become; `provision lock` makes it exact")
    for name, (value, text) in chosen.items():
        _say(f"{inventory.WISH}: {{{name}: {value}}}")
        _say(f"  {text}")


def _fleet_if_any(
    project: Path, inventories: list[str] | None, vault_password_file: Path | None
) -> inventory.Fleet | None:
    """The project's fleet; None where there is no inventory and none was asked for."""
    if not inventories and not (project / "lab").exists():
        return None
    return _read_fleet(project, inventories, vault_password_file=vault_password_file, quiet=True)


def _explain_host(
    name: str, project: Path, fleet: inventory.Fleet | None, *, as_json: bool
) -> None:
    """What a host is, what it shall become and why. InputError for no host of ours."""
    hosts = list(fleet.hosts) if fleet else []
    if fleet is None or name not in hosts:
        if fleet is not None and name in fleet.other_hosts:
            raise InputError(
                f"{name} has no gpu_stack, and is left alone",
                expected='gpu_stack: {tensorflow: "2.9"} in one of its groups, or for itself',
            )
        words = [inventory.WISH, *inventory.WISH_WORDS]
        known = [*words, *all_options(), *(role.name for role in ROLES), *hosts]
        near = inventory.did_you_mean(name, known) or "`provision explain` lists the variables"
        what = "variable, component or host" if fleet else "variable or component"
        raise InputError(f"no {what} {name!r}", hint=near)
    facts = fleet.facts.get(name, HostFacts())
    told = _told_facts(name, facts, fleet)
    try:
        found = resolve.explain(catalog.load(), fleet, name)
    except UnsatisfiableError as error:
        if as_json:
            _print_json({**told, "stacks": [], "refusal": str(error)})
            raise typer.Exit(error.exit_code) from None
        _tell_host(told)
        raise
    if as_json:
        stacks = [
            {
                "platform": one.choice.platform.id,
                "stack": one.choice.stack.id,
                "generations": list(one.choice.generations),
                "reasons": {reason.component: reason.text for reason in one.reasons},
                "warnings": list(one.warnings),
                "beside": [
                    {
                        "stack": other.id,
                        "reasons": {reason.component: reason.text for reason in other.reasons},
                        "warnings": list(other.warnings),
                    }
                    for other in one.choice.beside
                ],
                "locked": _is_locked(project, one.choice),
            }
            for one in found
        ]
        _print_json({**told, "stacks": stacks, "refusal": None})
        return
    _tell_host(told)
    if facts.platform is None and len(found) > 1:
        _say("  what it gets depends on its platform:")
    for one in found:
        _say(f"  {one.choice.stack.id}")
        if one.choice.generations:
            gpus = " and ".join(one.choice.generations)
            _say(f"    for GPUs of {gpus} only: others with this wish get another stack")
        _tell_reasons(one.reasons, one.warnings)
        for other in one.choice.beside:
            _say(f"  beside it: {other.id}")
            _tell_reasons(other.reasons, other.warnings)
        locked = _is_locked(project, one.choice)
        if locked is False:
            _say("    lock.yml has another for it: `provision lock`")


def _tell_reasons(reasons: Sequence[Reason], warnings: Sequence[str]) -> None:
    for reason in reasons:
        _say(f"    {reason.component}: {reason.text}")
    for warning in warnings:
        _say(f"    warning: {warning}")


def _is_locked(project: Path, choice: resolve.Choice) -> bool | None:
    """Does lock.yml give it this stack? None without a lock."""
    if not (project / "lock.yml").exists():
        return None
    platform = choice.platform.platform.as_data()
    wish = plain(choice.wish.literal)
    return any(
        row["platform"] == platform
        and row["wish"] == wish
        and row.get("generations", []) == list(choice.generations)
        and row["stack"].startswith(choice.stack.begins)
        for row in _read_lock(project).slim["rows"]
    )


def _told_facts(name: str, facts: HostFacts, fleet: inventory.Fleet) -> dict[str, Any]:
    """What is known of a host, and from where."""

    def place(word: str, owner: str) -> str:
        return (fleet.sources.where(word, near=owner) or owner) if owner != discover.FILE else owner

    facts_of = catalog.load()
    return {
        "host": name,
        "platform": facts.platform,
        "system": facts.system,
        "platform_from": place(inventory.PLATFORM, facts.platform_from),
        "gpus": [
            {"name": gpu.name, "generation": gpu.generation, "capability": gpu.capability}
            for gpu in resolve.gpus_of(facts, facts_of)
        ],
        "unknown_gpus": list(facts.unknown),
        "gpus_from": place(inventory.MODELS, facts.gpus_from),
        "wish": plain(fleet.hosts[name].literal),
        "wish_from": place(inventory.WISH, fleet.owners.get(name, "")),
    }


def _tell_host(told: Mapping[str, Any]) -> None:
    _say(told["host"])
    titles = {row.id: row.title for row in catalog.load().platforms}
    not_said = "not known; `provision discover` asks it, or write "
    platform = titles.get(told["platform"]) or told["system"]
    _say(f"  platform: {platform}, from {told['platform_from']}" if platform
         else f"  platform: {not_said}gpu_platform")  # fmt: skip
    gpus = [f"{gpu['name']} ({gpu['generation']}, compute capability {gpu['capability']})"
            for gpu in told["gpus"]]  # fmt: skip
    gpus += [f"{one} (not in the catalog)" for one in told["unknown_gpus"]]
    if gpus:
        _say(f"  GPUs: {', '.join(gpus)}, from {told['gpus_from']}")
    else:
        none = f"none, from {told['platform_from']}"
        seen = told["platform_from"] == discover.FILE
        _say(f"  GPUs: {none if seen else not_said + 'gpu_models'}")
    _say(f"  gpu_stack: {json.dumps(told['wish'])}, from {told['wish_from']}")


@app.command("catalog")
def show_catalog(
    gpu: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only what serves this GPU; may be given again."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show what runs where: TensorFlow releases by platforms."""
    facts = catalog.load()
    words = tuple(known_gpus.gpu(word, where="--gpu") for word in gpu or ())
    found = matrix.lines(facts, words)
    titles = {platform.id: platform.title for platform in facts.platforms}
    if as_json:
        _print_json(
            [
                {
                    "tensorflow": line.release,
                    "newest": line.patch,
                    "pythons": line.pythons,
                    "cuda": line.cuda,
                    "cudnn": line.cudnn,
                    "driver_minimum": line.driver,
                    "platforms": {
                        name: {"how": cell.how, "text": cell.text}
                        for name, cell in zip(titles, line.cells, strict=True)
                    },
                }
                for line in found
            ]
        )
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("TensorFlow", "Python", "CUDA", "cuDNN", "driver", *titles.values()):
        table.add_column(title.partition(" (")[0], overflow="fold")
    styles = {"debs": "green", "wheels": "green", "nvidia": "green", "known": "dim", "no": "dim"}
    for line in found:
        cells = [f"[{styles[c.how]}]{escape(matrix.shown(c))}[/]" for c in line.cells]
        table.add_row(line.patch, line.pythons, line.cuda, line.cudnn, line.driver, *cells)
    # A table that is cut is of no use: a pipe gets all of it, a narrow terminal a list.
    wide = out if out.is_terminal else Console(width=240, highlight=False)
    if Measurement.get(wide, wide.options.update(max_width=999), table).minimum <= wide.width:
        wide.print(table)
    else:
        _tell_catalog(found, list(titles.values()))
    for one in words:
        last = f" to {one.driver_last}" if one.driver_last else " or newer"
        _say(f"{one.name}: {one.generation}, compute capability {one.capability}, driver branches "
             f"{one.driver_first}{last}")  # fmt: skip
    _say("(in brackets): known, and not installed by this version; no: what is in the way")


def _tell_catalog(found: Sequence[matrix.Line], titles: Sequence[str]) -> None:
    """The catalog's table as a list, for a terminal that is too narrow for it."""
    for line in found:
        _say(f"TensorFlow {line.patch}: Python {line.pythons}, CUDA {line.cuda}, "
             f"cuDNN {line.cudnn}, driver {line.driver}")  # fmt: skip
        for title, cell in zip(titles, line.cells, strict=True):
            _say(f"  {title.partition(' (')[0]}: {matrix.shown(cell)}")


def _described(option: Option) -> dict[str, Any]:
    kind, elements = option.spec_type()
    if option.public:
        set_by = "inventory"
    elif option.run_only:
        set_by = "-e of a run"
    else:
        set_by = "lock" if option.identity else "plan"
    return {
        "name": option.name,
        "component": option.role,
        "type": f"{kind} of {elements}" if elements else kind,
        "default": option.default,
        "choices": option.choices,
        "set_by": set_by,
        "description": option.description,
        "wish": option.wish,
    }


lab_app = typer.Typer(
    help="Hosts in containers on this machine, to try things on.",
    no_args_is_help=True,
)
app.add_typer(lab_app, name="lab")
LabName = Annotated[str, typer.Argument(metavar="NAME", help="The lab's name.")]


def _labs_directory() -> Path:
    """`$XDG_STATE_HOME/provision/labs`: keys and known hosts of running labs."""
    base = os.environ.get("XDG_STATE_HOME", "")
    return (
        (Path(base) if base.startswith("/") else Path.home() / ".local" / "state")
        / "provision"
        / "labs"
    )


@lab_app.command("up")
def lab_up(
    name: LabName = "lab",
    hosts: Annotated[int, typer.Option("--hosts", metavar="N", help="How many.", min=1)] = 2,
    gpus: Annotated[
        int, typer.Option("--gpus", metavar="N", help="Simulated GPUs per host.", min=0)
    ] = 2,
    gpu_name: Annotated[
        str, typer.Option("--gpu-name", metavar="NAME", help="Their model.")
    ] = "Tesla T4",
    gpu_memory: Annotated[
        int | None,
        typer.Option("--gpu-memory", metavar="MIB", help="Per GPU; by default the model's."),
    ] = None,
    driver_version: Annotated[
        str | None,
        typer.Option(
            "--driver-version",
            metavar="VERSION",
            help="What the simulated driver says; by default the platform's.",
        ),
    ] = None,
    platform: Annotated[
        str, typer.Option("--platform", metavar="ID", help="The hosts' system.")
    ] = "debian11",
    no_gpu: Annotated[bool, typer.Option("--no-gpu", help="Hosts without any GPU.")] = False,
    group: Annotated[
        str, typer.Option("--group", metavar="NAME", help="The inventory's group.")
    ] = example.GROUP,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the inventory there."),
    ] = None,
) -> None:
    """Start a lab and print its inventory."""
    lab = locallab.up(
        name,
        state_dir=_labs_directory() / name,
        count=hosts,
        gpus=gpus,
        gpu_name=gpu_name,
        gpu_memory_mib=gpu_memory,
        driver_version=driver_version,
        platform=platform,
        with_gpu=not no_gpu,
        keep=True,
        progress=lambda text: err.print(text, markup=False),
    )
    data = yaml_text.dump(lab.inventory(group))
    if output is None:
        sys.stdout.write(data.decode())
    else:
        tree.write_file(output, data)
        err.print(f"{output}: written", markup=False)


@lab_app.command("down")
def lab_down(name: LabName = "lab") -> None:
    """Remove a lab."""
    if locallab.down(name, progress=lambda text: err.print(text, markup=False)):
        _say(f"the lab {name} is gone")
    else:
        _say(f"there is no lab {name}")


@lab_app.command("status")
def lab_status(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="One lab; by default all.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say which labs are up."""
    found = locallab.status(name)
    if as_json:
        _print_json([{"name": lab.name, "run": lab.run, "hosts": lab.hosts} for lab in found])
        return
    for lab in found:
        for host, address in lab.hosts.items():
            _say(f"{lab.name}  {host}  {address or 'not running'}")
    if not found:
        _say(f"there is no lab {name}" if name else "no lab is up")


roles_app = typer.Typer(hidden=True, no_args_is_help=True)
app.add_typer(roles_app, name="roles")


@roles_app.command("sync")
def roles_sync(
    check: Annotated[bool, typer.Option("--check", help="Exit 5 if anything differs.")] = False,
) -> None:
    """Write what is rendered of the collection, and inventories/lab."""
    base = collection.root()
    generated = playbooks()
    generated |= {
        f"inventories/{path}": data
        for path, data in example.render("lab").items()
        if path.startswith("lab/")
    }
    for role in ROLES:
        files = spec.render(role)
        page = f"roles/{role.name}/README.md"
        text = (base / page).read_text(encoding="utf-8") if (base / page).exists() else ""
        files[page] = spec.readme(role, text or f"# {role.name}\n").encode()
        generated |= files
    stale = []
    for path, data in generated.items():
        target = base / path
        if not target.exists() or target.read_bytes() != data:
            stale.append(path)
            if not check:
                tree.write_file(target, data)
    for path in stale:
        _say(path)
    if check and stale:
        raise typer.Exit(5)


def main() -> None:
    """The program: one message and the documented exit code for every failure."""
    ending.prepare()
    ending.leave(_run_app())


def _run_app() -> int:
    """The exit code; what is to be said about it is said."""
    arguments = [a for a in sys.argv[1:] if a != "--traceback"]
    try:
        code = app(args=arguments, prog_name="provision", standalone_mode=False)
    except ProvisionError as error:
        return _refuse(error)
    except KeyboardInterrupt:
        err.print("interrupted", markup=False)
        return ending.INTERRUPTED
    except Exception as error:
        known = ending.cause(error)
        if known is not None and "--traceback" not in sys.argv:
            return _refuse(known)
        return _bug(error, shown="--traceback" in sys.argv)
    return code if isinstance(code, int) else 0


def _refuse(error: ProvisionError) -> int:
    _say(f"error: {error}", err)
    return error.exit_code


def _bug(error: Exception, *, shown: bool) -> int:
    """Usage errors exit 2; anything else is ours and exits 1."""
    if type(error).__name__ == "Abort":
        err.print("interrupted", markup=False)
        return ending.INTERRUPTED
    # Errors of typer are click's or, in newer versions, copies: known by what they can do.
    show = getattr(error, "show", None)
    if callable(show):
        show()
        return 2
    text = "".join(traceback.format_exception(error))
    if shown:
        err.print(text, markup=False)
        return 1
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="provision-", suffix=".traceback", delete=False, encoding="utf-8"
        ) as handle:
            handle.write(text)
        place = f"the traceback is in {handle.name}"
    except OSError:
        place = f"the traceback can't be written to a file:\n{text}"
    err.print(
        f"error: a fault of provision itself ({type(error).__name__}: {error}); {place}",
        markup=False,
    )
    return 1


if __name__ == "__main__":
    main()
