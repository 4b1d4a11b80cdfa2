"""Kernel library: loads the compiled C sources of this folder, if there are any.

A wheel built with a C compiler contains the library; any other uses the NumPy searches, which are also the reference
for the kernel. ``DARRM_KERNEL=numpy`` ignores the library, ``DARRM_KERNEL=c`` requires it.
"""

# ruff: noqa: PTH118, PTH120, PTH123, PTH208 - a first solve avoids loading pathlib, which takes 15 ms

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
"""Folder of the sources; the library must have been compiled from exactly these bytes."""

LIBRARY: str | os.PathLike[str] = os.path.join(os.path.dirname(__file__), "kernel.so.1")
"""Named so that Python does not take it for an extension module."""

LARGEST = sys.float_info.max  # stands for infinity in the library, which is compiled without infinities
DONE, OUT_OF_TIME, OUT_OF_MEMORY = range(3)  # return values of the library's functions

CHOICES = ("auto", "c", "numpy")

STALE = (
    "The compiled kernel does not match its sources, so NumPy searches: the same answers, ten to a hundred times "
    "slower. Recompile it: make setup, or python -m pip install --editable . in the checkout. DARRM_KERNEL=numpy "
    "silences this warning."
)
"""Warning for a checkout whose sources have changed since it was installed."""

MIN_THREADED_WORK = 1e7  # additions from which a library call gets its own thread: some 10 ms

Result = TypeVar("Result")

_whole, _double, _array = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p


class Tables(ctypes.Structure):
    """Tables that depend on the constraint alone; the fields are those of `search.h`."""

    _fields_ = (
        *((name, _whole) for name in ("K", "affected")),
        *((name, _double) for name in ("x", "y", "Delta", "q")),
        ("stride", _whole),
        *((name, _array) for name in ("mass", "terms", "tail")),
        ("most_mean", _double),
        *((name, _whole) for name in ("most_entries", "most_passed")),
    )


class Search(ctypes.Structure):
    """Input and output of one search; the fields are those of `search.h`."""

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
    """Input and output of one search over arcs; the fields are those of `arcs.c`."""

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
    """Return the library, loaded once per process with a warning if it is stale; None if NumPy is to search."""
    choice = os.environ.get("DARRM_KERNEL", "auto") or "auto"
    if choice not in CHOICES:
        raise InvalidInput("DARRM_KERNEL", choice, "auto, c or numpy")
    if choice == "numpy":
        return None
    library = _load()
    if library is None and choice == "c":
        raise BackendUnavailable(
            "DARRM_KERNEL=c requires the compiled kernel, which is missing or was compiled from other sources: "
            "reinstall with a C compiler, or unset it."
        )
    return library


def _source_checksum() -> int:
    """Return the CRC-32 of `SOURCES` in the order of their names: a guard against oversight, not malice."""
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
    """Return the results of long library calls, run concurrently; Ctrl-C or a failing call ends all within a moment.

    Each call takes the address of the flag that stops a search (`Search.stop`).
    """
    # Signal handlers run in the main thread between two steps of Python, so that thread waits here, not in the library.
    from concurrent.futures import ThreadPoolExecutor

    stop = ctypes.c_int(0)
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(call, ctypes.addressof(stop)) for call in calls]
        try:
            return [future.result() for future in futures]
        except BaseException:
            stop.value = 1
            raise
