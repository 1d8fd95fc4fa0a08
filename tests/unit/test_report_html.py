"""The page of a report: what it says, that nothing in it can do harm, and that it can be read."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_samples import RECORDED, host, lab, report

from provision import cli
from provision import run as run_module
from provision.errors import InputError
from provision.report import STATUSES, html, load, reading, validate
from provision.report.html import words
from provision.report.html.headline import headline
from provision.report.html.page import script
from provision.report.html.views import SHARED_CHANGES
from provision.report.runs import Earlier

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "provision" / "report" / "html"
STYLE = (PAGES / "page.css").read_text(encoding="utf-8")
FILTERS = (PAGES / "filters.css").read_text(encoding="utf-8")
# Elements that HTML never closes, and those whose end may be left out.
VOID = {"meta", "input", "br"}
OPTIONAL = {"li", "dt", "dd", "p", "tr", "th", "td", "thead", "tbody", "option"}


class Document(HTMLParser):
    """A page as a browser would see it: elements, their text, and whether they are nested well."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.faults: list[str] = []
        self._open: list[str] = []
        self.feed(data.decode())
        self.close()
        if self._open:
            self.faults.append(f"never closed: {self._open}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in VOID | OPTIONAL:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in OPTIONAL:
            return
        if not self._open or self._open.pop() != tag:
            self.faults.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "script":
            self.scripts.append(data)
        elif self._open and self._open[-1] != "style":
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for found, attributes in self.elements if found == tag]


def page(made: dict[str, Any], earlier: Sequence[Earlier] = ()) -> Document:
    """The page, after what must hold for every page has been asserted."""
    data = html.render(validate(made), earlier)
    assert html.render(made, earlier) == data
    document = Document(data)
    assert document.faults == []
    assert harm(document) == []
    ids = [attributes["id"] for _, attributes in document.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)
    links = [attributes["href"] for attributes in document.all("a")]
    assert [link for link in links if link[1:] not in ids] == []
    return document


def harm(document: Document) -> list[str]:
    """Everything that could run, load or lead away."""
    known = {
        "html head meta title style body a header div p h1 h2 h3 h4 h5 span strong b small i dl dt",
        "dd nav ul li main section article fieldset legend label input table thead tbody tr th td",
        "details summary bdi code footer select option output noscript",
    }
    allowed = set(" ".join(known).split())
    if document.scripts == [script()]:
        allowed.add("script")
    found = [tag for tag, _ in document.elements if tag not in allowed]
    for tag, attributes in document.elements:
        found += [f"{tag} {key}" for key in attributes if key.startswith("on")]
        found += [f"{tag} {key}" for key in ("src", "srcset", "action") if key in attributes]
        if not attributes.get("href", "#").startswith("#"):
            found.append(f"{tag} href {attributes['href']}")
        if not re.fullmatch(r"((width:[\d.]+%|flex-grow:\d+))?", attributes.get("style", "")):
            found.append(f"{tag} style {attributes['style']}")
    return found


def opened(document: Document) -> list[str]:
    return [a["id"] for a in document.all("details") if "open" in a]


def test_every_status_has_its_place_and_its_meaning() -> None:
    assert sorted(reading.WORST_FIRST) == sorted(STATUSES) == sorted(words.MEANINGS)


HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'`{{ 7*7 }}&amp;"


@pytest.mark.parametrize("kind", sorted(RECORDED))
@pytest.mark.parametrize("mode", ["run", "check", "verify"])
def test_every_kind_of_host_has_a_page(kind: str, mode: str) -> None:
    document = page(report(mode, gpu07=host(kind)))
    assert "host-gpu07" in [a.get("id") for a in document.all("details")]
    assert host(kind)["status"] in document.text


