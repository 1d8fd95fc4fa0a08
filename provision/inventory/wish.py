"""Parses the literal mapping `gpu_stack`; each error says what is wrong and what to write.

An unquoted version is refused: YAML reads 2.10 as the number 2.1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from provision.errors import InputError
from provision.inventory.literals import is_template, no_template, refuse_vaulted, version_text
from provision.inventory.own import OWN
from provision.inventory.spelling import did_you_mean
from provision.inventory.words import WISH
from provision.models import CudnnWish, Wish

# The words of a wish: {word: (an example, what it means)}.
WISH_WORDS: Mapping[str, tuple[str, str]] = {
    "tensorflow": ('"2.9"', "A release of TensorFlow: its newest patch, or an exact version."),
    "python": ('"3.9"', "Python of its environment. Without it: one that the platform has."),
    "cuda": ('"11.2"', "A release of CUDA. Without it: the one TensorFlow was built with."),
    "cuda_source": (
        "network",
        "distribution: the platform's packages. network: NVIDIA's repository. local: NVIDIA's "
        "local installer. wheels: TensorFlow's own, from 2.14 on.",
    ),
    "cudnn": (
        '"8.1.0.77"',
        "A version of cuDNN, or an archive of your own: {version, cuda, sha256}.",
    ),
    "driver_branch": ('"470"', "A branch of the NVIDIA driver, or an exact version of one."),
    "driver_source": (
        "runfile",
        "distribution: the platform's packages. network: NVIDIA's repository. runfile: NVIDIA's "
        ".run installer.",
    ),
    "driver_modules": (
        "dkms",
        "signed: the modules that Canonical built and signed, or no lock. dkms: each host builds "
        "its own. Without it: signed ones where Ubuntu's archive has them.",
    ),
    "driver_sha256": (
        '"<64 hex digits>"',
        "The SHA-256 of a .run file, with driver_source runfile and an exact driver_branch.",
    ),
    "gcc": ('"10"', "The compiler that nvcc calls. Without it: the platform's, if nvcc takes it."),
    **{own.WORD: (own.EXAMPLE, own.MEANING) for own in OWN.values()},
    "packages": (
        '[jupyterlab, "pandas<2.1"]',
        "What else the environment holds: names from the package index, with versions if you like; "
        "locked with TensorFlow, wheels alone.",
    ),
    "beside": (
        '[{tensorflow: "2.14"}]',
        "Further TensorFlows on the same hosts, each in an environment of its own.",
    ),
}
WISH_KEYS = tuple(WISH_WORDS)
# A host has one driver, CUDA and cuDNN; a wish beside can only choose these.
BESIDE_KEYS = ("tensorflow", "python", "packages")
CUDA_SOURCES = ("distribution", "network", "local", "wheels")
DRIVER_SOURCES = ("distribution", "network", "runfile")
DRIVER_MODULES = ("signed", "dkms")
CUDNN_KEYS = ("version", "cuda", "sha256")

# TensorFlow under all the names that bring the module tensorflow.
_TENSORFLOW = re.compile(
    r"^(tensorflow|tf-nightly|intel-tensorflow)(-(cpu|gpu|intel|rocm|macos))?$"
)


def parse_wish(value: Any, *, where: str) -> Wish:
    """The literal mapping `gpu_stack` as a Wish. InputError for the first fault."""
    if isinstance(value, str) and is_template(value):
        raise no_template(where, WISH)
    refuse_vaulted(value, WISH, where)
    if not isinstance(value, Mapping):
        raise InputError(
            "gpu_stack is a mapping",
            where=where,
            got=f"{type(value).__name__} {json.dumps(value)}",
            expected='gpu_stack: {tensorflow: "2.9"}',
        )
    if not value:
        raise InputError(
            "gpu_stack wishes for nothing", where=where, expected='gpu_stack: {tensorflow: "2.9"}'
        )
    _only_words("gpu_stack", value, WISH_KEYS, where)
    not_versions = (
        *("cudnn", "cuda_source", "driver_source", "driver_modules", "driver_sha256"),
        *("packages", "beside"),
        *(own.WORD for own in OWN.values()),
    )
    plain = {key: version_text(value[key], key, where) for key in value if key not in not_versions}
    cudnn = _cudnn_wish(value["cudnn"], where) if "cudnn" in value else None
    return Wish(
        tensorflow=plain.get("tensorflow"),
        python=plain.get("python"),
        cuda=plain.get("cuda"),
        cuda_source=_source(value, "cuda_source", CUDA_SOURCES, where),
        driver_branch=plain.get("driver_branch"),
        driver_source=_source(value, "driver_source", DRIVER_SOURCES, where),
        driver_modules=_driver_modules(value, where),
        driver_sha256=_driver_sha256(value, where),
        cudnn=cudnn,
        gcc=plain.get("gcc"),
        own={
            own.WORD: own.wished(value[own.WORD], where)
            for own in OWN.values()
            if own.WORD in value
        },
        packages=_packages(value["packages"], where) if "packages" in value else (),
        beside=_beside(value["beside"], where) if "beside" in value else (),
        literal=dict(value),
    )


def _beside(value: Any, where: str) -> tuple[Wish, ...]:
    """The wishes for further TensorFlows: [{tensorflow: "2.14"}, ...]."""
    if isinstance(value, str) and is_template(value):
        raise no_template(where, "beside")
    if not isinstance(value, list) or not all(isinstance(wish, Mapping) for wish in value):
        raise InputError(
            "beside is a list of wishes",
            where=where,
            got=json.dumps(value),
            expected='beside: [{tensorflow: "2.14"}]',
        )
    wishes = []
    for wish in value:
        _only_words("beside", wish, BESIDE_KEYS, where)
        if "tensorflow" not in wish:
            raise InputError(
                "a wish in beside names a TensorFlow",
                where=where,
                got=json.dumps(wish),
                expected='{tensorflow: "2.14"}',
            )
        plain = {key: version_text(wish[key], key, where) for key in wish if key != "packages"}
        wishes.append(
            Wish(
                plain["tensorflow"],
                plain.get("python"),
                packages=_packages(wish["packages"], where) if "packages" in wish else (),
                literal=dict(wish),
            )
        )
    return tuple(wishes)


def _packages(value: Any, where: str) -> tuple[str, ...]:
    """The requirements, sorted by name. They come from an index: no URL, no path, no marker."""
    expected = 'packages: [jupyterlab, "pandas<2.1"]'
    if isinstance(value, str) and is_template(value):
        raise no_template(where, "packages")
    if not isinstance(value, list) or not value:
        raise InputError(
            "packages is a list of requirements",
            where=where,
            got=json.dumps(value),
            expected=expected,
        )
    requirements: dict[str, str] = {}
    for text in value:
        if isinstance(text, str) and is_template(text):
            raise no_template(where, "packages")
        try:
            requirement = Requirement(text) if isinstance(text, str) else None
        except InvalidRequirement:
            requirement = None
        if requirement is None or requirement.url or requirement.marker:
            raise InputError(
                "packages holds something that is no requirement by name",
                where=where,
                got=json.dumps(text),
                expected=expected,
                hint="a wheel of your own comes from an index of your own (UV_INDEX), or from a "
                "folder (UV_FIND_LINKS)",
            )
        name = canonicalize_name(requirement.name)
        if _TENSORFLOW.match(name):
            raise InputError(
                f"packages can't hold {requirement.name}",
                where=where,
                expected='tensorflow: "2.9" for the one, beside for others',
            )
        if name in requirements:
            raise InputError(f"packages names {name} twice", where=where, got=json.dumps(value))
        requirements[name] = str(requirement)
    return tuple(requirements[name] for name in sorted(requirements))


def _only_words(name: str, value: Mapping[Any, Any], keys: Sequence[str], where: str) -> None:
    """InputError for a key that is none of `keys`, with the one that was probably meant."""
    for key in value:
        if key not in keys:
            raise InputError(
                f"{name} has no word {key!r}",
                where=where,
                expected=", ".join(keys),
                hint=did_you_mean(str(key), keys),
            )


def _source(wish: Mapping[str, Any], word: str, sources: Sequence[str], where: str) -> str | None:
    """The wished source of CUDA or the driver; None without a wish."""
    return _one_of(wish, word, sources, "CUDA" if word == "cuda_source" else "the driver", where)


def _one_of(
    wish: Mapping[str, Any], word: str, sources: Sequence[str], of: str, where: str
) -> str | None:
    if word not in wish:
        return None
    value = wish[word]
    if isinstance(value, str) and is_template(value):
        raise no_template(where, word)
    if value not in sources:
        raise InputError(
            f"there is no such source of {of}",
            where=where,
            got=json.dumps(value),
            expected=" or ".join(sources),
            hint=did_you_mean(str(value), sources),
        )
    return str(value)


def _driver_modules(wish: Mapping[str, Any], where: str) -> str | None:
    """Where the kernel's module comes from, of the platform's own driver; None without a wish."""
    value = _one_of(wish, "driver_modules", DRIVER_MODULES, "the driver's modules", where)
    if value is not None and wish.get("driver_source", "distribution") != "distribution":
        raise InputError(
            "driver_modules is for the distribution's own driver",
            where=where,
            expected=f"driver_source: distribution, driver_modules: {value}",
            hint="a driver of NVIDIA's own has its modules built by DKMS",
        )
    return value


def _driver_sha256(wish: Mapping[str, Any], where: str) -> str | None:
    """The hash of the user's .run file, which needs an exact driver_branch; None without a wish."""
    if "driver_sha256" not in wish:
        return None
    sha256 = _sha256(wish["driver_sha256"], "driver_sha256", where)
    exact = "." in str(wish.get("driver_branch", ""))
    if wish.get("driver_source") != "runfile" or not exact:
        raise InputError(
            "driver_sha256 is the hash of one .run file",
            where=where,
            expected='driver_source: runfile, driver_branch: "470.256.02", driver_sha256: "..."',
            hint="with another driver_source what is installed is known by its packages",
        )
    return sha256


