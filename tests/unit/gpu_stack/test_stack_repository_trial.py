"""One repository is tried alone: nothing of it stays, and no password is seen or said."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args
from ansible.plugins.filter.urlsplit import split_url
from ansible_collections.provision.gpu.plugins.modules import (
    repository_trial as module,
)
from gpu_stack.host import package_lists, repository_trial
from jinja2 import Environment

from tests.collection import ROOT

URI = "https://mirror.example.org:8443/cuda"
LOCKED = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 4711 (apt-get)"
TRIAL = {"uri": URI, "suite": "/", "key": "-----BEGIN\nx\n-----END\n\n"}


class Apt:
    """An apt-get that answers as it is told, and keeps what it was given to read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        (folder / "tmp").mkdir()
        program = folder / "bin/apt-get"
        program.write_text(
            "#!/bin/sh\n"
            f'echo "$LC_ALL $*" >> {folder}/calls\n'
            "for word; do case $word in *sourcelist=*) list=${word#*=};; esac; done\n"
            f"cp -p $list {folder}/list; cp -p ${{list%/*}}/key.asc {folder}/key\n"
            f"stat -c %a ${{list%/*}} > {folder}/mode\n"
            f"cat {folder}/errors >&2; exit $(cat {folder}/rc)\n"
        )
        program.chmod(0o755)
        self.says(0)

    def says(self, rc: int, *errors: str) -> None:
        (self.folder / "errors").write_text("".join(line + "\n" for line in errors))
        (self.folder / "rc").write_text(str(rc))

    def read(self, name: str) -> str:
        return (self.folder / name).read_text()


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Apt:
    made = Apt(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setattr(repository_trial.tempfile, "tempdir", str(tmp_path / "tmp"))
    return made


def test_apt_reads_this_source_and_key_alone_and_nothing_stays(apt: Apt) -> None:
    answer = repository_trial.fetch(**TRIAL, ca_bundle="/etc/ssl/lab.pem")
    assert answer == {
        "usable": True, "errors": [], "reasons": [], "stderr": "", "locked": False,
    }  # fmt: skip
    words = apt.read("calls").split()
    assert words[:2] == ["C", "--quiet"]
    assert words[-1] == "update"
    assert {
        "-oDir::Etc::sourceparts=/dev/null",
        "-oAPT::Get::List-Cleanup=false",
        "-oAPT::Update::Error-Mode=any",
        "-oAcquire::https::mirror.example.org::CaInfo=/etc/ssl/lab.pem",
    } < set(words)
    types, uris, suites, signed_by = apt.read("list").splitlines()
    assert (types, uris, suites) == ("Types: deb", f"URIs: {URI}", "Suites: /")
    assert signed_by.startswith(f"Signed-By: {apt.folder}/tmp/provision-trial.")
    assert apt.read("key") == "-----BEGIN\nx\n-----END\n"
    # apt checks signatures as a user of its own; a password is for root alone.
    assert apt.read("mode").strip() == "755"
    assert (apt.folder / "key").stat().st_mode & 0o777 == 0o644
    assert (apt.folder / "list").stat().st_mode & 0o777 == 0o600
    assert list((apt.folder / "tmp").iterdir()) == []


def test_a_login_goes_to_apt_and_to_nobody_else(apt: Apt) -> None:
    apt.says(100, f"E: Failed to fetch {URI.replace('//', '//ada:s%40cret@')}/InRelease  401")
    answer = repository_trial.fetch(**TRIAL, components="stable", login="ada:s%40cret")
    assert "URIs: https://ada:s%40cret@mirror.example.org:8443/cuda\n" in apt.read("list")
    assert apt.read("list").endswith("Components: stable\n")
    assert "cret" not in apt.read("calls")
    assert "cret" not in str(answer)
    assert answer["errors"] == [f"E: Failed to fetch {URI}/InRelease  401"]
    assert answer["usable"] is False


def test_a_local_repository_has_no_host(apt: Apt) -> None:
    local = {**TRIAL, "uri": "file:///var/cuda-repo"}
    repository_trial.fetch(**local, ca_bundle="/etc/ssl/lab.pem")
    assert "CaInfo" not in apt.read("calls")
    assert "URIs: file:///var/cuda-repo\n" in apt.read("list")


def test_the_exit_code_is_reported_where_apt_says_nothing(apt: Apt) -> None:
    apt.says(100)
    answer = repository_trial.fetch(**TRIAL)
    assert answer["errors"] == answer["reasons"] == ["apt-get ended with 100"]
    # Another source's warning is no reason.
    apt.says(0, "W: Download is performed unsandboxed as root")
    assert repository_trial.fetch(**TRIAL)["usable"] is True


def test_another_apt_is_waited_for_and_nothing_stays(
    apt: Apt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package_lists.time, "sleep", lambda _seconds: apt.says(0))
    apt.says(100, LOCKED)
    assert repository_trial.fetch(**TRIAL)["locked"] is True
    assert repository_trial.fetch(**TRIAL, wait=10)["usable"] is True
    assert list((apt.folder / "tmp").iterdir()) == []


def ran(capsys: pytest.CaptureFixture[str], **options: Any) -> tuple[Any, dict[str, Any]]:
    """(exit code, result) of the module."""
    with patch_module_args({**TRIAL, **options}), pytest.raises(SystemExit) as ended:
        module.main()
    return ended.value.code, json.loads(capsys.readouterr().out)


def test_the_module_fails_where_another_apt_stays_and_fetches_nothing_in_check_mode(
    apt: Apt, capsys: pytest.CaptureFixture[str]
) -> None:
    apt.says(100, f"E: Failed to fetch {URI}/InRelease  404")
    code, result = ran(capsys, login="ada:cret")
    assert (code, result["changed"], result["usable"]) == (0, False, False)
    # What is said names the address: it is no secret.
    assert result["errors"] == [f"E: Failed to fetch {URI}/InRelease  404"]
    assert "cret" not in json.dumps(result)

    before = apt.read("calls")
    code, result = ran(capsys, _ansible_check_mode=True)
    assert (code, result["usable"], apt.read("calls")) == (0, True, before)

    apt.says(100, LOCKED)
    code, result = ran(capsys, wait=0)
    assert (code, result["msg"]) == (1, "Another apt is at work. " + LOCKED)


@pytest.mark.parametrize(
    "path",
    [
        "cuda/tasks/nvidia/reach.yml",
        "nvidia_container_toolkit/tasks/present/reach.yml",
        "nvidia_driver/tasks/packaged/trial.yml",
    ],
)
def test_the_roles_take_the_login_out_of_the_address(path: str) -> None:
    (trial, refusal) = yaml.safe_load((ROOT / "roles" / path).read_text("utf-8"))
    options = trial["provision.gpu.repository_trial"]
    role = path.split("/")[0]
    environment = Environment(autoescape=True)
    environment.filters["urlsplit"] = split_url
    for address, login in (
        ("https://ada:s%40cr:t@mirror.example.org:8443/x", "ada:s%40cr:t"),
        ("https://mirror.example.org/a@b", ""),
        ("file:///var/x", ""),
    ):
        variables = {f"__{role}_repository_from": address}
        assert environment.from_string(options["login"]).render(variables) == login
    assert "_bare" in options["uri"] or "_told" in options["uri"]
    assert refusal["when"] == f"not {trial['register']}.usable"
