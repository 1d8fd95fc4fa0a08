"""Wish x host -> stack: one consistent choice with a reason for each part, or the smallest clash.

What is known stands in the catalog; here it is turned into candidates and rules of `search`, so
that a stack is right because every rule was asked, and a refusal is short because the smallest set
of wishes and facts that clash is looked for. Preferences, in this order: what the platform's own
sources have and this program can install; the tested combination before a merely compatible one;
TensorFlow 2.9 where none was wished, then the newest; the newest patch; the platform's own source
before NVIDIA's, and fewer bytes before more. A driver of NVIDIA's own is taken only where one was
wished for: whoever changes the method on a machine must have meant it.

Pure: the same catalog, host and wish give the same stack.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from packaging.version import InvalidVersion, Version

from provision.catalog import (
    Catalog,
    ContainerToolkitRow,
    CudaReleaseRow,
    CudaRow,
    DriverRow,
    NvidiaPackagesRow,
    NvidiaSourceRow,
    PlatformRow,
    TensorflowRow,
)
from provision.catalog import gpus as known_gpus
from provision.errors import InputError, UnsatisfiableError
from provision.inventory import Fleet
from provision.models import CudnnWish, Gpu, HostFacts, Reason, Wish, plain
from provision.search import Demand, Problem, Rule

# The combination that everything here was first proved with.
DEFAULT_TENSORFLOW = "2.9"
ORIGINS = {
    "distribution": "the distribution's own packages",
    "wheels": "the wheels that tensorflow[and-cuda] brings",
    "network": "NVIDIA's network repository",
    "local": "NVIDIA's local installer",
}
DRIVER_ORIGINS = {
    "distribution": "its own packages",
    "network": "NVIDIA's network repository",
    "runfile": "NVIDIA's .run file",
}
# Where an installer lies whose version the catalog does not have.
RUNFILE = "https://us.download.nvidia.com/tesla/{0}/NVIDIA-Linux-x86_64-{0}.run"


@dataclass(frozen=True)
class Tensorflow:
    """A patch of a release."""

    version: str
    row: TensorflowRow = field(compare=False)


@dataclass(frozen=True)
class Cuda:
    """A CUDA for hosts of one platform; `platform` is empty where wheels bring it anywhere."""

    release: str
    version: str
    origin: str
    platform: str
    # Of wheels: the TensorFlow patch whose metadata names them.
    tensorflow: str = ""
    row: CudaRow | None = field(default=None, compare=False)
    facts: CudaReleaseRow | None = field(default=None, compare=False)
    # Of NVIDIA's own: where it lies, and how its packages are named (None: not known).
    source: NvidiaSourceRow | None = field(default=None, compare=False)
    names: NvidiaPackagesRow | None = field(default=None, compare=False)

    @property
    def installable(self) -> bool:
        """Can `lock` and the roles install it? The others are known, and refused there."""
        return self.origin in ("distribution", "wheels") or self.names is not None

    @property
    def prefix(self) -> str:
        """The directory of NVIDIA's own toolkit; "" of any other."""
        return self.names.of(self.names.prefix, self.release) if self.names else ""

    @property
    def driver_minimum(self) -> str:
        """The oldest driver this CUDA runs on, by minor version compatibility."""
        row = self.row or self.facts
        return row.driver_minimum if row else "0"


@dataclass(frozen=True)
class Cudnn:
    """The cuDNN that was chosen; without `sha256` it comes with the wheels."""

    version: str
    cuda: str
    sha256: str
    soname: str
    minimum: str = ""
    origin: str = "archive"
    tensorflow: str = ""
    architecture: str = ""


@dataclass(frozen=True)
class ContainerToolkit:
    """A version of NVIDIA's container toolkit, and where it lies."""

    version: str
    row: ContainerToolkitRow = field(compare=False)


@dataclass(frozen=True)
class Stack:
    """One consistent choice for one platform. Exact packages and wheels come with the lock."""

    platform: PlatformRow
    driver: DriverRow
    cuda: Cuda
    cudnn: Cudnn
    python: str
    tensorflow: str
    gcc: str
    constraints: tuple[str, ...]
    sdists: tuple[str, ...]
    reasons: tuple[Reason, ...]
    warnings: tuple[str, ...] = ()
    row: TensorflowRow | None = field(default=None, compare=False)
    container_toolkit: ContainerToolkit | None = None
    packages: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The name of the stack in lock, tree and receipt; says everything but the packages.

        Of those wished beside TensorFlow it has a hash, for two lists are two environments.
        """
        cuda = self.cuda.origin if self.cuda.origin != "distribution" else ""
        driver = self.driver.origin if self.driver.origin != "distribution" else ""
        toolkit = f"-toolkit{self.container_toolkit.version}" if self.container_toolkit else ""
        more = ""
        if self.packages:
            text = "\n".join(self.packages)
            more = f"-packages{hashlib.sha256(text.encode()).hexdigest()[:8]}"
        return (
            f"{self.platform.id}-tensorflow{self.tensorflow}{more}-cuda{cuda}{self.cuda.version}"
            f"-cudnn{self.cudnn.version}{toolkit}-driver{driver}{self.driver.version}"
        )

    @property
    def begins(self) -> str:
        """What the id in a lock begins with: of some drivers the index alone has the version."""
        driver = self.driver
        ubuntus = driver.origin == "distribution" and self.platform.distribution == "ubuntu"
        if driver.origin != "network" and not ubuntus:
            return self.id
        return f"{self.id.removesuffix(driver.version)}{driver.branch}."

    @property
    def native(self) -> bool:
        """Is all of it of Debian's own archive, or of wheels?"""
        own = self.driver.origin == "distribution" and self.cuda.origin in (
            "distribution",
            "wheels",
        )
        return own and self.platform.distribution == "debian"

    @property
    def missing(self) -> str:
        """What of it this version of the program knows but can't install yet; "" for nothing."""
        if not self.cuda.installable:
            return f"CUDA {self.cuda.release} from {ORIGINS[self.cuda.origin]}"
        if self.sdists:
            return f"{_list(self.sdists)} from source, and TensorFlow {self.tensorflow} needs it"
        return ""


@dataclass(frozen=True)
class Choice:
    """A row of the lock to be: hosts of this platform with this wish get this stack.

    With `generations` only those whose GPUs are of just these, for others of the same platform and
    wish get another stack. `models`: the GPUs that the inventory names for such hosts, each with
    the PCI device ids that it can mean.
    """

    platform: PlatformRow
    wish: Wish
    stack: Stack
    # Of these only TensorFlow's environments are made: the driver is the stack's.
    beside: tuple[Stack, ...] = ()
    generations: tuple[str, ...] = ()
    models: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)


def resolve_fleet(catalog: Catalog, fleet: Fleet) -> list[Choice]:
    """One choice per different wish and platform, and per GPU generations where these differ.

    A host of which no platform is known may be of any, so every one of the catalog that can satisfy
    its wish gets a row: of those that need nothing but Debian's archive, where there are such, for
    no archive is asked for a host that may not exist. A known host must be satisfied on what it is.
    UnsatisfiableError otherwise.
    """
    solver = _solver(catalog)
    choices: list[Choice] = []
    for wish, kinds in fleet.kinds():
        choices.extend(_choices(solver, wish, kinds))
    return choices


@dataclass
class _Slot:
    """Hosts of one platform and wish whose GPUs are of the same generations."""

    gpus: dict[Gpu, None] = field(default_factory=dict)
    hosts: list[str] = field(default_factory=list)
    models: dict[str, tuple[str, ...]] = field(default_factory=dict)
    # Is one of them known to be of this platform? Then it must get a stack.
    known: bool = False


def _choices(
    solver: Solver, wish: Wish, kinds: Sequence[tuple[HostFacts, list[str]]]
) -> list[Choice]:
    """The rows for one wish. What tells two rows apart on a host is the generations of its GPUs."""
    platforms = {row.id: row for row in solver.catalog.platforms}
    slots: dict[str, dict[tuple[str, ...], _Slot]] = {name: {} for name in platforms}
    for facts, hosts in kinds:
        gpus = gpus_of(facts, solver.catalog)
        models = {word: known_gpus.ids(word) for word in facts.models}
        for platform in _platforms_for(solver, wish, facts, gpus, hosts):
            slot = slots[platform].setdefault(_generations(gpus), _Slot())
            slot.gpus |= dict.fromkeys(gpus)
            slot.hosts += hosts
            slot.models |= models
            slot.known = slot.known or facts.platform is not None
    choices = []
    for name, found in slots.items():
        choices += _choices_here(solver, wish, platforms[name], found)
    if not choices:
        hosts = [host for _, names in kinds for host in names]
        raise solver.refusal(wish, where=f"gpu_stack of {_names(hosts)}")
    return choices


