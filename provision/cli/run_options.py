"""The options of a run of the tree's playbook, defined once for every command that runs it.

Typer reads a command's options from its signature, so each command would repeat the same dozen of
lines. `takes_run_options` adds them to the signature.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from provision import run
from provision.cli.options import InventoryOption, JsonOption, ProjectOption, VaultOption

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


@dataclass(frozen=True)
class RunRequest:
    """The options of a command that runs the tree's playbook."""

    project: Path
    options: run.Options
    verbose: bool
    as_json: bool

    @property
    def quiet(self) -> bool:
        """Whether Ansible's output goes to its log alone."""
        return self.as_json or not (self.verbose or self.options.ask_become_pass)


def run_request(
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
) -> RunRequest:
    """The request of one command line; its parameters are the options, in the order of `--help`."""
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
    return RunRequest(project, options, verbose=ansible_output, as_json=as_json)


def _split(values: list[str] | None) -> list[str]:
    return [part for value in values or [] for part in value.split(",") if part]


def takes_run_options(
    *, without: Collection[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator that adds the options of a run to a command, which gets them as `request`.

    In `--help` they are in the place of `request` in the signature. Options in `without`
    (parameters of `run_request`) are left out and have their defaults.
    """
    shared = {
        name: parameter
        for name, parameter in inspect.signature(run_request, eval_str=True).parameters.items()
        if name not in without
    }

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        parameters: list[inspect.Parameter] = []
        for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
            parameters += shared.values() if name == "request" else [parameter]

        @functools.wraps(command)
        def with_request(**values: Any) -> None:
            request = run_request(**{name: values.pop(name) for name in shared})
            command(request=request, **values)

        # Typer reads these. All are keyword-only, so that their order is free.
        by_name = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
        with_request.__signature__ = inspect.Signature(by_name)  # type: ignore[attr-defined]
        with_request.__annotations__ = {p.name: p.annotation for p in by_name}
        return with_request

    return decorate
