"""gpu_front_door: one HTTPS door for the workspaces of a host, by the distribution's nginx."""

from __future__ import annotations

import functools
import ipaddress
import re
import runpy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from provision.collection import module_utils
from provision.inventory import Fault, is_template
from provision.models import Wish
from provision.roles.base import Options, Role, Row, option, port


@functools.cache
def _patterns() -> Mapping[str, re.Pattern[str]]:
    """The shapes that the hosts' code lets into nginx's configuration, by name."""
    folder = module_utils() / "gpu_stack" / "components" / "gpu_front_door"
    return runpy.run_path(str(folder / "patterns.py"))


def _name(value: object) -> str | None:
    if value == "" or (
        isinstance(value, str)
        and _patterns()["NAME"].fullmatch(value)
        and not value.replace(".", "").isdigit()
    ):
        return None
    return f"{value!r} is no DNS name; expected one in small letters, like gpu07.example.org"


def _address(value: object) -> str | None:
    try:
        ipaddress.ip_address(str(value))
    except ValueError:
        fit = False
    else:
        fit = bool(_patterns()["DOOR_ADDRESS"].fullmatch(str(value)))
    return None if fit else f"{value!r} is no IP address"


def _email(value: object) -> str | None:
    fit = value == "" or (isinstance(value, str) and _patterns()["EMAIL"].fullmatch(value))
    return None if fit else f"{value!r} is no e-mail address"


def _directory(value: object) -> str | None:
    fit = isinstance(value, str) and _patterns()["DIRECTORY"].fullmatch(value)
    return None if fit else f"{value!r} is no address of an ACME directory; expected https://..."


def _path(value: object) -> str | None:
    fit = value == "" or (isinstance(value, str) and _patterns()["PATH"].fullmatch(value))
    return None if fit else f"{value!r} is no absolute path of plain names"


def _file(example: str) -> Any:
    """A file of TLS, on the machine that runs Ansible or on the host."""
    return option("", path=True, looked_at=True, example=example, reads=_path)


class GpuFrontDoorOptions(Options):
    """Public variables of the role."""

    gpu_front_door_name: str = option("", looked_at=True, example="gpu07.example.org", reads=_name)
    """DNS name at which people and programs reach the workspaces and served models of this host.
    Empty: no front door; an existing one is removed.
    """
    gpu_front_door_port: int = option(443, looked_at=True, reads=port)
    """Port the front door listens on."""
    gpu_front_door_address: str = option("0.0.0.0", looked_at=True, example="'::'", reads=_address)  # noqa: S104 a door is for others
    """Address the front door listens on. `::` means all addresses, IPv4 and IPv6."""
    gpu_front_door_tls: Literal["local_ca", "given", "host", "acme"] = option(
        "local_ca", looked_at=True
    )
    """Where the certificate comes from. local_ca: the host creates a certificate authority for this
    name only, and issues and renews the certificate; people import /etc/gpu-front-door/ca.crt.
    given: two files on the machine that runs Ansible. host: two files on the host, maintained by
    something else. acme: the distribution's certbot gets it from an ACME server (Let's Encrypt) and
    renews it; port 80 is opened for the server's challenge.
    """
    gpu_front_door_certificate: str = _file("/etc/letsencrypt/live/gpu07.example.org/fullchain.pem")
    """With given and host: path of the certificate with its chain (PEM)."""
    gpu_front_door_key: str = _file("/etc/letsencrypt/live/gpu07.example.org/privkey.pem")
    """With given and host: path of its private key (PEM, no password). With given it may be
    encrypted with Ansible Vault (ansible-vault encrypt FILE).
    """
    gpu_front_door_acme_agree: bool = option(False, looked_at=True, example="true")
    """With acme: you agree to the terms of service of the ACME server. Required; the server is not
    contacted without it.
    """
    gpu_front_door_acme_email: str = option(
        "", looked_at=True, example="gpu-admins@example.org", reads=_email
    )
    """With acme: email address of the account. Empty: an account without one."""
    gpu_front_door_acme_directory: str = option(
        "https://acme-v02.api.letsencrypt.org/directory",
        looked_at=True,
        example="https://ca.example.org/acme/acme/directory",
        reads=_directory,
    )
    """With acme: directory URL of the ACME server, such as your own step-ca or Let's Encrypt's
    staging.
    """
    gpu_front_door_acme_ca: str = _file("/srv/tls/step-ca.pem")
    """With acme: the CA (PEM) that signed the ACME server's own HTTPS certificate, a file on the
    machine that runs Ansible. Only needed if the hosts do not trust it already.
    """
    gpu_front_door_redirect: bool = option(False, looked_at=True)
    """Also listen on port 80, only to redirect to the front door."""
    gpu_front_door_hsts: bool = option(False, looked_at=True)
    """Tell browsers to use only HTTPS for this name, on all its ports, for a year (HSTS)."""
    gpu_front_door_people: list[dict[str, Any]] = option(
        [], internal=True, planned="gpu_workspaces | default([])", example="'{{ gpu_workspaces }}'"
    )
    """People whose workspaces are behind the front door, as in gpu_workspaces: {name, port} and
    what the page shows. If not given: the host's gpu_workspaces.
    """
    gpu_front_door_servings: list[dict[str, Any]] = option(
        [], internal=True, planned="gpu_servings | default([])", example="'{{ gpu_servings }}'"
    )
    """Models behind the front door, as in gpu_servings. If not given: the host's gpu_servings."""
    gpu_front_door_patience: int = option(60)
    """Seconds to wait at the end of a run until each Jupyter answers through the front door."""


