"""NVIDIA's container toolkit: what the look sees of packages, source and docker, and the plan."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import converged_host as made
import converged_toolkit
import jinja2
import pytest
from converged_host import ELF, Host
from converged_toolkit import FILES, NAMES, URL
from gpu_stack import receipt
from gpu_stack.change import change
from gpu_stack.components import nvidia_container_toolkit as toolkit
from gpu_stack.components.gpu_workspace import rules as workspace_rules
from gpu_stack.components.nvidia_container_toolkit import docker as docker_look
from gpu_stack.host import other_sources
from gpu_stack.host.context import Result
from gpu_stack.plan import contradictions

TEMPLATES = Path(__file__).parents[3] / "roles" / "nvidia_container_toolkit" / "templates"
VERSION = "1.20.1"
ROW = converged_toolkit.row(VERSION)
FOREIGN = {"log-driver": "journald", "runtimes": {"kata": {"path": "/opt/kata/bin/kata"}}}
CONFIGURED = {
    **FOREIGN,
    "runtimes": {**FOREIGN["runtimes"], "nvidia": {"args": [], "path": docker_look.RUNTIME}},  # type: ignore[dict-item]
}
STAT = "812 (dockerd) S 1 812 812 0 -1 4194560 9 0 0 0 1 2 0 0 20 0 9 0 {start} 1 2 3\n"


def lock() -> dict[str, Any]:
    return converged_toolkit.lock(VERSION)


def docker(host: Host, config: Any = None, *, start: int | None = 5000) -> None:
    """A docker of Debian's; with `start` one that runs since then."""
    host.write("/usr/sbin/dockerd", ELF)
    if config is not None:
        host.write(docker_look.CONFIG, config if isinstance(config, str) else json.dumps(config))
    if start is not None:
        host.write(docker_look.PIDFILE, "812")
        host.write("/proc/812/stat", STAT.format(start=start))


@pytest.fixture
def host(tmp_path: Path) -> Host:
    host = made.make(tmp_path)
    converged_toolkit.install(host, VERSION)
    return host


def items(host: Host, **options: Any) -> list[tuple[str, str | None, str | None]]:
    """What changes of the toolkit, beside the receipt's own of a wish for absence."""
    changes = host.plan(lock=lock(), options=options)["changes"]
    others = {receipt.NAME} if "nvidia_container_toolkit_state" in options else set()
    assert {change["component"] for change in changes} <= {toolkit.NAME, *others}
    mine = [change for change in changes if change["component"] == toolkit.NAME]
    return [(change["item"], change["from"], change["to"]) for change in mine]


ENTRY = f"{docker_look.CONFIG} runtimes.nvidia"
RESTART = (docker_look.RESTART, "started before them", "restarted")


def test_a_host_as_the_role_leaves_it_has_an_empty_plan(host: Host) -> None:
    plan = host.plan(lock=lock())
    assert plan["changes"] == []
    assert plan["state"][toolkit.NAME]["version"] == "1.20.1"


def test_so_it_has_with_a_docker_that_knows_the_runtime(host: Host) -> None:
    docker(host, CONFIGURED)
    assert items(host) == []


def test_a_stack_without_it_plans_nothing_whatever_is_there(host: Host) -> None:
    docker(host, "{broken")
    host.write("/etc/apt/sources.list.d/x.list", f"deb {URL} /\n")
    plan = host.plan()
    assert plan["changes"] == []
    assert plan["blockers"] == []
    assert plan["state"][toolkit.NAME] == {"version": "1.20.1"}


def test_a_bare_host_gets_source_packages_and_holds(tmp_path: Path) -> None:
    named = [item for item, _old, _new in items(made.make(tmp_path))]
    assert named == [
        *sorted([toolkit.KEY, toolkit.SOURCES, toolkit.PREFERENCES, toolkit.APT]), *NAMES
    ]  # fmt: skip