def _platforms_for(
    solver: Solver, wish: Wish, facts: HostFacts, gpus: Sequence[Gpu], hosts: Sequence[str]
) -> list[str]:
    """The ids of the platforms on which one kind of host can have its wish; at least one."""
    owner = f"gpu_stack of {_names(hosts)}"
    if facts.platform is None and facts.system:
        raise UnsatisfiableError(
            f"nothing is known of {facts.system}",
            where=owner,
            expected=" or ".join(row.title for row in solver.catalog.platforms),
            hint="take these hosts out of the group, or write gpu_platform where that is wrong",
        )
    candidates = [row for row in solver.catalog.platforms if facts.platform in (None, row.id)]
    known: Stack | None = None
    fitting: dict[str, Stack] = {}
    for platform in candidates:
        stack, beside = _side_by_side(solver, wish, platform, gpus)
        if stack is not None and beside is not None and not stack.missing:
            _refuse_twice((stack, *beside), owner)
            fitting[platform.id] = stack
        known = known or stack
    if fitting:
        return [name for name, stack in fitting.items() if stack.native] or list(fitting)
    only = candidates[0] if facts.platform is not None else None
    raise _refused(solver, wish, known, only, gpus, owner)


def _refused(
    solver: Solver,
    wish: Wish,
    known: Stack | None,
    platform: PlatformRow | None,
    gpus: Sequence[Gpu],
    owner: str,
) -> UnsatisfiableError:
    """Why a wish has no row: there is no stack, or (`known`) none that can be installed yet."""
    if known is None:
        return solver.refusal(wish, platform, gpus, where=owner)
    if not known.missing:
        return UnsatisfiableError(
            f"TensorFlow {known.tensorflow} can't have these beside it on one host",
            where=owner,
            got=_literal(wish),
            expected="TensorFlow releases that one driver and one Python of the platform "
            "serve, with CUDA as wheels or the same as the first one's",
            hint=f"on {known.platform.title} the driver would be {known.driver.branch}; "
            "`provision catalog` shows what runs where",
        )
    return UnsatisfiableError(
        f"this version can't install {known.missing}",
        where=owner,
        got=_literal(wish),
        expected=" or ".join(solver.installable(wish)),
        hint=f"the catalog knows it for {known.platform.title}: `provision catalog`",
    )


def _choices_here(
    solver: Solver,
    wish: Wish,
    platform: PlatformRow,
    slots: Mapping[tuple[str, ...], _Slot],
) -> list[Choice]:
    """One row where one stack serves all; else one per generations.

    Two GPUs of one generation can need different stacks, and look the same to the lock: they get
    the one that serves both.
    """
    found: dict[tuple[str, ...], tuple[Stack, tuple[Stack, ...]]] = {}
    for generations, slot in slots.items():
        stack, beside = _side_by_side(solver, wish, platform, tuple(slot.gpus))
        if stack is not None and beside is not None and not stack.missing:
            found[generations] = (stack, beside)
        elif slot.known:
            owner = f"gpu_stack of {_names(slot.hosts)}"
            raise _refused(solver, wish, stack, platform, tuple(slot.gpus), owner)
    if not found:
        return []
    models = {word: ids for slot in slots.values() for word, ids in slot.models.items()}
    first, *others = found.values()
    if all(_all_same(first, other) for other in others):
        every = dict.fromkeys(gpu for slot in slots.values() for gpu in slot.gpus)
        # The best for each is the best for all; asked again for its reasons.
        stack, beside = _side_by_side(solver, wish, platform, tuple(every))
        if stack is not None and beside is not None:
            first = (stack, beside)
        return [Choice(platform, wish, *first, (), models)]
    return [Choice(platform, wish, *found[of], of, models) for of in sorted(found)]


def _all_same(one: tuple[Stack, tuple[Stack, ...]], other: tuple[Stack, tuple[Stack, ...]]) -> bool:
    ours, theirs = (one[0], *one[1]), (other[0], *other[1])
    return len(ours) == len(theirs) and all(map(same, ours, theirs))


@dataclass(frozen=True)
class Explained:
    """A row for a host, with the reasons and warnings for this host alone."""

    choice: Choice
    reasons: tuple[Reason, ...]
    warnings: tuple[str, ...]


def explain(catalog: Catalog, fleet: Fleet, host: str) -> list[Explained]:
    """What a host gets: one row, or one per platform where its own is not known.

    UnsatisfiableError where it can't have its wish, whatever the others of the fleet can have.
    """
    solver = _solver(catalog)
    wish, facts = fleet.hosts[host], fleet.facts.get(host, HostFacts())
    gpus = gpus_of(facts, catalog)
    alike = [kinds for other, kinds in fleet.kinds() if other.literal == wish.literal]
    try:
        choices = _choices(solver, wish, alike[0])
    except UnsatisfiableError:
        # It is another host that can't have it.
        choices = _choices(solver, wish, [(facts, [host])])
    found = []
    for choice in choices:
        if facts.platform not in (None, choice.platform.id):
            continue
        if choice.generations not in ((), _generations(gpus)):
            continue
        own, _ = _side_by_side(solver, wish, choice.platform, gpus)
        if own is None:
            continue
        stack = own if same(own, choice.stack) else choice.stack
        found.append(Explained(choice, stack.reasons, stack.warnings))
    # The row for its generations comes before the one for all others.
    best = {one.choice.platform.id: one for one in found if not one.choice.generations}
    best |= {one.choice.platform.id: one for one in found if one.choice.generations}
    return list(best.values())


def same(one: Stack, other: Stack) -> bool:
    """Do both install the same? Why, and what to compile with, is not part of a lock's stack."""
    blank: dict[str, Any] = {"reasons": (), "warnings": (), "gcc": ""}
    return dataclasses.replace(one, **blank) == dataclasses.replace(other, **blank)


def gpus_of(facts: HostFacts, catalog: Catalog) -> tuple[Gpu, ...]:
    """The different kinds of GPU of a host, in one order whatever theirs was."""
    found = {known_gpus.gpu(word, catalog=catalog) for word in facts.gpus}
    return tuple(sorted(found, key=lambda gpu: (gpu.generation, gpu.name)))


def _generations(gpus: Iterable[Gpu]) -> tuple[str, ...]:
    return tuple(sorted({gpu.generation for gpu in gpus}))


def _side_by_side(
    solver: Solver, wish: Wish, platform: PlatformRow, gpus: Sequence[Gpu]
) -> tuple[Stack | None, tuple[Stack, ...] | None]:
    """The stack of a wish and those beside it, on the first driver that serves them all.

    Without such a driver None for those beside it.
    """
    first = solver.find(wish, platform, gpus)
    if first is None or not wish.beside:
        return first, ()
    branches = [d.branch for d in solver.catalog.drivers if d.platform == platform.id]
    others = (
        solver.find(_narrowed(wish, driver_branch=one), platform, gpus)
        for one in ([] if wish.driver_branch else branches)
    )
    for stack in (first, *others):
        if stack is None or stack.missing:
            continue
        beside = [_beside(solver, one, platform, stack, gpus) for one in wish.beside]
        found = tuple(one for one in beside if one is not None)
        if len(found) == len(beside):
            if stack is not first:
                stack = _told_driver(stack, found)
            return stack, found
    return first, None


def _told_driver(stack: Stack, beside: Sequence[Stack]) -> Stack:
    """With the true reason for a driver that was taken for those beside it."""
    versions = _list(_unique(one.tensorflow for one in beside))
    text = f"branch {stack.driver.branch} serves TensorFlow {versions} beside it as well"
    reasons = (
        Reason(one.component, text) if one.component == "nvidia_driver" else one
        for one in stack.reasons
    )
    return dataclasses.replace(stack, reasons=tuple(reasons))


def _refuse_twice(stacks: Sequence[Stack], owner: str) -> None:
    """InputError where two of a host's environments would be one and the same."""
    made: set[tuple[str, tuple[str, ...]]] = set()
    for one in stacks:
        if (one.tensorflow, one.packages) in made:
            raise InputError(
                f"TensorFlow {one.tensorflow} stands twice in one gpu_stack",
                where=owner,
                got=f"TensorFlow {_list([stack.tensorflow for stack in stacks])}",
                expected="every TensorFlow once, or with other packages",
            )
        made.add((one.tensorflow, one.packages))


def _beside(
    solver: Solver, wish: Wish, platform: PlatformRow, stack: Stack, gpus: Sequence[Gpu]
) -> Stack | None:
    """A stack with the driver of `stack`, and with its CUDA and cuDNN or those of wheels."""
    wish = _narrowed(wish, driver_branch=stack.driver.branch)
    if stack.driver.origin != "distribution":
        wish = _narrowed(
            wish, driver_branch=stack.driver.version, driver_source=stack.driver.origin
        )
    tries = [_narrowed(wish, cuda_source="wheels")]
    if stack.cuda.origin != "wheels":
        own = stack.cudnn.sha256 if stack.cudnn.origin == "own" else None
        cudnn = CudnnWish(stack.cudnn.version, stack.cudnn.cuda if own else None, own)
        shared = _narrowed(wish, cuda_source=stack.cuda.origin, cuda=stack.cuda.version)
        literal = {**shared.literal, "cudnn": dataclasses.asdict(cudnn)}
        tries.insert(0, dataclasses.replace(shared, cudnn=cudnn, literal=literal))
    for one in tries:
        found = solver.find(one, platform, gpus)
        if found is not None and not found.missing and found.driver.version == stack.driver.version:
            return _told_beside(found, stack)
    return None


