"""What `--verify` and `--apply` say of bundles: good ones, and each way of being none."""

from __future__ import annotations

import contextlib
import functools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from provision import bundle, cli, signing
from provision.errors import DriftError, InputError
from tests.unit.bundle import world as worlds
from tests.unit.bundle.world import World, build, contents, provision
from tests.unit.evidence import made as keys


def a_deb(folder: Path) -> Path:
    return next(folder.rglob("dkms_*.deb"))


def cut_short(folder: Path) -> None:
    a_deb(folder).write_bytes(a_deb(folder).read_bytes()[:-1])


def altered(folder: Path) -> None:
    data = bytearray(a_deb(folder).read_bytes())
    data[7] ^= 1
    a_deb(folder).write_bytes(bytes(data))


def missing(folder: Path) -> None:
    a_deb(folder).unlink()


def a_link(folder: Path) -> None:
    a_deb(folder).rename(folder.parent / "elsewhere")
    a_deb_path = folder.parent / "elsewhere"
    next(folder.rglob("dkms")).joinpath("dkms_3.0.10-8_amd64.deb").symlink_to(a_deb_path)


def too_much(folder: Path) -> None:
    (folder / "wheels" / "six-9.9-py3-none-any.whl").write_bytes(b"")


@pytest.mark.parametrize(
    ("harm", "expected"),
    [
        (cut_short, "cut short, 1299 of 1300 bytes"),
        (altered, "altered"),
        (missing, "missing"),
        (a_link, "not a file"),
        (too_much, "not of this bundle"),
    ],
)
def test_each_harm_is_named_with_its_file(
    world: World, tmp_path: Path, harm: Callable[[Path], None], expected: str
) -> None:
    folder = build(world, tmp_path / "bundle")
    code, out = provision("--verify", folder, "-p", world.project)
    assert code == 0
    assert out.startswith("good: ")
    harm(folder)
    with pytest.raises(DriftError, match="the bundle is not as it was made") as caught:
        provision("--verify", folder, "-p", world.project)
    assert expected in caught.value.got
    assert caught.value.got.count(";") == 0


def test_a_manifest_that_was_cut_short_or_altered_is_none(world: World, tmp_path: Path) -> None:
    folder = build(world, tmp_path / "bundle")
    path = folder / "manifest.json"
    data = path.read_bytes()
    path.write_bytes(data[:-10])
    with pytest.raises(DriftError, match="cut short or altered: it is not JSON"):
        provision("--verify", folder)
    path.write_bytes(data.replace(b'"format": 1', b'"format": 9'))
    with pytest.raises(InputError, match="a format of another provision"):
        provision("--verify", folder)
    path.write_bytes(data.replace(b'"lock.yml"', b'"../lock.yml"'))
    with pytest.raises(DriftError, match="not as provision writes it"):
        provision("--verify", folder)
    path.unlink()
    with pytest.raises(InputError, match="the folder is no bundle"):
        provision("--verify", folder)


def test_a_bundle_of_another_lock_is_refused(world: World, tmp_path: Path) -> None:
    folder = build(world, tmp_path / "bundle")
    world.suites["bookworm"]["non-free"]["nvidia-smi"] = ("535.2-1", "libnvidia-ml1", "")
    world.publish()
    other = world.lock()
    with pytest.raises(InputError, match="the bundle is of another lock") as caught:
        provision("--verify", folder, "-p", world.project)
    assert other.digest in caught.value.expected
    # Without a project no lock is compared.
    assert provision("--verify", folder, "-p", tmp_path)[0] == 0


def test_the_signature_is_of_the_manifest_and_for_bundles(world: World, tmp_path: Path) -> None:
    for name in ("ada", "eve"):
        keys.key(tmp_path / name)
    allowed = keys.allowed(tmp_path / "allowed", ("ada@example.org", tmp_path / "ada"))
    folder = tmp_path / "bundle"
    given = ("--from", tmp_path / "cudnn.tgz", "-p", world.project)
    assert provision(folder, *given, "--key", tmp_path / "ada")[0] == 0
    code, out = provision("--verify", folder, "--allowed-signers", allowed)
    assert code == 0
    assert "signed by ada@example.org (ED25519 key" in out

    manifest = folder / "manifest.json"
    for key, purpose in (("eve", bundle.NAMESPACE), ("ada", "provision-evidence")):
        by_other = signing.sign(manifest.read_bytes(), tmp_path / key, purpose)
        (folder / "manifest.json.sig").write_bytes(by_other)
        with pytest.raises(DriftError, match="signature is"):
            provision("--verify", folder, "--allowed-signers", allowed)
    assert provision(folder, *given, "--key", tmp_path / "ada")[0] == 0
    manifest.write_bytes(manifest.read_bytes() + b"\n")
    with pytest.raises(DriftError, match="the signature is not good"):
        provision("--verify", folder, "--allowed-signers", allowed)


def test_a_key_that_is_not_there_is_known_before_anything_is_fetched(
    world: World, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="there is no such key") as caught:
        provision(tmp_path / "bundle", "-p", world.project, "--key", tmp_path / "none")
    assert "--unsigned" in caught.value.hint
    assert world.server.asked == []
    assert not (tmp_path / "bundle").exists()


