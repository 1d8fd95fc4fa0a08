"""Each case that the doctor knows, on a host that has just that, and in the words of programs."""

from __future__ import annotations

import copy
import os
import re
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import converged_host as made
import doctor_logs
import doctor_slurm
import gpu_stack.look
import pytest
import served_host
import slurm_host
from gpu_stack.components.gpu_serving import doctor_look as doctor_look_of_models
from gpu_stack.components.slurm import doctor as slurm_doctor
from gpu_stack.doctor import findings, libraries
from gpu_stack.doctor import keys as doctor_keys
from gpu_stack.doctor import look as doctor_look
from gpu_stack.doctor.case import Case
from gpu_stack.host.context import Context, Result

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


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Patient:
    """A healthy Debian 11 host with a GPU, its driver, and NVIDIA's repository with a good key."""
    healthy = made.make(tmp_path)
    one = Patient(healthy.root)
    one.packages, one.loader, one.answers, one.models = healthy.packages, healthy.loader, {}, {}
    one.options = {}

    def ask(address: str, *_words: object, **_bounds: object) -> tuple[int | None, Any]:
        return (200, one.models[address]) if address in one.models else (None, None)

    monkeypatch.setattr(doctor_look_of_models.asking, "ask", ask)
    monkeypatch.setattr(doctor_keys, "CUDA", GOOD)
    monkeypatch.setattr(doctor_keys, "CUDA_OLD", OLD)
    monkeypatch.setattr(doctor_keys, "SIGNERS", ((r"/compute/cuda/repos/", GOOD),))
    device = "/sys/bus/pci/devices/0000:01:00.0/"
    for name, text in (("vendor", "0x10de"), ("class", "0x030200"), ("device", "0x1eb8")):
        one.write(device + name, text + "\n")
    for name in ("libcuda1", "nvidia-smi", "nvidia-kernel-dkms"):
        one.installed(name, DRIVER + "-2")
    for name in ("linux-image-amd64", "linux-headers-amd64", "linux-headers-" + KERNEL):
        one.installed(name, "5.10.223-1", "install ok installed")
    one.write(made.LIB + "/libcuda.so." + DRIVER, made.ELF)
    one.link(made.LIB + "/libcuda.so.1", "libcuda.so." + DRIVER)
    one.loader["libcuda.so.1"] = made.LIB + "/libcuda.so.1"
    one.write("/sys/module/nvidia/version", DRIVER + "\n")
    one.write("/boot/vmlinuz-" + KERNEL, "")
    one.write("/boot/initrd.img-" + KERNEL, "")
    one.write(f"/lib/modules/{KERNEL}/build/Makefile", "")
    one.write(f"/lib/modules/{KERNEL}/updates/dkms/nvidia-current.ko", "")
    one.write("/usr/sbin/update-initramfs", "")
    one.write("/usr/bin/apt-key", "")
    one.write("/etc/modprobe.d/nvidia.conf", "blacklist nouveau\n")
    one.date("/etc/modprobe.d/nvidia.conf", made.BUILT)
    one.write(KEYRING, GOOD_FILE.read_bytes())
    one.write(CUDA_LIST, f"deb [signed-by={KEYRING}] {CUDA_REPO} /\n")
    one.write(
        "/etc/apt/apt.conf.d/51provision-gpu-stack",
        'Unattended-Upgrade::Package-Blacklist {\n    "nvidia-";\n};\n',
    )
    smi = "| NVIDIA-SMI 470.256.02   Driver Version: 470.256.02   CUDA Version: 11.4 |\n"
    one.answers["nvidia-smi"] = Result(0, smi, "")
    one.answers["apt-get"] = Result(0, "Reading package lists...\n", "")
    one.answers["python"] = Result(0, "GPUs: 1\n", "")
    return one


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


def _build(host: Patient, text: str) -> None:
    kernel = re.search(r"for kernel (\S+)", text)
    assert kernel is not None
    host.write(f"/lib/modules/{kernel.group(1)}/modules.dep", "")
    host.write("/var/lib/dkms/nvidia/525.125.06/build/make.log", text)


def dkms_gpl_symbol(host: Patient) -> None:
    _build(host, doctor_logs.GPL)


def dkms_compiler(host: Patient) -> None:
    _build(host, doctor_logs.COMPILER)


def dkms_failed(host: Patient) -> None:
    _build(host, doctor_logs.UNDECLARED)


