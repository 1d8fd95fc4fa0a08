"""The repositories of NVIDIA's container toolkit and of Docker. Plain data."""

from __future__ import annotations

REPOSITORIES = {
    # NVIDIA's older ones, nvidia-docker and nvidia-container-runtime, stay: they contradict nobody.
    "container_toolkit": {
        "addresses": (r"https?://nvidia\.github\.io/libnvidia-container/",),
        "names": (),
        "files": (),
        "own": "/etc/apt/sources.list.d/provision-nvidia-container-toolkit.sources",
    },
    "docker": {
        "addresses": (r"https?://download\.docker\.com/linux/(debian|ubuntu)(/|$)",),
        "names": (),
        "files": (),
        "own": "/etc/apt/sources.list.d/provision-docker.sources",
    },
}
