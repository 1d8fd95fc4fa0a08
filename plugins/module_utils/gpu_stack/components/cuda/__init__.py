"""CUDA: exact packages, and each library that TensorFlow opens, as the loader resolves it.

A package that dpkg reports as installed can lack a file, or be shadowed by another CUDA earlier in
the loader's path; TensorFlow then silently runs without GPUs. So the look checks both, and the
change for a missing file names its soname and the package whose reinstallation restores it.
"""

from __future__ import annotations

import re

from ...change import change
from ...host import apt, code_users, dpkg, file_state, loader, logins, modes, package_files
from ...type_checking import TYPE_CHECKING
from . import nvidia_cuda

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Context
    from ...shapes import Changes, Facts, Options, Row, Stack, State

NAME = "cuda"
PREFERENCES = "/etc/apt/preferences.d/provision-cuda"
# Packages of the keys that sign the platform's archive.
KEYRINGS = {"debian": "debian-archive-keyring"}
# The names of the mirror's source and of its login file.
MIRROR = "provision-cuda-mirror"
# Profile runtime extracts ptxas and libdevice from a package, and records which one.
TOOLS_PACKAGE = "nvidia-cuda-toolkit"
TOOLS_MARKER = "/usr/lib/nvidia-cuda-toolkit/.provision-tools"


def profile(options: Options) -> str:
    return options.get("cuda_profile") or "toolkit"


def profile_packages(row: Row, options: Options) -> dict[str, str]:
    """{package: exact version} of the selected profile."""
    sets = row.get("packages") or {}
    return sets.get(profile(options)) or {}


def release_of(version: str) -> str:
    """The CUDA release in a Debian version: "11.2.2" of "11.2.152~11.2.2-3+deb11u3".

    The revision behind the last hyphen can have a "~" of its own: "11.8.89~11.8.0-5~deb12u1".
    """
    return version.rsplit("-", 1)[0].rsplit("~", 1)[-1]


def _version(context: Context, sonames: dict[str, str]) -> str | None:
    """CUDA's version on the host: the toolkit's, else the locked libcudart's, else any one's."""
    locked = [sonames[name] for name in sorted(sonames) if name.startswith("libcudart.so.")]
    others = sorted(name for name in context.packages if re.match(r"libcudart\d", name))
    for name in [TOOLS_PACKAGE, *locked, *others]:
        if name in context.packages:
            return release_of(context.packages[name]["version"])
    return None


def _library(context: Context, soname: str, package: str) -> dict[str, Any] | None:
    """The library as the loader resolves it; {"own": path} if only ldconfig has to run."""
    path = context.loader.get(soname)
    library = None if path is None else loader.inspect(context, path)
    listed = dpkg.file_list(context, package)
    if path is None or library is None:
        # Not in the cache, or the cache names a missing file.
        own = next(
            (listed_path for listed_path in listed if listed_path.endswith("/" + soname)), None
        )
        if own is None or own == path:
            return None
        return {"own": own} if loader.complaint(loader.inspect(context, own)) is None else None
    library["owner"] = dpkg.owner(context, library["real"], [package])
    library["own"] = next(
        (listed_path for listed_path in listed if _same_place(context, listed_path, path)), None
    )
    return library


def _same_place(context: Context, first: str, second: str) -> bool:
    """Whether two paths name one directory entry: /lib may be a link to /usr/lib."""
    if first.rsplit("/", 1)[-1] != second.rsplit("/", 1)[-1]:
        return False
    return first == second or context.resolve(first.rsplit("/", 1)[0] or "/") == context.resolve(
        second.rsplit("/", 1)[0] or "/"
    )


def _file(context: Context, path: str) -> dict[str, Any] | None:
    info = context.stat(path)
    if info is None:
        return None
    faults = modes.faults(context, [context.resolve(path) or path])
    return {"path": path, "size": info.st_size, "modes": sorted(faults.items())}


def _files(context: Context, row: Row) -> dict[str, Any]:
    """{name: {"path", "size", "modes"} | None} of the lock's files and of XLA's libdevice."""
    states = {name: _file(context, spec["path"]) for name, spec in (row.get("files") or {}).items()}
    directory = context.part("gpu_env").get("xla_cuda_data_dir")
    if directory and "libdevice" in states:
        path = directory + "/nvvm/libdevice/libdevice.10.bc"
        states["libdevice for XLA"] = _file(context, path) or {"path": path, "size": 0}
    return states


def _keys(context: Context) -> list[dict[str, Any]]:
    """Flaws of the files that hold the archive's keys."""
    name = KEYRINGS.get(context.platform.get("distribution", ""))
    flaws = package_files.flaws(context, [name]) if name is not None else []
    return [
        flaw for flaw in flaws if flaw["path"].startswith(("/etc/apt/", "/usr/share/keyrings/"))
    ]