def _told_beside(found: Stack, first: Stack) -> Stack:
    """With reasons true of it: its driver, and CUDA that is not wheels, are the first one's."""
    shared = {"nvidia_driver"} | ({"cuda", "cudnn"} if found.cuda.origin != "wheels" else set())
    text = f"shared with TensorFlow {first.tensorflow}, beside which it is"
    reasons = (
        Reason(one.component, text) if one.component in shared else one for one in found.reasons
    )
    return dataclasses.replace(found, reasons=tuple(reasons))


def _narrowed(wish: Wish, **more: str) -> Wish:
    """The wish with further words; its literal says them too, for it is what is remembered by."""
    changes: dict[str, Any] = {**more, "literal": {**wish.literal, **more}}
    return dataclasses.replace(wish, **changes)


def resolve(catalog: Catalog, platform: PlatformRow, wish: Wish, gpus: Sequence[Gpu] = ()) -> Stack:
    """The stack for one platform, its GPUs (none: not told) and a wish, or UnsatisfiableError."""
    return _solver(catalog).resolve(wish, platform, gpus)


def _solver(catalog: Catalog) -> Solver:
    """One per catalog, which it keeps: most programs have one."""
    if id(catalog) not in _SOLVERS:
        _SOLVERS[id(catalog)] = Solver(catalog)
    return _SOLVERS[id(catalog)]


