"""GPUs that a driver does not drive, who uses them, and drivers of others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rule_states import DRIVER, JOB, PRE, State, recorded

WINDOWS = (
    # generation, a card of it, the first branch that drives it, the last
    ("Fermi", "0x06c0", 390, 390),
    ("Kepler", "0x102d", 418, 470),
    ("Maxwell", "0x13c2", 418, 580),
    ("Pascal", "0x15f8", 418, 580),
    ("Volta", "0x1db4", 418, 580),
    ("Turing", "0x1eb8", 418, None),
    ("Ampere", "0x20b0", 450, None),
    ("Ada", "0x2684", 525, None),
    ("Hopper", "0x2330", 525, None),
    ("Blackwell", "0x2b85", 570, None),
)


def bare(found: dict[str, Any]) -> None:
    found["state"]["nvidia_driver"].update(displaced={})


def states() -> Iterator[State]:
    yield from window_states()
    yield from process_states()
    yield from held_states()
    yield from foreign_states()
    yield from way_states()
    yield from people_states()


def window_states() -> Iterator[State]:
    rule = "gpu-driver-window"
    told = {"Hopper": ("gpu-translated",)}
    told |= dict.fromkeys(("Fermi", "Blackwell"), ("gpu-without-code",))
    for name, device, first, last in WINDOWS:
        also = told.get(name, ())
        older = f"a {name} GPU needs driver {first} or newer; the lock says {first - 1}"
        cases: list[tuple[int, tuple[str, ...]]] = [
            (first - 1, (older, "a newer stack")),
            (first, ()),
        ]
        if last is not None:
            newer = f"driver {last} is the last for a {name} GPU; the lock says {last + 1}"
            cases += [(last, ()), (last + 1, (newer, "older driver_branch"))]
        for branch, words in cases:
            yield State(
                rule,
                f"{name} with branch {branch}",
                {"found/gpus/0/device": device, "found/gpus/1/device": device,
                 "row/nvidia_driver/branch": str(branch)},
                words,
                also=also,
            )  # fmt: skip
    yield State(
        rule,
        "one of two GPUs is too new",
        {"found/gpus/1/device": "0x2684"},
        ("a Ada GPU needs driver 525",),
    )
    yield State(rule, "a card that no table knows", {"found/gpus/1/device": "0x0020"})


def process_states() -> Iterator[State]:
    rule = "gpu-processes"
    job = {PRE + "processes": [JOB]}
    yield State(
        rule,
        "somebody trains",
        job,
        ("pid 4711 of ada: python train.py", "nvidia_driver_wait_for_gpu_processes", "none is"),
    )
    second = {"pid": 12, "user": "bob", "command": "jupyter"}
    yield State(
        rule,
        "two people train",
        {PRE + "processes": [JOB, second]},
        ("pid 4711 of ada: python train.py; pid 12 of bob: jupyter",),
    )
    wait = {"options": {"nvidia_driver_wait_for_gpu_processes": 1}}
    yield State(rule, "the run may wait for it", {**job, **wait})
    yield State(rule, "the driver is not changed", job, only=("cuda", "tensorflow"))


def held_states() -> Iterator[State]:
    rule = "held"
    version = recorded()["row"]["nvidia_driver"]["packages"]["userspace"]["libcuda1"]

    def package(found: str, want: str) -> dict[str, Any]:
        return {DRIVER + "packages": {"libcuda1": {"version": found, "want": want,
                                                    "status": "installed"}}}  # fmt: skip

    yield State(
        rule,
        "somebody holds another version",
        package(version + "+b1", "hold"),
        (f"another version: libcuda1 {version}+b1", "apt-mark unhold libcuda1"),
    )
    yield State(rule, "the lock's version is held", package(version, "hold"))
    yield State(rule, "another version is not held", package(version + "+b1", "install"))
    ours = package(version + "+b1", "hold") | {DRIVER + "pins": "ours"}
    yield State(rule, "we hold it ourselves", ours)


def foreign_states() -> Iterator[State]:
    rule = "foreign-driver"
    yield State(
        rule,
        "NVIDIA's metapackage is there",
        {PRE + "foreign": ["cuda-drivers", "nvidia-driver-535"]},
        ("from packages: cuda-drivers, nvidia-driver-535", "purge cuda-drivers nvidia-driver-535"),
    )
    run = {"row/nvidia_driver/source": "runfile"}
    packages = {PRE + "foreign": ["nvidia-driver-535"]}
    yield State(rule, "the .run file's wish: packaged-driver says it", {**packages, **run})
    yield State(rule, "one of the stack's own is there", {PRE + "foreign": ["libcuda1"]})
    yield State(rule, "one of CUDA's own is there", {PRE + "foreign": ["libcublas11"]})
    yield State(
        "runfile-driver",
        "the .run file's uninstaller is there",
        {PRE + "installer": ["/usr/bin/nvidia-uninstall"]},
        ("(/usr/bin/nvidia-uninstall)", "shadow", "nvidia-uninstall (when no GPU process"),
    )
    yield State("runfile-driver", "it is not there", {PRE + "installer": []})


def way_states() -> Iterator[State]:
    """A driver that came another way than the lock's."""
    switch = {"options": {"nvidia_driver_switch": "switch"}}
    rule = "packaged-driver"
    packaged = {DRIVER + "leftovers": {"nvidia-smi": "460.91.03-1", "libcuda1": "460.91.03-1"}}
    run = {"row/nvidia_driver/source": "runfile"}
    words = ("from packages (libcuda1, nvidia-smi)", "apt-get remove libcuda1 nvidia-smi")
    yield State(rule, "the .run file's wish beside packages", {**packaged, **run}, words)
    for number, named in ((4, "(p0, p1, p2, p3)"), (5, "(p0, p1, p2, p3 and 1 more)")):
        many = {DRIVER + "leftovers": {f"p{one}": "1" for one in range(number)}}
        yield State(rule, f"{number} packages", {**many, **run}, (named, f"p{number - 1}"))
    yield State(rule, "there are none", {**run, DRIVER + "leftovers": {}})
    yield State(rule, "the platform's packages are wished for", packaged)
    yield State(rule, "the run may switch", {**packaged, **run, **switch})
    rule = "driver-method"
    there = {DRIVER + "method": "network", DRIVER + "version": "460.91.03"}
    words = ("460.91.03 came from source network, and the lock's driver comes from distribution",
             "keep driver_source: network")  # fmt: skip
    yield State(rule, "our pins say another way", there, words)
    yield State(rule, "they say the lock's", {**there, DRIVER + "method": "distribution"})
    yield State(rule, "nothing is left of it", {**there, DRIVER + "version": None})
    yield State(rule, "the .run file is wished for", {**there, **run})
    yield State(rule, "something is left", {**there, DRIVER + "version": None, **packaged},
                ("libcuda1, nvidia-smi came from source network",))  # fmt: skip
    yield State(rule, "the run may switch", {**there, **switch})


