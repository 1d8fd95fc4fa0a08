"""artifact_cache: one host serves what the lock names to the others, by the distribution's nginx.

It is no component of a stack: the host that serves needs neither a GPU nor a gpu_stack.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any, Literal
from urllib.parse import urlsplit

from provision.roles.base import Options, Role, Row, option, port

# What may stand in nginx's configuration and in a systemd unit as it is.
_PATH = re.compile(r"/[A-Za-z0-9._/@+-]*")


def _address(value: object) -> str | None:
    try:
        ipaddress.ip_address(str(value))
    except ValueError:
        return f"{value!r} is no IP address"
    return None


def _networks(value: object) -> str | None:
    for network in value if isinstance(value, list) else ():
        try:
            ipaddress.ip_network(str(network), strict=True)
        except ValueError:
            return f"{network!r} is no address or network; expected 10.1.2.0/24"
    return None


def _url(value: object) -> str | None:
    parts = urlsplit(value if isinstance(value, str) else "")
    if parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc:
        return None
    return f"{value!r} is no address of a server; expected https://pypi.org/simple"


def _urls(value: object) -> str | None:
    return next(filter(None, map(_url, value if isinstance(value, list) else ())), None)


def _path(value: object) -> str | None:
    fit = isinstance(value, str) and _PATH.fullmatch(value) and ".." not in value.split("/")
    return None if fit else f"{value!r} is no absolute path of plain names"


def _directory(value: object) -> str | None:
    if isinstance(value, str) and len([part for part in value.split("/") if part]) < 2:
        return f"{value!r} is no folder that a cache can have for itself"
    return _path(value)


def _above(least: int, quantity: str) -> Any:
    def reads(value: object) -> str | None:
        fit = isinstance(value, int) and value >= least
        return None if fit else f"{value!r}; expected {quantity} of at least {least}"

    return reads


class ArtifactCacheOptions(Options):
    """Public variables of the role."""

    artifact_cache_state: Literal["present", "absent"] = option("present")
    """absent: end the cache and remove its files. nginx stays."""
    artifact_cache_address: str = option("0.0.0.0", example="10.1.2.3", reads=_address)  # noqa: S104 a cache is for others
    """Address of the host that the cache is opened on."""
    artifact_cache_port: int = option(8088, reads=port)
    """The cache's port."""
    artifact_cache_allow: list[str] = option([], example="[10.1.2.0/24]", reads=_networks)
    """Addresses and networks that may fetch from it. Empty: whoever reaches it."""
    artifact_cache_certificate: str = option("", path=True, example="/srv/tls/cache01.pem")
    """A file of the machine that runs Ansible: the certificate with its chain, PEM, for HTTPS.
    Empty: plain HTTP, where everything is judged by its hash or signature all the same.
    """
    artifact_cache_key: str = option("", path=True, example="/srv/tls/cache01.key")
    """Its key, PEM without a password. The file may be kept by Ansible Vault."""
    artifact_cache_directory: str = option(
        "/var/cache/gpu-artifact-cache", path=True, reads=_directory
    )
    """Folder of the cached files, of the cache alone: root's, and with nothing else in it."""
    artifact_cache_size_gb: int = option(60, reads=_above(1, "a number of GiB"))
    """How many GiB it keeps at most. What was not asked for the longest time goes first."""
    artifact_cache_ca_bundle: str = option(
        "/etc/ssl/certs/ca-certificates.crt", path=True, reads=_path
    )
    """CA bundle on the host, which the servers that it fetches from are judged by."""
    artifact_cache_timeout: int = option(60, reads=_above(1, "a number of seconds"))
    """Seconds that such a server may be silent."""
    artifact_cache_index_url: str = option("https://pypi.org/simple", reads=_url)
    """The index of wheels that it fetches from."""
    artifact_cache_wheel_urls: list[str] = option(
        ["https://files.pythonhosted.org/packages/"], reads=_urls
    )
    """Where that index has its wheels, if not on its own server."""
    artifact_cache_contents: dict[str, Any] = option({}, internal=True)
    """What may be fetched through it, as {lock, platforms, archives, files,
    projects}: stacks/gpu_cache.yml of
    the project.
    """


def variables(_stack: str, _row: Row) -> dict[str, Any]:
    """No variables: it serves all stacks."""
    return {}


ROLE = Role("artifact_cache", ArtifactCacheOptions, variables)
