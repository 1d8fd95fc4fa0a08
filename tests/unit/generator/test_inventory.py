"""Wishes are read as Ansible sees them, and our own words are checked hard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provision.errors import InputError
from provision.inventory import Fleet, Sources, Words, distance, parse, parse_wish
from provision.roles import PREFIXES, all_options, base

WORDS = Words(all_options(), PREFIXES)
TF = {"tensorflow": "2.9"}


def export(
    groups: dict[str, dict[str, Any]], hostvars: dict[str, dict[str, Any]] | None = None
) -> dict[str, Any]:
    return {"_meta": {"hostvars": hostvars or {}}, **groups}


def fleet(*arguments: Any) -> Fleet:
    return parse(export(*arguments), WORDS)


def test_a_group_wishes_for_its_hosts() -> None:
    parsed = fleet({"gpu": {"hosts": ["a", "b"], "vars": {"gpu_stack": TF}}})
    assert {h: w.tensorflow for h, w in parsed.hosts.items()} == {"a": "2.9", "b": "2.9"}


def test_hosts_without_a_wish_are_left_alone() -> None:
    groups = {"gpu": {"hosts": ["a"], "vars": {"gpu_stack": TF}}, "web": {"hosts": ["w"]}}
    assert fleet(groups).other_hosts == ("w",)


def test_a_host_decides_for_itself() -> None:
    groups = {
        "one": {"hosts": ["a"], "vars": {"gpu_stack": TF}},
        "two": {"hosts": ["a"], "vars": {"gpu_stack": {"tensorflow": "2.9.1"}}},
    }
    parsed = fleet(groups, {"a": {"gpu_stack": {"tensorflow": "2.9.2"}}})
    assert parsed.hosts["a"].tensorflow == "2.9.2"


def test_a_child_group_wins_over_its_parent() -> None:
    groups = {
        "all": {"children": ["lab"], "vars": {"gpu_stack": {"tensorflow": "2.9.0"}}},
        "lab": {"children": ["gpu"], "vars": {"gpu_stack": {"tensorflow": "2.9.1"}}},
        "gpu": {"hosts": ["a"], "vars": {"gpu_stack": TF}},
    }
    assert fleet(groups).hosts["a"].tensorflow == "2.9"


def test_two_groups_that_disagree_are_a_conflict() -> None:
    groups = {
        "one": {"hosts": ["a"], "vars": {"gpu_stack": TF}},
        "two": {"hosts": ["a"], "vars": {"gpu_stack": {"tensorflow": "2.9.1"}}},
    }
    with pytest.raises(InputError, match="two groups of host a") as caught:
        fleet(groups)
    assert "one" in caught.value.got
    assert "two" in caught.value.got


def test_two_groups_that_agree_are_none() -> None:
    groups = {
        "one": {"hosts": ["a"], "vars": {"gpu_stack": TF}},
        "two": {"hosts": ["a"], "vars": {"gpu_stack": dict(TF)}},
    }
    assert fleet(groups).hosts["a"].tensorflow == "2.9"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("2.9", "is a mapping"),
        (["tensorflow"], "is a mapping"),
        ({}, "wishes for nothing"),
        ({"tensorflow": 2.9}, "a number is not a version"),
        ({"tensorflow": 2}, "a number is not a version"),
        ({"tensorflow": True}, "is not a version"),
        ({"tensorflow": None}, "is not a version"),
        ({"tensorflow": "{{ tf }}"}, "is a template"),
        ("{{ stack }}", "is a template"),
        ({"tensorflow": "latest"}, "is not a version"),
        ({"tensorflow": "2.9; rm -rf /"}, "is not a version"),
        ({"tensrflow": "2.9"}, "has no word"),
        ({"cudnn": {"version": 8.1}}, "a number is not a version"),
        ({"cudnn": {"sha256": "ab" * 32}}, "needs a version"),
        ({"cudnn": {"version": "8.5.0.96", "sha256": "AB" * 32}}, "not a SHA-256"),
        ({"cudnn": {"version": "8.5.0.96", "sha256": "abc"}}, "not a SHA-256"),
        ({"cudnn": {"version": "8.5.0.96", "sha256": "{{ x }}"}}, "is a template"),
        ({"cudnn": {"version": "8.5.0.96", "url": "x"}}, "has no word"),
    ],
)
def test_wrong_wishes(value: object, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        parse_wish(value, where="lab/hosts.yml:4")
    assert caught.value.where == "lab/hosts.yml:4"


def test_a_float_says_how_to_quote_it() -> None:
    with pytest.raises(InputError) as caught:
        parse_wish({"tensorflow": 2.1}, where="x")
    assert caught.value.hint.startswith('quote it: tensorflow: "')


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("tensorflow_verison", "tensorflow_version"),
        ("cuda_profil", "cuda_profile"),
        ("gpu_stak", "gpu_stack"),
        ("gpustack", "gpu_stack"),
        ("cudnn_controler_file", "cudnn_controller_file"),
    ],
)
def test_a_slip_is_an_error(name: str, meant: str) -> None:
    groups = {"gpu": {"hosts": ["a"], "vars": {"gpu_stack": TF, name: "x"}}}
    with pytest.raises(InputError) as caught:
        fleet(groups)
    assert caught.value.hint.startswith(f"did you mean {meant}?")


@pytest.mark.parametrize("name", ["cuda_home", "gpu_rack", "tensorflow_serving_port"])
def test_what_only_looks_like_ours_is_a_warning(name: str) -> None:
    parsed = fleet({"gpu": {"hosts": ["a"], "vars": {"gpu_stack": TF, name: "x"}}})
    assert [name in warning for warning in parsed.warnings] == [True]


@pytest.mark.parametrize("name", ["http_proxy", "ansible_user", "my_tensorflow", "python_version"])
def test_what_is_not_ours_is_not_spoken_of(name: str) -> None:
    parsed = fleet({"gpu": {"hosts": ["a"], "vars": {"gpu_stack": TF, name: "x"}}})
    assert parsed.warnings == ()


def test_every_identity_variable_is_refused() -> None:
    names = [name for name, option in all_options().items() if option.identity]
    assert len(names) > 10
    for name in names:
        with pytest.raises(InputError, match="decided by the lock"):
            fleet({"gpu": {"hosts": ["a"], "vars": {"gpu_stack": TF, name: "x"}}})


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("cuda_profile", "full", "runtime or toolkit"),
        ("nvidia_driver_reboot", "maybe", "true or false"),
        ("nvidia_driver_reboot_timeout", "soon", "a whole number"),
        ("cudnn_urls", "https://x", "a list of str"),
        ("gpu_env_variables", ["A=1"], "a mapping"),
        ("cudnn_root", 7, "a path"),
    ],
)
def test_wrong_types_are_refused(name: str, value: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        fleet({"gpu": {"hosts": ["a"], "vars": {"gpu_stack": TF, name: value}}})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cuda_profile", "{{ 'runtime' if small else 'toolkit' }}"),
        ("cudnn_proxy", {"__ansible_vault": "$ANSIBLE_VAULT;1.1;AES256\n61"}),
        ("cudnn_urls", ["{{ mirror }}/cudnn.tgz"]),
        ("nvidia_driver_reboot", "yes"),
        ("nvidia_driver_reboot_timeout", "900"),
        ("cuda_hold", False),
    ],
)
def test_templates_vaults_and_ini_spellings_pass(name: str, value: object) -> None:
    fleet({"gpu": {"hosts": ["a"], "vars": {"gpu_stack": TF, name: value}}})


def test_a_fault_never_shows_a_mapping_or_list() -> None:
    """A value of the wrong type may be a secret somebody put there."""
    with pytest.raises(InputError) as caught:
        fleet({"gpu": {"hosts": ["a"], "vars": {"gpu_stack": TF, "cudnn_proxy": ["s3cret"]}}})
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("Sat 22-4", "'Sat 22-4' is no maintenance window: expected \"HH:MM-HH:MM\""),
        (["22:00-23:00", "Sonntag 22:00-23:00"], "names no day of the week: Sonntag"),
        (2200, "is not"),
    ],
)
def test_a_maintenance_window_is_read_before_a_host_is(value: object, words: str) -> None:
    groups = {"g": {"hosts": ["a"], "vars": {"gpu_stack": TF, "gpu_maintenance_window": value}}}
    with pytest.raises(InputError) as error:
        fleet(groups)
    assert words in str(error.value)
    assert error.value.exit_code == 2


def test_a_canary_in_an_inventory_says_where_it_belongs() -> None:
    groups = {"g": {"hosts": ["a"], "vars": {"gpu_stack": TF, "gpu_canary": "a"}}}
    with pytest.raises(InputError, match="a setting of one run") as error:
        fleet(groups)
    assert "-e gpu_canary=" in str(error.value)


def test_serial_in_an_inventory_says_where_it_belongs() -> None:
    with pytest.raises(InputError) as caught:
        fleet({"gpu": {"hosts": ["a"], "vars": {"gpu_stack": TF, "gpu_serial": 1}}})
    assert "-e gpu_serial=" in caught.value.hint


def test_the_line_is_found() -> None:
    text = "# cuda_profil: no\ngpu:\n  vars:\n    cuda_profil: runtime\n"
    assert Sources({"lab/hosts.yml": text}).where("cuda_profil", near="gpu") == "lab/hosts.yml:4"
    assert Sources({"lab/h": "a cuda_hold=no\n"}).where("cuda_hold", near="a") == "lab/h:1"
    assert Sources({"lab/h": "xcuda_hold: no\n"}).where("cuda_hold", near="a") == ""


def test_the_file_of_the_right_group_comes_first() -> None:
    sources = Sources({"lab/a.yml": "gpu_stack: {}\n", "lab/b.yml": "gpu_stack: {}\n"})
    assert sources.where("gpu_stack", near="b") == "lab/b.yml:1"


FOREIGN: dict[str, Any] = {"nvidia_driver_branch": "535", "cuda_version": 12.2, "cuda_hold": "?"}


def test_words_like_ours_in_groups_without_our_hosts_are_somebody_elses() -> None:
    """DeepOps' `nvidia_driver_branch` in a group of its own stopped every command."""
    groups = {
        "all": {"children": ["gpu", "slurm"]},
        "gpu": {"hosts": ["a"], "vars": {"gpu_stack": TF}},
        "slurm": {"hosts": ["login"], "vars": FOREIGN},
    }
    parsed = fleet(groups, {"login": {"cuda_reinstall": 1}})
    assert list(parsed.hosts) == ["a"]
    assert parsed.warnings == ()


