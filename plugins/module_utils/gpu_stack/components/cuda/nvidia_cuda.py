"""CUDA from NVIDIA's own packages: apt's sources for them, and the tree that they install.

A stale list or a key of yesterday makes apt refuse all work, a second CUDA takes the place of
/usr/local/cuda, and an nvcc whose host compiler is too new compiles nothing. Each is looked at
here. The role's templates are the files' home; `files` says the same text, and a test renders both.
"""

from __future__ import annotations

import re

from ...change import change
from ...host import apt, file_state, other_sources
from ...host.kept_names import SAVED
from ...tables import NEWEST_GCC
from ...type_checking import TYPE_CHECKING
from .. import nvidia_driver
from ..nvidia_driver import driver_method

if TYPE_CHECKING:
    from typing import Any

    from ...host.context import Context
    from ...shapes import Changes, Options, Row, State

NAME = "cuda"
KEY = "/usr/share/keyrings/provision-cuda.asc"
SOURCES = other_sources.REPOSITORIES[NAME].own
LOW = "/etc/apt/preferences.d/zz-provision-cuda"
APT = "/etc/apt/apt.conf.d/90provision-cuda"
LOADER = "/etc/ld.so.conf.d/00-provision-cuda.conf"
LINK = "/usr/local/cuda"
MARK = ".provision-packages"
# Driver and CUDA name Debian's components in one file, and the driver may use CUDA's for NVIDIA's
# repository; whoever is taken away last takes them along.
SHARED = "/etc/apt/sources.list.d/provision-debian-nonfree.sources"
REPOSITORY = (
    "/etc/apt/sources.list.d/provision-cuda*",
    "/etc/apt/keyrings/provision-cuda*",
    "/usr/share/keyrings/provision-cuda*",
    "/etc/apt/auth.conf.d/provision-cuda*",
)
REPOSITORY_MARK = "/.provision"
HOST_COMPILER = "/host-compiler"
HEADER = "# Written by the Ansible role cuda; changes made here are lost.\n"

# Names under which NVIDIA's repository offers drivers, and the metapackages that bring one.
DRIVERS = (
    "cuda cuda-drivers* cuda-runtime-* cuda-demo-suite-* libcuda* libnvidia-* libxnvctrl* "
    "nvidia-* xserver-xorg-video-nvidia*"
)


def is_nvidias(row: Row) -> bool:
    """Whether the row's CUDA comes from NVIDIA."""
    return row.get("source") in ("network", "local")


def prefix(row: Row) -> str:
    """Directory of CUDA's tree."""
    return row.get("prefix") or "/usr/local/cuda-{0}".format(row.get("release"))


def newest_gcc(release: str) -> int:
    """Major version of the newest gcc for nvcc of `release`, or of the known release before it."""
    gcc_of = {_number(name): gcc for name, gcc in NEWEST_GCC.items()}
    earlier = [number for number in gcc_of if number <= _number(release)]
    return gcc_of[max(earlier, default=min(gcc_of))]


def _number(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split(".")[:2])


def url(row: Row, options: Options) -> str:
    """URL of the repository."""
    if row.get("source") == "local":
        return "file://{0}".format((row.get("installer") or {}).get("directory") or "")
    mirror = options.get("cuda_repository_url")
    # The password is in a login file of apt's.
    return apt.bare(mirror or (row.get("repository") or {}).get("url") or "").rstrip("/")


def _sources(row: Row, options: Options, signed_by: str) -> str:
    suite = (row.get("repository") or {}).get("suite") or "/"
    return (
        HEADER + f"Types: deb\nURIs: {url(row, options)}\nSuites: {suite}\nSigned-By: {signed_by}\n"
    )


def _low() -> str:
    # As NVIDIA's own pin file names it: a mirror's host may hold the platform's packages too.
    return HEADER + (
        "# The file's name puts it behind those that pin a package at its version.\n"
        "\nPackage: {0}\nPin: {1}\nPin-Priority: -1\n\nPackage: *\nPin: {1}\nPin-Priority: 50\n"
    ).format(DRIVERS, "release l=NVIDIA CUDA")


def _apt(row: Row, options: Options) -> str:
    text = HEADER + 'Dir::Ignore-Files-Silently:: "\\.provision-saved(\\.[0-9]+)?$";\n'
    bundle = options.get("cuda_ca_bundle")
    if bundle and row.get("source") == "network":
        text += f'Acquire::https::{other_sources.host_of(url(row, options))}::CaInfo "{bundle}";\n'
    return text


def _loader(row: Row) -> str:
    return "{0}/lib64\n{0}/extras/CUPTI/lib64\n".format(prefix(row))


