"""One host of a report as the page shows it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from provision.report import failed_checks
from provision.report.html.fleet import gpu_models, platform_of
from provision.report.html.views import Bar, Cell, HostView
from provision.report.html.words import BAD, UNKNOWN, component, version
from provision.report.reading import (
    Problem,
    clean,
    counts,
    differences,
    matches,
    moment,
    number,
    plural,
    problems,
    userland_note,
)

# Components whose version only a check reports; the look does not.
ONLY_CHECKED = ("python",)
# The longest summary of a closed host, in characters.
SUMMARY = 200


def host_view(
    name: str, host: dict[str, Any], mode: str, columns: list[str], longest: float
) -> HostView:
    """The view of one host; `longest` is the run's longest component time, in seconds."""
    simulated = bool(host.get("simulated_gpu"))
    changes = [_change(change) for change in host.get("changes") or []]
    parts = host.get("components") or {}
    checks: dict[str, list[dict[str, str]]] = {"failed": [], "not_applicable": [], "passed": []}
    for row in host.get("checks") or []:
        entry = {key: clean(row.get(key)) for key in ("title", "detail", "diagnosis", "hint", "id")}
        entry["title"] = entry["title"] or entry["id"]
        checks.get(str(row.get("result")), checks["failed"]).append(entry)
    reboot = host.get("reboot") or {}
    return HostView(
        key=name,
        name=clean(name),
        # Quoted: without spaces and characters that have a meaning in a link.
        anchor="host-" + quote(clean(name), safe=""),
        status=host["status"],
        summary=_summary(host),
        simulated=simulated,
        cells=_cells(host, columns),
        gpu_count=_gpu_count(host),
        counts=counts(host),
        seconds=sum(number(part.get("seconds")) for part in parts.values()),
        facts=_facts(host),
        problems=problems(host),
        changes=changes,
        changes_title=_changes_title(host["status"], mode),
        left=[_change(change) for change in host.get("left") or []],
        not_selected=[
            component(_component_of(change)) for change in host.get("not_selected") or []
        ],
        warnings=[
            Problem(
                component(row.get("component") or ""),
                clean(row.get("message")),
                clean(row.get("hint")),
            )
            for row in host.get("warnings") or []
        ],
        reboot=clean(reboot.get("reason") or "needed") if reboot.get("needed") else "",
        checks=checks,
        gpus=_gpus(host),
        gpu_models=gpu_models(host),
        stack=clean(host.get("stack")),
        groups=sorted({clean(group) for group in host.get("groups") or []}),
        platform=platform_of(host),
        last_proven=moment(host.get("last_proven")) if host.get("last_proven") else "never",
        kernel=clean((host.get("platform") or {}).get("kernel")),
        bars=[
            Bar(
                component(key),
                number(part.get("seconds")),
                100 * number(part.get("seconds")) / longest if longest else 0.0,
                bool(part.get("changed")),
            )
            for key, part in parts.items()
        ],
    )


def _component_of(item: Any) -> Any:
    return item.get("component") if isinstance(item, dict) else item


def _change(change: dict[str, Any]) -> dict[str, Any]:
    return {
        "component": component(change.get("component")),
        "item": clean(change.get("item")),
        "old": "none" if change.get("from") is None else clean(change["from"]),
        "new": "none" if change.get("to") is None else clean(change["to"]),
        "reason": clean(change.get("reason")),
        "reboot": bool(change.get("reboot")),
        "selected": change.get("selected", True) is not False,
    }


def _changes_title(status: str, mode: str) -> str:
    if mode == "check":
        return "What a run would change"
    if mode == "verify":
        return "What differs from the lock"
    if status in ("proven", "converged"):
        return "What changed"
    return "What was to change"


def _cells(host: dict[str, Any], columns: list[str]) -> list[Cell]:
    versions, locked_versions = host.get("found") or {}, host.get("wanted") or {}
    looked = bool(host.get("stack")) and host["status"] != "unreachable"
    cells = []
    for key in columns:
        actual, expected = versions.get(key), locked_versions.get(key)
        if actual is None and key in (host.get("absent") or ()):
            cells.append(Cell("absent"))
        elif actual is None and (expected is None or key in ONLY_CHECKED or not looked):
            cells.append(Cell(UNKNOWN, state="unknown"))
        elif matches(actual, expected):
            cells.append(Cell(version(actual)))
        else:
            cells.append(
                Cell("none" if actual is None else version(actual), version(expected), "differs")
            )
    return cells


