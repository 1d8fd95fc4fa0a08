"""Bundles of a small archive: what is in them, that apt takes them, and that two are the same."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from provision import catalog
from provision.bundle import needs
from provision.errors import DriftError, InputError, MachineError
from provision.upstream import exact
from tests.collection import ROOT
from tests.unit.bundle import world as worlds
from tests.unit.bundle.world import CUDNN, World, build, contents, sha256
from tests.unit.generator.signed_repository import repository


def debs(folder: Path) -> set[str]:
    return {path.name.rpartition("_")[0] for path in folder.rglob("*.deb")}


def test_it_has_what_a_bare_host_needs_and_no_more(world: World, tmp_path: Path) -> None:
    """The locked driver, what that needs down to libc, Python, both kernels' headers, the base."""
    folder = build(world, tmp_path / "bundle")
    assert debs(folder) == {
        *("nvidia-smi_535.1-1", "libnvidia-ml1_535.1-1", "nvidia-kernel-dkms_535.1-1"),
        *("nvidia-firmware_535.1-1", "dkms_3.0.10-8", "gcc_4%3a12.2.0-3", "make_4.3-4.1"),
        *("kmod_30", "libc6_2.36-9", "libgcc-s1_12.2.0-14", "python3.11_3.11.2-6"),
        *("python3.11-venv_3.11.2-6", "ca-certificates_20230311", "openssl_3.0.17"),
        *("linux-headers-amd64_6.1.10-1", "linux-headers-6.1.0-10-amd64_6.1.10-1"),
        *("linux-headers-amd64_6.1.20-1", "linux-headers-6.1.0-20-amd64_6.1.20-1"),
        *("base-files_12.4", "media-types_10.0.0", "mawk_1.3.4"),
    }
    assert (folder / "files" / sha256(CUDNN) / "archive").read_bytes() == CUDNN
    assert {path.name for path in (folder / "wheels").iterdir()} == set(worlds.WHEELS)
    assert not list(folder.rglob(".*"))


def test_the_signed_indices_are_the_archives_own(world: World, tmp_path: Path) -> None:
    folder = build(world, tmp_path / "bundle")
    host = world.server.url.removeprefix("http://").replace(":", "_")
    for suite in world.suites:
        path = f"dists/{suite}/InRelease"
        here = folder / "archives" / host / "debian" / path
        assert here.read_bytes() == world.server.files[f"/debian/{path}"]


def test_apt_takes_it_by_the_archives_key(world: World, tmp_path: Path) -> None:
    """Offline, and every file that apt would install is there."""
    folder = build(world, tmp_path / "bundle")
    world.server.files.clear()
    apt = tmp_path / "apt"
    for name in ("lists/partial", "archives/partial", "empty", "sources"):
        (apt / name).mkdir(parents=True)
    (apt / "status").touch()
    (apt / "key.asc").write_bytes(world.key.armored)
    text = (folder / "sources" / "debian12.sources").read_text()
    text = text.replace("@BUNDLE@", f"file:{folder}")
    text = text.replace("/usr/share/keyrings/debian-archive-keyring.gpg", f"{apt}/key.asc")
    (apt / "sources" / "bundle.sources").write_text(text)
    options = {
        "Dir::State::lists": apt / "lists",
        "Dir::State::status": apt / "status",
        "Dir::Cache": apt,
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": apt / "sources",
        "Dir::Etc::preferencesparts": apt / "empty",
        "Dir::Etc::parts": apt / "empty",
        "APT::Architecture": "amd64",
        "APT::Sandbox::User": "root",
        "APT::Update::Error-Mode": "any",
    }
    command = ["apt-get", "-q", *(f"-o{name}={value}" for name, value in options.items())]
    subprocess.run([*command, "update"], check=True, capture_output=True)
    wanted = ["nvidia-smi=535.1-1", "nvidia-kernel-dkms", "python3.11-venv", "ca-certificates"]
    done = subprocess.run(
        [*command, "install", "--yes", "--print-uris", *wanted, "linux-headers-amd64"],
        check=True,
        capture_output=True,
        text=True,
    )
    files = [
        line.split("'")[1].removeprefix("file:") for line in done.stdout.splitlines() if "'" in line
    ]
    assert len(files) == 18
    assert [file for file in files if not Path(file.replace("%253a", "%3a")).exists()] == []


def test_two_of_one_lock_are_the_same_bytes(world: World, tmp_path: Path) -> None:
    first = build(world, tmp_path / "first")
    # The index of wheels has gained files of the same versions since, and the archive has moved on.
    world.offer("six-1.16.0-py3-none-any.whl")
    world.suites["bookworm-security"]["main"]["openssl"] = ("3.0.18", "", "")
    world.publish("Sun, 22 Nov 2026 10:00:00 UTC")
    second = build(world, tmp_path / "second")
    assert contents(first) == contents(second)


