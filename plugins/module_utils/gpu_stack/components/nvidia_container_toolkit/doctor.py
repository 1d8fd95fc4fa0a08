"""What goes wrong with GPUs in containers."""

from __future__ import annotations

from ...doctor.case import Case, clue, run_of
from ...host import debian_versions
from ...type_checking import TYPE_CHECKING
from .. import nvidia_container_toolkit
from . import cdi, docker
from .doctor_look import ask

__all__ = ["CASES", "CHECKS", "FIXES", "ask"]

if TYPE_CHECKING:
    from ...shapes import Clues, Facts

CASES = (
    Case(
        "containers-lose-gpus",
        "running containers lose their GPUs at the next `systemctl daemon-reload`",
        ("NVIDIA/nvidia-container-toolkit#48",),
        "systemd looks devices up in /dev/char: make the links, and have them made at each boot; "
        "a container that has lost its GPUs needs a restart",
        ("sudo nvidia-ctk system create-dev-char-symlinks --create-all",),
        (r"Failed to initialize NVML: Unknown Error",),
        "makes the missing links, which last until the next boot",
    ),
    Case(
        "container-runtime",
        "Docker knows no nvidia runtime: the toolkit is missing, or its configuration overwritten",
        ("kubernetes-sigs/kubespray#12277",),
        "configure it again and restart Docker when no container is needed",
        ("sudo nvidia-ctk runtime configure --runtime=docker",),
        (
            r"could not select device driver \S* with capabilities: \[\[gpu\]\]",
            r"[Uu]nknown or invalid runtime name: nvidia",
        ),
        "a run of the components concerned where the lock has the container toolkit",
    ),
    Case(
        "cdi-specification",
        "podman finds no GPUs: the CDI specification is of another driver, or newer than podman",
        ("NVIDIA/nvidia-container-toolkit#1860", "NVIDIA/nvidia-container-toolkit#146"),
        f"make it anew after each change of the driver, in {cdi.RUN} for a toolkit "
        f"from 1.18 on and in {cdi.ETC} for an older one; the variable leaves out the "
        "additional groups, which a podman before 5.1 can't read",
        (f"sudo env {cdi.FLAGS_VARIABLE}={cdi.FLAG} nvidia-ctk cdi generate --output={{path}}",),
        (
            r"unresolvable CDI devices \S*nvidia\.com/gpu",
            r"failed to unmarshal CDI Spec.*additionalGids",
            r"stat nvidia\.com/gpu=\S+: no such file or directory",
        ),
        "a run of the component where the lock has the container toolkit",
    ),
    Case(
        "cri-runtime",
        "pods find no runtime nvidia: containerd or CRI-O does not name it, or was not restarted "
        "since",
        ("NVIDIA/gpu-operator#432", "cri-o/cri-o#10202"),
        "let it be written, and restart the one that pods come from when that ends no container: "
        "containerd reads its file when it starts, and CRI-O's reload shows what no pod is made of",
        (
            "sudo nvidia-ctk runtime configure --runtime={runtime}",
            "sudo systemctl restart {runtime}",
        ),
        (
            r"no runtime for \\?\"nvidia\\?\" is configured",
            r"failed to find runtime handler nvidia from runtime list",
        ),
        "a run of the component where the lock has the container toolkit",
    ),
    Case(
        "crio-monitor",
        "CRI-O does not start: its runtime nvidia names no monitor, and conmon is in no PATH",
        ("NVIDIA/nvidia-container-toolkit#681",),
        "give the runtime the monitor_path that the default one has; nvidia-ctk takes it from "
        "crio.conf alone, and CRI-O's packages have it in crio.conf.d",
        (
            "grep -r monitor_path /etc/crio",
            "sudoedit /etc/crio/crio.conf.d/99-nvidia.toml",
            "sudo systemctl restart crio",
        ),
        (r"failed to translate monitor fields for runtime nvidia",),
        "",
    ),
)


def containers_lose_gpus(facts: Facts) -> Clues:
    # 1.18.1 names devices by their path; under cgroupfs systemd has no say.
    version = facts["toolkit"]
    if version is None or facts["cgroupfs"] or debian_versions.compare(version, "1.18.1") >= 0:
        return []
    return [
        clue("{path} has no {link}, and the container toolkit is {0}".format(version, **device))
        for device in facts["unlinked"]
    ]


def container_runtime(facts: Facts) -> Clues:
    """Clues of a docker without NVIDIA's runtime, on a host that has or should have the toolkit.

    `--gpus` needs no entry in daemon.json, so a missing one counts only where a lock has the
    toolkit.
    """
    row = (facts["row"] or {}).get(nvidia_container_toolkit.NAME)
    version, state, options = facts["toolkit"], facts["docker"], facts["options"]
    absent = options.get(nvidia_container_toolkit.NAME + "_state") == "absent"
    left_alone = docker.wish(options) == "none"
    if not state["installed"] or left_alone or absent or not (row or version):
        return []
    if version is None:
        return [clue("docker is installed, and the lock's container toolkit is not")]
    config, clues = docker.CONFIG, []
    if state["fault"] is not None:
        clues.append(clue("{0} is {1}".format(config, state["fault"])))
    elif row and state["runtime"] is None:
        clues.append(
            clue(f"{config} names no runtime nvidia, and container toolkit {version} is there")
        )  # fmt: skip
    if state["owed"]:
        clues.append(clue("docker was started before the container toolkit, and not since then"))
    return clues


def cdi_specification(facts: Facts) -> Clues:
    """Clues of a bad specification, on a host that has the toolkit and a podman that reads CDI.

    A missing one counts only where a lock has the toolkit.
    """
    row, state = (facts["row"] or {}).get(nvidia_container_toolkit.NAME), facts["cdi"]
    options = facts["options"]
    absent = options.get(nvidia_container_toolkit.NAME + "_state") == "absent"
    if state is None or absent or state["fault"] is None or not cdi.concerned(state, options):
        return []
    if state["fault"] == "absent" and not row:
        return []
    return [clue("{path}: {fault}".format(**state), path=state["path"])]


def cri_runtime(facts: Facts) -> Clues:
    """Clues of containerd or CRI-O without NVIDIA's runtime, where they are to serve pods.

    A missing one counts only where a lock has the toolkit: the GPU Operator may provide it.
    """
    row = (facts["row"] or {}).get(nvidia_container_toolkit.NAME)
    if facts["options"].get(nvidia_container_toolkit.NAME + "_state") == "absent":
        return []
    clues = []
    for unit in sorted(facts["cri"]):
        state = facts["cri"][unit]
        if not state["wanted"]:
            continue
        if state["fault"] is not None:
            clues.append(clue("{0}: {1}".format(unit, state["fault"]), runtime=unit))
        elif state["runtime"] is None and row:
            clues.append(clue(f"{unit} names no runtime nvidia", runtime=unit))
        elif state["owed"]:
            evidence = "{0} was started before it was told of the runtime, and not since then"
            clues.append(clue(evidence.format(unit), runtime=unit))
    return clues


CHECKS = {
    "containers-lose-gpus": containers_lose_gpus,
    "container-runtime": container_runtime,
    "cdi-specification": cdi_specification,
    "cri-runtime": cri_runtime,
}
FIXES = {
    "containers-lose-gpus": lambda facts, _clues: {"links": facts["unlinked"]},
    "container-runtime": run_of("nvidia_container_toolkit"),
    "cdi-specification": run_of("nvidia_container_toolkit"),
    "cri-runtime": run_of("nvidia_container_toolkit"),
}
