"""cuDNN: the library that is loaded, its version and its headers."""

from __future__ import annotations

from ..cures import CURES, DEEP, LOADER, Cure
from .answers import cudnn_loaded, numbers, reason
from .check import AGAIN, Seen, Verdict, check, failed, not_applicable, passed

CURES.update(
    {
        "cudnn.library": Cure(("cudnn", "cuda", "gpu_env"), LOADER),
        "cudnn.version": Cure(("cudnn", "cuda", "gpu_env"), LOADER),
        "cudnn.headers": Cure(("cudnn",), DEEP),
    }
)


@check("cudnn.library", "cuDNN is loaded from the locked directory")
def cudnn_library(seen: Seen) -> Verdict:
    row, library = seen.row["cudnn"], seen.probe["cudnn"]
    folder = f"{library['root']}/{row['version']}-cuda{row['cuda']}/"
    if library["loaded"] is None:
        return failed(f"{row['soname']} can't be loaded: {reason(library)}", AGAIN)
    if not str(library["real"]).startswith(folder):
        return failed(
            f"{row['soname']} is taken from {library['real']}, not from {folder}",
            "another cuDNN comes first: LD_LIBRARY_PATH, conda, or a libcudnn8 package",
        )
    if library.get("cached_real") != library["real"]:
        return failed(
            f"{row['soname']} is not in the loader's cache (`ldconfig -p` shows "
            f"{library.get('cached') or 'nothing'}); it is found by LD_LIBRARY_PATH only",
            AGAIN,
        )
    return passed(str(library["real"]))


@check("cudnn.version", "cuDNN is the locked version, and new enough for TensorFlow")
def cudnn_version(seen: Seen) -> Verdict:
    row, library, loaded = seen.row["cudnn"], seen.probe["cudnn"], cudnn_loaded(seen)
    if library["loaded"] is None:
        return not_applicable("no cuDNN can be loaded")
    if loaded is None:
        error = str(library.get("error") or "it says nothing")
        for soname in (seen.row.get("cuda") or {}).get("sonames") or {}:
            if f" {soname}:" in error:
                return not_applicable(
                    f"it can't be asked without {soname}, one of CUDA's libraries"
                )
        return failed(f"cuDNN does not tell its version: {error}", AGAIN)
    least = numbers(row["minimum"])
    if numbers(loaded)[0] != least[0] or numbers(loaded) < least:
        return failed(
            f"cuDNN {loaded} is loaded; TensorFlow was built with {row['minimum']} and takes "
            f"the same major version, that or newer",
            AGAIN,
        )
    if numbers(loaded) != numbers(row["version"])[:3]:
        return failed(f"cuDNN {loaded} is loaded, the lock's is {row['version']}", AGAIN)
    return passed(loaded)


@check("cudnn.headers", "cuDNN's headers are readable and of the locked version")
def cudnn_headers(seen: Seen) -> Verdict:
    locked = ".".join(str(part) for part in numbers(seen.row["cudnn"]["version"])[:3])
    version = seen.probe["cudnn"].get("headers")
    if version == locked:
        return passed(locked)
    if version is None:
        return failed("cudnn_version.h can't be read behind the `current` link", AGAIN)
    return failed(f"the headers are of cuDNN {version}, the lock's is {locked}", AGAIN)