def test_it_comes_after_the_environment_and_before_tensorflow(tmp_path: Path) -> None:
    host = Host(tmp_path)
    for path in ("/etc/os-release", "/proc/sys/kernel/osrelease", "/proc/sys/kernel/arch"):
        text = made.make(tmp_path / "other").path(path).read_text()
        host.write(path, text)
    order = host.plan(lock=lock())["components"]
    assert order[-4:] == ["gpu_env", toolkit.NAME, "tensorflow", "receipt"]


def _package(version: str = "1.20.1-1", state: str = "") -> Callable[[Host], None]:
    return lambda host: host.package(NAMES[1], version, [FILES[NAMES[1]]], state)


def _write(path: str, text: str) -> Callable[[Host], None]:
    return lambda host: host.write(path, text)


HALF = "hold ok half-installed"
DAMAGE: list[tuple[Callable[[Host], None], list[tuple[str, str | None]]]] = [
    (_package("1.17.8-1"), [(NAMES[1], "1.17.8-1")]),
    (_package("1.21.0-1"), [(NAMES[1], "1.21.0-1")]),
    (_package(state="install ok installed"), [(f"{NAMES[1]} hold", "not held")]),
    (_package(state=HALF), [(NAMES[1], "half-installed")]),
    (lambda host: host.remove(FILES[NAMES[0]]), [(FILES[NAMES[0]], "missing")]),
    (_write(toolkit.KEY, "another"), [(toolkit.KEY, "other content")]),
    (_write(toolkit.SOURCES, "Types: deb\n"), [(toolkit.SOURCES, "other content")]),
    (lambda host: host.remove(toolkit.PREFERENCES), [(toolkit.PREFERENCES, "absent")]),
    (lambda host: host.path(toolkit.APT).chmod(0o600), [(toolkit.APT, "mode 0600")]),
    (
        _write("/etc/apt/sources.list.d/nvidia-container-toolkit.list", f"deb {URL} /\n"),
        [("/etc/apt/sources.list.d/nvidia-container-toolkit.list", "in apt's way")],
    ),
    (
        _write(
            "/etc/apt/sources.list.d/nvidia-docker.list",
            "deb https://nvidia.github.io/nvidia-docker/ubuntu18.04/amd64 /\n",
        ),
        [],
    ),
]


@pytest.mark.parametrize(("damage", "expected"), DAMAGE)
def test_each_damage_is_the_one_change(
    host: Host, damage: Callable[[Host], None], expected: list[tuple[str, str | None]]
) -> None:
    damage(host)
    assert [(item, old) for item, old, _new in items(host)] == expected


def test_what_lost_its_files_is_installed_again(host: Host) -> None:
    host.remove(FILES[NAMES[0]])
    repairs = host.plan(lock=lock())["repairs"]
    assert repairs == {toolkit.NAME: {"nvidia_container_toolkit_reinstall": [NAMES[0]]}}


def test_a_hold_that_is_switched_off_is_taken_back(host: Host) -> None:
    named = items(host, nvidia_container_toolkit_hold=False)
    assert named == [(f"{name} hold", "held", "not held") for name in NAMES]


def test_a_mirror_is_where_apt_goes_and_its_twin_is_in_the_way(host: Host) -> None:
    mirror = "https://mirror.example.org/nct"
    options = {
        "nvidia_container_toolkit_repository_url": mirror + "/",
        "nvidia_container_toolkit_ca_bundle": "/etc/ssl/lab.pem",
    }
    for path, text in toolkit.files(ROW, options).items():
        host.write(path, text)
    assert items(host, **options) == []
    assert (
        'Acquire::https::mirror.example.org::CaInfo "/etc/ssl/lab.pem";'
        in toolkit.files(ROW, options)[toolkit.APT]
    )
    host.write("/etc/apt/sources.list.d/m.list", f"deb {mirror} /\n")
    assert [item for item, _, _ in items(host, **options)] == ["/etc/apt/sources.list.d/m.list"]


# docker


def test_a_docker_without_the_runtime_gets_it_and_is_restarted(host: Host) -> None:
    docker(host, FOREIGN)
    assert items(host) == [(ENTRY, None, docker_look.RUNTIME), RESTART]


