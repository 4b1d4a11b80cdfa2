"""Helpers that run many cases in a loop fail if one case fails."""

from __future__ import annotations

from typing import Any

import pytest
from support.cases import for_each
from support.refusals import refuses

from darrm_opt.errors import InvalidInput


def test_every_case_is_run_and_a_failing_one_is_named() -> None:
    seen: list[tuple[int, str]] = []

    @for_each("number", [1, 2])
    @for_each("letter", "ab")
    def check(number: int, letter: str) -> None:
        seen.append((number, letter))
        assert (number, letter) != (2, "b")

    with pytest.raises(AssertionError) as caught:
        check()
    assert seen == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]
    assert caught.value.__notes__ == ["where letter = 'b'", "where number = 2"]


def test_a_refusal_must_be_of_the_wrong_value() -> None:
    def call(size: int) -> None:
        raise InvalidInput("size", 2, f"nothing, and not {size}")

    refuses(call, {}, size=[2])
    wrong: dict[str, Any]
    for wrong in ({"count": [2]}, {"size": [3]}, {"size": []}):
        with pytest.raises((AssertionError, TypeError)):
            refuses(call, {}, **wrong)
