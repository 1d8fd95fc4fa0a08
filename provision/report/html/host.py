"""One host of a report as the page shows it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from provision.report import failed_checks
from provision.report.html.views import Bar, Cell, HostView
from provision.report.html.words import BAD, UNKNOWN, component, version
from provision.report.reading import (
    Problem,
    clean,
    counts,
    differences,
    disguise,
    matches,
    moment,
    number,
    plural,
    problems,
)

# A look does not tell these; where no check has told them, nothing is known of them.
ONLY_CHECKED = ("python",)
# What stands in a closed host's one line.
SAID = 200


def host_view(
    name: str, host: dict[str, Any], mode: str, columns: list[str], longest: float
) -> HostView:
    simulated = bool(host.get("simulated_gpu"))
    changes = [_change(one) for one in host.get("changes") or []]
    parts = host.get("components") or {}
    checks: dict[str, list[dict[str, str]]] = {"failed": [], "not_applicable": [], "passed": []}
    for row in host.get("checks") or []:
        entry = {key: clean(row.get(key)) for key in ("title", "detail", "diagnosis", "hint", "id")}
        entry["title"] = entry["title"] or entry["id"]
        checks.get(str(row.get("result")), checks["failed"]).append(entry)
    reboot = host.get("reboot") or {}
    return HostView(
        name=clean(name),
        # Quoted, the anchor is free of spaces and of everything that means something in a link.
        anchor="host-" + quote(clean(name), safe=""),
        status=host["status"],
        said=_said(host),
        simulated=simulated,
        cells=_cells(host, columns),
        gpu_count=_gpu_count(host),
        counts=counts(host),
        seconds=sum(number(part.get("seconds")) for part in parts.values()),
        facts=_facts(host),
        problems=problems(host),
        changes=changes,
        changes_title=_changes_title(host["status"], mode),
        left=[_change(one) for one in host.get("left") or []],
        not_selected=[component(_component_of(one)) for one in host.get("not_selected") or []],
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
        stack=clean(host.get("stack")),
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


def _change(one: dict[str, Any]) -> dict[str, Any]:
    return {
        "component": component(one.get("component")),
        "item": clean(one.get("item")),
        "old": "none" if one.get("from") is None else clean(one["from"]),
        "new": "none" if one.get("to") is None else clean(one["to"]),
        "reason": clean(one.get("reason")),
        "reboot": bool(one.get("reboot")),
        "selected": one.get("selected", True) is not False,
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
    found, wanted = host.get("found") or {}, host.get("wanted") or {}
    looked = bool(host.get("stack")) and host["status"] != "unreachable"
    cells = []
    for key in columns:
        is_, promised = found.get(key), wanted.get(key)
        if is_ is None and key in (host.get("absent") or ()):
            cells.append(Cell("absent"))
        elif is_ is None and (promised is None or key in ONLY_CHECKED or not looked):
            cells.append(Cell(UNKNOWN, state="unknown"))
        elif matches(is_, promised):
            cells.append(Cell(version(is_)))
        else:
            cells.append(
                Cell("none" if is_ is None else version(is_), version(promised), "differs")
            )
    return cells


def _gpu_count(host: dict[str, Any]) -> Cell:
    """The GPUs that the deepest layer asked lists, beside those the host has."""
    found = host.get("found") or {}
    on_bus = len(host.get("gpus") or [])
    driver, tensorflow = found.get("gpus"), found.get("tensorflow_gpus")
    if host["status"] == "unreachable" or not host.get("platform"):
        return Cell(UNKNOWN, state="unknown")
    count = next((int(number(n)) for n in (tensorflow, driver) if n is not None), on_bus)
    expected = max(on_bus, int(number(driver)))
    if count < expected:
        return Cell(str(count), f"{expected}", "differs")
    return Cell(str(count))


def _gpus(host: dict[str, Any]) -> list[dict[str, str]]:
    """The host's GPUs: those on the bus, with what NVML says of each."""
    devices = (host.get("found") or {}).get("gpu_devices")
    told = {
        clean(device.get("pci")): device
        for device in (devices if isinstance(devices, list) else [])
        if isinstance(device, dict)
    }
    asked = isinstance(devices, list)
    rows = []
    for gpu in host.get("gpus") or []:
        address = clean(gpu.get("pci"))
        device = told.pop(address, None)
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
    rows += [_gpu(address, device, "yes", "") for address, device in told.items()]
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
    if disguise(host):
        system += f"; {disguise(host)}"
    facts = [
        ("Platform", system),
        ("Kernel", clean(platform.get("kernel"))),
        ("Stack", clean(host.get("stack"))),
        ("Last proven", moment(host.get("last_proven")) if host.get("last_proven") else "never"),
    ]
    return [(name, value) for name, value in facts if value]


def _said(host: dict[str, Any]) -> str:
    """One line on why the host has its status."""
    status = host["status"]
    if status in BAD:
        found = problems(host)
        bad = failed_checks(host)
        first = found[0].message.strip().partition("\n")[0] or found[0].title
        first = f"{found[0].title}: {first}" if found[0].task else first
        first = first if len(first) <= SAID else first[: SAID - 1] + "…"
        if len(found) > 1:
            what = plural(len(bad), "check") + " failed" if bad else plural(len(found), "blocker")
            return f"{what}; first: {first}"
        return first
    told = differences(host) if status == "drift" else host.get("changes") or []
    changed = list(dict.fromkeys(component(one.get("component")) for one in told))
    if status == "drift":
        return "differs in " + ", ".join(changed) if changed else "differs from its lock"
    said = ["changed " + ", ".join(changed) if changed else "nothing to change"]
    tally = counts(host)
    if tally:
        said.append(f"{plural(tally['passed'], 'check')} passed")
        if tally["not_applicable"]:
            said.append(f"{tally['not_applicable']} not applicable")
    elif host.get("last_proven"):
        said.append(f"last proven {moment(host['last_proven'])}")
    return "; ".join(said)
