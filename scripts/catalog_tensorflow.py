"""Compares provision/catalog/tensorflow.yml with the wheels on PyPI.

    python scripts/catalog_tensorflow.py             # every release of the catalog
    python scripts/catalog_tensorflow.py 2.9 2.18    # these, even if the catalog lacks them

Reads the release's file list and three small files of the newest patch's wheel by HTTP range (no
wheel is downloaded): METADATA, build_info.py and cuda_config.h. Prints the right values where a
row differs, and then exits with 1. Keys that can't be measured (cuda, cudnn, driver, constraints)
are not compared.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import sys
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement
from packaging.version import Version

HERE = Path(__file__).resolve().parent.parent
FILE = HERE / "provision" / "catalog" / "tensorflow.yml"
INDEX = "https://pypi.org/pypi/tensorflow/json"

# The libraries that TryDlopenCUDALibraries opens, all or nothing; no curand from 2.14 on. From the
# calls in libtensorflow_framework.so.2 of 2.4 to 2.19 and 2.21, by objdump, 2026-11-21.
LIBRARIES = {
    "cudart": "CUDART",
    "cublas": "CUBLAS",
    "cublasLt": "CUBLAS",
    "cufft": "CUFFT",
    "curand": "CURAND",
    "cusolver": "CUSOLVER",
    "cusparse": "CUSPARSE",
    "cudnn": "CUDNN",
}
NO_CURAND = Version("2.14")


class Remote(io.RawIOBase):
    """A file on a web server, read by ranges."""

    def __init__(self, url: str) -> None:
        self.url = url
        request = urllib.request.Request(url, method="HEAD")  # noqa: S310  the index's URL
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            self.size = int(answer.headers["Content-Length"])
        self.at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.size}[whence]
        self.at = base + offset
        return self.at

    def readinto(self, buffer: Any) -> int:
        end = min(self.at + len(buffer), self.size)
        if end <= self.at:
            return 0
        request = urllib.request.Request(  # noqa: S310
            self.url, headers={"Range": f"bytes={self.at}-{end - 1}"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            body = answer.read()
        buffer[: len(body)] = body
        self.at += len(body)
        return len(body)


def releases() -> dict[str, dict[str, list[dict[str, Any]]]]:
    """{release: {patch: its Linux wheels}}, without yanked files and pre-releases."""
    with urllib.request.urlopen(INDEX, timeout=60) as answer:
        data = json.load(answer)
    wheels_by_release: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for patch, files in data["releases"].items():
        version = Version(patch)
        wheels = [
            file
            for file in files
            if re.search(r"linux.*_x86_64\.whl$", file["filename"]) and not file["yanked"]
        ]
        if wheels and not version.is_prerelease:
            wheels_by_release.setdefault(f"{version.major}.{version.minor}", {})[patch] = wheels
    return wheels_by_release


def measure(release: str, patches: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """The measured values of a release's row."""
    ordered = sorted(patches, key=Version)
    wheels = patches[ordered[-1]]
    pythons = {re.sub(r"cp(\d)(\d+)", r"\1.\2", w["filename"].split("-")[2]) for w in wheels}
    url = urllib.parse.urljoin(INDEX, wheels[0]["url"])
    with zipfile.ZipFile(io.BufferedReader(Remote(url), 1 << 20)) as wheel:
        texts = {}
        for part, pattern in {
            "metadata": r"\.dist-info/METADATA$",
            "build": r"tensorflow/python/platform/build_info\.py$",
            "config": r"local_config_cuda/.*/cuda_config\.h$",
        }.items():
            name = next(name for name in wheel.namelist() if re.search(pattern, name))
            texts[part] = wheel.read(name).decode("utf-8")
    architectures = re.findall(r"'(sm|compute)_(\d+)(\d)'", texts["build"])
    # `compute_80` makes both: PTX and native code (compute_cuda_extra_copts in TensorFlow's
    # third_party/gpus/cuda_configure.bzl); seen in the fat binaries of 2.16 to 2.21.
    config = dict(re.findall(r'#define TF_(\w+)_VERSION "([^"]*)"', texts["config"]))
    return {
        "patches": ordered,
        "pythons": sorted(pythons, key=Version),
        "sonames": [
            f"lib{name}.so.{config[key]}"
            for name, key in LIBRARIES.items()
            if name != "curand" or Version(release) < NO_CURAND
        ],
        "capabilities": [f"{major}.{minor}" for _, major, minor in architectures],
        "ptx": [f"{major}.{minor}" for kind, major, minor in architectures if kind == "compute"],
        "cuda_wheels": cuda_wheels(texts["metadata"]),
    }


def cuda_wheels(metadata: str) -> dict[str, str]:
    """{name: version, or range without an exact pin} of the extra and-cuda."""
    versions = {}
    for line in re.findall(r"^Requires-Dist: (.+and-cuda.+)$", metadata, flags=re.MULTILINE):
        requirement = Requirement(re.sub(r"^([\w.-]+) \(([^)]*)\)", r"\1\2", line))
        exact = re.fullmatch(r"==([\w.]+)", str(requirement.specifier))
        low_first = ",".join(sorted(map(str, requirement.specifier), reverse=True))
        versions[requirement.name] = exact[1] if exact else low_first
    return dict(sorted(versions.items()))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("releases", nargs="*", help="by default all of the catalog")
    chosen = parser.parse_args().releases
    rows = {
        row["release"]: row
        for row in yaml.safe_load(FILE.read_text(encoding="utf-8"))["tensorflow"]
    }
    published = releases()
    wrong = 0
    for release in chosen or rows:
        if release not in published:
            print(f"{release}: no wheels")
            wrong += 1
            continue
        for key, value in measure(release, published[release]).items():
            listed = rows.get(release, {}).get(key)
            if listed != value:
                print(
                    f"{release} {key}: {json.dumps(value)}\n  the catalog has {json.dumps(listed)}"
                )
                wrong += 1
    if not wrong:
        print(f"{FILE} has what PyPI has")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
