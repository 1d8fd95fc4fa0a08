"""The cluster's munge key: made on the controller, and sealed for each node on its way.

A node makes a pair of keys in memory and shows a certificate; the controller seals the munge key
for it. What travels over the machine that runs Ansible is of no use to anybody but the node.
"""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import tempfile

from ...host.context import Context, run_program
from ...host.refusal import RefusalError
from ...type_checking import TYPE_CHECKING
from . import paths
from .records import begin, digest, noted, put, save, unread

if TYPE_CHECKING:
    from ...host.context import Result

PRIVATE, CERTIFICATE = paths.RUN + "/node.key", paths.RUN + "/node.crt"
SEALED, OPENED = paths.RUN + "/sealed", paths.RUN + "/opened"
SIZE = 1024
# munged takes no key that is shorter.
SMALLEST = 32


def _must(answer: Result, prefix: str) -> str:
    if answer.rc:
        raise RefusalError("{0}: {1}".format(prefix, (answer.err or answer.out).strip()[-400:]))
    text: str = answer.out
    return text


def _fresh() -> None:
    """An empty folder in memory that only root can enter."""
    shutil.rmtree(paths.RUN, ignore_errors=True)
    os.mkdir(paths.RUN, 0o700)


def asked() -> str:
    """A certificate for which a controller may seal the key."""
    _fresh()
    _must(
        run_program(
            ["openssl", "req", "-x509", "-newkey", "rsa:3072", "-nodes", "-days", "2",
             "-subj", "/CN=provision slurm", "-keyout", PRIVATE, "-out", CERTIFICATE]
        ),
        "openssl req",
    )  # fmt: skip
    with open(CERTIFICATE, encoding="ascii") as file:
        return file.read()


def sealed(certificate: str) -> str:
    """The cluster's key, which the owner of the certificate alone can open."""
    # Not where this host's own pair of keys is: the controller may be a node as well.
    folder = tempfile.mkdtemp(dir="/run", prefix="provision-slurm-")
    try:
        shown = folder + "/shown.crt"
        put(shown, certificate.encode(), 0o600)
        command = ["openssl", "cms", "-encrypt", "-binary", "-aes256", "-outform", "PEM"]
        return _must(run_program([*command, "-in", paths.KEPT_KEY, shown]), "openssl cms")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def opened(text: str) -> bytes:
    """The key that a controller has sealed for this host."""
    try:
        put(SEALED, text.encode(), 0o600)
        # Made here, so that openssl does not make it readable by others.
        put(OPENED, b"", 0o600)
        command = ["openssl", "cms", "-decrypt", "-binary", "-inform", "PEM", "-in", SEALED]
        _must(run_program([*command, "-inkey", PRIVATE, "-out", OPENED]), "openssl cms")
        with open(OPENED, "rb") as file:
            return file.read()
    finally:
        shutil.rmtree(paths.RUN, ignore_errors=True)


def is_right(context: Context, wished: str | None) -> bool:
    """Whether munge's key is the cluster's, and munge's alone to read."""
    info = context.lstat(paths.MUNGE_KEY)
    if info is None or not stat.S_ISREG(info.st_mode) or info.st_mode & 0o377:
        return False
    return wished is not None and digest(context.read_bytes(paths.MUNGE_KEY)) == wished


def kept() -> bytes:
    """The cluster's key on its controller; the one that munge has, else a new one, is kept."""
    context = Context()
    data = context.read_bytes(paths.KEPT_KEY)
    if data is None:
        data = context.read_bytes(paths.MUNGE_KEY)
        if data is None or len(data) < SMALLEST or not _is_safe(context):
            data = os.urandom(SIZE)
        put(paths.KEPT_KEY, data, 0o400, folder=0o700)
    return data


def _is_safe(context: Context) -> bool:
    """Whether nobody but root and munge has read or written munge's key."""
    info = context.lstat(paths.MUNGE_KEY)
    trusted = (0, pwd.getpwnam("munge").pw_uid)
    return info is not None and info.st_uid in trusted and not info.st_mode & 0o077


def install(data: bytes) -> None:
    """Gives munge the key. One of somebody's, who had munge before, is kept."""
    context = Context()
    former = context.read_bytes(paths.MUNGE_KEY)
    theirs = "munge" not in (noted(context).get("brought") or [])
    if theirs and former is not None and not context.exists(paths.FORMER_KEY):
        put(paths.FORMER_KEY, former, 0o400, folder=0o700)
    _give(data)


def restore() -> bool:
    """Gives munge the key back that it had before; returns whether it has to read it.

    One that somebody has put in the cluster's place stays.
    """
    context = Context()
    former, now = context.read_bytes(paths.FORMER_KEY), context.read_bytes(paths.MUNGE_KEY)
    if former is None:
        return False
    if now != former and digest(now) in (None, noted(context).get("key")):
        _give(former)
    return "munge" in unread(context)


def forget() -> None:
    """Takes the cluster's key from a host that has no munge any more.

    The former key is kept where it did not come back.
    """
    context = Context()
    former = context.read_bytes(paths.FORMER_KEY)
    if former not in (None, context.read_bytes(paths.MUNGE_KEY)):
        save(paths.MUNGE_KEY, former or b"")
    if not context.exists(paths.PROGRAMS["munge"]) and is_right(context, noted(context).get("key")):
        os.unlink(paths.MUNGE_KEY)


def _give(data: bytes) -> None:
    munge = pwd.getpwnam("munge")
    begin("munge")
    put(paths.MUNGE_KEY, data, 0o400, (munge.pw_uid, munge.pw_gid), folder=0o700)