def secure_boot(host: Patient) -> None:
    host.write("/sys/firmware/efi/efivars/SecureBoot-8be4df61", b"\x06\0\0\0\x01")
    host.remove("/sys/module/nvidia/version")


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
        "nvidia-ctk cdi generate",
    ),
    "cri-runtime": (cri_runtime, "crio: not read by crio: unable to", "systemctl restart crio"),
    **doctor_slurm.BROKEN,
    **served_host.BROKEN,
}
# What a case brings with it, rightly.
BESIDE = {"cudnn-older": {"cuda-libraries"}}


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> None:
    """/dev/nvidia0, which nobody but root can make."""

    def unlinked(context: Context) -> list[dict[str, str]]:
        return [{"path": "/dev/nvidia0", "link": "/dev/char/195:0"}]

    monkeypatch.setattr(doctor_look, "unlinked", unlinked)


def test_a_healthy_host_has_no_finding(host: Patient, device: None) -> None:
    assert host.ask()["findings"] == []


def test_a_node_of_slurms_that_is_well_has_none(host: Patient, device: None) -> None:
    doctor_slurm.node(host)
    # Words of yesterday's trouble, which is over.
    doctor_slurm.services(host, journal="error: Munge decode failed: Expired credential\n")
    assert host.ask()["findings"] == []


def test_a_drain_of_a_run_at_work_is_no_trouble(host: Patient, device: None) -> None:
    doctor_slurm.node(host)
    doctor_slurm.drained(host, "provision: run: the NVIDIA driver is changed [root@2026-11-26]")
    found = host.found()["slurm-drained"]
    assert "a run that needed the node for itself was cut off" in found["cure"]
    facts = {"found": {"state": {}, "preflight": {"running": {"pid": 1}}}, "slurm": {}}
    facts["found"]["state"]["slurm"] = {
        "noted": {"part": slurm_host.PART}, "missing": [],
        "said": {"reason": "provision: run: x", "marks": ["DRAIN"]},
    }  # fmt: skip
    assert slurm_doctor.slurm_drained(facts) == []


def test_what_a_killed_run_left_is_reported_with_a_drain(host: Patient, device: None) -> None:
    doctor_slurm.of_a_killed_run(host)
    (found,) = host.found().values()
    assert "no health check takes it back before the next run" in found["evidence"][1]


def test_a_host_that_serves_as_it_should_has_none_either(host: Patient, device: None) -> None:
    served_host.serve(host)
    # What failed before, and what the journal of a well model says of that.
    told = served_host.told((1, "END", served_host.NO_OP), (2, "AVAILABLE", ""))
    host.models[served_host.ADDRESS] = told
    host.answers["journalctl"] = Result(0, served_host.FULL, "")
    assert host.found() == {}


def test_a_model_that_begins_is_waited_for(host: Patient, device: None) -> None:
    served_host.serve(host)
    host.models[served_host.ADDRESS] = served_host.told((2, "LOADING", ""))
    begun = {"ActiveEnterTimestampMonotonic": 900_000_000}
    host.answers["systemctl"] = served_host.unit(**begun)
    assert host.found() == {}
    host.answers["systemctl"] = served_host.unit()
    assert list(host.found()) == ["serving-unavailable"]
    del host.models[served_host.ADDRESS]
    (line,) = host.found()["serving-unavailable"]["evidence"]
    assert line == "mnist: nothing answers at 172.30.0.2:8501"


