"""The resolver chooses one consistent stack, says why, and explains what it cannot have."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from provision.catalog import CATALOG_FILES, load, parse
from provision.catalog.consistency import IDENTITY
from provision.catalog.gpus import gpu, ids
from provision.errors import InputError, UnsatisfiableError
from provision.inventory import Fleet, Words, parse_wish
from provision.inventory import parse as parse_export
from provision.models import Gpu
from provision.resolve import Solver, Stack, resolve, resolve_fleet
from provision.resolve.demands import demands
from provision.resolve.refusal import refusal as refusal_of
from provision.resolve.rules import RULES
from tests.unit.generator.recorded import choices

CATALOG = load()
PLATFORMS = {row.id: row for row in CATALOG.platforms}
PLATFORM = PLATFORMS["debian11"]
SOLVER, OTHER = Solver(CATALOG), Solver(CATALOG)
REFUSALS = Path(__file__).parent / "refusals.txt"
TESTED = Path(__file__).parents[1] / "data" / "tensorflow_tested.yml"


def stack_of(wish: Mapping[str, object], platform: str = "debian11", *gpus: str) -> Stack:
    words = tuple(gpu(word) for word in gpus)
    parsed = parse_wish(wish, where="x")
    if platform == "":
        solution = SOLVER.find(parsed, None, words)
        if solution is None:
            raise refusal_of(SOLVER, parsed, None, words)
        return solution
    return resolve(CATALOG, PLATFORMS[platform], parsed, words)


@pytest.mark.parametrize(
    "wish",
    [
        {"tensorflow": "2.9"},
        {"tensorflow": "2.9.3"},
        {"cuda": "11.2"},
        {"driver_branch": "470"},
        {"tensorflow": "2.9", "cuda": "11.2.2", "python": "3.9", "driver_branch": "470"},
        {"tensorflow": "2.9", "cudnn": "8.1.0.77", "cuda_source": "distribution", "gcc": "10"},
    ],
)
def test_many_ways_to_say_the_same(wish: dict[str, object]) -> None:
    stack = stack_of(wish)
    assert stack.id == "debian11-tensorflow2.9.3-cuda11.2.2-cudnn8.1.0.77-driver470.256.02"
    assert stack.missing == ""
    assert [r.component for r in stack.reasons] == [
        "nvidia_driver",
        "cuda",
        "cudnn",
        "gpu_env",
        "tensorflow",
    ]


def test_a_patch_is_taken_as_it_is() -> None:
    assert stack_of({"tensorflow": "2.9.1"}).tensorflow == "2.9.1"


@pytest.mark.parametrize(
    ("wish", "platform", "stack"),
    [
        ("2.14", "debian12", "tensorflow2.14.1-cuda11.8.0-cudnn8.7.0.84-driver535.309.01"),
        ("2.20", "debian13", "tensorflow2.20.0-cudawheels12.5.82-cudnn9.3.0.75-driver550.163.01"),
        ("2.14", "debian11", "tensorflow2.14.1-cudawheels11.8.89-cudnn8.7.0.84-driver470.256.02"),
    ],
)
def test_other_platforms_have_what_they_have(wish: str, platform: str, stack: str) -> None:
    chosen = stack_of({"tensorflow": wish}, platform)
    assert (chosen.id, chosen.missing) == (f"{platform}-{stack}", "")


def test_the_newest_tensorflow_of_a_platform_where_2_9_cannot_be() -> None:
    assert stack_of({"python": "3.13"}, "debian13").tensorflow == "2.21.0"


def test_wheels_of_a_range_are_held_to_what_was_tested() -> None:
    """TensorFlow 2.20 asks for a cuDNN from 9.3 on; the newest is of another CUDA."""
    constraints = stack_of({"tensorflow": "2.20"}, "debian13").constraints
    assert "nvidia-cudnn-cu12==9.3.0.75" in constraints
    assert "nvidia-cuda-runtime-cu12==12.5.82" in constraints


@pytest.mark.parametrize(
    "row", yaml.safe_load(TESTED.read_text("utf-8"))["tested"], ids=lambda row: row["version"]
)
def test_every_tested_configuration_resolves(row: dict[str, str]) -> None:
    """Each row of TensorFlow's published table, to those very CUDA and cuDNN versions."""
    release = row["version"].removeprefix("tensorflow-").rsplit(".", 1)[0]
    found = []
    for platform in CATALOG.platforms:
        stack = SOLVER.find(parse_wish({"tensorflow": release}, where="x"), platform)
        if stack is not None and stack.cuda.release == row["cuda"]:
            found.append(stack)
    assert found
    for stack in found:
        assert Version(stack.tensorflow).release[:2] == Version(release).release
        assert stack.cudnn.version.startswith(row["cudnn"] + ".")


