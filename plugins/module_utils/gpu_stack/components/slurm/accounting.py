"""Who used which GPUs for how long: slurmdbd over the host's MariaDB, which asks for no password.

MariaDB knows its client by the user of the process (unix_socket), so there is no password that
could be read anywhere.
"""

from __future__ import annotations

import pwd
import time

from ...host.context import Context, run_program
from ...host.refusal import RefusalError
from ...type_checking import TYPE_CHECKING
from . import configuration, paths, records, services

if TYPE_CHECKING:
    from typing import Any

PATIENCE = 60
SQL = (
    f"CREATE DATABASE IF NOT EXISTS {configuration.DATABASE}; "
    "CREATE USER IF NOT EXISTS 'slurm'@'localhost' IDENTIFIED VIA unix_socket; "
    f"GRANT ALL ON {configuration.DATABASE}.* TO 'slurm'@'localhost';"
)


def bring(host: dict[str, Any], cluster: str) -> None:
    """Brings MariaDB, slurmdbd and the cluster's name in it."""
    services.start("mariadb", False)
    _until(["mariadb", "-e", SQL], "MariaDB")
    slurm = pwd.getpwnam("slurm")
    wished = configuration.dbd_conf(host)
    changed = Context().read(paths.DBD_CONF) != wished or not is_slurms(Context())
    if changed:
        records.begin("slurmdbd")
        ours = records.written(Context()).get(paths.DBD_CONF)
        records.save_edit(Context(), paths.DBD_CONF, ours)
        records.put(paths.DBD_CONF, wished.encode(), 0o600, (slurm.pw_uid, slurm.pw_gid))
        records.note_written({paths.DBD_CONF: wished})
    services.start("slurmdbd", "slurmdbd" in records.unread(Context()))
    _until(["sacctmgr", "-n", "show", "cluster"], "slurmdbd")
    clusters = run_program(["timeout", "20", "sacctmgr", "-n", "-P", "show", "cluster"]).out
    if cluster not in [line.partition("|")[0] for line in clusters.splitlines()]:
        _until(["sacctmgr", "-i", "add", "cluster", cluster], "slurmdbd")


def is_slurms(context: Context) -> bool:
    """Whether slurmdbd.conf is the user slurm's alone."""
    info = context.lstat(paths.DBD_CONF)
    return info is not None and not info.st_mode & 0o177 and info.st_uid != 0


def _until(command: list[str], who: str) -> None:
    """Runs a command until it succeeds: a database needs its time to come up."""
    until = time.time() + PATIENCE
    while True:
        answer = run_program(["timeout", "20", *command])
        if answer.rc == 0:
            return
        if time.time() > until:
            message = services.complaint("slurmdbd") or (answer.err or answer.out).strip()[-300:]
            raise RefusalError(f"{who} does not answer: {message}")
        time.sleep(0.5)
