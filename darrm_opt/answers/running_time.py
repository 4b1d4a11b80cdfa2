"""Running time: expected time and memory of designs, comparisons, plans, profiles and accounts, before they start.

The reduced constraint set is counted in closed form. The time of a solve by cuts is one regression per schedule of the
solver, as times jump between schedules: ln seconds is a sum of coefficients times features of the problem.
`benchmarks/estimates.py` measures randomly drawn problems, fits the coefficients and writes them to `coefficients.py`;
the features of tables and of plans of classes are in `tables` and `class_plans`. Beyond the measured K the time grows
as a power of K (`EXPONENTS`). The fit is to processor times with the compiled kernel; without it a solve takes
`NUMPY_FACTOR` times as long. Objectives over scenarios add `SCENARIO_SECONDS` per scenario and voter; `enumerate` costs
`ROW_SECONDS` per row and voter instead (from `benchmarks/results.md`: K = 11 and 15).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from darrm_opt.answers.coefficients import COEFFICIENTS
from darrm_opt.arguments import field_number
from darrm_opt.design.kernel.library import kernel
from darrm_opt.design.scenarios import ScenarioObjective
from darrm_opt.design.schedule import MAX_PASSED_K, MAX_QUICK_K, is_expensive
from darrm_opt.design.separation.compiled import takes_passes
from darrm_opt.design.separation.result import MAX_EVALUATED_MEAN
from darrm_opt.design.solver import MAX_ENUMERATED_ROWS
from darrm_opt.errors import BackendUnavailable, InvalidInput
from darrm_opt.problem import Privacy, Problem
from darrm_opt.record import DesignSpec, problem_record

if TYPE_CHECKING:
    from darrm_opt.bagging import Bags

MAX_LOGARITHM = 30.0  # largest logarithm of an estimate, some 10^13 seconds: far outside the measured range
MAX_ESTIMATED_VOTERS = 100_000  # maximum number of voters for an estimate: the count has 34 digits there

MEASURED_K, MEASURED_EPSILON, MAX_MEASURED_DELTA = (5, 601), (0.01, 3.0), 0.3
"""Measured ranges of voters, ε [nats] and Δ; beyond them an estimate is that of the nearest end."""

EXPONENTS = {False: 2.0, True: 3.0}
"""Powers of K by which times grow beyond these ranges, from designs of 1001 to 5001 voters; True: with passes."""

MIN_SOLVE_SECONDS = 6e-4

NUMPY_FACTOR = 10.0  # slowdown of a solve without the compiled kernel: 3 to 17 at K = 35 and 101
SCENARIO_SECONDS = 2e-6  # time per scenario and voter [s]
ROW_SECONDS = 5e-7  # time per enumerated row and voter [s]

BASIS = (
    "A regression fitted to 2,065 solves of 5 to 601 voters on busy cores: of those left out of the fit, 94 % took a "
    "third to three times as long, 99 % a tenth to ten times."
)


def clip(value: float, least: float, most: float) -> float:
    """Return the number in [least, most] nearest to a value."""
    return min(max(value, least), most)


def fitted_seconds(program: str, features: Sequence[float]) -> float:
    """Return the expected time of a program [s]."""
    total = math.fsum(c * x for c, x in zip(COEFFICIENTS[program], features, strict=True))
    return math.exp(min(total, MAX_LOGARITHM))


@dataclass(frozen=True)
class RunningTime:
    """Expected cost of a solve."""

    constraints: int  # size of the permutation-reduced constraint set [rows]
    method: Literal["cuts", "enumerate"]  # the method that would be used
    seconds: float
    basis: str = BASIS  # accuracy of the estimate


def estimate_running_time(request: DesignSpec, method: str = "auto") -> RunningTime:
    """Return the expected cost of a design; nothing is solved.

    >>> from darrm_opt.problem import Problem
    >>> estimate = estimate_running_time(DesignSpec(Problem.from_allowance(K=35, m=3, epsilon=0.1, Delta=1e-5)))
    >>> estimate.constraints, estimate.method, 0.002 < estimate.seconds < 0.02
    (26978328, 'cuts', True)
    """
    problem = request.problem
    if problem.K > MAX_ESTIMATED_VOTERS:
        raise InvalidInput("K", problem.K, f"at most {MAX_ESTIMATED_VOTERS} voters")
    rows = constraint_count(problem)
    if method == "enumerate":
        if rows > MAX_ENUMERATED_ROWS:
            raise InvalidInput(
                "method", method, f"'cuts' or 'auto': the {rows} rows are more than {MAX_ENUMERATED_ROWS}"
            )
        return RunningTime(rows, "enumerate", ROW_SECONDS * rows * problem.K)
    return RunningTime(rows, "cuts", solve_seconds(request))


def estimate_to_dict(spec: DesignSpec, cost: RunningTime, *, stored: bool) -> dict[str, Any]:
    """Return the expected cost of a design as plain data; stored answers take no time."""
    return {
        "id": spec.key,
        "problem": problem_record(spec.problem),
        "objective": str(spec.objective),
        "shape": spec.shape,
        "constraints": cost.constraints,
        "method": cost.method,
        "seconds": 0.0 if stored else cost.seconds,
        "stored": stored,
        "basis": cost.basis,
    }


def solve_seconds(request: DesignSpec) -> float:
    """Return the expected time of a solve by cuts on one processor [s], for any K in a grid."""
    return _cut_seconds(request.problem) + _scenario_seconds(request)


def constraint_count(problem: Problem) -> int:
    """Return the size of the reduced constraint set in closed form (`ConstraintGenerator.size`).

    With q moving corners and M of r voters on them, Σ_M C(M+q−1, q−1)(K−M+1) = (K+1)·C(r+q, q) − q·C(r+q, q+1).
    """
    corners = 6 if problem.voter.delta > 0 else 2
    r, K = problem.affected, problem.K
    return (K + 1) * math.comb(r + corners, corners) - corners * math.comb(r + corners, corners + 1)


def _cut_seconds(problem: Problem) -> float:
    seconds = fitted_seconds(schedule_of(problem), features(problem))
    beyond = problem.K / MEASURED_K[1]
    if beyond > 1:
        seconds *= math.pow(beyond, EXPONENTS[takes_passes(problem.K, problem.voter.delta)])
    return max(MIN_SOLVE_SECONDS, seconds) * (1.0 if _has_kernel() else NUMPY_FACTOR)


def schedule_of(problem: Problem) -> str:
    """Return the name of a problem's regression, by the schedule that solves it."""
    if problem.voter.epsilon == math.inf:
        return "not private"
    return "stages" if is_expensive(problem) else "small" if problem.K <= MAX_QUICK_K else "exact"


