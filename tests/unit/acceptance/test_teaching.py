"""Figures are judged by the catalog, by like cards and by a card's own history."""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Sequence
from typing import Any

import pytest
from gpu_stack.acceptance import findings, judge, words
from gpu_stack.acceptance.teaching import bounds, judgement, rates

from tests.unit.acceptance.fleets import (
    DAY,
    NOW,
    UNPUBLISHED,
    figure,
    host,
    measured,
    past,
    rate_of,
    uuid,
)

Verdict = dict[str, Any]


def taught(
    verdicts: dict[str, Verdict], earlier: Sequence[Any] = (), now: float = NOW
) -> dict[str, Verdict]:
    judged = judgement.teach(verdicts, earlier, now)
    return {name: judgement.apply(entry, judged.get(name, [])) for name, entry in verdicts.items()}


def slow(verdicts: dict[str, Verdict], earlier: Sequence[Any] = ()) -> list[tuple[str, int]]:
    """(host, GPU) of the cards whose rate is degraded."""
    return [
        (name, index)
        for name, verdict in taught(verdicts, earlier).items()
        for index in range(len(verdict["gpus"]))
        if rate_of(verdict, index)["state"] == "degraded"
    ]


def states(verdicts: dict[str, Verdict], earlier: Sequence[Any] = ()) -> set[str]:
    return {
        rate_of(verdict, index)["state"]
        for verdict in taught(verdicts, earlier).values()
        for index in range(len(verdict["gpus"]))
    }


# like cards


def test_a_slow_card_among_four_is_named_with_what_it_was_compared_with() -> None:
    verdict = taught({"gpu07": host("gpu07", [14.0, 14.2, 11.3, 14.3])})["gpu07"]
    finding = rate_of(verdict, 2)
    assert (finding["state"], finding["action"]) == ("degraded", "service")
    assert finding["threshold"] == {"value": 11.98, "source": "fleet"}
    assert finding["reason"] == (
        "11.3 TFLOP/s; less than 12 TFLOP/s: the median of 4 like cards is 14.1"
    )
    assert "cooling" in finding["how"]
    assert (verdict["verdict"], verdict["action"]) == ("degraded", "service")
    assert [gpu["verdict"] for gpu in verdict["gpus"]] == ["ok", "ok", "degraded", "ok"]
    assert [gpu["action"] for gpu in verdict["gpus"]] == [
        "nothing",
        "nothing",
        "service",
        "nothing",
    ]
    (line,) = words.faults(verdict)
    assert line.startswith(f"GPU 2 {uuid('gpu07', 2)} (")


def test_the_others_are_ok_by_the_same_teacher() -> None:
    finding = rate_of(taught({"gpu07": host("gpu07", [14.0, 14.2, 11.3, 14.3])})["gpu07"], 0)
    assert (finding["state"], finding["action"], finding["how"]) == ("ok", "nothing", "")
    assert (
        finding["reason"] == "14.0 TFLOP/s; at least 12 TFLOP/s: the median of 4 like cards is 14.1"
    )
    assert finding["figure"] == figure(14.0)
    assert finding["check"] == "rate"


def test_cards_of_several_hosts_teach_each_other() -> None:
    hosts = {name: host(name, [rate]) for name, rate in (("a", 14), ("b", 14.2), ("c", 9))}
    assert slow(hosts) == [("c", 0)]


def test_two_cards_of_a_model_teach_nothing() -> None:
    assert states({"a": host("a", [14.0, 7.0])}) == {"measured"}
    assert states({"a": host("a", [14.0]), "b": host("b", [7.0])}) == {"measured"}


