"""Makes a lock: reads the indices, keeps what is locked, and says what upstream has no longer.

The order: choices of the catalog, indices of their platforms, what stays, wheels, the lock. The
decisions are `kept`'s and `lock`'s; what opens a connection is `indices`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from provision import advice, inventory, kept
from provision import lock as locks
from provision import wheels as requirements
from provision.catalog import Archive, Catalog, PlatformRow
from provision.errors import InputError, UnsatisfiableError
from provision.inventory import Fleet
from provision.kept import Upgrade
from provision.lock import Lock, stacks_of
from provision.models import Wish
from provision.resolve import Choice, Stack, explain, resolve_fleet
from provision.twin import Twin
from provision.upstream import debian, download, wheels
from provision.upstream.mirrors import HELP, Mirrors
from provision.upstream.nvidia import Reader
from provision.upstream.packages import Indices, upstream


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
        known=kept.file_hashes(before),
    )
    for choice in choices:
        platform = where.of(choice.platform)
        if platform.id not in found:
            missing: list[Archive] | None = [] if check else None
            stacks = [one for c in choices if c.platform.id == platform.id for one in stacks_of(c)]
            archive = Indices((), ())
            if any(locks.needs_archive(stack) for stack in stacks):
                archive = debian.read(
                    platform,
                    where.keys(keys),
                    cache=download.cache_directory(),
                    progress=progress,
                    gone=missing,
                )
            found[platform.id] = _with_repositories(facts, stacks, archive, reader)
            suites += [_suite(platform, archive) for archive in missing or ()]
    kept.check_hashes(choices, found, before)
    gone = suites + [
        f"{place}: {what} is in no index any more; {HELP}"
        for what, place in kept.gone(choices, found, before)
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
            raise kept.changed(one.url, f"SHA-256 {one.sha256}", f"SHA-256 {known}")
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
    chosen, notes = kept.choose(facts, fleet, choices, found, before, upgrade)
    found = _with_runfiles(found, chosen, reader)
    prefer = kept.packages(chosen, found, before, upgrade)
    versions = kept.wheel_versions(chosen, before, upgrade)
    pinned = ""
    if twin is not None:
        index, pin = _pinned(facts, fleet, choices, twin, found)
        chosen[index] = pin
        pinned = pin.stack.id
        for stack in locks.stacks_of(pin):  # one host, one driver
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
    made = locks.make(chosen, found, texts, prefer=prefer, before=before)
    if twin is not None:
        _check_twin(made, pinned, twin)
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
    stacks = {stack.id: stack for choice in chosen for stack in locks.stacks_of(choice)}
    locked = kept.by_stack(chosen, before)
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
                wish = next(c.wish for c in chosen if stack in locks.stacks_of(c))
                answer.where = f"{_place(fleet, wish)}{answer.where}"
                raise answer
            raise _unavailable(twin, _absent(dict(question.prefer), stack), answer)
        title = stack.platform.title
        texts[name] = kept.same_hashes(answer, locked.get(name), where=title)
        now = locks.wheels(answer)
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
        newest = locks.make(chosen, found, texts)
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


# A host's twin


def _pinned(
    facts: Catalog,
    fleet: Fleet,
    choices: Sequence[Choice],
    twin: Twin,
    found: Mapping[str, Indices],
) -> tuple[int, Choice]:
    """The place and the choice of the host's row, with the versions that the host has."""
    wish = fleet.hosts[twin.host]
    # Of the rows for its wish and platform that of its GPUs' generations.
    rows = [locks.row_of(one.choice) for one in explain(facts, fleet, twin.host)]
    own = [
        (number, choice)
        for number, choice in enumerate(choices)
        if choice.platform.platform == twin.platform and locks.row_of(choice) in rows
    ]
    if not own:
        said = f"{twin.platform.distribution} {twin.platform.release} {twin.platform.architecture}"
        raise UnsatisfiableError(
            "its platform can't have its gpu_stack",
            where=twin.host,
            got=said,
            expected=" or ".join(c.platform.title for c in choices if c.wish == wish),
        )
    number, choice = own[0]
    _check_wish(twin, choice)
    parts: list[tuple[str, dict[str, str]]] = []
    driver = _driver_of(facts, choice, twin)
    branch = driver.split(".")[0]
    # Its branch alone: another one could serve its wish as well.
    mine = [r for r in facts.drivers if r.platform != choice.platform.id or r.branch == branch]
    facts = facts.model_copy(update={"drivers": mine})
    parts.append(("nvidia_driver", {"version": driver, "branch": branch}))
    cudnn = _cudnn_of(facts, choice, twin)
    if cudnn is not None:
        parts.append(("cudnn", cudnn))
    parts.append(("tensorflow", {"version": twin.wheels["tensorflow"], "python": twin.python}))
    narrow = facts
    for component, part in parts:
        narrowed = kept.narrowed_to(narrow, choice, component, part)
        one = kept.resolved(narrowed, fleet, choice) if narrowed is not None else None
        if narrowed is None or one is None:
            raise UnsatisfiableError(
                f"no stack for its wish has its {component}",
                where=twin.host,
                got=f"{component} {part['version']}",
                expected=f"{component} {kept.version_of(choice.stack, component)}",
                hint="`provision catalog` shows what runs where",
            )
        narrow, choice = narrowed, one
    index = found[choice.platform.id]
    settled, _notes = kept.settle(facts, own[0][1], index)
    _check_packages(twin, index, choice, settled)
    return number, choice


