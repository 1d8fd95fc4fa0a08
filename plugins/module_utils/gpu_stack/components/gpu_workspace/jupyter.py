"""HTTP requests to a person's Jupyter or TensorBoard."""

from __future__ import annotations

import http.client
import socket

from ...host.answer_limit import cut_after
from .program import files

ANSWER = 10
# Bytes; Jupyter's list of kernels is shorter.
SAID = 1 << 16


def ask(
    place: str | tuple[str, int], path: str, token: str | None = None, patience: float = ANSWER
) -> tuple[int | None, str]:
    """(status, text) of Jupyter's answer, with or without a token; None where nothing answers.

    `place` is (address, port), or the path of the socket that systemd opened for root. The server
    is not trusted: at most `patience` seconds for the whole answer, and SAID bytes of it.
    """
    # The header Host must be a name: Tornado since 6.5 answers 400 to a path.
    host, port = ("localhost", 80) if isinstance(place, str) else place
    if host == "0.0.0.0":  # noqa: S104 compared, not bound
        host = "127.0.0.1"
    connection = http.client.HTTPConnection(host, port)
    try:
        if isinstance(place, str):
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.settimeout(patience)
            connection.sock.connect(files.inside(place))
        else:
            connection.sock = socket.create_connection((host, port), timeout=patience)
        with cut_after(connection.sock, patience):
            headers = {"Authorization": "token " + token} if token else {}
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            return response.status, response.read(SAID).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        return None, ""
    finally:
        connection.close()
