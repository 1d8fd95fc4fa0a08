"""The figures of former acceptances: kept whole, bounded, and never in the way."""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.acceptance.teaching import history

from provision import tree
from tests.unit.acceptance.fleets import DAY, NOW, RATE, host, like, measured, rate_of, uuid


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "report" / "acceptance-history")


def silent(message: str) -> None:
    raise AssertionError(message)


def rates(folder: str) -> list[tuple[str, float, bool]]:
    entries = history.read(folder, silent)
    return [(entry.id, entry.value, entry.good) for entry in entries if entry.figure == RATE]


def test_what_was_measured_is_read_again(folder: str) -> None:
    assert history.read(folder, silent) == []
    history.record(folder, {"gpu07": host("gpu07", [14.0, 14.2])}, NOW, silent)
    values = [entry for entry in history.read(folder, silent) if entry.figure == RATE]
    assert values == [
        history.Earlier(int(NOW), "2025-11-24", uuid("gpu07", 0), like(), RATE, 14.0, True),
        history.Earlier(int(NOW), "2025-11-24", uuid("gpu07", 1), like(), RATE, 14.2, True),
    ]


def test_acceptances_are_added_and_the_oldest_comes_first(folder: str) -> None:
    for day, value in enumerate((14.0, 15.0, 13.0)):
        history.record(folder, {"a": host("a", [value])}, NOW + day * DAY, silent)
    history.record(folder, {"b": host("b", [1.0])}, NOW + DAY / 2, silent)
    assert [value for _, value, _ in rates(folder)] == [14.0, 1.0, 15.0, 13.0]
    assert sorted(os.listdir(folder)) == [".lock", "a@normal.jsonl", "b@normal.jsonl"]


def test_a_host_with_all_its_cards_has_a_history_of_its_own(folder: str) -> None:
    verdict = host("a", [1.0, 1.0])
    verdict["checks"].append(measured(1000, "train", name="images"))
    history.record(folder, {"a": verdict}, NOW, silent)
    (whole,) = [entry for entry in history.read(folder, silent) if entry.figure == "images"]
    assert whole.id == "GPU-a-0 GPU-a-1"
    assert whole.like.startswith("2 x (Made Up 1; ")


def test_only_the_degraded_are_marked_and_the_failed_left_out(folder: str) -> None:
    verdict = host("a", [1.0, 2.0, 3.0, 4.0])
    rate_of(verdict, 1)["state"] = "degraded"
    rate_of(verdict, 2)["state"] = "failed"
    verdict["gpus"][3]["verdict"] = "failed"
    history.record(folder, {"a": verdict}, NOW, silent)
    assert rates(folder) == [("GPU-a-0", 1.0, True), ("GPU-a-1", 2.0, False)]


def test_stand_ins_and_cards_without_a_name_are_not_kept(folder: str) -> None:
    verdict = host("a", [1.0, 2.0])
    rate_of(verdict, 0)["stand_in"] = True
    verdict["gpus"][1]["uuid"] = None
    history.record(folder, {"a": verdict}, NOW, silent)
    assert rates(folder) == []


def test_nothing_measured_leaves_no_file(folder: str) -> None:
    history.record(folder, {"a": host("a", [])}, NOW, silent)
    assert not os.path.exists(folder)


def test_each_level_keeps_its_last_ones(folder: str) -> None:
    history.record(folder, {"a": host("a", [0.0])}, NOW, silent)
    for number in range(25):
        history.record(folder, {"a": host("a", [number], level="quick")}, NOW + number, silent)
    values = [value for _, value, _ in rates(folder)]
    assert values == [0.0, *range(5, 25)]
    assert len((Path(folder) / "a@quick.jsonl").read_text().splitlines()) == 20


