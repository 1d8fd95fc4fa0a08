"""Makes the door as wished; if nginx rejects it, the former configuration is restored."""

from __future__ import annotations

import os
import shutil

from ...type_checking import TYPE_CHECKING
from . import acme
from .renewal import files, lock, nginx, noted, paths, programs
from .renewal.authority import certificate, fingerprint
from .renewal.certificates import certified
from .renewal.files import digest, forget, inside, put, read
from .renewal.programs import RefusedError, must
from .renewal.state import ends_soon, nginx_runs
from .wishes import check, settings

if TYPE_CHECKING:
    from typing import Any

OWN_AUTHORITY = (
    *(paths.CA, paths.CA_KEY, paths.CA_NAME),
    *(paths.CA + ".save", paths.CA_KEY + ".save"),
)
# Modes of restored files; others are readable for all.
MODES = {paths.KEY: 0o600, paths.CA_KEY: 0o600, paths.HOOK: 0o755}


def apply(wish: dict[str, Any], texts: dict[str, str]) -> dict[str, Any]:
    """Makes the door of `texts`, {site, waiting, page} as rendered; {name, fingerprint}.

    RefusedError where the wish or its certificate can't be served, or nginx rejects the site, and
    where a renewal is at work for longer than a minute or two; the former door is served then.
    """
    check(wish)
    with lock.held(lock.PATIENCE):
        return _apply(wish, texts)


def _apply(wish: dict[str, Any], texts: dict[str, str]) -> dict[str, Any]:
    door = noted.noted() or {}
    files_of_ours = (paths.PAGE, paths.CHAIN, paths.KEY, paths.CA, paths.CA_KEY, paths.CA_NAME)
    before = {path: read(path) for path in (*files_of_ours, paths.SITE, *paths.OF_ACME)}
    ran = nginx_runs(files)
    try:
        _make(wish, door, texts)
    except (RefusedError, OSError):
        for path in before:
            if read(path) != before[path]:
                _put_back(path, before[path])
        if wish["tls"] == "acme":
            _as_before(ran)
        raise
    nginx.serve()
    _forget_other_ways(wish)
    _note(settings(wish))
    must(programs.call(["systemctl", "daemon-reload"]), "systemctl daemon-reload")
    timers = [paths.TIMER] + ([os.path.basename(paths.RENEWS)] if wish["tls"] == "acme" else [])
    must(programs.call(["systemctl", "enable", "--now", *timers]), "systemctl enable")
    return {
        "name": wish["name"],
        "fingerprint": fingerprint() if wish["tls"] == "local_ca" else None,
    }


def _make(wish: dict[str, Any], door: dict[str, Any], texts: dict[str, str]) -> None:
    """Makes the certificate, the page and the site, and reloads nginx."""
    chain, key = paths.files_of(wish)
    if wish["tls"] == "local_ca" and _certificate_is_due(wish, door):
        certificate(wish["name"])
    if wish["tls"] == "acme":
        os.makedirs(inside(paths.CHALLENGES), mode=0o755, exist_ok=True)
        acme.trust_server(wish)
        acme.obtain(wish, door, lambda: take(texts["waiting"]))
        acme.write_hook(wish["name"])
        if noted.is_shown(wish):
            put(paths.CHAIN, read(chain) or "")
    if wish["tls"] == "given":
        certified(wish["name"], paths.GIVEN, paths.GIVEN_KEY)
        os.replace(inside(paths.GIVEN_KEY), inside(paths.KEY))
        os.replace(inside(paths.GIVEN), inside(paths.CHAIN))
    certified(wish["name"], chain, key)
    put(paths.PAGE, texts["page"])
    take(texts["site"])


def _certificate_is_due(wish: dict[str, Any], door: dict[str, Any]) -> bool:
    """Whether a certificate must be made: for another name, a damaged file, or a near end."""
    former, hashes = door.get("settings") or {}, door.get("files") or {}
    if [former.get(word) for word in ("tls", "name")] != [wish["tls"], wish["name"]]:
        return True
    own = (paths.CA, paths.CHAIN, paths.KEY)
    damaged = any(digest(read(path)) != hashes.get(path) for path in own)
    return damaged or ends_soon(door.get("until"))


def take(content: str) -> None:
    """Writes the site; restores the former one if nginx rejects it."""
    former = read(paths.SITE)
    # The default site of the nginx that we installed would open port 80.
    fresh = files.exists(paths.BROUGHT) and noted.noted() is None
    if fresh and os.path.islink(inside(paths.DEFAULT)):
        os.unlink(inside(paths.DEFAULT))
    put(paths.SITE, content)
    taken, error = nginx.takes()
    if not taken:
        _put_back(paths.SITE, former)
        raise RefusedError(
            f"nginx rejects the door's site, and has the former one again: {error.strip()[-600:]}"
        )


def _put_back(path: str, former: str | None) -> None:
    if former is None:
        forget(path)
    else:
        put(path, former, MODES.get(path, 0o644))


def _as_before(ran: bool) -> None:
    """Reloads nginx with the restored files, or stops it if it did not run before."""
    if ran:
        if nginx.takes()[0]:
            nginx.reload()
    elif files.exists(paths.BROUGHT) and noted.noted() is None:
        programs.call(["systemctl", "disable", "--now", "nginx"], timeout=120)
    else:
        programs.call(["systemctl", "stop", "nginx"], timeout=120)


def _forget_other_ways(wish: dict[str, Any]) -> None:
    """Removes files of a former source of the certificate."""
    if wish["tls"] != "acme":
        for path in paths.OF_ACME:
            forget(path)
        files.remove_if_empty(os.path.dirname(paths.CERTBOT_ENVIRONMENT))
        shutil.rmtree(inside(paths.CHALLENGES), ignore_errors=True)
    if wish["tls"] in ("host", "acme"):
        forget(paths.KEY)
        if not noted.is_shown(wish):
            forget(paths.CHAIN)
    if wish["tls"] != "local_ca":
        for path in OWN_AUTHORITY:
            forget(path)


def _note(settings_of: dict[str, Any]) -> None:
    """Records the hashes of the files that nginx reads, to detect changes by others."""
    kept = [paths.SITE, paths.PAGE]
    if settings_of["tls"] in ("local_ca", "given"):
        kept += [paths.CHAIN, paths.KEY]
    if settings_of["tls"] == "local_ca":
        kept.append(paths.CA)
    if settings_of["tls"] == "acme":
        kept += paths.OF_ACME if noted.acme_ca_is_given(settings_of) else [paths.HOOK]
        kept += [paths.CHAIN] if noted.is_shown(settings_of) else []
    noted.keep(settings_of, {path: digest(read(path)) for path in kept})
