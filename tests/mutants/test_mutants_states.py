"""Every check and every preflight rule is turned red by what it guards, and by nothing else."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import check_states
import pytest
import rule_states
from gpu_stack import preflight
from states import files

from provision.verify.checks import CHECKS

HERE = Path(__file__).resolve().parent


def golden(name: str, text: str) -> None:
    """What a person reads is as it was reviewed; PROVISION_UPDATE_GOLDEN=1 writes it anew."""
    path = HERE / name
    if os.environ.get("PROVISION_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text


def test_each_component_has_files_of_its_own() -> None:
    checks = {check.id.partition(".")[0] for check in CHECKS}
    assert {file.__name__.rpartition(".")[2] for file in files("checks")} == checks
    for file in files("checks"):
        found = {state.check.partition(".")[0] for state in file.states()}
        assert found == {file.__name__.rpartition(".")[2]}
    rules = {rule.component for rule in preflight.RULES} - {None, preflight.WORK}
    assert rules <= {file.__name__.rpartition(".")[2] for file in files("rules")}


# the checks


def test_the_proven_host_passes_all_that_it_can_show() -> None:
    results = check_states.verdicts(check_states.seen_of(check_states.proven()))
    left = {name: verdict for name, verdict in results.items() if verdict.result != "passed"}
    assert {verdict.result for verdict in left.values()} == {"not_applicable"}
    assert set(left) == set(check_states.NOT_RECORDED)


def test_the_machine_passes_everything() -> None:
    results = check_states.verdicts(check_states.seen_of(check_states.machine()))
    assert {name for name, verdict in results.items() if verdict.result != "passed"} == set()


@pytest.mark.parametrize("check", [check.id for check in CHECKS])
def test_each_wrong_fact_turns_its_check_red_and_no_other(check: str) -> None:
    states = [state for state in check_states.states() if state.check == check]
    assert states
    wrong = {state.fact: check_states.judged(state) for state in states}
    assert {fact: message for fact, message in wrong.items() if message} == {}


# What a stack of the recorded host's kind is asked.
RECORDED = {
    state.check for state in check_states.states() if state.base is check_states.machine
} - set(check_states.NOT_RECORDED)


@pytest.mark.parametrize("check", sorted(RECORDED))
def test_so_it_does_on_the_host_as_it_was_recorded(check: str) -> None:
    """A container with a simulated GPU; what it is not judged by is left out."""
    states = [s for s in check_states.states() if s.check == check and not s.machine_only]
    assert states
    wrong = {state.fact: check_states.judged(state, check_states.proven) for state in states}
    assert {fact: message for fact, message in wrong.items() if message} == {}


def test_what_a_person_reads_of_a_red_check() -> None:
    golden("check_states.txt", check_states.tell())


# Facts that the probe tells and no check turns red by, each with the reason.
TOLD_ONLY = {
    r"probe/format": "the shape of the answer",
    r"probe/user": "named in a passed check",
    r"probe/platform/.*": "chooses the row, which the playbook did; the kernel is named in a cure",
    r"probe/(container|simulated_gpu)": "say which checks apply",
    r"probe/nvidia_smi(_list)?/stderr": "read where the program failed",
    r"probe/nvcc/\w+/stderr": "read where the program failed",
    r"probe/module/proc": "read where /sys does not tell the version",
    r"probe/module/nouveau": "the cause of another failure; beside NVIDIA's module it does nothing",
    r"probe/pci/\d/(address|device)": "name the GPU that does not answer",
    r"probe/pci/2/.*": "an audio function",
    r"probe/packages/nvidia-driver/.*": "a desktop's; this host is none",
    r"probe/environment/\w+/PATH": "this stack puts no directory into PATH",
    r"probe/(libraries/[^/]+|libcuda|cudnn)/(loaded|error|cached|answer)": "words of a diagnosis; "
    "the file behind them is judged",
    r"probe/libcuda/(cached_real|owner)": "the file's version is judged",
    r"probe/cudnn/owner": "cuDNN is of no package",
    r"probe/files/\w+/path": "the lock's own path, told back",
    r"probe/receipt/(stack|written)": "named in a passed check",
    r"probe/tensorflow/(python|real|seconds)": "named in a diagnosis",
    r"probe/tensorflow/wheels/(pip|pkg-resources)": "none of the lock's",
    r"probe/tensorflow/(gpus|trains|computes)/(rc|log)": "read where there is no answer",
    r"probe/tensorflow/trains/first": "the loss fell from wherever it began",
    r"row/nvidia_driver/branch": "the version is judged",
    r"row/nvidia_driver/packages/desktop/.*": "this host is no desktop",
    r"row/cuda/version": "the packages' versions are judged",
    r"row/cuda/packages/runtime/.*": "this host has the profile toolkit",
    r"row/cuda/files/\w+/path": "the probe looks there",
    r"row/cudnn/(sha256|soname)": "the role checks the archive; the probe opens the soname",
    r"row/gpu_env/library": "the loader's answer is judged",
    r"row/tensorflow/requirements_sha256": "pip installs by it; the versions are judged",
    r"options/\w+": "options of the roles",
}


def leaves(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for index, inner in enumerate(value):
            yield from leaves(inner, (*path, index))
    else:
        yield path, value


def spoilt(value: Any) -> list[Any]:
    """Other values of the same kind: the nearest one, and none."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, (int, float)):
        return [value * 1000 + 1]
    if isinstance(value, dict):
        return [{}]
    if isinstance(value, list):
        return [[*value, "more"], value[:-1]]
    digits = re.findall(r"\d", value or "")
    if digits:
        head, _, tail = value.rpartition(digits[-1])
        return [head + str((int(digits[-1]) + 1) % 10) + tail, value + "0", "0"]
    return ["mutant", ""]


