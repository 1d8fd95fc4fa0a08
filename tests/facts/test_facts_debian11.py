"""Outputs of real tools on a Debian 11 host with CUDA installed, and what is read from them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from gpu_stack.host import apt, debian_versions, dpkg, loader, platform
from gpu_stack.host.context import Context, run_nothing
from hypothesis import given
from hypothesis import strategies as st

from tests.host_tree import put, tree

DATA = Path(__file__).parent / "debian11"


def recorded(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


def test_os_release() -> None:
    found = platform.os_release(recorded("os-release"))
    assert (found["ID"], found["VERSION_ID"]) == ("debian", "11")
    assert found["PRETTY_NAME"] == "Debian GNU/Linux 11 (bullseye)"


def test_the_loaders_cache() -> None:
    found = loader.parse(recorded("ldconfig-p.txt"))
    assert found["libcusolver.so.11"] == "/usr/lib/x86_64-linux-gnu/libcusolver.so.11"
    assert found["libutil.so.1"] == "/lib/x86_64-linux-gnu/libutil.so.1"  # with an OS ABI in flags
    assert len(found) == len(recorded("ldconfig-p.txt").splitlines()) - 1


def test_the_loaders_cache_first_line_of_the_architecture_wins() -> None:
    text = (
        "4 libs found in cache\n"
        "\tlibcudnn.so.8 (libc6) => /lib32/libcudnn.so.8\n"
        "\tlibcudnn.so.8 (libc6,x86-64) => /opt/first/libcudnn.so.8\n"
        "\tlibcudnn.so.8 (libc6,x86-64) => /usr/lib/libcudnn.so.8\n"
        "\tlibc.so.6 (libc6,AArch64) => /lib/libc.so.6\n"
    )
    assert loader.parse(text) == {"libcudnn.so.8": "/opt/first/libcudnn.so.8"}
    assert loader.parse(text, "aarch64") == {"libc.so.6": "/lib/libc.so.6"}


def test_dpkg_status() -> None:
    packages = dpkg.packages(recorded("dpkg-status.txt"))
    assert sorted(packages) == ["apt", "libc6", "libcusolver11"]
    assert packages["libcusolver11"] == {
        "version": "11.1.1+~11.1.0.152~11.2.2-3+deb11u3",
        "want": "hold",
        "status": "installed",
        "architecture": "amd64",
    }
    assert packages["apt"]["want"] == "install"


def test_dpkg_status_of_other_states_and_architectures() -> None:
    text = (
        "Package: gone\nStatus: deinstall ok config-files\nVersion: 1\nArchitecture: amd64\n\n"
        "Package: half\nStatus: install ok half-configured\nVersion: 1:2-3\nArchitecture: all\n\n"
        "Package: libc6\nStatus: install ok installed\nArchitecture: i386\nVersion: 2.31\n"
    )
    packages = dpkg.packages(text)
    assert sorted(packages) == ["half", "libc6:i386"]
    assert packages["half"]["status"] == "half-configured"


LIST = "/etc/apt/sources.list"


def _sources(tmp_path: Path) -> Context:
    put(tmp_path, LIST, recorded("sources.list"))
    return Context(root=str(tmp_path), runner=run_nothing)


def test_sources_before_and_after_the_role_wrote_its_own(tmp_path: Path) -> None:
    before = apt.apt_entries(_sources(tmp_path))
    assert apt.component_enabled(before, "main")
    assert not apt.component_enabled(before, "non-free")
    name = "provision-debian-nonfree.sources"
    put(tmp_path, f"{LIST}.d/{name}", recorded(name))
    after = apt.apt_entries(Context(root=str(tmp_path), runner=run_nothing))
    assert apt.component_enabled(after, "non-free")
    assert apt.component_enabled(after, "contrib")


@pytest.mark.parametrize(
    "text",
    [
        "# deb http://x bullseye non-free\n",
        "deb-src http://x bullseye non-free\n",
        "deb http://x bullseye-security non-free\n",
        "deb http://x bullseye main # non-free\n",
    ],
)
def test_sources_that_do_not_bring_the_component(tmp_path: Path, text: str) -> None:
    context = _sources(tmp_path)
    put(tmp_path, LIST, text)
    assert not apt.component_enabled(apt.apt_entries(context), "non-free")


def test_a_source_with_options_brings_the_component(tmp_path: Path) -> None:
    context = _sources(tmp_path)
    line = "deb [arch=amd64 signed-by=/k.gpg] http://x bullseye main non-free\n"
    put(tmp_path, LIST, line)
    [entry] = apt.apt_entries(context)
    assert entry["options"] == {"arch": "amd64", "signed-by": "/k.gpg"}
    assert apt.component_enabled([entry], "non-free")


def test_a_disabled_stanza_brings_nothing(tmp_path: Path) -> None:
    context = _sources(tmp_path)
    put(tmp_path, LIST, "")
    text = "Enabled: no\n" + recorded("provision-debian-nonfree.sources")
    put(tmp_path, f"{LIST}.d/x.sources", text.replace("\n\nT", "\nT", 1))
    [entry] = apt.apt_entries(context)
    assert entry["suites"] == ["bullseye", "bullseye-updates"]


def test_the_owner_of_a_file_is_found_across_a_merged_usr(tmp_path: Path) -> None:
    path = "/usr/lib/x86_64-linux-gnu/libcusolver.so.11.1.0.152"
    listed = recorded("libcusolver11.list").replace("/usr/lib", "/lib")
    files = {path: "x", "/var/lib/dpkg/info/libcusolver11:amd64.list": listed}
    root = tree(tmp_path, files, {"/lib": "usr/lib"})
    context = Context(root=str(root), runner=run_nothing)
    assert dpkg.owner(context, path, ["other", "libcusolver11"]) == "libcusolver11"
    assert (
        dpkg.owner(context, "/usr/local/lib/libcusolver.so.11.1.0.152", ["libcusolver11"]) is None
    )


def test_pins() -> None:
    text = (
        "# ours\n\nPackage: a b\nPin: version 1.0\nPin-Priority: 1001\n\n"
        "Package: low\nPin: version 1.0\nPin-Priority: 990\n\n"
        "Package: other\nPin: release n=sid\nPin-Priority: 1001\n"
    )
    assert apt.pins(text) == {"a": "1.0", "b": "1.0"}


# versions

KNOWN = [
    ("1.0", "1.0", 0),
    ("1.0", "1.0-0", 0),
    ("1.0~rc1", "1.0", -1),
    ("1.0", "1.0+b1", -1),
    ("1:0.9", "2.0", 1),
    ("470.256.02-2", "535.309.01-1~deb11u1", -1),
    ("11.2.152~11.2.2-3+deb11u3", "11.2.152~11.2.2-3+deb11u10", -1),
    ("11.1.1+~11.1.0.152~11.2.2-3+deb11u3", "11.1.1+~11.1.0.152~11.2.2-3", 1),
    ("1.a", "1.+", -1),
    ("09", "9", 0),
]


@pytest.mark.parametrize(("a", "b", "expected"), KNOWN)
def test_versions_order_as_in_debian(a: str, b: str, expected: int) -> None:
    assert debian_versions.compare(a, b) == expected
    assert debian_versions.compare(b, a) == -expected


version_text = st.from_regex(r"\A([0-3]:)?[0-9][0-9a-cA~+.]{0,8}(-[0-9a-b~+.]{1,5})?\Z")


@given(version_text, version_text)
def test_versions_order_as_in_python_debian(a: str, b: str) -> None:
    from debian.debian_support import NativeVersion

    left, right = NativeVersion(a), NativeVersion(b)
    assert debian_versions.compare(a, b) == (left > right) - (left < right)


@pytest.mark.skipif(shutil.which("dpkg") is None, reason="dpkg is not on this machine")
@pytest.mark.parametrize(("a", "b", "expected"), KNOWN)
def test_versions_order_as_dpkg_says(a: str, b: str, expected: int) -> None:
    word = {-1: "lt", 0: "eq", 1: "gt"}[expected]
    # 0: the relation holds, 1: it does not
    assert subprocess.run(["dpkg", "--compare-versions", a, word, b], check=False).returncode == 0
