"""Small faults for Python code, one at a time: what a slip of the hand would have made of it.

A check whose code can be broken without a test that notices is a check that nobody has seen work.
`mutants` lists every fault of a file, `Mutant.applied` puts one of them in. Nothing is written to
the disk: the faulty code lives in the process that tests it, so that a killed run leaves no fault
behind in the work tree.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

# Each comparison, and what it is mistaken for: its opposite, and its neighbour at the boundary.
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
CALLS = {"any": "all", "all": "any", "min": "max", "max": "min", "sorted": "list"}
METHODS = {"startswith": "endswith", "endswith": "startswith"}
REMOVABLE = (
    ast.Expr,
    ast.Assign,
    ast.AugAssign,
    ast.Return,
    ast.Continue,
    ast.Break,
    ast.Raise,
    ast.Delete,
)
SCOPES = (ast.FunctionDef, ast.ClassDef)


@dataclass
class Mutant:
    """One fault. `before` and `after` are the piece of code that differs, as Python prints it."""

    function: str
    line: int
    operator: str
    text: str
    before: str
    after: str
    # The faulty code runs when the file is imported, not when the function is called.
    at_import: bool
    # Equal faults on equal lines of one function are told apart by their number.
    number: int = 0
    tree: ast.Module = field(repr=False, default_factory=lambda: ast.Module([], []))
    parent: ast.AST = field(repr=False, default_factory=ast.Pass)
    name: str = field(repr=False, default="")
    index: int | None = field(repr=False, default=None)
    replacement: Any = field(repr=False, default=None)

    @property
    def key(self) -> tuple[str, str, str, str, str, int]:
        """What stays the same when lines move: the waivers are found by it."""
        return (self.function, self.operator, self.text, self.before, self.after, self.number)

    @contextlib.contextmanager
    def applied(self) -> Iterator[ast.Module]:
        """The whole file's tree with this fault in it."""
        place = getattr(self.parent, self.name)
        if self.index is None:
            setattr(self.parent, self.name, self.replacement)
        else:
            old, place[self.index] = place[self.index], self.replacement
        try:
            yield self.tree
        finally:
            if self.index is None:
                setattr(self.parent, self.name, place)
            else:
                place[self.index] = old

    def code(self, filename: str) -> CodeType:
        """The faulty file, compiled."""
        with self.applied() as tree:
            return compile(ast.fix_missing_locations(tree), filename, "exec", dont_inherit=True)


def branches_removed(pattern: str) -> list[str]:
    """A regular expression without one of its alternatives, for each of them."""
    # Of every group: where its alternatives begin, and where it ends.
    groups: list[list[int]] = [[0]]
    done: list[list[int]] = []
    at, in_class = 0, False
    while at < len(pattern):
        sign = pattern[at]
        if sign == "\\":
            at += 1
        elif in_class:
            in_class = sign != "]"
        elif sign == "[":
            in_class = True
        elif sign == "(":
            start = re.match(r"\(\?(?::|P<\w+>|=|!|<=|<!)|\(", pattern[at:])
            groups.append([at + (start.end() if start else 1)])
        elif sign == ")" and len(groups) > 1:
            done.append([*groups.pop(), at + 1])
        elif sign == "|":
            groups[-1].append(at + 1)
        at += 1
    done.append([*groups[0], len(pattern) + 1])
    found = []
    for group in done:
        parts = [pattern[start : end - 1] for start, end in itertools.pairwise(group)]
        for number in range(len(parts) if len(parts) > 1 else 0):
            rest = "|".join(parts[:number] + parts[number + 1 :])
            made = pattern[: group[0]] + rest + pattern[group[-1] - 1 :]
            with contextlib.suppress(re.error):
                re.compile(made)
                found.append(made)
    return found


def mutants(
    source: str, functions: str = ".", without_numbers: tuple[str, ...] = ()
) -> list[Mutant]:
    """Every fault of a file, in the order of its lines.

    `functions` is a regular expression over qualified names ("Seen.simulated", "<module>" for
    tables outside of functions). In the tables of `without_numbers` numbers stay as they are.
    """
    tree = ast.parse(source)
    found = list(_Walk(tree, source.splitlines(), re.compile(functions), without_numbers).all())
    counts: dict[tuple[Any, ...], int] = {}
    for mutant in found:
        mutant.number = counts.get(mutant.key, 0)
        counts[(*mutant.key[:-1], 0)] = mutant.number + 1
    return found


