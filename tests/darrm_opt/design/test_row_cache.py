"""Row cache: its rows are those of the constraint, bit for bit, after any earlier queries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.cases import for_each
from support.forks import forked

from darrm_opt import Problem
from darrm_opt.design import constraint as rows
from darrm_opt.design.constraint import ConstraintGenerator, PrivacyConstraint


@for_each("K", [1, 4, 9])
@for_each("Delta", [0.0, 1e-3])
def test_rows_are_those_of_the_constraint(K: int, Delta: float) -> None:
    rng = np.random.default_rng(K)
    for m in (0.5, 1.0, 3.0):
        problem = Problem.from_allowance(K=K, m=m, epsilon=0.3, Delta=Delta)
        every = np.concatenate(list(ConstraintGenerator(problem).blocks()))
        for constraint in (PrivacyConstraint.of(problem), PrivacyConstraint.loosest(problem)):
            some = every[rng.integers(0, len(every), 50)]  # some of them twice
            assert rows.cached_rows(constraint, some).tobytes() == constraint.rows(some).tobytes()
            assert rows.cached_rows(constraint, some[:0]).shape == (0, constraint.entries)


def test_a_full_cache_still_computes_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem.from_allowance(K=8, m=2, epsilon=0.37)
    constraint = PrivacyConstraint.of(problem)
    every = np.concatenate(list(ConstraintGenerator(problem).blocks()))
    monkeypatch.setattr(rows, "MAX_ENTRIES", 10 * constraint.entries)
    for some in (every[:6], every[3:9], every[9:16], every):
        assert rows.cached_rows(constraint, some).tobytes() == constraint.rows(some).tobytes()


def test_an_interruption_leaves_no_row_of_two_multisets(monkeypatch: pytest.MonkeyPatch) -> None:
    constraint = PrivacyConstraint.of(Problem.from_allowance(K=7, m=2, epsilon=0.41))
    every = np.concatenate(list(ConstraintGenerator(Problem.from_allowance(K=7, m=2, epsilon=0.3)).blocks()))
    rows.cached_rows(constraint, every[:5])

    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(np, "concatenate", interrupted)
        with pytest.raises(KeyboardInterrupt):
            rows.cached_rows(constraint, every[5:9])
    for some in (every[20:23], every[5:9], every[:30]):
        assert rows.cached_rows(constraint, some).tobytes() == constraint.rows(some).tobytes()


def test_a_child_process_does_not_wait_for_a_lock_of_a_parent_thread() -> None:
    constraint = PrivacyConstraint.of(Problem.from_allowance(K=5, m=2, epsilon=0.43))
    with rows._line(constraint.K, constraint.corners)._lock:  # as if another thread were computing rows
        assert forked(lambda: str(rows._line(constraint.K, constraint.corners)._lock.locked())) == "False"
