"""When the loader's cache is rebuilt, and when systemd reads its manager's settings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.host import loader, manager_environment
from gpu_stack.host.context import Context, Result

from tests.collection import altered, module
from tests.host_tree import tree

ANSIBLE = str(Path(sys.executable).parent / "ansible")
CACHE = """\
2 libs found in cache `/etc/ld.so.cache'
\tlibcudnn.so.8 (libc6,x86-64) => /opt/nvidia/cudnn/current/lib64/libcudnn.so.8
\tlibcudnn.so.8 (libc6,x86-64) => /usr/lib/libcudnn.so.8
\tlibcublas.so.11 (libc6,x86-64) => /usr/lib/libcublas.so.11
"""
OURS = "/opt/nvidia/cudnn/current/lib64/libcudnn.so.8"


@pytest.fixture
def host(tmp_path: Path) -> Context:
    """The cache knows three libraries, of which libcublas is gone."""
    root = tree(tmp_path, {OURS: "", "/usr/lib/libcudnn.so.8": ""})
    return Context(root=str(root), runner=lambda _argv: Result(0, CACHE, ""))


@pytest.mark.parametrize(
    ("libraries", "expected"),
    [
        ({"libcudnn.so.8": [OURS, "/elsewhere"]}, []),
        ({"libcudnn.so.8": []}, []),
        ({"libcudnn.so.8": ["/usr/lib/libcudnn.so.8"]}, ["libcudnn.so.8"]),  # the first counts
        ({"libcublas.so.11": []}, ["libcublas.so.11"]),
        ({"libcufft.so.10": []}, ["libcufft.so.10"]),
    ],
)
def test_a_library_that_the_loader_does_not_find_as_wished(
    host: Context, libraries: dict[str, list[str]], expected: list[str]
) -> None:
    assert loader.outdated(host, libraries) == expected


def test_a_directory_whose_libraries_the_cache_does_not_know(host: Context) -> None:
    folder = Path(host.root) / "opt/mine"
    folder.mkdir()
    assert loader.outdated(host, {}, ["/opt/mine", "/opt/gone"]) == []
    (folder / "libmine.so.1").touch()
    assert loader.outdated(host, {}, ["/opt/mine/", "/usr/lib"]) == ["/opt/mine"]


def test_without_a_cache_everything_is_outdated(host: Context) -> None:
    host.run = lambda _argv: Result(1, "", "ldconfig: Can't open cache file")
    libraries: dict[str, list[str]] = {"libcudnn.so.8": []}
    assert loader.outdated(host, libraries, ["/usr/lib"]) == ["libcudnn.so.8", "/usr/lib"]


SAID = """

def outdated(context, libraries, directories=()):
    return [name for name in libraries if name.startswith("lost")]


PROGRAM = {program!r}
"""


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    """The collection with an ldconfig that fails where its file `broken` is there, and counts."""
    program = tmp_path / "ldconfig"
    program.write_text(
        f"#!/bin/sh\n[ ! -e {tmp_path}/broken ] || {{ echo 'no space' >&2; exit 1; }}\n"
        f"echo x >> {tmp_path}/ran\n"
    )
    program.chmod(0o755)
    replaced = {"gpu_stack/host/loader.py": SAID.format(program=str(program))}
    return altered(tmp_path / "collections", replaced)


def test_the_module_rebuilds_the_cache_where_it_is_outdated_or_settings_are_new(
    tmp_path: Path, collection: Path
) -> None:
    def run(options: dict[str, Any], *more: str) -> Any:
        more = (*more, "-e", f"ansible_python_interpreter={sys.executable}")
        return module(ANSIBLE, "loader_cache", options, *more, path=collection)[0]

    ran = tmp_path / "ran"
    assert run({"libraries": {"known": []}})["changed"] is False
    answer = run({"libraries": {"lost": []}}, "--check")
    assert (answer["changed"], answer["outdated"], ran.exists()) == (True, ["lost"], False)
    assert run({"libraries": {"lost": []}})["changed"] is True
    assert run({"renewed": True})["changed"] is True
    assert ran.read_text() == "x\nx\n"
    (tmp_path / "broken").touch()
    assert run({"renewed": True})["msg"] == "ldconfig failed: no space"


# systemd


@pytest.mark.parametrize(
    ("manager", "expected"),
    [
        ("LANG=C A=1 B=two", []),
        ('LANG=C A=1 "B=two"', []),
        ("A=12 B=two", ["A"]),
        ("", ["A", "B"]),
    ],
)
def test_what_units_do_not_get_is_named(manager: str, expected: list[str]) -> None:
    assert manager_environment.unread(manager, [("A", "1"), ("B", "two")]) == expected


MANAGER = """

def look(context):
    context.run = lambda argv: print_to({log!r}, argv)
    return {answer!r}


def print_to(log, argv):
    with open(log, "a") as stream:
        stream.write(" ".join(argv) + "\\n")
    from .context import Result
    return Result({rc}, "", "no bus")
"""


@pytest.mark.parametrize(
    ("answer", "rc", "options", "check", "changed", "ran"),
    [
        ("A=1", 0, {}, False, False, False),
        ("A=2", 0, {}, False, True, True),
        ("A=2", 0, {}, True, True, False),
        ("A=1", 0, {"renewed": True}, False, True, True),
        (None, 0, {"renewed": True}, False, False, False),
        ("A=2", 1, {}, False, None, True),
    ],
)
def test_the_module_makes_systemd_read_its_settings(
    tmp_path: Path,
    answer: str | None,
    rc: int,
    options: dict[str, Any],
    check: bool,
    changed: bool | None,
    ran: bool,
) -> None:
    log = tmp_path / "log"
    text = MANAGER.format(log=str(log), answer=answer, rc=rc)
    path = altered(tmp_path / "c", {"gpu_stack/host/manager_environment.py": text})
    result, _ = module(
        ANSIBLE,
        "manager_environment",
        {"variables": [["A", "1"]], **options},
        *(["--check"] if check else []),
        *("-e", f"ansible_python_interpreter={sys.executable}"),
        path=path,
    )
    if changed is None:
        assert result["msg"] == "systemctl daemon-reexec failed: no bus"
    else:
        assert result["changed"] is changed
    assert (log.read_text() if log.exists() else "") == ("systemctl daemon-reexec\n" if ran else "")
