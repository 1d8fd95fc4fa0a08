"""Fetches apt's package lists, and says which source file is to blame where that fails.

`apt-get update` fails as a whole for one source that this run may not need, and names an address
that a person then has to look for in a dozen files. So each failure is traced to its file and line,
and if the platform's own archive answers, failed sources of others don't stop the run: a package
that is missing then is reported when it is asked for.
"""

from __future__ import annotations

import contextlib
import os
import re
import time

from ..type_checking import TYPE_CHECKING
from . import apt, apt_commands
from .apt_commands import PAUSE
from .context import SILENT
from .refusal import RefusalError

if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, Sequence


UPDATE = ("apt-get", "--quiet", "-oAPT::Update::Error-Mode=any", "-oAcquire::Retries=2", "update")
TARGETS = (
    "apt-get",
    "indextargets",
    "--no-release-info",
    "--format",
    "$(SOURCESENTRY)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)",
)
# Seconds; apt's own time-outs are 30 seconds for each address that does not answer.
LONGEST = 1800
LOCKED = "Could not get lock"
# Which run has fetched the lists, all of them. Below /run, where root alone can write.
FETCHED = "/run/provision/package-lists"
# Before 2.1 apt ends with 0 where it could not fetch a list.
FAILED = re.compile(r"^[EW]: .*Failed to fetch", re.M)


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """The result of the module; RefusalError where another apt has the lock all the time."""
    ready = params["unless"] and apt_commands.run(["apt-cache", "show", *params["unless"]]).rc == 0
    answer = nothing() if check_mode or ready else fetch(params["suites"], params["wait"])
    if answer["locked"]:
        raise RefusalError(f"Another apt is at work. {answer['words']}", **answer)
    return dict(answer, changed=False)


def fetch(suites: Iterable[str], wait: int = 0) -> dict[str, Any]:
    """Fetches the lists, and returns what came of it as the module does.

    `suites`: the platform's own. `wait`: seconds for which another apt may be at work; afterwards
    the answer is `locked`.
    """
    answer = retry_while_locked(lambda: _try(suites), wait)
    if not answer["errors"]:
        _note()
    return answer


def fetched_by_this_run() -> bool:
    """Whether this run has fetched every list already; never without a run (PROVISION_RUN)."""
    run = os.environ.get("PROVISION_RUN")
    try:
        with open(FETCHED, encoding="utf-8") as stream:
            return bool(run) and stream.read(200) == run
    except (OSError, ValueError):
        return False


def _note() -> None:
    """Notes that this run has fetched the lists; left out where it can't be."""
    run = os.environ.get("PROVISION_RUN")
    if not run:
        return
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(FETCHED), exist_ok=True)
        with open(FETCHED + ".new", "w", encoding="utf-8") as stream:
            stream.write(run)
        os.replace(FETCHED + ".new", FETCHED)


def retry_while_locked(attempt: Callable[[], dict[str, Any]], wait: int) -> dict[str, Any]:
    """The answer of `attempt`, repeated for `wait` seconds as long as another apt is at work."""
    answer = attempt()
    for _pause in range(wait // PAUSE):
        if not answer["locked"]:
            break
        time.sleep(PAUSE)
        answer = attempt()
    return answer


def nothing() -> dict[str, Any]:
    """The answer of a run that fetched no lists."""
    return _answer()


def _try(suites: Iterable[str]) -> dict[str, Any]:
    rc, _out, stderr = run(UPDATE)
    if rc == 0 and not FAILED.search(stderr):
        return _answer()
    errors = errors_of(stderr) or ["apt-get update ended with {0}".format(rc)]
    _rc, out, _stderr = run(TARGETS)
    places, bearable = judge(errors, entries(out), suites)
    return _answer(errors, places, bearable, rc == 0 or bearable, LOCKED in stderr)


def _answer(
    errors: Sequence[str] = (),
    places: Sequence[str] = (),
    bearable: bool = False,
    usable: bool = True,
    locked: bool = False,
) -> dict[str, Any]:
    return {
        "errors": list(errors),
        "places": list(places),
        "bearable": bearable,
        "usable": usable,
        "locked": locked,
        "words": ("In {0}: ".format(", ".join(places)) if places else "") + " ".join(errors),
    }


def run(argv: Sequence[str]) -> tuple[int, str, str]:
    """(exit code, standard output, standard error); 124 if it took too long and was killed."""
    rc, out, err = apt_commands.run(list(argv), longest=LONGEST)
    if rc == SILENT:
        return rc, "", "E: {0} took more than {1} s\n".format(" ".join(argv), LONGEST)
    return rc, out, err


def errors_of(stderr: str) -> list[str]:
    """apt's errors and warnings, each once, without passwords."""
    errors = []
    for line in stderr.splitlines():
        plain = apt.bare(line.strip())
        if re.match(r"[EW]: ", plain) and "Some index files" not in plain and plain not in errors:
            errors.append(plain)
    return errors


def entries(out: str) -> list[tuple[str, ...]]:
    """[(file:line, repository, suite, component)] of what apt has in its sources."""
    listed: list[tuple[str, ...]] = []
    for line in out.splitlines():
        parts = tuple(part.rstrip("/") for part in apt.bare(line).split("|"))
        if len(parts) == 4 and parts[1] and parts not in listed:
            listed.append(parts)
    return listed


def _names(error: str, entry: tuple[str, ...]) -> bool:
    """True where apt's message names this entry: its repository and, if given, suite."""
    _place, uri, suite, _component = entry
    match = re.search(re.escape(uri) + r"(?=[/ '\"]|$)(\S*) ?(\S*)", error)
    if match is None:
        return False
    # ".../dists/bullseye/main/...", or "The repository 'URI bullseye InRelease'"; flat: neither
    below = re.search(r"/dists/(.+)", match.group(1))
    if below is not None:
        return (below.group(1) + "/").startswith(suite + "/")
    return match.group(2) in ("", suite)


def _words_of_place(place: str) -> str:
    """ "FILE:LINE"; of a deb822 file apt counts its entries, not its lines."""
    file, _colon, number = place.rpartition(":")
    return "{0} (entry {1})".format(file, number) if file.endswith(".sources") else place


def judge(
    errors: Sequence[str], sources: list[tuple[str, ...]], suites: Iterable[str]
) -> tuple[list[str], bool]:
    """(places to blame, whether only sources of others failed)."""
    failed = [entry for entry in sources if any(_names(error, entry) for error in errors)]
    places = sorted({_words_of_place(entry[0]) for entry in failed})
    explained = all(any(_names(error, entry) for entry in failed) for error in errors)
    ours = any(os.path.basename(place).startswith("provision-") for place in places)
    platform = [entry for entry in sources if entry[2] in suites and entry[3] == "main"]
    answers = not platform or any(entry not in failed for entry in platform)
    return places, bool(failed) and explained and not ours and answers
