"""Which packages go when a component goes: this program's, and no other with them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gpu_stack import receipt
from gpu_stack.host import apt_commands, package_removal
from gpu_stack.host.context import Context
from gpu_stack.host.refusal import RefusalError

from plugins.modules import exact_packages
from tests.unit.gpu_stack import apt_host
from tests.unit.gpu_stack.apt_host import AptHost

LEDGER = {"packages": {"cuda": {"ours": ["z"], "theirs": {"b": "1"}}}}
REMOVE = "apt-get remove"


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> AptHost:
    packages = {name: {"version": "1", "status": "installed"} for name in ("a", "b", "z", "libc6")}
    monkeypatch.setattr(Context, "packages", packages)
    noted(monkeypatch)
    return apt_host.install(monkeypatch)


def noted(monkeypatch: pytest.MonkeyPatch, **texts: str) -> None:
    """The notes that runs left on the host."""
    files = {getattr(receipt, name): text for name, text in texts.items()}
    monkeypatch.setattr(Context, "read", lambda _self, path: files.get(path))


def settle(check_mode: bool = False, **packages: str) -> dict[str, Any]:
    options = {"component": "cuda", "state": "absent", "packages": packages}
    return package_removal.settle(apt_host.parameters(exact_packages, **options), check_mode)


def test_without_a_note_all_that_the_role_installs_goes(host: AptHost) -> None:
    result = settle(a="1", b="1", c="1")
    assert (result["changed"], result["removed"]) == (True, ["a", "b"])
    assert result["removable"] == ["a", "b", "c"]
    (call,) = host.ran(f"{REMOVE} --yes")
    assert call == (
        f"apt-get remove --allow-change-held-packages {' '.join(apt_commands.SETTINGS)} --yes"
        " -oDPkg::Lock::Timeout=600 a b"
    )


@pytest.mark.parametrize(
    "texts",
    [
        {"PATH": json.dumps(LEDGER)},
        # One that was cut off tells nothing; the next one counts.
        {"UNFINISHED": '{"lock', "PATH": json.dumps(LEDGER)},
        {"UNFINISHED": "[]", "PATH": json.dumps(LEDGER)},
        {"UNFINISHED": '{"packages": {"tensorflow": {}}}', "PATH": json.dumps(LEDGER)},
        {"UNFINISHED": json.dumps(LEDGER), "PATH": '{"packages": {"cuda": {"ours": ["a"]}}}'},
    ],
)
def test_the_ledger_tells_whose_they_are(
    host: AptHost, monkeypatch: pytest.MonkeyPatch, texts: dict[str, str]
) -> None:
    noted(monkeypatch, **texts)
    result = settle(a="1", b="1", c="1")
    assert (result["removed"], result["removable"]) == (["a", "z"], ["a", "c", "z"])
    assert host.ran(f"{REMOVE} --yes")[0].endswith(" a z")


def test_apt_is_not_asked_without_a_name(host: AptHost) -> None:
    """Without a name it would simulate on all of them."""
    assert settle(c="1")["changed"] is False
    assert settle()["changed"] is False
    assert host.ran("apt-get") == []


@pytest.mark.parametrize("check_mode", [False, True])
def test_what_would_go_along_stops_it(host: AptHost, check_mode: bool) -> None:
    simulated = "NOTE\nRemv a [1]\nPurg other:amd64 [2] [x ]\nInst more (1 y)\nRemv b [1]\n"
    host.says(f"{REMOVE} --simulate", (0, simulated, ""))
    host.says("dpkg-query", (0, "more needs  a (>= 1)\nother needs  b\n", ""))
    with pytest.raises(RefusalError) as error:
        settle(check_mode, a="1", b="1")
    assert str(error.value) == (
        "Nothing was removed: apt would change more, other as well, which this role did not"
        " install. more needs  a. other needs  b. Remove them by hand if nobody needs them, or let"
        " cuda_state be present."
    )
    assert host.ran(f"{REMOVE} --yes") == []


def test_check_mode_removes_nothing_and_says_what_would_go(host: AptHost) -> None:
    result = settle(check_mode=True, a="1")
    assert (result["changed"], result["removed"], result["msg"]) == (True, ["a"], "Would remove a")
    assert host.ran("--yes") == []
    assert host.ran("apt-mark") == []


@pytest.mark.parametrize("words", ["--simulate", "--yes"])
def test_what_apt_cannot_do_is_reported_in_its_words(host: AptHost, words: str) -> None:
    host.says(f"{REMOVE} {words}", (100, "", "W: x\nE: Unmet dependencies.\n"))
    with pytest.raises(RefusalError, match=r"E: Unmet dependencies\."):
        settle(a="1")


def test_the_hold_of_those_that_stay_is_released(
    host: AptHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted(monkeypatch, PATH=json.dumps(LEDGER))
    host.says("apt-mark showhold", (0, "b\nsomebodys\n", ""))
    result = settle(b="1", c="1")
    assert host.ran("apt-mark unhold") == ["apt-mark unhold b"]
    assert result["changed"] is True