@pytest.mark.parametrize(
    "other",
    [
        {"model": "NVIDIA Made Up 2"},
        {"level": "long"},
        {"driver": "535.1"},
        {"tensorflow": "2.10.1"},
        {"simulated": True},
    ],
)
def test_only_like_cards_are_compared(other: dict[str, Any]) -> None:
    hosts = {"a": host("a", [14.0, 14.1]), "b": host("b", [7.0], **other)}
    assert states(hosts) == {"measured"}
    hosts["b"] = host("b", [7.0], driver="550.1", tensorflow="2.9.1")
    assert slow(hosts) == [("b", 0)]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("part", "900-1"),
        ("memory", {"total": 2**30}),
        ("power_limit", 50000),
        ("mig", True),
    ],
)
def test_a_card_that_is_made_or_set_otherwise_is_not_compared(key: str, value: Any) -> None:
    verdict = host("a", [14.0, 14.1, 7.0])
    assert slow({"a": verdict}) == [("a", 2)]
    card = verdict["gpus"][2]
    (card if key == "part" else card["measured"])[key] = value
    assert states({"a": verdict}) == {"measured"}


def test_simulated_cards_do_not_teach_real_ones() -> None:
    simulated = {
        f"lab{number}": host(f"lab{number}", [14.0], simulated=True) for number in range(4)
    }
    assert states({"a": host("a", [7.0])} | simulated) == {"measured", "ok"}
    assert slow({"a": host("a", [7.0])} | simulated) == []


def test_what_a_processor_measured_in_a_cards_place_is_left_as_it_is() -> None:
    verdict = host("a", [14.0, 14.1, 14.2, 7.0])
    for gpu in verdict["gpus"]:
        gpu["checks"][-1]["stand_in"] = True
    assert states({"a": verdict}, past("a", 3, [14, 14, 14])) == {"measured"}
    # And it teaches nobody.
    rate_of(verdict, 3)["stand_in"] = False
    assert states({"a": verdict}) == {"measured"}


