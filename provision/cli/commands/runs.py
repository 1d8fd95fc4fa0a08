"""`provision plan`, `apply` and `verify`: one playbook, run in three modes."""

from __future__ import annotations

from provision.cli import running
from provision.cli.run_options import RunRequest, takes_run_options


@takes_run_options()
def plan(*, request: RunRequest) -> None:
    """Say what differs from the lock; change nothing.

    Exit code 5 if anything does, 4 if a host could not be looked at.
    """
    running.run_and_show("plan", request)


@takes_run_options()
def apply(*, request: RunRequest) -> None:
    """Bring the hosts to their lock and prove it.

    The same run as `ansible-playbook site.yml -i lab`.
    """
    running.run_and_show("apply", request)


@takes_run_options(without={"tags", "skip_tags"})
def verify(*, request: RunRequest) -> None:
    """Prove again that everything works.

    Exit code 6 if a check fails, 5 if a host differs from its lock.
    """
    running.run_and_show("verify", request)
