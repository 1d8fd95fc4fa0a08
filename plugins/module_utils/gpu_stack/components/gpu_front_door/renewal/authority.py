"""The host's own authority, for one name, and the certificates that it signs."""

from __future__ import annotations

import json
import os
import tempfile

from . import files, programs
from .files import inside, put
from .paths import CA, CA_KEY, CA_NAME, CHAIN, KEY
from .programs import openssl

# Browsers take no certificate that is good for longer than 398 days; an authority of one name may.
DAYS, CA_DAYS = 365, 3650
# Whoever trusts it trusts it for this name alone, whatever becomes of its key (RFC 5280, 4.2.1.10).
# An address or an e-mail name is none of it: of a kind that nothing is said of all is permitted.
# Who is trusted by it are servers, and nobody else.
AUTHORITY = """\
[req]
distinguished_name=dn
x509_extensions=v3
prompt=no
[dn]
CN=GPU front door of {0}
[v3]
basicConstraints=critical,CA:TRUE,pathlen:0
keyUsage=critical,keyCertSign,cRLSign
subjectKeyIdentifier=hash
extendedKeyUsage=serverAuth
nameConstraints=critical,permitted;DNS:{0},permitted;email:invalid,\
excluded;IP:0.0.0.0/0.0.0.0,excluded;IP:::/::
"""
CERTIFICATE = """\
[req]
distinguished_name=dn
prompt=no
[dn]
CN={1}
[v3]
basicConstraints=critical,CA:FALSE
keyUsage=critical,digitalSignature
extendedKeyUsage=serverAuth
subjectAltName=DNS:{0}
authorityKeyIdentifier=keyid
"""


def authority(name: str) -> None:
    """This host's own authority for one name, and for no other."""
    if files.data(CA_NAME) == {"name": name} and _whole():
        return
    for path in (CA, CA_KEY):
        if os.path.lexists(inside(path)):
            os.replace(inside(path), inside(path) + ".save")
    with tempfile.TemporaryDirectory() as folder:
        _new_key(folder + "/key")
        _write(folder + "/conf", AUTHORITY.format(name))
        openssl(
            *("req", "-x509", "-new", "-sha256", "-days", str(CA_DAYS), "-key", folder + "/key"),
            *("-config", folder + "/conf", "-out", folder + "/crt"),
        )
        put(CA_KEY, _read(folder + "/key"), 0o600)
        put(CA, _read(folder + "/crt"))
    put(CA_NAME, json.dumps({"name": name}) + "\n")


def _whole() -> bool:
    """Can what is here as the authority sign? Its key has to be that of its certificate."""
    public = programs.call(["openssl", "x509", "-in", inside(CA), "-noout", "-pubkey"])
    key = programs.call(["openssl", "pkey", "-in", inside(CA_KEY), "-pubout", "-passin", "pass:"])
    return public[0] == key[0] == 0 and public[1].strip() == key[1].strip()


def certificate(name: str) -> None:
    """A certificate of this host's own authority, with a new key."""
    authority(name)
    with tempfile.TemporaryDirectory() as folder:
        _new_key(folder + "/key")
        _write(folder + "/conf", CERTIFICATE.format(name, name[:64]))
        openssl(
            *("req", "-new", "-sha256", "-key", folder + "/key", "-config", folder + "/conf"),
            *("-out", folder + "/csr"),
        )
        openssl(
            *("x509", "-req", "-sha256", "-in", folder + "/csr", "-CA", inside(CA)),
            *("-CAkey", inside(CA_KEY), "-set_serial", "0x" + os.urandom(16).hex()),
            *("-days", str(DAYS), "-extfile", folder + "/conf", "-extensions", "v3"),
            *("-out", folder + "/crt"),
        )
        put(KEY, _read(folder + "/key"), 0o600)
        put(CHAIN, _read(folder + "/crt"))


def fingerprint() -> str:
    """SHA-256 of the authority's certificate, to compare before somebody trusts it."""
    return openssl("x509", "-in", inside(CA), "-noout", "-fingerprint", "-sha256").strip()


def _new_key(path: str) -> None:
    openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", path)


def _read(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()


def _write(path: str, content: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(content)
