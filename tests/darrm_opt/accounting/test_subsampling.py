"""Amplification by subsampling: above the value of ball arithmetic by the charge for rounding and no more."""

from __future__ import annotations

import math
from typing import Any

import pytest
from support.cases import for_each

from darrm_opt.accounting.sampling import Sampling, amplify_by_subsampling
from darrm_opt.errors import InvalidInput
from darrm_opt.problem import Privacy
from darrm_opt.rounding import ULP
from darrm_opt.voters import PrivacyProfile

flint = pytest.importorskip("flint")
LEAST = math.ulp(0.0)


def exact_epsilon(epsilon: float, rate: float) -> Any:
    flint.ctx.prec = 3000
    return (1 + flint.arb(rate) * (flint.arb(epsilon).exp() - 1)).log()


@for_each("rate", [LEAST, 1e-310, 1e-200, 1e-17, 1e-3, 0.2, 0.5, 0.999, 1 - ULP])
def test_epsilon_exceeds_the_exact_one_by_the_charge(rate: float) -> None:
    for epsilon in (LEAST, 1e-300, 1e-9, 0.3, 1.0, 1.001, 3.0, 36.0, 200.0, 700.0, 735.0, 744.0, 800.0):
        found, exact = flint.arb(amplify_by_subsampling(Privacy(epsilon), rate).epsilon), exact_epsilon(epsilon, rate)
        charged = (8 * exact + (4 * epsilon if epsilon > 1 else 0)) * ULP
        assert exact <= found <= epsilon, epsilon
        assert found - exact >= min(0.5 * charged, 0.9 * (epsilon - exact)), epsilon
        subnormal = 0 if rate > 1e-290 or epsilon < 700 else 4 * LEAST / (flint.arb(rate) + flint.arb(-epsilon).exp())
        assert found - exact <= 1.6 * charged + subnormal + 2 * flint.arb(LEAST), epsilon


@for_each("epsilon", [0.0, 0.3, 1.0, 1.7, 40.0, 1e300, math.inf])
def test_a_rate_of_1_does_not_amplify(epsilon: float) -> None:
    for delta in (0.0, LEAST, 1e-6, 0.5):
        assert amplify_by_subsampling(Privacy(epsilon, delta), 1) == Privacy(epsilon, delta)


def test_an_amplified_epsilon_is_at_least_0() -> None:
    assert amplify_by_subsampling(Privacy(0.0), 0.5) == Privacy(0.0)
    assert amplify_by_subsampling(Privacy(math.inf), 0.5) == Privacy(math.inf)
    assert amplify_by_subsampling(Privacy(1e300), 0.5).epsilon == 1e300
    for epsilon in (0.5, 2.0, math.inf):
        for delta in (LEAST, 1e-300, 1e-6, 0.3, 1 - ULP):
            found, exact = amplify_by_subsampling(Privacy(epsilon, delta), 0.3).delta, flint.arb(0.3) * flint.arb(delta)
            assert exact <= flint.arb(found) <= exact * (1 + 4 * ULP) + flint.arb(LEAST)


@for_each("rate", [0.0, -0.1, 1 + ULP, 1.5, math.inf, math.nan, True, "1"])
def test_a_rate_out_of_range_is_refused(rate: Any) -> None:
    said = rf"^rate = {rate!r} is not valid: expected a share of the records, above 0 and at most 1"
    with pytest.raises(InvalidInput, match=said):
        amplify_by_subsampling(Privacy(0.5, 1e-6), rate)


@for_each(
    ("sampling", "words"),
    [
        (Sampling(1000, 50), "50 of 1,000 records drawn anew for every query, by their own coins"),
        (
            Sampling(1000, rate=1, labels=3),
            "a share 1 of 1,000 records drawn anew for every query, by their own coins, for 3 labels each",
        ),
        (
            Sampling(1000, rate=0.25, neighbours="replace-one"),
            "a share 0.25 of 1,000 records drawn anew for every query, by their own coins",
        ),
        (
            Sampling(1000, 5, scheme="without-replacement"),
            "5 of 1,000 records drawn anew for every query, without replacement",
        ),
        (
            Sampling(1000, 2, scheme="each-voter"),
            "2 of 1,000 records drawn anew by each voter for every query, without replacement",
        ),
        (
            Sampling(1000, scheme="random-allocation", among=10, times=2),
            "each of 1,000 records in 2 of every 10 queries, by its own coins",
        ),
    ],
)
def test_the_fields_of_a_sampling_must_fit_its_scheme(sampling: Sampling, words: str) -> None:
    assert sampling.words == words
    assert Sampling.from_record(sampling.record()) == sampling
    assert ("among" in sampling.record()) == (sampling.scheme == "random-allocation")


def test_a_voter_with_its_own_sample_is_amplified_at_every_point() -> None:
    own = Sampling(10, 2, scheme="each-voter")
    points = Privacy(1.0, 1e-6), Privacy(2.0, 0.0)
    amplified = [amplify_by_subsampling(point, 0.2) for point in points]
    assert own.voter(points[0]) == amplified[0]
    profile = own.voter(PrivacyProfile([(point.epsilon, point.delta) for point in points]))
    assert profile.points == PrivacyProfile([(point.epsilon, point.delta) for point in amplified]).points
    for other in (Sampling(10, 2), Sampling(10, 2, scheme="each-voter-with-replacement")):
        with pytest.raises(InvalidInput, match="each-voter with one label"):
            other.voter(points[0])
    for name in ("among", "times"):
        with pytest.raises(InvalidInput, match=f"^{name} cannot be combined"):
            Sampling(10, 2, **{name: 2})  # type: ignore[arg-type]
