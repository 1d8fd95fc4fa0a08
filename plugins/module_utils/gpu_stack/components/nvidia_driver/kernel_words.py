"""What the kernel said of a driver, and what to do about it."""

from __future__ import annotations

import re

from ...type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ...host.context import Result

    Run = Callable[[list[str]], Result]

# A log that its disk does not give must not hold up a run.
LOGS = (
    ["dmesg"],
    ["journalctl", "--dmesg", "--boot", "--no-pager", "--quiet", "--lines=2000"],
)
OF_DRIVER = re.compile(
    r"NVRM|nvidia|nouveau|Lockdown: |module verification|version magic|Unknown symbol"
    r"|disagrees about version|Loading of .*module|PKCS#7|X\.509",
    re.I,
)
# Lines that say the same on every machine.
IDLE = re.compile(
    r"registered panic notifier|module license|Disabling lock debugging|Nvlink Core", re.I
)
MANY = 6
LONG = 300

SIGNING = (
    "sign the module with a key that this machine trusts: docs/driver.md, Secure Boot"
    " (mokutil --import FILE, reboot, and Enroll MOK at the console)"
)
# What only the kernel says, and modprobe calls "No such device".
DEAD = "fallen off the bus"
REVIVE = (
    "the card does not answer on the PCI bus: power the machine off and on (a reboot leaves the"
    " card's power on); seat the card and its power cables anew, try another slot, then have it"
    " serviced"
)
# [(what modprobe or the kernel says, what to do)]
CURES = (
    (
        r"Lockdown: |Key was rejected by service|Required key not available|PKCS#7"
        r"|Operation not permitted|Loading of .*module .*reject",
        SIGNING,
    ),
    (
        r"Exec format error|version magic|disagrees about version|Unknown symbol",
        "it was built for another kernel or by another compiler: dkms install --force -m NAME"
        " -v VERSION -k $(uname -r), with the NAME and VERSION of dkms status",
    ),
    (
        r"will ignore this GPU|not supported by|No NVIDIA (?:GPU|graphics adapter|devices)"
        r"|No such device|does not include the required GPU",
        "the driver takes no card of this machine: compare lspci -nn -d 10de: with the cards that"
        " this branch supports and wish for another driver_branch, look after the card where it"
        " should be supported, or set nvidia_driver_scope: userspace where the host is to have"
        " none",
    ),
    (
        r"not found in directory",
        "the module of this kernel is missing: run again, which builds it",
    ),
    (
        r"Device or resource busy|already bound",
        "another driver has the card: lspci -nnk -d 10de: names it (vfio-pci where it is passed to"
        " virtual machines); release it there",
    ),
)
UNKNOWN = "sudo modprobe nvidia; sudo dmesg | tail tell more"


def lines(run: Run) -> list[str]:
    """The kernel's lines about drivers since the boot, oldest first; [] where nobody gives them."""
    for command in LOGS:
        answer = run(command)
        if answer.rc == 0 and answer.out.strip():
            return [
                line[:LONG]
                for line in _messages(answer.out)
                if OF_DRIVER.search(line) and not IDLE.search(line)
            ]
    return []


def _messages(log: str) -> list[str]:
    """The messages of a kernel's log. NVRM's go on in lines that dmesg and the journal indent."""
    messages: list[str] = []
    for line in log.splitlines():
        if messages and line[:1].isspace():
            messages[-1] += " " + line.strip()
        else:
            messages.append(line.strip())
    return messages


def last(log_lines: list[str], before: Collection[str] = ()) -> str:
    """The last of these lines; only new ones count, if any are not in `before`."""
    earlier = set(before)
    new = [line for line in log_lines if line not in earlier] or log_lines
    return " / ".join(new[-MANY:])


def cure(*texts: str) -> str:
    """What to do about what modprobe and the kernel said; the first text counts most."""
    if any(DEAD in text for text in texts):
        return REVIVE
    for text in texts:
        for pattern, words in CURES:
            if re.search(pattern, text):
                return words
    return UNKNOWN


def quoted(text: str | None) -> str:
    return f"The kernel said: {text}." if text else "The kernel's log says nothing of it."
