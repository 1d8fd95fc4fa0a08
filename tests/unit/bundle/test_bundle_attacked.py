"""Locks, manifests and servers that mean harm, or answer nonsense: an error says so, each time."""

from __future__ import annotations

import dataclasses
import hashlib
import http.server
import inspect
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import IO, Any, cast

import pytest

from provision import bundle, inputs, signing
from provision.bundle.manifest import File, Manifest
from provision.cli import console
from provision.errors import DriftError, InputError, MachineError
from provision.upstream import download
from provision.upstream.exact import Exact, Places
from tests.served import Quiet, serving
from tests.unit.bundle import world as worlds
from tests.unit.bundle.test_bundle_built import relocked
from tests.unit.bundle.world import World, build, contents, provision, sha256


def manifest(path: str, size: int = 1) -> Manifest:
    return Manifest("sha256:1", ("debian12",), (), (), {}, {path: File("0" * 64, size)})


@pytest.mark.parametrize(
    "path",
    [
        *("/etc/passwd", "../x", "a/../../x", "a//b", "./a", ".", ""),
        *("a\0b", "a\nb", "\x1b[31m", "\ud800"),
        *("manifest.json", "manifest.json.sig", "delta.json", "delta.json.sig", ".unfinished"),
        *("x" * 250, f"a/{'é' * 125}/b"),
    ],
)
def test_a_manifest_has_no_path_that_is_none(path: str) -> None:
    with pytest.raises(DriftError, match="not as provision writes it"):
        bundle.parse(bundle.dump(manifest(path)), where="x")


@pytest.mark.parametrize("other", ["A/b", "a/B", "a", "a/b/c"])
def test_a_manifest_has_no_two_paths_that_a_stick_can_not_have(other: str) -> None:
    """Of FAT, where one is written over the other; or where one is the other's folder."""
    files = {path: File("0" * 64, 1) for path in ("a/b", other)}
    two = Manifest("sha256:1", (), (), (), {}, files)
    with pytest.raises(DriftError, match="not as provision writes it") as caught:
        bundle.parse(bundle.dump(two), where="x")
    assert "no disk has both" in caught.value.got


def test_a_manifest_is_read_one_way_only() -> None:
    """A name that stands there twice is read as one thing here and as another elsewhere."""
    data = bundle.dump(manifest("lock.yml"))
    assert bundle.parse(data, where="x").files.keys() == {"lock.yml"}
    line = b' "lock.yml": {"sha256": "%s", "size": 1}' % (b"0" * 64)
    assert line in data
    for other in (
        data.replace(line, line.replace(b"1", b"2") + b",\n" + line),
        data.replace(b'"packages": []', b'"packages": [],\n"more": 1'),
        data.replace(b"\n", b"\r\n"),
        data + b" ",
    ):
        with pytest.raises(DriftError, match="not as provision writes it"):
            bundle.parse(other, where="x")
    with pytest.raises(DriftError, match="larger than any"):
        bundle.parse(data + b" " * inputs.MAX_BYTES, where="x")


@pytest.mark.parametrize("size", [-1, 1 << 63, 10**400])
def test_a_manifest_has_no_size_that_no_file_has(size: int) -> None:
    with pytest.raises(DriftError, match="not as provision writes it"):
        bundle.parse(bundle.dump(manifest("lock.yml", size)), where="x")


