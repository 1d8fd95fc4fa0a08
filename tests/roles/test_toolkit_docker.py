"""daemon.json merged as data, and the order of the role's tasks."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_stack.components.nvidia_container_toolkit import docker, docker_runtime
from gpu_stack.components.nvidia_container_toolkit.docker_runtime import Docker
from gpu_stack.components.nvidia_container_toolkit.runtime import RestartError
from gpu_stack.host.context import Context, Result
from gpu_stack.host.refusal import RefusalError
from packaging.version import Version

from provision.catalog import load
from tests.host_tree import put

ROLE = Path(__file__).parents[2] / "roles" / "nvidia_container_toolkit"
MODULE = "provision.gpu.container_runtime"


STAT = "7 (dockerd) S 1 7 7 0 -1 4194560 9 0 0 0 1 2 0 0 20 0 9 0 5000 1 2 3\n"
FOREIGN = '{\n  "log-driver": "journald",\n  "dns": ["10.0.0.1"],\n  "über": 1.0\n}\n'


class Machine:
    """A host's files, and what its docker says: `says` answers its questions, "" for none."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.dead = False
        self.stops = False
        self.restarted: list[str] = []
        self.says: Callable[[Sequence[str]], str] = lambda _arguments: ""

    def run(self, argv: Sequence[str]) -> Result:
        answer = self.says(argv[argv.index("--host") + 2 :])
        return Result(0 if answer else 1, answer, "")

    def context(self, **options: str) -> Context:
        named = {f"nvidia_container_toolkit_{name}": value for name, value in options.items()}
        return Context(root=str(self.root), options=named, runner=self.run)

    def role(self, **options: str) -> Docker:
        """What the role's module works with."""
        return Docker(self.context(**options), self.restart)

    def runs(self, start: int = 5000) -> None:
        put(self.root, "/usr/bin/dockerd", "x")
        put(self.root, docker.PIDFILE, "7")
        put(self.root, "/proc/7/stat", STAT.replace("5000", str(start)))

    def restart(self, unit: str) -> Result:
        """Another process; none where it is dead, or with the entry where it stops at that."""
        self.restarted.append(unit)
        config = docker.parsed(self.context().read(docker.CONFIG))[0]
        if self.dead or (self.stops and docker.program(config)):
            return Result(1, "", "Job for docker.service failed.\n")
        self.runs(5000 + 1000 * len(self.restarted))
        return Result(0, "", "")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def root(machine: Machine) -> Path:
    return machine.root


def test_what_the_role_knows_by_itself_is_the_catalogs() -> None:
    """Without a lock: the newest version, the four names, the place and the key."""
    (row,) = [
        row for row in load().rows("nvidia_container_toolkit") if row.architecture == "x86_64"
    ]
    defaults = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text("utf-8"))
    names = yaml.safe_load((ROLE / "vars" / "main.yml").read_text("utf-8"))
    assert defaults["nvidia_container_toolkit_version"] == max(row.versions, key=Version)
    assert names["__nvidia_container_toolkit_names"] == sorted(row.packages)
    place = names["__nvidia_container_toolkit_nvidias"]
    assert (f"{place}/stable/deb/amd64", f"{place}/gpgkey") == (row.url, row.keyring.url)
    assert str(row.signed_by) in names["__nvidia_container_toolkit_fingerprints"]


# merging


def test_the_runtime_is_merged_and_every_other_key_stays(machine: Machine, root: Path) -> None:
    file = put(root, docker.CONFIG, FOREIGN)
    file.chmod(0o640)
    answer = machine.role().write()
    written = json.loads(file.read_text("utf-8"))
    runtimes = {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}
    assert written == {**json.loads(FOREIGN), "runtimes": runtimes}
    assert list(written)[:3] == ["log-driver", "dns", "über"]
    assert file.stat().st_mode & 0o7777 == 0o640
    kept = root / "etc/docker/daemon.json.provision-saved"
    assert (answer["changed"], answer["saved"]) == (True, str(kept))
    # The rest of the file may hold a proxy's password.
    assert answer["diff"]["before"] == ""
    assert json.loads(answer["diff"]["after"]) == {"runtimes": runtimes}
    assert kept.read_text("utf-8") == FOREIGN
    assert sorted(path.name for path in file.parent.iterdir()) == [file.name, kept.name]


