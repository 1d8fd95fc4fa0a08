"""Reading report.json, what it means for the exit code, and what a terminal shows of it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from provision.errors import InputError
from provision.report import cures, exit_code, load, terminal


def host(status: str, **more: Any) -> dict[str, Any]:
    return {
        "status": status,
        "simulated_gpu": True,
        "wanted": {"nvidia_driver": "470.256.02", "cudnn": "8.1.0.77"},
        "found": {"nvidia_driver": "470.256.02", "cudnn": "8.1.0", "tensorflow_gpus": 2},
        "changes": [],
        "blockers": [],
        "checks": [],
        "checks_summary": None,
        "failure": None,
        "last_proven": None,
    } | more


def report(mode: str = "run", **hosts: dict[str, Any]) -> dict[str, Any]:
    return {"format": 1, "mode": mode, "seconds": 3.2, "hosts": hosts}


FAILED_CHECK = {
    "id": "cuda.libraries",
    "title": "Each library",
    "result": "failed",
    "diagnosis": "libcusolver.so.11 can't be loaded",
    "hint": "run again [now]",
}
UNPROVEN = host("failed", checks=[FAILED_CHECK], failure={"task": "verify", "phase": "verify"})


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (report(a=host("proven"), b=host("converged")), 0),
        (report("check", a=host("drift"), b=host("converged")), 5),
        (report("verify", a=host("drift")), 5),
        (report(a=host("drift")), 0),  # left out by tags, as told
        (report(a=UNPROVEN), 6),
        (report(a=host("failed", failure={"phase": "proof"})), 6),
        (report(a=host("failed", failure={"phase": "apply"}), b=UNPROVEN), 4),
        (report(a=host("blocked"), b=host("proven")), 4),
        (report(a=host("unreachable")), 4),
        (report("check", a=host("unreachable"), b=host("drift")), 4),
        (report(), 0),
    ],
)
def test_the_worst_host_gives_the_exit_code(made: dict[str, Any], expected: int) -> None:
    assert exit_code(made) == expected


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "there is no report"),
        ('{"format": 1, "hosts"', "not JSON"),
        ('{"format": 2, "hosts": {}}', "not a report of a format"),
        ("[]", "not a report of a format"),
        ('{"format": 1}', "no hosts in it"),
        ('{"format": 1, "hosts": {"a": {"status": "fine"}}}', "host a has no status"),
        ('{"format": 1, "hosts": {"a": 3}}', "host a has no status"),
    ],
)
def test_a_report_that_is_none_is_refused(tmp_path: Path, content: str | None, says: str) -> None:
    path = tmp_path / "report.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError, match=says):
        load(path)


def test_a_good_report_is_read(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report(a=host("proven"))))
    assert load(path)["hosts"]["a"]["status"] == "proven"


def shown(show: Any, made: dict[str, Any], width: int = 140) -> str:
    stream = io.StringIO()
    show(made, Console(file=stream, width=width))
    return stream.getvalue()


def test_the_table_has_versions_and_calls_a_simulated_gpu_one() -> None:
    summary = {"passed": 18, "failed": 0, "not_applicable": 3}
    text = shown(terminal.outcome, report(gpu01=host("proven", checks_summary=summary)))
    row = next(line for line in text.splitlines() if line.startswith("gpu01"))
    for part in ("proven", "470.256.02", "8.1.0", "2 simulated", "18 passed, 3 not applicable"):
        assert part in row
    assert "1 host: 1 proven (3.2 s)" in text


def test_eighty_columns_break_no_word() -> None:
    summary = {"passed": 18, "failed": 2, "not_applicable": 3}
    made = report(**{"demo-gpu1": host("unreachable"), "b": host("proven", checks_summary=summary)})
    made["hosts"]["b"]["found"].pop("cudnn")
    text = shown(terminal.outcome, made, width=80)
    for word in ("demo-gpu1", "470.256.02", "8.1.0.77", "simulated", "passed,", "n/a"):
        assert word in text
    assert max(len(line) for line in text.splitlines()) <= 80


def test_an_unreachable_host_has_sshs_words_and_no_gpus() -> None:
    failure = {"task": "gpu_state : Look | x", "message": "Task failed: Connection refused"}
    made = report(a=host("unreachable", found={}, failure=failure))
    text = shown(terminal.outcome, made)
    assert "  Connection refused\n    cure: the host answers, but no ssh server does" in text
    assert "simulated" not in text
    assert "gpu_state" not in text


# What OpenSSH 9.2 says, behind Ansible's words, of a host whose key is not the one in the file.
CHANGED = """\
Failed to connect to the host via ssh: @@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
Add correct host key in {file} to get rid of this message.
Offending ED25519 key in {file}:1
  remove with:
  ssh-keygen -f "{file}" -R "[192.0.2.1]:2222"
