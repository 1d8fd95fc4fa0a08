"""Container runtimes that can't be configured, or whose restart would end containers."""

from ...rules import Rule
from .. import nvidia_container_toolkit
from . import cdi, containerd, crio, docker


def _docker(found, options):
    """What the look found of the docker that is to be configured; None where none is."""
    seen = found["state"][nvidia_container_toolkit.NAME]["docker"]
    none = docker.wish(options) == "none"
    return None if none or not seen["installed"] else seen


def docker_config(found, _changes, options, _row):
    seen = _docker(found, options)
    if seen is None or seen["fault"] is None:
        return []
    return [
        (
            "{0} is {1}; it is left as it is".format(docker.CONFIG, seen["fault"]),
            "repair it (python3 -m json.tool {0} shows where), or set "
            "nvidia_container_toolkit_docker: none".format(docker.CONFIG),
        )
    ]


def docker_missing(found, _changes, options, _row):
    seen = found["state"][nvidia_container_toolkit.NAME]["docker"]
    if not docker.missing(seen, options):
        return []
    snap = " but from snap, whose configuration is another file" if seen["snap"] else ""
    return [
        (
            "nvidia_container_toolkit_docker is required, and docker is not installed" + snap,
            "install docker.io or docker-ce, or set nvidia_container_toolkit_docker: auto",
        )
    ]


def docker_other(found, _changes, options, _row):
    seen = found["state"][nvidia_container_toolkit.NAME]
    others = docker.in_place(seen["engine"]["others"], options)
    if not others:
        return []
    return [
        (
            "nvidia_container_toolkit_docker_engine is docker-ce, and {0} is installed, which apt "
            "would remove for it".format(", ".join(others)),
            "remove it yourself when nobody needs it (images and volumes stay in /var/lib/docker), "
            "or set nvidia_container_toolkit_docker_engine: check, which uses what is there",
        )
    ]


def docker_snap(found, _changes, options, _row):
    seen = found["state"][nvidia_container_toolkit.NAME]["docker"]
    wish = docker.wish(options)
    # The rule above says it of one that is required.
    if not seen["snap"] or wish == "none" or (wish == "required" and not seen["installed"]):
        return []
    here = "from snap and from a package" if seen["installed"] else "from snap"
    return [
        (
            "docker is here {0}; the one of snap reads another file than {1}, and its containers "
            "would get no GPU".format(here, docker.CONFIG),
            "move its containers to docker.io or docker-ce and `snap remove docker`, or leave "
            "docker alone with nvidia_container_toolkit_docker: none",
        )
    ]


def docker_containers(found, changes, _options, _row):
    if not any(one["item"] == docker.RESTART for one in changes):
        return []
    seen = found["preflight"].get("docker")
    if seen is None or not docker.loses(seen):
        return []
    lost = "docker does not answer, so whether containers run can't be known"
    if seen["count"]:
        lost = "running containers would be lost ({0})".format(seen["count"])
    return [
        (
            "docker would be restarted to find NVIDIA's runtime: " + lost,
            'stop them when their users agree, or set "live-restore": true in {0} and '
            "`systemctl reload docker`, which restarts nothing; or leave docker alone with "
            "nvidia_container_toolkit_docker: none".format(docker.CONFIG),
        )
    ]


def containerd_config(found, _changes, options, _row):
    toolkit = found["state"][nvidia_container_toolkit.NAME]
    seen = toolkit["containerd"]
    if containerd.wish(options) == "required" and not seen["installed"]:
        if docker.installs(toolkit["docker"], options):
            return []  # the platform's docker brings it
        return [
            (
                "nvidia_container_toolkit_containerd is required, and containerd is not installed",
                "install it, or set nvidia_container_toolkit_containerd: auto",
            )
        ]
    if not seen["wanted"] or seen["fault"] is None:
        return []
    return [
        (
            "{0} is left as it is: {1}".format(containerd.CONFIG, seen["fault"]),
            "repair it (`containerd config dump` shows what containerd makes of it), or set "
            "nvidia_container_toolkit_containerd: none",
        )
    ]


def _lost(name, seen, option):
    """The blocker of a daemon that takes containers along; `seen` is what the look found of it."""
    if not seen["wanted"] or seen["loses"] is None:
        return []
    return [
        (
            "{0} would be restarted to know NVIDIA's runtime, and containers would be lost: "
            "{1}".format(name, seen["loses"]),
            "stop them when their users agree, then run again, or set {0}: none".format(option),
        )
    ]


def containerd_containers(found, _changes, _options, _row):
    seen = found["state"][nvidia_container_toolkit.NAME]["containerd"]
    return _lost("containerd", seen, "nvidia_container_toolkit_containerd")


def crio_config(found, _changes, options, _row):
    seen = found["state"][nvidia_container_toolkit.NAME]["crio"]
    if crio.wish(options) == "required" and not seen["installed"]:
        return [
            (
                "nvidia_container_toolkit_crio is required, and CRI-O is not installed",
                "install it, or set nvidia_container_toolkit_crio: auto",
            )
        ]
    if not seen["wanted"] or seen["fault"] is None:
        return []
    return [
        (
            "CRI-O's configuration is left as it is: {0}".format(seen["fault"]),
            "repair it (`crio config` shows what CRI-O makes of {0} and {1}), or set "
            "nvidia_container_toolkit_crio: none".format(crio.CONFIG, crio.PLACE),
        )
    ]


def crio_containers(found, _changes, _options, _row):
    seen = found["state"][nvidia_container_toolkit.NAME]["crio"]
    return _lost("CRI-O", seen, "nvidia_container_toolkit_crio")


def podman_too_old(found, _changes, options, _row):
    seen = found["state"][nvidia_container_toolkit.NAME]["cdi"]
    if cdi.wish(options) != "required" or cdi.reads(seen["podman"]) != ():
        return []
    since = ".".join(map(str, cdi.PODMAN_SINCE))
    return [
        (
            "nvidia_container_toolkit_cdi is required, and podman {0} reads no CDI specification; "
            "{1} is the first that does".format(seen["podman"], since),
            "install a newer podman, or set nvidia_container_toolkit_cdi: auto, which leaves this "
            "one alone",
        )
    ]

RULES = (
    Rule("docker-config", nvidia_container_toolkit.NAME, True, docker_config),
    Rule("docker-missing", nvidia_container_toolkit.NAME, True, docker_missing),
    Rule("docker-other", nvidia_container_toolkit.NAME, True, docker_other),
    Rule("docker-snap", nvidia_container_toolkit.NAME, True, docker_snap),
    Rule("docker-containers", nvidia_container_toolkit.NAME, True, docker_containers),
    Rule("containerd-config", nvidia_container_toolkit.NAME, True, containerd_config),
    Rule("containerd-containers", nvidia_container_toolkit.NAME, True, containerd_containers),
    Rule("crio-config", nvidia_container_toolkit.NAME, True, crio_config),
    Rule("crio-containers", nvidia_container_toolkit.NAME, True, crio_containers),
    Rule("podman-too-old", nvidia_container_toolkit.NAME, True, podman_too_old),
)