def people_states() -> Iterator[State]:
    """The clock is at Saturday 01:00 on the recorded host."""
    rule = "maintenance-window"

    def window(value: Any) -> dict[str, Any]:
        return {"options": {"gpu_maintenance_window": value}}

    closed = "outside the maintenance window (Sat 22:00-04:00); it is Sat 01:00"
    yield State(rule, "it opens tonight", window("Sat 22:00-04:00"), (closed, "--skip-tags"))
    bad = ("'Sat 22-4' is no maintenance window: expected", "correct gpu_maintenance_window")
    yield State(rule, "it can't be read", window("Sat 22-4"), bad)
    both = "(Sat 22:00-04:00; Sun 01:00-02:00)"
    yield State(rule, "neither is open", window(["Sat 22:00-04:00", "Sun 01:00-02:00"]), (both,))
    yield State(rule, "one is open since yesterday", window("Fri 22:00-04:00"))
    daily = window(["Sat 22:00-04:00", "00:30-01:01"])
    yield State(rule, "one of two is open, and every day", daily)
    others = ("cuda", "tensorflow")
    yield State(rule, "the driver is not changed", window("Sat 22:00-04:00"), only=others)
    present = {
        PRE + "users": [
            {"user": "ada", "at": "pts/0", "from": "192.0.2.7", "idle": 30},
            {"user": "bob", "at": "tty7", "from": None, "idle": 7200},
        ]
    }
    rule = "logged-in"
    who = "ada on pts/0 from 192.0.2.7; bob on tty7, idle for 2 h"
    loaded = {DRIVER + "loaded": "470.256.02"}
    yield State(
        rule,
        "under a loaded driver",
        {**present, **loaded},
        ("the loaded driver would be changed under them: " + who, "nobody is ever logged out"),
    )
    old = {DRIVER + "loaded": "460.91.03"}
    reboot = {"options": {"nvidia_driver_reboot": True}}
    under = {**present, **old, **reboot}
    yield State(rule, "the host would be rebooted", under, ("rebooted under them: " + who,))
    nouveau = {**present, **reboot, DRIVER + "nouveau_loaded": True}
    yield State(rule, "nouveau goes with a reboot", nouveau, ("rebooted under them",))
    yield State(rule, "no driver is loaded", present)
    yield State(rule, "nobody is there", {**old, **reboot})
    yield State(rule, "the driver is not changed", {**present, **loaded}, only=others)
    rule = "logged-in-warning"
    for mode, hint in (("wait", "the run waits for them"), ("ignore", "is ignore")):
        options = {"options": {"nvidia_driver_logged_in_users": mode}}
        yield State(rule, mode, {**present, **loaded, **options}, (who, hint))
    local = {"nvidia_driver_reboot": True, "ansible_connection": "local"}
    alone = {"options": {**local, "nvidia_driver_logged_in_users": "wait"}}
    nouveau = {**present, **alone, DRIVER + "nouveau_loaded": True}
    yield State(rule, "Ansible's own host is not rebooted", nouveau, also=("nouveau",))
    yield State(rule, "they are refused for", {**present, **loaded}, also=("logged-in",))