@pytest.mark.parametrize(
    "path",
    [
        "files/1/../../../cron",  # a .run file's address that ends in ..%2F..%2F..%2Fcron
        "wheels/six-1.16.0-1/../../../x-py3-none-any.whl",  # a build tag takes all characters
        "archives/h/dists/bookworm\nTrusted: yes/InRelease",  # a line of its own in `sources`
    ],
)
def test_nothing_is_written_outside(tmp_path: Path, path: str) -> None:
    places = Places(tmp_path / "cache", {sha256(b"evil"): tmp_path / "evil"})
    (tmp_path / "evil").write_bytes(b"evil")
    for plan in (
        bundle.Plan("sha256:1", (), (), made={path: b"evil"}),
        bundle.Plan("sha256:1", (), (), fetched={path: Exact(sha256(b"evil"), (), "x")}),
    ):
        (tmp_path / "bundle").mkdir(exist_ok=True)
        with pytest.raises(InputError, match="outside of the bundle") as caught:
            bundle.write(tmp_path / "bundle", plan, places)
        assert caught.value.got == repr(path)
    plan = bundle.Plan("sha256:1", (), (), made={"files/x": b"1", "files/X": b"2"})
    with pytest.raises(InputError, match="not every disk can tell apart"):
        bundle.write(tmp_path / "bundle", plan, places)
    plan = bundle.Plan("sha256:1", (), (), made={"files/x": b"1"})
    plan.fetched["files/x"] = Exact(sha256(b"evil"), (), "x")
    with pytest.raises(InputError, match="not every disk can tell apart"):
        bundle.write(tmp_path / "bundle", plan, places)
    assert {name.name for name in tmp_path.iterdir()} == {"bundle", "evil"}
    assert not list((tmp_path / "bundle").rglob("*x-py3*"))


def test_an_archive_on_this_machines_disk_is_refused(world: World, tmp_path: Path) -> None:
    """Its address could be a named pipe's, which no time-out ends."""
    made = worlds.made_lock(world)
    made.details["sources"][worlds.STACK][0]["url"] = "file:///dev/zero"
    (world.project / "lock.yml").write_bytes(relocked(made))
    with pytest.raises(InputError, match="on a web server") as caught:
        build(world, tmp_path / "bundle")
    assert caught.value.got == "file:///dev/zero"


class Nonsense(Quiet, http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.close_connection = True
        if self.path == "/no-http":
            self.wfile.write(b"what?\r\n\r\n")
            return
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"100\r\nit breaks off here")


@pytest.fixture
def nonsense() -> Iterator[str]:
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Nonsense)
    with serving(web):
        yield f"http://127.0.0.1:{web.server_port}"


@pytest.mark.parametrize("url", ["{}/no-http", "{}/chunked", "{}/a b\n", "no address"])
def test_nonsense_in_place_of_an_answer(nonsense: str, tmp_path: Path, url: str) -> None:
    """A proxy's, or a connection that breaks off: no fault of provision."""
    url = url.format(nonsense)
    with pytest.raises(MachineError, match="cannot fetch"):
        download.fetch(url)
    with pytest.raises(MachineError, match="cannot fetch"):
        download.into(url, tmp_path / "file", sha256=hashlib.sha256().hexdigest())


@pytest.mark.parametrize("path", ["lock.yml", "wheels/six-1.16.0-py3-none-any.whl", "wheels/six"])
def test_an_earlier_bundle_brings_no_file_that_it_calls_a_wheel(
    world: World, tmp_path: Path, path: str
) -> None:
    """Its signature is not checked, and the new bundle is signed: of the lock's hashes alone."""
    first = build(world, tmp_path / "first")
    good = contents(first)
    evil = b"evil" * 9
    whole = bundle.parse(good["manifest.json"], where="x")
    (first / path).write_bytes(evil)
    environments = {key: (path, *paths[:1]) for key, paths in whole.environments.items()}
    files = {**whole.files, path: File(sha256(evil), len(evil))}
    changed = dataclasses.replace(whole, environments=environments, files=files)
    (first / "manifest.json").write_bytes(bundle.dump(changed))
    assert provision("--verify", first, "-p", tmp_path)[0] == 0
    assert contents(build(world, tmp_path / "second", "--from", first)) == good


@pytest.fixture
def delta(world: World, tmp_path: Path) -> Path:
    build(world, tmp_path / "old")
    return build(world, tmp_path / "delta", "--since", tmp_path / "old", "--package", "nginx")