def test_so_does_one_without_any_configuration(host: Host) -> None:
    docker(host)
    assert items(host) == [(ENTRY, None, docker_look.RUNTIME), RESTART]


def test_a_docker_that_does_not_run_is_not_started_for_it(host: Host) -> None:
    docker(host, FOREIGN, start=None)
    assert items(host) == [(ENTRY, None, docker_look.RUNTIME)]


@pytest.mark.parametrize("path", ["/usr/bin/nvidia-container-runtime", docker_look.RUNTIME])
def test_the_same_program_by_its_path_is_the_same(host: Host, path: str) -> None:
    docker(host, {"runtimes": {"nvidia": {"path": path, "args": ["--x"]}}})
    assert items(host) == []


def test_another_program_under_that_name_is_replaced(host: Host) -> None:
    docker(host, {"runtimes": {"nvidia": {"path": "/opt/old/nvidia"}}})
    assert items(host)[0] == (ENTRY, "/opt/old/nvidia", docker_look.RUNTIME)


def test_docker_is_left_alone_where_that_is_wished_or_it_is_not_there(host: Host) -> None:
    assert items(host) == []
    docker(host, FOREIGN)
    assert items(host, nvidia_container_toolkit_docker="none") == []


def test_packages_that_are_new_to_a_running_docker_need_its_restart(tmp_path: Path) -> None:
    """Somebody's daemon.json names the runtime already; the hook is not there yet."""
    host = made.make(tmp_path)
    docker(host, CONFIGURED)
    assert items(host)[-1] == RESTART


def test_a_restart_that_is_owed_is_seen_until_it_is_done(host: Host) -> None:
    docker(host, CONFIGURED)
    host.write(docker_look.OWED, "812 5000\n")
    assert items(host) == [RESTART]
    # Whoever restarts docker, it is another process then.
    docker(host, CONFIGURED, start=9000)
    assert items(host) == []


def test_a_pid_of_somebody_else_is_no_docker(host: Host) -> None:
    docker(host, FOREIGN)
    host.write("/proc/812/stat", STAT.format(start=1).replace("dockerd", "bash"))
    assert items(host) == [(ENTRY, None, docker_look.RUNTIME)]
    host.write(docker_look.PIDFILE, "nonsense")
    assert items(host) == [(ENTRY, None, docker_look.RUNTIME)]


# what forbids it


class Docker(Host):
    """The host with a docker program that answers."""

    def __init__(self, root: Path, answer: Result) -> None:
        super().__init__(root)
        self.answer = answer
        self.asked = 0

    def run(self, argv: Sequence[str]) -> Result:
        self.asked += "docker" in argv
        return self.answer if "docker" in argv else super().run(argv)


def blockers(host: Host, answer: str = "", **options: Any) -> dict[str, str]:
    other = Docker(host.root, Result(0 if answer else 1, answer, ""))
    plan = other.plan(lock=lock(), options=options)
    return {blocker["id"]: blocker["message"] for blocker in plan["blockers"]}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("0 0 false\n", ""),
        ("2 0 true\n", ""),
        ("2 1 false\n", "would be lost (3)"),
        ("0 1 false\n", "would be lost (1)"),
        ("", "docker does not answer"),
        ("<no value>\n", "docker does not answer"),
    ],
)
def test_containers_that_would_be_lost_stop_it(host: Host, answer: str, words: str) -> None:
    docker(host, FOREIGN)
    named = blockers(host, answer)
    assert set(named) == ({"docker-containers"} if words else set())
    assert words in named.get("docker-containers", "")


def test_docker_is_asked_only_where_it_runs_and_the_stack_has_the_toolkit(host: Host) -> None:
    """A docker that hangs would hold the look."""
    other = Docker(host.root, Result(0, "0 0 false\n", ""))
    other.loader = host.loader
    host.remove(toolkit.APT)
    host.remove(made.LIB + "/libcusolver.so.11.1.0.152")
    docker(host, FOREIGN, start=None)
    assert other.plan(lock=lock())["components"] == ["cuda", toolkit.NAME]
    docker(host, FOREIGN)
    assert other.plan()["components"] == ["cuda"]
    assert other.asked == 0
    other.plan(lock=lock())
    assert other.asked == 1


