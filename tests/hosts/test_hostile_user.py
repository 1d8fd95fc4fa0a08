"""An ordinary user of a host does all that such a user can, while a run works on it.

The same damage is repaired twice, once undisturbed: what changes of root's must be the same both
times, the run must end, and no secret may be read. The user is even listed in gpu_env_bashrc_users.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Project, make_proven

pytestmark = [pytest.mark.slow]

HOST = "hostile1"
HERE = Path(__file__).parent
TAGS = "nvidia_driver,cudnn,gpu_env"
SECRET = "geheim-4711-become"  # noqa: S105  of this test alone
HOME = "/home/mallory"
PLACE = HOME + "/place"
MANIFEST = "/var/lib/hostile-manifest.json"
DAMAGE = (
    "sudo rm -f /etc/profile.d/provision-gpu.sh /opt/nvidia/cudnn/current/include/cudnn.h"
    " && sudo dpkg --remove --force-all nvidia-smi >/dev/null 2>&1"
)
SETUID = "sudo find / -xdev -user root -perm /6000 -type f 2>/dev/null | sort"
OF_ROOT = f"sudo find {HOME} -user root 2>/dev/null | sort"
# Named after the moment: backups, receipts, pip's and Ansible's directories.
NOISE = re.compile(r"\d+")
# The user's own, and what is not a run's.
OTHERS = (HOME, MANIFEST, "/root/.ansible", "/etc/ld.so.cache", "/usr/lib/python3")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    path = tmp_path_factory.mktemp("hostile") / "project"
    yield from make_proven(path, "test-hostile", [HOST])


def send(host: Project, name: str, path: str) -> None:
    text = base64.b64encode((HERE / name).read_bytes()).decode()
    host.ssh(HOST, f"echo {text} | base64 -d | sudo tee {path} >/dev/null; sudo chmod 644 {path}")


def manifest(host: Project, what: str) -> list[str]:
    output = host.ssh(HOST, f"sudo python3 -I /var/lib/hostile_manifest.py {what} {MANIFEST}")
    lines = [line for line in json.loads(output) if not line.startswith(OTHERS)]
    return sorted({NOISE.sub("N", re.sub(r": other .*", ": other", line)) for line in lines})


def repair(host: Project) -> list[str]:
    """Damage, a run, and what has changed of the host by both."""
    manifest(host, "write")
    host.ssh(HOST, DAMAGE, check=False)
    done = host.provision(
        "apply", "-i", "lab", "--tags", TAGS, "-e", f"ansible_become_password={SECRET}",
        "-e", '{"gpu_env_bashrc_users": ["mallory"]}',
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    entry = host.entry(HOST)
    assert set(entry["components"]) == {"nvidia_driver", "cudnn", "gpu_env"}
    return manifest(host, "compare")


def prepare(host: Project) -> None:
    send(host, "manifest.py", "/var/lib/hostile_manifest.py")
    send(host, "hostile.py", "/usr/local/share/hostile.py")
    host.ssh(
        HOST,
        "sudo useradd -m -s /bin/bash mallory; sudo mkdir -p /etc/roots"
        " && echo root only | sudo tee /etc/roots/victim >/dev/null"
        " && sudo chmod 600 /etc/roots/victim && sudo -u mallory mkdir -p " + PLACE,
    )


def test_nothing_that_a_user_does_changes_what_a_run_does(host: Project) -> None:
    prepare(host)
    # Its lines are there before: an undisturbed run would write them, and a disturbed one not.
    host.ssh(HOST, f"sudo -u mallory rm -f {HOME}/.bashrc")
    host.ssh(HOST, f"sudo -u mallory mkfifo {HOME}/.bashrc")
    calm = repair(host)
    assert any("provision-gpu.sh" in line for line in calm)
    setuid, of_root = host.ssh(HOST, SETUID), host.ssh(HOST, OF_ROOT)
    assert of_root == ""

    host.ssh(
        HOST,
        f"sudo -u mallory sh -c 'cd && setsid python3 /usr/local/share/hostile.py {PLACE} {SECRET}"
        f" >{PLACE}/out 2>&1 </dev/null &'",
    )
    try:
        disturbed = repair(host)
    finally:
        tried: dict[str, Any] = json.loads(host.ssh(HOST, f"sudo cat {PLACE}/tried"))
        host.ssh(HOST, f"sudo -u mallory touch {PLACE}/stop; sleep 2")

    assert disturbed == calm
    assert host.ssh(HOST, SETUID) == setuid
    assert host.ssh(HOST, OF_ROOT) == ""
    assert host.ssh(HOST, "sudo cat /etc/roots/victim; sudo ls -A /etc/roots") == (
        "root only\nvictim\n"
    )
    for name, meaning in (
        ("root", "a planted program ran as root"),
        ("secret", "the run's secret was read"),
        ("lock", "a lock of root's was taken"),
    ):
        output = host.ssh(HOST, f"sudo cat {PLACE}/{name} 2>/dev/null", check=False)
        assert output == "", f"{meaning}: {output}"
    # What it did, it did all along, and nothing of its own was ended.
    for kind in ("plant", "home", "lock", "names", "read", "directories", "ports"):
        assert tried.get(kind, 0) >= 1, tried
    assert tried["home"] > 20, tried
    assert tried["children"] > 0, tried
    assert tried["ended"] == [], tried
    assert host.provision("plan", "-i", "lab").returncode == 0


def test_the_doctor_ends_and_names_nothing_of_the_users(host: Project) -> None:
    """Named pipes under the names of archives, and links to root's home, in every open place."""
    host.ssh(HOST, "sudo -u mallory sh -c 'cd /tmp; rm -f cudnn-9.tgz; mkfifo cudnn-9.tgz'")
    done = host.provision("doctor", "-i", "lab", "--json")
    assert done.returncode in {0, 5}, done.stdout + done.stderr
    assert "/tmp/cudnn-9.tgz" not in done.stdout
