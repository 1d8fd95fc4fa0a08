"""What a host knows that a GPU model should be."""

from __future__ import annotations

import pytest
from gpu_stack.acceptance import tables
from gpu_stack.acceptance.figures import Figures, figures, product

from provision.catalog import gpu_rows, load

ROWS = load().gpu_figures


def test_a_models_figures_have_their_units_and_their_source() -> None:
    row = figures("Tesla T4")
    assert row == Figures(
        name="Tesla T4",
        pcie_generation=3,
        pcie_width=16,
        fp32_tflops=8.1,
        fp16_tensor_tflops=65,
        memory_gb_per_s=300,
        memory_mib=16384,
        ecc=True,
        row_remapping=False,
        nvlink_links=0,
        mig=False,
        power_limit_w=70,
        source="https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/tesla-t4/"
        "t4-tensor-core-datasheet-951643.pdf",
    )


def test_what_no_source_says_is_none_and_not_nought() -> None:
    row = figures("NVIDIA GeForce RTX 2080 Ti")
    assert row is not None
    assert row.pcie_width is None
    assert row.fp32_tflops == 13.4


@pytest.mark.parametrize(
    "name", ["NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB", "NVIDIA  A100-SXM4-80GB ", "A100-SXM-80GB"]
)
def test_older_drivers_say_another_name(name: str) -> None:
    row = figures(name)
    assert row is not None
    assert row.memory_gb_per_s == 2039


@pytest.mark.parametrize(
    "name", ["", "NVIDIA", "A100", "a100-sxm4-80gb", "NVIDIA NVIDIA L4", "NVIDIA GH200 480GB"]
)
def test_a_model_without_figures_has_none(name: str) -> None:
    assert figures(name) is None


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_hosts_have_the_catalogs_figures(row: gpu_rows.GpuFigureRow) -> None:
    """By every name, in the order of the row's class."""
    for name in (row.name, *row.aliases):
        found = figures(name)
        assert found is not None
        theirs = row.model_dump(exclude={"aliases"}) | {"name": gpu_rows.product(name)}
        assert list(theirs) == ["source", *Figures._fields[:-1]]
        assert found._replace(source="")._asdict() == theirs | {"source": ""}
        assert found.source.startswith("http")
        assert found.source in row.source


def test_hosts_and_generator_compare_names_alike() -> None:
    for name in (*tables.GPU_FIGURES, "NVIDIA L4", "NVIDIA", "NVIDIA  NVIDIA L4", "nvidia L4", " "):
        assert product(name) == gpu_rows.product(name)
