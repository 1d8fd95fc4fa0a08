"""What the doctor reads of served models, and what their servers say when they are asked."""

from __future__ import annotations

import re

from ...host import listening
from ...type_checking import TYPE_CHECKING
from .. import gpu_serving
from ..gpu_front_door import obstacles as of_door
from . import asking, entries, places, saved_model

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Context

PATIENCE = "20"
PROPERTIES = "ActiveState,SubState,NRestarts,ExecMainStatus,ActiveEnterTimestampMonotonic"
# Of the journal its last lines, and of those no more characters.
LINES, TAIL = "200", 1 << 18


def ask(context: Context) -> dict[str, Any]:
    """{served: {name: what is seen of a model}, ways: {path: fault of a file of the front door}}.

    Of every model that a run brought here, wished for or not.
    """
    records = gpu_serving.records(context)
    served = {name: _model(context, name, records[name]) for name in records}
    return {
        "served": {name: model for name, model in served.items() if model is not None},
        "ways": gpu_serving.door(context, records) if records else {},
    }


def _model(context: Context, name: str, record: dict[str, Any]) -> dict[str, Any] | None:
    """What is seen of one model; None of one whose record is damaged, which the plan says."""
    entry, slot = (record.get("settings") or {}).get("entry") or {}, record.get("slot")
    address = (record.get("addresses") or {}).get(slot)
    if slot not in places.SLOTS or not address or "models" not in entry:
        return None
    unit = places.unit(name, slot)
    status, answer = asking.ask(address, places.REST, f"/v1/models/{name}", patience=5)
    return {
        "unit": unit,
        "state": _state(context, unit),
        "words": _words(context, unit),
        "address": address,
        "answers": status is not None,
        "states": asking.versions(answer),
        "directory": entry["models"],
        "disk": saved_model.look(context, entry["models"]),
        "ports": {port: _owners(context, port) for port in entries.ports(entry)},
    }


def _state(context: Context, unit: str) -> dict[str, Any]:
    """{active, sub, restarts, status, age} of a unit; `age`: seconds since it began, or None."""
    show = ["systemctl", "show", "--property=" + PROPERTIES, unit]
    answer = context.run(["timeout", "--kill-after=5", PATIENCE, *show])
    properties = dict(re.findall(r"^(\w+)=(.*)$", answer.out, re.M)) if answer.rc == 0 else {}
    begun = _number(properties.get("ActiveEnterTimestampMonotonic"))
    uptime = re.match(r"\d+", context.read("/proc/uptime") or "")
    age = int(uptime.group(0)) - begun // 1000000 if uptime and begun else None
    return {
        "active": properties.get("ActiveState", "unknown"),
        "sub": properties.get("SubState", ""),
        "restarts": _number(properties.get("NRestarts")),
        "status": _number(properties.get("ExecMainStatus")),
        "age": age,
    }


def _number(text: str | None) -> int:
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,18}", text) else 0


def _words(context: Context, unit: str) -> str:
    """What the container said last: its model's owner may have worded it."""
    show = ["journalctl", "--unit", unit, "--lines", LINES, "--output", "cat", "--no-pager"]
    answer = context.run(["timeout", "--kill-after=5", PATIENCE, *show])
    return re.sub(r"[^\n -~]", "?", answer.out[-TAIL:]) if answer.rc == 0 else ""


def _owners(context: Context, port: int) -> dict[str, Any]:
    """{held, programs}: whether systemd holds a port, and else who listens there."""
    held = gpu_serving.holds(context, port)
    uids = sorted(set(listening.sockets(context, port).values()))
    programs = [] if held or not uids else of_door.holders(context, port)
    return {
        "held": held,
        "programs": [asking.plain(f"{program} (uid {', '.join(uids)})") for program in programs],
    }
