"""What the plans of all hosts come to: asked once a batch, and of each host's variables once.

Ansible puts a host's variables together anew each time a template names the host: at a hundred
hosts two expressions over their plans cost more than one look at all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def all_settled(hosts: Iterable[Mapping[str, Any]]) -> bool:
    """Whether none of these hosts' plans has a component to change or a blocker."""
    plans = [host["gpu_plan"] for host in hosts if "gpu_plan" in host]
    return not any(plan.get("components") or plan.get("blockers") for plan in plans)


def all_proven(hosts: Iterable[Mapping[str, Any]]) -> bool:
    """Whether none of these hosts was changed, or is to be verified always."""
    return not any(
        ("gpu_plan" in host and host["gpu_plan"].get("components"))
        or ("gpu_verify" in host and host["gpu_verify"] == "always")
        for host in hosts
    )


class FilterModule:
    """Ansible's way to find them."""

    def filters(self) -> dict[str, Any]:
        return {"all_settled": all_settled, "all_proven": all_proven}
