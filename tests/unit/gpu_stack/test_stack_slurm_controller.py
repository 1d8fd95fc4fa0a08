"""A node of Slurm's that is to have another controller, or to be one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from converged_host import Host
from gpu_stack.components.slurm import (
    answer,
    key,
    node,
    obstacles,
    paths,
    records,
    services,
    wishes,
)
from gpu_stack.host.refusal import RefusalError
from slurm_host import NODE, OPTIONS, PART, noted
from slurm_look import context, node_host, plan

FACTS = {"platform": {"distribution": "debian", "release": "12"}}
CONTROLLER = {"settings": wishes.settings(OPTIONS), "host": {}}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return node_host(tmp_path)


def of(controller: str, address: str, **place: str) -> dict[str, Any]:
    """The node's options with this controller."""
    there = {**NODE["slurm_host"], "controller_address": address, **place}
    return {**NODE, "slurm_controller": controller, "slurm_host": there}


def former(host: Host, options: dict[str, Any]) -> str:
    """The controller that the plan is stopped for; "" where it is not."""
    seen: str = obstacles.survey(context(host, options), FACTS)["controller"]
    return seen


def test_a_node_is_not_given_to_another_controller(host: Host) -> None:
    """Its slurmd would end jobs that the new controller does not know."""
    noted(host, part=PART, controller="gpu01")
    assert former(host, of("gpu05", "10.0.0.5")) == "gpu01"
    assert former(host, of("gpu01", "10.0.0.1")) == ""


def test_a_controller_may_get_another_address_or_another_name(host: Host) -> None:
    noted(host, part=PART, controller="gpu01")
    assert former(host, of("gpu01", "10.0.0.5")) == ""
    assert former(host, of("head", "10.0.0.1")) == ""


def test_a_node_without_a_note_of_its_controller_is_known_by_that_ones_address(host: Host) -> None:
    assert plan(host) == []
    assert former(host, of("gpu01", "10.0.0.1")) == ""
    assert former(host, of("gpu05", "10.0.0.5")) == "10.0.0.1"
    # The options can't be had then, and another rule says so.
    assert former(host, of("gpu05", "")) == ""
    host.remove(paths.SLURMD_ENVIRONMENT)
    assert former(host, of("gpu05", "10.0.0.5")) == ""


def test_a_node_does_not_become_its_own_controller(host: Host) -> None:
    noted(host, part=PART, controller="gpu01")
    assert former(host, of("gpu02", "10.0.0.2")) == "gpu01"


def test_a_controller_that_is_to_be_a_node_of_another_is_refused(host: Host) -> None:
    host.remove(paths.SLURMD_ENVIRONMENT)
    noted(host, **CONTROLLER)
    assert former(host, of("gpu05", "10.0.0.5", name="gpu01")) == "gpu01"
    assert former(host, of("gpu01", "10.0.0.1", name="gpu01")) == ""
    # Another name of the inventory's for the same host.
    assert former(host, of("head", "10.0.0.1", name="head")) == ""


def test_a_host_that_is_no_node_yet_may_have_any_controller(host: Host) -> None:
    host.remove(paths.SLURMD_ENVIRONMENT)
    noted(host, brought=["munge"])
    assert former(host, of("gpu05", "10.0.0.5")) == ""


def test_the_role_alone_refuses_another_controller_too(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted(host, part=PART, controller="gpu01")
    for options, message in ((of("gpu05", "10.0.0.5"), "of the controller gpu01"), (NODE, "")):
        monkeypatch.setattr(answer, "Context", lambda its=options: context(host, its))
        looked = {"state": "looked", "options": options}
        if not message:
            assert answer.settle(looked, check_mode=False)["node"]
            continue
        with pytest.raises(RefusalError, match=message):
            answer.settle(looked, check_mode=False)


def test_a_node_notes_its_controller(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PLACE", "NOTED", "PARTS", "SLURMD_ENVIRONMENT", "SLURMD_DROP_IN"):
        monkeypatch.setattr(paths, name, str(tmp_path) + getattr(paths, name))
    monkeypatch.setattr(os, "fchown", lambda *_words: None)
    monkeypatch.setattr(key, "opened", lambda _sealed: b"k" * 128)
    monkeypatch.setattr(key, "is_right", lambda *_words: True)
    monkeypatch.setattr(node, "part", lambda *_words: PART)
    monkeypatch.setattr(services, "is_active", lambda _unit: True)
    monkeypatch.setattr(services, "start", lambda *_words: None)
    monkeypatch.setattr(services, "systemctl", lambda *_words: None)
    given = {"asked": 0, "now": 0, "part": PART, "sealed": "", "digest": records.digest(b"k" * 128)}
    monkeypatch.setattr(node, "clocks_agree", lambda *_words: None)
    node.joined(NODE, given)
    assert '"controller": "gpu01"' in Path(paths.NOTED).read_text()
