"""What a simulated GPU can be sick with: the keys of /etc/gpu-simulated, and their values.

One table, so that a key which no library reads, or a value that it would read as 0, is refused
where it is typed and not found out when a check stays green.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from provision.errors import InputError

MAXIMUM = 16  # GPUs of a host: SIMULATED_MAXIMUM in simulated.h
LINKS = 36  # NVML_NVLINK_MAX_LINKS
TOPOLOGY = ("internal", "single", "multiple", "hostbridge", "node", "system")


@dataclass(frozen=True)
class Key:
    """What may stand behind a key, as a pattern and in words."""

    pattern: str
    words: str

    def takes(self, value: str) -> bool:
        return re.fullmatch(self.pattern, value, re.ASCII) is not None


def _number(words: str) -> Key:
    return Key(r"\d{1,19}", words)


def _numbers(count: int, words: str) -> Key:
    return Key(rf"\d{{1,9}}(,\d{{1,9}}){{{count - 1}}}", words)


def _links(words: str) -> Key:
    return Key(rf"(\d{{1,2}}(,\d{{1,2}}){{0,{LINKS - 1}}})?", words)


_FLAG = Key("[01]", "0 or 1")
_TEXT = Key(r"[!-~]{1,29}", "up to 29 letters, digits and marks")  # NVML's buffers have 30 and 32
_GENERATION = Key("[1-6]", "1 to 6")
_WIDTH = Key("1|2|4|8|16", "1, 2, 4, 8 or 16")
_COUNT = _number("a count")
_CELSIUS = Key(r"\d{1,3}", "degrees Celsius")
_MILLIWATTS = Key(r"\d{1,7}", "milliwatts")
_MEGAHERTZ = Key(r"\d{1,5}", "MHz")
_TOPOLOGY = Key("|".join(TOPOLOGY), ", ".join(TOPOLOGY))

# Of one GPU: a line gpuN.KEY=VALUE, N being its place on the PCI bus.
KEYS = {
    "lost": _FLAG,
    "serial": _TEXT,
    "vbios": _TEXT,
    "pcie_generation": _GENERATION,
    "pcie_max_generation": _GENERATION,
    "pcie_width": _WIDTH,
    "pcie_max_width": _WIDTH,
    "replays": Key(r"\d{1,9}", "a count"),
    "ecc_mode": _FLAG,
    "ecc_corrected": _COUNT,
    "ecc_uncorrected": _COUNT,
    "ecc_corrected_aggregate": _COUNT,
    "ecc_uncorrected_aggregate": _COUNT,
    "remapped_rows": Key(r"(\d{1,9},){2}[01],[01]", "CORRECTED,UNCORRECTED,PENDING,FAILURE"),
    "retired_pages": Key(r"(\d{1,4},){2}[01]", "SINGLE,DOUBLE,PENDING"),
    "throttle": Key(r"(0x)?[0-9a-fA-F]{1,16}", "hexadecimal bits, as 0x8"),
    "temperature": _CELSIUS,
    "slowdown_temperature": _CELSIUS,
    "shutdown_temperature": _CELSIUS,
    "fan": Key(r"\d{1,3}", "percent"),
    "power": _MILLIWATTS,
    "power_limit": _MILLIWATTS,
    "clock": _MEGAHERTZ,
    "clock_max": _MEGAHERTZ,
    "performance_state": Key(r"\d|1[0-5]", "0 to 15"),
    "persistence": _FLAG,
    "compute_mode": Key("[0-3]", "0 to 3"),
    "display": _FLAG,
    "mig": Key("[01],[01]", "CURRENT,PENDING, each 0 or 1"),
    "mig_devices": Key("[0-7]", "0 to 7"),
    "nvlinks": Key(r"\d|[12]\d|3[0-6]", f"0 to {LINKS}"),
    "nvlinks_down": _links("numbers of links with commas; nothing for none"),
    "nvlink_peer": _links("a GPU for each link, with commas"),
    "nvlink_errors": _COUNT,
    "processes": Key(r"\d{1,9}:\d{1,9}(,\d{1,9}:\d{1,9}){0,63}", "PID:MIB with commas, at most 64"),
}
# Of the host: a line KEY=VALUE; beside them topology.I-J of two GPUs.
HOST_KEYS = {
    "topology": _TOPOLOGY,
    "hang": Key(r"\d{1,5}", "seconds"),
    "missing": Key(r"\d{1,2}(,\d{1,2}){0,15}", "the place of a GPU on the bus"),
}
PAIR = re.compile(r"topology\.(\d{1,2})-(\d{1,2})", re.ASCII)
OF_A_GPU = re.compile(r"gpu(\d{1,2})\.(\w+)", re.ASCII)


def check(values: Mapping[str, str], *, gpu: int | None, count: int) -> None:
    """Raises InputError for what can't be said of this GPU, or of the host where `gpu` is None.

    `count` is how many GPUs the host has.
    """
    if gpu is not None and not 0 <= gpu < count:
        raise InputError("there is no such GPU", got=str(gpu), expected=_places(count))
    for name, value in values.items():
        key = _key(name, gpu=gpu, count=count)
        if not key.takes(value):
            raise InputError(f"{name} can't be this", got=value, expected=key.words)


def check_names(names: Iterable[str], *, gpu: int | None, count: int) -> None:
    """Raises InputError for a key that a GPU, or the host where `gpu` is None, does not have."""
    for name in names:
        _key(name, gpu=gpu, count=count)


def _key(name: str, *, gpu: int | None, count: int) -> Key:
    table = HOST_KEYS if gpu is None else KEYS
    if name in table:
        return table[name]
    pair = PAIR.fullmatch(name) if gpu is None else None
    if pair is None:
        other = KEYS if gpu is None else HOST_KEYS
        raise InputError(
            f"{'the host' if gpu is None else 'a simulated GPU'} has no {name}",
            got=name,
            expected=", ".join([*table, *(["topology.I-J"] if gpu is None else [])]),
            hint=("" if name not in other else f"{name} is a GPU's: say which by --gpu")
            if gpu is None
            else ("" if name not in other else f"{name} is the host's: leave out --gpu"),
        )
    one, another = (int(number) for number in pair.groups())
    if one == another or max(one, another) >= count:
        raise InputError("these are not two GPUs of the host", got=name, expected=_places(count))
    return _TOPOLOGY


def _places(count: int) -> str:
    return f"0 to {count - 1}" if count else "a host with GPUs"


def lines(gpus: Mapping[int, Mapping[str, str]], host: Mapping[str, str]) -> dict[str, str]:
    """{line's name: value} as the file has them."""
    named = {
        f"gpu{number}.{key}": value
        for number, values in sorted(gpus.items())
        for key, value in values.items()
    }
    return {**host, **named}
