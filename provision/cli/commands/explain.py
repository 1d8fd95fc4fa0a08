"""`provision explain`: what a variable means, and why a host gets its stack."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from provision import catalog, inventory, resolve
from provision.cli import projects
from provision.cli.console import print_json, say
from provision.cli.options import InventoryOption, JsonOption, ProjectOption, VaultOption
from provision.errors import InputError, UnsatisfiableError
from provision.inventory import discover
from provision.models import HostFacts, Reason, plain
from provision.roles import ALL, ROLES, all_options
from provision.roles.base import Option


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
    _explain_options(
        word, list(chosen.values()), _reasons_in_lock(project, chosen), as_json=as_json
    )


def _reasons_in_lock(project: Path, options: Mapping[str, Option]) -> dict[str, dict[str, str]]:
    """Stack -> component -> reason, from the lock, for the components of these options."""
    if not (project / "lock.yml").exists():
        return {}
    details = projects.read_lock(project).details["reasons"]
    components = {option.role for option in options.values()}
    return {
        stack: {component: why for component, why in parts.items() if component in components}
        for stack, parts in details.items()
    }


def _explain_options(
    word: str,
    options: Sequence[Option],
    reasons: Mapping[str, Mapping[str, str]],
    *,
    as_json: bool,
) -> None:
    if as_json:
        print_json({"options": [_described(option) for option in options], "reasons": reasons})
        return
    if word in inventory.WISH_WORDS:
        _explain_wish(word, as_json=False)
    for option in options:
        described = _described(option)
        say(f"{option.name} ({described['type']}, {described['set_by']})")
        say(f"  {option.description}")
        if option.choices:
            say(f"  one of: {', '.join(option.choices)}")
        if option.public:
            say(f"  default: {json.dumps(option.default)}")
        if option.wish:
            say(f"  to change it: {option.wish}")
    for stack, parts in reasons.items():
        if parts:
            say(f"in lock.yml, for {stack}:")
        for component, why in parts.items():
            say(f"  {component}: {why}")


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


def _explain_wish(word: str, *, as_json: bool) -> None:
    """Prints the words of `gpu_stack`, or one of them."""
    keys = inventory.WISH_WORDS
    chosen = keys if word == inventory.WISH else {word: keys[word]}
    if as_json:
        wish = {
            name: {"example": example, "description": text}
            for name, (example, text) in chosen.items()
        }
        print_json({"wish": wish})
        return
    if word == inventory.WISH:
        say(f"{word}: what the hosts of a group shall become; `provision lock` makes it exact")
    for name, (value, text) in chosen.items():
        say(f"{inventory.WISH}: {{{name}: {value}}}")
        say(f"  {text}")


def _fleet_if_any(
    project: Path, inventories: list[str] | None, vault_password_file: Path | None
) -> inventory.Fleet | None:
    """The project's fleet; None without an inventory, unless one is named."""
    if not inventories and not (project / "lab").exists():
        return None
    return projects.read_fleet(
        project, inventories, vault_password_file=vault_password_file, quiet=True
    )


def _explain_host(
    name: str, project: Path, fleet: inventory.Fleet | None, *, as_json: bool
) -> None:
    """Prints a host's facts, its stack and the reasons. InputError for a host without a wish."""
    if fleet is None or name not in fleet.hosts:
        raise _no_host_of_ours(name, fleet)
    facts = fleet.facts.get(name, HostFacts())
    described = _facts_as_json(name, facts, fleet)
    try:
        explained = resolve.explain(catalog.load(), fleet, name)
    except UnsatisfiableError as error:
        if as_json:
            print_json({**described, "stacks": [], "refusal": str(error)})
            raise typer.Exit(error.exit_code) from None
        _tell_host(described)
        raise
    if as_json:
        stacks = [_stack_as_json(project, row) for row in explained]
        print_json({**described, "stacks": stacks, "refusal": None})
        return
    _tell_host(described)
    if facts.platform is None and len(explained) > 1:
        say("  what it gets depends on its platform:")
    for row in explained:
        _tell_stack(project, row)


