"""From bare to proven, and what must stay true afterwards; the tests share two hosts in order."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import damage
import pytest
import yaml
from conftest import NEWEST, OLDEST, Project
from damage_steps import damage_and_repair

from bench import cold

HOSTS = ["spine1", "spine2"]


def test_bare_hosts_end_proven(spine: Project) -> None:
    """The report of the first run says what was proven, and that the GPU is simulated."""
    report = json.loads((spine.path / "report/first-report.json").read_text("utf-8"))
    assert sorted(report["hosts"]) == HOSTS
    for name, host in report["hosts"].items():
        assert host["status"] == "proven", (name, host)
        assert host["simulated_gpu"] is True
        assert host["found"]["nvcc"] == "11.2"
        assert host["found"]["cudnn"].startswith("8.")
        assert host["found"]["tensorflow"].startswith("2.9.")
        assert host["found"]["tensorflow_gpus"] == 2
        assert host["checks_summary"]["failed"] == 0
        assert host["checks_summary"]["passed"] >= 10
        # What such a host can't show is counted, never passed.
        assert host["checks_summary"]["not_applicable"] >= 1


def test_a_bare_host_is_brought_with_few_modules(spine: Project) -> None:
    """Each is packed, sent, started and answered, which takes longer than what most of them do."""
    text = (spine.path / "report/first-events.jsonl").read_text("utf-8")
    events = [json.loads(line) for line in text.splitlines()]
    proof = next(e for e in events if e["event"] == "task" and "Proof |" in e["task"])
    sent = [event["task"] for event in cold.modules(events[: events.index(proof)])
            if event["host"] == "spine1"]  # fmt: skip
    assert len(sent) <= 41, sent


@pytest.mark.parametrize(
    "program", [OLDEST, NEWEST], ids=["oldest-ansible-core", "newest-ansible-core"]
)
def test_a_second_run_changes_nothing_and_runs_one_module_per_host(
    spine: Project, program: Path
) -> None:
    assert program.exists(), f"{program} is missing: scripts/setup makes it"
    done = spine.playbook(program=program)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [host["changes"] for host in spine.report["hosts"].values()] == [[], []]
    for host, tasks in spine.tasks_run().items():
        assert len(tasks) == 1, (host, tasks)


def test_a_run_keeps_the_look_compiled_for_root_alone(spine: Project) -> None:
    """Once, where the host is as locked; a plan neither writes it nor needs it."""
    path = "/var/cache/provision-look"
    stat = f"stat -c '%U %a %h %i' {path}"
    before = spine.ssh("spine1", stat)
    assert before.startswith("root 600 1 ")
    assert spine.playbook().returncode == 0
    assert spine.ssh("spine1", stat) == before
    spine.ssh("spine1", f"sudo rm {path}")
    assert spine.playbook("--check").returncode == 0
    assert spine.ssh("spine1", f"ls {path} || echo none").endswith("none\n")
    assert spine.playbook().returncode == 0
    assert spine.ssh("spine1", stat).startswith("root 600 1 ")


def test_an_environment_is_compared_once_a_boot(spine: Project) -> None:
    """The run that finds it whole notes the boot, for root alone; a plan only compares."""
    path = "/var/cache/provision-compared"
    boot = spine.ssh("spine1", "cat /proc/sys/kernel/random/boot_id").strip()
    before = json.loads(spine.ssh("spine1", f"sudo cat {path}"))
    assert before["boot"] == boot
    (venv,) = before["compared"]
    assert venv == spine.ssh("spine1", "readlink -f /opt/tensorflow/current").strip()
    spine.ssh("spine1", f"sudo sed -i s/{boot}/before/ {path}")
    assert spine.playbook("--check").returncode == 0
    assert json.loads(spine.ssh("spine1", f"sudo cat {path}"))["boot"] == "before"
    assert spine.playbook().returncode == 0
    assert json.loads(spine.ssh("spine1", f"sudo cat {path}")) == before
    assert spine.ssh("spine1", f"stat -c '%U %a %h' {path}").strip() == "root 600 1"


def test_check_mode_agrees(spine: Project) -> None:
    done = spine.playbook("--check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {host["status"] for host in spine.report["hosts"].values()} == {"converged"}
    assert "changed=0" in done.stdout


def test_a_run_ends_with_an_acceptance_where_it_is_wished(spine: Project) -> None:
    path = spine.path / "report" / "acceptance.json"
    path.unlink(missing_ok=True)
    assert spine.playbook("--check", "-e", "gpu_accept=quick").returncode == 0
    assert not path.exists()
    done = spine.playbook("-e", "gpu_accept=quick")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {host["status"] for host in spine.report["hosts"].values()} == {"converged"}
    hosts = json.loads(path.read_text("utf-8"))["hosts"]
    assert {name: host["status"] for name, host in hosts.items()} == dict.fromkeys(HOSTS, "ok")


def test_plan_of_converged_hosts_is_empty(spine: Project) -> None:
    done = spine.provision("plan", "-i", "lab")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "command",
    [
        "nvcc --version",
        "bash -lc 'nvcc --version'",
        "sudo systemd-run --quiet --wait --pipe nvcc --version",
        "sudo systemd-run --quiet --wait --pipe sh -c 'echo $XLA_FLAGS; nvcc --version'",
    ],
)
def test_nvcc_answers_wherever_people_call_it(spine: Project, command: str) -> None:
    """`ssh host nvcc`, a login shell, a systemd unit."""
    output = spine.ssh("spine1", command)
    assert "release 11.2" in output
    if "XLA_FLAGS" in command:
        assert "--xla_gpu_cuda_data_dir=/usr/lib/cuda" in output


def test_cron_has_the_environment(spine: Project) -> None:
    """A crontab's job sees XLA_FLAGS and finds nvcc: pam_env reads /etc/environment."""
    spine.ssh(
        "spine1",
        "echo '* * * * * (echo $XLA_FLAGS; nvcc --version) > ~/cron.out 2>&1' | crontab -",
    )
    output = spine.ssh(
        "spine1",
        "for i in $(seq 1 75); do [ -s ~/cron.out ] && break; sleep 1; done;"
        " sleep 1; crontab -r; cat ~/cron.out",
    )
    assert "--xla_gpu_cuda_data_dir=/usr/lib/cuda" in output
    assert "release 11.2" in output


