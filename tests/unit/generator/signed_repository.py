"""Small signed repositories with NVIDIA's names and layout, made at test time, and who serves them.

The packages are stanzas alone: a lock reads indices. The keys are of the test.
"""

from __future__ import annotations

import gzip
import hashlib
import http.server
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.served import Quiet, serving

NETWORK = "/compute/cuda/repos/ubuntu2004/x86_64"
NAME = "cuda-repo-ubuntu2004-11-2-local_11.2.2-460.32.03-1_amd64.deb"
LOCAL = f"/compute/cuda/11.2.2/local_installers/{NAME}"
DIRECTORY = "/var/cuda-repo-ubuntu2004-11-2-local"
# Name -> version, what it depends on. What is not here is the platform's (libc6, build-essential).
CUDA = {
    "cuda-toolkit-11-2": ("11.2.2-1", "cuda-nvcc-11-2, cuda-libraries-11-2, cuda-cupti-11-2"),
    "cuda-libraries-11-2": (
        "11.2.2-1",
        "cuda-cudart-11-2, libcublas-11-2, libcufft-11-2, libcurand-11-2, libcusolver-11-2, "
        "libcusparse-11-2",
    ),
    "cuda-nvcc-11-2": ("11.2.152-1", "build-essential, cuda-cudart-11-2"),
    "cuda-cudart-11-2": ("11.2.152-1", "libc6"),
    "libcublas-11-2": ("11.4.1.1043-1", ""),
    "libcufft-11-2": ("10.4.1.152-1", ""),
    "libcurand-11-2": ("10.2.3.152-1", ""),
    "libcusolver-11-2": ("11.1.0.152-1", "libcublas-11-2, libcusparse-11-2"),
    "libcusparse-11-2": ("11.4.1.1152-1", ""),
    "cuda-cupti-11-2": ("11.2.152-1", ""),
}
DRIVER = {
    "nvidia-utils-470": "libnvidia-compute-470",
    "libnvidia-compute-470": "libc6",
    "nvidia-compute-utils-470": "libnvidia-compute-470",
    "nvidia-dkms-470": "dkms, nvidia-kernel-common-470 (= {v}), nvidia-kernel-source-470",
    "nvidia-kernel-common-470": "",
    "nvidia-kernel-source-470": "",
    "nvidia-driver-470": "nvidia-dkms-470, nvidia-settings, xserver-xorg-video-nvidia-470",
    "xserver-xorg-video-nvidia-470": "xserver-xorg-core",
    "nvidia-settings": "",
}


def stanza(name: str, version: str, depends: str = "", source: str = "") -> str:
    """A package of an index; its hash is of its name and version."""
    lines = [f"Package: {name}", f"Version: {version}", "Architecture: amd64"]
    lines += [f"Source: {source}"] if source else []
    lines += [f"Depends: {depends}"] if depends else []
    digest = hashlib.sha256(f"{name} {version}".encode()).hexdigest()
    lines += [f"Filename: ./{name}_{version}_amd64.deb", "Size: 1000", f"SHA256: {digest}"]
    return "\n".join(lines) + "\n\n"


def packages(
    cuda: Mapping[str, tuple[str, str]] = CUDA, drivers: tuple[str, ...] = ("470.256.02",)
) -> str:
    """The text of an index: CUDA 11.2, and drivers of 470 with a stranger's nvidia-settings."""
    text = "".join(stanza(name, *rest) for name, rest in cuda.items())
    for version in drivers:
        for name, depends in DRIVER.items():
            full = f"{version}-0ubuntu1"
            text += stanza(name, full, depends.format(v=full), f"nvidia-graphics-drivers-{name}")
    return text + stanza("nvidia-settings", "595.71.05-0ubuntu1")