def features(problem: Problem) -> tuple[float, ...]:
    """Return the features of a problem for its regression, clipped to the measured range; the constant first."""
    K = clip(problem.K, *MEASURED_K)
    affected = clip(problem.affected * K / problem.K, 1, K)
    return (
        _non_private_features(problem, K, affected)
        if problem.voter.epsilon == math.inf
        else _private_features(problem, K, affected)
    )


def _private_features(problem: Problem, K: float, affected: float) -> tuple[float, ...]:
    voter, target = problem.voter, problem.target
    epsilon = math.log(clip(voter.epsilon, *MEASURED_EPSILON))
    m = math.log(clip(3.0 if problem.m is None else problem.m, 1.05, max(1.1, K / 2)))
    # a search without a proof ends at the best monotone γ, which takes about as long as at a small Δ.
    is_proved = K <= MAX_PASSED_K or problem.K * voter.delta <= MAX_EVALUATED_MEAN
    Delta = min(voter.delta, MAX_MEASURED_DELTA) if is_proved else 0.0
    failing = math.log1p(affected * Delta)
    # With as many affected voters as the allowance counts, any γ is nearly private; with many more, γ has dents.
    reach = math.log(affected) - m
    dents, more_dents = clip(reach / 2.5, 0, 1), clip((reach - 2.5) / 2, 0, 1)
    monotone = clip((m + epsilon / 2 - 1.9) / 1.3, 0, 1)  # from about m√ε = 15 on the best monotone γ is optimal
    pure = float(target.delta == 0 < voter.delta)
    size = math.log(K)
    return (
        *(1.0, size, size**2, dents, dents * size, more_dents, more_dents * size, float(reach < 0), math.log(affected)),
        *(epsilon, dents * epsilon, dents * epsilon**2, dents * max(0.0, m + epsilon)),
        *(dents * monotone, more_dents * monotone),
        *(failing, min(failing, 0.5), dents * failing, failing * epsilon, dents * math.log1p(3 * math.exp(m) * Delta)),
        *(float(voter.delta == 0), dents * (voter.delta == 0), pure, dents * pure, pure * failing),
    )