@pytest.mark.parametrize(
    ("made", "verdict", "rest"),
    [
        (report(a=host("proven")), "1 host proven", []),
        (report(a=host("proven"), b=host("installed")), "Both hosts proven", []),
        (
            report(a=host("proven"), b=host("failed_check"), c=host("unreachable")),
            "1 of 3 hosts proven",
            ["1 failed", "1 unreachable"],
        ),
        (report(a=host("blocked")), "0 of 1 host proven", ["1 blocked"]),
        (
            report(a=host("converged"), b=host("converged")),
            "Both hosts as locked",
            ["no check has run now"],
        ),
        (
            report(a=host("proven"), b=host("converged")),
            "Both hosts as locked",
            ["1 not checked now", "1 proven now"],
        ),
        (
            report(a=host("proven"), b=host("converged"), c=host("failed_task")),
            "2 of 3 hosts as locked",
            ["1 failed", "1 not checked now", "1 proven now"],
        ),
        (report("check", a=host("converged")), "1 host as locked", []),
        (
            report("check", a=host("drift"), b=host("converged"), c=host("converged")),
            "1 of 3 hosts differs from the lock",
            ["2 as locked"],
        ),
        (report("check", a=host("drift"), b=host("drift")), "Both hosts differ from the lock", []),
        (report(a=host("proven")) | {"interrupted": True}, "1 host proven", ["interrupted"]),
        (report(), "No host was looked at", ["does the pattern or --limit match any?"]),
    ],
)
def test_the_verdict(made: dict[str, Any], verdict: str, rest: list[str]) -> None:
    top = headline(validate(made))
    assert (top.verdict, top.details) == (verdict, rest)
    document = page(made)
    assert verdict in document.text


def test_a_simulated_gpu_is_said_in_the_headline_and_on_each_host() -> None:
    real = host("proven") | {"simulated_gpu": False}
    document = page(report(a=host("proven"), b=host("proven"), c=real))
    text = document.text
    assert "All 3 hosts proven Simulated GPUs on 2 of 3 hosts" in text
    assert "Nothing here proves a real GPU on those hosts." in text
    # In the table, in the list, beside the GPUs; and once in the words.
    marks = [a for a in document.all("span") if a.get("class") == "sim"]
    assert len(marks) == 2 * 3 + 1
    assert "(simulated GPUs)" in text


def test_a_real_gpu_is_not_called_simulated() -> None:
    real = host("proven") | {"simulated_gpu": False, "checks": []}
    assert "imulated" not in page(report(a=real)).text


def test_hosts_with_problems_come_first_and_are_open() -> None:
    kinds = ["proven", "drift", "failed_check", "converged", "unreachable", "blocked"]
    document = page(report("verify", **{f"h-{kind}": host(kind) for kind in kinds}))
    order = [a["id"] for a in document.all("details")]
    assert order == [
        "host-h-failed_check",
        "host-h-blocked",
        "host-h-unreachable",
        "host-h-drift",
        "host-h-converged",
        "host-h-proven",
    ]
    assert opened(document) == order[:3]
    # In the table hosts stand by what they were promised; those never looked at come first.
    rows = [a["data-s"] for a in document.all("tr") if "data-s" in a]
    assert rows == ["unreachable", "failed", "blocked", "drift", "converged", "proven"]


def test_a_failed_check_has_its_diagnosis_and_cure_in_the_overview_and_at_its_host() -> None:
    text = page(report("verify", a=host("failed_check"))).text
    assert text.count("libcusolver.so.11 (package libcusolver11) can't be loaded") >= 2
    # The overview says a cure of two things once; the host has all three.
    assert text.count("Cure: run the playbook again") == 2 + 3


def test_hosts_with_the_same_trouble_are_listed_together() -> None:
    """Their own names and addresses make no other cause."""
    far = {f"gpu{n}": host("unreachable") for n in range(3)}
    for number, entry in enumerate(far.values()):
        message = entry["failure"]["message"]
        entry["failure"]["message"] = message.replace("192.0.2.9", f"192.0.2.{number}")
    document = page(report(**far))
    assert len(document.all("article")) == 1
    assert "The words of gpu0" in document.text


def test_a_host_named_like_a_word_is_listed_with_the_others() -> None:
    document = page(report(apt=host("blocked"), gpu01=host("blocked")))
    assert len(document.all("article")) == 1
    assert "The words of" not in document.text


def test_a_version_that_is_not_the_locks_stands_beside_the_wanted_one() -> None:
    entry = host("drift")
    entry["found"] |= {"nvidia_driver": "535.309.01"}
    entry["found"].pop("tensorflow", None)
    text = page(report("check", a=entry)).text
    assert "535.309.01 wanted 470.256.02" in text
    assert "none wanted 2.9.3" in text
    assert "wanted 8.5.0.96" not in text  # 8.5.0 is all that cuDNN tells of itself


