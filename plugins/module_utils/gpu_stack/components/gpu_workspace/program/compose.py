"""A person's workspace as a compose file."""

from __future__ import annotations

import json

from . import command, places

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any, Callable


def compose(name: str, *options: str) -> str:
    """A person's workspace as the text of a compose file; RefusedError for an unknown option.

    It is made of docker's arguments, so it has what they have and no list of its own. The token
    stays where it is: a file that is mounted.
    """
    if options not in ((), ("--runtime",)):
        raise places.RefusedError("{0} is no option; expected --runtime".format(" ".join(options)))
    lines = [
        f"# The workspace of {name}, by: gpu-workspace compose {name}",
        f"# Its name is that of the unit: systemctl stop {places.UNIT.format(name)}",
    ]
    if options:
        # Before 1.27 docker-compose wants a version, and 2.4 is the last that knows a runtime.
        lines.append('version: "2.4"')
    service, networks = composed(command.command(name), bool(options))
    content = {"services": {json.dumps(name): service}}
    if networks:
        content["networks"] = {
            json.dumps(network): {"name": network, "external": True} for network in networks
        }
    return "\n".join([*lines, *_yaml(content, "")]) + "\n"


def _mount(value: str) -> dict[str, Any]:
    pairs = dict(pair.partition("=")[::2] for pair in value.split(","))
    mount = {"type": pairs["type"], "source": pairs["src"], "target": pairs["dst"]}
    return dict(mount, read_only=True) if "readonly" in pairs else mount


# docker's options and the words of https://docs.docker.com/reference/compose-file/services/ for
# them: {option: (word, its form)}. Those of a list may be there more than once.
_ONCE: dict[str, tuple[str, Callable[[str], Any]]] = {
    "--name": ("container_name", str),
    "--hostname": ("hostname", str),
    "--user": ("user", str),
    "--workdir": ("working_dir", str),
    "--shm-size": ("shm_size", str),
    "--cpus": ("cpus", float),
    "--memory": ("mem_limit", str),
    "--memory-swap": ("memswap_limit", str),
    "--pids-limit": ("pids_limit", int),
    "--runtime": ("runtime", str),
    "--entrypoint": ("entrypoint", lambda value: [value]),
}
_OFTEN: dict[str, tuple[str, Callable[[str], Any]]] = {
    "--label": ("labels", str),
    "--security-opt": ("security_opt", str),
    "--env": ("environment", str),
    "--publish": ("ports", str),
    "--mount": ("volumes", _mount),
    "--network": ("networks", str),
}
# compose starts in its own way, and removes what it started.
_BARE: dict[str, dict[str, bool]] = {"--init": {"init": True}, "--detach": {}, "--rm": {}}


def composed(arguments: list[str], by_runtime: bool) -> tuple[dict[str, Any], list[str]]:
    """(service, its networks) of `docker run`'s arguments; RefusedError for one that is unknown."""
    words = iter(arguments[1:])
    service: dict[str, Any] = {}
    for word in words:
        if word in _BARE:
            service.update(_BARE[word])
        elif word in _ONCE:
            key, form = _ONCE[word]
            service[key] = form(next(words))
        elif word in _OFTEN:
            key, form = _OFTEN[word]
            service.setdefault(key, []).append(form(next(words)))
        elif word == "--log-driver":
            service.setdefault("logging", {})["driver"] = next(words)
        elif word == "--log-opt":
            key, _mark, value = next(words).partition("=")
            service.setdefault("logging", {}).setdefault("options", {})[key] = value
        elif word == "--gpus":
            _hand_over(service, next(words).strip('"'), by_runtime)
        elif word.startswith("-"):
            raise places.RefusedError(f"{word} has no word in a compose file")
        else:
            service.update(image=word, command=list(words))
    networks: list[str] = service.get("networks", [])
    if not networks:
        # As docker's own; compose would make a network of the project's.
        service["network_mode"] = "bridge"
    return service, networks


def _hand_over(service: dict[str, Any], asked: str, by_runtime: bool) -> None:
    """The GPUs of docker's "all" or "device=0,1", in either way that compose has."""
    devices = asked[len("device=") :].split(",") if asked != "all" else None
    if by_runtime:
        service["runtime"] = "nvidia"
        visible = "NVIDIA_VISIBLE_DEVICES=" + ",".join(devices or ["all"])
        service.setdefault("environment", []).append(visible)
        return
    which = {"device_ids": devices} if devices else {"count": "all"}
    request = dict({"driver": "nvidia"}, capabilities=["gpu"], **which)
    service["deploy"] = {"resources": {"reservations": {"devices": [request]}}}


def _yaml(value: Any, indent: str) -> list[str]:
    """Lines of YAML. compose reads `$` as the beginning of a variable unless there are two."""
    lines = []
    pairs = value.items() if isinstance(value, dict) else [(None, item) for item in value]
    for key, item in pairs:
        head = indent + ("-" if key is None else key + ":")
        if isinstance(item, str):
            block = item.replace("$", "$$")
            if "\n" in item and item.lstrip("\n") == item.strip():
                lines.append(head + " |-")
                lines += [indent + "  " + line if line else "" for line in block.split("\n")]
            else:
                lines.append(head + " " + json.dumps(block, ensure_ascii=False))
        elif isinstance(item, (dict, list)):
            inner = _yaml(item, indent + "  ")
            if key is None:
                lines += [head + inner[0][len(head) :], *inner[1:]]
            else:
                lines += [head, *inner]
        else:
            lines.append(head + " " + json.dumps(item))
    return lines
