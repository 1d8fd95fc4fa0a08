"""The plots of the page of an acceptance: images a second by GPUs, and utilisation over time."""

from __future__ import annotations

import copy
import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from gpu_stack.acceptance import judge

from provision.report.html import plots
from tests.unit.acceptance import trained
from tests.unit.acceptance.machines import machine
from tests.unit.acceptance.test_page import Text, page
from tests.unit.acceptance.worked import burnt, worked

HOSTILE = '<script>alert("&")</script>\x1b[31m'
NAN = float("nan")


def verdict(
    count: int = 4, change: Callable[[dict[str, Any]], None] | None = None, **more: Any
) -> dict[str, Any]:
    facts = worked(count=count, **more)
    if change is not None:
        change(facts["work"])
    return judge.judge(facts)


def scaled(*rates: float | None, way: str = "float32", **more: Any) -> dict[str, Any]:
    """A verdict with these rates on 1, 2, 4 and so on GPUs."""
    made = verdict(2)
    entries = [
        {"way": way, "gpus": 2**power, "images_per_second": rate}
        for power, rate in enumerate(rates)
    ]
    made["scaling"] = {"model": "ResNet-50", "batch": 64, "rates": entries, **more}
    return made


def sampled(*series: Any, kind: str = "together") -> dict[str, Any]:
    made = verdict(len(series))
    for gpu, points in zip(made["gpus"], series, strict=True):
        gpu["utilization"] = {kind: points}
    return made


def shown(made: dict[str, Any]) -> str:
    """The page of a host with this verdict, as text in which pieces have a line each."""
    return "\n".join(Text(source(made)).pieces)


def source(made: dict[str, Any]) -> str:
    text = page(gpu01={"status": made["verdict"], "message": "", "acceptance": made})
    # As sound as XML: what is named is there, and no name is given twice.
    drawn = [
        ElementTree.fromstring(svg)  # noqa: S314  our own page
        for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    ]
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    for svg in drawn:
        assert set(svg.get("aria-labelledby", "").split()) <= set(ids)
        named = svg.get("aria-labelledby") or svg.get("aria-label")
        assert svg.get("aria-hidden") == "true" or (svg.get("role") == "img" and named)
    assert "nan" not in "".join(part for svg in drawn for part in svg.itertext())
    return text


def rates(made: dict[str, Any]) -> plots.Rates:
    chart = plots.rates(made)
    assert chart is not None
    return chart


def loads(made: dict[str, Any]) -> list[plots.Load]:
    chart = plots.loads(made)
    assert chart is not None
    return chart


# images a second by the number of GPUs


def test_every_measured_rate_is_in_the_table_with_its_share_of_the_ideal() -> None:
    chart = rates(verdict(3))
    assert [course.name for course in chart.courses] == ["float32", "mixed precision", "XLA"]
    assert chart.rows == [
        ("1", [("120", ""), ("260", ""), ("140", "")]),
        ("3", [("330", "92 %"), ("600", "77 %"), ("", "")]),
    ]
    assert chart.workload == "ResNet-50, 64 images at a time on each GPU"


def test_the_line_of_ideal_scaling_is_one_gpus_rate_times_their_number() -> None:
    chart = rates(scaled(100.0, 180.0, 200.0))
    (course,) = chart.courses
    assert [tick.text for tick in chart.up] == ["0", "100", "200", "300", "400"]
    assert [tick.text for tick in chart.across] == ["1", "2", "4"]
    # 400 would be ideal, and is the top of the picture; 200 is in its middle.
    assert course.ideal is not None
    assert (course.ideal.x, course.ideal.y) == (plots.RATES.right, plots.RATES.top)
    assert course.marks[-1].x == plots.RATES.right
    assert course.marks[-1].y == (plots.RATES.top + plots.RATES.bottom) / 2
    assert course.marks[0].y == chart.up[1].at
    assert course.marks[-1].text == "4 GPUs: 200 images a second"


def test_without_the_rate_of_one_gpu_nothing_is_ideal() -> None:
    chart = rates(scaled(None, 180.0))
    assert chart.courses[0].ideal is None
    assert chart.rows == [("1", [("no time was left", "")]), ("2", [("180", "")])]


def test_one_gpu_has_a_table_and_no_picture() -> None:
    made = verdict(1)
    chart = rates(made)
    assert not chart.drawn
    assert chart.why == "one GPU trains alone"
    assert chart.rows == [("1", [("120", ""), ("260", ""), ("140", "")])]
    text = source(made)
    assert "images a second</text>" not in text
    assert "Dotted" not in text


def test_a_training_together_that_failed_says_why_there_is_no_picture() -> None:
    chart = rates(verdict(3, trained.ends("resnet")))
    assert not chart.drawn
    assert chart.why.endswith("RuntimeError: no")


