"""The catalog's compatibility facts for hosts: a Python module that the look imports.

Hosts judge what stands on them without the generator. A second table by hand would differ one day:
three generations of GPUs once began with another driver branch there than in the catalog.
"""

from __future__ import annotations

from collections.abc import Iterable

from provision.catalog import Catalog

PATH = "plugins/module_utils/gpu_stack/tables.py"

_HEADER = '''\
"""Which versions fit what. Rendered from provision/catalog by `provision roles sync`;
edit the catalog, where each fact has its source.
"""

'''


def render(catalog: Catalog) -> dict[str, bytes]:
    """The module, by its path in the collection."""
    windows = (
        (one.name, (int(one.driver_first), int(one.driver_last) if one.driver_last else None))
        for one in catalog.generations
    )
    compilers = ((one.release, int(one.gcc_maximum)) for one in catalog.cuda_releases)
    specifications = tuple(
        (_numbers(one.since), _numbers(one.newest)) for one in catalog.podman_cdi
    )
    text = (
        _HEADER
        + "# GPU generation: first (of those from 418 on) and last driver branch, or None.\n"
        + _mapping("DRIVER_BRANCHES", windows)
        + "\n# CUDA release: the newest gcc that its nvcc takes.\n"
        + _mapping("NEWEST_GCC", compilers)
        + "\n# podman's release: the newest CDI specification that it reads from then on.\n"
        + f"PODMAN_CDI = {specifications!r}\n"
    )
    return {PATH: text.encode()}


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _mapping(name: str, rows: Iterable[tuple[str, object]]) -> str:
    lines = "".join(f'    "{key}": {value!r},\n' for key, value in rows)
    return f"{name} = {{\n{lines}}}\n"