def test_a_fleet_half_of_which_is_slow_does_not_accuse_the_good_half() -> None:
    for count in (4, 6, 8):
        good, bad = [14.0 + 0.01 * place for place in range(count // 2)], [7.0] * (count // 2)
        assert not {index for _, index in slow({"a": host("a", good + bad)})} & set(
            range(len(good))
        )
        assert not [index for _, index in slow({"a": host("a", [*good, *bad, 7.1])})]


def test_three_of_eight_slow_cards_are_named() -> None:
    assert slow({"a": host("a", [14, 9, 14.1, 9.1, 13.9, 14, 9, 14])}) == [
        ("a", 1), ("a", 3), ("a", 6)
    ]  # fmt: skip


def test_ordinary_spread_is_no_fault() -> None:
    """Deviations of up to 4 %: equal cards of a cluster differ by 8 % (arXiv 2208.11035)."""
    dice = random.Random(2208)  # noqa: S311 (no secret)
    for _ in range(40):
        deviation = dice.uniform(0.005, 0.04)
        rate = dice.uniform(4, 60)
        hosts = {
            f"gpu{number:02}": host(
                f"gpu{number:02}",
                [
                    round(dice.gauss(rate, deviation * rate), 3)
                    for _ in range(dice.choice((1, 2, 4, 8)))
                ],
            )
            for number in range(dice.randint(3, 12))
        }
        assert slow(hosts) == []
        assert states(hosts) == {"ok"}


def test_the_order_of_hosts_does_not_matter() -> None:
    hosts = {name: host(name, rates) for name, rates in
             {"a": [14.0, 14.4], "b": [11.0, 13.8], "c": [14.1]}.items()}  # fmt: skip
    earlier = [*past("a", 0, [14, 14.1, 13.9]), *past("d", 0, [14, 14, 15])]
    expected = taught(hosts, earlier)
    assert slow(hosts, earlier) == [("b", 0)]
    for order in itertools.permutations(hosts):
        dice = random.Random(1)  # noqa: S311 (no secret)
        shuffled = dice.sample(earlier, len(earlier))
        assert taught({name: hosts[name] for name in order}, shuffled) == expected


def test_a_card_that_failed_neither_teaches_nor_is_judged() -> None:
    verdict = host("a", [14.0, 14.1, 9.0])
    verdict["gpus"][0]["verdict"] = "failed"
    assert states({"a": verdict}) == {"measured"}


def test_a_value_that_is_no_number_is_left_out() -> None:
    for value in (float("nan"), float("inf"), 10**400, "14", None):
        verdict = host("a", [14.0, 14.1, 9.0])
        verdict["gpus"][0]["checks"][-1]["figure"]["value"] = value
        assert states({"a": verdict}) == {"measured"}


def test_a_finding_that_is_judged_already_teaches_and_stays() -> None:
    verdict = host("a", [14.0, 14.1, 9.0])
    for index in (0, 2):
        rate_of(verdict, index)["state"] = "ok"
    assert [rate_of(taught({"a": verdict})["a"], i)["state"] for i in range(3)] == ["ok"] * 3
    assert "threshold" not in rate_of(taught({"a": verdict})["a"], 2)


def test_where_less_is_better_the_slow_one_has_more() -> None:
    verdict = host("a", [1, 1, 1, 1])
    for index, value in enumerate((10.0, 10.1, 14.0, 9.9)):
        verdict["gpus"][index]["checks"][-1] = measured(value, unit="ms", better="lower")
    assert slow({"a": verdict}) == [("a", 2)]
    judged = taught({"a": verdict})["a"]
    assert "more than 13.1 ms: the median" in rate_of(judged, 2)["reason"]
    assert "at most 13.1 ms: the median" in rate_of(judged, 3)["reason"]


def test_copies_and_images_may_differ_more_than_products() -> None:
    def named(unit: str, value: float) -> bool:
        verdict = host("a", [1, 1, 1, 1])
        for index, rate in enumerate((100, 100, 100, value)):
            verdict["gpus"][index]["checks"][-1] = measured(rate, unit=unit)
        return bool(slow({"a": verdict}))

    assert [named("TFLOP/s", value) for value in (86, 84)] == [False, True]
    assert [named("images/s", value) for value in (83, 81)] == [False, True]
    assert [named("GB/s", value) for value in (71, 69)] == [False, True]


def test_a_card_may_lose_less_than_it_may_differ_from_others() -> None:
    def named(unit: str, value: float) -> bool:
        verdict = host("a", [1.0])
        verdict["gpus"][0]["checks"][-1] = measured(value, unit=unit)
        return bool(slow({"a": verdict}, past("a", 0, [100, 100, 100])))

    assert [named("TFLOP/s", value) for value in (91, 89)] == [False, True]
    assert [named("images/s", value) for value in (86, 84)] == [False, True]
    assert [named("GB/s", value) for value in (76, 74)] == [False, True]


def test_figures_of_one_card_are_judged_each_by_its_own() -> None:
    def more(name: str, value: float, unit: str, better: str) -> Verdict:
        return measured(value, name, name=name.split()[0], unit=unit, better=better)

    verdict = host("a", [14.0] * 3)
    for gpu in verdict["gpus"]:
        gpu["checks"] += [
            more("x", 100, "TFLOP/s", "higher"),
            more("y", 1, "TFLOP/s", "higher"),
            more("x in GB/s", 100, "GB/s", "higher"),
            more("x less is better", 100, "TFLOP/s", "lower"),
        ]
    checks = taught({"a": verdict})["a"]["gpus"][0]["checks"][-4:]
    assert [check["threshold"]["value"] for check in checks] == [85, 0.85, 70, 115]


def test_a_slow_copy_is_the_slots_before_it_is_the_cards() -> None:
    verdict = host("a", [12, 12, 12, 6])
    for gpu in verdict["gpus"]:
        gpu["checks"][-1]["figure"]["unit"] = "GB/s"
    finding = rate_of(taught({"a": verdict})["a"], 3)
    assert (finding["action"], finding["how"]) == ("reseat", findings.HOW["reseat"])


# the catalog


def test_the_catalog_judges_a_single_card() -> None:
    finding = rate_of(taught({"a": host("a", [2.0], "Tesla T4")})["a"], 0)
    assert (finding["state"], finding["action"]) == ("degraded", "service")
    assert finding["threshold"] == {"value": 2.835, "source": "catalog"}
    assert finding["reason"].endswith("less than 2.83 TFLOP/s: 8.1 is published for it")
    finding = rate_of(taught({"a": host("a", [4.0], "NVIDIA Tesla T4")})["a"], 0)
    assert (finding["state"], finding["threshold"]["source"]) == ("ok", "catalog")


@pytest.mark.parametrize(
    ("name", "least"),
    [("fp32_tflops", 2.835), ("fp16_tensor_tflops", 19.5)],
)
def test_each_figure_has_its_own_share_of_the_published_one(name: str, least: float) -> None:
    verdict = host("a", [1.0], "Tesla T4")
    rate_of(verdict, 0)["figure"]["name"] = name
    finding = rate_of(taught({"a": verdict})["a"], 0)
    assert finding["threshold"] == {"value": least, "source": "catalog"}


def test_what_the_catalog_lacks_is_measured() -> None:
    assert states({"a": host("a", [0.1], UNPUBLISHED)}) == {"measured"}
    verdict = host("a", [0.1], "Tesla T4")
    rate_of(verdict, 0)["figure"]["name"] = "images_per_s"
    assert states({"a": verdict}) == {"measured"}
    # A P40 has no tensor cores.
    verdict = host("a", [0.1], "Tesla P40")
    rate_of(verdict, 0)["figure"]["name"] = "fp16_tensor_tflops"
    assert states({"a": verdict}) == {"measured"}


def test_a_card_that_is_held_back_is_not_held_to_its_published_figures() -> None:
    for change in ({"power_limit": 40000}, {"mig": True}):
        verdict = host("a", [2.0], "Tesla T4")
        verdict["gpus"][0]["measured"].update(change)
        assert states({"a": verdict}) == {"measured"}
    verdict = host("a", [2.0], "Tesla T4", simulated=True)
    assert states({"a": verdict}) == {"measured"}


def test_a_whole_fleet_below_its_published_figure_shares_a_cause() -> None:
    verdict = taught({"a": host("a", [2.0, 2.1, 2.0], "Tesla T4")})["a"]
    finding = rate_of(verdict, 0)
    assert (finding["state"], finding["action"]) == ("degraded", "configure")
    assert finding["how"].startswith("cards like it are as slow")
    assert finding["evidence"] == ["fleet: at least 1.7 TFLOP/s: the median of 3 like cards is 2"]


# history


def test_a_card_that_lost_speed_is_named() -> None:
    finding = rate_of(taught({"a": host("a", [11.0])}, past("a", 0, [14, 14.1, 13.9]))["a"], 0)
    assert (finding["state"], finding["action"]) == ("degraded", "service")
    assert finding["threshold"] == {"value": 12.6, "source": "history"}
    assert finding["reason"].endswith(
        "less than 12.6 TFLOP/s: its median of 3 earlier acceptances is 14"
    )


def test_two_earlier_values_are_no_history() -> None:
    assert states({"a": host("a", [11.0])}, past("a", 0, [14, 14.1])) == {"measured"}
    assert states({"a": host("a", [13.0])}, past("a", 0, [14, 14.1, 14])) == {"ok"}


def test_only_the_last_values_of_a_card_count() -> None:
    finding = rate_of(taught({"a": host("a", [14.0])}, past("a", 0, [14.0] * 22))["a"], 0)
    assert finding["reason"].endswith("its median of 20 earlier acceptances is 14")
    earlier = past("a", 0, [28.0] * 30 + [14.0] * 20)
    assert states({"a": host("a", [14.0])}, earlier) == {"ok"}
    assert slow({"a": host("a", [14.0])}, past("a", 0, [28.0] * 30 + [14.0] * 9)) == [("a", 0)]


@pytest.mark.parametrize(
    "other",
    [{"like": "another"}, {"id": "GPU-b-0"}, {"good": False}, {"figure": "x"}, {"time": NOW}],
)
def test_other_cards_conditions_and_bad_days_are_no_history(other: dict[str, Any]) -> None:
    assert states({"a": host("a", [11.0])}, past("a", 0, [14, 14, 14], **other)) == {"measured"}


def test_a_sick_value_does_not_become_ordinary() -> None:
    earlier = [*past("a", 0, [11] * 9, good=False), *past("a", 0, [14, 14, 14], time=1)]
    assert slow({"a": host("a", [11.0])}, earlier) == [("a", 0)]


def test_the_strictest_teacher_decides_and_the_others_are_evidence() -> None:
    hosts = {"a": host("a", [12.8, 14.0, 14.1, 14.0])}
    finding = rate_of(taught(hosts, past("a", 0, [15, 15, 15]))["a"], 0)
    assert (finding["state"], finding["threshold"]["source"]) == ("degraded", "history")
    assert finding["evidence"] == ["fleet: at least 11.9 TFLOP/s: the median of 4 like cards is 14"]
    assert finding["action"] == "service"
    rate_of(hosts["a"], 0)["evidence"] = ["the host's own"]
    finding = rate_of(taught(hosts, past("a", 0, [12, 12, 12]))["a"], 0)
    assert (finding["state"], finding["threshold"]["source"]) == ("ok", "fleet")
    assert finding["evidence"][0] == "the host's own"


def test_where_less_is_better_the_strictest_is_the_lowest() -> None:
    verdict = host("a", [1.0] * 3)
    for index in range(3):
        verdict["gpus"][index]["checks"][-1] = measured(10.0, unit="ms", better="lower")
    for earlier, source in ((5, "history"), (20, "fleet")):
        finding = rate_of(taught({"a": verdict}, past("a", 0, [earlier] * 3))["a"], 0)
        assert finding["threshold"]["source"] == source


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (14.23, "14.2"),
        (0.61349, "0.613"),
        (1834, "1830"),
        (99.96, "100"),
        (999.7, "1000"),
        (0, "0"),
    ],
)
def test_numbers_have_three_digits_that_count(value: float, words: str) -> None:
    assert rates.number(value) == words


