"""The driver's packages in one transaction of apt's that takes away no more than a driver.

Branches of the driver conflict, and for an exact version apt removes whatever cannot stay beside
it, with no further question. So apt is asked first: parts of a driver may go where the wish says
so, or where this program brought them; nothing else may.
"""

from __future__ import annotations

import os
import stat

from ...host import apt_commands, package_install, package_lists, service_starts
from ...host.apt_removal import REMOVED
from ...host.context import Context
from ...host.package_install import CHANGED, REINSTALL
from ...host.refusal import RefusalError
from ...host.unfinished_packages import fix_broken
from ...type_checking import TYPE_CHECKING
from . import built_modules, driver_method, kernel_headers, make_log
from .kernel_headers import Headers

if TYPE_CHECKING:
    from typing import Any

ALTERNATIVES = "/var/lib/dpkg/alternatives"
GROUPS = ("nvidia", "glx")
# For what names the packages that go: --no-remove would refuse all of them.
REPLACE = tuple(word for word in apt_commands.INSTALL if word != "--no-remove")


class Wish:
    """The packages of a driver, and what may go for them; attributes as the module's options."""

    def __init__(self, params: dict[str, Any]) -> None:
        self.version: str = params["version"]
        self.packages: dict[str, str] = params["packages"]
        self.parts: list[str] = params["parts"]
        self.dkms: bool = params["dkms"]
        self.signed: list[str] = params["signed"]
        self.headers = Headers(**params["headers"])
        self.module: str = params["module"]
        self.reinstall: list[str] = params["reinstall"]
        self.conffiles: list[str] = params["conffiles"]
        self.others: list[str] = params["others"]
        self.other_branch: list[str] = params["other_branch"]
        self.may_switch: bool = params["may_switch"]
        self.wait: int = params["wait"]
        self.specs = [f"{name}={version}" for name, version in sorted(self.packages.items())]


class Plan:
    """What apt has to do. missing: name=version. build: what builds the module, or the module.

    again: name=version of what lost its files. other_branch: packages that go with it.
    """

    def __init__(
        self, missing: list[str], build: list[str], again: list[str], other_branch: list[str]
    ) -> None:
        self.missing = missing
        self.build = build
        self.again = again
        self.other_branch = other_branch

    def needed(self) -> bool:
        return bool(self.missing or self.build or self.again or self.other_branch)

    def guarded(self) -> bool:
        """Whether something could go for it."""
        return bool(self.missing or self.other_branch)


def look(context: Context, wish: Wish) -> Plan:
    """Compares dpkg's records with the wish."""
    installed = _installed(context)
    missing = [spec for spec in wish.specs if installed.get(spec.split("=")[0]) != spec]
    build = list(built_modules.following(context, wish.signed, wish.version).values())
    if wish.dkms:
        build = ["dkms", *wish.headers.kernels, *wish.headers.images]
    again = [spec for spec in wish.specs if spec.split("=")[0] in wish.reinstall]
    lacking = [name for name in build if name not in installed]
    return Plan(missing, lacking, again, wish.other_branch)


def _installed(context: Context) -> dict[str, str]:
    """{name: name=version} of what is installed and is to stay."""
    return {
        name: f"{name}={package['version']}"
        for name, package in context.packages.items()
        if package["status"] == "installed" and package["want"] in ("install", "hold")
    }


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """What the module of these parameters returns. RefusalError."""
    if not check_mode:
        service_starts.restore()
    wish = Wish(params)
    if params["state"] == "others_absent":
        return remove_others(wish, check_mode)
    plan = look(Context(runner=apt_commands.run), wish)
    result: dict[str, Any] = {"missing": plan.missing, "again": plan.again, "changed": False}
    result["needed"] = plan.needed()
    if check_mode and plan.needed():
        words = " ".join([*plan.missing, *plan.build, *plan.again])
        result.update(changed=True, msg=f"Would install {words or 'the driver'}")
    elif plan.needed() and params["state"] == "present":
        result["changed"] = install(wish, plan)
    elif plan.needed():
        result["warnings"] = check(wish, params)
        if plan.guarded():
            guard(wish)
    if params["state"] == "offered" and wish.dkms:
        result["headers"] = kernel_headers.offered(wish.headers)
    return result


