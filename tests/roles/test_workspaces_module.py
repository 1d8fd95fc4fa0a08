"""The role gpu_workspace and its modules in a play: check mode, refusals, and no secret anywhere.

The host is a folder; what docker and systemd answer is said by the test.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_stack.components.gpu_workspace import images, installed, parameters, service, shipped
from gpu_stack.components.gpu_workspace.program import docker, places
from workspace_machine import ADA, HASHED, IMAGE, KEY, SECRET, Machine, person, stand_in, wish

from tests.collection import NAME, ROOT, altered

BIN = Path(sys.executable).parent
PROGRAM = "gpu_stack/components/gpu_workspace/program/"
LIBRARY = shipped.LIBRARY
START = "/usr/local/sbin/gpu-workspace"
UNITS = [path for path in shipped.FILES if path.startswith("/etc")]
ROLE = ROOT / "roles/gpu_workspace/files"
SHIPPED = {path.name: path.read_text("utf-8") for path in ROLE.iterdir() if path.is_file()}
# At the end of programs.py: a docker and a systemd whose state is in the host's folder.
CALL = """

def call(command, timeout=TIMEOUT):
    root = {root!r}

    def path(*parts):
        return os.path.join(root, *[part.lstrip("/") for part in parts])

    def touch(name, text=""):
        os.makedirs(os.path.dirname(name), exist_ok=True)
        with open(name, "w") as file:
            file.write(text)

    with open(path("calls"), "a") as log:
        log.write(" ".join(command) + "\\n")
    words = command[3:] if command[0] == "docker" else command
    if words[0] == "ps" and "--all" not in words:
        names = sorted(os.listdir(path("runs"))) if os.path.isdir(path("runs")) else []
        return 0, "".join(name + " " + open(path("runs", name)).read() for name in names), ""
    if words[:2] == ["image", "inspect"]:
        return 0 if os.path.exists(path("image")) else 1, "", ""
    if words[0] == "pull":
        if not os.path.exists(path("registry")):
            return 1, "", "no route to the registry"
        touch(path("image"))
    if words[:2] == ["network", "inspect"] or "getent" in words:
        return 2, "", ""
    if words[:1] != ["systemctl"]:
        return 0, "", ""
    for unit in [word for word in words[2:] if word != "--now"]:
        name = unit.partition("@")[2].rpartition(".")[0]
        wants = "sockets" if unit.endswith("socket") else "multi-user"
        if words[1] == "enable":
            touch(path("/etc/systemd/system", wants + ".target.wants", unit))
        if words[1] == "start" and unit.endswith("socket"):
            touch(path("/run/gpu-workspace-ports", name))
        elif words[1] == "start":
            touch(path("runs", name), open(path("/etc/gpu-workspace", name, "revision")).read())
        elif "--now" in words and os.path.exists(path("runs", name)):
            os.unlink(path("runs", name))
    return 0, "", ""
"""


class Host:
    """A folder that is a host, on which the role is run."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, folder / "host"
        self.root.mkdir()
        added = {
            PROGRAM + "files.py": f"ROOT = {str(self.root)!r}",
            PROGRAM + "programs.py": CALL.format(root=str(self.root)),
        }
        self.collections = altered(folder / "collections", added)

    def path(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def calls(self) -> list[str]:
        """What programs were called since this was last asked."""
        log = self.root / "calls"
        lines = log.read_text("utf-8").splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return lines

    def everything(self) -> dict[str, bytes]:
        return {
            str(path): path.read_bytes()
            for path in self.root.rglob("*")
            if path.is_file() and path.name != "calls"
        }

    def run(self, *arguments: str, **options: Any) -> tuple[int, str]:
        """(exit code, all that a person reads with -vvv) of the role with these options."""
        values = {"gpu_workspace_image": IMAGE, "gpu_workspace_patience": 0, **options}
        role = {"name": f"{NAME}.gpu_workspace", "vars": values}
        play = {"hosts": "localhost", "gather_facts": False, "roles": [role]}
        (self.folder / "play.yml").write_text(json.dumps([play]), "utf-8")
        done = subprocess.run(
            [str(BIN / "ansible-playbook"), "-vvv", "--diff", "-i", "localhost,", "-c", "local",
             "-e", f"ansible_python_interpreter={sys.executable}", "play.yml", *arguments],
            cwd=self.folder, capture_output=True, text=True, check=False,
            env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(self.collections),
                 "ANSIBLE_NOCOLOR": "1"},
        )  # fmt: skip
        return done.returncode, " ".join((done.stdout + done.stderr).split())


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


