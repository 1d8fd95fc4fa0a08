"""What `bin/activate` of an environment says of its own tree of CUDA."""

from __future__ import annotations

import os
import subprocess
import venv
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.components.tensorflow import activation, activation_file
from gpu_stack.host.context import Context

CUDA = "/usr/local/cuda-11.2"
SHOW = 'echo "$PATH|${LD_LIBRARY_PATH-unset}|${XLA_FLAGS-unset}|${VIRTUAL_ENV-unset}"'


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("venv") / "tf"
    venv.create(place)
    return place / "bin" / "activate"


@pytest.fixture
def activate(pristine: Path) -> Any:
    before = pristine.read_text("utf-8")
    yield pristine
    pristine.write_text(before, "utf-8")


def run(action: str, path: Path, prefix: str) -> bool:
    before, after = activation_file.bring(str(path), prefix, dry=action == "look")
    assert action == "look" or not path.exists() or path.read_text("utf-8") == after
    return bool(before != after)


def shell(program: str, text: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [program, "-ec", text], capture_output=True, text=True, check=True,
        env={"PATH": os.environ["PATH"], **environment},
    )  # fmt: skip
    return done.stdout.splitlines()


@pytest.mark.parametrize("program", ["sh", "bash"])
@pytest.mark.parametrize(
    "before", [{}, {"LD_LIBRARY_PATH": "/mine", "XLA_FLAGS": "--x"}, {"LD_LIBRARY_PATH": ""}]
)
def test_it_is_first_while_active_and_nothing_is_left_of_it(
    activate: Path, program: str, before: dict[str, str]
) -> None:
    assert run("write", activate, CUDA)
    kept = 'echo "${_PROVISION_CUDA-}${_OLD_LD_LIBRARY_PATH-}${_OLD_XLA_FLAGS-}"'
    text = f"{SHOW}; . {activate}; {SHOW}; deactivate; {SHOW}; {kept}"
    first, active, after, left = shell(program, text, **before)
    home = activate.parents[1]
    path, libraries, flags, own = active.split("|")
    assert path == f"{home}/bin:{CUDA}/bin:{os.environ['PATH']}"
    old = f":{before['LD_LIBRARY_PATH']}" if before.get("LD_LIBRARY_PATH") else ""
    assert libraries == f"{CUDA}/lib64:{CUDA}/extras/CUPTI/lib64{old}"
    assert (flags, own) == (f"--xla_gpu_cuda_data_dir={CUDA}", str(home))
    assert after == first
    assert left == ""


def test_one_environment_after_another(activate: Path) -> None:
    """`activate` leaves what is active before it goes on."""
    run("write", activate, CUDA)
    once, twice = shell("bash", f". {activate}; {SHOW}; . {activate}; {SHOW}")
    assert twice == once


def test_a_second_time_nothing_is_written_and_without_a_tree_it_is_as_it_was(
    activate: Path,
) -> None:
    before = activate.read_text("utf-8")
    assert not run("write", activate, "")
    assert run("look", activate, CUDA)
    assert activate.read_text("utf-8") == before
    activate.chmod(0o640)
    assert run("write", activate, CUDA)
    assert activate.stat().st_mode & 0o7777 == 0o640
    assert not run("write", activate, CUDA)
    assert run("write", activate, "/opt/it's cuda")
    assert shell("sh", f". {activate}; {SHOW}")[0].count("/opt/it's cuda/bin") == 1
    assert run("write", activate, "")
    assert activate.read_text("utf-8") == before
    activate.chmod(0o644)


def test_a_file_that_is_not_there_stays_so(
    tmp_path: Path,
) -> None:
    assert not run("write", tmp_path / "activate", CUDA)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("prefix", ["", CUDA, "/opt/it's cuda"])
def test_without_our_lines_it_is_what_it_was(activate: Path, prefix: str) -> None:
    text = activate.read_text("utf-8")
    old = activation.with_blocks(text, "/old")
    for script in (text, old, text.replace(activation.FUNCTION, "f () {"), "x"):
        bare = activation.without_blocks(activation.with_blocks(script, prefix))
        assert bare.rstrip("\n") == activation.without_blocks(script).rstrip("\n")
        assert activation.with_blocks(
            activation.with_blocks(script, prefix), prefix
        ) == activation.with_blocks(script, prefix)


@pytest.mark.parametrize(
    ("there", "cuda", "expected"),
    [
        ("", {}, None),
        ("", {"prefix": CUDA, "source": "network"}, "no CUDA"),
        (CUDA, {"prefix": CUDA, "source": "local"}, None),
        ("/usr/local/cuda-11.8", {"prefix": CUDA, "source": "network"}, "another CUDA"),
        (CUDA, {}, "a CUDA"),
        (CUDA, {"prefix": CUDA}, "a CUDA"),
    ],
)
def test_the_look_tells_what_is_wrong(
    activate: Path, there: str, cuda: dict[str, str], expected: str | None
) -> None:
    activate.write_text(activation.with_blocks(activate.read_text("utf-8"), there), "utf-8")
    context = Context()
    assert activation.fault(context, str(activate.parents[1]), cuda) == expected
    assert activation.fault(context, "/nowhere", cuda) is None
