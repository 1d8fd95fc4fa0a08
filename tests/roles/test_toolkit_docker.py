"""roles/nvidia_container_toolkit/files: daemon.json merged as data."""

from __future__ import annotations

import ast
import importlib.util
import json
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_stack.components import nvidia_container_toolkit as look
from gpu_stack.host.context import Context, Result
from jinja2 import Environment
from packaging.version import Version

from provision.catalog import load

ROLE = Path(__file__).parents[2] / "roles" / "nvidia_container_toolkit"


def loaded(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROLE / "files" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


docker = loaded("docker")
STAT = "7 (dockerd) S 1 7 7 0 -1 4194560 9 0 0 0 1 2 0 0 20 0 9 0 5000 1 2 3\n"
FOREIGN = '{\n  "log-driver": "journald",\n  "dns": ["10.0.0.1"],\n  "über": 1.0\n}\n'


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(docker, "ROOT", str(tmp_path))
    monkeypatch.setattr(docker, "ask", lambda _arguments: "")
    return tmp_path


def put(root: Path, path: str, text: str) -> Path:
    target = root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, "utf-8")
    return target


def run(root: Path, capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    assert docker.main(list(argv)) == 0
    return json.loads(capsys.readouterr().out)


def test_what_the_role_knows_by_itself_is_the_catalogs() -> None:
    """Without a lock: the newest version, the four names, the place and the key."""
    (row,) = [one for one in load().nvidia_container_toolkit if one.architecture == "x86_64"]
    defaults = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text("utf-8"))
    names = yaml.safe_load((ROLE / "vars" / "main.yml").read_text("utf-8"))
    assert defaults["nvidia_container_toolkit_version"] == max(row.versions, key=Version)
    assert names["__nvidia_container_toolkit_names"] == sorted(row.packages)
    place = names["__nvidia_container_toolkit_nvidias"]
    assert (f"{place}/stable/deb/amd64", f"{place}/gpgkey") == (row.url, row.keyring.url)
    assert str(row.signed_by) in names["__nvidia_container_toolkit_fingerprints"]


# merging


