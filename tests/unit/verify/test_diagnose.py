"""Real programs' last words, and what is made of them."""

from __future__ import annotations

import dataclasses

import pytest

from provision.verify import diagnose

NO_AVX = "TensorFlow's wheel uses AVX, and this processor has none"
DSO = "W tensorflow/stream_executor/platform/default/dso_loader.cc:64] "


@pytest.mark.parametrize(
    ("rc", "output", "words"),
    [
        (18, "Failed to initialize NVML: Driver/library version mismatch", "different versions"),
        (
            18,
            "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535",
            "different versions",
        ),
        (
            9,
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make "
            "sure that the latest NVIDIA driver is installed and running.",
            "can't reach the kernel module",
        ),
        (6, "No devices were found", "sees no GPU"),
        (
            15,
            "Unable to determine the device handle for GPU 0000:3B:00.0: Unknown Error",
            "GPU 0000:3B:00.0 does not answer",
        ),
        (4, "Failed to initialize NVML: Insufficient Permissions", "may not open /dev/nvidia"),
        (12, "Failed to initialize NVML: Unknown Error", "does not start: Unknown Error"),
        (
            1,
            "Mismatch in versions between nvidia-smi and NVML.\nAre you sure you are using "
            "nvidia-smi provided with the driver?",
            "come from different driver versions",
        ),
        (127, "nvidia-smi: command not found", "not installed"),
        (127, "sh: 1: nvidia-smi: not found", "not installed"),
        (9, "NVIDIA-SMI couldn't communicate with NVIDIA driver", "can't reach the kernel module"),
        (15, "Unable to determine the device handle for gpu 0000:3B:00.0: x", "0000:3B:00.0 does"),
        (3, "a sentence of tomorrow", "ended with 3: a sentence of tomorrow"),
        (3, "", "it said nothing"),
    ],
)
def test_nvidia_smi(rc: int, output: str, words: str) -> None:
    assert words in diagnose.nvidia_smi(rc, output).message


@pytest.mark.parametrize(
    ("rc", "error", "log", "words"),
    [
        (1, "AttributeError: _ARRAY_API not found", "", "NumPy 2"),
        (1, "ImportError: x", "A module that was compiled using NumPy 1.x cannot run", "NumPy 2"),
        (1, "ImportError: numpy.core.multiarray failed to import", "", "NumPy 2"),
        (1, "TypeError: Unable to convert function return value to a Python type!", "", "NumPy 2"),
        (
            1,
            "ImportError: numpy.core.multiarray failed to import",
            "A module that was compiled using NumPy 1.x cannot be run in\nNumPy 2.0.2",
            "NumPy 2",
        ),
        (
            1,
            "TypeError: Descriptors cannot not be created directly.",
            "If this call came from a _pb2.py file, your generated code is out of date",
            "protobuf",
        ),
        (
            1,
            "ImportError: cannot import name 'builder' from 'google.protobuf.internal'",
            "",
            "protobuf is not the one",
        ),
        (1, "ModuleNotFoundError: No module named 'pkg_resources'", "", "module pkg_resources"),
        (
            1,
            "ImportError: libcudart.so.11.0: cannot open shared object file: No such file",
            "",
            "needs libcudart.so.11.0",
        ),
        (-4, "", "", NO_AVX),
        (132, "", "Illegal instruction (core dumped)", NO_AVX),
        (1, "MemoryError", "", "too little memory"),
        (1, "OSError: [Errno 12] Cannot allocate memory", "", "too little memory"),
        (
            -6,
            "",
            "F tensorflow/core/platform/cpu_feature_guard.cc:37] The TensorFlow library was "
            "compiled to use AVX instructions, but these aren't available on your machine.",
            NO_AVX,
        ),
        (-9, "", "", "too little memory"),
        (1, "OSError: [Errno 28] No space left on device", "", "disk is full"),
        (-9, "", "no answer within 600 s", "within 600 s"),  # the probe ends it with signal 9
        (1, "RuntimeError: tomorrow's", "", "RuntimeError: tomorrow's"),
        (-11, "", "", "ended with -11"),
    ],
)
def test_tensorflow_import(rc: int, error: str, log: str, words: str) -> None:
    assert words in diagnose.tensorflow_import(rc, error, log).message


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (
            DSO + "Could not load dynamic library 'libcudnn.so.8'; dlerror: libcudnn.so.8: cannot "
            "open shared object file: No such file or directory; LD_LIBRARY_PATH: /usr/lib\n"
            "W tensorflow/core/common_runtime/gpu/gpu_device.cc:1850] Cannot dlopen some GPU "
            "libraries. Please make sure the missing libraries mentioned above are installed "
            "properly if you would like to use GPU.\nSkipping registering GPU devices...",
            "could not load libcudnn.so.8",
        ),
        (
            "E tensorflow/stream_executor/cuda/cuda_dnn.cc:319] Loaded runtime CuDNN library: "
            "8.0.5 but source was compiled with: 8.1.0.  CuDNN library needs to have matching "
            "major version and equal or higher minor version.",
            "cuDNN 8.0.5 was loaded, but it was built with 8.1.0",
        ),
        (
            "E tensorflow/stream_executor/cuda/cuda_driver.cc:271] failed call to cuInit: "
            "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected",
            "sees no device",
        ),
        (
            "E cuda_driver.cc:271] failed call to cuInit: CUDA_ERROR_UNKNOWN: unknown error",
            "does not start (CUDA_ERROR_UNKNOWN)",
        ),
        (
            "E cuda_diagnostics.cc:313] kernel version 470.256.2 does not match DSO version "
            "535.309.1 -- cannot find working devices in this configuration\n"
            "failed call to cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: system has unsupported",
            "different versions",
        ),
        ("kernel version 470.256.2 does not match DSO version 535.309.1", "different versions"),
        (
            "Loaded runtime CuDNN library: 8.0.5 but source was compiled with: 8.1.0",
            "it was built with 8.1.0",
        ),
        (
            "failed call to cuInit: CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE: forward",
            "forward-compatibility",
        ),
        (
            "I gpu_device.cc:1790] Ignoring visible gpu device (device: 0, name: GeForce GTX 550 "
            "Ti, pci bus id: 0000:01:00.0, compute capability: 2.1) with Cuda compute capability "
            "2.1. The minimum required Cuda capability is 3.5.",
            "ignores a GPU with Cuda compute capability 2.1",
        ),
        (
            "W tensorflow/core/common_runtime/gpu/gpu_device.cc:2256] Cannot dlopen some GPU "
            "libraries. Please make sure the missing libraries mentioned above are installed "
            "properly if you would like to use GPU.",
            "could not load one of CUDA's libraries, and does not say which",
        ),
        ("nothing known", "TensorFlow lists 0 of 2 GPUs"),
    ],
)
def test_tensorflow_without_gpus(log: str, words: str) -> None:
    assert words in diagnose.tensorflow_gpus(log, 0, 2).message


