"""Breaks runs at random moments and proves that one more run cures each: `make faults`.

For each fault a lab host is damaged, so that a run has real work, the project's own
`ansible-playbook site.yml -i lab` is started, and in the middle of it something is killed, cut,
filled or switched off. Then the environment is repaired as a person would (the cable, the disk, the
power), and the same command must end with the host proven, and once more with nothing to do.
Nothing else is done by hand.

fault_schedule.py draws the faults from a seed; fault_watch.py strikes on the host.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from provision.errors import MachineError, ProvisionError
from provision.locallab.machine import connect
from provision.locallab.owner import owner

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
import fault_cuts  # noqa: E402
import fault_schedule as drawn  # noqa: E402
from fault_bench import Bench  # noqa: E402
from fault_host import place, say, sweep  # noqa: E402
from fault_run import NotHitError  # noqa: E402
from fault_schedule import Estimates, Fault  # noqa: E402

ATTEMPTS = 8
# The harness stops after more errors of its own than this.
MAXIMUM_ERRORS = 5


class Harness:
    """Gives the faults to the benches, and writes the record."""

    def __init__(self, options: argparse.Namespace, directory: Path) -> None:
        self.options = options
        self.directory = directory
        self.estimates = Estimates()
        if options.machine == "vm":
            self.estimates.factors = dict.fromkeys(self.estimates.bare, fault_cuts.FACTOR)
        self.results: list[dict[str, Any]] = []
        # Results of the resumed record that were not proven.
        self.earlier: list[dict[str, Any]] = []
        self.missed: list[dict[str, Any]] = []
        self.errors: list[str] = []
        self._queue: list[Fault] = []
        self._lock = threading.Lock()
        self.names: dict[str, list[str]] = {}
        self.started = datetime.datetime.now(datetime.timezone.utc)

    def work(self) -> int:
        benches = [
            Bench(number, self.directory, self.options)
            for number in range(1, self.options.workers + 1)
        ]
        try:
            lock = None
            for bench in benches:
                lock = bench.up(lock)
            self.names = benches[0].names
            if self.options.resume:
                self.resume()
            done = {_key(result) for result in self.results}
            self._queue = [fault for fault in self.plan() if (fault.seed, fault.number) not in done]
            with ThreadPoolExecutor(len(benches)) as pool:
                try:
                    for future in [pool.submit(self._serve, bench) for bench in benches]:
                        future.result()
                except BaseException:
                    for bench in benches:
                        bench.stop()
                    raise
        finally:
            for bench in benches:
                bench.close()
        self.write()
        for line in ["", *drawn.table(self.results)]:
            say(line)
        return 0 if self.proven else 1

    @property
    def proven(self) -> bool:
        planned = len(self.plan())
        return len(self.results) == planned and all(result["proven"] for result in self.results)

    def plan(self) -> list[Fault]:
        options = self.options
        faults = drawn.schedule(options.seed, options.count, draw=self.draw)
        return [fault for fault in faults if not options.number or fault.number in options.number]

    def draw(self, seed: int, number: int, attempt: int = 0) -> Fault:
        if self.options.machine == "vm":
            return fault_cuts.draw(seed, number, attempt, self.names)
        return drawn.draw(seed, number, attempt, kinds=self.options.kinds, names=self.names)

    def records(self) -> dict[Path, list[int]]:
        """{file of the record: its seeds}: one file or, with {seed} in its name, one per seed."""
        seeds_by_path: dict[Path, list[int]] = {}
        for seed in self.options.seed if self.options.json else ():
            path = Path(self.options.json.replace("{seed}", str(seed)))
            seeds_by_path.setdefault(path, []).append(seed)
        return seeds_by_path

    def resume(self) -> None:
        """Reads the record: keeps proven results; the others are tried again, and kept too."""
        for path in self.records():
            if path.exists():
                record = json.loads(path.read_text("utf-8"))
                self.results += [result for result in record["results"] if result["proven"]]
                self.earlier += [result for result in record["results"] if not result["proven"]]
                self.earlier += record.get("earlier", [])
                self.missed += record["missed"]

    def _take(self, bench: Bench) -> Fault | None:
        """Removes the next fault from the queue; for a bare host, the next that starts bare."""
        with self._lock:
            if not self._queue or len(self.errors) > MAXIMUM_ERRORS:
                return None
            index = 0
            if bench.bare:
                index = next((i for i, fault in enumerate(self._queue) if fault.bare), 0)
            return self._queue.pop(index)

    def _serve(self, bench: Bench) -> None:
        while not bench.kept and not bench.stopped:
            fault = self._take(bench)
            if fault is None:
                return
            try:
                self._until_hit(bench, fault)
            except Exception as error:
                if bench.stopped:
                    return
                # An error of the harness itself: recorded, neither proven nor not.
                with self._lock:
                    self.errors.append(f"seed {fault.seed} number {fault.number}: {error!r}")
                say(f"ERROR  seed {fault.seed}  #{fault.number}  {error}")
                self._failed(bench, fault)

    def _until_hit(self, bench: Bench, fault: Fault) -> None:
        for attempt in range(ATTEMPTS):
            if attempt:
                fault = self.draw(fault.seed, fault.number, attempt)
            try:
                result = bench.one(fault, self.estimates, self.options.at)
            except NotHitError as missed:
                say(f"       seed {fault.seed}  #{fault.number}  {fault.kind}: {missed}; redrawn")
                with self._lock:
                    self.missed.append({"fault": fault.data(), "reason": str(missed)})
                continue
            if bench.stopped:
                return  # Ctrl-C killed the run
            with self._lock:
                self.results.append(result)
                self.write()
            say(line_of(result))
            if not result["proven"]:
                self._failed(bench, fault)
            return
        raise MachineError(f"{fault.kind} hit nothing in {ATTEMPTS} attempts")

    def _failed(self, bench: Bench, fault: Fault) -> None:
        target = ROOT / "build" / "faults" / f"seed{fault.seed}-{fault.number}"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        for log in [*bench.project.glob("*.log"), *bench.project.glob("report/latest/*")]:
            shutil.copy(log, target)
        say(f"       logs: {target}")
        if self.options.keep_failed:
            bench.kept = True
        elif not bench.cured_by_more():
            bench.renew()

    def write(self) -> None:
        """Writes the record so far, atomically."""
        for path, seeds in self.records().items():

            def select(
                results: list[dict[str, Any]], seeds: list[int] = seeds
            ) -> list[dict[str, Any]]:
                chosen = [result for result in results if result["fault"]["seed"] in seeds]
                return sorted(chosen, key=_key)

            results = select(self.results)
            data = {
                "format": 1,
                "started": self.started.isoformat(timespec="seconds"),
                "seeds": seeds,
                "count": self.options.count,
                "results": results,
                "earlier": select(self.earlier),
                "missed": select(self.missed),
                "errors": self.errors,
                "table": drawn.table(results),
            }
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(path.name + ".part")
            temporary.write_text(json.dumps(data, indent=1) + "\n", "utf-8")
            os.replace(temporary, path)


def _key(result: Mapping[str, Any]) -> tuple[int, int]:
    """The seed and number of a result's fault."""
    return result["fault"]["seed"], result["fault"]["number"]


