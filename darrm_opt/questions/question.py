"""Question and answer: what a file of this folder declares, and every interface reads.

A question is a frozen dataclass. Its fields are those of `darrm_opt.fields`, by their names; it has an answer, the
proof of one that comes from elsewhere, and an estimate of its time. The service, the client and the offline tables make
their routes, types and methods of it: pydantic is theirs alone.
"""

from __future__ import annotations

import dataclasses
import re
from abc import ABC
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Self, dataclass_transform, get_type_hints

from darrm_opt.answers import Report
from darrm_opt.errors import InvalidInput, Rule
from darrm_opt.fields import FIELDS, Field

REQUIRED: Any = dataclasses.MISSING

GIVEN = {"given": True}  # metadata of a field that no request states: what the process that answers is given beside


def question_field(default: Any = REQUIRED, *, each: Any = None, read: Any = None, **changes: Any) -> Any:
    """Return a dataclass field for the declared field of the same name; ``changes`` as of `Field.of`.

    ``changes`` narrow a range (``least=2``) or replace texts (``words="…"``, ``otherwise="…"``) in this question.
    ``each``: what every item of a list is, some `Fields`; ``read``: what reads a text in another way than usual. What
    the declaration says of a field that is left out holds where ``default`` is None, and is dropped elsewhere.
    """
    if default is not None:
        changes.setdefault("otherwise", "")
    return dataclasses.field(default=default, metadata={"changes": changes, "each": each, "read": read})


def answer_field(
    words: str, default: Any = REQUIRED, *, json: Any = None, least: float | None = None, omitted: bool = False
) -> Any:
    """Return a dataclass field of an answer: what it says, and its type in JSON if another.

    ``least`` is the least number that it can be; ``omitted``: whether it is left out where it is None, and not null.
    """
    metadata = {"words": words, "json": json, "least": least, "omitted": omitted}
    return dataclasses.field(default=default, metadata=metadata)


def plain_spelling(text: str) -> str:
    """Return the text of a prior or an objective without needless spaces and digits.

    >>> plain_spelling("dirichlet( 2.0 )"), plain_spelling("shared(2, 5e0)  agreement")
    ('dirichlet(2)', 'shared(2,5) agreement')
    """
    words = re.sub(r"\s*([(,:;=])\s*|\s+(?=\))", lambda found: found[1] or "", " ".join(text.split()))
    return re.sub(r"(?<![\w.])\d+(\.\d*)?(e[+-]?\d+)?(?![\w.])", lambda number: _shortest(number[0]), words)


