"""Asks hosts for their system and GPUs, and keeps the answers in discovered.yml for the lock.

A host is asked over Ansible's own connection with a few lines of shell, so it needs no Python, and
nothing is changed on it. The answer has os-release's names and the NVIDIA GPUs on the PCI bus:
enough to choose a platform's packages and a driver.

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

# The same sources as roles/gpu_state: os-release(5), uname, and NVIDIA's GPUs (VGA and 3D
# controllers) on the bus. Shell builtins, since there can be hundreds of devices; no Jinja.
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
    """A host's answer. `platform` is None where the catalog doesn't know the `system`."""

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
    """(host -> its answer, host -> why it has none), in the order of `hosts`.

    InputError where Ansible can't start, and where `limit` or a part of it matches no host.
    """
    if limit:
        arguments = run.sourced(sources, vault_password_file)
        done = run.ansible(project, ["all", *arguments, "--limit", limit, "--list-hosts"])
        words = r"Could not match supplied host pattern, ignoring: (\S+)"
        ignored = re.findall(words, run.unwrapped(done.stderr))
        if ignored:
            raise unmatched_limit(", ".join(ignored))
        matched = {line.strip() for line in done.stdout.splitlines() if line.startswith("    ")}
        hosts = [host for host in hosts if host in matched]
        if not hosts:
            raise InputError(
                "no host to ask",
                where=f"--limit {limit}",
                got=_one_line(done.stderr),
                expected="hosts that have a gpu_stack",
            )
    results, errors = run.ask(
        project, sources, hosts, SCRIPT, vault_password_file=vault_password_file, forks=forks
    )
    if all(result is None for result in results.values()):
        raise InputError("Ansible ended before it reached a host", got=_one_line(errors))
    answers: dict[str, Seen] = {}
    failed: dict[str, str] = {}
    for host, result in results.items():
        text, fault = _output(result)
        answer = None if fault else parse_answer(text, catalog)
        if answer is not None:
            answers[host] = answer
        else:
            failed[host] = fault or f"it did not answer what it was asked: {_one_line(text)}"
    return answers, failed


def unmatched_limit(names: str) -> InputError:
    """The error for a --limit of which parts match nothing; Ansible alone would ignore them."""
    return InputError(
        "--limit names what the inventory does not have; no host was touched",
        got=names,
        expected="hosts, groups or patterns that match a host",
        hint="`ansible-inventory -i lab --graph` lists the hosts and groups",
    )


def _output(result: Mapping[str, Any] | None) -> tuple[str, str]:
    """(what the host printed, why it printed nothing)."""
    if result is None:
        return "", "Ansible says nothing of it"
    text = str(result.get("stdout", ""))
    if result.get("unreachable") or (result.get("failed") and "provision:end" not in text):
        return "", _one_line(str(result.get("msg") or result.get("stderr") or text))
    return text, ""


def _one_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines)[-300:]


def parse_answer(text: str, catalog: Catalog) -> Seen | None:
    """The answer that SCRIPT printed on a host; None where it is incomplete."""
    lines = [line.strip() for line in text.splitlines()]
    if "provision:begin" not in lines or "provision:end" not in lines:
        return None
    lines = lines[lines.index("provision:begin") : lines.index("provision:end")]
    release = {}
    for line in lines:
        match = re.fullmatch(r"(ID|VERSION_ID)=([\"']?)(.*)\2", line)
        if match is not None:
            release[match.group(1)] = match.group(3)
    machine = "".join(line.split()[1] for line in lines if re.match(r"provision:machine \S", line))
    system = (release.get("ID", "unknown"), release.get("VERSION_ID", ""), machine)
    platform = next(
        (
            row.id
            for row in catalog.platforms
            if (row.distribution, row.release, row.architecture) == system
        ),
        None,
    )
    devices = [line.split()[1] for line in lines if re.match(r"provision:gpu 0x[0-9a-f]{4}$", line)]
    return Seen(platform, " ".join(part for part in system if part), _counted(devices))


def _counted(devices: Iterable[str]) -> tuple[SeenGpu, ...]:
    """The kinds of GPU of PCI device ids ("0x1eb8"), sorted by id."""
    counts: dict[str, int] = {}
    for device in sorted(devices):
        identity = device.removeprefix("0x")
        counts[identity] = counts.get(identity, 0) + 1
    devices_by_id = gpus.devices()
    return tuple(
        SeenGpu(
            f"10de:{identity}",
            devices_by_id[identity][0] if identity in devices_by_id else None,
            count,
        )
        for identity, count in counts.items()
    )


# the file


def dump(answers: Mapping[str, Seen]) -> bytes:
    """discovered.yml's bytes."""
    hosts = {host: _plain(answers[host]) for host in sorted(answers)}
    return yaml_text.dump_lines({"hosts": hosts}, header=HEADER)


