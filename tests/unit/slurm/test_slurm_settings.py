"""What a controller notes of its settings, and the jobs of a partition that goes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import slurm_controller
from gpu_stack.components.slurm import accounting, controller, paths, records, services
from gpu_stack.host.context import Context, Result
from gpu_stack.host.refusal import RefusalError
from slurm_controller import OPTIONS, OTHER, programs

OTHERS = {**OPTIONS, "slurm_partitions": [{"name": "other"}]}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The controller with a partition named gpu, as a run has brought it."""
    slurm_controller.bring(tmp_path, monkeypatch)
    slurm_controller.bring_munge(tmp_path, monkeypatch)
    monkeypatch.setattr(accounting, "bring", lambda *_words: None)
    controller.present(OPTIONS)
    return tmp_path


def with_a_job(monkeypatch: pytest.MonkeyPatch, partition: str) -> None:
    """From now on slurmctld has a job in this partition."""

    def answers(argv: list[str], *patience: float) -> Result:
        if "squeue" in argv:
            asked = argv[argv.index("-p") + 1].split(",")
            return Result(0, f"7|ada|{partition}|gpu02|RUNNING\n" * (partition in asked), "")
        return programs(argv, *patience)

    monkeypatch.setattr(controller, "run_program", answers)


def refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    """slurmctld takes nothing now."""
    monkeypatch.setattr(services, "answers", lambda _patience: False)


def settings() -> dict[str, Any]:
    seen: dict[str, Any] = records.noted(Context())["settings"]
    return seen


def test_settings_that_slurmctld_does_not_take_are_not_noted(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the next run compares the new ones with themselves, and ends the jobs of a partition."""
    before = settings()
    with monkeypatch.context() as now:
        refuse(now)
        with pytest.raises(RefusalError, match="slurmctld does not take its new configuration"):
            controller.present(OTHERS)
    assert settings() == before
    with_a_job(monkeypatch, "gpu")
    with pytest.raises(RefusalError, match="partition gpu would change under job 7 of ada"):
        controller.present(OTHERS)
    assert "PartitionName=gpu " in Path(paths.SLURM_CONF).read_text()


def test_settings_that_slurmctld_takes_are_noted_once(place: Path) -> None:
    assert controller.present(OTHERS)
    assert settings()["partitions"] == [{"name": "other"}]
    assert not controller.present(OTHERS)


class KilledError(BaseException):
    """The run ends here, as by a power cut."""


def cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wishes for other partitions, and is killed when slurmctld has read them."""

    def killed(_patience: float) -> bool:
        raise KilledError

    with monkeypatch.context() as now:
        now.setattr(services, "answers", killed)
        with pytest.raises(KilledError):
            controller.present(OTHERS)


def another_wish() -> None:
    controller.present(OPTIONS)


def another_node() -> None:
    controller.admitted("gpu03", [{**OTHER, "release": slurm_controller.RELEASE}], "")


@pytest.mark.parametrize("change", [another_wish, another_node])
def test_a_partition_of_a_run_that_was_killed_is_not_taken_from_under_its_jobs(
    place: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[], None]
) -> None:
    cut_off(monkeypatch)
    with_a_job(monkeypatch, "other")
    with pytest.raises(RefusalError, match="partition other would change under job 7 of ada"):
        change()
    assert "PartitionName=other " in Path(paths.SLURM_CONF).read_text()


def test_a_slurmctld_that_is_started_to_be_asked_has_all_partitions_that_may_have_jobs(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_off(monkeypatch)
    monkeypatch.setattr(services, "is_active", lambda _unit: False)
    with_a_job(monkeypatch, "other")
    with pytest.raises(RefusalError, match="partition other would change under job 7 of ada"):
        controller.present(OPTIONS)
    conf = Path(paths.SLURM_CONF).read_text()
    assert [name for name in ("gpu", "other") if f"PartitionName={name} " not in conf] == []
