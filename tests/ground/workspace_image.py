"""An image with Jupyter as `docker save` writes one, made of Debian's files and nothing else.

Debian 12's notebook is of the generation that TensorFlow 2.9's own image has (6.4). There is no
TensorFlow in it and nothing of CUDA: what is tried with it is the workspace, not the GPU.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import tarfile
from pathlib import Path

from provision.locallab.machine import cache_directory, locked

SUITE = "bookworm"
MIRROR = "http://deb.debian.org/debian"
PACKAGES = ("jupyter-notebook", "python3-ipykernel", "openssh-server", "tmux")
# What nobody opens in a test; the layer is copied for every container where there is no overlay.
WITHOUT = ("/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/man/*")
NAME = "lab/jupyter:1"


def _recipe() -> str:
    said = json.dumps([SUITE, PACKAGES, WITHOUT, NAME])
    return hashlib.sha256(said.encode()).hexdigest()[:12]


def pack() -> Path:
    """The tar file; made once and kept in the user's cache."""
    folder = cache_directory() / "ground"
    made = folder / f"workspace-image-{_recipe()}.tar"
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "workspace-image.lock"):
        if not made.exists():
            _make(made)
    return made


def sha256(path: Path) -> str:
    """As `sha256sum` prints it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if _digest() else _slow(path)


def _digest() -> bool:
    return hasattr(hashlib, "file_digest")  # Python 3.11


def _slow(path: Path) -> str:
    state = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            state.update(block)
    return state.hexdigest()


def _make(target: Path) -> None:
    layer = target.with_suffix(f".{os.getpid()}.layer")
    part = target.with_suffix(f".{os.getpid()}.part")
    try:
        done = subprocess.run(
            [
                "mmdebstrap", "--quiet", "--variant=minbase", "--format=tar",
                "--architectures=amd64", "--include=" + ",".join(PACKAGES),
                '--aptopt=Acquire::Retries "3"',
                *(f"--dpkgopt=path-exclude={one}" for one in WITHOUT),
                SUITE, str(layer), MIRROR,
            ],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        archive(layer, part, NAME)
        part.replace(target)
    finally:
        layer.unlink(missing_ok=True)
        part.unlink(missing_ok=True)


def archive(layer: Path, target: Path, name: str) -> None:
    """One layer as an image under a name, in the format of `docker save`."""
    digest = sha256(layer)
    config = {
        "architecture": "amd64",
        "os": "linux",
        "created": "2026-01-01T00:00:00Z",
        "config": {"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    written = json.dumps(config, sort_keys=True).encode()
    identity = hashlib.sha256(written).hexdigest()
    manifest = [
        {"Config": f"{identity}.json", "RepoTags": [name], "Layers": [f"{digest}/layer.tar"]}
    ]
    with tarfile.open(target, "w") as out:
        for path, content in (
            (f"{identity}.json", written),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            out.addfile(entry, io.BytesIO(content))
        entry = tarfile.TarInfo(f"{digest}/layer.tar")
        entry.size = layer.stat().st_size
        with layer.open("rb") as file:
            out.addfile(entry, file)
