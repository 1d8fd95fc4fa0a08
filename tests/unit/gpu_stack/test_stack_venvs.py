"""TensorFlow's environments: who may write them, who uses them, and what people put into them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import converged_host as made
import pytest
from converged_host import SITE, VENV, Host
from gpu_stack.components import tensorflow
from gpu_stack.components.tensorflow import venv_files, venv_trust, venv_use
from gpu_stack.host.context import Context

NAME = VENV.rsplit("/", 1)[-1]
ANEW = {"tensorflow": {"tensorflow_reinstall": True}}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    host = made.make(tmp_path)
    host.link(VENV + "/bin/python3", "python")
    host.write(SITE + "/easy.pth", "import os\n# x\n./absl\n")
    return host


def loosen(path: str) -> Callable[[Host], None]:
    def damage(host: Host) -> None:
        place = host.path(path)
        place.chmod(place.stat().st_mode | 0o002)

    return damage


def relink(host: Host) -> None:
    host.write("/home/alice/bin/python3.9", made.ELF)
    host.link(VENV + "/bin/python3", "/home/alice/bin/python3.9")


def all_relinked(host: Host) -> None:
    host.write("/home/alice/bin/python3.9", made.ELF)
    host.link(VENV + "/bin/python", "/home/alice/bin/python3.9")


def added_path(host: Host) -> None:
    host.write("/home/alice/lib/mine.py", "")
    host.path("/home/alice").chmod(0o777)
    host.write(SITE + "/ada.pth", "/home/alice/lib\n")


SHORT = "lib/python3.9/site-packages"
DAMAGES: list[tuple[str, Callable[[Host], None], list[tuple[str, str]]]] = [
    ("site-packages", loosen(SITE), [(SHORT, "writable for all")]),
    ("a package", loosen(SITE + "/numpy"), [(SHORT + "/numpy", "writable for all")]),
    ("a .pth", loosen(SITE + "/easy.pth"), [(SHORT + "/easy.pth", "writable for all")]),
    ("bin", loosen(VENV + "/bin"), [("bin", "writable for all")]),
    ("lib", loosen(VENV + "/lib"), [("lib", "writable for all")]),
    ("itself", loosen(VENV), [(".", "writable for all")]),
    ("its settings", loosen(VENV + "/pyvenv.cfg"), [("pyvenv.cfg", "writable for all")]),
    ("python3 elsewhere", relink, [("bin/python3", "leads to /home/alice/bin/python3.9")]),
    (
        "python elsewhere, of the right name",
        all_relinked,
        [
            ("bin/python", "leads to /home/alice/bin/python3.9"),
            ("bin/python3", "leads to /home/alice/bin/python3.9"),
        ],
    ),
    (
        "a path into somebody's home",
        added_path,
        [(SHORT + "/ada.pth", "leads to others: /home/alice is writable for all")],
    ),
]


def test_an_environment_of_roots_alone_is_as_locked(host: Host) -> None:
    assert host.items() == []
    assert host.items(deep=True) == []


@pytest.mark.parametrize(
    ("damage", "expected"),
    [(damage, expected) for _name, damage, expected in DAMAGES],
    ids=[name for name, _damage, _expected in DAMAGES],
)
def test_d6_what_others_may_write_or_what_leads_elsewhere_is_named_and_made_anew(
    host: Host, damage: Callable[[Host], None], expected: list[tuple[str, str]]
) -> None:
    damage(host)
    assert host.items() == [("tensorflow", item, old) for item, old in expected]
    assert host.plan()["repairs"] == ANEW


def test_a_group_that_may_write_is_named(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    place = host.path(SITE)
    place.chmod(0o775)
    assert host.items() == []  # root's own group
    monkeypatch.setattr(venv_trust, "STAFF", -1)
    real = venv_trust.Owner.__init__

    def another(self: Any, context: Any) -> None:
        real(self, context)
        self.groups = (-1,)

    monkeypatch.setattr(venv_trust.Owner, "__init__", another)
    items = host.items()
    assert items == [("tensorflow", SHORT, f"writable for group {place.stat().st_gid}")]


def test_another_owner_of_everything_is_one_item(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after `chown -R ada` of the environment, told in one line."""
    real = venv_trust.Owner.__init__

    def another(self: Any, context: Any) -> None:
        real(self, context)
        self.uid += 1

    monkeypatch.setattr(venv_trust.Owner, "__init__", another)
    former = {item: old for _component, item, old in host.items()}
    reason = former["import path"]
    assert reason is not None
    assert f"entries: owned by user {os.getuid()}" in reason
    assert "/opt/tensorflow" in former
    assert "/opt/tensorflow/current" in former


