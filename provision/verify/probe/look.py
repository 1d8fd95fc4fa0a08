"""Collects everything that the checks judge into one answer."""

from __future__ import annotations

import json
import os
import platform
import pwd
import sys
from typing import Any

from .environments import environments, nvcc, sshd_uses_pam
from .libraries import cudnn_headers, library, loader_cache, owner, packages
from .machine import in_container, kernel_module, os_release, pci_functions, receipt
from .parts import PARTS
from .system import SIMULATED, run
from .tensorflow import tensorflow
from .workspaces import front_door, workspaces


def look(parameters: dict[str, Any]) -> dict[str, Any]:
    """Everything that the checks judge, as a dict that JSON can hold."""
    row, options = parameters["row"], parameters["options"]
    cuda = row.get("cuda") or {}
    release, cache, places = os_release(), loader_cache(), environments()
    # Only the variables that are judged: others may be private.
    names = ["PATH", "XLA_FLAGS", *(options.get("gpu_env_variables") or {})]
    query = "driver_version,name,uuid,pci.bus_id,mig.mode.current,memory.total"
    answers: dict[str, Any] = {
        "format": 1,
        "user": pwd.getpwuid(os.getuid()).pw_name,
        "platform": {
            "distribution": release.get("ID"),
            "release": release.get("VERSION_ID"),
            "architecture": platform.machine(),
            "kernel": platform.release(),
        },
        "container": in_container(),
        "simulated_gpu": os.path.exists(SIMULATED),
        "nvidia_smi": run(["nvidia-smi", "--query-gpu=" + query, "--format=csv,noheader"]),
        "nvidia_smi_list": run(["nvidia-smi", "-L"]),
        "module": kernel_module(),
        "pci": pci_functions(),
        "packages": packages(row),
        "environment": {
            place: None if variables is None else {name: variables.get(name) for name in names}
            for place, variables in places.items()
        },
        "nvcc": nvcc(places),
        "sshd_uses_pam": sshd_uses_pam(),
        "libraries": {
            soname: library(soname, package, cache)
            for soname, package in (cuda.get("sonames") or {}).items()
        },
        "libcuda": library("libcuda.so.1", "libcuda1", cache),
        "files": {
            name: {
                "path": file["path"],
                "exists": os.path.exists(file["path"]),
                # ptxas is started, libdevice is read.
                "usable": os.access(file["path"], os.X_OK if name == "ptxas" else os.R_OK),
                "owner": owner(os.path.realpath(file["path"]), file.get("package")),
            }
            for name, file in (cuda.get("files") or {}).items()
        },
        "receipt": receipt(),
    }
    answers.update(components(row, options, cache))
    return answers


def components(
    row: dict[str, Any], options: dict[str, Any], cache: dict[str, str]
) -> dict[str, Any]:
    """Answers for the components that only some locks or inventories have."""
    answers: dict[str, Any] = {}
    cudnn = row.get("cudnn") or {}
    if cudnn:
        answers["cudnn"] = library(cudnn["soname"], None, cache, "cudnnGetVersion")
        answers["cudnn"]["headers"] = cudnn_headers(options["cudnn_root"])
        answers["cudnn"]["root"] = os.path.realpath(options["cudnn_root"])
    for part in PARTS:
        answers.update(part(row, options))
    if options.get("gpu_workspaces"):
        answers["workspaces"] = workspaces(options["gpu_workspaces"])
    if options.get("gpu_front_door_name"):
        answers["front_door"] = front_door(options)
    if row.get("tensorflow"):
        sonames = sorted(row["tensorflow"].get("sonames") or {})
        answers["tensorflow"] = tensorflow(options["tensorflow_root"], sonames)
    if row.get("beside"):
        answers["beside"] = [
            tensorflow(
                options["tensorflow_root"],
                sorted(part.get("sonames") or {}),
                f"{part['version']}-{part['requirements_sha256'][:8]}",
            )
            for part in row["beside"]
        ]
    return answers


if __name__ == "__main__":
    PARAMETERS = json.loads(sys.argv[1])
    if "row" in PARAMETERS:
        sys.stdout.write("PROVISION-PROBE " + json.dumps(look(PARAMETERS)) + "\n")
