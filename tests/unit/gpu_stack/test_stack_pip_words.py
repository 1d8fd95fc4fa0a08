"""What is said where pip fails: the reason in one sentence, and never its traceback."""

from __future__ import annotations

import pytest
from gpu_stack.components.tensorflow import pip_install

BROKEN = (
    "WARNING: Retrying (Retry(total=4, connect=None)) after connection broken by "
    "'NewConnectionError('<pip._vendor.urllib3.connection>: Failed to establish a new connection: "
    "[Errno 111] Connection refused')': /simple/absl-py/\n"
    "ERROR: No matching distribution found for absl-py==1.0.0\n"
)
SILENT = (
    "ERROR: Exception:\nTraceback (most recent call last):\n"
    "socket.timeout: The read operation timed out\n"
    "pip._vendor.urllib3.exceptions.ReadTimeoutError: HTTPSConnectionPool(host='x', port=443): "
    "Read timed out.\n"
)
CASES = {
    "space": ("OSError: [Errno 28] No space left on device\n", "No space is left on the"),
    "refused": (BROKEN, "this host does not reach the package index (NewConnectionError("),
    "silent": (SILENT, "the package index stopped sending in the middle of a download"),
    "hash": ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES\n", "DO NOT MATCH THE HASHES"),
}


UNKNOWN = "WARNING: x\n\nERROR: No matching distribution found for absl-py==1.0.0\n"


def message_of(stderr: str, works: bool = False) -> str:
    why = pip_install.reasons(stderr, "/opt/tensorflow")
    return pip_install.not_installed("2.9.3", why, works)


@pytest.mark.parametrize("name", CASES)
def test_the_reason_is_reported_in_a_sentence(name: str) -> None:
    stderr, words = CASES[name]
    message = message_of(stderr)
    assert f"TensorFlow 2.9.3 was not installed: {words}" in message.replace(
        "ERROR: THESE PACKAGES ", ""
    )
    assert "Traceback" not in message
    assert message.endswith(" Run again once the cause is gone.")


def test_what_is_still_current_is_said() -> None:
    message = message_of("x\n", works=True)
    assert message == (
        "TensorFlow 2.9.3 was not installed: x The version in use before is still the current one. "
        "Run again once the cause is gone."
    )
    assert "current" not in message_of("x\n")


def test_an_index_without_the_wheel_or_out_of_reach_is_asked_about() -> None:
    assert message_of(UNKNOWN).startswith(
        "TensorFlow 2.9.3 was not installed: ERROR: No matching distribution found for "
        "absl-py==1.0.0 Does this host reach the package index (tensorflow_index_url, "
    )


def test_a_login_is_cut_out_and_the_address_stays() -> None:
    message = message_of(
        "ERROR: 404 Client Error for url: https://ada:s%40cret@mirror.org/simple/x/\n"
    )
    assert "for url: https://mirror.org/simple/x/" in message
    assert "cret" not in message


def test_the_reason_of_a_connection_has_no_address_of_memory() -> None:
    message = message_of(BROKEN)
    assert "(NewConnectionError('Failed to establish a new connection: [Errno 111] " in message
    assert "<pip" not in message
