"""A cuDNN that is not found, or is another version's."""

from __future__ import annotations

from collections.abc import Iterator

from check_states import LIBRARIES, State, absent


def states() -> Iterator[State]:
    yield from of_the_library()
    yield from of_its_version()
    yield from of_the_headers()


def of_the_library() -> Iterator[State]:
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


def of_its_version() -> Iterator[State]:
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


def of_the_headers() -> Iterator[State]:
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