def test_without_any_rate_the_reason_is_said() -> None:
    made = verdict(2) | {"scaling": None}
    for entry in made["checks"]:
        if entry["check"] == "scaling":
            entry["reason"] = HOSTILE
    assert "alert(" in rates(made).why
    assert "script" not in Text(source(made)).tags
    assert plots.rates({**made, "checks": []}) == plots.Rates(why="Nothing was measured.")


@pytest.mark.parametrize("value", [NAN, float("inf"), -1.0, 0.0, None, "9", True])
def test_a_rate_that_is_no_number_is_not_drawn(value: Any) -> None:
    chart = rates(scaled(100.0, value, 300.0))
    assert len(chart.courses[0].marks) == 2
    assert rates(scaled(value)).courses == []
    source(scaled(100.0, value))


@pytest.mark.parametrize("rate", [1e-3, 0.7, 1.0, 41.0, 99.0, 123456.0, 1e12])
def test_the_numbers_of_the_axis_are_few_and_hold_the_highest(rate: float) -> None:
    steps = plots._steps(rate)
    assert 3 <= len(steps) <= 5
    assert steps[0] == 0
    assert steps[-2] < rate <= steps[-1] * (1 + 1e-9)


def test_of_64_gpus_no_two_numbers_cover_each_other() -> None:
    chart = rates(scaled(*(100.0 * 2**power for power in range(7))))
    assert [tick.text for tick in chart.across] == ["1", "8", "16", "32", "64"]
    places = [tick.at for tick in chart.across]
    assert all(after - before >= plots.APART for before, after in itertools.pairwise(places))
    assert len(chart.rows) == 7
    assert all(len(tick.text) * plots.DIGIT < chart.left - 20 for tick in chart.up)


def test_the_picture_says_in_words_what_it_shows() -> None:
    text = source(scaled(100.0, 180.0))
    assert 'role="img" aria-labelledby="rates-1-t rates-1-d"' in text
    description = "float32: 1 GPU: 100 images a second, 2 GPUs: 180 images a second"
    assert f'<desc id="rates-1-d">{description}</desc>' in text
    assert ">images a second</text>" in text
    assert ">GPUs</text>" in text
    # The line has its own dashes and its own mark: no colour is needed to tell it.
    assert '<g class="plain">' in text


# how busy each GPU was


def test_each_card_has_its_line_and_the_same_in_words() -> None:
    (load,) = loads(sampled([[0.0, 0.0], [3.0, 100.0], [6.0, 50.0]], [[0.0, 90.0], [6.0, 100.0]]))
    assert load.title == "While all GPUs trained together"
    first, second = load.cards
    assert (first.gpu, first.summary, first.end) == ("0", "50 % on average, 0 to 100 %", "6 s")
    assert first.points == "42.0,50.0 99.0,8.0 156.0,29.0"
    assert second.summary == "95 % on average, 90 to 100 %"


def test_a_long_burn_in_is_in_minutes() -> None:
    made = verdict(3, burnt())
    together, burning = loads(made)
    assert burning.title == "During the burn-in"
    assert (burning.cards[0].end, together.cards[0].end) == ("59 min", "5.8 s")
    text = source(made)
    assert text.count('<ul class="loads">') == 2
    assert text.count(": utilisation over time</title>") == 6


def test_one_sample_is_a_dot() -> None:
    text = source(sampled([[2.0, 40.0]]))
    assert '<circle cx="156.0" cy="33.2" r="2.5"/>' in text
    assert '<circle cx="42.0"' in source(sampled([[0.0, 40.0]]))


def test_a_card_without_samples_says_why() -> None:
    def skip(work: dict[str, Any]) -> None:
        work["skipped"] = {"0": "in use: <b>"}
        work["order"] = ["1", "2"]
        del work["cards"]["0"]
        work["host"]["mirrored"]["order"] = ["1", "2"]
        work["host"]["mirrored"]["facts"].update(
            trained.host(2, "GPU")["mirrored"], samples=[None, trained.busy(9, 90)]
        )

    made = verdict(3, skip)
    (load,) = loads(made)
    assert [card.gpu for card in load.cards] == ["2"]
    assert load.missing == [
        "No samples of GPU 0: not loaded: in use: <b>", "No samples of GPU 1: NVML gave none",
    ]  # fmt: skip
    assert "No samples of GPU 0: not loaded: in use: &lt;b&gt;" in source(made)


def test_cards_with_one_reason_share_a_line() -> None:
    (load,) = loads(verdict(3, trained.ends("mirrored")))
    assert load.cards == []
    (line,) = load.missing
    assert line.startswith("No samples of GPU 0, 1, 2: the GPUs did not train together")


@pytest.mark.parametrize(
    "points", [[[NAN, 1.0]], [[1.0, NAN]], [[-1.0, 5.0]], [[1.0, None]], [["a", 1]], [], None]
)
def test_a_sample_that_is_no_number_is_not_drawn(points: Any) -> None:
    (load,) = loads(sampled(points, [[0.0, 5.0], [1.0, 500.0]]))
    (card,) = load.cards
    assert card.summary == "52 % on average, 5 to 100 %"


