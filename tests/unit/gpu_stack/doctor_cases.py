"""Each case that the doctor knows: what brings a host into it, and what is said of it."""

from __future__ import annotations

import re
from collections.abc import Callable

import converged_host as made
import doctor_logs
import doctor_slurm
import served_host
from doctor_patient import (
    CUDA_LIST,
    CUDA_REPO,
    DRIVER,
    GOOD_FILE,
    KERNEL,
    KEYRING,
    NEXT,
    OLD_FILE,
    WEAK,
    WEAK_FILE,
    Patient,
)
from gpu_stack.doctor import keys as doctor_keys
from gpu_stack.host.context import Result

HISTORY = """
Start-Date: 2021-06-10  06:21:10
Commandline: /usr/bin/unattended-upgrade
Upgrade: libnvidia-common-460:amd64 (460.73.01-0ubuntu0.20.04.1, 460.80-0ubuntu0.20.04.2), \
tzdata:all (2021a-0, 2021b-0)
End-Date: 2021-06-10  06:21:19
"""


def driver_mismatch(host: Patient) -> None:
    host.write("/sys/module/nvidia/version", "460.73.01\n")


def unattended_upgrades(host: Patient) -> None:
    host.write("/var/log/apt/history.log", HISTORY)
    host.remove("/etc/apt/apt.conf.d/51provision-gpu-stack")


def nouveau_loaded(host: Patient) -> None:
    host.remove("/sys/module/nvidia/version")
    host.write("/sys/module/nouveau/refcnt", "1\n")


def nouveau_initramfs(host: Patient) -> None:
    host.date("/boot/initrd.img-" + KERNEL, made.BUILT - 1)


def policy(candidate: str) -> Result:
    """apt-cache's answer for headers of the newest kernel that are not installed."""
    text = f"linux-headers-{NEXT}:\n  Installed: (none)\n  Candidate: {candidate}\n"
    return Result(0, text, "")


def headers_missing(host: Patient) -> None:
    host.write("/boot/vmlinuz-" + NEXT, "")
    host.answers["apt-cache"] = policy("5.10.226-1")


def headers_metapackage(host: Patient) -> None:
    del host.packages["linux-headers-amd64"]
    host.write_status()


def driver_gone_after_kernel(host: Patient) -> None:
    host.remove("/sys/module/nvidia/version")
    host.write(f"/lib/modules/{NEXT}/build/Makefile", "")
    host.write("/proc/sys/kernel/osrelease", NEXT + "\n")


def build_log(host: Patient, text: str) -> None:
    kernel = re.search(r"for kernel (\S+)", text)
    assert kernel is not None
    host.write(f"/lib/modules/{kernel.group(1)}/modules.dep", "")
    host.write("/var/lib/dkms/nvidia/525.125.06/build/make.log", text)


def dkms_gpl_symbol(host: Patient) -> None:
    build_log(host, doctor_logs.GPL)


def dkms_compiler(host: Patient) -> None:
    build_log(host, doctor_logs.COMPILER)


def dkms_failed(host: Patient) -> None:
    build_log(host, doctor_logs.UNDECLARED)


def secure_boot(host: Patient) -> None:
    host.write("/sys/firmware/efi/efivars/SecureBoot-8be4df61", b"\x06\0\0\0\x01")
    host.remove("/sys/module/nvidia/version")
    host.path("/sys/module/nvidia").rmdir()


def transitional_branch(host: Patient) -> None:
    host.installed("nvidia-driver-570-server", "580.95.05-0ubuntu0.24.04.2")


def fabric_manager(host: Patient) -> None:
    host.installed("nvidia-fabricmanager-470", "470.239.06-1")


def key_missing(host: Patient) -> None:
    host.remove(KEYRING)


def key_rotated(host: Patient) -> None:
    host.write(KEYRING, OLD_FILE.read_bytes())


def key_sha1(host: Patient) -> None:
    doctor_keys.SIGNERS = ((r"/compute/cuda/repos/", WEAK),)  # the fixture puts it back
    host.write(KEYRING, WEAK_FILE.read_bytes())
    host.write("/usr/bin/sqv", "")


def apt_key_gone(host: Patient) -> None:
    host.remove("/usr/bin/apt-key")
    host.write("/etc/apt/trusted.gpg", GOOD_FILE.read_bytes())
    host.write(CUDA_LIST, f"deb {CUDA_REPO} /\n")