def _no_host_of_ours(name: str, fleet: inventory.Fleet | None) -> InputError:
    """The error for a name that is no variable, no component and no host with a wish."""
    if fleet is not None and name in fleet.other_hosts:
        return InputError(
            f"{name} has no gpu_stack, and is left alone",
            expected='gpu_stack: {tensorflow: "2.9"} in one of its groups, or for itself',
        )
    hosts = list(fleet.hosts) if fleet else []
    keys = [inventory.WISH, *inventory.WISH_WORDS]
    names = [*keys, *all_options(), *(role.name for role in ALL), *hosts]
    near = inventory.did_you_mean(name, names) or "`provision explain` lists the variables"
    kinds = "variable, component or host" if fleet else "variable or component"
    return InputError(f"no {kinds} {name!r}", hint=near)


def _stack_as_json(project: Path, row: resolve.Explained) -> dict[str, Any]:
    return {
        "platform": row.choice.platform.id,
        "stack": row.choice.stack.id,
        "generations": list(row.choice.generations),
        "reasons": {reason.component: reason.text for reason in row.reasons},
        "warnings": list(row.warnings),
        "beside": [
            {
                "stack": stack.id,
                "reasons": {reason.component: reason.text for reason in stack.reasons},
                "warnings": list(stack.warnings),
            }
            for stack in row.choice.beside
        ],
        "locked": _is_locked(project, row.choice),
    }


def _tell_stack(project: Path, row: resolve.Explained) -> None:
    say(f"  {row.choice.stack.id}")
    if row.choice.generations:
        gpus = " and ".join(row.choice.generations)
        say(f"    for GPUs of {gpus} only: others with this wish get another stack")
    _tell_reasons(row.reasons, row.warnings)
    for stack in row.choice.beside:
        say(f"  beside it: {stack.id}")
        _tell_reasons(stack.reasons, stack.warnings)
    if _is_locked(project, row.choice) is False:
        say("    lock.yml has another for it: `provision lock`")


def _tell_reasons(reasons: Sequence[Reason], warnings: Sequence[str]) -> None:
    for reason in reasons:
        say(f"    {reason.component}: {reason.text}")
    for warning in warnings:
        say(f"    warning: {warning}")


def _is_locked(project: Path, choice: resolve.Choice) -> bool | None:
    """Whether lock.yml has this stack for the choice's hosts; None without a lock."""
    if not (project / "lock.yml").exists():
        return None
    platform = choice.platform.platform.as_data()
    wish = plain(choice.wish.literal)
    return any(
        row["platform"] == platform
        and row["wish"] == wish
        and row.get("generations", []) == list(choice.generations)
        and row["stack"].startswith(choice.stack.begins)
        for row in projects.read_lock(project).slim["rows"]
    )


def _facts_as_json(name: str, facts: HostFacts, fleet: inventory.Fleet) -> dict[str, Any]:
    """What is known of a host, and the sources."""

    def place(word: str, owner: str) -> str:
        return (fleet.sources.where(word, near=owner) or owner) if owner != discover.FILE else owner

    return {
        "host": name,
        "platform": facts.platform,
        "system": facts.system,
        "platform_from": place(inventory.PLATFORM, facts.platform_from),
        "gpus": [
            {"name": gpu.name, "generation": gpu.generation, "capability": gpu.capability}
            for gpu in resolve.gpus_of(facts, catalog.load())
        ],
        "unknown_gpus": list(facts.unknown),
        "gpus_from": place(inventory.MODELS, facts.gpus_from),
        "wish": plain(fleet.hosts[name].literal),
        "wish_from": place(inventory.WISH, fleet.owners.get(name, "")),
    }


def _tell_host(host: Mapping[str, Any]) -> None:
    say(host["host"])
    titles = {row.id: row.title for row in catalog.load().platforms}
    unknown = "not known; `provision discover` asks it, or write "
    platform = titles.get(host["platform"]) or host["system"]
    say(f"  platform: {platform}, from {host['platform_from']}" if platform
         else f"  platform: {unknown}gpu_platform")  # fmt: skip
    gpus = [f"{gpu['name']} ({gpu['generation']}, compute capability {gpu['capability']})"
            for gpu in host["gpus"]]  # fmt: skip
    gpus += [f"{identity} (not in the catalog)" for identity in host["unknown_gpus"]]
    if gpus:
        say(f"  GPUs: {', '.join(gpus)}, from {host['gpus_from']}")
    else:
        none = f"none, from {host['platform_from']}"
        discovered = host["platform_from"] == discover.FILE
        say(f"  GPUs: {none if discovered else unknown + 'gpu_models'}")
    say(f"  gpu_stack: {json.dumps(host['wish'])}, from {host['wish_from']}")
