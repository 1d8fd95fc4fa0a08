"""The page of a fleet: drift, versions, filters and earlier runs; whole without its script."""

from __future__ import annotations

import base64
import hashlib
import html as entities
import json
import re
from pathlib import Path
from typing import Any

import pytest
from report_samples import KERNELS, UBUNTU, fleet, host, report
from test_report_html import HOSTILE, Document, page, run

from provision.report import html, runs, validate
from provision.report.html.fleet import FLEET
from provision.report.html.page import Page, script
from provision.report.runs import Earlier

HOSTS = 500


def before(count: int, number: int = 5) -> list[Earlier]:
    """The runs before `fleet(count)`, the oldest first."""
    return [
        Earlier.of(f"202611{21 - ago}T021500Z-verify", fleet(count, ago=ago))
        for ago in range(number, 0, -1)
    ]


def hosts(*kinds: str) -> dict[str, Any]:
    """A fleet's hosts of these kinds, and proven ones to fill up."""
    made = {f"a{place}": host(kind) for place, kind in enumerate(kinds)}
    return made | {f"p{place}": host("proven") for place in range(FLEET)}


@pytest.fixture(scope="module")
def large() -> bytes:
    return html.render(validate(fleet(HOSTS)), before(HOSTS, 10))


def test_a_page_of_500_hosts_has_every_host_and_is_no_larger_than_it_must(large: bytes) -> None:
    document = Document(large)
    assert document.faults == []
    assert len([a for a in document.all("details") if a.get("id", "").startswith("host-")]) == HOSTS
    assert len(large) / HOSTS < 2_700
    assert len(document.elements) / HOSTS < 80


def test_only_a_fleets_page_has_a_script_and_it_is_allowed_by_its_hash() -> None:
    kinds = ["proven"] * FLEET
    few = page(report(**{f"h{place}": host(kind) for place, kind in enumerate(kinds[1:])}))
    many = page(report(**{f"h{place}": host(kind) for place, kind in enumerate(kinds)}))
    policies = [a["content"] for view in (few, many) for a in view.all("meta") if "http-equiv" in a]
    assert few.scripts == []
    assert "script-src" not in policies[0]
    assert many.scripts == [script()]
    digest = base64.b64encode(hashlib.sha256(script().encode()).digest()).decode()
    assert policies[1].endswith(f"; script-src 'sha256-{digest}'")


def test_rules_with_has_over_all_hosts_are_only_where_no_script_runs() -> None:
    """Beside a script that hides rows they cost more than all else (docs/report.md)."""
    many = html.render(validate(fleet(FLEET))).decode()
    head, rules = many.split("<noscript>")
    rules, body = rules.split("</noscript>")
    assert "body:has(#show-failed:checked)" in rules
    assert "body:has(" not in head + body
    few = html.render(validate(report(a=host("proven")))).decode()
    assert "noscript" not in few
    assert "body:has(#show-failed:checked)" in few


