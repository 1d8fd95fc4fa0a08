"""Runs apt and dpkg as the roles do: unattended, in English, waiting for another's lock."""

from __future__ import annotations

import os
import re
import time

from ..type_checking import TYPE_CHECKING
from . import apt, origin
from .context import PATH, SILENT, Result, run_program
from .refusal import RefusalError

if TYPE_CHECKING:
    from typing import Any

ENVIRONMENT = {
    "LC_ALL": "C",
    "DEBIAN_FRONTEND": "noninteractive",
    "DEBIAN_PRIORITY": "critical",
}
# Seconds. A driver's module is built for each kernel while dpkg runs.
LONGEST = 4 * 3600.0
# Seconds from one try to the next while another apt or dpkg is at work.
PAUSE = 10
LOCKED = re.compile(
    r"Could not get lock|frontend lock|(?:database|status area) (?:area )?is locked"
)
ERROR = re.compile(r"E: |dpkg: error")
# More of apt's errors only repeat the first.
MANY = 4
OTHER_BYTES = re.compile(r"Hash Sum mismatch|File has unexpected size")
NOT_FETCHED = re.compile(r"Failed to fetch|Unable to fetch")
# For every command that installs, removes or simulates it, whatever the host's apt.conf says. With
# AutomaticRemove apt refuses --no-remove, and removes what nobody asked for; with Purge it deletes
# the configuration and the data of what goes.
SETTINGS = ("-oAPT::Get::AutomaticRemove=false", "-oAPT::Get::Purge=false")
# What only exact versions of the lock may do.
FORCED = ("--allow-downgrades", "--allow-change-held-packages")
INSTALL = (
    "apt-get",
    "--yes",
    "--no-remove",
    *FORCED,
    "-oAPT::Install-Recommends=no",
    "-oDPkg::Options::=--force-confdef",
    "-oDPkg::Options::=--force-confold",
    *SETTINGS,
)
UNFORCED_INSTALL = tuple(word for word in INSTALL if word not in FORCED)
SIMULATE = (
    "apt-get",
    "install",
    "--simulate",
    "--no-install-recommends",
    *FORCED,
    *SETTINGS,
)


def run(argv: list[str], wait: int = 0, longest: float = LONGEST, host: bool = False) -> Result:
    """The program's result, tried again for `wait` seconds while another has apt's lock.

    One that takes longer than `longest` seconds is ended; its exit code is 124 then. host: by the
    host's own sources, wherever this run takes its packages from (origin.py).
    """
    environment = dict(os.environ, **ENVIRONMENT)
    if host and environment.get("APT_CONFIG") == origin.CONFIGURATION:
        del environment["APT_CONFIG"]
    environment.setdefault("PATH", ":".join(PATH))
    for _pause in range(wait // PAUSE):
        answer = run_program(argv, longest, environment)
        if answer.rc in (0, SILENT) or not LOCKED.search(answer.err):
            return answer
        time.sleep(PAUSE)
    return run_program(argv, longest, environment)


def errors(answer: Result) -> list[str]:
    """apt's and dpkg's errors, each once, without passwords."""
    lines = [apt.bare(line) for line in answer.err.splitlines() if ERROR.match(line)]
    return list(dict.fromkeys(lines))


def words(answer: Result) -> str:
    """apt's first errors, or what it wrote instead."""
    message = " ".join(errors(answer)[:MANY]) or apt.bare(answer.err.strip())
    return message or f"it ended with {answer.rc}"


def install(title: str, argv: list[str], wait: int) -> None:
    """Runs the command that installs `title`; RefusalError with apt's words."""
    answer = run(argv, wait)
    if answer.rc == 0:
        return
    message = words(answer)
    if OTHER_BYTES.search(message):
        todo = (
            "Nothing was installed: that address sends something else than its index names. Of the"
            " fleet's cache see docs/cache.md, of a bundle `provision bundle --verify`."
        )
    elif NOT_FETCHED.search(message):
        todo = "Nothing was installed: run again when that address answers."
    else:
        todo = "Run again: what is left half way is finished first."
    raise RefusalError(f"apt could not install {title}: {message} {todo}")


def lock_timeout(wait: int) -> str:
    """The option that has apt wait for dpkg's lock itself."""
    return f"-oDPkg::Lock::Timeout={wait}"


def held() -> set[str]:
    """Names of the packages that are held."""
    return set(run(["apt-mark", "showhold"]).out.split())


def settle_holds(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """What the module package_holds returns; RefusalError where a hold can't be changed."""
    now, hold = held(), params["hold"]
    differing = [name for name in params["names"] if (name in now) != hold]
    if differing and not check_mode:
        answer = run(["apt-mark", "hold" if hold else "unhold", *differing], params["wait"])
        if answer.rc != 0:
            raise RefusalError(" ".join(errors(answer)) or f"apt-mark ended with {answer.rc}")
    return {"changed": bool(differing), "packages": differing}
