"""What is locked stays while it is to be had; what may move is said, and moves alone."""

from __future__ import annotations

import dataclasses
import hashlib
import random
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provision import lock as locks
from provision.catalog import Catalog, load
from provision.errors import InputError, MachineError, UnsatisfiableError
from provision.inventory import Fleet, parse_wish
from provision.lock import Lock, keep, update
from provision.lock.keep import Upgrade
from provision.models import HostFacts
from provision.upstream.packages import Indices, Package
from tests.unit.generator import recorded

KEEP = Upgrade()
ALL = Upgrade(everything=True)
DEBIAN12 = {"tensorflow": "2.12"}
BUILD = "+deb11u9"
OLD, NEW = "535.261.03", "535.309.01"


def only(*names: str) -> Upgrade:
    return Upgrade(names=frozenset(names))


def fleet(**wishes: Any) -> Fleet:
    wishes = wishes or {"gpu01": {"tensorflow": "2.9"}}
    return Fleet({host: parse_wish(wish, where="lab") for host, wish in wishes.items()})


def notes(made: update.Result) -> tuple[str, ...]:
    """All but that nobody knows what the hosts of these tests are."""
    return tuple(note for note in made.notes if "`provision discover`" not in note)


class Upstream:
    """The indices of all platforms and of wheels, as the test leaves them."""

    def __init__(self) -> None:
        self.packages = {name: recorded.packages(name) for name in recorded.PARTS}
        self.date = "Sat, 09 Aug 2025 09:16:30 UTC"
        self.url = "http://deb.debian.org/debian"
        self.wheels: dict[str, list[str]] = {"numpy": ["1.26.4"], "protobuf": ["3.19.6"]}
        self.gone: list[str] = []
        self.asked: list[dict[str, Any]] = []

    def read(self, platform: Any, _keys: Any, *, gone: Any = None, **_k: Any) -> Indices:
        indices = recorded.indices(self.packages[platform.id], platform.id)
        suites = [a for a in platform.archives if a.suite in self.gone]
        if suites and gone is None:
            raise AssertionError("the real one raises")
        if suites:
            gone += suites
        source = dataclasses.replace(indices.sources[0], date=self.date, url=self.url)
        return dataclasses.replace(indices, sources=(source,))

    def requirements(
        self, wanted: Sequence[str], constraints: Sequence[str], *, prefer: Any = None, **_k: Any
    ) -> str:
        """As uv: the preferred version where there is one, else the newest."""
        self.asked.append({"wanted": wanted, "constraints": constraints, "prefer": prefer})
        pins = [c for c in constraints if c.startswith(("numpy==", "protobuf=="))]
        for pin in pins:
            name, _, version = pin.partition("==")
            if version not in self.wheels[name]:
                raise UnsatisfiableError("the index has no set of wheels that fits", got=pin)
        text = ""
        versions = {**{n: v[-1] for n, v in self.wheels.items()}}
        for name, version in versions.items():
            was = (prefer or {}).get(name)
            chosen = was if was in self.wheels[name] else version
            digest = hashlib.sha256(f"{name}{chosen}".encode()).hexdigest()
            text += f"{name}=={chosen} \\\n    --hash=sha256:{digest}\n"
        return text + f"{wanted[0]} \\\n    --hash=sha256:{3:064x}\n"

    def has_wheel(self, name: str, version: str, **_k: Any) -> bool:
        return version in self.wheels.get(name, [version])

    def add(self, name: str, version: str, platform: str = "debian11") -> Package:
        """A newer version of a package, with the dependencies of the newest that is locked."""
        old = max((p for p in self.packages[platform] if p.name == name), key=lambda p: p.size)
        new = dataclasses.replace(old, version=version, sha256="e" * 64)
        self.packages[platform].append(new)
        return new

    def rebuild(self, source: str) -> None:
        """A newer build of a whole source, whose packages ask for just each other."""
        old = [p for p in self.packages["debian11"] if p.source == source]
        names = {p.name for p in old}

        def newer(relation: tuple[str, str, str]) -> tuple[str, str, str]:
            name, operator, version = relation
            return (name, operator, version + BUILD if name in names else version)

        for package in old:
            depends = tuple(
                tuple(newer(r) if r[1] == "=" else r for r in group) for group in package.depends
            )
            self.packages["debian11"].append(
                dataclasses.replace(
                    package, version=package.version + BUILD, sha256="e" * 64, depends=depends
                )
            )

    def drop(self, platform: str, **fields: str) -> None:
        self.packages[platform] = [
            p
            for p in self.packages[platform]
            if not all(str(getattr(p, k)).startswith(v) for k, v in fields.items())
        ]


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch) -> Upstream:
    made = Upstream()
    for name in ("debian.read", "wheels.requirements", "wheels.has_wheel"):
        monkeypatch.setattr(f"provision.upstream.{name}", getattr(made, name.split(".")[1]))
    return made


