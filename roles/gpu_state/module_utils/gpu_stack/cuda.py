"""CUDA: exact packages, and each library that TensorFlow opens, as the loader resolves it.

A package that dpkg calls installed can still have lost a file, or be shadowed by another CUDA
earlier in the loader's path; TensorFlow then silently runs without GPUs. So both are looked at,
and a lost file names the soname and the package whose reinstallation brings it back.
"""

from . import dpkg, loader
from .change import change

NAME = "cuda"
PREFERENCES = "/etc/apt/preferences.d/provision-cuda"


def profile(options):
    return options.get("cuda_profile") or "toolkit"


def wanted(row, options):
    """{package: exact version} of the profile."""
    sets = row.get("packages") or {}
    return sets.get(profile(options)) or {}


def release_of(version):
    """CUDA's own version in a Debian version: "11.2.152~11.2.2-3+deb11u3" holds "11.2.2"."""
    return version.rsplit("~", 1)[-1].split("-", 1)[0]


def _library(context, soname, package):
    path = context.loader.get(soname)
    seen = None if path is None else loader.inspect(context, path)
    if seen is None:
        # Not in the cache, or the cache names a file that is gone.
        return None
    seen["owner"] = dpkg.owner(context, seen["real"], [package])
    return seen


def _file(context, path):
    info = context.stat(path)
    return None if info is None else {"path": path, "size": info.st_size}


def look(context):
    """{version, packages, sonames, files, components, damaged}."""
    row = context.part(NAME)
    packages = dpkg.select(context, wanted(row, context.options))
    sonames = row.get("sonames") or {}
    version = None
    for name in ("nvidia-cuda-toolkit", "libcudart11.0"):
        if name in context.packages:
            version = release_of(context.packages[name]["version"])
            break
    return {
        "version": version,
        "packages": packages,
        "sonames": dict((name, _library(context, name, sonames[name])) for name in sonames),
        "files": dict(
            (name, _file(context, spec["path"])) for name, spec in (row.get("files") or {}).items()
        ),
        "components": sorted(
            name
            for name in ("contrib", "non-free")
            if dpkg.component_enabled(context.apt_entries, name)
        ),
        "damaged": dpkg.damaged(context, packages) if context.deep else [],
    }


def _soname_change(soname, package, version, seen):
    to = "{0} {1}".format(package, version) if version else package
    fault = loader.complaint(seen)
    if fault is not None:
        reason = "TensorFlow opens {0} by name, and the loader finds no whole file".format(soname)
        return change(NAME, soname, fault, to, reason, repair={"cuda_reinstall": [package]})
    if seen["owner"] is None:
        reason = "the loader takes {0} from a file that {1} does not own".format(soname, package)
        return change(NAME, soname, seen["real"], to, reason)
    return None


def _file_change(name, spec, version, seen, repairable):
    if seen is not None and seen["size"] > 0:
        return None
    package = spec["package"]
    fault = "missing" if seen is None else "empty"
    to = "{0} {1}".format(package, version) if version else package
    reason = "XLA needs {0} at {1}".format(name, spec["path"])
    repair = {"cuda_reinstall": [package]} if repairable else None
    return change(NAME, name, fault, to, reason, repair=repair)


def differ(row, found, options):
    """What is to be changed for the profile's packages, libraries and files to be the lock's."""
    packages = wanted(row, options)
    hold = options.get("cuda_hold", True)
    changes = []
    if not options.get("cuda_mirror"):
        for component in options.get("cuda_apt_components") or ("contrib", "non-free"):
            if component not in found["components"]:
                reason = "the CUDA packages come from {0}".format(component)
                item = "apt component {0}".format(component)
                changes.append(change(NAME, item, "not enabled", "enabled", reason))
    changes.extend(dpkg.package_changes(NAME, packages, found["packages"], hold))
    installed = found["packages"]
    for soname in sorted(row.get("sonames") or {}):
        package = row["sonames"][soname]
        if package not in installed:
            continue  # its package is a change already
        one = _soname_change(soname, package, packages.get(package), found["sonames"].get(soname))
        if one is not None:
            changes.append(one)
    for name in sorted(row.get("files") or {}):
        spec = row["files"][name]
        package = spec["package"]
        if package in packages and package not in installed:
            continue
        one = _file_change(
            name, spec, packages.get(package), found["files"].get(name), package in packages
        )
        if one is not None:
            changes.append(one)
    for package, path in found.get("damaged") or []:
        reason = "its content is not what {0} shipped".format(package)
        repair = {"cuda_reinstall": [package]}
        changes.append(change(NAME, path, "altered", package, reason, repair=repair))
    return changes
