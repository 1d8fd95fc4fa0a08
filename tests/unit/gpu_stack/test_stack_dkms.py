"""DKMS: for which kernels the driver's module is built, and what of other drivers goes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.components.nvidia_driver import dkms, driver_method, make_log, signing
from gpu_stack.host import apt_commands
from gpu_stack.host.refusal import RefusalError

from plugins.modules import driver_module
from tests.host_tree import link, put
from tests.unit.driver.test_module_files import elf
from tests.unit.gpu_stack import apt_host
from tests.unit.gpu_stack.apt_host import AptHost

VERSION = "470.256.02"
OLD, NEW = "5.10.0-31-amd64", "5.10.0-32-amd64"


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AptHost:
    answers = apt_host.install(monkeypatch)
    answers.says("modinfo", (0, f"{VERSION}\n", ""))
    monkeypatch.setattr(dkms, "SOURCES", str(tmp_path / "src"))
    monkeypatch.setattr(driver_method, "DKMS", str(tmp_path / "dkms"))
    return answers


def settle(check_mode: bool = False, **options: Any) -> dict[str, Any]:
    asked = {"version": VERSION, "kernels": [OLD, NEW], **options}
    return dkms.settle(apt_host.parameters(driver_module, **asked), check_mode)


@pytest.mark.parametrize(
    ("own", "sources", "name"),
    [
        ("nvidia-current", [f"nvidia-srv-{VERSION}"], "nvidia-current"),
        ("nvidia", [f"nvidia-srv-{VERSION}"], "nvidia-srv"),
        ("", [f"nvidia-{VERSION}", f"nvidia-srv-{VERSION}"], "nvidia"),
        ("", ["nvidia-srv-470.1", "linux-470", f"other-{VERSION}"], "nvidia"),
        ("", [], "nvidia"),
    ],
)
def test_the_sources_tell_what_dkms_calls_the_module(
    host: AptHost, tmp_path: Path, own: str, sources: list[str], name: str
) -> None:
    for source in sources:
        (tmp_path / "src" / source).mkdir(parents=True)
    assert dkms.name_of(VERSION, own) == name


def test_what_is_built_costs_no_build(host: AptHost) -> None:
    assert settle() == {"changed": False, "built": [], "removed": []}
    assert host.calls == [f"modinfo -F version -k {kernel} nvidia" for kernel in (OLD, NEW)]
    host.calls.clear()
    settle(platforms_own="nvidia-current")
    assert host.calls[-1] == f"modinfo -F version -k {NEW} nvidia-current"


@pytest.mark.parametrize("check_mode", [False, True])
def test_the_module_is_built_for_the_kernels_that_lack_it(host: AptHost, check_mode: bool) -> None:
    host.says(f"modinfo {NEW}", (1, "", "modinfo: ERROR"), (0, f"{VERSION}\n", ""))
    result = settle(check_mode)
    assert (result["changed"], result["built"]) == (True, [NEW])
    command = f"dkms install -m nvidia -v {VERSION} -k {NEW} --force"
    assert host.ran("dkms") == ([] if check_mode else [command])
    assert result.get("msg") == (f"Would build the kernel module for {NEW}" if check_mode else None)


@pytest.mark.parametrize("check_mode", [False, True])
def test_a_module_that_secure_boot_refuses_is_built_anew(
    host: AptHost, monkeypatch: pytest.MonkeyPatch, check_mode: bool
) -> None:
    """`dkms install` alone would install the unsigned one that it has."""
    asked = []

    def verdicts(_context: Any, kernels: list[str], name: str) -> dict[str, str | None]:
        asked.append((kernels, name))
        return {OLD: signing.TRUSTED, NEW: signing.UNSIGNED}

    monkeypatch.setattr(signing, "verdicts", verdicts)
    result = settle(check_mode, platforms_own="nvidia-current")
    assert asked == [([OLD, NEW], "nvidia-current")]
    assert (result["changed"], result["built"]) == (True, [NEW])
    name = f"-m nvidia-current -v {VERSION} -k {NEW}"
    assert host.ran("dkms") == (
        [] if check_mode else [f"dkms remove {name}", f"dkms install {name} --force"]
    )


@pytest.mark.parametrize("spoiled", [False, True])
def test_modules_that_a_power_cut_left_empty_are_installed_anew(
    host: AptHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spoiled: bool
) -> None:
    """modinfo says the right version of nvidia.ko; a build that is spoiled too is not installed."""
    built = f"{VERSION}/{NEW}/x86_64"
    link(tmp_path, f"dkms/nvidia/kernel-{NEW}-x86_64", built)
    kept = put(tmp_path, f"dkms/nvidia/{built}/module/nvidia-uvm.ko", "" if spoiled else elf())
    copy = put(tmp_path, "loaded/nvidia-uvm.ko", "")
    monkeypatch.setattr(driver_method, "installed", lambda _kernel: str(copy.parent))

    def run(argv: list[str], patience: float, environment: dict[str, str]) -> Any:
        if argv[:2] == ["dkms", "install"]:
            kept.write_bytes(elf())
            copy.write_bytes(elf())
        return host.run(argv, patience, environment)

    monkeypatch.setattr(apt_commands, "run_program", run)
    result = settle()
    assert (result["changed"], result["built"]) == (True, [NEW])
    name = f"-m nvidia -v {VERSION} -k {NEW}"
    first = "remove" if spoiled else "uninstall"
    assert host.ran("dkms") == [f"dkms {first} {name}", f"dkms install {name} --force"]
    assert settle()["changed"] is False


@pytest.mark.parametrize("silent", [False, True])
def test_a_failing_build_shows_the_compilers_line(
    host: AptHost, tmp_path: Path, silent: bool
) -> None:
    """Also where DKMS ends with 0 and there is no module."""
    log = tmp_path / "dkms/nvidia-srv" / VERSION / "build/make.log"
    host.says("modinfo", (1, "", ""))
    host.says("dkms install", (0, "", "noise") if silent else (10, "", "Error! Bad return status"))
    error = "" if silent else " Error! Bad return status / Error! Bad return status"
    with pytest.raises(RefusalError) as raised:
        settle()
    assert str(raised.value) == (f"The kernel module was not built. Kernel: {OLD}, {NEW}.{error}")
    assert len(host.ran("dkms install")) == 2
    log.parent.mkdir(parents=True)
    log.write_text("nv.c:7:2: error: made for the test\n")
    with pytest.raises(RefusalError) as raised:
        settle()
    assert str(raised.value) == (
        "The kernel module was not built: nv.c:7:2: error: made for the test (whole output on the"
        f" host: {log}). Kernel: {OLD}, {NEW}.{error}"
    )
    assert host.ran("dkms remove") == []


def write_log(path: Path, kernel: str, line: str, when: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"DKMS make.log for nvidia-{VERSION} for kernel {kernel} (x86_64)\n{line}\n")
    os.utime(path, (when, when))


def test_the_log_is_the_failing_kernels_and_not_the_newest(host: AptHost, tmp_path: Path) -> None:
    """A successful build of another kernel is newer, and its log is no reason."""
    place = tmp_path / "dkms/nvidia" / VERSION
    write_log(place / OLD / "x86_64/log/make.log", OLD, "ok.c:1:1: error: of the good one", 9000)
    write_log(tmp_path / "dkms/nvidia-srv" / VERSION / "build/make.log", OLD, "a:1: error: o", 8000)
    assert make_log.words(VERSION, "nvidia", [NEW]) == ""
    write_log(place / "build/make.log", NEW, "nv.c:7:2: error: of the failing one", 1000)
    for kernels in ([NEW], [NEW, "5.10.0-99-amd64"]):
        message = make_log.words(VERSION, "nvidia", kernels)
        assert "of the failing one" in message
        assert "of the good one" not in message
    # where DKMS took a build for good, and the kernel lacks the module all the same
    write_log(place / NEW / "x86_64/log/make.log", NEW, "nv.c:9:9: error: taken for good", 500)
    (place / "build/make.log").unlink()
    assert "taken for good" in make_log.words(VERSION, "nvidia", [NEW])


def test_the_log_of_debian_13s_dkms_names_its_kernel_too(host: AptHost, tmp_path: Path) -> None:
    """From 3.2.0 on its own version stands in the first line, and a slash before the driver's."""
    log = tmp_path / "dkms/nvidia" / VERSION / "build/make.log"
    log.parent.mkdir(parents=True)
    log.write_text(
        f"DKMS (dkms-3.2.2) make.log for nvidia/{VERSION} for kernel {OLD} (x86_64)\n"
        "nv.c:7:2: error: of another kernel\n"
    )
    assert make_log.words(VERSION, "nvidia", [NEW]) == ""
    assert "of another kernel" in make_log.words(VERSION, "nvidia", [OLD])


