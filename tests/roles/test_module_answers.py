"""How modules end: with a result and its warnings, or with a refusal's words."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.provision.gpu.plugins.module_utils import answers


class Module:
    """What `settle` uses of AnsibleModule."""

    check_mode = True

    def __init__(self, diff: bool = False) -> None:
        self._diff = diff
        self.params = {"wait": 600}
        self.warned: list[str] = []
        self.ended: dict[str, Any] = {}
        self.no_log_values = {"http://proxy.lab:3128", "http://ada:secret@proxy.lab:3128"}

    def warn(self, words: str) -> None:
        self.warned.append(words)

    def exit_json(self, **result: Any) -> None:
        self.ended = result
        raise SystemExit(0)

    def fail_json(self, **result: Any) -> None:
        self.ended = result
        raise SystemExit(1)


def ended(module: Module, function: Any, *refusals: type[Exception]) -> int:
    with pytest.raises(SystemExit) as end:
        answers.settle(module, function, *refusals)
    return int(str(end.value.code))


def test_a_result_ends_it_and_its_warnings_are_the_modules() -> None:
    module = Module()

    def function(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
        assert (params, check_mode) == (module.params, True)
        return {"changed": True, "warnings": ["a source failed"]}

    assert ended(module, function) == 0
    assert (module.ended, module.warned) == ({"changed": True}, ["a source failed"])


@pytest.mark.parametrize(("asked", "expected"), [(True, {"diff": ["-a"]}), (False, {})])
def test_a_difference_is_returned_where_it_was_asked_for(
    asked: bool, expected: dict[str, Any]
) -> None:
    module = Module(diff=asked)
    assert ended(module, lambda _params, _check_mode: {"diff": ["-a"]}) == 0
    assert module.ended == expected


def test_a_refusal_fails_it_and_nothing_else_is_caught() -> None:
    module = Module()

    def refuse(_params: dict[str, Any], _check_mode: bool) -> dict[str, Any]:
        raise answers.RefusalError("somebody holds it", holder="ada")

    def break_off(_params: dict[str, Any], _check_mode: bool) -> dict[str, Any]:
        raise OSError("no space")

    assert ended(module, refuse) == 1
    assert module.ended == {"msg": "somebody holds it", "holder": "ada"}
    with pytest.raises(OSError, match="no space"):
        answers.settle(module, break_off)
    assert ended(module, break_off, OSError) == 1
    assert module.ended == {"msg": "no space"}


def test_only_addresses_with_a_login_stay_hidden() -> None:
    module = Module()
    answers.show_addresses_without_logins(module)
    assert module.no_log_values == {"http://ada:secret@proxy.lab:3128"}
