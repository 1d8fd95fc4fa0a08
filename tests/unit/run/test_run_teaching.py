"""An acceptance of several hosts: they judge each other, and the project remembers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from gpu_stack.acceptance import judge, words
from gpu_stack.acceptance.teaching import history

from tests.collection import ROOT
from tests.unit.acceptance import fleets
from tests.unit.acceptance.machines import machine
from tests.unit.run import examined

# A host is known by the count of GPUs that its inventory says. It answers its list of verdicts,
# one at each time that it is asked.
MODULE = """\
import json, os
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule(
    {
        "declared": {"type": "int"}, "level": {"type": "str"}, "minutes": {"type": "float"},
        "packed": {"type": "bool"},
    },
    supports_check_mode=True,
)
name = str(module.params["declared"])
with open(os.environ["ACCEPT_ANSWER"]) as stream:
    answers = json.load(stream)[name]
asked = os.environ["ACCEPT_ANSWER"] + "." + name
with open(asked, "a") as stream:
    stream.write("x")
number = min(os.path.getsize(asked), len(answers)) - 1
module.exit_json(changed=False, acceptance=answers[number], lines=[])
"""
NUMBERS = {"gpu01": 1, "gpu02": 2, "gpu03": 3}
SCHEMA = json.loads((ROOT / "docs/schemas/acceptance-1.json").read_text("utf-8"))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ACCEPT_ANSWER", str(tmp_path / examined.ANSWER))
    monkeypatch.delenv("PROVISION_REPORT_DIR", raising=False)
    made = examined.project(tmp_path, "gpu_acceptance", MODULE)
    for name, number in NUMBERS.items():
        wish = {"gpu_stack": {"tensorflow": "2.9"}, "gpu_count": number}
        examined.add_host(made, name, wish)
    return made


def answers(**rates: Any) -> dict[str, Any]:
    """What the hosts say: a card's rate, or a list of those of several tries."""
    said = {}
    for name, tries in rates.items():
        values = tries if isinstance(tries, list) else [tries]
        said[str(NUMBERS[name])] = [fleets.host(name, [value]) for value in values]
    return said


