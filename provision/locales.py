"""A locale that Ansible accepts, whatever the shell, cron or `ssh -o SendEnv` has set.

Ansible refuses to start where LANG or LC_ALL name a locale that this machine does not have, and
under LC_ALL=C, with a message that reads like a fault of the inventory.
"""

from __future__ import annotations

import functools
import locale
from collections.abc import Mapping

from provision.errors import MachineError

# C.UTF-8 is in every glibc of the last years, and in Debian's and Ubuntu's for longer.
FALLBACKS = ("C.UTF-8", "C.utf8", "en_US.UTF-8")


def with_utf8(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment, with LC_ALL set where this process's locale is not UTF-8.

    MachineError where this machine has no UTF-8 locale.
    """
    name = _fallback()
    return {**environment, "LC_ALL": name} if name else dict(environment)


@functools.cache
def _fallback() -> str:
    """The locale to set; "" where the user's own is UTF-8."""
    before = locale.setlocale(locale.LC_ALL)
    try:
        for name in ("", *FALLBACKS):
            if _is_utf8(name):
                return name
    finally:
        locale.setlocale(locale.LC_ALL, before)
    raise MachineError(
        "Ansible needs a UTF-8 locale, and this machine has none",
        expected=" or ".join(FALLBACKS),
        hint="install the locales: on Debian and Ubuntu `apt install locales`; `locale -a` lists "
        "those that are there",
    )


def _is_utf8(name: str) -> bool:
    """Whether Ansible would start with a locale: the same check as its `initialize_locale`."""
    try:
        locale.setlocale(locale.LC_ALL, name)
        return (locale.getlocale()[1] or "").lower() in ("utf-8", "utf8")
    except (locale.Error, ValueError):
        return False
