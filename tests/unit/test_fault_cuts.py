"""What of `make faults --machine vm` needs no machine: the draw, the judgement, the comparison."""

from __future__ import annotations

import base64
import gzip
import hashlib
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import fault_compare as compare  # noqa: E402
import fault_cuts as cuts  # noqa: E402
import fault_host  # noqa: E402
import fault_schedule as drawn  # noqa: E402
import faults  # noqa: E402

NAMES = {
    "leaf": list(cuts.LEAF), "libraries": list(cuts.LIBRARIES), "wheels": ["numpy", "six", "wrapt"]
}  # fmt: skip


def some(count: int = 70) -> list[drawn.Fault]:
    return [cuts.draw(1, number, 0, NAMES) for number in range(1, count + 1)]


def test_each_seven_cuts_are_one_of_each_phase() -> None:
    wounds = {wound: phase for phase, names in cuts.PHASES.items() for wound in names}
    shared = {"env-gone", "cudnn-link"}
    for start in range(1, 64, 7):
        seven = [cuts.draw(3, number, 0, NAMES) for number in range(start, start + 7)]
        phases = {
            fault.variant or wounds[fault.start[0]]
            if fault.start[0] not in shared
            else fault.variant or "configuration"
            for fault in seven
        }
        assert phases == set(cuts.PHASES)


def test_every_wound_is_drawn_and_has_its_script() -> None:
    names = {name for wounds in cuts.PHASES.values() for name in wounds}
    assert {fault.start[0] for fault in some(700)} == names
    for fault in some():
        assert "$PICKED" not in fault_host.wounds(fault, NAMES)
        assert bool(fault.picked) is ("$PICKED" in fault_host.WOUND_SCRIPTS[fault.start[0]])


def test_a_cut_does_not_depend_on_what_else_is_asked_for() -> None:
    assert some(10)[6] == cuts.draw(1, 7, 0, {name: row[::-1] for name, row in NAMES.items()})
    again = cuts.draw(1, 7, 1, NAMES)
    assert (again.during, again.variant) == (some(10)[6].during, some(10)[6].variant)
    assert again.fraction != some(10)[6].fraction


def test_a_cut_at_the_receipt_has_its_moment() -> None:
    for fault in some():
        moment = cuts.moment(fault)
        assert (moment is not None) is (fault.variant == "receipt")
        if moment:
            assert moment[0] == cuts.RECEIPT[0]
            assert 0 <= moment[1] <= cuts.RECEIPT[1]
        assert ("of the receipt" in fault.moment) is (fault.variant == "receipt")


def test_the_task_that_writes_the_receipt_has_the_name_that_is_waited_for() -> None:
    role, _, task = cuts.RECEIPT[0].partition(" : ")
    tasks = yaml.safe_load((ROOT / "roles" / role / "tasks" / "receipt.yml").read_text("utf-8"))
    (written,) = [entry for entry in tasks if entry["name"] == task]
    (file,) = written["provision.gpu.managed_files"]["files"]
    assert file["dest"] == "/var/lib/provision/receipt.json"


def test_the_harness_draws_cuts_for_machines(tmp_path: Path) -> None:
    harness = faults.Harness(faults.parse(["--machine", "vm", "--seed", "1"]), tmp_path)
    harness.names = NAMES
    assert harness.plan() == some(20)
    assert harness.options.workers == 1


# the judgement


def report(**entry: Any) -> dict[str, Any]:
    checks = [{"id": name, "result": "failed"} for name in sorted(cuts.CARD)]
    good = {"status": "failed", "left": [], "changes": [], "checks": checks, "blockers": []}
    return {"hosts": {"vm1": good | entry}}


def test_all_that_a_machine_without_a_card_can_show_is_enough() -> None:
    assert cuts.judge(2, report(), "vm1") == []
    proof = {"component": "receipt", "item": "proof"}
    # A plan has made no check.
    assert cuts.judge(0, report(changes=[proof], checks=[]), "vm1", again=True) == []


@pytest.mark.parametrize(
    ("entry", "again", "expected"),
    [
        ({"checks": []}, False, "no check was made"),
        ({"checks": [{"id": "x", "result": "passed"}]}, False, "failed: "),
        (
            {"checks": [*report()["hosts"]["vm1"]["checks"], {"id": "y", "result": "failed"}]},
            False,
            "failed: nvidia_driver.answers, nvidia_driver.module, y",
        ),
        ({"left": [{"item": "libcufft10"}]}, False, "left: libcufft10"),
        ({"changes": [{"component": "cuda", "item": "x"}]}, True, "changed again: x"),
        ({"blockers": [{"message": "no room"}]}, True, "in the way: no room"),
    ],
    ids=["unproven", "no-card-check", "another", "left", "again", "blocked"],
)
def test_anything_less_is_not(entry: dict[str, Any], again: bool, expected: str) -> None:
    assert expected in "; ".join(cuts.judge(2, report(**entry), "vm1", again=again))


