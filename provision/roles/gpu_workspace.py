"""gpu_workspace: a container with Jupyter for each person of a host, kept by systemd."""

from __future__ import annotations

import functools
import re
import runpy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from provision.collection import roles_directory
from provision.inventory import Fault, is_template
from provision.models import Wish
from provision.roles.base import Options, Role, Row, option

_PULLED = re.compile(r"[a-z0-9][a-z0-9._:/-]*@sha256:[0-9a-f]{64}")


@functools.cache
def _program() -> dict[str, Any]:
    """The names of the hosts' program, which reads the same list."""
    return runpy.run_path(str(roles_directory() / "gpu_workspace" / "files" / "gpu_workspace.py"))


def people(value: object) -> list[dict[str, Any]]:
    """The list `gpu_workspaces` with its defaults. ValueError says what is wrong with it."""
    read: Callable[[object], list[dict[str, Any]]] = _program()["checked"]
    return read(value)


def size(value: object) -> int | None:
    """Bytes of "16g", or None."""
    read: Callable[[object], int | None] = _program()["size"]
    return read(value)


def hashed(value: str) -> str | None:
    """The value where it is an allowed hash of a password, else None."""
    return value if _program()["HASH"].fullmatch(value) else None


def _people(value: object) -> str | None:
    try:
        people(value)
    except ValueError as error:
        return str(error)
    return None


