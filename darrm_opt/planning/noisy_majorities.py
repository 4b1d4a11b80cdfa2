"""Noisy majorities: each mechanism calibrated to the total, by an account of its own γ."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from darrm_opt import baselines
from darrm_opt.accounting.composition.closed_forms import basic_composition
from darrm_opt.accounting.errors import DeltaTooSmall
from darrm_opt.accounting.mixture import AffectedDistribution, mixture_epsilon
from darrm_opt.accounting.release_profile import NoisyMajority
from darrm_opt.accounting.total import cheapest_total
from darrm_opt.aggregators.noisy_votes import GaussianNoise, LaplaceNoise, noise_function
from darrm_opt.baselines import subsampling_mixture
from darrm_opt.budgeting.best_target import best_target
from darrm_opt.budgeting.calibration import calibrate
from darrm_opt.budgeting.sequence_design import design_sequence
from darrm_opt.comparison.baselines import certify_unscaled
from darrm_opt.comparison.compare import check_comparable
from darrm_opt.decimal_grid import GRID_DIGITS
from darrm_opt.design.certificate import verify
from darrm_opt.errors import NotPrivate
from darrm_opt.noise import NoiseFunction
from darrm_opt.planning.options import Mechanism, Option
from darrm_opt.planning.request import PlanRequest
from darrm_opt.problem import MAX_TARGET_EPSILON, Privacy, Problem

POINTS = 2001
"""Grid points of the accounts during calibration: coarse, hence fast, and sound."""

PRECISION = 5e-3
"""Share of the budget that a calibration may leave unused."""

MAX_QUERIES = 500
"""Most queries for which every mechanism is compared: each account takes seconds, and γ_opt gains on the others with every query."""

NOTHING_FITS = "Not even its noisiest setting is proved to fit the total."

TIME_IS_UP = "Not computed: the time limit was reached first."

MARGINS = (1e-9, 1e-6, 1e-3, 1e-1)
"""Shares by which the target of a γ is raised above the ε of its profile until `verify` proves it."""


def optimal(request: PlanRequest) -> Option:
    """Return γ_opt of the best target of one release such that Q releases fit."""
    asked = request.released
    found = best_target(
        asked.K,
        asked.voter,
        request.queries,
        request.total,
        asked.affected,
        request.objective,
        fresh=request.fresh,
        stop=request.stop,
    )
    each, spent, account = found.target, found.total, found.account
    if (
        spent.epsilon > request.total.epsilon
    ):  # it fits by basic composition, which the accounts on a grid exceed slightly
        spent, account = basic_composition(each.epsilon, each.delta, request.queries), "simple"
        if not (spent.epsilon <= request.total.epsilon and spent.delta <= request.total.delta):
            return Option.unfit("optimal", request, "No target was found of which all releases are proved to fit.")
    why = (
        f"Every release is ({each.epsilon:.4g}, {each.delta:.4g})-DP, the best split of the total over "
        f"{request.queries:,} of them. {request.composing()}"
    )
    solution = found.solution
    accuracy = request.accuracy(solution.noise)
    return Option(
        "optimal",
        True,  # noqa: FBT003
        accuracy,
        request.queries,
        spent,
        account,
        solution.noise,
        solution.problem,
        solution,
        request.K,
        why,
    )


def optimal_sequence(request: PlanRequest, seeds: Sequence[NoiseFunction] = ()) -> Option:
    """Return a γ made for all Q releases at once, at least as accurate as the ``seeds`` that fit."""
    if request.queries == 1:
        return Option.unfit("optimal_sequence", request, "One release is no sequence: see optimal.")
    if request.total.delta == 0:
        why = "At a total δ of 0 the releases' ε add up, and the best split is an equal one: see optimal."
        return Option.unfit("optimal_sequence", request, why)
    if request.affected_distribution is not None:
        check_comparable(request.released, request.queries, request.total, request.affected_distribution)
    found = design_sequence(
        request.released,
        request.queries,
        request.total,
        request.objective,
        seeds=seeds,
        distribution=request.affected_distribution,
        fresh=request.fresh,
        stop=request.stop,
    )
    why = f"Each bit reveals as much as, repeated {request.queries:,} times, costs the total. {request.composing()}"
    return _option("optimal_sequence", request, found.noise, found.total.epsilon, "bits", why)


def gnmax(request: PlanRequest) -> Option:
    """Return the winner of two counts with Gaussian noise."""
    return _calibrated(
        "gnmax",
        request,
        lambda inverse: noise_function(request.K, GaussianNoise.of_sigma(1 / inverse)),
        4.0,
        lambda inverse: f"Gaussian noise of σ = {1 / inverse:.4g} votes on each count.",
    )


def saa(request: PlanRequest) -> Option:
    """Return the winner of two counts with Laplace noise."""
    return _calibrated(
        "saa",
        request,
        lambda inverse: noise_function(request.K, LaplaceNoise(1 / inverse)),
        8.0,
        lambda inverse: f"Laplace noise of scale {1 / inverse:.4g} votes on each count.",
    )


def randomized_response(request: PlanRequest) -> Option:
    """Return randomised response: the majority, kept with one probability whatever the votes."""
    K = request.K
    return _calibrated(
        "randomized_response",
        request,
        lambda share: NoiseFunction.from_upper_half(np.full((K + 1) // 2, share), K),
        1.0,
        lambda share: (
            f"The majority is right with probability {(1 + share) / 2:.4g}, however clear the vote is (γ = {share:.4g})."
        ),
    )


def subsampling(request: PlanRequest) -> Option:
    """Return the majority of a few voters drawn anew for each query, how many by a coin."""
    K = request.K
    return _calibrated(
        "subsampling",
        request,
        lambda voters: subsampling_mixture(K, voters),
        K - 1.0 + K % 2,
        lambda voters: f"The majority of {voters:.4g} voters on average, drawn anew for each query.",
    )


def permute_and_flip(request: PlanRequest) -> Option:
    """Return permute-and-flip: Laplace noise on the difference of the counts."""
    return _calibrated(
        "permute_and_flip",
        request,
        lambda rate: baselines.permute_and_flip(request.K, rate),
        8.0,
        lambda rate: f"Laplace (or geometric) noise of scale {1 / rate:.4g} votes on the difference of the counts.",
    )


def exponential_mechanism(request: PlanRequest) -> Option:
    """Return the exponential mechanism."""
    return _calibrated(
        "exponential_mechanism",
        request,
        lambda rate: baselines.exponential_mechanism(request.K, rate),
        16.0,
        lambda rate: f"Either answer with probability proportional to e^({rate:.4g}·votes).",
    )


def _calibrated(
    name: Mechanism,
    request: PlanRequest,
    make: Callable[[float], NoiseFunction],
    most: float,
    words: Callable[[float], str],
) -> Option:
    """Return a mechanism with one parameter, calibrated to the total."""
    if request.total.delta == 0:
        return _calibrated_without_delta(name, request, make, most, words)

    def made(value: float) -> tuple[NoiseFunction, float]:
        noise = make(value)
        return noise, cost(noise, request)[0]

    budget = request.total.epsilon
    guess = min(most, 1 / request.K)
    end = calibrate(made, budget, most, guess=guess, precision=PRECISION, stop=request.stop)
    if end is None:
        return Option.unfit(name, request, TIME_IS_UP if request.stop() else NOTHING_FITS)
    epsilon, account = cost(end.result, request)
    return _option(name, request, end.result, epsilon, account, f"{words(end.value)} {request.composing()}")


def _calibrated_without_delta(
    name: Mechanism,
    request: PlanRequest,
    make: Callable[[float], NoiseFunction],
    most: float,
    words: Callable[[float], str],
) -> Option:
    """Return a mechanism with one parameter at a total δ of 0, calibrated so that each release is proved private for an equal share.

    There the releases' ε add up, and no account does better: a pair with the largest loss may be shown every time.
    """
    asked, total, queries = request.released, request.total, request.queries
    # a target is put on a decimal grid: it must not come to lie above
    share = total.epsilon / queries * (1 if queries == 1 else 1 - 2 * 10.0 ** (1 - GRID_DIGITS))
    problem = Problem(asked.K, asked.voter, Privacy(share), asked.affected)

    def made(value: float) -> tuple[NoiseFunction, float]:
        noise = make(value)
        proved = certify_unscaled(problem, noise)
        return (noise, math.inf) if proved is None else (proved, 0.0)

    end = calibrate(made, total.epsilon, most, guess=min(most, 1 / request.K), precision=PRECISION, stop=request.stop)
    if end is None:
        return Option.unfit(name, request, TIME_IS_UP if request.stop() else NOTHING_FITS)
    spent = basic_composition(problem.target.epsilon, 0.0, queries)
    why = (
        f"{words(end.value)} Each release is {problem.target.epsilon:.4g}-DP, and their ε add up. {request.composing()}"
    )
    accuracy = request.accuracy(end.result)
    return Option(name, True, accuracy, queries, spent, "simple", end.result, problem, None, request.K, why)  # noqa: FBT003


def cost(noise: NoiseFunction, request: PlanRequest) -> tuple[float, str]:
    """Return the total ε of Q releases of any γ at the total δ, and its account; ``inf`` if nothing is proved."""
    if request.affected_distribution is not None:
        return _mixture_cost(noise, request, request.affected_distribution)
    return cheapest_total(NoisyMajority(noise, request.released), request.queries, request.total.delta, POINTS)


def _mixture_cost(noise: NoiseFunction, request: PlanRequest, distribution: AffectedDistribution) -> tuple[float, str]:
    """Return the same if chance decides how many voters one record affects."""
    asked, queries, total = request.released, request.queries, request.total
    check_comparable(asked, queries, total, distribution)
    try:
        return mixture_epsilon(noise, asked, queries, total.delta, distribution, fresh=request.fresh), "bits"
    except DeltaTooSmall:
        return math.inf, "none"


def _option(
    name: Mechanism, request: PlanRequest, noise: NoiseFunction, epsilon: float, account: str, why: str
) -> Option:
    """Return an option of a γ other than γ_opt, with a target for which it is proved; unfit if there is none."""
    if not epsilon <= request.total.epsilon:
        return Option.unfit(name, request, "It costs more than the total.")
    problem = provable_problem(noise, request)
    if problem is None:
        return Option.unfit(name, request, "No target is proved for its γ.")
    spent = Privacy(epsilon, request.total.delta)
    accuracy = request.accuracy(noise)
    return Option(name, True, accuracy, request.queries, spent, account, noise, problem, None, request.K, why)  # noqa: FBT003


def provable_problem(noise: NoiseFunction, request: PlanRequest) -> Problem | None:
    """Return the problem of one release for which `verify` proves a γ, at the δ of the total and nearly the least ε."""
    asked, delta = request.released, request.total.delta
    try:
        least = NoisyMajority(noise, asked).profile.epsilon(delta)
    except DeltaTooSmall:
        return None
    for margin in MARGINS:
        epsilon = min(least * (1 + margin) + 1e-3 * margin, MAX_TARGET_EPSILON)
        problem = Problem(asked.K, asked.voter, Privacy(epsilon, delta), asked.affected)
        try:
            verify(problem, noise)
        except NotPrivate:
            continue
        return problem
    return None
