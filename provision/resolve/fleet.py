"""Resolves a fleet's wishes to rows of the lock: which hosts get which stack."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from provision.catalog import Catalog
from provision.catalog import gpus as known_gpus
from provision.catalog.rows import PlatformRow
from provision.errors import UnsatisfiableError
from provision.inventory import Fleet
from provision.models import Gpu, HostFacts, Reason, Wish
from provision.resolve.beside import refuse_twice, side_by_side
from provision.resolve.refusal import installable, refusal
from provision.resolve.solver import Solver, solver_of
from provision.resolve.stack import Choice, Stack, same
from provision.resolve.words import literal, shortened


def resolve_fleet(catalog: Catalog, fleet: Fleet) -> list[Choice]:
    """One choice per different wish and platform, and per GPU generations where these differ.

    A host of unknown platform gets a row for every platform of the catalog that can satisfy its
    wish; where some need Debian's archive alone only those, so that no other archive is read for a
    host that may not exist. UnsatisfiableError where a host can't have its wish on its platform.
    """
    solver = solver_of(catalog)
    choices: list[Choice] = []
    for wish, kinds in fleet.kinds():
        choices.extend(_choices(solver, wish, kinds))
    return choices


def resolve(catalog: Catalog, platform: PlatformRow, wish: Wish, gpus: Sequence[Gpu] = ()) -> Stack:
    """The stack for one platform, its GPUs (none: unknown) and a wish, or UnsatisfiableError."""
    solver = solver_of(catalog)
    stack = solver.find(wish, platform, gpus)
    if stack is None:
        raise refusal(solver, wish, platform, gpus)
    return stack


def explain(catalog: Catalog, fleet: Fleet, host: str) -> list[Explained]:
    """The host's row, or one row per platform where its platform is unknown.

    UnsatisfiableError where this host can't have its wish, whatever other hosts can have.
    """
    solver = solver_of(catalog)
    wish, facts = fleet.hosts[host], fleet.facts.get(host, HostFacts())
    gpus = gpus_of(facts, catalog)
    alike = [kinds for its_wish, kinds in fleet.kinds() if its_wish.literal == wish.literal]
    try:
        choices = _choices(solver, wish, alike[0])
    except UnsatisfiableError:
        # The error may be another host's.
        choices = _choices(solver, wish, [(facts, [host])])
    rows = []
    for choice in choices:
        if facts.platform not in (None, choice.platform.id):
            continue
        if choice.generations not in ((), generations_of(gpus)):
            continue
        own, _ = side_by_side(solver, wish, choice.platform, gpus)
        if own is None:
            continue
        stack = own if same(own, choice.stack) else choice.stack
        rows.append(Explained(choice, stack.reasons, stack.warnings))
    # A row for the host's GPU generations comes before one for any.
    best = {row.choice.platform.id: row for row in rows if not row.choice.generations}
    best |= {row.choice.platform.id: row for row in rows if row.choice.generations}
    return list(best.values())


@dataclass(frozen=True)
class Explained:
    """A row for a host, with the reasons and warnings for this host alone."""

    choice: Choice
    reasons: tuple[Reason, ...]
    warnings: tuple[str, ...]


def gpus_of(facts: HostFacts, catalog: Catalog) -> tuple[Gpu, ...]:
    """The different kinds of GPU of a host, sorted."""
    kinds = {known_gpus.gpu(word, catalog=catalog) for word in facts.gpus}
    return tuple(sorted(kinds, key=lambda gpu: (gpu.generation, gpu.name)))


def generations_of(gpus: Iterable[Gpu]) -> tuple[str, ...]:
    """The generations of some GPUs, each once."""
    return tuple(sorted({gpu.generation for gpu in gpus}))


def _choices(
    solver: Solver, wish: Wish, kinds: Sequence[tuple[HostFacts, list[str]]]
) -> list[Choice]:
    """The rows for one wish; on a host two rows of a platform differ by its GPUs' generations."""
    platforms = {row.id: row for row in solver.catalog.platforms}
    slots: dict[str, dict[tuple[str, ...], _Slot]] = {name: {} for name in platforms}
    for facts, hosts in kinds:
        gpus = gpus_of(facts, solver.catalog)
        models = {word: known_gpus.ids(word) for word in facts.models}
        for platform in _platforms_for(solver, wish, facts, gpus, hosts):
            slot = slots[platform].setdefault(generations_of(gpus), _Slot())
            slot.gpus |= dict.fromkeys(gpus)
            slot.hosts += hosts
            slot.models |= models
            slot.platform_known = slot.platform_known or facts.platform is not None
    choices = []
    for name, of_platform in slots.items():
        choices += _choices_here(solver, wish, platforms[name], of_platform)
    if not choices:
        hosts = [host for _, names in kinds for host in names]
        raise refusal(solver, wish, where=f"gpu_stack of {shortened(hosts)}")
    return choices


