"""Candidates: the mechanisms that the planner compares, each as useful as the total allows.

γ of one release, γ of all releases, and every registered mechanism, with the account that holds for the voters. For
votes taken as not private it is the tightest account of the mechanism itself (`darrm_opt.accounting.total`); for
private voters or a draw of subsamples, an account of its γ. Tables and checked noise are in
`darrm_opt.planning.class_candidates`, the plain majority in `darrm_opt.planning.plain_majority`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from darrm_opt.accounting.accounts import PLANNED, SLOW
from darrm_opt.accounting.calibrate import calibrate
from darrm_opt.accounting.guarantee import ReleaseGuarantee
from darrm_opt.accounting.mixture import (
    AffectedDistribution,
    BaggedMajority,
    count_groups,
    with_affected,
)
from darrm_opt.accounting.release_profile import NoisyMajority
from darrm_opt.accounting.total import cost as account_cost
from darrm_opt.accounting.total import estimated_epsilon, total_of
from darrm_opt.design.certificate import verify
from darrm_opt.design.constraint import PrivacyConstraint
from darrm_opt.design.report import guarantee
from darrm_opt.design.schedule import binding_family
from darrm_opt.design.solver import solve
from darrm_opt.errors import DeltaTooSmall, InvalidInput, NotPrivate, TooMuchWork
from darrm_opt.mechanisms import VoteMechanism, mechanism_class
from darrm_opt.mechanisms.noise_function import NoiseFunctionMechanism
from darrm_opt.noise import NoiseFunction
from darrm_opt.planning.baselines import certify_unscaled
from darrm_opt.planning.best_target import BestTarget, best_target, equal_share, likely_pairs
from darrm_opt.planning.option import Option
from darrm_opt.planning.question import MAX_EXACT_QUERIES, Question
from darrm_opt.planning.sequence_design import MAX_SHARE, design_sequence, heaviest_count
from darrm_opt.problem import MAX_TARGET_EPSILON, Privacy, Problem
from darrm_opt.rounding import multiple_up

PRECISION, PURE_PRECISION = 1e-4, 1e-7
"""Share of the budget that a calibration may leave unused; at a total δ of 0, relative precision of the parameter."""

MIXTURE_PRECISION = 5e-3  # as `PRECISION`, for an account that averages over many counts
QUICK_PRECISION = 2e-5  # as `PRECISION`, from an estimate that is nearly right

PROFILE_PRECISION = 1e-3
"""As `PRECISION`, for voters with several points of a profile, from an estimate that is nearly right."""

LIKELY_MARGIN = 1.25e-3
"""Share of the total by which the likely pairs usually cost less than all: then one proof is enough."""

MAX_DELTA = 0.5  # largest δ of one release that is tried if the number of affected voters is random
MAX_COUNTS = 3  # number of counts of affected voters for which γ_opt is designed if the count is random

COIN = 1e-6
"""Share of a γ that is replaced by a coin if it has no proof for an improbable record that affects all voters."""

MARGINS = (1e-9, 1e-6, 1e-3, 1e-1)
"""Relative increases of a γ's target over the ε of its profile, tried until `verify` proves it."""

MAX_MIXTURE_STEPS = 15_000
"""Releases × counts of affected voters in one account of a draw: a minute or two for all mechanisms."""

PRIVATE_STEPS = 25
"""Number of private voters by which the time of a step grows once more: the region of their bits has more sides."""


def optimal(question: Question, seeds: Sequence[NoiseFunction] = ()) -> Option:
    """Return γ_opt of the best target of one release such that Q releases fit.

    If the number of affected voters is random, the ``seeds``, other γ that fit, show which number matters.
    """
    if question.affected_distribution is not None and question.total.delta > 0:
        return _optimal_of_draw(question, question.affected_distribution, seeds)
    best = best_target_of(question, question.released, question.queries, question.total, quick=question.quick)
    target, noise = best.target, best.solution.noise
    if best.total.epsilon > question.total.epsilon:
        return Option.unfit("optimal", question, "No target was found at which all releases are proved to fit.")
    # A δ beyond the total's identifies the γ, and says nothing of the total.
    split = (
        f"γ was designed for {guarantee(target, '.4g')} per release; the total is proved from γ itself, so this δ does "
        "not add up."
        if target.delta > question.total.delta
        else f"Every release is {guarantee(target, '.4g')}, the best split of the total over {question.queries:,} of "
        "them."
    )
    why = f"{split} {question.composing()}"
    return Option.fitting(
        "optimal",
        question,
        why,
        (question.accuracy(noise), 1.0),
        best.total,
        best.account,
        noise=noise,
        queries=question.queries,
        parameters={"epsilon": target.epsilon, "delta": target.delta},
        mechanism=_mechanism_of(noise, question),
        problem=best.solution.problem,
        solution=best.solution,
    )


