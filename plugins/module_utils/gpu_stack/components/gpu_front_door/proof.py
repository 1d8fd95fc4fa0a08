"""Proves the door: requests its page and everybody's path, as from another machine."""

from __future__ import annotations

import http.client
import socket
import ssl
import time

from ...host.answer_limit import cut_after
from ...type_checking import TYPE_CHECKING
from .renewal import nginx
from .renewal.files import inside
from .renewal.noted import is_shown, noted
from .renewal.paths import CA, CHAIN
from .renewal.programs import RefusedError

if TYPE_CHECKING:
    from typing import Any

PATIENCE = 15


def prove(seconds: float) -> str:
    """The door's name; RefusedError with all faults. Waits for a slow Jupyter."""
    door = noted()
    if door is None:
        raise RefusedError("there is no door here")
    nginx.check()
    until = time.time() + float(seconds)
    while True:
        wrong = faults(door["settings"])
        if not wrong or time.time() > until:
            break
        time.sleep(0.5)
    if wrong:
        raise RefusedError("; ".join(wrong))
    name: str = door["settings"]["name"]
    return name


def near(address: str) -> str:
    """The address by which this host itself reaches a listener."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)  # noqa: S104 compared


def get(
    settings: dict[str, Any],
    path: str,
    tls: bool = True,
    headers: dict[str, str] | None = None,
) -> tuple[int, str]:
    """(status, text) through the door."""
    connection = socket.create_connection(
        (near(settings["address"]), settings["port"]), timeout=PATIENCE
    )
    try:
        # A person's server is not trusted.
        with cut_after(connection, PATIENCE):
            if tls:
                connection = trust(settings).wrap_socket(
                    connection, server_hostname=settings["name"]
                )
            client = http.client.HTTPConnection(
                settings["name"], settings["port"], timeout=PATIENCE
            )
            client.sock = connection
            client.request("GET", path, headers={"Host": settings["name"], **(headers or {})})
            answer = client.getresponse()
            return answer.status, answer.read(1 << 20).decode("utf-8", "replace")
    finally:
        connection.close()


def trust(settings: dict[str, Any]) -> ssl.SSLContext:
    """A TLS context that trusts the host's CAs, and the given ones."""
    context = ssl.create_default_context()
    own = settings["tls"] == "local_ca"
    # A certificate of Let's Encrypt must be valid for everybody.
    if own or settings["tls"] == "given" or is_shown(settings):
        context.load_verify_locations(cafile=inside(CA if own else CHAIN))
        # A given certificate may be of a CA that this host does not know; its name, dates and key
        # are checked all the same.
        context.verify_flags |= 0x80000  # X509_V_FLAG_PARTIAL_CHAIN
    return context


def faults(settings: dict[str, Any]) -> list[str]:
    """All faults of the door's answers."""
    try:
        status, body = get(settings, "/")
    except (OSError, http.client.HTTPException) as error:
        return [f"the door does not answer: {error}"]
    wrong, names = [], [person["name"] for person in settings["people"]]
    missing = [name for name in names if f">{name}<" not in body]
    if status != 200 or missing:
        wrong.append("its page has status {0} and lacks {1}".format(status, missing or "nobody"))
    for person in settings["people"]:
        wrong += _wrong_paths(settings, person)
    try:
        if get(settings, "/", tls=False)[0] == 200:
            wrong.append("it answers in plain HTTP")
    except (OSError, http.client.HTTPException):
        pass  # as it should be
    return wrong


def _wrong_paths(settings: dict[str, Any], person: dict[str, Any]) -> list[str]:
    expected: dict[str, tuple[int, ...]]
    expected = {"api/status": (401, 403)} if "port" in person else {"": (404,)}
    if "port" in person and person.get("tensorboard_port"):
        expected["tensorboard/"] = (302,)
    wrong = []
    for path in sorted(expected):
        whole = "/{0}/{1}".format(person["name"], path)
        try:
            status = get(settings, whole)[0]
        except (OSError, http.client.HTTPException):
            status = None
        if status not in expected[path]:
            wrong.append(f"{whole} has status {status} for somebody without a token")
    return wrong
