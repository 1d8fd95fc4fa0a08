"""What is wrong with a value of one of Slurm's options; None where it is right.

Read by the generator, for an inventory, and on hosts, for what comes by -e or a template.
"""

from __future__ import annotations

from . import patterns

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any


def cluster(value: Any) -> str | None:
    if isinstance(value, str) and patterns.CLUSTER.fullmatch(value):
        return None
    return f"{value!r} is no name of a cluster; expected small letters, digits and _, as gpu"


def controller(value: Any) -> str | None:
    return None if value == "" else node(value)


def node(value: Any) -> str | None:
    is_name = isinstance(value, str) and patterns.NODE.fullmatch(value)
    if is_name and value.lower() not in patterns.NO_NODES:
        return None
    return f"{value!r} is no name of a host for Slurm; expected at most 63 letters, digits, . _ -"


def address(value: Any) -> str | None:
    if value == "" or (isinstance(value, str) and patterns.ADDRESS.fullmatch(value)):
        return None
    return f"{value!r} is no address of a host for Slurm; expected a name or an address of IPv4"


def time(value: Any) -> str | None:
    if isinstance(value, str) and patterns.TIME.fullmatch(value):
        return None
    return f"{value!r} is no time; expected minutes or [days-]hours:minutes:seconds, as 4:00:00"


def reserve(value: Any) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return None
    return f"{value!r} is no amount of memory; expected MiB, as 2048"


def partitions(value: Any) -> str | None:
    names = []
    for entry in value:
        fault = _partition(entry)
        if fault is not None:
            return fault
        names.append(entry["name"])
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        return f"partition {twice[0]} is named twice"
    if sum(1 for entry in value if entry.get("default")) > 1:
        return "only one partition can be the default one"
    return None


def _partition(entry: Any) -> str | None:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        return f"{entry!r} is no partition; expected {{name: short, max_time: 4:00:00}}"
    name = entry["name"]
    if not patterns.PARTITION.fullmatch(name) or name.lower() in ("default", "all"):
        return f"{name!r} is no name of a partition"
    for word in sorted(entry):
        if word not in patterns.PARTITION_WORDS:
            accepted = ", ".join(patterns.PARTITION_WORDS)
            return f"{name}: {word} is no word of a partition; expected {accepted}"
    for word in ("default_time", "max_time"):
        if word in entry and time(entry[word]):
            return f"{name}: {word}: {time(entry[word])}"
    if not isinstance(entry.get("default", False), bool):
        return f"{name}: default is {entry['default']!r}; expected true or false"
    return _numbers(entry) or _names(entry)


def _numbers(entry: dict[str, Any]) -> str | None:
    name = entry["name"]
    for word in ("max_nodes", "priority"):
        value = entry.get(word, 1)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 65534:
            return f"{name}: {word}: {value!r} is no number from 1 to 65533"
    return None


def _names(entry: dict[str, Any]) -> str | None:
    name = entry["name"]
    for word, shape in (("nodes", patterns.NODE), ("groups", patterns.PARTITION)):
        listed = entry.get(word, ["a"])
        if not isinstance(listed, list) or not listed:
            return f"{name}: {word} is {listed!r}; expected a list of names"
        for member in listed:
            if not isinstance(member, str) or not shape.fullmatch(member):
                return f"{name}: {word}: {member!r} is no name"
    return None


def extra(value: Any) -> str | None:
    for line in value:
        match = patterns.EXTRA.fullmatch(line) if isinstance(line, str) else None
        if match is None:
            return f"{line!r} is no line of slurm.conf; expected one Name=Value"
        if match.group(1).lower() in patterns.DECIDED:
            return f"{match.group(1)} is decided by this program; take {line!r} out"
    return None


def part(value: dict[str, Any]) -> str | None:
    """What a host says of itself: it gets into the configuration of all."""
    try:
        names = [value["name"], value["hostname"]]
        faults = [*map(node, names), address(value["address"] or None)]
        numbers = [value[word] for word in ("sockets", "cores", "threads")]
        gpus = [(gpu["type"], gpu["file"]) for gpu in value["gpus"]]
        gpus += [("gpu", file) for file in value.get("closed") or []]
        faults += [_count(number, 1) for number in numbers] + [_count(value["memory"], 0)]
    except (KeyError, TypeError):
        return "what it says of itself is no description of a host"
    for kind, file in gpus:
        if not (patterns.GPU_TYPE.fullmatch(str(kind)) and patterns.GPU_FILE.fullmatch(str(file))):
            faults.append(f"{kind!r} with the file {file!r} is no GPU")
    return next((fault for fault in faults if fault is not None), None)


def _count(value: Any, least: int) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool) and least <= value < 1 << 31:
        return None
    return f"{value!r} is no number of processors or of MiB"
