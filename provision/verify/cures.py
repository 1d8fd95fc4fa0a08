"""What fixes a failed check: another run where the plan has an item for it, else the advice here.

A check sees what programs do, the plan sees what differs from the lock. A conda in front of PATH or
a GPU that fell off the bus fails a check without being a difference, and running again would change
nothing. So a run is advised only where the same host's plan has a change for the check; for all
other hosts each check has its own advice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# A hint's placeholder for the advice on a run; `complete` fills it in.
RUN = "{run}"
# How many items of the plan a hint names.
NAMED = 3


@dataclass(frozen=True)
class Cure:
    """`components` whose planned changes cure the check; `otherwise`: advice if none is planned."""

    components: tuple[str, ...]
    otherwise: str


DEEP = (
    "`provision apply --deep` reads every file of the stack, and also replaces files that changed "
    "but kept their old time"
)
LOADER = (
    "LD_LIBRARY_PATH or /etc/ld.so.conf.d names another library (`echo $LD_LIBRARY_PATH`, "
    f"`ldconfig -p`): remove that entry; otherwise {DEEP}"
)
SHELLS = (
    "a later setting overrides ours: a file in /etc/profile.d, ~/.bashrc, ~/.profile, conda's "
    "block, `systemctl show-environment`, or sshd with `UsePAM no`; change it there"
)
KERNEL_LOG = "`sudo dmesg | grep -i nvrm` shows the driver's messages"
PACKAGES = "`dpkg --audit` and `apt-get check` on the host show the cause"

# {check: its cure}; a component's are beside its checks.
CURES: dict[str, Cure] = {}


def complete(check: str, hint: str, planned: Sequence[tuple[str, str]] | None) -> str:
    """The hint of a failed check, with whether a run would cure it.

    `planned`: (component, item) of each change in the host's plan; None without a plan.
    """
    cure = CURES[check.partition("@")[0]]
    if planned is None:
        items = None
    else:
        items = [
            item for name, item in planned if name in cure.components or "all" in cure.components
        ]
    if items:
        more = f" and {len(items) - NAMED} more" if len(items) > NAMED else ""
        run = f"run the playbook: it repairs {', '.join(items[:NAMED])}{more}"
    elif items is None and cure.components:
        run = (
            "run the playbook again: `provision plan` shows what it will repair; where that is "
            f"nothing, {cure.otherwise}"
        )
    else:
        run = f"no run changes it, the plan has nothing for it: {cure.otherwise}"
    if RUN in hint:
        return hint.replace(RUN, run)
    if items:
        return f"{run}; {hint}" if hint else run
    return hint or run
