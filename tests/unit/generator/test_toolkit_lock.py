"""The wish for NVIDIA's container toolkit: the version chosen, its packages and key in the lock."""

from __future__ import annotations

import gzip
import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from provision import lock as locks
from provision.catalog import Catalog, keys, load
from provision.errors import InputError, ProvisionError, UnsatisfiableError
from provision.inventory import Fleet, parse_wish
from provision.lock import Lock, update
from provision.lock.keep import Upgrade
from provision.models import HostFacts
from provision.render import stacks
from provision.resolve import Stack, resolve
from provision.upstream import debian, wheels
from provision.upstream.mirrors import Mirrors
from tests.unit.generator import recorded
from tests.unit.generator.signed_repository import Key, Server, served, stanza

KEEP = Upgrade()
NAMES = [
    "libnvidia-container-tools",
    "libnvidia-container1",
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
]
PLACE = "/libnvidia-container/stable/deb/amd64"
KEY = "/libnvidia-container/gpgkey"
NVIDIAS = "C95B321B61E88C1809C4F759DDCAE044F796ECB0"
DEBIAN = next(row for row in load().platforms if row.id == "debian11")


def packages(*versions: str) -> str:
    """An index as NVIDIA's: every version of each name, and names that nobody asked for."""
    text = "".join(
        stanza(name, version, f"libnvidia-container1 (= {version})")
        for name in [*NAMES, "libnvidia-container-dev"]
        for version in versions
    )
    return text + stanza("nvidia-docker2", "2.14.0-1", "nvidia-container-toolkit")


def signed(key: Key, text: str) -> dict[str, bytes]:
    """The repository's files as NVIDIA publishes them: SHA-512 alone, and a date of 2018."""
    files = {"Packages": text.encode(), "Packages.gz": gzip.compress(text.encode(), mtime=0)}
    release = "Codename: stable\nDate: Fri, 27 Apr 2018 21:29:25 +0000\nSHA512:\n"
    for name, data in files.items():
        release += f" {hashlib.sha512(data).hexdigest()} {len(data)} {name}\n"
    return {**files, "InRelease": key.inline(release.encode())}


@pytest.fixture(scope="session")
def key() -> Iterator[Key]:
    with tempfile.TemporaryDirectory(prefix="gpg", dir="/tmp") as name:  # a short path for gpg
        yield Key(Path(name) / "key")


@pytest.fixture
def server(key: Key) -> Iterator[Server]:
    with served() as found:
        found.add(PLACE, signed(key, packages("1.17.8-1", "1.20.0-1", "1.20.1-1")))
        found.files[KEY] = key.armored
        yield found


def with_key(fingerprint: str) -> Catalog:
    """The catalog, with a key of the test in place of NVIDIA's."""
    facts = load()
    rows = [
        row.model_copy(update={"signed_by": [fingerprint]})
        for row in facts.rows("nvidia_container_toolkit")
    ]
    return facts.model_copy(update={"own": {**facts.own, "nvidia_container_toolkit": rows}})


class Lab:
    """One host of Debian 11, whose own archive is as it was recorded."""

    def __init__(self, server: Server, key: Key) -> None:
        self.facts = with_key(key.fingerprint)
        self.mirrors = Mirrors(nvidia=server.url)
        self.notes: tuple[str, ...] = ()

    def lock(self, wish: Any = True, before: Lock | None = None, upgrade: Upgrade = KEEP) -> Lock:
        literal = {"tensorflow": "2.9"} | ({} if wish is None else {"container_toolkit": wish})
        fleet = Fleet(
            {"gpu01": parse_wish(literal, where="x")}, facts={"gpu01": HostFacts("debian11")}
        )
        made = update.make(self.facts, keys(), fleet, before, upgrade, mirrors=self.mirrors)
        assert made.lock is not None
        self.notes = made.notes
        return locks.parse(locks.dump(made.lock), where="lock.yml")


