"""CUDA: exact packages, and each library that TensorFlow opens, as the loader resolves it.

A package that dpkg calls installed can still have lost a file, or be shadowed by another CUDA
earlier in the loader's path; TensorFlow then silently runs without GPUs. So both are looked at,
and a lost file names the soname and the package whose reinstallation brings it back.
"""

import re

from ...change import change
from ...host import apt, dpkg, file_state, loader, logins, modes, package_files
from . import nvidia_cuda

NAME = "cuda"
PREFERENCES = "/etc/apt/preferences.d/provision-cuda"
# The keys that apt trusts the platform's archive by.
KEYRINGS = {"debian": "debian-archive-keyring"}
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
    """CUDA's own version in a Debian version: "11.2.152~11.2.2-3+deb11u3" holds "11.2.2".

    The revision behind the last hyphen can have a "~" of its own: "11.8.89~11.8.0-5~deb12u1".
    """
    return version.rsplit("-", 1)[0].rsplit("~", 1)[-1]


def _version(context, sonames):
    """CUDA's version on the host: the toolkit's, else that of the lock's libcudart, else of any."""
    locked = [sonames[name] for name in sorted(sonames) if name.startswith("libcudart.so.")]
    others = sorted(name for name in context.packages if re.match(r"libcudart\d", name))
    for name in [TOOLS_PACKAGE, *locked, *others]:
        if name in context.packages:
            return release_of(context.packages[name]["version"])
    return None


def _library(context, soname, package):
    """The library as the loader finds it; {"own": path} where it would after another ldconfig."""
    path = context.loader.get(soname)
    seen = None if path is None else loader.inspect(context, path)
    listed = dpkg.file_list(context, package)
    if seen is None:
        # Not in the cache, or the cache names a file that is gone.
        own = next((one for one in listed if one.endswith("/" + soname)), None)
        stale = own is not None and own != path
        whole = stale and loader.complaint(loader.inspect(context, own)) is None
        return {"own": own} if whole else None
    seen["owner"] = dpkg.owner(context, seen["real"], [package])
    seen["own"] = next((one for one in listed if _same_place(context, one, path)), None)
    return seen


def _same_place(context, one, other):
    """True for two spellings of one directory entry: /lib may be a link to /usr/lib."""
    if one.rsplit("/", 1)[-1] != other.rsplit("/", 1)[-1]:
        return False
    return one == other or context.resolve(one.rsplit("/", 1)[0] or "/") == context.resolve(
        other.rsplit("/", 1)[0] or "/"
    )


def _file(context, path):
    info = context.stat(path)
    if info is None:
        return None
    ways = modes.ways(context, [context.resolve(path)])
    return {"path": path, "size": info.st_size, "modes": sorted(ways.items())}


def _files(context, row):
    """{name: {"path", "size"} | None} of the lock's files, and of libdevice as XLA looks for it."""
    found = {name: _file(context, spec["path"]) for name, spec in (row.get("files") or {}).items()}
    directory = context.part("gpu_env").get("xla_cuda_data_dir")
    if directory and "libdevice" in found:
        path = directory + "/nvvm/libdevice/libdevice.10.bc"
        found["libdevice for XLA"] = _file(context, path) or {"path": path, "size": 0}
    return found


def _keys(context):
    """Flaws of the keys that apt trusts the archive by."""
    name = KEYRINGS.get(context.platform.get("distribution"))
    found = package_files.flaws(context, [name]) if name is not None else []
    return [one for one in found if one["path"].startswith(("/etc/apt/", "/usr/share/keyrings/"))]


def _logins(row, options):
    """{name of the file: address} of the mirrors that apt may have to log in to."""
    found = {"provision-cuda-mirror": options.get("cuda_mirror")}
    if row.get("source") == "network":
        found["provision-cuda"] = (options.get("cuda_repository_url") or "").rstrip("/")
    return found


def look(context):
    """{version, packages, cache, sonames, files, tools, components, pins, flaws}."""
    row = context.part(NAME)
    packages = dpkg.select(context, [*sorted(wanted(row, context.options)), TOOLS_PACKAGE])
    sonames = row.get("sonames") or {}
    theirs = nvidia_cuda.mine(row)
    return {
        "version": nvidia_cuda.version(row, context.packages)
        if theirs
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
        "components": sorted(
            name
            for name in {"contrib", "non-free", *(context.options.get("cuda_apt_components") or ())}
            if apt.component_enabled(context.apt_entries, name)
        ),
        "flaws": package_files.flaws(context, wanted(row, context.options)),
        "keys": _keys(context) if row and not theirs else [],
    }


