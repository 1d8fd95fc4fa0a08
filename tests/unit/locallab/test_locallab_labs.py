"""Labs as data: inventory, labels, what sweep takes and what it leaves."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.version import Version

from provision.errors import InputError, MachineError
from provision.locallab import existing, gpu, image, lab, machine, owner
from provision.locallab.host import LabHost, Shape, archive


class Recorder(machine.Podman):
    """Podman that answers `ps` from a list and records the rest."""

    installed = True

    def __init__(self, containers: Sequence[dict[str, Any]]) -> None:
        super().__init__()
        self.present = list(containers)
        self.calls: list[tuple[str, ...]] = []

    def run(  # the signature of what it stands for
        self,
        *arguments: str,
        stdin: bytes | None = None,  # noqa: ARG002
        timeout: float = 900,  # noqa: ARG002
    ) -> subprocess.CompletedProcess[bytes]:
        self.calls.append(arguments)
        out = b""
        if arguments[0] == "ps":
            wanted = [word.removeprefix("label=") for word in arguments if word.startswith("label")]
            found = [entry for entry in self.present if all(has(entry, word) for word in wanted)]
            out = json.dumps(found).encode()
        if arguments[0] == "rm":
            self.present = [e for e in self.present if e["Names"][0] not in arguments]
        return subprocess.CompletedProcess(arguments, 0, out, b"")


def has(entry: dict[str, Any], wanted: str) -> bool:
    name, _, value = wanted.partition("=")
    return name in entry["Labels"] and value in ("", entry["Labels"][name])


def container(name: str, owner: str, state: Path, keep: str = "false") -> dict[str, Any]:
    labels = {"lab": name, "owner": owner, "keep": keep, "run": "r-" + name, "state": str(state)}
    return {
        "Names": [f"{name}-gpu01"],
        "State": "running",
        "Labels": {f"provision.{key}": value for key, value in labels.items()},
    }


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return machine.cache_directory()


def ended_process() -> str:
    process = subprocess.Popen(["sleep", "60"])
    who = owner.owner(process.pid)
    assert owner.is_alive(who)
    process.kill()
    process.wait()
    return who


def state(tmp_path: Path, name: str) -> Path:
    place = tmp_path / name
    place.mkdir()
    (place / "lab").write_text(name)
    return place


def test_sweep_takes_only_what_killed_runs_left(cached: Path, tmp_path: Path) -> None:
    dead, mine, kept = (state(tmp_path, name) for name in ("dead", "mine", "kept"))
    gone = ended_process()
    podman = Recorder(
        [
            container("dead", gone, dead),
            container("mine", owner.owner(), mine),
            container("kept", gone, kept, keep="true"),
        ]
    )
    assert lab.sweep(podman=podman) == ["dead"]
    assert [entry["Names"][0] for entry in podman.present] == ["mine-gpu01", "kept-gpu01"]
    assert (dead.exists(), mine.exists(), kept.exists()) == (False, True, True)


def test_sweep_with_nothing_left_over_removes_nothing(cached: Path, tmp_path: Path) -> None:
    podman = Recorder([container("mine", owner.owner(), tmp_path)])
    assert lab.sweep(podman=podman) == []
    assert len(podman.present) == 1


def test_a_reused_pid_is_another_process() -> None:
    pid, start, boot = owner.owner().split(":")
    assert owner.is_alive(f"{pid}:{start}:{boot}")
    assert not owner.is_alive(f"{pid}:{int(start) + 1}:{boot}")
    assert not owner.is_alive(f"{pid}:{start}:another")
    assert not owner.is_alive("")


def test_down_never_removes_a_directory_that_is_no_labs(cached: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    existing.remove(Recorder([]), existing.Hosts([container("x", "", precious)]), cached)
    assert precious.exists()


def test_up_refuses_a_state_directory_with_other_files(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(InputError):
        lab._make_state(tmp_path, "demo")
    assert (tmp_path / "thesis.tex").exists()


def test_keys_are_private_and_unique(tmp_path: Path) -> None:
    public, key = lab._make_state(tmp_path / "a", "a"), tmp_path / "a" / lab.KEY
    other = lab._make_state(tmp_path / "b", "b")
    assert key.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700
    assert public.split()[1] != other.split()[1]


def test_inventory_is_ordinary_ansible_data(tmp_path: Path) -> None:
    key = tmp_path / "id_ed25519"
    made = lab.Lab("demo", "r1", tmp_path, [LabHost("gpu01", "10.88.0.5", 22, "lab", key, "c1")])
    data = made.inventory()
    assert data["gpu"]["hosts"]["gpu01"] == {
        "ansible_host": "10.88.0.5",
        "ansible_user": "lab",
        "ansible_ssh_private_key_file": str(key),
    }
    arguments = data["gpu"]["vars"]["ansible_ssh_common_args"]
    assert "StrictHostKeyChecking=yes" in arguments
    assert str(tmp_path / "known_hosts") in arguments
    assert list(made.inventory(group="a100")) == ["a100"]


def test_ssh_takes_the_options_with_a_space_in_the_path(tmp_path: Path) -> None:
    made = lab.Lab("demo", "r1", tmp_path / "my lab", [])
    done = subprocess.run(
        ["ssh", "-G", *made.ssh_arguments(), "host"], capture_output=True, text=True, check=True
    )
    assert f"userknownhostsfile {tmp_path}/my lab/known_hosts" in done.stdout.replace('"', "")
    assert "stricthostkeychecking true" in done.stdout


def test_archive_gives_the_users_files_to_the_user() -> None:
    data = archive({"home/lab/.ssh/authorized_keys": (b"k", 0o600, 1000), "etc/x": (b"", 0o644, 0)})
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        found = {entry.name: (entry.mode, entry.uid) for entry in tar}
    assert found == {
        "home/lab/.ssh": (0o700, 1000),
        "home/lab/.ssh/authorized_keys": (0o600, 1000),
        "etc/x": (0o644, 0),
    }


def test_podman_failure_carries_podmans_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def failed(argv: Sequence[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess(argv, 125, b"", b"Error: no space left on device\n")

    monkeypatch.setattr(subprocess, "run", failed)
    with pytest.raises(MachineError) as caught:
        machine.Podman().call("start", "x")
    assert "no space left" in caught.value.got


def test_unknown_platform_is_refused_with_the_list() -> None:
    with pytest.raises(InputError) as caught:
        lab.up("x", Shape(platform="windows95"), state_dir=Path("/nonexistent/x"))
    assert "debian11" in caught.value.expected


def test_image_name_follows_the_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    before = image.tag("debian11", "bundle")
    assert before == image.tag("debian11", "bundle")
    assert before != image.tag("debian11", "another bundle")
    monkeypatch.setattr(image, "PACKAGES", (*image.PACKAGES, "vim"))
    assert before != image.tag("debian11", "bundle")


@pytest.mark.parametrize(
    "name", [name for name in image.PLATFORMS if image.platform(name).identity is None]
)
def test_the_simulated_driver_is_the_platforms_newest(name: str) -> None:
    """The lock of a host takes that one, and the proof refuses a driver that says another.

    A host that only says Ubuntu can have the drivers alone that are made for it in tests.
    """
    path = Path(image.__file__).parents[1] / "catalog" / "drivers.yml"
    rows = yaml.safe_load(path.read_text("utf-8"))["drivers"]
    versions = [Version(row["version"]) for row in rows if row["platform"] == name]
    assert Version(image.platform(name).driver_version) == max(versions)


def test_the_init_of_a_platform_is_not_in_its_images_name() -> None:
    """The tag is of what the image is made of: images that are there stay in use."""
    recipe = json.loads(image.recipe("debian13", "bundle"))
    assert recipe["suite"] == "trixie"
    assert set(recipe) == {
        *("platform", "suite", "sources", "packages", "customize", "sshd", "pip", "ca"),
    }


@pytest.mark.parametrize(
    ("platform", "given", "driver", "init"),
    [
        ("debian11", None, "470.256.02", ["/sbin/init"]),
        ("debian12", None, "535.309.01", ["/sbin/init"]),
        ("debian12", "535.261.03", "535.261.03", ["/sbin/init"]),
        (
            "debian13",
            None,
            "550.163.01",
            ["/sbin/init", "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1"],
        ),
    ],
)
def test_a_host_is_of_its_platform(
    cached: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    platform: str,
    given: str | None,
    driver: str,
    init: list[str],
) -> None:
    podman = Recorder([])
    written: dict[str, bytes] = {}

    def call(*arguments: str, stdin: bytes | None = None, **_: Any) -> str:
        podman.calls.append(arguments)
        if arguments[0] == "cp":
            assert stdin is not None
            with tarfile.open(fileobj=io.BytesIO(stdin)) as tar:
                for entry in tar:
                    content = tar.extractfile(entry) if entry.isfile() else None
                    written[entry.name] = content.read() if content else b""
        return "[]" if arguments[0] == "ps" else "10.0.0.2"

    monkeypatch.setattr(podman, "call", call)
    monkeypatch.setattr(podman, "as_root", lambda *_: "")
    monkeypatch.setattr(lab, "connect", lambda *_: podman)
    monkeypatch.setattr(lab, "require", lambda _: None)
    monkeypatch.setattr(image, "ensure", lambda *_: "base")
    monkeypatch.setattr(gpu, "compile_libraries", lambda _: {})
    for name in ("finish", "wait_for_ssh"):
        monkeypatch.setattr(lab, name, lambda *_, **__: None)
    cached.mkdir(parents=True, exist_ok=True)
    made = lab.up(
        "demo",
        Shape(platform=platform, driver_version=given),
        state_dir=tmp_path / "demo",
        count=1,
        with_cache=False,
    )
    (create,) = [arguments for arguments in podman.calls if arguments[0] == "create"]
    assert list(create[create.index("base") + 1 :]) == init
    says = gpu.parse(written["etc/gpu-simulated"].decode())
    assert says["driver_version"] == driver
    assert [host.name for host in made.hosts] == ["gpu01"]


def test_image_has_main_only() -> None:
    """contrib and non-free are for the cuda and driver roles to enable."""
    for row in image.PLATFORMS.values():
        assert all(source.split()[3:] == ["main"] for source in row.sources)


def test_certificates_are_split_out_of_a_bundle() -> None:
    certificate = "-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----"
    assert image.certificates(f"# a comment\n{certificate}\nnoise\n{certificate}\n") == [
        certificate,
        certificate,
    ]


def test_two_labs_of_one_name_need_a_state_directory(
    cached: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    podman = Recorder(
        [container("demo", owner.owner(), tmp_path / place) for place in ("one", "two")]
    )
    monkeypatch.setattr(lab, "connect", lambda: podman)
    with pytest.raises(InputError):
        lab.down("demo")
    assert len(podman.present) == 2


class Images(machine.Podman):
    """Podman with one image of a given age in its storage, or none."""

    def __init__(self, built: float | None) -> None:
        super().__init__()
        self.built = built
        self.imported: list[str] = []

    def run(
        self,
        *arguments: str,
        stdin: bytes | None = None,  # noqa: ARG002
        timeout: float = 900,  # noqa: ARG002
    ) -> subprocess.CompletedProcess[bytes]:
        out, code = b"", 0
        if arguments[:2] == ("image", "inspect"):
            code = 0 if self.built is not None else 125
            out = f"sha256:old {int(self.built or 0)}\n".encode()
        if arguments[0] == "import":
            self.imported.append(arguments[-2])
            out = b"sha256:new\n"
        return subprocess.CompletedProcess(arguments, code, out, b"")


@pytest.mark.parametrize(
    ("age", "tarball_age", "identity", "builds"),
    [
        (60, 60, "sha256:old", 0),
        (None, None, "sha256:new", 1),
        (None, 60, "sha256:new", 0),
        (image.MAXIMUM_AGE + 60, image.MAXIMUM_AGE + 60, "sha256:new", 1),
    ],
    ids=["fresh", "nothing", "storage-emptied", "too-old"],
)
def test_image_is_built_only_when_absent_or_too_old(
    cached: Path,
    monkeypatch: pytest.MonkeyPatch,
    age: float | None,
    tarball_age: float | None,
    identity: str,
    builds: int,
) -> None:
    now = time.time()
    built: list[Path] = []

    def build(podman: machine.Podman, name: str, bundle: str, tarball: Path) -> None:
        built.append(tarball)
        tarball.write_bytes(b"tar")

    monkeypatch.setattr(image, "build", build)
    monkeypatch.setattr(image, "trusted", lambda: "bundle")
    if tarball_age is not None:
        tarball = cached / (image.tag("debian11", "bundle").split(":")[1] + ".tar")
        tarball.write_bytes(b"tar")
        os.utime(tarball, (now - tarball_age, now - tarball_age))
    podman = Images(None if age is None else now - age)
    assert image.ensure(podman, "debian11", cached, machine.silent) == identity
    assert len(built) == builds
