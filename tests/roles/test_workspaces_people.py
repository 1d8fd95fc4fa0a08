"""Workspaces: who is refused, and who gets which GPU."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_stack.components.gpu_workspace import allocation
from gpu_stack.components.gpu_workspace.program import people_list
from workspace_machine import KEY, SECRET, UUIDS, person


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("ada", "it is a list of people"),
        (["ada"], "entry 1 is no mapping"),
        ([{"gpus": 1}], "entry 1: nothing is no user name"),
        ([person("Ada Lovelace")], 'entry 1: "Ada Lovelace" is no user name'),
        ([person("-ada")], "is no user name"),
        ([person("a" * 33)], "is no user name"),
        ([person(gpuz=1)], 'ada has the unknown word "gpuz"; expected name, kind'),
        ([{"name": "ada", "port": 1}], "ada needs gpus"),
        ([{"name": "ada", "gpus": 1}], "ada needs port"),
        ([person(kind="shell")], "ada: kind is jupyter, ssh or both"),
        ([person(kind="ssh", ssh_port=1, ssh_keys=[KEY])], "ada: port has no meaning for kind ssh"),
        ([person(tensorboard_port=0)], "ada: tensorboard_port is a number from 1"),
        ([person(tensorboard_port=8801)], "port 8801 is said twice (ada and ada)"),
        ([person(ssh_port=1)], "ada: ssh_port has no meaning for kind jupyter"),
        ([person(kind="both", ssh_port=1)], "ada needs ssh_keys: a list of public keys"),
        (
            [person("root", kind="both", ssh_port=1, ssh_keys=[KEY])],
            "entry 1: root is an account that sshd itself needs",
        ),
        (
            [person("sshd", kind="both", ssh_port=1, ssh_keys=[KEY])],
            "entry 1: sshd is an account that sshd itself needs",
        ),
        ([person(kind="both", ssh_keys=[KEY])], "ada needs ssh_port: a number"),
        ([person(kind="both", ssh_port=0, ssh_keys=[KEY])], "ada: ssh_port is a number"),
        ([person(kind="both", ssh_port=1, ssh_keys=[])], "ada: ssh_keys is a list of public"),
        ([person(kind="both", ssh_port=1, ssh_keys=KEY)], "ada: ssh_keys is a list of public"),
        ([person(kind="both", ssh_port=1, ssh_keys=["ssh-dss " + 60 * "A"])], "ada: ssh_keys is"),
        (
            [person(kind="both", ssh_port=1, ssh_keys=[KEY + "\ncommand ssh-rsa"])],
            "ada: ssh_keys is",
        ),
        (
            [person(kind="both", ssh_port=8801, ssh_keys=[KEY])],
            "port 8801 is said twice (ada and ada)",
        ),
        (
            [person(), person("bob", port=2, kind="both", ssh_port=8801, ssh_keys=[KEY])],
            "port 8801 is said twice (ada and bob)",
        ),
        ([person(gpus=0)], "ada: gpus is all, none"),
        ([person(gpus=True)], "ada: gpus is all, none"),
        ([person(gpus="some")], "ada: gpus is all, none"),
        ([person(gpus=[])], "ada: gpus is all, none"),
        ([person(gpus=[0, 0])], "ada: gpus is all, none"),
        ([person(gpus=[-1])], "ada: gpus is all, none"),
        ([person(gpus=["first"])], "ada: gpus is all, none"),
        ([person(shared="yes")], "ada: shared is true or false"),
        ([person(cpus=-1)], "ada: cpus is a number"),
        ([person(cpus="2")], "ada: cpus is a number"),
        ([person(memory="16")], 'ada: memory is a size like "16g"'),
        ([person(memory=16)], "ada: memory is a size"),
        ([person(memory="0g")], "ada: memory is a size"),
        ([person(shm_size="")], 'ada: shm_size is a size like "1g"'),
        ([person(port=0)], "ada: port is a number from 1 to 65535"),
        ([person(port=65536)], "ada: port is a number"),
        ([person(port="8801")], "ada: port is a number"),
        ([person(user="ada")], "ada: user is numbers"),
        ([person(volumes=["/data"])], "ada: volumes is a list of {path"),
        ([person(volumes=[{"at": "/data"}])], "ada: volumes is"),
        ([person(volumes=[{"path": "data"}])], "ada: volumes is"),
        ([person(volumes=[{"path": "/a,readonly=false"}])], "ada: volumes is"),
        ([person(volumes=[{"path": "/a", "writeable": True}])], "ada: volumes is"),
        ([person(volumes=[{"path": "/a", "writable": "no"}])], "ada: volumes is"),
        ([person(), person(port=2)], "name ada is said twice"),
        (
            [person(user="5001:5000"), person("bob", port=2, user="5001")],
            "user 5001 is said twice (ada and bob)",
        ),
        ([person(), person("bob")], "port 8801 is said twice (ada and bob)"),
    ],
)
def test_what_is_refused_and_why(value: Any, words: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 the words are compared below
        people_list.checked(value)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("word", "there"), [("token", "gpu_workspace_tokens"), ("password", "gpu_workspace_passwords")]
)
def test_a_secret_among_the_people_is_refused_and_not_shown(word: str, there: str) -> None:
    with pytest.raises(ValueError, match=there) as error:
        people_list.checked([person(**{word: SECRET})])
    assert SECRET not in str(error.value)


def test_what_is_not_said_has_its_default() -> None:
    entry = people_list.checked([person(memory="2g")])[0]
    assert entry == {
        "name": "ada",
        "kind": "jupyter",
        "gpus": "none",
        "port": 8801,
        "shared": False,
        "cpus": 0,
        "memory": "2g",
        "shm_size": "1g",
        "user": "",
        "volumes": [],
    }


@pytest.mark.parametrize(
    ("ada", "bob", "clash"),
    [
        ("all", "none", False),
        ("all", 1, True),
        ("all", "all", True),
        ([0], [1], False),
        ([0, 1], [1], True),
        (["GPU-aaaaaaaa"], ["GPU-aaaaaaaa"], True),
        (1, 1, False),
    ],
)
def test_a_gpu_is_promised_once_unless_both_say_shared(ada: Any, bob: Any, clash: bool) -> None:
    def both(**more: Any) -> Any:
        return [person(gpus=ada, **more), person("bob", port=2, gpus=bob, **more)]

    if clash:
        with pytest.raises(ValueError, match="shared: true of both"):
            people_list.checked(both())
        people = both()
        people[0]["shared"] = True
        with pytest.raises(ValueError, match="shared: true of both"):
            people_list.checked(people)
    else:
        people_list.checked(both())
    people_list.checked(both(shared=True))


# who gets which GPU


def given(kept: dict[str, Any] | None = None, **gpus: Any) -> Any:
    people = [
        person(name, port=number, gpus=wished["gpus"] if isinstance(wished, dict) else wished,
               shared=isinstance(wished, dict))
        for number, (name, wished) in enumerate(gpus.items(), 1)
    ]  # fmt: skip
    return allocation.allocated(people_list.checked(people), UUIDS, kept or {})


def test_numbers_get_the_gpus_that_nobody_named() -> None:
    assert given(ada=1, bob=[0], eve="none") == {"ada": [1], "bob": [0], "eve": []}
    assert given(ada=2, bob=["GPU-bbbbbbbb"]) == {"ada": [0, 2], "bob": [1]}
    assert given(ada="all") == {"ada": "all"}


def test_who_has_gpus_keeps_them_whoever_comes() -> None:
    assert given(ada=1, bob=1, eve=1, kept={"eve": [0], "bob": [2]}) == {
        "eve": [0],
        "bob": [2],
        "ada": [1],
    }
    # One who now asks for more, or whose GPU somebody was promised by its number, gets others.
    assert given(ada=2, kept={"ada": [2]}) == {"ada": [0, 1]}
    assert given(ada=1, bob=[2], kept={"ada": [2]}) == {"ada": [0], "bob": [2]}


def test_those_who_share_take_free_ones_first() -> None:
    assert given(ada={"gpus": 2}, bob={"gpus": 2}) == {"ada": [0, 1], "bob": [0, 2]}


@pytest.mark.parametrize(
    ("gpus", "words"),
    [
        ({"ada": 4}, "ada asks for 4 GPUs, and 3 of the host's 3 are left"),
        ({"ada": 2, "bob": 2}, "bob asks for 2 GPUs, and 1 of the host's 3 are left"),
        ({"ada": [3]}, "ada asks for GPU 3, and nvidia-smi lists 0 to 2"),
        ({"ada": ["GPU-dddddddd"]}, "ada asks for GPU GPU-dddddddd"),
        ({"ada": [1], "bob": ["GPU-bbbbbbbb"]}, "GPU 1 is promised twice, to ada and bob"),
    ],
)
def test_gpus_that_are_not_there_are_refused(gpus: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 the words are compared below
        given(**gpus)
    assert words in str(error.value)


def test_all_of_no_gpus_are_none() -> None:
    with pytest.raises(ValueError, match="nvidia-smi lists none"):
        allocation.allocated(people_list.checked([person(gpus="all")]), [], {})
