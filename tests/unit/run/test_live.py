"""The live view: events in, lines or a table out."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from provision.report import live

COMPONENTS = ["nvidia_driver", "cuda", "cudnn", "gpu_env", "tensorflow"]
MB = 1_000_000


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def start(
    host: str, component: str | None = "cuda", task: str = "cuda : packages | Install"
) -> Any:
    return {
        "event": "host_start",
        "host": host,
        "task": task,
        "component": component,
        "phase": "apply",
    }


def result(host: str, status: str = "ok", **more: Any) -> dict[str, Any]:
    return {
        "event": "host_result",
        "host": host,
        "task": "cuda : packages | Install",
        "component": "cuda",
        "phase": "apply",
        "status": status,
    } | more


def look(host: str, *components: str, **more: Any) -> dict[str, Any]:
    return {
        "event": "plan",
        "host": host,
        "phase": "look",
        "components": list(components),
        "changes": len(components),
    } | more


def progress(host: str, text: str, phase: str = "download", **more: Any) -> dict[str, Any]:
    event = {"event": "progress", "host": host, "component": "cuda", "phase": phase, "text": text}
    return event | more


BEGIN = [
    {"event": "run_start", "components": COMPONENTS},
    {"event": "play", "play": "GPU stack", "hosts": 2},
]


def lines(*events: dict[str, Any], clock: Clock | None = None) -> list[str]:
    """What is written without a terminal."""
    stream = io.StringIO()
    with live.LiveView(Console(file=stream, width=60), clock=clock or Clock()) as view:
        for event in [*BEGIN, *events]:
            view.on_event(event)
    return stream.getvalue().splitlines()


def table(*events: dict[str, Any], height: int = 24, clock: Clock | None = None) -> str:
    """The table as it stands after these events."""
    view = live.LiveView(Console(file=io.StringIO(), height=height), clock=clock or Clock())
    for event in [*BEGIN, *events]:
        view.on_event(event)
    stream = io.StringIO()
    Console(file=stream, width=100).print(view)
    return stream.getvalue()


def row(text: str, host: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(host))


# without a terminal


def test_events_are_plain_lines_and_failures_come_at_once() -> None:
    assert lines(
        look("gpu01", "cuda", simulated_gpu=True, changes=2),
        look("gpu02"),
        start("gpu01"),
        start("gpu01", task="cuda : packages | Hold"),
        result("gpu01", "failed", message="no [network]\nat all"),
        {"event": "something new", "host": "gpu01"},
        {"event": "run_end", "statuses": {"gpu01": "failed", "gpu02": "converged"}},
    ) == [
        "gpu01 (simulated GPU): 2 changes in cuda",
        "gpu02: nothing to change",
        "gpu01: cuda",
        "gpu01 failed in cuda: cuda : packages | Install",
        "  no [network]",
        "  at all",
    ]


def test_a_long_step_has_a_line_when_it_begins_and_then_now_and_again() -> None:
    clock = Clock()
    view_lines = []
    stream = io.StringIO()
    with live.LiveView(Console(file=stream, width=60), clock=clock) as view:
        for event in [*BEGIN, look("gpu01", "cuda"), start("gpu01")]:
            view.on_event(event)
        for second in range(40):
            clock.now = second
            got = (second + 1) * 10 * MB
            view.on_event(progress("gpu01", "downloading packages", bytes=got, total=1000 * MB))
        view.on_event(progress("gpu01", "unpacking libcublas11, 1 of 9", phase="install"))
    view_lines = stream.getvalue().splitlines()[2:]
    assert view_lines == [
        "gpu01: cuda: downloading packages, 10 of 1000 MB (1 %)",
        "gpu01: cuda: downloading packages, 160 of 1000 MB (16 %)",
        "gpu01: cuda: downloading packages, 310 of 1000 MB (31 %)",
        "gpu01: cuda: unpacking libcublas11, 1 of 9",
    ]


def test_many_hosts_have_fewer_such_lines() -> None:
    clock = Clock()
    stream = io.StringIO()
    with live.LiveView(Console(file=stream, width=60), clock=clock) as view:
        for number in range(100):
            view.on_event(look(f"h{number}", "cuda"))
            view.on_event(start(f"h{number}"))
        for second in range(100):
            clock.now = second
            view.on_event(progress("h1", "downloading packages", bytes=(second + 1) * MB))
    assert stream.getvalue().count("downloading") == 1


def test_a_failure_that_a_block_rescues_is_none() -> None:
    found = lines(look("gpu01", "cuda"), result("gpu01", "failed", message="x", rescued=True))
    assert not any("failed" in line for line in found)


def test_an_unreachable_host_comes_with_its_cure() -> None:
    event = result(
        "gpu01", "unreachable", component=None, phase="look", message="Connection refused"
    )
    assert "    cure: the host answers, but no ssh server does at that port" in "\n".join(
        lines(event)
    )


@pytest.mark.parametrize(
    ("phase", "message", "expected"),
    [
        (
            "verify",
            "nvcc is 11.2: NO. it is 10.1\n  cure: run again",
            ["gpu01 is not proven:", "  nvcc is 11.2: NO. it is 10.1", "    cure: run again"],
        ),
        (
            "preflight",
            "Nothing was changed on this host. In the way:\n- no AVX. To do: another CPU\n",
            [
                "gpu01 is blocked: Nothing was changed on this host. In the way:",
                "  - no AVX. To do: another CPU",
            ],
        ),
    ],
)
def test_a_failed_check_and_a_blocked_host_come_at_once_with_every_reason_and_cure(
    phase: str, message: str, expected: list[str]
) -> None:
    event = result("gpu01", "failed", component=None, phase=phase, message=message)
    assert lines(event) == expected


def test_an_interrupt_is_answered_at_once() -> None:
    assert lines({"event": "interrupt"})[0].startswith("Interrupted: stopping.")


def test_who_was_told_is_known_for_the_summary() -> None:
    view = live.LiveView(Console(file=io.StringIO()))
    view.on_event(result("gpu01", "failed", message="x"))
    view.on_event(result("gpu02", "ok"))
    assert view.reported == {"gpu01"}


# on a terminal


def test_a_table_moves_and_the_failure_stands_above_it() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=80, height=12)
    with live.view(console) as view:
        view.on_event({"event": "run_start"})
        assert stream.getvalue() == ""  # Ansible may ask for a password yet
        for event in [*BEGIN, look("gpu01", "cuda"), start("gpu01")]:
            view.on_event(event)
        view.on_event(result("gpu01", "failed", message="no [network]"))
    assert "no [network]" in stream.getvalue()
    assert "in trouble" in stream.getvalue()


def test_each_component_has_its_mark_and_a_long_step_says_how_far_it_is() -> None:
    clock = Clock()
    events = [look("gpu01", *COMPONENTS), start("gpu01", "nvidia_driver"), start("gpu01")]
    view = live.LiveView(Console(file=io.StringIO(), height=24), clock=clock)
    for event in [*BEGIN, *events]:
        view.on_event(event)
    view.on_event(progress("gpu01", "downloading packages", bytes=312 * MB, total=1292 * MB))
    clock.now = 95
    stream = io.StringIO()
    Console(file=stream, width=100).print(view)
    text = stream.getvalue()
    assert row(text, "host").split() == ["host", "driver", "CUDA", "cuDNN", "env", "TF", "now"]
    assert row(text, "gpu01").split()[1:6] == ["✔", "▶", "·", "·", "·"]
    assert " downloading packages, 312 of 1292 MB (24 %), 95 s" in row(text, "gpu01")


def test_a_terminal_without_unicode_has_marks_too() -> None:
    view = live.LiveView(Console(file=io.StringIO(), height=24))
    for event in [*BEGIN, look("gpu01", *COMPONENTS), start("gpu01")]:
        view.on_event(event)
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Console(file=stream, width=100).print(view)
    stream.seek(0)
    assert row(stream.read(), "gpu01").split()[1:4] == [".", ">", "."]


def test_progress_of_a_component_before_is_not_shown_for_the_next() -> None:
    text = table(
        look("gpu01", "cuda", "cudnn"),
        start("gpu01"),
        progress("gpu01", "downloading packages", bytes=MB),
        start("gpu01", "cudnn", "cudnn : look | Look at what is there"),
    )
    assert "downloading" not in text
    assert " Look at what is there" in text


def test_progress_of_a_task_that_is_over_is_not_shown_for_the_next() -> None:
    text = table(
        look("gpu01", "cuda"),
        start("gpu01"),
        progress("gpu01", "setting up libc6, 9 of 9", phase="install"),
        result("gpu01"),
        start("gpu01", task="cuda : hold | Hold the packages"),
    )
    assert "setting up" not in text
    assert "Hold the packages" in text


def test_a_host_waits_for_others_only_where_others_are_at_work() -> None:
    events = [look("gpu01", "cuda"), look("gpu02", "cuda"), start("gpu01"), start("gpu02")]
    assert "waits" in row(table(*events, result("gpu01")), "gpu01")
    assert "waits" not in row(table(*events, result("gpu01"), result("gpu02")), "gpu01")


def test_trouble_stands_first_then_who_is_longest_at_one_step() -> None:
    clock = Clock()
    view = live.LiveView(Console(file=io.StringIO(), height=24), clock=clock)
    for event in BEGIN:
        view.on_event(event)
    for name in ("a-done", "b-quick", "c-slow", "d-bad", "e-waits"):
        view.on_event(look(name, "cuda"))
    view.on_event(start("c-slow"))
    clock.now = 30
    view.on_event(start("b-quick"))
    view.on_event(start("e-waits"))
    view.on_event(result("e-waits"))
    view.on_event(result("d-bad", "failed", message="x"))
    view.on_event({"event": "run_end", "statuses": {"a-done": "proven"}})
    stream = io.StringIO()
    Console(file=stream, width=100).print(view)
    names = [line.split()[0] for line in stream.getvalue().splitlines()[1:6]]
    assert names == ["d-bad", "c-slow", "b-quick", "e-waits", "a-done"]


def test_two_hundred_hosts_fit_and_are_counted() -> None:
    events: list[dict[str, Any]] = [{"event": "play", "hosts": 200}]
    for number in range(150):
        events.append(look(f"h{number:03}", "cuda"))
    events += [result(f"h{number:03}", "failed", message="x") for number in range(40)]
    events += [start(f"h{number:03}") for number in range(40, 90)]
    text = table(*events, height=24)
    found = text.splitlines()
    assert len(found) <= 24
    rows = [line for line in found if line.startswith("h") and not line.startswith("host")]
    bad = [line for line in rows if "failed" in line]
    assert len(rows) == 24 - live.MARGIN
    # Each was told in full when it failed; the table is for those that one waits for.
    assert len(bad) == len(rows) // live.BAD_SHARE
    assert "200 hosts: 40 in trouble, 50 at work, 110 waiting" in text


def test_hosts_in_trouble_have_the_room_that_nobody_else_needs() -> None:
    events = [look(f"h{n:02}", "cuda") for n in range(40)]
    events += [result(f"h{n:02}", "failed", message="x") for n in range(38)]
    assert table(*events, height=24).count("failed") == 17


def test_a_host_that_is_as_locked_is_finished_until_it_is_verified() -> None:
    assert "as locked" in table(look("gpu01"))
    text = table(look("gpu01"), start("gpu01", None, "Verify | Look at what the stack does"))
    assert "as locked" not in text
    assert "Look at what the stack does" in text


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ({"text": "unpacking libc6, 3 of 9"}, "unpacking libc6, 3 of 9"),
        ({"text": "downloading wheels", "bytes": 12 * MB}, "downloading wheels, 12 MB"),
        ({"text": "x", "bytes": 5 * MB, "total": 10 * MB}, "x, 5 of 10 MB (50 %)"),
        # apt's own count may be less than what is there already.
        ({"text": "x", "bytes": 11 * MB, "total": 10 * MB}, "x, 11 MB"),
        ({"text": "x", "bytes": "many"}, "x"),
    ],
)
def test_how_far(event: dict[str, Any], words: str) -> None:
    assert live.how_far(event) == words


@pytest.mark.parametrize(("seconds", "words"), [(95.7, "95 s"), (725, "12 min 5 s")])
def test_durations(seconds: float, words: str) -> None:
    assert live.duration(seconds) == words
