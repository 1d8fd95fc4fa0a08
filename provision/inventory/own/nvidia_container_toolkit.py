"""The wish for NVIDIA's container toolkit."""

from __future__ import annotations

from typing import Any

from provision.errors import InputError
from provision.inventory.literals import version_text

WORD = "container_toolkit"
EXAMPLE = "true"
MEANING = "NVIDIA's container toolkit: true for the newest, or a version."
COMMENT = "What lets docker give GPUs to containers, from NVIDIA:"


def wished(value: Any, where: str) -> str:
    """The wished version; "" (`true`) for the newest."""
    if value is True:
        return ""
    if value is False:
        raise InputError(
            "container_toolkit: false wishes for nothing",
            where=where,
            expected='container_toolkit: true, or a version: container_toolkit: "1.17"',
            hint="leave the word out",
        )
    return version_text(value, WORD, where)
