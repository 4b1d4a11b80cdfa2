"""Cost model: expected time of a design, a comparison, a plan, a profile or an account, before anything is computed.

The reduced constraint set is counted in closed form. The expected time of a solve by cuts is a multivariate adaptive
regression spline (Friedman, Ann. Statist. 19, 1991) for each schedule of a solve, since where one gives way to another
times jump: ln seconds is a sum of products of at most three hinges max(0, ±ln(x/knot)), with x one of `FEATURES`.
Beyond the measured K it grows as a power of K (`EXPONENTS`). `tests/campaigns/cost.py` fits it to the processor's times
of `benchmarks/scan.py` with the compiled kernel; without it, a solve takes `NUMPY_FACTOR` times as long. Objectives
over scenarios cost `SCENARIO_SECONDS` a scenario and voter more, and `enumerate` costs `ROW_SECONDS` a row and voter
instead (from `benchmarks/results.md`: K = 11 and 15).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from darrm_opt.design.kernel.library import kernel
from darrm_opt.design.scenarios import ScenarioObjective
from darrm_opt.design.schedule import MAX_PASSED_K, MAX_QUICK_K, is_expensive
from darrm_opt.design.separation.compiled import takes_passes
from darrm_opt.design.separation.result import MAX_EVALUATED_MEAN
from darrm_opt.design.solver import MAX_ENUMERATED_ROWS
from darrm_opt.design.sweep import check_digits
from darrm_opt.errors import BackendUnavailable, InvalidInput
from darrm_opt.problem import Privacy, Problem
from darrm_opt.record import DesignSpec, problem_record

if TYPE_CHECKING:
    from darrm_opt.tables.record import TableSpec

MAX_ESTIMATED_VOTERS = 100_000
"""Most voters for which an estimate is made: the count has 34 digits there."""

MEASURED_K, MEASURED_EPSILON, MAX_MEASURED_DELTA = (11, 501), (0.01, 3.0), 0.3
"""Ranges of the voters, ε [nats] and Δ of the solves that were measured; beyond, an estimate is that of the end."""

FEATURES = ("K", "m", "ε", "m√ε", "1+KΔ", "1+3mΔ")
"""Names of what a term depends on by logarithms; of voters that are not private m is 1 and ε the target's."""

MARKS = ("Δ=0", "δ=0", "several", "stages")
"""Names of what is so or not: voters never fail, δ = 0 although they do, a record affects several voters that are not
private, and their design is in stages."""

