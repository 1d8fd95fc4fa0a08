"""The plain values that travel between the generator's parts: platform, wish, stack.

They are frozen and carry no behaviour that reads a disk or a network, so that resolve, lock and
render stay pure functions of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Platform:
    """A host's system: os-release ID and VERSION_ID, and `uname -m`."""

    distribution: str
    release: str
    architecture: str

    def as_data(self) -> dict[str, str]:
        """The mapping in the lock's rows."""
        return {
            "distribution": self.distribution,
            "release": self.release,
            "architecture": self.architecture,
        }


@dataclass(frozen=True)
class CudnnWish:
    """A cuDNN release; with `sha256` (and the CUDA it was built for) the user's own archive."""

    version: str
    cuda: str | None = None
    sha256: str | None = None


@dataclass(frozen=True)
class Gpu:
    """A kind of GPU, with the drivers and CUDA releases that support it.

    `driver_first` and `driver_last` are the branches that drive it, `cuda_last` the last CUDA with
    code for it; None where there is no end yet. `architecture` is its host's, where only one is
    possible.
    """

    name: str
    generation: str
    capability: str
    driver_first: str
    driver_last: str | None = None
    cuda_last: str | None = None
    architecture: str = ""


@dataclass(frozen=True)
class HostFacts:
    """What is known of a host before a run looks at it.

    `platform` is an id of the catalog, None where unknown; `gpus` are names or PCI ids, empty where
    unknown. `models` are those that the inventory declares, with which a run compares the host;
    `unknown` are PCI ids that the catalog doesn't have, and `system` is the name of a system that
    it doesn't have.
    """

    platform: str | None = None
    gpus: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    system: str = ""
    # The source: a group or host of the inventory, or discovered.yml.
    platform_from: str = field(default="", compare=False)
    gpus_from: str = field(default="", compare=False)


@dataclass(frozen=True)
class Wish:
    """What hosts should become. `None` leaves the choice to the resolver.

    `literal` is the mapping as the user wrote it: a host is matched to its row in the lock by
    equality with its own `gpu_stack`, so not even the spelling of a version may change.
    """

    tensorflow: str | None = None
    python: str | None = None
    cuda: str | None = None
    cuda_source: str | None = None
    # A branch, or an exact version of one.
    driver_branch: str | None = None
    driver_source: str | None = None
    # "signed" or "dkms": where the module of the platform's own driver comes from.
    driver_modules: str | None = None
    # The hash of the user's own installer.
    driver_sha256: str | None = None
    cudnn: CudnnWish | None = None
    gcc: str | None = None
    # Requirements beside TensorFlow in its environment, sorted by name.
    packages: tuple[str, ...] = ()
    # Further TensorFlows for the same host, each in an environment of its own.
    beside: tuple[Wish, ...] = ()
    # {word: its value} of the wished components that have a file in inventory/own.
    own: Mapping[str, Any] = field(default_factory=dict, hash=False)
    literal: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Reason:
    """Why the resolver chose a component's version, in one sentence."""

    component: str
    text: str


def plain(value: Any) -> Any:
    """Mappings and sequences of any kind as dict and list, for YAML and JSON."""
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value
