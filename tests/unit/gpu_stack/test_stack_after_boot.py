"""What a power cut leaves behind a valid mark: files that are empty, cut short or gone.

Sizes are compared file by file by the first look after a boot, and that it was done is noted.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import converged_host as made
import gpu_stack.look
import pytest
from converged_host import CUDNN, SITE, Host
from gpu_stack.components.tensorflow import wheel_files
from gpu_stack.host import boots
from gpu_stack.host.context import Context

FLAGS = f"{SITE}/absl/flags.py"
INIT = f"{SITE}/tensorflow/__init__.py"
BEFORE, NOW = "5f2ab4a0-0001", "5f2ab4a0-0002"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A converged host that has just booted."""
    host = made.make(tmp_path)
    host.path(boots.NOTE).parent.mkdir(parents=True)
    boot(host, NOW)
    return host


def boot(host: Host, name: str) -> None:
    host.write(boots.BOOT, name + "\n")


def noted(host: Host) -> Any:
    path = host.path(boots.NOTE)
    return json.loads(path.read_text("utf-8")) if path.exists() else None


def run(host: Host, **changed: Any) -> list[str]:
    """The items of a run's look, which may note what it has compared."""
    return [change["item"] for change in host.plan(notes=True, **changed)["changes"]]


def test_a_whole_host_plans_nothing_after_a_boot(host: Host) -> None:
    assert host.items() == []


@pytest.mark.parametrize(
    ("content", "fault"), [(b"", "empty"), (b"x =", "3 bytes instead of 6"), (None, "missing")]
)
def test_what_a_power_cut_left_of_a_wheel_is_seen_after_the_boot(
    host: Host, content: bytes | None, fault: str
) -> None:
    host.remove(FLAGS) if content is None else host.alter(FLAGS, content)
    plan = host.plan()
    (change,) = plan["changes"]
    assert (change["item"], change["from"], change["to"]) == (
        "absl/flags.py", fault, "absl-py 2.3.1",
    )  # fmt: skip
    assert plan["repairs"] == {"tensorflow": {"tensorflow_reinstall": True}}


def test_a_file_emptied_after_the_mark_counts_an_edited_one_is_somebodys(host: Host) -> None:
    host.write(FLAGS, "x = 1  # ours\n")
    assert host.items() == []
    host.write(FLAGS, "")
    assert host.items() == [("tensorflow", "absl/flags.py", "empty")]


def test_a_program_with_another_first_line_is_whole_an_empty_one_is_not(host: Host) -> None:
    program = "../../../bin/absl"
    host.wheel("absl_py-2.3.1", {"absl/flags.py": b"x = 1\n", program: b"#!python\n"})
    host.alter(f"{SITE}/{program}", b"#!/opt/venv/bin/python\n")
    assert host.items() == []
    host.alter(f"{SITE}/{program}", b"")
    assert host.items() == [("tensorflow", program, "empty")]


def test_a_file_of_two_wheels_is_whole_as_either_has_it(host: Host) -> None:
    host.wheel("absl_py-2.3.1", {"absl/flags.py": b"x = 1\n", "both/__init__.py": b"one"})
    host.wheel("pip-20.3.4", {"both/__init__.py": b""})
    assert host.items() == []


def test_a_compiled_file_is_pythons_to_write_again(host: Host) -> None:
    host.alter(f"{SITE}/tensorflow/__init__.cpython-39.pyc", b"")
    assert host.items() == []


@pytest.mark.parametrize("text", ["absl/flags.py,sha256=abc,6\nabs", "\0\0\0"])
def test_a_record_that_is_cut_short_proves_nothing(host: Host, text: str) -> None:
    record = f"{SITE}/absl_py-2.3.1.dist-info/RECORD"
    host.alter(record, text.encode())
    assert host.items() == [("tensorflow", record[len(SITE) + 1 :], "cut short")]


def test_many_files_of_many_wheels_are_one_item_with_the_first_of_them() -> None:
    names = [f"wheel{number}" for number in range(wheel_files.MANY + 1)]
    found = [{"wheel": name, "path": name + "/a.py", "fault": "empty"} for name in names]
    found.append({"wheel": "wheel0", "path": "b.py", "fault": "3 bytes instead of 6"})
    row = {"wheels": dict.fromkeys(names, "1")}
    (change,) = wheel_files.flaw_changes("tensorflow", row, found, {})
    assert (change["item"], change["from"]) == (
        "files of 6 wheels", "7 files: empty, of another size",
    )  # fmt: skip
    assert change["reason"] == "for example wheel0/a.py, wheel1/a.py, wheel2/a.py"


# when they are compared


