"""What evidence is made of, and what is refused with the command that helps."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from referencing import Registry, Resource

from provision import evidence, inputs
from provision.errors import InputError
from tests.collection import ROOT
from tests.unit.acceptance.machines import machine
from tests.unit.evidence.made import (
    HOST,
    MOMENT,
    PARSED,
    STACK,
    accepted,
    document,
    project,
    ran,
)

SCHEMAS = {
    name: json.loads((ROOT / "docs/schemas" / name).read_text("utf-8"))
    for name in ("acceptance-1.json", "evidence-1.json")
}


def validator() -> jsonschema.Draft202012Validator:
    """Of the published schema, which refers to the acceptance's beside it."""
    resources = [(name, Resource.from_contents(schema)) for name, schema in SCHEMAS.items()]
    registry: Registry[Any] = Registry().with_resources(resources)
    return jsonschema.Draft202012Validator(SCHEMAS["evidence-1.json"], registry=registry)


def test_it_has_lock_verdict_identities_and_versions(tmp_path: Path) -> None:
    evidence_document = document(tmp_path)
    assert evidence_document["lock"] == {"digest": PARSED.digest, "stack": STACK}
    assert evidence_document["versions"]["nvidia_driver"] == {
        "locked": "470.256.02",
        "found": "470.256.02",
    }
    assert evidence_document["versions"]["cudnn"] == {"locked": "8.5.0.96", "found": "8.5.0"}
    assert evidence_document["platform"]["kernel"] == "6.1.0-28-amd64"
    verdict = evidence_document["acceptance"]["verdict"]
    assert verdict["verdict"] == "ok"
    assert [(gpu["uuid"], gpu["serial"], gpu["vbios"]) for gpu in verdict["gpus"]] == [
        (f"GPU-0000000{index}-1111-2222-3333-444444444444", f"04210{index}", "90.04.38.00.03")
        for index in (0, 1)
    ]
    assert evidence_document["run"]["status"] == "proven"
    assert evidence_document["run"]["checks"] == {"passed": 20, "failed": 0, "not_applicable": 3}
    assert evidence_document["simulated"] is False


def test_it_fits_its_published_schema(tmp_path: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMAS["evidence-1.json"])
    validator().validate(document(tmp_path / "well"))
    ill = accepted(facts=machine("Tesla T4", 4))
    validator().validate(document(tmp_path / "ill", ran("failed_check"), acceptance=ill))
    for path, value in (
        (("format",), 2),
        (("lock", "digest"), "7385b4ce"),
        (("written",), "yesterday"),
        (("acceptance", "verdict", "verdict"), "fine"),
        (("more",), 1),
    ):
        wrong = document(tmp_path / "-".join(path))
        place = wrong
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        assert not validator().is_valid(wrong), path


def test_the_bytes_are_canonical_and_read_back(tmp_path: Path) -> None:
    evidence_document = document(tmp_path)
    data = evidence.dump(evidence_document)
    assert evidence.dump(dict(reversed(evidence_document.items()))) == data
    assert evidence.parse(data, where="file") == evidence_document
    assert data.endswith(b"}\n")


def test_an_acceptance_of_thousands_of_hosts_is_read_whole(tmp_path: Path) -> None:
    home = project(tmp_path)
    file = home / "report" / "acceptance.json"
    file.write_bytes(b" " * (inputs.MAX_BYTES + 1) + file.read_bytes())
    assert evidence.collect(home, HOST, PARSED, MOMENT)["host"] == HOST


def test_what_is_simulated_is_said(tmp_path: Path) -> None:
    def simulated(report: dict[str, Any]) -> None:
        report["hosts"][HOST]["simulated_gpu"] = True

    evidence_document = document(tmp_path, ran(change=simulated))
    assert evidence_document["simulated"] is True
    assert (
        evidence.heading(evidence_document)
        == "gpu07 (its GPU is simulated) of 2026-11-26 02:30:00 UTC"
    )
    by_verdict = accepted(facts={**machine("Tesla T4", 2), "simulated": True})
    assert document(tmp_path / "verdict", acceptance=by_verdict)["simulated"] is True


def test_a_failed_host_has_evidence_too(tmp_path: Path) -> None:
    """For who repairs it: what is red, and on which card."""
    evidence_document = document(tmp_path, ran("failed_check"))
    assert evidence_document["run"]["status"] == "failed"
    assert evidence_document["run"]["failed"]
    assert any(line.startswith("    failed: ") for line in evidence.lines(evidence_document))


def test_a_run_that_found_it_as_locked_or_not_at_all_leaves_the_proof(tmp_path: Path) -> None:
    runs = (ran("failed_check"), ran("proven"), ran("converged", mode="check"), ran("unreachable"))
    assert document(tmp_path, *runs)["run"]["name"] == "20261126T020100Z-verify"


