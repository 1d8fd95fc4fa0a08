"""The settings that the inventory wishes for on a host. The look compares with them, and the module
writes them.
"""

from __future__ import annotations

from ...host import digests
from . import entries

TYPE_CHECKING = False  # `typing` is not loaded on hosts
if TYPE_CHECKING:
    from typing import Any

    from ...shapes import Options


def unreadable(options: Options) -> str | None:
    """What is wrong with the list; None where it can be read."""
    try:
        entries.checked(options.get("gpu_servings") or [])
    except ValueError as error:
        return str(error)
    return None


def models(options: Options) -> dict[str, dict[str, Any]]:
    """{name: the entry with all its words}; {} of a list that can't be read."""
    if unreadable(options) is not None:
        return {}
    return {entry["name"]: entry for entry in entries.checked(options.get("gpu_servings") or [])}


def image_name(image: str | None, sha256: str | None) -> str:
    """The image's name in docker on the host; one from a file gets a name of ours."""
    return "gpu-serving:" + sha256[:16] if sha256 else image or ""


def image(options: Options) -> str:
    return image_name(options.get("gpu_serving_image"), options.get("gpu_serving_image_sha256"))


def settings(entry: dict[str, Any], options: Options) -> dict[str, Any]:
    """What is recorded of a model: its whole entry, and the image."""
    return {"entry": entry, "image": image(options)}


def options(wish: dict[str, Any]) -> dict[str, Any]:
    """A module's wish as the host's options, as the look has them."""
    return {
        "gpu_servings": wish["servings"],
        "gpu_serving_image": wish["image"],
        "gpu_serving_digests": {
            name: digests.of_text(str(token)) for name, token in wish["tokens"].items()
        },
    }