def test_they_are_in_nobodys_way_where_nothing_is_restarted(host: Host) -> None:
    docker(host, CONFIGURED)
    host.remove(toolkit.APT)
    assert blockers(host, "2 0 false\n") == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{broken", "not JSON: "),
        ("[]", "not a mapping"),
        ('{"runtimes": []}', "its runtimes are not one"),
    ],
)
def test_a_configuration_that_docker_could_not_read_stops_it(
    host: Host, text: str, words: str
) -> None:
    docker(host, text, start=None)
    named = blockers(host)
    assert set(named) == {"docker-config"}
    assert words in named["docker-config"]
    assert blockers(host, nvidia_container_toolkit_docker="none") == {}


def test_a_docker_that_is_required_and_not_there_stops_it(host: Host) -> None:
    host.remove(toolkit.APT)
    assert blockers(host) == {}
    required = {"nvidia_container_toolkit_docker": "required"}
    assert "snap" not in blockers(host, **required)["docker-missing"]
    host.link(docker_look.SNAP, "/usr/bin/snap")
    assert "snap" in blockers(host, **required)["docker-missing"]
    assert "from snap;" in blockers(host)["docker-snap"]
    docker(host, CONFIGURED)
    assert "from snap and from a package" in blockers(host)["docker-snap"]


def test_workspaces_wait_for_a_docker_that_the_same_run_brings() -> None:
    """In the order of the plan docker is there before them."""
    mine = change("gpu_workspace", "workspace ada", None, "as wished", "wished for, and missing")
    other = change(toolkit.NAME, toolkit.KEY, None, "as wished", "")
    comes = change(toolkit.NAME, "docker.io", None, "installed", "")
    facts = {"preflight": {"workspaces": {"docker": False}}}
    options = {"gpu_workspaces": [{"name": "ada", "gpus": "none", "port": 8801}]}
    assert workspace_rules.workspace_docker(facts, [other, comes, mine], options, {}) == []
    assert len(workspace_rules.workspace_docker(facts, [other, mine], options, {})) == 1


def test_docker_itself_comes_where_there_is_none_and_it_is_wished(host: Host) -> None:
    engine = {"nvidia_container_toolkit_docker_engine": "distribution"}
    coming = [("docker.io", None, "installed"), (ENTRY, None, docker_look.RUNTIME)]
    assert items(host) == []
    assert items(host, **engine) == coming
    assert blockers(host, **engine, nvidia_container_toolkit_docker="required") == {}
    assert items(host, **engine, nvidia_container_toolkit_docker="none") == []
    docker(host, CONFIGURED)
    assert items(host, **engine) == []


def test_dockers_own_comes_from_its_repository_and_replaces_nothing(host: Host) -> None:
    engine = {"nvidia_container_toolkit_docker_engine": "docker-ce"}
    listed = "/etc/apt/sources.list.d/docker.list"
    host.write(
        listed, "deb [signed-by=/k] https://download.docker.com/linux/debian bullseye stable\n"
    )
    coming = [
        (listed, "in apt's way", other_sources.ASIDE),
        (docker_look.ENGINE_SOURCES, None, "as wished"),
        ("docker-ce", None, "installed"),
        (ENTRY, None, docker_look.RUNTIME),
    ]
    assert items(host, **engine) == coming
    assert blockers(host, **engine) == {}
    host.package("containerd", "1.4.13", [])
    assert "containerd is installed" in blockers(host, **engine)["docker-other"]
    host.package("docker-ce", "5:24", [])
    docker(host, CONFIGURED)
    assert blockers(host, **engine) == {}
    assert items(host, **engine) == []


