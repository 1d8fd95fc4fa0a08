"""Archives like NVIDIA's, small; and whatever else can stand in their place."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

from gpu_stack.components.cudnn.layout import Version

VERSION = "8.1.0.77"
CUDA = "11.2"
NAME = "8.1.0.77-cuda11.2"
HEADER = b"""\
#define CUDNN_MAJOR 8
#define CUDNN_MINOR 1
#define CUDNN_PATCHLEVEL 0
"""
LIBRARY = b"\x7fELF" + b"library" * 1000

Member = tuple[tarfile.TarInfo, bytes | None]


def file(name: str, content: bytes = b"x", mode: int = 0o644) -> Member:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    member.mode = mode
    return member, content


def directory(name: str) -> Member:
    member = tarfile.TarInfo(name)
    member.type = tarfile.DIRTYPE
    member.mode = 0o700
    return member, None


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> Member:
    member = tarfile.TarInfo(name)
    member.type = kind
    member.linkname = target
    return member, None


def special(name: str, kind: bytes) -> Member:
    member = tarfile.TarInfo(name)
    member.type = kind
    return member, None


def nvidia(library: str = "lib64", header: bytes = HEADER) -> list[Member]:
    """The layout of NVIDIA's archives, small; modes as odd as theirs."""
    return [
        directory("cuda"),
        directory("cuda/include"),
        file("cuda/include/cudnn_version.h", header, 0o600),
        file(f"cuda/{library}/libcudnn.so.8.1.0", LIBRARY, 0o700),
        link(f"cuda/{library}/libcudnn.so.8", "libcudnn.so.8.1.0"),
        link(f"cuda/{library}/libcudnn.so", "libcudnn.so.8"),
    ]


def pack(path: Path, members: list[Member], compression: str = "gz") -> str:
    """Write an archive; returns its SHA-256."""
    with tarfile.open(path, f"w:{compression}") as stream:  # type: ignore[call-overload]
        for member, content in members:
            stream.addfile(member, None if content is None else io.BytesIO(content))
    return hashlib.sha256(path.read_bytes()).hexdigest()


def wish(root: Path, sha256: str, version: str = VERSION, cuda: str = CUDA) -> Version:
    return Version(str(root), version, cuda, sha256)


def everything(path: Path) -> set[str]:
    return {str(found.relative_to(path)) for found in path.rglob("*")}