def test_no_fact_is_seen_and_not_judged() -> None:
    """Each value of the probe and of the lock, spoilt, turns a check red, or is known not to.

    It finds the fact that a check forgot, and the exception that a check would end in.
    """
    base = check_states.machine()
    unseen, known = [], set()
    for top in ("probe", "row", "options"):
        for path, value in leaves(base[top], (top,)):
            name = "/".join(map(str, path))
            results = set()
            for other in spoilt(value):
                data = check_states.machine()
                here = data
                for key in path[:-1]:
                    here = here[key]
                here[path[-1]] = other
                seen = check_states.seen_of(data)
                results |= {verdict.result for verdict in check_states.verdicts(seen).values()}
            reason = next((pattern for pattern in TOLD_ONLY if re.fullmatch(pattern, name)), None)
            if "failed" not in results and reason is None:
                unseen.append(name)
            if "failed" not in results and reason is not None:
                known.add(reason)
    assert unseen == []
    assert known == set(TOLD_ONLY), "these are judged, or not there any more"


# the preflight rules


def test_the_bare_hosts_give_no_reason() -> None:
    assert rule_states.reasons(rule_states.container()) == {}
    assert rule_states.reasons(rule_states.machine()) == {}


@pytest.mark.parametrize("rule", [rule.id for rule in preflight.RULES])
def test_each_state_trips_its_rule_at_its_boundary_and_no_other(rule: str) -> None:
    wrong = {s.fact: rule_states.judged(s) for s in rule_states.states() if s.rule == rule}
    assert {fact: message for fact, message in wrong.items() if message} == {}


def test_every_rule_has_a_state_on_either_side() -> None:
    rules = {rule.id for rule in preflight.RULES}
    assert {state.rule for state in rule_states.states() if state.trips} == rules
    assert {state.rule for state in rule_states.states() if not state.trips} == rules


def test_what_a_person_reads_of_a_rule() -> None:
    golden("rule_states.txt", rule_states.tell())
