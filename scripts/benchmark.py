"""`make bench`: measures ratios to other ways; writes docs/benchmark.json and docs/benchmark.md.

Exits with 0 whatever the ratios are: a time is no test, and a bound that is not met is only
reported with its reason. Parts that are not measured now keep the figures and date of their last
run, and those that were measured are published even where a later one fails.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench import (  # noqa: E402
    bounds,
    bundling,
    cold,
    page,
    rendering,
    rerun,
    solving,
    state,
    together,
    ubuntu,
    workspaces,
)
from provision import locallab  # noqa: E402
from provision.errors import ProvisionError  # noqa: E402
from provision.locallab.machine import connect  # noqa: E402

PARTS = (
    *("render", "solve", "cold", "rerun", "ubuntu", "workspaces"),
    *("together", "outside", "thousand", "bundle"),
)
# Part (i)'s: what a thousand hosts bear.
MANY_WAYS = ("ours", "ssh", "floor")
# Those that share the project of part (a).
ON_GROUND = {"cold", "rerun", "together", "thousand", "bundle"}
ENVIRONMENT = ROOT / ".venv-bench"


def say(text: str) -> None:
    print(f"bench: {text}", flush=True)


def pyinfra() -> Path:
    """Installs pyinfra, at the version of uv.lock, in its own environment; returns its path."""
    subprocess.run(
        [
            str(Path(sys.executable).parent / "uv"),
            *["sync", "--quiet", "--frozen", "--only-group", "bench"],
            *["--python", sys.executable, "--project", str(ROOT)],
        ],
        check=True,
        env={**os.environ, "UV_PROJECT_ENVIRONMENT": str(ENVIRONMENT)},
    )
    return ENVIRONMENT / "bin" / "pyinfra"


def machine() -> dict[str, Any]:
    """The hardware and versions that the figures depend on, without the machine's name."""
    info = Path("/proc/cpuinfo").read_text("utf-8")
    model = next((line for line in info.splitlines() if line.startswith("model name")), ": unknown")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    ssh = subprocess.run(["ssh", "-V"], capture_output=True, text=True, check=False).stderr
    versions = {
        "ansible-core": metadata.version("ansible-core"),
        "Python": platform.python_version(),
        "OpenSSH": ssh.split(",")[0].removeprefix("OpenSSH_").strip(),
    }
    program = ENVIRONMENT / "bin" / "pyinfra"
    if program.exists():
        output = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
        versions["pyinfra"] = (output.stdout + output.stderr).split()[-1].lstrip("v")
    return {
        "date": datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat(),
        "cores": os.cpu_count(),
        "processor": model.partition(":")[2].strip(),
        "memory_gib": round(memory),
        "system": f"Linux {platform.release().split('-')[0]}",
        "versions": versions,
    }


Measured = tuple[str, dict[str, Any]]


def measured(chosen: argparse.Namespace) -> Iterator[Measured]:
    """(a part, its figures), as they come."""
    with tempfile.TemporaryDirectory(prefix="provision-bench.") as temporary:
        folder = Path(temporary)
        if "render" in chosen.only:
            place, counts = folder / "render", (1000, 10000)
            yield (
                "render",
                rendering.measure(place, counts=counts, rounds=chosen.rounds, say=say),
            )
        if "solve" in chosen.only:
            place, counts = folder / "solve", (100, 10000)
            yield "solve", solving.measure(place, counts=counts, rounds=chosen.rounds, say=say)
        if set(chosen.only) & ON_GROUND:
            yield from on_ground(chosen, folder / "ground")
        if "outside" in chosen.only:
            yield "outside", together.outside(folder, connect(), say=say)
        if "ubuntu" in chosen.only:
            with ubuntu.ground(folder / "ubuntu", connect()) as ground:
                yield "ubuntu", ubuntu.measure(ground, rounds=chosen.cold_rounds, say=say)
        if "workspaces" in chosen.only:
            place = folder / "workspaces"
            place.mkdir()
            yield "workspaces", workspaces.measure(place, rounds=chosen.rounds, say=say)


