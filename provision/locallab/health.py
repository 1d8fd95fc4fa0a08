"""What a simulated GPU can be sick with: the keys of /etc/gpu-simulated, and their values.

One table, so that a key which no library reads, or a value that it would read as 0, is refused
where it is typed and not found out when a check stays green.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from provision.errors import InputError

LINKS = 36  # NVML_NVLINK_MAX_LINKS
GPUS = 16  # SIMULATED_MAXIMUM of the libraries
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
    "remap_banks": _numbers(5, "MAX,HIGH,PARTIAL,LOW,NONE"),
    "unrepairable_memory": _FLAG,
    "sram_errors": Key(r"(\d{1,9},){2}[01]", "PARITY,SECDED,EXCEEDED"),
    "repairs_pending": Key("[01],[01]", "CHANNEL,TPC, each 0 or 1"),
    "recovery_action": Key("[0-9]", "0 to 9: 0 nothing, 1 reset, 2 reboot, 3 drain P2P, 4 drain"),
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
    "xid": Key(r"\d{1,3}(,\d{1,3}){0,15}", "numbers with commas, at most 16"),
    "processes": Key(r"\d{1,9}:\d{1,9}(,\d{1,9}:\d{1,9}){0,63}", "PID:MIB with commas, at most 64"),
}
# Of these no library knows: sick.py writes the kernel's log by them.
IN_LOG = ("xid",)
# Of the host: a line KEY=VALUE; beside them topology.I-J of two GPUs.
HOST_KEYS = {
    "topology": _TOPOLOGY,
    "hang": Key(r"\d{1,5}", "seconds"),
    "missing": Key(r"\d{1,2}(,\d{1,2}){0,15}", "the place of a GPU on the bus"),
}
PAIR = re.compile(r"topology\.(\d{1,2})-(\d{1,2})", re.ASCII)
OF_A_GPU = re.compile(r"gpu(\d{1,2})\.(\w+)", re.ASCII)


# {key: the key whose healthy value says that a model has the feature at all}
NEEDS = {
    **{key: key for key in ("serial", "fan", "remapped_rows", "retired_pages", "mig")},
    **{key: "ecc_mode" for key in KEYS if key.startswith("ecc_")},
    **dict.fromkeys(("remap_banks", "unrepairable_memory", "sram_errors"), "remapped_rows"),
    "mig_devices": "mig",
}
# {key: (since which branch of the driver NVML has it, what a healthy card answers)}; where a model
# lacks what the key needs it never has it.
NEWER = {
    "remap_banks": (455, "640,0,0,0,0"),
    "sram_errors": (535, "0,0,0"),
    "recovery_action": (565, "0"),
    "repairs_pending": (580, "0,0"),
    "unrepairable_memory": (590, "0"),
}


@dataclass(frozen=True)
class Host:
    """What decides about the keys of a host: its GPUs' name, their number, and `Model.healthy`."""

    name: str
    count: int
    healthy: Mapping[str, str]

    def check(self, values: Mapping[str, str | None], *, gpu: int | None) -> None:
        """Raises InputError for what can't be said of this GPU, or of the host where it is None.

        A value that is None takes the key back.
        """
        if gpu is not None and not 0 <= gpu < self.count:
            raise InputError("there is no such GPU", got=str(gpu), expected=self._places)
        for name, value in values.items():
            key = _key(name) if gpu is None else self._key_of_gpu(name)
            if value is not None and not key.takes(value):
                raise InputError(f"{name} can't be this", got=value, expected=key.words)
            if gpu is None:
                self._check_places(name, value or "")

    @property
    def _places(self) -> str:
        return f"0 to {self.count - 1}" if self.count else "a host with GPUs"

    def _key_of_gpu(self, name: str) -> Key:
        if name not in KEYS:
            raise InputError(
                "a simulated GPU has no such key",
                got=name,
                expected=", ".join(KEYS),
                hint="leave out --gpu: it is the host's" if _is_of_host(name) else "",
            )
        if name in NEEDS and NEEDS[name] not in self.healthy:
            raise InputError(f"no {self.name} has {name}, so nothing would show it", got=name)
        return KEYS[name]

    def _check_places(self, name: str, value: str) -> None:
        """GPUs that the host's keys name must be there."""
        pair = PAIR.fullmatch(name)
        named = list(pair.groups()) if pair else []
        if name == "missing" and value:
            named = value.split(",")
        if len(set(named)) != len(named) or any(int(place) >= self.count for place in named):
            raise InputError(
                "these are not GPUs of the host", got=value or name, expected=self._places
            )


def _is_of_host(name: str) -> bool:
    return name in HOST_KEYS or PAIR.fullmatch(name) is not None


def _key(name: str) -> Key:
    if not _is_of_host(name):
        raise InputError(
            "a simulated host has no such key",
            got=name,
            expected=", ".join([*HOST_KEYS, "topology.I-J"]),
            hint="say of which GPU with --gpu" if name in KEYS else "",
        )
    return HOST_KEYS.get(name, _TOPOLOGY)


def owner(line: str) -> int | None:
    """The GPU that a line of the file is about, -1 for the host; None where it is no sickness."""
    match = OF_A_GPU.fullmatch(line)
    if match and match[2] in KEYS:
        return int(match[1])
    return -1 if _is_of_host(line) else None


def xids(lines: Mapping[str, str]) -> dict[int, str]:
    """{GPU: its Xids} of the file's lines."""
    matches = {OF_A_GPU.fullmatch(line): value for line, value in lines.items()}
    return {int(match[1]): value for match, value in matches.items() if match and match[2] == "xid"}


def newer(healthy: Mapping[str, str], driver_version: str) -> dict[str, str]:
    """What a driver this new says besides of a healthy card of a model."""
    branch = int(driver_version.split(".")[0])
    return {
        key: value
        for key, (since, value) in NEWER.items()
        if branch >= since and NEEDS.get(key, "name") in {"name", *healthy}
    }


def edited(text: str, values: Mapping[str, str | None]) -> str:
    """The file's text with these lines set; those whose value is None are gone."""
    kept = [
        line
        for line in text.splitlines()
        if line.startswith("#") or line.split("=", 1)[0].strip() not in values
    ]
    new = [f"{name}={value}" for name, value in values.items() if value is not None]
    return "".join(f"{line}\n" for line in [*kept, *new])


def lines(gpus: Mapping[int, Mapping[str, str]], host: Mapping[str, str]) -> dict[str, str]:
    """{line's name: value} as the file has them."""
    named = {
        f"gpu{number}.{key}": value
        for number, values in sorted(gpus.items())
        for key, value in values.items()
    }
    return {**host, **named}
