"""The planner where an option only just fits, does not, or is not weighed: what it says, and that what fits is proved."""

from __future__ import annotations

import math

import numpy as np
import pytest

from darrm_opt import Privacy, verify
from darrm_opt.accounting import TooMuchWork, exact_epsilon
from darrm_opt.baselines import subsampling
from darrm_opt.planning import plan, planner
from darrm_opt.planning.option import Option
from darrm_opt.planning.situation import Situation

INF = Privacy(math.inf)


def only(
    way: str, K: int, voter: Privacy, queries: int, total: Privacy, affected: int, *, fresh: bool = False
) -> Option:
    """Return the option of one way."""
    (option,) = plan(K, voter, queries, total, affected, ways=(way,), fresh=fresh).options
    return option


@pytest.mark.parametrize(("epsilon", "voters"), [(0.58, 0), (0.6, 2), (1.2, 4), (9.0, 5)])
def test_as_many_voters_are_drawn_as_the_total_allows(epsilon: float, voters: int) -> None:
    total = Privacy(epsilon, 1e-3)
    option = only("subsampling", 5, Privacy(0.3), 2, total, 5, fresh=True)
    assert option.fits == (voters > 0)
    if not option.fits:
        assert option.why.startswith("Even the answer of a single voter")
        return
    assert option.noise is not None
    assert option.problem is not None
    np.testing.assert_allclose(option.noise.values, subsampling(5, voters).values, atol=1e-12)
    assert verify(option.problem, option.noise).margin >= 0
    assert exact_epsilon(option.noise, option.problem, 2, total.delta, points=2001) <= total.epsilon * (1 + 1e-5)
    if voters < 5:
        assert exact_epsilon(subsampling(5, voters + 1), option.problem, 2, total.delta) > total.epsilon
    assert f"The majority of {voters} voters drawn anew for each query." in option.why


def test_one_answer_of_models_may_fit_where_the_models_do_not() -> None:
    asked = (5, Privacy(0.4), 1, Privacy(1.5, 1e-3), 5)
    option = only("majority", *asked)
    assert (option.fits, option.account, option.queries) == (True, "bits", 1)
    assert option.spent is not None
    assert 1.0 < option.spent.epsilon <= 1.5
    refused = only("majority", 5, Privacy(0.4), 1, Privacy(0.5, 1e-3), 5)
    assert not refused.fits
    assert refused.why.startswith("A record reaches 5 of the 5 models: together they cost ε = ")


@pytest.mark.parametrize(
    ("way", "voter", "queries", "total", "affected", "fresh", "why"),
    [
        ("fewer_voters", Privacy(1.0, 1e-6), 9, Privacy(0.5, 1e-3), 3, False, "One model alone is (1, 1e-06)-DP"),
        ("fewer_voters", Privacy(0.1), 9, Privacy(0.5, 1e-3), 3, False, "All voters fit: see majority."),
        ("fewer_voters", Privacy(0.1), 9, Privacy(0.5, 1e-3), 3, True, "Voters with fresh randomness can be drawn"),
        ("fewer_voters", INF, 9, Privacy(0.5, 1e-3), 3, False, "Voters that are not private stay so"),
        ("majority", Privacy(0.1, 1e-3), 9, Privacy(1.0, 1e-4), 3, False, "The models' own Δ, of 3 of them together"),
        ("majority", Privacy(0.1, 1e-3), 9, Privacy(1.0, 1e-4), 3, True, "No finite ε is proved at that δ"),
        ("subsampling", Privacy(1.0), 9, Privacy(0.5, 1e-4), 3, True, "Even the answer of a single voter"),
        ("subsampling", Privacy(0.1), 501, Privacy(0.5, 1e-4), 3, True, "Not weighed for more than 500 queries"),
    ],
)
def test_what_does_not_fit_says_why(
    way: str, voter: Privacy, queries: int, total: Privacy, affected: int, fresh: bool, why: str
) -> None:
    option = only(way, 5, voter, queries, total, affected, fresh=fresh)
    assert (option.fits, option.accuracy, option.spent) == (False, None, None)
    assert option.why.startswith(why)


def test_what_takes_too_much_work_is_not_weighed(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(_: Situation) -> Option:
        raise TooMuchWork("It takes a year.")

    monkeypatch.setitem(planner._WEIGH, "randomized_response", endless)
    found = plan(5, INF, 3, Privacy(2.0, 1e-3), 1, ways=("optimal", "randomized_response"))
    assert {each.way: each.fits for each in found.options} == {"optimal": True, "randomized_response": False}
    assert found.options[1].why == "Not weighed: It takes a year."


def test_where_nothing_fits_the_total_is_repeated() -> None:
    found = plan(5, INF, 3, Privacy(1.0, 1e-3), ways=("majority",))
    assert (found.verdict, found.best, found.remedies) == ("none", None, ())
    assert found.advice.startswith("No option fits: nothing gives an accuracy of ")
    assert found.advice.endswith(" over 3 queries within (1, 0.001).")


def test_private_models_whose_delta_is_too_large_are_told_what_would_do() -> None:
    found = plan(5, Privacy(0.1, 1e-3), 9, Privacy(1.0, 1e-4), 3, ways=("majority",))
    (remedy,) = found.remedies
    assert (remedy.queries, remedy.accuracy) == (None, 1.0)
    assert plan(5, Privacy(0.1, 1e-3), 9, remedy.total, 3, ways=("majority",)).verdict == "plain majority"
    assert found.warnings[0].startswith("total_delta = 0.0001 is below Delta = 0.001")


def test_a_voter_that_protects_nobody_is_told() -> None:
    found = plan(5, Privacy(25.0), 1, Privacy(1.0, 1e-3), 1, ways=("majority",))
    assert found.warnings == ("epsilon = 25 protects nobody: such a voter is as good as not private.",)