def signed_by_conflict(host: Patient) -> None:
    host.write("/etc/apt/sources.list.d/zz-cuda.list", f"deb {CUDA_REPO} /\n")


def held_broken(host: Patient) -> None:
    host.installed("nvidia-smi", "460.91.03-1")


def dpkg_interrupted(host: Patient) -> None:
    host.installed("dkms", "2.8.4-3", "install ok half-configured")


def cuda_repo_pin(host: Patient) -> None:
    host.write(
        "/etc/apt/preferences.d/cuda-repository-pin-600",
        "Package: *\nPin: release l=NVIDIA CUDA\nPin-Priority: 600\n",
    )


def local_repo_gone(host: Patient) -> None:
    host.write(
        "/etc/apt/sources.list.d/cuda-debian11-11-2-local.list",
        "deb file:///var/cuda-repo-debian11-11-2-local /\n",
    )


def everything_held(host: Patient) -> None:
    for number in range(25):
        host.packages[f"libthing{number}"] = {"version": "1", "state": "hold ok installed"}
    host.write_status()


def cuda_libraries(host: Patient) -> None:
    host.remove(made.LIB + "/libcusolver.so.11.1.0.152")


def hand_made_link(host: Patient) -> None:
    host.write("/usr/local/cuda-12.2/lib64/libcudart.so.12", made.ELF)
    host.link("/usr/local/lib/libcudart.so.11.0", "/usr/local/cuda-12.2/lib64/libcudart.so.12")


def cudnn_older(host: Patient) -> None:
    host.write("/usr/lib/x86_64-linux-gnu/libcudnn.so.8.0.5", made.ELF)
    host.link("/usr/lib/x86_64-linux-gnu/libcudnn.so.8", "libcudnn.so.8.0.5")
    host.loader["libcudnn.so.8"] = "/usr/lib/x86_64-linux-gnu/libcudnn.so.8"


def login_wall(host: Patient) -> None:
    host.write("/root/cudnn-11.2-linux-x64-v8.1.0.77.tgz", "\n<!DOCTYPE html>\n<html>Log in</html>")


def numpy_2(host: Patient) -> None:
    place = host.path(made.SITE)
    (place / "numpy-1.26.4.dist-info").rename(place / "numpy-2.0.2.dist-info")


def protobuf(host: Patient) -> None:
    host.write(made.SITE + "/protobuf-4.21.1.dist-info/METADATA", "Name: protobuf\n")


def ptx_jit(host: Patient) -> None:
    host.write("/sys/bus/pci/devices/0000:01:00.0/device", "0x2330\n")


def no_code_for_gpu(host: Patient) -> None:
    host.write("/sys/bus/pci/devices/0000:01:00.0/device", "0x2b85\n")


def containers_lose_gpus(host: Patient) -> None:
    host.installed("nvidia-container-toolkit", "1.14.6-1")


def container_runtime(host: Patient) -> None:
    """Somebody has edited daemon.json."""
    host.write("/usr/bin/dockerd", made.ELF)
    host.installed("nvidia-container-toolkit", "1.20.1-1")
    host.write("/etc/docker/daemon.json", '{"log-driver": "journald",}')


def cdi_specification(host: Patient) -> None:
    """The driver was replaced while NVIDIA's unit was not at work."""
    host.installed("nvidia-container-toolkit", "1.20.1-1")
    host.installed("podman", "4.3.1+ds1-8+deb12u1")
    host.write("/usr/bin/podman", made.ELF)
    new = "/usr/lib/x86_64-linux-gnu/libcuda.so." + DRIVER
    host.write(new, made.ELF)
    host.loader["libcuda.so.1"] = new
    text = "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- name: all\n"
    mounts = "containerEdits:\n  mounts:\n  - hostPath: /usr/lib/libcuda.so.460.73.01\n"
    host.write("/var/run/cdi/nvidia.yaml", text + mounts)


def cri_runtime(host: Patient) -> None:
    """Somebody has edited crio.conf."""
    host.installed("nvidia-container-toolkit", "1.20.1-1")
    host.write("/usr/bin/crio", made.ELF)
    host.answers["config"] = Result(1, "", "unable to decode configuration /etc/crio/crio.conf\n")


