"""Part (a): a bare host to a proven one, against the same steps as one shell script."""

from __future__ import annotations

import datetime
import json
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench import fleet, processes, spending, state
from provision import locallab
from provision.locallab import cudnn_archive
from provision.locallab.machine import Podman, cache_directory

ROOT = Path(__file__).resolve().parents[1]
WAYS = Path(__file__).parent / "ways"
# Actions that work on the controller and send nothing to a host.
CONTROLLER = {
    *("assert", "debug", "fail", "group_by", "include_role", "include_tasks", "include_vars"),
    *("meta", "set_fact", "validate_argument_spec"),
}
BIN = Path(sys.executable).parent
sys.path.insert(0, str(ROOT / "scripts"))
sys.path.append(str(ROOT / ".venv" / "collections"))
import demo  # noqa: E402  the same preparation as `make demo`
from ansible_collections.provision.gpu.plugins.module_utils import proof  # noqa: E402

PIP_CACHE = "/var/cache/lab/pip"
Say = Callable[[str], None]


@dataclass
class Ground:
    """A project that is rendered once, and bare hosts for it."""

    project: Path
    folder: Path
    archive: cudnn_archive.CudnnArchive
    podman: Podman

    def host(self, name: str, say: Say) -> locallab.Lab:
        """A fresh bare host; the same image, caches and settings for every way."""
        say(f"a bare host: {name}")
        # A fleet is this host a thousand times, with three processes for each open connection:
        # podman's own limit is 2048.
        shape = locallab.Shape(arguments=("--pids-limit=-1",))
        return locallab.up(f"bench-{name}", shape, state_dir=self.folder / name, hosts=[name])


def ground(folder: Path, podman: Podman, say: Say) -> Ground:
    """Creates the project: inventory, lock and tree, with the cuDNN archive of the demo."""
    project = folder / "project"
    folder.mkdir(parents=True, exist_ok=True)
    archive = cudnn_archive.pack(cache_directory(), progress=say)
    result = Ground(project, folder, archive, podman)
    lab = result.host("first", say)
    try:
        demo.write_inventory(project, lab, archive)
        for command in (["lock", "--project", str(project)], ["render", str(project)]):
            if demo.provision(*command):
                raise SystemExit("the project could not be made")
    finally:
        lab.down()
    return result


def target(lab: locallab.Lab) -> fleet.Target:
    """The lab's one host, for a fleet of sshd instances."""
    host = lab.hosts[0]
    _address, kind, key = lab.known_hosts.read_text("ascii").split()[:3]
    return fleet.Target(host.address, host.user, host.key_file, host.container, f"{kind} {key}")


def ours(ground: Ground, lab: locallab.Lab) -> dict[str, Any]:
    """The rendered project on a bare host, as a person runs it; seconds to each point."""
    demo.write_inventory(ground.project, lab, ground.archive)
    return playbook(ground.project, ground.folder)


def playbook(project: Path, folder: Path) -> dict[str, Any]:
    """One run of a project whose inventory names a bare host; its log and events in `folder`."""
    masters = folder / "masters"
    masters.mkdir(exist_ok=True)
    report = folder / "report"
    shutil.rmtree(report, ignore_errors=True)
    started = time.time()
    cost = processes.measure(
        [str(BIN / "ansible-playbook"), "site.yml", "-i", "lab"],
        log=folder / "ours.log",
        cwd=project,
        environment={
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(masters),
            "PROVISION_REPORT_DIR": str(report),
        },
        afterwards=lambda: fleet.close_masters(masters),
    )
    if cost.exit:
        raise SystemExit(f"the cold run failed: {_tail(folder / 'ours.log')}")
    events = [
        json.loads(line) for line in (report / "events.jsonl").read_text("utf-8").splitlines()
    ]
    return points(events, started, cost.wall)