SPLINES = {
    "small": (
        "-7.61; 0.409 K>11; -0.431 m>3; 0.524 1+KΔ>1; 0.992 m>3 δ=0; 0.216 ε>0.1; -0.49 m>3 δ=0 m√ε>5.492; 0.35 "
        "1+KΔ>1 δ=0; 0.787 1+3mΔ<5.95; -0.856 K>11 m√ε>17.5; -0.125 1+KΔ>1 δ=0 ε>0.1253; -64.3 m>3 δ=0 1+KΔ<1.007; "
        "0.378 ε>0.1 K>28; -0.118 ε>0.1 Δ=0; -0.183 m>3 m√ε>2.815; 0.15 1+KΔ>1 1+3mΔ>1.413; -0.792 1+3mΔ<5.95 K<14; "
        "0.801 K>35; 0.0806 1+3mΔ<5.95 m√ε<1.383; -10.4 1+3mΔ<5.95 m√ε<1.383 1+KΔ<1.007 "
    ),
    "exact": (
        "-3.94; -0.0438 m<50.5; -1.9 K<324; -1.43 1+KΔ<1.216; 0.175 m<50.5 m√ε>0.332; -0.0862 δ=0; 0.209 m<50.5 "
        "m√ε>0.332 K>101; 0.761 δ=0 ε<3; -0.102 δ=0 ε<3 m<50.5; -12 m<50.5 m√ε>25.59; 0.943 1+KΔ>4.34; -0.0841 m<50.5 "
        "m√ε>0.332 ε<1; -0.226 δ=0 ε<3 1+KΔ<1.216; 0.541 m<50.5 m√ε>11.9; -3.55 m<50.5 m√ε>11.9 ε>1; 0.688 m<50.5 "
        "m√ε>5.196; 13.3 m<50.5 m√ε>25.59 ε>1; 3.65 δ=0 K>268.8; -20.4 m<50.5 m√ε>25.59 K>101; 0.605 m<150.5; -0.0464 "
        "m<50.5 m√ε>0.332 Δ=0; -0.754 1+KΔ<1.216 ε>1; 3.2 K>324; 2.8 K<324 1+3mΔ<1.45; 9.91 1+KΔ<1.216 ε>1 m√ε<3; "
        "-1.27 K<324 1+3mΔ<1.45 1+KΔ<4.34; -0.161 K<324 m<1.36; -2.23 K<324 m<1.36 ε>1; 4.92 K<324 1+3mΔ<1.45 ε>1; "
        "-5.46 1+KΔ<1.216 ε>1 K<268.8; -0.157 δ=0 ε<3 1+KΔ>4.34; -0.655 δ=0 ε<3 1+3mΔ<1.45; -18.9 δ=0 ε<3 "
        "1+3mΔ<1.006; -0.449 K<324 1+3mΔ<1.45 ε>0.0755; -0.0526 m<150.5 ε>1; 3.06 m<150.5 ε>1 m√ε<1.819; -0.529 "
        "m<150.5 ε>1 K<127; 15.2 m<50.5 m√ε>25.59 K>127; 112 m<50.5 m√ε>25.59 1+3mΔ<1.043; -5.71 m<50.5 m√ε>11.9 "
        "1+KΔ<1.02 "
    ),
    "stages": (
        "-1.48; 0.139 m√ε<51.86; -1.43 K<501; 0.458 1+KΔ<6.01; 0.218 1+KΔ<6.01 m<50.12; -0.0051 δ=0; 0.716 δ=0 ε<1; "
        "-1.04 δ=0 m√ε<0.9487; -0.153 1+KΔ<6.01 m<50.12 ε>0.0923; 0.16 1+3mΔ<1.945; -1.1 1+KΔ<21.1; 0.209 m√ε<51.86 "
        "1+3mΔ<3.7; -0.172 m√ε<51.86 1+3mΔ<3.7 1+KΔ<2.51; 0.125 m√ε<51.86 1+3mΔ<3.7 K>201; -0.394 δ=0 ε<1 m√ε>19.8; "
        "-0.91 δ=0 ε<1 1+3mΔ<1.45; -0.0656 δ=0 ε<1 1+KΔ>2.51; -2.93 1+3mΔ<1.945 ε>1; -0.00225 1+KΔ<21.1 m<50.12; 2.91 "
        "1+3mΔ<1.945 ε>1 1+KΔ<2.51; 0.167 1+KΔ<21.1 m<50.12 ε>0.1; 2.04 1+3mΔ<1.945 ε>1 1+KΔ>6.01; -0.22 m√ε<51.86 "
        "1+3mΔ<3.7 ε>0.1415; -0.528 1+KΔ<6.01 m<50.12 Δ=0; 0.462 m√ε<51.86 1+3mΔ<3.7 Δ=0; 0.0327 m√ε<51.86 ε>1; 0.148 "
        "m√ε<51.86 ε>1 m<3; 0.105 m√ε<51.86 1+3mΔ<3.7 ε>0.0923; -12.6 1+KΔ<6.01 1+3mΔ<1.032; -0.216 m√ε<51.86 "
        "1+3mΔ<3.7 m>18.88; 1.78 1+3mΔ<1.45; 1.32 δ=0 K>401; -21 δ=0 K>401 1+KΔ<2.51; 9.75 δ=0 K>401 1+KΔ<6.01; 1.49 "
        "1+KΔ<21.1 m<50.12 1+3mΔ>1.945; -0.0696 δ=0 m√ε<0.9487 ε>0.01; 2.69 K<501 Δ=0; -1.59 K<501 Δ=0 ε<0.1415; "
        "0.596 δ=0 m√ε<0.9487 1+3mΔ<1.45; -0.238 1+KΔ<6.01 m<50.12 m√ε>5.196 "
    ),
    "not private": (
        "-1.57; -1.23 K<301; -0.283 several; 0.444 several K>35; -0.579 ε>0.3191; 0.142 several ε>0.3191; -0.358 "
        "ε>0.3191 K>101; 0.124 several ε>0.3191 K>101; -0.763 ε>0.3191 K>101 m√ε<1.732; 0.335 several K>35 ε>0.1; "
        "0.164 K<301 ε>0.1; 0.15 several stages; 3.03 several K>301; -1.45 several stages K>151; -0.527 m√ε>0.3057 "
    ),
}
"""Of each schedule (`schedule_of`) the terms: coefficient, then hinges, x>knot for max(0, ln(x/knot)), x<knot for
max(0, ln(knot/x)), and marks."""

