"""meta/argument_specs.yml and defaults/main.yml of the Ansible roles, from the typed options.

One source for both: Ansible checks types by the spec but never applies its defaults, so a default
that is only there, or differs, would be documented and wrong.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Sequence
from typing import Any

from provision.roles.base import Option, Role
from provision.yaml_text import dump

_GENERATED = "Rendered from provision/roles/{name}.py by `provision roles sync`; edit that."


def argument_spec(role: Role) -> dict[str, Any]:
    """The spec as data."""
    return {
        "argument_specs": {
            "main": {
                "short_description": role.title,
                "options": {option.name: _option(option) for option in role.options},
            }
        }
    }


def _option(option: Option) -> dict[str, Any]:
    kind, elements = option.spec_type()
    spec: dict[str, Any] = {"type": kind}
    if elements:
        spec["elements"] = elements
    if option.choices:
        spec["choices"] = option.choices
    spec["default"] = option.default
    spec["description"] = option.description
    return spec


def defaults(role: Role) -> bytes:
    """defaults/main.yml: every option with its description as comment."""
    blocks = [f"# {_GENERATED.format(name=role.name)}\n---\n"]
    for option in role.options:
        comment = textwrap.fill(option.description, 98, initial_indent="# ", subsequent_indent="# ")
        value = f"{{{{ {option.planned} }}}}" if option.planned else option.default
        body = dump({option.name: value}).decode().removeprefix("---\n")
        if not option.name.startswith(f"{role.name}_"):
            # A list named by the role's plural.
            body = body.rstrip("\n") + " # noqa: var-naming[no-role-prefix]\n"
        blocks.append(f"{comment}\n{body}")
    return (blocks[0] + "\n".join(blocks[1:])).encode()


TABLE = re.compile(r"^\| option \|[^\n]*\n(?:\|[^\n]*\n?)*", re.MULTILINE)


def table(role: Role) -> str:
    """The options as a Markdown table."""
    lines = ["| option | default | |", "|---|---|---|"]
    for option in role.options:
        default = option.default
        shown = default if isinstance(default, str) and default else json.dumps(default)
        text = option.description
        if option.choices:
            text += f" One of: {', '.join(option.choices)}."
        if option.identity:
            text += " In a rendered project the lock decides it."
        lines.append(f"| `{option.name}` | `{shown}` | {text.replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


def readme(role: Role, text: str) -> str:
    """A role's README with its table of options replaced, or added where it has none."""
    if TABLE.search(text):
        return TABLE.sub(lambda _: table(role), text, count=1)
    return text.rstrip("\n") + "\n\n## Options\n\n" + table(role)


def looked_at(roles: Sequence[Role]) -> bytes:
    """The default of every option that the look compares, as JSON for plugins and checks."""
    defaults = {
        option.name: option.default for role in roles for option in role.options if option.looked_at
    }
    return (json.dumps(defaults, indent=2) + "\n").encode()


def render(role: Role) -> dict[str, bytes]:
    """The two generated files of a role, by their path in the tree (and in the repository)."""
    return {
        f"roles/{role.name}/meta/argument_specs.yml": dump(
            argument_spec(role), header=_GENERATED.format(name=role.name)
        ),
        f"roles/{role.name}/defaults/main.yml": defaults(role),
    }