def _plain(answer: Seen) -> dict[str, Any]:
    return {
        "platform": answer.platform,
        "system": answer.system,
        "gpus": [dataclasses.asdict(gpu) for gpu in answer.gpus],
    }


def parse(data: bytes, *, where: str) -> dict[str, Seen]:
    """The answers that `dump` wrote; InputError for anything else."""
    hint = "remove it, then `provision discover`"
    document = inputs.load(data, where=where, subject=FILE, hint=hint)
    try:
        answers = {host: _seen(data) for host, data in document["hosts"].items()}
    except (KeyError, TypeError, AttributeError):
        raise InputError(
            "this is not what `provision discover` writes", where=where, hint=hint
        ) from None
    platforms = [row.id for row in load().platforms]
    for host, answer in answers.items():
        if answer.platform is not None and answer.platform not in platforms:
            raise InputError(
                f"this version of provision does not know the platform of {host}",
                where=where,
                got=answer.platform,
                expected=" or ".join(platforms),
                hint=hint,
            )
    return answers


def _seen(data: Any) -> Seen:
    kinds = tuple(SeenGpu(gpu["id"], gpu["name"], gpu["count"]) for gpu in data["gpus"])
    texts = [data["system"], *(gpu.id for gpu in kinds)]
    if not all(type(gpu.count) is int for gpu in kinds):
        raise TypeError
    if not all(isinstance(text, str) for text in texts) or not all(
        text is None or isinstance(text, str)
        for text in (data["platform"], *(gpu.name for gpu in kinds))
    ):
        raise TypeError
    return Seen(data["platform"], data["system"], kinds)


# with what the inventory declares


def with_facts(fleet: Fleet, answers: Mapping[str, Seen]) -> Fleet:
    """The fleet with the answers where nothing is declared. InputError where both differ."""
    facts = dict(fleet.facts)
    joined: dict[tuple[HostFacts | None, str, str, Seen], HostFacts] = {}
    for host in fleet.hosts:
        if host in answers:
            declared = facts.get(host)
            owners = (declared.platform_from, declared.gpus_from) if declared else ("", "")
            key = (declared, *owners, answers[host])
            if key not in joined:
                joined[key] = _joined(host, declared or HostFacts(), answers[host], fleet)
            facts[host] = joined[key]
    return dataclasses.replace(fleet, facts=facts)


def _joined(host: str, declared: HostFacts, answer: Seen, fleet: Fleet) -> HostFacts:
    if declared.platform is not None and declared.platform != answer.platform:
        raise _differ(
            f"{host} is not the platform that the inventory says",
            f"{PLATFORM}: {declared.platform}",
            f"{answer.platform or 'no platform of the catalog'} ({answer.system})",
            fleet.sources.where(PLATFORM, near=declared.platform_from) or declared.platform_from,
            host,
        )
    if declared.models and not _agree(declared.models, [gpu.id for gpu in answer.gpus]):
        raise _differ(
            f"{host} has not the GPUs that the inventory says",
            f"{MODELS}: {json.dumps(list(declared.models))}",
            shown(answer.gpus),
            fleet.sources.where(MODELS, near=declared.gpus_from) or declared.gpus_from,
            host,
        )
    ids = gpus.devices()
    ids_with_name = [gpu.id for gpu in answer.gpus if gpu.id.removeprefix("10de:") in ids]
    return HostFacts(
        platform=answer.platform,
        gpus=declared.gpus or tuple(ids_with_name),
        models=declared.models,
        unknown=tuple(gpu.id for gpu in answer.gpus if gpu.id not in ids_with_name),
        system="" if answer.platform else answer.system,
        platform_from=declared.platform_from or FILE,
        gpus_from=declared.gpus_from or (FILE if answer.gpus else ""),
    )


def _differ(message: str, declared: str, actual: str, where: str, host: str) -> InputError:
    return InputError(
        message,
        where=where,
        got=f"{declared}; {FILE}: {actual}",
        hint=f"correct the inventory, or ask the host again: `provision discover --limit {host}`",
    )


def _agree(models: Sequence[str], devices: Sequence[str]) -> bool:
    """Whether each device is of a declared model, and each declared model has a device."""
    ids = {identity.removeprefix("10de:") for identity in devices}
    ids_of_models = [set(gpus.ids(model)) for model in models]
    return all(of_model & ids for of_model in ids_of_models) and ids <= set().union(*ids_of_models)


def shown(kinds: Iterable[SeenGpu]) -> str:
    """ "4 x Tesla T4 (10de:1eb8)"."""
    parts = [f"{gpu.count} x {gpu.name or 'unknown GPU'} ({gpu.id})" for gpu in kinds]
    return ", ".join(parts) or "no NVIDIA GPU"
