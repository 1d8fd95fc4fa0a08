"""A cuDNN tarball for labs and demos, packed from the libraries NVIDIA publishes on PyPI.

NVIDIA's own tarballs need a login or a reachable download server. The same libraries are in
the wheel nvidia-cudnn-cu11, so a lab can prove the cudnn role with real libraries in NVIDIA's
very layout, and with a checksum of its own in the inventory.
"""

from __future__ import annotations

import gzip
import hashlib
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from provision.errors import MachineError
from provision.locallab.machine import Progress, locked, silent

VERSION = "8.5.0.96"  # the oldest on PyPI
CUDA = "11.2"
WHEEL = f"nvidia-cudnn-cu11=={VERSION}"
# nvidia_cudnn_cu11-8.5.0.96-2-py3-none-manylinux1_x86_64.whl, from PyPI's simple index
WHEEL_SHA256 = "402f40adfc6f418f9dae9ab402e773cfed9beae52333f6d86ae3107a1b9527e7"
NAME = f"cudnn-{CUDA}-linux-x64-v{VERSION}.tgz"
LICENSE = "NVIDIA_SLA_cuDNN_Support.txt"


@dataclass(frozen=True)
class CudnnArchive:
    """What an inventory needs to wish for it."""

    path: Path
    version: str
    cuda: str
    sha256: str


Fetch = Callable[[Path], None]


def pack(
    cache_dir: Path, progress: Progress = silent, *, fetch: Fetch | None = None
) -> CudnnArchive:
    """The archive, from the cache or packed now (a minute, and a download of half a GB).

    The same wheel gives the same bytes: names sorted, no times, no owners (another zlib may
    compress differently; the checksum is then another). `fetch(directory)` unpacks the wheel.
    """
    cache_dir.mkdir(parents=True, exist_ok=True)
    path = cache_dir / NAME
    record = cache_dir / (NAME + ".sha256")
    with locked(cache_dir / (NAME + ".lock")):
        if path.exists() and record.exists():
            digest = _sha256(path)
            if record.read_text("ascii").split()[:1] == [digest]:
                return CudnnArchive(path, VERSION, CUDA, digest)
        with tempfile.TemporaryDirectory(dir=cache_dir, prefix="cudnn-") as name:
            work = Path(name)
            progress(f"Downloading {WHEEL} from the package index")
            (fetch or download)(work)
            progress(f"Packing {NAME}")
            unfinished = work / "archive.part"
            write(work, unfinished)
            digest = _sha256(unfinished)
            record.write_text(f"{digest}  {NAME}\n", "ascii")
            unfinished.replace(path)
    return CudnnArchive(path, VERSION, CUDA, digest)


def download(directory: Path) -> None:
    """Unpack the wheel into `directory`; uv refuses one whose hash is not the pinned."""
    requirements = directory / "requirements.txt"
    requirements.write_text(f"{WHEEL} --hash=sha256:{WHEEL_SHA256}\n", "ascii")
    done = subprocess.run(
        [
            sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-cache", "--no-deps",
            "--require-hashes", "--only-binary=:all:",
            "--python-platform=x86_64-unknown-linux-gnu",
            f"--target={directory}", f"--requirements={requirements}",
        ],
        capture_output=True,
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise MachineError(
            f"{WHEEL} could not be downloaded",
            got=done.stderr.decode("utf-8", "replace").strip()[-2000:],
            hint="it needs a Python package index (https://pypi.org, or UV_DEFAULT_INDEX)",
        )


def write(unpacked: Path, target: Path) -> None:
    """Write the tarball of an unpacked wheel in NVIDIA's layout: cuda/include, cuda/lib64."""
    wheel = unpacked / "nvidia" / "cudnn"
    headers = sorted((wheel / "include").glob("cudnn*.h"))
    libraries = sorted((wheel / "lib").glob("libcudnn*.so.8"))
    if not headers or not libraries:
        raise MachineError("the wheel holds no cuDNN", where=str(wheel), expected="libcudnn*.so.8")
    files: dict[str, Path] = {f"cuda/include/{path.name}": path for path in headers}
    links: dict[str, str] = {}
    full = ".".join(VERSION.split(".")[:3])  # libcudnn.so.8.5.0
    for path in libraries:
        stem = path.name.removesuffix(".so.8")
        files[f"cuda/lib64/{stem}.so.{full}"] = path
        links[f"cuda/lib64/{stem}.so.8"] = f"{stem}.so.{full}"
        links[f"cuda/lib64/{stem}.so"] = f"{stem}.so.8"
    for path in sorted(unpacked.glob("nvidia_cudnn_cu11-*.dist-info/*icense*")):
        files[f"cuda/{LICENSE}"] = path
    with (
        target.open("wb") as raw,
        gzip.GzipFile("", "wb", compresslevel=1, fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for name in sorted({*files, *links}):
            entry = tarfile.TarInfo(name)
            if name in links:
                entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, links[name], 0o777
                tar.addfile(entry)
                continue
            entry.size = files[name].stat().st_size
            entry.mode = 0o755 if ".so" in name else 0o644
            with files[name].open("rb") as content:
                tar.addfile(entry, content)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as handle:
        for chunk in iter(lambda: handle.read(1 << 20), b""):
            digest.update(chunk)
    return digest.hexdigest()
