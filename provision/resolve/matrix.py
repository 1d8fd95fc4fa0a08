"""What runs where: the catalog as one table, a row per TensorFlow and a column per platform.

The same rows make the table in the terminal and the page in the docs. Every cell comes from the
resolver, so the table can't contradict `provision lock`. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from packaging.version import Version

from provision.catalog import Catalog
from provision.catalog.rows import TensorflowRow
from provision.models import Gpu, Wish
from provision.resolve.refusal import in_the_way
from provision.resolve.solver import Solver
from provision.resolve.stack import Stack
from provision.resolve.words import span, unique


@dataclass(frozen=True)
class Cell:
    """How a TensorFlow gets its CUDA on a platform.

    `how` is "debs", "wheels", "nvidia", "known" or "no".
    """

    how: str
    text: str


@dataclass(frozen=True)
class Line:
    """One TensorFlow release: what it was tested with, and a cell per platform."""

    release: str
    patch: str
    pythons: str
    cuda: str
    cudnn: str
    driver: str
    cells: tuple[Cell, ...]


def lines(catalog: Catalog, gpus: Sequence[Gpu] = (), solver: Solver | None = None) -> list[Line]:
    """All releases, newest first; with `gpus` the stacks that serve these."""
    solver = solver or Solver(catalog)
    return [
        _line(row, catalog, gpus, solver)
        for row in sorted(catalog.tensorflow, key=lambda r: Version(r.release), reverse=True)
    ]


def _line(row: TensorflowRow, catalog: Catalog, gpus: Sequence[Gpu], solver: Solver) -> Line:
    wish = Wish(tensorflow=row.release, literal={"tensorflow": row.release})
    cells = []
    for platform in catalog.platforms:
        stack = solver.find(wish, platform, gpus)
        if stack is None:
            reasons = unique(
                rule.word for rule in in_the_way(solver, wish, platform, gpus) if rule.word
            )
            cells.append(Cell("no", ", ".join(reasons)))
        else:
            cells.append(_cell(stack))
    return Line(
        release=row.release,
        patch=max(row.patches, key=Version),
        pythons=span(row.pythons),
        cuda=row.cuda,
        cudnn=row.cudnn,
        driver=row.driver_minimum,
        cells=tuple(cells),
    )


def _cell(stack: Stack) -> Cell:
    how = {"distribution": "debs", "wheels": "wheels"}.get(stack.cuda.origin, "nvidia")
    source = {"distribution": "debs", "network": "NVIDIA's", "local": "installer"}
    text = f"{source.get(stack.cuda.origin, 'wheels')} {stack.cuda.release}"
    text += f", driver {stack.driver.branch}"
    return Cell("known" if stack.missing else how, text)


def page(catalog: Catalog) -> str:
    """docs/catalog.md."""
    platforms = [platform.title for platform in catalog.platforms]
    out = [
        "# What runs where",
        "",
        "The resolver makes this table from the catalog; `provision catalog` shows the same in a",
        "terminal, and a test compares the two. Each cell has the source of CUDA and the driver's",
        "branch:",
        "",
        "- **debs**: the platform's own packages, with the cuDNN archive from NVIDIA;",
        "- **wheels**: `tensorflow[and-cuda]` brings CUDA and cuDNN into the venv;",
        "- **NVIDIA's**: NVIDIA's network repository, with the cuDNN archive; its local installer",
        "  (**installer**) is taken where it alone has the release, or for `cuda_source: local`;",
        "- (in brackets): in the catalog, but this version can't install it;",
        "- no: what is in the way.",
        "",
        "The driver is that of the platform's own packages (on Ubuntu the `-server` ones, with",
        "Canonical's signed modules where the archive has them). `driver_source: network` or",
        "`runfile` takes NVIDIA's own instead: [lock.md](lock.md#nvidias-own-packages).",
        "",
        "Installed and proven on hosts so far: TensorFlow 2.9 on Debian 11, 2.14 with 2.16 beside",
        "it on Debian 12, 2.21 on Debian 13. The others resolve and lock.",
        "",
        f"| TensorFlow | Python | CUDA | cuDNN | oldest driver | {' | '.join(platforms)} |",
        "|" + "---|" * (5 + len(platforms)),
    ]
    for line in lines(catalog):
        cells = [f"{line.release} ({line.patch})", line.pythons, line.cuda, line.cudnn, line.driver]
        out.append(f"| {' | '.join(cells + [shown(cell) for cell in line.cells])} |")
    out += [
        "",
        "## GPU generations",
        "",
        "| generation | compute capability | driver branches | last CUDA with code for it |",
        "|---|---|---|---|",
    ]
    for row in catalog.generations:
        newest = row.driver_last or "newest"
        ends = sorted({w.cuda_last for w in row.capabilities.values() if w.cuda_last}, key=Version)
        out.append(
            f"| {row.name} | {', '.join(row.capabilities)} | {row.driver_first} to {newest} "
            f"| {', '.join(ends) or 'newest'} |"
        )
    out += [
        "",
        "## Driver branches",
        "",
        "Of the branches that fit, the newest production or long-term one is used. A new-feature",
        "branch, which NVIDIA supports until the next one, if you request it or no other fits.",
        "",
        "| branch | kind | supported until | newest CUDA |",
        "|---|---|---|---|",
    ]
    for branch in catalog.driver_branches:
        cells = [branch.branch, branch.kind, branch.end or "-", branch.supports_cuda or "-"]
        out.append(f"| {' | '.join(cells)} |")
    out += ["", "Every fact has its source beside it, in provision/catalog/.", ""]
    return "\n".join(out)


def shown(cell: Cell) -> str:
    """A cell's text, which shows its kind without colours."""
    if cell.how == "known":
        return f"({cell.text})"
    return f"no: {cell.text}" if cell.how == "no" else cell.text