def make(
    before: Lock | None = None, upgrade: Upgrade = KEEP, facts: Catalog | None = None, **more: Any
) -> update.Result:
    return update.make(facts or load(), {}, more.pop("fleet", fleet()), before, upgrade, **more)


def lock(*arguments: Any, **more: Any) -> Lock:
    made = make(*arguments, **more).lock
    assert made is not None
    return made


def drivers(*versions: str) -> Catalog:
    """The catalog with only these drivers for Debian 12."""
    facts = load()
    rows = [d for d in facts.drivers if d.platform != "debian12" or d.version in versions]
    return facts.model_copy(update={"drivers": rows})


def driver(made: Lock) -> str:
    (part,) = {p["nvidia_driver"]["version"] for n, p in made.stacks.items() if "debian12" in n}
    return str(part)


def version(made: Lock, package: str) -> str:
    (found,) = {p[package]["version"] for p in made.details["packages"].values() if package in p}
    return str(found)


def patches(*versions: str, release: str = "2.9") -> Catalog:
    """The catalog with these patches of a TensorFlow."""
    facts = load()
    rows = [
        row.model_copy(update={"patches": list(versions)}) if row.release == release else row
        for row in facts.tensorflow
    ]
    return facts.model_copy(update={"tensorflow": rows})


# bytes


def test_a_second_lock_is_the_same_bytes(upstream: Upstream) -> None:
    first = lock()
    assert locks.dump(lock(first)) == locks.dump(first)
    assert locks.dump(lock(first, ALL)) == locks.dump(first)


def test_the_sources_alone_move_where_they_are_asked_for(upstream: Upstream) -> None:
    """A bundle takes the indices that the lock names: of a lock that is old, the present ones."""
    first = lock()
    upstream.date = "Sun, 10 Aug 2025 09:16:30 UTC"
    moved = lock(first, keep.upgrade_of(["sources"], True, first))
    assert [source["date"] for (source,) in moved.details["sources"].values()] == [upstream.date]
    assert moved.stacks == first.stacks
    assert moved.details["packages"] == first.details["packages"]


def test_an_index_with_another_date_alone_is_no_change(upstream: Upstream) -> None:
    first = lock()
    upstream.date = "Sun, 10 Aug 2025 09:16:30 UTC"
    assert locks.dump(lock(first)) == locks.dump(first)
    assert locks.dump(lock(first, ALL)) == locks.dump(first)
    upstream.url = "http://archive.debian.org/debian"
    (sources,) = lock(first).details["sources"].values()
    assert sources[0]["url"] == upstream.url


def test_a_package_is_one_line_and_nothing_is_broken(upstream: Upstream) -> None:
    first = lock()
    upstream.add("nvidia-persistenced", "470.103.01-2~deb11u2")
    lines = [set(locks.dump(each).decode().splitlines()) for each in (first, lock(first, ALL))]
    moved = sorted(line.strip().split(":")[0] for line in lines[1] - lines[0])
    assert moved == ["digest", "nvidia-persistenced", "nvidia-persistenced"]
    (whole,) = [li for li in lines[1] if "sha256: " + "e" * 64 in li]
    assert whole.startswith("      nvidia-persistenced: {version: 470.103.01-2~deb11u2, ")
    assert whole.endswith(", source: bullseye/contrib}")


# packages


