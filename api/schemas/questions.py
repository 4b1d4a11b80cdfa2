"""Pydantic's models of questions and answers, made from their declarations."""

from __future__ import annotations

import dataclasses
from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints

from pydantic import Field, FiniteFloat, create_model

from api.schemas.fields import AnswerModel, ObjectiveText, OptionalVoterEpsilon, RequestModel, StatedProfile, about
from darrm_opt.questions.question import Question

TYPES: dict[str, Any] = {"epsilon": OptionalVoterEpsilon, "profile": StatedProfile, "objective": ObjectiveText}
"""Types of fields that pydantic reads in a way of their own."""


@cache
def model_of_question(question: type[Question]) -> type[RequestModel]:
    """Return the model of a question's fields: their types, words and ranges, which it enforces."""
    hints, members = get_type_hints(question), dict[str, Any]()
    for each in dataclasses.fields(question):
        changes = each.metadata["changes"]
        given: Any = Annotated[_json_type(hints[each.name]), about(each.name, **changes)]
        members[each.name] = TYPES.get(each.name, given), _default(each)
    return create_model(f"{question.__name__}Request", __base__=RequestModel, __doc__=question.__doc__, **members)


@cache
def model_of_answer(answer: Any) -> type[AnswerModel]:
    """Return the model of an answer's JSON."""
    types, members = answer.json_types(), dict[str, Any]()
    for each in dataclasses.fields(answer):
        field = Field(description=each.metadata["words"])
        members[each.name] = Annotated[_json_type(types[each.name]), field], _default(each)
    return create_model(answer.__name__, __base__=AnswerModel, __doc__=answer.__doc__, **members)


def _default(each: dataclasses.Field[Any]) -> Any:
    return ... if each.default is dataclasses.MISSING else each.default


def _json_type(hint: Any) -> Any:
    """Return a type as pydantic reads it: finite numbers, and the models of answers inside."""
    if isinstance(hint, str):  # a model that is written by hand
        by_hand = {model.__name__: model for model in AnswerModel.__subclasses__()}
        return reduce(or_, (by_hand.get(name) for name in hint.split(" | ")))
    if hint is float:
        return FiniteFloat
    if dataclasses.is_dataclass(hint):
        return model_of_answer(cast("Any", hint))
    if get_origin(hint) in (Union, UnionType):
        return reduce(or_, map(_json_type, get_args(hint)))
    return list[_json_type(get_args(hint)[0])] if get_origin(hint) is list else hint  # type: ignore[misc]  # made here
