"""Axis of a grid: the values of one quantity, from a value, a list, a range or a formula.

K = 11                                        one value
K = [11, 35, 101]                             a list; a text in it is a formula
m = { from = 1, to = 5, step = 0.5 }          linear, by its step ...
m = { from = 1, to = 5, points = 9 }          ... or by how many
epsilon = { from = 0.01, to = 1, factor = 10 }               geometric, by its factor ...
epsilon = { from = 0.01, to = 1, points = 5, spacing = "geometric" }    ... or by how many
delta = "1-(1-Delta)^m"                       a link to other quantities

Formulas are Python expressions (``^`` is taken for ``**``), parsed by `ast` and restricted to numbers, known names,
``+ - * / ^``, single comparisons, ``and`` and a few functions. Nothing else is ever evaluated.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from darrm_opt.decimals import out_of_range
from darrm_opt.errors import InvalidInput

MAX_VALUES = 1_000_000  # values of one quantity; a range with more is a mistake
NEARLY = 1e-9  # tolerance for the end of a range, as a share of a step: 0.1 + 2·0.1 is not 0.3

_RANGE = ("from", "to", "step", "factor", "points", "spacing")
_AXIS = "a number, a formula, a list of them, or a range { from, to, step | factor | points }"


@dataclass(frozen=True)
class Axis:
    """Values of one quantity, some of them formulas of other quantities."""

    values: tuple[float | Expression, ...]

    @property
    def names(self) -> frozenset[str]:
        """Quantities that its formulas use."""
        return frozenset().union(*(value.names for value in self.values if isinstance(value, Expression)))

    def at(self, values: Values) -> Iterator[float]:
        """Yield the values, given those of other quantities."""
        for value in self.values:
            yield value(values) if isinstance(value, Expression) else value


def read_axis(content: Any, path: str, names: set[str]) -> Axis:
    """Return the axis that plain data describes."""
    if isinstance(content, Mapping):
        return Axis(tuple(_range(content, path)))
    if isinstance(content, list):
        if not content:
            raise InvalidInput(path, content, "at least one value")
        return Axis(tuple(_value(item, f"{path}[{i}]", names) for i, item in enumerate(content)))
    return Axis((_value(content, path, names),))


def read_texts(content: Any, path: str) -> tuple[str, ...]:
    """Return one string, or a list of them, as a tuple."""
    texts = content if isinstance(content, list) else [content]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise InvalidInput(path, content, "a text, or a list of texts")
    return tuple(texts)


@contextmanager
def located(path: str) -> Iterator[None]:
    """Re-raise InvalidInput with the place in the file."""
    try:
        yield
    except InvalidInput as err:
        raise InvalidInput(path, err.value, err.accepted, err.advice) from err


def _value(content: Any, path: str, names: set[str]) -> float | Expression:
    if isinstance(content, str):
        with located(path):
            return parse(content, names)
    return _number(content, path, _AXIS)


def _number(content: Any, path: str, accepted: str) -> float:
    # integers stay integers: K = 11.0 is not a count
    if isinstance(content, bool) or not isinstance(content, int | float) or math.isnan(content):
        raise InvalidInput(path, content, accepted)
    return content


def _range(content: Mapping[str, Any], path: str) -> Iterator[float]:
    start, end = _ends(content, path)
    options = [name for name in ("step", "factor", "points") if name in content]
    if len(options) != 1:
        raise InvalidInput(path, dict(content), "exactly one of step, factor and points")
    spacing = content.get("spacing", "geometric" if options == ["factor"] else "linear")
    fits = {"step": ("linear",), "factor": ("geometric",), "points": ("linear", "geometric")}[options[0]]
    if spacing not in fits:
        raise InvalidInput(f"{path}.spacing", spacing, " or ".join(map(repr, fits)))
    if spacing == "geometric" and start <= 0:
        raise InvalidInput(f"{path}.from", start, "above 0, for geometric steps")
    option_path, geometric = f"{path}.{options[0]}", spacing == "geometric"
    if options == ["points"]:
        return _by_points(start, end, content["points"], option_path, geometric=geometric)
    return _by_steps(start, end, _number(content[options[0]], option_path, _FINITE), option_path, geometric=geometric)


_FINITE = "a finite number"


def _ends(content: Mapping[str, Any], path: str) -> tuple[float, float]:
    unknown = [name for name in content if name not in _RANGE]
    if unknown:
        raise InvalidInput(f"{path}.{unknown[0]}", content[unknown[0]], "one of " + ", ".join(_RANGE))
    ends = []
    for name in ("from", "to"):
        ends.append(_number(content.get(name), f"{path}.{name}", _FINITE))
        if not math.isfinite(ends[-1]):
            raise InvalidInput(f"{path}.{name}", ends[-1], _FINITE)
    if ends[1] < ends[0]:
        raise InvalidInput(f"{path}.to", ends[1], f"at least {ends[0]:g}, where the range begins")
    return ends[0], ends[1]


def _by_points(start: float, end: float, points: Any, path: str, *, geometric: bool) -> Iterator[float]:
    if isinstance(points, bool) or not isinstance(points, int) or not 2 <= points <= MAX_VALUES:
        raise InvalidInput(path, points, f"a whole number, 2 to {MAX_VALUES}")
    for i in range(points):
        if i in {0, points - 1}:
            yield end if i else start  # exact ends
        elif geometric:
            yield start * (end / start) ** (i / (points - 1))
        else:
            yield start + (end - start) * i / (points - 1)


def _by_steps(start: float, end: float, step: float, path: str, *, geometric: bool) -> Iterator[float]:
    minimum = 1 if geometric else 0
    if not (math.isfinite(step) and step > minimum):
        raise InvalidInput(path, step, f"a finite number above {minimum}")
    steps = math.log(end / start) / math.log(step) if geometric else (end - start) / step
    if not steps < MAX_VALUES:
        raise InvalidInput(path, step, f"steps that make at most {MAX_VALUES} values")
    for i in range(math.floor(steps + NEARLY) + 1):
        yield start * step**i if geometric else start + i * step


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
MAX_BRACKETS = 40  # brackets of a formula; with `MAX_LENGTH` they keep every recursion below 200 calls

_OPERATORS: dict[type, Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: math.pow,  # raises where ** would need much memory (integers) or return a complex number
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.USub: operator.neg,
}

_STRANGE = re.compile(r"[^\w\s.+\-*/^(),<>=!]|\d(?![eE][+-]?\d)[A-Za-z_]", re.ASCII)
"""What Python accepts but a formula does not: other characters, and numbers such as 1_000, 0x1 and 2j."""

_NUMBER = re.compile(r"[\d.]+(?:[eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True)
class Expression:
    """Parsed formula."""

    text: str  # source
    names: frozenset[str]  # quantities that it uses
    _formula: Formula

    def __call__(self, values: Values) -> float:
        """Return its value.

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
    """Return the parsed formula."""
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
    """Raise for what Python accepts but a formula does not."""
    if text.count("(") > MAX_BRACKETS:
        raise _Unreadable(f"It has more than {MAX_BRACKETS} brackets.")
    if strange := _STRANGE.search(text):
        raise _Unreadable(f"{text[strange.start() :][:10]!r} cannot be read.")
    for number in _NUMBER.findall(text):
        if reason := out_of_range(number):
            raise _Unreadable(f"{number[:40]} cannot be read. {reason}")


class _Unreadable(Exception):
    """The text is not a formula; the message says why."""


def _formula(node: ast.expr, allowed_names: set[str]) -> Formula:  # noqa: PLR0911 — a return for each kind of node
    """Return the function that a syntax tree describes."""
    match node:
        # a grid file is untrusted: anything else is rejected, and nothing is passed to `eval`. (True is an int.)
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            number = float(value)
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
        # no chains: 1 < m < 3 is written with `and`
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
