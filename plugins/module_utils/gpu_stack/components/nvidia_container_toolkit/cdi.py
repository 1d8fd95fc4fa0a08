"""The CDI specification: the file by which podman, and whoever reads CDI, gives GPUs to containers.

It names the driver's libraries by their full paths, so after a change of the driver it lists
missing files: the container does not start, or has no libcuda. From 1.18 on NVIDIA's own unit
writes it at boot and when packages change, possibly before the driver is complete; from 1.19.1 on
its CDI version is one that podman before 5.1 can't read, and podman then only reports "unresolvable
CDI devices" (NVIDIA/nvidia-container-toolkit#1860). So the file is read, and the paths in it are
checked. cdi_specification.py generates it.
"""

from __future__ import annotations

import re

from ...change import change
from ...tables import PODMAN_CDI
from ...type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

    from ...host.context import Context
    from ...shapes import Changes, Options, State

# Where NVIDIA's unit writes it, which is lost at each boot; and where it stays.
RUN = "/var/run/cdi/nvidia.yaml"
ETC = "/etc/cdi/nvidia.yaml"
UNIT = "nvidia-cdi-refresh"
UNIT_SINCE = (1, 18)
WANTED_BY = "/etc/systemd/system/multi-user.target.wants/{0}"
DROPIN = "/etc/systemd/system/nvidia-cdi-refresh.service.d/50-provision.conf"
# By this flag the toolkit leaves additional groups out. Before 1.18 the toolkit ignores the
# variable, and the option --feature-flag is an error.
FLAG = "no-additional-gids-for-device-nodes"
FLAGS_VARIABLE = "NVIDIA_CTK_CDI_GENERATE_FEATURE_FLAGS"
DROPIN_TEXT = f"""\
# Written by the Ansible role nvidia_container_toolkit; changes made here are lost.
# podman before 5.1 reads no CDI specification with additional groups, which is one of 0.7.0.
[Service]
Environment={FLAGS_VARIABLE}={FLAG}
"""
GROUPS_SINCE = (1, 19, 1)
# The first line of a specification that the role made.
MARK = "# Made by the Ansible role nvidia_container_toolkit"

PODMAN = "/usr/bin/podman"
# The first that reads any.
PODMAN_SINCE = PODMAN_CDI[-1][0]

DEVICE = "nvidia.com/gpu"
SONAME = "libcuda.so.1"
_OF_DRIVER = re.compile(r"/lib(?:cuda|nvidia-[a-z]+)\.so\.(\d+\.\d+(?:\.\d+)?)$")


def wish(options: Options) -> str:
    return options.get("nvidia_container_toolkit_cdi") or "auto"


def numbers(version: str | None) -> tuple[int, ...]:
    """The numbers of a version, for comparison."""
    return tuple(int(number) for number in re.findall(r"\d+", version or "")[:3])


def refreshed(version: str) -> bool:
    """Whether this version of the toolkit has the unit that writes the specification."""
    return numbers(version) >= UNIT_SINCE


def place(version: str) -> str:
    """Path of the specification: the unit's in that version, or the permanent one."""
    return RUN if refreshed(version) else ETC


def reads(podman: str | None) -> tuple[int, ...] | None:
    """The newest CDI version that a podman reads; () if it reads none, None if unknown."""
    if not podman:
        return None
    for since, newest in PODMAN_CDI:
        if numbers(podman) >= since:
            return newest
    return ()


def plain(version: str, podman: str | None) -> bool:
    """Whether that version of the toolkit must omit additional groups for this podman."""
    newest = reads(podman)
    return bool(newest and newest < (0, 7, 0)) and numbers(version) >= GROUPS_SINCE


# the look


def podman(context: Context) -> str | None:
    """Version of podman; None if it is missing, "" if it belongs to no package."""
    if not context.exists(PODMAN):
        return None
    package = context.packages.get("podman")
    return "" if package is None else package["version"].split(":")[-1].split("-")[0].split("+")[0]


def library(context: Context) -> str | None:
    """The file that the loader opens for libcuda; None if it is missing."""
    path = context.loader.get(SONAME)
    return None if path is None else context.resolve(path)


def paths(text: str) -> list[str]:
    """The host's files that a specification gives to containers."""
    return re.findall(r"(?m)^[ -]*hostPath: *[\"']?([^\"'\n]+?)[\"']? *$", text)


def driver_of(text: str) -> str | None:
    """The driver's version by the names of its libraries; None if they have none."""
    for path in paths(text):
        match = _OF_DRIVER.search(path)
        if match:
            return match.group(1)
    return None


