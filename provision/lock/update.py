"""Makes a lock: reads the indices, keeps locked versions, and reports what upstream has dropped.

The order: choices from the catalog, indices of their platforms, what stays, wheels, the lock.
`keep` decides what stays, `build` what is written; only `upstream` opens connections.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from provision import home, inventory
from provision.catalog import Catalog
from provision.catalog.rows import Archive, PlatformRow
from provision.errors import UnsatisfiableError
from provision.inventory import Fleet
from provision.lock import advice, build, keep, model, requirements
from provision.lock.keep import Upgrade
from provision.lock.model import Lock, stacks_of
from provision.lock.own import OWN
from provision.lock.pin import Twin, check_twin, pinned_choice, unavailable
from provision.models import Wish
from provision.resolve import Choice, Stack, resolve_fleet
from provision.resolve.words import shortened
from provision.upstream import debian, wheels
from provision.upstream.mirrors import HELP, Mirrors
from provision.upstream.nvidia import Reader
from provision.upstream.packages import Indices


@dataclass(frozen=True)
class Result:
    """A lock, notes on it, what of the last lock upstream has no longer (`gone`), and warnings.

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
) -> Result:
    """The lock of a fleet, made from upstream's indices.

    A missing suite is an error; with `check` it is listed in `gone` with all else that is missing.
    """
    choices = resolve_fleet(facts, fleet)
    indices: dict[str, Indices] = {}
    suites: list[str] = []
    where = mirrors or Mirrors()
    reader = Reader(
        facts,
        where,
        home.cache_directory(),
        progress=progress,
        locked_hashes=keep.file_hashes(before),
    )
    for choice in choices:
        platform = where.of(choice.platform)
        if platform.id not in indices:
            missing: list[Archive] | None = [] if check else None
            stacks = [s for c in choices if c.platform.id == platform.id for s in stacks_of(c)]
            archive = Indices((), ())
            if any(build.needs_archive(stack) for stack in stacks):
                archive = debian.read(
                    platform,
                    where.keys(keys),
                    cache=home.cache_directory(),
                    progress=progress,
                    gone=missing,
                )
            indices[platform.id] = _with_repositories(stacks, archive, reader)
            suites += [_suite(platform, archive) for archive in missing or ()]
    keep.check_hashes(choices, indices, before)
    gone = suites + [
        f"{place}: {package} is in no index any more; {HELP}"
        for package, place in keep.gone(choices, indices, before)
    ]
    if suites:
        return Result(None, gone=tuple(gone))
    try:
        return _result(fleet, choices, indices, before, upgrade, twin, gone, reader, anew=check)
    except UnsatisfiableError as error:
        if not check or not gone:
            raise
        return Result(None, gone=tuple(gone), problem=error)


def _with_repositories(stacks: Sequence[Stack], archive: Indices, reader: Reader) -> Indices:
    """The indices of a platform, and NVIDIA's repositories that its stacks use."""
    rows = {row.url: row for row in reader.catalog.nvidia_sources}
    urls = [stack.cuda.source.url for stack in stacks if stack.cuda.source is not None]
    urls += [stack.driver.url for stack in stacks if stack.driver.origin == "network"]
    repositories = {url: reader.repository(rows[url]) for url in dict.fromkeys(urls)}
    for own in OWN.values():
        repositories |= own.repositories(stacks, reader)
    for repository in repositories.values():
        url, sha256 = repository.url, repository.sha256
        locked = reader.locked_hashes.get(url, sha256)
        if sha256 != locked:
            raise keep.changed(url, f"SHA-256 {sha256}", f"SHA-256 {locked}")
    return dataclasses.replace(archive, repositories=repositories)


def _with_runfiles(
    indices: Mapping[str, Indices], chosen: Sequence[Choice], reader: Reader
) -> dict[str, Indices]:
    """The indices with the chosen drivers' installers."""
    runs = {
        stack.driver.url: reader.runfile(stack.driver)
        for choice in chosen
        for stack in stacks_of(choice)
        if stack.driver.origin == "runfile"
    }
    return {name: dataclasses.replace(index, runfiles=runs) for name, index in indices.items()}


