"""A host's options: the inventory's values, and the defaults of the rest.

Ansible applies neither a role's defaults nor its argument spec to a task of ours. The defaults
come from options.json, which `provision roles sync` renders from the typed options in
provision/roles/, the only place where a default is written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError, AnsibleUndefinedVariable
from ansible.module_utils.parsing.convert_bool import boolean

# {option: its default}, of every option that the look compares, and the connection.
DEFAULTS: dict[str, Any] = {
    **json.loads((Path(__file__).parent / "options.json").read_text(encoding="utf-8")),
    "ansible_connection": "ssh",
}

# Options that hold an address, alone or among others. The look needs to know only that there is a
# login in it, and Ansible shows a module's arguments with -vvv.
ADDRESSES = re.compile(r"_(mirror|url|repository)$")
LOGIN = re.compile(r"//[^/ ]*@")


def plain(value: Any) -> Any:
    """The value as plain JSON types: templating returns strings and lists of Ansible's own."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return "".join(str(value))


def without_login(value: Any) -> Any:
    """The value with each address' user and password cut down to an @."""
    if isinstance(value, dict):
        return {key: without_login(item) for key, item in value.items()}
    return LOGIN.sub("//@", value) if isinstance(value, str) else value


def typed(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with switches as bool and numbers as int, as their defaults are.

    `-e` gives text, as "no". AnsibleError where a number is none.
    """
    values = dict(options)
    for name, value in options.items():
        default = DEFAULTS.get(name)
        if not isinstance(value, str):
            continue
        if isinstance(default, bool):
            values[name] = boolean(value, strict=False)
        elif isinstance(default, int):
            try:
                values[name] = int(value)
            except ValueError:
                message = f"{name} is {value!r}; expected a whole number, as {default}"
                raise AnsibleError(message) from None
    return values


def of_host(
    templar: Any, task_vars: Mapping[str, Any], names: Iterable[str] = DEFAULTS
) -> dict[str, Any]:
    """{option: value} of these names, or of all: the host's value, else the default."""
    options = {name: DEFAULTS[name] for name in names}
    for name in options:
        if name not in task_vars:
            continue
        try:
            value = plain(templar.template(task_vars[name]))
        except AnsibleUndefinedVariable:  # as with the filter `default`
            continue
        options[name] = without_login(value) if ADDRESSES.search(name) else value
    return typed(options)
