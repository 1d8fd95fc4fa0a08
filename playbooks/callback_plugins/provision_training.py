"""Loads a training's report wherever the collection's train.yml is run: see provision_report."""

from __future__ import annotations

from ansible import constants as C  # noqa: N812  as everywhere in Ansible
from ansible_collections.provision.gpu.plugins.callback import training

DOCUMENTATION = training.DOCUMENTATION


class CallbackModule(training.CallbackModule):  # type: ignore[misc]  # ansible has no types
    """The plugin, unless it is enabled by its name as well."""

    def __init__(self) -> None:
        super().__init__()
        self.disabled = "provision.gpu.training" in C.CALLBACKS_ENABLED
