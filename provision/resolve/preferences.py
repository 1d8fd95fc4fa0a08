"""Orders of preference among the candidates that fit together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from packaging.version import Version

from provision.resolve.search import Demand
from provision.resolve.stack import ORIGINS, Cuda, Cudnn, sdists
from provision.resolve.words import distance

# The release that this program was first tested with.
DEFAULT_TENSORFLOW = "2.9"
INSTALLED = (Demand("installed", "cuda", lambda c: c.installable),)


def no_preference(_value: Any, _chosen: Mapping[str, Any]) -> int:
    """Keeps the candidates' own order."""
    return 0


def cuda_order(value: Cuda, chosen: Mapping[str, Any]) -> Any:
    """What can be installed; the tested release; the platform's own before NVIDIA's."""
    row = chosen["tensorflow"].row
    return (
        not value.installable,
        value.release != row.cuda,
        list(ORIGINS).index(value.origin),
        # The nearest to what was tested, and its newest patch.
        distance(Version(row.cuda), Version(value.release)),
        [-part for part in Version(value.version).release],
    )


def cudnn_order(value: Cudnn, chosen: Mapping[str, Any]) -> Any:
    """The tested version, then the nearest to it; an archive of the user's own comes last."""
    row = chosen["tensorflow"].row
    tested = value.version == row.cudnn or value.version.startswith(row.cudnn + ".")
    return (
        value.origin == "own",
        not tested,
        distance(Version(row.cudnn), Version(value.version)),
    )


def python_order(value: str, chosen: Mapping[str, Any]) -> Any:
    """Pythons that need no source build first; the platform's own before its others."""
    return (
        bool(sdists(chosen["tensorflow"].row, value)),
        value != chosen["platform"].pythons[0],
    )


def gcc_order(value: str, chosen: Mapping[str, Any]) -> Any:
    """The platform's own first; none at all comes last."""
    return (value == "", value != chosen["platform"].gcc)
