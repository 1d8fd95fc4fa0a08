"""roles/nvidia_container_toolkit/files/cdi.py: the specification made anew, and taken away."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.components.nvidia_container_toolkit import cdi as look

ROLE = Path(__file__).parents[2] / "roles" / "nvidia_container_toolkit"
SPEC = importlib.util.spec_from_file_location("cdi_script", ROLE / "files" / "cdi.py")
assert SPEC is not None
assert SPEC.loader is not None
cdi = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(cdi)

LIBRARY = "/usr/lib/x86_64-linux-gnu/libcuda.so.470.256.02"
OLD, NEW = "1.17.8", "1.20.1"


def specification(*paths: str, version: str = "0.5.0") -> str:
    mounts = "".join(f"  - hostPath: {path}\n    containerPath: {path}\n" for path in paths)
    devices = 'devices:\n- name: "0"\n- name: all\n'
    return (
        f"cdiVersion: {version}\nkind: nvidia.com/gpu\n{devices}"
        f"containerEdits:\n  mounts:\n{mounts}"
    )


GOOD = specification(LIBRARY)


class Programs:
    """What the script's programs answer; `asked` is what they were asked."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.podman = "4.3.1+ds1-8+deb12u1+b1"
        self.made: tuple[int, str, str] = (0, GOOD, "")
        self.asked: list[list[str]] = []

    def run(self, *argv: str) -> tuple[int, str, str]:
        self.asked.append(list(argv))
        if argv[0] == "ldconfig":
            return 0, f"\tlibcuda.so.1 (libc6,x86-64) => {LIBRARY}\n", ""
        if argv[0] == "dpkg-query":
            return (0, self.podman, "") if self.podman else (1, "", "no packages found")
        return self.made


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    made = Programs(tmp_path)
    monkeypatch.setattr(cdi, "ROOT", str(tmp_path))
    monkeypatch.setattr(cdi, "run", made.run)
    put(tmp_path, LIBRARY, "")
    put(tmp_path, cdi.PODMAN, "")
    return made


def put(root: Path, path: str, text: str) -> Path:
    target = root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, "utf-8")
    return target