def _shortest(number: str) -> str:
    if number.isdigit():  # a count, exact however long
        return number.lstrip("0") or "0"
    value = float(number)
    return repr(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


@dataclass_transform(kw_only_default=True, eq_default=False)
@dataclasses.dataclass(kw_only=True, repr=False, eq=False)
class Answer:
    """Answer to a question, a dataclass with the fields of its JSON; so is every class below it."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # Most only declare what the JSON has: methods of each would be most of the time of importing them.
        dataclasses.dataclass(kw_only=True, init=False, repr=False, eq=False)(cls)

    def __init__(self, **given: Any) -> None:
        for each in dataclasses.fields(self):
            setattr(
                self,
                each.name,
                given.pop(each.name) if each.default is REQUIRED else given.pop(each.name, each.default),
            )
        if given:
            raise TypeError(f"{type(self).__name__} has no {', '.join(given)}")

    @classmethod
    def json_types(cls) -> dict[str, Any]:
        """Return the type of each field in JSON."""
        hints = get_type_hints(cls)
        return {each.name: each.metadata["json"] or hints[each.name] for each in dataclasses.fields(cls)}


def answer_json(kind: type[Answer], source: Any, **others: Any) -> dict[str, Any]:
    """Return the JSON of an answer, or a part of one, as it is declared: ``others``, and attributes of ``source``."""
    names = [each.name for each in dataclasses.fields(kind)]
    return {name: others[name] if name in others else getattr(source, name) for name in names}


@dataclass_transform(kw_only_default=True, frozen_default=True)
@dataclasses.dataclass(frozen=True, kw_only=True)
class Fields:
    """Declared fields that belong together: a question, or an item of a list in one; a frozen dataclass.

    So is every class below it.
    """

    def __init_subclass__(cls, *, made: bool = True) -> None:
        super().__init_subclass__()
        dataclasses.dataclass(frozen=True, kw_only=True, init=made, repr=made, eq=made)(cls)

    @classmethod
    def stated(cls) -> list[dataclasses.Field[Any]]:
        """Return its fields, without what a question is given beside."""
        return [each for each in dataclasses.fields(cls) if "given" not in each.metadata]

    @classmethod
    @cache
    def declared(cls) -> dict[str, Field]:
        """Return the declarations of its fields by name, as this question narrows them."""
        for each in cls.stated():
            if each.name not in FIELDS:
                raise LookupError(f"{cls.__name__}.{each.name} is not declared in darrm_opt/fields.py")
        changes = {each.name: each.metadata["changes"] for each in cls.stated()}
        return {name: FIELDS[name].of(**changed) if changed else FIELDS[name] for name, changed in changes.items()}

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Return the object with the fields that are ``given``, among others; items of lists as mappings or objects."""
        found = {each.name: given[each.name] for each in dataclasses.fields(cls) if each.name in given}
        for each in cls.stated():
            if (kind := each.metadata["each"]) is not None and found.get(each.name) is not None:
                items = (item if isinstance(item, Mapping) else vars(item) for item in found[each.name])
                found[each.name] = [kind.of(item) for item in items]
        return cls(**found)

    def record(self) -> dict[str, Any]:
        """Return every field as plain data, as a request states it."""
        record = {each.name: getattr(self, each.name) for each in self.stated()}
        for each in self.stated():
            if each.metadata["each"] is not None and record[each.name] is not None:
                record[each.name] = [item.record() for item in record[each.name]]
        return record

    def refuse(self, names: Collection[str], rule: str, advice: str = "") -> None:
        """Refuse the fields of these names that differ from what they are where they are left out."""
        for each in self.stated():
            if each.name in names and (value := getattr(self, each.name)) != each.default:
                raise InvalidInput(each.name, value, Rule(rule), advice)


class Question(Fields, ABC, made=False):
    """What can be asked, in every interface by the names of its fields."""

    path: ClassVar[str]  # with hyphens; the URL below /v1, the command, and the tool for assistants
    tag: ClassVar[str]  # the part of the service that it belongs to
    summary: ClassVar[str]  # its title
    answers: ClassVar[Any]  # the type of its answer, an `Answer`, or a union of some
    table: ClassVar[str] = ""  # what its `columns` are, for answers that are tables, too
    by_query: ClassVar[bool] = True  # whether its fields fit a query
    takes_more_voters: ClassVar[bool] = True  # than a design of a γ
    solves: ClassVar[bool] = False  # whether its work designs a γ, which an operator can switch off
    limited_by: ClassVar[str] = ""  # the operator's setting that is the `limit` of its work

    # what the store has: the γ that it `needs`, or for each of its `designs` a record or None
    found: Any = dataclasses.field(default=None, metadata=GIVEN)
    limit: float | None = dataclasses.field(default=None, metadata=GIVEN)  # about how long the work may take [s]

    def __init_subclass__(cls) -> None:
        path = getattr(cls, "path", None)
        super().__init_subclass__(made=path is not None)  # parts of questions need none of the methods
        if path is not None and not re.fullmatch("[a-z]+([-/][a-z]+)*", path):
            raise InvalidInput("path", path, "small letters in words joined by hyphens", f"{cls.__name__} has it.")

    def argument(self) -> dict[str, Any]:
        """Return that and what is given beside; the answer depends on nothing else, and no spelling of a prior does."""
        beside = {name: getattr(self, name) for name in ("found", "limit")}
        record = self.record() | {name: value for name, value in beside.items() if value is not None}
        texts = {name: record[name] for name in ("objective", "prior") if isinstance(record.get(name), str)}
        return record | {name: plain_spelling(text) for name, text in texts.items()}

    def canonical(self) -> Question:
        """Return the question that is answered: this one, or the general one of which it is a part.

        One that is answered itself has `voters`, `seconds`, `check`, `answer` and `verify` of its own.
        """
        return self

    def _general(self, asked: str) -> Question:
        """Return the question of which this one is a part, for what it does not answer itself."""
        if (general := self.canonical()) is self:
            raise NotImplementedError(f"{type(self).__name__}.{asked}")
        return general

    @property
    def voters(self) -> int:
        """Number of voters, which bounds memory."""
        return self._general("voters").voters

    @property
    def seconds(self) -> float:
        """Expected time of the answer [s]."""
        return self._general("seconds").seconds

    def seconds_beside(self, stored: Collection[str]) -> float:  # noqa: ARG002 - for those with designs
        """Return the expected time where the designs of these keys are stored [s]."""
        return self.seconds

    def check(self) -> None:
        """Refuse fields that contradict each other, before any work; raises InvalidInput."""
        self._general("check").check()

    def needs(self) -> Question | None:
        """Return the `Design` whose γ must be `found` first, as one that is asked by itself; None for none."""
        return None

    def designs(self) -> Sequence[Any]:
        """Return the designs that the answer will hold, `DesignSpec` or `TableSpec`, as far as they are known."""
        return ()

    def answer(self, report: Report = lambda _: None) -> Any:
        """Return the answer; `record_of` makes it that of `answers`."""
        return self._general("answer").answer(report)

    def record_of(self, answer: Any) -> dict[str, Any]:
        """Return an answer as plain data, the JSON of `answers`."""
        record: dict[str, Any] = answer.record()
        return record

    def text_of(self, answer: Any) -> str:  # noqa: ARG002 - for those that have one
        """Return an answer as a terminal shows it; empty where its JSON is all."""
        return ""

    def file_of(self, answer: Any) -> dict[str, Any] | None:
        """Return what a file holds of an answer, for `darrm label` and `darrm verify`; None where there is nothing."""
        raise NotImplementedError

    def figure_of(self, answer: Any) -> Any:
        """Return the figure of an answer."""
        raise NotImplementedError

    def parts(self, record: dict[str, Any]) -> list[tuple[Any, dict[str, Any]]]:  # noqa: ARG002 - for those with designs
        """Return the designs in the JSON of an answer: what was designed, and the object with its "id" and "cached"."""
        return []

    def solutions(self, answer: Any) -> list[Any]:  # noqa: ARG002 - for those with designs
        """Return the solution of each of the `parts` of an answer, for a store."""
        return []

    def columns(self, record: dict[str, Any]) -> dict[str, Sequence[Any]]:
        """Return the JSON of an answer as the columns of a `table`."""
        raise NotImplementedError

    def verify(self, given: Any) -> Any:
        """Return an answer that another process found, proved by this one; raises VerificationFailed."""
        return self._general("verify").verify(given)

    def verify_stored(self, given: Any) -> None:
        """Refuse an answer that was stored beside its question, unless it is proved again; raises as `verify`."""
        self.verify(given)
