"""What a user gets wrong, on a real host: one clear message, the documented exit code, and a host
as it was.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import Project
from demo import provision, write_inventory  # the script that `make demo` runs

from provision import locallab
from provision.locallab import cudnn_archive
from provision.locallab.machine import cache_directory

# Rules of the preflight that something here trips: docs/mutants.md.
TRIPS = ("dpkg-interrupted",)
HOST = "refused1"
# Nothing listens there.
CLOSED = "http://127.0.0.1:9"
# Directories without their times: a file that was written and removed again is no difference.
FINGERPRINT = (
    "sudo sh -c \"dpkg-query -W -f '\\${db:Status-Abbrev}\\${Package}=\\${Version}\\n';"
    " find /etc /opt /usr /var/tmp/provision* -xdev -name __pycache__ -prune -o"
    " \\( -type d -printf '%p %m\\n' -o -printf '%p %y %m %U %s %T@ %l\\n' \\) 2>/dev/null | sort\""
)


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry


EVIL = {
    "dotdot": ([member("cuda/../../etc/evil")], "the path 'cuda/../../etc/evil', which leaves"),
    "absolute": ([member("/etc/evil")], "the absolute path '/etc/evil'"),
    "device": (
        [member("cuda/include/null", tarfile.CHRTYPE)],
        "'cuda/include/null', a device or another special file",
    ),
    "symlink": (
        [member("cuda/lib64", tarfile.SYMTYPE, "../../../../etc"), member("cuda/lib64/evil")],
        "the symbolic link 'lib64' to '../../../../etc', which leaves",
    ),
}


def pack(path: Path, members: list[tarfile.TarInfo]) -> str:
    """A small archive that begins like NVIDIA's; its SHA-256."""
    with tarfile.open(path, "w:gz") as tar:
        for entry in [member("cuda/include/cudnn.h"), *members]:
            data = b"evil\n" if entry.isreg() else b""
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """One bare host, known under further names whose wishes name bad archives; one lock."""
    path = tmp_path_factory.mktemp("refusals") / "project"
    path.mkdir()
    lab = locallab.up("test-refusals", state_dir=path / ".lab", hosts=[HOST])
    try:
        archive = cudnn_archive.pack(cache_directory())
        write_inventory(path, lab, archive)
        inventory = lab.inventory("gpu_hosts")
        hosts = inventory["gpu_hosts"]["hosts"]
        wish = {"version": "8.5.0.96", "cuda": "11.2"}
        for name, (members, _said) in EVIL.items():
            sha256 = pack(path / "files" / f"{name}.tgz", members)
            hosts[name] = {
                **hosts[HOST],
                "gpu_stack": {"tensorflow": "2.9", "cudnn": {**wish, "sha256": sha256}},
                "cudnn_controller_file": str(path / "files" / f"{name}.tgz"),
            }
        (path / "lab" / "hosts.yml").write_text(yaml.safe_dump(inventory), "utf-8")
        (path / "empty").mkdir()
        with archive.path.open("rb") as whole:
            (path / "files" / "short.tgz").write_bytes(whole.read(3_000_000))
        (path / "files" / "page.tgz").write_text("<!DOCTYPE html>\n<html>Log in</html>\n", "utf-8")
        for command in (["lock", "--project", str(path)], ["render", str(path)]):
            assert provision(*command) == 0
        yield Project(path, lab)
    finally:
        lab.down()
        shutil.rmtree(path, ignore_errors=True)


def fingerprint(project: Project) -> list[str]:
    return project.ssh(HOST, FINGERPRINT).splitlines()


def flat(done: subprocess.CompletedProcess[str]) -> str:
    """All it printed, however its lines were broken; a traceback is never an answer."""
    text = done.stdout + done.stderr
    assert "Traceback" not in text, text
    return " ".join(text.split())


@contextmanager
def untouched(project: Project) -> Iterator[None]:
    before = fingerprint(project)
    yield
    after = fingerprint(project)
    assert after == before, sorted(set(after) ^ set(before))


