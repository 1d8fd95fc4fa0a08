"""roles/cudnn/files/link_cudnn.py: links into CUDA's tree, and nothing left of them afterwards."""

from __future__ import annotations

import ast
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "roles" / "cudnn" / "files" / "link_cudnn.py"
spec = importlib.util.spec_from_file_location("link_cudnn", SCRIPT)
assert spec is not None
assert spec.loader is not None
script: Any = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)

OLD, NEW = "/opt/nvidia/cudnn/8.1.0.77-cuda11.2", "/opt/nvidia/cudnn/8.6.0.163-cuda11"
TREE = "/usr/local/cuda-11.2"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(script, "ROOT", str(tmp_path))
    for directory, library, more in ((OLD, "lib64", []), (NEW, "lib", ["cudnn_v8.h"])):
        top = tmp_path / directory[1:]
        (top / "include").mkdir(parents=True)
        (top / library).mkdir()
        for name in ("cudnn.h", *more):
            (top / "include" / name).write_text(directory)
        (top / library / "libcudnn.so.8.x").write_text(directory)
        (top / library / "libcudnn.so.8").symlink_to("libcudnn.so.8.x")
    (tmp_path / TREE[1:] / "targets" / "lib").mkdir(parents=True)
    (tmp_path / TREE[1:] / "lib64").symlink_to("targets/lib")
    (tmp_path / TREE[1:] / "include").mkdir()
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    script.main(list(arguments))
    found: list[str] = json.loads(capsys.readouterr().out)["paths"]
    return found


def tree(root: Path) -> dict[str, str]:
    """{path below the tree: target} of all links but NVIDIA's own."""
    top = root / TREE[1:]
    return {
        str(path.relative_to(top)): str(path.readlink())
        for path in sorted(top.rglob("*"))
        if path.is_symlink() and path.name != "lib64"
    }


def test_each_name_is_a_link_into_the_versions_directory(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, "look", OLD, TREE)
    assert tree(root) == {}
    run(capsys, "apply", OLD, TREE)
    assert tree(root) == {
        "include/cudnn.h": OLD + "/include/cudnn.h",
        "targets/lib/libcudnn.so.8": OLD + "/lib64/libcudnn.so.8",
        "targets/lib/libcudnn.so.8.x": OLD + "/lib64/libcudnn.so.8.x",
    }
    assert run(capsys, "look", OLD, TREE) == []
    assert run(capsys, "apply", OLD, TREE) == []


def test_another_version_leaves_nothing_of_the_last_one(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "apply", NEW, TREE)
    assert "include/cudnn_v8.h" in tree(root)
    run(capsys, "apply", OLD, TREE)
    assert {target.split("/include")[0].split("/lib")[0] for target in tree(root).values()} == {OLD}
    assert "include/cudnn_v8.h" not in tree(root)
    assert list((root / TREE[1:]).rglob("*.provision-saved")) == []


def test_the_versioned_layout_takes_the_links_away(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "apply", OLD, TREE)
    assert run(capsys, "look", OLD)
    run(capsys, "apply", OLD)
    assert tree(root) == {}
    assert not (root / TREE[1:] / ".provision-cudnn").exists()
    assert run(capsys, "look", OLD) == []


def test_a_copy_by_hand_is_kept_beside(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = root / TREE[1:] / "include" / "cudnn.h"
    for text in ("one", "two"):
        place.unlink(missing_ok=True)
        place.write_text(text)
        assert run(capsys, "apply", OLD, TREE)
    assert place.readlink() == Path(OLD + "/include/cudnn.h")
    assert place.with_name("cudnn.h.provision-saved").read_text() == "one"
    assert place.with_name("cudnn.h.provision-saved.2").read_text() == "two"


def test_what_somebody_put_in_a_links_place_is_not_removed(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "apply", OLD, TREE)
    place = root / TREE[1:] / "include" / "cudnn.h"
    place.unlink()
    place.write_text("mine")
    run(capsys, "apply", OLD)
    assert place.read_text() == "mine"


def test_a_run_that_was_cut_off_is_finished_by_the_next(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put, calls = script.put, []

    def failing(path: str, target: str) -> None:
        calls.append(path)
        if len(calls) == 2:
            raise KeyboardInterrupt
        put(path, target)

    monkeypatch.setattr(script, "put", failing)
    with pytest.raises(KeyboardInterrupt):
        script.main(["apply", OLD, TREE])
    monkeypatch.setattr(script, "put", put)
    run(capsys, "apply", OLD)
    assert tree(root) == {}
    run(capsys, "apply", OLD, TREE)
    assert run(capsys, "look", OLD, TREE) == []


def test_the_script_is_python_3_7() -> None:
    ast.parse(SCRIPT.read_text("utf-8"), feature_version=(3, 7))
