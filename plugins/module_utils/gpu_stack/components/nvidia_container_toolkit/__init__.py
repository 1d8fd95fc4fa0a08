"""NVIDIA's container toolkit: exact packages, their source, and the container runtimes.

A stale source file makes apt refuse to work, an upgrade of one of the four packages breaks the
others, and the container runtimes have to know NVIDIA's. `files` returns the same text as the
role's templates; a test renders both.
"""

from __future__ import annotations

from ...change import change
from ...host import apt, dpkg, file_state, logins, other_sources, package_files
from ...host.kept_names import SAVED
from ...type_checking import TYPE_CHECKING
from . import cdi, containerd, crio, docker

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Context
    from ...shapes import Changes, Facts, Options, Row, Stack, State

NAME = "nvidia_container_toolkit"
TITLE = "nvidia-container-toolkit"
KEY = "/usr/share/keyrings/provision-nvidia-container-toolkit.asc"
SOURCES = other_sources.REPOSITORIES["container_toolkit"].own
PREFERENCES = "/etc/apt/preferences.d/provision-nvidia-container-toolkit"
APT = "/etc/apt/apt.conf.d/90provision-nvidia-container-toolkit"
HEADER = "# Written by the Ansible role nvidia_container_toolkit; changes made here are lost.\n"


def locked_packages(row: Row) -> dict[str, str]:
    """{package: exact version} of the lock."""
    return (row.get("packages") or {}).get("toolkit") or {}


def url(row: Row, options: Options) -> str:
    """URL of the repository."""
    mirror = options.get("nvidia_container_toolkit_repository_url")
    # The password is in a login file of apt's.
    return apt.bare(mirror or (row.get("repository") or {}).get("url") or "").rstrip("/")


def _sources(row: Row, options: Options) -> str:
    return HEADER + "Types: deb\nURIs: {0}\nSuites: {1}\nSigned-By: {2}\n".format(
        url(row, options), (row.get("repository") or {}).get("suite") or "/", KEY
    )


def _preferences(row: Row) -> str:
    text = HEADER + (
        "# These versions and no others: a priority above 1000 also undoes an accidental upgrade.\n"
    )
    for name in sorted(locked_packages(row)):
        text += (
            f"\nPackage: {name}\nPin: version {locked_packages(row)[name]}\nPin-Priority: 1001\n"
        )
    return text


def _apt(row: Row, options: Options) -> str:
    text = HEADER + 'Dir::Ignore-Files-Silently:: "\\.provision-saved(\\.[0-9]+)?$";\n'
    bundle = options.get("nvidia_container_toolkit_ca_bundle")
    if bundle:
        host = other_sources.host_of(url(row, options))
        text += f'Acquire::https::{host}::CaInfo "{bundle}";\n'
    return text


def files(row: Row, options: Options) -> dict[str, str]:
    """{path: text} of the files that the role writes."""
    return {
        KEY: ((row.get("repository") or {}).get("key") or "").strip() + "\n",
        SOURCES: _sources(row, options),
        PREFERENCES: _preferences(row),
        APT: _apt(row, options),
    }


def packages(row: Row, _context: Context) -> dict[str, str]:
    """{package: version} that the role installs with apt."""
    return locked_packages(row)


# the look


def _engine_url(options: Options) -> str:
    """URL of Docker's repository in the inventory; "" for Docker's default."""
    repository = options.get("nvidia_container_toolkit_docker_repository") or {}
    return apt.bare(str(repository.get("url") or "")).rstrip("/")


def engine_look(context: Context) -> dict[str, Any]:
    """{"others", "stale"}: packages that Docker's would replace, and files of other sources."""
    return {
        "others": docker.others(context),
        "stale": other_sources.stale_files(context, "docker", _engine_url(context.options)),
    }


def _logins(options: Options) -> dict[str, str]:
    """{name of apt's login file: address} of a mirror that may need a login."""
    mirror = options.get("nvidia_container_toolkit_repository_url") or ""
    return {"provision-nvidia-container-toolkit": mirror.rstrip("/")}


def look(context: Context) -> dict[str, Any]:
    """State of the toolkit; where the lock has none, only {"version"}."""
    row = context.part(NAME)
    installed = context.packages.get(TITLE)
    version = None if installed is None else installed["version"].rsplit("-", 1)[0]
    if not row:
        return {"version": version}
    paths = sorted(files(row, context.options))
    return {
        "version": version,
        "packages": dpkg.select(context, sorted(locked_packages(row))),
        "files": {path: context.read(path) for path in paths},
        "written": file_state.faults(context, paths),
        "logins": logins.look(context, _logins(context.options)),
        "stale": other_sources.stale_files(context, "container_toolkit", url(row, context.options)),
        "flaws": package_files.flaws(context, locked_packages(row)),
        "docker": docker.look(context),
        "engine": engine_look(context),
        "containerd": containerd.look(context),
        "crio": crio.look(context),
        "cdi": cdi.look(context, row["version"]),
    }


# the differences

_REASONS = {
    KEY: "apt trusts NVIDIA's repository by it",
    SOURCES: "apt takes the toolkit's packages from there",
    PREFERENCES: "apt could move the packages away from the lock",
    APT: "apt reads it before it goes to NVIDIA's repository",
}


def differ(stack: Stack, state: State, options: Options) -> Changes:
    """Changes to the source, the packages and the runtimes' configuration."""
    row = stack[NAME]
    changes = []
    for path in state["stale"]:
        reason = f"names NVIDIA's repository beside ours; kept as {path}{SAVED}"
        changes.append(change(NAME, path, "in apt's way", other_sources.ASIDE, reason))
    texts = files(row, options)
    for path in sorted(texts):
        old = file_state.complaint(
            state["files"].get(path), texts[path], state["written"].get(path)
        )
        if old is not None:
            changes.append(change(NAME, path, old, "as wished", _REASONS[path]))
    changes.extend(logins.differ(NAME, state.get("logins") or {}))
    hold = options.get("nvidia_container_toolkit_hold", True)
    changes.extend(dpkg.package_changes(NAME, locked_packages(row), state["packages"], hold))
    changes.extend(package_files.flaw_changes(NAME, state["flaws"]))
    changes.extend(docker.differ(NAME, state, options))
    changes.extend(containerd.differ(NAME, state["containerd"]))
    changes.extend(crio.differ(NAME, state["crio"]))
    changes.extend(cdi.differ(NAME, row["version"], state["cdi"], options))
    return changes


def following(changes: Changes) -> Changes:
    """The plan's changes without those that follow a driver's change, where there is none."""
    return cdi.following(changes)


def survey(context: Context, _facts: Facts, _changes: Changes) -> dict[str, Any]:
    """The preflight's `docker`: what runs in containers; nothing where docker does not run."""
    if context.part(NAME) and docker.running(context):
        return {"docker": docker.containers(context)}
    return {}
