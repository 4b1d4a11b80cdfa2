"""Searches by the compiled kernel or by NumPy, as chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from darrm_opt.design.kernel import library

LOADED = library.kernel()

HAS_KERNEL = LOADED is not None  # whether this installation was built with a C compiler
PATHS = ("c", "numpy") if HAS_KERNEL else ("numpy",)  # the valid values of ``DARRM_KERNEL`` here


@contextmanager
def searched_by(path: str) -> Iterator[None]:
    """Search by one of `PATHS` within the block."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("DARRM_KERNEL", path)
        patched.setattr(library, "_load", lambda: LOADED)  # loading it again takes as long as a short search
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