DAMAGE = {
    "libcusolver.so.11": (
        "cuda",
        "sudo rm $(readlink -f"
        " $(/sbin/ldconfig -p | sed -n 's/.*libcusolver.so.11 .*=> //p' | head -1))",
    ),
    "libcudnn.so.8": (
        "cudnn",
        "sudo rm $(/sbin/ldconfig -p | sed -n 's/.*libcudnn.so.8 .*=> //p' | head -1)",
    ),
}


UNTOUCHED = "stat -c '%n %Y' /opt/tensorflow/current/.provision.json /usr/bin/nvcc"


def plan_and_verify_name(spine: Project, *sonames: str) -> None:
    """Libraries that were taken away on spine1 alone."""
    plan = spine.provision("plan", "-i", "lab")
    assert plan.returncode == 5, plan.stdout + plan.stderr
    assert all(soname in plan.stdout for soname in sonames), plan.stdout
    assert "spine2" not in [
        name for name, host in spine.report["hosts"].items() if host["status"] == "drift"
    ]

    verify = spine.provision("verify", "-i", "lab")
    assert verify.returncode == 6, verify.stdout + verify.stderr
    assert all(soname in verify.stdout for soname in sonames), verify.stdout
    failed = [c for c in spine.report["hosts"]["spine1"]["checks"] if c["result"] == "failed"]
    for soname in sonames:
        assert any(soname in check["diagnosis"] + check["detail"] for check in failed), failed


def assert_only_changed(spine: Project, component: str) -> None:
    """On spine1, in the last run."""
    host = spine.report["hosts"]["spine1"]
    assert {change["component"] for change in host["changes"]} == {component}, host
    assert sorted(host["components"]) == [component], host


