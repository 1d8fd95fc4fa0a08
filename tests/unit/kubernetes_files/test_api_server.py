"""All manifests at a real API server: taken as they are, and a wrong one is not.

Pods are made by the real controllers and started by nobody: where one ends, its status is written
by this test, a stand-in for kubelet.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from provision.kubernetes import LABEL
from tests.unit.kubernetes_files import api_server
from tests.unit.kubernetes_files.api_server import Cluster, until
from tests.unit.kubernetes_files.test_manifests import CHOSEN
from tests.unit.kubernetes_files.test_published import every

CRD = os.environ.get("PROVISION_TFJOB_CRD", "")
NAMESPACE = "/namespaces/lab"
PLACES = {
    "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses",
    "DaemonSet": "/apis/apps/v1/namespaces/kube-system/daemonsets",
    "ConfigMap": f"/api/v1{NAMESPACE}/configmaps",
    "Service": f"/api/v1{NAMESPACE}/services",
    "Job": f"/apis/batch/v1{NAMESPACE}/jobs",
    "TFJob": f"/apis/kubeflow.org/v1{NAMESPACE}/tfjobs",
}
PODS = f"/api/v1{NAMESPACE}/pods"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (api_server.has("etcd") and api_server.has("kube-apiserver")),
        reason="no API server: KUBEBUILDER_ASSETS names no folder with etcd and kube-apiserver",
    ),
]
with_controllers = pytest.mark.skipif(
    not api_server.has("kube-controller-manager"),
    reason="KUBEBUILDER_ASSETS has no kube-controller-manager",
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with a namespace that takes pods of the profile `restricted` alone, and a node."""
    with api_server.started(tmp_path_factory.mktemp("cluster")) as started:
        enforce = {"pod-security.kubernetes.io/enforce": "restricted"}
        metadata = {"name": "lab", "labels": enforce}
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        assert started.ask("POST", "/api/v1/namespaces", body)[0] == 201
        metadata = {"name": "gpu01", "labels": {LABEL: CHOSEN.label}}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
        assert started.ask("POST", "/api/v1/nodes", node)[0] == 201
        until(
            "no kube-system", lambda: started.ask("GET", "/api/v1/namespaces/kube-system")[0] == 200
        )
        yield started


@pytest.fixture(scope="module")
def operator(cluster: Cluster) -> None:
    """The training operator's definition of a TFJob; the operator itself does not run."""
    if not CRD:
        pytest.skip("PROVISION_TFJOB_CRD names no CustomResourceDefinition of TFJob")
    definition = yaml.safe_load(Path(CRD).read_text(encoding="utf-8"))
    place = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    status, answer = cluster.apply(place, definition)
    assert status in (200, 201), answer
    path = PLACES["TFJob"]
    until("no TFJobs", lambda: cluster.ask("GET", path)[0] == 200)


@pytest.mark.parametrize("kind", [kind for kind in PLACES if kind != "TFJob"])
def test_a_manifest_is_taken_as_it_is(cluster: Cluster, kind: str) -> None:
    _taken(cluster, kind)


def test_a_tfjob_is_taken_as_it_is(cluster: Cluster, operator: None) -> None:
    _taken(cluster, "TFJob")


def _taken(cluster: Cluster, kind: str) -> None:
    manifest = every()[kind]
    for dry in (True, False):
        status, answer = cluster.apply(PLACES[kind], manifest, dry=dry)
        assert status in (200, 201), answer
    assert _lacking(manifest, answer) == []
    # Once more, as it is: nothing moves.
    status, again = cluster.apply(PLACES[kind], manifest)
    assert status == 200
    assert again["metadata"].get("generation") == answer["metadata"].get("generation")


