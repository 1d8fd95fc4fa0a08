"""Workspaces: TensorBoard beside Jupyter and sshd."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gpu_stack.components.gpu_workspace import bring, current, images, jupyter, proof, wished
from gpu_stack.components.gpu_workspace.program import command, docker, files, places, programs
from workspace_machine import ADA, HOME, IMAGE, KEY, Machine, wish


def test_tensorboard_is_open_at_this_host_alone(machine: Machine) -> None:
    bring.apply(wish({**ADA, "tensorboard_port": 8901}, address="0.0.0.0"))  # noqa: S104
    listens = wished.listens(files.data("/etc/gpu-workspace/ada/workspace.json"))
    assert {port: text.splitlines()[-1] for port, text in listens.items()} == {
        "ada.jupyter": "ListenStream=0.0.0.0:8801",
        "ada.tensorboard": "ListenStream=127.0.0.1:8901",
    }
    script = command.command("ada")[-1]
    # Neither a neighbour's route nor another container leads to it.
    assert f"--logdir={HOME}/logs --host=127.0.0.1 --port=6006" in script
    assert "--path_prefix=/ada/tensorboard" in script
    # Beside Jupyter, and begun anew where it ends.
    assert script.startswith(f"while :; do\n    mkdir -p {HOME}/logs")
    assert script.index("done &") < script.index("for one in jupyter-lab")
    bring.apply(wish(ADA))
    assert "tensorboard" not in " ".join(command.command("ada"))


def test_tensorboard_of_the_ssh_kind_is_the_persons(keyed: Machine) -> None:
    words = {"kind": "ssh", "ssh_port": 2201, "ssh_keys": [KEY], "tensorboard_port": 8901}
    bring.apply(wish({"name": "ada", "gpus": "none", **words}))
    script = command.command("ada")[-1]
    given_up = "setpriv --reuid=70000 --regid=70000 --clear-groups "
    assert f"    {given_up}tensorboard --logdir={HOME}/logs" in script
    assert script.rstrip().endswith('exec "$(command -v sshd || echo /usr/sbin/sshd)" "$@"')


def test_an_image_is_tried_for_tensorboard_where_somebody_wants_it(machine: Machine) -> None:
    bring.apply(wish(ADA))
    seen = current.look(wish({**ADA, "tensorboard_port": 8901}))
    assert (seen["tried"], seen["parts"]) == (False, ["jupyter", "tensorboard"])


def test_an_image_without_tensorboard_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = (0, "lacks tensorboard\n", "")
    monkeypatch.setattr(docker, "answer", lambda *_words, **_more: answer)
    with pytest.raises(places.RefusedError, match="has no tensorboard in its PATH"):
        images.try_parts(IMAGE, "jupyter", "tensorboard")


def test_a_tensorboard_that_does_not_answer_fails_the_proof(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = {"container": "c", "tensorboard_port": 8901, "ssh_port": None, "gpus": []}
    machine.put("/run/gpu-workspace/ada.json", json.dumps(state))
    places_asked: list[tuple[Any, ...]] = []
    answers = {200: None, 404: "TensorBoard does not answer at port 8901", None: "TensorBoard"}
    monkeypatch.setattr(proof, "limits", lambda _state: None)
    monkeypatch.setattr(programs, "call", lambda _command: (0, "active", ""))
    for status, wrong in answers.items():

        def ask(*arguments: Any, status: int | None = status) -> tuple[int | None, str]:
            places_asked.append(arguments)
            return status, ""

        monkeypatch.setattr(jupyter, "ask", ask)
        fault = proof.proven("ada", 0)
        assert fault is None if wrong is None else wrong in fault
    assert set(places_asked) == {(("127.0.0.1", 8901), "/ada/tensorboard/")}
