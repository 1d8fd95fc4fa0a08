"""A row may be for some GPU generations only, and a host must be what the inventory says it is."""

from __future__ import annotations

import copy
from typing import Any

import converged_host as made
import gpu_stack.look
import gpu_stack.plan
import pytest
from gpu_stack.host import gpu_models, platform

from provision.catalog import gpus, load

T4, M40, K80, NEW = "0x1eb8", "0x17fd", "0x102d", "0xfffe"
WISH = {"python": "3.11"}


def found(*devices: str, **system: str) -> dict[str, Any]:
    """A host with nothing installed and these GPUs."""
    facts = made.bare(release="12")
    facts["platform"].update(system)
    facts["gpus"] = [{"index": n, "device": device} for n, device in enumerate(devices)]
    return facts


def lock(*generations: list[str] | None, models: dict[str, list[str]] | None = None) -> Any:
    """A row for each, and a stack for each row; None is a row for all."""
    rows: list[dict[str, Any]] = []
    for number, names in enumerate(generations):
        row: dict[str, Any] = {
            "platform": {"distribution": "debian", "release": "12", "architecture": "x86_64"},
            "wish": WISH,
            "stack": f"stack{number}",
        }
        if names is not None:
            row["generations"] = names
        if models is not None:
            row["models"] = models
        rows.append(row)
    return {
        "digest": "sha256:x",
        "rows": rows,
        "stacks": {row["stack"]: {"name": row["stack"]} for row in rows},
    }


def chosen(lock: Any, *devices: str) -> Any:
    host = found(*devices)
    return gpu_stack.plan.choose(lock, WISH, host["platform"], host["gpus"])[0]


@pytest.mark.parametrize(
    ("devices", "stack"),
    [
        ([M40], "stack0"),
        ([T4], "stack1"),
        ([T4, T4, T4, T4], "stack1"),
        ([M40, T4], "stack2"),
        ([T4, M40], "stack2"),
        ([T4, NEW], "stack1"),
        ([K80], None),
        ([], None),
        ([NEW], None),
    ],
)
def test_a_row_of_generations_is_for_hosts_of_just_these(
    devices: list[str], stack: str | None
) -> None:
    assert chosen(lock(["Maxwell"], ["Turing"], ["Maxwell", "Turing"]), *devices) == stack


@pytest.mark.parametrize("rows", [[None, ["Turing"]], [["Turing"], None]])
def test_a_row_for_all_comes_after_that_of_its_generations(rows: list[Any]) -> None:
    made_lock = lock(*rows)
    assert chosen(made_lock, T4) == f"stack{rows.index(['Turing'])}"
    for devices in ([], [M40], [T4, M40], [NEW]):
        assert chosen(made_lock, *devices) == f"stack{rows.index(None)}"


def test_a_host_without_a_row_for_its_gpus_is_told_both() -> None:
    plan = gpu_stack.plan.plan(lock(["Maxwell"], ["Maxwell", "Turing"]), WISH, {}, found(K80))
    [blocker] = plan["blockers"]
    assert (plan["stack"], blocker["id"]) == (None, "no-row")
    assert blocker["message"] == (
        "the lock has no row for debian 12 x86_64 with python 3.11 on Kepler GPUs; it has: "
        "debian 12 x86_64 with python 3.11 on Maxwell GPUs; "
        "debian 12 x86_64 with python 3.11 on Maxwell and Turing GPUs"
    )
    plan = gpu_stack.plan.plan(lock(["Maxwell"]), WISH, {}, found())
    assert "on no GPU that is known; it has" in plan["blockers"][0]["message"]


def test_the_look_and_the_plan_choose_the_same_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """A component's look may read what its part of the row names."""
    seen: list[Any] = []
    host = found(T4)
    monkeypatch.setattr(platform, "look", lambda _: host["platform"])
    monkeypatch.setattr(platform, "gpus", lambda _: host["gpus"])
    monkeypatch.setattr(
        gpu_stack.components.cuda, "look", lambda context: seen.append(context.row) or {}
    )
    rows = lock(["Maxwell"], ["Turing"])
    result = gpu_stack.look.look(rows, WISH, runner=gpu_stack.host.context.run_nothing)
    assert seen == [{"name": "stack1"}]
    assert result["gpus"] == host["gpus"]
    assert gpu_stack.plan.plan(rows, WISH, {}, host)["stack"] == "stack1"


