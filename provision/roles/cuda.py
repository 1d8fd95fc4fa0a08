"""cuda: CUDA's libraries and toolkit from the platform's packages."""

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
    cuda_reinstall: list[str] = option(
        [],
        "Packages to install again though their version is right; the plan fills it where files "
        "of a package are gone or changed.",
        repair=True,
    )
    cuda_keys: list[str] = option(
        [],
        "Keys of the platform's package archive to take anew from their package; what is there is "
        "kept as .dpkg-old. The plan fills it where one is gone.",
        repair=True,
    )
    cuda_conffiles: list[str] = option(
        [],
        "Configuration files of these packages to take anew; what is there is kept as .dpkg-old. "
        "Only a deep look asks for it.",
        repair=True,
    )


def variables(_stack: str, row: Row) -> dict[str, Any]:
    """Identity of CUDA in one stack."""
    cuda = row["cuda"]
    return {
        "cuda_release": cuda["release"],
        "cuda_version": cuda["version"],
        "cuda_packages": cuda["packages"],
    }


ROLE = Role("cuda", "CUDA", CudaOptions, variables)
