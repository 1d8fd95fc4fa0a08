"""Code that a GPU runs only translated asks for a driver that can translate it."""

from __future__ import annotations

import pytest

from provision.errors import UnsatisfiableError
from tests.unit.generator.test_resolve import stack_of

# From 2.15 on PTX is of a newer CUDA than the first driver for Hopper.
NEWER = {"tensorflow": "2.15", "driver_source": "network"}
HOPPER = "H100 PCIe"


def test_a_driver_that_cannot_translate_the_code_is_refused() -> None:
    """A driver translates no PTX of a CUDA newer than its own: error 222 at the first start."""
    with pytest.raises(UnsatisfiableError) as caught:
        stack_of({**NEWER, "driver_branch": "525"}, "ubuntu2204", HOPPER)
    assert (
        "TensorFlow 2.15 has only PTX of CUDA 12.2 for H100 PCIe, which drivers of that CUDA or "
        "newer translate; driver 525 is of CUDA 12.0"
    ) in caught.value.got


@pytest.mark.parametrize(
    ("release", "branch", "gpu"),
    [("2.15", "525", "A100"), ("2.15", "535", HOPPER), ("2.14", "525", HOPPER)],
    ids=["machine code", "a newer driver", "PTX of an older CUDA"],
)
def test_a_driver_that_has_nothing_to_translate_or_can_is_taken(
    release: str, branch: str, gpu: str
) -> None:
    wish = {**NEWER, "tensorflow": release, "driver_branch": branch}
    assert stack_of(wish, "ubuntu2204", gpu).driver.branch == branch
