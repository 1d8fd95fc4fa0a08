"""`make bench`: measures ratios to other ways; writes docs/benchmark.json and docs/benchmark.md.

Exits with 0 whatever the ratios are: a time is no test, and a bound that is not met is only
reported. Parts that are not measured now keep the figures and date of their last run.
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
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench import (  # noqa: E402
    cold,
    figures,
    page,
    rendering,
    rerun,
    solving,
    state,
    ubuntu,
    workspaces,
)
from provision import locallab  # noqa: E402
from provision.errors import ProvisionError  # noqa: E402
from provision.locallab.machine import connect  # noqa: E402

PARTS = ("render", "solve", "cold", "rerun", "ubuntu", "workspaces")
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


def hosts(chosen: argparse.Namespace, results: dict[str, Any], today: str) -> None:
    """Measures the parts that need hosts. Re-runs use our host of the last cold round."""
    podman = connect()
    locallab.sweep(podman=podman)
    with tempfile.TemporaryDirectory(prefix="provision-bench.") as temporary:
        folder = Path(temporary)
        ground = cold.ground(folder, podman, say)
        kept: list[locallab.Lab] = []
        try:
            if "cold" in chosen.only:
                measured = cold.measure(
                    ground, rounds=chosen.cold_rounds, say=say, keep=kept.append
                )
                results["cold"] = {"date": today, **measured}
            if "rerun" in chosen.only:
                if not kept:
                    kept.append(ground.host("rerun", say))
                    say(f"  {cold.ours(ground, kept[0])}")
                target = cold.target(kept[0])
                converged = state.read(podman, target.container, ground.project)
                rerun_ground = rerun.Ground(ground.project, folder / "rerun", pyinfra(), converged)
                counts = [int(word) for word in chosen.hosts.split(",")]
                measured = rerun.measure(
                    podman, target, rerun_ground, counts=counts, rounds=chosen.rounds, say=say
                )
                results["rerun"] = {"date": today, **measured}
        finally:
            for lab in kept:
                lab.down()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PARTS))
    parser.add_argument("--hosts", default="1,10,100", help="of the re-runs")
    parser.add_argument("--rounds", type=int, default=3, help="of re-runs, renders, workspaces")
    parser.add_argument("--cold-rounds", type=int, default=2, help="of both kinds of bare hosts")
    parser.add_argument("--json", type=Path, default=ROOT / "docs" / "benchmark.json")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "benchmark.md")
    chosen = parser.parse_args(arguments)
    unknown = set(chosen.only) - set(PARTS)
    if unknown:
        parser.error(f"--only knows {', '.join(PARTS)}, not {', '.join(sorted(unknown))}")
    results: dict[str, Any] = {}
    if chosen.json.exists():
        results = json.loads(chosen.json.read_text("utf-8"))
    today = datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat()
    try:
        if "render" in chosen.only:
            with tempfile.TemporaryDirectory(prefix="provision-bench.") as folder:
                measured = rendering.measure(
                    Path(folder), counts=(1000, 10000), rounds=chosen.rounds, say=say
                )
            results["render"] = {"date": today, **measured}
        if "solve" in chosen.only:
            with tempfile.TemporaryDirectory(prefix="provision-bench.") as folder:
                measured = solving.measure(
                    Path(folder), counts=(100, 10000), rounds=chosen.rounds, say=say
                )
            results["solve"] = {"date": today, **measured}
        if set(chosen.only) & {"cold", "rerun"}:
            hosts(chosen, results, today)
        if "ubuntu" in chosen.only:
            with (
                tempfile.TemporaryDirectory(prefix="provision-bench.") as folder,
                ubuntu.ground(Path(folder), connect()) as ground,
            ):
                measured = ubuntu.measure(ground, rounds=chosen.cold_rounds, say=say)
            results["ubuntu"] = {"date": today, **measured}
        if "workspaces" in chosen.only:
            with tempfile.TemporaryDirectory(prefix="provision-bench.") as folder:
                measured = workspaces.measure(Path(folder), rounds=chosen.rounds, say=say)
            results["workspaces"] = {"date": today, **measured}
    except ProvisionError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    if all(results.get(part) for part in PARTS):
        results.pop("notes", None)
    results["machine"] = machine()
    results["bounds"] = [bound.plain() for bound in figures.bounds(results)]
    chosen.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    chosen.page.write_text(page.render(results), encoding="utf-8")
    for bound in figures.bounds(results):
        value = "-" if bound.value is None else f"{bound.value:.2f}"
        print(f"({bound.part}) {bound.text}: {value} (at most {bound.limit:g}): {bound.verdict}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
