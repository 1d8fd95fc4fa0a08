"""All that NVIDIA's and Canonical's servers have, for one test session, behind one web server."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from provision.locallab import cudnn_archive
from provision.locallab.machine import cache_directory
from tests.ground import cuda, deb, drivers, localdeb, repository, runfile
from tests.ground.repository import Key
from tests.ground.server import Authority, WebServer

NVIDIA = "https://developer.download.nvidia.com"
CUDA = "compute/cuda/repos/ubuntu2004/x86_64"
PIN = """\
Package: nsight-compute
Pin: origin *ubuntu.com*
Pin-Priority: -1

Package: nsight-systems
Pin: origin *ubuntu.com*
Pin-Priority: -1

Package: *
Pin: release l=NVIDIA CUDA
Pin-Priority: 600
"""


@dataclass
class Site:
    """What a test passes on: URLs, the CA's bundle, keys; and how to make the site fail."""

    root: Path
    web: WebServer
    key: Key
    old_key: Key

    @property
    def url(self) -> str:
        return self.web.url

    @property
    def ca(self) -> Path:
        """The bundle a host needs, to be copied there: `*_ca_bundle` is its path on the host."""
        return self.web.authority.bundle

    @property
    def cuda_url(self) -> str:
        """What stands for https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2004/x86_64."""
        return f"{self.url}/{CUDA}"

    def cuda_repository(self) -> dict[str, object]:
        """The role's option cuda_repository (and a lock's `repository`)."""
        return {
            "url": self.cuda_url, "suite": "/", "key": self.key.armored,
            "fingerprints": [self.key.fingerprint],
        }  # fmt: skip

    def local_installer(self, release: str = "11.2") -> dict[str, object]:
        """The role's option cuda_installer, of a package at NVIDIA's path."""
        path = localdeb.build(release, self.old_key)
        version = cuda.RELEASES[release].version
        url = self._serve(f"compute/cuda/{version}/local_installers/{path.name}", path)
        return {
            "url": url, "sha256": sha256(path), "key": self.old_key.armored,
            "fingerprints": [self.old_key.fingerprint],
            "directory": localdeb.directory(release),
        }  # fmt: skip

    def runfile(self, branch: str = "470") -> dict[str, object]:
        """The role's option nvidia_driver_runfile, of a .run at NVIDIA's paths."""
        path = runfile.build(branch)
        version = drivers.BRANCHES[branch].version
        self._serve(f"XFree86/Linux-x86_64/{version}/{path.name}", path)
        url = self._serve(f"tesla/{version}/{path.name}", path)
        return {"url": url, "sha256": sha256(path)}

    def cudnn(self, version: str = cudnn_archive.VERSION) -> dict[str, object]:
        """A cuDNN tarball of the lab's at the path of NVIDIA's that asks for no login."""
        made = cudnn_archive.pack(cache_directory(), version=version)
        short = ".".join(version.split(".")[:3])
        url = self._serve(f"compute/redist/cudnn/v{short}/{made.path.name}", made.path)
        return {"url": url, "sha256": made.sha256, "version": made.version, "cuda": made.cuda}

    def ubuntu(self, extra: Iterable[Path] = (), modules: Iterable[Path] = ()) -> dict[str, object]:
        """Canonical's archive: focal, focal-updates and focal-security with the -server packages.

        `extra` packages go into universe; `modules` (of `drivers.modules`) take the places of those
        that hold nothing. URL, key and fingerprints, as a repository's.
        """
        signer = repository.key("ubuntu", "Ubuntu Archive <ftpmaster@ubuntu.test>")
        named = {path.name: path for path in repository.packages_of(drivers.build("canonical"))}
        packages = list((named | {path.name: path for path in modules}).values())
        kernel = [path for path in packages if path.name.startswith(("linux-h", "linux-i"))]
        components: dict[str, Iterable[Path]] = {
            "main": kernel,
            "restricted": [path for path in packages if path not in kernel],
            "universe": list(extra),
            "multiverse": [],
        }
        for suite in ("focal", "focal-updates", "focal-security"):
            inside = dict.fromkeys(components, ()) if suite == "focal" else components
            repository.suites(self.root / "ubuntu", suite, inside, signer)
        return {
            "url": f"{self.url}/ubuntu", "suite": "focal-updates", "key": signer.armored,
            "fingerprints": [signer.fingerprint],
        }  # fmt: skip

    def path(self, url: str) -> str:
        """The path that `web` counts and fails for one of the site's URLs."""
        return url.removeprefix(self.url)

    def _serve(self, place: str, path: Path) -> str:
        link = self.root / place
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(path)
        return f"{self.url}/{place}"

    @property
    def expired_key(self) -> Key:
        return repository.key("expired")

    @property
    def sha1_key(self) -> Key:
        return repository.key("sha1")

    def spoil(self, how: str) -> None:
        """Sign NVIDIA's repository otherwise.

        "expired": Valid-Until has passed. "expired-key": by a key of 2020 (`expired_key`), which
        then is 3bf863cc.pub too. "sha1-key": by one bound with SHA-1 (`sha1_key`), likewise.
        "wrong-key": by another than 3bf863cc.pub. "unsigned": no signatures. "damaged": the index
        is another than its checksum says. "none": as it was.
        """
        top = self.root / CUDA
        text = (top / "Packages").read_text("utf-8").removeprefix(DAMAGE)
        repository.write_indices(top, text)
        fields = dict(FIELDS)
        signer = self.key
        if how == "expired":
            fields |= {"Date": "Fri, 01 Jan 2021 00:00:00 UTC"}
            fields |= {"Valid-Until": "Fri, 08 Jan 2021 00:00:00 UTC"}
        elif how == "expired-key":
            signer = self.expired_key
        elif how == "sha1-key":
            signer = self.sha1_key
        elif how == "wrong-key":
            signer = repository.key("stranger", "Somebody Else <else@example.test>")
        published = signer if how in {"expired-key", "sha1-key"} else self.key
        (top / "3bf863cc.pub").write_text(published.armored, "ascii")
        repository.sign(top, fields, signer)
        if how == "unsigned":
            for name in ("InRelease", "Release.gpg"):
                (top / name).unlink()
        elif how == "damaged":
            repository.write_indices(top, DAMAGE + text)


