"""A fleet's wishes to rows of the lock: which hosts get which stack."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from provision.catalog import Catalog, PlatformRow
from provision.catalog import gpus as known_gpus
from provision.errors import UnsatisfiableError
from provision.inventory import Fleet
from provision.models import Gpu, HostFacts, Reason, Wish
from provision.resolve.beside import refuse_twice, side_by_side
from provision.resolve.refusal import installable, refusal
from provision.resolve.solver import Solver, solver_of
from provision.resolve.stack import Choice, Stack, same
from provision.resolve.words import literal, names_of


def resolve_fleet(catalog: Catalog, fleet: Fleet) -> list[Choice]:
    """One choice per different wish and platform, and per GPU generations where these differ.

    A host of which no platform is known may be of any, so every one of the catalog that can satisfy
    its wish gets a row: of those that need nothing but Debian's archive, where there are such, for
    no archive is asked for a host that may not exist. A known host must be satisfied on what it is.
    UnsatisfiableError otherwise.
    """
    solver = solver_of(catalog)
    choices: list[Choice] = []
    for wish, kinds in fleet.kinds():
        choices.extend(_choices(solver, wish, kinds))
    return choices


def resolve(catalog: Catalog, platform: PlatformRow, wish: Wish, gpus: Sequence[Gpu] = ()) -> Stack:
    """The stack for one platform, its GPUs (none: not told) and a wish, or UnsatisfiableError."""
    solver = solver_of(catalog)
    stack = solver.find(wish, platform, gpus)
    if stack is None:
        raise refusal(solver, wish, platform, gpus)
    return stack


def explain(catalog: Catalog, fleet: Fleet, host: str) -> list[Explained]:
    """What a host gets: one row, or one per platform where its own is not known.

    UnsatisfiableError where it can't have its wish, whatever the others of the fleet can have.
    """
    solver = solver_of(catalog)
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
        if choice.generations not in ((), generations_of(gpus)):
            continue
        own, _ = side_by_side(solver, wish, choice.platform, gpus)
        if own is None:
            continue
        stack = own if same(own, choice.stack) else choice.stack
        found.append(Explained(choice, stack.reasons, stack.warnings))
    # The row for its generations comes before the one for all others.
    best = {one.choice.platform.id: one for one in found if not one.choice.generations}
    best |= {one.choice.platform.id: one for one in found if one.choice.generations}
    return list(best.values())


@dataclass(frozen=True)
class Explained:
    """A row for a host, with the reasons and warnings for this host alone."""

    choice: Choice
    reasons: tuple[Reason, ...]
    warnings: tuple[str, ...]


def gpus_of(facts: HostFacts, catalog: Catalog) -> tuple[Gpu, ...]:
    """The different kinds of GPU of a host, in one order whatever theirs was."""
    found = {known_gpus.gpu(word, catalog=catalog) for word in facts.gpus}
    return tuple(sorted(found, key=lambda gpu: (gpu.generation, gpu.name)))


def generations_of(gpus: Iterable[Gpu]) -> tuple[str, ...]:
    """The generations of some GPUs, each once."""
    return tuple(sorted({gpu.generation for gpu in gpus}))


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
            slot = slots[platform].setdefault(generations_of(gpus), _Slot())
            slot.gpus |= dict.fromkeys(gpus)
            slot.hosts += hosts
            slot.models |= models
            slot.known = slot.known or facts.platform is not None
    choices = []
    for name, found in slots.items():
        choices += _choices_here(solver, wish, platforms[name], found)
    if not choices:
        hosts = [host for _, names in kinds for host in names]
        raise refusal(solver, wish, where=f"gpu_stack of {names_of(hosts)}")
    return choices


@dataclass
class _Slot:
    """Hosts of one platform and wish whose GPUs are of the same generations."""

    gpus: dict[Gpu, None] = field(default_factory=dict)
    hosts: list[str] = field(default_factory=list)
    models: dict[str, tuple[str, ...]] = field(default_factory=dict)
    # Is one of them known to be of this platform? Then it must get a stack.
    known: bool = False


def _platforms_for(
    solver: Solver, wish: Wish, facts: HostFacts, gpus: Sequence[Gpu], hosts: Sequence[str]
) -> list[str]:
    """The ids of the platforms on which one kind of host can have its wish; at least one."""
    owner = f"gpu_stack of {names_of(hosts)}"
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
        stack, beside = side_by_side(solver, wish, platform, gpus)
        if stack is not None and beside is not None and not stack.missing:
            refuse_twice((stack, *beside), owner)
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
        return refusal(solver, wish, platform, gpus, where=owner)
    if not known.missing:
        return UnsatisfiableError(
            f"TensorFlow {known.tensorflow} can't have these beside it on one host",
            where=owner,
            got=literal(wish),
            expected="TensorFlow releases that one driver and one Python of the platform "
            "serve, with CUDA as wheels or the same as the first one's",
            hint=f"on {known.platform.title} the driver would be {known.driver.branch}; "
            "`provision catalog` shows what runs where",
        )
    return UnsatisfiableError(
        f"this version can't install {known.missing}",
        where=owner,
        got=literal(wish),
        expected=" or ".join(installable(solver, wish)),
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
        stack, beside = side_by_side(solver, wish, platform, tuple(slot.gpus))
        if stack is not None and beside is not None and not stack.missing:
            found[generations] = (stack, beside)
        elif slot.known:
            owner = f"gpu_stack of {names_of(slot.hosts)}"
            raise _refused(solver, wish, stack, platform, tuple(slot.gpus), owner)
    if not found:
        return []
    models = {word: ids for slot in slots.values() for word, ids in slot.models.items()}
    first, *others = found.values()
    if all(_all_same(first, other) for other in others):
        every = dict.fromkeys(gpu for slot in slots.values() for gpu in slot.gpus)
        # The best for each is the best for all; asked again for its reasons.
        stack, beside = side_by_side(solver, wish, platform, tuple(every))
        if stack is not None and beside is not None:
            first = (stack, beside)
        return [Choice(platform, wish, *first, (), models)]
    return [Choice(platform, wish, *found[of], of, models) for of in sorted(found)]


def _all_same(one: tuple[Stack, tuple[Stack, ...]], other: tuple[Stack, tuple[Stack, ...]]) -> bool:
    ours, theirs = (one[0], *one[1]), (other[0], *other[1])
    return len(ours) == len(theirs) and all(map(same, ours, theirs))
