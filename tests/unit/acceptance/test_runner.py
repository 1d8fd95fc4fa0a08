"""Programs in an environment of their own: answers, errors, time limits, rights, remains."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.provision.gpu.plugins.action import gpu_acceptance
from gpu_stack.acceptance import runner, work
from gpu_stack.acceptance.runner import Runner
from gpu_stack.host.context import Context, Result

from provision import collection
from tests.collection import PROGRAMS

COMMON = "import json, os, sys\ngiven = json.loads(sys.argv[1])\n"
SOURCES = {
    "__init__.py": "",
    runner.MAIN: (PROGRAMS / runner.MAIN).read_text("utf-8"),
    "says.py": COMMON
    + "print('a library speaks')\nprint('PROVISION ' + json.dumps({'given': given, "
    "'uid': os.getuid(), 'groups': os.getgroups(), 'cwd': sys.path[0], "
    "'environment': dict(os.environ), 'writes': os.access(given['folder'], os.W_OK), "
    "'reads': os.access('/etc/shadow', os.R_OK)}))\n",
    "relative.py": "from .says import given\n",
    "raises.py": "import sys\nprint('PROVISION {}')\nraise ValueError('no cuDNN')\n",
    "crashes.py": "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n",
    "aborts.py": "import os\nos.write(2, b'no cuDNN\\n')\nos.abort()\n",
    "children.py": (PROGRAMS / "children.py").read_text("utf-8"),
    "common.py": "MARK = 'PROVISION '\n",
    "asks.py": "import json\nfrom . import children\n"
    "print('PROVISION ' + json.dumps({'error': children.ask('aborts', {})[1]}))\n",
    "hangs.py": "import os, time\nif os.fork() == 0:\n    time.sleep(600)\ntime.sleep(600)\n",
    "silent.py": "",
    "half.py": "print('PROVISION {')\n",
    "writes.py": COMMON
    + "open(given['folder'] + '/model', 'w').write('x')\nprint('PROVISION {}')\n",
}


@pytest.fixture
def programs(tmp_path: Path) -> Runner:
    variables = tmp_path / "gpu.env"
    variables.write_text('# a comment\nXLA_FLAGS="--xla_gpu_cuda_data_dir=/usr/lib/cuda"\n')
    return Runner(Context(), SOURCES, sys.executable, str(variables))


def test_every_program_that_is_asked_is_in_a_project_and_sent_to_the_host() -> None:
    asked = {*work.ON_EACH, *work.ON_EACH_REAL, *work.ON_ALL, work.BURN, work.LISTED}
    files = {f"{name}.py" for name in asked - {work.BY_UUID, work.BY_INDEX}} | {runner.MAIN}
    sent = gpu_acceptance.programs()
    assert files <= sent.keys()
    folder = f"{collection.IN_TREE}playbooks/files/acceptance/programs/"
    tree = {path: data for path, data in collection.read().items() if path.startswith(folder)}
    assert tree == {folder + name: text.encode() for name, text in sent.items()}


def test_the_models_of_the_inventory_are_sent_with_their_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the project's lock; what that does not know has none."""
    lock = {"gpu_lock": {"rows": [{}, {"models": {"Tesla T4": ["1eb8", "1eb9"]}}]}}
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "gpu_lock.yml").write_text(json.dumps(lock))
    plugin = gpu_acceptance.ActionModule.__new__(gpu_acceptance.ActionModule)
    plugin._task = SimpleNamespace(args={"declared": 2})
    plugin._templar = SimpleNamespace(template=lambda value: value)
    plugin._execute_module = lambda **given: given["module_args"]
    monkeypatch.setattr(gpu_acceptance.ActionBase, "run", lambda *_: {})
    variables = {"playbook_dir": str(tmp_path), "gpu_models": ["Tesla T4", "Tesla T5"]}
    sent = {"Tesla T4": ["1eb8", "1eb9"], "Tesla T5": None}
    assert plugin.run(None, variables) == {"declared": 2, "models": sent}
    assert plugin.run(None, {"playbook_dir": "/nowhere"}) == {"declared": 2, "models": {}}


