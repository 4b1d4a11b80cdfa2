"""Releases converted for other libraries: never optimistic, and composed with the libraries' own mechanisms."""

from __future__ import annotations

import math
import sys

import pytest
from dp_accounting import dp_event
from dp_accounting.pld import privacy_loss_distribution

from darrm_opt import Problem, solve
from darrm_opt.accounting.bits.recursion import compose_bits
from darrm_opt.accounting.interop import as_event, as_pld, pld_accountant, privacy_map
from darrm_opt.accounting.release_profile import release_profile
from darrm_opt.errors import BackendUnavailable, InvalidInput

SOLUTION = solve(Problem.from_allowance(K=11, m=3, epsilon=0.0892, Delta=1e-4))
PROFILE = release_profile(SOLUTION.gamma, SOLUTION.problem)


def attained(queries: int, epsilon: float) -> float:
    """Return a δ that pairs of neighbours attain, but for the recursion's grid (one release needs none)."""
    if queries == 1:
        p, p_rest, q, q_rest = PROFILE.inner.moves.T
        return float(max(0.0, *(p - math.exp(epsilon) * q), *(p_rest - math.exp(epsilon) * q_rest)))
    return compose_bits([(PROFILE.inner, queries)]).delta(epsilon) * (1 - 1e-4)


EPSILONS = (0.0, 0.1, 0.2676, 1.0, 3.0)


@pytest.mark.parametrize("queries", [1, 20])
def test_the_pld_is_never_below_the_exact_account_and_close_above_one_release(queries: int) -> None:
    handed = as_pld(SOLUTION, queries=queries, discretisation=1e-3, fresh=True)
    for epsilon in EPSILONS:
        assert handed.get_delta_for_epsilon(epsilon) >= attained(queries, epsilon) - 1e-12
        if queries == 1:
            assert handed.get_delta_for_epsilon(epsilon) <= PROFILE.delta(epsilon) + 1e-4


def test_the_guard_is_part_of_the_converted_distribution() -> None:
    own = PROFILE.pld(1e-3, count=5)
    handed = as_pld(SOLUTION, queries=5, discretisation=1e-3, fresh=True)
    for epsilon in EPSILONS:
        guarded = own.mass.get_delta_for_epsilon(epsilon) + own.guard
        assert handed.get_delta_for_epsilon(epsilon) >= guarded * (1 - 2.0**-51)  # the library adds in another order


def test_composition_with_dp_sgd_in_the_librarys_accountant() -> None:
    sgd = dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.0)), 100)
    votes = dp_event.SelfComposedDpEvent(as_event(SOLUTION, fresh=True), 20)
    alone, both = pld_accountant(1e-3).compose(sgd), pld_accountant(1e-3).compose(sgd).compose(votes)
    only_votes = pld_accountant(1e-3).compose(as_event(SOLUTION, fresh=True), 20)
    delta = 0.01
    assert max(alone.get_epsilon(delta), only_votes.get_epsilon(delta)) < both.get_epsilon(delta)
    assert both.get_epsilon(2 * delta) <= alone.get_epsilon(delta) + only_votes.get_epsilon(delta)
    assert only_votes.get_epsilon(0.00608) == pytest.approx(2.563, rel=5e-3)
    assert both.ledger == dp_event.ComposedDpEvent([sgd, votes])
    direct = as_pld(SOLUTION, queries=20, discretisation=1e-3, fresh=True).compose(
        privacy_loss_distribution.from_gaussian_mechanism(2.0, value_discretization_interval=1e-3)
    )
    assert direct.get_delta_for_epsilon(3.0) > as_pld(
        SOLUTION, queries=20, discretisation=1e-3, fresh=True
    ).get_delta_for_epsilon(3.0)


def test_an_accountant_that_does_not_know_releases_refuses_them() -> None:
    assert pld_accountant().supports(as_event(SOLUTION, fresh=True))
    assert pld_accountant().supports(dp_event.ComposedDpEvent([as_event(SOLUTION, fresh=True), dp_event.NoOpDpEvent()]))
    assert not super(type(pld_accountant()), pld_accountant()).supports(dp_event.UnsupportedDpEvent())


@pytest.mark.parametrize("queries", [0, 1, 10])
def test_the_privacy_map_is_group_privacy(queries: int) -> None:
    to_profile = privacy_map(SOLUTION, queries=queries, fresh=True)
    for epsilon in EPSILONS:
        assert to_profile(0)(epsilon) == 0.0
        assert to_profile(1)(epsilon) >= attained(queries, epsilon) - 1e-12
        assert to_profile(1)(epsilon) <= to_profile(2)(epsilon) <= to_profile(3)(epsilon)
        group = to_profile(1)(epsilon / 2) * (1 + math.exp(epsilon / 2))
        assert to_profile(2)(epsilon) == pytest.approx(min(1.0, group), rel=1e-9)


def test_bad_input_is_named() -> None:
    with pytest.raises(InvalidInput, match="d_in = -1 is not valid: expected a whole number of records"):
        privacy_map(SOLUTION, fresh=True)(-1)
    with pytest.raises(InvalidInput, match="queries = 0 is not valid: expected a whole number of releases, at least 1"):
        as_pld(SOLUTION, queries=0, fresh=True)
    with pytest.raises(InvalidInput, match="epsilon = -1 is not valid"):
        privacy_map(SOLUTION, fresh=True)(1)(-1)


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting.privacy_accountant", None)
    with pytest.raises(BackendUnavailable, match=r"pip install 'darrm-opt\[accounting\]'"):
        pld_accountant()
