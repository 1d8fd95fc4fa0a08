"""gpu_serving: models served by TensorFlow Serving in containers, kept by systemd."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from provision.collection import stack_module
from provision.inventory import Fault, is_template
from provision.models import Wish
from provision.roles.base import Options, Role, Row, option
from provision.roles.slurm import GPU_SHARE
from provision.roles.workspaces_on_hosts import (
    image_fault,
    people,
    serving_clash,
    servings,
    takers,
)
from provision.roles.workspaces_rules import Secrets, no_toolkit


def _servings(value: object) -> str | None:
    try:
        servings(value)
    except ValueError as error:
        return str(error)
    return None


def _image(value: object) -> str | None:
    return image_fault(str(value))


def _sha256(value: object) -> str | None:
    if value == "" or (isinstance(value, str) and re.fullmatch(r"[0-9a-f]{64}", value)):
        return None
    return f"{value!r} is no SHA-256; expected the 64 lower-case hex digits of `sha256sum FILE`"


class GpuServingOptions(Options):
    """Public variables of the role."""

    gpu_servings: list[dict[str, Any]] = option(
        [],
        looked_at=True,
        example="[{name: mnist, models: /srv/models/mnist, gpus: [0], gpu_memory: 0.4, "
        'port: 8501, memory: "8g"}]',
        reads=_servings,
    )
    """The models to serve, each as {name, models, gpus, port} and optionally grpc_port, gpu_memory,
    shared, cpus, memory, files, poll, user, compare, tensorrt. A model removed from the list is
    stopped; its directory stays. Literal data (no templates), and no secrets.
    """
    gpu_serving_tokens: dict[str, str] = option({})
    """The models' tokens for the front door as {name: token}, from Ansible Vault; at least 16
    characters. For any other model the host generates one in /etc/gpu-serving/NAME/token.
    """
    gpu_serving_image: str = option(
        "",
        looked_at=True,
        example="docker.io/tensorflow/serving@sha256:<64 hex digits>",
        reads=_image,
    )
    """TensorFlow Serving image of the lock's TensorFlow version, pinned by digest; if it comes from
    a mirror, with the mirror's name. Or sha256:<64 hex digits>, the id of an image that is already
    on the hosts.
    """
    gpu_serving_image_file: str = option("", path=True, example="/srv/images/serving-2.9.3-gpu.tar")
    """The image as a tar file (docker save) on the machine that runs Ansible, for hosts that can't
    reach a registry.
    """
    gpu_serving_image_sha256: str = option("", looked_at=True, reads=_sha256)
    """SHA-256 of gpu_serving_image_file, checked before docker loads the file."""
    gpu_serving_release: str = option("", identity=True, wish='gpu_stack: {tensorflow: "2.9"}')
    """TensorFlow version that the image must have and that predictions are compared with."""
    gpu_serving_tensorflow: str = option(
        "/opt/tensorflow/current", identity=True, wish="tensorflow_root"
    )
    """Directory of that TensorFlow on the host."""
    gpu_serving_slurm: dict[str, Any] = option(
        {},
        internal=True,
        planned=GPU_SHARE,
    )
    """The Slurm options that say which GPUs Slurm gives out; no model gets these."""
    gpu_serving_patience: int = option(300)
    """Seconds to wait until each model is served."""


def variables(_stack: str, row: Row) -> dict[str, Any]:
    """The lock's TensorFlow."""
    if "tensorflow" not in row:
        return {}
    return {
        "gpu_serving_release": row["tensorflow"]["version"],
        # The directory of the role tensorflow.
        "gpu_serving_tensorflow": "{{ tensorflow_root | default('/opt/tensorflow') }}/current",
    }


TOKENS = Secrets(
    "gpu_serving_tokens",
    noun="token",
    kept="token",
    lack="model",
    otherwise="the host makes one and keeps it for root",
)


