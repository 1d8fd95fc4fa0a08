"""An image with Jupyter as `docker save` writes one, made of Debian's files and nothing else.

Debian 12's notebook is of the generation that TensorFlow 2.9's own image has (6.4). There is no
TensorFlow in it and nothing of CUDA: what is tried with it is the workspace, not the GPU.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import IO

from provision.locallab.machine import cache_directory, locked
from tests.ground.server import WebServer

SUITE = "bookworm"
MIRROR = "http://deb.debian.org/debian"
PACKAGES = ("jupyter-notebook", "python3-ipykernel", "openssh-server", "tmux")
# What nobody opens in a test; the layer is copied for every container where there is no overlay.
WITHOUT = ("/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/man/*")
NAME = "lab/jupyter:1"


def pack() -> Path:
    """The tar file; made once and kept in the user's cache."""
    return _packed(SUITE, PACKAGES, NAME)


def pack_base() -> Path:
    """A plain Debian 11 as a tar file: what an image is built upon."""
    return _packed("bullseye", (), "lab/debian:11")


def _packed(suite: str, packages: tuple[str, ...], name: str) -> Path:
    made_of = json.dumps([suite, packages, WITHOUT, name])
    recipe = hashlib.sha256(made_of.encode()).hexdigest()[:12]
    folder = cache_directory() / "ground"
    made = folder / f"workspace-image-{recipe}.tar"
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "workspace-image.lock"):
        if not made.exists():
            _make(made, suite, packages, name)
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


def _make(target: Path, suite: str, packages: tuple[str, ...], name: str) -> None:
    layer = target.with_suffix(f".{os.getpid()}.layer")
    part = target.with_suffix(f".{os.getpid()}.part")
    try:
        done = subprocess.run(
            [
                "mmdebstrap", "--quiet", "--variant=minbase", "--format=tar",
                "--architectures=amd64", *(f"--include={package}" for package in packages),
                '--aptopt=Acquire::Retries "3"',
                *(f"--dpkgopt=path-exclude={pattern}" for pattern in WITHOUT),
                suite, str(layer), MIRROR,
            ],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        archive(layer, part, name)
        part.replace(target)
    finally:
        layer.unlink(missing_ok=True)
        part.unlink(missing_ok=True)


def publish(image: Path, web: WebServer) -> str:
    """The image in a registry at this server, and the name by which docker pulls it.

    A registry is read by plain GETs: the manifest by its digest, with its own content type, and
    blobs by theirs (https://distribution.github.io/distribution/spec/api/).
    """
    blobs = web.root / "v2/lab/jupyter/blobs"
    blobs.mkdir(parents=True)
    with tarfile.open(image) as packed:
        listed = json.loads(_member(packed, "manifest.json").read())[0]
        config = _member(packed, listed["Config"]).read()
        (blobs / f"sha256:{hashlib.sha256(config).hexdigest()}").write_bytes(config)
        digest = listed["Layers"][0].split("/")[0]
        layer = blobs / f"sha256:{digest}"
        with layer.open("wb") as out:
            shutil.copyfileobj(_member(packed, listed["Layers"][0]), out, 1 << 20)
    kinds = "application/vnd.docker"
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": f"{kinds}.distribution.manifest.v2+json",
            "config": {
                "mediaType": f"{kinds}.container.image.v1+json",
                "size": len(config),
                "digest": f"sha256:{hashlib.sha256(config).hexdigest()}",
            },
            "layers": [
                {
                    "mediaType": f"{kinds}.image.rootfs.diff.tar.gzip",
                    "size": layer.stat().st_size,
                    "digest": f"sha256:{digest}",
                }
            ],
        }
    ).encode()
    name = f"sha256:{hashlib.sha256(manifest).hexdigest()}"
    web.instead["/v2"] = (200, "application/json", b"{}")
    web.instead[f"/v2/lab/jupyter/manifests/{name}"] = (
        *(200, f"{kinds}.distribution.manifest.v2+json", manifest),
    )
    return f"{web.url.removeprefix('https://')}/lab/jupyter@{name}"


def _member(packed: tarfile.TarFile, name: str) -> IO[bytes]:
    found = packed.extractfile(name)
    assert found is not None, name
    return found


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