def report(project: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((project / "report" / "acceptance.json").read_text())
    jsonschema.validate(data, SCHEMA)
    return data


def rate(project: Path, name: str) -> dict[str, Any]:
    return fleets.rate_of(report(project)["hosts"][name]["acceptance"], 0)


def asked(project: Path, name: str) -> int:
    return (project / f"{examined.ANSWER}.{NUMBERS[name]}").stat().st_size


def kept(project: Path) -> list[str]:
    folder = project / "report" / history.FOLDER
    return sorted(path.name for path in folder.iterdir() if path.suffix == ".jsonl")


def test_hosts_judge_each_other_and_a_suspect_is_tried_again(project: Path) -> None:
    says = answers(gpu01=14.0, gpu02=[9.0, 9.5], gpu03=14.1)
    # All but the figures is as the first try has it.
    says["2"][1]["driver"] = "1"
    code, output = examined.ask(project, "accept", says=says)
    assert code == 5
    assert "gpu02: degraded: 1 GPU; checks: " in output
    assert "9.5 TFLOP/s; less than 11.9 TFLOP/s: the median of 3 like cards is 14" in output
    assert "    because: measured twice: 9 and 9.5 TFLOP/s" in output.splitlines()
    assert output.splitlines()[0].startswith("gpu01: ok: ")
    assert [asked(project, name) for name in NUMBERS] == [1, 2, 1]
    finding = rate(project, "gpu02")
    assert (finding["state"], finding["threshold"]["source"]) == ("degraded", "fleet")
    assert report(project)["hosts"]["gpu02"]["acceptance"]["driver"] == "550.163.01"
    assert rate(project, "gpu01")["state"] == "ok"
    status = {name: entry["status"] for name, entry in report(project)["hosts"].items()}
    assert status == {"gpu01": "ok", "gpu02": "degraded", "gpu03": "ok"}


def test_a_card_that_is_fast_the_second_time_is_not_accused(project: Path) -> None:
    code, output = examined.ask(project, "accept", says=answers(gpu01=14, gpu02=[9, 14], gpu03=14))
    assert (code, len(output.splitlines())) == (0, 3)
    finding = rate(project, "gpu02")
    assert (finding["state"], finding["figure"]["value"]) == ("ok", 14)
    assert finding["evidence"] == ["measured twice: 9 and 14 TFLOP/s"]


def test_a_limited_run_knows_the_hosts_that_it_does_not_ask(project: Path) -> None:
    says = answers(gpu01=14, gpu02=14, gpu03=9)
    code, _said = examined.ask(project, "accept", "--limit", "gpu01,gpu02", says=says)
    assert code == 0
    assert rate(project, "gpu01")["state"] == "measured"
    assert kept(project) == ["gpu01@normal.jsonl", "gpu02@normal.jsonl"]
    code, output = examined.ask(project, "accept", "--limit", "gpu03", says=says)
    assert code == 5
    assert "the median of 3 like cards is 14" in output
    assert len(kept(project)) == 3


def test_a_card_that_lost_speed_is_known_from_its_history(project: Path) -> None:
    good, bad = answers(gpu01=14), answers(gpu01=11)
    for _ in range(3):
        assert examined.ask(project, "accept", "--limit", "gpu01", says=good)[0] == 0
    (path,) = (project / "report" / history.FOLDER).glob("*.jsonl")
    assert len(path.read_text().splitlines()) == 3
    code, output = examined.ask(project, "accept", "--limit", "gpu01", says=bad)
    assert code == 5
    assert "its median of 3 earlier acceptances is 14" in output


def passed(project: Path, says: dict[str, Any]) -> dict[str, list[str]]:
    """{task: [what it was on each host, "ok gpu01"]} of an acceptance by Ansible alone."""
    steps: dict[str, list[str]] = {}
    task = ""
    for line in examined.by_ansible(project, "accept.yml", says).stdout.splitlines():
        header = re.match(r"TASK \[(\w+) \| (.*)\]", line)
        result = re.match(r"(ok|changed|skipping|fatal): \[(\w+)\]", line)
        if header:
            task = header[2] if header[1] == "Accept" else ""
        elif result and task:
            steps.setdefault(task, []).append(f"{result[1]} {result[2]}")
    return {name: sorted(results) for name, results in steps.items()}


FIRST = "Judge what all hosts have measured, or name the suspects"
ASKED = ["ok gpu01", "ok gpu02", "ok gpu03"]


def test_where_every_host_is_well_nobody_passes_through_the_rest(project: Path) -> None:
    """Each task more is a process for each host on the controller."""
    steps = passed(project, answers(gpu01=14, gpu02=14, gpu03=14))
    assert steps == {"Ask every GPU": ASKED, FIRST: ["ok gpu01"]}


def test_without_a_suspect_only_a_sick_host_passes_through_the_rest(project: Path) -> None:
    says = answers(gpu01=14, gpu02=14, gpu03=14)
    facts = machine("Tesla T4", 1)
    facts["nvml"]["gpus"][0]["pcie"]["width"] = 4
    says["2"] = [judge.judge(facts)]
    assert passed(project, says) == {
        "Ask every GPU": ASKED,
        FIRST: ["ok gpu01"],
        "Ask a suspect again": ["skipping gpu02"],
        "Judge what all hosts have measured": ["skipping gpu02"],
        "Tell Slurm of the verdict": ["skipping gpu02"],
        "Refuse a host that is not well": ["fatal gpu02"],
    }


# What the project's copy of history.py gets: each reading leaves a letter.
COUNTED = """

_read = read


def read(folder, *more):
    with open({path!r}, "a") as stream:
        stream.write("r")
    return _read(folder, *more)
"""


def test_the_history_is_read_once_unless_a_suspect_is_tried_again(project: Path) -> None:
    counted = project / "readings"
    (module,) = project.glob("collections/**/acceptance/teaching/history.py")
    module.write_text(module.read_text("utf-8") + COUNTED.format(path=str(counted)), "utf-8")
    says = answers(gpu01=14, gpu02=[14, 9, 14], gpu03=14)
    examined.ask(project, "accept", says=says)
    assert counted.read_text() == "r"
    assert rate(project, "gpu02")["threshold"]["source"] == "fleet"
    examined.ask(project, "accept", says=says)
    assert counted.read_text() == "rrr"


def test_a_spoiled_history_is_a_warning_and_kept_aside(project: Path) -> None:
    says = answers(gpu01=14, gpu02=14, gpu03=14)
    examined.ask(project, "accept", says=says)
    path = project / "report" / history.FOLDER / "gpu02@normal.jsonl"
    path.write_text("no JSON\n")
    code, output = examined.ask(project, "accept", says=says)
    assert code == 0
    warning = output.splitlines()[-1]
    assert warning.startswith(f"warning: the history of acceptances in {path} can't be read (")
    assert report(project)["warnings"] == [warning.removeprefix("warning: ")]
    (aside,) = path.parent.glob("*.spoiled-*")
    assert aside.read_text() == "no JSON\n"
    assert rate(project, "gpu02")["state"] == "ok"


def test_a_host_without_an_answer_leaves_the_others_judged(project: Path) -> None:
    examined.add_host(project, "gpu00", examined.UNREACHABLE)
    says = answers(gpu01=14.0, gpu02=9.0, gpu03=14.1)
    code, output = examined.ask(project, "accept", says=says)
    assert code == 4
    assert "gpu00: unreachable" in output
    assert "gpu02: degraded: 1 GPU; checks: " in output
    assert "the median of 3 like cards is 14" in output


def test_plain_ansible_says_the_same(project: Path) -> None:
    says = answers(gpu01=14.0, gpu02=9.0, gpu03=14.1)
    done = examined.by_ansible(project, "accept.yml", says)
    assert done.returncode == 2, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    for name, entry in report(project)["hosts"].items():
        assert set(words.host(name, entry)) <= set(lines)
    assert rate(project, "gpu02")["threshold"]["source"] == "fleet"
    assert len(kept(project)) == 3
