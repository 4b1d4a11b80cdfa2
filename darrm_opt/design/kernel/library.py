"""Kernel library: loads the sources beside it as compiled, or says that there is none.

A wheel built where there was a C compiler holds the library; any other works without it, by the NumPy searches, which
are also the reference that the kernel is held against. ``DARRM_KERNEL=numpy`` leaves the library alone,
``DARRM_KERNEL=c`` insists on it.
"""

# ruff: noqa: PTH118, PTH120, PTH123, PTH208 - nothing else in a first solve loads pathlib, which takes 15 ms

from __future__ import annotations

import ctypes
import os
import sys
import warnings
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeVar

from darrm_opt.errors import BackendUnavailable, InvalidInput

SOURCES: str | os.PathLike[str] = os.path.dirname(__file__)
"""Folder of what the library must have been compiled from, to the byte: a stale one is not used."""

LIBRARY: str | os.PathLike[str] = os.path.join(os.path.dirname(__file__), "kernel.so.1")
"""Its name ends so that Python does not take it for an extension module."""

LARGEST = sys.float_info.max
"""Stands for infinity in the library, which is compiled without."""

DONE, OUT_OF_TIME, OUT_OF_MEMORY = range(3)
"""What a call of the library returns."""

CHOICES = ("auto", "c", "numpy")
"""What ``DARRM_KERNEL`` may say."""

STALE = (
    "The compiled kernel was made from other sources than those beside it, so NumPy searches: the same answers, ten to "
    "a hundred times slower. Compile it again: make setup, or python -m pip install --editable . in the checkout. "
    "DARRM_KERNEL=numpy says that NumPy is to search."
)
"""Warning of a checkout whose sources have changed since it was installed."""

MIN_THREADED_WORK = 1e7
"""Additions from which a call of the library has a thread: some 10 ms of one."""

Result = TypeVar("Result")

_whole, _double, _array = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p


class Tables(ctypes.Structure):
    """What depends on the constraint alone; the fields stand in `search.h`."""

    _fields_ = (
        *((name, _whole) for name in ("K", "affected")),
        *((name, _double) for name in ("x", "y", "Delta", "q")),
        ("stride", _whole),
        *((name, _array) for name in ("mass", "terms", "tail")),
        ("most_mean", _double),
        *((name, _whole) for name in ("most_entries", "most_passed")),
    )


class Search(ctypes.Structure):
    """One search: what is asked, and what is found; the fields stand in `search.h`."""

    _fields_ = (
        ("signed_values", _array),
        *((name, _double) for name in ("fuzz", "above", "start", "seconds")),
        *((name, _whole) for name in ("width", "first", "stride", "spacing", "settle", "most")),
        ("stop", _array),
        *((name, _double) for name in ("value", "left_out")),
        ("counts", _whole * 8),
        ("kept", _whole),
        *((name, _array) for name in ("cut_values", "cuts")),
    )


class ArcSearch(ctypes.Structure):
    """One search over arcs (`arcs.c`): what is asked, and what is found."""

    _fields_ = (
        *((name, _whole) for name in ("K", "vertices")),
        *((name, _array) for name in ("p", "reflected", "previous", "following", "mirror")),
        *((name, _whole) for name in ("zero", "one")),
        ("signed_values", _array),
        *((name, _double) for name in ("q", "fuzz", "above", "seconds")),
        *((name, _whole) for name in ("most_nodes", "most", "enough")),
        ("stop", _array),
        *((name, _double) for name in ("value", "left_out")),
        *((name, _whole) for name in ("nodes", "exhausted", "kept")),
        *((name, _array) for name in ("counts", "cut_values", "cuts")),
    )


@cache
def kernel() -> ctypes.CDLL | None:
    """Return the library; None where NumPy is to search. Looked for once in a process, and a stale one is warned of."""
    choice = os.environ.get("DARRM_KERNEL", "auto") or "auto"
    if choice not in CHOICES:
        raise InvalidInput("DARRM_KERNEL", choice, "auto, c or numpy")
    if choice == "numpy":
        return None
    library = _load()
    if library is None and choice == "c":
        raise BackendUnavailable(
            "DARRM_KERNEL=c needs the compiled kernel, which is not here or was compiled from another source: "
            "install where there is a C compiler, or unset it."
        )
    return library


def _source_checksum() -> int:
    """Return the CRC-32 of `SOURCES` in the order of their names: it guards against oversight, not malice."""
    checksum = 0
    for name in sorted(os.listdir(SOURCES)):
        if name.endswith((".c", ".h")):
            with open(os.path.join(SOURCES, name), "rb") as source:
                checksum = zlib.crc32(source.read(), checksum)
    return checksum


def _load() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(str(LIBRARY))
        library.source_checksum.restype = ctypes.c_uint32
        if library.source_checksum() != _source_checksum():
            warnings.warn(STALE, RuntimeWarning, stacklevel=3)
            return None
    except (OSError, AttributeError):  # not built, or for another machine
        return None
    structures = (ctypes.POINTER(Tables), ctypes.POINTER(Search))
    library.separate.argtypes = structures
    library.search_monotone.argtypes = (_whole, _whole, _array, *(_double,) * 4, _whole, _double, *(_array,) * 3)
    library.signed_mass.argtypes = (_whole, _whole, _array, _array, _whole, ctypes.c_int, _array)
    library.search_arcs.argtypes = (ctypes.POINTER(ArcSearch), _whole)
    library.sweep_corners.argtypes = (ctypes.POINTER(ArcSearch), _whole)
    library.search_arcs_jointly.argtypes = (ctypes.POINTER(ArcSearch), _whole, _whole, *(_array,) * 5)
    library.climb_multisets.argtypes = (ctypes.POINTER(ArcSearch), _whole, _array, _array, _whole)
    library.backward_step.argtypes = (*(_whole,) * 3, _array, _array, _whole, *(_array,) * 9)
    library.backward_step.restype = None
    return library


def in_threads(calls: Sequence[Callable[[int], Result]], threads: int) -> list[Result]:
    """Return what long calls of the library give, so many at once; ctrl-C, or one that fails, ends all within a moment.

    Each call takes the address of the flag that ends a search (`Search.stop`).
    """
    # A signal's handler runs in the main thread between two steps of Python, so that thread must wait here and not in
    # the library.
    from concurrent.futures import ThreadPoolExecutor

    stop = ctypes.c_int(0)
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(call, ctypes.addressof(stop)) for call in calls]
        try:
            return [future.result() for future in futures]
        except BaseException:
            stop.value = 1
            raise
