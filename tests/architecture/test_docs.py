"""The documentation is tested against the program: a page that lies is worse than none."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from provision import cli, errors, report

ROOT = Path(__file__).parents[2]
# Places of one developer's machine; a path like these helps nobody else.
MACHINE_PATH = re.compile(
    r"(?<![\w./-])/(?:work/|tmp/(?:venv|spec|newcomer)\b|home/(?!you\b|user\b|alice\b|lab\b)\w+/)"
)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def tracked() -> list[Path]:
    """Every file in git, but recorded data, whose paths are its hosts' own."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def pages() -> Iterator[Path]:
    return (path for path in tracked() if path.suffix == ".md")


def commands() -> list[str]:
    """ "init", "lab up" ... as a person types them; hidden ones are for developers."""
    found = []
    for name, command in typer.main.get_command(cli.app).commands.items():  # type: ignore[attr-defined]
        if command.hidden:
            continue
        found += [f"{name} {sub}" for sub in getattr(command, "commands", {})] or [name]
    return found


def test_the_list_of_commands_cuts_no_sentence_off() -> None:
    """What `provision --help` has room for on a terminal of 80 columns."""
    shown = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
    cut = [
        name for name, command in shown.items() if command.get_short_help_str(66).endswith("...")
    ]
    assert cut == []


def codes(text: str) -> set[int]:
    return {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}


def exit_codes() -> set[int]:
    classes = [errors.ProvisionError, *errors.ProvisionError.__subclasses__()]
    return {0, 130, *(cls.exit_code for cls in classes)}


def test_the_readme_names_every_command() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = text.replace("lab up\\|down\\|status", "lab up provision lab down provision lab status")
    missing = [name for name in commands() if f"provision {name}" not in text]
    assert not missing


@pytest.mark.parametrize("page", ["README.md", "docs/run.md"])
def test_a_page_with_exit_codes_has_exactly_the_programs(page: str) -> None:
    assert codes((ROOT / page).read_text(encoding="utf-8")) == exit_codes()


def test_the_report_page_tells_every_status() -> None:
    text = (ROOT / "docs" / "report.md").read_text(encoding="utf-8")
    assert [s for s in report.STATUSES if f"| `{s}` |" not in text] == []


def test_every_page_of_docs_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = [path for path in (ROOT / "docs").rglob("*.md") if path.name != "README.md"]
    missing = [
        str(p) for p in pages if f"]({p.relative_to(ROOT / 'docs').as_posix()})" not in index
    ]
    assert not missing


def test_every_relative_link_leads_somewhere() -> None:
    broken = []
    for page in pages():
        for target in LINK.findall(page.read_text(encoding="utf-8")):
            if re.match(r"[a-z]+:", target) or target.startswith("#"):
                continue
            if not (page.parent / target.partition("#")[0]).exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert not broken


def test_every_path_on_the_map_is_there() -> None:
    """docs/architecture.md says where things are; a file that moves takes its line along."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    parts = {path.name for path in ROOT.iterdir() if path.is_dir()}
    named = {word for word in re.findall(r"`([\w./-]+)`", text) if word.split("/")[0] in parts}
    assert len(named) > 30
    # The component that the page makes up.
    named = {word for word in named if "nccl_tests" not in word}
    assert sorted(word for word in named if not (ROOT / word).exists()) == []


def test_no_file_names_a_place_on_a_developers_machine() -> None:
    found = []
    for path in tracked():
        if path == Path(__file__):
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}: {hit.group()}" for hit in MACHINE_PATH.finditer(text)]
    assert not found


def test_the_pattern_of_machine_paths_knows_one() -> None:
    assert MACHINE_PATH.search("see /" + "work/shared/x")
    assert MACHINE_PATH.search("PYTHON=/tmp/" + "venv/bin/python")
    assert not MACHINE_PATH.search("the network/work/ order")
