"""What the command line says, and where: found by using it as somebody new would."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from provision import cli
from provision.cli import console, running
from provision.cli.commands.render import _sources_from
from provision.errors import InputError
from provision.render import example

ROOT = Path(__file__).parents[3]


def test_json_is_the_data_whatever_the_text(capsys: pytest.CaptureFixture[str]) -> None:
    """Rich would have made a picture of ":warning:" and colours of "[red]"."""
    data = {"message": ":warning: [red] " + "long " * 40}
    console.print_json(data)
    assert json.loads(capsys.readouterr().out) == data


def test_long_lines_break_between_words_on_a_terminal() -> None:
    pieces = console._broken("    cuda: " + "word " * 20, 40)
    assert max(map(len, pieces)) <= 40
    assert pieces[1].startswith("      word")


def test_what_is_piped_is_never_broken(capsys: pytest.CaptureFixture[str]) -> None:
    line = "word " * 60
    console.say(line, Console(soft_wrap=True, width=40, force_terminal=False))
    assert capsys.readouterr().out.rstrip("\n") == line


def test_a_hosts_answer_does_not_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """A host may call its system "\\x1b]0;..."; `provision discover` printed it raw."""
    console.say("gpu01: \x1b]0;title\x07 \x1b[2Jdebian\u202e", Console(width=200))
    assert capsys.readouterr().out == "gpu01: \\u001b]0;title\\u0007 debian\\u202e\n"


def test_a_misspelt_component_is_refused_with_the_nearest() -> None:
    """Ansible runs nothing for a tag that nothing carries, and calls that success."""
    with pytest.raises(InputError) as caught:
        running.check_tags(["cuda", "cudn"])
    assert "no component 'cudn'" in str(caught.value)
    assert "did you mean cudnn?" in str(caught.value)


def test_ansibles_own_tags_pass() -> None:
    running.check_tags(["all", "always", "verify", "nvidia_driver", "untagged"])


def write_digests(project: Path, of_lock: str, of_tree: str) -> None:
    (project / "stacks").mkdir()
    (project / "lock.yml").write_text(f"---\ngpu_lock:\n  format: 1\n  digest: {of_lock}\n")
    (project / "stacks" / "gpu_lock.yml").write_text(f"---\ngpu_lock:\n  digest: {of_tree}\n")


def test_a_tree_of_another_lock_is_refused(tmp_path: Path) -> None:
    write_digests(tmp_path, "sha256:new", "sha256:old")
    with pytest.raises(InputError, match="rendered from another lock") as caught:
        running.check_fresh(tmp_path)
    assert f"provision render {tmp_path}" in str(caught.value)


def test_a_tree_of_this_lock_passes(tmp_path: Path) -> None:
    write_digests(tmp_path, "sha256:new", "sha256:new")
    running.check_fresh(tmp_path)


def test_the_next_command_names_the_users_own_inventory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mylab/lab").mkdir(parents=True)
    Path("my hosts.ini").touch()
    assert _sources_from(Path("mylab"), None) == "-i lab"
    assert _sources_from(Path("mylab"), ["my hosts.ini", "a,b"]) == "-i '../my hosts.ini' -i a,b"


def test_init_says_each_next_step_and_keeps_reports_out_of_git(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli.app, ["init", str(tmp_path / "mylab")])
    assert done.exit_code == 0
    assert "provision lock" in done.output
    assert "provision render" in done.output
    assert (tmp_path / "mylab" / ".gitignore").read_text() == "/report/\n"


@pytest.mark.parametrize(
    ("theirs", "after"),
    [
        (b"*.pyc\n/vault.txt", b"*.pyc\n/vault.txt\n/report/\n"),
        (b"\xff.bin\n", b"\xff.bin\n/report/\n"),
        (b"report/\n*.pyc\n", b"report/\n*.pyc\n"),
        (b"*.pyc\n/report/", b"*.pyc\n/report/"),
        (b"", b"/report/\n"),
    ],
)
def test_init_in_a_repository_keeps_what_its_gitignore_says(
    tmp_path: Path, theirs: bytes, after: bytes
) -> None:
    (tmp_path / ".gitignore").write_bytes(theirs)
    assert CliRunner().invoke(cli.app, ["init", str(tmp_path)]).exit_code == 0
    assert (tmp_path / ".gitignore").read_bytes() == after
    assert (tmp_path / "lab" / "hosts.yml").exists()


def test_init_says_what_is_there_already(tmp_path: Path) -> None:
    arguments = ["init", str(tmp_path / "mylab")]
    (tmp_path / "mylab").mkdir()
    (tmp_path / "mylab" / "README.md").write_text("mine\n")
    error = CliRunner().invoke(cli.app, arguments).exception
    assert isinstance(error, InputError)
    assert "there is a README.md already" in error.message
    assert "lab/" not in error.message
    (tmp_path / "mylab" / "README.md").unlink()
    assert CliRunner().invoke(cli.app, arguments).exit_code == 0
    error = CliRunner().invoke(cli.app, arguments).exception
    assert isinstance(error, InputError)
    assert "its lab/ is yours" in error.message


def test_every_help_fits_eighty_columns_and_shows_no_type_of_pythons() -> None:
    pages = [[], *([name] for name in commands())]
    pages += [["lab", name] for name in ("up", "down", "sicken", "status")]
    for page in pages:
        done = CliRunner().invoke(cli.app, [*page, "--help"], env={"COLUMNS": "80"})
        assert done.exit_code == 0, page
        assert max(map(len, done.output.splitlines())) <= 80, page
        assert not re.search(r"list\[|int range|[a-z,]\.\.\.$", done.output, re.MULTILINE), page


def commands() -> list[str]:
    return list(typer.main.get_command(cli.app).commands)  # type: ignore[attr-defined]


def test_the_example_inventory_is_what_init_writes() -> None:
    """inventories/lab is copied by people; `python -m provision roles sync` writes it."""
    files = example.render("lab")
    wanted = {path: data for path, data in files.items() if path.startswith("lab/")}
    folder = ROOT / "inventories"
    found = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in (folder / "lab").rglob("*")
        if path.is_file()
    }
    assert found == wanted


def test_no_command_but_report_waits_for_jinja_and_xml() -> None:
    """They are a tenth of the time in which `provision --help` starts."""
    program = "import sys, provision.cli; print({'jinja2', 'xml.etree'} & {*sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout == "set()\n"
