"""Formulas in a grid file: ``1-(1-Delta)^m``, ``(K+1)/2``, ``m < (K+1)/2 and K > 3``.

They are Python expressions (``^`` is taken for ``**``), parsed by `ast` and restricted to numbers, known names,
``+ - * / ^``, single comparisons, ``and`` and a few functions. Nothing else is ever evaluated.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from darrm_opt.errors import InvalidInput
from darrm_opt.number_text import out_of_range

Values = Mapping[str, float]
Formula = Callable[[Values], float]

FUNCTIONS: dict[str, Callable[..., float]] = {
    "min": min,
    "max": max,
    "floor": math.floor,
    "ceil": math.ceil,
    "sqrt": math.sqrt,
    "log": math.log,
    "exp": math.exp,
}
CONSTANTS = {"inf": math.inf}

MAX_LENGTH = 200
"""Characters of a formula."""

MAX_BRACKETS = 40
"""Brackets of a formula. With `MAX_LENGTH` they keep every recursion below 200 calls."""

_OPERATORS: dict[type, Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: math.pow,  # raises where ** would take memory (whole numbers) or turn complex
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.USub: operator.neg,
}

_STRANGE = re.compile(r"[^\w\s.+\-*/^(),<>=!]|\d(?![eE][+-]?\d)[A-Za-z_]", re.ASCII)
"""What Python may read and a formula may not hold: other characters, and numbers such as 1_000, 0x1 and 2j."""

_NUMBER = re.compile(r"[\d.]+(?:[eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True)
class Expression:
    """Parsed formula.

    Attributes:
        text: as it was written.
        names: the quantities that it needs.
    """

    text: str
    names: frozenset[str]
    _formula: Formula

    def __call__(self, values: Values) -> float:
        """Return its value.

        Raises:
            InvalidInput: it has none, such as 1/0; the message says so.

        >>> parse("1-(1-Delta)^m", {"Delta", "m"})({"Delta": 0.5, "m": 2})
        0.75
        """
        try:
            value = self._formula(values)
            if math.isnan(value):
                raise ValueError("it is not a real number")  # noqa: TRY301 — reported like the others
        except (ArithmeticError, ValueError, TypeError) as err:
            point = ", ".join(f"{name} = {values[name]:g}" for name in sorted(self.names))
            raise InvalidInput("formula", self.text, "a formula with a value", f"At {point or 'this'}: {err}.") from err
        return value


def parse(text: str, allowed_names: set[str]) -> Expression:
    """Return the expression that ``text`` spells.

    Args:
        text: the formula.
        allowed_names: names of quantities that may occur in it.

    Raises:
        InvalidInput: it is no formula, too long, or names an unknown quantity; argument "formula".
    """
    if len(text) > MAX_LENGTH:
        raise InvalidInput("formula", text, f"a formula of at most {MAX_LENGTH} characters")
    try:
        _check_text(text)
        tree = ast.parse(" ".join(text.replace("^", "**").split()), mode="eval")
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} & allowed_names
        return Expression(text, frozenset(names), _formula(tree.body, allowed_names))
    except (_Unreadable, SyntaxError, RecursionError, MemoryError) as err:
        trouble = str(err) if isinstance(err, _Unreadable) else f"It cannot be read: {getattr(err, 'msg', err)}."
        raise InvalidInput("formula", text, "a formula such as '1-(1-Delta)^m'", trouble) from err


def _check_text(text: str) -> None:
    """Refuse what Python would read, and a formula may not hold."""
    if text.count("(") > MAX_BRACKETS:
        raise _Unreadable(f"It has more than {MAX_BRACKETS} brackets.")
    if strange := _STRANGE.search(text):
        raise _Unreadable(f"{text[strange.start() :][:10]!r} cannot be read.")
    for number in _NUMBER.findall(text):
        if reason := out_of_range(number):
            raise _Unreadable(f"{number[:40]} cannot be read. {reason}")


class _Unreadable(Exception):
    """The text is no formula; the message says why."""


def _formula(node: ast.expr, allowed_names: set[str]) -> Formula:  # noqa: PLR0911 — a return for each kind of node
    """Return the function that a syntax tree stands for."""
    match node:
        case ast.Constant(value=value) if type(value) in {int, float}:
            number = float(value)  # type: ignore[arg-type]  # one of the two
            return lambda _: number
        case ast.Name(id=name) if name in CONSTANTS:
            return lambda _: CONSTANTS[name]
        case ast.Name(id=name) if name in allowed_names:
            return lambda values: values[name]
        case ast.Name(id=name):
            raise _Unreadable(f"{name!r} is not known; known are {', '.join(sorted(allowed_names | {*FUNCTIONS}))}.")
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
            return _apply(_OPERATORS[type(op)], [operand], allowed_names)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _apply(_OPERATORS[type(op)], [left, right], allowed_names)
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPERATORS:
            return _apply(_OPERATORS[type(op)], [left, right], allowed_names)
        case ast.BoolOp(op=ast.And(), values=parts):
            conditions = [_formula(part, allowed_names) for part in parts]
            return lambda values: all(condition(values) for condition in conditions)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS and arguments:
            return _apply(FUNCTIONS[name], arguments, allowed_names)
    raise _Unreadable(f"{ast.unparse(node).replace('**', '^')!r} is not allowed in a formula.")


def _apply(function: Callable[..., float], operands: list[ast.expr], allowed_names: set[str]) -> Formula:
    parts = [_formula(operand, allowed_names) for operand in operands]
    return lambda values: function(*(part(values) for part in parts))