@pytest.mark.parametrize(
    ("found", "wanted", "same"),
    [
        ("11.2.2", "11.2.2", True),
        ("8.5.0", "8.5.0.96", True),  # cuDNN tells three numbers of its four
        ("3.9.2", "3.9", True),  # the lock names Python by two
        ("8.5.1", "8.5.0.96", False),
        ("3.10.2", "3.1", False),
        ("11", "11.2.2", False),
        ("11.2", "11.2.2", False),
        ("2.9.3", "2", False),
        (None, "2.9.3", False),
        ("2.9.3", None, True),
    ],
)
def test_versions(found: str | None, wanted: str | None, same: bool) -> None:
    assert reading.matches(found, wanted) is same


def test_a_python_that_no_check_saw_is_unknown_not_missing() -> None:
    """A look tells no Python; "none" would be a lie."""
    assert "python" not in host("drift")["found"]
    text = page(report("check", a=host("drift"))).text
    assert "wanted 3.9" not in text


def test_a_host_that_was_never_looked_at_lacks_nothing() -> None:
    text = page(report(a=host("unreachable"), b=host("proven"))).text
    assert "none" not in text
    # A host that never answered is a bad one: its rows come first.
    assert text.index("Never looked at") < text.index("Wanted")


def test_gpus_that_are_missing_are_counted() -> None:
    assert "0 of 2 simulated" in page(report("verify", a=host("failed_check"))).text


def test_a_gpu_has_its_name_key_and_memory() -> None:
    text = page(report(a=host("proven"))).text
    device = host("proven")["found"]["gpu_devices"][0]
    for part in ("name", "uuid", "pci", "memory"):
        assert device[part] in text
    assert "usable: yes" in text


def test_a_gpu_that_the_driver_does_not_show_is_not_usable() -> None:
    entry = host("proven")
    entry["found"]["gpu_devices"].pop()
    assert "usable: no: the driver does not show it" in page(report(a=entry)).text


def test_gpus_of_which_only_the_bus_told_are_not_called_unusable() -> None:
    """A look does not ask NVML, and older reports have no devices."""
    entry = host("proven")
    del entry["found"]["gpu_devices"]
    text = page(report(a=entry)).text
    assert "usable: not asked" in text
    assert "usable: no" not in text.replace("usable: not asked", "")


def test_a_plan_says_first_what_differs_and_on_which_hosts_alike() -> None:
    hosts = {"a": host("drift"), "b": host("drift"), "c": host("converged")}
    document = page(report("check", **hosts))
    assert len(document.all("article")) == 1
    overview = document.text.partition("Hosts and versions")[2].partition("Hosts and versions")[0]
    assert "What differs" in overview
    assert "What is wrong" not in document.text
    for change in hosts["a"]["changes"]:
        assert change["item"] in overview
        assert change["reason"] in overview


def test_drift_after_a_run_is_what_it_left() -> None:
    """The plan names what was done as well; only the second look tells what is still so."""
    entry = host("drift")
    entry["left"] = [entry["changes"][1]]
    text = page(report(a=entry)).text
    overview = text.split("What differs")[2].partition("What each host has")[0]
    assert "cudnn_version.h" in overview
    assert "libcusolver" not in overview
    assert "differs in cuDNN" in text


def test_a_long_plan_is_counted_in_the_overview_and_reported_once() -> None:
    hosts = {name: host("installed") | {"status": "drift", "checks": []} for name in "ab"}
    text = page(report("check", **hosts)).text
    assert text.count("CUDA: 37 changes") == 3  # in the overview, and at each of the two
    assert text.count(" libcufft10 ") == 1


def test_every_change_is_reported_with_its_reason() -> None:
    entry = host("installed")
    text = page(report(a=entry)).text
    for change in entry["changes"]:
        assert change["item"] in text
        assert change["reason"] in text
        assert f"→ {change['to']}" in text


def test_a_change_that_was_left_out_or_needs_a_reboot_says_so() -> None:
    entry = host("drift")
    entry["changes"][0] |= {"reboot": True, "selected": False}
    entry["reboot"] = {"needed": True, "reason": "libcuda1: the old module is loaded"}
    text = page(report(a=entry)).text
    assert "needs a reboot" in text
    assert "left out by tags" in text
    assert "A reboot is needed: libcuda1: the old module is loaded" in text