def check(wish: Wish, params: dict[str, Any]) -> list[str]:
    """apt offers every version with the locked SHA-256; warnings of its lists. RefusalError."""
    lists = package_lists.nothing()
    offers = [] if params["renewed"] or not wish.specs else package_install.offers(wish.specs)
    if set(wish.specs) - {spec for spec, _sha256 in offers}:
        lists = package_lists.fetch(params["suites"], wish.wait)
        if lists["locked"]:
            raise RefusalError(f"Another apt is at work. {lists['words']}")
        offers = package_install.offers(wish.specs)
    lacking = sorted(set(wish.specs) - {spec for spec, _sha256 in offers})
    if lacking:
        words = f"apt does not offer {', '.join(lacking)} on this host."
        raise RefusalError(
            " ".join(part for part in (words, params["hint"], lists["words"]) if part)
        )
    locked = {name: sha256.lower() for name, sha256 in params["checksums"].items()}
    named = [(spec.split("=")[0], sha256) for spec, sha256 in offers]
    wrong = [name for name, sha256 in named if locked.get(name, sha256) != sha256]
    if wrong:
        raise RefusalError(
            "apt's index has another SHA-256 than nvidia_driver_checksums for"
            f" {', '.join(dict.fromkeys(wrong))}. The archive, or a mirror of it, carries a"
            " different file under this version; nothing was installed."
        )
    if not lists["bearable"]:
        return []
    return [
        f"apt cannot use {', '.join(lists['places'])}: {' '.join(lists['errors'])} The driver goes"
        " on without; repair that entry, or take it out."
    ]


def guard(wish: Wish) -> list[str]:
    """Parts of another driver that have to go. RefusalError where more would, or they may not."""
    leaving = [*wish.others, *wish.other_branch]
    request = [*wish.specs, *(f"{name}-" for name in leaving)]
    # Where apt has no answer, the installation itself says what is in its way.
    simulated = apt_commands.run([*apt_commands.SIMULATE, *request]).out
    going = sorted(set(REMOVED.findall(simulated)) - set(leaving))
    superseded = [name for name in going if driver_method.DRIVER.match(name)]
    lost = [name for name in going if name not in superseded]
    changed = [
        name
        for name in sorted(set(CHANGED.findall(simulated)) & apt_commands.held() - set(wish.parts))
        if not driver_method.DRIVER.match(name)
    ]
    why = package_install.needs([*lost, *superseded]) if going else ""
    message = ""
    if lost:
        message = (
            f"For driver {wish.version} apt would remove {', '.join(lost)}, no part of a driver."
            f" {why}. "
        )
    if changed:
        message += (
            f"apt would change {', '.join(changed)}, which somebody holds (apt-mark unhold releases"
            " it). "
        )
    if message:
        raise RefusalError(
            f"{message}No package was touched. Remove them yourself if nobody needs them, then run"
            " again."
        )
    if superseded and not wish.may_switch:
        raise RefusalError(
            f"{', '.join(superseded)} cannot stay beside driver {wish.version}. {why}. No package"
            ' was touched. Set nvidia_driver_switch to "switch", and the run removes them; or'
            " remove them yourself."
        )
    return superseded


