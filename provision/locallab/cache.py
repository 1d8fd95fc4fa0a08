"""One download cache for all lab hosts of a user: apt-cacher-ng in a container of its own.

Without it, every host downloads the same 500 MB of CUDA packages again. The labs that are up share
the container, which is removed with the last of them; its files stay. Callers hold `labs.lock`
around `ensure` and `drop`.
"""

from __future__ import annotations

import hashlib
import socket
import time
from pathlib import Path

from provision.errors import ProvisionError
from provision.locallab.machine import Podman, Progress

PORT = 3142
START_TIMEOUT = 20.0


def identity(cached: Path) -> str:
    """A short hash that stands for the cache directory in labels."""
    return hashlib.sha256(str(cached.resolve()).encode()).hexdigest()[:8]


def ensure(
    podman: Podman, cached: Path, base: str, platform: str, progress: Progress
) -> str | None:
    """Starts the proxy if needed and returns its URL; None if it can't run, which is reported."""
    try:
        return _ensure(podman, cached, base, platform, progress)
    except (ProvisionError, OSError) as error:
        reason = getattr(error, "got", "") or str(error)
        progress(f"No download cache, hosts go direct: {reason.splitlines()[-1]}")
        drop(podman, cached)
        return None


def drop(podman: Podman, cached: Path) -> None:
    """Remove the cache's container; its files stay."""
    podman.run("rm", "--force", "--ignore", "--time=0", _name(cached))


def _name(cached: Path) -> str:
    return f"provision-lab-cache-{identity(cached)}"


def _ensure(podman: Podman, cached: Path, base: str, platform: str, progress: Progress) -> str:
    name = _name(cached)
    for entry in podman.containers(cache=identity(cached)):
        if entry["State"] == "running":
            url = _url(podman, name)
            if url:
                return url
    drop(podman, cached)
    image = _image(podman, base, platform, progress)
    files = cached / "apt"
    podman.as_root("install", "-d", "-m", "0755", "-o", "0", "-g", "0", str(files))
    podman.call(
        "run", "--detach", f"--name={name}", f"--label=provision.cache={identity(cached)}",
        f"--volume={files}:/var/cache/apt-cacher-ng", image,
        "/usr/sbin/apt-cacher-ng", "-c", "/etc/apt-cacher-ng", "ForeGround=1", f"Port={PORT}",
        "BindAddress=0.0.0.0", "LogDir=/var/log/apt-cacher-ng",
    )  # fmt: skip
    url = _url(podman, name)
    if not url:
        log = podman.run("logs", "--tail", "5", name)
        raise OSError("apt-cacher-ng does not answer: " + log.stderr.decode("utf-8", "replace"))
    return url


def _image(podman: Podman, base: str, platform: str, progress: Progress) -> str:
    """The host image with apt-cacher-ng, built once per host image."""
    image = f"localhost/provision-lab-cache:{platform}-{base.removeprefix('sha256:')[:12]}"
    if podman.run("image", "exists", image).returncode == 0:
        return image
    progress("Building the download cache's image")
    script = (
        "apt-get -q update && DEBIAN_FRONTEND=noninteractive "
        "apt-get -q install --yes --no-install-recommends apt-cacher-ng && apt-get clean"
    )
    container = podman.call("create", base, "/bin/sh", "-c", script).strip()
    try:
        podman.call("start", "--attach", container, timeout=300)
        podman.call("commit", "--quiet", container, image)
    finally:
        podman.run("rm", "--force", "--time=0", container)
    return image


def _url(podman: Podman, name: str) -> str:
    text = podman.call(
        "inspect", "--format",
        "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}", name,
    ).split()  # fmt: skip
    deadline = time.monotonic() + START_TIMEOUT
    while text and time.monotonic() < deadline:
        try:
            with socket.create_connection((text[0], PORT), timeout=2):
                return f"http://{text[0]}:{PORT}"
        except OSError:
            time.sleep(0.1)
    return ""
