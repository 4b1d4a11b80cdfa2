"""Signs: the exact privacy of randomised signs, and releases like those of votes."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from support.refusals import refused

from darrm_opt import Privacy, PrivateVote, Problem, solve
from darrm_opt.accounting import BudgetExceeded, PrivacyBudget
from darrm_opt.mechanisms import mechanism_class
from darrm_opt.randomness import ExactCoins, SeededRandomnessForTestsOnly
from darrm_opt.release import randomised_signs, release_signs, signs
from darrm_opt.rounding import EXPONENT_BITS, exp_bounds

SOLUTION = solve(Problem(5, Privacy(0.8), Privacy(1.5)))


@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 0.8, math.log(3), 5.0, 700.0])
def test_a_sign_is_as_private_as_stated(epsilon: float, monkeypatch: pytest.MonkeyPatch) -> None:
    tossed: list[float] = []

    class Watched(ExactCoins):
        def __init__(self, probabilities: list[float]) -> None:
            tossed.extend(probabilities)
            super().__init__(probabilities)

    monkeypatch.setattr(signs, "ExactCoins", Watched)
    randomised_signs([1.0], epsilon)
    kept = Fraction(tossed[0])
    low, _ = exp_bounds(epsilon)
    assert kept < 1
    assert kept / (1 - kept) <= Fraction(low, 1 << EXPONENT_BITS)
    assert float(kept) == pytest.approx(1 / (1 + math.exp(-epsilon)), rel=1e-14)


def test_signs_are_kept_with_the_stated_probability() -> None:
    given = np.array([[1.0, -2.0], [0.0, 3.0]])
    many = np.tile(given, (20_000, 1, 1))
    sent = randomised_signs(many, math.log(3), SeededRandomnessForTestsOnly(1))
    assert (sent.shape, str(sent.dtype), {*np.unique(sent).tolist()}) == (many.shape, "int8", {-1, 1})
    kept = (sent == np.where(given > 0, 1, -1)).mean(axis=0)
    assert np.all(np.abs(kept - 0.75) < 5 * math.sqrt(0.75 * 0.25 / 20_000))


def test_signs_are_released_like_votes() -> None:
    table = np.random.default_rng(2).choice([-1, 1], (5, 1000))
    votes = PrivateVote(SOLUTION, fresh=True, source=SeededRandomnessForTestsOnly(3)).release_many(table.T > 0)
    found = release_signs(PrivateVote(SOLUTION, fresh=True, source=SeededRandomnessForTestsOnly(3)), table)
    assert found.tolist() == np.where(votes > 0, 1, -1).tolist()


def test_refused_signs_are_not_charged() -> None:
    budget = PrivacyBudget(Privacy(4.0))
    vote = PrivateVote(SOLUTION, budget, fresh=True)
    for bad in ([[1, -1]] * 4, [[1, 0]] * 5, [[1, math.nan]] * 5, [1] * 5):
        with refused("signs"):
            release_signs(vote, bad)
    with refused("vote"):
        release_signs(PrivateVote(mechanism_class("laplace").of(5, 3, 4.0)), [[1]] * 5)
    with pytest.raises(BudgetExceeded):
        release_signs(vote, [[1, -1, 1]] * 5)
    assert release_signs(vote, [[1, -1]] * 5).shape == (2,)
    for epsilon in (0.0, math.inf, math.nan):
        with refused("epsilon"):
            randomised_signs([1], epsilon)
