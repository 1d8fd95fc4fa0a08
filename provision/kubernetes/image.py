"""The context of the image that the workers run in: the lock's stack on its distribution's image.

The image of workspaces is built on a host, of the host's own files (gpu_workspace/image_build.py).
A cluster's is built anywhere, so everything is fetched, by the same versions and hashes.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from provision import collection
from provision.bundle import needs
from provision.catalog import Catalog
from provision.catalog.rows import PlatformRow
from provision.errors import InputError
from provision.kubernetes.jobs import PROGRAMS, USER
from provision.kubernetes.stack import Chosen
from provision.lock import Lock
from provision.lock import files as locked_files
from provision.render import stacks
from provision.roles.cudnn import CudnnOptions
from provision.roles.tensorflow import TensorflowOptions

Row = Mapping[str, Mapping[str, Any]]
_KEY = "/usr/share/keyrings/provision-nvidia.asc"


def render(lock: Lock, facts: Catalog, chosen: Chosen) -> dict[str, bytes]:
    """File name -> bytes of the build context. InputError for a CUDA that no archive has."""
    row = lock.stacks[chosen.name]
    _check_source(row, chosen.name)
    platform = next(p for p in facts.platforms if p.platform.as_data() == chosen.platform)
    of_image = collection.stack_module("components.gpu_workspace.stack_of_row").locked(row)
    packages, files = _packages(of_image, row)
    hashes = lock.details["packages"][chosen.name]
    return {
        "Containerfile": _containerfile(lock, chosen, row, of_image).encode(),
        "locked/install.sh": (PROGRAMS / "install.sh").read_bytes(),
        "locked/stack.env": _settings(facts, platform, row, of_image).encode(),
        "locked/apt.sources": _sources(lock, chosen.name).encode(),
        "locked/nvidia.sources": _nvidia_sources(row).encode(),
        "locked/nvidia.asc": _nvidia_key(row).encode(),
        "locked/python.txt": _lines(needs.python(platform, row["tensorflow"]["python"])),
        "locked/packages.txt": _lines(f"{name}={packages[name]}" for name in sorted(packages)),
        "locked/packages.sha256": _lines(sorted({hashes[name]["sha256"] for name in packages})),
        "locked/files.txt": _lines(f"{package} {path}" for package, path in files),
        "locked/requirements.txt": lock.requirements[chosen.name].encode(),
    }


def _check_source(row: Row, stack: str) -> None:
    if row.get("cuda", {}).get("installer"):
        raise InputError(
            "the image can't be made of NVIDIA's local installer: its packages are in no archive",
            where=stack,
            got=f"CUDA from {row['cuda']['installer']['url']}",
            expected="CUDA of the distribution, of NVIDIA's network repository, or as wheels",
            hint="`provision explain gpu_stack` has the words for it",
        )


def _packages(of_image: Mapping[str, Any], row: Row) -> tuple[dict[str, str], list[list[str]]]:
    """({package: version} that is fetched, [[package, path]] of single files of some of them)."""
    runtime: dict[str, str] = dict(of_image.get("cuda", {}).get("packages", {}))
    toolkit = row.get("cuda", {}).get("packages", {}).get("toolkit", {})
    files = [
        [file["package"], file["path"]]
        for _key, file in sorted(row.get("cuda", {}).get("files", {}).items())
        if file["package"] not in runtime
    ]
    return runtime | {package: toolkit[package] for package, _path in files}, files


def environment(row: Row) -> str:
    """TensorFlow's environment, where the hosts have it."""
    locked = row["tensorflow"]
    root = TensorflowOptions.model_fields["tensorflow_root"].default
    return f"{root}/{locked['version']}-{locked['requirements_sha256'][:8]}"