class Solver:
    """The catalog as candidates and rules. Made once, asked for every kind of host."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._facts = {row.release: row for row in catalog.cuda_releases}
        self._tensorflows = [
            Tensorflow(patch, row)
            for row in sorted(catalog.tensorflow, key=lambda r: Version(r.release), reverse=True)
            for patch in sorted(row.patches, key=Version, reverse=True)
        ]
        self._told: dict[Any, Stack | None] = {}
        self._answers: dict[Any, Any] = {}

    # asking

    def resolve(self, wish: Wish, platform: PlatformRow, gpus: Sequence[Gpu] = ()) -> Stack:
        """As `find`, but UnsatisfiableError where there is none."""
        stack = self.find(wish, platform, gpus)
        if stack is None:
            raise self.refusal(wish, platform, gpus)
        return stack

    def find(
        self, wish: Wish, platform: PlatformRow | None = None, gpus: Sequence[Gpu] = ()
    ) -> Stack | None:
        """The best stack, or None. Each kind of host is solved once."""
        key = (json.dumps(plain(wish.literal), sort_keys=True), platform and platform.id, *gpus)
        if key not in self._told:
            problem = self._problem(wish, gpus)
            found = problem.solve(self._demands(wish, platform, gpus))
            self._told[key] = None if found is None else self._stack(found, wish)
        return self._told[key]

    def installable(self, wish: Wish) -> list[str]:
        """TensorFlow releases near the wished one that some platform can have installed."""
        near = [row.release for row in self._offered]
        wanted = wish.tensorflow or DEFAULT_TENSORFLOW
        return [f'tensorflow: "{v}"' for v in nearest(Version(wanted), near)]

    # the problem

    def _problem(self, wish: Wish, gpus: Sequence[Gpu]) -> Problem:
        catalog = self.catalog
        own = self._own_cudnn(wish)
        wanted = _version(wish.tensorflow, "tensorflow") if wish.tensorflow else None

        def tensorflow_order(value: Tensorflow, _chosen: Mapping[str, Any]) -> Any:
            release = Version(value.row.release)
            if wanted is None:
                return value.row.release != DEFAULT_TENSORFLOW
            return (_distance(wanted, release), _distance(wanted, Version(value.version)))

        return Problem(
            {
                "platform": list(catalog.platforms),
                "gpus": [(), tuple(gpus)] if gpus else [()],
                "tensorflow": self._tensorflows,
                "python": _newest({p for row in catalog.tensorflow for p in row.pythons}),
                "cuda": self._cudas,
                "cudnn": [*([own] if own else []), *self._cudnns],
                "driver": self._drivers(wish),
                "gcc": self._gccs,
                "container_toolkit": self._toolkits
                if wish.container_toolkit is not None
                else [None],
            },
            RULES,
            {
                "platform": lambda p, _: p.id not in self._own_platforms,
                # A redraw for an alternative stays near to what was wished.
                "tensorflow": tensorflow_order if wanted is None else _same,
                "python": _python_order,
                "cuda": _cuda_order,
                "cudnn": _cudnn_order,
                "gcc": _gcc_order,
            },
            self._answers,
        )

    @functools.cached_property
    def _own_platforms(self) -> set[str]:
        """Those whose own packages hold a CUDA."""
        return {row.platform for row in self.catalog.cuda}

    @functools.cached_property
    def _gccs(self) -> list[str]:
        found = {major for row in self.catalog.platforms for major in row.gccs}
        found |= {row.gcc_maximum for row in self.catalog.cuda_releases}
        # Last, none at all: nobody compiles on most hosts.
        return [*_newest(found), ""]

    @functools.cached_property
    def _toolkits(self) -> list[ContainerToolkit | None]:
        """The newest first; last, none at all."""
        found = [
            ContainerToolkit(version, row)
            for row in self.catalog.nvidia_container_toolkit
            for version in row.versions
        ]
        return [*sorted(found, key=lambda one: Version(one.version), reverse=True), None]

    @functools.cached_property
    def _cudas(self) -> list[Cuda]:
        found: list[Cuda] = []
        for row in self.catalog.cuda:
            facts = self._facts.get(row.release)
            found.append(
                Cuda(row.release, row.version, "distribution", row.platform, row=row, facts=facts)
            )
        for one in self.catalog.tensorflow:
            if one.cuda_wheels:
                version = wheel_versions(one)[f"nvidia-cuda-runtime-cu{one.cuda.split('.')[0]}"]
                patch = max(one.patches, key=Version)
                found.append(
                    Cuda(one.cuda, version, "wheels", "", patch, facts=self._facts.get(one.cuda))
                )
        architectures = {row.id: row.architecture for row in self.catalog.platforms}
        for source in self.catalog.nvidia_sources:
            if source.architecture != architectures[source.platform]:
                continue
            for release, facts in self._facts.items():
                version = max(facts.versions, key=Version)
                if source.kind == "local" and source.cuda in facts.versions:
                    version = str(source.cuda)
                elif source.kind != "network" or not source.carries(release):
                    continue
                names = (row for row in self.catalog.nvidia_packages if row.names(release))
                found.append(
                    Cuda(
                        release, version, source.kind, source.platform,
                        facts=facts, source=source, names=next(names, None),
                    )
                )  # fmt: skip
        return found

    def _drivers(self, wish: Wish) -> list[DriverRow]:
        """The candidates, the platform's own first; NVIDIA's only where a source was wished for.

        A new-feature branch lives until the next one: production and long-term ones come before it.
        """
        origins = list(DRIVER_ORIGINS)
        brief = {b.branch for b in self.catalog.driver_branches if b.kind == "new-feature"}
        known = [*self.catalog.drivers, *self._nvidias_drivers]
        if wish.driver_branch is not None and "." in wish.driver_branch:
            known += self._exact_drivers(wish)
        return sorted(
            (d for d in known if wish.driver_source or d.origin == "distribution"),
            key=lambda d: (
                origins.index(d.origin),
                d.branch in brief,
                [-part for part in Version(d.version).release],
            ),
        )

    @functools.cached_property
    def _nvidias_drivers(self) -> list[DriverRow]:
        """A row per platform and branch of NVIDIA's repository, and per installer.

        Of a repository the version is the branch's newest; the index has the last word.
        """
        newest = {row.branch: row.newest for row in self.catalog.driver_branches}
        found: list[DriverRow] = []
        for source in self.catalog.nvidia_sources:
            for branch in source.drivers if source.kind == "network" else ():
                row = self._network_driver(source, branch, newest.get(branch) or branch)
                found += [row] if row is not None else []
        for run in self.catalog.nvidia_runfiles:
            if run.kind == "driver":
                found += self._run_drivers(run.version, run.url, run.sha256 or "", run.source)
        return found

    def _network_driver(
        self, source: NvidiaSourceRow, branch: str, version: str
    ) -> DriverRow | None:
        """The driver of a branch in a repository; None where its names are not known."""
        platform = next(row for row in self.catalog.platforms if row.id == source.platform)
        if platform.architecture != source.architecture:
            return None
        for names in self.catalog.nvidia_driver_packages:
            if names.names(platform.distribution, branch):
                return self._driver(
                    platform, version, "network", source.url, "", source.source,
                    *(
                        [name.replace("<b>", branch) for name in group]
                        for group in (names.userspace, names.kernel, names.desktop)
                    ),
                )  # fmt: skip
        return None

    def _run_drivers(self, version: str, url: str, sha256: str, source: str) -> list[DriverRow]:
        """One per platform: an installer is for all."""
        return [
            self._driver(platform, version, "runfile", url, sha256, source, [], [], [])
            for platform in self.catalog.platforms
            if platform.architecture == "x86_64"
        ]

    def _driver(
        self, platform: PlatformRow, version: str, origin: str, url: str, sha256: str, source: str,
        userspace: list[str], kernel: list[str], desktop: list[str],
    ) -> DriverRow:  # fmt: skip
        branch = version.split(".", maxsplit=1)[0]
        cuda = {row.branch: row.supports_cuda for row in self.catalog.driver_branches}
        return DriverRow(
            platform=platform.id, branch=branch, version=version, origin=origin, url=url,
            sha256=sha256, supports_cuda=cuda.get(branch) or "", userspace=userspace,
            kernel=kernel, desktop=desktop, branch_sources=[], source=source,
        )  # fmt: skip

    def _exact_drivers(self, wish: Wish) -> list[DriverRow]:
        """Rows for a version that was wished for and that no row has; the lock proves them.

        Of Debian's own drivers the catalog knows every version.
        """
        version = str(wish.driver_branch)
        branch = version.split(".", maxsplit=1)[0]
        known = [*self.catalog.drivers, *self._nvidias_drivers]
        if branch not in [row.branch for row in self.catalog.driver_branches]:
            return []
        if wish.driver_sha256 is not None:
            urls = [d.url for d in known if d.origin == "runfile" and d.version == version]
            url = (urls or [RUNFILE.format(version)])[0]
            return self._run_drivers(version, url, wish.driver_sha256, f"{url} by its hash")
        found: list[DriverRow] = []
        ubuntu = [row.id for row in self.catalog.platforms if row.distribution == "ubuntu"]
        for row in known:
            has = {d.version for d in known if (d.platform, d.origin) == (row.platform, row.origin)}
            again = any((d.platform, d.origin) == (row.platform, row.origin) for d in found)
            if row.branch != branch or version in has or again or row.origin == "runfile":
                continue
            if row.origin == "network" or row.platform in ubuntu:
                found.append(row.model_copy(update={"version": version}))
        if not any(d.origin == "runfile" and d.version == version for d in known):
            url = RUNFILE.format(version)
            found += self._run_drivers(version, url, "", f"inferred from others: {url}")
        return found

    @functools.cached_property
    def _cudnns(self) -> list[Cudnn]:
        found = [
            Cudnn(row.version, row.cuda, row.sha256, row.soname, architecture=row.architecture)
            for row in sorted(self.catalog.cudnn, key=lambda c: Version(c.version), reverse=True)
        ]
        for one in self.catalog.tensorflow:
            for name, version in wheel_versions(one).items():
                if name.startswith("nvidia-cudnn"):
                    major = Version(version).major
                    patch = max(one.patches, key=Version)
                    found.append(
                        Cudnn(
                            version, one.cuda, "", f"libcudnn.so.{major}",
                            origin="wheels", tensorflow=patch,
                        )
                    )  # fmt: skip
        return found

    def _own_cudnn(self, wish: Wish) -> Cudnn | None:
        """An archive of the user's own, known by its hash."""
        if wish.cudnn is None or wish.cudnn.sha256 is None:
            return None
        version = _version(wish.cudnn.version, "cudnn")
        cuda = wish.cudnn.cuda or wish.cuda or ""
        return Cudnn(
            wish.cudnn.version, cuda, wish.cudnn.sha256, f"libcudnn.so.{version.major}",
            origin="own",
        )  # fmt: skip

    def _demands(
        self, wish: Wish, platform: PlatformRow | None, gpus: Sequence[Gpu]
    ) -> list[Demand]:
        """The host first: of several smallest clashes the one with the host itself is told."""
        found: list[Demand] = []

        def demand(name: str, variable: str, holds: Callable[[Any], bool], text: str) -> None:
            found.append(Demand(name, variable, holds, text))

        if platform is not None:
            demand("platform", "platform", lambda p: p.id == platform.id, platform.title)
        if gpus:
            names = ", ".join(_unique(f"{gpu.name} ({gpu.generation})" for gpu in gpus))
            demand("gpus", "gpus", lambda g: g == tuple(gpus), names)
        if wish.tensorflow is not None:
            release = _version(wish.tensorflow, "tensorflow")
            demand(
                "tensorflow", "tensorflow",
                lambda t: _is(release, t.version), f'tensorflow: "{wish.tensorflow}"',
            )  # fmt: skip
        if wish.python is not None:
            python = _version(wish.python, "python")
            demand("python", "python", lambda p: Version(p) == python, f'python: "{wish.python}"')
        if wish.cuda is not None:
            cuda = _version(wish.cuda, "cuda")
            demand("cuda", "cuda", lambda c: _is(cuda, c.version), f'cuda: "{wish.cuda}"')
        if wish.cuda_source is not None:
            demand(
                "cuda_source", "cuda",
                lambda c: c.origin == wish.cuda_source, f"cuda_source: {wish.cuda_source}",
            )  # fmt: skip
        if wish.cudnn is not None:
            version = _version(wish.cudnn.version, "cudnn")
            own = wish.cudnn.sha256 is not None
            demand(
                "cudnn", "cudnn",
                lambda c: Version(c.version) == version and (c.origin == "own") == own
                and (wish.cudnn is None or wish.cudnn.cuda in (None, c.cuda)),
                f"cudnn: {json.dumps(plain(wish.literal.get('cudnn', wish.cudnn.version)))}",
            )  # fmt: skip
        if wish.driver_branch is not None:
            branch = wish.driver_branch
            demand(
                "driver_branch", "driver",
                lambda d: branch in (d.branch, d.version)
                and wish.driver_sha256 in (None, d.sha256),
                f'driver_branch: "{branch}"',
            )  # fmt: skip
        if wish.driver_source is not None:
            demand(
                "driver_source", "driver",
                lambda d: d.origin == wish.driver_source, f"driver_source: {wish.driver_source}",
            )  # fmt: skip
        if wish.gcc is not None:
            demand("gcc", "gcc", lambda g: g == wish.gcc, f'gcc: "{wish.gcc}"')
        if wish.container_toolkit is not None:
            asked = wish.container_toolkit and _version(wish.container_toolkit, "container_toolkit")
            demand(
                "container_toolkit", "container_toolkit",
                lambda t: t is not None and (not asked or _is(asked, t.version)),
                f"container_toolkit: {json.dumps(plain(wish.literal.get('container_toolkit')))}",
            )  # fmt: skip
        return found

    # the answer

    def _stack(self, found: Mapping[str, Any], wish: Wish) -> Stack:
        platform, tensorflow = found["platform"], found["tensorflow"]
        cuda, cudnn, driver = found["cuda"], found["cudnn"], found["driver"]
        row = tensorflow.row
        constraints = list(row.constraints)
        if cuda.origin == "wheels":
            constraints += [f"{name}=={v}" for name, v in wheel_versions(row).items()]
        if cudnn.origin == "own" and not cudnn.cuda:
            cudnn = Cudnn(cudnn.version, cuda.release, cudnn.sha256, cudnn.soname, origin="own")
        cudnn = Cudnn(
            cudnn.version, cudnn.cuda, cudnn.sha256, cudnn.soname, row.cudnn_minimum, cudnn.origin
        )
        return Stack(
            platform=platform,
            driver=driver,
            cuda=cuda,
            cudnn=cudnn,
            python=found["python"],
            tensorflow=tensorflow.version,
            gcc=found["gcc"],
            constraints=tuple(constraints),
            sdists=_sdists(row, found["python"]),
            reasons=tuple(_reasons(found, wish)),
            warnings=tuple(_warnings(found)),
            row=row,
            container_toolkit=found["container_toolkit"],
            packages=wish.packages,
        )

    def in_the_way(
        self, wish: Wish, platform: PlatformRow, gpus: Sequence[Gpu] = ()
    ) -> tuple[str, ...]:
        """The names of the rules that make the smallest clash; () where there is a stack."""
        problem = self._problem(wish, gpus)
        clash = problem.clash(self._demands(wish, platform, gpus))
        return tuple(rule.name for rule in self._reasons(problem, clash)) if clash else ()

    def refusal(
        self,
        wish: Wish,
        platform: PlatformRow | None = None,
        gpus: Sequence[Gpu] = (),
        *,
        where: str = "gpu_stack",
    ) -> UnsatisfiableError:
        """Why not: the smallest set of wishes and facts that clash, and what would work."""
        problem = self._problem(wish, gpus)
        demands = self._demands(wish, platform, gpus)
        clash = problem.clash(demands)
        unknown = self._branch_for_gpus(problem, wish, platform, clash)
        unknown = unknown or self._unknown(problem, wish, clash)
        if unknown is not None:
            unknown.where = where
            return unknown
        rules = self._reasons(problem, clash)
        facts = _unique(FACTS[rule.name](self, problem, clash) for rule in rules)
        instead = self._nvidias_driver_instead(wish, platform, gpus)
        instead += self._instead(problem, wish, demands)
        return UnsatisfiableError(
            _headline(clash),
            where=where,
            got="; ".join(facts) or _literal(wish),
            expected=" or ".join(instead[:3]) or "another wish, or another host",
            hint=_hint(clash, rules),
        )

    def _reasons(self, problem: Problem, clash: Sequence[Demand]) -> Sequence[Rule]:
        """The rules that make it a clash; such of what was asked for rather than of all else."""
        asked = {one.variable for one in clash}
        rules = sorted(problem.rules, key=lambda rule: len({*rule.variables} - asked))
        return Problem(problem.candidates, rules, {}, problem.answers).reasons(clash)

    def _unknown(
        self, problem: Problem, wish: Wish, clash: Sequence[Demand]
    ) -> UnsatisfiableError | None:
        """A wish for what never existed, with the closest that does."""
        if len(clash) != 1 or _left(problem, clash, clash[0].variable):
            return None
        known: dict[str, list[str]] = {
            "tensorflow": [v for r in self._offered for v in (r.release, *r.patches)],
            "python": _newest({p for r in self.catalog.tensorflow for p in r.pythons}),
            "cuda": [v for c in self._cudas for v in (c.release, c.version)],
            "cudnn": [c.version for c in self._cudnns],
            "driver_branch": [
                d.version if "." in (wish.driver_branch or "") else d.branch
                for d in problem.candidates["driver"]
            ],
            "gcc": [g for g in self._gccs if g],
            "container_toolkit": [t.version for t in self._toolkits if t is not None],
        }
        word = clash[0].name
        if word == "driver_branch" and self._branch(str(wish.driver_branch)):
            near = nearest(Version(str(wish.driver_branch)), known[word])
            return UnsatisfiableError(
                f"no platform has packages of driver branch {wish.driver_branch}",
                got=clash[0].text,
                expected=" or ".join(f'"{v}"' for v in near),
                hint="an installer of NVIDIA's is wished for by its exact version, with "
                "driver_source: runfile",
            )
        if word not in known or not known[word] or getattr(wish, word) == "":
            return None
        titles = {
            "tensorflow": "TensorFlow", "python": "Python", "cuda": "CUDA", "cudnn": "cuDNN",
            "driver_branch": "driver branch", "gcc": "gcc",
            "container_toolkit": "container toolkit",
        }  # fmt: skip
        asked = wish.cudnn.version if word == "cudnn" and wish.cudnn else getattr(wish, word)
        near = nearest(_version(asked, word), known[word])
        own = ', or {version: "...", cuda: "...", sha256: "<64 hex digits>"} of your own archive'
        return UnsatisfiableError(
            f"no {titles[word]} {asked} in the catalog",
            got=clash[0].text,
            expected=" or ".join(f'"{v}"' for v in near) + (own if word == "cudnn" else ""),
            hint="`provision catalog` shows what there is",
        )

    def _nvidias_driver_instead(
        self, wish: Wish, platform: PlatformRow | None, gpus: Sequence[Gpu]
    ) -> list[str]:
        """The same wish with NVIDIA's own driver, where that alone is in the way on this host."""
        if platform is None or wish.driver_source is not None:
            return []
        for source in ("network", "runfile"):
            other = _narrowed(wish, driver_source=source)
            stack = self.find(other, platform, gpus)
            if stack is not None and not stack.missing:
                return [f"{_literal(other)} on {platform.title}"]
        return []

    def _branch(self, text: str) -> bool:
        """Is this a driver branch of NVIDIA's, whoever has packages of it?"""
        return text in [row.branch for row in self.catalog.driver_branches]

    @functools.cached_property
    def _offered(self) -> list[TensorflowRow]:
        """The releases that some platform can have installed."""
        found = []
        for row in self.catalog.tensorflow:
            wish = Wish(tensorflow=row.release, literal={"tensorflow": row.release})
            stacks = (self.find(wish, platform) for platform in self.catalog.platforms)
            if any(one is not None and not one.missing for one in stacks):
                found.append(row)
        return found

    def _branch_for_gpus(
        self,
        problem: Problem,
        wish: Wish,
        platform: PlatformRow | None,
        clash: Sequence[Demand],
    ) -> UnsatisfiableError | None:
        """A wish for a branch of NVIDIA's that does not drive the host's GPUs; None for another."""
        asked = str(wish.driver_branch)
        branch = asked.partition(".")[0]
        words = {one.name for one in clash}
        if "driver_branch" not in words or words - {"driver_branch", "gpus", "platform"}:
            return None
        if not self._branch(branch):
            return None
        gpus = problem.candidates["gpus"][-1]
        like = next(iter(problem.candidates["driver"]), None)
        if like is None:
            return None
        wished = like.model_copy(update={"branch": branch})
        without = [gpu for gpu in gpus if not _driver_of_gpus([gpu], wished)]
        if not without:
            return None
        fitting = {
            driver.branch
            for driver in problem.candidates["driver"]
            if _driver_of_gpus(gpus, driver)
            and (platform is None or driver.platform == platform.id)
        }
        told = [
            f"{gpu.driver_last} is the last for {gpu.generation}"
            if gpu.driver_last and Version(gpu.driver_last) < Version(branch)
            else f"{gpu.driver_first} is the first for {gpu.generation}"
            for gpu in without
        ]
        return UnsatisfiableError(
            f"driver branch {branch} does not drive {_list(_unique(g.name for g in without))}",
            got=f'driver_branch: "{asked}"; {"; ".join(_unique(told))}',
            expected=" or ".join(f'"{one}"' for one in nearest(Version(branch), fitting))
            or "another GPU: no branch known here drives all of this host's",
            hint="`provision catalog --gpu` shows what runs with a GPU",
        )

    def _instead(self, problem: Problem, wish: Wish, demands: Sequence[Demand]) -> list[str]:
        """The nearest stacks: of the demands as few as possible are given up, the host's last.

        Nobody changes a GPU for a wish, so they stay.
        """
        given = [one for one in demands if one.name != "gpus"]
        given.sort(key=lambda one: one.name == "platform")
        for size in range(1, len(given) + 1):
            found = []
            for dropped in itertools.combinations(given, size):
                rest = [one for one in demands if one not in dropped]
                near = Problem(
                    problem.candidates,
                    problem.rules,
                    {
                        **problem.order,
                        **{d.variable: self._near(d, wish, problem) for d in dropped},
                    },
                    problem.answers,
                )
                # What can be installed now comes before what is only known.
                solution = near.solve([*rest, *INSTALLED]) or near.solve(rest)
                if solution is not None:
                    found.append(self._paste(wish, dropped, solution))
            if found:
                return _unique(found)[:3]
        return []

    def _near(self, demand: Demand, wish: Wish, problem: Problem) -> Any:
        own = problem.order.get(demand.variable)
        asked = wish.cudnn.version if demand.name == "cudnn" and wish.cudnn else ""
        asked = asked or str(getattr(wish, demand.name, "") or "")
        if not asked or not re.fullmatch(r"[\d.]+", asked):
            return own or _same
        wanted = Version(asked)

        def order(value: Any, chosen: Mapping[str, Any]) -> Any:
            text = getattr(value, "branch", None) or getattr(value, "version", None) or value
            near = _distance(wanted, Version(text)) if text else 1 << 60
            return (near, own(value, chosen)) if own is not None else (near,)

        return order

    def _paste(self, wish: Wish, dropped: Sequence[Demand], solution: Mapping[str, Any]) -> str:
        """The wish with other words in place of those given up, as it stands in an inventory."""
        literal = dict(plain(wish.literal))
        instead = {
            "tensorflow": solution["tensorflow"].row.release,
            "python": solution["python"],
            "cuda": solution["cuda"].release,
            "cuda_source": solution["cuda"].origin,
            "cudnn": solution["cudnn"].version,
            "driver_branch": solution["driver"].branch,
            "driver_source": solution["driver"].origin,
            "gcc": solution["gcc"],
            "container_toolkit": getattr(solution["container_toolkit"], "version", ""),
        }
        for one in dropped:
            if one.name in instead:
                literal[one.name] = instead[one.name]
        literal = {key: value for key, value in literal.items() if value}
        missing = self._stack(solution, wish).missing
        known = " (known, and not to be installed by this version)" if missing else ""
        return f"gpu_stack: {_flow(literal)} on {solution['platform'].title}{known}"