def test_a_mirror_of_dockers_is_known_by_its_address(host: Host) -> None:
    url = "https://mirror.example.org/docker"
    listed = "/etc/apt/sources.list.d/d.list"
    host.write(listed, f"deb {url}/ bullseye stable\n")
    engine = {
        "nvidia_container_toolkit_docker_engine": "docker-ce",
        "nvidia_container_toolkit_docker_repository": {"url": url},
    }
    assert items(host, **engine)[0] == (listed, "in apt's way", other_sources.ASIDE)


def test_an_entry_that_is_put_aside_is_no_conflict_of_keys(host: Host) -> None:
    host.write("/etc/apt/sources.list.d/a.list", f"deb [signed-by=/k.gpg] {URL} /\n")
    assert blockers(host) == {}


# the files


@pytest.mark.parametrize("bundle", ["", "/etc/ssl/lab.pem"])
def test_the_roles_templates_say_the_same_text(bundle: str) -> None:
    options = {"nvidia_container_toolkit_ca_bundle": bundle}
    environment = jinja2.Environment(  # noqa: S701  apt's files, not HTML
        loader=jinja2.FileSystemLoader(TEMPLATES),
        trim_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["dictsort"] = lambda value: sorted(value.items())
    names = {
        **options,
        "__nvidia_container_toolkit_repository_host": "nvidia.github.io",
        "__nvidia_container_toolkit_repository_told": URL,
        "__nvidia_container_toolkit_suite": "/",
        "__nvidia_container_toolkit_key_path": toolkit.KEY,
        "__nvidia_container_toolkit_wanted": ROW["packages"]["toolkit"],
    }
    for path, text in toolkit.files(ROW, options).items():
        if path != toolkit.KEY:
            assert environment.get_template(path[1:] + ".j2").render(names) == text


# its removal

GONE = {"nvidia_container_toolkit_state": "absent"}
RUNC = "/plain runc null"
BY_RUNTIME = "/old-job nvidia null"
BY_GPUS = '/job runc [{"Driver":"","Count":-1,"Capabilities":[["gpu"]]}]'


class Containers(Host):
    """The host with a docker that has these containers at work; None: it does not answer."""

    shown: list[str] | None = None

    def run(self, argv: Sequence[str]) -> Result:
        if "docker" not in argv:
            return super().run(argv)
        if self.shown is None:
            return Result(1, "", "")
        if "info" in argv:
            return Result(0, f"{len(self.shown)} 0 false\n", "")
        if "ps" in argv:
            return Result(0, "".join(f"{at}\n" for at in range(len(self.shown))), "")
        return Result(0, self.shown[int(argv[-1])] + "\n", "")


def test_what_the_role_put_there_goes(host: Host) -> None:
    docker(host, CONFIGURED)
    receipt = {"lock_digest": made.LOCK["digest"], "after": {toolkit.NAME: "1.20.1"}}
    host.write("/var/lib/provision/receipt.json", json.dumps(receipt))
    files = [toolkit.KEY, toolkit.SOURCES, toolkit.PREFERENCES, toolkit.APT]
    expected = [(name, "1.20.1-1", "absent") for name in NAMES]
    expected += [(path, "present", "absent") for path in files]
    expected += [(ENTRY, docker_look.RUNTIME, "absent")]
    assert items(host, **GONE) == expected
    assert host.plan(lock=lock(), options=GONE)["steps"] == [f"{toolkit.NAME}:remove"]


@pytest.mark.parametrize(
    ("config", "docker_wish"),
    [
        (CONFIGURED, "none"),
        (FOREIGN, "auto"),
        ({"runtimes": {"nvidia": {"path": "/opt/old/nvidia"}}}, "auto"),
    ],
)
def test_an_entry_that_is_not_the_roles_stays(
    host: Host, config: dict[str, Any], docker_wish: str
) -> None:
    docker(host, config)
    changes = items(host, **GONE, nvidia_container_toolkit_docker=docker_wish)
    assert ENTRY not in [item for item, _, _ in changes]


def test_a_host_without_it_has_nothing_to_lose(tmp_path: Path) -> None:
    host = made.make(tmp_path)
    docker(host, FOREIGN)
    assert items(host, **GONE) == []


def test_packages_that_were_there_before_stay(host: Host) -> None:
    theirs = dict.fromkeys(NAMES, "1.20.1-1")
    receipt = {"lock_digest": made.LOCK["digest"], "packages": {toolkit.NAME: {"theirs": theirs}}}
    host.write("/var/lib/provision/receipt.json", json.dumps(receipt))
    changes = host.plan(lock=lock(), options=GONE)["changes"]
    assert not {change["item"] for change in changes} & set(NAMES)


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        ([], ""),
        ([RUNC], ""),
        ([RUNC, BY_RUNTIME, BY_GPUS], "set to absent: job, old-job"),
        (None, "docker runs and does not answer"),
    ],
)
def test_containers_that_use_it_keep_it(host: Host, shown: list[str] | None, words: str) -> None:
    docker(host, CONFIGURED)
    other = Containers(host.root)
    other.shown = shown
    plan = other.plan(lock=lock(), options=GONE)
    messages = {blocker["id"]: blocker["message"] for blocker in plan["blockers"]}
    assert set(messages) == ({"docker-containers"} if words else set())
    assert words in messages.get("docker-containers", "")


