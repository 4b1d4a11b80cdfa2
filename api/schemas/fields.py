"""Fields of requests: the types that pydantic makes of the declared fields, and their ranges, which it enforces.

Types are checked strictly: in JSON, ``false`` and "11" are not numbers; NaN and infinities are rejected.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from importlib.resources import files
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError

from darrm_opt.errors import InvalidInput
from darrm_opt.fields import FIELDS
from darrm_opt.fields import Field as Declared
from darrm_opt.planning.baselines import BASELINES, OTHER_BASELINES
from solver_cache.database.designs import MAX_LISTED
from solver_cache.database.jobs import PAGE_SIZE

EXAMPLES: dict[str, Any] = json.loads(files("api.schemas").joinpath("examples.json").read_text(encoding="utf-8"))
"""Examples in the description of the API, by model; a test gets the answers from the application."""


def examples_of(model: type[BaseModel]) -> list[dict[str, Any]]:
    """Return the examples of a model, or of its base if it has none."""
    return next((EXAMPLES[base.__name__] for base in model.__mro__ if base.__name__ in EXAMPLES), [])


ALL_BASELINES = (*BASELINES, *OTHER_BASELINES)  # names of the baselines, the default ones first

_OF_SERVICE = (
    Declared("id", "Id of a design", "text", says="64 hexadecimal digits"),
    Declared("other", "Id of another one", "text", says="64 hexadecimal digits"),
    Declared("state", "Only jobs in this state", "choice"),
    Declared("limit", "At most this many entries on the page", "whole", least=1, most=MAX_LISTED),
    Declared(
        "after",
        "Continue behind this id: the `next` of the page before",
        "text",
        longest=64,
        says="the id of one that is stored",
    ),
    Declared(
        "url",
        "Address of a POST that reports the end of the job: https, at any port, without user name and password; its "
        "host must resolve when it is registered. Answer it with any 2xx within the server's time limit; redirects are "
        "not followed",
        "text",
        longest=2000,
        says="https://HOST[:PORT][/PATH][?QUERY], the host public and found by DNS, without user name, password and "
        "fragment",
    ),
    Declared("webhook", "Id of a webhook", "text", says="msg_ and 32 hexadecimal digits"),
    Declared(
        "tag",
        "Only designs with this tag",
        "text",
        says="1 to 64 letters, digits, dots, hyphens and underscores, the first a letter or digit",
    ),
    Declared(
        "problems", "Problems, each as in POST /v1/gamma; the server bounds how many", "list", says="a list of problems"
    ),
)

DECLARED = FIELDS | {field.name: field for field in _OF_SERVICE}
"""Every field of a request: those of questions, and those of the service."""

LIMITS = {"ge": "least", "gt": "above", "le": "most", "lt": "below"}
"""Pydantic's names of the limits of a range, and ours."""


def _limits(field: Declared) -> dict[str, Any]:
    return {theirs: field.limits[ours] for theirs, ours in LIMITS.items() if ours in field.limits}


def about(name: str, **changes: Any) -> Any:
    """Return the declared field as pydantic's: words, and the range that it enforces; ``changes`` as of `Field.of`."""
    field = DECLARED[name].of(**changes)
    given = {} if field.infinite or field.kind == "list" else _limits(field)
    if field.longest is not None:
        given["max_length"] = field.longest
    if field.items is not None:
        given["min_length"], given["max_length"] = field.items
    return Field(description=field.description, examples=None if field.example is None else [field.example], **given)


def number_of(name: str) -> Any:
    """Return the range of one number of a declared field: an entry of a list, or a finite ε."""
    return Field(**_limits(DECLARED[name]))


def one_of(names: Collection[str]) -> AfterValidator:
    """Return a validator that accepts the names of a registry."""

    def check(value: str) -> str:
        if value not in names:
            raise PydanticCustomError("one_of", "unknown name", {"expected": f"one of {', '.join(names)}"})
        return value

    return AfterValidator(check)


def read_by(parse: Callable[[Any], Any]) -> AfterValidator:
    """Return a validator that has the core read a text, whose refusal is the field's."""

    def check(value: Any) -> Any:
        try:
            if value is not None:
                parse(value)
        except InvalidInput as err:
            raise PydanticCustomError("refused", "refused", {"text": str(err)}) from err
        return value

    return AfterValidator(check)


VoterEpsilon = Annotated[FiniteFloat, number_of("epsilon")] | Literal["inf"] | None


def _in_query(read: Callable[[str], Any]) -> BeforeValidator:
    """Return a validator that reads the parts of a list in a query, where it is text with commas."""

    def split(value: Any, info: ValidationInfo) -> Any:
        mode: str = info.mode  # "string" too, which pydantic's own types leave out
        return [*map(read, value.split(","))] if mode == "string" else value

    return BeforeValidator(split)


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text  # which is refused, by its own name


STOP_AT_FIRST = Field(fail_fast=True)
"""Refusal of a list at its first wrong item: a text about each of thousands takes seconds."""

InQueryNumbers = _in_query(_number)  # validator of a list of numbers, which a query writes with commas

InQueryWords = _in_query(str)  # validator of a list of names, likewise


class RequestModel(BaseModel):
    """Base of requests: strict types, no unknown fields."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    @field_validator("*")
    @classmethod
    def _bounded_by_another(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse a number above that of the field which bounds it."""
        bound = DECLARED[str(info.field_name)].at_most
        if bound and value is not None and (most := info.data.get(bound)) is not None and value > most:
            expected = f"at most {bound} = {most} {DECLARED[bound].unit}"
            raise PydanticCustomError("at_most", "above another field", {"expected": expected, "bound": most})
        return value


class PageRequest(RequestModel):
    """Base of requests for a list, page by page."""

    limit: Annotated[int, about("limit")] = PAGE_SIZE
    after: Annotated[str | None, about("after")] = None


class AnswerModel(BaseModel):
    """Base of answers: plain data; a number that is not finite is a bug, and must not leave as null."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


_OBJECTIVE_PARAMETERS = {"lower", "upper", "tau", "a", "b", "counts", "measure", "parameters", "scenarios", "seed"}


def field_of(argument: str) -> str:
    """Return the field of a request that holds the core's ``argument``.

    >>> field_of("tau"), field_of("gamma[3]"), field_of("K")
    ('objective', 'gamma', 'K')
    """
    name = argument.partition("[")[0]
    return "objective" if name in _OBJECTIVE_PARAMETERS else name


SAMPLES_ARE_TAKEN = (
    "Samples of the records are taken by /v1/plan without groups, /v1/compare, /v1/plurality/options, /v1/cost and "
    "/v1/calibrate."
)
"""Advice where a field of a sample is not one of the request."""
