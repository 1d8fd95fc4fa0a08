"""Which PCI device ids the words of gpu_models can mean, by a project's lock."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_stack.host import gpu_models

T4 = {"Tesla T4": ["1eb8"]}
A10 = {"NVIDIA A10": ["2236", "2237"]}


@pytest.mark.parametrize(
    ("lock", "meant"),
    [
        ({"rows": [{"models": T4}, {"models": A10}]}, {**T4, **A10}),
        # A row without models, as of a host whose models nobody has said.
        ({"rows": [{}, {"models": None}, {"models": A10}]}, {"Tesla T4": None, **A10}),
        ({"rows": None}, {"Tesla T4": None, "NVIDIA A10": None}),
        ({}, {"Tesla T4": None, "NVIDIA A10": None}),
        (None, {"Tesla T4": None, "NVIDIA A10": None}),
    ],
)
def test_a_word_means_what_the_locks_rows_say(lock: dict[str, Any] | None, meant: Any) -> None:
    assert gpu_models.named(lock, ["Tesla T4", "NVIDIA A10"]) == meant


@pytest.mark.parametrize("device", ["0x1eb8", "1eb8"])
def test_a_device_id_is_written_as_in_the_lock(device: str) -> None:
    assert gpu_models.bare(device) == "1eb8"
