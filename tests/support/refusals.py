"""Refusals: what an `InvalidInput` names, by its fields; its sentence is tested once, with the class."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from darrm_opt.errors import InvalidInput


@contextmanager
def refused(argument: str, value: str | None = None) -> Iterator[pytest.ExceptionInfo[InvalidInput]]:
    """Expect an `InvalidInput` for an argument, and, where given, for a value that prints so."""
    with pytest.raises(InvalidInput) as caught:
        yield caught
    assert caught.value.argument == argument
    assert caught.value.accepted
    if value is not None:
        assert f"{argument} = {value} is not valid" in str(caught.value)
