"""How the program ends: closed pipes, signals, full disks, locales that are missing."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from provision import ending, locales, run, tree
from provision.errors import InputError, MachineError

HERE = Path(__file__)
ROOT = HERE.parents[3]
ENVIRONMENT = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200"}
PROGRAM = [sys.executable, "-m", "provision"]


def start(*arguments: str, code: str = "", **settings: str) -> subprocess.Popen[bytes]:
    """The program; `code` runs before it in the same process."""
    command = [sys.executable, "-c", f"{code}\nfrom provision import cli\ncli.main()"]
    return subprocess.Popen(
        [*(command if code else PROGRAM), *arguments],
        cwd=ROOT,
        env={**ENVIRONMENT, **settings},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A shell starts what it runs behind (`make test &`) with Ctrl-C ignored, and so would we.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["explain"], 0),
        (["explain", "--json"], 0),
        (["catalog"], 0),
        (["--help"], 0),
        (["explain", "--help"], 0),
        (["--version"], 0),
        (["explain", "nobody"], 2),
    ],
)
def test_a_reader_that_leaves_is_no_error(arguments: list[str], code: int) -> None:
    """`provision explain | head` had exit code 1; with pipefail a script ended there."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [*PROGRAM, *arguments],
            cwd=ROOT,
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(writing)
    assert done.returncode == code, done.stderr
    assert (b"error: no variable" in done.stderr) == (code == 2)
    assert b"Traceback" not in done.stderr
    assert b"Exception" not in done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_were_closed_before_it_began_are_no_error(closed: str) -> None:
    """Python has None for them, and the next file that is opened gets their number."""
    done = subprocess.run(
        ["sh", "-c", f'"$@" {closed}', "sh", *PROGRAM, "explain", "cuda_state"],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert (b"present" in done.stdout) == (">&-" not in closed.split())


def test_a_closed_input_is_an_empty_one() -> None:
    """`provision doctor --log - <&-` told of a fault of its own: Python has no stream for it."""
    done = subprocess.run(
        ["sh", "-c", '"$@" <&-', "sh", *PROGRAM, "doctor", "--log", "-"],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"nothing that is known here")


def test_a_full_disk_behind_stdout_is_said() -> None:
    """/dev/full answers every write with ENOSPC."""
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*PROGRAM, "explain"],
            cwd=ROOT,
            env=ENVIRONMENT,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 7, done.stderr
    assert b"No space left on device" in done.stderr
    assert len(done.stderr.splitlines()) <= 3


SLOW_DISK = """
import os, time
def fsync(descriptor):
    os.write(1, b"writing\\n")
    time.sleep(60)
os.fsync = fsync
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_leaves_no_half_written_file(number: signal.Signals, tmp_path: Path) -> None:
    """SIGTERM left `.hosts.yml.123.tmp`."""
    process = start("init", str(tmp_path / "new"), code=SLOW_DISK)
    assert process.stdout is not None
    assert process.stdout.readline() == b"writing\n"
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130, errors
    assert errors in (b"", b"interrupted\n")
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def test_ctrl_c_while_it_is_being_imported_shows_no_traceback(tmp_path: Path) -> None:
    """In the first 0.2 s it was a traceback through half an import."""
    (tmp_path / "typer.py").write_text(
        "import os, time\nos.write(1, b'importing\\n')\ntime.sleep(60)\n"
    )
    process = start("explain", PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert process.stdout is not None
    assert process.stdout.readline() == b"importing\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (130, b"interrupted\n")


def test_the_installed_program_begins_with_those_lines() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    assert 'provision = "provision.__main__:main"' in text


FULL = """
import errno, tempfile
def full(*a, **k):
    raise OSError(errno.ENOSPC, "No space left on device", "/tmp/x")
tempfile.mkdtemp = full
tempfile.NamedTemporaryFile = full
from provision import inventory
inventory.read_export = lambda *a, **k: tempfile.mkdtemp()
"""


def test_a_full_folder_for_temporary_files_is_said(tmp_path: Path) -> None:
    """It was "a fault of provision itself", and that then fell over its own traceback file."""
    (tmp_path / "lab").mkdir()
    process = start("lock", "--project", str(tmp_path), code=FULL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 7, errors
    assert b"No space left on device" in errors
    assert b"TMPDIR" in errors
    assert b"Traceback" not in errors


BUG = """
import errno, tempfile
def full(*a, **k):
    raise OSError(errno.ENOSPC, "No space left on device", "/tmp/x")
