"""The files of locked wheels: which of them a platform can install, and where they are.

The index is asked through uv, whose settings, proxies and logins are honoured. The files are
fetched without uv, with a login that is in the index's address. Which files fit is decided here, by
their hashes in the lock and by packaging's tags, so that it does not depend on uv's version.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging import tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from provision.errors import DriftError, InputError, MachineError
from provision.upstream import wheels

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
# glibc 2.5, of manylinux1, is the oldest that a wheel can name; the old names of three of them.
_OLDEST = 5
_ALIASES = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}


@dataclass(frozen=True)
class WheelFile:
    """A wheel as the index has it."""

    name: str
    url: str
    sha256: str
    project: str


@dataclass(frozen=True)
class _Pin:
    version: str
    hashes: frozenset[str]


def files(requirements: str, *, python: str, wheel_platform: str) -> list[WheelFile]:
    """The wheels of hash-locked requirements that a Python on a platform can install, sorted.

    DriftError where the index has none for a locked version any more, MachineError where it can't
    be asked.
    """
    pins = _pins(requirements)
    supported = frozenset(_tags(python, wheel_platform))
    wheels = [
        file
        for file in _of_index(pins, python, wheel_platform)
        if file.sha256 in pins[file.project].hashes and _fits(file.name, supported)
    ]
    missing = sorted(pins.keys() - {file.project for file in wheels})
    if missing:
        raise DriftError(
            "the index no longer has what is locked",
            where=f"wheels for Python {python} on {wheel_platform}",
            got=f"no file with a locked hash of {', '.join(missing)}",
            expected=", ".join(f"{name} {pins[name].version}" for name in missing),
            hint="--from BUNDLE takes it from an earlier bundle; `provision lock --upgrade "
            f"{missing[0]}` moves it",
        )
    return sorted(wheels, key=lambda file: file.name)


def project_of(file: str) -> str:
    """The project of a wheel's file name, as an index has it; "" of what is no wheel's."""
    try:
        return str(parse_wheel_filename(file)[0])
    except InvalidWheelFilename:
        return ""


def hashes(requirements: str) -> dict[str, frozenset[str]]:
    """Project -> SHA-256 of its locked files."""
    return {project: pin.hashes for project, pin in _pins(requirements).items()}


def _pins(requirements: str) -> dict[str, _Pin]:
    """Canonical name -> version and hashes of a requirements text."""
    pins: dict[str, _Pin] = {}
    # A requirement's hashes are on lines of their own, joined by backslashes.
    for line in requirements.replace("\\\n", " ").splitlines():
        pinned = _PINNED.match(line)
        if pinned is not None:
            hashes = frozenset(_HASH.findall(line))
            pins[canonicalize_name(pinned.group(1))] = _Pin(pinned.group(2), hashes)
    return pins


def _of_index(pins: dict[str, _Pin], python: str, platform: str) -> Iterator[WheelFile]:
    """What the index has of the locked versions."""
    for package in _asked([f"{n}=={pin.version}" for n, pin in pins.items()], python, platform):
        project = canonicalize_name(package["name"])
        for wheel in package.get("wheels", ()):
            url = wheel.get("url") or Path(wheel["path"]).absolute().as_uri()
            name = wheel.get("name") or unquote(urlsplit(url).path).rpartition("/")[2]
            if project in pins:
                yield WheelFile(name, url, wheel.get("hashes", {}).get("sha256", ""), project)


def _asked(pins: Sequence[str], python: str, platform: str) -> list[dict[str, Any]]:
    """The packages of uv's pylock.toml (PEP 751) for these versions."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "wanted.in").write_text("\n".join([*pins, ""]), encoding="utf-8")
        command = [wheels.uv(), "pip", "compile", "--quiet", "--no-config", "--no-deps"]
        command += ["--format", "pylock.toml", "--only-binary", ":all:", "--no-annotate"]
        command += ["--python-version", python, "--python-platform", platform]
        command += ["--output-file", "pylock.toml", "wanted.in"]
        done = wheels.asked(command, folder, where=f"wheels for Python {python} on {platform}")
        message = " ".join(done.stderr.split())[:600]
        if done.returncode == 1 and "No solution found" in message:
            raise DriftError(
                "the index no longer has what is locked",
                where=f"wheels for Python {python} on {platform}",
                got=message,
                hint="--from BUNDLE takes it from an earlier bundle; `provision lock --check` "
                "names what is gone",
            )
        if done.returncode:
            raise MachineError(
                "uv could not ask the index of wheels",
                got=message,
                hint="is the index there? UV_DEFAULT_INDEX, proxies and SSL_CERT_FILE are honoured",
            )
        try:
            packages = tomllib.loads((folder / "pylock.toml").read_text("utf-8"))["packages"]
        except (OSError, ValueError, KeyError) as error:
            raise MachineError.of(
                error, "uv's answer can't be read", wheels.uv(), "pip install --upgrade uv"
            ) from None
    return list(packages)


def _fits(name: str, supported: frozenset[tags.Tag]) -> bool:
    try:
        return not supported.isdisjoint(parse_wheel_filename(name)[3])
    except InvalidWheelFilename:
        return False


def _tags(python: str, wheel_platform: str) -> Iterator[tags.Tag]:
    """The tags that a CPython on a platform ("x86_64-manylinux_2_31") takes."""
    match = re.fullmatch(r"(\w+)-manylinux_2_(\d+)", wheel_platform)
    if match is None:
        raise InputError(
            "a platform of wheels has another form",
            got=wheel_platform,
            expected="x86_64-manylinux_2_31",
        )
    architecture, newest = match.group(1), int(match.group(2))
    platforms = []
    for minor in range(newest, _OLDEST - 1, -1):
        platforms.append(f"manylinux_2_{minor}_{architecture}")
        if minor in _ALIASES:
            platforms.append(f"{_ALIASES[minor]}_{architecture}")
    platforms.append(f"linux_{architecture}")
    version = [int(part) for part in python.split(".")[:2]]
    yield from tags.cpython_tags(version, platforms=platforms)
    yield from tags.compatible_tags(version, f"cp{version[0]}{version[1]}", platforms)