# {case: (what brings a host into it, a part of the evidence, a part of a command)}
BROKEN: dict[str, tuple[Callable[[Patient], None], str, str]] = {
    "driver-mismatch": (driver_mismatch, "module is 460.73.01", "reboot"),
    "unattended-upgrades": (unattended_upgrades, "from 460.73.01-0ubuntu0.20.04.1", "gpu01"),
    "nouveau-loaded": (nouveau_loaded, "though /etc/modprobe.d/nvidia.conf", "reboot"),
    "nouveau-initramfs": (nouveau_initramfs, "initrd.img-" + KERNEL, "update-initramfs"),
    "headers-missing": (headers_missing, "the archive has", "linux-headers-" + NEXT),
    "headers-metapackage": (headers_metapackage, "linux-image-amd64", "linux-headers-amd64"),
    "driver-gone-after-kernel": (driver_gone_after_kernel, NEXT + " has no", "-k " + NEXT),
    "dkms-gpl-symbol": (dkms_gpl_symbol, "GPL-only symbol '__rcu_read_lock'", "--upgrade"),
    "dkms-compiler": (dkms_compiler, "-ftrivial-auto-var-init", "install gcc-12"),
    "dkms-failed": (dkms_failed, "undeclared here", "-k 6.8.0-31-generic"),
    "secure-boot": (secure_boot, "SecureBoot=1", "mokutil --import /var/lib/dkms/mok.pub"),
    "transitional-branch": (transitional_branch, "570-server is 580.95.05", "570-server"),
    "fabric-manager": (fabric_manager, "470.239.06, the driver is " + DRIVER, "470=" + DRIVER),
    "key-missing": (key_missing, KEYRING + " (named by " + CUDA_LIST + ") is not", "dfc6e5cd"),
    "key-rotated": (key_rotated, KEYRING, "debian11/x86_64/cuda-keyring_1.1-1_all.deb"),
    "key-sha1": (key_sha1, "apt asks sqv", CUDA_LIST),
    "apt-key-gone": (apt_key_gone, "/etc/apt/trusted.gpg", CUDA_LIST),
    "signed-by-conflict": (signed_by_conflict, "zz-cuda.list", "sudoedit"),
    "held-broken": (held_broken, "nvidia-smi 460.91.03-1", "unhold nvidia-smi"),
    "dpkg-interrupted": (dpkg_interrupted, "dkms is half-configured", "--configure"),
    "cuda-repo-pin": (cuda_repo_pin, "cuda-repository-pin-600 gives", "--tags nvidia_driver"),
    "local-repo-gone": (local_repo_gone, "not there", "purge cuda-repo-debian11-11-2-local"),
    "everything-held": (everything_held, "25 packages are held", "unhold libthing0"),
    "cuda-libraries": (cuda_libraries, "libcusolver.so.11: missing", "--tags cuda"),
    "hand-made-link": (hand_made_link, "libcudart.so.11.0 is libcudart.so.12", "/usr/local/lib"),
    "cudnn-older": (cudnn_older, "finds 8.0.5", "--tags cudnn"),
    "login-wall": (login_wall, "/root/cudnn-11.2-linux-x64-v8.1.0.77.tgz", "sha256sum /root/"),
    "numpy-2": (numpy_2, "TensorFlow 2.9.3 and numpy 2.0.2", "--tags tensorflow"),
    "protobuf": (protobuf, "protobuf 4.21.1", "'protobuf<3.20'"),
    "ptx-jit": (ptx_jit, "no code for a Hopper GPU", "--gpu '10de:2330'"),
    "no-code-for-gpu": (no_code_for_gpu, "not run on a Blackwell GPU", "--gpu '10de:2b85'"),
    "containers-lose-gpus": (containers_lose_gpus, "/dev/char/195:0", "create-dev-char"),
    "container-runtime": (container_runtime, "daemon.json is not JSON", "nvidia-ctk runtime"),
    "cdi-specification": (
        cdi_specification,
        "/var/run/cdi/nvidia.yaml: names /usr/lib/libcuda",
        "nvidia-ctk cdi generate --output=/var/run/cdi/nvidia.yaml",
    ),
    "cri-runtime": (cri_runtime, "crio: not read by crio: unable to", "systemctl restart crio"),
    **doctor_slurm.BROKEN,
    **served_host.BROKEN,
}
# What a case brings with it, rightly.
BESIDE = {"cudnn-older": {"cuda-libraries"}}
