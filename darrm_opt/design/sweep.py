"""Sweep: γ_opt for many allowances m; and its inverse, the smallest parameter at which γ_opt reaches a given utility.

A multiset that binds at one m nearly binds at the next, so each solve starts from the rows of the last.

The inverse finds the smallest m, target ε or voter's ε at which γ_opt reaches a utility or an agreement, by bisection
over decimal numbers of a few digits. Both numbers at its end were solved: the one that reaches the goal, and the one
below it, which does not. Neither the guarantee of the returned γ nor the statements about the two numbers rest on the
search.

For m and for the target ε the utility never falls (a γ private at one target is private at any weaker one), so the
bound of the number below is a proof for every smaller one. With m fixed, a smaller ε of the voters makes both the
voters and the release more private: there the answer is a crossing, usually the only one, but that is not proved.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from darrm_opt.accuracy import disagreement
from darrm_opt.arguments import field_number, real_number
from darrm_opt.design.constraint import Counts
from darrm_opt.design.objective import AnyObjective, Objective, as_objective
from darrm_opt.design.solution import Solution
from darrm_opt.design.solver import Shape, solve_warm
from darrm_opt.errors import InvalidInput, Rule
from darrm_opt.fields import FIELDS
from darrm_opt.noise import NoiseFunction
from darrm_opt.problem import Privacy, Problem
from darrm_opt.rounding import up
from darrm_opt.search import largest_count_between

MIN_SOLVE_SECONDS = 1e-3  # time limit of a solve once the total is used up [s]


@dataclass(frozen=True)
class Tradeoff:
    """γ_opt at many target ε.

    Attributes:
        target_epsilons: [nats], in the given order, shape (many,).
        solutions: one per target.
    """

    target_epsilons: tuple[float, ...]
    solutions: tuple[Solution, ...]

    @property
    def utilities(self) -> tuple[float, ...]:
        """Utility of each solution."""
        return tuple(solution.utility for solution in self.solutions)


def tradeoff(
    problem: Problem,
    ms: Sequence[float],
    objective: AnyObjective | str = "rectangular",
    shape: Shape = "free",
    *,
    delta: float | None = None,
    **options: Any,
) -> Tradeoff:
    """Return γ_opt for many allowances m of the same voters.

    Args:
        problem: its K, voters and affected voters are used; its target is not.
        ms: allowances, each > 0; the target ε themselves [nats] if the voters' ε is 0 or inf, for which m is undefined.
        objective: as in `solve`.
        shape: as in `solve`.
        delta: δ of every release [probability]; default 1 − (1−Δ)^m for each m.
        options: ``backend``, ``tolerance``, ``time_limit`` (per solve) as in `solve`.

    Returns:
        Certified solutions in the given order.

    Guarantees:
        The same solutions as separate calls of `solve`; only faster.

    Raises:
        InvalidInput: an m out of range, or no m.
    """
    if len(ms) == 0:
        raise InvalidInput("ms", list(ms), "at least one allowance")
    problems = [problem.with_allowance(m, delta) for m in ms]
    solutions = dict(solve_sweep(problems, objective, shape, **options))
    target_epsilons = tuple(problem.target.epsilon for problem in problems)
    return Tradeoff(target_epsilons, tuple(solutions[i] for i in range(len(problems))))


def solve_sweep(
    problems: Sequence[Problem],
    objective: AnyObjective | str = "rectangular",
    shape: Shape = "free",
    *,
    total_time_limit: float | None = None,
    **options: Any,
) -> Iterator[tuple[int, Solution]]:
    """Yield the index of each problem and its γ_opt, the strictest target first.

    Guarantees: The same solutions as separate calls of `solve`; only faster, as each starts from the rows of the last.
    """
    deadline = None if total_time_limit is None else time.monotonic() + total_time_limit
    rows: Counts | None = None
    for i in sorted(range(len(problems)), key=lambda i: problems[i].target.epsilon):
        if deadline is not None:
            options["time_limit"] = max(deadline - time.monotonic(), MIN_SOLVE_SECONDS)
        solution, rows = solve_warm(problems[i], objective, shape, rows=rows, **options)
        yield i, solution


Parameter = Literal["m", "target_epsilon", "epsilon"]
"""The parameter to find: the allowance, the target ε, or the voters' ε."""

