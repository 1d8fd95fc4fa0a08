"""A host whose apt and dpkg answer as a test has it; what they were asked is kept."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_stack.host import apt_commands
from gpu_stack.host.context import Result


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


def parameters(module: Any, **options: Any) -> dict[str, Any]:
    """The module's parameters with its defaults, as Ansible hands them over."""
    import yaml

    described = yaml.safe_load(module.DOCUMENTATION)["options"]
    return {**{name: option.get("default") for name, option in described.items()}, **options}
