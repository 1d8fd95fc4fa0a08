"""A cuDNN tarball for labs and demos, packed from the libraries NVIDIA publishes on PyPI.

NVIDIA's own tarballs need a login or a reachable download server. The same libraries are in
the wheel nvidia-cudnn-cu11, so a lab can prove the cudnn role with real libraries in NVIDIA's
layout, and with its own checksum in the inventory. NVIDIA changed the layout with 8.3: there is one
version here for each.
"""

from __future__ import annotations

import gzip
import lzma
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from provision.errors import InputError, MachineError
from provision.locallab.machine import Progress, locked, sha256_of, silent

VERSION = "8.5.0.96"  # the oldest on PyPI


@dataclass(frozen=True)
class Build:
    """One version: the wheel it comes from, and the layout of its archive.

    `cuda`: as in the archive's name and an inventory, a release, from 8.3 on a major version.
    """

    version: str
    cuda: str
    wheel_sha256: str  # of the file that PyPI's simple index lists for linux
    name: str
    top: str
    library: str
    license: str

    @property
    def wheel(self) -> str:
        """The requirement for the package index."""
        return f"nvidia-cudnn-cu11=={self.version}"


BUILDS = {
    build.version: build
    for build in (
        # nvidia_cudnn_cu11-8.5.0.96-2-py3-none-manylinux1_x86_64.whl, in the layout up to 8.2, as
        # real hosts with CUDA 11.2 have it
        Build(
            VERSION,
            "11.2",
            "402f40adfc6f418f9dae9ab402e773cfed9beae52333f6d86ae3107a1b9527e7",
            name=f"cudnn-11.2-linux-x64-v{VERSION}.tgz",
            top="cuda",
            library="lib64",
            license="NVIDIA_SLA_cuDNN_Support.txt",
        ),
        # nvidia_cudnn_cu11-8.7.0.84-py3-none-manylinux1_x86_64.whl (728 MB)
        Build(
            "8.7.0.84",
            "11",
            "b3e062498fbbb1c1930435a6a454c1b41c903e1e65b7063bd2b4021e8285408e",
            name="cudnn-linux-x86_64-8.7.0.84_cuda11-archive.tar.xz",
            top="cudnn-linux-x86_64-8.7.0.84_cuda11-archive",
            library="lib",
            license="LICENSE",
        ),
    )
}


@dataclass(frozen=True)
class CudnnArchive:
    """A packed archive, with what an inventory needs to ask for it."""

    path: Path
    version: str
    cuda: str
    sha256: str


Fetch = Callable[[Path], None]


def pack(
    cache_dir: Path,
    progress: Progress = silent,
    *,
    version: str = VERSION,
    fetch: Fetch | None = None,
) -> CudnnArchive:
    """The archive of one of BUILDS, from the cache or packed now.

    Packing takes a minute or two, and a download of more than half a GB. The same wheel gives the
    same bytes: names sorted, no times, no owners (but another zlib or liblzma may compress to other
    bytes). `fetch(directory)` unpacks the wheel.
    """
    if version not in BUILDS:
        raise InputError(
            "no cuDNN archive can be packed of this version",
            got=version,
            expected=", ".join(sorted(BUILDS)),
        )
    build = BUILDS[version]
    cache_dir.mkdir(parents=True, exist_ok=True)
    path = cache_dir / build.name
    record = cache_dir / (build.name + ".sha256")
    with locked(cache_dir / (build.name + ".lock")):
        if path.exists() and record.exists():
            digest = sha256_of(path)
            if record.read_text("ascii").split()[:1] == [digest]:
                return CudnnArchive(path, version, build.cuda, digest)
        with tempfile.TemporaryDirectory(dir=cache_dir, prefix="cudnn-") as name:
            work = Path(name)
            progress(f"Downloading {build.wheel} from the package index")
            if fetch is None:
                download(work, build)
            else:
                fetch(work)
            progress(f"Packing {build.name}")
            unfinished = work / "archive.part"
            write(work, unfinished, build)
            digest = sha256_of(unfinished)
            record.write_text(f"{digest}  {build.name}\n", "ascii")
            unfinished.replace(path)
    return CudnnArchive(path, version, build.cuda, digest)


def download(directory: Path, build: Build) -> None:
    """Unpack the wheel into `directory`; uv verifies its pinned hash."""
    requirements = directory / "requirements.txt"
    requirements.write_text(f"{build.wheel} --hash=sha256:{build.wheel_sha256}\n", "ascii")
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
            f"{build.wheel} could not be downloaded",
            got=done.stderr.decode("utf-8", "replace").strip()[-2000:],
            hint="it needs a Python package index (https://pypi.org, or UV_DEFAULT_INDEX)",
        )


def _compressed(raw: IO[bytes], build: Build) -> gzip.GzipFile | lzma.LZMAFile:
    """A stream into `raw`, xz or gzip by the archive's name: fast, and without a timestamp."""
    if build.name.endswith(".xz"):
        return lzma.LZMAFile(raw, "wb", preset=0)
    return gzip.GzipFile("", "wb", compresslevel=1, fileobj=raw, mtime=0)


def write(unpacked: Path, target: Path, build: Build) -> None:
    """Write the tarball of an unpacked wheel in the layout of the build."""
    wheel = unpacked / "nvidia" / "cudnn"
    headers = sorted((wheel / "include").glob("cudnn*.h"))
    libraries = sorted((wheel / "lib").glob("libcudnn*.so.8"))
    if not headers or not libraries:
        raise MachineError("the wheel holds no cuDNN", where=str(wheel), expected="libcudnn*.so.8")
    top, library = build.top, f"{build.top}/{build.library}"
    files: dict[str, Path] = {f"{top}/include/{path.name}": path for path in headers}
    links: dict[str, str] = {}
    full = ".".join(build.version.split(".")[:3])  # libcudnn.so.8.5.0
    for path in libraries:
        stem = path.name.removesuffix(".so.8")
        files[f"{library}/{stem}.so.{full}"] = path
        links[f"{library}/{stem}.so.8"] = f"{stem}.so.{full}"
        links[f"{library}/{stem}.so"] = f"{stem}.so.8"
    for path in sorted(unpacked.glob("nvidia_cudnn_cu11-*.dist-info/*icense*")):
        files[f"{top}/{build.license}"] = path
    with (
        target.open("wb") as raw,
        _compressed(raw, build) as packed,
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
