"""Rollback: a host's former receipts, and the locks that they name.

A finished run leaves a receipt on the host, and keeps the latest receipts of former states beside
it. `provision lock` keeps the lock that it replaces in the project. Both together are enough to
apply a former lock with the project's own roles; nothing is rendered anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from provision import inputs, run
from provision import lock as locks
from provision.errors import InputError

# The folder of former locks in a project; each is in a folder named by its short digest.
FOLDER = "locks"
# The length of a short digest.
SHORT = 12

SCRIPT = (
    "for file in /var/lib/provision/receipt.json /var/lib/provision/receipts/*.json; do "
    'test -f "$file" && echo provision:receipt && cat "$file" && echo; done; echo provision:end'
)


@dataclass(frozen=True)
class Receipt:
    """The receipt of a finished run. `wish` is None in receipts from before it was recorded."""

    digest: str
    stack: str
    written: str
    absent: tuple[str, ...] = ()
    after: Mapping[str, str | None] = field(default_factory=dict)
    wish: Mapping[str, Any] | None = None
    states: bool = False  # whether the receipt has `absent`

    @property
    def short(self) -> str:
        return short(self.digest)

    @property
    def state(self) -> tuple[str, str, tuple[str, ...]]:
        """What a rollback restores; equal in two receipts of the same state."""
        return self.digest, self.stack, self.absent

    @property
    def words(self) -> str:
        """ "nvidia_driver 470.256.02, cuda 11.2.2"."""
        components = [f"{name} {version}" for name, version in self.after.items() if version]
        return ", ".join(components) or "nothing"


def short(digest: str) -> str:
    """The first digits of a digest, without its algorithm's name."""
    return digest.removeprefix("sha256:")[:SHORT]


# the hosts


def ask(
    project: Path,
    sources: Sequence[str],
    hosts: Sequence[str],
    *,
    vault_password_file: Path | None = None,
    forks: int | None = None,
) -> tuple[dict[str, list[Receipt]], dict[str, str]]:
    """(host -> its receipts, newest first; host -> why there are none). Changes nothing."""
    results, errors = run.ask(
        project, sources, hosts, SCRIPT, vault_password_file=vault_password_file, forks=forks
    )
    receipts: dict[str, list[Receipt]] = {}
    failed: dict[str, str] = {}
    for host, result in results.items():
        text = str((result or {}).get("stdout", "")).replace("\r", "")
        if text.rstrip().endswith("provision:end"):
            receipts[host] = parse(text)
        else:
            message = str((result or {}).get("msg") or (result or {}).get("stderr") or errors)
            failed[host] = " ".join(message.split())[-300:]
    return receipts, failed


def parse(text: str) -> list[Receipt]:
    """The readable receipts that SCRIPT printed, newest first, each state once."""
    receipts: list[Receipt] = []
    for part in text.partition("provision:end")[0].split("provision:receipt\n")[1:]:
        try:
            receipt = _receipt(json.loads(part))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
        receipts.append(receipt)
    # The first that was printed is the present one, whatever the clock said.
    former = sorted(receipts[1:], key=lambda receipt: receipt.written, reverse=True)
    states: dict[tuple[str, str, tuple[str, ...]], Receipt] = {}
    for receipt in receipts[:1] + former:
        states.setdefault(receipt.state, receipt)
    return list(states.values())


def _receipt(data: Mapping[str, Any]) -> Receipt:
    wish = data.get("wish")
    return Receipt(
        digest=str(data["lock_digest"]),
        stack=str(data["stack"]),
        written=str(data.get("written") or ""),
        absent=tuple(sorted(data.get("absent") or ())),
        after={str(k): v for k, v in (data.get("after") or {}).items()},
        wish=wish if isinstance(wish, dict) else None,
        states="absent" in data,
    )


def choose(host: str, receipts: Sequence[Receipt], to: str | None) -> Receipt:
    """The receipt to go back to: the previous, the N-th before the present, or a digest's.

    InputError where there is none.
    """
    former = receipts[1:]
    if not receipts:
        raise InputError(
            "no run has finished on this host: there is no receipt", where=host,
            hint="`provision apply` brings it to the lock",
        )  # fmt: skip
    if not former:
        raise InputError(
            "there is nothing to go back to: this host has no earlier receipt",
            where=host,
            got=f"only {receipts[0].short} of {receipts[0].written}",
            hint="an earlier state is kept from the first run on that brings the host to another",
        )
    if to is None:
        return former[0]
    if to.isascii() and to.isdigit() and len(to) < 4:
        if 1 <= int(to) <= len(former):
            return former[int(to) - 1]
        raise InputError(
            "so many earlier receipts it does not have", where=f"{host}, --to {to}",
            expected=f"1 to {len(former)}", hint=f"`provision rollback {host} --list`",
        )  # fmt: skip
    digits = to.removeprefix("sha256:")
    matches = [r for r in former if r.digest.removeprefix("sha256:").startswith(digits)]
    if len(digits) < 4 or not matches:
        raise InputError(
            "no earlier receipt of this host names such a lock", where=f"{host}, --to {to}",
            expected=", ".join(receipt.short for receipt in former),
            hint=f"`provision rollback {host} --list`",
        )  # fmt: skip
    return matches[0]


# the locks


def place(project: Path, digest: str) -> Path:
    """The folder that a former lock is kept in."""
    return project / FOLDER / short(digest)


def find(project: Path, digest: str) -> locks.Lock | None:
    """The project's present or former lock with this digest, or None."""
    for path in (place(project, digest) / "lock.yml", project / "lock.yml"):
        try:
            data = inputs.read(path)
        except OSError:
            continue
        lock = locks.parse(data, where=str(path))
        if lock.digest == digest:
            return lock
    return None


def known(project: Path) -> list[str]:
    """The short digests of the project's former locks."""
    try:
        return sorted(path.parent.name for path in (project / FOLDER).glob("*/lock.yml"))
    except OSError:
        return []


def wish_of(lock: locks.Lock, receipt: Receipt) -> Mapping[str, Any]:
    """The wish of a row with the receipt's stack, where possible the receipt's own."""
    rows = [row for row in lock.slim["rows"] if row["stack"] == receipt.stack]
    wishes = [row["wish"] for row in rows]
    if receipt.wish is not None and receipt.wish in wishes:
        return receipt.wish
    if not wishes:
        raise InputError(
            f"the lock {receipt.short} has no stack {receipt.stack}",
            expected=", ".join(lock.stacks),
            hint="its file was changed: take it from your version control",
        )
    wish: Mapping[str, Any] = wishes[0]
    return wish


def variables(lock: locks.Lock, receipt: Receipt, stacks: Path) -> dict[str, Any]:
    """The extra variables with which site.yml applies a former lock."""
    extra: dict[str, Any] = {
        "gpu_stacks": str(stacks.resolve()),
        "gpu_stack": wish_of(lock, receipt),
    }
    if receipt.states:
        for name in lock.stacks[receipt.stack]:
            extra[f"{name}_state"] = "absent" if name in receipt.absent else "present"
    return extra
