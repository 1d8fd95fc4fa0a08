"""Exact packages: what has to come, what apt must offer, and what it must not do for them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.host import apt_commands, package_install, package_lists
from gpu_stack.host.context import Context
from gpu_stack.host.refusal import RefusalError

from plugins.modules import exact_packages
from tests.unit.gpu_stack import apt_host
from tests.unit.gpu_stack.apt_host import SHOW, SIMULATE, AptHost

CUDART, CUBLAS = "libcudart11.0", "libcublas11"
PACKAGES = {CUDART: "11.2", CUBLAS: "11.4"}
SPECS = ["libcublas11=11.4", "libcudart11.0=11.2"]
RECORDS = """\
Package: libcudart11.0
Architecture: amd64
Version: 11.2
SHA256: AAAA
Description: runtime

Package: libcudart11.0
Version: 11.1
SHA256: dddd

Package: libcublas11
Version: 11.4
Filename: x
SHA256: bbbb
"""
FAILED = "E: Failed to fetch https://ada:secret@lab.example.org/dists/x/InRelease  503  Busy"


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> AptHost:
    answers = apt_host.install(monkeypatch)
    answers.says(SHOW, (0, RECORDS, ""))
    monkeypatch.setattr(package_lists, "fetch", lambda _suites, _wait: package_lists.nothing())
    return answers


def recorded(monkeypatch: pytest.MonkeyPatch, **states: tuple[str, str]) -> None:
    """dpkg's records: {name: (version, status)}."""
    packages = {
        name: {"version": version, "want": "install", "status": status, "architecture": "amd64"}
        for name, (version, status) in states.items()
    }
    monkeypatch.setattr(Context, "packages", packages)


def settle(check_mode: bool = False, **options: Any) -> dict[str, Any]:
    asked = {"component": "cuda", "title": "CUDA 11.2.2", "packages": PACKAGES, **options}
    return package_install.settle(apt_host.parameters(exact_packages, **asked), check_mode)


@pytest.mark.parametrize(
    ("states", "missing", "again"),
    [
        ({}, SPECS, []),
        ({CUDART: ("11.2", "installed"), CUBLAS: ("11.4", "installed")}, [], []),
        ({CUDART: ("11.1", "installed"), CUBLAS: ("11.4", "installed")}, SPECS[1:], []),
        # Killed while it was unpacked: apt takes it for installed.
        ({CUDART: ("11.2", "half-installed"), CUBLAS: ("11.4", "installed")}, [], SPECS[1:]),
        ({CUDART: ("11.1", "half-installed"), CUBLAS: ("11.4", "installed")}, SPECS[1:], []),
        ({CUDART: ("11.2", "unpacked"), CUBLAS: ("11.4", "half-configured")}, SPECS, []),
    ],
)
def test_dpkgs_records_tell_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
    states: dict[str, tuple[str, str]],
    missing: list[str],
    again: list[str],
) -> None:
    recorded(monkeypatch, **states)
    result = settle(check_mode=True)
    assert (result["missing"], result["again"]) == (missing, again)
    assert result["fetched"] == sorted(missing + again)
    assert result["changed"] is bool(missing or again)
    assert result.get("msg", "") == (
        f"Would install {' '.join(missing + again)}" if missing or again else ""
    )


def test_lost_and_empty_files_bring_their_package_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    recorded(monkeypatch, **{name: (version, "installed") for name, version in PACKAGES.items()})
    whole, empty, link = tmp_path / "whole.so", tmp_path / "empty.so", tmp_path / "link.so"
    whole.write_text("x")
    empty.touch()
    link.symlink_to(whole)
    assert settle(True, files={str(whole): CUDART, str(link): CUBLAS})["again"] == []
    assert settle(True, files={str(empty): CUDART, str(link): CUBLAS})["again"] == SPECS[1:]
    link.unlink()
    link.symlink_to(tmp_path / "nowhere")
    assert settle(True, files={str(whole): CUDART, str(link): CUBLAS})["again"] == SPECS[:1]
    assert settle(True, reinstall=[CUBLAS, "not-ours"])["again"] == SPECS[:1]


