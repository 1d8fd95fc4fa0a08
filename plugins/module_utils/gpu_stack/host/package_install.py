"""Installs exact packages in one transaction of apt's: all are checked, and none is removed."""

from __future__ import annotations

import collections
import contextlib
import os
import re
import shlex
import time

from ..type_checking import TYPE_CHECKING
from . import apt_commands, apt_removal, dpkg, package_lists, service_starts
from .context import Context
from .refusal import RefusalError

if TYPE_CHECKING:
    from typing import Any

REINSTALL = ("--reinstall", "-oDPkg::Options::=--force-confmiss")
CHANGED = re.compile(r"^Inst ([^ :]+)\S* \[", re.M)
INSTALLED = re.compile(r"^Inst ([^ :]+)", re.M)
WHY = "${Package} (needs: ${Pre-Depends} ${Depends}; conflicts: ${Conflicts} ${Breaks})\\n"
RECORD = re.compile(r"^Package: (\S+).*?^Version: (\S+).*?^SHA256: (\S+)", re.M | re.S)
KEEP = ("1", "yes", "true", "with", "on", "enable")


class Wish(collections.namedtuple("Wish", "component title packages also files again")):
    """The packages and files that a component needs.

    packages: {name: version}. also: packages to fetch only. files: {path: the package that has it};
    the package of a missing or empty one is reinstalled, and so are those in `again`.
    """

    __slots__ = ()


class Plan:
    """What apt has to do. missing, again: name=version to install, and to reinstall."""

    def __init__(self, missing: list[str], again: list[str], also: list[str]) -> None:
        self.missing = missing
        self.again = again
        self.fetched = sorted({*missing, *again, *also})


def look(context: Context, wish: Wish) -> Plan:
    """Compares dpkg's records and files with the wish; half-unpacked packages count as missing."""
    missing, again = [], []
    lost = {name for path, name in wish.files.items() if not _has_content(path)}
    for name, version in sorted(wish.packages.items()):
        package = context.packages.get(name, {})
        same = package.get("version") == version
        if same and package["status"] == dpkg.HALF:
            again.append(f"{name}={version}")
        elif not same or package["status"] != "installed":
            missing.append(f"{name}={version}")
        elif name in lost or name in wish.again:
            again.append(f"{name}={version}")
    return Plan(missing, again, [f"{name}={version}" for name, version in wish.also.items()])


def _has_content(path: str) -> bool:
    """Whether `path` is a file that is not empty, or a link to one."""
    try:
        return os.path.isfile(path) and os.path.getsize(path) > 0
    except OSError:
        return False


class Source:
    """Where the packages come from. words: for messages; hint: what to do if it lacks them.

    suites: the platform's own, whose lists are needed. renewed: apt's sources have just changed.
    """

    def __init__(self, words: str, hint: str, suites: list[str], renewed: bool) -> None:
        self.words = words
        self.hint = hint
        self.suites = suites
        self.renewed = renewed


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Installs the packages; returns the module's result. Raises RefusalError."""
    if not check_mode:
        service_starts.restore()
    names = ("component", "title", "packages", "fetched", "files", "reinstall")
    wish = Wish(*(params[name] for name in names))
    plan = look(Context(), wish)
    result = {"missing": plan.missing, "again": plan.again, "fetched": plan.fetched}
    specs = plan.missing + plan.again
    if check_mode and specs:
        return dict(result, changed=True, msg=f"Would install {' '.join(specs)}")
    if check_mode or not plan.fetched:
        return dict(result, changed=False)
    source = Source(*(params[name] for name in ("source", "hint", "suites", "renewed")))
    lists = check(wish, plan, source, params["checksums"], params["wait"])
    if lists["bearable"]:
        result["warnings"] = [
            f"apt cannot use {', '.join(lists['places'])}: {' '.join(lists['errors'])}"
            f" {wish.title} goes on without; repair that entry, or take it out."
        ]
    if plan.missing:
        guard(wish, plan.missing, params["unwanted"], params["unwanted_words"])
    if params["state"] == "offered":
        return dict(result, changed=False)
    kept = install(wish, plan, params["conffiles"], params["wait"])
    return dict(result, changed=bool(specs), kept=kept)