def refuse(
    project: Project, *arguments: str, said: str, status: str = "failed", host: str = HOST
) -> dict[str, Any]:
    """`provision apply` is refused by the host or for it, and leaves it as it was."""
    with untouched(project):
        done = project.provision("apply", "-i", "lab", "--limit", host, *arguments)
    text = flat(done)
    assert done.returncode == 4, text
    assert said in text
    found: dict[str, Any] = project.report["hosts"][host]
    assert found["status"] == status, found
    return found


@contextmanager
def on_host(project: Project, do: str, undo: str) -> Iterator[None]:
    """A host spoilt for the time of a test."""
    project.ssh(HOST, f"sudo sh -ec '{do}'")
    try:
        yield
    finally:
        project.ssh(HOST, f"sudo sh -ec '{undo}'")


# archives


@pytest.mark.parametrize("name", sorted(EVIL))
def test_an_archive_that_would_leave_its_place_is_refused(refused: Project, name: str) -> None:
    said = f"the archive holds {EVIL[name][1]}"
    refuse(refused, "--tags", "cudnn", said=said, host=name)
    assert refused.ssh(HOST, "ls /etc/evil", check=False).startswith("ls: cannot access")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("short", "it is cut short after 3000000 bytes: download it again"),
        ("page", "is a web page (36 bytes), not an archive"),
        ("dotdot", "it is another archive, or was changed on its way"),
    ],
)
def test_an_archive_with_another_hash_is_refused(refused: Project, name: str, said: str) -> None:
    path = refused.path / "files" / f"{name}.tgz"
    refuse(refused, "--tags", "cudnn", "-e", f"cudnn_controller_file={path}", said=said)


def test_an_archive_that_the_controller_does_not_have_is_said_before_anything_is_begun(
    refused: Project,
) -> None:
    path = refused.path / "files" / "absent.tgz"
    arguments = ("--tags", "cudnn", "-e", f"cudnn_controller_file={path}")
    said = "the machine that runs Ansible has no such file"
    entry = refuse(refused, *arguments, said=said, status="blocked")
    (blocker,) = entry["blockers"]
    assert "cuDNN 8.5.0.96 for CUDA 11.2" in blocker["hint"]
    assert "SHA-256" in blocker["hint"]


def test_an_archive_that_cannot_be_fetched_is_refused(refused: Project) -> None:
    urls = {"cudnn_controller_file": "", "cudnn_urls": [f"{CLOSED}/cudnn.tgz"]}
    said = f"No address in cudnn_urls gave the archive. {CLOSED}/cudnn.tgz: "
    entry = refuse(refused, "--tags", "cudnn", "-e", json.dumps(urls), said=said)
    assert "Connection refused" in entry["failure"]["message"]


# network and disk


@pytest.mark.parametrize("component", ["nvidia_driver", "cuda", "tensorflow"])
def test_without_a_package_archive_nothing_is_begun(refused: Project, component: str) -> None:
    setting = "/etc/apt/apt.conf.d/99closed"
    with on_host(
        refused, f'echo "Acquire::http::Proxy \\"{CLOSED}\\";" > {setting}', f"rm {setting}"
    ):
        refuse(
            refused, "--tags", component,
            said="apt cannot fetch its package lists",
        )  # fmt: skip


def test_a_full_disk_is_reported_before_anything_is_begun(refused: Project) -> None:
    entry = refuse(
        refused, "--tags", "cudnn,tensorflow",
        *("-e", "cudnn_root=/dev/shm/cudnn", "-e", "tensorflow_root=/dev/shm/tensorflow"),
        said="the disk is too full: 0.3 GB are free where",
        status="blocked",
    )  # fmt: skip
    assert [blocker["id"] for blocker in entry["blockers"]] == ["disk"]


# access


USER = (
    "useradd -m -s /bin/bash {user}; echo {user}:secret | chpasswd;"
    " install -d -m 700 -o {user} /home/{user}/.ssh;"
    " install -m 600 -o {user} /home/lab/.ssh/authorized_keys /home/{user}/.ssh"
)


