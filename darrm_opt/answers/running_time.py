"""Cost model: expected time of a design, a comparison, a plan, a profile or an account, before anything is computed.

The reduced constraint set is counted in closed form. The expected time of a solve by cuts is looked up in a table of
measured times and interpolated: ln seconds is linear in ln K, ln m, ln ε and ln Δ between neighbours, with m as its
place among 1.05, 1.5, 3, K/8 and K/2; a table apart for δ = 0, and one for voters that are not private. Beyond the
table's K it grows as a power of K (`EXPONENTS`). Times are the processor's (`tests/campaigns/cost.py`, from records
of `benchmarks/scan.py` with the compiled kernel; without it, `NUMPY_FACTOR` times as long). Objectives over scenarios
cost `SCENARIO_SECONDS` a scenario and voter more, and `enumerate` costs `ROW_SECONDS` a row and voter instead (from
`benchmarks/results.md`: K = 11 and 15).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from darrm_opt.design.inverse import check_digits
from darrm_opt.design.kernel.library import kernel
from darrm_opt.design.scenarios import ScenarioObjective
from darrm_opt.design.schedule import MAX_PASSED_K
from darrm_opt.design.separation.binomials import MAX_EVALUATED_MEAN
from darrm_opt.design.separation.compiled import takes_passes
from darrm_opt.design.solver import MAX_ENUMERATED_ROWS
from darrm_opt.errors import BackendUnavailable, InvalidInput
from darrm_opt.problem import Privacy, Problem
from darrm_opt.record import DesignSpec, problem_record

if TYPE_CHECKING:
    from darrm_opt.tables.group_record import GroupSpec
    from darrm_opt.tables.record import TableSpec

MAX_ESTIMATED_VOTERS = 100_000
"""Most voters for which an estimate is made: the count has 34 digits there."""

TABLE_KS, TABLE_DELTAS = (11, 35, 101, 201, 301, 401), (0.0, 1e-6, 1e-4, 0.01, 0.1, 0.3)
TABLE_EPSILONS = (0.01, 0.1, 1.0, 3.0)
"""Voters, Δ and ε [nats] (of non-private voters the target ε) of the solves that were measured."""

LEAST, FACTOR = 4e-4, 1.5
"""Time that the letter a stands for [s], and by what factor each further letter is longer."""

TIMES = {
    (11, 0.0): "bceedddecddddeddcccb",
    (11, 1e-06): "dccbfeefdddddeeeegceeefeecedddeedecdcecc",
    (11, 0.0001): "dcdcedfeccdddeefceddfefecddceeeecdcdcedd",
    (11, 0.01): "decdfdfeffddfeeeddcdedeeeddeedeededecddg",
    (11, 0.1): "feedffffeeeeefeebedeefgffeeceeeecddebede",
    (11, 0.3): "feefffffefegeffgdfbfffffffeeeegecedfceee",
    (35, 0.0): "efggeeffeeefddfecdcc",
    (35, 1e-06): "feffggjhfeffffihffeeffhheeefghihcecedcbc",
    (35, 0.0001): "feffhfiiffffffihdfeehgihigeehgihcgcfcdbc",
    (35, 0.01): "hggfggiighffgfjiehdghiiiehefghhichcicfcb",
    (35, 0.1): "ghggijiifhfhjjiighehhiiiehdhhiiichdhcgcb",
    (35, 0.3): "jjjjljijikhjjjijejejiiiiekfjijijfjekghee",
    (101, 0.0): "kjllljlkkjjliikggggg",
    (101, 1e-06): "kkkkllmmkkjjllmmjkkkkkongjgjllghgifigffg",
    (101, 0.0001): "lljkmmmmlkjjllnnjlklkknnhkglmmfffkgigggf",
    (101, 0.01): "oonnmnppmolmnmqqkokmllpphognnnhfgofmgfff",
    (101, 0.1): "opooqqmonppoqqnmlplpoqmmgphpnohfhphnfggf",
    (101, 0.3): "pqoorropoqnorspolqkorrpolpmoqrlklqlojllj",
    (201, 0.0): "onruonqsmnnrjlnigiih",
    (201, 1e-06): "nnnmrrttnnmnrrstmnnnnnrrjnkmopiiimhlggij",
    (201, 0.0001): "oonmrqvvnonmrrtunonooorrgpjoqqgghngnhgig",
    (201, 0.01): "qrrrqrstrsrssssrnsqtqqonktisikkjiriojjij",
    (201, 0.1): "uttvpptvssttqotrsuptopppptruoooonuooomoo",
    (201, 0.3): "sssrrsrrssrrpprrososqppomrptnommnumpnmon",
    (301, 0.0): "rqwyqqtwqouumnohhhjj",
    (301, 1e-06): "ppootyzwpqoqutxvpppqpvxujpkqijhhioipigih",
    (301, 0.0001): "rrqputyyrsppuuxxqqqprrvvirlqirhiiqhpjihj",
    (301, 0.01): "tuttuvtvtvtuuwstqusustqqlvktjjkkjskkkjjj",
    (301, 0.1): "wvwzsxvyvvxzsvvuuxrypqsqpuruoooopvopoooo",
    (301, 0.3): "utssstsvutrtqrstpuptrqqrpsqunpnnouoqonpo",
    (401, 0.0): "qrrpqqqppopnkmjjjkik",
    (401, 1e-06): "qrqpssuvqqppqqtsqpopppqqinilkjiiijijjjih",
    (401, 0.0001): "rsqqsruvtuqqqqrtqtppppopioiljkjkkpjkkjik",
    (401, 0.01): "wwwwxyxxvwxyxzvvswvxwxqskxlmlklljtkkmkjk",
    (401, 0.1): "yyzytxwywxzzrrxxvxtyrssssxstppqppwqpqppp",
    (401, 0.3): "wvvuvuxwvvuttvuwrvsstsssqxqsppppqvpqrpqp",
}
"""Of (K, Δ): a letter for each m, of each for each ε, of each for the default δ and, where that is not 0, for δ = 0."""

TIMES_NON_PRIVATE = {
    11: "ffeeeeefefeeefee",
    35: "hihhghefhhhhggff",
    101: "mlmmhkhimnmmnmnm",
    201: "ononknhlppnpoopo",
    301: "qpopipgmqrrqqqrq",
    401: "ppoohjigppqspprq",
}
"""Of K: a letter for one affected voter and for K/4 of them, of each for each target, of each for δ > 0 and δ = 0."""

EXPONENTS = {False: 2.0, True: 3.0}
"""Powers of K by which times grow beyond the table: of designs of 1001 to 5001 voters, and with many off their ends."""

MIN_SOLVE_SECONDS = 6e-4
"""Least time of a solve, however few its voters [s]."""

NUMPY_FACTOR = 10.0
"""Multiple of the time of a solve where the kernel is not compiled: 3 to 17 for K = 35 and 101."""

SCENARIO_SECONDS = 2e-6
"""Time for one scenario and voter [s]."""

ROW_SECONDS = 5e-7
"""Time for one enumerated row and voter [s]."""

BASIS = (
    "Interpolated between solves of up to 401 voters: of 154 others of 151 and 501 voters, drawn at random, 92 % "
    "took a third to three times as long, 99 % a tenth to ten times, on cores that were not overloaded."
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


def solve_seconds(request: DesignSpec | TableSpec | GroupSpec) -> float:
    """Return the expected time of a solve by cuts on one processor [s], for any K that a grid may name."""
    if isinstance(request, DesignSpec):
        return _cut_seconds(request.problem) + _scenario_seconds(request)
    # Tables take long to load, and who asks for one has them already.
    from darrm_opt.answers.plurality import group_seconds, plurality_seconds
    from darrm_opt.tables.problem import PluralityProblem

    problem = request.problem
    return plurality_seconds(problem) if isinstance(problem, PluralityProblem) else group_seconds(problem)


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
    K, voter, target = problem.K, problem.voter, problem.target
    if voter.epsilon == math.inf:
        seconds = _interpolated(
            _non_private_line(K, several=problem.affected > 1, no_delta=target.delta == 0), target.epsilon
        )
    else:
        # a search that proves nothing ends at the best monotone γ, which takes about as long as at a small Δ
        Delta = voter.delta if problem.K <= MAX_PASSED_K or K * voter.delta <= MAX_EVALUATED_MEAN else TABLE_DELTAS[1]
        m = problem.m
        seconds = _interpolated(_line(K, Delta, voter.epsilon, no_delta=target.delta == 0), 3.0 if m is None else m)
    return max(MIN_SOLVE_SECONDS, seconds) * (1.0 if _has_kernel() else NUMPY_FACTOR)


def _interpolated(line: tuple[tuple[float, float], ...], at: float) -> float:
    """Return the time on a line of (place, ln seconds), the places in order; constant beyond its ends."""
    place = math.log(max(at, 1e-300))
    for (low, first), (high, second) in pairwise(line):
        if place <= high:
            share = max(0.0, (place - low) / (high - low)) if high > low else 0.0
            return math.exp(first + share * (second - first))
    return math.exp(line[-1][1])


@lru_cache(maxsize=1024)
def _line(K: int, Delta: float, epsilon: float, *, no_delta: bool) -> tuple[tuple[float, float], ...]:
    """Return (ln m, ln seconds) at the m of the table."""
    values = [0.0] * 5
    for d, share_d in _neighbours(TABLE_DELTAS, Delta):
        letters = 2 if d else 1  # with Δ = 0, δ = 0 is the default
        for k, share_k in _neighbours(TABLE_KS, K):
            row = TIMES[TABLE_KS[k], TABLE_DELTAS[d]]
            for e, share_e in _neighbours(TABLE_EPSILONS, epsilon):
                for m in range(5):
                    place = (m * len(TABLE_EPSILONS) + e) * letters + (letters - 1) * no_delta
                    values[m] += share_d * share_k * share_e * _log_seconds(row[place])
    exponent = EXPONENTS[takes_passes(K, Delta)]
    beyond = exponent * max(0.0, math.log(K / TABLE_KS[-1]))
    places = (1.05, 1.5, 3.0, K / 8, K / 2)
    return tuple(sorted((math.log(place), value + beyond) for place, value in zip(places, values, strict=True)))


@lru_cache(maxsize=1024)
def _non_private_line(K: int, *, several: bool, no_delta: bool) -> tuple[tuple[float, float], ...]:
    """Return (ln target ε, ln seconds) at the targets of the table; a record affects one voter or ``several``."""
    values = [EXPONENTS[False] * max(0.0, math.log(K / TABLE_KS[-1]))] * len(TABLE_EPSILONS)
    for k, share in _neighbours(TABLE_KS, K):
        for e in range(len(TABLE_EPSILONS)):
            letter = TIMES_NON_PRIVATE[TABLE_KS[k]][(several * len(TABLE_EPSILONS) + e) * 2 + no_delta]
            values[e] += share * _log_seconds(letter)
    return tuple((math.log(epsilon), value) for epsilon, value in zip(TABLE_EPSILONS, values, strict=True))


def _neighbours(nodes: tuple[float, ...], value: float) -> list[tuple[int, float]]:
    """Return the places of the nodes beside a value, each with its share by logarithms; 0 is a node of its own."""
    if value <= nodes[0]:
        return [(0, 1.0)]
    for i, (low, high) in enumerate(pairwise(nodes)):
        if value <= high:
            share = math.log(value / low) / math.log(high / low) if low > 0 else 1.0
            return [(i, 1.0 - share), (i + 1, share)]
    return [(len(nodes) - 1, 1.0)]


def _log_seconds(letter: str) -> float:
    return math.log(LEAST) + (ord(letter) - ord("a")) * math.log(FACTOR)


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
    from darrm_opt.bagging.guarantee import checked_bags
    from darrm_opt.planning.candidates import check_draw, mixture_steps

    bags = checked_bags(problem, **draw)
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
