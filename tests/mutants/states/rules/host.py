"""Other runs, dpkg, and a driver that hangs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rule_states import PRE, State


def bare(found: dict[str, Any]) -> None:
    found["preflight"]["driver_hangs"] = None


def states() -> Iterator[State]:
    yield from running_states()
    yield from dpkg_states()
    yield from signed_states()
    yield from hanging_states()


def running_states() -> Iterator[State]:
    """Another run on this host: at work, cut off, or ended and still cleaning up."""
    running = PRE + "running"
    other = {"who": "alice", "host": "ctrl1", "pid": 1234, "started": "2026-11-21 14:03 UTC"}
    who = "alice on ctrl1 (pid 1234) since 2026-11-21 14:03 UTC"
    rule, at_work = "run-in-progress", f"another run is at work on this host: {who}"
    yield State(rule, "alice's run is at work", {running: other}, (at_work, "wait until it has"))
    held = {running: {**other, "holder": 77}}
    yield State(rule, "a process of hers holds on", held, (at_work, "end process 77 on this host"))
    yield State(rule, "nobody says who", {running: {}}, ("at work on this host: somebody",))
    yield State(rule, "nobody is at work", {running: None})
    rule, cut_off = "run-cut-off", f"a run was cut off here: {who}; "
    for word in ("ended", "silent"):
        state = {running: {**other, word: True}}
        words = (f"{cut_off}nothing has been heard of it", "nothing to do: a run waits")
        yield State(rule, f"her run is {word}", state, words)
    left = {running: {**other, "ended": True, "finishing": "dpkg (pid 9)"}}
    yield State(rule, "her dpkg goes on", left, (f"{cut_off}it waits for dpkg (pid 9)",))
    yield State(rule, "nothing was cut off", {running: None})


def dpkg_states() -> Iterator[State]:
    half = ("apt-get install --reinstall postfix", "package postfix in state half-installed")
    interrupted = ("dpkg-interrupted",)
    rule = "dpkg-broken"

    def left(*packages: tuple[str, str]) -> dict[str, Any]:
        return {PRE + "unfinished": [list(package) for package in packages]}

    yield State(rule, "a stranger is half installed", left(("postfix", "half-installed")), half,
                also=interrupted)  # fmt: skip
    yield State(rule, "one of ours is half installed", left(("libcuda1", "half-installed")),
                also=interrupted)  # fmt: skip
    yield State(rule, "one of CUDA's is half installed", left(("libcublas11", "half-installed")),
                also=interrupted)  # fmt: skip
    yield State(rule, "a stranger is half configured", left(("postfix", "half-configured")),
                also=interrupted)  # fmt: skip
    stranger = left(("postfix", "half-installed"))
    ours = {**stranger, "found/unfinished": True}
    yield State(rule, "our own unfinished run left it", ours, also=interrupted)
    now = {**stranger, PRE + "dpkg_at_work": True}
    yield State(rule, "dpkg is at it just now", now, also=interrupted)
    rule = "dpkg-interrupted"
    two = left(("libc6", "unpacked"), ("postfix", "half-configured"))
    words = ("interrupted (libc6, postfix); it will be finished first", "nothing to do")
    yield State(rule, "dpkg was interrupted", two, words)
    for component in ("nvidia_driver", "cuda"):
        yield State(rule, f"{component} finishes it", two, words[:1], only=(component,))
    yield State(rule, "nobody finishes it", two, only=("cudnn", "gpu_env", "tensorflow"))
    yield State(rule, "dpkg was not interrupted", left())


def signed_states() -> Iterator[State]:
    rule = "signed-by"
    files = ["/etc/apt/sources.list.d/a.list", "/etc/apt/sources.list.d/b.list"]
    conflict = {PRE + "signed_by": [["https://nvidia.example/x86_64", "/", files]]}
    yield State(
        rule,
        "one repository is named with two keys",
        conflict,
        ("apt refuses all work: https://nvidia.example/x86_64 / is named", " and ".join(files)),
    )
    yield State(rule, "TensorFlow alone", conflict, ("apt refuses",), only=("tensorflow",))
    yield State(rule, "every repository has one key", {PRE + "signed_by": []})


def hanging_states() -> Iterator[State]:
    rule, why = "driver-hangs", "nvidia-smi did not answer within 120 s"
    words = (f"the GPU driver hangs: {why}; whoever asks it waits", "`dmesg | grep -E 'NVRM|Xid'`")
    yield State(rule, "nvidia-smi does not end", {PRE + "driver_hangs": why}, words)
    yield State(rule, "nvidia-smi answers", {PRE + "driver_hangs": None})
