"""How programs are started on a host, and what sshd gives to those of its commands."""

from __future__ import annotations

from .check import Seen

# Neither a run nor a check can change that: sshd's configuration is the administrator's, and a
# mistake in it locks everybody out. Preflight and the doctor say what can be done.
NO_PAM = "sshd has UsePAM no, and reads no /etc/environment"


def without_pam(seen: Seen) -> bool:
    """Is sshd known not to use PAM?"""
    return seen.probe.get("sshd_uses_pam") is False


# How programs are started, and what a person calls that.
PLACES = {
    "ssh": "a command over ssh",
    "login": "a login shell",
    "cron": "a cron job",
    "systemd": "a systemd unit",
}
