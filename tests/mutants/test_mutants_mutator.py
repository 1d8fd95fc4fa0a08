"""The mutator makes the faults it says, and the farm tells a living one from a dead one."""

from __future__ import annotations

import ast
import collections
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import farm
import mutator
import pytest

HERE = Path(__file__).resolve().parent


def faults(source: str) -> list[tuple[str, str, str]]:
    """(operator, what was, what is) of every fault."""
    return [(mutant.operator, mutant.before, mutant.after) for mutant in mutator.mutants(source)]


def of(operator: str, source: str) -> list[str]:
    """What stands there instead, for the faults of one kind."""
    return [after for name, _before, after in faults(source) if name == operator]


@pytest.mark.parametrize(
    ("operator", "source", "expected"),
    [
        ("comparison", "x = a < b", ["a <= b", "a >= b"]),
        ("comparison", "x = a == b", ["a != b"]),
        ("comparison", "x = a is not b", ["a is b"]),
        ("comparison", "x = a in b", ["a not in b"]),
        ("comparison", "x = a < b <= c", ["a <= b <= c", "a >= b <= c", "a < b < c", "a < b > c"]),
        ("and/or", "x = a and b", ["a or b"]),
        ("operand removed", "x = a or b or c", ["b or c", "a or c", "a or b"]),
        ("not removed", "x = not a", ["a"]),
        ("constant", "x = 7", ["8", "6"]),
        ("constant", "x = True", ["False"]),
        ("constant", "x = 0.5", ["1.0"]),
        ("text", "x = 'a'", ["''"]),
        ("text", "x = ''", ["'mutant'"]),
        ("text", "x = f'a{b}c'", ["''"]),
        ("arithmetic", "x = a + b", ["a - b"]),
        ("assignment", "x += a", ["x = a"]),
        ("branch", "x = a if b else c", ["a", "c"]),
        ("element removed", "x = [a, b]", ["[b]", "[a]"]),
        ("element removed", "x = {a: b, c: d}", ["{c: d}", "{a: b}"]),
        ("condition removed", "x = [a for a in b if a if c]", ["[a for a in b if c]",
                                                              "[a for a in b if a]"]),
        ("call", "x = any(a)", ["all(a)"]),
        ("call", "x = sorted(a, key=b)", ["list(a)"]),
        ("call", "x = a.startswith(b)", ["a.endswith(b)"]),
        ("alternative removed", "x = r'a(b|c)d|e'", ["'a(c)d|e'", "'a(b)d|e'", "'e'", "'a(b|c)d'"]),
        ("alternative removed", "x = 'a | b'", []),
        ("return value", "def f():\n    return a", ["return None"]),
        ("return value", "def f():\n    return None", ["return 'mutant'"]),
        ("statement removed", "def f():\n    a = 1\n    return a", ["nothing", "nothing"]),
        ("statement removed", "def f():\n    return None", []),
        ("statement removed", "def f():\n    if a:\n        return\n    b()", ["nothing"] * 2),
        ("statement removed", "a = 1", []),
        ("if removed", "def f():\n    if a:\n        b()", ["if True:", "if False:"]),
        ("branches swapped", "def f():\n    if a:\n        b()\n    else:\n        c()", ["if a:"]),
    ],
)  # fmt: skip
def test_the_faults_of_a_piece_of_code(operator: str, source: str, expected: list[str]) -> None:
    assert of(operator, source) == expected


def test_documentation_and_types_have_no_faults() -> None:
    source = '"""Text."""\nimport os\ndef f(a: "int" = 1) -> "int":\n    """Text."""\n'
    source += "if TYPE_CHECKING:\n    Check = Callable[..., Any]\n"
    assert faults(source) == [("constant", "1", "2"), ("constant", "1", "0")]


def test_a_fault_is_in_the_code_only_while_it_is_applied() -> None:
    source = "def f(a):\n    return a < 1 and a\n"
    before = ast.unparse(ast.parse(source))
    for mutant in mutator.mutants(source):
        with mutant.applied() as tree:
            assert ast.unparse(tree) != before
        assert ast.unparse(mutant.tree) == before


def test_the_faulty_code_runs() -> None:
    (mutant,) = [
        m for m in mutator.mutants("def f(a):\n    return a == 1\n") if m.after == "a != 1"
    ]
    values: dict[str, object] = {}
    exec(mutant.code("x.py"), values)  # noqa: S102
    assert values["f"](2) is True  # type: ignore[operator]


def test_faults_are_known_by_what_they_are_not_by_their_line() -> None:
    source = "def f(a):\n    return a < 1\n"
    lower = "\n\n# a comment\n" + source
    assert [mutant.key for mutant in mutator.mutants(source)] == [
        mutant.key for mutant in mutator.mutants(lower)
    ]
    twice = mutator.mutants("def f(a):\n    return g(1, 1)\n")
    keys = [mutant.key for mutant in twice]
    assert len(set(keys)) == len(keys)
    assert {key[-1] for key in keys} == {0, 1}


def test_a_fault_knows_whether_it_is_run_at_import() -> None:
    source = "@d('x')\ndef f(a=1):\n    return 2\nclass C:\n    b = 3\n    def m(self): return 4\n"
    when = {
        mutant.before: mutant.at_import
        for mutant in mutator.mutants(source)
        if mutant.operator != "text"
    }
    assert {value for value in "1234" if when[value]} == {"1", "3"}


def test_numbers_of_a_table_may_be_left_as_they_are() -> None:
    source = "T = ((1, 'a'), (2, 'b'))\nU = 3\n"
    found = mutator.mutants(source, without_numbers=("T",))
    assert [mutant.before for mutant in found if mutant.operator == "constant"] == ["3", "3"]
    assert "element removed" in {mutant.operator for mutant in found}


