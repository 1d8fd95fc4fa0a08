"""Fixtures for the run: a small tree, and the callback's module."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from stub_tree import CALLBACK, Tree, make_tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return make_tree(tmp_path / "tree")


@pytest.fixture(scope="session")
def callback() -> ModuleType:
    """The callback's module, imported from its file as Ansible does."""
    spec = importlib.util.spec_from_file_location("provision_callback_under_test", CALLBACK)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
