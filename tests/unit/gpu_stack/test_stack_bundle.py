"""A bundle is read before anything is touched: each fault of it is one message, and in time."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from gpu_stack import bundle_rules
from gpu_stack.components.nvidia_driver import kernel_rules
from gpu_stack.host import bundle, bundle_layout
from gpu_stack.host.context import Context

from provision.bundle import archives, manifest
from provision.catalog import load

DIGEST = "sha256:" + "a" * 64
CUDNN = "b" * 64
FILES = {
    f"files/{CUDNN}/cudnn.tgz": b"cuDNN",
    "archives/deb.example.org/pool/linux-headers-6.1.0-20-amd64_6.1.20_amd64.deb": b"headers",
}
ENTRY = {"size": 1, "sha256": ""}
DEBIAN = {"distribution": "debian", "release": "12"}


def document(**changes: Any) -> bytes:
    """A manifest, as `provision bundle` writes it."""
    files = {
        path: manifest.File(CUDNN if path.startswith("files/") else "c" * 64, len(body))
        for path, body in FILES.items()
    }
    whole = manifest.Manifest(DIGEST, ("debian12",), (), (), {}, files)
    data: dict[str, Any] = json.loads(manifest.dump(whole))
    return json.dumps(data | changes).encode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A bundle at /media/lab of a host whose root is `tmp_path`."""
    place = tmp_path / "media/lab"
    for path, body in FILES.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(body)
    (place / "manifest.json").write_bytes(document())
    for path in (tmp_path, *tmp_path.rglob("*")):
        path.chmod(0o755)
    return place


def fault(root: Path, wish: str = "/media/lab") -> str:
    """What the rule says of the bundle on this host; "" where it is one."""
    context = Context(root=str(root), options={"gpu_bundle": wish})
    facts = {"lock_digest": DIGEST, "platform": DEBIAN}
    seen = bundle_rules.FACTS["bundle"](context)
    reasons = bundle_rules.unfit({**facts, "preflight": {"bundle": seen}}, [], {}, None)
    assert all(hint for _, hint in reasons)
    return "; ".join(f"{message}. {hint}" for message, hint in reasons)


def test_a_whole_one_is_read(folder: Path, tmp_path: Path) -> None:
    manifest = bundle.read(Context(root=str(tmp_path)), "/media/lab/")
    assert manifest.place == "file:///media/lab"
    assert (manifest.lock, manifest.platforms) == (DIGEST, ["debian12"])
    assert manifest.by_hash == {CUDNN: f"files/{CUDNN}/cudnn.tgz"}
    assert fault(tmp_path) == ""
    assert folder.is_dir()


def test_without_the_option_nothing_is_read(tmp_path: Path) -> None:
    assert fault(tmp_path, "") == ""
    assert bundle.of_host(Context(root=str(tmp_path))) is None


def test_it_is_read_once(folder: Path, tmp_path: Path) -> None:
    context = Context(root=str(tmp_path), options={"gpu_bundle": "/media/lab"})
    whole = bundle.of_host(context)
    (folder / "manifest.json").unlink()
    assert bundle.of_host(context) is whole
    assert whole is not None
    assert bundle.has_package(whole, "linux-headers-6.1.0-20-amd64")
    assert not bundle.has_package(whole, "linux-headers-6.1.0-20")


