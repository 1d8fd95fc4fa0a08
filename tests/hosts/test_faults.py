"""A few real faults, each cured by one run; and that a cure that fails is told as one.

All of `make faults` takes an hour; this is its shortest way through every part of the harness.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fault_schedule as drawn
import faults
import pytest
from fault_bench import Bench
from fault_run import NotHitError, Run
from fault_schedule import Estimates, Fault


def started(directory: Path, number: int, wish: str) -> Iterator[Bench]:
    """A bare host on a disk of its own; the first fault brings it up."""
    bench = Bench(number, directory, faults.parse(["--seed", "1"]))
    bench.host.wish += wish
    try:
        bench.up(None)
        yield bench
    finally:
        bench.close()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A host for everything, with the smaller CUDA."""
    yield from started(tmp_path_factory.mktemp("faults"), 1, "cuda_profile: runtime\n")


@pytest.fixture(scope="module")
def small_bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A host for the driver, cuDNN and the environment: the rest takes minutes to install."""
    absent = "cuda_state: absent\ntensorflow_state: absent\n"
    yield from started(tmp_path_factory.mktemp("faults-small"), 2, absent)


@pytest.fixture(scope="module")
def estimates() -> Estimates:
    return Estimates()


def fault(kind: str, **fields: Any) -> Fault:
    chosen: dict[str, Any] = {
        "seed": 0, "number": 0, "attempt": 0, "kind": kind, "variant": "",
        "start": (drawn.BARE,), "picked": (), "riders": (), "during": "dpkg", "fraction": 0.3,
    }  # fmt: skip
    return Fault(**{**chosen, **fields})


def broken(bench: Bench, estimates: Estimates, chosen: Fault) -> dict[str, Any]:
    """The result of a fault, tried nearer to its phase's beginning where the run was faster."""
    for share in (1, 0.3):
        try:
            return bench.one(
                dataclasses.replace(chosen, fraction=chosen.fraction * share), estimates
            )
        except NotHitError:
            continue  # The host is proven; the next one damages it again.
    return bench.one(dataclasses.replace(chosen, fraction=0.0), estimates)


def cured(result: dict[str, Any]) -> None:
    assert result["wrong"] == [], result
    assert result["proven"]
    assert result["leftovers"] == [], result


@pytest.mark.slow
def test_a_killed_controller_on_a_bare_host(bench: Bench, estimates: Estimates) -> None:
    """The host goes on alone for a while; the next run takes over."""
    chosen = fault("controller", variant="processes-and-connections")
    result = bench.one(chosen, estimates)
    assert result["hit"]["code"] == -9
    assert "nvidia_driver" in result["hit"]["task"]
    cured(result)


def test_a_killed_dpkg(small_bench: Bench, estimates: Estimates) -> None:
    chosen = fault("dpkg", start=("driver-few",), picked=("nvidia-smi", "libcuda1"))
    result = broken(small_bench, estimates, chosen)
    assert "dpkg" in result["hit"]["what"]
    assert result["hit"]["status"] == "failed"
    cured(result)


# Loaded by the first pytest that judges: it stays until its run is killed, which waits for it, so
# that the kill falls into it however fast the checks are and however slowly it starts.
HOLD = """\
import os, pathlib, time

def pytest_sessionstart(session):
    first = pathlib.Path(__file__).with_name("first")
    try:
        first.unlink()
    except FileNotFoundError:
        return
    parent, end = os.getppid(), time.monotonic() + 300
    while os.getppid() == parent and time.monotonic() < end:
        time.sleep(0.1)
    os._exit(3)
"""


def test_a_controller_killed_while_it_judges_the_checks(
    small_bench: Bench, estimates: Estimates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything is installed, and nothing says so yet: the next run proves it."""
    if small_bench.bare:  # Not held: that run judges too.
        small_bench.bring_up(estimates)
    (tmp_path / "provision_hold.py").write_text(HOLD, encoding="utf-8")
    first = tmp_path / "first"
    first.touch()
    strike = small_bench.strike

    def once_held(fault: Fault, run: Run) -> str:
        end = time.monotonic() + 120
        while first.exists() and run.running() and time.monotonic() < end:
            time.sleep(0.05)
        assert not first.exists(), "no pytest was held"
        return strike(fault, run)

    monkeypatch.setattr(small_bench, "strike", once_held)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p provision_hold")
    chosen = fault("controller", variant="processes", start=("cudnn-link",), during="run")
    judging = "verify : Verify | Judge all hosts by the checks"
    result = small_bench.one(chosen, estimates, (judging, 0.0))
    assert result["hit"]["code"] == -9
    assert result["hit"]["task"] == judging
    assert result["changes"] == ["receipt proof: unfinished -> proven"]
    cured(result)


@pytest.mark.slow
def test_a_network_that_stays_cut_is_not_cured_and_reported(
    bench: Bench, estimates: Estimates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The harness is seen red: without the healing the cure can't work, and it says NOT."""
    monkeypatch.setattr(
        bench, "options", argparse.Namespace(**{**vars(bench.options), "no_heal": True})
    )
    # The whole venv: a small wheel may be there before the cut.
    chosen = fault("network", variant="refused", start=("venv-gone",), during="pip", fraction=0.1)
    result = broken(bench, estimates, chosen)
    assert not result["proven"]
    assert result["hit"]["what"] == "cut the network (refused)"
    assert "the host is failed: " in "; ".join(result["wrong"])
    assert "NOT: " in faults.line_of(result)

    # The same host, with its network again: one run.
    monkeypatch.undo()
    healed: dict[str, Any] = {"wrong": []}
    bench.cure(healed)
    cured(healed | {"proven": True})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "start", "during"),
    [
        ("power", ("cudnn-gone",), "cudnn"),
        ("disk", ("cuda-many",), "dpkg"),
        ("module", ("wheels",), "pip"),
    ],
)
def test_the_other_kinds(
    bench: Bench, estimates: Estimates, kind: str, start: tuple[str, ...], during: str
) -> None:
    some = ["libcublas11", "libcufft10", "libcusolver11", "libcusparse11"]
    picked = {"cuda-many": some, "wheels": bench.names["wheels"][:6]}.get(start[0], [])
    chosen = fault(kind, start=start, picked=tuple(picked), during=during, fraction=0.2)
    cured(broken(bench, estimates, chosen))
