"""States of a host that must turn a check red: a proven host with one fact made wrong.

`proven_host.json` is what probe.py answered on a proven host of a local lab, and its lock's stack.
That host is a container with a simulated GPU, so four checks don't apply to it; `machine` is the
same host with what a container can't show as a machine with a T4 shows it. There everything passes.

Each state names the check that guards the fact, the words its diagnosis must hold, and, where
that can't be otherwise, the checks that turn red too (`also`) or can no longer be made (`silent`).
No other check may change its answer: one cause, one failure.
"""

from __future__ import annotations

import copy
import functools
import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from provision.verify.checks import CHECKS, Check, Seen, Verdict

HERE = Path(__file__).resolve().parent
BY_ID: dict[str, Check] = {check.id: check for check in CHECKS}
# What the recorded host, a container with a simulated GPU, can't show.
NOT_RECORDED = (
    "nvidia_driver.version",
    "nvidia_driver.module",
    "nvidia_driver.library",
    "tensorflow.computes",
)
# What is asked of another kind of stack than the recorded host's.
OTHER_STACK = (
    "nvidia_container_toolkit.packages",
    "nvidia_container_toolkit.docker",
    "nvidia_container_toolkit.cdi",
    "tensorflow.cuda_wheels",
    "gpu_workspace.runs",
    "gpu_workspace.jupyter",
    "gpu_workspace.ssh",
    "gpu_workspace.tensorboard",
    "gpu_workspace.gpus",
    "gpu_workspace.limits",
    "gpu_front_door.answers",
    "gpu_front_door.page",
    "gpu_front_door.strangers",
    "gpu_serving.runs",
    "gpu_serving.available",
    "gpu_serving.strangers",
    "slurm.answers",
    "slurm.ready",
    "slurm.gpus",
)
LIBRARIES = "/usr/lib/x86_64-linux-gnu/"
PROC_VERSION = """\
NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.256.02  Thu May  2 14:37:44 UTC 2024
GCC version:  gcc version 10.2.1 20210110 (Debian 10.2.1-6)
"""


@functools.cache
def recorded() -> dict[str, Any]:
    data: dict[str, Any] = json.loads((HERE / "proven_host.json").read_text(encoding="utf-8"))
    return data