ADA_ALONE = [person()]
BOTH = person(kind="both", ssh_port=2201, ssh_keys=[KEY])


def test_from_nobody_to_somebody_and_back(host: Host) -> None:
    (host.root / "registry").touch()
    secrets = {"gpu_workspace_tokens": {"ada": SECRET}}
    before = host.everything()
    code, output = host.run("--check", gpu_workspaces=ADA_ALONE, **secrets)
    assert code == 0, output
    assert "Would change: ada; would stop: nobody" in output
    assert host.everything() == before
    # The proof needs a container, which only a docker starts.
    code, output = host.run(gpu_workspaces=ADA_ALONE, **secrets)
    assert code == 2
    assert (
        "Changed: ada. Stopped, home kept: nobody. Jupyter's tokens lie, for root alone" in output
    )
    assert (
        "ada: nothing of it runs (docker logs gpu-workspace-ada). journalctl -u "
        "'gpu-workspace@*' and docker logs say more."
    ) in output
    assert '+ "base": "/ada/",' in output
    assert "[WARNING]: Found duplicate" not in output
    assert SECRET not in output
    assert host.path("/etc/gpu-workspace/ada/token").read_text("utf-8") == SECRET
    called = host.calls()
    assert SECRET not in "".join(called)
    # The image is looked at before anybody's container is stopped for it.
    tried = next(n for n, call in enumerate(called) if " run --rm --network none" in call)
    assert tried < next(n for n, call in enumerate(called) if "systemctl stop" in call)
    assert "systemctl daemon-reload" in called
    assert {path for path in shipped.FILES if not host.path(path).is_file()} == set()
    after = host.everything()
    host.run(gpu_workspaces=ADA_ALONE, **secrets)
    assert host.everything() == after
    assert not [call for call in host.calls() if call.startswith("systemctl st")]
    code, output = host.run("--check", gpu_workspaces=[])
    assert (code, host.everything()) == (0, after), output
    assert "would stop: ada" in output
    code, output = host.run(gpu_workspaces=[])
    assert (code, "Stopped, home kept: ada" in output) == (0, True), output
    gone = (*shipped.FILES, LIBRARY, "/etc/gpu-workspace/ada")
    assert [path for path in gone if host.path(path).exists()] == []
    assert host.path("/srv/gpu-workspaces/ada").is_dir()


def test_an_image_that_cannot_be_pulled_touches_nobody(host: Host) -> None:
    code, output = host.run(gpu_workspaces=ADA_ALONE)
    assert code == 2
    assert (
        f"{IMAGE} could not be pulled: no route to the registry. Nobody's workspace was touched. "
        "Where this host reaches no registry, bring the image as a file (gpu_workspace_image_file)."
    ) in output
    assert not host.path("/etc/gpu-workspace").exists()
    assert not host.path(START).exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"gpu_workspaces": [person("Ada")]},
            'entry 1: \\"Ada\\" is no user name; expected small letters, digits, - and _, with a '
            "letter first, 32 at most. Nothing was changed.",
        ),
        (
            {"gpu_workspaces": [person(password=SECRET)]},
            "gpu_workspace_passwords: {ada: !vault ...}, or nowhere: then keys alone let ada in. "
            "Nothing was changed.",
        ),
        (
            {"gpu_workspaces": [BOTH], "gpu_workspace_passwords": {"ada": SECRET}},
            "from Ansible Vault; it does not of ada. Nothing was changed.",
        ),
        (
            {"gpu_workspaces": [BOTH], "gpu_workspace_tokens": {"eve": SECRET}},
            "gpu_workspace_tokens names eve, for whom gpu_workspaces has no workspace. Nothing",
        ),
    ],
)
def test_what_is_refused_changes_nothing_and_shows_no_secret(
    host: Host, options: dict[str, Any], words: str
) -> None:
    code, output = host.run(**options)
    assert (code, words in output) == (2, True), output
    assert SECRET not in output
    assert host.everything() == {}


