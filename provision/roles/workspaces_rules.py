"""The rules over several variables of a host's workspaces, but for those about its GPUs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from provision.inventory import Fault, is_template
from provision.models import Wish
from provision.roles.workspaces_on_hosts import hashed, people, size


@dataclass(frozen=True)
class Workspaces:
    """Judges a host's values together."""

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
            secrets = (TOKENS.word, PASSWORDS.word)
            if is_template(values[word]) and not any(name in str(error) for name in secrets):
                return _literal(word)
            return Fault(word, f"{word}: {error}", hint=f"`provision explain {word}`")
        if is_template(values[word]):
            return _literal(word)
        names = [person["name"] for person in persons]
        with_ssh = [person["name"] for person in persons if "ssh_port" in person]
        return (
            TOKENS.fault(values.get(TOKENS.word), names, written, lambda _name, _token: None)
            or PASSWORDS.fault(values.get(PASSWORDS.word), with_ssh, written, _no_hash)
            or _too_much(persons, values.get(self.names[2]))
            or _one_image(persons, values)
            or _not_built(persons, values, wish)
            or no_toolkit("gpu_workspaces", persons, wish, "a workspace")
        )


def _literal(word: str) -> Fault:
    return Fault(
        word,
        f"{word} holds a template; who gets a workspace is literal, so that clashes are seen "
        "before any host is asked",
        expected='a literal, like [{name: ada, gpus: 1, port: 8801, memory: "16g"}]',
        hint="what is secret stands in gpu_workspace_tokens, which may be a template or vaulted",
    )


@dataclass(frozen=True)
class Secrets:
    """A mapping of people to their secrets: whom it is for, and how a fault of it is worded."""

    word: str
    noun: str
    kept: str
    """What stands in the mapping."""
    lack: str
    """What somebody has not who needs no such secret."""
    otherwise: str
    """What is without one of the mapping."""
    hint: str = ""

    def fault(
        self,
        value: object,
        names: list[str],
        written: Callable[[str], str],
        read: Callable[[str, str], Fault | None],
    ) -> Fault | None:
        """A secret that nobody needs, one that `read` refuses, or one in clear text."""
        if not isinstance(value, Mapping):
            return None
        for name, secret in value.items():
            if str(name).startswith("__ansible"):
                return None  # the whole mapping is vaulted
            if name not in names:
                return Fault(
                    self.word,
                    f"{self.word} has a {self.noun} for {name}, who has no {self.lack}",
                    expected=", ".join(names) or "nobody",
                    hint=self.hint,
                )
            if not isinstance(secret, str) or is_template(secret):
                continue
            fault = read(name, secret) or self._in_clear_text(name, secret, written)
            if fault:
                return fault
        return None

    def _in_clear_text(self, name: str, secret: str, written: Callable[[str], str]) -> Fault | None:
        place = written(secret) if secret else ""
        if not place:
            return None
        return Fault(
            self.word,
            f"the {self.kept} of {name} stands in clear text in {place}",
            expected=f"{self.word}: {{{name}: !vault ...}}",
            hint=f"ansible-vault encrypt_string --name {name}; or leave it out: then "
            f"{self.otherwise}",
        )


TOKENS = Secrets(
    "gpu_workspace_tokens",
    noun="token",
    kept="token",
    lack="workspace",
    otherwise="the host makes one and keeps it for root",
)
PASSWORDS = Secrets(
    "gpu_workspace_passwords",
    noun="password",
    kept="password's hash",
    lack="SSH",
    otherwise="keys alone let in",
    hint="kind: ssh or both in gpu_workspaces",
)


def _no_hash(name: str, password: str) -> Fault | None:
    if hashed(password) is not None:
        return None
    return Fault(
        PASSWORDS.word,
        f"the password of {name} is no hash of crypt(3) by SHA-512 or yescrypt",
        expected="$6$... or $y$..., in Ansible Vault",
        hint="`openssl passwd -6` asks for the password and prints one",
    )


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


def no_toolkit(word: str, entries: list[dict[str, Any]], wish: Wish, without: str) -> Fault | None:
    """Entries of the list `word` that ask for GPUs of a docker that knows none.

    without: what an entry is that needs no GPU, as in "a workspace without".
    """
    names = [entry["name"] for entry in entries if entry["gpus"] != "none"]
    if not names or "container_toolkit" in wish.own:
        return None
    return Fault(
        word,
        f"{', '.join(names)} cannot get GPUs: docker does not know them on these hosts",
        expected="gpu_stack: {..., container_toolkit: true}",
        hint=f"or gpus: none, for {without} without",
    )
