"""Runs programs in TensorFlow's environment: without root's rights, each with a time limit.

They use libraries and drivers that may hang, crash or write what they like: each is a process of
its own, as a user who owns nothing, in a folder that is removed afterwards.
"""

from __future__ import annotations

import collections
import glob
import json
import os
import re
import shutil
import signal
import stat
import tempfile
import time

from ..host.context import SILENT, run_program
from ..type_checking import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Callable

    from ..host.context import Context, Result

MARK = "PROVISION "
# The file among the programs that starts one by its name.
MAIN = "__main__.py"
# The user and group `nobody`, on Debian and Ubuntu.
NOBODY = 65534
# On a disk: /tmp may be memory, and models are large.
PLACE, PREFIX = "/var/tmp", "provision-accept-"  # noqa: S108 mkdtemp's folders are root's own
# Seconds. No acceptance is at work for so long; its folder is what a killed one has left.
OLD = 7 * 24 * 3600
# Enough of a program's last words to name its error.
WORDS = 12
# What TensorFlow writes at every start on a GPU, whatever its log level: no error.
NOISE = re.compile(
    r"Unable to register cu\w+ factory: |^WARNING: All log messages before absl::InitializeLog"
    r"|^I\d{4} \d\d:\d\d:\d"
)

# error: why there are no facts; log: the program's last lines then; silent: its time was over, and
# it was ended.
Answer = collections.namedtuple("Answer", "facts error log silent")


class Runner:
    """Programs in the host's TensorFlow; a context manager, which keeps their folder.

    sources: {file name: text} of the programs, with MAIN. python: TensorFlow's. variables: the file
    with the variables of GPU programs. Raises OSError where the folder can't be made.
    """

    def __init__(
        self,
        context: Context,
        sources: dict[str, str],
        python: str,
        variables: str,
        run: Callable[..., Result] = run_program,
    ) -> None:
        self.python = python
        self._sources = sources
        self._run = run
        self._environment = environment(context.read(variables) or "")
        self._folder = ""

    def __enter__(self) -> Runner:
        remove_old()
        self._folder = tempfile.mkdtemp(prefix=PREFIX, dir=PLACE)
        programs = os.path.join(self._folder, "programs")
        os.mkdir(programs)
        for folder in (self._folder, programs):
            os.chmod(folder, 0o755)  # noqa: S103 an import lists it; whatever root's umask is
        for name, text in self._sources.items():
            path = os.path.join(programs, name)
            with open(path, "w", encoding="utf-8") as stream:
                stream.write(text)
            os.chmod(path, 0o644)
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def ask(
        self, program: str, given: dict[str, Any], visible: str, patience: float
    ) -> dict[str, Any]:
        """{facts, error, log, silent} of a program; `visible` is CUDA_VISIBLE_DEVICES.

        Each has an empty folder to write in, as `given["folder"]`.
        """
        try:
            scratch = tempfile.mkdtemp(prefix=program + "-", dir=self._folder)
            if os.geteuid() == 0:
                os.chown(scratch, NOBODY, NOBODY)
        except OSError as error:
            return Answer(None, str(error), [], False)._asdict()
        variables = dict(
            self._environment,
            HOME=scratch,
            TMPDIR=scratch,
            CUDA_VISIBLE_DEVICES=visible,
            # NVML's order: without it the fastest card is the first.
            CUDA_DEVICE_ORDER="PCI_BUS_ID",
        )
        argv = [
            *_without_rights(), self.python, "-I", "-B",
            os.path.join(self._folder, "programs", MAIN), program,
            json.dumps(dict(given, folder=scratch)),
        ]  # fmt: skip
        try:
            result = self._run(argv, patience=patience, environment=variables)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return read(result, patience)._asdict()


def remove_old(place: str = PLACE) -> None:
    """Removes the folders that acceptances which were killed have left, and no one else's."""
    for path in glob.glob(os.path.join(glob.escape(place), PREFIX + "*")):
        try:
            status = os.lstat(path)
        except OSError:
            continue
        ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
        if ours and time.time() - status.st_mtime > OLD:
            shutil.rmtree(path, ignore_errors=True)


def read(result: Result, patience: float) -> Answer:
    """The Answer of a program that has ended or was ended."""
    lines = [line for line in (result.err or "").strip().splitlines() if not NOISE.search(line)]
    log = lines[-WORDS:]
    for line in reversed(result.out.splitlines()):
        if line.startswith(MARK) and result.rc == 0:
            try:
                return Answer(json.loads(line[len(MARK) :]), None, [], False)
            except ValueError:
                break
    if result.rc == SILENT:
        return Answer(None, "no answer within {0:.0f} s".format(patience), log, True)
    if result.rc < 0:
        ended = "it was ended by signal {0}".format(-result.rc)
        # A library that can't go on says why, and aborts.
        why = ": " + lines[-1].strip()[:300] if lines and -result.rc == signal.SIGABRT else ""
        return Answer(None, ended + why, log, False)
    # The last line of a traceback is the error itself.
    error = lines[-1].strip()[:300] if lines else "it ended with {0}".format(result.rc)
    return Answer(None, error or "it ended with {0}".format(result.rc), log, False)


def environment(text: str) -> dict[str, str]:
    """The variables of a program that a systemd unit starts, from our file for units."""
    variables = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LC_ALL": "C.UTF-8",
        # Errors alone: a log of every library that it opens would hide them.
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    }
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and not name.startswith("#"):
            variables[name] = value.strip('"')
    return variables


def _without_rights() -> list[str]:
    """What a program is started by, so that it is nobody's; with groups that may use the GPUs."""
    if os.geteuid() != 0:
        return []
    groups = set()
    for path in glob.glob("/dev/nvidia*"):
        status = os.stat(path)
        if stat.S_ISCHR(status.st_mode) and not status.st_mode & stat.S_IWOTH and status.st_gid:
            groups.add(str(status.st_gid))
    allowed = ["--groups", ",".join(sorted(groups))] if groups else ["--clear-groups"]
    return ["/usr/bin/setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), *allowed, "--"]
