"""Quick cases within one test, since collecting and reporting each as a test takes longer."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest

Test = Callable[..., None]


def for_each(names: str | tuple[str, ...], values: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test for each of the values, like `pytest.mark.parametrize`, but as one test that names a failing case.

    For tests without fixtures, which all cases would share. A case cannot be skipped: that would skip the others.
    """
    fields = (names,) if isinstance(names, str) else names
    cases = [dict(zip(fields, [case] if isinstance(names, str) else case, strict=True)) for case in values]
    assert cases

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def every_case(**others: Any) -> None:
            for case in cases:
                try:
                    test(**case, **others)
                except pytest.skip.Exception as error:
                    raise AssertionError("a case was skipped") from error
                except BaseException as error:
                    error.add_note("where " + ", ".join(f"{name} = {value!r}" for name, value in case.items()))
                    raise

        every_case.__signature__ = inspect.Signature()  # type: ignore[attr-defined]  # as pytest reads it
        return every_case

    return decorate
