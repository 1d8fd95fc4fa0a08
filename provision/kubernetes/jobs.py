"""The manifests of one training: script, Indexed Job with its Service, TFJob.

Both kinds run the same pod. A Job needs nothing but Kubernetes, and its pods make TF_CONFIG of
their index (programs/launch.py); a TFJob needs the training operator, which writes it.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from provision.errors import InputError
from provision.kubernetes.cluster import MADE_BY, RESOURCE, RUNTIME, TOLERATION
from provision.kubernetes.stack import LABEL, Chosen
from provision.kubernetes.training import LAUNCHER, MAX_BYTES, Training
from provision.yaml_text import dump

PROGRAMS = Path(__file__).parent / "programs"
PORT = 2222
# Nobody on the hosts, and the user of the image.
USER = 10001
SCRIPTS, OUTPUT = "/training", "/output"
# Seconds that a worker waits for the names of the others: images of gigabytes are pulled meanwhile.
PATIENCE = 1800
# How often a worker that ended may be started again; each peer's end counts.
RESTARTS = 6
# Exit codes after which another start would end the same way: usage, a program that is missing or
# can't be run, a wrong argument of exit, a segmentation fault. Not 1: TensorFlow ends with it too
# where a peer went away (https://www.tensorflow.org/tutorials/distribute/multi_worker_with_keras).
FINAL = [2, 126, 127, 128, 139]


def render(chosen: Chosen, wish: Training) -> dict[str, bytes]:
    """File name -> bytes."""
    config_map = _config_map(wish)
    job = dump(_service(wish), header=f"{MADE_BY}\n{_NEEDS_JOB}") + dump(_job(chosen, wish))
    return {
        "script.yaml": dump(config_map, header=f"{MADE_BY}\n{_SCRIPT}"),
        "job.yaml": job,
        "tfjob.yaml": dump(_tfjob(chosen, wish), header=f"{MADE_BY}\n{_NEEDS_TFJOB}"),
    }


_SCRIPT = "Another script has another name here, so workers of one job never mix two."
# Before, Kubernetes' own schema of podFailurePolicy asked every rule for onPodConditions.
_NEEDS_JOB = "For Kubernetes 1.29 and newer, without an operator."
_NEEDS_TFJOB = "For Kubeflow's training operator v1, instead of job.yaml."


def labels(wish: Training, component: str) -> dict[str, str]:
    """Labels of a training's pods; `component` tells those of the Job from those of the TFJob."""
    return {
        "app.kubernetes.io/name": wish.name,
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/managed-by": "provision",
    }


def _scripts(wish: Training) -> dict[str, str]:
    launcher = (PROGRAMS / "launch.py").read_text(encoding="utf-8")
    files = {LAUNCHER: launcher, wish.script: wish.text}
    size = sum(len(text.encode()) for text in files.values())
    if size > MAX_BYTES:
        room = MAX_BYTES - len(launcher.encode())
        raise InputError(
            "the script is too large for a ConfigMap",
            where=wish.script,
            got=f"{len(wish.text.encode())} bytes",
            expected=f"at most {room}, of which data is no part",
            hint="put modules and data into the image, or on the volume of --claim",
        )
    return files


def _config_name(wish: Training) -> str:
    text = "".join(f"{name}\0{text}\0" for name, text in sorted(_scripts(wish).items()))
    return f"{wish.name}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def _config_map(wish: Training) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": _config_name(wish), "labels": labels(wish, "script")},
        "immutable": True,
        "data": _scripts(wish),
    }


