"""Makes a lock: reads the indices, keeps what is locked, and says what upstream has no longer.

The order: choices of the catalog, indices of their platforms, what stays, wheels, the lock. What
stays is `keep`'s to decide, what is written `build`'s; what opens a connection is `upstream`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from provision import inventory
from provision.catalog import Archive, Catalog, PlatformRow
from provision.errors import UnsatisfiableError
from provision.inventory import Fleet
from provision.lock import advice, build, keep, model, requirements
from provision.lock.keep import Upgrade
from provision.lock.model import Lock, stacks_of
from provision.lock.pin import Twin, check_twin, pinned_choice, unavailable
from provision.models import Wish
from provision.resolve import Choice, Stack, resolve_fleet
from provision.upstream import debian, download, wheels
from provision.upstream.mirrors import HELP, Mirrors
from provision.upstream.nvidia import Reader
from provision.upstream.packages import Indices


@dataclass(frozen=True)
class Made:
    """A lock; what is to be told of it; what of the last one upstream has no longer; warnings.

    Without a lock, `problem` says why none can be made.
    """

    lock: Lock | None
    notes: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    problem: UnsatisfiableError | None = None
    warnings: tuple[str, ...] = ()


def make(
    facts: Catalog,
    keys: Mapping[str, str],
    fleet: Fleet,
    before: Lock | None,
    upgrade: Upgrade,
    *,
    twin: Twin | None = None,
    check: bool = False,
    mirrors: Mirrors | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Made:
    """The lock of a fleet, from the network's indices.

    A suite that is gone is an error, but for a `check`, which tells all that is gone.
    """
    choices = resolve_fleet(facts, fleet)
    found: dict[str, Indices] = {}
    suites: list[str] = []
    where = mirrors or Mirrors()
    reader = Reader(
        facts,
        where,
        download.cache_directory(),
        progress=progress,
        known=keep.file_hashes(before),
    )
    for choice in choices:
        platform = where.of(choice.platform)
        if platform.id not in found:
            missing: list[Archive] | None = [] if check else None
            stacks = [one for c in choices if c.platform.id == platform.id for one in stacks_of(c)]
            archive = Indices((), ())
            if any(build.needs_archive(stack) for stack in stacks):
                archive = debian.read(
                    platform,
                    where.keys(keys),
                    cache=download.cache_directory(),
                    progress=progress,
                    gone=missing,
                )
            found[platform.id] = _with_repositories(facts, stacks, archive, reader)
            suites += [_suite(platform, archive) for archive in missing or ()]
    keep.check_hashes(choices, found, before)
    gone = suites + [
        f"{place}: {what} is in no index any more; {HELP}"
        for what, place in keep.gone(choices, found, before)
    ]
    if suites:
        return Made(None, gone=tuple(gone))
    try:
        return _made(facts, fleet, choices, found, before, upgrade, twin, gone, reader, anew=check)
    except UnsatisfiableError as error:
        if not check or not gone:
            raise
        return Made(None, gone=tuple(gone), problem=error)


def _with_repositories(
    facts: Catalog, stacks: Sequence[Stack], archive: Indices, reader: Reader
) -> Indices:
    """The indices of a platform with NVIDIA's repositories that its stacks take from."""
    rows = {row.url: row for row in facts.nvidia_sources}
    urls = [stack.cuda.source.url for stack in stacks if stack.cuda.source is not None]
    urls += [stack.driver.url for stack in stacks if stack.driver.origin == "network"]
    found = {url: reader.repository(rows[url]) for url in dict.fromkeys(urls)}
    toolkits = (stack.container_toolkit.row for stack in stacks if stack.container_toolkit)
    found |= {
        row.url: reader.container_toolkit(row)
        for row in {one.url: one for one in toolkits}.values()
    }
    for one in found.values():
        known = reader.known.get(one.url, one.sha256)
        if one.sha256 != known:
            raise keep.changed(one.url, f"SHA-256 {one.sha256}", f"SHA-256 {known}")
    return dataclasses.replace(archive, repositories=found)


def _with_runfiles(
    found: Mapping[str, Indices], chosen: Sequence[Choice], reader: Reader
) -> dict[str, Indices]:
    """The indices with the installers of the drivers that were chosen."""
    runs = {
        one.driver.url: reader.runfile(one.driver)
        for choice in chosen
        for one in stacks_of(choice)
        if one.driver.origin == "runfile"
    }
    return {name: dataclasses.replace(one, runfiles=runs) for name, one in found.items()}


def _suite(platform: PlatformRow, archive: Archive) -> str:
    places = " and ".join([archive.url, *archive.mirrors])
    return f"{platform.title}: the suite {archive.suite} is gone from {places}; {HELP}"


