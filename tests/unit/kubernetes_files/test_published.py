"""Manifests against the published schemas, of every release that they are said to be for."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.unit.kubernetes_files.published import VERSIONS, faults
from tests.unit.kubernetes_files.test_manifests import for_cluster, manifests


def every() -> dict[str, dict[str, Any]]:
    """kind -> manifest, of the cluster and of a training."""
    files = for_cluster()
    once = [yaml.safe_load(files[f"cluster/{n}.yaml"]) for n in ("runtime-class", "device-plugin")]
    return {manifest["kind"]: manifest for manifest in once} | manifests(workers=2, claim="runs")


KINDS = ["RuntimeClass", "DaemonSet", "ConfigMap", "Service", "Job", "TFJob"]


def test_these_are_all_manifests() -> None:
    assert list(every()) == KINDS
    assert VERSIONS[-1] == ".".join(kubernetes_validate.latest_version().split(".")[:2])


@pytest.mark.parametrize("version", VERSIONS)
def test_every_manifest_is_as_published(version: str) -> None:
    assert [fault for manifest in every().values() for fault in faults(manifest, version)] == []


def _typo(manifest: dict[str, Any]) -> None:
    manifest["spec"]["completionmode"] = manifest["spec"].pop("completionMode")


def _text_for_a_number(manifest: dict[str, Any]) -> None:
    manifest["spec"]["completions"] = "2"


def _no_selector(manifest: dict[str, Any]) -> None:
    del manifest["spec"]["selector"]


def _no_handler(manifest: dict[str, Any]) -> None:
    del manifest["handler"]


def _port_as_text(manifest: dict[str, Any]) -> None:
    manifest["spec"]["ports"][0]["port"] = "2222"


def _number_as_text(manifest: dict[str, Any]) -> None:
    manifest["data"]["workers"] = 2


def _unknown_replica_word(manifest: dict[str, Any]) -> None:
    manifest["spec"]["tfReplicaSpecs"]["Worker"]["completions"] = 2


def _replicas_as_text(manifest: dict[str, Any]) -> None:
    manifest["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] = "2"


def _no_replicas(manifest: dict[str, Any]) -> None:
    del manifest["spec"]["tfReplicaSpecs"]


def _pod_of_a_tfjob(manifest: dict[str, Any]) -> None:
    pod = manifest["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
    pod["containers"][0]["securityContext"]["runAsNonroot"] = True


def _policy_as_list(manifest: dict[str, Any]) -> None:
    manifest["spec"]["runPolicy"] = ["Running"]


@pytest.mark.parametrize(
    ("kind", "spoil", "words"),
    [
        ("Job", _typo, "'completionmode' was unexpected"),
        ("Job", _text_for_a_number, "Job.spec.completions: '2' is not of type"),
        ("DaemonSet", _no_selector, "'selector' is a required property"),
        ("RuntimeClass", _no_handler, "'handler' is a required property"),
        ("Service", _port_as_text, "Service.spec.ports.0.port"),
        ("ConfigMap", _number_as_text, "ConfigMap.data.workers: 2 is not of type"),
        ("TFJob", _unknown_replica_word, "'completions' is no word of KubeflowOrgV1ReplicaSpec"),
        ("TFJob", _replicas_as_text, "Worker.replicas: str, expected int"),
        ("TFJob", _no_replicas, "must not be `None`"),
        ("TFJob", _pod_of_a_tfjob, "'runAsNonroot' was unexpected"),
        ("TFJob", _policy_as_list, "expected KubeflowOrgV1RunPolicy"),
    ],
)
def test_an_invalid_manifest_is_refused(
    kind: str, spoil: Callable[[dict[str, Any]], None], words: str
) -> None:
    """So that a green test above says something."""
    manifest = copy.deepcopy(every()[kind])
    assert faults(manifest, "1.34") == []
    spoil(manifest)
    assert words in "; ".join(faults(manifest, "1.34"))