tempfile.NamedTemporaryFile = full
from provision import catalog
def bug():
    raise ValueError("ours")
catalog.load = bug
"""


def test_a_fault_of_ours_is_reported_on_a_full_disk_too() -> None:
    process = start("catalog", code=BUG)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert b"a fault of provision itself (ValueError: ours)" in errors


def test_no_folder_for_temporary_files_at_all_is_said() -> None:
    """What `tempfile` raises where neither TMPDIR nor /tmp can be written."""
    error = ending.cause(FileNotFoundError(2, "No usable temporary directory found in ['/tmp']"))
    assert isinstance(error, MachineError)


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, MachineError),
        (errno.EROFS, MachineError),
        (errno.EACCES, InputError),
        (errno.ENAMETOOLONG, InputError),
    ],
)
def test_an_error_of_the_system_names_the_file(number: int, kind: type) -> None:
    error = ending.cause(OSError(number, os.strerror(number), "/a/b"))
    assert type(error) is kind
    assert error.where == "/a/b"


def test_what_may_be_a_fault_of_ours_stays_one() -> None:
    assert ending.cause(ValueError("x")) is None
    assert ending.cause(FileNotFoundError(2, "No such file or directory", "x")) is None


# locales


@pytest.mark.parametrize("name", ["C", "POSIX", "xx_XX.UTF-8", "C.UTF-8"])
def test_ansible_starts_under_any_locale(name: str, tmp_path: Path) -> None:
    """LC_ALL=C gave "Ansible cannot read this inventory", of an inventory without fault."""
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "hosts.yml").write_text(
        "gpu:\n  hosts: {gpu01: {}}\n  vars: {gpu_stack: {tensorflow: '2.9'}}\n"
    )
    process = start("explain", "gpu01", "--project", str(tmp_path), LC_ALL=name, LANG=name)
    out, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (0, b"")
    assert b"TensorFlow 2.9" in out


def test_a_run_gets_the_locale_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locales, "_fallback", lambda: "C.UTF-8")
    assert run.environment(tmp_path)["LC_ALL"] == "C.UTF-8"


def test_the_users_own_locale_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locales, "_fallback", lambda: "")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert run.environment(tmp_path)["LC_ALL"] == "de_DE.UTF-8"


def test_a_machine_without_such_a_locale_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locales, "_is_utf8", lambda _name: False)
    with pytest.raises(MachineError, match="UTF-8 locale"):
        locales._fallback.__wrapped__()


# what is written


def test_a_linked_lock_stays_a_link(tmp_path: Path) -> None:
    """It became a file of its own, and the one that others share was never written again."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "lock.yml").write_text("old")
    link = tmp_path / "lock.yml"
    link.symlink_to("shared/lock.yml")
    tree.write_file(link, b"new")
    assert link.is_symlink()
    assert (tmp_path / "shared" / "lock.yml").read_text() == "new"
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["lock.yml", "lock.yml", "shared"]


def test_a_link_to_a_file_that_is_not_there_yet_is_written_through(tmp_path: Path) -> None:
    link = tmp_path / "lock.yml"
    link.symlink_to(tmp_path / "elsewhere" / "lock.yml")
    tree.write_file(link, b"new")
    assert link.is_symlink()
    assert link.read_bytes() == b"new"


def test_a_file_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "lock.yml"
    path.write_text("old")
    path.chmod(0o640)
    tree.write_file(path, b"new")
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_narrow_terminal_gets_the_catalog_as_a_list() -> None:
    """At 40 columns the table had one letter per line."""
    import pty

    main, side = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, "catalog"],
        cwd=ROOT,
        env={**ENVIRONMENT, "COLUMNS": "40", "TERM": "xterm"},
        stdin=subprocess.DEVNULL,
        stdout=side,
        stderr=subprocess.STDOUT,
    )
    os.close(side)
    text = b""
    limit = time.monotonic() + 60
    while time.monotonic() < limit:
        try:
            part = os.read(main, 65536)
        except OSError:  # EIO: the other side is closed
            break
        if not part:
            break
        text += part
    os.close(main)
    assert process.wait(timeout=30) == 0
    lines = text.decode().replace("\r", "").splitlines()
    assert any(line.startswith("  Debian 11: ") for line in lines)
    assert min(len(line.split()) for line in lines if line.startswith("TensorFlow ")) >= 4
    assert max(map(len, lines)) <= 44
