"""Which GPUs the host has, and what the workspaces' containers list of them."""

from __future__ import annotations

import re

from . import command, docker, docker_words, files, places, programs, settings

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any


def inquire(name: str, *command: str) -> tuple[int, str, str]:
    """(exit code, output, errors) of a program of somebody's container, run as that person.

    What it says is the person's: no more than SAID bytes of it are read, within TIMEOUT seconds,
    and nothing of it but printable characters is passed on.
    """
    user = settings.wished(settings.of_person(name))["user"]
    # A program in the container that docker has begun outlives its `docker exec`.
    bound = ["timeout", "-k", "5", str(programs.TIMEOUT)] if command[0] != "/bin/sh" else []
    words = ["exec", "--user", user, places.container(name), *bound, *command]
    return programs.limited(["docker", "--host", docker_words.SOCKET, *words])


def gpus() -> list[str]:
    """UUIDs of the host's GPUs, by index."""
    return re.findall(r"^GPU \d+: .*\(UUID: (\S+)\)", programs.call(["nvidia-smi", "-L"])[1], re.M)


# In the image: how many GPUs TensorFlow lists, where there is a TensorFlow.
LIST = (
    "for one in python python3; do $one -c 'import importlib.util, sys; "
    'sys.exit(importlib.util.find_spec("tensorflow") is None)\' 2>/dev/null || continue; exec $one '
    "-c 'import tensorflow; "
    'print("GPUS", len(tensorflow.config.list_physical_devices("GPU")))\'; done; echo GPUS none'
)
# Where the toolkit puts it; a program of that name somewhere else may be the person's.
SMI = "/usr/bin/nvidia-smi"
LISTED = r"^GPU \d+: .*\(UUID: (GPU-[0-9A-Za-z-]{1,64})\)"
# Whatever is there of a GPU.
NONE = (
    f"[ ! -x {SMI} ] || timeout -k 5 {programs.TIMEOUT // 2} {SMI} -L; "
    'for one in /dev/nvidia[0-9]*; do [ ! -e "$one" ] || echo "DEVICE $one"; done'
)


def _without(name: str) -> dict[str, Any]:
    """{gpus, wrong} of a container without GPUs: its image may still ask the runtime for all."""
    code, out, error = inquire(name, "/bin/sh", "-c", NONE)
    listed = re.findall(LISTED, out, re.M) + re.findall(r"^DEVICE (/dev/nvidia\d+)$", out, re.M)
    wrong = None
    if listed:
        wrong = "its container has GPUs ({0}), and none were promised".format(", ".join(listed))
    elif code == 124 or code in (125, 126, 127) or "No such container" in error:
        lines = error.strip().splitlines() or [f"status {code}"]
        wrong = f"its container could not be asked for GPUs: {lines[-1][:200]}"
    return {"gpus": listed, "wrong": wrong}


def _promised(gpu: int | str, uuids: list[str]) -> str:
    """The UUID of a GPU that is named by its index or UUID, or that it is gone."""
    if isinstance(gpu, str):
        return gpu if gpu in uuids else f"{gpu}, which is gone"
    return uuids[gpu] if gpu < len(uuids) else f"GPU {gpu}, which is gone"


def handed() -> dict[str, Any]:
    """{people: {name: {gpus, wrong}}, tensorflow: {gpus, wrong}}: what containers list of GPUs.

    nvidia-smi is asked in everybody's own container, as the person. TensorFlow is asked once for an
    image, in a container beside them with the GPUs of one of them: it would take memory from
    somebody's limit.
    """
    result: dict[str, Any] = {"people": {}, "tensorflow": {"gpus": None, "wrong": None}}
    all_uuids, asked = gpus(), None
    for name in settings.recorded_people():
        given = settings.gpus_of(name)
        if not given:
            result["people"][name] = _without(name)
            continue
        promised = all_uuids
        if given != "all":
            promised = [_promised(gpu, all_uuids) for gpu in given]
        code, out, error = inquire(name, SMI, "-L")
        listed = re.findall(LISTED, out, re.M)
        wrong = None
        if code:
            lines = (error or out).strip().splitlines() or [f"status {code}"]
            wrong = f"nvidia-smi fails in its container: {lines[-1][:200]}"
        elif sorted(listed) != sorted(promised):
            wrong = "its container lists {0} GPUs ({1}), and {2} were promised ({3})".format(
                len(listed), ", ".join(listed) or "none", len(promised), ", ".join(promised)
            )
        result["people"][name] = {"gpus": listed, "wrong": wrong}
        # Parts of a GPU (MIG) are counted in another way.
        if wrong is None and "  MIG " not in out:
            asked = asked or name
    if asked is not None:
        result["tensorflow"] = _tensorflow(asked, len(result["people"][asked]["gpus"]))
    return result


def _tensorflow(name: str, count: int) -> dict[str, Any]:
    """What TensorFlow of the image lists with somebody's GPUs; {gpus: None} where it has none."""
    image = files.data(places.folder(name) + "/workspace.json")["image"]
    words = ["run", "--rm", "--network", "none", "--user", "65534:65534", "--env", "HOME=/tmp"]
    arguments = [*words, *command.gpu_arguments(name), "--entrypoint", "/bin/sh", image, "-c", LIST]
    code, out, error = docker.answer(*arguments)
    seen = re.search(r"^GPUS (\d+|none)$", out, re.M)
    if seen is None or code:
        lines = error.strip().splitlines() or [f"status {code}"]
        return {"gpus": None, "wrong": f"TensorFlow fails in the image: {lines[-1]}"}
    if seen.group(1) == "none":
        return {"gpus": None, "wrong": None}
    number = int(seen.group(1))
    wrong = None
    if number != count:
        reasons = [
            line for line in error.splitlines() if "dlopen" in line or "Could not load" in line
        ]
        wrong = "TensorFlow in the image lists {0} of the {1} GPUs of {2}{3}".format(
            number, count, name, ": " + reasons[0].strip()[-200:] if reasons else ""
        )
    return {"gpus": number, "wrong": wrong}