@pytest.fixture
def lab(server: Server, key: Key, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lab:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    archive = recorded.indices()
    monkeypatch.setattr(debian, "read", lambda *_a, **_k: archive)
    monkeypatch.setattr(wheels, "requirements", lambda *_a, **_k: recorded.REQUIREMENTS)
    return Lab(server, key)


def part(lock: Lock) -> Any:
    (stack,) = lock.stacks.values()
    return stack["nvidia_container_toolkit"]


# the wish


def stack(**wish: Any) -> Stack:
    return resolve(load(), DEBIAN, parse_wish({"tensorflow": "2.9", **wish}, where="x"))


def test_without_the_wish_there_is_none() -> None:
    chosen = stack()
    assert chosen.own == {}
    assert "toolkit" not in chosen.id
    assert "nvidia_container_toolkit" not in {reason.component for reason in chosen.reasons}


@pytest.mark.parametrize(
    ("wish", "version", "why"),
    [
        (True, "1.20.1", "1.20.1 is the newest known; "),
        ("1.17", "1.17.9", "1.17.9 is the newest known of 1.17; "),
        ("1.17.8", "1.17.8", "1.17.8 was wished; "),
    ],
)
def test_a_wish_is_one_exact_version(wish: Any, version: str, why: str) -> None:
    chosen = stack(container_toolkit=wish)
    assert chosen.own["container_toolkit"].version == version
    assert f"-toolkit{version}-driver470" in chosen.id
    (reason,) = [r for r in chosen.reasons if r.component == "nvidia_container_toolkit"]
    assert reason.text.startswith(why)
    # Nothing else of the stack is another one for it.
    assert chosen.cuda == stack().cuda
    assert chosen.driver == stack().driver


def test_a_version_that_never_was_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnsatisfiableError) as caught:
        stack(container_toolkit="1.17.99")
    assert caught.value.message == "no container toolkit 1.17.99 in the catalog"
    assert caught.value.got == 'container_toolkit: "1.17.99"'
    assert '"1.17.9"' in caught.value.expected


