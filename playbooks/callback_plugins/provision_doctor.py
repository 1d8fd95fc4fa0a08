"""Loads the doctor's report wherever the collection's doctor.yml is run: see provision_report."""

from __future__ import annotations

from ansible import constants as C  # noqa: N812  as everywhere in Ansible
from ansible_collections.provision.gpu.plugins.callback import doctor

DOCUMENTATION = doctor.DOCUMENTATION


class CallbackModule(doctor.CallbackModule):  # type: ignore[misc]  # ansible has no types
    """The plugin, unless it is enabled by its name as well."""

    def __init__(self) -> None:
        super().__init__()
        self.disabled = "provision.gpu.doctor" in C.CALLBACKS_ENABLED
