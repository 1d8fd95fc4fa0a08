"""How CUDA's local installer comes to a host: downloaded, checked, unpacked, taken away again."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import stat
import subprocess
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.provision.gpu.plugins.modules import cuda_installer as module
from gpu_stack.components.cuda import installer
from gpu_stack.host import background, download

from tests.served import Quiet, serving

NAME = "cuda-repo-debian11-11-2-local_11.2.2-460.32.03-1_amd64.deb"
OTHER = "b" * 64
MESSAGE_END = "CUDA was not touched."


class Site:
    """A server with the installer; `status` and `data` are what it answers."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.status = 200
        self.data = b""
        self.asked: list[str | None] = []


@pytest.fixture
def site() -> Iterator[Site]:
    made: list[Site] = []

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made[0].asked.append(self.headers["Authorization"])
            self.send_response(made[0].status)
            self.end_headers()
            self.wfile.write(made[0].data)

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as url:
        made.append(Site(f"{url}/{NAME}"))
        yield made[0]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Jobs of this test's own, and no pauses; every file counts as root's."""
    for functions in (installer, module.installer):
        monkeypatch.setattr(functions, "JOB", str(tmp_path / "run/cuda"))
        monkeypatch.setattr(functions, "PAUSE", 0.0)
        monkeypatch.setattr(functions, "_is_others", lambda _path: False)
        # Seconds on a disk that others use.
        monkeypatch.setattr(functions.directory_entries, "flush", lambda _path: None)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path


def package(folder: Path, *names: str) -> bytes:
    """A Debian package that holds these directories below /var, each with a Release."""
    root = folder / "root"
    (root / "DEBIAN").mkdir(parents=True)
    (root / "DEBIAN/control").write_text(
        "Package: cuda-repo\nVersion: 1\nArchitecture: all\nMaintainer: x <x@x>\nDescription: x\n"
    )
    (root / "etc/apt/sources.list.d").mkdir(parents=True)
    (root / "etc/apt/sources.list.d/cuda.list").write_text("deb file:///var/cuda-repo /\n")
    for name in names:
        (root / "var" / name).mkdir(parents=True)
        (root / "var" / name / "Release").write_text("Origin: NVIDIA\n")
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "--build", str(root), str(folder / "made.deb")],
        check=True, capture_output=True,
    )  # fmt: skip
    shutil.rmtree(root)
    return (folder / "made.deb").read_bytes()


@pytest.fixture
def served(site: Site, tmp_path: Path) -> Site:
    site.data = package(tmp_path, "cuda-repo-debian11-11-2-local")
    return site


def params(site: Site, place: Path, **more: Any) -> dict[str, Any]:
    wished = {
        "state": "present", "url": site.url, "sha256": hashlib.sha256(site.data).hexdigest(),
        "directory": str(place / "cache"), "repository": str(place / "var-repo"), "ca_bundle": "",
        "begin": False,
    }  # fmt: skip
    assert more.keys() <= wished.keys()
    return {**wished, **more}


def settle(site: Site, place: Path, *, check_mode: bool = False, **more: Any) -> dict[str, Any]:
    return installer.settle(params(site, place, **more), check_mode)


def refused(site: Site, place: Path, **more: Any) -> str:
    with pytest.raises(installer.RefusalError) as error:
        settle(site, place, **more)
    return str(error.value)


def tree(place: Path) -> set[str]:
    return {str(path.relative_to(place)) for path in place.rglob("*")}


def test_it_is_downloaded_unpacked_and_marked_and_nothing_else_stays(
    served: Site, place: Path
) -> None:
    before = tree(place)
    old = os.umask(0o077)
    try:
        result = settle(served, place)
    finally:
        os.umask(old)
    assert result == {"changed": True, "saved": []}
    made = {"cache", f"cache/{NAME}", "var-repo", "var-repo/Release", "var-repo/.provision"}
    assert tree(place) - before == made
    sha256 = hashlib.sha256(served.data).hexdigest()
    assert (place / "var-repo/.provision").read_text() == f"{sha256}\n"
    modes = {path: stat.S_IMODE((place / path).stat().st_mode) for path in made}
    assert modes["cache"] == 0o755
    assert {modes[name] for name in (f"cache/{NAME}", "var-repo/.provision")} == {0o644}
    assert settle(served, place) == {"changed": False}
    assert len(served.asked) == 1


def test_a_file_that_was_downloaded_already_is_not_downloaded_again(
    served: Site, place: Path
) -> None:
    (place / "cache").mkdir()
    (place / "cache" / NAME).write_bytes(served.data)
    assert settle(served, place)["changed"] is True
    assert served.asked == []
    shutil.rmtree(place / "var-repo")
    (place / "cache" / NAME).write_bytes(served.data[:100])
    assert settle(served, place, sha256=params(served, place)["sha256"].upper())["changed"] is True
    assert len(served.asked) == 1


@pytest.mark.parametrize(
    ("files", "mark", "there", "ours"),
    [
        ([], None, False, True),
        (["Release"], None, True, False),
        (["InRelease"], "own", True, True),
        (["InRelease"], "a" * 64, False, True),
        (["Packages"], None, False, True),
    ],
)
def test_a_repository_that_is_not_ours_is_used_and_not_removed(
    served: Site, place: Path, files: list[str], mark: str | None, there: bool, ours: bool
) -> None:
    wished = params(served, place)
    repository = place / "var-repo"
    if files:
        repository.mkdir()
    for name in files:
        (repository / name).write_text("x")
    if mark:
        (repository / ".provision").write_text((wished["sha256"] if mark == "own" else mark) + "\n")
    result = settle(served, place)
    assert result["changed"] is not there
    kept = [f"{repository}.provision-saved"] if files == ["Packages"] else []
    assert result.get("saved", []) == kept
    gone = settle(served, place, state="absent")["removed"]
    assert (str(repository) in gone) is ours
    assert repository.exists() is not ours
    assert not (place / "cache" / NAME).exists()


def test_what_an_interrupted_run_left_is_removed(served: Site, place: Path) -> None:
    (place / "var-repo.provision-new/var/cuda-repo-x").mkdir(parents=True)
    (place / "cache").mkdir()
    (place / "cache" / f"{NAME}.part").write_bytes(b"!<arch>half")
    assert settle(served, place)["changed"] is True
    assert sorted(os.listdir(place / "cache")) == [NAME]
    assert not (place / "var-repo.provision-new").exists()
    (place / "var-repo.provision-new").mkdir()
    for ending in (".part", ".begun"):
        (place / "cache" / f"{NAME}{ending}").touch()
    before = tree(place)
    would = settle(served, place, state="absent", check_mode=True)
    assert (len(would["removed"]), tree(place)) == (5, before)
    assert settle(served, place, state="absent")["removed"] == would["removed"]
    assert sorted(os.listdir(place)) == ["cache", "made.deb"]
    assert settle(served, place, state="absent") == {"changed": False, "removed": []}


def test_the_repository_is_on_the_disk_before_its_mark_and_the_move_after_it(
    served: Site, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def noted(path: str) -> None:
        seen.append((Path(path).name, sorted(os.listdir(path))))

    monkeypatch.setattr(installer.directory_entries, "flush", noted)
    monkeypatch.setattr(installer.directory_entries, "sync", noted)
    settle(served, place)
    unpacked, marked, above = seen
    assert unpacked == ("cuda-repo-debian11-11-2-local", ["Release"])
    assert marked == ("cuda-repo-debian11-11-2-local", [".provision", "Release"])
    assert above[0] == place.name
    assert "var-repo" in above[1]


def test_a_disk_that_does_not_take_the_repository_leaves_none(
    served: Site, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_path: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(installer.directory_entries, "flush", full)
    assert "Input/output error" in refused(served, place)
    assert sorted(os.listdir(place)) == ["cache", "made.deb"]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], "no /var/cuda-repo-*"),
        (["cuda-repo-a", "cuda-repo-b"], "cuda-repo-a and cuda-repo-b"),
    ],
)
def test_a_package_without_one_repository_is_refused(
    site: Site, place: Path, names: list[str], words: str
) -> None:
    site.data = package(place, *names)
    assert refused(site, place) == (
        f"{site.url} is not a local installer of CUDA: it holds {words}. {MESSAGE_END}"
    )
    assert not (place / "var-repo").exists()
    assert not (place / "var-repo.provision-new").exists()


def test_a_package_that_is_broken_is_refused(site: Site, place: Path) -> None:
    site.data = b"!<arch>\nand nothing more"
    text = refused(site, place)
    assert text.startswith(f"{site.url} could not be unpacked: dpkg-deb: error: ")
    assert text.endswith(MESSAGE_END)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (
            b"<html>\xff log in",
            'what it sent is no Debian package but begins with "<html>\\ufffd" (a login or error'
            " page?)",
        ),
        (b"", 'what it sent is no Debian package but begins with "" (a login or error page?)'),
        (
            b"!<arch>\nother",
            f"its SHA-256 is {hashlib.sha256(b'!<arch>' + bytes([10]) + b'other').hexdigest()},"
            f" and cuda_installer says {OTHER}",
        ),
    ],
)
def test_another_file_is_refused_and_removed(
    site: Site, place: Path, data: bytes, words: str
) -> None:
    site.data = data
    url = site.url.replace("//", "//ada:cret@")
    text = refused(site, place, url=url, sha256=OTHER)
    assert text == f"{site.url}: {words}. It was removed; {MESSAGE_END}"
    assert list((place / "cache").iterdir()) == []
    assert site.asked == ["Basic YWRhOmNyZXQ="]


@pytest.mark.parametrize(("status", "tries"), [(404, 1), (403, 1), (503, 4)])
def test_an_address_that_does_not_answer_is_tried_again(
    site: Site, place: Path, status: int, tries: int
) -> None:
    site.status = status
    text = refused(site, place, url=site.url.replace("//", "//ada:cret@"))
    assert text.startswith(f"{site.url}: could not be fetched: HTTP Error {status}: ")
    assert text.endswith(
        " Check the address, the network of this host and its proxy, or name another address in"
        f" cuda_installer_url. {MESSAGE_END}"
    )
    assert len(site.asked) == tries
    assert list((place / "cache").iterdir()) == []


def test_the_download_trusts_the_bundle_and_has_an_end(
    served: Site, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that says nothing was ended; one that says little had no end."""
    seen: list[str | None] = []
    fetch = download.to_file

    def noted(url: str, path: str, limit: int) -> None:
        seen.append(os.environ.get("SSL_CERT_FILE"))
        fetch(url, path, limit)

    monkeypatch.setattr(installer.download, "to_file", noted)
    settle(served, place, ca_bundle="/etc/ca.pem")
    assert seen == ["/etc/ca.pem"]
    assert (download.SILENCE, download.LONGEST) == (60, 14400)


