"""The rows of the catalog about what starts containers on hosts and in clusters."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from provision.catalog.rows import Row


class DevicePluginRow(Row):
    """A release of NVIDIA's device plugin for Kubernetes: the image, pinned by its index's digest.

    `chart` is the version of its Helm chart; `operator` the GPU operator's that brings the same.
    """

    version: str
    image: str
    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
    chart: str
    operator: str