# refusals

REFUSED: list[tuple[str, dict[str, object], tuple[str, ...]]] = [
    ("debian12", {"tensorflow": "2.9"}, ()),
    ("debian13", {"tensorflow": "2.9"}, ()),
    ("ubuntu2404", {"tensorflow": "2.9"}, ()),
    ("debian12", {"tensorflow": "2.9", "driver_branch": "535"}, ("Tesla K80",)),
    ("debian11", {"tensorflow": "2.9", "driver_branch": "535"}, ("Tesla K80",)),
    ("ubuntu2204", {"tensorflow": "2.9", "cuda": "11.2", "cuda_source": "network"}, ()),
    ("debian11", {"tensorflow": "2.9"}, ("B200",)),
    ("debian11", {"tensorflow": "2.9"}, ("H100",)),
    ("ubuntu2004", {"tensorflow": "2.9", "cuda": "11.2", "gcc": "11"}, ()),
    ("ubuntu2204", {"tensorflow": "2.9", "cuda": "11.2", "cuda_source": "local", "gcc": "11"}, ()),
    ("debian11", {"tensorflow": "2.9", "gcc": "11"}, ()),
    ("", {"cuda": "11.2", "gcc": "11"}, ()),
    ("debian12", {"cuda": "11.8", "gcc": "12"}, ()),
    ("debian11", {"tensorflow": "2.16"}, ()),
    ("debian11", {"tensorflow": "2.9", "cuda": "12.2"}, ()),
    ("debian11", {"tensorflow": "2.9", "cudnn": "8.0.5.39"}, ()),
    ("debian11", {"tensorflow": "2.9", "cudnn": "9.3.0"}, ()),
    (
        "debian11",
        {"tensorflow": "2.9", "cudnn": {"version": "8.5.0.96", "cuda": "10.2", "sha256": "a" * 64}},
        (),
    ),
    ("debian11", {"tensorflow": "2.9.7"}, ()),
    ("debian11", {"tensorflow": "3.0"}, ()),
    ("debian11", {"tensorflow": "2.9", "python": "3.11"}, ()),
    ("debian11", {"tensorflow": "2.9", "python": "3.99"}, ()),
    ("debian11", {"tensorflow": "2.9", "driver_branch": "580"}, ()),
    ("debian13", {"tensorflow": "2.20"}, ("Tesla K80",)),
    ("debian12", {"tensorflow": "2.14"}, ("Tesla T4", "B200")),
    ("debian12", {"tensorflow": "2.9", "cuda_source": "wheels"}, ()),
    ("debian12", {"tensorflow": "2.14", "cuda_source": "wheels"}, ()),
    ("ubuntu2204", {"tensorflow": "2.9", "cuda": "11.2"}, ()),
    ("debian11", {"tensorflow": "2.9", "driver_source": "network"}, ()),
    (
        "ubuntu2004",
        {"tensorflow": "2.9", "driver_source": "network", "driver_branch": "580"},
        (),
    ),
    ("ubuntu2004", {"tensorflow": "2.9", "driver_source": "network"}, ("B200",)),
    ("ubuntu2004", {"tensorflow": "2.9", "cuda": "12.2", "driver_branch": "470.256.02"}, ()),
    ("debian11", {"driver_source": "runfile", "cuda_source": "distribution"}, ()),
    ("ubuntu2004", {"driver_branch": "999.10"}, ()),
]


