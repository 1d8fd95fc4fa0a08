"""NVIDIA's CUDA packages, made from Debian's: their names, versions, layout and dependencies.

The files are NVIDIA's own, as Debian redistributes them; the packages around them are ours. They
lie under /usr/local/cuda-11.2 as NVIDIA's do: libraries in targets/x86_64-linux/lib with a lib64
link, nvcc with a relative nvcc.profile, cicc and libdevice under nvvm.

Left out against NVIDIA's: static libraries but cudart's, samples, documentation, Nsight, gdb.
"""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO

from tests.ground import cache, deb, debian

# Debian's path -> NVIDIA's, below the prefix.
Route = tuple[str, str, str]

TARGET = "targets/x86_64-linux"
ARCH = "usr/lib/x86_64-linux-gnu"


@dataclass(frozen=True)
class Release:
    """A CUDA release: the Debian release that has it, and its driver at that time."""

    release: str
    version: str
    suite: str
    driver: str
    cupti: str

    @property
    def dashed(self) -> str:
        return self.release.replace(".", "-")

    @property
    def major(self) -> str:
        return self.release.split(".")[0]

    @property
    def prefix(self) -> str:
        return f"usr/local/cuda-{self.release}"


RELEASES = {
    "11.2": Release("11.2", "11.2.2", "bullseye", "460.32.03", "libcupti11.2"),
    "11.8": Release("11.8", "11.8.0", "bookworm", "520.61.05", "libcupti11.8"),
}


def _libraries(*packages: str) -> list[Route]:
    return [(package, rf"{ARCH}/(lib[^/]*\.so[.\d]*)", rf"{TARGET}/lib/\1") for package in packages]


def _headers(*names: str) -> list[Route]:
    pattern = "|".join(names)
    return [
        ("nvidia-cuda-dev", rf"usr/include/((?:{pattern})\.(?:h|hpp|cuh))", rf"{TARGET}/include/\1")
    ]


def _links(*names: str) -> list[Route]:
    pattern = "|".join(names)
    return [
        ("nvidia-cuda-dev", rf"{ARCH}/(lib(?:{pattern})\.so)", rf"{TARGET}/lib/\1"),
        ("nvidia-cuda-dev", rf"{ARCH}/stubs/(lib(?:{pattern})\.so)", rf"{TARGET}/lib/stubs/\1"),
    ]


def _tools(*names: str) -> list[Route]:
    pattern = "|".join(re.escape(name) for name in names)
    return [("nvidia-cuda-toolkit", rf"usr/bin/({pattern})", r"bin/\1")]


OTHERS_HEADERS = "cublas|cufft|curand|cusolver|cusparse|npp|nvjpeg|nvml|nvrtc|nvToolsExt|nvblas"
TOOLKIT = "usr/lib/nvidia-cuda-toolkit"