def best_target_of(
    question: Question, voters: Problem, queries: int, total: Privacy, *, quick: bool = False
) -> BestTarget:
    """Return the best target for a number of queries within a total, for the objective and searches of a question."""
    asked = (voters.K, voters.voter, queries, total, voters.affected, question.gamma_objective)
    return best_target(*asked, fresh=question.fresh, quick=quick, stop=question.stop)


def _optimal_of_draw(question: Question, distribution: AffectedDistribution, seeds: Sequence[NoiseFunction]) -> Option:
    """Return γ_opt for one affected voter, or for the number of them that adds most to the total."""
    # That number depends on γ, so a few are tried. The best target of each gives the shape; its ε and δ are then scaled
    # until the average over all numbers fits.
    voters, queries, total = question.released, question.queries, question.total
    check_draw(voters, queries, total, distribution)
    budget = Privacy(total.epsilon, min(MAX_DELTA, total.delta / max(total.delta, distribution.chances[1])))
    options = {1: _optimal_of_count(question, budget, with_affected(voters, 1))}
    while len(options) < MAX_COUNTS and not question.stop():
        budget, typical_voters = heaviest_count(voters, queries, total, distribution, seeds, fresh=question.fresh)
        if typical_voters.affected in options:
            break
        options[typical_voters.affected] = option = _optimal_of_count(question, budget, typical_voters)
        seeds = () if option.noise is None else (option.noise,)
    return max(options.values(), key=lambda option: option.utility or 0.0)


def _optimal_of_count(question: Question, budget: Privacy, voters: Problem) -> Option:
    """Return γ_opt for a fixed number of affected voters, made for ``budget`` and accounted for by the draw."""
    shape = best_target_of(question, voters, question.queries, budget).target

    # ε and δ are scaled together: `best_target` has found their ratio.
    def scaled(share: float) -> Privacy:
        return Privacy(min(share * shape.epsilon, MAX_TARGET_EPSILON), min(share * shape.delta, MAX_DELTA))

    def noise_and_cost(share: float) -> tuple[NoiseFunction, float]:
        noise = solve(Problem(voters.K, voters.voter, scaled(share), voters.affected), question.gamma_objective).noise
        return noise, cost(noise, question)[0]

    # The target is for one number of affected voters; the average over the draw may be below or above the budget.
    best = calibrate(
        noise_and_cost, question.total.epsilon, MAX_SHARE, guess=1.0, precision=MIXTURE_PRECISION, stop=question.stop
    )
    if best is None:
        return Option.nothing_fits("optimal", question)
    target = scaled(best.value)
    why = (
        f"Every release is {guarantee(target, '.4g')} for a record that affects {voters.affected} of the voters; "
        f"their total is the average over the draw. {question.composing()}"
    )
    return _option("optimal", question, best.result, best.cost, "bits", why)


def optimal_sequence(question: Question, seeds: Sequence[NoiseFunction] = ()) -> Option:
    """Return a γ designed for all Q releases at once, at least as accurate as the ``seeds`` that fit."""
    name = "optimal_sequence"
    if question.queries == 1 and question.affected_distribution is None:
        return replace(optimal(question), name=name, why="A single release is not a sequence: see optimal.")
    # Its γ is calibrated by the exact recursion on bits, whose time grows with the queries.
    if question.quick:
        why = f"Designing a γ for more than {MAX_EXACT_QUERIES:,} queries takes too long: see optimal."
        return Option.unfit(name, question, why, "not computed")
    if question.total.delta == 0:
        why = "At a total δ of 0 the releases' ε add up, and the best split is an equal one: see optimal."
        return Option.unfit(name, question, why, "not computed")
    # Before any work: with a draw, a calibration is many accounts of a minute each.
    if question.affected_distribution is not None:
        check_draw(question.released, question.queries, question.total, question.affected_distribution)
    design = design_sequence(
        question.released,
        question.queries,
        question.total,
        question.gamma_objective,
        # The region of a γ that fits can be searched too, so the answer is never worse than a seed (`sequence_design`).
        seeds=seeds,
        distribution=question.affected_distribution,
        fresh=question.fresh,
        stop=question.stop,
    )
    why = (
        f"γ is designed for all {question.queries:,} releases at once; their exact total is proved to stay within the "
        f"budget. {question.composing()}"
    )
    return _option("optimal_sequence", question, design.noise, design.total.epsilon, "bits", why)


