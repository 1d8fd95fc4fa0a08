"""What a certificate is good for, whose it is, and until when."""

from __future__ import annotations

import os
import ssl

from . import files, programs
from .programs import RefusedError, openssl

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    pass

# certbot renews when 30 days, or a third of a shorter life, are left; when no more than this is
# left of it, nobody did.
LATE_DAYS, LATE_PART = 20, 2 / 9


def certified(name: str, chain: str, key: str) -> None:
    """RefusedError for a certificate that is not for this name, has ended, or has another key."""
    for path in (chain, key):
        if not os.path.isfile(files.inside(path)):
            raise RefusedError(f"there is no {path} on this host")
    if not programs.has_openssl():
        return  # the role brings it, and looks again
    chain, key = files.inside(chain), files.inside(key)
    names = programs.call(["openssl", "x509", "-in", chain, "-noout", "-checkhost", name])[1]
    if "does match" not in names:
        raise RefusedError(f"the certificate {chain} is not for {name}")
    if programs.call(["openssl", "x509", "-in", chain, "-noout", "-checkend", "0"])[0]:
        raise RefusedError(f"the certificate {chain} has ended")
    public = openssl("x509", "-in", chain, "-noout", "-pubkey")
    if openssl("pkey", "-in", key, "-pubout", "-passin", "pass:").strip() != public.strip():
        raise RefusedError(f"the key {key} is not that of the certificate")


def ends(chain: str) -> int:
    """When a certificate ends, in seconds of Unix time."""
    return _date(chain, "-enddate")


def late_from(chain: str) -> int:
    """From when on a certificate should long have been renewed, in seconds of Unix time."""
    begin, end = _date(chain, "-startdate"), ends(chain)
    return end - int(min(LATE_DAYS * 86400, (end - begin) * LATE_PART))


def _date(chain: str, which: str) -> int:
    date = openssl("x509", "-in", files.inside(chain), "-noout", which).strip()
    return ssl.cert_time_to_seconds(date.partition("=")[2])