def test_a_model_of_a_newer_tensorflow_is_named_by_its_release(
    host: Patient, device: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    served_host.unavailable(host)
    monkeypatch.setattr(doctor_look_of_models.saved_model, "release_of", lambda _data: "2.12.0")
    found = host.found()
    assert list(found) == ["serving-other-tensorflow"]
    assert "it was saved by TensorFlow 2.12.0" in "\n".join(
        found["serving-other-tensorflow"]["evidence"]
    )


def test_a_damaged_record_and_a_wild_journal_harm_nobody(host: Patient, device: None) -> None:
    served_host.gpu_memory(host)
    host.answers["journalctl"] = Result(0, "\x1b[2J" + served_host.FULL, "")
    (case,) = host.ask()["findings"]
    assert "\x1b" not in str(case["evidence"])
    for record in ("no json", "[]", "{}", '{"slot": "../x", "addresses": {"../x": "1"}}'):
        host.write("/etc/gpu-serving/mnist/serving.json", record)
        assert not [
            one for one in host.found() if one in served_host.BROKEN and one != "serving-door"
        ]


def test_a_bare_host_has_none_either(tmp_path: Path) -> None:
    bare = Patient(tmp_path)
    bare.answers, bare.options = {}, {}
    bare.write("/etc/os-release", 'ID=debian\nVERSION_ID="11"\n')
    assert bare.found() == {}
    assert bare.found(lock={"rows": [], "stacks": {}}) == {}


@pytest.mark.parametrize("case", BROKEN)
def test_a_case_is_named_on_a_host_that_has_it(case: str, host: Patient, device: None) -> None:
    breaks, evidence, command = BROKEN[case]
    breaks(host)
    found = host.found()
    assert set(found) == {case} | BESIDE.get(case, set())
    assert evidence in "\n".join(found[case]["evidence"])
    assert command in "\n".join(found[case]["commands"])
    assert "<" not in found[case]["cure"].replace("<branch>", "").replace("<flavour>", "")


# The threads that people are known to have lost days to, as the project's list numbers them. (13 is
# the wish for Debian itself, and no case.)
FIELD = {
    1: ("NVIDIA/cuda-repo-management#4",),
    2: ("fgci-org/ansible-role-cuda#42",),
    3: ("NVIDIA/nvidia-docker#1631",),
    4: ("NVIDIA/cuda-repo-management#39",),
    5: ("NVIDIA/nvidia-container-toolkit#170", "NVIDIA/libnvidia-container#194"),
    6: ("debops/debops#2615", "geerlingguy/ansible-role-docker#344"),
    7: ("lyulyul/shine-cluster#30", "lyulyul/shine-cluster#50"),
    8: ("pando85/homelab#4110",),
    9: ("NVIDIA/deepops#1186",),
    10: (
        *("NVIDIA/ansible-role-nvidia-driver#44", "NVIDIA/ansible-role-nvidia-driver#51"),
        "Azure/azhpc-images#523",
    ),
    11: ("NVIDIA/ansible-role-nvidia-driver#20",),
    12: tuple(f"NVIDIA/ansible-role-nvidia-driver#{number}" for number in (11, 28, 33)),
    14: tuple(f"GoogleCloudPlatform/compute-gpu-installation#{number}" for number in (10, 25)),
    15: ("GoogleCloudPlatform/compute-gpu-installation#33",),
    16: ("GoogleCloudPlatform/compute-gpu-installation#34", "pop-os/pop#3117"),
    17: (
        *("GoogleCloudDataproc/initialization-actions#933", "NVIDIA/gpu-operator#1726"),
        "MicrosoftDocs/azure-docs#111536",
    ),
    18: ("xnvme/aisio#67", "dstackai/dstack#3967"),
    19: (
        *(f"tensorflow/tensorflow#{number}" for number in (49167, 47874, 45930, 58910)),
        "tensorflow/text#554",
    ),
    20: tuple(f"tensorflow/tensorflow#{number}" for number in (56266, 90245, 60739, 62320)),
    21: ("NVIDIA/nvidia-container-toolkit#48",),
    22: ("NVIDIA/gpu-operator#544", "Azure/azhpc-images#86"),
    23: (
        *("deeplearningparis/dl-machine#12", "spack/spack#9400"),
        "gridhead/nvidia-auto-installer-for-fedora-linux#153",
    ),
    24: ("Azure/azhpc-images#372",),
    25: ("kubernetes-sigs/kubespray#12277",),
    26: ("Jimver/cuda-toolkit#183",),
}


def test_every_thread_of_the_list_is_a_case() -> None:
    known = {thread for case in findings.CASES for thread in case.threads}
    missing = {
        number: [thread for thread in threads if thread not in known]
        for number, threads in FIELD.items()
    }
    assert {number: threads for number, threads in missing.items() if threads} == {}


def test_every_rule_has_its_case_and_every_case_its_rule_or_words() -> None:
    assert set(BROKEN) == set(findings.CHECKS)
    ids = [case.id for case in findings.CASES]
    assert len(ids) == len(set(ids))
    assert set(findings.CHECKS) <= set(ids)
    assert set(doctor_logs.LOGS) == {case.id for case in findings.CASES if case.says}
    assert {case.id for case in findings.CASES if case.fix} == set(findings.FIXES)
    assert all(case.says for case in findings.CASES if case.id not in findings.CHECKS)


@pytest.mark.parametrize(
    ("case", "text"), [(case, text) for case, texts in doctor_logs.LOGS.items() for text in texts]
)
def test_a_log_names_its_case(case: str, text: str) -> None:
    assert [entry["id"] for entry in findings.read_log("before\n" + text + "after\n")] == [case]


@pytest.mark.parametrize("case", [case for case in findings.CASES if case.says])
def test_every_sentence_is_one_that_was_seen(case: Case) -> None:
    texts = doctor_logs.LOGS[case.id]
    for pattern in case.says:
        assert any(re.search(pattern, text, re.I) for text in texts), pattern


@pytest.mark.parametrize("text", doctor_logs.HARMLESS)
def test_what_programs_say_on_a_good_day_is_no_finding(text: str) -> None:
    assert findings.read_log(text) == []


def test_a_line_of_a_megabyte_is_read_too() -> None:
    """A pattern that can begin anywhere would take hours over it."""
    line = "x" * 500_000 + ' "AttributeError: _ARRAY_API not found" ' + "/y.c.h:" * 70_000
    (found,) = findings.read_log(line)
    assert found["id"] == "numpy-2"
    assert "_ARRAY_API not found" in found["evidence"][0]
    assert len(found["evidence"][0]) < 400


def test_of_a_list_of_packages_the_transitional_one_is_reported() -> None:
    """What `apt-cache search nvidia-driver` prints; the one before it is as its name says."""
    (found,) = findings.read_log(
        "nvidia-driver-390 - NVIDIA driver metapackage\n"
        "nvidia-driver-418 - Transitional package for nvidia-driver-430\n"
    )
    assert found["commands"][0] == "apt-cache policy nvidia-driver-418"


def test_the_compilers_line_and_the_kernel_are_reported() -> None:
    (found,) = findings.read_log(doctor_logs.COMPILER)
    assert "unrecognized command-line option" in found["evidence"][0]
    assert found["commands"][0] == "sudo apt-get install gcc-12"


def test_an_unattended_upgrade_is_named_as_the_mismatchs_reason(host: Patient) -> None:
    host.write("/sys/module/nvidia/version", "460.73.01\n")
    host.write("/var/log/apt/history.log", HISTORY.replace("460.80-0", DRIVER + "-0"))
    evidence = host.found()["driver-mismatch"]["evidence"]
    assert "unattended-upgrades moved libnvidia-common-460 from 460.73.01" in evidence[1]
    assert "2021-06-10" in evidence[1]


def test_what_programs_on_the_host_say_is_evidence(host: Patient) -> None:
    said = Result(255, "Failed to initialize NVML: Driver/library version mismatch\n", "")
    host.answers["nvidia-smi"] = said
    log = "W dso_loader.cc:64] Could not load dynamic library 'libcufft.so.10'; dlerror: no\n"
    host.answers["python"] = Result(0, "", log)
    host.answers["apt-get"] = Result(100, "", "E: Unmet dependencies. Try ...\n")
    found = host.found()
    assert list(found) == ["driver-mismatch", "held-broken", "cuda-libraries"]
    assert found["driver-mismatch"]["evidence"][0].startswith("nvidia-smi: Failed to initialize")
    assert found["held-broken"]["evidence"][0].startswith("apt-get check: E: Unmet")
    assert found["cuda-libraries"]["evidence"][0].startswith("TensorFlow: W dso_loader")


def test_a_log_on_the_host_is_read_when_it_is_named(host: Patient) -> None:
    host.write("/var/log/jupyter.log", "x\n" * 200_000 + "AttributeError: _ARRAY_API not found\n")
    assert host.found() == {}
    assert list(host.found(logs=["/var/log/jupyter.log", "/not/there"])) == ["numpy-2"]


def test_silence_of_the_driver_is_reported_where_no_reason_is(host: Patient) -> None:
    silent = doctor_logs.LOGS["driver-silent"][0]
    host.answers["nvidia-smi"] = Result(9, silent, "")
    assert list(host.found()) == ["driver-silent"]
    nouveau_loaded(host)
    assert list(host.found()) == ["nouveau-loaded"]


def test_a_copy_under_a_false_name_is_seen_by_its_soname(host: Patient) -> None:
    """`cp libcudart.so.12 libcudart.so.11.0`: no link tells it, the file itself does."""
    library = next(iter(sorted(Path("/usr/lib/x86_64-linux-gnu").glob("libz.so.1.*"))), None)
    if library is None:
        pytest.skip("no library to read")
    assert libraries.soname(Context(), str(library)) == "libz.so.1"
    data = library.read_bytes().replace(b"libz.so.1\0", b"libz.so.2\0")
    host.write("/usr/local/lib/libcudart.so.11.0", data)
    assert host.found() == {}
    name = b"libcudart.so.12\0"
    at = data.index(b"libz.so.2\0")
    host.write("/usr/local/lib/libcudart.so.11.0", data[:at] + name + data[at + len(name) :])
    assert host.found()["hand-made-link"]["evidence"] == [
        "/usr/local/lib/libcudart.so.11.0 is libcudart.so.12"
    ]


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"\x7fELF\x02\x01" + b"\xff" * 200])
def test_what_is_no_library_has_no_soname(data: bytes, host: Patient) -> None:
    host.write("/x", data)
    assert libraries.soname(Context(root=str(host.root)), "/x") is None