# Package without its release -> the Debian package its version comes from, and what goes into it.
CONTENTS: dict[str, tuple[str, list[Route]]] = {
    "cuda-cudart": ("libcudart11.0", _libraries("libcudart11.0")),
    "cuda-nvrtc": ("libnvrtc11.2", _libraries("libnvrtc11.2", "libnvrtc-builtins11.8")),
    "libcublas": ("libcublas11", _libraries("libcublas11", "libcublaslt11", "libnvblas11")),
    "libcufft": ("libcufft10", _libraries("libcufft10", "libcufftw10")),
    "libcurand": ("libcurand10", _libraries("libcurand10")),
    "libcusolver": ("libcusolver11", _libraries("libcusolver11", "libcusolvermg11")),
    "libcusparse": ("libcusparse11", _libraries("libcusparse11")),
    "libnvjpeg": ("libnvjpeg11", _libraries("libnvjpeg11")),
    "libnpp": (
        "libnppc11",
        _libraries(
            *("libnppc11", "libnppial11", "libnppicc11", "libnppidei11", "libnppif11"),
            *("libnppig11", "libnppim11", "libnppist11", "libnppisu11", "libnppitc11", "libnpps11"),
        ),
    ),
    "cuda-nvtx": ("libnvtoolsext1", _libraries("libnvtoolsext1")),
    "cuda-cupti": (
        "cupti",
        [("cupti", rf"{ARCH}/(lib[^/]*\.so[.\d]*)", r"extras/CUPTI/lib64/\1")],
    ),
    "cuda-cupti-dev": (
        "cupti",
        [
            ("libcupti-dev", r"usr/include/(.*)", r"extras/CUPTI/include/\1"),
            ("libcupti-dev", rf"{ARCH}/(libcupti\.so)", r"extras/CUPTI/lib64/\1"),
        ],
    ),
    "cuda-nvcc": (
        "nvidia-cuda-dev-version",
        [
            *_tools("bin2c", "cudafe++", "fatbinary", "nvlink", "ptxas"),
            ("nvidia-cuda-toolkit", rf"{TOOLKIT}/bin/(nvcc|crt/.*)", r"bin/\1"),
            ("nvidia-cuda-toolkit", rf"{TOOLKIT}/bin/(cicc)", r"nvvm/bin/\1"),
            ("nvidia-cuda-toolkit", rf"{TOOLKIT}/(libdevice/.*)", r"nvvm/\1"),
            ("nvidia-cuda-toolkit", r"usr/include/(nvvm\.h)", r"nvvm/include/\1"),
            ("libnvvm4", rf"{ARCH}/(lib.*)", r"nvvm/lib64/\1"),
            ("nvidia-cuda-dev", r"usr/include/(crt/.*)", rf"{TARGET}/include/\1"),
        ],
    ),
    "cuda-cuobjdump": ("nvidia-cuda-dev-version", _tools("cuobjdump")),
    "cuda-nvprune": ("nvidia-cuda-dev-version", _tools("nvprune")),
    "cuda-nvdisasm": ("nvidia-cuda-dev-version", _tools("nvdisasm")),
    "cuda-memcheck": ("nvidia-cuda-dev-version", _tools("cuda-memcheck")),
    "cuda-nvprof": (
        "nvidia-profiler",
        [("nvidia-profiler", rf"{TOOLKIT}/bin/(nvprof)", r"bin/\1")],
    ),
    "cuda-cudart-dev": (
        "libcudart11.0",
        [
            (
                "nvidia-cuda-dev",
                rf"usr/include/((?!crt/|cuda-gdb/|(?:{OTHERS_HEADERS})).*)",
                rf"{TARGET}/include/\1",
            ),
            ("nvidia-cuda-dev", rf"{ARCH}/(libcuda(?:rt_static|devrt)\.a)", rf"{TARGET}/lib/\1"),
            ("nvidia-cuda-dev", rf"{ARCH}/(libculibos\.a)", rf"{TARGET}/lib/\1"),
            *_links("cudart"),
        ],
    ),
    "cuda-driver-dev": ("libcudart11.0", _links("cuda")),
    "cuda-nvml-dev": ("libcudart11.0", [*_headers("nvml"), *_links("nvidia-ml")]),
    "cuda-nvrtc-dev": ("libnvrtc11.2", [*_headers("nvrtc"), *_links("nvrtc", "nvrtc-builtins")]),
    "libcublas-dev": (
        "libcublas11",
        [*_headers("cublas.*", "nvblas"), *_links("cublas(?:Lt)?", "nvblas")],
    ),
    "libcufft-dev": ("libcufft10", [*_headers("cufft.*"), *_links("cufftw?")]),
    "libcurand-dev": ("libcurand10", [*_headers("curand.*"), *_links("curand")]),
    "libcusolver-dev": ("libcusolver11", [*_headers("cusolver.*"), *_links("cusolver(?:Mg)?")]),
    "libcusparse-dev": ("libcusparse11", [*_headers("cusparse.*"), *_links("cusparse")]),
    "libnvjpeg-dev": ("libnvjpeg11", [*_headers("nvjpeg.*"), *_links("nvjpeg")]),
    "libnpp-dev": ("libnppc11", [*_headers("npp.*"), *_links("npp[a-z]+")]),
}  # fmt: skip

