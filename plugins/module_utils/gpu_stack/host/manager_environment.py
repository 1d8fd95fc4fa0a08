"""The environment that systemd's manager gives to units, beside what its settings file says."""

from __future__ import annotations

from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Iterable

    from .context import Context


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
