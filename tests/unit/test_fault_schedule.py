"""What of `make faults` needs no host: the draw, the estimates, the judgement, the tables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.components.tensorflow import pip_install

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import fault_host  # noqa: E402
import fault_run  # noqa: E402
import fault_schedule as drawn  # noqa: E402
import fault_watch as watch  # noqa: E402
import faults  # noqa: E402

NAMES = {
    "driver": ["libcuda1", "nvidia-smi", "libnvidia-ml1"],
    "cuda": [f"libcu{number}" for number in range(20)],
    "leaves": ["nvidia-cuda-toolkit", "nvidia-profiler", "libnvvm4"],
    "wheels": ["numpy", "six", "wrapt", "absl-py"],
}
SEEDS = range(1, 21)
GOLDEN = [
    "network 36% of download driver-all+cuda-holds+archives (3)",
    "module 95% of the run cuda-many+wheels (9)",
    "power 40% of the run driver-few+wheels+archives+lists+pins (6)",
    "disk 76% of cudnn driver-few+cudnn-gone+env-gone (2)",
]


def every_fault() -> list[drawn.Fault]:
    return drawn.schedule(SEEDS, 20, names=NAMES)


# the draw


def test_the_same_seed_gives_the_same_faults() -> None:
    assert drawn.schedule([7], 20, names=NAMES) == drawn.schedule([7], 20, names=NAMES)
    assert drawn.schedule([7], 20, names=NAMES) != drawn.schedule([8], 20, names=NAMES)


def test_this_seed_gives_these_faults() -> None:
    """So that a seed printed last month still means the same: change it only on purpose."""
    shown = [
        f"{fault.kind} {fault.moment} {fault.state}"
        for fault in drawn.schedule([1], 4, names=NAMES)
    ]
    assert shown == GOLDEN


def test_a_fault_does_not_depend_on_what_else_is_asked_for() -> None:
    many = drawn.schedule([3, 4], 20, names=NAMES)
    assert many[20:23] == drawn.schedule([4], 3, names=NAMES)
    assert drawn.draw(4, 2, names=NAMES) == many[21]


def test_names_in_another_order_give_the_same_fault() -> None:
    turned = {kind: list(reversed(names)) for kind, names in NAMES.items()}
    assert drawn.schedule([5], 20, names=turned) == drawn.schedule([5], 20, names=NAMES)


def test_a_redraw_keeps_the_kind_and_moves_the_moment() -> None:
    for fault in drawn.schedule([1], 20, names=NAMES):
        again = drawn.draw(1, fault.number, 1, names=NAMES)
        assert (again.kind, again.variant) == (fault.kind, fault.variant)
        assert again.fraction != fault.fraction
        assert not again.bare, "a redraw from bare would take minutes"


def test_kinds_come_evenly() -> None:
    for seed in SEEDS:
        counts = Counter(fault.kind for fault in drawn.schedule([seed], 20, names=NAMES))
        assert set(counts) == set(drawn.KINDS)
        assert max(counts.values()) - min(counts.values()) <= 1, (seed, counts)


def test_only_the_kinds_asked_for_come() -> None:
    some = drawn.schedule([1], 10, kinds=["power", "dpkg"], names=NAMES)
    assert Counter(fault.kind for fault in some) == {"power": 5, "dpkg": 5}


def test_every_seed_starts_from_bare_once() -> None:
    for seed in SEEDS:
        bare = [fault for fault in drawn.schedule([seed], 20, names=NAMES) if fault.bare]
        assert len(bare) == 1, seed


def test_a_state_makes_the_phase_happen_that_the_fault_waits_for() -> None:
    for fault in every_fault():
        assert fault.during in drawn.PHASES[fault.kind]
        assert 0 <= fault.fraction <= 1
        if fault.bare or fault.during == "run":
            continue
        assert any(fault.during in drawn.WOUNDS[name].phases for name in fault.start), fault
        if fault.during == "download":
            assert "archives" in fault.riders, "nothing would be downloaded"


def test_wounds_are_of_different_components_and_their_picks_are_known() -> None:
    known = {name for names in NAMES.values() for name in names}
    for fault in every_fault():
        components = [drawn.WOUNDS[name].component for name in fault.start if not fault.bare]
        assert len(set(components)) == len(components), fault
        assert set(fault.picked) <= known


def test_every_way_of_every_kind_is_drawn() -> None:
    """A way that no seed ever draws was never tried."""
    faults_drawn = every_fault()
    for kind, ways in drawn.VARIANTS.items():
        assert {fault.variant for fault in faults_drawn if fault.kind == kind} == set(ways)
    for kind, phases in drawn.PHASES.items():
        assert {fault.during for fault in faults_drawn if fault.kind == kind} == set(phases)
    assert {name for fault in faults_drawn for name in fault.start} == {*drawn.WOUNDS, drawn.BARE}
    assert {name for fault in faults_drawn for name in fault.riders} == set(drawn.RIDERS)


def test_every_state_has_its_script_and_every_kind_its_meaning() -> None:
    assert set(fault_host.WOUND_SCRIPTS) == {*drawn.EVERY_WOUND, *drawn.RIDERS}
    assert set(drawn.MEANING) == set(drawn.KINDS) == set(drawn.PHASES)
    assert set(drawn.VARIANTS["network"]) | {"whole"} == set(fault_host.NETWORK_RULES)


def test_a_wound_takes_only_its_own_names() -> None:
    fault = next(
        drawn_fault
        for drawn_fault in every_fault()
        if {"driver-few", "wheels"} <= set(drawn_fault.start)
    )
    lines = fault_host.wounds(fault, NAMES).splitlines()
    (purge,) = [line for line in lines if line.startswith("purge ")]
    (wheels,) = [line for line in lines if "pip uninstall" in line]
    assert set(purge.split()[1:]) <= set(NAMES["driver"])
    assert set(wheels.split("--quiet ")[1].split()) <= set(NAMES["wheels"])
    assert "$PICKED" not in purge + wheels


# the estimates


def test_moments_follow_what_runs_took() -> None:
    estimates = drawn.Estimates()
    before = estimates.phase(["cuda-few"], "dpkg")
    assert 0 < before < estimates.phase(["cuda-few"], "run")
    for _ in range(20):
        estimates.learn(["cuda-few"], {"cuda": 60.0}, 90.0)
    assert estimates.component(["cuda-few"], "cuda") == pytest.approx(60, rel=0.1)
    assert estimates.run(["cuda-few"]) == pytest.approx(90, rel=0.1)
    assert estimates.phase(["cuda-few"], "dpkg") > before


def test_a_component_that_was_not_broken_teaches_nothing() -> None:
    estimates = drawn.Estimates()
    estimates.learn(["wheels"], {"cuda": 60.0}, 90.0)
    assert estimates.factors == {}


# the judgement: each way in which a cure can have failed is NOT


def report(**entry: Any) -> dict[str, Any]:
    good = {"status": "proven", "left": [], "changes": [{"component": "cuda", "item": "x"}]}
    return {"hosts": {"gpu1": good | entry}}


def test_a_proven_host_is_proven() -> None:
    assert drawn.judge(0, report(), "gpu1") == []


@pytest.mark.parametrize(
    ("code", "entry", "expected"),
    [
        (0, None, "wrote no report"),
        (2, report(), "ended with 2"),
        (0, {"hosts": {}}, "does not know the host"),
        (0, report(status="converged"), "the host is converged"),
        (
            2,
            report(status="failed", failure={"task": "t", "message": "no space", "phase": None}),
            "the host is failed: no space",
        ),
        (0, report(left=[{"component": "cuda", "item": "libcublas11"}]), "left: cuda libcublas11"),
    ],
    ids=["no-report", "exit-code", "no-host", "only-converged", "failed", "left"],
)
def test_anything_less_than_proven_is_not(
    code: int, entry: dict[str, Any] | None, expected: str
) -> None:
    assert expected in "; ".join(drawn.judge(code, entry, "gpu1"))


def test_the_run_after_must_change_nothing() -> None:
    nothing = report(status="converged", changes=[])
    assert drawn.judge(0, nothing, "gpu1", again=True) == []
    assert drawn.judge(0, report(), "gpu1", again=True) == ["changed again: cuda x"]
    assert drawn.judge(0, report(status="drift", changes=[]), "gpu1", again=True) != []


def test_a_report_of_an_earlier_run_is_no_report(tmp_path: Path) -> None:
    """A run that died before it wrote must not be judged by its predecessor's."""
    (tmp_path / "report").mkdir()
    path = tmp_path / "report" / "report.json"
    path.write_text(json.dumps(report()), "utf-8")
    os.utime(path, (1, 1))
    run = fault_run.Run.__new__(fault_run.Run)
    run._report, run.started = path, 1000.0
    assert run.report() is None
    os.utime(path, (2000, 2000))
    assert run.report() == report()
    path.write_text(json.dumps({**report(), "unfinished": True}), "utf-8")
    assert run.report() is None


