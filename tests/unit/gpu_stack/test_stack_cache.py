"""The fleet's cache, seen from a host: what is said of one that is none; where things are had."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from gpu_stack import cache_rules
from gpu_stack.components.cudnn import bring
from gpu_stack.components.tensorflow import pip_install
from gpu_stack.host import cache, origin, origin_writer, package_lists
from gpu_stack.host.context import Context
from gpu_stack.host.refusal import RefusalError

from tests.unit.gpu_stack.test_stack_bundle import DEBIAN, DIGEST, document, of, served

FILE = "b" * 64
URL = "https://developer.example.org/cudnn.tgz"
DEBIAN_URL = "http://deb.example.org/debian"
SOURCE = {"url": DEBIAN_URL, "suite": "bookworm", "components": ["contrib", "main"]}


def reasons(place: str, **options: str) -> tuple[str, str]:
    """(what stops the run, what a person is told) of the cache at this address."""
    seen = cache_rules.FACTS["cache"](Context(options={"gpu_cache": place, **options}))
    facts = {"lock_digest": DIGEST, "platform": DEBIAN, "preflight": {"cache": seen}}
    stops, tells = (
        [f"{message}. {hint}" for message, hint in rule.check(facts, [], {}, None)]
        for rule in cache_rules.RULES
    )
    return "".join(stops), "".join(tells)


def test_a_cache_of_this_lock_is_good() -> None:
    with served(of({"manifest.json": document()})) as place:
        assert reasons(place) == ("", "")
    assert reasons("") == ("", "")


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (document(lock="sha256:old"), "is of another lock: sha256:old, and this project's is"),
        (document(platforms=["debian13"]), "has nothing for debian12; it is for debian13"),
        (document()[:50], "was cut short or altered"),
    ],
)
def test_a_cache_of_others_is_refused_in_both_ways(manifest: bytes, words: str) -> None:
    """Only silence is a reason to go past it: what lies is not to be left unnoticed."""
    with served(of({"manifest.json": manifest})) as place:
        for fallback in ("stop", "direct"):
            stops, tells = reasons(place, gpu_cache_fallback=fallback)
            assert stops.startswith("gpu_cache: ")
            assert words in stops
            assert tells == ""


@pytest.mark.parametrize("status", [404, 410])
def test_something_else_at_that_port_is_named(status: int) -> None:
    with served(of({}, status)) as place:
        stops, _ = reasons(place, gpu_cache_fallback="direct")
        assert f"what answers at {place} is no cache" in stops
        assert "ansible-playbook cache.yml" in stops


@pytest.mark.parametrize(("status", "silent"), [(403, False), (499, False), (500, True)])
def test_a_server_that_refuses_is_no_silent_one(status: int, silent: bool) -> None:
    """Past a cache that can't answer hosts may go; past one that won't only a person can."""
    with served(of({}, status)) as place:
        stops, tells = reasons(place, gpu_cache_fallback="direct")
    words = f"the cache {place} does not answer this host: HTTP Error {status}"
    assert words in (tells if silent else stops)
    assert (stops if silent else tells) == ""


def test_silence_stops_or_is_reported() -> None:
    with served(of({})) as place:
        pass
    stops, tells = reasons(place)
    assert f"gpu_cache: the cache {place} does not answer this host" in stops
    assert "gpu_cache_fallback: direct" in stops
    assert tells == ""
    stops, tells = reasons(place, gpu_cache_fallback="direct")
    assert stops == ""
    assert "this host fetches from the lock's own addresses" in tells


def test_with_a_bundle_the_cache_is_not_asked() -> None:
    assert reasons("http://127.0.0.1:1", gpu_bundle="/media/lab") == ("", "")


@pytest.mark.parametrize("wish", ["/media/lab", "ftp://x/", "cache01:8088", "http://a:b@c/"])
def test_what_is_no_address_is_refused(wish: str) -> None:
    with pytest.raises(
        cache.UnfitError, match=r"^gpu_cache: .* is no address of a cache"
    ) as caught:
        cache.place_of(wish)
    assert caught.value.hint == "expected http://cache01:8088, without a login"


def test_an_address_is_had_without_its_last_slash() -> None:
    for place in ("http://cache01:8088", "https://cache01/lab"):
        assert cache.place_of(place + "/") == place


# where things are


def test_a_file_that_the_cache_lacks_comes_from_its_own_place() -> None:
    its = origin.Origin("http://c:1", {FILE: f"files/{FILE}/x.tgz"}, "stop")
    assert its.file(FILE, URL) == f"http://c:1/files/{FILE}/x.tgz"
    assert its.file("c" * 64, URL) == URL
    bundle = its._replace(fallback="")
    assert bundle.file("c" * 64, URL) == f"http://c:1/files/{'c' * 64}/cudnn.tgz"


@pytest.mark.parametrize(
    ("fallback", "urls"),
    [("stop", [f"http://c:1/files/{FILE}/x"]), ("direct", [f"http://c:1/files/{FILE}/x", URL])],
)
def test_cudnn_is_had_from_the_cache_and_then_where_it_is(
    monkeypatch: pytest.MonkeyPatch, fallback: str, urls: list[str]
) -> None:
    its = origin.Origin("http://c:1", {FILE: f"files/{FILE}/x"}, fallback)
    monkeypatch.setattr(origin, "current", lambda: its)
    params = {"host_file": "", "archive": "", "controller_file": "", "proxy": "", "ca_bundle": ""}
    version = bring.layout.Version("/opt/nvidia/cudnn", "9.1.0", "12", FILE)
    assert bring._sources({**params, "urls": [URL]}, version).urls == urls


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes what leads a host to a cache; returns apt's sources, its settings and the folder."""
    for name in ("DIRECTORY", "CONFIGURATION", "NOTE", "PARTS", "KEYS", "LISTS"):
        value = getattr(origin_writer, name).replace("/var/lib/provision", str(tmp_path))
        monkeypatch.setattr(origin_writer, name, value)
    own = tmp_path / "own"
    own.mkdir()
    (own / "debian.sources").write_text("Types: deb\n")
    (own / "provision-cuda.sources").write_text("Types: deb\n")
    monkeypatch.setattr(origin_writer, "OWN_PARTS", str(own))
    monkeypatch.setattr(origin_writer.platform, "look", lambda _context: DEBIAN)

    def write(its: origin.Origin, sources: list[dict[str, Any]]) -> tuple[str, str, Path]:
        origin_writer.write(its, sources, {})
        folder = tmp_path / "origin"
        parts = folder / "sources.list.d"
        return (
            (parts / "provision-origin.sources").read_text(),
            (folder / "apt.conf").read_text(),
            folder,
        )

    return write