def variables(_stack: str, _row: Row) -> dict[str, Any]:
    """No variables: nginx is the distribution's, covered by apt's signed indices."""
    return {}


@dataclass(frozen=True)
class FrontDoor:
    """The rules over several front door variables of a host."""

    names: tuple[str, ...] = (
        *("gpu_front_door_name", "gpu_front_door_port", "gpu_front_door_tls"),
        *("gpu_front_door_certificate", "gpu_front_door_key", "gpu_front_door_redirect"),
        *("gpu_front_door_acme_agree", "gpu_front_door_acme_directory"),
        *("gpu_workspaces", "gpu_servings"),
    )

    def fault(
        self, values: Mapping[str, Any], _wish: Wish, _written: Callable[[str], str]
    ) -> Fault | None:
        """The first fault, or None."""
        if not values[self.names[0]] or is_template(values[self.names[0]]):
            return None
        return _nobody(values) or _not_agreed(values) or _same_port(values) or _no_files(values)


def _nobody(values: Mapping[str, Any]) -> Fault | None:
    if values.get("gpu_workspaces") or values.get("gpu_servings"):
        return None
    return Fault(
        "gpu_front_door_name",
        "a front door, and no workspace or served model behind it",
        expected="gpu_workspaces: [{name: ada, gpus: 1, port: 8801}]",
        hint="without workspaces and gpu_servings leave gpu_front_door_name out",
    )


def _not_agreed(values: Mapping[str, Any]) -> Fault | None:
    agreed = values.get("gpu_front_door_acme_agree", False)
    if values.get("gpu_front_door_tls") != "acme" or agreed is True or is_template(agreed):
        return None
    server = values.get("gpu_front_door_acme_directory") or "Let's Encrypt"
    return Fault(
        "gpu_front_door_tls",
        f"gpu_front_door_tls: acme, and nobody has agreed to the terms of service of {server}",
        expected="gpu_front_door_acme_agree: true",
        hint="Let's Encrypt's are at https://letsencrypt.org/repository/",
    )


def _same_port(values: Mapping[str, Any]) -> Fault | None:
    port, people = values.get("gpu_front_door_port", 443), values.get("gpu_workspaces")
    ports = {port: "gpu_front_door_port"}
    acme = values.get("gpu_front_door_tls") == "acme"
    if values.get("gpu_front_door_redirect") is True or acme:
        if port == 80:
            use = "an ACME server asks" if acme else "gpu_front_door_redirect sends from"
            return Fault(
                "gpu_front_door_port",
                f"port 80 is the front door's, and where {use}",
                expected="gpu_front_door_port: 443",
            )
        ports[80] = "gpu_front_door_tls" if acme else "gpu_front_door_redirect"
    for person in people if isinstance(people, list) else ():
        for key in ("port", "ssh_port", "tensorboard_port"):
            word = ports.get(person.get(key)) if isinstance(person, Mapping) else None
            if word is not None:
                return Fault(
                    word if word in values else "gpu_workspaces",
                    f"port {person[key]} is the front door's ({word}), and the {key} of "
                    f"{person.get('name')}",
                    expected="a port for each",
                )
    return None


def _no_files(values: Mapping[str, Any]) -> Fault | None:
    way = values.get("gpu_front_door_tls", "local_ca")
    names = ("gpu_front_door_certificate", "gpu_front_door_key")
    files = [name for name in names if values.get(name)]
    own = way in ("local_ca", "acme")
    if is_template(way) or (own == (not files) and len(files) != 1):
        return None
    if own:
        return Fault(
            files[0],
            f"{files[0]} has no meaning with gpu_front_door_tls: {way}",
            expected="gpu_front_door_tls: given (files of this machine) or host (files of the "
            "host)",
        )
    missing = next(name for name in names if name not in files)
    return Fault(
        "gpu_front_door_tls",
        f"gpu_front_door_tls: {way} needs {missing}",
        expected="gpu_front_door_certificate and gpu_front_door_key",
        hint="without a certificate of your own: gpu_front_door_tls: local_ca",
    )


ROLE = Role("gpu_front_door", GpuFrontDoorOptions, variables)
