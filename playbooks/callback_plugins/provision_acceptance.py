"""Loads the report of an acceptance wherever the collection's accept.yml is run."""

from __future__ import annotations

from ansible import constants as C  # noqa: N812  as everywhere in Ansible
from ansible_collections.provision.gpu.plugins.callback import acceptance

DOCUMENTATION = acceptance.DOCUMENTATION


class CallbackModule(acceptance.CallbackModule):  # type: ignore[misc]  # ansible has no types
    """The plugin, unless it is enabled by its name as well."""

    def __init__(self) -> None:
        super().__init__()
        self.disabled = "provision.gpu.acceptance" in C.CALLBACKS_ENABLED