def _settings(facts: Catalog, platform: PlatformRow, row: Row, of_image: Mapping[str, Any]) -> str:
    """What install.sh reads, as assignments of a shell."""
    cuda, cudnn = of_image.get("cuda", {}), of_image.get("cudnn", {})
    place = environment(row)
    pip = collection.stack_module("components.tensorflow.pip_install").command(place)
    root = CudnnOptions.model_fields["cudnn_root"].default
    values = {
        "RELEASE": f"{platform.distribution} {platform.release}",
        "PYTHON": f"python{row['tensorflow']['python']}",
        "VENV": place,
        "PIP": " ".join(pip),
        "TENSORFLOW": row["tensorflow"]["version"],
        "SONAMES": " ".join([*cuda.get("sonames", ()), *filter(None, [cudnn.get("soname")])]),
        "LIBRARY": " ".join(row.get("gpu_env", {}).get("library", ())),
        "XLA": of_image["env"]["xla"],
        "LIBDEVICE": cuda.get("files", {}).get("libdevice", ""),
        "CUDNN": f"{root}/{cudnn['version']}-cuda{cudnn['cuda']}" if cudnn else "",
        "CUDNN_SHA256": cudnn.get("sha256", ""),
        "CUDNN_URLS": " ".join(_cudnn_urls(facts, row)),
    }
    return "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in values.items())


def _cudnn_urls(facts: Catalog, row: Row) -> tuple[str, ...]:
    sha256 = row.get("cudnn", {}).get("sha256")
    matching = (file for file in locked_files.of_stack(facts, row) if file.sha256 == sha256)
    return next((file.urls for file in matching), ())


def _sources(lock: Lock, stack: str) -> str:
    """apt's sources: the archives of the lock, each trusted by the distribution's own keys."""
    distribution = next(
        r["platform"]["distribution"]
        for r in lock.slim["rows"]
        if stack in (r["stack"], *r.get("beside", ()))
    )
    keyring = f"/usr/share/keyrings/{distribution}-archive-keyring.gpg"
    return "\n".join(
        _entry(source["url"], source["suite"], source["components"], keyring)
        for source in stacks.sources(lock, stack)
    )


def _nvidia_sources(row: Row) -> str:
    """NVIDIA's repository for apt; "" where nothing comes from there."""
    repository = row.get("cuda", {}).get("repository")
    if not repository:
        return ""
    bare = collection.stack_module("host.apt").bare
    return _entry(bare(repository["url"]), repository["suite"], [], _KEY)


def _entry(url: str, suite: str, components: Sequence[str], key: str) -> str:
    lines = ["Types: deb", f"URIs: {url}", f"Suites: {suite}"]
    lines += [f"Components: {' '.join(components)}"] if components else []
    return "\n".join([*lines, f"Signed-By: {key}"]) + "\n"


def _nvidia_key(row: Row) -> str:
    """The key of NVIDIA's repository; "" where nothing comes from there."""
    return str((row.get("cuda", {}).get("repository") or {}).get("key") or "")


def _containerfile(lock: Lock, chosen: Chosen, row: Row, of_image: Mapping[str, Any]) -> str:
    front = ":".join([f"{environment(row)}/bin", *of_image["env"]["path"]])
    xla = of_image["env"]["xla"]
    flags = f" XLA_FLAGS=--xla_gpu_cuda_data_dir={xla}" if xla else ""
    system = collection.stack_module("components.gpu_env").SYSTEM_PATH
    return f"""\
# Made by `provision kubernetes`; changes made here are lost.
# TensorFlow {row["tensorflow"]["version"]} as the lock has it: {chosen.name}.
# BASE is an image of {chosen.platform["distribution"]} {chosen.platform["release"]}, by its digest.
ARG BASE
FROM ${{BASE}}
COPY locked/ /locked/
RUN sh /locked/install.sh && rm -rf /locked
ENV PATH={front}:{system} \\
    LANG=C.UTF-8{flags}
LABEL provision.gpu.lock="{lock.digest}" provision.gpu.stack="{chosen.name}"
USER {USER}:{USER}
"""


def _lines(lines: Any) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