def answer(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    assert cdi.main(list(argv)) == 0
    return json.loads(capsys.readouterr().out)


def test_it_is_made_where_there_is_none(
    programs: Programs, capsys: pytest.CaptureFixture[str]
) -> None:
    found = answer(capsys, "look", OLD)
    assert (found["fault"], found["path"], found["driver"]) == ("absent", cdi.ETC, True)
    before = os.umask(0o077)
    try:
        assert answer(capsys, "make", OLD) == {"changed": True, "saved": None}
    finally:
        os.umask(before)
    file = programs.root / cdi.ETC.lstrip("/")
    assert file.parent.stat().st_mode & 0o777 == 0o755
    assert file.read_text("utf-8") == f"{cdi.MARK}.\n{GOOD}"
    assert file.stat().st_mode & 0o777 == 0o644
    assert sorted(path.name for path in file.parent.iterdir()) == ["nvidia.yaml"]
    assert ["nvidia-ctk", "cdi", "generate"] in programs.asked
    programs.asked.clear()
    assert answer(capsys, "make", OLD) == {"changed": False, "saved": None}
    assert not any(one[0] == "nvidia-ctk" for one in programs.asked)


def test_what_somebody_else_made_is_kept(
    programs: Programs, capsys: pytest.CaptureFixture[str]
) -> None:
    stale = specification("/gone/libcuda.so.460.91.03")
    put(programs.root, cdi.ETC, stale)
    put(programs.root, f"{cdi.ETC}.provision-saved", "of before")
    kept = f"{cdi.ETC}.provision-saved.2"
    assert answer(capsys, "make", OLD) == {"changed": True, "saved": kept}
    assert (programs.root / kept.lstrip("/")).read_text("utf-8") == stale
    before = programs.root / f"{cdi.ETC}.provision-saved".lstrip("/")
    assert before.read_text("utf-8") == "of before"
    # Its own it replaces.
    put(programs.root, cdi.ETC, f"{cdi.MARK}.\n{stale}")
    assert answer(capsys, "make", OLD) == {"changed": True, "saved": None}


def test_a_newer_toolkit_is_told_what_podman_reads(
    programs: Programs, capsys: pytest.CaptureFixture[str]
) -> None:
    put(programs.root, cdi.RUN, specification(LIBRARY, version="0.7.0"))
    put(programs.root, cdi.ETC, f"{cdi.MARK}.\n{GOOD}")
    assert answer(capsys, "make", NEW)["changed"]
    assert ["nvidia-ctk", "cdi", "generate", "--feature-flag", cdi.FLAG] in programs.asked
    assert GOOD in (programs.root / cdi.RUN.lstrip("/")).read_text("utf-8")
    assert not (programs.root / cdi.ETC.lstrip("/")).exists()
    programs.podman = "5.4.2+ds1-2+b2"
    put(programs.root, cdi.RUN, specification())
    answer(capsys, "make", NEW)
    assert programs.asked.count(["nvidia-ctk", "cdi", "generate"]) == 1


def test_what_podman_would_take_before_it_goes_where_it_is_of_no_use(
    programs: Programs, capsys: pytest.CaptureFixture[str]
) -> None:
    put(programs.root, cdi.ETC, f"{cdi.MARK}.\n{GOOD}")
    other = put(programs.root, cdi.RUN, GOOD)
    assert answer(capsys, "look", OLD)["left"] is None
    assert not answer(capsys, "make", OLD)["changed"]
    put(programs.root, cdi.RUN, specification("/gone"))
    assert answer(capsys, "make", OLD)["changed"]
    assert not other.exists()
    assert (programs.root / cdi.ETC.lstrip("/")).exists()


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ((1, "", "INFO using\nERRO failed to initialize NVML\n"), "ERRO failed to initialize NVML"),
        ((127, "", "no such program"), "no such program"),
        ((0, specification(LIBRARY, version="0.7.0"), ""), "made CDI 0.7.0, and podman reads"),
        ((0, specification(LIBRARY, "/gone"), ""), "names /gone, which is not there"),
        ((0, "", ""), "names no nvidia.com/gpu=all"),
    ],
)
def test_what_is_of_no_use_does_not_take_its_place(
    programs: Programs,
    made: tuple[int, str, str],
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    old = specification("/gone/too")
    put(programs.root, cdi.ETC, old)
    programs.made = made
    assert cdi.main(["make", OLD]) == 1
    assert words in capsys.readouterr().err
    file = programs.root / cdi.ETC.lstrip("/")
    assert file.read_text("utf-8") == old
    assert [path.name for path in file.parent.iterdir()] == ["nvidia.yaml"]


def test_its_own_goes_and_what_is_somebody_elses_stays(
    programs: Programs, capsys: pytest.CaptureFixture[str]
) -> None:
    own = f"{cdi.MARK}.\n{GOOD}"
    for etc, run, owned, gone in (
        (own, own, [], [cdi.ETC, cdi.RUN]),
        (GOOD, GOOD, [], []),
        (GOOD, GOOD, ["nvidia-container-toolkit-base"], [cdi.RUN]),
    ):
        put(programs.root, cdi.ETC, etc)
        put(programs.root, cdi.RUN, run)
        found = answer(capsys, "take", NEW, *owned)
        assert found == {"changed": bool(gone), "gone": gone}
        for path in (cdi.ETC, cdi.RUN):
            assert (programs.root / path.lstrip("/")).exists() == (path not in gone)


@pytest.mark.parametrize("version", ["1.12.0", "1.17.8", "1.18.0", "1.19.0", "1.19.1", "1.20.1"])
def test_it_judges_as_the_look_does(version: str, programs: Programs) -> None:
    """The role works alone, so it has the look's rules once more: here they meet."""

    def exists(path: str) -> bool:
        return os.path.exists(cdi.inside(path))

    texts = [
        None,
        GOOD,
        "",
        GOOD.replace("nvidia.com/gpu", "other.com/gpu"),
        specification(LIBRARY, "/a", "/b"),
        *(specification(LIBRARY, version=one) for one in ("0.3.0", "0.6.0", "0.7.0", '"1.0.0"')),
    ]
    assert cdi.place(version) == look.place(version)
    for podman in ("3.4.4", "4.0.9", "4.1.0", "4.9.3", "5.0.3", "5.1.0", ""):
        assert cdi.reads(podman) == look.reads(podman)
        assert cdi.plain(version, podman) == look.plain(version, podman)
        for text in texts:
            newest = look.reads(podman)
            assert cdi.fault(text, newest, LIBRARY) == look.fault(text, newest, LIBRARY, exists)
    assert cdi.fault(specification(), None, LIBRARY) == "without libcuda.so.470.256.02"
    assert look.fault(specification(), None, LIBRARY, exists) == f"without {LIBRARY}"


def test_what_nvidia_ctk_is_told_by_its_environment_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NVIDIA_CTK_CDI_OUTPUT_FILE_PATH", "/elsewhere")
    monkeypatch.setenv("NVIDIA_CTK_CDI_GENERATE_FEATURE_FLAGS", "x")
    rc, out, _ = cdi.run("env")
    assert rc == 0
    assert "NVIDIA_CTK" not in out
    assert cdi.run("/no/such/program")[0] == 127
