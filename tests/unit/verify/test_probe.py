"""The probe as the host runs it: piped to python3, against programs that stand in for NVIDIA's."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from program import SOURCE, probe
from recorded import NVCC, SMI, SMI_LIST

TENSORFLOW = """\
#!/bin/sh
echo "W dso_loader.cc:64] a line of log" >&2
case "$2" in
  *keras*)
    echo "banner"
    echo 'PROVISION {"first": 3.0, "last": 0.1, "cuda": "'$CUDA_VISIBLE_DEVICES'"}';;
  *) echo 'PROVISION {"version": "2.9.3", "gpus": []}';;
esac
"""


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def prints(output: str, rc: int = 0) -> str:
    return f"#!/bin/sh\ncat <<'END'\n{output}END\nexit {rc}\n"


@pytest.fixture
def answer(tmp_path: Path) -> dict[str, Any]:
    """The probe's whole answer on a host with stand-ins in its PATH."""
    folder = tmp_path / "bin"
    smi = f'#!/bin/sh\n[ "$1" = -L ] && cat {tmp_path}/list || cat {tmp_path}/query\n'
    (tmp_path / "list").write_text(SMI_LIST)
    (tmp_path / "query").write_text(SMI)
    program(folder, "nvidia-smi", smi)
    program(folder, "nvcc", prints(NVCC))
    program(
        folder, "systemctl", prints(f"LANG=C.UTF-8\nPATH={folder}:/usr/bin:/bin\nMOOD=$'a b'\n")
    )
    shape = "libcusolver11\t11.1\tii \nold\t1.0\trc \n"
    program(folder, "dpkg-query", prints(shape, 1))
    program(folder, "ldconfig", prints("\tlibz.so.1 (libc6,x86-64) => /somewhere/libz.so.1\n"))
    program(tmp_path / "tensorflow", "current/bin/python", TENSORFLOW)
    other = TENSORFLOW.replace("2.9.3", "2.14.1")
    program(tmp_path / "tensorflow", "2.14.1-eeeeeeee/bin/python", other)
    site = tmp_path / "tensorflow" / "current" / "lib" / "python3.9" / "site-packages"
    for name in ("absl_py-2.3.1", "numpy-1.26.4", "numpy-2.0.2", "Keras_Preprocessing-1.1.2"):
        (site / f"{name}.dist-info").mkdir(parents=True)
    (tmp_path / "cudnn" / "8.1-cuda11.2" / "include").mkdir(parents=True)
    (tmp_path / "cudnn" / "current").symlink_to("8.1-cuda11.2")
    header = "#define CUDNN_MAJOR 8\n#define CUDNN_MINOR 1\n#define CUDNN_PATCHLEVEL 0\n"
    (tmp_path / "cudnn" / "current" / "include" / "cudnn_version.h").write_text(header)
    row = {
        "cuda": {
            "sonames": {"libz.so.1": "zlib1g", "libnothing.so.9": "nothing"},
            "files": {"ptxas": {"path": str(folder / "nvcc"), "package": "x"}},
            "packages": {"runtime": {"libcusolver11": "11.1"}, "toolkit": {"old": "1.0"}},
        },
        "cudnn": {"soname": "libcudnn.so.8"},
        "tensorflow": {"version": "2.9.3"},
        "beside": [
            {"version": "2.14.1", "requirements_sha256": "e" * 64},
            {"version": "2.8.4", "requirements_sha256": "d" * 64},
        ],
    }
    options = {
        "cudnn_root": str(tmp_path / "cudnn"),
        "tensorflow_root": str(tmp_path / "tensorflow"),
        "gpu_env_variables": {"MOOD": "a b"},
    }
    done = subprocess.run(
        [sys.executable, "-", json.dumps({"row": row, "options": options})],
        input=SOURCE,
        capture_output=True,
        text=True,
        env={"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(tmp_path)},
        check=True,
    )
    mark, _, rest = done.stdout.partition(" ")
    assert mark == "PROVISION-PROBE"
    found: dict[str, Any] = json.loads(rest)
    return found


def test_one_call_answers_everything(answer: dict[str, Any], tmp_path: Path) -> None:
    assert answer["nvidia_smi"] == {"rc": 0, "stdout": SMI, "stderr": ""}
    assert answer["nvidia_smi_list"]["stdout"] == SMI_LIST
    assert answer["nvcc"]["ssh"]["stdout"] == NVCC
    assert answer["nvcc"]["systemd"]["stdout"] == NVCC
    assert answer["nvcc"]["cron"]["rc"] == 127
    assert answer["packages"] == {
        "libcusolver11": {"version": "11.1", "status": "ii"},
        "old": {"version": "1.0", "status": "rc"},
    }
    assert answer["files"]["ptxas"]["exists"] is True
    assert answer["cudnn"]["headers"] == "8.1.0"
    assert answer["cudnn"]["loaded"] is None


def test_only_the_wanted_variables_of_each_environment_are_reported(answer: dict[str, Any]) -> None:
    """systemctl quotes a value with blanks; the rest of an environment is nobody's business."""
    assert answer["environment"]["systemd"]["MOOD"] == "a b"
    assert answer["environment"]["ssh"]["MOOD"] is None
    assert set(answer["environment"]["ssh"]) == {"PATH", "XLA_FLAGS", "MOOD"}
    assert set(answer["environment"]) == {"ssh", "login", "cron", "systemd"}


def test_tensorflow_is_asked_twice_and_its_log_kept(answer: dict[str, Any]) -> None:
    tensorflow = answer["tensorflow"]
    assert tensorflow["gpus"]["version"] == "2.9.3"
    assert "a line of log" in tensorflow["gpus"]["log"]
    assert tensorflow["trains"]["cuda"] == "-1"
    assert tensorflow["trains"]["last"] == 0.1


def test_each_environment_beside_is_asked_by_itself(answer: dict[str, Any], tmp_path: Path) -> None:
    there, gone = answer["beside"]
    assert there["gpus"]["version"] == "2.14.1"
    assert there["python"] == f"{tmp_path}/tensorflow/2.14.1-eeeeeeee/bin/python"
    assert there["wheels"] == {}
    python = f"{tmp_path}/tensorflow/2.8.4-dddddddd/bin/python"
    assert gone == {"python": python, "missing": True}
    assert answer["tensorflow"]["gpus"]["version"] == "2.9.3"


def test_wheels_are_named_as_in_the_lock(answer: dict[str, Any]) -> None:
    assert answer["tensorflow"]["wheels"] == {
        "absl-py": ["2.3.1"],
        "keras-preprocessing": ["1.1.2"],
        "numpy": ["1.26.4", "2.0.2"],
    }


def test_a_library_is_the_file_that_the_loader_took(answer: dict[str, Any]) -> None:
    library = answer["libraries"]["libz.so.1"]
    assert library["error"] is None
    assert Path(library["real"]).name.startswith("libz.so.1")
    assert os.path.realpath(library["loaded"]) == library["real"]
    assert library["cached"] == "/somewhere/libz.so.1"


def test_a_library_that_is_missing_has_the_loaders_reason(answer: dict[str, Any]) -> None:
    library = answer["libraries"]["libnothing.so.9"]
    assert library["loaded"] is None
    assert "libnothing.so.9: cannot open shared object file" in library["error"]


def test_a_library_can_be_asked_for_its_version() -> None:
    library = probe.library("libz.so.1", None, {}, "zlibCompileFlags")
    assert int(library["answer"]) > 0
    assert "undefined symbol" in str(
        probe.library("libz.so.1", None, {}, "cudnnGetVersion")["error"]
    )


def test_a_program_that_hangs_is_given_up() -> None:
    assert probe.run(["sleep", "5"], timeout=0.2)["rc"] == 124


def test_a_program_that_cannot_be_killed_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel holds who asks a hung driver: verify waited for ever for it to die."""
    left: list[subprocess.Popen[bytes]] = []
    monkeypatch.setattr(subprocess.Popen, "kill", lambda process: left.append(process))
    started: list[tuple[bytes, bytes]] = []
    end = probe.end
    monkeypatch.setattr(probe, "end", lambda process: started.append(end(process, patience=0.2)))
    assert probe.run(["sleep", "60"], timeout=0.2)["rc"] == 124
    monkeypatch.undo()
    assert started == [(b"", b"")]
    left[0].kill()
    left[0].wait()


def test_no_tensorflow_is_no_crash(tmp_path: Path) -> None:
    assert probe.tensorflow(str(tmp_path))["missing"] is True


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A root with a real environment that holds two libraries, the one in need of the other."""
    venv = tmp_path / "current"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(sys.executable)
    (venv / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\n")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    nvidia = venv / "lib" / version / "site-packages" / "nvidia"
    (nvidia / "cublas" / "lib").mkdir(parents=True)
    (nvidia / "cusolver" / "lib").mkdir(parents=True)
    for folder, name, more in (
        ("cublas", "libcublas.so.12", []),
        ("cusolver", "libacusolver.so.11", [str(nvidia / "cublas" / "lib" / "libcublas.so.12")]),
    ):
        target = str(nvidia / folder / "lib" / name)
        options = ["-shared", f"-Wl,-soname,{name}", "-Wl,--no-as-needed", "-nostdlib"]
        command = ["gcc", *options, "-o", target, "-x", "c", "/dev/null", "-x", "none", *more]
        subprocess.run(command, check=True)
    return tmp_path


NEEDED = ["libacusolver.so.11", "libcublas.so.12"]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
def test_libraries_of_wheels_are_loaded_from_the_environment(environment: Path) -> None:
    """The one in need of the other comes first by name, and is found by the second try."""
    seen = probe.tensorflow(str(environment), NEEDED)["cuda_wheels"]
    assert seen["rc"] == 0, seen
    assert {name: library["error"] for name, library in seen["libraries"].items()} == {
        "libacusolver.so.11": None,
        "libcublas.so.12": None,
    }
    path = seen["libraries"]["libcublas.so.12"]["path"]
    assert path.endswith("/site-packages/nvidia/cublas/lib/libcublas.so.12")
    assert path.startswith(str(environment))


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
def test_a_library_of_a_wheel_that_is_gone_is_named(environment: Path) -> None:
    """And so is the one that needs it; neither is looked for elsewhere on the host."""
    (gone,) = environment.rglob("libcublas.so.12")
    gone.unlink()
    seen = probe.tensorflow(str(environment), [*NEEDED, "libz.so.1"])["cuda_wheels"]["libraries"]
    assert seen["libcublas.so.12"] == {"path": None, "error": None}
    assert seen["libz.so.1"] == {"path": None, "error": None}
    assert "libcublas.so.12: cannot open" in seen["libacusolver.so.11"]["error"]


def test_a_stack_without_wheels_of_cuda_is_not_asked(answer: dict[str, Any]) -> None:
    assert "cuda_wheels" not in answer["tensorflow"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('PATH="/usr/bin:/bin"\nA=1\n', {"PATH": "/usr/bin:/bin", "A": "1"}),
        ("# no\nexport B='x y'\nnonsense\n", {"B": "x y"}),
    ],
)
def test_the_environment_file_is_read_as_pam_reads_it(
    tmp_path: Path, text: str, expected: dict[str, str]
) -> None:
    path = tmp_path / "environment"
    path.write_text(text)
    assert probe.environment_file(str(path)) == expected


def test_an_environment_file_that_root_alone_reads_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have a password; PAM reads it as root all the same."""
    monkeypatch.setattr(probe, "read", lambda _path: None)
    path = tmp_path / "environment"
    assert probe.environment_file(str(path)) == {}
    path.touch()
    assert probe.environment_file(str(path)) is None


def test_pci_functions_of_others_are_left_out(tmp_path: Path) -> None:
    for address, vendor in (("0000:00:01.0", "0x8086"), ("0000:01:00.0", "0x10de")):
        folder = tmp_path / address
        folder.mkdir()
        (folder / "vendor").write_text(vendor + "\n")
        (folder / "class").write_text("0x030200\n")
        (folder / "device").write_text("0x1eb8\n")
    assert probe.pci_functions(str(tmp_path)) == [
        {"address": "0000:01:00.0", "class": "0x030200", "device": "0x1eb8"}
    ]


def test_it_is_python_3_7_and_standard_library_alone() -> None:
    tree = ast.parse(SOURCE, feature_version=(3, 7))
    names = {
        alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    assert names <= set(sys.stdlib_module_names)
    for source in (
        probe.LOADER,
        probe.TENSORFLOW_GPUS,
        probe.TENSORFLOW_TRAINS,
        probe.CUDA_WHEELS,
    ):
        ast.parse(source, feature_version=(3, 6))
