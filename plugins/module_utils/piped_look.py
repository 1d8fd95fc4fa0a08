"""The look from sources that arrive on standard input; its compiled modules are kept on the host.

Compiling a hundred modules and their regular expressions takes longer than the look that they do.
So a run that has nothing to change leaves what it has compiled in `KEPT`, and the next look with
the same sources and the same Python begins with that. It is tried without the sources first, which
are most of what a look sends. Root alone can write there and above; whatever else stands at that
path, or does not carry the digest, is left alone or compiled anew.

The action plugin sends this file's text, so it uses the standard library alone, and little of it: a
hundred hosts may share two processors (a lab on one machine).
"""

from __future__ import annotations

import contextlib
import gc
import marshal
import os
import stat
import sys
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, ModuleType
    from typing import Any, Callable

KEPT = "/var/cache/provision-look"
# Exists from the first run on: nothing is left on a host that no run has changed.
STATE = "/var/lib/provision"
# Sixteen times what a look compiles to: root reads no more than this into memory.
LIMIT = 16 * 1024 * 1024
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


# Of an answer that is none: the look needs what was not sent.
WANTED = "sources_wanted"


class WantedError(BaseException):
    """A module is neither kept nor sent. No Exception: nothing of the look takes it for its own."""


class Sources:
    """An importer of the modules in `packed`: base64 of deflated JSON, {module: source text}.

    WantedError where `packed` is "" and a module is not kept. `kept`: {module: code} of an earlier
    look. `compiled` has all that is known at the end, and `new` says whether anything of it had to
    be compiled.
    """

    def __init__(self, packed: str, kept: dict[str, CodeType]) -> None:
        self._packed = packed
        self._texts: dict[str, str] | None = None
        self.compiled = dict(kept)
        self.new = False

    def _text(self, module: str) -> str | None:
        if not self._packed:
            raise WantedError(module)
        if self._texts is None:  # not needed at all where everything is kept
            import binascii
            import json

            self._texts = json.loads(zlib.decompress(binascii.a2b_base64(self._packed)))
        return self._texts.get(module)

    def _key(self, name: str) -> str | None:
        """The name under which a module stands here; a package's own ends in __init__."""
        keys = (name, name + ".__init__")
        # All that is kept comes first: asking for a text unpacks every source.
        for key in keys:
            if key in self.compiled:
                return key
        for key in keys:
            if self._text(key) is not None:
                return key
        return None

    def find_spec(self, name: str, *_where: object) -> Any:
        """The module's spec; None for a module that is not of the look."""
        if name.split(".", 1)[0] != "gpu_stack":
            return None
        key = self._key(name)
        if key is None:
            return None
        spec = type(sys.__spec__)  # importlib.machinery would be one import more
        return spec(name, self, is_package=key != name)  # type: ignore[arg-type]

    def create_module(self, spec: object) -> None:
        """Python's own way of making a module."""

    def exec_module(self, module: ModuleType) -> None:
        """Runs the module's code, which is compiled first where it was not kept."""
        key = self._key(module.__name__) or ""
        if key not in self.compiled:
            self.compiled[key] = compile(self._text(key) or "", "<" + key + ">", "exec")
            self.new = True
        exec(self.compiled[key], module.__dict__)  # noqa: S102  the look's own text


class Patterns:
    """Takes the place of Python's compiler of regular expressions, whose results are kept.

    `kept`: {(expression, flags): what _sre.compile takes}, of an earlier look with this very
    Python. `compiled` has all that is known at the end. A Python whose compiler is made otherwise
    compiles as ever.
    """

    def __init__(self, kept: dict[tuple[str, int], tuple[Any, ...]]) -> None:
        import re

        self.compiled = dict(kept)
        name = "_compiler" if hasattr(re, "_compiler") else "sre_compile"
        self._compiler: Any = getattr(re, name, None)
        self._compile: Callable[[Any, int], Any] = re.compile
        self._installed = False
        self._code: list[int] | None = None

    def install(self) -> None:
        """Takes the place; a second time does nothing."""
        made, code = (getattr(self._compiler, name, None) for name in ("compile", "_code"))
        if made is None or code is None or self._installed:
            return

        def noted(*arguments: Any) -> list[int]:
            self._code = code(*arguments)
            return self._code

        self._compile, self._installed = made, True
        self._compiler._code = noted
        self._compiler.compile = self.compile

    def compile(self, pattern: Any, flags: int = 0) -> Any:
        """The compiled expression, as of Python's own compiler."""
        import _sre  # type: ignore[import-not-found]  # Python's own, and nothing documented

        key = (pattern, int(flags))
        if key in self.compiled:
            return _sre.compile(*self.compiled[key])
        self._code = None
        result = self._compile(pattern, flags)
        # marshal takes no subclass of str.
        if type(pattern) is str and self._code is not None:
            names = dict(result.groupindex)
            places = {place: name for name, place in names.items()}
            groups = tuple(places.get(place) for place in range(result.groups + 1))
            # Python's compiler has named integers, which marshal does not take.
            code = [int(word) for word in self._code]
            self.compiled[key] = (pattern, result.flags, code, result.groups, names, groups)
        return result


