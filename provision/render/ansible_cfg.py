"""ansible.cfg: settings that make the difference between minutes and seconds, with reasons."""

from __future__ import annotations

# Connections stay open between tasks and between runs. x25519 first: most of a look at 100 hosts is
# the exchange of keys.
_SSH = (
    "ControlMaster=auto",
    "ControlPersist=10m",
    "KexAlgorithms=^curve25519-sha256",
    # A host that stops answering in the middle is unreachable after two minutes at most, and a
    # switch that restarts costs no run.
    "ServerAliveInterval=30",
    "ServerAliveCountMax=3",
)

_CALLBACKS = ("report", "doctor", "acceptance", "training")

TEXT = f"""\
# Made by `provision render`, which writes it again: settings of your own go into the environment.
[defaults]
inventory = lab
# Ours come first; others, such as a dynamic inventory needs, stay where Ansible looks for them.
collections_path = collections:~/.ansible/collections:/usr/share/ansible/collections
# Writes report/; see docs/report.md of provision.
callbacks_enabled = {", ".join(f"provision.gpu.{name}" for name in _CALLBACKS)}
# With the default of 5 a lab of 50 hosts waits ten times.
forks = 50
# The look asks for what it needs; nothing else gathers.
gathering = explicit
interpreter_python = auto_silent
retry_files_enabled = False
# With the default of 1 ms Ansible spends more on asking its workers than on their work.
internal_poll_interval = 0.01
# Seconds for ssh to connect and for sudo to begin: with the default of 10 a host under load counts
# as unreachable.
timeout = 30
# A task that hangs on one host (a sick driver, a dead file server) fails after four hours, and the
# other hosts go on. Shorter tasks have limits of their own.
task_timeout = 14400

[ssh_connection]
# One round trip per task instead of three.
pipelining = True
# Connections stay open between tasks and runs; the fast key exchange first.
ssh_args = {" ".join(f"-o {setting}" for setting in _SSH)}
"""


def render() -> dict[str, bytes]:
    """ansible.cfg."""
    return {"ansible.cfg": TEXT.encode()}
