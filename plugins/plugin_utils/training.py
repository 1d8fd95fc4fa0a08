"""What is asked of a training, judged before any host is."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.provision.gpu.plugins.module_utils.gpu_stack.training import jobs, judge
from ansible_collections.provision.gpu.plugins.plugin_utils import project
from ansible_collections.provision.gpu.plugins.plugin_utils.results import json_copy

# Of the playbook: what it does, and what a person may also keep in an inventory.
ACTIONS = ("start", "follow", "status", "stop")
COLLECTION = Path(__file__).resolve().parents[2]
SUPERVISOR = COLLECTION / "plugins/module_utils/gpu_stack/training/supervisor"
HELPER = COLLECTION / "playbooks/files/training/provision_train.py"
# The script of a job that asks by which way workers reach each other.
DIAGNOSE = COLLECTION / "playbooks/files/training/diagnose.py"
EVENTS = "training-events.jsonl"
# Bytes of a script; what is larger is data.
LARGEST = 1 << 20
RESTARTS = 10
# Of a worker's folder, and of the helper beside the script.
RESERVED = (
    ".job", "backup", "final", "logs", "not-the-chiefs", "output.log", "output.log.1", HELPER.name,
)  # fmt: skip
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class AskedError(Exception):
    """What is asked for can't be; the message says where, what, and what to do."""


def home(task_vars: Mapping[str, Any]) -> Path:
    """report/ of the project whose playbook runs."""
    folder: Path = project.of_play(task_vars)
    return folder / "report"


