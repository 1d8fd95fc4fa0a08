"""Compatibility facts as data: which driver, CUDA, cuDNN and Python a TensorFlow was made for.

The facts are in the YAML files beside this one, with a source on every row, so that a doubt about a
version is settled by reading one line. Nothing is chosen here: that is `resolve`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import resources
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from provision.catalog import consistency
from provision.catalog.container_rows import DevicePluginRow
from provision.catalog.gpu_rows import GpuFigureRow, XidRow
from provision.catalog.own import OWN
from provision.catalog.rows import (
    CudaReleaseRow,
    CudaRow,
    CudnnRow,
    DriverBranchRow,
    DriverRow,
    EngineRow,
    GenerationRow,
    NvidiaDriverPackagesRow,
    NvidiaKeyRow,
    NvidiaPackagesRow,
    NvidiaRunfileRow,
    NvidiaSourceRow,
    PlatformRow,
    TensorflowRow,
    TransitionalRow,
)
from provision.errors import InputError
from provision.yaml_text import Loader


class Catalog(BaseModel):
    """All rows. `CATALOG_FILES` says which file holds which."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    platforms: list[PlatformRow]
    drivers: list[DriverRow]
    transitional: list[TransitionalRow]
    driver_branches: list[DriverBranchRow]
    generations: list[GenerationRow]
    gpu_figures: list[GpuFigureRow]
    cuda: list[CudaRow]
    cuda_releases: list[CudaReleaseRow]
    cudnn: list[CudnnRow]
    tensorflow: list[TensorflowRow]
    nvidia_sources: list[NvidiaSourceRow]
    nvidia_runfiles: list[NvidiaRunfileRow]
    nvidia_packages: list[NvidiaPackagesRow]
    nvidia_driver_packages: list[NvidiaDriverPackagesRow]
    nvidia_keys: list[NvidiaKeyRow]
    engines: list[EngineRow]
    device_plugins: list[DevicePluginRow]
    xids: list[XidRow]
    # {part: its rows} of the components that have a file in catalog/own.
    own: dict[str, list[Any]]

    def rows(self, part: str) -> list[Any]:
        """The rows of a part, which a component's own may be."""
        rows: list[Any] = self.own[part] if part in self.own else getattr(self, part)
        return rows

    # Compared by identity: a program has one catalog, and caches by it.
    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


CATALOG_FILES = (
    "platforms",
    "drivers",
    "driver_branches",
    "generations",
    "gpu_figures",
    "cuda",
    "cuda_releases",
    "cudnn",
    "tensorflow",
    "sources",
    "container",
    "xids",
    *(f"own/{name}" for name in OWN),
)


def parse(texts: dict[str, str]) -> Catalog:
    """The checked catalog of texts by file name (without .yml). InputError names file and row."""
    merged: dict[str, Any] = {}
    for name, text in texts.items():
        try:
            data = yaml.load(text, Loader=Loader)  # noqa: S506  a safe loader
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = f":{mark.line + 1}" if mark else ""
            got = getattr(error, "problem", None) or ""
            raise InputError("not YAML", where=f"catalog/{name}.yml{line}", got=got) from None
        if not isinstance(data, dict):
            raise InputError("not a mapping", where=f"catalog/{name}.yml")
        merged.update(data)
    own: dict[str, Any] = {}
    for component in OWN.values():
        for part, rows in component.ROWS.items():
            validate = TypeAdapter(rows).validate_python
            own[part] = _checked(validate, merged.pop(part, None), part)
    catalog: Catalog = _checked(Catalog.model_validate, {**merged, "own": own})
    fault = next(consistency.faults(catalog), None)
    if fault is not None:
        raise InputError(fault.message, where=fault.where, got=fault.got, expected=fault.expected)
    return catalog


def _checked(validate: Callable[[Any], Any], data: Any, *part: str) -> Any:
    """The validated rows of a part or of the catalog; InputError for the first invalid value."""
    try:
        return validate(data)
    except ValidationError as error:
        details = error.errors()[0]
        path = ".".join(str(piece) for piece in (*part, *details["loc"]))
        where = f"catalog: {path}"
        raise InputError(details["msg"], where=where, got=repr(details["input"])) from None


@functools.cache
def load() -> Catalog:
    """The catalog that ships with this package."""
    folder = resources.files("provision.catalog")
    return parse({n: (folder / f"{n}.yml").read_text(encoding="utf-8") for n in CATALOG_FILES})


def keys() -> dict[str, str]:
    """Armored public keys that ship with this package: file name -> text."""
    folder = resources.files("provision.catalog") / "keys"
    texts = {f.name: f.read_text(encoding="ascii") for f in folder.iterdir()}
    return {name: texts[name] for name in sorted(texts) if name.endswith(".asc")}
