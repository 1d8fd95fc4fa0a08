"""`provision accept` and accept.yml: what is shown, written and answered as exit code."""

from __future__ import annotations

import copy
import datetime
import json
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from ansible_collections.provision.gpu.plugins.modules import gpu_acceptance
from ansible_collections.provision.gpu.plugins.plugin_utils import examination
from gpu_stack.acceptance import judge, levels, words
from gpu_stack.acceptance.teaching import history
from typer.testing import CliRunner

from provision import acceptance, cli, inputs
from provision.cli.commands import accept
from provision.errors import InputError, MachineError
from provision.roles.site import SiteOptions
from tests.unit.acceptance.machines import machine
from tests.unit.acceptance.test_schema import SCHEMA
from tests.unit.run import examined

MODULE = """\
import json, os
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule(
    {
        "declared": {"type": "int"}, "level": {"type": "str"}, "minutes": {"type": "float"},
        "packed": {"type": "bool"}, "in_use": {}, "patience": {}, "data_path": {},
    },
    supports_check_mode=True,
)
answer = json.load(open(os.environ["ACCEPT_ANSWER"]))
if "fails" in answer:
    module.fail_json(msg=answer["fails"])
answer["acceptance"]["declared"] = module.params["declared"]
answer["acceptance"]["asked"] = [module.params[name] for name in ("level", "minutes")]
answer["acceptance"]["terms"] = [
    module.params[name] for name in ("in_use", "patience", "data_path")
]
if module.params["packed"]:
    answer["acceptance"] = json.dumps(answer["acceptance"])
module.exit_json(**answer)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ACCEPT_ANSWER", str(tmp_path / examined.ANSWER))
    monkeypatch.delenv("PROVISION_REPORT_DIR", raising=False)
    return examined.project(tmp_path, "gpu_acceptance", MODULE)


def answer(*, lanes: int = 16) -> dict[str, Any]:
    """The module's answer about two cards, the second of them with so many lanes."""
    facts = machine("Tesla T4", 2)
    facts["nvml"]["gpus"][1]["pcie"]["width"] = lanes
    verdict = judge.judge(facts)
    return {"acceptance": verdict, "lines": words.faults(verdict)}


def ask(project: Path, *arguments: str, says: dict[str, Any]) -> tuple[int, str]:
    return examined.ask(project, "accept", *arguments, says=says)


def test_a_host_that_is_well_is_accepted(project: Path) -> None:
    code, output = ask(project, says=answer())
    assert code == 0
    assert output.startswith("gpu01: ok: 2 GPUs; checks: ")
    assert len(output.splitlines()) == 1


def test_a_sick_card_is_named_with_the_next_action(project: Path) -> None:
    code, output = ask(project, says=answer(lanes=4))
    assert code == 5
    host, card = output.splitlines()
    assert host.startswith("gpu01: degraded: 2 GPUs; checks: ")
    assert card.startswith("  GPU 1 GPU-00000001-1111-2222-3333-444444444444 (Tesla T4, serial ")
    assert "degraded: the PCIe link has 4 of 16 lanes; next: reseat (" in card


@pytest.mark.parametrize(("lanes", "code"), [(4, 5), (16, 0)])
def test_slurm_is_told_of_each_verdict_on_a_node(project: Path, lanes: int, code: int) -> None:
    """Also that it is well: an earlier verdict may have been another."""
    done, output = ask(project, says={**answer(lanes=lanes), "slurm": True})
    assert done == code
    assert "warning: gpu01: Slurm: drained" in output
    *told, reason = json.loads((project / examined.TOLD).read_text())
    assert told == ["judged", "degraded" if code else "ok", "quick"]
    assert ("the PCIe link has 4 of 16 lanes" in reason) == bool(code)


@pytest.mark.parametrize("lanes", [4, 16])
def test_slurm_is_not_asked_where_the_host_is_no_node(project: Path, lanes: int) -> None:
    for slurm in ({}, {"slurm": False}):
        _code, output = ask(project, says={**answer(lanes=lanes), **slurm})
        assert "Slurm" not in output
    assert not (project / examined.TOLD).exists()


def test_json_is_the_report_and_nothing_else(project: Path) -> None:
    code, output = ask(project, "--json", says=answer(lanes=4))
    data = json.loads(output)
    assert code == 5
    assert data == json.loads((project / "report" / "acceptance.json").read_text())
    assert data["hosts"]["gpu01"]["status"] == "degraded"
    assert data["hosts"]["gpu01"]["acceptance"]["gpus"][1]["verdict"] == "degraded"
    assert "web01" not in data["hosts"]