def test_long_changes_in_common_are_reported_once() -> None:
    entry = host("installed")
    assert len(entry["changes"]) > SHARED_CHANGES
    document = page(report(a=entry, b=host("installed"), c=host("proven")))
    item = entry["changes"][3]["item"]
    assert document.text.count(f" {item} ") == 1
    assert [a for a in document.all("a") if a["href"] == "#changes-1"] != []


def test_what_is_left_noticed_and_not_in_this_run() -> None:
    entry = host("drift") | {"left": host("drift")["changes"][:1], "not_selected": ["gpu_env"]}
    entry["warnings"] = [{"message": "conda is first in PATH", "hint": "conda deactivate"}]
    made = report(a=entry) | {"proven": {"away": {"time": "2026-10-02T08:11:40.000Z"}, "a": {}}}
    text = page(made).text
    assert "What is left" in text
    assert "conda is first in PATH conda deactivate" in text
    assert "Left out by tags: Environment" in text
    assert "not looked at now: away 2026-10-02 08:11:40 UTC What the words mean" in text


def test_the_slowest_host_of_a_component_is_named() -> None:
    slow = host("installed")
    slow["components"]["cuda"]["seconds"] = 3725.0
    text = page(report(a=host("installed"), b=slow)).text
    table = text.partition("Time at work per component")[2].partition("What the words mean")[0]
    assert re.search(r"CUDA 2 33 min 54 s 1 h 02 min b\b", table)


@pytest.mark.parametrize(
    ("name", "anchor"),
    [("gpu07.lab", "host-gpu07.lab"), ("a b", "host-a%20b"), ("a%20b", "host-a%2520b")],
)
def test_a_host_has_an_anchor(name: str, anchor: str) -> None:
    assert anchor in [a.get("id") for a in page(report(**{name: host("proven")})).all("details")]


@pytest.mark.parametrize("kind", sorted(RECORDED))
def test_nothing_a_host_says_is_taken_for_html(kind: str) -> None:
    """Every text of a report, the keys included, replaced by something hostile."""

    def poisoned(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {k: poisoned(v, k) for k, v in value.items()} | {HOSTILE: HOSTILE}
        if isinstance(value, list):
            return [poisoned(item, key) for item in value]
        kept = key in ("status", "result") or not isinstance(value, str)
        return value if kept else HOSTILE

    entry = poisoned(host(kind))
    entry["components"].pop(HOSTILE)
    made = report(**{HOSTILE: entry}) | {
        "lock_digest": HOSTILE,
        "mode": HOSTILE,
        "finished": HOSTILE,
    }
    made["proven"] = {HOSTILE + "2": {"time": HOSTILE}}
    document = page(made)  # asserts that nothing can do harm
    assert "<script>alert(1)</script>" in document.text
    assert "49" not in [text.strip() for text in document.texts]


def test_the_checker_of_harm_sees_it() -> None:
    bad = '<script></script><p onclick="x"><a href="http://x">x</a><i style="color:red"></i>'
    assert harm(Document(bad.encode())) == [
        "script",
        "p onclick",
        "a href http://x",
        "i style color:red",
    ]


def test_the_policy_forbids_everything_but_the_style() -> None:
    document = page(report(a=host("proven")))
    policy = next(a["content"] for a in document.all("meta") if "http-equiv" in a)
    assert "default-src 'none'; style-src 'unsafe-inline'" in policy
    assert "url(" not in STYLE
    assert "@import" not in STYLE


def test_marks_that_turn_the_direction_are_made_visible() -> None:
    document = page(report(**{"gpu\u202e10": host("proven"), "מחשב": host("proven")}))
    assert "gpu\\u202e10" in document.text
    assert "מחשב" in document.text
    assert "host-" + quote("מחשב", safe="") in [a.get("id") for a in document.all("details")]


def test_colour_codes_and_controls_are_taken_out() -> None:
    assert reading.clean("\x1b[1;31mERROR\x1b[0m: no\x00\r\n") == "ERROR: no\\u0000\n"


def test_a_long_message_is_whole_at_its_host_and_cut_in_the_overview() -> None:
    entry = host("failed_task")
    entry["failure"]["message"] = "begin " + "x" * 1900 + " the end"
    text = page(report(a=entry)).text
    assert text.count("x" * 1900) == 1
    assert text.count("the end") == 2


def test_the_page_of_200_hosts_is_small_and_has_every_host() -> None:
    made = lab(200)
    data = html.render(validate(made))
    assert len(data) < 1_500_000
    document = page(made)
    ids = [a.get("id", "") for a in document.all("details")]
    anchors = [anchor for anchor in ids if anchor.startswith("host-")]
    assert len(anchors) == 200
    bad = [name for name, entry in made["hosts"].items() if entry["status"] in words.BAD]
    assert 5 < len(bad) < 20
    assert sorted(opened(document)) == sorted(f"host-{name}" for name in bad)
    # Rows of the table: a header, a wish, and each host once.
    rows = [a for a in document.all("tr") if "data-s" in a]
    assert len(rows) == 200


def test_every_status_has_a_filter_that_the_style_knows() -> None:
    document = page(lab(200))
    shown = [a["id"].removeprefix("show-") for a in document.all("input")]
    assert shown[0] == "all"
    assert len(shown) > 4
    for status in reading.WORST_FIRST:
        assert f"#show-{status}:checked) [data-s]:not([data-s={status}])" in FILTERS


# Values of every wrong type, in every place of a host.
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=5,
)
KEYS = st.sampled_from(sorted(host("failed_check")))


