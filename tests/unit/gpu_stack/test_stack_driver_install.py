"""The driver's packages: what apt must offer, what may go for them, and the one transaction."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.components.nvidia_driver import driver_install, driver_method, make_log
from gpu_stack.host import apt_commands, package_lists, service_starts
from gpu_stack.host.context import Context

from plugins.modules import driver_packages
from tests.unit.gpu_stack import apt_host
from tests.unit.gpu_stack.apt_host import SHOW, SIMULATE, AptHost

VERSION = "470.256.02"
PACKAGES = {"nvidia-smi": "470-3", "libcuda1": "470-3"}
SPECS = ["libcuda1=470-3", "nvidia-smi=470-3"]
RECORDS = """\
Package: libcuda1
Version: 470-3
SHA256: AAAA

Package: nvidia-smi
Version: 470-3
SHA256: bbbb
"""
POLICY = """\
linux-headers-amd64:
  Installed: (none)
  Candidate: 5.10.1
linux-headers-5.10.0-32-amd64:
  Installed: 5.10.2
  Candidate: 5.10.2
linux-headers-5.10.0-31-amd64:
  Installed: (none)
  Candidate: (none)
"""
KERNELS = ["linux-headers-5.10.0-32-amd64", "linux-headers-5.10.0-31-amd64"]
HEADERS = {
    "kernels": KERNELS,
    "images": [],
    "flavour": "linux-headers-amd64",
    "platform": "linux-headers-platform",
}
FAILED = "E: Failed to fetch https://ada:secret@lab.example.org/x.deb  503  Busy"


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AptHost:
    answers = apt_host.install(monkeypatch)
    answers.says(SHOW, (0, RECORDS, ""))
    answers.says("apt-cache policy", (0, POLICY, ""))
    answers.says("--fix-broken", (0, "0 upgraded, 0 newly installed, 0 to remove", ""))
    monkeypatch.setattr(package_lists, "fetch", lambda _suites, _wait: package_lists.nothing())
    policy = tmp_path / "policy-rc.d"
    monkeypatch.setattr(service_starts, "POLICY", str(policy))
    monkeypatch.setattr(service_starts, "KEPT", f"{policy}.provision-kept")
    monkeypatch.setattr(service_starts, "NEW", f"{policy}.provision-new")
    monkeypatch.setattr(driver_install, "ALTERNATIVES", str(tmp_path / "alternatives"))
    monkeypatch.setattr(driver_method, "DKMS", str(tmp_path / "dkms"))
    recorded(monkeypatch)
    return answers


def recorded(monkeypatch: pytest.MonkeyPatch, **states: str) -> None:
    """dpkg's records: {name: "want status version"}."""
    packages = {}
    for name, state in states.items():
        want, status, version = state.split()
        packages[name] = {"want": want, "status": status, "version": version}
    monkeypatch.setattr(Context, "packages", packages)


def installed(monkeypatch: pytest.MonkeyPatch, **states: str) -> None:
    """dpkg's records where the whole driver is installed, and these besides."""
    there = {name: f"install installed {version}" for name, version in PACKAGES.items()}
    recorded(monkeypatch, **{**there, **states})


def settle(check_mode: bool = False, **options: Any) -> dict[str, Any]:
    asked = {"version": VERSION, "packages": PACKAGES, "parts": list(PACKAGES), "state": "present"}
    asked.update(options)
    return driver_install.settle(apt_host.parameters(driver_packages, **asked), check_mode)


def refusal(**options: Any) -> str:
    return apt_host.refusal(settle, **options)


def installations(host: AptHost) -> list[str]:
    """The calls that change packages, apart from the mending of dependencies."""
    calls = host.ran("apt-get --yes") + host.ran("apt-get remove")
    kept = [call for call in calls if "--simulate" not in call and "--fix-broken" not in call]
    return list(dict.fromkeys(kept))