def test_words_of_a_host_that_was_taken_out_of_a_wish_are_somebody_elses() -> None:
    groups = {"gpu": {"hosts": ["a", "b"], "vars": {"gpu_stack": TF}}}
    parsed = fleet(groups, {"b": {"gpu_stack": None, **FOREIGN}})
    assert (list(parsed.hosts), parsed.other_hosts, parsed.warnings) == (["a"], ("b",), ())


@pytest.mark.parametrize("owner", ["all", "gpu", "a"])
def test_words_of_ours_that_reach_our_hosts_are_checked(owner: str) -> None:
    variables: dict[str, dict[str, Any]] = {"all": {}, "gpu": {"gpu_stack": TF}, "a": {}}
    variables[owner] |= {"cuda_version": "12.2"}
    groups = {
        "all": {"children": ["gpu"], "vars": variables["all"]},
        "gpu": {"hosts": ["a"], "vars": variables["gpu"]},
    }
    with pytest.raises(InputError, match="cuda_version is decided by the lock") as caught:
        fleet(groups, {"a": variables["a"]})
    assert "another program's" in caught.value.hint


def test_a_misspelt_gpu_stack_is_refused_though_its_hosts_have_no_wish_then() -> None:
    groups = {
        "gpu": {"hosts": ["a"], "vars": {"gpu_stack": TF}},
        "new": {"hosts": ["b"], "vars": {"gpu_stak": TF}},
    }
    with pytest.raises(InputError, match="no variable 'gpu_stak'") as caught:
        fleet(groups)
    assert caught.value.hint == "did you mean gpu_stack?"


