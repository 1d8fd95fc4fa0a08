"""`provision kubernetes` as it is typed: what it writes, what it leaves alone, what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from provision import cli, tree
from provision import lock as locks
from tests.unit.kubernetes_files import locked
from tests.unit.kubernetes_files.test_manifests import IMAGE, LOCK, SCRIPT


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "lock.yml").write_bytes(locks.dump(LOCK))
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    (tmp_path / "other.py").write_text(SCRIPT, encoding="utf-8")
    return tmp_path


def run(project: Path, *arguments: str) -> tuple[int, str]:
    """(exit code, what it said, or its error)."""
    done = CliRunner().invoke(cli.app, ["kubernetes", "--project", str(project), *arguments])
    return done.exit_code, str(done.exception) if done.exception else done.output


def files(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*.yaml")}


def test_two_trainings_stand_side_by_side(project: Path) -> None:
    assert run(project)[0] == 0
    for script in ("train", "other"):
        code, output = run(project, "--script", str(project / f"{script}.py"), "--image", IMAGE)
        assert code == 0, output
        assert "kubectl apply --server-side" in output
    folder = project / "kubernetes"
    jobs = {
        f"jobs/{job}/{n}.yaml" for job in ("train", "other") for n in ("job", "tfjob", "script")
    }
    assert {name for name in files(folder) if name.startswith("jobs/")} == jobs
    before = files(folder)
    assert run(project)[0] == 0
    assert files(folder) == before


def test_check_writes_nothing_and_says_what_would_change(project: Path) -> None:
    assert run(project, "--check")[0] == 5
    assert not (project / "kubernetes").exists()
    run(project)
    assert run(project, "--check")[0] == 0


def test_what_a_person_changed_is_kept(project: Path) -> None:
    run(project)
    edited = project / "kubernetes" / "cluster" / "device-plugin.yaml"
    edited.write_text("mine\n", encoding="utf-8")
    run(project)
    assert edited.read_text(encoding="utf-8") != "mine\n"
    assert edited.with_name("device-plugin.yaml.yours").read_text(encoding="utf-8") == "mine\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--script", "nowhere.py", "--image", IMAGE], "nowhere.py: there is no such script"),
        (["--script", "/dev", "--image", IMAGE], "/dev: a directory is where a file should be"),
        (["--workers", "2"], "--workers needs --script FILE"),
        (["--claim", "runs"], "--claim needs --script FILE"),
        (["--stack", "debian12"], "the lock has no such stack"),
    ],
)
def test_what_can_not_be_is_refused_and_nothing_is_written(
    project: Path, arguments: list[str], words: str
) -> None:
    code, output = run(project, *arguments)
    assert code != 0
    assert words in output
    assert not (project / "kubernetes").exists()


def test_a_lock_without_the_toolkit_writes_nothing(project: Path) -> None:
    (project / "lock.yml").write_bytes(locks.dump(locked.lock(toolkit=False)))
    code, output = run(project)
    assert code != 0
    assert "no pod gets a GPU of these hosts" in output
    assert not (project / "kubernetes").exists()


def test_a_folder_of_somebody_s_is_left_alone(project: Path) -> None:
    theirs = project / "kubernetes" / "README.md"
    theirs.parent.mkdir()
    theirs.write_text("mine\n", encoding="utf-8")
    code, output = run(project)
    assert code != 0
    assert "this folder has files of somebody's" in output
    assert list(theirs.parent.iterdir()) == [theirs]


@pytest.mark.parametrize("present", ["lock.yml", "site.yml"])
def test_a_folder_with_a_project_is_refused_and_keeps_its_files(
    project: Path, present: str
) -> None:
    """A rendered tree has a manifest too, by which its files were removed as our own."""
    target = project / "mylab"
    tree.write(target, {"site.yml": b"site", "collections/a.yml": b"a"}, version="0")
    for name in {"lock.yml", "site.yml"} - {present}:
        (target / name).unlink(missing_ok=True)
    (target / present).write_text("theirs", encoding="utf-8")
    before = {path: path.read_bytes() for path in target.rglob("*") if path.is_file()}
    for more in ([], ["--check"]):
        code, output = run(project, str(target), *more)
        assert code != 0
        assert "this folder holds a project" in output
        assert present in output
    assert {p: p.read_bytes() for p in target.rglob("*") if p.is_file()} == before
