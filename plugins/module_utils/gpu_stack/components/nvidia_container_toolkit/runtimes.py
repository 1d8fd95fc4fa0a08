"""The container runtimes of the running host, by their names: what the module calls."""

from ...host.context import PATH, Context, run_program
from .containerd_runtime import Containerd
from .crio_runtime import Crio
from .docker_runtime import Docker
from .kept_files import RefusedError
from .runtime import RESTART_PATIENCE, RestartError

RUNTIMES = {"docker": Docker, "containerd": Containerd, "crio": Crio}
# Seconds for a question to a daemon or to its program.
PATIENCE = 60.0
# A containerd or a CRI-O of its makers' own archive lies below /usr/local.
ENVIRONMENT = {"LC_ALL": "C", "PATH": ":".join(("/usr/local/sbin", "/usr/local/bin", *PATH))}


def asked(argv):
    return run_program(argv, PATIENCE, ENVIRONMENT)


def restart(unit):
    return run_program(["systemctl", "restart", unit], RESTART_PATIENCE, ENVIRONMENT)


def answer(parameters, check_mode):
    """(whether it failed, the module's result) for the module's parameters."""
    name = parameters["runtime"]
    options = {
        f"nvidia_container_toolkit_{name}": parameters["wish"],
        "nvidia_container_toolkit_docker_engine": parameters["engine"],
    }
    context = Context(options=options, runner=asked)
    runtime = RUNTIMES[name](context, restart, parameters["comes_later"])
    try:
        if parameters["state"] == "restart_due":
            if not check_mode:
                runtime.restart_due()
            return False, {"changed": False}
        step = runtime.absent if parameters["state"] == "absent" else runtime.present
        return False, step(check_mode)
    except RestartError as error:
        return True, {"msg": str(error), "said": error.said}
    except RefusedError as error:
        return True, {"msg": str(error)}
