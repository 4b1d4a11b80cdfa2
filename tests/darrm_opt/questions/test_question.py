"""Declarations of questions: a missing or wrong one is reported."""

from __future__ import annotations

from typing import ClassVar

import pytest
from support.cases import for_each
from support.refusals import refused

from darrm_opt.questions.question import Question, question_field


class Bare(Question):
    """A question with only a path."""

    path: ClassVar[str] = "bare/of-all"


@for_each("name", ["voters", "seconds", "check", "answer", "verify"])
def test_a_missing_declaration_is_reported(name: str) -> None:
    with pytest.raises(NotImplementedError, match=rf"^Bare\.{name}$"):
        # A property raises when read, a method when called.
        getattr(Bare(), name)(*([{}] if name == "verify" else []))


def test_an_undeclared_field_is_reported() -> None:
    class Leaning(Question):
        undeclared_field: int = question_field(1)

    with pytest.raises(LookupError, match=r"^Leaning\.undeclared_field is not declared in darrm_opt/fields\.py$"):
        Leaning.declared()


def test_the_description_of_an_omitted_field_is_used_if_its_default_is_none() -> None:
    class Reaching(Question):
        affected: int | None = question_field(None)

    class ReachingOne(Question):
        affected: int = question_field(1)

    class Reached(Question):
        affected: int = question_field()

    found = [kind.declared()["affected"].otherwise for kind in (Reaching, ReachingOne, Reached)]
    assert found == ["by default all", "", ""]


@for_each("path", ["of_all", "of all", "/all", "all/", "All", ""])
def test_a_path_consists_of_words_and_hyphens(path: str) -> None:
    with refused("path", repr(path)):
        type("Named", (Question,), {"path": path})