def test_devices_without_a_link_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = made.Host(tmp_path)
    host.write("/dev/nvidia0", "")
    host.write("/dev/nvidiactl", "")
    host.link("/dev/char/195:255", "../nvidiactl")
    context = Context(root=str(tmp_path))
    numbers = {"/dev/nvidia0": 0, "/dev/nvidiactl": 255}

    def device(path: str) -> os.stat_result:
        return os.stat_result((stat.S_IFCHR, *[0] * 9), {"st_rdev": os.makedev(195, numbers[path])})

    monkeypatch.setattr(context, "stat", device)
    assert doctor_look.unlinked(context) == [{"path": "/dev/nvidia0", "link": "/dev/char/195:0"}]


@pytest.mark.parametrize(
    ("toolkit", "daemon"),
    [("1.18.1-1", "{}"), ("1.14.6-1", '{"exec-opts": ["native.cgroupdriver=cgroupfs"]}')],
)
def test_containers_that_keep_their_gpus(
    toolkit: str, daemon: str, host: Patient, device: None
) -> None:
    host.installed("nvidia-container-toolkit", toolkit)
    host.write("/etc/docker/daemon.json", daemon)
    assert host.found() == {}


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
NVIDIAS = '{"runtimes": {"nvidia": {"path": "nvidia-container-runtime", "args": []}}}'