@pytest.mark.parametrize(
    ("states", "missing"),
    [
        ({}, SPECS),
        ({"libcuda1": "hold installed 470-3", "nvidia-smi": "install installed 470-3"}, []),
        ({"libcuda1": "install installed 460-1", "nvidia-smi": "hold installed 470-3"}, SPECS[:1]),
        ({"libcuda1": "install unpacked 470-3", "nvidia-smi": "hold installed 470-3"}, SPECS[:1]),
        (
            {"libcuda1": "deinstall installed 470-3", "nvidia-smi": "hold installed 470-3"},
            SPECS[:1],
        ),
    ],
)
def test_dpkgs_records_tell_what_is_missing(
    host: AptHost, monkeypatch: pytest.MonkeyPatch, states: dict[str, str], missing: list[str]
) -> None:
    recorded(monkeypatch, **states)
    result = settle(check_mode=True)
    assert (result["missing"], result["needed"]) == (missing, bool(missing))
    assert result["changed"] is bool(missing)
    assert result.get("msg", "") == (f"Would install {' '.join(missing)}" if missing else "")
    assert host.calls == []


def test_what_is_there_costs_nothing(host: AptHost, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch)
    assert settle(state="offered", renewed=True)["needed"] is False
    assert settle()["changed"] is False
    assert host.calls == []


@pytest.mark.parametrize(
    ("options", "needed"),
    [
        ({"dkms": True, "headers": HEADERS}, True),
        ({"signed": ["linux-modules-nvidia-470-server-generic"]}, False),
        ({"reinstall": ["nvidia-smi"]}, True),
        ({"reinstall": ["not-ours"]}, False),
        ({"other_branch": ["libnvidia-compute-460"]}, True),
        ({"others": ["libnvidia-compute-460"]}, False),
    ],
)
def test_more_than_the_versions_can_be_needed(
    host: AptHost, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], needed: bool
) -> None:
    installed(monkeypatch)
    assert settle(state="offered", **options)["needed"] is needed
    assert installations(host) == []
    assert settle(check_mode=True, **options)["changed"] is needed


