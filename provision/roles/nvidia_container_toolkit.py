"""nvidia_container_toolkit: how docker and podman give GPUs to containers, by NVIDIA's packages."""

from __future__ import annotations

from typing import Any, Literal

from provision.roles.base import Options, Role, Row, option

_WISH = "gpu_stack: {container_toolkit: true}"


class ContainerToolkitOptions(Options):
    """Public variables of the role."""

    nvidia_container_toolkit_state: Literal["present", "absent"] = option(
        "present",
        "absent: take the runtime out of docker's configuration, remove the packages and this "
        "role's files, and leave what was there before.",
        looked_at=True,
    )
    nvidia_container_toolkit_version: str = option(
        "1.20.1",
        "Exact version of the toolkit.",
        identity=True,
        wish='gpu_stack: {container_toolkit: "1.20.1"}',
    )
    nvidia_container_toolkit_packages: dict[str, str] = option(
        {},
        "Exact packages as {name: version}. Empty: the toolkit's four, each in this version.",
        identity=True,
        wish=_WISH,
    )
    nvidia_container_toolkit_repository: dict[str, Any] = option(
        {},
        "NVIDIA's package repository as {url, suite, key, fingerprints}; key is the armored text. "
        "What is absent is NVIDIA's own, and its key then comes from there and is used only where "
        "its fingerprint is the right one (gpg looks).",
        identity=True,
        wish=_WISH,
    )
    nvidia_container_toolkit_checksums: dict[str, str] = option(
        {},
        "SHA-256 of each package file, as {name: 64 hex digits}. Names without one are covered by "
        "apt's signed index alone.",
        identity=True,
    )
    nvidia_container_toolkit_hold: bool = option(
        True, "Hold the packages at their versions.", looked_at=True
    )
    nvidia_container_toolkit_repository_url: str = option(
        "",
        "A mirror of NVIDIA's repository. Empty: that of nvidia_container_toolkit_repository.",
        looked_at=True,
        example="https://mirror.example.org/libnvidia-container/stable/deb/amd64",
    )
    nvidia_container_toolkit_ca_bundle: str = option(
        "",
        "CA bundle on the host, for the repository. Empty: the host's own.",
        looked_at=True,
        example="/etc/ssl/private-mirror.pem",
    )
    nvidia_container_toolkit_docker: Literal["auto", "required", "none"] = option(
        "auto",
        "Docker's configuration. auto: make the runtime known to docker where it is installed. "
        "required: refuse a host without docker. none: leave docker alone.",
        looked_at=True,
    )
    nvidia_container_toolkit_docker_engine: Literal["check", "distribution", "docker-ce"] = option(
        "check",
        "Docker itself. check: an installed docker is used. distribution: the platform's own "
        "docker.io is installed where no docker is. docker-ce: Docker's own, from Docker's "
        "repository, where no docker is; a host with docker.io is refused. It is never removed, "
        "and another docker never replaced.",
        looked_at=True,
    )
    nvidia_container_toolkit_docker_repository: dict[str, Any] = option(
        {},
        "Docker's package repository as {url, suite, key, fingerprints, ca_bundle}, for docker-ce; "
        "key is the armored text, ca_bundle a file on the host. What is absent is Docker's own. "
        "The key is used only where its fingerprint is the right one (gpg looks).",
        looked_at=True,
        example='{url: "https://mirror.example.org/docker/linux/debian"}',
    )
    nvidia_container_toolkit_containerd: Literal["auto", "required", "none"] = option(
        "auto",
        "containerd's configuration. auto: make the runtime known to it where kubelet, crictl or "
        "nerdctl is installed and CRI is enabled. required: wherever containerd is, and refuse a "
        "host without it. none: leave containerd alone.",
        looked_at=True,
    )
    nvidia_container_toolkit_crio: Literal["auto", "required", "none"] = option(
        "auto",
        "CRI-O's configuration. auto: make the runtime known to it where it is installed. "
        "required: refuse a host without CRI-O. none: leave CRI-O alone.",
        looked_at=True,
    )
    nvidia_container_toolkit_cdi: Literal["auto", "required", "none"] = option(
        "auto",
        "The CDI specification, by which podman gives GPUs to containers. auto: make it and keep "
        "it current where a podman is installed that reads it (4.1 or newer). required: make it "
        "whether podman is installed or not, and refuse a host whose podman is too old. none: "
        "leave it alone.",
        looked_at=True,
    )
    nvidia_container_toolkit_reinstall: list[str] = option(
        [],
        "Packages to install again though their version is right; the plan fills it where files "
        "of a package are missing or changed.",
        repair=True,
    )
    nvidia_container_toolkit_conffiles: list[str] = option(
        [],
        "Configuration files of these packages to restore; the old ones are kept as .dpkg-old. "
        "Only a deep look fills it.",
        repair=True,
    )
    nvidia_container_toolkit_modes: list[str] = option(
        [],
        "Directories and configuration files of these packages whose mode or owner is wrong, each "
        "with its mode (`/usr/include 0755`); installing a package again leaves both as they are.",
        repair=True,
    )


def variables(_stack: str, row: Row) -> dict[str, Any]:
    """Identity of the toolkit in one stack."""
    part = row["nvidia_container_toolkit"]
    return {
        "nvidia_container_toolkit_version": part["version"],
        "nvidia_container_toolkit_packages": part["packages"]["toolkit"],
        "nvidia_container_toolkit_repository": part["repository"],
    }


ROLE = Role("nvidia_container_toolkit", ContainerToolkitOptions, variables)
