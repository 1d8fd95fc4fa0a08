"""The image that is built on a host: what goes into it, and when nothing is built."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.components.gpu_workspace import image_build
from gpu_stack.components.gpu_workspace.program import places
from workspace_machine import stand_in

from tests import host_tree

FILES = Path(__file__).parents[2] / "roles" / "gpu_workspace" / "files"


SHA = "0123456789" * 6 + "abcd"
VENV = "/opt/tensorflow/2.9.3-01234567"
CUDNN = "/opt/nvidia/cudnn/8.1.0.77-cuda11.2"
LIBRARY = "/usr/lib/x86_64-linux-gnu/libcudart.so.11.0"
DEVICE = "/usr/lib/nvidia-cuda-toolkit/libdevice/libdevice.10.bc"
RELEASE = 'ID=debian\nVERSION_ID="11"\n'


def wish(**more: Any) -> dict[str, Any]:
    return {
        "reference": "gpu-workspace-built:0",
        "base": "debian@sha256:" + SHA,
        "containerfile": (FILES / "Containerfile").read_text("utf-8"),
        "packages": ["tmux"],
        "places": ["/opt/tensorflow", "/opt/nvidia/cudnn"],
        "stack": {
            "tensorflow": {"version": "2.9.3", "python": "3.9", "requirements_sha256": SHA},
            "cuda": {
                "packages": {"libcudart11.0": "11.2.152"},
                "files": {"libdevice": DEVICE},
                "sonames": ["libcudart.so.11.0"],
            },
            "cudnn": {"version": "8.1.0.77", "cuda": "11.2", "soname": "libcudnn.so.8"},
            "env": {"path": ["/usr/local/cuda-11.2/bin"], "xla": "/usr/lib/cuda"},
        },
        **more,
    }


class Machine:
    """A host's files, and the answers of its programs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.there = False
        self.versions = "libcudart11.0 11.2.152 installed\n"
        self.base = RELEASE
        self.put("/etc/os-release", RELEASE)
        self.put(VENV + "/.provision.json", json.dumps({"requirements_sha256": SHA}))
        self.put(VENV + "/bin/jupyter", "x", 0o755)
        (root / (VENV + "/bin/python").lstrip("/")).symlink_to("/usr/bin/python3.9")
        self.put(CUDNN + "/lib64/libcudnn.so.8.1.0", "dnn")
        self.put(CUDNN + "/lib64/libcudnn_static.a", "static")
        self.put(LIBRARY + ".152", "cudart")
        (root / LIBRARY.lstrip("/")).symlink_to("libcudart.so.11.0.152")
        self.put(DEVICE, "device")
        self.put("/usr/share/doc/libcudart11.0/copyright", "c")

    def put(self, path: str, text: str, mode: int = 0o644) -> None:
        host_tree.put(self.root, path, text, mode)

    def call(self, command: list[str], **_options: Any) -> tuple[int, str, str]:
        if command[:2] == ["dpkg-query", "--show"]:
            return 0, self.versions, ""
        if command[:2] == ["dpkg-query", "--listfiles"]:
            doc = "/usr/share/doc/libcudart11.0/copyright"
            return 0, "\n".join(["/.", "/usr/lib", LIBRARY, LIBRARY + ".152", doc]) + "\n", ""
        words = command[3:]
        if words[:2] == ["image", "inspect"]:
            return 0 if self.there else 1, "", ""
        if words[:1] == ["run"]:
            return 0, self.base, ""
        assert words[:1] == ["info"], words
        return 0, str(self.root) + "\n", ""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    host = Machine(tmp_path)
    stand_in(monkeypatch, tmp_path, host.call)
    return host


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], io.BytesIO]:
    """docker's words, and the context that it was given."""
    words: list[str] = []
    context = io.BytesIO()

    def streamed(command: list[str], write: Callable[[Any], None]) -> None:
        words.extend(command)
        write(context)
        context.seek(0)

    monkeypatch.setattr(image_build, "streamed", streamed)
    return words, context


