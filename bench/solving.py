"""Part (e): lock and render for many hosts of 12 kinds, from cached indices."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from bench.rendering import figures_of

# Platform, TensorFlow, GPU: each is solved once, whatever the number of its hosts.
KINDS = (
    ("debian11", "2.7", "Tesla V100"),
    ("debian11", "2.8", "Tesla T4"),
    ("debian11", "2.9", "Tesla T4"),
    ("debian11", "2.10", "Tesla P100"),
    ("debian11", "2.11", "A100"),
    ("debian12", "2.12", "Tesla T4"),
    ("debian12", "2.13", "A100"),
    ("debian12", "2.14", "A100"),
    ("debian12", "2.16", "H100"),
    ("debian12", "2.18", "L40"),
    ("debian13", "2.20", "H100"),
    ("debian13", "2.21", "A100"),
)

# Runs `provision lock` or `render` and prints CPU seconds at its end: its own, those of uv (which
# resolves the wheels), and apart from both those of ansible-inventory.
PROGRAM = """\
import atexit, json, resource
from provision import inventory
def used(who):
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime
read, spent = inventory.read_export, []
def measured(*arguments, **options):
    before = used(resource.RUSAGE_CHILDREN)
    try:
        return read(*arguments, **options)
    finally:
        spent.append(used(resource.RUSAGE_CHILDREN) - before)
inventory.read_export = measured
def tell():
    children = used(resource.RUSAGE_CHILDREN) - sum(spent)
    own = used(resource.RUSAGE_SELF)
    print(json.dumps({"own": own, "wheels": children, "inventory": sum(spent)}))
atexit.register(tell)
from provision.cli import main
main()
"""


def project(folder: Path, count: int) -> Path:
    """Writes a project of `count` hosts, evenly of all kinds."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "lab" / "group_vars").mkdir(parents=True)
    lines = ["gpu_hosts:", "  children:"]
    for number, (platform, tensorflow, model) in enumerate(KINDS):
        group = f"kind{number:02}"
        lines += [f"    {group}:", "      hosts:"]
        lines += [f"        gpu{host:05}: {{}}" for host in range(number, count, len(KINDS))]
        variables = {
            "gpu_stack": {"tensorflow": tensorflow},
            "gpu_platform": platform,
            "gpu_models": [model],
        }
        path = folder / "lab" / "group_vars" / f"{group}.yml"
        path.write_text(yaml.safe_dump(variables), encoding="utf-8")
    (folder / "lab" / "hosts.yml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def measure(
    folder: Path, *, counts: Sequence[int], rounds: int, say: Callable[[str], None]
) -> dict[str, Any]:
    """CPU seconds of lock and render, by the number of hosts.

    A first lock that is not counted fetches apt's indices and the package index's pages.
    """
    runs: dict[str, list[dict[str, float]]] = {str(count): [] for count in counts}
    for count in counts:
        project(folder / str(count), count)
    figures_of(PROGRAM, "lock", "--project", str(folder / str(counts[0])))
    for _ in range(rounds):
        for count in counts:
            tree = folder / str(count)
            (tree / "lock.yml").unlink(missing_ok=True)
            # uv has the index in its cache by now.
            lock = figures_of(PROGRAM, "lock", "--project", str(tree), UV_OFFLINE="1")
            render = figures_of(PROGRAM, "render", str(tree))
            run = {
                "lock": lock["own"],
                "wheels": lock["wheels"],
                "render": render["own"] + render["wheels"],
                "inventory": lock["inventory"] + render["inventory"],
            }
            runs[str(count)].append(run)
            say(
                f"{count} hosts of {len(KINDS)} kinds: lock {run['lock']:.2f} s of CPU, uv for "
                f"their wheels {run['wheels']:.2f} s, render {run['render']:.2f} s, beside "
                f"ansible-inventory's {run['inventory']:.2f} s"
            )
    return {"kinds": len(KINDS), "runs": runs}