def test_a_run_notes_it_and_later_looks_of_this_boot_are_spared(host: Host) -> None:
    assert run(host) == []
    assert noted(host) == {"boot": NOW, "compared": [made.VENV]}
    assert host.path(boots.NOTE).stat().st_mode & 0o777 == 0o600
    host.alter(FLAGS, b"")
    assert host.items() == []
    boot(host, "another")
    assert host.items() == [("tensorflow", "absl/flags.py", "empty")]


def test_every_look_compares_until_the_host_is_as_it_should_be(host: Host) -> None:
    host.alter(FLAGS, b"")
    assert run(host) == run(host) == ["absl/flags.py"]
    assert run(host, only=["cuda"]) == ["absl/flags.py"]
    assert noted(host) is None


def test_a_plan_notes_nothing(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    assert host.plan()["changes"] == []
    assert noted(host) is None
    asked: list[bool] = []

    def examine(*_arguments: Any, notes: bool, **_others: Any) -> dict[str, Any]:
        asked.append(notes)
        return {}

    monkeypatch.setattr(gpu_stack.look, "examine", examine)
    monkeypatch.setattr(gpu_stack.look, "finish", lambda result, _check_mode: result)
    gpu_stack.look.answer({}, check_mode=True)
    gpu_stack.look.answer({}, check_mode=False)
    assert asked == [False, True]


def test_an_environment_that_was_not_compared_in_this_boot_is_due(host: Host) -> None:
    host.write(boots.NOTE, json.dumps({"boot": NOW, "compared": ["/opt/tensorflow/other"]}))
    host.alter(INIT, b"")
    assert host.items() == [("tensorflow", "tensorflow/__init__.py", "empty")]
    host.alter(INIT, b"y = 1\n")
    assert run(host) == []
    assert noted(host)["compared"] == [made.VENV, "/opt/tensorflow/other"]


def test_where_no_boot_has_a_name_nothing_is_compared(host: Host) -> None:
    host.remove(boots.BOOT)
    host.alter(FLAGS, b"")
    assert run(host) == []
    assert noted(host) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"boot": "5f2ab4a0-0002", "compared": 1}'])
def test_a_note_that_says_nothing(host: Host, text: str) -> None:
    host.write(boots.NOTE, text)
    host.alter(FLAGS, b"")
    assert host.items() == [("tensorflow", "absl/flags.py", "empty")]


def _others_may_write(path: Path) -> None:
    path.chmod(0o666)


def _linked(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def _of_a_user(path: Path) -> None:
    os.chown(path, 1000, 1000)


@pytest.mark.parametrize("damage", [_others_may_write, _linked, _of_a_user])
def test_a_note_that_is_not_roots_alone_is_not_believed(host: Host, damage: Any) -> None:
    if damage is _of_a_user and os.geteuid() != 0:
        pytest.skip("root alone can give a file away")
    assert run(host) == []
    damage(host.path(boots.NOTE))
    host.alter(FLAGS, b"")
    assert host.items() == [("tensorflow", "absl/flags.py", "empty")]


def test_nothing_is_noted_where_others_may_write(host: Host) -> None:
    place = host.path(boots.NOTE).parent
    place.chmod(0o777)
    assert run(host) == []
    assert list(place.iterdir()) == []
    place.chmod(0o755)
    place.rename(place.with_name("elsewhere"))
    place.symlink_to("elsewhere")
    assert run(host) == []
    assert list(place.iterdir()) == []


def test_nothing_is_noted_on_a_host_that_no_run_has_begun_on(host: Host) -> None:
    context = Context(root=str(host.root))
    shutil.rmtree(host.path(boots.STATE))
    boots.note(context, [made.VENV])
    assert noted(host) is None
    host.path(boots.STATE).mkdir()
    boots.note(context, [made.VENV])
    assert noted(host) == {"boot": NOW, "compared": [made.VENV]}


def test_what_a_killed_look_has_left_is_cleared_away(host: Host) -> None:
    fresh = host.path(boots.NOTE + ".new")
    fresh.write_text("half", "utf-8")
    assert run(host) == []
    assert not fresh.exists()
    assert run(host) == []
    assert noted(host) == {"boot": NOW, "compared": [made.VENV]}


# what every look sees


def test_cudnns_files_are_compared_by_every_look(host: Host) -> None:
    assert run(host) == []
    host.alter(CUDNN + "/lib64/libcudnn.so.8.1.0", made.ELF[:20])
    host.alter(CUDNN + "/include/cudnn_version.h", b"")
    assert host.items() == [
        ("cudnn", "cudnn_version.h", "0 bytes"),
        ("cudnn", "libcudnn.so.8.1.0", "20 bytes"),
    ]
