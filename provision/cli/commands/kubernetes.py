"""`provision kubernetes`: manifests, Helm values and an image's files for a cluster of hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from provision import __version__, catalog, inputs, kubernetes, tree
from provision.cli import projects
from provision.cli.console import err, print_json, say, shell_word
from provision.cli.options import JsonOption, ProjectOption
from provision.errors import InputError

FOLDER = "kubernetes"
# Further than a ConfigMap takes, so that the message can say how large a script is.
_LIMIT = 64 << 20

ScriptOption = Annotated[
    Path | None,
    typer.Option("--script", metavar="FILE", help="Also manifests that train with this script."),
]
ImageOption = Annotated[
    str, typer.Option("--image", metavar="NAME@sha256:...", help="What its workers run in.")
]
StackOption = Annotated[
    str, typer.Option("--stack", metavar="NAME", help="One of the lock's.  [default: the only one]")
]
NameOption = Annotated[
    str, typer.Option("--name", help="Of the job.  [default: made of the script's]")
]
ArgumentOption = Annotated[
    list[str] | None,
    typer.Option("--argument", metavar="TEXT", help="For the script; may be given many times."),
]
ClaimOption = Annotated[
    str,
    typer.Option(
        "--claim",
        metavar="NAME",
        help="A PersistentVolumeClaim, mounted at /output.  [default: lost with the pod]",
    ),
]


def write_manifests(
    context: typer.Context,
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="A folder.  [default: kubernetes]")
    ] = None,
    project: ProjectOption = Path(),
    stack: StackOption = "",
    script: ScriptOption = None,
    image: ImageOption = "",
    name: NameOption = "",
    workers: Annotated[int, typer.Option("--workers", help="Pods that train together.")] = 1,
    gpus: Annotated[int, typer.Option("--gpus", help="Of each worker.")] = 1,
    arguments: ArgumentOption = None,
    claim: ClaimOption = "",
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 5 if a file would change.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Write what a Kubernetes cluster of the hosts needs.

    These are manifests, Helm values for NVIDIA's charts, and the files of an image.
    From the lock alone; no cluster is asked or touched. With --script also a TFJob and an Indexed
    Job that train with it.
    """
    _check_given(context, script)
    lock = projects.read_lock(project)
    chosen = kubernetes.choose(lock, stack, where=str(project / "lock.yml"))
    target = folder or project / FOLDER
    trees = {target: kubernetes.for_cluster(lock, catalog.load(), chosen)}
    if script is not None:
        wish = kubernetes.training(
            str(script),
            _read(script),
            image=image,
            name=name,
            workers=workers,
            gpus=gpus,
            arguments=arguments or (),
            claim=claim,
        )
        trees[target / "jobs" / wish.name] = kubernetes.for_training(chosen, wish)
    for root, files in trees.items():
        _check_folder(root, files)
    changes = {root: _settle(root, files, check) for root, files in trees.items()}
    _say(changes, check, as_json)
    if check and not all(change.empty for change in changes.values()):
        raise typer.Exit(5)


def _check_folder(root: Path, files: dict[str, bytes]) -> None:
    """InputError for a project, and where others' files have these names; ours have a manifest."""
    project = [name for name in ("lock.yml", "site.yml") if (root / name).exists()]
    if project:
        raise InputError(
            "this folder holds a project; nothing is written",
            where=str(root),
            got=", ".join(project),
            expected="a new folder, or one that `provision kubernetes` made",
            hint="`provision kubernetes DIR` names another",
        )
    if (root / tree.MANIFEST).exists():
        return
    theirs = [name for name in files if (root / name).exists()]
    if theirs:
        raise InputError(
            "this folder has files of somebody's where these are to be; nothing is written",
            where=str(root),
            got=", ".join(theirs[:5]),
            expected="a new folder, or one that `provision kubernetes` made",
            hint="`provision kubernetes DIR` names another",
        )


def _settle(root: Path, files: dict[str, bytes], check: bool) -> tree.Difference:
    if check:
        return tree.difference(root, files)
    return tree.write(root, files, version=__version__)


def _check_given(context: typer.Context, script: Path | None) -> None:
    """InputError for an option of a training without one: it would be ignored."""
    if script is not None:
        return
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        of_training = ("image", "name", "workers", "gpus", "arguments", "claim")
        if parameter.name in of_training and source is not None and source.name == "COMMANDLINE":
            raise InputError(f"{parameter.opts[0]} needs --script FILE")


def _read(script: Path) -> bytes:
    try:
        return inputs.read(script, limit=_LIMIT)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError("there is no such script", where=str(script)) from None


def _say(changes: dict[Path, tree.Difference], check: bool, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                str(root): {
                    "new": change.new,
                    "changed": change.changed,
                    "removed": change.removed,
                    "edited": change.edited,
                }
                for root, change in changes.items()
            }
        )
        return
    verb = "would be " if check else ""
    for root, change in changes.items():
        for path in change.edited:
            say(f"warning: {root / path} was edited; your version is {path}.yours", err)
        say(
            f"{root}: {len(change.new)} files {verb}new, {len(change.changed)} {verb}changed, "
            f"{len(change.removed)} {verb}removed"
        )
    if not check:
        first, *more = changes
        say(f"  {shell_word(first / 'README.md')} says what to do with them")
        for root in more:
            say(
                f"  kubectl apply --server-side -f {shell_word(root / 'script.yaml')} "
                f"-f {shell_word(root / 'job.yaml')}"
            )
