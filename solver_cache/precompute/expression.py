"""Formulas in a grid file: ``1-(1-Delta)^m``, ``(K+1)/2``, ``m < (K+1)/2``. Nothing is evaluated but what stands here.

condition := comparison {"and" comparison}
comparison := sum [("<" | "<=" | ">" | ">=" | "==" | "!=") sum]
sum := product {("+" | "-") product}
product := signed {("*" | "/") signed}
signed := "-" signed | power
power := atom ["^" signed]          (``**`` is taken for ``^``)
atom := number | name | function "(" sum {"," sum} ")" | "(" condition ")"
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from darrm_opt.errors import InvalidInput

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

LONGEST = 200
"""Characters of a formula."""

MAX_BRACKETS = 40
"""Brackets of a formula: they keep the reader's recursion shallow."""

_TOKEN = re.compile(
    r"\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([A-Za-z_]+)|(\*\*|<=|>=|==|!=|[-+*/^(),<>]))"
)
_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True)
class Expression:
    """A formula that was read.

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
            found = self._formula(values)
            if isinstance(found, complex) or math.isnan(found):
                raise ValueError("it is not a real number")  # noqa: TRY301 — told like the others
        except (ArithmeticError, ValueError, TypeError) as err:
            given = ", ".join(f"{name} = {values[name]:g}" for name in sorted(self.names))
            raise InvalidInput("formula", self.text, "a formula with a value", f"At {given or 'this'}: {err}.") from err
        return found


def parse(text: str, known: set[str]) -> Expression:
    """Return the expression that ``text`` spells.

    Args:
        text: the formula.
        known: names that may stand in it.

    Raises:
        InvalidInput: it is none, or too long, or names what is not known; argument "formula".
    """
    if len(text) > LONGEST:
        raise InvalidInput("formula", text, f"a formula of at most {LONGEST} characters")
    reader = _Reader(text, known)
    formula = reader.condition()
    reader.end()
    return Expression(text, frozenset(reader.names), formula)


class _Reader:
    def __init__(self, text: str, known: set[str]) -> None:
        self._text, self._known = text, known
        self._tokens: list[str] = []
        self.names: set[str] = set()
        self._depth = 0
        at, stop = 0, len(text.rstrip())
        while at < stop:
            found = _TOKEN.match(text, at)
            if found is None:
                raise self._wrong(f"{text[at:].strip()[:10]!r} cannot be read.")
            self._tokens.append(found.group().strip())
            at = found.end()
        self._tokens.reverse()

    def end(self) -> None:
        if self._tokens:
            raise self._wrong(f"{self._tokens[-1]!r} is left over.")

    def condition(self) -> Formula:
        formula = self._comparison()
        while self._took("and"):
            formula = _both(formula, self._comparison())
        return formula

    def _comparison(self) -> Formula:
        left = self._sum()
        sign = self._took(*_COMPARISONS)
        return _applied(_COMPARISONS[sign], left, self._sum()) if sign else left

    def _sum(self) -> Formula:
        formula = self._product()
        while sign := self._took("+", "-"):
            formula = _applied(operator.add if sign == "+" else operator.sub, formula, self._product())
        return formula

    def _product(self) -> Formula:
        formula = self._signed()
        while sign := self._took("*", "/"):
            formula = _applied(operator.mul if sign == "*" else operator.truediv, formula, self._signed())
        return formula

    def _signed(self) -> Formula:
        if self._took("-"):
            return _applied(operator.neg, self._signed())
        return self._power()

    def _power(self) -> Formula:
        base = self._atom()
        return _applied(_power, base, self._signed()) if self._took("^", "**") else base

    def _atom(self) -> Formula:
        if not self._tokens:
            raise self._wrong("It ends too early.")
        if self._took("("):
            self._deeper()
            inner = self.condition()
            self._need(")")
            return inner
        token = self._tokens.pop()
        if token[0].isdigit() or token[0] == ".":
            number = float(token)
            return lambda _: number
        if token in FUNCTIONS:
            return self._called(token)
        if token in CONSTANTS:
            constant = CONSTANTS[token]
            return lambda _: constant
        if token in self._known:
            self.names.add(token)
            return lambda values: values[token]
        raise self._wrong(f"{token!r} is not known; known are {', '.join(sorted(self._known | {*FUNCTIONS}))}.")

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_BRACKETS:
            raise self._wrong(f"It has more than {MAX_BRACKETS} brackets.")

    def _called(self, name: str) -> Formula:
        self._need("(")
        self._deeper()
        arguments = [self._sum()]
        while self._took(","):
            arguments.append(self._sum())
        self._need(")")
        return _applied(FUNCTIONS[name], *arguments)

    def _took(self, *wanted: str) -> str:
        return self._tokens.pop() if self._tokens and self._tokens[-1] in wanted else ""

    def _need(self, token: str) -> None:
        if not self._took(token):
            raise self._wrong(f"{token!r} is missing.")

    def _wrong(self, trouble: str) -> InvalidInput:
        return InvalidInput("formula", self._text, "a formula such as '1-(1-Delta)^m'", trouble)


def _power(base: float, exponent: float) -> float:
    return math.pow(base, exponent)  # raises where ** would take memory (whole numbers) or turn complex


def _applied(function: Callable[..., float], *parts: Formula) -> Formula:
    return lambda values: function(*(part(values) for part in parts))


def _both(left: Formula, right: Formula) -> Formula:
    return lambda values: bool(left(values)) and bool(right(values))