def test_the_runtime_is_merged_and_every_other_key_stays(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = put(root, docker.CONFIG, FOREIGN)
    file.chmod(0o640)
    answer = run(root, capsys, "write")
    found = json.loads(file.read_text("utf-8"))
    runtimes = {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}
    assert found == {**json.loads(FOREIGN), "runtimes": runtimes}
    assert list(found)[:3] == ["log-driver", "dns", "über"]
    assert file.stat().st_mode & 0o7777 == 0o640
    kept = root / "etc/docker/daemon.json.provision-saved"
    assert answer == {"changed": True, "saved": str(kept)}
    assert kept.read_text("utf-8") == FOREIGN
    assert sorted(path.name for path in file.parent.iterdir()) == [file.name, kept.name]


def test_a_second_time_nothing_is_written(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = put(root, docker.CONFIG, FOREIGN)
    run(root, capsys, "write")
    before = file.stat()
    assert run(root, capsys, "write") == {"changed": False, "saved": None}
    assert file.stat().st_ino == before.st_ino
    assert len(list(file.parent.iterdir())) == 2


def test_other_runtimes_and_arguments_stay(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {"runtimes": {"kata": {"path": "/k"}, "nvidia": {"path": "/old", "args": ["-d"]}}}
    file = put(root, docker.CONFIG, json.dumps(before))
    run(root, capsys, "write")
    assert json.loads(file.read_text())["runtimes"] == {
        "kata": {"path": "/k"},
        "nvidia": {"path": "nvidia-container-runtime", "args": ["-d"]},
    }


@pytest.mark.parametrize("text", [None, "", " \n"])
def test_without_a_configuration_one_is_made(
    root: Path, capsys: pytest.CaptureFixture[str], text: str | None
) -> None:
    if text is not None:
        put(root, docker.CONFIG, text)
    run(root, capsys, "write")
    file = root / docker.CONFIG.lstrip("/")
    assert list(json.loads(file.read_text())) == ["runtimes"]
    assert file.stat().st_mode & 0o7777 == (0o644 if text is None else file.stat().st_mode & 0o7777)


@pytest.mark.parametrize("text", ["{broken", "[]", '{"runtimes": ["x"]}', "null"])
def test_what_is_no_configuration_is_refused_and_left(
    root: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    file = put(root, docker.CONFIG, text)
    assert docker.main(["write"]) == 1
    assert docker.CONFIG in capsys.readouterr().err
    assert file.read_text() == text
    assert list(file.parent.iterdir()) == [file]


def test_a_link_stays_one(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    real = put(root, "/srv/daemon.json", FOREIGN)
    link = root / docker.CONFIG.lstrip("/")
    link.parent.mkdir(parents=True)
    link.symlink_to(real)
    run(root, capsys, "write")
    assert link.is_symlink()
    assert "nvidia" in json.loads(real.read_text("utf-8"))["runtimes"]


def test_what_is_kept_is_never_overwritten(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ('{"a": 1}', '{"a": 2}'):
        put(root, docker.CONFIG, text)
        run(root, capsys, "write")
    kept = sorted((root / "etc/docker").glob("daemon.json.provision-saved*"))
    assert [json.loads(path.read_text()) for path in kept] == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("text", [None, FOREIGN])
def test_what_was_there_before_can_be_put_back(
    root: Path, capsys: pytest.CaptureFixture[str], text: str | None
) -> None:
    file = root / docker.CONFIG.lstrip("/")
    if text is not None:
        put(root, docker.CONFIG, text)
    saved = run(root, capsys, "write")["saved"]
    run(root, capsys, "restore", saved or "")
    assert (file.read_text("utf-8") if file.exists() else None) == text


# the restart that is owed


def test_a_write_owes_a_running_docker_its_restart(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(root, docker.CONFIG, FOREIGN)
    put(root, docker.PIDFILE, "7")
    stat = put(root, "/proc/7/stat", STAT)
    assert run(root, capsys, "look")["owed"] is False
    run(root, capsys, "write")
    assert run(root, capsys, "look")["owed"] is True
    # Whoever has restarted it since: it is another process.
    stat.write_text(STAT.replace("5000", "6000"))
    assert run(root, capsys, "look")["owed"] is False


def test_nobody_owes_one_to_a_docker_that_does_not_run(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(root, capsys, "owe") == {"owed": False}
    assert not (root / docker.OWED.lstrip("/")).exists()


def test_docker_is_asked_for_the_runtime(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for answer, rc in (
        ('{"nvidia": {}, "runc": {}}', 0),
        ('{"runc": {}}', 1),
        ("", 1),
        ("null", 1),
    ):
        monkeypatch.setattr(docker, "ask", lambda _arguments, answer=answer: answer)
        assert docker.main(["proof"]) == rc, answer
    assert "runc alone" in capsys.readouterr().err


# as the look sees it

CASES: list[dict[str, str]] = [
    {},
    {"/usr/bin/dockerd": "x"},
    {"/usr/sbin/dockerd": "x", docker.CONFIG: FOREIGN},
    {docker.CONFIG: "{broken"},
    {docker.CONFIG: "[]"},
    {docker.CONFIG: '{"runtimes": {"nvidia": {"path": "/usr/bin/nvidia-container-runtime"}}}'},
    {docker.CONFIG: '{"runtimes": {"nvidia": {"path": "/opt/x"}}}'},
    {docker.CONFIG: '{"runtimes": {"nvidia": "x"}}'},
    {docker.PIDFILE: "7\n", "/proc/7/stat": STAT},
    {docker.PIDFILE: "7", "/proc/7/stat": STAT, docker.OWED: "7 5000\n"},
    {docker.PIDFILE: "7", "/proc/7/stat": STAT.replace("dockerd", "sh"), docker.OWED: "7 5000"},
    {docker.PIDFILE: "x", docker.OWED: ""},
    {docker.SNAP: "x"},
]


@pytest.mark.parametrize("files", CASES, ids=range(len(CASES)))
def test_the_look_and_the_script_see_the_same(
    root: Path, capsys: pytest.CaptureFixture[str], files: dict[str, str]
) -> None:
    for path, text in files.items():
        put(root, path, text)
    told = run(root, capsys, "look")
    seen = look.docker(Context(root=str(root), runner=lambda _argv: Result(1, "", "")))
    assert {**seen, "fault": bool(seen["fault"])} == {
        **{key: told[key] for key in seen}, "fault": bool(told["fault"])
    }  # fmt: skip


# the removal


def test_the_entry_goes_and_all_else_stays(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = put(root, docker.CONFIG, FOREIGN)
    config.chmod(0o640)
    run(root, capsys, "write")
    assert run(root, capsys, "parting")["entry"] is True
    told = run(root, capsys, "take")
    assert json.loads(config.read_text("utf-8")) == json.loads(FOREIGN)
    assert config.stat().st_mode & 0o7777 == 0o640
    assert "nvidia" in Path(told["saved"]).read_text("utf-8")
    assert run(root, capsys, "take") == {"changed": False, "saved": None}
    assert run(root, capsys, "parting")["entry"] is False


def test_other_runtimes_stay_and_a_file_of_ours_alone_goes(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kata = {"kata": {"path": "/opt/kata"}}
    config = put(root, docker.CONFIG, json.dumps({"runtimes": kata}))
    run(root, capsys, "write")
    run(root, capsys, "take")
    assert json.loads(config.read_text("utf-8")) == {"runtimes": kata}
    config.unlink()
    run(root, capsys, "write")
    told = run(root, capsys, "take")
    assert not config.exists()
    assert docker.RUNTIME in Path(told["saved"]).read_text("utf-8")


@pytest.mark.parametrize("text", ["{}", '{"runtimes": {"nvidia": {"path": "/opt/x"}}}'])
def test_an_entry_that_leads_elsewhere_stays(
    root: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    config = put(root, docker.CONFIG, text)
    assert run(root, capsys, "take") == {"changed": False, "saved": None}
    assert config.read_text("utf-8") == text
    assert [path.name for path in config.parent.iterdir()] == [config.name]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"default-runtime": "nvidia"}, "default-runtime"),
        ("{broken", "is not JSON"),
    ],
)
def test_a_docker_that_would_not_start_keeps_it(
    root: Path, capsys: pytest.CaptureFixture[str], config: Any, said: str
) -> None:
    entry = {"runtimes": {"nvidia": {"path": docker.RUNTIME}}}
    text = config if isinstance(config, str) else json.dumps({**entry, **config})
    target = put(root, docker.CONFIG, text)
    found = run(root, capsys, "parting")
    assert (found["default"], bool(found["fault"])) == (said == "default-runtime", said[0] == "i")
    assert docker.main(["take"]) == 1
    assert said in capsys.readouterr().err
    assert target.read_text("utf-8") == text


def test_a_docker_that_runs_reads_its_configuration_anew(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """dockerd reads `runtimes` anew only where the file has the word; then it goes too."""
    told: list[tuple[int, int, Any]] = []
    config = put(root, docker.CONFIG, FOREIGN)
    answers = iter(['{"runc": {}, "nvidia": {}}', '{"runc": {}}'])

    def kill(pid: int, number: int) -> None:
        told.append((pid, number, json.loads(config.read_text("utf-8"))))
        monkeypatch.setattr(docker, "ask", lambda _arguments: next(answers))

    monkeypatch.setattr(docker.os, "kill", kill)
    monkeypatch.setattr(docker.time, "sleep", lambda _seconds: None)
    run(root, capsys, "write")
    run(root, capsys, "take")
    assert told == []
    run(root, capsys, "write")
    put(root, docker.PIDFILE, "7")
    put(root, "/proc/7/stat", STAT)
    run(root, capsys, "take")
    assert told == [(7, signal.SIGHUP, {**json.loads(FOREIGN), "runtimes": {}})]
    assert next(answers, None) is None
    assert json.loads(config.read_text("utf-8")) == json.loads(FOREIGN)
    run(root, capsys, "take")
    assert len(told) == 1


WORKERS = {
    "a": "/plain runc null",
    "b": "/old-job nvidia null",
    "c": '/job runc [{"Driver":"","Count":-1,"Capabilities":[["compute","gpu"]]}]',
    "d": '/named runc [{"Driver":"nvidia","Capabilities":null}]',
    "e": '/other runc [{"Driver":"cdi","Capabilities":null}]',
    "f": "",  # it has ended meanwhile
}


@pytest.mark.parametrize("answers", [True, False])
@pytest.mark.parametrize("runs", [True, False])
def test_the_look_and_the_script_find_the_same_containers(
    root: Path, monkeypatch: pytest.MonkeyPatch, *, answers: bool, runs: bool
) -> None:
    if runs:
        put(root, docker.PIDFILE, "7")
        put(root, "/proc/7/stat", STAT)

    def ask(arguments: Sequence[str]) -> str:
        if not answers:
            return ""
        if arguments[0] == "info":
            return "6 0 false\n"
        return "\n".join(WORKERS) if arguments[0] == "ps" else WORKERS[arguments[-1]]

    monkeypatch.setattr(docker, "ask", ask)

    def program(argv: Sequence[str]) -> Result:
        return Result(0 if answers else 1, ask(argv[argv.index("--host") + 2 :]), "")

    seen = look.users(Context(root=str(root), runner=program))
    assert seen == docker.users()
    assert seen == ([] if not runs else ["job", "named", "old-job"] if answers else None)


def test_the_script_runs_on_the_oldest_python() -> None:
    text = (ROLE / "files" / "docker.py").read_text("utf-8")
    ast.parse(text, feature_version=(3, 7))
    # It travels through Ansible's templating, which must find nothing to do in it.
    assert "{{" not in text
    assert "{%" not in text


def tasks(*files: str) -> list[str]:
    """Names of the tasks in these files."""
    return [
        task["name"]
        for file in files
        for task in yaml.safe_load((ROLE / "tasks" / f"{file}.yml").read_text("utf-8"))
    ]


def test_docker_is_asked_before_anything_is_touched_and_again_before_its_restart() -> None:
    names = tasks("present", "runtimes_look", "docker")
    first = names.index(
        "present | Stop where docker, containerd, CRI-O or podman could not be served, "
        "before anything is touched"
    )
    assert "runtimes_look | Stop where docker could not be configured" in names
    assert first < names.index("present | Finish what an interrupted dpkg left")
    again, refuse = (
        names.index("docker | Look at docker again"),
        "docker | Refuse to lose containers",
    )
    assert again < names.index(refuse) < names.index("docker | Restart it")


def test_docker_forgets_the_runtime_before_its_program_goes() -> None:
    names = tasks("absent")
    order = [
        "absent | Stop where somebody needs it, before anything is touched",
        "absent | Find the packages that are this program's",
        "absent | Make docker forget the runtime",
        "absent | Remove the packages",
        "absent | Remove the files",
    ]
    assert [name for name in names if name in order] == order


def test_apt_knows_the_archive_before_it_is_asked_for_docker() -> None:
    """With the toolkit there already, nothing else of the role fetches apt's indices."""
    names = tasks("engine")
    fetch, ask = "engine | Update apt's indices", "engine | Ask apt what would come and go"
    assert fetch in names
    assert names.index(fetch) < names.index(ask)


def test_containerd_is_looked_at_again_once_docker_brought_it() -> None:
    names = tasks("engine")
    again = "engine | Look at containerd, which came with docker"
    assert again in names
    assert names.index("engine | Look at docker now") < names.index(again)


@pytest.mark.parametrize("merged", [True, False])
def test_a_configuration_is_called_back_only_where_it_was_put_back(merged: bool) -> None:
    """Where only a restart was owed nothing was written, so nothing can come back."""
    listed = yaml.safe_load((ROLE / "tasks" / "containerd.yml").read_text("utf-8"))
    (fail,) = [one for one in listed[-1]["rescue"] if "ansible.builtin.fail" in one]
    values = {
        "__nvidia_container_toolkit_containerd_merged": merged,
        "__nvidia_container_toolkit_containerd_started": {"rc": 1},
    }
    said = Environment(autoescape=True).from_string(fail["ansible.builtin.fail"]["msg"])
    words = said.render(values)
    assert ("the configuration from before is back" in words) is merged
    assert "does not start" in words