# What each package needs of the same release, besides what tells the loader about the tree.
NEEDS: dict[str, list[str]] = {
    "cuda-cupti-dev": ["cuda-cupti"],
    "cuda-cudart-dev": ["cuda-cudart", "cuda-driver-dev"],
    "cuda-nvrtc-dev": ["cuda-nvrtc"],
    **{f"{name}-dev": [name] for name in (
        "libcublas", "libcufft", "libcurand", "libcusolver", "libcusparse", "libnvjpeg", "libnpp"
    )},
}  # fmt: skip

# Packages that hold nothing, and what they pull in.
METAPACKAGES: dict[str, list[str]] = {
    "cuda-libraries": [
        *("cuda-cudart", "cuda-nvrtc", "libcublas", "libcufft", "libcurand", "libcusolver"),
        *("libcusparse", "libnpp", "libnvjpeg"),
    ],
    "cuda-libraries-dev": [
        *("cuda-cudart-dev", "cuda-driver-dev", "cuda-nvrtc-dev", "libcublas-dev", "libcufft-dev"),
        *("libcurand-dev", "libcusolver-dev", "libcusparse-dev", "libnpp-dev", "libnvjpeg-dev"),
    ],
    "cuda-compiler": ["cuda-cuobjdump", "cuda-nvcc", "cuda-nvprune"],
    "cuda-command-line-tools": [
        *("cuda-cupti-dev", "cuda-memcheck", "cuda-nvdisasm", "cuda-nvprof", "cuda-nvtx"),
    ],
    "cuda-tools": ["cuda-command-line-tools"],
    "cuda-minimal-build": ["cuda-cudart-dev", "cuda-nvcc"],
    "cuda-toolkit": [
        *("cuda-compiler", "cuda-libraries", "cuda-libraries-dev", "cuda-nvml-dev", "cuda-tools"),
    ],
}  # fmt: skip

# What a package that changes libraries tells dpkg.
LOADER = {"triggers": "activate-noawait ldconfig\n"}

NVCC_PROFILE = """
TOP              = $(_HERE_)/..

NVVMIR_LIBRARY_DIR = $(TOP)/$(_NVVM_BRANCH_)/libdevice

LD_LIBRARY_PATH += $(TOP)/lib:
PATH            += $(TOP)/$(_NVVM_BRANCH_)/bin:$(_HERE_):

INCLUDES        +=  "-I$(TOP)/$(_TARGET_DIR_)/include" $(_SPACE_)

LIBRARIES        =+ $(_SPACE_) "-L$(TOP)/$(_TARGET_DIR_)/lib$(_TARGET_SIZE_)/stubs" "-L$(TOP)/$(_TARGET_DIR_)/lib$(_TARGET_SIZE_)"

CUDAFE_FLAGS    +=
PTXAS_FLAGS     +=
"""  # noqa: E501


def build(release: str) -> Path:
    """The directory with all packages of a release; a minute the first time, then none."""
    row = RELEASES[release]
    wanted = sorted({name for _, routes in CONTENTS.values() for name, _, _ in routes})
    pins = [debian.pinned().get((row.suite, _debian(row, name))) for name in wanted]

    def fill(place: Path) -> None:
        try:
            with ThreadPoolExecutor(2) as work:
                for job in [work.submit(_package, place, row, name) for name in CONTENTS]:
                    job.result()
        finally:
            _kept.cache_clear()
        _metapackages(place, row)

    return cache.kept(f"cuda-{release}", (__file__, deb.__file__), pins, fill)