def _image(value: object) -> str | None:
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
    if value in _program()["SHARED_PLACES"]:
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
        "The people who get a workspace, each as {name, gpus, port}, with kind ssh or both also "
        "{ssh_port, ssh_keys}, and tensorboard_port, shared, cpus, memory, shm_size, user, volumes "
        "where needed. "
        "Who is no longer named is stopped; the home stays. Literal data, and no secrets.",
        looked_at=True,
        example='[{name: ada, gpus: 1, port: 8801, cpus: 4, memory: "16g"}]',
        reads=_people,
    )
    gpu_workspace_tokens: dict[str, str] = option(
        {},
        "Jupyter's tokens as {name: token}, from Ansible Vault; 16 characters at least. For who is "
        "not named the host makes one, in /etc/gpu-workspace/NAME/token.",
    )
    gpu_workspace_passwords: dict[str, str] = option(
        {},
        "Passwords for SSH as {name: hash}, from Ansible Vault; a hash of crypt(3) by SHA-512 or "
        "yescrypt ($6$, $y$), as `openssl passwd -6` prints it. Who is not named comes in by keys "
        "alone.",
    )
    gpu_workspace_image: str = option(
        "",
        "The image to pull, by its digest; of a mirror under the mirror's name. Empty: the image "
        "comes from gpu_workspace_image_file.",
        looked_at=True,
        example="registry.example.org/tensorflow/tensorflow@sha256:<64 hex digits>",
        reads=_image,
    )
    gpu_workspace_image_file: str = option(
        "",
        "The image as a tar file (docker save) on the machine that runs Ansible, for hosts that "
        "reach no registry.",
        path=True,
        example="/srv/images/tensorflow-2.9.0-gpu-jupyter.tar",
    )
    gpu_workspace_image_sha256: str = option(
        "",
        "SHA-256 of gpu_workspace_image_file; it is compared before docker loads the file.",
        looked_at=True,
        reads=_sha256,
    )
    gpu_workspace_base: str = option(
        "",
        "Instead of an image that is there: the base of one that docker builds on the host, by its "
        "digest, of the host's own release. TensorFlow's environment, CUDA and cuDNN come into it "
        "from the host, as the lock has them.",
        looked_at=True,
        example="docker.io/library/debian@sha256:<64 hex digits>",
        reads=_image,
    )
    gpu_workspace_base_file: str = option(
        "",
        "That base as a tar file (docker save) on the machine that runs Ansible.",
        path=True,
        example="/srv/images/debian-11.tar",
    )
    gpu_workspace_base_sha256: str = option(
        "",
        "SHA-256 of gpu_workspace_base_file; it is compared before docker loads the file.",
        looked_at=True,
        reads=_sha256,
    )
    gpu_workspace_packages: list[str] = option(
        ["ca-certificates", "git", "less", "openssh-client", "openssh-server", "tmux"],
        "Packages of the distribution in an image that is built, beside Python. Without "
        "openssh-server nobody can have SSH.",
        looked_at=True,
        reads=_packages,
    )
    gpu_workspace_proxy: str = option(
        "",
        "Proxy for the package archive while an image is built.",
        example="http://proxy.example.org:3128",
    )
    gpu_workspace_stack: dict[str, Any] = option(
        {},
        "What an image that is built takes from the host: versions, packages and hashes of "
        "TensorFlow's environment, CUDA and cuDNN.",
        identity=True,
        wish='gpu_stack: {tensorflow: "2.9", packages: [jupyterlab]}',
    )
    gpu_workspace_places: list[str] = option(
        ["/opt/tensorflow", "/opt/nvidia/cudnn"],
        "Where the host has TensorFlow's environments and cuDNN; they lie there in the image too.",
        identity=True,
        wish="tensorflow_root and cudnn_root",
    )
    gpu_workspace_root: str = option(
        "/srv/gpu-workspaces",
        "Directory of the homes, one for each person, which root alone can enter (mode 0700); it "
        "holds nothing else. No run removes a home.",
        looked_at=True,
        reads=_root,
    )
    gpu_workspace_address: str = option(
        "127.0.0.1",
        "Address of the host that the ports are opened on. Jupyter speaks plain HTTP: another "
        "address than this one shows tokens and notebooks to whoever sees the traffic.",
        looked_at=True,
        reads=address_fault,
    )
    gpu_workspace_ssh_address: str = option(
        "0.0.0.0",  # noqa: S104 sshd takes keys, and a password only of the vault
        "Address of the host that the ports of sshd are opened on.",
        looked_at=True,
        reads=address_fault,
    )
    gpu_workspace_host_memory: str = option(
        "",
        "What the workspaces of the host may use together; more is then refused by `provision "
        "render` already. Empty: the memory that the host has, which is asked there.",
        example='"256g"',
        reads=_size,
    )
    gpu_workspace_in_use: Literal["refuse", "stop"] = option(
        "refuse",
        "What becomes of a run that has to stop the container of somebody with kernels, "
        "terminals or SSH open. refuse: nothing is touched. stop: they lose what they had in "
        "memory.",
        looked_at=True,
    )
    gpu_workspace_patience: int = option(
        180, "Seconds in which each Jupyter must answer at the end of a run."
    )


def variables(_stack: str, row: Row) -> dict[str, Any]:
    """The versions, packages and hashes of an image that is built on the host."""
    if "tensorflow" not in row:
        return {}
    names = ("version", "python", "requirements_sha256")
    stack: dict[str, Any] = {"tensorflow": {name: row["tensorflow"][name] for name in names}}
    cuda, cudnn, env = (row.get(name) for name in ("cuda", "cudnn", "gpu_env"))
    if cuda is not None:
        stack["cuda"] = {
            "packages": cuda["packages"]["runtime"],
            "files": {name: file["path"] for name, file in cuda.get("files", {}).items()},
            "sonames": sorted(cuda.get("sonames", {})),
        }
    if cudnn is not None:
        stack["cudnn"] = {name: cudnn[name] for name in ("version", "cuda", "sha256", "soname")}
    env = env or {}
    stack["env"] = {"path": env.get("path", []), "xla": env.get("xla_cuda_data_dir", "")}
    return {
        "gpu_workspace_stack": stack,
        # The directories of the roles tensorflow and cudnn.
        "gpu_workspace_places": [
            "{{ tensorflow_root | default('/opt/tensorflow') }}",
            "{{ cudnn_root | default('/opt/nvidia/cudnn') }}",
        ],
    }


