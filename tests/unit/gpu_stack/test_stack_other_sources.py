"""Others' entries for a repository of ours: what is found, put aside and left."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args
from ansible_collections.provision.gpu.plugins.modules import apt_sources
from gpu_stack.components.cuda import nvidia_cuda
from gpu_stack.host import other_sources
from gpu_stack.host.context import Context

from tests.collection import ROOT
from tests.host_tree import tree

URL = "https://mirror.example.org/cuda/ubuntu2004"
NVIDIA = "https://developer.download.nvidia.com/compute"
DEBIAN = "deb http://deb.debian.org/debian bullseye main\n"
LISTS = "/etc/apt/sources.list.d/"
PIN = "/etc/apt/preferences.d/cuda-repository-pin-600"

# name of the case: ({file: text}, files that are stale)
CASES: dict[str, tuple[dict[str, str], list[str]]] = {
    "nothing of NVIDIA's": ({"/etc/apt/sources.list": DEBIAN}, []),
    "ours": ({LISTS + "provision-cuda.sources": f"Types: deb\nURIs: {URL}\nSuites: /\n"}, []),
    "the keyring package's list and pin": (
        {
            LISTS + "cuda-ubuntu2004-x86_64.list": f"deb [signed-by=/k.gpg] {URL} /\n",
            PIN: "Package: *\n",
        },
        [LISTS + "cuda-ubuntu2004-x86_64.list", PIN],
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

TOOLKIT = "https://nvidia.github.io/libnvidia-container/stable"
STANZA = f"Types: deb\nURIs: {TOOLKIT}/deb/amd64\nSuites: /\n"
TOOLKITS: dict[str, tuple[dict[str, str], list[str]]] = {
    "nothing": ({"/etc/apt/sources.list": DEBIAN}, []),
    "ours": ({LISTS + "provision-x.sources": STANZA}, []),
    "the tutorial's": (
        {LISTS + "n.list": f"deb [signed-by=/k.gpg] {TOOLKIT}/deb/amd64 /\n"},
        [LISTS + "n.list"],
    ),
    "a distribution's path": (
        {LISTS + "l.list": f"deb {TOOLKIT}/ubuntu18.04/amd64 /\n"},
        [LISTS + "l.list"],
    ),
    "the mirror's": ({LISTS + "m.list": f"deb {URL}/ /\n"}, [LISTS + "m.list"]),
    "with a password": (
        {LISTS + "m.list": f"deb {URL.replace('//', '//ada:cret@')}/ /\n"},
        [LISTS + "m.list"],
    ),
    "deb822": ({LISTS + "d.sources": STANZA}, [LISTS + "d.sources"]),
    "deb822 without a suite, which stops apt": (
        {LISTS + "d.sources": STANZA.replace("Suites: /\n", "")},
        [LISTS + "d.sources"],
    ),
    "switched off": ({LISTS + "d.sources": f"Enabled: no\n{STANZA}"}, []),
    "the older ones": (
        {LISTS + "o.list": "deb https://nvidia.github.io/nvidia-docker/ubuntu18.04/amd64 /\n"},
        [],
    ),
    "a directory, and a link that leads nowhere": ({LISTS + "dir.list/file": "x"}, []),
}
DOCKERS: dict[str, tuple[dict[str, str], list[str]]] = {
    address: (
        {
            LISTS + "n.list": f"deb {TOOLKIT}/deb/amd64 /\n",
            LISTS + "d.list": f"deb [signed-by=/k.gpg] {address} bookworm stable\n",
            LISTS + "f.list": "deb https://download.docker.com/linux/fedora x stable\n",
        },
        [LISTS + "d.list"],
    )
    for address in (
        "https://download.docker.com/linux/debian",
        "http://download.docker.com/linux/ubuntu/",
        URL,
    )
}
ALL = [
    pytest.param(name, files, expected, id=f"{name}: {case}")
    for name, cases in (("cuda", CASES), ("container_toolkit", TOOLKITS), ("docker", DOCKERS))
    for case, (files, expected) in cases.items()
]


def look(root: Path) -> Context:
    return Context(root=str(root))


@pytest.mark.parametrize(("name", "files", "expected"), ALL)
def test_others_entries_are_found_put_aside_and_no_more_in_the_way(
    tmp_path: Path, name: str, files: dict[str, str], expected: list[str]
) -> None:
    tree(tmp_path, files)
    assert other_sources.stale_files(look(tmp_path), name, URL) == expected
    assert other_sources.put_aside(look(tmp_path), name, URL) == expected
    for path in expected:
        assert (tmp_path / (path + ".provision-saved").lstrip("/")).read_text() == files[path]
    for path in set(files) - set(expected):
        assert (tmp_path / path.lstrip("/")).read_text() == files[path]
    assert other_sources.stale_files(look(tmp_path), name, URL) == []


def test_what_is_no_file_is_passed_over(tmp_path: Path) -> None:
    """A named pipe would hold the run for ever."""
    tree(tmp_path, {LISTS + "cuda.list": f"deb {URL} /\n"})
    folder = tmp_path / LISTS.lstrip("/")
    (folder / "cuda-away.list").symlink_to("nowhere")
    (folder / "cuda-folder.list").mkdir()
    os.mkfifo(folder / "cuda-pipe.list")
    assert other_sources.put_aside(look(tmp_path), "cuda", URL) == [LISTS + "cuda.list"]


def test_a_link_leads_to_the_file_that_is_written(tmp_path: Path) -> None:
    real = tmp_path / "srv/apt.list"
    tree(tmp_path, {"/srv/apt.list": f"{DEBIAN}deb {URL} /\n", LISTS + "x": ""})
    real.chmod(0o640)
    real.with_name("apt.list.provision-new").write_text("of a run that was cut off")
    link = tmp_path / (LISTS + "a.list").lstrip("/")
    link.symlink_to("../../../srv/apt.list")
    other_sources.put_aside(look(tmp_path), "cuda", URL)
    assert link.is_symlink()
    assert real.read_text() == DEBIAN
    assert real.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in real.parent.iterdir()] == ["apt.list"]
    assert "deb " + URL in link.with_name("a.list.provision-saved").read_text()


def test_what_stays_keeps_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "etc/apt/sources.list"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"# \xe9t\xe9\n" + DEBIAN.encode() + f"deb {URL} /\n".encode())
    other_sources.put_aside(look(tmp_path), "cuda", URL)
    assert path.read_bytes() == b"# \xe9t\xe9\n" + DEBIAN.encode()


def test_of_a_file_with_more_in_it_only_the_entries_leave(tmp_path: Path) -> None:
    mixed = f"Types: deb\nURIs: {URL}\nSuites: /\n\n# mine\nTypes: deb\nURIs: http://x\nSuites: a\n"
    tree(
        tmp_path, {"/etc/apt/sources.list": CASES["lines among others"][0]["/etc/apt/sources.list"]}
    )
    tree(tmp_path, {LISTS + "n.sources": mixed})
    other_sources.put_aside(look(tmp_path), "cuda", URL)
    assert (tmp_path / "etc/apt/sources.list").read_text() == f"{DEBIAN}# deb {NVIDIA}/x /\n"
    rest = (tmp_path / (LISTS + "n.sources").lstrip("/")).read_text()
    assert rest.strip() == "# mine\nTypes: deb\nURIs: http://x\nSuites: a"


def test_what_was_put_aside_before_is_not_overwritten(tmp_path: Path) -> None:
    for text in ("one", "two", "three"):
        tree(tmp_path, {LISTS + "cuda.list": f"deb {URL}/{text} /\n"})
        other_sources.put_aside(look(tmp_path), "cuda", URL)
    kept = sorted((tmp_path / LISTS.lstrip("/")).glob("*"))
    assert [path.name.removeprefix("cuda.list.provision-saved") for path in kept] == [
        "",
        ".2",
        ".3",
    ]
    assert kept[0].read_text() == f"deb {URL}/one /\n"


def test_another_role_of_this_project_may_name_the_repository(tmp_path: Path) -> None:
    text = f"Types: deb\nURIs: {URL}/\nSuites: /\nSigned-By: /usr/share/keyrings/one.asc\n"
    tree(tmp_path, {LISTS + "provision-other.sources": text})
    assert other_sources.signed_by(look(tmp_path), "cuda", URL) == "/usr/share/keyrings/one.asc"
    assert other_sources.signed_by(look(tmp_path), "cuda", "https://elsewhere.example.org") is None
    assert other_sources.signed_by(look(tmp_path), "cuda", "") is None
    assert other_sources.stale_files(look(tmp_path), "cuda", URL) == []
    tree(tmp_path, {LISTS + "provision-cuda.sources": text.replace("one.asc", "cuda.asc")})
    (tmp_path / (LISTS + "provision-other.sources").lstrip("/")).unlink()
    assert other_sources.signed_by(look(tmp_path), "cuda", URL) is None


def test_the_roles_tables_are_the_looks() -> None:
    names = yaml.safe_load((ROOT / "roles/cuda/vars/nvidia.yml").read_text("utf-8"))
    assert names["__cuda_driver_names"].strip() == nvidia_cuda.DRIVERS
    assert names["__cuda_key_path"] == nvidia_cuda.KEY
    assert names["__cuda_nvidia_sources_path"] == nvidia_cuda.SOURCES
    assert names["__cuda_low_path"] == nvidia_cuda.LOW
    assert names["__cuda_apt_path"] == nvidia_cuda.APT
    assert names["__cuda_loader_conf"] == nvidia_cuda.LOADER


def ran(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], **options: Any
) -> tuple[int | str | None, dict[str, Any]]:
    """(exit code, result) of the module for this tree."""
    monkeypatch.setattr(apt_sources.other_sources, "Context", lambda: look(root))
    with patch_module_args(options), pytest.raises(SystemExit) as ended:
        apt_sources.main()
    return ended.value.code, json.loads(capsys.readouterr().out)


def test_the_module_only_looks_in_check_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = LISTS + "cuda.list"
    tree(tmp_path, {path: f"deb {URL} /\n"})
    url = URL.replace("//", "//ada:cret@")
    for check in (True, False):
        options = {"repository": "cuda", "url": url, "_ansible_check_mode": check}
        code, result = ran(tmp_path, monkeypatch, capsys, **options)
        assert (code, result["changed"], result["stale"]) == (0, True, [path])
        assert result["signed_by"] is None
        assert "cret" not in json.dumps(result)
        assert (tmp_path / path.lstrip("/")).exists() is check
    _code, result = ran(tmp_path, monkeypatch, capsys, **options)
    assert (result["changed"], result["stale"]) == (False, [])


def test_the_module_says_what_it_could_not_put_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tree(tmp_path, {LISTS + "cuda.list": f"deb {URL} /\n"})

    def refuse(_old: str, new: str) -> None:
        raise PermissionError(13, "Permission denied", new)

    monkeypatch.setattr(os, "rename", refuse)
    code, result = ran(tmp_path, monkeypatch, capsys, repository="cuda")
    assert code == 1
    assert result["msg"].startswith("apt's sources could not be put aside: ")
    assert "cuda.list.provision-saved" in result["msg"]


def test_a_repository_of_nobody_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, result = ran(tmp_path, monkeypatch, capsys, repository="codu")
    assert code == 1
    assert result["msg"] == (
        "no component has a repository codu; there are cuda, container_toolkit, docker"
    )
