"""The few settings that belong to the run rather than to a component."""

from __future__ import annotations

from typing import Any, Literal

from provision.roles.base import Options, Role, Row, option


class SiteOptions(Options):
    """Public variables of site.yml."""

    gpu_serial: int | str = option(
        "100%",
        "How many hosts at once, as Ansible's `serial`: a number or a percentage. Only with -e.",
        run_only=True,
    )
    gpu_deep: bool = option(
        False, "Hash files instead of comparing sizes, times and links: slow, for suspicion."
    )
    gpu_verify: Literal["auto", "always", "never"] = option(
        "auto",
        "When to run the checks of verify/: on hosts that were changed, on all, on none.",
    )


def variables(_stack: str, _row: Row) -> dict[str, Any]:
    """The run has no identity."""
    return {}


ROLE = Role("site", "The run", SiteOptions, variables)