def refusal(platform: str, wish: Mapping[str, object], gpus: tuple[str, ...]) -> UnsatisfiableError:
    with pytest.raises(UnsatisfiableError) as caught:
        stack_of(wish, platform, *gpus)
    return caught.value


def test_refusals_read_as_recorded() -> None:
    """What a lab admin reads; PROVISION_UPDATE_GOLDEN=1 writes it anew, to be read again."""
    refusals = []
    for platform, wish, gpus in REFUSED:
        on = f"{platform}{''.join(f', {gpu}' for gpu in gpus)}"
        refusals.append(f"# {wish} on {on}\n{refusal(platform, wish, gpus)}\n")
    text = "\n".join(refusals)
    if os.environ.get("PROVISION_UPDATE_GOLDEN"):
        REFUSALS.write_text(text, "utf-8")
    assert text == REFUSALS.read_text("utf-8")


@pytest.mark.parametrize(("platform", "wish", "gpus"), REFUSED)
def test_a_refusal_is_whole(
    platform: str, wish: Mapping[str, object], gpus: tuple[str, ...]
) -> None:
    error = refusal(platform, wish, gpus)
    assert error.exit_code == 3
    assert error.message
    assert error.got
    assert error.expected
    assert error.hint
    minimal(wish, platform, gpus)


def minimal(wish: Mapping[str, object], platform: str, gpus: tuple[str, ...]) -> None:
    """The clash that is told cannot be had, and without any one of it the rest can."""
    parsed, words = parse_wish(wish, where="x"), tuple(gpu(word) for word in gpus)
    problem = SOLVER.problem(parsed, words)
    clash = problem.clash(demands(parsed, PLATFORMS.get(platform), words))
    assert problem.solve(clash) is None
    for demand in clash:
        assert problem.solve([other for other in clash if other is not demand]) is not None


def test_what_is_offered_instead_can_be_had() -> None:
    offered = 0
    for platform, wish, gpus in REFUSED:
        for offer in str(refusal(platform, wish, gpus).expected).split(" or gpu_stack: "):
            offer = offer.partition(" (known, ")[0]
            literal, on, title = offer.removeprefix("gpu_stack: ").rpartition(" on ")
            if not on:
                continue
            other = next(row for row in CATALOG.platforms if row.title == title)
            stack_of(yaml.safe_load(literal), other.id, *gpus)
            offered += 1
    assert offered > len(REFUSED)


def test_two_groups_of_one_host_may_not_wish_for_different_drivers() -> None:
    """Ansible would take the last one silently."""
    wishes = {"old": {"driver_branch": "470"}, "new": {"driver_branch": "535"}}
    export = {
        "_meta": {"hostvars": {"gpu07": {}}},
        **{
            name: {"hosts": ["gpu07"], "vars": {"gpu_stack": {"tensorflow": "2.9", **more}}}
            for name, more in wishes.items()
        },
    }
    with pytest.raises(InputError) as caught:
        parse_export(export, Words({}, ()))
    text = str(caught.value)
    assert "two groups of host gpu07 wish for different stacks" in text
    assert '"driver_branch": "470"' in text
    assert '"driver_branch": "535"' in text
    assert "take gpu07 out of one of them" in text


def test_the_refusal_names_the_hosts() -> None:
    wish = parse_wish({"tensorflow": "2.99"}, where="x")
    with pytest.raises(UnsatisfiableError) as caught:
        resolve_fleet(CATALOG, Fleet({f"gpu0{n}": wish for n in range(5)}))
    assert caught.value.where == "gpu_stack of gpu00, gpu01, gpu02 and 2 more"


def test_what_is_known_and_cannot_be_installed_yet_is_said_so() -> None:
    wish = parse_wish({"tensorflow": "2.6", "python": "3.9"}, where="x")
    with pytest.raises(
        UnsatisfiableError, match=r"this version can't install .* from source"
    ) as caught:
        resolve_fleet(CATALOG, Fleet({"a": wish}))
    assert 'tensorflow: "2.7"' in caught.value.expected
    assert "Debian 11" in caught.value.hint


