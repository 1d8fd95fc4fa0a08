"""The fleet's cache: each byte from outside once, whoever lies is named, and a cache that dies.

The servers that it fetches from are one web server of this machine, which counts what it sends. The
last test brings whole hosts from Debian's own archive and PyPI.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cached_lab
import pytest
import yaml
from cached_lab import CACHE, PORT
from conftest import NEWEST, Project, over_ssh

from provision import locallab
from tests.collection import one_role, own_project
from tests.ground import deb, repository
from tests.ground.server import Authority, WebServer, bridge_address

pytestmark = [pytest.mark.slow]

# Rules of the preflight that something here trips: docs/mutants.md.
TRIPS = ("cache", "cache-silent")

HOSTS = ("host1", "host2", "host3")
GROUND = "ground.example.test"
LOCK = "sha256:" + "1" * 64
BIG = 30 << 20
FILES = "/var/cache/gpu-artifact-cache/files"

TAKE = """\
- hosts: gpu
  become: true
  gather_facts: false
  environment:
    APT_CONFIG: "{{ gpu_cache | provision.gpu.apt_configuration }}"
  tasks:
    - provision.gpu.origin:
        cache: "{{ gpu_cache }}"
        fallback: "{{ fallback | default('stop') }}"
        lock_digest: "{{ lock }}"
        stack: {nccl: {repository: "{{ repository }}"}}
    - ansible.builtin.command: "{{ between | default('true') }}"
      delegate_to: localhost
      become: false
      changed_when: false
      run_once: true
    - provision.gpu.named_packages:
        names: "{{ packages }}"
    - provision.gpu.origin:
        state: absent
"""


def package(folder: Path, name: str, size: int = 1000) -> Path:
    fields = {
        "Package": name, "Version": "1.0", "Architecture": "all", "Section": "misc",
        "Maintainer": "test <test@example.test>", "Priority": "optional", "Description": "a test",
    }  # fmt: skip
    made = deb.Writer(folder / f"{name}_1.0_all.deb", fields, level=0)
    made.file(f"usr/share/{name}/data", os.urandom(size // 2).hex())
    return made.close()


@dataclass
class Fleet:
    """A cache, three hosts, and the web server outside."""

    path: Path
    lab: locallab.Lab
    web: WebServer
    key: repository.Key

    @property
    def url(self) -> str:
        (host,) = [host for host in self.lab.hosts if host.name == CACHE]
        return f"http://{host.address}:{PORT}"

    @property
    def root(self) -> str:
        """Where the cache has what is on the web server."""
        return f"{self.url}/archives/{GROUND}_{self.web.url.rpartition(':')[2]}"

    def on(self, host: str, command: str, *, check: bool = True) -> str:
        done = over_ssh(self.lab, f"sudo sh -c '{command}'", host=host)
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def playbook(self, book: str, **more: Any) -> subprocess.CompletedProcess[str]:
        limit = ["--limit", more.pop("limit")] if "limit" in more else []
        variables = {
            "gpu_cache": self.url, "lock": LOCK, **more,
            "repository": {"url": f"{self.web.url}/repo", "suite": "/", "key": self.key.armored},
        }  # fmt: skip
        given = self.path / "given.yml"
        given.write_text(yaml.safe_dump(variables), "utf-8")
        return subprocess.run(
            [str(NEWEST), f"{book}.yml", "-i", "hosts.yml", "-e", f"@{given}", *limit],
            cwd=self.path, capture_output=True, text=True, check=False, timeout=900,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def outside(self) -> int:
        """Bytes that the web server has sent since it was asked last."""
        sent = self.web.bytes_sent
        self.web.sent.clear()
        return sent


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("cache")
    www, built, project = folder / "www", folder / "built", folder / "project"
    for place in (www, built, project):
        place.mkdir()
    key = repository.key("3bf863cc")
    names = ("cache-one", "cache-two", "cache-three", "cache-four", "cache-five")
    packages = [package(built, name, 200_000) for name in names]
    repository.flat(www / "repo", packages, key)
    (www / "big").mkdir()
    (www / "big" / "file.run").write_bytes(os.urandom(BIG))
    (www / "other").mkdir()
    (www / "other" / "secret").write_text("of nobody's business")
    hosts = [CACHE, *HOSTS]
    lab = locallab.up(
        "test-cache", locallab.Shape(with_gpu=False), state_dir=folder / ".lab", hosts=hosts,
        with_cache=False,
    )  # fmt: skip
    try:
        with WebServer(www, Authority(folder / "tls"), address=GROUND) as web:
            own_project(project, inventory(lab), cache="artifact_cache")
            (project / "take.yml").write_text(TAKE, "utf-8")
            (project / "cache.yml").write_text(book(web.url), "utf-8")
            made = Fleet(project, lab, web, key)
            for name in hosts:
                made.on(name, f"echo {bridge_address()} {GROUND} >> /etc/hosts")
            ca = web.authority.bundle.read_text("utf-8")
            for name in hosts:
                over_ssh(lab, "sudo tee /etc/ground.pem", host=name, stdin=ca)
            yield made
    finally:
        lab.down()
        shutil.rmtree(folder, ignore_errors=True)


def inventory(lab: locallab.Lab) -> dict[str, Any]:
    """The lab's, with its cache in a group of its own."""
    (group,) = lab.inventory("gpu").values()
    of = group["hosts"]
    return {
        "gpu_cache": {"hosts": {CACHE: of[CACHE]}, "vars": group["vars"]},
        "gpu": {"hosts": {name: of[name] for name in HOSTS}, "vars": group["vars"]},
    }