# the rest of the project's fleet


def test_a_limited_run_remembers_the_other_hosts() -> None:
    others = [*past("b", 0, [7, 14]), *past("c", 0, [14.1])]
    assert slow({"a": host("a", [9.0])}, others) == [("a", 0)]
    assert (
        "the median of 3 like cards"
        in rate_of(taught({"a": host("a", [9.0])}, others)["a"], 0)["reason"]
    )


def test_a_card_of_this_run_teaches_by_this_runs_value_alone() -> None:
    hosts = {"a": host("a", [9.0]), "b": host("b", [14.0])}
    assert states(hosts, past("b", 0, [14.0])) == {"measured"}


def test_hosts_that_were_not_asked_for_long_are_forgotten() -> None:
    def others(moment: float) -> list[Any]:
        return [*past("b", 0, [14], time=moment), *past("c", 0, [14], time=moment)]

    assert slow({"a": host("a", [9.0])}, others(NOW - 90 * DAY)) == [("a", 0)]
    assert states({"a": host("a", [9.0])}, others(NOW - 90 * DAY - 1)) == {"measured"}


def test_of_two_values_of_one_moment_the_higher_one_teaches() -> None:
    others = [*past("b", 0, [14], time=1 * DAY + NOW - 9 * DAY), *past("c", 0, [14])]
    both = [*past("c", 0, [7]), *others]
    for earlier in (both, both[::-1]):
        assert slow({"a": host("a", [9.0])}, earlier) == [("a", 0)]


