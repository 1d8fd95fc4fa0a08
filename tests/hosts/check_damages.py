"""What turns each check red on a host of a lab: damages that a person would recognise, and undone.

test_checks_red.py does them to a host; tests/unit/hosts sees that no check is without one.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

LIB = "/usr/lib/x86_64-linux-gnu"
SIMULATED = "/usr/local/lib/gpu-simulated"
CUDNN = "/opt/nvidia/cudnn/current"
SITE = "/opt/tensorflow/current/lib/python3.9/site-packages"
# A container has no kernel module of its own, a simulated GPU has no driver version and computes
# nothing, and the stack of these hosts has CUDA as packages.
NOT_ON_A_LAB_HOST = (
    *("nvidia_driver.version", "nvidia_driver.module", "tensorflow.computes"),
    "tensorflow.cuda_wheels",
)
# Components that these hosts don't have; tests of their own damage them.
NOT_INSTALLED = (
    *("nvidia_container_toolkit", "gpu_workspace", "gpu_front_door", "gpu_serving", "slurm"),
)
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