def _gpu_count(host: dict[str, Any]) -> Cell:
    """How many GPUs TensorFlow lists, else the driver, else the bus; the host's if it has more."""
    answers = host.get("found") or {}
    on_bus = len(host.get("gpus") or [])
    driver, tensorflow = answers.get("gpus"), answers.get("tensorflow_gpus")
    if host["status"] == "unreachable" or not host.get("platform"):
        return Cell(UNKNOWN, state="unknown")
    count = next((int(number(n)) for n in (tensorflow, driver) if n is not None), on_bus)
    expected = max(on_bus, int(number(driver)))
    if count < expected:
        return Cell(str(count), f"{expected}", "differs")
    return Cell(str(count))


def _gpus(host: dict[str, Any]) -> list[dict[str, str]]:
    """The host's GPUs: those on the bus with NVML's facts of each, then those NVML alone lists."""
    devices = (host.get("found") or {}).get("gpu_devices")
    by_address = {
        clean(device.get("pci")): device
        for device in (devices if isinstance(devices, list) else [])
        if isinstance(device, dict)
    }
    asked = isinstance(devices, list)
    rows = []
    for gpu in host.get("gpus") or []:
        address = clean(gpu.get("pci"))
        device = by_address.pop(address, None)
        if device is not None:
            usable = "yes"
        elif asked or gpu.get("usable") is False:
            usable = "no: the driver does not show it"
        else:
            usable = "not asked"
        rows.append(
            _gpu(address, device or {}, usable, clean(gpu.get("name") or gpu.get("device")))
        )
    # A container may hide its bus.
    rows += [_gpu(address, device, "yes", "") for address, device in by_address.items()]
    return rows


def _gpu(address: str, device: dict[str, Any], usable: str, name: str) -> dict[str, str]:
    return {
        "pci": address,
        "name": clean(device.get("name")) or (f"device {name}" if name.startswith("0x") else name),
        "uuid": clean(device.get("uuid")),
        "memory": clean(device.get("memory")),
        "usable": usable,
    }


def _facts(host: dict[str, Any]) -> list[tuple[str, str]]:
    platform = host.get("platform") or {}
    words = [platform.get("pretty"), platform.get("architecture")]
    if not words[0]:
        words = [platform.get(key) for key in ("distribution", "release", "architecture")]
    system = " ".join(clean(word) for word in words if word)
    if system and host.get("container"):
        system += ", in a container"
    if userland_note(host):
        system += f"; {userland_note(host)}"
    facts = [
        ("Platform", system),
        ("Kernel", clean(platform.get("kernel"))),
        ("Groups", ", ".join(sorted(clean(group) for group in host.get("groups") or []))),
        ("Stack", clean(host.get("stack"))),
        ("Last proven", moment(host.get("last_proven")) if host.get("last_proven") else "never"),
    ]
    return [(name, value) for name, value in facts if value]


def _summary(host: dict[str, Any]) -> str:
    """One line on why the host has its status."""
    status = host["status"]
    if status in BAD:
        causes = problems(host)
        failed = failed_checks(host)
        first = causes[0].message.strip().partition("\n")[0] or causes[0].title
        first = f"{causes[0].title}: {first}" if causes[0].task else first
        first = first if len(first) <= SUMMARY else first[: SUMMARY - 1] + "…"
        if len(causes) > 1:
            number = f"{plural(len(failed), 'check')} failed" if failed else ""
            return f"{number or plural(len(causes), 'blocker')}; first: {first}"
        return first
    changes = differences(host) if status == "drift" else host.get("changes") or []
    changed = list(dict.fromkeys(component(change.get("component")) for change in changes))
    if status == "drift":
        return "differs in " + ", ".join(changed) if changed else "differs from its lock"
    parts = ["changed " + ", ".join(changed) if changed else "nothing to change"]
    tally = counts(host)
    if tally:
        parts.append(f"{plural(tally['passed'], 'check')} passed")
        if tally["not_applicable"]:
            parts.append(f"{tally['not_applicable']} not applicable")
    elif host.get("last_proven"):
        parts.append(f"last proven {moment(host['last_proven'])}")
    return "; ".join(parts)
