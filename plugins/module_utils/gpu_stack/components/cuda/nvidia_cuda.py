"""CUDA from NVIDIA's own packages: where apt takes them from, and the tree they make.

A stale list or a key of yesterday makes apt refuse all work, a second CUDA takes the place of
/usr/local/cuda, and an nvcc whose host compiler is too new compiles nothing. Each is looked at
here. The role's templates are the files' home; `files` says the same text, and a test renders both.
"""

import re

from ...change import change
from ...host import apt, file_state, other_sources
from ...host.kept_names import SAVED
from ...tables import NEWEST_GCC
from .. import nvidia_driver
from ..nvidia_driver import driver_method

NAME = "cuda"
KEY = "/usr/share/keyrings/provision-cuda.asc"
SOURCES = other_sources.REPOSITORIES[NAME].own
LOW = "/etc/apt/preferences.d/zz-provision-cuda"
APT = "/etc/apt/apt.conf.d/90provision-cuda"
LOADER = "/etc/ld.so.conf.d/00-provision-cuda.conf"
LINK = "/usr/local/cuda"
MARK = ".provision-packages"
REPOSITORY_MARK = "/.provision"
HOST_COMPILER = "/host-compiler"
ASIDE = "put aside"
HEADER = "# Written by the Ansible role cuda; changes made here are lost.\n"

# Names under which NVIDIA's repository offers drivers, and the metapackages that bring one.
DRIVERS = (
    "cuda cuda-drivers* cuda-runtime-* cuda-demo-suite-* libcuda* libnvidia-* libxnvctrl* "
    "nvidia-* xserver-xorg-video-nvidia*"
)


def mine(row):
    """True where the row's CUDA comes from NVIDIA."""
    return row.get("source") in ("network", "local")


def prefix(row):
    """The directory of the tree."""
    return row.get("prefix") or "/usr/local/cuda-{0}".format(row.get("release"))


def newest_gcc(release):
    """The newest gcc for nvcc of "11.2"; of a release that is not in the table, its neighbour's."""
    known = {_number(name): gcc for name, gcc in NEWEST_GCC.items()}
    earlier = [number for number in known if number <= _number(release)]
    return known[max(earlier, default=min(known))]


def _number(release):
    return tuple(int(part) for part in release.split(".")[:2])


def url(row, options):
    """Where apt takes the packages from."""
    if row.get("source") == "local":
        return "file://{0}".format((row.get("installer") or {}).get("directory") or "")
    mirror = options.get("cuda_repository_url")
    # apt is given the password in a file of its own.
    return apt.bare(mirror or (row.get("repository") or {}).get("url") or "").rstrip("/")


def host_of(address):
    """The host of a URL, without a port or a password."""
    return address.split("://", 1)[-1].split("/", 1)[0].rsplit("@", 1)[-1].split(":", 1)[0]


def _sources(row, options, signed_by):
    suite = (row.get("repository") or {}).get("suite") or "/"
    return HEADER + "Types: deb\nURIs: {0}\nSuites: {1}\nSigned-By: {2}\n".format(
        url(row, options), suite, signed_by
    )


def _low():
    # As NVIDIA's own pin file names it: a mirror's host may hold the platform's packages too.
    return HEADER + (
        "# The file's name puts it behind those that pin a package at its version.\n"
        "\nPackage: {0}\nPin: {1}\nPin-Priority: -1\n\nPackage: *\nPin: {1}\nPin-Priority: 50\n"
    ).format(DRIVERS, "release l=NVIDIA CUDA")


def _apt(row, options):
    text = HEADER + 'Dir::Ignore-Files-Silently:: "\\.provision-saved(\\.[0-9]+)?$";\n'
    bundle = options.get("cuda_ca_bundle")
    if bundle and row.get("source") == "network":
        text += 'Acquire::https::{0}::CaInfo "{1}";\n'.format(host_of(url(row, options)), bundle)
    return text


def _loader(row):
    return "{0}/lib64\n{0}/extras/CUPTI/lib64\n".format(prefix(row))


def files(row, options, signed_by=None):
    """{path: text, or None where the file must not be} of what the role writes whole.

    `signed_by`: the key that another of our sources names for the same repository. A repository of
    a local installer is there for the installation alone, unless it is kept.
    """
    key = (row.get("repository") or row.get("installer") or {}).get("key")
    found = {
        KEY: key.strip() + "\n" if key else None,
        SOURCES: _sources(row, options, signed_by or KEY),
        LOW: _low(),
        APT: _apt(row, options),
        LOADER: _loader(row),
    }
    if row.get("source") == "local" and not options.get("cuda_installer_keep"):
        found.update({KEY: None, SOURCES: None, LOW: None})
    return found


