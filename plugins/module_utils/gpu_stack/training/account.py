"""As whom a job runs, and where its folders are.

What lies there is the person's: root opens none of it, and every step there is a child process with
that person's rights.
"""

from __future__ import annotations

import json
import os
import pwd

from ..host import regular
from ..host.refusal import RefusalError
from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Callable

# A home on a file server may take its time.
PATIENCE = 30.0
LIMIT = 4 * 1024 * 1024
FOLDER = "provision-train"


class Account:
    """The person whose job it is: name, uid, gid, home."""

    def __init__(self, name: str, uid: int, gid: int, home: str) -> None:
        self.name, self.uid, self.gid, self.home = name, uid, gid, home

    @property
    def identity(self) -> tuple[str, int, int]:
        return (self.name, self.uid, self.gid)

    def folder(self, option: str) -> str:
        """The folder of all jobs: the option's, `~` being this person's home."""
        if not option:
            return os.path.join(self.home, FOLDER)
        if option == "~" or option.startswith("~/"):
            return self.home + option[1:]
        return option

    def do(self, work: Callable[[], Any], patience: float = PATIENCE) -> Any:
        """What `work()` returns, done with this person's rights, and no others.

        Raises RefusalError with the words of its OSError, or where no answer comes in time.
        """

        def answer() -> bytes:
            regular.become(*self.identity)
            # Whatever umask sudo had: these are the person's own files.
            os.umask(0o022)
            try:
                return json.dumps({"done": work()}).encode("utf-8")
            except OSError as error:
                return json.dumps({"refused": str(error)}).encode("utf-8")

        data = regular.apart(answer, LIMIT, patience)
        try:
            reply = json.loads(data or b"")
        except ValueError:
            raise RefusalError(
                "the home of {0} did not answer within {1:.0f} s".format(self.name, patience)
            ) from None
        if "refused" in reply:
            raise RefusalError("{0} can't do this: {1}".format(self.name, reply["refused"]))
        return reply["done"]


def of(wished: str, uid: int | None = None, login: str | None = None) -> Account:
    """The account that is wished for, else the one that has logged in. Raises RefusalError.

    login: who became root by sudo. Root is never taken for granted.
    """
    uid = os.geteuid() if uid is None else uid
    login = os.environ.get("SUDO_USER") if login is None else login
    name = wished or (login if login != "root" else "") or ""
    if not name and uid != 0:
        name = pwd.getpwuid(uid).pw_name
    if not name:
        raise RefusalError(
            "Ansible logs in as root here, and a job runs as an ordinary user: gpu_train_user "
            "names one (root too, where that is meant)"
        )
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise RefusalError("there is no user {0} here (gpu_train_user)".format(name)) from None
    if entry.pw_uid == 0 and wished != name:
        raise RefusalError("{0} is root by another name: gpu_train_user names a user".format(name))
    return Account(name, entry.pw_uid, entry.pw_gid, entry.pw_dir)