# NVIDIA's own

DRIVERS = {"distribution": "driver", "network": "drivernetwork", "runfile": "driverrunfile"}


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("cuda", ["network", "local"])
def test_ubuntu_has_2_9_by_every_way(driver: str, cuda: str) -> None:
    wish = {"tensorflow": "2.9", "cuda_source": cuda, "driver_source": driver}
    stack = stack_of({**wish, "driver_branch": "470"}, "ubuntu2004")
    assert stack.id.startswith(f"ubuntu2004-tensorflow2.9.3-cuda{cuda}11.2.2-cudnn8.1.0.77-")
    assert f"-{DRIVERS[driver]}470." in stack.id
    assert (stack.missing, stack.native) == ("", False)
    assert stack.cuda.prefix == "/usr/local/cuda-11.2"


def test_nvidias_driver_is_taken_only_where_it_is_wished_for() -> None:
    for platform in PLATFORMS:
        for wish in ({"python": PLATFORMS[platform].pythons[0]}, {"driver_branch": "470"}):
            solution = SOLVER.find(parse_wish(wish, where="x"), PLATFORMS[platform])
            assert solution is None or solution.driver.origin == "distribution"


@pytest.mark.parametrize("source", ["distribution", "network", "runfile"])
def test_a_driver_can_be_an_exact_version(source: str) -> None:
    wish = {"tensorflow": "2.9", "driver_source": source, "driver_branch": "470.199.02"}
    assert stack_of(wish, "ubuntu2004").driver.version == "470.199.02"
    assert stack_of({**wish, "driver_branch": "470"}, "ubuntu2004").driver.branch == "470"


def test_debian_has_only_the_exact_versions_that_the_catalog_has() -> None:
    exact = stack_of({"tensorflow": "2.9", "driver_branch": "470.256.02"})
    assert exact.id == "debian11-tensorflow2.9.3-cuda11.2.2-cudnn8.1.0.77-driver470.256.02"
    error = refusal("debian11", {"tensorflow": "2.9", "driver_branch": "470.199.02"}, ())
    assert "Debian 11 (bullseye) has driver 470.256.02" in error.got


def test_debians_cuda_is_not_put_beside_nvidias_driver() -> None:
    """Its toolkit depends on Debian's libcuda1."""
    wish = {"tensorflow": "2.9", "driver_source": "runfile"}
    assert stack_of(wish).cuda.origin == "network"
    error = refusal("debian11", {**wish, "cuda_source": "distribution"}, ())
    assert "the platform's own CUDA depends on the platform's own driver" in error.got


def test_a_branch_that_a_gpu_cannot_have_is_reported_with_its_last_one() -> None:
    """It said that there is no branch 590, and offered 595, which no Pascal can have."""
    error = refusal("ubuntu2204", {"tensorflow": "2.9", "driver_branch": "590"}, ("GTX 1080",))
    assert error.message == "driver branch 590 does not drive GTX 1080"
    assert "580 is the last for Pascal" in error.got
    assert error.expected == '"580" or "470"'
    error = refusal("ubuntu2204", {"tensorflow": "2.9", "driver_branch": "470"}, ("L4",))
    assert "525 is the first for Ada" in error.got


def test_a_branch_without_packages_is_reported_with_those_that_have_them() -> None:
    error = refusal("ubuntu2204", {"tensorflow": "2.9", "driver_branch": "590"}, ())
    assert error.message == "no platform has packages of driver branch 590"
    assert error.expected == '"595" or "580" or "570"'


def test_production_branches_come_before_new_features() -> None:
    """Ubuntu's default was 615, which NVIDIA supports only until its next branch."""
    assert stack_of({"tensorflow": "2.20"}, "ubuntu2404").driver.branch == "595"
    assert stack_of({"driver_branch": "615"}, "ubuntu2404").driver.branch == "615"
    assert stack_of({"driver_source": "network"}, "ubuntu2404").driver.branch == "580"


