"""cuda: CUDA's libraries and toolkit, from the platform's packages or from NVIDIA's own."""

from __future__ import annotations

from typing import Any, Literal

from provision.roles import packages
from provision.roles.base import Options, Role, Row, State, option, state


class CudaOptions(Options):
    """Public variables of the role."""

    cuda_state: State = state()
    """absent: remove CUDA's packages, pins and files, and leave what was there before."""
    cuda_release: str = option("11.2", identity=True, wish='gpu_stack: {cuda: "11.2"}')
    """CUDA release."""
    cuda_version: str = option("11.2.2", identity=True, wish='gpu_stack: {cuda: "11.2"}')
    """Exact CUDA version."""
    cuda_packages: dict[str, dict[str, str]] = option(
        {"runtime": {}, "toolkit": {}}, identity=True, wish='gpu_stack: {cuda: "11.2"}'
    )
    """Exact packages as {runtime: {name: version}, toolkit: {name: version}}. Empty: the role's own
    table for the platform.
    """
    cuda_source: Literal["distribution", "network", "local"] = option(
        "distribution", identity=True, wish="gpu_stack: {cuda_source: network}"
    )
    """Where the packages come from. distribution: the platform's own archive. network: NVIDIA's
    package repository. local: NVIDIA's local installer, a package that holds a repository.
    """
    cuda_repository: dict[str, Any] = option(
        {}, identity=True, wish="gpu_stack: {cuda_source: network}"
    )
    """NVIDIA's package repository as {url, suite, key, fingerprints}; key is the armored text.
    Missing entries default to NVIDIA's own for the platform; its key is then downloaded from there
    and used only if its fingerprint matches (checked with gpg).
    """
    cuda_installer: dict[str, Any] = option(
        {}, identity=True, wish="gpu_stack: {cuda_source: local}"
    )
    """NVIDIA's local installer as {url, sha256, key, fingerprints, directory}; directory is the
    path of the repository inside it.
    """
    cuda_prefix: str = option("", identity=True)
    """Directory where NVIDIA's packages install CUDA. Empty: /usr/local/cuda-<release>."""
    cuda_checksums: dict[str, str] = packages.checksums("indices")
    cuda_profile: Literal["runtime", "toolkit"] = option("toolkit", looked_at=True)
    """runtime: the libraries TensorFlow opens, libcupti, libdevice and ptxas. toolkit: also nvcc
    and the headers.
    """
    cuda_hold: bool = option(True, looked_at=True)
    """Hold the packages and keep unattended upgrades away from them."""
    cuda_mirror: str = option("", looked_at=True, example="http://mirror.example.org/debian")
    """URL of a package archive that has CUDA. Empty: the platform's own sources."""
    cuda_apt_components: list[str] = option(["contrib", "non-free"], looked_at=True)
    """Archive components that contain CUDA's packages; enabled if no source has them."""
    cuda_repository_url: str = option(
        "", looked_at=True, example="https://mirror.example.org/cuda/ubuntu2004/x86_64"
    )
    """URL of a mirror of NVIDIA's repository, for source network. Empty: the URL in
    cuda_repository.
    """
    cuda_installer_url: str = option(
        "", example="https://mirror.example.org/cuda-repo-ubuntu2004-11-2-local_11.2.2.deb"
    )
    """Another URL for NVIDIA's local installer. Empty: the URL in cuda_installer."""
    cuda_ca_bundle: str = option("", looked_at=True, example="/etc/ssl/private-mirror.pem")
    """CA bundle on the host, for cuda_repository_url and cuda_installer_url. Empty: the host's own.
    """
    cuda_installer_directory: str = option("/var/cache/provision", looked_at=True, path=True)
    """Download directory for the local installer. Only root may have write access to it and its
    parents.
    """
    cuda_installer_keep: bool = option(False, looked_at=True)
    """Keep the local installer, its repository and its apt source after the packages are installed.
    """
    cuda_keep_old: bool = option(True, looked_at=True)
    """Keep the trees of other CUDA releases that this role installed from NVIDIA's packages."""
    cuda_host_compiler: str = option("auto", looked_at=True, example='"10"')
    """Major version of the gcc that nvcc from NVIDIA's packages uses. auto: the platform's own gcc,
    or the newest that this CUDA supports if that one is too new. none: leave it unchanged.
    """
    cuda_reinstall: list[str] = packages.reinstall()
    cuda_keys: list[str] = option([], repair=True)
    """Keys of the platform's package archive to restore from their package; the old ones are kept
    as .dpkg-old. The plan sets it if a key is missing.
    """
    cuda_conffiles: list[str] = packages.conffiles()
    cuda_modes: list[str] = packages.modes()


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
