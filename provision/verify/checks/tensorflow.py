"""TensorFlow: its import, version, wheels and GPUs, and whether it computes on them."""

from __future__ import annotations

from .. import diagnose
from ..cures import CURES, DEEP, KERNEL_LOG, LOADER, Cure
from .answers import lists_the_gpus, mig_gpus, tensorflow_answer, usable_gpus
from .check import (
    AGAIN,
    Seen,
    Verdict,
    check,
    cuda_as_wheels,
    failed,
    not_applicable,
    passed,
    some_of,
)

WHEELS = f"{DEEP}; what is beside the locked wheels (PYTHONPATH, .pth files) is left to its owner"

CURES.update(
    {
        "tensorflow.imports": Cure(("tensorflow",), WHEELS),
        "tensorflow.version": Cure(("tensorflow",), WHEELS),
        "tensorflow.wheels": Cure(("tensorflow",), WHEELS),
        "tensorflow.cuda_wheels": Cure(("tensorflow",), WHEELS),
        "tensorflow.built_with_cuda": Cure(("tensorflow",), WHEELS),
        "tensorflow.gpus": Cure(
            ("nvidia_driver", "cuda", "cudnn", "gpu_env", "tensorflow"), LOADER
        ),
        "tensorflow.computes": Cure(
            ("nvidia_driver", "cuda", "cudnn", "gpu_env", "tensorflow"),
            f"{KERNEL_LOG}; if this TensorFlow has no code for the GPU, choose another "
            f"TensorFlow (`provision catalog --gpu`); otherwise {DEEP}",
        ),
        "tensorflow.trains": Cure(("tensorflow",), f"{WHEELS}; `free -m` shows the memory"),
    }
)


@check("tensorflow.imports", "TensorFlow can be imported")
def tensorflow_imports(seen: Seen) -> Verdict:
    answer = seen.probe["tensorflow"]
    if answer.get("missing"):
        return failed(f"there is no TensorFlow: {answer['python']} does not exist", AGAIN)
    gpus = answer["gpus"]
    if gpus.get("version") and not gpus.get("error"):
        return passed(f"{answer['python']}, {answer.get('seconds')} s")
    return failed(diagnose.tensorflow_import(gpus.get("rc"), gpus.get("error", ""), gpus["log"]))


@check("tensorflow.version", "TensorFlow and its Python are the locked versions")
def tensorflow_version(seen: Seen) -> Verdict:
    row, answer = seen.row["tensorflow"], tensorflow_answer(seen)
    if not answer.get("version"):
        return not_applicable("TensorFlow can't be imported")
    if answer["version"] != row["version"]:
        return failed(
            f"TensorFlow {answer['version']} answers, the lock's is {row['version']}", AGAIN
        )
    python = answer["python"]
    if not f"{python}.".startswith(f"{row['python']}."):
        return failed(f"its Python is {python}, the lock's is {row['python']}", AGAIN)
    return passed(f"{answer['version']}, Python {python}")


@check("tensorflow.wheels", "The environment's wheels are the locked versions")
def tensorflow_wheels(seen: Seen) -> Verdict:
    locked = seen.row["tensorflow"].get("wheels")
    if seen.probe["tensorflow"].get("missing"):
        return not_applicable("there is no TensorFlow environment")
    if not locked:
        return not_applicable("the lock names no wheels")
    wrong = []
    for name, version in sorted(locked.items()):
        versions = seen.probe["tensorflow"]["wheels"].get(name)
        if not versions:
            wrong.append(f"{name} is missing")
        elif versions != [version]:
            wrong.append(f"{name} is {' and '.join(versions)}, the lock's is {version}")
    if wrong:
        return failed(some_of(wrong), AGAIN, "; ".join(wrong))
    return passed(f"{len(locked)} wheels")


@check(
    "tensorflow.cuda_wheels",
    "The CUDA libraries in TensorFlow's environment can be loaded",
    cuda_as_wheels,
)
def tensorflow_cuda_wheels(seen: Seen) -> Verdict:
    if not cuda_as_wheels(seen):
        return not_applicable("CUDA does not come with TensorFlow's wheels")
    locked = seen.row["tensorflow"].get("sonames")
    if seen.probe["tensorflow"].get("missing"):
        return not_applicable("there is no TensorFlow environment")
    if not locked:
        return not_applicable("the lock names no libraries")
    answer = seen.probe["tensorflow"]["cuda_wheels"]
    if not answer["libraries"]:
        error = diagnose.last_line(answer["log"]) or f"its process ended with {answer['rc']}"
        return failed(f"the environment's Python can't load libraries: {error}", AGAIN)
    wrong = []
    for soname, wheel in sorted(locked.items()):
        library = answer["libraries"].get(soname) or {}
        if library.get("error"):
            error = library["error"].removeprefix(f"{soname}: ")
            wrong.append(f"{soname} (wheel {wheel}) can't be loaded: {error}")
        elif not library.get("path"):
            wrong.append(f"{soname} (wheel {wheel}) is missing")
    if wrong:
        return failed(some_of(wrong), AGAIN, "; ".join(wrong))
    return passed(f"{len(locked)} libraries")


