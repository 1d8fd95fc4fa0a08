"""The environment that systemd's manager gives to units, beside what its settings file says."""

from __future__ import annotations

from ..type_checking import TYPE_CHECKING
from .context import Context
from .refusal import RefusalError

if TYPE_CHECKING:
    from typing import Any, Iterable


def look(context: Context) -> str | None:
    """What systemd gives to units, as systemctl prints it; None where no systemd answers."""
    result = context.run(["systemctl", "show", "--property=Environment", "--value"])
    return result.out.strip() if result.rc == 0 else None


def unread(manager: str, wished: Iterable[tuple[str, str]]) -> list[str]:
    """Names of the variables that systemd does not give to units with their values.

    `manager`: its property Environment. systemctl puts a setting with blanks in double quotes,
    which no value of ours may hold.
    """
    settings = f" {manager} ".replace('"', " ")
    return [name for name, value in wished if f" {name}={value} " not in settings]


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """The result of the module `manager_environment`; RefusalError."""
    context = Context()
    manager = look(context)
    if manager is None:
        return {"changed": False, "unread": []}
    names = unread(manager, params["variables"])
    changed = bool(params["renewed"] or names)
    if changed and not check_mode:
        answer = context.run(["systemctl", "daemon-reexec"])
        if answer.rc != 0:
            raise RefusalError(f"systemctl daemon-reexec failed: {answer.err.strip()}")
    return {"changed": changed, "unread": names}
