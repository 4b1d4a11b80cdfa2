"""Strict reading of untrusted data: files, stored rows, replies, lines of a release log.

There are no separate schemas for reading. `json_values` makes plain data of JSON; the annotations of a dataclass give
its field types (`typed`) and its constructor checks ranges; and a record must equal what would be written for the value
that was read (`check_written`), so unknown, missing, mistyped and contradictory fields are rejected by name.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import types
from collections.abc import Collection
from enum import Enum
from functools import cache
from typing import Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

from darrm_opt.arguments import real_number, whole_number
from darrm_opt.decimals import double_in
from darrm_opt.errors import DarrmError, InvalidInput

Kind = TypeVar("Kind")

UNREADABLE = (DarrmError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)

TOLERANCE = 1e-9
"""Largest difference between a recorded and a recomputed number; summation order and machines differ by 1e-13."""


def json_values(text: str) -> list[Any]:
    r"""Return the JSON values in a text, one after the other: one answer, or one per line.

    Raises ValueError for text that is not JSON, and for content that readers interpret differently: constants that JSON
    lacks, numbers that a double turns into 0 or infinity, duplicate names in one object.

    >>> json_values('{"K": 3}'), json_values('[1]\n[2]')
    ([{'K': 3}], [[1], [2]])
    """
    values, place = [], _end_of_blanks(text, 0)
    try:
        while place < len(text):
            value, end = _DECODER.raw_decode(text, place)
            values.append(value)
            place = _end_of_blanks(text, end)
    except RecursionError as err:
        raise ValueError("it is nested too deeply") from err
    if not values:
        raise ValueError("it is empty")
    return values


def json_value(text: str | bytes) -> Any:
    """Return the only JSON value in a text, read as by `json_values`; bytes are UTF-8."""
    values = json_values(text if isinstance(text, str) else text.decode("utf-8"))
    if len(values) > 1:
        raise ValueError(f"it contains {len(values)} values instead of one")
    return values[0]


def _end_of_blanks(text: str, place: int) -> int:
    return _BLANKS.match(text, place).end()  # type: ignore[union-attr]  # it matches everywhere


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in content if names.count(name) > 1)!r} occurs twice in one object")
    return content


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


def _float_of(text: str) -> float:
    number = float(text)  # other numbers skip the slow check: a γ has thousands
    return number if number and math.isfinite(number) else double_in(text)


def _whole_of(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"a number of {len(text)} digits cannot be read")
    return int(text)


MAX_DIGITS = 400  # maximum number of digits of an integer: more than any double has

_BLANKS = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder(
    parse_constant=_refuse_constant, parse_float=_float_of, parse_int=_whole_of, object_pairs_hook=_object_of
)


def field(record: Any, name: str) -> Any:
    """Return a required field of an object."""
    if not isinstance(record, dict) or name not in record:
        raise InvalidInput(name, None, "a value", "The record lacks this field.")
    return record[name]


def typed(kind: type[Kind], value: Any, name: str) -> Kind:
    """Return a JSON value converted to a type: a number, text, a container of those, an enumeration, a dataclass.

    Numbers are finite, integers are counts (at least 0); booleans and texts are not numbers. A dataclass is an object
    with exactly its fields.

    >>> typed(list[float], [1, 0.5], "gamma")
    [1.0, 0.5]
    """
    return _read(kind, value, name)  # type: ignore[no-any-return]


def _read(kind: Any, value: Any, name: str) -> Any:  # noqa: PLR0911 - one case per type
    if kind is float:
        return value if type(value) is float and math.isfinite(value) else _finite(value, name)
    if kind is int:
        return whole_number(value, name, "a whole number, at least 0", least=0)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal or (isinstance(kind, type) and issubclass(kind, Enum)):
        choices = arguments if origin is Literal else [member.value for member in kind]
        if not isinstance(value, str) or value not in choices:
            raise InvalidInput(name, value, "one of " + ", ".join(map(repr, choices)))
        return value if origin is Literal else kind(value)
    if origin in (Union, types.UnionType):  # None, or the other type
        (other,) = (argument for argument in arguments if argument is not type(None))
        return None if value is None else _read(other, value, name)
    if origin in (list, tuple):
        items = [_read(arguments[0], item, name) for item in _of_type(list, value, name)]
        return items if origin is list else tuple(items)
    if origin is dict:
        return {key: _read(arguments[1], item, f"{name}[{key}]") for key, item in _of_type(dict, value, name).items()}
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints, record = _hints(kind), _of_type(dict, value, name)
        for unknown in record.keys() - hints.keys():
            raise InvalidInput(f"{name}.{unknown}", record[unknown], "no field of this name")
        return kind(**{key: _read(hint, field(record, key), key) for key, hint in hints.items()})
    return _of_type(kind, value, name)


def _finite(value: Any, name: str) -> float:
    return real_number(value, name, "a finite number", above=-math.inf, below=math.inf)


def _of_type(kind: type[Kind], value: Any, name: str) -> Kind:
    if type(value) is not kind:
        raise InvalidInput(name, value, _WORDS[kind])
    return value


_WORDS: dict[type, str] = {str: "a text", bool: "true or false", list: "a list", dict: "an object"}


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def check_written(
    record: Any, written: dict[str, Any], beside: Collection[str] = (), absent: Collection[str] = ()
) -> None:
    """Reject a record that differs from what would be written for the value that was read from it.

    ``beside`` are further fields that the record may have, which the caller reads; ``absent`` may be missing. Numbers
    may differ by `TOLERANCE`.
    """
    for name in record.keys() - written.keys() - set(beside):
        raise InvalidInput(name, record[name], "no field of this name", "Fields that no proof covers are rejected.")
    for name, value in written.items():
        if name in record or name not in absent:
            _check_same(name, field(record, name), value)


def _check_same(name: str, claim: Any, value: Any) -> None:
    if isinstance(value, dict) and isinstance(claim, dict):
        check_written(claim, value)
    elif isinstance(value, list | tuple) and isinstance(claim, list) and len(claim) == len(value):
        for one, other in zip(claim, value, strict=True):
            if one is not other:
                _check_same(name, one, other)
    elif type(claim) in {int, float} and isinstance(value, int | float) and type(value) is not bool:
        if claim != value and not math.isclose(claim, value, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
            raise InvalidInput(name, claim, f"{value!r}, to agree with the rest of the record")
    elif type(claim) is not type(value) or claim != value:
        raise InvalidInput(name, claim, f"{value!r:.200}, to agree with the rest of the record")