def test_a_newer_package_does_not_move_the_lock(upstream: Upstream) -> None:
    first = lock()
    upstream.add("nvidia-persistenced", "470.103.01-2~deb11u2")
    made = make(first)
    assert made.lock is not None
    assert locks.dump(made.lock) == locks.dump(first)
    assert notes(made) == (
        "kept: nvidia-persistenced 470.103.01-2~deb11u1 (there is 470.103.01-2~deb11u2); "
        "`provision lock --upgrade` moves them",
    )
    assert notes(make(first, ALL)) == ()
    assert version(lock(first, ALL), "nvidia-persistenced") == "470.103.01-2~deb11u2"
    assert version(lock(), "nvidia-persistenced") == "470.103.01-2~deb11u2"


def test_a_newest_that_fits_nothing_is_no_error_while_the_locked_stays(upstream: Upstream) -> None:
    first = lock()
    new = upstream.add("nvidia-persistenced", "470.103.01-2~deb11u2")
    upstream.packages["debian11"][-1] = dataclasses.replace(
        new, depends=((("libnvidia-cfg1", ">=", "999"),),)
    )
    made = make(first)
    assert made.lock is not None
    assert locks.dump(made.lock) == locks.dump(first)


@settings(max_examples=5, deadline=None)
@given(st.randoms(use_true_random=False))
def test_what_stays_does_not_depend_on_the_order_of_an_index(order: random.Random) -> None:
    upstream = Upstream()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("debian.read", "wheels.requirements", "wheels.has_wheel"):
            patch.setattr(f"provision.upstream.{name}", getattr(upstream, name.split(".")[1]))
        first = lock()
        upstream.add("nvidia-persistenced", "470.103.01-2~deb11u2")
        order.shuffle(upstream.packages["debian11"])
        assert locks.dump(lock(first)) == locks.dump(first)


def test_an_upgrade_of_one_component_moves_that_alone(upstream: Upstream) -> None:
    first = lock()
    upstream.add("nvidia-persistenced", "470.103.01-2~deb11u2")
    upstream.rebuild("nvidia-cuda-toolkit")
    upstream.wheels["numpy"].append("1.26.5")
    made = lock(first, only("nvidia_driver"))
    assert version(made, "nvidia-persistenced") == "470.103.01-2~deb11u2"
    assert version(made, "libcufft10") == version(first, "libcufft10")
    assert made.requirements == first.requirements
    made = lock(first, only("cuda"))
    assert version(made, "libcufft10") == version(first, "libcufft10") + BUILD
    assert version(made, "nvidia-persistenced") == version(first, "nvidia-persistenced")


def test_an_upgrade_of_a_package_moves_it_and_its_source(upstream: Upstream) -> None:
    first = lock()
    upstream.add("nvidia-persistenced", "470.103.01-2~deb11u2")
    upstream.rebuild("nvidia-cuda-toolkit")
    made = lock(first, only("libcufft10"))
    for name in ("libcufft10", "libcurand10"):  # one source
        assert version(made, name) == version(first, name) + BUILD
    assert version(made, "nvidia-persistenced") == version(first, "nvidia-persistenced")


def test_a_new_host_with_another_wish_moves_no_one_else(upstream: Upstream) -> None:
    first = lock()
    upstream.add("nvidia-persistenced", "470.103.01-2~deb11u2")
    both = fleet(gpu01={"tensorflow": "2.9"}, gpu02={"tensorflow": "2.8"})
    made = lock(first, fleet=both)
    name = first.slim["rows"][0]["stack"]
    assert made.stacks[name] == first.stacks[name]
    assert made.details["packages"][name] == first.details["packages"][name]
    (other,) = [n for n in made.stacks if n != name]
    assert made.details["packages"][other]["nvidia-persistenced"]["version"].endswith("deb11u2")


def test_versions_that_no_longer_fit_each_other_move_together(upstream: Upstream) -> None:
    """Half of a source has left the index: the rest of it can't stay behind."""
    first = lock()
    upstream.rebuild("nvidia-cuda-toolkit")
    upstream.add("nvidia-persistenced", "470.103.01-2~deb11u2")
    upstream.packages["debian11"] = [
        p
        for p in upstream.packages["debian11"]
        if p.name != "libcublaslt11" or p.version.endswith(BUILD)
    ]
    made = lock(first)
    for name in ("libcublaslt11", "libcublas11"):
        assert version(made, name) == version(first, name) + BUILD
    assert version(made, "nvidia-persistenced") == version(first, "nvidia-persistenced")