@pytest.mark.parametrize(
    ("toolkit", "daemon", "options", "evidence"),
    [
        (None, None, {}, "the lock's container toolkit is not"),
        ("1.20.1-1", None, {}, "names no runtime nvidia"),
        ("1.20.1-1", "{broken", {}, "daemon.json is not JSON"),
        ("1.20.1-1", NVIDIAS, {}, ""),
        ("1.20.1-1", '{"runtimes": {"nvidia": {"path": "/opt/old"}}}', {}, ""),
        (None, None, {"nvidia_container_toolkit_docker": "none"}, ""),
        (None, None, {"nvidia_container_toolkit_state": "absent"}, ""),
    ],
)
def test_a_docker_without_the_locks_runtime_is_reported(
    toolkit: str | None, daemon: str | None, options: dict[str, Any], evidence: str, host: Patient
) -> None:
    host.write("/usr/bin/dockerd", made.ELF)
    if toolkit:
        host.installed("nvidia-container-toolkit", toolkit)
    if daemon:
        host.write("/etc/docker/daemon.json", daemon)
    result = host.ask(lock=TOOLKIT, options=options)
    found = {finding["id"]: finding for finding in result["findings"]}
    assert set(found) == ({"container-runtime"} if evidence else set())
    if evidence:
        assert evidence in "\n".join(found["container-runtime"]["evidence"])
        assert result["fixes"]["components"] == ["nvidia_container_toolkit"]


CRIO = '[crio.runtime]\ndefault_runtime = "runc"\n[crio.runtime.runtimes.runc]\n'
CRIO_KNOWS = CRIO + '[crio.runtime.runtimes.nvidia]\nruntime_path = "{}"\n'


@pytest.mark.parametrize(
    ("says", "lock", "options", "evidence"),
    [
        (CRIO, TOOLKIT, {}, "crio names no runtime nvidia"),
        (CRIO, LOCK, {}, ""),
        (CRIO, TOOLKIT, {"nvidia_container_toolkit_crio": "none"}, ""),
        (CRIO, TOOLKIT, {"nvidia_container_toolkit_state": "absent"}, ""),
        (CRIO_KNOWS.format("/usr/bin/nvidia-container-runtime"), TOOLKIT, {}, ""),
        (CRIO_KNOWS.format("/opt/x"), LOCK, {}, "crio: a runtime nvidia of somebody else's"),
    ],
)
def test_pods_that_find_no_runtime_are_reported(
    says: str, lock: Any, options: dict[str, Any], evidence: str, host: Patient
) -> None:
    cri_runtime(host)
    host.answers["config"] = Result(0, says, "")
    result = host.ask(lock=lock, options=options)
    found = {finding["id"]: finding for finding in result["findings"]}
    assert set(found) == ({"cri-runtime"} if evidence else set())
    if evidence:
        assert evidence in "\n".join(found["cri-runtime"]["evidence"])
        assert found["cri-runtime"]["commands"] == [
            "sudo nvidia-ctk runtime configure --runtime=crio",
            "sudo systemctl restart crio",
        ]
    wished = ["nvidia_container_toolkit"] if evidence and lock is TOOLKIT else []
    assert (result["fixes"].get("components") or []) == wished


