"""cuda: CUDA's libraries and toolkit, from the platform's packages or from NVIDIA's own."""

from __future__ import annotations

from typing import Any, Literal

from provision.roles.base import Options, Role, Row, option


class CudaOptions(Options):
    """Public variables of the role."""

    cuda_state: Literal["present", "absent"] = option(
        "present",
        "absent: remove CUDA's packages, pins and files, and leave what was there before.",
        looked_at=True,
    )
    cuda_release: str = option(
        "11.2", "CUDA release.", identity=True, wish='gpu_stack: {cuda: "11.2"}'
    )
    cuda_version: str = option(
        "11.2.2", "Exact CUDA version.", identity=True, wish='gpu_stack: {cuda: "11.2"}'
    )
    cuda_packages: dict[str, dict[str, str]] = option(
        {"runtime": {}, "toolkit": {}},
        "Exact packages as {runtime: {name: version}, toolkit: {name: version}}. "
        "Empty: the role's own table for the platform.",
        identity=True,
        wish='gpu_stack: {cuda: "11.2"}',
    )
    cuda_source: Literal["distribution", "network", "local"] = option(
        "distribution",
        "Where the packages come from. distribution: the platform's own archive. network: "
        "NVIDIA's package repository. local: NVIDIA's local installer, a package that holds a "
        "repository.",
        identity=True,
        wish="gpu_stack: {cuda_source: network}",
    )
    cuda_repository: dict[str, Any] = option(
        {},
        "NVIDIA's package repository as {url, suite, key, fingerprints}; key is the armored text. "
        "What is absent is NVIDIA's own for the platform, and its key then comes from there and is "
        "used only where its fingerprint is the right one (gpg looks).",
        identity=True,
        wish="gpu_stack: {cuda_source: network}",
    )
    cuda_installer: dict[str, Any] = option(
        {},
        "NVIDIA's local installer as {url, sha256, key, fingerprints, directory}; directory is "
        "that of the repository inside.",
        identity=True,
        wish="gpu_stack: {cuda_source: local}",
    )
    cuda_prefix: str = option(
        "",
        "Directory of the tree that NVIDIA's packages make. Empty: /usr/local/cuda-<release>.",
        identity=True,
    )
    cuda_checksums: dict[str, str] = option(
        {},
        "SHA-256 of each package file, as {name: 64 hex digits}. Names without one are covered by "
        "apt's signed indices alone.",
        identity=True,
    )
    cuda_profile: Literal["runtime", "toolkit"] = option(
        "toolkit",
        "runtime: the libraries TensorFlow opens, libcupti, libdevice and ptxas. "
        "toolkit: also nvcc and the headers.",
        looked_at=True,
    )
    cuda_hold: bool = option(
        True, "Hold the packages and keep unattended upgrades away from them.", looked_at=True
    )
    cuda_mirror: str = option(
        "",
        "URL of a package archive that has CUDA. Empty: the platform's own sources.",
        looked_at=True,
        example="http://mirror.example.org/debian",
    )
    cuda_apt_components: list[str] = option(
        ["contrib", "non-free"],
        "Archive components CUDA's packages lie in; enabled where no source has them.",
        looked_at=True,
    )
    cuda_repository_url: str = option(
        "",
        "A mirror of NVIDIA's repository, for source network. Empty: that of cuda_repository.",
        looked_at=True,
        example="https://mirror.example.org/cuda/ubuntu2004/x86_64",
    )
    cuda_installer_url: str = option(
        "",
        "Another address of NVIDIA's local installer. Empty: that of cuda_installer.",
        example="https://mirror.example.org/cuda-repo-ubuntu2004-11-2-local_11.2.2.deb",
    )
    cuda_ca_bundle: str = option(
        "",
        "CA bundle on the host, for these two addresses. Empty: the host's own.",
        looked_at=True,
        example="/etc/ssl/private-mirror.pem",
    )
    cuda_installer_directory: str = option(
        "/var/cache/provision",
        "Where the local installer is downloaded to; root alone may write there and above.",
        looked_at=True,
        path=True,
    )
    cuda_installer_keep: bool = option(
        False,
        "Keep the local installer, its repository and its source when the packages are installed.",
        looked_at=True,
    )
    cuda_keep_old: bool = option(
        True,
        "Keep the trees of other CUDA releases that came from NVIDIA's packages through this role.",
        looked_at=True,
    )
    cuda_host_compiler: str = option(
        "auto",
        "The gcc that nvcc of NVIDIA's packages calls, by its major version. auto: the platform's "
        "own, or the newest that this CUDA takes where that one is too new. none: leave it alone.",
        looked_at=True,
        example='"10"',
    )
    cuda_reinstall: list[str] = option(
        [],
        "Packages to install again though their version is right; the plan fills it where files "
        "of a package are missing or changed.",
        repair=True,
    )
    cuda_keys: list[str] = option(
        [],
        "Keys of the platform's package archive to restore from their package; the old ones are "
        "kept as .dpkg-old. The plan fills it where one is missing.",
        repair=True,
    )
    cuda_conffiles: list[str] = option(
        [],
        "Configuration files of these packages to restore; the old ones are kept as .dpkg-old. "
        "Only a deep look fills it.",
        repair=True,
    )
    cuda_modes: list[str] = option(
        [],
        "Directories and configuration files of these packages whose mode or owner is wrong, each "
        "with its mode (`/usr/include 0755`); installing a package again leaves both as they are.",
        repair=True,
    )


def variables(_stack: str, row: Row) -> dict[str, Any]:
    """Identity of CUDA in one stack."""
    cuda = row["cuda"]
    values = {
        "cuda_release": cuda["release"],
        "cuda_version": cuda["version"],
        "cuda_packages": cuda["packages"],
    }
    # Absent where the platform's own archive has it: the defaults say so.
    for name in ("source", "prefix", "repository", "installer"):
        if name in cuda:
            values[f"cuda_{name}"] = cuda[name]
    return values


ROLE = Role("cuda", CudaOptions, variables)