def test_a_level_reads_its_own_files(folder: str) -> None:
    hosts = {name: host(name, [1.0], level=level) for name, level in
             (("a", "normal"), ("b", "quick"), ("c", "long/1"), ("d", ""))}  # fmt: skip
    history.record(folder, hosts, NOW, silent)

    def read(*names: str) -> list[str]:
        wanted = {name: hosts[name] for name in names}
        return sorted({entry.id for entry in history.read(folder, silent, wanted)})

    assert read("a") == ["GPU-a-0"]
    assert read("b") == read("d") == ["GPU-b-0", "GPU-d-0"]
    assert read("a", "c") == ["GPU-a-0", "GPU-c-0"]
    assert read() == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON\n",
        "[]\n",
        "3\n",
        "{}\n",
        '{"format": 2, "time": "2025-11-24T00:00:00Z", "subjects": []}\n',
        '{"format": 1, "time": "today", "subjects": []}\n',
        '{"format": 1, "time": "2025-11-24T00:00:00Z", "subjects": [{}]}\n',
        '{"format": 1, "time": "2025-11-24T00:00:00Z", "subjects": '
        '[{"id": null, "like": "", "figures": {}}]}\n',
        '{"format": 1, "time": "2025-11-24T00:00:00Z", "subjects": '
        '[{"id": "", "like": 1, "figures": {}}]}\n',
        '{"format": 1, "time": "2025-11-24T00:00:00Z", "subjects": '
        '[{"id": "", "like": "", "figures": {"x": [NaN, "ok"]}}]}\n',
        '{"format": 1, "time": "2025-11-24T00:00:00Z", "subjects": '
        '[{"id": "", "like": "", "figures": {"x": ["1", "ok"]}}]}\n',
        '{"format": 1, "time": "2025-11-24T00:00:00Z", "subjects": '
        '[{"id": "", "like": "", "figures": {"x": [1, "failed"]}}]}\n',
        "\x00\n",
        "[" * 100000 + "\n",
        '{"format": 1, "time": "2025-11-24T00:00:00Z", "subjects": '
        '[{"id": "", "like": "", "figures": []}]}\n',
    ],
)
def test_a_spoiled_file_is_kept_aside_with_a_warning(folder: str, text: str) -> None:
    history.record(folder, {"a": host("a", [1.0]), "b": host("b", [2.0])}, NOW, silent)
    path = Path(folder) / "a@normal.jsonl"
    path.write_text(text)
    messages: list[str] = []
    values = [
        entry.value for entry in history.read(folder, messages.append) if entry.figure == RATE
    ]
    assert values == [2.0]
    if not text:
        assert messages == []
        return
    (message,) = messages
    (aside,) = [name for name in os.listdir(folder) if ".spoiled-" in name]
    assert str(path) in message
    assert f"it is kept as {Path(folder) / aside}" in message
    assert (Path(folder) / aside).read_text() == text
    assert not path.exists()
    # The next acceptance begins a new one.
    history.record(folder, {"a": host("a", [3.0])}, NOW, silent)
    assert [value for _, value, _ in rates(folder)] == [3.0, 2.0]


def test_a_file_that_is_none_of_ours_by_its_size_is_not_read(folder: str) -> None:
    os.makedirs(folder)
    path = Path(folder) / "a@normal.jsonl"
    for size, reason in ((4 * 2**20, "Expecting value"), (4 * 2**20 + 1, "it is too large")):
        with path.open("wb") as stream:
            stream.truncate(size)
        messages: list[str] = []
        assert history.read(folder, messages.append) == []
        assert f"{path} can't be read ({reason}" in messages[0]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"format": 2}, "its format is 2"),
        ({"subjects": [{"id": None, "like": "x", "figures": {}}]}, "a card without a name"),
        ({"subjects": [{"id": "x", "like": "x", "figures": {"y": [1, "failed"]}}]},
         "a figure is no number"),
    ],
)  # fmt: skip
def test_a_warning_says_what_is_wrong_and_where_it_is_kept(
    folder: str, monkeypatch: pytest.MonkeyPatch, line: dict[str, Any], reason: str
) -> None:
    os.makedirs(folder)
    path = Path(folder) / "a@normal.jsonl"
    whole = {"format": 1, "time": "2025-11-24T00:00:00Z", "subjects": [], **line}
    path.write_text(json.dumps(whole) + "\n")

    def fixed(_source: str, _target: str) -> None:
        raise OSError(30, "Read-only file system")

    beginning = f"the history of acceptances in {path} can't be read ({reason}); this goes on "
    messages: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(history.os, "replace", fixed)
        assert history.read(folder, messages.append) == []
    assert history.read(folder, messages.append) == []
    assert messages[0] == (
        f"{beginning}without it, and it can't be moved: [Errno 30] Read-only file system"
    )
    assert re.fullmatch(
        re.escape(f"{beginning}without it, and it is kept as {path}.spoiled-") + r"\d{8}T\d{6}Z",
        messages[1],
    )