def _soname_change(soname, package, version, seen):
    to = "{0} {1}".format(package, version) if version else package
    again = {"cuda_reinstall": [package]}
    if seen is not None and "real" not in seen:
        reason = "the loader's cache does not know {0}".format(seen["own"])
        return change(NAME, soname, "not in the loader's cache", to, reason)
    fault = loader.complaint(seen)
    if fault is not None:
        reason = "TensorFlow opens {0} by name, and the loader finds no whole file".format(soname)
        return change(NAME, soname, fault, to, reason, repair=again)
    if seen["owner"] is None and seen["own"] is not None:
        reason = "{0} leads to a file that {1} does not own".format(seen["path"], package)
        return change(NAME, soname, seen["real"], to, reason, repair=again)
    if seen["owner"] is None:
        reason = (
            "the loader takes {0} from a file that {1} does not own: remove {2}, or the line in "
            "/etc/ld.so.conf.d that names its directory"
        ).format(soname, package, seen["path"])
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
            # A package's own files are looked at with all of its others.
            for real, (fault, mode) in () if package in packages else seen.get("modes") or ():
                repair = {"cuda_modes": ["{0} {1}".format(real, mode)]}
                reason = "XLA of every user needs {0}".format(seen["path"])
                changes.append(change(NAME, name, fault, "mode " + mode, reason, repair=repair))
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
    if not options.get("cuda_mirror") and not nvidia_cuda.mine(row):
        for component in options.get("cuda_apt_components") or ("contrib", "non-free"):
            if component not in found["components"]:
                reason = "the CUDA packages come from {0}".format(component)
                item = "apt component {0}".format(component)
                changes.append(change(NAME, item, "not enabled", "enabled", reason))
    for one in found.get("keys") or []:
        reason = "apt trusts the archive by it"
        repair = {"cuda_keys": [one["path"]]}
        if "mode" in one:
            repair = {"cuda_modes": ["{0} {1}".format(one["path"], one["mode"])]}
        changes.append(
            change(NAME, one["path"], one["fault"], one["package"], reason, repair=repair)
        )
    old = found.get("pins_file")
    if old is None and any(found["pins"].get(name) != packages[name] for name in packages):
        old = "not as locked"
    if old is not None:
        reason = "apt could move the packages away from the lock"
        changes.append(change(NAME, PREFERENCES, old, "as locked", reason))
    changes.extend(logins.differ(NAME, found.get("logins") or {}))
    exact = dpkg.package_changes(NAME, packages, found["packages"], hold)
    changes.extend(exact)
    gone = []
    if nvidia_cuda.mine(row):
        there = [name for name in packages if name in found["packages"]]
        complete = not any(one["item"] in packages for one in exact)
        gone = nvidia_cuda.tree_missing(row, found["nvidia"], there)
        changes.extend(gone)
        changes.extend(nvidia_cuda.differ(row, found["nvidia"], options, complete and not gone))
    else:
        changes.extend(nvidia_cuda.taken_away(found.get("nvidia") or {}))
    if not gone:
        content = _content_changes(row, found, options)
        # The loader finds the right tree once its own file names it, or no other is named: a cause
        # and not ten effects.
        if any(one["item"] == nvidia_cuda.LOADER for one in changes):
            sonames = row.get("sonames") or {}
            content = [one for one in content if one["item"] not in sonames or one["repair"]]
        changes.extend(content)
    return changes


def _content_changes(row, found, options):
    """What is wrong inside installed packages, and on the loader's way to them."""
    packages = wanted(row, options)
    changes = []
    known = set()
    if packages and not found.get("cache", True):
        reason = "without it the loader finds no library outside its own directories"
        changes.append(change(NAME, loader.CACHE, "missing", "rebuilt", reason))
    for soname in sorted(row.get("sonames") or {}):
        package = row["sonames"][soname]
        if package not in found["packages"] or not found.get("cache", True):
            continue  # its package, or the cache, is a change already
        seen = found["sonames"].get(soname)
        one = _soname_change(soname, package, packages.get(package), seen)
        if one is not None:
            changes.append(one)
            if one["repair"]:
                known.add(soname.split(".so")[0] + ".so")
    files = _file_changes(row, found, options)
    changes.extend(files)
    named = {(found["files"].get(one["item"]) or {}).get("path") for one in files} | {
        ((row.get("files") or {}).get(one["item"]) or {}).get("path") for one in files
    }
    flawed = [
        one
        for one in found.get("flaws") or []
        if one["path"] not in named
        and one["path"].rsplit("/", 1)[-1].split(".so")[0] + ".so" not in known
        # the link that XLA follows, when libdevice is missing behind it
        and (
            "mode" in one or not any(path and path.startswith(one["path"] + "/") for path in named)
        )
    ]
    changes.extend(package_files.flaw_changes(NAME, flawed))
    return changes