@pytest.mark.parametrize("word", ["L4", "H100"])
def test_nvidias_own_driver_is_offered_where_it_alone_serves(word: str) -> None:
    """They were sent from Debian 11 to an Ubuntu at its end."""
    error = refusal("debian11", {"tensorflow": "2.9"}, (word,))
    first = error.expected.split(" or ")[0]
    assert first == (
        'gpu_stack: {tensorflow: "2.9", driver_source: runfile} on Debian 11 (bullseye)'
    )


def test_what_an_archive_has_is_not_denied() -> None:
    """ "Ubuntu 22.04 has no CUDA of its own": multiverse has 11.5."""
    wish = {"tensorflow": "2.9", "cuda_source": "distribution"}
    assert "has CUDA 11.5 of its own, which this version" in refusal("ubuntu2204", wish, ()).got


def test_a_release_that_cannot_be_installed_is_not_offered() -> None:
    """ "1.15" was answered with 2.4."""
    assert '"2.7"' in refusal("debian11", {"tensorflow": "1.15"}, ()).expected
    assert '"2.4"' not in refusal("debian11", {"tensorflow": "1.15"}, ()).expected


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ("2", "2.21.0 is the newest of 2 that fits"),
        ("2.20", "2.20.0 is the newest patch of 2.20"),
        ("2.20.0", "2.20.0 was wished"),
    ],
)
def test_the_reason_for_a_tensorflow_is_what_was_wished(wish: str, words: str) -> None:
    text = {r.component: r.text for r in stack_of({"tensorflow": wish}, "debian13").reasons}
    assert text["tensorflow"].startswith(words)


# warnings


def test_a_gpu_newer_than_the_code_is_a_warning() -> None:
    (warning,) = stack_of({"tensorflow": "2.14"}, "debian12", "H100 80GB HBM3").warnings
    assert "no machine code for it, only PTX" in warning
    assert stack_of({"tensorflow": "2.14"}, "debian12", "Tesla T4").warnings == ()


@pytest.mark.parametrize("word", ["B200", "GeForce RTX 5090"])
@pytest.mark.parametrize(("wish", "platform"), [("2.21", "ubuntu2404"), ("2.9", "ubuntu2004")])
def test_a_gpu_that_no_wheel_has_code_for_is_refused(wish: str, platform: str, word: str) -> None:
    """They resolved; on the host the first operation ended with CUDA_ERROR_INVALID_PTX."""
    error = refusal(platform, {"tensorflow": wish, "driver_source": "runfile"}, (word,))
    assert "PTX of" in error.got
    assert "not known to work on GPUs newer than 9.0" in error.got


def test_a_merely_compatible_cuda_is_a_warning() -> None:
    stack = stack_of({"tensorflow": "2.9"}, "ubuntu2204")
    assert Version(stack.cuda.release) > Version("11.2")
    (warning,) = stack.warnings
    assert "was tested with CUDA 11.2, not with" in warning


# the fleet


def test_equal_wishes_are_one_row() -> None:
    wish = parse_wish({"tensorflow": "2.9"}, where="x")
    other = parse_wish({"tensorflow": "2.9.3"}, where="x")
    fleet = Fleet({"a": wish, "b": other, "c": wish})
    assert [c.wish.tensorflow for c in resolve_fleet(CATALOG, fleet)] == ["2.9", "2.9.3"]


def test_the_recorded_choice_is_the_default() -> None:
    assert [c.stack.tensorflow for c in choices()] == ["2.9.3"]


# properties

