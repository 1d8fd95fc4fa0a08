"""A certificate by ACME: certbot requests it once, and renews it by its own timer.

The certificate is a lineage of the door's own. After a refusal the server is not asked again before
the next run.
"""

from __future__ import annotations

import os
import re
import time

from ...type_checking import TYPE_CHECKING
from .renewal import files, nginx, noted, paths, programs
from .renewal.certificates import certified, late_from
from .renewal.files import inside, put
from .renewal.programs import RefusedError
from .renewal.state import server_of

if TYPE_CHECKING:
    from typing import Any, Callable

# Seconds: a CA validates from several places, and may be slow.
TIMEOUT = 300
ENVIRONMENT = """\
# Written by the Ansible role gpu_front_door; changes made here are lost.
[Service]
Environment=REQUESTS_CA_BUNDLE={0}
"""
DEPLOY = """\
#!/bin/sh
# Written by the Ansible role gpu_front_door; changes made here are lost.
# certbot calls it after each renewal; of another's certificate it does nothing.
[ "$RENEWED_LINEAGE" = "{0}" ] || exit 0
exec /usr/local/sbin/gpu-front-door renew
"""
HINTS = (
    (
        r"rateLimited|too many|rate limit",
        "that is the server's limit: wait as long as it says; nothing asks again by itself",
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|certificate verify failed",
        "the HTTPS of the ACME server is of a CA that this host does not know: "
        "gpu_front_door_acme_ca",
    ),
    (
        r"Type:\s+\w+|challenges? (have )?failed",
        "the name has to lead to this host in the DNS that the ACME server asks, and port 80 of it "
        "to be open to that server",
    ),
    (
        r"ConnectionError|Max retries|NameResolution|timed out|did not answer",
        "does this host reach the ACME server?",
    ),
)


def check_certbot() -> None:
    """RefusedError for a certbot that is not the distribution's."""
    if os.path.realpath(inside(paths.CERTBOT)).startswith(inside("/snap") + "/"):
        raise RefusedError(
            "certbot is here from snap, whose timer has another name; remove that, or take its "
            "files by gpu_front_door_tls: host"
        )


def lacking(wish: dict[str, Any]) -> str | None:
    """Why a certificate has to be requested; None if the present one is good."""
    chain, key = paths.acme_files(wish["name"])
    if not all(os.path.isfile(inside(path)) for path in (chain, key)):
        return "absent"
    if server_of(files, wish["name"]) != wish["acme"]["directory"]:
        return "of another directory"
    try:
        certified(wish["name"], chain, key)
    except RefusedError as error:
        return str(error)
    return "it ends soon" if late_from(chain) < time.time() else None


def obtain(wish: dict[str, Any], door: dict[str, Any], open_port_80: Callable[[], None]) -> None:
    """Has certbot ask for the certificate that is lacking, once.

    `open_port_80()` installs the site that answers the server's challenges. The caller restores
    the former site when this fails.
    """
    why, lineage = lacking(wish), paths.lineage(wish["name"])
    if why is not None:
        if why == "absent":
            _set_aside(lineage)
        open_port_80()
        nginx.serve()
        # certbot would keep one of another directory.
        how = "--force-renewal" if why == "of another directory" else "--keep-until-expiring"
        certbot(
            wish, "certonly", "--webroot", "--webroot-path", inside(paths.CHALLENGES),
            *("--cert-name", lineage, "--domain", wish["name"]), "--agree-tos", how,
        )  # fmt: skip
    former, now = (door.get("settings") or {}).get("acme") or wish["acme"], wish["acme"]
    if former["directory"] == now["directory"] and former["email"] != now["email"]:
        certbot(wish, "update_account")


def _set_aside(name: str) -> None:
    """Renames the rest of a damaged lineage: certbot would make a second one beside it."""
    for path in ("renewal/{0}.conf", "live/{0}", "archive/{0}"):
        old = inside(f"{paths.LETSENCRYPT}/{path.format(name)}")
        if os.path.lexists(old):
            os.rename(old, f"{old}.save-{int(time.time())}")


def certbot(wish: dict[str, Any], word: str, *words: str) -> None:
    """Runs certbot; RefusedError with the server's message and a hint."""
    command = [paths.CERTBOT, word, "--non-interactive", "--server", wish["acme"]["directory"]]
    if wish["acme"]["email"]:
        command += ["--email", wish["acme"]["email"], "--no-eff-email"]
    else:
        command.append("--register-unsafely-without-email")
    # certbot's library requests takes its CAs from there.
    ca_given = noted.acme_ca_is_given(wish)
    trusted = {"REQUESTS_CA_BUNDLE": inside(paths.ACME_TRUST)} if ca_given else {}
    code, out, error = programs.call(command + list(words), TIMEOUT, LC_ALL="C", **trusted)
    if code:
        raise RefusedError(refusal(wish, out + "\n" + error))


def refusal(wish: dict[str, Any], output: str) -> str:
    """certbot's reason in one line, and a hint."""
    shape = r"^\s*Type:\s+(\S+)\s+Detail:\s+(.+?)\s*(?:\n\s*\n|\Z)"
    problems = re.findall(shape, output, re.M | re.S)
    if problems:
        reason = "; ".join("{0}: {1}".format(*problem) for problem in sorted(set(problems)))
    else:
        noise = r"Saving debug log|Ask for help|See the logfile|IMPORTANT NOTES|Plugins selected"
        noise += r"|^\s*- - -|^(Account registered|Requesting a|Renewing|Performing)"
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        reason = " ".join(line for line in lines if not re.search(noise, line)) or "no reason"
    hint = next((hint for shape, hint in HINTS if re.search(shape, output, re.I)), None)
    return "certbot gets no certificate for {0} from {1}: {2}{3}".format(
        wish["name"],
        wish["acme"]["directory"],
        " ".join(reason.split())[-500:].rstrip("."),
        ". Hint: " + hint if hint else "",
    )


def trust_server(wish: dict[str, Any]) -> None:
    """Makes certbot trust the given CA, and the host's."""
    if files.exists(paths.GIVEN_ACME_CA):
        os.replace(inside(paths.GIVEN_ACME_CA), inside(paths.ACME_CA))
    if not noted.acme_ca_is_given(wish):
        for path in (paths.ACME_CA, paths.ACME_TRUST, paths.CERTBOT_ENVIRONMENT):
            files.forget(path)
        return
    put(paths.ACME_TRUST, noted.trusted_by_certbot())
    put(paths.CERTBOT_ENVIRONMENT, ENVIRONMENT.format(paths.ACME_TRUST))


def write_hook(name: str) -> None:
    """Writes the hook that certbot runs after each renewal."""
    chain, _key = paths.acme_files(name)
    put(paths.HOOK, DEPLOY.format(os.path.dirname(chain)), 0o755)
