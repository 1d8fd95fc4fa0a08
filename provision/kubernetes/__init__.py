"""What a Kubernetes cluster of provisioned hosts takes, from the lock alone.

The hosts have the driver and the runtime for containers already; a cluster that would install its
own beside them is what these files keep from happening. Scheduling, restarts and the wiring of
workers are Kubernetes' and the training operator's: here are manifests for them and no operator
(docs/decisions/0019-kubernetes.md). Pure: no cluster is asked or touched.
"""

from __future__ import annotations

from provision.catalog import Catalog
from provision.kubernetes import cluster, image, jobs, pages
from provision.kubernetes.stack import LABEL, Chosen, choose
from provision.kubernetes.training import Training, training
from provision.lock import Lock

__all__ = ["LABEL", "Chosen", "Training", "choose", "for_cluster", "for_training", "training"]


def for_cluster(lock: Lock, facts: Catalog, chosen: Chosen) -> dict[str, bytes]:
    """Path -> bytes of what the cluster is made ready with, and of the image's context."""
    return {
        **pages.render(facts, chosen),
        **{f"cluster/{name}": data for name, data in cluster.render(facts).items()},
        **{f"image/{name}": data for name, data in image.render(lock, facts, chosen).items()},
    }


def for_training(chosen: Chosen, wish: Training) -> dict[str, bytes]:
    """Path -> bytes of the manifests of one training."""
    return jobs.render(chosen, wish)