def check(
    wish: Wish, plan: Plan, source: Source, checksums: dict[str, str], wait: int
) -> dict[str, Any]:
    """Raises RefusalError unless apt offers all of the plan with the locked SHA-256s.

    Returns the result of `package_lists`.
    """
    lists = package_lists.nothing()
    offered = {} if source.renewed else dict(offers(plan.fetched))
    if set(plan.fetched) - set(offered):
        lists = package_lists.fetch(source.suites, wait)
        if lists["locked"]:
            raise RefusalError(f"Another apt is at work. {lists['words']}")
        offered = dict(offers(plan.fetched))
    lacking = sorted(set(plan.fetched) - set(offered))
    if lacking:
        words = f"No package source of this host has {', '.join(lacking)}. Sources: {source.words}."
        raise RefusalError(" ".join(part for part in (words, lists["words"], source.hint) if part))
    for spec in plan.fetched:
        locked = (checksums.get(spec.split("=")[0]) or offered[spec]).lower()
        if locked != offered[spec]:
            raise RefusalError(
                f"{spec}: the package source offers SHA-256 {offered[spec]}, but"
                f" {wish.component}_checksums says {locked}. Nothing was installed."
            )
    return lists


def offers(specs: list[str]) -> list[tuple[str, str]]:
    """[(name=version, SHA-256)] of those that apt knows; two sources may have one of them."""
    answer = apt_commands.run(["apt-cache", "show", *specs])
    records = (RECORD.search(text) for text in answer.out.split("\n\n"))
    return [(f"{record[1]}={record[2]}", record[3].lower()) for record in records if record]


def guard(wish: Wish, specs: list[str], unwanted: str = "", unwanted_words: str = "") -> None:
    """Raises RefusalError if apt would remove a package for these, or change one that is held.

    For an exact version apt removes whatever conflicts with it, without asking. A package that
    matches `unwanted` is refused too, with `unwanted_words`.
    """
    simulated = apt_commands.run([*apt_commands.SIMULATE, *specs]).out
    removed = sorted(set(apt_removal.REMOVED.findall(simulated)))
    changed = set(CHANGED.findall(simulated)) & apt_commands.held() - set(wish.packages)
    message = ""
    if removed:
        message = (
            f"For {wish.title} apt would remove {', '.join(removed)}."
            f" {needs(removed)}. Remove them yourself if nobody needs them. "
        )
    if changed:
        message += (
            f"apt would change {', '.join(sorted(changed))}, which somebody holds (apt-mark unhold"
            " releases it). "
        )
    if message:
        raise RefusalError(f"{message}No package was touched.")
    arriving = INSTALLED.findall(simulated)
    coming = [name for name in arriving if unwanted and re.fullmatch(unwanted, name)]
    if coming:
        raise RefusalError(f"{unwanted_words}: {', '.join(coming)}. Nothing was installed.")


def needs(names: list[str]) -> str:
    """What installed packages need and conflict with, for a message that they would go."""
    answer = apt_commands.run(["dpkg-query", "--show", "--showformat", WHY, *names])
    return ". ".join(answer.out.splitlines())


def install(wish: Wish, plan: Plan, conffiles: list[str], wait: int) -> list[str]:
    """Installs missing packages, then reinstalls damaged ones; names of kept configuration files.

    RefusalError with apt's words.
    """
    began = moment()
    command = [*apt_commands.INSTALL, apt_commands.lock_timeout(wait)]
    if plan.missing:
        apt_commands.install(wish.title, [*command, "install", *plan.missing], wait)
    kept = keep(conffiles)
    if plan.again:
        apt_commands.install(wish.title, [*command, *REINSTALL, "install", *plan.again], wait)
    forget_downloads(began)
    return kept


def keep(conffiles: list[str]) -> list[str]:
    """Renames configuration files to NAME.dpkg-old and returns those names.

    dpkg brings a configuration file back only where there is none.
    """
    kept = [path for path in conffiles if os.path.lexists(path)]
    for path in kept:
        os.rename(path, f"{path}.dpkg-old")
    return [f"{path}.dpkg-old" for path in kept]


def moment() -> float:
    """Now, as the earliest stamp that a file can get: that of the kernel's last tick."""
    return time.time() - 0.02


def forget_downloads(began: float) -> None:
    """Removes package files newer than `began`, unless apt is configured to keep them.

    CUDA alone is 1.3 GB that nobody needs twice; older files in apt's cache stay. A failure only
    costs disk space.
    """
    names = ("keep", "APT::Keep-Downloaded-Packages", "archives", "Dir::Cache::archives/d")
    settings = dict(
        word.split("=", 1)
        for word in shlex.split(apt_commands.run(["apt-config", "shell", *names]).out)
    )
    if settings.get("keep", "") in KEEP:
        return
    archives = settings.get("archives", "/var/cache/apt/archives/")
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(archives)):
            info = entry.stat(follow_symlinks=False)
            if entry.name.endswith(".deb") and entry.is_file() and info.st_ctime >= began:
                os.remove(entry.path)