def fresh(make: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    """Every call has a host of its own; copying by pickle is ten times as quick as by hand."""
    kept = functools.cache(lambda: pickle.dumps(make()))
    made: Callable[[], dict[str, Any]] = functools.wraps(make)(lambda: pickle.loads(kept()))  # noqa: S301
    return made


@fresh
def proven() -> dict[str, Any]:
    """The host as it was recorded: {probe, row, options, lock_digest}."""
    data = copy.deepcopy(recorded())
    del data["about"]
    return data


@fresh
def machine() -> dict[str, Any]:
    """The host as a machine of its own with two T4 shows itself: every check passes."""
    data = proven()
    probe = data["probe"]
    probe.update(container=False, simulated_gpu=False)
    probe["module"] = {"proc": PROC_VERSION, "sys": "470.256.02", "nouveau": False}
    probe["libcuda"] = library(LIBRARIES + "nvidia/current/libcuda.so.470.256.02", "libcuda1")
    for name, version in data["row"]["nvidia_driver"]["packages"]["kernel"].items():
        probe["packages"][name] = {"version": version, "status": "hi"}
    device = "/job:localhost/replica:0/task:0/device:GPU:"
    probe["tensorflow"]["computes"] = {
        "rc": 0,
        "log": "",
        "devices": {f"/device:GPU:{n}": {"on": f"{device}{n}", "error": 0.0} for n in range(2)},
    }
    # A display card has an audio function, which is no GPU.
    probe["pci"].append({"address": "0000:3c:00.1", "class": "0x040300", "device": "0x10f8"})
    return data


@fresh
def wheels() -> dict[str, Any]:
    """The machine with a stack whose CUDA and cuDNN are wheels; made up, not recorded."""
    data = machine()
    row, probe = data["row"], data["probe"]
    for part in ("cuda", "cudnn"):
        del row[part]
    row["gpu_env"] = {"xla_cuda_data_dir": "", "path": [], "library": []}
    sonames = {f"lib{name}.so.12": f"nvidia-{name}-cu12" for name in ("cublas", "cufft")}
    row["tensorflow"] |= {"cuda_source": "wheels", "sonames": sonames}
    probe["tensorflow"]["cuda_wheels"] = {
        "rc": 0,
        "log": "",
        "libraries": {name: {"path": f"/venv/{name}", "error": None} for name in sonames},
    }
    return data


TOOLKIT = dict.fromkeys(
    [
        *("libnvidia-container-tools", "libnvidia-container1"),
        *("nvidia-container-toolkit", "nvidia-container-toolkit-base"),
    ],
    "1.20.1-1",
)


@fresh
def containers() -> dict[str, Any]:
    """The machine with the container toolkit and docker; made up, not recorded."""
    data = machine()
    row, probe = data["row"], data["probe"]
    row["nvidia_container_toolkit"] = {"version": "1.20.1", "packages": {"toolkit": dict(TOOLKIT)}}
    for name, version in TOOLKIT.items():
        probe["packages"][name] = {"version": version, "status": "hi"}
    known = {name: {"path": name} for name in ("nvidia", "runc")}
    probe["docker"] = {
        "installed": True,
        "running": True,
        "allowed": True,
        "runtimes": said(json.dumps(known) + "\n"),
    }
    devices = "nvidia.com/gpu=0\nnvidia.com/gpu=all\n"
    probe["cdi"] = {
        "podman": said("podman version 4.3.1\n"),
        "devices": said(devices, "INFO[0000] Found 2 CDI devices\n"),
        "path": "/var/run/cdi/nvidia.yaml",
        "version": "0.5.0",
        "missing": [],
    }
    data["options"] |= {
        "nvidia_container_toolkit_cdi": "required",
        "nvidia_container_toolkit_hold": True,
        "nvidia_container_toolkit_docker": "required",
    }
    return data


@fresh
def shared() -> dict[str, Any]:
    """The machine with workspaces for two; made up, not recorded."""
    data = machine()
    data["options"]["gpu_workspaces"] = [
        {
            "name": "ada",
            "gpus": [0],
            "port": 8801,
            "cpus": 0.5,
            "memory": "512m",
            "tensorboard_port": 8901,
        },
        {"name": "bob", "gpus": "none", "kind": "ssh", "ssh_port": 2202},
    ]
    limits = {"cpu": ["50000"], "memory": ["536870912"]}
    one = {"unit": "active", "error": None, "status": 403, "ssh": None, "limits": limits}
    one["tensorboard"] = 200
    free = {"cpu": ["-1"], "memory": ["9223372036854771712"]}
    data["probe"]["workspaces"] = {"ada": one, "bob": {**one, "limits": free}}
    data["probe"]["workspaces"]["bob"] |= {"status": None, "ssh": "publickey"}
    data["probe"]["workspaces"]["bob"]["tensorboard"] = None
    data["probe"]["handed"] = {
        "people": {
            "ada": {"gpus": ["GPU-a"], "wrong": None},
            "bob": {"gpus": [], "wrong": None},
        },
        "tensorflow": {"gpus": 1, "wrong": None},
    }
    return data


@fresh
def doored() -> dict[str, Any]:
    """The machine with workspaces and a door to them; made up."""
    data = shared()
    data["options"] |= {"gpu_front_door_name": "gpu01.example.org"}
    page = {"status": 200, "tls": "TLSv1.3", "error": None, "names": ["ada", "bob"]}
    paths = {"/ada/api/status": 403, "/ada/tensorboard/": 302, "/bob/": 404}
    data["probe"]["front_door"] = {"page": page, "paths": paths, "plain": 400}
    return data


@fresh
def clustered() -> dict[str, Any]:
    """The machine as a node of a cluster of Slurm's; made up."""
    data = machine()
    data["options"] |= {"slurm_state": "present", "slurm_compute": True}
    node = "NodeName=gpu01 NodeHostName=gpu01 Gres=gpu:tesla_t4:2 State=IDLE Partitions=gpu"
    data["probe"]["slurm"] = {
        "ping": said("Slurmctld(primary) at gpu01 is UP\n"),
        "nodes": said(node + "\n"),
        "hostname": "gpu01",
        "devices": 2,
    }
    return data


@fresh
def served() -> dict[str, Any]:
    """The machine, which serves a model behind a door; made up."""
    data = machine()
    model = {"name": "mnist", "models": "/srv/models/mnist", "gpus": "none", "port": 8501}
    data["options"] |= {"gpu_front_door_name": "gpu01.example.org", "gpu_servings": [model]}
    data["options"]["gpu_workspaces"] = []
    page = {"status": 200, "tls": "TLSv1.3", "error": None, "names": []}
    data["probe"]["front_door"] = {"page": page, "paths": {}, "plain": 400}
    versions = [{"version": "2", "state": "AVAILABLE", "error": ""}]
    data["probe"]["served_models"] = {
        "mnist": {
            "unit": "active",
            "port": "active",
            "versions": versions,
            "there": ["2", "3"],
            "door": 401,
        }
    }
    return data


def said(stdout: str = "", stderr: str = "", rc: int = 0) -> dict[str, Any]:
    """A command's answer."""
    return {"rc": rc, "stdout": stdout, "stderr": stderr}


def library(path: str, owner: str | None, **more: Any) -> dict[str, Any]:
    """A library that the loader finds."""
    found = {"loaded": path, "real": path, "error": None, "cached": path, "cached_real": path}
    return found | {"owner": owner, "answer": None} | more


def absent(soname: str, **more: Any) -> dict[str, Any]:
    """A library that the loader does not find, in its own words."""
    error = f"OSError: {soname}: cannot open shared object file: No such file or directory"
    return dict.fromkeys(library("", None), None) | {"error": error} | more


def swap(old: str, new: str, count: int = -1) -> Callable[[str], str]:
    """The text that is there with one word changed; the word must be there."""

    def change(text: str) -> str:
        assert old in text, (old, text)
        return text.replace(old, new, count)

    return change


@dataclass(frozen=True)
class State:
    """A proven host with one fact made wrong.

    `changes` are paths below probe, row, options or lock_digest, with what is put there: a value,
    or a function of the value that is there; GONE takes it away.
    """

    check: str
    fact: str
    changes: dict[str, Any]
    words: tuple[str, ...]
    also: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    # No way out is known of what no rule knows.
    cure: bool = True
    # A container is not judged by it: its kernel and its PCI bus are not its own.
    machine_only: bool = False
    base: Callable[[], dict[str, Any]] = field(default=machine, repr=False)

    def seen(self, base: Callable[[], dict[str, Any]] | None = None) -> Seen:
        return seen_of(mutated((base or self.base)(), self.changes))


GONE = object()


def mutated(data: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The data with these changes; a path that is not there is an error: it would test nothing."""
    for path, value in changes.items():
        *parents, last = path.split("/") if not path.startswith("/") else ("", path)
        place = data
        for name in parents:
            place = place[int(name)] if isinstance(place, list) else place[name]
        if isinstance(place, list):
            last = int(last)
        elif last not in place and last not in ("missing", "error"):
            raise KeyError(path)
        if value is GONE:
            del place[last]
        else:
            place[last] = value(place[last]) if callable(value) else value
    return data


def seen_of(data: dict[str, Any]) -> Seen:
    return Seen(
        data["row"], data["options"], data["probe"], data["lock_digest"], data.get("error", "")
    )


def verdicts(seen: Seen) -> dict[str, Verdict]:
    """What every check says of a host."""
    return {check.id: check(seen) for check in CHECKS if check.only(seen)}


def of_component(component: str, data: dict[str, Any]) -> dict[str, Verdict]:
    """What a component's checks say of a host."""
    found = verdicts(seen_of(data))
    return {name: one for name, one in found.items() if name.startswith(f"{component}.")}


@functools.cache
def verdicts_before(base: Callable[[], dict[str, Any]]) -> dict[str, Verdict]:
    """What every check says of a host with which nothing is wrong."""
    return verdicts(seen_of(base()))


def smi(stdout: str = "", stderr: str = "", rc: int = 0) -> dict[str, Any]:
    """nvidia-smi says this, whatever it is asked."""
    answer = said(stdout, stderr, rc)
    return {"probe/nvidia_smi": answer, "probe/nvidia_smi_list": dict(answer)}


# Without an answer of nvidia-smi there is nothing to compare with.
NO_SMI = ("nvidia_driver.version", "nvidia_driver.gpus", "tensorflow.gpus", "tensorflow.computes")
NO_TENSORFLOW = ("tensorflow.version", "tensorflow.built_with_cuda", "tensorflow.gpus")
WITHOUT_MODULE = {"proc": None, "sys": None, "nouveau": False}


def first_line(text: str) -> str:
    return text.splitlines()[0] + "\n"


def driver_states() -> Iterator[State]:
    answers = "nvidia_driver.answers"
    for fact, rc, text, words in (
        (
            "libraries were upgraded under the loaded module",
            18,
            "Failed to initialize NVML: Driver/library version mismatch\n",
            ("Driver/library version mismatch", "reboot", "apt-mark showhold"),
        ),
        (
            "nvidia-smi and NVML are of two drivers",
            1,
            "Mismatch in versions between nvidia-smi and NVML.\n",
            ("different driver versions", "nvidia-uninstall"),
        ),
        (
            "the module is not there",
            9,
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make "
            "sure that the latest NVIDIA driver is installed and running.\n",
            ("can't reach the kernel module", "dkms status"),
        ),
        ("the driver finds no device", 6, "No devices were found\n", ("sees no GPU", "nvrm")),
        (
            "a GPU fell off the bus",
            15,
            "Unable to determine the device handle for GPU 0000:3B:00.0: Unknown Error\n",
            ("GPU 0000:3B:00.0 does not answer", "power cycle"),
        ),
        (
            "the user may not open the device",
            4,
            "Failed to initialize NVML: Insufficient Permissions\n",
            ("may not open /dev/nvidia", "group"),
        ),
        (
            "NVML does not start",
            12,
            "Failed to initialize NVML: Unknown Error\n",
            ("does not start: Unknown Error", "libnvidia-ml"),
        ),
    ):
        yield State(answers, fact, smi(text, rc=rc), words, silent=NO_SMI)
    yield State(
        answers,
        "nvidia-smi is not installed",
        smi("", "nvidia-smi: command not found", 127),
        ("nvidia-smi is not installed", "run the playbook"),
        silent=NO_SMI,
    )
    yield State(
        answers,
        "nvidia-smi says something new",
        smi("", "a sentence of tomorrow\n", 3),
        ("nvidia-smi ended with 3: a sentence of tomorrow",),
        silent=NO_SMI,
        cure=False,
    )
    yield State(
        answers,
        "nvidia-smi says nothing",
        {"probe/nvidia_smi": said("")},
        ("ended with 0: it said nothing",),
        silent=("nvidia_driver.version",),
        cure=False,
    )
    failing = smi("No devices were found\n", rc=6)
    yield State(
        answers,
        "nouveau holds the GPU",
        failing | {"probe/module": WITHOUT_MODULE | {"nouveau": True}},
        ("nouveau is loaded and holds the GPU", "reboot"),
        also=("nvidia_driver.module",),
        silent=NO_SMI,
    )
    yield State(
        answers,
        "there is no NVIDIA GPU on the bus",
        failing | {"probe/pci": []},
        ("no NVIDIA GPU on this host's PCI bus", "firmware"),
        silent=NO_SMI,
        machine_only=True,
    )
    newer = swap("470.256.02", "535.309.01")
    yield State(
        "nvidia_driver.version",
        "nvidia-smi tells another version than the lock's",
        {"probe/nvidia_smi/stdout": newer},
        ("the driver in use is 535.309.01", "the lock's is 470.256.02", "reboot"),
    )
    yield State(
        "nvidia_driver.version",
        "one of the GPUs runs another version",
        {"probe/nvidia_smi/stdout": swap("470.256.02", "470.223.02", 1)},
        ("470.223.02, 470.256.02",),
    )
    yield State(
        "nvidia_driver.version",
        "the lock wants another driver than all that is there",
        {"row/nvidia_driver/version": "535.309.01"},
        ("470.256.02, the lock's is 535.309.01",),
        also=("nvidia_driver.module", "nvidia_driver.library"),
    )
    module = "nvidia_driver.module"
    yield State(
        module,
        "another module is loaded",
        {"probe/module/sys": "535.309.01"},
        ("module 535.309.01 is loaded", "470.256.02", "reboot"),
    )
    yield State(
        module,
        "another module is loaded, which /proc alone tells",
        {"probe/module/sys": None, "probe/module/proc": newer},
        ("module 535.309.01 is loaded", "Driver/library version mismatch"),
    )
    yield State(
        module,
        "no module is loaded",
        {"probe/module": WITHOUT_MODULE},
        ("no NVIDIA module is loaded", "dkms status", "5.10.0-32-amd64"),
    )
    yield State(
        module,
        "nouveau is loaded",
        {"probe/module": WITHOUT_MODULE | {"nouveau": True}},
        ("nouveau is loaded instead", "initramfs"),
    )
    yield State(
        "nvidia_driver.library",
        "libcuda.so.1 can't be loaded",
        {"probe/libcuda": absent("libcuda.so.1")},
        ("libcuda.so.1 can't be loaded: cannot open shared object file",),
    )
    yield State(
        "nvidia_driver.library",
        "a CUDA compat library comes first",
        {"probe/libcuda": library("/usr/local/cuda/compat/libcuda.so.460.32.03", None)},
        ("/usr/local/cuda/compat/libcuda.so.460.32.03, not of driver 470.256.02", "compat"),
    )
    yield State(
        "nvidia_driver.library",
        "libcuda.so.1 is another version's, ending in the same digits",
        {"probe/libcuda": library(LIBRARIES + "libcuda.so.1470.256.02", None)},
        ("not of driver 470.256.02",),
    )
    gpus = "nvidia_driver.gpus"
    yield State(
        gpus,
        "one of two GPUs is dark",
        {
            "probe/nvidia_smi/stdout": first_line,
            "probe/nvidia_smi_list/stdout": first_line,
            "probe/tensorflow/gpus/gpus": lambda found: found[:1],
        },
        ("1 of 2 GPUs answer", "0000:3c:00.0 (0x1eb8)", "lspci", "xid"),
    )
    yield State(
        gpus,
        "NVML counts no GPU",
        {"probe/nvidia_smi_list": said("No devices were found\n", rc=6)},
        ("the driver shows no GPU, the PCI bus has 2", "nvrm"),
        silent=("tensorflow.gpus", "tensorflow.computes"),
    )
    yield State(
        gpus,
        "the PCI bus shows one GPU less than the driver",
        {"probe/pci": lambda found: found[1:]},
        ("the driver shows 2 GPUs, the PCI bus only 1", "virtual machine"),
    )
    yield State(
        gpus,
        "the PCI bus shows one GPU more",
        {"probe/pci": lambda f: [*f, {"address": "0000:3d:00.0", "class": "0x030000",
                                      "device": "0x1b06"}]},
        ("2 of 3 GPUs answer", "0000:3d:00.0 (0x1b06)"),
    )  # fmt: skip
    row = recorded()["row"]["nvidia_driver"]["packages"]
    wanted = row["userspace"] | row["kernel"]
    yield from package_states("nvidia_driver.packages", wanted, tuple(row["kernel"]))


def package_states(
    check: str, wanted: dict[str, str], machine_only: tuple[str, ...] = ()
) -> Iterator[State]:
    """Every locked package in another version, and one in each other state dpkg knows."""
    for name, version in sorted(wanted.items()):
        yield State(
            check,
            f"{name} in another version",
            {f"probe/packages/{name}/version": version + "+b1"},
            (f"{name} is {version}+b1, the lock's is {version}", "run the playbook again"),
            machine_only=name in machine_only,
        )
    name = min(wanted)
    for status, word in (
        ("un", "is not installed"),
        ("rc", "is not installed"),
        ("hF", "is half installed (hF)"),
        ("iU", "is half installed (iU)"),
        ("iH", "is half installed (iH)"),
    ):
        changes = {f"probe/packages/{name}/status": status}
        yield State(check, f"a package in state {status}", changes, (f"{name} {word}",))
    changes = {f"probe/packages/{name}": GONE}
    yield State(check, "a package dpkg does not know", changes, (f"{name} is not installed",))


def cuda_states() -> Iterator[State]:
    row = recorded()["row"]["cuda"]
    yield from package_states("cuda.packages", row["packages"]["toolkit"])
    for where, place in (
        ("login", "a login shell"),
        ("ssh", "a command over ssh"),
        ("cron", "a cron job"),
        ("systemd", "a systemd unit"),
    ):
        check, path = f"cuda.nvcc_{where}", f"probe/nvcc/{where}"
        for fact, value, words in (
            (
                "nvcc is not in PATH",
                said("", "sh: 1: nvcc: not found\n", 127),
                (f"{place} does not find nvcc", "PATH lacks CUDA's bin"),
            ),
            (
                "nvcc is of the next release",
                said("Cuda compilation tools, release 11.3, V11.3.58\n"),
                (f"nvcc in {place} is release 11.3, the lock's is 11.2", "conda"),
            ),
            (
                "nvcc's release begins like the lock's",
                said("Cuda compilation tools, release 11.20, V11.20.1\n"),
                ("is release 11.20, the lock's is 11.2",),
            ),
            (
                "nvcc fails",
                said("", "nvcc: Permission denied\n", 126),
                (f"nvcc fails in {place}: nvcc: Permission denied",),
            ),
            (
                "nvcc fails and says so on stdout",
                said("Segmentation fault\n", "", 139),
                (f"nvcc fails in {place}: Segmentation fault",),
            ),
            ("nvcc tells no release", said("hello\n"), (f"nvcc in {place} is release unknown",)),
        ):
            yield State(check, fact, {path: value}, words)
    yield State(
        "cuda.nvcc_ssh",
        "the lock wants another release than all that is there",
        {"row/cuda/release": "11.8"},
        ("release 11.2, the lock's is 11.8",),
        also=("cuda.nvcc_login", "cuda.nvcc_cron", "cuda.nvcc_systemd",
              "tensorflow.built_with_cuda"),
    )  # fmt: skip
    for soname, package in row["sonames"].items():
        base, _, _major = soname.partition(".so.")
        place = f"probe/libraries/{soname}"
        other = f"/usr/local/cuda-12.4/lib64/{base}.so.12.4.127"
        for fact, value, words in (
            (
                "can't be loaded",
                absent(soname),
                (f"{soname} (package {package}) can't be loaded: cannot open shared object file",),
            ),
            (
                "resolves to another major version, of no package",
                library(other, None),
                (f"{soname} is {other} of no package, not of {package}",),
            ),
            (
                "belongs to another package",
                library(LIBRARIES + soname, "libother1"),
                (f"{soname} is {LIBRARIES}{soname} of libother1, not of {package}",),
            ),
            (
                "is not in the loader's cache",
                library(LIBRARIES + soname, package, cached=None, cached_real=None),
                (f"{soname} is not in the loader's cache (`ldconfig -p` shows nothing)",),
            ),
            (
                "is in the loader's cache as another file",
                library(LIBRARIES + soname, package, cached=other, cached_real=other),
                (f"{soname} is not in the loader's cache (`ldconfig -p` shows {other})",),
            ),
            ("was not looked at", GONE, (soname, "can't be loaded: the loader says nothing")),
        ):
            yield State("cuda.libraries", f"{soname} {fact}", {place: value}, words)
    for name, file in row["files"].items():
        place, path = f"probe/files/{name}", file["path"]
        closed = {"path": path, "exists": True, "usable": False, "owner": file["package"]}
        nobody, other = {f"{place}/owner": None}, {f"{place}/owner": "cuda-nvcc-12-4"}
        belongs, owner = f"{name} ({path}) belongs to", file["package"]
        for fact, changes, words in (
            ("is missing", {f"{place}/exists": False, **nobody}, (f"{name} is missing ({path})",)),
            ("is nobody's", nobody, (f"{belongs} no package, not to {owner}",)),
            ("is another package's", other, (f"{belongs} cuda-nvcc-12-4, not to {owner}",)),
            ("is closed to users", {place: closed}, (f"{name} can't be used by", path)),
            ("was not looked at", {place: GONE}, (f"{name} is missing",)),
        ):
            yield State("cuda.files", f"{name} {fact}", changes, words)


def cudnn_states() -> Iterator[State]:
    real = "/opt/nvidia/cudnn/8.5.0.96-cuda11.2/lib64/libcudnn.so.8.5.0"
    lost = {"root": "/opt/nvidia/cudnn", "headers": "8.5.0"}
    check = "cudnn.library"
    yield State(
        check,
        "libcudnn can't be loaded",
        {"probe/cudnn": absent("libcudnn.so.8", **lost)},
        ("libcudnn.so.8 can't be loaded: cannot open shared object file",),
        silent=("cudnn.version",),
    )
    for fact, path in (
        ("a deb's cuDNN comes first", LIBRARIES + "libcudnn.so.8.9.7"),
        ("it is another version's directory", real.replace("8.5.0.96", "8.1.0.77")),
        ("it is another CUDA's directory", real.replace("cuda11.2", "cuda11.20")),
    ):
        yield State(
            check,
            fact,
            {"probe/cudnn/real": path, "probe/cudnn/cached_real": path},
            (f"taken from {path}, not from /opt/nvidia/cudnn/8.5.0.96-cuda11.2/",
             "LD_LIBRARY_PATH"),
        )  # fmt: skip
    yield State(
        check,
        "the loader's cache knows another file",
        {"probe/cudnn/cached": "/usr/lib/libcudnn.so.8", "probe/cudnn/cached_real": "/usr/lib/x"},
        ("not in the loader's cache (`ldconfig -p` shows /usr/lib/libcudnn.so.8)",
         "LD_LIBRARY_PATH only"),
    )  # fmt: skip
    yield State(
        check,
        "the loader's cache does not know it",
        {"probe/cudnn/cached": None, "probe/cudnn/cached_real": None},
        ("not in the loader's cache (`ldconfig -p` shows nothing)",),
    )
    yield State(
        check,
        "the lock wants another cuDNN",
        {"row/cudnn/version": "8.6.0.163"},
        ("not from /opt/nvidia/cudnn/8.6.0.163-cuda11.2/",),
        also=("cudnn.version", "cudnn.headers"),
    )
    check = "cudnn.version"
    for fact, answer, words in (
        ("it is the last before TensorFlow's", "8099", ("cuDNN 8.0.99 is loaded",
                                                         "built with 8.1.0")),
        ("it is TensorFlow's own, not the lock's", "8100", ("cuDNN 8.1.0 is loaded, the lock's "
                                                            "is 8.5.0.96",)),
        ("it is one patch too new", "8501", ("cuDNN 8.5.1 is loaded, the lock's is 8.5.0.96",)),
        ("it is of the next major version", "90100", ("cuDNN 9.1.0 is loaded", "same major")),
        ("it is of the major version before", "7605", ("cuDNN 7.6.5 is loaded", "same major")),
    ):  # fmt: skip
        yield State(check, fact, {"probe/cudnn/answer": answer}, words)
    short = "Could not load library libcudnn_ops_infer.so.8. Error: file too short"
    yield State(
        check,
        "a library that it opens by itself is cut short",
        {"probe/cudnn/answer": None, "probe/cudnn/error": short},
        ("cuDNN does not tell its version: Could not load library", "file too short"),
    )
    yield State(
        check,
        "TensorFlow needs a newer one than the lock's",
        {"row/cudnn/minimum": "8.6.0"},
        ("cuDNN 8.5.0 is loaded", "built with 8.6.0"),
    )
    check = "cudnn.headers"
    yield State(
        check,
        "the headers can't be read",
        {"probe/cudnn/headers": None},
        ("can't be read behind the `current` link",),
    )
    yield State(
        check,
        "the headers are another version's",
        {"probe/cudnn/headers": "8.1.0"},
        ("the headers are of cuDNN 8.1.0, the lock's is 8.5.0",),
    )


def environment_states() -> Iterator[State]:
    check = "gpu_env.variables"
    places = {
        "ssh": "a command over ssh",
        "login": "a login shell",
        "cron": "a cron job",
        "systemd": "a systemd unit",
    }
    for where, place in places.items():
        variable = f"probe/environment/{where}/XLA_FLAGS"
        yield State(check, f"{place} lacks it", {variable: None}, (f"{place} lacks XLA_FLAGS",))
        other = {variable: "--xla_gpu_cuda_data_dir=/usr/local/cuda"}
        yield State(check, f"{place} differs", other, (f"{place} differs in XLA_FLAGS",))
    yield State(
        check,
        "the lock wants another place of libdevice",
        {"row/gpu_env/xla_cuda_data_dir": "/usr/local/cuda-11.2"},
        tuple(f"{place} differs in XLA_FLAGS" for place in places.values()),
    )
    yield State(
        check,
        "the user wants a directory in PATH",
        {"options/gpu_env_path": ["/opt/tools"]},
        tuple(f"{place} lacks /opt/tools in PATH" for place in places.values()),
    )
    yield State(
        check,
        "the user wants a variable",
        {"options/gpu_env_variables": {"TF_CPP_MIN_LOG_LEVEL": "1"}},
        tuple(f"{place} lacks TF_CPP_MIN_LOG_LEVEL" for place in places.values()),
    )


# (what happened, process's end, exception, log, words)
IMPORTS: tuple[tuple[str, int, str, str, tuple[str, ...]], ...] = (
    (
        "numpy 2 was installed",
        1,
        "TypeError: Unable to convert function return value to a Python type! The signature was "
        "() -> handle",
        "A module that was compiled using NumPy 1.x cannot be run in\nNumPy 2.0.2\n",
        ("built for NumPy 1, and the environment has NumPy 2", "numpy<2"),
    ),
    (
        "protobuf 4 was installed",
        1,
        "TypeError: Descriptors cannot not be created directly.",
        "",
        ("protobuf is not the one", "protobuf<3.20"),
    ),
    ("the processor has no AVX", -4, "", "", ("uses AVX", "CPU model with AVX")),
    (
        "a wheel is missing",
        1,
        "ModuleNotFoundError: No module named 'absl'",
        "",
        ("lacks the Python module absl", "run the playbook"),
    ),
    (
        "a library of TensorFlow's own is missing",
        1,
        "ImportError: libtensorflow_framework.so.2: cannot open shared object file",
        "",
        ("needs libtensorflow_framework.so.2", "provision plan"),
    ),
    ("the kernel ended it for its memory", -9, "", "", ("too little memory", "1 GB")),
    (
        "the disk is full",
        1,
        "OSError: [Errno 28] No space left on device",
        "",
        ("the disk is full", "free some space"),
    ),
    ("it hangs", -9, "", "\nno answer within 600 s", ("did not answer within 600 s", "hangs")),
    ("it crashes", -11, "", "", ("can't be imported: its process ended with -11",)),
    ("its log alone says why", 1, "", "x\nAborted\n", ("can't be imported: Aborted",)),
)


def import_states() -> Iterator[State]:
    check = "tensorflow.imports"
    for fact, rc, error, log, words in IMPORTS:
        answer: dict[str, Any] = {"rc": rc, "log": log} | ({"error": error} if error else {})
        changes = {"probe/tensorflow/gpus": answer, "probe/tensorflow/trains": dict(answer)}
        silent = (*NO_TENSORFLOW, "tensorflow.trains", "tensorflow.computes")
        yield State(check, fact, changes, words, silent=silent)
    yield State(
        check,
        "there is no venv",
        {"probe/tensorflow/missing": True},
        ("there is no TensorFlow: /opt/tensorflow/current/bin/python does not exist",),
        silent=("tensorflow.wheels", "tensorflow.trains", "tensorflow.computes"),
    )
    yield State(
        check,
        "it is imported, and fails then",
        {"probe/tensorflow/gpus/error": "RuntimeError: tomorrow's"},
        ("RuntimeError: tomorrow's",),
    )


NO_DSO = (
    "W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not load dynamic "
    "library '{0}'; dlerror: {0}: cannot open shared object file: No such file or directory\n"
)
# (what happened, TensorFlow's log, words)
GPUS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "a library is missing",
        NO_DSO.format("libcusolver.so.11") + NO_DSO.format("libnvinfer.so.7"),
        ("it could not load libcusolver.so.11", "no GPU at all"),
    ),
    (
        "an older cuDNN comes first",
        "E cuda_dnn.cc:319] Loaded runtime CuDNN library: 8.0.5 but source was compiled with: "
        "8.1.0.  CuDNN library needs to have matching major version and equal or higher minor "
        "version.\n",
        ("cuDNN 8.0.5 was loaded, but it was built with 8.1.0", "LD_LIBRARY_PATH"),
    ),
    (
        "the devices are hidden",
        "E cuda_driver.cc:271] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable "
        "device is detected\n",
        ("CUDA sees no device", "CUDA_VISIBLE_DEVICES"),
    ),
    (
        "the library is newer than the module",
        "failed call to cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: system has unsupported\n",
        ("libcuda.so.1 and the loaded kernel module have different versions", "reboot"),
    ),
    (
        "a compat library is in the way",
        "failed call to cuInit: CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE: forward\n",
        ("forward-compatibility library", "compat"),
    ),
    (
        "CUDA does not start",
        "failed call to cuInit: CUDA_ERROR_UNKNOWN: unknown error\n",
        ("CUDA does not start (CUDA_ERROR_UNKNOWN)", "nvrm"),
    ),
    (
        "the GPU is too old",
        "I gpu_device.cc:1790] Ignoring visible gpu device (device: 0, name: GeForce GTX 550 Ti, "
        "compute capability: 2.1) with Cuda compute capability 2.1. The minimum is 3.5.\n",
        ("it ignores a GPU with Cuda compute capability 2.1", "generation"),
    ),
    ("its log tells nothing", "", ("TensorFlow lists 0 of 2 GPUs", "no reason that is known")),
)


