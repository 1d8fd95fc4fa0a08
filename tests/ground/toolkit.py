"""NVIDIA's repository of the container toolkit: stand-ins under the names of its four packages.

What docker needs of them is there: the runtime, which hands over to runc, and the hook, which
dockerd looks for when it starts and runs before a container of `--gpus` begins. Both leave a line
that tells of it. No GPU is handed over: what is tried with them is the way to docker, not the GPU.
The repository is signed as NVIDIA's is: SHA-512 sums alone, a date that never changes, the key
beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.ground import deb, repository
from tests.ground.repository import Key
from tests.ground.server import Authority, WebServer

PLACE = "libnvidia-container/stable/deb/amd64"
GPGKEY = "libnvidia-container/gpgkey"
NAMES = (
    "libnvidia-container-tools",
    "libnvidia-container1",
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
)
# As NVIDIA's own packages depend on each other: in exactly their own version.
DEPENDS = {
    "libnvidia-container-tools": "libnvidia-container1 (= {v})",
    "nvidia-container-toolkit": "libnvidia-container-tools (= {v}), "
    "nvidia-container-toolkit-base (= {v})",
}
LOG = "/run/nvidia-container-stand-in.log"
_TELLS = '#!/bin/sh\n# A stand-in of a test\'s.\necho {name} "$*" >> ' + LOG + "\n"
PROGRAMS: dict[str, dict[str, str]] = {
    "libnvidia-container-tools": {"nvidia-container-cli": "exit 0\n"},
    "nvidia-container-toolkit": {"nvidia-container-runtime-hook": "exit 0\n"},
    "nvidia-container-toolkit-base": {
        "nvidia-container-runtime": 'exec runc "$@"\n',
        "nvidia-ctk": "exit 0\n",
    },
}
FIELDS = {
    "Codename": "stable",
    "Components": "main",
    "Date": "Fri, 27 Apr 2018 21:29:25 +0000",
    "Label": "NVIDIA CORPORATION <cudatools@nvidia.com>",
    "Origin": "https://nvidia.github.io/libnvidia-container/stable",
}


def package(folder: Path, name: str, version: str) -> Path:
    """One of the four, or another name with nothing in it but a text."""
    fields = {
        "Package": name,
        "Version": version,
        "Architecture": "amd64",
        "Maintainer": "NVIDIA CORPORATION <cudatools@nvidia.test>",
    }
    if name in DEPENDS:
        fields["Depends"] = DEPENDS[name].format(v=version)
    made = deb.Writer(
        folder / f"{name}_{version}_amd64.deb", {**fields, "Description": "a stand-in of a test's"}
    )
    made.file(f"usr/share/doc/{name}/stand-in", f"{name} {version}\n")
    for program, rest in PROGRAMS.get(name, {}).items():
        made.file(f"usr/bin/{program}", _TELLS.format(name=program) + rest, 0o755)
    if name == "nvidia-container-toolkit-base":
        made.file("etc/nvidia-container-runtime/config.toml", "# a stand-in of a test's\n")
    return made.close()


def lay_out(root: Path, signer: Key, versions: Sequence[str]) -> None:
    """The repository of these versions and its key, below `root`, as NVIDIA lays them out."""
    top = root / PLACE
    top.mkdir(parents=True)
    made = [package(top, name, f"{version}-1") for version in versions for name in NAMES]
    repository.write_indices(top, repository.index({f"./{path.name}": path for path in made}))
    repository.sign(top, {**FIELDS, "Architectures": "amd64"}, signer, sums=("SHA512",))
    (root / GPGKEY).write_text(signer.armored, "ascii")


@dataclass
class ToolkitSite:
    """What a test passes on."""

    web: WebServer
    key: Key

    @property
    def ca(self) -> Path:
        """The bundle a host needs, to be copied there."""
        return self.web.authority.bundle

    def repository(self) -> dict[str, object]:
        """The role's option nvidia_container_toolkit_repository (and a lock's `repository`)."""
        return {
            "url": f"{self.web.url}/{PLACE}",
            "suite": "/",
            "key": self.key.armored,
            "fingerprints": [self.key.fingerprint],
        }


@contextmanager
def serve(directory: Path, versions: Sequence[str] = ("1.17.8", "1.20.1")) -> Iterator[ToolkitSite]:
    """The repository, served to podman's hosts until the block ends."""
    root = directory / "toolkit-www"
    signer = repository.key("toolkit")
    lay_out(root, signer, versions)
    with WebServer(root, Authority(directory / "toolkit-tls")) as web:
        yield ToolkitSite(web, signer)
