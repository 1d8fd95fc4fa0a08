"""The closure keeps a driver branch that the newest index entries would leave."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provision.catalog import load
from provision.catalog.rows import CudaRow, DriverRow
from provision.errors import UnsatisfiableError
from provision.upstream.closure import Branch, Universe, close
from provision.upstream.packages import Package, compare, satisfies, upstream
from tests.unit.generator.recorded import packages

ROW = load().drivers[0]
BRANCH = Branch(ROW.version, frozenset(ROW.branch_sources))
ANY = Branch("999", frozenset())


def package(name: str, version: str = "1", depends: str = "", **more: object) -> Package:
    from provision.upstream.packages import _relations

    made = Package(name, version, name, "test/main", "0" * 64, 1, f"{name}.deb")
    return dataclasses.replace(made, depends=_relations(depends), **more)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("1.0~rc1", "1.0"),
        ("11.2.152~11.2.2-3+deb11u3", "11.2.152"),
        ("470.256.02-2", "535.309.01-0+deb11u1"),
        ("9", "10"),
        ("2:1", "10:0"),
        ("1.0-1", "1.0-1+b1"),
    ],
)
def test_versions_follow_debian_not_strings(left: str, right: str) -> None:
    assert compare(left, right) < 0 < compare(right, left)


VERSIONS = st.from_regex(r"[0-9][0-9a-z.~+]{0,6}(-[0-9a-z.~+]{1,4})?", fullmatch=True)


@given(VERSIONS, VERSIONS, VERSIONS)
def test_the_order_of_versions_is_an_order(a: str, b: str, c: str) -> None:
    assert (compare(a, b) > 0) == (compare(b, a) < 0)
    if compare(a, b) <= 0 and compare(b, c) <= 0:
        assert compare(a, c) <= 0


@given(VERSIONS, VERSIONS)
def test_operators_agree_with_the_order(a: str, b: str) -> None:
    assert satisfies(a, "<<", b) != satisfies(a, ">=", b)
    assert satisfies(a, ">>", b) != satisfies(a, "<=", b)
    assert satisfies(a, "=", b) == (satisfies(a, "<=", b) and satisfies(a, ">=", b))
    assert satisfies(a, "", "")


def test_the_whole_driver_stays_on_its_branch() -> None:
    """Security carries 535 under the same names; not one package of it may get in."""
    universe = Universe.of(packages())
    roots = [*ROW.userspace, *ROW.kernel, *ROW.desktop]
    chosen = close(universe, roots, BRANCH)
    assert {n: p.version for n, p in chosen.items() if p.version.startswith("535")} == {}
    graphics = {p.version for p in chosen.values() if p.source == "nvidia-graphics-drivers"}
    assert graphics == {"470.256.02-2"}
    assert chosen["nvidia-modprobe"].version == "470.182.03-1"
    assert chosen["nvidia-persistenced"].version == "470.103.01-2~deb11u1"


def test_without_a_branch_the_newest_would_win() -> None:
    """The test above can fail: the recorded indices do hold the other branch."""
    chosen = close(Universe.of(packages()), ["libcuda1"], ANY)
    assert chosen["libcuda1"].version == "535.309.01-0+deb11u1"


def test_userspace_is_what_apt_installs() -> None:
    """Checked against `apt-get install -s` in a Debian 11 container on 2026-11-21."""
    chosen = close(Universe.of(packages()), ROW.userspace, BRANCH)
    assert sorted(chosen) == [
        "glx-alternative-mesa",
        "glx-alternative-nvidia",
        "glx-diversions",
        "libcuda1",
        "libnvidia-cfg1",
        "libnvidia-ml1",
        "libnvidia-ptxjitcompiler1",
        "nvidia-alternative",
        "nvidia-installer-cleanup",
        "nvidia-legacy-check",
        "nvidia-persistenced",
        "nvidia-smi",
        "nvidia-support",
        "update-glx",
    ]


# The archive's own driver and CUDA of each release, and how many packages apt takes for them beside
# those of main (`apt-get -s install` against the whole archives, 2026-11-21).
ROWS = [
    (driver, cuda)
    for driver in load().drivers
    for cuda in load().cuda
    if driver.platform == cuda.platform and driver.platform in ("debian12", "debian13")
]
SETS = {
    "535.261.03": (15, 5, 13, 8, 35),
    "535.309.01": (15, 5, 13, 8, 35),
    "550.163.01": (15, 5, 14, 9, 37),
}


@pytest.mark.parametrize(("driver", "cuda"), ROWS, ids=lambda row: row.version)
def test_every_set_of_newer_debians_closes(driver: DriverRow, cuda: CudaRow) -> None:
    """As a lock closes them, one on top of the other; the driver's part stays on its version."""
    universe = Universe.of(packages(driver.platform))
    branch = Branch(driver.version, frozenset(driver.branch_sources))
    counts = []
    chosen: dict[str, Package] = {}
    for roots in (driver.userspace, driver.kernel, driver.desktop):
        more = close(universe, roots, branch, chosen)
        counts.append(len(more.keys() - chosen.keys()))
        chosen.update(more)
    graphics = [p for p in chosen.values() if p.source == "nvidia-graphics-drivers"]
    assert {(upstream(p.version), p.origin.split("/")[0]) for p in graphics} == {
        (driver.version, driver.suite)
    }
    assert chosen["firmware-nvidia-gsp"].origin == f"{driver.suite}/non-free-firmware"
    runtime = close(universe, cuda.runtime, branch, chosen)
    toolkit = close(universe, [*cuda.runtime, *cuda.toolkit], branch, {**chosen, **runtime})
    counts += [len(runtime.keys() - chosen.keys()), len(toolkit.keys() - chosen.keys())]
    assert tuple(counts) == SETS[driver.version]
    assert set(cuda.sonames.values()) <= set(runtime)