def test_what_lies_deep_in_a_wheel_is_left_to_a_deep_look(host: Host) -> None:
    loosen(SITE + "/absl/flags.py")(host)
    assert host.items() == []
    expected = [("tensorflow", SHORT + "/absl/flags.py", "writable for all")]
    assert host.items(deep=True) == expected


def test_the_directory_of_all_is_given_back_to_root(host: Host) -> None:
    loosen("/opt/tensorflow")(host)
    assert host.items() == [("tensorflow", "/opt/tensorflow", "writable for all")]
    assert host.plan()["repairs"] == {}
    assert host.plan()["blockers"] == []


def test_a_directory_above_it_is_left_to_a_person(host: Host) -> None:
    loosen("/opt")(host)
    result = host.plan()
    changes = [(change["item"], change["from"]) for change in result["changes"]]
    assert changes == [("/opt/tensorflow", "/opt is writable for all")]
    ((id_, message),) = [(blocker["id"], blocker["message"]) for blocker in result["blockers"]]
    assert id_ == "venv-parents"
    assert message.startswith("/opt is writable for all: who may write there")


def moved(host: Host) -> None:
    """/opt/tensorflow is a link to another disk."""
    host.path("/data").mkdir()
    host.path("/opt/tensorflow").rename(host.path("/data/tf"))
    host.link("/opt/tensorflow", "/data/tf")


def test_a_link_to_another_disk_is_as_good(host: Host) -> None:
    moved(host)
    assert host.items() == []


@pytest.mark.parametrize("place", ["/data", "/data/tf"])
def test_a_link_is_not_trusted_where_others_may_write(host: Host, place: str) -> None:
    moved(host)
    loosen(place)(host)
    result = host.plan()
    assert [blocker["id"] for blocker in result["blockers"]] == ["venv-parents"]
    assert result["blockers"][0]["message"].startswith(place + " is writable for all")


def test_links_in_a_circle_end(host: Host) -> None:
    host.link("/opt/a", "b")
    host.link("/opt/b", "a")
    reason = venv_trust.parents(Context(root=str(host.root)), "/opt/a")
    assert reason == "/opt/a leads in a circle"


@pytest.mark.parametrize("kind", [".building-", ".ready-", ".removing-"])
def test_what_a_killed_run_has_left_is_named(host: Host, kind: str) -> None:
    host.write(f"/opt/tensorflow/{kind}{NAME}/x", "")
    assert host.items() == [("tensorflow", kind + NAME, "present")]
    assert host.plan()["repairs"] == {}


# who uses it


def job(host: Host, venv: str = VENV) -> None:
    host.write("/proc/77/maps", f"7f00-7f01 r-xp 0 08:01 1  {venv}/lib/x.so\n")
    host.write("/proc/77/comm", "python\n")
    host.write("/proc/77/cmdline", "python\0train.py\0")


def broken(host: Host) -> None:
    host.remove(f"{SITE}/{made.LIBRARY}")


def another_numpy(host: Host) -> None:
    old = host.path(SITE + "/numpy-1.26.4.dist-info")
    old.rename(old.with_name("numpy-2.0.2.dist-info"))


@pytest.mark.parametrize(
    ("damage", "word"),
    [(broken, "made anew"), (another_numpy, "changed"), (relink, "made anew")],
)
def test_m1_a_repair_is_refused_while_somebody_uses_the_environment(
    host: Host, damage: Callable[[Host], None], word: str
) -> None:
    job(host)
    damage(host)
    ((id_, message),) = [(blocker["id"], blocker["message"]) for blocker in host.plan()["blockers"]]
    assert id_ == "venv-in-use"
    expected = f"pid 77 of None uses TensorFlow's environment {NAME}, which would be {word}: "
    assert message == expected + "python train.py"
    # Not where TensorFlow is left out, or another environment is used.
    assert host.plan(skip=["tensorflow"])["blockers"] == []
    job(host, "/opt/tensorflow/mine")
    assert host.plan()["blockers"] == []


