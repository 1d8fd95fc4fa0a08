"""CUDA from NVIDIA's own packages: what the look sees of its sources, its tree and its compiler."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import converged_host as made
import jinja2
import pytest
from converged_host import ELF, Host
from gpu_stack import room
from gpu_stack.components import nvidia_driver
from gpu_stack.components.cuda import nvidia_cuda
from gpu_stack.components.gpu_env.shell_startup import BEGIN, END
from gpu_stack.host.context import Context

TEMPLATES = Path(__file__).parents[3] / "roles" / "cuda" / "templates"
TREE = "/usr/local/cuda-11.2"
LIB = TREE + "/targets/x86_64-linux/lib"
URL = "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2004/x86_64"
KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nabc\n-----END PGP PUBLIC KEY BLOCK-----\n"
PACKAGES = {
    "cuda-cudart-11-2": "11.2.152-1",
    "cuda-nvcc-11-2": "11.2.152-1",
    "libcusolver-11-2": "11.1.0.152-1",
}
ROW: dict[str, Any] = {
    "release": "11.2",
    "version": "11.2.2",
    "source": "network",
    "packages": {"runtime": PACKAGES, "toolkit": PACKAGES},
    "sonames": {
        "libcudart.so.11.0": "cuda-cudart-11-2",
        "libcusolver.so.11": "libcusolver-11-2",
    },
    "files": {
        "libdevice": {
            "path": TREE + "/nvvm/libdevice/libdevice.10.bc",
            "package": "cuda-nvcc-11-2",
        },
        "ptxas": {"path": TREE + "/bin/ptxas", "package": "cuda-nvcc-11-2"},
    },
    "prefix": TREE,
    "repository": {"url": URL, "suite": "/", "key": KEY, "fingerprints": ["A" * 40]},
}
INSTALLER = {
    "url": "https://mirror/cuda-repo-ubuntu2004-11-2-local_11.2.2-460.32.03-1_amd64.deb",
    "sha256": "b" * 64,
    "key": KEY,
    "fingerprints": ["A" * 40],
    "directory": "/var/cuda-repo-ubuntu2004-11-2-local",
}
LOCAL: dict[str, Any] = {
    **{key: value for key, value in ROW.items() if key != "repository"},
    "source": "local",
    "installer": INSTALLER,
}


def lock(row: dict[str, Any]) -> dict[str, Any]:
    text = copy.deepcopy(made.LOCK)
    stack = text["stacks"]["debian11-small"]
    stack["cuda"] = copy.deepcopy(row)
    stack["gpu_env"]["xla_cuda_data_dir"] = TREE
    return text


def install(host: Host, row: dict[str, Any]) -> None:
    """What the role leaves of this row, beside what is there."""
    host.write(LIB + "/libcudart.so.11.2.152", ELF)
    host.link(LIB + "/libcudart.so.11.0", "libcudart.so.11.2.152")
    host.write(LIB + "/libcusolver.so.11.1", ELF)
    host.link(LIB + "/libcusolver.so.11", "libcusolver.so.11.1")
    host.link(TREE + "/lib64", "targets/x86_64-linux/lib")
    host.write(TREE + "/bin/ptxas", ELF)
    host.write(TREE + "/bin/nvcc.profile", "TOP = x\n")
    host.write(TREE + "/nvvm/libdevice/libdevice.10.bc", b"BC")
    files = {
        "cuda-cudart-11-2": [LIB + "/libcudart.so.11.2.152", LIB + "/libcudart.so.11.0"],
        "libcusolver-11-2": [LIB + "/libcusolver.so.11.1", LIB + "/libcusolver.so.11"],
        "cuda-nvcc-11-2": [
            *(TREE + "/bin/ptxas", TREE + "/bin/nvcc.profile"),
            TREE + "/nvvm/libdevice/libdevice.10.bc",
        ],
    }
    for name, version in PACKAGES.items():
        host.package(name, version, files[name])
    pins = "".join(
        f"\nPackage: {name}\nPin: version {version}\nPin-Priority: 1001\n"
        for name, version in PACKAGES.items()
    )
    host.write("/etc/apt/preferences.d/provision-cuda", pins)
    for path, text in nvidia_cuda.files(row, {}).items():
        if text is not None:
            host.write(path, text)
    host.link("/usr/local/cuda", "/etc/alternatives/cuda")
    host.link("/etc/alternatives/cuda", TREE)
    host.write("/usr/bin/x86_64-linux-gnu-gcc-10", ELF)
    host.link("/usr/bin/gcc-10", "x86_64-linux-gnu-gcc-10")
    host.link("/usr/bin/gcc", "gcc-10")
    host.loader["libcudart.so.11.0"] = TREE + "/lib64/libcudart.so.11.0"
    host.loader["libcusolver.so.11"] = TREE + "/lib64/libcusolver.so.11"
    for path, text in _environment().items():
        host.write(path, text)


def _environment() -> dict[str, str]:
    env = {**made.LOCK["stacks"]["debian11-small"]["gpu_env"], "xla_cuda_data_dir": TREE}
    block = made.gpu_env.block({}, env)
    found = {path: text for path, text in made.gpu_env.files({}, env).items() if text is not None}
    return {**found, "/etc/environment": f"{BEGIN}\n{block}{END}\n"}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    host = made.make(tmp_path)
    install(host, ROW)
    return host


def items(host: Host, row: dict[str, Any] = ROW, **options: Any) -> list[tuple[str, str | None]]:
    changes = host.plan(lock=lock(row), options=options)["changes"]
    return [(change["item"], change["from"]) for change in changes]


def test_a_host_as_the_role_leaves_it_has_an_empty_plan(host: Host) -> None:
    """Debian's own CUDA beside it is in nobody's way, and the version is NVIDIA's."""
    plan = host.plan(lock=lock(ROW), options={})
    assert plan["changes"] == []
    assert plan["state"]["cuda"]["version"] == "11.2.2"


