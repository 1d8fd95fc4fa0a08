"""Waits on a lab host for a moment of a run, and strikes; scripts/faults.py pipes it there.

It runs on the host, because a process found from outside has often ended before a command reaches
it. Python 3.7, standard library only. One JSON object is its argument:

    {"during": "dpkg", "delay": 1.5, "act": "kill-module", "timeout": 300, "disk": "/var"}

`during` is a key of PHASES, or "signal": then a line on standard input is the moment. It prints one
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
OWN = ("provision-cudnn", "provision-cuda")
BEHIND = "behind other tasks"


def processes():
    """[(pid, argv)] of what runs here, oldest first; not of this process.

    A module that has named itself stands there by its name; with BEHIND where it is a process that
    a module has begun and left to itself.
    """
    running = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            argv = text("/proc/" + name + "/cmdline").split("\0")[:-1]
            argv = own_name(text("/proc/" + name + "/stat")) or argv
        except OSError:
            continue
        if argv and argv[0]:
            running.append((int(name), argv))
    return sorted(running)


def own_name(stat):
    """[name] or [name, BEHIND] of a process that has named itself, by its /proc/PID/stat; or []."""
    name, _bracket, fields = stat.partition("(")[2].rpartition(")")
    if name not in OWN:
        return []
    return [name, BEHIND] if fields.split()[1] == "1" else [name]


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


def python_arguments(argv):
    """A Python's arguments without leading options such as -I; [] for another program."""
    if not os.path.basename(argv[0]).startswith("python"):
        return []
    begin = 1
    while (
        argv[begin : begin + 1] and argv[begin].startswith("-") and argv[begin] not in ("-", "-m")
    ):
        begin += 1
    return argv[begin:]


def is_pip(argv):
    return python_arguments(argv)[:3] == ["-m", "pip", "install"]


def is_cudnn(argv):
    return argv[0] == "provision-cudnn"


def is_dkms(argv):
    """DKMS itself, whose program is a shell's argument."""
    return any(os.path.basename(word) == "dkms" for word in argv[:3])


def is_initramfs(argv):
    names = {os.path.basename(word) for word in argv[:3]}
    return bool({"update-initramfs", "mkinitramfs"} & names)


def downloading(running):
    methods = [process for process in running if is_method(process[1])]
    return methods if any(is_apt_install(argv) for _pid, argv in running) else []


def only(test):
    return lambda running: [process for process in running if test(process[1])]


PHASES = {
    "download": downloading,
    "dpkg": only(is_dpkg),
    "pip": only(is_pip),
    "cudnn": only(is_cudnn),
    "module": only(is_module),
    "dkms": only(is_dkms),
    "initramfs": only(is_initramfs),
}


def command_lines(running):
    """The command lines of the run's processes, for the record."""
    tests = (
        is_dpkg, is_module, is_method, is_apt_install, is_pip, is_cudnn, is_dkms, is_initramfs,
    )  # fmt: skip
    return [" ".join(argv)[:100] for _pid, argv in running if any(test(argv) for test in tests)]


def is_released():
    """Is standard input closed, because the harness ended or the run is over?"""
    ready, _, _ = select.select([sys.stdin], [], [], 0)
    return bool(ready) and not os.read(0, 1)


def wait_for(phase, deadline):
    """Waits for processes of a phase and returns them; None after the deadline or release."""
    while time.monotonic() < deadline and not is_released():
        matching = PHASES[phase](processes())
        if matching:
            return matching
        time.sleep(POLL)
    return None


def kill(phase, deadline):
    """Waits for processes of a phase, kills that with the highest pid: {pid, command}, or None."""
    while True:
        matching = wait_for(phase, deadline)
        if matching is None:
            return None
        pid, argv = matching[-1]
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        return {"pid": pid, "command": " ".join(argv)[:200]}


def fill(directory):
    """Fills the disk of `directory`: {bytes, path}. Refuses the machine's own disk."""
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
    matching = []
    if spec["during"] == "signal":
        ready, _, _ = select.select([sys.stdin], [], [], spec["timeout"])
        if not ready or not os.read(0, 100):
            return 3
    else:
        processes_of_phase = wait_for(spec["during"], deadline)
        if processes_of_phase is None:
            return 3
        matching = command_lines(processes_of_phase)
        print(json.dumps({"event": "seen"}), flush=True)
    time.sleep(spec["delay"])
    if is_released():
        return 3
    running = command_lines(processes())
    act = spec["act"]
    hit = {"by": "harness"}
    if act == "fill":
        hit = fill(spec["disk"])
    elif act.startswith("kill-"):
        hit = kill(act[len("kill-") :], deadline)
        if hit is None:
            return 3
    answer = {"event": "struck", "hit": hit, "seen": matching, "running": running}
    print(json.dumps(answer), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(json.loads(sys.argv[1])))
