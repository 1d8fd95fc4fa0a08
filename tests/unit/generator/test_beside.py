"""Several TensorFlows on one host: what is wished, resolved, locked and rendered of them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from provision import collection
from provision import lock as locks
from provision.catalog import load
from provision.cli.commands.explain import _explain_host
from provision.errors import InputError, UnsatisfiableError
from provision.inventory import Fleet, parse_wish
from provision.models import HostFacts, Wish
from provision.render import render
from provision.resolve import Stack, resolve_fleet
from provision.resolve.beside import side_by_side
from provision.roles import ROLES
from tests.collection import ROOT
from tests.unit.generator import recorded

# What the wheels of 2.14 are called, beside those of 2.20.
CU11 = recorded.WHEELS.replace("cu12", "cu11").replace("tensorflow==2.20.0", "tensorflow==2.14.1")
WISH = {"tensorflow": "2.9", "beside": [{"tensorflow": "2.14"}, {"tensorflow": "2.8"}]}
FIRST = "debian11-tensorflow2.9.3-cuda11.2.2-cudnn8.1.0.77-driver470.256.02"
WHEELS = "debian11-tensorflow2.14.1-cudawheels11.8.89-cudnn8.7.0.84-driver470.256.02"
SHARED = "debian11-tensorflow2.8.4-cuda11.2.2-cudnn8.1.0.77-driver470.256.02"


def made() -> locks.Lock:
    chosen = recorded.choices(WISH)
    stacks = [stack for choice in chosen for stack in (choice.stack, *choice.beside)]
    return locks.make(
        chosen,
        {"debian11": recorded.indices()},
        {
            stack.id: CU11 if stack.cuda.origin == "wheels" else recorded.REQUIREMENTS
            for stack in stacks
        },
    )


@pytest.mark.parametrize(
    ("beside", "words"),
    [
        ("2.14", "beside is a list of wishes"),
        (["2.14"], "beside is a list of wishes"),
        ("{{ others }}", "template"),
        ([{"python": "3.9"}], "names a TensorFlow"),
        ([{"tensorflow": "2.14", "driver_branch": "535"}], "beside has no word 'driver_branch'"),
        ([{"tensorflow": 2.14}], "a number is not a version"),
    ],
)
def test_a_wish_beside_is_a_wish_of_its_own_words(beside: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse_wish({"tensorflow": "2.9", "beside": beside}, where="lab/hosts.yml:3")


def test_each_has_the_first_ones_driver_and_its_cuda_or_wheels() -> None:
    (choice,) = recorded.choices(WISH)
    assert choice.stack.id == FIRST
    assert [stack.id for stack in choice.beside] == [WHEELS, SHARED]
    assert choice.wish.literal == WISH


def test_a_driver_is_chosen_that_serves_them_all() -> None:
    """Not the first one's own, where the other needs a newer."""
    for choice in recorded.choices({"tensorflow": "2.14", "beside": [{"tensorflow": "2.17"}]}):
        drivers = {stack.driver.version for stack in (choice.stack, *choice.beside)}
        assert len(drivers) == 1


def test_what_no_driver_serves_together_is_refused() -> None:
    wish = {"tensorflow": "2.9", "beside": [{"tensorflow": "2.20"}]}
    fleet = Fleet({"gpu01": parse_wish(wish, where="x")}, facts={"gpu01": HostFacts("debian11")})
    with pytest.raises(UnsatisfiableError) as caught:
        resolve_fleet(load(), fleet)
    assert "TensorFlow 2.9.3 can't have these beside it" in caught.value.message
    assert caught.value.where == "gpu_stack of gpu01"


def test_the_lock_row_names_them() -> None:
    lock = made()
    (row,) = lock.slim["rows"]
    assert (row["stack"], row["beside"]) == (FIRST, [WHEELS, SHARED])
    assert set(lock.stacks) == set(lock.requirements) == {FIRST, WHEELS, SHARED}
    assert locks.dump(locks.parse(locks.dump(lock), where="lock.yml")) == locks.dump(lock)


def test_a_lock_without_them_says_nothing_of_it() -> None:
    assert "beside" not in recorded.lock().slim["rows"][0]


def test_the_tree_has_the_requirements_of_each() -> None:
    files = render(made(), collection.read())
    assert b"nvidia-cudnn-cu11" in files[f"stacks/{WHEELS}.requirements.txt"]
    assert f"stacks/{SHARED}.requirements.txt" in files
    row = yaml.safe_load(files["stacks/gpu_lock.yml"])["gpu_lock"]["rows"][0]
    assert row["beside"] == [WHEELS, SHARED]