# tables and lines


def result(kind: str, *, proven: bool) -> dict[str, Any]:
    fault = next(candidate for candidate in every_fault() if candidate.kind == kind)
    return {
        "fault": fault.data(),
        "moment": fault.moment,
        "state": fault.state,
        "hit": {"what": "killed dpkg", "task": "cuda : install", "offset": 1.23},
        "wrong": [] if proven else ["left: cuda libcublas11"],
        "proven": proven,
        "cured_in": 12.3,
    }


def test_the_table_counts_by_kind() -> None:
    results = [
        result("dpkg", proven=True),
        result("dpkg", proven=False),
        result("power", proven=True),
    ]
    assert drawn.table(results)[2:] == [
        "| dpkg | kill -9 of dpkg on the host | 2 | 1 |",
        "| power | power-off of the host | 1 | 1 |",
        "| all | | 3 | 2 |",
    ]


def test_a_line_says_how_to_have_it_again() -> None:
    line = faults.line_of(result("dpkg", proven=False))
    assert "seed 1 " in line
    assert "at 'cuda : install' +1.2s" in line
    assert "NOT: left: cuda libcublas11" in line
    assert faults.parse(["--at", "'cuda : install' +1.2s"]).at == ("cuda : install", 1.2)


def test_the_tables_of_records_are_added_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in (1, 2):
        record = {"results": [result("disk", proven=True)]}
        (tmp_path / f"{seed}.json").write_text(json.dumps(record), "utf-8")
    assert faults.main(["--table", *map(str, sorted(tmp_path.glob("*.json")))]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "| all | | 2 | 2 |"


def test_a_record_is_gone_on_with(tmp_path: Path) -> None:
    """What was proven stays; what was not is done again, and is not forgotten."""
    path = tmp_path / "seed{seed}.json"
    arguments = ["--seed", "1", "--seed", "2", "--json", str(path), "--resume"]
    first = faults.Harness(faults.parse(arguments), tmp_path)
    first.results = [result("dpkg", proven=True), result("power", proven=False)]
    first.write()
    assert json.loads((tmp_path / "seed2.json").read_text("utf-8"))["results"] == []

    second = faults.Harness(faults.parse(arguments), tmp_path)
    second.resume()
    assert [(result["fault"]["kind"], result["proven"]) for result in second.results] == [
        ("dpkg", True)
    ]
    assert [(record["fault"]["kind"], record["proven"]) for record in second.earlier] == [
        ("power", False)
    ]
    second.write()
    third = faults.Harness(faults.parse(arguments), tmp_path)
    third.resume()
    assert third.earlier == second.earlier


def test_a_seed_is_picked_where_none_is_given() -> None:
    assert len(faults.parse([]).seed) == 1
    assert faults.parse(["--seed", "3", "--seed", "4"]).seed == [3, 4]


# the watcher: what it takes for which process


def command(text: str) -> list[str]:
    return text.split()


@pytest.mark.parametrize(
    ("phase", "yes", "no"),
    [
        (
            "dpkg",
            "/usr/bin/dpkg --status-fd 21 --no-triggers --unpack --auto-deconfigure --recursive x",
            "dpkg-query --show --unpack",
        ),
        ("dpkg", "/usr/bin/dpkg --configure --pending", "dpkg --audit"),
        ("pip", "/opt/tensorflow/x/bin/python -m pip install --require-hashes", "python -m venv x"),
        ("cudnn", "provision-cudnn", "/usr/bin/python3.9"),
        ("cudnn", "provision-cudnn behind", "/opt/provision-cudnn"),
        ("module", "/usr/bin/python3.9", "/usr/bin/python3.9 -m pip install"),
        ("module", "provision-cudnn", "provision-cudnn behind"),
        ("module", "/usr/bin/python3.9", "provision-cuda behind"),
    ],
)
def test_the_watcher_knows_a_process_of_each_phase(phase: str, yes: str, no: str) -> None:
    assert watch.PHASES[phase]([(1, command(yes)), (2, command(no))]) == [(1, command(yes))]


def test_the_watcher_knows_the_pip_of_an_environment() -> None:
    argv = pip_install.command("/opt/tensorflow/.building-x", "/var/cache/pip")
    assert watch.PHASES["pip"]([(1, argv)]) == [(1, argv)]


def test_fetching_package_lists_is_no_download_of_packages() -> None:
    method = (2, ["/usr/lib/apt/methods/http"])
    assert watch.downloading([(1, command("apt-get --quiet update")), method]) == []
    assert watch.downloading([(1, command("/usr/bin/apt-get -y install x")), method]) == [method]


def test_the_watcher_never_fills_the_disk_of_the_machine(tmp_path: Path) -> None:
    """In a test the root's own file system is at hand: it must be refused."""
    if os.stat("/var").st_dev != os.stat("/").st_dev:
        pytest.skip("/var is a file system of its own here")
    with pytest.raises(SystemExit, match="the machine's own disk"):
        watch.fill("/var")


def test_all_that_descends_from_a_run_is_killed(tmp_path: Path) -> None:
    """A worker of its own process group, and what that has started."""
    script = "setsid sh -c 'sleep 60 & echo $$ $! > pids.new; mv pids.new pids; wait' & wait"
    process = subprocess.Popen(["sh", "-c", script], cwd=tmp_path, start_new_session=True)
    while not (tmp_path / "pids").exists():
        time.sleep(0.02)
    started = {int(pid) for pid in (tmp_path / "pids").read_text().split()}
    assert started <= set(fault_run.kill_tree(process.pid))
    process.wait(10)
    deadline = time.monotonic() + 10
    while any(alive(pid) for pid in started):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
