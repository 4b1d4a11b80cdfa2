"""Quick cases of one test, run in it: collecting, running and reporting each as a test takes longer than most take."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest

Test = Callable[..., None]


def for_each(names: str | tuple[str, ...], values: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test for each of the values as `pytest.mark.parametrize` does, as one test that says which case failed.

    For tests without fixtures, which one case would leave to the next as it changed them. No case is skipped: the others
    would be with it.
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
