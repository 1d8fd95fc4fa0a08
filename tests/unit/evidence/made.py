"""A project as accept and a run leave it, SSH keys, and evidences that differ."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpu_stack.acceptance import judge

from provision import evidence, lock
from tests import called
from tests.collection import ROOT
from tests.unit import report_samples
from tests.unit.acceptance.machines import Facts, machine

HOST = "gpu07"
MOMENT = "2026-11-26T02:30:00Z"
LOCK = (ROOT / "tests/labs/golden/lock.yml").read_bytes()
PARSED = lock.parse(LOCK, where="lock.yml")
(STACK,) = PARSED.stacks
# {part of the project: how a test changes it}
Change = Callable[[dict[str, Any]], None]


def same(_data: dict[str, Any]) -> None:
    """Changes nothing."""


def accepted(change: Change = same, facts: Facts | None = None) -> dict[str, Any]:
    """What report/acceptance.json says."""
    verdict = judge.judge(copy.deepcopy(facts) if facts else machine("Tesla T4", 2))
    entry = {"status": verdict["verdict"], "message": "", "acceptance": verdict}
    report = {
        "format": 1,
        "finished": "2026-11-26T02:20:00.000Z",
        "lock_digest": PARSED.digest,
        "hosts": {HOST: entry},
    }
    change(report)
    return report


def ran(kind: str = "proven", change: Change = same, mode: str = "verify") -> dict[str, Any]:
    """What a run's report says."""
    entry = report_samples.host(kind)
    entry |= {"simulated_gpu": False, "stack": STACK}
    report = report_samples.report(mode, gpu07=entry)
    report["lock_digest"] = PARSED.digest
    change(report)
    return report


def project(path: Path, *runs: dict[str, Any], acceptance: Any = None) -> Path:
    """A project in `path` with these runs, the oldest first, and an acceptance."""
    (path / "report").mkdir(parents=True)
    (path / "lock.yml").write_bytes(LOCK)
    (path / "report" / "acceptance.json").write_text(json.dumps(acceptance or accepted()))
    for number, report in enumerate(runs or [ran()]):
        report["started"] = f"2026-11-26T02:0{number}:00.000Z"
        folder = path / "report" / f"20261126T020{number}00Z-{report['mode']}"
        folder.mkdir()
        (folder / "report.json").write_text(json.dumps(report))
    return path


def document(path: Path, *runs: dict[str, Any], acceptance: Any = None) -> evidence.Evidence:
    """The evidence of such a project."""
    return evidence.collect(project(path, *runs, acceptance=acceptance), HOST, PARSED, MOMENT)


def key(path: Path, passphrase: str = "") -> Path:
    """A new key pair; without ssh-keygen it fails, and no test is skipped."""
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", "", "-f", str(path)],
        check=True,
    )
    return path


def allowed(path: Path, *signers: tuple[str, Path]) -> Path:
    """A file of allowed signers: (identity, its key)."""
    keys = ((name, key.with_name(key.name + ".pub").read_text()) for name, key in signers)
    path.write_text("".join(f"{name} {text}" for name, text in keys))
    return path


def provision(*arguments: str | Path) -> tuple[int, str]:
    """(exit code, standard output) of `provision evidence ...`; raises its error."""
    return called.provision("evidence", *arguments)