def test_apt_is_led_to_the_cache_past_the_hosts_proxy(written: Any) -> None:
    sources, settings, folder = written(origin.Origin("http://c:8088", {}, "stop"), [SOURCE])
    assert "URIs: http://c:8088/archives/deb.example.org/debian\n" in sources
    assert "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg" in sources
    # A cache's index is upstream's; that of a bundle may be as old as the bundle.
    assert "Check-Valid-Until" not in sources
    assert 'Acquire::http::Proxy::c "DIRECT";' in settings
    note = json.loads((folder / "origin.json").read_text())
    assert note == {"place": "http://c:8088", "files": {}, "fallback": "stop"}
    bundled, _, _ = written(origin.Origin("http://c:8088", {}, ""), [SOURCE])
    assert "Check-Valid-Until: no" in bundled


def test_apt_goes_on_by_itself_where_it_may(written: Any) -> None:
    sources, _, _ = written(origin.Origin("http://c:8088", {}, "direct"), [SOURCE, SOURCE])
    (path,) = {line for line in sources.splitlines() if line.startswith("URIs: mirror+file:")}
    listed = Path(path.partition("file:")[2]).read_text().splitlines()
    assert [line.split("\t") for line in listed] == [
        ["http://c:8088/archives/deb.example.org/debian", "priority:1"],
        [DEBIAN_URL, "priority:2"],
    ]


