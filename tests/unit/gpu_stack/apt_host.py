"""A host whose apt and dpkg answer as a test has it; what they were asked is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml
from gpu_stack.host import apt_commands, package_lists
from gpu_stack.host.context import Result
from gpu_stack.host.refusal import RefusalError

from provision.collection import documented_options

SHOW, SIMULATE = "apt-cache show", "apt-get install --simulate"


def has(call: str, words: str) -> bool:
    """Whether all of these words are in the call, in any order."""
    return set(words.split()) <= set(call.split())


class AptHost:
    """Answers by the words that a command begins with; without an answer, nothing and 0."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.answers: list[tuple[str, list[Result]]] = []

    def says(self, words: str, *answers: tuple[int, str, str]) -> None:
        """What `words ...` answers, one time after the other; the last one stays."""
        self.answers.insert(0, (words, [Result(*answer) for answer in answers]))

    def run(self, argv: list[str], _patience: float, environment: dict[str, str]) -> Result:
        assert environment["LC_ALL"] == "C"
        assert environment["DEBIAN_FRONTEND"] == "noninteractive"
        call = " ".join(argv)
        self.calls.append(call)
        for words, answers in self.answers:
            if has(call, words):
                return answers.pop(0) if len(answers) > 1 else answers[0]
        return Result(0, "", "")

    def ran(self, words: str) -> list[str]:
        """The calls that have all of these words."""
        return [call for call in self.calls if has(call, words)]


def install(monkeypatch: pytest.MonkeyPatch) -> AptHost:
    host = AptHost()
    monkeypatch.setattr(apt_commands, "run_program", host.run)
    return host


def refusal(settle: Callable[..., object], **options: Any) -> str:
    """The words with which a module of these options refuses."""
    with pytest.raises(RefusalError) as error:
        settle(**options)
    return str(error.value)


def fetches_for_unknown_versions(
    host: AptHost,
    monkeypatch: pytest.MonkeyPatch,
    records: str,
    settle: Callable[..., dict[str, Any]],
) -> list[int]:
    """How long each fetch of the lists waits: after new sources, and for versions apt lacks.

    The list grows with further ones. Known versions need none.
    """
    waits: list[int] = []

    def fetch(suites: list[str], wait: int) -> dict[str, Any]:
        assert suites == ["bullseye"]
        waits.append(wait)
        host.says(SHOW, (0, records, ""))
        return package_lists.nothing()

    monkeypatch.setattr(package_lists, "fetch", fetch)
    settle(state="offered", suites=["bullseye"])
    assert waits == []
    settle(state="offered", suites=["bullseye"], renewed=True)
    host.says(SHOW, (100, "", "E: No packages found"))
    settle(state="offered", suites=["bullseye"])
    return waits


def parameters(module: Any, **options: Any) -> dict[str, Any]:
    """The module's parameters with its defaults, as Ansible hands them over."""
    described = documented_options(yaml.safe_load(module.DOCUMENTATION))
    return {**{name: option.get("default") for name, option in described.items()}, **options}