def test_other_content_under_a_version_is_never_taken(upstream: Upstream) -> None:
    first = lock()
    upstream.packages["debian11"] = [
        dataclasses.replace(p, sha256="f" * 64) if p.name == "libcufft10" else p
        for p in upstream.packages["debian11"]
    ]
    for upgrade in (KEEP, ALL, only("tensorflow")):
        with pytest.raises(InputError, match="other content under the same version") as caught:
            make(first, upgrade)
        assert "libcufft10 11.1.1+~10.4.1.152" in caught.value.where
        assert caught.value.got == f"SHA-256 {'f' * 64}"
        locked = next(iter(first.details["packages"].values()))["libcufft10"]["sha256"]
        assert caught.value.expected == f"SHA-256 {locked}"


# choices


def test_a_newer_driver_in_the_catalog_does_not_move_the_lock(upstream: Upstream) -> None:
    first = lock(fleet=fleet(gpu01=DEBIAN12), facts=drivers(OLD))
    assert driver(first) == OLD
    made = make(first, fleet=fleet(gpu01=DEBIAN12))
    assert made.lock is not None
    assert locks.dump(made.lock) == locks.dump(first)
    assert [n for n in made.notes if "nvidia_driver" in n] == [
        f"Debian 12 (bookworm): nvidia_driver stays at {OLD}; "
        f"`provision lock --upgrade nvidia_driver` moves it to {NEW}"
    ]
    moved = make(first, only("nvidia_driver"), fleet=fleet(gpu01=DEBIAN12))
    assert moved.lock is not None
    assert driver(moved.lock) == NEW
    assert notes(moved) == ()


def test_a_driver_that_left_the_catalog_stays_while_an_index_has_it(upstream: Upstream) -> None:
    first = lock(fleet=fleet(gpu01=DEBIAN12), facts=drivers(OLD))
    assert driver(lock(first, fleet=fleet(gpu01=DEBIAN12), facts=drivers(NEW))) == OLD


def test_a_branch_that_is_preferred_now_does_not_move_the_lock(upstream: Upstream) -> None:
    facts = drivers(OLD)
    first = lock(fleet=fleet(gpu01=DEBIAN12), facts=facts)
    (row,) = [d for d in facts.drivers if d.version == OLD]
    other = row.model_copy(update={"branch": "550", "version": "550.54.15"})
    more = facts.model_copy(update={"drivers": [other, *facts.drivers]})
    made = make(first, fleet=fleet(gpu01=DEBIAN12), facts=more)
    assert made.lock is not None
    assert driver(made.lock) == OLD
    assert any(f"stays at {OLD}" in note for note in made.notes)


def test_a_driver_that_left_every_index_is_the_next_of_its_branch(upstream: Upstream) -> None:
    """The security suite has moved on, and the catalog does not know to what."""
    first = lock(fleet=fleet(gpu01=DEBIAN12))
    assert driver(first) == NEW
    upstream.drop("debian12", version=NEW)
    made = make(first, fleet=fleet(gpu01=DEBIAN12))
    assert made.lock is not None
    assert driver(made.lock) == OLD
    note = f"driver {NEW} has left the archive, {OLD} is the next of branch 535"
    assert f"Debian 12 (bookworm): {note}" in made.notes
    (name,) = [n for n in made.lock.stacks if "debian12" in n]
    assert made.lock.details["reasons"][name]["nvidia_driver"].endswith(note)
    assert any(f"libcuda1 {NEW}" in line for line in made.gone)
    # And from then on it stays.
    assert locks.dump(lock(made.lock, fleet=fleet(gpu01=DEBIAN12))) == locks.dump(made.lock)


def test_a_locked_driver_that_is_gone_moves_to_the_newest(upstream: Upstream) -> None:
    first = lock(fleet=fleet(gpu01=DEBIAN12), facts=drivers(OLD))
    upstream.drop("debian12", version=OLD)
    made = make(first, fleet=fleet(gpu01=DEBIAN12))
    assert made.lock is not None
    assert driver(made.lock) == NEW
    assert f"Debian 12 (bookworm): the archive has no driver {OLD} any more" in made.notes


