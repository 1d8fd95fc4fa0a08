"""Makes a GPU of a running lab's host sick, and healthy again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from provision.errors import InputError, MachineError
from provision.locallab import existing, gpu, health
from provision.locallab.machine import (
    Podman,
    cache_directory,
    connect,
    locked,
    write_atomically,
)

# Beside the files, so that a rename is atomic; hidden, so that nobody takes it for one of them.
NEW = "/etc/.gpu-simulated.new"


def sicken(
    name: str,
    host: str,
    values: Mapping[str, str | None] | None = None,
    *,
    number: int | None = None,
    cure: bool = False,
    state_dir: Path | None = None,
) -> dict[str, str]:
    """Set these keys of GPU `number`, or of the host; a key whose value is None is taken back.

    With `cure` all that was set before is taken back first: of the GPU, or of the host and all its
    GPUs where none is named. Whoever watches sees the old lines or the new ones, none in between.
    Returns the lines that are set then. `state_dir` says which, where several labs have the name.
    Raises InputError for a host, GPU, key or value that is not there; MachineError otherwise.
    """
    podman, cached = connect(), cache_directory()
    entry = _container(podman, cached, name, host, state_dir)
    container = entry["Names"][0]
    with locked(cached / "simulated-gpu.lock"):
        before = _read(podman, container, host)
        pairs = gpu.parse(before)
        model, count = pairs.get("name", ""), int(pairs.get("count", "0"))
        gpu.keys_of(model, count).check(values or {}, gpu=number)
        changes: dict[str, str | None] = {}
        if cure:
            changes = {line: None for line in _lines(pairs) if _concerns(line, number)}
        prefix = "" if number is None else f"gpu{number}."
        changes |= {f"{prefix}{key}": value for key, value in (values or {}).items()}
        after = health.edited(before, changes)
        lines = _lines(gpu.parse(after))
        xids = health.xids(lines)
        if xids != health.xids(_lines(pairs)):
            _write(podman, container, gpu.LOG, gpu.kernel_log(host, xids))
        if after != before:
            _write(podman, container, gpu.CONFIG, after)
            _write_links(Path(entry["Labels"]["provision.state"], "hosts", host), model, lines)
    return lines


def _container(
    podman: Podman, cached: Path, name: str, host: str, state_dir: Path | None
) -> Mapping[str, Any]:
    """Podman's entry of this host. Raises InputError where it isn't a container that runs."""
    labels = {"lab": name, "host": host}
    if state_dir:
        labels["state"] = str(state_dir.resolve())
    present = existing.find(podman, cached, **labels)
    if present.guests:
        raise InputError(
            "a virtual machine's GPU can't be made sick: nothing is simulated there", got=host
        )
    if not present:
        raise InputError(
            f"there is no host {host} in a lab {name}",
            hint="see which there are: provision lab status",
        )
    if len(present.containers) > 1:
        raise InputError(
            f"there are {len(present.containers)} labs named {name}",
            got=", ".join(sorted(label["state"] for label in present.labels())),
            hint="say which by its state directory",
        )
    entry = present.containers[0]
    if entry["State"] != "running":
        raise InputError(f"{host} does not run", got=entry["State"])
    return entry


def _read(podman: Podman, container: str, host: str) -> str:
    done = podman.run("exec", container, "cat", gpu.CONFIG, timeout=60)
    if done.returncode == 1:  # cat's: there is no such file
        raise InputError(f"{host} has no simulated GPU", got=f"{gpu.CONFIG} is missing")
    if done.returncode:
        raise MachineError(
            f"{host} can't be looked at", got=done.stderr.decode("utf-8", "replace").strip()
        )
    return done.stdout.decode("utf-8", "replace")


def _write(podman: Podman, container: str, path: str, text: str) -> None:
    podman.call("exec", "--interactive", container, "tee", NEW, stdin=text.encode())
    podman.call("exec", container, "mv", "--force", NEW, path)


def _lines(pairs: Mapping[str, str]) -> dict[str, str]:
    """The lines that say what is sick."""
    return {line: value for line, value in pairs.items() if health.owner(line) is not None}


def _concerns(line: str, number: int | None) -> bool:
    return number is None or health.owner(line) == number


def _write_links(place: Path, model: str, lines: Mapping[str, str]) -> None:
    """The PCI entries of the host agree with what NVML says of each card's link."""
    row = gpu.model(model)
    for where in sorted(path.parent.name for path in (place / "pci").glob("*/current_link_width")):
        number = gpu.number(where)
        prefix = f"gpu{number}."
        sick = {
            line.removeprefix(prefix): value
            for line, value in lines.items()
            if line.startswith(prefix)
        }
        for name, text in gpu.link(where, row, sick).items():
            write_atomically(place / "pci" / name, text.encode())
