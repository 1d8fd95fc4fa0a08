"""cudnn: cuDNN from an archive whose SHA-256 is checked before it is unpacked."""

from __future__ import annotations

from typing import Any, Literal

from provision.roles.base import Options, Role, Row, State, option, state

URL = (
    "https://developer.download.nvidia.com/compute/redist/cudnn/v8.1.0/"
    "cudnn-11.2-linux-x64-v8.1.0.77.tgz"
)


class CudnnOptions(Options):
    """Public variables of the role."""

    cudnn_state: State = state()
    """absent: remove the versions that this role unpacked, and leave what was there before."""
    cudnn_version: str = option("8.1.0.77", identity=True, wish='gpu_stack: {cudnn: "8.1.0.77"}')
    """Exact cuDNN version."""
    cudnn_cuda: str = option(
        "11.2",
        identity=True,
        wish='gpu_stack: {cudnn: {version: "...", cuda: "11.2", sha256: "..."}}',
    )
    """The CUDA release the archive was built for."""
    cudnn_sha256: str = option(
        "dbe82faf071d91ba9bcf00480146ad33f462482dfee56caf4479c1b8dabe3ecb",
        identity=True,
        wish='gpu_stack: {cudnn: {version: "...", cuda: "11.2", sha256: "..."}}',
    )
    """SHA-256 of the archive."""
    cudnn_root: str = option("/opt/nvidia/cudnn", looked_at=True, path=True)
    """Directory of all cuDNN versions; `current` in it points to the one in use."""
    cudnn_layout: Literal["versioned", "cuda"] = option("versioned", looked_at=True)
    """versioned: each version in its own directory. cuda: also in CUDA's tree, as links into that
    directory, under the names that tutorials copy there.
    """
    cudnn_tree: str = option("", looked_at=True, example="/usr/local/cuda-11.8")
    """CUDA's tree for layout cuda. Empty: /usr/local/cuda-<cudnn_cuda>."""
    cudnn_urls: list[str] = option([URL], example="[https://...]")
    """URLs to download the archive from, tried in order."""
    cudnn_controller_file: str = option(
        "", example="/srv/nvidia/cudnn-11.2-linux-x64-v8.1.0.77.tgz"
    )
    """The archive as a file on the machine that runs Ansible, used instead of a URL."""
    cudnn_host_file: str = option("", example="/mnt/share/cudnn-11.2-linux-x64-v8.1.0.77.tgz")
    """The archive as a file on the host itself, used instead of a URL."""
    cudnn_keep_old: bool = option(True, looked_at=True)
    """Keep the versions that are no longer in use. False: the plan lists their removal."""
    cudnn_proxy: str = option("", example="http://proxy.example.org:3128")
    """Proxy for the download."""
    cudnn_ca_bundle: str = option("")
    """CA bundle on the host, for the download. Empty: the host's own."""
    cudnn_reinstall: bool = option(False, repair=True)
    """Unpack the archive again even if its version is installed; the plan sets it if files are
    damaged.
    """


def variables(_stack: str, row: Row) -> dict[str, Any]:
    """Identity of cuDNN in one stack."""
    cudnn = row["cudnn"]
    return {f"cudnn_{name}": cudnn[name] for name in ("version", "cuda", "sha256")}


ROLE = Role("cudnn", CudnnOptions, variables)
