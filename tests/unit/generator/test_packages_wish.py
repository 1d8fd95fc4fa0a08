"""What else an environment shall hold: wished by name, resolved and locked with TensorFlow."""

from __future__ import annotations

import json
from typing import Any

import pytest

from provision import lock as locks
from provision.errors import InputError
from provision.inventory import parse_wish
from provision.models import Wish
from tests.unit.generator import recorded

PANDAS = recorded.REQUIREMENTS + "pandas==1.5.3 \\\n    --hash=sha256:" + "a" * 64 + "\n"


def wish(value: Any) -> Wish:
    return parse_wish({"tensorflow": "2.9", "packages": value}, where="lab/hosts.yml:3")


def test_names_versions_and_extras_are_taken_in_one_order() -> None:
    assert wish(["pandas >= 1.5, < 2.1", "jupyterlab", "ray[default]==2.4.0"]).packages == (
        "jupyterlab", "pandas<2.1,>=1.5", "ray[default]==2.4.0",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("pandas", "packages is a list of requirements"),
        ([], "packages is a list of requirements"),
        ({"pandas": "2"}, "packages is a list of requirements"),
        ("{{ mine }}", "template"),
        (["{{ mine }}"], "template"),
        (["pandas @ https://example.org/pandas.whl"], "no requirement by name"),
        (["./pandas.whl"], "no requirement by name"),
        (["-r requirements.txt"], "no requirement by name"),
        (["pandas; python_version < '4'"], "no requirement by name"),
        ([1], "no requirement by name"),
        (["tensorflow"], "packages can't hold tensorflow"),
        (["TensorFlow_GPU==2.9"], "packages can't hold TensorFlow_GPU"),
        (["tf-nightly"], "packages can't hold tf-nightly"),
        (["Pandas", "pandas<2"], "packages names pandas twice"),
    ],
)
def test_what_is_no_list_of_names_is_refused(value: Any, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        wish(value)
    assert caught.value.where == "lab/hosts.yml:3"


def test_what_only_looks_like_tensorflow_is_taken() -> None:
    assert wish(["tensorflow-probability<0.18"]).packages == ("tensorflow-probability<0.18",)


def test_they_are_asked_for_together_with_tensorflow() -> None:
    (chosen,) = recorded.choices({"tensorflow": "2.9", "packages": ["pandas<2", "jupyterlab"]})
    assert locks.wanted(chosen.stack) == ["tensorflow==2.9.3", "jupyterlab", "pandas<2"]
    (why,) = [reason.text for reason in chosen.stack.reasons if reason.component == "tensorflow"]
    assert why.endswith("; with jupyterlab, pandas<2 as wished")


def test_another_list_is_another_stack_and_another_order_is_not() -> None:
    ids = [
        recorded.choices({"tensorflow": "2.9", "packages": packages})[0].stack.id
        for packages in (["pandas", "ray"], ["ray", "pandas"], ["pandas"])
    ]
    assert ids[0] == ids[1] != ids[2]
    assert ids[2].startswith("debian11-tensorflow2.9.3-packages")
    assert "packages" not in recorded.choices()[0].stack.id


def test_each_beside_has_its_own() -> None:
    beside = [{"tensorflow": "2.8", "packages": ["pandas"]}]
    (chosen,) = recorded.choices({"tensorflow": "2.9", "beside": beside})
    assert [stack.packages for stack in locks.stacks_of(chosen)] == [(), ("pandas",)]


def locked(asked: dict[str, Any], text: str, before: locks.Lock | None = None) -> locks.Lock:
    chosen = recorded.choices(asked)
    found = {"debian11": recorded.indices()}
    names = {stack.id: text for choice in chosen for stack in locks.stacks_of(choice)}
    return locks.make(chosen, found, names, before=before)


def test_the_lock_has_their_wheels() -> None:
    made = locked({"tensorflow": "2.9", "packages": ["pandas"]}, PANDAS)
    ((name, part),) = made.stacks.items()
    assert "-packages" in name
    assert part["tensorflow"]["wheels"]["pandas"] == "1.5.3"
    assert locks.dump(locks.parse(locks.dump(made), where="lock.yml")) == locks.dump(made)


@pytest.mark.parametrize(
    ("now", "there"),
    [
        ({"tensorflow": "2.9", "packages": ["pandas"]}, True),
        ({"tensorflow": "2.9", "python": "3.9", "packages": ["pandas"]}, False),
    ],
)
def test_another_list_moves_nothing_else_of_the_lock(now: dict[str, Any], there: bool) -> None:
    for old in ({"tensorflow": "2.9"}, {"tensorflow": "2.9", "packages": ["ray"]}):
        before = locked(old, recorded.REQUIREMENTS)
        (chosen,) = recorded.choices(now)
        assert bool(locks.locked_names(before, chosen)) is there, json.dumps(old)


def test_a_row_of_the_very_wish_is_taken_before_one_of_another_list() -> None:
    asked = {"tensorflow": "2.9", "packages": ["pandas"]}
    (chosen,) = recorded.choices(asked)
    for first, second in (({"tensorflow": "2.9"}, asked), (asked, {"tensorflow": "2.9"})):
        lock, other = locked(first, recorded.REQUIREMENTS), locked(second, recorded.REQUIREMENTS)
        rows = [*lock.slim["rows"], *other.slim["rows"]]
        both = locks.Lock({**lock.slim, "rows": rows}, lock.details)
        assert locks.locked_names(both, chosen) == [chosen.stack.id]