# hosts


def test_what_all_cards_of_a_host_do_together_is_compared_with_like_hosts() -> None:
    hosts = {name: host(name, [14.0, 14.0]) for name in "abcd"}
    for name, verdict in hosts.items():
        verdict["checks"].append(measured(500 if name == "c" else 1000, "train", unit="images/s"))
    verdicts = taught(hosts)
    train = {name: verdict["checks"][-1] for name, verdict in verdicts.items()}
    assert [name for name in train if train[name]["state"] == "degraded"] == ["c"]
    assert train["c"]["action"] == "watch"
    assert train["c"]["how"] == findings.HOW["watch"]
    assert "the median of 4 like hosts is 1000" in train["c"]["reason"]
    assert (verdicts["c"]["verdict"], verdicts["c"]["action"]) == ("degraded", "watch")
    hosts["c"] = host("c", [14.0, 14.0, 14.0])
    hosts["c"]["checks"].append(measured(500, "train", unit="images/s"))
    assert taught(hosts)["c"]["checks"][-1]["state"] == "measured"


def test_a_host_on_which_something_failed_is_not_compared() -> None:
    hosts = {name: host(name, [14.0]) for name in "abc"}
    for verdict in hosts.values():
        verdict["checks"].append(measured(1000, "train", unit="images/s"))
    hosts["a"]["verdict"] = "failed"
    assert taught(hosts)["b"]["checks"][-1]["state"] == "measured"