def book(url: str) -> str:
    contents = {
        "lock": LOCK,
        "platforms": ["debian11"],
        "archives": [f"{url}/repo"],
        "files": {"b" * 64: [f"{url}/big/file.run"]},
        "projects": ["tiny"],
    }
    options = {
        "artifact_cache_size_gb": 1,
        "artifact_cache_ca_bundle": "/etc/ground.pem",
        "artifact_cache_index_url": f"{url}/simple",
        "artifact_cache_wheel_urls": [],
        "artifact_cache_contents": contents,
    }
    return one_role("artifact_cache", "gpu_cache", **options)


def changed(done: subprocess.CompletedProcess[str]) -> int:
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return sum(int(number) for number in re.findall(r"changed=(\d+)", done.stdout))


def refused(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2, done.stdout[-4000:] + done.stderr[-2000:]
    return " ".join(done.stdout.split())


def get(fleet: Fleet, path: str, host: str = "host1") -> str:
    """What curl's likeness on a host says of a path of the cache: its status and its bytes."""
    program = (
        "import sys, urllib.request as u, urllib.error as e\n"
        "try:\n    a = u.urlopen(sys.argv[1], timeout=120); print(a.status, len(a.read()))\n"
        "except e.HTTPError as f:\n    print(f.code, 0)\n"
    )
    done = over_ssh(fleet.lab, f"python3 - {fleet.url}{path}", host=host, stdin=program)
    return done.stdout.strip()


def test_a_disk_that_is_too_small_is_refused_before_anything_is_touched(fleet: Fleet) -> None:
    done = fleet.playbook("cache", artifact_cache_size_gb=1_000_000)
    assert "artifact_cache_size_gb is 1000000" in refused(done)
    assert fleet.on(CACHE, "ls -d /etc/gpu-artifact-cache /etc/nginx || true") == ""


def test_it_is_brought_and_a_second_run_changes_nothing(fleet: Fleet) -> None:
    assert changed(fleet.playbook("cache")) > 0
    assert fleet.on(CACHE, "systemctl is-active gpu-artifact-cache").strip() == "active"
    # What came with nginx opens no port.
    assert "inactive" in fleet.on(CACHE, "systemctl is-active nginx", check=False)
    assert changed(fleet.playbook("cache")) == 0


def test_nothing_is_served_that_the_lock_does_not_name(fleet: Fleet) -> None:
    top = fleet.root.removeprefix(fleet.url)
    for path in (f"{top}/other/secret", "/archives/deb.debian.org/debian/", "/", "/simple/numpy/"):
        assert get(fleet, path) == "404 0", path
    assert get(fleet, f"{top}/repo/InRelease").startswith("200 ")


def test_the_first_host_fetches_and_the_others_take_what_it_fetched(fleet: Fleet) -> None:
    fleet.outside()
    names = ["cache-one", "cache-two"]
    assert changed(fleet.playbook("take", limit="host1", packages=names)) > 0
    first = fleet.outside()
    assert first > 400_000
    fleet.on(CACHE, f"systemctl stop gpu-artifact-cache; rm -r {FILES}")
    fleet.on(CACHE, "systemctl start gpu-artifact-cache")
    fleet.on("host1", "dpkg --purge cache-one cache-two; apt-get clean")
    assert changed(fleet.playbook("take", packages=names)) > 0
    three = fleet.outside()
    assert three <= first * 1.02, (first, three)


def test_one_file_that_three_ask_for_at_once_is_fetched_once(fleet: Fleet) -> None:
    fleet.outside()
    running = [
        subprocess.Popen(
            [
                "ssh", *fleet.lab.ssh_arguments(), "-i", str(host.key_file), "-p", str(host.port),
                f"{host.user}@{host.address}",
                f"python3 -c 'import urllib.request as u;"
                f'print(len(u.urlopen("{fleet.url}/files/{"b" * 64}/file.run", timeout=300)'
                ".read()))'",
            ],
            stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
        )
        for host in fleet.lab.hosts
        if host.name != CACHE
    ]  # fmt: skip
    assert [process.communicate(timeout=300)[0].strip() for process in running] == [str(BIG)] * 3
    assert fleet.outside() <= BIG * 1.02


def test_the_index_of_wheels_leads_through_the_cache(fleet: Fleet) -> None:
    page = f'<a href="{fleet.web.url}/big/tiny-1.0-py3-none-any.whl#sha256=00">tiny</a>'
    fleet.web.instead["/simple/tiny"] = (200, "text/html", page.encode())
    done = over_ssh(
        fleet.lab,
        f'python3 -c \'import urllib.request as u; print(u.urlopen("{fleet.url}/simple/tiny/")'
        ".read().decode())'",
        host="host1",
    )
    place = fleet.root.removeprefix(fleet.url)
    assert f'href="{place}/big/tiny-1.0-py3-none-any.whl#sha256=00"' in done.stdout


def test_an_index_is_never_older_than_the_archives(fleet: Fleet) -> None:
    path = f"{fleet.root.removeprefix(fleet.url)}/repo/InRelease"
    before = get(fleet, path)
    fleet.web.instead["/repo/InRelease"] = (200, "text/plain", b"new")
    try:
        fleet.on(CACHE, "sleep 2")
        assert get(fleet, path) == "200 3" != before
    finally:
        del fleet.web.instead["/repo/InRelease"]
        # Nobody after this test is given the false one, which nginx has for a second.
        fleet.on(CACHE, "sleep 2")


def test_a_cache_that_changes_a_byte_is_refused_and_named(fleet: Fleet) -> None:
    package = f"{fleet.root.removeprefix(fleet.url)}/repo/cache-three_1.0_all.deb"
    assert get(fleet, package).startswith("200 ")
    flip = (
        "import sys\n"
        "for p in sys.argv[1:]:\n"
        '    d = bytearray(open(p, "rb").read()); d[-100] ^= 1; open(p, "wb").write(d)\n'
    )
    # By nginx's own note of what a file is: the signed index names the package too.
    found = f"$(sudo grep -rla '^KEY: .*/cache-three_1.0_all.deb' {FILES})"
    done = over_ssh(fleet.lab, f"sudo python3 - {found}", host=CACHE, stdin=flip)
    assert done.returncode == 0, done.stderr
    for fallback in ("stop", "direct"):
        message = refused(
            fleet.playbook("take", limit="host1", packages=["cache-three"], fallback=fallback)
        )
        assert "Hash Sum mismatch" in message
        assert "that address sends something else than its index names" in message
        assert "cache-three_1.0_all.deb" in message
        if fallback == "stop":
            assert f"Failed to fetch {fleet.root}/repo" in message
    assert "cache-three" not in fleet.on("host1", "dpkg -l")


def stop_it(fleet: Fleet) -> str:
    (host,) = [host for host in fleet.lab.hosts if host.name == CACHE]
    return " ".join([
        "ssh", *fleet.lab.ssh_arguments(), "-i", str(host.key_file), "-p", str(host.port),
        f"{host.user}@{host.address}", "sudo systemctl stop gpu-artifact-cache",
    ])  # fmt: skip


@pytest.mark.parametrize("fallback", ["stop", "direct"])
def test_a_cache_that_ends_in_the_middle(fleet: Fleet, fallback: str) -> None:
    options = {"limit": "host1", "packages": ["cache-four"], "fallback": fallback}
    ca = f'Acquire::https::{GROUND}::CaInfo "/etc/ground.pem";'
    over_ssh(fleet.lab, "sudo tee /etc/apt/apt.conf.d/ground", host="host1", stdin=ca)
    try:
        done = fleet.playbook("take", **options, between=stop_it(fleet))
        if fallback == "stop":
            message = refused(done)
            assert f"Failed to fetch {fleet.root}/repo" in message
            assert "run again when that address answers" in message
        else:
            assert changed(done) > 0
    finally:
        fleet.on(CACHE, "systemctl start gpu-artifact-cache")
    if fallback == "stop":
        assert "cache-four" not in fleet.on("host1", "dpkg -l")


def test_a_cache_that_is_killed_comes_back_by_itself(fleet: Fleet) -> None:
    # It is started anew after 5 seconds, on a machine that tests keep at work.
    fleet.on(CACHE, "systemctl kill --signal=KILL gpu-artifact-cache")
    until = time.monotonic() + 90
    while not get(fleet, "/manifest.json").startswith("200 "):
        assert time.monotonic() < until, fleet.on(
            CACHE, "systemctl status gpu-artifact-cache; journalctl -n 40 -u gpu-artifact-cache"
        )
        time.sleep(1)


def test_a_cache_of_another_lock_is_refused(fleet: Fleet) -> None:
    done = fleet.playbook("take", limit="host1", packages=["cache-five"], lock="sha256:other")
    assert f"is of another lock: {LOCK}, and this project's is sha256:other" in refused(done)


def test_it_goes_and_nginx_stays(fleet: Fleet) -> None:
    assert changed(fleet.playbook("cache", artifact_cache_state="absent")) > 0
    left = "ls -d /etc/gpu-artifact-cache /etc/systemd/system/gpu-artifact* /var/log/gpu-art*"
    assert fleet.on(CACHE, f"{left} {FILES} 2> /dev/null || true") == ""
    assert fleet.on(CACHE, "ls /usr/sbin/nginx").strip() == "/usr/sbin/nginx"
    assert changed(fleet.playbook("cache", artifact_cache_state="absent")) == 0


# whole hosts


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Bare hosts without the lab's own cache, and a project whose inventory has one of its own."""
    path = tmp_path_factory.mktemp("whole") / "project"
    path.mkdir()
    lab = locallab.up(
        "test-cache-whole", state_dir=path / ".lab", hosts=[CACHE, *HOSTS], with_cache=False
    )
    try:
        cached_lab.write_inventory(path, lab)
        project = Project(path, lab)
        for command in (["lock"], ["render", "."]):
            done = project.provision(*command)
            assert done.returncode == 0, done.stdout + done.stderr
        yield project
    finally:
        lab.down()
        shutil.rmtree(path, ignore_errors=True)


def outside(project: Project) -> int:
    """Bytes that the cache has had from outside."""
    return cached_lab.outside(project.lab)


def test_a_silent_cache_stops_a_host_or_is_reported_before_anything_is_touched(
    whole: Project,
) -> None:
    silent = ["--check", "--limit", "host1", "-e", "gpu_cache=http://127.0.0.1:1"]
    whole.playbook(*silent)
    assert [blocker["id"] for blocker in whole.entry("host1")["blockers"]] == ["cache"]
    whole.playbook(*silent, "-e", "gpu_cache_fallback=direct")
    assert whole.entry("host1")["blockers"] == []
    assert "cache-silent" in [warning["id"] for warning in whole.entry("host1")["warnings"]]


def test_a_run_brings_the_cache_first_and_leads_apt_there(whole: Project) -> None:
    """Of a bare host the environment alone is set up, which fetches nothing but the indices."""
    done = whole.playbook("--limit", f"host1,{CACHE}", "--tags", "gpu_env")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr
    assert list(whole.report["hosts"]) == ["host1"]
    assert outside(whole) > 1_000_000
    assert whole.ssh("host1", "ls -d /var/lib/provision/origin || true").strip() == ""


def test_three_bare_hosts_take_from_outside_what_one_takes(whole: Project) -> None:
    done = whole.playbook("--limit", f"host1,{CACHE}")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr
    assert whole.entry("host1")["status"] == "proven"
    first = outside(whole)
    done = whole.playbook()
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr
    assert {whole.entry(name)["status"] for name in HOSTS[1:]} == {"proven"}
    assert CACHE not in whole.report["hosts"]
    assert outside(whole) <= first * 1.02
