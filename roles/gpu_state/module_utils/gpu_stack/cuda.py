"""CUDA: exact packages, and each library that TensorFlow opens, as the loader resolves it.

A package that dpkg calls installed can still have lost a file, or be shadowed by another CUDA
earlier in the loader's path; TensorFlow then silently runs without GPUs. So both are looked at,
and a lost file names the soname and the package whose reinstallation brings it back.
"""

from . import dpkg, loader
from .change import change

NAME = "cuda"
PREFERENCES = "/etc/apt/preferences.d/provision-cuda"
# Profile runtime takes ptxas and libdevice out of their package, and records which one it was.
TOOLS_PACKAGE = "nvidia-cuda-toolkit"
TOOLS_MARKER = "/usr/lib/nvidia-cuda-toolkit/.provision-tools"


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


def _files(context, row):
    """{name: {"path", "size"} | None} of the lock's files, and of libdevice as XLA looks for it."""
    found = {name: _file(context, spec["path"]) for name, spec in (row.get("files") or {}).items()}
    directory = context.part("gpu_env").get("xla_cuda_data_dir")
    if directory and "libdevice" in found:
        path = directory + "/nvvm/libdevice/libdevice.10.bc"
        found["libdevice for XLA"] = _file(context, path) or {"path": path, "size": 0}
    return found


def look(context):
    """{version, packages, sonames, files, tools, components, pins, damaged}."""
    row = context.part(NAME)
    packages = dpkg.select(context, [*sorted(wanted(row, context.options)), TOOLS_PACKAGE])
    sonames = row.get("sonames") or {}
    version = None
    for name in ("nvidia-cuda-toolkit", "libcudart11.0"):
        if name in context.packages:
            version = release_of(context.packages[name]["version"])
            break
    return {
        "version": version,
        "packages": packages,
        "sonames": {name: _library(context, name, sonames[name]) for name in sonames},
        "files": _files(context, row),
        "tools": (context.read(TOOLS_MARKER) or "").strip() or None,
        "pins": dpkg.pins(context.read(PREFERENCES) or ""),
        "components": sorted(
            name
            for name in ("contrib", "non-free")
            if dpkg.component_enabled(context.apt_entries, name)
        ),
        "damaged": dpkg.damaged(context, wanted(row, context.options)) if context.deep else [],
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


def _file_changes(row, found, options):
    """Changes for ptxas and libdevice: a package's in profile toolkit, taken out of it in runtime.

    Only an installed package can be reinstalled; in profile runtime the role sees for itself that a
    file is gone.
    """
    packages = wanted(row, options)
    changes = []
    files = row.get("files") or {}
    for name in sorted(found["files"]):
        seen = found["files"][name]
        spec = files.get(name) or files["libdevice"]
        package = spec["package"]
        if package in packages and package not in found["packages"]:
            continue  # its package is a change already
        if seen is not None and seen["size"] > 0:
            continue
        version = ((row.get("packages") or {}).get("toolkit") or {}).get(package, "")
        path = seen["path"] if seen is not None else spec["path"]
        repair = {"cuda_reinstall": [package]} if package in packages else None
        to = "{0} {1}".format(package, version).strip()
        reason = "XLA needs {0}".format(path)
        changes.append(change(NAME, name, "missing", to, reason, repair=repair))
    version = ((row.get("packages") or {}).get("toolkit") or {}).get(TOOLS_PACKAGE)
    if files and version and TOOLS_PACKAGE not in packages and not changes:
        installed = found["packages"].get(TOOLS_PACKAGE) or {}
        spec = "{0}={1}".format(TOOLS_PACKAGE, version)
        if installed.get("version") != version and found["tools"] != spec:
            reason = "ptxas and libdevice are not known to be of this version"
            changes.append(change(NAME, "compiler tools", found["tools"], spec, reason))
    return changes


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
    if any(found["pins"].get(name) != packages[name] for name in packages):
        reason = "apt could move the packages away from the lock"
        changes.append(change(NAME, PREFERENCES, "not as locked", "as locked", reason))
    changes.extend(dpkg.package_changes(NAME, packages, found["packages"], hold))
    installed = found["packages"]
    for soname in sorted(row.get("sonames") or {}):
        package = row["sonames"][soname]
        if package not in installed:
            continue  # its package is a change already
        one = _soname_change(soname, package, packages.get(package), found["sonames"].get(soname))
        if one is not None:
            changes.append(one)
    changes.extend(_file_changes(row, found, options))
    for package, path in found.get("damaged") or []:
        reason = "its content is not what {0} shipped".format(package)
        repair = {"cuda_reinstall": [package]}
        changes.append(change(NAME, path, "altered", package, reason, repair=repair))
    return changes