WISHES = st.fixed_dictionaries(
    {},
    optional={
        key: st.sampled_from(values)
        for key, values in {
            "tensorflow": ["2.4", "2.9", "2.9.0", "2.12", "2.14", "2.16", "2.20", "2.99", "1.15"],
            "python": ["3.8", "3.9", "3.11", "3.13", "3.7", "3.99"],
            "cuda": ["11.2", "11.2.2", "11.8", "12.5", "10.0"],
            "cuda_source": ["distribution", "network", "local", "wheels"],
            "driver_branch": ["470", "535", "550", "999", "470.199.02", "470.256.02"],
            "driver_source": ["distribution", "network", "runfile"],
            "cudnn": ["8.1.0.77", "8.9.7.29", "7.6.5"],
            "gcc": ["9", "10", "11", "14", "99"],
        }.items()
    },
).filter(bool)
GPUS = st.lists(
    st.sampled_from(["Tesla K80", "Tesla T4", "Tesla V100-PCIE-16GB", "A10", "H100 PCIe", "B200"]),
    max_size=2,
    unique=True,
)


@given(WISHES, st.sampled_from(sorted(PLATFORMS)), GPUS)
def test_a_stack_satisfies_every_rule_or_the_clash_is_minimal(
    wish: dict[str, Any], platform: str, names: list[str]
) -> None:
    gpus = tuple(gpu(name) for name in names)
    try:
        stack = stack_of(wish, platform, *names)
    except UnsatisfiableError:
        minimal(wish, platform, tuple(names))
        return
    holds(stack, gpus)
    for key, value in wish.items():
        had = {
            "tensorflow": stack.tensorflow,
            "python": stack.python,
            "cuda": stack.cuda.version,
            "cuda_source": stack.cuda.origin,
            "driver_branch": stack.driver.version,
            "driver_source": stack.driver.origin,
            "cudnn": stack.cudnn.version,
            "gcc": stack.gcc,
        }[key]
        assert had == value or had.startswith(f"{value}.")
    # Asked again, by another and in another order of the words: the same.
    backwards = dict(reversed(wish.items()))
    again = OTHER.find(parse_wish(backwards, where="x"), PLATFORMS[platform], gpus)
    assert again is not None
    assert again.id == stack.id


def holds(stack: Stack, gpus: tuple[Gpu, ...]) -> None:
    """Every constraint of the catalog, in words of its own where that is short."""
    row = next(r for r in CATALOG.tensorflow if stack.tensorflow in r.patches)
    assert stack.python in row.pythons
    assert stack.python in stack.platform.pythons
    assert stack.driver.platform == stack.platform.id
    driver = Version(stack.driver.version)
    assert driver >= Version(row.driver_minimum)
    assert driver >= Version(stack.cuda.driver_minimum)
    assert stack.cuda.platform in ("", stack.platform.id)
    if stack.cuda.release != row.cuda:
        needed = {name for name in row.sonames if not name.startswith("libcudnn")}
        assert stack.cuda.facts is not None
        assert needed <= set(stack.cuda.facts.sonames)
    assert Version(stack.cudnn.version) >= Version(row.cudnn_minimum)
    assert Version(stack.cudnn.version).major == Version(row.cudnn_minimum).major
    if stack.gcc and stack.cuda.facts is not None:
        assert int(stack.gcc) <= int(stack.cuda.facts.gcc_maximum)
        assert stack.gcc in stack.platform.gccs
    for asked in gpus:
        branch = int(stack.driver.branch)
        assert branch >= int(asked.driver_first)
        assert asked.driver_last is None or branch <= int(asked.driver_last)
        assert asked.cuda_last is None or Version(stack.cuda.release) <= Version(asked.cuda_last)


@given(st.lists(WISHES, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_the_order_of_hosts_changes_nothing(wishes: list[dict[str, Any]], shuffler: Any) -> None:
    hosts = {f"gpu{n}": parse_wish(wish, where="x") for n, wish in enumerate(wishes)}
    names = list(hosts)
    shuffler.shuffle(names)

    def outcome(order: list[str]) -> Any:
        try:
            choices = resolve_fleet(CATALOG, Fleet({name: hosts[name] for name in order}))
        except UnsatisfiableError:
            return "refused"
        return sorted((str(dict(c.wish.literal)), c.stack.id) for c in choices)

    assert outcome(list(hosts)) == outcome(names)


def test_rules_have_names_of_their_own() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)


# the catalog


def test_every_row_of_the_catalog_has_a_source() -> None:
    for part in IDENTITY:
        rows = CATALOG.rows(part)
        assert rows
        assert all("http" in row.source for row in rows)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("cuda:\n- {platform: debian11}\n", "catalog: "),
        ("[]", "catalog/cuda.yml"),
    ],
)
def test_a_broken_row_is_named(text: str, where: str) -> None:
    with pytest.raises(InputError) as caught:
        parse({"cuda": text})
    assert caught.value.where.startswith(where)