@pytest.mark.parametrize("names", [[], ["gpu01"], ["gpu01", "gpü02"]])
def test_the_file_has_a_line_for_each_host(names: list[str]) -> None:
    """An indent makes Python's encoder ten times as slow."""
    report = {
        "format": 1,
        "hosts": {name: {"status": "ok", "acceptance": {"gpus": [{}]}} for name in names},
        "warnings": ["ä"],
    }
    text = examination.text_of(report)
    assert json.loads(text) == report
    assert [name for name in names if f'\n"{name}": {{"status"' in text] == names
    assert text.endswith("\n}\n")


def test_the_report_says_when_it_was_and_for_which_lock(project: Path) -> None:
    before = time.time()
    ask(project, says=answer())
    data = json.loads((project / "report" / "acceptance.json").read_text())
    jsonschema.validate({**data, "hosts": {}}, SCHEMA)
    finished = datetime.datetime.fromisoformat(data["finished"].replace("Z", "+00:00"))
    assert before - 1 < finished.timestamp() < time.time() + 1
    assert data["lock_digest"] == "x"


def test_a_page_is_written_where_it_is_asked_for(project: Path, tmp_path: Path) -> None:
    code, output = ask(project, "--html", str(tmp_path / "page.html"), says=answer(lanes=4))
    assert code == 5
    assert output.startswith("gpu01: degraded")
    assert "1 of 2 GPUs not well" in (tmp_path / "page.html").read_text("utf-8")


def test_junit_is_written_where_it_is_asked_for(project: Path, tmp_path: Path) -> None:
    code, output = ask(project, "--junit", str(tmp_path / "junit.xml"), says=answer(lanes=4))
    assert code == 5
    assert output.startswith("gpu01: degraded")
    assert 'failures="1"' in (tmp_path / "junit.xml").read_text("utf-8")


def test_a_page_that_can_not_be_written_is_an_error(project: Path) -> None:
    with pytest.raises(MachineError, match="it cannot be written"):
        ask(project, "--html", str(project / "lock.yml" / "page.html"), says=answer())
    with pytest.raises(MachineError, match="--junit names the file"):
        ask(project, "--junit", str(project / "lock.yml" / "junit.xml"), says=answer())


def test_the_last_runs_report_stays(project: Path) -> None:
    (project / "report").mkdir()
    (project / "report" / "report.json").write_text("as it was")
    ask(project, says=answer())
    assert (project / "report" / "report.json").read_text() == "as it was"


def test_the_inventorys_count_goes_to_the_host(project: Path) -> None:
    examined.add_host(project, "gpu01", {"gpu_stack": {"tensorflow": "2.9"}, "gpu_count": 4})
    _code, output = ask(project, "--json", says=answer())
    assert json.loads(output)["hosts"]["gpu01"]["acceptance"]["declared"] == 4


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        ([], ["quick", 60]),
        (["--level", "normal"], ["normal", 60]),
        (["--level", "long", "--minutes", "5"], ["long", 5]),
    ],
)
def test_the_level_reaches_the_host(project: Path, arguments: list[str], asked: list[Any]) -> None:
    code, output = ask(project, "--json", *arguments, says=answer())
    assert code == 0
    assert json.loads(output)["hosts"]["gpu01"]["acceptance"]["asked"] == asked


TERMS = {"gpu_accept_in_use": "nothing", "gpu_accept_patience": 20, "gpu_accept_data_path": "/d"}


@pytest.mark.parametrize(
    ("arguments", "variables", "terms"),
    [
        ([], {}, [None, None, None]),
        ([], TERMS, ["nothing", "20", "/d"]),
        (["--in-use", "nothing"], {}, ["nothing", None, None]),
        (["--in-use", "others"], TERMS, ["others", "20", "/d"]),
    ],
)
def test_what_is_spared_reaches_the_host(
    project: Path, arguments: list[str], variables: dict[str, Any], terms: list[Any]
) -> None:
    """The flag is stronger than the inventory, and without either the module's default is."""
    examined.add_host(project, "gpu01", {"gpu_stack": {"tensorflow": "2.9"}, **variables})
    code, output = ask(project, "--json", "--level", "normal", *arguments, says=answer())
    assert code == 0
    assert json.loads(output)["hosts"]["gpu01"]["acceptance"]["terms"] == terms


def test_the_level_quick_loads_nothing_that_could_be_spared(project: Path) -> None:
    with pytest.raises(InputError, match="--level quick loads nothing"):
        ask(project, "--in-use", "nothing", says=answer())
    assert not (project / "report" / "acceptance.json").exists()


