"""TensorFlow's environment from nothing to current, with a Python and a pip that are stand-ins."""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import signal
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.components.tensorflow import (
    cuda_links,
    environment,
    pip_install,
    venv_files,
    venv_place,
    venv_trust,
)
from gpu_stack.components.tensorflow.environment import Environment, RefusedError
from gpu_stack.host import boots
from gpu_stack.host.context import Context

from tests.mapped import mapped

TEXT = "tensorflow==2.9.3 \\\n    --hash=sha256:0\nabsl-py==1.4.0\n"
SHA = hashlib.sha256(TEXT.encode()).hexdigest()
NAME = f"2.9.3-{SHA[:8]}"
SITE = "lib/python3.9/site-packages"
# As `python -I -m venv PLACE`; its python writes what the requirements name, as pip would.
PYTHON = """#!/bin/sh
place=$4
mkdir -p "$place/bin" "$place/lib/python3.9/site-packages"
echo "deactivate () {\n}\nVIRTUAL_ENV=$place" > "$place/bin/activate"
cp {pip} "$place/bin/python"
"""
PIP = """#!/bin/sh
place=${0%/bin/python}
gate={gate}
test ! -e $gate || read line < $gate
for wheel in tensorflow-2.9.3 absl_py-1.4.0; do
    mkdir -p "$place/lib/python3.9/site-packages/$wheel.dist-info"
    : > "$place/lib/python3.9/site-packages/$wheel.dist-info/RECORD"
done
echo "$PROVISION_JOB" > "$place/lib/python3.9/site-packages/tensorflow-2.9.3.dist-info/JOB"
"""
FAILING = "#!/bin/sh\necho 'ERROR: x' >&2\nexit 1\n"


@pytest.fixture(autouse=True)
def who_tests_is_root(monkeypatch: pytest.MonkeyPatch) -> None:
    real = venv_trust.Owner.__init__

    def tester(self: Any, context: Any) -> None:
        real(self, context)
        self.uid, self.groups = os.getuid(), (os.getgid(), 50)

    monkeypatch.setattr(venv_trust.Owner, "__init__", tester)
    monkeypatch.setattr(venv_trust, "_other_interpreters", lambda *_: [])
    # Seconds on a disk that others use.
    monkeypatch.setattr(venv_place, "flush", lambda _path: None)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "opt" / "tensorflow"


@pytest.fixture
def wished(tmp_path: Path, root: Path) -> dict[str, Any]:
    program(tmp_path / "pip", PIP.replace("{gate}", str(tmp_path / "gate")))
    program(tmp_path / "python3.9", PYTHON.replace("{pip}", str(tmp_path / "pip")))
    return {
        "root": str(root), "version": "2.9.3", "python": "3.9", "reinstall": False, "prefix": "",
        "interpreter": str(tmp_path / "python3.9"), "requirements": TEXT,
        "requirements_name": "mine.txt", "requirements_sha256": SHA,
    }  # fmt: skip


