"""gpu_workspace: a container with Jupyter for each person of a host, kept by systemd."""

from __future__ import annotations

import re
from typing import Any, Literal

from provision.roles.base import Options, Role, Row, option
from provision.roles.slurm import GPU_SHARE
from provision.roles.workspaces_on_hosts import is_shared_place, locked, people, size

_PULLED = re.compile(r"[a-z0-9][a-z0-9._:/-]*@sha256:[0-9a-f]{64}")


def _people(value: object) -> str | None:
    try:
        people(value)
    except ValueError as error:
        return str(error)
    return None


def image_fault(value: object) -> str | None:
    """What is wrong with the name of an image to pull, or None; "" is none."""
    if value == "" or (isinstance(value, str) and _PULLED.fullmatch(value)):
        return None
    return (
        f"{value!r} names no one image; expected NAME@sha256:<64 hex digits>, as `docker image "
        "inspect` lists it under RepoDigests"
    )


def _sha256(value: object) -> str | None:
    if value == "" or (isinstance(value, str) and re.fullmatch(r"[0-9a-f]{64}", value)):
        return None
    return f"{value!r} is no SHA-256; expected the 64 lower-case hex digits of `sha256sum FILE`"


def _packages(value: object) -> str | None:
    names = value if isinstance(value, list) else [None]
    for name in names:
        if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", name):
            return f"{name!r} is no name of a package"
    return None


def _size(value: object) -> str | None:
    return None if value == "" or size(value) else f'{value!r} is no size; expected one like "256g"'


def _root(value: object) -> str | None:
    fit = isinstance(value, str) and re.fullmatch(r"(/[A-Za-z0-9._-]+)+", value)
    if not fit or {".", ".."} & set(str(value).split("/")):
        return f"{value!r} is no absolute path of plain names"
    if is_shared_place(str(value)):
        return (
            f"{value!r} holds more than homes; expected a directory that nobody else has to enter"
        )
    return None


def address_fault(value: object) -> str | None:
    """What is wrong with an address of a host, or None."""
    numbers = value.split(".") if isinstance(value, str) else []
    fit = len(numbers) == 4 and all(n.isdigit() and int(n) < 256 for n in numbers)
    return None if fit else f"{value!r} is no IPv4 address"