def test_the_options_say_what_the_module_does_without_them() -> None:
    defaults = {name: field.default for name, field in SiteOptions.model_fields.items()}
    assert defaults["gpu_accept_in_use"] == levels.OTHERS
    assert defaults["gpu_accept_patience"] == levels.PATIENCE
    documented = yaml.safe_load(gpu_acceptance.DOCUMENTATION)["options"]
    assert documented["in_use"]["choices"] == list(levels.IN_USE)
    assert documented["in_use"]["default"] == levels.OTHERS
    assert documented["patience"]["default"] == levels.PATIENCE
    assert [each.value for each in accept.InUse] == list(levels.IN_USE)


def test_minutes_belong_to_the_level_long(project: Path) -> None:
    with pytest.raises(InputError, match="--minutes is how long --level long burns in"):
        ask(project, "--level", "normal", "--minutes", "5", says=answer())
    assert not (project / "report" / "acceptance.json").exists()


def test_a_host_that_is_not_reached_has_exit_code_4_and_the_others_are_judged(
    project: Path,
) -> None:
    examined.add_host(project, "gpu02", examined.UNREACHABLE)
    code, output = ask(project, says=answer(lanes=4))
    assert code == 4
    assert "gpu01: degraded" in output
    assert "gpu02: unreachable\n" in output
    assert "    cure: the host answers, but no ssh server does at that port" in output


def test_a_host_that_can_not_be_judged_is_no_sick_one(project: Path) -> None:
    code, output = ask(project, says={"fails": "no Python there"})
    assert code == 4
    assert output.splitlines() == ["gpu01: error", "  no Python there"]


def test_plain_ansible_says_the_same(project: Path) -> None:
    says = answer(lanes=4)
    done = examined.by_ansible(project, "accept.yml", says)
    assert done.returncode == 2, done.stdout + done.stderr
    entry = {"status": "degraded", "message": "", "acceptance": says["acceptance"]}
    for line in words.host("gpu01", copy.deepcopy(entry)):
        assert line in done.stdout.splitlines()


@pytest.fixture
def installed(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the collection lies as Galaxy installs it, outside of `project`."""
    place = project / "elsewhere" / "installed"
    place.parent.mkdir()
    (project / "collections").rename(place)
    monkeypatch.setenv("ANSIBLE_COLLECTIONS_PATH", str(place))
    return place


def test_the_collections_playbook_writes_into_the_project_that_it_is_started_in(
    project: Path, installed: Path
) -> None:
    done = examined.by_ansible(project, "provision.gpu.accept", answer())
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((project / "report" / "acceptance.json").read_text())
    assert report["hosts"]["gpu01"]["status"] == "ok"
    assert report["lock_digest"] == "x"
    assert (project / "report" / history.FOLDER).is_dir()
    assert not list(installed.glob("**/report"))


def test_the_collections_playbook_is_refused_where_no_project_is(
    project: Path, installed: Path
) -> None:
    here = project / "elsewhere" / "here"
    here.mkdir()
    (project / "lab").rename(here / "lab")
    done = examined.by_ansible(here, "provision.gpu.accept", answer())
    assert done.returncode == 5
    output = " ".join(done.stderr.split())
    assert output.count(f"{here} is no project: there is no stacks/ in it") == 1
    assert output.endswith("No host was touched.")
    assert not list(installed.glob("**/report"))
    assert not (here / "report").exists()


def test_a_run_says_what_its_acceptance_came_to(project: Path) -> None:
    ask(project, says=answer(lanes=4))
    folder = project / "report"
    before, after = "2020-01-01T00:00:00.000Z", "2999-01-01T00:00:00.000Z"
    (line,) = acceptance.ended(folder, {"started": before})
    assert line.startswith("gpu01: degraded: 2 GPUs; checks: ")
    # The file is an earlier run's.
    assert acceptance.ended(folder, {"started": after}) == []
    # As of more hosts than a file of a person's has.
    file = folder / acceptance.FILE
    file.write_bytes(b" " * (inputs.MAX_BYTES + 1) + file.read_bytes())
    assert acceptance.ended(folder, {"started": before}) == [line]


@pytest.mark.parametrize("text", [None, "", "[]", '{"finished": 3, "hosts": {}}', "{"])
def test_a_run_that_asked_nobody_says_nothing_of_it(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "acceptance.json").write_text(text)
    assert acceptance.ended(tmp_path, {"started": "2020-01-01T00:00:00.000Z"}) == []


def test_a_project_of_an_earlier_version_is_to_be_rendered(project: Path) -> None:
    (project / "accept.yml").unlink()
    (project / examined.ANSWER).write_text(json.dumps(answer()))
    done = CliRunner().invoke(cli.app, ["accept", "--project", str(project)])
    assert "there is no accept.yml" in str(done.exception)
    assert "provision render" in str(done.exception)
