"""Judges manifests by what Kubernetes and Kubeflow publish: JSON schemas, and the SDK's models.

Kubernetes' schemas are those of `kubernetes-validate`, in their strict form, which knows no word
beside its own. A TFJob's shape is that of Kubeflow's own Python SDK (`kubeflow-training`, generated
from the training operator's OpenAPI document); what the SDK takes from Kubernetes is judged by
Kubernetes' schemas again.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from typing import Any

import kubernetes_validate

VERSIONS = [f"1.{minor}" for minor in range(29, 38)]


def faults(manifest: dict[str, Any], version: str) -> list[str]:
    """What a release of Kubernetes finds wrong with a manifest."""
    if manifest["kind"] == "TFJob":
        return [*_of_model(manifest, "KubeflowOrgV1TFJob", "TFJob", version)]
    try:
        kubernetes_validate.validate(manifest, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        place = ".".join(map(str, error.absolute_path))
        return [f"{manifest['kind']}.{place}: {error.message}"]
    return []


def _of_model(value: Any, kind: str, place: str, version: str) -> Iterator[str]:
    """What is not as the SDK's type says: unknown words, other types."""
    many = re.fullmatch(r"(list\[|dict\(str, )(.+)[\])]", kind)
    if many:
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        if isinstance(value, dict) != kind.startswith("dict"):
            yield f"{place}: {type(value).__name__}, expected {kind}"
            return
        for key, item in pairs:
            yield from _of_model(item, many.group(2), f"{place}.{key}", version)
    elif kind == "V1PodTemplateSpec":
        # The kind of Kubernetes' that has such a template, and nothing else that it needs.
        around = {"apiVersion": "v1", "kind": "PodTemplate", "template": value}
        yield from (f"{place}: {fault}" for fault in faults(around, version))
    elif kind == "V1ObjectMeta":
        around = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": value}
        yield from (f"{place}: {fault}" for fault in faults(around, version))
    elif kind in ("str", "int", "bool"):
        expected = {"str": str, "int": int, "bool": bool}[kind]
        if type(value) is not expected:
            yield f"{place}: {type(value).__name__}, expected {kind}"
    else:
        yield from _of_class(value, kind, place, version)


def _of_class(value: Any, kind: str, place: str, version: str) -> Iterator[str]:
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind).lower().replace("tfjob", "tf_job")
    model = getattr(importlib.import_module(f"kubeflow.training.models.{name}"), kind)
    if not isinstance(value, dict):
        yield f"{place}: {type(value).__name__}, expected {kind}"
        return
    names = {word: attribute for attribute, word in model.attribute_map.items()}
    for word, item in value.items():
        if word in names:
            yield from _of_model(item, model.openapi_types[names[word]], f"{place}.{word}", version)
        else:
            yield f"{place}: {word!r} is no word of {kind}"
    # The model's own setters refuse what is missing.
    try:
        model(**{names[word]: item for word, item in value.items() if word in names})
    except ValueError as error:
        yield f"{place}: {error}"