# The rules. Each is a fact of the catalog; FACTS tells it in words where it is in the way.


def _python_of_tensorflow(tensorflow: Tensorflow, python: str) -> bool:
    return python in tensorflow.row.pythons


def _python_of_cuda(tensorflow: Tensorflow, cuda: Cuda, python: str) -> bool:
    pythons = tensorflow.row.cuda_wheels_pythons
    return cuda.origin != "wheels" or not pythons or python in pythons


def _python_of_platform(platform: PlatformRow, python: str) -> bool:
    return python in platform.pythons


def _cuda_of_platform(platform: PlatformRow, cuda: Cuda) -> bool:
    return cuda.platform in ("", platform.id)


def _cuda_of_tensorflow(tensorflow: Tensorflow, cuda: Cuda) -> bool:
    """It has every library that TensorFlow opens by name, of no older a release than built with."""
    row = tensorflow.row
    if cuda.origin == "wheels":
        return cuda.tensorflow == tensorflow.version
    if cuda.release == row.cuda:
        return True
    has = set(cuda.facts.sonames if cuda.facts else cuda.row.sonames if cuda.row else ())
    needed = {name for name in row.sonames if not name.startswith("libcudnn")}
    return bool(needed) and needed <= has and Version(cuda.release) > Version(row.cuda)


def _cudnn_of_tensorflow(tensorflow: Tensorflow, cudnn: Cudnn) -> bool:
    """The same major version, and no older than what it was built with."""
    if cudnn.origin == "wheels" and cudnn.tensorflow != tensorflow.version:
        return False
    minimum, version = Version(tensorflow.row.cudnn_minimum), Version(cudnn.version)
    return version.major == minimum.major and version >= minimum