def _service(wish: Training) -> dict[str, Any]:
    """Gives every pod of the Job its name, also before it is ready: it waits for the others'."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": wish.name, "labels": labels(wish, "job")},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": labels(wish, "job"),
            "ports": [{"name": "tensorflow", "port": PORT, "targetPort": PORT}],
        },
    }


def _literal(argument: str) -> str:
    """An argument as a manifest has it: Kubernetes replaces $(NAME), and $$ is a $."""
    return argument.replace("$", "$$")


def _container(wish: Training, name: str, command: list[str]) -> dict[str, Any]:
    gpus = {RESOURCE: wish.gpus}
    return {
        "name": name,
        "image": wish.image,
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        **({"args": [_literal(text) for text in wish.arguments]} if wish.arguments else {}),
        "workingDir": OUTPUT,
        "env": [
            {"name": "HOME", "value": "/tmp"},  # noqa: S108 a directory of the pod's own
            {"name": "PYTHONUNBUFFERED", "value": "1"},
            {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"},
        ],
        "ports": [{"name": "tensorflow", "containerPort": PORT}],
        "resources": {"requests": gpus, "limits": gpus},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [
            {"name": "script", "mountPath": SCRIPTS, "readOnly": True},
            {"name": "output", "mountPath": OUTPUT},
            {"name": "scratch", "mountPath": "/tmp"},  # noqa: S108
            {"name": "shared-memory", "mountPath": "/dev/shm"},  # noqa: S108
        ],
    }


def _pod(chosen: Chosen, wish: Training, container: dict[str, Any]) -> dict[str, Any]:
    claim = {"persistentVolumeClaim": {"claimName": wish.claim}} if wish.claim else {"emptyDir": {}}
    return {
        "runtimeClassName": RUNTIME,
        "nodeSelector": {LABEL: chosen.label},
        "tolerations": [TOLERATION],
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [
            {"name": "script", "configMap": {"name": _config_name(wish), "defaultMode": 0o444}},
            {"name": "output", **claim},
            {"name": "scratch", "emptyDir": {}},
            # NCCL hands data from GPU to GPU here; containers have 64 MiB by themselves.
            {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
        ],
    }


def _job(chosen: Chosen, wish: Training) -> dict[str, Any]:
    command = ["python", f"{SCRIPTS}/{LAUNCHER}", f"{SCRIPTS}/{wish.script}"]
    container = _container(wish, "tensorflow", command)
    container["env"] += [
        {"name": name, "value": str(value)}
        for name, value in {
            "PROVISION_JOB": wish.name,
            "PROVISION_SERVICE": wish.name,
            "PROVISION_WORKERS": wish.workers,
            "PROVISION_PORT": PORT,
            "PROVISION_PATIENCE": PATIENCE,
        }.items()
    ]
    pod = {"subdomain": wish.name, "restartPolicy": "Never", **_pod(chosen, wish, container)}
    final = {"containerName": "tensorflow", "operator": "In", "values": FINAL}
    disrupted = {"type": "DisruptionTarget", "status": "True"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": wish.name, "labels": labels(wish, "job")},
        "spec": {
            "completionMode": "Indexed",
            "completions": wish.workers,
            "parallelism": wish.workers,
            "backoffLimit": RESTARTS * wish.workers,
            "podFailurePolicy": {
                "rules": [
                    # A node that is drained is nobody's fault.
                    {"action": "Ignore", "onPodConditions": [disrupted]},
                    {"action": "FailJob", "onExitCodes": final},
                ]
            },
            "template": {"metadata": {"labels": labels(wish, "job")}, "spec": pod},
        },
    }


def _tfjob(chosen: Chosen, wish: Training) -> dict[str, Any]:
    """The container and its port have the names that the operator looks for."""
    container = _container(wish, "tensorflow", ["python", f"{SCRIPTS}/{wish.script}"])
    container["ports"] = [{"name": "tfjob-port", "containerPort": PORT}]
    template = {
        "metadata": {"labels": labels(wish, "tfjob")},
        "spec": _pod(chosen, wish, container),
    }
    worker = {"replicas": wish.workers, "restartPolicy": "OnFailure", "template": template}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": wish.name, "labels": labels(wish, "tfjob")},
        "spec": {
            "runPolicy": {"backoffLimit": RESTARTS * wish.workers, "cleanPodPolicy": "Running"},
            "tfReplicaSpecs": {"Worker": worker},
        },
    }