def test_the_files_are_those_that_ship() -> None:
    folder = Path(__file__).parents[3] / "provision" / "catalog"
    files = (path.relative_to(folder).with_suffix("") for path in folder.rglob("*.yml"))
    assert {file.as_posix() for file in files} == set(CATALOG_FILES)


@pytest.mark.parametrize(
    ("generation", "capability", "words"),
    [
        ("Fermi", "2.0", ["GeForce GTX 480"]),
        ("Kepler", "3.7", ["0x102D"]),
        ("Turing", "7.5", ["Tesla T4", "NVIDIA Tesla T4", "10de:1eb8", "Quadro RTX 8000"]),
        ("Ampere", "8.0", ["A100"]),
        ("Hopper", "9.0", ["NVIDIA GH200 480GB"]),
    ],
)
def test_a_gpu_by_name_or_number(generation: str, capability: str, words: list[str]) -> None:
    for word in words:
        row = gpu(word)
        assert (row.generation, row.capability) == (generation, capability), word


def test_one_device_id_can_be_two_products() -> None:
    """A Quadro RTX 8000 has the id of a Quadro RTX 6000, and was unknown."""
    assert ids("Quadro RTX 8000") == ("1e30", "1e78")
    assert ids("GH200 480GB") == ("2342",)


@pytest.mark.parametrize("word", ["GeForce GTX 750 Ti", "GTX 750 Ti"])
def test_a_name_of_different_gpus_is_reported_with_every_id(word: str) -> None:
    """The desktop card (1380) was not among them."""
    with pytest.raises(InputError, match="the name of different GPUs") as caught:
        gpu(word)
    for text in ("10de:11c7", "10de:1380", "10de:139d"):
        assert text in caught.value.expected


def test_fermi_is_refused_by_name() -> None:
    """It was "newer than this catalog", and with its GPUs left out the host got driver 470."""
    error = refusal("debian11", {"tensorflow": "2.9"}, ("GTX 480",))
    assert "GTX 480 (compute capability 2.0) has code in CUDA up to 8.0" in error.got


@pytest.mark.parametrize("platform", ["", "debian12"])
def test_a_superchip_gets_no_stack_of_another_architecture(platform: str) -> None:
    """A GH200's host is aarch64; not asked yet, it was offered stacks of x86_64."""
    error = refusal(platform, {"tensorflow": "2.16"}, ("GH200 480GB",))
    assert "GH200 480GB is in hosts of aarch64" in error.got


@pytest.mark.parametrize(
    ("word", "expected"), [("Tesla T5", "Tesla T4"), ("zzz", "lspci"), ("10de:ffff", "lspci")]
)
def test_an_unknown_gpu_has_a_near_one(word: str, expected: str) -> None:
    with pytest.raises(InputError, match="no NVIDIA GPU") as caught:
        gpu(word, where="gpu07")
    assert expected in caught.value.expected
    assert caught.value.where == "gpu07"


def test_the_platforms_own_python_comes_before_its_other_one() -> None:
    """Ubuntu 20.04 is made of 3.8 and has 3.9 in universe."""
    own = stack_of({"tensorflow": "2.9"}, "ubuntu2004")
    assert own.python == "3.8"
    assert stack_of({"tensorflow": "2.9", "python": "3.9"}, "ubuntu2004").python == "3.9"
    other = stack_of({"tensorflow": "2.14"}, "ubuntu2004")
    assert other.python == "3.9"
    assert any("other one and has wheels" in reason.text for reason in other.reasons)
