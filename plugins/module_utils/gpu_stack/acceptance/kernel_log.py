"""Reads Xids, UUIDs and serial numbers out of the kernel log. Pure.

Users choose some of the words in it: the names of their programs, which the driver writes into an
Xid's line (15 bytes), and of their files, which the kernel writes when a program crashes. A name
may have any byte but a slash, and so look like another line or colour a terminal. Hence:

- The line of a message begins with its time, in the first column. What follows a line feed inside a
  message is indented by journalctl and by dmesg, so that it begins no line here. `dmesg --notime`,
  `--syslog` and `--force-prefix` do not keep them apart: their output must not be read here.
- Lines end at a line feed and nowhere else; str.splitlines ends them at a form feed too.
- Of an Xid's message, `own` are the words that can only be the driver's.
"""

from __future__ import annotations

import collections
import datetime
import re

from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Iterator

# Without --all, a message with a control character is only "[96B blob data]": a user would hide
# an Xid by the name of a program.
JOURNAL = (
    "journalctl", "-k", "-b", "--all", "-o", "short-unix", "--no-pager", "-q", "--lines=200000",
)  # fmt: skip

# What each message of NVIDIA's driver begins with.
DRIVER = "NVRM: "

# Characters of a message that are kept; a line may be a megabyte long.
LENGTH = 400

# time: seconds since 1970, None where the log has only those since the boot or no time zone.
# address: as 0000:17:00.0. message: what a person may read. own: its words that are surely the
# driver's, for a program to judge by. pid: of the process, None where the driver names none. part:
# of the card, as "GPC 1, TPC 3", with the MIG instance that counts them; None where it names none.
Xid = collections.namedtuple("Xid", "time address number message own pid part")

# None where the log does not say it.
Card = collections.namedtuple("Card", "uuid serial")

_LINE = re.compile(
    r"(?:(?P<epoch>[0-9]{9,11}\.[0-9]{6}) (?:\S+ )?kernel: "
    # dmesg's --raw, --decode and --time-format; from newer kernels also who called printk.
    r"|(?:<[0-9]{1,3}>)?(?:[a-z0-9]{1,10} *:[a-z]{1,10} *: )?"
    r"(?:\[[^][\n]{3,60}\]|(?P<iso>[0-9-]{10}T[0-9:]{8},[0-9]{6}[+-][0-9]{2}:[0-9]{2})) "
    r"(?:\[ *[CT][0-9]{1,10}\] )?)"
    r"NVRM: (?P<words>.*)",
    re.S,
)
_INDENTED = re.compile(r" +NVRM: (?P<words>.*)", re.S)
_ADDRESS = r"(?:PCI:)?([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?)"
# On a card that is shared (MIG), the instance stands behind the address.
_XID = re.compile(
    r"Xid \(" + _ADDRESS + r"((?: GPU-C?I:[0-9]{1,5}){0,2})\): ([0-9]{1,5})(?:, ?(.*))?$",
    re.S,
)
_PROCESS = re.compile(r"pid='?([0-9]{1,10}|<unknown>)'?, ")
_NOBODY = "pid='<unknown>', name=<unknown>, "
# As far as a name of 15 bytes can reach; dmesg writes one byte as \x1b.
_NAME = re.compile(r"name=(?:\\x[0-9a-f]{2}|\\(?!x[0-9a-f]{2})|[^\\]){0,15}, ", re.S)
_PART = re.compile(r"\((GPC [0-9]{1,3}, TPC [0-9]{1,3})(?:, SM [0-9]{1,3})?\)")
_LOST = re.compile("GPU " + _ADDRESS + r": GPU has fallen off the bus\.?$")
# At the start of the driver, as one message of three lines.
_MISSING = re.compile("The NVIDIA GPU " + _ADDRESS + "$")
_MISSING_REST = (
    re.compile(r"\(PCI ID: [0-9a-f]{4}:[0-9a-f]{4}\) installed in this system has$"),
    re.compile(r"fallen off the bus and is not responding to commands\.$"),
)
_UUID = re.compile("GPU at " + _ADDRESS + r": (GPU(?:-[0-9a-f]{4,12}){5})$")
_SERIAL = re.compile(r"GPU Board Serial Number: ([0-9A-Za-z]{1,32})$")
_SERIAL_AT = re.compile("GPU " + _ADDRESS + r": GPU serial number is ([0-9A-Za-z]{1,32})\.$")

