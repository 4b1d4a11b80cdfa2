"""Floating-point mode: nothing is proved under flush-to-zero or a rounding mode other than to nearest."""

from __future__ import annotations

import ctypes
import ctypes.util
import math
import platform
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.kernels import PATHS, searched_by

from darrm_opt import NoiseFunction, Privacy, Problem, solve, verify
from darrm_opt.accounting import total_privacy
from darrm_opt.accounting.bits.recursion import compose_bits
from darrm_opt.accounting.bits.region import privacy_region
from darrm_opt.accounting.composition import evaluate
from darrm_opt.accounting.composition.closed_forms import basic_composition, kov_composition
from darrm_opt.accounting.composition.optimal import optimal_composition
from darrm_opt.accounting.gaussian import gaussian_epsilon
from darrm_opt.accounting.rdp import gaussian_rdp_epsilon
from darrm_opt.accounting.release_profile import release_profile
from darrm_opt.accounting.sampling import amplify_by_subsampling
from darrm_opt.errors import NotPrivate, UnsafeArithmetic
from darrm_opt.rounding import check_arithmetic
from darrm_papers.pate import gnmax_epsilon

ON_X86 = pytest.mark.skipif(
    platform.machine() != "x86_64" or shutil.which("gcc") is None, reason="MXCSR is of x86-64, and gcc reaches it"
)

MODES = {"flush to zero": 0x8000, "denormals are zero": 0x0040, "down": 0x2000, "up": 0x4000, "toward zero": 0x6000}
"""Bits of MXCSR by their effect."""

_SOURCE = """
#include <immintrin.h>
unsigned mode(void) { return _mm_getcsr(); }
void set_mode(unsigned value) { _mm_setcsr(value); }
"""


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("mode")
    source, library = folder / "mode.c", folder / "mode.so"
    Path(source).write_text(_SOURCE, encoding="ascii")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", str(source), "-o", str(library)], check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.mode.restype = ctypes.c_uint
    loaded.set_mode.argtypes = (ctypes.c_uint,)
    loaded.set_mode.restype = None
    return loaded


@contextmanager
def changed(control: Any, bits: int) -> Iterator[None]:
    before = control.mode()
    control.set_mode(before | bits)
    try:
        yield
    finally:
        control.set_mode(before)


def proofs() -> dict[str, Callable[[], object]]:
    """Return functions that prove something; their inputs are made in the default mode."""
    problem = Problem(9, Privacy(0.3, 1e-4), Privacy(0.6, 1e-4))
    solution, rough = solve(problem), np.full(10, 0.01)
    rough[[0, 9]] = 0.0
    nothing, least = Problem(5, Privacy(0.1), Privacy(0.0)), NoiseFunction(np.full(6, 5e-324))
    region, open_votes = privacy_region(Privacy(0.3, 1e-4)), Problem(9, Privacy(math.inf), Privacy(0.3), affected=1)
    return {
        "verify, monotone": lambda: verify(problem, solution.gamma),
        "verify, not monotone": lambda: verify(problem, rough),
        "verify, subnormal": lambda: verify(nothing, least),
        "solve": lambda: solve(problem),
        "total": lambda: total_privacy(solution, 5, 1e-3),
        "bits": lambda: compose_bits([(region, 3)], points=101),
        "composition": lambda: optimal_composition(0.1, 0.0, 3, 1e-3),
        "closed form": lambda: kov_composition(0.1, 0.0, 3, 1e-3),
        "sums": lambda: basic_composition(0.1, 0.0, 3),
        "profile of voters that are not private": lambda: release_profile(np.zeros(10), open_votes),
        "Gaussian noise": lambda: gaussian_epsilon(1.0, 1e-5),
        "Rényi": lambda: gaussian_rdp_epsilon(2.0, 3, 1e-5),
        "subsampling": lambda: amplify_by_subsampling(problem.voter, 0.1),
        "accounts at hand": lambda: evaluate({"sum": lambda: problem.voter}),
        "noisy argmax": lambda: gnmax_epsilon(40.0, 1e-5),
        "a number that comes in": lambda: Privacy(0.1),
    }


@ON_X86
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("mode", MODES)
def test_nothing_is_proved_in_a_mode_other_than_the_default(control: Any, mode: str, path: str) -> None:
    said = "subnormal numbers are treated as zero" if MODES[mode] in (0x8000, 0x0040) else "not rounded to nearest"
    with searched_by(path):
        for name, prove in proofs().items():
            refused: Exception | None = None
            with changed(control, MODES[mode]):
                try:
                    prove()
                except Exception as err:  # noqa: BLE001 - examined in the default mode
                    refused = err
            assert isinstance(refused, UnsafeArithmetic), (name, refused)
            assert said in str(refused)
            assert "Restore the default, or use another process" in str(refused)


@ON_X86
def test_the_mode_is_checked_per_thread(control: Any) -> None:
    seen: list[str] = []

    def other() -> None:
        check_arithmetic()
        seen.append("usual")

    waiting = threading.Thread(target=other)  # a thread inherits the mode of its parent when it starts
    with changed(control, 0x8040):
        with pytest.raises(UnsafeArithmetic):
            check_arithmetic()
        inherited = threading.Thread(target=lambda: seen.append(_outcome()))
        inherited.start()
        inherited.join()
    waiting.start()
    waiting.join()
    check_arithmetic()
    assert seen == ["refused", "usual"]


def _outcome() -> str:
    try:
        check_arithmetic()
    except UnsafeArithmetic:
        return "refused"
    return "usual"


def test_in_the_default_mode_subnormal_noise_is_not_private_at_epsilon_0() -> None:
    check_arithmetic()
    for path in PATHS:
        with searched_by(path), pytest.raises(NotPrivate):
            verify(Problem(5, Privacy(0.1), Privacy(0.0)), np.full(6, 5e-324))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the values of the rounding modes are those of x86")
@pytest.mark.parametrize("rounding", [0x400, 0x800, 0xC00])
def test_fesetround_is_detected(rounding: int) -> None:
    library = ctypes.CDLL(ctypes.util.find_library("m"))
    before = library.fegetround()
    try:
        assert library.fesetround(rounding) == 0
        outcome = _outcome()
    finally:
        library.fesetround(before)
    assert outcome == "refused"