def modules(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The results of what was sent to a host and ran there."""
    return [
        event
        for event in events
        if event["event"] == "host_result"
        and event["status"] != "skipped"
        and event["action"].rpartition(".")[2] not in CONTROLLER
    ]


def points(events: list[dict[str, Any]], started: float, wall: float) -> dict[str, Any]:
    """Seconds until everything was installed, was proven by the run, and was verified.

    The checks of verify/ are a play after the proof. `steps`: modules that the host ran until
    everything was installed; `long`: the sum of those of 1 s or more; `spent`: on what (one host).
    """
    installed = next(e for e in events if e["event"] == "task" and "Proof |" in e["task"])
    verify = next(e for e in events if e["event"] == "play" and e["play"] == "Verify")
    results = modules(events[: events.index(installed)])
    steps = [event["seconds"] for event in results]
    until = round(_seconds(installed) - started, 1)
    one_host = len({event.get("host") for event in results}) == 1
    return {
        "installed": until,
        "proven": round(_seconds(verify) - started, 1),
        "verified": round(wall, 1),
        "steps": len(steps),
        "long": round(sum(seconds for seconds in steps if seconds >= 1), 1),
        **({"spent": spending.spent(results, until)} if one_host else {}),
    }


def _seconds(event: dict[str, Any]) -> float:
    return datetime.datetime.fromisoformat(event["time"].replace("Z", "+00:00")).timestamp()


def by_hand(ground: Ground, lab: locallab.Lab, converged: dict[str, Any]) -> dict[str, float]:
    """The same steps as one script over plain ssh; seconds to each point."""
    script = ground.folder / "by_hand.sh"
    script.write_text(
        variables(ground, converged) + (WAYS / "by_hand.sh").read_text("utf-8"), "utf-8"
    )
    (requirements,) = (ground.project / "stacks").glob("*.requirements.txt")
    return typed(
        lab,
        ground.folder / "by_hand.log",
        ("sudo sh -c 'cat > /var/tmp/cudnn.tgz'", ground.archive.path),
        ("sudo sh -c 'cat > /var/tmp/requirements.txt'", requirements),
        ("sudo bash -s", script),
    )


def typed(
    lab: locallab.Lab,
    log: Path,
    *commands: tuple[str, Path],
    points: Sequence[str] = ("installed", "proven"),
) -> dict[str, float]:
    """Commands on a host over plain ssh, each with a file as its input; seconds to each point."""
    host = lab.hosts[0]
    ssh = [
        *["ssh", *lab.ssh_arguments(), "-o", "BatchMode=yes"],
        *["-i", str(host.key_file), f"{host.user}@{host.address}"],
    ]
    started = time.time()
    with log.open("wb") as stream:
        for command, source in commands:
            with source.open("rb") as data:
                code = subprocess.run(
                    [*ssh, command], stdin=data, stdout=stream, stderr=stream, check=False
                ).returncode
            if code:
                raise SystemExit(f"the script failed: {_tail(log)}")
    moments = dict(
        line.split()[1:3]
        for line in log.read_text("utf-8", "replace").splitlines()
        if line.startswith("BENCH ")
    )
    return {name: round(float(moments[name]) - started, 1) for name in points if name in moments}


def limits(
    lab: locallab.Lab, folder: Path, assignments: str, *files: tuple[str, Path], say: Say
) -> dict[str, float]:
    """What the resources take at least on a host by hand; {} where it can't be measured there.

    `assignments`: the variables of limits.sh, as shell. `files` are sent before it, and their time
    is the line's.
    """
    script = folder / "limits.sh"
    script.write_text(assignments + (WAYS / "limits.sh").read_text("utf-8"), "utf-8")
    points = ("begun", *spending.MOMENTS)
    log = folder / "limits.log"
    try:
        moments = typed(lab, log, *files, ("sudo -H bash -s", script), points=points)
    except SystemExit as error:  # what was measured of the ways is not lost by it
        say(f"the limits were not measured: {error}")
        return {}
    least = spending.limits(moments)
    least["line"] = round(least["line"] + (moments["begun"] if files else 0.0), 1)
    say(f"limits: {least}")
    return least


def hand_limits(
    ground: Ground, lab: locallab.Lab, converged: dict[str, Any], say: Say
) -> dict[str, float]:
    """Those of part (a): the locked packages, cuDNN's archive and the wheels again."""
    (requirements,) = (ground.project / "stacks").glob("*.requirements.txt")
    pip = shlex.join(
        [
            *[f"{converged['venv']}/bin/python", "-m", "pip", "download", "--quiet", "--no-deps"],
            *["--require-hashes", "--only-binary=:all:", "--no-input", "--dest", "wheels"],
            *["--disable-pip-version-check", "--cache-dir", PIP_CACHE],
            *["--requirement", "/root/limits.txt"],
        ]
    )
    apt = "apt-get -q --yes --download-only --reinstall --allow-change-held-packages install "
    names = " ".join(converged["packages"])
    assignments = spending.variables(
        f"apt-get clean; {apt}{names}; {pip}",
        "/var/cache/apt/archives/*.deb",
        "/root/limits.tgz",
        "wheels/*.whl",
        "",
    )
    return limits(
        lab,
        ground.folder,
        assignments,
        ("sudo sh -c 'cat > /root/limits.tgz'", ground.archive.path),
        ("sudo sh -c 'cat > /root/limits.txt'", requirements),
        say=say,
    )


def _tail(log: Path) -> str:
    """A log's last lines, for the error: the benchmark removes its folder."""
    return "\n".join(["", *log.read_text("utf-8", "replace").splitlines()[-25:]])


def variables(ground: Ground, converged: dict[str, Any]) -> str:
    """The script's variables: files and versions exactly as on the converged host."""
    lock = yaml.safe_load((ground.project / "stacks" / "gpu_lock.yml").read_text("utf-8"))[
        "gpu_lock"
    ]
    (row,) = lock["stacks"].values()
    apt = [path for path in converged["files"] if path.startswith("/etc/apt/")]
    root, name = converged["cudnn"].rsplit("/", 1)
    values = {
        "write_apt_files": _writes(converged, apt),
        "write_files": _writes(converged, [path for path in converged["files"] if path not in apt]),
        "specs": " ".join(f"{n}={v}" for n, v in converged["packages"].items()),
        "names": " ".join(converged["packages"]),
        "cudnn_sha256": row["cudnn"]["sha256"],
        "cudnn_root": root,
        "cudnn_name": name,
        "venv": converged["venv"],
        "pip_cache": PIP_CACHE,
        "xla": f"--xla_gpu_cuda_data_dir={row['gpu_env']['xla_cuda_data_dir']}",
        "devices": proof.DEVICES,
        "fit": proof.FIT,
    }
    return "".join(f"{key}={shlex.quote(value)}\n" for key, value in values.items())


def _writes(converged: dict[str, Any], paths: list[str]) -> str:
    lines = []
    for path in paths:
        text = state.content(converged, path).decode()
        lines.append(f"install -d -m 0755 {shlex.quote(str(Path(path).parent))}")
        lines.append(f"printf %s {shlex.quote(text)} >{shlex.quote(path)}")
        lines.append(f"chmod {converged['files'][path]['mode']} {shlex.quote(path)}")
    return "\n".join(lines)


def same(left: dict[str, Any], right: dict[str, Any]) -> list[str]:
    """The keys in which two hosts' states differ, without our own manifest of cuDNN."""

    def comparable(host: dict[str, Any]) -> dict[str, Any]:
        files = {k: v for k, v in host["cudnn_files"].items() if not k.startswith(".provision")}
        return host | {"cudnn_files": files}

    first, second = comparable(left), comparable(right)
    return [key for key in first if first[key] != second[key]]


def measure(
    ground: Ground, *, rounds: int, say: Say, keep: Callable[[locallab.Lab], None]
) -> dict[str, Any]:
    """Measures ours and by hand in turn, each on a new bare host; `keep` gets our last host."""
    results: dict[str, Any] = {"ours": [], "by_hand": []}
    if not warm():
        say("the caches are empty: one run that is not counted")
        lab = ground.host("warmup", say)
        try:
            say(f"  {ours(ground, lab)}")
        finally:
            lab.down()
    for number in range(rounds):
        lab = ground.host(f"ours{number + 1}", say)
        try:
            results["ours"].append(ours(ground, lab))
            say(f"ours: {results['ours'][-1]}")
            converged = state.read(ground.podman, lab.hosts[0].container, ground.project)
        except BaseException:
            lab.down()
            raise
        if number + 1 < rounds:
            lab.down()
        else:
            keep(lab)
        lab = ground.host(f"hand{number + 1}", say)
        try:
            results["by_hand"].append(by_hand(ground, lab, converged))
            say(f"by hand: {results['by_hand'][-1]}")
            by_script = state.read(ground.podman, lab.hosts[0].container, ground.project)
            if number + 1 == rounds:
                results["limits"] = hand_limits(ground, lab, converged, say)
        finally:
            lab.down()
        differs = same(converged, by_script)
        if differs:
            raise SystemExit(f"the script by hand leaves another state: {', '.join(differs)}")
    return results


def warm() -> bool:
    """Has an earlier run filled the package cache?"""
    return any((cache_directory() / "apt").rglob("nvidia-cuda-dev_*.deb"))
