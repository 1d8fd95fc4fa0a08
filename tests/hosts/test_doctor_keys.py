"""Keys that a newer apt refuses, on a host of Debian 13: the doctor names it, the hand cures it.

The repositories are such as NVIDIA's local installers leave behind, signed by keys made here: one
whose own signature is SHA-1, as that of NVIDIA's 3bf863cc; one that was given to apt-key elsewhere.
What apt says of them is its own.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import BIN, Project
from doctor_run import Found
from doctor_run import doctor as ask
from test_other_platforms import CASES
from test_other_platforms import project as made

from provision.locallab.host import archive
from tests.ground import repository

pytestmark = [pytest.mark.slow]

HOST = "keys1"
LIST = "/etc/apt/sources.list.d/cuda-local.list"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    directory = tmp_path_factory.mktemp("keys") / "project"
    platform, wish, cudnn = CASES["debian13"]
    with made(directory, "keys", platform, wish, cudnn) as found:
        yield found


def root(project: Project, script: str) -> str:
    container = project.lab.hosts[0].container
    return project.lab.podman.call(
        "exec", "--interactive", container, "sh", "-e", stdin=script.encode()
    )


def update(project: Project) -> str:
    """What `apt-get update` says of the one list."""
    only = f"-o Dir::Etc::sourcelist={LIST} -o Dir::Etc::sourceparts=-"
    return root(project, f"apt-get update -q {only} 2>&1 || echo failed")


def doctor(project: Project) -> tuple[int, Found, str]:
    return ask(project, HOST)


def repository_signed_by(project: Project, key: repository.Key, name: str, work: Path) -> str:
    """A local repository on the host, as a local installer's package leaves it; its directory."""
    repository.flat(work, [], key)
    place = f"var/cuda-repo-debian13-{name}-local"
    files = {f"{place}/{path.name}": (path.read_bytes(), 0o644, 0) for path in work.iterdir()}
    files[f"{place}/key.asc"] = (key.armored.encode(), 0o644, 0)
    project.lab.podman.call(
        "cp", "--archive=false", "-", f"{project.lab.hosts[0].container}:/", stdin=archive(files)
    )
    return "/" + place


def test_a_key_that_is_bound_with_sha1(project: Project, tmp_path: Path) -> None:
    place = repository_signed_by(project, repository.key("sha1"), "sha1", tmp_path)
    root(project, f"echo 'deb [signed-by={place}/key.asc] file:{place} /' > {LIST}")
    words = update(project)
    assert "SHA1 is not considered secure since" in words

    code, findings, output = doctor(project)
    assert (code, set(findings)) == (5, {"key-sha1"}), output
    assert f"{place} is signed by {repository.key('sha1').fingerprint[-16:]}" in output
    assert findings["key-sha1"]["commands"] == [f"sudoedit {LIST}"]
    piped = subprocess.run(
        [str(BIN / "provision"), "doctor", "--log", "-"],
        cwd=project.path, input=words, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert piped.returncode == 5
    assert "[key-sha1]" in piped.stdout

    # as the cure says: an entry that nothing needs is disabled
    root(project, f"sed -i 's/^/# /' {LIST}")
    assert "failed" not in update(project)
    code, findings, output = doctor(project)
    # No finding is left; the bare host still differs from its lock.
    assert (code, findings) == (5, {}), output
    assert "no known trouble, and not as locked" in output


def test_a_key_that_was_given_to_apt_key(project: Project, tmp_path: Path) -> None:
    """The tutorial's `apt-key add`, on a release that no longer has it."""
    key = repository.key("7fa2af80")
    place = repository_signed_by(project, key, "old", tmp_path)
    root(project, f"echo 'deb file:{place} /' > {LIST}; ! apt-key add {place}/key.asc 2>/dev/null")
    # brought along from the release before
    (tmp_path / "trusted.gpg").write_bytes(key.dearmored())
    project.lab.podman.call(
        "cp", str(tmp_path / "trusted.gpg"),
        f"{project.lab.hosts[0].container}:/etc/apt/trusted.gpg",
    )  # fmt: skip
    assert "failed" in update(project)

    code, findings, output = doctor(project)
    assert (code, set(findings)) == (5, {"apt-key-gone"}), output
    install, edit = findings["apt-key-gone"]["commands"]
    assert install == "sudo install -m 0644 KEY.asc /etc/apt/keyrings/"
    assert edit.startswith(f"sudoedit {LIST}  # deb [signed-by=/etc/apt/keyrings/KEY.asc]")

    root(project, f"cp {place}/key.asc KEY.asc; {install.removeprefix('sudo ')}")
    root(project, f"sed -i 's,^deb ,deb [signed-by=/etc/apt/keyrings/KEY.asc] ,' {LIST}")
    assert "failed" not in update(project)
    code, findings, output = doctor(project)
    # No finding is left; the bare host still differs from its lock.
    assert (code, findings) == (5, {}), output
    assert "no known trouble, and not as locked" in output