@pytest.mark.parametrize(
    ("rights", "password", "said"),
    [
        ("", "", "sudo asks the user guest for a password on this host: run with -K"),
        ("guest ALL=(ALL) ALL", "", "sudo asks the user guest for a password on this host"),
        ("guest ALL=(ALL) ALL", "wrong", "sudo does not take this password of the user guest"),
        ("", "secret", "sudo says on this host: guest is not in the sudoers file."),
    ],
    ids=["no-rights", "password-wanted", "password-wrong", "no-rights-with-password"],
)
def test_without_sudo(refused: Project, rights: str, password: str, said: str) -> None:
    arguments = ["-e", "ansible_user=guest"]
    arguments += ["-e", f"ansible_become_password={password}"] if password else []
    with on_host(
        refused,
        USER.format(user="guest") + f'; echo "{rights}" > /etc/sudoers.d/guest',
        "rm /etc/sudoers.d/guest; pkill -u guest || true; userdel -f -r guest 2>/dev/null || true",
    ):
        refuse(refused, "--tags", "cudnn", *arguments, said=said)


def test_the_right_sudo_password_is_taken(refused: Project) -> None:
    """So that the refusals above are not for another reason."""
    with on_host(
        refused,
        USER.format(user="guest") + '; echo "guest ALL=(ALL) ALL" > /etc/sudoers.d/guest',
        "rm /etc/sudoers.d/guest; pkill -u guest || true; userdel -f -r guest 2>/dev/null || true",
    ):
        done = refused.provision(
            "plan", "-i", "lab", "--limit", HOST,
            *("-e", "ansible_user=guest", "-e", "ansible_become_password=secret"),
        )  # fmt: skip
    assert done.returncode == 5, flat(done)


def test_a_changed_host_key_is_reported(refused: Project) -> None:
    known = refused.lab.known_hosts
    text = known.read_text("ascii")
    other = refused.path / "other_key"
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other)], check=True, timeout=60
    )
    key = other.with_suffix(".pub").read_text("ascii").split()[1]
    # A connection that is still open would be taken without looking at the key.
    arguments = ["apply", "-i", "lab", "--limit", HOST, "-e", "ansible_control_path=none"]
    before = fingerprint(refused)
    try:
        known.write_text(f"{refused.lab.hosts[0].address} ssh-ed25519 {key}\n", "ascii")
        done = refused.provision(*arguments)
    finally:
        known.write_text(text, "ascii")
    assert fingerprint(refused) == before
    assert done.returncode == 4, flat(done)
    assert "host key" in flat(done).lower()
    assert refused.entry(HOST)["status"] == "unreachable"


def test_a_host_that_does_not_answer_is_reported(refused: Project) -> None:
    refuse(refused, "-e", "ansible_port=9", said="Connection refused", status="unreachable")


def test_a_host_without_python_is_reported(refused: Project) -> None:
    with on_host(
        refused,
        "mkdir /root/away; mv /usr/bin/python3 /usr/bin/python3.9 /root/away",
        "mv /root/away/* /usr/bin; rmdir /root/away",
    ):
        refuse(refused, said="there is no Python on this host (python3 was not found). Install it")


# lock, inventory, flags: refused before a host is reached


@contextmanager
def edited(path: Path, old: str, new: str) -> Iterator[None]:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")
    try:
        yield
    finally:
        path.write_text(text, "utf-8")


def test_a_lock_edited_by_hand_is_refused(refused: Project) -> None:
    with edited(refused.path / "lock.yml", "470.256.02", "470.256.03"):
        done = refused.provision("render")
    assert done.returncode == 2
    assert "the lock was edited: its digest does not match its content" in flat(done)


def test_a_project_rendered_from_another_lock_is_refused(refused: Project) -> None:
    with edited(refused.path / "lock.yml", "digest: sha256:", "digest: sha256:0"):
        done = refused.provision("apply", "-i", "lab", "--limit", HOST)
    assert done.returncode == 2, flat(done)
    assert "the project was rendered from another lock.yml" in flat(done)
    assert "provision render" in flat(done)