class _Walk:
    def __init__(
        self, tree: ast.Module, lines: list[str], functions: re.Pattern[str], fixed: tuple[str, ...]
    ) -> None:
        self.tree, self.lines, self.functions, self.fixed = tree, lines, functions, fixed

    def all(self) -> Iterator[Mutant]:
        yield from self.within(self.tree, "<module>", numbers=True, at_import=True)

    def within(
        self, node: ast.AST, scope: str, *, numbers: bool, at_import: bool
    ) -> Iterator[Mutant]:
        """Faults of all that hangs below a node."""
        outside = at_import
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "ctx", "format_spec", "type_params"):
                continue
            if isinstance(node, ast.FunctionDef):  # its decorators and defaults run outside of it
                at_import = outside and name != "body"
            items = list(enumerate(value)) if isinstance(value, list) else [(None, value)]
            for index, child in items:
                if not isinstance(child, ast.AST) or _is_docstring(node, name, index, child):
                    continue
                yield from self.of(
                    child, node, name, index, scope, numbers=numbers, at_import=at_import
                )

    def of(
        self,
        child: ast.AST,
        parent: ast.AST,
        name: str,
        index: int | None,
        scope: str,
        *,
        numbers: bool,
        at_import: bool,
    ) -> Iterator[Mutant]:
        if isinstance(child, (ast.Import, ast.ImportFrom, ast.arg)) or _is_for_types(child):
            return
        inner, inside = scope, not isinstance(parent, ast.JoinedStr)
        if isinstance(child, SCOPES):
            inner = child.name if scope == "<module>" else f"{scope}.{child.name}"
        if scope == "<module>" and isinstance(child, ast.Assign):
            names = [target.id for target in child.targets if isinstance(target, ast.Name)]
            numbers = not any(name in self.fixed for name in names)
        if self.functions.search(inner):
            last = isinstance(parent, ast.FunctionDef) and child is parent.body[-1]
            for operator, replacement in self.faults(child, scope, numbers=numbers, last=last):
                if inside or operator != "text":
                    place = (parent, name, index)
                    yield self.mutant(inner, operator, child, place, replacement, at_import)
        yield from self.within(child, inner, numbers=numbers, at_import=at_import)

    def mutant(
        self,
        scope: str,
        operator: str,
        child: ast.AST,
        place: tuple[ast.AST, str, int | None],
        replacement: Any,
        at_import: bool,
    ) -> Mutant:
        line = child.lineno  # type: ignore[attr-defined]
        parent, name, index = place
        return Mutant(
            scope,
            line,
            operator,
            self.lines[line - 1].strip(),
            _shown(child),
            "nothing" if isinstance(replacement, ast.Pass) else _shown(replacement),
            at_import,
            tree=self.tree,
            parent=parent,
            name=name,
            index=index,
            replacement=replacement,
        )

    def faults(
        self, node: ast.AST, scope: str, *, numbers: bool, last: bool
    ) -> Iterator[tuple[str, ast.AST]]:
        """(operator, what stands in its place) of one node; `last`: its function ends with it."""
        if isinstance(node, ast.Constant):
            yield from _constant(node, numbers=numbers)
        elif isinstance(node, ast.JoinedStr):
            yield "text", ast.Constant("")
        elif isinstance(node, ast.Compare):
            for at, sign in enumerate(node.ops):
                for other in COMPARISONS[type(sign)]:
                    made = copy.copy(node)
                    made.ops = [*node.ops[:at], other(), *node.ops[at + 1 :]]
                    yield "comparison", made
        elif isinstance(node, ast.BoolOp):
            yield "and/or", ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(),
                                       node.values)  # fmt: skip
            for at in range(len(node.values)):
                rest = node.values[:at] + node.values[at + 1 :]
                yield "operand removed", rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield "not removed", node.operand
        elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
            yield "arithmetic", ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)
        elif isinstance(node, ast.AugAssign):
            made_plain = ast.Assign([node.target], node.value)
            yield "assignment", ast.copy_location(made_plain, node)
        elif isinstance(node, ast.IfExp):
            yield "branch", node.body
            yield "branch", node.orelse
        elif isinstance(node, (ast.List, ast.Set, ast.Tuple, ast.Dict)):
            yield from _container(node)
        elif isinstance(node, ast.Call):
            yield from _call(node)
        elif isinstance(node, ast.comprehension):
            return
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            for at, generator in enumerate(node.generators):
                for condition in range(len(generator.ifs)):
                    made_generator = copy.copy(generator)
                    made_generator.ifs = generator.ifs[:condition] + generator.ifs[condition + 1 :]
                    made_node = copy.copy(node)
                    made_node.generators = [
                        *node.generators[:at], made_generator, *node.generators[at + 1 :]
                    ]  # fmt: skip
                    yield "condition removed", made_node
        if isinstance(node, ast.stmt) and scope != "<module>":
            yield from _statement(node, last=last)


