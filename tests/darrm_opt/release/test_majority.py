"""The mechanism as a whole: frequencies, charges, refusals, and an independent audit.

Tests of frequencies assert their power: a γ off by 1 % would fail.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from itertools import combinations_with_replacement

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from support.cases import for_each
from support.refusals import refused

from darrm_opt import NoiseFunction, NotPrivate, NotProven, Privacy, Problem, Solution, solve
from darrm_opt.accounting import BudgetExceeded, PrivacyBudget
from darrm_opt.accounting.total import exact_epsilon
from darrm_opt.audit import Audit, Claim, audit
from darrm_opt.errors import InvalidInput
from darrm_opt.mechanisms import mechanism_class
from darrm_opt.mechanisms.noise_function import BLOCK, CertifiedNoiseFunction
from darrm_opt.release import ExactCoins, PrivateVote, SeededRandomnessForTestsOnly
from darrm_opt.tables.votes import checked_votes

SIGNIFICANCE = 1e-6
POWER = 0.999
OFF = 0.99

PAPER = Problem.from_allowance(K=11, m=3, epsilon=0.0892, Delta=1e-4)
EVEN = Problem.from_allowance(K=6, m=2, epsilon=0.3)
PUBLIC_TEACHERS = Problem(11, Privacy(math.inf), Privacy(0.2676, 3e-4), 1)


@cache
def solved(problem: Problem) -> Solution:
    found: Solution = solve(problem)
    return found


def seeded(problem: Problem, seed: int = 0) -> PrivateVote:
    return PrivateVote(solved(problem), source=SeededRandomnessForTestsOnly(seed))


def with_ones(l: int, K: int, rows: int) -> NDArray[np.uint8]:
    """Return rows of votes with l ones, as a view of one row."""
    return np.broadcast_to((np.arange(K) < l).astype(np.uint8), (rows, K))


def chance_of_one(noise: NoiseFunction, l: int) -> float:
    return float((1 + noise.signed[l]) / 2)


def critical(n: int, p: float) -> tuple[int, int]:
    """Return the counts within which an exact two-sided binomial test accepts p."""
    low, high = stats.binom.ppf(SIGNIFICANCE / 2, n, p), stats.binom.isf(SIGNIFICANCE / 2, n, p)
    return int(low), int(high)


def draws(p: float, g: float) -> int:
    """Return enough draws to distinguish (1 + 0.99·g)/2 from p = (1 + g)/2: (9 σ / shift)², at most 4 million."""
    return 1000 if g == 0 else min(4_000_000, int(81 * max(p * (1 - p), 0.01) / (0.005 * g) ** 2))


def power(n: int, p: float, truth: float) -> float:
    """Return the probability that the test of p refuses samples of ``truth``."""
    low, high = critical(n, p)
    return float(stats.binom.cdf(low - 1, n, truth) + stats.binom.sf(high, n, truth))


# ------------------------------------------------------------------------------------------ frequencies


@pytest.mark.parametrize("problem", [PAPER, EVEN, PUBLIC_TEACHERS])
def test_frequencies_are_those_of_gamma_at_every_number_of_ones(problem: Problem) -> None:
    noise, release = solved(problem).noise, seeded(problem)
    for l in range(problem.K + 1):
        p, g = chance_of_one(noise, l), float(noise.signed[l])
        n = draws(p, g)
        if abs(g) > 0.4:
            assert power(n, p, (1 + OFF * g) / 2) >= POWER
        ones = int(release.release_many(with_ones(l, problem.K, n)).sum())
        low, high = critical(n, p)
        assert low <= ones <= high, f"l = {l}"


@pytest.mark.parametrize("l", [0, 4, 11])
def test_a_gamma_that_is_off_by_one_percent_fails(l: int) -> None:
    # The same test against a wrong sampler.
    noise = solved(PAPER).noise
    p, g = chance_of_one(noise, l), float(noise.signed[l])
    n = draws(p, g)
    wrong = PrivateVote((noise.values * OFF, PAPER), source=SeededRandomnessForTestsOnly(3))
    ones = int(wrong.release_many(with_ones(l, 11, n)).sum())
    low, high = critical(n, p)
    assert not low <= ones <= high


def test_a_tie_is_a_fair_coin_for_any_gamma_at_the_tie() -> None:
    # γ(K/2) does not affect the proof, as g(K/2) = 0, so it must not affect the release.
    gamma = solved(EVEN).noise.values.copy()
    gamma[3] = 1.0
    release, n = PrivateVote((gamma, EVEN), source=SeededRandomnessForTestsOnly(4)), 200_000
    ones = int(release.release_many(with_ones(3, 6, n)).sum())
    low, high = critical(n, 0.5)
    assert low <= ones <= high


def test_the_bits_are_algorithm_1_for_every_row() -> None:
    # With the same randomness, by the algorithm of the paper, across block borders.
    votes = np.random.default_rng(6).integers(0, 2, (2 * BLOCK + 17, 6), dtype=np.uint8)
    bits = seeded(EVEN, 9).release_many(votes)
    source = SeededRandomnessForTestsOnly(9)
    gamma = solved(EVEN).gamma
    coins = ExactCoins(np.where(2 * np.arange(7) == 6, 0.0, gamma))
    for start in (0, BLOCK, 2 * BLOCK):
        ones = votes[start : start + BLOCK].sum(axis=1, dtype=np.intp)
        keep, fair = coins.toss(ones, source)
        plain = [int(2 * l > 6) if kept else int(coin) for l, kept, coin in zip(ones.tolist(), keep, fair, strict=True)]
        assert bits[start : start + BLOCK].tolist() == plain


# ------------------------------------------------------------------------------------------ audit


def corners(problem: Problem) -> dict[str, tuple[float, float]]:
    """Return the possible corners (p, p′) of a voter by name; with Δ > 0 those that can be the worst."""
    e, D = problem.voter.epsilon, problem.voter.delta
    x, y = (1.0, 0.0) if e == math.inf else ((math.exp(e) + D) / (math.exp(e) + 1), (1 - D) / (math.exp(e) + 1))
    found = {"zero": (0.0, 0.0), "one": (1.0, 1.0), "xy": (x, y)}
    return found | ({"down": (D, 0.0)} if D else {})


def chance(problem: Problem, voters: list[float]) -> float:
    """Return Pr[release = 1] for voters that vote 1 with these probabilities."""
    masses = np.array([1.0])
    for p in voters:
        masses = np.convolve(masses, [1 - p, p])
    return float((1 + masses @ solved(problem).noise.signed) / 2)


def worst_for(problem: Problem, epsilon: float) -> list[tuple[float, float]]:
    """Return (p, p′) of the voters with the largest p − e^ε·p′ of the release, among all multisets of `corners`."""
    points = corners(problem)
    best: tuple[float, list[tuple[float, float]]] = (-math.inf, [])
    for names in combinations_with_replacement(points, problem.K):
        if sum(name not in ("zero", "one") for name in names) <= problem.affected:
            voters = [points[name] for name in names]
            p, q = (chance(problem, [pair[side] for pair in voters]) for side in (0, 1))
            best = max(best, (p - math.exp(epsilon) * q, voters), key=lambda found: found[0])
    return best[1]


def audited(problem: Problem, voters: list[tuple[float, float]], claim: Privacy, *, rounds: int = 1) -> Audit:
    """Return the audit of a claim about ``rounds`` releases, of voters (p, p′) on two neighbouring datasets."""
    release, rng = seeded(problem, 12), np.random.default_rng(11)

    def draws(sides: Sequence[int], count: int) -> list[list[int]]:
        chances = [[pair[side] for pair in voters] for side in sides]
        votes = [(rng.random((count * rounds, problem.K)) < chance).astype(np.uint8) for chance in chances]
        return [release.release_many(each).reshape(count, rounds).sum(axis=1, dtype=int).tolist() for each in votes]

    asked = Claim(claim, problem.K, 2)
    return audit(lambda _: 0, asked, pairs=[(0, 1)], samples=800_000 // rounds, confidence=1 - 1e-6, draws=draws)


@pytest.mark.parametrize("problem", [PAPER, PUBLIC_TEACHERS, Problem.from_allowance(K=5, m=2, epsilon=0.5)])
def test_an_audit_does_not_refute_the_guarantee_and_refutes_half_of_it(problem: Problem) -> None:
    claim = problem.target
    voters = worst_for(problem, claim.epsilon / 2)
    assert audited(problem, voters, claim).verdict == "not refuted"
    assert audited(problem, voters, Privacy(claim.epsilon / 2, claim.delta)).verdict == "refuted"


def test_an_audit_of_twenty_releases_does_not_refute_their_total_and_refutes_half_of_it() -> None:
    # m = 1: γ is |2l/K − 1|, so with all voters at (x, y) each release is randomised response, the worst case.
    problem, delta = Problem.from_allowance(K=11, m=1, epsilon=0.3), 0.02
    total = exact_epsilon(solved(problem).noise, problem, 20, delta, fresh=True)
    voters = [corners(problem)["xy"]] * 11
    assert audited(problem, voters, Privacy(total, delta), rounds=20).verdict == "not refuted"
    assert audited(problem, voters, Privacy(total / 2, delta), rounds=20).verdict == "refuted"


# ------------------------------------------------------------------------------------------ arguments


def test_only_a_private_gamma_is_accepted() -> None:
    with pytest.raises(NotPrivate, match="gamma is not private"):
        PrivateVote((np.ones(12), PAPER))
    tampered = solved(PAPER).noise.values.copy()
    tampered[[4, 7]] *= 1.01
    forged = Solution(**{**solved(PAPER).__dict__, "noise": NoiseFunction(tampered)})  # its certificate claims privacy
    with pytest.raises(NotPrivate):
        PrivateVote(forged)
    # A γ within the noise of the numbers is refused as not proved.
    edge = solved(PUBLIC_TEACHERS).noise.values * (1 + 5e-13)
    with pytest.raises(NotProven, match="cannot be shown to be private"):
        PrivateVote((edge, PUBLIC_TEACHERS))
    with refused("release"):
        PrivateVote(np.ones(12))  # type: ignore[arg-type]  # refused


def test_one_row_gives_one_release() -> None:
    release = seeded(EVEN)
    assert release.release([1, 1, 1, 1, 1, 1]) in (0, 1)
    mechanism = release.mechanism
    assert isinstance(mechanism, CertifiedNoiseFunction)
    assert (mechanism.problem, mechanism.gamma) == (EVEN, solved(EVEN).noise)
    assert mechanism.certificate.margin >= 0
    assert seeded(EVEN).release_many(np.empty((0, 6), dtype=int)).shape == (0,)


@for_each("kind", [np.uint8, np.int64, np.uint64, np.float32, np.float64, np.bool_])
def test_votes_of_any_type_are_equivalent(kind: type) -> None:
    votes = np.random.default_rng(1).integers(0, 2, (500, 6))
    expected = seeded(EVEN, 2).release_many(votes)
    assert np.array_equal(seeded(EVEN, 2).release_many(votes.astype(kind)), expected)
    assert np.array_equal(seeded(EVEN, 2).release_many(np.asfortranarray(votes.astype(kind))), expected)
    assert np.array_equal(seeded(EVEN, 2).release_many(votes.astype(kind).tolist()), expected)


@for_each("bad", [2, -1, 0.5, math.nan, math.inf, 256, 10**30, "1", None, 1 + 0j, [1]])
def test_invalid_votes_are_refused_and_never_shown(bad: object) -> None:
    votes = [[1, 0, 1, 0, 1, 0], [0, 1, bad, 1, 0, 1]]
    with pytest.raises(InvalidInput) as refused:
        seeded(EVEN).release_many(votes)
    message = str(refused.value)
    assert message.startswith("votes = ")
    assert refused.value.__cause__ is None
    for shown in ("[1", "0, 1", "nan", "inf", repr(bad) if isinstance(bad, float) else "[["):
        assert shown not in message.replace("0 or 1", "").replace("(N, 6)", "")


def test_votes_of_another_shape_are_refused() -> None:
    release = seeded(EVEN)
    with refused("votes", "(2, 5)"):
        release.release_many(np.zeros((2, 5)))
    with refused("votes", "(6,)"):
        release.release_many(np.zeros(6))
    with refused("votes", "(5,)"):
        release.release(np.zeros(5))
    with refused("votes", "'rows of different lengths'"):
        checked_votes([[1, 0], [1]], 2)
    text = r"^votes = 'int64, not all 0 or 1' is not valid: expected votes that are 0 or 1\. They are not shown here\. "
    with pytest.raises(InvalidInput, match=text):
        checked_votes(np.array([[1, 2]]), 2)


# ------------------------------------------------------------------------------------------ charges


def test_an_accountant_in_memory_is_charged_before_the_release() -> None:
    accountant = PrivacyBudget(Privacy(1.25), "simple")
    release = PrivateVote(solved(EVEN), accountant, fresh=True)
    release.release_many(np.ones((2, 6), dtype=int))
    assert accountant.events == {EVEN.target: 2}
    with pytest.raises(BudgetExceeded, match="Nothing was charged"):
        release.release(np.ones(6, dtype=int))
    assert accountant.events == {EVEN.target: 2}


def test_voters_trained_once_are_charged_once_as_models() -> None:
    accountant, votes = PrivacyBudget(Privacy(2.0), "simple"), np.ones((3, 6), dtype=int)
    release = PrivateVote(solved(EVEN), accountant)
    release.release_many(votes[:0])
    assert accountant.events == {}
    for _ in range(3):
        release.release_many(votes)
    assert accountant.events == {EVEN.voter: EVEN.affected}
    with pytest.raises(BudgetExceeded, match=r"the models that one record reaches, .* because fresh is False"):
        PrivateVote(solved(EVEN), accountant).release(votes[0])  # these may be other models
    assert accountant.events == {EVEN.voter: EVEN.affected}
    # Voters that are not private are charged release by release, fresh or not.
    teachers = Problem(3, Privacy(math.inf), Privacy(0.5, 0.01), 1)
    for fresh in (True, False):
        charged = PrivacyBudget(Privacy(2.0, 0.1))
        PrivateVote(solved(teachers), charged, fresh=fresh).release_many(np.ones((2, 3), dtype=int))
        assert charged.events == {teachers.target: 2}


def test_a_budget_is_charged_the_stated_guarantee_or_else_the_largest_loss() -> None:
    """So a saved budget continues with events of the same kind."""
    for name, is_stated in (("exponential", True), ("subsampling", False)):
        mechanism, charged = mechanism_class(name).of(3, 2, 0.4), PrivacyBudget(Privacy(2.0))
        ((bounds, _),) = mechanism.bounds(2)
        loss = bounds.event()
        assert (bounds.privacy is not None, bounds.privacy == loss) == (is_stated, False)
        PrivateVote(mechanism, charged).release([1, 1, 1])
        assert charged.events == {bounds.privacy if is_stated else loss: 1}


def test_votes_that_are_refused_cost_nothing() -> None:
    accountant = PrivacyBudget(Privacy(5.0))
    with pytest.raises(InvalidInput):
        PrivateVote(solved(EVEN), accountant).release([1, 1, 1, 1, 1, 2])
    assert accountant.events == {}


@for_each("byte", [2, 3, 128, 200, 255])
def test_a_boolean_is_one_vote_for_any_stored_byte(byte: int) -> None:
    votes = np.frombuffer(bytes([byte, 0, 0, byte, 1, 1]), dtype=np.bool_).reshape(2, 3)
    assert checked_votes(votes, 3).tolist() == [[1, 0, 0], [1, 1, 1]]
    certain = Problem(3, Privacy(30.0), Privacy(30.0), 1)  # γ = 1 up to rounding
    assert PrivateVote(solved(certain)).release_many(votes).tolist() == [0, 1]


def test_ids_need_a_release_log() -> None:
    text = r"^release_id = 'monday' is not valid: expected None\. Only a ReleaseLog knows releases by name\.$"
    with pytest.raises(InvalidInput, match=text):
        seeded(EVEN).release([1] * 6, "monday")
    with refused("budget", "3.0"):
        PrivateVote(solved(EVEN), 3.0)  # type: ignore[arg-type]  # refused