def tensorflow_states() -> Iterator[State]:
    yield from import_states()
    answer = "probe/tensorflow/gpus"
    yield State(
        "tensorflow.version",
        "it is another version",
        {f"{answer}/version": "2.9.1"},
        ("TensorFlow 2.9.1 answers, the lock's is 2.9.3",),
    )
    for python in ("3.10.1", "3.90.0", "3.8.10"):
        yield State(
            "tensorflow.version",
            f"its Python is {python}",
            {f"{answer}/python": python},
            (f"its Python is {python}, the lock's is 3.9",),
        )
    yield State(
        "tensorflow.version",
        "the lock wants another TensorFlow",
        {"row/tensorflow/version": "2.10.1"},
        ("TensorFlow 2.9.3 answers, the lock's is 2.10.1",),
    )
    yield State(
        "tensorflow.version",
        "the lock wants another Python",
        {"row/tensorflow/python": "3.8"},
        ("its Python is 3.9.2, the lock's is 3.8",),
    )
    check = "tensorflow.wheels"
    for name, version in sorted(recorded()["row"]["tensorflow"]["wheels"].items()):
        yield State(
            check,
            f"{name} in another version",
            {f"probe/tensorflow/wheels/{name}": ["0.1"]},
            (f"{name} is 0.1, the lock's is {version}", "run the playbook again"),
        )
    place = "probe/tensorflow/wheels/numpy"
    yield State(check, "numpy is missing", {place: GONE}, ("numpy is missing",))
    twice = {place: ["1.26.4", "2.0.2"]}
    yield State(check, "numpy is there twice", twice, ("numpy is 1.26.4 and 2.0.2, the lock's",))
    check = "tensorflow.built_with_cuda"
    yield State(
        check,
        "it is the CPU wheel",
        {f"{answer}/built_with_cuda": False},
        ("built without CUDA", "tensorflow-cpu"),
    )
    yield State(
        check,
        "it was built for another CUDA",
        {f"{answer}/build/cuda_version": "11.8"},
        ("built for CUDA 11.8, the lock's is 11.2", "lock again"),
    )
    yield State(
        check,
        "it was built for another cuDNN",
        {f"{answer}/build/cudnn_version": "9"},
        ("built for cuDNN 9, the lock's is 8", "lock again"),
    )
    check = "tensorflow.gpus"
    for fact, log, words in GPUS:
        changes = {f"{answer}/gpus": [], f"{answer}/log": log}
        words = ("0 of 2 GPUs", *words)
        yield State(check, f"{fact}: no GPU", changes, words, silent=("tensorflow.computes",))
    one = {f"{answer}/gpus": lambda found: found[:1]}
    silent = ("tensorflow.computes",)
    words = ("TensorFlow lists 1 of 2 GPUs",)
    yield State(check, "it lists one GPU fewer", one, words, silent=silent)
    more = {f"{answer}/gpus": lambda found: [*found, "/physical_device:GPU:2"]}
    words = ("TensorFlow lists 3 of 2 GPUs",)
    yield State(check, "it lists one GPU more", more, words, silent=silent)
    check, answer = "tensorflow.trains", "probe/tensorflow/trains"
    broken = "the numeric libraries are broken"
    first = recorded()["probe"]["tensorflow"]["trains"]["first"]
    for fact, last in (
        ("the loss fell to just a half", first / 2),
        ("the loss stayed", first),
        ("the loss is not a number", float("nan")),
        ("the loss grew beyond all numbers", float("inf")),
    ):
        words = ("the model does not learn: loss 3.87 -> ", broken)
        yield State(check, fact, {f"{answer}/last": last}, words)
    yield State(
        check,
        "training fails",
        {answer: {"rc": 1, "log": "", "error": "ValueError: no"}},
        ("a Keras model can't be trained on the CPU: ValueError: no", "run the playbook again"),
    )
    yield State(
        check,
        "the kernel ended the training for its memory",
        {answer: {"rc": -9, "log": ""}},
        ("too little memory",),
    )


