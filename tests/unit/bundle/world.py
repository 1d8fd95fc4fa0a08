"""A small signed archive, an index of wheels and a lock of them, served over HTTP: made up.

The packages are some bytes each, since a bundle looks at their hashes alone; their stanzas have the
names that a run on Debian 12 asks for.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from provision import lock
from provision.lock.model import digest_of
from tests import called
from tests.unit.generator.signed_repository import Key, Server, served

STACK = "debian12-made-up"
CUDNN = b"cuDNN, made up"
DATE = "Sat, 21 Nov 2026 10:00:00 UTC"
# Suite -> component -> name -> (version, what it depends on, further fields).
Suites = dict[str, dict[str, dict[str, tuple[str, str, str]]]]
SUITES: Suites = {
    "bookworm": {
        "main": {
            "base-files": ("12.4", "", "Priority: required\n"),
            "libc6": ("2.36-9", "libgcc-s1", "Priority: optional\n"),
            "libgcc-s1": ("12.2.0-14", "", ""),
            "dkms": ("3.0.10-8", "gcc | c-compiler, make, kmod", ""),
            "gcc": ("4:12.2.0-3", "libc6 (>= 2.36)", "Provides: c-compiler\n"),
            "clang": ("1:14.0", "", "Provides: c-compiler (= 14)\n"),
            "make": ("4.3-4.1", "libc6", ""),
            "kmod": ("30", "", ""),
            "mawk": ("1.3.4", "", "Provides: awk\n"),
            "python3.11": ("3.11.2-6", "libc6, media-types | mime-support", ""),
            "media-types": ("10.0.0", "", ""),
            "python3.11-venv": ("3.11.2-6", "python3.11 (= 3.11.2-6)", ""),
            "ca-certificates": ("20230311", "openssl, awk", ""),
            "openssl": ("3.0.15", "", ""),
            "linux-headers-amd64": ("6.1.10-1", "linux-headers-6.1.0-10-amd64", ""),
            "linux-headers-6.1.0-10-amd64": ("6.1.10-1", "", ""),
            "nginx": ("1.22", "libc6", ""),
            "unneeded": ("1", "", ""),
        },
        "non-free": {
            "nvidia-smi": ("535.1-1", "libnvidia-ml1 (= 535.1-1)", ""),
            "libnvidia-ml1": ("535.1-1", "libc6", ""),
            "nvidia-kernel-dkms": ("535.1-1", "dkms, nvidia-firmware | unneeded", ""),
            "nvidia-firmware": ("535.1-1", "", ""),
        },
    },
    "bookworm-security": {
        "main": {
            "openssl": ("3.0.17", "", ""),
            "linux-headers-amd64": ("6.1.20-1", "linux-headers-6.1.0-20-amd64", ""),
            "linux-headers-6.1.0-20-amd64": ("6.1.20-1", "", ""),
        },
        # Newer than what is locked: a bundle has what the lock says.
        "non-free": {"nvidia-smi": ("550.9-1", "", "")},
    },
}
LOCKED = ("nvidia-smi", "libnvidia-ml1", "nvidia-kernel-dkms", "nvidia-firmware")
WHEELS = (
    "tensorflow-2.14.1-cp311-cp311-manylinux_2_17_x86_64.whl",
    "six-1.16.0-py2.py3-none-any.whl",
)


def deb(name: str, version: str) -> bytes:
    """The bytes that stand for a package."""
    return f"the package {name} {version}\n".encode() * 50


def wheel(file: str) -> bytes:
    """A wheel of nothing but its metadata, the same bytes each time."""
    project, version = file.split("-")[:2]
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, text in (
            ("METADATA", f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n"),
            ("WHEEL", f"Wheel-Version: 1.0\nGenerator: {file}\nRoot-Is-Purelib: true\n"),
            ("RECORD", ""),
        ):
            entry = zipfile.ZipInfo(f"{project}-{version}.dist-info/{name}")
            archive.writestr(entry, text)
    return made.getvalue()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass
class World:
    """The servers, and a project with a lock of what they have."""

    server: Server
    key: Key
    project: Path
    suites: Suites = field(default_factory=lambda: copied(SUITES))

    @property
    def archive(self) -> str:
        return f"{self.server.url}/debian"

    def publish(self, date: str = DATE) -> None:
        """Puts the suites as they are now on the server; what they had stays in the pool."""
        for suite, components in self.suites.items():
            release = f"Origin: Debian\nSuite: {suite}\nCodename: {suite}\nDate: {date}\n"
            release += f"Architectures: amd64\nComponents: {' '.join(components)}\nSHA256:\n"
            for component, packages in components.items():
                text = "".join(self._stanza(name, *row) for name, row in packages.items())
                body = lzma.compress(text.encode())
                path = f"{component}/binary-amd64/Packages.xz"
                self.server.files[f"/debian/dists/{suite}/{path}"] = body
                release += f" {sha256(body)} {len(body)} {path}\n"
                plain = text.encode()
                release += f" {sha256(plain)} {len(plain)} {path.removesuffix('.xz')}\n"
            self.server.files[f"/debian/dists/{suite}/InRelease"] = self.key.inline(
                release.encode()
            )

    def _stanza(self, name: str, version: str, depends: str, more: str) -> str:
        data = deb(name, version)
        path = f"pool/{name}/{name}_{version.replace(':', '%3a')}_amd64.deb"
        self.server.files[f"/debian/{path}"] = data
        text = f"Package: {name}\nVersion: {version}\nArchitecture: amd64\n{more}"
        text += f"Depends: {depends}\n" if depends else ""
        return (
            f"{text}Filename: {path}\nSize: {len(data)}\nSHA256: {sha256(data)}\n"
            "Maintainer: x <x@example.org>\nDescription: x\n\n"
        )

    def offer(self, *wheels: str) -> None:
        """An index of these wheels."""
        for file in wheels:
            self.server.files[f"/files/{file}"] = wheel(file)
            project = file.partition("-")[0]
            link = f'<a href="/files/{file}#sha256={sha256(wheel(file))}">{file}</a>'
            page = self.server.files.get(f"/simple/{project}/", b"").decode()
            self.server.files[f"/simple/{project}/"] = f"{page}{link}<br>\n".encode()

    def lock(self, **changes: Any) -> lock.Lock:
        """Locks what the servers have now; writes and returns the lock."""
        made = made_lock(self, **changes)
        (self.project / "lock.yml").write_bytes(lock.dump(made))
        return made


def copied(suites: Suites) -> Suites:
    return {s: {c: dict(packages) for c, packages in its.items()} for s, its in suites.items()}


def made_lock(
    world: World, *, platform: str = "12", packages: tuple[str, ...] = LOCKED
) -> lock.Lock:
    """A lock of the archive's driver, a cuDNN and two wheels."""
    rows = world.suites["bookworm"]["non-free"]
    requirements = ""
    for file in WHEELS:
        name, version = file.split("-")[:2]
        requirements += f"{name}=={version} \\\n    --hash=sha256:{sha256(wheel(file))}\n"
    stack = {
        "nvidia_driver": {
            "branch": "535",
            "version": "535.1",
            "packages": {
                "userspace": {name: rows[name][0] for name in packages[:2]},
                "kernel": {name: rows[name][0] for name in packages[2:]},
                "desktop": {},
            },
        },
        "cudnn": {"version": "8.7", "cuda": "11.8", "sha256": sha256(CUDNN), "soname": "x"},
        "gpu_env": {"xla_cuda_data_dir": "", "path": [], "library": []},
        "tensorflow": {
            "version": "2.14.1",
            "python": "3.11",
            "wheels": {"six": "1.16.0", "tensorflow": "2.14.1"},
            "requirements_sha256": sha256(requirements.encode()),
        },
    }
    sources = [
        {
            "url": world.archive,
            "suite": suite,
            "components": ["non-free"],
            "signed_by": [world.key.fingerprint],
            "date": DATE,
            "sha256": sha256(world.server.files[f"/debian/dists/{suite}/InRelease"]),
        }
        for suite in world.suites
    ]
    details = {
        "packages": {
            STACK: {
                name: {
                    "version": rows[name][0],
                    "sha256": sha256(deb(name, rows[name][0])),
                    "size": len(deb(name, rows[name][0])),
                    "source": "bookworm/non-free",
                }
                for name in packages
            }
        },
        "requirements": {STACK: requirements},
        "reasons": {STACK: {}},
        "sources": {STACK: sources},
    }
    where = {"distribution": "debian", "release": platform, "architecture": "x86_64"}
    lock_rows = [{"platform": where, "wish": {"tensorflow": "2.14"}, "stack": STACK}]
    stacks = {STACK: stack}
    digest = digest_of(lock_rows, stacks, details)
    slim = {"format": 1, "digest": digest, "rows": lock_rows, "stacks": stacks}
    return lock.Lock(slim, details)


