"""Finds what differs from the wished door, and what this host can't do; changes nothing."""

from __future__ import annotations

import os

from ...host.context import Context
from ...type_checking import TYPE_CHECKING
from . import acme, site
from .obstacles import configuration, in_the_way, others_at
from .renewal import files, nginx, paths, programs
from .renewal.certificates import certified
from .renewal.files import digest, read
from .renewal.noted import noted
from .renewal.programs import RefusedError
from .renewal.state import ends_soon, nginx_runs
from .wishes import check, settings

if TYPE_CHECKING:
    from typing import Any

MODULES = ("http_ssl_module", "http_auth_request_module")


def looked(wish: dict[str, Any]) -> dict[str, Any]:
    """{here, gone, nginx, openssl, changes, ...}, and the values for the templates.

    RefusedError for what this host can't do.
    """
    door = noted()
    if not wish["name"]:
        here = door is not None or files.isdir(paths.PLACE)
        return {"here": here, "nginx": True, "changes": [], "gone": here}
    check(wish)
    seen: dict[str, Any] = {
        "here": door is not None,
        "gone": False,
        "nginx": files.exists(paths.NGINX),
    }
    seen["openssl"] = programs.has_openssl()
    for port, names in others_at(Context(files.ROOT), wish).items():
        raise RefusedError(
            "port {0} of the front door is in use by {1}".format(port, ", ".join(names))
        )
    if seen["nginx"]:
        _check_nginx(wish)
    if wish["tls"] == "host":
        certified(wish["name"], wish["certificate"], wish["key"])
    if wish["tls"] == "acme":
        seen["certbot"] = files.exists(paths.CERTBOT)
        acme.check_certbot()
    seen["changes"] = differences(wish, door)
    return dict(seen, **site.words(wish, door or {}))


def _check_nginx(wish: dict[str, Any]) -> None:
    built = programs.call([paths.NGINX, "-V"])[2]
    for module in MODULES:
        if module not in built:
            raise RefusedError(f"nginx here was built without {module}")
    # Damage of our own site is repaired; nginx does not report on the others then.
    reason = None if _ours_is_broken() else in_the_way(wish, configuration())
    if reason is not None:
        raise RefusedError(reason)


def _ours_is_broken() -> bool:
    """Whether nginx rejects a damaged or missing file of ours, which this run then repairs.

    Our site may also name a certificate of the host's that no longer exists.
    """
    door = noted() or {}
    hashes, former = door.get("files") or {}, door.get("settings") or {}
    broken = any(digest(read(path)) != hashes[path] for path in hashes)
    if former.get("tls") in ("host", "acme"):
        theirs = [files.inside(path or "") for path in paths.files_of(former)]
        broken = broken or not all(os.path.isfile(path) for path in theirs)
    return broken and not nginx.takes()[0]


def differences(wish: dict[str, Any], door: dict[str, Any] | None) -> list[str]:
    """How the recorded door differs from the wish, in a few words each."""
    if door is None:
        return ["absent"]
    changes = []
    if door.get("settings") != settings(wish):
        changes.append("other settings")
    hashes = door.get("files") or {}
    changes += [path for path in sorted(hashes) if digest(read(path)) != hashes[path]]
    if not hashes:
        changes.append("unfinished")
    if wish["tls"] == "local_ca" and ends_soon(door.get("until")):
        changes.append("certificate")
    if wish["tls"] == "acme" and (
        acme.lacking(wish) is not None
        or door.get("loaded") != digest(read(paths.acme_files(wish["name"])[0]))
    ):
        changes.append("certificate")
    if not nginx_runs(files):
        changes.append("nginx does not run")
    for path in paths.ENABLED + ((paths.RENEWS,) if wish["tls"] == "acme" else ()):
        if not os.path.lexists(files.inside(path)):
            changes.append(f"{os.path.basename(path)} is not enabled")
    return changes