def _cudnn_of_cuda(cuda: Cuda, cudnn: Cudnn) -> bool:
    if (cudnn.origin == "wheels") != (cuda.origin == "wheels"):
        return False
    return cudnn.origin == "wheels" or not cudnn.cuda or serves(cudnn.cuda, cuda.release)


def _cudnn_of_platform(platform: PlatformRow, cudnn: Cudnn) -> bool:
    return cudnn.architecture in ("", platform.architecture)


def _gpus_of_platform(platform: PlatformRow, gpus: Sequence[Gpu]) -> bool:
    """A GPU on one board with a CPU is in hosts of that CPU's architecture only."""
    return all(gpu.architecture in ("", platform.architecture) for gpu in gpus)


def _driver_of_platform(platform: PlatformRow, driver: DriverRow) -> bool:
    return driver.platform == platform.id


def _driver_of_cuda(cuda: Cuda, driver: DriverRow) -> bool:
    return Version(driver.version) >= Version(cuda.driver_minimum)


def _driver_source_of_cuda(cuda: Cuda, driver: DriverRow) -> bool:
    """The platform's own CUDA depends on the platform's own libcuda1."""
    return cuda.origin != "distribution" or driver.origin == "distribution"


def _driver_of_tensorflow(tensorflow: Tensorflow, driver: DriverRow) -> bool:
    return Version(driver.version) >= Version(tensorflow.row.driver_minimum)


def _driver_of_gpus(gpus: Sequence[Gpu], driver: DriverRow) -> bool:
    branch = Version(driver.branch)
    return all(
        Version(gpu.driver_first) <= branch
        and (gpu.driver_last is None or branch <= Version(gpu.driver_last))
        for gpu in gpus
    )


def _code_for_gpus(tensorflow: Tensorflow, gpus: Sequence[Gpu]) -> bool:
    """Machine code of the same major version, or PTX that the driver can translate."""
    return all(_runs(tensorflow.row, gpu) != "" for gpu in gpus)


def _cuda_for_gpus(cuda: Cuda, gpus: Sequence[Gpu]) -> bool:
    """A release that has dropped a generation has no libraries for it."""
    return all(
        gpu.cuda_last is None or Version(cuda.release) <= Version(gpu.cuda_last) for gpu in gpus
    )


def _gcc_of_platform(platform: PlatformRow, gcc: str) -> bool:
    return gcc == "" or gcc in platform.gccs


def _gcc_of_cuda(cuda: Cuda, gcc: str) -> bool:
    """nvcc refuses a newer host compiler (host_config.h)."""
    return gcc == "" or cuda.facts is None or int(gcc) <= int(cuda.facts.gcc_maximum)


def _toolkit_of_platform(platform: PlatformRow, toolkit: ContainerToolkit | None) -> bool:
    """Its repository serves every distribution that takes Debian packages, by architecture."""
    return toolkit is None or toolkit.row.architecture == platform.architecture


RULES = (
    Rule("python-wheels", ("tensorflow", "python"), _python_of_tensorflow),
    Rule("python-platform", ("platform", "python"), _python_of_platform),
    Rule("cuda-platform", ("platform", "cuda"), _cuda_of_platform),
    Rule("cuda-tensorflow", ("tensorflow", "cuda"), _cuda_of_tensorflow),
    Rule("python-cuda", ("tensorflow", "cuda", "python"), _python_of_cuda),
    Rule("cuda-gpus", ("cuda", "gpus"), _cuda_for_gpus),
    Rule("cudnn-tensorflow", ("tensorflow", "cudnn"), _cudnn_of_tensorflow),
    Rule("cudnn-cuda", ("cuda", "cudnn"), _cudnn_of_cuda),
    Rule("cudnn-platform", ("platform", "cudnn"), _cudnn_of_platform),
    Rule("gpus-platform", ("platform", "gpus"), _gpus_of_platform),
    Rule("driver-platform", ("platform", "driver"), _driver_of_platform),
    Rule("driver-cuda", ("cuda", "driver"), _driver_of_cuda),
    Rule("driver-source", ("cuda", "driver"), _driver_source_of_cuda),
    Rule("driver-tensorflow", ("tensorflow", "driver"), _driver_of_tensorflow),
    Rule("driver-gpus", ("gpus", "driver"), _driver_of_gpus),
    Rule("code-gpus", ("tensorflow", "gpus"), _code_for_gpus),
    Rule("gcc-platform", ("platform", "gcc"), _gcc_of_platform),
    Rule("gcc-cuda", ("cuda", "gcc"), _gcc_of_cuda),
    Rule("toolkit-platform", ("platform", "container_toolkit"), _toolkit_of_platform),
)


def _runs(row: TensorflowRow, gpu: Gpu) -> str:
    """How TensorFlow's code runs on a GPU: "binary", "translated", or "" for not at all.

    Machine code runs on its own and later minor versions of a compute capability; PTX of an older
    one is translated by the driver at the first start
    (https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#binary-compatibility). On GPUs
    newer than `ptx_newest` that has failed, or was never reported to work.
    """
    have = Version(gpu.capability)
    for one in row.capabilities:
        code = Version(one)
        if code.major == have.major and code.minor <= have.minor:
            return "binary"
    if have > Version(row.ptx_newest):
        return ""
    return "translated" if any(Version(one) <= have for one in row.ptx) else ""


# Orders of preference

INSTALLED = (Demand("installed", "cuda", lambda c: c.installable),)


def _same(_value: Any, _chosen: Mapping[str, Any]) -> int:
    return 0


def _cuda_order(value: Cuda, chosen: Mapping[str, Any]) -> Any:
    row = chosen["tensorflow"].row
    return (
        not value.installable,
        value.release != row.cuda,
        list(ORIGINS).index(value.origin),
        # The nearest to what was tested, and its newest patch.
        _distance(Version(row.cuda), Version(value.release)),
        [-part for part in Version(value.version).release],
    )


def _cudnn_order(value: Cudnn, chosen: Mapping[str, Any]) -> Any:
    row = chosen["tensorflow"].row
    tested = value.version == row.cudnn or value.version.startswith(row.cudnn + ".")
    distance = _distance(Version(row.cudnn), Version(value.version))
    return (value.origin == "own", not tested, distance)


def _python_order(value: str, chosen: Mapping[str, Any]) -> Any:
    """One with wheels of all that is needed; the platform's own before another that it has too."""
    return (
        bool(_sdists(chosen["tensorflow"].row, value)),
        value != chosen["platform"].pythons[0],
    )


def _sdists(row: TensorflowRow, python: str) -> tuple[str, ...]:
    """What has no wheel for this Python."""
    return tuple(name for name, pythons in row.sdists.items() if not pythons or python in pythons)


def _gcc_order(value: str, chosen: Mapping[str, Any]) -> Any:
    """The platform's own if nvcc takes it, else the newest that it does; none comes last."""
    return (value == "", value != chosen["platform"].gcc)


# In words


def _reasons(found: Mapping[str, Any], wish: Wish) -> Iterable[Reason]:
    platform, tensorflow, cuda = found["platform"], found["tensorflow"], found["cuda"]
    cudnn, driver, row = found["cudnn"], found["driver"], found["tensorflow"].row
    needed = max(cuda.driver_minimum, row.driver_minimum, key=Version)
    how = "was wished" if wish.driver_branch else f"is {platform.title}'s"
    what = f"branch {driver.branch}"
    if "." in (wish.driver_branch or ""):
        what = f"version {driver.version}"
    from_ = ""
    if driver.origin != "distribution":
        how = "was wished" if wish.driver_branch else "is the newest known"
        from_ = f", from {DRIVER_ORIGINS[driver.origin]} as wished"
    window = ""
    for gpu in found["gpus"]:
        last = f" to {gpu.driver_last}" if gpu.driver_last else " or newer"
        window += f"; {gpu.name} ({gpu.generation}) is driven by branches {gpu.driver_first}{last}"
    yield Reason(
        "nvidia_driver",
        f"{what} {how}{from_}; CUDA {cuda.release} needs {needed} or newer{window}",
    )
    tested = f"TensorFlow {row.release} was built and tested with CUDA {row.cuda}"
    if cuda.origin == "wheels":
        tested += f", and tensorflow[and-cuda] brings {cuda.version} as wheels"
    elif cuda.release != row.cuda:
        tested += f"; {cuda.release} has the same libraries, and was not tested with it"
    if cuda.prefix:
        tested += f"; it comes from {ORIGINS[cuda.origin]} and lies in {cuda.prefix}"
    yield Reason("cuda", tested)
    if cudnn.origin == "own":
        text = (
            f"an archive of {cudnn.version} with its hash was wished; "
            f"at least {row.cudnn_minimum} is needed"
        )
    elif wish.cudnn is not None:
        text = f"cuDNN {cudnn.version} was wished"
    elif cudnn.origin == "wheels":
        text = f"tensorflow[and-cuda] brings cuDNN {cudnn.version} as a wheel"
    else:
        text = f"TensorFlow {row.release} was built and tested with cuDNN {row.cudnn_minimum}"
    yield Reason("cudnn", text)
    if cuda.row is not None:
        directory = cuda.row.xla_cuda_data_dir
        text = f"XLA looks for libdevice under {directory} on {platform.title}"
    elif cuda.prefix:
        text = f"programs and libraries are found in {cuda.prefix}, and so is XLA's libdevice"
    else:
        text = "each venv finds its own libraries; nothing is set for others"
    yield Reason("gpu_env", text)
    toolkit = found["container_toolkit"]
    if toolkit is not None:
        which = f"{toolkit.version} is the newest known"
        if wish.container_toolkit == toolkit.version:
            which = f"{toolkit.version} was wished"
        elif wish.container_toolkit:
            which = f"{toolkit.version} is the newest known of {wish.container_toolkit}"
        text = f"{which}; NVIDIA's repository is one for all platforms"
        yield Reason("nvidia_container_toolkit", text)
    if wish.tensorflow is None:
        why = f"no TensorFlow was wished, {tensorflow.version} is what fits best"
    elif wish.tensorflow == tensorflow.version:
        why = f"{tensorflow.version} was wished"
    elif len(Version(wish.tensorflow).release) == 2:
        why = f"{tensorflow.version} is the newest patch of {row.release}"
    else:
        why = f"{tensorflow.version} is the newest of {wish.tensorflow} that fits"
    python = found["python"]
    own = "own and has wheels" if python == platform.pythons[0] else "other one and has wheels"
    whose = "was wished" if wish.python else f"is {platform.title}'s {own}"
    more = f"; with {', '.join(wish.packages)} as wished" if wish.packages else ""
    yield Reason("tensorflow", f"{why}; Python {python} {whose}{more}")


