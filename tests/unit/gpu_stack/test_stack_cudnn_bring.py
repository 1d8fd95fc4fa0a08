"""How a host comes to the cuDNN that is wished: fetched, put there, made current, taken away."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import stat
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cudnn_archives import CUDA, HEADER, NAME, VERSION, everything, nvidia, pack, wish
from gpu_stack.components.cudnn import bring, directories, fetch, layout, versions
from gpu_stack.host import background, download
from gpu_stack.host.context import Context

from tests.served import Quiet, serving

HERE = Context()
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Downloads, jobs and CUDA's trees of this test's own."""
    monkeypatch.setattr(fetch, "DOWNLOADS", str(tmp_path / "downloads"))
    monkeypatch.setattr(bring, "JOB", str(tmp_path / "run" / "cudnn"))
    monkeypatch.setattr(layout, "TREES", str(tmp_path / "cuda-*"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    (tmp_path / "downloads").mkdir()
    return tmp_path


def settle(root: Path, sha256: str, *, check_mode: bool = False, **more: Any) -> dict[str, Any]:
    """As the module of that name does it."""
    params = {
        "state": "present", "root": str(root), "version": VERSION, "cuda": CUDA, "sha256": sha256,
        "host_file": "", "controller_file": "", "archive": "", "urls": [], "proxy": "",
        "ca_bundle": "", "reinstall": False, "keep_old": True, "layout": "versioned", "tree": "",
        "begin": False,
    }  # fmt: skip
    assert more.keys() <= params.keys()
    result: dict[str, Any] = bring.settle({**params, **more}, check_mode)
    return result


def complete_and_current(root: Path, sha256: str) -> tuple[bool, bool]:
    seen = versions.look(HERE, wish(root, sha256))
    return seen["complete"], seen["current"]


class Server(ThreadingHTTPServer):
    """Gives what it has; some of it only to who knows the password."""

    def __init__(self, content: dict[str, bytes]) -> None:
        self.content = content
        self.asked: list[tuple[str, str | None]] = []
        super().__init__(("127.0.0.1", 0), Answers)

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class Answers(Quiet, BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers.get("Authorization")))
        found = self.server.content.get(self.path)
        if self.path.startswith("/away"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/away"))
        elif found is None or (
            self.path.startswith("/secret") and "Authorization" not in self.headers
        ):
            self.send_response(401 if found else 404)
        else:
            self.send_response(200)
            self.send_header("Content-Length", str(len(found)))
        self.end_headers()
        self.wfile.write(found or b"")


@pytest.fixture
def server() -> Iterator[Callable[[dict[str, bytes]], Server]]:
    with contextlib.ExitStack() as running:

        def start(content: dict[str, bytes]) -> Server:
            server = Server(content)
            running.enter_context(serving(server))
            return server

        yield start


# from where


def test_what_is_begun_is_complete_and_becomes_current_in_its_turn(
    root: Path, archive: Path, place: Path, server: Callable[[dict[str, bytes]], Server]
) -> None:
    sha256 = pack(archive, nvidia())
    there = server({"/login": b"<html>", "/secret/cudnn.tgz": archive.read_bytes()})
    urls = [
        f"http://{there.place}/none",
        f"http://{there.place}/login",
        f"http://ada:p%40ss@{there.place}/secret/cudnn.tgz",
    ]
    begun = settle(root, sha256, urls=urls, begin=True)
    assert begun == {"changed": False, "begun": True}
    while not (place / "run" / "cudnn" / "result").exists():
        time.sleep(0.01)
    assert complete_and_current(root, sha256) == (True, False)
    assert not list((place / "downloads").iterdir())
    assert there.asked[-1][1] == "Basic " + b64encode(b"ada:p@ss").decode()

    result = settle(root, sha256, urls=[f"http://{there.place}/none"])
    assert (result["changed"], result["renewed"]) == (True, True)
    assert result["library"] == f"{root}/current/lib64"
    assert complete_and_current(root, sha256) == (True, True)
    assert not (place / "run" / "cudnn").exists()
    again = settle(root, sha256, urls=[f"http://{there.place}/none"])
    assert (again["changed"], again["renewed"]) == (False, False)
    assert settle(root, sha256, urls=urls, begin=True)["begun"] is False


def test_a_password_does_not_go_where_an_address_leads(
    root: Path, archive: Path, server: Callable[[dict[str, bytes]], Server]
) -> None:
    sha256 = pack(archive, nvidia())
    there = server({"/cudnn.tgz": archive.read_bytes()})
    settle(root, sha256, urls=[f"http://ada:secret@{there.place}/away/cudnn.tgz"])
    assert [path for path, _ in there.asked] == ["/away/cudnn.tgz", "/cudnn.tgz"]
    assert there.asked[1][1] is None


def test_what_no_address_has_is_refused_without_a_password_and_leaves_nothing(
    root: Path, place: Path, server: Callable[[dict[str, bytes]], Server]
) -> None:
    there = server({"/login": b"<html>"})
    urls = [f"http://ada:secret@{there.place}/none", f"http://{there.place}/login"]
    before = everything(place)
    with pytest.raises(bring.RefusalError) as refused:
        settle(root, "0" * 64, urls=urls)
    assert str(refused.value) == (
        f"No address in cudnn_urls gave the archive. http://{there.place}/none: HTTP Error 404:"
        f" Not Found. http://{there.place}/login: what it sent is a web page (6 bytes), not an"
        " archive: most likely the site's login or error page. Download the archive in a browser"
        " and name the file, or use another URL. Download it by hand and name it in"
        " cudnn_controller_file or cudnn_host_file, or set cudnn_proxy."
    )
    assert everything(place) == before


def test_an_archive_of_the_right_hash_that_is_refused_is_asked_of_no_other_address(
    root: Path, archive: Path, server: Callable[[dict[str, bytes]], Server]
) -> None:
    sha256 = pack(archive, nvidia(header=HEADER.replace(b"MINOR 1", b"MINOR 5")))
    there = server({"/cudnn.tgz": archive.read_bytes()})
    with pytest.raises(bring.RefusalError) as refused:
        settle(root, sha256, urls=[f"http://{there.place}/cudnn.tgz"] * 2)
    assert str(refused.value) == (
        f"cuDNN {NAME} was not installed: the archive holds cuDNN 8.5.0, not 8.1.0.77. The host is"
        " as it was."
    )
    assert len(there.asked) == 1


@pytest.mark.parametrize("word", ["host_file", "archive"])
def test_a_download_goes_when_it_is_unpacked_and_somebodys_file_stays(
    root: Path, archive: Path, place: Path, word: str
) -> None:
    sha256 = pack(archive, nvidia())
    download = place / "downloads" / "provision-cudnn.x"
    download.mkdir()
    archive.rename(download / "archive")
    begun = settle(root, sha256, begin=True, **{word: str(download / "archive")})
    assert begun["begun"] is True
    assert background.result(bring.JOB) == {"changed": True, "backup": []}
    assert download.exists() == (word == "host_file")
    assert complete_and_current(root, sha256) == (True, False)


def test_a_file_that_lies_in_no_directory_for_downloads_stays(root: Path, archive: Path) -> None:
    sha256 = pack(archive, nvidia())
    settle(root, sha256, archive=str(archive))
    assert archive.exists()


def test_the_controllers_file_is_asked_for_where_it_is_needed(
    root: Path, archive: Path, place: Path
) -> None:
    sha256 = pack(archive, nvidia())
    (place / "downloads" / "provision-cudnn.killed").mkdir()
    asked = settle(root, sha256, controller_file="/srv/cudnn.tgz")
    assert asked["changed"] is True  # what a killed run left
    (download,) = (place / "downloads").iterdir()
    assert asked["archive_needed"] == f"{download}/archive"
    assert stat.S_IMODE(download.stat().st_mode) == 0o700
    Path(asked["archive_needed"]).write_bytes(archive.read_bytes())
    more = {"controller_file": "/srv/cudnn.tgz", "archive": asked["archive_needed"]}
    assert settle(root, sha256, **more)["renewed"] is True
    assert list((place / "downloads").iterdir()) == []
    again = settle(root, sha256, controller_file="/srv/cudnn.tgz")
    assert "archive_needed" not in again
    # A file of the host comes first.
    more = {"controller_file": "/srv/cudnn.tgz", "host_file": str(archive), "reinstall": True}
    assert "archive_needed" not in settle(root, sha256, **more)


def test_without_any_source_it_is_refused_before_anything_is_begun(root: Path) -> None:
    for more in ({}, {"begin": True}):
        with pytest.raises(bring.RefusalError) as refused:
            settle(root, "0" * 64, **more)
        assert str(refused.value) == (
            f"cuDNN {NAME} is not on this host ({NAME} is not installed), and cudnn_host_file,"
            " cudnn_controller_file and cudnn_urls are all empty: name at least one of them."
        )
    assert not root.exists()


def test_a_server_that_drips_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte was progress: an archive that never ends held the run for ever."""
    monkeypatch.setattr(fetch, "LONGEST", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as dripping:
        url = f"http://127.0.0.1:{dripping.getsockname()[1]}/cudnn.tgz"
        ended = threading.Event()

        def drip() -> None:
            connection, _ = dripping.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(1000)
                connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 1000\r\n\r\n")
                for _second in range(100):
                    connection.sendall(b"x")
                    if ended.wait(0.05):
                        break

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            with pytest.raises(bring.RefusalError, match=r"not whole after 0\.5 s"):
                fetch.fetch(url, str(tmp_path / "archive"))
        finally:
            ended.set()
            thread.join()


def test_a_proxy_and_a_bundle_are_those_of_the_download_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", "http://mine:1")
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with download.surroundings("http://ada:secret@proxy:2", "/etc/ca.pem"):
        assert os.environ["http_proxy"] == os.environ["https_proxy"] == "http://ada:secret@proxy:2"
        assert os.environ["SSL_CERT_FILE"] == "/etc/ca.pem"
    assert os.environ["http_proxy"] == "http://mine:1"
    assert "SSL_CERT_FILE" not in os.environ
    with download.surroundings("", ""):
        assert os.environ["http_proxy"] == "http://mine:1"


# behind other tasks


def children(name: str) -> list[int]:
    """This test's own processes of that name: a lab's hosts may have some as well."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            status = (path.parent / "status").read_text()
            if path.read_text() == name + "\n" and f"\nPPid:\t{os.getpid()}\n" in status:
                pids.append(int(path.parent.name))
    return pids


def test_who_is_ended_while_fetching_leaves_nothing(root: Path, archive: Path, place: Path) -> None:
    """Its own turn fetches once more."""
    sha256 = pack(archive, nvidia())
    before = everything(place)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/cudnn.tgz"
        assert settle(root, sha256, urls=[url], begin=True)["begun"]
        connection, _ = silent.accept()
        with connection:
            connection.recv(1)
            assert list((place / "downloads").iterdir())
            assert settle(root, sha256, urls=[url], begin=True)["begun"] is False
            (pid,) = children(bring.PROCESS)
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)
    assert everything(place) - before == {"run", "run/cudnn", "run/cudnn/lock", "run/cudnn/result"}
    assert settle(root, sha256, host_file=str(archive))["changed"] is True
    assert complete_and_current(root, sha256) == (True, True)


def test_a_process_has_its_own_name_again_afterwards(root: Path, archive: Path) -> None:
    sha256 = pack(archive, nvidia())
    before = Path("/proc/self/comm").read_text()
    settle(root, sha256, host_file=str(archive))
    assert Path("/proc/self/comm").read_text() == before
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


# check mode


def test_check_mode_says_what_would_be_done_and_does_nothing(
    root: Path, archive: Path, place: Path
) -> None:
    sha256 = pack(archive, nvidia())
    more: dict[str, Any] = {"host_file": str(archive), "check_mode": True}
    before = everything(place)
    would = settle(root, sha256, **more)
    assert (would["changed"], would["renewed"]) == (True, True)
    assert would["msg"] == f"Would install cuDNN {NAME}: {NAME} is not installed"
    assert would["library"] == f"{root}/current/lib64"
    assert settle(root, sha256, begin=True, **more) == {"changed": False, "begun": False}
    assert everything(place) == before

    settle(root, sha256, host_file=str(archive))
    assert settle(root, sha256, **more)["changed"] is False
    would = settle(root, sha256, reinstall=True, **more)
    assert would["msg"] == f"Would install cuDNN {NAME}: cudnn_reinstall is set"
    (root / "current").unlink()
    (root / NAME / "lib64").chmod(0o700)
    before = everything(place)
    would = settle(root, sha256, **more)
    assert (would["changed"], would["renewed"], "msg" in would) == (True, True, False)
    assert everything(place) == before
    assert stat.S_IMODE((root / NAME / "lib64").stat().st_mode) == 0o700
    would = settle(root, sha256, state="absent", check_mode=True)
    assert (would["changed"], would["removed"]) == (True, [f"{root}/{NAME}"])
    assert everything(place) == before


def test_what_was_begun_is_left_to_a_run_that_is_no_check(
    root: Path, archive: Path, place: Path
) -> None:
    sha256 = pack(archive, nvidia())
    settle(root, sha256, host_file=str(archive), begin=True)
    while not (place / "run" / "cudnn" / "result").exists():
        time.sleep(0.01)
    assert settle(root, sha256, host_file=str(archive), check_mode=True)["changed"] is True
    assert (place / "run" / "cudnn" / "result").exists()


# beside the archive


def test_a_version_is_unpacked_again_where_that_is_wished(root: Path, archive: Path) -> None:
    sha256 = pack(archive, nvidia())
    settle(root, sha256, host_file=str(archive))
    header = root / NAME / "include" / "cudnn_version.h"
    header.write_bytes(HEADER.replace(b"8", b"9"))
    assert settle(root, sha256, host_file=str(archive))["changed"] is False
    again = settle(root, sha256, host_file=str(archive), reinstall=True)
    assert (again["changed"], again["renewed"]) == (True, True)
    assert header.read_bytes() == HEADER


def test_other_versions_go_only_where_that_is_wished(root: Path, archive: Path) -> None:
    sha256 = pack(archive, nvidia())
    settle(root, sha256, host_file=str(archive))
    newer = archive.with_name("newer.tgz")
    other = pack(newer, nvidia(header=HEADER.replace(b"MINOR 1", b"MINOR 2")))
    more: dict[str, Any] = {"version": "8.2.0.53", "host_file": str(newer)}
    assert settle(root, other, **more)["removed"] == []
    assert (root / NAME).is_dir()
    would = settle(root, other, keep_old=False, check_mode=True, **more)
    assert (would["changed"], would["removed"]) == (True, [NAME])
    assert settle(root, other, keep_old=False, **more)["removed"] == [NAME]
    assert not (root / NAME).exists()


def test_links_into_cudas_tree_need_the_tree(root: Path, archive: Path, place: Path) -> None:
    sha256 = pack(archive, nvidia())
    tree = place / "cuda-11.2"
    more: dict[str, Any] = {"host_file": str(archive), "layout": "cuda", "tree": str(tree)}
    assert settle(root, sha256, check_mode=True, **more)["changed"] is True
    with pytest.raises(bring.RefusalError) as refused:
        settle(root, sha256, **more)
    assert str(refused.value) == (
        f"cudnn_layout is cuda, and {tree}/lib64 is missing: it comes with NVIDIA's packages of"
        " CUDA. Install them first, name their tree in cudnn_tree, or leave cudnn_layout at"
        " versioned."
    )
    (tree / "lib64").mkdir(parents=True)
    result = settle(root, sha256, **more)
    assert (result["changed"], result["renewed"]) == (True, False)
    assert result["libraries"] == [f"{root}/current/lib64", f"{tree}/lib64"]
    assert (tree / "lib64" / "libcudnn.so.8").readlink() == root / NAME / "lib64/libcudnn.so.8"
    assert settle(root, sha256, **more)["changed"] is False
    result = settle(root, sha256, host_file=str(archive))
    assert result["libraries"] == [f"{root}/current/lib64"]
    assert result["changed"] is True
    assert not list(tree.rglob("libcudnn*"))


def test_the_tree_is_by_default_that_of_the_cuda_release() -> None:
    assert layout.tree_of("cuda", "", "11.2") == "/usr/local/cuda-11.2"
    assert layout.tree_of("cuda", "/opt/cuda", "11.2") == "/opt/cuda"
    assert layout.tree_of("versioned", "/opt/cuda", "11.2") is None


@pytest.mark.parametrize(
    ("mode", "becomes"), [(0o700, 0o755), (0o777, 0o755), (0o1777, 0o1755), (0o775, 0o775)]
)
@ROOT_ONLY
def test_everybody_enters_and_root_alone_writes(
    root: Path, archive: Path, mode: int, becomes: int
) -> None:
    sha256 = pack(archive, nvidia())
    settle(root, sha256, host_file=str(archive))
    for path in (root, root / NAME, root / NAME / "lib64"):
        path.chmod(mode)
        assert settle(root, sha256, host_file=str(archive))["changed"] == (mode != becomes)
        assert stat.S_IMODE(path.stat().st_mode) == becomes


@ROOT_ONLY
def test_a_directory_is_roots_from_the_root_on(root: Path, archive: Path) -> None:
    """Whose those above are is the administrator's to say; all must be open."""
    sha256 = pack(archive, nvidia())
    settle(root, sha256, host_file=str(archive))
    for path in (root.parent, root, root / NAME / "include"):
        os.chown(path, 65534, 65534)
        path.chmod(0o770)
    assert settle(root, sha256, host_file=str(archive))["changed"] is True
    assert (root.parent.stat().st_uid, root.stat().st_uid) == (65534, 0)
    assert stat.S_IMODE(root.parent.stat().st_mode) == 0o775
    assert stat.S_IMODE(root.stat().st_mode) == 0o755
    assert settle(root, sha256, host_file=str(archive))["changed"] is False


def test_what_a_link_on_the_way_leads_to_is_the_administrators(
    root: Path, archive: Path, place: Path
) -> None:
    sha256 = pack(archive, nvidia())
    settle(root, sha256, host_file=str(archive))
    (root.parent).rename(place / "elsewhere")
    root.parent.symlink_to(place / "elsewhere")
    (place / "elsewhere").chmod(0o700)
    names = versions.look(HERE, wish(root, sha256))["names"]
    faults = directories.faults(HERE, str(root), f"{root}/{NAME}", names)
    assert faults[str(root.parent)] == "closed"
    settle(root, sha256, host_file=str(archive))
    assert stat.S_IMODE((place / "elsewhere").stat().st_mode) == 0o700


def test_removal_tells_where_the_libraries_were(root: Path, archive: Path) -> None:
    """The loader's file is compared with what was written."""
    sha256 = pack(archive, nvidia("lib"))
    settle(root, sha256, host_file=str(archive))
    gone = settle(root, sha256, state="absent")
    assert (gone["changed"], gone["library"]) == (True, f"{root}/current/lib")
    assert not root.exists()
    gone = settle(root, "", state="absent")
    assert (gone["changed"], gone["library"]) == (False, f"{root}/current/lib64")