@dataclass(frozen=True)
class Workspaces:
    """The rules over several workspace variables of a host, but for those about its GPUs."""

    names: tuple[str, ...] = (
        *("gpu_workspaces", "gpu_workspace_tokens", "gpu_workspace_host_memory"),
        *("gpu_workspace_image", "gpu_workspace_image_file", "gpu_workspace_image_sha256"),
        *("gpu_workspace_base", "gpu_workspace_base_file", "gpu_workspace_base_sha256"),
        *("gpu_workspace_packages", "gpu_workspace_passwords"),
    )

    def fault(
        self, values: Mapping[str, Any], wish: Wish, written: Callable[[str], str]
    ) -> Fault | None:
        """The first fault; no token is ever part of it."""
        word = self.names[0]
        if isinstance(values[word], str) and is_template(values[word]):
            return _literal(word)
        try:
            persons = people(values[word])
        except ValueError as error:
            secrets = ("gpu_workspace_tokens", "gpu_workspace_passwords")
            if is_template(values[word]) and not any(name in str(error) for name in secrets):
                return _literal(word)
            return Fault(word, f"{word}: {error}", hint=f"`provision explain {word}`")
        if is_template(values[word]):
            return _literal(word)
        return (
            _tokens(values.get(self.names[1]), persons, written)
            or _passwords(values.get(self.names[-1]), persons, written)
            or _too_much(persons, values.get(self.names[2]))
            or _one_image(persons, values)
            or _not_built(persons, values, wish)
            or _no_toolkit(persons, wish)
        )


def _literal(word: str) -> Fault:
    return Fault(
        word,
        f"{word} holds a template; who gets a workspace is literal, so that clashes are seen "
        "before any host is asked",
        expected='a literal, like [{name: ada, gpus: 1, port: 8801, memory: "16g"}]',
        hint="what is secret stands in gpu_workspace_tokens, which may be a template or vaulted",
    )


def _tokens(
    value: object, persons: list[dict[str, Any]], written: Callable[[str], str]
) -> Fault | None:
    """A token for somebody without a workspace, or one in clear text in the inventory."""
    word = "gpu_workspace_tokens"
    if not isinstance(value, Mapping):
        return None
    names = [person["name"] for person in persons]
    for name, token in value.items():
        if str(name).startswith("__ansible"):
            return None  # the whole mapping is vaulted
        if name not in names:
            return Fault(
                word,
                f"{word} has a token for {name}, who has no workspace",
                expected=", ".join(names) or "nobody",
            )
        if not isinstance(token, str) or is_template(token):
            continue
        place = written(token) if token else ""
        if place:
            return Fault(
                word,
                f"the token of {name} stands in clear text in {place}",
                expected=f"{word}: {{{name}: !vault ...}}",
                hint=f"ansible-vault encrypt_string --name {name}; or leave it out: then the host "
                "makes one and keeps it for root",
            )
    return None


def _passwords(
    value: object, persons: list[dict[str, Any]], written: Callable[[str], str]
) -> Fault | None:
    """A password for somebody without SSH, one that is no hash, or a hash in clear text."""
    word = "gpu_workspace_passwords"
    if not isinstance(value, Mapping):
        return None
    names = [person["name"] for person in persons if "ssh_port" in person]
    for name, password in value.items():
        if str(name).startswith("__ansible"):
            return None  # the whole mapping is vaulted
        if name not in names:
            return Fault(
                word,
                f"{word} has a password for {name}, who has no SSH",
                expected=", ".join(names) or "nobody",
                hint="kind: ssh or both in gpu_workspaces",
            )
        if not isinstance(password, str) or is_template(password):
            continue
        if hashed(password) is None:
            return Fault(
                word,
                f"the password of {name} is no hash of crypt(3) by SHA-512 or yescrypt",
                expected="$6$... or $y$..., in Ansible Vault",
                hint="`openssl passwd -6` asks for the password and prints one",
            )
        place = written(password)
        if place:
            return Fault(
                word,
                f"the password's hash of {name} stands in clear text in {place}",
                expected=f"{word}: {{{name}: !vault ...}}",
                hint=f"ansible-vault encrypt_string --name {name}; or leave it out: then keys "
                "alone let in",
            )
    return None


