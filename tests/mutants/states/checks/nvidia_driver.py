"""A driver that does not answer, is another one or drives fewer GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from check_states import LIBRARIES, State, absent, library, package_states, recorded, said

# Without an answer of nvidia-smi there is nothing to compare with.
NO_SMI = ("nvidia_driver.version", "nvidia_driver.gpus", "tensorflow.gpus", "tensorflow.computes")
WITHOUT_MODULE = {"proc": None, "sys": None, "nouveau": False}


def smi(stdout: str = "", stderr: str = "", rc: int = 0) -> dict[str, Any]:
    """nvidia-smi says this, whatever it is asked."""
    answer = said(stdout, stderr, rc)
    return {"probe/nvidia_smi": answer, "probe/nvidia_smi_list": dict(answer)}


def swap(old: str, new: str, count: int = -1) -> Callable[[str], str]:
    """The text that is there with one word changed; the word must be there."""

    def change(text: str) -> str:
        assert old in text, (old, text)
        return text.replace(old, new, count)

    return change


NEWER = swap("470.256.02", "535.309.01")


def first_line(text: str) -> str:
    return text.splitlines()[0] + "\n"


def states() -> Iterator[State]:
    yield from of_what_it_says()
    yield from of_the_gpus_on_the_bus()
    yield from of_its_version()
    yield from of_the_module()
    yield from of_the_library()
    yield from of_gpus()
    row = recorded()["row"]["nvidia_driver"]["packages"]
    wanted = row["userspace"] | row["kernel"]
    yield from package_states("nvidia_driver.packages", wanted, tuple(row["kernel"]))


# (what happened, exit status, nvidia-smi's words, words)
SAID: tuple[tuple[str, int, str, tuple[str, ...]], ...] = (
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
)


def of_what_it_says() -> Iterator[State]:
    """In the words of nvidia-smi."""
    answers = "nvidia_driver.answers"
    for fact, rc, text, words in SAID:
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


def of_the_gpus_on_the_bus() -> Iterator[State]:
    """nvidia-smi finds none, and something else says why."""
    answers = "nvidia_driver.answers"
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


def of_its_version() -> Iterator[State]:
    yield State(
        "nvidia_driver.version",
        "nvidia-smi tells another version than the lock's",
        {"probe/nvidia_smi/stdout": NEWER},
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


def of_the_module() -> Iterator[State]:
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
        {"probe/module/sys": None, "probe/module/proc": NEWER},
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


def of_the_library() -> Iterator[State]:
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


def of_gpus() -> Iterator[State]:
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
