"""Examples for the people who work on the hosts: scripts, and the same as notebooks.

One source: a script whose cells begin with `# %%`, as editors know them. The notebook is made of
it when it is asked for, so the two can't differ. The scripts run on hosts, in TensorFlow's
environment, and are no part of this program.
"""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from provision.errors import InputError

SCRIPTS = Path(__file__).parent / "scripts"
# In the order in which somebody new reads them.
NAMES = (
    "check_gpus",
    "one_gpu",
    "mirrored_strategy",
    "multi_worker",
    "mixed_precision",
    "input_pipeline",
    "checkpoints",
    "export",
    "train_slurm",
)
_CELL = re.compile(r"^# %%(.*)\n", re.MULTILINE)


@dataclass(frozen=True)
class Example:
    """A script's name and text."""

    name: str
    text: str

    @property
    def words(self) -> str:
        """The docstring: a title, an empty line, and what it does."""
        return ast.get_docstring(ast.parse(self.text)) or ""

    @property
    def title(self) -> str:
        return self.words.partition("\n")[0]

    def notebook(self) -> str:
        """The script as a notebook: JSON of nbformat 4."""
        about = self.words.partition("\n")[2].strip()
        cells = [_cell("markdown", f"# {self.title}\n\n{about}")]
        _docstring, *parts = _CELL.split(self.text)
        for kind, body in zip(parts[::2], parts[1::2], strict=True):
            if "[markdown]" in kind:
                cells.append(_cell("markdown", re.sub(r"^# ?", "", body, flags=re.MULTILINE)))
            else:
                cells.append({**_cell("code", body), "execution_count": None, "outputs": []})
        notebook = {
            "cells": cells,
            "metadata": {
                "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
                "language_info": {"name": "python"},
            },
            "nbformat": 4,
            "nbformat_minor": 4,
        }
        return json.dumps(notebook, indent=1) + "\n"

    def file(self, *, notebook: bool) -> tuple[str, str]:
        """(file name, content) as a script or as a notebook."""
        if notebook:
            return f"{self.name}.ipynb", self.notebook()
        return f"{self.name}.py", self.text


def _cell(kind: str, body: str) -> dict[str, Any]:
    return {"cell_type": kind, "metadata": {}, "source": body.strip("\n").splitlines(True)}


def every() -> list[Example]:
    """All examples, in the order in which they are read."""
    return [named(name) for name in NAMES]


def named(name: str) -> Example:
    """An example by its name. Raises InputError."""
    if name not in NAMES:
        raise InputError("no such example", got=name, expected=", ".join(NAMES))
    return Example(name, (SCRIPTS / f"{name}.py").read_text(encoding="utf-8"))
