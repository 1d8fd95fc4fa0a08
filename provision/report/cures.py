"""What to do about a host that could not be reached, by what ssh said.

A host that was just reinstalled is the ordinary case here, and its new host key the ordinary
reason; "log in by hand" would leave a person with ssh's page of warnings.
"""

from __future__ import annotations

import re

# (what ssh says, what to do). ssh(1)'s own words, the same since OpenSSH 6; the first that fits.
RULES = (
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED|host key for .* has changed",
        "if the host was reinstalled, forget its old key: ssh-keygen -R {address}; then log in "
        "once by hand and compare the new one",
    ),
    (
        r"Host key verification failed|No \S+ host key is known",
        "log in once by hand (ssh {address}), compare the host's key and say yes; then run again",
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
_ADDRESS = re.compile(r'remote host "([^"]+)"|connect to host (\S+) port|via ssh: (\S+)@')


def unreachable(message: str) -> str:
    """The cure for a host that was unreachable with this message of Ansible's or ssh's."""
    for words, cure in RULES:
        if re.search(words, message):
            found = _ADDRESS.search(message)
            address = next((part for part in found.groups() if part), "") if found else ""
            return cure.format(address=address or "HOST")
    return FALLBACK