@pytest.fixture
def delta(world: World, tmp_path: Path) -> Path:
    """A delta from one lock's bundle (old) to the next one's (whole)."""
    build(world, tmp_path / "old")
    world.suites["bookworm-security"]["main"]["openssl"] = ("3.0.18", "", "")
    world.publish("Sun, 22 Nov 2026 10:00:00 UTC")
    world.lock()
    build(world, tmp_path / "whole")
    return build(world, tmp_path / "delta", "--since", tmp_path / "old")


def test_a_delta_has_only_what_is_new_and_makes_the_whole(tmp_path: Path, delta: Path) -> None:
    names = {path.name for path in delta.rglob("*") if path.is_file()}
    assert "openssl_3.0.18_amd64.deb" in names
    assert {name for name in names if name.endswith(".deb")} == {"openssl_3.0.18_amd64.deb"}
    assert not {name for name in names if name.endswith(".whl")}
    code, out = provision("--verify", delta, "-p", tmp_path)
    assert code == 0
    assert "of them are not here" in out
    assert provision("--verify", delta, "--since", tmp_path / "old", "-p", tmp_path)[0] == 0

    assert provision("--apply", delta, tmp_path / "old")[0] == 0
    assert contents(tmp_path / "old") == contents(tmp_path / "whole")
    assert provision("--apply", delta, tmp_path / "old")[0] == 0
    assert contents(tmp_path / "old") == contents(tmp_path / "whole")


def test_an_apply_that_was_cut_off_is_ended_by_the_same_command(
    tmp_path: Path, delta: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every file, before and after the manifest."""
    begun = tmp_path / "begun"
    steps = {name: getattr(bundle.delta, name) for name in ("copy", "put", "clean")}
    for limit in range(20):
        shutil.rmtree(begun, ignore_errors=True)
        shutil.copytree(tmp_path / "old", begun)
        left = [limit]

        def breaking(step: str, *given: Any, left: list[int] = left, **named: Any) -> None:
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
            steps[step](*given, **named)

        for name in steps:
            monkeypatch.setattr(bundle.delta, name, functools.partial(breaking, name))
        with contextlib.suppress(SystemExit, KeyboardInterrupt):
            CliRunner().invoke(cli.app, ["bundle", "--apply", str(delta), str(begun)])
        for name, step in steps.items():
            monkeypatch.setattr(bundle.delta, name, step)
        provision("--apply", delta, begun)
        assert contents(begun) == contents(tmp_path / "whole")
        if left[0]:
            return
    pytest.fail("it never came to its end")


def test_a_delta_is_refused_where_it_does_not_belong(
    world: World, tmp_path: Path, delta: Path
) -> None:
    with pytest.raises(InputError, match="the delta is for another bundle"):
        provision(
            "--verify",
            delta,
            "--since",
            build(world, tmp_path / "third", "--package", "nginx"),
            "-p",
            tmp_path,
        )
    with pytest.raises(InputError, match="the delta is for another bundle"):
        provision("--apply", delta, tmp_path / "third")
    with pytest.raises(InputError, match="a whole bundle, and no delta"):
        provision("--apply", tmp_path / "third", tmp_path / "old")
    before = contents(tmp_path / "old")
    cut_short(tmp_path / "old")
    harmed = contents(tmp_path / "old")
    with pytest.raises(DriftError, match="together lack something") as caught:
        provision("--apply", delta, tmp_path / "old")
    assert "cut short" in caught.value.got
    assert contents(tmp_path / "old") == harmed != before


def test_json_is_for_programs(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    given = ("--from", tmp_path / "cudnn.tgz", "-p", world.project, "--unsigned", "--json")
    answer = json.loads(provision(folder, *given)[1])
    assert answer["digest"] == bundle.digest((folder / "manifest.json").read_bytes())
    assert answer["files"] == answer["written"] == len(contents(folder)) - 1
    assert answer["lock"] == worlds.made_lock(world).digest
    checked = json.loads(provision("--verify", folder, "-p", world.project, "--json")[1])
    assert checked["files"] == answer["files"]
    assert checked["signer"] is None


def test_it_does_one_thing_at_a_time(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="and only one of them"):
        provision(tmp_path / "bundle", "--verify", tmp_path / "other")
    with pytest.raises(InputError, match="--identity needs --allowed-signers"):
        provision("--verify", tmp_path, "--identity", "ada")
    (tmp_path / "file").touch()
    for name, got in (("nowhere", ""), ("file", "a file")):
        with pytest.raises(InputError, match="there is no such bundle") as caught:
            provision("--verify", tmp_path / name)
        assert caught.value.got == got


def test_a_signed_delta_brings_its_signature(world: World, tmp_path: Path) -> None:
    keys.key(tmp_path / "ada")
    allowed = keys.allowed(tmp_path / "allowed", ("ada@example.org", tmp_path / "ada"))
    given = ("--from", tmp_path / "cudnn.tgz", "-p", world.project, "--key", tmp_path / "ada")
    provision(tmp_path / "old", *given)
    provision(tmp_path / "delta", *given, "--package", "nginx", "--since", tmp_path / "old")
    by_ada = ("--allowed-signers", allowed)
    assert provision("--apply", tmp_path / "delta", tmp_path / "old", *by_ada)[0] == 0
    code, out = provision("--verify", tmp_path / "old", "-p", world.project, *by_ada)
    assert code == 0
    assert "signed by ada@example.org" in out
