"""A host whose Python the installed ansible-core has dropped is refused before there is a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.module_utils import basic
from typer.testing import CliRunner

from provision import ansible_core, cli
from provision import lock as locks
from provision.ansible_core import check_manages, releases
from provision.catalog import load
from provision.errors import InputError
from provision.inventory import Fleet, parse_wish
from provision.lock import Lock
from provision.models import HostFacts
from tests.unit.generator import recorded

WISH = {"tensorflow": "2.9"}


def lock(*platforms: str) -> Lock:
    """A lock with a row for each platform; of the rest nothing is read here."""
    rows = [
        {"platform": row.platform.as_data(), "wish": WISH, "stack": "any"}
        for row in load().platforms
        if row.id in platforms
    ]
    return Lock({"rows": rows}, {})


def fleet(**platforms: str | None) -> Fleet:
    wish = parse_wish(WISH, where="x")
    facts = {host: HostFacts(platform) for host, platform in platforms.items()}
    return Fleet(dict.fromkeys(platforms, wish), facts=facts)


@pytest.mark.parametrize("core", ["2.17.14", "2.18.0", "2.19.14"])
def test_a_core_that_manages_its_python_takes_the_host(core: str) -> None:
    check_manages(core, lock("ubuntu2004"), fleet(gpu01="ubuntu2004"), where="lock.yml")


@pytest.mark.parametrize("core", ["2.20.0", "2.21.5", "2.22.0rc1", "3.0.0"])
def test_a_core_that_has_dropped_its_python_refuses_the_host(core: str) -> None:
    """A release newer than those that we know has dropped at least as much."""
    with pytest.raises(InputError) as caught:
        check_manages(core, lock("ubuntu2004"), fleet(gpu01="ubuntu2004"), where="lab/lock.yml")
    assert str(caught.value).splitlines() == [
        "lab/lock.yml: the installed ansible-core can't manage Ubuntu 20.04 (focal), which has "
        "Python 3.8: gpu01",
        f"  got: ansible-core {core}",
        "  expected: ansible-core 2.19 or older",
        "  hint: ansible-core 2.19 is the newest that can. Install it on the controller: "
        "pip install 'ansible-core>=2.19,<2.20'",
    ]


def test_a_host_of_an_unknown_platform_is_refused_where_none_of_its_rows_can_be_managed() -> None:
    with pytest.raises(InputError, match="gpu01"):
        check_manages("2.21.5", lock("ubuntu2004"), fleet(gpu01=None), where="x")
    check_manages("2.21.5", lock("ubuntu2004", "debian11"), fleet(gpu01=None), where="x")


def test_only_the_hosts_that_cannot_be_managed_are_named() -> None:
    made = lock("ubuntu2004", "debian11")
    hosts = fleet(gpu01="debian11", gpu02="ubuntu2004", gpu03="ubuntu2004")
    with pytest.raises(InputError) as caught:
        check_manages("2.21.5", made, hosts, where="x")
    assert caught.value.message.endswith("Python 3.8: gpu02, gpu03")


def test_every_platform_can_be_managed_by_some_core() -> None:
    assert [row.id for row in load().platforms if releases().newest_for(row.python) is None] == []


def test_the_table_says_what_the_installed_core_says() -> None:
    """uv.lock moves to a new release: this is where its row is missed."""
    core = ansible_core.installed()
    oldest = ".".join(str(number) for number in basic._PY_MIN)
    assert releases().OLDEST_PYTHON[".".join(core.split(".")[:2])] == oldest


def test_every_row_of_the_table_has_its_source() -> None:
    text = (Path(releases().__file__).parent / "ansible_core.json").read_text(encoding="utf-8")
    assert [r for r in releases().OLDEST_PYTHON if f"/ansible/blob/v{r}." not in text] == []


def test_render_writes_nothing_for_a_host_that_can_not_be_managed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "hosts.yml").write_text(
        'all: {hosts: {gpu01: {}}, vars: {gpu_stack: {tensorflow: "2.9"}}}\n'
    )
    (tmp_path / "lock.yml").write_bytes(locks.dump(recorded.lock()))
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr(ansible_core, "installed", lambda: "2.21.5")
    monkeypatch.setitem(releases().OLDEST_PYTHON, "2.21", "3.10")
    done = CliRunner().invoke(cli.app, ["render", str(tmp_path)])
    assert isinstance(done.exception, InputError)
    assert "can't manage Debian 11 (bullseye), which has Python 3.9: gpu01" in str(done.exception)
    assert sorted(tmp_path.rglob("*")) == before
    monkeypatch.setitem(releases().OLDEST_PYTHON, "2.21", "3.9")
    assert CliRunner().invoke(cli.app, ["render", str(tmp_path)]).exit_code == 0
