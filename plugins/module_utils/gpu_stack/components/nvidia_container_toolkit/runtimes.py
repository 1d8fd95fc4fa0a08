"""The container runtimes of the running host by name, for the module."""

from __future__ import annotations

from ...host.context import PATH, Context, run_program
from ...type_checking import TYPE_CHECKING
from .containerd_runtime import Containerd
from .crio_runtime import Crio
from .docker_runtime import Docker
from .runtime import RESTART_PATIENCE

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Result

RUNTIMES = {"docker": Docker, "containerd": Containerd, "crio": Crio}
# Seconds for a question to a daemon or to its program.
PATIENCE = 60.0
# containerd and CRI-O from their projects' archives are below /usr/local.
ENVIRONMENT = {"LC_ALL": "C", "PATH": ":".join(("/usr/local/sbin", "/usr/local/bin", *PATH))}


def run(argv: list[str]) -> Result:
    return run_program(argv, PATIENCE, ENVIRONMENT)


def restart(unit: str) -> Result:
    return run_program(["systemctl", "restart", unit], RESTART_PATIENCE, ENVIRONMENT)


def settle(parameters: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """The result of the module `container_runtime`; RefusalError."""
    name = parameters["runtime"]
    options = {
        f"nvidia_container_toolkit_{name}": parameters["wish"],
        "nvidia_container_toolkit_docker_engine": parameters["engine"],
        "nvidia_container_toolkit_containerd_default": parameters["default"],
    }
    context = Context(options=options, runner=run)
    runtime = RUNTIMES[name](context, restart, parameters["comes_later"])
    if parameters["state"] == "restart_due":
        if not check_mode:
            runtime.restart_due()
        return {"changed": False}
    step = runtime.absent if parameters["state"] == "absent" else runtime.present
    return step(check_mode)