def _debian(row: Release, name: str) -> str:
    """The Debian package that a route's name means in this release."""
    return {"cupti": row.cupti, "nvidia-cuda-dev-version": "libcudart11.0"}.get(name, name)


def _fields(
    row: Release, name: str, version: str, depends: list[str], **more: str
) -> dict[str, str]:
    return {
        "Package": name,
        "Version": version,
        "Architecture": "amd64",
        "Maintainer": "cudatools <cudatools@nvidia.com>",
        "Section": "multiverse/devel",
        "Priority": "optional",
        **({"Depends": ", ".join(depends)} if depends else {}),
        **more,
        "Description": f"CUDA {row.release} for the proving ground: NVIDIA's files in our package",
    }  # fmt: skip


def _commons(row: Release) -> list[str]:
    return [
        f"cuda-toolkit-{row.dashed}-config-common",
        f"cuda-toolkit-{row.major}-config-common",
        "cuda-toolkit-config-common",
    ]


def _version(row: Release, source: str) -> str:
    return debian.pinned()[row.suite, _debian(row, source)].version + "-1"


def _package(place: Path, row: Release, name: str) -> None:
    source, routes = CONTENTS[name]
    version = _version(row, source)
    depends = _commons(row) + [f"{dependency}-{row.dashed}" for dependency in NEEDS.get(name, [])]
    if name == "cuda-nvcc":
        depends.append("build-essential")
    full = f"{name}-{row.dashed}"
    made = deb.Writer(
        place / f"{full}_{version}_amd64.deb", _fields(row, full, version, depends), LOADER
    )
    taken = set()
    for fromkey in dict.fromkeys(package for package, _, _ in routes):
        if (row.suite, _debian(row, fromkey)) not in debian.pinned():
            continue  # a package that only a later release has
        mine = [(re.compile(old), new) for package, old, new in routes if package == fromkey]
        for path, mode, link, size, content in _source(row, _debian(row, fromkey)):
            for old, new in mine:
                if not old.fullmatch(path):
                    continue
                target = f"{row.prefix}/{old.sub(new, path)}"
                if target in taken:
                    raise AssertionError(f"{full} has {target} twice")
                taken.add(target)
                if link:
                    made.link(target, link)
                else:
                    made.file(target, content(), mode, size)
                    size = -1
                break
    _finish(made, row, name, sorted(taken))
    made.close()


def _finish(made: deb.Writer, row: Release, name: str, taken: list[str]) -> None:
    """What no Debian package has."""
    prefix = row.prefix
    if name == "cuda-nvcc":
        made.file(f"{prefix}/bin/nvcc.profile", NVCC_PROFILE)
        made.link(f"{prefix}/nvvm/lib64/libnvvm.so", "libnvvm.so.4")
    if name in {"cuda-cupti", "cuda-cupti-dev"}:
        for path in taken:
            if "/CUPTI/lib64/" in path:
                base = path.rsplit("/", 1)[1]
                made.link(f"{prefix}/{TARGET}/lib/{base}", f"../../../extras/CUPTI/lib64/{base}")


Content = Callable[[], IO[bytes]]


def _source(row: Release, name: str) -> Iterator[tuple[str, int, str, int, Content]]:
    """(path, mode, link's target, size, contents) of a Debian package's files."""
    if name == "nvidia-cuda-dev":
        with _LOCK:
            kept = _kept(row.suite)
        for path, mode, link, data in kept:
            yield path, mode, link, len(data), lambda data=data: io.BytesIO(data)
        return
    for path, entry, handle in deb.files(debian.fetch(row.suite, name)):
        yield (
            path,
            entry.mode,
            entry.linkname if entry.issym() else "",
            entry.size,
            lambda handle=handle: handle or io.BytesIO(),
        )


_WANTED = re.compile(
    rf"usr/include/.*|{ARCH}/stubs/.*|{ARCH}/lib(cudart_static|cudadevrt|culibos)\.a"
)