def test_without_another_of_the_branch_the_error_says_what_there_is(upstream: Upstream) -> None:
    upstream.drop("debian11", source="nvidia-graphics-drivers", version="470")
    with pytest.raises(UnsatisfiableError, match=r"branch 470\.256\.02"):
        make()


def test_a_fallback_is_never_older_than_cuda_needs(upstream: Upstream) -> None:
    facts = drivers(OLD, NEW)
    rows = [
        c.model_copy(update={"driver_minimum": "535.300"}) if c.platform == "debian12" else c
        for c in facts.cuda
    ]
    upstream.drop("debian12", version=NEW)
    with pytest.raises(UnsatisfiableError, match=NEW):
        make(fleet=fleet(gpu01=DEBIAN12), facts=facts.model_copy(update={"cuda": rows}))


def test_a_newer_patch_in_the_catalog_does_not_move_the_lock(upstream: Upstream) -> None:
    first = lock(facts=patches("2.9.2", "2.9.1"))
    made = make(first, facts=patches("2.9.3", "2.9.2"))
    assert made.lock is not None
    assert locks.dump(made.lock) == locks.dump(first)
    assert notes(made) == (
        "Debian 11 (bullseye): tensorflow stays at 2.9.2; "
        "`provision lock --upgrade tensorflow` moves it to 2.9.3",
    )
    moved = lock(first, only("tensorflow"), facts=patches("2.9.3", "2.9.2"))
    assert [s["tensorflow"]["version"] for s in moved.stacks.values()] == ["2.9.3"]


def test_a_patch_that_left_the_catalog_gives_way(upstream: Upstream) -> None:
    first = lock(facts=patches("2.9.2"))
    made = lock(first, facts=patches("2.9.3"))
    assert [s["tensorflow"]["version"] for s in made.stacks.values()] == ["2.9.3"]


# beside each other


def test_a_stack_beside_another_stays_too(upstream: Upstream) -> None:
    both = fleet(gpu01={"tensorflow": "2.9", "beside": [{"tensorflow": "2.8"}]})
    facts = patches("2.8.3", release="2.8")
    first = lock(fleet=both, facts=facts)
    assert {s["tensorflow"]["version"] for s in first.stacks.values()} == {"2.9.3", "2.8.3"}
    upstream.add("nvidia-persistenced", "470.103.01-2~deb11u2")
    upstream.wheels["numpy"].append("1.26.5")
    made = make(first, fleet=both)
    assert made.lock is not None
    assert locks.dump(made.lock) == locks.dump(first)
    assert any("tensorflow stays at 2.8.3" in note for note in made.notes)
    moved = lock(first, ALL, fleet=both)
    assert {s["tensorflow"]["version"] for s in moved.stacks.values()} == {"2.9.3", "2.8.4"}
    for text in moved.requirements.values():
        assert locks.wheels(text)["numpy"] == "1.26.5"


def test_an_older_patch_stays_with_another_release_beside_it(upstream: Upstream) -> None:
    both = fleet(gpu01={"tensorflow": "2.9", "beside": [{"tensorflow": "2.8"}]})
    first = lock(fleet=both, facts=patches("2.9.2"))
    assert locks.dump(lock(first, fleet=both)) == locks.dump(first)


def test_all_beside_each_other_get_the_driver_that_is_left(upstream: Upstream) -> None:
    both = fleet(gpu01={"tensorflow": "2.12", "beside": [{"tensorflow": "2.13"}]})
    upstream.drop("debian12", version=NEW)
    assert driver(lock(fleet=both)) == OLD


# GPUs of several generations