def _warnings(found: Mapping[str, Any]) -> Iterable[str]:
    tensorflow, cuda = found["tensorflow"], found["cuda"]
    for gpu in found["gpus"]:
        if _runs(tensorflow.row, gpu) == "translated":
            # The libraries have machine code for what their own release compiles for.
            strange = cuda.facts is None or gpu.capability not in cuda.facts.capabilities
            more = f", and NVIDIA's libraries of CUDA {cuda.release} were not made for it"
            yield (
                f"{gpu.name} ({gpu.generation}, compute capability {gpu.capability}): TensorFlow "
                f"{tensorflow.row.release} has no machine code for it, only PTX; the driver "
                f"translates it at the first start, which takes many minutes{more * strange}"
            )
    if cuda.release != tensorflow.row.cuda:
        yield (
            f"TensorFlow {tensorflow.row.release} was tested with CUDA {tensorflow.row.cuda}, "
            f"not with {cuda.release}; its libraries have the same names"
        )


def _releases(clash: Sequence[Demand], solver: Solver) -> list[TensorflowRow]:
    """The TensorFlow releases that the clash leaves, newest first."""
    held = [one for one in clash if one.variable == "tensorflow"]
    fitting = [t for t in solver._tensorflows if all(one.holds(t) for one in held)]
    return _unique_rows(t.row for t in fitting)


def _unique_rows(rows: Iterable[TensorflowRow]) -> list[TensorflowRow]:
    found: dict[str, TensorflowRow] = {}
    for row in rows:
        found.setdefault(row.release, row)
    return list(found.values())


def _left(problem: Problem, clash: Sequence[Demand], variable: str) -> list[Any]:
    """The candidates of a variable that the clash's own demands leave.

    Of platforms, where none was asked for, those that could have all but one of the demands.
    """
    held = [one for one in clash if one.variable == variable]
    left = [v for v in problem.candidates[variable] if all(one.holds(v) for one in held)]
    if variable != "platform" or held:
        return left
    for more in (INSTALLED, ()):
        near = []
        for platform in left:
            here = Demand("platform", "platform", platform.__eq__)
            fewer = ([one for one in clash if one is not other] for other in clash)
            if any(problem.solve([*rest, here, *more]) for rest in fewer):
                near.append(platform)
        if near:
            return near
    return left


def _is_asked(clash: Sequence[Demand], variable: str) -> bool:
    return any(one.variable == variable for one in clash)


def _tell_python_wheels(solver: Solver, problem: Problem, clash: Sequence[Demand]) -> str:
    if _is_asked(clash, "tensorflow"):
        row = _releases(clash, solver)[0]
        return f"TensorFlow {row.release} has wheels for Python {span(row.pythons)}"
    pythons = _left(problem, clash, "python")
    rows = [r for r in _releases(clash, solver) if set(r.pythons) & set(pythons)]
    which = span([r.release for r in rows]) if rows else "none"
    return f"of TensorFlow, {which} has wheels for Python {span(pythons)}"


def _tell_python_platform(_solver: Solver, problem: Problem, clash: Sequence[Demand]) -> str:
    platforms = _left(problem, clash, "platform")
    return "; ".join(f"{p.title} has Python {span(p.pythons)}" for p in platforms)


def _tell_python_cuda(solver: Solver, _problem: Problem, clash: Sequence[Demand]) -> str:
    row = _releases(clash, solver)[0]
    pythons = span(row.cuda_wheels_pythons or row.pythons)
    return f"the wheels of tensorflow[and-cuda] {row.release} are there for Python {pythons}"


def _tell_cuda_platform(_solver: Solver, problem: Problem, clash: Sequence[Demand]) -> str:
    told = []
    for platform in _left(problem, clash, "platform"):
        here: dict[str, list[str]] = {}
        for cuda in problem.candidates["cuda"]:
            if cuda.platform == platform.id:
                here.setdefault(cuda.origin, []).append(cuda.release)
        asked = {c.origin for c in _left(problem, clash, "cuda")}
        parts = [
            f"CUDA {span(_unique(v))} from {ORIGINS[k]}" for k, v in here.items() if k in asked
        ]
        own = "no CUDA of its own"
        if platform.archive_cuda:
            own = f"CUDA {platform.archive_cuda} of its own, which this version does not install"
        told.append(f"{platform.title} has {' and '.join(parts) or own}")
    return "; ".join(told)


def _tell_cuda_tensorflow(solver: Solver, problem: Problem, clash: Sequence[Demand]) -> str:
    if _is_asked(clash, "tensorflow"):
        row = _releases(clash, solver)[0]
        wheels = " or its own wheels" if row.cuda_wheels else ""
        return (
            f"TensorFlow {row.release} was built with CUDA {row.cuda} and opens its "
            f"libraries by name{wheels}"
        )
    cudas = _unique(c.release for c in _left(problem, clash, "cuda"))
    fits = [
        r.release
        for r in _releases(clash, solver)
        if any(
            _cuda_of_tensorflow(Tensorflow(max(r.patches, key=Version), r), c)
            for c in _left(problem, clash, "cuda")
        )
    ]
    return f"CUDA {span(cudas)} serves TensorFlow {span(fits) if fits else 'of no release'}"


def _tell_cuda_gpus(_solver: Solver, problem: Problem, _clash: Sequence[Demand]) -> str:
    return "; ".join(
        f"{gpu.name} (compute capability {gpu.capability}) has code in CUDA up to {gpu.cuda_last}"
        for gpu in problem.candidates["gpus"][-1]
        if gpu.cuda_last is not None
    )


def _tell_cudnn_tensorflow(solver: Solver, problem: Problem, clash: Sequence[Demand]) -> str:
    rows = _releases(clash, solver)
    if _is_asked(clash, "tensorflow"):
        row = rows[0]
        major = Version(row.cudnn_minimum).major
        return (
            f"TensorFlow {row.release} takes cuDNN {row.cudnn_minimum} or newer of major version "
            f"{major}: another one has another name (libcudnn.so.{major})"
        )
    versions = _unique(c.version for c in _left(problem, clash, "cudnn"))
    return f"cuDNN {span(versions)} serves only some releases of TensorFlow"


def _tell_cudnn_cuda(_solver: Solver, problem: Problem, clash: Sequence[Demand]) -> str:
    parts = []
    for one in _unique((c.version, c.cuda, c.origin) for c in _left(problem, clash, "cudnn")):
        version, cuda, origin = one
        where = "comes as wheels" if origin == "wheels" else "is an archive"
        parts.append(f"cuDNN {version} {where} for CUDA {cuda}")
    return "; ".join(parts[:4])


def _tell_cudnn_platform(_solver: Solver, problem: Problem, clash: Sequence[Demand]) -> str:
    architectures = _unique(p.architecture for p in _left(problem, clash, "platform"))
    return f"the host is {' or '.join(architectures)}, and not every cuDNN is there for it"


def _tell_gpus_platform(_solver: Solver, problem: Problem, clash: Sequence[Demand]) -> str:
    boards = [gpu for gpu in problem.candidates["gpus"][-1] if gpu.architecture]
    here = _unique(p.architecture for p in _left(problem, clash, "platform"))
    told = _unique(f"{gpu.name} is in hosts of {gpu.architecture}" for gpu in boards)
    return f"{'; '.join(told)}; the platforms known here are {_list(here)}"


