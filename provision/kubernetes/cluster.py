"""What the cluster itself gets once: the runtime class, and who tells kubelet of the GPUs."""

from __future__ import annotations

from typing import Any

from provision.catalog import Catalog
from provision.catalog.container_rows import DevicePluginRow
from provision.kubernetes.stack import LABEL
from provision.yaml_text import dump

# The runtime that a run makes known to containerd and CRI-O.
RUNTIME = "nvidia"
RESOURCE = "nvidia.com/gpu"
TOLERATION = {"key": RESOURCE, "operator": "Exists", "effect": "NoSchedule"}
MADE_BY = "Made by `provision kubernetes`; changes made here are lost."
_PLUGIN = "nvidia-device-plugin-daemonset"
_SOCKETS = "/var/lib/kubelet/device-plugins"


def render(facts: Catalog) -> dict[str, bytes]:
    """File name -> bytes."""
    row = plugin(facts)
    return {
        "runtime-class.yaml": dump(_runtime_class(), header=f"{MADE_BY}\n{_NOT_WITH_OPERATOR}"),
        "device-plugin.yaml": dump(
            _daemon_set(row),
            header=f"{MADE_BY}\nNVIDIA's device plugin {row.version}, as it publishes it, on the "
            f"nodes with the label\n{LABEL}, pinned by digest.\n{_NOT_WITH_OPERATOR}",
        ),
        "device-plugin-values.yaml": dump(
            _plugin_values(row),
            header=f"{MADE_BY}\nInstead of device-plugin.yaml, for Helm: chart "
            f"nvidia-device-plugin {row.chart}.",
        ),
        "gpu-operator-values.yaml": dump(
            _operator_values(),
            header=f"{MADE_BY}\nInstead of runtime-class.yaml and device-plugin.yaml, for Helm: "
            f"chart gpu-operator {row.operator}.\nDriver and toolkit are the hosts': the "
            "operator's own would be installed over them.",
        ),
    }


_NOT_WITH_OPERATOR = "Not beside the GPU operator, which brings its own."


def plugin(facts: Catalog) -> DevicePluginRow:
    """The newest release of the device plugin that the catalog has."""
    return facts.device_plugins[0]


def _runtime_class() -> dict[str, Any]:
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": RUNTIME},
        "handler": RUNTIME,
    }


def _on_our_nodes() -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": LABEL, "operator": "Exists"}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"nodeAffinity": required}


def _daemon_set(row: DevicePluginRow) -> dict[str, Any]:
    """The source is the row's; ours are the digest, the runtime class, the nodes and seccomp.

    It runs as root, for the sockets' directory is root's, and without any capability.
    """
    labels = {"name": "nvidia-device-plugin-ds"}
    container = {
        "name": "nvidia-device-plugin-ctr",
        "image": f"{row.image}:v{row.version}@{row.digest}",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "kubelet-device-plugins-dir", "mountPath": _SOCKETS}],
    }
    pod = {
        "runtimeClassName": RUNTIME,
        "priorityClassName": "system-node-critical",
        "automountServiceAccountToken": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "affinity": _on_our_nodes(),
        "tolerations": [TOLERATION],
        "containers": [container],
        "volumes": [
            {
                "name": "kubelet-device-plugins-dir",
                "hostPath": {"path": _SOCKETS, "type": "Directory"},
            }
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": _PLUGIN, "namespace": "kube-system", "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "RollingUpdate"},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _plugin_values(row: DevicePluginRow) -> dict[str, Any]:
    return {
        "image": {"repository": row.image, "tag": f"v{row.version}@{row.digest}"},
        "runtimeClassName": RUNTIME,
        "affinity": _on_our_nodes(),
        "tolerations": [TOLERATION],
    }


def _operator_values() -> dict[str, Any]:
    return {
        "driver": {"enabled": False},
        "toolkit": {"enabled": False},
        "operator": {"runtimeClass": RUNTIME},
        "devicePlugin": {"enabled": True},
    }
