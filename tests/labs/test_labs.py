"""Golden trees, and one broken lab per error message.

A golden file that differs is either a mistake or a decision; `PROVISION_UPDATE_GOLDEN=1 pytest
tests/labs` writes the new ones, for the commit to show.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from provision import cli, collection, lock
from provision.cli import program
from provision.render import render
from tests.unit.generator import recorded

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"
BROKEN = HERE / "broken"
UPDATE = os.environ.get("PROVISION_UPDATE_GOLDEN") == "1"
COMPARED = ("site.yml", "ansible.cfg", "requirements.txt", "stacks/")


def agree(path: Path, text: str) -> None:
    """The text is the golden file's."""
    if UPDATE:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"differs from {path.relative_to(HERE)}"


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks are made from what was recorded."""
    monkeypatch.setattr("provision.upstream.debian.read", lambda *_a, **_k: recorded.indices())
    answer = recorded.REQUIREMENTS
    monkeypatch.setattr("provision.upstream.wheels.requirements", lambda *_a, **_k: answer)


def run(*arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of one command: the program's, without a process of its own."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["provision", *arguments])
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        for name, value in SCREEN.items():
            patch.setenv(name, value)
        return program._run_app(), out.getvalue(), err.getvalue()


def run_alone(*arguments: str) -> tuple[int, str, str]:
    """The same of a process, as a person starts it."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE.parents[1],
        env={**os.environ, **SCREEN},
    )
    return done.returncode, done.stdout, done.stderr


SCREEN = {"COLUMNS": "200", "NO_COLOR": "1"}
PROGRAM = """\
from provision import cli
from provision.upstream import debian, wheels
from tests.unit.generator import recorded
debian.read = lambda *a, **k: recorded.indices()
wheels.requirements = lambda *a, **k: recorded.REQUIREMENTS
cli.main()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with the golden lab."""
    shutil.copytree(GOLDEN / "lab", tmp_path / "p" / "lab")
    return tmp_path / "p"


def test_the_golden_tree(project: Path) -> None:
    assert run_alone("lock", "--project", str(project))[0] == 0
    code, _out, err = run_alone("render", str(project))
    assert (code, err) == (0, "")
    agree(GOLDEN / "lock.yml", (project / "lock.yml").read_text(encoding="utf-8"))
    found = {
        p.relative_to(project).as_posix()
        for p in project.rglob("*")
        if p.is_file() and p.relative_to(project).as_posix().startswith(COMPARED)
    }
    assert len(found) == 7
    for name in sorted(found):
        agree(GOLDEN / "tree" / name, (project / name).read_text(encoding="utf-8"))


def test_a_second_lock_and_render_change_nothing(project: Path) -> None:
    run("lock", "--project", str(project))
    run("render", str(project))
    before = {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in project.rglob("*") if p.is_file()}
    assert run("lock", "--project", str(project), "--check")[0] == 0
    assert run("render", str(project), "--check")[0] == 0
    assert "unchanged" in run("lock", "--project", str(project))[1]
    assert "0 files new, 0 changed, 0 removed" in run("render", str(project))[1]
    after = {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in project.rglob("*") if p.is_file()}
    assert after == before


def test_check_says_what_would_change_and_writes_nothing(project: Path) -> None:
    code, out, _ = run("lock", "--project", str(project), "--check")
    assert code == 5
    assert "would change" in out
    assert not (project / "lock.yml").exists()
    run("lock", "--project", str(project))
    assert run("render", str(project), "--check")[0] == 5
    assert not (project / "site.yml").exists()


def test_the_users_lab_is_never_written(project: Path) -> None:
    before = {p: p.read_bytes() for p in (project / "lab").rglob("*") if p.is_file()}
    run("lock", "--project", str(project))
    run("render", str(project))
    assert {p: p.read_bytes() for p in (project / "lab").rglob("*") if p.is_file()} == before


def test_an_initial_project_locks_and_renders(tmp_path: Path) -> None:
    """What `init` writes needs no edit to be locked."""
    new = tmp_path / "mylab"
    for arguments in (["init", str(new)], ["lock", "--project", str(new)], ["render", str(new)]):
        code, _, err = run(*arguments)
        assert code == 0, arguments
        # Nobody has asked the hosts yet what they are.
        assert ("is not known; this lock is for them if it is" in err) == (arguments[0] == "lock")
        assert len(err.splitlines()) == (arguments[0] == "lock"), arguments
    code, _, err = run("init", str(new))
    assert code == 2
    assert "is yours" in err


SPOIL = {
    "lock-edited": lambda text: text.replace("2.9.3", "2.9.4"),
    "lock-of-another-format": lambda text: text.replace("format: 1", "format: 7"),
    "lock-with-a-date": lambda text: re.sub(r"size: \d+", "size: 2024-01-01", text, count=1),
    "lock-truncated": lambda text: text[:900],
    "lock-without-row": lambda text: text,
    "needed-by-another": lambda text: text,
}


