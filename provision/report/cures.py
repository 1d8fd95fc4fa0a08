"""What to do about a host that could not be reached, by what ssh said.

A host that was just reinstalled is the ordinary case here, and its new host key the ordinary
reason; "log in by hand" would leave a person with ssh's page of warnings.
"""

from __future__ import annotations

import re
import shlex

# (what ssh says, what to do). ssh(1)'s own words, the same since OpenSSH 6; the first that fits.
RULES = (
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED|host key for .* has changed",
        "if the host was reinstalled, forget its old key: ssh-keygen{file} -R {address}; then log "
        "in once by hand{option} and compare the new one",
    ),
    (
        r"Host key verification failed|No \S+ host key is known",
        "log in once by hand (ssh {address}), compare the host's key and say yes; then run again. "
        "Where ansible_ssh_common_args names a UserKnownHostsFile, log in with that option too",
    ),
    (
        r"Permission denied",
        "the host takes neither the key nor the user of the inventory (ansible_user, "
        "ansible_ssh_private_key_file): ssh-copy-id {address}",
    ),
    (
        r"Could not resolve hostname|Name or service not known",
        "the name is not known here: correct ansible_host, or ask DNS",
    ),
    (
        r"Connection refused",
        "the host answers, but no ssh server does at that port: see ansible_port, and sshd there",
    ),
    (
        r"No route to host|Network is unreachable|timed out|Operation timed out",
        "nothing answers at that address: is the host on, and ansible_host right?",
    ),
)
FALLBACK = "log in by hand, as the inventory says; then run again"

# Ansible quotes the address it tried; ssh itself names it in other words.
_ADDRESSES = (
    r"[Hh]ost key for (\S+) has changed",
    r'remote host "([^"]+)"',
    r"connect to host (\S+) port",
    r"via ssh: [^\s@]+@([^\s:]+)",
)
# The line of the file with the old key: the inventory may have a known_hosts of its own, and
# without its name ssh-keygen would look into the user's.
_KNOWN_HOSTS = re.compile(r"Offending \S+ key in (.+?):\d+")


def unreachable(message: str) -> str:
    """The cure for a host that was unreachable with this message of Ansible's or ssh's."""
    for words, cure in RULES:
        if re.search(words, message):
            matches = (re.search(pattern, message) for pattern in _ADDRESSES)
            address = next((match[1] for match in matches if match), "")
            return cure.format(address=_quoted(address or "HOST"), **_known_hosts(message))
    return FALLBACK


def _known_hosts(message: str) -> dict[str, str]:
    """The options that name the file of known hosts which ssh has read; "" for the user's own."""
    match = _KNOWN_HOSTS.search(message)
    if match is None or match[1].endswith("/.ssh/known_hosts"):  # the user's own, ssh's default
        return {"file": "", "option": ""}
    path = _quoted(match[1].strip())
    return {"file": f" -f {path}", "option": f" (ssh -o UserKnownHostsFile={path})"}


def _quoted(word: str) -> str:
    """For a shell; `[192.0.2.1]:2222` is a pattern there."""
    return word if word == "HOST" else shlex.quote(word)
