"""Forms of arguments that several modules have."""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any

# Names, or paths; none where nothing is said.
NAMES: dict[str, Any] = {"type": "list", "elements": "str", "default": []}
# As the documentation's fragment `dpkg_wait` describes it.
WAIT: dict[str, Any] = {"type": "int", "default": 600}
# As the documentation's fragment `ca_bundle` describes it.
CA_BUNDLE: dict[str, Any] = {"type": "str", "default": ""}
# As the documentation's fragment `exact_versions` describes them.
EXACT_VERSIONS: dict[str, Any] = {
    "reinstall": NAMES,
    "conffiles": NAMES,
    "checksums": {"type": "dict", "default": {}},
    "hint": {"type": "str", "default": ""},
    "suites": NAMES,
    "renewed": {"type": "bool", "default": False},
}


def one_of(*words: str, default: str | None = None) -> dict[str, Any]:
    """One of these words; required without a default."""
    spec: dict[str, Any] = {"type": "str", "choices": list(words)}
    return dict(spec, required=True) if default is None else dict(spec, default=default)