# counters


def replays(name: str, number: int, days: float = 1.0) -> list[Any]:
    before = past(name, 0, [number], figure="pcie_replays", time=NOW - days * DAY)
    return [entry._replace(day="2025-11-23", like="whatever") for entry in before]


def counted(number: int) -> dict[str, Verdict]:
    verdict = host("a", [14.0])
    (entry,) = [entry for entry in verdict["gpus"][0]["checks"] if entry["check"] == "replays"]
    entry["figure"]["value"] = number
    return {"a": verdict}


def replay_finding(verdicts: dict[str, Verdict], earlier: Sequence[Any]) -> Verdict:
    checks = taught(verdicts, earlier)["a"]["gpus"][0]["checks"]
    (replays_finding,) = [entry for entry in checks if entry["check"] == "replays"]
    return replays_finding


def test_replays_are_judged_by_how_fast_they_grow() -> None:
    finding = replay_finding(counted(100 + 9 * 1440), replays("a", 100))
    assert (finding["state"], finding["action"]) == ("degraded", "reseat")
    assert finding["threshold"] == {"value": 8, "source": "NVIDIA"}
    assert finding["reason"] == (
        "0 PCIe replays since the driver was loaded; 9 a minute since 2025-11-23 "
        "(NVIDIA: at most 8)"
    )
    finding = replay_finding(counted(100 + 8 * 1440), replays("a", 100))
    assert (finding["state"], finding["threshold"]["source"]) == ("ok", "NVIDIA")
    assert finding["figure"]["value"] == 100 + 8 * 1440


def test_replays_of_a_first_day_of_a_new_driver_or_of_seconds_are_measured() -> None:
    assert replay_finding(counted(10**6), [])["state"] == "measured"
    assert replay_finding(counted(99), replays("a", 100))["state"] == "measured"
    assert replay_finding(counted(10**6), replays("a", 100, 59 / 86400))["state"] == "measured"
    assert replay_finding(counted(10**6), replays("a", 100, 60 / 86400))["state"] == "degraded"
    assert replay_finding(counted(10**6), replays("b", 100))["state"] == "measured"


def test_the_last_count_is_the_one_that_is_compared_with() -> None:
    earlier = [*replays("a", 10**6, 1), *replays("a", 0, 2)]
    assert replay_finding(counted(10**6), earlier)["state"] == "ok"
    assert replay_finding(counted(10**6), earlier[::-1])["state"] == "ok"


def test_like_cards_say_nothing_of_replays() -> None:
    hosts = {name: host(name, [14.0]) for name in "abcd"}
    hosts["a"] = counted(10**6)["a"]
    assert replay_finding(hosts, [])["state"] == "measured"


# settings


def limits(verdict: Verdict) -> list[list[str]]:
    """The evidence about each card's power limit."""
    judged = taught({"a": verdict})["a"]
    rows = [entry for gpu in judged["gpus"] for entry in gpu["checks"] if entry["check"] == "power"]
    assert {row["state"] for row in rows} <= {"measured", "not applicable"}
    return [row["evidence"] for row in rows]


def limited(*values: int | None) -> Verdict:
    verdict = host("a", [14.0] * len(values))
    for gpu, value in zip(verdict["gpus"], values, strict=True):
        gpu["measured"]["power_limit"] = value
    return verdict


def test_a_power_limit_that_like_cards_do_not_have_is_reported_and_no_fault() -> None:
    words = ["3 like cards may take 700 W"]
    assert limits(limited(700000, 50000, 700000, 700000)) == [[], words, [], []]
    assert limits(limited(700000, 700000, 50000)) == [[]] * 3
    assert limits(limited(700000, 700000, 700000, None)) == [[]] * 4
    # Half of them is no rule, and a few more than the others is one.
    assert limits(limited(*[700000] * 3, *[50000] * 3)) == [[]] * 6
    assert limits(limited(*[700000] * 3, 50000, 60000)) == [[], [], [], words, words]
    assert limits(limited(*[700000] * 2, *range(1, 4))) == [[]] * 5


