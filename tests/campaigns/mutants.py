"""Small faults in a module's source: a mutant is the module with one thing changed.

A comparison at its boundary or turned round, + for −, a number one larger, a minimum for a maximum, a condition
negated, a statement dropped, a text replaced. Docstrings, imports, annotations, decorators and `__all__` are left
alone, and so is the number of units by which `rounding.up` and `down` round outward: one more is as sound.
"""

from __future__ import annotations

import ast
import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

_TURNS: dict[type, tuple[type, ...]] = {ast.Lt: (ast.LtE, ast.Gt), ast.LtE: (ast.Lt, ast.GtE)}
_TURNS |= {ast.Gt: (ast.GtE, ast.Lt), ast.GtE: (ast.Gt, ast.LtE), ast.Pow: (ast.Mult,)}
_TURNS |= {ast.FloorDiv: (ast.Mult,), ast.Mod: (ast.Mult,), ast.BitXor: (ast.BitAnd,)}
_SWAPS = (
    *((ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn), (ast.And, ast.Or), (ast.Add, ast.Sub)),
    *((ast.Mult, ast.Div), (ast.LShift, ast.RShift), (ast.BitAnd, ast.BitOr)),
)
OTHERS = _TURNS | {one: (two,) for one, two in _SWAPS} | {two: (one,) for one, two in _SWAPS}
"""What may stand in the place of an operator."""

_PAIRS = (
    *(("min", "max"), ("argmin", "argmax"), ("minimum", "maximum"), ("floor", "ceil"), ("any", "all")),
    *(("zeros", "ones"), ("zeros_like", "ones_like"), ("exp", "expm1"), ("log", "log1p"), ("left", "right")),
)
NAMES = dict(_PAIRS) | {two: one for one, two in _PAIRS}  # what may stand in the place of a function, or of a text


KINDS = ("sign", "extremum", "comparison")
"""Faults that make a bound one of the wrong side: + and −, minimum and maximum, comparisons."""


@dataclass(frozen=True)
class Mutant:
    """One change: where it is (module.function and line) and what is written there instead."""

    module: str
    function: str
    line: int
    change: str
    span: range = range(0)
    """Lines of the statement (of a compound one, its head): a test that executes none of them cannot tell. Empty
    outside functions, where all is executed on import."""
    kind: str = ""
    """Of `KINDS`, if any."""

    @property
    def prose(self) -> bool:
        """Whether it only replaces words that a person reads, such as the sentence of an error."""
        return re.fullmatch(r"f?(['\"]).* .*\1 → 'another text'( \(\d+\))?", self.change) is not None

    @property
    def key(self) -> tuple[str, str]:
        """What it is known by when lines move."""
        return f"{self.module.rpartition('.')[2]}.{self.function}", self.change


