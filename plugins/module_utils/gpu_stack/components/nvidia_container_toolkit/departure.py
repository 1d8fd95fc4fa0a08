"""What keeps a host's container runtimes from doing without the toolkit, and what is left of it."""

from ...change import blocker
from .. import nvidia_container_toolkit
from . import containerd, crio, docker


def remains(context):
    """The runtime's entries, where the configuration is ours to write."""
    return docker.remains(context) + containerd.remains(context) + crio.remains(context)


def reasons(seen):
    """Why docker can't do without the toolkit now; `seen` is None where that is not asked."""
    reasons = []
    if seen is None:
        return reasons
    if seen["users"] is None:
        message = "docker runs and does not answer, so whether containers use it cannot be known"
        hint = "`systemctl status docker` and journalctl -u docker say why"
        reasons.append(blocker("docker-containers", nvidia_container_toolkit.NAME, message, hint))
    elif seen["users"]:
        message = "containers at work were given GPUs by the container toolkit, wished away: "
        message += ", ".join(seen["users"])
        hint = "stop them when their users agree, then run again; none is ever stopped for you"
        reasons.append(blocker("docker-containers", nvidia_container_toolkit.NAME, message, hint))
    if seen["fault"] is not None:
        message = "{0} can't be read: {1}".format(docker.CONFIG, seen["fault"])
        hint = "repair it, or set nvidia_container_toolkit_docker to none"
        reasons.append(blocker("docker-config", nvidia_container_toolkit.NAME, message, hint))
    if seen["default"]:
        message = "{0} names nvidia as its default-runtime, and docker would not start".format(
            docker.CONFIG
        )
        hint = "take default-runtime out of it and `systemctl reload docker`"
        reasons.append(blocker("docker-config", nvidia_container_toolkit.NAME, message, hint))
    return reasons