def say(event: Mapping[str, Any]) -> None:
    """Adds a line to what `provision train` reads while the playbook runs; it says where."""
    folder = os.environ.get("PROVISION_REPORT_DIR")
    if not folder:
        return
    # One write each: the followers of all hosts write here.
    handle = os.open(Path(folder) / EVENTS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    with os.fdopen(handle, "ab", buffering=0) as stream:
        stream.write(json.dumps(event).encode() + b"\n")


def arguments(value: Any) -> list[str]:
    """The script's arguments, of a list or of one text as a shell reads it."""
    if isinstance(value, str):
        try:
            return shlex.split(value)
        except ValueError as error:
            raise AskedError(f"gpu_train_arguments: {error}: {value}") from None
    if not isinstance(value, (list, tuple)):
        raise AskedError(f"gpu_train_arguments is {value!r}; expected a list, or one text")
    if any("\0" in str(argument) for argument in value):
        raise AskedError("gpu_train_arguments has a zero byte, which no program can be given")
    return [str(argument) for argument in value]


def number(name: str, value: Any, least: int, most: int) -> int:
    """A whole number within these bounds."""
    try:
        integer = int(str(value))
    except ValueError:
        integer = least - 1
    if not least <= integer <= most:
        raise AskedError(f"{name} is {value}; expected a whole number from {least} to {most}")
    return integer


def job_name(value: Any, script: Path, now: float) -> str:
    """The job's name: the one that was chosen, else of script and time."""
    if value:
        if jobs.NAME.fullmatch(str(value)) is None:
            raise AskedError(
                f"gpu_train_job is {value!r}; expected small letters, digits and dashes, 48 at most"
            )
        return str(value)
    stem = re.sub(r"[^a-z0-9]+", "-", script.stem.lower()).strip("-")[:24] or "job"
    return f"{stem}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}"


def script(value: Any, places: Sequence[Path]) -> tuple[Path, str]:
    """The script's file, which is there, readable, and Python; its digest. Raises AskedError."""
    if not value:
        raise AskedError("gpu_train_script names no script: a path on this machine")
    given = Path(str(value)).expanduser()
    paths = [given] if given.is_absolute() else [place / given for place in places]
    path = next((path for path in paths if path.exists()), paths[0])
    try:
        data = path.read_bytes() if path.is_file() else None
    except OSError as error:
        raise AskedError(f"the script can't be read: {path}: {error.strerror}") from None
    if data is None:
        fault = "is no file" if path.exists() else "is not there"
        raise AskedError(f"the script {fault}: {path}")
    if len(data) > LARGEST:
        raise AskedError(f"the script has {len(data)} bytes, more than {LARGEST}: {path}")
    try:
        compile(data, str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        at = f" line {error.lineno}:" if isinstance(error, SyntaxError) and error.lineno else ""
        words = error.msg if isinstance(error, SyntaxError) else str(error)
        raise AskedError(f"the script is no Python:{at} {words}: {path}") from None
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        raise AskedError(f"the script is not in UTF-8: {path}") from None
    path = path.resolve()
    if path.name in RESERVED:
        raise AskedError(f"the script has the name of what a job has of its own: {path}")
    return path, hashlib.sha256(data).hexdigest()


def gpus(value: Any) -> list[int] | None:
    """Numbers of GPUs, of a list or of "0,1"; None for all."""
    if value in (None, "", []):
        return None
    parts = value if isinstance(value, (list, tuple)) else str(value).split(",")
    return sorted({number("gpu_train_gpus", part, 0, 63) for part in parts})


def environment(value: Any) -> dict[str, str]:
    """Variables for the script, by their names."""
    if not isinstance(value, Mapping):
        # Not the value: it may be a secret, as in ["TOKEN=..."].
        kind = type(value).__name__
        raise AskedError(f"gpu_train_environment is a {kind}; expected variables by their names")
    variables = {str(name): str(text) for name, text in value.items()}
    for name, text in variables.items():
        if VARIABLE.fullmatch(name) is None or "\0" in text:
            raise AskedError(f"gpu_train_environment: no program can have the variable {name!r}")
    return variables


def started(
    variables: Mapping[str, Any],
    hosts: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    now: float,
) -> dict[str, Any]:
    """The plan of a job that is to start. Raises AskedError.

    variables: the play's, templated. hosts: each host's own, in the order of the inventory.
    """
    if not variables.get("gpu_train_hosts"):
        raise AskedError(
            "gpu_train_hosts names no hosts: a group, or a pattern as Ansible takes it"
        )
    places = [Path(os.environ.get("PWD") or "."), Path(str(variables.get("playbook_dir") or "."))]
    diagnose = boolean(variables.get("gpu_train_diagnose") or False, strict=False)
    path, digest = script(DIAGNOSE if diagnose else variables.get("gpu_train_script"), places)
    # A worker that was killed says nothing of the ways.
    restarts = 0 if diagnose else variables.get("gpu_train_restarts", RESTARTS)
    communication = str(variables.get("gpu_train_communication") or "AUTO").upper()
    if communication not in judge.COMMUNICATION:
        raise AskedError(
            f"gpu_train_communication is {communication}; expected one of "
            + ", ".join(judge.COMMUNICATION)
        )
    addresses = {
        name: str(host.get("gpu_train_address") or host.get("ansible_host") or name)
        for name, host in zip(names, hosts, strict=True)
    }
    faults = judge.addresses(addresses)
    faults += [f"{name}: it has no gpu_stack" for name, host in zip(names, hosts, strict=True)
               if not host.get("gpu_stack")]  # fmt: skip
    if faults:
        raise AskedError("\n".join(faults))
    return {
        "action": "start",
        "job": job_name(variables.get("gpu_train_job"), path, now),
        "script": str(path),
        "digest": digest,
        "arguments": arguments(variables.get("gpu_train_arguments") or []),
        "hosts": list(names),
        "addresses": list(addresses.values()),
        "port": number(
            "gpu_train_port", variables.get("gpu_train_port") or judge.PORT, 1024, 65534
        ),
        "communication": communication,
        "restarts": number("gpu_train_restarts", restarts, 0, 1_000_000),
        "final": str(variables.get("gpu_train_final") or ""),
        "gpus": gpus(variables.get("gpu_train_gpus")),
        # Names alone: Ansible shows a task's result with -v, and a value may be a secret.
        "environment": sorted(environment(variables.get("gpu_train_environment") or {})),
        "resume": boolean(variables.get("gpu_train_resume") or False, strict=False),
        "in_use": str(variables.get("gpu_accept_in_use") or "others"),
    }


def asked(
    variables: Mapping[str, Any],
    hosts: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    now: float,
) -> dict[str, Any]:
    """The plan of what gpu_train_action asks of these hosts. Raises AskedError."""
    action = str(variables.get("gpu_train_action") or "start")
    if action not in ACTIONS:
        raise AskedError(f"gpu_train_action is {action}; expected one of {', '.join(ACTIONS)}")
    if action == "start":
        return started(variables, hosts, names, now)
    job = variables.get("gpu_train_job")
    if not job and action != "status":
        raise AskedError(
            f"gpu_train_job names no job to {action}; gpu_train_action=status lists them"
        )
    return {"action": action, "job": job_name(job, Path("job"), now) if job else "", "hosts": names}


def answers(task_vars: Mapping[str, Any], hosts: Sequence[str], register: str) -> dict[str, Any]:
    """{host: what the module returned}, for the hosts that have an answer."""
    registered = {host: task_vars["hostvars"].raw_get(host).get(register) or {} for host in hosts}
    return {
        host: json_copy(result["training"])
        for host, result in registered.items()
        if "training" in result
    }


def looks(task_vars: Mapping[str, Any], hosts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """{host: what it says of itself and of its ports}, before a job starts."""
    listening = answers(task_vars, hosts, "gpu_training_listening")
    return {
        host: {**look, **listening.get(host, {})}
        for host, look in answers(task_vars, hosts, "gpu_training_look").items()
    }


def ports(plan: Mapping[str, Any], worker: int) -> list[int]:
    """The ports that a worker needs on its host: TensorFlow's, and on the chief the board's."""
    own: int = plan["port"]
    return [own, own + 1] if worker == 0 and len(plan["hosts"]) > 1 else [own]


def places(
    plan: Mapping[str, Any], worker: int, looks: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """What a worker must reach: [{host, address, port, any}].

    any: whether it is the port that the host's kernel chose, as those of NCCL are. looks: by host.
    """
    wild = judge.needs_any_port(looks, plan["communication"])
    endpoints = []
    for peer, host in enumerate(plan["hosts"]):
        if peer == worker:
            continue
        at = {"host": host, "address": plan["addresses"][peer]}
        endpoints += [{**at, "port": port, "any": False} for port in ports(plan, peer)]
        if {host, plan["hosts"][worker]} <= set(wild):
            endpoints.append({**at, "port": looks[host]["any_port"], "any": True})
    return endpoints


def given(
    plan: Mapping[str, Any], worker: int, python: str, variables: Mapping[str, str]
) -> dict[str, Any]:
    """job.json of a worker, but for the secret: what its supervisor must know.

    variables: gpu_train_environment, of which the plan has the names alone.
    """
    chosen = {}
    if plan["gpus"] is not None:
        # NVML's order: without it the fastest card is the first.
        chosen = {
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES": ",".join(map(str, plan["gpus"])),
        }
    return {
        "job": plan["job"],
        "worker": worker,
        "hosts": plan["hosts"],
        "board": [plan["addresses"][0] if worker else "127.0.0.1", plan["port"] + 1],
        "restarts": plan["restarts"],
        "python": python,
        "script": Path(plan["script"]).name,
        "arguments": plan["arguments"],
        "environment": {**chosen, **variables},
        "tf_config": judge.tf_config(plan["addresses"], plan["port"], worker),
        "communication": plan["communication"],
        "final": plan["final"],
        "ports": ports(plan, worker),
    }


def files(plan: Mapping[str, Any]) -> dict[str, str]:
    """{path below a worker's folder: text} of what a job brings: script, supervisor, helper.

    Raises AskedError where the script is no longer the one that was looked at: each host's task
    reads it, and all workers must have one.
    """
    return {
        Path(plan["script"]).name: _looked_at(plan),
        f".job/helper/{HELPER.name}": HELPER.read_text("utf-8"),
        **{
            f".job/supervisor/{file.name}": file.read_text("utf-8")
            for file in sorted(SUPERVISOR.glob("*.py"))
        },
    }


def _looked_at(plan: Mapping[str, Any]) -> str:
    """The text of the script that was looked at. Raises AskedError."""
    try:
        data = Path(plan["script"]).read_bytes()
    except OSError:
        data = b""
    if hashlib.sha256(data).hexdigest() != plan["digest"]:
        raise AskedError(
            f"the script has changed since it was looked at: {plan['script']}: start it again"
        )
    return data.decode("utf-8")
