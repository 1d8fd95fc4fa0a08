"""Which source file is to blame where apt's package lists do not come, and whether it matters.

One third-party source that did not answer stopped runs, and was named by its address alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.host import package_lists

from tests.collection import ACTIONS, collections, writes_json

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
    seen = package_lists.errors_of("\n".join(errors))
    assert NOISE not in seen
    assert "secret" not in "".join(seen)
    suites = ["bullseye", "bullseye-updates"]
    known = package_lists.entries(TARGETS)
    assert package_lists.judge(seen, known, suites) == (places, bearable)


class Apt:
    """An apt-get that fails as it is told, and prints its entries when it is asked for them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = f"{folder}:{os.environ['PATH']}"
        (folder / "apt-get").write_text(
            "#!/bin/sh\n"
            f"case $1 in indextargets) cat {folder}/targets; exit;; esac\n"
            f'echo "$LC_ALL $*" >> {folder}/calls\n'
            f"cat {folder}/errors >&2; exit $(cat {folder}/rc)\n"
        )
        (folder / "apt-get").chmod(0o755)
        (folder / "targets").write_text(TARGETS)
        self.says(0)

    def says(self, rc: int, *errors: str) -> None:
        (self.folder / "errors").write_text("".join(line + "\n" for line in errors))
        (self.folder / "rc").write_text(str(rc))

    @property
    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Apt:
    made_apt = Apt(tmp_path)
    monkeypatch.setenv("PATH", made_apt.path)
    return made_apt


def test_the_answer_is_as_the_roles_read_it(apt: Apt) -> None:
    assert package_lists.fetch(["bullseye"]) == package_lists.nothing() == {
        "errors": [], "places": [], "bearable": False, "usable": True, "locked": False, "words": "",
    }  # fmt: skip
    assert apt.calls == ["C " + " ".join(package_lists.UPDATE[1:])]

    apt.says(100, LAB)
    answer = package_lists.fetch(["bullseye"])
    assert (answer["bearable"], answer["usable"], answer["locked"]) == (True, True, False)
    assert answer["words"].startswith(
        "In /etc/apt/sources.list.d/lab.list:2: E: Failed to fetch https://apt.example.org/debian/"
    )

    apt.says(100, MAIN)
    answer = package_lists.fetch(["bullseye"])
    assert (answer["bearable"], answer["usable"]) == (False, False)

    # apt 2.0 calls it a warning and ends with 0.
    apt.says(0, LAB.replace("E: ", "W: "))
    answer = package_lists.fetch(["bullseye"])
    assert answer["places"] == ["/etc/apt/sources.list.d/lab.list:2"]
    apt.says(0, MAIN.replace("E: ", "W: "))
    answer = package_lists.fetch(["bullseye"])
    assert (answer["bearable"], answer["usable"]) == (False, True)

    apt.says(100)
    assert package_lists.fetch(["bullseye"])["errors"] == ["apt-get update ended with 100"]


@pytest.mark.parametrize(
    ("unless", "knows", "fetches"),
    [(["make=4.3"], True, False), (["make=4.3"], False, True), ([], True, True)],
)
def test_what_apt_knows_needs_no_new_lists(
    apt: Apt, unless: list[str], knows: bool, fetches: bool
) -> None:
    program = apt.folder / "apt-cache"
    program.write_text(
        f'#!/bin/sh\ntest "$*" = "show make=4.3" || exit 9\nexit {100 - 100 * knows}\n'
    )
    program.chmod(0o755)
    package_lists.settle({"suites": [], "unless": unless, "wait": 0}, check_mode=False)
    assert bool(apt.calls) is fetches


def test_another_apt_is_waited_for(apt: Apt, monkeypatch: pytest.MonkeyPatch) -> None:
    naps: list[float] = []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 2:
            apt.says(0)

    monkeypatch.setattr(package_lists.time, "sleep", sleep)
    apt.says(100, LOCKED)
    assert package_lists.fetch([])["locked"] is True
    assert naps == []
    assert package_lists.fetch([], wait=15)["locked"] is True
    assert naps == [10]
    assert package_lists.fetch([], wait=600) == package_lists.nothing()
    assert naps == [10, 10]


def test_an_apt_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_lists, "LONGEST", 0.2)
    (tmp_path / "apt-get").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    answer = package_lists.fetch([])
    assert answer["usable"] is False
    assert answer["words"] == f"E: {' '.join(package_lists.UPDATE)} took more than 0.2 s"


def play(apt: Apt, *arguments: str, **options: Any) -> tuple[dict[str, Any], str]:
    """(the module's result, what Ansible prints) of one task, with that apt-get."""
    result = apt.folder / "result.json"
    tasks = [
        {"provision.gpu.package_lists": options, "register": "lists", "ignore_errors": True},
        writes_json(result, "{{ lists | to_json }}"),
    ]
    book = apt.folder / "play.yml"
    book.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
    path = apt.folder / "collections"
    done = subprocess.run(
        [
            str(Path(sys.executable).parent / "ansible-playbook"),
            *("-i", "localhost,", "-c", "local", str(book), *arguments),
            *("-e", f"ansible_python_interpreter={sys.executable}"),
        ],
        env={
            **os.environ,
            **ACTIONS,
            "ANSIBLE_COLLECTIONS_PATH": str(path if path.exists() else collections(path)),
        },
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(result.read_text()), done.stdout


def test_the_module_fails_where_another_apt_stays_and_fetches_nothing_in_check_mode(
    apt: Apt,
) -> None:
    apt.says(100, LAB)
    result, output = play(apt, suites=["bullseye"])
    assert (result["changed"], result["failed"], result["bearable"]) == (False, False, True)
    assert "secret" not in output

    before = apt.calls
    result, _output = play(apt, "--check", suites=["bullseye"])
    assert apt.calls == before
    assert (result["changed"], result["usable"], result["words"]) == (False, True, "")

    apt.says(100, LOCKED)
    result, _output = play(apt, wait=1)
    assert result["failed"] is True
    assert result["msg"] == "Another apt is at work. " + LOCKED