def sha256(path: Path) -> str:
    """A file's SHA-256; kept beside it."""
    beside = path.with_name(path.name + ".sha256")
    if not beside.exists() or beside.stat().st_mtime < path.stat().st_mtime:
        beside.write_text(deb.digests(path)["SHA256"], "ascii")
    return beside.read_text("ascii").split()[0]


FIELDS = {"Origin": "NVIDIA", "Label": "NVIDIA CUDA", "Architecture": "x86_64"}
DAMAGE = "Package: none\n\n"


def lay_out(root: Path, packages: Iterable[Path], signer: Key, url: str = NVIDIA) -> None:
    """NVIDIA's network repository of these packages, below `root`; `url` is its server's."""
    top = root / CUDA
    top.mkdir(parents=True)
    keyring = keyring_package(top / "cuda-keyring_1.1-1_all.deb", f"{url}/{CUDA}", signer)
    repository.flat(top, [*packages, keyring], signer)
    (top / "3bf863cc.pub").write_text(signer.armored, "ascii")
    (top / "7fa2af80.pub").write_text(repository.key("7fa2af80").armored, "ascii")
    (top / "cuda-ubuntu2004.pin").write_text(PIN, "ascii")


def keyring_package(target: Path, url: str, signer: Key) -> Path:
    """cuda-keyring: the key, the list that names it, and the pin."""
    fields = {
        "Package": "cuda-keyring", "Version": "1.1-1", "Architecture": "all",
        "Maintainer": "cudatools <cudatools@nvidia.com>", "Section": "devel",
        "Priority": "optional", "Description": "GPG keyring for the CUDA repository",
    }  # fmt: skip
    made = deb.Writer(target, fields)
    made.file("usr/share/keyrings/cuda-archive-keyring.gpg", signer.dearmored())
    line = f"deb [signed-by=/usr/share/keyrings/cuda-archive-keyring.gpg] {url}/ /\n"
    made.file("etc/apt/sources.list.d/cuda-ubuntu2004-x86_64.list", line)
    made.file("etc/apt/preferences.d/cuda-repository-pin-600", PIN)
    return made.close()


@contextmanager
def serve(directory: Path | None = None, *, releases: Sequence[str] = ("11.2",)) -> Iterator[Site]:
    """The site, served to podman's hosts until the block ends."""
    with tempfile.TemporaryDirectory(dir=directory, prefix="ground-") as name:
        root = Path(name, "www")
        signer = repository.key("3bf863cc")
        with WebServer(root, Authority(Path(name, "tls"))) as web:
            built = [drivers.build("nvidia"), *(cuda.build(release) for release in releases)]
            packages = repository.packages_of(*built)
            lay_out(root, packages, signer, web.url)
            yield Site(root, web, signer, repository.key("7fa2af80"))