EXPONENTS = {False: 2.0, True: 3.0}
"""Powers of K by which times grow beyond these: of designs of 1001 to 5001 voters, and with many off their ends."""

MIN_SOLVE_SECONDS = 6e-4
"""Least time of a solve, however few its voters [s]."""

NUMPY_FACTOR = 10.0
"""Multiple of the time of a solve where the kernel is not compiled: 3 to 17 for K = 35 and 101."""

SCENARIO_SECONDS = 2e-6
"""Time for one scenario and voter [s]."""

ROW_SECONDS = 5e-7
"""Time for one enumerated row and voter [s]."""

BASIS = (
    "A regression fitted to 2,023 solves of 11 to 501 voters on busy cores: of 400 others, drawn at random, 95 % took "
    "a third to three times as long, 99 % a tenth to ten times."
)
"""Accuracy of the estimate, for its readers."""


@dataclass(frozen=True)
class CostEstimate:
    """Expected cost of a solve."""

    constraints: int  # size of the permutation-reduced constraint set [rows]
    method: Literal["cuts", "enumerate"]  # how it would be solved, "cuts" or "enumerate"
    seconds: float
    basis: str = BASIS  # what the expectation rests on


def estimate_cost(request: DesignSpec, method: str = "auto") -> CostEstimate:
    """Return the expected cost of a design; nothing is solved.

    >>> from darrm_opt.problem import Problem
    >>> estimate = estimate_cost(DesignSpec(Problem.from_allowance(K=35, m=3, epsilon=0.1, Delta=1e-5)))
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
        return CostEstimate(rows, "enumerate", ROW_SECONDS * rows * problem.K)
    return CostEstimate(rows, "cuts", solve_seconds(request))


def estimate_to_dict(spec: DesignSpec, cost: CostEstimate, *, stored: bool) -> dict[str, Any]:
    """Return the expected cost of a design as plain data; what is stored already takes no time."""
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


def solve_seconds(request: DesignSpec | TableSpec) -> float:
    """Return the expected time of a solve by cuts on one processor [s], for any K that a grid may name."""
    if isinstance(request, DesignSpec):
        return _cut_seconds(request.problem) + _scenario_seconds(request)
    # Tables take long to load, and who asks for one has them already.
    from darrm_opt.answers.tables import table_seconds

    return table_seconds(request)


def constraint_count(problem: Problem) -> int:
    """Return the size of the reduced constraint set: `ConstraintGenerator.size` without the sum.

    With q moving corners and M of r voters on them, Σ_M C(M+q−1, q−1)(K−M+1) = (K+1)·C(r+q, q) − q·C(r+q, q+1).

    >>> constraint_count(Problem.from_allowance(K=35, m=3, epsilon=0.1))
    8436
    """
    corners = 6 if problem.voter.delta > 0 else 2
    r, K = problem.affected, problem.K
    return (K + 1) * math.comb(r + corners, corners) - corners * math.comb(r + corners, corners + 1)


def _cut_seconds(problem: Problem) -> float:
    seconds = _spline_seconds(schedule_of(problem), features(problem))
    beyond = problem.K / MEASURED_K[1]
    if beyond > 1:
        seconds *= math.pow(beyond, EXPONENTS[takes_passes(problem.K, problem.voter.delta)])
    return max(MIN_SOLVE_SECONDS, seconds) * (1.0 if _has_kernel() else NUMPY_FACTOR)


def schedule_of(problem: Problem) -> str:
    """Return which spline a problem has: it is solved by other steps than those of the others."""
    if problem.voter.epsilon == math.inf:
        return "not private"
    return "stages" if is_expensive(problem) else "small" if problem.K <= MAX_QUICK_K else "exact"


def features(problem: Problem) -> tuple[float, ...]:
    """Return the logarithms of `FEATURES`, within what was measured, and the `MARKS` of a problem as 0 or 1."""
    K, voter, target = problem.K, problem.voter, problem.target
    private = voter.epsilon != math.inf
    measured_K = _within(K, *MEASURED_K)
    epsilon = _within(voter.epsilon if private else target.epsilon, *MEASURED_EPSILON)
    allowance = problem.m
    m = _within(3.0 if allowance is None else allowance, 1.05, measured_K / 2) if private else 1.0
    # a search that proves nothing ends at the best monotone γ, which takes about as long as at a small Δ
    is_proved = K <= MAX_PASSED_K or K * voter.delta <= MAX_EVALUATED_MEAN
    Delta = min(voter.delta, MAX_MEASURED_DELTA) if is_proved else 0.0
    values = (measured_K, m, epsilon, m * math.sqrt(epsilon), 1 + measured_K * Delta, 1 + 3 * m * Delta)
    marks = (
        voter.delta == 0,
        target.delta == 0 < voter.delta,
        not private and problem.affected > 1,
        not private and is_expensive(problem),
    )
    return (*map(math.log, values), *map(float, marks))


def _within(value: float, least: float, most: float) -> float:
    return min(max(value, least), most)


@lru_cache(maxsize=4096)
def _spline_seconds(schedule: str, values: tuple[float, ...]) -> float:
    total = 0.0
    for coefficient, hinges in _terms(schedule):
        product = coefficient
        for place, sign, knot in hinges:
            hinge = sign * (values[place] - knot)
            if hinge <= 0:
                break
            product *= hinge
        else:
            total += product
    return math.exp(total)


@lru_cache
def _terms(schedule: str) -> tuple[tuple[float, tuple[tuple[int, int, float], ...]], ...]:
    """Return the terms of a spline: the coefficient, and the hinges (place in `features`, sign, ln knot)."""
    terms = []
    for text in SPLINES[schedule].split(";"):
        coefficient, *factors = text.split()
        terms.append((float(coefficient), tuple(map(_hinge, factors))))
    return tuple(terms)


def _hinge(text: str) -> tuple[int, int, float]:
    if text in MARKS:
        return len(FEATURES) + MARKS.index(text), 1, 0.0
    sign = 1 if ">" in text else -1
    name, knot = text.split(">" if sign > 0 else "<")
    return FEATURES.index(name), sign, math.log(float(knot))


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


PLAN_SOLVES = 60
"""Approximate number of γ that a plan designs."""

PLAN_QUERY_SECONDS = 0.03
"""Time of a plan's accounts for each query [s], up to `MAX_PLAN_QUERIES`, beyond which they are coarser."""

