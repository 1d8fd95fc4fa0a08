"""Refuses templates, vaulted values and numbers where data must be literal, as in wishes.

Every other value is Ansible's to evaluate.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from provision.errors import InputError

TEMPLATE = re.compile(r"\{\{|\{%|\{#")
VERSION = re.compile(r"[0-9]+(\.[0-9]+){0,3}")


class Untemplated(str):
    """A text with the marks of a template, which Ansible never reads as one."""

    __slots__ = ()


def untemplated(value: dict[str, Any]) -> Any:
    """The text of what Ansible's export marks as never templated; any other mapping as it is.

    It marks each string of an inventory plugin's, and those that are written with `!unsafe`.
    """
    text = value.get("__ansible_unsafe")
    if len(value) != 1 or not isinstance(text, str):
        return value
    return Untemplated(text) if TEMPLATE.search(text) else text


def no_template(where: str, key: str, example: str = "") -> InputError:
    """The error for a template in a wish or (with an `example`) in a fact."""
    kind = "facts" if example else "wishes"
    return InputError(
        f"{key} is a template; {kind} are literal, since the lock is made before any host is asked",
        where=where,
        expected=f"a literal, like {example}" if example else 'a literal, like "2.9"',
        hint="write it out, in the group or host that it is true of"
        if example
        else "write the version itself, in the group or host that should have it",
    )


def refuse_vaulted(value: Any, key: str, where: str) -> None:
    """InputError where a value, or one within it, is Ansible Vault's."""
    if isinstance(value, list):
        for item in value:
            refuse_vaulted(item, key, where)
    elif isinstance(value, Mapping):
        if "__ansible_vault" in value:
            raise InputError(
                f"{key} is vaulted; it stands in the clear, since lock.yml and each host's receipt "
                "show it",
                where=where,
                expected='a literal, like "2.9"',
                hint="write it without the vault: it is no secret",
            )
        for inner, item in value.items():
            refuse_vaulted(item, str(inner), where)


def is_template(value: object) -> bool:
    """Whether a value has a template or a vaulted value in it, whose type only Ansible knows."""
    if isinstance(value, str):
        return not isinstance(value, Untemplated) and bool(TEMPLATE.search(value))
    if isinstance(value, Mapping):
        return "__ansible_vault" in value or any(is_template(v) for v in value.values())
    if isinstance(value, list | tuple):
        return any(is_template(v) for v in value)
    return False


def version_text(value: Any, key: str, where: str) -> str:
    """A version as the user quoted it. InputError for a number, a template or another text."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InputError(
            f"{key} is not a version", where=where, got=json.dumps(value), expected=f'{key}: "2.9"'
        )
    if isinstance(value, int | float):
        raise InputError(
            f"{key} is a number, and a number is not a version (2.10 would be 2.1)",
            where=where,
            got=f"{key}: {value}",
            hint=f'quote it: {key}: "..."; unquoted, 2.10 and 2.1 are the same number',
        )
    if is_template(value):
        raise no_template(where, key)
    if not VERSION.fullmatch(value):
        raise InputError(
            f"{key} is not a version", where=where, got=repr(value), expected='digits as in "2.9"'
        )
    return value
