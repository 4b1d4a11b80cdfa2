"""The compiled search: equal to NumPy, enumeration and exact arithmetic, with any number of threads."""

from __future__ import annotations

import ctypes.util
import gc
import itertools
import math
import shutil
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cases import for_each
from support.kernels import HAS_KERNEL, by_each_path, searched_by
from support.refusals import refused
from support.searches import enumerated_worst_case, uneven
from support.strategies import random_noise

from darrm_opt import Privacy, Problem, solve, verify
from darrm_opt.design.constraint import ConstraintGenerator, PrivacyConstraint
from darrm_opt.design.kernel import library
from darrm_opt.design.schedule import binding_family
from darrm_opt.design.separation import compiled
from darrm_opt.design.separation.binomials import binomial
from darrm_opt.design.separation.oracle import worst_case
from darrm_opt.design.separation.oracle import worst_case_near_faces as near_faces
from darrm_opt.design.separation.result import (
    MAX_EVALUATED_MEAN,
    Collector,
    Settle,
    TimeLimitReached,
    WorstCase,
    terms_of,
)
from darrm_opt.errors import BackendUnavailable

WITH_KERNEL = pytest.mark.skipif(not HAS_KERNEL, reason="built without a C compiler")

SETTLE: tuple[Settle, ...] = ("always", "until a cut", "never")


def equal(one: WorstCase, other: WorstCase) -> bool:
    """Return whether two results are equal bit for bit."""
    return (one.bound, one.value, one.method, one.error) == (other.bound, other.value, other.method, other.error) and (
        np.array_equal(one.counts, other.counts) and np.array_equal(one.cuts, other.cuts)
    )


# ------------------------------------------------------------------------------- against NumPy and enumeration


@WITH_KERNEL
@for_each("seed", range(12))
def test_at_Delta_0_both_paths_agree_bit_for_bit(seed: int) -> None:
    rng = np.random.default_rng((seed, 22))
    K = int(rng.integers(2, 40))
    constraint = PrivacyConstraint.of(Problem(K, Privacy(0.3), Privacy(0.7, 0.01), int(rng.integers(1, K + 1))))
    noise = uneven(rng, K)
    for above in (None, -math.inf, 0.1):
        one, other = by_each_path(worst_case, noise, constraint, above=above)
        assert (one.bound, one.value, one.method) == (other.bound, other.value, other.method)


@contextmanager
def without(*limits: str) -> Iterator[None]:
    """Set limits of the compiled search to 0, in the tables that it reads."""
    with pytest.MonkeyPatch.context() as patched:
        for name in limits:
            patched.setattr(compiled, name, 0)
        compiled._tables.cache_clear()
        compiled._binomials.cache_clear()
        yield
    compiled._tables.cache_clear()
    compiled._binomials.cache_clear()


@WITH_KERNEL
@for_each("limits", [(), ("MAX_TABLE_ENTRIES",), ("MAX_EVALUATED_MEAN",), ("MAX_PASSED_ENTRIES",)])
@for_each(("K", "affected"), [(8, affected) for affected in range(1, 9)] + [(9, 9), (9, 4)])
def test_every_method_of_complete_search_of_a_row(K: int, affected: int, limits: tuple[str, ...]) -> None:
    """Bounds for each number of moving voters, or one for all; whole rows, passes, or single skeletons."""
    for Delta, seed in itertools.product((0.01, 0.1, 0.35, 0.7), range(2)):
        problem = Problem(K, Privacy(0.05 + seed, Delta), Privacy(0.7, Delta / 2), affected)
        noise, constraint = uneven(np.random.default_rng((seed, affected)), K), PrivacyConstraint.of(problem)
        true = enumerated_worst_case(noise, problem)
        with without(*limits):
            for above, most in itertools.product((-math.inf, true.value - 1e-3, true.value + 1e-9), (0, 50)):
                found = worst_case(noise, constraint, above=above, most=most)
                assert true.value - 1e-13 <= found.bound <= max(true.value, above) + 1e-12
                if above < true.value:
                    assert found.value == pytest.approx(true.value, abs=1e-13)
                    at_found = constraint.values(noise.signed, found.counts[np.newaxis])[0]
                    assert at_found == pytest.approx(found.value, abs=1e-13)
                    assert found.counts[2:].sum() <= affected
            cuts = near_faces(noise, constraint, above=true.value / 2, most=50).cuts
        assert (cuts[:, 2:].sum(axis=1) <= affected).all()
        assert (constraint.values(noise.signed, cuts) <= true.value + 1e-13).all()


