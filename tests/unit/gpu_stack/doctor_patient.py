"""A host for the doctor's cases: with a GPU, its driver, and programs that answer as told."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import converged_host as made
import gpu_stack.look
import pytest
from gpu_stack.components.gpu_serving import doctor_look as doctor_look_of_models
from gpu_stack.doctor import keys as doctor_keys
from gpu_stack.host.context import Result

KEYS = Path(__file__).parents[3] / "provision" / "catalog" / "keys"
# Keys that stand for NVIDIA's, which no repository may carry: one signed with SHA-512 by itself,
# one with SHA-1 as NVIDIA's is, and one of somebody else.
GOOD = "A4285295FC7B1A81600062A9605C66F00D6C9793"
GOOD_FILE = KEYS / "debian-archive-bullseye-stable.asc"
WEAK = "790BC7277767219C42C86F933B4FE6ACC0B21F32"
WEAK_FILE = KEYS / "ubuntu-archive-2012.asc"
OLD = "1F89983E0081FDE018F3CC9673A4F27B8DD47936"
OLD_FILE = KEYS / "debian-archive-bullseye-automatic.asc"

KERNEL = "5.10.0-32-amd64"
NEXT = "5.10.0-33-amd64"
DRIVER = "470.256.02"
CUDA_REPO = "https://developer.download.nvidia.com/compute/cuda/repos/debian11/x86_64/"
KEYRING = "/usr/share/keyrings/cuda-archive-keyring.gpg"
CUDA_LIST = "/etc/apt/sources.list.d/cuda-debian11-x86_64.list"

LOCK: dict[str, Any] = copy.deepcopy(made.LOCK)
LOCK["stacks"]["debian11-small"]["nvidia_driver"] = {
    "branch": "470",
    "version": DRIVER,
    "packages": {
        "userspace": {"libcuda1": DRIVER + "-2", "nvidia-smi": DRIVER + "-2"},
        "kernel": {"nvidia-kernel-dkms": DRIVER + "-2"},
    },
}


class Patient(made.Host):
    """A host with a GPU whose programs answer what they are told to."""

    answers: dict[str, Result]
    options: dict[str, Any]
    models: dict[str, Any]  # {address: what TensorFlow Serving answers there}

    def run(self, argv: Sequence[str]) -> Result:
        if argv[:2] == ["systemctl", "is-active"] and "munge" in argv:
            return self.answers["is-active"]
        if argv[0] == "timeout":
            of_slurm = argv[2] in ("scontrol", "journalctl")
            name = argv[2] if of_slurm else argv[3].rsplit("/", 1)[-1]
            return self.answers.get(name, Result(127, "", "no such program"))
        return self.answers.get(argv[0]) or super().run(argv)

    def ask(self, **parameters: Any) -> dict[str, Any]:
        result: dict[str, Any] = gpu_stack.look.ask_doctor(
            {
                "lock": LOCK,
                "wish": made.WISH,
                "host": "gpu01",
                "options": self.options,
                **parameters,
            },
            root=str(self.root),
            runner=self.run,
        )
        return result

    def found(self, **parameters: Any) -> dict[str, dict[str, Any]]:
        return {finding["id"]: finding for finding in self.ask(**parameters)["findings"]}

    def installed(self, name: str, version: str, state: str = "hold ok installed") -> None:
        self.package(name, version, [], state)


def patient(root: Path, monkeypatch: pytest.MonkeyPatch) -> Patient:
    """A healthy Debian 11 host with a GPU, its driver, and NVIDIA's repository with a good key."""
    healthy = made.make(root)
    host = Patient(healthy.root)
    host.packages, host.loader, host.answers, host.models = healthy.packages, healthy.loader, {}, {}
    host.options = {}

    def ask(address: str, *_words: object, **_bounds: object) -> tuple[int | None, Any]:
        return (200, host.models[address]) if address in host.models else (None, None)

    monkeypatch.setattr(doctor_look_of_models.asking, "ask", ask)
    monkeypatch.setattr(doctor_keys, "CUDA", GOOD)
    monkeypatch.setattr(doctor_keys, "CUDA_OLD", OLD)
    monkeypatch.setattr(doctor_keys, "SIGNERS", ((r"/compute/cuda/repos/", GOOD),))
    device = "/sys/bus/pci/devices/0000:01:00.0/"
    for name, text in (("vendor", "0x10de"), ("class", "0x030200"), ("device", "0x1eb8")):
        host.write(device + name, text + "\n")
    for name in ("libcuda1", "nvidia-smi", "nvidia-kernel-dkms"):
        host.installed(name, DRIVER + "-2")
    for name in ("linux-image-amd64", "linux-headers-amd64", "linux-headers-" + KERNEL):
        host.installed(name, "5.10.223-1", "install ok installed")
    host.write(made.LIB + "/libcuda.so." + DRIVER, made.ELF)
    host.link(made.LIB + "/libcuda.so.1", "libcuda.so." + DRIVER)
    host.loader["libcuda.so.1"] = made.LIB + "/libcuda.so.1"
    host.write("/sys/module/nvidia/version", DRIVER + "\n")
    host.write("/boot/vmlinuz-" + KERNEL, "")
    host.write("/boot/initrd.img-" + KERNEL, "")
    host.write(f"/lib/modules/{KERNEL}/build/Makefile", "")
    host.write(f"/lib/modules/{KERNEL}/updates/dkms/nvidia-current.ko", "")
    host.write("/usr/sbin/update-initramfs", "")
    host.write("/usr/bin/apt-key", "")
    host.write("/etc/modprobe.d/nvidia.conf", "blacklist nouveau\n")
    host.date("/etc/modprobe.d/nvidia.conf", made.BUILT)
    host.write(KEYRING, GOOD_FILE.read_bytes())
    host.write(CUDA_LIST, f"deb [signed-by={KEYRING}] {CUDA_REPO} /\n")
    host.write(
        "/etc/apt/apt.conf.d/51provision-gpu-stack",
        'Unattended-Upgrade::Package-Blacklist {\n    "nvidia-";\n};\n',
    )
    smi = "| NVIDIA-SMI 470.256.02   Driver Version: 470.256.02   CUDA Version: 11.4 |\n"
    host.answers["nvidia-smi"] = Result(0, smi, "")
    host.answers["apt-get"] = Result(0, "Reading package lists...\n", "")
    host.answers["python"] = Result(0, "GPUs: 1\n", "")
    return host


TOOLKIT: dict[str, Any] = copy.deepcopy(LOCK)
TOOLKIT["stacks"]["debian11-small"]["nvidia_container_toolkit"] = {
    "version": "1.20.1",
    "packages": {"toolkit": {"nvidia-container-toolkit": "1.20.1-1"}},
    "repository": {
        "url": "https://nvidia.example/deb",
        "suite": "/",
        "key": "",
        "fingerprints": [],
    },
}
