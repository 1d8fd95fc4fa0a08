"""Pulls or loads TensorFlow Serving's image, and asks it for its release before it is used."""

from __future__ import annotations

import re

from ...type_checking import TYPE_CHECKING
from ..gpu_workspace import images as of_workspaces
from ..gpu_workspace.program import command, docker
from ..gpu_workspace.program.places import RefusedError
from . import entries, units, wished

if TYPE_CHECKING:
    from typing import Any


def has(reference: str) -> bool:
    """Whether docker has the image."""
    return docker.answer("image", "inspect", reference)[0] == 0


def bring(params: dict[str, Any]) -> str:
    """The image's name in docker, once docker has it. RefusedError; no container is touched."""
    reference = wished.image_name(params["image"], params["image_sha256"])
    if has(reference):
        return reference
    if params["image_sha256"]:
        of_workspaces.load(
            params["archive"], params["image_sha256"], reference, "gpu_serving_image_sha256"
        )
    elif entries.LOCAL.fullmatch(reference):
        raise RefusedError(
            f"docker has no image {reference}, which gpu_serving_image names by its id. No model "
            "was touched"
        )
    else:
        # No time limit: gigabytes may need hours over a slow line.
        code, _out, error = docker.answer("pull", "--quiet", reference, timeout=None)
        if code:
            raise RefusedError(
                f"{reference} could not be pulled: {error.strip()[-400:]}. No model was touched. "
                "Where this host reaches no registry, bring the image as a file "
                "(gpu_serving_image_file)"
            )
    return reference


def try_release(reference: str, gpus: Any, wanted: str) -> str:
    """The image's TensorFlow as "2.9". RefusedError for an image that is not TensorFlow Serving of
    the wanted release, before it is used.

    With GPUs, for the image's program may be linked against the driver's library.
    """
    code, out, error = docker.answer(
        *("run", "--rm", "--network", "none", "--user", "65534:65534", *units.CONFINED),
        *command.gpu_words(gpus),
        *("--entrypoint", "tensorflow_model_server", reference, "--version"),
    )
    match = re.search(r"TensorFlow Library: ([0-9]+\.[0-9]+)[0-9A-Za-z.+-]*", out + error)
    if code or match is None:
        raise RefusedError(
            f"the image {reference} is not TensorFlow Serving's: `tensorflow_model_server "
            f"--version` says {(error or out).strip()[-300:]!r}"
        )
    if wanted and match.group(1) != ".".join(wanted.split(".")[:2]):
        raise RefusedError(
            f"the image {reference} has TensorFlow {match.group(1)}, and the lock {wanted}: name "
            f"one of TensorFlow Serving {wanted}"
        )
    return match.group(1)