_LOCK = threading.Lock()


@lru_cache(1)
def _kept(suite: str) -> list[tuple[str, int, str, bytes]]:
    """What is wanted of nvidia-cuda-dev, read once for all: its archive takes 20 s to unpack."""
    found = []
    for path, entry, handle in deb.files(debian.fetch(suite, "nvidia-cuda-dev")):
        if entry.issym():
            found.append((path, 0, entry.linkname, b""))
        elif handle and _WANTED.fullmatch(path):
            found.append((path, entry.mode, "", handle.read()))
    return found


def _metapackages(place: Path, row: Release) -> None:
    """Packages without libraries: sets, the configuration of the tree, and the trap."""

    def write(
        name: str, version: str, depends: list[str], architecture: str = "amd64",
        scripts: dict[str, str] | None = None, files: dict[str, str] | None = None,
        links: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        made = deb.Writer(
            place / f"{name}_{version}_{architecture}.deb",
            _fields(row, name, version, depends) | {"Architecture": architecture},
            scripts,
        )
        for path, text in (files or {}).items():
            made.file(path, text)
        for path, to in (links or {}).items():
            made.link(path, to)
        made.close()

    version = f"{row.version}-1"
    for name, members in METAPACKAGES.items():
        needs = []
        for member in members:
            atleast = _version(row, CONTENTS[member][0]) if member in CONTENTS else version
            needs.append(f"{member}-{row.dashed} (>= {atleast.removesuffix('-1')})")
        write(f"{name}-{row.dashed}", version, needs)
    # The trap: these two bring a driver.
    write(
        f"cuda-runtime-{row.dashed}", version,
        [f"cuda-libraries-{row.dashed} (>= {row.version})", f"cuda-drivers (>= {row.driver})"],
    )  # fmt: skip
    write(
        f"cuda-{row.dashed}", version,
        [f"cuda-runtime-{row.dashed} (>= {row.version})",
         f"cuda-toolkit-{row.dashed} (>= {row.version})"],
    )  # fmt: skip
    write("cuda", version, [f"cuda-{row.dashed} (>= {row.version})"])
    write("cuda-toolkit", version, [f"cuda-toolkit-{row.dashed} (>= {row.version})"])
    _configuration(write, row)


def _configuration(write: Callable[..., None], row: Release) -> None:
    own = _version(row, "libcudart11.0")
    number = row.release.replace(".", "")
    alternatives = [
        ("cuda", "/usr/local/cuda"),
        (f"cuda-{row.major}", f"/usr/local/cuda-{row.major}"),
    ]
    install = "".join(
        f"    update-alternatives --install {link} {name} /{row.prefix} {number}\n"
        for name, link in alternatives
    )
    remove = "".join(
        f"    update-alternatives --remove {name} /{row.prefix}\n" for name, _ in alternatives
    )
    write(
        f"cuda-toolkit-{row.dashed}-config-common", own, [], "all",
        {
            "postinst": f'#!/bin/sh\nset -e\nif [ "$1" = configure ]; then\n{install}fi\n',
            "prerm": f'#!/bin/sh\nset -e\nif [ "$1" != upgrade ]; then\n{remove}fi\n',
        },
        links={
            f"{row.prefix}/lib64": f"{TARGET}/lib",
            f"{row.prefix}/include": f"{TARGET}/include",
        },
    )  # fmt: skip
    for name, conf, tree in (
        (f"cuda-toolkit-{row.major}-config-common", f"988_cuda-{row.major}", f"cuda-{row.major}"),
        ("cuda-toolkit-config-common", "000_cuda", "cuda"),
    ):
        write(
            name, own, [], "all",
            LOADER,
            files={f"etc/ld.so.conf.d/{conf}.conf": f"/usr/local/{tree}/{TARGET}/lib\n"},
        )  # fmt: skip
