"""The program gpu-front-door: what systemd's timer and certbot's hook call, and a person."""

from __future__ import annotations

import json
import os
import sys

from . import lock, nginx
from .authority import certificate, fingerprint
from .files import digest, put, read
from .noted import acme_ca_is_given, is_shown, keep, noted, trusted_by_certbot, write
from .paths import ACME_TRUST, CA, CHAIN, KEY, files_of
from .programs import RefusedError
from .state import ends_soon

USAGE = """\
gpu-front-door fingerprint  of the certificate of this host's own authority
gpu-front-door renew        what its timer does each day"""


def renew() -> dict[str, bool]:
    """Once a day: a certificate that ends soon is made anew, one that others renewed is read.

    Nothing is done while a run changes the door: it makes or reads the certificate itself, and
    where certbot renews it in that moment, the timer's next call reads it.
    """
    try:
        with lock.held():
            return _renew()
    except lock.BusyError:
        return {"renewed": False}


def _renew() -> dict[str, bool]:
    """Only hashes of files made here are recorded: changes by others must stay visible."""
    door = noted()
    if door is None:
        return {"renewed": False}
    settings, hashes = door["settings"], dict(door.get("files") or {})
    if acme_ca_is_given(settings) and read(ACME_TRUST) != trusted_by_certbot():
        # The host's own list is another by now.
        put(ACME_TRUST, trusted_by_certbot())
        hashes[ACME_TRUST] = digest(read(ACME_TRUST))
        write(dict(door, files=hashes))
    if settings["tls"] == "local_ca":
        if not ends_soon(door["until"]):
            return {"renewed": False}
        before = digest(read(CA))
        certificate(settings["name"])
        hashes.update((path, digest(read(path))) for path in (CHAIN, KEY))
        if digest(read(CA)) != before:
            hashes[CA] = digest(read(CA))
    elif settings["tls"] == "given" or door.get("loaded") == digest(read(files_of(settings)[0])):
        return {"renewed": False}
    nginx.check()
    nginx.serve()
    if is_shown(settings):
        put(CHAIN, read(files_of(settings)[0]) or "")
        hashes[CHAIN] = digest(read(CHAIN))
    keep(settings, hashes)
    return {"renewed": True}


def main(argv: list[str]) -> int:
    """Exit code 0, 1 with the reason on standard error, or 2 for a word that it does not know."""
    os.umask(0o022)
    try:
        if argv == ["renew"]:
            sys.stdout.write(json.dumps(renew()) + "\n")
        elif argv == ["fingerprint"]:
            sys.stdout.write(fingerprint() + "\n")
        else:
            sys.stderr.write(USAGE + "\n")
            return 2
    except (RefusedError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0
