"""Searches by the compiled kernel and by NumPy, each at will."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from darrm_opt.design.kernel import library

LOADED = library.kernel()

HAS_KERNEL = LOADED is not None  # whether this installation was built where there was a C compiler
PATHS = ("c", "numpy") if HAS_KERNEL else ("numpy",)  # what ``DARRM_KERNEL`` can say here


@contextmanager
def searched_by(path: str) -> Iterator[None]:
    """Search by one of `PATHS` for a while."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("DARRM_KERNEL", path)
        patched.setattr(library, "_load", lambda: LOADED)  # to load it anew takes as long as a short search
        library.kernel.cache_clear()
        try:
            yield
        finally:
            library.kernel.cache_clear()


Found = TypeVar("Found")


def by_each_path(search: Callable[..., Found], *arguments: Any, **options: Any) -> list[Found]:
    """Return the results of a search by each of `PATHS`."""
    found = []
    for path in PATHS:
        with searched_by(path):
            found.append(search(*arguments, **options))
    return found
