"""Workspaces: a compose file that says what docker is told."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from gpu_stack.components.gpu_workspace import bring
from gpu_stack.components.gpu_workspace.program import command, command_line, compose, places
from workspace_machine import ADA, BOTH, IMAGE, SECRET, SSH, Machine, person, wish


def as_compose(*options: str) -> tuple[str, Any]:
    """(the text, ada's service with its single `$` back)."""
    text = compose.compose("ada", *options)
    service = yaml.safe_load(text)["services"]["ada"]
    return text, json.loads(json.dumps(service).replace("$$", "$"))


def test_a_compose_file_says_what_docker_is_told(machine: Machine) -> None:
    bring.apply(wish({**ADA, "gpus": [0, 2]}, tokens={"ada": SECRET}))
    text, service = as_compose()
    words_of_docker = command.command("ada")
    assert service == {
        "container_name": "gpu-workspace-ada",
        "hostname": "ada",
        "init": True,
        "networks": ["gpu-workspaces"],
        "image": IMAGE,
        "user": "70000:70000",
        "working_dir": "/home/ada",
        "shm_size": "1g",
        "cpus": 0.5,
        "mem_limit": "2g",
        "memswap_limit": "2g",
        "security_opt": ["no-new-privileges"],
        "pids_limit": 16384,
        "logging": {"driver": "local", "options": {"max-size": "10m", "max-file": "3"}},
        "labels": [
            words_of_docker[n + 1] for n, word in enumerate(words_of_docker) if word == "--label"
        ],
        "environment": [
            words_of_docker[n + 1] for n, word in enumerate(words_of_docker) if word == "--env"
        ],
        "volumes": [
            {"type": "bind", "source": "/srv/homes/ada", "target": "/home/ada"},
            {
                "type": "bind",
                "source": "/etc/gpu-workspace/ada/token",
                "target": "/run/gpu-workspace/token",
                "read_only": True,
            },
            {"type": "bind", "source": "/data", "target": "/data", "read_only": True},
        ],
        "deploy": {
            "resources": {
                "reservations": {
                    "devices": [
                        {"driver": "nvidia", "capabilities": ["gpu"], "device_ids": ["0", "2"]}
                    ]
                }
            }
        },
        "entrypoint": ["/bin/sh"],
        "command": words_of_docker[-2:],
    }
    assert SECRET not in text
    assert "version" not in yaml.safe_load(text)


@pytest.mark.parametrize(
    ("gpus", "visible"),
    [("all", "all"), ([0, 2], "0,2"), ("none", None)],
)
def test_an_older_compose_gets_gpus_by_the_runtime(
    machine: Machine, gpus: Any, visible: str | None
) -> None:
    bring.apply(wish({**ADA, "gpus": gpus}))
    text, service = as_compose("--runtime")
    assert "deploy" not in service
    assert service["runtime"] == ("nvidia" if visible else "runc")
    variables = [variable for variable in service["environment"] if variable.startswith("NVIDIA")]
    assert variables == [f"NVIDIA_VISIBLE_DEVICES={visible or 'void'}"]
    assert yaml.safe_load(text)["version"] == "2.4"
    newer = as_compose()[1]
    if gpus == "all":
        assert newer["deploy"]["resources"]["reservations"]["devices"] == [
            {"driver": "nvidia", "capabilities": ["gpu"], "count": "all"}
        ]
    else:
        assert ("deploy" in newer) == (visible is not None)


def test_a_person_of_any_kind_has_a_compose_file(keyed: Machine) -> None:
    """An argument of docker's without its word would be refused."""
    for somebody in (SSH, BOTH, ADA, person(gpus="all", user="0:0")):
        bring.apply(wish(somebody))
        text, service = as_compose()
        words_of_docker = command.command("ada")
        assert service["command"] == words_of_docker[-2:]
        assert service["image"] in words_of_docker
        # Every value that docker is told, but those whose words compose has in parts.
        values = {
            words_of_docker[n + 1]
            for n, word in enumerate(words_of_docker[:-4])
            if word.startswith("--")
        }
        values = {v for v in values if not v.startswith(("--", "type=", '"device=', "all"))}
        document = json.dumps(service).replace('": "', "=")  # options of a log are a mapping
        assert [v for v in values if v not in document] == []
        assert "$" in text
        assert "$" not in text.replace("$$", "")


def test_an_argument_without_a_word_in_a_compose_file_is_refused() -> None:
    with pytest.raises(places.RefusedError, match="--privileged has no word in a compose file"):
        compose.composed(["run", "--privileged", "image"], False)


def test_a_network_of_dockers_is_one_of_composes(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["run", "--network", "people", "image", "true"]
    monkeypatch.setattr(command, "command", lambda _name: arguments)
    document = yaml.safe_load(compose.compose("ada"))
    assert document == {
        "services": {"ada": {"networks": ["people"], "image": "image", "command": ["true"]}},
        "networks": {"people": {"name": "people", "external": True}},
    }


@pytest.mark.parametrize("text", ["", "a b", '"#: $', "\na\n  b\n\nc", " a\nb", "a\n", "ä\\n"])
def test_a_text_is_the_same_in_yaml(text: str) -> None:
    lines = compose._yaml({"a": text, "b": [text, {"c": text, "d": [text]}]}, "")
    double = text.replace("$", "$$")
    read_back = yaml.safe_load("\n".join(lines))
    assert read_back == {"a": double, "b": [double, {"c": double, "d": [double]}]}


def test_compose_says_what_it_does_not_know(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.main(["compose", "ada"]) == 1
    assert "ada has no workspace here" in capsys.readouterr().err
    assert command_line.main(["compose", "ada", "--gpus"]) == 1
    assert "--gpus is no option; expected --runtime" in capsys.readouterr().err
    bring.apply(wish(ADA))
    assert command_line.main(["compose", "ada"]) == 0
    assert capsys.readouterr().out == compose.compose("ada")