@dataclass(frozen=True)
class Servings:
    """The rules over several variables of a host's served models."""

    names: tuple[str, ...] = (
        *("gpu_servings", "gpu_serving_tokens", "gpu_serving_image", "gpu_serving_image_file"),
        *("gpu_serving_image_sha256", "gpu_workspaces", "gpu_front_door_name"),
        *("gpu_front_door_port", "gpu_front_door_redirect", "gpu_front_door_tls"),
        *("slurm_state", "slurm_gpus", "slurm_compute", "gpu_count"),
    )

    def fault(
        self, values: Mapping[str, Any], wish: Wish, written: Callable[[str], str]
    ) -> Fault | None:
        """The first fault; no token is ever part of it."""
        word = self.names[0]
        if is_template(values[word]):
            return Fault(
                word,
                f"{word} holds a template; what is served is literal, so that clashes are seen "
                "before any host is asked",
                expected="a literal, like [{name: mnist, models: /srv/models/mnist, gpus: none, "
                "port: 8501}]",
                hint="what is secret stands in gpu_serving_tokens, which may be a template or "
                "vaulted",
            )
        try:
            models = servings(values[word])
        except ValueError as error:
            return Fault(word, f"{word}: {error}", hint=f"`provision explain {word}`")
        names = [model["name"] for model in models]
        return (
            TOKENS.fault(values.get(TOKENS.word), names, written, lambda _name, _token: None)
            or _one_image(models, values)
            or _clash(models, values)
            or no_toolkit("gpu_servings", models, wish, "a model")
            or _no_tensorrt(models)
        )


def _one_image(models: list[dict[str, Any]], values: Mapping[str, Any]) -> Fault | None:
    """The fault where not exactly one image is given, or a file or a hash without the other."""
    by_file, hashed = (values.get("gpu_serving_image_" + word) for word in ("file", "sha256"))
    one_source = bool(values.get("gpu_serving_image")) != bool(by_file)
    if not models or (one_source and bool(by_file) == bool(hashed)):
        return None
    words = ("gpu_serving_image", "gpu_serving_image_file", "gpu_serving_image_sha256")
    return Fault(
        "gpu_servings",
        "the models need one image of TensorFlow Serving, by a digest or a hash",
        got=", ".join(word for word in words if values.get(word)) or "none",
        expected="gpu_serving_image: docker.io/tensorflow/serving@sha256:..., or "
        "gpu_serving_image_file with gpu_serving_image_sha256",
        hint="where it was pulled, `docker image inspect tensorflow/serving:2.9.3-gpu` lists the "
        "digest under RepoDigests; a tag alone is another image tomorrow",
    )


def _clash(models: list[dict[str, Any]], values: Mapping[str, Any]) -> Fault | None:
    """What a workspace, the front door or Slurm has too: a port, a path, a GPU."""
    workspaces = values.get("gpu_workspaces")
    try:
        persons = people(workspaces) if workspaces and not is_template(workspaces) else []
    except ValueError:
        return None  # their own judge says it
    wrong = serving_clash(models, persons, values) or _slurms_gpu(models, persons, values)
    return Fault("gpu_servings", f"gpu_servings: {wrong}") if wrong else None


def _slurms_gpu(
    models: list[dict[str, Any]], persons: list[dict[str, Any]], values: Mapping[str, Any]
) -> str | None:
    """Which GPU Slurm gives out as well; a template is judged on the host."""
    slurm = {name: values[name] for name in values if name.startswith(("slurm_", "gpu_count"))}
    if not models or any(is_template(value) for value in slurm.values()):
        return None
    shares, asking = stack_module("host.gpu_shares"), persons + takers(models)
    try:
        count = slurm.get("gpu_count") or 0
        why: str | None = shares.clash(shares.promised(slurm), asking, count)
    except ValueError:
        return None  # what is wrong with slurm_gpus is Slurm's to say
    return why


def _no_tensorrt(models: list[dict[str, Any]]) -> Fault | None:
    names = [model["name"] for model in models if model["tensorrt"]]
    if not names:
        return None
    return Fault(
        "gpu_servings",
        f"{', '.join(names)} cannot be converted by TF-TRT: it needs TensorRT (libnvinfer 7 for "
        "TensorFlow 2.9), which no lock has",
        expected="tensorrt left out",
        hint="TensorFlow Serving serves the model without; one that was converted elsewhere is "
        "served like any other where the image has that library",
    )


ROLE = Role("gpu_serving", GpuServingOptions, variables)