def _tell_driver_platform(_solver: Solver, problem: Problem, clash: Sequence[Demand]) -> str:
    told = []
    for platform in _left(problem, clash, "platform"):
        here = [d for d in problem.candidates["driver"] if d.platform == platform.id]
        exact = any("." in one.text for one in clash if one.name == "driver_branch")
        parts = []
        for origin in _unique(d.origin for d in here):
            versions = {d.version if exact else d.branch for d in here if d.origin == origin}
            parts.append(f"{_list(_newest(versions))} from {DRIVER_ORIGINS[origin]}")
        if {d.origin for d in here} <= {"distribution"}:
            parts = [_list(_newest({d.version if exact else d.branch for d in here}))]
        told.append(
            f"{platform.title} has driver {'; '.join(filter(None, parts)) or 'of no branch'}"
        )
    return "; ".join(told)


def _tell_driver_cuda(_solver: Solver, problem: Problem, clash: Sequence[Demand]) -> str:
    told: dict[str, list[str]] = {}
    for cuda in _left(problem, clash, "cuda"):
        told.setdefault(cuda.driver_minimum, []).append(cuda.release)
    return "; ".join(
        f"CUDA {span(_unique(releases))} needs driver {minimum} or newer"
        for minimum, releases in sorted(told.items(), key=lambda one: Version(one[0]))
    )


def _tell_driver_source(_solver: Solver, _problem: Problem, _clash: Sequence[Demand]) -> str:
    return "the platform's own CUDA depends on the platform's own driver"


def _tell_driver_tensorflow(solver: Solver, _problem: Problem, clash: Sequence[Demand]) -> str:
    row = _releases(clash, solver)[0]
    return f"TensorFlow {row.release} needs driver {row.driver_minimum} or newer"


def _tell_driver_gpus(_solver: Solver, problem: Problem, clash: Sequence[Demand]) -> str:
    told = []
    here = [
        driver
        for driver in problem.candidates["driver"]
        for platform in _left(problem, clash, "platform")
        if driver.platform == platform.id
    ]
    for gpu in problem.candidates["gpus"][-1]:
        if all(_driver_of_gpus([gpu], driver) for driver in here):
            continue  # this one is not in the way
        window = f"{gpu.driver_first} or newer"
        if gpu.driver_last is not None:
            window = f"up to {gpu.driver_last}, the last that knows it"
        told.append(f"{gpu.name} ({gpu.generation}) is driven by branches {window}")
    return "; ".join(_unique(told))


def _tell_code_gpus(solver: Solver, problem: Problem, clash: Sequence[Demand]) -> str:
    row = _releases(clash, solver)[0]
    lacking = [g for g in problem.candidates["gpus"][-1] if not _runs(row, g)]
    names = ", ".join(_unique(f"{g.name} has {g.capability}" for g in lacking))
    ptx = f", and PTX of {_list(row.ptx)}" if row.ptx else ""
    if row.ptx and any(Version(g.capability) > Version(row.ptx_newest) for g in lacking):
        ptx += f" that is not known to work on GPUs newer than {row.ptx_newest}"
    return (
        f"TensorFlow {row.release} carries code for compute capability "
        f"{_list(row.capabilities)}{ptx}; {names}"
    )


def _tell_gcc_platform(_solver: Solver, problem: Problem, clash: Sequence[Demand]) -> str:
    return "; ".join(
        f"{p.title} has gcc {_list(p.gccs)}" for p in _left(problem, clash, "platform")
    )


def _tell_gcc_cuda(_solver: Solver, problem: Problem, clash: Sequence[Demand]) -> str:
    found = _unique(
        (c.release, c.facts.gcc_maximum) for c in _left(problem, clash, "cuda") if c.facts
    )
    return "; ".join(
        f"nvcc of CUDA {release} takes gcc up to {maximum}" for release, maximum in found[:4]
    )


def _tell_toolkit_platform(solver: Solver, _problem: Problem, _clash: Sequence[Demand]) -> str:
    rows = [row.architecture for row in solver.catalog.nvidia_container_toolkit if row.versions]
    return f"versions of NVIDIA's container toolkit are known for {_list(rows)}"


FACTS: dict[str, Callable[[Solver, Problem, Sequence[Demand]], str]] = {
    "python-wheels": _tell_python_wheels,
    "python-platform": _tell_python_platform,
    "python-cuda": _tell_python_cuda,
    "cuda-platform": _tell_cuda_platform,
    "cuda-tensorflow": _tell_cuda_tensorflow,
    "cuda-gpus": _tell_cuda_gpus,
    "cudnn-tensorflow": _tell_cudnn_tensorflow,
    "cudnn-cuda": _tell_cudnn_cuda,
    "cudnn-platform": _tell_cudnn_platform,
    "gpus-platform": _tell_gpus_platform,
    "driver-platform": _tell_driver_platform,
    "driver-cuda": _tell_driver_cuda,
    "driver-source": _tell_driver_source,
    "driver-tensorflow": _tell_driver_tensorflow,
    "driver-gpus": _tell_driver_gpus,
    "code-gpus": _tell_code_gpus,
    "gcc-platform": _tell_gcc_platform,
    "gcc-cuda": _tell_gcc_cuda,
    "toolkit-platform": _tell_toolkit_platform,
}


def _headline(clash: Sequence[Demand]) -> str:
    """ "tensorflow: "2.9" can't be had on Debian 12 (bookworm) with Tesla K80 (Kepler)"."""
    wishes = [one.text for one in clash if one.name not in ("platform", "gpus")]
    on = "".join(f" on {one.text}" for one in clash if one.name == "platform")
    with_ = "".join(f" with {one.text}" for one in clash if one.name == "gpus")
    what = f"{' and '.join(wishes)} can't be had" if wishes else "no stack is known"
    if len(wishes) > 1:
        what += " together"
    return f"{what}{on}{with_}"


def _hint(clash: Sequence[Demand], rules: Sequence[Rule]) -> str:
    if len(clash) == 1 and "code-gpus" in [rule.name for rule in rules]:
        return "no wheel of TensorFlow's runs on it; NVIDIA's own container of TensorFlow may"
    if len(clash) == 1:
        return "this alone can't be had, whatever else is wished"
    return "without any one of these the rest can be had; `provision catalog` shows what runs where"


def _literal(wish: Wish) -> str:
    return f"gpu_stack: {_flow(plain(wish.literal))}"


def _flow(literal: Mapping[str, Any]) -> str:
    """A mapping as one would write it in YAML on one line."""
    parts = []
    for key, value in literal.items():
        if isinstance(value, Mapping):
            parts.append(f"{key}: {_flow(value)}")
        elif isinstance(value, str) and re.fullmatch(r"[a-z]+", value):
            parts.append(f"{key}: {value}")
        else:
            parts.append(f"{key}: {json.dumps(value)}")
    return "{" + ", ".join(parts) + "}"


def _unique(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


def _list(values: Sequence[str]) -> str:
    """ "470", "470 and 535", "470, 510 and 535"."""
    if len(values) < 2:
        return "".join(values)
    return f"{', '.join(values[:-1])} and {values[-1]}"


def span(values: Iterable[str]) -> str:
    """The lowest and the highest of many, all of few."""
    ordered = sorted(set(values), key=Version)
    return f"{ordered[0]} to {ordered[-1]}" if len(ordered) > 2 else _list(ordered)


def _newest(versions: Iterable[str]) -> list[str]:
    return sorted(versions, key=Version, reverse=True)


def wheel_versions(row: TensorflowRow) -> dict[str, str]:
    """The versions of the wheels that bring CUDA: what is asked for, of a range its lowest.

    From 2.20 on TensorFlow asks for ranges that reach into CUDA releases it was not tested with.
    """
    found = {}
    for name, asked in row.cuda_wheels.items():
        lowest = re.match(r"(?:==|>=)?([\d.]+)", asked)
        found[name] = lowest.group(1) if lowest else asked
    return found


def serves(built_for: str, release: str) -> bool:
    """cuDNN of 11.2 serves 11.2; from 8.3 on an archive may say just "11" or "11.x"."""
    return built_for == release or built_for.removesuffix(".x") == release.split(".", maxsplit=1)[0]


def _is(wanted: Version, text: str) -> bool:
    """ "2.9" is every 2.9.x, "2.9.1" only itself."""
    return Version(text).release[: len(wanted.release)] == wanted.release


def _version(text: str, key: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        raise InputError(
            f"{key} is not a version",
            where="gpu_stack",
            got=repr(text),
            expected='"2.9" or "2.9.3"',
        ) from None


def _distance(wanted: Version, other: Version) -> int:
    return abs(_number(other) - _number(wanted))


def nearest(wanted: Version, known: Iterable[str]) -> Sequence[str]:
    """At most three known versions, closest first; a release rather than its patches."""

    def distance(text: str) -> tuple[int, int, str]:
        v = Version(text)
        return (
            abs(_number(v) - _number(wanted)),
            0 if len(v.release) == len(wanted.release) else 1,
            text,
        )

    return sorted(dict.fromkeys(known), key=distance)[:3]


def _number(version: Version) -> int:
    """A version as a number, to tell which of two is the nearer: 8.9 is nearer to 9.3 than 8.2."""
    return (version.major * 1000 + version.minor) * 1000 + version.micro


def _names(hosts: Sequence[str]) -> str:
    shown = ", ".join(hosts[:3])
    return shown + (f" and {len(hosts) - 3} more" if len(hosts) > 3 else "")


_SOLVERS: dict[int, Solver] = {}