@WITH_KERNEL
@for_each(("above", "method"), [(0.0, "first-order"), (2.0, "complete")])
def test_rows_that_are_not_searched_are_charged_at_their_bound(above: float, method: str) -> None:
    problem = Problem(8, Privacy(0.2, 0.1), Privacy(0.7, 0.05))
    constraint, noise = PrivacyConstraint.of(problem), uneven(np.random.default_rng(3), 8)
    true = enumerated_worst_case(noise, problem)
    with without("MAX_EVALUATED_MEAN", "MAX_PASSED_ENTRIES"):
        found = worst_case(noise, constraint, above=above)
    assert found.bound >= true.value
    assert found.method == method


@WITH_KERNEL
def test_arrays_of_the_library_survive_while_other_threads_clear_the_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    constraint = PrivacyConstraint.of(Problem(9, Privacy(0.2, 0.1), Privacy(0.7, 0.05)))
    noise, made = uneven(np.random.default_rng(3), 9), compiled._binomials.__wrapped__
    true, loaded = worst_case(noise, constraint), library.kernel()
    read: list[weakref.ref[Any]] = []

    def recorded(r: int, Delta: float) -> Any:
        arrays = made(r, Delta)
        read.append(weakref.ref(arrays[0]))
        return arrays

    class Meanwhile:
        @staticmethod
        def separate(*inputs: Any) -> int:
            compiled._tables.cache_clear()
            gc.collect()
            assert read[-1]() is not None
            assert loaded is not None
            return int(loaded.separate(*inputs))

    compiled._tables.cache_clear()
    monkeypatch.setattr(compiled, "_binomials", recorded)
    monkeypatch.setattr("darrm_opt.design.separation.oracle.kernel", lambda: Meanwhile)
    assert equal(worst_case(noise, constraint), true)
    assert read


@WITH_KERNEL
@for_each("Delta", [0.0, 1e-5, 0.02, 0.2])
def test_a_certificate_of_one_path_is_verified_by_the_other(Delta: float) -> None:
    problem = Problem(15, Privacy(0.2, Delta), Privacy(0.6, Delta / 2))
    answers = {}
    for path in ("c", "numpy"):
        with searched_by(path):
            answers[path] = solve(problem)
    for path, other in (("c", "numpy"), ("numpy", "c")):
        with searched_by(other):
            assert verify(problem, answers[path].gamma).margin >= 0
    assert answers["c"].gamma == pytest.approx(answers["numpy"].gamma, abs=1e-9)
    assert answers["c"].utility == pytest.approx(answers["numpy"].utility, abs=1e-10)


# --------------------------------------------------------------------------------------------- threads, cuts, time


@WITH_KERNEL
@pytest.mark.parametrize("Delta", [0.0, 1e-5, 1e-2, 0.3])
def test_the_answer_does_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch, Delta: float) -> None:
    constraint = PrivacyConstraint.of(Problem(20, Privacy(0.2, Delta), Privacy(0.6, Delta / 2)))
    monkeypatch.setattr(compiled, "MIN_THREADED_WORK", 0)
    for seed in range(2):
        noise = uneven(np.random.default_rng((seed, 25)), 20)
        worst = worst_case(noise, constraint, above=-math.inf).value
        levels = (-math.inf, worst - 0.2, worst - 1e-6, worst + 1e-9)
        for above, most, settle in itertools.product(levels, (3, 1000), SETTLE):
            found = []
            for threads in (1, 2, 5):
                monkeypatch.setattr(compiled, "thread_count", lambda threads=threads: threads)
                found.append(worst_case(noise, constraint, above=above, most=most, settle=settle))
            assert equal(found[0], found[1])
            assert equal(found[0], found[2])


@WITH_KERNEL
@pytest.mark.parametrize("Delta", [0.0, 1e-3, 0.2])
def test_few_cuts_are_the_worst_of_many(Delta: float) -> None:
    constraint = PrivacyConstraint.of(Problem(14, Privacy(0.2, Delta), Privacy(0.6, Delta / 2)))
    noise = uneven(np.random.default_rng(26), 14)
    above = worst_case(noise, constraint, above=-math.inf).value / 2
    every = worst_case(noise, constraint, above=above, most=100_000)
    assert len(every.cuts) > 50
    values = constraint.values(noise.signed, every.cuts)
    assert np.all(np.diff(values) <= 1e-14)
    assert np.array_equal(every.cuts[0], every.counts)
    assert len(np.unique(every.cuts, axis=0)) == len(every.cuts)
    for most in (1, 2, 7, 40):
        few = worst_case(noise, constraint, above=above, most=most)
        assert len(few.cuts) <= most
        assert np.array_equal(few.cuts, every.cuts[: len(few.cuts)])