def test_a_later_build_does_not_hide_the_log_of_the_one_that_failed(
    host: AptHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "dkms/nvidia" / VERSION / "build/make.log"
    host.says(f"modinfo {OLD}", (1, "", ""))
    host.says(f"modinfo {NEW}", (1, "", ""), (0, f"{VERSION}\n", ""))
    host.says(f"dkms install {OLD}", (10, "", "Error! Bad return status"))
    run = apt_commands.run

    def dkms_run(argv: list[str], *more: Any) -> Any:
        if argv[:2] == ["dkms", "install"]:
            if OLD in argv:
                write_log(log, OLD, "nv.c:7:2: error: of the first", 1000)
            else:
                log.unlink()
        return run(argv, *more)

    monkeypatch.setattr(apt_commands, "run", dkms_run)
    with pytest.raises(RefusalError) as raised:
        settle()
    assert "of the first" in str(raised.value)
    assert f"Kernel: {OLD}. Keep {NEW}, which has its module: " in str(raised.value)
    assert str(raised.value).endswith("builds for it. Error! Bad return status")


def test_a_build_that_fails_says_which_kernels_to_keep(host: AptHost) -> None:
    host.says(f"modinfo {NEW}", (1, "", ""))
    host.says("dkms install", (10, "", "Error!"))
    with pytest.raises(RefusalError, match="which has its module: boot it"):
        settle()
    with pytest.raises(RefusalError, match=r"Keep 4\.1 and 5\.1, which have their module"):
        settle(kernels=["5.1", NEW, "4.1"])
    with pytest.raises(RefusalError) as raised:
        settle(kernels=[NEW])
    assert "Keep" not in str(raised.value)


@pytest.mark.parametrize("check_mode", [False, True])
def test_other_drivers_modules_leave_dkms(host: AptHost, tmp_path: Path, check_mode: bool) -> None:
    for name in (f"nvidia/{VERSION}", "nvidia/460.1", "nvidia-srv-open/535.183.01"):
        (tmp_path / "dkms" / name).mkdir(parents=True)
    for name in ("nvidia-current/460.1", "zfs/2.1.0", "nvidia/source"):
        (tmp_path / "dkms" / name).mkdir(parents=True)
    (tmp_path / "dkms/nvidia/450.1").symlink_to("460.1")
    result = settle(check_mode)
    assert result["changed"] is True
    assert result["removed"] == ["nvidia/460.1", "nvidia-srv-open/535.183.01"]
    assert host.ran("dkms") == (
        []
        if check_mode
        else [
            "dkms remove -m nvidia -v 460.1 --all",
            "dkms remove -m nvidia-srv-open -v 535.183.01 --all",
        ]
    )
    assert settle(platforms_own="nvidia-current")["removed"] == []


def test_a_module_that_stays_in_dkms_stops_it(host: AptHost, tmp_path: Path) -> None:
    (tmp_path / "dkms/nvidia/460.1").mkdir(parents=True)
    host.says("dkms remove", (3, "", "Error! busy\n"))
    with pytest.raises(RefusalError, match=r"^dkms could not remove nvidia/460\.1: Error! busy$"):
        settle()