def test_of_one_moment_files_are_in_the_order_of_their_names(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "bca":
        history.record(folder, {name: host(name, [1.0])}, NOW, silent)
    names = sorted(os.listdir(folder), reverse=True)
    monkeypatch.setattr(history.os, "listdir", lambda _: names)
    assert [card for card, _, _ in rates(folder)] == ["GPU-a-0", "GPU-b-0", "GPU-c-0"]


def test_what_is_ok_or_only_measured_teaches(folder: str) -> None:
    verdict = host("a", [1.0, 2.0])
    rate_of(verdict, 1)["state"] = "ok"
    history.record(folder, {"a": verdict}, NOW, silent)
    assert rates(folder) == [("GPU-a-0", 1.0, True), ("GPU-a-1", 2.0, True)]


def test_a_folder_that_can_not_be_written_is_a_warning(folder: str, tmp_path: Path) -> None:
    (tmp_path / "report").write_text("in the way")
    messages: list[str] = []
    history.record(folder, {"a": host("a", [1.0])}, NOW, messages.append)
    assert messages[0].startswith("the history of acceptances can't be written: ")
    assert history.read(folder, silent) == []


def test_a_file_that_can_not_be_read_is_a_warning(folder: str) -> None:
    (Path(folder) / "a@normal.jsonl").mkdir(parents=True)
    messages: list[str] = []
    assert history.read(folder, messages.append) == []
    assert messages[0].startswith("the history of acceptances can't be read, and is left out: ")


def test_a_write_that_breaks_off_leaves_the_file_as_it_was(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    history.record(folder, {"a": host("a", [1.0])}, NOW, silent)
    before = (Path(folder) / "a@normal.jsonl").read_bytes()

    def full(source: str, _target: str) -> None:
        # A killed one leaves a file that is no history's.
        assert Path(source).name.startswith(".new-")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(history.os, "replace", full)
    messages: list[str] = []
    history.record(folder, {"a": host("a", [2.0])}, NOW, messages.append)
    assert "No space left on device" in messages[0]
    assert (Path(folder) / "a@normal.jsonl").read_bytes() == before
    assert sorted(os.listdir(folder)) == [".lock", "a@normal.jsonl"]


def test_two_acceptances_at_once_lose_nothing(folder: str) -> None:
    def often(host_name: str) -> None:
        for number in range(10):
            history.record(folder, {"a": host(host_name, [number])}, NOW + number, silent)

    threads = [threading.Thread(target=often, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(rates(folder)) == 20


def test_a_hosts_name_is_a_files_name_whatever_it_is(folder: str) -> None:
    for name in ("../gpu", "a/b", ".", "gpu01.lab.example.org", "x" * 300, "y" * 300, "é"):
        history.record(folder, {name: host("n", [1.0])}, NOW, silent)
    assert len(rates(folder)) == 7
    assert all(len(name) < 255 for name in os.listdir(folder))


HASH = hashlib.sha256(b"x" * 151).hexdigest()[:32]


@pytest.mark.parametrize(
    ("name", "level", "expected"),
    [
        ("gpu01.example.org", "quick", "gpu01.example.org@quick"),
        ("a/b", "long/1", "a%2Fb@long%2F1"),
        ("x" * 150, "quick", "x" * 150 + "@quick"),
        ("x" * 151, "quick", "x" * 100 + "%" + HASH + "@quick"),
        ("a", "l" * 41, "a@" + "l" * 40),
    ],
)
def test_the_file_of_a_host_and_level(name: str, level: str, expected: str) -> None:
    assert history.file_name(name, level) == expected + ".jsonl"


def test_files_are_lines_of_json_that_everybody_may_read(folder: str) -> None:
    history.record(folder, {"a": host("a", [1.0])}, NOW, silent)
    path = Path(folder) / "a@normal.jsonl"
    line: dict[str, Any] = json.loads(path.read_text())
    assert list(line) == ["format", "time", "subjects"]
    assert (line["format"], line["time"]) == (1, "2025-11-24T16:00:00Z")
    # Of the host with all its cards nothing was measured.
    assert len(line["subjects"]) == 1
    assert line["subjects"][0]["figures"][RATE] == [1.0, "measured"]
    assert path.stat().st_mode & 0o777 == 0o644


def test_by_card_has_each_figures_values_in_their_order(folder: str) -> None:
    for day, value in enumerate((14.0, 15.0)):
        history.record(folder, {"a": host("a", [value])}, NOW + day * DAY, silent)
    by_card = history.by_card(history.read(folder, silent))
    assert [entry.value for entry in by_card[uuid("a", 0)][RATE]] == [14.0, 15.0]


def test_a_project_that_is_rendered_again_keeps_it(tmp_path: Path) -> None:
    tree.write(tmp_path, {"site.yml": b"1", "accept.yml": b"1"}, version="1")
    folder = tmp_path / "report" / "acceptance-history"
    assert folder.name == history.FOLDER
    history.record(str(folder), {"a": host("a", [1.0])}, NOW, silent)
    tree.write(tmp_path, {"site.yml": b"2"}, version="2")
    assert not (tmp_path / "accept.yml").exists()
    assert rates(str(folder)) == [("GPU-a-0", 1.0, True)]