def test_one_transaction_that_removes_nothing_and_starts_no_service(
    host: AptHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies = []

    def run(argv: list[str], patience: float, environment: dict[str, str]) -> Any:
        if argv[-1] == SPECS[-1] and "--yes" in argv:
            mode = os.stat(service_starts.POLICY).st_mode & 0o777
            policies.append((Path(service_starts.POLICY).read_text(), mode))
        return host.run(argv, patience, environment)

    monkeypatch.setattr(apt_commands, "run_program", run)
    assert settle(checksums={"libcuda1": "aaaa"})["changed"] is True
    (call,) = installations(host)
    for option in (
        *("--yes", "--no-remove", "--allow-downgrades", "--allow-change-held-packages"),
        *("-oAPT::Install-Recommends=no", "-oDPkg::Lock::Timeout=600"),
        *("-oDPkg::Options::=--force-confdef", "-oDPkg::Options::=--force-confold"),
    ):
        assert f" {option} " in call
    assert call.endswith(f" install {' '.join(SPECS)}")
    assert policies == [(service_starts.TEXT, 0o755)]
    assert not os.path.lexists(service_starts.POLICY)
    (mended,) = host.ran("--fix-broken")
    assert host.calls.index(mended) < host.calls.index(host.ran(SIMULATE)[0])
    assert host.calls.index(host.ran(SIMULATE)[0]) < host.calls.index(call)


def test_only_what_is_not_installed_of_the_modules_needs_is_asked_for(
    host: AptHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """apt would bring a newer DKMS for one that is named without a version."""
    installed(monkeypatch, dkms="install installed 2.8")
    settle(dkms=True, headers=HEADERS)
    (call,) = installations(host)
    assert call.endswith(f" install linux-headers-amd64 {KERNELS[0]}")
    assert host.ran(SIMULATE) == []


SIGNED = "linux-modules-nvidia-470-server"


def test_signed_modules_follow_the_packages_that_bring_kernels(
    host: AptHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the lock's flavour: its package would bring another kernel."""
    tied = f"Depends: nvidia-kernel-common-470-server (>= {VERSION})\n"
    newer = "Depends: nvidia-kernel-common-470-server (>= 470.999.01)\n"
    name = f"{SIGNED}-generic-hwe-22.04"
    records = "".join(
        f"Package: {name}\nVersion: {version}\n{depends}\n"
        for version, depends in (("6.8.0-80.80", newer), ("6.8.0-79.79", tied))
    )
    installed(monkeypatch, **{"linux-image-generic-hwe-22.04": "install installed 6.8"})
    asked = {"signed": [f"{SIGNED}-generic"]}
    host.says(f"{SHOW} {name}", (0, records, ""))
    assert settle(state="offered", **asked)["needed"] is True
    assert settle(check_mode=True, **asked)["changed"] is True
    assert installations(host) == []
    settle(**asked)
    (call,) = installations(host)
    assert call.endswith(f" install {name}=6.8.0-79.79")
    there = dict.fromkeys(["linux-image-generic-hwe-22.04", name], "install installed 6.8")
    installed(monkeypatch, **there)
    assert settle(state="offered", **asked)["needed"] is False


def test_headers_that_apt_does_not_have_change_nothing(
    host: AptHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = dict.fromkeys(["dkms", "linux-headers-amd64", KERNELS[0]], "install installed 1")
    installed(monkeypatch, **there)
    assert settle(dkms=True, headers=HEADERS)["changed"] is False
    assert installations(host) == []


@pytest.mark.parametrize(
    ("headers", "chosen"),
    [
        (HEADERS, ["linux-headers-amd64", KERNELS[0]]),
        ({**HEADERS, "flavour": "linux-headers-rt"}, ["linux-headers-platform", KERNELS[0]]),
        (
            {**HEADERS, "images": ["linux-headers-amd64"], "flavour": "linux-headers-rt"},
            ["linux-headers-amd64", KERNELS[0]],
        ),
        ({**HEADERS, "images": ["linux-headers-hwe"]}, ["linux-headers-platform", KERNELS[0]]),
        ({**HEADERS, "kernels": []}, ["linux-headers-amd64"]),
    ],
)
def test_headers_are_chosen_of_what_apt_has(
    host: AptHost, headers: dict[str, Any], chosen: list[str]
) -> None:
    assert settle(state="offered", dkms=True, headers=headers)["headers"] == chosen
    alone = settle(state="offered", packages={}, dkms=True, headers=headers)
    assert alone["headers"] == chosen
    assert len(host.ran(SHOW)) == 1


def test_unknown_versions_are_looked_for_in_fresh_lists(
    host: AptHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = apt_host.fetches_for_unknown_versions(host, monkeypatch, RECORDS, settle)
    assert waits == [600] * 2
    # The lists are those of the check before.
    settle(renewed=True)
    assert len(waits) == 2


def test_a_version_that_no_source_has_is_named_with_what_to_do(
    host: AptHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.says(SHOW, (100, RECORDS.split("\n\n")[0], ""))
    lists = {**package_lists.nothing(), "words": "In x.list:1: E: Failed"}
    monkeypatch.setattr(package_lists, "fetch", lambda _suites, _wait: lists)
    assert refusal(state="offered", hint="Check that.") == (
        "apt does not offer nvidia-smi=470-3 on this host. Check that. In x.list:1: E: Failed"
    )
    assert host.ran("apt-get") == []


def test_another_apt_that_stays_at_work_stops_it(
    host: AptHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = {**package_lists.nothing(), "locked": True, "words": "E: Could not get lock"}
    monkeypatch.setattr(package_lists, "fetch", lambda _suites, _wait: lists)
    words = "Another apt is at work. E: Could not get lock"
    assert refusal(state="offered", renewed=True) == words


def test_another_checksum_than_the_locked_one_is_refused(host: AptHost) -> None:
    """Also where it is that of one of two sources."""
    words = (
        "apt's index has another SHA-256 than nvidia_driver_checksums for libcuda1. The archive, or"
        " a mirror of it, carries a different file under this version; nothing was installed."
    )
    assert refusal(state="offered", checksums={"libcuda1": "CCCC", "nvidia-smi": "BBBB"}) == words
    mirror = "Package: libcuda1\nVersion: 470-3\nSHA256: cccc\n\n"
    host.says(SHOW, (0, mirror + RECORDS, ""))
    assert refusal(state="offered", checksums={"libcuda1": "aaaa"}) == words
    assert host.ran("apt-get") == []


def test_a_source_of_others_that_fails_is_a_warning(
    host: AptHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = {**package_lists.nothing(), "bearable": True, "places": ["x.list:1"], "errors": ["E"]}
    monkeypatch.setattr(package_lists, "fetch", lambda _suites, _wait: lists)
    assert settle(state="offered", renewed=True)["warnings"] == [
        "apt cannot use x.list:1: E The driver goes on without; repair that entry, or take it out."
    ]


LOST = (
    "For driver 470.256.02 apt would remove somebodys-solver, no part of a driver. somebodys-solver"
    " (needs: x; conflicts: y). "
)
HELD = "apt would change held-by-ada, which somebody holds (apt-mark unhold releases it). "
UNTOUCHED = "No package was touched. Remove them yourself if nobody needs them, then run again."
SUPERSEDED = (
    "libnvidia-ml1 cannot stay beside driver 470.256.02. somebodys-solver (needs: x; conflicts: y)."
    ' No package was touched. Set nvidia_driver_switch to "switch", and the run removes them; or'
    " remove them yourself."
)


@pytest.mark.parametrize("state", ["offered", "present"])
@pytest.mark.parametrize(
    ("simulated", "options", "words"),
    [
        ("Purg somebodys-solver [1.0]\n", {}, LOST + UNTOUCHED),
        ("Inst held-by-ada:amd64 [1] (2 lab)\n", {"may_switch": True}, HELD + UNTOUCHED),
        (
            "Remv somebodys-solver [1.0]\nInst held-by-ada [1] (2 lab)\n",
            {"may_switch": True},
            LOST + HELD + UNTOUCHED,
        ),
        ("Remv libnvidia-ml1 [460-1]\n", {}, SUPERSEDED),
        # A hold of the driver's own parts, or of another driver's, is released by the wish.
        ("Inst libcuda1 [460-1] (470-3 lab)\nInst nvidia-vdpau-driver [1] (2 lab)\n", {}, ""),
        ("Inst nvidia-settings [1] (2 lab)\n", {"parts": ["nvidia-settings"]}, ""),
        ("Inst held-by-ada (2 lab)\n", {}, ""),
        ("Remv libnvidia-ml1 [460-1]\n", {"others": ["libnvidia-ml1"]}, ""),
    ],
    ids=["lost", "held", "both", "superseded", "own", "locked", "new", "leaving"],
)
def test_what_apt_would_do_besides_is_refused(
    host: AptHost, state: str, simulated: str, options: dict[str, Any], words: str
) -> None:
    host.says(SIMULATE, (0, simulated, ""))
    held = "held-by-ada\nlibcuda1\nnvidia-settings\nnvidia-vdpau-driver\n"
    host.says("apt-mark showhold", (0, held, ""))
    host.says("dpkg-query", (0, "somebodys-solver (needs: x; conflicts: y)\n", ""))
    if not words:
        settle(state=state, **options)
        return
    assert refusal(state=state, **options) == words
    assert installations(host) == []


@pytest.mark.parametrize(
    ("options", "simulated", "going"),
    [
        ({"other_branch": ["libnvidia-compute-460"]}, "", "libnvidia-compute-460-"),
        ({"may_switch": True}, "Remv libnvidia-ml1 [460-1]\n", "libnvidia-ml1-"),
    ],
)
def test_another_driver_goes_in_the_same_transaction(
    host: AptHost, options: dict[str, Any], simulated: str, going: str
) -> None:
    host.says(SIMULATE, (0, simulated, ""))
    assert settle(**options, dkms=True, headers=HEADERS)["changed"] is True
    (call,) = installations(host)
    assert call.endswith(
        f" install {' '.join(SPECS)} dkms linux-headers-amd64 {KERNELS[0]} {going}"
    )
    assert "--no-remove" not in call
    assert " -oAPT::Get::AutomaticRemove=false " in call
    assert "--allow-change-held-packages" in call
    assert not os.path.lexists(service_starts.POLICY)


def test_no_more_than_the_other_branch_goes(host: AptHost) -> None:
    answers = ("", "Remv libnvidia-compute-460 [1]\nRemv solver:amd64 [1]\nPurg tool [2]\n")
    host.says(SIMULATE, *((0, simulated, "") for simulated in answers))
    assert refusal(other_branch=["libnvidia-compute-460"]) == (
        "With driver 470.256.02 these packages could not stay: solver, tool. They are no part of a"
        " driver, so nothing was changed. Remove them yourself if they are not needed, then run"
        " again."
    )
    assert installations(host) == []


def test_what_lost_its_files_is_installed_anew(
    host: AptHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    installed(monkeypatch)
    mine = tmp_path / "nvidia.conf"
    mine.write_text("somebody's")
    records = tmp_path / "alternatives"
    records.mkdir()
    (records / "nvidia").touch()
    (records / "glx").write_text("auto")
    (records / "editor").touch()
    paths = [str(mine), str(tmp_path / "never-there")]
    assert settle(reinstall=["nvidia-smi"], conffiles=paths)["changed"] is True
    (call,) = installations(host)
    assert "--reinstall -oDPkg::Options::=--force-confmiss install nvidia-smi=470-3" in call
    assert " --no-remove " in call
    assert Path(f"{mine}.dpkg-old").read_text() == "somebody's"
    assert not mine.exists()
    assert sorted(path.name for path in records.iterdir()) == ["editor", "glx"]


@pytest.mark.parametrize(
    ("mended", "changed"),
    [
        ((0, "0 upgraded, 0 newly installed, 0 to remove", ""), False),
        ((0, "0 upgraded, 1 newly installed, 0 to remove", ""), True),
        ((100, "", "E: held broken packages"), False),
    ],
)
def test_broken_dependencies_are_mended_first(
    host: AptHost, monkeypatch: pytest.MonkeyPatch, mended: tuple[int, str, str], changed: bool
) -> None:
    there = dict.fromkeys(["dkms", "linux-headers-amd64", KERNELS[0]], "install installed 1")
    installed(monkeypatch, **there)
    host.says("--fix-broken", mended)
    assert settle(dkms=True, headers=HEADERS)["changed"] is changed
    (call,) = host.ran("--fix-broken")
    assert " --no-remove --ignore-hold " in call


def test_what_was_downloaded_leaves_the_cache(
    host: AptHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(driver_install.package_install, "moment", lambda: 0.0)
    (tmp_path / "new.deb").touch()
    host.says("apt-config", (0, f"archives='{tmp_path}/'\n", ""))
    settle()
    assert not (tmp_path / "new.deb").exists()


AGAIN = "Run again when that address answers: apt installs nothing before it has everything."


@pytest.mark.parametrize(
    ("stdout", "stderr", "words"),
    [
        (
            "",
            f"W: noise\n{FAILED}\nE: Unable to fetch some archives\n",
            "apt could not install the driver: E: Failed to fetch https://lab.example.org/x.deb"
            f"  503  Busy E: Unable to fetch some archives {AGAIN}",
        ),
        (
            "Building module with dkms\n",
            "dpkg: error processing package nvidia-kernel-dkms (--configure):\n",
            "The kernel module was not built: nv.c:7:2: error: implicit (whole output on the host:"
            " {log}). apt could not install the driver: dpkg: error processing package"
            " nvidia-kernel-dkms (--configure):",
        ),
        (
            "",
            "E: one\nE: one\nE: two\nE: three\nE: four\nE: five\n",
            "apt could not install the driver: E: one E: two E: three E: four",
        ),
        ("", "", "apt could not install the driver: it ended with 100"),
    ],
)
@pytest.mark.parametrize("other_branch", [[], ["libnvidia-compute-460"]])
def test_a_failure_is_reported_in_apts_words_without_passwords(
    host: AptHost, tmp_path: Path, other_branch: list[str], stdout: str, stderr: str, words: str
) -> None:
    log = tmp_path / "dkms/nvidia" / VERSION / "build/make.log"
    log.parent.mkdir(parents=True)
    log.write_text("gcc -Werror: nv.c\nnv.c:7:2: error: implicit\nmake: *** [nv.o]\n")
    host.says("apt-get --yes install", (100, stdout, stderr))
    assert refusal(other_branch=other_branch) == words.replace("{log}", str(log))
    assert not os.path.lexists(service_starts.POLICY)


@pytest.mark.parametrize("check_mode", [False, True])
def test_the_packages_of_another_driver_go_alone(host: AptHost, check_mode: bool) -> None:
    host.says("--simulate remove", (0, "Remv libcuda1 [1]\nRemv nvidia-smi [1]\n", ""))
    result = settle(check_mode, state="others_absent", others=["libcuda1", "nvidia-smi"])
    assert (result["changed"], result["removed"]) == (True, ["libcuda1", "nvidia-smi"])
    calls = installations(host)
    assert len(calls) == (0 if check_mode else 1)
    for call in calls:
        assert call.endswith(" remove libcuda1 nvidia-smi")
        assert " -oAPT::Get::AutomaticRemove=false " in call
        assert "--no-remove" not in call
    assert settle(state="others_absent")["changed"] is False


def test_what_depends_on_another_driver_keeps_it(host: AptHost) -> None:
    host.says("--simulate remove", (0, "Purg solver:amd64 [1]\nRemv libcuda1 [1]\n", ""))
    assert refusal(state="others_absent", others=["libcuda1"]) == (
        "Without libcuda1 these packages could not stay: solver. They are no part of a driver, so"
        " nothing was removed. Remove them yourself if they are not needed, then run again."
    )
    assert installations(host) == []
    host.says("--simulate remove", (100, "", "E: broken\n"))
    words = "apt cannot take libcuda1 away: E: broken"
    assert refusal(state="others_absent", others=["libcuda1"]) == words
    host.says("--simulate remove", (0, "Remv libcuda1 [1]\n", ""))
    host.says("apt-get --yes -oDPkg::Lock::Timeout=600 remove", (100, "", "E: full\n"))
    words = "apt could not remove libcuda1: E: full Run again."
    assert refusal(state="others_absent", others=["libcuda1"]) == words


# make_log


@pytest.fixture
def dkms(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(driver_method, "DKMS", str(tmp_path))
    return tmp_path


def written(path: Path, text: str, at: int) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text(text)
    os.utime(path, (at, at))
    return path


def test_the_compilers_errors_of_the_latest_build_are_read(dkms: Path) -> None:
    old = "a.c:1:1: error: of an earlier build\n"
    written(dkms / "nvidia" / VERSION / "5.10/x86_64/log/make.log", old, 1)
    written(dkms / "nvidia/460.1/build/make.log", old, 9)
    written(dkms / "nvidia-legacy" / VERSION / "build/make.log", old, 9)
    errors = [f"  b.c:{line}:1: fatal error: {'x' * 400} y" for line in range(5)]
    text = "\n".join(["cc -Werror: x.c", *errors, "make: *** [b.o] Error 1"])
    latest = written(dkms / "nvidia-current" / VERSION / "build/make.log", text, 5)
    message = make_log.words(VERSION, "nvidia-current")
    assert message.startswith(
        "The kernel module was not built: b.c:0:1: fatal error:... / b.c:1:1: "
    )
    assert message.endswith(f" / b.c:2:1: fatal error:... (whole output on the host: {latest}).")


def test_without_an_error_the_last_lines_are_read(dkms: Path) -> None:
    text = "one\ntwo\n three\n\nfive\n"
    written(dkms / "nvidia-srv" / VERSION / "build/make.log", text, 5)
    assert " built: three /  / five (whole" in make_log.words(VERSION, "nvidia")


def test_without_a_build_nothing_is_said(dkms: Path) -> None:
    assert make_log.words(VERSION, "nvidia") == ""
