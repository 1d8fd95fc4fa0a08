"""cuDNN's links into CUDA's tree, and nothing left of them afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest
from gpu_stack.components import cudnn
from gpu_stack.components.cudnn import bring, layout, tree
from gpu_stack.host.context import Context

HERE = Context()
OLD, NEW = "/opt/nvidia/cudnn/8.1.0.77-cuda11.2", "/opt/nvidia/cudnn/8.6.0.163-cuda11"
TREE = "/usr/local/cuda-11.2"


NAMES = {
    OLD: ["include/cudnn.h", "lib64/libcudnn.so.8.x", "lib64/libcudnn.so.8", "LICENSE"],
    NEW: ["include/cudnn.h", "include/cudnn_v8.h", "lib/libcudnn.so.8.x", "lib/libcudnn.so.8"],
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(layout, "TREES", f"{tmp_path}/usr/local/cuda-*")
    (tmp_path / TREE[1:] / "targets" / "lib").mkdir(parents=True)
    (tmp_path / TREE[1:] / "lib64").symlink_to("targets/lib")
    (tmp_path / TREE[1:] / "include").mkdir()
    return tmp_path


def settle(
    root: Path, directory: str | None = None, *, doing: bool = True, into: str = TREE
) -> list[str]:
    """The version of that directory in CUDA's tree; without one none in any tree."""
    to = f"{root}{into}" if directory else None
    links = layout.tree_links(HERE, directory, NAMES[directory], to) if directory else {}
    changed: list[str] = tree.settle(HERE, to, links, doing)
    return changed


def there(root: Path) -> dict[str, str]:
    """{path below the tree: target} of all links but NVIDIA's own."""
    top = root / TREE[1:]
    return {
        str(path.relative_to(top)): str(path.readlink())
        for path in sorted(top.rglob("*"))
        if path.is_symlink() and path.name != "lib64"
    }


def test_each_name_is_a_link_into_the_versions_directory(root: Path) -> None:
    assert settle(root, OLD, doing=False)
    assert there(root) == {}
    settle(root, OLD)
    assert there(root) == {
        "include/cudnn.h": OLD + "/include/cudnn.h",
        "targets/lib/libcudnn.so.8": OLD + "/lib64/libcudnn.so.8",
        "targets/lib/libcudnn.so.8.x": OLD + "/lib64/libcudnn.so.8.x",
    }
    assert settle(root, OLD, doing=False) == []
    assert settle(root, OLD) == []


def test_another_version_leaves_nothing_of_the_last_one(root: Path) -> None:
    settle(root, NEW)
    assert "include/cudnn_v8.h" in there(root)
    settle(root, OLD)
    assert {target.split("/include")[0].split("/lib")[0] for target in there(root).values()} == {
        OLD
    }
    assert "include/cudnn_v8.h" not in there(root)
    assert list((root / TREE[1:]).rglob("*.provision-saved")) == []


def test_the_versioned_layout_takes_the_links_away(root: Path) -> None:
    settle(root, OLD)
    assert settle(root, doing=False)
    settle(root)
    assert there(root) == {}
    assert not (root / TREE[1:] / ".provision-cudnn").exists()
    assert settle(root, doing=False) == []


class Seen(NamedTuple):
    """What the look finds to do for the links in a tree."""

    links: dict[str, str]
    left: list[str]
    rivals: list[str]


def seen(root: Path, into: str) -> Seen:
    """What the look finds in this tree where OLD's links are wished."""
    version, _dash, cuda = OLD.rpartition("/")[2].partition("-cuda")
    row = {"version": version, "cuda": cuda}
    files = {name: {"link": "x"} for name in NAMES[OLD]}
    place = root / OLD[1:]
    place.mkdir(parents=True, exist_ok=True)
    manifest = {"format": layout.MANIFEST_FORMAT, "files": files}
    (place / layout.MANIFEST).write_text(json.dumps(manifest))
    options = {
        "cudnn_root": str(place.parent), "cudnn_layout": "cuda", "cudnn_tree": f"{root}{into}",
    }  # fmt: skip
    state = cudnn.look(Context(row={"cudnn": row}, options=options))
    return Seen(state["links"], state["links_left"], state["rivals"])


@pytest.mark.parametrize("into", ["/usr/local/cuda", "/usr/local/cuda-11", TREE])
def test_a_tree_that_several_names_lead_to_is_one_tree(
    root: Path, monkeypatch: pytest.MonkeyPatch, into: str
) -> None:
    (root / "usr/local/cuda-11").symlink_to("cuda-11.2")
    (root / "usr/local/cuda").symlink_to("cuda-11")
    monkeypatch.setitem(NAMES, ours := f"{root}{OLD}", NAMES[OLD])
    assert settle(root, ours, into=into)
    links = there(root)
    assert len(links) == 3
    assert settle(root, ours, doing=False, into=into) == []
    assert settle(root, ours, into=into) == []
    assert there(root) == links
    assert seen(root, into) == ({}, [], [])
    assert settle(root)
    assert there(root) == {}