def test_the_context_is_what_the_host_has(
    machine: Machine, built: tuple[list[str], io.BytesIO]
) -> None:
    assert image_build.build(wish())["built"] is True
    words, context = built
    with tarfile.open(fileobj=context) as packed:
        entries = {getmember.name: getmember for getmember in packed.getmembers()}
        conf = packed.extractfile("root/etc/ld.so.conf.d/00-gpu-workspace.conf")
        assert conf is not None
        # cuDNN's folder alone: where all look nothing has to be said.
        assert conf.read().decode() == CUDNN + "/lib64\n"
    paths = {name for name, entry in entries.items() if not entry.isdir()}
    assert paths == {
        "Containerfile",
        "root/etc/ld.so.conf.d/00-gpu-workspace.conf",
        *(f"root{VENV}/{name}" for name in (".provision.json", "bin/jupyter", "bin/python")),
        f"root{CUDNN}/lib64/libcudnn.so.8.1.0",
        *(f"root{LIBRARY}", f"root{LIBRARY}.152", f"root{DEVICE}"),
        "root/usr/lib/cuda/nvvm/libdevice/libdevice.10.bc",
    }
    assert entries[f"root{LIBRARY}"].linkname == "libcudart.so.11.0.152"
    assert {(entry.uid, entry.gid) for entry in entries.values()} == {(0, 0)}
    assert entries[f"root{VENV}/bin"].mode == 0o755
    arguments = dict(word.split("=", 1) for word in words if "=" in word)
    assert arguments == {
        "BASE": "debian@sha256:" + SHA,
        "PACKAGES": "python3.9 python3.9-venv tmux",
        "SONAMES": "libcudart.so.11.0 libcudnn.so.8",
        "FIRST": f"{VENV}/bin:/usr/local/cuda-11.2/bin",
        "XLA": "--xla_gpu_cuda_data_dir=/usr/lib/cuda",
        "TENSORFLOW": "2.9.3",
    }


def test_a_stack_whose_cuda_came_as_wheels_has_the_environment_alone(
    machine: Machine, built: tuple[list[str], io.BytesIO]
) -> None:
    stack = {"tensorflow": wish()["stack"]["tensorflow"], "env": {"path": [], "xla": ""}}
    if os.geteuid() == 0:
        os.chown(machine.root / f"{VENV}/bin/jupyter".lstrip("/"), 1234, 1234)
    image_build.build(wish(stack=stack))
    with tarfile.open(fileobj=built[1]) as packed:
        names = [
            getmember.name
            for getmember in packed.getmembers()
            if getmember.isfile() or getmember.issym()
        ]
        assert {getmember.uid for getmember in packed.getmembers()} == {0}
    assert [name for name in names if not name.startswith(f"root{VENV}/")] == [
        *("Containerfile", "root/etc/ld.so.conf.d/00-gpu-workspace.conf")
    ]
    assert "XLA=" in built[0]


def test_an_image_that_is_there_is_not_built(machine: Machine) -> None:
    machine.there = True
    assert image_build.build(wish()) == {"built": False}


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda m: setattr(m, "base", 'ID=debian\nVERSION_ID="12"\n'), "is debian 12, and this"),
        (lambda m: setattr(m, "versions", "libcudart11.0 11.2.151 installed\n"), "libcudart11.0"),
        (lambda m: setattr(m, "versions", "libcudart11.0  unknown\n"), "lock's libcudart11.0"),
        (lambda m: m.put(VENV + "/.provision.json", "{}"), "is not the environment of the lock"),
        (lambda m: m.put(VENV + "/.provision.json", "{"), "is not the environment of the lock"),
        (lambda m: os.rename(m.root / CUDNN[1:], m.root / "gone"), "this host has no /opt/nvidia"),
    ],
)
def test_what_is_not_as_locked_is_not_built_of(
    machine: Machine, harm: Callable[[Machine], None], words: str
) -> None:
    harm(machine)
    with pytest.raises(places.RefusedError, match=words):
        image_build.build(wish())


def test_a_disk_that_is_too_small_is_reported_before_the_build(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_build, "SPARE", 1 << 60)
    with pytest.raises(places.RefusedError, match="GiB free, and the build needs"):
        image_build.build(wish())


def test_a_proxy_is_handed_on_by_name_alone(
    machine: Machine, built: tuple[list[str], io.BytesIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may carry a password, and command lines are read by all."""
    monkeypatch.setenv("https_proxy", "http://me:secret@proxy.example.org:3128")
    monkeypatch.delenv("http_proxy", raising=False)
    image_build.build(wish())
    words = built[0]
    assert words[words.index("https_proxy") - 1] == "--build-arg"
    assert "http_proxy" not in words
    assert "secret" not in " ".join(words)


@pytest.mark.parametrize(
    "script", ["cat >/dev/null; seq 40; echo E: no package; exit 1", "seq 40; echo E: no package"]
)
def test_a_build_that_fails_is_reported_by_its_last_lines(script: str) -> None:
    """Also where docker ends before it has read the context."""

    def write(out: Any) -> None:
        for _ in range(64):
            out.write(b"x" * (1 << 16))

    with pytest.raises(places.RefusedError) as error:
        image_build.streamed(["/bin/sh", "-c", script], write)
    assert str(error.value).endswith("39 | 40 | E: no package")
    assert "| 12 |" not in str(error.value)


def test_a_build_that_succeeds_is_silent() -> None:
    image_build.streamed(["/bin/sh", "-c", "cat"], lambda out: out.write(b"x"))
