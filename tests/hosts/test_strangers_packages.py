"""What apt does around the stack's packages: nobody's package goes unasked, and apt's mishaps heal.

On one host that is bare at first; the tests build upon each other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import Project, make_project

pytestmark = [pytest.mark.slow]

HOST = "strange1"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    path = tmp_path_factory.mktemp("strangers") / "project"
    yield from make_project(path, "test-strangers", [HOST])


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
    book = {"hosts": "all", "become": True, "gather_facts": False, "roles": [role]}
    (host.path / "alone.yml").write_text(json.dumps([book]), "utf-8")
    done = host.playbook(*arguments, book="alone.yml")
    assert done.returncode != 0, done.stdout
    return done.stdout


def entry(host: Project) -> Any:
    return host.report["hosts"][HOST]


def test_a_strangers_package_is_not_removed_for_the_stack(host: Project) -> None:
    """apt removed it for nvidia-smi and for libcublas11, and no plan had said so."""
    package(host, "somebodys-solver", "1.0", "Conflicts: nvidia-smi, libcublas11\\n")

    # Bare: apt's lists do not know the driver yet, so the role asks before it installs.
    code, said = apply(host, "--tags", "nvidia_driver")
    assert code == 4, said
    assert "apt would remove somebodys-solver" in said, said
    assert "conflicts: nvidia-smi" in said, said
    assert state_of(host, "somebodys-solver") == "ii 1.0"
    assert not state_of(host, "libcuda1").startswith("ii"), "something was installed"

    # Now they know it, and the plan is refused before anything is touched.
    for tags in ("nvidia_driver", "cuda"):
        code, said = apply(host, "--tags", tags)
        assert code == 4, said
        assert [one["id"] for one in entry(host)["blockers"]] == ["unplanned-removal"], said
        assert "somebodys-solver 1.0 (conflicts with" in said, said
        assert "apt-get remove somebodys-solver" in said, said
    assert "apt would remove somebodys-solver" in alone(host, "cuda")
    assert state_of(host, "somebodys-solver") == "ii 1.0"
    host.ssh(HOST, "sudo dpkg --purge somebodys-solver")
