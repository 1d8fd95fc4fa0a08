"""Keys of the platform's archive that are gone or altered come back with their package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.provision.gpu.plugins.modules import archive_keys as module
from gpu_stack.host import apt_commands, archive_keys

from plugins.modules import archive_keys as described
from tests.unit.gpu_stack import apt_host
from tests.unit.gpu_stack.apt_host import AptHost


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> AptHost:
    return apt_host.install(monkeypatch)


def settle(*files: Path, check_mode: bool = False) -> dict[str, Any]:
    options = {"files": [str(path) for path in files], "package": "debian-archive-keyring"}
    return archive_keys.settle(apt_host.parameters(described, **options), check_mode)


def test_an_altered_key_is_kept_and_the_package_installed_again(
    host: AptHost, tmp_path: Path
) -> None:
    (tmp_path / "altered.gpg").write_text("altered")
    (tmp_path / "altered.gpg.dpkg-old").write_text("of an earlier time")
    result = settle(tmp_path / "altered.gpg", tmp_path / "gone.gpg")
    assert result == {"changed": True, "kept": [f"{tmp_path}/altered.gpg.dpkg-old"]}
    assert (tmp_path / "altered.gpg.dpkg-old").read_text() == "altered"
    assert not (tmp_path / "altered.gpg").exists()
    (call,) = host.calls
    assert set(call.split()) == {
        *("apt-get", "install", "--reinstall", "--yes", "--no-remove"),
        *("--allow-change-held-packages", "-oDPkg::Lock::Timeout=600"),
        *apt_commands.SETTINGS,
        *("-oDPkg::Options::=--force-confmiss", "debian-archive-keyring"),
    }


def test_without_such_a_key_nothing_is_done(host: AptHost) -> None:
    assert settle() == {"changed": False, "kept": []}
    assert host.calls == []


def test_what_apt_says_is_said(
    host: AptHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.says("apt-get", (100, "", "E: Failed to fetch http://ada:cret@x/y.deb  404\n"))
    with pytest.raises(archive_keys.RefusalError) as refused:
        settle(tmp_path / "gone.gpg")
    assert str(refused.value) == (
        "apt could not install debian-archive-keyring again: E: Failed to fetch http://x/y.deb"
        "  404 Run again."
    )


def test_check_mode_does_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "altered.gpg").write_text("altered")
    options = {"files": [str(tmp_path / "altered.gpg")], "package": "debian-archive-keyring"}
    with (
        patch_module_args({**options, "_ansible_check_mode": True}),
        pytest.raises(SystemExit) as ended,
    ):
        module.main()
    result = json.loads(capsys.readouterr().out)
    assert (ended.value.code, result["changed"], result["kept"]) == (0, True, [])
    assert (tmp_path / "altered.gpg").read_text() == "altered"
