"""Tries faults by the hundred: a pytest that has collected its tests once forks for every fault.

Starting Python and pytest and collecting the tests takes a second, running the few tests that
matter here some milliseconds. So the collected session is the template: a fork of it gets one
fault into the functions it holds already, runs the tests that enter that function until the first
one fails, and ends. A fault outside of functions (a table, a decorator), and every fault that no
test has noticed so far, is tried once more the long way, with the file imported anew, all tests
collected again and all of them run.
"""

from __future__ import annotations

import collections
import contextlib
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import json
import math
import os
import resource
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import mutator
import pytest

ROOT = Path(__file__).resolve().parents[2]
# A fault may never end, or eat the memory: such a one has been noticed. One that lives needs as
# long as all tests do, and to import and collect them: it must not be taken for an endless one.
CPU_SECONDS = 10
WITHOUT_FAULT = 600
MEMORY = 8 << 30
# Exit statuses of a fork: the faulty code was noticed by a test, or while it was imported.
ALIVE, KILLED, BROKEN = 0, 1, 2


def limit(used: float) -> int:
    """Seconds of CPU for a fault whose tests took so many without any fault."""
    return max(CPU_SECONDS, math.ceil(4 * used))


@dataclass(frozen=True)
class Target:
    """A file, the module it is imported as, and the tests that guard it, quickest first."""

    path: str
    module: str
    tests: tuple[str, ...]
    functions: str = "."
    # Tables whose numbers are not changed, with the reason in docs/mutants.md.
    without_numbers: tuple[str, ...] = ()

    @property
    def file(self) -> Path:
        return ROOT / self.path

    def mutants(self) -> list[mutator.Mutant]:
        source = self.file.read_text(encoding="utf-8")
        return mutator.mutants(source, self.functions, self.without_numbers)