UtilityMeasure = Literal["utility", "agreement"]
"""The measure to reach: the share of the noiseless utility, or the probability that the bit is the majority."""

MIN_EXPONENT = {"m": -3, "target_epsilon": -6, "epsilon": -4}
"""Powers of ten at which the grid of each parameter begins."""

MAX_SEARCHED_EPSILON = 100.0  # largest target ε that is tried [nats]

DIGITS = 3

FULL_SLACK = 1e-12  # a utility or agreement of 1 is reached up to the repair's scaling, which costs about this much


@dataclass(frozen=True)
class Neighbour:
    """The grid number next below the answer, which does not reach the goal.

    Attributes:
        value: the number.
        reached: utility or agreement of its γ_opt.
        bound: proven bound on that of any γ that is private there.
        solution: its γ_opt, certified.
    """

    value: float
    reached: float
    bound: float
    solution: Solution


@dataclass(frozen=True)
class LeastParameter:
    """The smallest value of a privacy parameter at which the certified γ_opt reaches a goal.

    Attributes:
        parameter: "m", "target_epsilon" or "epsilon" (of one voter, with m fixed).
        value: of the parameter.
        measure: "utility" or "agreement".
        wanted: the goal in that measure.
        reached: the measure of the γ of ``solution``.
        solution: γ_opt at that value, certified for exactly that problem.
        below: the grid number next below, and what it reaches; None if the smallest number reaches the goal.
    """

    parameter: Parameter
    value: float
    measure: UtilityMeasure
    wanted: float
    reached: float
    solution: Solution
    below: Neighbour | None

    @property
    def is_least(self) -> bool:
        """Whether it is proved that no smaller number with these digits suffices; of the smallest tried, only 0 is."""
        if self.below is None:
            return self.value == 0
        return self.parameter != "epsilon" and self.below.bound < _threshold(self.wanted)


