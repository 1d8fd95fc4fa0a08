"""What the front door's module answers."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from front_door_host import SITE, Host, page, wish
from gpu_stack.components.gpu_front_door import answer
from gpu_stack.components.gpu_front_door import site as words_of
from gpu_stack.components.gpu_front_door.renewal import files, paths
from gpu_stack.host.refusal import RefusalError


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path, monkeypatch)


def answered(state: str, dry: bool = False, **changed: Any) -> dict[str, Any]:
    """What the module returns; `failed` where it does."""
    door = wish(**changed)
    words = words_of.words(door, files.data(paths.DOOR) or {})
    texts = {"site": SITE.render(words["site"]), "page": page(door), "waiting": ""}
    try:
        result = answer.settle({"state": state, "door": door, "patience": 0, **texts}, dry)
    except RefusalError as error:
        return {"failed": True, "msg": str(error)}
    return {"failed": False, **result}


def test_in_check_mode_nothing_is_written_and_a_second_time_nothing_is_done(host: Host) -> None:
    found = answered("present", dry=True)
    assert found["would"] == "Would change the front door: absent"
    assert (found["changed"], host.text(paths.SITE), host.text(paths.DOOR)) == (True, None, None)
    found = answered("present")
    assert (found["failed"], found["changed"]) == (False, True)
    assert found["fingerprint"].count(":") == 31
    host.calls.clear()
    found = answered("present")
    assert (found["changed"], found["changes"], found.get("diff")) == (False, [], None)
    assert host.calls == []
    found = answered("present", dry=True, hsts=True)
    assert found["changes"] == ["other settings"]
    page_of, site_of = found["diff"]
    assert page_of["before"] == page_of["after"] == host.text(paths.PAGE)
    assert site_of["before"] == host.text(paths.SITE)
    assert "Strict-Transport-Security" in site_of["after"]


def test_a_site_that_is_not_taken_is_a_failure_of_one_sentence(host: Host) -> None:
    host.takes = "ada.jupyter;"
    found = answered("present")
    assert found == {
        "failed": True,
        "msg": "nginx rejects the door's site, and has the former one again: emerg.",
    }


def test_a_door_is_taken_away_once(host: Host) -> None:
    host.program.apply(wish())
    found = answered("absent", dry=True)
    assert (found["changed"], found["would"]) == (True, "Would remove the front door")
    assert host.text(paths.SITE)
    assert answered("absent")["changed"] is True
    assert host.text(paths.SITE) is None
    host.path(paths.BROUGHT).unlink(missing_ok=True)
    shutil.rmtree(host.path(paths.PLACE))
    host.calls.clear()
    assert answered("absent") == {"failed": False, "changed": False, "packages": []}
    assert host.calls == []


def test_a_door_that_can_not_be_taken_away_says_what_to_do(host: Host) -> None:
    host.program.apply(wish())
    host.write("/theirs.pem", "")
    host.reads = ["/theirs.pem"]
    found = answered("absent")
    assert found["failed"]
    assert found["msg"].startswith("nginx still has the door in memory, and reads no more: emerg")
    assert found["msg"].endswith(". Repair that, then run again.")