# who may change it


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Owners and modes count."""
    monkeypatch.undo()


@pytest.mark.usefixtures("judged")
def test_the_default_place_is_taken(site: Site, tmp_path: Path) -> None:
    trusted = {"state": "trusted", "directory": "/var/cache/provision"}
    assert settle(site, tmp_path, **trusted) == {"changed": False}


@pytest.mark.usefixtures("judged")
@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("state", ["trusted", "present"])
def test_a_place_where_others_write_is_refused(
    site: Site, tmp_path: Path, linked: bool, state: str
) -> None:
    """A user's file was hashed, changed, and unpacked by root: setuid programs and all."""
    place = tmp_path / "place"
    place.mkdir()
    place.chmod(0o777)
    (tmp_path / "link").symlink_to(place)
    named = tmp_path / "link" if linked else place
    text = refused(site, tmp_path, state=state, directory=str(named))
    assert text.startswith(
        f"cuda_installer_directory is {named}, and others than root can change /"
    )
    assert f"{place}: they could replace the installer before root unpacks it." in text
    assert text.endswith(f"as /var/cache/provision. {MESSAGE_END}")
    # Its parents count as well: who can rename a directory can put another in its place.
    assert " /tmp and " in text or not str(tmp_path).startswith("/tmp/")
    assert site.asked == []


