"""The table of what runs where, in the terminal and in the docs."""

from __future__ import annotations

import json
import os
from pathlib import Path

from typer.testing import CliRunner

from provision.catalog import load
from provision.catalog.gpus import gpu
from provision.cli import app
from provision.resolve import matrix

PAGE = Path(__file__).parents[3] / "docs" / "catalog.md"


def test_the_page_in_the_docs_is_the_catalogs() -> None:
    """PROVISION_UPDATE_GOLDEN=1 writes it anew."""
    text = matrix.page(load())
    if os.environ.get("PROVISION_UPDATE_GOLDEN"):
        PAGE.write_text(text, "utf-8")
    assert text == PAGE.read_text("utf-8")


def test_a_gpu_takes_away_what_does_not_serve_it() -> None:
    platforms = [row.id for row in load().platforms]

    def cells(*names: str) -> dict[tuple[str, str], str]:
        return {
            (line.release, platform): cell.how
            for line in matrix.lines(load(), [gpu(name) for name in names])
            for platform, cell in zip(platforms, line.cells, strict=True)
        }

    every, kepler = cells(), cells("Tesla K80")
    assert every["2.14", "debian12"] == "debs"
    assert every["2.20", "debian13"] == "wheels"
    assert every["2.9", "ubuntu2004"] == "nvidia"
    assert every["2.6", "debian11"] == "known"
    assert every["2.9", "debian12"] == "no"
    # Debian 12 has no driver that knows a K80.
    assert kepler["2.9", "debian11"] == "debs"
    assert {how for (_, platform), how in kepler.items() if platform == "debian12"} == {"no"}


def test_the_command() -> None:
    result = CliRunner().invoke(app, ["catalog", "--gpu", "B200"])
    assert result.exit_code == 0
    assert "B200: Blackwell, compute capability 10.0, driver branches 570 or newer" in result.output
    assert "no: GPU" in result.output
    assert "wheels" not in result.output.partition("B200:")[0]
    data = json.loads(CliRunner().invoke(app, ["catalog", "--json"]).output)
    (row,) = [row for row in data if row["tensorflow"] == "2.9"]
    assert row["newest"] == "2.9.3"
    assert row["platforms"]["debian11"] == {"how": "debs", "text": "debs 11.2, driver 470"}