def test_check_mode_asks_apt_nothing(host: AptHost, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(monkeypatch)
    settle(check_mode=True, state="offered")
    settle(check_mode=True)
    assert host.calls == []


def test_what_is_there_costs_nothing(host: AptHost, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(monkeypatch, **{name: (version, "installed") for name, version in PACKAGES.items()})
    assert settle()["changed"] is False
    assert host.calls == []


def test_one_transaction_that_removes_nothing(
    host: AptHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(monkeypatch)
    result = settle(checksums={CUDART: "aaaa"}, wait=300)
    assert (result["changed"], result["missing"], result["kept"]) == (True, SPECS, [])
    (call,) = [call for call in host.ran("apt-get install") if "--simulate" not in call]
    for option in (
        *("--yes", "--no-remove", "--allow-downgrades", "--allow-change-held-packages"),
        *("-oAPT::Install-Recommends=no", "-oDPkg::Lock::Timeout=300"),
        *("-oDPkg::Options::=--force-confdef", "-oDPkg::Options::=--force-confold"),
    ):
        assert f" {option} " in call
    assert call.endswith(" install libcublas11=11.4 libcudart11.0=11.2")
    assert host.calls.index(call) > host.calls.index(host.ran(SIMULATE)[0])


def test_only_the_offer_is_checked_where_nothing_else_is_asked_for(
    host: AptHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(monkeypatch)
    assert settle(state="offered")["changed"] is False
    assert len(host.ran(SIMULATE)) == 1
    assert host.ran("apt-get --yes") == []


def test_what_lost_its_files_is_installed_anew_with_its_configuration(
    host: AptHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    recorded(monkeypatch, **{name: (version, "installed") for name, version in PACKAGES.items()})
    mine = tmp_path / "nvidia.conf"
    mine.write_text("somebody's")
    paths = [str(mine), str(tmp_path / "never-there")]
    result = settle(reinstall=[CUDART], conffiles=paths)
    assert (result["changed"], result["kept"]) == (True, [f"{mine}.dpkg-old"])
    assert Path(f"{mine}.dpkg-old").read_text() == "somebody's"
    assert not mine.exists()
    (call,) = host.ran("apt-get install")
    assert "--reinstall -oDPkg::Options::=--force-confmiss install libcudart11.0=11.2" in call
    assert " --no-remove " in call


def test_unknown_versions_are_looked_for_in_fresh_lists(
    host: AptHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(monkeypatch)
    waits = apt_host.fetches_for_unknown_versions(host, monkeypatch, RECORDS, settle)
    assert waits == [600] * 2


def test_a_version_that_no_source_has_is_named_with_what_to_do(
    host: AptHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(monkeypatch)
    host.says(SHOW, (0, RECORDS.replace("11.4", "11.5"), ""))
    lists = {**package_lists.nothing(), "words": "In x.list:1: E: Failed"}
    monkeypatch.setattr(package_lists, "fetch", lambda _suites, _wait: lists)
    with pytest.raises(RefusalError) as error:
        settle(source="http://deb.debian.org/debian", hint="Lock again.", fetched={"tools": "1"})
    assert str(error.value) == (
        "No package source of this host has libcublas11=11.4, tools=1. Sources:"
        " http://deb.debian.org/debian. In x.list:1: E: Failed Lock again."
    )
    assert host.ran("apt-get") == []


def test_another_apt_that_stays_at_work_stops_it(
    host: AptHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(monkeypatch)
    lists = {**package_lists.nothing(), "locked": True, "words": "E: Could not get lock"}
    monkeypatch.setattr(package_lists, "fetch", lambda _suites, _wait: lists)
    with pytest.raises(RefusalError, match=r"^Another apt is at work\. E: Could not get lock$"):
        settle(renewed=True)


def test_another_checksum_than_the_locked_one_is_refused(
    host: AptHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(monkeypatch)
    with pytest.raises(RefusalError) as error:
        settle(checksums={CUBLAS: "CCCC", CUDART: "AAAA"})
    assert str(error.value) == (
        "libcublas11=11.4: the package source offers SHA-256 bbbb, but cuda_checksums says cccc."
        " Nothing was installed."
    )
    assert host.ran("apt-get") == []


@pytest.mark.parametrize(
    ("simulated", "words"),
    [
        (
            "Purg somebodys-solver [1.0]\nInst libcudart11.0 [11.1] (11.2 lab)\n",
            "For CUDA 11.2.2 apt would remove somebodys-solver. somebodys-solver (needs: x;"
            " conflicts: y). Remove them yourself if nobody needs them. No package was touched.",
        ),
        (
            "Inst held-by-ada:amd64 [1] (2 lab)\nInst libcudart11.0 [11.1] (11.2 lab)\n",
            "apt would change held-by-ada, which somebody holds (apt-mark unhold releases it)."
            " No package was touched.",
        ),
        # A held package that is not installed yet is nobody's loss.
        ("Inst held-by-ada (2 lab)\n", ""),
        (
            "Inst libcublas11 (11.4 NVIDIA CUDA [amd64])\n"
            "Inst nvidia-driver-470 (470.1 NVIDIA CUDA [amd64])\n"
            "Inst cuda-drivers:amd64 (470.1-1 NVIDIA CUDA [amd64])\n"
            "Conf cuda-drivers (470.1-1 NVIDIA CUDA [amd64])\n",
            "It would bring a driver: nvidia-driver-470, cuda-drivers. Nothing was installed.",
        ),
    ],
    ids=["removed", "held", "new", "driver"],
)
def test_what_apt_would_do_besides_is_refused(
    host: AptHost, monkeypatch: pytest.MonkeyPatch, simulated: str, words: str
) -> None:
    recorded(monkeypatch)
    host.says(SIMULATE, (0, simulated, ""))
    host.says("apt-mark showhold", (0, "held-by-ada\nlibcudart11.0\n", ""))
    host.says("dpkg-query", (0, "somebodys-solver (needs: x; conflicts: y)\n", ""))
    unwanted = {
        "unwanted": r"cuda-drivers\S*|nvidia-(?:driver|dkms)\S*",
        "unwanted_words": "It would bring a driver",
    }
    if not words:
        settle(**unwanted)
        return
    with pytest.raises(RefusalError) as error:
        settle(**unwanted)
    assert str(error.value) == words
    assert host.ran("apt-get --yes") == []


@pytest.mark.parametrize(
    ("stderr", "words"),
    [
        (
            f"W: noise\n{FAILED}\nE: Unable to fetch some archives\n",
            "E: Failed to fetch https://lab.example.org/dists/x/InRelease  503  Busy E: Unable to"
            " fetch some archives Nothing was installed: run again when that address answers.",
        ),
        (
            "E: Failed to fetch http://c:8088/x.deb  Hash Sum mismatch\n",
            "E: Failed to fetch http://c:8088/x.deb  Hash Sum mismatch Nothing was installed: that"
            " address sends something else than its index names. Of the fleet's cache see"
            " docs/cache.md, of a bundle `provision bundle --verify`.",
        ),
        (
            "dpkg: error processing package x (--configure):\nE: Sub-process returned 1\n",
            "dpkg: error processing package x (--configure): E: Sub-process returned 1 Run again:"
            " what is left half way is finished first.",
        ),
        ("", "it ended with 100 Run again: what is left half way is finished first."),
    ],
)
def test_a_failure_is_reported_in_apts_words_without_passwords(
    host: AptHost, monkeypatch: pytest.MonkeyPatch, stderr: str, words: str
) -> None:
    recorded(monkeypatch)
    host.says("apt-get --yes", (100, "", stderr))
    with pytest.raises(RefusalError) as error:
        settle()
    assert str(error.value) == f"apt could not install CUDA 11.2.2: {words}"


def test_a_source_of_others_that_fails_is_a_warning(
    host: AptHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(monkeypatch)
    lists = {**package_lists.nothing(), "bearable": True, "places": ["x.list:1"], "errors": ["E"]}
    monkeypatch.setattr(package_lists, "fetch", lambda _suites, _wait: lists)
    assert settle(renewed=True)["warnings"] == [
        "apt cannot use x.list:1: E CUDA 11.2.2 goes on without; repair that entry, or take it out."
    ]


@pytest.mark.parametrize(("keep", "left"), [("", ["mine.deb"]), ("true", ["mine.deb", "new.deb"])])
def test_what_was_downloaded_leaves_the_cache_and_nothing_else(
    host: AptHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, keep: str, left: list[str]
) -> None:
    recorded(monkeypatch)
    (tmp_path / "mine.deb").touch()
    time.sleep(0.05)
    config = f"archives='{tmp_path}/'\n" + (f"keep='{keep}'\n" if keep else "")
    host.says("apt-config", (0, config, ""))

    def run(argv: list[str], patience: float, environment: dict[str, str]) -> Any:
        if "--yes" in argv:
            (tmp_path / "new.deb").touch()
            os.utime(tmp_path / "new.deb", (1, 1))  # as old as on the server
        return host.run(argv, patience, environment)

    monkeypatch.setattr(apt_commands, "run_program", run)
    settle()
    assert sorted(path.name for path in tmp_path.iterdir()) == left
