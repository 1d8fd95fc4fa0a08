"""What a host is: declared in the inventory or discovered, it chooses its platform and its row."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from provision import lock as locks
from provision.catalog import gpus, load
from provision.errors import InputError, UnsatisfiableError
from provision.inventory import Fleet, Sources, Words, discover, parse, parse_wish
from provision.inventory.discover import Seen, SeenGpu, with_facts
from provision.models import HostFacts
from provision.resolve import Choice, explain, resolve_fleet
from provision.roles import PREFIXES, all_options
from tests.unit.generator import recorded

WORDS = Words(all_options(), PREFIXES)
CATALOG = load()
TF = {"tensorflow": "2.9"}
# On Debian 12 a Maxwell GPU gets an older TensorFlow than newer ones: 2.21 has no code for it.
FREE = {"python": "3.11"}
T4, A100 = SeenGpu("10de:1eb8", "Tesla T4", 4), SeenGpu("10de:20b0", "A100-SXM4-40GB", 1)


def fleet(
    groups: Mapping[str, Any],
    hostvars: Mapping[str, Any] | None = None,
    sources: Sources | None = None,
) -> Fleet:
    return parse({"_meta": {"hostvars": hostvars or {}}, **groups}, WORDS, sources)


def group(*hosts: str, **variables: Any) -> dict[str, Any]:
    return {"hosts": list(hosts), "vars": variables}


def known(**facts: HostFacts) -> Fleet:
    """Hosts that all wish for FREE."""
    wish = parse_wish(FREE, where="x")
    return Fleet(dict.fromkeys(facts, wish), facts=facts)


def on(platform: str | None, *words: str) -> HostFacts:
    return HostFacts(platform, words)


def rows(choices: list[Choice]) -> list[tuple[str, tuple[str, ...], str]]:
    return [(c.platform.id, c.generations, c.stack.tensorflow) for c in choices]


# the words


def test_a_group_says_what_its_hosts_are() -> None:
    parsed = fleet(
        {"gpu": group("a", gpu_stack=TF, gpu_platform="debian12", gpu_models=["Tesla T4"])}
    )
    assert parsed.facts["a"] == HostFacts("debian12", ("Tesla T4",), ("Tesla T4",))
    assert (parsed.facts["a"].platform_from, parsed.facts["a"].gpus_from) == ("gpu", "gpu")
    assert parsed.warnings == ()


def test_a_hosts_own_word_wins_and_can_take_back_its_groups() -> None:
    groups = {
        "gpu": group("a", "b", gpu_stack=TF, gpu_platform="debian12", gpu_models=["Tesla T4"])
    }
    parsed = fleet(
        groups, {"a": {"gpu_platform": "debian11"}, "b": {"gpu_platform": "", "gpu_models": []}}
    )
    assert parsed.facts["a"].platform == "debian11"
    assert parsed.facts["a"].models == ("Tesla T4",)
    assert "b" not in parsed.facts


def test_the_nearest_group_wins() -> None:
    groups = {
        "lab": {"children": ["gpu"], "vars": {"gpu_platform": "debian11"}},
        "gpu": group("a", gpu_stack=TF, gpu_platform="debian12"),
    }
    assert fleet(groups).facts["a"].platform == "debian12"


def test_two_unrelated_groups_that_differ_are_a_conflict() -> None:
    groups = {
        "one": group("a", gpu_stack=TF, gpu_models=["Tesla T4"]),
        "two": group("a", gpu_models=["A100"]),
    }
    with pytest.raises(InputError, match="two groups of host a differ in gpu_models") as caught:
        fleet(groups)
    assert 'one: ["Tesla T4"]; two: ["A100"]' in caught.value.got


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"gpu_platform": "debian-12"}, ["there is no such platform", "did you mean debian12?"]),
        ({"gpu_platform": 12}, ["gpu_platform: 12 is not a string"]),
        ({"gpu_platform": "{{ here }}"}, ["gpu_platform is a template; facts are literal"]),
        ({"gpu_models": "Tesla T4"}, ["gpu_models: 'Tesla T4' is not a list of str"]),
        ({"gpu_models": [2204]}, ["not a list of str"]),
        ({"gpu_models": ["{{ card }}"]}, ["gpu_models is a template"]),
        ({"gpu_models": ["Tesla T5"]}, ["no NVIDIA GPU 'Tesla T5' is known"]),
        ({"gpu_models": ["GeForce GTX 860M"]}, ["different GPUs", "Kepler", "Maxwell", "10de:"]),
        ({"gpu_model": ["Tesla T4"]}, ["no variable 'gpu_model'", "did you mean gpu_models?"]),
    ],
)
def test_a_bad_value_is_one_message_with_its_place(
    variables: dict[str, Any], words: list[str]
) -> None:
    (name,) = variables
    sources = Sources({"lab/group_vars/gpu.yml": f"---\ngpu_stack: {{}}\n{name}: something\n"})
    with pytest.raises(InputError) as caught:
        fleet({"gpu": group("a", gpu_stack=TF, **variables)}, sources=sources)
    assert caught.value.where == "lab/group_vars/gpu.yml:3"
    for word in words:
        assert word in str(caught.value)


def test_the_ids_of_a_word_are_those_of_its_cards() -> None:
    assert gpus.ids("Tesla T4") == ("1eb8",)
    assert gpus.ids("10de:1EB8") == ("1eb8",)
    names = {gpus.devices()[device][0] for device in gpus.ids("A100")}
    assert len(names) > 3
    assert all("A100" in name for name in names)


# declared and discovered


def test_what_was_seen_counts_where_nothing_is_declared() -> None:
    before = fleet({"gpu": group("a", "b", gpu_stack=TF)})
    parsed = with_facts(before, {"a": Seen("debian12", "debian 12 x86_64", (A100, T4))})
    assert parsed.facts["a"] == HostFacts("debian12", ("10de:20b0", "10de:1eb8"))
    assert parsed.facts["a"].platform_from == parsed.facts["a"].gpus_from == "discovered.yml"
    assert "b" not in parsed.facts


def test_what_is_declared_and_seen_may_agree() -> None:
    groups = {"gpu": group("a", gpu_stack=TF, gpu_platform="debian12", gpu_models=["T4", "A100"])}
    parsed = with_facts(fleet(groups), {"a": Seen("debian12", "debian 12 x86_64", (A100, T4))})
    assert parsed.facts["a"] == HostFacts("debian12", ("T4", "A100"), ("T4", "A100"))
    assert parsed.facts["a"].platform_from == parsed.facts["a"].gpus_from == "gpu"


@pytest.mark.parametrize(
    ("declared", "seen", "words"),
    [
        (
            {"gpu_platform": "debian11"},
            Seen("debian12", "debian 12 x86_64", ()),
            ["gpu_platform: debian11; discovered.yml: debian12 (debian 12 x86_64)"],
        ),
        (
            {"gpu_platform": "debian11"},
            Seen(None, "fedora 40 x86_64", ()),
            ["no platform of the catalog (fedora 40 x86_64)"],
        ),
        (
            {"gpu_models": ["Tesla T4"]},
            Seen("debian12", "debian 12 x86_64", (A100,)),
            ['gpu_models: ["Tesla T4"]; discovered.yml: 1 x A100-SXM4-40GB (10de:20b0)'],
        ),
        (
            {"gpu_models": ["Tesla T4"]},
            Seen("debian12", "debian 12 x86_64", (T4, A100)),
            ["4 x Tesla T4 (10de:1eb8), 1 x A100"],
        ),
        (
            {"gpu_models": ["Tesla T4", "A100"]},
            Seen("debian12", "debian 12 x86_64", (T4,)),
            ["discovered.yml: 4 x Tesla T4 (10de:1eb8)"],
        ),
        (
            {"gpu_models": ["Tesla T4"]},
            Seen("debian12", "debian 12 x86_64", ()),
            ["discovered.yml: no NVIDIA GPU"],
        ),
    ],
)
def test_a_difference_between_both_names_both_and_the_place(
    declared: dict[str, Any], seen: Seen, words: list[str]
) -> None:
    (name,) = declared
    sources = Sources({"lab/hosts.yml": f"gpu:\n  vars:\n    {name}: x\n"})
    before = fleet({"gpu": group("gpu07", gpu_stack=TF, **declared)}, sources=sources)
    with pytest.raises(InputError) as caught:
        with_facts(before, {"gpu07": seen})
    assert caught.value.where == "lab/hosts.yml:3"
    assert "gpu07" in caught.value.message
    assert "discover --limit gpu07" in caught.value.hint
    for word in words:
        assert word in caught.value.got


# resolving


def test_a_known_host_gets_its_own_platform_only() -> None:
    choices = resolve_fleet(CATALOG, known(a=on("debian12")))
    assert rows(choices) == [("debian12", (), "2.21.0")]


def test_an_unknown_host_still_gets_every_platform() -> None:
    unknown = resolve_fleet(CATALOG, known(a=on(None)))
    assert resolve_fleet(CATALOG, Fleet({"a": parse_wish(FREE, where="x")})) == unknown
    both = resolve_fleet(CATALOG, known(a=on("debian12"), b=on(None)))
    assert both == unknown


def test_a_refusal_is_for_the_platform_and_gpus_of_the_hosts_it_names() -> None:
    facts = {"good": on("debian12", "Tesla T4")}
    facts |= {f"bad{n}": on("debian12", "Tesla K80") for n in range(5)}
    with pytest.raises(UnsatisfiableError) as caught:
        resolve_fleet(CATALOG, known(**facts))
    assert caught.value.where == "gpu_stack of bad0, bad1, bad2 and 2 more"
    assert "Debian 12" in caught.value.message
    assert "Tesla K80 (Kepler)" in caught.value.message


def test_what_cannot_be_installed_on_a_known_platform_is_refused() -> None:
    wish = parse_wish({"tensorflow": "2.6"}, where="x")
    with pytest.raises(UnsatisfiableError, match="this version can't install") as caught:
        resolve_fleet(CATALOG, Fleet({"a": wish}, facts={"a": on("debian11")}))
    assert "from source" in caught.value.message
    assert "Debian 11" in caught.value.hint


def test_no_archive_is_asked_for_a_host_that_may_not_exist() -> None:
    """Of an unknown platform: rows for Debian, whose archive has all, and no others besides."""
    wish = parse_wish(TF, where="x")
    assert [c.platform.id for c in resolve_fleet(CATALOG, Fleet({"a": wish}))] == ["debian11"]
    known = Fleet({"a": wish}, facts={"a": on("ubuntu2004")})
    assert [c.platform.id for c in resolve_fleet(CATALOG, known)] == ["ubuntu2004"]
    only = parse_wish({"driver_branch": "580"}, where="x")
    platforms = [c.platform.id for c in resolve_fleet(CATALOG, Fleet({"a": only}))]
    assert platforms == ["ubuntu2204", "ubuntu2404"]


def test_a_system_that_the_catalog_lacks_is_refused() -> None:
    seen = {"a": Seen(None, "fedora 40 x86_64", ())}
    with pytest.raises(UnsatisfiableError, match="nothing is known of fedora 40 x86_64") as caught:
        resolve_fleet(CATALOG, with_facts(known(a=on(None)), seen))
    # A gpu_platform would be refused: the host has said what it is.
    assert caught.value.hint == "take these hosts out of the group"


def test_rows_are_per_generation_only_where_stacks_differ() -> None:
    choices = resolve_fleet(
        CATALOG, known(a=on("debian12", "Tesla M40"), b=on("debian12", "Tesla T4"))
    )
    assert rows(choices) == [
        ("debian12", ("Maxwell",), "2.16.2"),
        ("debian12", ("Turing",), "2.21.0"),
    ]
    choices = resolve_fleet(
        CATALOG, known(a=on("debian12", "Tesla V100-PCIE-16GB"), b=on("debian12", "Tesla T4"))
    )
    assert rows(choices) == [("debian12", (), "2.21.0")]
    # One row's reasons speak of all its GPUs.
    driver = choices[0].stack.reasons[0].text
    assert "Volta" in driver
    assert "Turing" in driver


def test_a_host_of_unknown_gpus_keeps_the_row_for_all() -> None:
    choices = resolve_fleet(CATALOG, known(a=on("debian12", "Tesla M40"), b=on("debian12")))
    assert rows(choices) == [("debian12", (), "2.21.0"), ("debian12", ("Maxwell",), "2.16.2")]


def test_what_stands_beside_must_serve_the_gpus_too() -> None:
    wish = parse_wish({"tensorflow": "2.14", "beside": [{"tensorflow": "2.18"}]}, where="x")
    (choice,) = resolve_fleet(CATALOG, Fleet({"a": wish}, facts={"a": on("debian12", "Tesla T4")}))
    assert [stack.tensorflow for stack in choice.beside] == ["2.18.1"]
    with pytest.raises(UnsatisfiableError, match="can't have these beside it"):
        resolve_fleet(CATALOG, Fleet({"a": wish}, facts={"a": on("debian12", "Tesla M40")}))


def test_mixed_gpus_of_one_host_get_what_serves_them_all() -> None:
    choices = resolve_fleet(
        CATALOG,
        known(a=on("debian12", "Tesla T4", "Tesla M40"), b=on("debian12", "Tesla T4")),
    )
    assert rows(choices) == [
        ("debian12", ("Maxwell", "Turing"), "2.16.2"),
        ("debian12", ("Turing",), "2.21.0"),
    ]


def test_the_order_of_hosts_and_gpus_changes_nothing() -> None:
    facts = {
        "a": on("debian12", "Tesla T4", "Tesla M40"),
        "b": on("debian12", "Tesla M40", "Tesla T4"),
        "c": on("debian12", "Tesla T4"),
        "d": on("debian12"),
    }
    fleet = resolve_fleet(CATALOG, known(**facts))
    other = resolve_fleet(CATALOG, known(**{name: facts[name] for name in reversed(facts)}))
    assert fleet == other


def test_ten_thousand_hosts_of_twelve_kinds_take_no_time() -> None:
    wishes = [parse_wish({"tensorflow": f"2.{n}"}, where="x") for n in (14, 15, 16)]
    cards = [
        SeenGpu(f"10de:{gpus.ids(word)[0]}", word, 8)
        for word in ("Tesla T4", "A100", "Tesla M40", "H100")
    ]
    hosts = {f"h{n}": wishes[n % 3] for n in range(10_000)}
    # Each host has objects of its own, as from a file.
    seen = {f"h{n}": Seen("debian12", "debian 12 x86_64", (cards[n % 4],)) for n in range(10_000)}
    resolve_fleet(CATALOG, Fleet({"a": wishes[0]}))  # what every program pays once
    started = time.process_time()
    joined = with_facts(Fleet(hosts), seen)
    choices = resolve_fleet(CATALOG, joined)
    spent = time.process_time() - started
    assert len([kind for _, kinds in joined.kinds() for kind in kinds]) == 12
    assert len(choices) >= 3
    assert spent < 1.0


def test_ten_thousand_hosts_that_declare_are_read_in_no_time() -> None:
    export = {
        f"g{number}": group(
            *[f"n{number}-{index}" for index in range(834)],
            gpu_stack=TF,
            gpu_platform="debian12",
            gpu_models=["Tesla T4"],
        )
        for number in range(12)
    }
    gpus.devices()
    started = time.process_time()
    parsed = fleet(export)
    spent = time.process_time() - started
    assert len(parsed.facts) == 10_008
    assert spent < 1.0


# the lock


def made(choices: list[Choice]) -> locks.Lock:
    return locks.make(
        choices,
        {c.platform.id: recorded.indices(platform=c.platform.id) for c in choices},
        {
            c.stack.id: (
                recorded.WHEELS if c.stack.cuda.origin == "wheels" else recorded.REQUIREMENTS
            )
            for c in choices
        },
    )


def test_a_lock_of_hosts_of_one_kind_is_the_one_of_before() -> None:
    before = recorded.lock({"tensorflow": "2.20"})
    fleet = Fleet(
        {"a": parse_wish({"tensorflow": "2.20"}, where="x")},
        facts={"a": on("debian13", "Tesla T4")},
    )
    after = made(resolve_fleet(CATALOG, fleet))
    assert [row for row in before.slim["rows"] if row["platform"]["release"] == "13"] == list(
        after.slim["rows"]
    )
    assert {"generations", "models"}.isdisjoint(after.slim["rows"][0])


def test_a_declared_gpu_stands_in_its_row_with_its_ids() -> None:
    fleet = Fleet(
        {"a": parse_wish({"tensorflow": "2.20"}, where="x")},
        facts={"a": HostFacts("debian13", ("Tesla T4",), ("Tesla T4",))},
    )
    (row,) = made(resolve_fleet(CATALOG, fleet)).slim["rows"]
    assert row["models"] == {"Tesla T4": ["1eb8"]}
    text = locks.dump(made(resolve_fleet(CATALOG, fleet)))
    assert locks.parse(text, where="x").slim["rows"][0] == row


def test_generations_stand_in_the_row_and_in_the_digest() -> None:
    (choice,) = resolve_fleet(CATALOG, known(a=on("debian12", "Tesla T4")))
    with_them = Choice(choice.platform, choice.wish, choice.stack, generations=("Turing",))
    plain = Choice(choice.platform, choice.wish, choice.stack)
    wheels = {choice.stack.id: recorded.WHEELS}
    indices = {"debian12": recorded.indices(platform="debian12")}
    lock, other = (locks.make([c], indices, wheels) for c in (with_them, plain))
    assert lock.slim["rows"][0]["generations"] == ["Turing"]
    assert lock.digest != other.digest


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (HostFacts("debian11"), ["no row for the platform of gpu07", "debian 13 x86_64"]),
        (HostFacts("debian13", ("A100",), ("A100",)), ["the gpu_models of gpu07", "A100"]),
    ],
)
def test_a_lock_from_before_a_host_was_known_does_not_fit(
    facts: HostFacts, words: list[str]
) -> None:
    wish = parse_wish({"tensorflow": "2.20"}, where="x")
    lock = made(resolve_fleet(CATALOG, Fleet({"a": wish}, facts={"a": on("debian13")})))
    with pytest.raises(InputError) as caught:
        locks.check_fits(lock, Fleet({"gpu07": wish}, facts={"gpu07": facts}), where="lock.yml")
    for word in words:
        assert word in str(caught.value)
    locks.check_fits(lock, Fleet({"gpu07": wish}, facts={"gpu07": on("debian13")}), where="x")


# explaining one host


def test_one_host_is_explained_by_its_own_gpus() -> None:
    fleet = known(a=on("debian12", "Tesla V100-PCIE-16GB"), b=on("debian12", "Tesla T4"))
    (explained,) = explain(CATALOG, fleet, "a")
    assert "Volta" in explained.reasons[0].text
    assert "Turing" not in explained.reasons[0].text


def test_one_host_is_explained_though_another_cannot_have_its_wish() -> None:
    fleet = known(a=on("debian12", "Tesla T4"), b=on("debian12", "Tesla K80"))
    (explained,) = explain(CATALOG, fleet, "a")
    assert explained.choice.stack.tensorflow == "2.21.0"
    with pytest.raises(UnsatisfiableError, match="Tesla K80") as caught:
        explain(CATALOG, fleet, "b")
    assert caught.value.where == "gpu_stack of b"


def test_a_host_has_the_row_of_its_generations() -> None:
    fleet = known(a=on("debian12", "Tesla M40"), b=on("debian12", "Tesla T4"), c=on("debian12"))
    for host, generations in (("a", ("Maxwell",)), ("b", ("Turing",)), ("c", ())):
        assert [e.choice.generations for e in explain(CATALOG, fleet, host)] == [generations]


def test_the_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    seen = {
        "b": Seen(None, "fedora 40 x86_64", (SeenGpu("10de:ffff", None, 1),)),
        "a": Seen("debian12", "debian 12 x86_64", (T4,)),
        "1": Seen("debian11", "debian 11 x86_64", ()),
    }
    data = discover.dump(seen)
    assert discover.parse(data, where="x") == seen
    assert discover.dump(dict(reversed(seen.items()))) == data
    (tmp_path / discover.FILE).write_bytes(data)


@pytest.mark.parametrize(
    "data",
    [b"", b"hosts: [\n", b"hosts: {a: 1}\n", b"\xff\xfe\x00", b"hosts: {a: {platform: 1}}\n",
     b"hosts: {a: {platform: 12, system: x, gpus: []}}\n"],
)  # fmt: skip
def test_what_is_not_that_file_is_refused(data: bytes) -> None:
    with pytest.raises(
        InputError, match=r"not (what `provision discover` writes|YAML|UTF-8 text)"
    ) as caught:
        discover.parse(data, where="discovered.yml")
    assert caught.value.where.startswith("discovered.yml")
    assert caught.value.hint == "remove it, then `provision discover`"