def test_a_wish_changed_after_the_lock_is_refused(refused: Project) -> None:
    """By the generator, and by the run itself where nobody asked the generator."""
    wish = refused.path / "lab/group_vars/gpu_hosts.yml"
    with edited(wish, 'tensorflow: "2.9"', 'tensorflow: "2.9.2"'):
        done = refused.provision("render")
        assert done.returncode == 2, flat(done)
        assert f"the lock has no row for the gpu_stack of {HOST}" in flat(done)
        assert "the inventory changed since: `provision lock`" in flat(done)

        entry = refuse(refused, said="the lock has no row for debian 11 x86_64", status="blocked")
        assert [blocker["id"] for blocker in entry["blockers"]] == ["no-row"]
        with untouched(refused):
            plain = refused.playbook("--limit", HOST)
        assert plain.returncode == 2, flat(plain)  # ansible-playbook's own: a host failed
        assert "Nothing was changed on this host" in flat(plain)
        assert "To do: run `provision lock`" in flat(plain)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["apply", "-i", "nowhere"], "nowhere: there is no such inventory"),
        (["apply", "--limit", "nobody"], "no hosts to target"),
        (["apply", "--tags", "cudn"], "did you mean cudnn?"),
        (["apply", "--projct", "x"], "No such option: --projct"),
        (["apply", "--project", "nowhere"], "is not a rendered project: there is no site.yml"),
        (["apply", "--project", "lab"], "is not a rendered project: there is no site.yml"),
        (["render", "lab"], "there is no lock yet"),
        (["lock", "--project", "nowhere"], "no such project"),
        (["apply", "-i", "empty"], "No host was looked at"),
    ],
    ids=lambda value: "-".join(value).replace("--", "") if isinstance(value, list) else "",
)
def test_a_wrong_argument_is_refused(refused: Project, arguments: list[str], said: str) -> None:
    done = refused.provision(*arguments)
    assert done.returncode == 2, flat(done)
    assert said in flat(done)


# the slow ones, which install something on the host


def test_without_a_package_index_no_venv_is_left(refused: Project) -> None:
    """The platform's own python3-venv stays; nothing else does."""
    before = fingerprint(refused)
    done = refused.provision(
        "apply", "-i", "lab", "--limit", HOST, "--tags", "tensorflow",
        *("-e", f"tensorflow_index_url={CLOSED}/simple"),
    )  # fmt: skip
    assert done.returncode == 4, flat(done)
    assert "this host does not reach the package index" in flat(done)
    assert "Connection refused" in flat(done)
    new = set(fingerprint(refused)) ^ set(before)
    assert [line for line in new if line.startswith("/opt")] == []
    assert {line for line in new if line.startswith("ii python3.9-venv=")} != set()


INTERRUPT = r"""
cd "$(mktemp -d)"
mkdir -p slow/DEBIAN
printf '%s\n' 'Package: slow' 'Version: 1' 'Architecture: all' 'Maintainer: nobody <n@localhost>' \
    'Description: sleeps while it is being configured' > slow/DEBIAN/control
printf '%s\n' '#!/bin/sh' '[ -e /run/slow ] || { touch /run/slow; exec sleep 600; }' \
    > slow/DEBIAN/postinst
chmod 755 slow/DEBIAN/postinst
dpkg-deb --build slow > /dev/null
dpkg --install slow.deb > /dev/null 2>&1 &
while [ ! -e /run/slow ]; do sleep 0.1; done
kill -9 $!
pkill -x sleep
dpkg-query --show --showformat '${Status}\n' slow
"""


def test_an_interrupted_dpkg_is_finished_first(refused: Project) -> None:
    """And the run goes on: the driver's packages are there at its end."""
    left = refused.ssh(HOST, f"sudo bash <<'END'\n{INTERRUPT}\nEND")
    assert left.strip().endswith("half-configured")
    done = refused.provision("apply", "-i", "lab", "--limit", HOST, "--tags", "nvidia_driver")
    assert done.returncode == 0, flat(done)
    assert "an installation was interrupted (slow); it will be finished first" in flat(done)
    status = refused.ssh(HOST, "dpkg-query -W -f '${Package} ${db:Status-Status}\\n' slow libcuda1")
    assert status.split() == ["libcuda1", "installed", "slow", "installed"]
    assert refused.ssh(HOST, "dpkg --audit") == ""