def files(row: Row, options: Options, signed_by: str | None = None) -> dict[str, str | None]:
    """{path: text, or None where the file must not exist} of the files that the role writes.

    `signed_by`: the key that another of our sources names for the same repository. The repository
    of a local installer exists during the installation only, unless it is kept.
    """
    key = (row.get("repository") or row.get("installer") or {}).get("key")
    texts = {
        KEY: key.strip() + "\n" if key else None,
        SOURCES: _sources(row, options, signed_by or KEY),
        LOW: _low(),
        APT: _apt(row, options),
        LOADER: _loader(row),
    }
    if row.get("source") == "local" and not options.get("cuda_installer_keep"):
        texts.update({KEY: None, SOURCES: None, LOW: None})
    return texts


# the look


def _place(context: Context, path: str) -> dict[str, Any] | None:
    """Kind of `path`: None, {"link": target} or {"kind": "directory" | "file"}."""
    if context.lstat(path) is None:
        return None
    target = context.readlink(path)
    if target is not None:
        return {"link": target}
    return {"kind": "directory" if context.isdir(path) else "file"}


def _gcc(context: Context) -> int | None:
    """Major version of the platform's gcc; None without one."""
    match = re.search(r"gcc-(\d+)$", context.resolve("/usr/bin/gcc") or "")
    return int(match.group(1)) if match is not None else None


def _compiler(context: Context, row: Row) -> dict[str, Any]:
    """{"default", "own"}: major versions of the platform's gcc and of nvcc's configured one."""
    directory = prefix(row) + HOST_COMPILER
    profile = context.read(prefix(row) + "/bin/nvcc.profile") or ""
    configured = re.search(rf"^compiler-bindir = {re.escape(directory)}$", profile, re.M)
    majors: set[int | None] = set()
    for name in ("gcc", "g++"):
        match = re.search(r"-(\d+)$", context.readlink(directory + "/" + name) or "")
        exists = context.exists(directory + "/" + name)
        majors.add(int(match.group(1)) if match is not None and exists else None)
    own = majors.pop() if configured is not None and len(majors) == 1 else None
    return {"default": _gcc(context), "own": own}


def leftovers(context: Context, row: Row) -> list[str]:
    """Paths left by an interrupted local installation: its repository, if ours, and package."""
    installer = row.get("installer") or {}
    directory = installer.get("directory")
    paths = []
    if directory and context.exists(directory + REPOSITORY_MARK):
        paths.append(directory)
    folder = (context.options.get("cuda_installer_directory") or "/var/cache/provision").rstrip("/")
    name = (installer.get("url") or "").rsplit("/", 1)[-1]
    for path in (f"{folder}/{name}", f"{folder}/{name}.part"):
        if name and context.exists(path):
            paths.append(path)
    return paths


def other_trees(context: Context, row: Row) -> dict[str, list[str]]:
    """{directory: [packages]} of other releases that this role installed."""
    trees = {}
    for path in context.glob("/usr/local/cuda-*/" + MARK):
        directory = path[: -len(MARK) - 1]
        if directory != prefix(row):
            trees[directory] = (context.read(path) or "").split()
    return trees


def remains(context: Context) -> list[str]:
    """Trees and files that this role left from NVIDIA's CUDA, where the platform's is locked now.

    The loader would find the trees' libraries first. A driver from NVIDIA's repository still needs
    the files that configure it.
    """
    driver_needs_it = (
        driver_method.of_pins(context.read(nvidia_driver.PINS)) == driver_method.NETWORK
    )
    files = (LOADER, LOW) if driver_needs_it else (LOADER, LOW, APT, SOURCES, KEY)
    trees = [path[: -len(MARK) - 1] for path in context.glob("/usr/local/cuda-*/" + MARK)]
    return [*sorted(trees), *(path for path in files if context.lstat(path) is not None)]


def look(context: Context, row: Row) -> dict[str, Any]:
    """State of NVIDIA's CUDA beside packages, sonames and pins.

    {"of_before": remains} where CUDA does not come from NVIDIA; {} without any.
    """
    if not is_nvidias(row):
        paths_left = remains(context) if row else []
        return {"of_before": paths_left} if paths_left else {}
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


def _file_changes(row: Row, state: State, options: Options) -> Changes:
    changes = []
    kept = row.get("source") == "local" and options.get("cuda_installer_keep")
    texts = files(row, options, state.get("signed_by"))
    for path in sorted(texts):
        text = texts[path]
        content, fault = state["files"].get(path), state["written"].get(path)
        if path == KEY and text is None and row.get("source") == "network":
            continue  # the lock has no text of it: the role compares its fingerprint
        if kept and content is None and path in (KEY, SOURCES, LOW):
            continue  # nothing is fetched again only to be kept
        if kept and path == KEY and text is None:
            continue
        old = file_state.complaint(content, text, fault)
        if old is not None:
            new = None if text is None else "as wished"
            changes.append(change(NAME, path, old, new, _REASONS[path]))
    return changes


