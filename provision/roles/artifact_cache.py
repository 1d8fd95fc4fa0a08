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
    """absent: stop the cache and remove its files. nginx stays installed."""
    artifact_cache_address: str = option("0.0.0.0", example="10.1.2.3", reads=_address)  # noqa: S104 a cache is for others
    """Address the cache listens on."""
    artifact_cache_port: int = option(8088, reads=port)
    """Port the cache listens on."""
    artifact_cache_allow: list[str] = option([], example="[10.1.2.0/24]", reads=_networks)
    """Addresses and networks that may use the cache. Empty: anyone who can reach it."""
    artifact_cache_certificate: str = option("", path=True, example="/srv/tls/cache01.pem")
    """TLS certificate with its chain (PEM), a file on the machine that runs Ansible. Empty: plain
    HTTP; every download is still verified by its hash or signature.
    """
    artifact_cache_key: str = option("", path=True, example="/srv/tls/cache01.key")
    """Private key of the certificate (PEM, no password). It may be encrypted with Ansible Vault."""
    artifact_cache_directory: str = option(
        "/var/cache/gpu-artifact-cache", path=True, reads=_directory
    )
    """Directory for the cached files, owned by root and used for nothing else."""
    artifact_cache_size_gb: int = option(60, reads=_above(1, "a number of GiB"))
    """Maximum size of the cache in GiB. The least recently used files are removed first."""
    artifact_cache_ca_bundle: str = option(
        "/etc/ssl/certs/ca-certificates.crt", path=True, reads=_path
    )
    """CA bundle on the host, used to verify the servers that the cache downloads from."""
    artifact_cache_timeout: int = option(60, reads=_above(1, "a number of seconds"))
    """Seconds an upstream server may stay silent before a request to it fails."""
    artifact_cache_index_url: str = option("https://pypi.org/simple", reads=_url)
    """Python package index that the cache downloads from."""
    artifact_cache_wheel_urls: list[str] = option(
        ["https://files.pythonhosted.org/packages/"], reads=_urls
    )
    """URLs at which that index hosts its wheels, if not on its own server."""
    artifact_cache_contents: dict[str, Any] = option({}, internal=True)
    """What the cache serves, as {lock, platforms, archives, files, projects}: the content of the
    project's stacks/gpu_cache.yml.
    """


def variables(_stack: str, _row: Row) -> dict[str, Any]:
    """No variables: it serves all stacks."""
    return {}


ROLE = Role("artifact_cache", ArtifactCacheOptions, variables)