def test_links_recorded_under_another_name_of_the_tree_are_those_of_the_tree(root: Path) -> None:
    settle(root, OLD)
    links = there(root)
    record = root / TREE[1:] / ".provision-cudnn"
    record.write_text(record.read_text().replace("/cuda-11.2/", "/cuda/"))
    (root / "usr/local/cuda").symlink_to("cuda-11.2")
    assert settle(root, OLD, into="/usr/local/cuda") == []
    assert there(root) == links
    (root / "usr/local/cuda").unlink()
    settle(root)
    assert there(root) == {}


def test_links_go_with_the_versions_that_they_lead_to(root: Path) -> None:
    version = layout.Version(f"{root}/opt/nvidia/cudnn", "8.1.0.77", "11.2", "")
    settle(root, OLD)
    would = bring.absent(HERE, version, check_mode=True)
    assert (would["changed"], would["msg"]) == (True, "Would remove cuDNN's links from CUDA's tree")
    assert len(there(root)) == 3
    assert bring.absent(HERE, version)["changed"] is True
    assert there(root) == {}
    assert not (root / TREE[1:] / ".provision-cudnn").exists()
    assert bring.absent(HERE, version, check_mode=True)["changed"] is False
    assert bring.absent(HERE, version)["changed"] is False


def test_a_copy_by_hand_is_kept_where_no_loader_looks(root: Path) -> None:
    top = root / TREE[1:]
    for text in ("one", "two"):
        for name in ("include/cudnn.h", "lib64/libcudnn.so.8.x"):
            (top / name).unlink(missing_ok=True)
            (top / name).write_text(text)
        assert settle(root, OLD)
    assert there(root)["include/cudnn.h"] == OLD + "/include/cudnn.h"
    assert sorted(path.name for path in (top / "lib64").iterdir()) == [
        "libcudnn.so.8", "libcudnn.so.8.x",
    ]  # fmt: skip
    for kept, text in ((".provision-saved", "one"), (".provision-saved.2", "two")):
        assert (top / kept / "include/cudnn.h").read_text() == text
        assert (top / kept / "lib64/libcudnn.so.8.x").read_text() == text


@pytest.mark.parametrize(
    "name",
    ["libcudnn.so.8.2.4", "libcudnn.so.8.1.0.provision-saved", "libcudnn.so.provision-saved.2"],
)
@pytest.mark.parametrize("linked", [False, True])
def test_another_cudnn_that_the_loader_would_take_is_set_aside(
    root: Path, name: str, linked: bool
) -> None:
    settle(root, OLD)
    path = root / TREE[1:] / "lib64" / name
    if linked:
        (root / "theirs").write_text("theirs")
        path.symlink_to(root / "theirs")
    else:
        path.write_text("theirs")
    assert seen(root, TREE).rivals == [str(path)]
    assert settle(root, OLD, doing=False) == [str(path)]
    assert settle(root, OLD) == [str(path)]
    assert not path.is_symlink()
    assert not path.exists()
    assert (root / TREE[1:] / ".provision-saved/lib64" / name).read_text() == "theirs"
    assert seen(root, TREE).rivals == []
    assert settle(root, OLD) == []


def test_what_is_not_taken_for_this_cudnn_stays_in_cudas_tree(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(NAMES, ours := f"{root}{OLD}", NAMES[OLD])
    library = Path(ours, "lib64/libcudnn.so.8.x")
    library.parent.mkdir(parents=True)
    library.write_text("ours")
    settle(root, ours)
    place = root / TREE[1:] / "lib64"
    (place / "libcudnn.so.7.6.5").write_text("another soname")
    (place / "libcudnn_static.a").write_text("no library of the loader's")
    (place / "libcudart.so.8").write_text("CUDA's")
    (place / "libcudnn.so.8.1").symlink_to("libcudnn.so.8.x")  # as ldconfig makes links
    (place / "libcudnn.so.8.d").mkdir()
    before = sorted(path.name for path in place.iterdir())
    assert settle(root, ours) == []
    assert sorted(path.name for path in place.iterdir()) == before


def test_without_links_nothing_is_set_aside(root: Path) -> None:
    path = root / TREE[1:] / "lib64/libcudnn.so.8.2.4"
    path.write_text("theirs")
    assert settle(root) == []
    assert path.read_text() == "theirs"


def test_what_somebody_put_in_a_links_place_is_not_removed(root: Path) -> None:
    settle(root, OLD)
    place = root / TREE[1:] / "include" / "cudnn.h"
    place.unlink()
    place.write_text("mine")
    settle(root)
    assert place.read_text() == "mine"


def test_a_run_that_was_cut_off_is_finished_by_the_next(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, calls = tree.put, []

    def failing(top: str, path: str, target: str) -> None:
        calls.append(path)
        if len(calls) == 2:
            raise KeyboardInterrupt
        put(top, path, target)

    monkeypatch.setattr(tree, "put", failing)
    with pytest.raises(KeyboardInterrupt):
        settle(root, OLD)
    monkeypatch.setattr(tree, "put", put)
    settle(root)
    assert there(root) == {}
    settle(root, OLD)
    assert settle(root, OLD, doing=False) == []
