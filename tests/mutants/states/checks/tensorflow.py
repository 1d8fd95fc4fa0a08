"""A TensorFlow that can't be imported, is another one, lists fewer GPUs or computes wrongly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from check_states import GONE, State, fresh, machine, recorded

ANSWER = "probe/tensorflow/gpus"
NO_TENSORFLOW = ("tensorflow.version", "tensorflow.built_with_cuda", "tensorflow.gpus")


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


def of_imports() -> Iterator[State]:
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


def states() -> Iterator[State]:
    yield from of_imports()
    yield from of_its_version()
    yield from of_wheels()
    yield from of_its_build()
    yield from of_gpus()
    yield from of_training()
    yield from of_computing()
    yield from of_cuda_wheels()


def of_its_version() -> Iterator[State]:
    yield State(
        "tensorflow.version",
        "it is another version",
        {f"{ANSWER}/version": "2.9.1"},
        ("TensorFlow 2.9.1 answers, the lock's is 2.9.3",),
    )
    for python in ("3.10.1", "3.90.0", "3.8.10"):
        yield State(
            "tensorflow.version",
            f"its Python is {python}",
            {f"{ANSWER}/python": python},
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


def of_wheels() -> Iterator[State]:
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


def of_its_build() -> Iterator[State]:
    check = "tensorflow.built_with_cuda"
    yield State(
        check,
        "it is the CPU wheel",
        {f"{ANSWER}/built_with_cuda": False},
        ("built without CUDA", "tensorflow-cpu"),
    )
    yield State(
        check,
        "it was built for another CUDA",
        {f"{ANSWER}/build/cuda_version": "11.8"},
        ("built for CUDA 11.8, the lock's is 11.2", "lock again"),
    )
    yield State(
        check,
        "it was built for another cuDNN",
        {f"{ANSWER}/build/cudnn_version": "9"},
        ("built for cuDNN 9, the lock's is 8", "lock again"),
    )


def of_gpus() -> Iterator[State]:
    check = "tensorflow.gpus"
    for fact, log, words in GPUS:
        changes = {f"{ANSWER}/gpus": [], f"{ANSWER}/log": log}
        words = ("0 of 2 GPUs", *words)
        yield State(check, f"{fact}: no GPU", changes, words, silent=("tensorflow.computes",))
    one = {f"{ANSWER}/gpus": lambda found: found[:1]}
    silent = ("tensorflow.computes",)
    words = ("TensorFlow lists 1 of 2 GPUs",)
    yield State(check, "it lists one GPU fewer", one, words, silent=silent)
    more = {f"{ANSWER}/gpus": lambda found: [*found, "/physical_device:GPU:2"]}
    words = ("TensorFlow lists 3 of 2 GPUs",)
    yield State(check, "it lists one GPU more", more, words, silent=silent)
    none = {f"{ANSWER}/gpus": [], "probe/nvidia_smi/stdout": mig}
    words = ("TensorFlow lists 0 of 2 GPUs",)
    yield State(check, "MIG is on, and it lists no GPU", none, words, silent=silent)


def mig(text: str) -> str:
    """nvidia-smi's answer with MIG on on one GPU."""
    return text.replace("[N/A]", "Enabled", 1)


def of_training() -> Iterator[State]:
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


def of_computing() -> Iterator[State]:
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
        (
            "MIG is on, and the one GPU that is listed was left out",
            {
                f"{answer}/devices": {},
                f"{ANSWER}/gpus": lambda found: found[:1],
                "probe/nvidia_smi/stdout": mig,
            },
            ("it computed on 0 of 1 GPUs",),
        ),
    ):
        yield State(check, fact, changes, words, machine_only=True)


def of_cuda_wheels() -> Iterator[State]:
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
