"""Row cache: rows from the cache are those of the constraint, bit for bit, whatever was asked before."""

from __future__ import annotations

import numpy as np
import pytest

from darrm_opt import Problem
from darrm_opt.design import row_cache
from darrm_opt.design.polytope.constraint import PrivacyConstraint
from darrm_opt.design.polytope.corners import ConstraintGenerator


@pytest.mark.parametrize("K", [1, 4, 9])
@pytest.mark.parametrize("Delta", [0.0, 1e-3])
def test_rows_are_those_of_the_constraint(K: int, Delta: float) -> None:
    rng = np.random.default_rng(K)
    for m in (0.5, 1.0, 3.0):
        problem = Problem.from_allowance(K=K, m=m, epsilon=0.3, Delta=Delta)
        every = np.concatenate(list(ConstraintGenerator(problem).blocks()))
        for constraint in (PrivacyConstraint.of(problem), PrivacyConstraint.loosest(problem)):
            some = every[rng.integers(0, len(every), 50)]  # some of them twice
            assert row_cache.cached_rows(constraint, some).tobytes() == constraint.rows(some).tobytes()
            assert row_cache.cached_rows(constraint, some[:0]).shape == (0, constraint.entries)


def test_a_full_cache_makes_rows_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem.from_allowance(K=8, m=2, epsilon=0.37)
    constraint = PrivacyConstraint.of(problem)
    every = np.concatenate(list(ConstraintGenerator(problem).blocks()))
    monkeypatch.setattr(row_cache, "MAX_ENTRIES", 10 * constraint.entries)
    for some in (every[:6], every[3:9], every[9:16], every):
        assert row_cache.cached_rows(constraint, some).tobytes() == constraint.rows(some).tobytes()