FALLEN_OFF = 79
FALLEN_OFF_WORDS = "GPU has fallen off the bus."


def xids(text: str) -> list[Xid]:
    """The Xids in what journalctl (JOURNAL) or dmesg print, in their order.

    A lost card may be logged without one: that counts as Xid 79, once.
    """
    events: list[tuple[Xid, bool]] = []
    lines = text.split("\n")
    for place, line in enumerate(lines):
        match = _LINE.match(line)
        if match is None:
            continue
        words = match.group("words")
        xid = _XID.match(words)
        if xid is not None:
            events.append((_xid(match, *xid.groups()), True))
            continue
        lost = _LOST.match(words) or _missing(words, lines[place + 1 : place + 3])
        if lost is not None:
            fields = (lost.group(1), "", str(FALLEN_OFF), FALLEN_OFF_WORDS)
            events.append((_xid(match, *fields), False))
    return list(_once(events))


def _once(events: list[tuple[Xid, bool]]) -> Iterator[Xid]:
    """The Xids; a loss that was logged without one counts once a card, and not beside its Xid."""
    lost = {xid.address for xid, real in events if real and xid.number == FALLEN_OFF}
    for xid, real in events:
        if real or xid.address not in lost:
            yield xid
        if not real:
            lost.add(xid.address)


def cards(text: str) -> dict[str, Card]:
    """UUID and serial number by address, as far as the driver has logged them at a first Xid.

    The line with the serial number names no card: it belongs to the line before it, and where two
    cards were named in a row, to neither.
    """
    uuids: dict[str, str] = {}
    serials: dict[str, str] = {}
    waiting: list[str] = []
    for words in _words(text):
        uuid, serial, at = _UUID.match(words), _SERIAL.match(words), _SERIAL_AT.match(words)
        if uuid is not None:
            address = _normal(uuid.group(1))
            uuids[address] = uuid.group(2)
            waiting.append(address)
            continue
        if serial is not None and len(waiting) == 1:
            serials[waiting[0]] = serial.group(1)
        if at is not None:
            serials[_normal(at.group(1))] = at.group(2)
        waiting = []
    return {
        address: Card(uuids.get(address), serials.get(address))
        for address in sorted({*uuids, *serials})
    }


def _words(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        match = _LINE.match(line)
        if match is not None:
            yield match.group("words")


def _missing(words: str, after: list[str]) -> re.Match[str] | None:
    """The match of the first line of three about a card that does not answer."""
    match = _MISSING.match(words)
    if match is None or len(after) < len(_MISSING_REST):
        return None
    for pattern, line in zip(_MISSING_REST, after):  # noqa: B905  Python 3.7
        rest = _LINE.match(line) or _INDENTED.match(line)
        if rest is None or pattern.match(rest.group("words")) is None:
            return None
    return match


def _xid(line: re.Match[str], address: str, instance: str, number: str, rest: str | None) -> Xid:
    rest = rest or ""
    own = _own(rest)
    process, part = _PROCESS.match(rest), _PART.search(own)
    pid = None if process is None or not process.group(1).isdigit() else int(process.group(1))
    return Xid(
        _time(line), _normal(address), int(number), _printable(rest), _printable(own), pid,
        part and " ".join([*instance.split(), part.group(1)]),
    )  # fmt: skip


def _time(line: re.Match[str]) -> float | None:
    if line.group("epoch"):
        return float(line.group("epoch"))
    if line.group("iso"):
        try:
            written = datetime.datetime.strptime(line.group("iso"), "%Y-%m-%dT%H:%M:%S,%f%z")
        except ValueError:
            return None
        return written.timestamp()
    return None


def _own(rest: str) -> str:
    """The message without the process; nothing where its name's end can't be found."""
    if rest.startswith(_NOBODY):
        return rest[len(_NOBODY) :]
    process = _PROCESS.match(rest)
    if process is None:
        return rest
    rest = rest[process.end() :]
    if not rest.startswith("name="):
        return rest
    name = _NAME.match(rest)
    return "" if name is None else rest[name.end() :]


def _normal(address: str) -> str:
    """PCI:0000:17:00, 00000000:17:00.0 or 0000:17:00 -> 0000:17:00.0."""
    domain, bus, slot = address.split(":")
    return "{0:04x}:{1}:{2}".format(int(domain, 16), bus, slot if "." in slot else slot + ".0")


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text[:LENGTH])