Host key for [192.0.2.1]:2222 has changed and you have requested strict checking.
Host key verification failed."""


@pytest.mark.parametrize(
    ("message", "cure"),
    [
        (
            'Data could not be sent to remote host "10.0.0.9". Make sure this host can be reached '
            "over ssh: Host key verification failed.",
            "log in once by hand (ssh 10.0.0.9), compare",
        ),
        (
            'Data could not be sent to remote host "10.0.0.9". Make sure this host can be reached '
            "over ssh: @ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @ Host key verification "
            "failed.",
            "forget its old key: ssh-keygen -R 10.0.0.9;",
        ),
        (
            CHANGED.format(file="/srv/my lab/known_hosts"),
            "forget its old key: ssh-keygen -f '/srv/my lab/known_hosts' -R '[192.0.2.1]:2222'; "
            "then log in once by hand (ssh -o UserKnownHostsFile='/srv/my lab/known_hosts') and",
        ),
        (
            CHANGED.format(file="/var/lib/ada/.ssh/known_hosts"),
            "forget its old key: ssh-keygen -R '[192.0.2.1]:2222'; then log in once by hand and",
        ),
        ("lab@10.0.0.9: Permission denied (publickey).", "ssh-copy-id HOST"),
        ("ssh: connect to host 192.0.2.11 port 22: No route to host", "nothing answers"),
        ("ssh: connect to host a port 22: Connection timed out", "nothing answers"),
        ("ssh: Could not resolve hostname gpu1: Name or service not known", "not known here"),
        (
            'Data could not be sent to remote host "10.0.0.9". Make sure this host can be reached '
            "over ssh: Connection timed out during banner exchange",
            "the ssh server there says nothing",
        ),
        (
            'Data could not be sent to remote host "10.0.0.9". Make sure this host can be reached '
            "over ssh: ",
            "stopped answering in the middle",
        ),
        ("Timeout (32s) waiting for privilege escalation prompt: ", "no command begins there"),
        (
            "kex_exchange_identification: Connection closed by remote host",
            "MaxStartups",
        ),
        ("something new", "log in by hand, as the inventory says"),
    ],
)
def test_what_ssh_says_has_its_cure(message: str, cure: str) -> None:
    assert cure in cures.unreachable(message)


def test_a_plan_heads_an_unreachable_host_once() -> None:
    failure = {"task": "gpu_state : Look | x", "message": "Task failed: Connection refused"}
    made = report("check", a=host("unreachable", found={}, failure=failure))
    text = shown(terminal.plan, made)
    assert text.split("\n\n")[0].count("unreachable") == 1
    assert "  Connection refused" in text


def test_a_version_that_is_not_the_locks_is_marked() -> None:
    made = report(gpu01=host("drift", found={"nvidia_driver": "535.309.01"}))
    assert "535.309.01, not 470.256.02" in shown(terminal.outcome, made)
    assert "none, not 8.1.0.77" in shown(terminal.outcome, made)
    # As the page judges it: a CUDA of any patch is not the locked one, a longer version may be.
    made = report(gpu01=host("drift", found={"cuda": "11.2"}, wanted={"cuda": "11.2.2"}))
    assert "11.2, not 11.2.2" in shown(terminal.outcome, made)
    made = report(gpu01=host("drift", found={"cudnn": "8.1.0.77"}, wanted={"cudnn": "8.1.0"}))
    assert "not 8.1.0" not in shown(terminal.outcome, made)


def test_a_component_that_is_wished_away_is_no_lack() -> None:
    gone = host("proven", absent=["cuda", "nvidia_driver"], wanted={})
    text = shown(terminal.outcome, report(gpu01=gone))
    assert "absent" in text
    assert "470.256.02, not wished" in text
    assert "none" not in text


def test_a_failed_check_shows_its_diagnosis_and_cure_literally() -> None:
    text = shown(terminal.outcome, report(gpu01=UNPROVEN))
    assert "Each library: NO. libcusolver.so.11 can't be loaded" in text
    assert "cure: run again [now]" in text  # not taken for markup


def test_a_blocked_host_lists_every_blocker_once() -> None:
    blockers = [{"message": "no AVX", "hint": "another CPU"}, {"message": "disk", "hint": ""}]
    failure = {"task": "preflight", "message": "no AVX; disk", "phase": "preflight"}
    made = report(gpu01=host("blocked", blockers=blockers, failure=failure))
    text = shown(terminal.outcome, made)
    assert text.count("no AVX") == 1
    assert "cure: another CPU" in text


def test_a_plan_names_each_change_and_its_reason() -> None:
    change = {
        "component": "cuda",
        "item": "libcusolver11",
        "from": None,
        "to": "11.1",
        "reason": "missing",
        "reboot": True,
        "selected": False,
    }
    text = shown(terminal.plan, report("check", gpu01=host("drift", changes=[change])))
    assert "gpu01 (simulated GPU): drift" in text
    expected = "  cuda libcusolver11: none -> 11.1 (missing) (needs a reboot) (left out by tags)"
    assert expected in text


def test_a_plan_tells_many_changes_of_one_kind_in_one_line() -> None:
    def missing(item: str, reason: str = "the package is not installed") -> dict[str, Any]:
        return {"component": "cuda", "item": item, "from": None, "to": "1", "reason": reason}

    changes = [missing(f"lib{n}") for n in range(4)] + [missing("a pin", "apt could move them")]
    text = shown(terminal.plan, report("check", a=host("drift", changes=changes)))
    assert "  cuda, 4 times the package is not installed: lib0 1, lib1 1, lib2 1, lib3 1\n" in text
    assert "  cuda a pin: none -> 1 (apt could move them)\n" in text
    text = shown(terminal.plan, report("check", a=host("drift", changes=changes[:3])))
    assert "  cuda lib2: none -> 1 (the package is not installed)\n" in text


def test_a_plan_says_the_same_of_many_hosts_once() -> None:
    change = {"component": "cuda", "item": "libcusolver11", "from": "1", "to": "2", "reason": ""}
    drifted = host("drift", changes=[change])
    text = shown(terminal.plan, report("check", a=drifted, b=host("converged"), c=drifted))
    assert "a, c (simulated GPU): drift" in text
    assert text.count("cuda libcusolver11: 1 -> 2") == 1
    assert "b (simulated GPU): converged" in text


def test_a_plan_gives_every_host_its_own_warnings() -> None:
    change = {"component": "cuda", "item": "libcusolver11", "from": "1", "to": "2", "reason": ""}
    warned = {
        name: host("drift", changes=[change], warnings=[{"message": f"of {name}"}]) for name in "ab"
    }
    text = shown(terminal.plan, report("check", **warned, c=host("drift", changes=[change])))
    for name in "ab":
        assert f"{name} (simulated GPU): note: of {name}\n" in text
    assert "c (simulated GPU): drift" in text


def test_a_verify_that_finds_drift_says_so() -> None:
    made = report("verify", a=host("drift", not_selected=["gpu_env"]))
    assert "a: differs from its lock: gpu_env" in shown(terminal.outcome, made)


def test_a_warning_is_a_note_not_a_problem() -> None:
    made = report(a=host("proven", warnings=[{"message": "conda is first in PATH"}]))
    text = shown(terminal.outcome, made)
    assert "a: note: conda is first in PATH" in text
    assert "a proven:" not in text


def test_a_failure_that_was_told_is_not_told_again() -> None:
    stream = io.StringIO()
    made = report(gpu01=UNPROVEN, gpu02=UNPROVEN)
    terminal.outcome(made, Console(file=stream, width=80), reported={"gpu01"})
    text = stream.getvalue()
    assert "gpu02 failed:" in text
    assert "gpu01 failed:" not in text
    assert "Failures are shown above: gpu01" in text


def test_no_host_at_all_is_said() -> None:
    assert "No host was looked at" in shown(terminal.plan, report())
    assert "No host was looked at" in shown(terminal.outcome, report())