def _check_wish(twin: Twin, choice: Choice) -> None:
    """The host must be what its wish says. InputError naming both."""
    wish = choice.wish
    asked = [
        ("tensorflow", wish.tensorflow, twin.wheels["tensorflow"]),
        ("python", wish.python, twin.python),
        ("cudnn", wish.cudnn.version if wish.cudnn else None, twin.cudnn),
    ]
    for word, wanted, has in asked:
        if wanted and has and not _agree(wanted, has):
            raise _contradicts(twin, word, wanted, has)
    branch = wish.driver_branch
    if branch:
        for root in choice.stack.driver.userspace:
            has = upstream(twin.packages.get(root, ""))
            if has and not _agree(branch, has):
                raise _contradicts(twin, "driver_branch", branch, has)


def _contradicts(twin: Twin, word: str, wanted: str, has: str) -> InputError:
    return InputError(
        "the host is not what its gpu_stack says",
        where=twin.host,
        got=f"{word} {has} on the host",
        expected=f'{word}: "{wanted}", as the inventory says',
        hint="change its gpu_stack, or lock from another host",
    )


def _agree(one: str, other: str) -> bool:
    """As far as both say: 8.1.0.77 and 8.1.0 agree, and so do 2.9 and 2.9.3."""
    try:
        a, b = Version(one).release, Version(other).release
    except InvalidVersion:
        return one == other
    length = min(len(a), len(b))
    return a[:length] == b[:length]


def _driver_of(facts: Catalog, choice: Choice, twin: Twin) -> str:
    rows = [row for row in facts.drivers if row.platform == choice.platform.id]
    roots = dict.fromkeys(root for row in rows for root in row.userspace)
    for root in roots:
        if root in twin.packages:
            return upstream(twin.packages[root])
    raise InputError(
        "the host has no driver of its platform's packages",
        where=twin.host,
        expected=f"one of {', '.join(roots)}",
        hint="a driver of NVIDIA's own is locked by wishing for it (driver_source)",
    )


def _cudnn_of(facts: Catalog, choice: Choice, twin: Twin) -> dict[str, str] | None:
    """The catalog's archive of the host's cuDNN; None where it can't or need not be told."""
    stack = choice.stack
    if not twin.cudnn or stack.cudnn.origin != "archive" or _agree(stack.cudnn.version, twin.cudnn):
        return None
    for row in facts.cudnn:
        if _agree(row.version, twin.cudnn) and row.architecture == choice.platform.architecture:
            return {"version": row.version, "sha256": row.sha256}
    raise UnsatisfiableError(
        "the catalog has no archive of its cuDNN",
        where=twin.host,
        got=f"cuDNN {twin.cudnn}",
        expected=" or ".join(dict.fromkeys(row.version for row in facts.cudnn)),
    )


def _check_packages(twin: Twin, found: Indices, pin: Choice, near: Choice) -> None:
    """Each package of the stack that the host has must be in an index at its very version.

    A driver that has left the indices can't be closed over there: one that is `near` has the names.
    """
    there = {(package.name, package.version) for package in found.packages}
    driver = pin.stack.driver
    names = {*driver.userspace, *driver.kernel, *driver.desktop}
    for choice in (pin, near):
        try:
            names |= set(locks.package_names(choice.stack, found))
        except UnsatisfiableError:
            continue
    absent = [
        f"{name} {twin.packages[name]}"
        for name in sorted(names)
        if name in twin.packages and (name, twin.packages[name]) not in there
    ]
    if absent:
        raise _unavailable(twin, absent, None)


def _check_twin(made: Lock, stack: str, twin: Twin) -> None:
    """What was locked is what the host has, or nothing is locked."""
    packages = made.details["packages"][stack]
    part = made.stacks[stack]
    differ = [
        f"{name} {twin.packages[name]} (only {package['version']} fits the rest)"
        for name, package in packages.items()
        if name in twin.packages and twin.packages[name] != package["version"]
    ]
    if differ:
        raise _unavailable(twin, differ, None)
    needed = {
        *part["nvidia_driver"]["packages"]["userspace"],
        *part.get("cuda", {}).get("packages", {}).get("runtime", {}),
    }
    lacking = sorted(name for name in needed if name not in twin.packages)
    lacking += sorted(name for name in part["tensorflow"]["wheels"] if name not in twin.wheels)
    if lacking:
        raise InputError(
            "the host is not what its gpu_stack says",
            where=twin.host,
            got=f"it lacks {', '.join(lacking)}",
            expected=f"all of {stack}",
            hint="`provision plan` tells what a host lacks; lock from one that has it all",
        )


def _unavailable(
    twin: Twin, absent: Sequence[str], error: UnsatisfiableError | None
) -> UnsatisfiableError:
    return UnsatisfiableError(
        "not all that the host has can be had",
        where=twin.host,
        got="; ".join(absent) or (error.got if error else ""),
        expected="each in an index of its platform at this very version",
        hint=HELP if absent else "the host's wheels contradict each other or the catalog",
    )
