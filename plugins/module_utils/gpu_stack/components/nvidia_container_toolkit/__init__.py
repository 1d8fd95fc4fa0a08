"""NVIDIA's container toolkit: exact packages, their source, and docker that knows the runtime.

A list of yesterday makes apt refuse all work, an upgrade of one of the four packages breaks the
others, and those who start containers have to know the runtime. The role's templates are the
files' home; `files` says the same text, and a test renders both.
"""

from ...change import change
from ...host import apt, dpkg, file_state, logins, other_sources, package_files
from ...host.kept_names import SAVED
from ..cuda import nvidia_cuda
from . import cdi, containerd, crio, docker

NAME = "nvidia_container_toolkit"
TITLE = "nvidia-container-toolkit"
KEY = "/usr/share/keyrings/provision-nvidia-container-toolkit.asc"
SOURCES = other_sources.REPOSITORIES["container_toolkit"].own
PREFERENCES = "/etc/apt/preferences.d/provision-nvidia-container-toolkit"
APT = "/etc/apt/apt.conf.d/90provision-nvidia-container-toolkit"
HEADER = "# Written by the Ansible role nvidia_container_toolkit; changes made here are lost.\n"


def wanted(row):
    """{package: exact version}."""
    return (row.get("packages") or {}).get("toolkit") or {}


def url(row, options):
    """Where apt takes the packages from."""
    mirror = options.get("nvidia_container_toolkit_repository_url")
    # apt is given the password in a file of its own.
    return apt.bare(mirror or (row.get("repository") or {}).get("url") or "").rstrip("/")


def _sources(row, options):
    return HEADER + "Types: deb\nURIs: {0}\nSuites: {1}\nSigned-By: {2}\n".format(
        url(row, options), (row.get("repository") or {}).get("suite") or "/", KEY
    )


def _preferences(row):
    text = HEADER + (
        "# These versions and no others: a priority above 1000 also undoes an accidental upgrade.\n"
    )
    for name in sorted(wanted(row)):
        text += "\nPackage: {0}\nPin: version {1}\nPin-Priority: 1001\n".format(
            name, wanted(row)[name]
        )
    return text


def _apt(row, options):
    text = HEADER + 'Dir::Ignore-Files-Silently:: "\\.provision-saved(\\.[0-9]+)?$";\n'
    bundle = options.get("nvidia_container_toolkit_ca_bundle")
    if bundle:
        host = nvidia_cuda.host_of(url(row, options))
        text += 'Acquire::https::{0}::CaInfo "{1}";\n'.format(host, bundle)
    return text


def files(row, options):
    """{path: text} of what the role writes whole."""
    return {
        KEY: ((row.get("repository") or {}).get("key") or "").strip() + "\n",
        SOURCES: _sources(row, options),
        PREFERENCES: _preferences(row),
        APT: _apt(row, options),
    }


# the look


def _engine_url(options):
    """Docker's repository as the inventory names it; "" for Docker's own place."""
    given = options.get("nvidia_container_toolkit_docker_repository") or {}
    return apt.bare(str(given.get("url") or "")).rstrip("/")


def engine_look(context):
    """{"others", "stale"}: what would go for Docker's own packages, and their other sources."""
    return {
        "others": docker.others(context),
        "stale": other_sources.stale_files(context, "docker", _engine_url(context.options)),
    }


def _logins(options):
    """{name of the file: address} of the mirror that apt may have to log in to."""
    mirror = options.get("nvidia_container_toolkit_repository_url") or ""
    return {"provision-nvidia-container-toolkit": mirror.rstrip("/")}


def look(context):
    """{version, packages, files, written, stale, flaws, docker, engine, containerd, cdi}.

    Of other stacks the version alone: it is asked of dpkg, whose status is read anyway.
    """
    row = context.part(NAME)
    installed = context.packages.get(TITLE)
    version = None if installed is None else installed["version"].rsplit("-", 1)[0]
    if not row:
        return {"version": version}
    paths = sorted(files(row, context.options))
    return {
        "version": version,
        "packages": dpkg.select(context, sorted(wanted(row))),
        "files": {path: context.read(path) for path in paths},
        "written": file_state.faults(context, paths),
        "logins": logins.look(context, _logins(context.options)),
        "stale": other_sources.stale_files(context, "container_toolkit", url(row, context.options)),
        "flaws": package_files.flaws(context, wanted(row)),
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


def differ(row, found, options):
    """Changes for the source, the packages and docker's configuration."""
    changes = []
    for path in found["stale"]:
        reason = "names NVIDIA's repository beside ours; kept as {0}{1}".format(path, SAVED)
        changes.append(change(NAME, path, "in apt's way", nvidia_cuda.ASIDE, reason))
    texts = files(row, options)
    for path in sorted(texts):
        old = file_state.complaint(
            found["files"].get(path), texts[path], found["written"].get(path)
        )
        if old is not None:
            changes.append(change(NAME, path, old, "as wished", _REASONS[path]))
    changes.extend(logins.differ(NAME, found.get("logins") or {}))
    hold = options.get("nvidia_container_toolkit_hold", True)
    changes.extend(dpkg.package_changes(NAME, wanted(row), found["packages"], hold))
    changes.extend(package_files.flaw_changes(NAME, found["flaws"]))
    changes.extend(docker.differ(NAME, found, options))
    changes.extend(containerd.differ(NAME, found["containerd"]))
    changes.extend(crio.differ(NAME, found["crio"]))
    changes.extend(cdi.differ(NAME, row["version"], found["cdi"], options))
    return changes
