"""A tree is written without losing what a person put there."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provision import collection, tree
from provision.errors import InputError, MachineError
from provision.render import render
from tests.unit.generator import recorded


def write(root: Path, **files: str) -> tree.Difference:
    data = {name.replace("__", "/"): text.encode() for name, text in files.items()}
    return tree.write(root, data, version="0")


def test_a_second_write_changes_nothing(tmp_path: Path) -> None:
    write(tmp_path, a="1", d__b="2")
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}
    assert write(tmp_path, a="1", d__b="2").empty
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")} == before


def test_foreign_files_are_not_touched(tmp_path: Path) -> None:
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "hosts.yml").write_text("mine")
    write(tmp_path, a="1")
    write(tmp_path)
    assert (tmp_path / "lab" / "hosts.yml").read_text() == "mine"
    assert not (tmp_path / "a").exists()


def test_stale_files_of_ours_go_with_their_directories(tmp_path: Path) -> None:
    write(tmp_path, a="1", d__e__b="2")
    what = write(tmp_path, a="1")
    assert what.removed == ("d/e/b",)
    assert not (tmp_path / "d").exists()


def test_an_edited_file_is_kept_beside_the_new_one(tmp_path: Path) -> None:
    write(tmp_path, a="1")
    (tmp_path / "a").write_text("edited")
    what = write(tmp_path, a="2")
    assert what.edited == ("a",)
    assert (tmp_path / "a").read_text() == "2"
    assert (tmp_path / "a.yours").read_text() == "edited"


def test_a_second_edit_does_not_overwrite_the_first(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path, a="1")
        (tmp_path / "a").write_text(f"edit {number}")
    write(tmp_path, a="1")
    kept = sorted(p.read_text() for p in tmp_path.glob("a.yours*"))
    assert kept == ["edit 0", "edit 1", "edit 2"]


def test_an_edited_file_that_became_stale_is_kept_too(tmp_path: Path) -> None:
    write(tmp_path, a="1")
    (tmp_path / "a").write_text("edited")
    write(tmp_path)
    assert (tmp_path / "a.yours").read_text() == "edited"


def test_the_roles_and_plugins_of_an_earlier_version_go(tmp_path: Path) -> None:
    """Until the collection came, they lay in roles/ and callback_plugins/ of the tree."""
    former = {
        "site.yml": "# Made by `provision render`",
        "callback_plugins/provision.py": "a callback",
        "roles/cuda/tasks/main.yml": "tasks",
        "roles/cuda/tasks/hold.yml": "tasks",
        "roles/gpu_state/action_plugins/gpu_state.py": "an action",
    }
    tree.write(tmp_path, {path: text.encode() for path, text in former.items()}, version="0.0")
    # Ansible has run there, somebody has changed a task, and has a role of their own.
    for plugin in ("callback_plugins/provision", "roles/gpu_state/action_plugins/gpu_state"):
        compiled = tmp_path / plugin
        compiled = compiled.parent / "__pycache__" / f"{compiled.name}.cpython-311.pyc"
        compiled.parent.mkdir()
        compiled.write_bytes(b"bytecode")
    (tmp_path / "roles/cuda/tasks/hold.yml").write_text("edited")
    (tmp_path / "roles/mine").mkdir()
    (tmp_path / "roles/mine/README.md").write_text("mine")

    files = render(recorded.lock(), collection.read())
    what = tree.write(tmp_path, files, version="0")

    assert what.edited == ("roles/cuda/tasks/hold.yml",)
    assert set(what.removed) == set(former) - {"site.yml"}
    left = {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()}
    theirs = {"roles/cuda/tasks/hold.yml.yours", "roles/mine/README.md"}
    assert left == {*files, *theirs, ".provision-manifest.json"}
    assert not (tmp_path / "callback_plugins").exists()
    assert not (tmp_path / "roles/gpu_state").exists()


def test_bytecode_of_other_plugins_stays(tmp_path: Path) -> None:
    tree.write(tmp_path, {"p/a.py": b"1"}, version="0")
    cache = tmp_path / "p/__pycache__"
    cache.mkdir()
    for name in ("a", "ab"):
        (cache / f"{name}.cpython-311.pyc").write_bytes(b"bytecode")
    write(tmp_path)
    assert [path.name for path in cache.iterdir()] == ["ab.cpython-311.pyc"]


@pytest.mark.parametrize("name", ["site.yml", "ansible.cfg", "roles/cuda/tasks/main.yml"])
def test_another_projects_files_are_refused_and_nothing_is_written(
    tmp_path: Path, name: str
) -> None:
    """Rendering into a repository of playbooks took over its site.yml and ansible.cfg."""
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("my own")
    files = {name: b"ours", "verify/conftest.py": b"x"}
    for call in (tree.difference, functools.partial(tree.write, version="0")):
        with pytest.raises(InputError, match="files of another project") as caught:
            call(tmp_path, files)
        assert caught.value.got == name
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == [tmp_path / name]


@pytest.mark.parametrize(
    ("there", "written"),
    [("site.yml", "cluster/a.yaml"), ("cluster/a.yaml", "site.yml")],
    ids=["a project", "manifests"],
)
def test_a_project_and_other_files_do_not_replace_each_other(
    tmp_path: Path, there: str, written: str
) -> None:
    tree.write(tmp_path, {there: b"1"}, version="0")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for call in (tree.difference, functools.partial(tree.write, version="0")):
        with pytest.raises(InputError, match="files of another command") as caught:
            call(tmp_path, {written: b"2"})
        assert caught.value.got == there
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_tree_whose_manifest_is_lost_is_still_ours(tmp_path: Path) -> None:
    (tmp_path / "site.yml").write_bytes(b"# Made by\n# `provision render`; run it with: x\nold")
    what = tree.write(tmp_path, {"site.yml": b"ours"}, version="0")
    assert what.edited == ("site.yml",)
    assert (tmp_path / "site.yml.yours").read_bytes().endswith(b"old")


def test_a_file_of_another_name_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("my own")
    assert tree.write(tmp_path, {"site.yml": b"ours"}, version="0").new == ("site.yml",)


def test_comparing_writes_nothing(tmp_path: Path) -> None:
    what = tree.difference(tmp_path, {"a": b"1"})
    assert what.new == ("a",)
    assert not list(tmp_path.iterdir())


def test_no_temporary_file_stays(tmp_path: Path) -> None:
    write(tmp_path, a="1", b__c="2")
    assert sorted(p.name for p in tmp_path.rglob("*") if p.is_file()) == [
        ".provision-manifest.json",
        "a",
        "c",
    ]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 9, "files": {}}'])
def test_a_broken_manifest_is_said(tmp_path: Path, text: str) -> None:
    (tmp_path / tree.MANIFEST).write_text(text)
    with pytest.raises(InputError, match="manifest cannot be read"):
        write(tmp_path, a="1")


def test_a_manifest_cannot_name_files_outside(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("precious")
    root = tmp_path / "project"
    write(root, a="1")
    manifest = (root / tree.MANIFEST).read_text().replace('"a"', '"../outside"')
    (root / tree.MANIFEST).write_text(manifest)
    write(root, b="2")
    assert outside.read_text() == "precious"


def test_a_directory_in_the_way_is_said(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(InputError, match="a directory is where a file should be"):
        write(tmp_path, a="1")


def test_a_disk_that_refuses_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(MachineError, match="cannot be written") as caught:
        write(tmp_path, a="1")
    assert "No space left" in caught.value.got
    assert not list(tmp_path.rglob("*.tmp"))


NAMES = st.from_regex(r"[a-c]{1,2}", fullmatch=True)
TREES = st.dictionaries(NAMES, st.binary(max_size=4), max_size=4)


@given(st.lists(TREES, min_size=1, max_size=4))
def test_after_a_write_the_tree_is_what_was_rendered(
    tmp_path_factory: pytest.TempPathFactory, trees: list[dict[str, bytes]]
) -> None:
    root = tmp_path_factory.mktemp("tree")
    for files in trees:
        tree.write(root, files, version="0")
        found = {
            p.relative_to(root).as_posix(): p.read_bytes()
            for p in root.rglob("*")
            if p.is_file() and p.name != tree.MANIFEST
        }
        assert found == files
        assert tree.difference(root, files).empty
