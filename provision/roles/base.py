"""The generator's side of a role: its typed public options, and the variables a stack gives it.

The options are written once, here, and everything a user meets is rendered from them: the Ansible
role's argument spec, its defaults, the README's table, the comments of `provision init`. Ansible
never applies the defaults of an argument spec, so two hand-written copies would drift unnoticed.

The string below a field is its description.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from provision.registry import TITLES

# Of the roles that are no components.
_TITLES = {"artifact_cache": "Artifact cache"}

Row = Mapping[str, Mapping[str, Any]]  # component -> its part of a stack in the lock


class Options(BaseModel):
    """Base of every role's options; one field per public variable, with its real name."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)


def option(
    default: Any,
    *,
    description: str | None = None,
    identity: bool = False,
    looked_at: bool = False,
    repair: bool = False,
    internal: bool = False,
    path: bool = False,
    run_only: bool = False,
    planned: str = "",
    wish: str = "",
    example: str = "",
    reads: Callable[[object], str | None] | None = None,
) -> Any:
    """A public variable.

    description: one that several roles share; else the string below the field.
    identity:  decided by the lock; refused in an inventory, with `wish` to write instead.
    looked_at: part of what the look compares, so site.yml hands it to `gpu_state`.
    repair:    the plan may fill it for one run (packages to install again).
    planned:   an expression in place of the default in the role's defaults: the value from
               site.yml's look or from another role's option.
    internal:  documented, but not for inventories.
    path:      a file or directory name (`type: path` in the argument spec).
    run_only:  a setting of one run (-e); Ansible would not read it from an inventory.
    reads:     returns what is wrong with a value of the right type, or None.
    """
    extra: dict[str, Any] = {
        "identity": identity,
        "wish": wish,
        "looked_at": looked_at,
        "planned": planned,
        "repair": repair,
        "internal": internal or repair,
        "run_only": run_only,
        "path": path,
        "example": example,
        "reads": reads,
    }
    return Field(default, description=description, json_schema_extra=extra)


State = Literal["present", "absent"]


def state() -> Any:
    """Whether the component is there."""
    return option("present", looked_at=True)


@dataclass(frozen=True)
class Option:
    """One public variable of a role, as the renderers see it."""

    role: str
    name: str
    field: FieldInfo

    @property
    def _annotation(self) -> Any:
        return self.field.annotation

    def _extra(self, key: str) -> Any:
        extra = self.field.json_schema_extra
        return extra[key] if isinstance(extra, dict) else None

    @property
    def identity(self) -> bool:
        """Decided by the lock."""
        return bool(self._extra("identity"))

    @property
    def looked_at(self) -> bool:
        """Handed to the look."""
        return bool(self._extra("looked_at"))

    @property
    def repair(self) -> bool:
        """Filled by the plan."""
        return bool(self._extra("repair"))

    @property
    def planned(self) -> str:
        """The expression in the role's defaults; "" where those have the default itself."""
        if self.repair:
            return f"gpu_plan.repairs.{self.role}.{self.name} | default({self.default!r})"
        return str(self._extra("planned") or "")

    @property
    def public(self) -> bool:
        """Whether a user may set it in an inventory."""
        return not (self.identity or self.run_only or self._extra("internal"))

    @property
    def run_only(self) -> bool:
        """Given with -e alone."""
        return bool(self._extra("run_only"))

    @property
    def wish(self) -> str:
        """What to write in gpu_stack instead, for an identity option."""
        return str(self._extra("wish") or "")

    @property
    def example(self) -> str:
        """An example as YAML; "" where the default is enough."""
        return str(self._extra("example") or "")

    @property
    def default(self) -> Any:
        """The default, as plain data."""
        return self.field.get_default(call_default_factory=True)

    @property
    def description(self) -> str:
        """One or two sentences."""
        return " ".join((self.field.description or "").split())

    @property
    def choices(self) -> list[str]:
        """Allowed words of a closed choice, else empty."""
        annotation = self._annotation
        return list(get_args(annotation)) if get_origin(annotation) is Literal else []

    def spec_type(self) -> tuple[str, str]:
        """Ansible's (type, elements) of the annotation."""
        annotation = self._annotation
        origin = get_origin(annotation)
        if self._extra("path"):
            return "path", ""
        if origin is Literal:
            return "str", ""
        if origin is list:
            return "list", _scalar(get_args(annotation)[0])
        if origin is dict or annotation is dict:
            return "dict", ""
        return _scalar(annotation), ""

    def fault(self, value: object) -> str | None:
        """What is wrong with a literal value of an inventory, or None."""
        adapter = _adapter(self._annotation)
        if isinstance(value, bool) and str(value).lower() in self.choices:
            return None  # YAML reads the word as a truth value, and Ansible makes it the word again
        try:
            adapter.validate_python(_lenient(value, self.spec_type()[0]), strict=True)
        except ValidationError as error:
            expected = " or ".join(self.choices) or _in_words(*self.spec_type())
            shown = "a value of another type" if isinstance(value, dict | list) else repr(value)
            del error  # its text repeats the value, which may be long or private
            return f"{shown} is not {expected}"
        reads = self._extra("reads")
        return reads(value) if callable(reads) else None


def port(value: object) -> str | None:
    """Why a value is no port of a server; None where it is one."""
    fit = isinstance(value, int) and 0 < value < 65536
    return None if fit else f"{value!r} is no port; expected a number from 1 to 65535"


@functools.cache
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    """Cached by type: a fleet can set one option on each of 10,000 hosts."""
    return TypeAdapter(annotation)


def _scalar(annotation: Any) -> str:
    if get_origin(annotation) in {Union, types.UnionType}:
        return "raw"
    return {str: "str", int: "int", bool: "bool", float: "float", dict: "dict"}.get(
        annotation, "raw"
    )


def _lenient(value: object, kind: str) -> object:
    """A string of an INI inventory as the type that Ansible converts it to."""
    if kind == "bool" and isinstance(value, str) and value.lower() in {"yes", "true", "on"}:
        return True
    if kind == "bool" and isinstance(value, str) and value.lower() in {"no", "false", "off"}:
        return False
    if kind == "int" and isinstance(value, str) and value.isdigit():
        return int(value)
    return value


def _in_words(kind: str, elements: str) -> str:
    names = {
        "str": "a string",
        "path": "a path",
        "int": "a whole number",
        "bool": "true or false",
        "dict": "a mapping",
        "list": f"a list of {elements or 'values'}",
    }
    return names.get(kind, kind)


@dataclass(frozen=True)
class Role:
    """The generator's side of one component: its options are its Ansible role's variables."""

    name: str
    options_model: type[Options]
    variables: Callable[[str, Row], dict[str, Any]]
    """(stack id, row) -> the identity variables that a rendered stack file sets."""

    @property
    def title(self) -> str:
        """Its name for people; the run itself is no component."""
        return TITLES.get(self.name) or _TITLES.get(self.name, "The run")

    @property
    def options(self) -> list[Option]:
        """All public variables, in the order they are written."""
        return [Option(self.name, n, f) for n, f in self.options_model.model_fields.items()]
