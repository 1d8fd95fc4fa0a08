"""The host's options as the look and the checks have them."""

from __future__ import annotations

DOCUMENTATION = r"""
name: host_options
author: The provision authors (!UNKNOWN)
short_description: The host's options, set or by default
description:
  - Every option that the look compares, as the host's variables have it, else its default. Of an
    address with a login only an C(@) is left of the login.
"""

EXAMPLES = r"""
- ansible.builtin.debug:
    msg: "{{ lookup('provision.gpu.host_options').cuda_profile }}"
"""

RETURN = r"""
_raw:
  description: One dictionary of option and value.
  type: list
  elements: dict
"""

from typing import Any  # noqa: E402

from ansible.plugins.lookup import LookupBase  # noqa: E402
from ansible_collections.provision.gpu.plugins.plugin_utils import host_options  # noqa: E402


class LookupModule(LookupBase):  # type: ignore[misc]  # ansible has no types
    """Ansible's way to ask for them."""

    def run(
        self, _terms: Any, variables: dict[str, Any] | None = None, **_options: Any
    ) -> list[Any]:
        return [host_options.of_host(self._templar, variables or {})]