def test_a_second_time_nothing_is_written(machine: Machine, root: Path) -> None:
    file = put(root, docker.CONFIG, FOREIGN)
    machine.role().write()
    before = file.stat()
    assert machine.role().write() == {"changed": False, "saved": None}
    assert file.stat().st_ino == before.st_ino
    assert len(list(file.parent.iterdir())) == 2


def test_other_runtimes_and_arguments_stay(machine: Machine, root: Path) -> None:
    before = {"runtimes": {"kata": {"path": "/k"}, "nvidia": {"path": "/old", "args": ["-d"]}}}
    file = put(root, docker.CONFIG, json.dumps(before))
    machine.role().write()
    assert json.loads(file.read_text())["runtimes"] == {
        "kata": {"path": "/k"},
        "nvidia": {"path": "nvidia-container-runtime", "args": ["-d"]},
    }


@pytest.mark.parametrize("text", [None, "", " \n"])
def test_without_a_configuration_one_is_made(
    machine: Machine, root: Path, text: str | None
) -> None:
    if text is not None:
        put(root, docker.CONFIG, text)
    machine.role().write()
    file = root / docker.CONFIG.lstrip("/")
    assert list(json.loads(file.read_text())) == ["runtimes"]
    assert file.stat().st_mode & 0o7777 == (0o644 if text is None else file.stat().st_mode & 0o7777)


@pytest.mark.parametrize("text", ["{broken", "[]", '{"runtimes": ["x"]}', "null"])
def test_what_is_no_configuration_is_refused_and_left(
    machine: Machine, root: Path, text: str
) -> None:
    file = put(root, docker.CONFIG, text)
    with pytest.raises(RefusalError, match=docker.CONFIG):
        machine.role().write()
    assert file.read_text() == text
    assert list(file.parent.iterdir()) == [file]


def test_a_link_stays_one(machine: Machine, root: Path) -> None:
    real = put(root, "/srv/daemon.json", FOREIGN)
    link = root / docker.CONFIG.lstrip("/")
    link.parent.mkdir(parents=True)
    link.symlink_to(real)
    machine.role().write()
    assert link.is_symlink()
    assert "nvidia" in json.loads(real.read_text("utf-8"))["runtimes"]


def test_what_is_kept_is_never_overwritten(machine: Machine, root: Path) -> None:
    for text in ('{"a": 1}', '{"a": 2}'):
        put(root, docker.CONFIG, text)
        machine.role().write()
    kept = sorted((root / "etc/docker").glob("daemon.json.provision-saved*"))
    assert [json.loads(path.read_text()) for path in kept] == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("text", [None, FOREIGN])
def test_what_was_there_before_can_be_put_back(
    machine: Machine, root: Path, text: str | None
) -> None:
    file = root / docker.CONFIG.lstrip("/")
    if text is not None:
        put(root, docker.CONFIG, text)
    saved = machine.role().write()["saved"]
    machine.role().restore(saved)
    assert (file.read_text("utf-8") if file.exists() else None) == text


# the restart that is owed


def test_a_write_owes_a_running_docker_its_restart(machine: Machine, root: Path) -> None:
    put(root, docker.CONFIG, FOREIGN)
    put(root, docker.PIDFILE, "7")
    stat = put(root, "/proc/7/stat", STAT)
    assert machine.role().look()["owed"] is False
    machine.role().write()
    assert machine.role().look()["owed"] is True
    # Whoever has restarted it since: it is another process.
    stat.write_text(STAT.replace("5000", "6000"))
    assert machine.role().look()["owed"] is False


