"""What a controller takes of its nodes, and what stays of a node and of its key."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import slurm_controller
from gpu_stack.components.slurm import (
    absent,
    configuration,
    controller,
    key,
    paths,
    records,
    services,
)
from gpu_stack.host.context import Result
from gpu_stack.host.refusal import RefusalError
from slurm_controller import HOST, OPTIONS, OTHER, PART, RELEASE, programs

START = services.start


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    slurm_controller.bring(tmp_path, monkeypatch)
    return tmp_path


def kept() -> dict[str, str]:
    """{part: its text} of what the controller keeps."""
    return {name: Path(paths.PARTS, name).read_text() for name in os.listdir(paths.PARTS)}


def given(part: dict[str, Any], release: str = RELEASE) -> dict[str, Any]:
    return {**part, "release": release}


def test_a_node_is_admitted_with_those_that_come_with_it(place: Path) -> None:
    third = {**PART, "name": "gpu04", "address": "10.0.0.4"}
    seen = controller.admitted("gpu03", [given(OTHER), given(third)], "")
    assert (seen["part"], seen["sealed"]) == (OTHER, "sealed")
    assert sorted(kept()) == ["gpu02.json", "gpu03.json", "gpu04.json"]
    assert "release" not in kept()["gpu03.json"]
    conf = Path(paths.SLURM_CONF).read_text()
    assert [name for name in ("gpu02", "gpu03", "gpu04") if f"NodeName={name} " not in conf] == []


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"hostname": "box State=DOWN"}, "is no name of a host"),
        ({"address": ""}, "is no address of a host"),
        ({"address": "10.0.0.3\nProlog=/tmp/x"}, "is no address of a host"),
        ({"sockets": "2"}, "is no number of processors"),
        ({"memory": -1}, "is no number of processors or of MiB"),
        ({"gpus": [{"type": "t4\nEpilog=/tmp/x", "file": "/dev/nvidia0"}]}, "is no GPU"),
        ({"gpus": [{"type": "t4", "file": "/dev/sda"}]}, "is no GPU"),
        ({"gpus": 1}, "no description of a host"),
        ({"address": "10.0.0.2"}, "10.0.0.2 is the address of gpu02 too"),
    ],
)
def test_what_a_host_says_of_itself_is_not_believed(
    place: Path, changed: dict[str, Any], expected: str
) -> None:
    before = kept()
    with pytest.raises(RefusalError, match="gpu03 can't be a node") as refusal:
        controller.admitted("gpu03", [given({**OTHER, **changed})], "")
    assert expected in str(refusal.value)
    assert kept() == before
    # Whose turn it is not is left out, and stops nobody.
    fourth = {**PART, "name": "gpu04", "address": "10.0.0.4"}
    controller.admitted("gpu04", [given({**OTHER, **changed}), given(fourth)], "")
    assert sorted(kept()) == ["gpu02.json", "gpu04.json"]


def test_two_nodes_may_change_their_addresses(place: Path) -> None:
    records.keep_part(OTHER)
    moved = [{**PART, "address": "10.0.0.3"}, {**OTHER, "address": "10.0.0.2"}]
    seen = controller.admitted("gpu02", [given(part) for part in moved], "")
    assert seen["part"] == moved[0]


def test_a_newer_slurm_than_the_controllers_is_refused(place: Path) -> None:
    with pytest.raises(RefusalError, match=r"it has Slurm 24\.11, and its controller's 22\.05"):
        controller.admitted("gpu03", [given(OTHER, "slurm-wlm 24.11.5")], "")


def test_a_host_that_said_nothing_is_no_node(place: Path) -> None:
    with pytest.raises(RefusalError, match="gpu03 can't be a node: it has not said what it has"):
        controller.admitted("gpu03", [], "")


def test_parts_that_slurmctld_does_not_take_are_not_kept(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the next run asks squeue of a node that slurmctld does not know, and refuses."""
    before = kept()
    monkeypatch.setattr(services, "answers", lambda _patience: False)
    with pytest.raises(RefusalError, match="slurmctld does not take its new configuration"):
        controller.admitted("gpu03", [given(OTHER), given({**PART, "memory": 9000})], "")
    assert kept() == before


