"""Starts and stops a person's container, as systemd asks for it."""

from __future__ import annotations

import json
import os
import time

from . import command, docker, docker_words, files, places, programs, settings, traits

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any


def run(name: str) -> None:
    """Starts the container, or finds it running, and waits until it ends."""
    revision = (files.text(places.folder(name) + "/revision") or "").strip()
    if not revision:
        raise places.RefusedError(f"the workspace of {name} is unfinished; run the playbook again")
    os.makedirs(files.inside(places.STATE), mode=0o755, exist_ok=True)
    if docker.running().get(name) != revision:
        stop(name)
        docker.connect()
        code, _out, error = docker.answer(*command.command(name))
        if code:
            stop(name)  # docker leaves one behind that could not begin
            tell(name, {"error": error.strip()[-800:]})
            raise places.RefusedError(error.strip()[-800:])
    tell(name, seen(name))
    wait = ["docker", "--host", docker_words.SOCKET, "wait", places.container(name)]
    os.execvp("docker", wait)  # noqa: S606 systemd follows this process


def tell(name: str, state: dict[str, Any]) -> None:
    """Writes the workspace's state file, which everybody can read: it holds no secret."""
    files.put(f"{places.STATE}/{name}.json", json.dumps(state) + "\n", 0o644)


def seen(name: str) -> dict[str, Any]:
    """The state of a running container: its process, limits, ports and GPUs."""
    form = docker_words.shape(".State.Pid", ".Id")
    pid, identity = programs.must(
        docker.answer("inspect", "--format", form, places.container(name)), name
    ).split()
    recorded = files.data(places.folder(name) + "/workspace.json")
    person = settings.wished(recorded)
    return {
        "container": identity,
        "pid": int(pid),
        "groups": groups(files.text(f"/proc/{pid}/cgroup") or ""),
        "memory": traits.size(person["memory"]),
        "cpus": person["cpus"] or None,
        "port": person.get("port"),
        "address": recorded["address"],
        "base": recorded.get("base", "/"),
        "tensorboard_port": person.get("tensorboard_port"),
        "ssh_port": person.get("ssh_port"),
        "ssh_address": recorded["ssh_address"],
        "ssh_ways": settings.to_offer(name),
        "gpus": files.data(places.folder(name) + "/gpus.json"),
    }


def groups(content: str) -> dict[str, str]:
    """{"memory": files, "cpu": files}: where the kernel keeps a container's limits.

    Version 2 has one directory, version 1 one for each controller.
    """
    paths = {}
    for line in content.splitlines():
        _number, names, path = line.split(":", 2)
        for name in names.split(","):
            if name in ("memory", "cpu"):
                paths[name] = f"/sys/fs/cgroup/{name}{path}"
            elif name == "":
                paths.setdefault("unified", "/sys/fs/cgroup" + path)
    if "memory" in paths:
        return {
            "memory": paths["memory"] + "/memory.limit_in_bytes",
            "cpu": paths.get("cpu", "") + "/cpu.cfs_quota_us",
        }
    place = paths.get("unified", "")
    return {"memory": place + "/memory.max", "cpu": place + "/cpu.max"}


def stop(name: str) -> None:
    """Stops and removes the container of our label, and no other."""
    state = f"{places.STATE}/{name}.json"
    if "container" in (files.data(state) or {}):
        # A proof would read the limits of one that is gone; why one could not start stays told.
        os.unlink(files.inside(state))
    form = docker_words.shape(".Names") + " " + docker_words.shape(f'.Label "{places.LABEL}"')
    # `inspect` knows no container that is being removed, and its name is not free yet.
    listed = ("ps", "--all", "--filter", "name=" + places.container(name), "--format", form)
    rows = [line.split(" ") for line in docker.answer(*listed)[1].splitlines()]
    own = [line for line in rows if line[0] == places.container(name)]
    if not own:
        return
    if own[0][1] != name:
        raise places.RefusedError(
            f"the container {places.container(name)} is not of gpu_workspaces"
        )
    docker.answer("stop", "--time", "20", places.container(name))
    docker.answer("rm", "--force", places.container(name))
    until = time.time() + docker.STARTS
    while places.container(name) in docker.answer(*listed)[1].split() and time.time() < until:
        time.sleep(0.5)
