"""Where the files of a front door, of nginx and of certbot are on a host."""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any

PLACE = "/etc/gpu-front-door"
DOOR = PLACE + "/door.json"
# Written before nginx is installed: what is here because of us can go with us.
BROUGHT = PLACE + "/brought"
CA, CA_KEY = PLACE + "/ca.crt", PLACE + "/ca.key"
CA_NAME = DOOR + ".ca"
# What nginx reads where certbot has it not, and where the role puts what it was given until that is
# known to be good.
CHAIN, KEY = PLACE + "/chain.pem", PLACE + "/key.pem"
GIVEN, GIVEN_KEY = PLACE + "/given-chain.pem", PLACE + "/given-key.pem"
GIVEN_ACME_CA = PLACE + "/given-acme-ca.pem"
PAGE = "/var/lib/gpu-front-door/index.html"

# What certbot has, and what makes it and nginx know of each other.
CERTBOT, LETSENCRYPT = "/usr/bin/certbot", "/etc/letsencrypt"
CHALLENGES = "/var/lib/gpu-front-door/acme"
HOOK = LETSENCRYPT + "/renewal-hooks/deploy/gpu-front-door"
# The CA of the ACME server's own HTTPS, as the role brings it, and it with those of the host.
ACME_CA, ACME_TRUST = PLACE + "/acme-ca.pem", PLACE + "/acme-trust.pem"
SYSTEM_TRUST = "/etc/ssl/certs/ca-certificates.crt"
CERTBOT_ENVIRONMENT = "/etc/systemd/system/certbot.service.d/gpu-front-door.conf"
OF_ACME = (HOOK, ACME_CA, ACME_TRUST, CERTBOT_ENVIRONMENT)
LETS_ENCRYPT = "https://acme-v02.api.letsencrypt.org/directory"

# After the names of others: who comes first answers where no site has the name that is asked for.
SITE = "/etc/nginx/sites-enabled/zz-gpu-front-door"
SITES = ("/etc/nginx/sites-enabled", "/etc/nginx/conf.d")
DEFAULT = "/etc/nginx/sites-enabled/default"
NGINX, NGINX_PID = "/usr/sbin/nginx", "/run/nginx.pid"
# Where systemd leads to everybody's Jupyter and TensorBoard, whether they run or not. Only root and
# the group of nginx can open what is there, and only root can put something there.
PORTS, GROUP = "/run/gpu-workspace-ports", "www-data"

# Held by whoever changes the door.
LOCK = "/run/gpu-front-door.lock"
# The folder that this package is copied to.
LIBRARY = "/usr/local/lib/gpu-front-door"
TIMER = "gpu-front-door.timer"
# What systemd has for each unit that a boot starts.
ENABLED = (
    "/etc/systemd/system/multi-user.target.wants/nginx.service",
    "/etc/systemd/system/timers.target.wants/gpu-front-door.timer",
)
# With ACME.
RENEWS = "/etc/systemd/system/timers.target.wants/certbot.timer"


def lineage(name: str) -> str:
    """certbot's name for the door's certificate, apart from a person's own for the DNS name."""
    return "gpu-front-door-" + name


def acme_files(name: str) -> tuple[str, str]:
    """(chain, key) as certbot keeps them, through its links to the newest."""
    folder = f"{LETSENCRYPT}/live/{lineage(name)}/"
    return folder + "fullchain.pem", folder + "privkey.pem"


def files_of(settings: dict[str, Any]) -> tuple[str, str]:
    """(chain, key) that nginx reads."""
    if settings["tls"] == "acme":
        return acme_files(settings["name"])
    if settings["tls"] == "host":
        return settings["certificate"], settings["key"]
    return CHAIN, KEY
