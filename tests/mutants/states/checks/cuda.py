"""A CUDA of other packages, or one whose compiler or libraries aren't found."""

from __future__ import annotations

from collections.abc import Iterator

from check_states import GONE, LIBRARIES, State, absent, library, package_states, recorded, said


def states() -> Iterator[State]:
    row = recorded()["row"]["cuda"]
    yield from package_states("cuda.packages", row["packages"]["toolkit"])
    yield from of_nvcc()
    yield from of_libraries(row["sonames"])
    yield from of_files(row["files"])


def of_nvcc() -> Iterator[State]:
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


def of_libraries(sonames: dict[str, str]) -> Iterator[State]:
    for soname, package in sonames.items():
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


def of_files(files: dict[str, dict[str, str]]) -> Iterator[State]:
    for name, file in files.items():
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
