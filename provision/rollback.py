"""Back to what a host had before: its former receipts, and the locks that they name.

A finished run leaves a receipt on the host, and the last ones of former states beside it. The lock
that such a receipt names is kept in the project when `provision lock` writes another. Both together
are enough to apply the former lock with the project's own roles; nothing is rendered anew.
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

# The folder of former locks in a project, one folder for each, by the beginning of its digest.
FOLDER = "locks"
# Characters of a digest that tell locks apart.
SHORT = 12

SCRIPT = (
    "for one in /var/lib/provision/receipt.json /var/lib/provision/receipts/*.json; do "
    'test -f "$one" && echo provision:receipt && cat "$one" && echo; done; echo provision:end'
)


@dataclass(frozen=True)
class Receipt:
    """What a finished run left on a host. `wish` is None in one that is older than this word."""

    digest: str
    stack: str
    written: str
    absent: tuple[str, ...] = ()
    after: Mapping[str, str | None] = field(default_factory=dict)
    wish: Mapping[str, Any] | None = None
    states: bool = False  # whether `absent` was told at all

    @property
    def short(self) -> str:
        return short(self.digest)

    @property
    def state(self) -> tuple[str, str, tuple[str, ...]]:
        """Two receipts of one state differ in nothing that a rollback could bring back."""
        return self.digest, self.stack, self.absent

    @property
    def words(self) -> str:
        """ "nvidia_driver 470.256.02, cuda 11.2.2"."""
        found = [f"{name} {version}" for name, version in self.after.items() if version]
        return ", ".join(found) or "nothing"


def short(digest: str) -> str:
    """The beginning of a digest, without its algorithm's name."""
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
    """Each host's receipts, newest first, and why others gave none. Changes nothing."""
    results, errors = run.ask(
        project, sources, hosts, SCRIPT, vault_password_file=vault_password_file, forks=forks
    )
    found: dict[str, list[Receipt]] = {}
    failed: dict[str, str] = {}
    for host, result in results.items():
        text = str((result or {}).get("stdout", "")).replace("\r", "")
        if text.rstrip().endswith("provision:end"):
            found[host] = parse(text)
        else:
            said = str((result or {}).get("msg") or (result or {}).get("stderr") or errors)
            failed[host] = " ".join(said.split())[-300:]
    return found, failed


def parse(text: str) -> list[Receipt]:
    """What SCRIPT printed: the receipts that can be read, newest first, each state once."""
    found: list[Receipt] = []
    for part in text.partition("provision:end")[0].split("provision:receipt\n")[1:]:
        try:
            data = json.loads(part)
            one = _receipt(data)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
        found.append(one)
    # The present one is the first that was printed, whatever a clock said.
    ordered = found[:1] + sorted(found[1:], key=lambda one: one.written, reverse=True)
    states: dict[tuple[str, str, tuple[str, ...]], Receipt] = {}
    for one in ordered:
        states.setdefault(one.state, one)
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
    """The receipt to go back to: the one before the present, the N-th before it, or a digest's."""
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
    if to.isdigit() and len(to) < 4:
        if 1 <= int(to) <= len(former):
            return former[int(to) - 1]
        raise InputError(
            "so many earlier receipts it does not have", where=f"{host}, --to {to}",
            expected=f"1 to {len(former)}", hint=f"`provision rollback {host} --list`",
        )  # fmt: skip
    wanted = to.removeprefix("sha256:")
    meant = [one for one in former if one.digest.removeprefix("sha256:").startswith(wanted)]
    if len(wanted) < 4 or not meant:
        raise InputError(
            "no earlier receipt of this host names such a lock", where=f"{host}, --to {to}",
            expected=", ".join(one.short for one in former),
            hint=f"`provision rollback {host} --list`",
        )  # fmt: skip
    return meant[0]


# the locks


def place(project: Path, digest: str) -> Path:
    """Where a former lock is kept."""
    return project / FOLDER / short(digest)


def find(project: Path, digest: str) -> locks.Lock | None:
    """The lock with this digest: the present one, or a former one; None where neither is."""
    for path in (place(project, digest) / "lock.yml", project / "lock.yml"):
        try:
            data = inputs.read(path)
        except OSError:
            continue
        found = locks.parse(data, where=str(path))
        if found.digest == digest:
            return found
    return None


def known(project: Path) -> list[str]:
    """The former locks that are there, by the beginnings of their digests."""
    try:
        return sorted(path.parent.name for path in (project / FOLDER).glob("*/lock.yml"))
    except OSError:
        return []


def wish_of(lock: locks.Lock, receipt: Receipt) -> Mapping[str, Any]:
    """The wish that this lock answers with the receipt's stack."""
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
    found: Mapping[str, Any] = wishes[0]
    return found


def variables(lock: locks.Lock, receipt: Receipt, stacks: Path) -> dict[str, Any]:
    """What site.yml is told, to apply a former lock: extra variables."""
    found: dict[str, Any] = {
        "gpu_stacks": str(stacks.resolve()),
        "gpu_stack": wish_of(lock, receipt),
    }
    if receipt.states:
        for name in lock.stacks[receipt.stack]:
            found[f"{name}_state"] = "absent" if name in receipt.absent else "present"
    return found
