"""What apt does around the stack's packages: nobody's package goes unasked, and apt's mishaps heal.

On one host that is bare at first; the tests build upon each other.
"""

from __future__ import annotations

import pytest
from conftest import Project, bare_hosts

from tests.collection import one_role

pytestmark = [pytest.mark.slow]

HOST = "strange1"


host = bare_hosts("strangers", HOST)


def package(host: Project, name: str, version: str, fields: str, action: str = "install") -> None:
    """A package of somebody's own on the host, empty but for these fields."""
    control = (
        f"Package: {name}\\nVersion: {version}\\nArchitecture: amd64\\n"
        f"Maintainer: me <me@localhost>\\nDescription: mine\\n{fields}\\n"
    )
    place = f"/tmp/{name}"
    host.ssh(
        HOST,
        f"mkdir -p {place}/DEBIAN && printf '{control}' > {place}/DEBIAN/control"
        f" && dpkg-deb --build {place} {place}.deb >/dev/null"
        f" && sudo dpkg --{action} {place}.deb >/dev/null; rm -r {place} {place}.deb",
    )


def state_of(host: Project, name: str) -> str:
    return host.ssh(HOST, f"dpkg-query -W -f '${{db:Status-Abbrev}}${{Version}}' {name} || true")


def apply(host: Project, *arguments: str) -> tuple[int, str]:
    done = host.provision("apply", "-i", "lab", *arguments)
    return done.returncode, done.stdout + done.stderr


def alone(host: Project, role: str, *arguments: str) -> str:
    (host.path / "alone.yml").write_text(one_role(role), "utf-8")
    done = host.playbook(*arguments, book="alone.yml")
    assert done.returncode != 0, done.stdout
    return done.stdout


def test_a_strangers_package_is_not_removed_for_the_stack(host: Project) -> None:
    """apt removed it for nvidia-smi and for libcublas11, and no plan had said so."""
    package(host, "somebodys-solver", "1.0", "Conflicts: nvidia-smi, libcublas11\\n")

    # Bare: apt's lists do not know the driver yet, so the role asks before it installs.
    code, output = apply(host, "--tags", "nvidia_driver")
    assert code == 4, output
    assert "apt would remove somebodys-solver" in output, output
    assert "conflicts: nvidia-smi" in output, output
    assert state_of(host, "somebodys-solver") == "ii 1.0"
    assert not state_of(host, "libcuda1").startswith("ii"), "something was installed"

    # Now they know it, and the plan is refused before anything is touched.
    for tags in ("nvidia_driver", "cuda"):
        code, output = apply(host, "--tags", tags)
        assert code == 4, output
        assert [blocker["id"] for blocker in host.entry(HOST)["blockers"]] == [
            "unplanned-removal"
        ], output
        assert "somebodys-solver 1.0 (conflicts with" in output, output
        assert "apt-get remove somebodys-solver" in output, output
    assert "apt would remove somebodys-solver" in alone(host, "cuda")
    assert state_of(host, "somebodys-solver") == "ii 1.0"
    host.ssh(HOST, "sudo dpkg --purge somebodys-solver")


def half_install(host: Project) -> None:
    """libcuda1 of another version, unpacked, whose dependencies no archive has; no python3-apt."""
    host.ssh(HOST, "sudo apt-get -qqy purge python3-apt >/dev/null 2>&1 || true")
    needs = "Multi-Arch: same\\nDepends: nvidia-alternative (= 460.91.03-1)\\n"
    package(host, "libcuda1", "460.91.03-1", needs, action="unpack")
    assert state_of(host, "libcuda1") == "iU 460.91.03-1"


def test_a_half_installed_driver_of_another_version_is_finished_by_one_run(host: Project) -> None:
    """Preflight promised it, and Apply died in fetching package lists: apt could install nothing.

    A source of somebody's that does not answer is no reason to stop either, and is named by file.
    """
    half_install(host)
    source = "/etc/apt/sources.list.d/lab.list"
    host.ssh(HOST, f"echo 'deb http://127.0.0.1:9/debian somewhere main' | sudo tee {source}")
    # A run asks the sources only where apt's lists do not have the versions.
    host.ssh(HOST, "sudo rm -rf /var/lib/apt/lists/*")
    code, output = apply(host, "--tags", "nvidia_driver", "-e", "gpu_verify=never")
    assert code == 0, output
    assert "it will be finished first" in output, output
    assert state_of(host, "libcuda1") == "hi 470.256.02-2"
    assert host.ssh(HOST, "dpkg --audit") == ""
    notes = [warning["message"] for warning in host.entry(HOST)["warnings"]]
    assert any(f"apt cannot use {source}:1" in note for note in notes), notes
    host.ssh(HOST, f"sudo rm {source}")


def test_the_doctor_heals_it_too(host: Project) -> None:
    """`doctor --fix` failed, for dpkg alone cannot finish what lacks its dependencies."""
    names = "libcuda1 'nvidia-*' 'glx-*' update-glx 'libnvidia-*'"
    host.ssh(
        HOST,
        "sudo apt-mark unhold $(apt-mark showhold) >/dev/null;"
        f" sudo apt-get -qqy purge {names} >/dev/null; sudo rm /etc/apt/preferences.d/provision*",
    )
    half_install(host)
    done = host.provision("doctor", "-i", "lab", "--fix")
    assert state_of(host, "libcuda1") == "hi 470.256.02-2", done.stdout + done.stderr
    assert host.ssh(HOST, "dpkg --audit") == ""


def test_a_needed_source_that_fails_is_named_by_file_and_line(host: Project) -> None:
    host.ssh(
        HOST,
        "sudo apt-mark unhold $(apt-mark showhold) >/dev/null;"
        " sudo apt-get -qqy purge libcuda1 >/dev/null; sudo cp -a /etc/apt /root/apt"
        " && sudo sed -i 's#http[^ ]*debian.org#http://127.0.0.1:9#' /etc/apt/sources.list"
        " && sudo rm -rf /etc/apt/sources.list.d/provision* /var/lib/apt/lists/*",
    )
    code, output = apply(host, "--tags", "nvidia_driver")
    host.ssh(HOST, "sudo rm -rf /etc/apt && sudo mv /root/apt /etc/apt")
    assert code == 4, output
    assert "/etc/apt/sources.list:1" in output, output
    assert "The driver was not touched" in output, output