def computes_states() -> Iterator[State]:
    check, answer = "tensorflow.computes", "probe/tensorflow/computes"

    def zeroth(**more: Any) -> dict[str, Any]:
        def changed(found: dict[str, Any]) -> dict[str, Any]:
            return {**found, "/device:GPU:0": {**found["/device:GPU:0"], **more}}

        return {f"{answer}/devices": changed}

    refused = "InternalError: 'cuLaunchKernel' failed with 'CUDA_ERROR_INVALID_HANDLE'"
    for fact, changes, words in (
        (
            "the GPU is newer than the code",
            {answer: {"rc": 0, "log": "CUDA_ERROR_INVALID_PTX\n", "devices": {}, "error": refused}},
            ("has no code for it", "provision catalog --gpu"),
        ),
        (
            "an operation fails",
            {answer: {"rc": 0, "log": "", "devices": {}, "error": "InternalError: no"}},
            ("can't compute on the GPU: InternalError: no", "nvidia-smi"),
        ),
        (
            "its process was ended",
            {answer: {"rc": -6, "log": "Aborted\n"}},
            ("can't compute on the GPU: Aborted",),
        ),
        (
            "the driver translates for too long",
            {answer: {"rc": -9, "log": "no answer within 600 s"}},
            ("did not finish", "verify again"),
        ),
        (
            "a GPU answers wrongly",
            zeroth(error=0.5),
            ("/device:GPU:0 gave a wrong answer (off by 0.5)", "xid"),
        ),
        (
            "a GPU answers with no number",
            zeroth(error=float("nan")),
            ("/device:GPU:0 gave a wrong answer (off by nan)",),
        ),
        (
            "an operation ran on the CPU",
            zeroth(on="/device:CPU:0"),
            ("what was meant for /device:GPU:0 ran on /device:CPU:0",),
        ),
        (
            "one GPU was left out",
            {f"{answer}/devices": lambda found: dict(list(found.items())[:1])},
            ("it computed on 1 of 2 GPUs",),
        ),
    ):
        yield State(check, fact, changes, words, machine_only=True)