@contextmanager
def made(folder: Path, key: Key, patch: pytest.MonkeyPatch) -> Iterator[World]:
    """A world with a lock, whose index of wheels uv and whose cache the program takes."""
    with served() as server:
        (folder / "project").mkdir()
        (folder / "cudnn.tgz").write_bytes(CUDNN)
        world = World(server, key, folder / "project")
        world.publish()
        world.offer(*WHEELS)
        world.lock()
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        patch.setenv("UV_DEFAULT_INDEX", f"{server.url}/simple")
        patch.setenv("UV_CACHE_DIR", str(folder / "uv"))
        for name in ("UV_FIND_LINKS", "PIP_FIND_LINKS", "UV_INDEX", "UV_EXTRA_INDEX_URL"):
            patch.delenv(name, raising=False)
        yield world


def provision(*arguments: str | Path) -> tuple[int, str]:
    """(exit code, standard output) of `provision bundle ...`; raises its error."""
    return called.provision("bundle", *arguments)


def build(world: World, folder: Path, *arguments: str | Path) -> Path:
    """A bundle of the world's lock, unsigned."""
    given = ("--from", world.project.parent / "cudnn.tgz", "--unsigned", *arguments)
    code, _ = provision(folder, "-p", world.project, *given)
    assert code == 0
    return folder


def contents(folder: Path) -> Mapping[str, bytes]:
    """Path -> bytes of a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
