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
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from provision import locallab
from provision.errors import MachineError, ProvisionError
from provision.locallab import cudnn_archive, gpu, image
from provision.locallab.machine import Podman, cache_directory, connect
from provision.locallab.owner import is_alive, owner

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
import demo  # noqa: E402 - the script that `make demo` runs
import fault_schedule as drawn  # noqa: E402
from fault_schedule import Estimates, Fault  # noqa: E402

BIN = Path(sys.executable).parent
PLATFORM = "debian11"
WATCH = (ROOT / "scripts" / "fault_watch.py").read_text("utf-8")
# Sparse: it holds what is written to it, about 10 GB with everything installed.
DISK_SIZE = 20 << 30
# Top folders on the host's own disk: those that apt, dpkg, pip and cuDNN write to.
ON_DISK = ("usr", "var", "opt")
RUN_TIMEOUT = 3600.0
# How long a broken run may take to end, in seconds: ssh gives up after 90 s of silence.
NOTICE_TIMEOUT = 900.0
ATTEMPTS = 8
# The harness stops after more errors of its own than this.
MAXIMUM_ERRORS = 5
# Packages whose removal does not remove nvidia-cuda-dev (1.5 GB unpacked) too.
LEAVES = {"libnvvm4", "nvidia-cuda-toolkit", "nvidia-opencl-dev", "nvidia-profiler"}
# Wheels that are slow to reinstall, and never picked.
BIG_WHEELS = {"tensorflow", "libclang", "tensorflow-io-gcs-filesystem", "setuptools"}

_print_lock = threading.Lock()


def say(text: str) -> None:
    with _print_lock:
        print(text, flush=True)


# The host and its disk


class Disk:
    """A file system in a sparse file, so that filling it fills nothing else."""

    def __init__(self, podman: Podman, directory: Path) -> None:
        self.podman = podman
        self.mount = directory / "disk"
        self._file = directory / "disk.img"

    def make(self) -> None:
        """An empty disk with the image's own /usr, /var and /opt; raises MachineError."""
        self.mount.mkdir(parents=True)
        with self._file.open("wb") as stream:
            stream.truncate(DISK_SIZE)
        as_root = self.podman.as_root
        as_root("mkfs.ext4", "-q", "-m", "0", str(self._file))
        as_root("mount", "-o", "loop,discard,noatime", str(self._file), str(self.mount))
        # The mount keeps the file's content until it is unmounted, even by another process.
        self._file.unlink()
        base = image.ensure(self.podman, PLATFORM, cache_directory(), say)
        where = self.podman.call("image", "mount", base).split()[-1]
        try:
            paths = [str(Path(where, name)) for name in ON_DISK]
            as_root("cp", "--archive", *paths, str(self.mount))
        finally:
            self.podman.run("image", "unmount", base)
        # The lab installs these under the image's /usr, which this disk hides.
        libraries = self.mount / gpu.DIRECTORY.lstrip("/")
        with tempfile.TemporaryDirectory() as place:
            for soname, data in gpu.compile_libraries(cache_directory()).items():
                Path(place, soname).write_bytes(data)
                as_root("install", "-D", str(Path(place, soname)), str(libraries / soname))

    @property
    def volumes(self) -> list[str]:
        return [f"{self.mount / name}:/{name}" for name in ON_DISK]

    def remove(self) -> None:
        unmount(self.podman, self.mount)
        self._file.unlink(missing_ok=True)


def unmount(podman: Podman, mount: Path) -> None:
    if os.path.ismount(mount):
        podman.as_root("umount", "--lazy", str(mount))
    with contextlib.suppress(OSError):
        mount.rmdir()


def place() -> Path:
    """The folder of this user's harnesses, each with a directory of its own for its projects."""
    return cache_directory().parent / "faults"


def sweep(podman: Podman) -> None:
    """Removes the hosts, mounts and files of killed harnesses."""
    locallab.sweep()
    for directory in place().glob("*/"):
        try:
            who = (directory / "owner").read_text("ascii")
        except OSError:
            continue
        if not is_alive(who):
            for mount in directory.glob("*/disk"):
                unmount(podman, mount)
            shutil.rmtree(directory, ignore_errors=True)


