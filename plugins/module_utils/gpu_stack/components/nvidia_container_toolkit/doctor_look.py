"""What the doctor reads of the container toolkit, and of the programs that use it."""

from __future__ import annotations

from ...type_checking import TYPE_CHECKING
from .. import nvidia_container_toolkit
from . import cdi, containerd, crio, docker

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Context

PACKAGES = ("nvidia-container-toolkit", "nvidia-container-runtime", "nvidia-docker2")


def ask(context: Context) -> dict[str, Any]:
    """What the cases ask for, by its key among the doctor's facts."""
    return {
        "toolkit": toolkit(context),
        "docker": docker.look(context),
        "cdi": specification(context),
        "cri": cri(context),
    }


def toolkit(context: Context) -> str | None:
    """The version of the container toolkit; None without one."""
    names = [name for name in PACKAGES if name in context.packages]
    return (
        context.packages[names[0]]["version"].rpartition(":")[2].partition("-")[0]
        if names
        else None
    )


def specification(context: Context) -> dict[str, Any] | None:
    """What the look sees of the CDI specification; None without the container toolkit."""
    version = toolkit(context)
    if version is None:
        return None
    return dict(cdi.look(context, version), path=cdi.place(version))


def cri(context: Context) -> dict[str, Any]:
    """{unit: what the look sees of it} of those who make pods; {} without the container toolkit."""
    if toolkit(context) is None and not context.part(nvidia_container_toolkit.NAME):
        return {}
    return {"containerd": containerd.look(context), "crio": crio.look(context)}
