"""Builds the workspaces' image with docker, from the Containerfile and the host's own stack."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile

from ...type_checking import TYPE_CHECKING
from . import image_context
from .program import docker_words, files, places, programs

if TYPE_CHECKING:
    from typing import IO, Any, Callable

SPARE = 1 << 30
LINES = 15
# Seconds for a slow package archive.
BUILDS = 7200


def release(content: str) -> tuple[str, str]:
    """(distribution, release) of an os-release."""
    pairs = dict(re.findall(r'^(ID|VERSION_ID)="?([^"\n]*)"?$', content, re.M))
    return pairs.get("ID", "?"), pairs.get("VERSION_ID", "?")


def fitting(wish: dict[str, Any]) -> None:
    """Refuses a base of another release than the host's: the environment needs its Python."""
    arguments = ["run", "--rm", "--network", "none", "--entrypoint", "/bin/cat", wish["base"]]
    of_base = release(programs.must(_docker(*arguments, "/etc/os-release"), "docker run"))
    of_host = release(files.text("/etc/os-release") or "")
    if of_base != of_host:
        raise places.RefusedError(
            "the base {0} is {1} {2}, and this host {3} {4}; the image is made of the host's "
            "environment, which needs the same release".format(wish["base"], *of_base, *of_host)
        )


def room(named: dict[str, str]) -> int:
    """RefusedError if the disk is too small: docker keeps the build's context beside the image."""
    size = sum(os.lstat(files.inside(path)).st_size for path in named.values())
    place = programs.must(
        _docker("info", "--format", docker_words.shape(".DockerRootDir")), "docker"
    )
    disk = os.statvfs(place.strip())
    free = disk.f_bavail * disk.f_frsize
    if free < 2 * size + SPARE:
        raise places.RefusedError(
            f"{place.strip()} has {free / (1 << 30):.1f} GiB free, and the build needs "
            f"{(2 * size + SPARE) / (1 << 30):.1f}"
        )
    return size


def build(wish: dict[str, Any]) -> dict[str, Any]:
    """Builds the image under its reference; RefusedError with docker's last lines on failure."""
    if _docker("image", "inspect", wish["reference"])[0] == 0:
        return {"built": False}
    fitting(wish)
    named, texts = image_context.contents(wish)
    size = room(named)
    stack, venv = wish["stack"], image_context.environment(wish)
    env = stack.get("env") or {}
    python = "python" + stack["tensorflow"]["python"]
    sonames = (stack.get("cuda") or {}).get("sonames") or []
    sonames = [*sonames, stack["cudnn"]["soname"]] if stack.get("cudnn") else sonames
    build_arguments = {
        "BASE": wish["base"],
        "PACKAGES": " ".join([python, python + "-venv", *wish["packages"]]),
        "SONAMES": " ".join(sonames),
        "FIRST": ":".join([venv + "/bin", *(env.get("path") or [])]),
        "XLA": "--xla_gpu_cuda_data_dir=" + env["xla"] if env.get("xla") else "",
        "TENSORFLOW": stack["tensorflow"]["version"],
    }
    arguments = ["build", "--tag", wish["reference"], "--file", "Containerfile"]
    # The host's own way to its archives; containers of workspaces have another network.
    arguments += ["--network", "host", "--force-rm"]
    for name in sorted(build_arguments):
        arguments += ["--build-arg", f"{name}={build_arguments[name]}"]
    for name in ("http_proxy", "https_proxy"):
        # By name alone: an address may carry a password, and a command line is read by all. docker
        # keeps these two out of the image and its history by itself:
        # https://docs.docker.com/reference/dockerfile/#predefined-args
        if os.environ.get(name):
            arguments += ["--build-arg", name]
    streamed(
        ["docker", "--host", docker_words.SOCKET, *arguments, "-"],
        lambda out: image_context.pack(out, named, texts, wish["containerfile"]),
    )
    return {"built": True, "bytes": size}


def streamed(command: list[str], write: Callable[[IO[bytes]], None]) -> None:
    """Runs docker build on what `write` sends it. RefusedError with its last lines if it fails."""
    # Into a file: a pipe that nobody reads while the context is written would stop both.
    with tempfile.TemporaryFile() as log:
        running = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT
        )
        assert running.stdin is not None  # noqa: S101 it is a pipe
        try:
            write(running.stdin)
            running.stdin.close()
            broken = False
        except BrokenPipeError:
            broken = True  # docker says why
        try:
            code = running.wait(BUILDS)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
            raise places.RefusedError(f"docker build took longer than {BUILDS} s") from None
        log.seek(0)
        output = log.read().decode("utf-8", "replace")
    if code or broken:
        lines = [line for line in output.splitlines() if line.strip()]
        raise places.RefusedError("docker build said: " + " | ".join(lines[-LINES:]))


def _docker(*arguments: str) -> tuple[int, str, str]:
    command = ["docker", "--host", docker_words.SOCKET, *arguments]
    return programs.call(command, timeout=image_context.TIMEOUT)