def test_a_run_without_a_report_is_not() -> None:
    assert cuts.judge(1, None, "vm1") == ["the run wrote no report (exit 1)"]
    assert cuts.judge(1, {"hosts": {}}, "vm1") == ["the report does not know the host (exit 1)"]


# the comparison


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of two files, a wheel of two, an image."""
    monkeypatch.setattr(compare, "ROOT", str(tmp_path))
    info, lib, boot = tmp_path / "var/lib/dpkg/info", tmp_path / "usr/lib", tmp_path / "boot"
    site = tmp_path / "opt/tensorflow/current/lib/python3.9/site-packages"
    for folder in (info, lib, boot, site / "six-1.dist-info"):
        folder.mkdir(parents=True)
    sums, rows = "", ""
    for name in ("a", "b"):
        (lib / name).write_text(name)
        sums += f"{hashlib.md5(name.encode()).hexdigest()}  usr/lib/{name}\n"  # noqa: S324
        (site / f"{name}.py").write_text(name)
        value = base64.urlsafe_b64encode(hashlib.sha256(name.encode()).digest()).decode().strip("=")
        rows += f"{name}.py,sha256={value},1\n"
    (info / "nvidia-smi.md5sums").write_text(sums)
    (info / "bash.md5sums").write_text(f"{'0' * 32}  usr/lib/a\n")
    (site / "six-1.dist-info/RECORD").write_text(rows + "six-1.dist-info/RECORD,,\n")
    (boot / "initrd.img-5").write_bytes(gzip.compress(b"image" * 1000))
    return tmp_path


def wrong(tree: Path) -> dict[str, str]:
    return {
        str(Path(path).relative_to(tree)): fault
        for part in (
            compare.packages(compare.first_boot()),
            compare.wheels(compare.first_boot()),
            compare.images(),
        )
        for path, fault in part.items()
        if fault
    }


def test_whole_files_are_no_fault(tree: Path) -> None:
    assert wrong(tree) == {}


def test_what_a_power_cut_leaves_is_named(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "is_diverted", lambda path: path == "/usr/lib/b")
    site = "opt/tensorflow/current/lib/python3.9/site-packages"
    (tree / "usr/lib/a").write_text("")
    (tree / "usr/lib/b").unlink()
    (tree / site / "a.py").write_text("x")
    (tree / site / "b.py").unlink()
    image = tree / "boot/initrd.img-5"
    image.write_bytes(image.read_bytes()[:-9])
    seen = wrong(tree)
    assert "end-of-stream" in seen.pop("boot/initrd.img-5")
    assert seen == {
        "usr/lib/a": "empty", f"{site}/a.py": "other content", f"{site}/b.py": "missing"
    }  # fmt: skip


def test_every_phase_has_its_time() -> None:
    estimates = drawn.Estimates()
    for fault in some(140):
        assert estimates.phase(fault.start, fault.during) > 0


def test_a_file_of_two_wheels_is_one_of_either(tree: Path) -> None:
    site = tree / "opt/tensorflow/current/lib/python3.9/site-packages"
    (site / "other-1.dist-info").mkdir()
    (site / "other-1.dist-info/RECORD").write_text("a.py,sha256=AAAA,1\nc.pyc,sha256=AAAA,1\n")
    (site / "c.pyc").write_text("compiled anew")
    assert wrong(tree) == {}
    (site / "a.py").write_text("neither's")
    assert list(wrong(tree).values()) == ["other content"]


def test_only_what_was_written_since_the_first_boot_is_read(tree: Path) -> None:
    (tree / "usr/lib/a").write_text("")
    mark = tree / "var/lib/lab-host"
    mark.touch()
    time.sleep(0.02)  # the file system's clock ticks every few milliseconds
    (tree / "usr/lib/b").write_text("")
    before, after = ((tree / "usr/lib" / name).stat().st_ctime for name in ("a", "b"))
    os.utime(mark, (0, (before + after) / 2))
    assert wrong(tree) == {"usr/lib/b": "empty"}


def test_a_redrawn_cut_falls_earlier() -> None:
    """The phase that was over is shorter than it was guessed to be."""
    for attempt in range(1, 5):
        redrawn = [cuts.draw(18, number, attempt, NAMES) for number in range(1, 29)]
        assert max(cut.fraction for cut in redrawn) <= 1 / 2**attempt
        assert len({cut.fraction for cut in redrawn}) > 14