@pytest.mark.parametrize(
    ("workspaces", "texts"),
    [
        ([person(), {"name": "eve", "pin": [4711, {"x": "hidden"}]}], {"4711", "hidden"}),
        (["hidden"], {"hidden"}),
        ("hidden", {"hidden"}),
        ([person(shared=True)], set()),
    ],
)
def test_what_may_be_a_secret_in_the_wrong_place_is_in_no_log(
    workspaces: Any, texts: set[str]
) -> None:
    params = {"workspaces": workspaces, "tokens": {"ada": "t"}, "passwords": {"ada": "p"}}
    assert parameters.secrets(params) == texts | {"t", "p"}


# what is refused before the host is asked

HEX = "c" * 64
NONE = {
    **dict.fromkeys(("image", "image_file", "image_sha256", "base", "base_file"), ""),
    "base_sha256": "",
    "packages": [],
    "places": [],
    "stack": {"tensorflow": {}},
}
BASE = "debian@sha256:" + HEX
ONE_IMAGE = "The workspaces need one image: gpu_workspace_image with its digest"


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ({}, ONE_IMAGE),
        ({"image": IMAGE}, None),
        ({"image": "jupyter:latest"}, ONE_IMAGE),
        ({"image": IMAGE + "0"}, ONE_IMAGE),
        ({"image": IMAGE, "base": BASE}, ONE_IMAGE),
        ({"image_file": "x.tar"}, ONE_IMAGE),
        ({"image_file": "x.tar", "image_sha256": "c" * 63}, ONE_IMAGE),
        ({"image_file": "x.tar", "image_sha256": HEX}, None),
        ({"image": IMAGE, "image_sha256": HEX}, ONE_IMAGE),
        ({"base": "debian:11"}, ONE_IMAGE),
        ({"base": BASE}, None),
        ({"base": BASE, "stack": {}}, "An image is built of the host's stack, and gpu_workspace_"),
        ({"base_file": "x.tar"}, ONE_IMAGE),
        ({"base_file": "x.tar", "base_sha256": HEX}, None),
        ({"base_file": "x.tar", "base_sha256": HEX, "stack": {}}, "An image is built of"),
    ],
)
def test_an_image_is_one_for_sure(image: dict[str, Any], words: str | None) -> None:
    params = {"workspaces": [ADA], "tokens": {}, "passwords": {}, "image": {**NONE, **image}}
    if words is None:
        parameters.refuse(params)
    else:
        with pytest.raises(places.RefusedError) as error:
            parameters.refuse(params)
        assert str(error.value).startswith(words)
    # Nobody needs one.
    parameters.refuse({**params, "workspaces": []})


@pytest.mark.parametrize(
    ("people", "passwords", "unfit"),
    [
        ([BOTH], {"ada": HASHED}, None),
        ([BOTH], {"ada": HASHED + "\n"}, "ada"),
        ([BOTH], {"ada": "$1$salt$" + "a" * 22}, "ada"),
        ([BOTH], {"ada": 5012}, "ada"),
        ([ADA], {"ada": HASHED}, "ada"),
        ([BOTH], {"eve": HASHED, "bob": HASHED, "ada": HASHED}, "bob, eve"),
        (["ada"], {}, None),
        ("ada", {}, None),
    ],
)
def test_a_password_is_somebodys_and_a_hash(
    people: Any, passwords: dict[str, Any], unfit: str | None
) -> None:
    params = {
        "workspaces": people, "tokens": {}, "passwords": passwords,
        "image": {**NONE, "image": IMAGE},
    }  # fmt: skip
    if unfit is None:
        parameters.refuse(params)
    else:
        with pytest.raises(places.RefusedError) as error:
            parameters.refuse(params)
        assert str(error.value).endswith(f"it does not of {unfit}")


# the image


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    stand_in(monkeypatch, tmp_path, made.call)
    return made


@pytest.mark.parametrize(
    ("image", "there", "file"),
    [
        ({"image": IMAGE}, [], False),
        ({"image_file": "x.tar", "image_sha256": HEX}, [], True),
        ({"image_file": "x.tar", "image_sha256": HEX}, ["gpu-workspace:" + "c" * 16], False),
        ({"base": BASE}, [], False),
        ({"base_file": "x.tar", "base_sha256": HEX}, [], True),
        ({"base_file": "x.tar", "base_sha256": HEX}, ["gpu-workspace-base:" + "c" * 16], False),
    ],
)
def test_a_file_is_copied_only_where_it_is_needed(
    machine: Machine, image: dict[str, Any], there: list[str], file: bool
) -> None:
    machine.images = set(there)
    params = {
        **wish(ADA), "tokens": {}, "passwords": {}, "models": [], "slurm": {},
        "image": {**NONE, **image},
        "in_use": "refuse", "host_memory": "",
    }  # fmt: skip
    seen = service.looked(params)
    assert (seen["changed"], seen["file"]) == (False, file)
    assert seen["changes"] == {"ada": "absent"}


