"""The CDI specification made anew, and taken away."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.components.nvidia_container_toolkit import cdi, cdi_specification
from gpu_stack.host.context import Context, Result

from tests.collection import altered, module, programs
from tests.host_tree import put

LIBRARY = "/usr/lib/x86_64-linux-gnu/libcuda.so.470.256.02"
OLD, NEW = "1.17.8", "1.20.1"
GENERATE = ["nvidia-ctk", "cdi", "generate"]


def specification(*paths: str, version: str = "0.5.0") -> str:
    mounts = "".join(f"  - hostPath: {path}\n    containerPath: {path}\n" for path in paths)
    devices = 'devices:\n- name: "0"\n- name: all\n'
    return (
        f"cdiVersion: {version}\nkind: nvidia.com/gpu\n{devices}"
        f"containerEdits:\n  mounts:\n{mounts}"
    )


GOOD = specification(LIBRARY)


class Host:
    """A host with a driver and podman; `asked` is what its programs were asked."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.made: tuple[int, str, str] = (0, GOOD, "")
        self.asked: list[list[str]] = []
        self.podman("4.3.1+ds1-8+deb12u1+b1")
        put(root, LIBRARY, "")
        put(root, cdi.PODMAN, "")

    def podman(self, version: str) -> None:
        text = "Package: podman\nStatus: install ok installed\nArchitecture: amd64\n"
        text += f"Version: {version}\n"
        put(self.root, "/var/lib/dpkg/status", text if version else "")

    def run(self, argv: list[str]) -> Result:
        self.asked.append(list(argv))
        if argv[0].endswith("ldconfig"):
            return Result(0, f"\tlibcuda.so.1 (libc6,x86-64) => {LIBRARY}\n", "")
        return Result(*self.made)

    @property
    def context(self) -> Context:
        return Context(root=str(self.root), runner=self.run)

    def look(self, version: str) -> dict[str, Any]:
        found: dict[str, Any] = cdi_specification.look(self.context, version, "auto")
        return found

    def ask(
        self, version: str, wish: str = "auto", *, check: bool = False
    ) -> tuple[dict[str, Any], str | None]:
        answer: tuple[dict[str, Any], str | None] = cdi_specification.present(
            self.context, version, wish, check
        )
        return answer

    def make(self, version: str) -> dict[str, Any]:
        """{changed, saved} where a specification is there afterwards."""
        answer, reason = self.ask(version)
        assert reason is None
        return {name: answer[name] for name in ("changed", "saved")}

    def file(self, path: str) -> Path:
        return self.root / path.lstrip("/")


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_it_is_made_where_there_is_none(
    host: Host,
) -> None:
    seen = host.look(OLD)
    assert (seen["fault"], seen["path"], seen["driver"]) == ("absent", cdi.ETC, True)
    before = os.umask(0o077)
    try:
        assert host.make(OLD) == {"changed": True, "saved": None}
    finally:
        os.umask(before)
    file = host.file(cdi.ETC)
    assert file.parent.stat().st_mode & 0o777 == 0o755
    assert file.read_text("utf-8") == f"{cdi.MARK}.\n{GOOD}"
    assert file.stat().st_mode & 0o777 == 0o644
    assert sorted(path.name for path in file.parent.iterdir()) == ["nvidia.yaml"]
    assert GENERATE in host.asked
    host.asked.clear()
    assert host.make(OLD) == {"changed": False, "saved": None}
    assert not any(command[0] == "nvidia-ctk" for command in host.asked)


def test_what_somebody_else_made_is_kept(
    host: Host,
) -> None:
    stale = specification("/gone/libcuda.so.460.91.03")
    put(host.root, cdi.ETC, stale)
    put(host.root, f"{cdi.ETC}.provision-saved", "of before")
    kept = f"{cdi.ETC}.provision-saved.2"
    assert host.make(OLD) == {"changed": True, "saved": kept}
    assert (host.root / kept.lstrip("/")).read_text("utf-8") == stale
    before = host.root / f"{cdi.ETC}.provision-saved".lstrip("/")
    assert before.read_text("utf-8") == "of before"
    # Its own it replaces.
    put(host.root, cdi.ETC, f"{cdi.MARK}.\n{stale}")
    assert host.make(OLD) == {"changed": True, "saved": None}


def test_a_newer_toolkit_is_told_what_podman_reads(
    host: Host,
) -> None:
    put(host.root, cdi.RUN, specification(LIBRARY, version="0.7.0"))
    put(host.root, cdi.ETC, f"{cdi.MARK}.\n{GOOD}")
    assert host.make(NEW)["changed"]
    assert [*GENERATE, "--feature-flag", cdi.FLAG] in host.asked
    assert GOOD in (host.file(cdi.RUN)).read_text("utf-8")
    assert not (host.file(cdi.ETC)).exists()
    host.podman("5.4.2+ds1-2+b2")
    put(host.root, cdi.RUN, specification())
    host.make(NEW)
    assert host.asked.count(GENERATE) == 1