def test_m1_who_uses_it_behind_a_link_is_seen(host: Host) -> None:
    broken(host)
    moved(host)
    job(host, f"/data/tf/{NAME}")
    assert [blocker["id"] for blocker in host.plan()["blockers"]] == ["venv-in-use"]
    gone = host.plan(options={"tensorflow_state": "absent"})
    assert "in-use" in [blocker["id"] for blocker in gone["blockers"]]


@pytest.mark.parametrize(
    "damage",
    [
        loosen("/opt/tensorflow"),
        lambda host: host.path(VENV + "/bin").chmod(0o700),
        lambda host: host.write(VENV + "/requirements.txt", "numpy\n"),
        lambda host: host.link("/opt/tensorflow/current", "x"),
    ],
)
def test_what_disturbs_nobody_asks_nobody(host: Host, damage: Callable[[Host], None]) -> None:
    job(host)
    damage(host)
    assert len(host.items()) == 1
    assert host.plan()["blockers"] == []


@pytest.mark.parametrize("line", ["{}/bin/python\0t.py", "/usr/bin/python3.9\0{}/bin/train\0x"])
@pytest.mark.parametrize("way", [VENV, "/opt/tensorflow/current"])
def test_where_the_kernel_does_not_tell_the_command_line_does(
    host: Host, monkeypatch: pytest.MonkeyPatch, line: str, way: str
) -> None:
    """Root of a container may not read another one's maps."""
    job(host)
    real = Context.read
    hidden = lambda self, path: None if path.endswith("/maps") else real(self, path)  # noqa: E731
    monkeypatch.setattr(Context, "read", hidden)
    broken(host)
    assert host.plan()["blockers"] == []
    host.write("/proc/77/cmdline", line.format(way))
    assert [blocker["id"] for blocker in host.plan()["blockers"]] == ["venv-in-use"]
    host.write("/proc/77/cmdline", line.format("/opt/tensorflow/mine"))
    assert host.plan()["blockers"] == []


def looked(host: Host, beside: Sequence[dict[str, Any]] = (), **options: Any) -> Any:
    row = {**made.LOCK["stacks"]["debian11-small"], "beside": list(beside)}
    context = Context(root=str(host.root), options=options, row=row)
    return venv_use.look(context, tensorflow.look(context))


ROW = made.LOCK["stacks"]["debian11-small"]["tensorflow"]
BESIDE = {**ROW, "version": "2.8.0", "requirements_sha256": "e" * 64}
OTHER = "2.8.0-eeeeeeee"


