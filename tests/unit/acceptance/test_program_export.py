"""The program export.py, without TensorFlow: who has the GPU open, one after the other.

A card in the compute mode EXCLUSIVE_PROCESS lets one process at a time compute.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import pytest

from tests.collection import PROGRAMS


@pytest.fixture
def export(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The program, with libraries that compute nothing."""
    for library in ("numpy", "tensorflow"):
        monkeypatch.setitem(sys.modules, library, MagicMock())
    monkeypatch.syspath_prepend(str(PROGRAMS.parent))
    yield importlib.import_module(f"{PROGRAMS.name}.export")
    for name in [name for name in sys.modules if name.partition(".")[0] == PROGRAMS.name]:
        del sys.modules[name]


def test_no_other_process_computes_while_the_program_has_the_gpu(
    export: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []

    def ask(_program: str, given: dict[str, Any]) -> tuple[list[dict[str, Any]], None]:
        opened.append(given["part"])
        lite = {"float32": {"error": None, "difference": 0.0}}
        return [{"error": None} if given["part"] == "train" else lite], None

    def devices(_given: dict[str, Any]) -> list[str]:
        opened.append("the program itself")
        return ["/device:GPU:0"]

    loaded = export.tf.saved_model.load.return_value
    loaded.signatures.__getitem__.return_value.return_value.values.return_value = [MagicMock()]
    monkeypatch.setattr(export.children, "ask", ask)
    monkeypatch.setattr(export, "devices", devices)
    monkeypatch.setattr(export, "pictures", lambda _rows: ([], []))
    export.read({"kind": "GPU", "count": 1}, "/scratch")
    assert opened == ["train", "convert", "the program itself"]
    answer = json.loads(capsys.readouterr().out.removeprefix("PROVISION "))
    assert answer["logs"] == {"error": None}
    assert answer["lite"] == {
        "float32": {"error": None, "difference": 0.0},
        # Of which the converter said nothing.
        "mixed_float16": {"error": None, "difference": None},
    }
