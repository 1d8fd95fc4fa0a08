"""The module `container_runtime`: its options, check mode, and what a failure says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils import basic
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.host.context import (
    Context,
    Result,
)
from ansible_collections.provision.gpu.plugins.modules import container_runtime

runtimes = container_runtime.runtimes
TABLE = '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]'
Ask = Callable[..., dict[str, Any]]


class Programs:
    """What the module starts; containerd prints the file that it is asked of."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.starts = True
        self.restarted: list[str] = []

    def run(self, argv: Sequence[str]) -> Result:
        if argv[0] == "containerd":
            return Result(0, Path(argv[2]).read_text("utf-8"), "")
        shown = {"MainPID": "812", "KillMode": "process"}
        return (
            Result(0, shown.get(argv[4], ""), "") if argv[0] == "systemctl" else Result(1, "", "")
        )

    def restart(self, unit: str) -> Result:
        self.restarted.append(unit)
        if not self.starts:
            return Result(1, "", "Job failed.\n")
        (self.root / "proc/812/stat").write_text("812 (containerd) S" + " 1" * 18 + " 6000 1\n")
        return Result(0, "", "")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    made = Programs(tmp_path)
    for path, text in {
        "usr/bin/containerd": "",
        "etc/containerd/config.toml": "version = 2\n",
        "proc/812/stat": "812 (containerd) S" + " 1" * 18 + " 5000 1\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, "utf-8")
    monkeypatch.setattr(runtimes, "Context", partial(Context, root=str(tmp_path)))
    monkeypatch.setattr(runtimes, "run", made.run)
    monkeypatch.setattr(runtimes, "restart", made.restart)
    return made


@pytest.fixture
def ask(
    programs: Programs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Ask:
    """Calls the module as Ansible does, and returns its result."""

    def call(check: bool = False, **options: Any) -> dict[str, Any]:
        given = json.dumps({"ANSIBLE_MODULE_ARGS": {**options, "_ansible_check_mode": check}})
        monkeypatch.setattr(basic, "_ANSIBLE_ARGS", given.encode())
        # ansible-core from 2.19 on asks in which form it was given them.
        monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy", raising=False)
        with pytest.raises(SystemExit):
            container_runtime.main()
        answer: dict[str, Any] = json.loads(capsys.readouterr().out)
        return answer

    return call


def config(programs: Programs) -> str:
    return (programs.root / "etc/containerd/config.toml").read_text("utf-8")


def test_it_writes_what_check_mode_only_says(ask: Ask, programs: Programs) -> None:
    wish = {"runtime": "containerd", "wish": "required"}
    answer = ask(check=True, **wish)
    assert (answer["changed"], answer["msg"][:40]) == (
        True,
        "Would make the runtime nvidia known to c",
    )
    assert (config(programs), programs.restarted) == ("version = 2\n", [])
    done = ask(**wish)
    assert (done["changed"], done["restarted"]) == (True, True)
    assert Path(done["saved"]).read_text("utf-8") == "version = 2\n"
    assert TABLE in config(programs)
    again = ask(**wish)
    assert (again["changed"], again["installed"]) == (False, True)
    assert ask(check=True, state="absent", **wish)["changed"] is True
    assert TABLE in config(programs)
    assert ask(state="absent", **wish)["changed"] is True
    assert config(programs) == "version = 2\n"
    assert programs.restarted == ["containerd.service"] * 2


def test_by_itself_it_leaves_a_containerd_alone_that_serves_docker(
    ask: Ask, programs: Programs
) -> None:
    assert ask(runtime="containerd")["changed"] is False
    assert config(programs) == "version = 2\n"


def test_a_failure_is_the_sentence_and_what_systemctl_said(ask: Ask, programs: Programs) -> None:
    programs.starts = False
    failed = ask(runtime="containerd", wish="required")
    assert failed["failed"] is True
    assert failed["msg"].startswith("containerd did not start with the runtime nvidia in /etc/")
    assert failed["said"] == "Job failed."
    assert config(programs) == "version = 2\n"
    (programs.root / "usr/bin/containerd").unlink()
    missing = ask(runtime="containerd", wish="required")
    assert missing["failed"] is True
    assert missing["msg"].startswith("nvidia_container_toolkit_containerd is required, and")
    later = ask(runtime="containerd", wish="required", comes_later=True)
    assert (later["changed"], later["installed"]) == (False, False)


def test_each_runtime_has_its_own_wish(ask: Ask, programs: Programs) -> None:
    for runtime in ("docker", "crio"):
        assert ask(runtime=runtime)["installed"] is False
        assert (
            f"nvidia_container_toolkit_{runtime} is required"
            in ask(runtime=runtime, wish="required")["msg"]
        )
        assert ask(runtime=runtime, wish="none").get("installed") is None
    coming = ask(runtime="docker", wish="required", engine="distribution", check=True)
    assert coming["changed"] is False


def test_a_note_is_no_change_and_not_made_in_check_mode(ask: Ask, programs: Programs) -> None:
    note = programs.root / "run/provision/docker-restart"
    (programs.root / "run").mkdir()
    (programs.root / "run/docker.pid").write_text("7\n")
    (programs.root / "proc/7").mkdir()
    (programs.root / "proc/7/stat").write_text("7 (dockerd) S" + " 1" * 18 + " 5000 1\n")
    assert ask(runtime="docker", state="restart_due", check=True)["changed"] is False
    assert ask(runtime="containerd", state="restart_due")["changed"] is False
    assert not note.parent.exists()
    assert ask(runtime="docker", state="restart_due")["changed"] is False
    assert note.read_text("utf-8") == "7 5000\n"


def test_the_look_does_not_import_what_writes() -> None:
    """A look is sent to every host of each run, and begins sooner the less it imports."""
    program = (
        "import sys; from gpu_stack import look; "
        "print([one for one in sys.modules if one.endswith(('_runtime', 'kept_files'))])"
    )
    root = Path(__file__).parents[2] / "plugins" / "module_utils"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
