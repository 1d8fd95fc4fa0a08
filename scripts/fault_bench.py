"""A lab host with its project, on which faults are tried one after the other."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import demo
import fault_cuts
import fault_schedule as drawn
import yaml
from fault_host import BIG_WHEELS, LEAVES, LEFTOVERS, NETWORK_RULES, say, wounds
from fault_lab import Container, Host, Machine
from fault_run import (
    ACTS,
    NOTICE_TIMEOUT,
    RUN_TIMEOUT,
    Hit,
    NotHitError,
    Run,
    Watcher,
    provision,
    seconds,
)
from fault_schedule import Estimates, Fault

from provision.errors import MachineError
from provision.locallab import cudnn_archive
from provision.locallab.machine import cache_directory, connect

# (exit code, report, host, again=) -> why it is not proven
Judge = Callable[..., list[str]]
COMPARE = (Path(__file__).parent / "fault_compare.py").read_text("utf-8")


class Bench:
    """A lab host with its project, on which one worker tries its faults."""

    def __init__(self, number: int, directory: Path, options: argparse.Namespace) -> None:
        self.name = f"faults{number}"
        self.project = directory / f"worker{number}"
        self.project.mkdir(parents=True)
        self.options = options
        self.is_machine = options.machine == "vm"
        self.host: Host = (
            Machine(self.name, self.project, options)
            if self.is_machine
            else Container(self.name, self.project, options, connect())
        )
        # In /tmp: a socket's path has at most 108 bytes.
        self.connections = Path(tempfile.mkdtemp(prefix="faults-"))
        self.bare = True
        self.kept = False
        self.stopped = False
        self.current: Run | None = None

    # the host

    def up(self, lock: str | None) -> str:
        """Starts a bare host and renders its project; returns the lock.

        `lock` is that of another bench, which has the same.
        """
        self._host()
        path = self.project / "lock.yml"
        if lock is None:
            provision("lock", "--project", str(self.project))
        else:
            path.write_text(lock, "utf-8")
        provision("render", str(self.project))
        return path.read_text("utf-8")

    def renew(self) -> None:
        """Replaces the host by a bare one, unless it is to be kept."""
        if self.kept:
            return
        self._down()
        self._host()

    def _host(self) -> None:
        lab = self.host.up()
        demo.write_inventory(self.project, lab, cudnn_archive.pack(cache_directory(), progress=say))
        with (self.project / "lab/group_vars/gpu_hosts.yml").open("a", encoding="utf-8") as wish:
            wish.write(self.host.wish)
        self.bare = self.host.bare

    def _down(self) -> None:
        self._hang_up()
        self.host.down()

    def close(self) -> None:
        if self.kept:
            say(f"kept: {self.name}, project {self.project}")
            # Without an owner, so that the next harness does not remove it.
            (self.project.parent / "owner").unlink(missing_ok=True)
            return
        self._down()
        shutil.rmtree(self.connections, ignore_errors=True)
        shutil.rmtree(self.project, ignore_errors=True)

    @property
    def names(self) -> dict[str, list[str]]:
        """{pick of a wound: the lock's packages or wheels that it draws from}."""
        lock = yaml.safe_load((self.project / "lock.yml").read_text("utf-8"))["gpu_lock"]
        (stack,) = lock["stacks"].values()
        return {
            "driver": sorted(stack["nvidia_driver"]["packages"]["userspace"]),
            "cuda": sorted(stack["cuda"]["packages"]["toolkit"]),
            "leaves": sorted(LEAVES & set(stack["cuda"]["packages"]["toolkit"])),
            "wheels": sorted(set(stack["tensorflow"]["wheels"]) - BIG_WHEELS),
            "leaf": list(fault_cuts.LEAF),
            "libraries": list(fault_cuts.LIBRARIES),
        }

    def on_host(self, script: str, *, check: bool = True) -> str:
        # As bash's input, so that no command line has the script's words; its commands have none.
        text = f"all() {{\nset -e\n{script}\n}}\nall </dev/null\n"
        done = subprocess.run(
            self.host.argv("bash", "-s"), input=text.encode(),
            capture_output=True, check=False, timeout=RUN_TIMEOUT,
        )  # fmt: skip
        if check and done.returncode:
            output = (done.stdout + done.stderr).decode("utf-8", "replace")[-500:]
            raise MachineError(f"{self.name} could not be prepared", got=output)
        return done.stdout.decode("utf-8", "replace")

    def _hang_up(self) -> list[int]:
        """Kills the ssh processes that keep this host's connections open; returns their pids."""
        pids = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                text = entry.read_bytes().decode("utf-8", "replace")
                if text.startswith("ssh") and str(self.connections) in text:
                    pids.append(int(entry.parent.name))
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return pids

    # faults from outside the host

    def strike(self, fault: Fault, run: Run) -> str:
        """Breaks something from outside while the run is alive; returns what it did."""
        if fault.kind == "controller":
            pid = run.process.pid
            run.kill()
            if fault.variant == "processes":
                return f"killed the process group {pid}"
            return f"killed the process group {pid} and {len(self._hang_up())} connections"
        if fault.kind == "network":
            self.host.network(NETWORK_RULES[fault.variant])
            return f"cut the network ({fault.variant})"
        if fault.kind == "power":
            self.host.cut()
            return "switched the host off"
        raise AssertionError(fault.kind)

    def heal(self, fault: Fault) -> None:
        """Repairs what a person would repair: the cable, the disk."""
        if fault.kind == "network":
            self.host.network(NETWORK_RULES["whole"])
        if fault.kind == "disk":
            self.on_host("rm -f /var/.faults-fill")

    # one fault

    def run(self, log: str, *arguments: str) -> Run:
        if self.stopped:
            raise MachineError("stopped")
        path = self.project / f"{log}.log"
        self.current = Run(self.project, path, self.connections, *arguments)
        return self.current

    def run_again(self, log: str) -> Run:
        """The run that must find nothing to do; of a machine its plan.

        A machine without a card is proven by every run anew, which takes minutes under emulation.
        """
        return self.run(log, *(["--check"] if self.is_machine else []))

    def stop(self) -> None:
        """Ends the current run, from another thread; no other begins."""
        self.stopped = True
        if self.current is not None:
            self.current.kill()

    @property
    def judge(self) -> Judge:
        """What proves the host: on a machine without a card all that it can show."""
        return fault_cuts.judge if self.is_machine else drawn.judge

    def compare(self) -> dict[str, str]:
        """{file: what is wrong} on a machine, by what the packages and wheels say of theirs."""
        if not self.is_machine:
            return {}
        done = subprocess.run(
            self.host.argv("python3", "-"),
            input=COMPARE, capture_output=True, text=True, check=False, timeout=RUN_TIMEOUT,
        )  # fmt: skip
        if done.returncode:
            raise MachineError(f"{self.name}: its files can't be compared", got=done.stderr[-300:])
        compared: dict[str, str] = json.loads(done.stdout)
        return compared

    def bring_up(self, estimates: Estimates) -> None:
        """Brings a bare host to the proven state, from which most faults start."""
        run = self.run("bring-up")
        wrong = self.judge(run.wait(RUN_TIMEOUT), run.report(), self.name)
        if wrong:
            raise MachineError("a host could not be brought up", got="; ".join(wrong))
        self._learn((drawn.BARE,), run, estimates)
        self.bare = False

    def break_run(self, fault: Fault, estimates: Estimates, at: tuple[str, float] | None) -> Hit:
        """Starts a run and breaks it. Raises NotHitError where the run ended first."""
        at_moment = at is not None or fault.during == "run"
        during = "signal" if at_moment else fault.during
        delay = 0.0 if at_moment else fault.fraction * estimates.phase(fault.start, fault.during)
        watcher = Watcher(
            self.host.argv,
            {
                "during": during,
                "delay": delay,
                "act": ACTS.get(fault.kind, "tell"),
                "timeout": RUN_TIMEOUT,
                "disk": "/var",
            },
        )
        run = self.run("broken")
        hit = Hit()
        try:
            if at_moment:
                moment = at or ("", fault.fraction * estimates.run(fault.start))
                self._await(run, *moment)
                watcher.tell()
            while run.running() and (watcher.answer or {}).get("event") != "struck":
                time.sleep(0.02)
            hit.task, since = run.now()
            hit.offset = time.time() - since
            answer = watcher.answer or {}
            if answer.get("event") != "struck" or not run.running():
                hit.code = run.wait(NOTICE_TIMEOUT)
                never = during != "signal" and not answer
                why = f"it had no phase {during}" if never else "the run was over"
                return self._ended(hit, run, why)
            hit.running = answer["running"]
            struck = answer["hit"]
            if "command" in struck:
                hit.what = f"killed {struck['command'][:60]} (pid {struck['pid']})"
            elif "bytes" in struck:
                hit.what = f"took the last {struck['bytes'] / 1e9:.2f} GB"
            else:
                hit.what = self.strike(fault, run)
            if fault.kind == "power":
                self.host.power_on()
            hit.code = run.wait(NOTICE_TIMEOUT)
        finally:
            run.kill()
            watcher.stop()
        hit.noticed = time.time() - since - hit.offset
        if fault.kind != "controller":
            report = run.report()
            entry = ((report or {}).get("hosts") or {}).get(self.name) or {}
            hit.status = entry.get("status", "")
            hit.message = ((entry.get("failure") or {}).get("message") or "")[:300]
        self._learn(fault.start, run, estimates, hit.task if hit.code else None)
        if hit.code == 0:
            return self._ended(hit, run, "the run succeeded in spite of it: " + hit.what)
        return hit

    def _ended(self, hit: Hit, run: Run, why: str) -> Hit:
        """Raises NotHitError for a run that ended well; returns the hit for one that did not."""
        hit.wrong = self.judge(hit.code, run.report(), self.name)
        if not hit.wrong:
            raise NotHitError(why)
        hit.wrong = [f"{why}, but: {'; '.join(hit.wrong)}"]
        return hit

    def _await(self, run: Run, task: str, offset: float) -> None:
        """Waits until `offset` seconds after a task began on the host; "" is the plan's end."""
        begun: float | None = None
        while run.running():
            if begun is None:
                for event in run.events():
                    if (event["event"] == "plan" and not task) or (
                        event["event"] == "host_start" and event["task"] == task != ""
                    ):
                        begun = seconds(event["time"])
                        break
            if begun is not None and time.time() >= begun + offset:
                return
            time.sleep(0.02)

    def cure(self, result: dict[str, Any]) -> None:
        """Adds to `result` the run that must prove the host, and the one that must do nothing."""
        begun = time.monotonic()
        run = self.run("cure")
        code = run.wait(RUN_TIMEOUT)
        report = run.report()
        result["cured_in"] = round(time.monotonic() - begun, 1)
        result["wrong"] += self.judge(code, report, self.name)
        entry = ((report or {}).get("hosts") or {}).get(self.name) or {}
        result["changes"] = [
            f"{change['component']} {change['item']}: {change['from']} -> {change['to']}"
            for change in entry.get("changes") or []
        ]
        damaged = self.compare()
        result["damaged_unseen"] = damaged
        if damaged:
            result["wrong"].append(f"damaged and not seen: {', '.join(list(damaged)[:5])}")
        if not result["wrong"]:
            begun = time.monotonic()
            again = self.run_again("again")
            code = again.wait(RUN_TIMEOUT)
            result["again_in"] = round(time.monotonic() - begun, 1)
            result["wrong"] += self.judge(code, again.report(), self.name, again=True)
        result["leftovers"] = self.on_host(LEFTOVERS, check=False).splitlines()

    def cured_by_more(self) -> bool:
        """Whether two more runs bring the host to the lock, so that it can be used again."""
        try:
            self.run("more").wait(RUN_TIMEOUT)
            run = self.run_again("more-again")
            wrong = self.judge(run.wait(RUN_TIMEOUT), run.report(), self.name, again=True)
        except MachineError as error:
            wrong = [str(error)]
        verdict = "not whole after two more runs: " + "; ".join(wrong) if wrong else "as locked"
        say(f"       after another run {self.name} is {verdict}")
        return not wrong

    def _learn(
        self, start: Sequence[str], run: Run, estimates: Estimates, struck: str | None = None
    ) -> None:
        """Updates the estimates by a run; if broken in task `struck`, by the earlier components."""
        entry = ((run.report() or {}).get("hosts") or {}).get(self.name) or {}
        took = {name: part["seconds"] for name, part in (entry.get("components") or {}).items()}
        if struck is not None:
            took.pop(struck.partition(" : ")[0], None)
        estimates.learn(start, took, None if struck is not None else run.took())

    def one(
        self, fault: Fault, estimates: Estimates, at: tuple[str, float] | None = None
    ) -> dict[str, Any]:
        """Tries one fault and returns its result. NotHitError leaves a proven host."""
        begun = time.monotonic()
        if fault.bare and not self.bare:
            self.renew()
        if not fault.bare and self.bare:
            self.bring_up(estimates)
        if not fault.bare:
            self.on_host(wounds(fault, self.names))
        prepared = time.monotonic() - begun
        self.bare = False
        if self.is_machine:
            at = at or fault_cuts.moment(fault)
            self.on_host("sync")
        try:
            hit = self.break_run(fault, estimates, at)
        except NotHitError:
            self.heal(fault)
            raise
        result: dict[str, Any] = {
            "fault": fault.data(),
            "moment": fault.moment,
            "state": fault.state,
            "hit": vars(hit),
            "prepared_in": round(prepared, 1),
            "wrong": list(hit.wrong),
        }
        if not self.options.no_heal:
            self.heal(fault)
        try:
            result["damaged"] = self.compare()
            self.cure(result)
        except MachineError as error:
            result["wrong"].append(str(error))
        if self.options.no_heal:
            self.heal(fault)
        result["proven"] = not result["wrong"]
        result["seconds"] = round(time.monotonic() - begun, 1)
        return result
