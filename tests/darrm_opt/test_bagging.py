"""Privacy of bagging: against enumeration of all draws, and as the privacy of a voter."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cases import for_each
from support.refusals import refused, refuses

from darrm_opt import NoiseFunction, NotPrivate, Privacy, Problem, solve, verify
from darrm_opt import rounding as exact
from darrm_opt.bagging import (
    Draws,
    Sampling,
    bagging_guarantee,
    bagging_majority_delta,
    bagging_max_draws,
    draw_subsamples,
)
from darrm_opt.errors import InvalidInput

Law = dict[tuple[str, ...], Fraction]


def law(records: str, k: int, N: int, replacement: bool, sampling: Sampling) -> Law:
    """Return the distribution of all draws, as sequences of records."""
    if not replacement and sampling == "disjoint":
        draws = list(permutations(records, N * k))
    else:
        one = list(product(records, repeat=k)) if replacement else list(combinations(records, k))
        draws = [sum(parts, ()) for parts in product(one, repeat=N)]
    counts = Counter(draws)
    return {draw: Fraction(count, len(draws)) for draw, count in counts.items()}


def hockey_stick(one: Law, other: Law, slope: Fraction) -> Fraction:
    return sum(
        (max(Fraction(0), mass - slope * other.get(draw, Fraction(0))) for draw, mass in one.items()), Fraction(0)
    )


CASES: list[tuple[int, int, int, bool, Sampling]] = [
    (3, 1, 1, True, "independent"),
    (4, 2, 1, True, "independent"),
    (3, 2, 2, True, "independent"),
    (5, 3, 1, True, "independent"),
    (4, 2, 1, False, "independent"),
    (5, 2, 2, False, "independent"),
    (4, 1, 3, False, "independent"),
    (5, 2, 2, False, "disjoint"),
    (5, 1, 3, False, "disjoint"),
]


@for_each(("n", "k", "N", "replacement", "sampling"), CASES)
def test_the_profile_is_flat_at_delta_for_all_neighbours(
    n: int, k: int, N: int, replacement: bool, sampling: Sampling
) -> None:
    records = "abcdef"[:n]
    here = law(records, k, N, replacement, sampling)
    promised = bagging_guarantee(n, k, N, replacement=replacement, sampling=sampling, form="zero")
    assert promised.epsilon == 0
    delta = Draws(n, k, N, replacement, sampling).delta
    assert promised.delta >= delta
    neighbours = {"removed": records[:-1], "added": records + "x", "replaced": records[:-1] + "x"}
    for name, other in neighbours.items():
        there = law(other, k, N, replacement, sampling)
        for slope in (Fraction(1), Fraction(3, 2), Fraction(50)):
            assert hockey_stick(here, there, slope) <= delta
            assert hockey_stick(there, here, slope) <= delta
            if name == "removed":  # attained, whatever ε: an epsilon buys nothing (Theorems 5 and 6)
                assert hockey_stick(here, there, slope) == delta


@for_each(("n", "k", "N", "replacement", "sampling"), CASES)
def test_the_papers_epsilon_is_the_log_ratio_of_the_shared_draws(
    n: int, k: int, N: int, replacement: bool, sampling: Sampling
) -> None:
    records = "abcdef"[:n]
    here = law(records, k, N, replacement, sampling)
    worst = Fraction(1)
    for other in (records[:-1], records + "x"):
        there = law(other, k, N, replacement, sampling)
        worst = max(worst, *(here[draw] / there[draw] for draw in here.keys() & there.keys()))
    epsilon = bagging_guarantee(n, k, N, replacement=replacement, sampling=sampling).epsilon
    assert epsilon == pytest.approx(math.log(worst), rel=1e-14)
    assert Fraction(epsilon) >= Fraction(Decimal(worst.numerator).ln() - Decimal(worst.denominator).ln()) * (
        1 - Fraction(1, 10**26)
    )
    if N > 1 and sampling == "disjoint":  # the introduction of the source prints Theorem 4 with a factor N in front
        assert N * epsilon > 1.9 * math.log(worst)


@given(st.integers(2, 10**7), st.data())
def test_delta_is_the_least_double_above_the_exact_value(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, min(n - 1, 2000)))
    N = data.draw(st.integers(1, 20))
    for replacement, expected in ((True, 1 - Fraction(n - 1, n) ** (N * k)), (False, 1 - Fraction(n - k, n) ** N)):
        if expected > 1 - Fraction(1, 2**40):
            continue
        delta = bagging_guarantee(n, k, N, replacement=replacement).delta
        assert Fraction(delta) >= expected
        assert Fraction(math.nextafter(delta, 0)) < expected


@pytest.mark.parametrize(
    ("base", "exponent"), [(Fraction(59_999, 60_000), 90_000), (Fraction(10**9 - 1, 10**9), 10**6)]
)
def test_decimals_agree_with_whole_numbers(base: Fraction, exponent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "MAX_EXACT_BITS", 1 << 40)
    whole = exact.one_minus_power(base, exponent) if exponent < 10**5 else None
    monkeypatch.setattr(exact, "MAX_EXACT_BITS", 0)
    decimal = exact.one_minus_power(base, exponent)
    if whole is not None:
        assert whole <= decimal <= whole * (1 + Fraction(2, 10**30))
    with localcontext(prec=120):
        sharp = 1 - (exponent * (Decimal(base.numerator) / Decimal(base.denominator)).ln()).exp()
        assert Fraction(sharp) * (1 - Fraction(1, 10**90)) <= decimal <= Fraction(sharp) * (1 + Fraction(2, 10**30))


def test_logarithms_are_rounded_up() -> None:
    for ratio, times in ((Fraction(60_001, 60_000), 300), (Fraction(3, 2), 1), (Fraction(10**12 + 1, 10**12), 10**9)):
        with localcontext(prec=120):
            sharp = Fraction(times * (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln())
        assert sharp < exact.log_above(ratio, times) < sharp * (1 + Fraction(2, 10**30))


@given(st.integers(2, 500), st.integers(1, 30), st.integers(1, 8))
def test_more_draws_never_cost_less_and_independent_beats_disjoint(n: int, k: int, N: int) -> None:
    with_replacement = Draws(n, k, N, replacement=True, sampling="independent")
    more = Draws(n, k, N + 1, replacement=True, sampling="independent")
    larger = Draws(n + 1, k, N, replacement=True, sampling="independent")
    assert larger.delta < with_replacement.delta < more.delta
    assert larger.paper_epsilon < with_replacement.paper_epsilon < more.paper_epsilon
    assert (
        with_replacement.delta <= N * Draws(n, k, 1, replacement=True, sampling="independent").delta
    )  # basic composition
    if N * k < n:
        independent = Draws(n, k, N, replacement=False, sampling="independent")
        disjoint = Draws(n, k, N, replacement=False, sampling="disjoint")
        assert independent.delta <= disjoint.delta
        assert independent.paper_epsilon <= disjoint.paper_epsilon * (1 + Fraction(1, 10**25))
        assert with_replacement.delta <= independent.delta


@settings(max_examples=40)
@given(st.integers(2, 10**5), st.floats(0, 0.99), st.one_of(st.none(), st.floats(0, 3)), st.booleans())
def test_max_draws_is_the_largest_number_that_fits(
    n: int, delta: float, epsilon: float | None, replacement: bool
) -> None:
    most = bagging_max_draws(n, delta=delta, epsilon=epsilon, replacement=replacement)

    def fits(draws: int) -> bool:
        if not replacement and draws > n - 1:
            return False
        exactly = Draws(n, draws, 1, replacement, "disjoint")
        return exactly.delta <= Fraction(repr(delta)) and (
            epsilon is None or exactly.paper_epsilon <= Fraction(repr(epsilon))
        )

    assert most == 0 or fits(most)
    assert not fits(most + 1)


def test_calibration_inverts_the_guarantee() -> None:
    for draws in (1, 17, 400):
        delta = bagging_guarantee(1000, draws, form="zero").delta
        assert bagging_max_draws(1000, delta=delta) == draws


# ------------------------------------------------------------------------------------------- voters


@for_each("K", [1, 3, 5])
@for_each("Delta", [Fraction(1, 10), Fraction(2, 5)])
def test_majority_delta_is_the_worst_over_all_learners(K: int, Delta: Fraction) -> None:
    """Members that vote a when they missed the record, b and b′ when they drew it (replace-one has both)."""

    def majority(p: tuple[Fraction, ...]) -> Fraction:
        masses = [Fraction(1)]
        for share in p:
            masses = [
                (masses[i] if i < len(masses) else 0) * (1 - share) + (masses[i - 1] if i else 0) * share
                for i in range(len(masses) + 1)
            ]
        return sum(masses[(K + 1) // 2 :], Fraction(0))

    corners = {((1 - Delta) * a + Delta * b, (1 - Delta) * a + Delta * c) for a, b, c in product((0, 1), repeat=3)}
    worst = max(
        majority(tuple(p for p, _ in members)) - majority(tuple(q for _, q in members))
        for members in combinations_with_replacement(sorted(corners), K)
    )
    expected = 1 - (1 - Delta) ** ((K + 1) // 2)
    assert worst == expected
    promised = bagging_majority_delta(K, float(Delta))
    assert promised == pytest.approx(float(expected), rel=1e-14)
    assert Fraction(promised) >= 1 - (1 - Fraction(float(Delta))) ** ((K + 1) // 2)


def test_majority_delta_agrees_with_the_design() -> None:
    """The certificate accepts the plain majority of (0, Δ) voters at this δ and refuses it below."""
    K, member = 11, bagging_guarantee(60_000, 300, replacement=False, form="zero")
    delta = bagging_majority_delta(K, member.delta)
    plain = NoiseFunction(np.ones(K + 1))
    assert verify(Problem(K, member, Privacy(0.0, delta * (1 + 1e-9))), plain).margin >= 0
    with pytest.raises(NotPrivate):
        verify(Problem(K, member, Privacy(0.0, delta * (1 - 1e-6))), plain)


def test_the_guarantee_of_a_member_is_that_of_a_voter() -> None:
    member = bagging_guarantee(60_000, 300, form="zero")
    assert isinstance(member, Privacy)
    problem = Problem(K=11, voter=member, target=Privacy(0.1, 3 * member.delta))
    assert problem.voter.epsilon == 0
    solution = solve(problem)
    assert solution.certificate.margin >= 0
    assert solution.utility > 0.5
    assert bagging_guarantee(60_000, 300).epsilon == pytest.approx(0.005, abs=1e-6)


# ------------------------------------------------------------------------------------------- refusals


def test_invalid_sizes_are_refused() -> None:
    for made, valid in ((bagging_guarantee, {}), (draw_subsamples, {"n_models": 1})):
        refuses(
            made,
            {"n": 100, "subsample_size": 1, **valid},
            n=[1, 100.0],
            subsample_size=[0, True, math.nan],
            n_models=[0],
        )


def test_vacuous_and_impossible_draws_are_refused() -> None:
    with refused("subsample_size", "100"):
        bagging_guarantee(100, 100, replacement=False)
    with refused("subsample_size", "60"):
        bagging_guarantee(100, 60, 2, replacement=False, sampling="disjoint")
    with refused("n_models", "100"):
        bagging_guarantee(100, 3, 100, replacement=False, sampling="disjoint")
    with pytest.raises(InvalidInput, match="fewer models: delta rounds to 1"):
        bagging_guarantee(10_000, 20, 10**22)
    with pytest.raises(InvalidInput, match="fewer draws: delta rounds to 1"):
        bagging_guarantee(10, 10_000)
    assert bagging_guarantee(10, 20).delta < 1  # with replacement k > n is legal


def test_other_invalid_arguments_are_refused() -> None:
    with refused("form", "'exact'"):
        bagging_guarantee(10, 1, form="exact")  # type: ignore[arg-type]
    with refused("sampling", "'both'"):
        bagging_guarantee(10, 1, sampling="both")  # type: ignore[arg-type]
    with refused("replacement", "1"):
        bagging_guarantee(10, 1, replacement=1)  # type: ignore[arg-type]
    with refused("delta", "1.0"):
        bagging_max_draws(10, delta=1.0)
    with refused("epsilon", "inf"):
        bagging_max_draws(10, delta=0.1, epsilon=math.inf)
    with refused("K", "4"):
        bagging_majority_delta(4, 0.1)
    with refused("member_delta"):
        bagging_majority_delta(3, 1.0)
