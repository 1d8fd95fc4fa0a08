"""Cures for unreachable hosts, by ssh's error message.

The usual reason here is the new host key of a reinstalled host, for which "log in by hand" would
leave a person with ssh's page of warnings.
"""

from __future__ import annotations

import re
import shlex

# (pattern, cure); the first match wins. ssh(1)'s messages, the same since OpenSSH 6.
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
        r"kex_exchange_identification|closed by \S+ port",
        "its ssh server closes the connection before the login: too many at once (MaxStartups in "
        "sshd_config), or this machine is locked out there (fail2ban)",
    ),
    (
        r"banner exchange",
        "the address takes connections, and the ssh server there says nothing: the host hangs, is "
        "out of memory or under load. See its console; then run again",
    ),
    (
        r"waiting for privilege escalation prompt",
        "ssh has a connection, and no command begins there: the host has just stopped answering, "
        "its login hangs (a home on a dead file server, a directory service that is down), or it "
        "is under load, which ANSIBLE_TIMEOUT=60 gives more time. See its console, and how long "
        "this takes: ssh {address} sudo -n true",
    ),
    (
        r"No route to host|Network is unreachable|timed out",
        "nothing answers at that address: is the host on, and ansible_host right?",
    ),
    (
        r"over ssh:\s*$|not responding|Broken pipe|closed by remote host",
        "the host stopped answering in the middle: it is off, off the network, or hangs. See its "
        "console; then run again, which goes on where this run stopped",
    ),
)
FALLBACK = "log in by hand, as the inventory says; then run again"

# The address, as Ansible and ssh name it.
_ADDRESSES = (
    r"[Hh]ost key for (\S+) has changed",
    r'remote host "([^"]+)"',
    r"connect to host (\S+) port",
    r"via ssh: [^\s@]+@([^\s:]+)",
)
# The file with the old key; ssh-keygen needs its name unless it is the user's own known_hosts.
_KNOWN_HOSTS = re.compile(r"Offending \S+ key in (.+?):\d+")


def unreachable(message: str) -> str:
    """The cure for an unreachable host, by Ansible's or ssh's message."""
    for words, cure in RULES:
        if re.search(words, message):
            matches = (re.search(pattern, message) for pattern in _ADDRESSES)
            address = next((match[1] for match in matches if match), "")
            return cure.format(address=_quoted(address or "HOST"), **_known_hosts(message))
    return FALLBACK


def _known_hosts(message: str) -> dict[str, str]:
    """ssh-keygen's and ssh's options for the known_hosts that ssh read; "" for the user's own."""
    match = _KNOWN_HOSTS.search(message)
    if match is None or match[1].endswith("/.ssh/known_hosts"):  # the user's own, ssh's default
        return {"file": "", "option": ""}
    path = _quoted(match[1].strip())
    return {"file": f" -f {path}", "option": f" (ssh -o UserKnownHostsFile={path})"}


def _quoted(word: str) -> str:
    """Quotes a word for a shell, where `[192.0.2.1]:2222` is a pattern."""
    return word if word == "HOST" else shlex.quote(word)