def _lacking(asked: Any, answered: Any, place: str = "") -> list[str]:
    """What the server has dropped or changed of a manifest; what it adds is its own."""
    if isinstance(asked, dict) and isinstance(answered, dict):
        faults = [f"{place}.{key} is gone" for key in asked if key not in answered]
        for key in asked.keys() & answered.keys():
            faults += _lacking(asked[key], answered[key], f"{place}.{key}")
        return faults
    if isinstance(asked, list) and isinstance(answered, list) and len(asked) == len(answered):
        pairs = zip(asked, answered, strict=True)
        return [f for n, (a, b) in enumerate(pairs) for f in _lacking(a, b, f"{place}.{n}")]
    same = asked == answered or str(asked) == str(answered)  # quantities are texts there
    return [] if same else [f"{place}: {asked!r}, then {answered!r}"]


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("Job", ["spec", "completion"], 2),
        ("Job", ["spec", "template", "spec", "restartPolicy"], "Always"),
        ("Service", ["metadata", "name"], "Train"),
        ("ConfigMap", ["data", "my script.py"], "text"),
        ("ConfigMap", ["data", "large"], "x" * (1 << 20)),
        ("DaemonSet", ["spec", "template", "metadata", "labels"], {"name": "other"}),
        ("RuntimeClass", ["handler"], "NVIDIA runtime"),
    ],
)
def test_a_wrong_manifest_is_refused(
    cluster: Cluster, kind: str, path: list[str], value: Any
) -> None:
    manifest = copy.deepcopy(every()[kind])
    manifest["metadata"]["name"] = f"{manifest['metadata']['name']}-wrong"
    *way, last = path
    place = manifest
    for word in way:
        place = place[word]
    place[last] = value
    status, _answer = cluster.apply(PLACES[kind], manifest, dry=True)
    assert status in (400, 422, 500)


def test_a_wrong_tfjob_is_refused(cluster: Cluster, operator: None) -> None:
    manifest = copy.deepcopy(every()["TFJob"])
    manifest["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] = "2"
    assert cluster.apply(PLACES["TFJob"], manifest, dry=True)[0] in (400, 422, 500)


# what the controllers make of them


def _pods(cluster: Cluster, phase: str = "Pending") -> dict[str, Any]:
    """index -> pod of this phase."""
    status, answer = cluster.ask("GET", f"{PODS}?labelSelector=batch.kubernetes.io/job-name=train")
    assert status == 200
    index = "batch.kubernetes.io/job-completion-index"
    return {
        pod["metadata"]["annotations"][index]: pod
        for pod in answer["items"]
        if pod["status"]["phase"] == phase and "deletionTimestamp" not in pod["metadata"]
    }


def _ends(cluster: Cluster, pod: dict[str, Any], code: int) -> None:
    """What kubelet would write of a pod whose container ended with this exit code."""
    ended = {"terminated": {"exitCode": code, "reason": "Error"}}
    container = {
        "name": "tensorflow",
        "image": "x",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": ended,
    }
    body = {"status": {"phase": "Failed", "containerStatuses": [container]}}
    path = f"{PODS}/{pod['metadata']['name']}/status"
    status, answer = cluster.ask("PATCH", path, body, "application/strategic-merge-patch+json")
    assert status == 200, answer


@with_controllers
def test_the_device_plugin_gets_a_pod_on_a_node_with_the_label(cluster: Cluster) -> None:
    for kind in ("RuntimeClass", "DaemonSet"):
        assert cluster.apply(PLACES[kind], every()[kind])[0] in (200, 201)
    labels = "labelSelector=name=nvidia-device-plugin-ds"
    path = f"/api/v1/namespaces/kube-system/pods?{labels}"
    pods = until("no pod of the DaemonSet", lambda: cluster.ask("GET", path)[1]["items"])
    assert len(pods) == 1


@with_controllers
def test_a_worker_that_ended_is_started_again_until_that_is_of_no_use(cluster: Cluster) -> None:
    """The Job's pods pass the profile `restricted`, and have the names that TF_CONFIG has."""
    for kind in ("RuntimeClass", "ConfigMap", "Service", "Job"):
        assert cluster.apply(PLACES[kind], every()[kind])[0] in (200, 201)
    pods = until("not two pods", lambda: len(found := _pods(cluster)) == 2 and found)
    for index, pod in pods.items():
        assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == (f"train-{index}", "train")
        assert pod["spec"]["nodeSelector"] == {LABEL: CHOSEN.label}
    _ends(cluster, pods["1"], 1)
    former = pods["1"]["metadata"]["uid"]
    until(
        "worker 1 was not started again",
        lambda: _pods(cluster).get("1", pods["1"])["metadata"]["uid"] != former,
    )
    _ends(cluster, _pods(cluster)["0"], 127)

    def failed() -> list[str]:
        job = cluster.ask("GET", f"{PLACES['Job']}/train")[1]
        conditions = job["status"].get("conditions", [])
        return [c["reason"] for c in conditions if c["type"] == "Failed" and c["status"] == "True"]

    assert until("the Job did not fail", failed) == ["PodFailurePolicy"]