def test_only_what_is_in_it_must_be_roots(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home").chmod(0o777)
    assert folder.is_dir()
    assert fault(tmp_path) == ""


def test_a_link_leads_through_folders_of_roots_alone(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "srv").mkdir()
    folder.rename(tmp_path / "srv/lab")
    folder.symlink_to("../srv/lab")
    assert fault(tmp_path) == ""
    for place in ("srv", "media"):
        (tmp_path / place).chmod(0o777)
        assert f"others than root can change /{place}," in fault(tmp_path)
        (tmp_path / place).chmod(0o755)


def test_what_goes_while_it_is_looked_at_is_named(tmp_path: Path) -> None:
    with pytest.raises(bundle.UnfitError, match=r"^gpu_bundle: /gone can't be read$") as error:
        bundle._roots(Context(root=str(tmp_path)), "/gone", "/gone")
    assert error.value.silent is False


def test_a_manifest_may_be_as_large_as_the_limit(folder: Path, tmp_path: Path) -> None:
    """And no more than a byte beyond is read."""
    asked = []

    class Recorded(Context):
        def read_bytes(self, path: str, size: int | None = None) -> bytes | None:
            asked.append(size)
            return super().read_bytes(path, size)

    padding = b" " * (bundle.LIMIT - len(document()))
    (folder / "manifest.json").write_bytes(document() + padding)
    assert bundle.read(Recorded(root=str(tmp_path)), "/media/lab").lock == DIGEST
    assert asked == [bundle.LIMIT + 1]
    (folder / "manifest.json").write_bytes(document() + padding + b" ")
    assert "more than 16777216 bytes" in fault(tmp_path)


def test_what_is_no_file_of_its_is_not_found_by_a_hash() -> None:
    entries = {"files/x": {"size": 1, "sha256": "d" * 64}, "filesx": {"size": 1, "sha256": CUDNN}}
    whole = bundle.parse("http://x", document(files=entries))
    assert whole.by_hash == {"d" * 64: "files/x"}


def test_the_first_of_several_missing_files_is_named(folder: Path, tmp_path: Path) -> None:
    for path in FILES:
        (folder / path).unlink()
    files = json.loads(document())["files"]
    backwards = {path: files[path] for path in sorted(files, reverse=True)}
    (folder / "manifest.json").write_bytes(document(files=backwards))
    assert "is not whole: archives/deb.example.org/" in fault(tmp_path)
    assert "_amd64.deb and 1 more is missing or cut short" in fault(tmp_path)
    (folder / f"files/{CUDNN}/cudnn.tgz").write_bytes(b"cuDNN")
    assert "_amd64.deb is missing or cut short" in fault(tmp_path)


def test_a_folder_is_no_file(folder: Path, tmp_path: Path) -> None:
    (folder / "files/dir").mkdir()
    size = (folder / "files/dir").stat().st_size
    entries = {"files/dir": {"size": size, "sha256": ""}}
    (folder / "manifest.json").write_bytes(document(files=entries))
    assert "files/dir is missing or cut short" in fault(tmp_path)


def _without(name: str) -> Callable[[Path], object]:
    return lambda place: (place / name).unlink()


def _with(name: str, body: bytes = b"") -> Callable[[Path], object]:
    return lambda place: (place / name).write_bytes(body)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_without("manifest.json"), "/media/lab is no bundle, or an unfinished one"),
        (_with(".unfinished"), "the bundle /media/lab is unfinished"),
        (_with("delta.json"), "is a delta"),
        (
            _with("manifest.json", document()[:99]),
            "/media/lab/manifest.json was cut short or altered",
        ),
        (_with("manifest.json", b"{}"), "was cut short or altered"),
        (_with("manifest.json", document(files=[])), "was cut short or altered"),
        (
            lambda place: _without("manifest.json")(place) or (place / "manifest.json").mkdir(),
            "/media/lab/manifest.json can't be read. check the disk: dmesg",
        ),
        (_with("manifest.json", b"[]"), "was cut short or altered"),
        (_with("manifest.json", b"[" * 100000), "was cut short or altered"),
        (
            _with("manifest.json", document(files={"files/a": {"size": 9e999, "sha256": ""}})),
            "was cut short or altered",
        ),
        (_with("manifest.json", document(format=7)), "has the format 7 of another"),
        *(
            (_with("manifest.json", document(files={"files/x": ENTRY, path: ENTRY})), "outside")
            for path in ("../x", "files/../x", "./x", "/x", "files//x", "files/a\nb")
        ),
        (_with("manifest.json", document(lock="sha256:old")), "another lock: sha256:old"),
        (_with("manifest.json", document(platforms=["debian13"])), "nothing for debian12"),
        (_with(f"files/{CUDNN}/cudnn.tgz", b"cuD"), f"{CUDNN}/cudnn.tgz is missing or cut"),
        (_without(f"files/{CUDNN}/cudnn.tgz"), f"{CUDNN}/cudnn.tgz is missing or cut"),
        (lambda place: place.chmod(0o777), "others than root can change /media/lab"),
        (lambda place: place.parent.chmod(0o775), "others than root can change /media,"),
        (lambda place: place.parent.chmod(0o750), "not everybody may enter /media"),
        (lambda place: os.chown(place, 4711, 0), "others than root can change /media/lab"),
        # What is below it too: apt and pip install from where the files lie.
        (lambda place: (place / "archives").chmod(0o777), "can change /media/lab/archives,"),
        (lambda place: (place / "manifest.json").chmod(0o666), "change /media/lab/manifest.json,"),
        (
            lambda place: os.chown(place / f"files/{CUDNN}/cudnn.tgz", 4711, 0),
            f"others than root can change /media/lab/files/{CUDNN}/cudnn.tgz",
        ),
        (
            lambda place: (place / "archives/new").mkdir() or (place / "archives/new").chmod(0o777),
            "others than root can change /media/lab/archives/new",
        ),
        (
            lambda place: (
                (place / "files").rename(place / "old") and (place / "files").symlink_to("old")
            ),
            "/media/lab/files is a link",
        ),
    ],
)
def test_each_fault_is_named(
    folder: Path, tmp_path: Path, damage: Callable[[Path], object], words: str
) -> None:
    if os.geteuid() and "chown" in damage.__code__.co_names:
        pytest.skip("only root gives a folder away")
    damage(folder)
    assert words in fault(tmp_path)


