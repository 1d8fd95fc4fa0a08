"""A file's text that must be a JSON object: the object, or None for everything else."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_stack.host import mapping
from gpu_stack.training import worker_status


@pytest.mark.parametrize(("text", "content"), [('{"a": [1]}', {"a": [1]}), (" {}\n", {})])
def test_an_object_is_read(text: str, content: dict[str, object]) -> None:
    assert mapping.of(text) == content


@pytest.mark.parametrize(
    "text", [None, "", "null", "[]", '["a"]', '"a"', "1", "true", '{"a": 1', "{} {}", "\0"]
)
def test_anything_else_is_none(text: str | None) -> None:
    """There is no such file, it was cut short, or holds something else."""
    assert mapping.of(text) is None


def test_a_file_of_other_bytes_is_none(tmp_path: Path) -> None:
    """A job's files are the person's own, who may write anything there."""
    file = tmp_path / "state.json"
    file.write_bytes(b'{"a": "\xff"}')
    assert worker_status.content(str(file)) == {}
    assert worker_status.content(str(tmp_path / "none")) == {}
    file.write_bytes(b'{"a": "b"}')
    assert worker_status.content(str(file)) == {"a": "b"}
