"""HTTP servers of a test's own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import HTTPServer


class Quiet:
    """A request handler's part: it writes no log among a test's output."""

    def log_message(self, *_words: object) -> None:
        pass


@contextlib.contextmanager
def serving(server: HTTPServer) -> Iterator[str]:
    """Its address, while it answers in a thread; it is closed then."""
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
