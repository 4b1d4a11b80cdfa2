"""Pydantic's models of questions and answers, made from their declarations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, Field, FiniteFloat, TypeAdapter, create_model

from api.schemas.fields import (
    ALL_BASELINES,
    DECLARED,
    STOP_AT_FIRST,
    AnswerModel,
    InQueryNumbers,
    InQueryWords,
    RequestModel,
    VoterEpsilon,
    about,
    number_of,
    one_of,
    read_by,
)
from darrm_opt.design.backends import BACKENDS
from darrm_opt.design.objective import as_objective, forms
from darrm_opt.privacy_curves import remote_curve
from darrm_opt.questions import design
from darrm_opt.questions.question import Fields, Question


def _named(names: Collection[str]) -> Any:
    return Annotated[str, one_of(names), Field(json_schema_extra={"enum": [*names]})]


_CURVE = (
    list[Annotated[list[FiniteFloat], Field(min_length=2, max_length=2)]]
    | dict[str, dict[str, FiniteFloat] | list[list[FiniteFloat]]]
    | str
    | None
)

TYPES: dict[str, tuple[Any, ...]] = {
    "epsilon": (VoterEpsilon,),
    "profile": (_CURVE, read_by(remote_curve)),
    "targets": (_CURVE,),
    "objective": (str, read_by(as_objective)),
    "backend": (_named(BACKENDS),),
    "baselines": (Annotated[list[_named(ALL_BASELINES)], STOP_AT_FIRST, InQueryWords] | None,),  # type: ignore[misc]
}
"""Types of fields that pydantic reads in a way of their own, each with what validates it further."""

WORDS: dict[str, dict[str, Any]] = {
    "epsilon": {"otherwise": "needed unless a profile is given"},
    "objective": {
        "words": f"Prior for which γ is optimal: {forms()}, followed by tv or agreement if not the default measure; or "
        "expected_error(lower=0, upper=1, scenarios=200, seed=0), minimax(lower=0.5, upper=1, points=101)"
    },
}
"""What a service says of a field where a question does not."""


@cache
def model_of_question(question: Any, *, query: bool = False) -> type[RequestModel]:
    """Return the model of a question's fields: their types, words and ranges, which it enforces.

    ``query``: of those that a query can have, in which there are no objects.
    """
    hints, members = get_type_hints(question), dict[str, Any]()
    bases = (base for base in question.__mro__[1:] if issubclass(base, Question) and "path" in vars(base))
    general = next(bases, None)  # whose fields it has first
    known = 0 if general is None else len(general.stated())
    for each in question.stated()[known:]:
        name, changes = each.name, each.metadata["changes"]
        if query and each.metadata["each"]:
            continue
        given, *further = TYPES.get(name) or (_request_type(name, hints[name]),)
        if (read := each.metadata["read"]) is not None:
            further = [read_by(read)]
        described = about(name, **WORDS.get(name, {}) | changes)
        members[name] = Annotated[given, described, *further], _default(each)
    for name in [*members]:
        if DECLARED[name].at_most in members:  # read after what bounds it
            members[name] = members.pop(name)
    return create_model(
        f"{question.__name__.removesuffix('Question')}Request" if issubclass(question, Question) else question.__name__,
        __base__=RequestModel if general is None else model_of_question(general),
        __doc__=question.__doc__,
        **members,
    )


def _request_type(name: str, hint: Any) -> Any:
    """Return the type of a field as pydantic reads it: numbers of a list each in the field's range."""
    if get_origin(hint) in (Union, UnionType):
        return reduce(or_, (_request_type(name, each) for each in get_args(hint)))
    if get_origin(hint) is list and not dataclasses.is_dataclass(get_args(hint)[0]):
        return Annotated[list[Annotated[FiniteFloat, number_of(name)]], STOP_AT_FIRST, InQueryNumbers]
    return json_type(hint)


@cache
def reader_of_answer(answers: Any) -> Callable[[Any], BaseModel]:
    """Return what reads the JSON of an answer, of one type or of several, into its model."""
    return TypeAdapter[Any](answers).validate_python


@cache
def model_of_answer(answer: Any) -> type[AnswerModel]:
    """Return the model of an answer's JSON."""
    types, members = answer.json_types(), dict[str, Any]()
    for each in dataclasses.fields(answer):
        omitted: dict[str, Any] = {"exclude_if": _is_none} if each.metadata["omitted"] else {}
        field = Field(description=each.metadata["words"], ge=each.metadata["least"], **omitted)
        members[each.name] = Annotated[json_type(types[each.name]), field], _default(each)
    return create_model(answer.__name__, __base__=AnswerModel, __doc__=answer.__doc__, **members)


def _is_none(value: Any) -> bool:
    return value is None


def _default(each: dataclasses.Field[Any]) -> Any:
    return ... if each.default is dataclasses.MISSING else each.default


def json_type(hint: Any) -> Any:
    """Return a type as pydantic reads it: finite numbers, and the models of fields and answers inside."""
    if hint is float:
        return FiniteFloat
    if dataclasses.is_dataclass(hint):
        is_asked = isinstance(hint, type) and issubclass(hint, Fields)
        return (model_of_question if is_asked else model_of_answer)(cast("Any", hint))
    if get_origin(hint) in (Union, UnionType):
        return reduce(or_, map(json_type, get_args(hint)))
    if get_origin(hint) in (list, dict):
        return get_origin(hint)[tuple(map(json_type, get_args(hint)))]
    return hint


ProblemAnswer, GammaAnswer, EstimateAnswer = map(
    model_of_answer, (design.ProblemAnswer, design.GammaAnswer, design.EstimateAnswer)
)

DesignRequest = model_of_question(design.Design)
