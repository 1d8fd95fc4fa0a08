"""The front door is taken away: what goes with it, and what stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from front_door_host import Host, wish
from gpu_stack.components.gpu_front_door import absent, shipped
from gpu_stack.components.gpu_front_door.renewal import paths, programs
from gpu_stack.host import apt_commands


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path, monkeypatch)


def test_what_we_brought_goes_where_nobody_else_uses_it(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def call(command: list[str], timeout: int = 60) -> tuple[int, str, str]:
        if command[0] == "dpkg-query":
            return 0, "nginx ii \nnginx-common ii \nnginx-extras un \nlibnginx-mod-x rc \n", ""
        return host.call(command, timeout)

    host.write(host.program.BROUGHT, "x")
    host.program.apply(wish())
    monkeypatch.setattr(programs, "call", call)
    assert host.program.look({**wish(), "name": ""})["gone"] is True
    found = host.program.remove()
    assert found == {"packages": ["nginx", "nginx-common"], "alone": True}
    assert host.text(host.program.SITE) is None
    assert not host.path("/var/lib/gpu-front-door").exists()


def test_the_nginx_of_the_fleets_cache_stays(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads no site of the host's, so that it is not seen among these."""
    host.write(host.program.BROUGHT, "x")
    host.write("/etc/gpu-artifact-cache/nginx.conf", "x")
    host.program.apply(wish())
    asked = "nginx's packages are asked for"
    monkeypatch.setattr(absent, "_going", lambda: pytest.fail(asked))
    assert host.program.remove()["packages"] == []


@pytest.mark.parametrize(
    ("code", "output"),
    [
        (0, "Remv python3-certbot-nginx [2.1.0-1]\nRemv nginx [1.22.1-9] []\n"),
        (100, "E: dpkg was interrupted\n"),
    ],
)
def test_an_nginx_that_others_need_stays(
    host: Host, monkeypatch: pytest.MonkeyPatch, code: int, output: str
) -> None:
    def call(command: list[str], timeout: int = 60) -> tuple[int, str, str]:
        if command[0] == "dpkg-query":
            return 0, "nginx ii \nnginx-common ii \n", ""
        if command[0] == "apt-get":
            assert command[-4:] == ["--simulate", "remove", "nginx", "nginx-common"]
            assert set(apt_commands.SETTINGS) <= set(command)
            return code, output, ""
        return host.call(command, timeout)

    host.write(host.program.BROUGHT, "x")
    host.program.apply(wish())
    host.calls.clear()
    monkeypatch.setattr(programs, "call", call)
    assert host.program.remove() == {"packages": [], "alone": False}
    assert "systemctl reload nginx" in host.calls
    assert not [call for call in host.calls if "--now nginx" in call]


@pytest.mark.parametrize(
    "theirs", ["/etc/nginx/conf.d/theirs.conf", "", "/etc/nginx/sites-enabled/x"]
)
def test_an_nginx_of_others_stays_and_is_reloaded(host: Host, theirs: str) -> None:
    if theirs:
        host.write(host.program.BROUGHT, "x")
        host.write(theirs, "server {}")
    host.program.apply(wish())
    host.calls.clear()
    assert host.program.remove() == {"packages": [], "alone": False}
    assert "systemctl reload nginx" in host.calls
    assert not [call for call in host.calls if "--now nginx" in call or "enable nginx" in call]


@pytest.mark.parametrize("library", [True, False])
def test_what_renews_goes_with_the_door(host: Host, library: bool) -> None:
    """Of an earlier version there is one file and no library."""
    host.program.apply(wish())
    for path in shipped.FILES:
        if library or not path.startswith(paths.LIBRARY):
            host.write(path, "x")
    if library:
        host.write(paths.LIBRARY + "/renewal/of-a-former-version.py", "x")
        host.path("/usr/local/sbin/gpu-front-door").unlink()
        host.path("/usr/local/sbin/gpu-front-door").mkdir()
    host.calls.clear()
    host.program.remove()
    assert [path for path in (*shipped.FILES, paths.LIBRARY) if host.path(path).exists()] == []
    assert host.path("/usr/local/sbin").is_dir()
    assert host.calls[-1] == "systemctl daemon-reload"
    # What it knew goes last, after nginx's packages.
    assert host.path(paths.PLACE).is_dir()


def test_a_door_that_nginx_goes_on_to_serve_is_not_called_gone(host: Host) -> None:
    host.program.apply(wish())
    host.write("/theirs.pem", "")
    host.reads = ["/theirs.pem"]
    with pytest.raises(host.program.RefusedError, match="still has the door in memory"):
        host.program.remove()
    assert host.program.look({**wish(), "name": ""})["gone"] is True
    host.reads = []
    host.calls.clear()
    assert host.program.remove() == {"packages": [], "alone": False}
    assert "systemctl reload nginx" in host.calls


def test_without_a_door_there_is_nothing_to_look_at(host: Host) -> None:
    seen = host.program.look({**wish(), "name": ""})
    assert seen == {"here": False, "nginx": True, "changes": [], "gone": False}
    assert host.calls == []
