"""The front door on a host: the site and the page that are made."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from front_door_host import ADA, NAME, PORTS, Host, location, wish


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path, monkeypatch)


def test_everybody_who_has_jupyter_has_a_path(host: Host) -> None:
    site = host.program.site(wish())
    assert f"proxy_pass http://unix:{PORTS}/ada.jupyter;" in location(site, "/ada/")
    assert f"proxy_pass http://unix:{PORTS}/bob.jupyter;" in location(site, "/bob/")
    assert "/eve" not in site
    assert "return 404;" in location(site, "/")
    assert f"if ($host != {NAME}) {{\n        return 404;" in site
    assert "@" not in re.sub(r"@login_bob", "", site)


def test_a_kernel_can_stay_silent_for_a_day_and_be_reached_by_a_websocket(host: Host) -> None:
    site = host.program.site(wish())
    for line in (
        "proxy_http_version 1.1;", "proxy_set_header Host $http_host;",
        "proxy_set_header Upgrade $http_upgrade;",
        "proxy_set_header Connection $gpu_front_door_connection;",
        "proxy_set_header X-Forwarded-Proto https;", "proxy_read_timeout 1d;",
        "proxy_buffering off;", "client_max_body_size 512m;",
        "ssl_protocols TLSv1.2 TLSv1.3;",
    ):  # fmt: skip
        assert f"    {line}\n" in site


def test_no_log_has_a_query(host: Host) -> None:
    site = host.program.site(wish(redirect=True))
    shape = site.partition("log_format")[2].partition(";")[0]
    for word in (
        "$request ",
        "$request_uri",
        "$args",
        "$query_string",
        "$http_referer",
        "$is_args",
    ):
        assert word not in shape + " "
    assert site.count("access_log /var/log/nginx/gpu-front-door.log gpu_front_door;") == 2
    assert site.count("error_log /var/log/nginx/gpu-front-door.error.log emerg;") == 2


def test_a_board_is_asked_for_at_jupyters_own_door(host: Host) -> None:
    site = host.program.site(wish())
    board = location(site, "/bob/tensorboard/")
    assert "auth_request /bob/tensorboard-asks;" in board
    assert f"proxy_pass http://unix:{PORTS}/bob.tensorboard;" in board
    asks = location(site, "= /bob/tensorboard-asks")
    assert "internal;" in asks
    assert f"proxy_pass http://unix:{PORTS}/bob.jupyter:/bob/api/status;" in asks
    assert "tensorboard" not in host.program.site(wish(people=[ADA]))


def test_nothing_behind_the_door_is_a_port_that_a_login_could_open(host: Host) -> None:
    """Whoever bound it while a container started anew was sent cookies and tokens (M6)."""
    passed = re.findall(r"proxy_pass (\S+);", host.program.site(wish()))
    assert len(passed) == 4
    assert [address for address in passed if not address.startswith(f"http://unix:{PORTS}/")] == []


@pytest.mark.parametrize(
    ("user", "wrong"), [("www-data", False), ("nginx", True), ("nginx www-data", False)]
)
def test_an_nginx_that_cannot_open_the_ways_is_refused(host: Host, user: str, wrong: bool) -> None:
    host.theirs = f"user {user};\n"
    if wrong:
        with pytest.raises(host.program.RefusedError, match=f"nginx works as {user} here"):
            host.program.look(wish())
    else:
        host.program.look(wish())


@pytest.mark.parametrize(
    ("changed", "there", "not_there"),
    [
        ({}, "location = /ca.crt", "Strict-Transport-Security"),
        ({"hsts": True}, "Strict-Transport-Security", ":80;"),
        ({"address": "192.0.2.7", "port": 8443}, "listen 192.0.2.7:8443 ssl;", "0.0.0.0"),  # noqa: S104
        (
            {"address": "::"},
            "    listen 0.0.0.0:443 ssl;\n    listen [::]:443 ssl;\n",
            ":80",
        ),
        (
            {"address": "::", "redirect": True},
            "    listen 0.0.0.0:80;\n    listen [::]:80;\n",
            "[::]:80 ",
        ),
        ({"address": "2001:db8::7"}, "    listen [2001:db8::7]:443 ssl;\n", "0.0.0.0"),  # noqa: S104
        ({"redirect": True}, f"return 301 https://{NAME}$request_uri;", "xyz"),
        (
            {"redirect": True, "port": 8443},
            f"return 301 https://{NAME}:8443$request_uri;",
            ":443 ssl",
        ),
        (
            {"tls": "host", "certificate": "/c.pem", "key": "/k.pem"},
            "ssl_certificate /c.pem;\n    ssl_certificate_key /k.pem;",
            "/ca.crt",
        ),
        ({"tls": "given"}, "ssl_certificate /etc/gpu-front-door/chain.pem;", "/ca.crt"),
    ],
)
def test_what_else_is_wished_is_in_the_site(
    host: Host, changed: dict[str, Any], there: str, not_there: str
) -> None:
    site = host.program.site(wish(**changed))
    assert there in site
    assert not_there not in site


def test_strict_transport_is_said_on_the_page_too(host: Host) -> None:
    """Where a location has headers of its own nginx forgets those of its server."""
    assert "Strict-Transport-Security" in location(host.program.site(wish(hsts=True)), "= /")


# the page


def test_the_page_tells_who_has_what(host: Host) -> None:
    page = host.program.page(host.program.settings(wish()))
    rows = re.findall(r'<tr><th scope="row">(\w+)</th>(.*?)</tr>', page)
    assert [name for name, _ in rows] == ["ada", "bob", "eve"]
    cells = dict(rows)
    assert '<a href="/ada/">Jupyter</a>' in cells["ada"]
    assert "GPU 0, GPU 1" in cells["ada"]
    assert "2 CPUs, 4G memory" in cells["ada"]
    assert '<a href="/bob/tensorboard/">TensorBoard</a>' in cells["bob"]
    assert "<td>1 GPU</td>" in cells["bob"]
    assert f"<code>ssh -p 2203 eve@{NAME}</code>" in cells["eve"]
    assert "secret" not in page
    assert "<script" not in page


def test_nothing_that_is_written_becomes_markup(host: Host) -> None:
    people = [{"name": "a<b>", "gpus": ["<i>"], "ssh_port": "<u>", "memory": "<s>"}]
    page = host.program.page(wish(people=people, name="<n>"))
    assert not re.search(r"<(b|i|u|s|n)>", page.lower())