def test_a_row_of_its_generations_stays(upstream: Upstream) -> None:
    """A K80 is driven by 470 at most, a T4 by a newer one too; each keeps what it has."""
    k80, t4 = HostFacts("debian11", ("Tesla K80",)), HostFacts("debian11", ("Tesla T4",))
    both = dataclasses.replace(
        fleet(gpu01={"tensorflow": "2.9"}, gpu02={"tensorflow": "2.9"}),
        facts={"gpu01": k80, "gpu02": t4},
    )
    facts = load()
    (row,) = [d for d in facts.drivers if d.platform == "debian11"]
    (newer,) = [d for d in facts.drivers if d.platform == "debian12" and d.version == OLD]
    more = [*facts.drivers, newer.model_copy(update={"platform": "debian11"})]
    facts = facts.model_copy(update={"drivers": more})
    upstream.packages["debian11"] += [
        p for p in upstream.packages["debian12"] if not p.source.startswith("nvidia-cuda")
    ]
    first = lock(fleet=both, facts=facts)
    rows = [(r["generations"], r["stack"].rpartition("driver")[2]) for r in first.slim["rows"]]
    assert sorted(rows) == [(["Kepler"], row.version), (["Turing"], OLD)]
    newest = newer.model_copy(update={"platform": "debian11", "version": NEW})
    more = [*facts.drivers, newest]
    made = make(first, fleet=both, facts=facts.model_copy(update={"drivers": more}))
    assert made.lock is not None
    assert locks.dump(made.lock) == locks.dump(first)
    assert any(f"stays at {OLD}" in note for note in made.notes)


# wheels


def test_a_newer_wheel_does_not_move_the_lock(upstream: Upstream) -> None:
    first = lock()
    upstream.wheels["numpy"].append("1.26.5")
    upstream.wheels["protobuf"].append("3.19.7")
    assert locks.dump(lock(first)) == locks.dump(first)
    (text,) = lock(first, only("numpy")).requirements.values()
    assert locks.wheels(text) == {"numpy": "1.26.5", "protobuf": "3.19.6", "tensorflow": "2.9.3"}
    (text,) = lock(first, only("tensorflow")).requirements.values()
    assert locks.wheels(text)["protobuf"] == "3.19.7"


def test_a_wheel_that_the_index_lost_moves_and_is_named(upstream: Upstream) -> None:
    first = lock()
    upstream.wheels["numpy"] = ["1.26.5"]
    made = make(first, check=True)
    assert made.lock is not None
    (text,) = made.lock.requirements.values()
    assert locks.wheels(text)["numpy"] == "1.26.5"
    (line,) = (line for line in made.gone if "numpy 1.26.4" in line)
    assert "`provision lock --upgrade numpy` moves it" in line
    moved = make(first, only("numpy"))
    assert moved.gone == ()
    assert moved.lock is not None
    assert moved.lock.requirements == made.lock.requirements


def test_wheels_of_what_has_not_changed_are_not_asked_for_again(upstream: Upstream) -> None:
    """An unchanged lock of 200 wishes took as long as a new one, 45 minutes."""
    first = lock()
    upstream.asked.clear()
    assert locks.dump(lock(first)) == locks.dump(first)
    assert upstream.asked == []
    lock(first, check=True)
    assert len(upstream.asked) == 1
    upstream.asked.clear()
    more = fleet(gpu01={"tensorflow": "2.9"}, gpu02={"tensorflow": "2.9", "packages": ["pandas"]})
    lock(first, fleet=more)
    assert [asked["wanted"][1:] for asked in upstream.asked] == [("pandas",)]


@pytest.mark.parametrize(
    "bound", ["numpy<1.26", "protobuf==3.19.7", "numpy>=1; python_version>'3'"]
)
def test_wheels_that_the_catalog_bounds_otherwise_now_are_asked_for(
    upstream: Upstream, bound: str
) -> None:
    """The bounds of a new version of provision count for what is locked, too."""
    first = lock()
    upstream.asked.clear()
    upstream.wheels["protobuf"].append("3.19.7")
    facts = load()
    rows = [
        row.model_copy(update={"constraints": [bound]}) if row.release == "2.9" else row
        for row in facts.tensorflow
    ]
    lock(first, facts=facts.model_copy(update={"tensorflow": rows}))
    assert len(upstream.asked) == 1


