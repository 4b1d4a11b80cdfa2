"""Refusals: the fields of an `InvalidInput`; its message is tested once, with the class."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from darrm_opt.errors import InvalidInput
from support.cases import for_each


@contextmanager
def refused(argument: str, value: str | None = None) -> Iterator[pytest.ExceptionInfo[InvalidInput]]:
    """Expect an `InvalidInput` for an argument and, if given, for a value with this text."""
    with pytest.raises(InvalidInput) as caught:
        yield caught
    assert caught.value.argument == argument
    assert caught.value.accepted
    if value is not None:
        assert f"{argument} = {value} is not valid" in str(caught.value)


def refuses(call: Callable[..., object], valid: Mapping[str, Any], /, **wrong: Iterable[Any]) -> None:
    """Expect that each wrong value of each argument is refused for that argument, with valid others.

    A refusal shows a plain value; for a list or an array it may show a part.
    """
    assert all(wrong.values())

    @for_each(("argument", "value"), [(argument, value) for argument, values in wrong.items() for value in values])
    def check(argument: str, value: Any) -> None:
        shown = repr(value) if isinstance(value, int | float | str) else None
        with refused(argument, shown):
            call(**{**valid, argument: value})

    check()
