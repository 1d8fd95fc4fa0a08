"""The resolver chooses one consistent stack, says why, and explains what it cannot have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provision.catalog import CATALOG_FILES, load, parse
from provision.errors import InputError, UnsatisfiableError
from provision.inventory import Fleet, parse_wish
from provision.resolve import Stack, resolve, resolve_fleet
from tests.unit.generator.recorded import choices

PLATFORM = load().platforms[0]


def stack_of(wish: dict[str, object]) -> Stack:
    return resolve(load(), PLATFORM, parse_wish(wish, where="x"))


@pytest.mark.parametrize(
    "wish",
    [
        {"tensorflow": "2.9"},
        {"tensorflow": "2.9.3"},
        {"cuda": "11.2"},
        {"tensorflow": "2.9", "cuda": "11.2.2", "python": "3.9", "driver_branch": "470"},
        {"tensorflow": "2.9", "cudnn": "8.1.0.77"},
    ],
)
def test_many_ways_to_say_the_same(wish: dict[str, object]) -> None:
    stack = stack_of(wish)
    assert stack.id == "debian11-tensorflow2.9.3-cuda11.2.2-cudnn8.1.0.77-driver470.256.02"
    assert [r.component for r in stack.reasons] == [
        "nvidia_driver",
        "cuda",
        "cudnn",
        "gpu_env",
        "tensorflow",
    ]


def test_a_patch_is_taken_as_it_is() -> None:
    assert stack_of({"tensorflow": "2.9.1"}).tensorflow == "2.9.1"


@pytest.mark.parametrize(
    ("wish", "words", "expected"),
    [
        ({"tensorflow": "2.10"}, "no TensorFlow 2.10", '"2.9"'),
        ({"tensorflow": "2.9.7"}, "no TensorFlow 2.9.7", '"2.9.0"'),
        ({"tensorflow": "2.9", "python": "3.11"}, "no Python 3.11", '"3.9"'),
        ({"tensorflow": "2.9", "cuda": "12.2"}, "no CUDA 12.2", '"11.2"'),
        ({"tensorflow": "2.9", "driver_branch": "535"}, "no driver of branch 535", '"470"'),
        ({"tensorflow": "2.9", "cudnn": "8.0.5.39"}, "does not serve", "at least 8.1.0"),
        ({"tensorflow": "2.9", "cudnn": "9.1.0"}, "does not serve", "same major"),
        ({"tensorflow": "2.9", "cudnn": "8.6.0.163"}, "no cuDNN 8.6.0.163", '"8.1.0.77"'),
        (
            {"tensorflow": "2.9", "cudnn": {"version": "8.5.0.96", "cuda": "10.2"}},
            "does not go with CUDA 11.2",
            '"11.2"',
        ),
    ],
)
def test_what_cannot_be_had_names_the_closest(
    wish: dict[str, object], words: str, expected: str
) -> None:
    with pytest.raises(UnsatisfiableError, match=words) as caught:
        stack_of(wish)
    assert expected in caught.value.expected
    assert caught.value.exit_code == 3


def test_the_refusal_names_the_hosts() -> None:
    wish = parse_wish({"tensorflow": "2.10"}, where="x")
    with pytest.raises(UnsatisfiableError) as caught:
        resolve_fleet(load(), Fleet({f"gpu0{n}": wish for n in range(5)}))
    assert caught.value.where == "gpu_stack of gpu00, gpu01, gpu02 and 2 more"


def test_equal_wishes_are_one_row() -> None:
    wish = parse_wish({"tensorflow": "2.9"}, where="x")
    other = parse_wish({"tensorflow": "2.9.3"}, where="x")
    fleet = Fleet({"a": wish, "b": other, "c": wish})
    assert [c.wish.tensorflow for c in resolve_fleet(load(), fleet)] == ["2.9", "2.9.3"]


@given(
    st.fixed_dictionaries(
        {},
        optional={
            key: st.sampled_from(values)
            for key, values in {
                "tensorflow": ["2.9", "2.9.0", "2.9.3", "2.10", "1.15"],
                "python": ["3.9", "3.8", "3.7", "3.12"],
                "cuda": ["11.2", "11.2.2", "11.8"],
                "driver_branch": ["470", "535"],
                "cudnn": ["8.1.0.77", "8.9.7.29", "7.6.5"],
            }.items()
        },
    ).filter(bool)
)
def test_a_stack_is_consistent_or_refused_with_reasons(wish: dict[str, str]) -> None:
    try:
        stack = stack_of(dict(wish))
    except UnsatisfiableError as error:
        if not error.expected:
            pytest.fail(f"no alternative: {error}")
        return
    assert stack.cuda.release == "11.2"
    assert stack.python in PLATFORM.pythons
    for key, value in wish.items():
        had = {
            "tensorflow": stack.tensorflow,
            "python": stack.python,
            "cuda": stack.cuda.version,
            "driver_branch": stack.driver.branch,
            "cudnn": stack.cudnn.version,
        }[key]
        assert had == value or had.startswith(value + ".")
    assert stack_of(dict(wish)) == stack


def test_every_row_of_the_catalog_has_a_source() -> None:
    catalog = load()
    for part in CATALOG_FILES:
        rows = getattr(catalog, part)
        assert rows
        assert all("http" in row.source for row in rows)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("cuda:\n- {platform: debian11}\n", "catalog: "),
        ("[]", "catalog/cuda.yml"),
    ],
)
def test_a_broken_row_is_named(text: str, where: str) -> None:
    with pytest.raises(InputError) as caught:
        parse({"cuda": text})
    assert caught.value.where.startswith(where)


def test_the_recorded_choice_is_the_default() -> None:
    assert [c.stack.tensorflow for c in choices()] == ["2.9.3"]