def _non_private_features(problem: Problem, K: float, affected: float) -> tuple[float, ...]:
    epsilon = math.log(clip(problem.target.epsilon, *MEASURED_EPSILON))
    size, large = math.log(K), max(0.0, math.log(K) - 4)
    loose, one = clip(epsilon + 1, 0, 1.2), float(problem.affected == 1)
    return (
        *(1.0, size, size**2, large, epsilon, large * epsilon, loose, large * loose),
        *(one, one * large, one * large * loose, math.log(affected), float(problem.target.delta == 0)),
    )


@lru_cache(maxsize=1)
def _has_kernel() -> bool:
    try:
        return kernel() is not None
    except BackendUnavailable:
        return False


def _scenario_seconds(request: DesignSpec) -> float:
    if not isinstance(request.objective, ScenarioObjective):
        return 0.0
    parameters = dict(request.objective.parameters)
    return SCENARIO_SECONDS * parameters.get("points", parameters.get("scenarios", 0.0)) * request.problem.K


MAX_PLAN_QUERIES = 300  # number of queries beyond which a plan takes no longer, as its accounts are coarser
SUBSAMPLED_PLAN_ACCOUNTS = 80  # approximate number of accounts in a plan with subsampled voters, each an average

MAX_MEASURED_SOLVE_SECONDS = 0.1
"""Longest expected solve among the measured plans [s]; beyond it, the time of plans is proportional to it."""


def plan_seconds(
    solve_time: float, queries: int, time_limit: float | None = None, account_seconds: float = 0.0
) -> float:
    """Return the expected time of a plan [s] from the time of one solve; a limit is exceeded by at most one solve."""
    measured = min(solve_time, MAX_MEASURED_SOLVE_SECONDS)
    planning = fitted_seconds("plan", plan_features(measured, queries)) * solve_time / measured
    seconds = planning + account_seconds
    return seconds if time_limit is None else min(seconds, time_limit + solve_time)


def plan_features(solve_time: float, queries: int) -> tuple[float, ...]:
    """Return the features of the regression of plans."""
    solve, number = math.log(min(solve_time, MAX_MEASURED_SOLVE_SECONDS)), math.log(min(queries, MAX_PLAN_QUERIES))
    return 1.0, solve, max(0.0, solve + 5), number, float(queries == 1)


def plan_account_seconds(
    problem: Problem, queries: int, total: Privacy, bags: Bags | None, *, fresh: bool = False
) -> float:
    """Return the expected time of a plan's accounts with subsampled voters [s]; 0 if there are none."""
    from darrm_opt.errors import TooMuchWork

    try:
        steps = _steps_of_draw(problem, queries, total, bags, fresh=fresh)
    except TooMuchWork:  # the plan omits these accounts
        return 0.0
    return 0.0 if steps is None else SUBSAMPLED_PLAN_ACCOUNTS * SUBSAMPLED_RELEASE_SECONDS * steps


COMPARISON_SOLVES = 100
"""Approximate number of γ in a comparison: for the best target (without a draw) and the sequence."""