# behind other tasks


@pytest.fixture
def helper(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An apt-helper that downloads nothing: it writes what `answer` holds, and ends with `rc`."""
    folder = place / "helper"
    folder.mkdir()
    (folder / "answer").write_bytes(b"")
    (folder / "rc").write_text("0")
    program = folder / "apt-helper"
    program.write_text(
        f'#!/bin/sh\ncd {folder}\necho "$PROVISION_JOB $LC_ALL $*" >> calls\n'
        "cat /proc/$PPID/comm > parent\n"
        'eval "to=\\${$(($# - 1))}"\n'
        'if [ "$(cat rc)" = 0 ]; then cp answer "$to"; else touch "$to.FAILED"; fi\n'
        'exit "$(cat rc)"\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(installer, "HELPER", (str(program), "--quiet"))
    monkeypatch.setenv("PROVISION_JOB", "run1")
    return folder


def test_apts_own_downloader_brings_it_behind_other_tasks(
    served: Site, place: Path, helper: Path
) -> None:
    (helper / "answer").write_bytes(served.data)
    sha256 = params(served, place)["sha256"]
    begun = settle(served, place, begin=True, ca_bundle="/etc/ca.pem")
    assert begun == {"changed": False, "begun": True}
    assert settle(served, place)["changed"] is True
    assert (helper / "calls").read_text().split() == [
        "run1", "C", "--quiet", "--option", "Acquire::http::Timeout=60", "--option",
        "Acquire::https::Timeout=60", "--option", "Acquire::https::CaInfo=/etc/ca.pem",
        "download-file", served.url, f"{place}/cache/{NAME}.begun", f"SHA256:{sha256}",
    ]  # fmt: skip
    assert (helper / "parent").read_text() == "provision-cuda\n"
    assert served.asked == []
    assert sorted(os.listdir(place / "cache")) == [NAME]
    assert not (place / "run/cuda").exists()


def test_what_failed_behind_is_done_again(served: Site, place: Path, helper: Path) -> None:
    (helper / "rc").write_text("100")
    assert settle(served, place, begin=True)["begun"] is True
    assert settle(served, place)["changed"] is True
    assert len(served.asked) == 1
    assert sorted(os.listdir(place / "cache")) == [NAME]


def test_what_was_ended_from_outside_is_done_again(
    served: Site, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(_directory: str) -> None:
        raise background.EndedError("it was ended")

    (place / "cache").mkdir()
    (place / "cache" / f"{NAME}.begun").write_bytes(b"half")
    monkeypatch.setattr(installer.background, "result", ended)
    assert settle(served, place)["changed"] is True
    assert sorted(os.listdir(place / "cache")) == [NAME]


def test_what_came_from_outside_is_compared_all_the_same(
    served: Site, place: Path, helper: Path
) -> None:
    (helper / "answer").write_bytes(b"!<arch>other")
    settle(served, place, begin=True)
    assert settle(served, place)["changed"] is True
    assert (place / "cache" / NAME).read_bytes() == served.data


@pytest.mark.parametrize("why", ["password", "repository", "file", "check mode"])
def test_it_is_not_begun_where_it_would_be_seen_or_is_there(
    served: Site, place: Path, helper: Path, why: str
) -> None:
    more: dict[str, Any] = {"begin": True}
    if why == "password":
        more["url"] = served.url.replace("//", "//ada:cret@")
    if why == "repository":
        (place / "var-repo").mkdir()
        (place / "var-repo/InRelease").touch()
    if why == "file":
        (place / "cache").mkdir()
        (place / "cache" / NAME).touch()
    result = settle(served, place, check_mode=why == "check mode", **more)
    assert result == {"changed": False, "begun": False}
    assert not (place / "run").exists()
    assert not (helper / "calls").exists()


def test_one_that_is_still_at_work_is_not_begun_twice(
    served: Site, place: Path, helper: Path
) -> None:
    gate = helper / "answer"
    gate.unlink()
    os.mkfifo(gate)
    assert settle(served, place, begin=True)["begun"] is True
    assert settle(served, place, begin=True)["begun"] is False
    deadline = time.monotonic() + 20
    while not (helper / "calls").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    gate.write_bytes(served.data)
    assert settle(served, place)["changed"] is True
    assert served.asked == []


# the module


def ran(
    capsys: pytest.CaptureFixture[str], options: dict[str, Any], **more: Any
) -> tuple[Any, dict[str, Any]]:
    """(exit code, result) of the module."""
    with patch_module_args({**options, **more}), pytest.raises(SystemExit) as ended:
        module.main()
    with contextlib.suppress(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
    return ended.value.code, json.loads(capsys.readouterr().out)


def test_check_mode_says_what_would_be_downloaded_and_does_nothing(
    served: Site, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = tree(place)
    options = params(served, place, url=served.url.replace("//", "//ada:cret@"))
    code, result = ran(capsys, options, _ansible_check_mode=True)
    assert (code, result["changed"]) == (0, True)
    assert result["msg"] == f"Would download {served.url} and unpack its repository"
    assert "cret" not in json.dumps(result)
    assert (tree(place), served.asked) == (before, [])
    settle(served, place)
    code, result = ran(capsys, options, _ansible_check_mode=True)
    assert (code, result["changed"], "msg" in result) == (0, False, False)


def test_a_failure_of_the_module_says_no_password(
    site: Site, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    site.status = 404
    options = params(site, place, url=site.url.replace("//", "//ada:cret@"))
    code, result = ran(capsys, options)
    assert (code, site.url in result["msg"]) == (1, True)
    assert "cret" not in json.dumps(result)

    def full(_path: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.installer, "_make_directory", full)
    code, result = ran(capsys, options)
    assert code == 1
    assert result["msg"] == (
        "The local installer could not be brought: [Errno 28] No space left on device."
    )