def _logins(row: Row, options: Options) -> dict[str, Any]:
    """{name of apt's login file: address} of mirrors that may need a login."""
    addresses = {MIRROR: options.get("cuda_mirror")}
    if row.get("source") == "network":
        addresses["provision-cuda"] = (options.get("cuda_repository_url") or "").rstrip("/")
    return addresses


def look(context: Context) -> dict[str, Any]:
    """{version, packages, cache, sonames, files, tools, components, pins, flaws}."""
    row = context.part(NAME)
    packages = dpkg.select(
        context, [*sorted(profile_packages(row, context.options)), TOOLS_PACKAGE]
    )
    sonames = row.get("sonames") or {}
    from_nvidia = nvidia_cuda.is_nvidias(row)
    return {
        "version": nvidia_cuda.version(row, context.packages)
        if from_nvidia
        else _version(context, sonames),
        "nvidia": nvidia_cuda.look(context, row),
        "packages": packages,
        "cache": loader.cache(context),
        "sonames": {name: _library(context, name, sonames[name]) for name in sonames},
        "files": _files(context, row),
        "tools": (context.read(TOOLS_MARKER) or "").strip() or None,
        "pins": apt.pins(context.read(PREFERENCES) or ""),
        "pins_file": file_state.fault(context, PREFERENCES),
        "logins": logins.look(context, _logins(row, context.options)) if row else {},
        "mirror_left": logins.left(context, MIRROR, context.options.get("cuda_mirror")),
        "components": sorted(
            name
            for name in {"contrib", "non-free", *(context.options.get("cuda_apt_components") or ())}
            if apt.component_enabled(context.apt_entries, name)
        ),
        "flaws": package_files.flaws(context, profile_packages(row, context.options)),
        "keys": _keys(context) if row and not from_nvidia else [],
    }


def _soname_change(
    soname: str, package: str, version: str | None, library: dict[str, Any] | None
) -> dict[str, Any] | None:
    to = f"{package} {version}" if version else package
    repair = {"cuda_reinstall": [package]}
    if library is not None and "real" not in library:
        reason = "the loader's cache does not know {0}".format(library["own"])
        return change(NAME, soname, "not in the loader's cache", to, reason)
    fault = loader.complaint(library)
    if library is None or fault is not None:
        reason = f"TensorFlow opens {soname} by name, and the loader finds no whole file"
        return change(NAME, soname, fault, to, reason, repair=repair)
    if library["owner"] is None and library["own"] is not None:
        reason = "{0} leads to a file that {1} does not own".format(library["path"], package)
        return change(NAME, soname, library["real"], to, reason, repair=repair)
    if library["owner"] is None:
        reason = (
            "the loader takes {0} from a file that {1} does not own: remove {2}, or the line in "
            "/etc/ld.so.conf.d that names its directory"
        ).format(soname, package, library["path"])
        return change(NAME, soname, library["real"], to, reason)
    return None


def _file_changes(row: Row, state: State, options: Options) -> Changes:
    """Changes for ptxas and libdevice, which profile runtime extracts from their package.

    Only an installed package can be reinstalled; in profile runtime the role itself notices a
    missing file.
    """
    packages = profile_packages(row, options)
    changes = []
    files = row.get("files") or {}
    for name in sorted(state["files"]):
        file = state["files"][name]
        spec = files.get(name) or files["libdevice"]
        package = spec["package"]
        if package in packages and package not in state["packages"]:
            continue  # its package is a change already
        if file is not None and file["size"] > 0:
            # Files of an installed package are among its flaws.
            for real, (fault, mode) in () if package in packages else file.get("modes") or ():
                reason = f"XLA of every user needs {file['path']}"
                modes_repair = {"cuda_modes": [f"{real} {mode}"]}
                changes.append(
                    change(NAME, name, fault, "mode " + mode, reason, repair=modes_repair)
                )
            continue
        version = ((row.get("packages") or {}).get("toolkit") or {}).get(package, "")
        path = file["path"] if file is not None else spec["path"]
        repair = {"cuda_reinstall": [package]} if package in packages else None
        to = f"{package} {version}".strip()
        reason = f"XLA needs {path}"
        changes.append(change(NAME, name, "missing", to, reason, repair=repair))
    version = ((row.get("packages") or {}).get("toolkit") or {}).get(TOOLS_PACKAGE)
    if files and version and TOOLS_PACKAGE not in packages and not changes:
        installed = state["packages"].get(TOOLS_PACKAGE) or {}
        spec = f"{TOOLS_PACKAGE}={version}"
        if installed.get("version") != version and state["tools"] != spec:
            reason = "ptxas and libdevice are not known to be of this version"
            changes.append(change(NAME, "compiler tools", state["tools"], spec, reason))
    return changes