MAX_PLAN_QUERIES = 300
"""Queries beyond which a plan takes no longer."""


SUBSAMPLED_PLAN_ACCOUNTS = 80
"""Approximate number of accounts that a plan computes where voters are subsampled, each an average."""


def plan_seconds(
    solve_time: float, queries: int, time_limit: float | None = None, account_seconds: float = 0.0
) -> float:
    """Return the expected time of a plan [s], from that of one solve; with a limit, little longer than that."""
    seconds = PLAN_SOLVES * solve_time + PLAN_QUERY_SECONDS * min(queries, MAX_PLAN_QUERIES) + account_seconds
    return seconds if time_limit is None else min(seconds, time_limit + solve_time)


def plan_account_seconds(
    problem: Problem, queries: int, total: Privacy, draw: Mapping[str, Any], *, fresh: bool = False
) -> float:
    """Return the expected time of the accounts of a plan where voters are subsampled [s].

    0 where they are not, or where the accounts are too long to be computed.
    """
    from darrm_opt.errors import TooMuchWork

    try:
        steps = _steps_of_draw(problem, queries, total, draw, fresh=fresh)
    except TooMuchWork:  # the plan leaves them out, too
        return 0.0
    return 0.0 if steps is None else SUBSAMPLED_PLAN_ACCOUNTS * SUBSAMPLED_RELEASE_SECONDS * steps


COMPARISON_SOLVES = 100
"""Approximate number of γ that a comparison designs: for the best target (without a draw) and the sequence."""

COMPARISON_ACCOUNTS, SUBSAMPLED_COMPARISON_ACCOUNTS = 75, 50
"""Approximate number of accounts of a comparison; where voters are subsampled it looks for no best target."""

ACCOUNT_SECONDS, ACCOUNT_RELEASE_SECONDS = 1e-2, {True: 3e-4, False: 1e-4}
"""Time for one account, and for each release in it, fresh or not [s]; a record affects a fixed number of voters."""

SUBSAMPLED_RELEASE_SECONDS = 2e-4
"""Time for one release and one number of affected voters in one account, where voters are subsampled [s]."""


