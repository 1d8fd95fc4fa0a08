"""Fixtures for the run: a small tree, that Ansible can run."""

from __future__ import annotations

from pathlib import Path

import pytest
from stub_tree import Tree, make_tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return make_tree(tmp_path / "tree")
