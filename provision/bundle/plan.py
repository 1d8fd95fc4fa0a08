"""What goes into a bundle of a lock: each file's path, and its bytes or its hash and addresses."""

from __future__ import annotations

import hashlib
import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from provision import collection
from provision.bundle import archives as package_archives
from provision.bundle import controller
from provision.bundle.archives import Archives
from provision.bundle.manifest import LOCK, README, SIMPLE, WHEELS
from provision.catalog import Catalog
from provision.errors import InputError
from provision.lock import Lock, dump
from provision.lock import files as locked_files
from provision.lock.model import names_of
from provision.upstream import wheel_files
from provision.upstream.exact import Exact, Places

# {requirements, Python and platform: paths of wheels} of earlier bundles, with their hashes.
Environments = Mapping[str, Mapping[str, str]]


@dataclass
class Plan:
    """A bundle's files: `made` by their bytes, `fetched` by their hashes, and the known sizes."""

    lock: str
    platforms: tuple[str, ...]
    packages: tuple[str, ...]
    made: dict[str, bytes] = field(default_factory=dict)
    fetched: dict[str, Exact] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    archives: tuple[Mapping[str, Any], ...] = ()
    environments: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Wish:
    """What of a lock goes into a bundle: its platforms (all), and further packages by name.

    `controller` are the rendered tree's and the documentation's files, for what a controller needs.
    """

    platforms: Sequence[str] = ()
    packages: Sequence[str] = ()
    controller: tuple[Mapping[str, bytes], Mapping[str, bytes]] | None = None


def make(
    lock: Lock,
    facts: Catalog,
    wish: Wish,
    places: Places,
    earlier_wheels: Environments,
    progress: Callable[[str], None] = lambda _: None,
) -> Plan:
    """The plan of a lock's bundle, from the indices that the lock names.

    `earlier_wheels`: those of earlier bundles, for which no index is asked. DriftError where
    upstream no longer has what is locked.
    """
    stacks = _stacks(lock, facts, wish.platforms)
    plan = Plan(lock.digest, tuple(sorted(stacks)), tuple(sorted(set(wish.packages))))
    plan.made[LOCK] = dump(lock)
    plan.made[README] = controller.readme(with_controller=wish.controller is not None)
    if wish.controller is not None:
        progress("wheels of Ansible")
        plan.made |= controller.made(plan.made[LOCK], *wish.controller)
        for python in controller.PYTHONS:
            text = controller.requirements(python)
            _add_wheels(plan, text, python, controller.WHEEL_PLATFORM, earlier_wheels)
    rows = {row.id: row for row in facts.platforms}
    read: list[Archives] = []
    for platform, names in sorted(stacks.items()):
        progress(f"{rows[platform].title}: indices")
        sources = [source for name in names for source in lock.details["sources"][name]]
        its = package_archives.read(rows[platform], sources, places)
        for name in names:
            progress(f"{rows[platform].title}: {name}")
            locked = lock.details["packages"][name]
            package_archives.add_stack(its, lock.stacks[name], locked, plan.packages)
            _add_files(plan, facts, lock.stacks[name])
            python = lock.stacks[name]["tensorflow"]["python"]
            _add_wheels(
                plan, lock.requirements[name], python, rows[platform].wheel_platform, earlier_wheels
            )
        path, body = package_archives.sources(its)
        plan.made |= its.made | {path: body}
        plan.fetched |= its.fetched
        plan.sizes |= its.sizes
        read.append(its)
    plan.archives = package_archives.entries(read)
    _add_pages(plan)
    return plan


