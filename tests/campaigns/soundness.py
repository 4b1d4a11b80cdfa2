"""Is everything that is certified private, and would a plain solver's answer have been?

Random problems (`strategies`); for each

- the certified γ of `solve` is evaluated in ball arithmetic at the strictest reading of the problem, and in decimals of
  70 digits, straight from the paper's inequality, at the numbers as they were written: at its worst multisets and at
  random ones. Nothing may come out above the limit;
- the certified γ is verified by every search there is here, compiled and NumPy, whichever made the certificate; and the
  bound of each on a random γ is held against φ in decimals at the worst multisets that any of them knows;
- where the whole constraint set is small enough to be one program, the answers that HiGHS gives to it, at its default
  and at its tightest tolerances, clipped to [0, 1] and otherwise untouched, are evaluated in the same decimals.

    PYTHONPATH=tests python -m campaigns.soundness --problems 10000 --write docs/soundness.md
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from scipy.optimize import linprog
from support.exact import NEGLIGIBLE, Voters, named, random_multiset
from support.kernels import PATHS, searched_by
from support.strategies import SIZES, ProblemCase, random_case, random_noise

from campaigns.driver import Campaign, Row, Tally, listed, shares_within, table
from darrm_opt import NoiseFunction, Problem, Solution, solve, verify
from darrm_opt.design.constraint import LABELS, ConstraintGenerator, PrivacyConstraint
from darrm_opt.design.objective import rectangular
from darrm_opt.design.separation.ball_arithmetic import BallConstraint
from darrm_opt.design.separation.oracle import worst_case
from darrm_opt.errors import NotPrivate

WORST, RANDOM = 12, 3  # multisets looked at for each γ: the worst that the search knows, and some others

NEAR = 1e-10
"""Multisets whose φ is this near the largest count as worst ones: a solver leaves those at the limit nearer."""

WHOLE = 12_000  # most rows of a program that is given to the plain solver whole

SEARCHES = {"c": "compiled", "numpy": "NumPy"}

TOLERANCES = {"default": 1e-7, "tightest": 1e-10}  # HiGHS's own 1e-7, and the least that it accepts


@dataclass(frozen=True)
class Finding:
    case: ProblemCase  # its numbers
    solution: Solution  # the certified answer
    # multisets at which the certified γ is not private; empty, or the product is wrong
    broken: tuple[dict[str, int], ...]
    # for each of `TOLERANCES` the extra δ that the plain answer needs at its worst multiset [probability], 0 if it
    # needs none, NaN if there is no answer; empty where the program is too large
    plain: dict[str, float]
    refused_by: tuple[str, ...]  # searches by which the certified γ does not verify; empty, or one of them is wrong
    exceeded: tuple[str, ...]  # searches whose bound on a random γ lies below φ somewhere; empty, or they are wrong


def examine(case: ProblemCase, rng: np.random.Generator) -> Finding:
    """Solve one problem, and evaluate its certified and its plain answers exactly."""
    solution = solve(case.problem)
    other_multisets = [solution.certificate.worst_corners, *(random_multiset(rng, case.problem) for _ in range(RANDOM))]
    multisets = [*worst_multisets(case.problem, solution.noise), *other_multisets]
    return Finding(
        case,
        solution,
        breaches(case, solution.noise, multisets),
        plain_answers(case.problem),
        refusals(case.problem, solution.noise),
        exceeded_bounds(case.problem, random_noise(rng, case.K)),
    )


def refusals(problem: Problem, noise: NoiseFunction) -> tuple[str, ...]:
    """Return the searches that do not prove a γ private which another one proved."""
    refusing = []
    for path in PATHS:
        with searched_by(path):
            try:
                verify(problem, noise)
            except NotPrivate:
                refusing.append(path)
    return tuple(refusing)


def exceeded_bounds(problem: Problem, noise: NoiseFunction) -> tuple[str, ...]:
    """Return the searches whose bound is exceeded at a multiset that one of them knows."""
    constraint, voters, worst_by_path = PrivacyConstraint.of(problem), Voters.of(problem.strictest), {}
    for path in PATHS:
        with searched_by(path):
            worst_by_path[path] = worst_case(noise, constraint, above=-math.inf, most=3)
    known_counts = [counts for worst in worst_by_path.values() for counts in (worst.counts, *worst.cuts)]
    largest = max(voters.phi(noise.values, named(counts)) for counts in known_counts)
    return tuple(path for path, worst in worst_by_path.items() if largest > Decimal(worst.bound) + NEGLIGIBLE)


def breaches(
    case: ProblemCase, noise: NoiseFunction, multisets: Sequence[dict[str, int]]
) -> tuple[dict[str, int], ...]:
    """Return the multisets at which a γ is not private, by either exact arithmetic."""
    Delta = 0.0 if case.epsilon == math.inf else case.Delta
    ball = BallConstraint(case.problem)
    as_written = Voters(case.K, case.epsilon, Delta, case.target_epsilon, case.delta)
    corners, broken = ball.vertices(), []
    for voters in multisets:
        counts = np.array([voters.get(label, 0) for label in LABELS], dtype=np.int64)
        excess = ball.value_at(noise, counts, corners) - ball.limit
        if not excess <= 0 or as_written.excess(noise.values, voters) > NEGLIGIBLE:
            broken.append(dict(voters))
    return tuple(broken)


def worst_multisets(problem: Problem, noise: NoiseFunction) -> list[dict[str, int]]:
    """Return the multisets with the largest φ."""
    constraint = PrivacyConstraint.of(problem)
    largest = worst_case(noise, constraint, above=-math.inf)
    near = worst_case(noise, constraint, above=largest.value - NEAR, most=WORST)
    return [named(largest.counts), *(named(cut) for cut in near.cuts)]


def plain_answers(problem: Problem) -> dict[str, float]:
    """Return the extra δ that HiGHS's answers to the whole program need, for the problem's numbers as they stand."""
    generator = ConstraintGenerator(problem)
    if generator.size > WHOLE:
        return {}
    constraint, weights, exact = PrivacyConstraint.of(problem), rectangular().weights(problem.K), Voters.of(problem)
    rows = np.concatenate([constraint.rows(block) for block in generator.blocks()])
    limits = np.full(len(rows), float(exact.limit()))
    extra_deltas = {}
    for name, tolerance in TOLERANCES.items():
        answer = linprog(
            -weights,
            A_ub=rows,
            b_ub=limits,
            bounds=(0, 1),
            method="highs",
            options={"primal_feasibility_tolerance": tolerance, "dual_feasibility_tolerance": tolerance},
        ).x
        if answer is None:
            extra_deltas[name] = math.nan
            continue
        noise = NoiseFunction.from_upper_half(np.clip(answer, 0.0, 1.0), problem.K)
        worst = max(exact.excess(noise.values, voters) for voters in worst_multisets(problem, noise))
        extra = float(worst * Decimal(problem.target.epsilon).exp() / 2)
        extra_deltas[name] = min(1.0, extra) if worst > NEGLIGIBLE else 0.0
    return extra_deltas


def finding(seed: int, number: int, sizes: Sequence[int] = SIZES, *, largest_Delta: float = 0.3) -> Finding:
    rng = np.random.default_rng((seed, number))
    return examine(random_case(rng, sizes, largest_Delta=largest_Delta), rng)


def row(found: Finding) -> Row:
    case, solution = found.case, found.solution
    of_problem = {
        "K even": case.K % 2 == 0,
        "K = 1": case.K == 1,
        "ε = inf": case.epsilon == math.inf,
        "ε = 0": case.epsilon == 0,
        "Δ = 0": case.Delta == 0,
        "Δ > 0.01": case.Delta > 0.01,
        "δ < Δ": case.delta < case.Delta,
        "affected < K": case.affected < case.K,
        "target ε = 0": case.target_epsilon == 0,
        "target ε = 20": case.target_epsilon == 20,
    }
    kinds = [f"problem: {kind}" for kind, holds in of_problem.items() if holds]
    kinds += [f"status: {solution.status.value}", f"method: {solution.certificate.method}"]
    kinds += [f"refused: {path}" for path in found.refused_by] + [f"exceeded: {path}" for path in found.exceeded]
    kinds += ["not private: certified"] if found.broken else []
    faults = [f"not private at {multiset}: {case}" for multiset in found.broken]
    faults += [f"refused by {path}: {case}" for path in found.refused_by]
    faults += [f"bound of {path} exceeded: {case}" for path in found.exceeded]
    return Row(faults, kinds, {"gap": solution.gap, **found.plain})


def lines(tally: Tally) -> Iterator[str]:
    count, broken = len(tally.rows), tally.kinds("not private").total()
    answers = [("certified", count, broken, f"{broken / max(1, count):.1%}", "–")]
    for name in TOLERANCES:
        extra = np.array([value for value in tally.values(name) if not math.isnan(value)])
        positive = extra[extra > 0]
        size = f"{np.median(positive):.1e}, {positive.max():.1e}" if positive.size else "–"
        share = f"{positive.size / max(1, extra.size):.1%}"
        answers.append((f"HiGHS alone, {name} tolerances", extra.size, positive.size, share, size))
    head = ("answer", "problems", "not private as doubles", "share", "extra δ needed: median, largest")
    yield from table(head, answers)
    yield ""
    refused, exceeded = tally.kinds("refused"), tally.kinds("exceeded")
    searches = [(SEARCHES[p], f"{refused[p]} of {count}", f"{exceeded[p]} of {count}") for p in PATHS]
    yield from table(("search", "certified γ that it refuses", "bounds on a random γ that are exceeded"), searches)
    yield ""
    yield f"Problems by kind: {listed(tally.kinds('problem'))}"
    yield f"Solves by status: {listed(tally.kinds('status'))}"
    yield f"Certificates by method: {listed(tally.kinds('method'))}"
    yield f"Gaps: {shares_within(tally.values('gap'), (1e-9, 1e-6, 1e-3))}."


CAMPAIGN = Campaign(
    "soundness",
    __doc__,
    "problems",
    10_000,
    lambda seed, number: row(finding(seed, number)),
    lines,
    verb="soundness",
    packages=("highspy", "scipy", "numpy", "python-flint"),
)

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main())
