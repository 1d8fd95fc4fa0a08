"""Workspaces: they run with their GPUs and limits, and refuse strangers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import diagnose
from ..cures import CURES, Cure
from .check import AGAIN, Seen, Verdict, check, failed, not_applicable, passed, some_of, workspaces

JOURNAL = "`journalctl -u 'gpu-workspace@*'` and `docker logs gpu-workspace-NAME` say why"
# Whose changes cure a workspace without its GPUs.
GIVES_GPUS = ("gpu_workspace", "nvidia_container_toolkit", "nvidia_driver")

CURES.update(
    {
        "gpu_workspace.runs": Cure(GIVES_GPUS, JOURNAL),
        "gpu_workspace.jupyter": Cure(("gpu_workspace",), JOURNAL),
        "gpu_workspace.ssh": Cure(("gpu_workspace",), JOURNAL),
        "gpu_workspace.tensorboard": Cure(("gpu_workspace",), JOURNAL),
        "gpu_workspace.gpus": Cure(GIVES_GPUS, JOURNAL),
        "gpu_workspace.limits": Cure(("gpu_workspace",), JOURNAL),
    }
)


@check("gpu_workspace.runs", "Every workspace runs", workspaces)
def workspaces_run(seen: Seen) -> Verdict:
    def fault(_workspace: dict[str, Any], answer: dict[str, Any]) -> str | None:
        if answer["error"]:
            return f"docker could not start it: {diagnose.last_line(answer['error'])}"
        return (
            None if answer["unit"] == "active" else f"its unit is {answer['unit'] or 'not there'}"
        )

    return judge_people(seen, fault, "active")


@check("gpu_workspace.jupyter", "Jupyter answers, and refuses access without a token", workspaces)
def jupyter_refuses_strangers(seen: Seen) -> Verdict:
    def fault(_workspace: dict[str, Any], answer: dict[str, Any]) -> str | None:
        if answer["status"] is None:
            return "nothing answers at its port"
        if answer["status"] in (401, 403):
            return None
        return f"it answers without a token, with status {answer['status']}"

    if not any("port" in workspace for workspace in seen.options["gpu_workspaces"]):
        return not_applicable("nobody's workspace has Jupyter")
    return judge_people(seen, fault, "refused without a token", "port")


@check(
    "gpu_workspace.ssh", "The workspaces' sshd accepts keys, and passwords only if set", workspaces
)
def sshd_takes_keys_alone(seen: Seen) -> Verdict:
    people = [
        workspace["name"] for workspace in seen.options["gpu_workspaces"] if "ssh_port" in workspace
    ]
    if not people:
        return not_applicable("nobody's workspace has SSH")
    if all(seen.probe["workspaces"][name]["ssh"] is None for name in people):
        return not_applicable("this host has no ssh to ask with, or no workspace runs")

    def fault(_workspace: dict[str, Any], answer: dict[str, Any]) -> str | None:
        if answer["ssh"] == (answer.get("ssh_ways") or "publickey"):
            return None
        if answer["ssh"]:
            return f"it lets in by {answer['ssh']}"
        return "sshd does not answer at its port"

    return judge_people(seen, fault, "by key, or by a wished password", "ssh_port")


@check("gpu_workspace.tensorboard", "The workspaces' TensorBoard answers", workspaces)
def tensorboard_answers(seen: Seen) -> Verdict:
    if not any("tensorboard_port" in workspace for workspace in seen.options["gpu_workspaces"]):
        return not_applicable("nobody's workspace has TensorBoard")

    def fault(_workspace: dict[str, Any], answer: dict[str, Any]) -> str | None:
        if answer["tensorboard"] == 200:
            return None
        if answer["tensorboard"] is None:
            return "nothing answers at its port"
        return f"it answers with status {answer['tensorboard']}"

    return judge_people(seen, fault, "answers", "tensorboard_port")


@check("gpu_workspace.gpus", "The workspaces' containers list their assigned GPUs", workspaces)
def workspaces_list_gpus(seen: Seen) -> Verdict:
    people = sorted(workspace["name"] for workspace in seen.options["gpu_workspaces"])
    promised = any(workspace["gpus"] != "none" for workspace in seen.options["gpu_workspaces"])
    handed = seen.probe.get("handed")
    if not promised and not handed:
        return not_applicable("nobody's workspace has GPUs")
    if handed is None:
        return not_applicable("docker answers root alone, and the verify play asks it")
    if "error" in handed:
        hint = "`sudo gpu-workspace gpus` on the host asks the containers again"
        return failed(f"the containers could not be asked: {handed['error']}", hint)
    unknown: dict[str, Any] = {"wrong": "it was not asked"}
    answers = {name: handed["people"].get(name, unknown) for name in people}
    wrong = [f"{name}: {answers[name]['wrong']}" for name in people if answers[name]["wrong"]]
    wrong += [handed["tensorflow"]["wrong"]] if handed["tensorflow"]["wrong"] else []
    if wrong:
        hint = (
            "`docker exec gpu-workspace-NAME nvidia-smi -L` asks it again; nvidia-smi on the host"
        )
        return failed(some_of(wrong), f"{hint} must list them too", "; ".join(wrong))
    listed = ", ".join(f"{name} {len(answers[name]['gpus'])}" for name in people)
    count = handed["tensorflow"]["gpus"]
    more = "the image has no TensorFlow" if count is None else f"TensorFlow {count}"
    return passed(f"nvidia-smi: {listed}; {more}" + (" (simulated)" if seen.simulated else ""))


@check("gpu_workspace.limits", "The workspaces' limits are in force", workspaces)
def workspace_limits(seen: Seen) -> Verdict:
    if not any(
        workspace.get("memory") or workspace.get("cpus")
        for workspace in seen.options["gpu_workspaces"]
    ):
        return not_applicable("nobody's workspace has a limit")

    def fault(workspace: dict[str, Any], answer: dict[str, Any]) -> str | None:
        limits = {}
        if workspace.get("memory"):
            limits["memory"] = str(size(workspace["memory"]))
        if workspace.get("cpus"):
            # docker counts whole billionths of a processor; the kernel has 100,000 parts of it.
            limits["cpu"] = str(round(workspace["cpus"] * 1e9) // 10000)
        for key, value in limits.items():
            actual = (answer["limits"].get(key) or ["nothing"])[0]
            if actual != value:
                return f"{key} is limited to {actual}, not {value}"
        return None

    return judge_people(seen, fault, "as wished")


def judge_people(
    seen: Seen,
    fault: Callable[[dict[str, Any], dict[str, Any]], str | None],
    good: str,
    word: str = "name",
) -> Verdict:
    """Judges each workspace that has the key `word`.

    `fault(workspace, answer)` returns what is wrong with it, or None.
    """
    asked = [workspace for workspace in seen.options["gpu_workspaces"] if word in workspace]
    answers = {
        workspace["name"]: fault(workspace, seen.probe["workspaces"][workspace["name"]])
        for workspace in asked
    }
    wrong = [f"{name}: {answers[name]}" for name in sorted(answers) if answers[name]]
    if wrong:
        hint = "`journalctl -u 'gpu-workspace@*'` and `docker logs gpu-workspace-NAME` say why"
        return failed(some_of(wrong), f"{hint}; {AGAIN}", "; ".join(wrong))
    return passed(f"{good}: {', '.join(sorted(answers))}")


def size(text: str) -> int:
    """Bytes of "16g". The role has validated the value."""
    plain = text.lower().rstrip("b")
    return int(plain[:-1]) << {"k": 10, "m": 20, "g": 30}[plain[-1]]
