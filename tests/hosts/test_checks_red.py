"""Every check turned red on a real host, by a damage that a person would recognise, and undone.

The recorded states of tests/mutants judge what the probe could say; here the probe itself must see
the damage. Three checks can't be red on a host of a lab, and say so themselves: a container has no
kernel module, and a simulated GPU has no driver version of its own and computes nothing.
"""

from __future__ import annotations

import base64
import json
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import Project

from provision.verify import conftest as verify
from provision.verify.checks import CHECKS, Verdict
from tests import collection

pytestmark = pytest.mark.slow

LIB = "/usr/lib/x86_64-linux-gnu"
SIMULATED = "/usr/local/lib/gpu-simulated"
CUDNN = "/opt/nvidia/cudnn/current"
SITE = "/opt/tensorflow/current/lib/python3.9/site-packages"
# From the fourth on they are of stacks whose CUDA comes as wheels, or that have the container
# toolkit, or of hosts with workspaces; the labs of these tests have none of it.
NOT_ON_A_LAB_HOST = {
    *("nvidia_driver.version", "nvidia_driver.module", "tensorflow.computes"),
    "tensorflow.cuda_wheels",
    *("nvidia_container_toolkit.packages", "nvidia_container_toolkit.docker"),
    "nvidia_container_toolkit.cdi",
    *("gpu_workspace.runs", "gpu_workspace.jupyter", "gpu_workspace.ssh"),
    *("gpu_workspace.tensorboard", "gpu_workspace.gpus", "gpu_workspace.limits"),
    *("gpu_front_door.answers", "gpu_front_door.page", "gpu_front_door.strangers"),
}
AWAY = "/var/tmp/away/"
# Another CUDA's nvcc, as it stands in front of PATH after somebody's hurried installation.
OLD_NVCC = (
    "mkdir -p /opt/old/bin; printf '#!/bin/sh\\necho release 12.4, V12.4.131\\n' "
    "> /opt/old/bin/nvcc; chmod 755 /opt/old/bin/nvcc"
)


def away(*paths: str, then: str = "true") -> tuple[str, str]:
    """(damage, undo): the files are not there."""
    # Elsewhere, for ldconfig takes every lib*.so* beside it into its cache.
    kept = {path: AWAY + path.replace("/", "%") for path in paths}
    gone = "; ".join(f"mv {path} {place}" for path, place in kept.items())
    back = "; ".join(f"mv {place} {path}" for path, place in kept.items())
    return f"mkdir -p {AWAY}; {gone}; {then}", f"{back}; {then}"


def edited(path: str, old: str, new: str, then: str = "true") -> tuple[str, str]:
    """(damage, undo): a word of a file is another one; the word must be there."""
    change = f"cp -p {path} {path}.away; grep -q {shlex.quote(old)} {path}; sed -i "
    return (
        change + shlex.quote(f"s|{old}|{new}|") + f" {path}; {then}",
        f"mv {path}.away {path}; {then}",
    )


def killed(package: str) -> tuple[str, str]:
    """(damage, undo): dpkg was killed while it configured a package."""
    path = "/var/lib/dpkg/status"
    script = f"/^Package: {package}$/,/^$/s/^Status: .*/Status: hold ok half-configured/"
    return (
        f"cp -p {path} {path}.away; sed -i {shlex.quote(script)} {path}",
        f"mv {path}.away {path}",
    )


@dataclass(frozen=True)
class Damage:
    """What is done as root, what undoes it, and the checks that must be red: exactly these.

    `components` of the stack are looked at, for an import of TensorFlow takes its time.
    """

    title: str
    commands: tuple[str, str]
    red: tuple[str, ...]
    components: tuple[str, ...]
    words: str