def test_a_host_whose_local_installer_is_gone_has_an_empty_plan(tmp_path: Path) -> None:
    host = made.make(tmp_path)
    install(host, LOCAL)
    assert not host.path(nvidia_cuda.SOURCES).exists()
    assert items(host, LOCAL) == []
    # Nothing is downloaded again only to be kept.
    assert items(host, LOCAL, cuda_installer_keep=True) == []


def test_debians_cuda_is_another_one(tmp_path: Path) -> None:
    """From the platform's packages to NVIDIA's: all is to come, and nothing of Debian's counts."""
    host = made.make(tmp_path)
    plan = host.plan(lock=lock(ROW), options={})
    assert plan["state"]["cuda"]["version"] is None
    found = {change["item"] for change in plan["changes"] if change["component"] == "cuda"}
    assert {*PACKAGES, nvidia_cuda.KEY, nvidia_cuda.SOURCES, "/usr/local/cuda"} <= found


@pytest.mark.parametrize("driver", ["", "# Source: network\n"], ids=["platform", "network"])
def test_nvidias_cuda_goes_where_the_platforms_takes_its_place(tmp_path: Path, driver: str) -> None:
    """Its loader's files would come first; what the driver's repository needs stays."""
    host = made.make(tmp_path)
    paths = [nvidia_cuda.LOADER, nvidia_cuda.LOW]
    more = [nvidia_cuda.APT, nvidia_cuda.SOURCES, nvidia_cuda.KEY]
    for path in [*paths, *more, "/usr/local/cuda-11.8/.provision-packages"]:
        host.write(path, "x\n")
    host.write("/usr/local/cuda-10.1/version.txt", "somebody's\n")
    host.write(
        nvidia_driver.PINS,
        "# Written by provision: the driver stays 470.256.02 on this host.\n" + driver,
    )
    plan = host.plan(lock=made.LOCK, options={})
    found = {
        change["item"]: change["to"] for change in plan["changes"] if change["component"] == "cuda"
    }
    gone = ["/usr/local/cuda-11.8", *paths, *([] if driver else more)]
    assert found == dict.fromkeys(gone)


def _other_libcudart(host: Host) -> None:
    host.write("/opt/other/libcudart.so.11.0", ELF)
    host.loader["libcudart.so.11.0"] = "/opt/other/libcudart.so.11.0"


def _point_elsewhere(host: Host) -> None:
    host.link("/etc/alternatives/cuda", "/usr/local/cuda-11.8")


def _by_hand(host: Host) -> None:
    host.link("/usr/local/cuda", "/usr/local/cuda-10.1")


def _directory(host: Host) -> None:
    host.remove("/usr/local/cuda")
    host.write("/usr/local/cuda/bin/nvcc", ELF)


def _lose_library(host: Host) -> None:
    host.remove(LIB + "/libcusolver.so.11.1")


def _write(path: str, text: str) -> Callable[[Host], None]:
    return lambda host: host.write(path, text)


