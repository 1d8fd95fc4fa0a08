"""The catalog's facts for hosts: a module that the look imports, and one for acceptance.

Hosts judge their state without the generator. A second table kept by hand would drift: three
generations of GPUs once began with another driver branch there than in the catalog.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from provision.catalog import Catalog
from provision.catalog.gpu_rows import GpuFigureRow, XidVerdict
from provision.resolve.rules.gpus import runs

PATH = "plugins/module_utils/gpu_stack/tables.py"
# By itself: the ordinary look carries the table above to every host.
ACCEPTANCE = "plugins/module_utils/gpu_stack/acceptance/tables.py"

_HEADER = '''\
"""{title}

Rendered from provision/catalog by `provision roles sync`; edit that, where facts have sources.
"""

'''


def render(catalog: Catalog) -> dict[str, bytes]:
    """The modules, by their paths in the collection."""
    windows = (
        (row.name, (int(row.driver_first), int(row.driver_last) if row.driver_last else None))
        for row in catalog.generations
    )
    compilers = ((row.release, int(row.gcc_maximum)) for row in catalog.cuda_releases)
    specifications = tuple(
        (_numbers(row.since), _numbers(row.newest)) for row in catalog.rows("podman_cdi")
    )
    text = (
        _HEADER.format(title="Which versions fit what.")
        + "# GPU generation: first (of those from 418 on) and last driver branch, or None.\n"
        + _mapping("DRIVER_BRANCHES", windows)
        + "\n# GPU generation: the first and last TensorFlow whose wheel runs on none of it.\n"
        + _mapping("TENSORFLOW_WITHOUT_CODE", _releases(catalog, ""))
        + "\n# The same of a TensorFlow whose PTX the driver translates for it.\n"
        + _mapping("TENSORFLOW_TRANSLATED", _releases(catalog, "translated"))
        + "\n# CUDA release: the newest gcc that its nvcc takes.\n"
        + _mapping("NEWEST_GCC", compilers)
        + "\n# podman's release: the newest CDI specification that it reads from then on.\n"
        + f"PODMAN_CDI = {specifications!r}\n"
    )
    acceptance = (
        _HEADER.format(title="What errors mean, and what GPUs should be.")
        + _xids(catalog)
        + _figures(catalog.gpu_figures)
    )
    return {PATH: text.encode(), ACCEPTANCE: acceptance.encode()}


def _releases(catalog: Catalog, how: str) -> Iterable[tuple[str, object]]:
    """(generation, (first, last TensorFlow whose code runs so on all its capabilities))."""
    for row in catalog.generations:
        releases = sorted(
            _numbers(tensorflow.release)
            for tensorflow in catalog.tensorflow
            if {runs(tensorflow, capability) for capability in row.capabilities} == {how}
        )
        if releases:
            yield row.name, (releases[0], releases[-1])


def _figures(rows: list[GpuFigureRow]) -> str:
    """Two tables: the figures by name, each row with the place of its source in the other."""
    sources = list(dict.fromkeys(_link(row) for row in rows))
    figures = (
        (name, (*map(_short, _values(row)), sources.index(_link(row))))
        for row in rows
        for name in row.products
    )
    links = "".join(f'    "{link}",\n' for link in sources)
    return (
        "\n# Product name of NVML, without NVIDIA: the fields of acceptance/figures.py.\n"
        "# fmt: off\n"
        + _mapping("GPU_FIGURES", figures)
        + f"# fmt: on\nGPU_FIGURE_SOURCES = (\n{links})\n"
    )


def _values(row: GpuFigureRow) -> list[object]:
    """The figures of a row, in the order of its class."""
    return list(row.model_dump(exclude={"name", "aliases", "source"}).values())


def _link(row: GpuFigureRow) -> str:
    """The first link of a source, which is NVIDIA's where one of them is."""
    return re.sub(r".*?(https?://[^\s;,)]+).*", r"\1", row.source)


def _short(value: object) -> object:
    """A whole number without its point."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _mapping(name: str, rows: Iterable[tuple[str, object]]) -> str:
    lines = "".join(f'    "{key}": {value!r},\n' for key, value in rows)
    return f"{name} = {{\n{lines}}}\n"


def _xids(catalog: Catalog) -> str:
    names = "".join(
        f"    {row.number}: {_texts(row.name, *_verdict(row))},\n" for row in catalog.xids
    )
    says = ""
    for row in catalog.xids:
        cases = [_texts(override.words, *_verdict(override)) for override in row.says]
        if len(cases) == 1:
            says += f"    {row.number}: ({cases[0]},),\n"
        elif cases:
            lines = "".join(f"        {case},\n" for case in cases)
            says += f"    {row.number}: (\n{lines}    ),\n"
    repeats = "".join(
        f'    {row.number}: ("{rule.where}", {rule.times}, "{rule.severity}", "{rule.action}"),\n'
        for row in catalog.xids
        for rule in [row.repeats]
        if rule
    )
    return (
        "# NVIDIA's Xid errors: name, severity, action.\n"
        f"XIDS = {{\n{names}}}\n"
        "\n# Words of an Xid's message that decide instead, the first that is in it.\n"
        f"XID_SAYS = {{\n{says}}}\n"
        "\n# Where it repeats: on which part, from how many times on, severity, action.\n"
        f"XID_REPEATS = {{\n{repeats}}}\n"
    )


def _verdict(verdict: XidVerdict) -> tuple[str, str]:
    return verdict.severity, verdict.action


def _texts(*texts: str) -> str:
    return f"({', '.join(json.dumps(text) for text in texts)})"
