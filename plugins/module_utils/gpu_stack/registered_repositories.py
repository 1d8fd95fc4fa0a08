"""The repositories that roles name to apt.

Rendered by `provision roles sync` from the components' repositories.py; edit those.
"""

from __future__ import annotations

from .type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

REPOSITORIES: dict[str, Any] = {
    "cuda": {
        "addresses": (
            "https?://developer\\.download\\.nvidia\\.(com|cn)/compute/(cuda|machine-learning)/repos/",
            "file:/+var/cuda-repo-",
        ),
        "names": (
            "cuda*.list",
            "nvidia-ml*.list",
        ),
        "files": ("/etc/apt/preferences.d/cuda-repository-pin-600",),
        "own": "/etc/apt/sources.list.d/provision-cuda.sources",
    },
    "container_toolkit": {
        "addresses": ("https?://nvidia\\.github\\.io/libnvidia-container/",),
        "names": (),
        "files": (),
        "own": "/etc/apt/sources.list.d/provision-nvidia-container-toolkit.sources",
    },
    "docker": {
        "addresses": ("https?://download\\.docker\\.com/linux/(debian|ubuntu)(/|$)",),
        "names": (),
        "files": (),
        "own": "/etc/apt/sources.list.d/provision-docker.sources",
    },
}
