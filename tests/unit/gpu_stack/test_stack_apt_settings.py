"""Settings in the host's apt.conf that remove packages change nothing of what a run asks apt.

This machine's apt answers, with a host's directories, and simulates: nothing is changed.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from gpu_stack import removal
from gpu_stack.components.nvidia_driver import driver_install
from gpu_stack.host import apt_commands, apt_removal, archive_keys, unfinished_packages
from gpu_stack.host.context import Context
from gpu_stack.host.refusal import RefusalError

pytestmark = pytest.mark.skipif(not shutil.which("apt-get"), reason="no apt here to ask")

# `spare` was installed for another package, and nothing needs it any more.
PACKAGES = {"ours": "", "theirs": "Depends: ours\n", "spare": ""}
STANZA = """\
Package: {0}
Status: install ok installed
Maintainer: Ada <ada@example.org>
Architecture: amd64
Version: 1
{1}Description: for a test

"""
FOLDERS = (
    *("lists/partial", "archives/partial"),
    *("etc/apt.conf.d", "etc/preferences.d", "var/lib/dpkg"),
)
DIRECTORIES = """\
Dir::State "{0}";
Dir::State::status "{0}/var/lib/dpkg/status";
Dir::Cache "{0}";
Dir::Etc "{0}/etc";
APT::Architecture "amd64";
"""


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host with these packages; its apt.conf is empty."""
    for name in FOLDERS:
        (tmp_path / name).mkdir(parents=True)
    stanzas = [STANZA.format(name, field) for name, field in PACKAGES.items()]
    (tmp_path / "var/lib/dpkg/status").write_text("".join(stanzas))
    automatic = "Package: spare\nArchitecture: amd64\nAuto-Installed: 1\n\n"
    (tmp_path / "extended_states").write_text(automatic)
    (tmp_path / "etc/sources.list").touch()
    (tmp_path / "directories").write_text(DIRECTORIES.format(tmp_path))
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "directories"))
    return tmp_path


def has(host: Path, setting: str) -> None:
    (host / "etc/apt.conf").write_text(f'{setting} "true";\n')


@pytest.mark.parametrize(
    "command",
    [
        [*apt_commands.INSTALL, "install", "ours"],
        [*apt_commands.UNFORCED_INSTALL, "install", "ours"],
        [*apt_commands.SIMULATE, "ours"],
        [*driver_install.REPLACE, "install", "ours"],
        unfinished_packages.fix_broken(0),
        [*archive_keys.COMMAND, "ours"],
    ],
    ids=["install", "unforced", "simulate", "replace", "fix-broken", "archive-keys"],
)
def test_a_host_that_removes_what_nobody_needs_is_installed_on(
    host: Path, command: list[str]
) -> None:
    """apt refuses --no-remove there, even where it would remove nothing."""
    has(host, "APT::Get::AutomaticRemove")
    answer = apt_commands.run([*command, "--simulate"])
    assert (answer.rc, answer.err) == (0, "")
    assert "Remv" not in answer.out


def test_what_nobody_needs_does_not_depend_on_what_goes(host: Path) -> None:
    has(host, "APT::Get::AutomaticRemove")
    context = Context(str(host), runner=apt_commands.run)
    assert removal.dependents(context, ["ours"]) == [["theirs", ["ours"]]]


def test_what_goes_along_is_seen_and_nothing_is_purged_where_the_host_purges(host: Path) -> None:
    has(host, "APT::Get::Purge")
    context = Context(str(host), runner=apt_commands.run)
    assert removal.dependents(context, ["ours"]) == [["theirs", ["ours"]]]
    with pytest.raises(RefusalError, match="apt would change theirs as well"):
        apt_removal.refuse_others(["ours"])
    for command in (
        [*driver_install.REPLACE, "remove", "ours"],
        [*driver_install.REPLACE, "install", "ours-"],
        [*apt_commands.SIMULATE, "ours-"],
    ):
        simulated = apt_commands.run([*command, "--simulate"]).out
        assert apt_removal.REMOVED.findall(simulated) == ["theirs", "ours"]
        assert "Purg" not in simulated


@pytest.mark.parametrize("word", ["Remv", "Purg"])
def test_a_purged_package_is_a_removed_one(word: str) -> None:
    """A package of which only configuration files are there has no version."""
    simulated = f"NOTE\n{word} a [1]\n{word} other:amd64 [2] [x ]\n{word} left\nInst more (1 y)\n"
    assert apt_removal.REMOVED.findall(simulated) == ["a", "other", "left"]
    assert apt_removal.TOUCHED.findall(simulated) == ["a", "other", "left", "more"]
