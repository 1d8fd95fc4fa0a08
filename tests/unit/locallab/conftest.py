"""Stand-ins for the programs that labs are made with."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from provision.locallab.vm import Virtual
from provision.locallab.vm.accel import Acceleration
from provision.locallab.vm.guest import Guest, free_port

Program = Callable[[str, str], Path]
MakeGuest = Callable[..., Guest]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Puts a script on PATH, before all other programs."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def put(name: str, text: str) -> Path:
        path = folder / name
        path.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    return put


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of labs, which is the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "cache" / "provision" / "lab"
    path.mkdir(parents=True)
    return path


@pytest.fixture
def make_guest(cache: Path) -> Iterator[MakeGuest]:
    """Makes guests whose folder is there; their processes end with the test."""
    made: list[Guest] = []

    def make(name: str = "demo-gpu01-r1", *, keep: str = "true", **values: object) -> Guest:
        folder = cache / "machines" / name
        folder.mkdir(parents=True)
        labels = {"lab": "demo", "host": "gpu01", "run": "r1", "keep": keep, "owner": ""}
        fields: dict[str, object] = {
            "base": str(cache / "disks" / "debian11-0123.qcow2"),
            "port": free_port(),
            "virtual": Virtual(),
            "acceleration": Acceleration("tcg", "/dev/kvm is missing"),
        }
        guest = Guest(folder=folder, labels=labels, **fields | values)  # type: ignore[arg-type]
        made.append(guest)
        return guest

    yield make
    for guest in made:
        if guest.process is not None:
            guest.process.kill()
            guest.process.wait()