def test_a_program_answers_with_its_last_marked_line(programs: Runner) -> None:
    with programs:
        answer = programs.ask("says", {"count": 2}, "GPU-1", 60)
    assert (answer["error"], answer["log"], answer["silent"]) == (None, [], False)
    assert answer["facts"]["given"]["count"] == 2
    environment = answer["facts"]["environment"]
    assert environment["CUDA_VISIBLE_DEVICES"] == "GPU-1"
    assert environment["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert environment["XLA_FLAGS"] == "--xla_gpu_cuda_data_dir=/usr/lib/cuda"
    assert environment["HOME"] == answer["facts"]["given"]["folder"]
    assert "# a comment" not in environment
    assert "PYTEST_CURRENT_TEST" not in environment


def test_programs_import_each_other(programs: Runner) -> None:
    with programs:
        assert programs.ask("relative", {}, "-1", 60)["error"] is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up its rights")
def test_a_program_has_no_rights_but_its_folder(programs: Runner) -> None:
    with programs:
        facts = programs.ask("says", {}, "-1", 60)["facts"]
    assert facts["uid"] == runner.NOBODY
    assert facts["groups"] == []
    assert facts["writes"]
    assert not facts["reads"]


@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("raises", "ValueError: no cuDNN"),
        ("crashes", "it was ended by signal 11"),
        ("aborts", "it was ended by signal 6: no cuDNN"),
        ("silent", "it ended with 0"),
        ("half", "it ended with 0"),
        ("missing", "No module named programs.missing"),
    ],
)
def test_a_program_that_fails_says_how(programs: Runner, program: str, error: str) -> None:
    with programs:
        answer = programs.ask(program, {}, "-1", 60)
    assert answer["facts"] is None
    assert error in answer["error"]
    assert not answer["silent"]


def test_a_program_that_hangs_is_ended_with_its_children(programs: Runner) -> None:
    with programs as running:
        folder = running._folder
        answer = programs.ask("hangs", {}, "-1", 1)
    assert (answer["error"], answer["silent"]) == ("no answer within 1 s", True)
    deadline = time.monotonic() + 10
    while at_work(folder) and time.monotonic() < deadline:  # a kill takes its moment
        time.sleep(0.05)
    assert at_work(folder) == []


def at_work(folder: str) -> list[str]:
    """The processes that have the folder on their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if folder.encode() in path.read_bytes():
                found.append(path.parent.name)
    return found


def test_nothing_is_left_behind(programs: Runner) -> None:
    with programs as running:
        folder = Path(running._folder)
        assert folder.parent == Path("/var/tmp")
        assert folder.stat().st_mode & 0o777 == 0o755
        assert running.ask("writes", {}, "-1", 60)["error"] is None
        assert [path.name for path in folder.iterdir()] == ["programs"]
    assert not folder.exists()


def test_what_a_killed_acceptance_left_goes_after_a_week(tmp_path: Path) -> None:
    for name in ("provision-accept-old", "provision-accept-new", "somebody-elses"):
        (tmp_path / name / "programs").mkdir(parents=True)
    week = time.time() - runner.OLD - 60
    for name in ("provision-accept-old", "somebody-elses"):
        os.utime(tmp_path / name, (week, week))
    target = tmp_path / "somebody-elses"
    (tmp_path / "provision-accept-link").symlink_to(target)
    os.utime(tmp_path / "provision-accept-link", (week, week), follow_symlinks=False)
    runner.remove_old(str(tmp_path))
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["provision-accept-link", "provision-accept-new", "somebody-elses"]
    assert (target / "programs").is_dir()


def test_a_full_disk_is_the_answer_and_no_crash(
    programs: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(**_: object) -> str:
        raise OSError(28, "No space left on device")

    with programs:
        monkeypatch.setattr(runner.tempfile, "mkdtemp", full)
        answer = programs.ask("says", {}, "-1", 60)
        monkeypatch.undo()
    assert "No space left on device" in answer["error"]


def test_a_program_that_another_has_started_says_why_it_aborted(tmp_path: Path) -> None:
    for name, text in SOURCES.items():
        tmp_path.joinpath(name).write_text(text, "utf-8")
    command = [sys.executable, "-I", "-B", str(tmp_path / runner.MAIN), "asks", "{}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout.removeprefix(runner.MARK)) == {
        "error": "it was ended by signal 6: no cuDNN"
    }


def test_a_library_that_aborts_is_the_error_without_what_every_start_says() -> None:
    """As TensorFlow 2.16 said on a real card whose cuDNN was damaged."""
    noise = [
        "2026-11-27 04:06:56.98: E external/local_xla/xla/stream_executor/cuda/cuda_fft.cc:479] "
        "Unable to register cuFFT factory: Attempting to register factory for plugin cuFFT when "
        "one has already been registered",
        "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
        "I0000 00:00:1795752420.432561    2902 service.cc:145] XLA service 0x148232c0 initialized",
    ]
    last = (
        "Could not load library libcudnn_ops_infer.so.8. Error: libcudnn_ops_infer.so.8: ELF load"
    )
    aborted = runner.read(Result(-6, "", "\n".join([*noise, last])), 60)
    assert (aborted.error, aborted.log) == (f"it was ended by signal 6: {last}", [last])
    assert runner.read(Result(-6, "", noise[1]), 60).error == "it was ended by signal 6"
    # Whoever ends it from outside does so after any line.
    assert runner.read(Result(-9, "", last), 60).error == "it was ended by signal 9"


def test_the_log_of_a_failure_is_its_last_lines() -> None:
    text = "\n".join(f"line {number}" for number in range(50))
    answer = runner.read(Result(1, "", text), 60)
    assert answer.error == "line 49"
    assert answer.log[0] == "line 38"
    assert len(answer.log) == runner.WORDS