# Below, both are taken away at once: that is enough in `make test`.
@pytest.mark.slow
@pytest.mark.parametrize("soname", DAMAGE)
def test_a_library_taken_away_is_named_and_just_that_is_repaired(
    spine: Project, soname: str
) -> None:
    component, command = DAMAGE[soname]
    spine.ssh("spine1", command)
    plan_and_verify_name(spine, soname)
    before = spine.ssh("spine1", UNTOUCHED)
    apply = spine.provision("apply", "-i", "lab")
    assert apply.returncode == 0, apply.stdout + apply.stderr
    assert spine.report["hosts"]["spine1"]["status"] == "proven"
    assert_only_changed(spine, component)
    assert before == spine.ssh("spine1", UNTOUCHED)


def test_the_damage_that_matters_most_is_named_and_repaired_by_one_run(spine: Project) -> None:
    """A dozen rows of the catalogue, a user's numpy 2 among them; `make damage` runs all."""
    damage_and_repair(spine, "spine1", damage.batches()["first"])


def test_only_the_tagged_component_is_touched_and_the_next_run_repairs_the_rest(
    spine: Project,
) -> None:
    """`--tags cudnn` reports what it left out.

    The next run is of the oldest supported ansible-core: roles, receipt and proof.
    """
    for _component, command in DAMAGE.values():
        spine.ssh("spine1", command)
    plan_and_verify_name(spine, *DAMAGE)
    before = spine.ssh("spine1", UNTOUCHED)
    done = spine.provision("apply", "-i", "lab", "--tags", "cudnn")
    assert done.returncode == 0, done.stdout + done.stderr
    host = spine.report["hosts"]["spine1"]
    assert host["not_selected"] == ["cuda"], host
    assert sorted(host["components"]) == ["cudnn"], host
    done = spine.playbook(program=OLDEST)
    assert done.returncode == 0, done.stdout + done.stderr
    assert spine.report["hosts"]["spine1"]["status"] == "proven"
    assert_only_changed(spine, "cuda")
    assert before == spine.ssh("spine1", UNTOUCHED)


def test_the_receipt_tells_the_lock(spine: Project) -> None:
    receipt = json.loads(spine.ssh("spine1", "cat /var/lib/provision/receipt.json"))
    assert receipt["lock_digest"] == spine.report["lock_digest"]
    assert receipt["after"]["cuda"] == "11.2.2"


@pytest.fixture
def copied(spine: Project, tmp_path: Path) -> Project:
    """The project once more, for its commands to write in."""
    shutil.copytree(spine.path, tmp_path / "project", symlinks=True)
    return Project(tmp_path / "project", spine.lab)


def test_hosts_say_what_they_are(copied: Project) -> None:
    done = copied.provision("discover", "-i", "lab", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = yaml.safe_load((copied.path / "discovered.yml").read_text("utf-8"))
    assert set(found["hosts"]) == {"spine1", "spine2"}
    assert {host["platform"] for host in found["hosts"].values()} == {"debian11"}
    explained = copied.provision("explain", "spine1")
    assert explained.returncode == 0, explained.stdout + explained.stderr
    assert "discovered.yml" in explained.stdout
    assert "Tesla T4" in explained.stdout


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"gpu_platform": "debian12"}, ["gpu_platform says debian12, and this host is debian 11"]),
        (
            {"gpu_models": ["H100 PCIe"]},
            ["gpu_models says H100 PCIe, which the lock knows nothing of"],
        ),
    ],
)
def test_a_host_that_is_another_than_was_said_is_refused(
    copied: Project, variables: dict[str, Any], words: list[str]
) -> None:
    """Said behind the lock's back, for the lock itself would refuse it: both are named."""
    (copied.path / "said.yml").write_text(yaml.safe_dump(variables), "utf-8")
    done = copied.playbook("-e", "@said.yml")
    assert done.returncode != 0
    for word in words:
        assert word in done.stdout, done.stdout
    assert {host["status"] for host in copied.report["hosts"].values()} == {"blocked"}


def test_a_host_can_be_locked_as_it_is(copied: Project) -> None:
    """What the hosts got is what their twin's lock says: nothing moves."""
    done = copied.provision("lock", "--from-host", "spine1", "--check")
    assert done.returncode == 0, done.stdout + done.stderr