def _made(
    facts: Catalog,
    fleet: Fleet,
    choices: Sequence[Choice],
    found: Mapping[str, Indices],
    before: Lock | None,
    upgrade: Upgrade,
    twin: Twin | None,
    gone: Sequence[str],
    reader: Reader,
    *,
    anew: bool,
) -> Made:
    """`anew`: the index of wheels is asked of what has not changed, too."""
    chosen, notes = keep.choose(facts, fleet, choices, found, before, upgrade)
    found = _with_runfiles(found, chosen, reader)
    prefer = keep.packages(chosen, found, before, upgrade)
    versions = keep.wheel_versions(chosen, before, upgrade)
    pinned = ""
    if twin is not None:
        index, pin = pinned_choice(facts, fleet, choices, twin, found)
        chosen[index] = pin
        pinned = pin.stack.id
        for stack in stacks_of(pin):  # one host, one driver
            prefer[stack.id] = {**prefer.get(stack.id, {}), **twin.packages}
        versions[pinned] = dict(twin.wheels)
    texts, lost = _wheels(
        fleet,
        chosen,
        before,
        prefer=versions,
        twin=twin,
        pinned=pinned,
        anew=anew,
        progress=reader.progress,
    )
    made = build.make(chosen, found, texts, prefer=prefer, before=before)
    if twin is not None:
        check_twin(made, pinned, twin)
    elif not upgrade.everything:
        notes += _newer(made, chosen, found, texts)
    return Made(
        made,
        (*advice.assumed(facts, fleet), *notes),
        (*gone, *dict.fromkeys(lost)),
        warnings=(*wheels.plain_indexes(), *advice.warnings(facts, chosen, texts)),
    )


def _place(fleet: Fleet, wish: Wish) -> str:
    """`lab/group_vars/gpu.yml:7: ` of the first host's wish, or ""."""
    owners = (fleet.owners.get(host, "") for host, one in fleet.hosts.items() if one == wish)
    owner = next(owners, "")
    place = fleet.sources.where(inventory.WISH, near=owner)
    return f"{place}: " if place else ""


def _wheels(
    fleet: Fleet,
    chosen: Sequence[Choice],
    before: Lock | None,
    *,
    prefer: Mapping[str, Mapping[str, str]],
    twin: Twin | None,
    pinned: str,
    anew: bool,
    progress: Callable[[str], None],
) -> tuple[dict[str, str], list[str]]:
    """(stack id -> requirements, what is to be told of wheels that the index has no longer).

    `pinned` is the stack that has just the wheels of the twin.
    """
    stacks = {stack.id: stack for choice in chosen for stack in stacks_of(choice)}
    locked = keep.by_stack(chosen, before)
    texts: dict[str, str] = {}
    asked: dict[str, requirements.Question] = {}
    for name, stack in stacks.items():
        question = requirements.Question.of(stack, prefer.get(name, {}), exactly=name == pinned)
        same = None if anew else requirements.unchanged(question, stack, locked.get(name), before)
        if same is None or name == pinned:
            asked[name] = question
        else:
            texts[name] = same
    answers = requirements.ask(asked.values(), progress)
    lost: list[str] = []
    for name, question in asked.items():
        stack, answer = stacks[name], answers[question]
        if isinstance(answer, UnsatisfiableError):
            if twin is None or name != pinned:
                wish = next(c.wish for c in chosen if stack in stacks_of(c))
                answer.where = f"{_place(fleet, wish)}{answer.where}"
                raise answer
            raise unavailable(twin, _absent(dict(question.prefer), stack), answer)
        title = stack.platform.title
        texts[name] = keep.same_hashes(answer, locked.get(name), where=title)
        now = model.wheels(answer)
        moved = {n: v for n, v in question.prefer if n in now and now[n] != v}
        lost += [
            f"{title}: the index has the wheel {one} no longer; `provision lock --upgrade "
            f"{one.split()[0]}` moves it, or keep wheels of your own beside it (UV_FIND_LINKS)"
            for one in _absent(moved, stack)
        ]
    return texts, lost


def _newer(
    made: Lock,
    chosen: Sequence[Choice],
    found: Mapping[str, Indices],
    texts: Mapping[str, str],
) -> list[str]:
    """Which packages could move. Of wheels nothing is said: that would ask the index again."""
    try:
        newest = build.make(chosen, found, texts)
    except UnsatisfiableError:
        return []  # what is newest does not fit together; what is kept does
    moved: dict[str, None] = {}
    for stack, packages in made.details["packages"].items():
        for name, package in packages.items():
            other = newest.details["packages"].get(stack, {}).get(name)
            if other is not None and other["version"] != package["version"]:
                moved[f"{name} {package['version']} (there is {other['version']})"] = None
    if not moved:
        return []
    more = f" and {len(moved) - 3} more" if len(moved) > 3 else ""
    return [f"kept: {', '.join(list(moved)[:3])}{more}; `provision lock --upgrade` moves them"]


def _absent(pins: Mapping[str, str], stack: Stack) -> list[str]:
    asked = {"python": stack.python, "wheel_platform": stack.platform.wheel_platform}
    return [f"{n} {v}" for n, v in pins.items() if not wheels.has_wheel(n, v, **asked)]