class GpuWorkspaceOptions(Options):
    """Public variables of the role."""

    gpu_workspaces: list[dict[str, Any]] = option(
        [],
        looked_at=True,
        example='[{name: ada, gpus: 1, port: 8801, cpus: 4, memory: "16g"}]',
        reads=_people,
    )
    """The people who get a workspace, each as {name, gpus, port} for Jupyter; with kind ssh as
    {name, kind, gpus, ssh_port, ssh_keys}, with kind both with all of these. Optional:
    tensorboard_port, shared, cpus, memory, shm_size, user, volumes. The workspace of a person
    removed from the list is stopped; the home stays. Literal data (no templates), and no secrets.
    """
    gpu_workspace_tokens: dict[str, str] = option({})
    """Jupyter tokens as {name: token}, from Ansible Vault; at least 16 characters. For anyone else
    the host generates one in /etc/gpu-workspace/NAME/token.
    """
    gpu_workspace_passwords: dict[str, str] = option({})
    """SSH passwords as {name: hash}, from Ansible Vault; a crypt(3) hash by SHA-512 or yescrypt
    ($6$, $y$), as printed by `openssl passwd -6`. Anyone else can log in with keys only.
    """
    gpu_workspace_image: str = option(
        "",
        looked_at=True,
        example="registry.example.org/tensorflow/tensorflow@sha256:<64 hex digits>",
        reads=image_fault,
    )
    """Image to pull, pinned by digest; if it comes from a mirror, with the mirror's name. Empty:
    the image comes from gpu_workspace_image_file, or is built from gpu_workspace_base.
    """
    gpu_workspace_image_file: str = option(
        "", path=True, example="/srv/images/tensorflow-2.9.0-gpu-jupyter.tar"
    )
    """The image as a tar file (docker save) on the machine that runs Ansible, for hosts that can't
    reach a registry.
    """
    gpu_workspace_image_sha256: str = option("", looked_at=True, reads=_sha256)
    """SHA-256 of gpu_workspace_image_file, checked before docker loads the file."""
    gpu_workspace_base: str = option(
        "",
        looked_at=True,
        example="docker.io/library/debian@sha256:<64 hex digits>",
        reads=image_fault,
    )
    """Instead of an existing image: the base image, pinned by digest, of one that docker builds on
    the host. It must be of the host's own release. TensorFlow's environment, CUDA and cuDNN are
    taken from the host, at the locked versions.
    """
    gpu_workspace_base_file: str = option("", path=True, example="/srv/images/debian-11.tar")
    """That base image as a tar file (docker save) on the machine that runs Ansible."""
    gpu_workspace_base_sha256: str = option("", looked_at=True, reads=_sha256)
    """SHA-256 of gpu_workspace_base_file, checked before docker loads the file."""
    gpu_workspace_packages: list[str] = option(
        ["ca-certificates", "git", "less", "openssh-client", "openssh-server", "tmux"],
        looked_at=True,
        reads=_packages,
    )
    """Distribution packages in a built image, in addition to Python. Without openssh-server nobody
    can use SSH.
    """
    gpu_workspace_proxy: str = option("", example="http://proxy.example.org:3128")
    """Proxy for the package archive while an image is built."""
    gpu_workspace_stack: dict[str, Any] = option(
        {}, identity=True, wish='gpu_stack: {tensorflow: "2.9", packages: [jupyterlab]}'
    )
    """What a built image takes from the host: versions, packages and hashes of TensorFlow's
    environment, CUDA and cuDNN.
    """
    gpu_workspace_places: list[str] = option(
        ["/opt/tensorflow", "/opt/nvidia/cudnn"],
        identity=True,
        wish="tensorflow_root and cudnn_root",
    )
    """Directories of TensorFlow's environments and cuDNN on the host; the image has them at the
    same paths.
    """
    gpu_workspace_root: str = option("/srv/gpu-workspaces", looked_at=True, reads=_root)
    """Directory with one home per person, and nothing else. Only root can enter it (mode 0700). No
    run removes a home.
    """
    gpu_workspace_address: str = option("127.0.0.1", looked_at=True, reads=address_fault)
    """Address the workspaces' ports listen on. Jupyter uses plain HTTP: on any address but
    127.0.0.1, tokens and notebooks are visible to anyone who can see the traffic.
    """
    gpu_workspace_ssh_address: str = option("0.0.0.0", looked_at=True, reads=address_fault)  # noqa: S104 sshd takes keys, and a password only of the vault
    """Address the sshd ports listen on."""
    gpu_workspace_host_memory: str = option("", example='"256g"', reads=_size)
    """Maximum memory of all workspaces on the host together; `provision render` already refuses
    more. Empty: the host's memory, checked on the host.
    """
    gpu_workspace_in_use: Literal["refuse", "stop"] = option("refuse", looked_at=True)
    """What to do if a run has to stop the container of somebody with open kernels, terminals or SSH
    sessions. refuse: change nothing. stop: stop it; they lose what they had in memory.
    """
    gpu_workspace_models: list[dict[str, Any]] = option(
        [], internal=True, planned="gpu_servings | default([])", example="'{{ gpu_servings }}'"
    )
    """Models whose GPUs no workspace gets, as in gpu_servings. If not given: the host's
    gpu_servings.
    """
    gpu_workspace_slurm: dict[str, Any] = option(
        {},
        internal=True,
        planned=GPU_SHARE,
    )
    """The Slurm options that say which GPUs Slurm gives out; no workspace gets these."""
    gpu_workspace_patience: int = option(180)
    """Seconds to wait at the end of a run until each Jupyter answers."""


def variables(_stack: str, row: Row) -> dict[str, Any]:
    """The versions, packages and hashes of an image that is built on the host."""
    if "tensorflow" not in row:
        return {}
    return {
        "gpu_workspace_stack": locked(row),
        # The directories of the roles tensorflow and cudnn.
        "gpu_workspace_places": [
            "{{ tensorflow_root | default('/opt/tensorflow') }}",
            "{{ cudnn_root | default('/opt/nvidia/cudnn') }}",
        ],
    }


ROLE = Role("gpu_workspace", GpuWorkspaceOptions, variables)
