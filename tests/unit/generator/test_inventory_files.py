"""Which files of an inventory count, as in a run, and in which of them a word stands."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from provision import cli, run
from provision import lock as locks
from provision.cli.commands.render import _sources_from
from provision.cli.projects import read_fleet
from provision.errors import InputError
from provision.inventory import Fleet
from provision.inventory.sources import Sources
from tests.unit.generator import recorded

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


INLINE = """\
gpu:
  hosts: {a: }
  children:
    old: {hosts: {o1: }, vars: {gpu_stack: {tensorflow: "2.9"}}}
"""


def test_a_parents_file_that_beats_its_childs_vars_is_refused(tmp_path: Path) -> None:
    """Ansible reads group_vars/ after all `vars:`: 2.9 was locked, and a run took 2.14 for o1."""
    newer = 'gpu_stack: {tensorflow: "2.14"}\n'
    files = {"lab/hosts.yml": INLINE, "lab/group_vars/gpu.yml": newer}
    with pytest.raises(InputError, match="Ansible gives o1 another gpu_stack than") as caught:
        fleet(project(tmp_path / "1", files))
    assert caught.value.where.endswith("lab/hosts.yml:4")
    assert caught.value.got == 'old: {"tensorflow": "2.9"}; Ansible: {"tensorflow": "2.14"} of gpu'
    assert "group_vars/old.yml" in caught.value.hint
    everyone = {"lab/hosts.yml": INLINE, "lab/group_vars/all.yml": newer}
    with pytest.raises(InputError, match="another gpu_stack"):
        fleet(project(tmp_path / "2", everyone))
    # A folder beside the playbook comes after that of the inventory.
    beside = {"lab/hosts.yml": "gpu: {children: {old: {hosts: {o1: }}}}\n"}
    beside |= {"lab/group_vars/old.yml": WISH, "group_vars/gpu.yml": newer.replace(".14", ".12")}
    with pytest.raises(InputError, match="another gpu_stack"):
        fleet(project(tmp_path / "3", beside))
    del beside["group_vars/gpu.yml"]
    beside["group_vars/all.yml"] = "gpu_platform: debian12\n"
    beside["lab/hosts.yml"] = (
        "gpu: {children: {old: {hosts: {o1: }, vars: {gpu_platform: debian11}}}}"
    )
    with pytest.raises(InputError, match="another gpu_platform"):
        fleet(project(tmp_path / "4", beside))


def test_a_childs_file_that_beats_its_parent_is_asked_of_ansible_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And where no group overrides another, Ansible is asked for the export alone."""
    asked = []
    real = subprocess.run
    monkeypatch.setattr(
        "provision.inventory.export.subprocess.run",
        lambda words, **more: asked.append(words) or real(words, **more),
    )
    files = {"lab/hosts.yml": INLINE, "lab/group_vars/old.yml": 'gpu_stack: {tensorflow: "2.12"}\n'}
    assert fleet(project(tmp_path / "1", files)).hosts["o1"].tensorflow == "2.12"
    assert len(asked) == 1
    files["lab/group_vars/gpu.yml"] = WISH + "gpu_platform: debian12\n"
    files["lab/group_vars/old.yml"] += "gpu_platform: debian11\n"
    found = fleet(project(tmp_path / "2", files))
    assert {host: wish.tensorflow for host, wish in found.hosts.items()} == {
        "a": "2.9",
        "o1": "2.12",
    }
    assert len(asked) == 3


COMPOSED = """\
plugin: ansible.builtin.constructed
strict: true
compose:
  gpu_stack: "{'tensorflow': '2.9', 'packages': ['pandas']}"
  gpu_platform: "'debian12'"
  tensorflow_root: "'/opt/' ~ inventory_hostname"
"""


def composed(folder: Path, text: str = COMPOSED) -> Path:
    return project(folder, {"lab/hosts.yml": "gpu: {hosts: {a: }}\n", "lab/zz.yml": text})


def test_what_an_inventory_plugin_sets_is_read_as_text(tmp_path: Path) -> None:
    """Ansible's export marks each of its strings; they were refused as marked !unsafe."""
    found = fleet(composed(tmp_path))
    assert found.hosts["a"].literal == {"tensorflow": "2.9", "packages": ["pandas"]}
    assert found.facts["a"].platform == "debian12"


def test_a_text_that_ansible_never_templates_is_judged_as_it_stands(tmp_path: Path) -> None:
    braces = "\"'{' ~ '{ version }' ~ '}'\""
    files = composed(tmp_path / "1", COMPOSED.replace("'2.9'", "'{' ~ '{ version }' ~ '}'"))
    with pytest.raises(InputError, match="tensorflow is not a version"):
        fleet(files)
    text = f"{COMPOSED}  tensorflow_state: {braces}\n"
    with pytest.raises(InputError, match="tensorflow_state: "):
        fleet(composed(tmp_path / "2", text))
    written = 'gpu: {hosts: {a: }, vars: {gpu_stack: {tensorflow: !unsafe "{{ x }}"}}}\n'
    with pytest.raises(InputError, match="tensorflow is not a version"):
        fleet(project(tmp_path / "3", {"lab/hosts.yml": written}))