def on_ground(chosen: argparse.Namespace, folder: Path) -> Iterator[Measured]:
    """The parts of the project of part (a). Re-runs use our host of the last cold round."""
    podman = connect()
    ground = cold.ground(folder, podman, say)
    kept: list[locallab.Lab] = []
    try:
        if "cold" in chosen.only:
            rounds = chosen.cold_rounds
            yield "cold", cold.measure(ground, rounds=rounds, say=say, keep=kept.append)
        if {"rerun", "thousand"} & set(chosen.only):
            yield from converged_hosts(chosen, ground, kept)
    finally:
        for lab in kept:
            lab.down()
    if "together" in chosen.only:
        yield "together", together.measure(ground, rounds=chosen.cold_rounds, say=say)
    if "bundle" in chosen.only:
        place, archive = folder / "bundle", ground.archive.path
        place.mkdir()
        yield (
            "bundle",
            bundling.measure(ground.project, place, archive=archive, rounds=chosen.rounds, say=say),
        )


def converged_hosts(
    chosen: argparse.Namespace, ground: cold.Ground, kept: list[locallab.Lab]
) -> Iterator[Measured]:
    """Re-runs on sshd instances of one host, which is the last of `kept` or made."""
    if not kept:
        kept.append(ground.host("rerun", say))
        say(f"  {cold.ours(ground, kept[0])}")
    target = cold.target(kept[0])
    converged = state.read(ground.podman, target.container, ground.project)
    many: dict[str, Any] = {"ways": MANY_WAYS, "weigh": True}
    for part, counts, rounds, more in (
        ("rerun", chosen.hosts, chosen.rounds, {}),
        ("thousand", chosen.many, chosen.cold_rounds, many),
    ):
        if part in chosen.only:
            place = rerun.Ground(ground.project, ground.folder / part, pyinfra(), converged)
            yield (
                part,
                rerun.measure(
                    ground.podman,
                    target,
                    place,
                    counts=[int(word) for word in counts.split(",")],
                    rounds=rounds,
                    say=say,
                    **more,
                ),
            )


def publish(chosen: argparse.Namespace, results: dict[str, Any]) -> None:
    """Writes the figures with their verdicts, and the page."""
    results["bounds"] = [bound.plain() for bound in bounds.bounds(results)]
    chosen.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    chosen.page.write_text(page.render(results), encoding="utf-8")


def arguments_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PARTS))
    parser.add_argument("--hosts", default="1,10,100", help="of the re-runs")
    parser.add_argument("--many", default="100,300,1000", help="hosts of part (i)")
    parser.add_argument("--rounds", type=int, default=3, help="of all but bare and many hosts")
    parser.add_argument("--cold-rounds", type=int, default=2, help="of bare and of many hosts")
    parser.add_argument("--json", type=Path, default=ROOT / "docs" / "benchmark.json")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "benchmark.md")
    parser.add_argument(
        "--page-only", action="store_true", help="measure nothing: judge what was measured again"
    )
    chosen = parser.parse_args(arguments)
    unknown = set(chosen.only) - set(PARTS)
    if unknown:
        parser.error(f"--only knows {', '.join(PARTS)}, not {', '.join(sorted(unknown))}")
    return chosen


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = arguments_of(arguments)
    results: dict[str, Any] = {}
    if chosen.json.exists():
        results = json.loads(chosen.json.read_text("utf-8"))
    try:
        if not chosen.page_only:
            locallab.sweep(podman=connect())
            for part, figures in measured(chosen):
                today = datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat()
                results[part] = {"date": today, **figures}
                results["machine"] = machine()
                publish(chosen, results)
    except ProvisionError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    if all(results.get(part) for part in PARTS):
        results.pop("notes", None)
    publish(chosen, results)
    for bound in bounds.bounds(results):
        value = "-" if bound.value is None else f"{bound.value:.2f}"
        print(f"({bound.part}) {bound.text}: {value} (at most {bound.limit:g}): {bound.verdict}")
        if bound.met is False and bound.reason:
            print(f"    {bound.reason}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
