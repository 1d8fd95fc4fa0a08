"""Environments as wholes: a new one takes the old one's place, or nothing does."""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.components.tensorflow import cuda_links, venv_files, venv_place, venv_trust
from gpu_stack.host import code_users
from gpu_stack.host.context import Context

from tests.mapped import mapped

GPU_STACK = Path(__file__).parents[3] / "plugins" / "module_utils"
FLUSH = venv_place.flush
NAME = "2.9.3-aaaaaaaa"
# This machine need not have it: what leads nowhere is told elsewhere.
PYTHON = "3.9"
IMPORTED = (
    f"import sys; sys.path.insert(0, {str(GPU_STACK)!r}); "
    "from gpu_stack.components.tensorflow import venv_files; "
    "from gpu_stack.host import code_users; "
    "from gpu_stack.host.context import Context"
)
SITE = "lib/python3.9/site-packages"
MARK = '{"format": 1}'
HOST = Context()


def write(path: Path, content: bytes = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.fixture(autouse=True)
def who_tests_is_root(monkeypatch: pytest.MonkeyPatch) -> None:
    real = venv_trust.Owner.__init__

    def tester(self: Any, context: Any) -> None:
        real(self, context)
        self.uid, self.groups = os.getuid(), (0, 50, os.getgid())

    monkeypatch.setattr(venv_trust.Owner, "__init__", tester)
    # Seconds on a disk that others use; one test does it.
    monkeypatch.setattr(venv_place, "flush", lambda _path: None)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "tensorflow"
    path.mkdir(mode=0o755)
    return path


def wheel(site: Path, name: str, files: dict[str, bytes]) -> None:
    rows = []
    for path, content in files.items():
        write(site / path, content)
        rows.append(f"{path},sha256={venv_files.digest(content)},{len(content)}")
    rows.append(f"{name}.dist-info/RECORD,,")
    write(site / f"{name}.dist-info/RECORD", "\n".join([*rows, ""]).encode())


def make(place: Path, *, value: str = "1", mark: bool = True) -> Path:
    """An environment as `venv` and pip leave it; `value` is what its module says."""
    write(place / "bin/activate", f"VIRTUAL_ENV={place}\nPS1='({place.name}) '\n".encode())
    (place / "bin/python3").symlink_to(f"/usr/bin/python{PYTHON}")
    write(place / "requirements.txt", b"numpy==1.26.4 \\\n    --hash=sha256:0\n")
    files = {
        "numpy/__init__.py": f"x = {value}\n".encode(),
        "numpy/core.so": b"\x7fELF" * 2000,
        "../../../bin/f2py": f"#!{place}/bin/python3\nimport numpy\n".encode(),
    }
    wheel(place / SITE, "numpy-1.26.4", files)
    wheel(place / SITE, "pip-20.3.4", {"pip/__init__.py": b""})
    if mark:
        write(place / venv_place.MARKER, MARK.encode())
    return place


def built(root: Path, value: str = "2") -> Path:
    return make(root / (venv_trust.BUILDING + NAME), value=value, mark=False)


def says(venv: Path) -> str:
    return (venv / SITE / "numpy/__init__.py").read_text()


def test_what_was_built_takes_the_place_of_what_was_there(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(venv_place, "flush", FLUSH)
    make(root / NAME)
    built(root)
    assert venv_place.finish(HOST, str(root), NAME, MARK) is None
    assert says(root / NAME) == "x = 2\n"
    assert os.listdir(root) == [NAME]
    assert json.loads((root / NAME / venv_place.MARKER).read_text()) == {"format": 1}


def test_its_programs_name_its_own_place_and_the_records_agree(root: Path) -> None:
    built(root)
    venv_place.finish(HOST, str(root), NAME, MARK)
    venv = root / NAME
    assert (venv / "bin/activate").read_text() == f"VIRTUAL_ENV={venv}\nPS1='({NAME}) '\n"
    assert (venv / "bin/f2py").read_text() == f"#!{venv}/bin/python3\nimport numpy\n"
    assert not [
        path for path in venv.rglob("*") if path.is_file() and b".building" in path.read_bytes()
    ]
    rows = dict(venv_files.records(str(venv / SITE)))[
        str(venv / SITE / "numpy-1.26.4.dist-info/RECORD")
    ]
    content = (venv / "bin/f2py").read_bytes()
    assert ["../../../bin/f2py", "sha256=" + venv_files.digest(content), str(len(content))] in rows
    assert venv_files.problems(str(venv)) == []
    assert venv_files.foreign(str(venv)) == []


def test_a_program_whose_first_line_pip_wrote_is_whole(root: Path) -> None:
    """pip 20.3 keeps the wheel's own hash and size in RECORD, as with jsonpointer 3.0."""
    place = built(root)
    program = place / "bin/jsonpointer"
    rest = b"# -*- coding: utf-8 -*-\nimport jsonpointer\n"
    wheel(place / SITE, "jsonpointer-3.0.0", {"../../../bin/jsonpointer": b"#!python\n" + rest})
    write(place / "requirements.txt", b"numpy==1.26.4\njsonpointer==3.0.0\n")
    assert venv_files.problems(str(place)) == []  # as the wheel has it
    program.write_bytes(f"#!{place}/bin/python3\n".encode() + rest[:-1])
    assert venv_files.problems(str(place)) == ["../../../bin/jsonpointer"]  # cut short
    program.write_bytes(f"#!{place}/bin/python3\n".encode() + rest)
    assert venv_files.problems(str(place)) == []
    venv_place.finish(HOST, str(root), NAME, MARK)
    assert venv_files.foreign(str(root / NAME)) == []
    assert venv_files.problems(str(root / NAME)) == []


def test_the_mark_is_newer_than_every_file(root: Path) -> None:
    """The look reads what is newer than it."""
    built(root)
    venv_place.finish(HOST, str(root), NAME, MARK)
    mark = (root / NAME / venv_place.MARKER).stat().st_mtime_ns
    assert all(
        path.lstat().st_mtime_ns <= mark for path in (root / NAME).rglob("*") if path.is_file()
    )


def test_a_flush_of_the_disk_comes_before_the_mark(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power cut leaves empty files under a whole mark."""
    seen: list[bool] = []
    monkeypatch.setattr(
        venv_place, "flush", lambda path: seen.append((Path(path) / venv_place.MARKER).exists())
    )
    built(root)
    venv_place.finish(HOST, str(root), NAME, MARK)
    assert seen == [False]


@pytest.mark.parametrize(
    "fault", ["a file is gone", "a file is short", "a wheel is gone", "no list"]
)
def test_what_is_not_whole_takes_nobodys_place(root: Path, fault: str) -> None:
    make(root / NAME)
    new = built(root)
    if fault == "a file is gone":
        (new / SITE / "numpy/core.so").unlink()
    elif fault == "a file is short":
        os.truncate(new / SITE / "numpy/core.so", 100)
    elif fault == "a wheel is gone":
        (new / SITE / "numpy-1.26.4.dist-info").rename(new / SITE / "numpy-2.0.2.dist-info")
    else:
        (new / "requirements.txt").unlink()
    with pytest.raises(venv_place.RefusedError, match="is incomplete"):
        venv_place.finish(HOST, str(root), NAME, MARK)
    assert says(root / NAME) == "x = 1\n"
    assert not (new / venv_place.MARKER).exists()


def test_one_that_is_in_use_is_not_replaced_and_nobody_is_ended(root: Path) -> None:
    library = make(root / NAME) / SITE / "numpy/core.so"
    built(root)
    with mapped(library) as job:
        users = code_users.names_of_users(HOST, [str(root / NAME)])
        assert [user.split()[1] for user in users] == [str(job.pid)]
        for act in (
            lambda: venv_place.finish(HOST, str(root), NAME, MARK),
            lambda: venv_place.remove(HOST, str(root)),
        ):
            with pytest.raises(venv_place.RefusedError, match=f"in use by pid {job.pid} "):
                act()
            assert says(root / NAME) == "x = 1\n"
            assert job.poll() is None
    venv_place.finish(HOST, str(root), NAME, MARK)
    assert says(root / NAME) == "x = 2\n"


def test_the_use_of_one_behind_a_link_is_seen(root: Path) -> None:
    """The kernel tells where a file really is."""
    library = make(root / NAME) / SITE / "numpy/core.so"
    link = root.parent / "link"
    link.symlink_to(root)
    with library.open("rb") as stream, mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ):
        code = f"{IMPORTED}; print(code_users.names_of_users(Context(), [{str(link / NAME)!r}]))"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
    assert f"pid {os.getpid()} " in done.stdout


def test_where_the_kernel_does_not_tell_the_command_line_does(root: Path) -> None:
    """Root of a container may not read another one's maps."""
    venv = make(root / NAME)
    (root / "current").symlink_to(NAME)
    for line in (f"{root}/current/bin/python3\0x", f"/usr/bin/python3\0{venv}/bin/f2py\0"):
        assert f"{venv}/bin/" in code_users.started(HOST, line).split("\n")
    assert code_users.started(HOST, "") == ""
    assert code_users.started(HOST, "python3\0bin/x") == ""


MORE = {
    "a wheel": lambda venv: wheel(venv / SITE, "pandas-2.0.3", {"pandas/__init__.py": b"y\n"}),
    "a module": lambda venv: write(venv / SITE / "mine.py"),
    "a folder of modules": lambda venv: write(venv / SITE / "mine/__init__.py"),
    "a .pth": lambda venv: write(venv / SITE / "mine.pth"),
    "a program": lambda venv: write(venv / "bin/train"),
    "a file": lambda venv: write(venv / "weights.h5"),
    "an edited wheel": lambda venv: write(venv / SITE / "numpy/__init__.py", b"x = 'mine'\n"),
    "a module in a wheel": lambda venv: write(venv / SITE / "numpy/mine.py"),
    "a kernel of Jupyter": lambda venv: write(venv / "share/jupyter/kernels/mine/kernel.json"),
    "settings": lambda venv: write(venv / "etc/jupyter/jupyter_server_config.py"),
    "a header": lambda venv: write(venv / "include/python3.9/mine.h"),
    "a manual": lambda venv: write(venv / "man/man1/mine.1"),
    "a library": lambda venv: write(venv / "lib/libmine.so"),
    "a link": lambda venv: (venv / SITE / "numpy/data").symlink_to("/srv/data"),
}


@pytest.mark.parametrize("more", MORE)
def test_what_people_put_into_it_is_kept_beside(root: Path, more: str) -> None:
    venv = make(root / NAME)
    assert venv_files.foreign(str(venv)) == []
    MORE[more](venv)
    assert len(venv_files.foreign(str(venv))) == 1
    write(root / f"{NAME}.save" / "earlier")
    before = sorted(str(path.relative_to(venv)) for path in venv.rglob("*"))
    built(root)
    kept = root / f"{NAME}.save.1"
    assert venv_place.finish(HOST, str(root), NAME, MARK) == str(kept)
    assert says(root / NAME) == "x = 2\n"
    after = sorted(str(path.relative_to(kept)) for path in kept.rglob("*"))
    assert after == [path for path in before if path != venv_place.MARKER]
    assert (root / f"{NAME}.save" / "earlier").exists()


def test_what_venv_pip_and_a_run_write_beside_the_wheels_is_nobodys(root: Path) -> None:
    venv = make(root / NAME)
    (venv / "lib64").symlink_to("lib")
    (venv / "include/python3.9").mkdir(parents=True)
    write(venv / ".gitignore", b"*\n")  # Python 3.13
    write(venv / "share/python-wheels/six-1.16.0-py2.py3-none-any.whl")  # Debian's ensurepip
    dist_info = venv / SITE / "numpy-1.26.4.dist-info"
    for name in ("INSTALLER", "REQUESTED", "direct_url.json"):
        write(dist_info / name)
    for name in ("__pycache__/core.cpython-39.pyc", "__pycache__/kernel.nbi", "old.pyc"):
        write(venv / SITE / "numpy" / name)
    files = {"nvidia/cuda_runtime/lib/libcudart.so.12": b"", "nvidia/cufft/lib/libcufft.so.11": b""}
    wheel(venv / SITE, "nvidia-1", files)
    write(venv / "requirements.txt", b"numpy==1.26.4\nnvidia==1\n")
    assert cuda_links.bring(str(venv / SITE))
    assert venv_files.foreign(str(venv)) == []


@pytest.mark.parametrize("damage", ["a library is cut short", "a file is gone", "a pip was killed"])
def test_damage_alone_is_nobodys_work(root: Path, damage: str) -> None:
    venv = make(root / NAME)
    if damage == "a library is cut short":
        os.truncate(venv / SITE / "numpy/core.so", 10)
    elif damage == "a file is gone":
        (venv / SITE / "numpy/__init__.py").unlink()
    else:
        write(venv / "pip-unpack-x/tensorflow.whl")
        write(venv / SITE / "~umpy/__init__.py")
        write(venv / SITE / "__pycache__/six.cpython-39.pyc")
    assert venv_files.foreign(str(venv)) == []


def test_a_file_that_two_wheels_bring_is_whole_as_either_has_it(root: Path) -> None:
    """Debian's venv seeds pkg_resources, and a setuptools of the lock brings another over it."""
    new = built(root)
    write(new / "requirements.txt", b"numpy==1.26.4\nsetuptools==80.10.2\n")
    wheel(new / SITE, "pkg_resources-0.0.0", {"pkg_resources/__init__.py": b"old\n"})
    wheel(new / SITE, "setuptools-80.10.2", {"pkg_resources/__init__.py": b"newer\n"})
    assert venv_files.problems(str(new)) == []
    assert venv_files.foreign(str(new)) == []
    venv_place.finish(HOST, str(root), NAME, MARK)


STEPS = ("flush", "replace", "rename_texts", "write_mark", "put_in_place", "exchange", "put_away")


class Killed(BaseException):
    """As by SIGKILL: nothing is tidied up."""


@pytest.mark.parametrize("more", [False, True])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_any_step_the_old_or_the_new_is_there_and_one_run_cures(
    root: Path, step: str, when: str, more: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv = make(root / NAME)
    if more:
        write(venv / SITE / "mine.py", b"precious")
    built(root)
    original = getattr(venv_place, step)

    def killed(*arguments: Any) -> None:
        if when == "after":
            original(*arguments)
        raise Killed

    monkeypatch.setattr(venv_place, step, killed)
    with pytest.raises(Killed):
        venv_place.finish(HOST, str(root), NAME, MARK)
    monkeypatch.setattr(venv_place, step, original)
    assert says(venv) in {"x = 1\n", "x = 2\n"}
    assert venv_files.problems(str(venv)) == []
    # The next run.
    venv_place.clean(HOST, str(root))
    built(root, "3")
    venv_place.finish(HOST, str(root), NAME, MARK)
    assert says(venv) == "x = 3\n"
    saved = list(root.glob(f"{NAME}.save*/{SITE}/mine.py"))
    assert len(saved) == int(more)
    assert len(os.listdir(root)) == 1 + int(more)
    assert not venv_place.clean(HOST, str(root))


def test_without_an_exchange_it_takes_two_steps(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(venv_place, "exchange", lambda *_: False)
    write(make(root / NAME) / "weights.h5")
    built(root)
    venv_place.finish(HOST, str(root), NAME, MARK)
    assert sorted(os.listdir(root)) == [NAME, f"{NAME}.save"]
    assert says(root / NAME) == "x = 2\n"


def test_the_exchange_is_one_step_here(tmp_path: Path) -> None:
    write(tmp_path / "a/one")
    write(tmp_path / "b/two")
    assert venv_place.exchange(str(tmp_path / "a"), str(tmp_path / "b"))
    assert os.listdir(tmp_path / "a") == ["two"]


@pytest.mark.parametrize("kind", ["file", "link", "directory without a mark"])
def test_whatever_is_in_its_place_is_kept(root: Path, kind: str) -> None:
    if kind == "file":
        write(root / NAME)
    elif kind == "link":
        (root / NAME).symlink_to("/nowhere")
    else:
        write(root / NAME / "mine")
    built(root)
    assert venv_place.finish(HOST, str(root), NAME, MARK) == f"{root / NAME}.save"
    assert says(root / NAME) == "x = 2\n"


def test_only_others_are_removed_where_some_stay(root: Path) -> None:
    for name in (NAME, "2.8.0-bbbbbbbb", "2.7.0-cccccccc"):
        make(root / name)
    (root / "current").symlink_to(NAME)
    assert venv_place.remove(HOST, str(root), NAME, "2.7.0-cccccccc")["removed"] == [
        str(root / "2.8.0-bbbbbbbb")
    ]
    assert sorted(os.listdir(root)) == ["2.7.0-cccccccc", NAME, "current"]


def test_a_removal_leaves_the_link_to_another_disk(root: Path) -> None:
    make(root / NAME)
    (root / "current").symlink_to(NAME)
    link = root.parent / "link"
    link.symlink_to(root)
    assert venv_place.remove(HOST, str(link))["changed"]
    assert link.is_symlink()
    assert os.listdir(root) == []


# who may write it


def loosen(path: Path) -> None:
    path.chmod(path.stat().st_mode | 0o002)


@pytest.mark.parametrize(
    "place",
    [".", "bin", "bin/activate", "lib", SITE, SITE + "/numpy", "pyvenv.cfg", SITE + "/a.pth"],
)
def test_what_others_may_write_is_reported(root: Path, place: str) -> None:
    venv = make(root / NAME)
    write(venv / "pyvenv.cfg")
    write(venv / SITE / "a.pth")
    assert venv_trust.look(HOST, str(venv), PYTHON) == []
    loosen(venv / place)
    assert venv_trust.look(HOST, str(venv), PYTHON) == [[place, "writable for all"]]


def test_what_another_owns_is_reported(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    venv = make(root / NAME)
    mine = venv_trust.Owner.__init__

    def another(self: Any, context: Any) -> None:
        mine(self, context)
        self.uid = os.getuid() + 1

    monkeypatch.setattr(venv_trust.Owner, "__init__", another)
    items = dict(venv_trust.look(HOST, str(venv), PYTHON))
    assert items[SITE] == f"owned by user {os.getuid()}"
    assert "bin/python3" in items


def test_a_python_that_leads_elsewhere_is_reported(root: Path) -> None:
    venv = make(root / NAME)
    (venv / "bin/python3").unlink()
    (venv / "bin/python3").symlink_to("/bin/true")
    assert venv_trust.look(HOST, str(venv), PYTHON) == [
        ["bin/python3", "leads to " + os.path.realpath("/bin/true")]
    ]


@pytest.mark.parametrize("line", ["{}", "{}/lib", "# {}\n{}"])
def test_a_pth_that_leads_to_others_is_reported(root: Path, line: str) -> None:
    venv = make(root / NAME)
    write(
        venv / SITE / "a.pth", f"import os; x = 1\n{line.format(root, root)}\n\n/nowhere\n".encode()
    )
    (root / "lib").mkdir()
    assert venv_trust.look(HOST, str(venv), PYTHON) == []
    loosen(root)
    why = f"leads to others: {root} is writable for all"
    assert venv_trust.look(HOST, str(venv), PYTHON) == [[SITE + "/a.pth", why]]


def test_a_link_is_trusted_where_its_whole_way_is_roots(tmp_path: Path) -> None:
    disk = tmp_path / "disk" / "tf"
    disk.mkdir(parents=True)
    link = tmp_path / "tensorflow"
    link.symlink_to(disk)
    assert venv_trust.parents(HOST, str(link)) is None
    disk.parent.chmod(0o777)
    assert venv_trust.parents(HOST, str(link)) == f"{disk.parent} is writable for all"
    disk.parent.chmod(0o755)
    disk.chmod(0o777)
    assert venv_trust.parents(HOST, str(link)) == f"{disk} is writable for all"


def test_a_root_that_others_may_write_is_repaired_and_its_parents_are_not(tmp_path: Path) -> None:
    root = tmp_path / "a" / "tensorflow"
    root.mkdir(parents=True)
    root.chmod(0o777)
    assert venv_trust.parents(HOST, str(root)) is None
    root.parent.chmod(0o775)
    assert venv_trust.parents(HOST, str(root)) is None  # a group of root's
    root.parent.chmod(0o777)
    assert venv_trust.parents(HOST, str(root)) == f"{root.parent} is writable for all"


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert "circle" in venv_trust.parents(HOST, str(tmp_path / "a"))


@pytest.mark.parametrize("place", ["requirements.txt", SITE + "/numpy-1.26.4.dist-info/RECORD"])
def test_a_fifo_holds_nobody_up(root: Path, place: str) -> None:
    venv = make(root / NAME)
    (venv / place).unlink()
    os.mkfifo(venv / place)
    code = f"{IMPORTED}; venv_files.foreign({str(venv)!r})"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
