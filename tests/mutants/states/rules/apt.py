"""Where apt has its settings and sources from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rule_states import PRE, State


def bare(found: dict[str, Any]) -> None:
    found["preflight"].update(apt_sources=[], apt_config=None)


def states() -> Iterator[State]:
    rule, seen = "apt-sources", PRE + "apt_sources"
    parts = ["Dir::Etc::SourceParts", "/srv/own", "/etc/apt/apt.conf.d/99own"]
    words = ("apt's own settings (/etc/apt/apt.conf.d/99own) have it read /srv/own for "
             "/etc/apt/sources.list.d (Dir::Etc::SourceParts)", "move its sources to")  # fmt: skip
    yield State(rule, "its sources are elsewhere", {seen: [parts]}, words)
    unnamed = [["Dir::Etc::SourceList", "", ""]]
    words = ("apt's own settings (apt-config dump) have it read nothing for /etc/apt/sources.list",
             "-o Dir::Etc::SourceList=...")  # fmt: skip
    yield State(rule, "it is not known which file says so", {seen: unnamed}, words)
    yield State(rule, "they are where they ever are", {seen: []})
    yield State(rule, "nothing is to be changed", {seen: [parts]}, only=())
    rule, seen = "apt-config", PRE + "apt_config"
    words = ("/etc/environment sets APT_CONFIG to /etc/lab.conf, and a run does not read that file",
             "cp /etc/lab.conf /etc/apt/apt.conf.d/")  # fmt: skip
    yield State(rule, "the environment names settings of apt", {seen: "/etc/lab.conf"}, words)
    yield State(rule, "it names none", {seen: None})