WOUND_SCRIPTS = {
    "driver-few": "purge $PICKED",
    "driver-all": "purge $PICKED",
    "driver-files": "rm -f /etc/apt/preferences.d/provision-nvidia-driver"
    " /etc/apt/apt.conf.d/51provision-gpu-stack",
    "cuda-few": "purge $PICKED",
    "cuda-many": "purge $PICKED",
    "cuda-all": "purge $PICKED",
    "cuda-holds": "apt-mark unhold $(apt-mark showhold) >/dev/null",
    "cudnn-gone": "rm -rf /opt/nvidia/cudnn/*-cuda*",
    "cudnn-files": 'for library in $(find /opt/nvidia/cudnn/*-cuda* -name "libcudnn_*.so.*" -type f'
    ' | sort | head -2); do : > "$library"; done',
    "cudnn-link": "rm -f /opt/nvidia/cudnn/current",
    "env-gone": "rm -f /etc/profile.d/provision-gpu.sh /etc/provision/gpu.env"
    " /etc/systemd/system.conf.d/50-provision-gpu.conf; : > /etc/environment",
    "wheels": "/opt/tensorflow/current/bin/python -m pip uninstall --yes --quiet $PICKED",
    "venv-gone": "rm -rf /opt/tensorflow/2*",
    "venv-away": "mv /opt/tensorflow/2* /opt/away",
    "archives": "apt-get clean",
    "lists": "rm -rf /var/lib/apt/lists/*",
    "sources": "rm -f /etc/apt/sources.list.d/provision-*",
    "pins": "rm -f /etc/apt/preferences.d/provision-*",
}
PROLOGUE = r"""
export DEBIAN_FRONTEND=noninteractive
# With all packages that depend on them; by dpkg, because apt would install a substitute.
purge() {
    local output dependants
    for _ in 1 2 3 4 5 6; do
        output=$(LC_ALL=C dpkg --purge "$@" 2>&1) && return
        dependants=$(sed -n 's/^ *\([^ :]*\)[^ ]* depends on .*/\1/p' <<< "$output" | sort -u)
        set -- "$@" $dependants
    done
    echo "$output"
    return 1
}
rm -rf /opt/away
"""
# Prints processes, temporary files and broken packages that a fault and its cure left behind.
LEFTOVERS = r"""
ps -eo args= \
    | grep -E '^(/usr/bin/)?(apt-get|dpkg) |-m pip install|python[0-9.]* - (install|bring)' \
    | grep -vE '^(bash|grep) ' || true
find /var/tmp /tmp -maxdepth 1 \( -name 'provision-*' -o -name 'pip-*' \)
find /opt/nvidia /opt/tensorflow -maxdepth 2 \( -name '.staging-*' -o -name '*.backup-*' \
    -o -name '*.new' -o -name '.ansible*' \)
find /opt/tensorflow -mindepth 1 -maxdepth 1 -not -name current -not -name '2.9*' -not -name '.*'
find /opt/tensorflow -maxdepth 1 \( -name '.building-*' -o -name '.re[am]*-*' \)
find /opt/tensorflow -mindepth 2 -maxdepth 2 -name 'pip-*'
find /opt/tensorflow/current/lib/python3*/site-packages -maxdepth 1 -name '~*'
find /var/lib/dpkg/updates -type f
dpkg --audit
"""


def wounds(fault: Fault, names: Mapping[str, Sequence[str]]) -> str:
    """The shell script that damages the host before the fault. Pure."""
    lines = [PROLOGUE]
    for name in (*fault.start, *fault.riders):
        picked = ""
        wound = drawn.WOUNDS.get(name)
        if wound is not None and wound.pick:
            picked = shlex.join(item for item in fault.picked if item in names[wound.pick])
        lines.append(WOUND_SCRIPTS[name].replace("$PICKED", picked))
    return "\n".join(lines)


