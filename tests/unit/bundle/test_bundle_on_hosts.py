"""A host takes everything from a bundle, by the lock's keys and hashes, and asks nobody else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml
from gpu_stack import receipt
from gpu_stack.components.cuda import installer
from gpu_stack.components.cudnn import bring, layout
from gpu_stack.components.tensorflow import pip_install
from gpu_stack.host import (
    apt_commands,
    bundle_layout,
    origin,
    origin_writer,
    repository_key,
    repository_trial,
)
from gpu_stack.host.context import run_program
from gpu_stack.host.refusal import RefusalError

from provision.render.stacks import stack_variables
from tests.collection import ROOT
from tests.unit.bundle.world import CUDNN, STACK, World, build, sha256

PLACES = ("DIRECTORY", "CONFIGURATION", "NOTE", "PARTS", "KEYS", "LISTS")
DIRECTORY = origin.DIRECTORY


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, world: World) -> Path:
    """The directory of the run's origin, on a Debian 12 that trusts the world's archive."""
    place = tmp_path / "origin"
    for module in (origin, origin_writer):
        for name in PLACES:
            if hasattr(module, name):
                path = getattr(module, name).replace(DIRECTORY, str(place))
                monkeypatch.setattr(module, name, path)
    (tmp_path / "archive.asc").write_bytes(world.key.armored)
    monkeypatch.setattr(bundle_layout, "keyring", lambda _name: str(tmp_path / "archive.asc"))
    debian = {"distribution": "debian", "release": "12"}
    monkeypatch.setattr(origin_writer.platform, "look", lambda _context: debian)
    return place


@pytest.fixture
def led(monkeypatch: pytest.MonkeyPatch, state: Path) -> origin.Origin:
    """A run that is led to a bundle on a web server."""
    files = {"c" * 64: f"files/{'c' * 64}/cu dnn.tgz"}
    its = origin.Origin("http://192.0.2.1:8000/lab", files, "")
    origin_writer.write(its, [], {})
    monkeypatch.setenv("APT_CONFIG", f"{state}/apt.conf")
    return its


def parameters(world: World, folder: Path, **changes: Any) -> dict[str, Any]:
    lock = world.lock()
    return {
        "state": "present",
        "bundle": str(folder),
        "lock_digest": lock.digest,
        "stack": lock.stacks[STACK],
        "sources": stack_variables(lock, STACK)["gpu_sources"],
        "wait": 0,
        **changes,
    }


def apt(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, capture_output=True, text=True, check=False, env=dict(os.environ, LC_ALL="C")
    )


def settle(monkeypatch: pytest.MonkeyPatch, state: Path, params: dict[str, Any]) -> dict[str, Any]:
    """The module's answer; its apt reads as root, for this folder is root's alone."""
    monkeypatch.setenv("APT_CONFIG", "")
    for path in (params["bundle"], *map(str, Path(params["bundle"]).parents)):
        assert os.path.isdir(path)
    plain = origin_writer._configuration
    more = 'APT::Sandbox::User "root";\nAPT::Architecture "amd64";\n'
    monkeypatch.setattr(origin_writer, "_configuration", lambda place: plain(place) + more)
    monkeypatch.setattr(origin_writer.bundle, "_check_folder", lambda _context, _folder: None)
    try:
        return origin_writer.settle(params, False)
    finally:
        monkeypatch.setattr(origin_writer, "_configuration", plain)


def test_apt_reads_the_bundle_and_none_of_the_hosts_sources(
    world: World, tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = build(world, tmp_path / "bundle")
    params = parameters(world, folder)
    world.server.files.clear()
    answer = settle(monkeypatch, state, params)
    path = f"files/{sha256(CUDNN)}/archive"
    assert answer == {
        "changed": False,
        "addresses": {sha256(CUDNN): f"file://{folder}/{path}"},
    }
    listed = apt("apt-get", "indextargets", "--format", "$(SITE) $(RELEASE) $(COMPONENT)")
    assert {line.split(" ", 1)[1] for line in listed.stdout.splitlines()} == {
        f"{suite} {component}" for suite in world.suites for component in ("main", "non-free")
    }
    policy = apt("apt-cache", "policy", "nvidia-smi").stdout
    assert "535.1-1" in policy
    assert f"file:{folder}" in policy.replace("file://", "file:")
    origin_writer.settle({**params, "state": "absent"}, False)
    assert not state.exists()


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The settings of the host's own apt, which this machine's apt takes for its own."""
    folder = tmp_path / "apt.conf.d"
    folder.mkdir()
    monkeypatch.setattr(origin_writer, "OWN_SETTINGS", str(folder), raising=False)
    monkeypatch.setattr(origin_writer, "OWN_MAIN", str(tmp_path / "apt.conf"), raising=False)
    # Where apt looks for them unless the run's configuration says otherwise.
    plain = origin_writer._configuration
    leads = f'Dir::Etc::Parts "{folder}";\n'
    monkeypatch.setattr(origin_writer, "_configuration", lambda place: leads + plain(place))
    return folder


