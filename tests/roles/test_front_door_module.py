"""The module `front_door` in a play: words of a look, the templates, check mode, a refusal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import module_play
from tests.collection import ROOT

ROLE = ROOT / "roles" / "gpu_front_door"
APPLY = "roles/gpu_front_door/tasks/apply.yml"
WISH: dict[str, Any] = {
    "name": "gpu07.example.org", "port": 44391, "address": "127.0.0.1", "tls": "local_ca",
    "certificate": "", "key": "", "redirect": False, "hsts": True, "given": {},
    "acme": {"agree": False, "email": "", "directory": "https://ca.example.org/directory"},
    "people": [{"name": "ada", "gpus": ["<i>{{ 6 * 7 }}"], "port": 8801}],
}  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each task returned; nothing of this machine is changed."""
    if Path("/etc/gpu-front-door").exists() or Path("/usr/sbin/nginx").exists():
        pytest.skip("this machine has an nginx of its own")
    folder = tmp_path_factory.mktemp("door")
    # As apply.yml fills them: of what the look returned, on the machine that runs Ansible.
    (apply, _) = yaml.safe_load((ROOT / APPLY).read_text("utf-8"))
    present = json.loads(
        json.dumps(apply["provision.gpu.front_door"])
        .replace("__gpu_front_door_look", "result_look")
        .replace("__gpu_front_door_wish", "wish")
    )
    site = apply["vars"]["__gpu_front_door_site"]
    calls: dict[str, dict[str, Any]] = {
        "nothing": {"arguments": {"state": "looked", "door": {**WISH, "name": ""}}},
        "look": {"arguments": {"state": "looked", "door": "{{ wish }}"}},
        "check": {"arguments": present, "check_mode": True, "diff": True},
        "plain": {"arguments": present, "check_mode": True, "diff": False},
        "word": {"arguments": {"state": "looked", "door": {**WISH, "address": "::1;"}}},
        "nobody": {"arguments": {"door": {**WISH, "people": []}}},
        "absent": {"arguments": {"state": "absent"}},
        "proven": {"arguments": {"state": "proven", "patience": 0}},
    }
    # Literal data, as an inventory's `!unsafe` has it.
    (folder / "wish.json").write_text(json.dumps(WISH), "utf-8")
    read = "{{ lookup('ansible.builtin.file', playbook_dir ~ '/wish.json') | from_json }}"
    (folder / "templates").symlink_to(ROLE / "templates")
    words = {"__gpu_front_door_site": site, "wish": read}
    return module_play.results(folder, "front_door", calls, words)[0]


def test_a_look_changes_nothing_and_says_what_differs(results: dict[str, Any]) -> None:
    found = results["look"]
    assert (found["changed"], found["failed"], found["changes"]) == (False, False, ["absent"])
    assert (found["here"], found["gone"], found["nginx"]) == (False, False, False)
    assert results["nothing"]["gone"] is False
    assert results["nothing"]["changes"] == []


def test_in_check_mode_it_says_what_it_would_do(results: dict[str, Any]) -> None:
    found = results["check"]
    assert (found["changed"], found["failed"]) == (True, False)
    assert found["would"] == "Would change the front door: absent"
    assert found["fingerprint"] is None
    assert not Path("/etc/gpu-front-door").exists()
    assert "diff" not in results["plain"]


def test_the_templates_are_filled_with_what_the_look_returned(results: dict[str, Any]) -> None:
    page, site = results["check"]["diff"]
    assert site["after_header"] == "/etc/nginx/sites-enabled/zz-gpu-front-door"
    assert site["before"] == ""
    assert site["after"].startswith("# Written by the Ansible role gpu_front_door;")
    assert "    listen 127.0.0.1:44391 ssl;\n    server_name gpu07.example.org;\n" in site["after"]
    assert "http://unix:/run/gpu-workspace-ports/ada.jupyter;" in site["after"]
    assert site["after"].endswith("}\n")
    assert page["after"].startswith("<!doctype html>\n")
    assert page["after"].endswith("</html>\n")
    # Neither markup nor a template of Ansible's.
    assert "&lt;i&gt;{{ 6 * 7 }}" in page["after"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "word",
            "gpu_front_door_address is '::1;', and not [0-9.]+|[0-9a-f]*:[0-9a-f:.]+. "
            "Nothing was changed.",
        ),
        (
            "nobody",
            "a front door needs workspaces behind it (gpu_workspaces, which this role has as "
            "gpu_front_door_people), or served models (gpu_servings, gpu_front_door_servings).",
        ),
        (
            "proven",
            "there is no door here. journalctl -u nginx and /var/log/nginx say more.",
        ),
    ],
)
def test_a_refusal_is_a_sentence_with_what_can_be_done(
    results: dict[str, Any], name: str, words: str
) -> None:
    found = results[name]
    assert (found["failed"], found["changed"]) == (True, False)
    assert found["msg"] == words


def test_where_no_door_is_nothing_is_taken_away(results: dict[str, Any]) -> None:
    found = results["absent"]
    assert (found["changed"], found["failed"], found["packages"]) == (False, False, [])