def test_an_earlier_bundle_is_enough_without_a_network(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build(world, tmp_path / "first")
    world.server.files.clear()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    asked = len(world.server.asked)
    second = build(world, tmp_path / "second", "--from", first)
    assert contents(first) == contents(second)
    assert len(world.server.asked) == asked


def test_pip_finds_the_wheels_by_their_pages(world: World, tmp_path: Path) -> None:
    folder = build(world, tmp_path / "bundle")
    text = (folder / "simple" / "six" / "index.html").read_text()
    assert (
        f"../../wheels/{worlds.WHEELS[1]}#sha256={sha256(worlds.wheel(worlds.WHEELS[1]))}" in text
    )
    assert (folder / "simple" / "six" / f"../../wheels/{worlds.WHEELS[1]}").exists()


def test_further_packages_come_with_what_they_need(world: World, tmp_path: Path) -> None:
    folder = build(world, tmp_path / "bundle", "--package", "nginx")
    assert "nginx_1.22" in debs(folder)
    with pytest.raises(InputError, match="the locked archives have no such package") as caught:
        build(world, tmp_path / "other", "--package", "ngnix")
    assert caught.value.got == "ngnix"


def test_a_broken_download_is_resumed(world: World, tmp_path: Path) -> None:
    """A server that breaks off in the middle, and a build that was cut off."""
    body = worlds.deb("dkms", "3.0.10-8")
    url = f"{world.archive}/pool/dkms/dkms_3.0.10-8_amd64.deb"
    world.server.breaks = [100]
    places = exact.Places(tmp_path / "cache")
    places.into(exact.Exact(sha256(body), (url,), "dkms"), tmp_path / "dkms.deb")
    assert (tmp_path / "dkms.deb").read_bytes() == body
    assert world.server.asked[-1][1] == "bytes=100-"
    folder = build(world, tmp_path / "bundle")
    (folder / ".unfinished").touch()
    gone = next(folder.rglob("dkms*.deb"))
    gone.unlink()
    world.server.asked.clear()
    build(world, folder)
    assert [path.rpartition("/")[2] for path, _ in world.server.asked if "deb" in path] == [
        gone.name
    ]
    assert not (folder / ".unfinished").exists()


def test_an_index_that_breaks_off_is_not_taken_for_another(world: World, tmp_path: Path) -> None:
    """Exit code 7, where trying again helps, and not 5."""
    world.server.breaks = [20] * 9
    with pytest.raises(MachineError, match="a locked file can't be fetched") as caught:
        build(world, tmp_path / "bundle")
    assert "it breaks off after 20 of " in caught.value.got


def test_what_upstream_no_longer_has_is_named(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file, an index, a wheel: each in one message, and the bundle stays unfinished."""
    pool = "/debian/pool/dkms/dkms_3.0.10-8_amd64.deb"
    kept = world.server.files.pop(pool)
    with pytest.raises(DriftError, match="upstream no longer has what is locked") as caught:
        build(world, tmp_path / "bundle")
    assert "dkms 3.0.10-8" in caught.value.where
    assert "--from BUNDLE" in caught.value.hint
    with pytest.raises(InputError, match="the bundle is unfinished"):
        worlds.provision("--verify", tmp_path / "bundle")

    world.server.files[pool] = kept[:-1] + b"!"
    with pytest.raises(DriftError, match="upstream no longer has what is locked") as caught:
        build(world, tmp_path / "bundle")
    assert "checksum mismatch" in caught.value.got or "SHA-256" in caught.value.got
    world.server.files[pool] = kept

    world.server.files.pop(f"/simple/{worlds.WHEELS[1].partition('-')[0]}/")
    with pytest.raises(DriftError, match="the index no longer has what is locked"):
        build(world, tmp_path / "bundle")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    world.publish("Sun, 22 Nov 2026 10:00:00 UTC")
    with pytest.raises(DriftError, match="the archive has moved on since the lock") as caught:
        build(world, tmp_path / "bundle")
    assert "provision lock --upgrade sources" in caught.value.hint


def test_a_locked_package_that_no_index_has_is_named(world: World, tmp_path: Path) -> None:
    world.suites["bookworm"]["non-free"]["nvidia-smi"] = ("535.2-1", "", "")
    world.lock()  # of a package that is not published yet
    with pytest.raises(DriftError, match="upstream no longer has what is locked") as caught:
        build(world, tmp_path / "bundle")
    assert caught.value.got == "no index has nvidia-smi 535.2-1"


def test_an_archive_of_cudnn_that_nobody_has_is_named(world: World, tmp_path: Path) -> None:
    with pytest.raises(DriftError, match="upstream no longer has what is locked") as caught:
        worlds.provision(tmp_path / "bundle", "-p", world.project, "--unsigned")
    assert caught.value.where == "cuDNN 8.7"
    assert caught.value.got == "no address is known"


def test_a_network_that_is_not_there_is_no_drift(world: World, tmp_path: Path) -> None:
    """Exit code 7, not 5: trying again may help."""
    made = world.lock()
    for source in made.details["sources"][worlds.STACK]:
        source["url"] = "http://127.0.0.1:9/debian"
    world.project.joinpath("lock.yml").write_bytes(relocked(made))
    with pytest.raises(MachineError, match="can't be fetched"):
        build(world, tmp_path / "bundle")


def relocked(made: worlds.lock.Lock) -> bytes:
    """A changed lock's bytes, with the digest of what it has now."""
    slim = {
        **made.slim,
        "digest": worlds.digest_of(made.slim["rows"], made.slim["stacks"], made.details),
    }
    return worlds.lock.dump(worlds.lock.Lock(slim, made.details))


def test_another_platform_is_refused(world: World, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the lock has no stack for this platform") as caught:
        build(world, tmp_path / "bundle", "--platform", "debian13")
    assert caught.value.expected == "debian12"


def test_a_folder_of_somebody_elses_is_left_alone(world: World, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "thesis.tex").write_text("x")
    with pytest.raises(InputError, match="files of somebody else's"):
        build(world, tmp_path / "theirs")
    assert [path.name for path in (tmp_path / "theirs").iterdir()] == ["thesis.tex"]


def test_a_repository_of_nvidias_comes_as_it_is_signed(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flat, with a detached signature; of it nothing but what is locked, and docker beside it."""
    rows = {"nvidia-container-toolkit": "1.17.8-1", "nvidia-container-runtime": "3.14.0-1"}
    text = ""
    for name, version in rows.items():
        data = worlds.deb(name, version)
        world.server.files[f"/toolkit/{name}.deb"] = data
        text += f"Package: {name}\nVersion: {version}\nArchitecture: amd64\nDepends: libc6\n"
        text += f"Filename: ./{name}.deb\nSize: {len(data)}\nSHA256: {sha256(data)}\n\n"
    world.server.add("/toolkit", repository(world.key, text, detached=True))
    world.suites["bookworm"]["main"]["docker.io"] = ("20.10.24", "libc6", "")
    world.publish()
    made = worlds.made_lock(world)
    stack = made.stacks[worlds.STACK]
    name, url = "nvidia-container-toolkit", f"{world.server.url}/toolkit"
    stack["nvidia_container_toolkit"] = {  # type: ignore[index]
        "version": "1.17.8",
        "packages": {"toolkit": {name: rows[name]}},
        "repository": {"url": url, "suite": "/", "key": "", "fingerprints": []},
    }
    data = worlds.deb(name, rows[name])
    made.details["packages"][worlds.STACK][name] = {
        "version": rows[name],
        "sha256": sha256(data),
        "size": len(data),
        "source": name,
    }
    release = world.server.files["/toolkit/Release"]
    made.details["sources"][worlds.STACK].append(
        {
            "url": url,
            "suite": "/",
            "components": [],
            "signed_by": [],
            "date": worlds.DATE,
            "sha256": sha256(release),
        }
    )
    (world.project / "lock.yml").write_bytes(relocked(made))
    folder = build(world, tmp_path / "bundle")
    here = folder / "archives" / url.removeprefix("http://").replace(":", "_")
    assert (here / "Release").read_bytes() == release
    assert (here / "Release.gpg").read_bytes() == world.server.files["/toolkit/Release.gpg"]
    assert {path.name for path in here.glob("*.deb")} == {f"{name}.deb"}
    assert "docker.io_20.10.24" in debs(folder)
    assert "/toolkit" not in (folder / "sources" / "debian12.sources").read_text()
    # Release.gpg is the one file whose hash no lock has: an earlier bundle gives it.
    world.server.files.clear()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    assert contents(build(world, tmp_path / "second", "--from", folder)) == contents(folder)


def test_a_stack_with_nothing_of_the_platforms_own_is_refused(world: World, tmp_path: Path) -> None:
    made = worlds.made_lock(world)
    made.details["sources"][worlds.STACK].clear()
    (world.project / "lock.yml").write_bytes(relocked(made))
    with pytest.raises(InputError, match="the lock names no suite of Debian 12"):
        build(world, tmp_path / "bundle")


def test_the_tools_of_a_runfile_are_the_roles() -> None:
    """They stand in a task, not in a table that can be read."""
    task = (ROOT / "roles/nvidia_driver/tasks/runfile/tools.yml").read_text("utf-8")
    assert ", ".join(f"'{name}'" for name in needs.RUNFILE) in task


def test_each_platform_has_the_roles_tables() -> None:
    facts = catalog.load()
    for platform in facts.platforms:
        for python in platform.pythons:
            stack = {
                "tensorflow": {"python": python},
                "nvidia_driver": {"source": "runfile"},
                "cuda": {"source": "network"},
                "nvidia_container_toolkit": {},
            }
            newest, headers = needs.packages(platform, stack)
            assert f"python{python}-venv" in newest
            assert "docker.io" in newest
            assert headers in (["linux-headers-amd64"], ["linux-headers-generic"])
            assert platform.headers in ("", *headers)


def test_a_bundle_stays_one_where_the_disk_has_no_room_for_the_next(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = build(world, tmp_path / "bundle")
    before = contents(folder)
    world.suites["bookworm"]["non-free"]["nvidia-smi"] = ("535.2-1", "", "")
    world.publish()
    world.lock()
    full = shutil.disk_usage(folder)._replace(free=10)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: full)
        for place in (folder, tmp_path / "new"):
            with pytest.raises(MachineError, match="no room for the bundle"):
                build(world, place)
    assert contents(folder) == before
    assert worlds.provision("--verify", folder)[0] == 0