def test_the_hosts_own_settings_of_apt_do_not_lead_a_run_away(
    state: Path, own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """apt reads them after APT_CONFIG: what they say of sources and lists would count."""
    (own / "99mirror").write_text(
        'Dir::Etc::SourceParts "/srv/own";\nDir::Etc::SourceList "/srv/own.list";\n'
        'Dir::State::Lists "/srv/lists";\nAcquire::http::Proxy "http://proxy:3128";\n'
        'Acquire::http::Proxy::192.0.2.9 "http://near:3128";\nDPkg::Post-Invoke { "true"; };\n'
    )
    (tmp_path / "apt.conf").write_text('Acquire::Retries "7";\nDir::Etc::SourceList "/x";\n')
    for server in ("192.0.2.1:8000", "192.0.2.9"):
        origin_writer.write(origin.Origin(f"http://{server}/lab", {}, ""), [], {})
    monkeypatch.setenv("APT_CONFIG", str(state / "apt.conf"))
    dump = apt("apt-config", "dump").stdout.lower().splitlines()
    place = str(state).lower()
    assert f'dir::etc::sourceparts "{place}/sources.list.d";' in dump
    assert 'dir::etc::sourcelist "/dev/null";' in dump
    assert f'dir::state::lists "{place}/lists";' in dump
    # All else of the host's counts, once; its proxy for this very server too.
    assert 'acquire::http::proxy "http://proxy:3128";' in dump
    assert 'acquire::http::proxy::192.0.2.9 "http://near:3128";' in dump
    assert 'acquire::retries "7";' in dump
    assert dump.count('dpkg::post-invoke:: "true";') == 1


def test_what_a_run_that_was_killed_left_leads_no_other(
    led: origin.Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only APT_CONFIG of a run's own play leads there, and a look's programs have none at all."""
    assert led.place
    monkeypatch.setenv("APT_CONFIG", origin.CONFIGURATION)
    assert "APT_CONFIG" not in run_program(["env"]).out
    monkeypatch.setenv("APT_CONFIG", "")
    assert origin.current() == origin.UPSTREAM
    assert apt("apt-config", "shell", "X", "Dir::Etc::SourceParts/d").stdout == (
        "X='/etc/apt/sources.list.d/'\n"
    )


def test_what_a_run_that_was_killed_left_goes_with_the_next(
    led: origin.Origin, state: Path
) -> None:
    """Whatever the next one takes its things from: no run but such a one removed it before."""
    assert led.place
    assert state.exists()
    assert origin_writer.settle({"state": "absent"}, False)["changed"] is False
    assert not state.exists()
    tasks = {
        name: yaml.safe_load((ROOT / f"roles/gpu_state/tasks/{name}.yml").read_text("utf-8"))
        for name in ("begin", "receipt")
    }
    (left,) = [task for task in tasks["begin"] if "block" in task]
    (begin,) = [task for task in left["block"] if "provision.gpu.origin" in task]
    (end,) = [task for task in tasks["receipt"] if "provision.gpu.origin" in task]
    assert begin["provision.gpu.origin"] == end["provision.gpu.origin"] == {"state": "absent"}
    led_elsewhere = "(gpu_bundle | default('') or gpu_cache | default('')) | length "
    assert (begin["when"], end["when"]) == (led_elsewhere + "== 0", led_elsewhere + "> 0")
    # Of other runs none pays for the look after it.
    asks = jinja2.Environment().compile_expression(left["when"])  # noqa: S701
    changes = receipt.differ("sha256:1", None, unfinished=True)
    assert asks(gpu_plan={"changes": changes})
    assert not asks(gpu_plan={"changes": receipt.differ("sha256:1", None, unfinished=False)})
    # The mark of an unfinished run goes last: killed in between, the host would look finished.
    last = tasks["receipt"][-1]["ansible.builtin.file"]
    assert last == {"path": "/var/lib/provision/unfinished.json", "state": "absent"}


def test_a_bundle_that_somebody_else_signed_is_not_read(
    world: World, tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = build(world, tmp_path / "bundle")
    (release,) = folder.glob("archives/*/debian/dists/bookworm/InRelease")
    text = release.read_text()
    release.write_text(text.replace("Sat", "Sun"))
    assert release.read_text() != text
    with pytest.raises(RefusalError, match="apt can't use the bundle at /"):
        settle(monkeypatch, state, parameters(world, folder))


def test_sources_that_a_bundle_brings_are_not_used(
    world: World, tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They could have apt trust whatever is there."""
    folder = build(world, tmp_path / "bundle")
    (folder / "sources/debian12.sources").write_text("Types: deb\nURIs: x\nTrusted: yes\n")
    monkeypatch.setattr(origin_writer.bundle, "_check_files", lambda *_words: None)
    settle(monkeypatch, state, parameters(world, folder))
    written = "".join(path.read_text() for path in (state / "sources.list.d").iterdir())
    assert "Trusted" not in written
    assert written.count("Signed-By: ") == len(world.suites)


def test_a_bundle_of_another_lock_is_refused_where_it_is_used_too(
    world: World, tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = build(world, tmp_path / "bundle")
    with pytest.raises(RefusalError, match=r"of another lock.*To do: `provision bundle`"):
        settle(monkeypatch, state, parameters(world, folder, lock_digest="sha256:other"))
    assert not state.exists()


def test_nvidias_repositories_have_the_locks_keys(state: Path) -> None:
    its = origin.Origin("file:///media/lab", {}, "")
    repository = {"url": "https://n.example.org/cuda/debian12/x86_64", "suite": "/", "key": "KEY\n"}
    stack = {
        "nvidia_driver": {"repository": repository},
        "cuda": {"repository": dict(repository), "installer": {"url": "x"}},
        "gpu_env": {"path": []},
    }
    origin_writer.write(its, [], stack)
    text = (state / "sources.list.d/provision-origin.sources").read_text()
    assert text == (
        "Types: deb\nURIs: file:///media/lab/archives/n.example.org/cuda/debian12/x86_64\n"
        "Suites: /\nArchitectures: amd64\nLanguages: none\n"
        f"Signed-By: {state}/keys/cuda.asc\nCheck-Valid-Until: no\n"
    )
    assert (state / "keys/cuda.asc").read_text() == "KEY\n"
    link = state / "sources.list.d/provision-cuda.sources"
    assert os.readlink(link) == "/etc/apt/sources.list.d/provision-cuda.sources"


@pytest.mark.parametrize("suite", ["x\nTrusted: yes", "", "-x"])
def test_what_is_no_suite_is_not_written(state: Path, suite: str) -> None:
    source = {"url": "http://x.example.org/y", "suite": suite, "components": ["main"]}
    with pytest.raises(RefusalError, match="names no suite"):
        origin_writer.write(origin.Origin("file:///x", {}, ""), [source], {})
    assert not (state / "apt.conf").exists()


def test_in_check_mode_nothing_is_written(state: Path) -> None:
    assert origin_writer.settle({"state": "present"}, True)["changed"] is False
    assert not state.exists()


# the modules


def test_without_a_bundle_each_address_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("", "/etc/somebodys.conf"):
        monkeypatch.setenv("APT_CONFIG", value)
        its = origin.current()
        assert its == origin.UPSTREAM
        assert its.archive("http://x/y") == "http://x/y"
        assert its.file("a", "http://x/y") == "http://x/y"
        assert its.pip({"index_url": "http://x"}) == {"index_url": "http://x"}


def test_a_run_whose_note_is_gone_stops(led: origin.Origin, state: Path) -> None:
    """With the host's own sources it would go on from elsewhere."""
    assert origin.current() == led
    (state / "origin.json").unlink()
    with pytest.raises(RefusalError, match="can't be read"):
        origin.current()


def test_cudnn_comes_from_the_bundle_and_from_no_controller(led: origin.Origin) -> None:
    params = {
        "host_file": "", "archive": "", "controller_file": "/srv/cudnn.tgz",
        "urls": ["https://x.example.org/cudnn.tgz"], "proxy": "http://p", "ca_bundle": "",
    }  # fmt: skip
    version = layout.Version("/opt", "8.1.0.77", "11.2", "c" * 64)
    sources = bring._sources(params, version)
    assert sources.urls == [f"{led.place}/files/{'c' * 64}/cu%20dnn.tgz"]
    assert (sources.to_come, sources.proxy) == (False, "")


def test_the_local_installer_comes_from_the_bundle(
    led: origin.Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[installer.Installer] = []
    monkeypatch.setattr(installer, "refuse_others_place", taken.append)
    params = {
        "state": "trusted", "url": "https://x.example.org/cuda.deb", "sha256": "D" * 64,
        "directory": "/var/cache/provision", "repository": "/var/cuda", "ca_bundle": "",
    }  # fmt: skip
    installer.settle(params, False)
    assert taken[0].url == f"{led.place}/files/{'d' * 64}/cuda.deb"
    assert taken[0].file == "/var/cache/provision/cuda.deb"


def test_pip_asks_the_bundle_alone(led: origin.Origin) -> None:
    options = led.pip({"index_url": "https://x", "extra_index_urls": ["https://y"], "proxy": "p"})
    variables = pip_install.environment("/place", options)
    assert variables["PIP_INDEX_URL"] == "http://192.0.2.1:8000/lab/simple"
    assert variables["PIP_TRUSTED_HOST"] == "192.0.2.1:8000"
    assert variables["PIP_CONFIG_FILE"] == os.devnull
    assert not {"PIP_EXTRA_INDEX_URL", "PIP_PROXY"} & set(variables)
    local = origin.Origin("file:///media/lab", {}, "").pip({})
    assert "PIP_TRUSTED_HOST" not in pip_install.environment("/place", local)


def test_no_repository_and_no_key_is_asked_for(
    led: origin.Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*words: object) -> None:
        raise AssertionError(words)

    monkeypatch.setattr(repository_trial, "run", never)
    monkeypatch.setattr(repository_key.download, "to_file", never)
    assert led.place
    assert repository_trial.fetch("https://x.example.org", "/", "KEY")["usable"]
    words = repository_key.Words("https://x.example.org", "Docker", "", "say so", "")
    holder = repository_key.Holder("", "", "https://x.example.org/gpg", "")
    with pytest.raises(RefusalError, match="is not in the lock, and the bundle"):
        repository_key.take(holder, ["A" * 40], words)


def test_the_hosts_own_sources_are_asked_of_the_host(
    led: origin.Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str | None] = []

    def run(_argv: list[str], _longest: float, environment: dict[str, str]) -> Any:
        seen.append(environment.get("APT_CONFIG"))
        return apt_commands.Result(0, "", "")

    monkeypatch.setattr(apt_commands, "run_program", run)
    apt_commands.run(["apt-get", "update"])
    apt_commands.run(["apt-get", "indextargets"], host=True)
    assert led.place
    assert seen == [origin.CONFIGURATION, None]
