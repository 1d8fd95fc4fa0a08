"""The kinds of process whose environment is checked, and sshd's UsePAM."""

from __future__ import annotations

from .check import Seen

# No run changes this: sshd's configuration is the administrator's, and a mistake in it locks
# everybody out. Preflight and the doctor say what to do.
NO_PAM = "sshd has UsePAM no, and reads no /etc/environment"


def without_pam(seen: Seen) -> bool:
    """Does sshd's configuration turn PAM off? False where it can't be read."""
    return seen.probe.get("sshd_uses_pam") is False


# {the probe's name for a kind of process: what messages call it}
PLACES = {
    "ssh": "a command over ssh",
    "login": "a login shell",
    "cron": "a cron job",
    "systemd": "a systemd unit",
}
