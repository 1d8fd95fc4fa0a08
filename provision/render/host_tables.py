"""The catalog's compatibility facts for hosts: a Python module that the look imports.

Hosts judge their state without the generator. A second table kept by hand would drift: three
generations of GPUs once began with another driver branch there than in the catalog.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from provision.catalog import Catalog
from provision.catalog.rows import XidVerdict

PATH = "plugins/module_utils/gpu_stack/tables.py"

_HEADER = '''\
"""Which versions fit what. Rendered from provision/catalog by `provision roles sync`;
edit the catalog, where each fact has its source.
"""

'''


def render(catalog: Catalog) -> dict[str, bytes]:
    """The module, by its path in the collection."""
    windows = (
        (row.name, (int(row.driver_first), int(row.driver_last) if row.driver_last else None))
        for row in catalog.generations
    )
    compilers = ((row.release, int(row.gcc_maximum)) for row in catalog.cuda_releases)
    specifications = tuple(
        (_numbers(row.since), _numbers(row.newest)) for row in catalog.rows("podman_cdi")
    )
    text = (
        _HEADER
        + "# GPU generation: first (of those from 418 on) and last driver branch, or None.\n"
        + _mapping("DRIVER_BRANCHES", windows)
        + "\n# CUDA release: the newest gcc that its nvcc takes.\n"
        + _mapping("NEWEST_GCC", compilers)
        + "\n# podman's release: the newest CDI specification that it reads from then on.\n"
        + f"PODMAN_CDI = {specifications!r}\n"
        + _xids(catalog)
    )
    return {PATH: text.encode()}


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
        cases = [_texts(one.words, *_verdict(one)) for one in row.says]
        if len(cases) == 1:
            says += f"    {row.number}: ({cases[0]},),\n"
        elif cases:
            lines = "".join(f"        {case},\n" for case in cases)
            says += f"    {row.number}: (\n{lines}    ),\n"
    return (
        "\n# NVIDIA's Xid errors: name, severity, action.\n"
        f"XIDS = {{\n{names}}}\n"
        "\n# Words of an Xid's message that decide instead, the first that is in it.\n"
        f"XID_SAYS = {{\n{says}}}\n"
    )


def _verdict(verdict: XidVerdict) -> tuple[str, str]:
    return verdict.severity, verdict.action


def _texts(*texts: str) -> str:
    return f"({', '.join(json.dumps(text) for text in texts)})"