@pytest.fixture
def down(place: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """slurmctld is down, and has a job on gpu02; the services that are started."""
    started: list[str] = []

    def programs_with_a_job(argv: list[str], *patience: float) -> Result:
        if "squeue" in argv:
            # Nobody else knows the job.
            return Result(0, "7|ada|gpu|gpu02|RUNNING\n", "") if started else Result(1, "", "down")
        return programs(argv, *patience)

    monkeypatch.setattr(services, "is_active", lambda unit: unit in started)
    monkeypatch.setattr(services, "start", lambda unit, _changed: started.append(unit))
    monkeypatch.setattr(controller, "run_program", programs_with_a_job)
    return started


def with_more_memory() -> None:
    controller.admitted("gpu02", [given({**PART, "memory": 9000})], "")


def with_another_partition() -> None:
    controller.present({**OPTIONS, "slurm_partitions": [{"name": "other"}]})


@pytest.mark.parametrize(
    ("change", "what"),
    [(with_more_memory, "node gpu02"), (with_another_partition, "partition gpu")],
)
def test_a_slurmctld_that_is_down_is_started_and_asked_for_jobs(
    place: Path, down: list[str], change: Callable[[], None], what: str
) -> None:
    before = kept()
    with pytest.raises(RefusalError, match=f"{what} would change under job 7 of ada on gpu02"):
        change()
    assert down == ["slurmctld"]
    assert kept() == before
    conf = Path(paths.SLURM_CONF).read_text()
    assert "RealMemory=4096" in conf
    assert "PartitionName=gpu " in conf


def test_nothing_changes_under_a_slurmctld_that_does_not_start(
    place: Path, down: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = kept()
    monkeypatch.setattr(services, "answers", lambda _patience: False)
    with pytest.raises(RefusalError, match="whether jobs would be ended can't be known: "):
        with_more_memory()
    assert kept() == before


def test_what_ends_no_job_needs_no_slurmctld(place: Path, down: list[str]) -> None:
    """A node that is new; and the last one, which goes where slurmctld can't start."""
    assert controller.admitted("gpu03", [given(OTHER)], "")["changed"]
    assert down == ["slurmctld"]  # with the new configuration
    records.forget_part("gpu03")
    down.clear()
    controller.dismissed("gpu02")
    assert (kept(), down) == ({}, [])


@pytest.mark.parametrize(
    ("missing", "said"),
    [("GRES_CONF", "and has the former one again: "), ("SLURM_CONF", "and had none before: ")],
)
def test_a_file_that_was_missing_keeps_nothing_from_being_restored(
    place: Path, monkeypatch: pytest.MonkeyPatch, missing: str, said: str
) -> None:
    controller.admitted("gpu02", [given(PART)], "")
    conf, removed = Path(paths.SLURM_CONF), Path(getattr(paths, missing))
    former = conf.read_text()
    removed.unlink()
    monkeypatch.setattr(services, "answers", lambda _patience: False)
    with pytest.raises(RefusalError, match=said):
        controller.admitted("gpu03", [given(OTHER)], "")
    if missing == "GRES_CONF":
        assert conf.read_text() == former
        assert not removed.exists()


def test_what_somebody_has_written_is_kept(place: Path) -> None:
    controller.admitted("gpu02", [given(PART)], "")
    conf = Path(paths.SLURM_CONF)
    controller.admitted("gpu03", [given(OTHER)], "")
    assert not Path(paths.SLURM_CONF + ".save").exists()
    edited = conf.read_text() + "KillWait=60\n"
    conf.write_text(edited)
    controller.admitted("gpu03", [given(OTHER)], "")
    assert "KillWait" not in conf.read_text()
    assert Path(paths.SLURM_CONF + ".save").read_text() == edited


def test_what_somebody_has_written_twice_is_kept_twice(place: Path) -> None:
    controller.admitted("gpu02", [given(PART)], "")
    conf, kept_there = Path(paths.SLURM_CONF), []
    for edit in ("KillWait=60\n", "KillWait=90\n"):
        kept_there.append(conf.read_text() + edit)
        conf.write_text(kept_there[-1])
        controller.admitted("gpu02", [given(PART)], "")
    saved = [conf.with_name(f"slurm.conf.save{more}").read_text() for more in (".~1~", "")]
    assert saved == kept_there


def test_what_somebody_has_written_outlives_slurm(
    munge: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(absent, "check", lambda *_words: None)
    monkeypatch.setattr(absent, "run_program", programs)
    monkeypatch.setattr(absent.node_files, "remove", lambda _context: None)
    monkeypatch.setattr(services, "systemctl", lambda *_words: None)
    controller.admitted("gpu02", [given(PART)], "")
    records.put(paths.DBD_CONF, configuration.dbd_conf(HOST).encode() + b"PurgeJobAfter=1month\n")
    edited = Path(paths.SLURM_CONF).read_text() + "KillWait=60\n"
    Path(paths.SLURM_CONF).write_text(edited)
    absent.remove([])
    folder = Path(paths.FOLDER)
    assert sorted(os.listdir(folder)) == ["slurm.conf.save", "slurmdbd.conf.save"]
    assert (folder / "slurm.conf.save").read_text() == edited
    assert "PurgeJobAfter" in (folder / "slurmdbd.conf.save").read_text()


class KilledError(BaseException):
    """The run ends here, as by a power cut."""


def test_a_run_that_was_killed_before_slurmctld_was_restarted_is_cured(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files are as wished then, and slurmctld runs by what it read before."""
    controller.admitted("gpu02", [given(PART)], "")
    started: list[tuple[str, bool]] = []

    def start(unit: str, changed: bool) -> None:
        started.append((unit, changed))
        if len(started) == 1:
            raise KilledError

    monkeypatch.setattr(services, "start", start)
    with pytest.raises(KilledError):
        controller.admitted("gpu03", [given(OTHER)], "")
    assert controller.admitted("gpu03", [given(OTHER)], "")["changed"]
    assert started == [("slurmctld", True)] * 2
    assert not controller.admitted("gpu03", [given(OTHER)], "")["changed"]
    assert len(started) == 2


# munge's key


@pytest.fixture
def munge(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return slurm_controller.bring_munge(place, monkeypatch)


def bring(data: bytes) -> None:
    key.install(data)
    records.have_read("munge")
    records.note(key=records.digest(data))


def test_somebodys_key_is_kept_and_comes_back(munge: Path) -> None:
    bring(b"ours" * 10)
    assert munge.read_bytes() == b"ours" * 10
    assert stat.S_IMODE(os.stat(paths.FORMER_KEY).st_mode) == 0o400
    bring(b"next" * 10)
    assert key.restore()
    assert munge.read_bytes() == b"theirs" * 10
    records.have_read("munge")
    # It is theirs now: nothing is changed again.
    assert not key.restore()


def test_a_run_that_was_killed_before_munge_was_restarted_is_cured(
    munge: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    munge.unlink()
    started: list[tuple[str, ...]] = []

    def systemctl(*words: str) -> None:
        started.append(words)
        if len(started) == 2:
            raise KilledError

    monkeypatch.setattr(services, "start", START)
    monkeypatch.setattr(services, "systemctl", systemctl)
    monkeypatch.setattr(controller.accounting, "bring", lambda *_words: None)
    with pytest.raises(KilledError):
        controller.present(OPTIONS)
    controller.present(OPTIONS)
    assert [words for words in started if "munge" in words] == [
        ("enable", "munge"), ("restart", "munge"), ("enable", "munge"), ("restart", "munge"),
    ]  # fmt: skip
    controller.present(OPTIONS)
    assert started[-1] == ("start", "munge")


def test_the_clusters_key_goes_with_munge(munge: Path) -> None:
    records.note(brought=["munge", "slurmd"])
    bring(b"ours" * 10)
    assert not os.path.exists(paths.FORMER_KEY)
    assert not key.restore()
    Path(paths.PROGRAMS["munge"]).write_text("")
    key.forget()
    assert munge.exists()  # munge is still there
    Path(paths.PROGRAMS["munge"]).unlink()
    key.forget()
    assert not munge.exists()


@pytest.mark.parametrize("mode", [0o400, 0o600])
def test_a_key_comes_back_whatever_the_mode_of_the_clusters(munge: Path, mode: int) -> None:
    bring(b"ours" * 10)
    munge.chmod(mode)
    assert key.restore()
    key.forget()
    assert munge.read_bytes() == b"theirs" * 10
    assert os.listdir(munge.parent) == ["munge.key"]


def test_a_former_key_outlives_the_records_where_another_is_in_its_place(munge: Path) -> None:
    bring(b"ours" * 10)
    munge.chmod(0o600)
    munge.write_bytes(b"third" * 10)
    assert not key.restore()
    absent.forget()
    assert munge.read_bytes() == b"third" * 10
    assert munge.with_name("munge.key.save").read_bytes() == b"theirs" * 10
    assert not os.path.exists(paths.PLACE)


def test_a_key_that_is_not_the_clusters_stays(munge: Path) -> None:
    key.forget()
    assert munge.read_bytes() == b"theirs" * 10