@pytest.mark.parametrize(
    ("runs", "status", "wish", "owed"),
    [
        (True, None, "auto", True),
        (True, "half-installed", "required", True),
        (True, "installed", "auto", False),
        (True, None, "none", False),
        (False, None, "auto", False),
    ],
)
def test_a_docker_that_runs_owes_one_to_the_hook_that_comes(
    machine: Machine, root: Path, runs: bool, status: str | None, wish: str, owed: bool
) -> None:
    if runs:
        machine.runs()
    if status is not None:
        stanza = f"Package: {docker.TOOLKIT}\nStatus: install ok {status}\nVersion: 1\n"
        put(root, "/var/lib/dpkg/status", stanza)
    machine.role(docker=wish).restart_due()
    assert (root / docker.OWED.lstrip("/")).exists() is owed
    assert machine.role().look()["owed"] is owed
    if owed:
        assert (root / docker.OWED.lstrip("/")).read_text("utf-8") == "7 5000\n"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ('{"nvidia": {}, "runc": {}}', ""),
        (
            '{"runc": {}}',
            "docker knows the runtimes runc alone, though /etc/docker/daemon.json names the "
            "runtime nvidia. journalctl -u docker says why; a docker started with --config-file "
            "reads another file.",
        ),
        ("", "docker runs and does not answer, though"),
        ("null", "docker runs and does not answer, though"),
    ],
)
def test_docker_is_asked_for_the_runtime(machine: Machine, answer: str, words: str) -> None:
    machine.says = lambda _arguments: answer
    machine.role().proof({"running": False})
    if not words:
        machine.role().proof({"running": True})
        return
    with pytest.raises(RefusalError, match=re.escape(words)):
        machine.role().proof({"running": True})


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
def test_the_look_and_the_role_see_the_same(
    machine: Machine, root: Path, files: dict[str, str]
) -> None:
    for path, text in files.items():
        put(root, path, text)
    answer, seen = machine.role().look(), docker.look(machine.context())
    assert {**seen, "fault": bool(seen["fault"])} == {
        **{key: answer[key] for key in seen}, "fault": bool(answer["fault"])
    }  # fmt: skip


def test_what_only_the_role_reads_is_a_fault_too(machine: Machine, root: Path) -> None:
    """The look takes for absent what it can't read; nothing may be written over that."""
    (root / docker.CONFIG.lstrip("/")).mkdir(parents=True)
    assert "daemon.json can't be read: " in machine.role().look()["fault"]
    (root / docker.CONFIG.lstrip("/")).rmdir()
    (root / docker.CONFIG.lstrip("/")).write_bytes(b'{"labels": ["\xff"]}')
    assert "daemon.json can't be read: 'utf-8'" in machine.role().look()["fault"]


# the removal


def test_the_entry_goes_and_all_else_stays(machine: Machine, root: Path) -> None:
    config = put(root, docker.CONFIG, FOREIGN)
    config.chmod(0o640)
    machine.role().write()
    assert machine.role().removal_state()["entry"] is True
    answer = machine.role().take()
    assert json.loads(config.read_text("utf-8")) == json.loads(FOREIGN)
    assert config.stat().st_mode & 0o7777 == 0o640
    assert "nvidia" in Path(answer["saved"]).read_text("utf-8")
    assert machine.role().take() == {"changed": False, "saved": None}
    assert machine.role().removal_state()["entry"] is False


def test_other_runtimes_stay_and_a_file_of_ours_alone_goes(machine: Machine, root: Path) -> None:
    kata = {"kata": {"path": "/opt/kata"}}
    config = put(root, docker.CONFIG, json.dumps({"runtimes": kata}))
    machine.role().write()
    machine.role().take()
    assert json.loads(config.read_text("utf-8")) == {"runtimes": kata}
    config.unlink()
    machine.role().write()
    answer = machine.role().take()
    assert not config.exists()
    assert docker.RUNTIME in Path(answer["saved"]).read_text("utf-8")


@pytest.mark.parametrize("text", ["{}", '{"runtimes": {"nvidia": {"path": "/opt/x"}}}'])
def test_an_entry_that_leads_elsewhere_stays(machine: Machine, root: Path, text: str) -> None:
    config = put(root, docker.CONFIG, text)
    assert machine.role().take() == {"changed": False, "saved": None}
    assert config.read_text("utf-8") == text
    assert [path.name for path in config.parent.iterdir()] == [config.name]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"default-runtime": "nvidia"}, "default-runtime"),
        ("{broken", "is not JSON"),
    ],
)
def test_a_docker_that_would_not_start_keeps_it(
    machine: Machine, root: Path, config: Any, expected: str
) -> None:
    entry = {"runtimes": {"nvidia": {"path": docker.RUNTIME}}}
    text = config if isinstance(config, str) else json.dumps({**entry, **config})
    target = put(root, docker.CONFIG, text)
    state = machine.role().removal_state()
    assert (state["default"], bool(state["fault"])) == (
        expected == "default-runtime",
        expected[0] == "i",
    )
    with pytest.raises(RefusalError, match=expected):
        machine.role().take()
    assert target.read_text("utf-8") == text


