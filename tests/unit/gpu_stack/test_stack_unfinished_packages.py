"""What an interrupted dpkg left is finished; somebody else's broken package stops it."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_stack.host import apt_commands, dpkg, unfinished_packages

from tests.unit.gpu_stack import apt_host
from tests.unit.gpu_stack.apt_host import AptHost

CONFIGURE = "dpkg --configure --pending"
FIX = "apt-get --fix-broken install"
OURS = {"libcuda1", "nvidia-kernel-dkms"}


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AptHost:
    monkeypatch.setattr(dpkg, "UPDATES", str(tmp_path))
    monkeypatch.setattr(apt_commands.time, "sleep", lambda _seconds: None)
    return apt_host.install(monkeypatch)


def test_a_package_or_a_journal_is_left_half_way(host: AptHost, tmp_path: Path) -> None:
    (tmp_path / "tmp.i").touch()
    assert not unfinished_packages.look()
    (tmp_path / "0003").touch()
    assert unfinished_packages.look()
    (tmp_path / "0003").unlink()
    host.says("dpkg --audit", (0, "The following packages are only half configured:\n", ""))
    assert unfinished_packages.look()


def test_where_configuring_is_enough_nothing_else_is_done(host: AptHost) -> None:
    unfinished_packages.finish(OURS, set(), False, 600)
    assert [call.split()[0] for call in host.calls] == ["dpkg-query", "dpkg"]
    (call,) = host.ran(CONFIGURE)
    # What a person changed in a configuration file stays, and nobody is asked.
    assert "--force-confdef --force-confold" in call


def test_only_our_own_cut_off_package_is_taken_away_to_come_anew(host: AptHost) -> None:
    flags = (
        "ok installed bash\nreinstreq unpacked libcuda1\nreinstreq unpacked postfix\n"
        "reinstreq half-installed nvidia-kernel-dkms\n"
    )
    host.says("dpkg-query", (0, flags, ""))
    unfinished_packages.finish(OURS, set(), False, 600)
    (call,) = host.ran("dpkg --remove")
    assert call == "dpkg --force-remove-reinstreq --force-depends --remove libcuda1"


def test_one_that_cannot_be_taken_away_is_said(host: AptHost) -> None:
    host.says("dpkg-query", (0, "reinstreq unpacked libcuda1\n", ""))
    host.says("dpkg --remove", (1, "", "dpkg: error: pre-removal script failed\n"))
    with pytest.raises(apt_commands.RefusalError, match="remove libcuda1: dpkg: error: pre-"):
        unfinished_packages.finish(OURS, set(), False, 600)


def test_what_the_unfinished_depend_on_is_installed_and_nothing_removed(host: AptHost) -> None:
    host.says(CONFIGURE, (1, "", "dependency problems"))
    unfinished_packages.finish(OURS, set(), False, 600)
    (call,) = host.ran(FIX)
    assert " --no-remove " in call
    assert " -oDPkg::Lock::Timeout=600 " in call


STATES = """\
ii  adduser
iF  linux-headers-6.1.0-44-amd64
iF  linux-image-6.12.107+deb13-amd64
iU  linux-headers-amd64
iF  nvidia-kernel-dkms
iF  postfix
iF  nvidia-dkms-470
iHR linux-headers-5.10.0-46-amd64
it  man-db
"""


@pytest.mark.parametrize(
    ("kernels", "foreign"),
    [
        # dkms 3 fails the headers' package where the module can't be built; the build says why.
        (True, "linux-headers-5.10.0-46-amd64, man-db, postfix"),
        (
            False,
            "linux-headers-5.10.0-46-amd64, linux-headers-6.1.0-44-amd64, linux-headers-amd64,"
            " linux-image-6.12.107+deb13-amd64, man-db, postfix",
        ),
    ],
)
def test_somebody_elses_broken_package_stops_it(host: AptHost, kernels: bool, foreign: str) -> None:
    host.says(CONFIGURE, (1, "", "dpkg: error processing package postfix\n"))
    host.says(FIX, (100, "", "E: Sub-process failed"))
    host.says("dpkg-query ${db:Status-Abbrev}", (0, STATES, ""))
    with pytest.raises(apt_commands.RefusalError) as error:
        unfinished_packages.finish(OURS, {"nvidia-dkms-470"}, kernels, 600)
    assert str(error.value) == (
        f"dpkg cannot finish {foreign}. Repair that first"
        ' ("dpkg --configure -a" shows why), then run again.'
        " dpkg said: dpkg: error processing package postfix"
    )


def test_what_the_next_steps_deal_with_may_stay_unfinished(host: AptHost) -> None:
    host.says(CONFIGURE, (1, "", "no headers"))
    host.says(FIX, (100, "", "no headers"))
    host.says("dpkg-query ${db:Status-Abbrev}", (0, "iF  nvidia-kernel-dkms\nii  adduser\n", ""))
    unfinished_packages.finish(OURS, set(), True, 600)


@pytest.mark.parametrize(
    "words",
    [
        "dpkg: error: dpkg frontend lock was locked by another process with pid 4711",
        "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 4711 (apt-get)",
        "dpkg: error: dpkg status database is locked by another process",
    ],
)
def test_another_at_work_is_waited_for(host: AptHost, words: str) -> None:
    host.says(CONFIGURE, (2, "", words), (2, "", words), (0, "", ""))
    unfinished_packages.finish(OURS, set(), False, 30)
    assert len(host.ran(CONFIGURE)) == 3
    assert host.ran(FIX) == []


def test_a_failure_of_its_own_is_no_reason_to_wait(host: AptHost) -> None:
    host.says(CONFIGURE, (1, "", "error: spinlock_t has no member named 'lock'"))
    unfinished_packages.finish(OURS, set(), True, 600)
    assert len(host.ran(CONFIGURE)) == 1
