"""Noisy majorities: each mechanism calibrated to the total, by an account of its own γ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from darrm_opt.accounting.calibrate import calibrate
from darrm_opt.accounting.composition.closed_forms import basic_composition
from darrm_opt.accounting.errors import DeltaTooSmall
from darrm_opt.accounting.mixture import AffectedDistribution, mixture_epsilon, with_affected
from darrm_opt.accounting.release_profile import NoisyMajority
from darrm_opt.accounting.total import cheapest_total
from darrm_opt.budgeting.best_target import best_target
from darrm_opt.budgeting.sequence_design import MAX_SHARE, design_sequence, heaviest_count
from darrm_opt.comparison.baselines import certify_unscaled
from darrm_opt.comparison.compare import check_comparable
from darrm_opt.decimal_grid import GRID_DIGITS
from darrm_opt.design.certificate import verify
from darrm_opt.design.report import guarantee, text_above
from darrm_opt.design.solver import solve
from darrm_opt.errors import InvalidInput, NotPrivate
from darrm_opt.mechanisms import mechanism_class
from darrm_opt.mechanisms.base import PRECISION as FULL_PRECISION
from darrm_opt.noise import NoiseFunction
from darrm_opt.planning.options import Mechanism, Option
from darrm_opt.planning.request import MAX_EXACT_QUERIES, PlanRequest
from darrm_opt.problem import MAX_TARGET_EPSILON, Privacy, Problem

POINTS = 2001
"""Grid points of the accounts during calibration: coarse, hence fast, and sound."""

PRECISION, PURE_PRECISION = 5e-3, 1e-7
"""Share of the budget that a calibration may leave unused; at a total δ of 0, of the parameter."""

NOTHING_FITS = "Not even its noisiest setting is proved to fit the total."

TIME_IS_UP = "Not computed: the time limit was reached first."

QUICK_PRECISION = 0.02
"""The same where the accounts have to be quick."""

MAX_DELTA = 0.5
"""Largest δ of one release that is tried if chance decides how many voters a record affects."""

MAX_COUNTS = 3
"""Numbers of affected voters for which γ_opt is designed if chance decides the number."""

COIN = 1e-6
"""Share of a γ that is given up where it has no proof for a record, however unlikely, that affects all voters."""

MARGINS = (1e-9, 1e-6, 1e-3, 1e-1)
"""Shares by which the target of a γ is raised above the ε of its profile until `verify` proves it."""


def optimal(request: PlanRequest, seeds: Sequence[NoiseFunction] = ()) -> Option:
    """Return γ_opt of the best target of one release such that Q releases fit.

    Where chance decides how many voters one record affects, other γ that fit, the ``seeds``, tell which number matters.
    """
    if request.affected_distribution is not None and request.total.delta > 0:
        return _optimal_of_draw(request, request.affected_distribution, seeds)
    voters = request.released
    best = best_target(
        voters.K,
        voters.voter,
        request.queries,
        request.total,
        voters.affected,
        request.objective,
        fresh=request.fresh,
        quick=request.quick,
        stop=request.stop,
    )
    target, spent, account = best.target, best.total, best.account
    # If not by that account, it fits by basic composition, which the accounts on a grid exceed slightly.
    if spent.epsilon > request.total.epsilon:
        spent, account = basic_composition(target.epsilon, target.delta, request.queries), "simple"
        if not (spent.epsilon <= request.total.epsilon and spent.delta <= request.total.delta):
            return Option.unfit("optimal", request, "No target was found of which all releases are proved to fit.")
    why = (
        f"Every release is {guarantee(target, '.4g')}, the best split of the total over {request.queries:,} of them. "
        f"{request.composing()}"
    )
    solution = best.solution
    return Option(
        mechanism="optimal",
        voters=request.K,
        why=why,
        accuracy=request.accuracy(solution.noise),
        queries=request.queries,
        spent=spent,
        account=account,
        noise=solution.noise,
        problem=solution.problem,
        solution=solution,
    )


def _optimal_of_draw(
    request: PlanRequest, distribution: AffectedDistribution, seeds: Sequence[NoiseFunction]
) -> Option:
    """Return γ_opt for one affected voter, or for the number of them that adds most to the total.

    That number depends on γ, so a few are tried. The best target of each gives the shape; its ε and its δ are then
    scaled until the average over all numbers fits.
    """
    voters, queries, total = request.released, request.queries, request.total
    check_comparable(voters, queries, total, distribution)
    budget = Privacy(total.epsilon, min(MAX_DELTA, total.delta / max(total.delta, distribution.chances[1])))
    options = {1: _optimal_of_count(request, budget, with_affected(voters, 1))}
    while len(options) < MAX_COUNTS and not request.stop():
        budget, typical_voters = heaviest_count(voters, queries, total, distribution, seeds, fresh=request.fresh)
        if typical_voters.affected in options:
            break
        options[typical_voters.affected] = option = _optimal_of_count(request, budget, typical_voters)
        seeds = () if option.noise is None else (option.noise,)
    return max(options.values(), key=lambda option: option.accuracy or 0.0)


def _optimal_of_count(request: PlanRequest, budget: Privacy, voters: Problem) -> Option:
    """Return γ_opt for a fixed number of affected voters, made for ``budget`` and accounted for by the draw."""
    queries = request.queries
    shape = best_target(
        voters.K,
        voters.voter,
        queries,
        budget,
        voters.affected,
        request.objective,
        fresh=request.fresh,
        stop=request.stop,
    ).target

    def scaled(share: float) -> Privacy:
        return Privacy(min(share * shape.epsilon, MAX_TARGET_EPSILON), min(share * shape.delta, MAX_DELTA))

    def noise_and_cost(share: float) -> tuple[NoiseFunction, float]:
        noise = solve(Problem(voters.K, voters.voter, scaled(share), voters.affected), request.objective).noise
        return noise, cost(noise, request)[0]

    best = calibrate(
        noise_and_cost, request.total.epsilon, MAX_SHARE, guess=1.0, precision=PRECISION, stop=request.stop
    )
    if best is None:
        return nothing_fits("optimal", request)
    target = scaled(best.value)
    why = (
        f"Every release is {guarantee(target, '.4g')} for a record that affects {voters.affected} of the voters; "
        f"their total is the average over the draw. {request.composing()}"
    )
    return _option("optimal", request, best.result, best.cost, "bits", why)


def optimal_sequence(request: PlanRequest, seeds: Sequence[NoiseFunction] = ()) -> Option:
    """Return a γ made for all Q releases at once, at least as accurate as the ``seeds`` that fit."""
    name: Mechanism = "optimal_sequence"
    if request.queries == 1 and request.affected_distribution is None:
        return replace(optimal(request), mechanism=name, why="One release is no sequence: it is that of optimal.")
    if request.total.delta == 0:
        why = "At a total δ of 0 the releases' ε add up, and the best split is an equal one: see optimal."
        return Option.unfit(name, request, why, "not computed")
    if request.quick:
        why = f"A γ of its own for more than {MAX_EXACT_QUERIES:,} queries takes too long: see optimal."
        return Option.unfit(name, request, why, "not computed")
    if request.affected_distribution is not None:
        check_comparable(request.released, request.queries, request.total, request.affected_distribution)
    design = design_sequence(
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
    return _option("optimal_sequence", request, design.noise, design.total.epsilon, "bits", why)


def calibrated(name: Mechanism, request: PlanRequest) -> Option:
    """Return a mechanism with one parameter, calibrated to the total."""
    if request.total.delta == 0:
        return _calibrated_without_delta(name, request)
    kind, voters = mechanism_class(name), request.released
    is_exact = not request.quick or name == "gnmax"  # which has an account of its own, as quick as it is exact
    if voters.voter.epsilon == math.inf and request.affected_distribution is None and is_exact:
        return _calibrated_for_fixed_votes(name, request)
    most = kind.most_information(request.K, 2)

    def noise_and_cost(information: float) -> tuple[NoiseFunction, float]:
        noise = kind.of_information(request.K, 2, information).gamma
        return noise, cost(noise, request)[0]

    budget, guess = request.total.epsilon, min(most, 1 / request.K)
    best = calibrate(noise_and_cost, budget, most, guess=guess, precision=PRECISION, stop=request.stop)
    if best is None:
        return nothing_fits(name, request)
    epsilon, account = cost(best.result, request)
    words = kind.of_information(request.K, 2, best.value).words
    return _option(name, request, best.result, epsilon, account, f"{words} {request.composing()}")


def nothing_fits(name: Mechanism, request: PlanRequest) -> Option:
    """Return an option of which no setting fits, or none was found in time."""
    if request.stop():
        return Option.unfit(name, request, TIME_IS_UP, "not computed")
    return Option.unfit(name, request, NOTHING_FITS)


def _calibrated_for_fixed_votes(name: Mechanism, request: PlanRequest) -> Option:
    """Return a mechanism for voters that are taken as not private, at the parameter that every other door gives."""
    voters, queries, total = request.released, request.queries, request.total
    try:
        mechanism = mechanism_class(name).calibrated(
            request.K,
            2,
            total,
            queries,
            affected=voters.affected,
            precision=QUICK_PRECISION if request.quick else FULL_PRECISION,
        )
    except InvalidInput:
        return Option.unfit(name, request, NOTHING_FITS)
    spent = mechanism.cost(queries, total.delta)
    why = f"{mechanism.words} {request.composing()}"
    return _option(name, request, mechanism.gamma, spent.epsilon, spent.account, why)


def _calibrated_without_delta(name: Mechanism, request: PlanRequest) -> Option:
    """Return a mechanism with one parameter at a total δ of 0, each release proved private for an equal share.

    There the releases' ε add up, and no account does better: a pair with the largest loss may be shown every time.
    """
    voters, total, queries = request.released, request.total, request.queries
    kind = mechanism_class(name)
    most = kind.most_information(request.K, 2)
    # a target is put on a decimal grid: it must not come to lie above
    share = total.epsilon / queries * (1 if queries == 1 else 1 - 2 * 10.0 ** (1 - GRID_DIGITS))
    problem = Problem(voters.K, voters.voter, Privacy(share), voters.affected)

    def noise_and_cost(information: float) -> tuple[NoiseFunction, float]:
        noise = kind.of_information(request.K, 2, information).gamma
        private_noise = certify_unscaled(problem, noise)
        return (noise, math.inf) if private_noise is None else (private_noise, 0.0)

    guess = min(most, 1 / request.K)
    best = calibrate(noise_and_cost, total.epsilon, most, guess=guess, precision=PURE_PRECISION, stop=request.stop)
    if best is None:
        return nothing_fits(name, request)
    spent = basic_composition(problem.target.epsilon, 0.0, queries)
    words = kind.of_information(request.K, 2, best.value).words
    why = (
        f"{words} Each release is {text_above(problem.target.epsilon, '.4g')}-DP, and their ε "
        f"add up. {request.composing()}"
    )
    return Option(
        mechanism=name,
        voters=request.K,
        why=why,
        accuracy=request.accuracy(best.result),
        queries=queries,
        spent=spent,
        account="simple",
        noise=best.result,
        problem=problem,
    )


def cost(noise: NoiseFunction, request: PlanRequest) -> tuple[float, str]:
    """Return the total ε of Q releases of any γ at the total δ, and its account; ``inf`` if nothing is proved."""
    if request.affected_distribution is not None:
        return _mixture_cost(noise, request, request.affected_distribution)
    majority = NoisyMajority(noise, request.released)
    return cheapest_total(majority, request.queries, request.total.delta, POINTS, quick=request.quick)


def _mixture_cost(noise: NoiseFunction, request: PlanRequest, distribution: AffectedDistribution) -> tuple[float, str]:
    """Return the same if chance decides how many voters one record affects."""
    voters, queries, total = request.released, request.queries, request.total
    check_comparable(voters, queries, total, distribution)
    try:
        return mixture_epsilon(noise, voters, queries, total.delta, distribution, fresh=request.fresh), "bits"
    except DeltaTooSmall:
        return math.inf, "none"


def _option(
    name: Mechanism, request: PlanRequest, noise: NoiseFunction, epsilon: float, account: str, why: str
) -> Option:
    """Return an option of a γ other than γ_opt, with a target for which it is proved; unfit if there is none."""
    if not epsilon <= request.total.epsilon:
        return Option.unfit(name, request, "It costs more than the total.")
    problem = provable_problem(noise, request)
    # A share of a coin costs no more, and then even a record that affects all voters is not certain.
    if problem is None and request.bags is not None:
        noise = NoiseFunction((1 - COIN) * noise.values, request.K)
        problem = provable_problem(noise, request)
    if problem is None:
        return Option.unfit(name, request, "No target is proved for its γ.")
    return Option(
        mechanism=name,
        voters=request.K,
        why=why,
        accuracy=request.accuracy(noise),
        queries=request.queries,
        spent=Privacy(epsilon, request.total.delta),
        account=account,
        noise=noise,
        problem=problem,
    )


def provable_problem(noise: NoiseFunction, request: PlanRequest) -> Problem | None:
    """Return the problem of one release for which `verify` proves a γ, at the δ of the total and nearly the least ε."""
    voters, delta = request.released, request.total.delta
    try:
        least = NoisyMajority(noise, voters).profile.epsilon(delta)
    except DeltaTooSmall:
        return None
    for margin in MARGINS:
        epsilon = min(least * (1 + margin) + 1e-3 * margin, MAX_TARGET_EPSILON)
        problem = Problem(voters.K, voters.voter, Privacy(epsilon, delta), voters.affected)
        try:
            verify(problem, noise)
        except NotPrivate:
            continue
        return problem
    return None
