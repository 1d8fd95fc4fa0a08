"""The catalog's tables against each other and against what was published."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml
from gpu_stack import tables
from gpu_stack.acceptance import tables as acceptance
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from provision.catalog import load
from provision.catalog.gpu_figures import figures
from provision.catalog.gpus import gpu
from provision.render import host_tables
from provision.resolve.rules.gpus import runs
from provision.verify.checks import nvidia_container_toolkit

ROOT = Path(__file__).resolve().parents[2]
CATALOG = ROOT / "provision" / "catalog"
TESTED = ROOT / "tests" / "unit" / "data" / "tensorflow_tested.yml"
REQUIRES = TESTED.with_name("tensorflow_requires.yml")

# Pythons of the published table for which the release's newest patch has no wheel.
WITHOUT_WHEEL = {"2.5": {"3.6"}, "2.6": {"3.6"}, "2.11": {"3.7"}}


def read(file: Path) -> Any:
    text = file.read_text(encoding="utf-8")
    return json.loads(text) if file.suffix == ".json" else yaml.safe_load(text)


def pythons(published: str) -> set[str]:
    """ "3.7-3.10" -> 3.7, 3.8, 3.9, 3.10."""
    first, last = (int(part.split(".")[1]) for part in published.split("-"))
    return {f"3.{minor}" for minor in range(first, last + 1)}


def test_tensorflow_is_as_published() -> None:
    rows = {row["release"]: row for row in read(CATALOG / "tensorflow.yml")["tensorflow"]}
    published = {
        re.sub(r"tensorflow-(\d+\.\d+)\.\d+", r"\1", row["version"]): row
        for row in read(TESTED)["tested"]
    }
    assert rows.keys() == published.keys()
    for release, row in rows.items():
        theirs = published[release]
        assert (row["cuda"], row["cudnn"]) == (theirs["cuda"], theirs["cudnn"]), release
        missing = pythons(theirs["python"]) - set(row["pythons"])
        assert missing == WITHOUT_WHEEL.get(release, set()), release
        assert set(row["pythons"]) <= pythons(theirs["python"]), release


def test_tensorflow_rows_agree_with_themselves() -> None:
    for row in read(CATALOG / "tensorflow.yml")["tensorflow"]:
        release = row["release"]
        majors = {s.rsplit(".so.")[0]: s.rsplit(".so.")[1] for s in row["sonames"]}
        assert majors["libcudnn"] == row["cudnn"].split(".")[0], release
        assert majors["libcudart"].split(".")[0] == row["cuda"].split(".")[0], release
        assert Version(row["cudnn_minimum"]).release[:2] == Version(row["cudnn"]).release, release
        assert set(row["ptx"]) <= set(row["capabilities"]), release
        assert bool(row["cuda_wheels"]) == (Version(release) >= Version("2.14")), release


def test_no_patch_takes_what_its_newest_refuses() -> None:
    """2.7.0, 2.8.0 and 2.8.1 locked protobuf 6, 2.14.0 numpy 2: `import tensorflow` failed."""
    requires = read(REQUIRES)["requires"]
    newer = [
        "1.26.4",
        "1.99",
        "2.0.2",
        "2.6.99",
        "2.99",
        "3.19.6",
        "3.20.3",
        "4.25.9",
        "6.33.6",
        "9",
    ]
    for row in read(CATALOG / "tensorflow.yml")["tensorflow"]:
        bounds = [Requirement(constraint) for constraint in row["constraints"]]
        patches = sorted(row["patches"], key=Version)
        for name, newest in requires[patches[-1]].items():
            own = [bound.specifier for bound in bounds if bound.name == name]
            for patch in patches:
                asked = SpecifierSet(requires[patch][name])
                for version in newer:
                    taken = version in asked and all(version in specifier for specifier in own)
                    assert not taken or version in SpecifierSet(newest), (patch, name, version)


def test_every_gpu_has_its_generation() -> None:
    generations = {g["name"]: g for g in read(CATALOG / "generations.yml")["generations"]}
    devices = read(CATALOG / "gpus.json")["devices"]
    assert [d["id"] for d in devices] == sorted({d["id"] for d in devices})
    for device in devices:
        generation = generations[device["generation"]]
        assert device["capability"] in generation["capabilities"], device
        branches = [int(branch) for branch in device["drivers"]]
        assert all(branch >= int(generation["driver_first"]) for branch in branches), device
        if generation["driver_last"]:
            assert all(branch <= int(generation["driver_last"]) for branch in branches), device


def test_known_gpus() -> None:
    found = {d["id"]: d for d in read(CATALOG / "gpus.json")["devices"]}
    assert [
        (found[i]["name"], found[i]["generation"], found[i]["capability"])
        for i in ("102d", "1db4", "1eb8", "20b1", "2330", "2901")
    ] == [
        ("Tesla K80", "Kepler", "3.7"),
        ("Tesla V100-PCIE-16GB", "Volta", "7.0"),
        ("Tesla T4", "Turing", "7.5"),
        ("A100-PCIE-40GB", "Ampere", "8.0"),
        ("H100 80GB HBM3", "Hopper", "9.0"),
        ("B200", "Blackwell", "10.0"),
    ]


def test_figures_are_found_by_every_drivers_name() -> None:
    found = figures("NVIDIA GeForce RTX 2080 Ti")
    assert found is not None
    assert (found.fp32_tflops, found.memory_mib, found.pcie_width) == (13.4, 11264, None)
    for name in ("GeForce RTX 2080 Ti", " NVIDIA  GeForce RTX 2080 Ti"):
        assert figures(name) is found
    assert figures("NVIDIA A100-SXM-80GB") is figures("A100-SXM4-80GB") is not None
    for name in ("GEFORCE RTX 2080 TI", "GeForce RTX 2080", "RTX 2080 Ti", "NVIDIA", ""):
        assert figures(name) is None


# The PCIe of each generation's cards; the first with MIG and row remapping is Ampere.
PCIE_OF = {
    **dict.fromkeys(("Kepler", "Pascal", "Volta", "Turing"), 3),
    **dict.fromkeys(("Ampere", "Ada"), 4),
    **dict.fromkeys(("Hopper", "Blackwell"), 5),
}


def test_figures_fit_what_the_gpu_is() -> None:
    """A figure in a wrong row, or with a wrong power of ten, would condemn good cards."""
    names = {name for d in read(CATALOG / "gpus.json")["devices"] for name in known(d)}
    for row in load().gpu_figures:
        assert row.products[0] in names, row.name
        generation = gpu(row.products[0]).generation
        assert row.pcie_generation in {PCIE_OF[generation], None}, row.name
        if PCIE_OF[generation] == 3:
            assert (row.mig, row.row_remapping) == (False, False), row.name
        if generation in {"Kepler", "Pascal"}:
            assert row.fp16_tensor_tflops is None, row.name
        if row.fp32_tflops and row.memory_gb_per_s:
            assert 9 < 1000 * row.fp32_tflops / row.memory_gb_per_s < 110, row.name
        if row.fp32_tflops and row.fp16_tensor_tflops:
            assert 1.9 < row.fp16_tensor_tflops / row.fp32_tflops < 17, row.name
        size = re.search(r"(\d+) ?GB", row.name)
        assert size is None or row.memory_mib == int(size[1]) * 1024, row.name
        wired = bool(re.search("SXM|HBM3|H200", row.name))
        assert wired == bool(row.nvlink_links), row.name


def known(device: dict[str, Any]) -> set[str]:
    """The names of a device; one of several cards has them as "Quadro RTX 6000/8000"."""
    return {device["name"], *device.get("also", ())}


def test_hosts_and_generator_know_the_same_facts() -> None:
    """Ada began with 520 on hosts and 525 in the catalog, Hopper with 515, Kepler with 304.

    `python -m provision roles sync` writes the hosts' table; edit the catalog instead of it.
    """
    for path, data in host_tables.render(load()).items():
        assert (ROOT / path).read_bytes() == data
    assert tables.DRIVER_BRANCHES["Hopper"] == (525, None)
    assert tables.NEWEST_GCC["11.2"] == 10
    assert tables.TENSORFLOW_WITHOUT_CODE["Maxwell"] == ((2, 17), (2, 21))
    assert tables.TENSORFLOW_TRANSLATED == {"Hopper": ((2, 4), (2, 15))}
    assert tables.PODMAN_CDI[0] == ((5, 1), (0, 7, 0))
    assert acceptance.XIDS[79] == ("GPU has fallen off the bus", "failed", "reboot")
    assert acceptance.XID_SAYS[149] == (("Nonfatal", "degraded", "watch"),)


def test_the_hosts_table_of_tensorflows_code_has_no_gaps() -> None:
    """It has the first and the last release of each generation alone."""
    for generation in load().generations:
        for row in load().tensorflow:
            release = tuple(map(int, row.release.split(".")))
            how = {runs(row, capability) for capability in generation.capabilities}
            for table, kind in (
                (tables.TENSORFLOW_WITHOUT_CODE, ""),
                (tables.TENSORFLOW_TRANSLATED, "translated"),
            ):
                first, last = table.get(generation.name, ((99,), (0,)))
                assert (first <= release <= last) == (how == {kind}), (generation.name, release)


def test_xids_are_in_order_and_an_applications_own_ask_nothing_of_the_card() -> None:
    numbers = [row["number"] for row in read(CATALOG / "xids.yml")["xids"]]
    assert numbers == sorted(numbers)
    mine = {n for n, (_name, severity, _action) in acceptance.XIDS.items() if severity == "user"}
    assert {13, 31, 43, 45, 66, 68, 69, 137} <= mine
    assert not mine & {48, 62, 63, 64, 74, 79, 94, 95, 109, 119, 120, 140}


def test_podmans_stand_newest_first() -> None:
    """The first row that is not newer than a podman is its own."""
    assert list(tables.PODMAN_CDI) == sorted(tables.PODMAN_CDI, reverse=True)


def test_the_checks_judge_podman_as_the_look_does() -> None:
    """They travel in a tree by themselves, and so have the table once more."""
    assert nvidia_container_toolkit.PODMAN_READS == tables.PODMAN_CDI
