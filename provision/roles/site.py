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
    gpu_platform: str = option(
        "",
        "What the host's system is, where you know it before the host is asked: the lock is then "
        "made for just that, and a run refuses a host that is another. Without it `provision "
        "discover` asks, or the lock serves every platform that can have the wish.",
        looked_at=True,
        example="debian12",
    )
    gpu_models: list[str] = option(
        [],
        "The host's kinds of GPU, by name or PCI id, where you know them before the host is asked: "
        "the lock's driver then drives them, and a run refuses a host that has others.",
        looked_at=True,
        example='["Tesla T4", "10de:20b0"]',
    )
    gpu_verify: Literal["auto", "always", "never"] = option(
        "auto",
        "When to run the checks of verify/: on hosts that were changed, on all, on none.",
    )


def variables(_stack: str, _row: Row) -> dict[str, Any]:
    """The run has no identity."""
    return {}


ROLE = Role("site", "The run", SiteOptions, variables)
