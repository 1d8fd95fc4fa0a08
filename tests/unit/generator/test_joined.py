"""One program out of a package's modules: what is piped to a host's Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.joined import join

MODULES = {
    "__init__": '"""What it is for.\n\nAnd how."""\n',
    "a": '"""A."""\n\nfrom __future__ import annotations\n\nimport json\n\nfrom .z import N\n\n'
    "# Why.\nprint(json.dumps(N))\n",
    "z": '"""Z."""\n\nfrom __future__ import annotations\n\nimport json\nimport os\n\nN = 3\n',
}


def package(folder: Path, **more: str) -> Path:
    for name, text in (MODULES | more).items():
        (folder / f"{name}.py").write_text(text)
    return folder


def test_what_others_import_from_comes_first_and_comments_stay(tmp_path: Path) -> None:
    assert join(package(tmp_path)) == (
        '"""What it is for.\n\nAnd how."""\n\nfrom __future__ import annotations\n\n'
        "import json\nimport os\n\n\n# --- z\n\nN = 3\n"
        "\n\n# --- a\n\n# Why.\nprint(json.dumps(N))\n"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("N = 4\n", "N is in .* and .*"),
        ("def N():\n    pass\n", "N is in .* and .*"),
        ("from .z import N as M\n", "can't be joined: from .z import N as M"),
        ("from . import z\n", "can't be joined"),
        ("from ..elsewhere import x\n", "can't be joined"),
    ],
)
def test_what_would_mean_something_else_in_one_module_is_refused(
    tmp_path: Path, text: str, why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        join(package(tmp_path, b=text))
