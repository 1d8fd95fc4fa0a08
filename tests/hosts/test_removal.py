"""Components that are wished away leave, and nothing else does.

On one host: what the run put there goes, in the opposite order; what a person put beside it, edited
or had before stays.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import Project, make_project

HOST = "removal1"
SMALL = "nvidia_driver,cudnn,gpu_env"
ABSENT = [
    word
    for name in ("nvidia_driver", "cuda", "cudnn", "gpu_env", "tensorflow")
    for word in ("-e", f"{name}_state=absent")
]
# A file with its mode and content's hash, a link with its target; and what dpkg knows.
PICTURE = (
    "sudo sh -c \"find /etc /opt -xdev -type f -printf '%p %m ' -exec md5sum {} ';'"
    " -o -type l -printf '%p -> %l\\n' 2>/dev/null | grep -v -e /etc/ld.so.cache -e .pyc | sort;"
    " dpkg-query -W -f '\\${db:Status-Abbrev} \\${Package} \\${Version}\\n'; apt-mark showhold\""
)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """One bare host on which somebody has a package of the driver's, and settings, already."""
    path = tmp_path_factory.mktemp("removal") / "project"
    yield from make_project(path, "test-removal", [HOST])


def entry(host: Project) -> Any:
    return host.report["hosts"][HOST]


def run(host: Project, *arguments: str, tags: str = SMALL) -> Any:
    done = host.provision("apply", "-i", "lab", "--tags", tags, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return entry(host)


def receipt(host: Project) -> Any:
    return json.loads(host.ssh(HOST, "cat /var/lib/provision/receipt.json"))


def test_what_was_installed_goes_and_what_was_there_stays(host: Project) -> None:
    host.ssh(
        HOST, "sudo mkdir -p /opt/nvidia/cudnn/mine && echo a | sudo tee /opt/nvidia/cudnn/mine/f"
    )
    host.ssh(HOST, "echo MINE=1 | sudo tee -a /etc/environment")
    # As on a host whose owner took contrib away again.
    source = "/etc/apt/sources.list.d/mine.list"
    line = "deb http://deb.debian.org/debian bullseye contrib"
    host.ssh(
        HOST,
        f"echo {line} | sudo tee {source} && sudo apt-get -qq update"
        f" && sudo apt-get -qqy install update-glx >/dev/null && sudo rm {source}",
    )
    before = host.ssh(HOST, PICTURE)

    installed = run(host)
    assert set(installed["components"]) == {"nvidia_driver", "cudnn", "gpu_env"}
    told = receipt(host)
    assert told["packages"]["nvidia_driver"]["theirs"].keys() == {"update-glx"}
    assert "libcuda1" in told["packages"]["nvidia_driver"]["ours"]
    host.ssh(HOST, "echo '# edited' | sudo tee -a /etc/profile.d/provision-gpu.sh")
    host.ssh(HOST, "echo b | sudo tee /opt/nvidia/cudnn/current/include/mine.h")

    plan = host.provision("plan", "-i", "lab", "--tags", SMALL, *ABSENT)
    assert plan.returncode == 5, plan.stdout + plan.stderr
    assert "update-glx" not in [one["item"] for one in entry(host)["changes"]]

    gone = run(host, *ABSENT)
    assert list(gone["components"]) == ["gpu_env", "cudnn", "nvidia_driver"], gone["components"]
    told = receipt(host)
    assert told["absent"] == ["nvidia_driver", "cudnn", "gpu_env"]
    assert told["after"]["cudnn"] is None
    assert told["packages"].keys() == {"cuda"}

    after = set(host.ssh(HOST, PICTURE).splitlines())
    lost = sorted(set(before.splitlines()) - after)
    assert lost == [], lost
    new = sorted(line for line in after - set(before.splitlines()) if not line.startswith("rc "))
    words = [" ".join(line.split()[:1]) for line in new if line.startswith("/")]
    assert "/etc/profile.d/provision-gpu.sh.save" in words
    assert any(word.endswith("/include/mine.h") for word in words)
    assert not [word for word in words if word.endswith((".so", ".conf", ".sources"))], words
    assert "nvidia" not in "\n".join(line for line in new if line.startswith("ii")), new

    again = host.provision("plan", "-i", "lab", "--tags", SMALL, *ABSENT)
    assert again.returncode == 0, again.stdout + again.stderr
    verdict = host.provision("verify", "-i", "lab", *ABSENT)
    results = {one["id"]: one["result"] for one in entry(host)["checks"]}
    assert results["nvidia_driver.answers"] == "not_applicable", verdict.stdout
    assert set(results.values()) <= {"passed", "not_applicable"}, results