def test_a_renamed_run_is_as_old_as_it_is(tmp_path: Path) -> None:
    home = project(tmp_path, ran("failed_check"), ran("proven"))
    folder = home / "report" / "20261126T020000Z-verify"
    folder.rename(folder.with_name("proof-for-the-audit"))
    assert evidence.collect(home, HOST, PARSED, MOMENT)["run"]["status"] == "proven"


def of(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda report: report.update(values)


def of_host(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda report: report["hosts"][HOST].update(values)


def without(report: dict[str, Any]) -> None:
    report["hosts"] = {"gpu08": report["hosts"].pop(HOST)}


def other_verdict(report: dict[str, Any]) -> None:
    report["hosts"][HOST]["acceptance"]["format"] = 2


def odd_gpu(report: dict[str, Any]) -> None:
    report["hosts"][HOST]["acceptance"]["gpus"][1]["uuid"] = 7


# {what is wrong: (the acceptance, message, hint)}
ACCEPTANCES: dict[str, tuple[dict[str, Any], str, str]] = {
    "other format": (accepted(of(format=2)), "another version of provision", "accept"),
    "other verdict": (accepted(other_verdict), "the verdict is of another version", "accept"),
    "odd card": (accepted(odd_gpu), r"`gpus\[1\]\.uuid` is not as in a verdict", "accept"),
    "other host": (accepted(without), "the last acceptance did not ask gpu07", "gpu08"),
    "not asked": (
        accepted(of_host(status="unreachable", message="no route", acceptance=None)),
        "could not be asked",
        "accept",
    ),
    "broken": (accepted(of_host(status="error", message="crashed")), "could not be", "accept"),
    "other lock": (accepted(of(lock_digest="sha256:0")), "of another lock", "accept"),
    "no lock": (accepted(of(lock_digest=None)), "of another lock", "accept"),
    "no time": (accepted(of(finished=None)), "of another lock", "accept"),
}


@pytest.mark.parametrize(
    ("acceptance", "message", "hint"), ACCEPTANCES.values(), ids=list(ACCEPTANCES)
)
def test_an_acceptance_that_is_none_is_refused(
    tmp_path: Path, acceptance: dict[str, Any], message: str, hint: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        document(tmp_path, acceptance=acceptance)
    assert hint in caught.value.hint
    assert caught.value.exit_code == 2


def test_without_an_acceptance_the_command_is_named(tmp_path: Path) -> None:
    home = project(tmp_path / "a b")
    file = home / "report" / "acceptance.json"
    for text in ('{"format": 1', '{"format": NaN}', "[" * 100_000):
        file.write_text(text)
        with pytest.raises(InputError, match="is not an acceptance: not JSON"):
            evidence.collect(home, HOST, PARSED, MOMENT)
    file.unlink()
    with pytest.raises(InputError, match="there is no acceptance yet") as caught:
        evidence.collect(home, HOST, PARSED, MOMENT)
    assert caught.value.hint == f"`provision accept --project '{home}'`"


# {what is wrong: (the runs, message, hint)}
RUNS: dict[str, tuple[tuple[dict[str, Any], ...], str, str]] = {
    "other host": ((ran(change=without),), "no run that is kept has checked gpu07", "verify"),
    "no checks": ((ran("converged"),), "no run that is kept has checked", "verify"),
    "other lock": ((ran(change=of(lock_digest="sha256:0")),), "for another lock", "apply"),
    "other stack": ((ran(change=of_host(stack="else")),), "has no stack", "verify"),
    "drift since": ((ran(), ran("drift", mode="check")), "did not prove it", "plan"),
    "failed since": ((ran(), ran("failed_task", mode="run")), "did not prove it", "apply"),
    "blocked since": ((ran(), ran("blocked", mode="run")), "did not prove it", "apply"),
}


@pytest.mark.parametrize(("runs", "message", "hint"), RUNS.values(), ids=list(RUNS))
def test_a_host_that_no_run_has_proven_is_refused(
    tmp_path: Path, runs: tuple[dict[str, Any], ...], message: str, hint: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        document(tmp_path, *runs)
    assert f"`provision {hint} --project {tmp_path}`" in caught.value.hint


def test_a_hosts_name_makes_no_path(tmp_path: Path) -> None:
    assert evidence.file_name("gpu07", MOMENT) == "gpu07-20261126T023000Z.json"
    assert evidence.file_name("../../etc/x", MOMENT) == "_.._etc_x-20261126T023000Z.json"
    assert evidence.file_name("..", MOMENT) == "host-20261126T023000Z.json"