def test_one_question_is_asked_once_and_several_at_once(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits until another one is asked: one after the other they would wait for ever."""
    both = threading.Barrier(2, timeout=60)
    answer = upstream.requirements

    def together(*arguments: Any, **more: Any) -> str:
        both.wait()
        return answer(*arguments, **more)

    monkeypatch.setattr("provision.upstream.wheels.requirements", together)
    pandas = {"tensorflow": "2.9", "packages": ["pandas"]}
    wishes = {
        "gpu01": {"tensorflow": "2.9"},
        "gpu02": {"tensorflow": "2.9", "driver_branch": "470"},
        "gpu03": pandas,
    }
    lock(fleet=fleet(**wishes))
    assert len(upstream.asked) == 2


def test_the_first_error_ends_all_questions(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*_a: Any, **_k: Any) -> str:
        upstream.asked.append({})
        raise MachineError("uv could not lock the wheels")

    monkeypatch.setattr("provision.upstream.wheels.requirements", down)
    monkeypatch.setattr("provision.lock.requirements.AT_ONCE", 1)
    many = {f"gpu{n}": {"tensorflow": "2.9", "packages": [f"x{n}"]} for n in range(9)}
    with pytest.raises(MachineError, match="could not lock"):
        lock(fleet=fleet(**many))
    assert len(upstream.asked) < 9


def requirement(*hashes: str, version: str = "1") -> str:
    parts = "".join(f" \\\n    --hash=sha256:{digest * 64}" for digest in hashes)
    return f"numpy=={version}{parts}\n"


def held(text: str) -> keep.Held:
    return keep.Held({}, {}, text, {})


@pytest.mark.parametrize(
    ("old", "new", "kept_text"),
    [
        (requirement("a"), requirement("a", "b"), requirement("a")),  # a file for a new Python
        (requirement("a", "b"), requirement("b"), requirement("b")),  # a file was taken back
        (requirement("a"), requirement("b", version="2"), requirement("b", version="2")),
        ("", requirement("b"), requirement("b")),
    ],
)
def test_hashes_of_a_version_stay(old: str, new: str, kept_text: str) -> None:
    assert keep.same_hashes(new, held(old), where="here") == kept_text


@pytest.mark.parametrize("new", [requirement("b"), requirement("b", "c")])
def test_another_file_under_a_version_is_never_taken(new: str) -> None:
    with pytest.raises(InputError, match="other content under the same version") as caught:
        keep.same_hashes(new, held(requirement("a", "c")), where="here")
    assert "numpy==1" in caught.value.where
    assert "a" * 64 in caught.value.expected
    assert "b" * 64 in caught.value.got


# what upstream has no longer


def test_a_check_names_each_package_that_is_gone(upstream: Upstream) -> None:
    first = lock()
    upstream.drop("debian11", name="nvidia-persistenced")
    made = make(first, check=True)
    assert made.lock is None
    assert made.problem is not None
    (line,) = made.gone
    assert line.startswith(
        "Debian 11 (bullseye), bullseye/contrib: nvidia-persistenced 470.103.01-2~deb11u1 "
        "is in no index any more"
    )
    assert "mirrors" in line
    assert "snapshot.debian.org" in line
    with pytest.raises(UnsatisfiableError, match="nvidia-persistenced"):
        make(first)


def test_a_check_names_each_suite_that_is_gone(upstream: Upstream) -> None:
    first = lock()
    upstream.gone = ["bullseye"]
    made = make(first, check=True)
    assert made.lock is None
    (line,) = made.gone
    assert "the suite bullseye is gone from http://deb.debian.org/debian" in line
    assert "http://archive.debian.org/debian" in line
    assert "mirrors" in line


def test_a_check_with_nothing_gone_says_nothing(upstream: Upstream) -> None:
    assert make(lock(), check=True).gone == ()


# --upgrade's names


def test_names_are_those_of_the_lock(upstream: Upstream) -> None:
    first = lock()
    for word in ("nvidia_driver", "libcuda1", "numpy"):
        assert keep.upgrade_of([word], True, first).moves(word)
    assert keep.upgrade_of([], True, None).everything
    assert not keep.upgrade_of([], False, first).moves("cuda")


@pytest.mark.parametrize(
    ("words", "everything", "there", "message", "hint"),
    [
        (["numpi"], True, True, "has no component, package or wheel 'numpi'", "mean numpy?"),
        (["cuda"], False, True, "a name alone moves nothing", "provision lock --upgrade cuda"),
        (["cuda"], True, False, "there is no lock yet", "provision lock"),
    ],
)
def test_other_names_are_refused(
    upstream: Upstream, words: list[str], everything: bool, there: bool, message: str, hint: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        keep.upgrade_of(words, everything, lock() if there else None)
    assert hint in caught.value.hint