def wheels_states() -> Iterator[State]:
    check, answer = "tensorflow.cuda_wheels", "probe/tensorflow/cuda_wheels"
    cufft = f"{answer}/libraries/libcufft.so.12"
    named = "libcufft.so.12 (wheel nvidia-cufft-cu12)"
    for fact, changes, words in (
        ("a library of a wheel is gone", {cufft: {"path": None, "error": None}}, "is missing"),
        ("the probe says nothing of a library", {cufft: GONE}, "is missing"),
        (
            "a library of a wheel is cut short",
            {cufft: {"path": "/venv/x", "error": "/venv/x: file too short"}},
            "can't be loaded: /venv/x: file too short",
        ),
    ):
        yield State(check, fact, changes, (f"{named} {words}",), base=wheels, machine_only=True)
    for fact, changes, words in (
        (
            "the environment's Python tells why it can load nothing",
            {f"{answer}/libraries": {}, f"{answer}/log": "Traceback\nOSError: no\n"},
            "can't load libraries: OSError: no",
        ),
        (
            "the environment's Python was ended",
            {f"{answer}/libraries": {}, f"{answer}/rc": -9},
            "its process ended with -9",
        ),
    ):
        yield State(check, fact, changes, (words,), base=wheels, machine_only=True)


def toolkit_states() -> Iterator[State]:
    check, name = "nvidia_container_toolkit.packages", "libnvidia-container1"
    package = f"probe/packages/{name}"
    for fact, changes, words in (
        ("one of the four was upgraded", {f"{package}/version": "1.21.0-1"}, "is 1.21.0-1"),
        ("one of them is gone", {package: GONE}, f"{name} is not installed"),
        ("it is half installed", {f"{package}/status": "hH"}, "is half installed (hH)"),
        ("it is not held", {f"{package}/status": "ii"}, f"not held: {name}"),
    ):
        yield State(check, fact, changes, (words,), base=containers, machine_only=True)
    check, docker = "nvidia_container_toolkit.docker", "probe/docker"
    nothing = "Cannot connect to the Docker daemon. Is it running?"
    for fact, changes, words in (
        (
            "docker was not restarted",
            {f"{docker}/runtimes": said('{"runc": {}}')},
            "docker knows the runtimes runc alone",
        ),
        (
            "docker does not answer",
            {f"{docker}/runtimes": said(stderr=nothing, rc=1)},
            f"docker does not answer: {nothing}",
        ),
        (
            "docker answers with something else",
            {f"{docker}/runtimes": said("null\n")},
            "docker does not answer: null",
        ),
        ("docker is required and gone", {f"{docker}/installed": False}, "docker is not installed"),
    ):
        yield State(check, fact, changes, (words,), base=containers, machine_only=True)