def test_a_containerd_that_was_not_restarted_is_reported(host: Patient) -> None:
    host.installed("nvidia-container-toolkit", "1.20.1-1")
    host.write("/usr/bin/containerd", made.ELF)
    head = '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]\n'
    path = "/usr/bin/nvidia-container-runtime"
    host.answers["config"] = Result(0, head + f'  BinaryName = "{path}"\n', "")
    host.write("/etc/containerd/config.toml", "version = 2\n")
    host.write("/proc/812/stat", "812 (containerd) S" + " 1" * 18 + " 5000 1 2\n")
    host.write("/run/provision/containerd-restart", "812 5000\n")
    host.answers["systemctl"] = Result(0, "812\n", "")
    assert host.found() == {}
    host.write("/usr/bin/kubelet", made.ELF)
    assert "not since then" in "\n".join(host.found()["cri-runtime"]["evidence"])
    host.write("/run/provision/containerd-restart", "812 6000\n")
    assert host.found() == {}


def test_a_toolkit_that_no_lock_wishes_for_needs_no_entry(host: Patient) -> None:
    container_runtime(host)
    host.write("/etc/docker/daemon.json", '{"log-driver": "journald"}')
    assert host.found() == {}


def test_a_docker_that_was_started_before_the_hook_is_reported(host: Patient) -> None:
    container_runtime(host)
    host.write("/etc/docker/daemon.json", NVIDIAS)
    host.write("/run/docker.pid", "812")
    host.write("/proc/812/stat", "812 (dockerd) S" + " 1" * 18 + " 5000 1 2\n")
    assert host.found() == {}
    host.write("/run/provision/docker-restart", "812 5000\n")
    assert "not since then" in "\n".join(host.found()["container-runtime"]["evidence"])


def test_a_build_log_of_a_module_that_is_there_says_nothing(host: Patient) -> None:
    _build(host, doctor_logs.GPL)
    host.write("/lib/modules/6.1.0-18-amd64/updates/dkms/nvidia.ko.xz", "")
    assert host.found() == {}


def test_without_a_lock_row_the_host_is_judged_all_the_same(host: Patient) -> None:
    numpy_2(host)
    signed_by_conflict(host)
    result = host.ask(lock={"rows": [], "stacks": {}})
    assert [finding["id"] for finding in result["findings"]] == ["signed-by-conflict", "numpy-2"]
    assert result["fixes"]["components"] == []
    assert (result["locked"], host.ask()["locked"]) == (False, True)


# keys


def test_fingerprints_and_hashes_are_read_as_gpg_reads_them() -> None:
    assert doctor_keys.keys(GOOD_FILE.read_bytes()) == {GOOD: False}
    assert doctor_keys.keys(WEAK_FILE.read_bytes()) == {WEAK: True}
    both = GOOD_FILE.read_bytes() + WEAK_FILE.read_bytes()
    assert doctor_keys.keys(both) == {GOOD: False, WEAK: True}
    assert doctor_keys.keys(doctor_keys.binary(both)) == {GOOD: False, WEAK: True}


@pytest.mark.parametrize("data", [b"", b"<html>", b"-----BEGIN PGP\n\n!!\n-----END", b"\x99\x01"])
def test_what_is_no_keyring_has_no_keys(data: bytes) -> None:
    assert doctor_keys.keys(data) == {}


def test_a_key_written_into_the_entry_counts(host: Patient) -> None:
    host.remove(CUDA_LIST)
    host.remove(KEYRING)
    key = GOOD_FILE.read_text().strip().replace("\n\n", "\n.\n").replace("\n", "\n ")
    text = f"Types: deb\nURIs: {CUDA_REPO}\nSuites: /\nSigned-By:\n {key}\n"
    host.write("/etc/apt/sources.list.d/cuda.sources", text)
    assert host.found() == {}


def test_of_a_signer_that_is_not_known_only_refused_keys_tell(host: Patient) -> None:
    """A local installer's repository is signed by a key that came with it."""
    place = "/var/cuda-repo-debian13-13-0-local"
    host.write(place + "/Packages", "")
    host.write("/etc/apt/sources.list.d/local.list", f"deb [signed-by={place}/k] file:{place} /\n")
    for data, refused in (
        (WEAK_FILE.read_bytes(), True),
        (GOOD_FILE.read_bytes(), False),
        (GOOD_FILE.read_bytes() + WEAK_FILE.read_bytes(), False),
        (b"", False),
    ):
        host.write(place + "/k", data)
        assert "key-sha1" not in host.found()
        host.write("/usr/bin/sqv", "")
        assert ("key-sha1" in host.found()) is refused
        host.remove("/usr/bin/sqv")
    host.write(place + "/k", WEAK_FILE.read_bytes())
    host.write("/usr/bin/sqv", "")
    (evidence,) = host.found()["key-sha1"]["evidence"]
    assert evidence.startswith(f"file:{place} is signed by {WEAK[-16:]}, whose")


