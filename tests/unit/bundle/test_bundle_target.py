"""Where a bundle is written nothing of anybody's is lost, and nothing outside of it is written."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from provision import bundle
from provision.errors import InputError, MachineError
from tests.unit.bundle.world import World, build, contents, provision


@pytest.fixture
def made(world: World, tmp_path: Path) -> Path:
    return build(world, tmp_path / "bundle")


def test_a_manifest_of_another_programs_is_no_bundle(world: World, tmp_path: Path) -> None:
    """manifest.json is the name of many programs' files, and so is `files`."""
    (tmp_path / "site" / "files").mkdir(parents=True)
    (tmp_path / "site" / "manifest.json").write_text('{"name": "a site"}')
    (tmp_path / "site" / "files" / "thesis.tex").write_text("x")
    before = contents(tmp_path / "site")
    with pytest.raises(InputError, match="files of somebody else's"):
        build(world, tmp_path / "site")
    assert contents(tmp_path / "site") == before


def test_a_delta_is_not_made_in_place_of_a_bundle(world: World, tmp_path: Path, made: Path) -> None:
    """Neither of the one that it is made against nor of another."""
    before = contents(made)
    shutil.copytree(made, tmp_path / "copy")
    for since in (made, tmp_path / "copy"):
        with pytest.raises(InputError, match="a delta takes a folder of its own"):
            build(world, made, "--since", since)
        assert contents(made) == before
    delta = build(world, tmp_path / "delta", "--since", made, "--package", "nginx")
    before = contents(delta)
    with pytest.raises(InputError, match="a delta takes a folder of its own"):
        build(world, delta, "--since", delta)
    assert contents(delta) == before
    build(world, delta, "--since", made, "--package", "nginx")
    assert contents(delta) == before


def test_nothing_is_written_through_links(world: World, tmp_path: Path, made: Path) -> None:
    """Links and second names in the place of files that a build begins."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    shutil.rmtree(made / "wheels")
    for name in (".unfinished", "..unfinished.part", ".manifest.json.part", ".lock.yml.part"):
        (made / name).symlink_to(victim)
    deb = next(made.rglob("dkms_*.deb"))
    deb.unlink()
    os.link(victim, deb.with_name(f".{deb.name}.part"))
    os.mkfifo(made / "sources" / ".debian12.sources.part")
    assert provision("--verify", build(world, made), "-p", world.project)[0] == 0
    assert victim.read_text() == "mine"


def test_a_link_in_the_place_of_a_folder_is_refused(
    world: World, tmp_path: Path, made: Path
) -> None:
    """By what makes a bundle, and by what brings one up to date: the link would be removed."""
    delta = build(world, tmp_path / "delta", "--since", made, "--package", "nginx")
    (made / "wheels").rename(tmp_path / "large")
    (made / "wheels").symlink_to(tmp_path / "large")
    before = contents(tmp_path / "large")
    for arguments in (("--apply", delta, made), (made, "-p", world.project, "--unsigned")):
        if arguments[0] == made:
            arguments += ("--from", tmp_path / "cudnn.tgz")
        with pytest.raises(InputError, match="a link is in the place of") as caught:
            provision(*arguments)
        assert caught.value.where == str(made / "wheels")
    shutil.copy(delta / "manifest.json", made)  # as where it was applied already
    with pytest.raises(InputError, match="a link is in the place of"):
        provision("--apply", delta, made)
    assert contents(tmp_path / "large") == before
    assert (made / "wheels").is_symlink()


@pytest.fixture
def busy(made: Path) -> Iterator[Path]:
    with bundle.held(made):
        yield made


def test_two_runs_do_not_write_one_bundle(world: World, tmp_path: Path, busy: Path) -> None:
    delta = build(world, tmp_path / "delta", "--since", busy, "--package", "nginx")
    before = contents(busy)
    with pytest.raises(MachineError, match="another run is writing this bundle"):
        build(world, busy)
    with pytest.raises(MachineError, match="another run is writing this bundle"):
        provision("--apply", delta, busy)
    assert contents(busy) == before