def test_the_same_role_makes_each_of_them() -> None:
    (beside,) = yaml.safe_load((ROOT / "roles/gpu_state/tasks/beside.yml").read_text("utf-8"))
    assert beside["loop"] == "{{ gpu_plan.beside }}"
    assert beside["vars"]["tensorflow_switch"] is False
    (role,) = [role for role in ROLES if role.name == "tensorflow"]
    identity = {o.name for o in role.options if o.identity}
    assert identity <= set(beside["vars"])


class Told:
    """A solver that answers by TensorFlow and wished branch: (driver's version, ...) or nothing."""

    def __init__(self, answers: dict[tuple[str, str], str]) -> None:
        drivers = load().drivers
        self.driver = next(driver for driver in drivers if driver.platform == "debian12")
        rows = [self.driver.model_copy(update={"branch": name}) for name in ("535", "580")]
        self.catalog = SimpleNamespace(drivers=rows)
        self.answers = answers

    def find(self, wish: Wish, _platform: Any, _gpus: Any) -> Stack | None:
        version = self.answers.get((str(wish.tensorflow), wish.driver_branch or ""))
        if version is None:
            return None
        (chosen,) = [c for c in recorded.choices({"tensorflow": "2.17"}) if c.platform.id == DEBIAN]
        branch = version.split(".", maxsplit=1)[0]
        driver = self.driver.model_copy(update={"branch": branch, "version": version})
        return dataclasses.replace(chosen.stack, tensorflow=str(wish.tensorflow), driver=driver)


DEBIAN = "debian12"
TWO = parse_wish({"tensorflow": "2.9", "beside": [{"tensorflow": "2.17"}]}, where="x")
PLATFORM = next(platform for platform in load().platforms if platform.id == DEBIAN)


def asked(answers: dict[tuple[str, str], str], wish: Wish = TWO) -> Any:
    return side_by_side(Told(answers), wish, PLATFORM, ())  # type: ignore[arg-type]


def test_another_driver_is_taken_where_the_first_ones_own_does_not_serve() -> None:
    answers = {("2.9", ""): "535.1", ("2.9", "535"): "535.1", ("2.9", "580"): "580.1"}
    first, beside = asked(answers | {("2.17", "580"): "580.1"})
    assert (first.driver.branch, [stack.driver.branch for stack in beside]) == ("580", ["580"])
    # A branch that was wished for is not changed.
    wish = dataclasses.replace(TWO, driver_branch="535")
    assert asked(answers | {("2.17", "580"): "580.1"}, wish)[1] is None


def test_two_drivers_of_one_branch_are_two_drivers() -> None:
    """A host has one; the branch's newer version is not the one that was chosen."""
    answers = {("2.9", ""): "535.1", ("2.17", "535"): "535.2"}
    first, beside = asked(answers)
    assert first.driver.version == "535.1"
    assert beside is None


def test_reasons_beside_do_not_tell_wishes_that_nobody_had() -> None:
    """ "branch 470 was wished" stood beside where no branch was."""
    (choice,) = recorded.choices(WISH)
    for stack in (choice.stack, *choice.beside):
        assert "was wished" not in " ".join(reason.text for reason in stack.reasons)
    shared = {reason.component: reason.text for reason in choice.beside[1].reasons}
    assert shared["nvidia_driver"] == "shared with TensorFlow 2.9.3, beside which it is"
    assert shared["cuda"] == shared["nvidia_driver"]


@pytest.mark.parametrize("other", ["2.9", "2.9.3"])
def test_one_tensorflow_twice_is_refused(other: str) -> None:
    """Both would be one directory on the host."""
    with pytest.raises(InputError, match=r"2\.9\.3 stands twice") as caught:
        recorded.choices({"tensorflow": "2.9", "beside": [{"tensorflow": other}]})
    assert caught.value.where.startswith("gpu_stack of ")


def test_a_host_is_explained_with_those_beside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`provision explain HOST` told the first TensorFlow only."""
    fleet = Fleet({"gpu01": parse_wish(WISH, where="x")}, facts={"gpu01": HostFacts("debian11")})
    _explain_host("gpu01", tmp_path, fleet, as_json=True)
    (stack,) = json.loads(capsys.readouterr().out)["stacks"]
    assert [beside["stack"] for beside in stack["beside"]] == [WHEELS, SHARED]
    assert stack["beside"][0]["reasons"]["tensorflow"]
    _explain_host("gpu01", tmp_path, fleet, as_json=False)
    assert f"beside it: {WHEELS}" in capsys.readouterr().out.replace("\n", " ")
