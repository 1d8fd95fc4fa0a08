"""Signed modules of the distribution: which package is installed, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gpu_stack.components.nvidia_driver import built_install, built_modules, signing
from gpu_stack.host import package_lists

from plugins.modules import driver_signed_module
from tests.unit.gpu_stack import apt_host
from tests.unit.gpu_stack.apt_host import SHOW, AptHost

VERSION = "470.256.02"
OLD, NEW = "5.15.0-152-generic", "5.15.0-153-generic"
STEM = "linux-modules-nvidia-470-server"
RECORD = f"""\
Package: {STEM}-{NEW}
Version: 2
Depends: nvidia-kernel-common-470-server (>= 470.999.01)

Package: {STEM}-{NEW}
Version: 1
Depends: nvidia-kernel-common-470-server (>= {VERSION})
"""


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> AptHost:
    """The older kernel has its module, the newer does not; apt has it."""
    answers = apt_host.install(monkeypatch)
    answers.says(f"modinfo version {OLD}", (0, f"{VERSION}\n", ""))
    answers.says(SHOW, (0, RECORD, ""))
    monkeypatch.setattr(built_modules, "_has_lists", lambda _context: True)
    monkeypatch.setattr(package_lists, "fetch", lambda _suites, _wait: package_lists.nothing())
    monkeypatch.setattr(signing, "tells_keys", lambda _context: False)
    return answers


def settle(check_mode: bool = False, **options: Any) -> dict[str, Any]:
    asked = {"version": VERSION, "kernels": [OLD, NEW], "packages": [f"{STEM}-generic"], **options}
    return built_install.settle(apt_host.parameters(driver_signed_module, **asked), check_mode)


def refusal(**options: Any) -> str:
    return apt_host.refusal(settle, **options)


def installations(host: AptHost) -> list[str]:
    return [call for call in host.ran("apt-get --yes") if "--simulate" not in call]


def test_what_is_there_costs_nothing(host: AptHost) -> None:
    assert settle(kernels=[OLD]) == {"changed": False, "packages": []}
    assert host.calls == [f"modinfo -F version -k {OLD} nvidia"]


def test_a_kernel_gets_the_package_of_the_locked_driver(host: AptHost) -> None:
    host.says(f"modinfo version {NEW}", (1, "", ""), (0, f"{VERSION}\n", ""))
    assert settle() == {"changed": True, "packages": [f"{STEM}-{NEW}=1"]}
    (call,) = installations(host)
    assert call.endswith(f" install {STEM}-{NEW}=1")
    # It may be there, of an older driver or without its files; nothing else may give way.
    assert {"--reinstall", "--no-remove", "-oDPkg::Lock::Timeout=600"} <= set(call.split())
    assert not {"--allow-change-held-packages", "--allow-downgrades"} & set(call.split())


def test_a_check_installs_nothing(host: AptHost) -> None:
    answer = settle(check_mode=True)
    assert (answer["changed"], answer["packages"]) == (True, [f"{STEM}-{NEW}"])
    assert installations(host) == []


def test_lists_are_fetched_where_apt_knows_none(
    host: AptHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(_suites: object, wait: int) -> dict[str, Any]:
        assert wait == 600
        host.says(SHOW, (0, RECORD, ""))
        return package_lists.nothing()

    host.says(SHOW, (100, "", "E: No packages found"))
    host.says(f"modinfo version {NEW}", (1, "", ""), (0, f"{VERSION}\n", ""))
    monkeypatch.setattr(package_lists, "fetch", fetch)
    assert settle()["changed"] is True


def test_an_archive_without_it_is_a_reason_to_stop(host: AptHost) -> None:
    host.says(SHOW, (100, "", "E: No packages found"))
    assert refusal() == (
        f"There is no signed module of driver {VERSION} for kernel {NEW} ({STEM}-{NEW}). Lock the"
        " driver that the archive has signed modules of now (provision lock --upgrade), boot a"
        " kernel that it has one for, or have it built here (driver_modules: dkms in gpu_stack)."
    )
    assert installations(host) == []


def test_apts_words_and_what_lies_before_it_are_reported(host: AptHost) -> None:
    host.says("apt-get --yes", (100, "", "E: held broken packages\n"))
    dkms = f"/lib/modules/{NEW}/updates/dkms/nvidia.ko"
    host.says(f"modinfo filename {NEW}", (0, f"{dkms}\n", ""))
    message = refusal()
    assert "E: held broken packages" in message
    assert f"{dkms} is found before it: take it away." in message


def test_a_module_that_a_kernel_would_refuse_is_named_before_it_boots(
    host: AptHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(signing, "tells_keys", lambda _context: True)
    asked = {OLD: signing.TRUSTED, NEW: signing.STRANGE}
    monkeypatch.setattr(signing, "verdicts", lambda *_arguments: asked)
    host.says(f"modinfo version {NEW}", (1, "", ""), (0, f"{VERSION}\n", ""))
    host.says(f"modinfo signer {NEW}", (0, "Eve\n", ""))
    host.says(f"modinfo filename {NEW}", (0, "/lib/nvidia.ko\n", ""))
    message = refusal()
    assert f'kernel {NEW} will refuse the module /lib/nvidia.ko: "Eve" signed it' in message
    assert "mokutil --import" in message
    assert OLD not in message
    # In check mode nothing is installed that could be asked.
    monkeypatch.setattr(signing, "verdicts", lambda *_arguments: pytest.fail("asked"))
    assert settle(check_mode=True, kernels=[OLD])["changed"] is False
