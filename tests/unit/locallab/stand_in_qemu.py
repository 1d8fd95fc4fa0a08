#!/usr/bin/env python3
"""qemu as far as a lab sees it: a process with its command line that waits.

On the port that it forwards it answers as a host's sshd begins to.
"""

import contextlib
import re
import socket
import sys

forwarded = re.search(r"hostfwd=tcp:127[.]0[.]0[.]1:(\d+)-:22", " ".join(sys.argv))
listener = socket.create_server(("127.0.0.1", int(forwarded.group(1))))
while True:
    link, _ = listener.accept()
    with contextlib.suppress(OSError):
        link.sendall(b"SSH-2.0-stand-in\r\n")
    link.close()