class Unread(Mapping[str, str]):
    """Files that nobody may look into."""

    def __getitem__(self, name: str) -> str:
        raise AssertionError(name)

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("files were searched")

    def __len__(self) -> int:
        raise AssertionError("files were searched")


def test_nothing_is_done_per_host_that_can_be_done_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 hosts with the same words: each is compared once, no file is read without a fault."""
    compared = []
    slip = "provision.inventory.spelling._slip"
    monkeypatch.setattr(slip, lambda name, _known: compared.append(name) or "")
    hosts = [f"gpu{number}" for number in range(50)]
    hostvars = {host: {"rack": 1, "cuda_hold": False, "owner_team": "a"} for host in hosts}
    groups = {"gpu": {"hosts": hosts, "vars": {"gpu_stack": TF}}}
    parsed = parse(export(groups, hostvars), WORDS, Sources(Unread()))
    assert list(parsed.hosts) == hosts
    assert len(set(map(id, parsed.hosts.values()))) == 1
    assert compared == ["rack", "owner_team"]


def test_a_group_and_a_host_of_one_name_are_two() -> None:
    groups = {"a": {"hosts": ["a", "b"], "vars": {"gpu_stack": TF}}}
    parsed = fleet(groups, {"a": {"gpu_stack": {"tensorflow": "2.9.1"}}})
    assert {h: w.tensorflow for h, w in parsed.hosts.items()} == {"a": "2.9.1", "b": "2.9"}


@given(st.text(max_size=8), st.text(max_size=8))
def test_the_distance_is_a_distance(a: str, b: str) -> None:
    assert distance(a, b) == distance(b, a)
    assert (distance(a, b) == 0) == (a == b)
    assert distance(a, b) <= max(len(a), len(b))


def test_a_swap_is_one_slip() -> None:
    assert distance("verison", "version") == 1


def test_what_reads_a_type_of_option_is_made_once() -> None:
    """A fleet can set one option on each of 10,000 hosts."""
    assert base._adapter(int) is base._adapter(int)
