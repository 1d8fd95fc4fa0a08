"""NVIDIA's container toolkit: its repository, and the CDI specifications that podman reads."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from provision.catalog.rows import Fingerprint, Row, Sha256


class KeyFile(BaseModel):
    """The URL of a repository's key, which is trusted by its fingerprint, not by this hash."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    url: str
    sha256: Sha256


class PackageFile(BaseModel):
    """One package file, which identifies a repository's state."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    file: str
    sha256: Sha256


class ContainerToolkitRow(Row):
    """NVIDIA's container toolkit for an architecture: one repository for all platforms.

    All `packages` are of one version; `versions` are upstream's, oldest first.
    """

    architecture: str
    url: str
    suite: str
    signed_by: list[Fingerprint] = Field(min_length=1)
    keyring: KeyFile
    packages: list[str]
    versions: list[str]
    newest: PackageFile | None


class PodmanCdiRow(Row):
    """The newest CDI specification that podman reads, from one of its releases on."""

    since: str
    newest: str


PART = "nvidia_container_toolkit"
ROWS = {PART: list[ContainerToolkitRow], "podman_cdi": list[PodmanCdiRow]}
IDENTITY = {PART: ("architecture",), "podman_cdi": ("since",)}
NAMED: dict[str, tuple[str, ...]] = {}