def test_a_helper_of_a_newer_branch_is_taken_where_the_release_has_no_other() -> None:
    """trixie has driver 550 and nvidia-modprobe 570: bound to the branch, nothing would be left."""
    universe = Universe.of(packages("debian13"))
    row = next(row for row in load().drivers if row.platform == "debian13")
    chosen = close(universe, row.kernel, Branch(row.version, frozenset(row.branch_sources)))
    assert chosen["nvidia-modprobe"].version == "570.133.07-1"
    bound = Branch(row.version, frozenset([*row.branch_sources, "nvidia-modprobe"]))
    with pytest.raises(UnsatisfiableError, match="nvidia-modprobe") as caught:
        close(universe, row.kernel, bound)
    assert caught.value.got == "nvidia-modprobe 570.133.07-1"


def test_the_order_of_the_index_plays_no_part() -> None:
    found = packages()
    forwards = close(Universe.of(found), ROW.userspace, BRANCH)
    assert close(Universe.of(reversed(found)), ROW.userspace, BRANCH) == forwards


def test_a_branch_that_left_the_archive_is_an_error_that_says_what_there_is() -> None:
    gone = [p for p in packages() if upstream(p.version) != "470.256.02"]
    with pytest.raises(UnsatisfiableError) as caught:
        close(Universe.of(gone), ROW.userspace, BRANCH)
    assert "nvidia-smi" in caught.value.message
    assert "535.309.01-0+deb11u1" in caught.value.got


def test_a_contradiction_inside_the_set_is_an_error() -> None:
    """a wants b 2, c wants b 1: nothing fulfils both."""
    packages = [
        package("a", depends="b (= 2)"),
        package("c", depends="b (= 1)"),
        package("b", "1"),
        package("b", "2"),
    ]
    for roots in itertools.permutations(["a", "c"]):
        with pytest.raises(UnsatisfiableError, match=r"needs b \(= [12]\)"):
            close(Universe.of(packages), roots, ANY)


def test_a_conflict_inside_the_set_is_an_error() -> None:
    packages = [package("a", conflicts=((("b", "", ""),),)), package("b")]
    with pytest.raises(UnsatisfiableError, match="a 1 conflicts with b 1"):
        close(Universe.of(packages), ["a", "b"], ANY)


def test_main_is_left_to_apt() -> None:
    """A name that the indices don't know belongs to main; a later alternative is not dragged in."""
    packages = [package("a", depends="libc6 (>= 2.3) | b, g++-10 | b"), package("b")]
    assert list(close(Universe.of(packages), ["a"], ANY)) == ["a"]


def test_an_alternative_that_is_already_there_is_enough() -> None:
    packages = [package("a", depends="b | c, c"), package("b"), package("c")]
    chosen = close(Universe.of(packages), ["c", "a"], ANY)
    assert list(chosen) == ["a", "c"]


def test_provided_names_count() -> None:
    packages = [
        package("a", depends="virtual (= 3)"),
        package("b", "9", provides=(("virtual", "=", "3"),)),
    ]
    assert list(close(Universe.of(packages), ["a"], ANY)) == ["a", "b"]
