"""Quick cases of one test, run in it: collecting, running and reporting each as a test takes longer than most take."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

Test = Callable[..., None]


def for_each(names: str | tuple[str, ...], values: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test for each of the values as `pytest.mark.parametrize` does, as one test that says which case failed.

    Without ids, marks and fixtures of their own: what they share, of the others' fixtures, is that of one test.
    """
    fields = (names,) if isinstance(names, str) else names
    cases = [dict(zip(fields, [case] if isinstance(names, str) else case, strict=True)) for case in values]
    assert cases

    def decorate(test: Test) -> Test:
        signature = inspect.signature(test)
        left = [parameter for name, parameter in signature.parameters.items() if name not in fields]

        @functools.wraps(test)
        def every_case(**fixtures: Any) -> None:
            for case in cases:
                try:
                    test(**case, **fixtures)
                except BaseException as error:
                    error.add_note("where " + ", ".join(f"{name} = {value!r}" for name, value in case.items()))
                    raise

        every_case.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]  # as pytest reads it
        return every_case

    return decorate
