"""What whoever has a delta in hand can do to it: nothing that a check of its signature passes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from provision import bundle, signing
from provision.errors import DriftError, InputError
from tests.unit.bundle.world import World, contents, provision
from tests.unit.evidence import made as keys


@pytest.fixture
def signed(world: World, tmp_path: Path) -> tuple[str, Path]:
    """Ada's bundle (old), and her delta from it to one with nginx (delta)."""
    keys.key(tmp_path / "ada")
    allowed = keys.allowed(tmp_path / "allowed", ("ada@example.org", tmp_path / "ada"))
    given = ("--from", tmp_path / "cudnn.tgz", "-p", world.project, "--key", tmp_path / "ada")
    provision(tmp_path / "old", *given)
    provision(tmp_path / "delta", *given, "--package", "nginx", "--since", tmp_path / "old")
    return "--allowed-signers", allowed


def changed(path: Path, change: Callable[[dict[str, object]], object]) -> bytes:
    """A delta's file with a change, as its maker would have written it."""
    document = json.loads(path.read_bytes())
    change(document)
    return json.dumps(document, indent=2).encode() + b"\n"


def test_an_altered_delta_is_refused_in_each_way(
    world: World, tmp_path: Path, signed: tuple[str, Path]
) -> None:
    old, delta = tmp_path / "old", tmp_path / "delta"
    before, file = contents(old), delta / "delta.json"
    good = file.read_bytes()
    signature = (delta / "delta.json.sig").read_bytes()

    def refused(match: str) -> None:
        for way in (("--apply", delta, old), ("--verify", delta, "-p", tmp_path)):
            with pytest.raises((DriftError, InputError), match=match):
                provision(*way, *signed)
            assert contents(old) == before

    # It names another bundle: somebody's newer one would be brought back to an old state.
    file.write_bytes(changed(file, lambda d: d.update(since="sha256:" + "0" * 64)))
    refused("the signature is not good")
    file.write_bytes(good)
    # A lost file is struck out of it: what is left would be called good.
    nginx = next(delta.rglob("nginx*.deb"))
    nginx.rename(tmp_path / "nginx.deb")
    name = nginx.relative_to(delta).as_posix()
    file.write_bytes(changed(file, lambda d: d["files"].remove(name)))  # type: ignore[attr-defined]
    refused("the signature is not good")
    (tmp_path / "nginx.deb").rename(nginx)
    # Hers, but of another manifest.
    other = changed(file, lambda d: d.update(makes="sha256:" + "0" * 64))
    file.write_bytes(other)
    by_ada = signing.sign(other, tmp_path / "ada", bundle.NAMESPACE)
    (delta / "delta.json.sig").write_bytes(by_ada)
    refused("of another manifest than the one beside it")
    file.write_bytes(good)
    (delta / "delta.json.sig").unlink()
    refused("there is no signature")
    (delta / "delta.json.sig").write_bytes(signature)
    # What is left of a whole bundle is no delta because somebody says so.
    whole = tmp_path / "whole"
    shutil.copytree(old, whole)
    next(whole.rglob("dkms*.deb")).unlink()
    shutil.copy(file, whole)
    with pytest.raises(InputError, match="there is no signature"):
        provision("--verify", whole, "-p", tmp_path, *signed)

    assert provision("--verify", delta, "-p", tmp_path, *signed)[0] == 0
    assert provision("--apply", delta, old, *signed)[0] == 0
    assert {path for path in contents(old) if "delta" in path} == set()
    assert provision("--verify", old, "-p", tmp_path, *signed)[0] == 0


def test_a_delta_of_another_provision_is_refused(
    world: World, tmp_path: Path, signed: tuple[str, Path]
) -> None:
    """And one whose file is none, without a signature that is checked."""
    file = tmp_path / "delta" / "delta.json"
    good = file.read_bytes()
    file.write_bytes(changed(file, lambda d: d.update(format=1)))
    with pytest.raises(InputError, match="a format of another provision"):
        provision("--verify", tmp_path / "delta", "-p", tmp_path)
    for bad in (b"{}", b"[]", good[:-9], b"[" * 100_000, b"\xff"):
        file.write_bytes(bad)
        with pytest.raises(DriftError, match="the delta's file was altered"):
            provision("--apply", tmp_path / "delta", tmp_path / "old")


@pytest.mark.parametrize(
    "option",
    [
        *(("--platform", "debian12"), ("--package", "nginx"), ("--from", "x")),
        *(("--key", "~/.ssh/id_ed25519"), ("--unsigned",)),
    ],
)
def test_an_option_that_would_be_ignored_is_refused(
    tmp_path: Path, option: tuple[str, ...]
) -> None:
    with pytest.raises(InputError, match=f"--verify takes no {option[0]}") as caught:
        provision("--verify", tmp_path, *option)
    assert caught.value.expected == (
        "--verify with --allowed-signers, --identity, --json, --project, --since"
    )
    with pytest.raises(InputError, match=f"--apply takes no {option[0]}"):
        provision("--apply", tmp_path, tmp_path, *option)


def test_what_a_delta_needs_no_choice_of_is_refused_too(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--apply takes no --project and no --since") as caught:
        provision("--apply", tmp_path, tmp_path, "--since", tmp_path, "-p", tmp_path)
    assert caught.value.expected == "--apply with --allowed-signers, --identity, --json"
    with pytest.raises(InputError, match="--key and --unsigned exclude each other"):
        provision(tmp_path / "new", "--key", tmp_path / "key", "--unsigned")


def test_many_faults_are_reported_one_way(
    world: World, tmp_path: Path, signed: tuple[str, Path]
) -> None:
    """The first five, and how many more, by `--verify` and by `--apply`."""
    for deb in sorted((tmp_path / "old").rglob("*.deb"))[:7]:
        deb.unlink()
    with pytest.raises(DriftError) as verified:
        provision("--verify", tmp_path / "old", "-p", tmp_path)
    with pytest.raises(DriftError) as applied:
        provision("--apply", tmp_path / "delta", tmp_path / "old")
    assert verified.value.got == applied.value.got
    assert applied.value.got.count(";") == 4
    assert applied.value.got.endswith(" and 2 more")
