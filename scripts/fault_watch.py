"""Waits on a lab host for a moment of a run, and strikes; scripts/faults.py pipes it there.

It runs beside what it kills, for a process found from outside is often gone before a command
reaches it. Python 3.7, standard library only. One JSON object is its argument:

    {"during": "dpkg", "delay": 1.5, "act": "kill-module", "timeout": 300, "disk": "/var"}

`during` is a key of PHASES, or "told": then a line on standard input is the moment. It prints one
JSON line when the phase begins and one about what was hit, and exits with 0; with 3 where the
moment never came.
"""

import errno
import json
import os
import select
import signal
import sys
import time

POLL = 0.02
FILL = "/var/.faults-fill"


# What modules call themselves while they are at a long step.
OWN = ("provision-cudnn",)
BEHIND = "behind other tasks"


def processes():
    """[(pid, argv)] of what runs here, oldest first; not of this process.

    A module that has named itself stands there by its name; with BEHIND where it is a process that
    a module has begun and left to itself.
    """
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            argv = text("/proc/" + name + "/cmdline").split("\0")[:-1]
            argv = own_name(text("/proc/" + name + "/stat")) or argv
        except OSError:
            continue
        if argv and argv[0]:
            found.append((int(name), argv))
    return sorted(found)


def own_name(stat):
    """[name] or [name, BEHIND] of a process that has named itself, by its /proc/PID/stat; or []."""
    name, _bracket, rest = stat.partition("(")[2].rpartition(")")
    if name not in OWN:
        return []
    return [name, BEHIND] if rest.split()[1] == "1" else [name]


def text(path):
    with open(path, "rb") as stream:
        return stream.read().decode("utf-8", "replace")


def is_dpkg(argv):
    return os.path.basename(argv[0]) == "dpkg" and bool({"--unpack", "--configure"} & set(argv))


def is_module(argv):
    """A module that came through ssh's pipe: Python without arguments, or by its own name."""
    return len(argv) == 1 and (argv[0] in OWN or os.path.basename(argv[0]).startswith("python"))


def is_method(argv):
    return argv[0].startswith("/usr/lib/apt/methods/http")


def is_apt_install(argv):
    return os.path.basename(argv[0]) == "apt-get" and "install" in argv


def of_python(argv):
    """What a Python runs and its arguments, without options such as -I; [] of another program."""
    if not os.path.basename(argv[0]).startswith("python"):
        return []
    begin = 1
    while (
        argv[begin : begin + 1] and argv[begin].startswith("-") and argv[begin] not in ("-", "-m")
    ):
        begin += 1
    return argv[begin:]


def is_pip(argv):
    return of_python(argv)[:3] == ["-m", "pip", "install"]


def is_cudnn(argv):
    return argv[0] == "provision-cudnn"


def downloading(found):
    methods = [one for one in found if is_method(one[1])]
    return methods if any(is_apt_install(argv) for _pid, argv in found) else []


def only(test):
    return lambda found: [one for one in found if test(one[1])]


PHASES = {
    "download": downloading,
    "dpkg": only(is_dpkg),
    "pip": only(is_pip),
    "cudnn": only(is_cudnn),
    "module": only(is_module),
}


def interesting(found):
    """What of the run is at work, for the record."""
    tests = (is_dpkg, is_module, is_method, is_apt_install, is_pip, is_cudnn)
    return [" ".join(argv)[:100] for _pid, argv in found if any(test(argv) for test in tests)]


def let_go():
    """True once standard input is closed: whoever asked is gone, or the run is over."""
    ready, _, _ = select.select([sys.stdin], [], [], 0)
    return bool(ready) and not os.read(0, 1)


def wait_for(phase, deadline):
    """The processes of a phase as soon as there are any; None when there is no reason to wait."""
    while time.monotonic() < deadline and not let_go():
        found = PHASES[phase](processes())
        if found:
            return found
        time.sleep(POLL)
    return None


def kill(phase, deadline):
    """Kills the youngest process of a phase, waiting for one; (pid, command line) or None."""
    while True:
        found = wait_for(phase, deadline)
        if found is None:
            return None
        pid, argv = found[-1]
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        return {"pid": pid, "command": " ".join(argv)[:200]}


def fill(directory):
    """Takes all space of the disk under `directory`; bytes. Only ever a disk of its own."""
    if os.stat(directory).st_dev == os.stat("/").st_dev:
        raise SystemExit(f"refused: {directory} is on the machine's own disk")
    total = 0
    handle = os.open(FILL, os.O_CREAT | os.O_WRONLY, 0o600)
    step = 1 << 32
    while step >= 4096:
        try:
            os.posix_fallocate(handle, total, step)
            total += step
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EFBIG):
                raise
            step //= 2
    os.close(handle)
    return {"bytes": total, "path": FILL}


def main(spec):
    deadline = time.monotonic() + spec["timeout"]
    print(json.dumps({"event": "ready"}), flush=True)
    seen = []
    if spec["during"] == "told":
        ready, _, _ = select.select([sys.stdin], [], [], spec["timeout"])
        if not ready or not os.read(0, 100):
            return 3
    else:
        found = wait_for(spec["during"], deadline)
        if found is None:
            return 3
        seen = interesting(found)
        print(json.dumps({"event": "seen"}), flush=True)
    time.sleep(spec["delay"])
    if let_go():
        return 3
    running = interesting(processes())
    act = spec["act"]
    hit = {"by": "harness"}
    if act == "fill":
        hit = fill(spec["disk"])
    elif act.startswith("kill-"):
        hit = kill(act[len("kill-") :], deadline)
        if hit is None:
            return 3
    answer = {"event": "struck", "hit": hit, "seen": seen, "running": running}
    print(json.dumps(answer), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(json.loads(sys.argv[1])))