def fault(
    text: str | None,
    newest: tuple[int, ...] | None,
    opened: str | None,
    exists: Callable[[str], bool],
) -> str | None:
    """Why a specification does not give the GPUs of this host; None where it does.

    `newest`: the CDI version that podman reads, as `reads`; `opened`: the file that the loader
    opens for libcuda, as `library`; `exists`: whether a path exists.
    """
    if text is None:
        return "absent"
    kind = re.search(r"(?m)^kind: *[\"']?([^\"'\s]+)", text)
    if kind is None or kind.group(1) != DEVICE or not re.search(r"name: *[\"']?all\b", text):
        return f"names no {DEVICE}=all"
    version = re.search(r"(?m)^cdiVersion: *[\"']?([0-9.]+)", text)
    if newest and (version is None or numbers(version.group(1)) > newest):
        stated = "without a version" if version is None else version.group(1)
        return "CDI {0}, and podman reads {1}".format(stated, ".".join(map(str, newest)))
    named = paths(text)
    missing = [path for path in named if not exists(path)]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        return f"names {missing[0]}{more}, which is not there"
    name = (opened or "").rsplit("/", 1)[-1]
    if name and name not in [path.rsplit("/", 1)[-1] for path in named]:
        old = driver_of(text)
        return f"made for driver {old}" if old else f"without {opened}"
    return None


def look(context: Context, version: str) -> dict[str, Any]:
    """{podman, driver, fault, coming, left, disabled, dropin} of a toolkit of this version."""
    podman_version, driver = podman(context), context.part("nvidia_driver")
    opened = library(context)
    text = context.read(place(version))
    old, new = driver_of(text or ""), driver.get("version")

    def wrong(content: str | None) -> str | None:
        return fault(content, reads(podman_version), opened, context.exists)

    units = [UNIT + ".path", UNIT + ".service"] if refreshed(version) else []
    return {
        "podman": podman_version,
        "driver": opened is not None or bool(driver),
        "fault": wrong(text),
        "coming": old if old and new and old != new else None,
        "left": left(version, context.read, wrong),
        "disabled": [
            unit for unit in units
            if context.exists("/etc/systemd/system/" + unit)
            and context.lstat(WANTED_BY.format(unit)) is None
        ],
        "dropin": context.read(DROPIN),
    }  # fmt: skip


def left(
    version: str, read: Callable[[str], str | None], wrong: Callable[[str | None], str | None]
) -> str | None:
    """Path of a specification to remove; None without one.

    Of two that name a device podman takes that in /var/run/cdi: it makes the role's own in /etc
    obsolete, and a bad one hides it.
    """
    path = ETC if refreshed(version) else RUN
    text = read(path)
    if text is None:
        return None
    goes = text.startswith(MARK) if path == ETC else wrong(text) is not None
    return path if goes else None


def concerned(state: State, options: Options) -> bool:
    """Whether this host is to have a specification."""
    chosen = wish(options)
    if chosen == "none" or not state["driver"] or reads(state["podman"]) == ():
        return False
    return chosen == "required" or state["podman"] is not None


# the differences

_REASONS = {
    "made": "podman gives GPUs to containers by it",
    "dropin": "this podman reads no newer CDI specification",
    "unit": "it makes the specification at boot",
    "left": "podman takes only the one in /var/run/cdi",
}
# Changes with this reason are dropped unless the same run changes the driver.
FOLLOWS = "it names the libraries of the driver that is replaced"


def differ(component: str, version: str, state: State, options: Options) -> Changes:
    """Changes to the specification, and to the unit that generates it at boot."""
    if not concerned(state, options):
        return []
    changes: list[dict[str, Any]] = []

    def note(item: str, old: str | None, new: str, reason: str) -> None:
        changes.append(change(component, item, old, new, reason))

    text = DROPIN_TEXT if plain(version, state["podman"]) else None
    if state["dropin"] != text:
        old = None if state["dropin"] is None else "other content" if text else "present"
        note(DROPIN, old, "as wished" if text else "absent", _REASONS["dropin"])
    for unit in state["disabled"]:
        note(unit, "disabled", "enabled", _REASONS["unit"])
    if state["left"]:
        note(state["left"], "present", "absent", _REASONS["left"])
    if state["fault"] is not None:
        note(place(version), state["fault"], "current", _REASONS["made"])
    elif state["coming"]:
        note(place(version), "made for driver " + state["coming"], "current", FOLLOWS)
    return changes


def following(changes: Changes) -> list[dict[str, Any]]:
    """The changes without those that follow a driver's, where no selected change touches it."""
    driver = any(entry["component"] == "nvidia_driver" and entry["selected"] for entry in changes)
    return [entry for entry in changes if driver or entry["reason"] != FOLLOWS]


# its removal


def own(context: Context, owned: Collection[str]) -> list[str]:
    """Paths of specifications that the role, or a package of its own, wrote.

    owned: names of the packages to be removed.
    """
    paths_owned = []
    for path in (ETC, RUN):
        text = context.read(path)
        by_role = text is not None and text.startswith(MARK)
        by_unit = path == RUN and text is not None and "nvidia-container-toolkit-base" in owned
        if by_role or by_unit:
            paths_owned.append(path)
    return paths_owned


def remains(context: Context, owned: Collection[str]) -> list[list[str]]:
    """[[item, value]] of the specifications of `own` and of the unit's setting."""
    settings = [DROPIN] if context.lstat(DROPIN) is not None else []
    return [[path, "present"] for path in settings + own(context, owned)]