class Watcher:
    """A process of fault_watch.py in the container; `answer` is its last JSON line."""

    def __init__(self, podman: Podman, container: str, spec: Mapping[str, Any]) -> None:
        self.answer: dict[str, Any] | None = None
        self._process = subprocess.Popen(
            podman.argv(
                "exec", "--interactive", container, "python3", "-c", WATCH, json.dumps(spec)
            ),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stdout is not None  # noqa: S101 (for the type checker)
        if b"ready" not in self._process.stdout.readline():
            raise MachineError("the watcher did not start", got=self._end())
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None  # noqa: S101
        for line in self._process.stdout:
            with contextlib.suppress(ValueError):
                self.answer = json.loads(line)

    def tell(self) -> None:
        """Tells the watcher to strike now."""
        assert self._process.stdin is not None  # noqa: S101
        with contextlib.suppress(OSError):
            self._process.stdin.write(b"go\n")
            self._process.stdin.flush()

    def stop(self) -> str:
        """Ends the watcher, so that it can't strike a later run; returns its stderr."""
        assert self._process.stdin is not None  # noqa: S101
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._thread.join(timeout=5)
        return self._end()

    def _end(self) -> str:
        assert self._process.stderr is not None  # noqa: S101
        return self._process.stderr.read().decode("utf-8", "replace")[-300:]


class Run:
    """A plain `ansible-playbook site.yml -i lab`, its events and its report."""

    def __init__(self, project: Path, log: Path, connections: Path) -> None:
        self._events = project / "report" / "latest" / "events.jsonl"
        self._report = project / "report" / "latest" / "report.json"
        # Earlier runs keep their folders, but are not mistaken for this one.
        (project / "report" / "latest").unlink(missing_ok=True)
        self.started = time.time()
        self.log = log
        with log.open("wb") as stream:
            self.process = subprocess.Popen(
                [str(BIN / "ansible-playbook"), "site.yml", "-i", "lab"],
                cwd=project,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # A folder for its connections, so that only this host's can be ended.
                env=os.environ | {"ANSIBLE_SSH_CONTROL_PATH_DIR": str(connections)},
            )

    def running(self) -> bool:
        return self.process.poll() is None

    def events(self) -> list[dict[str, Any]]:
        events = []
        with contextlib.suppress(OSError):
            for line in self._events.read_text("utf-8").splitlines():
                with contextlib.suppress(ValueError):  # the last line may be incomplete
                    events.append(json.loads(line))
        return events

    def now(self) -> tuple[str, float]:
        """The current task, and when it began (seconds since the epoch)."""
        for event in reversed(self.events()):
            if event["event"] in ("host_start", "host_result"):
                return event["task"], seconds(event["time"])
        return "before the first task", self.started

    def wait(self, timeout: float) -> int:
        """Waits for the exit code; kills a run that takes longer and raises MachineError."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise MachineError(
                f"ansible-playbook did not end in {timeout:.0f} s", got=self.now()[0]
            ) from None

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def report(self) -> dict[str, Any] | None:
        """The finished report of this run; None without one."""
        with contextlib.suppress(OSError, ValueError):
            if self._report.stat().st_mtime >= self.started:
                loaded: dict[str, Any] = json.loads(self._report.read_text("utf-8"))
                return None if loaded.get("unfinished") else loaded
        return None

    def took(self) -> float:
        """Seconds from the plan to the end of the events."""
        events = self.events()
        plan = next((e for e in events if e["event"] == "plan"), None)
        return seconds(events[-1]["time"]) - seconds(plan["time"]) if plan else 0.0


def seconds(stamp: str) -> float:
    return datetime.datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()


class NotHitError(Exception):
    """The run ended before the fault could happen, or succeeded in spite of it."""


class Bench:
    """A lab host with its project, on which one worker tries its faults."""

    def __init__(self, number: int, directory: Path, options: argparse.Namespace) -> None:
        self.name = f"faults{number}"
        self.project = directory / f"worker{number}"
        self.project.mkdir(parents=True)
        self.options = options
        self.podman = connect()
        self.disk = Disk(self.podman, self.project)
        # In /tmp: a socket's path has at most 108 bytes.
        self.connections = Path(tempfile.mkdtemp(prefix="faults-"))
        self.lab: locallab.Lab | None = None
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
            _provision("lock", "--project", str(self.project))
        else:
            path.write_text(lock, "utf-8")
        _provision("render", str(self.project))
        return path.read_text("utf-8")

    def renew(self) -> None:
        """Replaces the host by a bare one, unless it is to be kept."""
        if self.kept:
            return
        self._down()
        self._host()

    def _host(self) -> None:
        self.disk.make()
        self.lab = locallab.up(
            f"faults-{os.getpid()}-{self.name}",
            locallab.Shape(volumes=self.disk.volumes),
            state_dir=self.project / ".lab",
            hosts=[self.name],
            keep=self.options.keep_failed,
        )
        demo.write_inventory(
            self.project, self.lab, cudnn_archive.pack(cache_directory(), progress=say)
        )
        self.bare = True

    def _down(self) -> None:
        self._hang_up()
        if self.lab is not None:
            self.lab.down()
            self.lab = None
        self.disk.remove()

    def close(self) -> None:
        if self.kept:
            say(f"kept: {self.container}, project {self.project}")
            # Without an owner, so that the next harness does not remove it.
            (self.project.parent / "owner").unlink(missing_ok=True)
            return
        self._down()
        shutil.rmtree(self.connections, ignore_errors=True)
        shutil.rmtree(self.project, ignore_errors=True)

    @property
    def container(self) -> str:
        assert self.lab is not None  # noqa: S101
        return self.lab.hosts[0].container

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
        }

    def on_host(self, script: str, *, check: bool = True) -> str:
        done = self.podman.run("exec", self.container, "bash", "-c", "set -e\n" + script)
        if check and done.returncode:
            output = (done.stdout + done.stderr).decode("utf-8", "replace")[-500:]
            raise MachineError(f"{self.name} could not be prepared", got=output)
        return done.stdout.decode("utf-8", "replace")

    def _inside(self, *argv: str, stdin: str | None = None) -> None:
        """Runs a program of this machine in the host's network namespace."""
        pid = self.podman.call("inspect", "--format", "{{.State.Pid}}", self.container).strip()
        command = [*self.podman.prefix, "nsenter", "--target", pid, "--net", *argv]
        subprocess.run(command, input=stdin, text=True, check=True, timeout=30)

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
            self._inside("iptables-restore", stdin=NETWORK_RULES[fault.variant])
            return f"cut the network ({fault.variant})"
        if fault.kind == "power":
            self.podman.call("kill", "--signal=KILL", self.container)
            self.podman.call("wait", self.container)
            return "switched the host off"
        raise AssertionError(fault.kind)

    def power_on(self) -> None:
        """Starts the host again with its old address, and waits for SSH."""
        assert self.lab is not None  # noqa: S101
        host = self.lab.hosts[0]
        self.podman.run("network", "disconnect", "podman", self.container)
        self.podman.call("network", "connect", "--ip", host.address, "podman", self.container)
        self.podman.call("start", self.container)
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            # Not over an old connection, which only the run may use.
            done = subprocess.run(
                [
                    "ssh", *self.lab.ssh_arguments(), "-o", "ConnectTimeout=5", "-i",
                    str(host.key_file), f"{host.user}@{host.address}", "true",
                ],
                capture_output=True, check=False,
            )  # fmt: skip
            if done.returncode == 0:
                return
            time.sleep(0.3)
        raise MachineError(f"{self.name} did not come back", got=done.stderr.decode()[-300:])

    def heal(self, fault: Fault) -> None:
        """Repairs what a person would repair: the cable, the disk."""
        if fault.kind == "network":
            self._inside("iptables-restore", stdin=NETWORK_RULES["whole"])
        if fault.kind == "disk":
            self.on_host("rm -f /var/.faults-fill")

    # one fault

    def run(self, log: str) -> Run:
        if self.stopped:
            raise MachineError("stopped")
        self.current = Run(self.project, self.project / f"{log}.log", self.connections)
        return self.current

    def stop(self) -> None:
        """Ends the current run, from another thread; no other begins."""
        self.stopped = True
        if self.current is not None:
            self.current.kill()

    def bring_up(self, estimates: Estimates) -> None:
        """Brings a bare host to the proven state, from which most faults start."""
        run = self.run("bring-up")
        wrong = drawn.judge(run.wait(RUN_TIMEOUT), run.report(), self.name)
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
            self.podman,
            self.container,
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
                self.power_on()
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
        hit.wrong = drawn.judge(hit.code, run.report(), self.name)
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
        result["wrong"] += drawn.judge(code, report, self.name)
        entry = ((report or {}).get("hosts") or {}).get(self.name) or {}
        result["changes"] = [
            f"{change['component']} {change['item']}: {change['from']} -> {change['to']}"
            for change in entry.get("changes") or []
        ]
        if not result["wrong"]:
            begun = time.monotonic()
            again = self.run("again")
            code = again.wait(RUN_TIMEOUT)
            result["again_in"] = round(time.monotonic() - begun, 1)
            result["wrong"] += drawn.judge(code, again.report(), self.name, again=True)
        result["leftovers"] = self.on_host(LEFTOVERS, check=False).splitlines()

    def cured_by_more(self) -> bool:
        """Whether two more runs bring the host to the lock, so that it can be used again."""
        try:
            self.run("more").wait(RUN_TIMEOUT)
            run = self.run("more-again")
            wrong = drawn.judge(run.wait(RUN_TIMEOUT), run.report(), self.name, again=True)
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
            self.cure(result)
        except MachineError as error:
            result["wrong"].append(str(error))
        if self.options.no_heal:
            self.heal(fault)
        result["proven"] = not result["wrong"]
        result["seconds"] = round(time.monotonic() - begun, 1)
        return result


class Hit:
    """What a fault hit: the task, how long it had run, and how the run ended."""

    def __init__(self) -> None:
        self.what = ""
        self.task = ""
        self.offset = 0.0
        self.running: list[str] = []
        self.code = 0
        self.noticed = 0.0
        self.status = ""
        self.message = ""
        self.wrong: list[str] = []


ACTS = {"module": "kill-module", "dpkg": "kill-dpkg", "disk": "fill"}
# In the first two ssh keeps working, as if only the mirrors were unreachable.
NETWORK_RULES = {
    "refused": """*filter
-A OUTPUT -o lo -j ACCEPT
-A OUTPUT -p tcp --sport 22 -j ACCEPT
-A OUTPUT -p tcp -j REJECT --reject-with tcp-reset
-A OUTPUT -j REJECT
COMMIT
""",
    "silent": """*filter
-A OUTPUT -o lo -j ACCEPT
-A OUTPUT -p tcp --sport 22 -j ACCEPT
-A OUTPUT -j DROP
COMMIT
""",
    "ssh": """*filter
-A INPUT -i lo -j ACCEPT
-A OUTPUT -o lo -j ACCEPT
-A INPUT -p tcp -j REJECT --reject-with tcp-reset
-A OUTPUT -p tcp --tcp-flags RST RST -j ACCEPT
-A OUTPUT -j DROP
COMMIT
""",
    "whole": """*filter
COMMIT
""",
}


def _provision(*arguments: str) -> None:
    done = subprocess.run(
        [str(BIN / "provision"), *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise MachineError(f"provision {arguments[0]} failed", got=done.stdout + done.stderr)


# All faults


class Harness:
    """Gives the faults to the benches, and writes the record."""

    def __init__(self, options: argparse.Namespace, directory: Path) -> None:
        self.options = options
        self.directory = directory
        self.estimates = Estimates()
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
        faults = drawn.schedule(options.seed, options.count, kinds=options.kinds, names=self.names)
        return [fault for fault in faults if not options.number or fault.number in options.number]

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
                fault = drawn.draw(
                    fault.seed, fault.number, attempt, kinds=self.options.kinds, names=self.names
                )
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
    parser.add_argument("--workers", type=int, default=2)
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
