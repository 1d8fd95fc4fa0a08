"""NVIDIA's repositories of CUDA, and what years of tutorials have left for them. Plain data."""

from __future__ import annotations

REPOSITORIES = {
    "cuda": {
        "addresses": (
            r"https?://developer\.download\.nvidia\.(com|cn)/compute/(cuda|machine-learning)/repos/",
            r"file:/+var/cuda-repo-",
        ),
        "names": ("cuda*.list", "nvidia-ml*.list"),
        "files": ("/etc/apt/preferences.d/cuda-repository-pin-600",),
        "own": "/etc/apt/sources.list.d/provision-cuda.sources",
    },
}
