"""A host's options as the action plugins and lookups have them: typed as their defaults are."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleError
from ansible_collections.provision.gpu.plugins.plugin_utils import host_options


class Templar:
    """Hands out what it gets: the values of these tests are no templates."""

    @staticmethod
    def template(value: Any) -> Any:
        return value


def test_text_from_the_command_line_means_what_it_says() -> None:
    options = {
        "cuda_hold": "no",
        "nvidia_driver_reboot": "True",
        "gpu_front_door_port": "8443",
        "gpu_front_door_redirect": "no",
        "cuda_profile": "no",
        "x": "no",
    }
    assert host_options.typed(options) == {
        "cuda_hold": False,
        "nvidia_driver_reboot": True,
        "gpu_front_door_port": 8443,
        "gpu_front_door_redirect": False,
        "cuda_profile": "no",
        "x": "no",
    }


def test_values_of_their_own_type_stay() -> None:
    options = {"cuda_hold": False, "gpu_front_door_port": 8443, "cuda_apt_components": ["main"]}
    assert host_options.typed(options) == options


def test_a_number_that_is_none_is_named() -> None:
    with pytest.raises(AnsibleError, match="gpu_front_door_port is 'https'; expected a whole"):
        host_options.typed({"gpu_front_door_port": "https"})


def test_the_hosts_values_are_typed_and_the_others_defaults() -> None:
    options = host_options.of_host(Templar, {"cuda_hold": "no"})
    assert options["cuda_hold"] is False
    assert options["nvidia_driver_hold"] is True
    assert set(options) == set(host_options.DEFAULTS)