def install(wish: Wish, plan: Plan) -> bool:
    """Installs all of the plan; whether anything changed. RefusalError with apt's words."""
    began = package_install.moment()
    # A package that somebody took away by force makes apt refuse every other one, and where what
    # depends on it is held, apt would not mend it. What fails here fails below, with the reason.
    mended = apt_commands.run(fix_broken(wish.wait), wish.wait)
    changed = mended.rc == 0 and " 0 newly installed" not in mended.out
    # Once more: what was removed or mended since may have changed the answer.
    superseded = guard(wish) if plan.guarded() else []
    here = Context(runner=apt_commands.run)
    build = list(built_modules.following(here, wish.signed, wish.version).values())
    if wish.dkms:
        build = ["dkms", *kernel_headers.offered(wish.headers)]
    lock = apt_commands.lock_timeout(wish.wait)
    going = [*plan.other_branch, *superseded]
    if going:
        _replace(wish, build, going)
        changed = True
    else:
        installed = _installed(Context())
        specs = plan.missing + [name for name in build if name not in installed]
        if specs:
            with service_starts.none():
                _run(wish, [*apt_commands.INSTALL, lock, "install", *specs])
            changed = True
    if plan.again:
        package_install.keep(wish.conffiles)
        _remove_empty_records()
        _run(wish, [*apt_commands.INSTALL, lock, *REINSTALL, "install", *plan.again])
        changed = True
    package_install.forget_downloads(began)
    return changed


def _replace(wish: Wish, build: list[str], going: list[str]) -> None:
    """Installs the driver in the transaction that removes the other one.

    apt keeps what is held rather than what is asked for ("held broken packages"): so what is to go
    is named.
    """
    request = [*wish.specs, *build, *(f"{name}-" for name in going)]
    simulated = _run(wish, [*apt_commands.SIMULATE, *request])
    others = [
        name
        for name in dict.fromkeys(REMOVED.findall(simulated))
        if name not in wish.other_branch and not driver_method.DRIVER.match(name)
    ]
    if others:
        raise RefusalError(
            f"With driver {wish.version} these packages could not stay: {', '.join(others)}. They"
            " are no part of a driver, so nothing was changed. Remove them yourself if they are not"
            " needed, then run again."
        )
    _run(wish, [*REPLACE, apt_commands.lock_timeout(wish.wait), "install", *request])


def _remove_empty_records() -> None:
    """update-alternatives does not work with an empty record, and makes one that is missing."""
    for name in GROUPS:
        path = os.path.join(ALTERNATIVES, name)
        try:
            info = os.lstat(path)
        except FileNotFoundError:
            continue
        if stat.S_ISREG(info.st_mode) and info.st_size == 0:
            os.remove(path)


def remove_others(wish: Wish, check_mode: bool) -> dict[str, Any]:
    """Removes the packages of another driver; their configuration files stay. RefusalError.

    apt-get remove would take along whatever depends on a driver: CUDA's toolkit, a program.
    """
    if not wish.others:
        return {"changed": False, "removed": []}
    names = ", ".join(wish.others)
    simulated = apt_commands.run([*REPLACE, "--simulate", "remove", *wish.others])
    if simulated.rc != 0:
        raise RefusalError(f"apt cannot take {names} away: {apt_commands.words(simulated)}")
    others = [
        name for name in dict.fromkeys(REMOVED.findall(simulated.out)) if name not in wish.others
    ]
    if others:
        raise RefusalError(
            f"Without {names} these packages could not stay: {', '.join(others)}. They are no part"
            " of a driver, so nothing was removed. Remove them yourself if they are not needed,"
            " then run again."
        )
    if check_mode:
        return {"changed": True, "removed": wish.others, "msg": f"Would remove {names}"}
    command = [*REPLACE, apt_commands.lock_timeout(wish.wait), "remove", *wish.others]
    answer = apt_commands.run(command, wish.wait)
    if answer.rc != 0:
        raise RefusalError(f"apt could not remove {names}: {apt_commands.words(answer)} Run again.")
    return {"changed": True, "removed": wish.others}


def _run(wish: Wish, argv: list[str]) -> str:
    """What apt printed. RefusalError with its errors, and the compiler's where DKMS failed."""
    answer = apt_commands.run(argv, wish.wait)
    if answer.rc == 0:
        return str(answer.out)
    words = [f"apt could not install the driver: {apt_commands.words(answer)}"]
    if "dkms" in answer.out + answer.err:
        words.insert(0, make_log.words(wish.version, wish.module))
    if apt_commands.NOT_FETCHED.search(" ".join(apt_commands.errors(answer))):
        words.append(
            "Run again when that address answers: apt installs nothing before it has everything."
        )
    raise RefusalError(" ".join(part for part in words if part))
