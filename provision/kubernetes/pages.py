"""The README of the folder: what is applied in which order, in this lock's own words."""

from __future__ import annotations

from provision.catalog import Catalog
from provision.kubernetes.cluster import plugin
from provision.kubernetes.stack import LABEL, Chosen


def render(facts: Catalog, chosen: Chosen) -> dict[str, bytes]:
    """README.md."""
    row = plugin(facts)
    platform = f"{chosen.platform['distribution']} {chosen.platform['release']}"
    text = f"""\
# {chosen.name} on Kubernetes

Made by `provision kubernetes`; changes made here are lost.

The label that sends pods to hosts of this stack, on each of their nodes:

    kubectl label node NODE {LABEL}={chosen.label}

Once for the cluster, either NVIDIA's device plugin alone:

    kubectl apply --server-side -f cluster/runtime-class.yaml -f cluster/device-plugin.yaml

or NVIDIA's GPU operator, without its driver and its toolkit, which the hosts have:

    helm install gpu-operator nvidia/gpu-operator --version {row.operator} \\
      --namespace gpu-operator --create-namespace --values cluster/gpu-operator-values.yaml

The image, on a machine with docker or podman (BASE is an image of {platform}, by its digest):

    docker build --build-arg BASE=docker.io/library/...@sha256:... --tag REGISTRY/NAME image
    docker push REGISTRY/NAME

A training, with the digest that the push said:

    provision kubernetes --script train.py --workers 2 --image REGISTRY/NAME@sha256:...
"""
    return {"README.md": text.encode()}