def test_another_architecture_has_none() -> None:
    (row,) = [row for row in load().rows("nvidia_container_toolkit") if row.versions]
    rows = [row.model_copy(update={"architecture": "aarch64"})]
    own = {**load().own, "nvidia_container_toolkit": rows}
    facts = load().model_copy(update={"own": own})
    with pytest.raises(UnsatisfiableError) as caught:
        resolve(facts, DEBIAN, parse_wish({"container_toolkit": True}, where="x"))
    assert caught.value.message == "container_toolkit: true can't be had"
    assert "versions of NVIDIA's container toolkit are known for aarch64" in caught.value.got


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (False, "wishes for nothing"),
        (1.2, "is a number"),
        ("newest", "is not a version"),
        ("{{ x }}", "template"),
    ],
)
def test_what_is_no_wish(value: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_wish({"tensorflow": "2.9", "container_toolkit": value}, where="group gpu")
    assert message in caught.value.message
    assert caught.value.where == "group gpu"


# the lock


def test_the_lock_holds_packages_repository_and_key(lab: Lab, server: Server, key: Key) -> None:
    made = lab.lock()
    (name,) = made.stacks
    locked = part(made)
    assert locked["version"] == "1.20.1"
    assert locked["packages"] == {"toolkit": dict.fromkeys(NAMES, "1.20.1-1")}
    repository = locked["repository"]
    assert repository["url"] == f"{server.url}{PLACE}"
    assert repository["fingerprints"] == [key.fingerprint]
    assert repository["key"].startswith("-----BEGIN PGP PUBLIC KEY BLOCK-----")
    details = made.details["packages"][name]
    digest = hashlib.sha256(b"libnvidia-container1 1.20.1-1").hexdigest()
    assert details["libnvidia-container1"]["sha256"] == digest
    assert {details[name]["source"] for name in NAMES} == {"nvidia-container-toolkit"}
    assert [source["url"] for source in made.details["sources"][name]][-1] == repository["url"]


def test_the_rendered_stack_has_the_roles_variables(lab: Lab) -> None:
    made = lab.lock("1.17.8")
    (name,) = made.stacks
    variables = yaml.safe_load(stacks.render(made)[f"stacks/{name}.yml"])
    assert variables["nvidia_container_toolkit_version"] == "1.17.8"
    assert variables["nvidia_container_toolkit_packages"] == dict.fromkeys(NAMES, "1.17.8-1")
    assert set(variables["nvidia_container_toolkit_checksums"]) == set(NAMES)
    assert variables["nvidia_container_toolkit_repository"]["suite"] == "/"


def test_without_the_wish_the_repository_is_not_asked(lab: Lab, server: Server) -> None:
    made = lab.lock(None)
    (stack_made,) = made.stacks.values()
    assert "nvidia_container_toolkit" not in stack_made
    assert [path for path, _ in server.asked if path.startswith("/libnvidia")] == []


def test_a_locked_version_stays_until_it_may_move(lab: Lab) -> None:
    facts = lab.facts
    rows = [
        row.model_copy(update={"versions": [v for v in row.versions if v != "1.20.1"]})
        for row in facts.rows("nvidia_container_toolkit")
    ]
    lab.facts = facts.model_copy(update={"own": {**facts.own, "nvidia_container_toolkit": rows}})
    made = lab.lock()
    assert part(made)["version"] == "1.20.0"
    lab.facts = facts
    assert lab.lock(before=made).digest == made.digest
    assert any("nvidia_container_toolkit stays at 1.20.0" in note for note in lab.notes)
    moved = lab.lock(before=made, upgrade=Upgrade(names=frozenset({"nvidia_container_toolkit"})))
    assert part(moved)["version"] == "1.20.1"


def test_a_mirror_without_the_version_is_named(lab: Lab, server: Server, key: Key) -> None:
    server.add(PLACE, signed(key, packages("1.17.8-1")))
    with pytest.raises(UnsatisfiableError, match=r"no \S+ of version 1\.20\.1") as caught:
        lab.lock()
    assert caught.value.got == "1.17.8-1"


def test_one_of_the_four_that_is_missing_is_named(lab: Lab, server: Server, key: Key) -> None:
    text = packages("1.20.1-1").replace("Package: libnvidia-container1\n", "Package: other\n")
    server.add(PLACE, signed(key, text))
    with pytest.raises(UnsatisfiableError, match="no libnvidia-container1 of version"):
        lab.lock()


# what is not believed


def refused(lab: Lab) -> ProvisionError:
    with pytest.raises(ProvisionError) as caught:
        lab.lock()
    return caught.value


def test_the_catalog_pins_nvidias_key() -> None:
    assert {tuple(row.signed_by) for row in load().rows("nvidia_container_toolkit")} == {(NVIDIAS,)}


def test_another_key_in_its_place_is_refused(lab: Lab, key: Key) -> None:
    lab.facts = load()
    error = refused(lab)
    assert "not NVIDIA's pinned key" in error.message
    assert (key.fingerprint in error.got, NVIDIAS in error.expected) == (True, True)


def test_an_index_that_was_changed_is_refused(lab: Lab, server: Server) -> None:
    server.files[f"{PLACE}/Packages.gz"] = gzip.compress(b"Package: evil\n\n")
    assert "not the index that was signed" in refused(lab).message


def test_a_mirror_that_signs_anew_needs_no_key_of_nvidias(
    lab: Lab, server: Server, key: Key
) -> None:
    del server.files[KEY]
    lab.facts = load()
    lab.mirrors = Mirrors(nvidia=server.url, nvidia_key=key.armored.decode())
    assert part(lab.lock())["repository"]["fingerprints"] == [key.fingerprint]
