"""Majorities with noise, each turned up as far as the total allows, by an account of its own γ."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from darrm_opt import baselines
from darrm_opt.accounting.accounts import bits_total, profile_total
from darrm_opt.accounting.allowance import MOST_PROFILE_QUERIES, largest_allowance
from darrm_opt.accounting.composition import simple
from darrm_opt.accounting.reach import Reach, reached_epsilon
from darrm_opt.accounting.refusals import BelowLeakFloor, TooMuchWork
from darrm_opt.accounting.release import NoisyMajority
from darrm_opt.accounting.sequence_design import design_sequence
from darrm_opt.accounting.turning import turned_up
from darrm_opt.baselines import subsampling_mixture
from darrm_opt.design.certificate import verify
from darrm_opt.ensembles.comparable import check_comparable
from darrm_opt.ensembles.private_baselines import proved_whole
from darrm_opt.ensembles.voting import GaussianNoise, LaplaceNoise, noise_function
from darrm_opt.errors import BackendUnavailable, NotPrivate
from darrm_opt.grid import GRID_DIGITS
from darrm_opt.noise import NoiseFunction
from darrm_opt.planning.option import Option, Way
from darrm_opt.planning.situation import Situation
from darrm_opt.problem import LARGEST_TARGET_EPSILON, Privacy, Problem

POINTS = 2001
"""Grid points of the accounts while knobs are turned: coarse, hence fast, and sound."""

PRECISION = 5e-3
"""Share of the budget that a knob may leave unused."""

MANY = 500
"""Queries beyond which not every way is weighed: each account takes seconds, and γ_opt gains on the others with every query."""

NOTHING_FITS = "Even its noisiest setting is not proved to fit the total."

TIME_IS_UP = "Not weighed: the time limit was reached first."

MARGINS = (1e-9, 1e-6, 1e-3, 1e-1)
"""Shares by which the target of a γ is raised above the ε of its profile until `verify` proves it."""


def optimal(situation: Situation) -> Option:
    """Return γ_opt of the best target of one release of which Q fit."""
    asked = situation.released
    found = largest_allowance(
        asked.K,
        asked.voter,
        situation.queries,
        situation.total,
        asked.affected,
        situation.objective,
        fresh=situation.fresh,
        stop=situation.stop,
    )
    each, spent, account = found.target, found.total, found.account
    if spent.epsilon > situation.total.epsilon:  # it fits by the sums, which the accounts on a grid miss by a little
        spent, account = simple(each.epsilon, each.delta, situation.queries), "simple"
        if not (spent.epsilon <= situation.total.epsilon and spent.delta <= situation.total.delta):
            return Option.unfit("optimal", situation, "No target was found of which all releases are proved to fit.")
    why = (
        f"Every release is ({each.epsilon:.4g}, {each.delta:.4g})-DP, the best split of the total over "
        f"{situation.queries:,} of them. {situation.composing()}"
    )
    solution = found.solution
    accuracy = situation.accuracy(solution.noise)
    return Option(
        "optimal",
        True,  # noqa: FBT003
        accuracy,
        situation.queries,
        spent,
        account,
        solution.noise,
        solution.problem,
        solution,
        situation.K,
        why,
    )


def optimal_sequence(situation: Situation, seeds: Sequence[NoiseFunction] = ()) -> Option:
    """Return a γ made for all Q releases at once, at least as accurate as the ``seeds`` that fit."""
    if situation.queries == 1:
        return Option.unfit("optimal_sequence", situation, "One release is no sequence: see optimal.")
    if situation.total.delta == 0:
        why = "At a total δ of 0 the releases' ε add up, and the best split is an equal one: see optimal."
        return Option.unfit("optimal_sequence", situation, why)
    if situation.reach is not None:
        check_comparable(situation.released, situation.queries, situation.total, situation.reach)
    found = design_sequence(
        situation.released,
        situation.queries,
        situation.total,
        situation.objective,
        seeds=seeds,
        reach=situation.reach,
        fresh=situation.fresh,
        stop=situation.stop,
    )
    why = f"Every bit may show what, shown {situation.queries:,} times, costs the total, and no more. {situation.composing()}"
    return _option("optimal_sequence", situation, found.noise, found.total.epsilon, "bits", why)


def gnmax(situation: Situation) -> Option:
    """Return the winner of two counts with Gaussian noise."""
    return _turned(
        "gnmax",
        situation,
        lambda inverse: noise_function(situation.K, GaussianNoise.of_sigma(1 / inverse)),
        4.0,
        lambda inverse: f"Gaussian noise of σ = {1 / inverse:.4g} votes on each count.",
    )


def saa(situation: Situation) -> Option:
    """Return the winner of two counts with Laplace noise."""
    return _turned(
        "saa",
        situation,
        lambda inverse: noise_function(situation.K, LaplaceNoise(1 / inverse)),
        8.0,
        lambda inverse: f"Laplace noise of scale {1 / inverse:.4g} votes on each count.",
    )


def randomized_response(situation: Situation) -> Option:
    """Return randomised response: the majority with one probability, whatever the votes."""
    K = situation.K
    return _turned(
        "randomized_response",
        situation,
        lambda share: NoiseFunction.from_upper_half(np.full((K + 1) // 2, share), K),
        1.0,
        lambda share: f"The majority with probability {share:.4g}, else a fair coin, however clear the vote is.",
    )


def subsampling(situation: Situation) -> Option:
    """Return the majority of a few voters drawn anew for each query, how many by a coin."""
    K = situation.K
    return _turned(
        "subsampling",
        situation,
        lambda voters: subsampling_mixture(K, voters),
        K - 1.0 + K % 2,
        lambda voters: f"The majority of {voters:.4g} voters on average, drawn anew for each query.",
    )


def permute_and_flip(situation: Situation) -> Option:
    """Return permute-and-flip: Laplace noise on the difference of the counts."""
    return _turned(
        "permute_and_flip",
        situation,
        lambda rate: baselines.permute_and_flip(situation.K, rate),
        8.0,
        lambda rate: f"Laplace (or geometric) noise of scale {1 / rate:.4g} votes on the difference of the counts.",
    )


def exponential_mechanism(situation: Situation) -> Option:
    """Return the exponential mechanism."""
    return _turned(
        "exponential_mechanism",
        situation,
        lambda rate: baselines.exponential_mechanism(situation.K, rate),
        16.0,
        lambda rate: f"Either answer with probability proportional to e^({rate:.4g}·votes).",
    )


def _turned(
    name: Way,
    situation: Situation,
    make: Callable[[float], NoiseFunction],
    most: float,
    words: Callable[[float], str],
) -> Option:
    """Return a way with one knob, turned up as far as the total allows."""
    if situation.total.delta == 0:
        return _pure(name, situation, make, most, words)

    def made(value: float) -> tuple[NoiseFunction, float]:
        noise = make(value)
        return noise, cost(noise, situation)[0]

    budget = situation.total.epsilon
    guess = min(most, 1 / situation.K)
    end = turned_up(made, budget, most, guess=guess, precision=PRECISION, stop=situation.stop)
    if end is None:
        return Option.unfit(name, situation, TIME_IS_UP if situation.stop() else NOTHING_FITS)
    epsilon, account = cost(end.made, situation)
    return _option(name, situation, end.made, epsilon, account, f"{words(end.value)} {situation.composing()}")


def _pure(
    name: Way,
    situation: Situation,
    make: Callable[[float], NoiseFunction],
    most: float,
    words: Callable[[float], str],
) -> Option:
    """Return a way with one knob at a total δ of 0, turned up as far as each release is proved private for an equal share.

    There the releases' ε add up, and no account does better: a pair with the largest loss may be shown every time.
    """
    asked, total, queries = situation.released, situation.total, situation.queries
    # a target is put on a decimal grid: it must not come to lie above
    share = total.epsilon / queries * (1 if queries == 1 else 1 - 2 * 10.0 ** (1 - GRID_DIGITS))
    problem = Problem(asked.K, asked.voter, Privacy(share), asked.affected)

    def made(value: float) -> tuple[NoiseFunction, float]:
        noise = make(value)
        proved = proved_whole(problem, noise)
        return (noise, math.inf) if proved is None else (proved, 0.0)

    end = turned_up(
        made, total.epsilon, most, guess=min(most, 1 / situation.K), precision=PRECISION, stop=situation.stop
    )
    if end is None:
        return Option.unfit(name, situation, TIME_IS_UP if situation.stop() else NOTHING_FITS)
    spent = simple(problem.target.epsilon, 0.0, queries)
    why = f"{words(end.value)} Each release is {problem.target.epsilon:.4g}-DP, and their ε add up. {situation.composing()}"
    accuracy = situation.accuracy(end.made)
    return Option(name, True, accuracy, queries, spent, "simple", end.made, problem, None, situation.K, why)  # noqa: FBT003


def cost(noise: NoiseFunction, situation: Situation) -> tuple[float, str]:
    """Return what Q releases of any γ cost at the total δ, and by which account; ``inf`` where nothing is proved."""
    if situation.reach is not None:
        return _drawn_cost(noise, situation, situation.reach)
    counts = Counter({NoisyMajority(noise, situation.released): situation.queries})
    try:
        return bits_total(counts, situation.total.delta, POINTS).epsilon, "bits"
    except BelowLeakFloor:
        return math.inf, "none"
    except TooMuchWork:
        if situation.queries > MOST_PROFILE_QUERIES:
            return math.inf, "none"
    try:
        return profile_total(counts, situation.total.delta).epsilon, "profile"
    except (BelowLeakFloor, TooMuchWork, BackendUnavailable):
        return math.inf, "none"


def _drawn_cost(noise: NoiseFunction, situation: Situation, reach: Reach) -> tuple[float, str]:
    """Return the same where chance decides how many voters one record reaches."""
    asked, queries, total = situation.released, situation.queries, situation.total
    check_comparable(asked, queries, total, reach)
    try:
        return reached_epsilon(noise, asked, queries, total.delta, reach, fresh=situation.fresh), "bits"
    except BelowLeakFloor:
        return math.inf, "none"


def _option(name: Way, situation: Situation, noise: NoiseFunction, epsilon: float, account: str, why: str) -> Option:
    """Return an option of a γ that is no γ_opt, with a target for which it is proved; unfit if there is none."""
    if not epsilon <= situation.total.epsilon:
        return Option.unfit(name, situation, "It costs more than the total.")
    problem = proved_for(noise, situation)
    if problem is None:
        return Option.unfit(name, situation, "No target is proved for its γ.")
    spent = Privacy(epsilon, situation.total.delta)
    accuracy = situation.accuracy(noise)
    return Option(name, True, accuracy, situation.queries, spent, account, noise, problem, None, situation.K, why)  # noqa: FBT003


def proved_for(noise: NoiseFunction, situation: Situation) -> Problem | None:
    """Return the problem of one release for which `verify` proves a γ, at the δ of the total and nearly the least ε."""
    asked, delta = situation.released, situation.total.delta
    try:
        least = NoisyMajority(noise, asked).profile.epsilon(delta)
    except BelowLeakFloor:
        return None
    for margin in MARGINS:
        epsilon = min(least * (1 + margin) + 1e-3 * margin, LARGEST_TARGET_EPSILON)
        problem = Problem(asked.K, asked.voter, Privacy(epsilon, delta), asked.affected)
        try:
            verify(problem, noise)
        except NotPrivate:
            continue
        return problem
    return None