def line_of(result: Mapping[str, Any]) -> str:
    """A result in one line, for the terminal."""
    fault, hit = result["fault"], result["hit"]
    verdict = "proven" if result["proven"] else "NOT: " + "; ".join(result["wrong"])
    return (
        f"seed {fault['seed']}  #{fault['number']:<3} {fault['kind']:<10} {result['moment']}: "
        f"{hit['what']}, at '{hit['task']}' +{hit['offset']:.1f}s  from {result['state']}  "
        f"cured in {result.get('cured_in', '-')} s  {verdict}"
        + (f"  damaged: {len(result['damaged'])}" if result.get("damaged") else "")
        + (f"  left behind: {len(result['leftovers'])}" if result.get("leftovers") else "")
    )


@contextlib.contextmanager
def workplace() -> Iterator[Path]:
    """A directory for this process, marked so that `sweep` removes it only after its end."""
    place().mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=place()))
    (directory / "owner").write_text(owner(), "ascii")
    try:
        yield directory
    finally:
        # A kept host has its project here.
        if not any(directory.glob("*/")):
            shutil.rmtree(directory, ignore_errors=True)


def moment(text: str) -> tuple[str, float]:
    """(task, seconds) of "TASK+SECONDS", as the harness prints it."""
    task, plus, offset = text.rpartition("+")
    try:
        return task.strip(" '"), float(offset.rstrip("s")) if plus else 0.0
    except ValueError:
        raise argparse.ArgumentTypeError("expected 'TASK+SECONDS'") from None


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, action="append", help="may be given again")
    parser.add_argument("--count", type=int, default=20, help="faults of each seed")
    parser.add_argument("--workers", type=int, help="hosts at once; 2, and 1 virtual machine")
    parser.add_argument(
        "--machine",
        choices=("container", "vm"),
        default="container",
        help="vm: cut the power of a virtual machine, where what was not synced is lost",
    )
    parser.add_argument("--kinds", default=",".join(drawn.KINDS), help="some of them, by comma")
    parser.add_argument("--json", help="file for the record; with {seed} in it, one per seed")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="continue that record: only what is not proven is tried",
    )
    parser.add_argument("--number", type=int, action="append", help="only these of each seed")
    parser.add_argument("--at", type=moment, help="'TASK+SECONDS': the moment, as printed")
    parser.add_argument(
        "--keep-failed", action="store_true", help="keep a host that was not cured, and its project"
    )
    parser.add_argument(
        "--no-heal",
        action="store_true",
        help="leave network and disk broken for the cure, to see it fail",
    )
    parser.add_argument(
        "--table", nargs="+", type=Path, help="print the table of these records and do nothing else"
    )
    options = parser.parse_args(arguments)
    options.kinds = options.kinds.split(",")
    options.workers = options.workers or (1 if options.machine == "vm" else 2)
    unknown = sorted(set(options.kinds) - set(drawn.KINDS))
    if unknown:
        parser.error(f"no such kind: {', '.join(unknown)}; there are {', '.join(drawn.KINDS)}")
    if not options.seed:
        options.seed = [random.SystemRandom().randrange(1, 1_000_000)]
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    if options.table:
        records = [json.loads(path.read_text("utf-8")) for path in options.table]
        for line in drawn.table([result for record in records for result in record["results"]]):
            print(line)
        return 0
    say("seeds " + " ".join(str(seed) for seed in options.seed))
    # SIGTERM removes the hosts, as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sweep(connect())
        with workplace() as directory:
            return Harness(options, directory).work()
    except ProvisionError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