@dataclass
class _Slot:
    """Hosts of one platform and wish whose GPUs are of the same generations."""

    gpus: dict[Gpu, None] = field(default_factory=dict)
    hosts: list[str] = field(default_factory=list)
    models: dict[str, tuple[str, ...]] = field(default_factory=dict)
    # Whether a host is known to be of this platform; then it must get a stack.
    platform_known: bool = False


def _platforms_for(
    solver: Solver, wish: Wish, facts: HostFacts, gpus: Sequence[Gpu], hosts: Sequence[str]
) -> list[str]:
    """The ids of the platforms on which one kind of host can have its wish; at least one."""
    owner = f"gpu_stack of {shortened(hosts)}"
    if facts.platform is None and facts.system:
        raise UnsatisfiableError(
            f"nothing is known of {facts.system}",
            where=owner,
            expected=" or ".join(row.title for row in solver.catalog.platforms),
            hint="take these hosts out of the group",
        )
    candidates = [row for row in solver.catalog.platforms if facts.platform in (None, row.id)]
    any_stack: Stack | None = None
    fitting: dict[str, Stack] = {}
    for platform in candidates:
        stack, beside = side_by_side(solver, wish, platform, gpus)
        if stack is not None and beside is not None and not stack.missing:
            refuse_twice((stack, *beside), owner)
            fitting[platform.id] = stack
        any_stack = any_stack or stack
    if fitting:
        return [name for name, stack in fitting.items() if stack.native] or list(fitting)
    only = candidates[0] if facts.platform is not None else None
    raise _refused(solver, wish, any_stack, only, gpus, owner)


def _refused(
    solver: Solver,
    wish: Wish,
    stack: Stack | None,
    platform: PlatformRow | None,
    gpus: Sequence[Gpu],
    owner: str,
) -> UnsatisfiableError:
    """The error for a wish without a row, by what is missing.

    No stack at all, one that can't have those beside it, or one that can't be installed yet.
    """
    if stack is None:
        return refusal(solver, wish, platform, gpus, where=owner)
    if not stack.missing:
        return UnsatisfiableError(
            f"TensorFlow {stack.tensorflow} can't have these beside it on one host",
            where=owner,
            got=literal(wish),
            expected="TensorFlow releases that one driver and one Python of the platform "
            "serve, with CUDA as wheels or the same as the first one's",
            hint=f"on {stack.platform.title} the driver would be {stack.driver.branch}; "
            "`provision catalog` shows what runs where",
        )
    return UnsatisfiableError(
        f"this version can't install {stack.missing}",
        where=owner,
        got=literal(wish),
        expected=" or ".join(installable(solver, wish)),
        hint=f"the catalog knows it for {stack.platform.title}: `provision catalog`",
    )


def _choices_here(
    solver: Solver,
    wish: Wish,
    platform: PlatformRow,
    slots: Mapping[tuple[str, ...], _Slot],
) -> list[Choice]:
    """One row where one stack serves all hosts of a platform; else one per GPU generations.

    Two GPUs of one generation look the same to the lock: they get the stack that serves both.
    """
    by_generations: dict[tuple[str, ...], tuple[Stack, tuple[Stack, ...]]] = {}
    for generations, slot in slots.items():
        stack, beside = side_by_side(solver, wish, platform, tuple(slot.gpus))
        if stack is not None and beside is not None and not stack.missing:
            by_generations[generations] = (stack, beside)
        elif slot.platform_known:
            owner = f"gpu_stack of {shortened(slot.hosts)}"
            raise _refused(solver, wish, stack, platform, tuple(slot.gpus), owner)
    if not by_generations:
        return []
    models = {word: ids for slot in slots.values() for word, ids in slot.models.items()}
    common, *others = by_generations.values()
    if all(_all_same(common, stacks) for stacks in others):
        gpus = dict.fromkeys(gpu for slot in slots.values() for gpu in slot.gpus)
        # The best for each is the best for all; solved again for its reasons.
        stack, beside = side_by_side(solver, wish, platform, tuple(gpus))
        if stack is not None and beside is not None:
            common = (stack, beside)
        return [Choice(platform, wish, *common, (), models)]
    return [
        Choice(platform, wish, *by_generations[generations], generations, models)
        for generations in sorted(by_generations)
    ]


def _all_same(a: tuple[Stack, tuple[Stack, ...]], b: tuple[Stack, tuple[Stack, ...]]) -> bool:
    left, right = (a[0], *a[1]), (b[0], *b[1])
    return len(left) == len(right) and all(map(same, left, right))
