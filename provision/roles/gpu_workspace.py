"""gpu_workspace: a container with Jupyter for each person of a host, kept by systemd."""

from __future__ import annotations

import re
from typing import Any, Literal

from provision.roles.base import Options, Role, Row, option
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
    """The people who get a workspace, each as {name, gpus, port}, with kind ssh or both also
    {ssh_port, ssh_keys}, and tensorboard_port, shared, cpus, memory, shm_size, user, volumes where
    needed. Who is no longer named is stopped; the home stays. Literal data, and no secrets.
    """
    gpu_workspace_tokens: dict[str, str] = option({})
    """Jupyter's tokens as {name: token}, from Ansible Vault; 16 characters at least. For who is not
    named the host makes one, in /etc/gpu-workspace/NAME/token.
    """
    gpu_workspace_passwords: dict[str, str] = option({})
    """Passwords for SSH as {name: hash}, from Ansible Vault; a hash of crypt(3) by SHA-512 or
    yescrypt ($6$, $y$), as `openssl passwd -6` prints it. Who is not named comes in by keys alone.
    """
    gpu_workspace_image: str = option(
        "",
        looked_at=True,
        example="registry.example.org/tensorflow/tensorflow@sha256:<64 hex digits>",
        reads=image_fault,
    )
    """The image to pull, by its digest; of a mirror under the mirror's name. Empty: the image comes
    from gpu_workspace_image_file.
    """
    gpu_workspace_image_file: str = option(
        "", path=True, example="/srv/images/tensorflow-2.9.0-gpu-jupyter.tar"
    )
    """The image as a tar file (docker save) on the machine that runs Ansible, for hosts that reach
    no registry.
    """
    gpu_workspace_image_sha256: str = option("", looked_at=True, reads=_sha256)
    """SHA-256 of gpu_workspace_image_file; it is compared before docker loads the file."""
    gpu_workspace_base: str = option(
        "",
        looked_at=True,
        example="docker.io/library/debian@sha256:<64 hex digits>",
        reads=image_fault,
    )
    """Instead of an image that is there: the base of one that docker builds on the host, by its
    digest, of the host's own release. TensorFlow's environment, CUDA and cuDNN come into it from
    the host, as the lock has them.
    """
    gpu_workspace_base_file: str = option("", path=True, example="/srv/images/debian-11.tar")
    """That base as a tar file (docker save) on the machine that runs Ansible."""
    gpu_workspace_base_sha256: str = option("", looked_at=True, reads=_sha256)
    """SHA-256 of gpu_workspace_base_file; it is compared before docker loads the file."""
    gpu_workspace_packages: list[str] = option(
        ["ca-certificates", "git", "less", "openssh-client", "openssh-server", "tmux"],
        looked_at=True,
        reads=_packages,
    )
    """Packages of the distribution in an image that is built, beside Python. Without openssh-server
    nobody can have SSH.
    """
    gpu_workspace_proxy: str = option("", example="http://proxy.example.org:3128")
    """Proxy for the package archive while an image is built."""
    gpu_workspace_stack: dict[str, Any] = option(
        {}, identity=True, wish='gpu_stack: {tensorflow: "2.9", packages: [jupyterlab]}'
    )
    """What an image that is built takes from the host: versions, packages and hashes of
    TensorFlow's environment, CUDA and cuDNN.
    """
    gpu_workspace_places: list[str] = option(
        ["/opt/tensorflow", "/opt/nvidia/cudnn"],
        identity=True,
        wish="tensorflow_root and cudnn_root",
    )
    """Where the host has TensorFlow's environments and cuDNN; they lie there in the image too."""
    gpu_workspace_root: str = option("/srv/gpu-workspaces", looked_at=True, reads=_root)
    """Directory of the homes, one for each person, which root alone can enter (mode 0700); it holds
    nothing else. No run removes a home.
    """
    gpu_workspace_address: str = option("127.0.0.1", looked_at=True, reads=address_fault)
    """Address of the host that the ports are opened on. Jupyter speaks plain HTTP: another address
    than this one shows tokens and notebooks to whoever sees the traffic.
    """
    gpu_workspace_ssh_address: str = option("0.0.0.0", looked_at=True, reads=address_fault)  # noqa: S104 sshd takes keys, and a password only of the vault
    """Address of the host that the ports of sshd are opened on."""
    gpu_workspace_host_memory: str = option("", example='"256g"', reads=_size)
    """What the workspaces of the host may use together; more is then refused by `provision render`
    already. Empty: the memory that the host has, which is asked there.
    """
    gpu_workspace_in_use: Literal["refuse", "stop"] = option("refuse", looked_at=True)
    """What becomes of a run that has to stop the container of somebody with kernels, terminals or
    SSH open. refuse: nothing is touched. stop: they lose what they had in memory.
    """
    gpu_workspace_models: list[dict[str, Any]] = option(
        [], internal=True, planned="gpu_servings | default([])", example="'{{ gpu_servings }}'"
    )
    """The models whose GPUs are given to nobody, as gpu_servings has them. Without it those are
    meant that the host's gpu_servings name.
    """
    gpu_workspace_slurm: dict[str, Any] = option(
        {},
        internal=True,
        planned="{'slurm_state': slurm_state | default('absent'), "
        "'slurm_compute': slurm_compute | default(true), "
        "'slurm_gpus': slurm_gpus | default('all')}",
    )
    """What is set of Slurm's options, by which it gives out GPUs that no workspace gets."""
    gpu_workspace_patience: int = option(180)
    """Seconds in which each Jupyter must answer at the end of a run."""


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