def test_where_no_library_is_named_the_hint_names_what_hides_one() -> None:
    hint = diagnose.tensorflow_gpus("Cannot dlopen some GPU libraries.", 0, 1).hint
    assert "LD_LIBRARY_PATH" in hint


def test_missing_libraries_are_named_once_and_tensorrt_is_optional() -> None:
    log = "".join(
        f"{DSO}Could not load dynamic library '{name}'; dlerror: {name}: cannot open\n"
        for name in (
            "libnvinfer.so.7",
            "libnvinfer_plugin.so.7",
            "libcudnn.so.8",
            "libcusolver.so.11",
            "libcudnn.so.8",
        )
    )
    assert diagnose.missing_libraries(log) == ["libcudnn.so.8", "libcusolver.so.11"]
    message = diagnose.tensorflow_gpus(log, 0, 2).message
    assert message.endswith("it could not load libcudnn.so.8, libcusolver.so.11")


def test_a_diagnosis_is_not_changed_by_who_reads_it() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        diagnose.Diagnosis("x").hint = "y"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("output", "line"),
    [("", ""), ("\n \n", ""), ("first\n  the reason  \n\n", "the reason"), ("one", "one")],
)
def test_the_last_line_that_holds_something(output: str, line: str) -> None:
    assert diagnose.last_line(output) == line


@pytest.mark.parametrize(
    "words",
    ["CUDA_ERROR_INVALID_PTX", "NO_BINARY_FOR_GPU", "no kernel image is available", "PTX version"],
)
@pytest.mark.parametrize("place", ["error", "log"])
def test_each_wording_of_missing_machine_code_is_known(words: str, place: str) -> None:
    answer = {"error": "InternalError", "log": ""} | {place: words}
    assert diagnose.tensorflow_computes(answer).message.endswith("it has no code for it")


@pytest.mark.parametrize(
    "words", ["CUDA_ERROR_OUT_OF_MEMORY", "ResourceExhausted", "out of memory"]
)
@pytest.mark.parametrize("place", ["error", "log"])
def test_each_wording_of_taken_memory_is_known(words: str, place: str) -> None:
    assert diagnose.memory_taken({"error": "InternalError", "log": ""} | {place: words})
    assert not diagnose.memory_taken({"error": "InternalError", "log": ""})