def test_what_stands_beside_is_that_of_the_row() -> None:
    rows = lock(["Maxwell"], ["Turing"])
    part = {"version": "2.14.1", "requirements_sha256": "0" * 64, "python": "3.11", "wheels": {}}
    rows["stacks"]["other"] = {"tensorflow": part}
    rows["rows"][1]["beside"] = ["other"]
    host = found(T4)
    assert gpu_stack.plan.choose(rows, WISH, host["platform"], host["gpus"])[1]["beside"] == [part]
    assert [stack["stack"] for stack in gpu_stack.plan._beside(rows, WISH, host)] == ["other"]
    assert gpu_stack.plan._beside(rows, WISH, found(M40)) == []


def test_the_table_of_generations_is_the_catalogs() -> None:
    wrong = {
        identity: (name, generation)
        for identity, (name, generation, _) in gpus.devices().items()
        if gpu_models.generation("0x" + identity) != generation
    }
    assert not wrong


def test_the_platforms_names_are_the_catalogs() -> None:
    for row in load().platforms:
        assert platform.identity(row.platform.as_data()) == row.id


# what the inventory says


def blockers(
    options: dict[str, Any], *devices: str, given_lock: Any = None
) -> list[dict[str, Any]]:
    models = {"Tesla T4": ["1eb8"], "A100": ["20b0", "20f1"], "10de:17fd": ["17fd"]}
    plan = gpu_stack.plan.plan(
        given_lock or lock(None, models=models), WISH, options, found(*devices), only=["none"]
    )
    result: list[dict[str, Any]] = plan["blockers"]
    return result


@pytest.mark.parametrize(
    ("options", "devices"),
    [
        ({}, [T4]),
        ({"gpu_platform": "", "gpu_models": []}, [T4]),
        ({"gpu_platform": "debian12"}, []),
        ({"gpu_models": ["Tesla T4"]}, [T4]),
        ({"gpu_models": ["Tesla T4"]}, [T4, T4]),
        ({"gpu_models": ["Tesla T4", "A100"]}, ["0x20f1", T4]),
        ({"gpu_models": ["10de:17fd"]}, [M40]),
    ],
)
def test_a_host_that_is_what_was_said(options: dict[str, Any], devices: list[str]) -> None:
    assert blockers(options, *devices) == []


@pytest.mark.parametrize(
    ("options", "devices", "message"),
    [
        (
            {"gpu_platform": "debian11"},
            [],
            "gpu_platform says debian11, and this host is debian 12 x86_64",
        ),
        (
            {"gpu_models": ["Tesla T4"]},
            [M40, M40],
            "gpu_models says Tesla T4, and on this host's PCI bus there is 10de:17fd",
        ),
        (
            {"gpu_models": ["Tesla T4"]},
            [T4, M40],
            "gpu_models says Tesla T4, and on this host's PCI bus there is 10de:17fd, 10de:1eb8",
        ),
        (
            {"gpu_models": ["Tesla T4", "A100"]},
            [T4],
            "gpu_models says Tesla T4, A100, and on this host's PCI bus there is 10de:1eb8",
        ),
        (
            {"gpu_models": ["Tesla T4"]},
            [],
            "gpu_models says Tesla T4, and on this host's PCI bus there is no NVIDIA GPU",
        ),
        (
            {"gpu_models": ["L4", "Tesla T4"]},
            [T4],
            "gpu_models says L4, which the lock knows nothing of",
        ),
    ],
)
def test_a_host_that_is_another_thing_is_blocked_with_both(
    options: dict[str, Any], devices: list[str], message: str
) -> None:
    [blocker] = blockers(options, *devices)
    assert blocker["message"] == message
    assert "provision lock" in blocker["hint"]
    assert blocker["component"] is None


def test_what_is_wrong_is_all_said_at_once() -> None:
    models = {"Tesla T4": ["1eb8"]}
    options = {"gpu_platform": "debian11", "gpu_models": ["Tesla T4"]}
    made_lock = lock(["Turing"], models=models)
    before = copy.deepcopy(made_lock)
    ids = [blocker["id"] for blocker in blockers(options, M40, given_lock=made_lock)]
    assert ids == ["another-platform", "other-gpus", "no-row"]
    assert made_lock == before