DRIVER, CUDA = ("nvidia_driver",), ("cuda",)
TENSORFLOW = ("nvidia_driver", "tensorflow")
NVCC = tuple(f"cuda.nvcc_{place}" for place in ("login", "ssh", "cron", "systemd"))
# The hosts have no compiler; the controller, which makes the simulated GPU, has one.
OLD_CUDNN = (
    "mkdir -p /opt/old/lib; base64 -d > /opt/old/lib/libcudnn.so.8; "
    "echo /opt/old/lib > /etc/ld.so.conf.d/0-old.conf; ldconfig"
)
DAMAGES = (
    Damage(
        "the host's Python is gone",
        away("/usr/bin/python3"),
        ("host.answers",),
        (),
        "the probe did not run: ",
    ),
    Damage(
        "nvidia-smi gets the real NVML, which finds no module",
        away(f"{SIMULATED}/libnvidia-ml.so.1", then="ldconfig -X"),
        ("nvidia_driver.answers",),
        DRIVER,
        "nvidia-smi can't reach the kernel module",
    ),
    Damage(
        "libcuda.so.1 is gone",
        away(f"{LIB}/libcuda.so.1", f"{SIMULATED}/libcuda.so.1", then="ldconfig -X"),
        ("nvidia_driver.library",),
        DRIVER,
        "libcuda.so.1 can't be loaded",
    ),
    Damage(
        "dpkg was killed while configuring a driver package",
        killed("libcuda1"),
        ("nvidia_driver.packages",),
        DRIVER,
        "libcuda1 is half installed (hF)",
    ),
    Damage(
        "a GPU no longer answers the driver",
        edited("/etc/gpu-simulated", "count=2", "count=1"),
        ("nvidia_driver.gpus",),
        DRIVER,
        "1 of 2 GPUs answer; the driver does not show 0000:3c:00.0",
    ),
    Damage(
        "dpkg was killed while configuring a CUDA package",
        killed("libcusolver11"),
        ("cuda.packages",),
        CUDA,
        "libcusolver11 is half installed (hF)",
    ),
    Damage(
        "nvcc is gone",
        away("/usr/bin/nvcc"),
        NVCC,
        CUDA,
        "does not find nvcc",
    ),
    Damage(
        "nvcc is not executable",
        ("chmod a-x /usr/bin/nvcc", "chmod a+x /usr/bin/nvcc"),
        NVCC,
        CUDA,
        "Permission denied",
    ),
    Damage(
        "ptxas is not executable for users",
        ("chmod 754 /usr/bin/ptxas", "chmod 755 /usr/bin/ptxas"),
        ("cuda.files",),
        CUDA,
        "ptxas can't be used by lab (/usr/bin/ptxas)",
    ),
    Damage(
        "the receipt is not readable by users",
        (
            "chmod 600 /var/lib/provision/receipt.json",
            "chmod 644 /var/lib/provision/receipt.json",
        ),
        ("receipt.lock",),
        (),
        "receipt.json can't be read",
    ),
    Damage(
        "a login shell finds another CUDA first",
        (
            OLD_NVCC + "; echo 'PATH=/opt/old/bin:$PATH' > /etc/profile.d/zz-old.sh",
            "rm -r /opt/old /etc/profile.d/zz-old.sh",
        ),
        ("cuda.nvcc_login",),
        CUDA,
        "nvcc in a login shell is release 12.4, the lock's is 11.2",
    ),
    Damage(
        "a systemd unit finds another CUDA first",
        (
            OLD_NVCC + "; systemctl set-environment PATH=/opt/old/bin:/usr/bin:/bin",
            "rm -r /opt/old; systemctl unset-environment PATH",
        ),
        ("cuda.nvcc_systemd",),
        CUDA,
        "nvcc in a systemd unit is release 12.4, the lock's is 11.2",
    ),
    Damage(
        "a library's link is gone, and TensorFlow runs without a GPU",
        away(f"{LIB}/libcusolver.so.11", then="ldconfig -X"),
        ("cuda.libraries", "tensorflow.gpus"),
        (*TENSORFLOW, "cuda"),
        "libcusolver.so.11",
    ),
    Damage(
        "ptxas is gone",
        away("/usr/bin/ptxas"),
        ("cuda.files",),
        CUDA,
        "ptxas is missing (/usr/bin/ptxas)",
    ),
    Damage(
        "cuDNN's link is gone",
        away(f"{CUDNN}/lib64/libcudnn.so.8", then="ldconfig -X"),
        ("cudnn.library",),
        ("cudnn",),
        "libcudnn.so.8 can't be loaded",
    ),
    Damage(
        "an older cuDNN comes first",
        (OLD_CUDNN, "rm -r /opt/old /etc/ld.so.conf.d/0-old.conf; ldconfig"),
        ("cudnn.library", "cudnn.version"),
        ("cudnn",),
        "cuDNN 8.0.5 is loaded",
    ),
    Damage(
        "cuDNN's header is gone",
        away(f"{CUDNN}/include/cudnn_version.h"),
        ("cudnn.headers",),
        ("cudnn",),
        "can't be read behind the `current` link",
    ),
    Damage(
        "somebody edited /etc/environment",
        edited("/etc/environment", "/usr/lib/cuda", "/usr/local/cuda"),
        ("gpu_env.variables",),
        ("gpu_env",),
        "a cron job differs in XLA_FLAGS",
    ),
    Damage(
        "a wheel's files are gone",
        away(f"{SITE}/absl"),
        ("tensorflow.imports",),
        TENSORFLOW,
        "lacks the Python module absl",
    ),
    Damage(
        "TensorFlow reports another version",
        edited(f"{SITE}/tensorflow/python/framework/versions.py",
               "^__version__ = pywrap_tf_session.__version__", '__version__ = "2.9.1"'),
        ("tensorflow.version",),
        TENSORFLOW,
        "TensorFlow 2.9.1 answers",
    ),
    Damage(
        "pip reports another numpy version",
        (
            f"mv {SITE}/numpy-1.26.4.dist-info {SITE}/numpy-1.23.5.dist-info",
            f"mv {SITE}/numpy-1.23.5.dist-info {SITE}/numpy-1.26.4.dist-info",
        ),
        ("tensorflow.wheels",),
        TENSORFLOW,
        "numpy is 1.23.5, the lock's is 1.26.4",
    ),
    Damage(
        "TensorFlow was built for another CUDA",
        edited(f"{SITE}/tensorflow/python/platform/build_info.py",
               "('cuda_version', '11.2')", "('cuda_version', '11.8')"),
        ("tensorflow.built_with_cuda",),
        (*TENSORFLOW, "cuda"),
        "TensorFlow was built for CUDA 11.8",
    ),
    Damage(
        "Keras is gone",
        away(f"{SITE}/keras/engine"),
        ("tensorflow.trains",),
        TENSORFLOW,
        "a Keras model can't be trained on the CPU",
    ),
    Damage(
        "the receipt names another lock",
        edited("/var/lib/provision/receipt.json", '"lock_digest": "sha256:', '"lock_digest": "sha'),
        ("receipt.lock",),
        (),
        "finished run had another lock",
    ),
)  # fmt: skip