def calibrated_option(name: str, question: Question) -> Option:
    """Return a mechanism with one parameter at its most useful value at which all queries fit the total."""
    queries, total, sampling = question.queries, question.total, question.sampling
    fixed = question.released.voter.epsilon == math.inf and question.affected_distribution is None
    try:
        if fixed or sampling is not None:  # the same parameter as from every other interface
            # The time of the account of bits grows with the number of queries.
            skip = ("bits",) if question.quick and sampling is None else ()
            mechanism = mechanism_class(name).calibrated(
                question.K,
                question.classes,
                total,
                queries,
                affected=question.affected,
                sampling=sampling,
                quick=question.classes == 2,  # convolutions for a mean number of voters take seconds there
                skip=skip,
            )
            # By the accounts of the calibration, so that what fitted there fits here.
            spent = account_cost(mechanism, queries, total.delta, sampling, skip=skip)
            epsilon, account = spent.epsilon, spent.account
        else:
            mechanism = _calibrated_gamma(name, question)
            epsilon, account = cost(mechanism.gamma, question)
    except InvalidInput as err:
        if err.argument == "classes":
            return Option.unfit(name, question, f"It is for {err.accepted} classes.", "does not apply")
        return Option.nothing_fits(name, question)
    why = f"{mechanism.words} {question.composing()}"
    parameters = {mechanism.parameter: mechanism.value}
    if question.classes > 2 or sampling is not None:
        shares = question.vote_law.leader_shares(mechanism)
        return Option.of_mechanism(name, question, mechanism, shares, spent, parameters, why=why)
    # Between two classes the mechanism is a γ, with a target that `verify` proves and a file can carry.
    return _option(name, question, mechanism.gamma, epsilon, account, why, parameters, mechanism if fixed else None)


def _calibrated_gamma(name: str, question: Question) -> VoteMechanism:
    """Return a mechanism for private voters, or a draw, whose γ is what composes."""
    voters, queries, total = question.released, question.queries, question.total
    estimate: Callable[[VoteMechanism], float | None] | None = None
    precision = PRECISION

    def by_guarantee(mechanism: VoteMechanism) -> float | None:
        return estimated_epsilon([(_guarantee(mechanism.gamma, question), queries)], total.delta)

    if not total.delta:
        precision = PURE_PRECISION
    elif question.affected_distribution is not None:
        precision, estimate = MIXTURE_PRECISION, by_guarantee
        check_draw(voters, queries, total, question.affected_distribution)
    elif question.quick:
        precision, estimate = QUICK_PRECISION, by_guarantee

    elif len(voters.voter.points) > 1:  # by likely pairs: the proof of an account is much slower
        precision, constraint = PROFILE_PRECISION, PrivacyConstraint.of(voters)
        multisets = binding_family(constraint)

        def estimate(mechanism: VoteMechanism) -> float | None:
            likely = likely_pairs(mechanism.gamma, constraint, multisets)
            near = estimated_epsilon([(likely, queries)], total.delta)
            return None if near is None else near / (1 - LIKELY_MARGIN)

    def spent(mechanism: VoteMechanism) -> float:
        epsilon, _ = cost(mechanism.gamma, question)
        return epsilon if total.delta or epsilon == math.inf else 0.0  # only an equal share is accounted for there

    return mechanism_class(name).calibrated(
        question.K,
        2,
        total,
        queries,
        affected=question.affected,
        precision=precision,
        spent=spent,
        estimate=estimate,
        stop=question.stop,
    )


def cost(noise: NoiseFunction, question: Question) -> tuple[float, str]:
    """Return the total ε of Q releases of any γ at the total δ, and its account; ``inf`` if nothing is proved."""
    queries, total = question.queries, question.total
    if not total.delta:  # the ε add up, each proved for an equal share
        share = _equal_share_problem(question)
        fits = certify_unscaled(share, noise) is not None
        return (multiple_up(queries, share.target.epsilon), "simple") if fits else (math.inf, "none")
    skip = SLOW if question.quick and question.affected_distribution is None else ()
    found = total_of([(_guarantee(noise, question), queries)], total.delta, effort=PLANNED, skip=skip)
    return found.epsilon, found.account