def _shown(node: ast.AST) -> str:
    """A node as Python prints it; of a statement with a body its first line."""
    return ast.unparse(node).split("\n", 1)[0] if isinstance(node, ast.stmt) else ast.unparse(node)


def _is_docstring(parent: ast.AST, name: str, index: int | None, child: ast.AST) -> bool:
    return (
        isinstance(parent, (ast.Module, *SCOPES))
        and (name, index) == ("body", 0)
        and isinstance(child, ast.Expr)
        and isinstance(child.value, ast.Constant)
    )


def _constant(node: ast.Constant, *, numbers: bool) -> Iterator[tuple[str, ast.AST]]:
    value = node.value
    if isinstance(value, bool):
        yield "constant", ast.Constant(not value)
    elif isinstance(value, int) and numbers:
        yield "constant", ast.Constant(value + 1)
        yield "constant", ast.Constant(value - 1)
    elif isinstance(value, float) and numbers:
        yield "constant", ast.Constant(value * 2)
    elif isinstance(value, (str, bytes)):
        empty, other = ("", "mutant") if isinstance(value, str) else (b"", b"mutant")
        yield "text", ast.Constant(empty if value else other)
        if isinstance(value, str) and "|" in value and " | " not in value:
            for made in branches_removed(value):
                yield "alternative removed", ast.Constant(made)


def _container(node: ast.List | ast.Set | ast.Tuple | ast.Dict) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.Dict):
        for at in range(len(node.keys)):
            made = copy.copy(node)
            made.keys = node.keys[:at] + node.keys[at + 1 :]
            made.values = node.values[:at] + node.values[at + 1 :]
            yield "element removed", made
        return
    if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
        return
    for at in range(len(node.elts)):
        rest = node.elts[:at] + node.elts[at + 1 :]
        if rest or not isinstance(node, ast.Set):
            made_node = copy.copy(node)
            made_node.elts = rest
            yield "element removed", made_node


def _call(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node.func, ast.Name) and node.func.id in CALLS:
        made = copy.copy(node)
        made.func = ast.Name(CALLS[node.func.id], ast.Load())
        if node.func.id == "sorted":
            made.keywords = []
        yield "call", made
    elif isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
        made = copy.copy(node)
        made.func = ast.Attribute(node.func.value, METHODS[node.func.attr], ast.Load())
        yield "call", made


def _statement(node: ast.stmt, *, last: bool) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.If):
        for value in (True, False):
            made = copy.copy(node)
            made.test = ast.Constant(value)
            yield "if removed", made
        if node.orelse:
            swapped = copy.copy(node)
            swapped.body, swapped.orelse = node.orelse, node.body
            yield "branches swapped", swapped
    elif isinstance(node, ast.Return):
        if node.value is not None and not _is_none(node.value):
            yield "return value", ast.Return(ast.Constant(None))
        else:
            yield "return value", ast.Return(ast.Constant("mutant"))
    # A function that ends returns None all the same.
    if isinstance(node, REMOVABLE) and not (last and _returns_nothing(node)):
        yield "statement removed", ast.Pass()


def _is_for_types(node: ast.AST) -> bool:
    """`if TYPE_CHECKING:`, which never runs."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _returns_nothing(node: ast.stmt) -> bool:
    return isinstance(node, ast.Return) and (node.value is None or _is_none(node.value))


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