def test_what_podman_would_take_before_it_goes_where_it_is_of_no_use(
    host: Host,
) -> None:
    put(host.root, cdi.ETC, f"{cdi.MARK}.\n{GOOD}")
    other = put(host.root, cdi.RUN, GOOD)
    assert host.look(OLD)["left"] is None
    assert not host.make(OLD)["changed"]
    put(host.root, cdi.RUN, specification("/gone"))
    assert host.make(OLD)["changed"]
    assert not other.exists()
    assert (host.file(cdi.ETC)).exists()


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ((1, "", "INFO using\nERRO failed to initialize NVML\n"), "ERRO failed to initialize NVML"),
        ((127, "", "no such program"), "no such program"),
        (
            (0, specification(LIBRARY, version="0.7.0"), ""),
            "what nvidia-ctk cdi generate made CDI 0.7.0, and podman reads 0.5.0",
        ),
        ((0, specification(LIBRARY, "/gone"), ""), "names /gone, which is not there"),
        ((0, specification("/etc/hosts"), ""), f"nvidia-ctk cdi generate made without {LIBRARY}"),
        (
            (0, specification("/x/libcuda.so.460.91.03"), ""),
            "what nvidia-ctk cdi generate made is made for driver 460.91.03",
        ),
        ((0, "", ""), "names no nvidia.com/gpu=all"),
        ((1, "", "\n"), "nvidia-ctk cdi generate says: nothing"),
    ],
)
def test_what_is_of_no_use_does_not_take_its_place(
    host: Host, made: tuple[int, str, str], words: str
) -> None:
    old = specification("/gone/too")
    put(host.root, cdi.ETC, old)
    put(host.root, "/etc/hosts", "")
    put(host.root, "/x/libcuda.so.460.91.03", "")
    host.made = made
    answer, reason = host.ask(OLD)
    assert answer["changed"] is False
    assert str(reason).startswith("There is no CDI specification for this driver: ")
    assert f"{words}. The former one was not changed. nvidia-smi says whether" in str(reason)
    file = host.file(cdi.ETC)
    assert file.read_text("utf-8") == old
    assert [path.name for path in file.parent.iterdir()] == ["nvidia.yaml"]


def test_its_own_goes_and_what_is_somebody_elses_stays(
    host: Host,
) -> None:
    own = f"{cdi.MARK}.\n{GOOD}"
    for etc, run, owned, gone in (
        (own, own, [], [cdi.ETC, cdi.RUN]),
        (GOOD, GOOD, [], []),
        (GOOD, GOOD, ["nvidia-container-toolkit-base"], [cdi.RUN]),
    ):
        put(host.root, cdi.ETC, etc)
        put(host.root, cdi.RUN, run)
        assert cdi_specification.absent(host.context, owned, True) == gone
        assert all(host.file(path).exists() for path in gone)
        assert cdi_specification.absent(host.context, owned, False) == gone
        for path in (cdi.ETC, cdi.RUN):
            assert host.file(path).exists() == (path not in gone)


@pytest.mark.parametrize("version", ["1.12.0", "1.17.8", "1.18.0", "1.19.0", "1.19.1", "1.20.1"])
@pytest.mark.parametrize(
    ("podman", "reads"),
    [
        *(("3.4.4", ()), ("4.0.9", ()), ("4.1.0", (0, 5, 0)), ("4.9.3", (0, 5, 0))),
        *(("5.0.3", (0, 5, 0)), ("5.1.0", (0, 7, 0)), ("", None)),
    ],
)
def test_what_a_toolkit_and_a_podman_have_in_common(
    version: str, podman: str, reads: tuple[int, ...] | None
) -> None:
    assert cdi.reads(podman) == reads
    assert cdi.place(version) == (cdi.ETC if version in ("1.12.0", "1.17.8") else cdi.RUN)
    assert cdi.plain(version, podman) == (version in ("1.19.1", "1.20.1") and reads == (0, 5, 0))


def test_check_mode_says_what_would_be_done_and_does_nothing(host: Host) -> None:
    stale = put(host.root, cdi.ETC, specification("/gone"))
    other = put(host.root, cdi.RUN, specification("/gone"))
    answer, reason = host.ask(OLD, check=True)
    assert reason is None
    assert answer == {
        "podman": "4.3.1", "driver": True, "fault": "names /gone, which is not there",
        "left": cdi.RUN, "path": cdi.ETC, "wanted": True, "unit": False, "plain": False,
        "changed": True, "saved": None, "diff": [],
    }  # fmt: skip
    assert [stale.exists(), other.exists(), GENERATE in host.asked] == [True, True, False]
    assert [path.name for path in stale.parent.iterdir()] == ["nvidia.yaml"]


def test_the_difference_is_shown_and_what_is_in_the_way_goes(host: Host) -> None:
    old = specification("/gone")
    put(host.root, cdi.ETC, old)
    put(host.root, cdi.RUN, old)
    (shown,) = host.ask(OLD)[0]["diff"]
    assert (shown["before"], shown["after"]) == (old, f"{cdi.MARK}.\n{GOOD}")
    assert shown["before_header"] == shown["after_header"] == cdi.ETC
    assert not host.file(cdi.RUN).exists()


