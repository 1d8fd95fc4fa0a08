"""nvidia_container_toolkit: how docker and podman give GPUs to containers, by NVIDIA's packages."""

from __future__ import annotations

from typing import Any, Literal

from provision.roles import packages
from provision.roles.base import Options, Role, Row, State, option, state

_WISH = "gpu_stack: {container_toolkit: true}"


class ContainerToolkitOptions(Options):
    """Public variables of the role."""

    nvidia_container_toolkit_state: State = state()
    """absent: remove the runtime from docker's configuration, the packages and this role's files,
    and leave what was there before.
    """
    nvidia_container_toolkit_version: str = option(
        "1.20.1", identity=True, wish='gpu_stack: {container_toolkit: "1.20.1"}'
    )
    """Exact version of the toolkit."""
    nvidia_container_toolkit_packages: dict[str, str] = option({}, identity=True, wish=_WISH)
    """Exact packages as {name: version}. Empty: the toolkit's four packages, each at this version.
    """
    nvidia_container_toolkit_repository: dict[str, Any] = option({}, identity=True, wish=_WISH)
    """NVIDIA's package repository as {url, suite, key, fingerprints}; key is the armored text.
    Missing entries default to NVIDIA's own; its key is then downloaded from there and used only if
    its fingerprint matches (checked with gpg).
    """
    nvidia_container_toolkit_checksums: dict[str, str] = packages.checksums("index")
    nvidia_container_toolkit_hold: bool = option(True, looked_at=True)
    """Hold the packages at their versions."""
    nvidia_container_toolkit_repository_url: str = option(
        "",
        looked_at=True,
        example="https://mirror.example.org/libnvidia-container/stable/deb/amd64",
    )
    """URL of a mirror of NVIDIA's repository. Empty: the URL in
    nvidia_container_toolkit_repository.
    """
    nvidia_container_toolkit_ca_bundle: str = option(
        "", looked_at=True, example="/etc/ssl/private-mirror.pem"
    )
    """CA bundle on the host, for the repository. Empty: the host's own."""
    nvidia_container_toolkit_docker: Literal["auto", "required", "none"] = option(
        "auto", looked_at=True
    )
    """Docker's configuration. auto: register the runtime with docker if docker is installed.
    required: refuse a host without docker. none: leave docker alone.
    """
    nvidia_container_toolkit_docker_engine: Literal["check", "distribution", "docker-ce"] = option(
        "check", looked_at=True
    )
    """Docker itself. check: use docker if it is installed. distribution: install the platform's own
    docker.io if there is no docker. docker-ce: install Docker's own packages, from Docker's
    repository, if there is no docker; a host with docker.io is refused. Docker is never removed,
    and never replaced by another one.
    """
    nvidia_container_toolkit_docker_repository: dict[str, Any] = option(
        {}, looked_at=True, example='{url: "https://mirror.example.org/docker/linux/debian"}'
    )
    """Docker's package repository for docker-ce, as {url, suite, key, fingerprints, ca_bundle}; key
    is the armored text, ca_bundle a file on the host. Missing entries default to Docker's own. The
    key is used only if its fingerprint matches (checked with gpg).
    """
    nvidia_container_toolkit_containerd: Literal["auto", "required", "none"] = option(
        "auto", looked_at=True
    )
    """containerd's configuration. auto: register the runtime with containerd if kubelet, crictl or
    nerdctl is installed and CRI is enabled. required: register it wherever containerd is installed,
    and refuse a host without it. none: leave containerd alone.
    """
    nvidia_container_toolkit_containerd_default: bool = option(False, looked_at=True)
    """Make NVIDIA's runtime containerd's default, for pods that name no runtime class. false: undo
    what this option set; a default set by somebody else stays.
    """
    nvidia_container_toolkit_crio: Literal["auto", "required", "none"] = option(
        "auto", looked_at=True
    )
    """CRI-O's configuration. auto: register the runtime with CRI-O if CRI-O is installed. required:
    refuse a host without CRI-O. none: leave CRI-O alone.
    """
    nvidia_container_toolkit_cdi: Literal["auto", "required", "none"] = option(
        "auto", looked_at=True
    )
    """The CDI specification, which podman uses to give containers access to GPUs. auto: generate it
    and keep it current if podman 4.1 or newer, which reads it, is installed. required: generate it
    whether podman is installed or not, and refuse a host whose podman is too old. none: leave it
    alone.
    """
    nvidia_container_toolkit_reinstall: list[str] = packages.reinstall()
    nvidia_container_toolkit_conffiles: list[str] = packages.conffiles()
    nvidia_container_toolkit_modes: list[str] = packages.modes()


def variables(_stack: str, row: Row) -> dict[str, Any]:
    """Identity of the toolkit in one stack."""
    part = row["nvidia_container_toolkit"]
    return {
        "nvidia_container_toolkit_version": part["version"],
        "nvidia_container_toolkit_packages": part["packages"]["toolkit"],
        "nvidia_container_toolkit_repository": part["repository"],
    }


ROLE = Role("nvidia_container_toolkit", ContainerToolkitOptions, variables)
