"""A host for the tests of workspaces: its files, and what its docker and systemd were told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gpu_stack.components.gpu_workspace.program import files, programs

from tests import host_tree

SECRET = "0123456789abcdef-of-the-vault"  # noqa: S105
HOME = "/home/ada"
IMAGE = "registry.example.org/jupyter@sha256:" + "a" * 64
KEY = "ssh-ed25519 " + "A" * 68 + " ada@laptop"
UUIDS = ["GPU-aaaaaaaa", "GPU-bbbbbbbb", "GPU-cccccccc"]


def person(name: str = "ada", **more: Any) -> dict[str, Any]:
    return {"name": name, "gpus": "none", "port": 8801, **more}


BOTH = person(kind="both", ssh_port=2201, ssh_keys=[KEY + "\n"], user="1000:1001")
SSH = {key: value for key, value in BOTH.items() if key not in ("port", "user")} | {"kind": "ssh"}
HASHED = "$6$rounds=5000$salt$" + "a" * 86


class Machine:
    """A host's files, and what its docker and systemd were told."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.calls: list[list[str]] = []
        self.runs: dict[str, str] = {}
        self.images = {IMAGE}
        self.networks: dict[str, dict[str, Any]] = {}

    def text(self, path: str) -> str:
        return (self.root / path.lstrip("/")).read_text("utf-8")

    def put(self, path: str, text: str) -> None:
        host_tree.put(self.root, path, text)

    def call(self, command: list[str], **_options: Any) -> tuple[int, str, str]:
        self.calls.append(command)
        words = command[3:] if command[0] == "docker" else command
        if words[:2] == ["ps", "--all"]:
            name = words[3].removeprefix("name=gpu-workspace-")
            mine = f"gpu-workspace-{name} {name}\n" if name in self.runs else ""
            return 0, "gpu-workspace-" + name + "-and-more other\n" + mine, ""
        if words[:1] == ["ps"]:
            return 0, "".join(f"{name} {revision}\n" for name, revision in self.runs.items()), ""
        if words[:2] == ["image", "inspect"]:
            return (0 if words[2] in self.images else 1), "", ""
        if words[:2] == ["network", "inspect"]:
            network = self.networks.get(words[-1])
            return (1, "", "no such network") if network is None else (0, json.dumps(network), "")
        if words[:2] == ["network", "create"]:
            self.networks[words[-1]] = {
                "Labels": {words[words.index("--label") + 1]: ""},
                "Options": dict([words[words.index("--opt") + 1].split("=")]),
            }
        if words[:2] == ["network", "rm"]:
            self.networks.pop(words[-1])
        if words[:1] == ["rm"]:
            self.runs.pop(words[-1].removeprefix("gpu-workspace-"), None)
        if words[0] == "systemctl" and "gpu-workspace-port@" in words[-1]:
            return self.ports(words)
        if words[:2] == ["systemctl", "enable"]:
            for unit in words[2:]:
                self.put("/etc/systemd/system/multi-user.target.wants/" + unit, "")
        if words[:2] == ["systemctl", "start"]:
            for unit in words[2:]:
                name = unit.partition("@")[2].removesuffix(".service")
                self.runs[name] = self.text(f"/etc/gpu-workspace/{name}/revision").strip()
        if words[0] == "nvidia-smi":
            return 0, "".join(f"GPU {n}: T4 (UUID: {u})\n" for n, u in enumerate(UUIDS)), ""
        return 0, "", ""

    def ports(self, words: list[str]) -> tuple[int, str, str]:
        """systemd, which holds ports of people or lets go of them."""
        for unit in words[2:]:
            if not unit.endswith(".socket"):
                continue
            port = unit.partition("@")[2].removesuffix(".socket")
            places = {
                "enable": f"/etc/systemd/system/sockets.target.wants/{unit}",
                "start": f"/run/gpu-workspace-ports/{port}",
            }
            if words[1] in places:
                self.put(places[words[1]], "")
            else:
                for path in places.values():
                    (self.root / path.lstrip("/")).unlink(missing_ok=True)
        return 0, "", ""

    def calls_of(self, *words: str) -> list[list[str]]:
        return [call for call in self.calls if call[: len(words)] == list(words)]


def stand_in(monkeypatch: pytest.MonkeyPatch, root: Path, call: Any) -> None:
    """Has the program find its files below `root`, and `call` answer for what it starts."""
    monkeypatch.setattr(files, "ROOT", str(root))
    monkeypatch.setattr(programs, "call", call)


def wish(*people: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "workspaces": list(people),
        "image": IMAGE,
        "root": "/srv/homes",
        "address": "127.0.0.1",
        "ssh_address": "0.0.0.0",  # noqa: S104 as wished
        **more,
    }


ADA = person(gpus=[0], cpus=0.5, memory="2g", volumes=[{"path": "/data"}])
BOB = person("bob", port=8802, gpus=1, user="1000:1001")
