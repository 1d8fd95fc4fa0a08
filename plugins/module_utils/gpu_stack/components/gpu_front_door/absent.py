"""Removes the door and its authority; nginx stays if other sites use it.

certbot stays as well, with the account and the certificates: they are the user's.
"""

from __future__ import annotations

import os
import shutil

from ...host import apt_commands, apt_removal
from ...type_checking import TYPE_CHECKING
from . import shipped
from .renewal import files, lock, nginx, paths, programs
from .renewal.files import forget, inside
from .renewal.state import nginx_runs

if TYPE_CHECKING:
    from typing import Any

# Of the fleet's cache, whose nginx reads no site of the host's (role artifact_cache).
CACHE = "/etc/gpu-artifact-cache/nginx.conf"


def remove() -> dict[str, Any]:
    """Returns {packages, alone}: nginx's packages to remove, and whether nginx was stopped.

    RefusedError if a renewal is at work, or a running nginx would still serve the door: the next
    run tries again. door.json stays until the packages are removed, so that it can resume.
    """
    with lock.held(lock.PATIENCE):
        return _remove()


def _remove() -> dict[str, Any]:
    for path in (paths.SITE, paths.HOOK, paths.CERTBOT_ENVIRONMENT):
        forget(path)
    files.remove_if_empty(os.path.dirname(paths.CERTBOT_ENVIRONMENT))
    used = _sites_of_others() or files.exists(CACHE)
    packages = _going() if files.exists(paths.BROUGHT) and not used else []
    alone = bool(packages)
    if files.exists(paths.NGINX):
        if alone:
            programs.call(["systemctl", "disable", "--now", "nginx"], timeout=120)
        elif nginx_runs(files):
            nginx.check("nginx still has the door in memory, and reads no more")
            programs.must(nginx.reload(), "systemctl reload nginx")
    programs.call(["systemctl", "disable", "--now", paths.TIMER])
    shutil.rmtree(inside(os.path.dirname(paths.PAGE)), ignore_errors=True)
    _remove_program()
    return {"packages": sorted(packages), "alone": alone}


def _sites_of_others() -> list[str]:
    folders = [inside(path) for path in paths.SITES]
    return [name for folder in folders if os.path.isdir(folder) for name in os.listdir(folder)]


def _going() -> list[str]:
    """nginx's packages; none if apt would remove others with them, or does not answer."""
    shape = "${Package} ${db:Status-Abbrev}\n"
    listed = programs.call(["dpkg-query", "-W", "-f", shape, "nginx*", "libnginx-mod-*"])[1]
    ours = {line.split()[0] for line in listed.splitlines() if line.split()[1:] == ["ii"]}
    if not ours:
        return []
    command = ["apt-get", *apt_commands.SETTINGS, "--simulate", "remove", *sorted(ours)]
    code, out, _error = programs.call(command)
    removed = set(apt_removal.REMOVED.findall(out))
    return sorted(ours) if code == 0 and removed <= ours else []


def _remove_program() -> None:
    """Removes the program, its library and its units, whatever is in their place."""
    for path in [*shipped.FILES, paths.LIBRARY]:
        real = inside(path)
        if os.path.isdir(real) and not os.path.islink(real):
            shutil.rmtree(real)
        else:
            forget(path)
    programs.must(programs.call(["systemctl", "daemon-reload"]), "systemctl daemon-reload")