@pytest.mark.parametrize("said", ["3", " 2 , 1", ""])
def test_OMP_NUM_THREADS_limits_the_threads(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", said)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 3, 4})
    assert compiled.thread_count() == {"3": 3, " 2 , 1": 2, "": 5}[said]


LONG_SEARCH = """
import os, signal, sys, threading
import numpy as np
from darrm_opt import Problem, verify

K, affected, shape = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
gamma = np.full(K + 1, 0.3) if shape == "monotone" else np.random.default_rng(1).random(K // 2 + 1)
if shape == "free":
    gamma = np.concatenate([gamma, gamma[::-1][(K + 1) % 2:]])[: K + 1]
try:
    threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT]).start()
    verify(Problem.from_allowance(K, 3, 0.1, float(sys.argv[4]), affected=affected), gamma)
except KeyboardInterrupt:
    print("interrupted")
"""
"""A search of more than an hour, and SIGINT after half a second."""


@WITH_KERNEL
@pytest.mark.parametrize(
    ("K", "affected", "shape", "Delta"),
    [(100_001, 100_001, "free", 0), (40_001, 40_001, "free", 1e-6), (100_001, 50_000, "monotone", 1e-6)],
)
def test_an_interrupt_ends_a_search(K: int, affected: int, shape: str, Delta: float) -> None:
    words = [sys.executable, "-c", LONG_SEARCH, str(K), str(affected), shape, str(Delta)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


@WITH_KERNEL
@pytest.mark.parametrize("Delta", [0.0, 1e-3, 0.3])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_kernel_itself_watches_the_clock(monkeypatch: pytest.MonkeyPatch, Delta: float, threads: int) -> None:
    constraint = PrivacyConstraint.of(Problem(12, Privacy(0.3, Delta), Privacy(0.6, Delta)))
    monkeypatch.setattr(Collector, "tick", lambda _: None)
    monkeypatch.setattr(compiled, "thread_count", lambda: threads)
    monkeypatch.setattr(compiled, "MIN_THREADED_WORK", 0)
    late = time.perf_counter() - 1
    for noise in (uneven(np.random.default_rng(1), 12), random_noise(np.random.default_rng(1), 12, "monotone")):
        with pytest.raises(TimeLimitReached):
            worst_case(noise, constraint, deadline=late)
    with pytest.raises(TimeLimitReached):
        near_faces(uneven(np.random.default_rng(1), 12), constraint, above=0.0, most=3, deadline=late)


# ------------------------------------------------------------------------------------------------ tables and rows


@for_each(("r", "Delta"), [(1, 1e-12), (40, 1e-5), (30, 0.3), (200, 0.5), (20, 0.0)])
def test_tables_are_those_of_the_numpy_search(r: int, Delta: float) -> None:
    mass, terms, tail = compiled._binomials(r, Delta)
    affordable = [M for M in range(r + 1) if M * Delta <= MAX_EVALUATED_MEAN]
    assert len(terms) == len(tail) == len(affordable)
    for M in affordable:
        assert terms[M] == terms_of(M * Delta)
        window = int(terms[M]) + 1
        exact = math.prod(M * Delta / k for k in range(1, window))
        assert exact <= tail[M] <= exact * (1 + 1e-12)
    if Delta > 0:
        assert mass.shape[0] == len(affordable)
        assert mass.shape[1] > min(terms.max(), len(affordable) - 1)
        assert np.array_equal(mass, binomial(np.arange(len(affordable)), Delta, mass.shape[1] - 1).T)


@WITH_KERNEL
@for_each("Delta", [0.0, 1e-4, 0.3])
@for_each(("K", "affected"), [(1, 1), (2, 2), (11, 11), (12, 5), (200, 200)])
def test_rows_are_those_of_numpy(K: int, affected: int, Delta: float) -> None:
    """Voter by voter, bit for bit."""
    constraint = PrivacyConstraint.of(Problem(K, Privacy(0.3, Delta), Privacy(0.9, Delta / 2), affected))
    counts = binding_family(constraint)
    if K < 12:
        counts = np.concatenate(
            [*ConstraintGenerator(Problem(K, Privacy(0.3, Delta), Privacy(0.9), affected)).blocks()]
        )
    rows = []
    for path in ("c", "numpy"):
        with searched_by(path):
            rows.append(constraint.rows(counts[:300]))
    assert np.array_equal(rows[0], rows[1])


@WITH_KERNEL
@for_each("Delta", [0.0, 1e-5, 0.1])
@for_each("epsilon", [0.01, 0.3, 30.0, math.inf])
def test_rows_of_many_voters(Delta: float, epsilon: float) -> None:
    """As convolutions of binomials, equal to those voter by voter up to rounding."""
    constraint = PrivacyConstraint.of(Problem(301, Privacy(epsilon, Delta), Privacy(0.9, Delta / 2)))
    counts = np.random.default_rng(1).multinomial(
        301, np.full(len(constraint.corners.labels), 1 / 8 if Delta else 1 / 4), 20
    )
    counts = np.concatenate([counts, binding_family(constraint)[::50]])
    rows = constraint.rows(counts)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("darrm_opt.design.constraint.MAX_STEPWISE_K", 1000)
        assert np.abs(rows - constraint.rows(counts)).sum(axis=1).max() <= 2 * constraint.error(1.0)


# ----------------------------------------------------------------------------------------------- with and without


def test_without_the_library_numpy_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """If the library is not built, for another machine, or of another version."""
    problem = Problem(9, Privacy(0.3, 0.01), Privacy(0.6, 0.005))
    noise, constraint = uneven(np.random.default_rng(2), 9), PrivacyConstraint.of(problem)
    before = worst_case(noise, constraint)
    broken = tmp_path / "kernel.so.1"
    broken.write_bytes(b"this is no library")
    monkeypatch.delenv("DARRM_KERNEL", raising=False)
    for path in (tmp_path / "nothing", broken, Path(str(ctypes.util.find_library("c")))):
        monkeypatch.setattr(library, "LIBRARY", path)
        library.kernel.cache_clear()
        assert library.kernel() is None
        assert worst_case(noise, constraint).bound == pytest.approx(before.bound, abs=1e-12)
        assert solve(Problem(5, Privacy(0.3), Privacy(0.6))).certificate.margin >= 0
        monkeypatch.setenv("DARRM_KERNEL", "c")
        library.kernel.cache_clear()
        with pytest.raises(
            BackendUnavailable, match="DARRM_KERNEL=c requires the compiled kernel, which is missing or"
        ):
            library.kernel()
        monkeypatch.delenv("DARRM_KERNEL")
    library.kernel.cache_clear()


@WITH_KERNEL
def test_a_library_of_another_source_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One byte of the source changed and it was not compiled again."""
    for source in Path(library.SOURCES).glob("*.[ch]"):
        changed = source.read_bytes()
        tmp_path.joinpath(source.name).write_bytes(
            changed.replace(b"stride", b"strides", 1) if source.name == "search.h" else changed
        )
    monkeypatch.setattr(library, "SOURCES", tmp_path)
    monkeypatch.delenv("DARRM_KERNEL", raising=False)
    library.kernel.cache_clear()
    with pytest.warns(RuntimeWarning, match="make setup"):
        assert library.kernel() is None
    assert library.kernel() is None  # once: in tests a warning is an error
    monkeypatch.setenv("DARRM_KERNEL", "numpy")
    library.kernel.cache_clear()
    assert library.kernel() is None
    library.kernel.cache_clear()


def test_DARRM_KERNEL_selects_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DARRM_KERNEL", "fortran")
    library.kernel.cache_clear()
    with refused("DARRM_KERNEL", "'fortran'"):
        library.kernel()
    monkeypatch.setenv("DARRM_KERNEL", "numpy")
    assert library.kernel() is None
    library.kernel.cache_clear()


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no GCC")
@for_each("flag", ["", "-ffast-math", "-funsafe-math-optimizations", "-fassociative-math", "-freciprocal-math"])
def test_compiler_flags_that_invalidate_the_rounding_bounds_are_refused(flag: str) -> None:
    sources = sorted(map(str, Path(library.SOURCES).glob("*.c")))
    others = ("-std=c11", "-O3", "-fno-trapping-math", "-fno-signed-zeros", "-DSOURCE_CHECKSUM=0u", "-fsyntax-only")
    command = ["gcc", *filter(None, [flag]), *others, *sources]
    built = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (built.returncode == 0) == (flag == ""), built.stderr
    assert flag == "" or "voids the rounding bounds" in built.stderr
