"""The page of an acceptance."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.acceptance import judge
from gpu_stack.acceptance.teaching import history, judgement

from provision import acceptance
from tests.unit.acceptance import fleets
from tests.unit.acceptance.machines import FAULTS, machine
from tests.unit.acceptance.worked import worked


def entry(facts: dict[str, Any]) -> dict[str, Any]:
    verdict = judge.judge(facts)
    return {"status": verdict["verdict"], "message": "", "acceptance": verdict}


def report(**hosts: dict[str, Any]) -> dict[str, Any]:
    return {"format": 1, "hosts": hosts}


def page(past: dict[str, Any] | None = None, **hosts: dict[str, Any]) -> str:
    return acceptance.page(report(**hosts), past or {}).decode()


class Text(HTMLParser):
    """The text of a page, with a line for each piece, and the tags that it has."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self.tags: list[str] = []
        self.feed(source)

    def handle_starttag(self, tag: str, _attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.pieces.append(" ".join(data.split()))


def test_a_value_that_stands_without_its_column_is_named_as_that_is() -> None:
    """On paper and on phones the table's head is not shown."""
    source = page(gpu01=entry(machine(busy=True)))
    columns = head(source)
    row = source.partition("<tbody>\n<tr>")[2].partition("\n")[0]
    names = re.findall(r'data-is="([^"]+)"', row)
    # What these are is seen.
    assert [name for name in columns if name not in ("Host", "Verdict", "Model", "UUID")] == names
    assert row.count("<td") == len(columns) - 1


def head(source: str) -> list[str]:
    """The columns of the table of GPUs."""
    text = source.partition("<table>\n<thead><tr>")[2].partition("</thead>")[0]
    return text.split('<th scope="col">')[1:]


def test_a_column_without_a_value_is_left_out() -> None:
    """In a room of tower PCs no card has a slot's number, and nobody computes at night."""
    facts = machine("Tesla T4", 2)
    for place in facts["bus"]:
        place["slot"] = None
    assert {"Slot", "In use by", "Next"}.isdisjoint(head(page(gpu01=entry(facts))))
    busy = machine(busy=True)
    both = head(page(gpu01=entry(facts), gpu02=entry(busy)))
    assert {"Slot", "In use by"} < set(both)
    # A host that was not asked has a row all the same.
    lost = {"status": "unreachable", "message": "no route to host", "acceptance": None}
    assert head(page(gpu01=lost)) == ["Host", "GPU", "Verdict"]


def test_a_uuid_is_whole_and_may_take_several_lines() -> None:
    source = page(gpu01=entry(machine()))
    uuid = "GPU-00000000-1111-2222-3333-444444444444"
    assert uuid.replace("-", "-<wbr>") in source


@pytest.fixture(scope="module")
def sick() -> dict[str, Any]:
    facts = machine("NVIDIA GeForce RTX 3090", 4, bridged=((0, 3),))
    facts["nvml"]["gpus"][2]["pcie"]["width"] = 4
    return entry(facts)


def test_the_worst_is_said_first_and_names_the_card(sick: dict[str, Any]) -> None:
    text = Text(page(gpu01=entry(machine()), gpu07=sick))
    joined = "\n".join(text.pieces)
    assert "1 of 6 GPUs not well" in text.pieces
    assert "1 of 2 hosts not well" in text.pieces
    assert "the PCIe link has 4 of 16 lanes" in text.pieces
    assert "Next: reseat" in text.pieces
    assert "GPU 2 GPU-00000002-1111-2222-3333-444444444444 (NVIDIA GeForce RTX 3090" in joined
    rows = [piece for piece in text.pieces if piece in ("gpu01", "gpu07")]
    assert rows[0] == "gpu07"


def test_a_fleet_that_is_well_says_so() -> None:
    source = page(gpu01=entry(machine()), gpu02=entry(machine("Tesla T4", 4)))
    text = Text(source)
    assert "6 GPUs well" in text.pieces
    assert "What is wrong" not in text.pieces
    assert '<header class="top ">' in source


def test_the_page_says_what_was_asked_and_what_stood_in() -> None:
    text = Text(page(gpu01=entry(machine())))
    assert any("without a load on any GPU" in piece for piece in text.pieces)
    text = Text(page(gpu01=entry(worked()), gpu02=entry(machine())))
    assert any(piece.endswith("level normal") for piece in text.pieces)
    assert not any("logical CPU devices" in piece for piece in text.pieces)
    text = Text(page(gpu01=entry(worked(simulated=True))))
    assert any("logical CPU devices in their place" in piece for piece in text.pieces)


def test_a_card_that_was_left_alone_is_no_silent_pass() -> None:
    facts = worked()
    facts["work"]["skipped"] = {"1": "in use: <ada>"}
    text = page(gpu01=entry(facts))
    assert "1 of 2 GPUs left alone: not loaded" in text
    assert "left alone: in use: &lt;ada&gt;" in text
    assert "left alone" not in page(gpu01=entry(worked()))


def test_a_simulated_gpu_is_called_so() -> None:
    facts = machine()
    assert "simulated GPU" not in Text(page(gpu01=entry(facts))).pieces
    facts["simulated"] = True
    text = Text(page(gpu01=entry(facts)))
    assert "simulated GPU" in text.pieces
    assert "Simulated GPUs on 1 host" in text.pieces
    assert "Nothing here says anything of a real GPU." in text.pieces


def test_every_fault_has_its_article() -> None:
    for name, fault in FAULTS.items():
        facts = machine(fault.model, 2, busy=fault.busy)
        fault.change(facts)
        verdict = judge.judge(facts, fault.declared)
        host = {"status": verdict["verdict"], "message": "", "acceptance": verdict}
        assert Text(page(gpu01=host)).tags.count("article") == 1, name


def test_a_host_that_was_not_asked_says_why() -> None:
    lost = {"status": "unreachable", "message": "no route to host", "acceptance": None}
    source = page(gpu01=lost)
    text = Text(source)
    assert text.pieces.count("no route to host") == 3
    assert "1 host not well" in text.pieces
    assert '<header class="top bad">' in source


def test_the_topology_is_a_picture_and_a_list(sick: dict[str, Any]) -> None:
    text = Text(page(gpu07=sick))
    assert text.tags.count("line") == 6
    assert text.tags.count("circle") == 4
    assert text.pieces.count("NV2") == 2
    assert "0, 3" in text.pieces


def test_what_a_host_says_is_text_and_no_markup() -> None:
    facts = machine()
    facts["nvml"]["gpus"][0]["name"] = "<script>alert(1)</script>\x1b[31m"
    source = page(**{"gpu<b>": entry(facts)})
    assert "script" not in Text(source).tags
    assert "<b>" not in source.split("<title>")[1].split("</title>")[0]
    assert "\x1b" not in source


def test_it_needs_no_network_and_no_script(sick: dict[str, Any]) -> None:
    source = page(gpu07=sick)
    assert "default-src 'none'" in source
    assert not {"script", "link", "img", "iframe"} & set(Text(source).tags)
    assert source == page(gpu07=sick)


# the figures


def judged(rates: list[float], earlier: list[Any]) -> dict[str, Any]:
    verdicts = {"gpu07": fleets.host("gpu07", rates)}
    rows = judgement.teach(verdicts, earlier, fleets.NOW)["gpu07"]
    verdict = judgement.apply(verdicts["gpu07"], rows)
    return {"status": verdict["verdict"], "message": "", "acceptance": verdict}


def test_each_judged_figure_says_which_teacher_was_used() -> None:
    text = Text(page(gpu07=judged([14.0, 14.1, 9.0], [])))
    assert text.pieces.count("at least 11.9 TFLOP/s, by like cards") == 3
    assert "9 TFLOP/s" in text.pieces
    text = Text(page(gpu07=judged([11.0], fleets.past("gpu07", 0, [14, 14, 14]))))
    assert "at least 12.6 TFLOP/s, by its own history" in text.pieces
    assert "at least 11.9 TFLOP/s, by like cards" not in text.pieces
    # The replays of a card that was never asked before.
    assert "nothing to compare with yet" in text.pieces


def test_a_processors_figures_are_called_so() -> None:
    host = judged([14.0, 14.1, 9.0], [])
    fleets.rate_of(host["acceptance"], 0)["stand_in"] = True
    text = Text(page(gpu07=host))
    assert text.pieces.count("not judged: a processor stood in for the card") == 1


def test_a_card_has_a_line_of_its_former_values(tmp_path: Path) -> None:
    for day, value in enumerate((14.0, 13.0, 9.0)):
        verdict = fleets.host("gpu07", [value])
        if value == 9.0:
            fleets.rate_of(verdict, 0)["state"] = "degraded"
        moment = fleets.NOW + day * fleets.DAY
        history.record(str(tmp_path / history.FOLDER), {"gpu07": verdict}, moment, str)
    past = dict(acceptance.history(tmp_path))
    source = page(past, gpu07=judged([9.0], fleets.past("gpu07", 0, [14, 14, 14])))
    text = Text(source)
    assert text.tags.count("polyline") == 2
    assert 'points="5.0,5.0 80.0,10.2 155.0,31.0"' in source
    # The limit, 12.6, lies between the second value and the last.
    assert '<line x1="0" y1="12.3" x2="160" y2="12.3"/>' in source
    assert 'aria-label="fp32_tflops, 3 acceptances: 2025-11-24: 14 TFLOP/s to' in source
    assert source.count('<circle class="low"') == 1
    assert "2025-11-25: 13 TFLOP/s" in text.pieces
    assert "script" not in text.tags


def test_values_of_other_conditions_are_no_part_of_the_line() -> None:
    entries = fleets.past("gpu07", 0, [14, 14, 14])
    entries[0] = entries[0]._replace(like="another driver")
    past = {fleets.uuid("gpu07", 0): {fleets.RATE: entries}}
    source = page(past, gpu07=judged([14.0], entries * 2))
    assert source.count("<polyline") == 1
    assert "2 acceptances" in source
    past[fleets.uuid("gpu07", 0)][fleets.RATE] = entries[:2]
    assert "<polyline" not in page(past, gpu07=judged([14.0], entries * 2))


def test_small_differences_are_no_cliff() -> None:
    past = {fleets.uuid("gpu07", 0): {fleets.RATE: fleets.past("gpu07", 0, [14, 14.1])}}
    host = entry(machine("Tesla T4", 1))
    host["acceptance"] = fleets.host("gpu07", [14.1])
    source = page(past, gpu07=host)
    assert 'points="5.0,18.9 155.0,17.1"' in source
    past = {fleets.uuid("gpu07", 0): {fleets.RATE: fleets.past("gpu07", 0, [0, 0])}}
    assert 'points="5.0,18.0 155.0,18.0"' in page(past, gpu07=host)


def test_the_history_that_is_spoiled_is_said() -> None:
    spoiled = report(gpu01=entry(machine())) | {"warnings": ["the history <b> can't be read"]}
    source = acceptance.page(spoiled, {}).decode()
    assert "the history &lt;b&gt; can&#39;t be read" in source
    assert list(acceptance.lines(spoiled))[-1] == "warning: the history <b> can't be read"