def _suite(platform: PlatformRow, archive: Archive) -> str:
    places = " and ".join([archive.url, *archive.mirrors])
    return f"{platform.title}: the suite {archive.suite} is gone from {places}; {HELP}"


def _result(
    fleet: Fleet,
    choices: Sequence[Choice],
    indices: Mapping[str, Indices],
    before: Lock | None,
    upgrade: Upgrade,
    twin: Twin | None,
    gone: Sequence[str],
    reader: Reader,
    *,
    anew: bool,
) -> Result:
    """The result for these indices; with `anew` the index of wheels is asked for every stack."""
    facts = reader.catalog
    chosen, notes = keep.choose(facts, fleet, choices, indices, before, upgrade)
    indices = _with_runfiles(indices, chosen, reader)
    prefer = keep.packages(chosen, indices, before, upgrade)
    versions = keep.wheel_versions(chosen, before, upgrade)
    pinned = ""
    if twin is not None:
        index, pin = pinned_choice(facts, fleet, choices, twin, indices)
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
    dated = None if keep.SOURCES in upgrade.names else before
    lock = build.make(chosen, indices, texts, prefer=prefer, before=dated)
    if twin is not None:
        check_twin(lock, pinned, twin)
    elif not upgrade.everything:
        notes += _newer(lock, chosen, indices, texts)
    return Result(
        lock,
        (*advice.assumed(facts, fleet), *notes),
        (*gone, *dict.fromkeys(lost)),
        warnings=(*wheels.plain_indexes(), *advice.warnings(facts, chosen, texts)),
    )


def _place(fleet: Fleet, wish: Wish) -> str:
    """`lab/group_vars/gpu.yml:7: `, where the first host with this wish has it, or ""."""
    owners = (fleet.owners.get(host, "") for host, its in fleet.hosts.items() if its == wish)
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
    """(stack id -> requirements, a line for each locked wheel that the index no longer has).

    `pinned` is the stack that gets exactly the twin's wheels.
    """
    stacks = {stack.id: stack for choice in chosen for stack in stacks_of(choice)}
    locked = keep.by_stack(chosen, before)
    texts: dict[str, str] = {}
    questions: dict[str, requirements.Question] = {}
    for name, stack in stacks.items():
        question = requirements.Question.of(stack, prefer.get(name, {}), exactly=name == pinned)
        same = None if anew else requirements.unchanged(question, stack, locked.get(name), before)
        if same is None or name == pinned:
            questions[name] = question
        else:
            texts[name] = same
    answers = requirements.ask(questions.values(), progress)
    lost: list[str] = []
    for name, question in questions.items():
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
            f"{title}: the index has the wheel {wheel} no longer; `provision lock --upgrade "
            f"{wheel.split()[0]}` moves it, or keep wheels of your own beside it (UV_FIND_LINKS)"
            for wheel in _absent(moved, stack)
        ]
    return texts, lost


def _newer(
    lock: Lock,
    chosen: Sequence[Choice],
    indices: Mapping[str, Indices],
    texts: Mapping[str, str],
) -> list[str]:
    """A line for the packages that could move; not for wheels, which would ask the index again."""
    try:
        newest = build.make(chosen, indices, texts)
    except UnsatisfiableError:
        return []  # the newest versions do not fit together; the kept ones do
    moved: dict[str, None] = {}
    for stack, packages in lock.details["packages"].items():
        for name, package in packages.items():
            newer = newest.details["packages"].get(stack, {}).get(name)
            if newer is not None and newer["version"] != package["version"]:
                moved[f"{name} {package['version']} (there is {newer['version']})"] = None
    if not moved:
        return []
    return [f"kept: {shortened(moved)}; `provision lock --upgrade` moves them"]


def _absent(pins: Mapping[str, str], stack: Stack) -> list[str]:
    """The pins of which the index has no wheel for the stack's Python and platform."""
    target = {"python": stack.python, "wheel_platform": stack.platform.wheel_platform}
    return [f"{n} {v}" for n, v in pins.items() if not wheels.has_wheel(n, v, **target)]
