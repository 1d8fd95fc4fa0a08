"""`provision doctor` and doctor.yml: what is shown, written and answered as exit code."""

from __future__ import annotations

import json
import types
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.provision.gpu.plugins.callback.doctor import CallbackModule
from typer.testing import CliRunner

from provision import cli, collection, doctor
from tests.unit.run import examined

# The look is a file; the steps of the fix are what the role has.
LOOK = """\
import json, os
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule({"doctor": {"type": "bool"}}, supports_check_mode=True)
path = os.environ["DOCTOR_ANSWER"]
module.exit_json(**json.load(open(path)))
"""
NO_FIXES: dict[str, Any] = {
    **{step: [] for step in ("components", "files", "initramfs", "aside", "links")},
    "dpkg": False,
}


def answer(*findings: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "findings": list(findings),
        "fixes": NO_FIXES,
        "fixable": False,
        "busy": "",
        "locked": True,
        "differences": 0,
        "platform": {},
        "simulated_gpu": True,
    } | more


FINDING: dict[str, Any] = {
    "id": "numpy-2",
    "title": "NumPy is too new",
    "evidence": ["numpy 2.0.2"],
    "cure": "make it older",
    "commands": ["pip install 'numpy<2'"],
    "threads": ["tensorflow/tensorflow#90245"],
    "fix": {"components": ["tensorflow"], "steps": []},
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A rendered project with one host, this machine, and a second that is not asked."""
    monkeypatch.setenv("DOCTOR_ANSWER", str(tmp_path / examined.ANSWER))
    monkeypatch.delenv("PROVISION_REPORT_DIR", raising=False)
    return examined.project(tmp_path, "gpu_state", LOOK)


def ask(project: Path, *arguments: str, says: dict[str, Any]) -> tuple[int, str]:
    return examined.ask(project, "doctor", *arguments, says=says)


def test_a_healthy_host_is_called_so(project: Path) -> None:
    code, output = ask(project, says=answer())
    assert (code, output) == (0, "gpu01: healthy (its GPU is simulated)\n")


def test_a_host_that_differs_from_its_lock_is_not_called_healthy(project: Path) -> None:
    """`plan` ended with 5 and `doctor` with 0 about one host: a nightly job heard two truths."""
    code, output = ask(project, says=answer(differences=2))
    assert code == 5
    assert output.splitlines() == [
        "gpu01: no known trouble, and not as locked (its GPU is simulated)",
        "  note: 2 differences from the lock: see the plan",
    ]


def test_a_note_is_reported_and_is_no_finding(project: Path) -> None:
    """The doctor ended with "healthy" while the user's `python` was another."""
    code, output = ask(project, says=answer(notes=["conda stands first"]))
    assert code == 0
    assert output.splitlines() == [
        "gpu01: healthy, with notes (its GPU is simulated)",
        "  note: conda stands first",
    ]


def test_a_finding_is_reported_with_its_reason_cure_and_thread(project: Path) -> None:
    code, output = ask(project, says=answer(FINDING, differences=3))
    assert code == 5
    assert output.splitlines() == [
        "gpu01: 1 finding (its GPU is simulated)",
        "  NumPy is too new [numpy-2]",
        "    because: numpy 2.0.2",
        "    cure: make it older",
        "      $ pip install 'numpy<2'",
        "    --fix: runs tensorflow",
        "    known from: tensorflow/tensorflow#90245",
        "  note: 3 differences from the lock: see the plan",
    ]


def test_a_host_without_a_row_is_said_to_be_one(project: Path) -> None:
    _code, output = ask(project, says=answer(locked=False))
    assert output.splitlines()[1] == (
        "  note: the lock has no row for this host, which is judged without it"
    )


def test_json_is_the_report_and_nothing_else(project: Path) -> None:
    code, output = ask(project, "--json", says=answer(FINDING))
    data = json.loads(output)
    assert code == 5
    assert data == json.loads((project / "report" / "doctor.json").read_text())
    assert data["hosts"]["gpu01"]["status"] == "ill"
    assert data["hosts"]["gpu01"]["findings"] == [FINDING]
    assert "web01" not in data["hosts"]


def test_the_last_runs_report_stays(project: Path) -> None:
    (project / "report").mkdir()
    (project / "report" / "report.json").write_text("as it was")
    ask(project, says=answer())
    assert (project / "report" / "report.json").read_text() == "as it was"
    assert not (project / "report" / "events.jsonl").exists()


def test_a_host_that_is_not_reached_has_exit_code_4_and_a_cure(project: Path) -> None:
    examined.add_host(project, "gpu02", examined.UNREACHABLE)
    code, output = ask(project, says=answer(FINDING))
    assert code == 4
    assert "gpu01: 1 finding" in output
    assert "gpu02: unreachable\n" in output
    assert "    cure: the host answers, but no ssh server does at that port" in output


def test_nothing_is_fixed_where_a_run_is_at_work(project: Path) -> None:
    busy = answer(FINDING, fixes=NO_FIXES | {"dpkg": True}, fixable=True, busy="ada on ctrl1")
    code, output = ask(project, "--fix", says=busy)
    assert code == 4
    assert "gpu01: failed" in output
    assert "a run is at work on this host (ada on ctrl1)" in output


@pytest.mark.parametrize(
    ("limit", "code", "words"), [(("-e", "gpu_step_timeout=1"), 4, "Timed out"), ((), 5, "")]
)
def test_a_fix_that_hangs_is_given_up(
    project: Path, limit: tuple[str, ...], code: int, words: str
) -> None:
    """`dpkg --configure -a` on a dead disk held up all hosts as long as ansible.cfg lets a task."""
    fix = "- name: Fix\n  ansible.builtin.command: sleep 5\n  changed_when: true\n"
    role = project / collection.IN_TREE / "roles" / "gpu_state"
    (role / "tasks" / "doctor_fix.yml").write_text(fix)
    broken = answer(FINDING, fixes=NO_FIXES | {"dpkg": True}, fixable=True)
    ended, output = ask(project, "--fix", *limit, says=broken)
    assert (ended, words in output) == (code, True), output


def test_without_fix_nothing_is_done(project: Path) -> None:
    busy = answer(FINDING, fixes=NO_FIXES | {"dpkg": True}, fixable=True, busy="ada on ctrl1")
    assert ask(project, says=busy)[0] == 5


def test_fix_runs_what_a_run_cures_and_never_reboots(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = """
- name: GPU stack
  hosts: all
  gather_facts: false
  tasks:
    - name: Cure
      ansible.builtin.copy:
        content: "{{ nvidia_driver_reboot }} {{ ansible_run_tags }} {{ ansible_play_hosts_all[0] }}"
        dest: "{{ playbook_dir }}/cured"
        mode: "0644"
      when: gpu_stack is defined
      tags: [tensorflow]
    - name: Heal
      ansible.builtin.copy:
        src: "{{ playbook_dir }}/healthy.json"
        dest: "{{ lookup('ansible.builtin.env', 'DOCTOR_ANSWER') }}"
        mode: "0644"
      tags: [tensorflow]
    - name: Report
      ansible.builtin.copy:
        content: '{"format": 1, "mode": "run", "hosts": {"gpu01": {"status": "proven"}}}'
        dest: "{{ lookup('ansible.builtin.env', 'PROVISION_REPORT_DIR') }}/report.json"
        mode: "0644"
      tags: [tensorflow]
"""
    (project / "site.yml").write_text(site)
    (project / "healthy.json").write_text(json.dumps(answer()))
    fixes = NO_FIXES | {"components": ["tensorflow"]}
    code, output = ask(project, "--fix", says=answer(FINDING, fixes=fixes))
    assert code == 0
    assert (project / "cured").read_text().split()[0] in ("False", "false")
    assert "tensorflow" in (project / "cured").read_text()
    assert (project / "cured").read_text().endswith("gpu01")
    assert "  fixed: NumPy is too new\n" in output


def test_plain_ansible_tells_the_same(project: Path) -> None:
    examined.add_host(project, "gpu02", examined.UNREACHABLE)
    says = answer(FINDING, differences=3, locked=False, notes=["conda stands first"])
    _code, output = ask(project, says=says)
    done = examined.by_ansible(project, "doctor.yml", says)
    assert done.returncode == 4
    _, begins, told = done.stdout.partition("\ngpu01: ")
    assert (begins + told).strip("\n") == output.strip("\n")
    assert "gpu02: unreachable\n" in output
    assert "    cure: the host answers, but no ssh server" in output


def test_a_project_without_doctor_yml_is_told_to_render(project: Path) -> None:
    (project / "doctor.yml").unlink()
    (project / "answer.json").write_text(json.dumps(answer()))
    done = CliRunner().invoke(cli.app, ["doctor", "--project", str(project)])
    assert done.exception is not None
    assert "provision render" in str(done.exception)


# a log alone


def judge(*arguments: str, data: bytes | None = None) -> tuple[int, str]:
    done = CliRunner().invoke(cli.app, ["doctor", *arguments], input=data)
    return done.exit_code, done.stdout


def test_a_log_needs_no_host_and_no_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tf.log").write_bytes(b"\xff\nAttributeError: _ARRAY_API not found\n")
    code, output = judge("--log", "tf.log")
    assert code == 5
    assert output.startswith("this TensorFlow was built for NumPy 1")
    assert "  because: tf.log: AttributeError: _ARRAY_API not found" in output
    assert "--fix" not in output
    assert list(tmp_path.iterdir()) == [tmp_path / "tf.log"]


def test_a_log_can_be_piped_in_and_answered_as_json() -> None:
    text = b"E: Unable to locate package cuda-11-4\n"
    code, output = judge("--log", "-", "--json", data=text)
    assert code == 5
    assert [finding["id"] for finding in json.loads(output)["findings"]] == ["package-not-offered"]


def test_a_log_that_says_nothing_known_is_no_finding() -> None:
    code, output = judge("--log", "-", data=b"all is well\n")
    assert code == 0
    assert output.startswith("nothing that is known here")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--log", "/not/there"], "No such file"), (["--log", "-", "--fix"], "can't be fixed")],
)
def test_what_is_no_log_is_refused(arguments: list[str], words: str) -> None:
    done = CliRunner().invoke(cli.app, ["doctor", *arguments], input=b"")
    assert words in str(done.exception)


def test_the_rules_of_a_log_are_the_roles_own() -> None:
    assert {case.id for case in doctor.cases()} >= {"numpy-2", "signed-by-conflict"}


@pytest.mark.parametrize(("book", "hears"), [("doctor.yml", True), ("site.yml", False)])
def test_the_doctors_plugin_is_told_of_its_own_playbook_alone(book: str, *, hears: bool) -> None:
    """Ansible copies every result for every plugin that is not disabled."""
    plugin = CallbackModule()
    plugin.v2_playbook_on_start(types.SimpleNamespace(_file_name=f"/somewhere/{book}"))
    assert plugin.disabled is not hears