def test_the_script_writes_no_html() -> None:
    assert (
        re.findall(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval|Function", script())
        == []
    )


WORST = f"</script></option></select>{HOSTILE}\u202e"


def test_nothing_of_a_fleet_or_its_earlier_runs_is_taken_for_html() -> None:
    made = fleet(FLEET)
    entry = host("failed_check") | {"groups": [WORST, "x"]}
    entry["platform"] |= {"distribution": WORST, "kernel": WORST, "pretty": WORST}
    entry["found"] |= {"cuda": WORST[:20], WORST: WORST}
    entry["wanted"] |= {WORST: "1"}
    entry["found"]["gpu_devices"][0]["name"] = WORST
    entry["changes"][0] |= {"component": WORST, "item": WORST, "from": WORST, "reason": WORST}
    entry["checks"][0] |= {"title": WORST, "detail": WORST}
    made["hosts"] |= {WORST: entry, WORST + "2": entry}
    past = report("verify", **{WORST: host("proven")}) | {"mode": WORST, "started": WORST}
    data = html.render(validate(made), [Earlier.of(WORST, past)])
    document = page(made, [Earlier.of(WORST, past)])  # asserts that nothing can do harm
    assert document.text.count("</script></option></select>") > 10
    assert entities.escape("<script>alert(1)") in data.decode()
    assert "\u202e" not in data.decode()


def test_drift_is_reported_by_what_differs() -> None:
    made = report("verify", **hosts("drift", "drift", "failed_check", "proven"))
    made["hosts"]["a1"]["changes"][1] |= {"component": "cuda", "item": "libcufft10"}
    made["hosts"]["a3"]["changes"] = [host("drift")["changes"][0]]  # put right: it is proven
    view = Page(validate(made), [])
    groups = [
        (group.name, [row["item"] for row in group.changes], [host.name for host in group.hosts])
        for group in view.drift
    ]
    assert groups == [
        ("CUDA", ["libcusolver.so.11"], ["a0", "a1", "a2"]),
        ("cuDNN", ["cudnn_version.h"], ["a0", "a2"]),
        ("CUDA", ["libcufft10"], ["a1"]),
    ]
    assert [entry.status for entry in view.trouble] == ["failed"]
    assert "Drift 3 hosts" in page(made).text


def test_a_long_drift_is_folded_and_its_hosts_are_all_named() -> None:
    bare = {f"b{place:02d}": host("installed") | {"status": "drift"} for place in range(40)}
    document = page(report("check", **bare))
    assert "CUDA 37 differences on 40 hosts the whole list" in document.text
    section = document.text.partition("Drift 40 hosts")[2].partition("How many hosts have what")[0]
    assert [name for name in bare if name not in section] == []
    assert "and 16 more" in section


def test_versions_say_who_has_them_and_mark_the_odd_ones() -> None:
    made = fleet(100)
    by_title = {entry.title: entry.shares for entry in Page(validate(made), []).versions}
    shares = [
        (share.version, len(share.hosts), share.unlike_lock, share.rare, share.others)
        for share in by_title["Driver"]
    ]
    odd = sum(host["found"].get("nvidia_driver") == "470.199.02" for host in made["hosts"].values())
    unseen = sum(host["status"] == "unreachable" for host in made["hosts"].values())
    ubuntu = sum(
        host["found"].get("nvidia_driver") == UBUNTU["nvidia_driver"]
        for host in made["hosts"].values()
    )
    assert shares == [
        ("470.256.02", 100 - ubuntu - odd - unseen, 0, False, True),
        (UBUNTU["nvidia_driver"], ubuntu, 0, False, False),
        ("470.199.02", odd, odd, True, False),
        ("not known", unseen, 0, False, False),
    ]
    assert [share.like for share in by_title["CUDA"][:2]] == ["", "with Driver 535.183.01"]
    assert [share.version for share in by_title["Kernel"]][:2] == [
        KERNELS["debian11"],
        KERNELS["ubuntu2204"],
    ]
    assert [share.version for share in by_title["Kernel"] if share.rare] == ["5.10.0-28-amd64"]


def test_a_rare_version_is_marked_in_its_hosts_row() -> None:
    made = report(**{f"h{place:02d}": host("proven") for place in range(40)})
    for name in ("h07", "h33"):
        made["hosts"][name]["found"]["python"] = "3.9.1"
    text = page(made).text
    assert text.count("3.9.1 2 of 40") == 2
    made["hosts"]["h08"]["found"]["python"] = "3.9.1"
    assert "of 40" not in page(made).text.partition("What each host has")[2]


def test_filters_offer_what_divides_the_hosts() -> None:
    view = Page(validate(fleet(100)), [])
    assert [(choice.title, choice.count) for choice in view.groups] == [
        ("rack00", 39),
        ("rack01", 40),
        ("rack02", 21),
        ("research", 61),
        ("teaching", 39),
    ]
    assert [choice.title for choice in view.platforms][:2] == [
        "debian 11 x86_64",
        "ubuntu 22.04 x86_64",
    ]
    keys = {choice.title: choice.key for choice in (*view.platforms, *view.groups)}
    chosen = next(host for host in view.hosts if host.name == "gpu081")
    expected = ["ubuntu 22.04 x86_64", "rack02", "research"]
    assert chosen.keys.split() == [keys[word] for word in expected]


def test_checks_in_common_are_reported_once_and_none_is_lost() -> None:
    made = fleet(100)
    view = Page(validate(made), [])
    lists = {check.anchor: check for check in view.common_checks}
    shared = 0
    for shown in view.hosts:
        raw = made["hosts"][shown.key]["checks"]
        for result in ("passed", "not_applicable"):
            own = [(row["title"], row["detail"]) for row in shown.checks[result]]
            if shown.common:
                shared += 1
                own += [(r["title"], r["detail"]) for r in lists[shown.common].checks[result]]
            expected = [(r["title"], r["detail"]) for r in raw if r["result"] == result]
            assert sorted(own) == sorted(expected)
        assert len(shown.checks["failed"]) == sum(row["result"] == "failed" for row in raw)
    assert shared > 150
    document = page(made)
    assert "the same on several hosts" in document.text


def earlier(**statuses: str) -> Earlier:
    return Earlier("r", "verify", "2026-11-01T00:00:00.000Z", "", statuses)


def test_history_says_who_changed_and_how_each_host_fared() -> None:
    now = report(
        "verify", a=host("failed_check"), b=host("proven"), c=host("drift"), d=host("proven")
    )
    past = [
        earlier(a="proven", b="failed", c="drift"),
        earlier(a="proven", b="unreachable"),
        earlier(a="converged", b="proven", c="proven", gone="proven"),
    ]
    view = Page(validate(now), past)
    assert view.history is not None
    assert [(entry.name, last) for entry, last in view.history.worse] == [
        ("a", "converged"),
        ("c", "proven"),
    ]
    assert view.history.better == []
    assert [entry.name for entry in view.history.new] == ["d"]
    strips = {host.name: host.past.words for host in view.hosts if host.past}
    assert strips == {
        "a": "2 proven, then 1 converged, then 1 failed",
        "b": "1 failed, then 1 unreachable, then 2 proven",
        "c": "1 drift, then 1 not looked at, then 1 proven, then 1 drift",
        "d": "3 not looked at, then 1 proven",
    }
    assert [entry.name for entry in view.history.uneven] == ["a", "c", "b"]
    document = page(now, past)
    assert "1 host was as locked in every run that looked at it." in document.text
    marks = [a["aria-label"] for a in document.all("span") if a.get("role") == "img"]
    assert sorted(set(marks)) == sorted(strips.values())


def test_a_page_without_earlier_runs_says_nothing_of_them() -> None:
    assert "Earlier runs" not in page(report(a=host("proven"))).text


def kept(project: Path, name: str, began: str, *, broken: bool = False, **more: Any) -> None:
    folder = project / "report" / name
    folder.mkdir(parents=True)
    made = report("verify", a=host("proven")) | {"started": began} | more
    (folder / "report.json").write_text("{" if broken else json.dumps(made))


def test_earlier_runs_are_the_last_ones_before_the_page_by_time(tmp_path: Path) -> None:
    for day in range(1, 8):
        kept(tmp_path, f"2026110{day}T000000Z-verify", f"2026-11-0{day}T00:00:00.000Z")
    kept(tmp_path, "proof-for-the-audit", "2026-11-03T12:00:00.000Z", interrupted=True)
    kept(tmp_path, "20261104T120000Z-run", "", broken=True)
    chosen = report() | {"started": "2026-11-05T00:00:00.000Z"}
    by_title = runs.earlier(tmp_path, chosen, 3)
    assert [(run.name, run.note) for run in by_title] == [
        ("20261103T000000Z-verify", ""),
        ("proof-for-the-audit", "interrupted"),
        ("20261104T000000Z-verify", ""),
    ]
    assert runs.earlier(tmp_path, chosen, 0) == []
    assert len(runs.earlier(tmp_path, chosen, 50)) == 5


def test_the_command_shows_as_many_earlier_runs_as_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for day in range(1, 6):
        kept(tmp_path, f"2026110{day}T000000Z-verify", f"2026-11-0{day}T00:00:00.000Z")
    for arguments, shown in (([], 4), (["--history", "2"], 2), (["--history", "0"], 0)):
        assert run(["report", "--project", str(tmp_path), *arguments], monkeypatch) == 0
        text = (tmp_path / "report" / "report.html").read_text()
        assert text.count("T000000Z-verify") == shown


# In Chromium


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = fleet(120)
    made["hosts"]["evil<img src=x onerror=document.title=1>"] = host("proven") | {
        "groups": ["</select><b>"]
    }
    target = tmp_path_factory.mktemp("fleet") / "report.html"
    target.write_bytes(html.render(validate(made), before(120)))
    return target.as_uri()


SHOWN = (
    "[...document.querySelectorAll('{}')].filter(e => e.getBoundingClientRect().height > 0).length"
)
ROWS, PARTS = SHOWN.format("#hosts tr[data-s]"), SHOWN.format("details[id^=host-]")


def choose(browser: Any, list_id: str, title: str) -> None:
    browser.ask(
        f"(() => {{const list = document.getElementById('{list_id}');"
        f"list.value = [...list.options].find(o => o.text.startsWith('{title}')).value;"
        "list.dispatchEvent(new Event('input', {bubbles: true}))})()"
    )


@pytest.mark.slow
def test_filters_leave_the_hosts_that_fit(browser: Any, address: str) -> None:
    browser.open(address, 1440)
    assert (browser.ask(ROWS), browser.ask(PARTS)) == (121, 121)
    browser.click("#find")
    browser.write("gpu11")
    assert (browser.ask(ROWS), browser.ask(PARTS)) == (10, 10)
    assert browser.ask("document.getElementById('shown').textContent") == "10 of 121 hosts"
    browser.write(" UNREACHABLE")
    rows = browser.ask(ROWS)
    assert rows == browser.ask(PARTS) == 0
    browser.ask("document.getElementById('find').value = ''")
    choose(browser, "group", "rack01")
    assert browser.ask(ROWS) == 40
    choose(browser, "platform", "ubuntu")
    assert browser.ask(ROWS) == 0
    choose(browser, "platform", "debian")
    browser.click("#show-drift")
    drifting = sum(
        host["status"] == "drift" and "rack01" in host["groups"]
        for host in fleet(120)["hosts"].values()
    )
    assert browser.ask(ROWS) == browser.ask(PARTS) == drifting > 0
    # Those of them that have a past to tell of.
    assert 0 < browser.ask(SHOWN.format("#past tr[data-s]")) <= drifting
    # What has no host left has no title either.
    assert browser.ask(SHOWN.format("#each .group")) == 1


@pytest.mark.slow
def test_the_page_is_whole_without_a_script(browser: Any, address: str) -> None:
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(address, 820)
        assert (browser.ask(ROWS), browser.ask(PARTS)) == (121, 121)
        assert browser.ask(SHOWN.format("#filters")) == 0
        browser.click("#show-drift")
        assert (
            browser.ask(ROWS)
            == browser.ask(PARTS)
            == sum(host["status"] == "drift" for host in fleet(120)["hosts"].values())
        )
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


@pytest.mark.slow
def test_a_hostile_name_is_text_in_a_browser(browser: Any, address: str) -> None:
    browser.open(address, 1440)
    assert browser.ask("document.images.length") == 0
    assert browser.ask("document.title") != "1"
    assert browser.ask("document.getElementById('group').querySelectorAll('b').length") == 0


@pytest.mark.slow
@pytest.mark.parametrize("width", [320, 390, 820, 1440])
def test_a_fleets_page_never_scrolls_sideways(width: int, browser: Any, address: str) -> None:
    browser.open(address, width)
    assert browser.overflow() == 0


@pytest.mark.slow
def test_every_control_has_a_label(browser: Any, address: str) -> None:
    browser.open(address, 820)
    unlabelled = (
        "[...document.querySelectorAll('input, select')].filter(e => !e.labels.length).length"
    )
    assert browser.ask(unlabelled) == 0
