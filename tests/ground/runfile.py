"""NVIDIA-Linux-x86_64-VERSION.run: a shell script with an archive behind it, as NVIDIA's is.

The libraries, programs and the module's source are the driver's own (drivers.py); the installer is
a script that takes nvidia-installer's options and answers with its words and exit codes. It keeps
its records in /var/lib/nvidia and its log in /var/log/nvidia-installer.log. Without headers of the
running kernel only --no-kernel-module works, as with the real one.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from pathlib import Path

from tests.ground import cache, deb, debian, drivers

HERE = Path(__file__).parent


def name(branch: str) -> str:
    return f"NVIDIA-Linux-x86_64-{drivers.BRANCHES[branch].version}.run"


def build(branch: str) -> Path:
    """The .run file of a branch."""
    scripts = [(HERE / f"runfile_{name}.sh").read_text("utf-8") for name in ("header", "installer")]
    row = drivers.BRANCHES[branch]
    pins = [debian.pinned()[row.suite, name] for name in drivers.DEBIAN]

    def fill(place: Path) -> None:
        write(place / name(branch), row.version, drivers.parts(branch), *scripts)
        drivers.parts.cache_clear()

    recipes = (__file__, drivers.__file__, deb.__file__)
    return cache.kept(f"run-{branch}", recipes, [*scripts, *pins], fill) / name(branch)


def write(
    target: Path,
    version: str,
    contents: drivers.Parts,
    header: str,
    installer: str,
) -> None:
    """One self-extractor of these libraries, programs and sources."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile("", "wb", compresslevel=1, fileobj=packed, mtime=0) as raw,
        tarfile.open(fileobj=raw, mode="w", format=tarfile.GNU_FORMAT) as tar,
    ):
        program = installer.replace("@VERSION@", version).encode()
        _add(tar, "nvidia-installer", drivers.Member(program, 0o755))
        for part, members in contents.items():
            for path, member in members.items():
                _add(tar, f"{part}/{path}", member)
    data = packed.getvalue()
    total = sum(len(member.data) for part in contents.values() for member in part.values())
    said = {
        "@VERSION@": version,
        "@MD5@": hashlib.md5(data).hexdigest(),  # noqa: S324 - what NVIDIA's has
        "@SIZE@": str(total // 1024),
        "@SKIP@": str(header.count("\n") + 1),
    }
    for word, value in said.items():
        header = header.replace(word, value)
    target.write_bytes(header.encode() + data)
    target.chmod(0o755)


def _add(tar: tarfile.TarFile, path: str, member: drivers.Member) -> None:
    entry = tarfile.TarInfo(path)
    entry.mtime, entry.mode = deb.TIME, member.mode
    if member.link:
        entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, member.link, 0o777
        tar.addfile(entry)
    else:
        entry.size = len(member.data)
        tar.addfile(entry, io.BytesIO(member.data))