def test_the_real_repositories_are_known_by_their_addresses() -> None:
    root = "https://developer.download.nvidia.com/compute/"
    assert doctor_keys.signer(root + "cuda/repos/ubuntu2004/x86_64/")[-8:] == "3BF863CC"
    assert doctor_keys.signer(root + "cuda/repos/debian13/x86_64/")[-8:] == "8793F200"
    assert doctor_keys.signer(root + "machine-learning/repos/ubuntu1804/")[-8:] == "7FA2AF80"
    toolkit = "https://nvidia.github.io/libnvidia-container/stable/deb/amd64"
    assert doctor_keys.signer(toolkit)[-8:] == "F796ECB0"
    assert doctor_keys.signer("https://mirror.example/cuda/") is None


# what --fix does


def fixed(host: Patient) -> dict[str, Any]:
    return {name: value for name, value in host.ask()["fixes"].items() if value}


def test_the_fix_of_a_signed_by_conflict_keeps_the_entry_with_its_key(host: Patient) -> None:
    signed_by_conflict(host)
    other = "/etc/apt/sources.list.d/zz-cuda.list"
    host.write(other, f"# mine\ndeb {CUDA_REPO} /\ndeb https://other.example/ x main\n")
    host.path(other).chmod(0o640)
    (file,) = fixed(host)["files"]
    assert (file["path"], file["mode"]) == (other, "0640")
    host.write(other, file["content"])
    assert host.found() == {}
    assert "# mine\n" in file["content"]
    assert "\ndeb https://other.example/ x main\n" in file["content"]
    assert f"\n# deb {CUDA_REPO} /\n" in file["content"]


def test_the_fix_works_on_deb822_entries_too(host: Patient) -> None:
    other = "/etc/apt/sources.list.d/zz-cuda.sources"
    stanza = f"Types: deb\nURIs: {CUDA_REPO}\nSuites: /\nEnabled: yes\n"
    host.write(other, f"{stanza}\nTypes: deb\nURIs: https://other.example/\nSuites: x\n")
    (file,) = fixed(host)["files"]
    host.write(other, file["content"])
    assert host.found() == {}
    context = Context(root=str(host.root))
    assert [entry["uris"] for entry in context.apt_entries if entry["file"] == other] == [
        ["https://other.example/"]
    ]


def test_of_two_good_entries_a_packages_stays(host: Patient) -> None:
    second = "/etc/apt/sources.list.d/cuda-by-hand.list"
    host.write("/etc/apt/keyrings/cuda.asc", GOOD_FILE.read_bytes())
    host.write(second, f"deb [signed-by=/etc/apt/keyrings/cuda.asc] {CUDA_REPO} /\n")
    host.package("cuda-keyring", "1.1-1", [CUDA_LIST], "install ok installed")
    assert [file["path"] for file in fixed(host)["files"]] == [second]


@pytest.mark.parametrize(
    "text",
    [
        # two repositories in one entry; and no entry whose key is there
        f"Types: deb\nURIs: {CUDA_REPO} https://other.example/\nSuites: /\n",
        None,
    ],
)
def test_a_conflict_that_is_not_plain_is_left_to_a_person(text: str | None, host: Patient) -> None:
    signed_by_conflict(host)
    if text is None:
        host.remove(KEYRING)
    else:
        host.remove("/etc/apt/sources.list.d/zz-cuda.list")
        host.write("/etc/apt/sources.list.d/zz-cuda.sources", text)
    result = host.ask()
    assert "signed-by-conflict" in [finding["id"] for finding in result["findings"]]
    assert result["fixes"]["files"] == []


@pytest.mark.parametrize(
    ("case", "step", "value"),
    [
        ("nouveau-initramfs", "initramfs", [KERNEL]),
        ("dpkg-interrupted", "dpkg", True),
        ("hand-made-link", "aside", ["/usr/local/lib/libcudart.so.11.0"]),
        ("containers-lose-gpus", "links", [{"path": "/dev/nvidia0", "link": "/dev/char/195:0"}]),
        ("numpy-2", "components", ["tensorflow"]),
        ("protobuf", "components", ["tensorflow"]),
        ("headers-missing", "components", ["nvidia_driver"]),
        ("unattended-upgrades", "components", ["nvidia_driver"]),
        ("driver-gone-after-kernel", "components", ["nvidia_driver"]),
        ("cuda-repo-pin", "components", ["nvidia_driver"]),
        ("cuda-libraries", "components", ["cuda", "cudnn", "gpu_env", "tensorflow"]),
        ("munge-key", "components", ["slurm"]),
        ("slurm-memory", "components", ["slurm"]),
        ("slurm-away", None, None),
        ("slurmctld-silent", None, None),
        ("serving-door", "components", ["gpu_serving"]),
        ("serving-port", None, None),
        ("driver-mismatch", None, None),
        ("key-missing", None, None),
    ],
)
def test_a_fix_is_a_step_or_a_run(
    case: str, step: str | None, value: Any, host: Patient, device: None
) -> None:
    BROKEN[case][0](host)
    assert fixed(host) == ({step: value} if step else {})


