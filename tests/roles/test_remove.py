"""What removal takes away on a host, and what they leave."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.components.cudnn import MANIFEST, versions
from gpu_stack.components.tensorflow import venv_place, venv_trust
from gpu_stack.host.context import Context

ROLES = Path(__file__).parents[2] / "roles"


HOST = Context()


def write(path: Path, content: bytes = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A cuDNN of ours, current; and a directory of somebody else's."""
    tree = tmp_path / "cudnn" / "8.1.0.77-cuda11.2"
    files = {"include/cudnn.h": b"header", "lib64/libcudnn.so.8.1.0": b"library"}
    entries: dict[str, Any] = {}
    for name, content in files.items():
        write(tree / name, content)
        digest = hashlib.sha256(content).hexdigest()
        entries[name] = {"size": len(content), "sha256": digest, "mode": "0644"}
    (tree / "lib64" / "libcudnn.so.8").symlink_to("libcudnn.so.8.1.0")
    entries["lib64/libcudnn.so.8"] = {"link": "libcudnn.so.8.1.0"}
    manifest = {"format": 1, "version": "8.1.0.77", "cuda": "11.2", "files": entries}
    write(tree / MANIFEST, json.dumps(manifest).encode())
    (tmp_path / "cudnn" / "current").symlink_to(tree.name)
    return tmp_path / "cudnn"


def left(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*")) if root.exists() else []


def remove(root: Path) -> Any:
    return versions.remove(Context(), str(root))


def test_a_whole_cudnn_goes_with_its_root(root: Path) -> None:
    result = remove(root)
    assert result["changed"]
    assert result["kept"] == []
    assert not root.exists()
    assert root.parent.exists()
    assert remove(root) == {"changed": False, "removed": [], "kept": []}


def test_foreign_directories_and_links_stay(root: Path) -> None:
    write(root / "9.9" / "cudnn.h")
    (root / "empty").mkdir()
    (root / "current").unlink()
    (root / "current").symlink_to("9.9")
    remove(root)
    assert left(root) == ["9.9", "9.9/cudnn.h", "current", "empty"]


def test_a_changed_file_and_an_added_one_are_kept(root: Path) -> None:
    tree = root / "8.1.0.77-cuda11.2"
    header = write(tree / "include/cudnn.h", b"HEADER")  # of the same size, and newer
    later = (tree / MANIFEST).stat().st_mtime + 5
    os.utime(header, (later, later))
    write(tree / "include/mine.h")
    result = remove(root)
    assert result["kept"] == [str(header) + ".save"]
    assert [name for name in left(root) if "." in name.rsplit("/", 1)[-1][1:]] == [
        *("8.1.0.77-cuda11.2", "8.1.0.77-cuda11.2/include/cudnn.h.save"),
        "8.1.0.77-cuda11.2/include/mine.h",
    ]


def test_a_removal_that_was_cut_off_goes_on(root: Path) -> None:
    (root / "8.1.0.77-cuda11.2" / "include" / "cudnn.h").unlink()
    remove(root)
    assert not root.exists()


# environments


def venv(root: Path, name: str, *wheels: str) -> Path:
    place = root / name
    write(place / venv_place.MARKER, b"{}")
    write(place / "requirements.txt", b"numpy==1.26.4 \\\n    --hash=sha256:0\ntensorflow==2.9.3\n")
    for wheel in ("numpy-1.26.4", "tensorflow-2.9.3", "pip-20.3.4", *wheels):
        write(place / f"lib/python3.9/site-packages/{wheel}.dist-info/METADATA")
    return place


def test_environments_go_and_their_link_first(tmp_path: Path) -> None:
    root = tmp_path / "tensorflow"
    venv(root, "2.9.3-aaaaaaaa")
    venv(root, "2.9.2-bbbbbbbb")
    (root / "current").symlink_to("2.9.3-aaaaaaaa")
    assert len(venv_place.remove(HOST, str(root))["removed"]) == 2
    assert not root.exists()


def test_somebodys_own_environment_stays_with_its_link(tmp_path: Path) -> None:
    root = tmp_path / "tensorflow"
    venv(root, "2.9.3-aaaaaaaa")
    write(root / "mine" / "bin" / "python")
    (root / "current").symlink_to("mine")
    venv_place.remove(HOST, str(root))
    assert left(root) == ["current", "mine", "mine/bin", "mine/bin/python"]


@pytest.mark.parametrize("more", ["wheel", "file"])
def test_an_environment_with_more_in_it_is_kept_under_another_name(
    tmp_path: Path, more: str
) -> None:
    root = tmp_path / "tensorflow"
    place = venv(root, "2.9.3-aaaaaaaa", *(["my_models-1.0"] if more == "wheel" else []))
    if more == "file":
        write(place / "weights.h5")
    write(root / "2.9.3-aaaaaaaa.save" / "earlier")
    result = venv_place.remove(HOST, str(root))
    kept = root / "2.9.3-aaaaaaaa.save.1"
    assert result["kept"] == [str(kept)]
    assert (kept / "lib").is_dir()
    # Without its mark it is nobody's to remove.
    assert venv_place.remove(HOST, str(root)) == {"changed": False, "removed": [], "kept": []}


def test_a_removal_of_environments_that_was_cut_off_goes_on(tmp_path: Path) -> None:
    root = tmp_path / "tensorflow"
    write(root / (venv_trust.REMOVING + "2.9.3-aaaaaaaa") / "lib" / "x")
    assert venv_place.remove(HOST, str(root))["changed"]
    assert not root.exists()