# what is said of stand-ins, of other levels and of earlier versions


def test_what_stood_in_is_called_so_and_not_drawn() -> None:
    made = verdict(3, simulated=True)
    assert shown(made).count(plots.STAND_IN) == 2
    assert 'class="plot"' not in source(made)
    # Whatever a verdict of simulated cards may hold.
    real = verdict(3) | {"simulated": True, "stand_in": False}
    assert shown(real).count(plots.STAND_IN) == 2
    assert 'class="plot"' not in source(real)


def test_a_quick_acceptance_and_one_of_an_earlier_version_say_nothing_of_it() -> None:
    facts = worked()
    quick = copy.deepcopy(facts)
    del quick["work"]
    earlier = judge.judge(facts)
    del earlier["scaling"]
    for gpu in earlier["gpus"]:
        del gpu["utilization"]
    for made in (judge.judge(quick), earlier):
        assert (plots.rates(made), plots.loads(made)) == (None, None)
        text = shown(made)
        assert "by the number of GPUs" not in text
        assert "Utilisation" not in text


def test_the_names_of_a_model_are_text() -> None:
    made = scaled(1.0, 2.0, model=HOSTILE, batch=64)
    assert "script" not in Text(source(made)).tags
    assert "\x1b" not in source(made)


def test_a_verdict_survives_its_file() -> None:
    made = verdict(4, burnt())
    assert source(json.loads(json.dumps(made))) == source(made)


def test_the_page_of_one_host_is_open() -> None:
    entry = {"status": "ok", "message": "", "acceptance": verdict(1)}
    assert '<details class="host" open>' in page(gpu01=entry)
    assert '<details class="host" open>' not in page(gpu01=entry, gpu02=entry)


def test_many_gpus_do_not_cover_each_other_in_the_topology() -> None:
    assert source(verdict(8)).count('r="17.0"') == 8
    small = re.findall(
        r'r="([\d.]+)"/><text [^>]*style="font-size: ([\d.]+)px"', source(verdict(64))
    )
    assert small == [("4.4", "4.4")] * 64


@pytest.mark.slow
@pytest.mark.parametrize("width", [320, 390, 820, 1440])
def test_the_page_never_scrolls_sideways(width: int, wide: str, browser: Any) -> None:
    browser.open(wide, width)
    browser.ask("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert browser.overflow() == 0
    inner = "[...document.querySelectorAll('.rates, .loads')]"
    assert browser.ask(f"{inner}.filter(each => each.scrollWidth > each.clientWidth).length") == 0


@pytest.mark.slow
@pytest.mark.parametrize(("width", "media"), [(320, ""), (390, ""), (720, "print")])
def test_every_gpu_fits_a_phone_and_paper(width: int, media: str, wide: str, browser: Any) -> None:
    browser.open(wide, width)
    browser.call("Emulation.setEmulatedMedia", media=media)
    too_wide = browser.ask(
        "[document.querySelector('#gpus .scroll'), ...document.querySelectorAll('#gpus tr')]"
        ".filter(each => each.scrollWidth > each.clientWidth).length"
    )
    overflow = browser.overflow()
    browser.call("Emulation.setEmulatedMedia", media="")
    assert (too_wide, overflow) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("width", [800, 1024, 1200, 1400])
def test_every_gpu_with_all_its_columns_fits_the_window(
    width: int, tmp_path: Path, browser: Any
) -> None:
    """At 1400 pixels its UUID once made the table scroll."""
    facts = machine("NVIDIA GeForce RTX 3090", 4, busy=True)
    facts["nvml"]["gpus"][2]["pcie"]["width"] = 4
    sick = judge.judge(facts)
    host = {"status": sick["verdict"], "message": "", "acceptance": sick}
    target = tmp_path / "acceptance.html"
    target.write_text(page(**{"gpu-node-01.lab.example.org": host}), encoding="utf-8")
    browser.open(target.as_uri(), width)
    region = "document.querySelector('#gpus .scroll')"
    too_wide = browser.ask(f"{region}.scrollWidth - {region}.clientWidth")
    assert (too_wide, browser.overflow()) == (0, 0)


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = scaled(*(3e5 * 2**power for power in range(7)), model="m" * 300)
    many = verdict(16, burnt())
    hosts = {"n" * 200: made, "many": many, "one": verdict(1), "sim": verdict(2, simulated=True)}
    entries = {
        name: {"status": "ok", "message": "", "acceptance": entry} for name, entry in hosts.items()
    }
    target = tmp_path_factory.mktemp("page") / "acceptance.html"
    target.write_text(page(**entries), encoding="utf-8")
    return target.as_uri()
