"""What goes with a tree of NVIDIA's CUDA packages: what this program brought, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.provision.gpu.plugins.modules import cuda_tree as module
from gpu_stack import receipt
from gpu_stack.components.cuda import tree_in_use, trees
from gpu_stack.host import apt_commands
from gpu_stack.host.context import Context

from plugins.modules import cuda_tree
from tests.mapped import mapped
from tests.unit.gpu_stack import apt_host
from tests.unit.gpu_stack.apt_host import AptHost

RECORD = "cuda-nvcc-11-2\nlibcurand-11-2\ncuda-toolkit-11-config-common\ngone\nhalf\n"
WISHED = ["cuda-toolkit-11-config-common", "cuda-nvcc-11-8"]
FORGET = "update-alternatives --remove cuda"
READ = Context.read


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


def test_a_tree_that_a_process_uses_stays_and_so_do_the_others(
    host: AptHost, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job opens libraries when it needs them first, hours after its beginning perhaps."""
    monkeypatch.setattr(Context, "read", READ)  # after `host`, which has no files
    (tree.with_name("cuda-11.0") / "bin").mkdir(parents=True)
    (tree.with_name("cuda-11.0") / ".provision-packages").write_text("")
    library = tree / "extras/CUPTI/lib64/libcupti.so"
    library.write_bytes(bytes(4096))
    with mapped(library) as job:
        with pytest.raises(trees.RefusalError, match=f"{tree} is in use by pid {job.pid} "):
            settle()
        assert settle(check_mode=True)["removed"] == [str(tree.with_name("cuda-11.0")), str(tree)]
    assert host.calls == []
    assert len(trees.recorded()) == 2
    assert settle()["changed"] is True


# the one in use


@pytest.fixture
def links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: AptHost) -> Path:
    """The folder of /usr/local/cuda and /etc/alternatives/cuda, which are not there yet."""
    monkeypatch.setattr(Context, "read", READ)  # after `host`, which has no files
    monkeypatch.setattr(tree_in_use, "LINK", str(tmp_path / "cuda"))
    monkeypatch.setattr(tree_in_use, "ALTERNATIVE", str(tmp_path / "alternative"))
    return tmp_path


def in_use(tree: Path, **options: Any) -> dict[str, Any]:
    return settle(state="present", keep=f"{tree}/", priority=112, **options)


def lead(links: Path, tree: Path) -> None:
    (links / "cuda").symlink_to(links / "alternative")
    (links / "alternative").symlink_to(tree)


def test_a_new_tree_is_recorded_made_known_and_put_in_use(
    tree: Path, links: Path, host: AptHost
) -> None:
    (tree / ".provision-packages").unlink()
    assert in_use(tree)["changed"] is True
    record = tree / ".provision-packages"
    assert record.read_text() == "cuda-nvcc-11-8\ncuda-toolkit-11-config-common\n"
    assert record.stat().st_mode & 0o7777 == 0o644
    calls = [call for call in host.calls if "update-alternatives" in call]
    assert calls == [
        "update-alternatives --query cuda",
        f"update-alternatives --install {links}/cuda cuda {tree} 112",
        f"update-alternatives --force --set cuda {tree}",
    ]


def test_a_tree_in_use_is_left_alone(tree: Path, links: Path, host: AptHost) -> None:
    (tree / ".provision-packages").write_text("".join(f"{name}\n" for name in sorted(WISHED)))
    lead(links, tree)
    host.says("--query cuda", (0, f"Name: cuda\nAlternative: {tree}\nPriority: 112\n", ""))
    assert in_use(tree)["changed"] is False
    assert not host.ran("--install")
    assert not host.ran("--set")


@pytest.mark.parametrize("what", ["another tree", "a file", "nothing"])
def test_a_way_that_leads_elsewhere_is_led_here(
    tree: Path, links: Path, host: AptHost, what: str
) -> None:
    lead(links, tree)
    if what == "another tree":
        (links / "alternative").unlink()
        (links / "alternative").symlink_to(f"{tree}0")
    else:
        (links / "cuda").unlink()
    if what == "a file":
        (links / "cuda").write_text("mine\n")
    host.says("--query cuda", (0, f"Alternative: {tree}\n", ""))
    assert in_use(tree)["changed"] is True
    assert not host.ran("--install")
    assert host.ran(f"--force --set cuda {tree}")


def test_a_known_tree_is_reported_by_its_whole_name(tree: Path, links: Path, host: AptHost) -> None:
    lead(links, tree)
    host.says("--query cuda", (0, f"Alternative: {tree}0\n", ""))
    in_use(tree)
    assert host.ran("--install")


def test_in_check_mode_no_tree_is_touched(tree: Path, links: Path, host: AptHost) -> None:
    assert in_use(tree, check_mode=True)["changed"] is True
    assert (tree / ".provision-packages").read_text() == RECORD
    assert not host.ran("--install")
    assert not host.ran("--set")


def test_what_update_alternatives_refuses_is_reported(
    tree: Path, links: Path, host: AptHost
) -> None:
    host.says("--install", (2, "", "update-alternatives: error: no"))
    message = apt_host.refusal(lambda: in_use(tree))
    assert message == (
        f"update-alternatives could not lead {links}/cuda to this tree: update-alternatives:"
        " error: no"
    )


@pytest.mark.parametrize(
    ("answer", "gcc"), [((0, "10.2.1\n", ""), "10.2.1"), ((127, "", "no such program"), "")]
)
def test_the_platforms_gcc_is_reported(
    tree: Path, links: Path, host: AptHost, answer: tuple[int, str, str], gcc: str
) -> None:
    host.says("gcc -dumpversion", answer)
    assert in_use(tree)["gcc"] == gcc


@pytest.mark.parametrize(
    ("fault", "version"),
    [
        ("", 10),
        ("no line", 0),
        ("a longer line", 0),
        ("no g++", 0),
        ("another g++", 0),
        ("gone", 0),
    ],
)
def test_nvccs_compiler_counts_where_both_are_there_and_its_profile_names_them(
    tree: Path, tmp_path: Path, fault: str, version: int
) -> None:
    compilers = tree / "host-compiler"
    (compilers / "gcc").unlink()
    for name in ("gcc", "g++"):
        number = 9 if (fault, name) == ("another g++", "g++") else 10
        real = tmp_path / f"{name}-{number}"
        if fault != "gone":
            real.write_text("")
        if (fault, name) != ("no g++", "g++"):
            (compilers / name).symlink_to(real)
    line = {"no line": "", "a longer line": f"compiler-bindir = {compilers}-old"}
    text = "TOP = x\n" + line.get(fault, f"compiler-bindir = {compilers}") + "\n"
    (tree / "bin/nvcc.profile").write_text(text)
    assert tree_in_use.profile_compiler(str(tree)) == version