@pytest.mark.parametrize("what", ["image", "base"])
def test_nothing_is_pulled_in_check_mode(machine: Machine, what: str) -> None:
    machine.images = set()
    order = {
        "image": {**NONE, what: IMAGE if what == "image" else BASE},
        "archive": "", "containerfile": "", "proxy": "", "parts": ["jupyter"],
    }  # fmt: skip
    assert images.bring(order, dry=True) is True
    assert [call[3:5] for call in machine.calls] == [["image", "inspect"]]


def test_what_is_built_of_a_base_that_is_missing_pulls_it_first(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.images = set()
    built: list[dict[str, Any]] = []
    monkeypatch.setattr(images.image_build, "build", built.append)
    order = {
        "image": {**NONE, "base": BASE},
        "archive": "", "containerfile": "FROM", "proxy": "", "parts": [],
    }  # fmt: skip
    assert images.bring(order, dry=False) is True
    assert ["pull", "--quiet", BASE] in [call[3:] for call in machine.calls]
    assert (built[0]["base"], built[0]["containerfile"]) == (BASE, "FROM")
    assert built[0]["reference"] == parameters.reference({**NONE, "base": BASE})


def test_a_build_that_fails_shows_no_password_of_the_proxy(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.images = set()

    def build(_wish: Any) -> None:
        raise places.RefusedError("docker build said: http://me:secret@proxy:3128 is away")

    monkeypatch.setattr(images.image_build, "build", build)
    monkeypatch.setenv("http_proxy", "")
    monkeypatch.setenv("https_proxy", "")
    order = {
        "image": {**NONE, "base": BASE}, "archive": "", "containerfile": "",
        "proxy": "http://me:secret@proxy:3128", "parts": [],
    }  # fmt: skip
    with pytest.raises(places.RefusedError) as error:
        images.bring(order, dry=False)
    assert os.environ["https_proxy"] == order["proxy"]
    assert str(error.value) == (
        "The workspaces' image could not be built: docker build said: http://proxy:3128 is away. "
        "Nobody's workspace was touched; who has one keeps it as it is."
    )


def test_an_image_without_a_part_is_refused(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(*words: str, **_options: Any) -> tuple[int, str, str]:
        return 0, "lacks ssh\n" if words[0] == "run" else "", ""

    monkeypatch.setattr(docker, "answer", answer)
    order = {"image": {**NONE, "image": IMAGE}, "parts": ["jupyter", "ssh"]}
    with pytest.raises(places.RefusedError) as error:
        images.bring(order, dry=False)
    assert str(error.value) == (
        f"the image {IMAGE} has no sshd in its PATH. Nobody's workspace was touched."
    )


# what runs the workspaces


def mode(machine: Machine, path: str) -> int:
    return (machine.root / path.lstrip("/")).stat().st_mode & 0o7777


def test_the_program_and_its_units_are_written_once(machine: Machine) -> None:
    texts = installed.texts(SHIPPED)
    assert set(installed.install(texts, dry=True)) == {*shipped.FILES, LIBRARY, installed.FOLDER}
    assert list(machine.root.iterdir()) == []
    installed.install(texts)
    assert machine.calls_of("systemctl") == [["systemctl", "daemon-reload"]]
    for path, (wanted, _sha256) in shipped.FILES.items():
        assert (machine.text(path), mode(machine, path)) == (texts[path], wanted)
    assert mode(machine, LIBRARY) == mode(machine, installed.FOLDER) == 0o755
    assert installed.install(texts) == []
    assert machine.calls_of("systemctl") == [["systemctl", "daemon-reload"]]


def test_only_what_differs_is_written_and_systemd_reads_units_alone(machine: Machine) -> None:
    texts = installed.texts(SHIPPED)
    installed.install(texts)
    machine.calls.clear()
    relay = installed.FOLDER + "/relay.py"
    machine.put(relay, "other")
    (machine.root / START.lstrip("/")).chmod(0o777)
    (machine.root / LIBRARY.lstrip("/")).chmod(0o777)
    machine.put(installed.FOLDER + "/of_before.py", "")
    machine.put(installed.FOLDER + "/__pycache__/relay.pyc", "")
    strange = [installed.FOLDER + "/__pycache__", installed.FOLDER + "/of_before.py"]
    harmed = sorted([relay, START, LIBRARY, *strange])
    assert sorted(installed.install(texts, dry=True)) == harmed
    assert sorted(installed.install(texts)) == harmed
    assert installed.install(texts) == []
    assert machine.calls == []
    machine.put(UNITS[0], "other")
    assert installed.install(texts) == [UNITS[0]]
    assert machine.calls == [["systemctl", "daemon-reload"]]


def test_a_link_is_not_written_through_and_an_empty_directory_goes(machine: Machine) -> None:
    texts = installed.texts(SHIPPED)
    machine.put("/root/precious", "kept")
    machine.put("/opt/elsewhere/precious", "kept")
    for path, target in ((START, "root/precious"), (LIBRARY, "opt/elsewhere")):
        link = machine.root / path.lstrip("/")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(machine.root / target)
    (machine.root / UNITS[0].lstrip("/")).mkdir(parents=True)
    installed.install(texts)
    assert (machine.text(START), machine.text(UNITS[0])) == (texts[START], texts[UNITS[0]])
    assert machine.text("/root/precious") == machine.text("/opt/elsewhere/precious") == "kept"
    assert not (machine.root / LIBRARY.lstrip("/")).is_symlink()
    assert list((machine.root / "opt/elsewhere").iterdir()) == [
        machine.root / "opt/elsewhere/precious"
    ]


def test_a_directory_with_something_in_it_is_not_removed(machine: Machine) -> None:
    machine.put(START + "/mine", "kept")
    with pytest.raises(places.RefusedError, match=f"cannot remove '{START}': Directory not empty"):
        installed.install(installed.texts(SHIPPED))
    assert machine.text(START + "/mine") == "kept"


def test_all_of_it_is_taken_away(machine: Machine) -> None:
    installed.install(installed.texts(SHIPPED))
    machine.put("/opt/elsewhere/precious", "kept")
    machine.calls.clear()
    there = {START, LIBRARY, *UNITS}
    assert set(installed.remove(dry=True)) == there
    assert (machine.root / LIBRARY.lstrip("/")).exists()
    assert set(installed.remove()) == there
    assert [path for path in there if (machine.root / path.lstrip("/")).exists()] == []
    assert machine.calls == [["systemctl", "daemon-reload"]]
    assert installed.remove() == []
    # One that is a link is no more than that.
    (machine.root / LIBRARY.lstrip("/")).symlink_to(machine.root / "opt/elsewhere")
    assert installed.remove() == [LIBRARY]
    assert machine.text("/opt/elsewhere/precious") == "kept"


def test_the_program_of_before_is_replaced_and_nobody_is_stopped(machine: Machine) -> None:
    """It was one file, and no container is to know of it."""
    params = {
        **wish(ADA), "tokens": {}, "passwords": {}, "models": [], "slurm": {},
        "image": {**NONE, "image": IMAGE},
        "in_use": "refuse", "host_memory": "", "shipped": SHIPPED,
    }  # fmt: skip
    service.present(params, dry=False)
    installed.remove()
    machine.put(START, "#!/usr/bin/python3\n")
    revision = machine.text("/etc/gpu-workspace/ada/revision")
    machine.calls.clear()
    done = service.present(params, dry=False)
    assert (done["changed"], done["people"], done["summary"]) == (True, [], "")
    assert set(done["written"]) == {*shipped.FILES, LIBRARY, installed.FOLDER}
    assert machine.text("/etc/gpu-workspace/ada/revision") == revision
    assert machine.calls_of("systemctl") == [["systemctl", "daemon-reload"]]
    assert service.present(params, dry=False)["changed"] is False


def test_the_options_of_the_modules_are_those_of_the_role() -> None:
    """Two lists of the same defaults drift apart."""
    defaults = yaml.safe_load((ROOT / "roles/gpu_workspace/defaults/main.yml").read_text("utf-8"))
    text = (ROOT / "plugins/modules/workspaces.py").read_text("utf-8")
    options = yaml.safe_load(text.partition('DOCUMENTATION = r"""')[2].partition('"""')[0])[
        "options"
    ]
    for name in ("root", "address", "ssh_address", "host_memory", "in_use", "patience"):
        assert options[name]["default"] == defaults["gpu_workspace_" + name], name
