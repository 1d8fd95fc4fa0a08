"""files/lists.py of the roles that use apt: which source file is to blame, and whether it matters.

One third-party source that did not answer stopped runs, and was named by its address alone.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROLES = Path(__file__).parents[2] / "roles"
USERS = ("nvidia_driver", "cuda", "nvidia_container_toolkit")
SCRIPT = ROLES / USERS[0] / "files" / "lists.py"
spec = importlib.util.spec_from_file_location("lists", SCRIPT)
assert spec is not None
assert spec.loader is not None
script: Any = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)

DEBIAN = "http://deb.debian.org/debian/"
# As `apt-get indextargets` of Debian 11 prints them.
TARGETS = f"""\
/etc/apt/sources.list:1|{DEBIAN}|bullseye|main
/etc/apt/sources.list:3|{DEBIAN}|bullseye-updates|main
/etc/apt/sources.list.d/lab.list:2|https://ada:secret@apt.example.org/debian/|somewhere|main
/etc/apt/sources.list.d/flat.sources:1|http://flat.example.org/x/|./|$(COMPONENT)
/etc/apt/sources.list.d/provision-cuda.sources:1|https://nvidia.example.org/cuda/|/|$(COMPONENT)
"""
LAB = (
    "E: Failed to fetch https://ada:secret@apt.example.org/debian/dists/somewhere/InRelease"
    "  Could not connect to apt.example.org:443. - connect (111: Connection refused)"
)
FLAT = "E: Failed to fetch http://flat.example.org/x/./InRelease  404  Not Found"
UNSIGNED = f"E: The repository '{DEBIAN} bullseye InRelease' is not signed."
MAIN = f"E: Failed to fetch {DEBIAN}dists/bullseye/main/binary-amd64/Packages.xz  503  Busy"
UPDATES = f"E: Failed to fetch {DEBIAN}dists/bullseye-updates/InRelease  503  Busy"
OURS = "E: Failed to fetch https://nvidia.example.org/cuda/InRelease  503  Busy"
NOISE = "E: Some index files failed to download. They have been ignored, or old ones used instead."
LOCKED = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 4711 (apt-get)"


@pytest.mark.parametrize(
    ("errors", "places", "bearable"),
    [
        ([LAB, NOISE], ["/etc/apt/sources.list.d/lab.list:2"], True),
        (
            [LAB, FLAT],
            [
                "/etc/apt/sources.list.d/flat.sources (entry 1)",
                "/etc/apt/sources.list.d/lab.list:2",
            ],
            True,
        ),
        ([UPDATES], ["/etc/apt/sources.list:3"], True),
        ([UNSIGNED, UPDATES], ["/etc/apt/sources.list:1", "/etc/apt/sources.list:3"], False),
        ([MAIN, UPDATES], ["/etc/apt/sources.list:1", "/etc/apt/sources.list:3"], False),
        ([OURS], ["/etc/apt/sources.list.d/provision-cuda.sources (entry 1)"], False),
        ([LAB, "E: Write error - No space left"], ["/etc/apt/sources.list.d/lab.list:2"], False),
        ([LOCKED], [], False),
    ],
)
def test_a_failure_is_traced_to_its_file(
    errors: list[str], places: list[str], bearable: bool
) -> None:
    told = script.words("\n".join(errors))
    assert NOISE not in told
    assert "secret" not in "".join(told)
    suites = ["bullseye", "bullseye-updates"]
    assert script.judge(told, script.entries(TARGETS), suites) == (places, bearable)


def test_the_program_answers_as_the_roles_read_it(tmp_path: Path) -> None:
    """With an apt-get that fails, and that prints its entries when it is asked for them."""
    (tmp_path / "apt-get").write_text(
        "#!/bin/sh\n"
        f"case $1 in indextargets) cat {tmp_path}/targets;;"
        f" *) cat {tmp_path}/errors >&2; exit $(cat {tmp_path}/rc);; esac\n"
    )
    (tmp_path / "apt-get").chmod(0o755)
    (tmp_path / "targets").write_text(TARGETS)

    def answer(rc: int, *errors: str) -> Any:
        (tmp_path / "errors").write_text("".join(line + "\n" for line in errors))
        (tmp_path / "rc").write_text(str(rc))
        done = subprocess.run(
            [sys.executable, "-", "bullseye"], input=SCRIPT.read_text(), capture_output=True,
            text=True, check=True, env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        )  # fmt: skip
        return json.loads(done.stdout)

    good = {"rc": 0, "errors": [], "places": [], "bearable": False, "locked": False}
    assert answer(0) == good
    told = answer(100, LAB)
    assert (told["rc"], told["bearable"], told["locked"]) == (100, True, False)
    assert answer(100, LOCKED)["locked"] is True
    # apt 2.0 calls it a warning and ends with 0.
    assert answer(0, LAB.replace("E: ", "W: "))["places"] == ["/etc/apt/sources.list.d/lab.list:2"]
    assert answer(100)["errors"] == ["apt-get update ended with 100"]


def test_an_apt_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "LONGEST", 0.2)
    code, _out, err = script.run(["sleep", "60"])
    assert code == 124
    assert "took more than" in err


def test_the_roles_have_the_same_program() -> None:
    assert len({(ROLES / role / "files/lists.py").read_bytes() for role in USERS}) == 1
