"""Rows of the catalog against each other: each rule is seen red, by one change to the real one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from provision.catalog import CATALOG_FILES, Catalog, load, parse
from provision.catalog.consistency import IDENTITY, Fault, faults
from provision.catalog.gpu_rows import XidRepeats, XidSays
from provision.errors import InputError

CATALOG = load()
NOT_TO_WATCH = XidSays(words="Fatal", severity="failed", action="watch")
OFTEN = XidRepeats(where="card", times=3, severity="degraded", action="watch")
OFTEN_NOTHING = OFTEN.model_copy(update={"action": "nothing"})
FOLDER = Path(__file__).parents[3] / "provision" / "catalog"


def with_rows(part: str, rows: list[Any]) -> Catalog:
    """The catalog with other rows of a part."""
    own = part in CATALOG.own
    update = {"own": {**CATALOG.own, part: rows}} if own else {part: rows}
    return CATALOG.model_copy(update=update)


def changed(part: str, place: int, **fields: Any) -> list[Fault]:
    """What is wrong with the catalog once one row has other fields."""
    rows = list(getattr(CATALOG, part))
    rows[place] = rows[place].model_copy(update=fields)
    return list(faults(CATALOG.model_copy(update={part: rows})))


def test_the_catalog_has_no_contradiction() -> None:
    assert list(faults(CATALOG)) == []
    assert set(IDENTITY) == {*type(CATALOG).model_fields, *CATALOG.own} - {"own"}


@pytest.mark.parametrize("part", IDENTITY)
def test_a_row_that_is_there_twice_is_named_once(part: str) -> None:
    rows = CATALOG.rows(part)
    mistakes = list(faults(with_rows(part, [*rows, rows[0]])))
    assert [(fault.message, fault.got) for fault in mistakes if "two rows" in fault.message] == [
        ("two rows say this", "twice")
    ]
    assert mistakes[0].where.startswith(f"catalog: {part}: ")


@pytest.mark.parametrize(
    ("part", "fields", "words"),
    [
        ("drivers", {"platform": "debian99"}, "platform is in no row of platforms"),
        ("drivers", {"branch": "471"}, "branch is in no row of driver_branches"),
        ("transitional", {"platform": "debian99"}, "platform is in no row of platforms"),
        ("transitional", {"installs": "471"}, "installs is in no row of driver_branches"),
        ("cuda", {"platform": "debian99"}, "platform is in no row of platforms"),
        ("cuda", {"release": "11.9"}, "release is in no row of cuda_releases"),
        ("tensorflow", {"cuda": "11.9"}, "cuda is in no row of cuda_releases"),
        ("nvidia_sources", {"platform": "debian99"}, "platform is in no row of platforms"),
        ("nvidia_sources", {"signed_by": ["0" * 40]}, "signed_by is in no row of nvidia_keys"),
        ("drivers", {"version": "999.1"}, "version is of another branch"),
        ("driver_branches", {"first": "999.1"}, "first is of another branch"),
        ("driver_branches", {"newest": "45.1"}, "newest is of another branch"),
        ("tensorflow", {"patches": ["2.999.0"]}, "patches is of another release"),
        ("cuda", {"version": "11.20.0"}, "version is of another release"),
        ("cuda_releases", {"versions": {"12.9.9": None}}, "versions is of another release"),
        ("generations", {"driver_last": "1"}, "driver_last comes before driver_first"),
        ("driver_branches", {"first": "450.9", "newest": "450.8"}, "newest comes before first"),
        ("nvidia_sources", {"cuda_last": "1.0"}, "cuda_last comes before cuda_first"),
        ("cuda_releases", {"capabilities": ["1.3"]}, "no generation has this compute capability"),
        ("tensorflow", {"capabilities": ["1.3"]}, "no generation has this compute capability"),
        ("tensorflow", {"pythons": ["3.7", "3.9"]}, "a Python is left out"),
        ("cuda", {"driver_minimum": "400.1"}, "driver_minimum is older than its CUDA's"),
        ("tensorflow", {"driver_minimum": "400.1"}, "driver_minimum is older than its CUDA's"),
        ("xids", {"severity": "failed", "action": "watch"}, "action does not fit failed"),
        ("xids", {"says": [NOT_TO_WATCH]}, "action does not fit failed"),
        ("xids", {"repeats": OFTEN_NOTHING}, "action does not fit degraded"),
        (
            "xids",
            {"severity": "degraded", "action": "watch", "repeats": OFTEN},
            "repeats of what is no program's fault",
        ),
        ("xids", {"severity": "user", "action": "reset"}, "action does not fit user"),
        ("xids", {"severity": "degraded", "action": "nothing"}, "action does not fit degraded"),
        ("gpu_figures", {"aliases": ["NVIDIA Tesla T4"]}, "this name has figures already"),
        ("gpu_figures", {"aliases": ["K8", "NVIDIA  K8"]}, "this name has figures already"),
    ],
)
def test_a_row_that_does_not_fit_the_others_is_named(
    part: str, fields: dict[str, Any], words: str
) -> None:
    mistakes = [fault for fault in changed(part, 0, **fields) if fault.message == words]
    assert mistakes, changed(part, 0, **fields)
    assert mistakes[0].where.startswith(f"catalog: {part}: ")
    assert mistakes[0].got
    assert mistakes[0].expected


def test_a_capability_belongs_to_one_generation() -> None:
    first = CATALOG.generations[0]
    other = CATALOG.generations[1].capabilities | first.capabilities
    mistakes = changed("generations", 1, capabilities=other)
    assert {fault.message for fault in mistakes} == {"two generations have one compute capability"}
    assert f"which is {first.name}'s" in mistakes[0].got


def test_a_capabilitys_cuda_does_not_end_before_it_begins() -> None:
    (name, window), *_ = CATALOG.generations[0].capabilities.items()
    turned = window.model_copy(update={"cuda_first": "13.0", "cuda_last": "12.0"})
    rest = CATALOG.generations[0].capabilities | {name: turned}
    (fault,) = changed("generations", 0, capabilities=rest)
    assert (fault.message, fault.got) == ("cuda_last comes before cuda_first", "13.0 to 12.0")
    assert fault.where.endswith(f" {name}")


def test_a_release_that_is_left_out_is_a_gap() -> None:
    rows = [row for row in CATALOG.tensorflow if row.release != "2.12"]
    (fault,) = faults(CATALOG.model_copy(update={"tensorflow": rows}))
    assert (fault.message, fault.got) == ("a release is left out", "2.12")


def texts() -> dict[str, str]:
    return {name: (FOLDER / f"{name}.yml").read_text("utf-8") for name in CATALOG_FILES}


def test_a_clash_is_refused_where_the_catalog_is_read() -> None:
    catalog = texts()
    data = yaml.safe_load(catalog["tensorflow"])
    data["tensorflow"].append(data["tensorflow"][0])
    catalog["tensorflow"] = yaml.safe_dump(data)
    with pytest.raises(InputError, match="two rows say this") as caught:
        parse(catalog)
    assert caught.value.where == f"catalog: tensorflow: {data['tensorflow'][0]['release']}"
    assert caught.value.expected == "one row"


@pytest.mark.parametrize(
    ("file", "part", "place"),
    [("tensorflow", "tensorflow", 3), ("own/nvidia_container_toolkit", "podman_cdi", 1)],
)
def test_a_row_without_a_source_is_refused(file: str, part: str, place: int) -> None:
    catalog = texts()
    data = yaml.safe_load(catalog[file])
    del data[part][place]["source"]
    catalog[file] = yaml.safe_dump(data)
    with pytest.raises(InputError, match="Field required") as caught:
        parse(catalog)
    assert caught.value.where == f"catalog: {part}.{place}.source"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("pcie_generation", 0),
        ("pcie_generation", 7),
        ("pcie_width", 12),
        ("fp32_tflops", 0),
        ("fp16_tensor_tflops", -65),
        ("memory_gb_per_s", "300 GB/s"),
        ("memory_gb_per_s", float("inf")),
        ("memory_mib", 0),
        ("memory_mib", 15.75),
        ("ecc", 1),
        ("nvlink_links", -1),
        ("power_limit_w", -70),
        ("tflops", 8.1),
    ],
)
def test_a_figure_that_no_gpu_can_have_is_refused(field: str, value: object) -> None:
    catalog = texts()
    data = yaml.safe_load(catalog["gpu_figures"])
    data["gpu_figures"][1][field] = value
    catalog["gpu_figures"] = yaml.safe_dump(data)
    with pytest.raises(InputError) as caught:
        parse(catalog)
    assert caught.value.where.startswith(f"catalog: gpu_figures.1.{field}")
    assert caught.value.got == repr(value)


def test_a_part_that_nobody_knows_is_refused() -> None:
    with pytest.raises(InputError, match="not permitted") as caught:
        parse(texts() | {"own/gpu_note": "notes: []\n"})
    assert caught.value.where == "catalog: notes"


def test_a_file_that_is_no_yaml_is_named_with_its_line() -> None:
    with pytest.raises(InputError, match="not YAML") as caught:
        parse({"cuda": "cuda:\n- platform: debian11\n  a: b: c\n"})
    assert caught.value.where == "catalog/cuda.yml:3"