@pytest.mark.parametrize("name", sorted(p.name for p in BROKEN.iterdir() if p.is_dir()))
def test_a_broken_lab_gets_one_message(name: str, tmp_path: Path) -> None:
    """Exit code and stderr are what expected.txt holds; nothing is written."""
    project = tmp_path / "p"
    (project / "lab").mkdir(parents=True)
    shutil.copy(BROKEN / name / "lab.yml", project / "lab" / "hosts.yml")
    command = ["lock", "--project", str(project)]
    if name in SPOIL or name == "no-lock":
        command = ["render", str(project)]
        if name in SPOIL:
            text = lock.dump(recorded.lock()).decode()
            (project / "lock.yml").write_text(SPOIL[name](text), encoding="utf-8")
    before = sorted(project.rglob("*"))
    code, out, err = run(*command)
    assert out == ""
    assert "Traceback" not in err
    assert sorted(project.rglob("*")) == before
    agree(BROKEN / name / "expected.txt", f"exit {code}\n{err.replace(str(project), 'P')}")


def test_a_warning_can_be_silenced(project: Path) -> None:
    with (project / "lab" / "group_vars" / "gpu_hosts.yml").open("a") as file:
        file.write("cuda_home: /usr/local/cuda\n")
    _, _, err = run("lock", "--project", str(project))
    assert "gpu_hosts.yml:4: cuda_home looks like an option, and there is none" in err
    assert "cuda_home" not in run("lock", "--project", str(project), "--no-prefix-warnings")[2]


def test_a_vaulted_lab_needs_its_password_and_shows_no_secret(project: Path) -> None:
    password = project / "password"
    password.write_text("one\n")
    secret = project / "lab" / "group_vars" / "web.yml"
    secret.write_text("token: s3cret\n")
    vault = [str(Path(sys.executable).parent / "ansible-vault"), "encrypt", str(secret)]
    subprocess.run([*vault, "--vault-password-file", str(password)], check=True)
    code, out, err = run("lock", "--project", str(project))
    assert code == 2
    assert "vault" in err.lower()
    code, out, err = run("lock", "--project", str(project), "--vault-password-file", str(password))
    assert code == 0, err
    assert "s3cret" not in out + err + (project / "lock.yml").read_text()


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole rendered tree, with the golden lab."""
    root = tmp_path_factory.mktemp("tree") / "p"
    shutil.copytree(GOLDEN / "lab", root / "lab")
    for path, data in render(recorded.lock(), collection.read()).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return root


@pytest.mark.parametrize("where", [".", "/"])
def test_ansible_accepts_the_tree_from_any_directory(tree: Path, where: str) -> None:
    program = str(Path(sys.executable).parent / "ansible-playbook")
    done = subprocess.run(
        [program, "--syntax-check", "-i", str(tree / "lab"), str(tree / "site.yml")],
        cwd=tree if where == "." else where,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr.replace("PATH", "")


def test_hosts_without_a_wish_are_never_connected_to(tree: Path) -> None:
    """web01 has an address nobody answers at; a connection to it would be an error."""
    program = str(Path(sys.executable).parent / "ansible-playbook")
    done = subprocess.run(
        [program, "-i", "lab", "site.yml", "--limit", "web01"],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "unreachable=0" in done.stdout or "web01" not in done.stdout.split("RECAP")[-1]


def test_lint_finds_nothing_in_what_is_rendered(tree: Path) -> None:
    program = Path(sys.executable).parent / "ansible-lint"
    assert program.exists(), "ansible-lint belongs to the development environment"
    stacks = sorted(p.relative_to(tree).as_posix() for p in (tree / "stacks").glob("*.yml"))
    command = [program, "--offline", "--nocolor", "--profile", "production", "--strict"]
    done = subprocess.run(
        [*command, "site.yml", "doctor.yml", *stacks],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"},
    )
    # Lint follows into the roles, which have a lint of their own.
    own = ("site.yml", "doctor.yml", "stacks/")
    ours = [line for line in done.stdout.splitlines() if line.startswith(own)]
    assert not ours, done.stdout


def test_help_names_every_command() -> None:
    out = CliRunner().invoke(cli.app, ["--help"]).output
    for command in ("init", "lock", "render", "plan", "apply", "verify", "explain", "lab"):
        assert command in out
    assert "roles" not in out.split("Commands")[-1].replace("roles/", "")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nonsense"], 2, "No such command"),
        (["lock", "--nonsense"], 2, "No such option"),
        (["lock", "--project", "/nonexistent"], 2, "no such project"),
        (["render", "-i", "/nonexistent"], 2, "there is no lock"),
        (["explain", "cuda_profil"], 2, "did you mean cuda_profile"),
        (["--version"], 0, ""),
        (["explain", "cuda_profile"], 0, ""),
    ],
)
def test_exit_codes_of_usage(arguments: list[str], code: int, words: str) -> None:
    found, _, err = run(*arguments)
    assert found == code
    assert words in err


def test_a_fault_of_ours_is_one_line_and_a_file(tmp_path: Path) -> None:
    program = PROGRAM.replace(
        "cli.main()", "cli.projects.read_fleet = lambda *a, **k: 1 / 0\ncli.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "lock", "--project", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE.parents[1],
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1
    (file,) = tmp_path.glob("*.traceback")
    assert "ZeroDivisionError" in file.read_text()
