"""Whether there is anything to judge."""

from __future__ import annotations

from ..cures import CURES, Cure
from .check import Seen, Verdict, check, failed, passed

CURES["host.answers"] = Cure((), "`ansible -m ping` shows whether Ansible reaches the host")


@check("host.answers", "The host answers the probe")
def host_answers(seen: Seen) -> Verdict:
    if seen.error:
        return failed(seen.error, "`ansible -m ping` shows whether Ansible reaches the host")
    return passed(f"as {seen.probe.get('user')}")