def test_a_lock_without_an_archive_leaves_the_hosts_own_sources(written: Any) -> None:
    _, _, folder = written(origin.Origin("http://c:8088", {}, "stop"), [])
    names = sorted(os.listdir(folder / "sources.list.d"))
    assert "own-debian.sources" in names
    assert "own-provision-cuda.sources" not in names
    _, _, folder = written(origin.Origin("http://c:8088", {}, "stop"), [SOURCE])
    assert sorted(os.listdir(folder / "sources.list.d")) == [
        "provision-docker.sources",  # of an option's repository, where there is one
        "provision-origin.sources",
    ]
    _, _, folder = written(origin.Origin("http://c:8088", {}, ""), [SOURCE])
    assert os.listdir(folder / "sources.list.d") == ["provision-origin.sources"]


def test_without_the_cache_apt_is_as_ever(written: Any) -> None:
    _, settings, _ = written(origin.Origin("", {}, "direct"), [SOURCE])
    assert [line for line in settings.splitlines() if not line.startswith("//")] == []


def params(place: str, fallback: str) -> dict[str, Any]:
    found = {"bundle": "", "cache": place, "fallback": fallback, "lock_digest": DIGEST}
    return {**found, "state": "present", "sources": [SOURCE], "stack": {}, "wait": 0}


def test_a_cache_that_died_after_the_look_is_named_or_passed_by(
    written: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    del written
    with served(of({})) as place:
        pass
    monkeypatch.setattr(package_lists, "fetch", lambda *_: pytest.fail("nothing is fetched"))
    with pytest.raises(RefusalError, match=r"gpu_cache: the cache .* does not answer"):
        origin_writer.settle(params(place, "stop"), False)
    assert origin_writer.settle(params(place, "direct"), False)["addresses"] == {}
    with served(of({"manifest.json": document(lock="sha256:old")})) as place:
        for fallback in ("stop", "direct"):
            with pytest.raises(RefusalError, match="is of another lock: sha256:old"):
                origin_writer.settle(params(place, fallback), False)


def test_an_index_that_apt_does_not_believe_is_the_caches(
    written: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    del written
    answer: dict[str, Any] = {"locked": False, "errors": ["E: bad"], "usable": False}
    answer["words"] = "E: Hash Sum mismatch"
    monkeypatch.setattr(package_lists, "fetch", lambda *_: answer)
    with served(of({"manifest.json": document()})) as place:
        words = f"apt can't use the fleet's cache {place}: E: Hash Sum mismatch"
        with pytest.raises(RefusalError, match=words):
            origin_writer.settle(params(place, "stop"), False)
        # A source of somebody else's, which the run does not need.
        answer["usable"] = True
        assert origin_writer.settle(params(place, "stop"), False)["changed"] is False


# pip


@pytest.mark.parametrize(
    ("fallback", "error", "asked"),
    [
        ("stop", "connection broken", ["http://c:1/simple"]),
        ("direct", "connection broken", ["http://c:1/simple", "https://own.example.org"]),
        ("direct", "THESE PACKAGES DO NOT MATCH THE HASHES", ["http://c:1/simple"]),
    ],
)
def test_pip_asks_the_hosts_own_index_where_the_cache_is_silent_and_not_where_it_lies(
    monkeypatch: pytest.MonkeyPatch, fallback: str, error: str, asked: list[str]
) -> None:
    options = {"index_url": "https://own.example.org", "extra_index_urls": ["x"], "proxy": "p"}
    seen = []

    def run(_argv: list[str], _place: str, given: dict[str, Any]) -> tuple[int, str]:
        seen.append(given["index_url"])
        return (0, "") if given is options else (1, error)

    monkeypatch.setattr(pip_install, "run", run)
    its = origin.Origin("http://c:1", {}, fallback)
    code, _ = pip_install.install("/x", its.pip(options))
    assert seen == asked
    assert code == (0 if len(asked) == 2 else 1)