def cdi_states() -> Iterator[State]:
    check, cdi = "nvidia_container_toolkit.cdi", "probe/cdi"
    gone = {f"{cdi}/devices": said("", "INFO[0000] Found 0 CDI devices\n")}
    library = "/usr/lib/x86_64-linux-gnu/libcuda.so.470.1"
    for fact, changes, words in (
        ("nothing is listed", gone, "no CDI specification names nvidia.com/gpu=all: INFO[0000]"),
        (
            "other devices are listed",
            {f"{cdi}/devices": said("nvidia.com/gpu=0\n")},
            "names nvidia.com/gpu=all: nvidia.com/gpu=0",
        ),
        (
            "podman reads no CDI as new as that",
            {f"{cdi}/version": "0.6.0"},
            "nvidia.yaml is of CDI 0.6.0, and podman version 4.3.1 reads 0.5.0 at most",
        ),
        (
            "podman is too old",
            {f"{cdi}/podman": said("podman version 3.0.1\n")},
            "3.0.1 reads no CDI",
        ),
        (
            "the driver's files are others now",
            {f"{cdi}/missing": [library, "/x"]},
            f"nvidia.yaml names 2 files that are not there, such as {library}",
        ),
    ):
        yield State(check, fact, changes, (words,), base=containers, machine_only=True)


