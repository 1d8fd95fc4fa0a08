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
            tell(name, {"error": error.strip()[-800:]})
            stop(name)  # docker leaves one behind that could not begin
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
    """Stops and removes the container of our label, and no other.

    RefusedError where it may still run; without docker no container does.
    """
    state = f"{places.STATE}/{name}.json"
    if "container" in (files.data(state) or {}):
        # A proof would read the limits of one that is gone; why one could not start stays told.
        os.unlink(files.inside(state))
    listed = _listed(name)
    if not listed:
        return
    container = places.container(name)
    if listed[0] != name:
        raise places.RefusedError(f"the container {container} is not of gpu_workspaces")
    docker.answer("stop", "--time", "20", container)
    _code, _out, error = docker.answer("rm", "--force", container)
    until = time.time() + docker.STARTS
    while _listed(name):
        if time.time() >= until:
            raise places.RefusedError(
                f"docker does not end the container {container}, which may still have its GPUs, "
                f"port and home ({error.strip()[-400:] or 'it gives no reason'}): `systemctl "
                "status docker` says more; the next run ends it"
            )
        time.sleep(0.5)


def _listed(name: str) -> list[str]:
    """[our label's value] of somebody's container, "" without that label; [] where there is none.

    `inspect` knows no container that is being removed, and its name is not free yet. RefusedError
    where docker lists nothing: with live-restore containers run on without dockerd.
    """
    form = docker_words.shape(".Names") + " " + docker_words.shape(f'.Label "{places.LABEL}"')
    answer = docker.answer(
        "ps", "--all", "--filter", "name=" + places.container(name), "--format", form
    )
    if answer[0] == 127:
        return []
    text = programs.must(answer, f"whether the container of {name} runs docker does not say")
    rows = [line.split(" ") for line in text.splitlines()]
    return [row[1] for row in rows if row[0] == places.container(name)]