def test_what_is_applied_is_what_was_verified(
    tmp_path: Path, delta: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A manifest and a file that change on the stick once they were checked."""
    good = (delta / "manifest.json").read_bytes()
    nginx = next(delta.rglob("nginx*.deb"))
    check = bundle.delta.check_goes_with

    def changing(*given: Any, **named: Any) -> bundle.Delta:
        (delta / "manifest.json").write_bytes(b"{}")
        return check(*given, **named)

    monkeypatch.setattr(bundle.delta, "check_goes_with", changing)
    body = nginx.read_bytes()
    fault = bundle.delta.fault

    def changing_too(path: Path, file: File) -> str:
        message = fault(path, file)
        if path == nginx:
            nginx.write_bytes(b"evil")
        return message

    monkeypatch.setattr(bundle.delta, "fault", changing_too)
    with pytest.raises(DriftError, match="changed while it was read"):
        provision("--apply", delta, tmp_path / "old")
    assert not list((tmp_path / "old").rglob("nginx*.deb"))
    monkeypatch.setattr(bundle.delta, "fault", fault)
    nginx.write_bytes(body)
    (delta / "manifest.json").write_bytes(good)
    provision("--apply", delta, tmp_path / "old")
    assert (tmp_path / "old" / "manifest.json").read_bytes() == good


def test_a_link_in_the_place_of_a_signature_brings_no_secret(tmp_path: Path, delta: Path) -> None:
    (tmp_path / "secret").write_text("mine")
    (delta / "manifest.json.sig").symlink_to(tmp_path / "secret")
    with pytest.raises(DriftError, match="the signature was cut short or altered"):
        provision("--apply", delta, tmp_path / "old")
    assert not (tmp_path / "old" / "manifest.json.sig").exists()


def test_a_signature_beside_an_index_is_its_bundles(tmp_path: Path) -> None:
    """Release.gpg, whose hash no lock has: one that was altered in a bundle is not handed on."""
    (tmp_path / "Release.gpg").write_bytes(b"altered")
    digest = sha256(b"signature")
    places = Places(
        tmp_path / "cache",
        {digest: tmp_path / "Release.gpg"},
        {"a/Release.gpg": digest},
        lambda _: b"from the archive",
    )
    assert places.beside("https://x", "name", "a/Release.gpg") == b"from the archive"
    (tmp_path / "Release.gpg").write_bytes(b"signature")
    assert places.beside("https://x", "name", "a/Release.gpg") == b"signature"


def test_a_delta_that_lost_a_file_on_its_way_is_not_good(tmp_path: Path, delta: Path) -> None:
    next(delta.rglob("nginx*.deb")).unlink()
    with pytest.raises(DriftError, match="not as it was made") as caught:
        provision("--verify", delta, "-p", tmp_path)
    assert "nginx_1.22_amd64.deb: missing" in caught.value.got


def test_the_progress_is_not_written_over_the_question_for_a_passphrase(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []

    class Status:
        def __enter__(self) -> Status:
            shown.append("begins")
            return self

        def __exit__(self, *_: object) -> None:
            self.stop()

        def update(self, _: str) -> None:
            pass

        def stop(self) -> None:
            shown.append("ends")

    def sign(*_: object) -> bytes:
        shown.append("asks")
        return b"-----BEGIN SSH SIGNATURE-----"

    (tmp_path / "key").touch()
    monkeypatch.setattr(console.err, "status", lambda _: Status())
    monkeypatch.setattr(signing, "sign", sign)
    given = ("--from", tmp_path / "cudnn.tgz", "-p", world.project, "--key", tmp_path / "key")
    provision(tmp_path / "bundle", *given)
    assert shown[:3] == ["begins", "ends", "asks"]


def test_signers_that_nobody_would_check_are_refused(world: World, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--allowed-signers is for --verify and --apply"):
        build(world, tmp_path / "bundle", "--allowed-signers", tmp_path / "allowed")


class Slow(Quiet, http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"x")
        Event().wait(20)


def test_an_interrupted_build_does_not_wait_for_a_slow_server(tmp_path: Path) -> None:
    """Ctrl-C, and SIGTERM of whoever stops a service."""
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    web.block_on_close = False
    with serving(web):
        program = (
            "import signal, sys; from pathlib import Path; from provision import bundle\n"
            # A shell's background job, which tests may be, ignores it, and so do its children.
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "from provision.upstream.exact import Exact, Places\n"
            "folder = Path(sys.argv[1])\n"
            "plan = bundle.Plan('sha256:1', (), ())\n"
            "plan.fetched['files/x'] = Exact('0' * 64, (sys.argv[2],), 'x')\n"
            "bundle.write(folder, plan, Places(folder))"
        )
        folder = tmp_path / "bundle"
        folder.mkdir()
        url = f"http://127.0.0.1:{web.server_port}/x"
        with subprocess.Popen(
            [sys.executable, "-c", program, folder, url], stderr=subprocess.DEVNULL
        ) as running:
            try:
                while not (folder / "files" / ".x.part").exists():
                    assert running.poll() is None
                    time.sleep(0.05)
                running.send_signal(signal.SIGINT)
                assert running.wait(10) != 0
            finally:
                running.kill()
    assert (folder / ".unfinished").exists()


def test_a_bad_sector_of_an_earlier_bundle_is_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is fetched; and where nobody else has it, it is named."""
    (tmp_path / "old").write_bytes(b"x")
    read = Path.open

    def bad(path: Path, *given: str) -> IO[bytes]:
        if path.name == "old":
            raise OSError(5, "Input/output error")
        return cast(IO[bytes], read(path, *given))

    monkeypatch.setattr(Path, "open", bad)
    places = Places(tmp_path / "cache", {sha256(b"x"): tmp_path / "old"})
    url = "http://127.0.0.1:9/x"
    with pytest.raises(MachineError, match="a locked file can't be fetched") as caught:
        places.into(Exact(sha256(b"x"), (url,), "x"), tmp_path / "new")
    assert f"{tmp_path / 'old'}: [Errno 5]" in caught.value.got
    assert url in caught.value.got


def test_folders_without_end_are_looked_through(tmp_path: Path) -> None:
    """As somebody's stick can have them; before, they were called a fault of provision."""
    made = bundle.Plan("sha256:1", (), (), made={"lock.yml": b"1"})
    folder = tmp_path / "bundle"
    folder.mkdir()
    whole, _ = bundle.write(folder, made, Places(tmp_path / "cache"))
    bundle.finish(folder, bundle.dump(whole), {})
    assert bundle.check(folder, whole, None).files == 1
    deep = "/".join(["d"] * 400)
    os.makedirs(folder / deep)
    (folder / deep / "x").touch()
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(len(inspect.stack(0)) + 300)
        with pytest.raises(DriftError, match="not as it was made") as caught:
            bundle.check(folder, whole, None)
    finally:
        sys.setrecursionlimit(limit)
    assert caught.value.got == f"{deep}/x: not of this bundle"


def test_what_a_run_left_that_was_ended_while_it_signed_goes(tmp_path: Path) -> None:
    made = bundle.Plan("sha256:1", (), (), made={"lock.yml": b"1"})
    folder = tmp_path / "bundle"
    folder.mkdir()
    for name in ("manifest.json.sig", "delta.json", "lock.yml"):
        download.begun(folder / name).write_bytes(b"-----BEGIN")
    (folder / ".somebody.part").touch()
    whole, _ = bundle.write(folder, made, Places(tmp_path / "cache"))
    bundle.finish(folder, bundle.dump(whole), {})
    assert {path.name for path in folder.iterdir()} == {
        *("lock.yml", "manifest.json", ".somebody.part")
    }