def test_a_docker_that_runs_reads_its_configuration_anew(
    machine: Machine, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """dockerd reads `runtimes` anew only where the file has the word; then it goes too."""
    signals: list[tuple[int, int, Any]] = []
    config = put(root, docker.CONFIG, FOREIGN)
    answers = iter(['{"runc": {}, "nvidia": {}}', '{"runc": {}}'])

    def kill(pid: int, number: int) -> None:
        signals.append((pid, number, json.loads(config.read_text("utf-8"))))
        machine.says = lambda _arguments: next(answers)

    monkeypatch.setattr(docker_runtime.os, "kill", kill)
    monkeypatch.setattr(docker_runtime.time, "sleep", lambda _seconds: None)
    machine.role().write()
    machine.role().take()
    assert signals == []
    machine.role().write()
    machine.runs()
    machine.role().take()
    assert signals == [(7, signal.SIGHUP, {**json.loads(FOREIGN), "runtimes": {}})]
    assert next(answers, None) is None
    assert json.loads(config.read_text("utf-8")) == json.loads(FOREIGN)
    machine.role().take()
    assert len(signals) == 1


WORKERS = {
    "a": "/plain runc null",
    "b": "/old-job nvidia null",
    "c": '/job runc [{"Driver":"","Count":-1,"Capabilities":[["compute","gpu"]]}]',
    "d": '/named runc [{"Driver":"nvidia","Capabilities":null}]',
    "e": '/other runc [{"Driver":"cdi","Capabilities":null}]',
    "f": "",  # it has ended meanwhile
}


def at_work(arguments: Sequence[str]) -> str:
    if arguments[0] == "info":
        return "6 0 false\n"
    return "\n".join(WORKERS) if arguments[0] == "ps" else WORKERS[arguments[-1]]


@pytest.mark.parametrize(
    ("runs", "answers", "names"),
    [
        (True, True, ["job", "named", "old-job"]),
        (True, False, None),
        (False, True, []),
        (False, False, []),
    ],
)
def test_containers_that_were_given_gpus_are_found(
    machine: Machine, runs: bool, answers: bool, names: list[str] | None
) -> None:
    if runs:
        machine.runs()
    if answers:
        machine.says = at_work
    assert docker.users(machine.context()) == names
    assert machine.role().removal_state()["users"] == names


# the steps of the module


class Answering:
    """A docker that runs and answers, with so many containers; it knows what it started with."""

    def __init__(self, machine: Machine, running: int = 0, live: bool = False) -> None:
        self.machine, self.running, self.live = machine, running, live
        machine.runs()
        machine.says = self.answer

    def answer(self, arguments: Sequence[str]) -> str:
        if "json .Runtimes" in arguments[-1]:
            text = self.machine.context().read(docker.CONFIG)
            return json.dumps({"runc": {}, **docker.parsed(text)[0].get("runtimes", {})})
        if arguments[0] == "info":
            return f"{self.running} 0 {str(self.live).lower()}\n"
        return ""


def toolkit(root: Path) -> None:
    stanza = f"Package: {docker.TOOLKIT}\nStatus: install ok installed\nVersion: 1\n"
    put(root, "/var/lib/dpkg/status", stanza)


def test_a_call_writes_restarts_and_has_nothing_left_to_do(machine: Machine, root: Path) -> None:
    put(root, docker.CONFIG, FOREIGN)
    Answering(machine)
    toolkit(root)
    done = machine.role().present()
    assert (done["changed"], done["restarted"]) == (True, True)
    assert machine.restarted == ["docker.service"]
    again = machine.role().present()
    assert (again["changed"], again["restarted"], again["installed"]) == (False, False, True)


def test_check_mode_says_what_would_be_done_and_does_nothing(machine: Machine, root: Path) -> None:
    config = put(root, docker.CONFIG, FOREIGN)
    Answering(machine)
    answer = machine.role().present(check=True)
    assert answer["changed"] is True
    assert answer["msg"] == (
        "Would make the runtime nvidia known to docker in /etc/docker/daemon.json, and restart "
        "docker where it runs"
    )
    assert config.read_text("utf-8") == FOREIGN
    assert list(config.parent.iterdir()) == [config]
    assert not (root / "run/provision").exists()
    assert machine.restarted == []
    machine.role().write()
    assert machine.role().present(check=True)["changed"] is True  # a restart is due
    (root / docker.OWED.lstrip("/")).unlink()
    assert machine.role().present(check=True)["changed"] is True  # the hook is still to come
    toolkit(root)
    assert machine.role().present(check=True) == {"changed": False, "installed": True}
    assert machine.role().absent(check=True)["changed"] is True
    assert docker.RUNTIME in config.read_text("utf-8")


def test_who_is_left_alone_or_not_there_is_not_touched(machine: Machine, root: Path) -> None:
    config = put(root, docker.CONFIG, FOREIGN)
    assert machine.role().present() == {"changed": False, "installed": False}
    assert machine.role(docker_engine="distribution").present(check=True)["changed"] is False
    Answering(machine)
    assert machine.role(docker="none").present() == {"changed": False}
    assert machine.role(docker="none").absent() == {"changed": False}
    assert config.read_text("utf-8") == FOREIGN


def test_what_would_not_be_served_is_refused(machine: Machine, root: Path) -> None:
    required = {"docker": "required"}
    for check in (True, False):
        with pytest.raises(RefusalError, match=r"and docker is not installed\. Install docker.io"):
            machine.role(**required).present(check)
    coming = {**required, "docker_engine": "distribution"}
    assert machine.role(**coming).present(check=True)["changed"] is False
    put(root, docker.SNAP, "x")
    with pytest.raises(RefusalError, match="not installed, but from snap, whose configuration"):
        machine.role(**coming).present(check=True)
    with pytest.raises(RefusalError, match="Docker is here from snap; the one of snap reads"):
        machine.role().present(check=True)
    machine.runs()
    with pytest.raises(RefusalError, match="Docker is here from snap and from a package; the"):
        machine.role().present(check=True)


def test_dockers_own_packages_replace_nothing(machine: Machine, root: Path) -> None:
    stanza = "Package: {}\nStatus: install ok installed\nVersion: 1\n\n"
    here = stanza.format("docker.io") + stanza.format("runc")
    put(root, "/var/lib/dpkg/status", here)
    words = "is docker-ce, and docker.io, runc is installed, which apt would remove for it. Nothing"
    with pytest.raises(RefusalError, match=re.escape(words)):
        machine.role(docker_engine="docker-ce").present(check=True)
    assert machine.role(docker_engine="distribution").present(check=True)["changed"] is False
    put(root, "/var/lib/dpkg/status", here + stanza.format("docker-ce"))
    assert machine.role(docker_engine="docker-ce").present(check=True)["changed"] is False


def test_a_file_that_is_no_json_is_refused_with_the_way_out(machine: Machine, root: Path) -> None:
    machine.runs()
    put(root, docker.CONFIG, "{broken")
    words = r"daemon.json is not JSON: .*nothing was changed: repair it \(python3 -m json.tool"
    for step in (machine.role().present, machine.role().absent):
        machine.says = lambda _arguments: "0 0 false"
        with pytest.raises(RefusalError, match=words):
            step(check=True)
    with pytest.raises(RefusalError, match=r"^/etc/docker/daemon.json is not JSON: .*char 1\)$"):
        machine.role().present()


@pytest.mark.parametrize(
    ("running", "words"),
    [(2, r"running containers would be lost \(2\)"), (None, "docker runs and does not answer, so")],
)
def test_containers_are_not_ended(
    machine: Machine, root: Path, running: int | None, words: str
) -> None:
    put(root, docker.CONFIG, FOREIGN)
    engine = Answering(machine, running or 0)
    toolkit(root)
    if running is None:
        machine.says = lambda _arguments: ""
    first = f"Docker has to be restarted to find the runtime, and {words}.* Nothing was changed. "
    with pytest.raises(RefusalError, match=first + "Stop the containers when their users"):
        machine.role().present(check=True)
    # Such a container was started since then: the note stays, and the next run restarts.
    later = f"Docker still has to be restarted to find the runtime, and {words}.* is written. Stop"
    with pytest.raises(RefusalError, match=later):
        machine.role().present()
    with pytest.raises(RefusalError, match=first):
        machine.role().present(check=True)
    assert machine.restarted == []
    engine.live, machine.says = True, engine.answer
    done = machine.role().present()
    assert (done["changed"], done["saved"], done["restarted"]) == (True, None, True)


def test_what_is_needed_is_not_taken(machine: Machine, root: Path) -> None:
    config = put(root, docker.CONFIG, FOREIGN)
    machine.role().write()
    machine.runs()
    machine.says = at_work
    words = "again without it: job, named, old-job. Stop them when their users agree, then run"
    for role in (machine.role(), machine.role(docker="none")):
        for check in (True, False):
            with pytest.raises(RefusalError, match=words):
                role.absent(check)
    machine.says = lambda _arguments: ""
    with pytest.raises(RefusalError, match="whether containers use the toolkit cannot be known"):
        machine.role().absent()
    machine.says = lambda arguments: "0 0 false" if arguments[0] == "info" else ""
    text = config.read_text("utf-8")
    whole = {**json.loads(text), "default-runtime": "nvidia"}
    config.write_text(json.dumps(whole), "utf-8")
    with pytest.raises(RefusalError, match="names nvidia as its default-runtime, and docker would"):
        machine.role(docker="none").absent()
    assert json.loads(config.read_text("utf-8")) == whole


@pytest.mark.parametrize(
    ("dead", "end"), [(False, "runs with it"), (True, "does not start with it either")]
)
def test_one_that_does_not_start_with_it_gets_its_file_back(
    machine: Machine, root: Path, dead: bool, end: str
) -> None:
    config = put(root, docker.CONFIG, FOREIGN)
    Answering(machine)
    machine.stops, machine.dead = True, dead
    with pytest.raises(RestartError) as refused:
        machine.role().present()
    assert str(refused.value) == (
        "Docker did not start with the runtime nvidia in /etc/docker/daemon.json; the "
        f"configuration from before is back, and docker {end}. journalctl -u docker says why: a "
        "unit that gives dockerd --add-runtime, for one, allows no runtimes in the file."
    )
    assert refused.value.result["said"] == "Job for docker.service failed."
    assert config.read_text("utf-8") == FOREIGN
    assert machine.restarted == ["docker.service"] * 2


def tasks(*files: str) -> list[str]:
    """Names of the tasks in these files."""
    return [
        task["name"]
        for file in files
        for task in yaml.safe_load((ROLE / "tasks" / f"{file}.yml").read_text("utf-8"))
    ]


def test_docker_is_asked_before_anything_is_touched() -> None:
    names = tasks("present")
    first = names.index(
        "present | Stop where docker, containerd, CRI-O or podman could not be served, "
        "before anything is touched"
    )
    assert first < names.index("present | Finish what an interrupted dpkg left")


@pytest.mark.parametrize("file", ["runtimes/look", "absent/refuse"])
def test_a_look_is_in_check_mode_and_changes_nothing(file: str) -> None:
    listed = yaml.safe_load((ROLE / "tasks" / f"{file}.yml").read_text("utf-8"))
    looks = [task for task in listed if MODULE in task]
    assert [task[MODULE]["runtime"] for task in looks] == ["docker", "containerd", "crio"]
    assert all((task["check_mode"], task["changed_when"]) == (True, False) for task in looks)


def test_docker_forgets_the_runtime_before_its_program_goes() -> None:
    names = tasks("absent")
    order = [
        "absent | Stop where somebody needs it, before anything is touched",
        "absent | Refuse where other packages need what would go",
        "absent | Make docker forget the runtime",
        "absent | Remove the packages",
        "absent | Remove the files",
    ]
    assert [name for name in names if name in order] == order


def test_apt_knows_the_archive_before_it_is_asked_for_docker() -> None:
    """With the toolkit there already, nothing else of the role fetches apt's indices."""
    names = tasks("engine/install")
    fetch = "engine | install | Update apt's indices"
    ask = "engine | install | Ask apt what would come and go"
    assert fetch in names
    assert names.index(fetch) < names.index(ask)


def test_containerd_is_looked_at_again_once_docker_brought_it() -> None:
    names = tasks("engine/install")
    again = "engine | install | Look at containerd, which came with docker"
    assert again in names
    assert names.index("engine | install | Install docker") < names.index(again)
