"""roles/cuda/files/nvidia_sources.py: what it finds, puts aside and leaves; as the look sees it."""

from __future__ import annotations

import ast
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_stack.components.cuda import nvidia_cuda
from gpu_stack.host.context import Context

ROLE = Path(__file__).parents[2] / "roles" / "cuda"
SCRIPT = ROLE / "files" / "nvidia_sources.py"
spec = importlib.util.spec_from_file_location("nvidia_sources", SCRIPT)
assert spec is not None
assert spec.loader is not None
script: Any = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)

URL = "https://mirror.example.org/cuda/ubuntu2004"
NVIDIA = "https://developer.download.nvidia.com/compute"
DEBIAN = "deb http://deb.debian.org/debian bullseye main\n"
LISTS = "/etc/apt/sources.list.d/"

# name of the case: ({file: text}, files that are stale)
CASES: dict[str, tuple[dict[str, str], list[str]]] = {
    "nothing of NVIDIA's": ({"/etc/apt/sources.list": DEBIAN}, []),
    "ours": ({LISTS + "provision-cuda.sources": f"Types: deb\nURIs: {URL}\nSuites: /\n"}, []),
    "the keyring package's list and pin": (
        {
            LISTS + "cuda-ubuntu2004-x86_64.list": f"deb [signed-by=/k.gpg] {URL} /\n",
            nvidia_cuda.PIN: "Package: *\n",
        },
        [LISTS + "cuda-ubuntu2004-x86_64.list", nvidia_cuda.PIN],
    ),
    "lines among others": (
        {"/etc/apt/sources.list": f"{DEBIAN}# deb {NVIDIA}/x /\ndeb {NVIDIA}/cuda/repos/a /\n"},
        ["/etc/apt/sources.list"],
    ),
    "machine learning": (
        {LISTS + "ml.list": f"deb {NVIDIA}/machine-learning/repos/ubuntu2004/x86_64 /\n"},
        [LISTS + "ml.list"],
    ),
    "a local repository": (
        {LISTS + "x.list": "deb file:///var/cuda-repo-ubuntu2004-11-2-local /\n"},
        [LISTS + "x.list"],
    ),
    "by its name alone": (
        {LISTS + "nvidia-ml.list": "deb https://old.example.org/ml /\n"},
        [LISTS + "nvidia-ml.list"],
    ),
    "commented out": ({LISTS + "cuda.list": f"# deb {URL} /\n"}, []),
    "a slash more": ({LISTS + "m.list": f"deb {URL}/ /\n"}, [LISTS + "m.list"]),
    "deb822": (
        {LISTS + "n.sources": f"Types: deb\nURIs: {NVIDIA}/cuda/repos/a\n  {URL}\nSuites: /\n"},
        [LISTS + "n.sources"],
    ),
    "deb822, switched off": (
        {LISTS + "n.sources": f"Enabled: no\nTypes: deb\nURIs: {URL}\nSuites: /\n"},
        [],
    ),
    "the container toolkit": (
        {LISTS + "c.list": "deb https://nvidia.github.io/libnvidia-container/stable/deb/amd64 /\n"},
        [],
    ),
}


def lay(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(script, "ROOT", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(("files", "expected"), CASES.values(), ids=CASES)
def test_the_script_and_the_look_find_the_same(
    root: Path, files: dict[str, str], expected: list[str]
) -> None:
    lay(root, files)
    assert [path for path, _rest in script.stale(URL)] == expected
    assert nvidia_cuda.stale(Context(root=str(root)), URL) == expected


@pytest.mark.parametrize(("files", "expected"), CASES.values(), ids=CASES)
def test_what_is_put_aside_is_kept_and_no_more_in_the_way(
    root: Path, files: dict[str, str], expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    lay(root, files)
    script.main(["save", URL])
    assert json.loads(capsys.readouterr().out)["stale"] == expected
    for path in expected:
        assert (root / (path + ".provision-saved").lstrip("/")).read_text() == files[path]
    for path in set(files) - set(expected):
        assert (root / path.lstrip("/")).read_text() == files[path]
    assert script.stale(URL) == []


def test_of_a_file_with_more_in_it_only_the_entries_leave(root: Path) -> None:
    mixed = f"Types: deb\nURIs: {URL}\nSuites: /\n\n# mine\nTypes: deb\nURIs: http://x\nSuites: a\n"
    lay(root, {"/etc/apt/sources.list": CASES["lines among others"][0]["/etc/apt/sources.list"]})
    lay(root, {LISTS + "n.sources": mixed})
    script.main(["save", URL])
    assert (root / "etc/apt/sources.list").read_text() == f"{DEBIAN}# deb {NVIDIA}/x /\n"
    rest = (root / (LISTS + "n.sources").lstrip("/")).read_text()
    assert rest.strip() == "# mine\nTypes: deb\nURIs: http://x\nSuites: a"


def test_what_was_put_aside_before_is_not_overwritten(root: Path) -> None:
    for text in ("one", "two", "three"):
        lay(root, {LISTS + "cuda.list": f"deb {URL}/{text} /\n"})
        script.main(["save", URL])
    kept = sorted((root / LISTS.lstrip("/")).glob("*"))
    assert [path.name.removeprefix("cuda.list.provision-saved") for path in kept] == [
        "",
        ".2",
        ".3",
    ]
    assert kept[0].read_text() == f"deb {URL}/one /\n"


def test_another_role_of_this_project_may_name_the_repository(root: Path) -> None:
    text = f"Types: deb\nURIs: {URL}/\nSuites: /\nSigned-By: /usr/share/keyrings/one.asc\n"
    lay(root, {LISTS + "provision-other.sources": text})
    assert script.signed_by(URL) == "/usr/share/keyrings/one.asc"
    assert script.signed_by("https://elsewhere.example.org") is None
    assert script.stale(URL) == []


def test_the_script_is_python_3_7() -> None:
    ast.parse(SCRIPT.read_text("utf-8"), feature_version=(3, 7))


def test_the_roles_tables_are_the_looks() -> None:
    names = yaml.safe_load((ROLE / "vars" / "nvidia.yml").read_text("utf-8"))
    assert script.NVIDIA == nvidia_cuda.NVIDIA
    assert (script.NAMES, script.PIN) == (nvidia_cuda.NAMES, nvidia_cuda.PIN)
    assert names["__cuda_driver_names"].strip() == nvidia_cuda.DRIVERS
    assert names["__cuda_key_path"] == nvidia_cuda.KEY
    assert names["__cuda_nvidia_sources_path"] == nvidia_cuda.SOURCES
    assert names["__cuda_low_path"] == nvidia_cuda.LOW
    assert names["__cuda_apt_path"] == nvidia_cuda.APT
    assert names["__cuda_loader_conf"] == nvidia_cuda.LOADER
