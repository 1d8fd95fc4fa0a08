"""How a controller stops being a node: no job ends, and its GPUs are free then."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import slurm_controller
from gpu_stack.components.slurm import absent, accounting, controller, paths, records, services
from gpu_stack.host.context import Context, Result
from gpu_stack.host.refusal import RefusalError
from slurm_controller import OPTIONS, OTHER, PART, programs

LEAVING = {**OPTIONS, "slurm_compute": False}
OWN = {**PART, "name": "gpu01", "hostname": "ctl", "address": "10.0.0.1"}


class Host:
    """What was done to the controller, and the answer of its squeue."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.jobs = Result(0, "", "")
        self.steps = 0

    def run(self, argv: list[str], *patience: float) -> Result:
        return self.jobs if "squeue" in argv else programs(argv, *patience)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """The controller gpu01, on which jobs run too; gpu03 is another node."""
    slurm_controller.bring(tmp_path, monkeypatch)
    slurm_controller.bring_munge(tmp_path, monkeypatch)
    made = Host()
    monkeypatch.setattr(controller, "run_program", made.run)
    monkeypatch.setattr(absent, "run_program", made.run)
    monkeypatch.setattr(absent, "at_work", lambda _context: made.steps)
    monkeypatch.setattr(absent.jobs, "at_work", lambda _run, _node: ([], "it does not answer"))
    monkeypatch.setattr(absent.node_files, "remove", lambda _: made.calls.append(("files",)))
    monkeypatch.setattr(services, "systemctl", lambda *words: made.calls.append(words))
    monkeypatch.setattr(accounting, "bring", lambda *_words: None)
    Path(paths.PROGRAMS["munge"]).write_text("")
    monkeypatch.setitem(paths.PROGRAMS, "slurmd", paths.PROGRAMS["munge"])
    records.forget_part("gpu02")
    for part in (OWN, OTHER):
        records.keep_part(part)
    records.put(paths.SLURMD_DROP_IN, b"[Service]\n")
    records.put(paths.SLURMD_ENVIRONMENT, b"SLURMD_OPTIONS=\n")
    controller.present(OPTIONS)
    records.note(part=OWN)
    made.calls.clear()
    return made


def nodes() -> list[str]:
    """The nodes of slurm.conf, with the parts that are kept asserted to be the same."""
    lines = Path(paths.SLURM_CONF).read_text().splitlines()
    names = [line.split()[0].partition("=")[2] for line in lines if line.startswith("NodeName=")]
    assert sorted(os.listdir(paths.PARTS)) == [f"{name}.json" for name in names]
    return names


def test_a_controller_that_is_to_run_no_jobs_is_no_node_any_more(host: Host) -> None:
    assert controller.present(LEAVING)
    assert nodes() == ["gpu03"]
    assert host.calls == [("disable", "--now", "slurmd"), ("files",), ("daemon-reload",)]
    assert not os.path.exists(paths.SLURMD_DROP_IN)
    assert not os.path.exists(paths.SLURMD_ENVIRONMENT)
    assert not records.noted(Context())["part"]
    host.calls.clear()
    assert not controller.present(LEAVING)
    assert host.calls == []


def test_one_that_runs_jobs_stays_a_node(host: Host) -> None:
    assert not controller.present(OPTIONS)
    assert (nodes(), host.calls) == (["gpu01", "gpu03"], [])


def test_it_stays_a_node_under_a_job(host: Host) -> None:
    host.jobs = Result(0, "7|ada|gpu|gpu01|RUNNING\n", "")
    with pytest.raises(RefusalError, match="node gpu01 would change under job 7 of ada on gpu01"):
        controller.present(LEAVING)
    assert (nodes(), host.calls) == (["gpu01", "gpu03"], [])


def test_the_only_node_stays_under_a_step_that_slurmctld_does_not_tell(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller.dismissed("gpu03")
    monkeypatch.setattr(services, "is_active", lambda _unit: False)
    host.steps = 1
    with pytest.raises(RefusalError, match=r"1 job steps \(it does not answer\): run again"):
        controller.present(LEAVING)
    assert (nodes(), host.calls) == (["gpu01"], [])
    host.steps = 0
    assert controller.present(LEAVING)
    assert nodes() == []


def test_it_stays_a_node_where_slurmctld_does_not_take_the_configuration_without_it(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "answers", lambda _patience: False)
    with pytest.raises(RefusalError, match="slurmctld does not take its new configuration"):
        controller.present(LEAVING)
    assert (nodes(), host.calls) == (["gpu01", "gpu03"], [])
