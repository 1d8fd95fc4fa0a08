"""Components set to absent are removed, and nothing else is.

On one host: what the run put there goes, in the opposite order; what a person put beside it, edited
or had before stays.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import Project, bare_hosts

from provision.locallab import cudnn_archive
from provision.locallab.machine import cache_directory
from tests.collection import one_role

pytestmark = [pytest.mark.slow]

HOST = "removal1"
SMALL = "nvidia_driver,cudnn,gpu_env"
ABSENT = [
    word
    for name in ("nvidia_driver", "cuda", "cudnn", "gpu_env", "tensorflow")
    for word in ("-e", f"{name}_state=absent")
]
# A file with its mode and content's hash, a link with its target; and what dpkg knows. Packages
# leave the users that they made, as Debian's policy says.
PICTURE = (
    "sudo sh -c \"find /etc /opt -xdev -type f -printf '%p %m ' -exec md5sum {} ';'"
    " -o -type l -printf '%p -> %l\\n' 2>/dev/null"
    " | grep -v -E '/etc/(ld.so.cache|g?shadow|group|passwd)|[.]pyc' | sort;"
    " dpkg-query -W -f '\\${db:Status-Abbrev} \\${Package} \\${Version}\\n'; apt-mark showhold\""
)
# A package of somebody's own that needs one of the driver's.
NEEDY = (
    "mkdir -p /tmp/needy/DEBIAN && printf 'Package: needy\\nVersion: 1\\nArchitecture: all\\n"
    "Maintainer: me <me@localhost>\\nDescription: mine\\nDepends: libcuda1\\n'"
    " > /tmp/needy/DEBIAN/control && dpkg-deb --build /tmp/needy /tmp/needy.deb >/dev/null"
    " && sudo dpkg --install /tmp/needy.deb >/dev/null && rm -r /tmp/needy /tmp/needy.deb"
)


# One bare host on which somebody has a package of the driver's, and settings, already.
host = bare_hosts("removal", HOST)


def run(host: Project, *arguments: str, tags: str = SMALL) -> Any:
    done = host.provision("apply", "-i", "lab", "--tags", tags, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return host.entry(HOST)


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
    record = receipt(host)
    assert record["packages"]["nvidia_driver"]["theirs"].keys() == {"update-glx"}
    assert "libcuda1" in record["packages"]["nvidia_driver"]["ours"]
    host.ssh(HOST, "echo '# edited' | sudo tee -a /etc/profile.d/provision-gpu.sh")
    host.ssh(HOST, "echo b | sudo tee /opt/nvidia/cudnn/current/include/mine.h")

    plan = host.provision("plan", "-i", "lab", "--tags", SMALL, *ABSENT)
    assert plan.returncode == 5, plan.stdout + plan.stderr
    assert "update-glx" not in [change["item"] for change in host.entry(HOST)["changes"]]

    # Somebody else's package needs ours: nothing on the host is touched, by a run or a role alone.
    host.ssh(HOST, NEEDY)
    refused = host.provision("apply", "-i", "lab", "--tags", SMALL, *ABSENT)
    assert refused.returncode == 4, refused.stdout + refused.stderr
    assert "needy is installed and needs libcuda1, set to absent" in refused.stdout
    (host.path / "alone.yml").write_text(one_role("nvidia_driver"), "utf-8")
    refused = host.playbook("-e", "nvidia_driver_state=absent", book="alone.yml")
    assert refused.returncode != 0
    assert "apt would change needy as well" in refused.stdout, refused.stdout
    assert "libcuda1" in host.ssh(HOST, "dpkg-query -W libcuda1")
    host.ssh(HOST, "sudo dpkg --remove needy && sudo dpkg --purge needy")

    gone = run(host, *ABSENT)
    assert list(gone["components"]) == ["gpu_env", "cudnn", "nvidia_driver"], gone["components"]
    record = receipt(host)
    assert record["absent"] == ["cuda", "cudnn", "gpu_env", "nvidia_driver", "tensorflow"]
    assert record["after"]["cudnn"] is None
    assert record["packages"] == {}

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
    results = {check["id"]: check["result"] for check in host.entry(HOST)["checks"]}
    assert results["nvidia_driver.answers"] == "not_applicable", verdict.stdout
    assert set(results.values()) <= {"passed", "not_applicable"}, results


def planned(host: Project, *arguments: str) -> int:
    return host.provision("plan", "-i", "lab", *arguments).returncode


def test_a_host_goes_forward_and_back_in_one_run_each(host: Project) -> None:
    """cuDNN 8.5 to 8.7 by a lock, back by its receipt, forward again by a plain run.

    The archives are of NVIDIA's two layouts. The other components are away, as the test above left
    them: `rollback` leaves them so, for the receipt says it.
    """
    others = [
        word
        for name in ("nvidia_driver", "cuda", "gpu_env", "tensorflow")
        for word in ("-e", f"{name}_state=absent")
    ]
    wish = host.path / "lab" / "group_vars" / "gpu_hosts.yml"
    first = wish.read_text("utf-8")
    done = host.provision("apply", "-i", "lab", *others)
    assert done.returncode == 0, done.stdout + done.stderr
    before = receipt(host)
    assert before["after"]["cudnn"] == "8.5.0"

    newer = cudnn_archive.pack(cache_directory(), version="8.7.0.84")
    (host.path / "files" / newer.path.name).symlink_to(newer.path)
    sha = first.split('sha256: "')[1][:64]
    text = first
    for old, new in (
        ('version: "8.5.0.96", cuda: "11.2"', f'version: "8.7.0.84", cuda: "{newer.cuda}"'),
        (sha, newer.sha256),
        ("cudnn-11.2-linux-x64-v8.5.0.96.tgz", newer.path.name),
    ):
        text = text.replace(old, new)
    wish.write_text(text, "utf-8")
    for command in (["lock"], ["render"]):
        done = host.provision(*command)
        assert done.returncode == 0, done.stdout + done.stderr
    done = host.provision("apply", "-i", "lab", *others)
    assert done.returncode == 0, done.stdout + done.stderr
    assert receipt(host)["after"]["cudnn"] == "8.7.0"
    assert planned(host, *others) == 0

    listed = host.provision("rollback", HOST, "-i", "lab", "--list")
    assert listed.returncode == 0, listed.stdout + listed.stderr
    assert f"--to 1  {before['lock_digest'][7:19]}" in listed.stdout, listed.stdout
    back = host.provision("rollback", HOST, "-i", "lab")
    assert back.returncode == 0, back.stdout + back.stderr
    assert host.entry(HOST)["status"] == "proven", back.stdout
    assert host.report["lock_digest"] == before["lock_digest"]
    assert receipt(host)["after"]["cudnn"] == "8.5.0"
    assert "A plain run takes these hosts forward again" in back.stdout
    again = host.provision("rollback", HOST, "-i", "lab", "--to", "9")
    assert again.returncode == 2, again.stdout + again.stderr

    assert planned(host, *others) == 5
    done = host.provision("apply", "-i", "lab", *others)
    assert done.returncode == 0, done.stdout + done.stderr
    assert receipt(host)["after"]["cudnn"] == "8.7.0"
    assert planned(host, *others) == 0


def test_tensorflow_goes_to_the_next_patch_and_back(host: Project) -> None:
    """2.9.2 to 2.9.3 by a lock, back by the receipt: one run each, and nothing left to do."""
    only = ["--tags", "tensorflow"]
    wish = host.path / "lab" / "group_vars" / "gpu_hosts.yml"
    text = wish.read_text("utf-8")
    for version in ("2.9.2", "2.9.3"):
        wish.write_text(text.replace('tensorflow: "2.9"', f'tensorflow: "{version}"'), "utf-8")
        for command in (["lock"], ["render"]):
            done = host.provision(*command)
            assert done.returncode == 0, done.stdout + done.stderr
        done = host.provision("apply", "-i", "lab", *only)
        assert done.returncode == 0, done.stdout + done.stderr
        assert receipt(host)["after"]["tensorflow"] == version
        # What the tags leave out is drift, and is told so.
        done = host.provision("plan", "-i", "lab", *only)
        assert "nothing to change" in done.stdout + done.stderr
    back = host.provision("rollback", HOST, "-i", "lab", *only)
    assert back.returncode == 0, back.stdout + back.stderr
    assert receipt(host)["after"]["tensorflow"] == "2.9.2"
    output = host.ssh(HOST, "readlink /opt/tensorflow/current; ls /opt/tensorflow")
    assert output.startswith("2.9.2-")
    assert "2.9.3-" in output

    host.ssh(HOST, "sudo /opt/tensorflow/current/bin/pip install --quiet --no-deps tomli")
    gone = run(host, *ABSENT, tags="tensorflow")
    assert list(gone["components"]) == ["tensorflow"]
    left = host.ssh(HOST, "ls /opt/tensorflow").split()
    assert [name.split("-")[0] for name in left] == ["2.9.2"]
    assert left[0].endswith(".save")
    host.provision("plan", "-i", "lab", *ABSENT, *only)
    assert [change for change in host.entry(HOST)["changes"] if change["selected"]] == []
