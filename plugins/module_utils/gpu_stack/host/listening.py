"""What listens on the host's TCP ports."""

from __future__ import annotations

from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from .context import Context


def sockets(context: Context, port: int) -> dict[str, str]:
    """{socket, as /proc/PID/fd names it: its user's number} of those that listen on this port.

    https://www.kernel.org/doc/Documentation/networking/proc_net_tcp.txt
    """
    users = {}
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in (context.read(path) or "").splitlines()[1:]:
            fields = line.split()
            listens = len(fields) > 9 and fields[3] == "0A"
            if listens and int(fields[1].rpartition(":")[2], 16) == port:
                users[f"socket:[{fields[9]}]"] = fields[7]
    return users
