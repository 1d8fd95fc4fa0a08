"""A deleted or open file of a mirror's password is drift, and the look sees no password."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path
from typing import Any

import converged_host as made
import pytest
import yaml
from converged_host import Host
from gpu_stack.components import nvidia_container_toolkit, nvidia_driver
from gpu_stack.host import logins
from gpu_stack.host.context import Context

ROLES = Path(__file__).parents[3] / "roles"
COMPONENTS = Path(logins.__file__).parents[1] / "components"
AUTH = "/etc/apt/auth.conf.d/"
MIRROR = AUTH + "provision-cuda-mirror.conf"
ADDRESS = "http://ada:s%40cret@mirror.example.org:8099/debian/"
WRITTEN = (
    "# Written by provision: how apt logs in to a mirror.\n"
    "machine http://mirror.example.org:8099/debian/ login ada password s@cret\n"
)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    host = made.make(tmp_path)
    login(host, MIRROR, WRITTEN)
    return host


def login(host: Host, path: str, text: str) -> None:
    host.write(path, text)
    host.path(path).chmod(0o600)


def test_a_file_as_it_was_written_is_no_change(host: Host) -> None:
    assert host.items(options={"cuda_mirror": ADDRESS}) == []
    # As the action plugin hands it over.
    assert host.items(options={"cuda_mirror": re.sub("//.*@", "//@", ADDRESS)}) == []


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (lambda host: host.remove(MIRROR), "absent"),
        (lambda host: host.path(MIRROR).chmod(0o644), "mode 0644"),
        (lambda host: login(host, MIRROR, ""), "other content"),
        (lambda host: login(host, MIRROR, WRITTEN.replace("8099", "80")), "other content"),
        (lambda host: login(host, MIRROR, WRITTEN.split(" password")[0]), "other content"),
        (lambda host: login(host, MIRROR, WRITTEN + WRITTEN), "other content"),
        (lambda host: host.link(MIRROR, "/tmp/mine"), "a link to /tmp/mine"),
    ],
    ids=["deleted", "open", "emptied", "of another mirror", "cut off", "twice", "a link"],
)
def test_each_damage_is_a_change_without_the_password(host: Host, damage: Any, found: str) -> None:
    """A deleted one showed itself in the first update that apt made by itself, as a 401."""
    if found.startswith("a link"):
        host.remove(MIRROR)
    damage(host)
    plan = host.plan(options={"cuda_mirror": ADDRESS})
    (change,) = plan["changes"]
    assert (change["component"], change["item"], change["from"]) == ("cuda", MIRROR, found)
    assert plan["components"][0] == "cuda"
    assert "cret" not in json.dumps(plan)


def test_a_mirror_without_a_password_wants_no_file(host: Host) -> None:
    host.remove(MIRROR)
    assert host.items(options={"cuda_mirror": "http://mirror.example.org/debian"}) == []
    assert host.items() == []


def test_a_mirror_that_is_no_longer_wished_for_goes_with_its_password(host: Host) -> None:
    source = "/etc/apt/sources.list.d/provision-cuda-mirror.sources"
    host.write(source, "Types: deb\nURIs: http://mirror.example.org/debian\nSuites: bullseye\n")
    assert host.items(options={"cuda_mirror": ADDRESS}) == []
    changes = host.plan()["changes"]
    found = [(change["item"], change["from"], change["to"]) for change in changes]
    assert found == [(source, "present", None), (MIRROR, "present", None)]


def test_the_drivers_mirror_goes_too(tmp_path: Path) -> None:
    row = {"version": "470.1", "branch": "470", "packages": {"userspace": {}}}
    paths = [
        "/etc/apt/sources.list.d/provision-nvidia-driver.sources",
        AUTH + "provision-nvidia-driver.conf",
    ]
    for path in paths:
        (tmp_path / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path[1:]).write_text(WRITTEN, "utf-8")

    def gone(**options: Any) -> list[Any]:
        stack = {nvidia_driver.NAME: row}
        state = nvidia_driver.look(Context(root=str(tmp_path), options=options, row=stack))
        changes = nvidia_driver.differ(stack, state, options)
        return [change["item"] for change in changes if "mirror" in change["reason"]]

    assert gone() == paths
    # Its login file is of this mode no more.
    assert gone(nvidia_driver_mirror=ADDRESS) == paths[1:]


@pytest.mark.parametrize(
    ("role", "path", "mirror"),
    [
        ("cuda", "present/sources.yml", "cuda_mirror"),
        ("nvidia_driver", "packaged/sources.yml", "nvidia_driver_mirror"),
    ],
)
def test_the_role_takes_away_what_the_look_names(role: str, path: str, mirror: str) -> None:
    tasks = yaml.safe_load((ROLES / role / "tasks" / path).read_text("utf-8"))
    # The module removes them first: what the mirror alone enabled is enabled anew.
    (gone,) = [
        task for task in tasks if task.get("provision.gpu.debian_components", {}).get("former")
    ]
    name = {"cuda": "provision-cuda-mirror", "nvidia_driver": "provision-nvidia-driver"}[role]
    files = gone["provision.gpu.debian_components"]["former"]
    if role == "cuda":
        (nvidias,) = [
            task for task in tasks
            if task.get("provision.gpu.managed_files", {}).get("state") == "absent"
        ]  # fmt: skip
        # NVIDIA's packages need no component of the archive.
        assert (gone["when"], nvidias["when"]) == (
            "not __cuda_nvidia", f"__cuda_nvidia and not {mirror}",
        )  # fmt: skip
        assert files == "{{ [] if cuda_mirror else __cuda_mirror_files }}"
        assert nvidias["provision.gpu.managed_files"]["others"] == "{{ __cuda_mirror_files }}"
        files = yaml.safe_load((ROLES / "cuda/vars/main.yml").read_text("utf-8"))[
            "__cuda_mirror_files"
        ]
    else:
        assert gone["when"] == f"not {mirror}"
    assert files == list(logins.of_mirror(name))


def faults(root: Path, component: Any, row: dict[str, Any], **options: Any) -> list[str]:
    context = Context(root=str(root), options=options, row={component.NAME: row})
    return list(component.look(context)["logins"])


def test_the_driver_has_one_for_the_archive_and_one_for_nvidias_repository(tmp_path: Path) -> None:
    (tmp_path / "etc/apt/sources.list.d").mkdir(parents=True)
    repository = {"url": "https://nvidia.example/x", "suite": "/"}
    row = {"source": "network", "repository": repository, "packages": {"userspace": {}}}
    options = {
        "nvidia_driver_mirror": ADDRESS,
        "nvidia_driver_repository_url": "https://a:b@m.org/x/",
    }
    archive, own = AUTH + "provision-nvidia-driver.conf", "provision-nvidia-driver-repository.conf"
    assert faults(tmp_path, nvidia_driver, row, **options) == [archive, AUTH + own]
    assert faults(tmp_path, nvidia_driver, {**row, "source": "distribution"}, **options) == [
        archive
    ]
    assert faults(tmp_path, nvidia_driver, {**row, "source": "runfile"}, **options) == []
    # One source serves both: it and its password are CUDA's.
    shared = tmp_path / "etc/apt/sources.list.d/provision-cuda.sources"
    shared.write_text("Types: deb\nURIs: https://m.org/x\nSuites: /\nSigned-By: /k.asc\n")
    assert faults(tmp_path, nvidia_driver, row, **options) == [archive]


def test_the_toolkit_and_nvidias_cuda_have_theirs(tmp_path: Path) -> None:
    row = {"version": "1.20.1", "packages": {}}
    options = {"nvidia_container_toolkit_repository_url": "https://a:b@m.org/x/"}
    assert faults(tmp_path, nvidia_container_toolkit, row, **options) == [
        AUTH + "provision-nvidia-container-toolkit.conf"
    ]


@pytest.mark.parametrize("role", ["nvidia_driver", "cuda", "nvidia_container_toolkit"])
def test_the_role_writes_what_is_looked_for(role: str) -> None:
    """Its name, its mode, and its machine: test_passwords.py runs the tasks themselves."""
    tasks = yaml.safe_load((ROLES / "apt/tasks/password.yml").read_text("utf-8"))
    ((file,),) = (task["provision.gpu.managed_files"]["files"] for task in tasks)
    assert int(file["mode"], 8) == logins.MODE
    assert stat.S_IMODE(logins.MODE) == 0o600
    text = "".join(path.read_text("utf-8") for path in (ROLES / role).rglob("*.yml"))
    source = "".join(path.read_text("utf-8") for path in (COMPONENTS / role).glob("*.py"))
    names = re.findall(r'(?:\{|\bMIRROR = |\baddresses\[)"(provision-[^"]+)"', source)
    for name in names:
        assert f"{AUTH}{name}.conf" in text or name == "provision-nvidia-driver-repository"
    assert names


def test_the_machine_of_an_address() -> None:
    """As test_passwords.py has them for the roles."""
    assert logins.machine("http://ada:s%40cr:t+x@127.0.0.1:8099/debian/") == (
        "http://127.0.0.1:8099/debian/"
    )
    assert logins.machine("https://ada:pw@Mirror.example.org/cuda") == "Mirror.example.org/cuda"
    assert logins.machine("https://mirror.example.org/cuda") is None
    assert logins.machine("") is None