@given(key=KEYS, value=ANY, kind=st.sampled_from(sorted(RECORDED)))
def test_a_strange_report_is_refused_or_shown(key: str, value: Any, kind: str) -> None:
    """Never a traceback: what another version or a broken disk wrote."""
    made = report(a=host(kind) | {key: value}, b=host("proven"))
    try:
        validate(made)
    except InputError:
        return
    page(made)


@given(key=st.sampled_from(["checks", "changes", "blockers", "gpus", "warnings", "left", "found"]))
def test_a_strange_row_is_shown(key: str) -> None:
    """Rows that lack everything, and rows with keys of a later version."""
    row: dict[str, Any] = {"later": {"a": [1]}} | ({"result": "passed"} if key == "checks" else {})
    value = {"gpu_devices": [{}, 3], "later": row} if key == "found" else [row, {**row}]
    page(report(a=host("proven") | {key: value}, b=host("blocked") | {key: value}))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"format": 1, "hosts": {"gpu01"', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"format": 2, "hosts": {}}', "not a report of a format known here"),
        ('{"format": 1, "hosts": {"a": {"status": "failed", "checks": 3}}}', "`checks` is not"),
        ('{"format": 1, "hosts": {"a": {"status": "failed", "changes": [3]}}}', "`changes` is not"),
        (
            '{"format": 1, "hosts": {"a": {"status": "failed", "checks": [{"result": "fine"}]}}}',
            "a check has no result known here",
        ),
        ("\udcff", "not JSON"),
        (None, "there is no report"),
    ],
)
def test_a_report_that_is_none_is_one_message_and_exit_code_2(
    content: str | None,
    says: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = tmp_path / "report" / "report.json"
    source.parent.mkdir()
    if content is not None:
        source.write_bytes(content.encode("utf-8", "surrogateescape"))
    assert run(["report", "--project", str(tmp_path)], monkeypatch) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert says in " ".join(output.err.split())
    assert output.err.count("error:") == 1
    assert not (source.parent / "report.html").exists()


def run(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """The program as a person starts it: its exit code."""
    monkeypatch.setattr(sys, "argv", ["provision", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


def test_the_command_writes_both_beside_the_report_and_says_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "report" / "report.json"
    source.parent.mkdir()
    source.write_text(json.dumps(report(gpu01=host("failed_check")) | {"of a later version": 1}))
    assert run(["report", "--project", str(tmp_path)], monkeypatch) == 0
    output = capsys.readouterr().out
    for name in ("report.html", "junit.xml"):
        assert str(tmp_path / "report" / name) in output
    assert (source.parent / "report.html").read_bytes() == html.render(load(source))
    assert b"<testsuites" in (source.parent / "junit.xml").read_bytes()


def test_the_command_takes_and_writes_other_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, page_file, xml = tmp_path / "old.json", tmp_path / "a/p.html", tmp_path / "b/x.xml"
    source.write_text(json.dumps(report(gpu01=host("proven"))))
    arguments = ["--from", str(source), "--html", str(page_file), "--junit", str(xml), "--json"]
    assert run(["report", *arguments], monkeypatch) == 0
    assert json.loads(capsys.readouterr().out) == {"html": str(page_file), "junit": str(xml)}
    assert page_file.exists()
    assert xml.exists()
    before = source.read_bytes()
    assert run(["report", "--from", str(source), "--html", str(source)], monkeypatch) == 2
    assert source.read_bytes() == before


@pytest.mark.parametrize(
    ("mode", "project", "line"),
    [
        ("apply", "lab x", "provision report --project 'lab x'"),
        ("verify", ".", "provision report"),
        ("plan", ".", None),
    ],
)
def test_the_end_of_a_run_names_the_command(
    mode: Any,
    project: str,
    line: str | None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    ended = run_module.Outcome(report(gpu01=host("proven")), 0, 0, tmp_path / "log")
    monkeypatch.setattr(run_module, "run_playbook", lambda *_, **__: ended)
    monkeypatch.chdir(tmp_path)
    assert run([mode, "--project", project], monkeypatch) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    if line is None:
        assert "provision report" not in last
    else:
        assert last == f"As a page to show to others: {line}"


def colours(text: str) -> dict[str, str]:
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", text))


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(colour: str, other: str) -> float:
    """WCAG 2's ratio of two colours."""
    lighter, darker = sorted((luminance(colour), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


PAIRS = [
    (text, ground)
    for text in ("ink", "soft", "link", "warn", "bad", "good")
    for ground in ("card", "bg", "tint")
] + [
    ("good", "good-bg"),
    ("warn", "warn-bg"),
    ("sim", "sim-bg"),
    ("sim", "card"),
    ("on-solid", "bad-solid"),
    ("on-solid", "block-solid"),
    ("on-solid", "away-solid"),
]


@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
def test_every_pair_of_colours_can_be_read(scheme: str) -> None:
    """WCAG AA for text of any size."""
    light, dark, printed = (
        colours(block) for block in re.split(r"@media \((?=prefers)|@media print", STYLE)
    )
    chosen = {"light": light, "dark": light | dark, "print": light | printed}[scheme]
    weak = {
        f"{a} on {b}": round(contrast(chosen[a], chosen[b]), 2)
        for a, b in PAIRS
        if contrast(chosen[a], chosen[b]) < 4.5
    }
    assert weak == {}


def test_the_measure_of_contrast() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.fixture(scope="module")
def nasty_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A lab with texts of every length; the address of its page."""
    made = lab(40)
    nasty = host("failed_task")
    nasty["failure"]["message"] = "x" * 1990
    nasty["found"]["cuda"] = "y" * 300
    made["hosts"]["n" * 200] = nasty
    made["hosts"][HOSTILE] = host("failed_check") | {"stack": "z" * 300}
    target = tmp_path_factory.mktemp("page") / "report.html"
    target.write_bytes(html.render(validate(made)))
    return target.as_uri()


def height(element: str) -> str:
    return f"document.querySelector('{element}').getBoundingClientRect().height"


@pytest.mark.slow
@pytest.mark.parametrize("width", [320, 390, 820, 1440])
def test_the_page_never_scrolls_sideways(width: int, browser: Any, nasty_page: str) -> None:
    browser.open(nasty_page, width)
    assert browser.ask("document.querySelectorAll('details').length") > 40
    assert browser.overflow() == 0


@pytest.mark.slow
def test_a_link_opens_its_host_and_paper_shows_all(browser: Any, nasty_page: str) -> None:
    """Without a script: by the anchor, and by the style for print."""
    browser.open(nasty_page + "#host-gpu002", 1440)
    assert browser.ask(height("#host-gpu002")) > 400
    assert browser.ask(height("#host-gpu003")) < 100
    browser.call("Emulation.setEmulatedMedia", media="print")
    assert browser.ask(height("#host-gpu003")) > 400
    browser.call("Emulation.setEmulatedMedia", media="")


@pytest.mark.slow
def test_a_filter_hides_the_other_hosts(browser: Any, nasty_page: str) -> None:
    browser.open(nasty_page, 820)
    shown = "[...document.querySelectorAll('tr[data-s], details[id^=host-]')]"
    shown += ".filter(e => e.getBoundingClientRect().height > 0).length"
    assert browser.ask(shown) == 2 * 42
    browser.ask("document.querySelector('#show-failed').click()")
    assert browser.ask(shown) == 2 * 3  # gpu007 and the two nasty ones