def older_cudnn(folder: Path) -> str:
    """A library that calls itself cuDNN 8.0.5, as base64."""
    source = folder / "cudnn.c"
    source.write_text("unsigned long cudnnGetVersion(void) { return 8005; }\n")
    library = folder / "libcudnn.so.8"
    command = ["cc", "-shared", "-fPIC", "-Wl,-soname,libcudnn.so.8", "-o", library, source]
    subprocess.run(command, check=True)
    return base64.b64encode(library.read_bytes()).decode()


def judged(project: Project, host: str, components: tuple[str, ...]) -> dict[str, Verdict]:
    """What the checks say of these components of a host, by its own probe over ssh."""
    lock = yaml.safe_load((project.path / "lock.yml").read_text("utf-8"))["gpu_lock"]
    (stack,) = lock["stacks"].values()
    row = {name: part for name, part in stack.items() if name in components}
    options = verify.OPTIONS
    parameters = shlex.quote(json.dumps({"row": row, "options": options}))
    program = shlex.quote(collection.probe())
    output = project.ssh(host, f"python3 -c {program} {parameters}", check=False)
    entry: dict[str, Any] = {"row": row, "options": options, "stdout": output, "stderr": output}
    seen = verify.seen_of(entry, lock["digest"])
    return {check.id: check(seen) for check in CHECKS if check.only(seen)}


def test_every_check_has_its_damage() -> None:
    red = {name for damage in DAMAGES for name in damage.red}
    assert red == {check.id for check in CHECKS} - NOT_ON_A_LAB_HOST


@pytest.mark.parametrize("damage", DAMAGES, ids=[damage.title for damage in DAMAGES])
def test_the_probe_sees_the_damage(spine: Project, damage: Damage, tmp_path: Path) -> None:
    do, undo = damage.commands
    given = f"echo {older_cudnn(tmp_path)} | " if do == OLD_CUDNN else ""
    spine.ssh("spine2", f"{given}sudo sh -ec {shlex.quote(do)}")
    try:
        verdicts = judged(spine, "spine2", damage.components)
    finally:
        spine.ssh("spine2", f"sudo sh -ec {shlex.quote(undo)}")
    red = {name: verdict for name, verdict in verdicts.items() if verdict.result == "failed"}
    assert set(red) == set(damage.red), red
    assert damage.words in " ".join(verdict.diagnosis for verdict in red.values())


def test_an_sshd_without_pam_leaves_commands_over_ssh_out(spine: Project) -> None:
    """`UsePAM no`: sshd reads no /etc/environment, and no run could ever prove the host."""
    path = "/etc/ssh/sshd_config.d/05-pam.conf"
    # Not a reload: that refuses connections for a moment after systemctl has returned.
    spine.ssh("spine2", f"echo UsePAM no | sudo tee {path}; sudo systemctl restart ssh")
    try:
        assert "XLA_FLAGS" not in spine.ssh("spine2", "env")
        verdicts = judged(spine, "spine2", ("cuda", "gpu_env"))
    finally:
        spine.ssh("spine2", f"sudo rm {path}; sudo systemctl restart ssh")
    assert [name for name, verdict in verdicts.items() if verdict.result == "failed"] == []
    assert "not in a command over ssh: sshd has UsePAM no" in verdicts["gpu_env.variables"].detail
    assert "XLA_FLAGS" in spine.ssh("spine2", "env")


def test_nothing_is_red_once_all_is_undone(spine: Project) -> None:
    components = ("nvidia_driver", "cuda", "cudnn", "gpu_env", "tensorflow")
    verdicts = judged(spine, "spine2", components)
    assert {name for name, verdict in verdicts.items() if verdict.result == "failed"} == set()