def header(digest: str, body: bytes) -> bytes:
    """The first line of the file: for which sources and which Python it is, and the body's CRC.

    The CRC finds what a disk or a power cut has spoiled; against people there are the file's
    owner and mode.
    """
    words = ["provision-look-2", digest, repr(sys.version), str(zlib.crc32(body))]
    return " ".join(words).encode("utf-8") + b"\n"


def _of_root(info: os.stat_result) -> bool:
    return info.st_uid == 0 and not info.st_mode & _OTHERS_WRITE


def _place(path: str) -> int | None:
    """A handle of the directory above `path`; None where others than root can write there."""
    try:
        handle = os.open(os.path.dirname(path), _DIRECTORY)
    except OSError:
        return None
    if _of_root(os.fstat(handle)):
        return handle
    os.close(handle)
    return None


def _content(place: int, name: str) -> bytes:
    """The content of root's own file `name`; b"" where there is none."""
    try:
        handle = os.open(name, _FILE, dir_fd=place)
    except OSError:
        return b""
    try:
        info = os.fstat(handle)
        # A second name could be a link of a user's, who would choose what stands here.
        own = stat.S_ISREG(info.st_mode) and _of_root(info) and info.st_nlink == 1
        return os.read(handle, LIMIT) if own and info.st_size < LIMIT else b""
    finally:
        os.close(handle)


def kept(
    digest: str, path: str = KEPT
) -> tuple[dict[str, CodeType], dict[tuple[str, int], tuple[Any, ...]]]:
    """({module: code}, Patterns' kept) of an earlier look; empty where it is of other sources or
    spoiled.
    """
    place = _place(path)
    if place is None:
        return {}, {}
    try:
        content = _content(place, os.path.basename(path))
    finally:
        os.close(place)
    end = content.find(b"\n") + 1
    body = content[end:]
    if content[:end] != header(digest, body):
        return {}, {}
    modules, patterns = marshal.loads(body)  # noqa: S302  root's own, see above
    return modules, patterns


def keep(
    digest: str,
    compiled: dict[str, CodeType],
    patterns: dict[tuple[str, int], tuple[Any, ...]],
    path: str = KEPT,
) -> None:
    """Writes the file anew, at once, for root alone; leaves it out where that can't be done."""
    try:
        body = marshal.dumps((compiled, patterns))
    except ValueError:  # what marshal does not take: all that is kept only saves time
        return
    place = _place(path)
    if place is None:
        return
    name = os.path.basename(path)
    fresh = name + ".new"
    try:
        with os.fdopen(os.open(fresh, _NEW, 0o600, dir_fd=place), "wb") as file:
            file.write(header(digest, body) + body)
        os.rename(fresh, name, src_dir_fd=place, dst_dir_fd=place)
    except OSError:  # no space, or the rest of a look that was killed: the next look compiles again
        with contextlib.suppress(OSError):
            os.unlink(fresh, dir_fd=place)
    finally:
        os.close(place)


def _may_keep(answer: dict[str, Any], check_mode: bool, state: str) -> bool:
    """Whether this look may leave its file: a run, and a host that is as it should be."""
    settled = not (answer.get("failed") or answer.get("components") or answer.get("blockers"))
    return settled and not check_mode and os.path.isdir(state)


def look(
    packed: str,
    digest: str,
    parameters: str,
    check_mode: bool,
    path: str = KEPT,
    state: str = STATE,
) -> dict[str, Any]:
    """The look's answer; a failed result with the traceback where it fails.

    `packed`: "" for what is kept alone; the answer is {WANTED: True} where that is not enough.
    `digest`: of `packed`, or of what is kept; "" for a look that neither begins with what is kept
    nor keeps anything. `parameters`: as JSON. Other users than root neither read nor write `path`.
    """
    rooted = os.geteuid() == 0 and bool(digest)
    modules, expressions = kept(digest, path) if rooted else ({}, {})
    patterns = Patterns(expressions)
    if rooted:
        patterns.install()
    # Not before: it compiles expressions of its own.
    import json

    sources = Sources(packed, modules)
    sys.meta_path.insert(0, sources)
    try:
        from gpu_stack.look import answer as answer_to

        answer: dict[str, Any] = answer_to(json.loads(parameters), check_mode=check_mode)
    except WantedError:
        answer = {WANTED: True}
    except Exception as error:
        import traceback

        answer = {
            "failed": True,
            "msg": f"the look failed: {type(error).__name__}: {error}",
            "exception": traceback.format_exc(),
        }
    # An expression alone is no reason: one could be made of what a host says of itself.
    if rooted and sources.new and _may_keep(answer, check_mode, state):
        keep(digest, sources.compiled, patterns.compiled, path)
    return answer


def respond(mark: str, packed: str, digest: str, parameters: str, check_mode: bool) -> None:
    """Prints a look's answer as JSON behind `mark`, and ends this Python.

    At once: nothing is left to tidy, and tidying is a tenth of a look's processor time.
    """
    gc.disable()
    answer = look(packed, digest, parameters, check_mode)
    import json

    sys.stdout.write(mark + json.dumps(answer) + "\n")
    sys.stdout.flush()
    os._exit(0)