@pytest.mark.parametrize("check", [False, True])
def test_a_podman_that_is_too_old_is_refused_where_it_is_required(host: Host, check: bool) -> None:
    host.podman("3.0.1+dfsg1-3+deb11u5")
    answer, reason = host.ask(OLD, check=check)
    assert (answer["changed"], answer["wanted"], reason) == (False, False, None)
    answer, reason = host.ask(OLD, "required", check=check)
    assert answer["changed"] is False
    assert reason == (
        "nvidia_container_toolkit_cdi is required, and podman 3.0.1 reads no CDI specification; "
        "4.1 is the first that does. Install a newer podman, or set it to auto. Nothing was "
        "changed."
    )
    assert GENERATE not in host.asked


def test_without_podman_it_is_made_where_it_is_required(host: Host) -> None:
    host.file(cdi.PODMAN).unlink()
    assert host.make(OLD) == {"changed": False, "saved": None}
    assert host.look(OLD)["wanted"] is False
    assert host.ask(OLD, "required")[0]["changed"] is True
    assert host.file(cdi.ETC).exists()


def test_without_the_driver_it_is_refused_where_it_is_required(host: Host) -> None:
    host.file(LIBRARY).unlink()
    assert host.make(OLD) == {"changed": False, "saved": None}
    # In check mode the same run may bring the driver.
    assert host.ask(OLD, "required", check=True)[1] is None
    assert host.ask(OLD, "required")[1] == (
        "nvidia_container_toolkit_cdi is required, and the loader finds no libcuda.so.1: a CDI "
        "specification names the driver's libraries. Install the driver, then run again."
    )
    assert GENERATE not in host.asked


def test_what_cannot_be_written_is_reported(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    old = put(host.root, cdi.ETC, f"{cdi.MARK}.\n")
    monkeypatch.setattr(cdi_specification.os, "fsync", full)
    answer, reason = host.ask(OLD)
    assert answer["changed"] is False
    assert "for this driver: [Errno 28] No space left on device. The former one" in str(reason)
    assert old.read_text("utf-8") == f"{cdi.MARK}.\n"
    assert [path.name for path in old.parent.iterdir()] == ["nvidia.yaml"]


def test_what_nvidia_ctk_is_told_by_its_environment_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NVIDIA_CTK_CDI_OUTPUT_FILE_PATH", "/elsewhere")
    monkeypatch.setenv("NVIDIA_CTK_CDI_GENERATE_FEATURE_FLAGS", "x")
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    monkeypatch.setenv("KEPT", "1")
    here = cdi_specification.host()
    answer = here.run(["env"])
    assert answer.rc == 0
    lines = answer.out.splitlines()
    assert not [line for line in lines if line.startswith("NVIDIA_CTK")]
    assert {"KEPT=1", "LC_ALL=C"} <= set(lines)
    path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    assert path in lines
    assert here.run(["/no/such/program"]).rc == 127
    assert here.run.keywords["patience"] == 120.0


# the module, by Ansible itself

HERE = """
from ...host.context import Result

def _answer(argv):
    if argv[0] == "/sbin/ldconfig":
        return Result(0, {ldconfig!r}, "")
    return Result(0, {made!r}, "") if argv[:3] == {generate!r} else Result(127, "", "")

def host():
    return Context(root={root!r}, runner=_answer)
"""


@pytest.mark.parametrize("program", programs("ansible"))
def test_the_module_makes_it_and_takes_it_away(
    host: Host, tmp_path_factory: pytest.TempPathFactory, program: str
) -> None:
    here = HERE.format(
        ldconfig=f"\tlibcuda.so.1 (libc6,x86-64) => {LIBRARY}\n",
        made=GOOD, generate=GENERATE, root=str(host.root),
    )  # fmt: skip
    path = "gpu_stack/components/nvidia_container_toolkit/cdi_specification.py"
    collection = altered(tmp_path_factory.mktemp("collections"), {path: here})

    def ask(*more: str, **options: Any) -> tuple[dict[str, Any], str]:
        return module(program, "cdi", options, "--diff", *more, path=collection)

    answer, output = ask("--check", version=OLD)
    assert (answer["changed"], answer["fault"], answer["path"]) == (True, "absent", cdi.ETC)
    assert not host.file(cdi.ETC).exists()
    answer, output = ask(version=OLD)
    assert answer["changed"] is True
    assert "+cdiVersion: 0.5.0" in output
    assert host.file(cdi.ETC).read_text("utf-8") == f"{cdi.MARK}.\n{GOOD}"
    answer, output = ask("--check", state="absent")
    assert (answer["changed"], answer["gone"]) == (True, [cdi.ETC])
    assert host.file(cdi.ETC).exists()
    answer, output = ask(state="absent")
    assert (answer["changed"], answer["gone"]) == (True, [cdi.ETC])
    assert not host.file(cdi.ETC).exists()
    host.podman("3.0.1")
    answer, output = ask("--check", version=OLD, wish="required")
    assert answer["msg"].startswith("nvidia_container_toolkit_cdi is required, and podman 3.0.1")