def differ(stack: Stack, state: State, options: Options) -> Changes:
    """Changes that bring the profile's packages, libraries and files to the lock. Pure."""
    row = stack[NAME]
    packages = profile_packages(row, options)
    hold = options.get("cuda_hold", True)
    changes = []
    if not options.get("cuda_mirror") and not nvidia_cuda.is_nvidias(row):
        for component in options.get("cuda_apt_components") or ("contrib", "non-free"):
            if component not in state["components"]:
                reason = f"the CUDA packages come from {component}"
                item = f"apt component {component}"
                changes.append(change(NAME, item, "not enabled", "enabled", reason))
    for flaw in state.get("keys") or []:
        path = flaw["path"]
        reason = "apt trusts the archive by it"
        repair = {"cuda_keys": [path]}
        if "mode" in flaw:
            repair = {"cuda_modes": [f"{path} {flaw['mode']}"]}
        changes.append(change(NAME, path, flaw["fault"], flaw["package"], reason, repair=repair))
    old = state.get("pins_file")
    if old is None and any(state["pins"].get(name) != packages[name] for name in packages):
        old = "not as locked"
    if old is not None:
        reason = "apt could move the packages away from the lock"
        changes.append(change(NAME, PREFERENCES, old, "as locked", reason))
    changes.extend(logins.differ(NAME, state.get("logins") or {}))
    changes.extend(logins.left_changes(NAME, state.get("mirror_left") or []))
    exact = dpkg.package_changes(NAME, packages, state["packages"], hold)
    changes.extend(exact)
    tree_changes = []
    if nvidia_cuda.is_nvidias(row):
        installed = [name for name in packages if name in state["packages"]]
        complete = not any(entry["item"] in packages for entry in exact)
        tree_changes = nvidia_cuda.tree_missing(row, state["nvidia"], installed)
        changes.extend(tree_changes)
        changes.extend(
            nvidia_cuda.differ(row, state["nvidia"], options, complete and not tree_changes)
        )
    else:
        changes.extend(nvidia_cuda.remains_changes(state.get("nvidia") or {}))
    if not tree_changes:
        content = _content_changes(row, state, options)
        # The loader finds the tree's libraries once its file names the tree: the cause is reported,
        # not ten effects.
        if any(entry["item"] == nvidia_cuda.LOADER for entry in changes):
            sonames = row.get("sonames") or {}
            content = [
                entry for entry in content if entry["item"] not in sonames or entry["repair"]
            ]
        changes.extend(content)
    return changes


def survey(context: Context, _facts: Facts, changes: Changes) -> dict[str, Any]:
    """The preflight's `cuda_users`: who uses the trees that a run would remove."""
    removed = [entry["item"] for entry in changes
               if entry["component"] == NAME and entry["to"] is None]  # fmt: skip
    trees = [path for path in removed if path.startswith(nvidia_cuda.LINK + "-")]
    places = code_users.resolved(context, {tree: tree for tree in trees})
    return {"cuda_users": code_users.using(context, places)} if trees else {}


def packages(row: Row, context: Context) -> dict[str, str]:
    """{package: version} that the role installs with apt."""
    return profile_packages(row, context.options)


def _content_changes(row: Row, state: State, options: Options) -> Changes:
    """Changes for damage inside installed packages, and for what the loader finds instead."""
    packages = profile_packages(row, options)
    changes = []
    repaired = set()
    if packages and not state.get("cache", True):
        reason = "without it the loader finds no library outside its own directories"
        changes.append(change(NAME, loader.CACHE, "missing", "rebuilt", reason))
    for soname in sorted(row.get("sonames") or {}):
        package = row["sonames"][soname]
        if package not in state["packages"] or not state.get("cache", True):
            continue  # its package, or the cache, is a change already
        library = state["sonames"].get(soname)
        soname_change = _soname_change(soname, package, packages.get(package), library)
        if soname_change is not None:
            changes.append(soname_change)
            if soname_change["repair"]:
                repaired.add(soname.split(".so")[0] + ".so")
    files = _file_changes(row, state, options)
    changes.extend(files)
    items = [entry["item"] for entry in files]
    named = {(state["files"].get(item) or {}).get("path") for item in items} | {
        ((row.get("files") or {}).get(item) or {}).get("path") for item in items
    }
    flawed = [
        flaw
        for flaw in state.get("flaws") or []
        if flaw["path"] not in named
        and flaw["path"].rsplit("/", 1)[-1].split(".so")[0] + ".so" not in repaired
        # the link that XLA follows, when libdevice is missing behind it
        and (
            "mode" in flaw
            or not any(path and path.startswith(flaw["path"] + "/") for path in named)
        )
    ]
    changes.extend(package_files.flaw_changes(NAME, flawed))
    return changes