def _stacks(lock: Lock, facts: Catalog, wished: Sequence[str]) -> dict[str, list[str]]:
    """Platform id -> names of its stacks. InputError for a platform that the lock lacks."""
    ids = {tuple(sorted(row.platform.as_data().items())): row.id for row in facts.platforms}
    stacks: dict[str, list[str]] = {}
    for row in lock.slim["rows"]:
        platform = ids.get(tuple(sorted(row["platform"].items())))
        if platform is None:
            raise InputError(
                "the lock has a platform that the catalog does not know",
                where="lock.yml",
                got=" ".join(row["platform"].values()),
                expected=" or ".join(ids.values()),
            )
        for name in names_of(row):
            if name not in stacks.setdefault(platform, []):
                stacks[platform].append(name)
    for platform in wished:
        if platform not in stacks:
            raise InputError(
                "the lock has no stack for this platform",
                where=f"--platform {platform}",
                expected=" or ".join(stacks),
            )
    return {name: stacks[name] for name in sorted(stacks) if name in wished or not wished}


def _add_files(plan: Plan, facts: Catalog, stack: Mapping[str, Mapping[str, Any]]) -> None:
    """Adds what is no package: the archive of cuDNN, NVIDIA's installers."""
    for file in locked_files.of_stack(facts, stack):
        _add_file(plan, file.sha256, file.urls, file.title)


def _add_file(plan: Plan, sha256: str, urls: Sequence[str], where: str) -> None:
    path = collection.stack_module("host.bundle_layout").file(sha256, urls[0] if urls else "")
    plan.fetched[path] = Exact(sha256, tuple(urls), where)


def _add_wheels(
    plan: Plan, requirements: str, python: str, wheel_platform: str, earlier_wheels: Environments
) -> None:
    digest = hashlib.sha256(requirements.encode()).hexdigest()
    key = f"{digest} {python} {wheel_platform}"
    if key in plan.environments:
        return
    if key in earlier_wheels and _are_wheels_of(earlier_wheels[key], requirements):
        for path, sha256 in earlier_wheels[key].items():
            plan.fetched[path] = Exact(sha256, (), path)
        plan.environments[key] = tuple(sorted(earlier_wheels[key]))
        return
    wheels = wheel_files.files(requirements, python=python, wheel_platform=wheel_platform)
    for wheel in wheels:
        plan.fetched[f"{WHEELS}/{wheel.name}"] = Exact(wheel.sha256, (wheel.url,), wheel.name)
    plan.environments[key] = tuple(f"{WHEELS}/{wheel.name}" for wheel in wheels)


def _are_wheels_of(hashes: Mapping[str, str], requirements: str) -> bool:
    """Whether an earlier bundle's files are wheels of these requirements: a file for each.

    Nobody has checked that bundle's signature. What it calls a wheel could be any file in the new
    one's place, which is signed.
    """
    locked = wheel_files.hashes(requirements)
    projects = set()
    for path, sha256 in hashes.items():
        folder, _, name = path.rpartition("/")
        project = wheel_files.project_of(name) if folder == WHEELS else ""
        if sha256 not in locked.get(project, ()):
            return False
        projects.add(project)
    return projects == locked.keys()


def _add_pages(plan: Plan) -> None:
    """Adds the index of the wheels as pages, which pip reads from a server or a disk (PEP 503)."""
    projects: dict[str, list[str]] = {}
    for path in sorted(plan.fetched):
        if path.startswith(f"{WHEELS}/"):
            file = path.rpartition("/")[2]
            link = f"../../{WHEELS}/{quote(file)}#sha256={plan.fetched[path].digest}"
            projects.setdefault(wheel_files.project_of(file), []).append(_link(link, file))
    for project, links in projects.items():
        plan.made[f"{SIMPLE}/{project}/index.html"] = _page(links)
    plan.made[f"{SIMPLE}/index.html"] = _page([_link(f"{name}/", name) for name in projects])


def _link(target: str, text: str) -> str:
    return f'<a href="{html.escape(target)}">{html.escape(text)}</a><br>'


def _page(links: Sequence[str]) -> bytes:
    return "\n".join(["<!DOCTYPE html>", "<html><body>", *links, "</body></html>", ""]).encode()