class Key:
    """A signing key in a keyring of its own."""

    def __init__(self, home: Path, name: str = "test", *, expires: str = "never") -> None:
        self.home = home
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._expires = expires
        until = "2020-06-01" if expires == "past" else "never"
        self._gpg(["--quick-gen-key", f"{name} <{name}@example.org>", "ed25519", "sign", until])
        listed = self._gpg(["--list-keys", "--with-colons"]).decode()
        self.fingerprint = next(
            line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr:")
        )
        self.armored = self._gpg(["--armor", "--export"])
        self.binary = self._gpg(["--export"])

    def _gpg(self, arguments: list[str], data: bytes = b"") -> bytes:
        command = ["gpg", "--homedir", str(self.home), "--batch", "--quiet", "--no-tty"]
        command += ["--pinentry-mode", "loopback", "--passphrase", ""]
        if self._expires == "past":
            command += ["--faked-system-time", "20200101T000000!"]
        done = subprocess.run(command + arguments, input=data, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    def inline(self, text: bytes) -> bytes:
        return self._gpg(["--clearsign"], text)

    def detached(self, text: bytes) -> bytes:
        return self._gpg(["--armor", "--detach-sign"], text)


def repository(
    key: Key, text: str, *, fields: str = "", label: str = "NVIDIA CUDA", detached: bool = False
) -> dict[str, bytes]:
    """The files of a flat repository."""
    files = {"Packages": text.encode(), "Packages.gz": gzip.compress(text.encode(), mtime=0)}
    fields = f"Label: {label}\n{fields}"
    release = f"Origin: NVIDIA\nDate: Fri, 20 Nov 2026 10:00:00 UTC\n{fields}SHA256:\n"
    for name, data in files.items():
        release += f" {hashlib.sha256(data).hexdigest()} {len(data)} {name}\n"
    signed = release.encode()
    if detached:
        return {**files, "Release": signed, "Release.gpg": key.detached(signed)}
    return {**files, "InRelease": key.inline(signed)}


def installer(
    folder: Path,
    key: Key,
    text: str,
    *,
    key_file: str = "7fa2af80.pub",
    detached: bool = False,
    label: str = "NVIDIA CUDA",
    directory: str = DIRECTORY,
) -> bytes:
    """A local installer, as dpkg-deb makes it."""
    root = folder / "root"
    inside = root / directory.removeprefix("/")
    inside.mkdir(parents=True)
    (root / "DEBIAN").mkdir()
    (root / "DEBIAN" / "control").write_text(
        "Package: cuda-repo-ubuntu2004-11-2-local\nVersion: 11.2.2-460.32.03-1\n"
        "Architecture: amd64\nMaintainer: x <x@example.org>\nDescription: x\n"
    )
    for name, data in repository(key, text, detached=detached, label=label).items():
        (inside / name).write_bytes(data)
    armored = key_file.endswith(".pub")
    (inside / key_file).write_bytes(key.armored if armored else key.binary)
    (inside / "cuda-cudart-11-2_11.2.152-1_amd64.deb").write_bytes(b"not read")
    file = folder / NAME
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(root), str(file)],
        check=True,
        capture_output=True,
    )
    return file.read_bytes()


class Server:
    """Files by their paths over HTTP, with ranges; `breaks` answers end after so many bytes."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[tuple[str, str]] = []
        self.breaks: list[int] = []
        self.url = ""

    def add(self, folder: str, files: Mapping[str, bytes]) -> None:
        self.files |= {f"{folder}/{name}": data for name, data in files.items()}


@contextmanager
def served() -> Iterator[Server]:
    server = Server()

    class Handler(Quiet, http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range", "")
            server.asked.append((self.path, asked))
            data = server.files.get(self.path)
            if data is None:
                self.send_error(404)
                return
            tag = f'"{hashlib.sha256(data).hexdigest()[:8]}"'
            begin = 0
            if asked and self.headers.get("If-Range") == tag:
                begin = int(asked.removeprefix("bytes=").removesuffix("-"))
            self.send_response(206 if begin else 200)
            self.send_header("ETag", tag)
            self.send_header("Content-Length", str(len(data) - begin))
            if self.path.endswith("/"):
                # Without it uv takes a page for no index.
                self.send_header("Content-Type", "text/html")
            self.end_headers()
            body = data[begin:]
            self.wfile.write(body[: server.breaks.pop(0)] if server.breaks else body)

    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{web.server_port}"
    with serving(web):
        yield server