def test_pods_that_use_it_keep_it(host: Host) -> None:
    host.write("/usr/bin/crio", made.ELF)
    host.write("/usr/bin/containerd", made.ELF)
    host.write("/proc/901/comm", "conmon\n")
    host.write("/proc/901/status", "Uid:\t0\t0\t0\t0\n")
    host.write("/proc/901/cmdline", "conmon\0-n\0k8s_ada\0-r\0/usr/bin/nvidia-container-runtime\0")
    place = "/run/containerd/io.containerd.runtime.v2.task/k8s.io/abc/"
    host.write(place + "address", "")
    host.write(place + "options.json", '{"binary_name": "/usr/bin/nvidia-container-runtime"}')
    plan = host.plan(lock=lock(), options=GONE)
    messages = {blocker["id"]: blocker["message"] for blocker in plan["blockers"]}
    assert set(messages) == {"containerd-containers", "crio-containers"}
    assert "set to absent: k8s.io/abc" in messages["containerd-containers"]
    assert "set to absent: k8s_ada" in messages["crio-containers"]


def test_a_users_process_called_conmon_keeps_nothing(host: Host) -> None:
    """Anybody could hold up a removal with a name and arguments."""
    host.write("/usr/bin/crio", made.ELF)
    host.write("/proc/901/comm", "conmon\n")
    host.write("/proc/901/status", "Uid:\t1000\t1000\t1000\t1000\n")
    host.write("/proc/901/cmdline", "conmon\0-n\0k8s_ada\0-r\0/usr/bin/nvidia-container-runtime\0")
    assert host.plan(lock=lock(), options=GONE)["blockers"] == []


def test_dockers_default_runtime_keeps_it(host: Host) -> None:
    """dockerd does not start with a default that is no runtime."""
    docker(host, {**CONFIGURED, "default-runtime": "nvidia"}, start=None)
    assert set(blockers(host, **GONE)) == {"docker-config"}
    docker(host, {**CONFIGURED, "default-runtime": "runc"}, start=None)
    assert blockers(host, **GONE) == {}


def test_a_configuration_that_cannot_be_read_keeps_it(host: Host) -> None:
    docker(host, "{broken", start=None)
    assert "can't be read: not JSON" in blockers(host, **GONE)["docker-config"]
    assert blockers(host, **GONE, nvidia_container_toolkit_docker="none") == {}


def test_it_needs_the_driver() -> None:
    row = {"nvidia_driver": {}, toolkit.NAME: {}}
    (blocker,) = contradictions(row, {"nvidia_driver_state": "absent"})
    assert (blocker["id"], blocker["component"]) == ("needed-by-another", toolkit.NAME)
    assert contradictions(row, {"nvidia_driver_state": "absent", **GONE}) == []
