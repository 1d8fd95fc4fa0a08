"""The page of an acceptance."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest
from gpu_stack.acceptance import judge

from provision import acceptance
from tests.unit.acceptance.machines import FAULTS, machine


def entry(facts: dict[str, Any]) -> dict[str, Any]:
    verdict = judge.judge(facts)
    return {"status": verdict["verdict"], "message": "", "acceptance": verdict}


def report(**hosts: dict[str, Any]) -> dict[str, Any]:
    return {"format": 1, "hosts": hosts}


def page(**hosts: dict[str, Any]) -> str:
    return acceptance.page(report(**hosts)).decode()


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