def test_what_a_run_leaves_as_it_is_is_not_looked_at(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy host has hundreds of processes, whose maps are long."""
    asked = []
    real = Context.glob
    monkeypatch.setattr(Context, "glob", lambda self, path: asked.append(path) or real(self, path))
    job(host)
    assert looked(host) == {}
    assert [path for path in asked if path.startswith("/proc")] == []


def test_each_environment_that_a_run_changes_is_named_with_what_becomes_of_it(host: Host) -> None:
    untouched = {"more": [], "using": [], "kept": None}
    host.write("/proc/78/maps", "7f00 /usr/bin/bash\n")
    another_numpy(host)
    assert looked(host) == {NAME: {"kind": "changed", **untouched}}
    assert looked(host, [BESIDE])[OTHER] == {"kind": "new", **untouched}
    broken(host)
    kept = {"more": ["easy.pth"], "using": [], "kept": VENV + ".save"}
    host.write(f"/opt/tensorflow/{OTHER}/x", "")
    assert looked(host, [BESIDE]) == {
        NAME: {"kind": "anew", **kept},
        OTHER: {"kind": "anew", **untouched},
    }


def test_who_uses_what_is_wished_away_is_asked_with_all_that_goes(host: Host) -> None:
    job(host)
    context = Context(root=str(host.root))
    state = {"remains": [(VENV, "2.9.3"), ("/opt/tensorflow/current", NAME)]}
    kept = {"more": ["easy.pth"], "using": [], "kept": VENV + ".save"}
    assert venv_use.look(context, state) == {NAME: {"kind": "removed", **kept}}


def test_a_free_name_is_found_behind_those_that_are_taken(host: Host) -> None:
    for name in (".save", ".save.1", ".save.2"):
        host.write(f"{VENV}{name}/x", "")
    assert venv_use.save_name(Context(root=str(host.root)), VENV) == VENV + ".save.3"


# what people put into it


def test_what_belongs_to_an_environment_is_nobodys(host: Host) -> None:
    site = host.path(SITE)
    host.remove(SITE + "/easy.pth")
    record = site / "tensorflow-2.9.3.dist-info" / "RECORD"
    lines = '"quoted/a,b.py",,\n../../../bin/saved_model_cli,,\n'
    record.write_text(record.read_text() + lines)
    (site / "quoted").mkdir()
    # Another wheel's program, and a module that is one file.
    other = site / "absl_py-2.3.1.dist-info" / "RECORD"
    other.write_text(other.read_text() + "six.py,sha256=x,1\n../../../bin/absl_tool,,\n")
    (site / "six.py").write_text("")
    names = ("__pycache__", "~umpy", "old-1.egg-info", "mine.egg-link", "bare-1.dist-info")
    for name in names:
        (site / name).mkdir()
    programs = ("python3.9", "pip3", "wheel", "easy_install-3.9", "activate", "activate.fish")
    for name in (*programs, "Activate.ps1", "saved_model_cli", "absl_tool", "__pycache__"):
        host.write(f"{VENV}/bin/{name}", "")
    for name in (*venv_files.OWN[1:], "pip-selfcheck.json", "pip-x"):
        if not host.path(f"{VENV}/{name}").exists():
            host.write(f"{VENV}/{name}", "")
    assert venv_use.added(Context(root=str(host.root)), VENV) == ["bare 1"]


def test_everything_else_is_somebodys(host: Host) -> None:
    site = host.path(SITE)
    host.remove(SITE + "/easy.pth")
    for name in ("Zope-1.0", "Pandas-2.0.3", "pandas-1.5.3", "attrs-22.1.0"):
        host.wheel(name, {})
    host.write(f"{SITE}/mine/RECORD", "mine/x.py,,\n")
    for name in ("zmine.py", "amine.py"):
        (site / name).write_text("")
    for name in ("ztrain", "pythonista", "Xactivate"):
        host.write(f"{VENV}/bin/{name}", "")
    host.write(f"{VENV}/weights.h5", "")
    assert venv_use.added(Context(root=str(host.root)), VENV) == [
        *("attrs 22.1.0", "pandas 1.5.3 and 2.0.3", "zope 1.0", "amine.py", "mine", "zmine.py"),
        *("bin/Xactivate", "bin/pythonista", "bin/ztrain", "weights.h5"),
    ]


def test_an_environment_that_cant_be_read_has_nothing_to_name(host: Host) -> None:
    context = Context(root=str(host.root))
    for name in ("absl_py-2.3.1", "numpy-1.26.4", "tensorflow-2.9.3", "pip-20.3.4"):
        host.remove(f"{SITE}/{name}.dist-info/RECORD")
    host.wheel("pandas-2.0.3", {})
    host.remove(f"{SITE}/pandas-2.0.3.dist-info/RECORD")
    assert venv_use.added(context, VENV) == ["pandas 2.0.3"]
    requirements = host.path(VENV + "/requirements.txt")
    for text in ("", "numpy\n"):
        requirements.write_text(text)
        assert venv_use.added(context, VENV) == []
    requirements.unlink()
    assert venv_use.added(context, VENV) == []
    requirements.write_text(made.REQUIREMENTS_TEXT)
    host.path(SITE).rename(host.path(VENV + "/lib/elsewhere"))
    assert venv_use.added(context, VENV) == []


def test_the_rules_name_environments_in_order_and_are_silent_where_nobody_looked() -> None:
    person = {"pid": 7, "user": "ada", "command": "python"}
    use = {"kind": "anew", "more": ["x"], "using": [person], "kept": "/x.save"}
    facts = {"state": {}, "preflight": {"venvs": {"b": use, "a": use}}}
    for rule in (venv_use.in_use, venv_use.kept):
        first, second = rule(facts, [], {}, {})
        assert "environment a" in first[0]
        assert "environment b" in second[0]
        assert rule({"preflight": {}}, [], {}, {}) == []
    assert venv_use.parents({"state": {}}, [], {}, {}) == []
    assert venv_use.parents({"state": {"tensorflow": {}}}, [], {}, {}) == []


def test_d5_the_plan_names_what_a_repair_leaves_behind(host: Host) -> None:
    host.wheel("pandas-2.0.3", {"pandas/__init__.py": b"x\n"})
    host.write(SITE + "/mine.py", "")
    host.write(VENV + "/bin/train", "")
    host.write(VENV + "/weights.h5", "")
    host.write(f"/opt/tensorflow/{NAME}.save/earlier", "")
    assert host.plan()["notices"] == []
    broken(host)
    ((id_, message, hint),) = [
        (notice["id"], notice["message"], notice["hint"]) for notice in host.plan()["notices"]
    ]
    assert id_ == "venv-kept"
    assert message == (
        f"TensorFlow's environment {NAME} is made anew; what people put into it stays in "
        f"/opt/tensorflow/{NAME}.save.1: pandas 2.0.3, easy.pth, mine.py, bin/train, weights.h5"
    )
    assert f"/opt/tensorflow/{NAME}.save.1/bin/python -m pip freeze" in hint


def test_d5_wheels_that_are_put_back_in_place_cost_nothing(host: Host) -> None:
    host.wheel("pandas-2.0.3", {"pandas/__init__.py": b"x\n"})
    another_numpy(host)
    assert host.plan()["notices"] == []


def test_the_plan_of_a_removal_names_what_it_keeps(host: Host) -> None:
    gone = {"tensorflow_state": "absent"}
    host.remove(SITE + "/easy.pth")
    assert host.plan(options=gone)["notices"] == []
    host.wheel("pandas-2.0.3", {"pandas/__init__.py": b"x\n"})
    (notice,) = host.plan(options=gone)["notices"]
    expected = f"{NAME} is removed; what people put into it stays in /opt/tensorflow/{NAME}.save: "
    assert notice["message"] == f"TensorFlow's environment {expected}pandas 2.0.3"
    job(host)
    assert [blocker["id"] for blocker in host.plan(options=gone)["blockers"]] == ["in-use"]


def test_many_packages_are_counted(host: Host) -> None:
    host.remove(SITE + "/easy.pth")
    host.write("/tmp/x", "")
    for number in range(20):
        host.wheel(f"p{number:02}-1", {f"p{number:02}/__init__.py": b""})
    broken(host)
    assert host.plan()["notices"][0]["message"].endswith("p10 1, p11 1 and 8 more")
    for number in range(12, 20):
        host.path(f"{SITE}/p{number}-1.dist-info").rename(host.path(f"/tmp/p{number}"))
        host.path(f"{SITE}/p{number}").rename(host.path(f"/tmp/{number}"))
    assert host.plan()["notices"][0]["message"].endswith("p10 1, p11 1")


def test_room_for_a_second_environment_is_asked(host: Host) -> None:
    broken(host)
    found = {
        "state": {"tensorflow": {"version": "2.9.3"}},
        "preflight": {
            "disk": {"/opt/tensorflow": {"free": 1 << 30, "device": 1}},
            "venvs": {NAME: {"kind": "anew", "more": [], "using": [], "kept": None}},
        },
        "platform": {},
    }
    from gpu_stack import room

    row = made.LOCK["stacks"]["debian11-small"]
    ((message, _hint),) = room.disk_full(found, [{"component": "tensorflow"}], {}, row)
    assert "(tensorflow in /opt/tensorflow)" in message
    found["preflight"]["venvs"][NAME]["kind"] = "changed"
    assert room.disk_full(found, [{"component": "tensorflow"}], {}, row) == []


# former environments


def test_former_environments_are_in_the_plan_where_they_are_not_kept(host: Host) -> None:
    old = f"2.8.0-{made.REQUIREMENTS[:8]}"
    host.write(f"/opt/tensorflow/{old}/.provision.json", json.dumps({"version": "2.8.0"}))
    host.write("/opt/tensorflow/mine/x", "")
    assert host.items() == []
    options = {"tensorflow_keep_old": False}
    assert host.items(options=options) == [("tensorflow", old, "present")]
    job(host, f"/opt/tensorflow/{old}")
    (blocker,) = host.plan(options=options)["blockers"]
    assert "which would be removed: python train.py" in blocker["message"]