def workspace_states() -> Iterator[State]:
    ada = "probe/workspaces/ada"
    runs, answers, limits = (f"gpu_workspace.{name}" for name in ("runs", "jupyter", "limits"))
    ssh, bob = "gpu_workspace.ssh", "probe/workspaces/bob/ssh"
    board, gpus, handed = "gpu_workspace.tensorboard", "gpu_workspace.gpus", "probe/handed"
    lost = "nvidia-smi fails in its container: Failed to initialize NVML: Unknown Error"
    port = "driver failed: port is already allocated"
    for check, fact, changes, words in (
        (runs, "somebody stopped a unit", {f"{ada}/unit": "inactive"}, "ada: its unit is inactive"),
        (runs, "a unit is gone", {f"{ada}/unit": ""}, "ada: its unit is not there"),
        (runs, "docker could not start it", {f"{ada}/error": "docker: failed\n" + port}, port),
        (answers, "nothing answers", {f"{ada}/status": None}, "ada: nothing answers at its port"),
        (
            answers,
            "anybody is let in",
            {f"{ada}/status": 200},
            "it answers without a token, with status 200",
        ),
        (ssh, "sshd does not answer", {bob: ""}, "bob: sshd does not answer at its port"),
        (ssh, "a password would do", {bob: "publickey,password"}, "by publickey,password"),
        (
            board,
            "nothing answers",
            {f"{ada}/tensorboard": None},
            "ada: nothing answers at its port",
        ),
        (board, "another program answers", {f"{ada}/tensorboard": 404}, "answers with status 404"),
        (gpus, "a container lost its GPUs", {f"{handed}/people/ada/wrong": lost}, f"ada: {lost}"),
        (
            gpus,
            "a container was not asked",
            {f"{handed}/people": {"bob": {"gpus": [], "wrong": None}}},
            "ada: it was not asked",
        ),
        (
            gpus,
            "one without GPUs has all of them",
            {f"{handed}/people/bob/wrong": "its container has GPUs (GPU-a), and none were"},
            "bob: its container has GPUs (GPU-a)",
        ),
        (
            gpus,
            "the containers can't be asked",
            {handed: {"error": "docker did not answer within 60 s"}},
            "could not be asked: docker did not answer within 60 s",
        ),
        (
            gpus,
            "TensorFlow of the image lists none",
            {f"{handed}/tensorflow/wrong": "TensorFlow in the image lists 0"},
            "TensorFlow in the image lists 0",
        ),
        (
            limits,
            "the memory has no limit",
            {f"{ada}/limits/memory": ["max"]},
            "memory is limited to max, not 536870912",
        ),
        (
            limits,
            "the processors have none",
            {f"{ada}/limits/cpu": ["max", "100000"]},
            "cpu is limited to max, not 50000",
        ),
        (
            limits,
            "the kernel's file is gone",
            {f"{ada}/limits": {}},
            "memory is limited to nothing, not 536870912",
        ),
    ):
        yield State(check, fact, changes, (words,), base=shared, machine_only=True)


def slurm_states() -> Iterator[State]:
    here: dict[str, Any] = {"base": clustered, "machine_only": True}
    seen, node = "probe/slurm", "NodeName=gpu01 NodeHostName=gpu01 Gres=gpu:tesla_t4:2 State="
    silent = said("", "slurm_load_node error: Unable to contact slurm controller", 1)
    for check, fact, changes, words in (
        ("answers", "nobody answers", {f"{seen}/ping": silent}, "Unable to contact slurm"),
        (
            "answers",
            "it is down",
            {f"{seen}/ping": said("Slurmctld(primary) at gpu01 is DOWN\n", "", 0)},
            "at gpu01 is DOWN",
        ),
        (
            "ready",
            "the node is drained",
            {f"{seen}/nodes": said(node + "IDLE+DRAIN Reason=Low RealMemory [root@2026]\n")},
            "is idle+drain: Low RealMemory",
        ),
        (
            "ready",
            "it does not answer",
            {f"{seen}/nodes": said(node + "IDLE* Partitions=gpu\n")},
            "is idle*: nobody said why",
        ),
        ("gpus", "a GPU is missing", {f"{seen}/devices": 1}, "gives out 2 GPUs of this host"),
    ):
        yield State(f"slurm.{check}", fact, changes, (words,), **here)
    yield State(
        "slurm.ready",
        "it is unknown",
        {f"{seen}/nodes": said("")},
        ("does not know this host",),
        silent=("slurm.gpus",),
        **here,
    )