@check("tensorflow.built_with_cuda", "TensorFlow was built for this CUDA and cuDNN")
def tensorflow_built_with_cuda(seen: Seen) -> Verdict:
    answer = tensorflow_answer(seen)
    if not answer.get("version"):
        return not_applicable("TensorFlow can't be imported")
    if not answer.get("built_with_cuda"):
        return failed(
            "this TensorFlow was built without CUDA",
            f"it is the CPU wheel (tensorflow-cpu): {AGAIN}",
        )
    build, cuda, cudnn = answer.get("build"), seen.row.get("cuda"), seen.row.get("cudnn")
    if not build:
        return not_applicable("this TensorFlow does not tell what it was built for")
    built_for = build.get("cuda_version")
    if cuda and built_for and built_for != cuda["release"]:
        return failed(
            f"TensorFlow was built for CUDA {built_for}, the lock's is {cuda['release']}",
            "make the lock again: this stack does not fit together",
        )
    built_for, major = build.get("cudnn_version"), cudnn and cudnn["version"].partition(".")[0]
    if major and built_for and built_for.partition(".")[0] != major:
        return failed(
            f"TensorFlow was built for cuDNN {built_for}, the lock's is {major}",
            "make the lock again: this stack does not fit together",
        )
    return passed(f"CUDA {build.get('cuda_version')}, cuDNN {build.get('cudnn_version')}")


@check("tensorflow.gpus", "TensorFlow lists every GPU the driver shows")
def tensorflow_lists_gpus(seen: Seen) -> Verdict:
    expected, answer = usable_gpus(seen), tensorflow_answer(seen)
    if "gpus" not in answer:
        return not_applicable("TensorFlow can't be imported")
    count = len(answer["gpus"])
    if expected == 0:
        return not_applicable(f"nvidia-smi shows no GPU to compare TensorFlow's {count} with")
    if count == expected:
        return passed(f"{count} GPUs" + (" (simulated)" if seen.simulated else ""))
    if lists_the_gpus(seen):
        return passed(f"{count} GPUs ({expected}, {mig_gpus(seen)} in MIG mode)")
    return failed(diagnose.tensorflow_gpus(answer["log"], count, expected))


@check("tensorflow.trains", "A small Keras model learns on the CPU")
def tensorflow_trains(seen: Seen) -> Verdict:
    if seen.probe["tensorflow"].get("missing"):
        return not_applicable("there is no TensorFlow to train with")
    answer = seen.probe["tensorflow"]["trains"]
    if "last" not in answer:
        # Where the other process could not import it either, tensorflow.imports fails.
        if not tensorflow_answer(seen).get("version"):
            return not_applicable("TensorFlow can't be imported")
        if answer.get("error"):
            return failed(f"a Keras model can't be trained on the CPU: {answer['error']}", AGAIN)
        return failed(diagnose.tensorflow_import(answer.get("rc"), "", answer["log"]))
    detail = f"loss {answer['first']:.3g} -> {answer['last']:.3g}"
    # NaN compares false with everything: written so that it fails.
    if not answer["last"] < answer["first"] / 2:
        return failed(f"the model does not learn: {detail}", "the numeric libraries are broken")
    return passed(detail)


@check("tensorflow.computes", "TensorFlow computes on every GPU that it lists")
def tensorflow_computes(seen: Seen) -> Verdict:
    if seen.simulated:
        return not_applicable("a simulated GPU computes nothing")
    listed = tensorflow_answer(seen).get("gpus")
    if seen.probe["tensorflow"].get("missing") or listed is None:
        return not_applicable("TensorFlow can't be imported")
    if not listed or not lists_the_gpus(seen):
        return not_applicable("TensorFlow does not list the GPUs that the driver shows")
    answer = seen.probe["tensorflow"]["computes"]
    if diagnose.memory_taken(answer):
        return not_applicable("the GPU's memory is taken, and nothing could be computed on it")
    if answer.get("error") or answer.get("rc") != 0:
        return failed(diagnose.tensorflow_computes(answer))
    wrong = [
        f"{name} gave a wrong answer (off by {result['error']:.3g})"
        if "GPU" in result["on"]
        else f"what was meant for {name} ran on {result['on']}"
        for name, result in sorted(answer["devices"].items())
        # NaN compares false with everything: written so that it fails.
        if not (result["error"] < 0.5 and "GPU" in result["on"])
    ]
    if len(answer["devices"]) < len(listed):
        wrong.append(f"it computed on {len(answer['devices'])} of {len(listed)} GPUs")
    if wrong:
        return failed("; ".join(wrong), "`nvidia-smi -q` and `dmesg | grep -i xid` tell of defects")
    return passed(f"{len(listed)} GPUs: a matrix product and a convolution")
