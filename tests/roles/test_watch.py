"""run_lock/watch.py of module_utils: what it makes of the traces that long steps leave on a disk.

The traces are as apt 2.2, dpkg 1.20, DKMS 2.8 and pip 20.3 of Debian 11 left them.
"""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import Any

import pytest

from tests.collection import RUN_LOCK, loaded

SCRIPT = RUN_LOCK / "watch.py"
watch = loaded(SCRIPT, "provision_watch_under_test")

ARCHIVES = "var/cache/apt/archives"
VENV = "opt/tensorflow/2.9.3-444c500c"


@pytest.fixture
def host(tmp_path: Path) -> Path:
    for folder in (f"{ARCHIVES}/partial", "var/log", "proc", "var/lib/dkms", "root", "home/lab"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / ARCHIVES / "old_1_amd64.deb").write_bytes(b"x" * 1000)
    (tmp_path / "var/log/dpkg.log").write_text("2026-11-21 10:00:00 configure old:amd64 1 <none>\n")
    return tmp_path


def put(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        stream.truncate(size)


def log(host: Path, *lines: str) -> None:
    with (host / "var/log/dpkg.log").open("a") as stream:
        stream.writelines(f"2026-11-21 14:48:41 {line}\n" for line in lines)


def test_a_host_at_rest_has_nothing_to_tell(host: Path) -> None:
    look = watch.Watch(str(host))
    assert look() is None
    assert look() is None


def test_a_host_without_any_of_these_places_has_nothing_to_tell(tmp_path: Path) -> None:
    assert watch.Watch(str(tmp_path))() is None


def test_packages_on_their_way_are_counted_from_where_the_run_began(host: Path) -> None:
    look = watch.Watch(str(host))
    put(host / ARCHIVES / "partial" / "libcublas11_11.4_amd64.deb", 5000)
    assert look() == {"phase": "download", "text": "downloading packages", "bytes": 5000}
    assert look() is None
    put(host / ARCHIVES / "libcublas11_11.4_amd64.deb", 9000)
    (host / ARCHIVES / "partial" / "libcublas11_11.4_amd64.deb").unlink()
    assert look() == {"phase": "download", "text": "downloading packages", "bytes": 9000}


PRINTED = """\
'http://deb.example/cuda-dev.deb' nvidia-cuda-dev_11.2.2-3_amd64.deb 7000 SHA256:ab
'http://deb.example/cufft.deb' libcufft10_11_amd64.deb 3000 SHA256:cd
"""
COMMAND = (
    "/usr/bin/apt-get -y -o Dpkg::Options::=--force-confdef -o DPkg::Lock::Timeout=600 install "
    "libcufft10=11.1.1+~10.4-3+deb11u3 nvidia-cuda-dev=11.2.2-3 -o APT::Install-Recommends=no"
)


class Apt:
    """Stands for apt-get --print-uris: remembers what it was asked."""

    def __init__(self, returncode: int = 0) -> None:
        self.asked, self.returncode = [], returncode

    def __call__(self, argv: list[str], stdout: Any, **_more: Any) -> Apt:
        self.asked.append(argv)
        stdout.write(PRINTED.encode())
        return self

    def poll(self) -> int:
        return self.returncode


def running(host: Path, command: str, pid: str = "4711") -> None:
    (host / "proc" / pid).mkdir(parents=True)
    (host / "proc" / pid / "cmdline").write_bytes("\0".join(command.split()).encode() + b"\0")


def look_of_apt(host: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Apt]:
    """(what looks at the host, on which `command` is at work, the apt that it asks)."""
    monkeypatch.setattr(watch, "BELIEVED", os.getuid())
    apt = Apt()
    running(host, command)
    return watch.Apt(str(host), apt), apt


def test_how_much_a_lot_is_comes_from_apt_itself(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, apt = look_of_apt(host, COMMAND, monkeypatch)
    put(host / ARCHIVES / "libc6-dev_2.31_amd64.deb", 500)
    assert look.look() == {
        "phase": "download",
        "text": "downloading packages",
        "bytes": 500,
        "total": 10500,
    }
    put(host / ARCHIVES / "libcufft10_11_amd64.deb", 3000)
    assert look.look()["total"] == 10500
    assert len(apt.asked) == 1
    assert apt.asked[0][:3] == ["apt-get", "--print-uris", "-qq"]
    assert "--no-install-recommends" in apt.asked[0]
    # Nothing but names and versions is taken from another process's line.
    assert apt.asked[0][apt.asked[0].index("install") + 1 :] == [
        "libcufft10=11.1.1+~10.4-3+deb11u3",
        "nvidia-cuda-dev=11.2.2-3",
    ]


@pytest.mark.parametrize(
    "command",
    [
        "apt-get install -o DPkg::Pre-Invoke::=evil",
        "apt-get update",
        "/tmp/apt-get-other install libc6",
        "apt-get install ./local.deb --reinstall",
    ],
)
def test_a_line_without_plain_names_asks_nothing(
    host: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, apt = look_of_apt(host, command, monkeypatch)
    put(host / ARCHIVES / "a_1_amd64.deb", 500)
    assert look.look()["total"] is None
    assert apt.asked == []


def test_the_line_of_an_ordinary_users_process_is_not_believed(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "BELIEVED", os.getuid() + 1)
    apt = Apt()
    look = watch.Apt(str(host), apt)
    running(host, COMMAND)
    put(host / ARCHIVES / "a_1_amd64.deb", 500)
    look.look()
    assert apt.asked == []


def test_an_apt_that_refuses_gives_no_total(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "BELIEVED", os.getuid())
    look = watch.Apt(str(host), Apt(returncode=100))
    running(host, COMMAND)
    put(host / ARCHIVES / "a_1_amd64.deb", 500)
    assert look.look()["total"] is None


def test_dpkgs_steps_are_counted_against_the_lot(host: Path) -> None:
    look = watch.Watch(str(host))
    for name in ("libcublas11", "libcufft10", "libc-bin"):
        put(host / ARCHIVES / f"{name}_1_amd64.deb", 1000)
    look()
    log(host, "startup archives unpack", "install libcublas11:amd64 <none> 11.4")
    assert look() == {"phase": "install", "text": "unpacking libcublas11, 1 of 3"}
    log(host, "status half-installed libcublas11:amd64 11.4", "upgrade libc-bin:amd64 1 2")
    assert look() == {"phase": "install", "text": "unpacking libc-bin, 2 of 3"}
    log(host, "startup packages configure", "configure libcublas11:amd64 11.4 <none>")
    assert look() == {"phase": "install", "text": "setting up libcublas11, 1 of 3"}
    log(host, "status installed libcublas11:amd64 11.4")
    assert look() is None
    # The next lot is counted for itself.
    put(host / ARCHIVES / "python3.9-venv_1_amd64.deb", 1000)
    assert look() == {"phase": "download", "text": "downloading packages", "bytes": 1000}
    log(host, "startup archives unpack", "install python3.9-venv:amd64 <none> 3.9")
    assert look() == {"phase": "install", "text": "unpacking python3.9-venv, 1 of 1"}


def test_packages_that_were_fetched_before_the_run_have_no_count(host: Path) -> None:
    look = watch.Watch(str(host))
    log(host, "startup archives unpack", "install old:amd64 <none> 1")
    assert look() == {"phase": "install", "text": "unpacking old"}


def test_half_a_line_of_the_log_waits_for_its_end(host: Path) -> None:
    look = watch.Watch(str(host))
    with (host / "var/log/dpkg.log").open("a") as stream:
        stream.write("2026-11-21 14:48:41 install lib")
    assert look() is None
    with (host / "var/log/dpkg.log").open("a") as stream:
        stream.write("cufft10:amd64 <none> 11\n")
    assert look() == {"phase": "install", "text": "unpacking libcufft10"}


def test_a_log_that_was_rotated_is_read_from_its_beginning(host: Path) -> None:
    look = watch.Watch(str(host))
    (host / "var/log/dpkg.log").write_text("2026-12-01 00:00:01 install a:all <none> 1\n")
    assert look() == {"phase": "install", "text": "unpacking a"}


QUIET = """\
  CC [M]  /var/lib/dkms/a.o
  CC [M]  /var/lib/dkms/b.o
  LD [M]  x
"""
# Debian's driver builds with V=1 (535.261.03 on Debian 12, shortened).
VERBOSE = """\
make[1]: Entering directory '/usr/src/linux-headers-6.1.0-56-common'
   gcc-12 -Wp,-MMD,/b/nvidia/.nv.o.d -nostdinc -DMODULE  -c -o /b/nvidia/nv.o /b/nvidia/nv.c   ; \
./tools/objtool/objtool --hacks=jump_label --orc --module /b/nvidia/nv.o
  if nm /b/nvidia/nv.o 2>/dev/null | grep -q __ksymtab; then  gcc-12 -E -D__GENKSYMS__; fi
   gcc-12 -Wp,-MMD,/b/nvidia/.nv-acpi.o.d -DMODULE  -c -o /b/nvidia/nv-acpi.o /b/nvidia/nv-acpi.c
   ld -r -m elf_x86_64 -z noexecstack -o /b/nvidia/nv-interface.o /b/nvidia/nv.o
"""


@pytest.mark.parametrize("printed", [QUIET, VERBOSE], ids=["quiet", "verbose"])
def test_a_kernel_module_is_counted_by_its_objects(host: Path, printed: str) -> None:
    look = watch.Watch(str(host))
    path = host / "var/lib/dkms/nvidia-current/470.256.02/build/make.log"
    put(path, 0)
    assert look() is None
    head = "DKMS make.log for nvidia-current-470.256.02 for kernel 5.10.0-33-amd64 (x86_64)\n"
    path.write_text(head + printed)
    words = "building the kernel module for 5.10.0-33-amd64, 2 objects"
    assert look() == {"phase": "build", "text": words}
    assert look() is None


def test_the_archive_of_cudnn_is_seen_on_its_way_and_unpacked(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_USER", "lab")
    look = watch.Watch(str(host), {"archive": 576_000_000})
    put(host / "home/lab/.ansible/tmp/ansible-tmp-1/source", 20_000)
    assert look() is None  # a module of Ansible's
    put(host / "home/lab/.ansible/tmp/ansible-tmp-2/.source", 353_140_736)
    words = "fetching the cuDNN archive"
    expected = {"phase": "download", "text": words, "bytes": 353_140_736, "total": 576_000_000}
    assert look() == expected
    put(host / "opt/nvidia/cudnn/.staging-5txgrsiw/lib/libcudnn.so.8", 1_000_000)
    assert look() == {"phase": "install", "text": "unpacking cuDNN", "bytes": 1_000_000}


def test_nobody_elses_home_is_looked_into(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's directory may be of a file system that never answers, and the lock hangs on this."""
    monkeypatch.setenv("SUDO_USER", "lab")
    look = watch.Watch(str(host), {})
    put(host / "home/mallory/.ansible/tmp/ansible-tmp-2/.source", 353_140_736)
    assert look() is None


def test_an_archive_that_is_fetched_behind_other_roles_is_seen(host: Path) -> None:
    look = watch.Watch(str(host), {})
    put(host / "var/tmp/provision-cudnn.x1/archive", 353_140_736)
    words = "fetching the cuDNN archive"
    assert look() == {"phase": "download", "text": words, "bytes": 353_140_736}


def test_a_root_of_ones_own_is_looked_at(host: Path) -> None:
    look = watch.Watch(str(host), {"cudnn_root": "/data/cudnn", "tensorflow_root": "/data/tf"})
    put(host / "data/cudnn/.staging-1/a", 10)
    assert look() == {"phase": "install", "text": "unpacking cuDNN", "bytes": 10}


def test_wheels_are_fetched_and_then_installed(host: Path) -> None:
    venv = host / VENV
    site = venv / "lib/python3.9/site-packages"
    for name in ("pip-20.3.4", "setuptools-44.1.1", "pkg_resources-0.0.0"):
        (site / f"{name}.dist-info").mkdir(parents=True)
    (venv / "requirements.txt").write_text(
        "absl-py==2.3.1 \\\n    --hash=sha256:ab\n"
        "Keras.Preprocessing==1.1.2 \\\n"
        "setuptools==80.10.2\n"
    )
    look = watch.Watch(str(host))
    assert look() is None
    put(venv / "pip-unpack-xyz/tensorflow-2.9.3-cp39.whl", 100_000_000)
    expected = {"phase": "download", "text": "downloading wheels", "bytes": 100_000_000}
    assert look() == expected
    assert look() is None
    (site / "absl_py-2.3.1.dist-info").mkdir()
    assert look() == {"phase": "install", "text": "installing wheels, 1 of 3"}
    (site / "Keras_Preprocessing-1.1.2.dist-info").mkdir()
    assert look() == {"phase": "install", "text": "installing wheels, 2 of 3"}
    # It tidies up while it installs; that is no download.
    put(venv / "pip-unpack-xyz/tensorflow-2.9.3-cp39.whl", 50_000_000)
    assert look() is None
    # pip is done: a venv at rest is nobody's business.
    (venv / "pip-unpack-xyz/tensorflow-2.9.3-cp39.whl").unlink()
    (venv / "pip-unpack-xyz").rmdir()
    (site / "six-1.17.0.dist-info").mkdir()
    assert look() is None


def test_its_syntax_is_python_3_7s() -> None:
    ast.parse(SCRIPT.read_text(encoding="utf-8"), feature_version=(3, 7))


def test_it_and_the_holder_make_one_program() -> None:
    """They are sent as one text: no name but the one for types may stand in both."""
    names = [
        {node.name for node in ast.parse(path.read_text()).body if hasattr(node, "name")}
        | {
            target.id
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for path in (SCRIPT, SCRIPT.with_name("hold.py"))
    ]
    assert names[0] & names[1] <= {"TYPE_CHECKING"}
    assert "Watch" in names[0]
    assert "main" in names[1]