def door_states() -> Iterator[State]:
    door = "probe/front_door"
    answers, page, strangers = (
        f"gpu_front_door.{name}" for name in ("answers", "page", "strangers")
    )
    refused = "[Errno 111] Connection refused"
    for check, fact, changes, words in (
        (answers, "nobody answers", {f"{door}/page/error": refused}, refused),
        (answers, "TLS of yesterday", {f"{door}/page/tls": "TLSv1.1"}, "it speaks TLSv1.1"),
        (answers, "plain HTTP is answered", {f"{door}/plain": 200}, "answers in plain HTTP"),
        (page, "there is no page", {f"{door}/page/status": 404}, "page has status 404"),
        (
            page,
            "somebody is missing",
            {f"{door}/page/names": ["bob"]},
            "lists bob, not ada, bob",
        ),
        (
            page,
            "somebody is there still",
            {f"{door}/page/names": ["ada", "bob", "eve"]},
            "lists ada, bob, eve, not ada, bob",
        ),
        (page, "nobody is listed", {f"{door}/page/names": []}, "lists nobody, not ada, bob"),
        (
            strangers,
            "anybody gets to Jupyter",
            {f"{door}/paths": {"/ada/api/status": 200}},
            "/ada/api/status answers with status 200",
        ),
        (
            strangers,
            "anybody sees the board",
            {f"{door}/paths": {"/ada/tensorboard/": 200}},
            "/ada/tensorboard/ answers with status 200",
        ),
        (
            strangers,
            "nothing answers",
            {f"{door}/paths": {"/ada/api/status": None}},
            "/ada/api/status answers with status nothing",
        ),
        (
            strangers,
            "a path for somebody who has none",
            {f"{door}/paths": {"/bob/": 200}},
            "/bob/ answers with status 200",
        ),
    ):
        yield State(check, fact, changes, (words,), base=doored, machine_only=True)


def serving_states() -> Iterator[State]:
    model = "probe/served_models/mnist"
    runs, available, strangers = (
        f"gpu_serving.{name}" for name in ("runs", "available", "strangers")
    )
    broken = {"version": "3", "state": "END", "error": "Op type not registered 'Foo'"}
    older = {"version": "2", "state": "AVAILABLE", "error": ""}
    loading = {"version": "1", "state": "LOADING", "error": ""}
    for check, fact, changes, words in (
        (runs, "a unit is gone", {f"{model}/unit": "not there"}, "mnist: its unit is not there"),
        (
            runs,
            "a unit begins again and again",
            {f"{model}/unit": "activating"},
            "mnist: its unit is activating",
        ),
        (
            runs,
            "systemd does not hold the port",
            {f"{model}/port": "failed"},
            "mnist: its port's unit is failed",
        ),
        (
            available,
            "nothing answers",
            {f"{model}/versions": None},
            "mnist: nothing answers at its port",
        ),
        (
            available,
            "a new version does not load",
            {f"{model}/versions": [broken, older]},
            "mnist: version 3 does not load: Op type not registered 'Foo'; version 2 still serves",
        ),
        (
            available,
            "no version is loaded",
            {f"{model}/versions": [loading]},
            "mnist: no version serves",
        ),
        (
            strangers,
            "anybody is answered",
            {f"{model}/door": 200},
            "mnist: the door answers 200",
        ),
        (
            strangers,
            "the door leads nowhere",
            {f"{model}/door": None},
            "mnist: the door answers nothing",
        ),
    ):
        yield State(check, fact, changes, (words,), base=served, machine_only=True)


def other_states() -> Iterator[State]:
    refused = "ssh: connect to host gpu01 port 22: Connection refused"
    everything = tuple(
        check.id for check in CHECKS if check.id not in ("host.answers", *OTHER_STACK)
    )
    yield State(
        "host.answers",
        "there is no answer",
        {"error": refused},
        (refused, "ansible -m ping"),
        silent=everything,
    )
    yield State(
        "receipt.lock",
        "the receipt is of another lock",
        {"probe/receipt/lock_digest": "sha256:old"},
        ("finished run had another lock (sha256:old)", "run the playbook"),
    )
    yield State(
        "receipt.lock",
        "the receipt names no lock",
        {"probe/receipt/lock_digest": None},
        ("finished run had another lock (None)",),
    )
    yield State(
        "receipt.lock",
        "the receipt can't be read",
        {"probe/receipt": {"error": "/var/lib/provision/receipt.json can't be read"}},
        ("receipt.json can't be read", "a finished run writes it"),
    )
    yield State(
        "receipt.lock",
        "the lock here is another one",
        {"lock_digest": "sha256:new"},
        ("finished run had another lock (sha256:7385b4ce",),
    )


@functools.cache
def states() -> tuple[State, ...]:
    """All of them, in the order in which the checks are read."""
    order = list(BY_ID)
    found = [
        *other_states(),
        *driver_states(),
        *cuda_states(),
        *cudnn_states(),
        *environment_states(),
        *tensorflow_states(),
        *toolkit_states(),
        *cdi_states(),
        *workspace_states(),
        *door_states(),
        *serving_states(),
        *slurm_states(),
        *wheels_states(),
        *computes_states(),
    ]
    return tuple(sorted(found, key=lambda state: order.index(state.check)))


def judged(state: State, base: Callable[[], dict[str, Any]] | None = None) -> list[str]:
    """What is wrong with the checks' answers to this state; empty when they are as they must be."""
    before, after = verdicts_before(base or state.base), verdicts(state.seen(base))
    wrong = []
    own = after[state.check]
    if own.result != "failed":
        return [f"{state.check} says {own.result}"]
    text = f"{own.diagnosis} {own.hint}"
    wrong += [f"its diagnosis lacks {word!r}: {text}" for word in state.words if word not in text]
    if state.cure and not own.hint:
        wrong.append("it names no cure")
    expected = dict.fromkeys(state.also, "failed") | dict.fromkeys(state.silent, "not_applicable")
    for name, verdict in after.items():
        if name == state.check:
            continue
        old = before[name].result
        want = old if old == "not_applicable" else expected.get(name, old)
        if verdict.result != want:
            wrong.append(f"{name} says {verdict.result}, not {want}: {verdict.diagnosis}")
    return wrong


def tell(states_told: tuple[State, ...] | None = None) -> str:
    """What a person reads of every state: the golden text, and a page of the documentation."""
    lines = []
    for state in states_told or states():
        verdict = verdicts(state.seen())[state.check]
        lines.append(f"{state.check}: {state.fact}")
        lines.append(f"    {verdict.diagnosis}")
        lines += [f"    cure: {verdict.hint}"] if verdict.hint else []
        lines += [f"    seen: {verdict.detail}"] if verdict.detail else []
    return "\n".join(lines) + "\n"