PIN = "/etc/apt/preferences.d/cuda-repository-pin-600"
STALE = "/etc/apt/sources.list.d/"
DAMAGE: list[tuple[Callable[[Host], None], list[tuple[str, str | None]]]] = [
    (_other_libcudart, [("libcudart.so.11.0", "/opt/other/libcudart.so.11.0")]),
    (_point_elsewhere, [("/usr/local/cuda", "/usr/local/cuda-11.8")]),
    (_by_hand, [("/usr/local/cuda", "a link to /usr/local/cuda-10.1")]),
    (_directory, [("/usr/local/cuda", "a directory")]),
    (_lose_library, [("libcusolver.so.11", "missing")]),
    (_write(nvidia_cuda.KEY, KEY + "x"), [(nvidia_cuda.KEY, "other content")]),
    (lambda host: host.remove(nvidia_cuda.LOADER), [(nvidia_cuda.LOADER, "absent")]),
    (lambda host: host.remove(nvidia_cuda.LOW), [(nvidia_cuda.LOW, "absent")]),
    (_write(nvidia_cuda.APT, ""), [(nvidia_cuda.APT, "other content")]),
    (_write(nvidia_cuda.SOURCES, ""), [(nvidia_cuda.SOURCES, "other content")]),
    (
        _write(STALE + "cuda-ubuntu2004-x86_64.list", f"deb [signed-by=/x.gpg] {URL}/ /\n"),
        [(STALE + "cuda-ubuntu2004-x86_64.list", "in apt's way")],
    ),
    (
        _write(STALE + "graphics.sources", f"Types: deb\nURIs: {URL}\nSuites: /\n"),
        [(STALE + "graphics.sources", "in apt's way")],
    ),
    (
        _write(STALE + "nvidia-ml.list", "deb https://mirror.example.org/ml /\n"),
        [(STALE + "nvidia-ml.list", "in apt's way")],
    ),
    (_write(PIN, "Package: *\n"), [(PIN, "in apt's way")]),
]


@pytest.mark.parametrize(("damage", "expected"), DAMAGE)
def test_damage_is_named(
    host: Host, damage: Callable[[Host], None], expected: list[tuple[str, str | None]]
) -> None:
    damage(host)
    assert items(host) == expected


