"""Forms of arguments that several modules have."""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any

REQUIRED_TEXT: dict[str, Any] = {"type": "str", "required": True}
TEXT: dict[str, Any] = {"type": "str", "default": ""}
# No log shows it: a secret, or an address that may hold one (see `answers.run`).
HIDDEN_TEXT: dict[str, Any] = dict(TEXT, no_log=True)
FLAG: dict[str, Any] = {"type": "bool", "default": False}
# Names, or paths.
REQUIRED_NAMES: dict[str, Any] = {"type": "list", "elements": "str", "required": True}
NAMES: dict[str, Any] = {"type": "list", "elements": "str", "default": []}
MAPPING: dict[str, Any] = {"type": "dict", "default": {}}
# As the documentation's fragment `dpkg_wait` describes it.
WAIT: dict[str, Any] = {"type": "int", "default": 600}
# As the documentation's fragment `dkms_module` describes it.
DKMS_MODULE: dict[str, Any] = {"type": "str", "default": "nvidia"}
# As the documentation's fragments `exact_versions` and `dpkg_wait` describe them.
EXACT_VERSIONS: dict[str, Any] = {
    "reinstall": NAMES,
    "conffiles": NAMES,
    "checksums": MAPPING,
    "hint": TEXT,
    "suites": NAMES,
    "renewed": FLAG,
    "wait": WAIT,
}


def one_of(*words: str, default: str | None = None) -> dict[str, Any]:
    """One of these words; required without a default."""
    spec: dict[str, Any] = {"type": "str", "choices": list(words)}
    return dict(spec, required=True) if default is None else dict(spec, default=default)


PRESENT_OR_ABSENT = one_of("present", "absent", default="present")
