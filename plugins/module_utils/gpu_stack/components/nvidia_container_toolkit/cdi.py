"""The CDI specification: the file by which podman, and whoever reads CDI, gives GPUs to containers.

It names the driver's libraries by their full paths, so that a new driver makes it a list of files
that are not there: the container does not start, or has no libcuda. From 1.18 on NVIDIA's own unit
writes it at boot and where the packages change, and may come before the driver is whole; from
1.19.1 on it is of a CDI version that podman before 5.1 refuses to read, and podman then says no
more than "unresolvable CDI devices" (NVIDIA/nvidia-container-toolkit#1860). So the file itself is
read, and what it names is looked for. How it is made anew is in cdi_specification.py.
"""

import re

from ...change import change
from ...tables import PODMAN_CDI

# Where NVIDIA's unit writes it, which is gone at each boot; and where it stays.
RUN = "/var/run/cdi/nvidia.yaml"
ETC = "/etc/cdi/nvidia.yaml"
UNIT = "nvidia-cdi-refresh"
UNIT_SINCE = (1, 18)
WANTED_BY = "/etc/systemd/system/multi-user.target.wants/{0}"
DROPIN = "/etc/systemd/system/nvidia-cdi-refresh.service.d/50-provision.conf"
DROPIN_TEXT = """\
# Written by the Ansible role nvidia_container_toolkit; changes made here are lost.
# podman before 5.1 reads no CDI specification with additional groups, which is one of 0.7.0.
[Service]
Environment=NVIDIA_CTK_CDI_GENERATE_FEATURE_FLAGS=no-additional-gids-for-device-nodes
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


def wish(options):
    return options.get("nvidia_container_toolkit_cdi") or "auto"


def numbers(version):
    """A version's numbers, to be compared."""
    return tuple(int(one) for one in re.findall(r"\d+", version or "")[:3])


def refreshed(version):
    """Does this version of the toolkit bring the unit that writes the specification?"""
    return numbers(version) >= UNIT_SINCE


def place(version):
    """Where the specification is: where the unit of that version writes it, or where it stays."""
    return RUN if refreshed(version) else ETC


def reads(podman):
    """The newest CDI version that a podman reads; () where it reads none, None where unknown."""
    if not podman:
        return None
    for since, newest in PODMAN_CDI:
        if numbers(podman) >= since:
            return newest
    return ()


def plain(version, podman):
    """Must that version of the toolkit be told to leave groups out, for this podman?"""
    newest = reads(podman)
    return bool(newest) and newest < (0, 7, 0) and numbers(version) >= GROUPS_SINCE


# the look


def podman(context):
    """Its version; None where there is none, "" where no package tells."""
    if not context.exists(PODMAN):
        return None
    found = context.packages.get("podman")
    return "" if found is None else found["version"].split(":")[-1].split("-")[0].split("+")[0]


def library(context):
    """The file that the loader opens for libcuda; None where it finds none."""
    path = context.loader.get(SONAME)
    return None if path is None else context.resolve(path)


def paths(text):
    """The host's files that a specification gives to containers."""
    return re.findall(r"(?m)^[ -]*hostPath: *[\"']?([^\"'\n]+?)[\"']? *$", text)


def driver_of(text):
    """The driver's version by the names of its libraries; None where they do not tell."""
    for path in paths(text):
        match = _OF_DRIVER.search(path)
        if match:
            return match.group(1)
    return None


def fault(text, newest, opened, exists):
    """Why a specification does not give the GPUs of this host; None where it does.

    `newest`: the CDI version that podman reads, as `reads`; `opened`: the file that the loader
    opens for libcuda, as `library`; `exists`: is a path there?
    """
    if text is None:
        return "absent"
    kind = re.search(r"(?m)^kind: *[\"']?([^\"'\s]+)", text)
    if kind is None or kind.group(1) != DEVICE or not re.search(r"name: *[\"']?all\b", text):
        return "names no {0}=all".format(DEVICE)
    version = re.search(r"(?m)^cdiVersion: *[\"']?([0-9.]+)", text)
    if newest and (version is None or numbers(version.group(1)) > newest):
        said = "without a version" if version is None else version.group(1)
        return "CDI {0}, and podman reads {1}".format(said, ".".join(map(str, newest)))
    named = paths(text)
    gone = [path for path in named if not exists(path)]
    if gone:
        more = " and {0} more".format(len(gone) - 1) if len(gone) > 1 else ""
        return "names {0}{1}, which is not there".format(gone[0], more)
    name = (opened or "").rsplit("/", 1)[-1]
    if name and name not in [path.rsplit("/", 1)[-1] for path in named]:
        old = driver_of(text)
        return "made for driver {0}".format(old) if old else "without {0}".format(opened)
    return None


