"""Pulls, loads or builds the workspaces' image, and checks it before it is used."""

from __future__ import annotations

import hashlib
import os
import re

from ...type_checking import TYPE_CHECKING
from . import image_build, parameters
from .program import docker, places, programs

if TYPE_CHECKING:
    from typing import Any

HAS = {
    "jupyter": ("command -v jupyter-lab || command -v jupyter-notebook", "Jupyter"),
    "tensorboard": ("command -v tensorboard", "tensorboard"),
    "ssh": ("test -x /usr/sbin/sshd || command -v sshd", "sshd"),
}


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """The result of the module `workspace_image`; RefusedError or OSError."""
    changed = bring(params, check_mode)
    return {"changed": changed, "reference": parameters.reference(params["image"])}


def bring(params: dict[str, Any], dry: bool) -> bool:
    """Gets the image into docker, unless `dry`; whether it was missing.

    Raises RefusedError; no container is touched.
    """
    image = params["image"]
    reference = parameters.reference(image)
    missing = docker.answer("image", "inspect", reference)[0] != 0
    if missing and not dry:
        if image["image"]:
            _pull(image["image"], "image")
        elif image["image_file"]:
            load(params["archive"], image["image_sha256"], reference)
        else:
            _build(params, reference)
    if params["parts"] and not (missing and dry):
        try:
            try_parts(reference, *params["parts"])
        except places.RefusedError as error:
            raise places.RefusedError(f"{error}. Nobody's workspace was touched.") from None
    return missing


def _pull(name: str, kind: str) -> None:
    # No time limit: gigabytes may need hours over a slow line.
    code, _out, error = docker.answer("pull", "--quiet", name, timeout=None)
    if code:
        raise places.RefusedError(
            f"{name} could not be pulled: {error.strip()}. Nobody's workspace was touched. Where "
            f"this host reaches no registry, bring the {kind} as a file "
            f"(gpu_workspace_{kind}_file)."
        )


def _build(params: dict[str, Any], reference: str) -> None:
    image, base = params["image"], parameters.base_name(params["image"])
    if docker.answer("image", "inspect", base)[0] != 0:
        if image["base"]:
            _pull(image["base"], "base")
        else:
            load(params["archive"], image["base_sha256"], base)
    if params["proxy"]:
        # docker gets their names only.
        os.environ.update(http_proxy=params["proxy"], https_proxy=params["proxy"])
    wish = {name: image[name] for name in ("packages", "places", "stack")}
    wish.update(reference=reference, base=base, containerfile=params["containerfile"])
    try:
        image_build.build(wish)
    except places.RefusedError as error:
        raise places.RefusedError(
            "The workspaces' image could not be built: {0}. Nobody's workspace was touched; who "
            "has one keeps it as it is.".format(re.sub("//[^/@ ]*@", "//", str(error)))
        ) from None


def try_parts(reference: str, *parts: str) -> dict[str, Any]:
    """Refuses an image that lacks parts that people need, before any container is stopped."""
    script = "; ".join(f"({HAS[part][0]}) >/dev/null || echo lacks {part}" for part in parts)
    code, out, error = docker.answer(
        *("run", "--rm", "--network", "none", "--entrypoint", "/bin/sh", reference),
        *("-c", script),
    )
    lacking = [HAS[line.split()[1]][1] for line in out.splitlines() if line.startswith("lacks ")]
    if code:
        raise places.RefusedError(f"docker could not try the image: {error.strip()[-400:]}")
    if lacking:
        raise places.RefusedError(
            "the image {0} has no {1} in its PATH".format(reference, " and no ".join(lacking))
        )
    return {"has": list(parts)}


def load(
    path: str, sha256: str, reference: str, option: str = "gpu_workspace_image_sha256"
) -> dict[str, Any]:
    """Loads a tar file into docker under our own name, after its SHA-256 was checked."""
    state = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            state.update(block)
    if state.hexdigest() != sha256:
        raise places.RefusedError(
            f"{path} has the SHA-256 {state.hexdigest()}; {option} is {sha256}. It was not loaded"
        )
    out = programs.must(docker.answer("load", "--input", path, timeout=3600), "docker load")
    names = re.findall(r"^Loaded image(?: ID)?: (\S+)$", out, re.M)
    if len(set(names)) != 1:
        raise places.RefusedError(
            f"{path} holds {len(set(names))} images; expected one: docker save NAME"
        )
    programs.must(docker.answer("tag", names[0], reference), "docker tag")
    return {"loaded": names[0], "image": reference}
