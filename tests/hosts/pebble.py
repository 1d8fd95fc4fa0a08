"""pebble, Let's Encrypt's own test ACME server, at work on a host of a test.

It is of Debian's archive. It asks port 80 of the host itself, and knows the host's own names alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable

DIRECTORY = "https://acme.example.org:14000/dir"
# The same one, which to certbot is another.
OTHER = "https://acme2.example.org:14000/dir"
# What its own HTTPS is of; the certificates that it issues are of another CA, new at each start.
CONFIG = {
    "pebble": {
        "listenAddress": "127.0.0.1:14000",
        "managementListenAddress": "127.0.0.1:15000",
        "certificate": "/srv/pebble/crt",
        "privateKey": "/srv/pebble/key",
        "httpPort": 80,
        "tlsPort": 443,
        "ocspResponderURL": "",
        "externalAccountBindingRequired": False,
    }
}
PREPARE = """\
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
apt-get -qq install -y --no-install-recommends pebble openssl > /dev/null
echo "127.0.0.1 acme.example.org acme2.example.org $1" >> /etc/hosts
mkdir -p /srv/pebble
cd /srv/pebble
cat > config.json
curve="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30"
openssl req -x509 $curve -subj /CN=made-for-a-test -keyout ca.key -out ca.crt 2>/dev/null
openssl req -new $curve -subj /CN=acme.example.org -keyout key -out csr 2>/dev/null
echo subjectAltName=DNS:acme.example.org,DNS:acme2.example.org > names
openssl x509 -req -in csr -CA ca.crt -CAkey ca.key -set_serial 7 -days 30 -extfile names -out crt \
    2>/dev/null
systemd-run --unit pebble --setenv PEBBLE_VA_NOSLEEP=1 --setenv PEBBLE_WFE_NONCEREJECT=0 \
    /usr/bin/pebble -config /srv/pebble/config.json 2>/dev/null
cat ca.crt
"""
ROOT = """\
import ssl, urllib.request
known = ssl._create_unverified_context()
print(urllib.request.urlopen("https://127.0.0.1:15000/roots/0", context=known).read().decode())
"""


def start(root: Callable[..., str], name: str) -> str:
    """pebble runs, and the host leads this name to itself; the CA of its HTTPS, as PEM.

    `root` runs one command on the host, with stdin.
    """
    script = PREPARE.replace("$1", name)
    return root("bash", "-ec", script, stdin=json.dumps(CONFIG)) + "\n"


def authority(root: Callable[..., str]) -> str:
    """The CA that has signed what pebble issues; it is another after each start."""
    return root("python3", "-c", ROOT)