def test_a_tree_that_is_gone_is_one_change(host: Host) -> None:
    for path in sorted(host.path(TREE).rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    host.path(TREE).rmdir()
    changes = host.plan(lock=lock(ROW), options={})["changes"]
    assert [
        (change["item"], change["from"]) for change in changes if change["component"] == "cuda"
    ] == [(TREE, "missing")]
    assert changes[0]["repair"] == {"cuda_reinstall": sorted(PACKAGES)}


def test_a_source_of_another_role_may_name_the_same_repository(host: Host) -> None:
    """Its key then stands in ours, for apt compares names."""
    key = "/usr/share/keyrings/provision-other.asc"
    text = f"Types: deb\nURIs: {URL}\nSuites: /\nSigned-By: {key}\n"
    host.write("/etc/apt/sources.list.d/provision-other.sources", text)
    assert items(host) == [(nvidia_cuda.SOURCES, "other content")]
    host.write(nvidia_cuda.SOURCES, nvidia_cuda.files(ROW, {}, key)[nvidia_cuda.SOURCES] or "")
    assert items(host) == []


def test_what_an_interrupted_local_installation_left_is_named(tmp_path: Path) -> None:
    host = made.make(tmp_path)
    install(host, LOCAL)
    host.write(INSTALLER["directory"] + "/.provision", INSTALLER["sha256"] + "\n")
    host.write("/var/cache/provision/" + INSTALLER["url"].rsplit("/", 1)[1] + ".part", b"half")
    host.write(nvidia_cuda.SOURCES, "Types: deb\n")
    found = items(host, LOCAL)
    assert found == [
        (nvidia_cuda.SOURCES, "present"),
        (INSTALLER["directory"], "left over"),
        ("/var/cache/provision/" + INSTALLER["url"].rsplit("/", 1)[1] + ".part", "left over"),
    ]
    # A repository that is not ours stays.
    host.remove(INSTALLER["directory"] + "/.provision")
    host.write(INSTALLER["directory"] + "/Release", "")
    assert INSTALLER["directory"] not in [item for item, _from in items(host, LOCAL)]


def test_other_trees_go_only_where_that_is_asked_for(host: Host) -> None:
    host.write("/usr/local/cuda-11.8/.provision-packages", "cuda-cudart-11-8\n")
    host.write("/usr/local/cuda-10.1/bin/nvcc", ELF)  # somebody else's
    assert items(host) == []
    assert items(host, cuda_keep_old=False) == [("/usr/local/cuda-11.8", "installed")]


def _default_gcc(host: Host, major: int) -> None:
    host.write(f"/usr/bin/x86_64-linux-gnu-gcc-{major}", ELF)
    host.link(f"/usr/bin/gcc-{major}", f"x86_64-linux-gnu-gcc-{major}")
    host.link("/usr/bin/gcc", f"gcc-{major}")


def _told(host: Host, major: int) -> None:
    profile = f"TOP = x\n\ncompiler-bindir = {TREE}/host-compiler\n"
    host.write(TREE + "/bin/nvcc.profile.distrib", "TOP = x\n")
    host.write(
        "/var/lib/dpkg/diversions",
        f"{TREE}/bin/nvcc.profile\n{TREE}/bin/nvcc.profile.distrib\n:\n",
    )
    host.write(TREE + "/bin/nvcc.profile", profile)
    for name in ("gcc", "g++"):
        host.write(f"/usr/bin/{name}-{major}", ELF)
        host.link(f"{TREE}/host-compiler/{name}", f"/usr/bin/{name}-{major}")


HOST_COMPILER = "nvcc's host compiler"


def test_a_gcc_that_is_too_new_for_nvcc_is_seen_in_profile_toolkit(host: Host) -> None:
    _default_gcc(host, 11)
    assert items(host) == [(HOST_COMPILER, "gcc 11")]
    assert items(host, cuda_profile="runtime") == []
    assert items(host, cuda_host_compiler="none") == []
    _told(host, 10)
    assert items(host) == []
    host.remove("/usr/bin/g++-10")
    assert items(host) == [(HOST_COMPILER, "gcc 11")]
    _told(host, 11)
    assert items(host) == [(HOST_COMPILER, "gcc 11")]


def test_the_key_of_debians_archive_is_not_nvidias_matter(host: Host) -> None:
    """The role could not bring it back here; it is the platform's CUDA that comes from there."""
    key = "/usr/share/keyrings/debian-archive-keyring.gpg"
    host.write(key, "key")
    host.package("debian-archive-keyring", "2021.1.1", [key])
    host.remove(key)
    assert items(host) == []


def test_no_gcc_at_all_is_one_that_nvcc_cannot_call(host: Host) -> None:
    host.remove("/usr/bin/gcc")
    assert items(host) == [(HOST_COMPILER, None)]


def test_a_gcc_can_be_asked_for(host: Host) -> None:
    assert items(host, cuda_host_compiler="9") == [(HOST_COMPILER, "gcc 10")]
    _told(host, 9)
    assert items(host, cuda_host_compiler="9") == []
    assert items(host) == []


@pytest.mark.parametrize(
    ("release", "gcc"),
    [
        ("11.0", 9),
        ("11.1", 10),
        ("11.2", 10),
        ("11.5", 11),
        ("11.8", 11),
        ("12.4", 13),
        ("13.1", 15),
    ],
)
def test_each_release_takes_gcc_up_to_one(release: str, gcc: int) -> None:
    assert nvidia_cuda.newest_gcc(release) == gcc


OPTIONS: list[dict[str, Any]] = [
    {},
    {"cuda_ca_bundle": "/etc/ssl/lab.pem", "cuda_installer_keep": True},
    {"cuda_repository_url": "https://mirror.example.org:8443/cuda/"},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("row", [ROW, LOCAL], ids=["network", "local"])
def test_files_are_the_templates(options: dict[str, Any], row: dict[str, Any]) -> None:
    environment = jinja2.Environment(  # noqa: S701  no HTML
        loader=jinja2.FileSystemLoader(TEMPLATES), trim_blocks=True, keep_trailing_newline=True
    )
    url = nvidia_cuda.url(row, options)
    host = url.split("/")[2].split(":")[0]
    for path, text in nvidia_cuda.files(row, options).items():
        if text is None or path == nvidia_cuda.KEY:
            continue
        rendered = environment.get_template(path.lstrip("/") + ".j2").render(
            __cuda_repository_bare=url,
            __cuda_repository_suite="/",
            __cuda_in_the_way={"signed_by": None},
            __cuda_key_path=nvidia_cuda.KEY,
            __cuda_driver_names=nvidia_cuda.DRIVERS,
            __cuda_origin_host=host,
            __cuda_prefix=TREE,
            cuda_ca_bundle=options.get("cuda_ca_bundle", ""),
            cuda_source=row["source"],
        )
        assert text == rendered, path


def test_two_keys_for_one_repository_stop_no_run_that_puts_one_aside(host: Host) -> None:
    path = "/etc/apt/sources.list.d/cuda.list"
    host.write(path, f"deb {URL} /\n")
    plan = host.plan(lock=lock(ROW), options={})
    assert [change["item"] for change in plan["changes"]] == [path]
    assert [blocker["id"] for blocker in plan["blockers"] if blocker["id"] == "signed-by"] == []
    # Two strangers' entries are theirs to settle.
    for name, key in (("a", "/a.gpg"), ("b", "/b.gpg")):
        text = f"deb [signed-by={key}] https://example.org/x /\n"
        host.write(f"/etc/apt/sources.list.d/{name}.list", text)
    plan = host.plan(lock=lock(ROW), options={})
    assert [blocker["id"] for blocker in plan["blockers"] if blocker["id"] == "signed-by"] == [
        "signed-by"
    ]


def test_the_place_of_nvidias_tree_is_nobody_elses(host: Host) -> None:
    _directory(host)
    host.write("/etc/profile.d/mine.sh", "PATH=/usr/local/cuda/bin:$PATH\n")
    plan = host.plan(lock=lock(ROW), options={})
    assert [blocker["id"] for blocker in plan["blockers"] if blocker["id"] == "unowned-cuda"] == []


@pytest.mark.parametrize("profile", ["toolkit", "runtime"])
def test_room_is_asked_for_where_the_source_needs_it(profile: str) -> None:
    platform = {"distribution": "ubuntu", "release": "20.04"}
    network = room.cuda_needs(platform, profile, "network")
    local = room.cuda_needs(platform, profile, "local")
    assert set(network) == {"/usr", "/var/cache/apt"}
    assert set(local) == {"/usr", "/var", "cuda_installer_directory"}


def test_a_loader_that_is_told_of_another_tree_is_one_change(host: Host) -> None:
    host.write(nvidia_cuda.LOADER, "/usr/local/cuda-11.8/lib64\n")
    _other_libcudart(host)
    assert items(host) == [(nvidia_cuda.LOADER, "other content")]


def test_checksums_that_dpkg_wrote_itself_are_as_good_as_shipped_ones(host: Host) -> None:
    """For a package that brings none it does so, in the moment after its list."""
    path = "/var/lib/dpkg/info/cuda-nvcc-11-2:amd64.md5sums"
    host.date(path, made.INSTALLED + 1)
    assert items(host) == []
    host.date(path, made.INSTALLED + 60)
    assert items(host) == [("cuda-nvcc-11-2 checksums", "changed")]


CUDNN_LINKS = {
    TREE + "/include/cudnn_version.h": made.CUDNN + "/include/cudnn_version.h",
    TREE + "/lib64/libcudnn.so.8.1.0": made.CUDNN + "/lib64/libcudnn.so.8.1.0",
    TREE + "/lib64/libcudnn.so.8": made.CUDNN + "/lib64/libcudnn.so.8",
}


def test_cudnn_can_be_linked_into_the_tree(host: Host) -> None:
    layout = {"cudnn_layout": "cuda"}
    assert {item for item, _from in items(host, **layout)} == set(CUDNN_LINKS)
    for path, target in CUDNN_LINKS.items():
        host.link(path, target)
    host.write(TREE + "/.provision-cudnn", json.dumps(CUDNN_LINKS))
    host.loader["libcudnn.so.8"] = TREE + "/lib64/libcudnn.so.8"
    assert items(host, **layout) == []
    # Another tree or none: what is recorded goes.
    host.loader["libcudnn.so.8"] = "/opt/nvidia/cudnn/current/lib64/libcudnn.so.8"
    assert items(host) == [(path, "link") for path in sorted(CUDNN_LINKS)]
    host.link(TREE + "/lib64/libcudnn.so.8", "/home/lab/libcudnn.so.8")
    assert (TREE + "/lib64/libcudnn.so.8", "/home/lab/libcudnn.so.8") in items(host, **layout)


@pytest.mark.parametrize(("row", "expected"), [(ROW, False), (LOCAL, True)])
def test_room_for_the_installer_is_looked_for_where_there_is_one(
    host: Host, row: dict[str, Any], expected: bool
) -> None:
    here = Context(root=str(host.root), options={}, row={"cuda": row})
    assert ("/var/cache/provision" in room.disk(here)) is expected


def test_the_password_of_a_mirror_stands_in_no_source() -> None:
    """Everybody may read those; apt is given it in a file of its own."""
    options = {"cuda_repository_url": "https://ada:s%40cret@mirror.example.org/cuda/"}
    assert nvidia_cuda.url(ROW, options) == "https://mirror.example.org/cuda"
    assert all("cret" not in (text or "") for text in nvidia_cuda.files(ROW, options).values())