def test_functions_can_be_chosen() -> None:
    source = "def f():\n    return 1\nclass C:\n    def g(self):\n        return 2\n"
    assert {mutant.function for mutant in mutator.mutants(source, r"^C\.")} == {"C.g"}


CODE = """\
LIMIT = 10


def small(number):
    if number < 0:
        return False
    return number < LIMIT


def spin(number):
    while number > 0:
        number -= 1
    return number


def unseen(number):
    return number + 1
"""
TESTS = """\
import time

import code_under_test as code


def test_small():
    assert [code.small(number) for number in (-1, 0, 9, 10)] == [False, True, True, False]
    assert (code.small(-1), code.small(0)) == (False, True)


def test_spin(tmp_path):
    (tmp_path / "x").write_text("3")
    time.sleep(0.05)
    assert code.spin(int((tmp_path / "x").read_text())) == 0


def test_unseen(tmp_path):
    (tmp_path / "x").write_text("3")
    time.sleep(0.05)
    assert (tmp_path / "x").exists()
    code.unseen(3)
"""
PROGRAM = """\
import json, sys
sys.path[:0] = [{here!r}, {folder!r}]
import farm
farm.CPU_SECONDS = 1
target = farm.Target({folder!r} + "/code_under_test.py", "code_under_test",
                     ({folder!r} + "/test_code_under_test.py",))
found = target.mutants()
states = {{}}
farm.tried(target, found, 2, lambda at, status, test: states.update({{at: (status, test)}}))
print(json.dumps([(m.function, m.before, m.after, *states[at]) for at, m in enumerate(found)]))
"""


def ran(folder: Path) -> subprocess.CompletedProcess[str]:
    """The farm on the folder's code_under_test, in a process of its own."""
    program = PROGRAM.format(here=str(HERE), folder=str(folder))
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=folder
    )


def tried(folder: Path) -> list[tuple[Any, ...]]:
    """(function, what was, what is, status, test) of each fault of the folder's code_under_test."""
    done = ran(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return [tuple(row) for row in json.loads(done.stdout.splitlines()[-1])]


def test_the_farm_tells_which_faults_no_test_notices(tmp_path: Path) -> None:
    (tmp_path / "code_under_test.py").write_text(CODE)
    (tmp_path / "test_code_under_test.py").write_text(TESTS)
    found = tried(tmp_path)
    alive = {row[:3] for row in found if row[3] == 0}
    # All of them, though two at once write and read files.
    assert alive == {row[:3] for row in found if row[0] == "unseen"}
    assert ("unseen", "number + 1", "number - 1") in alive
    # A table's fault takes the long way; one that never ends has been noticed.
    by_fault = {row[:3]: row[3:] for row in found}
    assert by_fault["<module>", "10", "11"][0] == 1
    assert "test_small" in by_fault["small", "number < LIMIT", "number <= LIMIT"][1]
    endless = by_fault["spin", "number -= 1", "nothing"]
    assert endless[0] == 1
    assert "never ends" in endless[1]


def test_a_fault_that_keeps_a_conftest_from_its_import_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "code_under_test.py").write_text("NAMES = {'a': 1}\nFIRST = NAMES['a']\n")
    (tmp_path / "conftest.py").write_text("import code_under_test\n")
    (tmp_path / "test_code_under_test.py").write_text(
        "import code_under_test as code\n\ndef test_first():\n    assert code.FIRST == 1\n"
    )
    expected = ("<module>", "'a'", "''", farm.BROKEN, "a conftest.py can't be imported")
    assert expected in tried(tmp_path)


def test_the_tests_that_run_the_faulty_line_come_first() -> None:
    """Then those that noticed faults before, then those named after the file's component."""
    source = "def sign(number):\n    if number < 0:\n        return -1\n    return 1\n"
    names: dict[str, Any] = {}
    exec(compile(source, "/sign.py", "exec"), names)  # noqa: S102  lines of a file that is not there
    reached, former = farm.Reached(Path("/sign.py")), sys.gettrace()
    for test, number in (("negative", -3), ("positive", 3)):
        with reached.by(test):
            names["sign"](number)
    assert reached.tests == {
        1: {"negative", "positive"},
        2: {"negative", "positive"},
        3: {"negative"},
        4: {"positive"},
    }
    assert farm.lines_of(names["sign"].__code__) == {1, 2, 3, 4}
    assert sys.gettrace() == former
    noticed = collections.Counter({"noticed": 2})
    order = farm.Order(noticed, "components/cuda/rules.py")
    order.near = reached.of([3])
    tests = [SimpleNamespace(nodeid=name, name=name) for name in ("plain", "cuda", "noticed")]
    items = [*tests, SimpleNamespace(nodeid="negative", name="negative")]
    ordered = [item.nodeid for item in order.sorted(items)]  # type: ignore[arg-type]
    assert ordered == ["negative", "noticed", "cuda", "plain"]


def test_tests_that_fail_without_any_fault_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "code_under_test.py").write_text(CODE)
    (tmp_path / "test_code_under_test.py").write_text(TESTS.replace("== 0", "== 1"))
    done = ran(tmp_path)
    assert done.returncode != 0
    assert "without any fault this fails" in done.stdout + done.stderr


def test_a_fault_may_take_four_times_as_long_as_the_tests_without_any() -> None:
    """One that no test notices has to be imported and collected anew, and then runs them all."""
    assert [farm.limit(used) for used in (0.5, 2.5, 2.6, 9.0)] == [10, 10, 11, 36]