def program(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    path.chmod(0o755)
    return path


def of(wished: dict[str, Any], dry: bool = False, **other: Any) -> Environment:
    return Environment(Context(), {**wished, **other}, dry)


def brought(wished: dict[str, Any], **other: Any) -> bool:
    """Whether a run changes something, of the environment and of what is current."""
    here = of(wished, **other)
    changed = bool(here.bring({})["changed"])
    return bool(here.switch(True, [])) or changed


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# a new one


def test_it_is_made_whole_and_current_and_open_to_all(wished: dict[str, Any], root: Path) -> None:
    before = os.umask(0o077)  # as hardened hosts give root
    try:
        assert brought(wished)
    finally:
        os.umask(before)
    assert sorted(os.listdir(root)) == [NAME, "current"]
    assert os.readlink(root / "current") == NAME
    venv = root / NAME
    assert (venv / "requirements.txt").read_text("utf-8") == TEXT
    assert mode(venv / "requirements.txt") == 0o644
    for place in (root.parent, root, venv, venv / "bin", venv / "lib", venv / SITE):
        assert mode(place) == 0o755, place
    for made in (venv / "bin/activate", venv / SITE / "absl_py-1.4.0.dist-info/RECORD"):
        assert mode(made) == 0o644, made
    assert json.loads((venv / ".provision.json").read_text("utf-8")) == {
        "format": 1, "version": "2.9.3", "requirements_sha256": SHA, "python": "3.9"
    }  # fmt: skip
    assert of(wished).look() == {"finished": True, "complete": True, "missing": []}
    assert not brought(wished)


def test_a_new_one_needs_no_comparison_in_this_boot_a_mended_one_does(
    wished: dict[str, Any], root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one that is mended pip has checked the wheels that were missing alone."""
    place = tmp_path / "root" / "cache"
    place.mkdir(parents=True)
    monkeypatch.setattr(boots, "NOTE", str(place / "provision-compared"))
    monkeypatch.setattr(boots, "STATE", str(place))
    monkeypatch.setattr(boots, "_of_root", lambda _context, _info: True)
    venv = str(root / NAME)
    assert boots.due(Context(), venv)
    assert brought(wished)
    assert not boots.due(Context(), venv)
    os.unlink(boots.NOTE)
    (root / NAME / SITE / "absl_py-1.4.0.dist-info/RECORD").unlink()
    (root / NAME / SITE / "absl_py-1.4.0.dist-info").rmdir()
    assert brought(wished)
    assert of(wished).look()["complete"]
    assert boots.due(Context(), venv)


def test_its_cuda_is_named_where_it_is_activated(wished: dict[str, Any], root: Path) -> None:
    here = of(wished, prefix="/usr/local/cuda-11.2")
    here.bring({})
    text = (root / NAME / "bin/activate").read_text("utf-8")
    assert "_PROVISION_CUDA='/usr/local/cuda-11.2'" in text
    assert [
        entry["after_header"] for entry in here.diff if "activate" in entry["after_header"]
    ] != []
    marked = (root / NAME / ".provision.json").stat().st_mtime_ns
    assert (root / NAME / "bin/activate").stat().st_mtime_ns <= marked, "it was touched later"
    assert not of(wished, prefix="/usr/local/cuda-11.2").bring({})["changed"]
    again = of(wished)
    assert again.bring({})["changed"]
    ((before, after),) = [(entry["before"], entry["after"]) for entry in again.diff]
    assert (before, "_PROVISION" in after) == (text, False)


def test_dry_nothing_is_made(wished: dict[str, Any], root: Path) -> None:
    here = of(wished, dry=True)
    assert here.bring({})["changed"]
    assert here.switch(False, [])
    assert not root.parent.exists()
    assert not here.begin({})


def test_what_a_killed_run_has_built_is_in_no_new_one(wished: dict[str, Any], root: Path) -> None:
    (root / f".building-{NAME}" / "lib").mkdir(parents=True)
    (root / f".building-{NAME}" / "lib" / "half").write_text("")
    assert brought(wished)
    assert not (root / NAME / "lib" / "half").exists()


def test_what_could_not_be_made_leaves_nothing(wished: dict[str, Any], tmp_path: Path) -> None:
    program(tmp_path / "pip", FAILING)
    message = "TensorFlow 2.9.3 was not installed: ERROR: x Run again once the cause is gone."
    with pytest.raises(RefusedError, match=message):
        brought(wished)
    assert not Path(wished["root"]).exists()
    Path(wished["root"]).mkdir()
    with pytest.raises(RefusedError):
        brought(wished)
    assert os.listdir(wished["root"]) == [], "a directory that was there stays"


def test_a_python_that_makes_no_environment_is_reported(
    wished: dict[str, Any], tmp_path: Path
) -> None:
    program(tmp_path / "python3.9", "#!/bin/sh\necho no ensurepip\nexit 1\n")
    with pytest.raises(RefusedError, match=r"-I -m venv .*: no ensurepip Run again"):
        brought(wished)
    assert not Path(wished["root"]).exists()


def test_what_is_not_whole_takes_no_place(
    wished: dict[str, Any], root: Path, tmp_path: Path
) -> None:
    assert brought(wished)
    program(tmp_path / "pip", "#!/bin/sh\n")
    with pytest.raises(RefusedError) as error:
        brought(wished, reinstall=True)
    assert str(error.value) == (
        "TensorFlow 2.9.3 was not installed: the new environment is incomplete: absl-py 1.4.0, "
        "tensorflow 2.9.3 The version in use before is still the current one. Run again once the "
        "cause is gone."
    )
    assert sorted(os.listdir(root)) == [NAME, "current"]


# one that is there


def test_a_wheel_of_another_version_is_put_back_in_place(
    wished: dict[str, Any], root: Path, tmp_path: Path
) -> None:
    assert brought(wished)
    venv = root / NAME
    (venv / SITE / "absl_py-1.4.0.dist-info").rename(venv / SITE / "absl_py-2.0.0.dist-info")
    (venv / SITE / "mine.py").write_text("x = 1\n")
    (venv / "pip-unpack-x").mkdir()
    inode = venv.stat().st_ino
    here = of(wished)
    assert here.look() == {"finished": True, "complete": False, "missing": ["absl-py 1.4.0"]}
    # The stand-in of pip does not take the other one out.
    (venv / SITE / "absl_py-2.0.0.dist-info").rename(tmp_path / "old")
    assert here.bring({}) == {"changed": True, "kept": []}
    assert (venv.stat().st_ino, (venv / SITE / "mine.py").exists()) == (inode, True)
    assert not (venv / "pip-unpack-x").exists()
    assert of(wished).look()["complete"]


def test_a_list_of_wheels_that_was_changed_is_written_again(
    wished: dict[str, Any], root: Path
) -> None:
    assert brought(wished)
    (root / NAME / "requirements.txt").write_text("mine\n")
    assert of(wished).look() == {"finished": True, "complete": False, "missing": []}
    assert brought(wished)
    assert of(wished).look()["complete"]


def write_for_all(venv: Path) -> None:
    (venv / "bin").chmod(0o777)


def unmark(venv: Path) -> None:
    (venv / ".provision.json").unlink()


def remark(venv: Path) -> None:
    (venv / ".provision.json").write_text('{"format": 2}')


def without_python(venv: Path) -> None:
    (venv / "bin/python").unlink()


@pytest.mark.parametrize("damage", [write_for_all, unmark, remark, without_python])
def test_one_that_is_not_to_be_trusted_is_made_anew_and_what_people_put_in_is_kept(
    wished: dict[str, Any], root: Path, damage: Callable[[Path], None]
) -> None:
    assert brought(wished)
    (root / NAME / "weights.h5").write_text("x")
    damage(root / NAME)
    assert not of(wished).look()["finished"]
    kept = root / f"{NAME}.save"
    assert of(wished).bring({})["kept"] == [str(kept)]
    assert (kept / "weights.h5").exists()
    assert of(wished).look()["complete"]


def test_what_a_killed_run_has_left_goes(wished: dict[str, Any], root: Path) -> None:
    assert brought(wished)
    (root / f".building-{NAME}/x").mkdir(parents=True)
    here = of(wished, dry=True)
    assert here.bring({})["changed"]
    assert brought(wished)
    assert sorted(os.listdir(root)) == [NAME, "current"]
    assert not brought(wished)


@pytest.mark.parametrize("place", ["", "bin", "lib", "lib/python3.9", SITE])
def test_a_closed_directory_is_opened(wished: dict[str, Any], root: Path, place: str) -> None:
    assert brought(wished)
    (root / NAME / place).chmod(0o700)
    assert of(wished, dry=True).bring({})["changed"]
    assert mode(root / NAME / place) == 0o700
    assert brought(wished)
    assert mode(root / NAME / place) == 0o755
    assert not brought(wished)


def test_the_directory_of_all_is_given_back_to_root(wished: dict[str, Any], root: Path) -> None:
    assert brought(wished)
    root.chmod(0o1777)
    assert brought(wished)
    assert mode(root) == 0o1755
    assert not brought(wished)


# refusals


def test_requirements_that_are_not_those_of_the_wish_are_refused(wished: dict[str, Any]) -> None:
    of(wished).check()
    with pytest.raises(RefusedError) as error:
        of(wished, requirements=TEXT + "#\n").check()
    other = hashlib.sha256((TEXT + "#\n").encode()).hexdigest()
    assert str(error.value) == (
        f"mine.txt has SHA-256 {other}, but tensorflow_requirements_sha256 says {SHA}: they were "
        "not made together."
    )
    with pytest.raises(RefusedError, match=r"^mine.txt does not pin tensorflow==2\.9\.4\.$"):
        of(wished, version="2.9.4").check()
    text = TEXT.replace("tensorflow==", "tensorflow-cpu==")
    sha = hashlib.sha256(text.encode()).hexdigest()
    with pytest.raises(RefusedError, match="does not pin"):
        of(wished, requirements=text, requirements_sha256=sha).check()


def test_a_way_that_others_may_change_is_refused(
    wished: dict[str, Any], root: Path, tmp_path: Path
) -> None:
    root.parent.mkdir()
    root.parent.chmod(0o777)
    for act in (of(wished).look, lambda: of(wished).bring({}), lambda: of(wished).begin({})):
        with pytest.raises(RefusedError) as error:
            act()
        assert str(error.value) == (
            f"{root.parent} is writable for all: who may write there can put anything in the place "
            f"of {root}. Give it to root alone (chown root, chmod go-w), or set tensorflow_root to "
            "a directory that is. Nothing was touched."
        )
    assert not root.exists()


def test_one_that_is_in_use_is_left_alone(wished: dict[str, Any], root: Path) -> None:
    assert brought(wished)
    library = root / NAME / SITE / "core.so"
    library.write_bytes(b"\x7fELF" * 2000)
    (root / f".building-{NAME}").mkdir()
    with mapped(library) as job:
        message = (
            rf"{NAME} would be changed, and is in use by pid {job.pid} \(.*\)\. Run again when "
            "they have ended; none is ever ended for you. Nothing was touched."
        )
        for act in (
            lambda environment: environment.bring({}),
            lambda environment: environment.begin({}),
        ):
            with pytest.raises(RefusedError, match=message):
                act(of(wished, reinstall=True))
        assert (root / f".building-{NAME}").exists()
        # A complete one is not changed, and asks nobody.
        assert brought(wished)


def test_who_tests_it_is_no_user_of_it(wished: dict[str, Any], root: Path) -> None:
    """The module's own process may have files of it open, as where its Python is the host's."""
    assert brought(wished)
    library = root / NAME / SITE / "core.so"
    library.write_bytes(b"\x7fELF" * 2000)
    with library.open("rb") as stream, mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ):
        of(wished).refuse_in_use()


@pytest.mark.parametrize(
    ("text", "needs", "room"),
    [(TEXT, "4.0", 1 << 32), ("nvidia-cudnn==8\n" + TEXT, "11.0", 11 << 30)],
)
def test_a_filesystem_that_is_too_small_is_refused(
    wished: dict[str, Any], monkeypatch: pytest.MonkeyPatch, text: str, needs: str, room: int
) -> None:
    monkeypatch.setattr(Context, "disk_free", lambda _self, _path: room - 1)
    with pytest.raises(RefusedError) as error:
        brought(wished, requirements=text)
    assert str(error.value) == (
        f"{wished['root']} has {needs} GiB free; TensorFlow 2.9.3 needs {needs} GiB while it is "
        "being installed. Make room, or set tensorflow_root to another filesystem. The venv was "
        "not touched."
    )
    assert not Path(wished["root"]).exists()
    monkeypatch.setattr(Context, "disk_free", lambda _self, _path: room)
    cudnn = "nvidia-cudnn 8" if "nvidia" in text else None  # the stand-in of pip brings none
    with pytest.raises(RefusedError, match=cudnn) if cudnn else contextlib.nullcontext():
        brought(wished, requirements=text)


# behind other tasks


@pytest.fixture
def job(tmp_path: Path) -> str:
    return str(tmp_path / "run" / "tensorflow")


def test_pip_runs_behind_and_the_role_takes_up_its_result(
    wished: dict[str, Any], root: Path, tmp_path: Path, job: str
) -> None:
    os.mkfifo(tmp_path / "gate")
    assert of(wished).begin({}, job)
    assert not (root / NAME).exists()
    # Another one is begun meanwhile: it is done in its own turn.
    assert not of(wished, root=f"{root}.other").begin({}, job)
    (tmp_path / "gate").write_text("now\n")
    assert of(wished).bring({}, True, job) == {"changed": True, "kept": []}
    assert of(wished).look()["complete"]
    assert not Path(job).exists()
    assert not of(wished).begin({}, job), "there is nothing to do"


def test_what_failed_behind_is_reported_in_its_own_turn(
    wished: dict[str, Any], tmp_path: Path, job: str
) -> None:
    program(tmp_path / "pip", FAILING)
    assert of(wished).begin({}, job)
    with pytest.raises(RefusedError, match="was not installed: ERROR: x Run again"):
        of(wished).bring({}, True, job)
    assert not Path(wished["root"]).exists()


def test_behind_it_is_checked_and_flushed_too(
    wished: dict[str, Any], root: Path, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that its own turn takes a moment, while another role has the host's one dpkg."""
    real, here, calls = venv_place.prepare, os.getpid(), root.parents[1] / "calls"

    def prepare(*words: str) -> None:
        with calls.open("a") as stream:
            stream.write("here\n" if os.getpid() == here else "behind\n")
        real(*words)

    def flush(path: str) -> None:
        with calls.open("a") as stream:
            stream.write(f"flush {path}\n")

    monkeypatch.setattr(venv_place, "prepare", prepare)
    monkeypatch.setattr(venv_place, "flush", flush)
    assert of(wished).begin({}, job)
    assert of(wished).bring({}, True, job)["changed"]
    behind = f"flush {root}/.building-{NAME}"
    assert calls.read_text().splitlines() == ["behind", behind, behind]
    text = (root / NAME / "bin" / "activate").read_text()
    assert ".building-" not in text
    assert str(root / NAME) in text


def test_what_is_not_whole_behind_is_reported_in_its_own_turn(
    wished: dict[str, Any], root: Path, tmp_path: Path, job: str
) -> None:
    program(tmp_path / "pip", "#!/bin/sh\n")
    assert of(wished).begin({}, job)
    with pytest.raises(RefusedError, match=r"the new environment is incomplete: absl-py 1\.4\.0, "):
        of(wished).bring({}, True, job)
    assert os.listdir(root) == []


def works(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


def test_a_pip_that_was_ended_has_installed_nothing(
    wished: dict[str, Any], root: Path, tmp_path: Path, job: str
) -> None:
    number = tmp_path / "pid"
    program(tmp_path / "pip", f"#!/bin/sh\necho $PPID $$ > {number}.new; mv {number}.new {number}\n"
            "exec sleep 60\n")  # fmt: skip
    assert of(wished).begin({}, job)
    deadline = time.monotonic() + 20
    while not number.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    waits, pip = map(int, number.read_text().split())
    os.kill(waits, signal.SIGKILL)
    while works(pip):
        assert time.monotonic() < deadline, "it installs on, where nobody waits for it"
        time.sleep(0.02)
    message = "was not installed: the background job was killed before it was done Run"
    with pytest.raises(RefusedError, match=message):
        of(wished).bring({}, True, job)
    assert os.listdir(root) == []
    # After a reboot nothing is known of it.
    with pytest.raises(RefusedError, match=message):
        of(wished).bring({}, True, job)


# the link


def test_what_is_in_the_way_of_the_link_is_kept(wished: dict[str, Any], root: Path) -> None:
    (root / "current").mkdir(parents=True)
    (root / "current/mine").write_text("x")
    os.utime(root / "current", (1700000000, 1700000000))
    here = of(wished)
    here.bring({})
    assert of(wished, dry=True).switch(True, [])
    assert (root / "current/mine").exists()
    assert here.switch(True, [])
    assert (root / "current.backup-1700000000/mine").exists()
    assert os.readlink(root / "current") == NAME
    assert not here.switch(True, [])


def test_the_link_is_led_to_this_one_and_the_others_go_where_they_are_not_kept(
    wished: dict[str, Any], root: Path
) -> None:
    for name in ("2.8.0-bbbbbbbb", "2.7.0-cccccccc"):
        (root / name).mkdir(parents=True)
        (root / name / ".provision.json").write_text("{}")
    (root / "current").symlink_to("2.8.0-bbbbbbbb")
    here = of(wished)
    here.bring({})
    assert here.switch(True, [])
    assert len(os.listdir(root)) == 4
    assert of(wished, dry=True).switch(False, ["2.7.0-cccccccc"])
    assert len(os.listdir(root)) == 4
    assert here.switch(False, ["2.7.0-cccccccc"])
    assert sorted(os.listdir(root)) == ["2.7.0-cccccccc", NAME, "current"]
    assert not here.switch(False, ["2.7.0-cccccccc"])
    assert not of(wished, dry=True).switch(False, ["2.7.0-cccccccc"])


# CUDA among the wheels


def test_cudas_libraries_are_linked_where_every_tensorflow_looks(tmp_path: Path) -> None:
    nvidia = tmp_path / "nvidia"
    for path in ("cusolver/lib/libcusolver.so.11", "cudnn/lib/libcudnn.so.8", "cudnn/lib/x.py",
                 "cuda_runtime/lib/libcudart.so.12", "cudnn/include/a.so"):  # fmt: skip
        (nvidia / path).parent.mkdir(parents=True, exist_ok=True)
        (nvidia / path).write_text("")
    links = nvidia / "cuda_runtime/lib"
    (links / "libcudnn.so.8").symlink_to("/nowhere")
    found = ["nvidia/cuda_runtime/lib/libcudnn.so.8", "nvidia/cuda_runtime/lib/libcusolver.so.11"]
    assert cuda_links.bring(str(tmp_path), dry=True) == found
    assert len(os.listdir(links)) == 2
    assert cuda_links.bring(str(tmp_path)) == found
    assert os.readlink(links / "libcusolver.so.11") == "../../cusolver/lib/libcusolver.so.11"
    assert (links / "libcudnn.so.8").samefile(nvidia / "cudnn/lib/libcudnn.so.8")
    assert not (links / "libcudart.so.12").is_symlink()
    assert cuda_links.bring(str(tmp_path)) == []


# as the module has it


def asked(wished: dict[str, Any], dry: bool = False, **other: Any) -> dict[str, Any]:
    params = {
        "state": "present", "venv": wished, "pip": {}, "switch": True, "keep_old": True,
        "beside": [], "begin": False, "begun": False,
    }  # fmt: skip
    found: dict[str, Any] = environment.answer({**params, **other}, dry)
    return found


def test_the_answer_says_what_would_be_done_and_what_was(wished: dict[str, Any]) -> None:
    venv = f"{wished['root']}/{NAME}"
    dry = asked(wished, dry=True)
    assert (dry["changed"], dry["venv"]) == (True, venv)
    assert dry["would"] == f"Would make {venv}: absl-py 1.4.0, tensorflow 2.9.3"
    assert asked(wished, state="looked")["missing"] == ["absl-py 1.4.0", "tensorflow 2.9.3"]
    assert not Path(wished["root"]).exists()
    done = asked(wished)
    assert (done["changed"], done["would"]) == (True, "")
    assert [entry["after_header"] for entry in done["diff"]] == [
        f"{wished['root']}/.building-{NAME}/requirements.txt"
    ]
    assert not asked(wished)["changed"]
    assert asked(wished, dry=True)["would"] == ""
    assert asked(wished, state="looked")["complete"]
    (Path(venv) / SITE / "absl_py-1.4.0.dist-info/RECORD").unlink()
    (Path(venv) / SITE / "absl_py-1.4.0.dist-info").rmdir()
    assert asked(wished, dry=True)["would"] == f"Would repair {venv}: absl-py 1.4.0"


def test_one_that_is_not_to_be_current_is_made_beside(wished: dict[str, Any]) -> None:
    assert asked(wished, switch=False)["changed"]
    assert os.listdir(wished["root"]) == [NAME]


def test_all_go_where_they_are_wished_away(wished: dict[str, Any]) -> None:
    assert not asked(wished, state="absent", dry=True)["changed"]
    assert not asked(wished, state="absent")["changed"]
    asked(wished)
    dry = asked(wished, state="absent", dry=True)
    assert dry["would"] == f"Would remove the venvs that this role made below {wished['root']}"
    assert dry["changed"]
    assert Path(wished["root"], NAME).exists()
    done = asked(wished, state="absent")
    assert (done["changed"], done["removed"]) == (True, [f"{wished['root']}/{NAME}"])
    assert not Path(wished["root"]).exists()


@pytest.mark.parametrize("state", ["present", "absent", "looked"])
def test_a_wish_that_cannot_be_is_refused_whatever_is_asked(
    wished: dict[str, Any], state: str
) -> None:
    with pytest.raises(RefusedError, match="does not pin"):
        asked({**wished, "version": "2.9.4"}, state=state)


def test_a_look_refuses_one_in_use_that_a_run_would_change(
    wished: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(wished)
    monkeypatch.setattr(environment.code_users, "names_of_users", lambda *_: ["pid 7 (python)"])
    assert asked(wished, state="looked")["complete"]
    Path(wished["root"], NAME, ".provision.json").unlink()
    with pytest.raises(RefusedError, match="is in use by pid 7"):
        asked(wished, state="looked")
    assert not asked(wished, state="looked", dry=True)["complete"]


def test_to_begin_is_answered_at_once(
    wished: dict[str, Any], monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    begin = Environment.begin
    monkeypatch.setattr(Environment, "begin", lambda self, pip: begin(self, pip, job))
    assert not asked(wished, begin=True, dry=True)["begun"]
    found = asked(wished, begin=True)
    assert (found["begun"], found["changed"]) == (True, True)
    bring = Environment.bring
    monkeypatch.setattr(Environment, "bring", lambda self, pip, begun: bring(self, pip, begun, job))
    assert asked(wished, begun=True)["changed"]
    assert not asked(wished, begin=True)["begun"]


def test_no_space_for_pips_settings_is_reported_as_pip_would(
    wished: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(**_: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pip_install.tempfile, "TemporaryFile", full)
    with pytest.raises(RefusedError, match="No space is left on the filesystem of "):
        brought(wished)


def test_a_pip_that_an_index_holds_up_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip's own time-out is for silence alone: a server that drips had no end."""
    monkeypatch.setattr(pip_install, "LONGEST", 0.2)
    code, why = pip_install.run(["sleep", "30"], str(tmp_path), {})
    assert (code, why) == (1, "it was not done within 0.2 s, and was ended.")


def test_a_venv_that_hangs_is_ended(wished: dict[str, Any], tmp_path: Path) -> None:
    program = tmp_path / "python3"
    program.write_text("#!/bin/sh\nexec sleep 30\n", "utf-8")
    program.chmod(0o755)
    wished["interpreter"] = str(program)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment, "VENV_LONGEST", 0.2)
        with pytest.raises(RefusedError, match=r"timed out after 0\.2 seconds"):
            brought(wished)


def test_the_pins_are_those_of_the_requirements() -> None:
    assert venv_files.pins(TEXT) == {"tensorflow": "2.9.3", "absl-py": "1.4.0"}