def expressions(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what may stand in the place of an expression."""
    match node:
        case ast.Compare(ops=operators):
            for place, operator in enumerate(operators):
                for operator_type in OTHERS[type(operator)]:
                    new_operators = [*operators[:place], operator_type(), *operators[place + 1 :]]
                    yield ast.Compare(node.left, new_operators, node.comparators)
        case ast.BinOp(op=operator) if type(operator) in OTHERS:
            yield from (ast.BinOp(node.left, operator_type(), node.right) for operator_type in OTHERS[type(operator)])
        case ast.BoolOp(op=operator):
            yield from (ast.BoolOp(operator_type(), node.values) for operator_type in OTHERS[type(operator)])
        case ast.UnaryOp():
            yield node.operand
        case ast.IfExp():
            yield ast.IfExp(node.test, node.orelse, node.body)
        case ast.Attribute(attr=name) if name in NAMES:
            yield ast.Attribute(node.value, NAMES[name], node.ctx)
        case ast.Name(id=name) if name in NAMES:
            yield ast.Name(NAMES[name], node.ctx)


def constants(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what may stand in the place of a number or a text."""
    match node:
        case ast.JoinedStr():
            yield ast.Constant("another text")
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
        case ast.Constant(value=float(value)):
            yield ast.Constant(2 * value or 1.0)
        case ast.Constant(value=str(value)):
            yield ast.Constant(NAMES.get(value, "another text"))


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what may stand in the place of a statement; `pass` drops it."""
    match node:
        case ast.If(test=test) if not isinstance(test, ast.Compare):
            yield ast.If(ast.UnaryOp(ast.Not(), test), node.body, node.orelse)
        case ast.Break():
            yield ast.Continue()
        case ast.AugAssign(op=operator):
            yield from (ast.AugAssign(node.target, other(), node.value) for other in OTHERS[type(operator)])
            yield ast.Pass()
        case ast.Raise() | ast.Expr() | ast.Return(value=ast.expr()):
            yield ast.Pass()
        case ast.Assign(targets=[target]) if _stands_without(target, node.value):
            yield ast.Pass()


def _stands_without(target: ast.expr, value: ast.expr) -> bool:
    """Whether the names assigned to have values before, so that to drop the assignment is a fault to be found."""
    target_names = {part.id for part in ast.walk(target) if isinstance(part, ast.Name)}
    value_names = {part.id for part in ast.walk(value) if isinstance(part, ast.Name)}
    return isinstance(target, ast.Subscript | ast.Attribute) or bool(target_names & value_names)


class _Changer(ast.NodeTransformer):
    """Goes through a module's code; makes the change numbered ``wanted``, lists all."""

    def __init__(self, module: str, wanted: int | None = None) -> None:
        self.found: list[Mutant] = []
        self._module, self._wanted, self._where = module, wanted, ["module"]
        self._span, self._functions, self._count = range(0), 0, 0

    def visit(self, node: ast.AST) -> Any:
        if _left_alone(node):
            return node
        outer, self._span = self._span, (_span(node) if self._functions else None) or self._span
        try:
            return self._change(node)
        finally:
            self._span = outer

    def _change(self, node: ast.AST) -> Any:
        for replacement in itertools.chain(expressions(node), constants(node), statements(node)):
            if self._wanted is None:
                function = ".".join(self._where[1:]) or "module"
                line: int = node.lineno  # type: ignore[attr-defined]  # all that has alternatives stands on a line
                change = f"{_text(node)} → {_text(replacement)}"
                self.found.append(Mutant(self._module, function, line, change, self._span, _kind(node)))
            elif self._wanted == self._count:
                self._count += 1
                return ast.copy_location(replacement, node)
            self._count += 1
        return super().visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self._where.append(node.name)
        outer, self._span = self._span, _span(node) or self._span
        self._functions += 1
        node.body = [self.visit(child) for child in node.body]
        self._functions -= 1
        node.args.defaults = [self.visit(child) for child in node.args.defaults]
        node.args.kw_defaults = [child and self.visit(child) for child in node.args.kw_defaults]
        self._span = outer
        self._where.pop()
        return node  # neither annotations nor decorators

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self._where.append(node.name)
        node.body = [self.visit(child) for child in node.body]
        self._where.pop()
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id in {"up", "down"} and len(node.args) == 2:
            node.args[0] = self.visit(node.args[0])
            return node
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.value = node.value and self.visit(node.value)
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        for part in node.values:  # its texts are one with it
            if isinstance(part, ast.FormattedValue):
                part.value = self.visit(part.value)
        return node


def _kind(node: ast.AST) -> str:
    match node:
        case ast.Compare():
            return "comparison"
        case ast.UnaryOp(op=ast.USub()) | ast.BinOp(op=ast.Add() | ast.Sub()) | ast.AugAssign(op=ast.Add() | ast.Sub()):
            return "sign"
        case ast.Name(id=name) | ast.Attribute(attr=name) if "min" in name or "max" in name:
            return "extremum"
    return ""


def _left_alone(node: ast.AST) -> bool:
    """Whether nothing of it is code: imports, docstrings, types."""
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.Subscript(value=ast.Name(id="Literal" | "NDArray")):
            return True
    return False


def _span(node: ast.AST) -> range | None:
    """Return the lines of a statement without the statements in it; None for anything else."""
    if not isinstance(node, ast.stmt):
        return None
    body = getattr(node, "body", None) or getattr(node, "cases", None)
    if not body:
        return range(node.lineno, (node.end_lineno or node.lineno) + 1)
    start = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
    first_line = body[0].pattern.lineno if isinstance(body[0], ast.match_case) else body[0].lineno
    return range(start, max(first_line, node.lineno + 1))


def _text(node: ast.AST) -> str:
    return " ".join(ast.unparse(ast.fix_missing_locations(node)).partition(":\n")[0].split())


def mutants(module: str, source: str) -> list[Mutant]:
    """Return every change of a module's source; equal descriptions in one function are numbered from the second on."""
    changer = _Changer(module)
    changer.visit(ast.parse(source))
    times: Counter[tuple[str, str]] = Counter()
    numbered = []
    for mutant in changer.found:
        times[mutant.key] += 1
        repeated = f" ({times[mutant.key]})" if times[mutant.key] > 1 else ""
        numbered.append(dataclasses.replace(mutant, change=mutant.change + repeated))
    return numbered


def mutated(module: str, source: str, number: int, path: str) -> CodeType:
    """Return the module's code with one of the changes made."""
    tree = _Changer(module, number).visit(ast.parse(source))
    return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)
