"""Question and answer: what a file of this folder declares, and every door reads.

A question is a frozen dataclass. Its fields are those of `darrm_opt.fields`, by their names; it has an answer, the
proof of one that comes from elsewhere, and an estimate of its time. The service, the client and the offline tables make
their routes, types and methods of it: pydantic is theirs alone.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self, get_type_hints

from darrm_opt.answers import Report
from darrm_opt.fields import FIELDS, Field

REQUIRED: Any = dataclasses.MISSING


def question_field(default: Any = REQUIRED, **changes: Any) -> Any:
    """Return a dataclass field for the declared field of the same name; ``changes`` as of `Field.of`."""
    return dataclasses.field(default=default, metadata={"changes": changes})


def answer_field(words: str, default: Any = REQUIRED, *, json: Any = None) -> Any:
    """Return a dataclass field of an answer: what it says, and its type in JSON, or the name of it, if another."""
    return dataclasses.field(default=default, metadata={"words": words, "json": json})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer:
    """Answer to a question, a frozen dataclass with the fields of its JSON."""

    @classmethod
    def json_types(cls) -> dict[str, Any]:
        """Return the type of each field in JSON."""
        hints = get_type_hints(cls)
        return {each.name: each.metadata["json"] or hints[each.name] for each in dataclasses.fields(cls)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Question(ABC):
    """What can be asked, at every door by the names of its fields."""

    path: ClassVar[str]  # below /v1, and the verb of a client
    tag: ClassVar[str]  # the part of the service that it belongs to
    summary: ClassVar[str]  # its title
    answers: ClassVar[Any]  # the type of its answer, an `Answer`

    @classmethod
    def declared(cls) -> dict[str, Field]:
        """Return its fields by name, as this question narrows them."""
        return {each.name: FIELDS[each.name].of(**each.metadata["changes"]) for each in dataclasses.fields(cls)}

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Return the question with the fields that are ``given`` among others."""
        return cls(**{each.name: given[each.name] for each in dataclasses.fields(cls) if each.name in given})

    def record(self) -> dict[str, Any]:
        """Return every field as plain data; the answer depends on nothing else."""
        return dataclasses.asdict(self)

    def canonical(self) -> Question:
        """Return the question that is answered: this one, or the general one of which it is a part.

        One that is answered itself has `check`, `answer` and `verify` of its own.
        """
        return self

    @property
    @abstractmethod
    def voters(self) -> int:
        """Number of voters, which bounds memory."""

    @property
    @abstractmethod
    def seconds(self) -> float:
        """Expected time of the answer [s]."""

    def check(self) -> None:
        """Refuse fields that contradict each other, before any work; raises InvalidInput."""
        self.canonical().check()

    def answer(self, report: Report = lambda _: None) -> Any:
        """Return the answer, whose type is `answers`."""
        return self.canonical().answer(report)

    def record_of(self, answer: Any) -> dict[str, Any]:
        """Return an answer as plain data, the JSON of `answers`."""
        record: dict[str, Any] = answer.record()
        return record

    def verify(self, given: Any) -> Any:
        """Return an answer that another process found, proved by this one; raises VerificationFailed."""
        return self.canonical().verify(given)