COMPARISON_ACCOUNTS, SUBSAMPLED_COMPARISON_ACCOUNTS = 75, 50
"""Approximate number of accounts in a comparison; with subsampled voters it searches no best target."""

ACCOUNT_SECONDS, ACCOUNT_RELEASE_SECONDS = 1e-2, {True: 3e-4, False: 1e-4}
"""Time per account, and per release in it, fresh or not [s]; a record affects a fixed number of voters."""

SUBSAMPLED_RELEASE_SECONDS = 2e-4
"""Time per release and number of affected voters in one account with subsampled voters [s]."""


def comparison_account_seconds(
    problem: Problem, queries: int, total: Privacy, bags: Bags | None, *, fresh: bool = False
) -> float:
    """Return the expected time of a comparison's accounts [s]."""
    steps = _steps_of_draw(problem, queries, total, bags, fresh=fresh)
    if steps is None:
        return COMPARISON_ACCOUNTS * (ACCOUNT_SECONDS + ACCOUNT_RELEASE_SECONDS[fresh] * queries)
    return SUBSAMPLED_COMPARISON_ACCOUNTS * SUBSAMPLED_RELEASE_SECONDS * steps


def _steps_of_draw(problem: Problem, queries: int, total: Privacy, bags: Bags | None, *, fresh: bool) -> float | None:
    """Return the size of one account with subsampled voters; None without subsampling."""
    from darrm_opt.accounting.freshness import effective_voters
    from darrm_opt.planning.candidates import check_draw, mixture_steps

    if bags is not None:
        bags.check_voters(problem)
    voters = effective_voters(problem, queries, fresh=fresh)
    distribution = None if bags is None else bags.affected_distribution(problem.K)
    check_draw(voters, queries, total, distribution)
    return None if distribution is None else mixture_steps(voters, queries, total, distribution)


SEARCHED_DECADES = 6  # approximate number of powers of ten among which the inverse question bisects


def inverse_seconds(solve_time: float, digits: int) -> float:
    """Return the expected time of the inverse question [s]: a solve per step of a bisection of decimals."""
    field_number(digits, "digits")
    return solve_time * math.log2(SEARCHED_DECADES * 9 * 10.0 ** (digits - 1))


BALL_ROW_SECONDS = 1.1e-6  # time per row of the reduced constraint set in ball arithmetic [s]


def verification_seconds(problem: Problem, arithmetic: str = "float") -> float:
    """Return the expected time of a certificate [s]: one search, or every row in ball arithmetic."""
    if arithmetic == "ball":
        return 0.05 + BALL_ROW_SECONDS * constraint_count(problem)
    return 0.005 + 0.2 * _cut_seconds(problem)


def profile_seconds(problem: Problem, points: int) -> float:
    """Return the expected time of a privacy profile [s]: a search per point."""
    return points * (0.001 + 0.08 * _cut_seconds(problem))


MAX_BIT_QUERIES = 3000
"""Number of fresh releases beyond which the account of bits takes no longer: it is coarser, or rejected."""


def composition_seconds(queries: int, *, designed: bool, fresh: bool) -> float:
    """Return the expected time of all accounts of ``queries`` releases [s]; long times within a factor of three."""
    if not designed:
        return 0.01 + 5e-7 * min(queries, 3_000_000)
    bits = 4e-3 * min(queries, MAX_BIT_QUERIES) if fresh else 0.0
    return 0.02 + bits + 2e-4 * min(queries, 30_000)


BASE_MEMORY = 130.0  # memory of a solver process that has loaded its libraries [MiB]
ENTRY_BYTES = 104  # memory per enumerated row and entry of γ [bytes]: 962 MiB at K = 101, m = 3, Δ = 0


def design_memory(request: DesignSpec, method: str = "auto") -> float:
    """Return the expected memory of a design [MiB]; only enumeration takes much."""
    if method != "enumerate":
        return BASE_MEMORY
    entries = request.problem.K // 2 + 1
    return BASE_MEMORY + ENTRY_BYTES * constraint_count(request.problem) * entries / 2**20
