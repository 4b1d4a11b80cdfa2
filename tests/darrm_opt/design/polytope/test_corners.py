"""The corners of F and the constraint generator: against the definition of F and a list of all multisets."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.cases import for_each
from support.exact import Voters, multisets
from support.refusals import refused
from support.strategies import ProblemCase, problem_cases

from darrm_opt import InvalidInput, Privacy, Problem
from darrm_opt.design.constraint import BLOCK_VECTORS, LABELS, ConstraintGenerator, Corners, Counts

Indices = NDArray[np.int64]
Point = tuple[Fraction, Fraction]
Line = tuple[Fraction, Fraction, Fraction]

VOTERS = [
    (epsilon, Delta)
    for epsilon in (0.0, 1e-4, 0.1, 0.5, 1.0, 4.0, 40.0)
    for Delta in (0.0, 1e-12, 1e-5, 0.1, 0.3, 0.7)
    if epsilon or Delta
]


def growth(epsilon: float) -> Fraction:
    """Return e^ε to 28 digits, as a fraction that is exact from here on."""
    return Fraction(Decimal(epsilon).exp())


def borders(g: Fraction, Delta: Fraction) -> list[Line]:
    """Return F as a·p + b·p′ ≤ c: (ε, Δ)-DP of both answers in both directions, and 0 ≤ p, p′ ≤ 1."""
    one, zero = Fraction(1), Fraction(0)
    return [
        (one, -g, Delta),  # p ≤ e^ε p′ + Δ
        (-g, one, Delta),  # p′ ≤ e^ε p + Δ
        (-one, g, g - 1 + Delta),  # 1 − p ≤ e^ε(1 − p′) + Δ
        (g, -one, g - 1 + Delta),  # 1 − p′ ≤ e^ε(1 − p) + Δ
        (-one, zero, zero),
        (zero, -one, zero),
        (one, zero, one),
        (zero, one, one),
    ]


def vertices(lines: list[Line]) -> set[Point]:
    """Return the vertices of the polygon: the intersections of two borders that satisfy all."""
    found = set()
    for (a, b, c), (d, e, f) in itertools.combinations(lines, 2):
        determinant = a * e - b * d
        if determinant:
            p, q = (c * e - b * f) / determinant, (a * f - c * d) / determinant
            if within((p, q), lines):
                found.add((p, q))
    return found


def as_written(g: Fraction, Delta: Fraction) -> dict[str, Point]:
    """Return the corners of the module docstring, in fractions."""
    zero, one = Fraction(0), Fraction(1)
    x = (g + Delta) / (g + 1)
    corners = {"zero": (zero, zero), "one": (one, one), "xy": (x, 1 - x), "yx": (1 - x, x)}
    if Delta == 0:
        return corners
    return corners | {
        "up": (zero, Delta),
        "down": (Delta, zero),
        "up_to_one": (1 - Delta, one),
        "down_from_one": (one, 1 - Delta),
    }


def within(point: Point, lines: list[Line]) -> bool:
    return all(a * point[0] + b * point[1] <= c for a, b, c in lines)


# ------------------------------------------------------------------------------------------------------ corners


@for_each(("epsilon", "Delta"), VOTERS)
def test_the_corners_are_the_vertices_of_F(epsilon: float, Delta: float) -> None:
    g, D = growth(epsilon), Fraction(Delta)
    found = vertices(borders(g, D))
    listed = as_written(g, D)
    assert found <= set(listed.values())
    assert all(within(corner, borders(g, D)) for corner in listed.values())
    if epsilon > 0:  # at ε = 0, (x, y) and (y, x) are on the sides from (0,Δ) to (1−Δ,1) and from (Δ,0) to (1,1−Δ)
        assert found == set(listed.values())
    computed = Corners.of(Problem(3, Privacy(epsilon, Delta), Privacy(0.5)))
    for label, p, q in zip(computed.labels, computed.p, computed.p_prime, strict=True):
        assert float(p) == pytest.approx(float(listed[label][0]), rel=1e-15, abs=0)
        assert float(q) == pytest.approx(float(listed[label][1]), rel=1e-15, abs=0)


@given(problem_cases())
def test_corners_in_doubles_are_exact_to_a_few_ulps(case: ProblemCase) -> None:
    problem = case.problem
    computed, exact = Corners.of(problem), Voters.of(problem).corners()
    assert [*exact] == [*computed.labels]
    for label, p, q, reflected in zip(computed.labels, computed.p, computed.p_prime, computed.reflected, strict=True):
        for number, true in ((p, exact[label][0]), (q, exact[label][1]), (reflected, 1 - exact[label][1])):
            assert abs(Decimal(float(number)) - true) <= abs(true) * Decimal(12 * 2.0**-53)
    assert abs(computed.x + computed.y - 1) <= 2.0**-52


def test_voters_that_are_not_private_have_the_corners_of_the_unit_square() -> None:
    corners = Corners.of(Problem(3, Privacy(math.inf), Privacy(0.5)))
    pairs = [*zip(corners.p.tolist(), corners.p_prime.tolist(), strict=True)]
    assert pairs == [(0, 0), (1, 1), (1, 0), (0, 1)]
    assert corners.reflected.tolist() == [1, 0, 1, 0]


def test_named_leaves_out_empty_corners() -> None:
    corners = Corners.of(Problem(3, Privacy(0.1, 0.01), Privacy(0.5)))
    assert corners.named(np.array([0, 1, 2, 0, 0, 0, 0, 3])) == {"one": 1, "xy": 2, "down_from_one": 3}


# ---------------------------------------------------------------------------------------------------- generator


def generator(K: int, affected: int | None = None, *, Delta: float = 0.0, epsilon: float = 0.1) -> ConstraintGenerator:
    return ConstraintGenerator(Problem(K, Privacy(epsilon, Delta), Privacy(0.3), affected))


def stream(of: ConstraintGenerator, most: int = BLOCK_VECTORS) -> Counts:
    return np.concatenate([*of.blocks(most)])


@for_each("Delta", [0.0, 0.1])
@for_each(("K", "affected"), [(K, r) for K in range(1, 6) for r in range(1, K + 1)])
def test_every_multiset_is_generated_once(K: int, affected: int, Delta: float) -> None:
    vectors = stream(generator(K, affected, Delta=Delta))
    listed = multisets(K, 8 if Delta else 4, affected)
    assert {tuple(map(int, row)) for row in vectors} == listed
    assert len(vectors) == len(listed) == generator(K, affected, Delta=Delta).size


@given(st.integers(1, 60), st.integers(1, 60), st.booleans())
def test_the_size_has_a_closed_form(K: int, affected: int, Delta: bool) -> None:
    r, q = min(K, affected), 6 if Delta else 2
    summed = sum(math.comb(M + q - 1, q - 1) * (K - M + 1) for M in range(r + 1))
    of = generator(K, r, Delta=0.1 if Delta else 0.0)
    assert of.size == summed
    if r == K:
        assert of.size == math.comb(K + q + 1, q + 1)


@for_each(("K", "affected", "Delta"), [(7, 7, 0.1), (7, 3, 0.1), (12, 12, 0.0), (1, 1, 0.1)])
def test_blocks_of_any_size_give_the_same_stream(K: int, affected: int, Delta: float) -> None:
    of = generator(K, affected, Delta=Delta)
    whole = stream(of)
    for most in (1, 7, 1000, of.size):
        blocks = [*of.blocks(most)]
        assert max(len(block) for block in blocks) <= most
        assert np.array_equal(np.concatenate(blocks), whole)


@pytest.mark.parametrize("most", [0, -1, 2.5])
def test_a_block_holds_at_least_one_row(most: int) -> None:
    with refused("most"):
        next(generator(3).blocks(most))


def test_a_huge_set_has_a_size_and_a_first_block() -> None:
    of = generator(5001, Delta=0.1)
    assert of.size == math.comb(5008, 7) > 2**63
    assert len(next(of.blocks())) == 5002


def test_a_huge_set_is_refused_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConstraintGenerator, "_vectors_with", lambda *_: 2**63)
    text = r"^K = 3 is not valid: expected fewer than 2\^63 vectors\. Such a set cannot be enumerated\.$"
    with pytest.raises(InvalidInput, match=text):
        next(generator(3).blocks(2))
    monkeypatch.setattr(ConstraintGenerator, "_vectors_with", lambda *_: 2**63 - 1)
    assert next(generator(3).blocks(2)).tolist() == [[3, 0, 0, 0], [2, 1, 0, 0]]


def in_order(block: Counts) -> Indices:
    """Return numbers that increase along the stream: moving voters, then their kinds, then ones."""
    key: Indices = block[:, 2:].sum(axis=1)
    for column in range(len(LABELS) - 1, 2, -1):
        key = key * 36 - block[:, column] + 35
    return key * 36 + block[:, 1]


def test_35_voters_stream_in_little_memory() -> None:
    of = generator(35, Delta=1e-5)
    rows, last = 0, -1
    tracemalloc.start()
    try:
        for block in itertools.islice(of.blocks(), 60):
            keys = in_order(block)
            assert np.all(block.sum(axis=1) == 35)
            assert keys[0] > last
            assert np.all(np.diff(keys) > 0)  # so no vector occurs twice
            rows, last = rows + len(block), int(keys[-1])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 2_000_000 < rows < of.size
    assert peak < 50e6