class Swap(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from code that is given, and all others as ever."""

    def __init__(self, target: Target, code: CodeType) -> None:
        self.target, self.code = target, code

    def find_spec(
        self, name: str, _path: Any, _target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self.target.module:
            return None
        package = self.target.file.name == "__init__.py"
        return importlib.util.spec_from_file_location(
            name,
            self.target.file,
            loader=self,
            submodule_search_locations=[str(self.target.file.parent)] if package else None,
        )

    def create_module(self, _spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(self.code, module.__dict__)  # noqa: S102  the file itself, with one fault


def code_of(code: CodeType, path: Sequence[str]) -> CodeType:
    """The code of a function within compiled code, by its qualified name."""
    for name in path:
        code = next(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name)
    return code


def function_of(module: ModuleType, path: Sequence[str]) -> FunctionType | None:
    """The function that an imported module holds under a qualified name."""
    found: Any = module
    for name in path:
        found = vars(found).get(name) if isinstance(found, type) else getattr(found, name, None)
    if isinstance(found, property):
        found = found.fget
    found = getattr(found, "judge", found)  # the checks are objects around their functions
    found = getattr(found, "__wrapped__", found)
    return found if isinstance(found, FunctionType) else None


def lines_of(code: CodeType) -> set[int]:
    """The lines of a function's code, those of the functions within it among them."""
    lines = {line for _, _, line in code.co_lines() if line}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            lines |= lines_of(constant)
    return lines


class Reached:
    """Which tests run which lines of a file: {line: ids of the tests}."""

    def __init__(self, file: Path) -> None:
        self.file = str(file)
        self.tests: dict[int, set[str]] = collections.defaultdict(set)
        self.test = ""

    @contextlib.contextmanager
    def by(self, test: str) -> Iterator[None]:
        """Records the lines that run within, in this thread and in those it starts."""
        self.test = test
        former = sys.gettrace()
        threading.settrace(self._trace)
        sys.settrace(self._trace)
        try:
            yield
        finally:
            sys.settrace(former)
            threading.settrace(former)

    def _trace(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        if frame.f_code.co_filename != self.file:
            return None
        self.tests[frame.f_lineno].add(self.test)
        return self._trace

    def save(self, path: Path) -> None:
        by_line = {line: sorted(tests) for line, tests in self.tests.items()}
        path.write_text(json.dumps(by_line), encoding="utf-8")

    def load(self, path: Path) -> None:
        by_line = json.loads(path.read_text(encoding="utf-8"))
        self.tests = {int(line): set(tests) for line, tests in by_line.items()}

    def of(self, lines: Iterable[int]) -> set[str]:
        """The tests that run one of these lines."""
        return set().union(*(self.tests.get(line, ()) for line in lines))


def put_in(target: Target, mutant: mutator.Mutant) -> set[int] | None:
    """Puts the fault into the functions that are loaded; None where that can't be done.

    Returns the lines of the good function. A table's fault can't be put in: tests and other tables
    have kept parts of the good one.
    """
    if mutant.at_import:
        return None
    path = mutant.function.split(".")
    function = function_of(sys.modules[target.module], path)
    if function is None or function.__qualname__ != mutant.function:
        return None
    lines = lines_of(function.__code__)
    try:
        function.__code__ = code_of(mutant.code(str(target.file)), path)
    except (StopIteration, ValueError):
        return None
    return lines


class FirstFailure:
    """Remembers the first test that failed."""

    name = ""

    def pytest_configure(self, config: pytest.Config) -> None:
        config.option.tbstyle = "native"  # nobody reads it, and the others take a second

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.name:
            self.name = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.name:
            self.name = report.nodeid


def options(temporary: str) -> list[str]:
    return [
        *("-x", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:terminal", "-p", "no:xdist"),
        *("-o", "addopts=", "-o", "tmp_path_retention_policy=none", "-m", "not hosts and not slow"),
        f"--rootdir={ROOT}",
        f"--basetemp={temporary}",
    ]


class Order:
    """Tests that run the faulty line come first, then those that noticed the faults before.

    Then those whose names have the component of the file, among hundreds for other components.
    `near`: the ids of the tests that run the faulty line.
    """

    def __init__(self, noticed: collections.Counter[str], path: str) -> None:
        self.noticed = noticed
        self.words = set(Path(path).with_suffix("").parts[-2:])
        self.near: set[str] = set()

    def sorted(self, items: Sequence[pytest.Item]) -> list[pytest.Item]:
        return sorted(items, key=self._place)

    def _place(self, item: pytest.Item) -> tuple[bool, int, bool]:
        test = item.nodeid
        by_name = any(word in item.name for word in self.words)
        return test not in self.near, -self.noticed[test], not by_name

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = self.sorted(items)


def long_way(
    target: Target, mutant: mutator.Mutant, temporary: str, order: Order
) -> tuple[int, str]:
    """Imports the faulty file and collects the tests, all in this process."""
    folders = (str(ROOT / "tests"), *(str((ROOT / test).parent) for test in target.tests))
    package = target.module.split(".")[0]
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        stale = name.split(".")[0] == package or file.startswith(folders)
        if stale and name not in (__name__, mutator.__name__):
            del sys.modules[name]
    try:
        code = mutant.code(str(target.file))
    except SyntaxError:
        return BROKEN, "it can't be compiled"
    sys.meta_path.insert(0, Swap(target, code))
    first = FirstFailure()
    status = pytest.main([*options(temporary), *target.tests], plugins=[first, order])
    if status == pytest.ExitCode.OK:
        return ALIVE, ""
    if status == pytest.ExitCode.TESTS_FAILED:
        return KILLED, first.name
    if status == pytest.ExitCode.INTERRUPTED:
        return BROKEN, first.name
    if status == pytest.ExitCode.USAGE_ERROR:
        return BROKEN, "a conftest.py can't be imported"
    raise RuntimeError(f"pytest ended with {status!r}")


class Farm:
    """The plugin: takes the place of pytest's loop over the tests."""

    def __init__(
        self,
        target: Target,
        mutants: list[mutator.Mutant],
        jobs: int,
        on_result: Callable[[mutator.Mutant, int, str], None],
    ) -> None:
        self.target, self.mutants, self.jobs, self.on_result = target, mutants, jobs, on_result
        self.temporary = tempfile.mkdtemp(prefix="provision-mutants-")
        self.noticed: collections.Counter[str] = collections.Counter()
        self.order = Order(self.noticed, target.path)
        self.reached = Reached(target.file)
        self.seconds = WITHOUT_FAULT

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        status, test = self.wait([self.fork(session, None, quick=True)])[1:]
        if status != ALIVE:
            raise pytest.UsageError(f"without any fault this fails: {test}")
        self.reached.load(Path(self.temporary) / "reached.json")
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.seconds = limit(used.ru_utime + used.ru_stime)
        try:
            self.run(session)
        finally:
            shutil.rmtree(self.temporary, ignore_errors=True)
        return True

    def run(self, session: pytest.Session) -> None:
        """All mutants, `jobs` at a time; each one that lives on the quick way goes the long one."""
        # A collection in a fork would write to each object's header, and so copy the whole heap.
        gc.collect()
        gc.freeze()
        waiting = [(mutant, True) for mutant in reversed(self.mutants)]
        running: dict[int, tuple[mutator.Mutant, bool, int]] = {}
        while waiting or running:
            while waiting and len(running) < self.jobs:
                mutant, quick = waiting.pop()
                pid, pipe = self.fork(session, mutant, quick=quick)
                running[pid] = (mutant, quick, pipe)
            pid, status, test = self.wait([(pid, pipe) for pid, (_, _, pipe) in running.items()])
            mutant, quick, _ = running.pop(pid)
            if quick and status == ALIVE:
                waiting.append((mutant, False))
            else:
                self.noticed[test] += 1
                self.on_result(mutant, status, test)

    def fork(
        self, session: pytest.Session, mutant: mutator.Mutant | None, *, quick: bool
    ) -> tuple[int, int]:
        """(pid, pipe); the child ends with its status, after the test's name went down the pipe."""
        reader, writer = os.pipe()
        sys.stdout.flush()
        pid = os.fork()
        if pid:
            os.close(writer)
            return pid, reader
        status, message = 3, "it ended early"
        try:
            os.close(reader)
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nothing, stream)
            resource.setrlimit(resource.RLIMIT_CPU, (self.seconds, self.seconds))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            with tempfile.TemporaryDirectory(dir=self.temporary) as temporary:
                status, message = self.child(session, mutant, quick, temporary)
        except BaseException as error:
            status, message = 3, repr(error)
        finally:
            with contextlib.suppress(OSError):
                os.write(writer, message.encode()[:4000])
            os._exit(status)

    def child(
        self, session: pytest.Session, mutant: mutator.Mutant | None, quick: bool, temporary: str
    ) -> tuple[int, str]:
        if mutant is None:
            status, test = self.run_tests(session, session.items, temporary, self.reached.by)
            self.reached.save(Path(self.temporary) / "reached.json")
            return status, test
        # A table is used by some function of the file, and no test runs its own line.
        self.order.near = self.reached.of([mutant.line]) or self.reached.of(self.reached.tests)
        if not quick:
            return long_way(self.target, mutant, temporary, self.order)
        lines = put_in(self.target, mutant)
        if lines is None:
            return ALIVE, ""  # the long way will tell
        entering = self.reached.of(lines)
        items = [item for item in session.items if item.nodeid in entering]
        return self.run_tests(session, self.order.sorted(items), temporary)

    def run_tests(
        self,
        session: pytest.Session,
        items: list[pytest.Item],
        temporary: str,
        within: Callable[[str], AbstractContextManager[None]] = lambda _test: (
            contextlib.nullcontext()
        ),
    ) -> tuple[int, str]:
        """Runs these tests in this process, each `within` a context, until the first one fails."""
        # The forks would clear each other's directory: pytest empties the one of the session.
        factory: Any = session.config._tmp_path_factory  # type: ignore[attr-defined]
        factory._basetemp = Path(temporary)
        first = FirstFailure()
        session.config.pluginmanager.register(first)
        for at, item in enumerate(items):
            following = items[at + 1] if at + 1 < len(items) else None
            with within(item.nodeid):
                session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if first.name:
                return KILLED, first.name
        return ALIVE, ""

    def wait(self, children: list[tuple[int, int]]) -> tuple[int, int, str]:
        """(pid, status, test) of the child that ends first."""
        pid, status = os.wait()
        pipe = dict(children)[pid]
        with os.fdopen(pipe, "rb") as stream:
            message = stream.read().decode()
        if os.WIFSIGNALED(status):
            return pid, KILLED, f"it never ends ({signal.Signals(os.WTERMSIG(status)).name})"
        code = os.WEXITSTATUS(status)
        if code not in (ALIVE, KILLED, BROKEN):
            raise RuntimeError(f"a fork broke: {message}")
        return pid, code, message


def tried(
    target: Target,
    mutants: list[mutator.Mutant],
    jobs: int,
    on_result: Callable[[int, int, str], None],
) -> None:
    """Tries these faults of one file; `on_result` gets each: its place in the list, status, test.

    A process of its own, so that the next file finds nothing imported.
    """
    reader, writer = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        os.close(reader)
        status = 1
        try:
            places = {id(mutant): at for at, mutant in enumerate(mutants)}
            with os.fdopen(writer, "w", encoding="utf-8", buffering=1) as pipe:

                def tell(mutant: mutator.Mutant, state: int, test: str) -> None:
                    pipe.write(json.dumps([places[id(mutant)], state, test]) + "\n")

                farm = Farm(target, mutants, jobs, tell)
                arguments = [*options(farm.temporary + "/template"), *target.tests]
                status = int(pytest.main(arguments, plugins=[farm, FirstFailure()]))
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as pipe:
        for line in pipe:
            on_result(*json.loads(line))
    _, ended = os.waitpid(pid, 0)
    if os.waitstatus_to_exitcode(ended) != 0:
        raise RuntimeError(f"the tests of {target.path} could not be run")
