"""A host brought into what people meet: it is named, `--fix` cures it, and nothing is lost."""

from __future__ import annotations

import json

from conftest import Project

HOST = "bare1"
REPOSITORY = "https://repository.example.invalid/cuda"
A, B = "/etc/apt/sources.list.d/a.list", "/etc/apt/sources.list.d/b.sources"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
BREAK = f"""
set -e
echo 'deb [signed-by={KEYRING}] {REPOSITORY} /' > {A}
printf '# ours\\nTypes: deb\\nURIs: {REPOSITORY}\\nSuites: /\\n' > {B}
mkdir -p /tmp/half/DEBIAN && cd /tmp
printf 'Package: half\\nVersion: 1\\nArchitecture: all\\nMaintainer: x <x@example.org>\\n' \
> half/DEBIAN/control
echo 'Description: x' >> half/DEBIAN/control
dpkg-deb --build half >/dev/null && dpkg --unpack half.deb >/dev/null
mkdir -p /usr/local/lib && cd /usr/local/lib
echo twelve > libcudart.so.12 && ln -s libcudart.so.12 libcudart.so.11.0
printf '<!DOCTYPE html>\\n<html>Log in</html>' > /tmp/cudnn-11.2-linux-x64-v8.1.0.77.tgz
"""
FIXED = ["signed-by-conflict", "dpkg-interrupted", "hand-made-link"]


def ids(project: Project) -> list[str]:
    report = json.loads((project.path / "report" / "doctor.json").read_text())
    return [finding["id"] for finding in report["hosts"][HOST]["findings"]]


def test_a_bare_host_has_no_known_trouble(bare: Project) -> None:
    done = bare.playbook(book="doctor.yml")
    assert done.returncode == 0, done.stdout
    assert f"{HOST}: no known trouble, and not as locked" in done.stdout


def test_what_is_broken_is_named_and_what_is_safe_is_fixed(bare: Project) -> None:
    bare.ssh(HOST, f"sudo sh -s <<'END'\n{BREAK}\nEND")
    done = bare.playbook(book="doctor.yml")
    assert done.returncode == 2, done.stdout
    assert ids(bare) == [*FIXED, "login-wall"], done.stdout
    # apt says it itself
    assert "because: apt-get check: E: Conflicting values set for option Signed-By" in done.stdout
    assert f"because: {A}" not in done.stdout
    before = bare.ssh(HOST, f"cat {B}")

    done = bare.playbook("-e", "gpu_doctor_fix=true", book="doctor.yml")
    assert ids(bare) == ["login-wall"], done.stdout
    assert done.stdout.count("  fixed: ") == len(FIXED)
    bare.ssh(HOST, "sudo apt-get check && dpkg-query -W -f '${db:Status-Status}' half")
    # what was replaced is there
    assert bare.ssh(HOST, f"cat {B}.*~") == before
    kept = bare.ssh(HOST, "sudo readlink /var/backups/provision-doctor/libcudart.so.11.0")
    assert kept.strip() == "libcudart.so.12"
    assert bare.ssh(HOST, "cat /usr/local/lib/libcudart.so.12") == "twelve\n"
    assert bare.ssh(HOST, f"cat {A}").startswith("deb [signed-by=")

    bare.ssh(HOST, "sudo rm /tmp/cudnn-11.2-linux-x64-v8.1.0.77.tgz")
    done = bare.playbook("-e", "gpu_doctor_fix=true", book="doctor.yml")
    assert done.returncode == 0, done.stdout
    assert "changed=0" in done.stdout
