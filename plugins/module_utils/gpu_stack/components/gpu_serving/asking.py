"""HTTP requests to TensorFlow Serving."""

from __future__ import annotations

import http.client
import json
import re

from ...host.answer_limit import cut_after

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any

PATIENCE = 30.0
# Bytes of an answer; predictions of large models can be long, states are not.
SAID, STATED = 16 << 20, 1 << 20
NUMBER = re.compile(r"[0-9]{1,19}")


def ask(
    address: str, port: int, path: str, body: Any = None, patience: float = PATIENCE
) -> tuple[int | None, Any]:
    """(status, JSON) of an answer; None where nothing answers, or no JSON.

    The server is not trusted: at most `patience` seconds to connect and as many for the whole
    answer, and SAID bytes.
    """
    connection = http.client.HTTPConnection(address, port, timeout=patience)
    try:
        connection.connect()
        with cut_after(connection.sock, patience):
            data = None if body is None else json.dumps(body).encode()
            connection.request("GET" if data is None else "POST", path, body=data)
            response = connection.getresponse()
            text = response.read(STATED if data is None else SAID)
        return response.status, json.loads(text.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None, None
    except (OSError, http.client.HTTPException):
        return None, None
    finally:
        connection.close()


def versions(answer: Any) -> dict[int, tuple[str, str]]:
    """{version: (state, error)} of what GET /v1/models/NAME answers; {} of anything else."""
    rows = answer.get("model_version_status") if isinstance(answer, dict) else None
    states: dict[int, tuple[str, str]] = {}
    for row in rows if isinstance(rows, list) else []:
        if not isinstance(row, dict) or NUMBER.fullmatch(str(row.get("version"))) is None:
            continue
        status = row.get("status")
        status = status if isinstance(status, dict) else {}
        error = "" if status.get("error_code") == "OK" else str(status.get("error_message") or "")
        states[int(row["version"])] = (str(row.get("state")), plain(error))
    return states


def serving(states: dict[int, tuple[str, str]]) -> int | None:
    """The newest version that is served; None where none is."""
    return max((state for state in states if states[state][0] == "AVAILABLE"), default=None)


def plain(text: str) -> str:
    """One line of printable characters, 300 at most: it is the model's owner who words it."""
    return "".join(c if c.isprintable() and ord(c) < 127 else " " for c in text)[:300].strip()


def judged(states: dict[int, tuple[str, str]], newest: int | None) -> tuple[bool, str | None]:
    """(whether to wait on, what is wrong) of a model's versions; None where the newest is served.

    `newest` is the number of the newest version on the disk; a newer one may have come since. What
    became of older ones says nothing: TensorFlow Serving lists them for as long as it runs.
    """
    serves = serving(states)
    if newest is not None and serves is not None and serves >= newest:
        return False, None
    failed = [
        "version {0} does not load: {1}".format(number, states[number][1] or "no reason is said")
        for number in sorted(states)
        if states[number][0] == "END"
        and (number == newest or (states[number][1] and number > (newest or 0)))
    ]
    still = "no version serves" if serves is None else f"version {serves} still serves"
    if newest is None:
        return False, ("its directory has no version" if serves is None else None)
    if failed:
        return False, "; ".join([*failed, still])
    return True, f"version {newest} is not loaded yet; {still}"