def least_parameter(
    K: int,
    *,
    parameter: Parameter = "m",
    utility: float | None = None,
    agreement: float | None = None,
    m: float | None = None,
    epsilon: float | None = None,
    Delta: float = 0.0,
    delta: float | None = None,
    affected: int | None = None,
    profile: Privacy | None = None,
    objective: AnyObjective | str = "rectangular",
    shape: Shape = "free",
    digits: int = DIGITS,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> LeastParameter:
    """Return the smallest m, target ε or voter's ε whose certified γ_opt reaches a utility or an agreement.

    Args:
        K: number of voters, ≥ 1.
        parameter: the parameter to find. "m", up to K; "target_epsilon", up to 100 nats, also if m is undefined;
            "epsilon", the ε of one voter at a given m.
        utility: target share of the noiseless utility, in (0, 1]; give this or ``agreement``.
        agreement: target probability that the released bit is the majority, under the objective's prior, in (0.5, 1];
            the objective then uses that measure.
        m: allowance; with "epsilon" only.
        epsilon: ε of one voter [nats], ≥ 0 or ``inf``; not with "epsilon".
        Delta: Δ of one voter [probability], in [0, 1).
        delta: δ of the release [probability]; default 1 − (1−Δ)^m at each m, or Δ without m.
        affected: voters that one record can influence, 1..K; default K.
        profile: privacy profile of a voter instead of epsilon and Delta; with "target_epsilon" only.
        objective: as in `solve`.
        shape: as in `solve`.
        digits: significant digits of the answer, 2 to 10.
        progress: called with the number of solves done and the expected total.
        options: ``backend``, ``tolerance``, ``time_limit`` (per solve) as in `solve`.

    Returns:
        The number, its γ_opt, and the grid number next below it with what that reaches.

    Guarantees:
        The γ is private for the problem at exactly the returned number, and reaches the goal (1 up to `FULL_SLACK`).
        `LeastParameter.is_least` says whether it is proved that no smaller number with these digits suffices: for m and
        the target ε nearly always, unless 0.001 or 1e-6, the smallest number tried, reaches it.

    Raises:
        InvalidInput: an argument is out of range, or no number that is tried reaches the goal.

    Source: ours.

    >>> least = least_parameter(11, epsilon=0.1, utility=0.95)
    >>> least.value, round(least.reached, 4), least.below.value, least.below.reached < 0.95, least.is_least
    (3.6, 0.9501, 3.59, True, True)
    """
    goal = as_objective(objective)
    measure, wanted = _requested_measure(utility, agreement)
    if measure == "agreement":
        goal = with_agreement(goal)
    problem_at(parameter, 1.0, K, m, epsilon, Delta, delta, affected, profile)  # rejects invalid arguments
    field_number(digits, "digits")
    grid = _Grid(MIN_EXPONENT[parameter], digits, parameter)
    solutions: dict[int, Solution] = {}
    rows: Counts | None = None
    steps = grid.index_of(_largest_value(parameter, K, m, epsilon)) + 1

    def falls_short(index: int) -> bool:
        nonlocal rows
        if progress is not None:
            progress(len(solutions), (steps + 1).bit_length())
        problem = problem_at(parameter, grid.value(index), K, m, epsilon, Delta, delta, affected, profile)
        solutions[index], rows = solve_warm(problem, goal, shape, rows=rows, **options)
        return utility_of(solutions[index].noise, goal, measure) < _threshold(wanted)

    # −1 stands for "none falls short", and `steps` for "all do": every other index that is returned was solved, and so
    # was its successor
    last = largest_count_between(falls_short, -1, steps)
    if last == steps - 1:
        largest = utility_of(solutions[last].noise, goal, measure)
        accepted = f"at most what {parameter} = {grid.value(last):g} reaches ({largest:.6g})"
        raise InvalidInput(measure, utility if agreement is None else agreement, accepted, "Ask for less.")
    least = solutions[last + 1]
    reached = utility_of(least.noise, goal, measure)
    below = None if last < 0 else _neighbour(grid.value(last), solutions[last], measure)
    return LeastParameter(parameter, grid.value(last + 1), measure, wanted, reached, least, below)


def least_m(
    problem: Problem,
    utility: float,
    objective: AnyObjective | str = "rectangular",
    shape: Shape = "free",
    *,
    delta: float | None = None,
    **options: Any,
) -> Solution:
    """Return γ_opt at the smallest allowance whose certified utility reaches ``utility``, at a fixed δ.

    Args:
        problem: its K, voters, affected voters and δ are used; its target ε is not.
        utility: target share of the noiseless utility, in (0, 1].
        objective: as in `solve`.
        shape: as in `solve`.
        delta: δ of the release [probability]; default that of ``problem``.
        options: as in `least_parameter`, which also reports the number next below, and lets δ follow m.

    Returns:
        A solution with utility ≥ ``utility`` (within its tolerance) at a target ε within 1e-9 (relative) of the
        smallest; its ``problem`` contains that m and target ε.

    Raises:
        InvalidInput: a utility out of range, or one that no target ε up to 100 nats reaches.
    """
    return least_parameter(
        problem.K,
        parameter="target_epsilon",
        utility=real_number(utility, "utility", "a share in (0, 1]"),
        epsilon=problem.voter.epsilon,
        Delta=problem.voter.delta,
        delta=problem.target.delta if delta is None else delta,
        affected=problem.affected,
        objective=objective,
        shape=shape,
        digits=int(FIELDS["digits"].limits["most"]),
        **options,
    ).solution


class _Grid:
    """Ascending decimal numbers with a fixed number of digits, from a power of ten on; 0 before them for a target ε."""

    def __init__(self, exponent: int, digits: int, parameter: Parameter) -> None:
        self._exponent, self._digits = exponent, digits
        self._zeros = int(parameter == "target_epsilon")

    def value(self, index: int) -> float:
        if index < self._zeros:
            return 0.0
        first = 10 ** (self._digits - 1)
        decade, step = divmod(index - self._zeros, 9 * first)
        return float(f"{first + step}e{self._exponent + decade - self._digits + 1}")

    def index_of(self, most: float) -> int:
        """Return the index of the largest number that is at most ``most``."""
        index, decade = 0, 9 * 10 ** (self._digits - 1)
        while self.value(index + decade) <= most:
            index += decade
        return largest_count_between(lambda i: self.value(i) <= most, index, index + decade)


def _requested_measure(utility: float | None, agreement: float | None) -> tuple[UtilityMeasure, float]:
    if (utility is None) == (agreement is None):
        raise InvalidInput("utility", utility, "a share in (0, 1], or an agreement in (0.5, 1], and not both")
    if agreement is None:
        return "utility", float(field_number(utility, "utility"))
    return "agreement", float(field_number(agreement, "agreement"))


def _threshold(wanted: float) -> float:
    """Return the utility or agreement at which the goal counts as reached."""
    return min(wanted, 1.0 - FULL_SLACK)


def with_agreement(goal: AnyObjective) -> Objective:
    """Return the objective with the same prior and the measure agreement; `InvalidInput` if it has no prior."""
    if not isinstance(goal, Objective):
        accepted = "an objective with a prior, such as rectangular or shared(2,5)"
        raise InvalidInput("objective", str(goal), accepted, "Agreement is an average over a prior.")
    return replace(goal, measure="agreement")


def problem_at(
    parameter: Parameter,
    value: float,
    K: int,
    m: float | None = None,
    epsilon: float | None = None,
    Delta: float = 0.0,
    delta: float | None = None,
    affected: int | None = None,
    profile: Privacy | None = None,
) -> Problem:
    """Return the problem of `least_parameter` at a value of its parameter."""
    if parameter not in get_args(Parameter):
        raise InvalidInput("parameter", parameter, "'m', 'target_epsilon' or 'epsilon'")
    if profile is not None:
        _refuse_beside_profile(parameter, m, epsilon, Delta)
        return Problem(K, profile, Privacy(value, profile.delta if delta is None else delta), affected)
    if parameter == "epsilon":
        if epsilon is not None:
            raise InvalidInput("epsilon", epsilon, Rule("is the quantity to find: omit it"))
        allowance = real_number(m, "m", "a privacy allowance, a real number above 0")
        return Problem.from_allowance(K, allowance, value, Delta, delta, affected)
    if m is not None:
        raise InvalidInput("m", m, Rule(f"cannot be given: the search is for {parameter}"))
    if parameter == "m" and epsilon in (0.0, math.inf):
        accepted = f"'target_epsilon' for epsilon = {epsilon:g}, for which m is undefined"
        raise InvalidInput("parameter", parameter, accepted)
    voters: Any = epsilon  # `from_allowance` rejects a missing one
    if parameter == "m":
        return Problem.from_allowance(K, value, voters, Delta, delta, affected)
    return Problem.from_allowance(K, None, voters, Delta, delta, affected, target_epsilon=value)


def _refuse_beside_profile(parameter: Parameter, m: float | None, epsilon: float | None, Delta: float) -> None:
    for name, typed, default in (("m", m, None), ("epsilon", epsilon, None), ("Delta", Delta, 0.0)):
        if typed != default:
            raise InvalidInput(name, typed, Rule("cannot be combined with a profile"))
    if parameter != "target_epsilon":
        accepted = "'target_epsilon' for voters with a profile, for which m is undefined"
        raise InvalidInput("parameter", parameter, accepted)


def utility_of(noise: NoiseFunction, objective: AnyObjective, measure: UtilityMeasure) -> float:
    """Return the utility of γ under the objective, or its agreement under the objective's prior."""
    if measure == "utility":
        return objective.linear_goal(noise.K).utility(noise.upper_half)
    return 1.0 - disagreement(noise, with_agreement(objective).prior)


def _largest_value(parameter: Parameter, K: int, m: float | None, epsilon: float | None) -> float:
    """Return the largest number to try."""
    if parameter == "target_epsilon":
        return MAX_SEARCHED_EPSILON
    if parameter == "epsilon":
        return MAX_SEARCHED_EPSILON / max(1.0, float(m or 1.0))
    voters = float(epsilon) if isinstance(epsilon, int | float) and 0 < epsilon < np.inf else 1.0
    return min(float(field_number(K, "K")), MAX_SEARCHED_EPSILON / voters)


def _neighbour(value: float, solution: Solution, measure: UtilityMeasure) -> Neighbour:
    bound, K = solution.upper_bound, solution.problem.K
    if measure == "agreement":  # a utility of 1 saves all disagreement of a fair coin
        coin = NoiseFunction(np.zeros(K + 1), K)
        bound = 1.0 - (1.0 - utility_of(coin, solution.objective, measure)) * (1.0 - bound)
        bound = min(1.0, up(bound, 2 * K + 8))  # means of K + 1 terms, and these four operations
    return Neighbour(value, utility_of(solution.noise, solution.objective, measure), bound, solution)