def _sha256(value: Any, key: str, where: str) -> str:
    """64 hex digits as the user quoted them."""
    if isinstance(value, str) and is_template(value):
        raise no_template(where, key)
    if not isinstance(value, str) or not re.fullmatch(r"[0-9a-f]{64}", value):
        raise InputError(
            f"{key} is not a SHA-256",
            where=where,
            got=f"{value!r}",
            expected="64 lower-case hex digits, quoted, as `sha256sum FILE` prints them",
        )
    return value


def _cudnn_wish(value: Any, where: str) -> CudnnWish:
    if not isinstance(value, Mapping):
        return CudnnWish(version_text(value, "cudnn", where))
    _only_words("cudnn", value, CUDNN_KEYS, where)
    if "version" not in value:
        raise InputError(
            "cudnn needs a version",
            where=where,
            expected='cudnn: {version: "8.5.0.96", cuda: "11.2", sha256: "<64 hex digits>"}',
        )
    sha256 = value.get("sha256")
    if sha256 is not None:
        sha256 = _sha256(sha256, "cudnn sha256", where)
    return CudnnWish(
        version=version_text(value["version"], "cudnn version", where),
        cuda=version_text(value["cuda"], "cudnn cuda", where) if "cuda" in value else None,
        sha256=sha256,
    )
