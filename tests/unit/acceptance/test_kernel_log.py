"""Xids in the kernel log: the formats of drivers 390 to 580, and names that users choose."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from gpu_stack.acceptance import kernel_log, xids
from gpu_stack.acceptance.kernel_log import Card, Xid
from hypothesis import given, settings
from hypothesis import strategies as st

LOST = (
    "NVRM: Xid (PCI:0000:17:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
)
FORGED = "NVRM: Xid (PCI:0000:17:00): 79, GPU has fallen off the bus."


def journal(*messages: str) -> str:
    """As `journalctl -o short-unix --all`: what follows a line feed is indented."""
    prefix = "1764112483.123456 gpu1 kernel: "
    return "".join(prefix + m.replace("\n", "\n" + " " * len(prefix)) + "\n" for m in messages)


def dmesg(*messages: str) -> str:
    """As dmesg of util-linux: it escapes control characters but the line feed."""
    prefix = "[ 1234.567890] "
    escaped = (
        "".join(
            c if c == "\n" or c.isprintable() else "".join(f"\\x{b:02x}" for b in c.encode())
            for c in message
        )
        for message in messages
    )
    return "".join(prefix + m.replace("\n", "\n" + " " * len(prefix)) + "\n" for m in escaped)


PRINTERS = [journal, dmesg]


def only_xid(text: str) -> Xid:
    (xid,) = kernel_log.xids(text)
    return xid


@pytest.mark.parametrize(
    ("message", "address", "number", "own"),
    [
        ("NVRM: Xid (0000:01:00): 31, Ch 00000010, engmask 00000101, intr 10000000",
         "0000:01:00.0", 31, "Ch 00000010, engmask 00000101, intr 10000000"),
        ("NVRM: Xid (PCI:0000:01:00): 8, Channel 00000010", "0000:01:00.0", 8, "Channel 00000010"),
        (LOST, "0000:17:00.0", 79, "GPU has fallen off the bus."),
        ("NVRM: Xid (PCI:0000:17:00): 48, pid='<unknown>', name=<unknown>, DBE, at 0x1",
         "0000:17:00.0", 48, "DBE, at 0x1"),
        ("NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper: New row marked for remapping, "
         "reset gpu to activate.",
         "0000:10:1c.0", 63, "Row Remapper: New row marked for remapping, reset gpu to activate."),
        ("NVRM: Xid (PCI:0000:0a:00): 43, pid=71, name=python3, Ch 00000008",
         "0000:0a:00.0", 43, "Ch 00000008"),
        ("NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, name=python3, Contained: CE User "
         "Channel (0x9). RST: No, D-RST: No",
         "0000:01:00.0", 94, "Contained: CE User Channel (0x9). RST: No, D-RST: No"),
        ("NVRM: Xid (PCI:0000:01:00 GPU-I:05 GPU-CI:02): 13, Graphics Exception",
         "0000:01:00.0", 13, "Graphics Exception"),
        ("NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x0)",
         "0018:01:00.0", 149, "NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x0)"),
        ("NVRM: Xid (PCI:10000:01:00): 48, DBE", "10000:01:00.0", 48, "DBE"),
        ("NVRM: Xid (PCI:00000000:17:00.0): 48", "0000:17:00.0", 48, ""),
        ("NVRM: Xid (PCI:0000:17:00): 45, pid=9, name=a, Ch 00000008 caused by previous Xid 31",
         "0000:17:00.0", 45, "Ch 00000008 caused by previous Xid 31"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("printed", PRINTERS)
def test_the_formats_of_drivers(
    printed: Callable[..., str], message: str, address: str, number: int, own: str
) -> None:
    xid = only_xid(printed("usb 1-1: new device", message, "NVRM: loading NVIDIA UNIX x86_64"))
    assert (xid.address, xid.number, xid.own) == (address, number, own)
    assert xid.message == message.partition("): ")[2].partition(", ")[2]


@pytest.mark.parametrize(
    ("message", "pid", "part"),
    [
        ("(PCI:0000:01:00): 13, Graphics Exception: ESR 0x504648=0xa000008", None, None),
        ("(PCI:0000:01:00): 13", None, None),
        ("(PCI:0000:01:00): 13, Graphics SM Warp Exception on (GPC 0, TPC 1): Misaligned Register",
         None, "GPC 0, TPC 1"),
        ("(PCI:0000:b5:00): 13, pid='<unknown>', name=<unknown>, Graphics SM Warp Exception on "
         "(GPC 1, TPC 13, SM 0): Out Of Range Address", None, "GPC 1, TPC 13"),
        ("(PCI:0000:b5:00): 13, pid='71', name=python3, Graphics SM Warp Exception on "
         "(GPC 1, TPC 3, SM 1): Out Of Range Address", 71, "GPC 1, TPC 3"),
        ("(PCI:0000:b5:00 GPU-I:05): 13, pid=71, name=python3, Graphics SM Warp Exception on "
         "(GPC 0, TPC 3, SM 1): Out Of Range Address", 71, "GPU-I:05 GPC 0, TPC 3"),
        ("(PCI:0000:01:00): 31, pid=1896, Ch 00000010", 1896, None),
        # A program may be called so.
        ("(PCI:0000:01:00): 31, pid=1896, name=(GPC 0, TPC 0), Ch 00000010", 1896, None),
        ("(PCI:0000:01:00): 31, pid=1896, name=pid=1, , Ch 00000010", 1896, None),
        ("(PCI:0000:01:00): 31, Ch 00000010, pid=7, ", None, None),
    ],
)  # fmt: skip
def test_whose_it_was_and_on_which_part(message: str, pid: int | None, part: str | None) -> None:
    xid = only_xid(journal(f"NVRM: Xid {message}"))
    assert (xid.pid, xid.part) == (pid, part)


@pytest.mark.parametrize(
    ("prefix", "time"),
    [
        ("1764112483.123456 gpu1.lab kernel: ", 1764112483.123456),
        ("1764112483.123456 kernel: ", 1764112483.123456),  # --no-hostname
        ("[    3.141593] ", None),
        ("[    3.141593] [  T412] ", None),
        ("<4>[    3.141593] ", None),
        ("kern  :warn  : [    3.141593] ", None),
        ("[Tue Nov 25 23:14:43 2026] ", None),  # the host's time zone
        ("2025-11-25T23:14:43,123456+00:00 ", 1764112483.123456),
        ("2025-11-26T01:14:43,123456+02:00 ", 1764112483.123456),
        ("2025-13-25T23:14:43,123456+00:00 ", None),
    ],
)
def test_when_it_was(prefix: str, time: float | None) -> None:
    assert only_xid(f"{prefix}{LOST}\n").time == time


@pytest.mark.parametrize(
    "line",
    [
        LOST,  # dmesg --notime: any file's name could stand there
        "   " + LOST,
        "1764112483.123456 gpu1 python[7]: " + LOST,
        "1764112483.123456 gpu1 kernel: a.out[9]: segfault in " + LOST,
        "[    3.141593] [evil 7] " + LOST,
        "[    3.141593] nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 28006, Non-fatal",
        "[    3.141593] NVRM: SXid (PCI:0000:c1:00): 28006, Non-fatal",
        "[    3.141593] NVRM: Xid (PCI:0000:17:00): 79x, GPU",
        "[    3.141593] NVRM: Xid (PCI:0000:17:00): ٧٩, GPU",
        "[    3.141593] NVRM: Xid (PCI:zzzz:17:00): 79, GPU",
        "[    3.141593] NVRM: GPU 0000:17:00.0: RmInitAdapter failed! (0x26:0x56:1474)",
    ],
)
def test_what_is_none(line: str) -> None:
    assert kernel_log.xids(line + "\n") == []


@pytest.mark.parametrize("printed", PRINTERS)
@pytest.mark.parametrize("end", ["\n", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\r\n"])
def test_the_name_of_a_file_forges_no_xid(printed: Callable[..., str], end: str) -> None:
    """The kernel writes it when a program crashes in it; it may be 255 bytes of anything."""
    for prefix in ("", "1764112483.123456 gpu1 kernel: ", "[    3.141593] ", "<4>[    3.1] "):
        crash = f"a.out[9]: segfault at 0 ip 0 sp 0 error 4 in {end}{prefix}{FORGED}[400+1000]"
        assert kernel_log.xids(printed(crash)) == []


# The kernel cuts a name at 15 bytes, in the midst of a character too.
NAMES = st.text(max_size=15).map(lambda text: text.encode()[:15].decode("utf-8", "replace"))


@settings(deadline=None)
@given(NAMES, st.sampled_from(PRINTERS))
def test_the_name_of_a_program_changes_nothing(name: str, printed: Callable[..., str]) -> None:
    message = f"NVRM: Xid (PCI:0000:17:00): 149, pid=9, name={name}, NETIR_LINK_EVT Fatal XC0 i0"
    xid = only_xid(printed(message))
    assert (xid.address, xid.number) == ("0000:17:00.0", 149)
    assert (xid.message + xid.own).isprintable()
    assert xid.own in ("NETIR_LINK_EVT Fatal XC0 i0", "")
    if "\n" not in name:
        assert xid.own


@pytest.mark.parametrize("name", ["Nonfatal", "a, Nonfatal", ", , Nonfatal XC", "<unknown>, Non"])
def test_the_name_of_a_program_is_no_verdict(name: str) -> None:
    xid = only_xid(
        journal(f"NVRM: Xid (PCI:0000:17:00): 149, pid=9, name={name}, NETIR_INT Fatal XC0")
    )
    assert xid.own == "NETIR_INT Fatal XC0"
    assert xids.verdict(xid.number, xid.own).severity == "failed"


def test_a_name_whose_end_is_not_found_leaves_no_words_of_the_driver() -> None:
    assert only_xid(journal("NVRM: Xid (PCI:0000:17:00): 13, pid=9, name=a\nb, Ch 8")).own == ""
    long = only_xid(journal("NVRM: Xid (PCI:0000:17:00): 13, pid=9, name=" + "a" * 16 + ", Ch 8"))
    assert long.own == ""


def test_a_terminal_sees_no_control_characters() -> None:
    xid = only_xid(
        journal("NVRM: Xid (PCI:0000:17:00): 13, pid=9, name=\x1b[31m\u202e, Ch 8" + "x" * 999)
    )
    assert xid.message.startswith("pid=9, name=?[31m?, Ch 8")
    assert len(xid.message) == kernel_log.LENGTH


@pytest.mark.parametrize("printed", PRINTERS)
def test_a_lost_card_without_an_xid(printed: Callable[..., str]) -> None:
    alone = "NVRM: GPU 0000:18:00.0: GPU has fallen off the bus."
    expected = ("0000:18:00.0", 79, "GPU has fallen off the bus.")
    assert only_xid(printed(alone))[1:4] == expected
    assert only_xid(printed(alone, alone))[1:4] == expected
    at_start = (
        "NVRM: The NVIDIA GPU 0000:18:00.0\n"
        "NVRM: (PCI ID: 10de:2330) installed in this system has\n"
        "NVRM: fallen off the bus and is not responding to commands."
    )
    assert only_xid(printed(at_start))[1:4] == expected
    assert only_xid(printed(*at_start.split("\n")))[1:4] == expected
    legacy = at_start.replace("fallen off the bus", "gone")
    assert kernel_log.xids(printed(legacy)) == []
    assert kernel_log.xids(printed(at_start.split("\n")[0])) == []
    assert kernel_log.xids(printed(at_start.split("\n")[0]).rstrip("\n")) == []


def test_a_lost_card_with_an_xid_counts_once() -> None:
    other = "NVRM: GPU 0000:17:00.0: GPU has fallen off the bus."
    assert only_xid(journal(LOST, other)).message.startswith("pid=")
    assert only_xid(journal(other, LOST)).message.startswith("pid=")
    assert len(kernel_log.xids(journal(LOST, LOST))) == 2
    assert len(kernel_log.xids(journal(LOST, other.replace("17", "18")))) == 2


A = "GPU-b850f46d-d5ea-c752-ddf3-c4453e44d3f7"
B = "GPU-bc0fa0b9-cac2-f507-b715-9bebdb69c71e"


def test_the_cards_that_the_log_names() -> None:
    text = journal(
        f"NVRM: GPU at PCI:0000:17:00: {A}",
        "NVRM: GPU Board Serial Number: 1324021045678",
        LOST,
        f"NVRM: GPU at 0000:65:00: {B}",
        LOST,
        "NVRM: GPU Board Serial Number: 1324021099999",
        "NVRM: GPU 0000:ca:00.0: GPU serial number is 1563221234567.",
    )
    assert kernel_log.cards(text) == {
        "0000:17:00.0": Card(A, "1324021045678"),
        "0000:65:00.0": Card(B, None),
        "0000:ca:00.0": Card(None, "1563221234567"),
    }


def test_a_serial_number_that_may_be_of_two_cards_is_nobodys() -> None:
    """A wrong one sends the wrong card to the vendor."""
    text = journal(
        f"NVRM: GPU at PCI:0000:17:00: {A}",
        f"NVRM: GPU at PCI:0000:65:00: {B}",
        "NVRM: GPU Board Serial Number: 1324021045678",
        "NVRM: GPU Board Serial Number: 1324021099999",
    )
    assert {card.serial for card in kernel_log.cards(text).values()} == {None}
    text = journal(
        f"NVRM: GPU at PCI:0000:17:00: {A}", LOST, "NVRM: GPU Board Serial Number: 1324021045678"
    )
    assert kernel_log.cards(text) == {"0000:17:00.0": Card(A, None)}


def test_a_long_line_takes_no_time() -> None:
    for line in (
        "NVRM: Xid (PCI:0000:17:00): 13, pid=9, name=" + "\\x1b" * 250_000,
        "NVRM: Xid (PCI:" + "0" * 1_000_000,
        "[" * 1_000_000,
    ):
        assert kernel_log.xids(journal(line)) == [] or only_xid(journal(line)).own == ""
