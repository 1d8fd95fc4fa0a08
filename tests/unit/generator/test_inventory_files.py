"""Which files of an inventory count, as in a run, and in which of them a word stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision import run
from provision.cli.projects import read_fleet
from provision.errors import InputError
from provision.inventory import Fleet
from provision.inventory.sources import Sources

WISH = 'gpu_stack: {tensorflow: "2.9"}\n'


def project(folder: Path, files: dict[str, str]) -> Path:
    """A project with these files."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def fleet(folder: Path, *sources: str) -> Fleet:
    return read_fleet(folder, list(sources) or None, quiet=True)


def test_group_vars_beside_the_playbook_count_as_in_a_run(tmp_path: Path) -> None:
    """`explain` said "no host has a gpu_stack" of hosts that a run would have changed."""
    files = {"lab/hosts.yml": "gpu: {hosts: {a: }}\n", "group_vars/gpu.yml": WISH}
    assert list(fleet(project(tmp_path, files)).hosts) == ["a"]


def test_a_fault_in_host_vars_beside_the_playbook_has_its_place(tmp_path: Path) -> None:
    files = {"lab/hosts.yml": "gpu: {hosts: {a: }}\n", "host_vars/a.yml": "---\ngpu_stak: {}\n"}
    with pytest.raises(InputError) as caught:
        fleet(project(tmp_path, files))
    assert caught.value.where.endswith("host_vars/a.yml:2")


def test_an_inventory_that_is_a_link_keeps_the_group_vars_beside_the_link(tmp_path: Path) -> None:
    files = {"cmdb/hosts.yml": "gpu: {hosts: {a: }}\n", "p/lab/group_vars/gpu.yml": WISH}
    project(tmp_path, files)
    link = tmp_path / "p/lab/hosts.yml"
    link.symlink_to(tmp_path / "cmdb/hosts.yml")
    assert list(fleet(tmp_path / "p", str(link)).hosts) == ["a"]


def test_a_project_with_a_comma_in_its_name_is_no_list_of_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = 'gpu: {hosts: {a: }, vars: {gpu_stack: {tensorflow: "2.9"}}}\n'
    project(tmp_path / "my,proj", {"lab/hosts.yml": hosts})
    monkeypatch.chdir(tmp_path)
    assert list(fleet(Path("my,proj")).hosts) == ["a"]
    lab = str(tmp_path / "my,proj/lab")
    assert run.inventory_sources(Path("my,proj"), ["my,proj/lab"]) == [lab]
    assert run.inventory_sources(Path("my,proj"), ["a,b"]) == ["a,b"]


def test_the_file_of_a_group_is_not_that_of_a_host_whose_name_begins_like_it() -> None:
    texts = {
        "lab/group_vars/gpu01_spares.yml": "cuda_hold: 1\n",
        "lab/host_vars/gpu01.yml": "---\ncuda_hold: 1\n",
        "lab/group_vars/gpu/main.yml": "---\n---\ncuda_hold: 1\n",
    }
    sources = Sources(texts)
    assert sources.where("cuda_hold", near="gpu01") == "lab/host_vars/gpu01.yml:2"
    assert sources.where("cuda_hold", near="gpu") == "lab/group_vars/gpu/main.yml:3"
    assert sources.where("cuda_hold", near="g") == ""
    assert sources.where("cuda_hold") == "lab/group_vars/gpu01_spares.yml:1"


def test_a_host_may_have_dots_in_its_name() -> None:
    sources = Sources({"lab/host_vars/gpu01.lab": "cuda_hold: 1\n"})
    assert sources.where("cuda_hold", near="gpu01.lab") == "lab/host_vars/gpu01.lab:1"


def test_an_inventory_file_has_a_place_for_each_group_and_host() -> None:
    text = """\
all:
  vars:
    cuda_hold: 0
  children:
    old:
      vars: {cuda_hold: 1}
    new:
      hosts:
        n1:
          cuda_hold: 2
        n2: {}
      vars:
        cuda_hold: 3
"""
    sources = Sources({"lab/hosts.yml": text})
    lines = {name: sources.where("cuda_hold", near=name) for name in ("all", "old", "new", "n1")}
    assert {name: int(place.rpartition(":")[2]) for name, place in lines.items()} == {
        "all": 3,
        "old": 6,
        "new": 13,
        "n1": 10,
    }


def test_an_ini_inventory_has_them_too() -> None:
    text = (
        "[old]\na cuda_hold=1\nab cuda_hold=1\n"
        "[old:vars]\nx=1\ncuda_hold=2\n[new:vars]\ncuda_hold=3\n"
    )
    sources = Sources({"lab/hosts": text})
    lines = {name: sources.where("cuda_hold", near=name) for name in ("a", "ab", "old", "new")}
    assert list(lines.values()) == [f"lab/hosts:{line}" for line in (2, 3, 6, 8)]