_REASONS = {
    KEY: "apt trusts NVIDIA's repository by it",
    SOURCES: "apt takes CUDA's packages from there, and only while they are installed from a file",
    LOW: "apt could take a driver from NVIDIA's repository",
    APT: "apt reads it before it goes to NVIDIA's repository",
    LOADER: "the loader could find another CUDA first",
}


def _link_change(row: Row, state: State) -> list[dict[str, Any]]:
    place, tree = state["link"], prefix(row)
    if place == {"link": "/etc/alternatives/cuda"} and state["alternative"] == tree:
        return []
    if place is None:
        old = None
    elif "link" not in place:
        old = "a {0}".format(place["kind"])
    elif place["link"] != "/etc/alternatives/cuda":
        old = "a link to {0}".format(place["link"])
    else:
        old = state["alternative"]
    foreign = place is not None and place != {"link": "/etc/alternatives/cuda"}
    reason = "tutorials and build scripts look there"
    if foreign:
        reason += f"; the present one is kept as {LINK}{SAVED}"
    return [change(NAME, LINK, old, tree, reason)]


def _compiler_change(row: Row, state: State, options: Options) -> list[dict[str, Any]]:
    option = str(options.get("cuda_host_compiler") or "auto")
    if option == "none" or (options.get("cuda_profile") or "toolkit") != "toolkit":
        return []
    compiler, last = state["compiler"], newest_gcc(row["release"])
    own, default = compiler["own"], compiler["default"]
    if option != "auto":
        fits = own == int(option)
    elif own is None:
        fits = default is not None and default <= last
    else:
        fits = own <= last
    if fits:
        return []
    number = own or default
    old = f"gcc {number}" if number is not None else None
    new = f"gcc {option}" if option != "auto" else f"gcc {last} or older"
    reason = "nvcc of CUDA {0} takes gcc up to {1}".format(row["release"], last)
    return [change(NAME, "nvcc's host compiler", old, new, reason)]


def differ(row: Row, state: State, options: Options, complete: bool) -> Changes:
    """Changes for sources, tree and links; `complete`: all packages are installed. Pure."""
    changes = []
    for path in state["stale"]:
        reason = f"names NVIDIA's repositories beside ours; kept as {path}{SAVED}"
        changes.append(change(NAME, path, "in apt's way", other_sources.ASIDE, reason))
    changes.extend(_file_changes(row, state, options))
    changes.extend(_link_change(row, state))
    if complete:
        changes.extend(_compiler_change(row, state, options))
    if complete and not options.get("cuda_installer_keep"):
        for path in state["leftovers"]:
            reason = "the local installer is no longer needed"
            changes.append(change(NAME, path, "left over", None, reason))
    if not options.get("cuda_keep_old", True):
        for directory in sorted(state["trees"]):
            reason = "cuda_keep_old is off, and this role installed it"
            changes.append(change(NAME, directory, "installed", None, reason))
    return changes


def remains_changes(state: State) -> Changes:
    """Changes that remove what `remains` lists."""
    reason = "CUDA comes from the platform's own packages, and this is of NVIDIA's"
    return [change(NAME, path, "present", None, reason) for path in state.get("of_before") or ()]


def tree_missing(row: Row, state: State, packages: list[str]) -> list[dict[str, Any]]:
    """The change for a missing tree whose packages are installed; [] otherwise."""
    if not packages or state.get("prefix", True):
        return []
    reason = "dpkg lists the packages as installed, but their tree is missing"
    repair = {"cuda_reinstall": sorted(packages)}
    return [change(NAME, prefix(row), "missing", "present", reason, repair=repair)]


def version(row: Row, packages: dict[str, dict[str, Any]]) -> str | None:
    """CUDA's version by NVIDIA's packages on the host; None without any."""
    names = [row["sonames"][name] for name in sorted(row.get("sonames") or {}) if "cudart" in name]
    sets = list((row.get("packages") or {}).values())
    for name in names:
        if name in packages:
            installed: str = packages[name]["version"]
            if any(package_set.get(name) == installed for package_set in sets):
                locked: str | None = row.get("version")
                return locked
            return installed.rsplit("-", 1)[0]
    return None


__all__ = [
    "differ",
    "files",
    "is_nvidias",
    "look",
    "newest_gcc",
    "prefix",
    "tree_missing",
    "version",
]