def test_a_half_installed_package_of_the_stack_is_a_runs_to_finish(host: Patient) -> None:
    """`dpkg --configure -a` can't: libcuda1 460 lacks what it depends on, and --fix failed."""
    host.installed("libcuda1", "460.91.03-1", "install ok unpacked")
    assert fixed(host) == {"dpkg": True, "components": ["nvidia_driver"]}


def test_a_finding_says_which_fix_is_its_own(host: Patient) -> None:
    cudnn_older(host)
    hand_made_link(host)
    found = host.found()
    assert found["cudnn-older"]["fix"] == {"components": ["cudnn", "gpu_env"], "steps": []}
    assert found["hand-made-link"]["fix"] == {"components": [], "steps": ["aside"]}


@pytest.mark.parametrize("breaks", [key_missing, key_rotated])
def test_keys_are_fixed_by_a_run_where_the_lock_has_them(
    breaks: Callable[[Patient], None], host: Patient
) -> None:
    breaks(host)
    lock = copy.deepcopy(LOCK)
    stack = lock["stacks"]["debian11-small"]
    stack["cuda"]["source"] = "network"
    assert host.ask(lock=lock)["fixes"]["components"] == ["cuda"]
    stack["nvidia_driver"]["source"] = "network"
    assert host.ask(lock=lock)["fixes"]["components"] == ["nvidia_driver", "cuda"]


def test_fabric_manager_is_compared_with_the_packages_where_no_library_tells(host: Patient) -> None:
    fabric_manager(host)
    host.remove("/sys/module/nvidia/version")
    del host.loader["libcuda.so.1"]
    found = host.found()["fabric-manager"]
    assert found["evidence"] == ["nvidia-fabricmanager-470 is 470.239.06, the driver is " + DRIVER]


def test_libraries_that_ran_ahead_of_the_locked_module_go_back(host: Patient) -> None:
    host.write(made.LIB + "/libcuda.so.470.300.01", made.ELF)
    host.link(made.LIB + "/libcuda.so.1", "libcuda.so.470.300.01")
    assert list(host.found()) == ["driver-mismatch"]
    assert fixed(host) == {"components": ["nvidia_driver"]}


def test_headers_that_nobody_has_are_no_work_for_a_run(host: Patient) -> None:
    headers_missing(host)
    host.answers["apt-cache"] = policy("(none)")
    host.write("/var/lib/apt/lists/x_Packages", "")
    assert fixed(host) == {}
    assert "no linux-headers" in host.found()["headers-missing"]["evidence"][0]


def test_what_a_finding_says_holds_no_password(host: Patient) -> None:
    secret = CUDA_REPO.replace("https://", "https://me:secret@")
    host.write(CUDA_LIST, f"deb [signed-by={KEYRING}] {secret} /\n")
    host.remove(KEYRING)
    result = host.ask()
    assert "secret" not in str(result["findings"])
    assert "https://developer" in result["findings"][0]["evidence"][0]


def test_a_specification_is_missed_where_a_lock_has_the_toolkit(host: Patient) -> None:
    cdi_specification(host)
    host.write("/usr/lib/libcuda.so.460.73.01", made.ELF)
    found = host.found()["cdi-specification"]["evidence"]
    assert found == ["/var/run/cdi/nvidia.yaml: made for driver 460.73.01"]
    host.path("/var/run/cdi/nvidia.yaml").unlink()
    assert host.found() == {}
    result = host.ask(lock=TOOLKIT, options={})
    evidence = {finding["id"]: finding["evidence"] for finding in result["findings"]}
    assert evidence == {"cdi-specification": ["/var/run/cdi/nvidia.yaml: absent"]}
    assert result["fixes"]["components"] == ["nvidia_container_toolkit"]
    for options in (
        {"nvidia_container_toolkit_cdi": "none"},
        {"nvidia_container_toolkit_state": "absent"},
    ):
        assert host.ask(lock=TOOLKIT, options=options)["findings"] == []