def _guarantee(noise: NoiseFunction, question: Question) -> ReleaseGuarantee:
    """Return what is proved of one release of a γ."""
    if question.affected_distribution is None:
        return NoisyMajority(noise, question.released).guarantee
    return BaggedMajority(noise, question.released, question.affected_distribution, question.fresh).guarantee


def mixture_steps(problem: Problem, queries: int, total: Privacy, distribution: AffectedDistribution) -> float:
    """Return the size of one account of a draw, in the unit of `MAX_MIXTURE_STEPS`."""
    counts = max(1, len(count_groups(problem, queries, distribution, total.delta)[0]))
    return queries * counts * (1.0 if problem.voter.epsilon == math.inf else max(1.0, problem.K / PRIVATE_STEPS))


def check_draw(problem: Problem, queries: int, total: Privacy, distribution: AffectedDistribution | None) -> None:
    """Raise `TooMuchWork`, with a feasible request, if the accounts of a draw would take more than a minute or two."""
    if distribution is None or (steps := mixture_steps(problem, queries, total, distribution)) <= MAX_MIXTURE_STEPS:
        return
    fewer = int(queries * MAX_MIXTURE_STEPS / steps)
    raise TooMuchWork(
        f"{queries} releases of {problem.K} voters, averaged over the draw of their subsamples, would take minutes. "
        f"Use at most about {fewer} queries, fewer voters, or leave out n and subsample_size: "
        f"this assumes affected = {problem.K}, which is also safe but less useful."
    )


def _mechanism_of(noise: NoiseFunction, question: Question) -> VoteMechanism | None:
    """Return a γ as a mechanism if its own account proves the total."""
    if question.bags is not None or question.released.voter.epsilon < math.inf:
        return None
    return NoiseFunctionMechanism(noise, affected=question.affected)


def _option(
    name: str,
    question: Question,
    noise: NoiseFunction,
    epsilon: float,
    account: str,
    why: str,
    parameters: dict[str, float] | None = None,
    mechanism: VoteMechanism | None = None,
) -> Option:
    """Return an option of a γ other than γ_opt, with a target for which it is proved; unfit if there is none."""
    if not epsilon <= question.total.epsilon:
        return Option.unfit(name, question, "It costs more than the total.")
    problem: Problem | None = None
    if question.total.delta == 0:  # the profile has no rounded-up ε there
        exact = _equal_share_problem(question)
        certified = certify_unscaled(exact, noise)
        noise, problem = (noise, None) if certified is None else (certified, exact)
    problem = problem or provable_problem(noise, question)
    # Mixing in a coin costs nothing, and bounds the odds even for a record that affects all voters.
    if problem is None and question.bags is not None:
        noise = NoiseFunction((1 - COIN) * noise.values, question.K)
        problem = provable_problem(noise, question)
    if problem is None:
        return Option.unfit(name, question, "No target of one release is proved for its γ.")
    return Option.fitting(
        name,
        question,
        why,
        (question.accuracy(noise), 1.0),
        Privacy(epsilon, question.total.delta),
        account,
        noise=noise,
        queries=question.queries,
        parameters={"epsilon_each": problem.target.epsilon} if parameters is None else parameters,
        mechanism=mechanism or _mechanism_of(noise, question),
        problem=problem,
    )


def provable_problem(noise: NoiseFunction, question: Question) -> Problem | None:
    """Return the problem of one release for which `verify` proves a γ, at the total's δ and nearly the smallest ε."""
    voters, delta = question.released, question.total.delta
    profile = NoisyMajority(noise, voters).profile
    try:
        least = profile.epsilon(delta)
    except DeltaTooSmall:
        if delta:
            return None
        least = profile.max_loss  # at δ = 0 the profile proves no ε because of its rounding; `verify` does
    for margin in MARGINS:
        epsilon = min(least * (1 + margin) + 1e-3 * margin, MAX_TARGET_EPSILON)
        problem = Problem(voters.K, voters.voter, Privacy(epsilon, delta), voters.affected)
        try:
            verify(problem, noise)
        except NotPrivate:
            continue
        return problem
    return None


def _equal_share_problem(question: Question) -> Problem:
    """Return the problem of one release whose ε, added up, is within the total."""
    share = equal_share(question.total, question.queries) if question.queries > 1 else question.total
    voters = question.released
    return Problem(voters.K, voters.voter, share, voters.affected)