def test_a_long_list_of_hosts_is_no_path(tmp_path: Path) -> None:
    """Its length was an error of the file system: File name too long."""
    hosts = [f"gpu{number:03}.example.org" for number in range(20)]
    listed = ",".join(hosts)
    project(tmp_path, {"group_vars/all.yml": WISH})
    assert run.inventory_sources(tmp_path, [listed]) == [listed]
    assert list(fleet(tmp_path, listed).hosts) == hosts
    assert _sources_from(tmp_path, [listed]) == f"-i {listed}"


@pytest.mark.parametrize("source", ["~no-such-user/lab", "nowhere", "n" * 300, ""])
@pytest.mark.parametrize(
    "resolve", [fleet, lambda *given: run.inventory_sources(given[0], given[1:])]
)
def test_what_is_neither_a_path_nor_a_list_is_no_such_inventory(
    tmp_path: Path, source: str, resolve: Callable[..., object]
) -> None:
    with pytest.raises(InputError, match="there is no such inventory") as caught:
        resolve(tmp_path, source)
    assert caught.value.where == (source or "-i ''")


def test_a_word_means_one_inventory_to_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`plan -i lab` found the project's from outside of it; `lock` and `render` did not."""
    hosts = 'gpu: {hosts: {%s: }, vars: {gpu_stack: {tensorflow: "2.9"}}}\n'
    files = {"p/lab/hosts.yml": hosts % "a", "home/mine.yml": hosts % "b", "here.yml": hosts % "c"}
    project(tmp_path, files)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    ours = Path("p")
    found = {"lab": "p/lab", "~/mine.yml": "home/mine.yml", "here.yml": "here.yml"}
    assert run.inventory_sources(ours, [*found]) == [
        str(tmp_path / path) for path in found.values()
    ]
    for source, host in zip(found, "abc", strict=True):
        assert list(fleet(ours, source).hosts) == [host]
    assert _sources_from(ours, [*found]) == "-i lab -i ../home/mine.yml -i ../here.yml"


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
    assert sources.where("cuda_hold", near="") == ""


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


def test_what_one_host_needs_and_wishes_away_has_its_place_in_its_own_file(tmp_path: Path) -> None:
    files = {
        "lab/hosts.yml": "gpu: {hosts: {gpu01: , gpu02: }}\n",
        "lab/group_vars/gpu.yml": WISH,
        # The first is as it should be: TensorFlow goes as well.
        "lab/host_vars/gpu01.yml": "cuda_state: absent\ntensorflow_state: absent\n",
        "lab/host_vars/gpu02.yml": "---\ncuda_state: absent\n",
    }
    declared = fleet(project(tmp_path, files))
    with pytest.raises(InputError) as caught:
        locks.check_fits(recorded.lock(), declared, where="lock.yml")
    assert caught.value.message == "tensorflow of gpu02 does not work without cuda"
    assert caught.value.where.endswith("lab/host_vars/gpu02.yml:2")


def test_what_a_group_wishes_away_has_its_place_in_the_groups_file(tmp_path: Path) -> None:
    files = {
        "lab/hosts.yml": "gpu: {hosts: {gpu01: , gpu02: }}\nold: {hosts: {gpu02: }}\n",
        "lab/group_vars/gpu.yml": WISH,
        "lab/group_vars/old.yml": "cuda_state: absent\n",
        "lab/host_vars/gpu01.yml": "cuda_state: present\n",
    }
    declared = fleet(project(tmp_path, files))
    with pytest.raises(InputError) as caught:
        locks.check_fits(recorded.lock(), declared, where="lock.yml")
    assert caught.value.where.endswith("lab/group_vars/old.yml:1")


def test_a_host_of_unknown_platform_has_it_from_no_file(tmp_path: Path) -> None:
    """`explain --json` named the file of another host, whose platform is declared."""
    files = {
        "lab/hosts.yml": "gpu: {hosts: {gpu01: , gpu02: }}\n",
        "lab/group_vars/gpu.yml": WISH,
        "lab/host_vars/gpu01.yml": "gpu_platform: debian11\ngpu_models: [Tesla T4]\n",
    }
    project(tmp_path, files)
    done = CliRunner().invoke(cli.app, ["explain", "gpu02", "-p", str(tmp_path), "--json"])
    host = json.loads(done.output)
    assert (host["platform"], host["platform_from"], host["gpus_from"]) == (None, "", "")
    assert host["wish_from"].endswith("lab/group_vars/gpu.yml:1")
