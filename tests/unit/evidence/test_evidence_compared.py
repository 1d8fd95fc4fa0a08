"""What a person reads of two dates: every kind of change, kept in compared.txt."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.acceptance import judge

from provision import evidence
from provision.errors import DriftError, InputError
from tests.unit.acceptance.machines import FAULTS, Facts, machine
from tests.unit.evidence import made

GOLDEN = Path(__file__).with_name("compared.txt")
LATER = "2027-01-15T08:00:00Z"


@pytest.fixture
def old(tmp_path: Path) -> evidence.Evidence:
    return made.document(tmp_path / "old", acceptance=made.accepted(facts=machine("Tesla T4", 4)))


def judged(change: Callable[[Facts], None]) -> Callable[[dict[str, Any]], None]:
    """Changes evidence by what another look at the same machine finds."""

    def apply(document: dict[str, Any]) -> None:
        facts = machine("Tesla T4", 4)
        change(facts)
        document["acceptance"]["verdict"] = judge.judge(facts)

    return apply


def swap(facts: Facts) -> None:
    facts["nvml"]["gpus"][2] |= {"uuid": "GPU-new", "serial": "0999", "vbios": "90.04.96.00.9F"}


def exchange(facts: Facts) -> None:
    """Two cards in each other's slots."""
    first, second = facts["nvml"]["gpus"][0], facts["nvml"]["gpus"][1]
    for key in ("uuid", "serial"):
        first[key], second[key] = second[key], first[key]


def flash(facts: Facts) -> None:
    facts["nvml"]["gpus"][1]["vbios"] = "90.04.96.00.9F"


def slow_link(facts: Facts) -> None:
    facts["nvml"]["gpus"][3]["pcie"]["width"] = 4


def remove(facts: Facts) -> None:
    del facts["nvml"]["gpus"][3], facts["bus"][3]


def at_work(facts: Facts) -> None:
    facts.update(machine("Tesla T4", 4, busy=True))


def upgrade(document: dict[str, Any]) -> None:
    document["lock"] = {"digest": "sha256:" + "7" * 64, "stack": "debian11-other"}
    document["versions"]["nvidia_driver"] = {"locked": "535.309.01", "found": "535.309.01"}
    document["versions"]["nvidia_container_toolkit"] = {"locked": "1.17.8", "found": "1.17.8"}
    del document["versions"]["cudnn"]
    document["versions"]["cuda"] = {"locked": "11.8.0", "found": None}
    document["platform"]["kernel"] = "6.1.0-40-amd64"


def fail(document: dict[str, Any]) -> None:
    document["run"]["status"] = "failed"
    document["run"]["failed"] = [{"id": "cuda.libraries", "title": "CUDA's libraries are found"}]


def other_times(document: dict[str, Any]) -> None:
    document["acceptance"]["finished"] = LATER
    document["run"] |= {"name": "later", "finished": LATER, "last_proven": LATER}
    document["provision"] = "99"


CHANGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "a card swapped": judged(swap),
    "two cards exchanged": judged(exchange),
    "another VBIOS": judged(flash),
    "fewer lanes": judged(slow_link),
    "a lost card": judged(FAULTS["lost"].change),
    "a card taken out": judged(remove),
    "another lock": upgrade,
    "a failed check": fail,
    "simulated": lambda document: document.update(simulated=True),
    # Nothing changed:
    "at work": judged(at_work),
    "only the time": other_times,
}


def changed(old: evidence.Evidence, name: str) -> evidence.Evidence:
    new = copy.deepcopy(old)
    new["written"] = LATER
    CHANGES[name](new)
    return new


def pages(old: evidence.Evidence) -> Iterator[str]:
    for name in CHANGES:
        new = changed(old, name)
        yield f"== {name}"
        yield from evidence.compare(old, new)
        yield "-- and back"
        yield from evidence.compare(new, old)


def test_what_a_person_reads_is_as_it_was_read(old: evidence.Evidence) -> None:
    text = "\n".join(pages(old)) + "\n"
    if os.environ.get("PROVISION_UPDATE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["at work", "only the time"])
def test_what_is_no_change_is_not_reported(old: evidence.Evidence, name: str) -> None:
    assert evidence.compare(old, changed(old, name)) == []


def test_evidences_of_two_hosts_are_not_compared(old: evidence.Evidence) -> None:
    with pytest.raises(InputError, match="evidences of two hosts"):
        evidence.compare(old, {**old, "host": "gpu08"})


def files(tmp_path: Path, old: evidence.Evidence, name: str) -> tuple[Path, Path, Path]:
    """(old file, new file, allowed signers), both signed."""
    key = made.key(tmp_path / "ada")
    paths = (tmp_path / "old.json", tmp_path / "new.json")
    for path, document in zip(paths, (old, changed(old, name)), strict=True):
        path.write_bytes(evidence.dump(document))
        evidence.signature_of(path).write_bytes(evidence.sign(path.read_bytes(), key))
    return *paths, made.allowed(tmp_path / "allowed", ("ada", key))


def test_the_command_says_it_and_ends_with_5(tmp_path: Path, old: evidence.Evidence) -> None:
    first, second, allowed = files(tmp_path, old, "another VBIOS")
    code, output = made.provision("--compare", first, second, "--allowed-signers", allowed)
    assert code == 5
    assert output.splitlines() == [
        "gpu07 of 2026-11-26 02:30:00 UTC, and gpu07 of 2027-01-15 08:00:00 UTC:",
        "  GPU 1 GPU-00000001-1111-2222-3333-444444444444 (Tesla T4, serial 042101, slot 2, "
        "0000:18:00.0): VBIOS: 90.04.38.00.03 -> 90.04.96.00.9F",
    ]
    code, output = made.provision("--compare", first, second, "--json")
    assert (code, len(json.loads(output)["changes"])) == (5, 1)


def test_the_same_host_on_two_dates_ends_with_0(tmp_path: Path, old: evidence.Evidence) -> None:
    first, second, allowed = files(tmp_path, old, "only the time")
    code, output = made.provision("--compare", first, second, "--allowed-signers", allowed)
    assert code == 0
    assert output.splitlines()[1:] == ["  nothing changed"]


def test_an_altered_file_is_not_compared(tmp_path: Path, old: evidence.Evidence) -> None:
    first, second, allowed = files(tmp_path, old, "a card swapped")
    second.write_bytes(evidence.dump(changed(old, "only the time")))
    with pytest.raises(DriftError):
        made.provision("--compare", first, second, "--allowed-signers", allowed)