def comparison_account_seconds(
    problem: Problem, queries: int, total: Privacy, draw: Mapping[str, Any], *, fresh: bool = False
) -> float:
    """Return the expected time of a comparison's accounts [s]; it grows with the releases."""
    steps = _steps_of_draw(problem, queries, total, draw, fresh=fresh)
    if steps is None:
        return COMPARISON_ACCOUNTS * (ACCOUNT_SECONDS + ACCOUNT_RELEASE_SECONDS[fresh] * queries)
    return SUBSAMPLED_COMPARISON_ACCOUNTS * SUBSAMPLED_RELEASE_SECONDS * steps


def _steps_of_draw(
    problem: Problem, queries: int, total: Privacy, draw: Mapping[str, Any], *, fresh: bool
) -> float | None:
    """Return the size of one account where voters are subsampled, None where they are not."""
    from darrm_opt.accounting.freshness import effective_voters
    from darrm_opt.answers import drawn_bags
    from darrm_opt.planning.candidates import check_draw, mixture_steps

    bags = drawn_bags(draw)
    if bags is not None:
        bags.check_voters(problem)
    voters = effective_voters(problem, queries, fresh=fresh)
    distribution = None if bags is None else bags.affected_distribution(problem.K)
    check_draw(voters, queries, total, distribution)
    return None if distribution is None else mixture_steps(voters, queries, total, distribution)


SEARCHED_DECADES = 6
"""Powers of ten among which the inverse question bisects, about."""


def inverse_seconds(solve_time: float, digits: int) -> float:
    """Return the expected time of the inverse question [s]: a solve for each step of a bisection of decimals."""
    check_digits(digits)
    return solve_time * math.log2(SEARCHED_DECADES * 9 * 10.0 ** (digits - 1))


BALL_ROW_SECONDS = 1.1e-6
"""Time for one row of the reduced constraint set in ball arithmetic [s]."""


def verification_seconds(problem: Problem, arithmetic: str = "float") -> float:
    """Return the expected time of a certificate [s]: one search, or every row in ball arithmetic."""
    if arithmetic == "ball":
        return 0.05 + BALL_ROW_SECONDS * constraint_count(problem)
    return 0.005 + 0.2 * _cut_seconds(problem)


def tradeoff_seconds(missing: Sequence[DesignSpec], specs: Sequence[DesignSpec], baselines: int) -> float:
    """Return the expected time of a trade-off [s]: its solves, and the certificates of what it compares.

    Each design is proved once more before it is stored.
    """
    solving = sum(estimate_cost(spec).seconds + verification_seconds(spec.problem) for spec in missing)
    return solving + baselines * sum(verification_seconds(spec.problem) for spec in specs)


def error_curve_seconds(K: int, points: int) -> float:
    """Return the expected time of the errors of γ_opt and of all baselines at so many p [s]."""
    return 0.005 + 4e-6 * K * points


def profile_seconds(problem: Problem, points: int) -> float:
    """Return the expected time of a privacy profile [s]: a search for each point."""
    return points * (0.001 + 0.08 * _cut_seconds(problem))


MAX_BIT_QUERIES = 3000
"""Releases of fresh votes beyond which the account of bits takes no longer: it is coarser, or refused."""


def composition_seconds(queries: int, *, designed: bool, fresh: bool) -> float:
    """Return the expected time of all accounts of so many releases [s], within a factor of three where it is long."""
    if not designed:
        return 0.01 + 5e-7 * min(queries, 3_000_000)
    bits = 4e-3 * min(queries, MAX_BIT_QUERIES) if fresh else 0.0
    return 0.02 + bits + 2e-4 * min(queries, 30_000)


BASE_MEMORY = 130.0
"""Memory of a solver process that has loaded its libraries [MiB]."""

ENTRY_BYTES = 104
"""Memory for one enumerated row and entry of γ [bytes]: 962 MiB at K = 101, m = 3, Δ = 0."""


def design_memory(request: DesignSpec, method: str = "auto") -> float:
    """Return the expected memory of a design [MiB]; only enumeration takes much.

    >>> from darrm_opt.problem import Problem
    >>> spec = DesignSpec(Problem.from_allowance(K=101, m=3, epsilon=0.1))
    >>> design_memory(spec), 900 < design_memory(spec, "enumerate") < 1200
    (130.0, True)
    """
    if method != "enumerate":
        return BASE_MEMORY
    entries = request.problem.K // 2 + 1
    return BASE_MEMORY + ENTRY_BYTES * constraint_count(request.problem) * entries / 2**20