# the look


def _place(context, path):
    """What `path` is: None, {"link": target} or {"kind": "directory" | "file"}."""
    if context.lstat(path) is None:
        return None
    target = context.readlink(path)
    if target is not None:
        return {"link": target}
    return {"kind": "directory" if context.isdir(path) else "file"}


def _gcc(context):
    """Major version of the platform's gcc; None without one."""
    match = re.search(r"gcc-(\d+)$", context.resolve("/usr/bin/gcc") or "")
    return int(match.group(1)) if match is not None else None


def _compiler(context, row):
    """{"default", "own"}: majors of the platform's gcc and of the one that nvcc is told of."""
    directory = prefix(row) + HOST_COMPILER
    profile = context.read(prefix(row) + "/bin/nvcc.profile") or ""
    told = re.search(r"^compiler-bindir = {0}$".format(re.escape(directory)), profile, re.M)
    majors = set()
    for name in ("gcc", "g++"):
        match = re.search(r"-(\d+)$", context.readlink(directory + "/" + name) or "")
        there = match is not None and context.exists(directory + "/" + name)
        majors.add(int(match.group(1)) if there else None)
    own = majors.pop() if told is not None and len(majors) == 1 else None
    return {"default": _gcc(context), "own": own}


def leftovers(context, row):
    """What an interrupted local installation left: the repository where it is ours, the package."""
    installer = row.get("installer") or {}
    directory = installer.get("directory")
    found = []
    if directory and context.exists(directory + REPOSITORY_MARK):
        found.append(directory)
    folder = (context.options.get("cuda_installer_directory") or "/var/cache/provision").rstrip("/")
    name = (installer.get("url") or "").rsplit("/", 1)[-1]
    for path in ("{0}/{1}".format(folder, name), "{0}/{1}.part".format(folder, name)):
        if name and context.exists(path):
            found.append(path)
    return found


def other_trees(context, row):
    """{directory: [packages]} of other releases that this role installed."""
    found = {}
    for path in context.glob("/usr/local/cuda-*/" + MARK):
        directory = path[: -len(MARK) - 1]
        if directory != prefix(row):
            found[directory] = (context.read(path) or "").split()
    return found


def of_before(context):
    """What is left of NVIDIA's packages where CUDA comes from the platform's own now.

    The trees that this role made, whose libraries the loader would find first, and its files. A
    driver from NVIDIA's repository may need what names that.
    """
    there = driver_method.of_pins(context.read(nvidia_driver.PINS)) == driver_method.NETWORK
    files = (LOADER, LOW) if there else (LOADER, LOW, APT, SOURCES, KEY)
    trees = [path[: -len(MARK) - 1] for path in context.glob("/usr/local/cuda-*/" + MARK)]
    return [*sorted(trees), *(path for path in files if context.lstat(path) is not None)]


def look(context, row):
    """Everything beside packages, sonames and pins; what is of before, as `of_before`, where CUDA
    does not come from NVIDIA.
    """
    if not mine(row):
        left = of_before(context) if row else []
        return {"of_before": left} if left else {}
    options = context.options
    address = url(row, options)
    network = row.get("source") == "network"
    signed_by = other_sources.signed_by(context, NAME, address) if network else None
    paths = sorted(files(row, options))
    middle = context.readlink("/etc/alternatives/cuda")
    return {
        "files": {path: context.read(path) for path in paths},
        "written": file_state.faults(context, paths),
        "signed_by": signed_by,
        "stale": other_sources.stale_files(context, NAME, address),
        "prefix": context.isdir(prefix(row)),
        "link": _place(context, LINK),
        "alternative": middle,
        "compiler": _compiler(context, row),
        "leftovers": leftovers(context, row) if row.get("source") == "local" else [],
        "trees": other_trees(context, row),
    }


# the differences


