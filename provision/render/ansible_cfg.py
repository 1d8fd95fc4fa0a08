"""ansible.cfg: the settings that make the difference between minutes and seconds, each with its reason."""

from __future__ import annotations

TEXT = """\
# Made by `provision render`. Settings of your own belong into the environment or ~/.ansible.cfg's
# place in another project: this file is rendered again.
[defaults]
inventory = lab
roles_path = roles
# The default of 5 makes a lab of 50 wait ten times.
forks = 50
# The look asks for what it needs; nothing else gathers.
gathering = explicit
interpreter_python = auto_silent
retry_files_enabled = False
# Names in a host's own output must not be taken for templates or colours.
nocows = True

[ssh_connection]
# One round trip per task instead of three.
pipelining = True
# Connections stay open between tasks and between runs. x25519 first: most of a look at 100 hosts is
# key exchange.
ssh_args = -o ControlMaster=auto -o ControlPersist=10m -o KexAlgorithms=^curve25519-sha256 -o ServerAliveInterval=30
"""


def render() -> dict[str, bytes]:
    """ansible.cfg."""
    return {"ansible.cfg": TEXT.encode()}
