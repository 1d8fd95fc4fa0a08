"""The host that a module runs on, read in the same way as the look reads it."""

from ...host.context import Context, Result
from . import wished
from .program import files, programs


def context(wish):
    return Context(root=files.ROOT, options=wished.options(wish), runner=_run)


def _run(argv):
    return Result(*programs.call(list(argv)))
