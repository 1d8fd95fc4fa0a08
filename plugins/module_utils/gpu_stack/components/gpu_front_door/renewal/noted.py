"""door.json: what a run made of the wish, with the hash of each file that nginx reads."""

from __future__ import annotations

import json

from . import files, paths
from .certificates import ends, late_from
from .files import digest, put, read

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any


def noted() -> dict[str, Any] | None:
    """What was noted; None where nothing was."""
    return files.data(paths.DOOR)


def write(content: dict[str, Any]) -> None:
    put(paths.DOOR, json.dumps(content, indent=2, sort_keys=True) + "\n")


def keep(settings: dict[str, Any], hashes: dict[str, str | None]) -> None:
    """Notes these settings and {path: hash}, and the certificate that nginx has read."""
    chain, _key = paths.files_of(settings)
    content: dict[str, Any] = {"settings": settings, "files": hashes}
    content["until"], content["loaded"] = ends(chain), digest(read(chain))
    if settings["tls"] == "acme":
        content["late"] = late_from(chain)
    write(content)


def is_shown(settings: dict[str, Any]) -> bool:
    """Is its CA one that this host may not know? Checks without root then compare a copy."""
    directory: str | None = settings["acme"]["directory"] if settings["tls"] == "acme" else None
    return directory not in (None, paths.LETS_ENCRYPT)


def acme_ca_is_given(settings: dict[str, Any]) -> bool:
    return bool((settings.get("given") or {}).get("acme_ca"))


def trusted_by_certbot() -> str:
    """The CA that was brought, and those whom the host trusts, as PEM."""
    return (read(paths.SYSTEM_TRUST) or "").rstrip("\n") + "\n" + (read(paths.ACME_CA) or "")
