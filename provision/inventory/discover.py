"""Asks hosts what they are, and keeps the answers in discovered.yml for the lock.

A host is asked over Ansible's own connection with a few lines of shell, so it needs no Python, and
nothing is changed on it. It answers with its system's own name for itself and with NVIDIA's GPUs on
its PCI bus: enough to choose a platform's packages and a driver.

The file is per project, written whole and in a fixed order without dates: the same hosts give the
same bytes. What the inventory declares must agree with it.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from provision import inputs, run, yaml_text
from provision.catalog import Catalog, gpus, load
from provision.errors import InputError
from provision.inventory.fleet import Fleet
from provision.inventory.words import MODELS, PLATFORM
from provision.models import HostFacts

FILE = "discovered.yml"
HEADER = (
    "Made by `provision discover`, which writes it again. To say what a host is yourself, write\n"
    "gpu_platform and gpu_models in lab/; where both speak, they must agree."
)

# What roles/gpu_state looks at too: os-release(5), uname, and GPUs (VGA and 3D controllers) of
# NVIDIA's on the bus. Shell builtins where there can be hundreds of devices; no Jinja in it.
SCRIPT = """\
echo provision:begin
cat /etc/os-release 2>/dev/null || cat /usr/lib/os-release 2>/dev/null
echo
echo provision:machine "$(uname -m)"
for d in /sys/bus/pci/devices/*; do
v=; k=; i=
{ read -r v <"$d/vendor"; read -r k <"$d/class"; read -r i <"$d/device"; } 2>/dev/null
case "$v/$k" in 0x10de/0x0300*|0x10de/0x0302*) echo provision:gpu "$i";; esac
done
echo provision:end"""


@dataclass(frozen=True)
class SeenGpu:
    """A kind of GPU on a host's bus; `name` is None where the catalog doesn't know the id."""

    id: str
    name: str | None
    count: int


@dataclass(frozen=True)
class Seen:
    """What a host said. `platform` is None where the catalog doesn't know the `system`."""

    platform: str | None
    system: str
    gpus: tuple[SeenGpu, ...]


# asking


def ask(
    project: Path,
    sources: Sequence[str],
    hosts: Sequence[str],
    *,
    catalog: Catalog,
    limit: str | None = None,
    forks: int | None = None,
    vault_password_file: Path | None = None,
) -> tuple[dict[str, Seen], dict[str, str]]:
    """What the hosts answered, and why the others did not; in the order of `hosts`.

    InputError where Ansible can't even begin, and where `limit` or a part of it has no host.
    """
    if limit:
        arguments = run.sourced(sources, vault_password_file)
        done = run.ansible(project, ["all", *arguments, "--limit", limit, "--list-hosts"])
        ignored = re.findall(r"Could not match supplied host pattern, ignoring: (\S+)", done.stderr)
        if ignored:
            raise unmatched_limit(", ".join(ignored))
        meant = {line.strip() for line in done.stdout.splitlines() if line.startswith("    ")}
        hosts = [host for host in hosts if host in meant]
        if not hosts:
            raise InputError(
                "no host to ask",
                where=f"--limit {limit}",
                got=_words(done.stderr),
                expected="hosts that have a gpu_stack",
            )
    found, errors = run.ask(
        project, sources, hosts, SCRIPT, vault_password_file=vault_password_file, forks=forks
    )
    if all(result is None for result in found.values()):
        raise InputError("Ansible ended before it reached a host", got=_words(errors))
    seen: dict[str, Seen] = {}
    failed: dict[str, str] = {}
    for host, result in found.items():
        text, fault = _said(result)
        one = None if fault else parse_answer(text, catalog)
        if one is not None:
            seen[host] = one
        else:
            failed[host] = fault or f"it did not answer what it was asked: {_words(text)}"
    return seen, failed


def unmatched_limit(names: str) -> InputError:
    """The refusal of a --limit of which parts match nothing; Ansible would go on without them."""
    return InputError(
        "--limit names what the inventory does not have; no host was touched",
        got=names,
        expected="hosts, groups or patterns that match a host",
        hint="`ansible-inventory -i lab --graph` lists the hosts and groups",
    )


def _said(result: Mapping[str, Any] | None) -> tuple[str, str]:
    """(what the host printed, why there is nothing)."""
    if result is None:
        return "", "Ansible says nothing of it"
    text = str(result.get("stdout", ""))
    if result.get("unreachable") or (result.get("failed") and "provision:end" not in text):
        return "", _words(str(result.get("msg") or result.get("stderr") or text))
    return text, ""


def _words(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines)[-300:]


def parse_answer(text: str, catalog: Catalog) -> Seen | None:
    """What SCRIPT printed on a host; None where it is not whole."""
    lines = [line.strip() for line in text.splitlines()]
    if "provision:begin" not in lines or "provision:end" not in lines:
        return None
    lines = lines[lines.index("provision:begin") : lines.index("provision:end")]
    release = {}
    for line in lines:
        found = re.fullmatch(r"(ID|VERSION_ID)=([\"']?)(.*)\2", line)
        if found is not None:
            release[found.group(1)] = found.group(3)
    machine = "".join(line.split()[1] for line in lines if re.match(r"provision:machine \S", line))
    mine = (release.get("ID", "unknown"), release.get("VERSION_ID", ""), machine)
    platform = next(
        (
            row.id
            for row in catalog.platforms
            if (row.distribution, row.release, row.architecture) == mine
        ),
        None,
    )
    devices = [line.split()[1] for line in lines if re.match(r"provision:gpu 0x[0-9a-f]{4}$", line)]
    return Seen(platform, " ".join(part for part in mine if part), _counted(devices))


def _counted(devices: Iterable[str]) -> tuple[SeenGpu, ...]:
    """PCI device ids ("0x1eb8") as kinds, in the order of their ids."""
    counts: dict[str, int] = {}
    for device in sorted(devices):
        identity = device.removeprefix("0x")
        counts[identity] = counts.get(identity, 0) + 1
    known = gpus.devices()
    return tuple(
        SeenGpu(f"10de:{one}", known[one][0] if one in known else None, count)
        for one, count in counts.items()
    )


# the file


def dump(seen: Mapping[str, Seen]) -> bytes:
    """discovered.yml's bytes."""
    hosts = {host: _plain(seen[host]) for host in sorted(seen)}
    return yaml_text.dump_lines({"hosts": hosts}, header=HEADER)


def _plain(seen: Seen) -> dict[str, Any]:
    return {
        "platform": seen.platform,
        "system": seen.system,
        "gpus": [dataclasses.asdict(gpu) for gpu in seen.gpus],
    }


def parse(data: bytes, *, where: str) -> dict[str, Seen]:
    """What `dump` wrote; InputError for anything else."""
    hint = "remove it, then `provision discover`"
    document = inputs.load(data, where=where, what=FILE, hint=hint)
    try:
        found = {host: _seen(one) for host, one in document["hosts"].items()}
    except (KeyError, TypeError, AttributeError):
        raise InputError(
            "this is not what `provision discover` writes", where=where, hint=hint
        ) from None
    known = [row.id for row in load().platforms]
    for host, seen in found.items():
        if seen.platform is not None and seen.platform not in known:
            raise InputError(
                f"this version of provision does not know the platform of {host}",
                where=where,
                got=seen.platform,
                expected=" or ".join(known),
                hint=hint,
            )
    return found


def _seen(data: Any) -> Seen:
    found = tuple(SeenGpu(one["id"], one["name"], one["count"]) for one in data["gpus"])
    texts = [data["system"], *(gpu.id for gpu in found)]
    if not all(type(gpu.count) is int for gpu in found):
        raise TypeError
    if not all(isinstance(text, str) for text in texts) or not all(
        text is None or isinstance(text, str)
        for text in (data["platform"], *(gpu.name for gpu in found))
    ):
        raise TypeError
    return Seen(data["platform"], data["system"], found)


# with what the inventory declares


def with_facts(fleet: Fleet, seen: Mapping[str, Seen]) -> Fleet:
    """The fleet with what was seen where nothing is declared. InputError where both differ."""
    facts = dict(fleet.facts)
    known: dict[tuple[HostFacts | None, str, str, Seen], HostFacts] = {}
    for host in fleet.hosts:
        if host in seen:
            one = facts.get(host)
            owners = (one.platform_from, one.gpus_from) if one else ("", "")
            key = (one, *owners, seen[host])
            if key not in known:
                known[key] = _joined(host, one or HostFacts(), seen[host], fleet)
            facts[host] = known[key]
    return dataclasses.replace(fleet, facts=facts)


def _joined(host: str, declared: HostFacts, seen: Seen, fleet: Fleet) -> HostFacts:
    if declared.platform is not None and declared.platform != seen.platform:
        raise _differ(
            f"{host} is not the platform that the inventory says",
            f"{PLATFORM}: {declared.platform}",
            f"{seen.platform or 'no platform of the catalog'} ({seen.system})",
            fleet.sources.where(PLATFORM, near=declared.platform_from) or declared.platform_from,
            host,
        )
    if declared.models and not _agree(declared.models, [gpu.id for gpu in seen.gpus]):
        raise _differ(
            f"{host} has not the GPUs that the inventory says",
            f"{MODELS}: {json.dumps(list(declared.models))}",
            shown(seen.gpus),
            fleet.sources.where(MODELS, near=declared.gpus_from) or declared.gpus_from,
            host,
        )
    ids = gpus.devices()
    known = [gpu.id for gpu in seen.gpus if gpu.id.removeprefix("10de:") in ids]
    return HostFacts(
        platform=seen.platform,
        gpus=declared.gpus or tuple(known),
        models=declared.models,
        unknown=tuple(gpu.id for gpu in seen.gpus if gpu.id not in known),
        system="" if seen.platform else seen.system,
        platform_from=declared.platform_from or FILE,
        gpus_from=declared.gpus_from or (FILE if seen.gpus else ""),
    )


def _differ(message: str, declared: str, seen: str, where: str, host: str) -> InputError:
    return InputError(
        message,
        where=where,
        got=f"{declared}; {FILE}: {seen}",
        hint=f"correct the inventory, or ask the host again: `provision discover --limit {host}`",
    )


def _agree(words: Sequence[str], seen: Sequence[str]) -> bool:
    """Is each device one of those that the words can mean, and each word there?"""
    ids = {identity.removeprefix("10de:") for identity in seen}
    meant = [set(gpus.ids(word)) for word in words]
    return all(one & ids for one in meant) and ids <= set().union(*meant)


def shown(found: Iterable[SeenGpu]) -> str:
    """ "4 x Tesla T4 (10de:1eb8)"."""
    parts = [f"{gpu.count} x {gpu.name or 'unknown GPU'} ({gpu.id})" for gpu in found]
    return ", ".join(parts) or "no NVIDIA GPU"
