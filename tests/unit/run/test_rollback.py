"""`provision rollback`: which state a host goes back to, and what is said where it can't."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
import yaml
from ansible_collections.provision.gpu.plugins.plugin_utils.project import lock_file
from typer.testing import CliRunner, Result

from provision import cli, rollback
from provision import lock as locks
from provision.cli import projects, running
from provision.cli.run_options import RunRequest
from provision.errors import HostError, InputError, ProvisionError
from provision.run import Options
from tests.unit.generator import recorded, test_kept

NOW = "sha256:" + "0" * 64
FORMER = recorded.lock()
(STACK,) = FORMER.stacks
(ROW,) = FORMER.slim["rows"]


def receipt(digest: str, written: str, **more: Any) -> dict[str, Any]:
    after = {"cuda": "11.2.2", "tensorflow": "2.9.3", "gpu_env": None}
    return {
        "format": 1, "lock_digest": digest, "stack": STACK, "written": written, "after": after,
        "absent": [], "wish": ROW["wish"], **more,
    }  # fmt: skip


def printed(*receipts: dict[str, Any] | str) -> str:
    texts = [
        receipt if isinstance(receipt, str) else json.dumps(receipt, indent=4)
        for receipt in receipts
    ]
    return "".join(f"provision:receipt\n{text}\n\n" for text in texts) + "provision:end\n"


NEW = receipt(NOW, "2026-11-21T10:00:00Z")
OLD = receipt(FORMER.digest, "2026-11-20T10:00:00Z")
OLDER = receipt("sha256:" + "1" * 64, "2026-11-19T10:00:00Z")


# receipts


def test_receipts_are_reported_newest_first_and_broken_ones_left_out() -> None:
    states = rollback.parse(printed(NEW, OLDER, "{broken", OLD))
    assert [state.digest for state in states] == [NOW, FORMER.digest, OLDER["lock_digest"]]
    assert states[0].words == "cuda 11.2.2, tensorflow 2.9.3"


def test_a_receipt_that_is_nested_without_end_is_left_out() -> None:
    """It comes from a host, and ended the command with a RecursionError."""
    assert rollback.parse("provision:receipt\n" + "[" * 100_000 + "\nprovision:end") == []


def test_a_state_is_reported_once() -> None:
    """Two receipts of one lock differ in when a repair was made."""
    again = receipt(NOW, "2026-11-18T10:00:00Z")
    without = receipt(NOW, "2026-11-17T10:00:00Z", absent=["cudnn"])
    states = rollback.parse(printed(NEW, again, without))
    assert [state.absent for state in states] == [(), ("cudnn",)]


@pytest.mark.parametrize(
    ("to", "digest"),
    [(None, FORMER.digest), ("1", FORMER.digest), ("2", OLDER["lock_digest"]),
     ("111111", OLDER["lock_digest"]), (FORMER.digest, FORMER.digest)],
)  # fmt: skip
def test_the_state_to_go_back_to(to: str | None, digest: str) -> None:
    assert rollback.choose("h", rollback.parse(printed(NEW, OLD, OLDER)), to).digest == digest


@pytest.mark.parametrize(
    ("receipts", "to", "words"),
    [
        ([], None, "there is no receipt"),
        ([NEW], None, "this host has no earlier receipt"),
        ([NEW, OLD], "2", "so many earlier receipts"),
        ([NEW, OLD], "0", "so many earlier receipts"),
        ([NEW, OLD], "abcdef", "no earlier receipt of this host names such a lock"),
        (
            [NEW, OLD],
            FORMER.digest[7:10] + "x",
            "no earlier receipt of this host names such a lock",
        ),
        ([NEW, receipt("sha256:" + "a" * 64, "")], "aaa", "no earlier receipt of this host"),
        ([NEW, OLD], "000000", "no earlier receipt of this host names such a lock"),
        ([NEW, OLD], "\u00b2", "no earlier receipt of this host names such a lock"),
    ],
)
def test_a_state_that_is_not_there_is_refused(
    receipts: list[dict[str, Any]], to: str | None, words: str
) -> None:
    with pytest.raises(InputError, match=words) as caught:
        rollback.choose("h", rollback.parse(printed(*receipts)), to)
    assert caught.value.where.startswith("h")


def test_a_receipt_without_a_wish_gets_that_of_its_stack() -> None:
    """It is older than the word; components are then as the inventory says."""
    old = {key: value for key, value in OLD.items() if key not in ("wish", "absent")}
    (state,) = rollback.parse(printed(old))
    variables = rollback.variables(FORMER, state, Path("/p/locks/x"))
    assert variables == {"gpu_stacks": "/p/locks/x", "gpu_stack": ROW["wish"]}


def test_components_are_as_they_were() -> None:
    (state,) = rollback.parse(printed(receipt(FORMER.digest, "", absent=["cudnn"])))
    variables = rollback.variables(FORMER, state, Path("/p"))
    assert (variables["cudnn_state"], variables["cuda_state"]) == ("absent", "present")


def test_a_lock_without_the_receipts_stack_is_refused() -> None:
    (state,) = rollback.parse(printed(OLD | {"stack": "other"}))
    with pytest.raises(InputError, match="has no stack other"):
        rollback.variables(FORMER, state, Path("/p"))


# the command


@pytest.fixture
def answers() -> dict[str, str]:
    return {"gpu01": printed(NEW, OLD), "gpu02": printed(NEW, OLD)}


@pytest.fixture
def back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: Mapping[str, str]) -> Any:
    """The command on a project whose hosts answer; what it would run is kept in `back.ran`."""
    monkeypatch.setattr(
        projects, "read_fleet",
        lambda *_a, **_k: test_kept.fleet(gpu01={"tensorflow": "2.9"}, gpu02={"tensorflow": "2.9"}),
    )  # fmt: skip
    monkeypatch.setattr("provision.run.inventory_sources", lambda *_a: ["lab"])

    def ask(_project: Path, _sources: Any, hosts: Any, **_k: Any) -> Any:
        found = {host: rollback.parse(answers[host]) for host in hosts if host in answers}
        return found, {host: "no route" for host in hosts if host not in answers}

    monkeypatch.setattr(rollback, "ask", ask)
    ran: list[tuple[Options, dict[str, Any]]] = []

    def run(_mode: str, request: RunRequest, **arguments: Any) -> None:
        ran.append((request.options, arguments))
        raise typer.Exit(0)

    monkeypatch.setattr(running, "run_and_show", run)

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(cli.app, ["rollback", "-p", str(tmp_path), *arguments])

    invoke.ran = ran  # type: ignore[attr-defined]
    return invoke


def keep(project: Path) -> Path:
    return projects.keep_lock(project, FORMER)


def refused(result: Result) -> ProvisionError:
    assert isinstance(result.exception, ProvisionError), result.output
    return result.exception


def test_the_former_lock_is_applied_by_one_run(back: Any, tmp_path: Path) -> None:
    folder = keep(tmp_path)
    done = back("gpu01", "gpu02")
    assert done.exit_code == 0, (done.output, done.exception)
    ((options, arguments),) = back.ran
    assert options.hosts == ["gpu01", "gpu02"]
    assert arguments["former"] is True
    variables = json.loads(options.extra_vars[-1])
    assert variables["gpu_stacks"] == str(folder)
    assert variables["gpu_stack"] == ROW["wish"]
    assert (folder / f"{STACK}.yml").exists()
    assert (
        yaml.safe_load((folder / "gpu_lock.yml").read_text())["gpu_lock"]["digest"] == FORMER.digest
    )


def test_the_way_forward_and_what_keeps_it_back_are_reported(back: Any, tmp_path: Path) -> None:
    folder = keep(tmp_path)
    output = back("gpu01").output
    assert "A plain run takes these hosts forward again, to lock.yml" in output
    assert f"cp {folder}/lock.yml" in output
    assert '"tensorflow": "2.9.3"' in output


@pytest.mark.parametrize(
    ("wish", "reported"),
    [(ROW["wish"], False), ({"tensorflow": "2.12"}, True)],
    ids=["same", "other"],
)
def test_a_wish_that_is_another_since_then_is_reported(
    back: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wish: dict[str, Any], reported: bool
) -> None:
    """`render` refuses a lock that has no row for what lab/ wishes."""
    keep(tmp_path)
    (tmp_path / "lock.yml").touch()
    present = SimpleNamespace(digest=NOW, slim={"rows": [{"wish": wish}]})
    monkeypatch.setattr(projects, "read_lock", lambda _project: present)
    output = back("gpu01").output
    then = f"as it was then: gpu_stack: {json.dumps(ROW['wish'])}"
    assert (then in " ".join(output.split())) is reported, output


def test_a_lock_that_is_not_here_is_named(back: Any) -> None:
    error = refused(back("gpu01"))
    assert error.exit_code == 2
    assert "not on this controller" in error.message
    assert FORMER.digest in error.expected
    assert back.ran == []


def test_a_lock_file_that_was_put_there_is_enough(back: Any, tmp_path: Path) -> None:
    place = rollback.place(tmp_path, FORMER.digest)
    place.mkdir(parents=True)
    (place / "lock.yml").write_bytes(locks.dump(FORMER))
    assert back("gpu01").exit_code == 0
    assert (place / "gpu_lock.yml").exists()


def test_a_lock_file_of_another_lock_is_none(back: Any, tmp_path: Path) -> None:
    """Whatever its folder is called: the digest is inside."""
    other = rollback.place(tmp_path, OLDER["lock_digest"])
    keep(tmp_path).rename(other)
    assert rollback.find(tmp_path, OLDER["lock_digest"]) is None


@pytest.mark.parametrize(
    "answers", [{"gpu01": printed(NEW, OLD), "gpu02": printed(NEW, OLDER)}], ids=["apart"]
)
def test_hosts_that_go_back_to_different_states_are_refused(back: Any, tmp_path: Path) -> None:
    keep(tmp_path)
    error = refused(back())
    assert error.message.startswith("these hosts go back to different states")
    assert "`provision rollback gpu01`, `provision rollback gpu02`" in error.hint
    assert back.ran == []


@pytest.mark.parametrize("answers", [{"gpu01": printed(NEW, OLD)}], ids=["away"])
def test_a_host_that_does_not_answer_stops_it(back: Any, tmp_path: Path) -> None:
    keep(tmp_path)
    error = refused(back())
    assert isinstance(error, HostError)
    assert (error.where, error.got) == ("gpu02", "no route")


def test_a_host_that_is_not_there_is_named(back: Any) -> None:
    assert refused(back("gpu1")).message == "no such host with a gpu_stack"


def test_the_list_says_what_there_is(back: Any, tmp_path: Path) -> None:
    done = back("--list", "gpu01")
    assert "now  000000000000" in done.output
    assert f"--to 1  {FORMER.digest[7:19]}" in done.output
    assert "its lock is not on this controller" in done.output
    assert back.ran == []
    keep(tmp_path)
    rows = json.loads(back("--list", "--json", "gpu01").output)["hosts"]["gpu01"]
    assert [(row["to"], row["lock_here"]) for row in rows] == [(0, False), (1, True)]


@pytest.mark.parametrize(
    ("given", "file"),
    [
        ((), "lock.yml"),
        (("a=b",), "lock.yml"),
        (("gpu_verify=never gpu_stacks=/p/locks/abc",), "/p/locks/abc/gpu_lock.yml"),
        (('{"gpu_stacks": "/p q/locks/abc", "x": 1}',), "/p q/locks/abc/gpu_lock.yml"),
        (('{"gpu_stacks": "/pr\\u00fcfstand/locks"}', "@x.yml"), "/prüfstand/locks/gpu_lock.yml"),
        (("gpu_stacks='/p q/locks/abc' x=1",), "/p q/locks/abc/gpu_lock.yml"),
    ],
)
def test_a_rollbacks_report_tells_its_own_lock(given: tuple[str, ...], file: str) -> None:
    assert str(lock_file(Path(), given)) == file
