"""What a question must declare: what is left out, or declared wrongly, is named."""

from __future__ import annotations

from typing import ClassVar

import pytest
from support.cases import for_each
from support.refusals import refused

from darrm_opt.questions.question import Question, question_field


class Bare(Question):
    """A question with a path alone."""

    path: ClassVar[str] = "bare/of-all"


@for_each("name", ["voters", "seconds", "check", "answer", "verify"])
def test_what_a_question_leaves_out_is_named(name: str) -> None:
    with pytest.raises(NotImplementedError, match=rf"^Bare\.{name}$"):
        # A property raises where it is read; a method where it is called.
        getattr(Bare(), name)(*([{}] if name == "verify" else []))


def test_a_field_that_is_not_declared_is_named() -> None:
    class Leaning(Question):
        right: int = question_field(1)

    with pytest.raises(LookupError, match=r"^Leaning\.right is not declared in darrm_opt/fields\.py$"):
        Leaning.declared()


@for_each("path", ["of_all", "of all", "/all", "all/", "All", ""])
def test_a_path_is_words_with_hyphens(path: str) -> None:
    with refused("path", repr(path)):
        type("Named", (Question,), {"path": path})