def _too_much(persons: list[dict[str, Any]], host_memory: object) -> Fault | None:
    available = size(host_memory)
    needed = sum(size(person["memory"]) or 0 for person in persons)
    if available is None or needed <= available:
        return None
    return Fault(
        "gpu_workspaces",
        "the workspaces of a host may use more memory together than it has",
        got=f"{needed >> 20} MiB",
        expected=f"at most {available >> 20} MiB (gpu_workspace_host_memory: {host_memory})",
    )


WAYS = {
    "gpu_workspace_image": "",
    "gpu_workspace_image_file": "gpu_workspace_image_sha256",
    "gpu_workspace_base": "",
    "gpu_workspace_base_file": "gpu_workspace_base_sha256",
}


def _one_image(persons: list[dict[str, Any]], values: Mapping[str, Any]) -> Fault | None:
    """Not exactly one way to an image, or a file without its hash or a hash without its file."""
    ways = [name for name in WAYS if values.get(name)]
    whole = all(
        not hashed or bool(values.get(name)) == bool(values.get(hashed))
        for name, hashed in WAYS.items()
    )
    if not persons or (len(ways) == 1 and whole):
        return None
    names = [word for pair in WAYS.items() for word in pair if word and values.get(word)]
    return Fault(
        "gpu_workspaces",
        "the workspaces need one image, by a digest or a hash",
        got=", ".join(names) or "none",
        expected="gpu_workspace_image: NAME@sha256:..., or gpu_workspace_image_file with "
        "gpu_workspace_image_sha256, or one that is built: gpu_workspace_base: NAME@sha256:..., "
        "or gpu_workspace_base_file with gpu_workspace_base_sha256",
        hint="`docker image inspect NAME` lists the digest under RepoDigests; a tag alone is "
        "another image tomorrow",
    )


def _not_built(
    persons: list[dict[str, Any]], values: Mapping[str, Any], wish: Wish
) -> Fault | None:
    """An image that would be built without the Jupyter or sshd that somebody needs."""
    if not persons or not (
        values.get("gpu_workspace_base") or values.get("gpu_workspace_base_file")
    ):
        return None
    wheels = [re.split(r"[^A-Za-z0-9._-]", text)[0].lower() for text in wish.packages]
    browsers = [person["name"] for person in persons if "port" in person]
    if browsers and not {"jupyterlab", "notebook"} & set(wheels):
        return Fault(
            "gpu_workspaces",
            f"{', '.join(browsers)} cannot get Jupyter: the image is built of the host's locked "
            "environment, which has none",
            got=f"packages: [{', '.join(wish.packages)}]",
            expected="gpu_stack: {..., packages: [jupyterlab, pandas, matplotlib]}",
        )
    packages = values.get("gpu_workspace_packages")
    shells = [person["name"] for person in persons if "ssh_port" in person]
    if shells and isinstance(packages, list) and "openssh-server" not in packages:
        return Fault(
            "gpu_workspace_packages",
            f"{', '.join(shells)} cannot get SSH: the image is built without sshd",
            expected="openssh-server in gpu_workspace_packages",
        )
    return None


def _no_toolkit(persons: list[dict[str, Any]], wish: Wish) -> Fault | None:
    names = [person["name"] for person in persons if person["gpus"] != "none"]
    if not names or wish.container_toolkit is not None:
        return None
    return Fault(
        "gpu_workspaces",
        f"{', '.join(names)} cannot get GPUs: docker does not know them on these hosts",
        expected="gpu_stack: {..., container_toolkit: true}",
        hint="or gpus: none, for a workspace without",
    )


ROLE = Role("gpu_workspace", GpuWorkspaceOptions, variables)
