"""A host that says Ubuntu: what it says, and that it says what it really is."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from gpu_stack.host import platform

from provision.locallab import identity, image, machine

FILES = identity.FOCAL.files("Debian (bullseye)")


def test_os_release_is_ubuntus() -> None:
    found = platform.os_release(FILES["/usr/lib/os-release"][0])
    assert (found["ID"], found["VERSION_ID"], found["VERSION_CODENAME"]) == (
        *("ubuntu", "20.04", "focal"),
    )


def test_the_label_says_what_the_host_is() -> None:
    text, _ = FILES[identity.CONFIG]
    assert "This host is no Ubuntu" in text
    assert "userland=Debian (bullseye)" in text


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("-cs", "focal"),
        ("-is", "Ubuntu"),
        ("--release --short", "20.04"),
        ("-d", "Description:\tUbuntu 20.04.6 LTS"),
        ("-si -r", "Ubuntu\n20.04"),
    ],
)
def test_lsb_release_answers_as_ubuntus(tmp_path: Path, options: str, expected: str) -> None:
    known = tmp_path / "lsb-release"
    known.write_text(FILES["/etc/lsb-release"][0])
    program = tmp_path / "lsb_release"
    program.write_text(FILES["/usr/bin/lsb_release"][0].replace("/etc/lsb-release", str(known)))
    done = subprocess.run(
        ["sh", str(program), *shlex.split(options)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == expected


class Images(machine.Podman):
    """podman as far as an image is made: what was asked of it."""

    def __init__(self, *, there: bool) -> None:
        super().__init__()
        self.there, self.calls = there, []

    def run(self, *arguments: str, **_: object) -> subprocess.CompletedProcess[bytes]:  # type: ignore[override]
        self.calls.append(arguments)
        missing = arguments[:2] == ("image", "exists") and not self.there
        return subprocess.CompletedProcess(arguments, int(missing), b"made\n", b"")


@pytest.mark.parametrize("there", [False, True])
def test_the_image_is_a_layer_over_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    monkeypatch.setattr(image, "_remove_old", lambda *_: None)
    podman = Images(there=there)
    image._with_identity(podman, "ubuntu2004", "sha256:base", FILES, tmp_path, machine.silent)
    created = [call for call in podman.calls if call[0] == "create"]
    if there:
        assert not created
        return
    assert created[0][1] == "sha256:base"
    assert "dpkg-divert" in created[0][-1]
    assert any(call[0] == "commit" for call in podman.calls)
    assert ("rm", "--force", "--time=0", "made") in podman.calls


def test_the_others_have_no_identity() -> None:
    assert [name for name, row in image.PLATFORMS.items() if row.identity] == ["ubuntu2004"]
    assert image.PLATFORMS["ubuntu2004"].over == "debian11"
