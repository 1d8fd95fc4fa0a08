"""Fetches the lists of one repository alone, before anything on the host names it.

With this source alone no other entry can fail it, and from a directory of its own nothing is left
behind if the repository can't be reached or its signature is bad.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from urllib.parse import urlsplit

from ..type_checking import TYPE_CHECKING
from . import apt, origin
from .package_lists import LOCKED, retry_while_locked, run
from .refusal import RefusalError

if TYPE_CHECKING:
    from typing import Any, Sequence


OPTIONS = (
    "-oDir::Etc::sourceparts=/dev/null",
    "-oAPT::Get::List-Cleanup=false",
    "-oAPT::Update::Error-Mode=any",
)
# Before 2.1 apt ends with 0 where it could not fetch a list.
FAILED = re.compile(r"^E: |^W: .*(Failed to fetch|not signed|NO_PUBKEY|EXPKEYSIG|verif)", re.M)
ERRORS = re.compile(r"^[EW]: .*", re.M)
# sqv's reasons are on lines of their own below the error.
REASONS = re.compile(r"^[EW]: .*|^\s+(?:because: .*|Signing key on .*)$", re.M)


def settle(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """The result of the module; RefusalError where another apt is at work to the end."""
    answer = judge(0, "") if check_mode else fetch(**params)
    if answer["locked"]:
        raise RefusalError(" ".join(["Another apt is at work.", *answer["errors"]]), **answer)
    return dict(answer, changed=False)


def fetch(
    uri: str,
    suite: str,
    key: str,
    components: str = "",
    login: str = "",
    ca_bundle: str = "",
    wait: int = 0,
) -> dict[str, Any]:
    """Fetches the lists, and returns what came of it as the module does.

    `uri` is without a password, which stands in `login`: "USER:PASSWORD". `key`: its armored text.
    `wait`: seconds for which another apt may be at work; afterwards the answer is `locked`.
    """
    if origin.current().place:
        return judge(0, "")  # apt has read the bundle's lists by the lock's keys already
    folder = tempfile.mkdtemp(prefix="provision-trial.")
    try:
        # apt checks signatures as a user of its own.
        os.chmod(folder, 0o755)  # noqa: S103  key and source have modes of their own
        keyring = os.path.join(folder, "key.asc")
        _write(keyring, key.strip() + "\n", 0o644)
        source = os.path.join(folder, "provision-trial.sources")
        _write(source, _source(uri, suite, components, login, keyring), 0o600)
        argv = ["apt-get", "--quiet", "-oDir::Etc::sourcelist=" + source, *OPTIONS]
        host = urlsplit(uri).hostname
        if ca_bundle and host:
            argv.append("-oAcquire::https::{0}::CaInfo={1}".format(host, ca_bundle))
        return retry_while_locked(lambda: _try([*argv, "update"]), wait)
    finally:
        shutil.rmtree(folder)


def _source(uri: str, suite: str, components: str, login: str, keyring: str) -> str:
    address = uri.replace("://", "://{0}@".format(login), 1) if login else uri
    text = "Types: deb\nURIs: {0}\nSuites: {1}\nSigned-By: {2}\n".format(address, suite, keyring)
    return text + ("Components: {0}\n".format(components) if components else "")


def _try(argv: Sequence[str]) -> dict[str, Any]:
    rc, _out, stderr = run(argv)
    return judge(rc, stderr)


def judge(rc: int, stderr: str) -> dict[str, Any]:
    """The result of the trial, by apt's exit code and messages."""
    plain = apt.bare(stderr)
    failed = rc != 0 or FAILED.search(plain) is not None
    ended = ["apt-get ended with {0}".format(rc)] if rc else []
    return {
        "usable": not failed,
        "errors": _lines(ERRORS, plain) or ended,
        "reasons": _lines(REASONS, plain) or ended,
        "stderr": plain,
        "locked": LOCKED in plain,
    }


def _lines(pattern: re.Pattern[str], text: str) -> list[str]:
    """What matches, each once."""
    lines = [match.group().strip() for match in pattern.finditer(text)]
    return list(dict.fromkeys(line for line in lines if "Some index files" not in line))


def _write(path: str, text: str, mode: int) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        os.fchmod(handle, mode)
        file.write(text)