def test_a_disk_that_is_not_there(tmp_path: Path) -> None:
    assert "there is no folder /media/lab on this host" in fault(tmp_path)


def test_a_manifest_without_an_end_is_not_read(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "LIMIT", 100)
    assert folder.is_dir()
    assert "more than 100 bytes" in fault(tmp_path)


@pytest.mark.parametrize(
    "wish",
    [
        "media/lab", "/", "/media/../etc", "/media/my stick", "ftp://x/y", "http://", "file:///x",
        "http://x/?y", "https://x/a b", "/media/lab\n",
    ],
)  # fmt: skip
def test_what_is_no_place_is_refused(wish: str) -> None:
    if wish.strip() != wish:
        assert bundle.place_of(wish) == "file://" + wish.strip()
        return
    with pytest.raises(bundle.UnfitError, match="is no place of a bundle") as error:
        bundle.place_of(wish)
    assert "/media/stick/lab" in error.value.hint


def test_a_login_is_refused_and_not_repeated() -> None:
    with pytest.raises(bundle.UnfitError, match="without a login") as error:
        bundle.place_of("http://ada:secret@192.0.2.1/lab")
    assert "secret" not in str(error.value) + error.value.hint
    assert error.value.hint == "serve it to the hosts' network alone, and name it without one"


# a web server


@contextmanager
def served(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, *_words: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/lab"
        finally:
            server.shutdown()


def of(files: dict[str, bytes], status: int = 404) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(request: BaseHTTPRequestHandler) -> None:
        body = files.get(request.path.removeprefix("/lab/"))
        request.send_response(status if body is None else 200)
        request.end_headers()
        request.wfile.write(body or b"")

    return answer


def test_a_server_is_read(tmp_path: Path) -> None:
    with served(of({"manifest.json": document()})) as place:
        assert fault(tmp_path, place) == ""
        assert bundle.read(Context(), place + "/").place == place


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (of({}), "is no bundle, or an unfinished one"),
        (of({}, 410), "is no bundle, or an unfinished one"),
        (of({}, 409), "can't be read from this host: HTTP Error 409"),
        (of({}, 500), "can't be read from this host: HTTP Error 500"),
        (of({"manifest.json": b"<html>"}), "was cut short or altered"),
        (of({"manifest.json": document(), ".unfinished": b""}), "is unfinished"),
        (of({"manifest.json": document(), "delta.json": b"{}"}), "is a delta"),
        (of({"manifest.json": b"x" * 2_000_000}), "more than 1000000 bytes"),
    ],
)
def test_a_servers_faults_are_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: Callable[[BaseHTTPRequestHandler], None],
    words: str,
) -> None:
    monkeypatch.setattr(bundle, "LIMIT", 1_000_000)
    with served(answer) as place:
        assert words in fault(tmp_path, place)


def test_a_server_that_says_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "SILENCE", 0.2)
    wait = threading.Event()
    with served(lambda _request: wait.wait(5) and None) as place:
        assert "timed out" in fault(tmp_path, place)
        wait.set()


def test_a_server_that_hangs_up_is_asked_for_one_file(tmp_path: Path) -> None:
    paths = set()
    with served(lambda request: paths.add(request.path)) as place:
        assert "can't be read from this host" in fault(tmp_path, place)
    assert paths == {"/lab/.unfinished"}


def test_a_server_that_is_down_is_named(tmp_path: Path) -> None:
    with served(of({})) as place:
        pass
    assert "can't be read from this host" in fault(tmp_path, place)


# what others ask of it


def test_the_kernels_headers_are_the_bundles(folder: Path, tmp_path: Path) -> None:
    context = Context(root=str(tmp_path), options={"gpu_bundle": "/media/lab"})
    assert kernel_rules.headers(context, "6.1.0-20-amd64") == "offered"
    assert kernel_rules.headers(context, "6.1.0-2-amd64") == "absent"
    (folder / "manifest.json").unlink()
    broken = Context(root=str(tmp_path), options={"gpu_bundle": "/media/lab"})
    assert kernel_rules.headers(broken, "6.1.0-2-amd64") == "unknown"


def test_a_platform_is_called_as_in_the_catalog() -> None:
    for row in load().platforms:
        assert bundle_layout.platform_id(row.platform.as_data()) == row.id


def test_an_archive_lies_where_the_bundle_has_it() -> None:
    address = "http://ada:secret@deb.example.org:8080/debian/"
    assert archives.folder(address) == "archives/deb.example.org_8080/debian"
    assert bundle_layout.file(CUDNN, "https://x.org/a/b%20c.run?d") == f"files/{CUDNN}/b c.run"
    assert bundle_layout.file(CUDNN, "") == f"files/{CUDNN}/archive"