def _file_changes(row, found, options):
    changes = []
    kept = row.get("source") == "local" and options.get("cuda_installer_keep")
    wanted = files(row, options, found.get("signed_by"))
    for path in sorted(wanted):
        wish = wanted[path]
        seen, fault = found["files"].get(path), found["written"].get(path)
        if path == KEY and wish is None and row.get("source") == "network":
            continue  # no lock gives its text: the role compares its fingerprint
        if kept and seen is None and path in (KEY, SOURCES, LOW):
            continue  # nothing is fetched again only to be kept
        if kept and path == KEY and wish is None:
            continue
        old = file_state.complaint(seen, wish, fault)
        if old is not None:
            new = None if wish is None else "as wished"
            changes.append(change(NAME, path, old, new, _REASONS[path]))
    return changes


_REASONS = {
    KEY: "apt trusts NVIDIA's repository by it",
    SOURCES: "apt takes CUDA's packages from there, and only while they are installed from a file",
    LOW: "apt could take a driver from NVIDIA's repository",
    APT: "apt reads it before it goes to NVIDIA's repository",
    LOADER: "the loader could find another CUDA first",
}


def _link_change(row, found):
    place, tree = found["link"], prefix(row)
    if place == {"link": "/etc/alternatives/cuda"} and found["alternative"] == tree:
        return []
    if place is None:
        old = None
    elif "link" not in place:
        old = "a {0}".format(place["kind"])
    elif place["link"] != "/etc/alternatives/cuda":
        old = "a link to {0}".format(place["link"])
    else:
        old = found["alternative"]
    foreign = place is not None and place != {"link": "/etc/alternatives/cuda"}
    reason = "tutorials and build scripts look there"
    if foreign:
        reason += "; what is there is kept as {0}{1}".format(LINK, SAVED)
    return [change(NAME, LINK, old, tree, reason)]


def _compiler_change(row, found, options):
    wish = str(options.get("cuda_host_compiler") or "auto")
    if wish == "none" or (options.get("cuda_profile") or "toolkit") != "toolkit":
        return []
    seen, last = found["compiler"], newest_gcc(row["release"])
    own, default = seen["own"], seen["default"]
    if wish != "auto":
        fits = own == int(wish)
    elif own is None:
        fits = default is not None and default <= last
    else:
        fits = own <= last
    if fits:
        return []
    number = own or default
    old = "gcc {0}".format(number) if number is not None else None
    new = "gcc {0}".format(wish) if wish != "auto" else "gcc {0} or older".format(last)
    reason = "nvcc of CUDA {0} takes gcc up to {1}".format(row["release"], last)
    return [change(NAME, "nvcc's host compiler", old, new, reason)]


def differ(row, found, options, complete):
    """Changes for the sources, the tree and what leads to it; `complete`: no package is to come."""
    changes = []
    for path in found["stale"]:
        reason = "names NVIDIA's repositories beside ours; kept as {0}{1}".format(path, SAVED)
        changes.append(change(NAME, path, "in apt's way", ASIDE, reason))
    changes.extend(_file_changes(row, found, options))
    changes.extend(_link_change(row, found))
    if complete:
        changes.extend(_compiler_change(row, found, options))
    if complete and not options.get("cuda_installer_keep"):
        for path in found["leftovers"]:
            reason = "the local installer is of no use any more"
            changes.append(change(NAME, path, "left over", None, reason))
    if not options.get("cuda_keep_old", True):
        for directory in sorted(found["trees"]):
            reason = "cuda_keep_old is off, and this role installed it"
            changes.append(change(NAME, directory, "installed", None, reason))
    return changes


def taken_away(found):
    """Changes for what `of_before` found."""
    reason = "CUDA comes from the platform's own packages, and this is of NVIDIA's"
    return [change(NAME, path, "present", None, reason) for path in found.get("of_before") or ()]


def tree_missing(row, found, packages):
    """The change for a tree that is gone though its packages are installed; [] otherwise."""
    if not packages or found.get("prefix", True):
        return []
    reason = "dpkg calls the packages installed, and their tree is gone"
    again = {"cuda_reinstall": sorted(packages)}
    return [change(NAME, prefix(row), "missing", "present", reason, repair=again)]


def version(row, packages):
    """CUDA's version as NVIDIA's packages on the host tell it; None without any of them."""
    names = [row["sonames"][name] for name in sorted(row.get("sonames") or {}) if "cudart" in name]
    sets = list((row.get("packages") or {}).values())
    for name in names:
        if name in packages:
            seen = packages[name]["version"]
            if any(one.get(name) == seen for one in sets):
                return row.get("version")
            return seen.rsplit("-", 1)[0]
    return None


__all__ = ["differ", "files", "look", "mine", "newest_gcc", "prefix", "tree_missing", "version"]