def test_only_what_is_said_of_the_power_limit_is_added_to() -> None:
    verdict = limited(700000, 50000, 700000, 700000)
    checks = verdict["gpus"][1]["checks"]
    (power,) = [entry for entry in checks if entry["check"] == "power"]
    power["evidence"] = ["before"]
    assert limits(verdict)[1] == ["before", "3 like cards may take 700 W"]
    others = [entry for entry in checks if entry["check"] not in ("power", "rate")]
    found = taught({"a": verdict})["a"]["gpus"][1]["checks"]
    assert [entry for entry in found if entry["check"] not in ("power", "rate")] == others
    power["state"] = "not applicable"
    assert limits(verdict)[1] == ["before"]


@pytest.mark.parametrize("key", ["name", "part", "simulated"])
def test_power_limits_of_other_cards_say_nothing(key: str) -> None:
    hosts = {name: limited(700000) for name in "bcd"} | {"a": limited(50000)}

    def evidence() -> list[str]:
        checks = taught(hosts)["a"]["gpus"][0]["checks"]
        (power,) = [entry for entry in checks if entry["check"] == "power"]
        return list(power["evidence"])

    assert evidence() == ["3 like cards may take 700 W"]
    # An older driver leaves NVIDIA out.
    for verdict in (hosts["b"], hosts["c"]):
        verdict["gpus"][0]["name"] = "Made Up 1"
    assert evidence() == ["3 like cards may take 700 W"]
    for verdict in (hosts["b"], hosts["c"]):
        (verdict if key == "simulated" else verdict["gpus"][0])[key] = "another"
    assert evidence() == []
    for verdict in hosts.values():
        (verdict if key == "simulated" else verdict["gpus"][0])[key] = None
    assert evidence() == ["3 like cards may take 700 W"]


# the pieces


def test_nothing_is_changed_in_the_verdicts_themselves() -> None:
    hosts = {"a": host("a", [14.0, 14.2, 11.0, 14.3])}
    before = copy.deepcopy(hosts)
    taught(hosts)
    assert hosts == before


def test_a_verdict_that_nothing_is_said_of_stays_as_it_was() -> None:
    verdict = host("a", [14.0])
    assert judgement.apply(verdict, []) == verdict
    assert judgement.teach({"a": verdict}, [], NOW) == {}


def test_the_suspects_are_the_hosts_with_a_slow_card() -> None:
    hosts = {name: host(name, [14.0, 14.0, 14.0, 14.0, 9.0]) for name in "ca"}
    hosts["b"] = host("b", [14.0])
    assert judgement.suspects(judgement.teach(hosts, [], NOW)) == ["a", "c"]
    many = judgement.teach(counted(10**6), replays("a", 0), NOW)
    assert many["a"][0]["finding"]["state"] == "degraded"
    assert judgement.suspects(many) == []


def test_verdicts_follow_by_the_rules_of_the_judge() -> None:
    verdict = host("a", [14.0])
    assert judge.of_checks(verdict["gpus"][0]["checks"]) == ("ok", "nothing")
    assert judge.of_host(verdict["checks"], verdict["gpus"]) == ("ok", "nothing")
    assert judge.of_host([], []) == ("not applicable", "nothing")


def test_a_bound_is_by_the_median_and_by_the_values_own_spread() -> None:
    assert bounds.bound([10, 10], 0.1, "higher") is None
    assert bounds.bound([10, 10, 10], 0.1, "higher") == 9
    assert bounds.bound([10, 10, 1], 0.1, "higher") == 9
    assert bounds.bound([10, 10, 10], 0.1, "lower") == 11
    assert bounds.bound([9, 10, 11], 0.1, "higher") == pytest.approx(10 - 3.5 * 1.4826)
    assert bounds.bound([9, 10, 11], 0.1, "lower") == pytest.approx(10 + 3.5 * 1.4826)
    assert bounds.bound([1, 10, 19], 0.1, "higher") is None
    assert bounds.bound([10, 10, 10], 1.0, "higher") is None
    assert not bounds.worse(9, 9, "higher")
    assert not bounds.worse(9, 9, "lower")
