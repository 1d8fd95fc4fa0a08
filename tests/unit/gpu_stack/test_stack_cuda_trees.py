"""What goes with a tree of NVIDIA's CUDA packages: what this program brought, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.provision.gpu.plugins.modules import cuda_tree as module
from gpu_stack import receipt
from gpu_stack.components.cuda import trees
from gpu_stack.host import apt_commands
from gpu_stack.host.context import Context

from plugins.modules import cuda_tree
from tests.unit.gpu_stack import apt_host
from tests.unit.gpu_stack.apt_host import AptHost

RECORD = "cuda-nvcc-11-2\nlibcurand-11-2\ncuda-toolkit-11-config-common\ngone\nhalf\n"
WISHED = ["cuda-toolkit-11-config-common", "cuda-nvcc-11-8"]
FORGET = "update-alternatives --remove cuda"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(trees, "TREES", str(tmp_path / "cuda-*"))
    monkeypatch.setattr(module.trees, "TREES", str(tmp_path / "cuda-*"))
    path = tmp_path / "cuda-11.2"
    (path / "bin").mkdir(parents=True)
    (path / "host-compiler").mkdir()
    (path / "host-compiler/gcc").symlink_to("/usr/bin/gcc-10")
    (path / ".provision-packages").write_text(RECORD)
    (path / "extras/CUPTI/lib64").mkdir(parents=True)
    return path


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> AptHost:
    names = ("cuda-nvcc-11-2", "libcurand-11-2", "cuda-toolkit-11-config-common", "libc6")
    packages = {name: {"version": "1", "status": "installed"} for name in names}
    packages["half"] = {"version": "1", "status": "half-installed"}
    monkeypatch.setattr(Context, "packages", packages)
    noted(monkeypatch)
    return apt_host.install(monkeypatch)


def noted(monkeypatch: pytest.MonkeyPatch, **theirs: str) -> None:
    """The receipt of runs before which these were there; without any, there is none."""
    ledger = {"packages": {"cuda": {"ours": ["cuda-nvcc-11-2"], "theirs": theirs}}}
    files = {receipt.PATH: json.dumps(ledger) + "\n"} if theirs else {}
    monkeypatch.setattr(Context, "read", lambda _self, path: files.get(path))


def settle(*, check_mode: bool = False, **options: Any) -> dict[str, Any]:
    parameters = apt_host.parameters(cuda_tree, **{"packages": WISHED, **options})
    return trees.settle(parameters, check_mode)


def test_of_a_tree_go_its_own_packages_and_those_of_a_wish_stay(host: AptHost, tree: Path) -> None:
    assert settle() == {"changed": True, "removed": [str(tree)]}
    assert host.calls == ["dpkg --purge cuda-nvcc-11-2 libcurand-11-2", f"{FORGET} {tree}"]
    assert not tree.exists()
    assert settle() == {"changed": False, "removed": []}


def test_packages_that_somebody_had_before_stay_and_so_does_their_alternative(
    host: AptHost, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted(monkeypatch, **{"libcurand-11-2": "10.2.3.152-1"})
    (tree / "lib64").mkdir()
    (tree / "lib64/libcurand.so.10").touch()
    settle()
    assert host.calls == ["dpkg --purge cuda-nvcc-11-2"]
    left = sorted(str(path.relative_to(tree)) for path in tree.rglob("*"))
    assert left == ["lib64", "lib64/libcurand.so.10"]


def test_dpkg_is_not_called_without_a_name(host: AptHost, tree: Path) -> None:
    """Without a name it would take whatever it is given."""
    for text in ("gone\n", ""):
        tree.mkdir(exist_ok=True)
        (tree / ".provision-packages").write_text(text)
        settle()
        assert host.ran("dpkg") == []


def test_nvidias_profile_comes_back_before_its_package_goes(host: AptHost, tree: Path) -> None:
    (tree / "bin/nvcc.profile").write_text("ours")
    (tree / "bin/nvcc.profile.distrib").write_text("NVIDIA's")
    settle()
    divert, purge, _forget = host.calls
    assert divert == f"dpkg-divert --local --rename --remove {tree}/bin/nvcc.profile"
    assert purge.startswith("dpkg --purge ")
    assert not (tree / "bin/nvcc.profile").exists()


def test_a_profile_that_is_not_diverted_stays(host: AptHost, tree: Path) -> None:
    (tree / "bin/nvcc.profile").write_text("NVIDIA's")
    settle()
    assert host.ran("dpkg-divert") == []
    assert (tree / "bin/nvcc.profile").read_text() == "NVIDIA's"


def test_the_tree_in_use_others_and_links_stay(host: AptHost, tree: Path) -> None:
    other = tree.with_name("cuda-11.8")
    other.mkdir()
    (tree.with_name("cuda-11")).symlink_to(tree)
    assert settle(keep=f"{tree}/") == {"changed": False, "removed": []}
    assert host.calls == []
    (other / ".provision-packages").write_text("")
    assert settle(keep=str(tree))["removed"] == [str(other)]
    assert tree.exists()


def test_another_dpkg_is_waited_for(
    host: AptHost, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apt_commands.time, "sleep", lambda _seconds: None)
    locked = (2, "", "dpkg: error: dpkg frontend lock was locked by another process with pid 7")
    host.says("dpkg --purge", locked, (0, "", ""))
    assert settle(wait=10)["changed"] is True
    assert len(host.ran("dpkg --purge")) == 2


def test_what_dpkg_refuses_is_said_and_the_record_stays(host: AptHost, tree: Path) -> None:
    host.says("dpkg --purge", (1, "", "dpkg: error processing package cuda-nvcc-11-2\n"))
    with pytest.raises(trees.RefusalError) as refused:
        settle(wait=0)
    assert str(refused.value) == (
        f"dpkg could not remove the packages of {tree}: dpkg: error processing package"
        " cuda-nvcc-11-2 Run again."
    )
    assert (tree / ".provision-packages").exists()


def test_check_mode_names_the_trees_and_does_nothing(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"packages": WISHED, "_ansible_check_mode": True}
    with patch_module_args(options), pytest.raises(SystemExit) as ended:
        module.main()
    result = json.loads(capsys.readouterr().out)
    assert (ended.value.code, result["changed"], result["removed"]) == (0, True, [str(tree)])
    assert (tree / ".provision-packages").read_text() == RECORD