def look(context, version):
    """{podman, driver, fault, coming, left, disabled, dropin} of a toolkit of this version."""
    found, wished = podman(context), context.part("nvidia_driver")
    opened = library(context)
    text = context.read(place(version))
    old, new = driver_of(text or ""), wished.get("version")

    def wrong(content):
        return fault(content, reads(found), opened, context.exists)

    units = [UNIT + ".path", UNIT + ".service"] if refreshed(version) else []
    return {
        "podman": found,
        "driver": opened is not None or bool(wished),
        "fault": wrong(text),
        "coming": old if old and new and old != new else None,
        "left": left(version, context.read, wrong),
        "disabled": [
            one for one in units
            if context.exists("/etc/systemd/system/" + one)
            and context.lstat(WANTED_BY.format(one)) is None
        ],
        "dropin": context.read(DROPIN),
    }  # fmt: skip


def left(version, read, wrong):
    """The path of a specification that has to go; None where none does.

    Of two that name one device podman takes that of /var/run/cdi. What the role made for an older
    toolkit is of no use beside it; where the role's own is in /etc, a bad one there hides it.
    """
    path = ETC if refreshed(version) else RUN
    text = read(path)
    if text is None:
        return None
    goes = text.startswith(MARK) if path == ETC else wrong(text) is not None
    return path if goes else None


def concerned(seen, options):
    """Is there to be a specification on this host?"""
    chosen = wish(options)
    if chosen == "none" or not seen["driver"] or reads(seen["podman"]) == ():
        return False
    return chosen == "required" or seen["podman"] is not None


# the differences

_REASONS = {
    "made": "podman gives GPUs to containers by it",
    "dropin": "this podman reads no newer CDI specification",
    "unit": "it makes the specification at boot",
    "left": "podman takes only the one in /var/run/cdi",
}
# A change of this reason is one only where the driver is changed in the same run.
FOLLOWS = "it names the libraries of the driver that is replaced"


def differ(component, version, seen, options):
    """Changes for the specification, and for the unit that makes it at boot."""
    if not concerned(seen, options):
        return []
    changes = []

    def note(item, old, new, reason):
        changes.append(change(component, item, old, new, reason))

    text = DROPIN_TEXT if plain(version, seen["podman"]) else None
    if seen["dropin"] != text:
        old = None if seen["dropin"] is None else "other content" if text else "present"
        note(DROPIN, old, "as wished" if text else "absent", _REASONS["dropin"])
    for unit in seen["disabled"]:
        note(unit, "disabled", "enabled", _REASONS["unit"])
    if seen["left"]:
        note(seen["left"], "present", "absent", _REASONS["left"])
    if seen["fault"] is not None:
        note(place(version), seen["fault"], "current", _REASONS["made"])
    elif seen["coming"]:
        note(place(version), "made for driver " + seen["coming"], "current", FOLLOWS)
    return changes


def following(changes):
    """The changes without those that follow a driver which no selected change touches."""
    driver = any(one["component"] == "nvidia_driver" and one["selected"] for one in changes)
    return [one for one in changes if driver or one["reason"] != FOLLOWS]


# its removal


def own(context, owned):
    """Paths of specifications that are the role's own, or were made by a package of its own.

    `owned`: names of the packages that go.
    """
    found = []
    for path in (ETC, RUN):
        text = context.read(path)
        mine = text is not None and text.startswith(MARK)
        units = path == RUN and text is not None and "nvidia-container-toolkit-base" in owned
        if mine or units:
            found.append(path)
    return found


def remains(context, owned):
    """[[item, what is there]] of what `own` names and of the unit's setting."""
    settings = [DROPIN] if context.lstat(DROPIN) is not None else []
    return [[path, "present"] for path in settings + own(context, owned)]
