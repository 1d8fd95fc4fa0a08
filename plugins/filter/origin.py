"""Which configuration apt is given, by the environment of a run's play."""

from __future__ import annotations

from typing import Any

from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host import origin


def apt_configuration(bundle: Any) -> str:
    """The value of APT_CONFIG: the run's own configuration, or "" where there is no bundle."""
    return origin.CONFIGURATION if bundle else ""


class FilterModule:
    """Ansible's way to find it."""

    def filters(self) -> dict[str, Any]:
        return {"apt_configuration": apt_configuration}
